import { dirname } from 'node:path'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openEngine, type Session } from '../../src/index.js'
import { gitApply, type GitFile, type GitTree } from '../support/git-apply.js'
import { runs, seed } from '../support/seed.js'

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
  'new\nline',
  '.hidden',
  '-x',
]
const path = fc.oneof(
  fc.constantFrom(...names).map((name) => `/${name}`),
  fc.tuple(fc.constantFrom('a', 'dir', 'ü'), fc.constantFrom(...names)).map((parts) => `/${parts.join('/')}`),
)
const line = fc.tuple(fc.nat(9), fc.constantFrom('\n', '\n', '\n', '\r\n', ' \n'))
const text = fc.tuple(fc.array(line, { maxLength: 30, size: 'max' }), fc.boolean()).map(([lines, cut]) => {
  const all = lines.map(([number, ending]) => `line ${number} \xe9${ending}`).join('')
  return cut ? all.replace(/\r?\n$/, '') : all
})
const binary = fc
  .uint8Array({ maxLength: 300 })
  .map((bytes) => Buffer.from(Uint8Array.of(0, ...bytes)).toString('latin1'))
const file: fc.Arbitrary<GitFile> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ mode: fc.constantFrom('100644', '100755'), content: text }) },
  { weight: 2, arbitrary: fc.record({ mode: fc.constantFrom('100644', '100755'), content: binary }) },
  {
    weight: 1,
    arbitrary: fc.record({
      mode: fc.constant('120000' as const),
      content: fc.constantFrom('a', 'b c', 'ü/d'),
    }),
  },
)

interface Step {
  readonly kind: 'put' | 'remove' | 'rename' | 'mode' | 'edit'
  readonly at: number
  readonly path: string
  readonly file: GitFile
}

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('put', 'remove', 'rename', 'mode', 'edit'),
  at: fc.nat(100),
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
    for (const [path, file] of files) put(before, path, file)
    const after = new Map(before)
    for (const one of steps) change(after, one)
    return { before: Object.fromEntries(before), after: Object.fromEntries(after) }
  })
  .filter(({ before, after }) => !replacesSymlink(before, after))

/** Whether a directory takes the place of a symlink. git does not apply its own patch if the symlink was renamed, or leads to itself. */
function replacesSymlink(before: GitTree, after: GitTree): boolean {
  return Object.entries(before).some(
    ([at, { mode }]) => mode === '120000' && Object.keys(after).some((one) => one.startsWith(`${at}/`)),
  )
}

function put(tree: Map<string, GitFile>, path: string, file: GitFile): void {
  // A file is in the place of a directory, or the reverse.
  if (tree.has(dirname(path))) tree.delete(dirname(path))
  for (const one of tree.keys()) if (one.startsWith(`${path}/`)) tree.delete(one)
  tree.set(path, file)
}

function change(tree: Map<string, GitFile>, { kind, at, path, file }: Step): void {
  const [target, old] = [...tree][at % Math.max(tree.size, 1)] ?? [path, file]
  if (kind === 'put') put(tree, path, file)
  else if (kind === 'remove') tree.delete(target)
  else if (kind === 'rename') {
    tree.delete(target)
    put(tree, path, old)
  } else if (old.mode !== '120000') {
    if (kind === 'mode') tree.set(target, { ...old, mode: old.mode === '100644' ? '100755' : '100644' })
    else
      tree.set(target, { ...old, content: `${old.content.slice(0, at)}edit\n${old.content.slice(at + 3)}` })
  }
}

async function write({ fs }: Session, tree: GitTree): Promise<void> {
  for (const name of await fs.promises.readdir('/')) await fs.promises.rm(`/${name}`, { recursive: true })
  for (const [path, { mode, content }] of Object.entries(tree)) {
    await fs.promises.mkdir(dirname(path), { recursive: true })
    if (mode === '120000') await fs.promises.symlink(content, path)
    else {
      await fs.promises.writeFile(path, Buffer.from(content, 'latin1'))
      await fs.promises.chmod(path, mode === '100755' ? 0o755 : 0o644)
    }
  }
}

test(`git apply turns the first tree into the second one (FORKSPACE_SEED=${seed})`, async () => {
  const engine = await openEngine()
  const cases: { before: GitTree; after: GitTree; patch: Buffer }[] = []
  for (const [index, { before, after }] of fc.sample(trees, { seed, numRuns: runs(4000) }).entries()) {
    const old = await engine.sessions.create()
    const current = await engine.sessions.create()
    await write(old, before)
    await write(current, after)
    const renames = (['exact', 'none', { similarity: 40 }] as const)[index % 3]!
    const diff = current.diff(old)
    const pieces: Uint8Array[] = []
    for await (const bytes of diff.patch({ renames, context: [3, 0, 10][index % 3]! || 1 }))
      pieces.push(bytes)
    cases.push({ before, after, patch: Buffer.concat(pieces) })
  }
  await engine.close()
  const { trees: applied, errors } = await gitApply(cases)
  expect(errors).toBe('')
  const wrong = cases.flatMap(({ after, patch }, index) =>
    sorted(after) === sorted(applied[index]!) ? [] : [[after, applied[index], patch.toString('latin1')]],
  )
  expect(wrong).toEqual([])
})

function sorted(tree: GitTree): string {
  return JSON.stringify(Object.entries(tree).sort(([a], [b]) => (a < b ? -1 : 1)))
}
