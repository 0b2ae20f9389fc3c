import type { JsonObject } from '../base/json-object.js'
import type { PageRequest } from '../base/paging.js'
import type { Health } from '../records/health-report.js'
import type { SessionCounts } from '../services/analytics.js'
import type { BusPublishRequest, BusSubscribeRequest } from '../services/bus/bus-requests.js'
import type { BusSubscription } from '../services/bus/bus-subscription.js'
import type { MergeOptions, RebaseOptions } from '../services/merge/merge-requests.js'
import type { MergeResult } from '../services/merge/merges.js'
import type { CommitSummary } from '../services/sources/commit-summary.js'
import type { SessionCommitRequest } from '../services/sources/commits.js'
import type {
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointListRequest,
  CheckpointPage,
  CheckpointReference,
  PruneRequest,
} from '../session/checkpoints.js'
import type { LineageRequest, SessionLineage } from '../services/merge/session-lineage.js'
import type { SessionEvent } from '../session/history/event-log.js'
import type { Blame, BlameRequest } from '../session/history/blame.js'
import type { ChangeWatch, ChangeWatchOptions } from '../session/history/change-watch.js'
import type { PathHistoryPage, PathHistoryRequest } from '../session/history/path-history.js'
import type { ManifestPage, ManifestRequest } from '../session/reads/manifest.js'
import type { ForkRequest, SessionInfo } from '../session/sessions.js'
import type { Diff } from '../session/diffs/diff.js'
import type { RestoreRequest, RestoreResult } from '../session/restore.js'
import type { StateName, StateReference } from '../session/states.js'
import type { UndoRequest, UndoResult } from '../session/undo.js'
import type { SessionAnnotations } from './annotations.js'
import type { SessionApprovals } from './approvals.js'
import type { SessionCache } from './cache.js'
import type { SessionCommits } from './commits.js'
import type { SessionConflicts } from './conflicts.js'
import type { SessionFileLocks } from './file-locks.js'
import type { SessionFiles } from './files.js'
import type { SessionHealth } from './health.js'
import type { SessionPosixLocks } from './posix-locks.js'
import type { SessionSecrets } from './secrets.js'
import type { SessionText } from './text.js'
import type { SessionView, ViewFiles } from './session-view.js'

/** The public members of a class, which another class can implement too. */
export type PublicOf<Class> = Pick<Class, keyof Class>

/** The activity of a session, from its events. */
export interface SessionAnalytics extends SessionCounts {
  /** The id of the session. */
  readonly sessionId: string
  /** The test status, as `session.health.get()` returns it. */
  readonly lastReportedHealth: Health
}

/** An event. A server does not say which principal caused it. */
export type EventOfApi = Omit<SessionEvent, 'principal'> & Partial<Pick<SessionEvent, 'principal'>>

/** A page of events. */
export interface EventPageOfApi {
  /** Oldest first. */
  readonly events: readonly EventOfApi[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** A view of one state: the members that views of an engine in this process and of a server both have. */
export interface SessionViewApi extends Pick<SessionView, 'sessionId' | 'eventId' | 'manifest'>, Disposable {
  /** The files of the state. */
  readonly files: Pick<ViewFiles, 'contentHash' | 'list' | 'read' | 'readWithHash' | 'stat'>
}

/**
 * A session, of an engine in this process or of a server: the members that both have. `Session` and the client's
 * `RemoteSession` implement it, and describe each member.
 *
 * @example
 * async function addLicense(session: SessionApi, text: string): Promise<void> {
 *   await session.files.write({ path: '/LICENSE', content: text, exclusive: true })
 * }
 */
export interface SessionApi {
  /** The id of the session, unique in the store. */
  readonly id: string
  /** The files, by the operations of the interface. */
  readonly files: PublicOf<SessionFiles>
  /** The files as text: read lines, search, edit, and apply patches. */
  readonly text: PublicOf<SessionText>
  /** Notes on files, for review. */
  readonly annotations: PublicOf<SessionAnnotations>
  /** Requests for a decision. */
  readonly approvals: PublicOf<SessionApprovals>
  /** The git commits that `commit` has made. */
  readonly commits: Omit<PublicOf<SessionCommits>, 'exportBundle'>
  /** The unresolved conflicts of a merge or rebase. */
  readonly conflicts: PublicOf<SessionConflicts>
  /** Keys and values separate from the files. */
  readonly cache: PublicOf<SessionCache>
  /** Locks on paths with a time to live, so that workers change a file in turn. The store holds them. */
  readonly fileLocks: PublicOf<SessionFileLocks>
  /** Locks on ranges and files in the manner of fcntl and flock. Memory holds them. */
  readonly posixLocks: PublicOf<SessionPosixLocks>
  /** The test status of the session, from test reports. */
  readonly health: PublicOf<SessionHealth>
  /** Encrypted values separate from the files. */
  readonly secrets: PublicOf<SessionSecrets>
  /** Messages between the clients of the session. The newest are kept for later subscribers. */
  readonly bus: {
    /**
     * Publishes a message. Errors are those of {@link SessionBus.publish}.
     *
     * @example
     * await session.bus.publish({ topic: 'tests:done', payload: 'ok' })
     */
    publish(request: BusPublishRequest): Promise<unknown>
    /**
     * Messages published after this call. Errors are those of {@link SessionBus.subscribe}.
     *
     * @example
     * for await (const { topic } of session.bus.subscribe({ topicPatterns: ['tests:*'] })) console.log(topic)
     */
    subscribe(request?: BusSubscribeRequest): BusSubscription
  }
  /** The events of the session, as an append-only log. */
  readonly events: AsyncIterable<EventOfApi> & {
    /**
     * A page of the events, oldest first. Errors are those of {@link SessionEvents.list}.
     *
     * @example
     * const { events } = await session.events.list({ pageSize: 100 })
     */
    list(request?: PageRequest): Promise<EventPageOfApi>
  }
  /**
   * Tags, status, times and fingerprint as of now. Errors are those of {@link Session.get}.
   *
   * @example
   * const { status, tags } = await session.get()
   */
  get(): Promise<SessionInfo>
  /**
   * The numbers of operations of the session, counted from its events. Errors are those of {@link Session.analytics}.
   *
   * @example
   * const { lastReportedHealth } = await session.analytics()
   */
  analytics(): Promise<SessionAnalytics>
  /**
   * Resolves when every change made by this handle is acknowledged. Errors are those of {@link Session.flush}.
   *
   * @example
   * await session.flush()
   */
  flush(): Promise<void>
  /**
   * Hides the session at once. Its forks keep all their data. Errors are those of {@link Session.delete}.
   *
   * @example
   * await session.delete()
   */
  delete(): Promise<void>
  /**
   * Creates a session on the current state, or on a checkpoint. Errors are those of {@link Session.fork}.
   *
   * @example
   * const attempt = await session.fork({ newTags: { attempt: '1' } })
   */
  fork(request?: ForkRequest): Promise<SessionApi>
  /**
   * Names the current state. Errors are those of {@link Session.checkpoint}.
   *
   * @example
   * const { id } = await session.checkpoint({ checkpointLabel: 'before' })
   */
  checkpoint(request?: CheckpointCreateRequest): Promise<Checkpoint>
  /**
   * A page of the checkpoints, oldest first. Errors are those of {@link Session.listCheckpoints}.
   *
   * @example
   * const { checkpoints } = await session.listCheckpoints({ pageSize: 10 })
   */
  listCheckpoints(request?: CheckpointListRequest): Promise<CheckpointPage>
  /**
   * Deletes a checkpoint and frees its label. Errors are those of {@link Session.deleteCheckpoint}.
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'old' })
   * await session.deleteCheckpoint({ checkpointLabel: 'old' })
   */
  deleteCheckpoint(request: CheckpointReference): Promise<void>
  /**
   * Deletes all checkpoints but the newest `keepLast`. Errors are those of {@link Session.pruneCheckpoints}.
   *
   * @example
   * const { deletedCount } = await session.pruneCheckpoints({ keepLast: 10 })
   */
  pruneCheckpoints(request: PruneRequest): Promise<{
    /** The number of deleted checkpoints. */
    deletedCount: number
  }>
  /**
   * Changes the files back to an earlier state, or some of them. Errors are those of {@link Session.restore}.
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'start' })
   * await session.restore({ checkpointLabel: 'start' })
   */
  restore(request: RestoreRequest): Promise<RestoreResult>
  /**
   * A read-only view of one state. Errors are those of {@link Session.at}.
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * using view = await session.at({ checkpointLabel: 'before' })
   * const { entries } = await view.files.list({ path: '/' })
   */
  at(reference?: StateName): Promise<SessionViewApi>
  /**
   * Undoes the newest changes of files. Errors are those of {@link Session.undo}.
   *
   * @example
   * const { count } = await session.undo()
   */
  undo(request?: UndoRequest): Promise<UndoResult>
  /**
   * Repeats the changes that were undone last. Errors are those of {@link Session.redo}.
   *
   * @example
   * await session.undo()
   * const { count } = await session.redo()
   */
  redo(request?: UndoRequest): Promise<UndoResult>
  /**
   * A page of the events that changed a path, newest first. Errors are those of {@link Session.history}.
   *
   * @example
   * const { changes } = await session.history({ path: '/src/a.ts' })
   */
  history(request: PathHistoryRequest): Promise<PathHistoryPage>
  /**
   * The events that last changed each line of a text file. Errors are those of {@link Session.blame}.
   *
   * @example
   * const { ranges } = await session.blame({ path: '/src/a.ts' })
   */
  blame(request: BlameRequest): Promise<Blame>
  /**
   * The changes of files, in batches. Errors are those of {@link Session.watch}.
   *
   * @example
   * const batches = session.watch({ globs: ['src/**'] })
   * await batches.startsAfter
   */
  watch(options?: ChangeWatchOptions): ChangeWatch
  /**
   * The relatives of the session. Errors are those of {@link Session.lineage}.
   *
   * @example
   * const { parent, children } = await session.lineage()
   */
  lineage(request?: LineageRequest): Promise<SessionLineage>
  /**
   * A handle whose changes belong to a group. Errors are those of {@link Session.group}.
   *
   * @example
   * const turn = session.group('turn 7')
   */
  group(name: string): SessionApi
  /**
   * A handle whose events carry metadata. Errors are those of {@link Session.withMetadata}.
   *
   * @example
   * const call = session.withMetadata({ callId: 'call_7' })
   */
  withMetadata(metadata: JsonObject): SessionApi
  /**
   * A page of the tree, with a hash of the whole tree. Errors are those of {@link Session.manifest}.
   *
   * @example
   * const { nodes, manifestHash } = await session.manifest()
   */
  manifest(request?: ManifestRequest): Promise<ManifestPage>
  /**
   * The changes from another state to the current state of this session; by default, from its base. Errors are those
   * of {@link Session.diff}.
   *
   * @example
   * for await (const { change, path } of session.diff()) console.log(change, path)
   */
  diff(against?: StateReference | StateName | 'base'): PublicOf<Diff>
  /**
   * Merges the changes of another session into this one, as one event. Errors are those of {@link Session.merge}.
   *
   * @example
   * const attempt = await session.fork()
   * await attempt.files.write({ path: '/b.txt', content: 'two' })
   * const { changes } = await session.merge({ sessionId: attempt.id })
   */
  merge(source: StateReference, options?: Omit<MergeOptions, 'mergers'>): Promise<MergeResult>
  /**
   * Moves the session onto another revision of its source, by default the latest. Errors are those of
   * {@link Session.rebase}.
   *
   * @example
   * const { sourceId } = await engine.sources.create({ displayName: 'docs', uploadedSnapshot: {} })
   * const promotion = await engine.sources.promoteSession(sourceId, { sessionId: session.id, revisionLabel: 'v1' })
   * await engine.sources.waitForJob(promotion)
   * const draft = await engine.sessions.create({ sourceRef: { sourceId } })
   * const { conflicts } = await draft.rebase({ dryRun: true })
   */
  rebase(options?: Omit<RebaseOptions, 'mergers'>): Promise<MergeResult>
  /**
   * Writes the current state as a git commit, and pushes it to a branch. Errors are those of {@link Session.commit}.
   *
   * @example
   * const { commitId } = await session.commit({ message: 'Add a.ts' })
   */
  commit(request: SessionCommitRequest): Promise<{
    /** The id of the git commit, in hex. */
    commitId: string
  }>
  /**
   * A description of the changes since the base of the session, and the changed files. Errors are those of
   * {@link Session.generateCommitSummary}.
   *
   * @example
   * const { summary, changedFiles } = await session.generateCommitSummary()
   */
  generateCommitSummary(): Promise<CommitSummary>
}
