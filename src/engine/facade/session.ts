import type { JsonObject } from '../base/json-object.js'
import { invalid } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import { parseAtCall, Shape } from '../base/shape.js'
import type { Action } from '../operations/index.js'
import type { Dir } from '../tree/node.js'
import { createSessionFs } from '../fs/session-fs.js'
import type { SessionFs } from '../fs/types.js'
import { DraftAccess } from '../session/access/draft-access.js'
import { SessionAccess } from '../session/access/session-access.js'
import { ViewAccess } from '../session/access/view-access.js'
import type { NarrowRequest, Permissions } from '../session/access/permissions.js'
import {
  checkpointShape,
  createCheckpoint,
  deleteCheckpoint,
  listCheckpoints,
  parsePrune,
  parseCheckpointCreate,
  parseCheckpointList,
  pruneCheckpoints,
  type Checkpoint,
  type CheckpointCreateRequest,
  type CheckpointListRequest,
  type CheckpointPage,
  type CheckpointReference,
  type PruneRequest,
} from '../session/checkpoints.js'
import { beforeClose, inBackground, type Core } from '../session/core.js'
import {
  parseLineage,
  readLineage,
  type LineageRequest,
  type SessionLineage,
} from '../services/merge/session-lineage.js'
import { blameFile, parseBlame, type Blame, type BlameRequest } from '../session/history/blame.js'
import {
  parseWatch,
  watchChanges,
  watchedState,
  type ChangeBatch,
  type ChangeWatch,
  type ChangeWatchOptions,
  type ParsedWatch,
  type WatchedState,
} from '../session/history/change-watch.js'
import { eventIdOf } from '../session/history/event-ids.js'
import { marked, type EventMarks } from '../session/history/event-marks.js'
import {
  listPathHistory,
  pathHistoryShape,
  type PathHistoryPage,
  type PathHistoryRequest,
} from '../session/history/path-history.js'
import { forkForDraft } from '../session/drafts.js'
import { openUsed } from '../session/table/expiry.js'
import type { LiveSession, SessionSlot } from '../session/table/live.js'
import {
  manifestShape,
  readManifest,
  type ManifestPage,
  type ManifestRequest,
} from '../session/reads/manifest.js'
import {
  deleteSession,
  type DeletionOptions,
  describeSession,
  forkSession,
  isOfEarlierState,
  parseFork,
  type ForkRequest,
  type SessionInfo,
} from '../session/sessions.js'
import { finalState } from '../session/sharing/when-stored.js'
import {
  diffOf,
  namesUnkeptState,
  positionedState,
  stateIdOf,
  stateNameShape,
  refersToHistory,
  stateFields,
  stateOf,
  stateShape,
  type StateName,
  type StateReference,
} from '../session/states.js'
import type { Diff } from '../session/diffs/diff.js'
import { parseUndo, undoOrRedo, type UndoRequest, type UndoResult } from '../session/undo.js'
import {
  parseRestore,
  restoreActionOf,
  restoreState,
  type RestoreRequest,
  type RestoreResult,
} from '../session/restore.js'
import type { Analytics } from '../services/analytics.js'
import type { Annotations } from '../services/annotations.js'
import type { Approvals } from '../services/approvals.js'
import type { MessageBus } from '../services/bus/bus.js'
import type { CheckoutOptions } from '../services/checkouts/checkout-requests.js'
import type { Checkouts } from '../services/checkouts/checkouts.js'
import { parseBundleOptions, type BundleOptions, type Bundles } from '../services/bundles/bundles.js'
import { summarize, type CommitSummary } from '../services/sources/commit-summary.js'
import type { KeptCommits } from '../services/sources/kept-commits.js'
import type { Repositories } from '../services/sources/repositories.js'
import type { CacheService } from '../services/cache/cache.js'
import { parseCommit, type Commits, type SessionCommitRequest } from '../services/sources/commits.js'
import type { FileLocks } from '../services/locks/file-locks.js'
import type { HealthReports } from '../services/health.js'
import {
  parseMerge,
  parseRebase,
  type MergeOptions,
  type RebaseOptions,
} from '../services/merge/merge-requests.js'
import { applyDraft } from '../services/merge/draft-changes.js'
import type { MergeResult, Merges } from '../services/merge/merges.js'
import type { PosixLocks } from '../services/locks/posix-locks.js'
import type { ExecRequest } from '../services/checkouts/exec-request.js'
import type { Processes } from '../services/checkouts/processes.js'
import type { Secrets } from '../services/secrets/secrets.js'
import type { TreeExports } from '../services/sources/tree-exports.js'
import { SessionAnnotations } from './annotations.js'
import { SessionApprovals } from './approvals.js'
import { SessionCache } from './cache.js'
import { SessionBus } from './bus.js'
import { SessionCommits } from './commits.js'
import { checkOut, type Checkout } from './checkout.js'
import { SessionConflicts } from './conflicts.js'
import { SessionDraft } from './session-draft.js'
import { SessionEvents } from './events.js'
import { execute, type ExecResult } from './exec.js'
import { SessionFileLocks } from './file-locks.js'
import { SessionFiles } from './files.js'
import { SessionHealth } from './health.js'
import { SessionPosixLocks } from './posix-locks.js'
import { SessionRepository } from './repository.js'
import type { SessionAnalytics, SessionApi } from './session-api.js'
import { SessionText } from './text.js'
import { SessionSecrets } from './secrets.js'
import { SessionView } from './session-view.js'

/** The services that a session's handle calls. */
export interface SessionServices {
  readonly analytics: Analytics
  readonly annotations: Annotations
  readonly approvals: Approvals
  readonly cache: CacheService
  readonly bus: MessageBus
  readonly checkouts: Checkouts
  readonly bundles: Bundles
  readonly commits: Commits
  readonly keptCommits: KeptCommits
  readonly exports: TreeExports
  readonly fileLocks: FileLocks
  readonly health: HealthReports
  readonly merges: Merges
  readonly posixLocks: PosixLocks
  readonly processes: Processes
  readonly repositories: Repositories
  readonly secrets: Secrets
}

/** Hides a session, drops its locks in memory, and removes its secrets from the store. */
export async function endSession(core: Core, services: SessionServices, sessionId: string): Promise<void> {
  await endBeforeClose(core, services, sessionId, {})
}

/** Like {@link endSession}, for a session that is expired. Returns false if it was used meanwhile. */
export function expireSession(core: Core, services: SessionServices, sessionId: string): Promise<boolean> {
  return endBeforeClose(core, services, sessionId, { runs: limits.sharedChangeRuns, onlyExpired: true })
}

/** `close()` waits for the deletion of the session, and of the records of its secrets after it. */
function endBeforeClose(
  core: Core,
  services: SessionServices,
  sessionId: string,
  options: DeletionOptions,
): Promise<boolean> {
  const ended = endWithSecrets(core, services, sessionId, options)
  beforeClose(core, ended)
  return ended
}

async function endWithSecrets(
  core: Core,
  services: SessionServices,
  sessionId: string,
  options: DeletionOptions,
): Promise<boolean> {
  if (core.fence.closed) await core.fence.recover()
  if (!(await deleteSession(core, sessionId, options))) return false
  services.posixLocks.forget(sessionId)
  await services.secrets.forget(core, sessionId)
  return true
}

/** A state of the session, its newest by default, and a directory in it. */
export interface SessionExportRequest extends Omit<StateReference, 'sessionId'> {
  /** Absolute path of a directory in the state, such as `/src`; `/` by default. */
  readonly path?: string
}

const exportShape = new Shape<SessionExportRequest>({ ...stateFields, path: true })

/** The other side of `session.diff`: another session's handle, a state by name, or the base of this session. */
export type DiffTarget = Session | StateReference | StateName | 'base'

let repository: (session: Session) => SessionRepository
let describe: (session: Session) => Promise<SessionInfo>
let open: (session: Session, action: Action, reference: StateName) => Promise<SessionView>

/** Information about a handle's session, for the caller that just created it and may lack the right to read it. */
export function describeHandle(session: Session): Promise<SessionInfo> {
  return describe(session)
}

/** The session as a git repository, for the adapter that serves it. */
export function repositoryOf(session: Session): SessionRepository {
  return repository(session)
}

/** Opens a view as a part of another operation, with its permissions. */
export function viewOf(session: Session, action: Action, reference: StateName): Promise<SessionView> {
  return open(session, action, reference)
}

/**
 * A handle on one session. Handles are cheap and stateless: several of one session are the same session. Every method
 * fails with SESSION_NOT_FOUND once the session was deleted, with PERMISSION_DENIED when the caller may not do this,
 * and with STORE_CLOSED after the engine was closed.
 */
export class Session implements SessionApi {
  /** The id of the session, unique in the store. */
  readonly id: string
  /** Its id is the one that counts: callers can assign to `id`. */
  readonly #access: SessionAccess
  readonly #services: SessionServices
  readonly #permissions: Permissions

  static {
    open = (session, action, reference) => session.#view(action, reference)
    repository = (session) => new SessionRepository(session.#access, session.#services.repositories)
    describe = async (session) => describeSession(await session.#access.known(), session.#permissions)
  }

  #annotations: SessionAnnotations | undefined
  #approvals: SessionApprovals | undefined
  #cache: SessionCache | undefined
  #bus: SessionBus | undefined
  #commits: SessionCommits | undefined
  #conflicts: SessionConflicts | undefined
  #events: SessionEvents | undefined
  #files: SessionFiles | undefined
  #fileLocks: SessionFileLocks | undefined
  #health: SessionHealth | undefined
  #posixLocks: SessionPosixLocks | undefined
  #secrets: SessionSecrets | undefined
  #text: SessionText | undefined
  #fs: SessionFs | undefined

  /** @internal */
  constructor(core: Core, slot: SessionSlot, services: SessionServices, permissions: Permissions) {
    this.id = slot.id
    this.#access = new SessionAccess(core, slot, permissions.open ? undefined : permissions)
    this.#permissions = permissions
    this.#services = services
  }

  /** The files, by the operations of the interface. */
  get files(): SessionFiles {
    return (this.#files ??= new SessionFiles(this.#access))
  }

  /** The files as text: read lines, search, edit, and apply patches. */
  get text(): SessionText {
    return (this.#text ??= new SessionText(this.#access))
  }

  /** The events of the session, as an append-only log. */
  get events(): SessionEvents {
    return (this.#events ??= new SessionEvents(this.#access))
  }

  /** The files in the shape of `node:fs`, in all its forms. The view is created on first use. */
  get fs(): SessionFs {
    return (this.#fs ??= createSessionFs(this.#access))
  }

  /**
   * Resolves when every change made by this handle is acknowledged. On a store without synchronous commits, the
   * changes of synchronous calls of `session.fs` are durable only then. Rejects when one of their commits failed.
   *
   * @throws {EngineError} STORE_FAILED when a write failed.
   * @throws {EngineError} STORE_CLOSED after the engine was closed.
   * @throws {EngineError} SESSION_NOT_FOUND after the session was deleted.
   *
   * @example
   * session.fs.writeFileSync('/a.txt', 'one')
   * await session.flush()
   */
  flush(): Promise<void> {
    return this.#access.flush()
  }

  /** Notes on files, for review. */
  get annotations(): SessionAnnotations {
    return (this.#annotations ??= new SessionAnnotations(this.#access, this.#services.annotations))
  }

  /** The unresolved conflicts of a merge or rebase. */
  get conflicts(): SessionConflicts {
    return (this.#conflicts ??= new SessionConflicts(this.#access, this.#services.merges))
  }

  /** Requests for a decision. */
  get approvals(): SessionApprovals {
    return (this.#approvals ??= new SessionApprovals(this.#access, this.#services.approvals))
  }

  /** Keys and values separate from the files. */
  get cache(): SessionCache {
    return (this.#cache ??= new SessionCache(this.#access, this.#services.cache))
  }

  /** The git commits that `commit` has made. */
  get commits(): SessionCommits {
    return (this.#commits ??= new SessionCommits(this.#access, this.#services.keptCommits))
  }

  /** Messages between the clients of the session. The newest are kept for later subscribers. */
  get bus(): SessionBus {
    return (this.#bus ??= new SessionBus(this.#access, this.#services.bus))
  }

  /** Locks on ranges and files in the manner of fcntl and flock. Memory holds them. */
  get posixLocks(): SessionPosixLocks {
    return (this.#posixLocks ??= new SessionPosixLocks(this.#access, this.#services.posixLocks))
  }

  /** Locks on paths with a time to live, so that workers change a file in turn. The store holds them. */
  get fileLocks(): SessionFileLocks {
    return (this.#fileLocks ??= new SessionFileLocks(this.#access, this.#services.fileLocks))
  }

  /** The test status of the session, from test reports. */
  get health(): SessionHealth {
    return (this.#health ??= new SessionHealth(this.#access, this.#services.health))
  }

  /** Encrypted values separate from the files. */
  get secrets(): SessionSecrets {
    return (this.#secrets ??= new SessionSecrets(this.#access, this.#services.secrets))
  }

  /**
   * A handle on the same session with fewer rights. It, and every handle made from it, rejects operations that need
   * one of the capabilities in `without` with PERMISSION_DENIED.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a capability is unknown.
   *
   * @example
   * const forAgent = session.narrow({ without: ['approvals.decide', 'locks.force', 'commit', 'promote'] })
   */
  narrow(request: NarrowRequest): Session {
    const permissions = this.#permissions.without(request)
    return new Session(this.#access.core, this.#access.slot, this.#services, permissions)
  }

  /**
   * Tags, status, times and fingerprint as of now.
   *
   * @example
   * const { status, tags } = await session.get()
   */
  get(): Promise<SessionInfo> {
    return this.#access.run('getSession', (live) => Promise.resolve(describeSession(live, this.#permissions)))
  }

  /**
   * The numbers of operations of the session, counted from its events, also after the engine was opened again. A fork
   * starts from zero.
   *
   * @example
   * const { lastReportedHealth } = await session.analytics()
   */
  analytics(): Promise<SessionAnalytics> {
    // Watching a session does not count as using it.
    return this.#access.run('getAnalytics', async (live) => ({
      sessionId: this.#access.sessionId,
      ...(await this.#services.analytics.counts(this.#access.core, live)),
      lastReportedHealth: (await this.#services.health.get(this.#access.core, live)).health,
    }))
  }

  /**
   * Hides the session at once. Its forks keep all their data. The next `engine.collect()` frees the space.
   *
   * @example
   * await session.delete()
   */
  delete(): Promise<void> {
    return this.#access.traced('deleteSession', () => {
      this.#access.permit('deleteSession')
      return endSession(this.#access.core, this.#services, this.#access.sessionId)
    })
  }

  /**
   * Creates a session on the current state, or on an earlier one. It takes microseconds for a tree of any size. Neither
   * session sees later changes of the other.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the session has no checkpoint with this id or label.
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event, or did not exist at this time.
   * @throws {EngineError} STATE_NOT_KEPT when the state is no longer kept.
   * @throws {EngineError} INVALID_ARGUMENT when a tag has the wrong form.
   * @throws {EngineError} TOO_LARGE when there would be over 64 tags, or a tag or the metadata is too large.
   *
   * @example
   * const attempt = await session.fork({ newTags: { attempt: '1' }, metadata: { turn: 3 } })
   */
  async fork(request: ForkRequest = {}): Promise<Session> {
    const copy = parseFork(request)
    const { core } = this.#access
    const live = await this.#access.run('forkSession', (parent) => {
      if (isOfEarlierState(copy)) this.#access.permitWhen('forkSession', 'checkpoint')
      return forkSession(core, parent, copy)
    })
    return new Session(core, live.slot, this.#services, this.#permissions)
  }

  /**
   * Names the current state, at the same cost for a tree of any size.
   *
   * @throws {EngineError} ALREADY_EXISTS when the session has a checkpoint with this label.
   * @throws {EngineError} INVALID_ARGUMENT when the metadata is not an object of JSON.
   * @throws {EngineError} TOO_LARGE when the label is over 1,024 bytes, or the metadata over 4 KiB or 8 levels.
   *
   * @example
   * const { id } = await session.checkpoint({ checkpointLabel: 'before', metadata: { turn: 3 } })
   */
  async checkpoint(request: CheckpointCreateRequest = {}): Promise<Checkpoint> {
    const copy = parseCheckpointCreate(request)
    return this.#access.run('createCheckpoint', (live) => createCheckpoint(this.#access.core, live, copy))
  }

  /**
   * A page of the checkpoints, oldest first.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { checkpoints } = await session.listCheckpoints({ metadata: { turn: 3 }, pageSize: 10 })
   */
  async listCheckpoints(request: CheckpointListRequest = {}): Promise<CheckpointPage> {
    const copy = parseCheckpointList(request)
    return this.#access.run('listCheckpoints', (live) => listCheckpoints(this.#access.core, live, copy))
  }

  /**
   * Deletes a checkpoint and frees its label. Files, events and forks stay as they are. The next `engine.collect()`
   * frees data that only the checkpoint referred to.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the session has no checkpoint with this id or label.
   *
   * @example
   * await session.checkpoint({ checkpointLabel: 'before' })
   * await session.deleteCheckpoint({ checkpointLabel: 'before' })
   */
  async deleteCheckpoint(request: CheckpointReference): Promise<void> {
    const reference = checkpointShape.read(request)
    return this.#access.run('deleteCheckpoint', (live) =>
      deleteCheckpoint(this.#access.core, live, reference),
    )
  }

  /**
   * Deletes all checkpoints but the newest `keepLast`, whether they have a label or not.
   *
   * @throws {EngineError} INVALID_ARGUMENT when `keepLast` is not a whole number from 0.
   *
   * @example
   * await session.checkpoint()
   * const { deletedCount } = await session.pruneCheckpoints({ keepLast: 10 })
   */
  async pruneCheckpoints(request: PruneRequest): Promise<{
    /** The number of deleted checkpoints. */
    deletedCount: number
  }> {
    const keepLast = parsePrune(request)
    return this.#access.run('deleteCheckpoint', (live) => pruneCheckpoints(this.#access.core, live, keepLast))
  }

  /**
   * Changes the files back to an earlier state, or with `paths` some of them. The history continues, so that another
   * restore, or an undo, can undo it. `dryRun` changes nothing, and lists the paths that would change.
   *
   * A restore of the whole tree costs the same for a tree of any size, and brings back inode numbers. A restore of
   * paths costs as much as the differences, and creates missing files anew.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the session has no checkpoint with this id or label.
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event, or did not exist at this time.
   * @throws {EngineError} STATE_NOT_KEPT when the state is no longer kept.
   * @throws {EngineError} PATH_NOT_FOUND when neither state has one of the paths.
   * @throws {EngineError} NOT_A_DIRECTORY when a file is in the place of a parent of a path.
   * @throws {EngineError} TOO_LARGE when a restore of paths has over 100,000 effects.
   *
   * @example
   * await session.files.write({ path: '/a.txt', content: 'one' })
   * await session.checkpoint({ checkpointLabel: 'start' })
   * await session.files.write({ path: '/a.txt', content: 'two' })
   * await session.restore({ from: { checkpointLabel: 'start' }, paths: ['/a.txt'] })
   * await session.restore({ checkpointLabel: 'start' })
   */
  async restore(request: RestoreRequest): Promise<RestoreResult> {
    const parsed = parseRestore(request)
    return this.#access.run(restoreActionOf(parsed), async (live) => {
      const preview = await restoreState(this.#access.core, live, parsed)
      return { ...describeSession(live, this.#permissions), ...preview }
    })
  }

  /**
   * A private copy of the current state, for changes that belong together, such as those of one command. It costs the
   * same for a tree of any size. `draft.commit()` applies the changes as one event, or none of them.
   *
   * Until the draft is disposed of, listings have a session with the metadata `{ draftOf: session.id }`. After a crash
   * of the process, it is deleted when it was not used for an hour.
   *
   * @throws {EngineError} PERMISSION_DENIED when this handle may not change files.
   *
   * @example
   * await using draft = await session.draft()
   * draft.fs.writeFileSync('/a.txt', 'one')
   * draft.fs.writeFileSync('/b.txt', 'two')
   * const { eventId } = await draft.commit()
   */
  draft(): Promise<SessionDraft> {
    const { core } = this.#access
    return this.#access.look('applyBatch', async (live) => {
      const { live: fork, stored } = await forkForDraft(core, live)
      const base = fork.tree.freeze()
      const [, seq] = present(fork.record.base, 'the base of a fork')
      const access = new DraftAccess(this.#access, fork)
      const pin = core.pins.pin({ roots: [base], owner: access })
      // A failure of the store also fails the commit of the draft.
      stored.catch(() => undefined)
      return new SessionDraft({
        access,
        sessionId: this.#access.sessionId,
        eventId: eventIdOf(this.#access.sessionId, seq),
        commit: () => {
          access.close()
          return this.#access.run('applyBatch', async (target) => {
            const changed = await access.known()
            if (changed.tail !== undefined) await changed.tail
            return this.#access.whileUsed(applyDraft(core, target, { base, draft: changed.tree.freeze() }))
          })
        },
        end: () => {
          pin[Symbol.dispose]()
          inBackground(core, endSession(core, this.#services, fork.id))
        },
      })
    })
  }

  /**
   * A read-only view of one state: after an event, at a time, or at a checkpoint; without a reference, the current
   * state. It costs the same for a tree of any size.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the session has no such checkpoint.
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event, or did not exist at this time.
   * @throws {EngineError} STATE_NOT_KEPT when the state is no longer kept.
   *
   * @example
   * using view = await session.at({ time: new Date().toISOString() })
   * const { entries } = await view.files.list({ path: '/src' })
   */
  async at(reference: StateName = {}): Promise<SessionView> {
    return this.#view('resolveState', stateNameShape.read(reference, 'reference'))
  }

  #view(action: Action, reference: StateName): Promise<SessionView> {
    const copy = stateNameShape.read(reference, 'at')
    const { core } = this.#access
    const permissions = this.#permissions.open ? undefined : this.#permissions
    return this.#access.look(action, async (live) => {
      if (refersToHistory(copy)) this.#access.permitWhen(action, 'checkpoint')
      const state = await positionedState(core, live, copy)
      const access = new ViewAccess(core, live, state.root, permissions)
      return new SessionView({
        access,
        sessionId: this.#access.sessionId,
        eventId: stateIdOf(live, state),
        compared: (against) => this.#compared(against as DiffTarget),
        pin: core.pins.pin({ roots: [state.root], owner: access.held }),
      })
    })
  }

  /**
   * Undoes the newest changes of files, as one event, by whichever interface they were made. Events without changes
   * of files, such as checkpoints and annotations, are skipped. The changes before a fork are those of its parent, and
   * are not undone. A rebase and the changes before it are not undone either, because the session has another base since
   * then. If there is nothing to undo, the count is 0 and there is no event.
   *
   * @throws {EngineError} STATE_NOT_KEPT when the state before the changes is no longer kept.
   * @throws {EngineError} UNRESOLVED_CONFLICTS when the session has conflicts of a merge.
   *
   * @example
   * session.fs.writeFileSync('/a.txt', 'one')
   * const { count } = await session.undo() // 1: the file is gone
   * await session.redo()
   */
  async undo(request: UndoRequest = {}): Promise<UndoResult> {
    const parsed = parseUndo(request)
    return this.#access.run('undo', (live) => undoOrRedo(this.#access.core, live, 'undo', parsed))
  }

  /**
   * Repeats the changes that were undone last, as one event. A new change of files after an undo ends this: the count
   * is then 0.
   *
   * @throws {EngineError} STATE_NOT_KEPT when the state after the changes is no longer kept.
   * @throws {EngineError} UNRESOLVED_CONFLICTS when the session has conflicts of a merge.
   *
   * @example
   * await session.files.write({ path: '/a.txt', content: 'one' })
   * await session.undo()
   * const { changes } = await session.redo({ dryRun: true })
   */
  async redo(request: UndoRequest = {}): Promise<UndoResult> {
    const parsed = parseUndo(request)
    return this.#access.run('redo', (live) => undoOrRedo(this.#access.core, live, 'redo', parsed))
  }

  /**
   * The changes of files from this call on, or after `afterEventId`, in batches. A batch has the differences between
   * two states, whichever interface made them: a file that was added and removed in between is left out. It has at
   * most 1,000 changes. Of a larger one, each part but the last has the `eventId` of the batch before.
   *
   * No change is missed, and a slow reader gets fewer batches, with more changes. Ends when the session is deleted or
   * the engine closed, and fails with the signal's reason.
   *
   * @throws {EngineError} INVALID_ARGUMENT when `afterEventId` is not of this session.
   * @throws {EngineError} EVENT_NOT_FOUND when the session has no such event.
   * @throws {EngineError} STATE_NOT_KEPT when the state after that event is no longer kept.
   * @throws {EngineError} STORE_FAILED when a write failed.
   *
   * @example
   * const batches = session.watch({ globs: ['/src/**'] })
   * await session.files.write({ path: '/src/b.ts', content: '' })
   * for await (const { changes } of batches) {
   *   for (const { change, path } of changes) console.log(change, path)
   *   break
   * }
   */
  watch(options: ChangeWatchOptions = {}): ChangeWatch {
    const { core } = this.#access
    const parsed = parseAtCall(() => parseWatch(options))
    // Does not await where the session is loaded, so that the changes right after the call are reported.
    const start = (async () => {
      const request = parsed()
      const opened = this.#access.live('watchChanges')
      return watchedState(core, opened instanceof Promise ? await opened : opened, request)
    })()
    const startsAfter = start.then(({ seq }) => eventIdOf(this.#access.sessionId, seq))
    // The reader of the batches gets the error.
    startsAfter.catch(() => undefined)
    return Object.assign(this.#watch(parsed, start), { startsAfter })
  }

  async *#watch(
    parsed: () => ParsedWatch,
    start: Promise<WatchedState>,
  ): AsyncGenerator<ChangeBatch, undefined, undefined> {
    const state = await start
    const live = await this.#access.live('watchChanges')
    return yield* watchChanges(this.#access.core, live, state, parsed())
  }

  /**
   * A page of the events that changed a path, newest first: its content, mode, attributes or existence. The history
   * follows renames, also of directories above the path.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { changes } = await session.history({ path: '/src/a.ts' })
   * for (const { timestamp, principal, change } of changes) console.log(timestamp, principal, change)
   */
  async history(request: PathHistoryRequest): Promise<PathHistoryPage> {
    const copy = pathHistoryShape.read(request)
    return this.#access.look('listPathHistory', (live) => listPathHistory(this.#access.core, live, copy))
  }

  /**
   * The event, time and principal that last changed each line of a text file. Lines that an undo or restore brought
   * back keep their original event. The lines that the session started with have none.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} INVALID_ARGUMENT when the file is binary.
   * @throws {EngineError} TOO_LARGE when the file is over 16 MiB.
   * @throws {EngineError} STATE_NOT_KEPT when the state is no longer kept.
   *
   * @example
   * const { ranges } = await session.blame({ path: '/src/a.ts' })
   * for (const { startLine, lineCount, principal } of ranges) console.log(startLine, lineCount, principal)
   */
  async blame(request: BlameRequest): Promise<Blame> {
    const parsed = parseBlame(request)
    return this.#access.look('blame', (live) => blameFile(this.#access.core, live, parsed))
  }

  /**
   * The relatives of the session: the parent that it was forked from, a page of its own forks, and with `with` the
   * newest common ancestors with another session.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session has the id `with`.
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const fork = await session.fork()
   * const { parent } = await fork.lineage() // parent?.sessionId === session.id
   * const { commonAncestors } = await session.lineage({ with: fork.id })
   */
  async lineage(request: LineageRequest = {}): Promise<SessionLineage> {
    const copy = parseLineage(request)
    return this.#access.look('getLineage', (live) => {
      if (copy.with !== undefined) this.#permissions.check('getLineage', { sessionId: copy.with })
      return readLineage(this.#access.core, live, copy)
    })
  }

  /**
   * A handle on the same session whose changes belong to a group, such as one turn of a conversation. Their events
   * have the name as `details.group`, and `undo({ by: 'group' })` undoes them together.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the name is empty.
   * @throws {EngineError} TOO_LARGE when the name is over 1,024 bytes.
   *
   * @example
   * const turn = session.group('turn 7')
   * await turn.files.write({ path: '/a.txt', content: 'one' })
   * turn.fs.writeFileSync('/b.txt', 'two')
   * await session.undo({ by: 'group' }) // both files are gone
   */
  group(name: string): Session {
    return this.#marked({ group: name })
  }

  /**
   * A handle on the same session whose events carry metadata, such as the id of a tool call. They have it as
   * `details.metadata`. It replaces the metadata of this handle, and keeps its group.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the metadata is not an object of JSON.
   * @throws {EngineError} TOO_LARGE when the metadata is over 4 KiB or 8 levels.
   *
   * @example
   * await session.withMetadata({ callId: 'call_7' }).files.write({ path: '/a.txt', content: 'one' })
   * const { events } = await session.events.list()
   * console.log(events.at(-1)?.details['metadata']) // { callId: 'call_7' }
   */
  withMetadata(metadata: JsonObject): Session {
    return this.#marked({ metadata })
  }

  #marked(marks: EventMarks): Session {
    const { core, slot } = this.#access
    return new Session(marked(core, marks), slot, this.#services, this.#permissions)
  }

  /**
   * A page of the tree. Its `manifestHash` identifies the state of the whole tree.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * const { nodes, manifestHash } = await session.manifest({ pathPrefix: '/src/' })
   */
  async manifest(request: ManifestRequest = {}): Promise<ManifestPage> {
    const copy = manifestShape.read(request)
    return this.#access.look('getManifest', ({ tree }) =>
      readManifest(this.#access.core, tree.freeze(), copy),
    )
  }

  /**
   * The changes from another state to the current state of this session; by default, from its base. Both states are
   * those of the call. An invalid argument fails at the first read.
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  diff(against: DiffTarget = 'base'): Diff {
    const { core } = this.#access
    return diffOf(
      core,
      () => this.#compared(against),
      () => ({ sessionId: this.#access.sessionId }),
    )
  }

  /**
   * A state as a tar with pax headers: with permission bits, times in seconds, extended attributes, symlinks and hard
   * links. Binary attributes are in base64, as in libarchive. The same tree gives the same bytes. The state is that
   * of the call, also for a later read. The tar has every name, such as `.git`: unpack it where no git runs, or check
   * the names first.
   *
   * Each iteration writes the tar anew. Collections therefore keep the state until the garbage collector of
   * JavaScript has removed the result. Drop your references to it when you need no further iteration. An invalid
   * request fails at the first read.
   *
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the session has no checkpoint with this id or label.
   * @throws {EngineError} PATH_NOT_FOUND when the directory does not exist.
   * @throws {EngineError} NOT_A_DIRECTORY when the path is not a directory.
   *
   * @example
   * import { createWriteStream } from 'node:fs'
   * import { pipeline } from 'node:stream/promises'
   *
   * await pipeline(session.exportTar({ path: '/src' }), createWriteStream('src.tar'))
   */
  exportTar(request: SessionExportRequest = {}): AsyncIterable<Uint8Array> {
    const { core } = this.#access
    let directory: string | undefined
    // An invalid request fails at the first read of the tar.
    const opened = async (): Promise<Dir> => {
      const { path, ...reference } = exportShape.read(request)
      directory = path
      return this.#access.look('exportTar', async (live) => {
        if (refersToHistory(reference)) this.#access.permitWhen('exportTar', 'checkpoint')
        return stateOf(core, live, reference)
      })
    }
    const state = opened()
    return this.#services.exports.tar(core, state, directory)
  }

  /**
   * Writes the session to a directory of the host, at or below one of `hostPaths.roots`. The first time the directory
   * must be missing or empty. Later calls write only the differences from the last time, also after another session
   * was written there or the engine was opened again. With `force` they overwrite changes in the directory, and keep
   * files that no session wrote unless those are in the way.
   *
   * @throws {EngineError} CHECKOUT_MODIFIED when the directory has other files the first time, or a path that differs
   * was changed there since, without `force`. Nothing changed.
   * @throws {EngineError} ALREADY_EXISTS when the session has a path of `sharedDirectories`. Nothing changed.
   * @throws {EngineError} UNSAFE_PATH when the session has a path that git commits refuse, such as `/.git/config`,
   * unless the engine has `allowGitNames`. Nothing changed.
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED when a directory is outside `hostPaths.roots`.
   * @throws {EngineError} HOST_FAILED when the file system of the host returned an error.
   *
   * @example
   * const checkout = await session.checkout('/work/build')
   * const { added, modified, removed } = await checkout.sync()
   */
  checkout(directory: string, options?: CheckoutOptions): Promise<Checkout> {
    return checkOut(this.#access, this.#services.checkouts, directory, options)
  }

  /**
   * Runs a command of the host on the files of the session, and brings its changes back as one event, or none. The
   * engine needs the option `exec`. The command runs in a checkout in `exec.directory`, which later commands of the
   * session use again, with the rights of this process: it is not a sandbox. Commands of one session run one after the
   * other. Its changes come back whatever its exit code is, and also after a timeout. An abort leaves the session as
   * it is.
   *
   * When the command has ended, processes that it left in its process group are killed.
   *
   * @throws {EngineError} PERMISSION_DENIED when the engine has no option `exec`.
   * @throws {EngineError} PATH_NOT_FOUND when `cwd` is no directory.
   * @throws {EngineError} HOST_FAILED when the host cannot start the command, or its file system returned an error.
   * @throws {EngineError} UNSAFE_PATH when the session has, or the command wrote, a name such as `.git`, unless the
   * engine has `allowGitNames`. The session did not change.
   * @throws {EngineError} LIMIT_EXCEEDED when the command changed over 100,000 paths, or 100 earlier ones conflicted.
   *
   * @example
   * const { exitCode, stdout, changes } = await session.exec({ command: 'node', args: ['build.js'] })
   * console.log(exitCode, Buffer.from(stdout).toString(), changes.added)
   */
  exec(request: ExecRequest): Promise<ExecResult> {
    return execute(this.#access, this.#services, request)
  }

  /**
   * The session with its history as one file in the CAR format (CARv1): its events with their links, its base, its
   * newest state, every checkpoint with its state, tags, annotations, and decided approvals. The bundle has no cache,
   * secrets, messages, locks, test reports or commits. `sessions.importBundle` creates a session from it, here or
   * elsewhere. Sessions that do not differ in any of this give the same bytes.
   *
   * The bundle has the session as of the call, despite later deletions and collections. Reading takes bounded memory,
   * apart from a note for each directory and content. Read all bytes, or leave the loop: until then nothing of it is
   * freed. The call needs the right to fork and to see the whole log. The bundle has annotations and approvals if the
   * handle may list them.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when the session is deleted meanwhile, on a storage that is not durable.
   * @throws {EngineError} LIMIT_EXCEEDED when a part is too large for a bundle, such as one event over 16 MiB.
   *
   * @example
   * import { createWriteStream } from 'node:fs'
   * import { pipeline } from 'node:stream/promises'
   *
   * await pipeline(session.exportBundle(), createWriteStream('session.car'))
   */
  exportBundle(options: BundleOptions = {}): AsyncIterable<Uint8Array> {
    const { core } = this.#access
    const parsed = parseAtCall(() => parseBundleOptions(options))
    const opened = this.#access.look('exportBundle', async (live) => {
      const { signal } = parsed()
      for (const part of ['getManifest', 'listEvents'] as const) this.#access.permit(part)
      const allowed = (action: Action): boolean => this.#access.allows(action)
      return this.#services.bundles.export(core, live, allowed, signal === undefined ? {} : { signal })
    })
    // The reader of the bundle gets the error.
    opened.catch(() => undefined)
    return this.#reading(opened)
  }

  /** Counts each read piece as use, so that the session does not expire before the last one. */
  async *#reading(pieces: Promise<AsyncIterable<Uint8Array>>): AsyncGenerator<Uint8Array, void> {
    for await (const piece of await pieces) {
      this.#access.stayUsed()
      yield piece
    }
  }

  /**
   * Writes the current state as a git commit on top of the imported one. With a branch it also pushes the commit, as
   * a fast-forward. When the last commit of the session on the branch has the same files, and the remote branch is
   * still there, the call returns the id of that commit; `allowEmpty` creates another one.
   *
   * @throws {EngineError} BRANCH_MOVED when the branch has a commit that the session does not build on. Nothing was
   * pushed.
   * @throws {EngineError} GIT_PUSH_REJECTED when the remote refused the push.
   * @throws {EngineError} GIT_AUTH_REQUIRED when the remote asks for credentials and `git.credentials` returned none.
   * @throws {EngineError} GIT_AUTH_FAILED when the remote refused the credentials.
   * @throws {EngineError} GIT_UNREACHABLE when the remote does not answer.
   * @throws {EngineError} GIT_TIMEOUT when the remote sent nothing for too long.
   * @throws {EngineError} GIT_REMOTE_ERROR when the remote answered with an error.
   * @throws {EngineError} GIT_REPO_NOT_FOUND when the address or path of the remote does not exist.
   * @throws {EngineError} GIT_NOT_A_REPOSITORY when there is no git repository at the address or path.
   * @throws {EngineError} GIT_ADDRESS_REFUSED when the remote is local, unless the engine has
   * `git.allowPrivateAddresses`.
   * @throws {EngineError} GIT_TOO_LARGE when the repository is over a limit.
   * @throws {EngineError} GIT_CORRUPT when the remote sent damaged objects.
   * @throws {EngineError} GIT_UNSAFE_PATH when the session has a name that git refuses, such as `.git`.
   * @throws {EngineError} DEADLINE_EXCEEDED when it took longer than `imports.deadlineSeconds`.
   * @throws {EngineError} INVALID_ARGUMENT when the message is empty, or the branch name is not valid in git.
   *
   * @example
   * const { commitId } = await session.commit({ message: 'Add a.ts', gitBranch: { branchName: 'main' } })
   */
  async commit(request: SessionCommitRequest): Promise<{
    /** The id of the git commit, in hex. */
    commitId: string
  }> {
    const { core } = this.#access
    const commit = parseCommit(core.principal, request)
    return this.#access.run('commit', (live) =>
      this.#access.whileUsed(this.#services.commits.commit(core, live, commit)),
    )
  }

  /**
   * A description of the changes since the base of the session, made from the paths alone, and the changed files. It
   * can be the details of a request for an approval.
   *
   * @example
   * const { summary, changedFiles } = await session.generateCommitSummary()
   */
  generateCommitSummary(): Promise<CommitSummary> {
    return this.#access.look('generateCommitSummary', ({ baseline, tree }) =>
      summarize(this.#access.core, baseline, tree.freeze()),
    )
  }

  /**
   * Merges the changes of another session into this one, as one event: those since the newest common ancestor of both.
   * Files that only one side changed are taken whole, without reading or copying them. Text that both changed is merged
   * by lines, as in git. Permission bits, symlinks, extended attributes and renames of unchanged files merge too.
   *
   * A conflict keeps our content and is listed in `session.conflicts` until it is resolved, unless one of the `policies`
   * decides it. The time is proportional to the changes of both sides.
   *
   * @throws {EngineError} NO_COMMON_ANCESTOR when neither session is a fork of the other, they are not forks of one
   * session, and did not start from the same files.
   * @throws {EngineError} MERGE_BASE_GONE when the common ancestor is no longer stored.
   * @throws {EngineError} MERGE_CONFLICT when a path with the policy `fail` has a conflict. Nothing changed.
   * @throws {EngineError} UNRESOLVED_CONFLICTS when this session has conflicts of an earlier merge.
   * @throws {EngineError} MERGE_TARGET_MOVED when this session is not at `expectedEventId`, or kept changing.
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when the source has no checkpoint with this id or label.
   * @throws {EngineError} LIMIT_EXCEEDED when both sides changed over 1,000,000 paths, or over 2,000 conflict.
   *
   * @example
   * const attempt = await session.fork()
   * await attempt.files.write({ path: '/b.txt', content: 'two' })
   * const { changes, conflicts } = await session.merge(attempt)
   */
  merge(source: Session | StateReference, options: MergeOptions = {}): Promise<MergeResult> {
    const { core } = this.#access
    const parsed = parseAtCall(() => ({
      reference: this.#mergeReference(source),
      request: parseMerge(options),
    }))
    const mergeInto = async (live: LiveSession): Promise<MergeResult> => {
      const { reference, request } = parsed()
      const { sessionId, ...state } = reference
      if (refersToHistory(state)) this.#access.permitWhen('mergeSession', 'checkpoint')
      if (sessionId !== this.#access.sessionId) {
        this.#permissions.check('mergeSession', { sessionId })
        if (Session.#is(source)) source.#permissions.mustHave('files.read', 'mergeSession')
        else this.#access.permitWhen('mergeSession', 'otherSession')
      }
      const other = sessionId === this.#access.sessionId ? live : await openUsed(core, sessionId)
      // Without a reference, the state is that after the changes called before.
      if (!refersToHistory(state) && other.tail !== undefined) await other.tail
      using _ = core.pins.pin(namesUnkeptState(state) ? { revisits: sessionId } : {})
      if (namesUnkeptState(state)) await core.pins.historyRemoved(sessionId)
      const { fingerprint } = other.record.baseline
      const isNewest = !refersToHistory(state) && state.base !== true
      const final =
        isNewest && other.shared !== undefined ? await finalState(core.pins, other, other.shared) : undefined
      const { root, seq } = final ?? (await positionedState(core, other, state))
      return await this.#services.merges.merge(core, live, { sessionId, fingerprint, root, seq }, request)
    }
    return this.#access.run('mergeSession', (live) => this.#access.whileUsed(mergeInto(live)))
  }

  /**
   * Moves the session onto another revision of its source, by default the latest: merges the changes between its base
   * and that revision, as one event. The revision becomes the base of the session, and the next commit builds on it.
   * After BRANCH_MOVED, refresh the source, rebase, and commit again. Options and conflicts are those of `merge`.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when the session did not start from a source.
   * @throws {EngineError} REVISION_NOT_FOUND when the source has no revision with this id or label.
   * @throws {EngineError} SOURCE_WITHOUT_REVISION when the source has no revision.
   * @throws {EngineError} MERGE_CONFLICT when a path with the policy `fail` has a conflict. Nothing changed.
   * @throws {EngineError} UNRESOLVED_CONFLICTS when the session has conflicts of an earlier merge.
   * @throws {EngineError} MERGE_TARGET_MOVED when the session is not at `expectedEventId`, or kept changing.
   * @throws {EngineError} LIMIT_EXCEEDED when both sides changed over 1,000,000 paths, or over 2,000 conflict.
   *
   * @example
   * const { sourceId } = await engine.sources.create({ displayName: 'docs', uploadedSnapshot: {} })
   * await engine.sources.waitForJob(await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a.txt': 'one' } } }))
   * const draft = await engine.sessions.create({ sourceRef: { sourceId } })
   * await engine.sources.waitForJob(await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: { '/a.txt': 'two' } } }))
   * const { changes } = await draft.rebase()
   */
  async rebase(options: RebaseOptions = {}): Promise<MergeResult> {
    const request = parseRebase(options)
    return this.#access.run('rebaseSession', (live) =>
      this.#access.whileUsed(this.#services.merges.rebase(this.#access.core, live, request)),
    )
  }

  /** Also false for proxies, whose traps may throw. */
  static #is(value: unknown): value is Session {
    return typeof value === 'object' && value !== null && #access in value
  }

  #mergeReference(source: Session | StateReference): StateReference {
    if (Session.#is(source)) return { sessionId: source.#access.sessionId }
    const reference = stateShape.readPart(source, 'source')
    if (typeof reference.sessionId !== 'string')
      throw invalid('source', 'must be a session, or an object with the sessionId of one')
    return reference
  }

  /** The other side of a diff, if this handle may compare with it. */
  #compared(against: DiffTarget): StateReference {
    // Both sides are looked at.
    this.#access.permit('diff')
    const reference = this.#reference(against)
    if (refersToHistory(reference)) this.#access.permitWhen('diff', 'checkpoint')
    if (reference.sessionId === this.#access.sessionId) return reference
    this.#permissions.check('diff', { sessionId: reference.sessionId })
    // A handle is a right of its own, and no more than that.
    if (Session.#is(against)) against.#permissions.mustHave('files.read', 'diff')
    else this.#access.permitWhen('diff', 'otherSession')
    return reference
  }

  #reference(target: DiffTarget): StateReference {
    if (target === 'base') return { sessionId: this.#access.sessionId, base: true }
    if (Session.#is(target)) return { sessionId: target.#access.sessionId }
    const reference = stateShape.readPart(target as StateReference, 'against')
    if (Object.keys(reference).length === 0)
      throw invalid(
        'against',
        "must be a session, 'base', or an object with sessionId, checkpointId, checkpointLabel, eventId, time or base",
      )
    reference.sessionId ??= this.#access.sessionId
    return reference
  }
}
