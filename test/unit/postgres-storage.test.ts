/** Options, migrations, connections and commits of the store on PostgreSQL. */
import { randomUUID } from 'node:crypto'
import { inspect } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import {
  postgresStorage,
  type PostgresClient,
  type PostgresStorageOptions,
} from '../../src/adapters/postgres/index.js'
import type { Store } from '../../src/engine/ports.js'
import { EngineError, openEngine } from '../../src/index.js'
import { freshSchema, hasPostgres, PostgresServer, sharedPostgres } from '../support/postgres.js'

const password = 'hunter2-not-in-errors'

describe('options of a store on PostgreSQL', () => {
  const connectionString = 'postgres://localhost/a'

  test.each<[string, object, RegExp]>([
    ['no source', {}, /one of connectionString, client and pool; it has 0/],
    ['two sources', { connectionString, client: () => ({}) }, /it has 2/],
    ['an unknown option', { connectionString, scheme: 'a' }, /did you mean "schema"/],
    ['a string that is no URL', { connectionString: 'host=localhost' }, /must be a URL/],
    ['a URL of another kind', { connectionString: `https://a:${password}@localhost/` }, /must be a URL/],
    ['a client that is not a function', { client: {} }, /must be a function/],
    ['a pool without connect', { pool: {} }, /must be a pool/],
    ['a pool of one connection', { pool: new pg.Pool({ max: 1 }) }, /at least 2 connections.*its max is 1/],
    ['an empty schema', { connectionString, schema: '' }, /the name of a schema/],
    ['a schema with NUL', { connectionString, schema: 'a\0b' }, /the name of a schema/],
    ['a long schema', { connectionString, schema: 'é'.repeat(32) }, /at most 63 bytes/],
    ['a schema of the system', { connectionString, schema: 'pg_catalog' }, /PostgreSQL itself/],
    ['another durability', { connectionString, durability: 'none' }, /'full' or 'relaxed'/],
    ['no connections', { connectionString, readConnections: 0 }, /from 1 to 100/],
    ['a freshness without shared', { connectionString, freshnessMillis: 5 }, /needs shared: true/],
    ['a short lease', { connectionString, leaseSeconds: 0.5 }, /from 1 to 3600/],
  ])('refuse %s', (_, options, message) => {
    const error = failureAt(() => postgresStorage(options))
    expect(error).toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(String(error)).toMatch(message)
    expect(inspect(error, { depth: 9 })).not.toContain(password)
  })

  test('refuse a URL that cannot be parsed when the store is opened, without repeating it', async () => {
    const storage = postgresStorage({ connectionString: `postgres://a:${password}@[host/db` })
    const error = await failureOf(storage.open())
    expect(error).toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'connectionString' } })
    expect(inspect(error, { depth: 9 })).not.toContain(password)
  })

  test('a server that cannot be reached is reported without the password', async () => {
    const storage = postgresStorage({ connectionString: `postgres://a:${password}@127.0.0.1:1/db` })
    const error = await failureOf(storage.open())
    expect(error).toMatchObject({ reason: 'STORE_FAILED' })
    expect(String(error)).toContain('ECONNREFUSED')
    expect(inspect(error, { depth: 9 })).not.toContain(password)
  })
})

describe.skipIf(!hasPostgres)('a store on PostgreSQL', () => {
  let server: PostgresServer
  let schema: string
  const stores = new Set<Store>()

  beforeEach(async () => {
    server = await sharedPostgres()
    schema = freshSchema()
  })
  afterEach(async () => {
    for (const store of stores) await store.close()
    stores.clear()
  })

  async function open(options: Partial<PostgresStorageOptions> = {}): Promise<Store> {
    const { connectionString } = server
    const source = options.pool === undefined && options.client === undefined ? { connectionString } : {}
    const store = await postgresStorage({ ...source, schema, ...options }).open()
    stores.add(store)
    return store
  }

  test('uses a client of the caller', async () => {
    const made: pg.Client[] = []
    const client = (): pg.Client => {
      made.push(server.client())
      return made.at(-1)!
    }
    const store = await open({ client })
    await store.commit({ put: [['a', '1']] })
    expect(await store.get('a')).toBe('1')
    expect(made.length).toBe(2)
  })

  test('reads on another connection if the pool has dropped its prepared statements', async () => {
    const pool = new pg.Pool({ host: server.directory, user: 'postgres', database: 'postgres', max: 2 })
    const engine = await openEngine({ storage: postgresStorage({ pool, schema }) })
    const { id } = await engine.sessions.create({ files: { '/a': 'a' } })
    expect(await engine.sessions.list({})).toMatchObject({ sessions: [{ id }] })
    await pool.query('DISCARD ALL')
    expect(await engine.sessions.list({})).toMatchObject({ sessions: [{ id }] })
    await engine.close()
    await pool.end()
  })

  test('knows its size in a schema of any name, also if strings have escapes', async () => {
    const client = (): pg.Client =>
      new pg.Client({
        host: server.directory,
        user: 'postgres',
        database: 'postgres',
        options: '-c standard_conforming_strings=off',
      })
    const store = await open({ client, schema: `${schema}\\'"` })
    await store.commit({ put: [['a', '1']] })
    expect(await store.size?.()).toBeGreaterThan(0)
  })

  test('waits for a connection of a pool that is in use, but not without a bound', async () => {
    const pool = new pg.Pool({ host: server.directory, user: 'postgres', database: 'postgres', max: 2 })
    const store = await open({ pool })
    await store.commit({ put: [['a', '1']] })
    const used = await pool.connect()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const failed = failureOf(store.get('a'))
      vi.advanceTimersByTime(postgresLimits.poolMs)
      expect(await failed).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
    } finally {
      vi.useRealTimers()
    }
    used.release()
    // The connection that came too late is free again.
    expect(await store.get('a')).toBe('1')
    await store.close()
    await pool.end()
  })

  test.each([1, 2])(
    'refuses a pooler in transaction mode with %i connections of the server',
    async (size) => {
      const backends = await Promise.all(
        Array.from({ length: size }, async () => {
          const backend = server.client()
          await backend.connect()
          return backend
        }),
      )
      const free = [...backends]
      const connect = (): Promise<PostgresClient> => {
        let own: pg.Client | undefined
        return Promise.resolve({
          query: async (query) => {
            const backend = own ?? free.shift() ?? backends[0]
            if (backend === undefined) throw new Error('no connection')
            own =
              query.text === 'BEGIN' || (own !== undefined && query.text !== 'ROLLBACK') ? backend : undefined
            const result = await backend.query<string[]>({ ...query, text: query.text })
            if (own === undefined) free.unshift(backend)
            return result
          },
          on: () => undefined,
          removeListener: () => undefined,
          release: () => undefined,
        } satisfies PostgresClient)
      }
      const refused = await failureOf(postgresStorage({ pool: { connect }, schema }).open())
      for (const backend of backends) await backend.end()
      expect(refused).toMatchObject({ reason: 'STORE_FAILED' })
      expect(String(refused)).toMatch(/pooler in transaction mode/)
      expect(await server.sql('SELECT FROM pg_namespace WHERE nspname = $1', [schema])).toEqual([])
    },
  )

  test('leaves no transaction open in a pool of the caller when its check of poolers fails', async () => {
    const pool = new pg.Pool({
      host: server.directory,
      user: 'postgres',
      database: 'postgres',
      max: 2,
      application_name: schema,
    })
    let begun = false
    let connections = 0
    const connect = async (): Promise<PostgresClient> => {
      const backend = await pool.connect()
      const isWriter = ++connections === 1
      return {
        query: (query) => {
          if (query.text === 'BEGIN') begun = true
          return backend.query<string[]>({ ...query, text: isWriter && begun ? 'SELECT 1 / 0' : query.text })
        },
        on: (event, listener) => backend.on(event, listener),
        removeListener: (event, listener) => backend.removeListener(event, listener),
        release: (error) => backend.release(error),
      }
    }
    const refused = await failureOf(postgresStorage({ pool: { connect }, schema }).open())
    const text = `SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in transaction%'`
    const open = await server.sql(text, [schema])
    await pool.end()
    expect(refused).toMatchObject({ reason: 'STORE_FAILED' })
    expect(open).toEqual([])
  })

  test('uses a pool of the caller, and leaves it open', async () => {
    const pool = new pg.Pool({ host: server.directory, user: 'postgres', database: 'postgres', max: 2 })
    const [first, second] = [await open({ pool }), postgresStorage({ pool, schema: freshSchema() })]
    await first.commit({ put: [['a', '1']] })
    expect(await Promise.all(Array.from({ length: 20 }, () => first.get('a')))).toEqual(Array(20).fill('1'))
    await first.close()
    // The statements of two schemas share the connections.
    const other = await second.open()
    expect(await other.get('a')).toBeUndefined()
    await other.commit({ put: [['a', '2']] })
    expect(await other.get('a')).toBe('2')
    await other.close()
    expect((await pool.query<{ one: number }>('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await pool.end()
  })

  test.each(['a"b', 'Upper Case', "quote's", '; DROP TABLE x; --', '日本語', '$1'])(
    'quotes the name of a schema: %s',
    async (name) => {
      schema = `${name}${schema}`
      const store = await open()
      await store.commit({
        put: [
          ['a', '1'],
          ['n1', '2'],
        ],
        events: [{ sessionId: 's', seq: 1, body: [1] }],
      })
      expect(await store.scan({ gte: '', lt: 'z', limit: 9 })).toEqual([
        ['a', '1'],
        ['n1', '2'],
      ])
      expect(await store.size!()).toBeGreaterThan(0)
      await store.reclaim!({})
      await store.close()
      const [row] = await server.sql('SELECT count(*)::int AS count FROM pg_tables WHERE schemaname = $1', [
        schema,
      ])
      expect(row).toEqual({ count: 11 })
    },
  )

  test('reads ranges over the table of nodes and that of other records', async () => {
    const store = await open()
    const keys = ['m', 'n', 'n\u{10fffe}', 'na', 'nb', 'o', 'z'].toSorted((a, b) =>
      Buffer.compare(Buffer.from(a), Buffer.from(b)),
    )
    await store.commit({ put: keys.map((key) => [key, `of ${key}`] as const) })
    for (const [from, gte] of keys.entries())
      for (const [to, lt] of keys.entries())
        for (const limit of [2, 99])
          for (const reverse of [false, true]) {
            const inside = keys.slice(from, to)
            const found = await store.scan({ gte, lt, limit, reverse })
            const expected = (reverse ? inside.toReversed() : inside).slice(0, limit)
            expect(found.map(([key]) => key)).toEqual(expected)
          }
    await store.commit({ del: ['n', 'o'] })
    expect(await store.get('n')).toBeUndefined()
    expect(await store.get('na')).toBe('of na')
  })

  test('creates its tables once when two engines open it at the same time', async () => {
    const outcomes = await Promise.all([1, 2, 3].map(() => open().catch((error: unknown) => error)))
    const refused = outcomes.filter((outcome) => outcome instanceof EngineError)
    expect(refused.map(({ reason }) => reason)).toEqual(['STORE_LOCKED', 'STORE_LOCKED'])
    expect(await server.sql(`SELECT version FROM ${schema}.migrations`)).toEqual([
      { version: 1 },
      { version: 2 },
      { version: 3 },
      { version: 4 },
      { version: 5 },
    ])
  })

  test('refuses tables of a later version, and changes nothing', async () => {
    await (await open()).close()
    await server.sql(`INSERT INTO ${schema}.migrations (version) VALUES (99)`)
    const before = await server.sql(`SELECT * FROM ${schema}.leases`)
    expect(await failureOf(open())).toMatchObject({
      reason: 'STORE_FORMAT',
      details: { format: '99', supported: '5' },
    })
    expect(await server.sql(`SELECT * FROM ${schema}.leases`)).toEqual(before)
  })

  /** Makes the tables those of an earlier version. */
  async function downgrade(): Promise<void> {
    await server.sql(`DROP TABLE ${schema}.objects, ${schema}.buckets, ${schema}.collections, ${schema}.pins`)
    await server.sql(`ALTER TABLE ${schema}.leases DROP COLUMN seconds, DROP COLUMN epoch`)
    await server.sql(`ALTER TABLE ${schema}.blobs DROP COLUMN object, DROP COLUMN size, DROP COLUMN epoch`)
    await server.sql(`ALTER TABLE ${schema}.nodes DROP COLUMN epoch`)
    await server.sql(`DELETE FROM ${schema}.migrations WHERE version >= 3`)
  }

  /**
   * The commit of an engine of an earlier version, which looks only at its lease. Returns whether it is stored. An engine
   * of this version notices the other tables.
   */
  async function earlierCommits(): Promise<(key: string) => Promise<boolean>> {
    const [lease] = await server.sql(`SELECT owner, token FROM ${schema}.leases WHERE name = 'writer'`)
    return async (key) => {
      const rows = await server.sql(
        `WITH lease AS (
            SELECT FROM ${schema}.leases WHERE name = 'writer' AND owner = $1 AND token = $2 FOR SHARE)
          INSERT INTO ${schema}.records (key, value) SELECT $3, $3 FROM lease RETURNING 1`,
        [lease?.['owner'], lease?.['token'], Buffer.from(key)],
      )
      return rows.length === 1
    }
  }

  test('migrates the tables of an earlier version once no engine of that version is open', async () => {
    const old = await open()
    const commit = await earlierCommits()
    await downgrade()
    expect(await commit('a')).toBe(true)
    expect(await failureOf(open())).toMatchObject({ reason: 'STORE_LOCKED' })
    expect(await commit('b')).toBe(true)
    await old.close()
    const store = await open()
    expect([await store.get('a'), await store.get('b')]).toEqual(['a', 'b'])
  })

  test('an engine of an earlier version that was suspended stores nothing after the migration', async () => {
    const old = await open()
    const commit = await earlierCommits()
    await downgrade()
    const owner = `'${randomUUID()}'`
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp()`)
    await server.sql(
      `INSERT INTO ${schema}.leases (name, owner, since, token, expires_at)
        VALUES ('engine:a', ${owner}, now(), 1, clock_timestamp())`,
    )
    await (await open()).close()
    expect(await commit('a')).toBe(false)
    expect(await failureOf(old.commit({ put: [['a', '1']] }))).toMatchObject({ reason: 'STORE_FAILED' })
    expect(await failureOf(Promise.resolve(old.recover?.()))).toMatchObject({ reason: 'STORE_TAKEN' })
    expect(await server.sql(`SELECT name, owner FROM ${schema}.leases`)).toEqual([
      { name: 'writer', owner: null },
    ])
    // It cannot take another lease, because it gives no epoch.
    const taken = server.sql(
      `INSERT INTO ${schema}.leases (name, owner, since, token, expires_at) VALUES ('engine:a', ${owner}, now(), 2, now())`,
    )
    await expect(taken).rejects.toThrow(/null value in column "epoch"/)
    await expect(old.close()).resolves.toBeUndefined()
  })

  test.each(['events', 'migrations'])('refuses a schema with a foreign table named %s', async (table) => {
    await server.sql(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.${table} (id integer)`)
    expect(await failureOf(open())).toMatchObject({ reason: 'STORE_FORMAT' })
    expect(await server.sql(`SELECT tablename FROM pg_tables WHERE schemaname = '${schema}'`)).toEqual([
      { tablename: table },
    ])
  })

  test('opens in a schema that its role owns, without rights on the database', async () => {
    const role = `role_${schema}`
    await server.sql(`CREATE ROLE ${role} LOGIN; CREATE SCHEMA ${schema} AUTHORIZATION ${role}`)
    const connectionString = server.connectionString.replace('user=postgres', `user=${role}`)
    const store = await open({ connectionString })
    expect(await store.commit({ put: [['a', '1']] })).toBe(true)
    await store.reclaim!({})
    const refused = await failureOf(open({ connectionString, schema: `${schema}x` }))
    expect(refused).toMatchObject({ reason: 'PERMISSION_DENIED' })
  })

  test('waits for the disk in a database without synchronous commits, except with relaxed durability', async () => {
    const database = `db_${schema}`
    await server.sql(`CREATE DATABASE ${database}`)
    await server.sql(`ALTER DATABASE ${database} SET synchronous_commit = off`)
    const connectionString = server.connectionString.replace('/postgres?', `/${database}?`)
    for (const [durability, expected] of [
      ['full', 'on'],
      ['relaxed', 'off'],
    ] as const) {
      const made: pg.Client[] = []
      const client = (): pg.Client => {
        made.push(new pg.Client({ connectionString }))
        return made.at(-1)!
      }
      const store = await open({ client, durability })
      await store.commit({ put: [['a', '1']] })
      const { rows } = await made[0]!.query<{ synchronous_commit: string }>('SHOW synchronous_commit')
      expect(rows).toEqual([{ synchronous_commit: expected }])
      await store.close()
    }
  })

  test('refuses a server without fsync, except with relaxed durability', async () => {
    const own = await PostgresServer.start(['fsync=off'])
    try {
      const { connectionString } = own
      const refused = await failureOf(open({ connectionString }))
      expect(refused).toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'durability' } })
      await open({ connectionString, durability: 'relaxed' })
    } finally {
      for (const store of stores) await store.close()
      stores.clear()
      await own.remove()
    }
  })

  test('stores a commit that is too large for one statement in one transaction', async () => {
    const store = await open()
    await store.commit({ events: [{ sessionId: 's', seq: 1, body: [1] }], put: [['old', '1']] })
    const value = 'x'.repeat(postgresLimits.statementBytes / 4)
    const put = Array.from({ length: 5 }, (_, i) => [`k${i}`, value] as const)
    const events = [
      { sessionId: 's', seq: 2, body: [2] },
      { sessionId: 't', seq: 1, body: [1] },
    ]
    const late = { events: [{ sessionId: 's', seq: 1, body: [0] }], put, del: ['old'] }
    expect(await store.commit(late)).toBe(false)
    expect(await store.scan({ gte: 'k', lt: 'z', limit: 9 })).toEqual([['old', '1']])
    expect(await store.commit({ events, put, del: ['old'], deleteEvents: ['u'] })).toBe(true)
    expect((await store.scan({ gte: 'k', lt: 'z', limit: 9 })).map(([key]) => key)).toEqual(
      put.map(([key]) => key),
    )
    expect(await store.lastEvent('t')).toMatchObject({ seq: 1 })
    // A value that the server refuses takes the whole commit with it.
    await server.sql(`ALTER TABLE ${schema}.records ADD CONSTRAINT c CHECK (key <> 'k9')`)
    const failed = await failureOf(
      store.commit({ put: [...put.map(([key]) => [key, `${value}!`] as const), ['k9', '']] }),
    )
    expect(failed).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
    await store.recover!()
    expect((await store.get('k0'))?.length).toBe(value.length)
  })

  test('refuses a value over its limit, and stores the commits around it', async () => {
    const store = await open()
    const stored = [
      store.commit({ put: [['a', '1']] }),
      failureOf(store.commit({ put: [['big', 'é'.repeat(postgresLimits.valueBytes / 2 + 1)]] })),
      store.commit({ put: [['b', '1']] }),
    ]
    expect(await Promise.all(stored)).toEqual([true, expect.objectContaining({ reason: 'TOO_LARGE' }), true])
    expect(await store.get('big')).toBeUndefined()
  })

  test('stores the other commits of a group when one comes too late', async () => {
    const store = await open()
    await store.commit({ events: [{ sessionId: 's', seq: 1, body: [1] }] })
    const all = await Promise.all([
      store.commit({ put: [['a', '1']], events: [{ sessionId: 't', seq: 1, body: [1] }] }),
      store.commit({ put: [['a', '2']], events: [{ sessionId: 's', seq: 1, body: [2] }] }),
      store.commit({ put: [['b', '3']], events: [{ sessionId: 't', seq: 2, body: [2] }] }),
    ])
    expect(all).toEqual([true, false, true])
    expect([await store.get('a'), await store.get('b')]).toEqual(['1', '3'])
    expect(await store.lastEvent('t')).toMatchObject({ seq: 2, body: [2] })
  })

  test('rejects a gap and a missing event alone, and stores the commits around them', async () => {
    const store = await open()
    const all = await Promise.all([
      store.commit({ put: [['a', '1']] }),
      failureOf(store.commit({ events: [{ sessionId: 's', seq: 3, body: [] }], del: ['a'] })),
      failureOf(store.commit({ replaceEvents: [{ sessionId: 's', seq: 1, body: [] }], del: ['a'] })),
      store.commit({ put: [['b', '1']] }),
    ])
    expect(all).toEqual([
      true,
      expect.objectContaining({ reason: 'INTERNAL' }),
      expect.objectContaining({ reason: 'INTERNAL' }),
      true,
    ])
    expect([await store.get('a'), await store.get('b')]).toEqual(['1', '1'])
  })

  test('reports a missing or damaged event', async () => {
    const store = await open()
    for (let seq = 1; seq <= 3; seq++) await store.commit({ events: [{ sessionId: 's', seq, body: [seq] }] })
    await server.sql(`UPDATE ${schema}.events SET body = '{' WHERE seq = 3`)
    const read = async (from: number): Promise<unknown> => {
      for await (const page of store.events('s', { from, to: 9 })) return page
      return undefined
    }
    expect(await failureOf(read(3))).toMatchObject({ reason: 'DATA_LOSS', details: { seq: '3' } })
    await server.sql(`UPDATE ${schema}.events SET body = '[]' WHERE seq = 3`)
    await server.sql(`DELETE FROM ${schema}.events WHERE seq = 1`)
    expect(await failureOf(read(1))).toMatchObject({ reason: 'DATA_LOSS', details: { seq: '1' } })
  })

  test('does not keep the process alive, and stores before an engine closes', async () => {
    const storage = postgresStorage({ connectionString: server.connectionString, schema })
    const engine = await openEngine({ storage })
    const session = await engine.sessions.create()
    const written = Promise.all(
      Array.from({ length: 50 }, (_, i) => session.files.write({ path: `/${i}`, content: `${i}` })),
    )
    await engine.close()
    await written
    const again = await openEngine({ storage })
    expect((await (await again.sessions.open(session.id)).files.list({ path: '/' })).entries.length).toBe(50)
    await again.close()
    await again.close()
  })
})

function failureAt(call: () => unknown): unknown {
  try {
    return call()
  } catch (error) {
    return error
  }
}

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
    return undefined
  } catch (error) {
    if (error instanceof EngineError) return error
    throw error
  }
}
