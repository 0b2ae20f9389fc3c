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
  type LogEntry,
  type SecretOptions,
  type Storage,
} from './engine/index.js'

export interface EngineOptions {
  /** Where the engine keeps everything: this process' memory by default, `levelStorage(directory)` from `forkspace/level`, or your own. */
  readonly storage?: Storage
  /** Clock and randomness, for tests: see `forkspace/testing`. */
  readonly environment?: Environment
  /** The largest file, in bytes; 64 GiB by default, at most 2^53 − 1. */
  readonly maxFileBytes?: number
  /** Keys and values of a session's cache together, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number
  /**
   * About how much of what a durable storage has the engine keeps in memory beside: 128 MiB by default, at least
   * 1 MiB. Sessions that nobody uses leave memory, and come back when they are used. What is being written, open
   * files and locks, and whatever handles are held, comes on top.
   */
  readonly memoryBudgetBytes?: number
  /**
   * How many bytes of contents may be kept, by all, by each tenant, by each session. What would be too much is BUDGET,
   * with nothing changed; reads, deletions and `engine.collect()`, which makes room, go on. As much as fits by default.
   */
  readonly budgets?: Budgets
  /**
   * Collects as {@link Engine.collect} does, without a call, when enough of a durable storage is probably garbage.
   * `true` means half of the storage, and at least 64 MiB. The engine estimates the garbage after commits: the growth
   * of the storage since the last collection, and a share for each deleted session and checkpoint. Until the first
   * collection after the opening the whole storage counts. A failure goes to `log`, and later commits try again. On a
   * storage that is not durable it has no effect. Off by default.
   */
  readonly automaticCollection?: AutomaticCollectionOptions | boolean
  /**
   * After how many seconds without a read or change a session is deleted: when it is next asked for, or by
   * `engine.collect()`. Time in this process is that of the monotonic clock. A session whose time was over when the
   * engine was opened is kept for ten minutes more, or for its time if that is less: the wall clock may be wrong. `sessions.create({ ttlSeconds })` says it for one. Never by default.
   */
  readonly sessionTtlSeconds?: number
  /** How long import jobs may take, and how slowly what they read may come. What takes longer is DEADLINE_EXCEEDED. */
  readonly imports?: ImportOptions
  readonly git?: {
    /** Allows remotes on loopback and private addresses; refused by default. */
    readonly allowPrivateAddresses?: boolean
    /**
     * Credentials for a remote; never stored, and sent to the origin of the URL only. Asked when the remote wants
     * some, and at the start of each job of a source with a `credentialsSecretId` (else '').
     */
    readonly credentials?: (request: {
      readonly remoteUrl: string
      readonly credentialsSecretId: string
    }) => Promise<{ username: string; password: string } | undefined>
    /** Signs commits: is given what is to be signed, and gives the armoured signature. */
    readonly sign?: (payload: string) => Promise<string>
  }
  /**
   * Asked before each operation whether the principal may do it; only true lets it, at once: a promise does not.
   * Without it every principal of a tenant may do everything.
   */
  readonly authorize?: Authorize
  /**
   * With `{ selfApproval: false }` an approval is granted only by another principal than the one that requested it;
   * everyone may grant by default.
   */
  readonly approvals?: ApprovalOptions
  /** Told of what no caller is told of: failed writes, jobs, slow subscribers. The library prints nothing. */
  readonly log?: (entry: LogEntry) => void
  /**
   * The master key of secrets, 32 random bytes that are kept elsewhere than the storage. Without one secrets are
   * refused on a durable storage; in memory the engine makes a key of its own.
   */
  readonly secrets?: SecretOptions
  readonly hostPaths?: {
    /**
     * Directories of this host that may be read and written, with everything below them: as sources, as local
     * repositories, by `session.checkout`. None by default. Whoever can write above a root is trusted; who can
     * write below it leads nothing outside.
     */
    readonly roots?: readonly string[]
  }
  /**
   * Lets archives bring in, and checkouts write and bring back, names that git or a file system takes for `.git`, such
   * as `.GIT` and `git~1`, and symlinks named `.gitmodules`. Refused by default (UNSAFE_PATH), because a file
   * `/.git/config` in a directory decides what the next git command there runs. Git imports and commits refuse such
   * names in any case. Sessions may hold them, and exports write them.
   */
  readonly allowGitNames?: boolean
}

const optionsShape = new Shape<EngineOptions>({
  storage: true,
  environment: true,
  maxFileBytes: true,
  cacheBytes: true,
  memoryBudgetBytes: true,
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
  approvals: true,
})

const gitShape = new Shape<NonNullable<EngineOptions['git']>>({
  allowPrivateAddresses: true,
  credentials: true,
  sign: true,
})

const hostPathsShape = new Shape<NonNullable<EngineOptions['hostPaths']>>({ roots: true })

/**
 * Opens an engine. Close it when done, or hold it with `await using`.
 *
 * INVALID_ARGUMENT for options that make no sense; of a storage directory: STORE_LOCKED, STORE_FORMAT, DATA_LOSS.
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
    budgets,
    automaticCollection,
    sessionTtlSeconds,
    imports,
    allowGitNames = false,
    authorize,
    approvals,
    log,
    secrets,
    ...rest
  } = optionsShape.read(options, 'options')
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
    ...(budgets !== undefined && { budgets }),
    ...(automaticCollection !== undefined && { automaticCollection }),
    ...(sessionTtlSeconds !== undefined && { sessionTtlSeconds }),
    ...(imports !== undefined && { imports }),
    ...(authorize !== undefined && { authorize }),
    ...(approvals !== undefined && { approvals }),
    ...(log !== undefined && { log }),
    allowGitNames,
    ...(secrets !== undefined && { secrets }),
    importer: async () => (await adapter()).importer,
    committer: async () => (await adapter()).committer,
    checkRemote: async (remote) => (await adapter()).checkRemote(remote),
    archives: once(async () => {
      const { createArchives } = await import('./adapters/archive/index.js')
      return createArchives({ allowGitNames })
    }),
    host: once(async () => {
      const { createHost } = await import('./adapters/host/index.js')
      return createHost({ roots })
    }),
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
  limits,
  memoryStorage,
} from './engine/index.js'
export type {
  EngineApi,
  EventOfApi,
  EventPageOfApi,
  PublicOf,
  SessionApi,
  Annotation,
  AnnotationAddRequest,
  AnnotationStatusRequest,
  Approval,
  ApprovalOptions,
  ApprovalRequest,
  Authorize,
  AutomaticCollectionOptions,
  Action,
  Caller,
  Capability,
  CasMetrics,
  Resource,
  BatchOperation,
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
  CasExtent,
  Change,
  CheckoutOptions,
  CheckoutProgress,
  CheckoutSync,
  CheckoutUpdate,
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointPage,
  CheckpointReference,
  CheckOptions,
  CheckReport,
  Collected,
  CollectOptions,
  CollectProgress,
  CommitIdentity,
  CommitSummary,
  CopyFileRequest,
  CreateDirectoryRequest,
  ContentStream,
  CreateSymlinkRequest,
  DeleteRequest,
  Diff,
  DiffTarget,
  DirectoryEntry,
  DirectoryListRequest,
  DirectoryPage,
  Environment,
  ErrorDetails,
  EventListRequest,
  EventPage,
  ErrorReason,
  FileContent,
  FileForceUnlockRequest,
  FileLock,
  FileReadRequest,
  FileReplaceRequest,
  FileWriteRequest,
  FileLockReference,
  FileLockRequest,
  Finding,
  ForkRequest,
  FsPromises,
  GlobOptions,
  HashGuard,
  Health,
  HealthReport,
  HealthReportPage,
  HealthReportRequest,
  ContentIn,
  ImportJob,
  ImportOptions,
  ImportStartRequest,
  JobProgress,
  JobReference,
  LinkRequest,
  LockWaitOptions,
  LogEntry,
  LogVerification,
  LogVerifyRequest,
  ManifestNode,
  ManifestPage,
  ManifestRequest,
  MasterKey,
  MemoryStorageOptions,
  NamedCacheValue,
  PageRequest,
  PatchSegmentsRequest,
  PathStat,
  PosixFlockRequest,
  PosixGetRequest,
  PosixLock,
  PosixLockConflict,
  PosixLockOwner,
  PosixLockRange,
  PosixSetRequest,
  PosixUnlockRequest,
  RemoveDirectoryRequest,
  RenameRequest,
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
  SessionCounts,
  SessionApprovals,
  SessionCache,
  SessionBus,
  SessionCommitRequest,
  SessionCreateRequest,
  SessionEvent,
  SessionEvents,
  SessionExportRequest,
  SessionFileLocks,
  SessionFiles,
  SessionFs,
  SessionHealth,
  SessionInfo,
  SessionListRequest,
  SessionPage,
  SessionPosixLocks,
  SessionSecrets,
  SetAttributesRequest,
  SetXattrRequest,
  Source,
  PromoteRequest,
  PruneRequest,
  NarrowRequest,
  EventFollowOptions,
  DiffRequest,
  SymlinkListRequest,
  ApprovalGrantRequest,
  ApprovalDenyRequest,
  RefreshRequest,
  SourceCreateRequest,
  SourceListRequest,
  SourcePage,
  Sources,
  StatRequest,
  StateReference,
  StatusName,
  Storage,
  Store,
  StoreCapabilities,
  StoreCommit,
  StoredBlob,
  StoredBlobSize,
  StoredEvent,
  StringMap,
  TenantUsage,
  Usage,
  UsageRequest,
  SymlinkPage,
  SyncOptions,
  SystemError,
  WaitOptions,
  WatchOptions,
  WatchQueueOptions,
  WriteRequest,
  XattrRequest,
} from './engine/index.js'
