/** The entry point of the engine for the package and adapters: everything public, and `createEngine`. */
export { createEngine } from './create-engine.js'
export {
  EngineError,
  errorRegistry,
  StatusCode,
  invalid,
  type ErrorDetails,
  type ErrorReason,
  type StatusName,
} from './base/errors.js'
export type { Environment } from './base/environment.js'
export type { LogEntry } from './base/log.js'
export type { JsonObject, JsonValue } from './base/json-object.js'
export {
  given,
  kindOf,
  oneOf,
  parseFlag,
  parseFunction,
  readEntries,
  readList,
  type StringMap,
} from './base/input.js'
export { limits } from './base/limits.js'
export { Shape, type NamesOf } from './base/shape.js'
export { version } from './base/version.js'
export type { PageRequest } from './base/paging.js'
export { Engine, EngineScope, Sessions } from './facade/engine.js'
export type { DiffRequest, EngineApi, SessionCreateRequest } from './facade/engine-api.js'
export type { SessionFiles } from './facade/files.js'
export type { SessionText } from './facade/text.js'
export type { TextEdit, TextEditRequest, TextEditResult } from './session/edits/text-edit.js'
export type { PatchedFile } from './session/edits/patched-file.js'
export type { PatchRequest } from './session/edits/text-patch.js'
export type { GlobEntry, GlobRequest, GlobResult } from './session/search/find-paths.js'
export type {
  GrepFile,
  GrepLine,
  SearchOptions,
  GrepRequest,
  GrepResult,
} from './session/search/grep-request.js'
export type { ReadLinesRequest, ReadLinesResult, TextLine } from './session/search/read-lines.js'
export type { LineRange } from './text/changed-ranges.js'
export { compileRegularExpression, loadRegularExpressions } from './text/regular-expression.js'
export { parseCheckout } from './services/checkouts/checkout-requests.js'
export type { EditHunk } from './text/edit-hunks.js'
export { formatMatches, formatNumberedLines, type MatchedText, type NumberedText } from './text/line-text.js'
export type { LineEnding } from './text/byte-text.js'
export type { Whitespace } from './text/edit-text.js'
export type { RevisionExportRequest, Sources } from './facade/sources.js'
export type { SessionEvents } from './facade/events.js'
export type {
  EventFollowOptions,
  EventListRequest,
  EventPage,
  LogVerification,
  LogVerifyRequest,
  SessionEvent,
} from './session/history/event-log.js'
export type { ChangeBatch, ChangeWatch, ChangeWatchOptions } from './session/history/change-watch.js'
export type { NarrowRequest } from './session/access/permissions.js'
export type { SessionFileLocks } from './facade/file-locks.js'
export type { SessionPosixLocks } from './facade/posix-locks.js'
export { Session, type DiffTarget, type SessionExportRequest } from './facade/session.js'
export type {
  EventOfApi,
  EventPageOfApi,
  PublicOf,
  SessionAnalytics,
  SessionApi,
  SessionViewApi,
} from './facade/session-api.js'
export type { GlobOptions } from './fs/glob.js'
export type { Dirent } from './fs/stats.js'
export type { FsPromises, SessionFs } from './fs/types.js'
export type { WatchQueueOptions } from './fs/watch-iterator.js'
export type { SystemError } from './fs/errors.js'
export { type AnnotationAddRequest, type AnnotationStatusRequest } from './services/annotations.js'
export { AnnotationStatus, type Annotation } from './records/annotation.js'
export {
  type ApprovalOptions,
  type ApprovalDenyRequest,
  type ApprovalGrantRequest,
  type ApprovalRequest,
} from './services/approvals.js'
export type { AutomaticCollectionOptions } from './services/gc/automatic-collection.js'
export { ApprovalStatus, type Approval } from './records/approval.js'
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
export { checkStore, type CheckOptions, type CheckReport } from './services/check/check.js'
export type { Finding } from './services/check/findings.js'
export { repairStore, type RepairReport } from './services/repair/repair.js'
export type { Dropped } from './services/repair/context.js'
export type { Collected, CollectOptions, CollectProgress } from './services/gc/collection.js'
export type { CollectStage } from './services/gc/run.js'
export type { EventType } from './records/event.js'
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
  CheckoutUpdateOptions,
  LayoutOptions,
  SharedDirectory,
  SyncOptions,
} from './services/checkouts/checkout-requests.js'
export type { ExecConflict, ExecResult } from './facade/exec.js'
export type { ExecRequest } from './services/checkouts/exec-request.js'
export type { ProcessResult } from './services/checkouts/process-ports.js'
export type { ProcessOptions } from './services/checkouts/processes.js'
export type { CheckoutProgress } from './services/checkouts/checkout-write.js'
export type { CommitSummary } from './services/sources/commit-summary.js'
export { type HealthReportPage, type HealthReportRequest } from './services/health.js'
export { HealthStatus, type Health, type HealthReport } from './records/health-report.js'
export type { SessionCommits } from './facade/commits.js'
export type {
  CommitBundleRequest,
  CommitFileRequest,
  CommitListRequest,
  CommitPage,
  CommitReference,
  SessionCommit,
} from './services/sources/kept-commits.js'
export type { SessionHealth } from './facade/health.js'
export type { SessionConflicts } from './facade/conflicts.js'
export { ConflictKind, type SideNames } from './records/merge.js'
export { MergePolicy, type Merger, type MergerInput } from './services/merge/merge-policies.js'
export type {
  ConflictReadRequest,
  ConflictResolveAllRequest,
  ConflictResolveRequest,
  ConflictSideName,
  MergeOptions,
  MergePolicyRule,
  MergerRule,
  RebaseOptions,
} from './services/merge/merge-requests.js'
export type {
  ConflictContents,
  ConflictHunk,
  ConflictSide,
  MergeConflict,
} from './services/merge/conflict-sides.js'
export type { ConflictPage, MergeResult } from './services/merge/merges.js'
export { Secret } from './services/secrets/secret.js'
export type { MasterKey, SecretOptions } from './services/secrets/secret-keys.js'
export { SecretScope } from './records/secret.js'
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
} from './services/locks/posix-lock-requests.js'
export type { PosixLockConflict } from './services/locks/posix-locks.js'
export type { Budgets } from './storage/byte-budgets.js'
export type { CommitIdentity } from './services/sources/git-ports.js'
export type { JobReference, WaitOptions, WatchOptions } from './services/sources/job-requests.js'
export type { JobProgress } from './services/sources/jobs.js'
export { type Source } from './services/sources/source-records.js'
export { ImportJobState, type ImportJob } from './records/import-job.js'
export { SourceKind, SourceStatus } from './records/source.js'
export type {
  ImportStartRequest,
  RefreshRequest,
  SourceCreateRequest,
} from './services/sources/source-requests.js'
export type { ImportOptions } from './services/sources/job-limits.js'
export type { ContentIn } from './services/sources/source-ports.js'
export type { JobListRequest, JobPage } from './services/sources/job-listing.js'
export type { PromoteRequest, SourceListRequest, SourcePage } from './services/sources/sources.js'
export {
  SegmentConflictPolicy,
  type BatchOperation,
  type PatchSegmentsRequest,
} from './session/edits/batch.js'
export type {
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointListRequest,
  CheckpointPage,
  CheckpointReference,
  PruneRequest,
} from './session/checkpoints.js'
export type { DeleteRequest } from './session/edits/delete.js'
export type { CreateDirectoryRequest, RemoveDirectoryRequest } from './session/edits/directories.js'
export type { RenameRequest } from './session/edits/rename.js'
export type { SetAttributesRequest } from './session/edits/attributes.js'
export type { CopyFileRequest } from './session/edits/copies.js'
export type { DirectoryEntry, DirectoryListRequest, DirectoryPage } from './session/reads/directory.js'
export type { PathStat, StatRequest } from './session/reads/stat.js'
export type { CasExtent } from './session/reads/extents.js'
export type { HashGuard } from './session/edits/guards.js'
export type { CreateSymlinkRequest, LinkRequest } from './session/edits/links.js'
export type { SegmentChunk, SegmentWriteRequest } from './session/edits/segments.js'
export type { SetXattrRequest, XattrRequest } from './session/edits/xattrs.js'
export type {
  FileContent,
  FileReplaceRequest,
  FileWriteRequest,
  WriteRequest,
} from './session/edits/writes.js'
export type { ContentStream, FileReadRequest } from './session/reads/content-stream.js'
export {
  FileType,
  type ManifestNode,
  type ManifestPage,
  type ManifestRequest,
  type SymlinkListRequest,
  type SymlinkPage,
} from './session/reads/manifest.js'
export { capabilitiesOf, type Action, type OperationName } from './operations/index.js'
export type { NativeAction } from './operations/native.js'
export type { Capability } from './operations/operation.js'
export type { Caller } from './session/access/permissions.js'
export type { Authorize, Resource } from './session/access/permissions.js'
export { SessionStatus } from './records/session.js'
export type {
  ForkRequest,
  SessionInfo,
  SessionListRequest,
  SessionPage,
  SessionParent,
} from './session/sessions.js'
export type { StateName, StateReference } from './session/states.js'
export type { ChangedFile, DiffCounts, DiffStats } from './session/diffs/changed-file.js'
export type { Diff } from './session/diffs/diff.js'
export type {
  DiffFilesOptions,
  DiffPatchOptions,
  DiffStatsOptions,
  RenameDetection,
  SimilarFiles,
} from './session/diffs/options.js'
export type { Hunk } from './text/hunks.js'
export type { Change } from './session/tree-changes.js'
export type { RestoreRequest, RestoreResult } from './session/restore.js'
export type { Blame, BlameRange, BlameRequest } from './session/history/blame.js'
export type { PathChange, PathHistoryPage, PathHistoryRequest } from './session/history/path-history.js'
export type {
  CommonAncestor,
  LineageChild,
  LineageParent,
  LineageRequest,
  SessionLineage,
} from './services/merge/session-lineage.js'
export type { Preview } from './session/preview.js'
export type { UndoRequest, UndoResult } from './session/undo.js'
export type { SessionDraft } from './facade/session-draft.js'
export type { DraftResult } from './services/merge/draft-changes.js'
export type { SessionView, ViewDiffTarget, ViewFiles } from './facade/session-view.js'
export { memoryStorage, type MemoryStorageOptions } from './storage/memory-store.js'
export type {
  ByteRange,
  ScanRange,
  Storage,
  Store,
  HeadMove,
  SharedCapability,
  SharedStore,
  Acknowledgement,
  SessionInStore,
  SessionRecords,
  CollectionEpoch,
  CollectionStage,
  SweptObjects,
  StoreCapabilities,
  StoreCommit,
  StoredBlob,
  StoredBlobSize,
  StoredEvent,
  NewStoredEvent,
  StoreFinding,
} from './storage/store.js'
