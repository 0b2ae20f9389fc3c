/** A commit, a promotion, a bundle and a served commit have the base of their state, also if a rebase follows the call. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { keys } from '../../src/engine/storage/keys.js'
import { memoryStorage, openEngine, type Engine, type Session } from '../../src/index.js'
import { bytesOf } from '../support/bundle-file.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { GitWorld } from '../support/git-world.js'
import { SteppedStorage } from '../support/stepped-storage.js'

const main = { branchName: 'main' }
const side = { branchName: 'side' }

describe.runIf(hasGit)('a rebase after the call', () => {
  let root: string
  let repository: GitRepository
  let storage: SteppedStorage
  let engine: Engine
  let session: Session
  let sourceId: string
  /** Waits before a commit is signed. */
  let signing: Promise<void> | undefined

  beforeEach(async () => {
    root = mkdtempSync(join(tmpdir(), 'rebase-races-'))
    repository = GitRepository.create(join(root, 'r.git'))
    repository.commitFiles(
      [
        ['100644', 'a', 'one'],
        ['100644', 'b', 'one'],
      ],
      'refs/heads/main',
      'one',
    )
    storage = new SteppedStorage(memoryStorage({ durable: true }))
    const sign = async (): Promise<string> => {
      await signing
      return '-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n'
    }
    engine = await openEngine({ storage, hostPaths: { roots: [root] }, git: { sign } })
    const gitRepository = { path: repository.path }
    ;({ sourceId } = await engine.sources.create({ displayName: 'a', gitRepository }))
    await importMain()
    session = await engine.sessions.create({ sourceRef: { sourceId } })
    await session.files.write({ path: '/b', content: 'mine' })
  })

  afterEach(async () => {
    await engine.close()
    rmSync(root, { recursive: true, force: true })
  })

  async function importMain(): Promise<string> {
    const job = await engine.sources.refresh(sourceId, { gitRef: 'main' })
    return (await engine.sources.waitForJob(job)).revisionId
  }

  /** Another commit reaches the branch, with one of the changes of the session, and the session takes it. */
  async function moveAndRebase(): Promise<void> {
    repository.commitFiles(
      [
        ['100644', 'a', 'theirs'],
        ['100644', 'b', 'mine'],
      ],
      'refs/heads/main',
      'theirs',
    )
    await importMain()
    expect((await session.rebase()).conflicts).toEqual([])
  }

  test('does not make a commit that waits revert the new base', async () => {
    let sign = (): void => undefined
    signing = new Promise((resolve) => (sign = resolve))
    const first = session.commit({ message: 'first', gitBranch: side })
    const second = session.commit({ message: 'second', gitBranch: main })
    second.catch(() => undefined)
    await storage.quiet()
    await moveAndRebase()
    sign()
    await first
    await expect(second).rejects.toMatchObject({ reason: 'BRANCH_MOVED' })
    expect(repository.git(['show', 'main:a'])).toBe('theirs')
    await session.files.write({ path: '/c', content: 'mine' })
    await session.commit({ message: 'third', gitBranch: main })
    expect(repository.git(['show', 'main:a'])).toBe('theirs')
    expect(repository.git(['show', 'main:c'])).toBe('mine')
  })

  test('makes the next commit on each branch build on the new base', async () => {
    let sign = (): void => undefined
    signing = new Promise((resolve) => (sign = resolve))
    const first = session.commit({ message: 'first' })
    await storage.quiet()
    await moveAndRebase()
    sign()
    await first
    const { commitId } = await session.commit({ message: 'second' })
    const { parentId } = await session.commits.get({ commitId })
    expect(parentId).toBe(repository.git(['rev-parse', 'main']))
  })

  test('does not make a promoted state revert the new base', async () => {
    repository.commitFiles([['100644', 'a', 'theirs']], 'refs/heads/main', 'theirs')
    await importMain()
    const scan = storage.hold('get', (key) => key.startsWith('z'))
    const importing = importMain()
    await scan.reached
    // It waits for its turn.
    const promoting = await engine.sources.promoteSession(sourceId, { sessionId: session.id })
    await session.rebase()
    scan.release()
    await importing
    const { revisionId } = await engine.sources.waitForJob(promoting)
    const promoted = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
    expect(promoted.fs.readFileSync('/a', 'utf8')).toBe('one')
    await promoted.files.write({ path: '/c', content: 'mine' })
    await expect(promoted.commit({ message: 'second', gitBranch: main })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
    expect(repository.git(['show', 'main:a'])).toBe('theirs')
  })

  test('does not change the base of a bundle', async () => {
    const bundle = session.exportBundle()
    const before = await session.diff({ base: true }).paths()
    await moveAndRebase()
    const copy = await engine.sessions.importBundle(await bytesOf(bundle))
    expect(await copy.diff({ base: true }).paths()).toEqual(before)
    await copy.files.write({ path: '/c', content: 'mine' })
    await expect(copy.commit({ message: 'copy', gitBranch: main })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
    expect(repository.git(['show', 'main:a'])).toBe('theirs')
  })

  test('does not spoil the commit that git clients get', async () => {
    await session.commit({ message: 'kept' })
    await using world = await GitWorld.open(engine)
    const objects = storage.hold('get', (key) => key.startsWith('g'))
    const cloning = world.clone(session)
    await objects.reached
    await moveAndRebase()
    objects.release()
    const clone = await cloning
    await clone.git('pull', '--quiet', '--ff-only')
    expect([await clone.git('show', 'HEAD:a'), await clone.git('show', 'HEAD:b')]).toEqual(['theirs', 'mine'])
  })

  test('a fork does not build on a commit that came after its state', async () => {
    await engine.close()
    engine = await openEngine({ storage, hostPaths: { roots: [root] } })
    session = await engine.sessions.open(session.id)
    const tips = storage.hold('scan', ({ gte }) => gte === keys.branchTips(session.id), 'before')
    const forking = session.fork()
    await tips.reached
    await session.files.write({ path: '/a', content: 'two' })
    await session.commit({ message: 'first', gitBranch: main })
    tips.release()
    const fork = await forking
    await fork.files.write({ path: '/c', content: 'fork' })
    await expect(fork.commit({ message: 'second', gitBranch: main })).rejects.toMatchObject({
      reason: 'BRANCH_MOVED',
    })
    expect(repository.git(['show', 'main:a'])).toBe('two')
  })
})
