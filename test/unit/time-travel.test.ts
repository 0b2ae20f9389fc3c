import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  limits,
  memoryStorage,
  openEngine,
  type Engine,
  type EngineError,
  type Session,
  type SessionView,
  type Storage,
} from '../../src/index.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { storages } from '../support/storages.js'

test('a tenant computes one earlier state at a time, while others compute theirs', async () => {
  const steps = new SteppedStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage: steps })
  const of = async (tenant: string): Promise<Session> => {
    const session = await engine.as({ tenant, principal: 'p' }).sessions.create()
    for (const path of ['/a', '/b', '/c']) await session.files.write({ path, content: path })
    return session
  }
  const stateOf = async (session: Session, path: string): Promise<readonly string[]> => {
    const { events } = await session.events.list()
    const { eventId } = events.find(({ details }) => details['path'] === path)!
    using view = await session.at({ eventId })
    return view.fs.promises.readdir('/')
  }
  const [one, other] = [await of('one'), await of('other')]
  const ofOne = (id: string): boolean => id === one.id
  const { events } = await one.events.list()
  const [, first, second] = events.map(({ eventId }) => eventId)
  const held = steps.hold('events', ofOne)
  const reading = one.at({ eventId: first! })
  await held.reached
  let isReached = false
  const next = steps.hold('events', ofOne)
  const arriving = next.reached.then(() => (isReached = true))
  next.release()
  const waiting = one.at({ eventId: second! })
  expect(await stateOf(other, '/b')).toEqual(['a', 'b'])
  await steps.quiet()
  expect(isReached).toBe(false)
  held.release()
  using a = await reading
  await arriving
  using b = await waiting
  expect(a.fs.readdirSync('/')).toEqual(['a'])
  expect(b.fs.readdirSync('/')).toEqual(['a', 'b'])
  await engine.close()
})

/** A session after `count` forks, each of the one before, which then changed. The last one has `/f`, then `/g`. */
async function afterForks(engine: Engine, count: number): Promise<Session> {
  let session = await engine.sessions.create()
  for (let index = 0; index < count; index++) {
    const fork = await session.fork()
    await session.files.write({ path: `/later-${index}`, content: '' })
    session = fork
    await session.files.write({ path: `/${index}`, content: '' })
  }
  await session.files.write({ path: '/f', content: '' })
  await session.files.write({ path: '/g', content: '' })
  return session
}

test('an earlier state of a fork reads the events of each session that it was forked from once', async () => {
  const inner = memoryStorage({ durable: true })
  let reads = 0
  const open = async (): ReturnType<Storage['open']> => {
    const store = await inner.open()
    const events = store.events.bind(store)
    return Object.assign(store, {
      events: (...args: Parameters<typeof events>) => {
        reads++
        return events(...args)
      },
    })
  }
  const engine = await openEngine({ storage: { open } })
  const forks = 20
  const session = await afterForks(engine, forks)
  const { events } = await session.events.list()
  reads = 0
  using view = await session.at({ eventId: events.at(-2)!.eventId })
  expect(view.fs.readdirSync('/')).toHaveLength(forks + 1)
  expect(reads).toBeLessThan(2 * forks)
  await engine.close()
})

test('the read of an earlier state gives the event loop turns between the sessions that it was forked from', async () => {
  const fixed = fixedEnvironment()
  let now = 0
  const environment = { ...fixed, monotonicMs: () => now++ }
  const engine = await openEngine({ storage: memoryStorage({ durable: true }), environment })
  const session = await afterForks(engine, 100)
  const { events } = await session.events.list()
  let isDone = false
  let turns = 0
  const count = (): void => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  using view = await session.at({ eventId: events.at(-2)!.eventId })
  isDone = true
  expect(turns).toBeGreaterThan(10)
  expect(view.fs.existsSync('/g')).toBe(false)
  await engine.close()
})

describe.each(storages)('earlier states on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let environment: FixedEnvironment
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'time-'))
    storage = makeStorage(directory)
    environment = fixedEnvironment()
    engine = await openEngine({ storage, environment })
    session = await engine.sessions.create({ files: { '/a.txt': 'base' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  /** The session, after the engine was reopened on a storage that keeps it. */
  async function reloaded(): Promise<Session> {
    if (!lasting) return session
    await engine.close()
    engine = await openEngine({ storage, environment })
    return engine.sessions.open(session.id)
  }

  async function write(path: string, content: string): Promise<string> {
    environment.advance(1000)
    await session.files.write({ path, content })
    return newestId()
  }

  async function newestId(): Promise<string> {
    using view = await session.at()
    return view.eventId
  }

  async function textAt(view: SessionView, path = '/a.txt'): Promise<string> {
    return new TextDecoder().decode(await view.files.read({ path }))
  }

  async function text(path = '/a.txt', of = session): Promise<string> {
    return new TextDecoder().decode(await of.files.read({ path }))
  }

  describe('at', () => {
    test('reads the state after an event, at a time, at a checkpoint and of the base', async () => {
      const one = await write('/a.txt', 'one')
      const time = (await session.get()).lastActivityAt
      await session.checkpoint({ checkpointLabel: 'before' })
      await write('/a.txt', 'two')
      const again = await reloaded()
      for (const reference of [{ eventId: one }, { time }, { checkpointLabel: 'before' }]) {
        using view = await again.at(reference)
        expect(await textAt(view)).toBe('one')
        expect(await view.fs.promises.readFile('/a.txt', 'utf8')).toBe('one')
        expect((await view.manifest()).nodes.map(({ path }) => path)).toEqual(['/a.txt'])
        expect(await view.diff(again).paths()).toEqual({ added: [], removed: [], modified: ['/a.txt'] })
      }
      using base = await again.at({ base: true })
      expect([base.eventId, await textAt(base)]).toEqual(['', 'base'])
      expect(await again.diff({ eventId: one }).paths()).toMatchObject({ modified: ['/a.txt'] })
    })

    test('keeps its state while the session changes, until it is disposed of', async () => {
      const view = await session.at()
      await write('/a.txt', 'two')
      await engine.collect()
      expect(await textAt(view)).toBe('base')
      view[Symbol.dispose]()
      await expect(view.files.read({ path: '/a.txt' })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    })

    test('refuses every change with EROFS', async () => {
      await write('/dir/a', 'one')
      using view = await session.at()
      const { promises } = view.fs
      const changes = [
        promises.writeFile('/a.txt', 'x'),
        promises.rm('/dir', { recursive: true }),
        promises.mkdir('/new'),
        promises.rename('/a.txt', '/b.txt'),
        promises.open('/a.txt', 'r+'),
        promises.cp('/dir', '/copy', { recursive: true }),
      ]
      for (const change of changes) await expect(change).rejects.toMatchObject({ code: 'EROFS' })
      expect(() => view.fs.writeFileSync('/a.txt', 'x')).toThrow(expect.objectContaining({ code: 'EROFS' }))
      await using file = await promises.open('/a.txt', 'r')
      expect(await file.readFile('utf8')).toBe('base')
      expect(await text()).toBe('base')
    })

    test('finds the newest event at or before a time', async () => {
      const one = await write('/a.txt', 'one')
      environment.advance(500)
      const between = new Date(environment.wallClockMs()).toISOString()
      await write('/a.txt', 'two')
      using view = await session.at({ time: between })
      expect(view.eventId).toBe(one)
      await expect(session.at({ time: '2001-01-01T00:00:00Z' })).rejects.toMatchObject({
        reason: 'EVENT_NOT_FOUND',
      })
    })

    test('refuses references that name no state, or two', async () => {
      const newest = await newestId()
      const later = `${session.id}-${'z'.repeat(8)}`
      await expect(session.at({ eventId: later })).rejects.toMatchObject({ reason: 'EVENT_NOT_FOUND' })
      for (const reference of [
        { eventId: 'x' },
        { eventId: newest, time: '2026-01-01T00:00:00Z' },
        { eventId: newest, base: true },
        { eventId: newest, checkpointLabel: 'a' },
        { time: 'yesterday' },
      ])
        await expect(session.at(reference)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    })

    test('reports a state that was collected, and reads it if its redo was kept', async () => {
      const one = await write('/a.txt', 'one')
      await write('/a.txt', 'two, which is longer than a hash'.repeat(10))
      await engine.collect({ keepRedo: true })
      using view = await session.at({ eventId: one })
      expect(await textAt(view)).toBe('one')
      view[Symbol.dispose]()
      await engine.collect()
      const again = await reloaded()
      const read = again.at({ eventId: one })
      const found = await read.then(
        (state) => textAt(state),
        ({ reason }: EngineError) => reason,
      )
      expect(found).toBe(lasting ? 'STATE_NOT_KEPT' : 'one')
    })

    test('needs the right to the history, except for the current state', async () => {
      const narrow = session.narrow({ without: ['history'] })
      const eventId = await newestId()
      using view = await narrow.at()
      expect(await textAt(view)).toBe('base')
      await expect(narrow.at({ eventId })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
      const blind = session.narrow({ without: ['files.read'] })
      await expect(blind.at()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    })

    test('asks the option authorize for each read', async () => {
      const denied = new Set<string>()
      await using own = await openEngine({ authorize: (_caller, action) => !denied.has(action) })
      const other = await own.sessions.create({ files: { '/a.txt': 'base' } })
      using view = await other.at()
      expect(await textAt(view)).toBe('base')
      denied.add('readFile')
      await expect(textAt(view)).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
      denied.add('fs.read')
      expect(() => view.fs.readFileSync('/a.txt')).toThrow(expect.objectContaining({ code: 'EACCES' }))
      expect(await view.files.stat({ path: '/a.txt' })).toMatchObject({ kind: 'file' })
    })
  })

  describe('restore', () => {
    test('brings back a state after an event, at a time, and the base', async () => {
      const one = await write('/a.txt', 'one')
      const time = (await session.get()).lastActivityAt
      await write('/a.txt', 'two')
      for (const from of [{ eventId: one }, { time }]) {
        await write('/a.txt', 'three')
        expect(await session.restore({ from })).toMatchObject({ id: session.id, changes: [] })
        expect(await text()).toBe('one')
      }
      const again = await reloaded()
      expect(await text('/a.txt', again)).toBe('one')
      await again.restore({ from: { base: true } })
      expect(await text('/a.txt', again)).toBe('base')
      await again.undo()
      expect(await text('/a.txt', again)).toBe('one')
    })

    test('restores only the given paths, and removes those that the state does not have', async () => {
      const large = 'large '.repeat(400_000)
      await write('/dir/sub/a', 'one')
      await write('/dir/large', large)
      await session.files.setXattr({ path: '/dir/sub/a', name: 'user.a', value: 'x' })
      await session.files.setMode({ path: '/dir/sub', mode: 0o700 })
      await session.files.createSymlink({ linkPath: '/dir/link', target: 'sub' })
      await session.files.link({ srcPath: '/dir/sub/a', dstPath: '/dir/second' })
      await session.checkpoint({ checkpointLabel: 'full' })
      const { mtimeMs } = await session.files.stat({ path: '/dir/sub/a' })
      const hash = (await session.manifest()).manifestHash
      await session.files.removeDirectory({ path: '/dir', recursive: true })
      await write('/dir', 'a file')
      await write('/a.txt', 'later')
      await write('/new', 'new')
      const request = { checkpointLabel: 'full', paths: ['/dir', '/new'] }
      const { changes } = await session.restore({ ...request, dryRun: true })
      expect(changes.map(({ path, change }) => `${change} ${path}`)).toEqual([
        'removed /dir',
        'added /dir',
        'added /dir/large',
        'added /dir/link',
        'added /dir/second',
        'added /dir/sub',
        'added /dir/sub/a',
        'removed /new',
      ])
      expect(session.fs.existsSync('/new')).toBe(true)
      await session.restore(request)
      const again = await reloaded()
      expect(await text('/a.txt', again)).toBe('later')
      expect(await text('/dir/large', again)).toBe(large)
      const stat = await again.files.stat({ path: '/dir/sub/a' })
      expect([stat.nlink, stat.mtimeMs]).toEqual([2, mtimeMs])
      await again.files.write({ path: '/a.txt', content: 'base' })
      expect((await again.manifest()).manifestHash).toBe(hash)
      await again.undo({ count: 2 })
      expect(await text('/dir', again)).toBe('a file')
    })

    test('restores a file in a directory that was removed since, and breaks no other name of a file', async () => {
      await write('/dir/a', 'one')
      const one = await write('/dir/b', 'b')
      await session.files.link({ srcPath: '/dir/a', dstPath: '/other' })
      await write('/other', 'two')
      await session.restore({ from: { eventId: one }, paths: ['/dir/a'] })
      expect([await text('/dir/a'), await text('/other')]).toEqual(['one', 'two'])
      await session.files.removeDirectory({ path: '/dir', recursive: true })
      await session.restore({ from: { eventId: one }, paths: ['/dir/a'] })
      expect(session.fs.readdirSync('/dir')).toEqual(['a'])
      expect(await text('/dir/a')).toBe('one')
    })

    test('lists the changed paths on request', async () => {
      await session.checkpoint({ checkpointLabel: 'start' })
      await write('/b.txt', 'b')
      await write('/a.txt', 'one')
      const request = { checkpointLabel: 'start', listChanges: true }
      const some = await session.restore({ ...request, paths: ['/a.txt'] })
      expect(some.changes).toEqual([{ path: '/a.txt', change: 'modified', kind: 'file' }])
      const all = await session.restore(request)
      expect(all.changes).toEqual([{ path: '/b.txt', change: 'removed', kind: 'file' }])
      expect((await session.restore(request)).changes).toEqual([])
      expect((await session.restore({ checkpointLabel: 'start' })).changes).toEqual([])
      const again = await reloaded()
      expect(await again.fs.promises.readdir('/')).toEqual(['a.txt'])
    })

    test('changes nothing if the paths have the state already, and refuses paths that neither state has', async () => {
      const one = await write('/a.txt', 'one')
      await session.restore({ from: { eventId: one }, paths: ['/a.txt'] })
      expect(await newestId()).toBe(one)
      for (const dryRun of [false, true])
        await expect(
          session.restore({ from: { eventId: one }, paths: ['/none'], dryRun }),
        ).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
      await write('/dir/a', 'one')
      const two = await newestId()
      await session.files.removeDirectory({ path: '/dir', recursive: true })
      await write('/dir', 'a file')
      for (const dryRun of [false, true])
        await expect(
          session.restore({ from: { eventId: two }, paths: ['/dir/a'], dryRun }),
        ).rejects.toMatchObject({ reason: 'NOT_A_DIRECTORY' })
      for (const request of [
        {},
        { from: {} },
        { from: { eventId: one }, checkpointLabel: 'a' },
        { from: { eventId: one }, paths: [] },
        { from: { eventId: one }, paths: ['relative'] },
      ])
        await expect(session.restore(request)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    })

    test('brings the base back to a fork, with everything below the root', async () => {
      await write('/a.txt', 'one')
      const fork = await session.fork()
      await fork.files.write({ path: '/b/c', content: 'x' })
      await fork.restore({ from: { base: true } })
      expect((await fork.manifest()).nodes.map(({ path }) => path)).toEqual(['/a.txt'])
      expect(await text('/a.txt', fork)).toBe('base')
    })

    test('keeps restored contents through collections', async () => {
      const one = await write('/keep', 'kept content '.repeat(500_000))
      await session.files.delete({ path: '/keep' })
      await session.restore({ from: { eventId: one }, paths: ['/keep'] })
      await engine.collect()
      const again = await reloaded()
      expect((await again.files.read({ path: '/keep' })).byteLength).toBe(13 * 500_000)
      expect(lasting ? (await engine.check()).findings : []).toEqual([])
    })
  })

  describe('a fork', () => {
    test('starts from an event, a time or a checkpoint', async () => {
      const one = await write('/a.txt', 'one')
      const time = (await session.get()).lastActivityAt
      await session.checkpoint({ checkpointLabel: 'here' })
      await write('/a.txt', 'two')
      const forks: Session[] = []
      for (const from of [{ eventId: one }, { time }, { checkpointLabel: 'here' }])
        forks.push(await session.fork({ from }))
      for (const fork of forks) expect(await text('/a.txt', fork)).toBe('one')
      await engine.collect()
      await session.delete()
      await engine.collect()
      if (lasting) {
        await engine.close()
        engine = await openEngine({ storage, environment })
      }
      for (const { id } of forks) expect(await text('/a.txt', await engine.sessions.open(id))).toBe('one')
    })

    test('of the state at a time lacks the changes that are called after it', async () => {
      const forking = session.fork({ from: { time: '2999-01-01T00:00:00Z' } })
      const writing = session.files.write({ path: '/later.txt', content: 'later' })
      const fork = await forking
      expect(await fork.fs.promises.readdir('/')).toEqual(['a.txt'])
      await writing
    })

    test('refuses the base, and two states', async () => {
      for (const request of [
        { from: { base: true } },
        { from: { time: 'x' } },
        { from: {}, checkpointLabel: 'a' },
      ])
        await expect(session.fork(request)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    })
  })

  describe('the history of a path', () => {
    test('lists its changes through renames, newest first, in pages', async () => {
      await write('/dir/a', 'one')
      await write('/b', 'other')
      await session.files.setMode({ path: '/dir/a', mode: 0o755 })
      await session.files.rename({ sourcePath: '/dir', destinationPath: '/moved' })
      await write('/moved/a', 'two')
      await session.undo()
      await session.files.delete({ path: '/moved/a' })
      const again = await reloaded()
      const found: string[] = []
      for (let pageToken = ''; ;) {
        const page = await again.history({ path: '/moved/a', pageSize: 2, pageToken })
        for (const { change, path, previousPath } of page.changes)
          found.push(`${change} ${previousPath} ${path}`)
        pageToken = page.nextPageToken
        if (pageToken !== '') continue
        expect(page.isComplete).toBe(true)
        break
      }
      expect(found).toEqual([
        'removed /moved/a /moved/a',
        'modified /moved/a /moved/a',
        'modified /moved/a /moved/a',
        'renamed /dir/a /moved/a',
        'modified /dir/a /dir/a',
        'added /dir/a /dir/a',
      ])
    })

    test('follows a file through changes under its other name', async () => {
      await session.files.link({ srcPath: '/a.txt', dstPath: '/second' })
      await write('/second', 'two')
      const { changes } = await session.history({ path: '/a.txt' })
      expect(changes).toMatchObject([{ change: 'modified', eventType: 'v1.FileSystemService.WriteFile' }])
    })

    test('reports that earlier changes are no longer kept', async () => {
      for (let round = 0; round < 5; round++) await write('/a.txt', `${round} `.repeat(50))
      await session.checkpoint()
      await write('/a.txt', 'last')
      await engine.collect()
      const again = await reloaded()
      const { changes, isComplete } = await again.history({ path: '/a.txt' })
      expect([changes.length, isComplete]).toEqual(lasting ? [1, false] : [6, true])
    })

    test('ends at a restore of a state that is no longer kept', async () => {
      const one = await write('/a.txt', 'one'.repeat(50))
      await write('/a.txt', 'two'.repeat(50))
      await session.checkpoint()
      await session.restore({ from: { eventId: one } })
      await write('/a.txt', 'three'.repeat(50))
      await write('/a.txt', 'four'.repeat(50))
      await engine.collect()
      const again = await reloaded()
      const { changes, isComplete } = await again.history({ path: '/a.txt' })
      expect([changes.length, isComplete]).toEqual(lasting ? [0, false] : [5, true])
    })

    test('refuses a token of another path', async () => {
      await write('/b', 'one')
      await write('/b', 'two')
      const { nextPageToken } = await session.history({ path: '/b', pageSize: 1 })
      await expect(session.history({ path: '/a.txt', pageToken: nextPageToken })).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    })
  })

  describe('blame', () => {
    test('names the event and principal of each line, also through renames and undo', async () => {
      const start = await engine.sessions.create({ files: { '/t': 'one\ntwo\nthree\n' } })
      session = start
      const ada = await engine.as({ tenant: 'local', principal: 'ada' }).sessions.open(start.id)
      await ada.files.write({ path: '/t', content: 'one\nTWO\nthree\n' })
      await start.files.rename({ sourcePath: '/t', destinationPath: '/u' })
      await start.files.write({ path: '/u', content: 'one\nTWO\nthree\nfour\n' })
      await start.files.write({ path: '/u', content: 'nothing\n' })
      await start.undo()
      const again = await reloaded()
      const { ranges, lineCount, isComplete } = await again.blame({ path: '/u' })
      expect([lineCount, isComplete]).toEqual([4, true])
      expect(
        ranges.map(({ startLine, lineCount: count, principal }) => [startLine, count, principal]),
      ).toEqual([
        [1, 1, ''],
        [2, 1, 'ada'],
        [3, 1, ''],
        [4, 1, 'local'],
      ])
      const { events } = await again.events.list()
      expect(ranges[1]).toMatchObject({ eventId: events[1]!.eventId, timestamp: events[1]!.timestamp })
      const before = await again.blame({ path: '/t', at: { eventId: events[1]!.eventId } })
      expect(before.ranges).toHaveLength(3)
    })

    test('gives all lines of a new file to its event', async () => {
      const eventId = await write('/new', 'a\nb')
      expect((await session.blame({ path: '/new' })).ranges).toMatchObject([
        { startLine: 1, lineCount: 2, eventId },
      ])
      await write('/empty', '')
      expect(await session.blame({ path: '/empty' })).toEqual({ ranges: [], lineCount: 0, isComplete: true })
    })

    test('refuses binary files, directories and missing paths', async () => {
      await write('/binary', 'a\0b')
      await session.files.createDirectory({ path: '/dir' })
      const reasons = { '/binary': 'INVALID_ARGUMENT', '/dir': 'IS_A_DIRECTORY', '/none': 'PATH_NOT_FOUND' }
      for (const [path, reason] of Object.entries(reasons))
        await expect(session.blame({ path })).rejects.toMatchObject({ reason })
    })

    test('refuses a file of too many lines, and stops at an earlier version that had as many', async () => {
      const most = '\n'.repeat(limits.diffFileLines)
      await write('/long', `${most}\n`)
      await expect(session.blame({ path: '/long' })).rejects.toMatchObject({
        reason: 'TOO_LARGE',
        details: { limit: String(limits.diffFileLines) },
      })
      await write('/long', most)
      const eventId = await write('/long', `new${most}`)
      expect(await session.blame({ path: '/long' })).toMatchObject({
        isComplete: false,
        ranges: [
          { startLine: 1, lineCount: 1, eventId },
          { startLine: 2, lineCount: limits.diffFileLines - 1, eventId: '' },
        ],
      })
    })
  })

  describe('undo', () => {
    test('undoes and redoes changes by any interface, and skips events without changes of files', async () => {
      await write('/a.txt', 'one')
      session.fs.writeFileSync('/b.txt', 'b')
      await session.flush()
      await session.checkpoint()
      const undone = await session.undo()
      expect(undone).toMatchObject({ count: 1, changes: [], eventId: await newestId() })
      expect(session.fs.existsSync('/b.txt')).toBe(false)
      const again = await reloaded()
      await again.undo()
      expect(await text('/a.txt', again)).toBe('base')
      expect(await again.undo()).toMatchObject({ count: 0, eventId: '' })
      expect(await again.redo({ count: 5 })).toMatchObject({ count: 2 })
      expect(await text('/b.txt', again)).toBe('b')
      expect(await again.redo()).toMatchObject({ count: 0 })
    })

    test('ends the redo at a new change', async () => {
      await write('/a.txt', 'one')
      await session.undo()
      await write('/c.txt', 'c')
      expect(await session.redo()).toMatchObject({ count: 0 })
      await session.undo({ count: 10 })
      expect(await text()).toBe('base')
      expect(session.fs.existsSync('/c.txt')).toBe(false)
    })

    test('is refused during a merge with unresolved conflicts, and so is redo', async () => {
      const fork = await session.fork()
      await write('/a.txt', 'ours')
      await fork.files.write({ path: '/a.txt', content: 'theirs' })
      await session.merge(fork)
      for (const call of [() => session.undo(), () => session.redo()])
        await expect(call()).rejects.toMatchObject({ reason: 'UNRESOLVED_CONFLICTS' })
    })

    test('goes on before a merge that was aborted, and brings none of it back', async () => {
      const fork = await session.fork()
      await write('/b.txt', 'mine')
      await write('/a.txt', 'ours')
      await fork.files.write({ path: '/a.txt', content: 'theirs' })
      await fork.files.write({ path: '/new.txt', content: 'theirs' })
      await session.merge(fork)
      await write('/later.txt', 'later')
      await session.conflicts.abort()
      const changes = [{ path: '/a.txt', change: 'modified', kind: 'file' }]
      expect(await session.undo({ listChanges: true })).toMatchObject({ count: 1, changes })
      expect(await session.redo({ listChanges: true })).toMatchObject({ count: 1, changes })
      expect(await text()).toBe('ours')
      // Nothing of the fork counts as merged.
      expect((await session.merge(fork)).conflicts).toHaveLength(1)
      await session.conflicts.abort()
      expect(await session.undo({ count: 9 })).toMatchObject({ count: 2 })
      expect(await text()).toBe('base')
    })

    test('goes on before a rebase that was aborted', async () => {
      const { sourceId } = await engine.sources.create({ displayName: 'r', uploadedSnapshot: {} })
      const revise = async (files: Record<string, string>): Promise<unknown> => {
        const uploadedSnapshot = { files }
        return engine.sources.waitForJob(await engine.sources.startImport(sourceId, { uploadedSnapshot }))
      }
      await revise({ '/a.txt': 'base', '/b.txt': 'base' })
      session = await engine.sessions.create({ sourceRef: { sourceId } })
      await write('/a.txt', 'ours')
      await revise({ '/a.txt': 'theirs', '/b.txt': 'theirs' })
      expect((await session.rebase()).conflicts).toHaveLength(1)
      await session.conflicts.abort()
      expect(await session.undo({ count: 9 })).toMatchObject({ count: 1 })
      expect(await session.diff({ base: true }).paths()).toEqual({ added: [], removed: [], modified: [] })
      expect(await session.redo()).toMatchObject({ count: 1 })
      expect(await text()).toBe('ours')
    })

    test('ends the redo at a merge, even at one that changes no files', async () => {
      const fork = await session.fork()
      for (const one of [session, fork]) await one.files.write({ path: '/same.txt', content: 'same' })
      await write('/a.txt', 'one')
      await session.undo()
      expect(await session.merge(fork)).toMatchObject({ merged: true, changeCount: 0 })
      expect(await session.redo()).toMatchObject({ count: 0 })
      expect(await text()).toBe('base')
    })

    test('previews without a change', async () => {
      await write('/new.txt', 'one')
      const before = await newestId()
      const { count, changes, isComplete } = await session.undo({ dryRun: true })
      expect({ count, changes, isComplete }).toEqual({
        count: 1,
        changes: [{ path: '/new.txt', change: 'removed', kind: 'file' }],
        isComplete: true,
      })
      expect(await newestId()).toBe(before)
    })

    test('lists the changed paths on request, and also those of a change that another caller makes meanwhile', async () => {
      await write('/new.txt', 'one')
      const other = session.files.write({ path: '/other.txt', content: 'two' })
      const undone = session.undo({ count: 2, listChanges: true })
      await other
      const removed = [
        { path: '/new.txt', change: 'removed', kind: 'file' },
        { path: '/other.txt', change: 'removed', kind: 'file' },
      ]
      expect(await undone).toMatchObject({ count: 2, changes: removed, isComplete: true })
      expect(await session.redo({ count: 2, listChanges: true })).toMatchObject({
        count: 2,
        changes: removed.map((change) => ({ ...change, change: 'added' })),
      })
      const nothing = { count: 0, eventId: '', changes: [], isComplete: true }
      const own = await session.redo({ listChanges: true })
      expect(own).toEqual(nothing)
      own.changes.push({ path: '/a', change: 'added', kind: 'file' })
      expect(await session.redo({ listChanges: true })).toEqual(nothing)
      const again = await reloaded()
      expect(await text('/other.txt', again)).toBe('two')
    })

    test('undoes the changes of a group together', async () => {
      await write('/a.txt', 'one')
      const turn = session.group('turn 1')
      await turn.files.write({ path: '/b', content: 'b' })
      turn.fs.writeFileSync('/c', 'c')
      await turn.flush()
      expect(await session.undo({ by: 'group' })).toMatchObject({ count: 2 })
      expect(session.fs.readdirSync('/')).toEqual(['a.txt'])
      expect(await text()).toBe('one')
      expect(await session.redo({ by: 'group' })).toMatchObject({ count: 2 })
      expect(session.fs.readdirSync('/')).toEqual(['a.txt', 'b', 'c'])
      const details = []
      for await (const event of session.events) details.push(event.details['group'])
      expect(details.filter((group) => group === 'turn 1')).toHaveLength(2)
      // A change without a group is one of its own.
      for (const content of ['two', 'three']) await write('/a.txt', content)
      expect(await session.undo({ by: 'group' })).toMatchObject({ count: 1 })
      expect(await text()).toBe('two')
    })

    test('records the metadata of a handle with its events', async () => {
      const call = session.group('turn 1').withMetadata({ callId: 'call_7', deep: { list: [1, null] } })
      const followed = session.events.follow({ afterEventId: await newestId() })
      call.fs.writeFileSync('/c', 'c')
      await call.text.edit({ path: '/c', edits: [{ oldText: 'c', newText: 'd' }] })
      await call.withMetadata({}).files.write({ path: '/c', content: 'e' })
      const expected = { group: 'turn 1', metadata: { callId: 'call_7', deep: { list: [1, null] } } }
      for (const event of (await session.events.list()).events.slice(-3, -1))
        expect(event.details).toMatchObject(expected)
      expect((await session.events.list()).events.at(-1)?.details).toMatchObject({
        group: 'turn 1',
        metadata: {},
      })
      expect((await followed.next()).value).toMatchObject({ details: expected })
      await followed.return()
      expect(() => session.withMetadata(['x'] as never)).toThrow(/must be an object of JSON/)
      expect(() => session.withMetadata({ a: 'x'.repeat(4096) })).toThrow(/TOO_LARGE|bytes/)
    })

    test('covers batches, restores, renames and hard links', async () => {
      await session.checkpoint({ checkpointLabel: 'start' })
      await session.files.batch([
        { write: { path: '/x', content: 'x' } },
        { write: { path: '/y', content: 'y' } },
      ])
      await session.files.link({ srcPath: '/x', dstPath: '/z' })
      await session.fs.promises.writeFile('/z', 'linked')
      await session.files.rename({ sourcePath: '/x', destinationPath: '/moved' })
      await session.restore({ checkpointLabel: 'start' })
      expect(session.fs.readdirSync('/')).toEqual(['a.txt'])
      await session.undo()
      expect(await text('/moved')).toBe('linked')
      await session.undo()
      expect(await text('/x')).toBe('linked')
      expect(session.fs.statSync('/x').nlink).toBe(2)
      await session.undo()
      expect([await text('/x'), await text('/z')]).toEqual(['x', 'x'])
      await session.undo({ count: 2 })
      expect(session.fs.readdirSync('/')).toEqual(['a.txt'])
    })

    test('stops at the start of a fork', async () => {
      await write('/a.txt', 'one')
      const fork = await session.fork()
      await fork.files.write({ path: '/a.txt', content: 'fork' })
      expect(await fork.undo({ count: 3 })).toMatchObject({ count: 1 })
      expect(await text('/a.txt', fork)).toBe('one')
      expect(await fork.undo()).toMatchObject({ count: 0 })
    })

    test('keeps open files of the session', async () => {
      await using file = await session.fs.promises.open('/a.txt', 'r')
      await write('/a.txt', 'two')
      await session.undo()
      expect(await file.readFile('utf8')).toBe('base')
    })

    test('needs the rights to the history and to change files', async () => {
      for (const capability of ['history', 'files.write', 'files.read'] as const)
        await expect(session.narrow({ without: [capability] }).undo()).rejects.toMatchObject({
          reason: 'PERMISSION_DENIED',
        })
    })

    test.each([{ count: 0 }, { count: 1.5 }, { by: 'turn' as never }, { dryRun: 1 as never }])(
      'refuses %j',
      async (request) => {
        await expect(session.undo(request)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
      },
    )
  })
})

describe('the history in memory', () => {
  test('is bounded, and reports states beyond the bound', async () => {
    await using engine = await openEngine({ memoryHistoryBytes: 100_000 })
    const session = await engine.sessions.create()
    const ids: string[] = []
    for (let round = 0; round < 300; round++) {
      await session.files.write({ path: '/a', content: String(round).padEnd(1000) })
      using view = await session.at()
      ids.push(view.eventId)
    }
    await expect(session.at({ eventId: ids[0]! })).rejects.toMatchObject({ reason: 'STATE_NOT_KEPT' })
    using view = await session.at({ eventId: ids.at(-10)! })
    expect(view.fs.readFileSync('/a', 'utf8').trim()).toBe('290')
    await expect(session.undo({ count: 200 })).rejects.toMatchObject({ reason: 'STATE_NOT_KEPT' })
  })

  test('can be turned off', async () => {
    await using engine = await openEngine({ memoryHistoryBytes: 0 })
    const session = await engine.sessions.create()
    await session.files.write({ path: '/a', content: '1' })
    await session.files.write({ path: '/a', content: '2' })
    await expect(session.undo()).rejects.toMatchObject({ reason: 'STATE_NOT_KEPT' })
  })

  test('refuses a bound that is no size', async () => {
    await expect(openEngine({ memoryHistoryBytes: -1 })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })

  test('drops the changes of a deleted session, and goes on', async () => {
    await using engine = await openEngine({ storage: memoryStorage(), memoryHistoryBytes: 2_000_000 })
    const kept = await engine.sessions.create()
    await kept.files.write({ path: '/a', content: 'kept' })
    using before = await kept.at()
    for (let round = 0; round < 30; round++) {
      const session = await engine.sessions.create()
      for (let file = 0; file < 100; file++)
        await session.files.write({ path: `/${file}`, content: 'x'.repeat(500) })
      await session.delete()
    }
    await kept.files.write({ path: '/a', content: 'new' })
    using view = await kept.at({ eventId: before.eventId })
    expect(view.fs.readFileSync('/a', 'utf8')).toBe('kept')
  })
})
