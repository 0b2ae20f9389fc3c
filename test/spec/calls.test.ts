/** Every operation, called by name with valid and invalid requests. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect, isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as z from 'zod'
import {
  callOperation,
  commonErrors,
  openStream,
  operations,
  schemas,
  type CallableOperation,
  type Operation,
  type OperationRequest,
  type OperationResponse,
} from '../../src/engine/contract.js'
import {
  EngineError,
  openEngine,
  type Capability,
  type Engine,
  type JobReference,
  type ErrorReason,
  type Session,
  type Storage,
  type StateName,
} from '../../src/index.js'
import { isComplete } from '../support/seed.js'
import { storages } from '../support/storages.js'
import { Refusal, transports, wireCalls, type Call, type Wire, type WireCall } from '../support/transports.js'

const table: Readonly<Record<CallableOperation, Operation>> = operations

const unknownId = '0'.repeat(36)
const unknownHash = `sha256:${'0'.repeat(64)}`
const content = new TextEncoder().encode('content')
const report = new TextEncoder().encode('<testsuite><testcase name="a"/></testsuite>')
const owner = { ownerId: 'a' }
const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
const maxFileBytes = 2 ** 30
const hashOfFile = `sha256:${createHash('sha256').update('one\ntwo\n').digest('hex')}`
const tooLarge = { path: '/file', segments: [], logicalSize: maxFileBytes + 1 }
const ofNothing = {
  path: '/file',
  segments: [{ borrowed: { offset: 0, length: 1, hash: unknownHash } }],
}

/** A separate session with files for one call. */
interface World {
  readonly engine: Engine
  readonly session: Session
  readonly sessionId: string
}

/** A valid request for each operation, in a world that it may prepare. */
const requests: {
  readonly [Name in CallableOperation]: (
    world: World,
  ) => OperationRequest<Name> | Promise<OperationRequest<Name>>
} = {
  createSession: () => ({ files: [{ path: '/a', content }], initialTags: { a: 'b' } }),
  getSession: ({ sessionId }) => ({ sessionId }),
  listSessions: () => ({ filter: 'template=yes', metadata: { turn: 1 }, pageSize: 2, pageToken: '' }),
  deleteSession: ({ sessionId }) => ({ sessionId }),
  getManifest: ({ sessionId }) => ({
    sessionId,
    pathPrefix: '/',
    pageSize: 3,
    pageToken: '',
    includeCasExtents: true,
  }),
  forkSession: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here' })
    return {
      sourceSessionId: sessionId,
      sourceCheckpointLabel: 'here',
      newTags: { c: 'd' },
      metadata: { turn: 1 },
    }
  },
  createCheckpoint: ({ sessionId }) => ({ sessionId, label: 'here', metadata: { turn: 1 } }),
  restoreCheckpoint: async ({ session, sessionId }) => {
    const { id: checkpointId } = await session.checkpoint({ checkpointLabel: 'here' })
    return { sessionId, checkpointId }
  },
  listCheckpoints: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here', metadata: { turn: 1 } })
    return { sessionId, metadata: { turn: 1 }, pageSize: 1, pageToken: '' }
  },
  deleteCheckpoint: async ({ session, sessionId }) => {
    const { id: checkpointId } = await session.checkpoint({ checkpointLabel: 'here' })
    return { sessionId, checkpointId }
  },
  mergeSession: async ({ session, sessionId }) => ({
    sessionId,
    source: { sessionId: await changedFork(session) },
    policies: [{ glob: '**', policy: 'ours' }],
    dryRun: false,
    expectedEventId: (await session.events.list()).events.at(-1)!.eventId,
    names: { base: 'base', ours: 'ours', theirs: 'theirs' },
  }),
  rebaseSession: async ({ engine }) => {
    const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })
    await engine.sources.waitForJob(
      await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/file': 'one' } } }),
    )
    const { id } = await engine.sessions.create({ sourceRef: { sourceId } })
    await engine.sources.waitForJob(
      await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/file': 'two' } } }),
    )
    return { sessionId: id, revisionId: '', dryRun: false }
  },
  listConflicts: async ({ session, sessionId }) => {
    await conflict(session)
    return { sessionId, pageSize: 1, pageToken: '' }
  },
  readConflict: async ({ session, sessionId }) => {
    await conflict(session)
    return { sessionId, path: '/file' }
  },
  resolveConflict: async ({ session, sessionId }) => {
    await conflict(session)
    return { sessionId, path: '/file', use: 'theirs' }
  },
  resolveConflicts: async ({ session, sessionId }) => {
    await conflict(session)
    return { sessionId, use: 'base' }
  },
  abortMerge: async ({ session, sessionId }) => {
    await conflict(session)
    return { sessionId }
  },
  diff: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here' })
    await session.files.write({ path: '/new', content: '' })
    return {
      sessionId,
      from: { sessionId, checkpointLabel: 'here' },
      to: { base: true },
      pageSize: 1,
      pageToken: '',
    }
  },
  diffFiles: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here' })
    await session.files.write({ path: '/new', content: 'one\n' })
    return {
      sessionId,
      from: { sessionId, checkpointLabel: 'here' },
      to: {},
      globs: ['/**'],
      renames: 'exact',
      context: 3,
      hunks: true,
      patch: true,
      pageSize: 1,
      pageToken: '',
    }
  },
  resolveState: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here' })
    return { sessionId, checkpointLabel: 'here' }
  },
  restoreState: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here' })
    await session.files.write({ path: '/new', content: '' })
    return { sessionId, from: { checkpointLabel: 'here' }, paths: ['/new'], dryRun: false, listChanges: true }
  },
  readFileAt: async ({ session, sessionId }) => {
    await session.checkpoint({ checkpointLabel: 'here' })
    return { sessionId, at: { checkpointLabel: 'here' }, path: '/file', offset: 1, length: 2 }
  },
  statPathAt: ({ sessionId }) => ({
    sessionId,
    at: { time: '2100-01-01T00:00:00Z' },
    path: '/file',
    followSymlinks: true,
    includeContentHash: true,
  }),
  listDirectoryAt: ({ sessionId }) => ({
    sessionId,
    at: { time: '2100-01-01T00:00:00Z' },
    path: '/',
    recursive: true,
    pageSize: 2,
    pageToken: '',
  }),
  getManifestAt: ({ sessionId }) => ({
    sessionId,
    at: {},
    pathPrefix: '/',
    includeCasExtents: true,
    pageSize: 2,
    pageToken: '',
  }),
  listPathHistory: async ({ session, sessionId }) => {
    await session.files.write({ path: '/file', content: 'one' })
    return { sessionId, path: '/file', pageSize: 1, pageToken: '' }
  },
  getLineage: async ({ session, sessionId }) => {
    const { id } = await session.fork()
    return { sessionId, with: id, pageSize: 1, pageToken: '' }
  },
  blame: async ({ session, sessionId }) => {
    await session.files.write({ path: '/lines', content: 'one\ntwo\n' })
    return { sessionId, path: '/lines', at: { time: '2100-01-01T00:00:00Z' } }
  },
  undo: async ({ session, sessionId }) => {
    await session.files.write({ path: '/new', content: '' })
    return { sessionId, count: 1, by: 'event', dryRun: false, listChanges: true }
  },
  redo: async ({ session, sessionId }) => {
    await session.files.write({ path: '/new', content: '' })
    await session.undo()
    return { sessionId, count: 1, by: 'group', dryRun: false, listChanges: true }
  },
  listEvents: async ({ session, sessionId }) => {
    await session.files.rename({ sourcePath: '/file', destinationPath: '/moved' })
    await session.files.rename({ sourcePath: '/moved', destinationPath: '/file' })
    return {
      sessionId,
      startTime: '2020-01-01T00:00:00Z',
      endTime: '2100-01-01T00:00:00.000Z',
      pageSize: 10,
      pageToken: '',
    }
  },

  createDirectory: ({ sessionId }) => ({ sessionId, path: '/dir/made', mode: 0o700, recursive: false }),
  removeDirectory: ({ sessionId }) => ({ sessionId, path: '/empty', recursive: false }),
  rename: ({ sessionId }) => ({
    sessionId,
    sourcePath: '/file',
    destinationPath: '/dir/moved',
    exclusive: true,
    createParents: true,
  }),
  deleteFile: async (world) => ({
    sessionId: world.sessionId,
    path: '/file',
    expectedHash: await world.session.files.contentHash('/file'),
  }),
  applyBatch: async ({ session, sessionId }) => ({
    sessionId,
    operations: [
      { write: { path: '/new/file', content, expectedHash: '', mode: 0o600 } },
      { delete: { path: '/file', expectedHash: await session.files.contentHash('/file') } },
      { segmentWrite: { path: '/dir/file', segments: [{ data: { offset: 2, content } }], mode: 0o600 } },
    ],
  }),
  patchSegments: async ({ session, sessionId }) => {
    const [extent] = (await session.files.getCasExtents({ path: '/file' })).extents
    return {
      sessionId,
      mutations: [
        {
          path: '/new',
          segments: [
            { data: { offset: 0, content } },
            { hole: { offset: 2, length: 3 } },
            { borrowed: { offset: 20, length: extent!.length, hash: extent!.hash, casOffset: 0 } },
          ],
          logicalSize: 100,
          expectedHash: '',
          mode: 0o600,
        },
        { path: '/dir/file', segments: [], expectedHash: unknownHash },
      ],
      conflictPolicy: 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT',
    }
  },
  createSymlink: ({ sessionId }) => ({ sessionId, linkPath: '/dir/link', target: '../file' }),
  listSymlinks: ({ sessionId }) => ({ sessionId, pathPrefix: '/', pageSize: 1, pageToken: '' }),
  readSymlink: ({ sessionId }) => ({ sessionId, path: '/link' }),
  createHardLink: ({ sessionId }) => ({ sessionId, srcPath: '/file', dstPath: '/dir/other' }),
  unlink: ({ sessionId }) => ({ sessionId, path: '/file', expectedHash: '' }),
  getCasExtents: ({ sessionId }) => ({ sessionId, path: '/file' }),
  readFile: ({ sessionId }) => ({ sessionId, path: '/file', offset: 1, length: 3 }),
  writeFile: async ({ session, sessionId }) => ({
    sessionId,
    path: '/file',
    content,
    expectedHash: await session.files.contentHash('/file'),
    mode: 0o600,
    createParents: false,
    exclusive: false,
  }),
  appendFile: async ({ session, sessionId }) => ({
    sessionId,
    path: '/file',
    content,
    expectedHash: await session.files.contentHash('/file'),
    mode: 0o600,
    createParents: false,
  }),
  copyFile: ({ sessionId }) => ({
    sessionId,
    sourcePath: '/file',
    destinationPath: '/dir/copy',
    exclusive: true,
  }),
  setAttributes: ({ sessionId }) => ({
    sessionId,
    path: '/file',
    mode: 0o600,
    mtimeMs: 1.5,
    followSymlinks: true,
  }),
  statPath: ({ sessionId }) => ({
    sessionId,
    path: '/file',
    followSymlinks: false,
    includeContentHash: true,
  }),
  listDirectory: ({ sessionId }) => ({
    sessionId,
    path: '/',
    recursive: true,
    pageSize: 2,
    pageToken: '',
  }),
  readLines: ({ sessionId }) => ({
    sessionId,
    path: '/file',
    startLine: 1,
    endLine: 2,
    limit: 1,
    maxLineLength: 2,
  }),
  editFile: ({ sessionId }) => ({
    sessionId,
    path: '/file',
    edits: [{ oldText: 'one', newText: '1', all: true }],
    whitespace: 'tolerant',
    expectedHash: hashOfFile,
    context: 1,
    dryRun: false,
  }),
  applyPatch: ({ sessionId }) => ({
    sessionId,
    patch: '--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n',
    format: 'unified',
    strip: 1,
    fuzz: 0,
    dryRun: false,
    expectedHashes: { '/file': hashOfFile },
  }),
  globPaths: ({ sessionId }) => ({
    sessionId,
    patterns: ['**'],
    path: '/',
    exclude: ['empty'],
    limit: 2,
    includeDirectories: true,
    order: 'modified',
  }),
  grepFiles: ({ sessionId }) => ({
    sessionId,
    pattern: 't[wh]',
    path: '/',
    literal: false,
    ignoreCase: true,
    wholeWord: false,
    globs: ['*'],
    excludeGlobs: ['empty'],
    fileTypes: [],
    context: 1,
    before: 0,
    after: 1,
    maxCount: 2,
    limit: 1,
    offset: 0,
    mode: 'lines',
    multiline: false,
    maxLineLength: 2,
  }),
  setXattr: ({ sessionId }) => ({ sessionId, path: '/file', name: 'user.b', value: content }),
  getXattr: ({ sessionId }) => ({ sessionId, path: '/file', name: 'user.a' }),
  listXattrs: ({ sessionId }) => ({ sessionId, path: '/file' }),
  removeXattr: ({ sessionId }) => ({ sessionId, path: '/file', name: 'user.a' }),

  getPosixLock: async ({ session, sessionId }) => {
    await session.posixLocks.set({ path: '/file', kind, range: { start: 2n ** 60n }, owner })
    const range = { start: 5, length: 0n }
    return {
      sessionId,
      path: '/file',
      kind: 'POSIX_LOCK_KIND_SHARED',
      range,
      owner: { ownerId: 'b' },
      isFlock: false,
    }
  },
  setPosixLock: async ({ session, sessionId }) => {
    const other = { ownerId: 'b' }
    await session.posixLocks.set({ path: '/file', kind, range: { start: 100, length: 1 }, owner: other })
    await session.posixLocks.set({ path: '/dir/file', kind, owner: other })
    return { sessionId, path: '/file', kind, range: { start: 0, length: 10n }, owner: { ...owner, pid: 1 } }
  },
  setPosixLockBlocking: ({ sessionId }) => ({
    sessionId,
    path: '/file',
    kind,
    range: { start: 0, length: 10 },
    owner: { ...owner, pid: 1, clientId: 'c' },
  }),
  flock: ({ sessionId }) => ({
    sessionId,
    path: '/file',
    mode: 'POSIX_FLOCK_MODE_SHARED',
    owner,
    blocking: true,
  }),
  funlock: async ({ session, sessionId }) => {
    await session.posixLocks.set({ path: '/file', kind, owner })
    return { sessionId, path: '/file', owner, range: { start: 5, length: 1 }, isFlock: false }
  },
  lockFile: async ({ session, sessionId }) => {
    await session.fileLocks.lock({ path: '/dir/file', timeoutSeconds: 60 })
    return { sessionId, path: '/file', timeoutSeconds: 60 }
  },
  renewFileLock: async ({ session, sessionId }) => {
    const { lockId } = await session.fileLocks.lock({ path: '/file', timeoutSeconds: 60 })
    return { sessionId, path: '/file', lockId, timeoutSeconds: 30 }
  },
  listFileLocks: async ({ session, sessionId }) => {
    await session.fileLocks.lock({ path: '/file', timeoutSeconds: 60 })
    return { sessionId, pathPrefix: '/f' }
  },
  unlockFile: async ({ session, sessionId }) => {
    const { lockId } = await session.fileLocks.lock({ path: '/file', timeoutSeconds: 60 })
    return { sessionId, path: '/file', lockId }
  },
  forceUnlockFile: async ({ session, sessionId }) => {
    await session.fileLocks.lock({ path: '/file', timeoutSeconds: 60 })
    return { sessionId, path: '/file', reason: 'gone' }
  },

  addAnnotation: async ({ session, sessionId }) => ({
    sessionId,
    filePath: '/file',
    lineNumber: 1,
    expectedContentHash: await session.files.contentHash('/file'),
    comment: 'why?',
  }),
  listAnnotations: async ({ session, sessionId }) => {
    await annotate(session)
    return { sessionId, filePath: '/file' }
  },
  updateAnnotationStatus: async ({ session, sessionId }) => ({
    sessionId,
    annotationId: await annotate(session),
    newStatus: 'ANNOTATION_STATUS_RESOLVED',
  }),
  requestApproval: ({ sessionId }) => ({
    sessionId,
    reason: 'COMMIT_TO_MAIN',
    details: { summary: 'all', changedFiles: ['/file'] },
  }),
  listApprovals: async ({ session, sessionId }) => {
    await session.approvals.request({ details: { changedFiles: ['/file'] } })
    return { sessionId }
  },
  grantApproval: async ({ session, sessionId }) => ({ sessionId, ...(await session.approvals.request()) }),
  denyApproval: async ({ session, sessionId }) => ({
    sessionId,
    ...(await session.approvals.request()),
    feedback: 'no',
  }),
  commit: ({ sessionId }) => ({
    sessionId,
    message: 'all',
    author: { name: 'Ada', email: 'ada@example.org' },
    gitBranch: { branchName: 'main' },
  }),
  listCommits: async ({ session, sessionId }) => {
    await session.commit({ message: 'all' })
    return { sessionId, branchName: '' }
  },
  getCommit: async ({ session, sessionId }) => ({
    sessionId,
    commitId: (await session.commit({ message: 'all' })).commitId,
  }),
  readCommitFile: async ({ session, sessionId }) => {
    await session.files.write({ path: '/committed', content: 'a' })
    return { sessionId, commitId: (await session.commit({ message: 'all' })).commitId, path: '/committed' }
  },
  generateCommitSummary: async ({ session, sessionId }) => {
    await session.files.write({ path: '/new', content: '' })
    return { sessionId }
  },

  putCacheEntry: ({ sessionId }) => ({ sessionId, key: 'k', value: content, ttlSeconds: 60 }),
  getCacheEntry: cached(({ sessionId }) => ({ sessionId, key: 'k' })),
  deleteCacheEntry: cached(({ sessionId }) => ({ sessionId, key: 'k' })),
  cacheEntryExists: cached(({ sessionId }) => ({ sessionId, key: 'k' })),
  getCacheMetadata: cached(({ sessionId }) => ({ sessionId, key: 'k' })),
  compareAndSetCacheEntry: cached(({ sessionId }) => ({
    sessionId,
    key: 'k',
    expectedValue: content,
    newValue: content,
    ttlSeconds: 60,
  })),
  listCacheKeys: cached(({ sessionId }) => ({ sessionId, prefix: 'k', pageSize: 1, pageToken: '' })),
  getCacheStats: cached(({ sessionId }) => ({ sessionId })),
  batchGetCache: cached(({ sessionId }) => ({ sessionId, keys: ['k', 'none'] })),
  batchSetCache: ({ sessionId }) => ({ sessionId, entries: [{ key: 'k', value: content, ttlSeconds: 60 }] }),
  batchDeleteCache: cached(({ sessionId }) => ({ sessionId, keys: ['k', 'none'] })),
  deleteCacheByPrefix: cached(({ sessionId }) => ({ sessionId, prefix: 'k' })),

  publishMessage: ({ sessionId }) => ({ sessionId, topic: 't', payload: content }),

  listSecrets: hiding(({ sessionId }) => ({ sessionId, scope: 'SECRET_SCOPE_SESSION' })),
  putSecret: ({ sessionId }) => ({
    sessionId,
    secretName: 's',
    secretValue: 'hidden',
    scope: 'SECRET_SCOPE_SESSION',
  }),
  getSecret: hiding(({ sessionId }) => ({ sessionId, secretName: 's' })),
  deleteSecret: hiding(({ sessionId }) => ({ sessionId, secretName: 's', scope: 'SECRET_SCOPE_SESSION' })),

  getHealth: ({ sessionId }) => ({ sessionId }),
  reportHealth: ({ sessionId }) => ({ sessionId, reportFormat: 'junit-xml/v1', reportContent: report }),
  listHealthReports: async ({ session, sessionId }) => {
    await session.health.report({ reportFormat: 'junit-xml/v1', reportContent: report })
    return { sessionId, pageSize: 1, pageToken: '' }
  },
  getAnalytics: ({ sessionId }) => ({ sessionId }),
  getUsage: () => ({
    windowStart: '2026-01-01T00:00:00Z',
    windowEnd: '2026-02-01T00:00:00Z',
    granularity: 'day',
  }),
  getCasMetrics: () => ({}),

  createSource: () => ({
    displayName: 'app',
    gitRemote: { remoteUrl: 'https://git.example.org/app.git', defaultRef: 'main' },
    labels: { a: 'b' },
  }),
  listSources: async ({ engine }) => {
    await newSource(engine)
    return { filter: 'a=b', pageSize: 1, pageToken: '' }
  },
  getSource: async ({ engine }) => ({ sourceId: await newSource(engine) }),
  deleteSource: async ({ engine }) => ({ sourceId: await newSource(engine) }),
  startImport: async ({ engine }) => ({ sourceId: await newSource(engine), git: { gitRef: 'main' } }),
  refreshSource: async ({ engine }) => ({ sourceId: await newSource(engine), gitRef: 'main' }),
  promoteSession: async ({ engine, sessionId }) => ({
    sourceId: await newSource(engine),
    sessionId,
    revisionLabel: 'v1',
  }),
  getJob: async ({ engine }) => {
    const { sourceId, jobId } = await engine.sources.startImport(await newSource(engine))
    return { sourceId, jobId }
  },
  listJobs: async ({ engine }) => {
    const { sourceId } = await engine.sources.startImport(await newSource(engine))
    return { sourceId, pageSize: 1, pageToken: '' }
  },
  abortJob: async ({ engine }) => {
    const { sourceId, jobId } = await engine.sources.startImport(await newSource(engine))
    return { sourceId, jobId }
  },
}

const names = Object.keys(requests) as CallableOperation[]

interface StateOfSession extends StateName {
  readonly sessionId: string
}

/** Requests with states that do not exist, or are no longer kept. */
function states<Request>(
  request: (state: StateOfSession) => Request,
): ((world: World) => Promise<Request>)[] {
  return [
    async ({ sessionId }) => request({ sessionId, checkpointLabel: 'none' }),
    async ({ sessionId }) => request({ sessionId, time: '2001-01-01T00:00:00Z' }),
    async ({ engine, session }) => {
      // An imported session has the events without their effects.
      await session.files.write({ path: '/late', content: 'late' })
      const pieces: Uint8Array[] = []
      for await (const piece of session.exportBundle()) pieces.push(piece)
      const imported = await engine.sessions.importBundle(Buffer.concat(pieces))
      return request({ sessionId: imported.id, eventId: `${imported.id}-00000001` })
    },
  ]
}

/** More requests, which may fail as they are. */
const further: {
  readonly [Name in CallableOperation]?: readonly ((world: World) => Promise<OperationRequest<Name>>)[]
} = {
  createSession: [
    async () => ({ empty: {} }),
    async ({ engine }) => ({ sourceRef: { sourceId: await newSource(engine), revisionId: '' } }),
    async ({ engine }) => ({ empty: {}, sourceRef: { sourceId: await newSource(engine) } }),
  ],
  createCheckpoint: [
    async ({ session, sessionId }) => {
      await session.checkpoint({ checkpointLabel: 'here' })
      return { sessionId, label: 'here' }
    },
  ],
  forkSession: states(({ sessionId, ...from }) => ({ sourceSessionId: sessionId, from })),
  diff: states(({ sessionId, ...from }) => ({ sessionId, from })),
  resolveState: states((state) => state),
  restoreState: [
    ...states(({ sessionId, ...from }) => ({ sessionId, from })),
    async ({ session, sessionId }) => {
      const { eventId } = await session.at()
      await session.files.write({ path: '/dir', content: '' }).catch(() => undefined)
      return { sessionId, from: { eventId }, paths: ['/none'] }
    },
    async ({ sessionId }) => ({ sessionId, from: { base: true }, paths: [`/${'x'.repeat(256)}`] }),
    async ({ session, sessionId }) => {
      await session.files.write({ path: '/parent/a', content: '' })
      const { eventId } = await session.at()
      await session.files.removeDirectory({ path: '/parent', recursive: true })
      await session.files.write({ path: '/parent', content: '' })
      return { sessionId, from: { eventId }, paths: ['/parent/a'] }
    },
  ],
  readFileAt: states(({ sessionId, ...at }) => ({ sessionId, at, path: '/file' })),
  statPathAt: states(({ sessionId, ...at }) => ({ sessionId, at, path: '/file' })),
  listDirectoryAt: states(({ sessionId, ...at }) => ({ sessionId, at, path: '/' })),
  getManifestAt: states(({ sessionId, ...at }) => ({ sessionId, at })),
  blame: states(({ sessionId, ...at }) => ({ sessionId, at, path: '/file' })),
  undo: states(({ sessionId }) => ({ sessionId })),
  restoreCheckpoint: [
    async ({ session, sessionId }) => {
      await session.checkpoint({ checkpointLabel: 'here' })
      return { sessionId, checkpointLabel: 'here' }
    },
  ],
  deleteCheckpoint: [
    async ({ session, sessionId }) => {
      await session.checkpoint({ checkpointLabel: 'here' })
      return { sessionId, checkpointLabel: 'here' }
    },
  ],
  rename: [async ({ sessionId }) => ({ sessionId, sourcePath: '/file', destinationPath: '/dir/moved' })],
  writeFile: [
    async ({ sessionId }) => ({ sessionId, path: '/file', content, exclusive: true }),
    async ({ sessionId }) => ({ sessionId, path: '/none/file', content, createParents: false }),
  ],
  appendFile: [async ({ sessionId }) => ({ sessionId, path: '/none/file', content, createParents: false })],
  createDirectory: [async ({ sessionId }) => ({ sessionId, path: '/dir/a/b', recursive: true })],
  removeDirectory: [async ({ sessionId }) => ({ sessionId, path: '/dir', recursive: true })],
  listDirectory: [async ({ sessionId }) => ({ sessionId, path: '/dir' })],
  editFile: [async ({ sessionId }) => ({ sessionId, path: '/file', oldText: 'o', newText: '0', all: true })],
  applyPatch: [
    async ({ sessionId }) => ({ sessionId, patch: '*** Begin Patch\n*** Delete File: file\n*** End Patch' }),
  ],
  grepFiles: [async ({ sessionId }) => ({ sessionId, pattern: 'one', literal: true, mode: 'count' })],
  applyBatch: [
    async ({ sessionId }) => ({ sessionId, operations: [] }),
    async ({ sessionId }) => ({ sessionId, operations: [{ segmentWrite: tooLarge }] }),
    async ({ sessionId }) => ({ sessionId, operations: [{ segmentWrite: ofNothing }] }),
  ],
  patchSegments: [
    async ({ sessionId }) => ({ sessionId, mutations: [] }),
    async ({ sessionId }) => ({ sessionId, mutations: [tooLarge] }),
    async ({ sessionId }) => ({ sessionId, mutations: [ofNothing] }),
    async ({ sessionId }) => ({ sessionId, mutations: [{ path: '/dir', segments: [] }] }),
  ],
  requestApproval: [
    async ({ sessionId }) => ({ sessionId }),
    async ({ sessionId }) => ({ sessionId, details: { changedFiles: [`/${'n'.repeat(256)}`] } }),
  ],
  grantApproval: [
    async ({ session, sessionId }) => {
      const { approvalId } = await session.approvals.request()
      await session.approvals.deny({ approvalId })
      return { sessionId, approvalId }
    },
  ],
  denyApproval: [
    async ({ session, sessionId }) => {
      const { approvalId } = await session.approvals.request()
      await session.approvals.grant({ approvalId })
      return { sessionId, approvalId }
    },
  ],
  getCommit: [async ({ sessionId }) => ({ sessionId, commitId: 'a'.repeat(40) })],
  readCommitFile: [async ({ sessionId }) => ({ sessionId, commitId: 'a'.repeat(40), path: '/a' })],
  commit: [
    async ({ session, sessionId }) => {
      await session.files.write({ path: '/.git/config', content: '' })
      return { sessionId, message: 'all' }
    },
  ],
  createSource: [
    async () => ({ displayName: 'a', gitRemote: { remoteUrl: 'ssh://git.example.org/app.git' } }),
    async () => ({ displayName: 'a', gitRemote: { remoteUrl: 'https://u:p@git.example.org/app.git' } }),
    async () => ({ displayName: 'a', hostPath: { path: '/' } }),
    async () => ({ displayName: 'a', hostPath: { path: join(tmpdir(), 'forkspace-missing') } }),
  ],
  refreshSource: [
    async ({ engine }) => {
      const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })
      return { sourceId }
    },
  ],
  promoteSession: [
    async ({ engine, sessionId }) => {
      const sourceId = await newSource(engine)
      const request = { sessionId, revisionLabel: 'taken' }
      await engine.sources.waitForJob(await engine.sources.promoteSession(sourceId, request))
      return { sourceId, ...request }
    },
  ],
}

const mergeStates = [
  'UNRESOLVED_CONFLICTS',
  'MERGE_CONFLICT',
  'MERGE_TARGET_MOVED',
  'LIMIT_EXCEEDED',
] as const

/** Reasons that need a faulty git repository, thousands of records, waiting, or other engine options. */
const notMet: { readonly [Name in CallableOperation | 'everywhere']?: readonly ErrorReason[] } = {
  everywhere: ['QUOTA', 'NO_MASTER_KEY'],
  setPosixLockBlocking: ['DEADLOCK'],
  flock: ['DEADLOCK', 'LOCK_HELD'],
  editFile: ['FILE_TOO_LARGE'],
  // These depend on the text of the patch, which is not changed bit by bit.
  applyPatch: [
    'NAME_TOO_LONG',
    'NOT_A_DIRECTORY',
    'SYMLINK_LOOP',
    'IS_A_DIRECTORY',
    'ALREADY_EXISTS',
    'NO_MATCH',
    'FILE_TOO_LARGE',
  ],
  createSource: ['GIT_ADDRESS_REFUSED'],
  listCommits: ['NO_ADAPTER'],
  getCommit: ['NO_ADAPTER'],
  readCommitFile: ['NO_ADAPTER'],
  // A collection must have removed the states before.
  undo: ['STATE_NOT_KEPT', 'UNRESOLVED_CONFLICTS'],
  redo: ['STATE_NOT_KEPT', 'UNRESOLVED_CONFLICTS'],
  mergeSession: [...mergeStates, 'NO_COMMON_ANCESTOR', 'MERGE_BASE_GONE', 'CHECKPOINT_NOT_FOUND'],
  rebaseSession: [...mergeStates, 'SOURCE_NOT_FOUND', 'SOURCE_WITHOUT_REVISION', 'REVISION_NOT_FOUND'],
  resolveConflict: ['NOT_A_DIRECTORY', 'MERGE_TARGET_MOVED'],
  resolveConflicts: ['NOT_A_DIRECTORY', 'MERGE_TARGET_MOVED'],
  abortMerge: ['CONFLICT_NOT_FOUND'],
  commit: [
    'UNRESOLVED_CONFLICTS',
    'BRANCH_MOVED',
    'NO_ADAPTER',
    'GIT_ADDRESS_REFUSED',
    'GIT_UNREACHABLE',
    'GIT_TIMEOUT',
    'GIT_REMOTE_ERROR',
    'GIT_REPO_NOT_FOUND',
    'GIT_NOT_A_REPOSITORY',
    'GIT_AUTH_REQUIRED',
    'GIT_AUTH_FAILED',
    'GIT_PUSH_REJECTED',
    'GIT_TOO_LARGE',
    'GIT_CORRUPT',
  ],
}

const hostile: readonly unknown[] = [
  undefined,
  null,
  true,
  -1,
  0,
  1.5,
  NaN,
  2 ** 60,
  2n ** 63n,
  '',
  'x',
  '\ud800',
  'k='.repeat(2_000),
  'k='.repeat(40_000),
  [],
  [null],
  {},
  JSON.parse('{"__proto__": {"path": "/file"}}'),
  Symbol.iterator,
  unknownId,
]
const paths: readonly string[] = [
  '/',
  '/file',
  '/none',
  '/none/x',
  '/file/x',
  '/dir',
  '/dir/file',
  '/dir/file/x',
  '/empty',
  '/empty/x',
  '/link',
  '/broken',
  '/loop',
  '/loop/x',
  '/dir/../file',
  'file',
  '/a\0',
  `/${'n'.repeat(256)}`,
  `/${'d/'.repeat(3000)}x`,
]
const hashes: readonly string[] = ['', unknownHash, 'sha256:', 'md5:0']

/** The common reasons that a request can cause. */
const ofTheRequest = commonErrors.filter((reason) => ['INVALID_ARGUMENT', 'TOO_LARGE'].includes(reason))

/** The same change for any request. */
interface Change {
  readonly what: () => string
  readonly of: (request: object) => object
}

/** A request with one value replaced or removed, and with any two of its paths swapped. */
function changesOf(request: object): Change[] {
  const found: Change[] = [{ what: () => 'as it is', of: (whole) => whole }]
  const walk = (value: unknown, at: readonly (string | number)[]): void => {
    if (at.length > 0) {
      for (const other of valuesFor(String(at.at(-1)))) {
        found.push({
          what: () => `${at.join('.')} = ${inspect(other, { maxStringLength: 30 })}`,
          of: (whole) => exchanged(whole, at, other),
        })
      }
      found.push({ what: () => `without ${at.join('.')}`, of: (whole) => exchanged(whole, at) })
    }
    if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return
    for (const [key, part] of Object.entries(value))
      walk(part, [...at, Array.isArray(value) ? Number(key) : key])
  }
  walk(request, [])
  const [one, other] = Object.keys(request).filter((key) => key.endsWith('Path') && key !== 'filePath')
  if (one !== undefined && other !== undefined) {
    for (const from of paths) {
      for (const to of paths) {
        found.push({
          what: () => `${from} ${to}`.slice(0, 80),
          of: (whole) => ({ ...whole, [one]: from, [other]: to }),
        })
      }
    }
  }
  return found
}

function valuesFor(field: string): readonly unknown[] {
  if (/path$/i.test(field)) return [...hostile, ...paths]
  return /hash$/i.test(field) ? [...hostile, ...hashes] : hostile
}

function exchanged(
  value: unknown,
  [key, ...rest]: readonly (string | number)[],
  ...other: unknown[]
): object {
  if (Array.isArray(value)) {
    const copy: unknown[] = [...(value as unknown[])]
    if (rest.length > 0) copy[Number(key)] = exchanged(copy[Number(key)], rest, ...other)
    else copy.splice(Number(key), 1, ...other)
    return copy
  }
  const copy = { ...(value as Record<string, unknown>) }
  if (rest.length > 0) copy[key!] = exchanged(copy[key!], rest, ...other)
  else if (other.length > 0) copy[key!] = other[0]
  else delete copy[key!]
  return copy
}

function cached<Request>(make: (world: World) => Request): (world: World) => Promise<Request> {
  return async (world) => {
    await world.session.cache.put({ key: 'k', value: content })
    return make(world)
  }
}

function hiding<Request>(make: (world: World) => Request): (world: World) => Promise<Request> {
  return async (world) => {
    await world.session.secrets.put({ secretName: 's', secretValue: 'hidden' })
    return make(world)
  }
}

async function changedFork(session: Session): Promise<string> {
  const fork = await session.fork()
  await fork.files.write({ path: '/file', content: 'theirs' })
  return fork.id
}

async function conflict(session: Session): Promise<void> {
  const sessionId = await changedFork(session)
  await session.files.write({ path: '/file', content: 'ours' })
  await session.merge({ sessionId })
}

async function newSource(engine: Engine): Promise<string> {
  // No server listens there, so an import from it fails.
  const gitRemote = { remoteUrl: 'https://127.0.0.1:9/app.git' }
  const { sourceId } = await engine.sources.create({ displayName: 'app', gitRemote, labels: { a: 'b' } })
  return sourceId
}

async function annotate(session: Session): Promise<string> {
  const expectedContentHash = await session.files.contentHash('/file')
  const { annotation } = await session.annotations.add({ filePath: '/file', expectedContentHash })
  return annotation.id
}

/** Whether a value is unchanged after a JSON round trip. */
function isJson(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isJson)
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isJson)
  if (typeof value === 'number') return Number.isFinite(value)
  return value === null || typeof value === 'string' || typeof value === 'boolean'
}

/** The standard mapping of RPC codes. */
function httpCode({ status }: Refusal): number | undefined {
  const codes = {
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    13: 500,
    14: 503,
    15: 500,
  }
  return (codes as Readonly<Record<number, number>>)[status]
}

/** Requires that no field is missing or unknown, and that the value survives the wire format. */
function checkForm(schema: z.ZodType, value: unknown): void {
  const wire = JSON.parse(JSON.stringify(z.encode(schema, value))) as unknown
  const back = z.decode(schema, wire)
  expect(ordinary(back)).toEqual(ordinary(value))
  expect(
    JSON.stringify(ordinary(value), (_, part: unknown) => (part === undefined ? 'undefined' : part)),
  ).not.toContain('"undefined"')
}

/** Bytes as hex and 64-bit integers as digits, from either format. */
function ordinary(value: unknown): unknown {
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (Array.isArray(value)) return value.map(ordinary)
  if (typeof value !== 'object' || value === null) return value
  if ('reveal' in value && typeof value.reveal === 'function') return value.reveal() as unknown
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, ordinary(part)]))
}

const places = storages.flatMap(([storage, make]) =>
  transports.map(([transport, connect]) => [storage, transport, make, connect] as const),
)

describe.each(places)('on %s, %s:', (storageName, transportName, makeStorage, connect) => {
  let directory: string
  let engine: Engine
  let callByName: Call
  let send: WireCall
  let template: Session
  /** The types of the stored events of all sessions. */
  let recorded: string[]

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'calls-'))
    recorded = []
    engine = await openEngine({
      storage: recording(makeStorage(directory), (type) => recorded.push(type)),
      maxFileBytes,
      secrets: { masterKey: { id: 'one', key: new Uint8Array(32) } },
      git: { allowPrivateAddresses: true },
      hostPaths: { roots: [tmpdir()] },
    })
    callByName = connect(engine)
    send = wireCalls(engine)
    template = await engine.sessions.create({
      files: { '/file': 'one\ntwo\n', '/dir/file': 'three' },
      initialTags: { template: 'yes' },
    })
    const { files } = template
    await files.createDirectory({ path: '/empty' })
    await files.createSymlink({ linkPath: '/link', target: 'file' })
    await files.createSymlink({ linkPath: '/broken', target: 'none' })
    await files.createSymlink({ linkPath: '/loop', target: 'loop' })
    await files.setXattr({ path: '/file', name: 'user.a', value: 'a' })
  })

  afterAll(async () => {
    await engine.close()
    rmSync(directory, { recursive: true, force: true })
  })

  /** A request in the format in which it is sent. */
  function sendable(name: CallableOperation, request: object): object {
    if (transportName === 'in process') return request
    return z.encode<z.ZodType>(schemas[name].request, request) as object
  }

  /** The changes of a request that can be sent. */
  function changes(request: object): Change[] {
    const all = changesOf(request)
    if (transportName === 'in process') return all
    // The engine checks a request in the same way however it arrives.
    return all.filter(({ of }, at) => at % (isComplete ? 1 : 8) === 0 && isJson(of(request)))
  }

  async function prepare<Name extends CallableOperation>(
    name: Name,
    which = 0,
  ): Promise<OperationRequest<Name>> {
    const session = await template.fork()
    const make = [requests[name], ...(further[name] ?? [])][which]!
    const request = await make({ engine, session, sessionId: session.id })
    recorded.length = 0
    return request
  }

  /** The checked result of the call, or the reason of its rejection. */
  async function call<Name extends CallableOperation>(
    name: Name,
    request: OperationRequest<Name>,
  ): Promise<OperationResponse<Name> | string> {
    return check(name, callByName(name, request))
  }

  /** The same for a possibly invalid request, in native or wire format. */
  async function attempt(name: CallableOperation, request: object): Promise<object | string | undefined> {
    if (transportName === 'in process') return call(name, request as never)
    const { response }: { readonly response: z.ZodType } = schemas[name]
    const sent = send(name, request as Wire)
    return check(
      name,
      sent.then((given) => (given === undefined ? undefined : z.decode(response, given)) as never),
    )
  }

  async function check<Name extends CallableOperation>(
    name: Name,
    result: Promise<OperationResponse<Name>>,
  ): Promise<OperationResponse<Name> | string> {
    const { event, errors } = table[name]
    const [response, error] = await result.then(
      (given) => [given, undefined] as const,
      (thrown: unknown) => [undefined, thrown] as const,
    )
    // A promotion's event is recorded when its job has succeeded.
    if (name === 'promoteSession' && response !== undefined)
      await engine.sources.waitForJob(response as JobReference)
    // An assertion costs more than the comparison, and there are tens of thousands of calls.
    const allowed = response === undefined ? [[]] : [[], [event]]
    if (!allowed.some((types) => isDeepStrictEqual(types, recorded))) expect(allowed).toContainEqual(recorded)
    if (error === undefined) {
      if (response !== undefined) checkForm(schemas[name].response, response)
      return response!
    }
    if (!(error instanceof EngineError) && !(error instanceof Refusal)) throw error
    if (error instanceof Refusal && error.http !== httpCode(error)) expect(error.http).toBe(httpCode(error))
    const reasons = [...errors, ...ofTheRequest, ...(error instanceof Refusal ? ['ROUTE_NOT_FOUND'] : [])]
    if (!reasons.includes(error.reason)) expect(reasons).toContain(error.reason)
    return error.reason
  }

  test.each(names)('%s accepts, returns and records what its schema declares', async (name) => {
    const request = await prepare(name)
    checkForm(schemas[name].request, request)
    expect(await call(name, request)).toBeTypeOf('object')
    const { event } = table[name]
    // Storage that is not durable deletes a session's events with the session.
    const forgotten = name === 'deleteSession' && storageName === 'memory'
    expect(recorded).toEqual(event === undefined || forgotten ? [] : [event])
  })

  // Requests are validated before storage is accessed.
  const refusing = storageName === 'memory' ? names : []
  test.each(refusing)('%s rejects invalid requests with a declared reason', async (name) => {
    const refused = new Set<string>([...notMet.everywhere!, ...(notMet[name] ?? [])])
    for (let which = 0; which <= (further[name]?.length ?? 0); which++) {
      // A rejected request changes nothing, so the next one can be made in the same world.
      let valid: object | undefined
      for (const { what, of } of changes(sendable(name, await prepare(name, which)))) {
        valid ??= sendable(name, await prepare(name, which))
        try {
          const result = await attempt(name, of(valid))
          if (typeof result === 'string') refused.add(result)
          else if (result !== undefined) valid = undefined
        } catch (error) {
          throw new Error(`${name}, request ${which}, ${what()}`, { cause: error })
        }
      }
    }
    if (transportName === 'over HTTP' && !isComplete) return
    expect(table[name].errors.filter((reason) => !refused.has(reason))).toEqual([])
  })
})

describe('a stream', () => {
  test('yields messages, and ends with its signal', async () => {
    const engine = await openEngine()
    try {
      const { id: sessionId } = await callOperation(engine, 'createSession', {})
      await callOperation(engine, 'publishMessage', { sessionId, topic: 't', payload: content })
      const abort = new AbortController()
      const request = { sessionId, topics: ['t'], replayLimit: 1 }
      const stream = await openStream(engine, 'subscribe', request, { signal: abort.signal })
      const given: unknown[] = []
      const reading = (async () => {
        for await (const item of stream) {
          checkForm(schemas.subscribe.response, item)
          given.push(item)
          abort.abort(new Error('enough'))
        }
      })()
      await expect(reading).rejects.toThrow('enough')
      expect(given).toMatchObject([
        { result: { sessionId, topic: 't', payload: content, senderId: 'local' } },
      ])
    } finally {
      await engine.close()
    }
  })

  test('is rejected before it starts', async () => {
    const engine = await openEngine()
    try {
      const refused = (reason: string): unknown => expect.objectContaining({ reason })
      await expect(openStream(engine, 'subscribe', { sessionId: unknownId })).rejects.toEqual(
        refused('SESSION_NOT_FOUND'),
      )
      const { id: sessionId } = await callOperation(engine, 'createSession', {})
      await expect(openStream(engine, 'subscribe', { sessionId, replayLimit: -1 })).rejects.toEqual(
        refused('INVALID_ARGUMENT'),
      )
    } finally {
      await engine.close()
    }
  })
})

describe('a call', () => {
  test('that waits for a lock ends with its signal, or fails if it would wait forever', async () => {
    const engine = await openEngine()
    try {
      const session = await engine.sessions.create({ files: { '/a': '', '/b': '' } })
      const sessionId = session.id
      const lock = (path: string, ownerId: string, options = {}): Promise<object> =>
        callOperation(engine, 'setPosixLockBlocking', { sessionId, path, kind, owner: { ownerId } }, options)
      const flock = (path: string, ownerId: string, blocking: boolean, options = {}): Promise<object> =>
        callOperation(engine, 'flock', { sessionId, path, owner: { ownerId }, blocking }, options)
      for (const take of [lock, (path: string, id: string, options = {}) => flock(path, id, true, options)]) {
        await take('/a', 'one')
        await take('/b', 'two')
        const abort = new AbortController()
        const waiting = take('/b', 'one', { signal: abort.signal })
        await expect(take('/a', 'two')).rejects.toMatchObject({ reason: 'DEADLOCK' })
        abort.abort(new Error('enough'))
        await expect(waiting).rejects.toThrow('enough')
      }
      await expect(flock('/a', 'two', false)).rejects.toMatchObject({ reason: 'LOCK_HELD' })
    } finally {
      await engine.close()
    }
  })

  test('that creates a session needs no permission to read it', async () => {
    const engine = await openEngine({ authorize: (_, action) => action !== 'getSession' })
    try {
      const { id } = await callOperation(engine, 'createSession', {})
      expect((await callOperation(engine, 'forkSession', { sourceSessionId: id })).id).not.toBe(id)
      await expect(callOperation(engine, 'getSession', { sessionId: id })).rejects.toMatchObject({
        reason: 'PERMISSION_DENIED',
      })
    } finally {
      await engine.close()
    }
  })

  test('with an unknown operation name is rejected', async () => {
    const engine = await openEngine()
    try {
      for (const name of ['constructor', '__proto__', 'toString', 'subscribe', '', 5]) {
        await expect(callOperation(engine, name as 'getSession', { sessionId: '' })).rejects.toMatchObject({
          reason: 'INVALID_ARGUMENT',
        })
      }
      for (const request of [null, undefined, 'x', []]) {
        await expect(callOperation(engine, 'getSession', request as never)).rejects.toMatchObject({
          reason: 'INVALID_ARGUMENT',
        })
      }
    } finally {
      await engine.close()
    }
  })

  test('is made as the caller of the scope', async () => {
    const engine = await openEngine()
    try {
      const scope = engine.as({ tenant: 'acme', principal: 'ann' })
      const { id: sessionId } = await callOperation(scope, 'createSession', {})
      await expect(callOperation(engine, 'getSession', { sessionId })).rejects.toMatchObject({
        reason: 'SESSION_NOT_FOUND',
      })
      const session = await scope.sessions.open(sessionId)
      expect((await session.events.list()).events[0]!.principal).toBe('ann')
    } finally {
      await engine.close()
    }
  })
})

/** Reports the type of each stored session event. */
function recording(storage: Storage, onEvent: (type: string) => void): Storage {
  return {
    open: async () => {
      const store = await storage.open()
      const commit = store.commit.bind(store)
      return Object.assign(store, {
        commit: (one: Parameters<typeof commit>[0]) => {
          for (const { body } of one.events ?? []) {
            const [, type] = (typeof body === 'string' ? JSON.parse(body) : body) as [number, string]
            onEvent(type)
          }
          return commit(one)
        },
      })
    },
  }
}

describe('a narrowed scope', () => {
  let engine: Engine
  let template: Session

  beforeAll(async () => {
    engine = await openEngine()
    template = await engine.sessions.create({ files: { '/file': 'one\ntwo\n', '/dir/file': 'three' } })
    await template.files.createDirectory({ path: '/empty' })
    await template.files.createSymlink({ linkPath: '/link', target: 'file' })
    await template.files.setXattr({ path: '/file', name: 'user.a', value: 'a' })
  })

  afterAll(() => engine.close())

  /** Everything that a call could have changed. */
  async function picture(session: Session): Promise<unknown> {
    const { events, files, fileLocks, posixLocks, annotations, approvals, cache, secrets, health } = session
    const { sources } = await engine.sources.list({ pageSize: 10_000 })
    return {
      info: { ...(await session.get()), lastActivityAt: '' },
      tree: (await session.manifest()).manifestHash,
      mode: (await files.stat({ path: '/file' })).mode,
      log: await events.verify(),
      checkpoints: await session.listCheckpoints(),
      locks: (await fileLocks.list()).locks.map(({ path, lockId }) => [path, lockId]),
      posixLock: await posixLocks.get({ path: '/file', kind, owner: { ownerId: 'other' } }),
      annotations: await annotations.list(),
      approvals: await approvals.list(),
      cache: await cache.batchGet({ keys: ['k'] }),
      cacheKeys: await cache.keys(),
      secrets: await secrets.list(),
      health: await health.history(),
      sessions: (await engine.sessions.list({ pageSize: 10_000 })).sessions.map(({ id }) => id),
      sources: sources.map(({ sourceId, latestRevisionId }) => [sourceId, latestRevisionId]),
    }
  }

  /** Waits for the jobs that requests have started, which change their sources. */
  async function jobsEnded(): Promise<void> {
    const { sources } = await engine.sources.list({ pageSize: 10_000 })
    for (const { sourceId } of sources)
      for (const job of (await engine.sources.listJobs({ sourceId })).jobs)
        await engine.sources.waitForJob(job).catch(() => undefined)
  }

  const withheld = names.flatMap((name) =>
    table[name].capabilities.map((capability) => [name, capability] as const),
  )

  test.each(withheld)('rejects %s without %s and changes nothing', async (name, capability) => {
    const session = await template.fork()
    const request = await requests[name]({ engine, session, sessionId: session.id })
    await jobsEnded()
    const before = await picture(session)
    const narrow = engine.narrow({ without: [capability] })
    await expect(callOperation(narrow, name, request as never)).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
      details: { action: name, capability },
    })
    expect(await picture(session)).toEqual(before)
    const rest = engine.narrow({ without: [...allCapabilities].filter((one) => !needed(name).has(one)) })
    // The capabilities in the table are sufficient.
    expect(await callOperation(rest, name, request as never)).toBeTypeOf('object')
  })
})

const allCapabilities = new Set<Capability>(
  Object.values(table).flatMap(({ capabilities, when = {} }) => [
    ...capabilities,
    ...Object.values(when).flat(),
  ]),
)

function needed(name: CallableOperation): ReadonlySet<Capability> {
  const { capabilities, when = {} } = table[name]
  return new Set([...capabilities, ...Object.values(when).flat()])
}
