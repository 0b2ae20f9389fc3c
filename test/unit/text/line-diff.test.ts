import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runAtOnce } from '../../../src/engine/base/cooperative.js'
import { diffLines, type LineChange } from '../../../src/engine/text/line-diff.js'
import { byteTextOf, bytesOf, isBinary } from '../../../src/engine/text/byte-text.js'
import { LineTable, splitLines } from '../../../src/engine/text/lines.js'
import { isLong, runs, seed } from '../../support/seed.js'

function changesOf(a: Int32Array, b: Int32Array): LineChange[] {
  return runAtOnce(diffLines(a, b))
}

/** Checks that the changes are in order with equal lines between them, and that they give `b`. */
function check(a: Int32Array, b: Int32Array): number {
  const changes = changesOf(a, b)
  let [atA, atB, isValid] = [0, 0, true]
  for (const [index, { aStart, aEnd, bStart, bEnd }] of changes.entries()) {
    isValid &&= aStart - atA === bStart - atB && (index === 0 || aStart > atA)
    isValid &&= aEnd >= aStart && bEnd >= bStart && aEnd - aStart + bEnd - bStart > 0
    for (; atA < aStart; atA++, atB++) isValid &&= a[atA] === b[atB]
    ;[atA, atB] = [aEnd, bEnd]
  }
  isValid &&= a.length - atA === b.length - atB
  for (; atA < a.length; atA++, atB++) isValid &&= a[atA] === b[atB]
  expect(isValid).toBe(true)
  return changes.length
}

/** The length of the longest common subsequence. */
function longestCommon(a: Int32Array, b: Int32Array): number {
  let row = new Int32Array(b.length + 1)
  for (const one of a) {
    const next = new Int32Array(b.length + 1)
    for (let j = 0; j < b.length; j++)
      next[j + 1] = one === b[j] ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!)
    row = next
  }
  return row[b.length]!
}

test(`finds the fewest changed lines of short texts (FORKSPACE_SEED=${seed})`, () => {
  const lines = fc.array(fc.nat(6), { maxLength: 24, size: 'max' }).map((ids) => Int32Array.from(ids))
  fc.assert(
    fc.property(lines, lines, (a, b) => {
      check(a, b)
      const changed = changesOf(a, b).reduce(
        (sum, { aStart, aEnd, bStart, bEnd }) => sum + aEnd - aStart + bEnd - bStart,
        0,
      )
      // Lines that occur often are left out of the search of unlike texts.
      const fewest = a.length + b.length - 2 * longestCommon(a, b)
      expect(changed).toBeGreaterThanOrEqual(fewest)
      expect(changed).toBeLessThanOrEqual(fewest + 8)
    }),
    { seed, numRuns: runs(20_000) },
  )
})

const count = 100_000

function shuffled(ids: Int32Array): Int32Array {
  const result = ids.slice()
  let state = 1
  for (let i = result.length - 1; i > 0; i--) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    const j = state % (i + 1)
    ;[result[i], result[j]] = [result[j]!, result[i]!]
  }
  return result
}

const numbered = Int32Array.from({ length: count }, (_, i) => i)
const mostlyEqual = Int32Array.from({ length: count }, (_, i) => (i % 10 === 0 ? i + 1 : 0))

const forms: [string, Int32Array, Int32Array, number][] = [
  ['shuffled, of which most are equal', mostlyEqual, shuffled(mostlyEqual), 40_000],
  ['shuffled', numbered, shuffled(numbered), 40_000],
  ['of ten kinds, shuffled', numbered.map((i) => i % 10), shuffled(numbered.map((i) => i % 10)), 60_000],
  ['in reverse order', numbered, numbered.slice().reverse(), 2],
  ['of seven kinds, shifted by three', numbered.map((i) => i % 7), numbered.map((i) => (i + 3) % 7), 2],
  ['that are all equal, and 333 fewer', new Int32Array(count), new Int32Array(count - 333), 1],
]
test.each(isLong ? forms : forms.slice(2))('compares 100,000 lines %s', (_case, a, b, mostChanges) => {
  expect(check(a, b)).toBeLessThanOrEqual(mostChanges)
})

test('splits lines so that their bytes stay exact', () => {
  const bytes = Uint8Array.of(0xff, 0x0d, 0x0a, 0x0a, 0x80, 0x0d, 0xc3)
  const lines = runAtOnce(splitLines(byteTextOf(bytes)))
  expect(lines).toEqual(['\xff\r\n', '\n', '\x80\r\xc3'])
  expect(Uint8Array.from(bytesOf(lines.join('')))).toEqual(bytes)
  expect(runAtOnce(splitLines(''))).toEqual([])
  expect(runAtOnce(splitLines('a\n'))).toEqual(['a\n'])
  expect([...runAtOnce(new LineTable().idsOf(['a\n', 'a', 'a\n', 'a\r\n']))]).toEqual([0, 1, 0, 2])
})

test('a file is binary if its first 8,000 bytes have a NUL', () => {
  const bytes = new Uint8Array(8001).fill(0x61)
  expect(isBinary(bytes.fill(0, 8000))).toBe(false)
  expect(isBinary(bytes.fill(0, 7999))).toBe(true)
})
