/** What two engines on one schema do at the same moment, in an order that the test decides. */
import { performance } from 'node:perf_hooks'
import { createHash, randomFillSync } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import { present } from '../../src/engine/base/present.js'
import { openRepository } from '../../src/engine/contract.js'
import { repositoryOf } from '../../src/engine/facade/session.js'
import type { Environment } from '../../src/engine/base/environment.js'
import {
  ImportJobState,
  limits,
  openEngine,
  type Engine,
  type EngineError,
  type EngineOptions,
  type ImportJob,
  type Session,
  type Storage,
} from '../../src/index.js'
import { keyPrefixes } from '../../src/engine/storage/keys.js'
import type { StoreCommit } from '../../src/engine/ports.js'
import { FailingStorage } from '../support/failing-storage.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { lowerBound } from '../support/lower-bound.js'
import { isLong } from '../support/seed.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

describe.skipIf(!hasPostgres)('engines on one schema', () => {
  const open: Engine[] = []
  afterEach(async () => {
    for (const engine of open.splice(0)) await engine.close()
  })

  async function storageOn(
    schema: string,
    options: Partial<PostgresStorageOptions> = {},
  ): Promise<SteppedStorage> {
    const { connectionString } = await sharedPostgres()
    const place = options.client === undefined ? { connectionString } : {}
    return new SteppedStorage(
      postgresStorage({ ...place, schema, shared: true, freshnessMillis: 1, ...options }),
    )
  }

  async function engineOn(storage: SteppedStorage, options: EngineOptions = {}): Promise<Engine> {
    const engine = await openEngine({ ...options, storage })
    open.push(engine)
    return engine
  }

  /** The same session in two engines. The steps of the first one can be held. */
  async function both(
    files: Record<string, string>,
    options: readonly [EngineOptions, EngineOptions] = [{}, {}],
    ttlSeconds?: number,
  ): Promise<{ a: Session; b: Session; engines: [Engine, Engine]; steps: SteppedStorage; schema: string }> {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const engines: [Engine, Engine] = [
      await engineOn(steps, options[0]),
      await engineOn(await storageOn(schema), options[1]),
    ]
    const a = await engines[0].sessions.create({ files, ...(ttlSeconds !== undefined && { ttlSeconds }) })
    return { a, b: await engines[1].sessions.open(a.id), engines, steps, schema }
  }

  /** Like {@link both}, but the first engine opens the session that the second one made, and looks for its changes rarely. */
  async function stale(
    files: Record<string, string>,
  ): Promise<{ a: Session; b: Session; steps: SteppedStorage }> {
    const schema = freshSchema()
    const b = await (await engineOn(await storageOn(schema))).sessions.create({ files })
    const steps = await storageOn(schema, { freshnessMillis: 60_000 })
    return { a: await (await engineOn(steps)).sessions.open(b.id), b, steps }
  }

  /** A session that starts from the first upload to a source. */
  async function onSource(
    schema: string,
    files: Record<string, string>,
  ): Promise<{ b: Session; upload: (files: Record<string, string>) => Promise<void> }> {
    const { sources, sessions } = await engineOn(await storageOn(schema))
    const { sourceId } = await sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const upload = async (uploaded: Record<string, string>): Promise<void> => {
      const job = await sources.startImport(sourceId, { uploadedSnapshot: { files: uploaded } })
      await sources.waitForJob(job)
    }
    await upload(files)
    return { b: await sessions.create({ sourceRef: { sourceId } }), upload }
  }

  const write = (session: Session, path: string, content: string): Promise<void> =>
    session.fs.promises.writeFile(path, content)
  const read = (session: Session, path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

  /** An archive whose first byte arrives when the test releases it. */
  async function heldContent(
    engine: Engine,
  ): Promise<{ content: AsyncGenerator<Uint8Array>; release: () => void }> {
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    let release = (): void => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    const content = async function* (): AsyncGenerator<Uint8Array> {
      await released
      yield* session.exportTar()
    }
    return { content: content(), release }
  }

  test('calls end although each look at the store takes longer than the bound', async () => {
    const server = await sharedPostgres()
    const client = (): pg.Client => {
      const slow = server.client()
      const query = slow.query.bind(slow) as (config: pg.QueryConfig) => Promise<pg.QueryResult>
      slow.query = ((config: pg.QueryConfig) => sleep(10).then(() => query(config))) as typeof slow.query
      return slow
    }
    const engine = await engineOn(await storageOn(freshSchema(), { client }))
    const session = await engine.sessions.create({ files: { '/a': 'one' } })
    await sleep(10)
    expect(await read(session, '/a')).toBe('one')
    await write(session, '/a', 'two')
  })

  test('a flush and an undo wait for a write that was called before a subscription', async () => {
    const { a, steps } = await both({ '/a': 'one' })
    const held = steps.hold('commit', ({ events }) => events !== undefined)
    let isStored = false
    const writing = write(a, '/a', 'two')
    const subscription = a.bus.subscribe({ topicPatterns: ['x'] })
    await subscription.opened
    const flushed = a.flush().then(() => isStored)
    const undone = a.undo()
    undone.catch(() => undefined)
    await steps.quiet()
    isStored = true
    held.release()
    expect(await flushed).toBe(true)
    await writing
    expect((await undone).count).toBe(1)
    expect(await read(a, '/a')).toBe('one')
    await subscription.return()
  })

  test('edits of one large file are all applied, even if its size and its time stay the same', async () => {
    const [ahead, exact] = [clocks(60_000), clocks(0)]
    const lines = `${'x\n'.repeat(2 ** 19)}aaa\nbbb\n`
    const { a, b, steps } = await both({ '/a': lines }, [
      { environment: ahead.environment },
      { environment: exact.environment },
    ])
    await a.files.append({ path: '/a', content: 'ccc\n' })
    await expect.poll(async () => (await read(b, '/a')).endsWith('ccc\n')).toBe(true)
    const held = steps.hold('commit', ({ events }) => events !== undefined)
    const edited = a.text.edit({ path: '/a', oldText: 'aaa', newText: 'AAA' })
    await held.reached
    await b.text.edit({ path: '/a', oldText: 'bbb', newText: 'BBB' })
    held.release()
    await edited
    expect((await read(a, '/a')).slice(-12)).toBe('AAA\nBBB\nccc\n')
  })

  test('a call sees what another engine has stored in a second session', async () => {
    const { a, engines } = await both({ '/a': 'one' })
    const [x, y, z] = await Promise.all([a.fork(), a.fork(), a.fork()])
    const others = await Promise.all([x, y, z].map(({ id }) => engines[1].sessions.open(id)))
    for (const other of others) await write(other, '/new', 'new')
    await sleep(10)
    expect((await x.diff(a).paths()).added).toEqual(['/new'])
    expect(await a.merge(y)).toMatchObject({ changeCount: 1 })
    const { sourceId } = await engines[0].sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const job = await engines[0].sources.promoteSession(sourceId, { sessionId: z.id })
    expect(await engines[0].sources.waitForJob(job)).toMatchObject({ filesProcessed: 2 })
  })

  test('refuses a merge after one with conflicts that another engine made while the session was read', async () => {
    const { a, b, steps } = await both({ '/c': 'base' })
    const [conflicting, clean] = [await b.fork(), await b.fork()]
    await write(conflicting, '/c', 'theirs')
    await write(clean, '/new', 'new')
    // The record of the session is read before its events.
    const read = steps.hold('events', (sessionId) => sessionId === a.id)
    await write(b, '/c', 'ours')
    const merged = a.merge({ sessionId: clean.id }).then(
      () => 'merged',
      (error: EngineError) => error.reason,
    )
    await read.reached
    await b.merge(conflicting)
    read.release()

    expect(await merged).toBe('UNRESOLVED_CONFLICTS')
    for (const session of [a, b])
      expect((await session.conflicts.list()).conflicts.map(({ path }) => path)).toEqual(['/c'])
  })

  test('commits no files of a merge whose conflicts another engine recorded while the session was read', async () => {
    const { a, b, engines, steps } = await both({ '/c': 'base' })
    const conflicting = await b.fork()
    await write(conflicting, '/c', 'theirs')
    await write(conflicting, '/merged', 'half of a merge')
    const read = steps.hold('events', (sessionId) => sessionId === a.id)
    await write(b, '/c', 'ours')
    const committed = a.commit({ message: 'x' }).then(
      () => 'committed',
      (error: EngineError) => error.reason,
    )
    await read.reached
    expect((await b.merge(conflicting)).conflicts).toHaveLength(1)
    read.release()

    // The state is that before the merge.
    expect(await committed).toBe('committed')
    const { objects } = await openRepository(engines[0], a.id)
    expect(await objects.has(gitBlobId('ours'))).toBe(true)
    expect(await objects.has(gitBlobId('half of a merge'))).toBe(false)
    await expect(a.commit({ message: 'y' })).rejects.toMatchObject({ reason: 'UNRESOLVED_CONFLICTS' })
  })

  test.each([true, false])(
    'a fork has the base of its files, while another engine rebases the session; in memory: %s',
    async (isInMemory) => {
      const schema = freshSchema()
      const { b, upload } = await onSource(schema, { '/a': 'one' })
      await upload({ '/a': 'two' })
      // A session that was just read is not compared with the store again.
      const steps = await storageOn(schema, { freshnessMillis: isInMemory ? 1 : 60_000 })
      const engine = await engineOn(steps)
      const open = (): Promise<Session> => engine.sessions.open(b.id)
      const a = isInMemory ? await open() : undefined
      const held = steps.hold('events', (sessionId) => sessionId === b.id)
      await write(b, '/own', 'own')
      const forking = a?.fork() ?? open().then((session) => session.fork())
      await held.reached
      await b.rebase()
      held.release()

      expect(await (await forking).diff().paths()).toMatchObject({ added: ['/own'], modified: [] })
    },
  )

  test('a session that is only used by synchronous calls sees the changes of another engine', async () => {
    const { a, b } = await both({ '/a': 'one' })
    await read(a, '/a')
    await write(b, '/a', 'longer')
    await expect.poll(() => a.fs.statSync('/a').size).toBe(6)
  })

  test.skipIf(!hasGit).each([
    ['while it stores the objects of the remote', ({ blobs = [] }: StoreCommit) => blobs.length > 0],
    [
      'while it makes the latest revision',
      ({ put = [] }: StoreCommit) => put.some(([key]) => key.startsWith(keyPrefixes.source)),
    ],
  ])('a refresh that another engine overtakes %s reads the remote again', async (_moment, isHeld) => {
    const root = mkdtempSync(join(temporaryDirectory(), 'refreshed-'))
    const repository = GitRepository.create(join(root, 'r.git'))
    const commit = (path: string): string => repository.commitFiles([['100644', path, path]])
    commit('one')
    const { engines, steps } = await both({}, [
      { hostPaths: { roots: [root] } },
      { hostPaths: { roots: [root] } },
    ])
    const { sourceId } = await engines[0].sources.create({
      displayName: 'project',
      gitRepository: { path: repository.path },
    })
    const refresh = async ({ sources }: Engine): Promise<ImportJob> =>
      sources.waitForJob(await sources.refresh(sourceId, { gitRef: 'main' }))
    await refresh(engines[0])
    const session = await engines[1].sessions.create({ sourceRef: { sourceId } })

    commit('two')
    const held = steps.hold('commit', isHeld)
    const overtaken = refresh(engines[0])
    await held.reached
    commit('three')
    const { revisionId } = await refresh(engines[1])
    await session.rebase()
    held.release()
    expect(await overtaken).toMatchObject({ revisionId })
    expect(await engines[1].sources.get(sourceId)).toMatchObject({ latestRevisionId: revisionId })
    expect(await session.rebase()).toMatchObject({ merged: false, changes: [] })
    rmSync(root, { recursive: true })
  })

  test('a change that was overtaken by a restore runs again', async () => {
    const { a, b, steps } = await both({ '/a': 'one' })
    await b.checkpoint({ checkpointLabel: 'first' })
    await write(b, '/b', 'two')
    await expect.poll(() => read(a, '/b').catch(() => '')).toBe('two')
    for (const restore of [() => b.restore({ checkpointLabel: 'first' }), () => b.undo(), () => b.redo()]) {
      const held = steps.hold('commit', ({ events }) => events !== undefined)
      const written = write(a, '/a', 'three')
      await held.reached
      await restore()
      held.release()
      await written
    }
    expect(await a.events.verify({})).toEqual(await b.events.verify({}))
    await expect.poll(() => read(b, '/a')).toBe('three')
  })

  test('a checkpoint of another engine is not taken for one of this engine that came later', async () => {
    const { a, b, steps } = await both({})
    const held = steps.hold('commit', ({ events }) => events !== undefined)
    const own = [write(a, '/own', 'own'), a.checkpoint({ checkpointLabel: 'own' })]
    await held.reached
    await write(b, '/other', 'other')
    await b.checkpoint({ checkpointLabel: 'other' })
    held.release()
    await Promise.all(own)
    await a.restore({ checkpointLabel: 'other' })
    expect(await a.fs.promises.readdir('/')).toEqual(['other'])
  })

  test('a read waits while its engine takes over the changes of another one', async () => {
    const { a, b, steps } = await stale({ '/start': 'start' })
    await write(b, '/b', 'b')
    const held = steps.hold('events', (sessionId) => sessionId === a.id)
    const written = write(a, '/a', 'a')
    await held.reached
    const reading = read(a, '/b')
    held.release()
    expect(await reading).toBe('b')
    await written
  })

  test('a change that changes nothing is planned again after the lost one before it', async () => {
    const { a, b, steps } = await both({})
    const held = steps.hold('commit', ({ events }) => events !== undefined)
    const outcomes = Promise.allSettled([
      a.files.createDirectory({ path: '/d' }),
      a.files.createDirectory({ path: '/d', recursive: true }),
    ])
    await held.reached
    await write(b, '/d', 'a file')
    held.release()
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(await read(a, '/d')).toBe('a file')
  })

  test('a view of an event of another engine has its stored state, not one that this engine is about to store', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema, { freshnessMillis: 60_000 })
    const a = await (await engineOn(steps)).sessions.create({ files: { '/start': 'start' } })
    const b = await (await engineOn(await storageOn(schema))).sessions.open(a.id)
    const held = steps.hold('commit', ({ events }) => events !== undefined)
    const written = write(a, '/a', 'a')
    await held.reached
    await write(b, '/b', 'b')
    const eventId = (await b.events.list()).events.at(-1)?.eventId ?? ''
    const viewing = a.at({ eventId })
    held.release()
    expect(await (await viewing).fs.promises.readdir('/')).toEqual(['b', 'start'])
    await written
  })

  test('a collection deletes nothing after its engine was suspended and another one ended it', async () => {
    const { a, engines, steps, schema } = await both({ '/a': 'one' })
    await engines[0].sessions.create({ files: { '/gone': 'gone' } }).then((gone) => gone.delete())
    // It has marked all contents.
    const held = steps.hold('listBlobs', () => true)
    const collected = engines[0].collect().catch((error: unknown) => error)
    await held.reached
    const server = await sharedPostgres()
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp() WHERE owner =
      (SELECT owner FROM ${schema}.collections)`)
    await expect.poll(() => server.sql(`SELECT owner FROM ${schema}.collections`)).toEqual([{ owner: null }])
    const made = await engines[1].sessions.create({ files: { '/new': 'new' } })
    const blobs = await server.sql(`SELECT hash FROM ${schema}.blobs`)
    // The engine continues with another lease, but its collection does not.
    await expect(a.files.write({ path: '/a', content: 'two' })).rejects.toMatchObject({
      reason: 'STORE_FAILED',
    })
    await a.files.write({ path: '/a', content: '' })
    held.release()
    expect(await collected).toMatchObject({ reason: 'STORE_FAILED', message: /lost the right to collect/ })
    expect(await server.sql(`SELECT hash FROM ${schema}.blobs`)).toEqual(blobs)
    expect(await read(made, '/new')).toBe('new')
    expect(await engines[1].collect()).toMatchObject({ deletedBlobs: expect.any(Number) as number })
    expect(await engines[0].check({ readData: true })).toMatchObject({ found: 0 })
  })

  test('the leases of engines that were killed long ago are removed', async () => {
    const { schema, engines } = await both({ '/a': 'one' })
    const server = await sharedPostgres()
    await server.sql(
      `INSERT INTO ${schema}.leases (name, owner, host, pid, since, token, expires_at, epoch)
        SELECT 'engine:' || id, id, 'host', 1, now(), 1, now() - make_interval(hours => n), 1
        FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(0, 9) AS n) AS killed`,
    )
    await engines[0].close()
    await engineOn(await storageOn(schema))
    const [row] = await server.sql(`SELECT count(*)::int AS count FROM ${schema}.leases`)
    // Two engines are open, and one was killed less than an hour ago.
    expect(row).toEqual({ count: 3 })
  })

  test('a job that an engine starts as soon as it is open is not given up by another one', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const held = steps.hold('scan', ({ gte }) => gte.startsWith('i'))
    const opening = engineOn(steps)
    await held.reached
    const engine = await engineOn(await storageOn(schema))
    const { sourceId } = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const { content, release } = await heldContent(engine)
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
    held.release()
    await opening
    release()
    expect(await engine.sources.waitForJob(job)).toMatchObject({ errorCode: '' })
  })

  test('a job whose engine is closed right after it succeeded is not failed by another engine', async () => {
    const schema = freshSchema()
    const engine = await engineOn(await storageOn(schema))
    const { sourceId } = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const { content, release } = await heldContent(engine)
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
    const steps = await storageOn(schema)
    const held = steps.hold('scan', ({ gte }) => gte.startsWith('i'), 'after')
    const opening = engineOn(steps)
    await held.reached
    release()
    await engine.sources.waitForJob(job)
    await engine.close()
    held.release()
    const other = await opening
    expect(await other.sources.getJob(job)).toMatchObject({ state: ImportJobState.SUCCEEDED, errorCode: '' })
  })

  test('a job that another engine runs can be aborted: it stores nothing, and its engine stops', async () => {
    const schema = freshSchema()
    const [engine, other] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const { sourceId } = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const { content } = await heldContent(engine)
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
    const failed = {
      state: ImportJobState.FAILED,
      errorCode: 'INTERRUPTED',
      errorMessage: 'the job was aborted',
    }
    const following = engine.sources.waitForJob(job)
    expect(await other.sources.abortJob(job)).toMatchObject(failed)
    await expect(other.sources.waitForJob(job)).rejects.toMatchObject({ reason: 'IMPORT_FAILED' })
    // The content never ends, so this shows that the engine stopped reading it.
    await expect(following).rejects.toMatchObject({
      reason: 'IMPORT_FAILED',
      details: { errorCode: 'INTERRUPTED' },
    })
    expect(await engine.sources.getJob(job)).toMatchObject(failed)
    expect(await engine.sources.get(sourceId)).toMatchObject({ latestRevisionId: '' })
    // A job that has ended stays as it is.
    expect(await other.sources.abortJob(job)).toMatchObject(failed)
    const unknown = { ...job, jobId: sourceId }
    await expect(other.sources.abortJob(unknown)).rejects.toMatchObject({ reason: 'JOB_NOT_FOUND' })
  })

  test.each([
    ['it starts', ImportJobState.RUNNING],
    ['its result is stored', ImportJobState.SUCCEEDED],
  ])('a job that was aborted just before %s stores nothing', async (_, next) => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const engine = await engineOn(steps)
    const other = await engineOn(await storageOn(schema))
    const { sourceId } = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
    const { content, release } = await heldContent(engine)
    const held = steps.hold('commit', ({ put = [] }) =>
      put.some(([, value]) => (value as Partial<ImportJob>).state === next),
    )
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
    release()
    await held.reached
    const waited = engine.sources.waitForJob(job).catch((error: unknown) => error)
    await other.sources.abortJob(job)
    held.release()
    expect(await waited).toMatchObject({ reason: 'IMPORT_FAILED', details: { errorCode: 'INTERRUPTED' } })
    expect(await engine.sources.getJob(job)).toMatchObject({ state: ImportJobState.FAILED })
    expect(await other.sources.get(sourceId)).toMatchObject({ latestRevisionId: '' })
  })

  test('a rotation of keys keeps what other engines do to secrets meanwhile', async () => {
    const schema = freshSchema()
    const [oldKey, newKey] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
    const first = await engineOn(await storageOn(schema), { secrets: { masterKey: oldKey } })
    const put = (session: Session, secretName: string, secretValue: string): Promise<unknown> =>
      session.secrets.put({ secretName, secretValue })
    const created: Session[] = []
    for (const tenant of ['one', 'one', 'two']) {
      const session = await first.as({ tenant }).sessions.create()
      for (const name of ['A', 'B']) await put(session, name, `old ${name}`)
      created.push(session)
    }
    await first.close()
    const both: EngineOptions = { secrets: { masterKey: newKey, previousKeys: [oldKey] } }
    const steps = await storageOn(schema)
    const [rotating, other] = [await engineOn(steps, both), await engineOn(await storageOn(schema), both)]
    const opened = (engine: Engine, at: number): Promise<Session> =>
      engine.as({ tenant: at === 2 ? 'two' : 'one' }).sessions.open(created[at]!.id)
    // The first one is in memory of the engine that rotates.
    await (await opened(rotating, 0)).secrets.list()
    const others = await Promise.all([0, 1, 2].map((at) => opened(other, at)))
    const isOf =
      (at: number) =>
      ({
        put: records = [],
      }: {
        readonly put?: readonly (readonly [string, unknown])[] | undefined
      }): boolean =>
        records.some(([key]) => key.startsWith(`x${created[at]!.id}`))
    const held = [0, 1].map((at) => steps.hold('commit', isOf(at)))
    const scan = steps.hold('scan', ({ gte, limit }) => gte === `x${created[2]!.id}` && limit > 1, 'after')
    const rotation = rotating.rotateSecrets()
    for (const at of [0, 1]) {
      await held[at]!.reached
      await put(others[at]!, 'A', 'new A')
      await others[at]!.secrets.delete({ secretName: 'B' })
      await put(others[at]!, 'C', 'new C')
      held[at]!.release()
    }
    await scan.reached
    await others[2]!.delete()
    scan.release()
    expect(await rotation).toEqual({ rewrapped: 0 })
    for (const engine of [rotating, other]) await engine.close()

    const last = await engineOn(await storageOn(schema), { secrets: { masterKey: newKey } })
    for (const at of [0, 1]) {
      const { secrets } = await opened(last, at)
      expect((await secrets.list()).secrets.map(({ secretName }) => secretName)).toEqual(['A', 'C'])
      for (const name of ['A', 'C'])
        expect((await secrets.get({ secretName: name })).secretValue.reveal()).toBe(`new ${name}`)
    }
    const server = await sharedPostgres()
    expect(
      await server.sql(`SELECT FROM ${schema}.records WHERE key LIKE 'x%' AND key > 'x${created[2]!.id}'`),
    ).toEqual([])
  })

  test('a rotation of keys keeps no secret of a session that another engine deletes', async () => {
    const schema = freshSchema()
    const [oldKey, newKey] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
    const steps = await storageOn(schema)
    const deleting = await engineOn(steps, { secrets: { masterKey: oldKey } })
    const session = await deleting.sessions.create()
    await session.secrets.put({ secretName: 'A', secretValue: 'a' })
    const rotating = await engineOn(await storageOn(schema), {
      secrets: { masterKey: newKey, previousKeys: [oldKey] },
    })
    // The session is deleted, its secret is not yet.
    const held = steps.hold('commit', ({ del = [] }) => del.some((key) => key.startsWith('x')))
    const deleted = session.delete()
    await held.reached
    expect(await rotating.rotateSecrets()).toEqual({ rewrapped: 0 })
    held.release()
    await deleted
    const server = await sharedPostgres()
    expect(await server.sql(`SELECT key FROM ${schema}.records WHERE key LIKE 'x%'`)).toEqual([])
  })

  test('a rotation of keys wraps secrets again that are in memory, or not, in any engine', async () => {
    const schema = freshSchema()
    const [oldKey, newKey] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
    const first = await engineOn(await storageOn(schema), { secrets: { masterKey: oldKey } })
    const ids: string[] = []
    for (let at = 0; at < 4; at++) {
      const session = await first.sessions.create()
      for (let name = 0; name < 5; name++)
        await session.secrets.put({ secretName: `${name}`, secretValue: `${at} ${name}` })
      ids.push(session.id)
    }
    await first.close()
    const both: EngineOptions = { secrets: { masterKey: newKey, previousKeys: [oldKey] } }
    const engines = [
      await engineOn(await storageOn(schema), both),
      await engineOn(await storageOn(schema), both),
    ]
    const inMemory = await Promise.all(engines.map((engine, at) => engine.sessions.open(ids[at]!)))
    for (const { secrets } of inMemory) await secrets.list()
    const counts = await Promise.all(engines.map((engine) => engine.rotateSecrets()))
    expect(counts.reduce((sum, { rewrapped }) => sum + rewrapped, 0)).toBe(20)
    for (const { secrets } of inMemory) expect((await secrets.list()).secrets).toHaveLength(5)
    for (const engine of engines) await engine.close()
    const last = await engineOn(await storageOn(schema), { secrets: { masterKey: newKey } })
    for (const [at, id] of ids.entries()) {
      const { secrets } = await last.sessions.open(id)
      for (let name = 0; name < 5; name++)
        expect((await secrets.get({ secretName: `${name}` })).secretValue.reveal()).toBe(`${at} ${name}`)
    }
  })

  test('a list of checkpoints that was read before a change of another engine is not kept', async () => {
    const { b, engines, schema } = await both({ '/a': 'one' })
    const steps = await storageOn(schema)
    const session = await (await engineOn(steps)).sessions.open(b.id)
    await engines[0].close()
    const held = steps.hold('scan', ({ gte }) => gte.startsWith('k'), 'after')
    const listing = session.listCheckpoints()
    await held.reached
    await b.checkpoint({ checkpointLabel: 'first' })
    // A stored write builds on the newest state, so the list that was read is older than the session in memory.
    await write(session, '/b', '')
    held.release()
    await listing
    expect((await session.listCheckpoints()).checkpoints.length).toBe(1)
  })

  test('a session that only another engine uses is listed with the time of its last use', async () => {
    const { environment, shift } = clocks(0)
    const { a, b, engines } = await both({ '/a': 'one' }, [{ environment }, { environment }], 100)
    void a
    for (let i = 0; i < 4; i++) {
      shift(61_000)
      await read(b, '/a')
    }
    await write(b, '/a', 'two')
    const [ofA, ofB] = await Promise.all(engines.map((engine) => engine.sessions.list({})))
    expect(ofA?.sessions).toEqual(ofB?.sessions)
    expect(ofA?.sessions.length).toBe(1)
  })

  test('engines agree about locks, cache entries and sessions although their clocks differ by hours', async () => {
    const options = [-2, 2].map((hours) => ({ environment: clocks(hours * 3_600_000).environment }))
    const { a, b } = await both({ '/a': 'one' }, [options[0] ?? {}, options[1] ?? {}], 60)
    const { lockId } = await a.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
    await a.cache.put({ key: 'k', value: 'v', ttlSeconds: 60 })
    await expect.poll(async () => (await b.cache.get({ key: 'k' })).found).toBe(true)
    await expect(b.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })).rejects.toMatchObject({
      reason: 'LOCK_HELD',
    })
    await b.fileLocks.unlock({ path: '/a', lockId })
    for (const session of [a, b, a, b]) await write(session, '/a', session === a ? 'a' : 'b')
    const { events } = await b.events.list({})
    const times = events.map(({ timestamp }) => Date.parse(timestamp))
    expect(times).toEqual(times.toSorted((x, y) => x - y))
    expect(Math.abs((times.at(-1) ?? 0) - Date.now())).toBeLessThan(600_000)
  })

  test('an engine keeps a session that was used while the clock of the server was some minutes slow', async () => {
    const own = clocks(0)
    const schema = freshSchema()
    const b = await openEngine({ storage: await storageOn(schema), environment: own.environment })
    open.push(b)
    own.shift(180_000)
    const a = await openEngine({ storage: shiftedClock(await storageOn(schema), () => -240_000) })
    open.push(a)
    const { id } = await a.sessions.create({ ttlSeconds: 60, files: { '/a': 'kept' } })
    expect(await read(await b.sessions.open(id), '/a')).toBe('kept')
  })

  test.runIf(isLong)(
    'an engine keeps a session that another one used at a time that the clock never showed it',
    async () => {
      const own = clocks(0)
      let aheadMs = 0
      const schema = freshSchema()
      const b = await openEngine({
        storage: shiftedClock(await storageOn(schema), () => aheadMs),
        environment: own.environment,
      })
      open.push(b)
      own.shift(2 * limits.expirySecondLookMs)
      aheadMs = 3_600_000
      await sleep(2 * limits.sharedSweepMs)
      const a = await openEngine({ storage: shiftedClock(await storageOn(schema), () => -3_600_000) })
      open.push(a)
      const { id } = await a.sessions.create({ ttlSeconds: 60, files: { '/a': 'kept' } })
      expect(await read(await b.sessions.open(id), '/a')).toBe('kept')
    },
    60_000,
  )

  test.runIf(isLong)(
    'an engine keeps a session that was used while the clock of the server was slow',
    async () => {
      const [of, own] = [clocks(0), clocks(0)]
      let slowMs = 0
      const slow = (storage: Storage): Storage => shiftedClock(storage, () => -slowMs)
      const schema = freshSchema()
      const [ofA, ofB] = [await storageOn(schema), await storageOn(schema)]
      const a = await openEngine({ storage: slow(ofA), environment: of.environment })
      const b = await openEngine({ storage: slow(ofB), environment: own.environment })
      open.push(a, b)
      const swept = (): Promise<void> => sleep(2 * limits.sharedSweepMs)
      of.shift(limits.expirySecondLookMs)
      slowMs = 86_400_000
      await swept()
      const { id } = await b.sessions.create({ ttlSeconds: 3600, files: { '/a': 'kept' } })
      slowMs = 0
      await swept()
      expect(await read(await a.sessions.open(id), '/a')).toBe('kept')
    },
    60_000,
  )

  test.runIf(isLong)(
    'an engine keeps a session that another one uses after the clock of the server was ahead',
    async () => {
      const own = clocks(0)
      let aheadMs = 86_400_000
      const ahead = (storage: Storage): Storage => shiftedClock(storage, () => aheadMs)
      const schema = freshSchema()
      const [ofA, ofB] = [await storageOn(schema), await storageOn(schema)]
      const a = await openEngine({ storage: ahead(ofA), environment: own.environment })
      const b = await openEngine({ storage: ahead(ofB), environment: own.environment })
      open.push(a, b)
      const session = await a.sessions.create({ ttlSeconds: 60, files: { '/a': 'a' } })
      const ofOther = await b.sessions.open(session.id)
      expect(await read(ofOther, '/a')).toBe('a')
      aheadMs = 0
      await sleep(2 * limits.sharedSweepMs)
      for (let i = 0; i < 10; i++) {
        own.shift(120_000)
        aheadMs += 120_000
        await (i % 3 === 0 ? write(session, '/a', 'a') : read(session, '/a'))
        expect((await b.sessions.list()).sessions).toHaveLength(1)
      }
      expect((await b.collect()).deletedSessions).toBe(0)
      expect(await read(ofOther, '/a')).toBe('a')
    },
    60_000,
  )

  test('an engine keeps a session on which another one works for longer than its time to live', async () => {
    lowerBound(limits, 'sharedSweepMs', 20)
    const own = clocks(0)
    let aheadMs = 0
    const schema = freshSchema()
    const engineOf = async (): Promise<Engine> => {
      const storage = shiftedClock(await storageOn(schema), () => aheadMs)
      const engine = await openEngine({ storage, environment: own.environment })
      open.push(engine)
      return engine
    }
    const [a, b] = [await engineOf(), await engineOf()]
    const session = await a.sessions.create({ ttlSeconds: 60, files: { '/a': 'a' } })
    async function* content(): AsyncIterable<Uint8Array> {
      for (let i = 0; i < 3; i++) {
        own.shift(600_000)
        aheadMs += 600_000
        await sleep(25 * limits.sharedSweepMs)
        expect((await b.collect()).deletedSessions).toBe(0)
        yield Buffer.from('b')
      }
    }
    await session.files.write({ path: '/a', content: content() })
    expect(await read(session, '/a')).toBe('bbb')
    own.shift(1_200_000)
    aheadMs += 1_200_000
    await sleep(25 * limits.sharedSweepMs)
    expect((await b.collect()).deletedSessions).toBe(1)
  })

  test('a write that waits for its content ends when another engine deletes its session', async () => {
    const { a, b } = await both({ '/a': 'a' })
    const content = new Readable({ read: () => undefined })
    content.push(Buffer.from('b'))
    const failed = a.files.write({ path: '/a', content }).catch((error: unknown) => error)
    await sleep(20)
    await b.delete()
    expect(await failed).toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    expect(content.destroyed).toBe(true)
  })

  test('an engine keeps a session during long work in which a write failed', async () => {
    lowerBound(limits, 'sharedSweepMs', 20)
    const own = clocks(0)
    let aheadMs = 0
    const schema = freshSchema()
    const failing = new FailingStorage(await storageOn(schema), { recovers: true })
    const engineOf = async (on: Storage): Promise<Engine> => {
      const storage = shiftedClock(on, () => aheadMs)
      const engine = await openEngine({ storage, environment: own.environment })
      open.push(engine)
      return engine
    }
    const [a, b] = [await engineOf(failing), await engineOf(await storageOn(schema))]
    const session = await a.sessions.create({ ttlSeconds: 60, files: { '/a': 'a' } })
    const other = await a.sessions.create()
    async function* content(): AsyncIterable<Uint8Array> {
      failing.after = { commits: 0, failure: 'fail' }
      await expect(other.files.write({ path: '/a', content: 'a' })).rejects.toMatchObject({
        reason: 'STORE_FAILED',
      })
      for (let i = 0; i < 3; i++) {
        own.shift(600_000)
        aheadMs += 600_000
        await sleep(25 * limits.sharedSweepMs)
      }
      expect(await read(await b.sessions.open(session.id), '/a')).toBe('a')
      yield Buffer.from('b')
    }
    await session.files.write({ path: '/a', content: content() })
    expect(await read(session, '/a')).toBe('b')
  })

  test('a collection deletes an expired session that another engine changed since it was read', async () => {
    lowerBound(limits, 'sharedSweepMs', 20)
    const own = clocks(0)
    let aheadMs = 0
    const schema = freshSchema()
    const engineOf = async (freshnessMillis: number): Promise<Engine> => {
      const storage = shiftedClock(await storageOn(schema, { freshnessMillis }), () => aheadMs)
      const engine = await openEngine({ storage, environment: own.environment })
      open.push(engine)
      return engine
    }
    const [a, b] = [await engineOf(60_000), await engineOf(1)]
    const session = await a.sessions.create({ ttlSeconds: 60, files: { '/a': 'a' } })
    await write(await b.sessions.open(session.id), '/a', 'b')
    own.shift(1_200_000)
    aheadMs += 1_200_000
    await sleep(25 * limits.sharedSweepMs)
    expect((await a.collect()).deletedSessions).toBe(1)
  })

  test('commits of both engines at the same moment build on each other', async () => {
    const { a, b, schema } = await both({ '/start': 'start' })
    const made = await Promise.all(
      [a, b].map(async (session, i) => {
        await write(session, `/${i}`, String(i))
        return (await session.commit({ message: String(i) })).commitId
      }),
    )
    const last = await a.commit({ message: 'last', allowEmpty: true })
    const ancestors = await ancestorsOf(schema, last.commitId)
    expect(ancestors).toEqual(expect.arrayContaining(made))
  })

  test('a commit builds on one that another engine made after the own last one', async () => {
    const { a, b, schema } = await both({ '/start': 'start' })
    const made: string[] = []
    for (const [i, session] of [a, b, a].entries()) {
      await write(session, `/${i}`, String(i))
      made.push((await session.commit({ message: String(i) })).commitId)
    }
    const ancestors = await ancestorsOf(schema, present(made.at(-1), 'the last commit'))
    expect(ancestors).toEqual(expect.arrayContaining(made.slice(0, -1)))
  })

  test('a fork has the files of the git commits that it builds on', async () => {
    const { a, b, steps } = await stale({ '/start': 'start' })
    const held = steps.hold('scan', ({ gte }) => gte.startsWith('v'))
    const forking = a.fork()
    await Promise.race([held.reached, forking])
    await write(b, '/b', 'b')
    await b.commit({ message: 'b' })
    held.release()
    const fork = await forking
    const has = (await fork.fs.promises.readdir('/')).includes('b')
    expect((await fork.commits.list()).commits.length).toBe(has ? 1 : 0)
  })

  test('a fork has the commits of its base, while another engine rebases the session', async () => {
    const schema = freshSchema()
    const { b, upload } = await onSource(schema, { '/a': 'one' })
    await write(b, '/own', 'own')
    const { commitId } = await b.commit({ message: 'own' })
    await upload({ '/a': 'two' })
    const steps = await storageOn(schema, { freshnessMillis: 60_000 })
    const a = await (await engineOn(steps)).sessions.open(b.id)
    const held = steps.hold('scan', ({ gte }) => gte.startsWith('v'))
    const forking = a.fork()
    await Promise.race([held.reached, forking])
    await b.rebase()
    held.release()

    const fork = await forking
    expect(await read(fork, '/a')).toBe('one')
    expect((await fork.commits.list()).commits.map((commit) => commit.commitId)).toEqual([commitId])
  })

  test('a fork of an earlier state has its base, while another engine rebases the session', async () => {
    const schema = freshSchema()
    const { b, upload } = await onSource(schema, { '/a': 'one' })
    await write(b, '/own', 'own')
    const eventId = (await b.events.list()).events.at(-1)?.eventId ?? ''
    await upload({ '/a': 'two' })
    const steps = await storageOn(schema)
    const a = await (await engineOn(steps)).sessions.open(b.id)
    const held = steps.hold('scan', ({ gte }) => gte.startsWith('L'), 'after')
    const forking = a.fork({ from: { eventId } })
    await held.reached
    await b.rebase()
    // A stored write builds on the newest state.
    await write(a, '/later', 'later')
    held.release()

    expect(await (await forking).diff().paths()).toMatchObject({ added: ['/own'], modified: [] })
  })

  test.each(['', 'main'])(
    'a commit has the files of one that another engine makes while its state is read; branch: %s',
    async (branchName) => {
      const { a, b, steps } = await stale({ '/start': 'start' })
      const request = { message: 'x', ...(branchName !== '' && { gitBranch: { branchName } }) }
      await write(a, '/a', 'a')
      const held = steps.hold('get', (key) => key.startsWith('v'))
      const committing = a.commit({ ...request, allowEmpty: true })
      await held.reached
      await write(b, '/b', 'b')
      const other = await b.commit(request)
      held.release()

      const { commitId } = await committing
      expect((await b.commits.list()).commits.map((commit) => commit.commitId)).toEqual([
        commitId,
        other.commitId,
      ])
      for (const path of ['/a', '/b', '/start'])
        expect((await b.commits.readFile({ commitId, path })).content.length).toBeGreaterThan(0)
    },
  )

  test('a commit builds on no commit of another engine that is not in its state', async () => {
    const { a, b } = await stale({ '/start': 'start' })
    await write(a, '/a', 'a')
    await write(b, '/b', 'b')
    await b.commit({ message: 'b' })
    const { commitId } = await a.commit({ message: 'a' })
    expect((await a.commits.readFile({ commitId, path: '/b' })).content.length).toBe(1)
  })

  test('the commits that two engines serve to git clients build on each other', async () => {
    const { a, b, schema } = await both({ '/start': 'start' })
    const heads: (string | null)[] = []
    for (const [i, session] of [a, b, a, b].entries()) {
      await write(session, `/${i}`, String(i))
      heads.push((await repositoryOf(session).head()).commitId)
    }
    expect(await ancestorsOf(schema, heads.at(-1) ?? '')).toEqual(expect.arrayContaining(heads))
  })
})

/** A storage whose server shows a time that differs by so many milliseconds. */
function shiftedClock(storage: Storage, byMs: () => number): Storage {
  return {
    open: async () => {
      const store = await storage.open()
      const now = store.shared?.now.bind(store.shared)
      const shifted = { now: async () => ((await now?.()) ?? 0) + byMs() }
      return Object.assign(store, { shared: Object.assign(store.shared ?? {}, shifted) })
    },
  }
}

/** A commit and its ancestors by first parents, read from the schema. */
async function ancestorsOf(schema: string, commitId: string): Promise<string[]> {
  const server = await sharedPostgres()
  const found: string[] = []
  for (let id: string | undefined = commitId; id !== undefined;) {
    found.push(id)
    const records = await server.sql(
      `SELECT convert_from(value, 'UTF8') AS json FROM ${schema}.records
        WHERE convert_from(key, 'UTF8') LIKE 'g%' AND convert_from(key, 'UTF8') LIKE $1`,
      [`%${id}`],
    )
    const [hash] = /[0-9a-f]{64}/.exec(String(records[0]?.['json'])) ?? []
    const [blob] = await server.sql(`SELECT bytes FROM ${schema}.blobs WHERE hash = decode($1, 'hex')`, [
      hash,
    ])
    id = /^parent ([0-9a-f]{40})$/m.exec(String(blob?.['bytes']))?.[1]
  }
  return found
}

function gitBlobId(content: string): string {
  return createHash('sha1').update(`blob ${content.length}\0${content}`).digest('hex')
}

/** Clocks that are ahead by some time, and can be moved on. */
function clocks(aheadMs: number): { environment: Environment; shift: (ms: number) => void } {
  let shifted = 0
  return {
    environment: {
      wallClockMs: () => Date.now() + aheadMs + shifted,
      monotonicMs: () => performance.now() + shifted,
      randomFill: (bytes) => void randomFillSync(bytes),
    },
    shift: (ms) => (shifted += ms),
  }
}
