/** Every public method refuses an option that it does not know, in process and from a client. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as client from '../../src/adapters/client/index.js'
import * as http from '../../src/adapters/http/index.js'
import * as level from '../../src/adapters/level/index.js'
import * as main from '../../src/index.js'
import * as testing from '../../src/testing.js'
import { openRemote, type Remote } from '../support/remote.js'

type Method = (...given: never[]) => unknown
type NameOf<T> = { [Name in keyof T]: T[Name] extends Method ? Name : never }[keyof T] & string
/**
 * For each method, arguments with every parameter and, over all of them, every option that takes an object: the
 * compiler refuses a table that lacks a method or a parameter, so a new method has to be listed here.
 */
type Calls<T> = {
  readonly [Name in NameOf<T>]: readonly (T[Name] extends (...given: infer Given) => unknown
    ? Readonly<Required<Given>>
    : never)[]
}

const content = new Uint8Array(1)
const hash = `sha256:${'0'.repeat(64)}`
const id = '0'.repeat(36)
const page = { pageSize: 1, pageToken: '' }
const { signal } = new AbortController()
const owner = { ownerId: 'a', pid: 1, clientId: 'c' }
const range = { start: 0, length: 1 }
const onProgress = (): void => undefined
const segment = { path: '/a', segments: [], expectedHash: hash, logicalSize: 1, mode: 0o644 }
const segments = [
  { data: { offset: 0, content } },
  { hole: { offset: 0, length: 1 } },
  { borrowed: { offset: 0, length: 1, hash, casOffset: 0 } },
]
const write = { path: '/a', content, mode: 0o600, expectedHash: hash }
const state = { sessionId: id, checkpointId: id }

const sessions: Calls<main.Sessions> = {
  create: [
    [{ sourceRef: { sourceId: id, revisionId: id }, initialTags: {}, ttlSeconds: 1 }],
    [{ files: {} }],
    [{ gitRepository: { path: '/a', gitRef: 'b' } }],
  ],
  importBundle: [[content, { signal }]],
  open: [[id]],
  get: [[id]],
  list: [[{ filter: 'a=b', ...page }]],
  delete: [[id]],
}

const job = { sourceId: id, jobId: id }
const sources: Calls<main.Sources> = {
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
    [id, { uploadedGitBundle: { content, gitRef: '' } }],
  ],
  refresh: [[id, { gitRef: '', signal }]],
  promoteSession: [[id, { sessionId: id, revisionLabel: '', signal }]],
  exportTar: [[{ sourceId: id, revisionId: id, path: '/' }]],
  getJob: [[job]],
  waitForJob: [[job, { signal, onProgress }]],
  watchJob: [[job, { signal }]],
  abortJob: [[job]],
  onJob: [[onProgress]],
}

const usage: Calls<main.TenantUsage> = {
  get: [[{ windowStart: '2026-01-01T00:00:00Z', windowEnd: '2026-01-02T00:00:00Z', granularity: 'day' }]],
  metrics: [[]],
  sent: [[1]],
}

const engine: Calls<main.Engine> = {
  narrow: [[{ without: ['commit'] }]],
  diff: [[{ from: { ...state, base: true }, to: { sessionId: id, checkpointLabel: 'a' } }]],
  as: [[{ tenant: 'a', principal: 'b' }]],
  rotateSecrets: [[]],
  collect: [[{ keepRedo: true, signal, onProgress }]],
  check: [[{ readData: false, signal, onProgress }]],
  close: [],
}

const session: Calls<main.Session> = {
  flush: [[]],
  narrow: [[{ without: ['commit'] }]],
  get: [[]],
  analytics: [[]],
  delete: [],
  fork: [[{ checkpointLabel: '', newTags: {} }]],
  checkpoint: [[{ checkpointLabel: '' }]],
  listCheckpoints: [[page]],
  deleteCheckpoint: [[{ checkpointId: id }], [{ checkpointLabel: 'a' }]],
  pruneCheckpoints: [[{ keepLast: 10 }]],
  restore: [[{ checkpointId: id }], [{ checkpointLabel: 'a' }]],
  manifest: [[{ pathPrefix: '', includeCasExtents: false, ...page }]],
  diff: [[{ ...state, base: false }]],
  exportTar: [[{ checkpointId: id, path: '/' }]],
  checkout: [['/a', { force: false, signal, onProgress }]],
  exportBundle: [[{ signal }]],
  commit: [[{ message: 'a', author: { name: 'a', email: 'b' }, gitBranch: { branchName: 'c' }, signal }]],
  generateCommitSummary: [[]],
}

const files: Calls<main.SessionFiles> = {
  write: [[{ ...write, createParents: true, exclusive: false }]],
  append: [[{ ...write, createParents: true }]],
  copy: [[{ sourcePath: '/a', destinationPath: '/b', exclusive: false }]],
  read: [[{ path: '/a', offset: 0, length: 1 }]],
  readWithHash: [[{ path: '/a', offset: 0, length: 1 }]],
  contentHash: [['/a']],
  stat: [[{ path: '/a', followSymlinks: true, includeContentHash: true }]],
  list: [[{ path: '/a', recursive: false, ...page }]],
  delete: [[{ path: '/none', expectedHash: hash }]],
  createDirectory: [[{ path: '/a', mode: 0o755, recursive: false }]],
  removeDirectory: [[{ path: '/a', recursive: false }]],
  rename: [[{ sourcePath: '/none', destinationPath: '/b' }]],
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

const cache: Calls<main.SessionCache> = {
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

const bus: Calls<main.SessionBus> = {
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

const events: Calls<main.SessionEvents> = {
  list: [[{ startTime: '2026-01-01T00:00:00Z', endTime: '2026-01-01T00:00:00Z', ...page }]],
  follow: [[{ afterEventId: id, signal }]],
  verify: [[{ lastEventId: id }]],
}

const annotations: Calls<main.SessionAnnotations> = {
  add: [[{ filePath: '/a', lineNumber: 1, expectedContentHash: hash, comment: '' }]],
  list: [[{ filePath: '/a' }]],
  setStatus: [[{ annotationId: id, newStatus: main.AnnotationStatus.OPEN }]],
}

const approvals: Calls<main.SessionApprovals> = {
  request: [[{ reason: 'A', details: { summary: '', changedFiles: ['/a'] } }]],
  grant: [[{ approvalId: id }]],
  deny: [[{ approvalId: id, feedback: '' }]],
  list: [[]],
}

const fileLocks: Calls<main.SessionFileLocks> = {
  lock: [[{ path: '/a', timeoutSeconds: 1 }]],
  renew: [[{ path: '/a', timeoutSeconds: 1, lockId: id }]],
  list: [[{ pathPrefix: '' }]],
  unlock: [[{ path: '/a', lockId: id }]],
  forceUnlock: [[{ path: '/a', reason: '' }]],
}

const kind = main.PosixLockKind.SHARED
const posixLocks: Calls<main.SessionPosixLocks> = {
  get: [[{ path: '/a', kind, range, owner, isFlock: false }]],
  set: [[{ path: '/a', kind, range, owner }]],
  setBlocking: [[{ path: '/a', kind, range, owner }, { signal }]],
  flock: [[{ path: '/a', mode: main.PosixFlockMode.SHARED, owner, blocking: false }, { signal }]],
  funlock: [[{ path: '/a', range, owner, isFlock: false }]],
}

const report = { reportFormat: 'junit-xml/v1' as const, reportContent: '<testsuite/>' }
const health: Calls<main.SessionHealth> = {
  get: [[]],
  report: [[report]],
  testResults: [[report]],
  history: [[page]],
}

const scope = main.SecretScope.SESSION
const secrets: Calls<main.SessionSecrets> = {
  put: [[{ secretName: 'a', secretValue: 'b', scope }]],
  get: [[{ secretName: 'a' }]],
  list: [[{ scope }]],
  delete: [[{ secretName: 'a', scope }]],
}

const checkout: Calls<main.Checkout> = {
  update: [[{ force: false, signal, onProgress }]],
  sync: [[{ signal }]],
}

let directory: string
let remote: Remote
let local: main.Engine
let handler: http.HttpHandler
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'unknown-options-'))
  remote = await openRemote()
  local = await main.openEngine({ hostPaths: { roots: [directory] } })
  handler = http.createHttpHandler(local, { authenticate: () => undefined })
})
afterAll(async () => {
  await local.close()
  await remote.close()
  await rm(directory, { recursive: true })
})

const key = new Uint8Array(32)
/** Data, such as tags, and objects that are no options. */
const data = new Set(['initialTags', 'newTags', 'labels', 'files', 'headers', 'storage', 'environment'])

const openings: Calls<typeof main> = {
  openEngine: [
    [
      {
        maxFileBytes: 1,
        git: { allowPrivateAddresses: true },
        hostPaths: { roots: [] },
        approvals: { selfApproval: true },
        imports: { deadlineSeconds: 1, minBytesPerSecond: 1, rateWindowSeconds: 1 },
        budgets: { tenantBytes: 1 },
        secrets: { masterKey: { id: 'a', key }, previousKeys: [{ id: 'b', key }] },
        storage: main.memoryStorage(),
      },
    ],
  ],
  memoryStorage: [[{ durable: false, syncReads: true }]],
  capabilitiesOf: [],
}

const levels: Calls<typeof level> = {
  levelStorage: [['/none', { durability: 'full' }]],
  checkStore: [['/none', { readData: false, signal, onProgress }]],
  repairStore: [['/none', '/none2', { signal, onProgress }]],
  backupStore: [['/none', '/none2', { signal, onProgress }]],
}

const tests: Calls<typeof testing> = {
  fixedEnvironment: [[{ startMs: 1, stepMs: 1, seed: 1 }]],
  openTestEngine: [[{ seed: 1, maxFileBytes: 1 }]],
  memoryStorage: [[{ durable: false, syncReads: true }]],
  randomWords: [[1]],
  fromJSON: [],
  toJSON: [],
}

const clients: Calls<typeof client> = {
  connect: [
    [{ baseUrl: 'http://127.0.0.1:1', token: 'a', timeoutMs: 1, reconnectMs: 1, headers: {}, signal, fetch }],
  ],
}

/** Where the parts of a handle that are objects of options stand in arguments. */
function* places(
  given: unknown,
  at: readonly (string | number)[] = [],
): Generator<readonly (string | number)[]> {
  if (Array.isArray(given)) {
    for (const [index, part] of given.entries()) yield* places(part, [...at, index])
    return
  }
  if (typeof given !== 'object' || given === null || Object.getPrototypeOf(given) !== Object.prototype) return
  if (at.length > 0) yield at
  for (const [name, part] of Object.entries(given)) if (!data.has(name)) yield* places(part, [...at, name])
}

/** A copy with a misspelt name at a place. */
function misspelt(
  given: unknown,
  [first, ...rest]: readonly (string | number)[],
): { readonly copy: unknown; readonly name: string; readonly meant: string | undefined } {
  if (first === undefined) {
    const [meant] = Object.keys(given as object)
    const name = meant === undefined ? 'unknownName' : `${meant.slice(0, -1)}Q${meant.slice(-1)}`
    return { copy: { ...(given as object), [name]: 1 }, name, meant }
  }
  const inner = misspelt((given as Record<string, unknown>)[first], rest)
  const copy: unknown = Array.isArray(given) ? [...(given as unknown[])] : { ...(given as object) }
  ;(copy as Record<string, unknown>)[first] = inner.copy
  return { ...inner, copy }
}

/** What a call fails with, at once, by its promise, or when its result is read. */
async function failureOf(target: unknown, name: string, given: readonly unknown[]): Promise<unknown> {
  try {
    const result: unknown = (target as Record<string, (...all: readonly unknown[]) => unknown>)[name]!(
      ...given,
    )
    if (typeof (result as PromiseLike<unknown>)?.then === 'function') await result
    else if (typeof (result as AsyncIterable<unknown>)?.[Symbol.asyncIterator] === 'function')
      for await (const _ of result as AsyncIterable<unknown>) break
    return undefined
  } catch (error) {
    return error
  }
}

type Table = Readonly<Record<string, readonly (readonly unknown[])[]>>

/** Calls every method of a table on what a place gives, with a misspelt name at each place that takes options. */
function rejects(title: string, handle: () => unknown, table: object, leftOut: readonly string[] = []): void {
  const rows = Object.entries(table as Table).filter(([name]) => !leftOut.includes(name))
  test(`${title} has no method that is not listed`, async () => {
    const prototype: unknown = Object.getPrototypeOf(await handle())
    // A module has no prototype; its functions are compared by the compiler alone.
    const descriptors = Object.entries(Object.getOwnPropertyDescriptors(prototype ?? {}))
    const methods = descriptors.filter(([, { value }]) => typeof value === 'function')
    const names = methods.map(([name]) => name).filter((name) => name !== 'constructor')
    expect(prototype === Object.prototype ? [] : names.filter((name) => !(name in table))).toEqual([])
  })
  test.each(rows)(`${title}.%s`, async (name, variants) => {
    const target = await handle()
    for (const given of variants) {
      for (const place of places(given)) {
        const { copy, name: wrong, meant } = misspelt(given, place)
        const failure = await failureOf(target, name, copy as unknown[])
        const at = `${title}.${name} with ${wrong} at ${place.join('.')}`
        expect([at, failure]).toEqual([at, expect.any(main.EngineError)])
        const { reason, message, details } = failure as main.EngineError
        expect([at, reason, details['field']?.split('.').at(-1)]).toEqual([at, 'INVALID_ARGUMENT', wrong])
        expect(message).toContain('unknown key')
        expect([at, details['suggestion']]).toEqual([at, meant])
      }
      const right =
        target === local || name === 'subscribe' ? undefined : await failureOf(target, name, given)
      expect([title, name, String(right)]).not.toEqual([title, name, expect.stringContaining('unknown key')])
    }
  })
}

describe('in process', () => {
  const open = (): Promise<main.Session> => local.sessions.create({ files: { '/a': 'x' } })
  const of = (part: keyof main.Session) => async (): Promise<unknown> => (await open())[part]
  rejects('engine', () => local, engine)
  rejects('sessions', () => local.sessions, sessions)
  rejects('sources', () => local.sources, sources)
  rejects('usage', () => local.usage, usage)
  rejects('session', open, session)
  rejects('files', of('files'), files)
  rejects('cache', of('cache'), cache)
  rejects('bus', of('bus'), bus)
  rejects('events', of('events'), events, [])
  rejects('annotations', of('annotations'), annotations)
  rejects('approvals', of('approvals'), approvals)
  rejects('fileLocks', of('fileLocks'), fileLocks)
  rejects('posixLocks', of('posixLocks'), posixLocks)
  rejects('health', of('health'), health)
  rejects('secrets', of('secrets'), secrets)
  rejects('checkout', async () => (await open()).checkout(join(directory, crypto.randomUUID())), checkout)
  rejects('forkspace', () => main, openings)
  rejects('forkspace/level', () => level, levels)
  rejects('forkspace/testing', () => testing, tests)
  rejects('forkspace/http', () => http, {
    createHttpHandler: [[undefined, { authenticate: () => undefined, prefix: '', limits: { requestMs: 1 } }]],
    staticTokens: [],
  })
  test('serve and close', async () => {
    await expect(http.serve(handler, { prot: 1 } as never)).rejects.toMatchObject({
      details: { suggestion: 'port' },
    })
    const server = await http.serve(handler, { port: 0 })
    await expect(server.close({ timeoutMS: 1 } as never)).rejects.toMatchObject({
      details: { suggestion: 'timeoutMs' },
    })
    await server.close({ timeoutMs: 1 })
    expect(() => http.staticTokens({ a: { tenant: 'a', principle: 'b' } as never })).toThrow(
      'did you mean "principal"?',
    )
  })
})

describe('from a client', () => {
  const open = (): Promise<client.RemoteSession> => remote.client.sessions.create({ files: { '/a': 'x' } })
  const of = (part: keyof client.RemoteSession) => async (): Promise<unknown> => (await open())[part]
  const nativeOnly = [
    'as',
    'narrow',
    'rotateSecrets',
    'collect',
    'check',
    'importBundle',
    'exportTar',
    'onJob',
    'sent',
  ]
  const inProcess = [...nativeOnly, 'checkout', 'exportBundle', 'follow', 'verify']
  const wireSources: Calls<main.Sources> = { ...sources, create: sources.create.slice(0, 4) }
  const wireSessions: Calls<main.Sessions> = {
    ...sessions,
    create: [[{ sourceRef: { sourceId: id, revisionId: id }, initialTags: {} }], [{ files: {} }]],
  }
  rejects('engine', () => remote.client, engine, inProcess)
  rejects('sessions', () => remote.client.sessions, wireSessions, inProcess)
  rejects('sources', () => remote.client.sources, wireSources, inProcess)
  rejects('usage', () => remote.client.usage, usage, inProcess)
  rejects('session', open, session, inProcess)
  rejects('files', of('files'), files)
  rejects('cache', of('cache'), cache)
  rejects('bus', of('bus'), bus)
  rejects('events', of('events'), events, inProcess)
  rejects('annotations', of('annotations'), annotations)
  rejects('approvals', of('approvals'), approvals)
  rejects('fileLocks', of('fileLocks'), fileLocks)
  rejects('posixLocks', of('posixLocks'), posixLocks)
  rejects('health', of('health'), health)
  rejects('secrets', of('secrets'), secrets)
  rejects('forkspace/client', () => client, clients)
})

test('a property of Object.prototype is no option', async () => {
  const polluted = Object.prototype as Record<string, unknown>
  const opened = await local.sessions.create({ files: { '/a': 'x' } })
  const names = {
    expectedHash: hash,
    exclusive: true,
    createParents: false,
    checkpointLabel: 'none',
    mode: 0,
  }
  Object.assign(polluted, names)
  try {
    await opened.files.write({ path: '/a', content: 'y' })
    await opened.files.write({ path: '/new/a', content: 'y' })
    await opened.files.batch([{ write: { path: '/a', content: 'z' } }])
    await opened.fork()
    expect((await opened.checkpoint()).checkpointLabel).toBe('')
  } finally {
    for (const name of Object.keys(names)) delete polluted[name]
  }
  expect((await opened.files.stat({ path: '/new/a' })).mode).toBe(0o644)
})
