/** Large contents of a store on PostgreSQL in a bucket. */
import { createHash, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PutObjectCommand } from '@aws-sdk/client-s3'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import { s3Blobs, type S3BlobsOptions } from '../../src/adapters/s3/index.js'
import type { Store } from '../../src/engine/ports.js'
import { openEngine } from '../../src/index.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'
import { S3Server, s3ClientOf } from '../support/s3-server.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

describe.skipIf(!hasPostgres)('contents of a store on PostgreSQL in a bucket', () => {
  const directory = mkdtempSync(join(temporaryDirectory(), 's3-'))
  let server: PostgresServer
  let s3: S3Server
  let schema: string
  let bucket: string
  const stores = new Set<Store>()

  beforeAll(async () => {
    server = await sharedPostgres()
    s3 = await S3Server.start(directory)
  })
  afterAll(async () => {
    await s3.close()
    rmSync(directory, { recursive: true })
  })
  beforeEach(() => {
    schema = freshSchema()
    bucket = `b-${schema}`
    s3.createBucket(bucket)
  })
  afterEach(async () => {
    for (const store of stores) await store.close()
    stores.clear()
  })

  function blobs(options: Partial<S3BlobsOptions> = {}): ReturnType<typeof s3Blobs> {
    return s3Blobs({ client: s3.client(), bucket, prefix: 'app/', minBytes: 1000, ...options })
  }

  type Options = { [Name in keyof PostgresStorageOptions]?: PostgresStorageOptions[Name] | undefined }

  async function open(options: Options = {}): Promise<Store> {
    const { connectionString } = server
    const settings = { connectionString, schema, blobs: blobs(), ...options }
    const store = await postgresStorage(settings as PostgresStorageOptions).open()
    stores.add(store)
    return store
  }

  const mark = 'app/forkspace-store'
  const objects = (): string[] => s3.keys(bucket).filter((key) => key !== mark)

  test('are objects if they are large', async () => {
    const store = await open()
    const [small, large] = [content(999, 1), content(1000, 2)]
    expect(await store.commit({ blobs: [small, large], put: [['a', '1']] })).toBe(true)
    expect(objects()).toEqual([expect.stringMatching(`^app/${large.hash}-[0-9a-f-]{36}$`)])
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
    const store = await open()
    const { hash, bytes } = content(5000, 1)
    await store.commit({ blobs: [{ hash, bytes }] })
    s3.requests.length = 0
    const parts = await Promise.all(
      [0, 1000, 2000].map((offset) => store.blob(hash, { offset, length: 1000 })),
    )
    expect(Buffer.concat(parts as Buffer[])).toEqual(bytes.subarray(0, 3000))
    expect(s3.requests).toHaveLength(1)
  })

  test('are in the database and in objects, in one store', async () => {
    const plain = await open({ blobs: undefined })
    const [before, after] = [content(5000, 1), content(5000, 2)]
    await plain.commit({ blobs: [before] })
    await plain.close()
    const store = await open()
    await store.commit({ blobs: [before, after] })
    for (const { hash, bytes } of [before, after])
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    expect(await rows('SELECT object IS NULL AS plain FROM $.blobs ORDER BY 1')).toEqual([
      { plain: false },
      { plain: true },
    ])
  })

  test('are not stored again if the store has them', async () => {
    const store = await open()
    const [first, second] = [content(5000, 1), content(5000, 2)]
    await store.commit({ blobs: [first] })
    expect(await store.commit({ blobs: [first, second], put: [['a', '1']] })).toBe(true)
    expect(objects()).toHaveLength(2)
    expect(await store.get('a')).toBe('1')
  })

  test('are stored again if a collection deletes them before the commit', async () => {
    const store = await open()
    const { hash, bytes } = content(5000, 1)
    await store.commit({ blobs: [{ hash, bytes }] })
    const blocker = server.client()
    await blocker.connect()
    await blocker.query(
      `BEGIN; LOCK TABLE ${schema}.leases IN ACCESS EXCLUSIVE MODE; DELETE FROM ${schema}.blobs`,
    )
    const committed = store.commit({ blobs: [{ hash, bytes }], put: [['a', '1']] })
    await waitingFor(`WITH lease%`)
    await blocker.query('COMMIT')
    await blocker.end()
    expect(await committed).toBe(true)
    expect(objects()).toHaveLength(2)
    expect(await store.get('a')).toBe('1')
    expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
  })

  test('of a commit above the size of a statement are objects too', async () => {
    const store = await open()
    const many = Array.from({ length: 20 }, (_, i) => content(2 ** 20, i))
    const put = Array.from({ length: 40 }, (_, i) => [`k${i}`, 'x'.repeat(2 ** 19)] as const)
    expect(await store.commit({ blobs: many, put })).toBe(true)
    expect(objects()).toHaveLength(20)
    for (const { hash, bytes } of many)
      expect(Buffer.compare((await store.blob(hash, whole))!, bytes)).toBe(0)
  })

  test('count for the size of the store', async () => {
    const store = await open()
    const before = await store.size!()
    await store.commit({ blobs: [content(2 ** 20, 1)] })
    expect((await store.size!()) - before).toBeGreaterThanOrEqual(2 ** 20)
  })

  test('survive a restart of the engine, and a check reads them', async () => {
    const storage = postgresStorage({ connectionString: server.connectionString, schema, blobs: blobs() })
    const engine = await openEngine({ storage })
    const text = 'a line\n'.repeat(100_000)
    const { id } = await engine.sessions.create({ files: { '/large': text, '/small': 'x' } })
    await engine.close()
    const again = await openEngine({ storage })
    const session = await again.sessions.open(id)
    expect(await session.fs.promises.readFile('/large', 'utf8')).toBe(text)
    expect(await again.check({ readData: true })).toMatchObject({ findings: [] })
    const [key] = objects()
    s3.change(bucket, key!, (bytes) => Buffer.concat([bytes.subarray(1), bytes.subarray(0, 1)]))
    expect(await again.check({ readData: true })).toMatchObject({
      findings: [{ problem: 'damaged', message: expect.stringContaining('has other bytes') as string }],
    })
    s3.change(bucket, key!, () => undefined)
    const { findings } = await again.check({ readData: true })
    expect(findings[0]!.message).toContain('its object is not in the bucket')
    await again.close()
  })

  describe('when a request fails', () => {
    test.each([['InternalError'], ['SlowDown'], ['cut']] as const)('are stored after %s', async (fault) => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      s3.fail('PUT', fault)
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      s3.fail('GET', fault)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('are stored once if the answer to the first request is lost', async () => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      s3.fail('PUT', 'lost')
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      expect(objects()).toHaveLength(1)
      expect(s3.requests.filter((request) => request === `PUT ${bucket}/${objects()[0]}`)).toHaveLength(2)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('are read again if an answer breaks off, or is damaged on the way', async () => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      s3.fail('GET', 'half', 'damaged')
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('are stored if there was no answer, in the time of the client or in that of the store', async () => {
      const client = s3.client({ requestHandler: { requestTimeout: 100, throwOnRequestTimeout: true } })
      const patient = await open({ blobs: blobs({ client }) })
      const [first, second] = [content(5000, 1), content(5000, 2)]
      s3.fail('PUT', 'hang')
      expect(await patient.commit({ blobs: [first] })).toBe(true)
      await patient.close()
      const store = await open()
      s3.fail('PUT', 'hang')
      const timeout = AbortSignal.timeout.bind(AbortSignal)
      const spy = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => timeout(ms / 1000))
      const error = await failureOf(store.commit({ blobs: [second] })).finally(() => spy.mockRestore())
      expect(error).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
      expect(String(error)).toContain('S3 did not answer within 60 seconds')
      await store.recover!()
      expect(await store.commit({ blobs: [second] })).toBe(true)
      for (const { hash, bytes } of [first, second])
        expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('a commit that could not be stored changes nothing, and the next one recovers', async () => {
      const storage = postgresStorage({
        connectionString: server.connectionString,
        schema,
        blobs: blobs({ client: s3.client({ maxAttempts: 1 }) }),
      })
      const engine = await openEngine({ storage })
      const { files, fs } = await engine.sessions.create()
      const [large, larger] = ['1', '2'].map((digit) => digit.repeat(5000)) as [string, string]
      await files.write({ path: '/a', content: large })
      s3.fail('PUT', 'SlowDown')
      expect(await failureOf(files.write({ path: '/a', content: larger }))).toMatchObject({
        reason: 'STORE_FAILED',
        details: { outcome: 'not-applied' },
        message: expect.stringMatching(/S3 answered with 503 \(SlowDown\)\. Try again/) as string,
      })
      expect(await fs.promises.readFile('/a', 'utf8')).toBe(large)
      await files.write({ path: '/a', content: larger })
      expect(await fs.promises.readFile('/a', 'utf8')).toBe(larger)
      await engine.close()
    })

    test.each<[string, Partial<S3BlobsOptions> | (() => Partial<S3BlobsOptions>), string, RegExp]>([
      [
        'nothing listens',
        { client: s3ClientOf(1, { maxAttempts: 1 }) },
        'STORE_FAILED',
        /S3 cannot be reached \(ECONNREFUSED\)/,
      ],
      [
        'the credentials are wrong',
        () => ({ client: s3.client({ credentials: { accessKeyId: 'x', secretAccessKey: 'x' } }) }),
        'PERMISSION_DENIED',
        /refused access \(InvalidAccessKeyId\)/,
      ],
      [
        'there are no credentials',
        () => ({ client: s3.client({ credentials: () => Promise.reject(noCredentials()) }) }),
        'PERMISSION_DENIED',
        /refused access \(CredentialsProviderError\)/,
      ],
      [
        'the bucket is in another region',
        () => {
          s3.fail('GET', 'PermanentRedirect')
          return {}
        },
        'STORE_FAILED',
        /in another region/,
      ],
      [
        'the bucket does not exist',
        { bucket: 'none' },
        'STORE_FAILED',
        /the bucket does not exist\. Create it/,
      ],
    ])('%s, which the error of opening names', async (_, options, reason, message) => {
      const error = await failureOf(
        open({ blobs: blobs(typeof options === 'function' ? options() : options) }),
      )
      expect(error).toMatchObject({ reason })
      expect(String(error)).toMatch(message)
    })
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
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      s3.change(bucket, objects()[0]!, change)
      const error = await failureOf(store.blob(hash, whole))
      expect(error).toMatchObject({ reason: 'DATA_LOSS' })
      expect(String(error)).toMatch(message)
    })

    test('for an answer that is always damaged on the way', async () => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      s3.fail('GET', 'damaged', 'damaged', 'damaged')
      expect(await failureOf(store.blob(hash, whole))).toMatchObject({ reason: 'DATA_LOSS' })
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })
  })

  describe('that are unused', () => {
    const day = postgresLimits.unusedObjectMs

    /** A collection, as if the last one was long ago. */
    async function collect(store: Store): Promise<void> {
      s3.age(bucket, 2 * day)
      await rows(`UPDATE $.objects SET unused_since = unused_since - interval '2 days'`)
      await store.reclaim!({})
    }

    test('are deleted a day after their rows, with the objects of lost commits', async () => {
      const store = await open()
      const [kept, gone] = [content(5000, 1), content(5000, 2)]
      await store.commit({ blobs: [kept, gone] })
      const client = s3.client()
      // A process was killed before its commit.
      await client.send(
        new PutObjectCommand({ Bucket: bucket, Key: `app/${kept.hash}-${randomUUID()}`, Body: '' }),
      )
      await client.send(
        new PutObjectCommand({ Bucket: bucket, Key: 'app/notes.txt', Body: 'of the operator' }),
      )
      await store.commit({ deleteBlobs: [gone.hash] })
      expect(await store.blob(gone.hash, whole)).toBeUndefined()
      await store.reclaim!({})
      expect(objects()).toHaveLength(4)
      s3.age(bucket, 2 * day)
      await store.reclaim!({})
      expect(objects()).toHaveLength(4)
      s3.pageSize = 2
      await collect(store)
      s3.pageSize = 1000
      expect(objects()).toEqual([expect.stringContaining(kept.hash), 'app/notes.txt'])
      expect(Buffer.from((await store.blob(kept.hash, whole))!)).toEqual(kept.bytes)
      // A commit with the second object could still arrive, so its id stays.
      expect(await rows('SELECT size FROM $.objects ORDER BY size')).toEqual([{ size: 0 }, { size: 5000 }])
      // The content can come back.
      await store.commit({ blobs: [gone] })
      expect(Buffer.from((await store.blob(gone.hash, whole))!)).toEqual(gone.bytes)
    })

    test('cannot be committed once a collection has given them up', async () => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      const blocker = server.client()
      await blocker.connect()
      await blocker.query(`BEGIN; LOCK TABLE ${schema}.leases IN ACCESS EXCLUSIVE MODE`)
      const committed = failureOf(store.commit({ blobs: [{ hash, bytes }] }))
      while (objects().length === 0) await sleep(2)
      const id = objects()[0]!.slice(-36)
      await blocker.query(`INSERT INTO ${schema}.objects VALUES ('${id}', 0, clock_timestamp())`)
      await blocker.query('COMMIT')
      expect(await committed).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' } })
      await store.recover!()
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      await collect(store)
      await collect(store)
      expect(objects()).toHaveLength(1)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
      // Its commit could still arrive, so its id stays.
      expect(await rows('SELECT size FROM $.objects ORDER BY size')).toEqual([{ size: 0 }, { size: 5000 }])
      await blocker.end()
    })

    test('stay if a commit that refers to them is under way', async () => {
      const [store, collector] = [await open({ shared: true }), await open({ shared: true })]
      const { hash, bytes } = content(5000, 1)
      const blocker = server.client()
      await blocker.connect()
      // The commit has inserted the id of its object, and waits for the record.
      await blocker.query(`BEGIN; INSERT INTO ${schema}.records VALUES ('a', '')`)
      const committed = store.commit({ blobs: [{ hash, bytes }], put: [['a', '1']] })
      await waitingFor(`WITH lease%`)
      s3.age(bucket, 2 * day)
      const swept = collector.reclaim!({})
      await waitingFor(`INSERT INTO%objects%`)
      await blocker.query('ROLLBACK')
      expect(await committed).toBe(true)
      await swept
      await collect(collector)
      expect(objects()).toHaveLength(1)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
      await blocker.end()
    })

    test('are used by the next commit if an event of the first one came too late', async () => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      const event = { sessionId: 'a', seq: 1, body: [] }
      expect(await store.commit({ events: [event] })).toBe(true)
      expect(await store.commit({ events: [event], blobs: [{ hash, bytes }] })).toBe(false)
      expect(await store.blob(hash, whole)).toBeUndefined()
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      expect(objects()).toHaveLength(1)
    })

    test('stay if S3 refuses their deletion, and the error says so', async () => {
      const store = await open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      await store.commit({ deleteBlobs: [hash] })
      await collect(store)
      for (const fault of ['partial', 'AccessDenied'] as const) {
        s3.fail('POST', fault)
        const error = await failureOf(collect(store))
        expect(error).toMatchObject({ reason: 'PERMISSION_DENIED' })
        expect(String(error)).toContain('unused contents could not be deleted')
        expect(objects()).toHaveLength(1)
        await collect(store)
      }
      expect(objects()).toEqual([])
    })

    test('are kept while a collection is aborted', async () => {
      const store = await open()
      await store.commit({ blobs: [content(5000, 1)] })
      const reason = new Error('enough')
      expect(await failureOf(store.reclaim!({ signal: AbortSignal.abort(reason) }))).toBe(reason)
    })
  })

  describe('are refused when the store is opened', () => {
    async function used(): Promise<void> {
      const store = await open()
      await store.commit({ blobs: [content(5000, 1)] })
      await store.close()
    }

    test.each<[string, () => Options, string, RegExp]>([
      [
        'without a bucket',
        () => ({ blobs: undefined }),
        'INVALID_ARGUMENT',
        /are in s3:\/\/b-.*\/app\/\. Pass blobs/,
      ],
      [
        'with another prefix',
        () => ({ blobs: blobs({ prefix: 'b/' }) }),
        'INVALID_ARGUMENT',
        /but large contents .* in s3/,
      ],
      [
        'with another bucket',
        () => ({ blobs: blobs({ bucket: 'other' }) }),
        'INVALID_ARGUMENT',
        /is s3:\/\/other\/app\//,
      ],
    ])('%s', async (_, options, reason, message) => {
      await used()
      const error = await failureOf(open(options()))
      expect(error).toMatchObject({ reason, details: { field: 'blobs' } })
      expect(String(error)).toMatch(message)
      await (await open()).close()
    })

    test('with a bucket of the same name elsewhere', async () => {
      await used()
      const elsewhere = mkdtempSync(join(temporaryDirectory(), 's3-'))
      const other = await S3Server.start(elsewhere)
      other.createBucket(bucket)
      const error = await failureOf(open({ blobs: blobs({ client: other.client() }) }))
      expect(error).toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'blobs' } })
      expect(String(error)).toContain('not the bucket with the contents of this store')
      await other.close()
      rmSync(elsewhere, { recursive: true })
    })

    test('by another store', async () => {
      await used()
      const error = await failureOf(open({ schema: freshSchema() }))
      expect(error).toMatchObject({ reason: 'STORE_FORMAT' })
      expect(String(error)).toContain('another store uses s3://')
    })

    test('by a copy of the store, until an operator says that it is the only one', async () => {
      await used()
      const copy = freshSchema()
      await server.sql(`ALTER SCHEMA ${schema} RENAME TO ${copy}`)
      const error = await failureOf(open({ schema: copy }))
      expect(error).toMatchObject({ reason: 'STORE_FORMAT' })
      const [statement] = /UPDATE .*/.exec(String(error))!
      await server.sql(statement)
      const store = await open({ schema: copy })
      expect(await store.listBlobs!('', 9)).toHaveLength(1)
      await store.close()
      await (await open({ schema: copy })).close()
    })

    test('never because an earlier opener was killed', async () => {
      await open({ blobs: blobs() }).then((store) => store.close())
      await rows('DELETE FROM $.buckets')
      await (await open()).close()
      s3.change(bucket, mark, () => undefined)
      await (await open()).close()
      expect(s3.keys(bucket)).toEqual([mark])
    })

    test('by an engine that shares the store and has no bucket, when it reads them', async () => {
      const [first, second] = [await open({ shared: true, blobs: undefined }), await open({ shared: true })]
      const { hash, bytes } = content(5000, 1)
      await second.commit({ blobs: [{ hash, bytes }] })
      expect(await failureOf(first.blob(hash, whole))).toMatchObject({ reason: 'INVALID_ARGUMENT' })
    })
  })

  test.each<[string, object, RegExp]>([
    ['no client', { client: undefined }, /must be an S3Client/],
    ['no bucket', { bucket: undefined }, /the name of a bucket/],
    ['a bucket with a path', { bucket: 'a/b' }, /the name of a bucket; it is "a\/b"/],
    ['a prefix that is no string', { prefix: 1 }, /the beginning of keys/],
    ['a long prefix', { prefix: 'é'.repeat(257) }, /at most 512 bytes/],
    ['a size of nothing', { minBytes: 0 }, /from 1 to 1048576/],
    ['an unknown option', { regoin: 'a' }, /unknown key/],
  ])('refuse %s', (_, options, message) => {
    expect(() => blobs(options)).toThrow(expect.objectContaining({ reason: 'INVALID_ARGUMENT' }))
    expect(() => blobs(options)).toThrow(message)
  })

  test('refuse a bucket that is none', () => {
    const { connectionString } = server
    expect(() => postgresStorage({ connectionString, blobs: {} as never })).toThrow(/blobs: must be a bucket/)
  })

  /** Runs SQL in the schema `$`. */
  function rows(text: string): Promise<Record<string, unknown>[]> {
    return server.sql(text.replaceAll('$', schema))
  }

  /** Waits until a statement waits for a lock. */
  async function waitingFor(pattern: string): Promise<void> {
    const text = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1 AND query LIKE $2`
    while ((await server.sql(text, [pattern, `%${schema}%`])).length === 0) await sleep(5)
  }
})

const whole = { offset: 0, length: 2 ** 20 }

function content(size: number, seed: number): { hash: string; bytes: Buffer } {
  const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 31 + seed * 7 + (i >> 8)) & 255))
  return { hash: createHash('sha256').update(bytes).digest('hex'), bytes }
}

function noCredentials(): Error {
  return Object.assign(new Error('no credentials'), { name: 'CredentialsProviderError' })
}

async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}
