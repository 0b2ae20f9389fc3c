/** Batches and patches of so many steps that they are planned in several turns of the event loop. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { StagedBlobs } from '../../src/engine/cas/staging.js'
import { linkKey } from '../../src/engine/tree/node.js'
import { endsPage } from '../../src/engine/tree/page.js'
import {
  limits,
  memoryStorage,
  openEngine,
  SegmentConflictPolicy,
  type BatchOperation,
  type Engine,
  type EngineOptions,
  type SegmentChunk,
  type Session,
  type Storage,
} from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'
import { lowerBound } from '../support/lower-bound.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { seed } from '../support/seed.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { allStorages } from '../support/storages.js'
import { turnsOf } from '../support/turns.js'

/** Steps that are planned in one turn at most. Fewer than usual, so that the batches of the tests are small. */
const stepsPerTurn = 100
const many = stepsPerTurn + 1

beforeEach(() => {
  lowerBound(limits, 'stepsPerTurn', stepsPerTurn)
})

/** Writes of small files in ten directories. */
function writes(count: number, content = ''): BatchOperation[] {
  return Array.from({ length: count }, (_, i) => ({
    write: { path: `/d${i % 10}/f${i}`, content: `${content}${i}` },
  }))
}

/** A unified patch that creates files. */
function creations(count: number, directory: string): string {
  return Array.from(
    { length: count },
    (_, i) => `--- /dev/null\n+++ b/${directory}/${i}\n@@ -0,0 +1 @@\n+line ${i}\n`,
  ).join('')
}

/** The files with their contents, and the directories. */
async function filesOf({ fs }: Pick<Session, 'fs'>): Promise<string[]> {
  const found: string[] = []
  for (const entry of await fs.promises.readdir('/', { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    found.push(entry.isFile() ? `${path} ${await fs.promises.readFile(path, 'utf8')}` : path)
  }
  return found
}

async function eventCount(session: Session): Promise<number> {
  return (await session.events.verify()).eventCount
}

describe.each(allStorages)('large batches on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  async function open(options: EngineOptions = {}): Promise<void> {
    engine = await openEngine({ storage, ...options })
  }

  async function reopen(): Promise<void> {
    await engine.close()
    await open()
    session = await engine.sessions.open(session.id)
  }

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'large-batches-'))
    storage = makeStorage(directory)
    await open()
    session = await engine.sessions.create()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  test('a batch of 10,000 files takes many turns and is one event', async () => {
    const before = await eventCount(session)
    const turns = await turnsOf(() => session.files.batch(writes(10_000)))
    expect(turns).toBeGreaterThan(3)
    expect(await filesOf(session)).toHaveLength(10_010)
    expect(await eventCount(session)).toBe(before + 1)
  })

  test('many chunks of one file take many turns, also when they rewrite its blocks', async () => {
    const content = Buffer.alloc(20 * limits.blockBytes, '.')
    await session.files.write({ path: '/large', content })
    const before = await eventCount(session)
    const segments = Array.from({ length: 20_000 }, (_, i) => {
      const offset = (i * 7919) % content.length
      content[offset] = i % 256
      return { data: { offset, content: Uint8Array.of(i % 256) } }
    })
    const turns = await turnsOf(() =>
      session.files.patchSegments({ mutations: [{ path: '/large', segments }] }),
    )
    expect(turns).toBeGreaterThan(3)
    if (lasting) await reopen()
    expect(Buffer.compare(await session.fs.promises.readFile('/large'), content)).toBe(0)
    expect(await eventCount(session)).toBe(before + 1)
    const { extents } = await session.files.getCasExtents({ path: '/large' })
    expect(extents.length).toBeLessThanOrEqual(20)
  })

  test('many files without chunks take many turns', async () => {
    const mutations = Array.from({ length: 10_000 }, (_, i) => ({
      path: `/d${i % 10}/f${i}`,
      segments: [],
      logicalSize: i,
    }))
    expect(await turnsOf(() => session.files.patchSegments({ mutations }))).toBeGreaterThan(3)
    expect((await session.fs.promises.stat('/d9/f9999')).size).toBe(9999)
  })

  test('chunks of one file that are written twice in a batch take effect in order', async () => {
    const content = Buffer.alloc(20 * limits.blockBytes, '.')
    await session.files.write({ path: '/large', content })
    const chunks = (shift: number): SegmentChunk[] =>
      Array.from({ length: 10_000 }, (_, i) => {
        const offset = ((i + shift) * 523) % content.length
        content[offset] = (i + shift) % 256
        return { data: { offset, content: Uint8Array.of((i + shift) % 256) } }
      })
    await session.files.batch([
      { segmentWrite: { path: '/large', segments: chunks(0) } },
      { segmentWrite: { path: '/large', segments: chunks(7) } },
    ])
    expect(Buffer.compare(await session.fs.promises.readFile('/large'), content)).toBe(0)
  })

  test('readers see none of its changes, and then all of them', async () => {
    let isDone = false
    const batch = session.files.batch(writes(20 * many)).finally(() => (isDone = true))
    const seen = new Set<number>()
    while (!isDone) {
      const { size } = await session.fs.promises.stat('/')
      const names = await session.fs.promises.readdir('/')
      expect(size).toBeGreaterThanOrEqual(0)
      seen.add(names.length)
      await new Promise(setImmediate)
    }
    await batch
    expect([...seen].every((count) => count === 0 || count === 10)).toBe(true)
  })

  test('later changes take effect after it', async () => {
    const batch = session.files.batch(writes(many, 'batch '))
    const write = session.files.write({ path: '/d0/f0', content: 'later' })
    const renamed = session.files.rename({ sourcePath: '/d1', destinationPath: '/moved' })
    const fork = session.fork()
    await Promise.all([batch, write, renamed])
    expect(await session.fs.promises.readFile('/d0/f0', 'utf8')).toBe('later')
    expect(await (await fork).fs.promises.readFile('/moved/f1', 'utf8')).toBe('batch 1')
  })

  test('a dry run that is called later sees its changes', async () => {
    const batch = session.files.batch([...writes(many), { write: { path: '/x/0', content: '' } }])
    const dryRun = session.text.applyPatch({ patch: creations(1, 'x'), dryRun: true })
    await expect(dryRun).rejects.toMatchObject({ reason: 'ALREADY_EXISTS' })
    await batch
  })

  test('a synchronous change is refused while it waits', async () => {
    const batch = session.files.batch(writes(many))
    expect(() => session.fs.writeFileSync('/a', 'a')).toThrow(expect.objectContaining({ code: 'EAGAIN' }))
    await batch
    session.fs.writeFileSync('/a', 'a')
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a')
  })

  test('a failed step changes nothing', async () => {
    await session.files.batch([{ write: { path: '/kept', content: 'kept' } }])
    const [before, events] = [await filesOf(session), await eventCount(session)]
    const steps = [
      ...writes(many),
      { delete: { path: '/kept' } },
      { write: { path: '/d0/f0/below', content: '' } },
    ]
    await expect(session.files.batch(steps)).rejects.toMatchObject({ reason: 'NOT_A_DIRECTORY' })
    expect(await filesOf(session)).toEqual(before)
    expect(await eventCount(session)).toBe(events)
    await session.files.batch(writes(many))
    expect(await filesOf(session)).toHaveLength(before.length + many + 10)
  })

  test('it has the same result as its steps in small batches', async () => {
    let state = seed
    const random = (below: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
      return (state >>> 8) % below
    }
    const present = new Set<string>()
    const steps = Array.from({ length: 3 * many }, (_, i): BatchOperation => {
      const path = `/r${random(7)}/${random(40)}`
      const kind = present.has(path) ? random(4) : 0
      if (kind === 3) {
        present.delete(path)
        return { delete: { path } }
      }
      present.add(path)
      if (kind === 2)
        return { segmentWrite: { path, segments: [{ data: { offset: random(9), content: `s${i}` } }] } }
      return { write: { path, content: `w${i}`, ...(kind === 1 && { mode: 0o600 }) } }
    })
    const small = await session.fork()
    await session.files.batch(steps)
    for (let from = 0; from < steps.length; from += 500)
      await small.files.batch(steps.slice(from, from + 500))
    expect(await filesOf(session)).toEqual(await filesOf(small))
  })

  test('skipped mutations change nothing, and the others are applied', async () => {
    await session.files.batch(writes(10))
    const mutations = Array.from({ length: many }, (_, i) => ({
      path: `/d${i % 10}/f${i}`,
      segments: [{ data: { offset: 0, content: 'new' } }],
      ...(i < 10 && i % 2 === 0 && { expectedHash: `sha256:${'0'.repeat(64)}` }),
    }))
    const policy = { conflictPolicy: SegmentConflictPolicy.SKIP_ON_CONFLICT }
    const { skippedPaths } = await session.files.patchSegments({ mutations, ...policy })
    expect(skippedPaths).toEqual(['/d0/f0', '/d2/f2', '/d4/f4', '/d6/f6', '/d8/f8'])
    expect(await session.fs.promises.readFile('/d0/f0', 'utf8')).toBe('0')
    expect(await session.fs.promises.readFile('/d1/f1', 'utf8')).toBe('new')
    await expect(session.files.patchSegments({ mutations })).rejects.toMatchObject({
      reason: 'HASH_MISMATCH',
    })
  })

  test('content of the base that several files borrow is stored', async () => {
    await session.files.write({ path: '/source', content: 'borrowed content' })
    const hash = await session.files.contentHash('/source')
    const borrowed = { offset: 0, length: 8, hash }
    const steps = Array.from({ length: many }, (_, i) => ({
      segmentWrite: { path: `/b${i}`, segments: [{ borrowed }] },
    }))
    await session.files.batch([...steps, { delete: { path: '/source' } }])
    expect(await session.fs.promises.readFile(`/b${many - 1}`, 'utf8')).toBe('borrowed')
  })

  test('a patch of many files is one event, and its dry run changes nothing', async () => {
    const patch = creations(many, 'p')
    const events = await eventCount(session)
    const planned = await session.text.applyPatch({ patch, dryRun: true })
    expect(await filesOf(session)).toEqual([])
    const { files } = await session.text.applyPatch({ patch })
    expect(files).toEqual(planned.files)
    expect(files).toHaveLength(many)
    expect(await eventCount(session)).toBe(events + 1)
    expect(await session.fs.promises.readFile(`/p/${many - 1}`, 'utf8')).toBe(`line ${many - 1}\n`)
    await expect(session.text.applyPatch({ patch, dryRun: true })).rejects.toMatchObject({
      reason: 'ALREADY_EXISTS',
    })
  })

  test('a batch without changes adds no event', async () => {
    const mutations = Array.from({ length: many }, () => ({ path: '/a', segments: [], logicalSize: 1 }))
    await session.files.patchSegments({ mutations })
    const events = await eventCount(session)
    await session.files.patchSegments({ mutations })
    expect(await eventCount(session)).toBe(events)
  })

  test('an open file keeps its content when the batch deletes it', async () => {
    await session.files.write({ path: '/open', content: 'before' })
    await using file = await session.fs.promises.open('/open')
    await session.files.batch([...writes(many), { delete: { path: '/open' } }])
    expect(await file.readFile('utf8')).toBe('before')
    await expect(session.fs.promises.stat('/open')).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('large contents are stored before it', async () => {
    const content = Buffer.alloc(limits.importCommitBytes + 1, 'x')
    await session.files.batch([...writes(many), { write: { path: '/large', content } }])
    expect((await session.files.stat({ path: '/large' })).sizeBytes).toBe(content.length)
  })

  test('it is refused when the session is deleted before it ends', async () => {
    const outcomes = Promise.allSettled([session.files.batch(writes(20 * many)), session.delete()])
    const [batch, deletion] = await outcomes
    expect(deletion.status).toBe('fulfilled')
    expect(batch).toSatisfy(
      ({ status, reason }: PromiseRejectedResult) =>
        (status as string) === 'fulfilled' || (reason as { reason: string }).reason === 'SESSION_NOT_FOUND',
    )
    await expect(engine.sessions.open(session.id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  })

  test('closing the engine does not wait forever', async () => {
    const batch = session.files.batch(writes(20 * many)).then(
      () => 'stored',
      (error: unknown) => (error as { reason: string }).reason,
    )
    await engine.close()
    expect(['stored', 'ENGINE_CLOSED']).toContain(await batch)
  })

  test.runIf(lasting)('it is there after the store is opened again', async () => {
    await session.files.batch(writes(many, 'x'))
    const files = await filesOf(session)
    await session.files.batch([
      ...writes(many, 'y').slice(1),
      { delete: { path: '/d0/f0' } },
      ...writes(1, 'z'),
    ])
    const after = await filesOf(session)
    expect(after).not.toEqual(files)
    const { lastEventId } = await session.events.verify()
    await session.files.batch(writes(many, 'x'))
    await reopen()
    expect(await filesOf(session)).toEqual(files)
    expect(await filesOf(await session.at({ eventId: lastEventId }))).toEqual(after)
    await session.undo()
    expect(await filesOf(session)).toEqual(after)
  })

  test('a byte budget refuses it as a whole', async () => {
    await engine.close()
    await open({ budgets: { sessionBytes: 1000 } })
    session = await engine.sessions.create()
    await expect(session.files.batch(writes(many, 'ten bytes '))).rejects.toMatchObject({ reason: 'BUDGET' })
    expect(await filesOf(session)).toEqual([])
    await session.files.batch(writes(many))
    expect(await filesOf(session)).toHaveLength(many + 10)
  })

  test('a collection during the batch keeps its contents', async () => {
    await session.files.batch(writes(2 * many, 'old '))
    const batch = session.files.batch([...writes(2 * many, 'new '), { delete: { path: '/d0/f0' } }])
    for (let i = 0; i < 3; i++) await engine.collect()
    await batch
    await engine.collect()
    for (const i of [1, many, 2 * many - 1])
      expect(await session.fs.promises.readFile(`/d${i % 10}/f${i}`, 'utf8')).toBe(`new ${i}`)
  })
})

test('a step that must load a node halfway is carried out once', async () => {
  const storage = memoryStorage({ durable: true, syncReads: false })
  const first = await openEngine({ storage, environment: fixedEnvironment({ seed: 5 }) })
  const created = await first.sessions.create({
    files: Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`/a${i}`, ''])),
  })
  const { promises } = created.fs
  const ends: number[] = []
  for (let i = 0; i < 600; i++) {
    await promises.link(`/a${i}`, `/b${i}`)
    if (endsPage(linkKey((await promises.stat(`/a${i}`)).ino))) ends.push(i)
  }
  expect(ends).not.toEqual([])
  await first.close()
  const engine = await openEngine({ storage })
  const session = await engine.sessions.open(created.id)
  // The end of the last name of such a file joins two pages of links. The second one is not loaded before.
  const deletions = ends.flatMap((i) => [`/a${i}`, `/b${i}`]).map((path) => ({ delete: { path } }))
  await session.files.batch([...deletions, ...writes(many)])
  const names = await session.fs.promises.readdir('/')
  expect(names).toHaveLength(2 * 600 + 10 - deletions.length)
  await engine.close()
})

test('it ends early after an earlier write has failed', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }))
  // Each step takes a turn of the event loop, so the write fails before the last one.
  const environment = fixedEnvironment({ stepMs: limits.sliceMs })
  const engine = await openEngine({ storage, environment })
  const session = await engine.sessions.create()
  storage.next = 'fail'
  const [write, batch] = await Promise.allSettled([
    session.files.write({ path: '/a', content: '' }),
    session.files.batch([...writes(many), { delete: { path: '/none' } }]),
  ])
  expect([write, batch]).toMatchObject([
    { reason: { reason: 'STORE_FAILED' } },
    { reason: { reason: 'STORE_FAILED', details: { outcome: 'not-applied' } } },
  ])
  await engine.close().catch(() => undefined)
})

test('a sync of many files from a checkout takes many turns', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'large-batches-'))
  const engine = await openEngine({ hostPaths: { roots: [directory] } })
  const session = await engine.sessions.create({ files: { '/a': 'a' } })
  const target = join(directory, 'work')
  const checkout = await session.checkout(target)
  await mkdir(join(target, 'new'))
  for (let i = 0; i < 3 * many; i++) await writeFile(join(target, 'new', String(i)), String(i))
  const events = await eventCount(session)
  expect((await checkout.sync()).added).toHaveLength(3 * many + 1)
  expect(await eventCount(session)).toBe(events + 1)
  expect(await session.fs.promises.readFile(`/new/${many}`, 'utf8')).toBe(String(many))
  await engine.close()
  await rm(directory, { recursive: true, force: true })
})

describe.skipIf(!hasPostgres)('large batches of two engines on one schema', () => {
  test('a batch is planned again on the change of another engine', async () => {
    const { connectionString } = await sharedPostgres()
    const schema = freshSchema()
    const storage = (): SteppedStorage =>
      new SteppedStorage(postgresStorage({ connectionString, schema, shared: true, freshnessMillis: 1 }))
    const engines = [
      await openEngine({ storage: storage() }),
      await openEngine({ storage: storage() }),
    ] as const
    const a = await engines[0].sessions.create({ files: { '/d0/f0': 'start', '/shared': 'start' } })
    const b = await engines[1].sessions.open(a.id)
    const guarded: BatchOperation = {
      segmentWrite: { path: '/shared', segments: [{ data: { offset: 0, content: 'batch' } }] },
    }
    const batch = a.files.batch([...writes(2 * many, 'batch '), guarded])
    for (let i = 0; i < 5; i++) await b.files.write({ path: `/b${i}`, content: `b${i}` })
    await b.files.append({ path: '/shared', content: ' and more' })
    await batch
    const more = b.files.batch([...writes(many, 'b '), { delete: { path: `/d0/f${2 * many - 2}` } }])
    await a.files.write({ path: '/a', content: 'a' })
    await more
    for (const session of [await engines[0].sessions.open(a.id), b]) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      expect(await session.fs.promises.readFile('/shared', 'utf8')).toBe('batch and more')
      expect(await session.fs.promises.readFile('/b4', 'utf8')).toBe('b4')
      expect(await session.fs.promises.readFile('/d0/f0', 'utf8')).toBe('b 0')
      expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('a')
    }
    expect(await filesOf(b)).toEqual(await filesOf(a))
    for (const engine of engines) await engine.close()
  })
})

test('blocks with many extents are rewritten in turns, although their list leaves memory meanwhile', async () => {
  const blocks = 60
  const perBlock = 100
  lowerBound(limits, 'extentsPerBlock', perBlock)
  lowerBound(limits, 'sliceMs', 0)
  const content = new Uint8Array([1])
  const bytesAt = (at: number): SegmentChunk[] =>
    Array.from({ length: blocks }, (_, i) => ({ data: { offset: i * limits.blockBytes + at, content } }))
  const storage = memoryStorage({ durable: true })
  const engine = await openEngine({ storage })
  const { id, files } = await engine.sessions.create()
  const segments = Array.from({ length: perBlock }, (_, i) => bytesAt(i * 100)).flat()
  await files.patchSegments({ mutations: [{ path: '/f', segments }] })
  await engine.collect()
  await engine.close()

  const reopened = await openEngine({ storage, memoryBudgetBytes: 2 ** 20 })
  const session = await reopened.sessions.open(id)
  const { calls } = vi.spyOn(StagedBlobs.prototype, 'merged').mock
  let [most, before] = [0, 0]
  const look = (): void => {
    most = Math.max(most, calls.length - before)
    before = calls.length
  }
  let timer = setImmediate(function next() {
    look()
    timer = setImmediate(next)
  })
  await session.files.patchSegments({ mutations: [{ path: '/f', segments: bytesAt(50) }] })
  clearImmediate(timer)
  look()
  vi.restoreAllMocks()
  expect(most).toBeGreaterThan(0)
  expect(most).toBeLessThan(blocks / 2)
  await reopened.close()
})
