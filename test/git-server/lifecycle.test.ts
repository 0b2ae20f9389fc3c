/** Served commits survive reopening, collections, bundles and simultaneous clients. */
import { mkdtempSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import {
  capabilitiesOf,
  memoryStorage,
  openEngine,
  type Engine,
  type EngineOptions,
  type Session,
} from '../../src/index.js'
import { hasGit } from '../support/git-repository.js'
import { GitClone, GitWorld, runGit } from '../support/git-world.js'
import { isLong } from '../support/seed.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

describe.skipIf(!hasGit)('a served session', () => {
  let directory: string
  beforeEach(() => {
    directory = mkdtempSync(join(temporaryDirectory(), 'git-lifecycle-'))
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true }))

  const open = (options: EngineOptions = {}): Promise<Engine> =>
    openEngine({ storage: levelStorage(join(directory, 'data'), { durability: 'relaxed' }), ...options })

  async function within<T>(
    work: (engine: Engine, world: GitWorld) => Promise<T>,
    options?: EngineOptions,
  ): Promise<T> {
    const engine = await open(options)
    try {
      await using world = await GitWorld.open(engine)
      return await work(engine, world)
    } finally {
      await engine.close()
    }
  }

  const files = { '/a.txt': 'one\n', '/src/b.txt': 'two\n' }

  test('has the same commits after the engine was opened again, and after a collection', async () => {
    const [id, head, pushed] = await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clone = await world.clone(session)
      const commit = await clone.commit({ 'a.txt': 'pushed\n' })
      await clone.git('push', '--quiet')
      await session.files.write({ path: '/c.txt', content: 'three\n' })
      await session.checkpoint({ checkpointLabel: 'one' })
      return [session.id, await (await world.clone(session)).head(), commit] as const
    })
    await within(async (engine, world) => {
      const clone = await world.clone({ id })
      expect([await clone.head(), await clone.head('HEAD~1')]).toEqual([head, pushed])
      await (await engine.sessions.open(id)).files.write({ path: '/d.txt', content: 'four\n' })
      await clone.git('pull', '--quiet', '--ff-only')
      const checkpoints = await clone.git('ls-remote', 'origin', 'refs/checkpoints/*')
      await engine.collect()
      expect((await engine.check({ readData: true })).findings).toEqual([])
      const again = await world.clone({ id })
      expect(await again.head()).toBe(await clone.head())
      expect(await again.git('ls-remote', 'origin', 'refs/checkpoints/*')).toBe(checkpoints)
      await (await engine.sessions.open(id)).files.write({ path: '/a.txt', content: 'after\n' })
      await again.git('pull', '--quiet', '--ff-only')
      expect(await again.git('fsck', '--strict')).toBe('')
    })
  })

  test('leaves no record when it is deleted', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      await world.clone(session)
      await session.delete()
      await engine.collect()
      expect((await engine.check({ readData: true })).findings).toEqual([])
    })
  })

  test('takes one of several pushes at once', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clones = await Promise.all([1, 2, 3].map(() => world.clone(session)))
      const commits = await Promise.all(
        clones.map((clone, at) => clone.commit({ [`${at}.txt`]: 'pushed\n' }, `push ${at}`)),
      )
      const { events } = await session.events.list()
      const codes = await Promise.all(clones.map(async (clone) => (await clone.run('push')).code))
      expect(codes.filter((code) => code === 0)).toHaveLength(1)
      expect((await session.events.list()).events.length).toBe(events.length + 1)
      expect(await (await world.clone(session)).head()).toBe(commits[codes.indexOf(0)])
    })
  })

  test('has one history for clients that fetch while it changes', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clones = await Promise.all([1, 2].map(() => world.clone(session)))
      const write = async (): Promise<void> => {
        for (let round = 0; round < 30; round++)
          await session.files.write({ path: `/${round % 5}.txt`, content: `round ${round}\n` })
      }
      const fetch = async (at: number): Promise<void> => {
        for (let round = 0; round < (isLong ? 20 : 3); round++)
          await clones[at]!.git('pull', '--quiet', '--ff-only')
      }
      await Promise.all([write(), fetch(0), fetch(1)])
      for (const clone of clones) await clone.git('pull', '--quiet', '--ff-only')
      const heads = new Set(await Promise.all(clones.map((clone) => clone.head())))
      expect(heads.size).toBe(1)
      expect(await clones[0]!.git('show', 'HEAD:4.txt')).toBe('round 29')
    })
  })

  test('gives a fork the pushed commits', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clone = await world.clone(session)
      const pushed = await clone.commit({ 'a.txt': 'pushed\n' })
      await clone.git('push', '--quiet')
      const fork = await session.fork()
      expect(await (await world.clone(fork)).head()).toBe(pushed)
      await fork.files.write({ path: '/a.txt', content: 'fork\n' })
      await clone.git('remote', 'add', 'fork', world.urlOf(fork))
      await clone.git('pull', '--quiet', '--ff-only', 'fork', 'main')
      expect(await clone.head('HEAD~1')).toBe(pushed)
    })
  })

  test('lists pushed commits, and commits on top of them', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clone = await world.clone(session)
      const pushed = await clone.commit({ 'a.txt': 'pushed\n' }, 'by a client')
      await clone.git('push', '--quiet')
      expect((await session.commits.list()).commits[0]).toMatchObject({
        commitId: pushed,
        message: 'by a client\n',
        author: { name: 'Ada Author', email: 'ada@example.org' },
      })
      await session.files.write({ path: '/a.txt', content: 'by the engine\n' })
      const { commitId } = await session.commit({ message: 'by the engine' })
      await clone.git('pull', '--quiet', '--ff-only')
      expect([await clone.head(), await clone.head('HEAD~1')]).toEqual([commitId, pushed])
      await session.undo({ count: 2 })
      await clone.git('pull', '--quiet', '--ff-only')
      expect(await clone.git('show', 'HEAD:a.txt')).toBe('one')
    })
  })

  test('writes pushed merges into a git bundle', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clone = await world.clone(session)
      await clone.git('checkout', '--quiet', '-b', 'side')
      await clone.commit({ 'side.txt': 'side\n' }, 'side')
      await clone.git('checkout', '--quiet', 'main')
      await clone.commit({ 'a.txt': 'main\n' }, 'main')
      await clone.git('merge', '--quiet', '--no-edit', 'side')
      await clone.git('push', '--quiet', 'origin', 'main')
      const bundle = join(directory, 'session.bundle')
      await writeFile(bundle, session.commits.exportBundle())
      const copy = new GitClone(join(directory, 'copy'))
      const { code, stderr } = await runGit(directory, [
        'clone',
        '--quiet',
        '-b',
        'session',
        bundle,
        copy.path,
      ])
      expect([code, stderr]).toEqual([0, ''])
      expect([await copy.head(), await copy.git('fsck', '--strict')]).toEqual([await clone.head(), ''])
    })
  })

  test('is read and written as authorize allows', async () => {
    let denied = new Set<string>()
    const authorize: NonNullable<EngineOptions['authorize']> = (_caller, action) =>
      !capabilitiesOf(action).some((one) => denied.has(one))
    await within(
      async (engine, world) => {
        const session = await engine.sessions.create({ files })
        const clone = await world.clone(session)
        await clone.commit({ 'a.txt': 'pushed\n' })
        for (const capability of ['files.write', 'commit']) {
          denied = new Set([capability])
          await clone.git('fetch', '--quiet')
          const { code, stderr } = await clone.run('push')
          expect([code, stderr]).toEqual([128, expect.stringMatching(/PERMISSION_DENIED[\s\S]*403/)])
        }
        for (const capability of ['files.read', 'history']) {
          denied = new Set([capability])
          const { code, stderr } = await clone.run('fetch')
          expect([code, stderr]).toEqual([128, expect.stringMatching(/PERMISSION_DENIED[\s\S]*403/)])
        }
      },
      { authorize },
    )
  })

  test('rejects a push while a merge has conflicts', async () => {
    await within(async (engine, world) => {
      const session: Session = await engine.sessions.create({ files })
      const fork = await session.fork()
      await fork.files.write({ path: '/a.txt', content: 'theirs\n' })
      await session.files.write({ path: '/a.txt', content: 'ours\n' })
      await session.merge(fork)
      const clone = await world.clone(session)
      await clone.commit({ 'a.txt': 'pushed\n' })
      const { code, stderr } = await clone.run('push')
      expect([code, stderr]).toEqual([1, expect.stringMatching(/UNRESOLVED_CONFLICTS/)])
      await session.conflicts.resolveAll({ use: 'ours' })
    })
  })

  test('is copied by a bundle of the engine without its commits', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const clone = await world.clone(session)
      await clone.commit({ 'a.txt': 'pushed\n' })
      await clone.git('push', '--quiet')
      const copy = await engine.sessions.importBundle(session.exportBundle())
      const cloned = await world.clone(copy)
      expect(await cloned.git('show', 'HEAD:a.txt')).toBe('pushed')
      expect(await cloned.log()).toHaveLength(1)
    })
  })

  test('is fetched over http.extraHeader', async () => {
    await within(async (engine, world) => {
      const session = await engine.sessions.create({ files })
      const url = `${world.url}/sessions/${session.id}.git`
      const header = 'http.extraHeader=Authorization: Bearer the-token'
      expect(await runGit(directory, ['-c', header, 'ls-remote', url, 'HEAD'])).toMatchObject({ code: 0 })
      expect(await runGit(directory, ['ls-remote', url, 'HEAD'])).toMatchObject({ code: 128 })
    })
  })

  test('is served from a store that reads asynchronously', async () => {
    const storage = memoryStorage({ durable: true, syncReads: false })
    let id = ''
    let head = ''
    await within(
      async (engine, world) => {
        const session = await engine.sessions.create({ files })
        const clone = await world.clone(session)
        head = await clone.commit({ 'a.txt': 'pushed\n', 'deep/er/new.txt': 'new\n' })
        await clone.git('push', '--quiet')
        id = session.id
      },
      { storage },
    )
    await within(
      async (engine, world) => {
        const clone = await world.clone({ id })
        expect(await clone.head()).toBe(head)
        const pushed = await clone.commit({ 'src/b.txt': null, 'deep/er/new.txt': 'changed\n' })
        await clone.git('push', '--quiet')
        const session = await engine.sessions.open(id)
        expect(await session.fs.promises.readFile('/deep/er/new.txt', 'utf8')).toBe('changed\n')
        await session.files.write({ path: '/src/c.txt', content: 'three\n', createParents: true })
        await clone.git('pull', '--quiet', '--ff-only')
        expect(await clone.head('HEAD~1')).toBe(pushed)
      },
      { storage },
    )
  })
})
