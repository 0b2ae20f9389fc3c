import { join } from 'node:path'
import { openEngine, type Engine } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { hasGit } from '../../test/support/git-repository.js'
import { expect, race, type Contestant } from '../support/measure.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'
import { VersionFiles } from '../support/version-files.js'
import { searchName, VersionGit } from '../support/version-git.js'
import { VersionOperations } from '../support/version-operations.js'

const versions = 20
/** The version that `at` and `git show` read. */
const earlier = 10
/** Milliseconds in memory. */
const targets = { merge: 1, at: 1, secondGrep: 5 }
/** The largest tree, in files, to which the target of the second search applies. */
const searchTargetFiles = 10_000

/** Compares diff, merge, at, blame and grep on forks with commands of git. The results of both must be equal. */
export const versionsOfTrees: Scenario = {
  name: 'versions',
  title: 'Versions of trees: forks compared with git',
  clock: 'cpu',
  async *run(context) {
    if (!hasGit) return
    for (const size of context.files) yield* atSize(context, size)
  },
}

async function* atSize(context: Context, size: number): AsyncGenerator<Row> {
  const files = new VersionFiles(size, versions)
  const git = VersionGit.create(join(context.directory, `git-${size}`), files)
  await using memory = await openEngine()
  await using level = await openEngine({
    storage: levelStorage(join(context.directory, `store-${size}`), { durability: 'relaxed' }),
  })
  const sides = { memory: await prepare(memory, files), level: await prepare(level, files) }
  for (const side of Object.values(sides)) await verify(side, git, files)
  for (const operation of operations(context, size, files, git))
    yield* compared(context, size, sides, operation)
}

async function prepare(engine: Engine, files: VersionFiles): Promise<VersionOperations> {
  const session = await engine.sessions.create({ files: Object.fromEntries(files.base) })
  return VersionOperations.of(session, files)
}

interface Operation {
  readonly what: string
  readonly peer: string
  readonly git: Contestant
  readonly ours: (side: VersionOperations) => Contestant
  /** Milliseconds, in memory. */
  readonly atMost?: number | undefined
}

function operations(context: Context, size: number, files: VersionFiles, git: VersionGit): Operation[] {
  const many = context.count(100)
  const few = context.count(5)
  const { path } = files.blamed
  const peer = 'git merge-tree --write-tree'
  return [
    {
      what: 'diff as a patch, 10 files',
      peer: 'git diff',
      git: git.diff(few),
      ours: (side) => side.diff(many),
    },
    {
      what: 'merge, each side changed 10 files',
      peer,
      git: git.merge(few, 'others'),
      ours: (side) => side.merge(many, files.others),
      atMost: targets.merge,
    },
    {
      what: 'merge, both sides changed the same 10 files',
      peer,
      git: git.merge(few, 'same'),
      ours: (side) => side.merge(many, files.same),
    },
    {
      what: 'at an event, read a file',
      peer: 'git show',
      git: git.show(few, path, earlier),
      ours: (side) => side.at(many, earlier),
      atMost: targets.at,
    },
    {
      what: `blame, ${versions} versions`,
      peer: 'git blame',
      git: git.blame(few, path),
      ours: (side) => side.blame(few),
    },
    { what: 'first grep', peer: searchName, git: git.grep(few), ours: (side) => side.firstGrep(1) },
    {
      what: 'second grep on a fork, 10 files changed',
      peer: searchName,
      git: git.grep(few),
      ours: (side) => side.secondGrep(context.count(50)),
      atMost: size <= searchTargetFiles ? targets.secondGrep : undefined,
    },
  ]
}

async function* compared(
  context: Context,
  size: number,
  sides: Record<'memory' | 'level', VersionOperations>,
  { what, peer, git, ours, atMost }: Operation,
): AsyncGenerator<Row> {
  const { rounds } = context
  const timings = await race({ memory: ours(sides.memory), level: ours(sides.level), git }, { rounds })
  const named = `${what}, ${size} files`
  const theirs = { name: peer, timing: timings.git }
  const target = atMost === undefined ? undefined : { atMost }
  yield timingRow({ what: named, ours: timings.memory, peer: theirs, target, clock: 'cpu' })
  yield timingRow({ what: `${named}, disk (relaxed)`, ours: timings.level, peer: theirs, clock: 'cpu' })
}

/** Stops the benchmark if a result differs from that of git. */
async function verify(side: VersionOperations, git: VersionGit, files: VersionFiles): Promise<void> {
  expectEqual(comparable(await side.patch()), comparable(await git.patch()), 'patches')
  for (const name of ['others', 'same'] as const) {
    const ours = sorted(await side.mergedFiles(files[name]))
    expectEqual(ours, sorted(await git.mergedFiles(name)), 'merged trees')
  }
  expectEqual(await side.blamedVersions(), await git.blamedVersions(files.blamed.path), 'blames')
  const matches = await git.matches()
  for (const search of ['first', 'second'] as const)
    expectEqual(await side.matches(search), matches, 'matches')
}

/** A patch without object ids, and without the line that git shows after the numbers of a hunk. */
function comparable(patch: string): string[] {
  return patch
    .split('\n')
    .filter((line) => !line.startsWith('index '))
    .map((line) => line.replace(/^(@@ [^@]* @@).*/, '$1'))
}

function sorted(files: ReadonlyMap<string, string>): [string, string][] {
  return [...files].toSorted(([a], [b]) => (a < b ? -1 : 1))
}

function expectEqual(ours: unknown, theirs: unknown, what: string): void {
  expect(JSON.stringify(ours) === JSON.stringify(theirs), `the ${what} of forkspace and git differ`)
}
