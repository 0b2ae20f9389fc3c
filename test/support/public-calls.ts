/** Every public method, with arguments for each of its parameters and options. */
import type * as archive from '../../src/adapters/archive/index.js'
import type * as claude from '../../src/adapters/claude/index.js'
import type * as client from '../../src/adapters/client/index.js'
import type * as aiSdk from '../../src/adapters/ai-sdk/index.js'
import type * as git from '../../src/adapters/git/index.js'
import type * as gitServer from '../../src/adapters/git-server/index.js'
import type * as host from '../../src/adapters/host/index.js'
import type * as deepagents from '../../src/adapters/deepagents/index.js'
import type * as http from '../../src/adapters/http/index.js'
import type * as inspector from '../../src/adapters/inspector/index.js'
import type * as level from '../../src/adapters/level/index.js'
import type * as justBash from '../../src/adapters/just-bash/index.js'
import type * as mcp from '../../src/adapters/mcp/index.js'
import type * as mastra from '../../src/adapters/mastra/index.js'
import type * as nodeVfs from '../../src/adapters/node-vfs/index.js'
import type * as openaiAgents from '../../src/adapters/openai-agents/index.js'
import type * as postgres from '../../src/adapters/postgres/index.js'
import type * as s3 from '../../src/adapters/s3/index.js'
import type { SessionApi } from '../../src/index.js'
import type * as tanstack from '../../src/adapters/tanstack/index.js'
import type * as tools from '../../src/adapters/tools/index.js'
import type * as webdav from '../../src/adapters/webdav/index.js'
import * as main from '../../src/index.js'
import type * as testing from '../../src/testing.js'

type Method = (...given: never[]) => unknown
type NameOf<T> = { [Name in keyof T]: T[Name] extends Method ? Name : never }[keyof T] & string
/**
 * For each method, arguments that together cover every parameter and every option that takes an object. The compiler
 * rejects a table that lacks a method or a parameter, so new methods must be added here.
 */
export type Calls<T> = {
  readonly [Name in NameOf<T>]: readonly (T[Name] extends (...given: infer Given) => unknown
    ? Readonly<Required<Given>>
    : never)[]
}

const content = new Uint8Array(1)
export const hash = `sha256:${'0'.repeat(64)}`
export const id = '0'.repeat(36)
const page = { pageSize: 1, pageToken: '' }
const { signal } = new AbortController()
const owner = { ownerId: 'a', pid: 1, clientId: 'c' }
const range = { start: 0, length: 1 }
const onProgress = (): void => undefined
const none = (): Promise<never> => Promise.reject(new Error('not called'))
const segment = { path: '/a', segments: [], expectedHash: hash, logicalSize: 1, mode: 0o644 }
const segments = [
  { data: { offset: 0, content } },
  { hole: { offset: 0, length: 1 } },
  { borrowed: { offset: 0, length: 1, hash, casOffset: 0 } },
]
const write = { path: '/a', content, mode: 0o600, expectedHash: hash }
const state = { sessionId: id, checkpointId: id }

export const sessionsCalls: Calls<main.Sessions> = {
  create: [
    [{ sourceRef: { sourceId: id, revisionId: id }, initialTags: {}, ttlSeconds: 1 }],
    [{ files: { '/a': content } }],
    [{ gitRepository: { path: '/a', gitRef: 'b' } }],
  ],
  importBundle: [[content, { signal }]],
  open: [[id]],
  get: [[id]],
  list: [[{ filter: 'a=b', metadata: {}, ...page }]],
  delete: [[id]],
}

const job = { sourceId: id, jobId: id }
export const sourcesCalls: Calls<main.Sources> = {
  create: [
    [{ displayName: 'a', labels: {}, gitRemote: { remoteUrl: '', defaultRef: '', credentialsSecretId: '' } }],
    [{ displayName: 'a', uploadedSnapshot: {} }],
    [{ displayName: 'a', hostPath: { path: '/a' } }],
    [{ displayName: 'a', uploadedGitBundle: { defaultRef: '' } }],
    [{ displayName: 'a', gitRepository: { path: '/a', defaultRef: '' } }],
  ],
  get: [[id]],
  list: [[{ filter: 'a=b', ...page }]],
  delete: [[id]],
  startImport: [
    [id, { git: { gitRef: '' }, signal }],
    [id, { uploadedSnapshot: { content } }],
    [id, { uploadedSnapshot: { files: { '/a': content } } }],
    [id, { uploadedGitBundle: { content, gitRef: '' } }],
  ],
  refresh: [[id, { gitRef: '', signal }]],
  promoteSession: [[id, { sessionId: id, revisionLabel: '', signal }]],
  exportTar: [[{ sourceId: id, revisionId: id, path: '/' }]],
  getJob: [[job]],
  listJobs: [[{ sourceId: id, ...page }]],
  waitForJob: [[job, { signal, onProgress }]],
  watchJob: [[job, { signal }]],
  abortJob: [[job]],
  onJob: [[onProgress]],
}

/** A state by one of its names; the others are only read. */
const stateName = { time: '2026-01-01T00:00:00Z' }

export const usageCalls: Calls<main.TenantUsage> = {
  get: [[{ windowStart: '2026-01-01T00:00:00Z', windowEnd: '2026-01-02T00:00:00Z', granularity: 'day' }]],
  metrics: [[]],
  sent: [[1]],
}

export const engineCalls: Calls<main.Engine> = {
  narrow: [[{ without: ['commit'] }]],
  diff: [[{ from: { ...state, base: true }, to: { sessionId: id, checkpointLabel: 'a' } }]],
  as: [[{ tenant: 'a', principal: 'b' }]],
  rotateSecrets: [[]],
  collect: [[{ keepRedo: true, signal, onProgress }]],
  check: [[{ readData: false, signal, onProgress }]],
  close: [],
}

export const mergeOptions: main.MergeOptions = {
  policies: [{ glob: '**', policy: 'ours' }],
  mergers: [{ glob: '*.json', merge: () => undefined }],
  dryRun: true,
  expectedEventId: `${id}-00000001`,
  names: { base: 'a', ours: 'b', theirs: 'c' },
}

export const sessionCalls: Calls<main.Session> = {
  flush: [[]],
  narrow: [[{ without: ['commit'] }]],
  get: [[]],
  analytics: [[]],
  delete: [],
  fork: [[{ checkpointLabel: '', newTags: {}, metadata: {} }], [{ from: stateName }]],
  lineage: [[{ with: id, ...page }]],
  at: [[stateName]],
  draft: [[]],
  watch: [[{ globs: ['*'], debounceMs: 1, afterEventId: id, signal }]],
  undo: [[{ count: 1, by: 'event', dryRun: true, listChanges: true }]],
  redo: [[{ count: 1, by: 'group', dryRun: true, listChanges: true }]],
  group: [['a']],
  withMetadata: [[{ a: 1 }]],
  history: [[{ path: '/a', ...page }]],
  blame: [[{ path: '/a', at: stateName }]],
  checkpoint: [[{ checkpointLabel: '', metadata: {} }]],
  listCheckpoints: [[{ metadata: {}, ...page }]],
  deleteCheckpoint: [[{ checkpointId: id }], [{ checkpointLabel: 'a' }]],
  pruneCheckpoints: [[{ keepLast: 10 }]],
  restore: [
    [{ checkpointId: id }],
    [{ checkpointLabel: 'a' }],
    [{ from: stateName, paths: ['/a'], dryRun: true, listChanges: true }],
  ],
  manifest: [[{ pathPrefix: '', includeCasExtents: false, ...page }]],
  diff: [[{ ...state, base: false }]],
  exportTar: [[{ checkpointId: id, path: '/' }]],
  checkout: [
    [
      '/a',
      {
        force: false,
        signal,
        onProgress,
        gitignore: true,
        ignore: ['a'],
        sharedDirectories: [{ path: '/a', from: '/a', copy: false }],
        git: false,
      },
    ],
  ],
  exec: [
    [
      {
        command: 'a',
        args: ['a'],
        cwd: '/',
        env: { A: 'a' },
        stdin: new Uint8Array(1),
        timeoutMs: 1000,
        maxOutputBytes: 1000,
        signal,
      },
    ],
  ],
  exportBundle: [[{ signal }]],
  commit: [[{ message: 'a', author: { name: 'a', email: 'b' }, gitBranch: { branchName: 'c' }, signal }]],
  generateCommitSummary: [[]],
  merge: [[{ ...state, base: false }, mergeOptions]],
  rebase: [[{ revisionId: '', ...mergeOptions }]],
}

export const conflictsCalls: Calls<main.SessionConflicts> = {
  list: [[page]],
  read: [[{ path: '/a' }]],
  resolve: [[{ path: '/a', use: 'ours' }], [{ path: '/a', content }], [{ path: '/a', deleted: true }]],
  resolveAll: [[{ use: 'ours' }]],
  abort: [],
}

export const textCalls: Calls<main.SessionText> = {
  readLines: [[{ path: '/a', startLine: 1, endLine: 2, limit: 1, maxLineLength: 1 }]],
  edit: [
    [
      {
        path: '/a',
        edits: [{ oldText: 'a', newText: 'b', all: true }],
        whitespace: 'tolerant',
        expectedHash: hash,
        dryRun: true,
      },
    ],
    [{ path: '/a', oldText: 'a', newText: 'b', all: true }],
  ],
  applyPatch: [
    [
      {
        patch: '*** Begin Patch\n*** Delete File: none\n*** End Patch',
        format: 'v4a',
        strip: 1,
        fuzz: 1,
        dryRun: true,
        expectedHashes: { '/a': hash },
      },
    ],
  ],
  glob: [
    [
      { patterns: ['*'], path: '/', exclude: ['b'], limit: 1, includeDirectories: true, order: 'modified' },
      { signal },
    ],
  ],
  grep: [
    [
      {
        pattern: 'a',
        path: '/',
        literal: true,
        ignoreCase: true,
        wholeWord: true,
        globs: ['*'],
        excludeGlobs: ['b'],
        fileTypes: ['ts'],
        context: 1,
        before: 1,
        after: 1,
        maxCount: 1,
        limit: 1,
        offset: 1,
        mode: 'count',
        multiline: true,
        maxLineLength: 1,
      },
      { signal },
    ],
  ],
}

export const filesCalls: Calls<main.SessionFiles> = {
  write: [[{ ...write, createParents: true, exclusive: false }]],
  append: [[{ ...write, createParents: true }]],
  copy: [[{ sourcePath: '/a', destinationPath: '/b', exclusive: false }]],
  read: [[{ path: '/a', offset: 0, length: 1 }]],
  readStream: [[{ path: '/a', offset: 0, length: 1 }]],
  readWithHash: [[{ path: '/a', offset: 0, length: 1 }]],
  contentHash: [['/a']],
  stat: [[{ path: '/a', followSymlinks: true, includeContentHash: true }]],
  list: [[{ path: '/a', recursive: false, ...page }]],
  delete: [[{ path: '/none', expectedHash: hash }]],
  createDirectory: [[{ path: '/a', mode: 0o755, recursive: false }]],
  removeDirectory: [[{ path: '/a', recursive: false }]],
  rename: [[{ sourcePath: '/none', destinationPath: '/b', exclusive: true, createParents: true }]],
  setMode: [[{ path: '/a', mode: 0o600 }]],
  setAttributes: [[{ path: '/a', mode: 0o600, mtimeMs: 1, followSymlinks: true }]],
  createSymlink: [[{ linkPath: '/l', target: 'a' }]],
  readSymlink: [['/l']],
  listSymlinks: [[{ pathPrefix: '', ...page }]],
  batch: [
    [[{ write }, { delete: { path: '/a', expectedHash: hash } }, { segmentWrite: { ...segment, segments } }]],
  ],
  patchSegments: [
    [
      {
        mutations: [{ ...segment, segments }],
        conflictPolicy: main.SegmentConflictPolicy.ABORT_ON_CONFLICT,
      },
    ],
  ],
  getCasExtents: [[{ path: '/a' }]],
  link: [[{ srcPath: '/a', dstPath: '/b' }]],
  unlink: [[{ path: '/none', expectedHash: hash }]],
  setXattr: [[{ path: '/a', name: 'b', value: 'c' }]],
  getXattr: [[{ path: '/a', name: 'b' }]],
  listXattrs: [[{ path: '/a' }]],
  removeXattr: [[{ path: '/a', name: 'b' }]],
}

export const cacheCalls: Calls<main.SessionCache> = {
  put: [[{ key: 'a', value: 'b', ttlSeconds: 1 }]],
  get: [[{ key: 'a' }], [{ key: 'keys' }]],
  delete: [[{ key: 'a' }]],
  exists: [[{ key: 'a' }]],
  metadata: [[{ key: 'a' }]],
  compareAndSet: [[{ key: 'a', expectedValue: 'b', newValue: 'c', ttlSeconds: 1 }]],
  keys: [[{ prefix: '', ...page }]],
  stats: [[]],
  batchGet: [[{ keys: ['a'] }]],
  batchSet: [[{ entries: [{ key: 'a', value: 'b', ttlSeconds: 1 }] }]],
  batchDelete: [[{ keys: ['a'] }]],
  deleteByPrefix: [[{ prefix: 'a' }]],
}

export const busCalls: Calls<main.SessionBus> = {
  publish: [[{ topic: 'a', payload: 'b' }]],
  subscribe: [
    [
      {
        topics: ['a'],
        topicPatterns: ['b'],
        scope: main.BusScope.SESSION_ONLY,
        replayLimit: 1,
        replayAfterMessageId: '00000000',
        signal,
      },
    ],
  ],
}

export const eventsCalls: Calls<main.SessionEvents> = {
  list: [[{ startTime: '2026-01-01T00:00:00Z', endTime: '2026-01-01T00:00:00Z', ...page }]],
  follow: [[{ afterEventId: id, signal }]],
  verify: [[{ lastEventId: id }]],
}

export const annotationsCalls: Calls<main.SessionAnnotations> = {
  add: [[{ filePath: '/a', lineNumber: 1, expectedContentHash: hash, comment: '' }]],
  list: [[{ filePath: '/a' }]],
  setStatus: [[{ annotationId: id, newStatus: main.AnnotationStatus.OPEN }]],
}

export const approvalsCalls: Calls<main.SessionApprovals> = {
  request: [[{ reason: 'A', details: { summary: '', changedFiles: ['/a'] } }]],
  grant: [[{ approvalId: id }]],
  deny: [[{ approvalId: id, feedback: '' }]],
  list: [[]],
}

export const fileLocksCalls: Calls<main.SessionFileLocks> = {
  lock: [[{ path: '/a', timeoutSeconds: 1 }]],
  renew: [[{ path: '/a', timeoutSeconds: 1, lockId: id }]],
  list: [[{ pathPrefix: '' }]],
  unlock: [[{ path: '/a', lockId: id }]],
  forceUnlock: [[{ path: '/a', reason: '' }]],
}

const kind = main.PosixLockKind.SHARED
export const posixLocksCalls: Calls<main.SessionPosixLocks> = {
  get: [[{ path: '/a', kind, range, owner, isFlock: false }]],
  set: [[{ path: '/a', kind, range, owner }]],
  setBlocking: [[{ path: '/a', kind, range, owner }, { signal }]],
  flock: [[{ path: '/a', mode: main.PosixFlockMode.SHARED, owner, blocking: false }, { signal }]],
  funlock: [[{ path: '/a', range, owner, isFlock: false }]],
}

export const commitsCalls: Calls<main.SessionCommits> = {
  list: [[{ branchName: 'a', ...page }]],
  get: [[{ commitId: 'a'.repeat(40) }]],
  readFile: [[{ commitId: 'a'.repeat(40), path: '/a' }]],
  exportBundle: [[{ branchName: 'a', as: 'b', signal }]],
}

const report = { reportFormat: 'junit-xml/v1' as const, reportContent: '<testsuite/>' }
export const healthCalls: Calls<main.SessionHealth> = {
  get: [[]],
  report: [[report]],
  testResults: [[report]],
  history: [[page]],
}

const scope = main.SecretScope.SESSION
export const secretsCalls: Calls<main.SessionSecrets> = {
  put: [[{ secretName: 'a', secretValue: 'b', scope }]],
  get: [[{ secretName: 'a' }]],
  list: [[{ scope }]],
  delete: [[{ secretName: 'a', scope }]],
}

export const checkoutCalls: Calls<main.Checkout> = {
  update: [[{ force: false, signal, onProgress }]],
  sync: [[{ signal, dryRun: false }]],
}

const key = new Uint8Array(32)
/** Methods whose arguments are data. */
export const dataMethods = new Set(['withMetadata'])
/** Parameters that take data, such as tags, or objects that are not options. */
export const data = new Set([
  'initialTags',
  'env',
  'newTags',
  'labels',
  'metadata',
  'files',
  'headers',
  'storage',
  'environment',
  'env',
])

export const openingsCalls: Calls<typeof main> = {
  openEngine: [
    [
      {
        maxFileBytes: 1,
        git: { allowPrivateAddresses: true },
        hostPaths: { roots: [] },
        approvals: { selfApproval: true },
        imports: { deadlineSeconds: 1, minBytesPerSecond: 1, rateWindowSeconds: 1 },
        budgets: { tenantBytes: 1 },
        automaticCollection: { garbageShare: 0.5, garbageBytes: 65_536, keepRedo: false },
        secrets: { masterKey: { id: 'a', key }, previousKeys: [{ id: 'b', key }] },
        storage: main.memoryStorage(),
      },
    ],
  ],
  memoryStorage: [[{ durable: false, syncReads: true }]],
  capabilitiesOf: [],
  formatMatches: [],
  formatNumberedLines: [],
}

/** Not a plain object, like the pools of `pg`. */
class Pool {
  connect(): Promise<never> {
    return Promise.reject(new Error('no server'))
  }
}

const postgresSettings = {
  schema: 'a',
  durability: 'full',
  readConnections: 1,
  leaseSeconds: 1,
  shared: true,
  freshnessMillis: 1,
} as const

export const postgresCalls: Calls<typeof postgres> = {
  postgresStorage: [
    [{ connectionString: 'postgres://localhost/a', ...postgresSettings }],
    [{ client: () => ({}), ...postgresSettings }],
    [{ pool: new Pool(), ...postgresSettings }],
  ],
}

/** Sends nothing, like a client of S3 that is not used. */
class Client {
  send(): Promise<never> {
    return Promise.reject(new Error('no server'))
  }
}

export const s3Calls: Calls<typeof s3> = {
  s3Blobs: [[{ client: new Client() as never, bucket: 'a', prefix: 'b/', minBytes: 1 }]],
}

export const levelsCalls: Calls<typeof level> = {
  levelStorage: [['/none', { durability: 'full' }]],
  checkStore: [['/none', { readData: false, signal, onProgress }]],
  repairStore: [['/none', '/none2', { signal, onProgress }]],
  backupStore: [['/none', '/none2', { signal, onProgress }]],
}

export const testsCalls: Calls<typeof testing> = {
  fixedEnvironment: [[{ startMs: 1, stepMs: 1, seed: 1 }]],
  openTestEngine: [[{ seed: 1, maxFileBytes: 1 }]],
  memoryStorage: [[{ durable: false, syncReads: true }]],
  randomWords: [[1]],
  fixture: [[{ files: { '/a': 'b' } }, { seed: 1 }]],
  assertTree: [],
  fsModules: [],
  fromJSON: [],
  toJSON: [],
}

export const clientsCalls: Calls<typeof client> = {
  connect: [
    [{ baseUrl: 'http://127.0.0.1:1', token: 'a', timeoutMs: 1, reconnectMs: 1, headers: {}, signal, fetch }],
  ],
}

const authenticate = (): undefined => undefined
const limits = { requestMs: 1 } as http.HttpHandlerOptions['limits']
export const gitServerCalls: Calls<typeof gitServer> = {
  gitHandler: [
    [
      undefined as unknown as main.Engine,
      {
        authenticate,
        prefix: '',
        allowedHosts: [],
        allowedOrigins: [],
        limits: limits!,
        log: onProgress,
        push: false,
      },
    ],
  ],
}
export const webdavCalls: Calls<typeof webdav> = {
  webdavHandler: [
    [
      undefined as unknown as SessionApi,
      {
        token: 'a',
        write: false,
        prefix: '',
        allowedHosts: [],
        limits: limits!,
        log: onProgress,
      },
    ],
  ],
}
export const httpCalls: Calls<typeof http> = {
  createHttpHandler: [
    [
      undefined as unknown as main.Engine,
      { authenticate, prefix: '', allowedHosts: [], allowedOrigins: [], limits: limits!, log: onProgress },
    ],
  ],
  serve: [
    [
      undefined as unknown as http.HttpHandler,
      {
        host: '127.0.0.1',
        port: 0,
        connections: 1,
        headersTimeoutMs: 1,
        requestTimeoutMs: 1,
        keepAliveMs: 1,
        headerBytes: 1,
      },
    ],
  ],
  staticTokens: [],
  toNodeHandler: [],
  openApiDocument: [],
}

export const inspectorCalls: Calls<typeof inspector> = {
  inspector: [
    [
      { baseUrl: 'http://127.0.0.1:1', token: 'a' },
      { authenticate, write: true, prefix: '', allowedHosts: [], log: onProgress },
    ],
  ],
}

export const nodeVfsCalls: Calls<typeof nodeVfs> = { sessionProvider: [] }

/** The turns of a session, which are no plain object either. */
class Turns {
  turnOf(): undefined {
    return undefined
  }
}

/** The sessions of an engine, which is no plain object either. */
class SandboxSessions {
  list(): Promise<never> {
    return Promise.reject(new Error('no sessions'))
  }
  open(): Promise<never> {
    return Promise.reject(new Error('no session'))
  }
}

class ToolsSession {
  withMetadata(): undefined {
    return undefined
  }
}
export const mcpCalls: Calls<typeof mcp> = {
  mcpHandler: [[() => undefined, { allowedHosts: ['localhost'], metadata: {}, guards: true }]],
  workspaceServer: [[new ToolsSession() as unknown as SessionApi, { metadata: {}, guards: true }]],
}
export const toolsCalls: Calls<typeof tools> = {
  workspaceTools: [[new ToolsSession() as unknown as SessionApi, { metadata: {}, guards: true }]],
}

const exec = () => Promise.resolve({ stdout: '', stderr: '', exitCode: 0 })
export const aiSdkCalls: Calls<typeof aiSdk> = {
  workspaceSandbox: [[undefined as unknown as SessionApi, { exec, cwd: '/', description: '' }]],
  workspaceToolSet: [
    [new ToolsSession() as unknown as SessionApi, { metadata: {}, guards: true, turn: '1' }],
  ],
}

export const claudeCalls: Calls<typeof claude> = {
  claudeWorkspace: [
    [new ToolsSession() as unknown as SessionApi, { metadata: {}, guards: true, exec, cwd: '/' }],
  ],
  claudeWorktrees: [
    [undefined as unknown as main.Session, { directory: '/', checkout: {}, deleteIgnored: true }],
  ],
}

export const tanstackCalls: Calls<typeof tanstack> = {
  workspaceSandboxProvider: [
    [undefined as unknown as main.Engine, { exec: () => exec, from: {}, branch: 'main' }],
  ],
}

export const deepagentsCalls: Calls<typeof deepagents> = {
  workspaceBackend: [
    [new ToolsSession() as unknown as SessionApi, { metadata: {}, guards: true, turn: '1', exec, cwd: '/' }],
  ],
  workspaceTurns: [],
}

export const mastraCalls: Calls<typeof mastra> = {
  sessionFilesystem: [
    [new ToolsSession() as unknown as SessionApi, { metadata: {}, turn: '1', readOnly: false }],
  ],
  sessionSandbox: [
    [
      new ToolsSession() as unknown as SessionApi,
      {
        exec: () => exec,
        cwd: '/',
        env: {},
        checkpointName: 'base',
        sessions: new SandboxSessions(),
        metadata: {},
        turn: '1',
      },
    ],
  ],
  sessionToolHooks: [[{ turns: new Turns() as unknown as mastra.SessionTurns }]],
  sessionTurns: [],
}

export const openaiAgentsCalls: Calls<typeof openaiAgents> = {
  workspaceEditor: [],
  workspaceFunctionTools: [
    [new ToolsSession() as unknown as SessionApi, { metadata: {}, guards: true, turn: '1' }],
  ],
  workspacePatchTool: [
    [new ToolsSession() as unknown as SessionApi, { metadata: {}, turn: '1', needsApproval: false }],
  ],
  workspaceSandboxClient: [
    [{ open: () => new ToolsSession() as unknown as SessionApi, find: undefined as never, exec: () => exec }],
  ],
  workspaceSandboxSession: [[new ToolsSession() as unknown as SessionApi, { exec }]],
  workspaceShellFor: [[exec, { cwd: '/', env: {}, timeoutMs: 1 }]],
  workspaceShellTool: [[exec, { cwd: '/', env: {}, timeoutMs: 1, needsApproval: false }]],
}

export const justBashCalls: Calls<typeof justBash> = {
  workspaceFileSystem: [[undefined as unknown as main.Session, { privateTmp: true }]],
  workspaceShell: [
    [undefined as unknown as main.Session, { cwd: '/', env: {}, timeoutMs: 1, maxOutputBytes: 1 }],
  ],
}

/** The adapters that `forkspace` loads on demand. */
export const gitAdapterCalls: Calls<typeof git> = {
  createGitAdapter: [
    [{ allowPrivateAddresses: true, hostPathRoots: [], credentials: none, sign: none, idleTimeoutMs: 1 }],
  ],
  checkBranchName: [],
  checkRemoteUrl: [],
}
export const archivesCalls: Calls<typeof archive> = { createArchives: [[{ allowGitNames: true }]] }
export const hostCalls: Pick<Calls<typeof host>, 'createHost'> = { createHost: [[{ roots: [] }]] }
