/** A schema that is renamed, or replaced by a restored backup, while engines have it open. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { openEngine, type Engine, type EngineError } from '../../src/index.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'

const moved = { reason: 'STORE_MOVED', details: { outcome: 'not-applied' } }

describe.skipIf(!hasPostgres).each([false, true])('a schema on PostgreSQL, with shared: %s', (shared) => {
  let server: PostgresServer
  let schema: string
  let engine: Engine

  beforeEach(async () => {
    server = await sharedPostgres()
    schema = freshSchema()
    engine = await openEngine({
      storage: postgresStorage({ connectionString: server.connectionString, schema, shared }),
    })
  })
  afterEach(() => engine.close())

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
})

/** The engine pauses between two attempts to recover. */
function recovered(work: () => Promise<unknown>): Promise<unknown> {
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
