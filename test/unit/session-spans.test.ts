import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SessionSpans } from '../../src/engine/services/merge/session-spans.js'
import { runs, seed } from '../support/seed.js'

test('has the states of its spans, and no others', () => {
  const spans = new SessionSpans()
  expect(spans.has(0)).toBe(false)
  expect([spans.add(10, 12), spans.add(0, 4), spans.add(20, 20)]).toEqual([true, true, true])
  const all = Array.from({ length: 25 }, (_, seq) => seq)
  expect(all.filter((seq) => spans.has(seq))).toEqual([0, 1, 2, 3, 4, 10, 11, 12, 20])
})

test('a known span only grows', () => {
  const spans = new SessionSpans()
  spans.add(10, 12)
  expect([spans.add(10, 11), spans.has(12), spans.has(13)]).toEqual([false, true, false])
  expect([spans.add(10, 13), spans.has(13)]).toEqual([false, true])
})

test('common states are the last ones of the spans that both have', () => {
  const [a, b] = [new SessionSpans(), new SessionSpans()]
  a.add(20, 25)
  a.add(10, 12)
  a.add(0, 4)
  b.add(0, 9)
  b.add(20, 22)
  expect(a.common(b)).toEqual([22, 4])
  b.addAll(a)
  expect(b.common(a)).toEqual([4, 25, 12])
})

test(`has what a list of states has (FORKSPACE_SEED=${seed})`, () => {
  const added = fc.array(fc.tuple(fc.nat(9), fc.nat(9)))
  fc.assert(
    fc.property(added, (list) => {
      const spans = new SessionSpans()
      const known = new Set<number>()
      for (const [start, length] of list) {
        spans.add(start * 10, start * 10 + length)
        for (let seq = start * 10; seq <= start * 10 + length; seq++) known.add(seq)
        for (let seq = 0; seq < 100; seq++) expect(spans.has(seq)).toBe(known.has(seq))
      }
    }),
    { seed, numRuns: runs(1000) },
  )
})
