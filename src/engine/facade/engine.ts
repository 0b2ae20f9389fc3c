import { engineClosed, invalid, messageOf } from '../base/errors.js'
import { parseStringMap, parseText } from '../base/input.js'
import { Shape } from '../base/shape.js'
import { limits } from '../base/limits.js'
import type { Action } from '../operations/index.js'
import type { ContentIn } from '../cas/content-writer.js'
import { parseBundle, parseBundleOptions, type BundleOptions } from '../services/bundles/bundles.js'
import {
  checkStore,
  nothingToCheck,
  parseCheck,
  type CheckOptions,
  type CheckReport,
} from '../services/check/check.js'
import {
  parseCollect,
  type Collected,
  type Collection,
  type CollectOptions,
} from '../services/gc/collection.js'
import { parseCreate } from '../services/sources/source-requests.js'
import type { SourceService } from '../services/sources/sources.js'
import type { UsageMeter } from '../services/usage.js'
import { marked, type EventMarks } from '../session/history/event-marks.js'
import { storeActivity } from '../session/table/activity.js'
import { copyFiles, filesBaseline, type BlankBaseline, type CopiedFile } from '../session/baselines.js'
import { coreFor, inBackground, type Core } from '../session/core.js'
import {
  localCaller,
  type Caller,
  type NarrowRequest,
  type Permissions,
} from '../session/access/permissions.js'
import type { LiveSession } from '../session/table/live.js'
import { whenStored } from '../session/sharing/when-stored.js'
import { endFollowers } from '../session/history/feed.js'
import { openUsed, parseTtl } from '../session/table/expiry.js'
import {
  createSession,
  describeSession,
  listSessions,
  parseSessionList,
  type SessionInfo,
  type SessionListRequest,
  type SessionPage,
} from '../session/sessions.js'
import { ScopeAccess } from '../session/access/scope-access.js'
import { writeSnapshot } from '../session/history/snapshot.js'
import { diffOf, refersToHistory, stateShape, type StateReference } from '../session/states.js'
import type { Diff } from '../session/diffs/diff.js'
import type { DiffRequest, EngineApi, SessionCreateRequest } from './engine-api.js'
import { endSession, Session, type SessionServices } from './session.js'
import { lossCheck } from '../storage/loss-check.js'
import { Sources } from './sources.js'
import { TenantUsage } from './usage.js'

/** The starting point of a session, as of the call; at most one is set. */
interface SessionStart {
  readonly sourceRef: SessionCreateRequest['sourceRef']
  readonly gitRepository: SessionCreateRequest['gitRepository']
  readonly files: readonly CopiedFile[] | undefined
}

const createShape = new Shape<SessionCreateRequest>({
  sourceRef: true,
  files: true,
  gitRepository: true,
  initialTags: true,
  ttlSeconds: true,
})

const sourceRefShape = new Shape<NonNullable<SessionCreateRequest['sourceRef']>>({
  sourceId: true,
  revisionId: true,
})

const repositoryShape = new Shape<NonNullable<SessionCreateRequest['gitRepository']>>({
  path: true,
  gitRef: true,
})

const diffShape = new Shape<DiffRequest>({ from: true, to: true })

const callerShape = new Shape<Partial<Caller>>({ tenant: true, principal: true })

export interface EngineServices extends SessionServices {
  readonly blank: BlankBaseline
  readonly collection: Collection
  readonly usage: UsageMeter
  readonly sources: SourceService
}

let reach: (sessions: Sessions, action: Action, sessionId: string) => Promise<Session>

/**
 * A handle for one operation, which needs the right to that operation only.
 *
 * @throws {EngineError} SESSION_NOT_FOUND when there is no such session, reported as an error of that operation.
 */
export function openFor(sessions: Sessions, action: Action, sessionId: string): Promise<Session> {
  return reach(sessions, action, sessionId)
}

/** The operations that compare two states. They need the same capabilities. */
type ComparingAction = 'diff' | 'diffFiles'

let mark: (scope: EngineScope, marks: EventMarks) => EngineScope

/**
 * The same view, in which all events of sessions get the marks: see {@link Session.group} and
 * {@link Session.withMetadata}.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the name of the group is empty, or the metadata is not an object of JSON.
 * @throws {EngineError} TOO_LARGE when the name is over 1,024 bytes, or the metadata over 4 KiB or 8 levels.
 */
export function withMarks(scope: EngineScope, marks: EventMarks): EngineScope {
  return mark(scope, marks)
}

let compare: (scope: EngineScope, action: ComparingAction, request: DiffRequest) => Diff

/** {@link EngineScope.diff} for one operation, which needs the right to that operation only. */
export function diffFor(scope: EngineScope, action: ComparingAction, request: DiffRequest): Diff {
  return compare(scope, action, request)
}

/** The sessions of an engine, of one tenant. */
export class Sessions {
  readonly #core: Core
  readonly #services: EngineServices
  readonly #access: ScopeAccess

  static {
    reach = async (sessions, action, sessionId) => {
      try {
        return sessions.#handle(await openUsed(sessions.#core, sessionId))
      } catch (error) {
        // Checks permission and reports to diagnostics as the operation itself would have.
        return sessions.#access.run(action, { sessionId }, () => Promise.reject(error))
      }
    }
  }

  /** @internal */
  constructor(access: ScopeAccess, services: EngineServices) {
    this.#core = access.core
    this.#services = services
    this.#access = access
  }

  /**
   * Creates a session. It starts on a revision of a source, on a repository of this host, with files, or empty.
   *
   * @throws {EngineError} SOURCE_NOT_FOUND when no source has this id.
   * @throws {EngineError} REVISION_NOT_FOUND when the source has no revision with this id or label.
   * @throws {EngineError} SOURCE_WITHOUT_REVISION when the source has no revision yet.
   * @throws {EngineError} IMPORT_FAILED when the import of a `gitRepository` failed; `cause` is the error of the job.
   * @throws {EngineError} HOST_PATH_NOT_FOUND when the path of a `gitRepository` does not exist on the host.
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED when the path of a `gitRepository` is outside `hostPaths.roots`.
   * @throws {EngineError} INVALID_ARGUMENT when the request has the wrong form, or its paths cannot form a tree.
   * @throws {EngineError} NAME_TOO_LONG when a path in `files` is too long.
   * @throws {EngineError} TOO_LARGE when there are over 64 tags, or one is too long.
   *
   * @example
   * const session = await engine.sessions.create({ files: { '/a.txt': 'hello' }, initialTags: { task: '42' } })
   */
  async create(request: SessionCreateRequest = {}): Promise<Session> {
    const copy = createShape.read(request)
    const tags = parseStringMap('initialTags', copy.initialTags)
    const ttlSeconds = parseTtl('ttlSeconds', copy.ttlSeconds)
    if (copy.sourceRef !== undefined) copy.sourceRef = sourceRefShape.readPart(copy.sourceRef, 'sourceRef')
    if (copy.gitRepository !== undefined)
      copy.gitRepository = repositoryShape.readPart(copy.gitRepository, 'gitRepository')
    const { sourceRef, files, gitRepository } = copy
    if ([sourceRef, files, gitRepository].filter((one) => one !== undefined).length > 1)
      throw invalid('sourceRef', 'pass at most one of sourceRef, files and gitRepository')
    const start = {
      sourceRef,
      gitRepository,
      files: files === undefined ? undefined : copyFiles(files, 'files'),
    }
    const resource = typeof sourceRef?.sourceId === 'string' ? { sourceId: sourceRef.sourceId } : {}
    return this.#access.run('createSession', resource, async () => {
      if (sourceRef !== undefined) this.#access.permissions.checkWhen('createSession', 'source')
      using _ = this.#core.pins.pin({ writesSince: 'now' })
      const checkLosses = lossCheck(this.#core.store)
      const [baseline, root] = await this.#baseline(start)
      return this.#handle(await createSession(this.#core, baseline, root, tags, ttlSeconds, checkLosses))
    })
  }

  /**
   * Creates a session from a bundle that `session.exportBundle` made, of this engine or another. The session has an
   * id of its own; checkpoints, annotations and approvals keep theirs. Its log is the one of the bundle, link for
   * link, so `events.verify()` gives the same `headHash`. The bundle has no effects of events, so a restore can reach
   * only the newest state and the checkpoints.
   *
   * The session builds on a revision of a source only if the caller's tenant has that revision. Otherwise its base is
   * a tree without a past, and a commit starts a history of its own. The content must not change during the call.
   * Errors of the content are passed on. The call needs the right to create a session.
   *
   * @throws {EngineError} INVALID_BUNDLE when the content is not a bundle, of a later version, incomplete or damaged.
   * Nothing of it is visible.
   * @throws {EngineError} FILE_TOO_LARGE when a file is over the `maxFileBytes` of this engine.
   * @throws {EngineError} LIMIT_EXCEEDED when the bundle is over another limit.
   *
   * @example
   * import { createReadStream } from 'node:fs'
   *
   * const session = await engine.sessions.importBundle(createReadStream('session.car'))
   */
  async importBundle(content: ContentIn, options: BundleOptions = {}): Promise<Session> {
    const { permissions } = this.#access
    const { signal } = parseBundleOptions(options)
    const bundle = await parseBundle(content)
    return this.#access.run('createSession', {}, async () => {
      const live = await this.#services.bundles.import(this.#core, bundle, {
        mayUse: (sourceId) => permissions.has('sources') && permissions.allows('createSession', { sourceId }),
        allows: (action) => permissions.allows(action, {}),
        ...(signal !== undefined && { signal }),
      })
      return this.#handle(live)
    })
  }

  /**
   * A handle on an existing session.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session of the tenant has this id.
   *
   * @example
   * const { id } = await engine.sessions.create()
   * const session = await engine.sessions.open(id)
   */
  async open(sessionId: string): Promise<Session> {
    return this.#access.run('getSession', { sessionId }, async () =>
      this.#handle(await openUsed(this.#core, sessionId)),
    )
  }

  /**
   * The information about a session, without a handle.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session of the tenant has this id.
   *
   * @example
   * const { tags } = await engine.sessions.get(session.id)
   */
  async get(sessionId: string): Promise<SessionInfo> {
    return this.#access.run('getSession', { sessionId }, async () =>
      describeSession(await openUsed(this.#core, sessionId), this.#access.permissions),
    )
  }

  /**
   * A page of all sessions in order of creation.
   * A page ends early after about 8 MiB, so only an empty `nextPageToken` marks the end.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the filter is malformed, or the page token is of another listing.
   *
   * @example
   * const { sessions } = await engine.sessions.list({ filter: 'task=42' })
   * const ofTurn = await engine.sessions.list({ metadata: { turn: 3 } })
   */
  async list(request: SessionListRequest = {}): Promise<SessionPage> {
    const copy = parseSessionList(request)
    return this.#access.run('listSessions', {}, () =>
      listSessions(this.#core, this.#access.permissions, copy),
    )
  }

  /**
   * Hides a session at once. Its forks keep all their data. The next `engine.collect()` frees the space.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session of the tenant has this id.
   *
   * @example
   * await engine.sessions.delete(session.id)
   */
  delete(sessionId: string): Promise<void> {
    return this.#access.run('deleteSession', { sessionId }, () =>
      endSession(this.#core, this.#services, sessionId),
    )
  }

  async #baseline({ sourceRef, files, gitRepository }: SessionStart): ReturnType<BlankBaseline['get']> {
    if (sourceRef !== undefined)
      return this.#services.sources.baseline(this.#core, sourceRef.sourceId, sourceRef.revisionId)
    if (files !== undefined) return filesBaseline(this.#core, files)
    if (gitRepository === undefined) return this.#services.blank.get(this.#core)
    for (const action of ['createSource', 'startImport'] as const) this.#access.permissions.check(action, {})
    const { path, gitRef = '' } = gitRepository
    parseText('gitRepository.gitRef', gitRef, limits.labelBytes)
    const { sourceId } = await this.#services.sources.create(
      this.#core,
      parseCreate({ displayName: path, gitRepository: { path } }),
    )
    const { sources } = this.#services
    try {
      const job = await sources.startImport(this.#core, sourceId, { git: { gitRef } })
      const { revisionId } = await sources.jobs.wait(this.#core, job)
      return await sources.baseline(this.#core, sourceId, revisionId)
    } catch (error) {
      // The import failed, so its new source is deleted.
      await sources.delete(this.#core, sourceId).catch(() => undefined)
      throw error
    }
  }

  #handle({ slot }: LiveSession): Session {
    return new Session(this.#core, slot, this.#services, this.#access.permissions)
  }
}

/** The view of one principal on an engine, in one tenant. The ids of other tenants are not found. */
export class EngineScope implements EngineApi {
  /** The sessions of the tenant. */
  readonly sessions: Sessions
  /** The sources of the tenant. */
  readonly sources: Sources
  /** The usage of the tenant. */
  readonly usage: TenantUsage
  readonly #access: ScopeAccess
  readonly #services: EngineServices

  static {
    compare = (scope, action, request) => scope.#diff(action, request)
    mark = (scope, marks) => {
      const { core, permissions } = scope.#access
      return new EngineScope(marked(core, marks), scope.#services, permissions)
    }
  }

  /** @internal */
  constructor(core: Core, services: EngineServices, permissions?: Permissions) {
    this.#access = new ScopeAccess(core, permissions)
    this.#services = services
    this.sources = new Sources(this.#access, services.sources, services.exports)
    this.usage = new TenantUsage(this.#access, services.usage)
    this.sessions = new Sessions(this.#access, services)
  }

  /**
   * The same view with fewer rights, as for {@link Session.narrow}. Sessions that it opens and creates have no more
   * rights.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a capability is unknown.
   *
   * @example
   * const forAgent = engine.as({ tenant: 'acme', principal: 'agent-1' }).narrow({ without: ['sources', 'usage', 'promote'] })
   */
  narrow(request: NarrowRequest): EngineScope {
    const { core, permissions } = this.#access
    return new EngineScope(core, this.#services, permissions.without(request))
  }

  /**
   * The changes from one state to another, of any two sessions, checkpoints or bases. Both states are those of the
   * call. Errors appear at the first read.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a reference has the wrong form.
   * @throws {EngineError} SESSION_NOT_FOUND when a session does not exist.
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when a session has no such checkpoint.
   *
   * @example
   * const changes = engine.diff({ from: { sessionId: session.id, base: true }, to: { sessionId: fork.id } })
   * for await (const { change, path } of changes) console.log(change, path)
   */
  diff(request: DiffRequest): Diff {
    return this.#diff('diff', request)
  }

  #diff(action: ComparingAction, request: DiffRequest): Diff {
    let copy: DiffRequest | undefined
    const compared = new Set<string | undefined>()
    const side = (name: 'from' | 'to') => (): StateReference => {
      copy ??= diffShape.read(request)
      const reference = stateShape.readPart(copy[name], name)
      const { sessionId } = reference
      const { permissions } = this.#access
      permissions.check(action, sessionId === undefined ? {} : { sessionId })
      if (refersToHistory(reference)) permissions.checkWhen(action, 'checkpoint')
      compared.add(sessionId)
      if (compared.size > 1) permissions.checkWhen(action, 'otherSession')
      return reference
    }
    return diffOf(this.#access.core, side('from'), side('to'))
  }
}

/**
 * Versioned, isolated workspaces in this process. Open an engine with `openEngine`, and close it when done.
 *
 * Its own sessions and sources belong to the tenant `local`, and the principal `local` makes its changes. {@link as}
 * is the same engine for others.
 */
export class Engine extends EngineScope {
  readonly #core: Core
  readonly #services: EngineServices
  #closing: Promise<void> | undefined

  /** @internal */
  constructor(core: Core, services: EngineServices) {
    super(core, services)
    this.#core = core
    this.#services = services
  }

  /**
   * The engine for one principal of one tenant; both are `local` when absent. Events, annotations, approvals, locks
   * and messages record the principal. The view is cheap and needs no closing.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a name is empty.
   * @throws {EngineError} TOO_LARGE when a name is over 1,024 bytes.
   *
   * @example
   * const session = await engine.as({ tenant: 'acme', principal: 'agent-1' }).sessions.create()
   */
  as(caller: Partial<Caller>): EngineScope {
    const { tenant = localCaller.tenant, principal = localCaller.principal } = callerShape.read(
      caller,
      'caller',
    )
    return new EngineScope(
      coreFor(this.#core, {
        tenant: parseName('tenant', tenant),
        principal: parseName('principal', principal),
      }),
      this.#services,
    )
  }

  /**
   * Wraps the keys of all secrets in the storage, of every tenant, with the current master key. It does not read or
   * write their values. Afterwards the previous keys are no longer needed. Reads and changes go on meanwhile. After
   * an interruption, call it again.
   *
   * @throws {EngineError} NO_MASTER_KEY when the engine has no master key, or lacks the key of a secret. It still
   * wraps all others.
   * @throws {EngineError} DATA_LOSS when a secret is damaged. It still wraps all others.
   *
   * @example
   * const { rewrapped } = await engine.rotateSecrets()
   */
  rotateSecrets(): Promise<{
    /** The number of secrets that were under another key. */
    rewrapped: number
  }> {
    const rotated = this.#services.secrets.rotate(this.#core)
    inBackground(
      this.#core,
      rotated.then(
        () => undefined,
        () => undefined,
      ),
    )
    return rotated
  }

  /**
   * Frees unreferenced data: data of deleted sessions and checkpoints, overwritten contents, and remains of
   * interrupted work. Deletions only hide data; this call returns the space. It works for all tenants, concurrently
   * with other work, in slices of a few milliseconds. A second call waits for the first one.
   *
   * The effects of events are kept from the oldest checkpoint on, or from the newest state of a session without
   * checkpoints. The events themselves are always kept, and `events.verify()` finds them
   * unchanged. With `keepRedo` all effects are kept.
   *
   * An interruption by a signal, by `close()` or by a crash leaves garbage and loses nothing. On a storage that is
   * not durable the call does nothing.
   *
   * @throws {EngineError} DATA_LOSS when a stored state is damaged, before anything unmarked was deleted.
   * @throws {EngineError} STORE_FORMAT when the store has records of a kind that this version does not know, before
   * anything was deleted. `details.prefix` is the first letter of their keys. Collect with the version that wrote
   * them.
   *
   * @example
   * const { freedBytes } = await engine.collect({ signal: AbortSignal.timeout(60_000) })
   */
  async collect(options: CollectOptions = {}): Promise<Collected> {
    return this.#services.collection.collect(this.#core, parseCollect(options))
  }

  /**
   * Checks all stored data, of every tenant, and changes nothing: whether every object that sessions, revisions and
   * events refer to exists and is unchanged. The report lists each fault by object, path and session. Other work goes
   * on meanwhile, except collections, which wait. With `readData` the call also reads every content. On a storage
   * that is not durable it does nothing.
   *
   * @throws {EngineError} INVALID_ARGUMENT when an option has the wrong form.
   *
   * @example
   * const { found, findings } = await engine.check({ readData: true })
   */
  async check(options: CheckOptions = {}): Promise<CheckReport> {
    const { signal, ...rest } = parseCheck(options)
    const { store, environment, journal } = this.#core
    return this.#services.collection.pausedEverywhere(this.#core, signal, async (ending) => {
      const report = journal.kept(() => checkStore(store, environment, { ...rest, signal: ending }))
      return report ?? { ...nothingToCheck, findings: [] }
    })
  }

  /**
   * Stops jobs and waits for locks, waits for every accepted write, and releases the storage. Further calls return
   * the same promise.
   *
   * @example
   * const engine = await openEngine()
   * await engine.close()
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /**
   * Closes the engine at the end of an `await using` block.
   *
   * @example
   * await using engine = await openEngine()
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    const core = this.#core
    try {
      // Work that waits for the store's recovery, such as the end of a job, is stored if that goes well now.
      await core.fence.recover()
      this.#services.posixLocks.close()
      await this.#services.sources.jobs.close()
      this.#services.bundles.close()
      await this.#services.commits.close()
      await this.#services.processes.close()
      await this.#services.checkouts.close()
      await this.#services.collection.close()
      for (const live of core.table.live.values()) {
        await live.tail
        if (live.shared !== undefined) await whenStored(live)
      }
      core.sharing?.stop()
      while (core.background.size > 0) await Promise.all(core.background)
      await this.#services.usage.flush().catch((error: unknown) => {
        // The only promise was to try.
        if (!core.fence.closed) throw error
        core.log('error', 'the count of bytes sent to clients was not stored', { error: messageOf(error) })
      })
      if (!core.fence.closed) {
        // Snapshots only shorten the next opening, and reads are no changes: a failure here costs nothing else.
        await core.journal.kept(() =>
          Promise.all([...core.table.live.values()].map((live) => settle(core, live).catch(() => undefined))),
        )
        await core.sharing?.leave(core).catch((error: unknown) => {
          // A running collection begins again.
          core.log('info', 'the last notes for a collection were not stored', { error: messageOf(error) })
        })
      }
    } finally {
      core.table.isClosed = true
      for (const live of core.table.live.values()) {
        live.discarded = 'closed'
        endFollowers(live)
      }
      core.table.live.clear()
      for (const sessionId of core.table.inUse.keys()) core.table.endLongUse(sessionId, engineClosed())
      await core.store.close()
    }
  }
}

async function settle(core: Core, live: LiveSession): Promise<void> {
  await storeActivity(core, live)
  // A snapshot that is being written may be of an earlier state.
  await live.snapshotting
  await writeSnapshot(core, live)
}

function parseName(field: string, name: string): string {
  const text = parseText(field, name, limits.labelBytes)
  if (text === '') throw invalid(field, 'must not be empty')
  return text
}
