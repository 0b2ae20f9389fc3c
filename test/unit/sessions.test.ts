// oxlint-disable vitest/expect-expect -- `refused` does.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  memoryStorage,
  openEngine,
  type Change,
  type Diff,
  type Engine,
  type ErrorReason,
  type ManifestPage,
  type ManifestRequest,
  type Session,
  type SessionInfo,
  type SessionListRequest,
  type Storage,
} from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { storages } from '../support/storages.js'

describe.each(storages)('sessions on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let environment: FixedEnvironment
  let engine: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'sessions-'))
    storage = makeStorage(directory)
    environment = fixedEnvironment()
    engine = await openEngine({ storage, environment })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  /** Reopens the session: on durable storage in a reopened engine. */
  async function reloaded(session: Session): Promise<Session> {
    if (!lasting) return session
    await reopen()
    return engine.sessions.open(session.id)
  }

  async function reopen(): Promise<void> {
    await engine.close()
    engine = await openEngine({ storage, environment })
  }

  describe('creation', () => {
    test('of a blank session makes an empty tree', async () => {
      const session = await engine.sessions.create()
      const info = await session.get()
      expect(info).toEqual({
        id: session.id,
        baseFingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
        status: 'SESSION_STATUS_ACTIVE',
        tags: {},
        createdAt: expect.stringMatching(/^2025-01-01T00:00:00\.\d{3}Z$/),
        lastActivityAt: expect.stringMatching(/^2025-01-01T00:00:00\.\d{3}Z$/),
        metadata: {},
        capabilities: { commit: true, approvals: true, annotations: true },
      })
      const { nodes, nextPageToken, manifestHash } = await session.manifest()
      expect([nodes, nextPageToken]).toEqual([[], ''])
      expect(manifestHash).toBe(`sha256:${info.baseFingerprint}`)
      expect(await engine.sessions.get(session.id)).toEqual({ ...info, lastActivityAt: expect.any(String) })
    })

    test('from files makes the same tree as writing them', async () => {
      const contents = {
        '/a/b/c.txt': 'c',
        '/a.txt': new Uint8Array([0, 255]),
        '/empty': '',
        '/__proto__/x': 'p',
      }
      const session = await engine.sessions.create({ files: contents })
      const written = await engine.sessions.create()
      for (const [path, content] of Object.entries(contents)) await written.files.write({ path, content })
      expect(await session.manifest()).toEqual(await written.manifest())
      expect((await session.manifest()).manifestHash).toBe(`sha256:${(await session.get()).baseFingerprint}`)
      expect((await written.get()).baseFingerprint).not.toBe((await session.get()).baseFingerprint)
      const again = await reloaded(session)
      expect(Buffer.from(await again.files.read({ path: '/a.txt' }))).toEqual(Buffer.from([0, 255]))
    })

    test('from large files keeps their content', async () => {
      const content = new Uint8Array(5 * 2 ** 20).map((_, i) => i % 251)
      const session = await engine.sessions.create({ files: { '/large': content, '/small': 's' } })
      const again = await reloaded(session)
      expect(Buffer.compare(await again.files.read({ path: '/large' }), content)).toBe(0)
    })

    test('from contradictory files is rejected', async () => {
      for (const files of [{ '/a': '', '/a/b': '' }, { '/a/b': '', '/a': '' }, { '/': '' }]) {
        await refused(() => engine.sessions.create({ files }), 'INVALID_ARGUMENT', { field: 'files' })
      }
      for (const files of [null, 5, 'x']) {
        await refused(() => engine.sessions.create({ files: files as never }), 'INVALID_ARGUMENT', {
          field: 'files',
        })
      }
    })

    test('accepts only one kind of start', async () => {
      const request = { files: {}, sourceRef: { sourceId: 'x' } }
      await refused(() => engine.sessions.create(request), 'INVALID_ARGUMENT', { field: 'sourceRef' })
    })

    test('keeps tags as data, within their limits', async () => {
      const initialTags = JSON.parse(
        '{"__proto__":"p","constructor":"c","":"empty","ключ":"значение"}',
      ) as Record<string, string>
      const session = await reloaded(await engine.sessions.create({ initialTags }))
      const { tags } = await session.get()
      expect(new Map(Object.entries(tags))).toEqual(new Map(Object.entries(initialTags)))
      const most = Object.fromEntries(
        Array.from({ length: 64 }, (_, i) => [`${i}`.padEnd(128, 'k'), 'v'.repeat(1024)]),
      )
      expect((await (await engine.sessions.create({ initialTags: most })).get()).tags).toEqual(most)
      for (const bad of [{ ['k'.repeat(129)]: '' }, { k: 'v'.repeat(1025) }, { ...most, more: '' }]) {
        await refused(() => engine.sessions.create({ initialTags: bad }), 'TOO_LARGE')
      }
      for (const bad of [{ k: 5 }, { k: null }, ['a'], 'x', null, { k: '\ud800' }]) {
        await refused(() => engine.sessions.create({ initialTags: bad as never }), 'INVALID_ARGUMENT')
      }
    })

    test('changing a returned object changes nothing', async () => {
      const session = await engine.sessions.create({ initialTags: { a: '1' } })
      const info = (await session.get()) as { tags: Record<string, string> }
      info.tags['a'] = '2'
      expect((await session.get()).tags).toEqual({ a: '1' })
    })

    test('gives equal bases equal fingerprints, which forks keep', async () => {
      const one = await engine.sessions.create({ files: { '/a': '1', '/b': '2' } })
      const two = await engine.sessions.create({ files: { '/b': '2', '/a': '1' } })
      const fork = await one.fork()
      await one.files.write({ path: '/a', content: 'changed' })
      const late = await one.fork()
      const prints = await Promise.all(
        [one, two, fork, late].map(async (each) => (await each.get()).baseFingerprint),
      )
      expect(new Set(prints).size).toBe(1)
      expect((await (await reloaded(late)).get()).baseFingerprint).toBe(prints[0])
    })
  })

  describe('listing', () => {
    async function ids(request?: SessionListRequest): Promise<string[]> {
      return (await engine.sessions.list(request)).sessions.map(({ id }) => id)
    }

    test('is in creation order, in pages, including forks', async () => {
      const created: string[] = []
      for (let i = 0; i < 5; i++) created.push((await engine.sessions.create()).id)
      created.push((await (await engine.sessions.open(created[0]!)).fork()).id)
      expect(await ids()).toEqual(created)
      if (lasting) await reopen()
      const paged: string[] = []
      let pageToken = ''
      do {
        const page = await engine.sessions.list({ pageSize: 4, pageToken })
        paged.push(...page.sessions.map(({ id }) => id))
        pageToken = page.nextPageToken
      } while (pageToken !== '')
      expect(paged).toEqual(created)
    })

    test('filters by a tag', async () => {
      const a1 = await engine.sessions.create({ initialTags: { a: '1' } })
      const a2 = await engine.sessions.create({ initialTags: { a: '2', b: 'x=y' } })
      await engine.sessions.create()
      expect(await ids({ filter: 'a=1' })).toEqual([a1.id])
      expect(await ids({ filter: 'b=x=y' })).toEqual([a2.id])
      expect(await ids({ filter: 'a=' })).toEqual([])
      expect(await ids({ filter: 'toString=1' })).toEqual([])
      expect((await ids({ filter: '' })).length).toBe(3)
      for (const filter of ['a', '=1', '=', 5, null]) {
        await refused(() => engine.sessions.list({ filter: filter as string }), 'INVALID_ARGUMENT', {
          field: 'filter',
        })
      }
    })

    test('finds a tag of any characters, and no metadata with the same text', async () => {
      const tags = ['a"b', 'a\\b', 'ä€😀', '\u2028', '\n', '__proto__']
      for (const tag of tags) {
        const { id } = await engine.sessions.create({ initialTags: Object.fromEntries([[tag, `${tag}=`]]) })
        const other = await engine.sessions.open(id)
        await other.fork({
          newTags: Object.fromEntries([[tag, '']]),
          metadata: { tags: { [tag]: `${tag}=` } },
        })
        expect(await ids({ filter: `${tag}=${tag}=` }), tag).toEqual([id])
      }
    })

    test('fills its pages even if the filter excludes sessions', async () => {
      const wanted: string[] = []
      for (let i = 0; i < 20; i++) {
        const { id } = await engine.sessions.create({ initialTags: { odd: String(i % 2) } })
        if (i % 2 === 1) wanted.push(id)
      }
      const first = await engine.sessions.list({ filter: 'odd=1', pageSize: 6 })
      const second = await engine.sessions.list({
        filter: 'odd=1',
        pageSize: 6,
        pageToken: first.nextPageToken,
      })
      expect([first.sessions.length, second.sessions.length]).toEqual([6, 4])
      expect([...first.sessions, ...second.sessions].map(({ id }) => id)).toEqual(wanted)
      expect(second.nextPageToken).toBe('')
    })

    test('continues after its token even if sessions are created and deleted', async () => {
      const made = await Promise.all(Array.from({ length: 4 }, () => engine.sessions.create()))
      const created = made.map(({ id }) => id).sort()
      const { nextPageToken } = await engine.sessions.list({ pageSize: 2 })
      await engine.sessions.delete(created[1]!)
      await engine.sessions.delete(created[2]!)
      const { id } = await engine.sessions.create()
      expect(await ids({ pageToken: nextPageToken })).toEqual([created[3], id])
    })

    test("shows the same as a session's own get()", async () => {
      const session = await engine.sessions.create({ initialTags: { a: 'b' } })
      await session.files.write({ path: '/a', content: '' })
      const info = await session.get()
      expect((await engine.sessions.list()).sessions).toEqual([info])
      if (!lasting) return
      await reopen()
      expect((await engine.sessions.list()).sessions).toEqual([info])
    })
  })

  describe('page sizes and tokens', () => {
    test('are validated by every listing', async () => {
      const session = await engine.sessions.create({ files: { '/a': '', '/b': '' } })
      await session.files.createSymlink({ linkPath: '/l', target: 'x' })
      await session.files.createSymlink({ linkPath: '/m', target: 'x' })
      await session.checkpoint()
      await session.checkpoint()
      await engine.sessions.create()
      const other = await engine.sessions.create({ files: { '/a': '', '/b': '' } })
      const listings: ((request: {
        pageSize?: number
        pageToken?: string
      }) => Promise<{ nextPageToken: string }>)[] = [
        (request) => engine.sessions.list(request),
        (request) => session.manifest(request),
        (request) => session.manifest({ ...request, pathPrefix: '/' }),
        (request) => session.files.listSymlinks(request),
        (request) => session.listCheckpoints(request),
      ]
      const tokens: string[] = []
      for (const list of listings) tokens.push((await list({ pageSize: 1 })).nextPageToken)
      expect(tokens.every((token) => /^[\w-]+$/.test(token))).toBe(true)
      for (const [index, list] of listings.entries()) {
        await list({ pageToken: tokens[index]!, pageSize: 0 })
        await list({ pageSize: 10_001 })
        for (const foreign of [...tokens.filter((_, i) => i !== index), 'x', '!', 'e30', 'WzEsMl0', 5, {}]) {
          const pageToken = foreign as string
          await refused(() => list({ pageToken }), 'INVALID_ARGUMENT', { field: 'pageToken' })
        }
        for (const pageSize of [-1, 1.5, Number.NaN, Infinity, '5' as unknown as number]) {
          await refused(() => list({ pageSize }), 'INVALID_ARGUMENT', { field: 'pageSize' })
        }
      }
      await refused(() => other.listCheckpoints({ pageToken: tokens[4]! }), 'INVALID_ARGUMENT')
    })
  })

  describe('deletion', () => {
    test('hides a session from every method', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'a' } })
      await session.checkpoint({ checkpointLabel: 'one' })
      const second = await engine.sessions.open(session.id)
      await session.delete()
      const calls: (() => Promise<unknown>)[] = [
        () => session.get(),
        () => second.get(),
        () => second.files.read({ path: '/a' }),
        () => second.files.write({ path: '/a', content: '' }),
        () => second.files.batch([]),
        () => second.fork(),
        () => second.checkpoint(),
        () => second.listCheckpoints(),
        () => second.restore({ checkpointLabel: 'one' }),
        () => second.manifest(),
        () => second.diff().paths(),
        () => second.commit({ message: 'x' }),
        () => second.delete(),
        () => engine.sessions.get(session.id),
        () => engine.sessions.open(session.id),
        () => engine.sessions.delete(session.id),
        () => engine.diff({ from: { sessionId: session.id }, to: { sessionId: session.id } }).paths(),
      ]
      for (const call of calls) await refused(call, 'SESSION_NOT_FOUND', { sessionId: session.id })
      await expect(second.fs.promises.readFile('/a')).rejects.toMatchObject({
        cause: { reason: 'SESSION_NOT_FOUND' },
      })
      expect((await engine.sessions.list()).sessions).toEqual([])
      if (lasting) await reopen()
      await refused(() => engine.sessions.get(session.id), 'SESSION_NOT_FOUND')
      expect((await engine.sessions.list()).sessions).toEqual([])
    })

    test('keeps forks of the current state and of checkpoints, and their forks', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'base' } })
      await session.files.write({ path: '/a', content: 'one' })
      await session.checkpoint({ checkpointLabel: 'one' })
      await session.files.write({ path: '/a', content: 'two' })
      const live = await session.fork()
      const early = await session.fork({ checkpointLabel: 'one' })
      const grandchild = await live.fork()
      await session.delete()
      await live.delete()
      const forks = { [early.id]: 'one', [grandchild.id]: 'two' }
      const check = async (): Promise<void> => {
        for (const [id, content] of Object.entries(forks)) {
          const fork = await engine.sessions.open(id)
          expect(await read(fork, '/a')).toBe(content)
          expect(await fork.diff().paths()).toEqual({ added: [], removed: [], modified: ['/a'] })
        }
      }
      await check()
      if (lasting) await reopen()
      await check()
    })

    test('takes effect after earlier calls', async () => {
      const session = await reloaded(await engine.sessions.create({ files: { '/d/a': 'a' } }))
      const written = session.files.write({ path: '/d/a', content: 'b' })
      const deleted = session.delete()
      await written
      await deleted
      await refused(() => session.get(), 'SESSION_NOT_FOUND')
    })

    test('happens once, even if called several times', async () => {
      const session = await reloaded(await engine.sessions.create({ files: { '/d/a': 'a' } }))
      const written = session.files.write({ path: '/d/a', content: 'b' })
      const calls = [written, session.delete(), session.delete(), engine.sessions.delete(session.id)]
      const ends = (await Promise.allSettled(calls)).map(({ status }) => status)
      expect(ends).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected'])
    })

    test.each(['fail', 'pass'] as const)('that is not stored keeps the session (%s)', async (how) => {
      const failing = new FailingStorage(memoryStorage({ durable: true }))
      const opened = await openEngine({ storage: failing })
      const session = await opened.sessions.create({ files: { '/a': 'a' } })
      failing.next = how
      await refused(() => session.delete(), 'STORE_FAILED')
      failing.next = 'commit'
      expect(Buffer.from(await session.files.read({ path: '/a' })).toString()).toBe('a')
      expect((await opened.sessions.list()).sessions.map(({ id }) => id)).toEqual([session.id])
      await session.delete()
      await refused(() => session.get(), 'SESSION_NOT_FOUND')
      await opened.close()
    })

    test('with an invalid id is rejected', async () => {
      for (const id of ['', 'x', '0'.repeat(36), '__proto__', undefined, null, 5, {}]) {
        const sessionId = id as string
        for (const call of [
          () => engine.sessions.delete(sessionId),
          () => engine.sessions.get(sessionId),
          () => engine.sessions.open(sessionId),
        ]) {
          await refused(call, typeof id === 'string' ? 'SESSION_NOT_FOUND' : 'INVALID_ARGUMENT')
        }
      }
    })
  })

  describe('forks', () => {
    test('start from the current state and are independent', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'base', '/d/b': 'b' } })
      await session.files.write({ path: '/a', content: 'changed', mode: 0o600 })
      await session.files.createSymlink({ linkPath: '/l', target: 'a' })
      const fork = await session.fork()
      expect(await fork.manifest()).toEqual(await session.manifest())
      expect(await fork.files.listSymlinks()).toEqual(await session.files.listSymlinks())
      await fork.files.write({ path: '/d/b', content: 'of the fork' })
      await session.files.delete({ path: '/a' })
      await session.files.rename({ sourcePath: '/d', destinationPath: '/e' })
      const check = async (parent: Session, child: Session): Promise<void> => {
        expect(await contents(parent)).toEqual({ '/e/b': 'b' })
        expect(await contents(child)).toEqual({ '/a': 'changed', '/d/b': 'of the fork' })
      }
      await check(session, fork)
      await check(await reloaded(session), await engine.sessions.open(fork.id))
    })

    test('start from a checkpoint by its label', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'base' } })
      await session.checkpoint({ checkpointLabel: 'start' })
      await session.files.write({ path: '/a', content: 'later' })
      const again = await reloaded(session)
      const fork = await again.fork({ checkpointLabel: 'start' })
      expect(await contents(fork)).toEqual({ '/a': 'base' })
      expect(await contents(await again.fork({ checkpointLabel: '' }))).toEqual({ '/a': 'later' })
      await refused(() => again.fork({ checkpointLabel: 'none' }), 'CHECKPOINT_NOT_FOUND')
      const reopened = await reloaded(fork)
      expect(await contents(reopened)).toEqual({ '/a': 'base' })
      await refused(() => reopened.fork({ checkpointLabel: 'start' }), 'CHECKPOINT_NOT_FOUND')
      expect((await reopened.listCheckpoints()).checkpoints).toEqual([])
    })

    test('inherit the tags of their parent, overridden by new ones', async () => {
      const session = await engine.sessions.create({ initialTags: { a: '1', b: '2' } })
      const fork = await session.fork({
        newTags: JSON.parse('{"b":"3","__proto__":"4"}') as Record<string, string>,
      })
      expect(new Map(Object.entries((await fork.get()).tags))).toEqual(
        new Map([
          ['__proto__', '4'],
          ['a', '1'],
          ['b', '3'],
        ]),
      )
      expect((await (await reloaded(await fork.fork())).get()).tags['b']).toBe('3')
      expect((await (await engine.sessions.open(session.id)).get()).tags).toEqual({ a: '1', b: '2' })
    })

    test('contain earlier calls and no later ones', async () => {
      const session = await reloaded(await engine.sessions.create({ files: { '/d/a': '0' } }))
      const before = session.files.write({ path: '/d/a', content: '1' })
      const forking = session.fork()
      const after = session.files.write({ path: '/d/a', content: '2' })
      const fork = await forking
      await Promise.all([before, after])
      expect(await read(fork, '/d/a')).toBe('1')
      expect(await read(session, '/d/a')).toBe('2')
    })

    test('of forks of forks are found after reopening', async () => {
      let session = await engine.sessions.create({ files: { '/0': '' } })
      for (let i = 1; i <= 50; i++) {
        session = await session.fork()
        await session.files.write({ path: `/${i}`, content: `${i}` })
      }
      expect(Object.keys(await contents(await reloaded(session))).length).toBe(51)
    })
  })

  describe('checkpoints', () => {
    test('are listed in creation order, in pages', async () => {
      const session = await engine.sessions.create()
      const made = []
      for (const label of ['z', 'a', '', 'm', ''])
        made.push(await session.checkpoint({ checkpointLabel: label }))
      made.push(await session.checkpoint())
      expect(made[0]).toEqual({
        id: expect.any(String),
        sessionId: session.id,
        checkpointLabel: 'z',
        createdAt: expect.stringMatching(/^2025-01-01T/),
        metadata: {},
      })
      const again = await reloaded(session)
      expect(await again.listCheckpoints()).toEqual({ checkpoints: made, nextPageToken: '' })
      const first = await again.listCheckpoints({ pageSize: 4 })
      const late = await again.checkpoint()
      const second = await again.listCheckpoints({ pageSize: 4, pageToken: first.nextPageToken })
      expect([...first.checkpoints, ...second.checkpoints]).toEqual([...made, late])
    })

    test('have unique labels in their session', async () => {
      const session = await reloaded(await engine.sessions.create())
      await session.checkpoint({ checkpointLabel: 'one' })
      const again = await reloaded(session)
      await refused(() => again.checkpoint({ checkpointLabel: 'one' }), 'ALREADY_EXISTS', {
        checkpointLabel: 'one',
      })
      await (await again.fork()).checkpoint({ checkpointLabel: 'one' })
      await again.checkpoint({ checkpointLabel: '__proto__' })
      await again.restore({ checkpointLabel: '__proto__' })
      await refused(() => again.restore({ checkpointLabel: 'constructor' }), 'CHECKPOINT_NOT_FOUND')
      expect((await again.listCheckpoints()).checkpoints.length).toBe(2)
    })

    test('with the same label at the same time: only one is created', async () => {
      const session = await reloaded(await engine.sessions.create())
      const outcomes = await Promise.allSettled(
        [1, 2, 3].map(() => session.checkpoint({ checkpointLabel: 'one' })),
      )
      expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBe(1)
      expect((await session.listCheckpoints()).checkpoints.length).toBe(1)
    })

    test('reject labels that are not text or too long', async () => {
      const session = await engine.sessions.create()
      for (const label of [5, null, {}, '\ud800']) {
        await refused(() => session.checkpoint({ checkpointLabel: label as string }), 'INVALID_ARGUMENT', {
          field: 'checkpointLabel',
        })
      }
      await refused(() => session.checkpoint({ checkpointLabel: 'x'.repeat(1025) }), 'TOO_LARGE', {
        field: 'checkpointLabel',
        limit: '1024',
      })
      expect((await session.listCheckpoints()).checkpoints).toEqual([])
    })

    test('contain earlier calls and no later ones', async () => {
      const session = await reloaded(await engine.sessions.create({ files: { '/d/a': '0' } }))
      await Promise.all([
        session.files.write({ path: '/d/a', content: '1' }),
        session.checkpoint({ checkpointLabel: 'one' }),
        session.files.write({ path: '/d/a', content: '2' }),
      ])
      await session.restore({ checkpointLabel: 'one' })
      expect(await read(session, '/d/a')).toBe('1')
    })
  })

  describe('restore', () => {
    test('restores the files of a checkpoint, by id and by label', async () => {
      const session = await engine.sessions.create({ files: { '/a': '1', '/d/b': 'b' } })
      await session.files.createSymlink({ linkPath: '/l', target: 'a' })
      const before = await session.manifest()
      const { id } = await session.checkpoint({ checkpointLabel: 'one' })
      const spoil = async (target: Session): Promise<void> => {
        await target.files.write({ path: '/a', content: '2', mode: 0o600 })
        await target.files.delete({ path: '/d/b' })
        await target.files.delete({ path: '/l' })
        await target.files.write({ path: '/new', content: '' })
      }
      await spoil(session)
      const info = await session.restore({ checkpointId: id })
      expect(info).toEqual({ ...(await session.get()), changes: [], isComplete: true })
      expect(await session.manifest()).toEqual(before)
      const again = await reloaded(session)
      expect(await again.manifest()).toEqual(before)
      await spoil(again)
      await again.restore({ checkpointLabel: 'one' })
      expect(await again.manifest()).toEqual(before)
      expect(await again.files.readSymlink('/l')).toEqual({ target: 'a' })
      await again.files.write({ path: '/after', content: 'x' })
      expect(Object.keys(await contents(await reloaded(again)))).toEqual(['/a', '/after', '/d/b'])
    })

    test('can be undone by another restore any number of times, also after reopening', async () => {
      let session = await engine.sessions.create({ files: { '/a': '0' } })
      const labels = ['one', 'two', 'three']
      for (const label of labels) {
        await session.files.write({ path: '/a', content: label })
        await session.files.write({ path: `/${label}`, content: '' })
        await session.checkpoint({ checkpointLabel: label })
      }
      for (const label of ['one', 'three', 'two', 'two', 'one', 'three']) {
        await session.restore({ checkpointLabel: label })
        const expected = labels.slice(0, labels.indexOf(label) + 1)
        expect(await read(session, '/a')).toBe(label)
        session = await reloaded(session)
        expect(await read(session, '/a')).toBe(label)
        expect(Object.keys(await contents(session)).sort()).toEqual(
          ['/a', ...expected.map((each) => `/${each}`)].sort(),
        )
        await session.files.write({ path: '/a', content: 'spoiled' })
        await session.checkpoint({
          checkpointLabel: `after ${label} ${(await session.listCheckpoints()).checkpoints.length}`,
        })
      }
      const { checkpoints } = await session.listCheckpoints()
      for (const { id, checkpointLabel: label } of checkpoints) {
        await session.restore({ checkpointId: id })
        expect([label, await read(session, '/a')]).toEqual([
          label,
          label.startsWith('after') ? 'spoiled' : label,
        ])
      }
    })

    test('finds states from before and after thousands of changes', async () => {
      let session = await engine.sessions.create()
      for (let i = 0; i < 4500; i++) {
        if (i % 500 === 250) await session.checkpoint({ checkpointLabel: `at ${i}` })
        if (i === 3000) await session.restore({ checkpointLabel: 'at 250' })
        await session.files.write({ path: `/${i % 700}`, content: `${i}` })
      }
      const states = new Map<string, string>()
      const { checkpoints } = await session.listCheckpoints()
      for (const { checkpointLabel } of checkpoints) {
        await session.restore({ checkpointLabel })
        states.set(checkpointLabel, (await session.manifest()).manifestHash)
      }
      expect(new Set(states.values()).size).toBe(states.size)
      session = await reloaded(session)
      for (const [label, expected] of [...states].toReversed()) {
        const fork = await session.fork({ checkpointLabel: label })
        expect([label, (await fork.manifest()).manifestHash]).toEqual([label, expected])
        await session.restore({ checkpointLabel: label })
        expect([label, (await session.manifest()).manifestHash]).toEqual([label, expected])
      }
    })

    test('requires exactly one reference to a checkpoint of this session', async () => {
      const session = await engine.sessions.create({ files: { '/a': '' } })
      const { id } = await session.checkpoint({ checkpointLabel: 'one' })
      const fork = await session.fork()
      for (const reference of [{}, { checkpointId: id, checkpointLabel: 'one' }]) {
        await refused(() => session.restore(reference), 'INVALID_ARGUMENT', { field: 'checkpointId' })
      }
      await refused(() => fork.restore({ checkpointId: id }), 'CHECKPOINT_NOT_FOUND', { checkpointId: id })
      await refused(() => session.restore({ checkpointLabel: '' }), 'CHECKPOINT_NOT_FOUND')
      await refused(() => session.restore({ checkpointId: 5 as never }), 'INVALID_ARGUMENT')
    })

    test('takes effect in call order', async () => {
      const session = await reloaded(await engine.sessions.create({ files: { '/d/a': '0' } }))
      await session.checkpoint({ checkpointLabel: 'zero' })
      await Promise.all([
        session.files.write({ path: '/d/a', content: '1' }),
        session.restore({ checkpointLabel: 'zero' }),
        session.files.append({ path: '/d/a', content: '+' }),
      ])
      expect(await read(session, '/d/a')).toBe('0+')
    })
  })

  describe('the manifest', () => {
    const files = { '/src/b/c': 'c', '/src/a': 'a', '/srcfoo': 'f', '/src-x': 'x', '/z': 'z' }

    async function allPaths(session: Session, request: ManifestRequest = {}): Promise<string[]> {
      const found: string[] = []
      let page: ManifestPage | undefined
      do {
        page = await session.manifest({ ...request, pageToken: page?.nextPageToken ?? '' })
        found.push(...page.nodes.map(({ path }) => path))
      } while (page.nextPageToken !== '')
      return found
    }

    test('is depth first, the same for every page size', async () => {
      const session = await reloaded(await engine.sessions.create({ files }))
      const expected = ['/src', '/src/a', '/src/b', '/src/b/c', '/src-x', '/srcfoo', '/z']
      for (const pageSize of [1, 2, 3, 7, 8, 0])
        expect(await allPaths(session, { pageSize })).toEqual(expected)
      const full = await session.manifest({ pageSize: 7 })
      expect(full.nextPageToken).toBe('')
    })

    test('can be limited by a literal prefix', async () => {
      const session = await reloaded(await engine.sessions.create({ files }))
      const expected: Record<string, string[]> = {
        '': ['/src', '/src/a', '/src/b', '/src/b/c', '/src-x', '/srcfoo', '/z'],
        '/': ['/src', '/src/a', '/src/b', '/src/b/c', '/src-x', '/srcfoo', '/z'],
        '/src': ['/src', '/src/a', '/src/b', '/src/b/c', '/src-x', '/srcfoo'],
        '/src/': ['/src/a', '/src/b', '/src/b/c'],
        '/src/b': ['/src/b', '/src/b/c'],
        '/src/b/': ['/src/b/c'],
        '/src/b/c': ['/src/b/c'],
        '/src/b/c/': [],
        '/srcf': ['/srcfoo'],
        '/none': [],
        '/none/': [],
        '/zz': [],
      }
      const { manifestHash } = await session.manifest()
      for (const [pathPrefix, paths] of Object.entries(expected)) {
        expect([pathPrefix, await allPaths(session, { pathPrefix })]).toEqual([pathPrefix, paths])
        expect([pathPrefix, await allPaths(session, { pathPrefix, pageSize: 1 })]).toEqual([
          pathPrefix,
          paths,
        ])
        expect((await session.manifest({ pathPrefix, pageSize: 1 })).manifestHash).toBe(manifestHash)
      }
      for (const pathPrefix of ['src', 'a\0', '/a\0b', '/\ud800', 5, null, {}]) {
        const request = { pathPrefix: pathPrefix as string }
        await refused(() => session.manifest(request), 'INVALID_ARGUMENT', { field: 'pathPrefix' })
      }
    })

    test('continues after its token despite changes', async () => {
      const session = await engine.sessions.create({
        files: { '/a/x': '', '/b/x': '', '/b/y': '', '/c': '', '/d': '' },
      })
      const at = async (pageSize: number): Promise<string> =>
        (await session.manifest({ pageSize })).nextPageToken
      const [afterA, afterBx] = [await at(2), await at(4)]
      const rest = async (pageToken: string): Promise<string[]> =>
        (await session.manifest({ pageToken })).nodes.map(({ path }) => path)
      expect(await rest(afterBx)).toEqual(['/b/y', '/c', '/d'])
      await session.files.delete({ path: '/b/x' })
      expect(await rest(afterBx)).toEqual(['/b/y', '/c', '/d'])
      await session.files.delete({ path: '/b/y' })
      await session.files.removeDirectory({ path: '/b' })
      expect(await rest(afterBx)).toEqual(['/c', '/d'])
      await session.files.write({ path: '/b', content: 'now a file' })
      expect(await rest(afterBx)).toEqual(['/c', '/d'])
      expect(await rest(afterA)).toEqual(['/b', '/c', '/d'])
      await session.files.delete({ path: '/a/x' })
      await session.files.write({ path: '/a/x/deeper', content: '' })
      expect(await rest(afterA)).toEqual(['/a/x/deeper', '/b', '/c', '/d'])
      const again = await reloaded(session)
      expect((await again.manifest({ pageToken: afterA })).nodes.length).toBe(4)
    })

    test('includes the extents of a file on request', async () => {
      const content = Buffer.alloc(2 * 2 ** 20 + 10, 7)
      const session = await engine.sessions.create({
        files: { '/large': content, '/small': 'ab', '/empty': '' },
      })
      await session.files.append({ path: '/small', content: 'cd' })
      const plain = await session.manifest()
      expect(plain.nodes.map(({ casExtents }) => casExtents)).toEqual([[], [], []])
      const again = await reloaded(session)
      const { nodes } = await again.manifest({ includeCasExtents: true })
      expect(
        nodes.map(({ path, casExtents }) => [path, casExtents.map(({ offset, length }) => [offset, length])]),
      ).toEqual([
        ['/empty', []],
        [
          '/large',
          [
            [0, 2 ** 20],
            [2 ** 20, 2 ** 20],
            [2 * 2 ** 20, 10],
          ],
        ],
        [
          '/small',
          [
            [0, 2],
            [2, 2],
          ],
        ],
      ])
      for (const { casExtents } of nodes) {
        for (const { hash, casOffset } of casExtents) expect([hash.length, casOffset]).toEqual([71, 0])
      }
      const large = nodes[1]!.casExtents
      expect(large[0]!.hash).toBe(large[1]!.hash)
    })

    test('has the same hash for the same tree, independent of its history', async () => {
      const direct = await engine.sessions.create({ files: { '/a': 'ab', '/d/b': 'b' } })
      const expected = (await direct.manifest()).manifestHash
      const other = await engine.sessions.create({ files: { '/x': 'ab' } })
      await other.files.write({ path: '/q/r/s', content: 'gone' })
      await other.files.rename({ sourcePath: '/q', destinationPath: '/d' })
      await other.files.rename({ sourcePath: '/d/r/s', destinationPath: '/d/b' })
      await other.files.removeDirectory({ path: '/d/r' })
      await other.files.write({ path: '/d/b', content: 'b' })
      await other.files.rename({ sourcePath: '/x', destinationPath: '/a' })
      expect((await other.manifest()).manifestHash).toBe(expected)
      await other.files.write({ path: '/a', content: 'a' })
      await other.files.append({ path: '/a', content: 'b' })
      expect((await other.manifest()).manifestHash).toBe(expected)
      expect((await (await reloaded(other)).manifest()).manifestHash).toBe(expected)
      expect(
        await engine.diff({ from: { sessionId: direct.id }, to: { sessionId: other.id } }).paths(),
      ).toEqual(nothing)
    })

    test('has the same hash for the same large directory and file, independent of their history', async () => {
      const names = Array.from({ length: 2500 }, (_, i) => `/${(i * 1777) % 2500}`)
      const direct = await engine.sessions.create({
        files: Object.fromEntries(names.map((name) => [name, ''])),
      })
      const grown = await engine.sessions.create()
      await grown.files.batch(
        names
          .toReversed()
          .flatMap((path) => [path, `${path}x`])
          .map((path) => ({ write: { path, content: '' } })),
      )
      await grown.files.batch(names.map((path) => ({ delete: { path: `${path}x` } })))
      const content = Buffer.alloc(3 * 2 ** 20 + 5, 'abc')
      await direct.files.write({ path: '/large', content })
      for (let at = 0; at < content.length; at += 700_001) {
        await grown.files.append({ path: '/large', content: content.subarray(at, at + 700_001) })
      }
      const { manifestHash } = await direct.manifest()
      expect((await grown.manifest()).manifestHash).toBe(manifestHash)
      expect(await grown.diff(direct).paths()).toEqual(nothing)
      expect((await (await reloaded(grown)).manifest()).manifestHash).toBe(manifestHash)
    })

    test('has another hash for another name, content, mode, kind or target', async () => {
      const hashes = new Set<string>()
      const variants: ((session: Session) => Promise<unknown>)[] = [
        () => Promise.resolve(),
        ({ files }) => files.write({ path: '/a', content: 'a' }),
        ({ files }) => files.write({ path: '/b', content: 'a' }),
        ({ files }) => files.write({ path: '/a', content: 'b' }),
        ({ files }) => files.write({ path: '/a', content: '' }),
        ({ files }) => files.write({ path: '/a', content: 'a', mode: 0o755 }),
        ({ files }) => files.write({ path: '/a/a', content: 'a' }),
        ({ files }) => files.createDirectory({ path: '/a' }),
        ({ files }) => files.createDirectory({ path: '/a', mode: 0o700 }),
        ({ files }) => files.createSymlink({ linkPath: '/a', target: 'a' }),
        ({ files }) => files.createSymlink({ linkPath: '/a', target: 'b' }),
      ]
      for (const change of variants) {
        const session = await engine.sessions.create()
        await change(session)
        hashes.add((await session.manifest()).manifestHash)
      }
      expect(hashes.size).toBe(variants.length)
    })
  })

  describe('diff', () => {
    test('since the base lists added, removed and modified paths in order', async () => {
      const session = await engine.sessions.create({
        files: { '/a': '1', '/b': '2', '/d/x': 'x', '/d/y/z': 'z', '/mode': '', '/same': '' },
      })
      expect(await list(session.diff())).toEqual([])
      await session.files.write({ path: '/a', content: 'changed' })
      await session.files.delete({ path: '/b' })
      await session.files.rename({ sourcePath: '/d', destinationPath: '/e' })
      await session.files.setMode({ path: '/mode', mode: 0o755 })
      await session.files.createSymlink({ linkPath: '/l', target: 'a' })
      await session.files.write({ path: '/same', content: 'x' })
      await session.files.write({ path: '/same', content: '' })
      const expected = [
        'modified file /a',
        'removed file /b',
        'removed directory /d',
        'removed file /d/x',
        'removed directory /d/y',
        'removed file /d/y/z',
        'added directory /e',
        'added file /e/x',
        'added directory /e/y',
        'added file /e/y/z',
        'added symlink /l',
        'modified file /mode',
      ]
      expect(await list(session.diff())).toEqual(expected)
      expect(await list(session.diff('base'))).toEqual(expected)
      const again = await reloaded(session)
      expect(await list(again.diff())).toEqual(expected)
      expect(await again.diff().paths()).toEqual({
        added: ['/e', '/e/x', '/e/y', '/e/y/z', '/l'],
        removed: ['/b', '/d', '/d/x', '/d/y', '/d/y/z'],
        modified: ['/a', '/mode'],
      })
    })

    test('lists a change of kind as removed, then added, and shows modes of directories', async () => {
      const session = await engine.sessions.create({
        files: { '/f': 'f', '/d/x': 'x', '/e/y': 'y', '/k/z': 'z' },
      })
      await session.files.createSymlink({ linkPath: '/l', target: '1' })
      await session.files.createSymlink({ linkPath: '/m', target: '1' })
      const before = await session.fork()
      await session.files.delete({ path: '/f' })
      await session.files.createDirectory({ path: '/f' })
      await session.files.delete({ path: '/d/x' })
      await session.files.removeDirectory({ path: '/d' })
      await session.files.write({ path: '/d', content: '' })
      await session.files.setMode({ path: '/e', mode: 0o700 })
      await session.files.delete({ path: '/l' })
      await session.files.createSymlink({ linkPath: '/l', target: '2' })
      await session.files.delete({ path: '/m' })
      await session.files.write({ path: '/m', content: '1' })
      expect(await list(session.diff(before))).toEqual([
        'removed directory /d',
        'removed file /d/x',
        'added file /d',
        'modified directory /e',
        'removed file /f',
        'added directory /f',
        'modified symlink /l',
        'removed symlink /m',
        'added file /m',
      ])
    })

    test('compares with sessions, forks and checkpoints, by handle and by name', async () => {
      const session = await engine.sessions.create({ files: { '/a': '0' } })
      const { id: checkpointId } = await session.checkpoint({ checkpointLabel: 'start' })
      const fork = await session.fork()
      await fork.files.write({ path: '/b', content: '' })
      await session.files.write({ path: '/c', content: '' })
      const bySession = { added: ['/b'], removed: ['/c'], modified: [] }
      const sinceStart = { added: ['/c'], removed: [], modified: [] }
      const check = async (): Promise<void> => {
        const [one, two] = [await engine.sessions.open(session.id), await engine.sessions.open(fork.id)]
        expect(await two.diff(one).paths()).toEqual(bySession)
        expect(await two.diff({ sessionId: one.id }).paths()).toEqual(bySession)
        expect(await two.diff({ sessionId: one.id, base: true }).paths()).toEqual({
          ...nothing,
          added: ['/b'],
        })
        expect(await one.diff({ checkpointLabel: 'start' }).paths()).toEqual(sinceStart)
        expect(await one.diff({ checkpointId }).paths()).toEqual(sinceStart)
        expect(await two.diff({ sessionId: one.id, checkpointId }).paths()).toEqual({
          ...nothing,
          added: ['/b'],
        })
        const between = engine.diff({
          from: { sessionId: two.id },
          to: { sessionId: one.id, checkpointLabel: 'start' },
        })
        expect(await between.paths()).toEqual({ ...nothing, removed: ['/b'] })
        expect(await one.diff(one).paths()).toEqual(nothing)
        await refused(() => one.diff({ checkpointLabel: 'none' }).paths(), 'CHECKPOINT_NOT_FOUND')
        await refused(() => two.diff({ checkpointId }).paths(), 'CHECKPOINT_NOT_FOUND')
        await refused(() => one.diff({ sessionId: 'x' }).paths(), 'SESSION_NOT_FOUND')
        await refused(
          () => one.diff({ sessionId: one.id, base: true, checkpointId }).paths(),
          'INVALID_ARGUMENT',
        )
      }
      await check()
      if (lasting) await reopen()
      await check()
    })

    test('shows the states at its call, even if read later', async () => {
      const session = await engine.sessions.create({ files: { '/a': '0' } })
      await session.files.write({ path: '/b', content: '' })
      const diff = session.diff()
      await session.files.write({ path: '/c', content: '' })
      expect(await diff.paths()).toEqual({ ...nothing, added: ['/b'] })
      expect(await diff.paths()).toEqual({ ...nothing, added: ['/b'] })
    })

    test('that fails unread causes no unhandled rejection', async () => {
      const session = await engine.sessions.create()
      session.diff({ checkpointLabel: 'none' })
      await new Promise((resolve) => {
        setTimeout(resolve, 20)
      })
      expect(await session.diff().paths()).toEqual(nothing)
    })
  })

  describe('lastActivityAt', () => {
    const activity = async (session: Session): Promise<number> =>
      Date.parse((await session.get()).lastActivityAt)

    test('advances with changes and survives a reopening', async () => {
      const session = await engine.sessions.create({ files: { '/a': '' } })
      expect(await activity(session)).toBeGreaterThanOrEqual(Date.parse((await session.get()).createdAt))
      const changes: (() => Promise<unknown>)[] = [
        () => session.files.write({ path: '/a', content: 'x' }),
        () => session.files.batch([{ delete: { path: '/a' } }]),
        () => session.checkpoint({ checkpointLabel: 'one' }),
        () => session.restore({ checkpointLabel: 'one' }),
        () => session.fs.promises.mkdir('/d'),
      ]
      for (const change of changes) {
        const before = await activity(session)
        environment.advance(1000)
        await change()
        expect(await activity(session)).toBeGreaterThanOrEqual(before + 1000)
      }
      const last = await activity(session)
      expect(await activity(await reloaded(session))).toBe(last)
    })

    test('advances with reads while the session is in memory', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'a' } })
      const reads: Record<string, () => Promise<unknown>> = {
        'fs.readFile': () => session.fs.promises.readFile('/a'),
        'fs.stat': () => session.fs.promises.stat('/a'),
        'fs.readFileSync': async () => session.fs.readFileSync('/a'),
        'files.read': () => session.files.read({ path: '/a' }),
        'files.contentHash': () => session.files.contentHash('/a'),
        'files.listSymlinks': () => session.files.listSymlinks(),
        manifest: () => session.manifest(),
        diff: () => session.diff().paths(),
      }
      const still: string[] = []
      for (const [name, look] of Object.entries(reads)) {
        const before = await activity(session)
        environment.advance(1000)
        await look()
        if ((await activity(session)) < before + 1000) still.push(name)
      }
      expect(still).toEqual([])
    })

    test('never goes back with the clock', async () => {
      const session = await engine.sessions.create()
      environment.advance(10_000)
      await session.files.write({ path: '/a', content: '' })
      const before = await activity(session)
      environment.advance(-60_000)
      await session.files.write({ path: '/a', content: 'x' })
      expect(await activity(session)).toBeGreaterThanOrEqual(before)
      await session.fs.promises.readFile('/a')
      expect(await activity(session)).toBeGreaterThanOrEqual(before)
    })
  })

  describe('closing', () => {
    test('makes all later calls fail with STORE_CLOSED', async () => {
      const session = await engine.sessions.create({ files: { '/a': 'a' } })
      await session.checkpoint({ checkpointLabel: 'one' })
      const diff = session.diff()
      await diff.paths()
      const view = await session.at({ checkpointLabel: 'one' })
      const deleted = await session.fork()
      await deleted.checkpoint({ checkpointLabel: 'one' })
      const viewOfDeleted = await deleted.at({ checkpointLabel: 'one' })
      await deleted.delete()
      expect(await viewOfDeleted.files.read({ path: '/a' })).toEqual(Buffer.from('a'))
      await engine.close()
      const calls: (() => Promise<unknown>)[] = [
        () => engine.sessions.create(),
        () => engine.sessions.create({ files: { '/a': '' } }),
        () => engine.sessions.open(session.id),
        () => engine.sessions.get(session.id),
        () => engine.sessions.list(),
        () => engine.sessions.delete(session.id),
        () => engine.sources.list(),
        () => session.get(),
        () => session.files.read({ path: '/a' }),
        () => session.files.write({ path: '/a', content: '' }),
        () => session.files.batch([]),
        () => session.files.listSymlinks(),
        () => session.manifest(),
        () => session.checkpoint(),
        () => session.listCheckpoints(),
        () => session.restore({ checkpointLabel: 'one' }),
        () => session.fork(),
        () => session.diff().paths(),
        () => diff.paths(),
        () => diff.files().next(),
        () => view.files.read({ path: '/a' }),
        () => viewOfDeleted.files.read({ path: '/a' }),
        () => viewOfDeleted.manifest(),
        () => viewOfDeleted.diff().paths(),
        () => session.commit({ message: 'x' }),
        () => session.delete(),
      ]
      for (const call of calls) await refused(call, 'STORE_CLOSED')
      for (const call of [
        () => session.fs.promises.readFile('/a'),
        () => session.fs.promises.writeFile('/a', ''),
      ]) {
        await expect(call()).rejects.toMatchObject({ code: 'EIO', cause: { reason: 'STORE_CLOSED' } })
      }
      await engine.close()
    })

    test('waits for earlier calls, awaited or not', async () => {
      let session = await reloaded(await engine.sessions.create({ files: { '/d/a': 'a' } }))
      const pending = Array.from({ length: 200 }, (_, i) =>
        session.files.write({ path: `/d/${i}`, content: `${i}` }),
      )
      pending.push(session.files.batch([{ write: { path: '/batch', content: 'b' } }]))
      pending.push(session.fs.promises.writeFile('/fs', 'f'))
      const large = new Uint8Array(5 * 2 ** 20).fill(1)
      pending.push(session.files.write({ path: '/large', content: large }))
      pending.push(session.checkpoint({ checkpointLabel: 'last' }).then(() => undefined))
      const outcomes = Promise.allSettled(pending)
      const { id } = session
      await engine.close()
      expect((await outcomes).filter(({ status }) => status === 'rejected')).toEqual([])
      engine = await openEngine({ storage, environment })
      if (!lasting) return
      session = await engine.sessions.open(id)
      expect(Object.keys(await contents(session)).length).toBe(204)
      expect(
        (await session.listCheckpoints()).checkpoints.map(({ checkpointLabel }) => checkpointLabel),
      ).toEqual(['last'])
    })

    test('happens at the end of an `await using` block', async () => {
      let kept: Session
      {
        await using other = await openEngine()
        kept = await other.sessions.create()
      }
      await refused(() => kept.get(), 'STORE_CLOSED')
    })
  })

  test('keeps acknowledged data after reopening', async () => {
    if (!lasting) return
    const created: [SessionInfo, ManifestPage][] = []
    for (let i = 0; i < 5; i++) {
      const session = await engine.sessions.create({ files: { '/base': `${i}` }, initialTags: { i: `${i}` } })
      await session.files.write({ path: '/a/b', content: `${i}`, mode: 0o600 })
      await session.files.append({ path: '/a/b', content: '+' })
      await session.files.createSymlink({ linkPath: '/l', target: `${i}` })
      await session.files.batch([{ write: { path: '/x', content: '' } }, { delete: { path: '/base' } }])
      await session.files.rename({ sourcePath: '/a', destinationPath: '/z' })
      // A read counts as activity, so it comes first.
      const page = await session.manifest()
      created.push([await session.get(), page])
    }
    await reopen()
    await reopen()
    expect((await engine.sessions.list()).sessions).toEqual(created.map(([info]) => info))
    for (const [info, page] of created) {
      const session = await engine.sessions.open(info.id)
      expect(await session.manifest()).toEqual(page)
      expect(await read(session, '/z/b')).toBe(`${info.tags['i']}+`)
    }
  })
})

const nothing = { added: [], removed: [], modified: [] }

async function read(session: Session, path: string): Promise<string> {
  return Buffer.from(await session.files.read({ path })).toString()
}

async function contents(session: Session): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const { path, fileType } of (await session.manifest({ pageSize: 10_000 })).nodes) {
    if (fileType === 'VFS_FILE_TYPE_FILE') found[path] = await read(session, path)
  }
  return found
}

test('a deletion that has begun ends before the engine closes, however slow the storage reads', async () => {
  const inner = memoryStorage({ durable: true, syncReads: false })
  const storage: Storage = {
    open: async () => {
      const store = await inner.open()
      const scan = store.scan.bind(store)
      store.scan = async (range) => {
        await new Promise((resolve) => setImmediate(resolve))
        return scan(range)
      }
      return store
    },
  }
  const engine = await openEngine({ storage })
  const [session, other] = [await engine.sessions.create(), await engine.sessions.create()]
  const deletions = [session.delete(), engine.sessions.delete(other.id)]
  await engine.close()
  expect(await Promise.all(deletions)).toEqual([undefined, undefined])
})

async function list(diff: Diff): Promise<string[]> {
  const changes: Change[] = []
  for await (const change of diff) changes.push(change)
  return changes.map(({ change, kind, path }) => `${change} ${kind} ${path}`)
}

async function refused(
  operation: () => Promise<unknown>,
  reason: ErrorReason,
  details?: Record<string, string>,
): Promise<void> {
  let promise: Promise<unknown>
  try {
    promise = operation()
  } catch (error) {
    throw new Error('thrown at once instead of by the promise', { cause: error })
  }
  const thrown = await promise.then(
    () => {
      throw new Error(`not refused with ${reason}`)
    },
    (error: unknown) => error,
  )
  if (!(thrown instanceof EngineError)) throw thrown
  expect({ reason: thrown.reason, message: thrown.message }).toEqual({ reason, message: thrown.message })
  expect(thrown.details).toEqual(details ?? thrown.details)
}
