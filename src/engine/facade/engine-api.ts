import type { StringMap } from '../base/input.js'
import type { FileContent } from '../session/edits/writes.js'
import type { SessionListRequest, SessionPage } from '../session/sessions.js'
import type { SessionInfo } from '../session/sessions.js'
import type { Diff, StateReference } from '../session/states.js'
import type { PublicOf, SessionApi } from './session-api.js'
import type { Sources } from './sources.js'
import type { TenantUsage } from './usage.js'

/** At most one of `sourceRef`, `files` and `gitRepository`; without one the session starts blank. */
export interface SessionCreateRequest {
  /** A revision of a source; `revisionId` '' or absent is the latest. */
  readonly sourceRef?: { readonly sourceId: string; readonly revisionId?: string }
  /** Paths and contents. */
  readonly files?: Readonly<Record<string, FileContent>>
  /** A repository on this host, below one of `hostPaths.roots`: a source is made and imported. */
  readonly gitRepository?: { readonly path: string; readonly gitRef?: string }
  readonly initialTags?: StringMap
  /**
   * The session is deleted after this many seconds without a read or change, and each of its forks likewise, by its
   * own activity; absent: the engine's default.
   */
  readonly ttlSeconds?: number
}

export interface DiffRequest {
  readonly from: StateReference
  readonly to: StateReference
}

/**
 * The sessions, sources and usage of a tenant, in this process or on a server: the members that both have.
 * `EngineScope`, `Engine` and the client's `RemoteEngine` implement it, and describe each member.
 *
 * @example
 * const engine: EngineApi = process.env.SERVER ? connect({ baseUrl: process.env.SERVER }) : await openEngine()
 */
export interface EngineApi {
  readonly sessions: {
    /** A server takes neither `gitRepository` nor `ttlSeconds`. */
    create(request?: Omit<SessionCreateRequest, 'gitRepository' | 'ttlSeconds'>): Promise<SessionApi>
    open(sessionId: string): Promise<SessionApi>
    get(sessionId: string): Promise<SessionInfo>
    list(request?: SessionListRequest): Promise<SessionPage>
    delete(sessionId: string): Promise<void>
  }
  /** Only an engine in this process exports tars and reports jobs as they change. */
  readonly sources: Omit<PublicOf<Sources>, 'exportTar' | 'onJob'>
  readonly usage: Pick<TenantUsage, 'get' | 'metrics'>
  diff(request: DiffRequest): PublicOf<Diff>
}
