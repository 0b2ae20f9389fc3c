import { invalid } from '../base/errors.js'
import { pageShape, type PageRequest } from '../base/paging.js'
import { parseAtCall, Shape } from '../base/shape.js'
import type { Action } from '../operations/index.js'
import type { Dir } from '../tree/node.js'
import { createSessionFs } from '../fs/session-fs.js'
import type { SessionFs } from '../fs/types.js'
import { SessionAccess } from '../session/access/session-access.js'
import type { NarrowRequest, Permissions } from '../session/access/permissions.js'
import {
  checkpointCreateShape,
  checkpointShape,
  createCheckpoint,
  deleteCheckpoint,
  listCheckpoints,
  parsePrune,
  pruneCheckpoints,
  restoreCheckpoint,
  type Checkpoint,
  type CheckpointCreateRequest,
  type CheckpointPage,
  type CheckpointReference,
  type PruneRequest,
} from '../session/checkpoints.js'
import type { Core } from '../session/core.js'
import type { SessionSlot } from '../session/table/live.js'
import {
  manifestShape,
  readManifest,
  type ManifestPage,
  type ManifestRequest,
} from '../session/reads/manifest.js'
import {
  deleteSession,
  describeSession,
  forkSession,
  isOfCheckpoint,
  parseFork,
  type ForkRequest,
  type SessionInfo,
} from '../session/sessions.js'
import {
  diffOf,
  namesCheckpoint,
  stateNames,
  stateOf,
  stateShape,
  type Diff,
  type StateReference,
} from '../session/states.js'
import type { Analytics } from '../services/analytics.js'
import type { Annotations } from '../services/annotations.js'
import type { Approvals } from '../services/approvals.js'
import type { MessageBus } from '../services/bus/bus.js'
import type { CheckoutOptions, Checkouts } from '../services/checkouts/checkouts.js'
import { parseBundleOptions, type BundleOptions, type Bundles } from '../services/bundles/bundles.js'
import { summarize, type CommitSummary } from '../services/sources/commit-summary.js'
import type { CacheService } from '../services/cache/cache.js'
import { parseCommit, type Commits, type SessionCommitRequest } from '../services/sources/commits.js'
import type { FileLocks } from '../services/locks/file-locks.js'
import type { HealthReports } from '../services/health.js'
import type { PosixLocks } from '../services/locks/posix-locks.js'
import type { Secrets } from '../services/secrets/secrets.js'
import type { TreeExports } from '../services/sources/tree-exports.js'
import { SessionAnnotations } from './annotations.js'
import { SessionApprovals } from './approvals.js'
import { SessionCache } from './cache.js'
import { SessionBus } from './bus.js'
import { checkOut, type Checkout } from './checkout.js'
import { SessionEvents } from './events.js'
import { SessionFileLocks } from './file-locks.js'
import { SessionFiles } from './files.js'
import { SessionHealth } from './health.js'
import { SessionPosixLocks } from './posix-locks.js'
import type { SessionAnalytics, SessionApi } from './session-api.js'
import { SessionSecrets } from './secrets.js'

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
  readonly exports: TreeExports
  readonly fileLocks: FileLocks
  readonly health: HealthReports
  readonly posixLocks: PosixLocks
  readonly secrets: Secrets
}

/** Hides a session, drops its locks in memory, and removes its secrets from the store. */
export async function endSession(core: Core, services: SessionServices, sessionId: string): Promise<void> {
  if (core.fence.closed) await core.fence.recover()
  await deleteSession(core, sessionId)
  services.posixLocks.forget(sessionId)
  await services.secrets.forget(core, sessionId)
}

/** A state of the session, its newest by default, and a directory in it, the root by default. */
export interface SessionExportRequest extends Omit<StateReference, 'sessionId'> {
  readonly path?: string
}

const exportShape = new Shape<SessionExportRequest>({ ...stateNames, path: true })

/** What `session.diff` compares with: another session's handle, any state by name, or this session's base. */
export type DiffTarget = Session | StateReference | CheckpointReference | 'base'

let describe: (session: Session) => Promise<SessionInfo>

/** Information about a handle's session, for the caller that just created it and may lack the right to read it. */
export function describeHandle(session: Session): Promise<SessionInfo> {
  return describe(session)
}

/**
 * A handle on one session. Handles are cheap and stateless: several of one session are the same session.
 * Every method throws SESSION_NOT_FOUND once the session was deleted.
 */
export class Session implements SessionApi {
  readonly id: string
  readonly #access: SessionAccess
  readonly #services: SessionServices
  readonly #permissions: Permissions

  static {
    describe = async (session) => describeSession(await session.#access.known(), session.#permissions)
  }

  #annotations: SessionAnnotations | undefined
  #approvals: SessionApprovals | undefined
  #cache: SessionCache | undefined
  #bus: SessionBus | undefined
  #events: SessionEvents | undefined
  #files: SessionFiles | undefined
  #fileLocks: SessionFileLocks | undefined
  #health: SessionHealth | undefined
  #posixLocks: SessionPosixLocks | undefined
  #secrets: SessionSecrets | undefined
  #fs: SessionFs | undefined

  constructor(core: Core, slot: SessionSlot, services: SessionServices, permissions: Permissions) {
    this.id = slot.id
    this.#access = new SessionAccess(core, slot, permissions.open ? undefined : permissions)
    this.#permissions = permissions
    this.#services = services
  }

  /** Files by the operations of the interface. */
  get files(): SessionFiles {
    return (this.#files ??= new SessionFiles(this.#access))
  }

  /** The events of the session, as an append-only log. */
  get events(): SessionEvents {
    return (this.#events ??= new SessionEvents(this.#access))
  }

  /** Files in the shape of node:fs, in all its forms; created on first use. */
  get fs(): SessionFs {
    return (this.#fs ??= createSessionFs(this.#access))
  }

  /**
   * Resolves when every change made by this handle is acknowledged. After synchronous calls of
   * `session.fs` on a store whose commits are not synchronous, the changes are durable from then on.
   * Rejects when one of their commits failed; STORE_CLOSED after the engine was closed, SESSION_NOT_FOUND after
   * the session was deleted.
   */
  flush(): Promise<void> {
    return this.#access.flush()
  }

  /** Notes on files, for review. */
  get annotations(): SessionAnnotations {
    return (this.#annotations ??= new SessionAnnotations(this.#access, this.#services.annotations))
  }

  /** Requests for a decision. */
  get approvals(): SessionApprovals {
    return (this.#approvals ??= new SessionApprovals(this.#access, this.#services.approvals))
  }

  /** Keys and values separate from the files. */
  get cache(): SessionCache {
    return (this.#cache ??= new SessionCache(this.#access, this.#services.cache))
  }

  /** Messages between current clients of the session; the newest are kept for later subscribers. */
  get bus(): SessionBus {
    return (this.#bus ??= new SessionBus(this.#access, this.#services.bus))
  }

  /** Locks on ranges and files in the manner of fcntl and flock, in memory. */
  get posixLocks(): SessionPosixLocks {
    return (this.#posixLocks ??= new SessionPosixLocks(this.#access, this.#services.posixLocks))
  }

  /** Locks on paths with a time to live, stored. */
  get fileLocks(): SessionFileLocks {
    return (this.#fileLocks ??= new SessionFileLocks(this.#access, this.#services.fileLocks))
  }

  /** What tests say of the session. */
  get health(): SessionHealth {
    return (this.#health ??= new SessionHealth(this.#access, this.#services.health))
  }

  /** Values that are kept apart from files, encrypted. */
  get secrets(): SessionSecrets {
    return (this.#secrets ??= new SessionSecrets(this.#access, this.#services.secrets))
  }

  /**
   * A handle on the same session that may do less: it, and every handle made from it, rejects operations that need
   * one of the capabilities in `without` with PERMISSION_DENIED. INVALID_ARGUMENT for an unknown capability.
   *
   * @example
   * const forAgent = session.narrow({ without: ['approvals.decide', 'locks.force', 'commit', 'promote'] })
   */
  narrow(request: NarrowRequest): Session {
    const permissions = this.#permissions.without(request)
    return new Session(this.#access.core, this.#access.slot, this.#services, permissions)
  }

  /** Tags, status, times and fingerprint as of now. */
  get(): Promise<SessionInfo> {
    return this.#access.run('getSession', (live) => Promise.resolve(describeSession(live, this.#permissions)))
  }

  /** The operations of the session, counted from its events; right after reopening too. A fork starts anew. */
  analytics(): Promise<SessionAnalytics> {
    // Watching a session does not count as using it.
    return this.#access.run('getAnalytics', async (live) => ({
      sessionId: this.id,
      ...(await this.#services.analytics.counts(this.#access.core, live)),
      lastReportedHealth: (await this.#services.health.get(this.#access.core, live)).health,
    }))
  }

  /** Hides the session at once; forks of it stay whole. */
  delete(): Promise<void> {
    return this.#access.traced('deleteSession', () => {
      this.#access.permit('deleteSession')
      return endSession(this.#access.core, this.#services, this.id)
    })
  }

  /**
   * A new session on the current state, or on a checkpoint; microseconds for a tree of any size.
   * CHECKPOINT_NOT_FOUND.
   *
   * @example
   * const attempt = await session.fork({ newTags: { attempt: '1' } })
   */
  async fork(request: ForkRequest = {}): Promise<Session> {
    const copy = parseFork(request)
    const { core } = this.#access
    const live = await this.#access.run('forkSession', (parent) => {
      if (isOfCheckpoint(copy)) this.#access.permitWhen('forkSession', 'checkpoint')
      return forkSession(core, parent, copy)
    })
    return new Session(core, live.slot, this.#services, this.#permissions)
  }

  /** Names the current state. ALREADY_EXISTS when the session has a checkpoint of this label. */
  async checkpoint(request: CheckpointCreateRequest = {}): Promise<Checkpoint> {
    const { checkpointLabel } = checkpointCreateShape.read(request)
    return this.#access.run('createCheckpoint', (live) =>
      createCheckpoint(this.#access.core, live, checkpointLabel),
    )
  }

  /** A page of the checkpoints, oldest first. */
  async listCheckpoints(request: PageRequest = {}): Promise<CheckpointPage> {
    const copy = pageShape.read(request)
    return this.#access.run('listCheckpoints', (live) => listCheckpoints(this.#access.core, live, copy))
  }

  /**
   * Deletes the checkpoint and frees its label; files, events and forks stay as they are. The next `engine.collect()`
   * frees data that only the checkpoint referred to. CHECKPOINT_NOT_FOUND.
   */
  async deleteCheckpoint(request: CheckpointReference): Promise<void> {
    const reference = checkpointShape.read(request)
    return this.#access.run('deleteCheckpoint', (live) =>
      deleteCheckpoint(this.#access.core, live, reference),
    )
  }

  /**
   * Deletes all checkpoints but the newest `keepLast`; those with a label count like others.
   *
   * @example
   * await session.checkpoint()
   * await session.pruneCheckpoints({ keepLast: 10 })
   */
  async pruneCheckpoints(request: PruneRequest): Promise<{ deletedCount: number }> {
    const keepLast = parsePrune(request)
    return this.#access.run('deleteCheckpoint', (live) => pruneCheckpoints(this.#access.core, live, keepLast))
  }

  /** Changes the files back to their state at the checkpoint. CHECKPOINT_NOT_FOUND. */
  async restore(request: CheckpointReference): Promise<SessionInfo> {
    const reference = checkpointShape.read(request)
    return this.#access.run('restoreCheckpoint', async (live) => {
      await restoreCheckpoint(this.#access.core, live, reference)
      return describeSession(live, this.#permissions)
    })
  }

  /** A page of the tree; its `manifestHash` names the state of the whole tree. */
  async manifest(request: ManifestRequest = {}): Promise<ManifestPage> {
    const copy = manifestShape.read(request)
    return this.#access.look('getManifest', ({ tree }) =>
      readManifest(this.#access.core, tree.freeze(), copy),
    )
  }

  /**
   * What changed from another state to this session's current one; without an argument, since its base.
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  diff(against: DiffTarget = 'base'): Diff {
    const { core } = this.#access
    return diffOf(
      core,
      () => {
        // Both sides are looked at.
        this.#access.permit('diff')
        const reference = this.#reference(against)
        if (namesCheckpoint(reference)) this.#access.permitWhen('diff', 'checkpoint')
        if (reference.sessionId === this.id) return reference
        this.#permissions.check('diff', { sessionId: reference.sessionId })
        // A handle is a right of its own, and no more than that.
        if (against instanceof Session) against.#permissions.mustHave('files.read', 'diff')
        else this.#access.permitWhen('diff', 'otherSession')
        return reference
      },
      () => ({ sessionId: this.id }),
    )
  }

  /**
   * A state as a tar with pax headers. It has modes, times in seconds, extended attributes, symlinks and hard links;
   * binary attributes are in base64, as libarchive has them. The same tree gives the same bytes. The state
   * is that of the call, even when read later. Every name is in it, `.git` too: unpack it where no git runs, or check
   * the names first. An invalid request fails at the first read, with
   * CHECKPOINT_NOT_FOUND, PATH_NOT_FOUND or NOT_A_DIRECTORY. Each iteration writes the tar anew. For this,
   * collections keep the state until the garbage collector of JavaScript has removed the result: drop your references
   * to it when you need no further iteration.
   *
   * @example
   * await pipeline(session.exportTar({ checkpointLabel: 'done' }), createGzip(), createWriteStream('done.tgz'))
   */
  exportTar(request: SessionExportRequest = {}): AsyncIterable<Uint8Array> {
    const { core } = this.#access
    let directory: string | undefined
    // An invalid request fails at the first read of the tar.
    const opened = async (): Promise<Dir> => {
      const { path, ...reference } = exportShape.read(request)
      directory = path
      return this.#access.look('exportTar', async (live) => {
        if (namesCheckpoint(reference)) this.#access.permitWhen('exportTar', 'checkpoint')
        return stateOf(core, live, reference)
      })
    }
    const state = opened()
    return this.#services.exports.tar(core, state, directory)
  }

  /**
   * Writes the session to a directory of the host, at or below one of `hostPaths.roots`. The first time the directory
   * must be missing or empty. Later calls write only the differences from the last time, also after another session
   * was written there or the engine was reopened. CHECKOUT_MODIFIED, with nothing changed, when the directory holds
   * other files the first time, or a path that differs was changed there since. With `force` differences are
   * overwritten, and files that no session wrote stay unless they are in the way. UNSAFE_PATH, with nothing changed,
   * for a path that git commits refuse too, such as `/.git/config`, unless the engine has `allowGitNames`.
   * HOST_PATH_NOT_ALLOWED, HOST_FAILED.
   *
   * @example
   * const checkout = await session.checkout('/work/build')
   * await run('make', { cwd: checkout.directory })
   * const { added, modified, removed } = await checkout.sync()
   */
  checkout(directory: string, options?: CheckoutOptions): Promise<Checkout> {
    return checkOut(this.#access, this.#services.checkouts, directory, options)
  }

  /**
   * The session with its history as one file in the CAR format (CARv1): its events with their links, its base, its
   * newest state, every checkpoint with its state, tags, annotations, and approvals that were decided on. Not in it
   * are cache, secrets, messages, locks, reports of tests, and commits. `sessions.importBundle` makes a session
   * of it, here or elsewhere. Sessions that do not differ in any of this give the same bytes.
   *
   * The bundle has the session as of the call, despite deletions and collections meanwhile. It is read while
   * the bytes are taken, and in bounded memory, but for a note of each directory and content; take them all, or stop
   * early: until then nothing of it is freed. It needs the right to fork, and to see all
   * of its log; annotations and approvals are in it where the handle may list them.
   *
   * SESSION_NOT_FOUND, on a storage that is not durable, where the session itself is deleted meanwhile.
   * LIMIT_EXCEEDED where something of the session is too large for a bundle, such as one event over 16 MiB.
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
    return (async function* () {
      yield* await opened
    })()
  }

  /**
   * Writes the current state as a commit on top of the imported one, and pushes it fast-forward when a
   * branch is given. BRANCH_MOVED, with the remote unchanged, when another push came first. When the session's
   * last commit on the branch has the same files, and the remote still has the branch there, the id of that commit is
   * given and nothing is made; `allowEmpty` makes a commit even so.
   */
  async commit(request: SessionCommitRequest): Promise<{ commitId: string }> {
    const { core } = this.#access
    const commit = parseCommit(core.principal, request)
    return this.#access.run('commit', (live) => this.#services.commits.commit(core, live, commit))
  }

  /**
   * A description of what changed since the session's base, made from the paths alone, and the changed files:
   * usable as the details of a request for an approval.
   */
  generateCommitSummary(): Promise<CommitSummary> {
    return this.#access.look('generateCommitSummary', ({ baseline, tree }) =>
      summarize(this.#access.core, baseline, tree.freeze()),
    )
  }

  #reference(target: DiffTarget): StateReference {
    if (target === 'base') return { sessionId: this.id, base: true }
    if (target instanceof Session) return { sessionId: target.id }
    const reference = stateShape.readPart(target as StateReference, 'against')
    if (Object.keys(reference).length === 0)
      throw invalid(
        'against',
        "must be a session, 'base', or an object with sessionId, checkpointId, checkpointLabel or base",
      )
    reference.sessionId ??= this.id
    return reference
  }
}
