import { isAbsolutePath, systemEnvironment } from './adapters/system/index.js'
import {
  createEngine,
  given,
  invalid,
  limits,
  memoryStorage,
  parseFlag,
  parseFunction,
  readList,
  Shape,
  type ApprovalOptions,
  type Authorize,
  type AutomaticCollectionOptions,
  type Budgets,
  type Engine,
  type Environment,
  type ImportOptions,
  type ProcessOptions,
  type LogEntry,
  type SecretOptions,
  type Storage,
} from './engine/index.js'

/** Options of {@link openEngine}. All are optional. */
export interface EngineOptions {
  /**
   * The storage of the engine: memory of this process by default, `levelStorage(directory)` from `forkspace/level`, or
   * your own.
   */
  readonly storage?: Storage
  /** Clock and randomness, for tests: see `forkspace/testing`. */
  readonly environment?: Environment
  /** The largest file, in bytes; 64 GiB by default, at most 2^53 − 1. */
  readonly maxFileBytes?: number
  /** The largest total size of the keys and values in one session's cache, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number
  /**
   * About how many bytes of a durable storage the engine caches in memory: 128 MiB by default, at least 1 MiB. The
   * engine evicts unused sessions and loads them again on their next use. Pending writes, open files, locks and the
   * handles that your code holds are extra.
   */
  readonly memoryBudgetBytes?: number
  /**
   * About how many bytes of changes the engine keeps in memory without a durable storage, for `session.at`,
   * `session.undo` and `session.history`: 64 MiB by default. The oldest changes of any session are dropped first.
   * 0 keeps none. A durable storage has its own history, and ignores this option.
   */
  readonly memoryHistoryBytes?: number
  /**
   * The largest total size of contents, in bytes: of the store, of each tenant and of each session. A write over a
   * budget fails with BUDGET and changes nothing. Reads and deletions still work, and `engine.collect()` frees space on
   * a durable storage. In memory, every byte that was written counts until the engine is closed. No limit by default.
   */
  readonly budgets?: Budgets
  /**
   * Runs {@link Engine.collect} automatically when enough of a durable storage is probably garbage. `true` means half
   * of the storage, and at least 64 MiB. The engine estimates the garbage after commits: the growth of the storage
   * since the last collection, plus a share for each deleted session and checkpoint. Until the first collection after
   * opening, the whole storage counts. A failure goes to `log`, and later commits try again. The option has no effect
   * on a storage that is not durable. Off by default.
   */
  readonly automaticCollection?: AutomaticCollectionOptions | boolean
  /**
   * Seconds without a read or change after which a session expires. The next access to an expired session, or
   * `engine.collect()`, deletes it. `sessions.create({ ttlSeconds })` overrides this for one session. Sessions never
   * expire by default.
   *
   * While the engine is open, it measures the time with the monotonic clock. Because the wall clock may be wrong, a
   * session that has already expired when the engine opens is kept for ten more minutes, or for its own time to live
   * if that is shorter.
   */
  readonly sessionTtlSeconds?: number
  /** The longest duration and the lowest transfer rate of import jobs. A slower job fails with DEADLINE_EXCEEDED. */
  readonly imports?: ImportOptions
  /** How the engine reaches git remotes. Without it, only public remotes that need no credentials work. */
  readonly git?: {
    /** Allows remotes on loopback and private addresses; refused by default. */
    readonly allowPrivateAddresses?: boolean
    /**
     * Returns the credentials for a remote, or undefined where there are none. They are never stored, and sent only
     * to the origin of the URL. The engine calls it when the remote asks for credentials, and at the start of each
     * job of a source with a `credentialsSecretId`.
     */
    readonly credentials?: (request: {
      /** The URL of the remote, without credentials. */
      readonly remoteUrl: string
      /** The `credentialsSecretId` of the source; '' when the source has none. */
      readonly credentialsSecretId: string
    }) => Promise<
      | {
          /** The name for HTTP basic authentication. */
          username: string
          /** The password or access token for HTTP basic authentication. */
          password: string
        }
      | undefined
    >
    /** Signs a commit: takes the bytes to sign as text, and returns the armoured signature. */
    readonly sign?: (payload: string) => Promise<string>
  }
  /**
   * The engine calls it before each operation, and allows the operation only if it returns `true`. It must be
   * synchronous: a promise is a refusal. Without it, every principal of a tenant may do everything.
   */
  readonly authorize?: Authorize
  /**
   * With `{ selfApproval: false }`, the principal that requested an approval cannot grant it. By default every
   * principal can.
   */
  readonly approvals?: ApprovalOptions
  /** Receives events that no call returns: failed writes, jobs, slow subscribers. The library prints nothing. */
  readonly log?: (entry: LogEntry) => void
  /**
   * The master key of secrets: 32 random bytes. Keep it apart from the storage. Without it, a durable storage refuses
   * secrets, and an engine in memory generates a key of its own.
   */
  readonly secrets?: SecretOptions
  /** Access to directories of this host. Without it, the engine refuses them. */
  readonly hostPaths?: {
    /**
     * Directories of this host that the engine may read and write, with everything below them: sources, local
     * repositories and `session.checkout`. None by default. The engine trusts users with
     * write access above a root. Users with write access below it cannot lead the engine outside.
     */
    readonly roots?: readonly string[]
  }
  /**
   * Lets archives and checkouts contain names that git or a file system treats as `.git`, such as `.GIT` and `git~1`,
   * and symlinks named `.gitmodules`. They are refused by default (UNSAFE_PATH), because a file `.git/config` can make
   * the next git command in its directory run any program. Git imports and commits always refuse such names. Sessions
   * can contain them, and exports write them.
   */
  readonly allowGitNames?: boolean
  /**
   * Allows `session.exec`, which runs programs of this host with the rights of this process. Off by default. It is
   * never available over HTTP.
   */
  readonly exec?: ProcessOptions
}

const optionsShape = new Shape<EngineOptions>({
  storage: true,
  environment: true,
  maxFileBytes: true,
  cacheBytes: true,
  memoryBudgetBytes: true,
  memoryHistoryBytes: true,
  budgets: true,
  automaticCollection: true,
  sessionTtlSeconds: true,
  git: true,
  authorize: true,
  log: true,
  secrets: true,
  hostPaths: true,
  imports: true,
  allowGitNames: true,
  exec: true,
  approvals: true,
})

const gitShape = new Shape<NonNullable<EngineOptions['git']>>({
  allowPrivateAddresses: true,
  credentials: true,
  sign: true,
})

const hostPathsShape = new Shape<NonNullable<EngineOptions['hostPaths']>>({ roots: true })

/** The options, which a caller may have mistaken for the storage. */
function optionsOf(options: EngineOptions): EngineOptions {
  if (
    typeof options === 'object' &&
    options !== null &&
    typeof (options as Partial<Storage>).open === 'function'
  )
    throw invalid(
      'options',
      'must be an object of options; it is a storage. Call openEngine({ storage }) with it',
    )
  return options
}

/**
 * Opens an engine. Close it when done, or declare it with `await using`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form.
 * @throws {EngineError} STORE_LOCKED when the directory of the storage is already open, in this process or another
 * one.
 * @throws {EngineError} STORE_FORMAT when the directory is not a store, or has a format that this version cannot
 * read.
 * @throws {EngineError} DATA_LOSS when stored data is missing or damaged.
 *
 * @example
 * const engine = await openEngine()
 * const session = await engine.sessions.create({ files: { '/a.txt': 'one' } })
 * const fork = await session.fork()
 * await fork.fs.promises.writeFile('/a.txt', 'two')
 * await engine.close()
 */
export async function openEngine(options: EngineOptions = {}): Promise<Engine> {
  const {
    storage = memoryStorage(),
    environment = systemEnvironment,
    maxFileBytes,
    cacheBytes,
    memoryBudgetBytes,
    memoryHistoryBytes,
    budgets,
    automaticCollection,
    sessionTtlSeconds,
    imports,
    allowGitNames = false,
    exec,
    authorize,
    approvals,
    log,
    secrets,
    ...rest
  } = optionsShape.read(optionsOf(options), 'options')
  const git = parseGit(rest.git)
  const roots = parseRoots(rest.hostPaths)
  const adapter = once(async () => {
    const { createGitAdapter } = await import('./adapters/git/index.js')
    return createGitAdapter({ ...git, hostPathRoots: roots })
  })
  return createEngine({
    storage,
    environment,
    ...(maxFileBytes !== undefined && { maxFileBytes }),
    ...(cacheBytes !== undefined && { cacheBytes }),
    ...(memoryBudgetBytes !== undefined && { memoryBudgetBytes }),
    ...(memoryHistoryBytes !== undefined && { memoryHistoryBytes }),
    ...(budgets !== undefined && { budgets }),
    ...(automaticCollection !== undefined && { automaticCollection }),
    ...(sessionTtlSeconds !== undefined && { sessionTtlSeconds }),
    ...(imports !== undefined && { imports }),
    ...(authorize !== undefined && { authorize }),
    ...(approvals !== undefined && { approvals }),
    ...(log !== undefined && { log }),
    allowGitNames,
    ...(exec !== undefined && { exec }),
    ...(secrets !== undefined && { secrets }),
    importer: async () => (await adapter()).importer,
    committer: async () => (await adapter()).committer,
    commitReader: async () => (await adapter()).commitReader,
    checkRemote: async (remote) => (await adapter()).checkRemote(remote),
    archives: once(async () => {
      const { createArchives } = await import('./adapters/archive/index.js')
      return createArchives({ allowGitNames })
    }),
    host: once(async () => {
      const { createHost } = await import('./adapters/host/index.js')
      return createHost({ roots })
    }),
    runProcess: once(async () => (await import('./adapters/host/index.js')).runProcess),
    reportReader: once(async () => {
      const { createReportReader } = await import('./adapters/junit/index.js')
      return createReportReader()
    }),
    bundleFiles: once(async () => {
      const { createBundleFiles } = await import('./adapters/car/index.js')
      return createBundleFiles()
    }),
  })
}

function parseGit(git: EngineOptions['git']): NonNullable<EngineOptions['git']> {
  if (git === undefined) return {}
  const copy = gitShape.readPart(git, 'git')
  parseFlag('git.allowPrivateAddresses', copy.allowPrivateAddresses, false)
  parseFunction('git.credentials', copy.credentials)
  parseFunction('git.sign', copy.sign)
  return copy
}

function parseRoots(hostPaths: EngineOptions['hostPaths']): readonly string[] {
  if (hostPaths === undefined) return []
  const { roots = [] } = hostPathsShape.readPart(hostPaths, 'hostPaths')
  return readList('hostPaths.roots', roots, limits.hostPathRoots, 'roots').map((root, index) => {
    if (typeof root === 'string' && isAbsolutePath(root)) return root
    const field = `hostPaths.roots[${index}]`
    throw invalid(field, `must be an absolute path, such as "/srv/projects"; it is ${given(root)}`)
  })
}

function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loaded: Promise<T> | undefined
  return () => (loaded ??= load())
}

export {
  AnnotationStatus,
  ConflictKind,
  MergePolicy,
  ApprovalStatus,
  BusScope,
  Checkout,
  Engine,
  EngineScope,
  EngineError,
  FileType,
  HealthStatus,
  ImportJobState,
  SegmentConflictPolicy,
  PosixFlockMode,
  PosixLockKind,
  Secret,
  SecretScope,
  Session,
  SessionStatus,
  Sessions,
  SourceKind,
  SourceStatus,
  StatusCode,
  UsageGranularity,
  capabilitiesOf,
  errorRegistry,
  formatMatches,
  formatNumberedLines,
  limits,
  memoryStorage,
} from './engine/index.js'
export type {
  Action,
  Annotation,
  AnnotationAddRequest,
  AnnotationStatusRequest,
  Approval,
  ApprovalDenyRequest,
  ApprovalGrantRequest,
  ApprovalOptions,
  ApprovalRequest,
  Authorize,
  AutomaticCollectionOptions,
  BatchOperation,
  Blame,
  BlameRange,
  BlameRequest,
  Budgets,
  BundleOptions,
  BusMessage,
  BusPublishRequest,
  BusSubscribeRequest,
  BusSubscription,
  ByteRange,
  CacheCompareAndSetRequest,
  CacheKeyPage,
  CacheKeysRequest,
  CacheMetadata,
  CachePutRequest,
  CacheReference,
  CacheStats,
  CacheSwap,
  CacheValue,
  Caller,
  Capability,
  CasExtent,
  CasMetrics,
  Change,
  ChangeBatch,
  ChangeWatch,
  ChangeWatchOptions,
  ChangedFile,
  CheckOptions,
  CheckReport,
  CheckoutOptions,
  CheckoutProgress,
  CheckoutSync,
  CheckoutUpdate,
  CheckoutUpdateOptions,
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointListRequest,
  CheckpointPage,
  CheckpointReference,
  CollectOptions,
  CollectProgress,
  CollectStage,
  Collected,
  CommitBundleRequest,
  CommitFileRequest,
  CommitIdentity,
  CommitListRequest,
  CommitPage,
  CommitReference,
  CommitSummary,
  CommonAncestor,
  ConflictContents,
  ConflictHunk,
  ConflictPage,
  ConflictReadRequest,
  ConflictResolveAllRequest,
  ConflictResolveRequest,
  ConflictSide,
  ConflictSideName,
  ContentIn,
  ContentStream,
  CopyFileRequest,
  CreateDirectoryRequest,
  CreateSymlinkRequest,
  DeleteRequest,
  Diff,
  DiffCounts,
  DiffFilesOptions,
  DiffPatchOptions,
  DiffRequest,
  DiffStats,
  DiffStatsOptions,
  DiffTarget,
  DirectoryEntry,
  DirectoryListRequest,
  DirectoryPage,
  Dirent,
  DraftResult,
  EditHunk,
  EngineApi,
  Environment,
  ErrorDetails,
  ErrorReason,
  EventFollowOptions,
  EventListRequest,
  EventOfApi,
  EventPage,
  EventPageOfApi,
  EventType,
  ExecConflict,
  ExecRequest,
  ExecResult,
  FileContent,
  FileForceUnlockRequest,
  FileLock,
  FileLockReference,
  FileLockRequest,
  FileReadRequest,
  FileReplaceRequest,
  FileWriteRequest,
  Finding,
  ForkRequest,
  FsPromises,
  GlobEntry,
  GlobOptions,
  GlobRequest,
  GlobResult,
  GrepFile,
  GrepLine,
  SearchOptions,
  GrepRequest,
  GrepResult,
  HashGuard,
  Health,
  HealthReport,
  HealthReportPage,
  HealthReportRequest,
  Hunk,
  ImportJob,
  ImportOptions,
  ImportStartRequest,
  JobProgress,
  JobListRequest,
  JobPage,
  JobReference,
  JsonObject,
  JsonValue,
  LayoutOptions,
  LineEnding,
  LineRange,
  LineageChild,
  LineageParent,
  LineageRequest,
  LinkRequest,
  LockWaitOptions,
  LogEntry,
  LogVerification,
  LogVerifyRequest,
  ManifestNode,
  ManifestPage,
  ManifestRequest,
  MasterKey,
  MatchedText,
  MemoryStorageOptions,
  MergeConflict,
  MergeOptions,
  MergePolicyRule,
  MergeResult,
  Merger,
  MergerInput,
  MergerRule,
  NamedCacheValue,
  NarrowRequest,
  NativeAction,
  NewStoredEvent,
  NumberedText,
  OperationName,
  PageRequest,
  PatchRequest,
  PatchSegmentsRequest,
  PatchedFile,
  PathChange,
  PathHistoryPage,
  PathHistoryRequest,
  PathStat,
  PosixFlockRequest,
  PosixGetRequest,
  PosixLock,
  PosixLockConflict,
  PosixLockOwner,
  PosixLockRange,
  PosixSetRequest,
  PosixUnlockRequest,
  Preview,
  ProcessOptions,
  ProcessResult,
  PromoteRequest,
  PruneRequest,
  PublicOf,
  ReadLinesRequest,
  ReadLinesResult,
  RebaseOptions,
  RefreshRequest,
  RemoveDirectoryRequest,
  RenameDetection,
  RenameRequest,
  Resource,
  RestoreRequest,
  RestoreResult,
  RevisionExportRequest,
  ScanRange,
  SecretInfo,
  SecretOptions,
  SecretPutRequest,
  SecretReference,
  SegmentChunk,
  SegmentWriteRequest,
  SessionAnalytics,
  SessionAnnotations,
  SessionApi,
  SessionApprovals,
  SessionBus,
  SessionCache,
  SessionCommit,
  SessionCommitRequest,
  SessionCommits,
  SessionConflicts,
  SessionCounts,
  SessionCreateRequest,
  SessionDraft,
  SessionEvent,
  SessionEvents,
  SessionExportRequest,
  SessionFileLocks,
  SessionFiles,
  SessionFs,
  SessionHealth,
  SessionInfo,
  SessionLineage,
  SessionListRequest,
  SessionPage,
  SessionParent,
  SessionPosixLocks,
  SessionSecrets,
  SessionText,
  SessionView,
  SessionViewApi,
  SetAttributesRequest,
  SetXattrRequest,
  SharedDirectory,
  SideNames,
  SimilarFiles,
  Source,
  SourceCreateRequest,
  SourceListRequest,
  SourcePage,
  Sources,
  StatRequest,
  StateName,
  StateReference,
  StatusName,
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
  StoreFinding,
  StoredBlob,
  StoredBlobSize,
  StoredEvent,
  StringMap,
  SymlinkListRequest,
  SymlinkPage,
  SyncOptions,
  SystemError,
  TenantUsage,
  TextEdit,
  TextEditRequest,
  TextEditResult,
  TextLine,
  UndoRequest,
  UndoResult,
  Usage,
  UsageRequest,
  ViewDiffTarget,
  ViewFiles,
  WaitOptions,
  WatchOptions,
  WatchQueueOptions,
  Whitespace,
  WriteRequest,
  XattrRequest,
} from './engine/index.js'
