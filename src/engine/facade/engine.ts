import { invalid, messageOf } from '../base/errors.js'
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
import { endFollowers } from '../session/history/feed.js'
import { openUsed, parseTtl } from '../session/table/expiry.js'
import {
  createSession,
  describeSession,
  listSessions,
  sessionListShape,
  type SessionInfo,
  type SessionListRequest,
  type SessionPage,
} from '../session/sessions.js'
import { ScopeAccess } from '../session/access/scope-access.js'
import { writeSnapshot } from '../session/history/snapshot.js'
import { diffOf, namesCheckpoint, stateShape, type Diff, type StateReference } from '../session/states.js'
import type { DiffRequest, EngineApi, SessionCreateRequest } from './engine-api.js'
import { endSession, Session, type SessionServices } from './session.js'
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

/** A handle for one operation, which needs the right to that operation only. SESSION_NOT_FOUND, of that operation. */
export function openFor(sessions: Sessions, action: Action, sessionId: string): Promise<Session> {
  return reach(sessions, action, sessionId)
}

/** The sessions of an engine. */
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

  constructor(access: ScopeAccess, services: EngineServices) {
    this.#core = access.core
    this.#services = services
    this.#access = access
  }

  /**
   * SOURCE_NOT_FOUND, REVISION_NOT_FOUND, SOURCE_WITHOUT_REVISION, IMPORT_FAILED.
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
      const [baseline, root] = await this.#baseline(start)
      return this.#handle(await createSession(this.#core, baseline, root, tags, ttlSeconds))
    })
  }

  /**
   * A session from a bundle that `session.exportBundle` made, of this engine or another. It is a session of its own,
   * with an id of its own; checkpoints, annotations and approvals keep theirs. Its log is the one of the bundle, link
   * for link, so `events.verify()` gives the same `headHash`. Effects of the events are not in it, which is why only
   * its newest state and its checkpoints can be gone back to.
   *
   * It builds on a revision of a source only where the caller's tenant has that very revision; else its base is a
   * tree without a past, and a commit starts a history of its own.
   *
   * INVALID_BUNDLE, with nothing of it visible, for content that is no bundle, of a later version, cut off, or
   * damaged anywhere; FILE_TOO_LARGE and LIMIT_EXCEEDED over the limits of this engine. Errors of the content are
   * thrown. It must not change meanwhile. Needs the right to create a session.
   *
   * @example
   * import { createReadStream } from 'node:fs'
   *
   * const session = await engine.sessions.importBundle(createReadStream('session.car'))
   */
  async importBundle(content: ContentIn, options: BundleOptions = {}): Promise<Session> {
    const { permissions } = this.#access
    const { signal } = parseBundleOptions(options)
    const bundle = parseBundle(content)
    return this.#access.run('createSession', {}, async () => {
      const live = await this.#services.bundles.import(
        this.#core,
        bundle,
        (sourceId) => permissions.has('sources') && permissions.allows('createSession', { sourceId }),
        signal === undefined ? {} : { signal },
      )
      return this.#handle(live)
    })
  }

  /** A handle on an existing session. SESSION_NOT_FOUND. */
  async open(sessionId: string): Promise<Session> {
    return this.#access.run('getSession', { sessionId }, async () =>
      this.#handle(await openUsed(this.#core, sessionId)),
    )
  }

  /** The information about a session, without a handle. SESSION_NOT_FOUND. */
  async get(sessionId: string): Promise<SessionInfo> {
    return this.#access.run('getSession', { sessionId }, async () =>
      describeSession(await openUsed(this.#core, sessionId), this.#access.permissions),
    )
  }

  /** A page of all sessions in order of creation. INVALID_ARGUMENT for a malformed filter or page token. */
  async list(request: SessionListRequest = {}): Promise<SessionPage> {
    const copy = sessionListShape.read(request)
    return this.#access.run('listSessions', {}, () =>
      listSessions(this.#core, this.#access.permissions, copy),
    )
  }

  /** Hides a session at once; forks of it stay whole. SESSION_NOT_FOUND. */
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

/** One principal's view of an engine, in one tenant: another tenant's ids are not found. */
export class EngineScope implements EngineApi {
  readonly sessions: Sessions
  readonly sources: Sources
  readonly usage: TenantUsage
  readonly #access: ScopeAccess
  readonly #services: EngineServices

  constructor(core: Core, services: EngineServices, permissions?: Permissions) {
    this.#access = new ScopeAccess(core, permissions)
    this.#services = services
    this.sources = new Sources(this.#access, services.sources, services.exports)
    this.usage = new TenantUsage(this.#access, services.usage)
    this.sessions = new Sessions(this.#access, services)
  }

  /**
   * The same view that may do less, as {@link Session.narrow} has it: so may the sessions that it opens and makes.
   * INVALID_ARGUMENT for an unknown capability.
   *
   * @example
   * const forAgent = engine.as({ tenant, principal }).narrow({ without: ['sources', 'usage', 'promote'] })
   */
  narrow(request: NarrowRequest): EngineScope {
    const { core, permissions } = this.#access
    return new EngineScope(core, this.#services, permissions.without(request))
  }

  /** The changes from one state to another, of any two sessions, checkpoints or bases. */
  diff(request: DiffRequest): Diff {
    let copy: DiffRequest | undefined
    const side = (name: 'from' | 'to') => (): StateReference => {
      copy ??= diffShape.read(request)
      const reference = stateShape.readPart(copy[name], name)
      const { sessionId } = reference
      const { permissions } = this.#access
      permissions.check('diff', sessionId === undefined ? {} : { sessionId })
      if (namesCheckpoint(reference)) permissions.checkWhen('diff', 'checkpoint')
      return reference
    }
    return diffOf(this.#access.core, side('from'), side('to'))
  }
}

/**
 * Versioned, isolated workspaces in this process. Open one with `openEngine`, close it when done: closing
 * waits for everything that was accepted.
 *
 * Its own sessions and sources are those of the tenant `local`, and its changes are made by the
 * principal `local`; {@link as} is the same engine for others.
 */
export class Engine extends EngineScope {
  readonly #core: Core
  readonly #services: EngineServices
  #closing: Promise<void> | undefined

  constructor(core: Core, services: EngineServices) {
    super(core, services)
    this.#core = core
    this.#services = services
  }

  /**
   * The engine as one principal of one tenant sees it; both are `local` when absent. The principal is recorded in
   * its changes: events, annotations, approvals, locks, messages. Cheap, and needs no closing.
   * INVALID_ARGUMENT for an empty name, TOO_LARGE for one over 1,024 bytes.
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
   * Wraps the keys of all secrets in the storage, of every tenant, with the current master key; values are not
   * touched. Afterwards the previous keys are no longer needed. Reads and changes go on meanwhile.
   *
   * NO_MASTER_KEY when a secret is under a key that the engine was not opened with, DATA_LOSS when one is
   * damaged; all others are still wrapped. After an interruption, call it again.
   *
   * @example
   * const secrets = { masterKey: { id: '2026', key }, previousKeys: [{ id: '2025', key: oldKey }] }
   * const engine = await openEngine({ storage, secrets })
   * await engine.rotateSecrets()
   */
  rotateSecrets(): Promise<{ rewrapped: number }> {
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
   * Frees unreferenced data: data that only deleted sessions and checkpoints had, contents that were
   * overwritten, what interrupted work left. Deleting hides at once, and this gives the space back. It works for all
   * tenants, concurrently with other work, in slices of a few milliseconds; another call waits until one has ended.
   *
   * The effects of events are kept from the oldest state that can be named: the oldest checkpoint, or the newest
   * state of a session without one. The events themselves are always kept, and `events.verify()` finds them
   * unchanged. With `keepRedo` all effects are kept.
   *
   * Interrupted at any point, by a signal, by `close()` or by a crash, it leaves garbage and loses nothing. DATA_LOSS,
   * before anything unmarked was deleted, where a stored state is damaged. On a storage that is not durable it has
   * nothing to do.
   *
   * STORE_FORMAT, before anything was deleted, where the store has records of a kind that this version does not know.
   * `details.prefix` is the first letter of their keys. Collect with the version that wrote them.
   *
   * @example
   * const { freedBytes } = await engine.collect({ signal: AbortSignal.timeout(60_000) })
   */
  async collect(options: CollectOptions = {}): Promise<Collected> {
    return this.#services.collection.collect(this.#core, parseCollect(options))
  }

  /**
   * Looks through all that is stored, of every tenant, and changes nothing: whether everything that sessions,
   * revisions and events refer to is there and is unchanged. The report lists each fault by object, path and
   * session. Everything else goes on meanwhile, but for collections, which wait. With `readData` every content is
   * read too. On a storage that is not durable there is nothing to look at.
   *
   * @example
   * const { found, findings } = await engine.check({ readData: true })
   */
  async check(options: CheckOptions = {}): Promise<CheckReport> {
    const { signal, ...rest } = parseCheck(options)
    const { store, environment, journal } = this.#core
    return this.#services.collection.pausedFor(signal, async (ending) => {
      const report = journal.kept(() => checkStore(store, environment, { ...rest, signal: ending }))
      return report ?? { ...nothingToCheck, findings: [] }
    })
  }

  /** Stops jobs and waits for locks, waits for every accepted write, and releases the storage. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

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
      await this.#services.checkouts.close()
      await this.#services.collection.close()
      for (const live of core.table.live.values()) await live.tail
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
      }
    } finally {
      for (const live of core.table.live.values()) {
        live.discarded = 'closed'
        endFollowers(live)
      }
      core.table.live.clear()
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
