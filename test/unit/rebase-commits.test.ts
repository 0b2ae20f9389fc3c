/** A rebase compares with each pushed commit whose files the session has, also if another session or another engine made it. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { prefixEnd } from '../../src/engine/ports.js'
import { limits, memoryStorage, openEngine, type Engine, type Session } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { lowerBound } from '../support/lower-bound.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { SteppedStorage } from '../support/stepped-storage.js'

type Files = Readonly<Record<string, string | null>>

let root: string
let repository: GitRepository
let storage: SteppedStorage
let engine: Engine
let sourceId: string
let session: Session
let server: GitServer | undefined
let now: number

beforeEach(async () => {
  // The time of the commits of others.
  now = 1_700_000_000_000
  root = mkdtempSync(join(tmpdir(), 'rebase-commits-'))
  repository = GitRepository.create(join(root, 'r.git'))
  repository.git(['config', 'uploadpack.allowFilter', 'true'])
  change({ a: 'one', b: 'one' })
  storage = new SteppedStorage(memoryStorage({ durable: true }))
  engine = await openEngine({
    storage,
    hostPaths: { roots: [root] },
    git: { allowPrivateAddresses: true },
    environment: { ...systemEnvironment, wallClockMs: () => now },
  })
  await startFrom({ gitRepository: { path: repository.path } })
})

afterEach(async () => {
  await engine.close()
  await server?.close()
  server = undefined
  rmSync(root, { recursive: true, force: true })
})

async function startFrom(
  place:
    | { readonly gitRepository: { readonly path: string } }
    | { readonly gitRemote: { readonly remoteUrl: string } },
): Promise<void> {
  ;({ sourceId } = await engine.sources.create({ displayName: 'r', ...place }))
  await refresh()
  session = await engine.sessions.create({ sourceRef: { sourceId } })
}

/** A commit of someone else. */
function change(files: Files, branch = 'main'): void {
  const entries = Object.entries(files).map(([path, content]) => ['100644', path, content] as const)
  repository.commitFiles(entries, `refs/heads/${branch}`)
}

/** Merges a branch into main, as someone else. */
function mergeIntoMain(branch: string): void {
  const [tree = ''] = repository.git(['merge-tree', '--write-tree', 'main', branch]).split('\n')
  const commit = repository.git(['commit-tree', tree, '-p', 'main', '-p', branch, '-m', 'merge'])
  repository.git(['update-ref', 'refs/heads/main', commit])
}

async function refresh(gitRef = 'main', id = sourceId): Promise<string> {
  const job = await engine.sources.refresh(id, { gitRef })
  return (await engine.sources.waitForJob(job)).revisionId
}

async function write(to: Session, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files))
    if (content === null) await to.files.delete({ path: `/${name}` })
    else await to.files.write({ path: `/${name}`, content })
}

async function push(of: Session, branchName = 'main'): Promise<string> {
  return (await of.commit({ message: 'mine', gitBranch: { branchName } })).commitId
}

/** The files after a rebase onto a branch, which has no conflicts. */
async function rebased(of: Session, gitRef = 'main'): Promise<Record<string, string>> {
  const revisionId = await refresh(gitRef)
  expect((await of.rebase({ revisionId })).conflicts).toEqual([])
  const files: Record<string, string> = {}
  for (const name of await of.fs.promises.readdir('/'))
    files[name] = await of.fs.promises.readFile(`/${name}`, 'utf8')
  return files
}

/** Others remove a pushed file, and add one. */
function changeByOthers(branch = 'main'): void {
  change({ keep: null }, branch)
  change({ theirs: 'two' }, branch)
}

const pushed = { temporary: 'one', keep: 'one' }
/** The session has removed a pushed file, and others another one. */
const expected = { a: 'one', b: 'one', theirs: 'two' }

/** The files after the session pushed and changed, and others changed too. */
async function rebasedAfterPush(): Promise<Record<string, string>> {
  await write(session, pushed)
  await push(session)
  await write(session, { temporary: null })
  changeByOthers()
  return rebased(session)
}

describe.runIf(hasGit)('a rebase', () => {
  test('of a fork of a state between two commits', async () => {
    await write(session, pushed)
    await push(session)
    await session.checkpoint({ checkpointLabel: 'between' })
    await write(session, { more: 'one' })
    await push(session)
    const fork = await session.fork({ checkpointLabel: 'between' })
    await write(fork, { temporary: null })
    changeByOthers()
    expect(await rebased(fork)).toEqual({ ...expected, more: 'one' })
  })

  test('of a session that pushed with a clock ahead of those of others', async () => {
    now += 10 * 60_000
    expect(await rebasedAfterPush()).toEqual(expected)
  })

  test('of a session that pushed after another one with a clock far ahead', async () => {
    const other = await session.fork()
    await write(other, { other: 'one' })
    const before = now
    now += 10 * 24 * 60 * 60_000
    await push(other, 'other')
    now = before
    expect(await rebasedAfterPush()).toEqual(expected)
  })

  test('of a fork of the state that was pushed', async () => {
    await write(session, pushed)
    await session.checkpoint({ checkpointLabel: 'pushed' })
    await push(session)
    const fork = await session.fork({ checkpointLabel: 'pushed' })
    await write(fork, { temporary: null })
    changeByOthers()
    expect(await rebased(fork)).toEqual(expected)
  })

  test('onto a revision that two remotes gave, of which each took one of its commits', async () => {
    await write(session, pushed)
    await push(session)
    const path = join(root, 'copy.git')
    cpSync(repository.path, path, { recursive: true })
    const copy = await engine.sources.create({ displayName: 'copy', gitRepository: { path } })
    await refresh('main', copy.sourceId)
    const other = await engine.sessions.create({ sourceRef: { sourceId: copy.sourceId } })
    await write(other, { more: 'one' })
    await push(other)
    repository.git(['fetch', '--quiet', path, 'main:main'])
    changeByOthers()
    repository.git(['push', '--quiet', path, 'main'])
    const revisionId = await refresh()
    expect(await refresh('main', copy.sourceId)).toBe(revisionId)
    await write(session, { temporary: null })
    expect((await session.rebase({ revisionId })).conflicts).toEqual([])
    expect(await session.fs.promises.readdir('/')).toEqual(['a', 'b', 'more', 'theirs'])
  })

  test('of a state before a rebase, in the session and in a fork', async () => {
    await write(session, pushed)
    await push(session)
    await write(session, { temporary: null })
    await session.checkpoint({ checkpointLabel: 'before' })
    changeByOthers()
    expect(await rebased(session)).toEqual(expected)
    const fork = await session.fork({ checkpointLabel: 'before' })
    expect(await rebased(fork)).toEqual(expected)
    await session.restore({ checkpointLabel: 'before' })
    expect(await rebased(session)).toEqual(expected)
  })

  test('of a session that merged one that has pushed', async () => {
    const fork = await session.fork()
    await write(fork, pushed)
    await push(fork)
    await session.merge(fork)
    await write(session, { temporary: null })
    changeByOthers()
    const second = await session.fork()
    expect(await rebased(session)).toEqual(expected)
    await fork.delete()
    await engine.collect()
    expect(await rebased(second)).toEqual(expected)
  })

  test('of a session that merged two that have pushed to two branches', async () => {
    for (const name of ['first', 'second']) {
      const fork = await engine.sessions.create({ sourceRef: { sourceId } })
      await write(fork, { [`${name}-temporary`]: 'one', [`${name}-keep`]: 'one' })
      await push(fork, name)
      await session.merge(fork)
      await write(session, { [`${name}-temporary`]: null })
      mergeIntoMain(name)
    }
    change({ 'first-keep': null, 'second-keep': null })
    changeByOthers()
    expect(await rebased(session)).toEqual(expected)
  })

  test('compares with the newest of the commits on several branches', async () => {
    await write(session, { temporary: 'one' })
    await push(session, 'a-branch')
    await write(session, { temporary: null, newer: 'one' })
    await push(session)
    mergeIntoMain('a-branch')
    change({ a: 'two' })
    const fork = await session.fork()
    await write(session, { newer: null, a: 'mine' })
    await write(fork, { newer: null })
    // The file was added after the newest commit, to git.
    const files = { a: 'two', b: 'one', temporary: 'one' }
    expect(await rebased(fork)).toEqual(files)
    for (let n = 0; n < 2; n++) {
      expect((await session.rebase()).conflicts.map(({ path }) => path)).toEqual(['/a'])
      expect(session.fs.readdirSync('/')).toEqual(Object.keys(files))
      await session.conflicts.abort()
    }
  })

  test('of a session that merged one with a newer base', async () => {
    change({ newer: 'one' })
    const fork = await session.fork()
    await rebased(fork)
    await session.merge(fork)
    await write(session, { newer: null })
    const second = await session.fork()
    // The second one also pushes, before the newer base is part of its branch.
    await write(second, pushed)
    await push(second, 'feature')
    await write(second, { temporary: null })
    mergeIntoMain('feature')
    change({ newer: 'one' })
    changeByOthers()
    const { newer, ...files } = await rebased(second)
    expect([newer, files]).toEqual(['one', expected])
    change({ keep: 'one', temporary: 'one' })
    expect(await rebased(session)).toEqual({ ...expected, keep: 'one', temporary: 'one' })
  })

  test('of a session that was rebased before its commit became part of the branch', async () => {
    await write(session, pushed)
    await push(session, 'feature')
    change({ a: 'two' })
    const files = { ...expected, a: 'two' }
    expect(await rebased(session)).toEqual({ ...pushed, a: 'two', b: 'one' })
    await write(session, { temporary: null })
    mergeIntoMain('feature')
    changeByOthers()
    expect(await rebased(session)).toEqual(files)
    // The new base comes after the commit, so a file that others add again is new.
    change({ keep: 'one' })
    expect(await rebased(session)).toEqual({ ...files, keep: 'one' })
  })

  test('of a session that merged a commit with another base', async () => {
    const other = await session.fork()
    change({ a: 'two' })
    await rebased(session)
    change({ b: 'two' })
    await rebased(other)
    await write(other, { a: null })
    await push(other)
    expect((await session.merge(other)).conflicts.map(({ path }) => path)).toEqual(['/a'])
    await session.conflicts.resolve({ path: '/a', use: 'ours' })
    expect(await rebased(session)).toEqual({ a: 'two', b: 'two' })
  })

  test('of a session that pushed, and then merged one with a newer base', async () => {
    const fork = await session.fork()
    await write(session, pushed)
    await push(session, 'feature')
    change({ newer: 'one' })
    await rebased(fork)
    await session.merge(fork)
    await write(session, { newer: null, temporary: null })
    mergeIntoMain('feature')
    changeByOthers()
    expect(await rebased(session)).toEqual(expected)
  })

  test('of a session that merged a commit of a deleted one, on a newer base than its own', async () => {
    change({ a: 'two' })
    const fork = await session.fork()
    await rebased(fork)
    const other = await engine.sessions.create({ sourceRef: { sourceId } })
    await write(other, { a: 'three' })
    await push(other)
    await session.merge(fork)
    await session.merge(other)
    await other.delete()
    await engine.collect()
    change({ a: 'four' })
    expect(await rebased(session)).toEqual({ a: 'four', b: 'one' })
  })

  test('of a session that merged two commits on one of its own', async () => {
    await write(session, { shared: 'one' })
    for (const branch of ['main', 'second']) await push(session, branch)
    const [first, second] = [await session.fork(), await session.fork()]
    await write(first, { shared: 'two' })
    await push(first)
    await write(second, { other: 'one' })
    await push(second, 'second')
    for (const fork of [first, second]) await session.merge(fork)
    mergeIntoMain('second')
    change({ shared: 'three' })
    expect(await rebased(session)).toEqual({ a: 'one', b: 'one', other: 'one', shared: 'three' })
  })

  test.each([0, 1, 2])(
    'of a session that merged two commits on one of its own, and a third commit that was pushed after %i of them',
    async (position) => {
      await write(session, { shared: 'one' })
      for (const branch of ['main', 'second']) await push(session, branch)
      const [first, second] = [await session.fork(), await session.fork()]
      const third = await engine.sessions.create({ sourceRef: { sourceId } })
      const pushes: { of: Session; files: Files; branch: string }[] = [
        { of: first, files: { shared: 'two' }, branch: 'main' },
        { of: second, files: { other: 'one' }, branch: 'second' },
      ]
      pushes.splice(position, 0, { of: third, files: { third: 'one' }, branch: 'third' })
      for (const { of, files, branch } of pushes) {
        await write(of, files)
        await push(of, branch)
        await session.merge(of)
      }
      for (const branch of ['second', 'third']) mergeIntoMain(branch)
      change({ shared: 'three' })
      const files = { a: 'one', b: 'one', other: 'one', shared: 'three', third: 'one' }
      expect(await rebased(session)).toEqual(files)
    },
  )

  test('of a session that merged two commits on a base that is newer than its own commit', async () => {
    await write(session, { mine: 'one' })
    await push(session, 'feature')
    change({ shared: 'one' })
    await rebased(session)
    const [first, second] = [await session.fork(), await session.fork()]
    await write(first, { shared: 'two' })
    await push(first)
    await write(second, { other: 'one' })
    await push(second, 'second')
    for (const fork of [first, second]) await session.merge(fork)
    for (const branch of ['feature', 'second']) mergeIntoMain(branch)
    change({ shared: 'three' })
    const files = { a: 'one', b: 'one', mine: 'one', other: 'one', shared: 'three' }
    expect(await rebased(session)).toEqual(files)
  })

  test('takes its own base if it is not known that a merged one is newer', async () => {
    const other = await session.fork()
    repository.git(['branch', 'feature', 'main'])
    change({ feature: 'one' }, 'feature')
    change({ newer: 'one' })
    await rebased(session)
    const second = await (await session.fork()).fork()
    await rebased(other, 'feature')
    await second.merge(other)
    await write(second, { newer: null })
    change({ theirs: 'two' })
    expect(await rebased(second)).toEqual({ ...expected, feature: 'one' })
  })

  test('of a session that started from an empty repository', async () => {
    repository = GitRepository.create(join(root, 'empty.git'))
    ;({ sourceId } = await engine.sources.create({
      displayName: 'empty',
      gitRepository: { path: repository.path },
    }))
    await refresh('')
    session = await engine.sessions.create({ sourceRef: { sourceId } })
    await write(session, { ...pushed, edited: 'one' })
    await push(session)
    await write(session, { temporary: null })
    changeByOthers()
    change({ edited: 'two' })
    expect(await rebased(session)).toEqual({ edited: 'two', theirs: 'two' })
  })

  test('onto a revision whose commits an earlier version listed without their states', async () => {
    await write(session, pushed)
    await push(session)
    await write(session, { temporary: null })
    changeByOthers()
    await refresh()
    for (const [key, json] of await storage.store.scan({ gte: 'z', lt: prefixEnd('z'), limit: 99 })) {
      const ids = (JSON.parse(json) as string[]).map((text) => text.split(' ')[0])
      await storage.store.commit({ put: [[key, ids]] })
    }
    expect(await rebased(session)).toEqual(expected)
  })

  test('of a session that was restored to a state before a rebase and a commit', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    change({ a: 'two', theirs: 'two' })
    await rebased(session)
    await write(session, { more: 'one' })
    await push(session)
    await session.restore({ checkpointLabel: 'before' })
    change({ b: 'two' })
    expect(await rebased(session)).toEqual({ a: 'two', b: 'two', theirs: 'two', more: 'one' })
  })

  test('of a session that was restored to a state before a rebase onto equal files', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    change({ a: 'two' })
    change({ a: 'one' })
    await rebased(session)
    await write(session, { more: 'one' })
    await push(session)
    await session.restore({ checkpointLabel: 'before' })
    expect(await rebased(session)).toEqual({ a: 'one', b: 'one', more: 'one' })
  })

  test('onto the same revision, which reverted the one to which the session was restored', async () => {
    change({ a: 'two', theirs: 'one' })
    await rebased(session)
    await session.checkpoint({ checkpointLabel: 'changed' })
    change({ a: 'one', theirs: null })
    const first = { a: 'one', b: 'one' }
    expect(await rebased(session)).toEqual(first)
    await session.restore({ checkpointLabel: 'changed' })
    expect(await rebased(session)).toEqual(first)
    // It is on that revision now.
    expect((await session.rebase()).merged).toBe(false)
    change({ a: 'three' })
    expect(await rebased(session)).toEqual({ a: 'three', b: 'one' })
  })

  test.each(['fork', 'fork of a fork'])('of a %s of a session that was restored so', async (of) => {
    await session.checkpoint({ checkpointLabel: 'before' })
    change({ a: 'two' })
    change({ a: 'one' })
    await rebased(session)
    await write(session, { more: 'one' })
    await push(session)
    await session.restore({ checkpointLabel: 'before' })
    const fork = await session.fork()
    expect(await rebased(of === 'fork' ? fork : await fork.fork())).toEqual({
      a: 'one',
      b: 'one',
      more: 'one',
    })
  })

  test('of a session that was restored to a base with the files of an earlier one', async () => {
    change({ a: 'two' })
    await rebased(session)
    change({ a: 'one' })
    await rebased(session)
    await session.checkpoint({ checkpointLabel: 'reverted' })
    change({ b: 'two', theirs: 'one' })
    await rebased(session)
    await session.restore({ checkpointLabel: 'reverted' })
    const fork = await session.fork()
    expect(await rebased(fork)).toEqual({ a: 'one', b: 'two', theirs: 'one' })
    change({ more: 'one' })
    expect(await rebased(session)).toEqual({ a: 'one', b: 'two', theirs: 'one', more: 'one' })
  })

  test('changes nothing after an aborted rebase onto equal files', async () => {
    const revisionId = await refresh()
    await write(session, { a: 'two' })
    await push(session)
    await write(session, { a: 'three' })
    change({ a: 'one' })
    expect((await session.rebase({ revisionId: await refresh() })).conflicts).toHaveLength(1)
    await session.conflicts.abort()
    expect((await session.rebase({ revisionId })).merged).toBe(false)
    // So the next commit still builds on the first one.
    repository.git(['update-ref', 'refs/heads/main', 'main~1'])
    await push(session)
  })

  test('keeps its base for a fork of a state before it was aborted', async () => {
    await write(session, { a: 'mine' })
    await push(session, 'feature')
    await session.checkpoint({ checkpointLabel: 'before' })
    change({ a: 'two', theirs: 'one' })
    expect((await session.rebase({ revisionId: await refresh() })).conflicts).toHaveLength(1)
    await session.checkpoint({ checkpointLabel: 'rebased' })
    await session.conflicts.abort()
    const fork = await session.fork({ checkpointLabel: 'rebased' })
    expect(await fork.diff().paths()).toMatchObject({ added: [], modified: ['/a'], removed: [] })
    // Its commit builds on the newer revision.
    const commitId = await push(fork, 'of-fork')
    expect(repository.git(['rev-parse', `${commitId}~1`]).trim()).toBe(repository.tip('refs/heads/main'))
    const earlier = await session.fork({ checkpointLabel: 'before' })
    expect(await earlier.diff().paths()).toMatchObject({ added: [], modified: ['/a'], removed: [] })
    const merged = await earlier.merge(fork)
    expect(merged.conflicts).toEqual([])
    expect(earlier.fs.readdirSync('/')).toContain('theirs')
  })

  test('keeps its base for a fork of a state before it was aborted, after a collection', async () => {
    await write(session, { a: 'mine' })
    change({ a: 'two', theirs: 'one' })
    expect((await session.rebase({ revisionId: await refresh() })).conflicts).toHaveLength(1)
    await session.checkpoint({ checkpointLabel: 'rebased' })
    await session.conflicts.abort()
    await write(session, { b: 'mine' })
    await engine.collect()
    const fork = await session.fork({ checkpointLabel: 'rebased' })
    expect(await fork.diff().paths()).toMatchObject({ added: [], modified: ['/a'], removed: [] })
  })

  test('changes nothing after a restore to the first of two rebases onto one revision', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    change({ a: 'two', theirs: 'one' })
    await rebased(session)
    await session.checkpoint({ checkpointLabel: 'after' })
    await session.restore({ checkpointLabel: 'before' })
    await rebased(session)
    await session.restore({ checkpointLabel: 'after' })
    expect((await session.rebase()).merged).toBe(false)
  })

  test('changes nothing after a restore if a merge has brought the base again', async () => {
    const other = await engine.sessions.create({ sourceRef: { sourceId } })
    await session.checkpoint({ checkpointLabel: 'before' })
    change({ a: 'two', theirs: 'one' })
    await rebased(session)
    await rebased(other)
    await session.restore({ checkpointLabel: 'before' })
    await session.merge(other)
    await write(session, { theirs: null })
    expect((await session.rebase()).merged).toBe(false)
    change({ more: 'one' })
    expect(await rebased(session)).toEqual({ a: 'two', b: 'one', more: 'one' })
  })

  test('onto a commit of another session, with the files of an earlier import', async () => {
    const other = await engine.sessions.create({ sourceRef: { sourceId } })
    await write(session, { temporary: 'one' })
    await push(session)
    await rebased(other)
    await write(other, { temporary: null })
    await push(other)
    expect(await rebased(session)).toEqual({ a: 'one', b: 'one' })
  })

  test.each(['a directory', 'a server'])(
    'onto a revision that another source imported first, from %s',
    async (place) => {
      let other:
        | { readonly gitRepository: { readonly path: string } }
        | { readonly gitRemote: { readonly remoteUrl: string } } = {
        gitRepository: { path: `${repository.path}/.` },
      }
      if (place === 'a server') {
        server = await serveGit(root)
        await startFrom({ gitRemote: { remoteUrl: `${server.url}/r.git` } })
        other = { gitRemote: { remoteUrl: `${server.url.replace('127.0.0.1', 'localhost')}/r.git` } }
      }
      await write(session, pushed)
      await push(session)
      await write(session, { temporary: null })
      changeByOthers()
      const second = await engine.sources.create({ displayName: 'second', ...other })
      await refresh('main', second.sourceId)
      expect(await rebased(session)).toEqual(expected)
    },
  )

  test('after a push that reached the remote, but was not recorded', async () => {
    const ended = new AbortController()
    const rewrite = ({ method, url = '' }: IncomingMessage, body: Buffer): Buffer => {
      if (method === 'POST' && url.endsWith('git-receive-pack')) ended.abort()
      return body
    }
    server = await serveGit(root, { rewrite })
    await startFrom({ gitRemote: { remoteUrl: `${server.url}/r.git` } })
    await write(session, pushed)
    const request = { message: 'mine', gitBranch: { branchName: 'main' }, signal: ended.signal }
    await expect(session.commit(request)).rejects.toMatchObject({ name: 'AbortError' })
    expect(repository.git(['log', '-1', '--format=%s', 'main'])).toBe('mine')
    await write(session, { temporary: null })
    changeByOthers()
    await expect(push(session)).rejects.toMatchObject({ reason: 'BRANCH_MOVED' })
    expect(await rebased(session)).toEqual(expected)
    await push(session)
    expect(repository.git(['ls-tree', '--name-only', 'main'])).toBe('a\nb\ntheirs')
  })

  test('after two pushes at the same moment', async () => {
    const other = await engine.sessions.create({ sourceRef: { sourceId } })
    const held = storage.hold('get', (key) => key.startsWith('z'), 'after')
    await write(session, pushed)
    await write(other, { ...pushed, b: 'two' })
    const first = push(session, 'first')
    await held.reached
    const second = push(other, 'second')
    // It may end before the first one.
    await Promise.race([second, setTimeout(500)])
    held.release()
    await Promise.all([first, second])
    for (const [one, branch] of [
      [session, 'first'],
      [other, 'second'],
    ] as const) {
      await write(one, { temporary: null })
      changeByOthers(branch)
      expect(await rebased(one, branch)).toEqual({ ...expected, b: one === other ? 'two' : 'one' })
    }
  })

  test.skipIf(!hasPostgres)('after pushes of several engines at the same moment', async () => {
    await engine.close()
    const { connectionString } = await sharedPostgres()
    const schema = freshSchema()
    const onSchema = (): Promise<Engine> =>
      openEngine({
        storage: postgresStorage({ connectionString, schema, shared: true }),
        hostPaths: { roots: [root] },
      })
    engine = await onSchema()
    await using second = await onSchema()
    await startFrom({ gitRepository: { path: repository.path } })
    const sessions: Session[] = []
    for (let n = 0; n < 12; n++) {
      const from = n % 2 === 0 ? engine : second
      const one = await from.sessions.create({ sourceRef: { sourceId } })
      await write(one, { ...pushed, b: String(n) })
      sessions.push(one)
    }
    await Promise.all(sessions.map((one, n) => push(one, `branch-${n}`)))
    for (const [n, one] of sessions.entries()) {
      await one.files.delete({ path: '/temporary' })
      // The commits of the sessions have the time of the server, so this one is known only as a direct parent.
      change({ keep: null, theirs: 'two' }, `branch-${n}`)
      expect(await rebased(one, `branch-${n}`)).toEqual({ ...expected, b: String(n) })
    }
  })

  test('after a refused push of the same commit by another session', async () => {
    await write(session, pushed)
    const fork = await session.fork()
    await push(session)
    change({ theirs: 'two' })
    await expect(push(fork)).rejects.toMatchObject({ reason: 'BRANCH_MOVED' })
    await write(session, { temporary: null })
    change({ keep: null })
    expect(await rebased(session)).toEqual(expected)
  })

  test('of a session that merged many that have pushed to branches', async () => {
    const names = Array.from({ length: 20 }, (_, n) => `from-${n}`)
    for (const name of names) {
      const one = await engine.sessions.create({ sourceRef: { sourceId } })
      await write(one, { [name]: 'one' })
      await push(one, name)
      await session.merge(one)
    }
    for (const name of names) mergeIntoMain(name)
    await write(session, { 'from-3': null, 'from-19': null })
    const files = Object.fromEntries(names.map((name) => [name, 'one'] as const))
    const { 'from-3': _, 'from-19': __, ...kept } = files
    expect(await rebased(session)).toEqual({ a: 'one', b: 'one', ...kept })
  })

  test('after more pushes than are remembered that a hook of the remote refused', async () => {
    lowerBound(limits, 'pushedCommits', 2)
    server = await serveGit(root)
    await startFrom({ gitRemote: { remoteUrl: `${server.url}/r.git` } })
    await write(session, pushed)
    await push(session)
    await write(session, { temporary: null })
    const hooks = join(repository.path, 'hooks')
    mkdirSync(hooks, { recursive: true })
    writeFileSync(join(hooks, 'update'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
    const other = await engine.sessions.create({ sourceRef: { sourceId } })
    for (let n = 0; n < 3; n++) {
      await write(other, { other: String(n) })
      await expect(push(other, `other-${n}`)).rejects.toMatchObject({ reason: 'GIT_PUSH_REJECTED' })
    }
    changeByOthers()
    expect(await rebased(session)).toEqual(expected)
  })

  test('after more refused pushes than are remembered', async () => {
    await write(session, pushed)
    await push(session)
    await write(session, { temporary: null })
    const other = await engine.sessions.create({ sourceRef: { sourceId } })
    for (let n = 0; n < 100; n++) {
      await write(other, { other: String(n) })
      await expect(push(other)).rejects.toMatchObject({ reason: 'BRANCH_MOVED' })
    }
    changeByOthers()
    expect(await rebased(session)).toEqual(expected)
  })
})
