import { invalid } from '../base/errors.js'
import { parseText, given } from '../base/input.js'
import { limits } from '../base/limits.js'
import { Shape } from '../base/shape.js'
import type { OperationName } from '../operations/index.js'
import type { OperationRequest, OperationResponse } from '../operations/schemas/index.js'
import type { Checkpoint } from '../session/checkpoints.js'
import { listChanges, stateShape, type StateReference } from '../session/states.js'
import { openFor, type EngineScope } from './engine.js'
import { describeHandle, type Session } from './session.js'

export interface CallOptions {
  /** Ends the waiting for a lock, with the signal's reason; other operations run to their end. */
  readonly signal?: AbortSignal
}

const callShape = new Shape<CallOptions>({ signal: true })

const fileShape = new Shape<{ readonly path: string; readonly content: Uint8Array }>({
  path: true,
  content: true,
})

/** Operations whose response is a stream: see {@link openStream}. */
export type StreamOperation = 'subscribe'

export type CallableOperation = Exclude<OperationName, StreamOperation>

interface CallContext {
  readonly action: CallableOperation
  readonly options: CallOptions
}

type Call<Name extends OperationName> = (
  scope: EngineScope,
  request: OperationRequest<Name>,
  context: CallContext,
) => Promise<OperationResponse<Name>>

/** What gives nothing gives the empty object. */
type Answer<Result> = Result extends void ? Record<string, never> : Result

/** Every operation has a row: one without is an error of the compiler. */
const calls: { readonly [Name in CallableOperation]: Call<Name> } = {
  createSession: async ({ sessions }, { empty, files, ...request }) => {
    if (empty !== undefined && request.sourceRef !== undefined)
      throw invalid('sourceRef', 'pass at most one of sourceRef and empty')
    return describeHandle(
      await sessions.create(files === undefined ? request : { ...request, files: toRecord(files) }),
    )
  },
  getSession: ({ sessions }, { sessionId }) => sessions.get(sessionId),
  listSessions: ({ sessions }, request) => sessions.list(request),
  deleteSession: async ({ sessions }, { sessionId }) => answer(await sessions.delete(sessionId)),
  getManifest: inSession((session, request) => session.manifest(request)),
  forkSession: async ({ sessions }, { sourceSessionId, sourceCheckpointLabel, ...request }, { action }) => {
    const session = await openFor(sessions, action, sourceSessionId)
    const from = sourceCheckpointLabel === undefined ? {} : { checkpointLabel: sourceCheckpointLabel }
    return describeHandle(await session.fork({ ...request, ...from }))
  },
  createCheckpoint: inSession(async (session, { label = '' }) =>
    labelled(await session.checkpoint({ checkpointLabel: parseText('label', label, limits.labelBytes) })),
  ),
  restoreCheckpoint: inSession((session, request) => session.restore(request)),
  listCheckpoints: inSession(async (session, request) => {
    const { checkpoints, nextPageToken } = await session.listCheckpoints(request)
    return { checkpoints: checkpoints.map(labelled), nextPageToken }
  }),
  deleteCheckpoint: inSession(async (session, request) => answer(await session.deleteCheckpoint(request))),
  diff: (scope, { sessionId, from, to = {}, ...page }) => {
    const side = stateShape.readPart(from as StateReference, 'from')
    const before = { ...side, sessionId: side.sessionId ?? sessionId }
    const after = { ...stateShape.readPart(to as StateReference, 'to'), sessionId }
    const sides = [before, after].map((one) =>
      [one.sessionId, one.checkpointId, one.checkpointLabel, one.base].map(String),
    )
    const name = `changes ${JSON.stringify(sides)}`
    return listChanges(scope.diff({ from: before, to: after }), name, page)
  },
  listEvents: inSession(async (session, request) => {
    const { events, nextPageToken } = await session.events.list(request)
    return {
      events: events.map(({ eventId, timestamp, eventType, details }) => ({
        eventId,
        timestamp,
        eventType,
        details,
      })),
      nextPageToken,
    }
  }),

  createDirectory: inSession(({ files }, request) => files.createDirectory(request)),
  removeDirectory: inSession(({ files }, request) => files.removeDirectory(request)),
  rename: inSession(({ files }, request) => files.rename(request)),
  deleteFile: inSession(({ files }, request) => files.delete(request)),
  applyBatch: inSession(({ files }, { operations }) => files.batch(operations)),
  patchSegments: inSession(({ files }, request) => files.patchSegments(request)),
  createSymlink: inSession(({ files }, request) => files.createSymlink(request)),
  listSymlinks: inSession(({ files }, request) => files.listSymlinks(request)),
  readSymlink: inSession(({ files }, { path }) => files.readSymlink(path)),
  createHardLink: inSession(({ files }, request) => files.link(request)),
  unlink: inSession(({ files }, request) => files.unlink(request)),
  getCasExtents: inSession(({ files }, request) => files.getCasExtents(request)),
  readFile: inSession(({ files }, request) => files.readWithHash(request)),
  writeFile: inSession(({ files }, request) => files.write(request)),
  appendFile: inSession(({ files }, request) => files.append(request)),
  copyFile: inSession(({ files }, request) => files.copy(request)),
  setAttributes: inSession(({ files }, request) => files.setAttributes(request)),
  statPath: inSession(({ files }, request) => files.stat(request)),
  listDirectory: inSession(({ files }, request) => files.list(request)),
  setXattr: inSession(({ files }, request) => files.setXattr(request)),
  getXattr: inSession(({ files }, request) => files.getXattr(request)),
  listXattrs: inSession(({ files }, request) => files.listXattrs(request)),
  removeXattr: inSession(({ files }, request) => files.removeXattr(request)),

  getPosixLock: inSession(({ posixLocks }, request) => posixLocks.get(request)),
  setPosixLock: inSession(({ posixLocks }, request) => posixLocks.set(request)),
  setPosixLockBlocking: inSession(({ posixLocks }, request, context) =>
    posixLocks.setBlocking(request, context.options),
  ),
  flock: inSession(({ posixLocks }, request, context) => posixLocks.flock(request, context.options)),
  funlock: inSession(({ posixLocks }, request) => posixLocks.funlock(request)),
  lockFile: inSession(({ fileLocks }, request) => fileLocks.lock(request)),
  renewFileLock: inSession(({ fileLocks }, request) => fileLocks.renew(request)),
  listFileLocks: inSession(({ fileLocks }, request) => fileLocks.list(request)),
  unlockFile: inSession(({ fileLocks }, request) => fileLocks.unlock(request)),
  forceUnlockFile: inSession(({ fileLocks }, request) => fileLocks.forceUnlock(request)),

  addAnnotation: inSession(({ annotations }, request) => annotations.add(request)),
  listAnnotations: inSession(({ annotations }, request) => annotations.list(request)),
  updateAnnotationStatus: inSession(({ annotations }, request) => annotations.setStatus(request)),
  requestApproval: inSession(({ approvals }, request) => approvals.request(request)),
  listApprovals: inSession(async ({ approvals }) => {
    const listed = await approvals.list()
    return { approvals: listed.approvals.map((one) => ({ ...one, changedFiles: [...one.changedFiles] })) }
  }),
  grantApproval: inSession(({ approvals }, request) => approvals.grant(request)),
  denyApproval: inSession(({ approvals }, request) => approvals.deny(request)),
  commit: inSession((session, request) => session.commit(request)),
  generateCommitSummary: inSession((session) => session.generateCommitSummary()),

  putCacheEntry: inSession(({ cache }, request) => cache.put(request)),
  getCacheEntry: inSession(({ cache }, request) => cache.get(request)),
  deleteCacheEntry: inSession(({ cache }, request) => cache.delete(request)),
  cacheEntryExists: inSession(({ cache }, request) => cache.exists(request)),
  getCacheMetadata: inSession(({ cache }, request) => cache.metadata(request)),
  compareAndSetCacheEntry: inSession(({ cache }, request) => cache.compareAndSet(request)),
  listCacheKeys: inSession(({ cache }, request) => cache.keys(request)),
  getCacheStats: inSession(({ cache }) => cache.stats()),
  batchGetCache: inSession(({ cache }, request) => cache.batchGet(request)),
  batchSetCache: inSession(({ cache }, request) => cache.batchSet(request)),
  batchDeleteCache: inSession(({ cache }, request) => cache.batchDelete(request)),
  deleteCacheByPrefix: inSession(({ cache }, request) => cache.deleteByPrefix(request)),

  publishMessage: inSession(async ({ bus }, request) => {
    await bus.publish(request)
  }),

  listSecrets: inSession(({ secrets }, request) => secrets.list(request)),
  putSecret: inSession(({ secrets }, request) => secrets.put(request)),
  getSecret: inSession(({ secrets }, request) => secrets.get(request)),
  deleteSecret: inSession(({ secrets }, request) => secrets.delete(request)),

  getHealth: inSession(({ health }) => health.get()),
  reportHealth: inSession(({ health }, request) => health.report(request)),
  listHealthReports: inSession(({ health }, request) => health.history(request)),
  getAnalytics: inSession((session) => session.analytics()),
  getUsage: ({ usage }, request) => usage.get(request),
  getCasMetrics: ({ usage }) => usage.metrics(),

  createSource: ({ sources }, request) => sources.create(request),
  listSources: ({ sources }, request) => sources.list(request),
  getSource: ({ sources }, { sourceId }) => sources.get(sourceId),
  deleteSource: async ({ sources }, { sourceId }) => answer(await sources.delete(sourceId)),
  startImport: ({ sources }, { sourceId, ...request }) => sources.startImport(sourceId, request),
  refreshSource: ({ sources }, { sourceId, ...request }) => sources.refresh(sourceId, request),
  promoteSession: ({ sources }, { sourceId, ...request }) => sources.promoteSession(sourceId, request),
  abortJob: ({ sources }, { sourceId, jobId }) => sources.abortJob({ sourceId, jobId }),
  getJob: ({ sources }, { sourceId, jobId }) => sources.getJob({ sourceId, jobId }),
}

/**
 * Carries out an operation by its name, as the caller of the scope. Request and response are those of its
 * schemas, natively; what the engine does not understand it refuses with its own errors. The request must not
 * change before the promise is settled. INVALID_ARGUMENT for a name that is no operation's.
 *
 * @example
 * await callOperation(engine, 'rename', { sessionId, sourcePath: '/a', destinationPath: '/b' })
 */
export async function callOperation<Name extends CallableOperation>(
  scope: EngineScope,
  name: Name,
  request: OperationRequest<Name>,
  options: CallOptions = {},
): Promise<OperationResponse<Name>> {
  if (!Object.hasOwn(calls, name))
    throw invalid('name', `must be the name of an operation; it is ${given(name)}`)
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw invalid('request', 'must be an object')
  return calls[name](scope, request, { action: name, options: callShape.read(options, 'options') })
}

/** An open stream: iterate it once. */
interface OpenedStream extends AsyncIterable<OperationResponse<StreamOperation>> {
  /** As `startsAfter` of a subscription to the bus. */
  readonly startsAfter: string
}

/**
 * Opens a stream by its name; its items are those of the schema, and what ends it early is thrown. Resolves when
 * the stream stands, so that what is wrong with the request is told before. Ends when its loop is left.
 */
export async function openStream(
  { sessions }: EngineScope,
  name: StreamOperation,
  { sessionId, ...request }: OperationRequest<StreamOperation>,
  options: CallOptions = {},
): Promise<OpenedStream> {
  const session = await openFor(sessions, name, sessionId)
  const messages = session.bus.subscribe({ ...request, ...options })
  return Object.assign(items(messages), { startsAfter: await messages.startsAfter })
}

async function* items<Message>(messages: AsyncIterable<Message>): AsyncGenerator<{ result: Message }, void> {
  for await (const result of messages) yield { result }
}

function inSession<Request extends { readonly sessionId: string }, Result>(
  act: (session: Session, request: Omit<Request, 'sessionId'>, context: CallContext) => Promise<Result>,
): (scope: EngineScope, request: Request, context: CallContext) => Promise<Answer<Result>> {
  return async ({ sessions }, { sessionId, ...request }, context) =>
    answer(await act(await openFor(sessions, context.action, sessionId), request, context))
}

/** A checkpoint under the names of the interface. */
function labelled({ checkpointLabel, ...checkpoint }: Checkpoint): OperationResponse<'createCheckpoint'> {
  return { ...checkpoint, label: checkpointLabel }
}

function toRecord(
  files: readonly { readonly path: string; readonly content: Uint8Array }[],
): Record<string, Uint8Array> {
  if (!Array.isArray(files)) throw invalid('files', 'must be an array')
  const record = Object.create(null) as Record<string, Uint8Array>
  for (const [index, file] of files.entries()) {
    const { path, content } = fileShape.readPart(file, `files[${index}]`)
    if (typeof path !== 'string') throw invalid(`files[${index}].path`, 'must be a string')
    record[path] = content
  }
  return record
}

function answer<Result>(result: Result): Answer<Result> {
  return (result === undefined ? {} : result) as Answer<Result>
}
