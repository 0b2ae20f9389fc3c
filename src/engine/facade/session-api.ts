import type { PageRequest } from '../base/paging.js'
import type { Health } from '../records/health-report.js'
import type { SessionCounts } from '../services/analytics.js'
import type { BusPublishRequest, BusSubscribeRequest } from '../services/bus/bus-requests.js'
import type { BusSubscription } from '../services/bus/bus-subscription.js'
import type { CommitSummary } from '../services/sources/commit-summary.js'
import type { SessionCommitRequest } from '../services/sources/commits.js'
import type {
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointPage,
  CheckpointReference,
  PruneRequest,
} from '../session/checkpoints.js'
import type { SessionEvent } from '../session/history/event-log.js'
import type { ManifestPage, ManifestRequest } from '../session/reads/manifest.js'
import type { ForkRequest, SessionInfo } from '../session/sessions.js'
import type { Diff, StateReference } from '../session/states.js'
import type { SessionAnnotations } from './annotations.js'
import type { SessionApprovals } from './approvals.js'
import type { SessionCache } from './cache.js'
import type { SessionFileLocks } from './file-locks.js'
import type { SessionFiles } from './files.js'
import type { SessionHealth } from './health.js'
import type { SessionPosixLocks } from './posix-locks.js'
import type { SessionSecrets } from './secrets.js'

/** The public members of a class, which another class can implement too. */
export type PublicOf<Class> = Pick<Class, keyof Class>

export interface SessionAnalytics extends SessionCounts {
  readonly sessionId: string
  /** As `session.health.get()` has it. */
  readonly lastReportedHealth: Health
}

/** An event. A server does not say which principal caused it. */
export type EventOfApi = Omit<SessionEvent, 'principal'> & Partial<Pick<SessionEvent, 'principal'>>

export interface EventPageOfApi {
  /** Oldest first. */
  readonly events: readonly EventOfApi[]
  readonly nextPageToken: string
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
  readonly id: string
  readonly files: PublicOf<SessionFiles>
  readonly annotations: PublicOf<SessionAnnotations>
  readonly approvals: PublicOf<SessionApprovals>
  readonly cache: PublicOf<SessionCache>
  readonly fileLocks: PublicOf<SessionFileLocks>
  readonly posixLocks: PublicOf<SessionPosixLocks>
  readonly health: PublicOf<SessionHealth>
  readonly secrets: PublicOf<SessionSecrets>
  readonly bus: {
    publish(request: BusPublishRequest): Promise<unknown>
    subscribe(request?: BusSubscribeRequest): BusSubscription
  }
  readonly events: AsyncIterable<EventOfApi> & {
    list(request?: PageRequest): Promise<EventPageOfApi>
  }
  get(): Promise<SessionInfo>
  analytics(): Promise<SessionAnalytics>
  flush(): Promise<void>
  delete(): Promise<void>
  fork(request?: ForkRequest): Promise<SessionApi>
  checkpoint(request?: CheckpointCreateRequest): Promise<Checkpoint>
  listCheckpoints(request?: PageRequest): Promise<CheckpointPage>
  deleteCheckpoint(request: CheckpointReference): Promise<void>
  pruneCheckpoints(request: PruneRequest): Promise<{ deletedCount: number }>
  restore(request: CheckpointReference): Promise<SessionInfo>
  manifest(request?: ManifestRequest): Promise<ManifestPage>
  diff(against?: StateReference | 'base'): PublicOf<Diff>
  commit(request: SessionCommitRequest): Promise<{ commitId: string }>
  generateCommitSummary(): Promise<CommitSummary>
}
