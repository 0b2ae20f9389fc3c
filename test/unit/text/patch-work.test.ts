/** The work on the lines of a large file is cut into steps, and bounded. */
import { expect, test } from 'vitest'
import { runAtOnce, type Steps } from '../../../src/engine/base/cooperative.js'
import { applyHunks } from '../../../src/engine/text/apply-hunks.js'
import { applyV4a } from '../../../src/engine/text/apply-v4a.js'
import type { Hunk, V4aSection } from '../../../src/engine/text/file-patch.js'
import { openEngine } from '../../../src/index.js'
import { PatchWork } from '../../../src/engine/text/patch-work.js'
import { parseUnified } from '../../../src/engine/text/unified-patch.js'
import { parseV4a } from '../../../src/engine/text/v4a-patch.js'

const path = '/a'

function stepsOf(work: Steps<unknown, undefined>): number {
  for (let count = 0; ; count++) if (work.next().done === true) return count
}

function section(...lines: readonly string[]): V4aSection {
  return {
    anchors: [],
    lines: lines.map((line) => ({ kind: line.startsWith('-') ? '-' : '+', text: line.slice(1) })),
    isAtEnd: false,
  }
}

function hunk(oldStart: number, ...lines: readonly string[]): Hunk {
  return {
    oldStart,
    newStart: oldStart,
    lines: lines.map((line) => ({
      kind: line.startsWith('-') ? '-' : line.startsWith('+') ? '+' : ' ',
      text: `${line.slice(1)}\n`,
    })),
  }
}

test('the lines of a file are numbered in many steps', () => {
  const lines = 100_000
  const text = 'a\n'.repeat(lines)
  const work = new PatchWork()
  expect(stepsOf(applyV4a(text, [section('-a', '+b')], { path, work }))).toBeGreaterThan(lines / 100)
  const one = hunk(2, ' a', '-a', '+b', ' a')
  expect(stepsOf(applyHunks(text, [one], { path, work, fuzz: 0 }))).toBeGreaterThan(lines / 100)
})

test('the lines of a patch are read in many steps', () => {
  const lines = 100_000
  const added = '+a\n'.repeat(lines)
  const v4a = `*** Begin Patch\n*** Add File: a\n${added}*** End Patch\n`
  expect(stepsOf(parseV4a(v4a))).toBeGreaterThan(lines / 100)
  const unified = `--- /dev/null\n+++ b/a\n@@ -0,0 +1,${lines} @@\n${added}`
  expect(stepsOf(parseUnified(unified, undefined))).toBeGreaterThan(lines / 100)
})

test('a large patch takes effect in the order of the calls, or not at all', async () => {
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files: { '/a': 'one\n' } })
  const added = `*** Add File: b\n${'+a\n'.repeat(50_000)}`
  const update = '*** Update File: a\n@@\n-one\n+two\n'
  const applied = session.text.applyPatch({ patch: `*** Begin Patch\n${update}${added}*** End Patch\n` })
  const written = session.files.write({ path: '/a', content: 'three\n' })
  expect((await applied).files.map((file) => file.path)).toEqual(['/a', '/b'])
  await written
  expect(session.fs.readFileSync('/a', 'utf8')).toBe('three\n')
  const damaged = session.text.applyPatch({ patch: `*** Begin Patch\n${added}damaged\n*** End Patch\n` })
  await expect(damaged).rejects.toMatchObject({ reason: 'INVALID_PATCH', details: { line: '50003' } })
  expect((await session.events.list()).events.map((event) => event.eventType)).toEqual([
    'v1.SessionService.CreateSession',
    expect.stringMatching(/ApplyPatch$/),
    expect.stringMatching(/WriteFile$/),
  ])
})

test('sections that match only without white space do not search the whole file each', () => {
  // A search through the rest of the file for each section would exceed the time limit of a test.
  const count = 50_000
  const first = Array.from({ length: count }, (_, at) => `  line ${at}\n`).join('')
  const rest = 'x\n'.repeat(2_000_000)
  const sections = Array.from({ length: count }, (_, at) => section(`-line ${at}`, `+${at}`))
  const text = runAtOnce(applyV4a(first + rest, sections, { path, work: new PatchWork() }))
  expect(text.startsWith('0\n1\n2\n')).toBe(true)
  expect(text.length).toBe(Array.from({ length: count }, (_, at) => `${at}\n`).join('').length + rest.length)
})

test('the lines that all sections are compared with are bounded', () => {
  // Each section matches only without indentation, and both of its lines are also at the end of the file.
  const text = 'a\n a\n'.repeat(10) + 'a\nb\n'.repeat(1000)
  const sections = Array.from({ length: 10 }, () => section('-a', '-a', '+c'))
  const apply = (lines: number): string =>
    runAtOnce(applyV4a(text, sections, { path, work: new PatchWork(lines) }))
  expect(apply(100_000)).toBe('c\n'.repeat(10) + 'a\nb\n'.repeat(1000))
  expect(() => apply(10_000)).toThrow(expect.objectContaining({ reason: 'TOO_LARGE' }))
})

test('the lines that all hunks are compared with are bounded', () => {
  const text = 'a\nb\n'.repeat(500)
  const nowhere = hunk(400, ' a', '-a', '+c', ' b')
  const apply = (lines: number): string =>
    runAtOnce(applyHunks(text, [nowhere], { path, fuzz: 0, work: new PatchWork(lines) }))
  expect(() => apply(10_000)).toThrow(expect.objectContaining({ reason: 'NO_MATCH' }))
  expect(() => apply(100)).toThrow(expect.objectContaining({ reason: 'TOO_LARGE' }))
})

test('the lines of the rest of a file that long hunks are compared with are bounded', () => {
  const text = 'a\nb\n'.repeat(1500)
  const same = Array.from({ length: 500 }, () => ' a')
  const nowhere = hunk(400, ...same, '-a', '+c', ...same)
  const apply = (lines: number): string =>
    runAtOnce(applyHunks(text, [nowhere], { path, fuzz: 0, work: new PatchWork(lines) }))
  expect(() => apply(10_000)).toThrow(expect.objectContaining({ reason: 'NO_MATCH' }))
  expect(() => apply(2000)).toThrow(expect.objectContaining({ reason: 'TOO_LARGE' }))
})
