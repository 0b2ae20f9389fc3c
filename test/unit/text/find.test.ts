/** Searches for texts and lines, and how lines are shown. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runAtOnce } from '../../../src/engine/base/cooperative.js'
import { limits } from '../../../src/engine/base/limits.js'
import { cutLine, formatMatches, formatNumberedLines } from '../../../src/engine/text/line-text.js'
import { findAll, findRuns } from '../../../src/engine/text/find-all.js'
import { splitInSteps, splitLines } from '../../../src/engine/text/lines.js'
import { describeNearest, nearestLines } from '../../../src/engine/text/nearest-lines.js'
import { comparisons, findTolerantly } from '../../../src/engine/text/tolerant-match.js'
import { lowerBound } from '../../support/lower-bound.js'
import { runs, seed } from '../../support/seed.js'

function placesOf(list: string, wanted: string, apart: boolean, limit: number): number[] {
  const found: number[] = []
  for (let at = 0; at + wanted.length <= list.length && found.length < limit; at++) {
    if (wanted === '' || list.slice(at, at + wanted.length) !== wanted) continue
    found.push(at)
    if (apart) at += wanted.length - 1
  }
  return found
}

test(`all places of a text are found, by each way to search (FORKSPACE_SEED=${seed})`, () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 30 })
  const wanted = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 5 })
  const limit = fc.constantFrom(1, 2, 3, 1000)
  const check = (): void =>
    fc.assert(
      fc.property(text, wanted, fc.boolean(), limit, fc.nat({ max: 4 }), (all, one, apart, most, from) => {
        const places = placesOf(all, one, apart, most)
        expect(runAtOnce(findAll(all, one, { apart, limit: most }))).toEqual(places)
        const numbers = (letters: string): number[] => Array.from(letters, (letter) => letter.charCodeAt(0))
        const runsFound = runAtOnce(findRuns(numbers(all), numbers(one), { apart, limit: most, from }))
        const after = placesOf(all.slice(from), one, apart, most).map((at) => at + from)
        expect(runsFound).toEqual(after)
      }),
      { seed, numRuns: runs(1000) },
    )
  check()
  lowerBound(limits, 'indexOfComparisons', 0)
  check()
})

test.each([
  ['', [], ['']],
  ['a', ['a'], ['a']],
  ['a\n', ['a\n'], ['a', '']],
  ['\n\na\r\nb', ['\n', '\n', 'a\r\n', 'b'], ['', '', 'a\r', 'b']],
])('the text %j has the lines %j, or with the rest after the last line end %j', (text, lines, parts) => {
  expect(runAtOnce(splitLines(text))).toEqual(lines)
  expect(runAtOnce(splitInSteps(text))).toEqual(parts)
})

test.each([
  ['abc', 3, 'abc', false],
  ['abc', 2, 'ab', true],
  ['a😀', 3, 'a😀', false],
  ['a😀', 2, 'a', true],
  ['a😀b', 3, 'a😀', true],
  ['\ud83d\ude00', 1, '', true],
])('the line %j with at most %i units is %j', (line, length, text, isTruncated) => {
  expect(cutLine(line, length)).toEqual({ text, isTruncated })
})

test('lines are shown with numbers in six columns', () => {
  const lines = [1, 999_999, 1_000_000].map((lineNumber) => ({ lineNumber, text: 'x' }))
  expect(formatNumberedLines(lines)).toBe('     1\tx\n999999\tx\n1000000\tx')
})

describe('the lines of a search are shown', () => {
  const line = (path: string, lineNumber: number, isMatch = true) => ({
    path,
    lineNumber,
    text: 'x',
    isMatch,
  })

  test('without separators if there is no context', () => {
    expect(formatMatches([line('/a', 1), line('/a', 9), line('/b', 10)])).toBe('/a:1:x\n/a:9:x\n/b:10:x')
    expect(formatMatches([])).toBe('')
  })

  test('with separators between groups otherwise', () => {
    const lines = [line('/a', 1, false), line('/a', 2), line('/a', 4), line('/b', 5), line('/b', 6, false)]
    expect(formatMatches(lines)).toBe('/a-1-x\n/a:2:x\n--\n/a:4:x\n--\n/b:5:x\n/b-6-x')
  })
})

describe('the nearest lines', () => {
  const nearest = (lines: string[], wanted: string[]): unknown => runAtOnce(nearestLines(lines, wanted))

  test('are those with most of the wanted lines in their places', () => {
    const lines = ['one', 'two', 'x', 'one', 'y', 'three']
    expect(nearest(lines, ['one', 'two', 'x', 'four'])).toEqual([
      { lineNumber: 1, text: 'one' },
      { lineNumber: 2, text: 'two' },
      { lineNumber: 3, text: 'x' },
    ])
    expect(nearest(lines, ['one', '-', 'three'])).toEqual([
      { lineNumber: 4, text: 'one' },
      { lineNumber: 5, text: 'y' },
      { lineNumber: 6, text: 'three' },
    ])
  })

  test('begin in the file, even if the first wanted lines would be before it', () => {
    expect(nearest(['  two\r', 'x'], ['one', 'two'])).toEqual([
      { lineNumber: 1, text: '  two' },
      { lineNumber: 2, text: 'x' },
    ])
  })

  test('are otherwise the line that is most like the first wanted one', () => {
    expect(nearest(['nothing', 'const value = 2', 'const val = 1'], ['', 'const value = 1'])).toEqual([
      { lineNumber: 2, text: 'const value = 2' },
      { lineNumber: 3, text: 'const val = 1' },
    ])
    expect(nearest(['abc', 'xyz'], ['qqq'])).toEqual([])
    expect(nearest(['abc'], ['', ' '])).toEqual([])
  })

  test('are cut where they are long', () => {
    const long = 'x'.repeat(limits.nearestLineLength)
    expect(nearest([long], [long])).toEqual([{ lineNumber: 1, text: long }])
    expect(nearest([`${long}y`], [`${long}y`])).toEqual([{ lineNumber: 1, text: `${long}…` }])
  })

  test('are described', () => {
    expect(describeNearest([])).toBe('no line of the file is similar')
    expect(describeNearest([{ lineNumber: 2, text: 'a"' }])).toBe('the nearest lines are 2: "a\\""')
  })
})

describe('a tolerant match', () => {
  const find = (text: string, oldText: string, newText = 'new', all = false): unknown =>
    runAtOnce(findTolerantly(text, { oldText, newText, all }))

  test.each(['a', 'a  ', 'a\t\v\f\r', '  a', '\ta '])('compares %j at each level', (line) => {
    expect(comparisons[1]?.(line)).toBe(line.trimEnd())
    expect(comparisons[2]?.(line)).toBe('a')
  })

  test('is one of whole lines, without the white space at their ends', () => {
    expect(find('x\na  \nb\ny', 'a\nb ')).toEqual([{ start: 2, end: 7, text: 'new' }])
    expect(find('x\na  \nb\ny', 'a\nb \n')).toEqual([{ start: 2, end: 8, text: 'new' }])
    expect(find('xa\nb', 'a\nb')).toEqual([])
  })

  test('leaves the line end of the file in place', () => {
    expect(find('a \r\nb\r\n', 'a')).toEqual([{ start: 0, end: 2, text: 'new' }])
    expect(find('a \r\nb\r\n', 'a\n')).toEqual([{ start: 0, end: 4, text: 'new' }])
    expect(find('x\na ', 'a\n')).toEqual([{ start: 2, end: 4, text: 'new' }])
    expect(find('x\na\r', 'a')).toEqual([{ start: 2, end: 4, text: 'new' }])
  })

  test('gives the replacement the indentation of the file, if only that differs', () => {
    expect(find('    a\n      b', '  a\n    b', '  c\n    d\ne\n')).toEqual([
      { start: 0, end: 13, text: '    c\n      d\ne\n' },
    ])
    expect(find('\ta', 'a', 'c\n\n  \nd')).toEqual([{ start: 0, end: 2, text: '\tc\n\n  \n\td' }])
    expect(find('a\nb', '  a\n  b', '  c\n x')).toEqual([{ start: 0, end: 3, text: 'c\n x' }])
    // A level with matches ends the search.
    expect(find('  a \n\ta', '  a', 'c')).toEqual([{ start: 0, end: 4, text: 'c' }])
  })

  test('can be several, apart from each other', () => {
    expect(find('a \na \na ', 'a\na', 'n', false)).toEqual([
      { start: 0, end: 5, text: 'n' },
      { start: 3, end: 8, text: 'n' },
    ])
    expect(find('a \na \na ', 'a\na', 'n', true)).toEqual([{ start: 0, end: 5, text: 'n' }])
  })
})
