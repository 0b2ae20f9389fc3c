import { Buffer } from 'node:buffer'
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Environment } from '../../base/environment.js'
import { EngineError, invalid } from '../../base/errors.js'
import { isBytes, parseText, readBytes, readList, given } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'

/** A master key of secrets: 32 random bytes, alone or with an id. */
export type MasterKey =
  | Uint8Array
  | {
      /** A name for the key that errors show, 1 to 128 bytes. Different keys have different ids. */
      readonly id: string
      /** 32 random bytes. They are copied. */
      readonly key: Uint8Array
    }

/** Options of the engine for secrets. */
export interface SecretOptions {
  /**
   * Encrypts the keys of all secrets. Keep it apart from the storage. Without it, secrets of a durable storage cannot
   * be read.
   */
  readonly masterKey?: MasterKey
  /**
   * Earlier master keys that secrets of this storage may still need, at most 1,000; see `engine.rotateSecrets()`. None
   * by default.
   */
  readonly previousKeys?: readonly MasterKey[]
}

const optionsShape = new Shape<SecretOptions>({ masterKey: true, previousKeys: true })

const keyShape = new Shape<Exclude<MasterKey, Uint8Array>>({ id: true, key: true })

/** A master key in the key ring of an engine. */
export interface KeyEntry {
  readonly id: string
  /** Identifies the key without revealing it: 32 hex digits of a keyed hash. */
  readonly print: string
  readonly key: KeyObject
}

export const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const cipher = 'aes-256-gcm'

/** The master keys of an engine: one for encryption, and all for decryption. */
export class KeyRing {
  readonly #current: KeyEntry | undefined
  readonly #byPrint = new Map<string, KeyEntry>()

  constructor(current: KeyEntry | undefined, previous: readonly KeyEntry[] = []) {
    this.#current = current
    for (const entry of current === undefined ? previous : [current, ...previous])
      if (!this.#byPrint.has(entry.print)) this.#byPrint.set(entry.print, entry)
  }

  get usable(): boolean {
    return this.#current !== undefined
  }

  /** @throws {EngineError} NO_MASTER_KEY when the engine has no master key */
  current(): KeyEntry {
    if (this.#current !== undefined) return this.#current
    throw new EngineError(
      'NO_MASTER_KEY',
      'the engine was opened without a master key: pass the option secrets: { masterKey }',
    )
  }

  find(print: string): KeyEntry | undefined {
    return this.#byPrint.get(print)
  }
}

/**
 * Parses the options, and copies the keys.
 *
 * @throws {EngineError} INVALID_ARGUMENT when a key is invalid, or two different keys have the same id
 */
export function parseSecretOptions(options: SecretOptions | undefined): KeyRing {
  if (options === undefined) return new KeyRing(undefined)
  const { masterKey, previousKeys = [] } = optionsShape.readPart(options, 'secrets')
  const previous = readList('secrets.previousKeys', previousKeys, limits.previousKeys, 'keys').map(
    (key, index) => parseKey(`secrets.previousKeys[${index}]`, key),
  )
  if (masterKey === undefined) {
    if (previous.length > 0)
      throw invalid('secrets.masterKey', 'is missing; previousKeys alone cannot encrypt secrets')
    return new KeyRing(undefined)
  }
  const current = parseKey('secrets.masterKey', masterKey)
  const ids = new Map([[current.id, current.print]])
  for (const { id, print } of previous) {
    if ((ids.get(id) ?? print) !== print)
      throw invalid(
        'secrets.previousKeys',
        `has the id ${given(id)}, which another key also has; give each key a unique id`,
      )
    ids.set(id, print)
  }
  return new KeyRing(current, previous)
}

/** A random key, for secrets that exist only as long as the engine. */
export function randomKeyRing(environment: Environment): KeyRing {
  return new KeyRing(keyEntry(undefined, randomBytes(environment, keyBytes)))
}

function parseKey(field: string, given: unknown): KeyEntry {
  if (isBytes(given)) return keyEntry(undefined, parseKeyBytes(field, given))
  const { id, key } = keyShape.readPart(given as Exclude<MasterKey, Uint8Array>, field)
  const text = parseText(`${field}.id`, id, limits.masterKeyIdBytes)
  if (text === '') throw invalid(`${field}.id`, 'must not be empty')
  return keyEntry(text, parseKeyBytes(`${field}.key`, key))
}

function parseKeyBytes(field: string, bytes: unknown): Uint8Array {
  const expected = `must be a Uint8Array of ${keyBytes} bytes`
  const key = readBytes(field, bytes, expected)
  if (key.byteLength !== keyBytes) throw invalid(field, `${expected}; it has ${key.byteLength}`)
  return key
}

function keyEntry(id: string | undefined, bytes: Uint8Array): KeyEntry {
  const key = createSecretKey(bytes)
  const print = createHmac('sha256', key).update('forkspace master key').digest('hex').slice(0, 32)
  return { id: id ?? print, print, key }
}

export function randomBytes(environment: Environment, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  environment.randomFill(bytes)
  return bytes
}

/** Encrypts with a random nonce. The result is the nonce, the tag and the ciphertext, in base64. */
export function seal(
  environment: Environment,
  key: KeyObject | Uint8Array,
  plaintext: Uint8Array,
  context: string,
): string {
  const nonce = randomBytes(environment, nonceBytes)
  const sealing = createCipheriv(cipher, key, nonce, { authTagLength: tagBytes }).setAAD(Buffer.from(context))
  const ciphertext = Buffer.concat([sealing.update(plaintext), sealing.final()])
  return Buffer.concat([nonce, sealing.getAuthTag(), ciphertext]).toString('base64')
}

/** Decrypts the bytes. Returns undefined if the text is damaged, or belongs to another key or context. */
export function unseal(key: KeyObject | Uint8Array, text: string, context: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length < nonceBytes + tagBytes || bytes.toString('base64') !== text) return undefined
  const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
    .setAAD(Buffer.from(context))
    .setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  try {
    return Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
  } catch {
    return undefined
  }
}
