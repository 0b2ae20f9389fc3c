import { expect, test } from 'vitest'
import { EventSequence } from '../../src/adapters/level/log/event-sequence.js'

const event = (sessionId: string, seq: number): { sessionId: string; seq: number; body: unknown[] } => ({
  sessionId,
  seq,
  body: [],
})

test('releases all numbers of a commit if the index cannot be read', () => {
  let fails = true
  const sequence = new EventSequence((sessionId) => {
    if (sessionId === 'b' && fails) throw new Error('a page is damaged')
    return false
  })
  const events = [event('a', 1), event('a', 2), event('b', 1)]
  expect(() => sequence.claim(events)).toThrow('a page is damaged')
  fails = false
  expect(sequence.claim(events)).toBe(true)
  expect(sequence.claim([event('a', 3)])).toBe(true)
})

test('releases all numbers of a commit if one of its events was passed', () => {
  const sequence = new EventSequence((sessionId, seq) => sessionId === 'b' && seq === 1)
  expect(sequence.claim([event('a', 1), event('a', 2), event('b', 1)])).toBe(false)
  expect(sequence.claim([event('a', 1)])).toBe(true)
})
