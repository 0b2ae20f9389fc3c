import { itemAt, present } from '../base/present.js'
import { invalid } from '../base/errors.js'
import { parseText, given } from '../base/input.js'
import { limits } from '../base/limits.js'
import { Shape } from '../base/shape.js'
import { operations, type Operation, type OperationMethods, type OperationName } from '../operations/index.js'
import type { OperationRequest, OperationResponse } from '../operations/schemas/index.js'
import type { Checkpoint } from '../session/checkpoints.js'
import { listChangedFiles, listChanges, type Diff } from '../session/diffs/diff.js'
import { stateShape, type StateName, type StateReference } from '../session/states.js'
import { diffFor, openFor, type EngineScope } from './engine.js'
import { describeHandle, viewOf, type Session } from './session.js'
import type { SessionView } from './session-view.js'

export interface CallOptions {
  /** Ends the waiting for a lock, or a search, with the signal's reason; other operations run to their end. */
  readonly signal?: AbortSignal
}

const callShape = new Shape<CallOptions>({ signal: true })

const fileShape = new Shape<{ readonly path: string; readonly content: Uint8Array }>({
  path: true,
  content: true,
})

/** Operations whose response is a stream: see {@link openStream}. */
export type StreamOperation = 'subscribe' | 'watchChanges'

/** Whether the response of an operation is a stream: see {@link openStream}. */
export function isStreamOperation(name: OperationName): name is StreamOperation {
  const operation: Operation = operations[name]
  return operation.stream === true
}

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

/** A method without a result gives the empty object. */
type ResponseOf<Result> = Result extends void ? Record<string, never> : Result

type MethodName = keyof OperationMethods

/** The type of `files.rename` in the object: of a session, for example. */
type MemberOf<Root, Path> = Path extends `${infer First}.${infer Rest}`
  ? First extends keyof Root
    ? MemberOf<Root[First], Rest>
    : never
  : Path extends keyof Root
    ? Root[Path]
    : never

/** The method of an operation, and its parameters. */
export type MethodOf<Name extends MethodName> = OperationMethods[Name] extends `session.${infer Path}`
  ? [method: MemberOf<Session, Path>, request: Omit<OperationRequest<Name>, 'sessionId'>]
  : OperationMethods[Name] extends `engine.${infer Path}`
    ? [method: MemberOf<EngineScope, Path>, request: OperationRequest<Name>]
    : never

/** Operations whose method takes their request and gives their response. */
type Fitting = {
  [Name in MethodName]: MethodOf<Name> extends [
    (request: MethodOf<Name>[1], options: CallOptions) => Promise<infer Result>,
    unknown,
  ]
    ? ResponseOf<Result> extends OperationResponse<Name>
      ? Name
      : never
    : never
}[MethodName]

/** Every operation that is not a method of the library has a row: a missing one is a compiler error. */
const rows: { readonly [Name in Exclude<CallableOperation, Fitting>]: Call<Name> } = {
  createSession: async ({ sessions }, { empty, files, ...request }) => {
    if (empty !== undefined && request.sourceRef !== undefined)
      throw invalid('sourceRef', 'pass at most one of sourceRef and empty')
    return describeHandle(
      await sessions.create(files === undefined ? request : { ...request, files: toRecord(files) }),
    )
  },
  getSession: ({ sessions }, { sessionId }) => sessions.get(sessionId),
  deleteSession: async ({ sessions }, { sessionId }) => toResponse(await sessions.delete(sessionId)),
  restoreCheckpoint: inSession(async (session, request) => {
    const { changes: _, isComplete: __, ...info } = await session.restore(request)
    return info
  }),
  forkSession: async ({ sessions }, { sourceSessionId, sourceCheckpointLabel, ...request }, { action }) => {
    const session = await openFor(sessions, action, sourceSessionId)
    const from = sourceCheckpointLabel === undefined ? {} : { checkpointLabel: sourceCheckpointLabel }
    return describeHandle(await session.fork({ ...request, ...from }))
  },
  createCheckpoint: inSession(async (session, { label = '', ...request }) => {
    const checkpointLabel = parseText('label', label, limits.labelBytes)
    return labelled(await session.checkpoint({ ...request, checkpointLabel }))
  }),
  listCheckpoints: inSession(async (session, request) => {
    const { checkpoints, nextPageToken } = await session.listCheckpoints(request)
    return { checkpoints: checkpoints.map(labelled), nextPageToken }
  }),
  mergeSession: inSession((session, { source, ...options }) => session.merge(source, options)),
  rebaseSession: inSession((session, request) => session.rebase(request)),
  diff: (scope, { sessionId, from, to, ...page }) => {
    const { diff, name } = diffOf(scope, 'diff', { sessionId, from, to })
    return listChanges(diff, `changes ${name}`, page)
  },
  diffFiles: (scope, { sessionId, from, to, similarity, ...request }) => {
    const { diff, name } = diffOf(scope, 'diffFiles', { sessionId, from, to })
    if (similarity !== undefined && request.renames !== undefined)
      throw invalid('similarity', 'cannot be combined with renames: pass one of them')
    const renames = similarity === undefined ? request.renames : { similarity }
    return listChangedFiles(diff, name, renames === undefined ? request : { ...request, renames })
  },
  resolveState: inSession(async (session, reference) => {
    using view = await session.at(reference)
    return { eventId: view.eventId }
  }),
  restoreState: inSession(async (session, request) => {
    const { changes, isComplete, ...info } = await session.restore(request)
    return { session: info, changes, isComplete }
  }),
  readFileAt: inState(({ files }, request) => files.readWithHash(request)),
  statPathAt: inState(({ files }, request) => files.stat(request)),
  listDirectoryAt: inState(({ files }, request) => files.list(request)),
  getManifestAt: inState((view, request) => view.manifest(request)),
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

  applyBatch: inSession(({ files }, { operations }) => files.batch(operations)),
  readSymlink: inSession(({ files }, { path }) => files.readSymlink(path)),
  publishMessage: inSession(async ({ bus }, request) => {
    await bus.publish(request)
  }),
  getSource: ({ sources }, { sourceId }) => sources.get(sourceId),
  deleteSource: async ({ sources }, { sourceId }) => toResponse(await sources.delete(sourceId)),
  startImport: ({ sources }, { sourceId, ...request }) => sources.startImport(sourceId, request),
  refreshSource: ({ sources }, { sourceId, ...request }) => sources.refresh(sourceId, request),
  promoteSession: ({ sources }, { sourceId, ...request }) => sources.promoteSession(sourceId, request),
}

/** The diff of a request, and a name of its two states, for page tokens. */
function diffOf(
  scope: EngineScope,
  action: 'diff' | 'diffFiles',
  {
    sessionId,
    from,
    to = {},
  }: Pick<OperationRequest<'diff'>, 'sessionId' | 'from'> & { readonly to?: unknown },
): { readonly diff: Diff; readonly name: string } {
  const side = stateShape.readPart(from as StateReference, 'from')
  const before = { ...side, sessionId: side.sessionId ?? sessionId }
  const after = { ...stateShape.readPart(to as StateReference, 'to'), sessionId }
  const sides = [before, after].map((one) =>
    [one.sessionId, one.checkpointId, one.checkpointLabel, one.base, one.eventId, one.time].map(String),
  )
  return { diff: diffFor(scope, action, { from: before, to: after }), name: JSON.stringify(sides) }
}

const calls: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ...Object.entries(rows),
  ...Object.entries(operations).flatMap(([name, { implementedBy }]) =>
    implementedBy === undefined ? [] : [[name, byMethod(implementedBy.split('.'))] as const],
  ),
])

/**
 * Carries out an operation by its name, as the caller of the scope. Request and response are those of its schemas,
 * natively; the engine's own errors refuse invalid requests. The request must not change before the promise is
 * settled.
 *
 * @throws {EngineError} INVALID_ARGUMENT when no operation has this name.
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
  if (!calls.has(name)) throw invalid('name', `must be the name of an operation; it is ${given(name)}`)
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw invalid('request', 'must be an object')
  const call = calls.get(name) as Call<Name>
  return call(scope, request, { action: name, options: callShape.read(options, 'options') })
}

/** An open stream: iterate it once. */
interface OpenedStream<Name extends StreamOperation> extends AsyncIterable<OperationResponse<Name>> {
  /** The id of the message or event that the stream starts after. */
  readonly startsAfter: string
}

interface OpenedItems extends AsyncIterable<object> {
  readonly startsAfter: Promise<string>
}

/**
 * Opens a stream by its name; its items are those of the schema, and an error that ends it early is thrown. Resolves
 * when the stream is open, so that errors in the request are thrown before. Ends when its loop is left.
 */
export async function openStream<Name extends StreamOperation>(
  { sessions }: EngineScope,
  name: Name,
  { sessionId, ...request }: OperationRequest<Name>,
  options: CallOptions = {},
): Promise<OpenedStream<Name>> {
  const session = await openFor(sessions, name, sessionId)
  const stream: OpenedItems =
    name === 'subscribe'
      ? session.bus.subscribe({ ...request, ...options })
      : session.watch({ ...request, ...options })
  return Object.assign(items(stream), { startsAfter: await stream.startsAfter }) as OpenedStream<Name>
}

/** Calls a method by its path, such as `session`, `files`, `rename`. {@link Fitting} has checked the types. */
function byMethod(path: readonly string[]): Call<MethodName> {
  const [root, ...services] = path.slice(0, -1)
  const method = itemAt(path, -1)
  const call = async (owner: object, request: object, options: CallOptions): Promise<never> => {
    let service = owner
    for (const name of services) service = present((service as Readonly<Record<string, object>>)[name], name)
    const methods = service as Readonly<Record<string, (...given: unknown[]) => Promise<unknown>>>
    return toResponse(await present(methods[method], method).call(service, request, options)) as never
  }
  if (root === 'engine') return (scope, request, { options }) => call(scope, request, options)
  return async ({ sessions }, request, { action, options }) => {
    const { sessionId, ...rest } = request as { readonly sessionId: string }
    return call(await openFor(sessions, action, sessionId), rest, options)
  }
}

async function* items<Message>(messages: AsyncIterable<Message>): AsyncGenerator<{ result: Message }, void> {
  for await (const result of messages) yield { result }
}

function inSession<Request extends { readonly sessionId: string }, Result>(
  act: (session: Session, request: Omit<Request, 'sessionId'>, context: CallContext) => Promise<Result>,
): (scope: EngineScope, request: Request, context: CallContext) => Promise<ResponseOf<Result>> {
  return async ({ sessions }, { sessionId, ...request }, context) =>
    toResponse(await act(await openFor(sessions, context.action, sessionId), request, context))
}

function inState<Request extends { readonly sessionId: string; readonly at: StateName }, Result>(
  read: (view: SessionView, request: Omit<Request, 'sessionId' | 'at'>) => Promise<Result>,
): (scope: EngineScope, request: Request, context: CallContext) => Promise<Result> {
  return async ({ sessions }, { sessionId, at, ...request }, { action }) => {
    const session = await openFor(sessions, action, sessionId)
    if (at === undefined) throw invalid('at', 'must be an object that names a state, such as { time }')
    using view = await viewOf(session, action, at)
    return await read(view, request)
  }
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

function toResponse<Result>(result: Result): ResponseOf<Result> {
  return (result === undefined ? {} : result) as ResponseOf<Result>
}
