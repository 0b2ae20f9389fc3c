/** Large contents of a store on PostgreSQL in a bucket. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { PutObjectCommand } from '@aws-sdk/client-s3'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import type { Store } from '../../src/engine/ports.js'
import { openEngine } from '../../src/index.js'
import { BlobWorld, content, failureOf, whole } from '../support/blob-world.js'
import { hasPostgres } from '../support/postgres.js'
import { isLong } from '../support/seed.js'

describe.skipIf(!hasPostgres)('contents of a store on PostgreSQL in a bucket', () => {
  let world: BlobWorld

  beforeAll(async () => {
    world = await BlobWorld.start()
  })
  afterAll(() => world.close())
  beforeEach(() => world.begin())
  afterEach(() => world.end())

  test('are objects if they are large', async () => {
    const store = await world.open()
    const [small, large] = [content(999, 1), content(1000, 2)]
    expect(await store.commit({ blobs: [small, large], put: [['a', '1']] })).toBe(true)
    expect(world.objects()).toEqual([expect.stringMatching(`^app/${large.hash}-[0-9a-f-]{36}$`)])
    for (const { hash, bytes } of [small, large]) {
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
      expect(Buffer.from((await store.blob(hash, { offset: 990, length: 50 }))!)).toEqual(bytes.subarray(990))
    }
    expect(await store.listBlobs!('', 9)).toEqual(
      [small, large]
        .map(({ hash, bytes }) => ({ hash, bytes: bytes.length }))
        .toSorted((a, b) => (a.hash < b.hash ? -1 : 1)),
    )
  })

  test('share an object when they are read by parts, and are looked for only once', async () => {
    const store = await world.open()
    const { hash, bytes } = content(5000, 1)
    await store.commit({ blobs: [{ hash, bytes }] })
    world.s3.requests.length = 0
    const parts = await Promise.all(
      [0, 1000, 2000].map((offset) => store.blob(hash, { offset, length: 1000 })),
    )
    expect(Buffer.concat(parts as Buffer[])).toEqual(bytes.subarray(0, 3000))
    expect(world.s3.requests).toHaveLength(1)
  })

  test('are in the database and in objects, in one store', async () => {
    const plain = await world.open({ blobs: undefined })
    const [before, after] = [content(5000, 1), content(5000, 2)]
    await plain.commit({ blobs: [before] })
    await plain.close()
    const store = await world.open()
    await store.commit({ blobs: [before, after] })
    for (const { hash, bytes } of [before, after])
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    expect(await world.rows('SELECT object IS NULL AS plain FROM $.blobs ORDER BY 1')).toEqual([
      { plain: false },
      { plain: true },
    ])
  })

  test('are not stored again if the store has them', async () => {
    const store = await world.open()
    const [first, second] = [content(5000, 1), content(5000, 2)]
    await store.commit({ blobs: [first] })
    expect(await store.commit({ blobs: [first, second], put: [['a', '1']] })).toBe(true)
    expect(world.objects()).toHaveLength(2)
    expect(await store.get('a')).toBe('1')
  })

  test('are stored again if a collection deletes them before the commit', async () => {
    const store = await world.open()
    const { hash, bytes } = content(5000, 1)
    await store.commit({ blobs: [{ hash, bytes }] })
    const blocker = world.postgres.client()
    await blocker.connect()
    await blocker.query(
      `BEGIN; LOCK TABLE ${world.schema}.leases IN ACCESS EXCLUSIVE MODE; DELETE FROM ${world.schema}.blobs`,
    )
    const committed = store.commit({ blobs: [{ hash, bytes }], put: [['a', '1']] })
    await world.waitingFor(`WITH lease%`)
    await blocker.query('COMMIT')
    await blocker.end()
    expect(await committed).toBe(true)
    expect(world.objects()).toHaveLength(2)
    expect(await store.get('a')).toBe('1')
    expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
  })

  test.runIf(isLong)('of a commit above the size of a statement are objects too', async () => {
    const store = await world.open()
    const many = Array.from({ length: 20 }, (_, i) => content(2 ** 20, i))
    const put = Array.from({ length: 40 }, (_, i) => [`k${i}`, 'x'.repeat(2 ** 19)] as const)
    expect(await store.commit({ blobs: many, put })).toBe(true)
    expect(world.objects()).toHaveLength(20)
    for (const { hash, bytes } of many)
      expect(Buffer.compare((await store.blob(hash, whole))!, bytes)).toBe(0)
  })

  test('count for the size of the store', async () => {
    const store = await world.open()
    const before = await store.size!()
    await store.commit({ blobs: [content(2 ** 20, 1)] })
    expect((await store.size!()) - before).toBeGreaterThanOrEqual(2 ** 20)
  })

  test('survive a restart of the engine, and a check reads them', async () => {
    const storage = postgresStorage(world.settings())
    const engine = await openEngine({ storage })
    const text = 'a line\n'.repeat(100_000)
    const { id } = await engine.sessions.create({ files: { '/large': text, '/small': 'x' } })
    await engine.close()
    const again = await openEngine({ storage })
    const session = await again.sessions.open(id)
    expect(await session.fs.promises.readFile('/large', 'utf8')).toBe(text)
    expect(await again.check({ readData: true })).toMatchObject({ findings: [] })
    const [key] = world.objects()
    world.s3.change(world.bucket, key!, (bytes) => Buffer.concat([bytes.subarray(1), bytes.subarray(0, 1)]))
    expect(await again.check({ readData: true })).toMatchObject({
      findings: [{ problem: 'damaged', message: expect.stringContaining('has other bytes') as string }],
    })
    world.s3.change(world.bucket, key!, () => undefined)
    const { findings } = await again.check({ readData: true })
    expect(findings[0]!.message).toContain('its object is not in the bucket')
    await again.close()
  })

  describe('report damage with DATA_LOSS', () => {
    test.each<[string, (bytes: Buffer) => Buffer | undefined, RegExp]>([
      ['a missing object', () => undefined, /is missing: its object is not in the bucket/],
      [
        'another byte',
        (bytes) => Buffer.from(bytes.map((byte, i) => byte ^ Number(i === 0))),
        /has other bytes/,
      ],
      ['a shorter object', (bytes) => bytes.subarray(1), /has other bytes/],
      ['a longer object', (bytes) => Buffer.concat([bytes, bytes]), /is not the one that was stored/],
    ])('for %s', async (_, change, message) => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      world.s3.change(world.bucket, world.objects()[0]!, change)
      const error = await failureOf(store.blob(hash, whole))
      expect(error).toMatchObject({ reason: 'DATA_LOSS' })
      expect(String(error)).toMatch(message)
    })

    test('for an answer that is always damaged on the way', async () => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      world.s3.fail('GET', 'damaged', 'damaged', 'damaged')
      expect(await failureOf(store.blob(hash, whole))).toMatchObject({ reason: 'DATA_LOSS' })
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })
  })

  describe('that are unused', () => {
    const day = postgresLimits.unusedObjectMs

    /** A collection, as if the last one was long ago. */
    async function collect(store: Store): Promise<void> {
      world.s3.age(world.bucket, 2 * day)
      await world.rows(`UPDATE $.objects SET unused_since = unused_since - interval '2 days'`)
      await store.reclaim!({})
    }

    test('are deleted a day after their rows, with the objects of lost commits', async () => {
      const store = await world.open()
      const [kept, gone] = [content(5000, 1), content(5000, 2)]
      await store.commit({ blobs: [kept, gone] })
      const client = world.s3.client()
      // A process was killed before its commit.
      await client.send(
        new PutObjectCommand({ Bucket: world.bucket, Key: `app/${kept.hash}-${randomUUID()}`, Body: '' }),
      )
      await client.send(
        new PutObjectCommand({ Bucket: world.bucket, Key: 'app/notes.txt', Body: 'of the operator' }),
      )
      await store.commit({ deleteBlobs: [gone.hash] })
      expect(await store.blob(gone.hash, whole)).toBeUndefined()
      await store.reclaim!({})
      expect(world.objects()).toHaveLength(4)
      world.s3.age(world.bucket, 2 * day)
      await store.reclaim!({})
      expect(world.objects()).toHaveLength(4)
      world.s3.pageSize = 2
      await collect(store)
      world.s3.pageSize = 1000
      expect(world.objects()).toEqual([expect.stringContaining(kept.hash), 'app/notes.txt'])
      expect(Buffer.from((await store.blob(kept.hash, whole))!)).toEqual(kept.bytes)
      // A commit with the second object could still arrive, so its id stays.
      expect(await world.rows('SELECT size FROM $.objects ORDER BY size')).toEqual([
        { size: 0 },
        { size: 5000 },
      ])
      // The content can come back.
      await store.commit({ blobs: [gone] })
      expect(Buffer.from((await store.blob(gone.hash, whole))!)).toEqual(gone.bytes)
    })

    test('are deleted by collections of an engine, and those in use stay', async () => {
      const engine = await openEngine({ storage: postgresStorage(world.settings()) })
      const files = { '/a': 'a'.repeat(5000), '/b': 'b'.repeat(5000) }
      const kept = await engine.sessions.create({ files: { '/a': files['/a'] } })
      const gone = await engine.sessions.create({ files })
      await gone.delete()
      for (let times = 0; times < 3; times++) {
        world.s3.age(world.bucket, 2 * day)
        await world.rows(`UPDATE $.objects SET unused_since = unused_since - interval '2 days'`)
        const { deletedBlobs } = await engine.collect()
        expect(deletedBlobs).toBe(times === 0 ? 1 : 0)
      }
      expect(world.objects()).toHaveLength(1)
      expect(await engine.check({ readData: true })).toMatchObject({ found: 0 })
      expect(await kept.fs.promises.readFile('/a', 'utf8')).toBe(files['/a'])
      await engine.close()
    })

    test('cannot be committed once a collection has given them up', async () => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      const blocker = world.postgres.client()
      await blocker.connect()
      await blocker.query(`BEGIN; LOCK TABLE ${world.schema}.leases IN ACCESS EXCLUSIVE MODE`)
      const committed = failureOf(store.commit({ blobs: [{ hash, bytes }] }))
      while (world.objects().length === 0) await sleep(2)
      const id = world.objects()[0]!.slice(-36)
      await blocker.query(`INSERT INTO ${world.schema}.objects VALUES ('${id}', 0, clock_timestamp())`)
      await blocker.query('COMMIT')
      expect(await committed).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
      await store.recover!()
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      await collect(store)
      await collect(store)
      expect(world.objects()).toHaveLength(1)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
      // Its commit could still arrive, so its id stays.
      expect(await world.rows('SELECT size FROM $.objects ORDER BY size')).toEqual([
        { size: 0 },
        { size: 5000 },
      ])
      await blocker.end()
    })

    test('stay if a commit that refers to them is under way', async () => {
      const [store, collector] = [await world.open({ shared: true }), await world.open({ shared: true })]
      const { hash, bytes } = content(5000, 1)
      const blocker = world.postgres.client()
      await blocker.connect()
      // The commit has inserted the id of its object, and waits for the record.
      await blocker.query(`BEGIN; INSERT INTO ${world.schema}.records VALUES ('a', '')`)
      const committed = store.commit({ blobs: [{ hash, bytes }], put: [['a', '1']] })
      await world.waitingFor(`WITH lease%`)
      world.s3.age(world.bucket, 2 * day)
      const swept = collector.reclaim!({})
      await world.waitingFor(`INSERT INTO%objects%`)
      await blocker.query('ROLLBACK')
      expect(await committed).toBe(true)
      await swept
      await collect(collector)
      expect(world.objects()).toHaveLength(1)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
      await blocker.end()
    })

    test('are used by the next commit if an event of the first one came too late', async () => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      const event = { sessionId: 'a', seq: 1, body: [] }
      expect(await store.commit({ events: [event] })).toBe(true)
      expect(await store.commit({ events: [event], blobs: [{ hash, bytes }] })).toBe(false)
      expect(await store.blob(hash, whole)).toBeUndefined()
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      expect(world.objects()).toHaveLength(1)
    })

    test('stay if S3 refuses their deletion, and the error says so', async () => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      await store.commit({ deleteBlobs: [hash] })
      await collect(store)
      for (const fault of ['partial', 'AccessDenied'] as const) {
        world.s3.fail('POST', fault)
        const error = await failureOf(collect(store))
        expect(error).toMatchObject({ reason: 'PERMISSION_DENIED' })
        expect(String(error)).toContain('unused contents could not be deleted')
        expect(world.objects()).toHaveLength(1)
        await collect(store)
      }
      expect(world.objects()).toEqual([])
    })

    test('are kept while a collection is aborted', async () => {
      const store = await world.open()
      await store.commit({ blobs: [content(5000, 1)] })
      const reason = new Error('enough')
      expect(await failureOf(store.reclaim!({ signal: AbortSignal.abort(reason) }))).toBe(reason)
    })
  })
})
