/** A schema that is renamed, emptied, or replaced by a restored backup, while engines have it open. */
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { dataTables } from '../../src/adapters/postgres/migrations.js'
import { limits } from '../../src/engine/base/limits.js'
import { openEngine, type Engine, type EngineError, type Session } from '../../src/index.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'
import { tarOf } from '../support/raw-archives.js'

const moved = { reason: 'STORE_MOVED', details: { outcome: 'not-applied' } }
const changed = { reason: 'STORE_FAILED', details: { outcome: 'not-applied' } }
/** Contents of this size are stored before the record that refers to them. */
const ahead = limits.importCommitBytes
const allTables = [...dataTables, 'leases', 'migrations']

describe.skipIf(!hasPostgres).each([false, true])('a schema on PostgreSQL, with shared: %s', (shared) => {
  let server: PostgresServer
  let schema: string
  let engine: Engine

  beforeEach(async () => {
    server = await sharedPostgres()
    schema = freshSchema()
    engine = await open()
  })
  afterEach(() => engine.close())

  const open = (): Promise<Engine> =>
    openEngine({
      storage: postgresStorage({
        connectionString: server.connectionString,
        schema,
        // An engine that looks for changes of others would notice by chance.
        ...(shared && { shared, freshnessMillis: 60_000 }),
      }),
    })

  const truncate = (...tables: readonly string[]): Promise<unknown> =>
    server.sql(`TRUNCATE ${tables.map((table) => `${schema}.${table}`).join(', ')}`)

  /** Copies the schema, as a dump and its restoration do. */
  async function copySchema(to: string): Promise<void> {
    const tables = await server.sql('SELECT tablename FROM pg_tables WHERE schemaname = $1', [schema])
    await server.sql(`CREATE SCHEMA ${to}`)
    for (const { tablename } of tables)
      await server.sql(
        `CREATE TABLE ${to}.${String(tablename)} (LIKE ${schema}.${String(tablename)} INCLUDING ALL);
         INSERT INTO ${to}.${String(tablename)} OVERRIDING SYSTEM VALUE SELECT * FROM ${schema}.${String(tablename)}`,
      )
  }

  async function restoreRows(of: string): Promise<void> {
    await truncate(...allTables)
    for (const table of allTables)
      await server.sql(`INSERT INTO ${schema}.${table} OVERRIDING SYSTEM VALUE SELECT * FROM ${of}.${table}`)
  }

  const rename = (from: string, to: string): Promise<unknown> =>
    server.sql(`ALTER SCHEMA ${from} RENAME TO ${to}`)

  test('acknowledges nothing in a restored backup, and continues once the schema is back', async () => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    await copySchema(`${schema}_copy`)
    await session.files.write({ path: '/a', content: '2' })
    await rename(schema, `${schema}_aside`)
    await rename(`${schema}_copy`, schema)

    // A fork is stored without an event of its parent, whose number would show the gap.
    expect(await failureOf(session.fork())).toMatchObject(moved)
    expect(await failureOf(session.files.write({ path: '/a', content: '3' }))).toMatchObject(moved)
    expect(await failureOf(engine.sessions.create())).toMatchObject(moved)
    expect(
      await server.sql(`SELECT FROM ${schema}.records WHERE left(encode(key, 'escape'), 1) = 's'`),
    ).toHaveLength(1)

    await rename(schema, `${schema}_copy`)
    await rename(`${schema}_aside`, schema)
    await recovered(async () => expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('2'))
    await recovered(() => session.files.write({ path: '/a', content: '4' }))
    const fork = await session.fork()
    expect(await fork.fs.promises.readFile('/a', 'utf8')).toBe('4')
  })

  test('says that a schema was renamed, and continues once it is back', async () => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    await rename(schema, `${schema}_aside`)
    for (const content of ['2', '3'])
      expect(await failureOf(session.files.write({ path: '/a', content }))).toMatchObject(moved)
    await rename(`${schema}_aside`, schema)
    await recovered(() => session.files.write({ path: '/a', content: '4' }))
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('4')
  })

  test('reads its sessions again when its tables got the rows of a backup', async () => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    await copySchema(`${schema}_copy`)
    await session.files.write({ path: '/a', content: '2' })
    await restoreRows(`${schema}_copy`)

    // Without an error, the fork would refer to an event that is not stored.
    expect(await refusalOf(session.fork())).toBe('STORE_FAILED')
    await recovered(async () => expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('1'))
    const fork = await session.fork()
    await session.files.write({ path: '/a', content: '3' })
    expect((await engine.check()).findings).toEqual([])
    await engine.close()

    engine = await open()
    expect(await contentIn(session.id)).toBe('3')
    expect(await contentIn(fork.id)).toBe('1')
  })

  test.runIf(shared).each(['had the store alone', 'collected'])(
    'reads its sessions again from a backup that is older than an engine that %s',
    async (way) => {
      const session = await engine.sessions.create({ files: { '/a': '1' } })
      await engine.close()
      await copySchema(`${schema}_copy`)
      const alone = await openEngine({
        storage: postgresStorage({ connectionString: server.connectionString, schema }),
      })
      await alone.close()
      engine = await open()
      if (way === 'collected') await engine.collect()
      else await engine.sessions.create()
      await restoreRows(`${schema}_copy`)

      await engine.sessions.create().catch(() => undefined)
      const made = await recovered(() => engine.sessions.create({ files: { '/a': '2' } }))
      await engine.close()
      engine = await open()
      expect(await contentIn(session.id)).toBe('1')
      expect(await contentIn(made.id)).toBe('2')
    },
  )

  test('acknowledges no file, revision or session whose first contents were removed before its end', async () => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    const { sourceId } = await engine.sources.create({ displayName: 'x', uploadedSnapshot: {} })
    const bundle = await bytesOf((await big()).exportBundle())
    const content = randomBytes(3 * ahead)
    const written = paused(content)
    const imported = paused(tarOf({ name: 'f', content }))
    const bundled = paused(bundle)
    const write = failureOf(session.files.write({ path: '/b', content: written.pieces }))
    const job = await engine.sources.startImport(sourceId, {
      uploadedSnapshot: { content: imported.pieces },
    })
    const ended = failureOf(engine.sources.waitForJob(job))
    const arrived = failureOf(engine.sessions.importBundle(bundled.pieces))
    for (const { reached } of [written, imported, bundled]) await reached
    await truncate('blobs', 'nodes')
    await engine.sessions.create().catch(() => undefined)
    await recovered(() => engine.sessions.create())
    for (const { go } of [written, imported, bundled]) go()

    expect(await write).toMatchObject(changed)
    expect(await arrived).toMatchObject(changed)
    expect(await ended).toMatchObject({ reason: 'IMPORT_FAILED' })
  })

  test('stores an empty tree again that was deleted', async () => {
    await engine.sessions.create()
    await truncate('nodes')
    await engine.sessions.create().catch(() => undefined)
    const made = await recovered(() => engine.sessions.create())
    await engine.close()
    engine = await open()
    const session = await engine.sessions.open(made.id)
    expect(await session.fs.promises.readdir('/')).toEqual([])
  })

  test.each([
    ['trees', ['nodes']],
    ['contents', ['blobs']],
    ['sessions', ['records', 'events', 'heads']],
  ])('does not build on %s that were deleted with all rows of their table', async (_, tables) => {
    const session = await engine.sessions.create({ files: { '/a': 'x'.repeat(5000) } })
    await truncate(...tables)
    expect(await refusalOf(session.fork())).toBe('STORE_FAILED')
    const made = await recovered(() => engine.sessions.create({ files: { '/a': '1' } }))
    await engine.close()
    engine = await open()
    expect(await contentIn(made.id)).toBe('1')
  })

  test('loses nothing when its tables are rewritten', async () => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    for (const table of allTables) await server.sql(`VACUUM FULL ${schema}.${table}`)
    expect(await refusalOf(session.files.write({ path: '/a', content: '2' }))).toBe('STORE_FAILED')
    await recovered(() => session.files.write({ path: '/a', content: '3' }))
    await session.files.write({ path: '/a', content: '4' })
    await engine.collect()
    await engine.close()
    engine = await open()
    expect(await contentIn(session.id)).toBe('4')
  })

  test.each([
    ['all rows', allTables],
    ['all rows but those of its version', allTables.filter((table) => table !== 'migrations')],
    ['the row of collections', ['collections']],
  ])('says that %s are missing, and acknowledges nothing', async (_, tables) => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    await truncate(...tables)
    await failureOf(session.fork())
    await recovered(async () => {
      const failure = await failureOf(engine.sessions.create())
      expect(failure).toMatchObject(moved)
      expect(failure.message).toMatch(/a table of the store was emptied.*no row/)
    })
    expect(await failureOf(engine.collect())).toMatchObject(moved)
    await engine.close()

    const refused = await failureOf(open())
    expect(refused).toMatchObject({ reason: 'STORE_FORMAT' })
    expect(refused.message).toMatch(/has no row.*DROP SCHEMA/)
    await server.sql(`DROP SCHEMA ${schema} CASCADE`)
    engine = await open()
    expect(await engine.sessions.create()).toBeDefined()
  })

  test('says that its lease was deleted', async () => {
    const session = await engine.sessions.create({ files: { '/a': '1' } })
    await server.sql(`DELETE FROM ${schema}.leases`)
    // An engine that shares the store takes another lease.
    expect(await failureOf(session.files.write({ path: '/a', content: '2' }))).toMatchObject(
      shared ? changed : moved,
    )
  })

  /** An engine that shares the store may notice the change before the call, with a commit of its own. */
  async function refusalOf(work: Promise<unknown>): Promise<string> {
    const failure = await work.then(
      () => undefined,
      (error: EngineError) => error,
    )
    if (failure === undefined) return shared ? 'STORE_FAILED' : 'none'
    return /tables of the store were emptied, restored or rewritten/.test(failure.message)
      ? failure.reason
      : failure.message
  }

  /** A session whose content is stored in several commits. */
  const big = async (): Promise<Session> =>
    engine.sessions.create({ files: { '/f': randomBytes(3 * ahead) } })

  async function contentIn(sessionId: string): Promise<string> {
    const session = await engine.sessions.open(sessionId)
    return session.fs.promises.readFile('/a', 'utf8')
  }
})

/** Bytes of which the last ones wait for `go`. */
function paused(bytes: Uint8Array): {
  readonly pieces: AsyncIterable<Uint8Array>
  readonly reached: Promise<void>
  readonly go: () => void
} {
  let go = (): void => undefined
  let arrive = (): void => undefined
  const gone = new Promise<void>((resolve) => (go = resolve))
  const reached = new Promise<void>((resolve) => (arrive = resolve))
  async function* pieces(): AsyncGenerator<Uint8Array> {
    const end = bytes.length - 2048
    for (let at = 0; at < end; at += 2 ** 16) yield bytes.subarray(at, Math.min(at + 2 ** 16, end))
    arrive()
    await gone
    yield bytes.subarray(end)
  }
  return { pieces: pieces(), reached, go: () => go() }
}

async function bytesOf(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = []
  for await (const piece of pieces) all.push(piece)
  return Buffer.concat(all)
}

/** The engine pauses between two attempts to recover. */
function recovered<T>(work: () => Promise<T>): Promise<T> {
  return vi.waitFor(work, { timeout: 10_000 })
}

async function failureOf(pending: Promise<unknown>): Promise<EngineError> {
  try {
    await pending
  } catch (error) {
    return error as EngineError
  }
  throw new Error('nothing was rejected')
}
