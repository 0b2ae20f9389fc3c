/** The parts that bound what reading a pack costs. */
import { describe, expect, test } from 'vitest'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { HeldDeltas } from '../../src/adapters/git/pack/held-deltas.js'
import { PackBudget } from '../../src/adapters/git/pack/pack-budget.js'
import { PackEntries } from '../../src/adapters/git/pack/pack-entries.js'

const tooLarge = expect.objectContaining({ reason: 'GIT_TOO_LARGE' }) as unknown

describe('the budget of a pack', () => {
  test('is for all bytes that came', () => {
    const budget = new PackBudget()
    budget.receive(gitLimits.packBytes - 1)
    budget.receive(1)
    expect(() => budget.receive(1)).toThrow(tooLarge)
  })

  test('grows with the bytes that came', () => {
    const budget = new PackBudget()
    for (let times = 0; times < 2; times++) budget.receive(1000)
    budget.inflate(gitLimits.inflatedBytesFree + 2000 * gitLimits.inflatedBytesPerByte)
    expect(() => budget.inflate(1)).toThrow(tooLarge)
    budget.hold(gitLimits.deltaBytesFree + 2000 * gitLimits.deltaBytesPerByte)
    expect(() => budget.hold(gitLimits.deltaBytesFree + 2000 * gitLimits.deltaBytesPerByte + 1)).toThrow(
      tooLarge,
    )
  })
})

test('deltas that were taken make room for others', () => {
  const held = new HeldDeltas()
  const delta = Buffer.alloc(gitLimits.heldDeltaBytes / 2)
  for (let entry = 0; entry < 5; entry++) {
    held.add('base', { entry, delta })
    expect(held.take(-1, 'base')).toHaveLength(1)
  }
  held.add('base', { entry: 5, delta })
  expect(() => held.add('base', { entry: 6, delta })).toThrow(tooLarge)
})

test('entries are found by their ids, and others are not, however many there are', () => {
  const entries = new PackEntries('sha1')
  const idOf = (entry: number): string => entry.toString(16).padStart(8, '0').padEnd(40, 'a')
  expect(entries.find(idOf(0))).toBeUndefined()
  for (let entry = 0; entry < 5000; entry++) {
    entries.resolve(entries.add(entry * 10), idOf(entry), 0)
    if (entry % 512 !== 511) continue
    expect(entries.find(idOf(entry))).toBe(entry)
    expect(entries.find(idOf(entry + 1))).toBeUndefined()
  }
})
