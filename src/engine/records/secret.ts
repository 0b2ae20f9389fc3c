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

/** The owner, name and version of a secret. The ciphertext can be decrypted only with these values. */
export interface SecretPlace {
  readonly tenantKey: string
  readonly sessionId: string
  readonly secretName: string
  /** Starts at 1 and grows by one with each value. After a deletion, it starts at 1 again. */
  readonly version: number
}

/** A secret as kept in memory and, as JSON, in storage. */
export interface SecretRecord extends Omit<SecretPlace, 'sessionId'> {
  readonly scope: SecretScope
  /** The id of the master key that wraps `dataKey`. */
  readonly keyId: string
  readonly keyPrint: string
  /** The data key, encrypted with the master key. Each version has a data key of its own. */
  readonly dataKey: string
  /** The value, encrypted with the data key. */
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
