import { dirname } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EngineError, openEngine, type Engine, type Session } from '../../src/index.js'
import type { GitFile, GitTree } from '../support/git-apply.js'
import { gitDiffs } from '../support/git-diffs.js'
import { hasGit } from '../support/git-repository.js'
import { isLong, runs, seed } from '../support/seed.js'

let engine: Engine

beforeAll(async () => {
  engine = await openEngine()
})

afterAll(async () => {
  await engine.close()
})

const names = [
  'a',
  'b',
  'c d',
  'ü',
  'e"f',
  'g\\h',
  'tab\there',
  ' first',
  'last ',
  'two  ',
  'last\t',
  'new\nline',
  'return\r',
  'a b/c',
  'a b/d ',
  'b/a',
  '.hidden',
  '-x',
  'ü/ ',
]
const path = fc
  .tuple(fc.constantFrom('', '', 'a/', 'dir/', 'dir/b/', 'ü/'), fc.constantFrom(...names))
  .map(([directory, name]) => `/${directory}${name}`)
const line = fc.tuple(fc.nat(9), fc.constantFrom('\n', '\n', '\n', '\r\n', ' \n'))
const text = fc.tuple(fc.array(line, { maxLength: 30, size: 'max' }), fc.boolean()).map(([lines, cut]) => {
  const all = lines.map(([number, ending]) => `line ${number} \u00c3\u00a9${ending}`).join('')
  return cut ? all.replace(/\r?\n$/, '') : all
})
const binary = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  // Long enough that git writes changes as deltas.
  fc.tuple(fc.nat(255), fc.nat(255)).map(([factor, last]) => {
    const bytes = Uint8Array.from({ length: 3000 }, (_, index) => (index * index * factor) >> 3)
    return Uint8Array.of(...bytes, last)
  }),
)
const bytes = binary.map((content) => Buffer.from(Uint8Array.of(0, ...content)).toString('latin1'))
const mode = fc.constantFrom('100644' as const, '100755' as const)
const target = fc.constantFrom('a', 'b c', '\u00c3\u00bc/d', '../x\n', '/dir/b')
const file: fc.Arbitrary<GitFile> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ mode, content: text }) },
  { weight: 3, arbitrary: fc.record({ mode, content: bytes }) },
  { weight: 2, arbitrary: fc.record({ mode: fc.constant('120000' as const), content: target }) },
)

interface Step {
  readonly kind: 'put' | 'remove' | 'rename' | 'mode' | 'edit'
  readonly at: number
  readonly path: string
  readonly file: GitFile
}

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('put', 'remove', 'rename', 'rename', 'mode', 'edit', 'edit'),
  at: fc.nat(3000),
  path,
  file,
})

/** Two trees of which the second one has some changes. */
const trees = fc
  .record({
    files: fc.array(fc.tuple(path, file), { minLength: 3, maxLength: 12 }),
    steps: fc.array(step, { minLength: 1, maxLength: 8 }),
  })
  .map(({ files, steps }) => {
    const before = new Map<string, GitFile>()
    for (const [at, one] of files) put(before, at, one)
    const after = new Map(before)
    for (const one of steps) change(after, one)
    return { before: Object.fromEntries(before), after: Object.fromEntries(after) }
  })

/** A file takes the place of a directory, or the reverse. */
function put(tree: Map<string, GitFile>, at: string, one: GitFile): void {
  for (let parent = dirname(at); parent !== '/'; parent = dirname(parent)) tree.delete(parent)
  for (const other of tree.keys()) if (other.startsWith(`${at}/`)) tree.delete(other)
  tree.set(at, one)
}

function change(tree: Map<string, GitFile>, { kind, at, path: to, file: fresh }: Step): void {
  const [from, old] = [...tree][at % Math.max(tree.size, 1)] ?? [to, fresh]
  if (kind === 'put') put(tree, to, fresh)
  else if (kind === 'remove') tree.delete(from)
  else if (kind === 'rename') {
    tree.delete(from)
    put(tree, to, old)
  } else if (old.mode === '120000') tree.set(from, { ...old, content: `${at}` })
  else if (kind === 'mode') tree.set(from, { ...old, mode: old.mode === '100644' ? '100755' : '100644' })
  else {
    const { content } = old
    const place = at % (content.length + 1)
    // Keeps characters of several bytes whole.
    const start = content.indexOf('\n', place) + 1
    tree.set(from, { ...old, content: `${content.slice(0, start)}edit\n${content.slice(start)}` })
  }
}

async function sessionOf(tree: GitTree): Promise<Session> {
  const session = await engine.sessions.create()
  const { promises } = session.fs
  for (const [at, { mode: bits, content }] of Object.entries(tree)) {
    await promises.mkdir(dirname(at), { recursive: true, mode: 0o755 })
    if (bits === '120000') await promises.symlink(Buffer.from(content, 'latin1').toString(), at)
    else {
      await promises.writeFile(at, Buffer.from(content, 'latin1'))
      await promises.chmod(at, bits === '100755' ? 0o755 : 0o644)
    }
  }
  return session
}

async function patchOf(before: Session, after: Session, renames: 'exact' | 'none' | number): Promise<string> {
  const pieces: Uint8Array[] = []
  const request = { renames: typeof renames === 'number' ? { similarity: renames } : renames }
  for await (const piece of after.diff(before).patch(request)) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

async function hashOf(session: Session): Promise<string> {
  return (await session.manifest()).manifestHash
}

/** Applies a patch to a fork, after a dry run. */
async function hashAfter(session: Session, patch: string): Promise<string> {
  if (patch === '') return hashOf(session)
  const fork = await session.fork()
  const tried = await fork.text.applyPatch({ patch, dryRun: true })
  expect(await hashOf(fork)).toBe(await hashOf(session))
  expect(await fork.text.applyPatch({ patch })).toEqual(tried)
  expect((await fork.events.list()).events.map(({ eventType }) => eventType)).toEqual([
    'v1.SessionService.ForkSession',
    'v1.FileSystemService.ApplyPatch',
  ])
  return hashOf(fork)
}

/** In `npm run test:long`, so many that each reason of a refusal occurs. */
const count = Math.max(20, runs(400))
const samples = (): { before: GitTree; after: GitTree }[] => fc.sample(trees, { seed, numRuns: count })

test(`a patch of a diff gives the second state (FORKSPACE_SEED=${seed})`, { timeout: 900_000 }, async () => {
  for (const [index, { before, after }] of samples().entries()) {
    const [old, current] = [await sessionOf(before), await sessionOf(after)]
    const patch = await patchOf(old, current, (['exact', 'none', 40] as const)[index % 3] ?? 'none')
    expect(await hashAfter(old, patch), `case ${index}\n${patch}`).toBe(await hashOf(current))
  }
})

test.runIf(hasGit)(
  `a patch of git gives the second state (FORKSPACE_SEED=${seed})`,
  { timeout: 900_000 },
  async () => {
    const pairs = samples()
    const patches = [['--no-renames'], ['-M', '-C']].map((options) => gitDiffs(pairs, options))
    expect(!isLong || patches.flat().some((patch) => patch.includes('\ndelta '))).toBe(true)
    for (const [index, { before, after }] of pairs.entries()) {
      const [old, current] = [await sessionOf(before), await sessionOf(after)]
      for (const list of patches) {
        const patch = Buffer.from(list[index] ?? '', 'latin1').toString()
        expect(await hashAfter(old, patch), `case ${index}\n${patch}`).toBe(await hashOf(current))
      }
    }
  },
)

interface Damage {
  readonly kind: 'cut' | 'flip' | 'number' | 'drop' | 'repeat' | 'swap'
  readonly at: number
  readonly to: number
  readonly text: string
}

const damage: fc.Arbitrary<Damage> = fc.record({
  kind: fc.constantFrom('cut', 'flip', 'number', 'drop', 'repeat', 'swap'),
  at: fc.nat(2 ** 20),
  to: fc.nat(2 ** 20),
  text: fc.constantFrom(
    '0',
    '1',
    '7',
    '999999999',
    '99999999999999999999',
    '-1',
    '16777216',
    '16777217',
    '160000',
  ),
})

function damaged(patch: string, { kind, at, to, text: digits }: Damage): string {
  const place = at % Math.max(patch.length, 1)
  if (kind === 'cut') return patch.slice(0, place)
  if (kind === 'flip')
    return (
      patch.slice(0, place) +
      String.fromCharCode(patch.charCodeAt(place) ^ (1 << (to % 8))) +
      patch.slice(place + 1)
    )
  if (kind === 'number') {
    const numbers = [...patch.matchAll(/\d+/g)]
    const number = numbers[at % Math.max(numbers.length, 1)]
    if (number === undefined) return patch
    return patch.slice(0, number.index) + digits + patch.slice(number.index + number[0].length)
  }
  const lines = patch.split('\n')
  const [one, other] = [at % lines.length, to % lines.length]
  if (kind === 'drop') lines.splice(one, 1)
  else if (kind === 'repeat') lines.splice(other, 0, lines[one] ?? '')
  else [lines[one], lines[other]] = [lines[other] ?? '', lines[one] ?? '']
  return lines.join('\n')
}

test.runIf(hasGit)(
  `a damaged patch is refused with a code, or applies, but changes no part alone (FORKSPACE_SEED=${seed})`,
  { timeout: 900_000 },
  async () => {
    const pairs = samples()
    const damages = fc.sample(fc.array(damage, { minLength: 8, maxLength: 8 }), { seed, numRuns: count })
    const patches = gitDiffs(pairs, ['-M'])
    const reasons = new Map<string, number>()
    const wrong: string[] = []
    for (const [index, { before }] of pairs.entries()) {
      const session = await sessionOf(before)
      const hash = await hashOf(session)
      let fork = await session.fork()
      for (const one of damages[index] ?? []) {
        const patch = damaged(Buffer.from(patches[index] ?? '', 'latin1').toString(), one)
        const error = await fork.text.applyPatch({ patch }).then(
          () => undefined,
          (thrown: unknown) => thrown,
        )
        const reason =
          error instanceof EngineError ? error.reason : error === undefined ? 'applied' : 'thrown'
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
        expect(['thrown', 'INTERNAL'], `${String(error)}\n${patch}`).not.toContain(reason)
        if (error === undefined) fork = await session.fork()
        else if ((await hashOf(fork)) !== hash) wrong.push(patch)
      }
      expect((await fork.events.list()).events.map(({ eventType }) => eventType)).toEqual([
        'v1.SessionService.ForkSession',
      ])
    }
    expect(wrong).toEqual([])
    for (const reason of isLong ? ['INVALID_PATCH', 'NO_MATCH', 'PATH_NOT_FOUND', 'applied'] : ['applied'])
      expect(reasons.get(reason), reason).toBeGreaterThan(0)
  },
)
