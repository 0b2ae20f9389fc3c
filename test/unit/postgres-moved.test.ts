/** A schema that is renamed, emptied, or replaced by a restored backup, while engines have it open. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { dataTables } from '../../src/adapters/postgres/migrations.js'
import { limits } from '../../src/engine/base/limits.js'
import { openRepository } from '../../src/engine/contract.js'
import { openEngine, type Engine, type EngineError, type Session } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit } from '../support/git-server.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'
import { tarOf } from '../support/raw-archives.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

const moved = { reason: 'STORE_MOVED', details: { outcome: 'not-applied' } }
const changed = { reason: 'STORE_FAILED', details: { outcome: 'not-applied' } }
/** Contents of this size are stored before the record that refers to them. */
const ahead = limits.importCommitBytes
const allTables = [...dataTables, 'leases', 'migrations']

describe.skipIf(!hasPostgres).each([false, true])('a schema on PostgreSQL, with shared: %s', (shared) => {
  let server: PostgresServer
  let schema: string
  let steps: SteppedStorage
  let engine: Engine

  beforeEach(async () => {
    server = await sharedPostgres()
    schema = freshSchema()
    engine = await open()
  })
  afterEach(() => engine.close())

  function open(): Promise<Engine> {
    steps = new SteppedStorage(
      postgresStorage({
        connectionString: server.connectionString,
        schema,
        // An engine that looks for changes of others would notice by chance.
        ...(shared && { shared, freshnessMillis: 60_000 }),
      }),
    )
    return openEngine({
      storage: steps,
      git: { allowPrivateAddresses: true },
      hostPaths: { roots: [temporaryDirectory()] },
    })
  }

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

  test.each(['commit', 'served state', 'checkpoint'])(
    'acknowledges no %s whose first objects were removed before its end',
    async (what) => {
      const big = randomBytes(3 * ahead)
      const { id } = await engine.sessions.create({ files: { '/a': big, '/z': 'the last file' } })
      const { id: checkpointId } = await (await engine.sessions.open(id)).checkpoint()
      await engine.close()
      engine = await open()
      const session = await engine.sessions.open(id)
      const repository = await openRepository(engine, id)
      if (what === 'checkpoint') {
        for (const path of ['/a', '/z']) await session.files.delete({ path })
        await repository.head()
      }
      await copySchema(`${schema}_copy`)
      const make = async (): Promise<unknown> => {
        if (what === 'commit') return (await session.commit({ message: 'x' })).commitId
        if (what === 'served state') return (await repository.head()).commitId
        const commits = await repository.checkpoints()
        return commits.find((one) => one.checkpointId === checkpointId)?.commitId
      }
      const read = steps.hold('blob', (hash) => hash === sha256('the last file'), 'after')
      const made = make().then(
        () => 'made again',
        (error: EngineError) => [error.reason, error.details],
      )
      await read.reached
      await restoreRows(`${schema}_copy`)
      await engine.sessions.create().catch(() => undefined)
      await recovered(() => engine.sessions.create())
      read.release()

      expect(await made).toEqual(
        // Between engines, a state is served again after a change of the session.
        shared && what === 'served state' ? 'made again' : ['STORE_FAILED', { outcome: 'not-applied' }],
      )
      expect(await recovered(make)).toMatch(/^[0-9a-f]{40}$/)
      expect(await repository.objects.has(blobIdOf(big))).toBe(true)
    },
  )

  test.runIf(hasGit).each(['main', 'side'])(
    'records no commit on %s whose state was removed during the push',
    async (branchName) => {
      const root = await mkdtemp(join(temporaryDirectory(), 'push-'))
      const repository = GitRepository.create(join(root, 'r.git'))
      repository.stage([['100644', 'a', 'one']])
      const first = repository.commit()
      let arrive = (): void => undefined
      let go = (): void => undefined
      const arrived = new Promise<void>((resolve) => (arrive = resolve))
      const gone = new Promise<void>((resolve) => (go = resolve))
      const remote = await serveGit(root, {
        hold: ({ method, url = '' }) => {
          if (method !== 'POST' || !url.endsWith('git-receive-pack')) return undefined
          arrive()
          return gone
        },
      })
      try {
        const gitRemote = { remoteUrl: `${remote.url}/r.git`, defaultRef: 'main' }
        const { sourceId } = await engine.sources.create({ displayName: 'x', gitRemote })
        await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
        const session = await engine.sessions.create({ sourceRef: { sourceId } })
        await copySchema(`${schema}_copy`)
        await session.files.write({ path: '/a', content: 'two' })
        const request = { message: 'x', gitBranch: { branchName } }
        const committed = failureOf(session.commit(request))
        await arrived
        await restoreRows(`${schema}_copy`)
        await engine.sessions.create().catch(() => undefined)
        await recovered(() => engine.sessions.create())
        go()

        const failure = await committed
        const pushed = repository.git(['rev-parse', branchName]).trim()
        expect(pushed).not.toBe(first)
        expect(failure).toMatchObject({
          reason: 'STORE_FAILED',
          message: `the branch ${branchName} of the remote has the commit ${pushed}, but the session could not record it (see cause); refresh the source with gitRef: ${branchName}, rebase the session, and commit again`,
          details: { outcome: 'unknown', commitId: pushed },
        })
        // Without the state of the commit, a commit on top of it would revert its changes.
        await recovered(() => session.files.write({ path: '/b', content: 'new' }))
        expect(await failureOf(session.commit(request))).toMatchObject({ reason: 'BRANCH_MOVED' })
        await engine.sources.waitForJob(await engine.sources.refresh(sourceId, { gitRef: branchName }))
        await session.rebase()
        await session.commit(request)
        expect(repository.git(['show', `${branchName}:a`])).toBe('two')
      } finally {
        go()
        await remote.close()
        await rm(root, { recursive: true, force: true })
      }
    },
  )

  // Engines that share a store have no checkouts.
  test.runIf(!shared)('keeps no state for a checkout that was removed before its end', async () => {
    const directory = await mkdtemp(join(temporaryDirectory(), 'checkout-'))
    try {
      const { id } = await engine.sessions.create({ files: { '/a': '1' } })
      await copySchema(`${schema}_copy`)
      const made = await engine.sessions.open(id)
      await made.files.write({ path: '/d/z', content: 'the last file' })
      const kept = await engine.sessions.open(id)
      const read = steps.hold('get', (key) => key.startsWith('m') && key.endsWith('/d'), 'after')
      const written = failureOf(kept.checkout(directory))
      await read.reached
      await restoreRows(`${schema}_copy`)
      await engine.sessions.create().catch(() => undefined)
      await recovered(() => engine.sessions.create())
      read.release()

      expect(await written).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'unknown' } })
      const session = await engine.sessions.open(id)
      await session.checkout(directory, { force: true })
      expect(await readFile(join(directory, 'a'), 'utf8')).toBe('1')
      expect((await engine.check()).findings).toEqual([])
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
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

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function blobIdOf(content: Uint8Array): string {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')
}

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
