import { expect, test } from 'vitest'
import { EventSequence } from '../../src/adapters/level/log/event-sequence.js'

const event = (sessionId: string, seq: number): { sessionId: string; seq: number; body: unknown[] } => ({
  sessionId,
  seq,
  body: [],
})

test('gives all numbers back that a commit took before the index could not be read', () => {
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

test('gives all numbers back of a commit of which a later event was passed', () => {
  const sequence = new EventSequence((sessionId, seq) => sessionId === 'b' && seq === 1)
  expect(sequence.claim([event('a', 1), event('a', 2), event('b', 1)])).toBe(false)
  expect(sequence.claim([event('a', 1)])).toBe(true)
})
