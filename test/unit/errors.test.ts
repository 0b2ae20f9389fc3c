import { createHash } from 'node:crypto'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect, type ClientOptions, type RemoteEngine } from '../../src/adapters/client/index.js'
import { createGitAdapter } from '../../src/adapters/git/index.js'
import { createHttpHandler, serve, staticTokens, type HttpServer } from '../../src/adapters/http/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { createEngine } from '../../src/engine/index.js'
import {
  AnnotationStatus,
  EngineError,
  errorRegistry,
  memoryStorage,
  openEngine,
  PosixLockKind,
  StatusCode,
  type Engine,
  type EngineOptions,
  type ErrorReason,
  type ImportJob,
  type Session,
} from '../../src/index.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { freshPostgres, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { tarOf } from '../support/raw-archives.js'
import { serveGit, type GitServer, type GitServerOptions } from '../support/git-server.js'
import { isLong } from '../support/seed.js'

/** The context of a row; everything it opens is closed after the row. */
interface Context {
  readonly engine: Engine
  /** With /dir, /dir/file, /file and /link to /file. */
  readonly session: Session
  readonly directory: string
  readonly open: (options?: EngineOptions) => Promise<Engine>
  readonly keep: <T extends { close(): Promise<void> }>(resource: T) => T
  readonly serve: (options?: GitServerOptions) => Promise<GitServer>
  /** A repository in the served directory. */
  readonly repository: (name?: string) => GitRepository
}

interface Row {
  readonly reason: ErrorReason
  readonly when: string
  readonly provoke: (context: Context) => Promise<unknown>
  /** The expected `details`; functions receive the context. */
  readonly details: Readonly<Record<string, unknown>>
  /** 'time': only `npm run test:long` runs it. */
  readonly needs?: 'git' | 'postgres' | 'time'
}

const anyText: unknown = expect.any(String)
const hash = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`
const unknownId = '0'.repeat(36)
const exclusive = PosixLockKind.EXCLUSIVE
const git = { allowPrivateAddresses: true }

interface Served {
  readonly server: HttpServer
  readonly client: RemoteEngine
  readonly connect: (options?: Partial<ClientOptions>) => RemoteEngine
}

/** Adds a server and a client in front of the engine. */
async function remotely(
  engine: Engine,
  keep: Context['keep'],
  act: (served: Served) => Promise<unknown>,
): Promise<unknown> {
  const authenticate = staticTokens({ token: { tenant: 'local', principal: 'local' } })
  const server = keep(await serve(createHttpHandler(engine, { authenticate })))
  const connectTo = (options: Partial<ClientOptions> = {}): RemoteEngine =>
    connect({ baseUrl: server.url, token: 'token', ...options })
  return act({ server, client: connectTo(), connect: connectTo })
}

/** Never responds until it is aborted. */
const silent: typeof fetch = (_, init) =>
  new Promise((_resolve, reject) => {
    init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason as Error))
  })

const rows: Row[] = [
  {
    reason: 'INVALID_ARGUMENT',
    when: 'a path is relative',
    provoke: ({ session }) => session.files.write({ path: 'relative', content: '' }),
    details: { field: 'path' },
  },
  {
    reason: 'NAME_TOO_LONG',
    when: 'a name has 256 bytes',
    provoke: ({ session }) => session.files.write({ path: `/${'x'.repeat(256)}`, content: '' }),
    details: { field: 'path' },
  },
  {
    reason: 'TOO_LARGE',
    when: 'a tag is over its limit',
    provoke: ({ engine }) => engine.sessions.create({ initialTags: { key: 'x'.repeat(1025) } }),
    details: { field: 'initialTags', limit: '1024' },
  },
  {
    reason: 'TOO_LARGE',
    when: 'there are 65 tags',
    provoke: ({ session }) =>
      session.fork({ newTags: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`${i}`, ''])) }),
    details: { field: 'newTags', limit: '64' },
  },
  {
    reason: 'SESSION_NOT_FOUND',
    when: 'no session has the id',
    provoke: ({ engine }) => engine.sessions.open(unknownId),
    details: { sessionId: unknownId },
  },
  {
    reason: 'CHECKPOINT_NOT_FOUND',
    when: 'no checkpoint has the label',
    provoke: ({ session }) => session.restore({ checkpointLabel: 'none' }),
    details: { checkpointLabel: 'none' },
  },
  {
    reason: 'CHECKPOINT_NOT_FOUND',
    when: 'no checkpoint has the id',
    provoke: ({ session }) => session.restore({ checkpointId: unknownId }),
    details: { checkpointId: unknownId },
  },
  {
    reason: 'EVENT_NOT_FOUND',
    when: 'the session did not exist at the time',
    provoke: ({ session }) => session.at({ time: '2001-01-01T00:00:00Z' }),
    details: { time: '2001-01-01T00:00:00.000Z' },
  },
  {
    reason: 'STATE_NOT_KEPT',
    when: 'the effects of an imported event are missing',
    provoke: async ({ engine, session }) => {
      const pieces: Uint8Array[] = []
      for await (const piece of session.exportBundle()) pieces.push(piece)
      const imported = await engine.sessions.importBundle(Buffer.concat(pieces))
      return imported.at({ eventId: `${imported.id}-00000001` })
    },
    details: { eventId: expect.stringMatching(/-0{7}1$/) as string },
  },
  {
    reason: 'READ_ONLY',
    when: 'a view is changed',
    provoke: async ({ session }) => {
      using view = await session.at()
      await view.fs.promises.writeFile('/a', '').catch(({ cause }: Error) => {
        throw cause
      })
    },
    details: { action: 'fs.write' },
  },
  {
    reason: 'SOURCE_NOT_FOUND',
    when: 'no source has the id',
    provoke: ({ engine }) => engine.sources.get(unknownId),
    details: { sourceId: unknownId },
  },
  {
    reason: 'REVISION_NOT_FOUND',
    when: 'the source has no such revision',
    provoke: async ({ engine }) => {
      const { sourceId } = await newSource(engine)
      await engine.sessions.create({ sourceRef: { sourceId, revisionId: 'none' } })
    },
    details: { sourceId: anyText, revisionId: 'none' },
  },
  {
    reason: 'COMMIT_NOT_FOUND',
    when: 'the session has made no such commit',
    provoke: ({ session }) => session.commits.get({ commitId: 'a'.repeat(40) }),
    details: { commitId: 'a'.repeat(40) },
  },
  {
    reason: 'JOB_NOT_FOUND',
    when: 'the source has no such job',
    provoke: ({ engine }) => engine.sources.getJob({ sourceId: unknownId, jobId: unknownId }),
    details: { sourceId: unknownId, jobId: unknownId },
  },
  {
    reason: 'PATH_NOT_FOUND',
    when: 'the path does not exist',
    provoke: ({ session }) => session.files.delete({ path: '/none' }),
    details: { path: '/none' },
  },
  {
    reason: 'XATTR_NOT_FOUND',
    when: 'a missing attribute is read',
    provoke: ({ session }) => session.files.getXattr({ path: '/link', name: 'user.none' }),
    details: { name: 'user.none' },
  },
  {
    reason: 'XATTR_NOT_FOUND',
    when: 'a missing attribute is removed',
    provoke: ({ session }) => session.files.removeXattr({ path: '/', name: '__proto__' }),
    details: { name: '__proto__' },
  },
  {
    reason: 'INVALID_BUNDLE',
    when: 'a bundle of a session is truncated',
    provoke: async ({ engine, session }) => {
      const pieces: Uint8Array[] = []
      for await (const piece of session.exportBundle()) pieces.push(piece)
      await engine.sessions.importBundle(Buffer.concat(pieces).subarray(0, -1))
    },
    details: {},
  },
  {
    reason: 'BLOB_NOT_FOUND',
    when: 'borrowed content is known only to another session',
    provoke: async ({ engine, session }) => {
      const other = await engine.sessions.create({ files: { '/secret': 'secret' } })
      const { extents } = await other.files.getCasExtents({ path: '/secret' })
      const borrowed = { offset: 0, length: 6, hash: extents[0]!.hash }
      await session.files.patchSegments({ mutations: [{ path: '/file', segments: [{ borrowed }] }] })
    },
    details: { hash: hash('secret') },
  },
  {
    reason: 'CACHE_KEY_NOT_FOUND',
    when: 'the times of a missing entry are changed',
    provoke: ({ session }) => session.cache.metadata({ key: 'none' }),
    details: { key: 'none' },
  },
  {
    reason: 'SECRET_NOT_FOUND',
    when: 'no secret has the name',
    provoke: ({ session }) => session.secrets.get({ secretName: '__proto__' }),
    details: { secretName: '__proto__' },
  },
  {
    reason: 'NO_MASTER_KEY',
    when: 'a durable storage is used without a key',
    provoke: async ({ open }) => {
      const engine = await open({ storage: memoryStorage({ durable: true }) })
      const session = await engine.sessions.create()
      await session.secrets.put({ secretName: 'TOKEN', secretValue: 'x' })
    },
    details: {},
  },
  {
    reason: 'NO_MASTER_KEY',
    when: 'a secret is encrypted with another key',
    provoke: async ({ open }) => {
      const storage = memoryStorage({ durable: true })
      const masterKey = { id: 'one', key: new Uint8Array(32).fill(1) }
      const before = await open({ storage, secrets: { masterKey } })
      const { id, secrets } = await before.sessions.create()
      await secrets.put({ secretName: 'TOKEN', secretValue: 'x' })
      await before.close()
      const engine = await open({ storage, secrets: { masterKey: new Uint8Array(32).fill(2) } })
      await (await engine.sessions.open(id)).secrets.get({ secretName: 'TOKEN' })
    },
    details: { sessionId: anyText, secretName: 'TOKEN', keyId: 'one' },
  },
  {
    reason: 'NO_ADAPTER',
    when: 'a report is sent without a report reader',
    provoke: async ({ keep }) => {
      const engine = keep(await createEngine({ storage: memoryStorage(), environment: systemEnvironment }))
      const session = await engine.sessions.create()
      await session.health.report({ reportFormat: 'junit-xml/v1', reportContent: '<testsuite/>' })
    },
    details: {},
  },
  {
    reason: 'INVALID_ARGUMENT',
    when: 'a report is not well-formed',
    provoke: ({ session }) =>
      session.health.report({ reportFormat: 'junit-xml/v1', reportContent: '<testsuite>' }),
    details: { field: 'reportContent' },
  },
  {
    reason: 'ALREADY_EXISTS',
    when: 'the path exists',
    provoke: ({ session }) => session.files.createDirectory({ path: '/file' }),
    details: { path: '/file' },
  },
  {
    reason: 'ALREADY_EXISTS',
    when: 'a label is taken',
    provoke: async ({ session }) => {
      await session.checkpoint({ checkpointLabel: 'one' })
      await session.checkpoint({ checkpointLabel: 'one' })
    },
    details: { checkpointLabel: 'one' },
  },
  {
    reason: 'PERMISSION_DENIED',
    when: 'a repository is outside the roots',
    provoke: ({ engine, directory }) =>
      engine.sessions.create({ gitRepository: { path: directory } }).catch(rethrowCause),
    details: { path: anyText },
  },
  {
    reason: 'NOT_PERMITTED',
    when: 'a directory is hard-linked',
    provoke: ({ session }) => session.files.link({ srcPath: '/dir', dstPath: '/second' }),
    details: { path: '/dir' },
  },
  {
    reason: 'DIRECTORY_NOT_EMPTY',
    when: 'a directory with entries is removed',
    provoke: ({ session }) => session.files.removeDirectory({ path: '/dir' }),
    details: { path: '/dir' },
  },
  {
    reason: 'IS_A_DIRECTORY',
    when: 'a directory is written',
    provoke: ({ session }) => session.files.append({ path: '/dir', content: '' }),
    details: { path: '/dir' },
  },
  {
    reason: 'NOT_A_DIRECTORY',
    when: 'a path leads through a file',
    provoke: ({ session }) => session.files.write({ path: '/file/x', content: '' }),
    details: { path: '/file' },
  },
  {
    reason: 'NOT_A_SYMLINK',
    when: 'the symlink target of a file is read',
    provoke: ({ session }) => session.files.readSymlink('/file'),
    details: { path: '/file' },
  },
  {
    reason: 'SYMLINK_LOOP',
    when: 'a symlink forms a loop',
    provoke: async ({ session }) => {
      const fork = await session.fork()
      await fork.files.createSymlink({ linkPath: '/loop', target: 'loop' })
      await fork.files.write({ path: '/loop', content: '' })
    },
    details: { path: '/loop' },
  },
  {
    reason: 'SOURCE_WITHOUT_REVISION',
    when: 'a session starts from a source without one',
    provoke: async ({ engine }) => {
      const { sourceId } = await newSource(engine)
      await engine.sessions.create({ sourceRef: { sourceId } })
    },
    details: { sourceId: anyText },
  },
  {
    reason: 'IMPORT_FAILED',
    when: 'the waited-for job fails',
    provoke: async ({ engine }) => {
      const { sourceId } = await newSource(engine, 'http://127.0.0.1:1/closed')
      await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
    },
    details: { sourceId: anyText, jobId: anyText, errorCode: 'REMOTE_UNREACHABLE' },
  },
  {
    reason: 'HASH_MISMATCH',
    when: 'a guard is stale',
    provoke: ({ session }) => session.files.write({ path: '/file', content: '', expectedHash: hash('old') }),
    details: { path: '/file', expectedHash: hash('old'), actualHash: hash('file') },
  },
  {
    reason: 'NO_MATCH',
    when: 'the text of an edit is not in the file',
    provoke: ({ session }) => session.text.edit({ path: '/file', oldText: 'fill', newText: '' }),
    details: { path: '/file', field: 'edits[0]', lineNumbers: '1', nearestLines: 'file' },
  },
  {
    reason: 'NOT_UNIQUE',
    when: 'the text of an edit matches twice',
    provoke: async ({ engine }) => {
      const { text } = await engine.sessions.create({ files: { '/twice': 'a\na\n' } })
      await text.edit({ path: '/twice', oldText: 'a', newText: '' })
    },
    details: { path: '/twice', field: 'edits[0]', matchCount: '2', lineNumbers: '1,2' },
  },
  {
    reason: 'INVALID_PATCH',
    when: 'a patch has no changes',
    provoke: ({ session }) => session.text.applyPatch({ patch: 'none' }),
    details: { field: 'patch' },
  },
  {
    reason: 'BRANCH_MOVED',
    when: 'the branch moved',
    needs: 'git',
    provoke: async (context) => {
      const { repository, imported } = await importedSession(context)
      await imported.files.write({ path: '/new', content: 'new' })
      repository.stage([['100644', 'other', 'other']])
      repository.commit()
      await imported.commit({ message: 'mine', gitBranch: { branchName: 'main' } })
    },
    details: { branch: 'main', expectedOid: anyText, actualOid: anyText },
  },
  {
    reason: 'MERGE_CONFLICT',
    when: 'a policy rejects a conflict',
    provoke: async ({ session }) => {
      const [target, source] = await conflicting(session)
      await target.merge(source, { policies: [{ glob: '**', policy: 'fail' }] })
    },
    details: { paths: '["/file"]', conflictCount: '1' },
  },
  {
    reason: 'MERGE_TARGET_MOVED',
    when: 'the target is at another event',
    provoke: async ({ session }) => {
      await session.merge(await session.fork(), { expectedEventId: `${session.id}-00000000` })
    },
    details: { sessionId: anyText, eventId: anyText },
  },
  {
    reason: 'SESSION_MOVED',
    when: 'another engine is always first',
    provoke: async ({ open }) => {
      const { storage, schema } = await freshPostgres({ shared: true })
      const { id } = await (await open({ storage })).sessions.create()
      const server = await sharedPostgres()
      await server.sql(`ALTER TABLE ${schema}.heads RENAME TO real_heads`)
      // As if another engine changed the session between any two statements.
      await server.sql(
        `CREATE VIEW ${schema}.heads AS SELECT session_id, head || random() AS head FROM ${schema}.real_heads;
          CREATE FUNCTION ${schema}.ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
          CREATE TRIGGER ignore INSTEAD OF INSERT OR UPDATE OR DELETE ON ${schema}.heads
            FOR EACH ROW EXECUTE FUNCTION ${schema}.ignore()`,
      )
      // The first engine notices that the table is another one.
      const session = await (await open({ storage })).sessions.open(id)
      await session.files.write({ path: '/a', content: '' })
    },
    details: { sessionId: anyText, outcome: 'not-applied' },
    needs: 'postgres',
  },
  {
    reason: 'SHARED_STORE',
    when: 'an engine that shares its storage would collect automatically',
    provoke: async ({ open }) => {
      const { storage } = await freshPostgres({ shared: true })
      await open({ storage, automaticCollection: true })
    },
    details: {},
    needs: 'postgres',
  },
  {
    reason: 'UNRESOLVED_CONFLICTS',
    when: 'an earlier merge has conflicts',
    provoke: async ({ session }) => {
      const [target, source] = await conflicting(session)
      await target.merge(source)
      await target.merge(source)
    },
    details: { sessionId: anyText, conflictCount: '1' },
  },
  {
    reason: 'CONFLICT_NOT_FOUND',
    when: 'the path has no conflict',
    provoke: ({ session }) => session.conflicts.resolve({ path: '/none', use: 'ours' }),
    details: { path: '/none' },
  },
  {
    reason: 'NO_COMMON_ANCESTOR',
    when: 'the sessions started from different files',
    provoke: async ({ session, engine }) => {
      await session.merge(await engine.sessions.create({ files: { '/stranger': '' } }))
    },
    details: {},
  },
  {
    reason: 'LOCK_HELD',
    when: 'another owner has locked the range',
    provoke: async ({ session }) => {
      await session.posixLocks.set({ path: '/file', kind: exclusive, owner: { ownerId: 'a' } })
      await session.posixLocks.set({ path: '/link', kind: exclusive, owner: { ownerId: 'b' } })
    },
    details: { path: '/link' },
  },
  {
    reason: 'LOCK_HELD',
    when: 'a path has a file lock',
    provoke: async ({ session }) => {
      await session.fileLocks.lock({ path: '/none', timeoutSeconds: 60 })
      await session.fileLocks.lock({ path: '/none', timeoutSeconds: 60 })
    },
    details: { path: '/none' },
  },
  {
    reason: 'DEADLOCK',
    when: 'two owners wait for each other',
    provoke: async ({ session }) => {
      const [a, b] = [{ ownerId: 'a' }, { ownerId: 'b' }]
      await session.posixLocks.flock({ path: '/file', owner: a })
      await session.posixLocks.flock({ path: '/dir', owner: b })
      const waiting = session.posixLocks.flock({ path: '/dir', owner: a, blocking: true })
      const refused = session.posixLocks.flock({ path: '/file', owner: b, blocking: true })
      const error: unknown = await refused.catch((thrown: unknown) => thrown)
      await session.posixLocks.funlock({ path: '/dir', owner: b, isFlock: true })
      await waiting
      throw error
    },
    details: { path: '/file' },
  },
  {
    reason: 'LOCK_NOT_FOUND',
    when: 'the path has another file lock',
    provoke: async ({ session }) => {
      await session.fileLocks.lock({ path: '/file', timeoutSeconds: 60 })
      await session.fileLocks.unlock({ path: '/file', lockId: unknownId })
    },
    details: { path: '/file', lockId: unknownId },
  },
  {
    reason: 'LOCK_NOT_FOUND',
    when: 'the path has no file lock',
    provoke: ({ session }) => session.fileLocks.forceUnlock({ path: '/file' }),
    details: { path: '/file' },
  },
  {
    reason: 'QUOTA',
    when: 'a session has 10,001 locks',
    provoke: async ({ session }) => {
      const owner = { ownerId: 'a' }
      for (let start = 0; start <= 20_000; start += 2) {
        await session.posixLocks.set({ path: '/file', kind: exclusive, owner, range: { start, length: 1 } })
      }
    },
    needs: 'time',
    details: { limit: '10000' },
  },
  {
    reason: 'QUOTA',
    when: 'a session has 1,001 subscribers',
    provoke: async ({ session }) => {
      const all = Array.from({ length: 1001 }, () => session.bus.subscribe())
      return all.at(-1)!.next()
    },
    details: { limit: '1000' },
  },
  {
    reason: 'SLOW_CONSUMER',
    when: 'over 2 MiB wait for a subscriber',
    provoke: async ({ session }) => {
      const subscription = session.bus.subscribe()
      for (let i = 0; i < 3; i++) await session.bus.publish({ topic: 't', payload: new Uint8Array(2 ** 20) })
      for await (const { topic } of subscription) expect(topic).toBe('t')
    },
    details: { limit: '2097152' },
  },
  {
    reason: 'FILE_TOO_LARGE',
    when: 'a file would exceed `maxFileBytes`',
    provoke: async ({ open }) => {
      const engine = await open({ maxFileBytes: 3 })
      await engine.sessions.create({ files: { '/a': '1234' } })
    },
    details: { limit: '3' },
  },
  {
    reason: 'BUDGET',
    when: 'a tenant is at its budget',
    provoke: async ({ open }) => {
      const engine = await open({ budgets: { tenantBytes: 3 } })
      await engine.sessions.create({ files: { '/a': '1234' } })
    },
    details: { budget: 'tenantBytes', limit: '3' },
  },
  {
    reason: 'STORE_FULL',
    when: 'the disk is full',
    provoke: (context) => failDisk(context, 'first'),
    details: { outcome: 'unknown' },
  },
  {
    reason: 'STORE_LOCKED',
    when: 'the directory is already open',
    provoke: async ({ open, directory }) => {
      await open({ storage: levelStorage(join(directory, 'data')) })
      await open({ storage: levelStorage(join(directory, 'data')) })
    },
    details: {},
  },
  {
    reason: 'STORE_FORMAT',
    when: 'the directory has other contents',
    provoke: ({ open, directory }) => {
      writeFileSync(join(directory, 'other'), '')
      return open({ storage: levelStorage(directory) })
    },
    details: { supported: '2' },
  },
  {
    reason: 'REMOTE_FAILED',
    when: 'a client’s server is unreachable',
    provoke: ({ engine, keep }) =>
      remotely(engine, keep, async ({ client, server }) => {
        await server.close()
        await client.sessions.create()
      }),
    details: { errno: 'ECONNREFUSED' },
  },
  {
    reason: 'DEADLINE_EXCEEDED',
    when: 'a client’s server is too slow',
    provoke: ({ engine, keep }) =>
      remotely(engine, keep, ({ connect }) => connect({ timeoutMs: 10, fetch: silent }).sessions.create()),
    details: { timeoutMs: '10' },
  },
  {
    reason: 'UNAUTHENTICATED',
    when: 'a client’s token is unknown',
    provoke: ({ engine, keep }) =>
      remotely(engine, keep, ({ connect }) => connect({ token: 'none' }).sessions.create()),
    details: {},
  },
  {
    reason: 'STORE_CLOSED',
    when: 'the engine was closed',
    provoke: async ({ open }) => {
      const engine = await open()
      const session = await engine.sessions.create()
      await engine.close()
      await session.files.write({ path: '/a', content: '' })
    },
    details: {},
  },
  {
    reason: 'STORE_FAILED',
    when: 'an earlier write failed',
    provoke: (context) => failDisk(context, 'second'),
    details: { outcome: 'not-applied' },
  },
  {
    reason: 'STORE_MOVED',
    when: 'the directory of the store was moved away',
    provoke: async ({ open, directory }) => {
      const engine = await open({ storage: levelStorage(join(directory, 'data')) })
      const session = await engine.sessions.create()
      renameSync(join(directory, 'data'), join(directory, 'moved'))
      await session.files.write({ path: '/a', content: '' })
    },
    details: { outcome: 'unknown' },
  },
  {
    reason: 'STORE_TAKEN',
    when: 'another engine took the lease',
    provoke: async ({ open }) => {
      const { storage, schema } = await freshPostgres()
      const engine = await open({ storage })
      const session = await engine.sessions.create()
      const server = await sharedPostgres()
      await server.sql(`UPDATE ${schema}.leases SET owner = NULL, token = token + 1`)
      await session.files.write({ path: '/a', content: '' })
    },
    details: { outcome: 'not-applied' },
    needs: 'postgres',
  },
  {
    reason: 'DATA_LOSS',
    when: 'a file of the store is missing',
    provoke: async ({ open, directory }) => {
      const storage = levelStorage(join(directory, 'data'))
      await (await open({ storage })).close()
      rmSync(join(directory, 'data/segments/manifest'))
      await open({ storage })
    },
    details: { missing: 'segments/manifest' },
  },
  {
    reason: 'NO_ADAPTER',
    when: 'an engine is composed without git and commits',
    provoke: async ({ keep }) => {
      const engine = keep(await createEngine({ storage: memoryStorage(), environment: systemEnvironment }))
      await (await engine.sessions.create({ files: { '/a': '' } })).commit({ message: 'x' })
    },
    details: {},
  },
  {
    reason: 'GIT_UNSUPPORTED_TRANSPORT',
    when: 'a source has an SSH URL',
    provoke: ({ engine }) => newSource(engine, 'ssh://example.org/a'),
    details: {},
  },
  {
    reason: 'GIT_ADDRESS_REFUSED',
    when: 'a remote is on this host, which is not allowed',
    provoke: async ({ open }) => importing(await open(), 'http://127.0.0.1:1/a'),
    details: { host: '127.0.0.1' },
  },
  {
    reason: 'GIT_UNREACHABLE',
    when: 'no server listens',
    provoke: ({ engine }) => importing(engine, 'http://127.0.0.1:1/a'),
    details: { host: '127.0.0.1:1', errno: 'ECONNREFUSED' },
  },
  {
    reason: 'GIT_TIMEOUT',
    when: 'the remote does not respond',
    provoke: async ({ keep }) => {
      const { importer } = createGitAdapter({ ...git, idleTimeoutMs: 50 })
      const parts = {
        storage: memoryStorage(),
        environment: systemEnvironment,
        importer: () => Promise.resolve(importer),
      }
      const server = createServer(() => undefined)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      keep({
        close: async () => {
          server.close()
        },
      })
      const { port } = server.address() as AddressInfo
      await importing(keep(await createEngine(parts)), `http://127.0.0.1:${port}/a`)
    },
    details: { host: anyText },
  },
  {
    reason: 'GIT_REMOTE_ERROR',
    when: 'the remote responds with an error',
    provoke: async ({ engine, serve }) => importing(engine, `${(await serve(answer(500))).url}/a`),
    details: { status: '500' },
  },
  {
    reason: 'GIT_NOT_A_REPOSITORY',
    when: 'the remote is a web page',
    provoke: async ({ engine, serve }) => importing(engine, `${(await serve(answer(200))).url}/a`),
    details: {},
  },
  {
    reason: 'GIT_REPO_NOT_FOUND',
    when: 'the remote has no such repository',
    needs: 'git',
    provoke: async ({ engine, serve }) => importing(engine, `${(await serve()).url}/none.git`),
    details: { status: '404' },
  },
  {
    reason: 'GIT_REF_NOT_FOUND',
    when: 'the repository has no such branch',
    needs: 'git',
    provoke: async (context) => {
      filled(context.repository())
      await importing(context.engine, `${(await context.serve()).url}/r.git`, 'none')
    },
    details: { gitRef: 'none' },
  },
  {
    reason: 'GIT_AUTH_REQUIRED',
    when: 'the remote requires credentials and there are none',
    needs: 'git',
    provoke: async ({ engine, serve, repository }) => {
      filled(repository())
      await importing(engine, `${(await serve({ auth: 'a:b' })).url}/r.git`)
    },
    details: { status: '401' },
  },
  {
    reason: 'GIT_AUTH_FAILED',
    when: 'the remote rejects the credentials',
    needs: 'git',
    provoke: async ({ open, serve, repository }) => {
      filled(repository())
      const credentials = { username: 'a', password: 'wrong' }
      const engine = await open({ git: { ...git, credentials: () => Promise.resolve(credentials) } })
      await importing(engine, `${(await serve({ auth: 'a:b' })).url}/r.git`)
    },
    details: { status: '401' },
  },
  {
    reason: 'GIT_NOT_A_TREE',
    when: 'a tag names a file',
    needs: 'git',
    provoke: async ({ engine, serve, repository }) => {
      const made = filled(repository())
      made.git(['tag', 'file', made.blob('content')])
      await importing(engine, `${(await serve()).url}/r.git`, 'file')
    },
    details: { objectId: anyText },
  },
  {
    reason: 'GIT_UNSAFE_PATH',
    when: 'a tree contains .git',
    needs: 'git',
    provoke: async ({ engine, serve, repository }) => {
      const made = repository()
      made.commitTree(made.rawTree([['100644', '.git', made.blob('x')]]))
      await importing(engine, `${(await serve()).url}/r.git`)
    },
    details: { path: '/.git' },
  },
  {
    reason: 'GIT_TOO_LARGE',
    when: 'tags are nested too deep',
    needs: 'git',
    provoke: async ({ engine, serve, repository }) => {
      const made = filled(repository())
      for (let i = 0; i < 20; i++) made.git(['tag', '-a', '-m', 'x', `t${i}`, i === 0 ? 'main' : `t${i - 1}`])
      await importing(engine, `${(await serve()).url}/r.git`, 't19')
    },
    details: { limit: '16' },
  },
  {
    reason: 'GIT_CORRUPT',
    when: 'the list of refs is truncated',
    needs: 'git',
    provoke: async ({ engine, serve, repository }) => {
      filled(repository())
      const { url } = await serve({ rewrite: (_request, body) => body.subarray(0, 60) })
      await importing(engine, `${url}/r.git`)
    },
    details: {},
  },
  {
    reason: 'GIT_PUSH_REJECTED',
    when: 'a hook of the remote rejects the push',
    needs: 'git',
    provoke: async (context) => {
      const { repository, imported } = await importedSession(context)
      repository.hook('pre-receive', 'echo not today; exit 1')
      await imported.files.write({ path: '/new', content: 'new' })
      await imported.commit({ message: 'mine', gitBranch: { branchName: 'main' } })
    },
    details: { reason: anyText, remoteMessage: expect.stringContaining('not today') },
  },
  {
    reason: 'WOULD_BLOCK',
    when: 'a synchronous read would have to wait',
    provoke: async ({ open }) => {
      const storage = memoryStorage({ durable: true, syncReads: false })
      const first = await open({ storage })
      const { id } = await first.sessions.create({ files: { '/file': 'content' } })
      await first.close()
      const { fs } = await (await open({ storage })).sessions.open(id)
      try {
        fs.readFileSync('/file')
      } catch (error) {
        throw (error as Error).cause
      }
    },
    details: {},
  },
  {
    reason: 'ANNOTATION_NOT_FOUND',
    when: 'no annotation has the id',
    provoke: ({ session }) =>
      session.annotations.setStatus({ annotationId: unknownId, newStatus: AnnotationStatus.OPEN }),
    details: { annotationId: unknownId },
  },
  {
    reason: 'APPROVAL_NOT_FOUND',
    when: 'no approval has the id',
    provoke: ({ session }) => session.approvals.grant({ approvalId: unknownId }),
    details: { approvalId: unknownId },
  },
  {
    reason: 'APPROVAL_NOT_PENDING',
    when: 'an approval was already granted',
    provoke: async ({ session }) => {
      const { approvalId } = await session.approvals.request()
      await session.approvals.grant({ approvalId })
      await session.approvals.deny({ approvalId })
    },
    details: { approvalId: anyText },
  },
]

/** Rows of sources other than git remotes. */
rows.push(
  {
    reason: 'SOURCE_NOT_REFRESHABLE',
    when: 'an uploaded source is refreshed',
    provoke: async ({ engine }) => engine.sources.refresh(await uploadSource(engine)),
    details: { sourceId: anyText },
  },
  {
    reason: 'INVALID_ARCHIVE',
    when: 'an upload is not an archive',
    provoke: ({ engine }) => uploading(engine, Buffer.alloc(2000, 'no archive')),
    details: {},
  },
  {
    reason: 'UNSAFE_PATH',
    when: 'an archive has a path outside itself',
    provoke: ({ engine }) => uploading(engine, tarOf({ name: '../out', content: 'x' })),
    details: { path: '../out' },
  },
  {
    reason: 'LIMIT_EXCEEDED',
    when: 'an archive inflates to far more than its size',
    provoke: ({ engine }) => uploading(engine, gzipSync(Buffer.alloc(2 ** 26))),
    details: expect.objectContaining({ limit: anyText }) as Readonly<Record<string, unknown>>,
  },
  {
    reason: 'HOST_PATH_NOT_FOUND',
    when: 'a directory to read is missing',
    provoke: async ({ open, directory }) => {
      const engine = await open({ hostPaths: { roots: [directory] } })
      const path = join(directory, 'missing')
      await engine.sources.create({ displayName: 'a', hostPath: { path } })
    },
    details: { path: anyText },
  },
  {
    reason: 'HOST_PATH_NOT_ALLOWED',
    when: 'a directory is outside the roots',
    provoke: ({ engine, directory }) =>
      engine.sources.create({ displayName: 'a', hostPath: { path: directory } }),
    details: { path: anyText },
  },
  {
    reason: 'HOST_FAILED',
    when: 'the host does not allow a name of that length',
    provoke: async ({ open, directory }) => {
      const engine = await open({ hostPaths: { roots: [directory] } })
      const session = await engine.sessions.create({ files: { '/a': 'a' } })
      await session.checkout(join(directory, 'x'.repeat(300)))
    },
    details: { errno: 'ENAMETOOLONG', path: anyText },
  },
  {
    reason: 'CHECKOUT_MODIFIED',
    when: 'a directory to check out to has other files',
    provoke: async ({ open, directory }) => {
      const engine = await open({ hostPaths: { roots: [directory] } })
      const session = await engine.sessions.create({ files: { '/a': 'a' } })
      writeFileSync(join(directory, 'mine'), '')
      await session.checkout(directory)
    },
    details: { path: anyText },
  },
  {
    reason: 'CREDENTIALS_NOT_FOUND',
    when: 'the hook does not know the id',
    needs: 'git',
    provoke: async ({ open, serve }) => {
      const engine = await open({ git: { ...git, credentials: () => Promise.resolve(undefined) } })
      const remoteUrl = `${(await serve()).url}/r.git`
      const { sourceId } = await engine.sources.create({
        displayName: 'a',
        gitRemote: { remoteUrl, credentialsSecretId: 'unknown' },
      })
      await finished(engine, await engine.sources.startImport(sourceId))
    },
    details: { credentialsSecretId: 'unknown' },
  },
  {
    reason: 'GIT_UNSUPPORTED_BUNDLE',
    when: 'an upload is not a bundle',
    provoke: ({ engine }) => bundling(engine, Buffer.from('no bundle\n')),
    details: {},
  },
  {
    reason: 'GIT_BUNDLE_PREREQUISITE',
    when: 'a bundle requires an unknown commit',
    needs: 'git',
    provoke: async ({ engine, repository }) => {
      const served = filled(repository())
      const before = served.tip('refs/heads/main')!
      served.stage([['100644', 'other', 'content']])
      served.commit()
      const range = `${before}..main`
      await bundling(engine, served.gitBytes(['bundle', 'create', '-q', '-', range]))
    },
    details: { oids: anyText },
  },
)

/** A defect of this library cannot be provoked while none is known. */
const notProvoked: readonly ErrorReason[] = ['MERGE_BASE_GONE', 'INTERNAL']

let context: Context
let resources: { close(): Promise<void> }[]

beforeEach(async () => {
  resources = []
  const directory = mkdtempSync(join(tmpdir(), 'errors-'))
  const keep: Context['keep'] = (resource) => {
    resources.push(resource)
    return resource
  }
  const open: Context['open'] = async (options) => keep(await openEngine(options))
  const engine = await open({ git })
  const session = await engine.sessions.create({ files: { '/dir/file': 'x', '/file': 'file' } })
  await session.files.createSymlink({ linkPath: '/link', target: 'file' })
  context = {
    directory,
    engine,
    session,
    keep,
    open,
    serve: async (options) => keep(await serveGit(directory, options)),
    repository: (name = 'r.git') => GitRepository.create(join(directory, name)),
  }
})

afterEach(async () => {
  for (const resource of resources.toReversed()) await resource.close().catch(() => undefined)
  rmSync(context.directory, { recursive: true, force: true })
})

const isMissing = { nothing: false, git: !hasGit, postgres: !hasPostgres, time: !isLong }

describe('each reason is thrown by a real failure that changes nothing:', () => {
  for (const { reason, when, provoke, details, needs } of rows) {
    test.skipIf(isMissing[needs ?? 'nothing'])(`${reason} when ${when}`, async () => {
      const before = await context.session.manifest()
      const error = await provoke(context).then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      if (!(error instanceof EngineError)) throw error ?? new Error('nothing was thrown')
      expect({ reason: error.reason, details: { ...error.details } }).toEqual({ reason, details })
      expect(error.code).toBe(errorRegistry[reason].code)
      expect(error.status).toBe(StatusCode[error.code])
      expect(error.name).toBe('EngineError')
      expect(error.message).not.toBe('')
      for (const value of Object.values(error.details)) expect(typeof value).toBe('string')
      expect(await context.session.manifest()).toEqual(before)
    })
  }

  test('the rows cover every reason of the registry', () => {
    const covered = new Set<ErrorReason>([...rows.map(({ reason }) => reason), ...notProvoked])
    const missing = (Object.keys(errorRegistry) as ErrorReason[]).filter((reason) => !covered.has(reason))
    expect(missing).toEqual([])
  })

  test('no row provokes an excluded reason', () => {
    expect(rows.filter(({ reason }) => notProvoked.includes(reason))).toEqual([])
  })
})

describe('the registry', () => {
  test('assigns every reason a known code and a sentence', () => {
    for (const [reason, { code, meaning }] of Object.entries(errorRegistry)) {
      expect(reason).toMatch(/^[A-Z][A-Z0-9_]*$/)
      expect(StatusCode).toHaveProperty(code)
      expect(meaning).toMatch(/^[A-Z].*\.$/)
    }
  })

  test('maps reasons to an errno in the node:fs view', async () => {
    const { promises } = context.session.fs
    const calls: [call: () => Promise<unknown>, code: string][] = [
      [() => promises.readFile('/none'), 'ENOENT'],
      [() => promises.mkdir('/dir'), 'EEXIST'],
      [() => promises.rmdir('/dir'), 'ENOTEMPTY'],
      [() => promises.unlink('/dir'), 'EISDIR'],
      [() => promises.readFile('/file/x'), 'ENOTDIR'],
      [() => promises.readlink('/file'), 'EINVAL'],
      [() => promises.writeFile(`/${'x'.repeat(256)}`, ''), 'ENAMETOOLONG'],
    ]
    for (const [call, code] of calls) {
      const error = await call().catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code, cause: expect.any(EngineError) })
      expect(errorRegistry[(error as { cause: EngineError }).cause.reason].errno).toBe(code)
    }
  })
})

function newSource(
  engine: Engine,
  remoteUrl = 'https://example.org/a.git',
): ReturnType<Engine['sources']['create']> {
  return engine.sources.create({ displayName: 'source', gitRemote: { remoteUrl } })
}

/** Runs an import that must fail and throws its cause. The job must show the corresponding code. */
async function importing(engine: Engine, remoteUrl: string, gitRef = ''): Promise<void> {
  const { sourceId } = await newSource(engine, remoteUrl)
  await finished(engine, await engine.sources.startImport(sourceId, { git: { gitRef } }))
}

async function uploadSource(engine: Engine): Promise<string> {
  return (await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })).sourceId
}

async function uploading(engine: Engine, content: Uint8Array): Promise<void> {
  const sourceId = await uploadSource(engine)
  await finished(engine, await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } }))
}

async function bundling(engine: Engine, content: Uint8Array): Promise<void> {
  const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedGitBundle: {} })
  await finished(engine, await engine.sources.startImport(sourceId, { uploadedGitBundle: { content } }))
}

async function finished(engine: Engine, job: ImportJob): Promise<void> {
  const { sourceId } = job
  try {
    await engine.sources.waitForJob(job)
  } catch (error) {
    const { cause, details } = error as EngineError
    if (!(cause instanceof EngineError)) throw error
    expect(details['errorCode']).toBe(errorRegistry[cause.reason].job)
    expect(await engine.sources.getJob(job)).toMatchObject({
      state: 'UNDERLAY_IMPORT_JOB_STATE_FAILED',
      errorCode: details['errorCode'],
      errorMessage: cause.message,
      revisionId: '',
    })
    expect((await engine.sources.get(sourceId)).status).toBe('UNDERLAY_SOURCE_STATUS_FAILED')
    throw cause
  }
}

function rethrowCause(error: unknown): never {
  throw error instanceof EngineError && error.reason === 'IMPORT_FAILED' ? error.cause : error
}

function filled(repository: GitRepository): GitRepository {
  repository.stage([['100644', 'file', 'content']])
  repository.commit()
  return repository
}

/** Two forks that changed the same file. */
async function conflicting(session: Session): Promise<readonly [Session, Session]> {
  const forks = [await session.fork(), await session.fork()] as const
  for (const fork of forks) await fork.files.write({ path: '/file', content: fork.id })
  return forks
}

async function importedSession(context: Context): Promise<{ repository: GitRepository; imported: Session }> {
  const repository = filled(context.repository())
  const { engine } = context
  const { sourceId } = await newSource(engine, `${(await context.serve()).url}/r.git`)
  await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
  return { repository, imported: await engine.sessions.create({ sourceRef: { sourceId } }) }
}

function answer(status: number): GitServerOptions {
  return {
    intercept: (_request, response) => {
      response.writeHead(status, { 'content-type': 'text/html' }).end('<html></html>')
      return true
    },
  }
}

/** Makes the next log file of LevelDB a link to a device that is always full. */
async function failDisk({ open, directory }: Context, want: 'first' | 'second'): Promise<void> {
  const disk = new FaultyDisk()
  const data = join(directory, 'data')
  const engine = await open({
    storage: { open: () => openLevelStore(data, { durability: 'relaxed', disk }) },
  })
  const session = await engine.sessions.create()
  Object.assign(disk, {
    failAt: disk.operations + 1,
    forEver: true,
    code: want === 'first' ? 'ENOSPC' : 'EIO',
  })
  let first: unknown
  for (let i = 0; i < 20 && first === undefined; i++) {
    const content = new Uint8Array(2 ** 20).fill(i)
    first = await session.files.write({ path: `/${i}`, content }).then(
      () => undefined,
      (error: unknown) => error,
    )
  }
  if (want === 'first') throw first
  await engine.sessions.create()
}
