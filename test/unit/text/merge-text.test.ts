import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runAtOnce } from '../../../src/engine/base/cooperative.js'
import {
  mergeText,
  renderMarkers,
  renderSides,
  type TextMerge,
  type TextVersions,
} from '../../../src/engine/text/merge-text.js'
import { gitMergeFiles, type MergeCase } from '../../support/git-merge-file.js'
import { seed, runs } from '../../support/seed.js'

const names = { base: 'base', ours: 'ours', theirs: 'theirs' }

function merged(versions: TextVersions, conflicts?: 'whole'): TextMerge {
  return runAtOnce(mergeText(versions, conflicts))
}

/** Options of `git merge-file`, each with the same merge here. */
const forms: Readonly<Record<string, (versions: TextVersions) => string>> = {
  '': (versions) => renderMarkers(merged(versions), { names }),
  '--diff3': (versions) => renderMarkers(merged(versions, 'whole'), { names, withBase: true }),
  '--ours': (versions) => renderSides(merged(versions), 'ours'),
  '--theirs': (versions) => renderSides(merged(versions), 'theirs'),
  '--union': (versions) => renderSides(merged(versions), 'union'),
}

const ending = fc.oneof(
  { weight: 20, arbitrary: fc.constant('\n') },
  { weight: 2, arbitrary: fc.constant('\r\n') },
)

function lines(distinct: number, maxLength: number): fc.Arbitrary<string[]> {
  return fc.array(
    fc.tuple(fc.nat(distinct - 1), ending).map(([line, ending]) => `line ${line}\xff${ending}`),
    { maxLength, size: 'max' },
  )
}

/** A base and two changed versions of it. Few distinct lines make many equally good changes. */
const versions: fc.Arbitrary<TextVersions> = fc
  .constantFrom(2, 4, 10, 60, 1000)
  .chain((distinct) => {
    const edits = fc.array(fc.record({ at: fc.nat(), removed: fc.nat(4), added: lines(distinct, 4) }), {
      maxLength: 8,
      size: 'max',
    })
    return fc.record({ base: lines(distinct, 60), both: edits, ours: edits, theirs: edits, cut: fc.nat(20) })
  })
  .map(({ base, both, ours, theirs, cut }) => ({
    base: cutEnd(base.join(''), cut & 4),
    ours: cutEnd(change(change(base, both.slice(0, 3)), ours).join(''), cut & 1),
    theirs: cutEnd(change(change(base, both.slice(0, 3)), theirs).join(''), cut & 2),
  }))

function change(
  base: readonly string[],
  edits: readonly { at: number; removed: number; added: string[] }[],
): string[] {
  const lines = [...base]
  for (const { at, removed, added } of edits) lines.splice(at % (lines.length + 1), removed, ...added)
  return lines
}

function cutEnd(text: string, bit: number): string {
  return bit === 0 ? text : text.replace(/\r?\n$/, '')
}

test(`merges as git merge-file does, byte for byte (FORKSPACE_SEED=${seed})`, async () => {
  const options = Object.keys(forms)
  const cases: MergeCase[] = fc
    .sample(versions, { seed, numRuns: runs(6000) })
    .map((one, index) => ({ ...one, options: options[index % options.length]! }))
  const merged = await gitMergeFiles(cases)
  const wrong = cases.flatMap((one, index) => {
    const ours = forms[one.options]!(one)
    return ours === merged[index] ? [] : [{ ...one, ours: ours.split('\n'), git: merged[index]!.split('\n') }]
  })
  expect(wrong.slice(0, 2)).toEqual([])
})

test('pauses after each comparison, also after that of each conflict', () => {
  const lines = (name: string): string => Array.from({ length: 10 }, (_, i) => `${name} ${i}\n\n\n`).join('')
  const steps = mergeText({ base: lines('base'), ours: lines('ours'), theirs: lines('theirs') })
  let pauses = 0
  while (steps.next().done !== true) pauses++
  expect(pauses).toBeGreaterThanOrEqual(7 + 10)
})
