import { given } from '../../base/input.js'
import { Buffer } from 'node:buffer'
import type { Environment } from '../../base/environment.js'
import { EngineError } from '../../base/errors.js'
import { keyBytes, randomBytes, seal, unseal, type KeyEntry, type KeyRing } from './secret-keys.js'
import { secretKind, SecretScope, type SecretPlace, type SecretRecord } from '../../records/secret.js'

/** Encrypts a value with a new data key. */
export function sealSecret(
  environment: Environment,
  master: KeyEntry,
  place: SecretPlace,
  value: string,
): SecretRecord {
  const dataKey = randomBytes(environment, keyBytes)
  const { tenantKey, secretName, version } = place
  const sealed: SecretRecord = {
    tenantKey,
    secretName,
    version,
    scope: SecretScope.SESSION,
    keyId: master.id,
    keyPrint: master.print,
    dataKey: seal(environment, master.key, dataKey, contextOf('key', place)),
    value: seal(environment, dataKey, Buffer.from(value), contextOf('value', place)),
  }
  dataKey.fill(0)
  return sealed
}

/**
 * Decrypts the value of a secret.
 *
 * @throws {EngineError} NO_MASTER_KEY when the ring does not have the master key of the secret
 * @throws {EngineError} DATA_LOSS when the sealed text is damaged
 */
export function openSecret(ring: KeyRing, place: SecretPlace, sealed: SecretRecord): string {
  const dataKey = openDataKey(ring, place, sealed)
  const value = unseal(dataKey, sealed.value, contextOf('value', place))
  dataKey.fill(0)
  if (value === undefined) throw damagedSecret(place)
  return value.toString()
}

/** Wraps the data key of a secret with the current master key. The value's ciphertext does not change. */
export function rewrapSecret(
  environment: Environment,
  ring: KeyRing,
  place: SecretPlace,
  sealed: SecretRecord,
): SecretRecord {
  const dataKey = openDataKey(ring, place, sealed)
  const master = ring.current()
  const wrapped = seal(environment, master.key, dataKey, contextOf('key', place))
  dataKey.fill(0)
  return { ...sealed, keyId: master.id, keyPrint: master.print, dataKey: wrapped }
}

function openDataKey(ring: KeyRing, place: SecretPlace, sealed: SecretRecord): Buffer {
  const master = ring.find(sealed.keyPrint)
  if (master === undefined) {
    const { sessionId, secretName } = place
    throw new EngineError(
      'NO_MASTER_KEY',
      `the secret ${given(secretName)} is encrypted with another master key; open the engine with that key in secrets.previousKeys`,
      {
        sessionId,
        secretName,
        keyId: sealed.keyId,
      },
    )
  }
  const dataKey = unseal(master.key, sealed.dataKey, contextOf('key', place))
  if (dataKey?.length !== keyBytes) throw damagedSecret(place)
  return dataKey
}

export function damagedSecret({ sessionId, secretName }: Omit<SecretPlace, 'version'>): EngineError {
  const message = `the stored secret ${given(secretName)} is damaged and cannot be decrypted; put it again`
  return new EngineError('DATA_LOSS', message, { sessionId, secretName })
}

function contextOf(what: 'key' | 'value', place: SecretPlace): string {
  const { tenantKey, sessionId, secretName, version } = place
  return JSON.stringify(['forkspace secret', what, tenantKey, sessionId, secretName, version])
}

/** Parses a record. Returns undefined if the text is not a record of a secret with this name. */
export function parseSecretRecord(json: string, secretName: string): SecretRecord | undefined {
  try {
    const record = secretKind.parse(json)
    return record.secretName === secretName ? record : undefined
  } catch {
    return undefined
  }
}
