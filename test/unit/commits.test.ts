import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  memoryStorage,
  openEngine,
  SessionStatus,
  type Engine,
  type EngineScope,
  type Session,
} from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { keys } from '../../src/engine/storage/keys.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { fewStorages } from '../support/storages.js'

const gitBranch = { branchName: 'main' }

describe.runIf(hasGit).each(['a directory', 'a server'])('committing the same files again to %s', (kind) => {
  let root: string
  let repository: GitRepository
  let server: GitServer
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    root = mkdtempSync(join(tmpdir(), 'commits-'))
    repository = GitRepository.create(join(root, 'r.git'))
    repository.stage([['100644', 'a', 'one']])
    repository.commit()
    server = await serveGit(root)
    engine = await openEngine({ hostPaths: { roots: [root] }, git: { allowPrivateAddresses: true } })
    const place =
      kind === 'a directory'
        ? { gitRepository: { path: repository.path } }
        : { gitRemote: { remoteUrl: `${server.url}/r.git` } }
    const { sourceId } = await engine.sources.create({ displayName: 'a', ...place })
    const job = await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } })
    const { revisionId } = await engine.sources.waitForJob(job)
    session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
  })

  afterEach(async () => {
    await engine.close()
    await server.close()
    rmSync(root, { recursive: true, force: true })
  })

  const eventCount = async (): Promise<number> => (await session.events.list()).events.length
  const commitCount = (): number => Number(repository.git(['rev-list', '--count', 'main']))

  test('returns the existing commit', async () => {
    await session.files.write({ path: '/a', content: 'two' })
    const first = await session.commit({ message: 'first', gitBranch })
    const events = await eventCount()
    expect(await session.commit({ message: 'second', gitBranch })).toEqual(first)
    // Changed, and changed back.
    await session.files.write({ path: '/a', content: 'three' })
    await session.files.write({ path: '/a', content: 'two' })
    expect(await session.commit({ message: 'third', gitBranch })).toEqual(first)
    expect([commitCount(), repository.tip('refs/heads/main')]).toEqual([2, first.commitId])
    expect(await eventCount()).toBe(events + 2)
    await session.files.write({ path: '/a', content: 'four' })
    const next = await session.commit({ message: 'fourth', gitBranch })
    expect(repository.git(['rev-parse', `${next.commitId}^`])).toBe(first.commitId)
  })

  test('makes a commit with allowEmpty', async () => {
    const first = await session.commit({ message: 'first', gitBranch })
    const second = await session.commit({ message: 'second', gitBranch, allowEmpty: true })
    expect(repository.git(['rev-parse', `${second.commitId}^`])).toBe(first.commitId)
    expect(repository.git(['diff', first.commitId, second.commitId])).toBe('')
    expect(repository.tip('refs/heads/main')).toBe(second.commitId)
    const allowEmpty = 1 as unknown as boolean
    await expect(session.commit({ message: 'x', allowEmpty })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
      details: { field: 'allowEmpty' },
    })
  })

  test('refuses a full ref as the name of a branch, which git would take for another branch', async () => {
    const first = await session.commit({ message: 'first', gitBranch })
    await expect(
      session.commit({ message: 'second', gitBranch: { branchName: 'refs/heads/main' } }),
    ).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
      message: 'gitBranch.branchName: is the name of a branch without refs/heads/: pass "main"',
    })
    expect(repository.git(['for-each-ref', '--format=%(refname)'])).toBe('refs/heads/main')
    expect(repository.tip('refs/heads/main')).toBe(first.commitId)
  })

  test('refuses a message with NUL, which git would cut', async () => {
    await expect(session.commit({ message: 'first\0second', gitBranch })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
      details: { field: 'message' },
    })
    expect((await session.commits.list()).commits).toEqual([])
  })

  test('refreshes, rebases and commits after the branch moved', async () => {
    await session.files.write({ path: '/mine', content: 'mine' })
    const moved = repository.commitFiles([['100644', 'a', 'theirs']], 'refs/heads/main', 'other')
    await expect(session.commit({ message: 'second', gitBranch })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
    const [source] = (await engine.sources.list()).sources
    const job = await engine.sources.refresh(source!.sourceId, { gitRef: 'main' })
    await engine.sources.waitForJob(job)
    const { conflicts } = await session.rebase()
    expect(conflicts).toEqual([])
    expect((await session.get()).status).toBe(SessionStatus.ACTIVE)
    const { commitId } = await session.commit({ message: 'second', gitBranch })
    expect(repository.git(['rev-parse', `${commitId}^`])).toBe(moved)
    expect(repository.git(['show', 'main:a'])).toBe('theirs')
    expect(repository.git(['show', 'main:mine'])).toBe('mine')
    expect((await session.rebase()).merged).toBe(false)
  })

  test('builds on the last commit of the session that was forked', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await session.files.write({ path: '/a', content: 'two' })
    const first = await session.commit({ message: 'first', gitBranch })
    const fork = await session.fork()
    const earlier = await session.fork({ checkpointLabel: 'before' })
    await fork.files.write({ path: '/a', content: 'three' })
    const { commitId } = await fork.commit({ message: 'second', gitBranch })
    expect(repository.git(['rev-parse', `${commitId}^`])).toBe(first.commitId)
    await expect(earlier.commit({ message: 'third', gitBranch })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
  })

  test('does not build on a commit that came after the state that was forked', async () => {
    await session.files.write({ path: '/b', content: 'one' })
    const { events } = await session.events.list()
    const eventId = events.at(-1)?.eventId ?? ''
    await session.files.write({ path: '/a', content: 'two' })
    await session.commit({ message: 'first', gitBranch })
    const earlier = await session.fork({ from: { eventId } })
    await expect(earlier.commit({ message: 'second', gitBranch })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
    expect(repository.git(['show', 'main:a'])).toBe('two')
  })

  test('makes a commit on another branch', async () => {
    await session.files.write({ path: '/a', content: 'two' })
    const { commitId } = await session.commit({ message: 'x', gitBranch })
    const other = await session.commit({ message: 'y', gitBranch: { branchName: 'other' } })
    expect(repository.tip('refs/heads/other')).toBe(other.commitId)
    expect(other.commitId).not.toBe(commitId)
  })

  test('fails with BRANCH_MOVED while the branch is moved, and succeeds when it is back', async () => {
    await session.files.write({ path: '/a', content: 'two' })
    const { commitId } = await session.commit({ message: 'first', gitBranch })
    repository.stage([['100644', 'b', 'elsewhere']])
    const moved = repository.commit()
    await expect(session.commit({ message: 'second', gitBranch })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
    expect(repository.tip('refs/heads/main')).toBe(moved)
    expect((await session.get()).status).toBe(SessionStatus.CONFLICT)
    repository.git(['update-ref', 'refs/heads/main', commitId])
    expect(await session.commit({ message: 'third', gitBranch })).toEqual({ commitId })
    expect((await session.get()).status).toBe(SessionStatus.ACTIVE)
  })

  test('recreates a deleted branch', async () => {
    await session.files.write({ path: '/a', content: 'two' })
    const { commitId } = await session.commit({ message: 'first', gitBranch })
    repository.git(['update-ref', '-d', 'refs/heads/main'])
    const again = await session.commit({ message: 'second', gitBranch })
    expect(repository.tip('refs/heads/main')).toBe(again.commitId)
    expect(repository.git(['rev-parse', `${again.commitId}^`])).toBe(commitId)
  })
})

test.each(fewStorages)(
  'committing the same files again in the engine makes one commit, on %s',
  async (_name, make) => {
    const scratch = mkdtempSync(join(tmpdir(), 'commits-'))
    const engine = await openEngine({ storage: make(scratch) })
    try {
      const session = await engine.sessions.create({ files: { '/a': 'one' } })
      const first = await session.commit({ message: 'x' })
      expect(await session.commit({ message: 'y' })).toEqual(first)
      expect(await session.commit({ message: 'y', allowEmpty: true })).not.toEqual(first)
      const fork = await session.fork()
      expect(await fork.commit({ message: 'z' })).not.toEqual(first)
    } finally {
      await engine.close()
      rmSync(scratch, { recursive: true, force: true })
    }
  },
)

describe.runIf(hasGit)('two tenants that import and commit the same files', () => {
  test('share no record, and each counts all of the contents', async () => {
    const root = mkdtempSync(join(tmpdir(), 'commits-'))
    const repository = GitRepository.create(join(root, 'r.git'))
    repository.stage([['100644', 'a', 'one']])
    repository.commit()
    const inner = memoryStorage({ durable: true })
    let written = new Set<string>()
    const open: typeof inner.open = async () => {
      const store = await inner.open()
      const commit = store.commit.bind(store)
      return Object.assign(store, {
        commit: (given: Parameters<typeof commit>[0]) => {
          for (const [key] of given.put ?? []) written.add(key)
          return commit(given)
        },
      })
    }
    const engine = await openEngine({ storage: { open }, hostPaths: { roots: [root] } })
    const use = async (scope: EngineScope): Promise<Set<string>> => {
      written = new Set()
      const gitRepository = { path: repository.path }
      const { sourceId } = await scope.sources.create({ displayName: 'a', gitRepository })
      const job = await scope.sources.startImport(sourceId, { git: { gitRef: 'main' } })
      const { revisionId } = await scope.sources.waitForJob(job)
      const session = await scope.sessions.create({ sourceRef: { sourceId, revisionId } })
      await session.checkpoint({ checkpointLabel: 'c' })
      await session.commit({ message: 'x' })
      await session.cache.put({ key: 'k', value: 'v' })
      await session.files.write({ path: '/b', content: 'b' })
      await session.flush()
      return written
    }
    try {
      const [one, two] = [engine.as({ tenant: 'one' }), engine.as({ tenant: 'two' })]
      const [first, second] = [await use(one), await use(two)]
      // Nodes are addressed by content; a tenant must know the hash to use one.
      const shared = [...second].filter((key) => first.has(key) && !key.startsWith('n'))
      expect(shared).toEqual([])
      const kinds = (keys: Set<string>): string[] =>
        [...new Set([...keys].map((key) => key.charAt(0)))].sort()
      expect(kinds(second).filter((kind) => kind !== 'n')).toEqual(
        kinds(first).filter((kind) => kind !== 'n'),
      )
      expect(kinds(second)).toEqual(expect.arrayContaining(['d', 'z', 'g', 'f', 'o', 's', 'v']))
      expect(await two.usage.metrics()).toEqual(await one.usage.metrics())
    } finally {
      await engine.close()
      rmSync(root, { recursive: true, force: true })
    }
  })
})

test.runIf(hasGit)('a fork builds on the commits of a session whose rebase is being aborted', async () => {
  const root = mkdtempSync(join(tmpdir(), 'commits-'))
  const repository = GitRepository.create(join(root, 'r.git'))
  repository.stage([['100644', 'a', 'one']])
  repository.commit()
  const storage = new SteppedStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage, hostPaths: { roots: [root] } })
  const { sourceId } = await engine.sources.create({
    displayName: 'a',
    gitRepository: { path: repository.path },
  })
  const { revisionId } = await engine.sources.waitForJob(
    await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } }),
  )
  const session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
  await session.files.write({ path: '/a', content: 'mine' })
  const side = { branchName: 'side' }
  const first = await session.commit({ message: 'first', gitBranch: side })
  repository.commitFiles([['100644', 'a', 'theirs']], 'refs/heads/main', 'theirs')
  await engine.sources.waitForJob(await engine.sources.refresh(sourceId, { gitRef: 'main' }))
  expect((await session.rebase()).conflicts).toHaveLength(1)
  const commit = storage.hold('commit', ({ del = [] }) => del.includes(keys.merge(session.id)))
  const aborting = session.conflicts.abort()
  await commit.reached
  // The fork does not find the end of the rebase in the store.
  const forking = session.fork()
  await setTimeout(20)
  commit.release()
  await aborting
  const fork = await forking
  await fork.files.write({ path: '/b', content: 'fork' })
  const { commitId } = await fork.commit({ message: 'second', gitBranch: side })
  expect(repository.git(['rev-parse', `${commitId}^`])).toBe(first.commitId)
  await engine.close()
  rmSync(root, { recursive: true, force: true })
})

test('forks build on a commit that was made while another fork read the earlier ones', async () => {
  const storage = new SteppedStorage(memoryStorage({ durable: true }))
  const first = await openEngine({ storage })
  const { id } = await first.sessions.create({ files: { '/a': 'one' } })
  await first.close()
  const engine = await openEngine({ storage })
  const session = await engine.sessions.open(id)
  const held = storage.hold('scan', ({ gte }) => gte.startsWith(keys.branchTips(id)), 'after')
  const forking = session.fork()
  await held.reached
  const { commitId } = await session.commit({ message: 'first' })
  held.release()
  await forking

  const { commits } = await (await session.fork()).commits.list()
  expect(commits.map((commit) => commit.commitId)).toEqual([commitId])
  await engine.close()
})
