import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { fixedEnvironment } from '../../src/testing.js'
import type { Environment } from '../../src/engine/index.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { Residency } from '../../src/engine/session/table/residency.js'
import {
  memoryStorage,
  openEngine,
  PosixLockKind,
  type Engine,
  type Session,
  type Storage,
} from '../../src/index.js'
import { isLong, seed } from '../support/seed.js'
import { allStorages, storages } from '../support/storages.js'

let directory: string
const opened: Engine[] = []

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'forkspace-memory-'))
})

afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close()
  await rm(directory, { recursive: true })
})

/** The smallest budget that an engine accepts. */
const memoryBudgetBytes = 2 ** 20

async function open(storage: Storage, environment: Environment = systemEnvironment): Promise<Engine> {
  const engine = await openEngine({ storage, environment, memoryBudgetBytes })
  opened.push(engine)
  return engine
}

/** Counts the sessions that are evicted while `act` runs. */
async function evictions(act: () => Promise<void>): Promise<number> {
  const evict = vi.spyOn(Residency.prototype, 'evict')
  try {
    await act()
    return evict.mock.calls.length
  } finally {
    evict.mockRestore()
  }
}

/** The result of `look`; undefined if it would have to wait. */
function unlessBlocked<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    return undefined
  }
}

function expectContent(found: string | undefined, content: string | undefined): void {
  expect(found).toBe(content)
}

const read = (session: Session, path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

/** Creates enough sessions to evict the first ones. */
async function crowd(engine: Engine): Promise<void> {
  const base = await engine.sessions.create({ files: { '/x': 'x' } })
  for (let i = 0; i < 400; i++) await (await base.fork()).files.write({ path: '/x', content: `${i}` })
}

describe.each(storages.filter(([, , lasting]) => lasting))('on %s', (_name, make) => {
  test('calls on an evicted session take effect in call order', async () => {
    const engine = await open(make(directory))
    const session = await (await engine.sessions.create()).fork()
    await session.files.write({ path: '/first', content: '0' })
    expect(await evictions(() => crowd(engine))).toBeGreaterThan(0)
    const first = session.files.write({ path: '/first', content: '' })
    const others: Promise<void>[] = []
    let written = false
    first.then(
      () => (written = true),
      () => undefined,
    )
    // Covers every step between the call and its effect.
    for (let i = 0; !written; i++) {
      others.push(session.files.write({ path: `/other${i}`, content: '' }))
      await Promise.resolve()
      if (i % 50 === 49) await nextTurn()
    }
    await Promise.all([first, ...others])
    const { events } = await session.events.list({ pageSize: others.length + 3 })
    const paths = events.slice(2).map(({ details }) => (details as { path: string }).path)
    expect(paths).toEqual(['/first', ...others.map((_, i) => `/other${i}`)])
  })

  test('evicts unused sessions, whose handles stay usable', async () => {
    const engine = await open(make(directory))
    const base = await engine.sessions.create({
      files: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`/d${i % 40}/f${i}`, `${i}`])),
    })
    const sessions: Session[] = []
    const left = await evictions(async () => {
      for (let i = 0; i < 400; i++) {
        const session = await base.fork({ newTags: { i: `${i}` } })
        await session.files.write({ path: `/d${i % 40}/own`, content: `own ${i}` })
        await session.checkpoint({ checkpointLabel: 'first' })
        await session.files.write({ path: '/new', content: `new ${i}` })
        sessions.push(session)
      }
    })
    expect(left).toBeGreaterThan(200)
    for (const [i, session] of sessions.entries()) {
      expect(await read(session, `/d${i % 40}/own`)).toBe(`own ${i}`)
      const info = await session.get()
      expect([info.id, info.tags['i']]).toEqual([session.id, `${i}`])
      if (i % 50 !== 0) continue
      await session.files.write({ path: '/new', content: 'later' })
      expect((await session.events.verify()).eventCount).toBe(5)
      expect(await session.diff({ checkpointLabel: 'first' }).paths()).toEqual({
        added: ['/new'],
        removed: [],
        modified: [],
      })
      await session.restore({ checkpointLabel: 'first' })
      await expect(read(session, '/new')).rejects.toMatchObject({ code: 'ENOENT' })
    }
  })

  test('locks, open files and followers keep a session in memory', async () => {
    const engine = await open(make(directory))
    const session = await engine.sessions.create({ files: { '/a': '1', '/b': '2' } })
    const owner = { ownerId: 'one' }
    await session.posixLocks.set({ path: '/a', kind: PosixLockKind.EXCLUSIVE, owner })
    const held = await engine.sessions.create({ files: { '/b': '2' } })
    const handle = await held.fs.promises.open('/b', 'r+')
    const followed = await engine.sessions.create()
    const abort = new AbortController()
    const seen: string[] = []
    const following = (async () => {
      for await (const { eventType } of followed.events.follow({ signal: abort.signal })) seen.push(eventType)
    })().catch(() => undefined)
    const spoken = await engine.sessions.create()
    const subscription = spoken.bus.subscribe({ topics: ['t'] })
    await subscription.opened
    expect(await evictions(() => crowd(engine))).toBeGreaterThan(100)
    expect(
      await session.posixLocks.get({ path: '/a', kind: PosixLockKind.EXCLUSIVE, owner: { ownerId: 'two' } }),
    ).toMatchObject({ hasConflict: true })
    await held.files.rename({ sourcePath: '/b', destinationPath: '/c' })
    await handle.write('3', 0)
    expect(await read(held, '/c')).toBe('3')
    await handle.close()
    await (await engine.sessions.open(followed.id)).files.write({ path: '/a', content: '' })
    while (seen.length < 2)
      await new Promise((resolve) => {
        setTimeout(resolve, 1)
      })
    abort.abort()
    await following
    await (await engine.sessions.open(spoken.id)).bus.publish({ topic: 't', payload: 'p' })
    expect((await subscription.next()).value).toMatchObject({ topic: 't' })
    await subscription.return()
  })

  test('an operation on an evicted session continues with it', async () => {
    const engine = await open(make(directory))
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    let go = (): void => undefined
    const content = (async function* () {
      yield Buffer.from('one ')
      await new Promise<void>((resolve) => {
        go = resolve
      })
      yield Buffer.from('two')
    })()
    const writing = session.fs.promises.writeFile('/slow', content)
    const following = session.events.follow()
    await crowd(engine)
    await session.files.write({ path: '/a', content: '2' })
    await crowd(engine)
    go()
    await writing
    expect(await read(session, '/slow')).toBe('one two')
    const types: string[] = []
    for await (const { eventType } of following) if (types.push(eventType) >= 3) break
    expect(types[0]).toContain('reateSession')
  })

  test('synchronous calls keep working on an evicted session through its handle', async () => {
    const storage = make(directory)
    const engine = await open(storage)
    const session = await engine.sessions.create({ files: { '/d/a': '1' } })
    // A store without synchronous reads cannot guarantee this.
    const synchronous = (): string | undefined => unlessBlocked(() => session.fs.readFileSync('/d/a', 'utf8'))
    const before = synchronous()
    session.fs.writeFileSync('/d/b', '2')
    await session.flush()
    await crowd(engine)
    expect(synchronous()).toBe(before)
    if (before !== undefined) session.fs.writeFileSync('/d/a', '3')
    await crowd(engine)
    await session.flush()
    expect(await read(session, '/d/a')).toBe(before === undefined ? '1' : '3')
    expect(await read(session, '/d/b')).toBe('2')
  })

  test('an evicted session keeps the time of its last read', async () => {
    const environment = fixedEnvironment({ stepMs: 0 })
    const engine = await open(make(directory), environment)
    const session = await engine.sessions.create({ files: { '/a': '' }, initialTags: { read: 'once' } })
    environment.advance(30_000)
    await read(session, '/a')
    const readAt = environment.wallClockMs()
    expect(await evictions(() => crowd(engine))).toBeGreaterThan(0)
    const { sessions } = await engine.sessions.list({ filter: 'read=once' })
    expect(sessions.map(({ lastActivityAt }) => Date.parse(lastActivityAt))).toEqual([readAt])
  })

  test('eviction stores a snapshot for a session with many events', async () => {
    const storage = make(directory)
    const engine = await open(storage)
    const session = await engine.sessions.create()
    for (let i = 0; i < 300; i++) await session.files.write({ path: `/f${i}`, content: `${i}` })
    const hash = (await session.manifest()).manifestHash
    await crowd(engine)
    expect((await session.manifest()).manifestHash).toBe(hash)
    expect((await session.events.verify()).eventCount).toBe(301)
  })

  test('service data of a session is restored after eviction', async () => {
    const engine = await open(make(directory))
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    await session.cache.put({ key: 'k', value: 'v' })
    await session.bus.publish({ topic: 't', payload: 'p' })
    const { lockId } = await session.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
    await session.approvals.request({ reason: 'R' })
    await session.checkpoint({ checkpointLabel: 'l' })
    await crowd(engine)
    expect(Buffer.from((await session.cache.get({ key: 'k' })).value).toString()).toBe('v')
    expect((await session.fileLocks.list()).locks).toMatchObject([{ lockId }])
    expect((await session.get()).status).toBe('SESSION_STATUS_PENDING_APPROVAL')
    expect((await session.listCheckpoints()).checkpoints).toHaveLength(1)
    const subscription = session.bus.subscribe({ topics: ['t'], replayLimit: 10 })
    expect((await subscription.next()).value).toMatchObject({ topic: 't' })
    await subscription.return()
  })

  test.runIf(isLong)('a directory of many entries needs little memory and has the same hash', async () => {
    const storage = make(directory)
    const first = await open(storage)
    const files = Object.fromEntries(
      Array.from({ length: 15_000 }, (_, i) => [i % 3 === 0 ? `/sub/${i % 100}/f${i}` : `/f${i}`, `${i}`]),
    )
    const session = await first.sessions.create({ files })
    const hash = (await session.manifest({ pageSize: 1 })).manifestHash
    for (let i = 0; i < 200; i++) await session.files.write({ path: `/f${i * 31}`, content: `new ${i}` })
    const fork = await session.fork()
    await fork.files.write({ path: '/sub/7/own', content: '' })
    expect(await fork.diff(session).paths()).toEqual({ added: ['/sub/7/own'], removed: [], modified: [] })
    expect((await session.diff().paths()).modified.length).toBeGreaterThan(100)
    let count = 0
    for (let pageToken = ''; ;) {
      const page = await session.manifest({ pageSize: 2000, pageToken })
      count += page.nodes.length
      pageToken = page.nextPageToken
      if (pageToken === '') break
    }
    const newHash = (await session.manifest({ pageSize: 1 })).manifestHash
    expect(newHash).not.toBe(hash)
    await first.close()
    const again = await (await open(storage)).sessions.open(session.id)
    expect((await again.manifest({ pageSize: 1 })).manifestHash).toBe(newHash)
    expect(count).toBeGreaterThan(15_000)
  })
})

test(`evicted and reloaded sessions agree with a plain model (FORKSPACE_SEED=${seed})`, async () => {
  const make = (): Storage => memoryStorage({ durable: true })
  const step = fc.record({
    session: fc.nat(79),
    kind: fc.constantFrom('write', 'read', 'unlink', 'checkpoint', 'restore', 'fork', 'rename'),
    file: fc.nat(30),
    bytes: fc.constantFrom(10, 5000),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 200, maxLength: 600 }), async (steps) => {
      const engine = await openEngine({
        storage: make(),
        memoryBudgetBytes,
        environment: systemEnvironment,
      })
      const base = await engine.sessions.create({ files: { '/d/f0': '0' } })
      const models = [] as { session: Session; files: Map<string, string>; saved: Map<string, string> }[]
      for (let i = 0; i < 80; i++) {
        const session = await base.fork()
        await session.checkpoint({ checkpointLabel: 'saved' })
        const files = new Map([['/d/f0', '0']])
        models.push({ session, files, saved: new Map(files) })
      }
      for (const { session: index, kind, file, bytes } of steps) {
        const model = models[index]!
        const { session, files } = model
        const path = `/d/f${file}`
        const content = `${index} ${file} ${bytes}`.padEnd(bytes)
        if (kind === 'write') {
          await session.files.write({ path, content })
          files.set(path, content)
        } else if (kind === 'unlink' && files.has(path)) {
          await session.files.unlink({ path })
          files.delete(path)
        } else if (kind === 'rename' && files.has(path)) {
          await session.files.rename({ sourcePath: path, destinationPath: `${path}x` })
          files.set(`${path}x`, files.get(path)!)
          files.delete(path)
        } else if (kind === 'restore') {
          await session.restore({ checkpointLabel: 'saved' })
          model.files = new Map(model.saved)
        } else if (kind === 'fork') {
          model.session = await session.fork()
          await model.session.checkpoint({ checkpointLabel: 'saved' })
          model.saved = new Map(files)
        } else expectContent(await read(session, path).catch(() => undefined), files.get(path))
      }
      for (const { session, files } of models) {
        const found = await session.fs.promises.readdir('/d').catch(() => [])
        expect(found.map((name) => `/d/${name}`).toSorted()).toEqual([...files.keys()].toSorted())
        for (const [path, content] of files) expect(await read(session, path)).toBe(content)
        await session.events.verify()
      }
      await engine.close()
    }),
    { seed, numRuns: isLong ? 8 : 4 },
  )
}, 60_000)

test('opening an engine loads no session', async () => {
  const [, make] = allStorages.find(([name]) => name === 'level')!
  const storage = make(directory)
  const first = await open(storage)
  const base = await first.sessions.create()
  for (let i = 0; i < 50; i++) await base.fork()
  await first.close()
  const enter = vi.spyOn(Residency.prototype, 'enter')
  try {
    const second = await open(storage)
    expect((await second.sessions.list()).sessions).toHaveLength(51)
    expect(enter).not.toHaveBeenCalled()
  } finally {
    enter.mockRestore()
  }
})
