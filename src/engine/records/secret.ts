import { isCount, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The values of a secret's scope. */
export const SecretScope = {
  /** The secret belongs to one session. There is no other scope. */
  SESSION: 'SECRET_SCOPE_SESSION',
} as const
/** One of the values of {@link SecretScope}. */
export type SecretScope = (typeof SecretScope)[keyof typeof SecretScope]

/** Whose secret it is, and which: its ciphertext is of no use anywhere else. */
export interface SecretPlace {
  readonly tenantKey: string
  readonly sessionId: string
  readonly secretName: string
  /** From 1, one more with each value; from 1 again after a deletion. */
  readonly version: number
}

/** A secret as kept in memory and, as JSON, in storage. */
export interface SecretRecord extends Omit<SecretPlace, 'sessionId'> {
  readonly scope: SecretScope
  /** The master key that `dataKey` is wrapped with. */
  readonly keyId: string
  readonly keyPrint: string
  /** A key of this version alone, sealed with the master key. */
  readonly dataKey: string
  /** The value, sealed with the data key. */
  readonly value: string
}

export const secretKind = new RecordKind<SecretRecord>({
  name: 'secret',
  prefix: keyPrefixes.secret,
  scope: 'session',
  bundle: { absent: 'secrets do not leave the store' },
  checks: {
    tenantKey: isText,
    secretName: isText,
    version: isCount,
    scope: isOneOf(SecretScope),
    keyId: isText,
    keyPrint: isText,
    dataKey: isText,
    value: isText,
  },
})
