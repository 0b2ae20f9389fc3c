/** The encryption of secrets alone: what binds a sealed value to its place. */
import { Buffer } from 'node:buffer'
import { createDecipheriv } from 'node:crypto'
import { expect, test } from 'vitest'
import { parseSecretOptions, type KeyRing } from '../../src/engine/services/secrets/secret-keys.js'
import { openSecret, rewrapSecret, sealSecret } from '../../src/engine/services/secrets/secret-records.js'
import type { SecretPlace, SecretRecord } from '../../src/engine/records/secret.js'
import { limits, memoryStorage, openEngine, type Engine } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'

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

test('a rotation rewraps all secrets of sessions that are not in memory, a few at a time', async () => {
  lowerBound(limits, 'secretsPerCommit', 2)
  const storage = memoryStorage({ durable: true })
  const open = (...fills: readonly number[]): Promise<Engine> => {
    const [masterKey, ...previousKeys] = fills.map((fill) => ({ id: `key ${fill}`, key: keyOf(fill) }))
    return openEngine({ storage, secrets: { masterKey: masterKey!, previousKeys } })
  }
  const counts = [0, 1, 2, 3, 5]
  const ids: string[] = []
  {
    await using engine = await open(1)
    for (const count of counts) {
      const session = await engine.sessions.create()
      for (let n = 0; n < count; n++)
        await session.secrets.put({ secretName: `s${n}`, secretValue: `${count} ${n}` })
      ids.push(session.id)
    }
  }
  {
    await using engine = await open(2, 1)
    expect(await engine.rotateSecrets()).toEqual({ rewrapped: 11 })
    expect(await engine.rotateSecrets()).toEqual({ rewrapped: 0 })
  }
  await using engine = await open(2)
  for (const [at, count] of counts.entries()) {
    const { secrets } = await engine.sessions.open(ids[at]!)
    for (let n = 0; n < count; n++)
      expect((await secrets.get({ secretName: `s${n}` })).secretValue.reveal()).toBe(`${count} ${n}`)
  }
})
