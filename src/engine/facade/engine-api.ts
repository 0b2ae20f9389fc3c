import type { StringMap } from '../base/input.js'
import type { FileContent } from '../session/edits/writes.js'
import type { SessionListRequest, SessionPage } from '../session/sessions.js'
import type { SessionInfo } from '../session/sessions.js'
import type { Diff } from '../session/diffs/diff.js'
import type { StateReference } from '../session/states.js'
import type { PublicOf, SessionApi } from './session-api.js'
import type { Sources } from './sources.js'
import type { TenantUsage } from './usage.js'

/**
 * The request of `sessions.create`: at most one of `sourceRef`, `files` and `gitRepository`. Without one the session
 * starts empty.
 */
export interface SessionCreateRequest {
  /** Starts on a revision of a source. */
  readonly sourceRef?: {
    /** The id of the source. */
    readonly sourceId: string
    /** The id or label of a revision; '' or absent: the latest. */
    readonly revisionId?: string
  }
  /** Starts with these contents by their absolute paths, such as `/src/a.ts`. They are copied at the call. */
  readonly files?: Readonly<Record<string, FileContent>>
  /** Starts on a repository of this host: the engine creates a source and imports it. */
  readonly gitRepository?: {
    /** Absolute path on the host, at or below one of the engine's `hostPaths.roots`. */
    readonly path: string
    /** A branch, a tag, a full ref or a commit id, at most 1,024 bytes. '' or absent: the repository's HEAD. */
    readonly gitRef?: string
  }
  /** Tags by their keys: at most 64, keys up to 128 bytes, values up to 1,024 bytes. None by default. */
  readonly initialTags?: StringMap
  /**
   * Whole seconds without a read or change until the session expires, from 1. Each of its forks expires the same way,
   * by its own activity. Absent: the engine's `sessionTtlSeconds`.
   */
  readonly ttlSeconds?: number
}

/** The request of `engine.diff`. */
export interface DiffRequest {
  /** The state before the changes. */
  readonly from: StateReference
  /** The state after the changes. */
  readonly to: StateReference
}

/**
 * The sessions, sources and usage of a tenant, in this process or on a server: the members that both have.
 * `EngineScope`, `Engine` and the client's `RemoteEngine` implement it, and describe each member.
 *
 * @example
 * import { connect } from 'forkspace/client'
 *
 * const { SERVER } = process.env
 * const engine: EngineApi = SERVER === undefined ? await openEngine() : connect({ baseUrl: SERVER, token: 'token' })
 */
export interface EngineApi {
  /** The sessions of the tenant. */
  readonly sessions: {
    /**
     * Creates a session. A server takes neither `gitRepository` nor `ttlSeconds`. Errors are those of
     * {@link Sessions.create}.
     *
     * @example
     * const session = await engine.sessions.create({ files: { '/a.txt': 'hello' } })
     */
    create(request?: Omit<SessionCreateRequest, 'gitRepository' | 'ttlSeconds'>): Promise<SessionApi>
    /**
     * A handle on an existing session. Errors are those of {@link Sessions.open}.
     *
     * @example
     * const { id } = await engine.sessions.create()
     * const session = await engine.sessions.open(id)
     */
    open(sessionId: string): Promise<SessionApi>
    /**
     * The information about a session, without a handle. Errors are those of {@link Sessions.get}.
     *
     * @example
     * const { tags } = await engine.sessions.get(session.id)
     */
    get(sessionId: string): Promise<SessionInfo>
    /**
     * A page of all sessions in order of creation. Errors are those of {@link Sessions.list}.
     *
     * @example
     * const { sessions } = await engine.sessions.list({ filter: 'task=42' })
     */
    list(request?: SessionListRequest): Promise<SessionPage>
    /**
     * Hides a session at once. Its forks keep all their data. Errors are those of {@link Sessions.delete}.
     *
     * @example
     * await engine.sessions.delete(session.id)
     */
    delete(sessionId: string): Promise<void>
  }
  /** The sources of the tenant. Only an engine in this process exports tars and reports jobs as they change. */
  readonly sources: Omit<PublicOf<Sources>, 'exportTar' | 'onJob'>
  /** The usage of the tenant. */
  readonly usage: Pick<TenantUsage, 'get' | 'metrics'>
  /**
   * The changes from one state to another, of any two sessions, checkpoints or bases. Errors are those of
   * {@link EngineScope.diff}.
   *
   * @example
   * const changes = engine.diff({ from: { sessionId: session.id, base: true }, to: { sessionId: session.id } })
   */
  diff(request: DiffRequest): PublicOf<Diff>
}
