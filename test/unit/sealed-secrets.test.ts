/** The encryption of secrets alone: what binds a sealed value to its place. */
import { Buffer } from 'node:buffer'
import { createDecipheriv } from 'node:crypto'
import { expect, test } from 'vitest'
import { parseSecretOptions, type KeyRing } from '../../src/engine/services/secrets/secret-keys.js'
import { openSecret, rewrapSecret, sealSecret } from '../../src/engine/services/secrets/secret-records.js'
import type { SecretPlace, SecretRecord } from '../../src/engine/records/secret.js'
import { fixedEnvironment } from '../../src/testing.js'

const environment = fixedEnvironment()
const keyOf = (fill: number): Uint8Array => new Uint8Array(32).fill(fill)
const ringOf = (...fills: readonly number[]): KeyRing => {
  const [masterKey, ...previousKeys] = fills.map((fill) => ({ id: `key ${fill}`, key: keyOf(fill) }))
  return parseSecretOptions({ masterKey: masterKey!, previousKeys })
}
const place: SecretPlace = { tenantKey: 'tenant', sessionId: 'session', secretName: 'name', version: 3 }
const ring = ringOf(1)
const sealed = sealSecret(environment, ring.current(), place, 'välue')
const others: readonly SecretPlace[] = [
  { ...place, tenantKey: 'other' },
  { ...place, sessionId: 'other' },
  { ...place, secretName: 'other' },
  { ...place, version: 2 },
]
const damaged = expect.objectContaining({ reason: 'DATA_LOSS' }) as Error

/** Decrypts as an earlier version does: nonce, tag and ciphertext, for a context. */
function opened(key: Uint8Array, text: string, context: readonly unknown[]): Buffer {
  const bytes = Buffer.from(text, 'base64')
  const opening = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
  opening.setAAD(Buffer.from(JSON.stringify(context))).setAuthTag(bytes.subarray(12, 28))
  return Buffer.concat([opening.update(bytes.subarray(28)), opening.final()])
}

const contextOf = (what: string): readonly unknown[] => [
  'forkspace secret',
  what,
  'tenant',
  'session',
  'name',
  3,
]

test.each(['sealed', 'rewrapped'])('a %s secret has the stored form', (how) => {
  const [record, fill] =
    how === 'sealed' ? [sealed, 1] : [rewrapSecret(environment, ringOf(2, 1), place, sealed), 2]
  const dataKey = opened(keyOf(fill), record.dataKey, contextOf('key'))
  expect(dataKey).toHaveLength(32)
  expect(opened(dataKey, record.value, contextOf('value')).toString()).toBe('välue')
  expect(record).toMatchObject({ tenantKey: 'tenant', secretName: 'name', version: 3, keyId: `key ${fill}` })
  expect(openSecret(ringOf(fill), place, record)).toBe('välue')
})

test.each(others)('a secret cannot be opened or rewrapped at %j', (other) => {
  expect(() => openSecret(ring, other, sealed)).toThrow(damaged)
  expect(() => rewrapSecret(environment, ring, other, sealed)).toThrow(damaged)
  // Neither can its value with the data key of the right place.
  const there = sealSecret(environment, ring.current(), other, 'other')
  expect(() => openSecret(ring, place, { ...sealed, value: there.value })).toThrow(damaged)
  expect(() => openSecret(ring, place, { ...sealed, dataKey: there.dataKey })).toThrow(damaged)
})

test('a data key is no value, and a value is no data key', () => {
  const swapped = { ...sealed, dataKey: sealed.value, value: sealed.dataKey }
  expect(() => openSecret(ring, place, swapped)).toThrow(damaged)
})

test('a secret is opened only by a ring that has its key, and rewrapped for the current one', () => {
  const missing = expect.objectContaining({
    reason: 'NO_MASTER_KEY',
    details: expect.anything() as object,
  }) as Error
  expect(() => openSecret(ringOf(2), place, sealed)).toThrow(missing)
  expect(() => rewrapSecret(environment, ringOf(2), place, sealed)).toThrow(missing)
  const rewrapped = rewrapSecret(environment, ringOf(2, 1), place, sealed)
  expect(rewrapped.value).toBe(sealed.value)
  expect(() => openSecret(ring, place, rewrapped)).toThrow(missing)
  expect([ringOf(2), ringOf(1, 2), ringOf(3, 1, 2)].map((one) => openSecret(one, place, rewrapped))).toEqual(
    Array.from({ length: 3 }, () => 'välue'),
  )
})

test('equal values are sealed differently, and damage of any byte is found', () => {
  const again = sealSecret(environment, ring.current(), place, 'välue')
  for (const field of ['dataKey', 'value'] as const) {
    expect(again[field]).not.toBe(sealed[field])
    const bytes = Buffer.from(sealed[field], 'base64')
    for (let at = 0; at < bytes.length; at++) {
      const wrong = Buffer.from(bytes)
      wrong[at]! ^= 1
      const texts = [wrong, bytes.subarray(0, at)].map((one) => one.toString('base64'))
      for (const text of [...texts, `${sealed[field]} `]) {
        const record: SecretRecord = { ...sealed, [field]: text }
        expect(() => openSecret(ring, place, record), `${field} ${at}`).toThrow(damaged)
      }
    }
  }
})
