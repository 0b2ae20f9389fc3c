import { afterEach, describe, expect, test, vi } from 'vitest'
import { CommitGraph } from '../../src/adapters/git-server/fetch-plan.js'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import {
  ImportJobState,
  openEngine,
  PosixFlockMode,
  SourceStatus,
  type Engine,
  type EngineError,
  type Session,
} from '../../src/index.js'
import { openRepository, type SessionRepository } from '../../src/engine/contract.js'
import { TimeSlice } from '../../src/engine/ports.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'

/** A bound that is over after any two calls that wait for each other, so a test need not wait for it. */
const freshnessMillis = 1

describe.skipIf(!hasPostgres)('several engines on one schema', () => {
  const open: Engine[] = []
  afterEach(async () => {
    for (const engine of open.splice(0)) await engine.close()
  })

  async function engineOn(schema: string, options: Partial<PostgresStorageOptions> = {}): Promise<Engine> {
    const { connectionString } = await sharedPostgres()
    const engine = await openEngine({
      storage: postgresStorage({ connectionString, schema, shared: true, freshnessMillis, ...options }),
    })
    open.push(engine)
    return engine
  }

  /** The same session in two engines. */
  async function both(): Promise<{ a: Session; b: Session; engines: [Engine, Engine] }> {
    const schema = freshSchema()
    const engines: [Engine, Engine] = [await engineOn(schema), await engineOn(schema)]
    const a = await engines[0].sessions.create({ files: { '/start': 'start' } })
    return { a, b: await engines[1].sessions.open(a.id), engines }
  }

  const write = (session: Session, path: string, content: string): Promise<void> =>
    session.fs.promises.writeFile(path, content)
  const read = (session: Session, path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

  test('a write of one engine is read by the other', async () => {
    const { a, b } = await both()
    await write(a, '/a', 'from a')
    await expect.poll(() => read(b, '/a').catch(() => '')).toBe('from a')
    await write(b, '/a', 'from b')
    await expect.poll(() => read(a, '/a')).toBe('from b')
  })

  test('concurrent writes of both engines are all applied, and both engines agree', async () => {
    const { a, b } = await both()
    const writes: Promise<void>[] = []
    for (let i = 0; i < 50; i++) {
      writes.push(write(a, `/a-${i}`, `a ${i}`), write(b, `/b-${i}`, `b ${i}`))
      if (i % 10 === 9) await writes.at(-1)
    }
    await Promise.all(writes)
    await expect.poll(async () => (await a.fs.promises.readdir('/')).length).toBe(101)
    await expect.poll(async () => (await b.fs.promises.readdir('/')).length).toBe(101)
    const [ofA, ofB] = [await a.events.verify({}), await b.events.verify({})]
    expect(ofA).toEqual(ofB)
    expect(ofA.eventCount).toBe(101)
    expect(await a.diff(b).paths()).toEqual({ added: [], removed: [], modified: [] })
  })

  test('an undo concurrent with a write of another engine undoes only the newest event', async () => {
    const { a, b } = await both()
    for (let round = 0; round < 20; round++) {
      await write(a, '/a', `old ${round}`)
      await write(a, '/a', `new ${round}`)
      await expect.poll(() => read(b, '/a').catch(() => '')).toBe(`new ${round}`)
      const [undone] = await Promise.all([a.undo(), write(b, `/b-${round}`, 'b')])
      expect(undone.count).toBe(1)
      await expect
        .poll(async () => (await a.events.verify({})).headHash)
        .toBe((await b.events.verify({})).headHash)
      const found = [await read(a, '/a'), await read(a, `/b-${round}`).catch(() => 'missing')]
      expect([
        [`old ${round}`, 'b'],
        [`new ${round}`, 'missing'],
      ]).toContainEqual(found)
    }
  })

  test('a guard that no longer holds fails with its own error', async () => {
    const { a, b } = await both()
    await write(a, '/a', 'one')
    await expect.poll(() => read(b, '/a').catch(() => '')).toBe('one')
    const expectedHash = await a.files.contentHash('/a')
    const outcomes = await Promise.allSettled([
      a.files.write({ path: '/a', content: 'a', expectedHash }),
      b.files.write({ path: '/a', content: 'b', expectedHash }),
    ])
    const lost = outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason as EngineError] : []))
    expect(lost.map(({ reason }) => reason)).toEqual(['HASH_MISMATCH'])
  })

  test('checkpoints, forks, restores and undos of both engines form one history', async () => {
    const { a, b, engines } = await both()
    await write(a, '/a', 'one')
    await a.checkpoint({ checkpointLabel: 'first' })
    await write(b, '/b', 'two')
    const fork = await b.fork()
    expect(await (await engines[0].sessions.open(fork.id)).fs.promises.readdir('/')).toEqual([
      'a',
      'b',
      'start',
    ])
    await b.restore({ checkpointLabel: 'first' })
    await expect.poll(() => a.fs.promises.readdir('/')).toEqual(['a', 'start'])
    await a.undo({})
    await expect.poll(() => b.fs.promises.readdir('/')).toEqual(['a', 'b', 'start'])
    expect(await a.events.verify({})).toEqual(await b.events.verify({}))
  })

  test('the commits that both engines serve to git clients form one history', async () => {
    const { a, b, engines } = await both()
    const ofA = await openRepository(engines[0], a.id)
    const ofB = await openRepository(engines[1], a.id)
    const heads: (string | null)[] = []
    const serve = async (repository: SessionRepository): Promise<void> => {
      heads.push((await repository.head()).commitId)
    }
    await serve(ofA)
    for (const [round, [session, repository]] of [
      [b, ofB],
      [a, ofA],
      [b, ofB],
    ].entries() as Iterable<[number, [Session, SessionRepository]]>) {
      await write(session, '/a', `round ${round}`)
      await serve(repository)
    }
    await Promise.all([
      write(a, '/b', 'from a').then(() => serve(ofA)),
      write(b, '/c', 'from b').then(() => serve(ofB)),
    ])
    await expect.poll(() => read(a, '/c').catch(() => '')).toBe('from b')
    await expect.poll(async () => (await ofA.head()).commitId).toBe((await ofB.head()).commitId)
    const { commitId } = await ofA.head()
    const history = await new CommitGraph(ofB.objects, null, new TimeSlice(performance)).closure([
      commitId ?? '',
    ])
    expect(heads.filter((id) => !history.has(id ?? ''))).toEqual([])
  })

  test('a session that one engine deleted does not exist in the other', async () => {
    const { a, b, engines } = await both()
    await Promise.all([a.delete(), write(b, '/b', 'b').catch((error: unknown) => error)])
    await expect(b.files.write({ path: '/c', content: 'c' })).rejects.toMatchObject({
      reason: 'SESSION_NOT_FOUND',
    })
    await expect(engines[1].sessions.open(a.id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    expect((await engines[1].sessions.list({})).sessions).toEqual([])
  })

  test('a lock is held in both engines, and released in both', async () => {
    const { a, b } = await both()
    const outcomes = await Promise.allSettled(
      [a, b].map((session) => session.fileLocks.lock({ path: '/start', timeoutSeconds: 60 })),
    )
    const [held] = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const [refused] = outcomes.flatMap((one) =>
      one.status === 'rejected' ? [one.reason as EngineError] : [],
    )
    expect(refused).toMatchObject({ reason: 'LOCK_HELD' })
    await b.fileLocks.unlock({ path: '/start', lockId: held?.lockId ?? '' })
    await expect(a.fileLocks.lock({ path: '/start', timeoutSeconds: 60 })).resolves.toBeDefined()
  })

  test('values of the cache are set and read in both engines', async () => {
    const { a, b } = await both()
    await a.cache.put({ key: 'k', value: 'one' })
    await expect.poll(async () => String((await b.cache.get({ key: 'k' })).value)).toBe('one')
    await b.cache.put({ key: 'k', value: 'two' })
    await expect.poll(async () => String((await a.cache.get({ key: 'k' })).value)).toBe('two')
  })

  test('a follower receives the events of the other engine in order', async () => {
    const { a, b } = await both()
    const ends = new AbortController()
    const seen: string[] = []
    const following = (async () => {
      for await (const { eventId, details } of a.events.follow({ signal: ends.signal })) {
        void eventId
        if (typeof details['path'] === 'string') seen.push(details['path'])
        if (seen.length === 20) ends.abort()
      }
    })().catch((error: unknown) => error)
    for (let i = 0; i < 10; i++) {
      await write(b, `/b-${i}`, '')
      await write(a, `/a-${i}`, '')
    }
    await following
    expect(seen).toEqual(Array.from({ length: 10 }, (_, i) => [`/b-${i}`, `/a-${i}`]).flat())
  })

  test('an engine without the option is refused, and so is one with it while another has the store alone', async () => {
    const schema = freshSchema()
    const engine = await engineOn(schema)
    await expect(engineOn(schema, { shared: false })).rejects.toMatchObject({ reason: 'STORE_LOCKED' })
    await engine.close()
    const alone = await engineOn(schema, { shared: false })
    await expect(engineOn(schema)).rejects.toMatchObject({ reason: 'STORE_LOCKED' })
    await alone.close()
  })

  test('an engine whose lease expired stores nothing with it, and continues with another one', async () => {
    const schema = freshSchema()
    const a = await engineOn(schema)
    const b = await engineOn(schema)
    const session = await a.sessions.create({ files: { '/a': 'one' } })
    const server = await sharedPostgres()
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp()`)
    await expect(session.files.write({ path: '/a', content: 'two' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
      details: { outcome: 'not-applied' },
    })
    await session.files.write({ path: '/a', content: 'three' })
    expect(await read(await b.sessions.open(session.id), '/a')).toBe('three')
  })

  test('the lease of a killed engine ends after its duration if the clock of the server has gone back', async () => {
    const schema = freshSchema()
    const server = await sharedPostgres()
    await engineOn(schema, { leaseSeconds: 1 })
    const kill = async (): Promise<void> => {
      await server.sql(
        `INSERT INTO ${schema}.leases (name, owner, host, pid, since, token, seconds, expires_at, epoch)
          SELECT 'engine:' || id, id, 'host', 1, now(), 1, 60, now() + interval '1 day', 1 FROM gen_random_uuid() id`,
      )
    }
    const late = async (): Promise<unknown> =>
      (
        await server.sql(
          `SELECT FROM ${schema}.leases WHERE expires_at > clock_timestamp() + interval '60 s'`,
        )
      ).length
    await kill()
    // An engine that has the schema open shortens it when it renews its own lease.
    await vi.waitUntil(async () => (await late()) === 0, { timeout: 20_000 })
    await kill()
    await engineOn(schema)
    expect(await late()).toBe(0)
  })

  test('refuses what only an engine with a store of its own can do', async () => {
    const { a } = await both()
    const refused = { reason: 'SHARED_STORE' }
    await expect(
      a.posixLocks.flock({ path: '/start', mode: PosixFlockMode.SHARED, owner: { ownerId: 'a' } }),
    ).rejects.toMatchObject(refused)
    const { connectionString } = await sharedPostgres()
    const storage = postgresStorage({ connectionString, schema: freshSchema(), shared: true })
    await expect(openEngine({ storage, automaticCollection: true })).rejects.toMatchObject(refused)
  })

  test('an engine that lost its lease before a collection of another one continues no more', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(schema), await engineOn(schema)]
    const session = await a.sessions.create({ files: { '/a': 'one' } })
    const server = await sharedPostgres()
    await server.sql(`DELETE FROM ${schema}.leases WHERE since = (SELECT min(since) FROM ${schema}.leases)`)
    await b.collect()
    const write = (): Promise<unknown> => session.files.write({ path: '/a', content: 'two' })
    // The engine may have noticed it before the first call.
    await expect(write()).rejects.toMatchObject({
      reason: expect.stringMatching(/^STORE_(FAILED|TAKEN)$/) as string,
      details: { outcome: 'not-applied' },
    })
    await expect(write()).rejects.toMatchObject({ reason: 'STORE_TAKEN' })
  })

  test('subscribers receive the messages of both engines once and in order', async () => {
    const { a, b } = await both()
    const subscriptions = [a.bus.subscribe(), b.bus.subscribe()]
    await Promise.all(subscriptions.map(({ opened }) => opened))
    for (let i = 0; i < 10; i++)
      await Promise.all([
        a.bus.publish({ topic: `a${i}`, payload: new Uint8Array() }),
        b.bus.publish({ topic: `b${i}`, payload: new Uint8Array() }),
      ])
    const received = await Promise.all(
      subscriptions.map(async (subscription) => {
        const topics: string[] = []
        for await (const { topic } of subscription) if (topics.push(topic) === 20) break
        return topics
      }),
    )
    expect(received[0]).toEqual(received[1])
    expect(received[0]?.toSorted()).toEqual(
      Array.from({ length: 10 }, (_, i) => [`a${i}`, `b${i}`])
        .flat()
        .toSorted(),
    )
  })

  test('imports of both engines into one source all succeed, and both engines wait for them', async () => {
    const { engines } = await both()
    const [a, b] = engines
    const { sourceId } = await a.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const jobs = await Promise.all(
      [a, b, a, b].map((engine, i) =>
        engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a': String(i) } } }),
      ),
    )
    const states = await Promise.all(
      jobs.flatMap((job) => [a.sources.waitForJob(job), b.sources.waitForJob(job)]),
    )
    expect(new Set(states.map(({ state }) => state))).toEqual(new Set([ImportJobState.SUCCEEDED]))
    const source = await b.sources.get(sourceId)
    expect(states.map(({ revisionId }) => revisionId)).toContain(source.latestRevisionId)
    await b.sources.delete(sourceId)
    await expect(a.sources.get(sourceId)).rejects.toMatchObject({ reason: 'SOURCE_NOT_FOUND' })
  })

  test('a job of an engine that lost its lease fails, and cannot succeed later', async () => {
    const schema = freshSchema()
    const a = await engineOn(schema)
    const { sourceId } = await a.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const session = await a.sessions.create({ files: { '/a': 'a' } })
    let release = (): void => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    const content = async function* (): AsyncGenerator<Uint8Array> {
      await released
      yield* session.exportTar()
    }
    const job = await a.sources.startImport(sourceId, { uploadedSnapshot: { content: content() } })
    const server = await sharedPostgres()
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp()`)
    const b = await engineOn(schema)
    await expect(b.sources.waitForJob(job)).rejects.toMatchObject({ details: { errorCode: 'INTERRUPTED' } })
    release()
    await expect(a.sources.waitForJob(job)).rejects.toMatchObject({ reason: 'IMPORT_FAILED' })
    expect(await b.sources.getJob(job)).toMatchObject({
      state: ImportJobState.FAILED,
      errorCode: 'INTERRUPTED',
    })
    expect(await b.sources.get(sourceId)).toMatchObject({ status: SourceStatus.FAILED, latestRevisionId: '' })
  })
})
