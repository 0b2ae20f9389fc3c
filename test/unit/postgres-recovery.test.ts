/** Lost connections, servers that are killed, and leases that are taken over. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import type { Store } from '../../src/engine/ports.js'
import { EngineError, openEngine } from '../../src/index.js'
import { PostgresCluster } from '../support/postgres-cluster.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { freshSchema, hasPostgres, PostgresServer, sharedPostgres } from '../support/postgres.js'
import { isLong } from '../support/seed.js'

describe.skipIf(!hasPostgres)('a store on PostgreSQL', () => {
  let server: PostgresServer
  let proxy: PostgresProxy
  let schema: string
  const stores = new Set<Store>()
  const clients = new Set<pg.Client>()

  beforeEach(async () => {
    server = await sharedPostgres()
    proxy = await new PostgresProxy(server.socket).listen()
    schema = freshSchema()
  })
  afterEach(async () => {
    for (const client of clients) await client.end()
    for (const store of stores) await store.close()
    stores.clear()
    clients.clear()
    await proxy.close()
  })

  async function open(options: Partial<PostgresStorageOptions> = {}): Promise<Store> {
    const connectionString = proxy.connectionString
    const store = await postgresStorage({ connectionString, schema, ...options }).open()
    stores.add(store)
    return store
  }

  /** Another connection to the server, without the proxy. */
  async function connected(): Promise<pg.Client> {
    const client = server.client()
    await client.connect()
    clients.add(client)
    return client
  }

  /** Lets commits of the record `a` wait until the returned function is called. They have the lease by then. */
  async function blockRecord(): Promise<() => Promise<void>> {
    const client = await connected()
    await client.query(`BEGIN; SELECT FROM ${schema}.records WHERE key = 'a' FOR UPDATE`)
    return async () => {
      await client.query('COMMIT')
    }
  }

  /** Waits until this many statements wait for a lock. */
  async function waiting(count: number): Promise<void> {
    const client = await connected()
    const text = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`
    for (let tries = 0; tries < 2000; tries++) {
      const { rows } = await client.query<{ count: number }>(text, [`%${schema}%`])
      if (rows[0]!.count >= count) return
      await sleep(5)
    }
    throw new Error('no statement waits')
  }

  const put = (key: string, value: string): Parameters<Store['commit']>[0] => ({ put: [[key, value]] })

  test('rejects the commits of a terminated connection, and continues after a recovery', async () => {
    const store = await open()
    await store.commit(put('a', '1'))
    const unblock = await blockRecord()
    const [first, second] = [store.commit(put('a', '2')), settledSoon(store, put('b', '2'))]
    const failed = failureOf(first)
    await waiting(1)
    await server.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`,
      [`%"${schema}"%`],
    )
    expect(await failed).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'unknown' } })
    expect(await second).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
    expect(await failureOf(store.commit(put('c', '2')))).toMatchObject({
      reason: 'STORE_FAILED',
      details: { outcome: 'not-applied' },
    })
    expect(await store.get('a')).toBe('1')
    await unblock()
    await store.recover!()
    expect([await store.get('a'), await store.get('b'), await store.get('c')]).toEqual([
      '1',
      undefined,
      undefined,
    ])
    expect(await store.commit(put('a', '3'))).toBe(true)
    expect(await store.get('a')).toBe('3')
  })

  /** A store whose connection was lost during a commit of `a`. Its statement still waits on the server. */
  async function cutInCommit(): Promise<{ store: Store; unblock: () => Promise<void> }> {
    const store = await open()
    await store.commit(put('a', '1'))
    const unblock = await blockRecord()
    const failed = failureOf(store.commit(put('a', '2')))
    await waiting(1)
    proxy.cut()
    expect(await failed).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'unknown' } })
    return { store, unblock }
  }

  test('waits in a recovery for a statement of the lost connection', async () => {
    const { store, unblock } = await cutInCommit()
    const recovered = store.recover!()
    await waiting(2)
    await unblock()
    await recovered
    // The statement was stored before the recovery ended, so this read is final.
    expect(await store.get('a')).toBe('2')
  })

  test('recovers although the result of an earlier recovery was lost', async () => {
    const { store, unblock } = await cutInCommit()
    await unblock()
    await server.sql(`UPDATE ${schema}.leases SET token = token + 1`)
    await store.recover!()
    expect(await store.commit(put('a', '3'))).toBe(true)
    expect(await store.get('a')).toBe('3')
  })

  test('reports a violation of an added index as a failed write', async () => {
    const store = await open()
    await server.sql(`CREATE UNIQUE INDEX ON ${schema}.records (value)`)
    await store.commit(put('a', '1'))
    expect(await failureOf(store.commit(put('b', '1')))).toMatchObject({
      reason: 'STORE_FAILED',
      details: { outcome: 'not-applied' },
    })
    await store.recover!()
    expect(await store.get('b')).toBe(undefined)
  })

  test('ignores a statement that reaches the server after the recovery', async () => {
    const store = await open()
    await store.commit(put('a', '1'))
    const held = proxy.hold()
    const failed = failureOf(store.commit({ ...put('a', '2'), del: ['gone'] }))
    await held
    const deliver = proxy.cutClients()
    expect(await failed).toMatchObject({ details: { outcome: 'unknown' } })
    await store.recover!()
    expect(await store.get('a')).toBe('1')
    await deliver()
    expect(await store.get('a')).toBe('1')
    expect(await store.commit(put('a', '3'))).toBe(true)
    expect(await store.get('a')).toBe('3')
  })

  test('stores nothing for an owner that a crash of the server forgot, even if the next one has the same token', async () => {
    const store = await open()
    await store.commit(put('a', '1'))
    await server.sql(
      `UPDATE ${schema}.leases SET owner = NULL, token = token - 1, expires_at = clock_timestamp()`,
    )
    const next = await open()
    expect(await next.commit(put('a', '2'))).toBe(true)
    expect(await failureOf(store.commit(put('a', '3')))).toMatchObject({ reason: 'STORE_TAKEN' })
    expect(await next.get('a')).toBe('2')
  })

  test('replaces a connection that was lost while nothing was written', async () => {
    const store = await open()
    await store.commit(put('a', '1'))
    await server.sql(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'forkspace'`,
    )
    // The end of a connection arrives with the next turns of the event loop.
    await sleep(50)
    expect(await store.get('a')).toBe('1')
    expect(await store.commit(put('a', '2'))).toBe(true)
  })

  test('loses nothing when the server is killed, and continues after its restart', async () => {
    const own = await PostgresServer.start()
    try {
      const storage = postgresStorage({ connectionString: own.connectionString })
      const engine = await openEngine({ storage })
      const session = await engine.sessions.create()
      const acknowledged = new Set<number>()
      const failures: unknown[] = []
      const write = async (n: number): Promise<void> => {
        try {
          await session.files.write({ path: `/${n}`, content: `${n}` })
          acknowledged.add(n)
        } catch (error) {
          failures.push(error)
        }
      }
      let n = 0
      const writers = Array.from({ length: 8 }, async () => {
        while (failures.length === 0) await write(n++)
      })
      while (acknowledged.size < 100) await sleep(5)
      await own.kill()
      await Promise.all(writers)
      expect(failures.length).toBeGreaterThan(0)
      for (const failure of failures) expect(failure).toMatchObject({ reason: 'STORE_FAILED' })
      const rejected = await failureOf(session.files.write({ path: '/late', content: '' }))
      expect(rejected).toMatchObject({ reason: 'STORE_FAILED' })
      await own.start()
      const until = Date.now() + 20_000
      while ((await failureOf(session.files.write({ path: '/resumed', content: '' }))) !== undefined) {
        expect(Date.now()).toBeLessThan(until)
        await sleep(20)
      }
      for (const each of acknowledged) await session.files.read({ path: `/${each}` })
      await engine.close()
      const reopened = await openEngine({ storage })
      const again = await reopened.sessions.open(session.id)
      for (const each of acknowledged)
        expect(Buffer.from(await again.files.read({ path: `/${each}` })).toString()).toBe(`${each}`)
      expect((await reopened.check()).findings).toEqual([])
      await reopened.close()
    } finally {
      await own.remove()
    }
  })

  test('refuses a second engine, and names the first one', async () => {
    await open({ leaseSeconds: 60 })
    const refused = await failureOf(open())
    expect(refused).toMatchObject({
      reason: 'STORE_LOCKED',
      details: { pid: String(process.pid), expiresInSeconds: expect.stringMatching(/^\d+$/) as string },
    })
    expect(String(refused)).toMatch(
      /This process has that number: .* If the process that opened it has ended, its lease expires in \d+ seconds/,
    )
  })

  test('waits no longer than its duration for a lease if the clock of the server has gone back', async () => {
    const killed = await open({ leaseSeconds: 60 })
    await server.sql(
      `UPDATE ${schema}.leases SET since = since + interval '1 day', expires_at = expires_at + interval '1 day'`,
    )
    const refused = await failureOf(open({ leaseSeconds: 1 }))
    expect(refused).toMatchObject({ reason: 'STORE_LOCKED' })
    const { expiresInSeconds } = (refused as EngineError).details
    expect(Number(expiresInSeconds)).toBeGreaterThan(0)
    expect(Number(expiresInSeconds)).toBeLessThanOrEqual(60)
    // Meanwhile the engine has its lease.
    expect(await killed.commit(put('a', '1'))).toBe(true)
  })

  test('gives the lease back when it is closed', async () => {
    const first = await open({ leaseSeconds: 3600 })
    await first.close()
    expect(await (await open()).commit(put('a', '1'))).toBe(true)
  })

  test('gives the lease back when it is closed after a failed commit', async () => {
    const store = await open({ leaseSeconds: 3600 })
    await server.sql(`ALTER TABLE ${schema}.records ADD CONSTRAINT c CHECK (key <> 'a')`)
    expect(await failureOf(store.commit(put('a', '1')))).toMatchObject({ reason: 'STORE_FAILED' })
    await store.close()
    expect(await (await open()).commit(put('b', '1'))).toBe(true)
  })

  test('reads sessions again when a crash of the server lost operations with relaxed durability', async () => {
    const own = await PostgresServer.start(['wal_writer_delay=10000'])
    try {
      const storage = postgresStorage({ connectionString: own.connectionString, durability: 'relaxed' })
      const engine = await openEngine({ storage })
      const session = await engine.sessions.create()
      await session.files.write({ path: '/kept', content: 'kept' })
      await own.sql('CHECKPOINT')
      await session.files.write({ path: '/lost', content: 'lost' })
      await own.kill()
      await own.start()
      const until = Date.now() + 20_000
      let fork = await session.fork().catch(ignore)
      while (fork === undefined) {
        expect(Date.now()).toBeLessThan(until)
        await sleep(20)
        fork = await session.fork().catch(ignore)
      }
      const { entries } = await session.files.list({ path: '/' })
      expect((await fork.files.list({ path: '/' })).entries.length).toBe(entries.length)
      expect(entries.map(({ name }) => name)).toContain('kept')
      await session.files.write({ path: '/after', content: 'after' })
      expect((await engine.check()).findings).toEqual([])
      await engine.close()
    } finally {
      await own.remove()
    }
  })

  test.runIf(isLong)(
    'a collection deletes no files of a session whose deletion a crash of the server has lost',
    async () => {
      const own = await PostgresServer.start(['wal_writer_delay=10000', 'full_page_writes=off'])
      try {
        const storage = postgresStorage({
          connectionString: own.connectionString,
          durability: 'relaxed',
        })
        let onSweep = (): Promise<void> => Promise.resolve()
        const opened = await storage.open()
        const store = new Proxy(opened, {
          get: (_target, name) => {
            const value: unknown = Reflect.get(opened, name)
            if (typeof value !== 'function') return value
            if (name !== 'listBlobs') return value.bind(opened) as unknown
            return async (...args: unknown[]) => {
              await onSweep()
              return Reflect.apply(value, opened, args) as unknown
            }
          },
        })
        const engine = await openEngine({ storage: { open: () => Promise.resolve(store) } })
        const session = await engine.sessions.create({ files: { '/file': 'file' } })
        await own.sql('CHECKPOINT')
        // The server writes each full page of its log. The deletion and the collection fit in one.
        await own.sql('SELECT pg_switch_wal()')
        await session.delete()
        let crashes = 0
        onSweep = async () => {
          if (crashes++ > 0) return
          await own.kill()
          await own.start()
          for (let made; made === undefined;) made = await engine.sessions.create().catch(ignore)
        }
        expect(await failureOf(engine.collect())).toMatchObject({
          reason: 'STORE_FAILED',
          details: { outcome: 'not-applied' },
        })
        const again = await engine.sessions.open(session.id)
        expect(await again.fs.promises.readFile('/file', 'utf8')).toBe('file')
        expect((await engine.check({ readData: true })).findings).toEqual([])
        await again.delete()
        expect((await engine.collect()).deletedBlobs).toBe(1)
        await engine.close()
      } finally {
        await own.remove()
      }
    },
  )

  test('reads sessions again when a promoted standby lacks acknowledged operations', async () => {
    const cluster = await PostgresCluster.start({ synchronous: false })
    try {
      const storage = postgresStorage({ connectionString: cluster.proxy.connectionString })
      const engine = await openEngine({ storage })
      const session = await engine.sessions.create()
      await session.files.write({ path: '/kept', content: 'kept' })
      await cluster.caughtUp()
      await cluster.failOver(() => session.files.write({ path: '/lost', content: 'lost' }))
      // The end of a connection arrives with the next turns of the event loop.
      await sleep(50)
      const refused = await failureOf(session.files.write({ path: '/after', content: 'after' }))
      expect(refused).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
      expect(String(refused)).toMatch(/standby was promoted/)
      await session.files.write({ path: '/after', content: 'after' })
      const { entries } = await session.files.list({ path: '/' })
      expect(entries.map(({ name }) => name)).toEqual(['after', 'kept'])
      await session.events.verify({})
      expect((await engine.check()).findings).toEqual([])
      await engine.close()
    } finally {
      await cluster.close()
    }
  })

  test('renews its lease', async () => {
    await open({ leaseSeconds: 1 })
    await renewals()
    expect(await failureOf(open())).toMatchObject({ reason: 'STORE_LOCKED' })
  })

  test('renews its lease on a server whose transactions are read-only by default', async () => {
    const setting = encodeURIComponent('-c default_transaction_read_only=on')
    const store = await open({
      connectionString: `${server.connectionString}&options=${setting}`,
      leaseSeconds: 1,
    })
    await renewals()
    expect(await store.commit(put('a', '1'))).toBe(true)
  })

  test('renews its lease, and closes, while the caller uses all other connections of its pool', async () => {
    const pool = new pg.Pool({ host: server.directory, user: 'postgres', database: 'postgres', max: 2 })
    const store = await postgresStorage({ pool, schema, leaseSeconds: 1 }).open()
    stores.add(store)
    const used = await pool.connect()
    try {
      await renewals()
      expect(await store.commit(put('a', '1'))).toBe(true)
      await store.close()
    } finally {
      used.release()
    }
    await pool.end()
  })

  test('lets another engine take an expired lease, and stores nothing more for the former owner', async () => {
    const first = await open({ leaseSeconds: 60 })
    await first.commit(put('a', '1'))
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp() - interval '1 second'`)
    const second = await open({ leaseSeconds: 60 })
    for (let times = 0; times < 2; times++) {
      expect(await failureOf(first.commit(put('a', '2')))).toMatchObject({
        reason: 'STORE_TAKEN',
        details: { outcome: 'not-applied' },
      })
      expect(await failureOf(first.recover!())).toMatchObject({ reason: 'STORE_TAKEN' })
    }
    expect(await second.get('a')).toBe('1')
    expect(await second.commit(put('a', '3'))).toBe(true)
    await first.close()
    // The end of the former owner leaves the lease of the new one.
    expect(await failureOf(open())).toMatchObject({ reason: 'STORE_LOCKED' })
    expect(await second.commit(put('a', '4'))).toBe(true)
  })

  test('makes an engine that takes the lease wait for a commit under way', async () => {
    const first = await open({ leaseSeconds: 60 })
    await first.commit(put('a', '1'))
    const unblock = await blockRecord()
    const pending = first.commit(put('a', '2'))
    await waiting(1)
    const late = failureOf(first.commit(put('a', '3')))
    const expiring = server.sql(
      `UPDATE ${schema}.leases SET expires_at = clock_timestamp() - interval '1 second'`,
    )
    await waiting(2)
    await unblock()
    expect(await pending).toBe(true)
    await expiring
    const second = await open()
    // The second commit came either before the takeover or never.
    expect(await second.get('a')).toBe((await late) === undefined ? '3' : '2')
    expect(await failureOf(first.commit(put('a', '4')))).toMatchObject({ reason: 'STORE_TAKEN' })
  })

  test('tells an engine that its lease was taken', async () => {
    const storage = postgresStorage({ connectionString: server.connectionString, schema })
    const engine = await openEngine({ storage })
    const session = await engine.sessions.create()
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp() - interval '1 second'`)
    const other = await openEngine({ storage })
    for (let times = 0; times < 3; times++)
      expect(await failureOf(session.files.write({ path: '/a', content: '' }))).toMatchObject({
        reason: 'STORE_TAKEN',
        details: { outcome: 'not-applied' },
      })
    expect(await session.files.list({ path: '/' })).toMatchObject({ entries: [] })
    await engine.close()
    await (await other.sessions.open(session.id)).files.write({ path: '/b', content: '' })
    await other.close()
  })

  /** Waits for two renewals of the lease. */
  async function renewals(): Promise<void> {
    for (let count = 0, last = await expiry(); count < 2;) {
      const now = await expiry()
      if (now !== last) count++
      last = now
      await sleep(20)
    }
  }

  async function expiry(): Promise<string> {
    const [row] = await server.sql(`SELECT expires_at::text FROM ${schema}.leases`)
    return String(row!['expires_at'])
  }
})

/** The failure of a commit that is made now, so that it waits for the one before it. */
async function settledSoon(store: Store, commit: Parameters<Store['commit']>[0]): Promise<unknown> {
  await new Promise((resolve) => setImmediate(resolve))
  return failureOf(store.commit(commit))
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

function ignore(): undefined {
  return undefined
}
