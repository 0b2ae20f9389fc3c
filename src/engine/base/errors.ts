/** The standard RPC status codes that an {@link EngineError} carries, by name. */
export const StatusCode = {
  /** The request is invalid in every state of the engine. Correct it before you retry. */
  INVALID_ARGUMENT: 3,
  /** The operation took too long. */
  DEADLINE_EXCEEDED: 4,
  /** The session, path, job or other object does not exist. */
  NOT_FOUND: 5,
  /** The path or label exists already. */
  ALREADY_EXISTS: 6,
  /** The caller may not do this. */
  PERMISSION_DENIED: 7,
  /** A quota, a budget or the disk is full. */
  RESOURCE_EXHAUSTED: 8,
  /** The state of the object does not allow the operation. Change the state before you retry. */
  FAILED_PRECONDITION: 9,
  /** A concurrent change or another lock is in the way. Read the state again, then retry. */
  ABORTED: 10,
  /** A file would be larger than the engine allows. */
  OUT_OF_RANGE: 11,
  /** The library has a defect. */
  INTERNAL: 13,
  /** The store, the host or a remote cannot serve the operation now. A later retry can succeed. */
  UNAVAILABLE: 14,
  /** Stored or received data is missing or damaged. */
  DATA_LOSS: 15,
  /** The server does not know the caller. */
  UNAUTHENTICATED: 16,
} as const

/** The name of a standard RPC status code, such as `NOT_FOUND`: a key of {@link StatusCode}. */
export type StatusName = keyof typeof StatusCode

/**
 * The properties of one reason.
 *
 * @inline
 */
interface ReasonRow {
  /** The status of errors with this reason. */
  readonly code: StatusName
  /** The error code that the node:fs view shows for it; EIO when absent. */
  readonly errno?: string
  /** The code that a failed import job shows for it; INTERNAL when absent. */
  readonly job?: string
  /** One sentence for the documentation. */
  readonly meaning: string
}

/**
 * The registry of all error reasons. Reasons and codes are stable within a major version; messages are not.
 */
const registry = {
  INVALID_ARGUMENT: {
    code: 'INVALID_ARGUMENT',
    errno: 'EINVAL',
    meaning: 'An argument has the wrong type or form; `details.field` names it.',
  },
  NAME_TOO_LONG: {
    code: 'INVALID_ARGUMENT',
    errno: 'ENAMETOOLONG',
    job: 'LIMIT_EXCEEDED',
    meaning: 'A name exceeds 255 bytes, a path 4,096 bytes or 256 levels, or a symlink target 4,095 bytes.',
  },
  TOO_LARGE: {
    code: 'INVALID_ARGUMENT',
    errno: 'E2BIG',
    meaning: 'A value is over its stated limit; `details.limit` gives it.',
  },
  SESSION_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'No session has this id, or it was deleted.' },
  CHECKPOINT_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The session has no checkpoint with this id or label.',
  },
  EVENT_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The session has no event with this id, or did not exist at this time.',
  },
  STATE_NOT_KEPT: {
    code: 'FAILED_PRECONDITION',
    meaning:
      'The state existed, but is no longer kept. A collection with `keepRedo` or a checkpoint keeps states; without a durable store, `memoryHistoryBytes` bounds them.',
  },
  READ_ONLY: {
    code: 'FAILED_PRECONDITION',
    errno: 'EROFS',
    meaning: 'A view of an earlier state cannot be changed: change the session, or a fork of that state.',
  },
  SOURCE_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'No source has this id.' },
  REVISION_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The source has no revision with this id or label.' },
  COMMIT_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The session has made no commit with this id, or none on this branch.',
  },
  JOB_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The source has no import job with this id.' },
  PATH_NOT_FOUND: { code: 'NOT_FOUND', errno: 'ENOENT', meaning: 'Nothing exists at this path.' },
  XATTR_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The file or directory has no extended attribute with this name.',
  },
  BLOB_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'Neither the session nor its base has content with this hash.',
  },
  ANNOTATION_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no annotation with this id.' },
  APPROVAL_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no approval with this id.' },
  CACHE_KEY_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The cache has no entry with this key.' },
  SECRET_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no secret with this name.' },
  ALREADY_EXISTS: {
    code: 'ALREADY_EXISTS',
    errno: 'EEXIST',
    meaning: 'The path already exists, or the label is taken.',
  },
  PERMISSION_DENIED: {
    code: 'PERMISSION_DENIED',
    errno: 'EACCES',
    meaning: 'The option `authorize`, another option, or a narrowed handle does not allow this.',
  },
  NOT_PERMITTED: {
    code: 'FAILED_PRECONDITION',
    errno: 'EPERM',
    meaning: 'A directory cannot have a second name: only files and symlinks can be linked.',
  },
  DIRECTORY_NOT_EMPTY: {
    code: 'FAILED_PRECONDITION',
    errno: 'ENOTEMPTY',
    meaning: 'The directory has entries, and only an empty one can be removed or replaced.',
  },
  IS_A_DIRECTORY: { code: 'FAILED_PRECONDITION', errno: 'EISDIR', meaning: 'The path is a directory.' },
  NOT_A_DIRECTORY: {
    code: 'FAILED_PRECONDITION',
    errno: 'ENOTDIR',
    meaning: 'The path, or a part of it, is not a directory.',
  },
  NOT_A_SYMLINK: { code: 'FAILED_PRECONDITION', errno: 'EINVAL', meaning: 'The path is not a symlink.' },
  SYMLINK_LOOP: {
    code: 'FAILED_PRECONDITION',
    errno: 'ELOOP',
    meaning: 'Resolving the path took more than 40 symlinks.',
  },
  SOURCE_WITHOUT_REVISION: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The source has no revision yet. Import it first.',
  },
  APPROVAL_NOT_PENDING: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The approval was already granted or denied.',
  },
  NO_MASTER_KEY: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The engine was opened without the master key that the secret needs (`secrets.masterKey`).',
  },
  IMPORT_FAILED: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The import job failed. `details.errorCode` is the job’s code, `cause` the full error.',
  },
  SOURCE_NOT_REFRESHABLE: {
    code: 'FAILED_PRECONDITION',
    meaning: 'An uploaded source cannot be read again. Import a new upload.',
  },
  CREDENTIALS_NOT_FOUND: {
    code: 'NOT_FOUND',
    job: 'CREDENTIALS_NOT_FOUND',
    meaning: 'The `git.credentials` hook returned nothing for the source’s `credentialsSecretId`.',
  },
  INVALID_ARCHIVE: {
    code: 'INVALID_ARGUMENT',
    job: 'INVALID_ARCHIVE',
    meaning: 'The content is not a tar or zip archive, or it is damaged.',
  },
  INVALID_BUNDLE: {
    code: 'INVALID_ARGUMENT',
    meaning: 'The content is not a bundle of a session, or it is damaged.',
  },
  UNSAFE_PATH: {
    code: 'INVALID_ARGUMENT',
    job: 'UNSAFE_PATH',
    meaning: 'The archive or checkout has a forbidden name such as `.git`, or a name twice (`details.path`).',
  },
  LIMIT_EXCEEDED: {
    code: 'RESOURCE_EXHAUSTED',
    job: 'LIMIT_EXCEEDED',
    meaning: 'Content from outside is over a limit; `details.limit` gives the limit.',
  },
  HOST_PATH_NOT_FOUND: {
    code: 'NOT_FOUND',
    job: 'PATH_NOT_FOUND',
    meaning: 'The directory does not exist on the host.',
  },
  HOST_PATH_NOT_ALLOWED: {
    code: 'PERMISSION_DENIED',
    job: 'PATH_NOT_ALLOWED',
    meaning: 'The path is outside `hostPaths.roots`, or was moved outside while it was in use.',
  },
  HOST_FAILED: {
    code: 'UNAVAILABLE',
    meaning: 'The host’s file system returned an error; `details.errno` is its code.',
  },
  CHECKOUT_MODIFIED: {
    code: 'ABORTED',
    meaning: 'The directory has files that differ from the checkout; `details.path` is one of them.',
  },
  WOULD_BLOCK: {
    code: 'UNAVAILABLE',
    errno: 'EAGAIN',
    meaning: 'A synchronous call would have to wait. Use the promise form, or try again later.',
  },
  HASH_MISMATCH: {
    code: 'ABORTED',
    errno: 'EAGAIN',
    meaning: 'The content differs from `expectedHash`; details have path, expectedHash and actualHash.',
  },
  NO_MATCH: {
    code: 'FAILED_PRECONDITION',
    meaning:
      'The text of an edit, or the context of a patch, is not in the file; details have the nearest lines.',
  },
  NOT_UNIQUE: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The text of an edit is in the file several times; `details.lineNumbers` has the lines.',
  },
  INVALID_PATCH: {
    code: 'INVALID_ARGUMENT',
    meaning:
      'The patch has a wrong form, or a part that is not supported; `details.line` or the message says where.',
  },
  BRANCH_MOVED: {
    code: 'ABORTED',
    meaning: 'The branch has a commit that this session does not build on. Nothing was pushed.',
  },
  MERGE_CONFLICT: {
    code: 'ABORTED',
    meaning:
      'A path whose merge policy is `fail` has a conflict; `details.paths` has the first ones. Nothing changed.',
  },
  MERGE_TARGET_MOVED: {
    code: 'ABORTED',
    meaning:
      'The session is not at `expectedEventId`, or it kept changing during the merge. Nothing changed.',
  },
  UNRESOLVED_CONFLICTS: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The session has unresolved conflicts of a merge. Resolve them, or abort the merge.',
  },
  CONFLICT_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The session has no unresolved conflict at this path, or no merge to abort.',
  },
  NO_COMMON_ANCESTOR: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The two sides of a merge did not start from a common state.',
  },
  MERGE_BASE_GONE: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The common ancestor of the two sides of a merge is no longer stored.',
  },
  SESSION_MOVED: {
    code: 'ABORTED',
    errno: 'EAGAIN',
    meaning:
      'Other engines changed the session each time that the operation was tried. Nothing changed; try again.',
  },
  SHARED_STORE: {
    code: 'FAILED_PRECONDITION',
    errno: 'EPERM',
    meaning: 'The operation or option does not work while several engines may share the storage.',
  },
  LOCK_HELD: { code: 'ABORTED', errno: 'EAGAIN', meaning: 'Another owner holds the lock.' },
  DEADLOCK: {
    code: 'ABORTED',
    errno: 'EDEADLK',
    meaning: 'Waiting for the lock would never end, because its owner waits for a lock of this owner.',
  },
  LOCK_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The path has no file lock with this id: it was released, or it expired.',
  },
  FILE_TOO_LARGE: {
    code: 'OUT_OF_RANGE',
    errno: 'EFBIG',
    job: 'LIMIT_EXCEEDED',
    meaning: 'The file would have more bytes than `maxFileBytes` allows.',
  },
  QUOTA: {
    code: 'RESOURCE_EXHAUSTED',
    meaning:
      'The session, or the tenant, already has as many items of this kind as it can have: `details.limit`.',
  },
  BUDGET: {
    code: 'RESOURCE_EXHAUSTED',
    errno: 'EDQUOT',
    job: 'LIMIT_EXCEEDED',
    meaning: 'A byte budget of the store, the tenant or the session is used up; `details.budget` names it.',
  },
  SLOW_CONSUMER: {
    code: 'RESOURCE_EXHAUSTED',
    meaning: 'The subscriber was too slow: too many messages or bytes were queued for it.',
  },
  STORE_FULL: { code: 'RESOURCE_EXHAUSTED', errno: 'ENOSPC', meaning: 'The disk has no space left.' },
  STORE_LOCKED: {
    code: 'FAILED_PRECONDITION',
    errno: 'EBUSY',
    meaning: 'The store is already open, in this process or another one.',
  },
  STORE_FORMAT: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The directory or schema is not a store, or has a format that this version cannot read.',
  },
  STORE_CLOSED: { code: 'UNAVAILABLE', meaning: 'The engine was closed.' },
  STORE_MOVED: {
    code: 'UNAVAILABLE',
    meaning:
      'The directory, the newest segment or the schema of the store was moved, removed or replaced while it was open.',
  },
  STORE_TAKEN: {
    code: 'UNAVAILABLE',
    meaning: 'Another engine took over the store, so this one can write nothing more. Close it.',
  },
  STORE_FAILED: {
    code: 'UNAVAILABLE',
    meaning: 'A write failed. The engine continues once its storage has recovered.',
  },
  DATA_LOSS: {
    code: 'DATA_LOSS',
    meaning:
      'Stored data is missing or damaged. Run `engine.check()`, then restore a backup or use `repairStore`.',
  },
  NO_ADAPTER: {
    code: 'FAILED_PRECONDITION',
    meaning: 'An adapter of the engine, or a module of this Node version, is missing.',
  },
  GIT_UNSUPPORTED_TRANSPORT: {
    code: 'INVALID_ARGUMENT',
    meaning: 'Only http and https remotes are supported.',
  },
  GIT_ADDRESS_REFUSED: {
    code: 'PERMISSION_DENIED',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'The remote has a loopback or private address, and `git.allowPrivateAddresses` is not set.',
  },
  GIT_UNREACHABLE: {
    code: 'UNAVAILABLE',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'The remote does not respond.',
  },
  GIT_TIMEOUT: {
    code: 'UNAVAILABLE',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'The remote sent nothing for too long.',
  },
  GIT_REMOTE_ERROR: {
    code: 'UNAVAILABLE',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'The remote returned an error.',
  },
  GIT_NOT_A_REPOSITORY: {
    code: 'FAILED_PRECONDITION',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'There is no git repository at this address or path.',
  },
  GIT_REPO_NOT_FOUND: {
    code: 'NOT_FOUND',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'The address or path does not exist.',
  },
  GIT_REF_NOT_FOUND: { code: 'NOT_FOUND', job: 'REF_NOT_FOUND', meaning: 'The repository has no such ref.' },
  // Not UNAUTHENTICATED: the engine knows its caller; the remote asks for credentials.
  GIT_AUTH_REQUIRED: {
    code: 'FAILED_PRECONDITION',
    job: 'AUTH_FAILED',
    meaning: 'The remote requires credentials (option `git.credentials`).',
  },
  GIT_AUTH_FAILED: {
    code: 'FAILED_PRECONDITION',
    job: 'AUTH_FAILED',
    meaning: 'The remote refused the credentials.',
  },
  GIT_NOT_A_TREE: {
    code: 'FAILED_PRECONDITION',
    job: 'NOT_A_TREE',
    meaning: 'The ref does not name a commit or a tree.',
  },
  GIT_UNSAFE_PATH: {
    code: 'FAILED_PRECONDITION',
    job: 'UNSAFE_PATH',
    meaning: 'The repository has a forbidden name such as `.git` in a tree; `details.path` shows it.',
  },
  GIT_TOO_LARGE: {
    code: 'RESOURCE_EXHAUSTED',
    job: 'LIMIT_EXCEEDED',
    meaning: 'The repository is over a limit.',
  },
  GIT_CORRUPT: {
    code: 'DATA_LOSS',
    job: 'REMOTE_CORRUPT',
    meaning: 'The repository has or sent damaged objects.',
  },
  GIT_UNSUPPORTED_BUNDLE: {
    code: 'INVALID_ARGUMENT',
    job: 'INVALID_BUNDLE',
    meaning: 'The content is not a git bundle of version 2 or 3, or needs an unknown feature.',
  },
  GIT_BUNDLE_PREREQUISITE: {
    code: 'FAILED_PRECONDITION',
    job: 'INVALID_BUNDLE',
    meaning: 'The bundle builds on commits that the source does not have; `details.oids` lists them.',
  },
  GIT_PUSH_REJECTED: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The remote refused the push; `details.remoteMessage` says why.',
  },
  REMOTE_FAILED: {
    code: 'UNAVAILABLE',
    meaning: 'The server did not respond to the client, or its response was invalid; see `details`.',
  },
  DEADLINE_EXCEEDED: {
    code: 'DEADLINE_EXCEEDED',
    errno: 'ETIMEDOUT',
    job: 'DEADLINE_EXCEEDED',
    meaning: 'A request or import took too long, or the source of an import sends too slowly.',
  },
  UNAUTHENTICATED: {
    code: 'UNAUTHENTICATED',
    errno: 'EACCES',
    meaning: 'The server does not know the token of the client.',
  },
  INTERNAL: { code: 'INTERNAL', meaning: 'A defect of this library. Please report it.' },
} as const satisfies Record<string, ReasonRow>

/**
 * The specific cause of an {@link EngineError}, such as `PATH_NOT_FOUND`. {@link errorRegistry} describes
 * each reason.
 *
 * @useDeclaredType
 */
export type ErrorReason = keyof typeof registry

/** Every reason with its status, errno, job code and meaning. */
export const errorRegistry: Readonly<Record<ErrorReason, ReasonRow>> = registry

/** Named facts about an error, such as `{ path: '/a' }`. Every value is a string, even a number. */
export type ErrorDetails = Readonly<Record<string, string>>

/**
 * The error of every operation. `code` is its general category, which shows how a caller can react. `reason`
 * is the specific cause. `details` has the facts, such as paths, hashes and limits, as strings.
 *
 * @example
 * try {
 *   await session.files.write({ path: '/a.txt', content: 'one', expectedHash: '' })
 * } catch (error) {
 *   if (!(error instanceof EngineError) || error.reason !== 'HASH_MISMATCH') throw error
 *   console.log('the file exists already, with', error.details.actualHash)
 * }
 */
export class EngineError extends Error {
  /** Always `'EngineError'`. */
  override readonly name = 'EngineError'
  /** The general category, such as `NOT_FOUND`. {@link errorRegistry} has the category of each reason. */
  readonly code: StatusName
  /** The specific cause, such as `PATH_NOT_FOUND`. It is stable within a major version. */
  readonly reason: ErrorReason
  /** The facts of this error, such as `{ path: '/a' }`; empty if there are none. */
  readonly details: ErrorDetails

  /**
   * For your own stores and adapters. `details` is empty by default, and `options.cause` is the original
   * error.
   */
  constructor(reason: ErrorReason, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(message, options)
    this.code = registry[reason].code
    this.reason = reason
    this.details = details
  }

  /** The number that the standard RPC status codes assign to `code`. */
  get status(): number {
    return StatusCode[this.code]
  }
}

/** The error STORE_CLOSED for a call after `close()`, or for a call that `close()` ended. */
export function engineClosed(): EngineError {
  return new EngineError('STORE_CLOSED', 'the engine was closed')
}

/** The error STORE_FAILED for a write that failed because another engine wrote first. */
export function anotherEngine(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'another engine wrote to the same storage; open a storage with one engine at a time',
  )
}

/** The error SHARED_STORE for an operation that only an engine with a storage of its own can do. */
export function sharedStore(what: string, instead: string): EngineError {
  return new EngineError(
    'SHARED_STORE',
    `${what} does not work on a storage that several engines share. ${instead}`,
  )
}

/** The error DATA_LOSS for an event that is missing in the storage. */
export function eventMissing(sessionId: string, seq: number): EngineError {
  return new EngineError('DATA_LOSS', `session ${sessionId}: the stored event ${seq} is missing`, {
    sessionId,
    seq: String(seq),
  })
}

/** The error DATA_LOSS for an event whose number or link is wrong. */
export function logChanged(sessionId: string, seq: number): EngineError {
  return new EngineError(
    'DATA_LOSS',
    `session ${sessionId}: the stored event ${seq} was changed or removed after it was written`,
    { sessionId, seq: String(seq) },
  )
}

/** The error STORE_FORMAT for records of a later version, whose keys start with `prefix`. */
export function unknownRecords(prefix: string): EngineError {
  return new EngineError(
    'STORE_FORMAT',
    `the store has records of an unknown kind: their keys start with ${JSON.stringify(prefix)}. ` +
      'A later version wrote them. They may use contents that seem unused, so nothing was collected. ' +
      'Collect with the version that wrote the store.',
    { prefix },
  )
}

export function invalid(field: string, message: string): EngineError {
  return new EngineError('INVALID_ARGUMENT', `${field}: ${message}`, { field })
}

/** The message of a thrown value, which may be of any type. */
export function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown)
  } catch {
    return 'a value without a message was thrown'
  }
}

/** Throws INTERNAL if the condition is false, which only a defect of this library can cause. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new EngineError('INTERNAL', message)
}
