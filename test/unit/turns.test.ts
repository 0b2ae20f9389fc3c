import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { runInSlices, TimeSlice, type Steps } from '../../src/engine/base/cooperative.js'
import { sortedInSlices } from '../../src/engine/base/sorted.js'
import {
  limits,
  memoryStorage,
  openEngine,
  type CachePutRequest,
  type Environment,
  type Session,
  type Storage,
} from '../../src/index.js'
import { repairStore } from '../../src/engine/index.js'
import { scanAll } from '../../src/engine/storage/scan-all.js'
import { fixedEnvironment, type FixedEnvironment } from '../../src/testing.js'
import { isLong } from '../support/seed.js'
import { turnsOf } from '../support/turns.js'

const mebibyte = 2 ** 20

function slowEnvironment(): FixedEnvironment {
  return fixedEnvironment({ stepMs: limits.sliceMs })
}

/** A session whose clock reports the end of the slice on every read. */
async function slowSession(
  storage: Storage = memoryStorage(),
  environment: Environment = slowEnvironment(),
): Promise<Session> {
  const engine = await openEngine({ storage, environment })
  return engine.sessions.create()
}

test('a manifest yields to the event loop while it hashes the blocks of a file', async () => {
  const session = await slowSession()
  const segments = Array.from({ length: 32 }, (_, i) => ({
    data: { offset: i * mebibyte + 1, content: `${i}` },
  }))
  await session.files.patchSegments({ mutations: [{ path: '/a', segments }] })
  expect(await turnsOf(() => session.manifest({ pathPrefix: '/none' }))).toBeGreaterThanOrEqual(32)
})

test('listings yield to the event loop while they search', async () => {
  const session = await slowSession()
  await session.files.batch(
    Array.from({ length: 6400 }, (_, i) => ({ write: { path: `/${i % 7}/${i}`, content: '' } })),
  )
  await session.files.createSymlink({ linkPath: '/z', target: 'y' })
  const list = async (): Promise<void> => {
    expect((await session.files.listSymlinks()).symlinks).toEqual([{ path: '/z', target: 'y' }])
  }
  expect(await turnsOf(list)).toBeGreaterThanOrEqual(100)
})

test('a list of file locks yields to the event loop', async () => {
  const session = await slowSession()
  const count = 200
  for (let i = 0; i < count; i++) await session.fileLocks.lock({ path: `/${i}`, timeoutSeconds: 60 })
  const list = async (): Promise<void> => {
    expect((await session.fileLocks.list()).locks).toHaveLength(count)
  }
  expect(await turnsOf(list)).toBeGreaterThanOrEqual(count)
})

test('a list of the jobs of a source yields to the event loop', async () => {
  const engine = await openEngine({ environment: slowEnvironment() })
  const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })
  const count = 20
  const content = new Uint8Array(1024)
  for (let i = 0; i < count; i++)
    await engine.sources.waitForJob(
      await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } }),
    )
  const list = async (): Promise<void> => {
    expect((await engine.sources.listJobs({ sourceId })).jobs).toHaveLength(count)
  }
  expect(await turnsOf(list)).toBeGreaterThanOrEqual(count)
})

/** A session with conflicts of as many files. */
async function conflictSession(count: number): Promise<Session> {
  const session = await slowSession()
  const write = (one: Session, content: string): Promise<unknown> =>
    one.files.batch(Array.from({ length: count }, (_, i) => ({ write: { path: `/${i}`, content } })))
  await write(session, 'base')
  const fork = await session.fork()
  await write(session, 'ours')
  await write(fork, 'theirs')
  await session.merge(fork)
  return session
}

test('a list of conflicts yields to the event loop', async () => {
  const count = 100
  const session = await conflictSession(count)
  const list = async (): Promise<void> => {
    expect((await session.conflicts.list()).conflicts).toHaveLength(count)
  }
  expect(await turnsOf(list)).toBeGreaterThanOrEqual(count)
})

test('the resolution of conflicts yields to the event loop', async () => {
  const count = 100
  const session = await conflictSession(count)
  const turns = await turnsOf(() => session.conflicts.resolveAll({ use: 'theirs' }))
  expect(turns).toBeGreaterThanOrEqual(20 * count)
})

test('the cache yields to the event loop while it reads, writes or expires many entries', async () => {
  const environment = slowEnvironment()
  const session = await slowSession(memoryStorage({ durable: true }), environment)
  const count = 2000
  const value = new Uint8Array(1024)
  const keys = Array.from({ length: count }, (_, i) => `${i}`)
  const entries = (more?: Partial<CachePutRequest>): CachePutRequest[] =>
    keys.map((key) => ({ key, value, ...more }))
  expect(await turnsOf(() => session.cache.batchSet({ entries: entries() }))).toBeGreaterThanOrEqual(count)
  expect(await turnsOf(() => session.cache.batchGet({ keys }))).toBeGreaterThanOrEqual(count)
  const large = new Uint8Array(limits.cacheInlineBytes + 1)
  await session.cache.batchSet({ entries: entries({ value: large }) })
  expect(await turnsOf(() => session.cache.batchGet({ keys }))).toBeGreaterThanOrEqual(count)
  await session.cache.batchSet({ entries: entries({ ttlSeconds: 1 }) })
  environment.advance(1000)
  expect(await turnsOf(() => session.cache.stats())).toBeGreaterThan(0)
  expect(await session.cache.stats()).toMatchObject({ entryCount: 0 })
})

test('the cache yields to the event loop between changes in a loop', async () => {
  const session = await slowSession()
  const change = async (): Promise<void> => {
    for (let i = 0; i < 10 * limits.acknowledgementsPerTurn; i++)
      await session.cache.put({ key: 'a', value: '' })
  }
  expect(await turnsOf(change)).toBeGreaterThanOrEqual(10)
})

test('a loop of batches yields to the event loop as often as a loop of as many changes', async () => {
  const session = await slowSession()
  const operations = Array.from({ length: limits.acknowledgementsPerTurn }, (_, i) => ({
    write: { path: `/${i}`, content: '' },
  }))
  const change = async (): Promise<void> => {
    for (let i = 0; i < 10; i++) await session.files.batch(operations)
  }
  expect(await turnsOf(change)).toBeGreaterThanOrEqual(10)
})

test.each([
  ['memory', () => memoryStorage({ durable: true })],
  ['LevelDB', (directory: string) => levelStorage(directory, { durability: 'relaxed' })],
])(
  'a long scan of a store that answers at once yields to the event loop, on %s',
  async (_name, storageIn) => {
    const directory = await mkdtemp(join(tmpdir(), 'turns-'))
    const store = await storageIn(join(directory, 'store')).open()
    // The others keep the records so far apart that each one is a small read of its own.
    const gap = JSON.stringify('x'.repeat(levelLimits.gapBytes))
    const put = Array.from({ length: 3000 }, (_, i): [string, string] => [`k${1e6 + i}`, '{}'])
    await Promise.all(put.map((record) => store.commit({ put: [record, [`other${record[0]}`, gap]] })))
    const scan = async (): Promise<void> => {
      let found = 0
      for await (const page of scanAll({ store }, 'k')) found += page.length
      expect(found).toBe(put.length)
    }
    expect(await turnsOf(scan)).toBeGreaterThanOrEqual(3)
    await store.close()
    await rm(directory, { recursive: true })
  },
)

test.runIf(isLong)('a collection yields to the event loop between sessions', async () => {
  const storage = memoryStorage({ durable: true })
  const engine = await openEngine({ storage, environment: slowEnvironment() })
  const base = await engine.sessions.create()
  for (let i = 0; i < 480; i++) await base.fork()
  // Stores their snapshots, so that the next collection writes nothing.
  await engine.collect()
  let turns = 0
  let settling = 0
  let stage = ''
  const turn = (): void => {
    turns++
    if (stage !== 'mark') setImmediate(turn)
  }
  setImmediate(turn)
  await engine.collect({
    onProgress: (progress) => {
      stage = progress.stage
      if (stage === 'sessions') settling = turns
    },
  })
  const groups = 480 / 32
  expect(settling).toBeGreaterThanOrEqual(groups)
  // Marking visits each session once more before it reports progress.
  expect(turns - settling).toBeGreaterThanOrEqual(groups)
  await engine.close()
})

test.each([false, true])(
  'a collection yields to the event loop while it passes over sessions and sources (durable: %s)',
  async (durable) => {
    const engine = await openEngine({ storage: memoryStorage({ durable }), environment: slowEnvironment() })
    for (let i = 0; i < 480; i++) {
      await engine.sessions.create()
      if (durable) await engine.sources.create({ displayName: `${i}`, uploadedSnapshot: {} })
    }
    // Sessions are scanned before the first progress, and again after the last one.
    let turns = 0
    const reports: number[] = []
    let isOver = false
    const turn = (): void => {
      turns++
      if (!isOver) setImmediate(turn)
    }
    setImmediate(turn)
    await engine.collect({ onProgress: () => reports.push(turns) })
    isOver = true
    // In memory there is no progress to report.
    const [before = turns / 2] = reports
    expect(before).toBeGreaterThanOrEqual(480)
    expect(turns - before).toBeGreaterThanOrEqual(480)
    await engine.close()
  },
)

test('a fork takes turns with other work only while a collection runs', async () => {
  const engine = await openEngine({ storage: memoryStorage({ durable: true }) })
  const base = await engine.sessions.create()
  for (let i = 0; i < 500; i++) await base.fork()
  let turns = 0
  let isOver = false
  const turn = (): void => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  let forks = 0
  let isCollecting = true
  const collecting = engine.collect().finally(() => {
    isCollecting = false
  })
  while (isCollecting) {
    await base.fork()
    forks++
  }
  await collecting
  expect(forks).toBeGreaterThan(1)
  expect(forks).toBeLessThanOrEqual(turns + 1)
  const before = turns
  for (let i = 0; i < 100; i++) await base.fork()
  expect(turns - before).toBeLessThan(50)
  isOver = true
  await engine.close()
})

test('a sort yields to the event loop, and is stable', async () => {
  for (const length of [0, 1, limits.sortedAtOnce, limits.sortedAtOnce * 7 + 3]) {
    const items = Array.from({ length }, (_, index) => ({ key: (index * 7919) % 500, index }))
    const compare = (a: { key: number }, b: { key: number }): number => a.key - b.key
    let sorted: unknown
    const turns = await turnsOf(async () => {
      sorted = await sortedInSlices(items, compare, new TimeSlice(slowEnvironment()))
    })
    expect(sorted).toEqual(items.toSorted(compare))
    expect(turns).toBeGreaterThanOrEqual(Math.floor(length / limits.sortedAtOnce))
  }
})

test('a merge of a renamed directory yields to the event loop at each step of a path', async () => {
  const count = 300
  const engine = await openEngine({ environment: slowEnvironment() })
  const files = Object.fromEntries(Array.from({ length: count }, (_, i) => [`/src/${i}`, `${i}`]))
  const target = await engine.sessions.create({ files })
  const source = await target.fork()
  await source.fs.promises.rename('/src', '/lib')
  await target.files.write({ path: '/src/7', content: 'changed' })
  const turns = await turnsOf(async () => {
    expect(await target.merge(source, { dryRun: true })).toMatchObject({ conflicts: [] })
  })
  // The two paths of each file are visited by the diff, both searches for renames, and seven steps of the merge.
  expect(turns).toBeGreaterThanOrEqual(2 * count * 8)
})

test('recursive listings and globs of session.fs yield to the event loop, and show one state', async () => {
  const session = await slowSession()
  await session.files.batch(
    Array.from({ length: 6400 }, (_, i) => ({ write: { path: `/${i % 64}/${i}`, content: '' } })),
  )
  const { fs } = session
  const calls: (() => Promise<readonly unknown[]>)[] = [
    () => fs.promises.readdir('/', { recursive: true }),
    async () => all(await fs.promises.opendir('/', { recursive: true })),
    () => all(fs.promises.glob('**')),
    () => promisify(fs.readdir)('/', { recursive: true }),
  ]
  for (const call of calls) {
    const wanted = await call()
    expect(wanted.length).toBeGreaterThanOrEqual(6464)
    let found: Promise<readonly unknown[]> | undefined
    const turns = await turnsOf(async () => {
      found = call()
      // The second one comes after the listing has begun.
      fs.writeFileSync('/0/new', '')
      setImmediate(() => fs.writeFileSync('/63/new', ''))
      await found
    })
    const names = JSON.stringify(await found)
    expect(turns).toBeGreaterThanOrEqual(64)
    expect(names.includes('63/new')).toBe(false)
    fs.rmSync('/0/new')
    fs.rmSync('/63/new')
  }
})

test('recursive listings and globs read each directory of a large tree once', async () => {
  const count = 800
  let reads = 0
  const kept = memoryStorage({ durable: true, syncReads: false })
  const open = async (): ReturnType<Storage['open']> => {
    const store = await kept.open()
    const get = store.get.bind(store)
    return Object.assign(store, {
      get: (key: string) => {
        if (++reads > 2 * count) throw new Error('the same nodes were read over and over')
        return get(key)
      },
    })
  }
  const first = await openEngine({ storage: kept })
  const { id, files } = await first.sessions.create()
  const name = 'n'.repeat(200)
  await files.batch(
    Array.from({ length: count }, (_, i) => ({ write: { path: `/d${i}/${name}`, content: '' } })),
  )
  await first.close()
  const calls: ((fs: Session['fs']) => Promise<readonly unknown[]>)[] = [
    (fs) => fs.promises.readdir('/', { recursive: true }),
    async (fs) => all(await fs.promises.opendir('/', { recursive: true })),
    (fs) => all(fs.promises.glob(['*', '*/*'])),
  ]
  for (const call of calls) {
    // Half of this memory is for nodes, and the tree needs more.
    const engine = await openEngine({
      storage: { open },
      memoryBudgetBytes: limits.memoryBudgetMinBytes,
      environment: slowEnvironment(),
    })
    const { fs } = await engine.sessions.open(id)
    reads = 0
    expect((await call(fs)).length).toBe(2 * count)
    reads = 0
    await engine.close()
  }
})

test('a glob of several patterns shows one state', async () => {
  const { fs, files } = await slowSession()
  await files.batch(Array.from({ length: 64 }, (_, i) => ({ write: { path: `/${i}/a`, content: '' } })))
  const found = all(fs.promises.glob(['*/b', '*/a']))
  setImmediate(() => fs.writeFileSync('/0/b', ''))
  setImmediate(() => fs.renameSync('/63/a', '/63/b'))
  expect((await found).length).toBe(64)
})

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

test('the count of stored contents for a budget yields to the event loop', async () => {
  const storage = memoryStorage({ durable: true })
  const first = await openEngine({ storage })
  const session = await first.sessions.create()
  for (let i = 0; i < 800; i++) await session.files.write({ path: '/a', content: `${i}` })
  await first.close()
  const write = async (): Promise<void> => {
    const budgets = { storeBytes: 2 ** 30 }
    await using engine = await openEngine({ storage, environment: slowEnvironment(), budgets })
    await (await engine.sessions.open(session.id)).files.write({ path: '/a', content: 'new' })
  }
  // A record of the ledger has the contents of a few commits.
  expect(await turnsOf(write)).toBeGreaterThanOrEqual(800 / limits.blobsPerSharedRecord)
})

test('a repair yields to the event loop while it looks for sessions without a record', async () => {
  const from = await memoryStorage({ durable: true }).open()
  const to = await memoryStorage({ durable: true }).open()
  const repair = async (): Promise<void> => {
    const sessionsWithEvents = Array.from({ length: 480 }, (_, index) => `${index}`)
    const { dropped } = await repairStore(from, to, slowEnvironment(), { sessionsWithEvents })
    expect(dropped.length).toBe(480)
  }
  expect(await turnsOf(repair)).toBeGreaterThanOrEqual(480)
})

test('works in slices that run at the same time share the turns of the event loop', async () => {
  const environment = slowEnvironment()
  let turn = 0
  const turns: number[] = []
  function* steps(): Steps<void, undefined> {
    for (let step = 0; step < 10; step++) {
      yield
      turns.push(turn)
    }
  }
  const count = (): void => {
    turn++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  await Promise.all(Array.from({ length: 8 }, () => runInSlices(steps(), environment)))
  clearImmediate(counting)
  // Eight works in one turn would keep a small request waiting for eight slices.
  expect(turns).toHaveLength(80)
  expect(new Set(turns).size).toBeGreaterThanOrEqual(79)
})

test('a search for the lines of a file yields to the event loop within a block of short lines', async () => {
  const session = await slowSession()
  await session.files.write({ path: '/a', content: '\n'.repeat(mebibyte) })
  const lines = mebibyte / limits.linesPerLook
  const read = async (): Promise<void> => {
    const { totalLines } = await session.text.readLines({ path: '/a', startLine: mebibyte })
    expect(totalLines).toBe(mebibyte)
  }
  expect(await turnsOf(read)).toBeGreaterThanOrEqual(2 * lines - 2)
})

describe('comparisons of long texts yield to the event loop', () => {
  const lines = 10 * limits.linesPerLook
  const text = (kinds: number): string =>
    Array.from({ length: lines }, (_, line) => `${(line * 7919) % kinds}\n`).join('')

  async function changed(): Promise<Session> {
    const session = await slowSession()
    await session.files.write({ path: '/a', content: text(1009) })
    await session.files.write({ path: '/a', content: text(1013) })
    return session
  }

  test.each<[string, number, (session: Session) => Promise<unknown>]>([
    // The lines of both texts are cut, numbered, compared and written.
    ['a diff with hunks', 40, (session) => readAll(session.diff('base').files({ hunks: true }))],
    ['a blame', 60, (session) => session.blame({ path: '/a' })],
  ])('%s', async (_case, turns, compare) => {
    const session = await changed()
    const before = await session.fork()
    await before.files.write({ path: '/a', content: text(997) })
    expect(await turnsOf(() => compare(before))).toBeGreaterThanOrEqual(turns)
  })
})

async function readAll(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}
