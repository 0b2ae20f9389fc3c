import type {
  JsonObject,
  ChangeWatch,
  ChangeWatchOptions,
  Checkpoint,
  CheckpointCreateRequest,
  ForkRequest,
  MergeOptions,
  MergeResult,
  RestoreRequest,
  RestoreResult,
  StateName,
  PruneRequest,
  RebaseOptions,
  Session,
  SessionApi,
  SessionCommitRequest,
  SessionInfo,
  StateReference,
} from '../../engine/index.js'
import { invalid, Shape, type OperationResponse } from '../../engine/client-contract.js'
import { RemoteBus } from './bus.js'
import { RemoteCache } from './cache.js'
import { RemoteDiff } from './diff.js'
import { RemoteFiles } from './files.js'
import { createRemoteFs, type RemoteFs } from './fs/index.js'
import { RemoteFileLocks, RemotePosixLocks } from './locks.js'
import { RemoteAnnotations, RemoteApprovals, RemoteCommits, RemoteConflicts } from './review.js'
import { RemoteWatch } from './remote-watch.js'
import { callsOf, remoteService } from './remote-service.js'
import { SessionCalls } from './session-calls.js'
import { RemoteText } from './text.js'
import type { Transport } from './transport.js'
import { RemoteView } from './view.js'
import { RemoteEvents, RemoteHealth, RemoteSecrets } from './visibility.js'

const forkShape = new Shape<ForkRequest>({
  checkpointLabel: true,
  from: true,
  newTags: true,
  metadata: true,
})
const restoreShape = new Shape<RestoreRequest>({
  checkpointId: true,
  checkpointLabel: true,
  from: true,
  paths: true,
  dryRun: true,
  listChanges: true,
})
const stateNameShape = new Shape<StateName>({
  checkpointId: true,
  checkpointLabel: true,
  eventId: true,
  time: true,
  base: true,
})
const checkpointShape = new Shape<CheckpointCreateRequest>({ checkpointLabel: true, metadata: true })
const pruneShape = new Shape<PruneRequest>({ keepLast: true })
const commitShape = new Shape<SessionCommitRequest>({
  message: true,
  author: true,
  gitBranch: true,
  allowEmpty: true,
  signal: true,
})
const mergeNames = { policies: true, dryRun: true, expectedEventId: true, names: true } as const
const mergeShape = new Shape<RemoteMergeOptions>(mergeNames)
const rebaseShape = new Shape<RemoteRebaseOptions>({ ...mergeNames, revisionId: true })
export const stateShape = new Shape<StateReference>({
  sessionId: true,
  checkpointId: true,
  checkpointLabel: true,
  eventId: true,
  time: true,
  base: true,
})

/**
 * The state to which `session.diff` compares: another session, a reference to a state, a checkpoint of this
 * session, or `'base'`, the state that the session started from.
 */
export type RemoteDiffTarget = RemoteSession | StateReference | StateName | 'base'

/** Options of `session.merge`. Mergers are functions, which exist only in process. */
export type RemoteMergeOptions = Omit<MergeOptions, 'mergers'>

/** Options of `session.rebase`. */
export type RemoteRebaseOptions = Omit<RebaseOptions, 'mergers'>

/**
 * A handle for one session on a server. Like the session of a local engine, with the differences below. Each
 * method also throws the errors of {@link connect}, and `SESSION_NOT_FOUND` when the session was deleted.
 */
export class RemoteSession extends remoteService('session', 'commit') implements SessionApi {
  /** The id of the session. */
  readonly id: string
  #files: RemoteFiles | undefined
  #fs: RemoteFs | undefined

  /** @internal */
  constructor(transport: Transport, id: string) {
    super(new SessionCalls(transport, id))
    this.id = id
  }

  /** The files of the session, with guards, batches and streams. */
  get files(): RemoteFiles {
    return (this.#files ??= new RemoteFiles(callsOf(this)))
  }

  /**
   * The files with the API of `node:fs/promises`, without synchronous calls, open files, streams and
   * watchers.
   */
  get fs(): RemoteFs {
    return (this.#fs ??= createRemoteFs(this.files))
  }

  /** The files as text: read lines, search, edit, and apply patches. */
  get text(): RemoteText {
    return new RemoteText(callsOf(this))
  }

  /** The event log of the session. */
  get events(): RemoteEvents {
    return new RemoteEvents(callsOf(this))
  }

  /** Review comments on files. */
  get annotations(): RemoteAnnotations {
    return new RemoteAnnotations(callsOf(this))
  }

  /** The unresolved conflicts of a merge or rebase. */
  get conflicts(): RemoteConflicts {
    return new RemoteConflicts(callsOf(this))
  }

  /** Requests for approval. */
  get approvals(): RemoteApprovals {
    return new RemoteApprovals(callsOf(this))
  }

  /** Keys and values, separate from the files. */
  get cache(): RemoteCache {
    return new RemoteCache(callsOf(this))
  }

  /** The git commits that `commit` has made. */
  get commits(): RemoteCommits {
    return new RemoteCommits(callsOf(this))
  }

  /** Messages between the clients of the session. */
  get bus(): RemoteBus {
    return new RemoteBus(callsOf(this))
  }

  /** Locks on ranges and files, like those of fcntl and flock. */
  get posixLocks(): RemotePosixLocks {
    return new RemotePosixLocks(callsOf(this))
  }

  /** Locks on paths that expire. */
  get fileLocks(): RemoteFileLocks {
    return new RemoteFileLocks(callsOf(this))
  }

  /** The test results of the session. */
  get health(): RemoteHealth {
    return new RemoteHealth(callsOf(this))
  }

  /** Secret values, separate from the files. */
  get secrets(): RemoteSecrets {
    return new RemoteSecrets(callsOf(this))
  }

  /**
   * Resolves when all pending requests of this client have ended.
   *
   * @example
   * await session.flush()
   */
  flush(): Promise<void> {
    return callsOf(this).transport.settled()
  }

  /**
   * The current tags, status, times and fingerprint of the session.
   *
   * @example
   * const { status, tags } = await session.get()
   */
  get(): Promise<SessionInfo> {
    return callsOf(this).call('getSession', {})
  }

  /**
   * Hides the session immediately. Its forks are not affected.
   *
   * @example
   * await session.delete()
   */
  delete(): Promise<void> {
    return callsOf(this).run('deleteSession', {})
  }

  /**
   * Creates a session from the current state, or from a checkpoint. Nothing is copied.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when no checkpoint has this label
   *
   * @example
   * const fork = await session.fork({ newTags: { attempt: '1' } })
   */
  async fork(request: Parameters<Session['fork']>[0] = {}): Promise<RemoteSession> {
    const { transport } = callsOf(this)
    const { checkpointLabel, ...rest } = forkShape.read(request)
    const from = checkpointLabel === undefined ? {} : { sourceCheckpointLabel: checkpointLabel }
    const { id } = await transport.call('forkSession', { ...rest, ...from, sourceSessionId: this.id })
    return new RemoteSession(transport, id)
  }

  /**
   * Creates a checkpoint of the current state.
   *
   * @throws {EngineError} ALREADY_EXISTS when a checkpoint of the session has this label
   *
   * @example
   * const { id } = await session.checkpoint({ checkpointLabel: 'before' })
   */
  async checkpoint(request: CheckpointCreateRequest = {}): Promise<Checkpoint> {
    const { checkpointLabel: label, ...rest } = checkpointShape.read(request)
    const named = label === undefined ? {} : { label }
    return ofLibrary(await callsOf(this).call('createCheckpoint', { ...rest, ...named }))
  }

  /**
   * A page of the checkpoints, oldest first.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is malformed
   *
   * @example
   * const { checkpoints } = await session.listCheckpoints({ pageSize: 100 })
   */
  async listCheckpoints(
    request: Parameters<Session['listCheckpoints']>[0] = {},
  ): ReturnType<Session['listCheckpoints']> {
    const { checkpoints, nextPageToken } = await callsOf(this).call('listCheckpoints', request)
    return { checkpoints: checkpoints.map(ofLibrary), nextPageToken }
  }

  /**
   * Deletes all checkpoints except the newest `keepLast`. It lists the checkpoints and deletes them one by
   * one, so another client may change them in between.
   *
   * @throws {EngineError} INVALID_ARGUMENT when `keepLast` is not a whole number from 0
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when another client deletes one of them during the call
   *
   * @example
   * const { deletedCount } = await session.pruneCheckpoints({ keepLast: 10 })
   */
  async pruneCheckpoints(
    request: Parameters<Session['pruneCheckpoints']>[0],
  ): ReturnType<Session['pruneCheckpoints']> {
    const { keepLast } = pruneShape.read(request)
    if (!Number.isSafeInteger(keepLast) || keepLast < 0)
      throw invalid('keepLast', 'must be a whole number from 0')
    const ids: string[] = []
    for (let pageToken = ''; ;) {
      const page = await this.listCheckpoints({ pageToken })
      ids.push(...page.checkpoints.map(({ id }) => id))
      if (page.nextPageToken === '') break
      pageToken = page.nextPageToken
    }
    const old = ids.slice(0, Math.max(0, ids.length - keepLast))
    for (const checkpointId of old) await this.deleteCheckpoint({ checkpointId })
    return { deletedCount: old.length }
  }

  /**
   * Changes the files back to an earlier state, or some of them. Like `session.restore` of a local engine.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when no checkpoint has this id or label
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event, or did not exist at this time
   * @throws {EngineError} STATE_NOT_KEPT when the state is no longer kept
   * @throws {EngineError} PATH_NOT_FOUND when neither state has one of the paths
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * const { changes } = await session.restore({ from: { checkpointLabel: 'before' }, dryRun: true })
   */
  async restore(request: RestoreRequest): Promise<RestoreResult> {
    const { from, paths, dryRun, listChanges, ...checkpoint } = restoreShape.read(request)
    if ([from, paths, dryRun, listChanges].every((option) => option === undefined))
      return { ...(await callsOf(this).call('restoreCheckpoint', checkpoint)), changes: [], isComplete: true }
    if (from !== undefined && Object.keys(checkpoint).length > 0)
      throw invalid('from', 'cannot be combined with checkpointId or checkpointLabel: pass one of them')
    const { session, ...preview } = await callsOf(this).call('restoreState', {
      from: from ?? checkpoint,
      ...(paths !== undefined && { paths: [...paths] }),
      ...(dryRun !== undefined && { dryRun }),
      ...(listChanges !== undefined && { listChanges }),
    })
    return { ...session, ...preview }
  }

  /**
   * A read-only view of one state. Each read is a request that names the event of the state. The server does not keep
   * the state for the view, so a read fails with `STATE_NOT_KEPT` once it was collected.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the session has no such checkpoint
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event, or did not exist at this time
   * @throws {EngineError} STATE_NOT_KEPT when the state is no longer kept
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { content } = await view.files.readWithHash({ path: '/src/a.ts' })
   */
  async at(reference: StateName = {}): Promise<RemoteView> {
    const copy = stateNameShape.read(reference, 'reference')
    const { eventId } = await callsOf(this).call('resolveState', copy)
    return new RemoteView(callsOf(this), eventId)
  }

  /**
   * The changes from another state to the current state of this session. The default is the state that the
   * session started from. The server compares the states when the changes are read, and errors are thrown at
   * that time.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the state is invalid
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the state does not exist
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  diff(against: RemoteDiffTarget = 'base'): RemoteDiff {
    return new RemoteDiff(callsOf(this).transport, () => ({
      sessionId: this.id,
      from: this.#reference(against),
    }))
  }

  /**
   * Merges the changes of another session into this one, as one event. A conflict keeps the content of this session
   * and is listed in `conflicts`, unless a policy decides it.
   *
   * @throws {EngineError} NO_COMMON_ANCESTOR when the sessions did not start from a common state
   * @throws {EngineError} MERGE_CONFLICT when a path with the policy `fail` has a conflict
   * @throws {EngineError} UNRESOLVED_CONFLICTS when this session has conflicts of an earlier merge
   *
   * @example
   * const attempt = await session.fork()
   * await attempt.files.write({ path: '/b.txt', content: 'two' })
   * const { changes } = await session.merge(attempt)
   */
  async merge(
    source: RemoteSession | StateReference,
    options: RemoteMergeOptions = {},
  ): Promise<MergeResult> {
    const reference =
      source instanceof RemoteSession ? { sessionId: source.id } : stateShape.readPart(source, 'source')
    return callsOf(this).call('mergeSession', {
      source: reference,
      ...mergeShape.read(options, 'options'),
    })
  }

  /**
   * Moves the session onto another revision of its source, by default the latest, as one event.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when the session did not start from a source
   * @throws {EngineError} MERGE_CONFLICT when a path with the policy `fail` has a conflict
   * @throws {EngineError} UNRESOLVED_CONFLICTS when the session has conflicts of an earlier merge
   *
   * @example
   * const { sourceId } = await engine.sources.create({ displayName: 'docs', uploadedSnapshot: {} })
   * await engine.sources.waitForJob(await engine.sources.promoteSession(sourceId, { sessionId: session.id, revisionLabel: 'v1' }))
   * const draft = await engine.sessions.create({ sourceRef: { sourceId } })
   * const { merged } = await draft.rebase()
   */
  async rebase(options: RemoteRebaseOptions = {}): Promise<MergeResult> {
    return callsOf(this).call('rebaseSession', rebaseShape.read(options, 'options'))
  }

  /**
   * Writes the current state as a git commit, and pushes it if the request has a branch. The signal ends the
   * request, but the server may still create the commit.
   *
   * @throws {EngineError} BRANCH_MOVED when the branch has a commit that this session does not build on
   * @throws {EngineError} GIT_PUSH_REJECTED when the remote refuses the push
   *
   * @example
   * const { commitId } = await session.commit({ message: 'Fix it', gitBranch: { branchName: 'fix' } })
   */
  async commit(request: SessionCommitRequest): ReturnType<Session['commit']> {
    const { signal, ...rest } = commitShape.read(request)
    return callsOf(this).call('commit', rest, { signal })
  }

  /**
   * A handle on the same session whose changes belong to a group, such as one turn of a conversation. Their events
   * have the name as `details.group`, and `undo({ by: 'group' })` undoes them together.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the name is empty. The server refuses a name over 1,024 bytes.
   *
   * @example
   * const turn = session.group('turn 7')
   * await turn.files.write({ path: '/a.txt', content: 'one' })
   * await turn.files.write({ path: '/b.txt', content: 'two' })
   * await session.undo({ by: 'group' }) // both files are gone
   */
  group(name: string): RemoteSession {
    const { transport } = callsOf(this)
    return new RemoteSession(transport.withHeaders({ 'forkspace-group': encodeGroup(name) }), this.id)
  }

  /**
   * A handle on the same session whose events carry metadata, such as the id of a tool call. They have it as
   * `details.metadata`. It replaces the metadata of this handle, and keeps its group.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the metadata is not an object. The server refuses metadata over 4 KiB
   * or 8 levels.
   *
   * @example
   * await session.withMetadata({ callId: 'call_7' }).files.write({ path: '/a.txt', content: 'one' })
   * const { events } = await session.events.list()
   * console.log(events.at(-1)?.details['metadata']) // { callId: 'call_7' }
   */
  withMetadata(metadata: JsonObject): RemoteSession {
    const { transport } = callsOf(this)
    return new RemoteSession(
      transport.withHeaders({ 'forkspace-metadata': encodeMetadata(metadata) }),
      this.id,
    )
  }

  /**
   * The changes of files, in batches, from when the server receives the request, or after `afterEventId`. Survives
   * lost connections: it continues after the last batch that it received.
   *
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event.
   * @throws {EngineError} STATE_NOT_KEPT when the state after that event is no longer kept.
   *
   * @example
   * const batches = session.watch({ globs: ['src/**'] })
   * await batches.startsAfter
   * await session.files.write({ path: '/src/b.ts', content: '' })
   * for await (const { changes } of batches) {
   *   for (const { change, path } of changes) console.log(change, path)
   *   break
   * }
   */
  watch(options: ChangeWatchOptions = {}): ChangeWatch {
    return new RemoteWatch(callsOf(this).transport, this.id, options)
  }

  #reference(target: RemoteDiffTarget): StateReference {
    if (target === 'base') return { sessionId: this.id, base: true }
    if (target instanceof RemoteSession) return { sessionId: target.id }
    const reference = stateShape.readPart(target as StateReference, 'against')
    if (Object.keys(reference).length === 0)
      throw invalid(
        'against',
        "must be a session, 'base', or an object with sessionId, checkpointId, checkpointLabel, eventId, time or base",
      )
    reference.sessionId ??= this.id
    return reference
  }
}

/** Renames the operation's field `label` to the library's name. */
function ofLibrary({ label, ...checkpoint }: OperationResponse<'createCheckpoint'>): Checkpoint {
  return { ...checkpoint, checkpointLabel: label }
}

/** The metadata of events as a header has it. */
function encodeMetadata(metadata: unknown): string {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))
    throw invalid('metadata', "must be an object of JSON, such as { callId: 'call_7' }")
  try {
    return encodeURIComponent(JSON.stringify(metadata))
  } catch (error) {
    throw invalid('metadata', `cannot be written as JSON: ${String(error)}`)
  }
}

/** The name of a group as a header has it. */
function encodeGroup(name: unknown): string {
  if (typeof name !== 'string' || name === '' || !name.isWellFormed())
    throw invalid('group', 'must be a string of Unicode that is not empty')
  return encodeURIComponent(name)
}
