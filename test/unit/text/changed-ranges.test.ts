import { expect, test } from 'vitest'
import { limits } from '../../../src/index.js'
import { runAtOnce } from '../../../src/engine/base/cooperative.js'
import { ChangedRanges } from '../../../src/engine/text/changed-ranges.js'
import { editText, type ByteEdit } from '../../../src/engine/text/edit-text.js'

const edited = (text: string, edits: readonly ByteEdit[]) =>
  runAtOnce(editText(text, edits, 'exact', '/a.txt'))

test('an edit with many replacements is made in steps', () => {
  const looks = 4
  const text = 'a'.repeat(limits.charactersPerLook * looks)
  const steps = editText(text, [{ oldText: 'a', newText: 'b', all: true }], 'exact', '/a.txt')
  let pauses = 0
  let step = steps.next()
  for (; step.done !== true; step = steps.next()) pauses++
  expect(step.value.replacementCount).toBe(text.length)
  // Finding, replacing and noting each pause.
  expect(pauses).toBeGreaterThanOrEqual(3 * looks)
})

test('the changed lines include the end of a block in which later edits replaced text', () => {
  const block = ['x', 'a', 'x', 'a', 'end'].join('\n')
  const { text, ranges } = edited('top\nBLOCK\nlast', [
    { oldText: 'BLOCK', newText: block, all: false },
    { oldText: 'a', newText: 'long\nlong\nlong', all: true },
  ])
  const lines = text.split('\n')
  // `all` also replaces the letter in the last line.
  expect(ranges).toEqual([{ startLine: 2, endLine: lines.length }])
  expect(lines.slice(1, 11)).toEqual([
    'x',
    'long',
    'long',
    'long',
    'x',
    'long',
    'long',
    'long',
    'end',
    'llong',
  ])
})

test('several rounds change the lines that a mark of each line gives', () => {
  let seed = 7
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * below)
  }
  for (let world = 0; world < 300; world++) {
    // Each line has one letter, which is `C` if the line was changed.
    let letters = Array.from('n'.repeat(40))
    const ranges = new ChangedRanges()
    for (let round = 0; round < 4; round++) {
      const found: { start: number; end: number; letters: string[] }[] = []
      for (let start = random(8); start < letters.length - 3; start += 3 + random(12))
        found.push({ start, end: start + 1 + random(3), letters: Array.from('C'.repeat(1 + random(5))) })
      const offsets = found.map(({ start, end, letters: { length } }) => ({
        start: 2 * start,
        end: 2 * end,
        text: 'C\n'.repeat(length),
      }))
      runAtOnce(ranges.note(offsets))
      for (const { start, end, letters: added } of found.toReversed())
        letters = [...letters.slice(0, start), ...added, ...letters.slice(end)]
    }
    const marked = letters.flatMap((letter, i) => (letter === 'C' ? [i + 1] : []))
    const shown = ranges
      .inLines(letters.map((letter) => `${letter}\n`).join(''))
      .flatMap(({ startLine, endLine }) =>
        Array.from({ length: endLine - startLine + 1 }, (_, i) => startLine + i),
      )
    expect({ world, lines: shown }).toEqual({ world, lines: marked })
  }
})
