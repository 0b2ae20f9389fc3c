/** Epochs, pins and the right to collect of a store on PostgreSQL, with several stores on one schema. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import type { SharedStore, Store } from '../../src/engine/ports.js'
import { BlobWorld, content } from '../support/blob-world.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'

/** A node whose key is its address. */
const node = (address: string): [string, string] => [`n${address}`, '[0,[]]']

interface Shared extends Store {
  readonly shared: SharedStore
}

describe.skipIf(!hasPostgres)('a collection of a schema', () => {
  const open: Store[] = []
  let server: PostgresServer
  let schema: string

  beforeEach(async () => {
    server = await sharedPostgres()
    schema = freshSchema()
  })
  afterEach(async () => {
    for (const store of open.splice(0)) await store.close()
  })

  async function openShared(): Promise<Shared> {
    const { connectionString } = server
    const store = await postgresStorage({ connectionString, schema, shared: true }).open()
    open.push(store)
    return store as Shared
  }

  const acknowledge = async ({ shared }: Shared): Promise<boolean> =>
    shared.publish((await shared.epoch()).epoch, [], { acknowledges: true })

  const epochOf = async ({ shared }: Shared): Promise<number> => {
    const [row] = await server.sql(
      `SELECT epoch::int FROM ${schema}.leases WHERE name = 'engine:${shared.engineId}'`,
    )
    return Number(row?.['epoch'])
  }

  const expire = (store: Shared): Promise<unknown> =>
    server.sql(
      `UPDATE ${schema}.leases SET expires_at = clock_timestamp() WHERE name = 'engine:${store.shared.engineId}'`,
    )

  test('keeps what any engine stored or used again since its acknowledgement', async () => {
    const [a, b] = [await openShared(), await openShared()]
    const [used, unused] = [content(10, 1), content(10, 2)]
    await b.commit({ blobs: [used, unused], put: [node('1'), node('2')] })
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    await acknowledge(a)
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: false, endedEngines: 0 })
    await acknowledge(b)
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 0 })
    await b.commit({ blobs: [used], put: [node('1')] })
    const swept = await a.shared.sweep({ nodes: ['n1', 'n2'], blobs: [used.hash, unused.hash] }, epoch)
    expect(swept).toEqual(new Set(['n2', unused.hash]))
    expect(await b.get('n1')).toBe('[0,[]]')
    expect(await b.get('n2')).toBeUndefined()
    await a.shared.endCollection()
  })

  test('keeps a row that a statement under way is about to use', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await b.commit({ put: [node('1')] })
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    await acknowledge(a)
    await acknowledge(b)
    // A statement of `b` has changed the row, and its transaction has not ended.
    const client = server.client()
    await client.connect()
    await client.query(`BEGIN; UPDATE ${schema}.nodes SET epoch = ${epoch}`)
    const swept = a.shared.sweep({ nodes: ['n1'] }, epoch)
    await expect
      .poll(() => server.sql(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'`))
      .not.toEqual([])
    await client.query('COMMIT')
    await client.end()
    expect(await swept).toEqual(new Set())
  })

  test('stores and deletes nothing after another engine has ended it, even with a new lease', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.commit({ put: [node('1'), ['a', '1']] })
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    expect(await a.commit({ put: [['b', '1']], collecting: true })).toBe(true)
    await acknowledge(a)
    await expire(a)
    expect(await b.shared.epoch()).toEqual({ epoch, stage: 'none' })
    await expect(a.commit({})).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await a.recover!()
    const refused = {
      reason: 'STORE_FAILED',
      message: expect.stringMatching(/lost the right to collect/) as string,
    }
    await expect(a.shared.sweep({ nodes: ['n1'] }, epoch)).rejects.toMatchObject(refused)
    await expect(a.shared.nextEpoch('roots')).rejects.toMatchObject(refused)
    await expect(a.shared.acknowledgement(epoch)).rejects.toMatchObject(refused)
    // A commit that is no part of the collection is stored.
    const outcomes = [
      a.commit({ del: ['a'], collecting: true }),
      a.commit({ put: [['c', '1']] }),
      a.commit({ put: [['d', '1']], collecting: true }),
    ]
    expect(await Promise.all(outcomes)).toEqual([false, true, false])
    expect(await Promise.all(['a', 'b', 'c', 'd', 'n1'].map((key) => a.get(key)))).toEqual([
      '1',
      '1',
      '1',
      undefined,
      '[0,[]]',
    ])
    // The end of the old collection does not end the one of another engine.
    await b.shared.beginCollection()
    await a.shared.endCollection()
    expect(await b.shared.nextEpoch('history')).toBe(epoch + 1)
  })

  test('deletes nothing with a lease that is over, although no other engine has noticed', async () => {
    const a = await openShared()
    await a.commit({ put: [node('1')] })
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    await expire(a)
    await expect(a.shared.sweep({ nodes: ['n1'] }, epoch)).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect(await server.sql(`SELECT FROM ${schema}.nodes`)).toHaveLength(1)
  })

  test('an acknowledgement of an earlier epoch that arrives late changes nothing', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const first = await a.shared.nextEpoch('history')
    expect(await acknowledge(b)).toBe(true)
    const second = await a.shared.nextEpoch('references')
    expect(await acknowledge(b)).toBe(true)
    expect(await b.shared.publish(first, ['late'], { acknowledges: true })).toBe(false)
    expect(await epochOf(b)).toBe(second)
    expect(b.shared.acknowledged).toBe(second)
    for await (const page of a.shared.pins(0)) expect(page).not.toContain('late')
  })

  test('an engine whose lease is over acknowledges nothing, although no other engine has noticed', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const first = await a.shared.nextEpoch('history')
    expect(await acknowledge(b)).toBe(true)
    const second = await a.shared.nextEpoch('references')
    await expire(b)
    expect(await b.shared.publish(second, ['late'], { acknowledges: true })).toBe(false)
    expect(await epochOf(b)).toBe(first)
    expect(b.shared.acknowledged).toBe(first)
    for await (const page of a.shared.pins(0)) expect(page).not.toContain('late')
  })

  test('an engine that did not acknowledge before its lease ended continues no more', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('history')
    await acknowledge(a)
    await expire(b)
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 1 })
    await expect(b.commit({ put: [['a', '1']] })).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await expect(b.recover!()).rejects.toMatchObject({ reason: 'STORE_TAKEN' })
  })

  test('an engine continues if its lease ended and no epoch began since its last one', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('history')
    await acknowledge(a)
    await acknowledge(b)
    await expire(b)
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 1 })
    await expect(b.commit({})).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await b.recover!()
    expect(await b.commit({ put: [['a', '1']] })).toBe(true)
    expect(await epochOf(b)).toBe(epoch)
  })

  test('an engine whose lease ended takes it again before the collection goes on, and is waited for', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('history')
    await acknowledge(a)
    await expire(b)
    await expect(b.commit({})).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await b.recover!()
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: false, endedEngines: 0 })
    await acknowledge(b)
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 0 })
  })

  test('an engine that joins has the newest epoch, and knows its stage', async () => {
    const a = await openShared()
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    await acknowledge(a)
    const b = await openShared()
    expect(b.shared.joined).toEqual({ epoch, stage: 'references' })
    expect(await epochOf(b)).toBe(epoch)
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 0 })
    await b.commit({ put: [node('1')] })
    expect(await a.shared.sweep({ nodes: ['n1'] }, epoch)).toEqual(new Set())
  })

  test('learns that an engine was closed, because it has not got the last notes of that engine', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    await acknowledge(a)
    await acknowledge(b)
    await b.close()
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 1 })
    expect(await a.shared.acknowledgement(epoch)).toEqual({ isComplete: true, endedEngines: 0 })
    await a.shared.endCollection()
    const c = await openShared()
    await c.close()
    expect(await server.sql(`SELECT FROM ${schema}.leases WHERE name LIKE 'engine:%'`)).toHaveLength(1)
  })

  /** Cuts the connection of a statement that waits for a lock, and gives the lock back. */
  async function cutWhile(lock: string, statement: string, call: () => Promise<unknown>): Promise<unknown> {
    const client = server.client()
    await client.connect()
    await client.query(`BEGIN; ${lock}`)
    const outcome = call().catch((error: unknown) => error)
    const waiting = `FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '${statement}'`
    await expect.poll(() => server.sql(`SELECT pid ${waiting}`)).toHaveLength(1)
    await server.sql(`SELECT pg_terminate_backend(pid) ${waiting}`)
    await client.query('COMMIT')
    await client.end()
    return outcome
  }

  const owner = (): Promise<unknown> => server.sql(`SELECT owner, stage FROM ${schema}.collections`)

  test('gives the right to collect back later, if that failed at first', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('roots')
    const failed = await cutWhile(`SELECT FROM ${schema}.collections FOR UPDATE`, 'WITH ended AS%', () =>
      a.shared.endCollection(),
    )
    expect(failed).toMatchObject({ reason: 'STORE_FAILED' })
    expect(await owner()).toEqual([{ owner: a.shared.engineId, stage: 'roots' }])
    expect(await a.shared.epoch()).toEqual({ epoch, stage: 'none' })
    await b.shared.beginCollection()
    expect(await a.shared.epoch()).toEqual({ epoch, stage: 'none' })
    expect(await b.shared.nextEpoch('history')).toBe(epoch + 1)
  })

  test('gives the right to collect back that it got with a call that failed', async () => {
    const [a, b] = [await openShared(), await openShared()]
    const failed = await cutWhile(`LOCK TABLE ${schema}.pins`, 'DELETE FROM%pins%', () =>
      a.shared.beginCollection(),
    )
    expect(failed).toMatchObject({ reason: 'STORE_FAILED' })
    expect(await owner()).toEqual([{ owner: a.shared.engineId, stage: 'none' }])
    await a.shared.epoch()
    await b.shared.beginCollection()
    expect(await owner()).toEqual([{ owner: b.shared.engineId, stage: 'none' }])
  })

  test('a set of several statements uses stored contents in one order, whatever their order in the commit', async () => {
    const a = await openShared()
    const blobs = Array.from({ length: 20 }, (_, n) => content(1_000_000, n)).toSorted((x, y) =>
      x.hash < y.hash ? -1 : 1,
    )
    const [first, last] = [blobs[0], blobs.at(-1)].map((blob) => `hash = '\\x${blob?.hash}'`)
    await a.commit({ blobs })
    const client = server.client()
    await client.connect()
    await client.query(`BEGIN; SELECT FROM ${schema}.blobs WHERE ${last} FOR UPDATE`)
    const stored = a.commit({ blobs: blobs.toReversed() })
    await expect
      .poll(() => server.sql(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'`), {
        timeout: 20_000,
      })
      .not.toEqual([])
    // The statement that waits for the last content has the first one already.
    expect(await server.sql(`SELECT FROM ${schema}.blobs WHERE ${first} FOR UPDATE SKIP LOCKED`)).toEqual([])
    await client.query('COMMIT')
    await client.end()
    expect(await stored).toBe(true)
  })

  test('pins are read in the order of their publication, and end with the collection', async () => {
    const [a, b] = [await openShared(), await openShared()]
    await a.shared.beginCollection()
    const first = await a.shared.nextEpoch('references')
    const texts = Array.from({ length: 150 }, (_, n) => `pin ${n} é`)
    expect(await b.shared.publish(first, texts, { acknowledges: false })).toBe(true)
    const second = await a.shared.nextEpoch('roots')
    expect(await b.shared.publish(second, ['last'], { acknowledges: true })).toBe(true)
    const read = async (since: number): Promise<string[]> => {
      const found: string[] = []
      for await (const page of a.shared.pins(since)) found.push(...page)
      return found
    }
    expect(await read(first)).toEqual([...texts, 'last'])
    expect(await read(second)).toEqual(['last'])
    await a.shared.endCollection()
    expect(await server.sql(`SELECT FROM ${schema}.pins`)).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('a collection of a schema with a bucket', () => {
  let world: BlobWorld
  beforeAll(async () => {
    world = await BlobWorld.start()
  })
  afterAll(() => world.close())
  beforeEach(() => world.begin())
  afterEach(() => world.end())

  test('keeps a large content that a commit uses without storing it again', async () => {
    const [a, b] = [
      (await world.open({ shared: true })) as Shared,
      (await world.open({ shared: true })) as Shared,
    ]
    const [used, unused] = [content(5000, 1), content(5000, 2)]
    await b.commit({ blobs: [used, unused] })
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    for (const { shared } of [a, b]) await shared.publish(epoch, [], { acknowledges: true })
    expect(await b.commit({ blobs: [used], put: [['a', '1']] })).toBe(true)
    expect(world.objects()).toHaveLength(2)
    expect(await a.shared.sweep({ blobs: [used.hash, unused.hash] }, epoch)).toEqual(new Set([unused.hash]))
    // A deletion after the look for known contents makes the statement store nothing, and be sent again.
    expect(await b.commit({ blobs: [unused, used], put: [['b', '1']] })).toBe(true)
    expect(await a.listBlobs!('', 9)).toEqual(
      [used, unused]
        .map(({ hash, bytes }) => ({ hash, bytes: bytes.length }))
        .toSorted((x, y) => (x.hash < y.hash ? -1 : 1)),
    )
    await a.shared.endCollection()
  })

  test('stores a known content again that it deletes before the commit', async () => {
    const [a, b] = [
      (await world.open({ shared: true })) as Shared,
      (await world.open({ shared: true })) as Shared,
    ]
    const { hash, bytes } = content(5000, 1)
    await b.commit({ blobs: [{ hash, bytes }] })
    await a.shared.beginCollection()
    const epoch = await a.shared.nextEpoch('references')
    for (const { shared } of [a, b]) await shared.publish(epoch, [], { acknowledges: true })
    const blocker = world.postgres.client()
    await blocker.connect()
    await blocker.query(
      `BEGIN; LOCK TABLE ${world.schema}.leases IN ACCESS EXCLUSIVE MODE; DELETE FROM ${world.schema}.blobs`,
    )
    const committed = b.commit({ blobs: [{ hash, bytes }], put: [['a', '1']], collecting: false })
    await world.waitingFor(`WITH lease%`)
    await blocker.query('COMMIT')
    await blocker.end()
    expect(await committed).toBe(true)
    expect(await a.shared.sweep({ blobs: [hash] }, epoch)).toEqual(new Set())
    expect(Buffer.from((await a.blob(hash, { offset: 0, length: 9999 }))!)).toEqual(bytes)
  })
})
