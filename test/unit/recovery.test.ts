import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { createEngine } from '../../src/engine/index.js'
import type { Committer } from '../../src/engine/ports.js'
import { EngineError, keys, prefixEnd } from '../../src/engine/ports.js'
import { endsPage } from '../../src/engine/tree/page.js'
import {
  memoryStorage,
  openEngine,
  type Engine,
  type Session,
  type Storage,
  type Store,
} from '../../src/index.js'
import { SteppedStorage, type Held } from '../support/stepped-storage.js'

let directory: string
const opened: Engine[] = []

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'forkspace-recovery-'))
})

afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close().catch(() => undefined)
  await rm(directory, { recursive: true })
})

async function open(storage: Storage): Promise<Engine> {
  const engine = await openEngine({ storage })
  opened.push(engine)
  return engine
}

/** A storage whose store `change` modifies before the engine gets it. */
function wrapped(storage: Storage, change: (store: Store) => void): Storage {
  return {
    async open() {
      const store = await storage.open()
      change(store)
      return store
    },
  }
}

const endingName = Array.from({ length: 10_000 }, (_, i) => `name-${i}`).find(endsPage)!

describe('the stored state', () => {
  test('keeps a directory of which only an unread page is left', async () => {
    const storage = levelStorage(join(directory, 'store'), { durability: 'relaxed' })
    const first = await open(storage)
    const { id } = await first.sessions.create({ files: { [`/d/${endingName}`]: '1', '/d/zz': '2' } })
    await first.close()
    const second = await open(storage)
    const session = await second.sessions.open(id)
    await session.fs.promises.mkdir('/e')
    await session.fs.promises.writeFile('/e/precious', 'data')
    await session.fs.promises.unlink('/d/zz')
    const writes = Array.from({ length: 2100 }, (_, i) => session.fs.promises.writeFile('/x', `${i}`))
    await Promise.all(writes)
    await session.fs.promises.readdir('/d')
    await session.fs.promises.writeFile('/x', 'end')
    await second.close()
    const third = await open(storage)
    const again = await third.sessions.open(id)
    expect(await again.fs.promises.readFile('/e/precious', 'utf8')).toBe('data')
    expect(await again.fs.promises.readdir('/d')).toEqual([endingName])
  })

  test('is correct after an operation failed during a read', async () => {
    const names = Array.from({ length: 3000 }, (_, i) => `/d/file-${i}`)
    const data = memoryStorage({ durable: true })
    const first = await open(data)
    const session = await first.sessions.create({
      files: Object.fromEntries(names.map((name) => [name, name])),
    })
    await first.close()
    for (const name of names.filter((name) => endsPage(name.slice(3)))) {
      let failing = false
      const engine = await open(
        wrapped(data, (store) => {
          const read = store.getSync!.bind(store)
          store.getSync = (key) => {
            if (failing && key.startsWith('n')) throw new EngineError('DATA_LOSS', 'too many open files')
            return read(key)
          }
        }),
      )
      const again = await engine.sessions.open(session.id)
      await again.fs.promises.stat(name)
      failing = true
      await again.fs.promises.unlink(name).catch(() => undefined)
      failing = false
      const live = (await again.manifest({ pageSize: 1 })).manifestHash
      await engine.close()
      const reopened = await open(data)
      expect((await (await reopened.sessions.open(session.id)).manifest({ pageSize: 1 })).manifestHash).toBe(
        live,
      )
      await reopened.close()
    }
  })

  test('is awaited by a call right after an operation that failed during a read', async () => {
    const names = Array.from({ length: 1000 }, (_, i) => `/d/file-${i}`)
    let failing = false
    const data = wrapped(memoryStorage({ durable: true }), (store) => {
      const read = store.getSync!.bind(store)
      store.getSync = (key) => {
        if (failing && key.startsWith('n')) throw new EngineError('DATA_LOSS', 'too many open files')
        return read(key)
      }
    })
    const storage = new SteppedStorage(data)
    const first = await open(storage)
    const files = Object.fromEntries(names.map((name) => [name, name]))
    const { id } = await first.sessions.create({ files })
    await first.close()
    for (const name of names.filter((one) => endsPage(one.slice(3)))) {
      const engine = await open(storage)
      const session = await engine.sessions.open(id)
      await session.fs.promises.stat(name)
      const stored = storage.hold('commit', ({ events }) => events !== undefined)
      const writing = session.files.write({ path: '/before', content: name })
      failing = true
      const removing = session.fs.promises.unlink(name).catch(() => undefined)
      failing = false
      const reading = session.fs.promises.readFile('/before', 'utf8')
      await storage.quiet()
      stored.release()
      expect(await reading).toBe(name)
      await Promise.all([writing, removing])
      await engine.close()
    }
  })

  test('is that of the call, even if the caller changes the request later', async () => {
    const engine = await open(memoryStorage({ durable: true }))
    const session = await engine.sessions.create()
    const buffer = Buffer.alloc(5 << 20, 'a')
    const pending = [session.files.write({ path: '/big', content: buffer })]
    buffer.fill('b')
    const request = { path: '/1', content: 'one' }
    pending.push(session.files.write(request))
    request.path = '/2'
    request.content = 'two'
    pending.push(session.files.write(request))
    const entry = { write: { path: '/3', content: 'three' } }
    pending.push(session.files.batch([entry]))
    entry.write.path = '/4'
    const early = Buffer.from('early')
    const creating = engine.sessions.create({ files: { '/m': '1', '/n': early } })
    early.write('LATER')
    expect(await (await creating).fs.promises.readFile('/n', 'utf8')).toBe('early')
    await Promise.all(pending)
    const { promises } = session.fs
    expect(await promises.readdir('/')).toEqual(['1', '2', '3', 'big'])
    expect([await promises.readFile('/1', 'utf8'), await promises.readFile('/2', 'utf8')]).toEqual([
      'one',
      'two',
    ])
    expect((await promises.readFile('/big')).equals(Buffer.alloc(5 << 20, 'a'))).toBe(true)
  })
})

describe('a checkpoint whose events are still queued', () => {
  test('is forked and compared completely, even if its session is deleted right after the call', async () => {
    for (const storage of [levelStorage(join(directory, 'queued')), memoryStorage()]) {
      const engine = await open(storage)
      const session = await engine.sessions.create({ files: { '/a': '0' } })
      const other = await engine.sessions.create({ files: { '/a': '0' } })
      const big = Buffer.alloc(3 << 20, 'x')
      const pending: Promise<unknown>[] = []
      for (let i = 0; i < 4; i++) pending.push(session.files.write({ path: `/big${i}`, content: big }))
      pending.push(
        session.files.write({ path: '/a', content: '1' }),
        session.checkpoint({ checkpointLabel: 'c' }),
      )
      const forking = session.fork({ checkpointLabel: 'c' })
      const diff = other.diff({ sessionId: session.id, checkpointLabel: 'c' })
      const deleting = session.delete()
      const fork = await forking
      expect(await fork.fs.promises.readFile('/a', 'utf8')).toBe('1')
      expect((await diff.paths()).modified).toEqual(['/a'])
      await Promise.all([...pending, deleting])
      await engine.close()
    }
    const reopened = await open(levelStorage(join(directory, 'queued')))
    const { sessions } = await reopened.sessions.list()
    const forks = await Promise.all(sessions.map(({ id }) => reopened.sessions.open(id)))
    const contents = await Promise.all(forks.map((fork) => fork.fs.promises.readFile('/a', 'utf8')))
    expect(contents.toSorted()).toEqual(['0', '1'])
  })

  test('is found after its root was evicted', async () => {
    const engine = await open(levelStorage(join(directory, 'pins'), { durability: 'relaxed' }))
    const session = await engine.sessions.create()
    const pending: Promise<unknown>[] = []
    for (let i = 0; i < 4200; i++) {
      pending.push(
        session.files.write({ path: '/a', content: `v${i}` }),
        session.checkpoint({ checkpointLabel: `l${i}` }),
      )
    }
    const forking = session.fork({ checkpointLabel: 'l10' })
    const restoring = session.restore({ checkpointLabel: 'l10' })
    expect(await (await forking).fs.promises.readFile('/a', 'utf8')).toBe('v10')
    await restoring
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('v10')
    await Promise.all(pending)
  })
})

describe('does not hang', () => {
  test('in a batch with a guard on a large content from the same batch', async () => {
    const session = await (await open(memoryStorage())).sessions.create()
    const content = Buffer.alloc(2 << 20, 'x')
    await session.files.write({ path: '/known', content })
    const expectedHash = await session.files.contentHash('/known')
    await session.files.batch([
      { write: { path: '/b', content } },
      { write: { path: '/b', content: 'small', expectedHash } },
    ])
    expect(await session.fs.promises.readFile('/b', 'utf8')).toBe('small')
  })

  test('when hashing a file that keeps growing', async () => {
    const session = await (await open(memoryStorage())).sessions.create()
    await session.files.write({ path: '/log', content: Buffer.alloc(16 << 20) })
    let growing = true
    const grow = (async () => {
      while (growing) {
        await session.files.append({ path: '/log', content: 'line\n' })
        await new Promise((resolve) => {
          setTimeout(resolve, 1)
        })
      }
    })()
    expect(await session.files.contentHash('/log')).toMatch(/^sha256:/)
    growing = false
    await grow
  })

  test('and a tree gets no deeper than paths may be', async () => {
    const session = await (await open(memoryStorage())).sessions.create()
    await session.files.write({ path: '/a'.repeat(200), content: '' })
    await session.files.write({ path: '/b'.repeat(100), content: '' })
    const before = await session.manifest()
    const destinationPath = `${'/b'.repeat(99)}/a`
    const move = session.files.rename({ sourcePath: '/a', destinationPath })
    await expect(move).rejects.toMatchObject({ reason: 'NAME_TOO_LONG' })
    expect(await session.manifest()).toEqual(before)
    await session.fs.promises.rm('/a', { recursive: true })
    await session.files.createDirectory({ path: '/a' })
    await session.files.rename({ sourcePath: '/a', destinationPath })
    expect((await session.manifest()).nodes.map(({ path }) => path)).toContain(destinationPath)
  })
})

describe('a commit in flight', () => {
  let release: (() => void) | undefined

  function slowCommitter(outcome: () => { commitId: string; treeId: string }): () => Promise<Committer> {
    return () =>
      Promise.resolve({
        commit: async () => {
          await new Promise<void>((resolve) => {
            release = resolve
          })
          return outcome()
        },
      })
  }

  async function openWith(
    storage: Storage,
    outcome: () => { commitId: string; treeId: string },
  ): Promise<Engine> {
    const engine = await createEngine({
      storage,
      environment: systemEnvironment,
      committer: slowCommitter(outcome),
    })
    opened.push(engine)
    return engine
  }

  async function untilReleased(): Promise<void> {
    while (release === undefined) {
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
    }
    release()
    release = undefined
  }

  test('is awaited by close, so that a push is recorded', async () => {
    const storage = memoryStorage({ durable: true })
    const engine = await openWith(storage, () => ({ commitId: 'c'.repeat(40), treeId: 'd'.repeat(40) }))
    const session = await engine.sessions.create()
    const committing = session.commit({ message: 'm' })
    const closing = engine.close()
    await untilReleased()
    await expect(committing).resolves.toEqual({ commitId: 'c'.repeat(40) })
    await closing
  })

  test('does not restore a session that was deleted meanwhile', async () => {
    const engine = await openWith(memoryStorage({ durable: true }), () => {
      throw new EngineError('BRANCH_MOVED', 'moved')
    })
    const session = await engine.sessions.create()
    const committing = session.commit({ message: 'm', gitBranch: { branchName: 'main' } })
    await session.delete()
    const [result] = await Promise.allSettled([committing, untilReleased()])
    expect(result).toMatchObject({ status: 'rejected', reason: { reason: 'BRANCH_MOVED' } })
    expect((await engine.sessions.list()).sessions).toEqual([])
    await expect(engine.sessions.open(session.id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  })
})

test('closing after a failed write releases the store and loses no acknowledged data', async () => {
  const data = memoryStorage({ durable: true })
  let failing = false
  const engine = await open(
    wrapped(data, (store) => {
      const commit = store.commit.bind(store)
      store.commit = (change) => {
        if (failing) return Promise.reject(new EngineError('STORE_FULL', 'full'))
        return commit(change)
      }
    }),
  )
  const session = await engine.sessions.create({ files: { '/a': '1' } })
  await session.files.write({ path: '/a', content: '2' })
  failing = true
  await expect(session.files.write({ path: '/a', content: '3' })).rejects.toMatchObject({
    reason: 'STORE_FULL',
  })
  expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('2')
  await engine.close()
  const reopened = await open(data)
  expect(await (await reopened.sessions.open(session.id)).fs.promises.readFile('/a', 'utf8')).toBe('2')
})

test('checkpoints are listed completely after the clock went back between two openings', async () => {
  const storage = memoryStorage({ durable: true })
  let now = Date.UTC(2025, 5, 1)
  const environment = { ...systemEnvironment, wallClockMs: () => now }
  const first = await openEngine({ storage, environment })
  const session = await first.sessions.create()
  await session.checkpoint({ checkpointLabel: '1' })
  await session.checkpoint({ checkpointLabel: '2' })
  await first.close()
  now -= 1e9
  const second = await openEngine({ storage, environment })
  opened.push(second)
  const again = await second.sessions.open(session.id)
  await again.checkpoint({ checkpointLabel: '3' })
  const labels: string[] = []
  for (let pageToken = ''; ;) {
    const page = await again.listCheckpoints({ pageSize: 1, pageToken })
    labels.push(...page.checkpoints.map(({ checkpointLabel }) => checkpointLabel))
    if (page.nextPageToken === '') break
    pageToken = page.nextPageToken
  }
  expect(labels).toEqual(['1', '2', '3'])
})

test('invalid requests are rejected as INVALID_ARGUMENT', async () => {
  const engine = await open(memoryStorage())
  const session = await engine.sessions.create()
  const nothing = null as never
  const calls: Record<string, () => Promise<unknown>> = {
    openEngine: () => openEngine(nothing),
    storage: () => openEngine({ storage: '/x' as never }),
    'sessions.create': () => engine.sessions.create(nothing),
    'sessions.create of text': () => engine.sessions.create('id' as never),
    'sessions.create of a source': () => engine.sessions.create({ sourceRef: nothing }),
    'sessions.list': () => engine.sessions.list(nothing),
    'sources.create': () => engine.sources.create(nothing),
    'sources.list': () => engine.sources.list(nothing),
    'sources.getJob': () => engine.sources.getJob(nothing),
    'sources.waitForJob': () => engine.sources.waitForJob(nothing),
    'engine.diff': async () => engine.diff(nothing).paths(),
    'engine.diff from nothing': async () =>
      engine.diff({ from: nothing, to: { sessionId: session.id } }).paths(),
    'session.diff with text': () => session.diff('before' as never).paths(),
    'session.diff with nothing': () => session.diff(nothing).paths(),
    'session.diff with no name': () => session.diff({}).paths(),
    fork: () => session.fork(nothing),
    'fork of a number': () => session.fork(5 as never),
    checkpoint: () => session.checkpoint('before' as never),
    restore: () => session.restore(nothing),
    'restore without argument': () => (session.restore as () => Promise<unknown>)(),
    listCheckpoints: () => session.listCheckpoints(nothing),
    manifest: () => session.manifest(nothing),
    'manifest below a symbol': () => session.manifest({ pathPrefix: Symbol('x') as never }),
    listSymlinks: () => session.files.listSymlinks(nothing),
    commit: () => session.commit(nothing),
    'commit by nobody': () => session.commit({ message: 'm', author: nothing }),
    'commit to nothing': () => session.commit({ message: 'm', gitBranch: nothing }),
  }
  const { manifestHash } = await session.manifest()
  for (const [name, call] of Object.entries(calls)) {
    await expect(Promise.resolve().then(call), name).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  }
  expect((await session.manifest()).manifestHash).toBe(manifestHash)
  expect((await session.listCheckpoints()).checkpoints).toEqual([])
  expect((await engine.sessions.list()).sessions).toHaveLength(1)
})

test('finds names after reopening whose UTF-16 order differs', async () => {
  const storage = memoryStorage({ durable: true })
  const names = ['\uFF5E', '\u{1F600}', '\uFFFD', '\u{10FFFF}']
  const first = await openEngine({ storage })
  const session = await first.sessions.create()
  // More than one page, so that the directory is stored in pages.
  const many = Array.from({ length: 3000 }, (_, i) => `n${i}`)
  const all = [...many, ...names, ...names.map((name) => `${name}x`)]
  await session.files.batch(all.map((name) => ({ write: { path: `/d/${name}`, content: name } })))
  await session.checkpoint()
  await first.close()
  const second = await openEngine({ storage })
  opened.push(second)
  const again = await second.sessions.open(session.id)
  for (const name of all) expect(await again.fs.promises.readFile(`/d/${name}`, 'utf8')).toBe(name)
  for (const name of names) await again.files.delete({ path: `/d/${name}` })
  expect(await again.fs.promises.readdir('/d')).toHaveLength(all.length - names.length)
})

describe('a change that waits for a read', () => {
  /** A session with two unloaded directories, and a held read of the second. */
  async function waiting(): Promise<{ session: Session; read: Held }> {
    const storage = new SteppedStorage(memoryStorage({ durable: true, syncReads: false }))
    const made = await open(storage)
    const { id } = await made.sessions.create({ files: { '/one/a': 'a', '/two/b': 'b' } })
    const nodes = await storage.store.scan({ gte: keys.node(''), lt: prefixEnd(keys.node('')), limit: 10 })
    const [second] = nodes.find(([, json]) => json.includes('"b"'))!
    await made.close()
    const engine = await open(storage)
    const session = await engine.sessions.open(id)
    return { session, read: storage.hold('get', (key) => key === second) }
  }

  test('is not overtaken by a later one when the previous one ends', async () => {
    const { session, read } = await waiting()
    const write = (path: string): Promise<void> => session.files.write({ path, content: path })
    const first = write('/one/x')
    const second = write('/two/x')
    await first
    await read.reached
    const third = write('/x')
    await new Promise((resolve) => void setImmediate(resolve))
    read.release()
    await Promise.all([second, third])
    const { events } = await session.events.list()
    expect(events.slice(1).map(({ details }) => details['path'])).toEqual(['/one/x', '/two/x', '/x'])
  })
})
