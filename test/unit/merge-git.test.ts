import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { hasGit } from '../support/git-repository.js'
import { hasMergeTree, MergeRepository, type FileTree } from '../support/git-merge-tree.js'
import { conflictPaths, mergedFiles, readTree, TreeEditor, writeTree } from '../support/merge-histories.js'
import { runs, seed } from '../support/seed.js'

let directory: string
let engine: Engine

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'merge-git-'))
  engine = await openEngine()
})

afterAll(async () => {
  await engine.close()
  await rm(directory, { recursive: true, force: true })
})

interface Versions {
  readonly base: FileTree
  readonly ours: FileTree
  readonly theirs: FileTree
}

function versionsOf(n: number): Versions {
  const editor = new TreeEditor(randomWords(seed * 100_000 + n))
  const base = editor.tree()
  return { base, ours: editor.change(base, 1 + (n % 6)), theirs: editor.change(base, 1 + (n % 5)) }
}

async function sessionsOf({ base, ours, theirs }: Versions): Promise<readonly [Session, Session]> {
  const target = await engine.sessions.create()
  writeTree(target, base)
  const source = await target.fork()
  writeTree(target, ours)
  writeTree(source, theirs)
  return [target, source]
}

async function deleteAll(...sessions: readonly Session[]): Promise<void> {
  for (const session of sessions) await session.delete()
}

test.runIf(hasGit && hasMergeTree)(
  `merges as git merge-tree does (FORKSPACE_SEED=${seed})`,
  { timeout: 600_000 },
  async () => {
    const repository = new MergeRepository(join(directory, 'merges.git'))
    const cases = []
    for (let n = 0; n < runs(3000); n++) {
      const versions = versionsOf(n)
      const [target, source] = await sessionsOf(versions)
      const result = await target.merge(source)
      const conflicts = conflictPaths(result)
      const files = mergedFiles(readTree(target), conflicts)
      const base = repository.commit(versions.base, [])
      const commits = [versions.ours, versions.theirs].map((files) => repository.commit(files, [base]))
      cases.push({ n, versions, merged: { conflicts, files }, commits })
      await deleteAll(target, source)
    }
    const merges = await repository.mergeAll(cases.map(({ commits }) => commits))
    const wrong = cases.flatMap(({ n, versions, merged }, index) => {
      const merge = merges[index]
      if (merge === undefined) return []
      const { files, messages } = merge
      // A file that one side moved to a path of something else, and that the other side changed, has a conflict of its own
      // here: git keeps both, in the index or at another path.
      const isTaken = /CONFLICT \((?:file\/directory|add\/add|contents)\)/.test(messages)
      // The index of git has no entry for a moved file where a side has a directory now.
      const isDirectory = (path: string): boolean =>
        [...files.keys()].some((one) => one.startsWith(`${path}/`))
      const isOwn = (path: string): boolean =>
        isDirectory(path) || (isTaken && versions.ours.has(path) !== versions.theirs.has(path))
      const own = merged.conflicts.filter((path) => versions.base.has(path) && isOwn(path))
      const conflicts = [...new Set([...merge.conflicts, ...own])].sort()
      const git = { conflicts, files: mergedFiles(files, conflicts) }
      return isDeepStrictEqual(merged, git) ? [] : [{ n, versions, merged, git, messages }]
    })
    expect(wrong.slice(0, 1)).toEqual([])
  },
)

test(`gives the same merge in both directions, and in a dry run (FORKSPACE_SEED=${seed})`, async () => {
  for (let n = 0; n < runs(1000); n++) {
    const [target, source] = await sessionsOf(versionsOf(n))
    const [before, mirror] = [await target.fork(), await source.fork()]
    const preview = await target.merge(source, { dryRun: true })
    const result = await target.merge(source)
    expect({ ...preview, eventId: result.eventId }, `case ${n}`).toEqual(result)
    const reverse = await mirror.merge(before)
    const conflicts = conflictPaths(result)
    expect(conflictPaths(reverse), `case ${n}`).toEqual(conflicts)
    expect(mergedFiles(readTree(mirror), conflicts), `case ${n}`).toEqual(
      mergedFiles(readTree(target), conflicts),
    )
    await deleteAll(before, mirror, target, source)
  }
})

test(`gives the other side when one side has no changes (FORKSPACE_SEED=${seed})`, async () => {
  for (let n = 0; n < runs(1000); n++) {
    const { base, ours } = versionsOf(n)
    const [target, source] = await sessionsOf({ base, ours, theirs: base })
    const { manifestHash } = await target.manifest()
    expect((await target.merge(source)).merged, `case ${n}`).toBe(false)
    expect((await source.merge(target)).conflicts, `case ${n}`).toEqual([])
    for (const session of [target, source])
      expect((await session.manifest()).manifestHash, `case ${n}`).toBe(manifestHash)
    await deleteAll(target, source)
  }
})
