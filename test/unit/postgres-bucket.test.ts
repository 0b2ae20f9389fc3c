/** The bucket of a store on PostgreSQL: requests that fail, wrong buckets, and options. */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import type { S3BlobsOptions } from '../../src/adapters/s3/index.js'
import { openEngine } from '../../src/index.js'
import { BlobWorld, content, failureOf, mark, whole } from '../support/blob-world.js'
import { freshSchema, hasPostgres } from '../support/postgres.js'
import { S3Server, s3ClientOf } from '../support/s3-server.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

describe.skipIf(!hasPostgres)('contents in a bucket', () => {
  let world: BlobWorld

  beforeAll(async () => {
    world = await BlobWorld.start()
  })
  afterAll(() => world.close())
  beforeEach(() => world.begin())
  afterEach(() => world.end())

  describe('when a request fails', () => {
    test.each([['InternalError'], ['SlowDown'], ['cut']] as const)('are stored after %s', async (fault) => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      world.s3.fail('PUT', fault)
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      world.s3.fail('GET', fault)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('are stored once if the answer to the first request is lost', async () => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      world.s3.fail('PUT', 'lost')
      expect(await store.commit({ blobs: [{ hash, bytes }] })).toBe(true)
      expect(world.objects()).toHaveLength(1)
      expect(
        world.s3.requests.filter((request) => request === `PUT ${world.bucket}/${world.objects()[0]}`),
      ).toHaveLength(2)
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('are read again if an answer breaks off, or is damaged on the way', async () => {
      const store = await world.open()
      const { hash, bytes } = content(5000, 1)
      await store.commit({ blobs: [{ hash, bytes }] })
      world.s3.fail('GET', 'half', 'damaged')
      expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    })

    test('are stored if there was no answer, in the time of the client or in that of the store', async () => {
      const client = world.s3.client({ requestHandler: { requestTimeout: 100, throwOnRequestTimeout: true } })
      const patient = await world.open({ blobs: world.blobs({ client }) })
      const [first, second] = [content(5000, 1), content(5000, 2)]
      world.s3.fail('PUT', 'hang')
      expect(await patient.commit({ blobs: [first] })).toBe(true)
      await patient.close()
      const store = await world.open()
      world.s3.fail('PUT', 'hang')
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
      const blobs = world.blobs({ client: world.s3.client({ maxAttempts: 1 }) })
      const storage = postgresStorage(world.settings({ blobs }))
      const engine = await openEngine({ storage })
      const { files, fs } = await engine.sessions.create()
      const [large, larger] = ['1', '2'].map((digit) => digit.repeat(5000)) as [string, string]
      await files.write({ path: '/a', content: large })
      world.s3.fail('PUT', 'SlowDown')
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
        () => ({ client: world.s3.client({ credentials: { accessKeyId: 'x', secretAccessKey: 'x' } }) }),
        'PERMISSION_DENIED',
        /refused access \(InvalidAccessKeyId\)/,
      ],
      [
        'there are no credentials',
        () => ({ client: world.s3.client({ credentials: () => Promise.reject(noCredentials()) }) }),
        'PERMISSION_DENIED',
        /refused access \(CredentialsProviderError\)/,
      ],
      [
        'the bucket is in another region',
        () => {
          world.s3.fail('GET', 'PermanentRedirect')
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
        world.open({ blobs: world.blobs(typeof options === 'function' ? options() : options) }),
      )
      expect(error).toMatchObject({ reason })
      expect(String(error)).toMatch(message)
    })
  })

  describe('are refused when the store is opened', () => {
    async function used(): Promise<void> {
      const store = await world.open()
      await store.commit({ blobs: [content(5000, 1)] })
      await store.close()
    }

    test.each<[string, () => Parameters<typeof world.open>[0], string, RegExp]>([
      [
        'without a bucket',
        () => ({ blobs: undefined }),
        'INVALID_ARGUMENT',
        /are in s3:\/\/b-.*\/app\/\. Pass blobs/,
      ],
      [
        'with another prefix',
        () => ({ blobs: world.blobs({ prefix: 'b/' }) }),
        'INVALID_ARGUMENT',
        /but large contents .* in s3/,
      ],
      [
        'with another bucket',
        () => ({ blobs: world.blobs({ bucket: 'other' }) }),
        'INVALID_ARGUMENT',
        /is s3:\/\/other\/app\//,
      ],
    ])('%s', async (_, options, reason, message) => {
      await used()
      const error = await failureOf(world.open(options()))
      expect(error).toMatchObject({ reason, details: { field: 'blobs' } })
      expect(String(error)).toMatch(message)
      await (await world.open()).close()
    })

    test('with a bucket of the same name elsewhere', async () => {
      await used()
      const elsewhere = mkdtempSync(join(temporaryDirectory(), 's3-'))
      const other = await S3Server.start(elsewhere)
      other.createBucket(world.bucket)
      const error = await failureOf(world.open({ blobs: world.blobs({ client: other.client() }) }))
      expect(error).toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'blobs' } })
      expect(String(error)).toContain('not the bucket with the contents of this store')
      await other.close()
      rmSync(elsewhere, { recursive: true })
    })

    test('by another store', async () => {
      await used()
      const error = await failureOf(world.open({ schema: freshSchema() }))
      expect(error).toMatchObject({ reason: 'STORE_FORMAT' })
      expect(String(error)).toContain('another store uses s3://')
    })

    test('by a copy of the store, until an operator says that it is the only one', async () => {
      await used()
      const copy = freshSchema()
      await world.postgres.sql(`ALTER SCHEMA ${world.schema} RENAME TO ${copy}`)
      const error = await failureOf(world.open({ schema: copy }))
      expect(error).toMatchObject({ reason: 'STORE_FORMAT' })
      const [statement] = /UPDATE .*/.exec(String(error))!
      await world.postgres.sql(statement)
      const store = await world.open({ schema: copy })
      expect(await store.listBlobs!('', 9)).toHaveLength(1)
      await store.close()
      await (await world.open({ schema: copy })).close()
    })

    test('never because an earlier opener was killed', async () => {
      await world.open({ blobs: world.blobs() }).then((store) => store.close())
      await world.rows('DELETE FROM $.buckets')
      await (await world.open()).close()
      world.s3.change(world.bucket, mark, () => undefined)
      await (await world.open()).close()
      expect(world.s3.keys(world.bucket)).toEqual([mark])
    })

    test('by an engine that shares the store and has no world.bucket, when it reads them', async () => {
      const [first, second] = [
        await world.open({ shared: true, blobs: undefined }),
        await world.open({ shared: true }),
      ]
      const { hash, bytes } = content(5000, 1)
      await second.commit({ blobs: [{ hash, bytes }] })
      expect(await failureOf(first.blob(hash, whole))).toMatchObject({ reason: 'INVALID_ARGUMENT' })
    })
  })

  test('are in a backup: a dump, and a copy of the bucket that is made within a day', async () => {
    const [original, restored] = [`db_${world.schema}`, `db_${world.schema}_restored`]
    await world.postgres.sql(`CREATE DATABASE ${original}`)
    const at = (database: string): { connectionString: string } => ({
      connectionString: world.postgres.connectionString.replace('/postgres?', `/${database}?`),
    })
    const [first, second] = [content(5000, 1), content(5000, 2)]
    const store = await world.open(at(original))
    await store.commit({ blobs: [first, second] })
    await store.close()
    // A restored dump gives the same database as this copy.
    await world.postgres.sql(`CREATE DATABASE ${restored} TEMPLATE ${original}`)
    const later = await world.open(at(original))
    await later.commit({ deleteBlobs: [first.hash] })
    world.s3.age(world.bucket, 2 * postgresLimits.unusedObjectMs)
    await later.reclaim!({})
    const copy = `${world.bucket}-copy`
    world.s3.copyBucket(world.bucket, copy)
    const placed = { ...at(restored), blobs: world.blobs({ bucket: copy }) }
    expect(await failureOf(world.open(placed))).toMatchObject({ reason: 'INVALID_ARGUMENT' })
    const client = new pg.Client(at(restored))
    await client.connect()
    await client.query(`UPDATE ${world.schema}.buckets SET location = 's3://${copy}/app/'`)
    expect(await failureOf(world.open(placed))).toMatchObject({ reason: 'STORE_FORMAT' })
    await client.query(`UPDATE ${world.schema}.buckets SET database = NULL`)
    await client.end()
    const again = await world.open(placed)
    for (const { hash, bytes } of [first, second])
      expect(Buffer.from((await again.blob(hash, whole))!)).toEqual(bytes)
  })

  test('of stores of which one has the beginning of the prefix of the other are kept apart', async () => {
    const prefixes = ['', 'a', 'ab', 'a/']
    const { hash, bytes } = content(5000, 1)
    const opened = []
    for (const prefix of prefixes) {
      const store = await world.open({ schema: freshSchema(), blobs: world.blobs({ prefix }) })
      await store.commit({ blobs: [{ hash, bytes }] })
      opened.push(store)
    }
    for (const store of opened) {
      world.s3.age(world.bucket, 2 * postgresLimits.unusedObjectMs)
      await store.reclaim!({})
    }
    for (const store of opened) expect(Buffer.from((await store.blob(hash, whole))!)).toEqual(bytes)
    expect(world.s3.keys(world.bucket)).toHaveLength(2 * prefixes.length)
  })

  test('need no right that the owner of a schema lacks', async () => {
    const role = `role_${world.schema}`
    await world.postgres.sql(`CREATE ROLE ${role} LOGIN; CREATE SCHEMA ${world.schema} AUTHORIZATION ${role}`)
    const connectionString = world.postgres.connectionString.replace('user=postgres', `user=${role}`)
    const store = await world.open({ connectionString })
    expect(await store.commit({ blobs: [content(5000, 1)] })).toBe(true)
    await store.reclaim!({})
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
    expect(() => world.blobs(options)).toThrow(expect.objectContaining({ reason: 'INVALID_ARGUMENT' }))
    expect(() => world.blobs(options)).toThrow(message)
  })

  test('refuse a bucket that is none', () => {
    expect(() => postgresStorage(world.settings({ blobs: {} as never }))).toThrow(/blobs: must be a bucket/)
  })
})

function noCredentials(): Error {
  return Object.assign(new Error('no credentials'), { name: 'CredentialsProviderError' })
}
