/** The order and structure of ids. */
import { expect, test } from 'vitest'
import { IdSource, idLength, isId } from '../../src/engine/base/ids.js'
import { fixedEnvironment } from '../../src/testing.js'

test('ids of the same millisecond are in creation order', () => {
  const ids = new IdSource(fixedEnvironment({ stepMs: 0 }))
  const made = Array.from({ length: 1000 }, () => ids.newId())
  expect(made.toSorted()).toEqual(made)
  // Their time parts differ too, so the random part does not decide.
  expect(new Set(made.map((id) => id.slice(0, 10))).size).toBe(1000)
  for (const id of made) expect([isId(id), id.length]).toEqual([true, idLength])
})

test('an id is greater than one of an earlier process whose clock was ahead', () => {
  const ahead = new IdSource(fixedEnvironment({ startMs: Date.UTC(2030, 0, 1) })).newId()
  const ids = new IdSource(fixedEnvironment({ startMs: Date.UTC(2025, 0, 1), stepMs: 0 }))
  const before = ids.newId()
  expect(before < ahead).toBe(true)
  const after = ids.newId(ahead)
  expect(after > ahead).toBe(true)
  expect(ids.newId(after) > after).toBe(true)
  // A smaller id has no effect, and no other id is moved into the future.
  const later = ids.newId(before)
  expect(later > before && later < ahead).toBe(true)
  expect(ids.newId() > later).toBe(true)
})

test('ids stay valid and in order when the clock is absurdly far ahead, and afterwards', () => {
  let now = Date.UTC(2030, 0, 1)
  const ids = new IdSource({ ...fixedEnvironment(), wallClockMs: () => now })
  const made = [ids.newId()]
  for (const reading of [Date.UTC(9999, 11, 31), Date.UTC(2030, 0, 2)]) {
    now = reading
    for (let count = 0; count < 100; count++) made.push(ids.newId())
  }
  expect(made.toSorted()).toEqual(made)
  expect(made.every(isId)).toBe(true)
})

test('an inode number is a safe integer other than 0', () => {
  const zeros = { ...fixedEnvironment(), randomFill: (bytes: Uint8Array) => void bytes.fill(0) }
  const ones = { ...zeros, randomFill: (bytes: Uint8Array) => void bytes.fill(255) }
  expect(new IdSource(zeros).newIno()).toBe(1)
  expect(new IdSource(ones).newIno()).toBe(Number.MAX_SAFE_INTEGER)
})
