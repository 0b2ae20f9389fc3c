/** Collections of a schema that other engines use meanwhile. */
import { createHash } from 'node:crypto'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import { present } from '../../src/engine/base/present.js'
import { keys } from '../../src/engine/ports.js'
import { Residency } from '../../src/engine/session/table/residency.js'
import { openEngine, type Engine, type EngineOptions, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { isComplete, isLong, runs, seed } from '../support/seed.js'
import { SteppedStorage, type Held } from '../support/stepped-storage.js'

describe.skipIf(!hasPostgres)('a collection beside other engines', () => {
  const open: Engine[] = []
  const holds: Held[] = []
  afterEach(async () => {
    // After a failure, a call may still wait.
    for (const held of holds.splice(0)) held.release()
    for (const engine of open.splice(0)) await engine.close()
  })

  async function storageOn(
    schema: string,
    options: Partial<PostgresStorageOptions> = {},
  ): Promise<SteppedStorage> {
    const { connectionString } = await sharedPostgres()
    return new SteppedStorage(
      postgresStorage({ connectionString, schema, shared: true, freshnessMillis: 1, ...options }),
    )
  }

  async function engineOn(storage: SteppedStorage, options: EngineOptions = {}): Promise<Engine> {
    const engine = await openEngine({ ...options, storage })
    open.push(engine)
    return engine
  }

  const write = (session: Session, path: string, content: string): Promise<void> =>
    session.fs.promises.writeFile(path, content)
  const read = (session: Session, path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

  test('deletes garbage of both engines, and nothing that either of them uses', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const kept = await a.sessions.create({ files: { '/kept': 'kept', '/deep/er/file': 'deep' } })
    const gone = await b.sessions.create({ files: { '/gone': 'gone' } })
    const ofB = await b.sessions.open(kept.id)
    await write(ofB, '/b', 'from b')
    await gone.delete()
    expect(await a.collect()).toMatchObject({ deletedSessions: 1, deletedBlobs: 1 })
    expect(await read(ofB, '/deep/er/file')).toBe('deep')
    await write(ofB, '/b', 'again')
    expect(await read(kept, '/b')).toBe('again')
    expect(await b.check({ readData: true })).toMatchObject({ found: 0 })
    const server = await sharedPostgres()
    expect(await server.sql(`SELECT owner, stage FROM ${schema}.collections`)).toEqual([
      { owner: null, stage: 'none' },
    ])
  })

  test('of two engines at the same moment runs in one of them only', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const [a, b] = [await engineOn(steps), await engineOn(await storageOn(schema))]
    const held = steps.hold('listBlobs', () => true)
    holds.push(held)
    const collected = a.collect()
    await held.reached
    await expect(b.collect()).rejects.toMatchObject({ reason: 'STORE_LOCKED' })
    held.release()
    await collected
    await expect(b.collect()).resolves.toMatchObject({ deletedSessions: 0 })
  })

  /** The moments of a collection of the first engine at which a test may hold it. */
  const moments = {
    'while it reads records': (steps: SteppedStorage) =>
      steps.hold('scan', ({ gte, reverse }) => gte === 'C' && reverse === true),
    'before it deletes nodes': (steps: SteppedStorage) => steps.hold('scan', ({ gte }) => gte === 'n'),
    'before it deletes contents': (steps: SteppedStorage) => steps.hold('listBlobs', () => true),
    'before it returns space': (steps: SteppedStorage) => steps.hold('reclaim', () => true),
  } as const
  /** `npm test` holds it at the first one. */
  const heldMoments = Object.entries(moments).slice(0, isLong ? undefined : 1)

  test.each(heldMoments)(
    'keeps a tree that moves from record to record through another engine %s',
    async (_, hold) => {
      const schema = freshSchema()
      const steps = await storageOn(schema)
      const [a, b, c] = [
        await engineOn(steps),
        await engineOn(await storageOn(schema)),
        await engineOn(await storageOn(schema)),
      ]
      const parent = await b.sessions.create({
        files: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`/d${i}/f`, `content ${i}`])),
      })
      await parent.checkpoint({ checkpointLabel: 'early' })
      await write(parent, '/d0/f', 'later')
      const doomed = await c.sessions.open(parent.id).then((one) => one.fork({ checkpointLabel: 'early' }))
      const held = hold(steps)
      holds.push(held)
      const collected = a.collect()
      await held.reached
      // Each engine takes the tree from a record, stores another one, and deletes the first.
      const second = await (await b.sessions.open(doomed.id)).fork()
      await doomed.delete()
      const third = await (await c.sessions.open(second.id)).fork()
      await second.delete()
      await (await b.sessions.open(parent.id)).deleteCheckpoint({ checkpointLabel: 'early' })
      await (await c.sessions.open(parent.id)).delete()
      held.release()
      await collected
      await b.collect()
      for (const engine of [a, b, c]) {
        const session = await engine.sessions.open(third.id)
        for (let i = 0; i < 50; i++) expect(await read(session, `/d${i}/f`)).toBe(`content ${i}`)
      }
      expect(await a.check({ readData: true })).toMatchObject({ found: 0 })
    },
  )

  test.each(heldMoments)(
    'keeps the state that an aborted merge, an undo and a restore of another engine lead to %s',
    async (_, hold) => {
      const schema = freshSchema()
      const steps = await storageOn(schema)
      const [a, b] = [await engineOn(steps), await engineOn(await storageOn(schema))]
      const base = await b.sessions.create({ files: { '/a': 'base', '/b/c': 'base' } })
      const [target, source] = [await base.fork(), await base.fork()]
      await write(target, '/a', 'target')
      await write(source, '/a', 'source')
      const merged = await target.merge(source, {})
      expect(merged.conflicts).toHaveLength(1)
      const undone = await base.fork()
      for (const text of ['one', 'two', 'three']) {
        await write(undone, '/a', text)
        if (text !== 'two') await undone.checkpoint({ checkpointLabel: text })
      }
      await base.delete()
      await source.delete()
      const held = hold(steps)
      holds.push(held)
      const collected = a.collect()
      await held.reached
      await target.conflicts.abort()
      await undone.undo({ count: 2 })
      const restored = await undone.fork({ checkpointLabel: 'three' })
      await undone.deleteCheckpoint({ checkpointLabel: 'three' })
      held.release()
      await collected
      await a.collect()
      for (const engine of [a, b])
        for (const [{ id }, text] of [
          [target, 'target'],
          [undone, 'one'],
          [restored, 'three'],
        ] as const) {
          const session = await engine.sessions.open(id)
          expect(await read(session, '/a')).toBe(text)
          expect(await read(session, '/b/c')).toBe('base')
        }
      // The base of the merge is still known, although its session is gone.
      await write(restored, '/a', 'base')
      await write(restored, '/b/c', 'restored')
      expect((await target.merge(restored, {})).merged).toBe(true)
      expect(await b.check({ readData: true })).toMatchObject({ found: 0 })
    },
  )

  test('keeps a state that only a view of another engine reads, until the view ends', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const names = Array.from({ length: 30 }, (_, i) => `/d${i}/e/f`)
    // The base of the session must not have the files.
    const session = await a.sessions.create()
    for (const path of names)
      await session.files.write({ path, content: `content of ${path}`, createParents: true })
    await session.checkpoint({ checkpointLabel: 'early' })
    await session.fs.promises.rm('/d0', { recursive: true })
    // It stores the state of the checkpoint as nodes.
    await a.collect()
    // The other engine has read only the root of that state.
    const view = await b.sessions.open(session.id).then((one) => one.at({ checkpointLabel: 'early' }))
    for (let i = 1; i < 30; i++) await session.fs.promises.rm(`/d${i}`, { recursive: true })
    await session.deleteCheckpoint({ checkpointLabel: 'early' })
    await a.collect()
    for (const path of names) {
      expect(Buffer.from(await view.files.read({ path })).toString()).toBe(`content of ${path}`)
    }
    view[Symbol.dispose]()
    await b.close()
    expect((await a.collect()).deletedBlobs).toBeGreaterThanOrEqual(30)
  })

  test.each(['', ', although they could not be published at first'])(
    'learns what other engines commit while it reads the records%s',
    async (how) => {
      const schema = freshSchema()
      const [steps, ofB] = [await storageOn(schema), await storageOn(schema)]
      const [a, b] = [await engineOn(steps), await engineOn(ofB)]
      const base = await b.sessions.create({ files: { '/a': 'a' } })
      const held = steps.hold('scan', ({ gte, reverse }) => gte === 'C' && reverse === true)
      holds.push(held)
      const collected = a.collect()
      await held.reached
      const server = await sharedPostgres()
      const pins = async (): Promise<string> => {
        const rows = await server.sql(`SELECT convert_from(body, 'UTF8') AS body FROM ${schema}.pins`)
        return rows.map(({ body }) => String(body)).join()
      }
      const before = await pins()
      if (how !== '')
        vi.spyOn(present(ofB.store.shared, 'a shared store'), 'publish').mockResolvedValueOnce(false)
      const fork = await base.fork()
      await write(fork, '/b', 'noted content')
      const rows = await server.sql(
        `SELECT convert_from(value, 'UTF8') AS value FROM ${schema}.records WHERE convert_from(key, 'UTF8') LIKE 's%${fork.id}'`,
      )
      const address = /"([0-9a-f]{40})"/.exec(String(rows[0]?.['value']))?.[1] ?? 'no address'
      expect(before).not.toContain(address)
      await expect.poll(pins).toContain(address)
      await expect.poll(pins).toContain(createHash('sha256').update('noted content').digest('hex'))
      held.release()
      await collected
    },
  )

  test('keeps the pieces of a stream that another engine stores', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const session = await b.sessions.create()
    const piece = (i: number): Buffer => Buffer.alloc(3 * 2 ** 20, `piece ${i} `)
    async function* content(): AsyncGenerator<Uint8Array> {
      for (let i = 0; i < 4; i++) {
        yield piece(i)
        await a.collect()
      }
    }
    await session.files.write({ path: '/file', content: content() })
    const read = await session.files.read({ path: '/file' })
    expect(Buffer.compare(read, Buffer.concat([0, 1, 2, 3].map(piece)))).toBe(0)
  })

  test.each([
    ['continues', 'is closed', 1],
    ['begins again', 'loses its lease', 2],
  ])('%s if an engine %s before it has published its notes', async (_, end, tries) => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const ofB = await storageOn(schema)
    const [a, b] = [await engineOn(steps), await engineOn(ofB)]
    const parent = await b.sessions.create({ files: { '/a': 'a' } })
    const held = steps.hold('scan', ({ gte, reverse }) => gte === 'C' && reverse === true)
    holds.push(held)
    const stages: string[] = []
    const collected = a.collect({ onProgress: ({ stage }) => stages.push(stage) })
    await held.reached
    const fork = await parent.fork()
    await parent.delete()
    const server = await sharedPostgres()
    if (end === 'is closed') await b.close()
    else
      await server.sql(
        `UPDATE ${schema}.leases SET expires_at = clock_timestamp() WHERE name = 'engine:${ofB.store.shared?.engineId}'`,
      )
    held.release()
    await collected
    expect(stages.join().split(/(?<=mark),(?=sessions)/)).toHaveLength(tries)
    expect(await read(await a.sessions.open(fork.id), '/a')).toBe('a')
    expect(await a.check({ readData: true })).toMatchObject({ found: 0 })
  })

  test('takes a deleted session from the memory of an engine that has not looked for changes since', async () => {
    const schema = freshSchema()
    const a = await engineOn(await storageOn(schema))
    const b = await engineOn(await storageOn(schema, { freshnessMillis: 60_000 }))
    const session = await a.sessions.create({ files: { '/a': 'a' } })
    const ofB = await b.sessions.open(session.id)
    expect(await read(ofB, '/a')).toBe('a')
    await session.delete()
    // It is allowed to see an old state.
    expect(await read(ofB, '/a')).toBe('a')
    expect(await a.collect()).toMatchObject({ deletedSessions: 1 })
    await expect(ofB.fork()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    expect(await b.check({ readData: true })).toMatchObject({ found: 0 })
  })

  test.runIf(isLong)('keeps the contents that a long import of another engine stores', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const { sourceId } = await b.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    // So many bytes that the import stores some before its end.
    const contentOf = (i: number): string => `content ${i} `.repeat(4000)
    const memory = await openEngine()
    const archive = await memory.sessions.create({
      files: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`/d${i % 9}/f${i}`, contentOf(i)])),
    })
    const parts: Uint8Array[] = []
    for await (const part of archive.exportTar()) parts.push(part)
    await memory.close()
    const bytes = Buffer.concat(parts)
    let proceed = (): void => undefined
    const isHalf = new Promise<void>((resolve) => (proceed = resolve))
    const content = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, bytes.length / 2)
      await isHalf
      yield bytes.subarray(bytes.length / 2)
    }
    const job = await b.sources.startImport(sourceId, { uploadedSnapshot: { content: content() } })
    await a.collect()
    const server = await sharedPostgres()
    const stored = (): Promise<unknown[]> => server.sql(`SELECT hash FROM ${schema}.blobs`)
    await expect.poll(stored).not.toEqual([])
    await b.collect()
    await a.collect()
    expect(await stored()).not.toEqual([])
    proceed()
    await a.sources.waitForJob(job)
    const session = await a.sessions.create({ sourceRef: { sourceId } })
    for (let i = 0; i < 300; i++) expect(await read(session, `/d${i % 9}/f${i}`)).toBe(contentOf(i))
    expect(await a.check({ readData: true })).toMatchObject({ found: 0 })
  })

  test('keeps the history that a bundle of another engine exports, even of a deleted session', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const session = await b.sessions.create({ files: { '/a': '0' } })
    for (let i = 1; i < 20; i++) {
      await write(session, '/a', String(i))
      if (i % 5 === 0) await session.checkpoint({ checkpointLabel: `c${i}` })
    }
    const bundle = session.exportBundle()
    const iterator = bundle[Symbol.asyncIterator]()
    const first = await iterator.next()
    await session.delete()
    await a.collect()
    const parts = [first.value as Uint8Array]
    for (let step = await iterator.next(); step.done !== true; step = await iterator.next())
      parts.push(step.value)
    const imported = await a.sessions.importBundle(Buffer.concat(parts))
    expect(await read(imported, '/a')).toBe('19')
    await imported.restore({ checkpointLabel: 'c10' })
    expect(await read(imported, '/a')).toBe('10')
    expect(await a.collect()).toMatchObject({ deletedSessions: 1 })
  })

  test('waits for a read of history by another engine before it deletes the history', async () => {
    const schema = freshSchema()
    const [steps, other] = [await storageOn(schema), await storageOn(schema)]
    const [a, b] = [await engineOn(steps), await engineOn(other)]
    const session = await a.sessions.create({ files: { '/a': '0' } })
    const fork = await session.fork()
    for (let i = 1; i < 20; i++) await write(session, '/a', String(i))
    await session.delete()
    // It opens the fork, and has read neither its snapshots nor its parent.
    const held = other.hold('events', (sessionId) => sessionId === fork.id)
    holds.push(held)
    const opened = b.sessions.open(fork.id).then((one) => read(one, '/a'))
    await held.reached
    let isOver = false
    const collected = a.collect().finally(() => (isOver = true))
    const server = await sharedPostgres()
    await expect
      .poll(() => server.sql(`SELECT stage FROM ${schema}.collections`))
      .toEqual([{ stage: 'history' }])
    expect(isOver).toBe(false)
    held.release()
    expect(await opened).toBe('0')
    expect(await collected).toMatchObject({ deletedSessions: 1 })
  })

  test('removes the redo of a state that another engine returns to, and a third one follows', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const [a, c] = [await engineOn(steps), await engineOn(await storageOn(schema))]
    const b = await engineOn(await storageOn(schema, { freshnessMillis: 60_000 }))
    const session = await c.sessions.create({ files: { '/a': '0' } })
    for (let i = 1; i < 8; i++) await write(session, '/a', String(i))
    const ofB = await b.sessions.open(session.id)
    expect(await read(ofB, '/a')).toBe('7')
    // All engines have answered, and the engine knows which redo it removes.
    const removing = steps.hold('commit', ({ replaceEvents }) => replaceEvents !== undefined)
    const removed = steps.hold(
      'commit',
      ({ put }) => put?.some(([, value]) => typeof value === 'object' && 'pruned' in value) === true,
    )
    holds.push(removing, removed)
    const collected = a.collect()
    await removing.reached
    await session.undo({ count: 4 })
    removing.release()
    await Promise.race([removed.reached, collected])
    // The write finds that another engine was first, and follows its events.
    await write(ofB, '/b', 'b')
    removed.release()
    await collected
    for (const engine of [a, b, c]) {
      const one = await engine.sessions.open(session.id)
      expect(await read(one, '/a')).toBe('3')
    }
    expect(await read(session, '/b')).toBe('b')
    expect(await a.check({ readData: true })).toMatchObject({ found: 0 })
  })

  test('ends early if the server may have lost commits, and another one can follow', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema, { durability: 'relaxed' })
    const [a, b] = [await engineOn(steps), await engineOn(await storageOn(schema))]
    await a.sessions.create({ files: { '/a': 'a' } }).then((one) => one.delete())
    const held = steps.hold('listBlobs', () => true)
    holds.push(held)
    const collected = a.collect().catch((error: unknown) => error)
    await held.reached
    const server = await sharedPostgres()
    const blobs = await server.sql(`SELECT hash FROM ${schema}.blobs`)
    const { engineId } = steps.store.shared ?? { engineId: '' }
    expect(engineId).not.toBe('')
    // The connections are lost as in a crash of the server. The engine of the collection has its own ones.
    await server.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%"${schema}"%' AND pid <> pg_backend_pid()`,
    )
    await expect.poll(() => steps.store.losses?.()).not.toBe(0)
    held.release()
    expect(await collected).toMatchObject({ reason: 'STORE_FAILED' })
    expect(await server.sql(`SELECT hash FROM ${schema}.blobs`)).toEqual(blobs)
    await expect
      .poll(() =>
        b.collect().then(
          () => '',
          (error: { reason: string }) => error.reason,
        ),
      )
      .toBe('')
    expect(await server.sql(`SELECT hash FROM ${schema}.blobs`)).toEqual([])
  })

  test('keeps the history that forks of a closed engine need', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const [a, b] = [await engineOn(steps), await engineOn(await storageOn(schema))]
    const parent = await b.sessions.create({ files: { '/a': 'a' } })
    await write(parent, '/b', 'b')
    let scans = 0
    // The sessions are read for the fourth time, after those that need a snapshot have got one.
    const isFourth = (gte: string): boolean => gte === keys.allSessions() && ++scans === 4
    const held = steps.hold('scan', ({ gte, reverse }) => reverse === true && isFourth(gte))
    holds.push(held)
    const collected = a.collect()
    await held.reached
    const [one, two] = [await parent.fork(), await parent.fork()]
    await one.files.delete({ path: '/b' })
    await parent.delete()
    await b.close()
    held.release()
    await collected
    const [ofA, other] = [await a.sessions.open(one.id), await a.sessions.open(two.id)]
    expect((await other.merge(ofA)).changes.map(({ path }) => path)).toEqual(['/b'])
    expect(await a.check({ readData: true })).toMatchObject({ found: 0 })
  })

  test('changes no record of usage after another engine has ended it', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const a = await engineOn(steps)
    await a.sessions.create({ files: { '/a': 'a' } }).then((one) => one.delete())
    const held = steps.hold('scan', ({ gte, limit }) => gte === 'y' && limit === 1)
    holds.push(held)
    const collected = a.collect().catch((error: unknown) => error)
    await held.reached
    const server = await sharedPostgres()
    const usage = (): Promise<readonly unknown[]> =>
      server.sql(
        `SELECT key, value FROM ${schema}.records WHERE convert_from(key, 'UTF8') LIKE 'y%' ORDER BY key`,
      )
    const before = await usage()
    expect(before).not.toEqual([])
    await server.sql(`UPDATE ${schema}.collections SET owner = NULL, token = token + 1, stage = 'none'`)
    held.release()
    expect(await collected).toMatchObject({ reason: 'STORE_FAILED' })
    expect(await usage()).toEqual(before)
    await a.collect()
    expect(await usage()).not.toEqual(before)
  })

  test('does not count a content as deleted that another engine writes again before its deletion', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const [a, b] = [await engineOn(steps), await engineOn(await storageOn(schema))]
    for (const content of ['written again', 'gone']) {
      const session = await a.sessions.create({ files: { '/a': content } })
      await session.delete()
    }
    const held = steps.hold('listBlobs', () => true, 'after')
    holds.push(held)
    const collected = a.collect()
    await held.reached
    await b.sessions.create({ files: { '/a': 'written again' } })
    held.release()
    expect(await collected).toMatchObject({ deletedBlobs: 1 })
    const server = await sharedPostgres()
    const records = await server.sql(
      `SELECT convert_from(value, 'UTF8') AS value FROM ${schema}.records WHERE convert_from(key, 'UTF8') LIKE 'y%'`,
    )
    const gone = records.flatMap(({ value }) => (JSON.parse(String(value)) as { gone: unknown[][] }).gone)
    expect(gone.map((one) => one[2])).toEqual(['gone'.length])
  })

  test.each(['writes', 'an undo'])(
    'lets another engine use a session again that it had evicted, after %s and a collection',
    async (kind) => {
      const schema = freshSchema()
      const a = await engineOn(await storageOn(schema), {
        memoryBudgetBytes: 2 ** 20,
        budgets: { sessionBytes: 2 ** 30 },
      })
      const b = await engineOn(await storageOn(schema))
      const ofB = await b.sessions.create({ files: { '/x': 'x' } })
      const ofA = await a.sessions.open(ofB.id)
      await write(ofA, '/first', 'from a')
      // The spy keeps the evicted session, as an operation would.
      const evict = vi.spyOn(Residency.prototype, 'evict')
      onTestFinished(() => evict.mockRestore())
      const base = await a.sessions.create({ files: { '/x': 'x' } })
      const isEvicted = (): boolean => evict.mock.calls.some(([{ id }]) => id === ofA.id)
      for (let i = 0; i < 100 && !isEvicted(); i++)
        await Promise.all(Array.from({ length: 20 }, async () => write(await base.fork(), '/x', `${i}`)))
      expect(isEvicted()).toBe(true)
      for (let i = 0; i < 10; i++) await write(ofB, `/from-b-${i}`, 'x')
      if (kind === 'an undo') await ofB.undo({ count: 5 })
      await write(ofB, '/last', 'from b')
      expect((await b.collect()).prunedEvents).toBeGreaterThan(10)
      expect(await read(ofA, '/last')).toBe('from b')
      expect(await read(ofA, '/first')).toBe('from a')
      expect((await ofA.manifest()).manifestHash).toBe((await ofB.manifest()).manifestHash)
      await write(ofA, '/more', 'from a')
      expect(await read(ofB, '/more')).toBe('from a')
      expect((await ofA.events.verify()).headHash).toBe((await ofB.events.verify()).headHash)
    },
  )

  /** The files of the sessions, as they must be. */
  class Model {
    readonly sessions = new Map<string, Map<string, string>>()
    readonly checkpoints = new Map<string, Map<string, Map<string, string>>>()
  }

  test.each(Array.from({ length: runs(12) }, (_, n) => n))(
    'keeps all objects that the random work of several engines uses: %i',
    { timeout: 600_000 },
    async (n) => {
      const random = randomWords(seed * 1000 + n)
      const pick = <T>(items: readonly T[], word = random()): T => items[word % items.length] as T
      const collectors = randomWords(seed + n)
      const schema = freshSchema()
      const engines: Engine[] = []
      for (let i = 0; i < 2 + (n % 2); i++)
        engines.push(await engineOn(await storageOn(schema), { memoryBudgetBytes: 2 ** 20 }))
      const model = new Model()
      let isOver = false
      let collections = 0
      const collecting = (async () => {
        while (!isOver) {
          await pick(engines, collectors()).collect()
          collections++
        }
      })()
      collecting.catch(() => undefined)
      const addSession = (session: Session, files: Map<string, string>): void => {
        model.sessions.set(session.id, new Map(files))
        model.checkpoints.set(session.id, new Map())
      }
      const names = ['/a', '/b', '/c/d', '/c/e/f', '/g/h', '/i']
      const steps = isComplete ? 400 : 100
      for (let step = 0; step < steps || collections < 2; step++) {
        const engine = pick(engines)
        const ids = [...model.sessions.keys()]
        const kind = random() % 16
        if (ids.length === 0 || (kind === 0 && ids.length < 12)) {
          const files = new Map(names.slice(random() % 5).map((name) => [name, `new ${step} ${name}`]))
          addSession(await engine.sessions.create({ files: Object.fromEntries(files) }), files)
          continue
        }
        const id = pick(ids)
        const session = await engine.sessions.open(id)
        const files = model.sessions.get(id) as Map<string, string>
        const checkpoints = model.checkpoints.get(id) as Map<string, Map<string, string>>
        if (kind <= 2 && ids.length < 12) addSession(await session.fork(), files)
        else if (kind === 3 && ids.length > 3) {
          await session.delete()
          model.sessions.delete(id)
        } else if (kind === 4) {
          await session.checkpoint({ checkpointLabel: `c${step}` })
          checkpoints.set(`c${step}`, new Map(files))
        } else if (kind === 5 && checkpoints.size > 0) {
          const label = pick([...checkpoints.keys()])
          await session.restore({ checkpointLabel: label })
          model.sessions.set(id, new Map(checkpoints.get(label)))
        } else if (kind === 6 && checkpoints.size > 0) {
          const label = pick([...checkpoints.keys()])
          addSession(
            await session.fork({ checkpointLabel: label }),
            checkpoints.get(label) as Map<string, string>,
          )
        } else if (kind === 7 && checkpoints.size > 0) {
          const label = pick([...checkpoints.keys()])
          await session.deleteCheckpoint({ checkpointLabel: label })
          checkpoints.delete(label)
        } else if (kind === 8) {
          const before = new Map(files)
          await write(session, '/a', `undone ${step}`)
          await (await pick(engines).sessions.open(id)).undo({})
          model.sessions.set(id, before)
        } else if (kind === 9) {
          const name = pick(names)
          await session.fs.promises.rm(name, { force: true })
          files.delete(name)
        } else {
          const name = pick(names)
          // Contents that were garbage for a while are written again.
          const content = `${random() % 7}`.repeat(1 + (random() % 9))
          await session.files.write({ path: name, content, createParents: true })
          files.set(name, content)
        }
      }
      isOver = true
      await collecting
      expect(collections).toBeGreaterThan(1)
      for (const engine of engines) {
        for (const [id, files] of model.sessions) {
          const session = await engine.sessions.open(id)
          for (const name of names)
            expect([id, name, await read(session, name).catch(() => undefined)]).toEqual([
              id,
              name,
              files.get(name),
            ])
        }
      }
      expect(await engines[0]?.check({ readData: true })).toMatchObject({ found: 0, findings: [] })
      // Only objects in the memory of an engine may remain.
      await engines[0]?.collect()
      for (const engine of open.splice(0)) await engine.close()
      const alone = await openEngine({ storage: await storageOn(schema, { shared: false }) })
      open.push(alone)
      expect(await alone.collect()).toMatchObject({ deletedSessions: 0 })
      for (const [id, files] of model.sessions)
        for (const [name, content] of files)
          expect(await read(await alone.sessions.open(id), name)).toBe(content)
    },
  )
})
