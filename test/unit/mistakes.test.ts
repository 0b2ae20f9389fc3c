/** Typical mistakes and their error messages, which state the problem, the value and the remedy. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  EngineError,
  memoryStorage,
  openEngine,
  PosixLockKind,
  type Engine,
  type Session,
} from '../../src/index.js'
import { connect } from '../../src/adapters/client/index.js'
import { gitHandler } from '../../src/adapters/git-server/index.js'
import { createHttpHandler, serve, staticTokens } from '../../src/adapters/http/index.js'
import { checkStore, levelStorage } from '../../src/adapters/level/index.js'
import { mcpHandler } from '../../src/adapters/mcp/index.js'
import { workspaceTools } from '../../src/adapters/tools/index.js'
import { fixedEnvironment, fixture, fromJSON } from '../../src/testing.js'

let engine: Engine
let session: Session
let small: Session
let durable: Session
let budgeted: Session
const opened: Engine[] = []
beforeAll(async () => {
  const open = async (options?: Parameters<typeof openEngine>[0]): Promise<Engine> => {
    const one = await openEngine(options)
    opened.push(one)
    return one
  }
  engine = await open()
  session = await engine.sessions.create({ files: { '/a': 'x', '/d/f': 'x' } })
  small = await (await open({ maxFileBytes: 10 })).sessions.create()
  budgeted = await (await open({ budgets: { tenantBytes: 100 } })).sessions.create()
  durable = await (await open({ storage: memoryStorage({ durable: true }) })).sessions.create()
})
afterAll(() => Promise.all(opened.map((one) => one.close())))

const mistakes: readonly (readonly [what: string, call: () => Promise<unknown>, says: string])[] = [
  [
    'a misspelt storage',
    () => openEngine({ stroage: memoryStorage() } as never),
    'INVALID_ARGUMENT stroage: unknown key; did you mean "storage"?',
  ],
  [
    'a storage in place of options',
    () => openEngine(memoryStorage() as never),
    'INVALID_ARGUMENT options: must be an object of options; it is a storage. Call openEngine({ storage }) with it',
  ],
  [
    'a storage that is a path',
    () => openEngine({ storage: './data' as never }),
    'INVALID_ARGUMENT storage: must be a storage, such as levelStorage(directory) or memoryStorage(); it is "./data"',
  ],
  [
    'roots that are a single path',
    () => openEngine({ hostPaths: { roots: '/srv' as never } }),
    'INVALID_ARGUMENT hostPaths.roots: must be an array; it is a string',
  ],
  [
    'a root that is relative',
    () => openEngine({ hostPaths: { roots: ['/srv', 'data'] } }),
    'INVALID_ARGUMENT hostPaths.roots[1]: must be an absolute path, such as "/srv/projects"; it is "data"',
  ],
  [
    'a flag that is a word',
    () => openEngine({ git: { allowPrivateAddresses: 'no' as never } }),
    'INVALID_ARGUMENT git.allowPrivateAddresses: must be true or false; it is "no"',
  ],
  [
    'credentials that are not a function',
    () => openEngine({ git: { credentials: { username: 'a', password: 'b' } as never } }),
    'INVALID_ARGUMENT git.credentials: must be a function; it is an object',
  ],
  [
    'a permission rule that is not a function',
    () => openEngine({ authorize: null as never }),
    'INVALID_ARGUMENT authorize: must be a function; it is null',
  ],
  [
    'a log that is an object',
    () => openEngine({ log: console as never }),
    'INVALID_ARGUMENT log: must be a function; it is an instance of Console',
  ],
  [
    'an environment without a clock',
    () => openEngine({ environment: { wallClockMs: Date.now } as never }),
    'INVALID_ARGUMENT environment: must have the methods wallClockMs, monotonicMs and randomFill; its monotonicMs is undefined',
  ],
  [
    'a size with its unit',
    () => openEngine({ maxFileBytes: '1 GiB' as never }),
    'INVALID_ARGUMENT maxFileBytes: must be a whole number from 0 to 2^53 − 1; it is "1 GiB"',
  ],
  [
    'a misspelt guard',
    () => session.files.write({ path: '/a', content: '', expectdHash: '' } as never),
    'INVALID_ARGUMENT expectdHash: unknown key; did you mean "expectedHash"?',
  ],
  [
    'a misspelt option in a batch',
    () =>
      session.files.batch([
        { write: { path: '/b', content: '' } },
        { write: { path: '/c', contents: '' } as never },
      ]),
    'INVALID_ARGUMENT operations[1].write.contents: unknown key; did you mean "content"?',
  ],
  [
    'an operation of a batch with two keys',
    () => session.files.batch([{ write: { path: '/b', content: '' }, delete: { path: '/a' } }]),
    'INVALID_ARGUMENT operations[0]: must have exactly one of the keys write, delete, segmentWrite; it has write, delete',
  ],
  [
    'a batch that is not an array',
    () => session.files.batch({ write: { path: '/b', content: '' } } as never),
    'INVALID_ARGUMENT operations: must be an array; it is an object',
  ],
  [
    'missing content in a batch',
    () => session.files.batch([{ write: { path: '/b' } as never }]),
    'INVALID_ARGUMENT operations[0].write.content: must be a string or a Uint8Array; it is undefined',
  ],
  [
    'one wrong key of 500',
    () =>
      session.cache.batchSet({
        entries: Array.from({ length: 500 }, (_, i) => ({ key: i === 317 ? '' : `k${i}`, value: 'x' })),
      }),
    'INVALID_ARGUMENT entries[317].key: must not be empty, "." or ".."',
  ],
  [
    'one wrong time to live of many',
    () =>
      session.cache.batchSet({
        entries: [
          { key: 'a', value: 'x' },
          { key: 'b', value: 'x', ttlSeconds: -1 },
        ],
      }),
    'INVALID_ARGUMENT entries[1].ttlSeconds: must be a whole number of seconds from 0; it is -1',
  ],
  [
    'an unknown capability',
    () => Promise.resolve().then(() => session.narrow({ without: ['file.write' as never] })),
    'INVALID_ARGUMENT without[0]: unknown capability "file.write"; did you mean "files.write"? The capabilities are files.read, files.write, history, fork, delete, locks, locks.force, annotations, approvals, approvals.decide, commit, checkout, exec, promote, cache, bus, health, secrets, sources, sessions, usage.',
  ],
  [
    'restore with a label',
    () => session.restore('before' as never),
    'INVALID_ARGUMENT request: must be an object with the keys checkpointId, checkpointLabel, from, paths, dryRun, listChanges; it is a string',
  ],
  [
    'restore with nothing',
    () => session.restore({}),
    'INVALID_ARGUMENT checkpointId: pass one of checkpointId and checkpointLabel, such as { checkpointLabel: "before" }',
  ],
  [
    'restore with a whole checkpoint as its id',
    () => session.restore({ checkpointId: {} as never }),
    'INVALID_ARGUMENT checkpointId: must be a string; it is an object',
  ],
  [
    'restore with an unknown label',
    () => session.restore({ checkpointLabel: 'none' }),
    'CHECKPOINT_NOT_FOUND the session has no checkpoint with the label "none"; listCheckpoints() lists them',
  ],
  [
    'a checkpoint with a label under another name',
    () => session.checkpoint({ label: 'a' } as never),
    'INVALID_ARGUMENT label: unknown key; did you mean "checkpointLabel"?',
  ],
  [
    'a fork of a checkpoint under another name',
    () => session.fork({ sourceCheckpointLabel: 'a' } as never),
    'INVALID_ARGUMENT sourceCheckpointLabel: unknown key; did you mean "checkpointLabel"?',
  ],
  [
    'a commit to a branch under another name',
    () => session.commit({ message: 'a', branch: 'main' } as never),
    'INVALID_ARGUMENT branch: unknown key; did you mean "gitBranch"?',
  ],
  [
    'a relative path',
    () => session.files.write({ path: 'a.txt', content: '' }),
    'INVALID_ARGUMENT path: must be absolute, such as "/src/a.ts"; it is "a.txt"',
  ],
  [
    'a path with a dot part',
    () => session.files.read({ path: '/a/../b' }),
    'INVALID_ARGUMENT path: has the part "..": a path has no empty, "." or ".." part',
  ],
  [
    'a mode in decimal',
    () => session.files.write({ path: '/a', content: '', mode: 100644 }),
    'INVALID_ARGUMENT mode: must be a whole number from 0 to 0o7777, such as 0o644; it is 100644',
  ],
  [
    'content that is an object',
    () => session.files.write({ path: '/a', content: { a: 1 } as never }),
    'INVALID_ARGUMENT content: must be a string or a Uint8Array; it is an object. For JSON, pass JSON.stringify(value)',
  ],
  [
    'a path of the wrong type',
    () => session.files.stat('/a' as never),
    'INVALID_ARGUMENT request: must be an object with the keys path, followSymlinks, includeContentHash; it is a string',
  ],
  [
    'a hash without its prefix',
    () => session.files.write({ path: '/a', content: '', expectedHash: 'abc' }),
    'INVALID_ARGUMENT expectedHash: must be \'\' or sha256:<64 hex digits>; it is "abc"',
  ],
  [
    'a filter that is an object',
    () => engine.sessions.list({ filter: { task: '1' } as never }),
    'INVALID_ARGUMENT filter: must have the form key=value; it is an object',
  ],
  [
    'a fork that was not awaited',
    () => session.merge(session.fork() as never),
    'INVALID_ARGUMENT source: must be an object with the keys sessionId, checkpointId, checkpointLabel, eventId, time, base; it is a promise, which must be awaited first',
  ],
  [
    'content that was not awaited',
    () => session.files.write({ path: '/a', content: session.files.read({ path: '/a' }) as never }),
    'INVALID_ARGUMENT content: must be a string or a Uint8Array; it is a promise, which must be awaited first',
  ],
  [
    'a page size below 0',
    () => session.manifest({ pageSize: -1 }),
    'INVALID_ARGUMENT pageSize: must be a whole number from 0; it is -1',
  ],
  [
    'a page token of another listing',
    () => session.manifest({ pageToken: 'eA' }),
    'INVALID_ARGUMENT pageToken: is not a page token of this listing: pass the nextPageToken of the previous page, or omit it',
  ],
  [
    'tags that are a list',
    () => engine.sessions.create({ initialTags: ['a'] as never }),
    'INVALID_ARGUMENT initialTags: must be an object of strings; it is an array',
  ],
  [
    'tags in a Map',
    () => engine.sessions.create({ initialTags: new Map([['a', 'b']]) as never }),
    'INVALID_ARGUMENT initialTags: must be an object of strings; it is not a plain object',
  ],
  [
    'a promise of files that was not awaited',
    () => engine.sessions.create({ files: Promise.resolve({ '/a': 'a' }) as never }),
    'INVALID_ARGUMENT files: must be an object of paths and contents, such as { "/a.txt": "hello" }; it is a promise, which must be awaited first',
  ],
  [
    'expected hashes in a Map',
    () => session.text.applyPatch({ patch: '', expectedHashes: new Map([['/a', 'x']]) as never }),
    'INVALID_ARGUMENT expectedHashes: must be an object with a hash for each path; it is not a plain object',
  ],
  [
    'a tag that is a number',
    () => engine.sessions.create({ initialTags: { task: 1 as never } }),
    'INVALID_ARGUMENT initialTags: the value of "task" must be a string; it is a number',
  ],
  [
    'two starting points',
    () => engine.sessions.create({ files: {}, sourceRef: { sourceId: 'x' } }),
    'INVALID_ARGUMENT sourceRef: pass at most one of sourceRef, files and gitRepository',
  ],
  [
    'files that are a list',
    () => engine.sessions.create({ files: ['/a'] as never }),
    'INVALID_ARGUMENT files: must be an object of paths and contents, such as { "/a.txt": "hello" }; it is an array',
  ],
  [
    'a source without a content',
    () => engine.sources.create({ displayName: 'a' }),
    'INVALID_ARGUMENT gitRemote: pass exactly one of gitRemote, uploadedSnapshot, hostPath, uploadedGitBundle, gitRepository; given: none',
  ],
  [
    'a source of two kinds',
    () => engine.sources.create({ displayName: 'a', uploadedSnapshot: {}, hostPath: { path: '/a' } }),
    'INVALID_ARGUMENT gitRemote: pass exactly one of gitRemote, uploadedSnapshot, hostPath, uploadedGitBundle, gitRepository; given: uploadedSnapshot, hostPath',
  ],
  [
    'a directory of the host outside the roots',
    () => engine.sources.create({ displayName: 'a', hostPath: { path: '/' } }),
    'HOST_PATH_NOT_ALLOWED / is outside the roots: add its directory to the option hostPaths.roots',
  ],
  [
    'a session that does not exist',
    () => engine.sessions.open('nope'),
    'SESSION_NOT_FOUND there is no session "nope"; it may have been deleted',
  ],
  [
    'a session instead of its id',
    () => engine.sessions.open(session as never),
    'INVALID_ARGUMENT sessionId: must be a string; it is an instance of Session',
  ],
  [
    'a missing session id',
    () => engine.sessions.open(undefined as never),
    'INVALID_ARGUMENT sessionId: must be a string; it is undefined',
  ],
  [
    'a source instead of its id',
    () => engine.sources.startImport({ sourceId: 'x' } as never, {}),
    'INVALID_ARGUMENT sourceId: must be a string; it is an object',
  ],
  [
    'an id instead of a request',
    () => engine.sources.listJobs('x' as never),
    'INVALID_ARGUMENT request: must be an object with the keys sourceId, pageSize, pageToken; it is a string',
  ],
  [
    'no caller',
    async () => engine.as(undefined as never),
    'INVALID_ARGUMENT caller: must be an object with the keys tenant, principal; it is undefined',
  ],
  [
    'a relative directory for a checkout',
    () => session.checkout('work'),
    'INVALID_ARGUMENT path: must be an absolute path; it is "work"',
  ],
  [
    'a relative path of a repository',
    () => engine.sessions.create({ gitRepository: { path: 'app' } }),
    'INVALID_ARGUMENT repositoryPath: must be an absolute path; it is "app"',
  ],
  [
    'a fixture of nothing',
    () => fixture({}),
    'INVALID_ARGUMENT base: must have exactly one of the keys files, directory, gitRepository, archive; it has none',
  ],
  [
    'an empty store directory',
    async () => levelStorage(''),
    'INVALID_ARGUMENT directory: must be the path of a directory; it is ""',
  ],
  [
    'a durability that does not exist',
    async () => levelStorage('/data', { durability: 'ful' as never }),
    "INVALID_ARGUMENT durability: must be 'full' or 'relaxed'; it is \"ful\"",
  ],
  [
    'a file in place of a store',
    () => openEngine({ storage: levelStorage(import.meta.filename) }),
    `STORE_FORMAT ${import.meta.filename}, the path of the store, is not a directory. Choose another path`,
  ],
  [
    'two engines on one directory',
    async () => {
      const directory = mkdtempSync(join(tmpdir(), 'mistakes-'))
      const first = await openEngine({ storage: levelStorage(directory) })
      try {
        return await openEngine({ storage: levelStorage(directory) }).catch((error: EngineError) => {
          throw Object.assign(error, { message: error.message.replace(realpathSync(directory), '<path>') })
        })
      } finally {
        await first.close()
        rmSync(directory, { recursive: true })
      }
    },
    'STORE_LOCKED the store <path> is already open in this process. Use that engine, or close it first',
  ],
  [
    'a directory with other files',
    async () => {
      const directory = mkdtempSync(join(tmpdir(), 'mistakes-'))
      writeFileSync(join(directory, 'package.json'), '{}')
      try {
        return await openEngine({ storage: levelStorage(directory) }).catch((error: EngineError) => {
          throw Object.assign(error, { message: error.message.replace(realpathSync(directory), '<path>') })
        })
      } finally {
        rmSync(directory, { recursive: true })
      }
    },
    'STORE_FORMAT <path> has files but no store. Choose an empty directory, or the directory of a store',
  ],
  [
    'a check of a directory without a store',
    () => checkStore(import.meta.dirname),
    `STORE_FORMAT there is no store in ${import.meta.dirname}. Pass the directory that has the file forkspace.json`,
  ],
  [
    'tokens that are a list',
    async () => staticTokens([{ tenant: 'a', principal: 'b' }] as never),
    'INVALID_ARGUMENT tokens: must be an object of callers by their tokens; it is an array',
  ],
  [
    'no tokens',
    async () => staticTokens(undefined as never),
    'INVALID_ARGUMENT tokens: must be an object of callers by their tokens; it is undefined',
  ],
  [
    'callers that are texts',
    async () => staticTokens({ token: 'acme/ann' as never }),
    "INVALID_ARGUMENT tokens: must have callers such as { tenant: 'acme', principal: 'ann' }; one is a string",
  ],
  [
    'a tenant that is a number',
    async () => staticTokens({ token: { tenant: 1, principal: 'b' } as never }),
    'INVALID_ARGUMENT tokens.tenant: must be a string; it is 1',
  ],
  [
    'files in nested objects',
    () => engine.sessions.create({ files: { '/src': { 'a.ts': 'x' } } as never }),
    'INVALID_ARGUMENT files["/src"]: must be a string or a Uint8Array; it is an object. For a file in a directory, pass its whole path, such as "/src/a.ts"; for JSON, pass JSON.stringify(value)',
  ],
  [
    'one relative path of many files',
    () => engine.sessions.create({ files: { '/a': '', 'src/a.ts': 'x' } }),
    'INVALID_ARGUMENT files["src/a.ts"]: must be absolute, such as "/src/a.ts"; it is "src/a.ts"',
  ],
  [
    'a remote that is a path',
    () => engine.sources.create({ displayName: 'x', gitRemote: { remoteUrl: '/srv/app.git' } }),
    'INVALID_ARGUMENT remoteUrl: must be an http or https URL; for a repository of this host, use the source gitRepository: { path }',
  ],
  [
    'a remote that is a file: URL',
    () => engine.sources.create({ displayName: 'x', gitRemote: { remoteUrl: 'file:///srv/app.git' } }),
    'GIT_UNSUPPORTED_TRANSPORT file:// cannot be used as a remote; use an http or https URL, or for a repository of this host the source gitRepository: { path }',
  ],
  [
    'tools of an engine',
    async () => workspaceTools(engine as never),
    'INVALID_ARGUMENT session: must be a session of forkspace; it is an instance of Engine',
  ],
  [
    'an allowed host that is a URL',
    async () =>
      createHttpHandler(engine, {
        authenticate: () => undefined,
        allowedHosts: ['a', 'https://app.example'],
      }),
    'INVALID_ARGUMENT allowedHosts[1]: must be a name such as "app.example" or "app.example:8080", without https:// and without a path, an address such as "[::1]", or "*" for every host; it is "https://app.example"',
  ],
  [
    'an allowed host with a wildcard',
    async () => createHttpHandler(engine, { authenticate: () => undefined, allowedHosts: ['*.app.example'] }),
    'INVALID_ARGUMENT allowedHosts[0]: must be a name such as "app.example" or "app.example:8080", without https:// and without a path, an address such as "[::1]", or "*" for every host; it is "*.app.example"',
  ],
  [
    'an allowed origin that is a host',
    async () => createHttpHandler(engine, { authenticate: () => undefined, allowedOrigins: ['app.example'] }),
    'INVALID_ARGUMENT allowedOrigins[0]: must be an origin as browsers send it, such as "https://app.example" or "http://localhost:5173": in lower case, with its scheme, and without a path; it is "app.example"',
  ],
  [
    'an allowed origin with a slash at its end',
    async () =>
      createHttpHandler(engine, { authenticate: () => undefined, allowedOrigins: ['https://app.example/'] }),
    'INVALID_ARGUMENT allowedOrigins[0]: must be an origin as browsers send it, such as "https://app.example" or "http://localhost:5173": in lower case, with its scheme, and without a path; it is "https://app.example/"',
  ],
  [
    'an allowed host of an MCP server with a port',
    async () => mcpHandler(() => session, { allowedHosts: ['app.example:8080'] }),
    'INVALID_ARGUMENT options.allowedHosts[0]: must be a host name such as "app.example", without https://, port and path; it is "app.example:8080"',
  ],
  [
    'a port that is a text',
    () => serve(createHttpHandler(engine, { authenticate: () => undefined }), { port: '8080' as never }),
    'INVALID_ARGUMENT port: must be a whole number from 0 to 65535; it is "8080"',
  ],
  [
    'a time without end',
    () => serve(createHttpHandler(engine, { authenticate: () => undefined }), { requestTimeoutMs: Infinity }),
    'INVALID_ARGUMENT requestTimeoutMs: must be a whole number from 1 to 604800000; it is Infinity',
  ],
  [
    'a limit that a timer cannot have',
    async () =>
      createHttpHandler(engine, { authenticate: () => undefined, limits: { stalledUploadMs: 2 ** 40 } }),
    'INVALID_ARGUMENT limits.stalledUploadMs: must be at most 604800000, which is a week; it is 1099511627776',
  ],
  [
    'a handler of something other than an engine',
    async () => createHttpHandler({} as never, { authenticate: () => undefined }),
    'INVALID_ARGUMENT engine: must be an engine that openEngine returned; it is an object',
  ],
  [
    'an engine in place of a handler of git repositories',
    async () => createHttpHandler(engine, { authenticate: () => undefined, git: engine as never }),
    'INVALID_ARGUMENT git: must be a handler that gitHandler returned; it is an instance of Engine',
  ],
  [
    'a handler of the API in place of one of git repositories',
    async () => {
      const git = createHttpHandler(engine, { authenticate: () => undefined })
      return createHttpHandler(engine, { authenticate: () => undefined, git })
    },
    'INVALID_ARGUMENT git: must be a handler that gitHandler returned; it is an object',
  ],
  [
    'pushes that are neither allowed nor refused',
    async () => gitHandler(engine, { authenticate: () => undefined, push: 'yes' as never }),
    'INVALID_ARGUMENT push: must be true or false; it is "yes"',
  ],
  [
    'an engine in place of a handler',
    () => serve(engine as never, { port: 0 }),
    'INVALID_ARGUMENT handler: must be a handler, such as createHttpHandler(engine, options); it is an instance of Engine',
  ],
  [
    'a server without its protocol',
    async () => connect({ baseUrl: 'example', token: 't' }),
    'INVALID_ARGUMENT baseUrl: must be a URL, such as "http://127.0.0.1:8080"; it is "example"',
  ],
  [
    'an unreachable server',
    () => connect({ baseUrl: 'http://127.0.0.1:1', token: 't' }).sessions.list(),
    'REMOTE_FAILED the server at http://127.0.0.1:1 does not respond or returned an incomplete response',
  ],
  [
    'a server with /v1',
    async () => {
      const authenticate = staticTokens({ t: { tenant: 'a', principal: 'b' } })
      const handler = createHttpHandler(engine, { authenticate })
      return connect({
        baseUrl: 'http://localhost/v1',
        token: 't',
        fetch: (...request) => handler.fetch(new Request(...request)),
      }).sessions.list()
    },
    'REMOTE_FAILED the server has no such route. Pass a baseUrl that has the prefix of the server, and not /v1',
  ],
  [
    'files in place of a session',
    () => fromJSON({ '/a': 'x' } as never, session as never),
    'INVALID_ARGUMENT session: must be a session; it is an object',
  ],
  [
    'files in a Map',
    () => fromJSON(session, new Map([['/a', 'x']]) as never),
    'INVALID_ARGUMENT files: must be an object of contents by their paths; it is not a plain object',
  ],
  [
    'tokens in a Map',
    async () => staticTokens(new Map() as never),
    'INVALID_ARGUMENT tokens: must be an object of callers by their tokens; it is not a plain object',
  ],
  [
    'no files',
    () => fromJSON(session, null as never),
    'INVALID_ARGUMENT files: must be an object of contents by their paths; it is null',
  ],
  [
    'an invalid time',
    async () => fixedEnvironment({ startMs: Date.parse('today') }),
    'INVALID_ARGUMENT startMs: must be a number; it is NaN',
  ],
  [
    'a time to live of 0',
    () => engine.sessions.create({ ttlSeconds: 0 }),
    'INVALID_ARGUMENT ttlSeconds: must be a whole number of seconds from 1; it is 0',
  ],
  [
    'a lock without a time',
    () => session.fileLocks.lock({ path: '/a' } as never),
    'INVALID_ARGUMENT timeoutSeconds: must be a whole number of seconds from 1; it is undefined',
  ],
  [
    'a kind of lock that does not exist',
    () => session.posixLocks.set({ path: '/a', kind: 'EXCLUSIVE' as never, owner: { ownerId: 'a' } }),
    'INVALID_ARGUMENT kind: must be one of POSIX_LOCK_KIND_EXCLUSIVE, POSIX_LOCK_KIND_SHARED; it is "EXCLUSIVE"',
  ],
  [
    'a signal that is a controller',
    () => engine.collect({ signal: new AbortController() as never }),
    'INVALID_ARGUMENT signal: must be an AbortSignal',
  ],
  [
    'a directory that is not empty',
    () => session.files.removeDirectory({ path: '/d' }),
    'DIRECTORY_NOT_EMPTY directory /d is not empty; remove its entries first, or pass { recursive: true } to removeDirectory',
  ],
  [
    'a file that is larger than allowed',
    () => small.files.write({ path: '/a', content: 'x'.repeat(11) }),
    'FILE_TOO_LARGE the file would have 11 bytes; the option maxFileBytes allows 10',
  ],
  [
    'a secret without a master key',
    () => durable.secrets.put({ secretName: 'A', secretValue: 'x' }),
    'NO_MASTER_KEY the engine was opened without a master key: pass the option secrets: { masterKey }',
  ],
  [
    'an annotation status that does not exist',
    () => session.annotations.setStatus({ annotationId: 'x', newStatus: 'RESOLVED' as never }),
    'INVALID_ARGUMENT newStatus: must be one of ANNOTATION_STATUS_OPEN, ANNOTATION_STATUS_RESOLVED; it is "RESOLVED"',
  ],
  [
    'a scope of a tenant under another name',
    () => Promise.resolve().then(() => engine.as({ tenantId: 'a' } as never)),
    'INVALID_ARGUMENT tenantId: unknown key; did you mean "tenant"?',
  ],
  [
    'a name that is too long',
    () => session.files.write({ path: `/${'n'.repeat(300)}`, content: '' }),
    `NAME_TOO_LONG path: the name "${'n'.repeat(64)}…" has 300 bytes; at most 255 are allowed`,
  ],
  [
    'an extended attribute that does not exist',
    () => session.files.getXattr({ path: '/a', name: 'user.none' }),
    'XATTR_NOT_FOUND /a has no extended attribute "user.none"; listXattrs() lists its attributes',
  ],
  [
    'a budget that is used up',
    () => budgeted.files.write({ path: '/a', content: 'x'.repeat(200) }),
    'BUDGET the budget tenantBytes of 100 bytes is used up; a storage in memory counts every byte that was written, so open an engine with a larger budget',
  ],
  [
    'a bundle with other content',
    () => engine.sessions.importBundle(new TextEncoder().encode('{"not":"a bundle"}')),
    'INVALID_BUNDLE the content is not a bundle: Unexpected end of data. Pass the bytes that session.exportBundle() returned.',
  ],
  [
    'a lock held by another owner',
    async () => {
      const request = { path: '/d/f', kind: PosixLockKind.EXCLUSIVE }
      await session.posixLocks.set({ ...request, owner: { ownerId: 'one' } })
      await session.posixLocks.set({ ...request, owner: { ownerId: 'two' } })
    },
    'LOCK_HELD /d/f is locked by another owner; wait for the lock with a blocking request, or try again later',
  ],
  [
    'an approval that is decided twice',
    async () => {
      const { approvalId } = await session.approvals.request({})
      await session.approvals.deny({ approvalId })
      await session.approvals.grant({ approvalId }).catch((error: EngineError) => {
        throw Object.assign(error, { message: error.message.replace(approvalId, '<id>') })
      })
    },
    'APPROVAL_NOT_PENDING the approval "<id>" was already denied',
  ],
  [
    'a path that is a number',
    () => session.files.read({ path: 5 as never }),
    'INVALID_ARGUMENT path: must be a string, such as "/src/a.ts"; it is 5',
  ],
  [
    'a path that is a URL',
    () => session.files.read({ path: new URL('file:///a') as never }),
    'INVALID_ARGUMENT path: must be a string, such as "/src/a.ts"; it is an instance of URL',
  ],
  [
    'a path with a slash at its end',
    () => session.files.list({ path: '/d/' }),
    'INVALID_ARGUMENT path: must not end with "/"; it is "/d/"',
  ],
  [
    'a time that is a Date',
    () => session.at({ time: new Date() as never }),
    'INVALID_ARGUMENT time: must be a time like 2026-01-31T08:00:00.000Z; it is an instance of Date: pass its toISOString()',
  ],
  [
    'a file in a missing directory',
    () => session.files.write({ path: '/no/such/file', content: '', createParents: false }),
    'PATH_NOT_FOUND /no/such/file cannot be created: the directory /no does not exist. Create it first, with createDirectory or mkdir and recursive: true',
  ],
  [
    'a directory in a missing directory',
    () => session.files.createDirectory({ path: '/d/no/such' }),
    'PATH_NOT_FOUND /d/no/such cannot be created: the directory /d/no does not exist. Create it first, with createDirectory or mkdir and recursive: true',
  ],
  [
    'a file of session.fs in a missing directory',
    () =>
      session.fs.promises.writeFile('/no/file', '').catch((error: Error) => {
        throw error.cause
      }),
    'PATH_NOT_FOUND /no/file cannot be created: the directory /no does not exist. Create it first, with createDirectory or mkdir and recursive: true',
  ],
  [
    'delete of a directory',
    () => session.files.delete({ path: '/d' }),
    'IS_A_DIRECTORY /d is a directory: remove it with removeDirectory or rm, and recursive: true',
  ],
  [
    'an id that is a number, with a server',
    () => connect({ baseUrl: 'http://localhost', token: 't' }).sessions.open(5 as never),
    'INVALID_ARGUMENT sessionId: must be a string; it is a number',
  ],
  [
    'an array instead of a request',
    () => session.files.read(['/a'] as never),
    'INVALID_ARGUMENT request: must be an object with the keys path, offset, length; it is an array',
  ],
  [
    'options instead of a request',
    () => session.files.read('/a' as never),
    'INVALID_ARGUMENT request: must be an object with the keys path, offset, length; it is a string',
  ],
]

test.each(mistakes)('%s', async (_what, call, says) => {
  const failure: unknown = await call().then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(failure).toBeInstanceOf(EngineError)
  const { reason, message } = failure as EngineError
  expect(`${reason} ${message}`).toBe(says)
})

test('a proxy in place of another session is refused with an error of the engine', async () => {
  const { proxy: revoked, revoke } = Proxy.revocable(session, {})
  revoke()
  for (const other of [revoked, new Proxy(session, {})]) {
    const refused: unknown = expect.objectContaining({ name: 'EngineError', reason: 'INVALID_ARGUMENT' })
    await expect(session.merge(other)).rejects.toEqual(refused)
    await expect(session.diff(other).paths()).rejects.toEqual(refused)
  }
})
