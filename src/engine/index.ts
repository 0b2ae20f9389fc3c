/** The engine's door for the composition root: everything public, and how to put an engine together. */
import type { Environment } from './base/environment.js'
import { EngineError, invalid } from './base/errors.js'
import { IdSource } from './base/ids.js'
import { limits } from './base/limits.js'
import { logTo, type LogEntry } from './base/log.js'
import { ContentStore } from './cas/content.js'
import { Engine, type EngineServices } from './facade/engine.js'
import { endSession } from './facade/session.js'
import { Analytics } from './services/analytics.js'
import { Annotations } from './services/annotations.js'
import { Approvals } from './services/approvals.js'
import type { BundleFiles } from './services/bundles/bundle-ports.js'
import { Bundles } from './services/bundles/bundles.js'
import { CacheService } from './services/cache/cache.js'
import { Collection } from './services/maintenance/collection.js'
import { Checkouts } from './services/checkouts/checkouts.js'
import { MessageBus } from './services/bus/bus.js'
import { Commits } from './services/sources/commits.js'
import { FileLocks } from './services/locks/file-locks.js'
import { HealthReports } from './services/health.js'
import type { Committer, GitRemote, Importer } from './services/sources/git-ports.js'
import type { Host } from './services/sources/host-ports.js'
import type { Archives } from './services/sources/source-ports.js'
import { UsageMeter } from './services/usage.js'
import { PosixLocks } from './services/locks/posix-locks.js'
import type { ReportReader } from './services/report-ports.js'
import { parseSecretOptions, randomKeyRing, type SecretOptions } from './services/secrets/secret-keys.js'
import { Secrets } from './services/secrets/secrets.js'
import { SourceService } from './services/sources/sources.js'
import { TreeExports } from './services/sources/tree-exports.js'
import { parseTtl } from './session/expiry.js'
import type { Authorize } from './session/permissions.js'
import { coreFor, discardAll, localCaller, type SharedCore } from './session/core.js'
import type { LiveSession } from './session/live.js'
import { Residency } from './session/residency.js'
import { countSession } from './session/session-count.js'
import { ByteBudgets, parseBudgets, type Budgets } from './storage/byte-budgets.js'
import { meteredStores } from './storage/metered-store.js'
import { noting, RecentWrites } from './storage/recent-writes.js'
import { Fence, fenced } from './storage/recovering-store.js'
import type { Storage } from './storage/store.js'
import { ContentIds } from './tree/content-id.js'
import { StoreLoader } from './tree/loader.js'
import { NodeCache } from './tree/node-cache.js'
import { RootStore } from './tree/roots.js'

export interface EngineParts {
  readonly storage: Storage
  readonly environment: Environment
  readonly maxFileBytes?: number
  /** Told of what no caller is told of. */
  readonly log?: (entry: LogEntry) => void
  /** Keys and values of a session's cache together. */
  readonly cacheBytes?: number
  /** What is kept in memory, on a durable store, of what that has already; roughly. */
  readonly memoryBudgetBytes?: number
  /** Whether a principal may do something; everything is allowed by default. */
  readonly authorize?: Authorize
  /** After how long without use sessions are deleted; never by default. */
  readonly sessionTtlSeconds?: number
  /** How much may be kept; as much as fits by default. */
  readonly budgets?: Budgets
  /** Adapters, loaded when they are first needed. */
  readonly importer?: () => Promise<Importer>
  readonly committer?: () => Promise<Committer>
  readonly archives?: () => Promise<Archives>
  readonly host?: () => Promise<Host>
  readonly reportReader?: () => Promise<ReportReader>
  readonly bundleFiles?: () => Promise<BundleFiles>
  /** Throws when a source with this remote must not be created. */
  readonly checkRemote?: (remote: GitRemote) => Promise<void>
  /** Without a master key, secrets work only on a storage that is not durable. */
  readonly secrets?: SecretOptions
}

/** Puts an engine together from its parts and recovers what an earlier process left. */
export async function createEngine(parts: EngineParts): Promise<Engine> {
  const { environment, maxFileBytes = limits.fileBytes, cacheBytes = limits.cacheBytes } = parts
  if (!Number.isSafeInteger(maxFileBytes) || maxFileBytes < 0)
    throw invalid('maxFileBytes', 'must be a whole number from 0 to 2^53 − 1')
  if (!Number.isSafeInteger(cacheBytes) || cacheBytes < 0)
    throw invalid('cacheBytes', 'must be a whole number from 0 to 2^53 − 1')
  const { memoryBudgetBytes = limits.memoryBudgetBytes } = parts
  if (!Number.isSafeInteger(memoryBudgetBytes) || memoryBudgetBytes < limits.memoryBudgetMinBytes)
    throw invalid('memoryBudgetBytes', 'must be a whole number from 2^20 to 2^53 − 1')
  if (typeof parts.storage?.open !== 'function')
    throw invalid('storage', 'must be a storage, for example levelStorage(directory)')
  const budgets = parseBudgets(parts.budgets)
  const sessionTtlSeconds = parseTtl('sessionTtlSeconds', parts.sessionTtlSeconds)
  const keyRing = parseSecretOptions(parts.secrets)
  const writes = new RecentWrites()
  const opened = await parts.storage.open()
  const log = logTo(parts.log)
  const fence = new Fence(opened, environment, log)
  const store = fenced(opened.capabilities.durable ? noting(opened, writes) : opened, fence)
  const budget = store.capabilities.durable ? memoryBudgetBytes : Number.POSITIVE_INFINITY
  const ids = new IdSource(environment)
  const content = new ContentStore(store, environment, budget / 4)
  const nodes = new NodeCache(budget / 2)
  const loader = new StoreLoader(store, nodes)
  const live = new Map<string, LiveSession>()
  const byteBudgets =
    Object.keys(budgets).length === 0 ? undefined : new ByteBudgets(budgets, store.capabilities.durable)
  const shared: SharedCore = {
    storeOf: meteredStores(store, environment, ids, byteBudgets),
    fence,
    environment,
    log,
    ids,
    content,
    loader,
    contentIds: new ContentIds(content, loader),
    roots: new RootStore(store, { environment, ids, nodes, loader }),
    maxFileBytes,
    onOpen: budgets.sessionBytes === undefined ? undefined : countSession,
    sessionBytes: budgets.sessionBytes,
    sessionTtlSeconds,
    expire: (caller, sessionId) => endSession(caller, services, sessionId),
    authorize: parts.authorize,
    live,
    residency: new Residency(live, budget / 4),
    deleting: new Set(),
    draining: new Map(),
    dropped: new Map(),
    arriving: new Set(),
    writes,
    background: new Set(),
  }
  // Sessions that were read while the store had not recovered may be behind it.
  fence.onChange(
    () => discardAll(shared),
    () => discardAll(shared),
  )
  const core = coreFor(shared, localCaller)
  const sources = new SourceService({
    importer: parts.importer ?? missing('importer'),
    archives: parts.archives ?? missing('archives'),
    host: parts.host ?? missing('host'),
    checkRemote: parts.checkRemote ?? (() => Promise.resolve()),
  })
  const commits = new Commits({
    committer: parts.committer ?? missing('committer'),
    remoteOf: (caller, sourceId) => sources.remoteOf(caller, sourceId),
  })
  const annotations = new Annotations()
  const approvals = new Approvals()
  const bundles = new Bundles({
    files: parts.bundleFiles ?? missing('bundleFiles'),
    facts: [annotations.facts, approvals.facts],
    revision: (caller, sourceId, revisionId) => sources.findBaseline(caller, sourceId, revisionId),
  })
  try {
    await sources.recover(core)
  } catch (error) {
    await store.close()
    throw error
  }
  const services: EngineServices = {
    sources,
    analytics: new Analytics(),
    annotations,
    approvals,
    bundles,
    cache: new CacheService({ maxBytes: cacheBytes }),
    bus: new MessageBus(),
    checkouts: new Checkouts(parts.host ?? missing('host')),
    collection: new Collection(),
    commits,
    exports: new TreeExports(parts.archives ?? missing('archives')),
    fileLocks: new FileLocks(),
    health: new HealthReports(parts.reportReader ?? missing('reportReader')),
    posixLocks: new PosixLocks(),
    usage: new UsageMeter(),
    secrets: new Secrets(keyRing.usable || store.capabilities.durable ? keyRing : randomKeyRing(environment)),
  }
  return new Engine(core, services)
}

function missing(name: string): () => Promise<never> {
  return () =>
    Promise.reject(new EngineError('NO_ADAPTER', `the engine was opened without an adapter: ${name}`))
}

export {
  EngineError,
  errorRegistry,
  StatusCode,
  type ErrorDetails,
  type ErrorReason,
  type StatusName,
} from './base/errors.js'
export type { Environment } from './base/environment.js'
export type { LogEntry } from './base/log.js'
export type { StringMap } from './base/input.js'
export { limits } from './base/limits.js'
export { version } from './base/version.js'
export type { PageRequest } from './base/paging.js'
export { Engine, EngineScope, Sessions, type SessionCreateRequest } from './facade/engine.js'
export type { SessionFiles } from './facade/files.js'
export type { RevisionExportRequest, Sources } from './facade/sources.js'
export type { SessionEvents } from './facade/events.js'
export type {
  EventListRequest,
  EventPage,
  LogVerification,
  LogVerifyRequest,
  SessionEvent,
} from './session/event-log.js'
export type { SessionFileLocks } from './facade/file-locks.js'
export type { SessionPosixLocks } from './facade/posix-locks.js'
export {
  Session,
  type DiffTarget,
  type SessionAnalytics,
  type SessionExportRequest,
} from './facade/session.js'
export type { GlobOptions } from './fs/glob.js'
export type { FsPromises, SessionFs } from './fs/types.js'
export type { WatchQueueOptions } from './fs/watch-iterator.js'
export type { SystemError } from './fs/errors.js'
export {
  AnnotationStatus,
  type Annotation,
  type AnnotationAddRequest,
  type AnnotationStatusRequest,
} from './services/annotations.js'
export { ApprovalStatus, type Approval, type ApprovalRequest } from './services/approvals.js'
export type { BundleOptions } from './services/bundles/bundles.js'
export type { SessionAnnotations } from './facade/annotations.js'
export type { SessionApprovals } from './facade/approvals.js'
export { UsageGranularity, type CasMetrics, type Usage, type UsageRequest } from './services/usage.js'
export type { SessionCounts } from './services/analytics.js'
export type { TenantUsage } from './facade/usage.js'
export type { SessionCache } from './facade/cache.js'
export type {
  CacheCompareAndSetRequest,
  CacheKeyPage,
  CacheKeysRequest,
  CacheMetadata,
  CachePutRequest,
  CacheReference,
  CacheStats,
  CacheSwap,
  CacheValue,
  NamedCacheValue,
} from './services/cache/cache-requests.js'
export { checkStore, type CheckOptions, type CheckReport } from './services/maintenance/check.js'
export type { Finding } from './services/maintenance/check-findings.js'
export { repairStore, type RepairReport } from './services/maintenance/repair.js'
export type { Dropped } from './services/maintenance/repair-sessions.js'
export type { Collected, CollectOptions, CollectProgress } from './services/maintenance/collection.js'
export type { SessionBus } from './facade/bus.js'
export {
  BusScope,
  type BusMessage,
  type BusPublishRequest,
  type BusSubscribeRequest,
} from './services/bus/bus-requests.js'
export type { BusSubscription } from './services/bus/bus-subscription.js'
export { Checkout } from './facade/checkout.js'
export type {
  CheckoutOptions,
  CheckoutSync,
  CheckoutUpdate,
  SyncOptions,
} from './services/checkouts/checkouts.js'
export type { CheckoutProgress } from './services/checkouts/checkout-write.js'
export type { CommitSummary } from './services/sources/commit-summary.js'
export {
  HealthStatus,
  type Health,
  type HealthReport,
  type HealthReportPage,
  type HealthReportRequest,
} from './services/health.js'
export type { SessionHealth } from './facade/health.js'
export { Secret } from './services/secrets/secret.js'
export type { MasterKey, SecretOptions } from './services/secrets/secret-keys.js'
export { SecretScope } from './services/secrets/secret-records.js'
export type { SecretInfo, SecretPutRequest, SecretReference } from './services/secrets/secrets.js'
export type { SessionSecrets } from './facade/secrets.js'
export type { SessionCommitRequest } from './services/sources/commits.js'
export type {
  FileForceUnlockRequest,
  FileLock,
  FileLockReference,
  FileLockRequest,
} from './services/locks/file-locks.js'
export {
  PosixFlockMode,
  PosixLockKind,
  type LockWaitOptions,
  type PosixFlockRequest,
  type PosixGetRequest,
  type PosixLock,
  type PosixLockOwner,
  type PosixLockRange,
  type PosixSetRequest,
  type PosixUnlockRequest,
} from './services/locks/lock-requests.js'
export type { PosixLockConflict } from './services/locks/posix-locks.js'
export type { Budgets } from './storage/byte-budgets.js'
export type { CommitIdentity } from './services/sources/git-ports.js'
export type { JobProgress, JobReference, WaitOptions, WatchOptions } from './services/sources/jobs.js'
export {
  ImportJobState,
  SourceKind,
  SourceStatus,
  type ImportJob,
  type Source,
} from './services/sources/source-records.js'
export type {
  ImportStartRequest,
  RefreshRequest,
  SourceCreateRequest,
} from './services/sources/source-requests.js'
export type { ContentIn } from './services/sources/source-ports.js'
export type { PromoteRequest, SourceListRequest, SourcePage } from './services/sources/sources.js'
export { SegmentConflictPolicy, type BatchOperation, type PatchSegmentsRequest } from './session/batch.js'
export type { Checkpoint, CheckpointPage, CheckpointReference } from './session/checkpoints.js'
export type {
  CreateDirectoryRequest,
  DeleteRequest,
  RemoveDirectoryRequest,
  RenameRequest,
} from './session/files.js'
export type { SetAttributesRequest } from './session/attributes.js'
export type { CopyFileRequest } from './session/copies.js'
export type { DirectoryEntry, DirectoryListRequest, DirectoryPage } from './session/directory.js'
export type { PathStat, StatRequest } from './session/stat.js'
export type { CasExtent } from './session/extents.js'
export type { HashGuard } from './session/guards.js'
export type { CreateSymlinkRequest, LinkRequest } from './session/links.js'
export type { SegmentChunk, SegmentWriteRequest } from './session/segments.js'
export type { SetXattrRequest, XattrRequest } from './session/xattrs.js'
export type { FileContent, FileWriteRequest, WriteRequest } from './session/writes.js'
export {
  FileType,
  type ManifestNode,
  type ManifestPage,
  type ManifestRequest,
  type SymlinkPage,
} from './session/manifest.js'
export type { Action } from './operations/index.js'
export type { Capability } from './operations/operation.js'
export type { Caller } from './session/core.js'
export type { Authorize, Resource } from './session/permissions.js'
export { SessionStatus } from './session/records.js'
export type { ForkRequest, SessionInfo, SessionListRequest, SessionPage } from './session/sessions.js'
export type { Change, Diff, StateReference } from './session/states.js'
export { memoryStorage, type MemoryStorageOptions } from './storage/memory-store.js'
export type {
  ByteRange,
  ScanRange,
  Storage,
  Store,
  StoreCapabilities,
  StoreCommit,
  StoredBlob,
  StoredBlobSize,
  StoredEvent,
} from './storage/store.js'
