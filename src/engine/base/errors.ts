/** The standard RPC status codes that an {@link EngineError} carries, by name. */
export const StatusCode = {
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const

export type StatusName = keyof typeof StatusCode

interface ReasonRow {
  /** The status an error of this reason carries. */
  readonly code: StatusName
  /** The error code that the node:fs view shows for it; EIO when absent. */
  readonly errno?: string
  /** The code that a failed import job shows for it; INTERNAL when absent. */
  readonly job?: string
  /** One sentence for the documentation. */
  readonly meaning: string
}

/**
 * The one registry of everything that can go wrong. Reasons and codes are stable within a major version;
 * messages are not.
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
    meaning: 'A name is over 255 bytes, a path 4,096 bytes or 256 levels, or a symlink target 4,095 bytes.',
  },
  TOO_LARGE: {
    code: 'INVALID_ARGUMENT',
    errno: 'E2BIG',
    meaning: 'A value is over its stated limit; `details.limit` gives it.',
  },
  SESSION_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'No session has this id, or it was deleted.' },
  CHECKPOINT_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no checkpoint of this id or label.' },
  SOURCE_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'No source has this id.' },
  REVISION_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The source has no revision of this id.' },
  JOB_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The source has no import job of this id.' },
  PATH_NOT_FOUND: { code: 'NOT_FOUND', errno: 'ENOENT', meaning: 'Nothing exists at this path.' },
  XATTR_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The file or directory has no attribute of this name.' },
  BLOB_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'Neither the session nor its base holds content of this hash.',
  },
  ANNOTATION_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no annotation of this id.' },
  APPROVAL_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no approval of this id.' },
  CACHE_KEY_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The cache has no entry of this key.' },
  SECRET_NOT_FOUND: { code: 'NOT_FOUND', meaning: 'The session has no secret of this name.' },
  ALREADY_EXISTS: {
    code: 'ALREADY_EXISTS',
    errno: 'EEXIST',
    meaning: 'The path exists already, or the checkpoint label is taken.',
  },
  PERMISSION_DENIED: {
    code: 'PERMISSION_DENIED',
    errno: 'EACCES',
    meaning: 'Not allowed: by the engine’s options, by its `authorize`, or because the handle was narrowed.',
  },
  NOT_PERMITTED: {
    code: 'FAILED_PRECONDITION',
    errno: 'EPERM',
    meaning: 'A directory cannot have a second name.',
  },
  DIRECTORY_NOT_EMPTY: {
    code: 'FAILED_PRECONDITION',
    errno: 'ENOTEMPTY',
    meaning: 'Only an empty directory can be removed or replaced.',
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
    meaning: 'The source has no revision yet: import it first.',
  },
  APPROVAL_NOT_PENDING: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The approval was granted or denied already.',
  },
  NO_MASTER_KEY: {
    code: 'FAILED_PRECONDITION',
    meaning: 'Secrets need `secrets.masterKey`, and the engine was opened without the key of this one.',
  },
  IMPORT_FAILED: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The import job failed; `details.errorCode` is the job’s code, `cause` the reason in full.',
  },
  SOURCE_NOT_REFRESHABLE: {
    code: 'FAILED_PRECONDITION',
    meaning: 'Nothing can be read again of an upload: import a new one.',
  },
  CREDENTIALS_NOT_FOUND: {
    code: 'NOT_FOUND',
    job: 'CREDENTIALS_NOT_FOUND',
    meaning: 'The `git.credentials` hook knows nothing of the source’s `credentialsSecretId`.',
  },
  INVALID_ARCHIVE: {
    code: 'INVALID_ARGUMENT',
    job: 'INVALID_ARCHIVE',
    meaning: 'The content is no tar or zip archive that can be read to its end.',
  },
  INVALID_BUNDLE: {
    code: 'INVALID_ARGUMENT',
    meaning: 'The content is no bundle of a session, or it is damaged.',
  },
  UNSAFE_PATH: {
    code: 'INVALID_ARGUMENT',
    job: 'UNSAFE_PATH',
    meaning: 'A name such as `.git` must not be written, or an archive has a name twice (`details.path`).',
  },
  LIMIT_EXCEEDED: {
    code: 'RESOURCE_EXHAUSTED',
    job: 'LIMIT_EXCEEDED',
    meaning: 'What is read from outside is over a limit; `details.limit` gives it.',
  },
  HOST_PATH_NOT_FOUND: {
    code: 'NOT_FOUND',
    job: 'PATH_NOT_FOUND',
    meaning: 'The host has no such directory.',
  },
  HOST_PATH_NOT_ALLOWED: {
    code: 'PERMISSION_DENIED',
    job: 'PATH_NOT_ALLOWED',
    meaning: 'The path is outside `hostPaths.roots`, or became so while it was used.',
  },
  HOST_FAILED: {
    code: 'UNAVAILABLE',
    meaning: 'The host’s file system refused; `details.errno` says why.',
  },
  CHECKOUT_MODIFIED: {
    code: 'ABORTED',
    meaning: 'Files in the directory were changed since they were written there; `details.path` shows one.',
  },
  WOULD_BLOCK: {
    code: 'UNAVAILABLE',
    errno: 'EAGAIN',
    meaning: 'A synchronous call met what has to be awaited: use the promise form, or try again later.',
  },
  HASH_MISMATCH: {
    code: 'ABORTED',
    errno: 'EAGAIN',
    meaning: 'The file is not what `expectedHash` says; details carry path, expectedHash and actualHash.',
  },
  BRANCH_MOVED: {
    code: 'ABORTED',
    meaning: 'The branch has a commit that this session does not build on; nothing was sent.',
  },
  LOCK_HELD: { code: 'ABORTED', errno: 'EAGAIN', meaning: 'Another owner holds the lock.' },
  DEADLOCK: {
    code: 'ABORTED',
    errno: 'EDEADLK',
    meaning: 'Waiting for the lock would close a circle of owners who wait for each other.',
  },
  LOCK_NOT_FOUND: {
    code: 'NOT_FOUND',
    meaning: 'The path has no file lock of this id: it was released, or its time ran out.',
  },
  FILE_TOO_LARGE: {
    code: 'OUT_OF_RANGE',
    errno: 'EFBIG',
    job: 'LIMIT_EXCEEDED',
    meaning: 'The file would exceed `maxFileBytes`.',
  },
  QUOTA: {
    code: 'RESOURCE_EXHAUSTED',
    meaning: 'The session has as many of these as it may have; `details.limit` says how many.',
  },
  BUDGET: {
    code: 'RESOURCE_EXHAUSTED',
    errno: 'EDQUOT',
    job: 'LIMIT_EXCEEDED',
    meaning:
      'The store, the tenant or the session keeps as many bytes as it may; `details.budget` says which.',
  },
  SLOW_CONSUMER: {
    code: 'RESOURCE_EXHAUSTED',
    meaning: 'A subscriber did not take its messages, and its queue is full.',
  },
  STORE_FULL: { code: 'RESOURCE_EXHAUSTED', errno: 'ENOSPC', meaning: 'The disk has no space left.' },
  STORE_LOCKED: { code: 'FAILED_PRECONDITION', errno: 'EBUSY', meaning: 'The directory is open already.' },
  STORE_FORMAT: {
    code: 'FAILED_PRECONDITION',
    meaning: 'The directory is no store, or of a format that this version does not read.',
  },
  STORE_CLOSED: { code: 'UNAVAILABLE', meaning: 'The engine was closed.' },
  STORE_MOVED: {
    code: 'UNAVAILABLE',
    meaning: 'The directory of the store was moved, removed or replaced while it was open.',
  },
  STORE_FAILED: {
    code: 'UNAVAILABLE',
    meaning: 'A write failed: the engine goes on when its storage has recovered.',
  },
  DATA_LOSS: { code: 'DATA_LOSS', meaning: 'Stored data is missing or damaged.' },
  NO_ADAPTER: {
    code: 'FAILED_PRECONDITION',
    meaning: 'What this needs is missing: an adapter of the engine, or a module of this Node.',
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
  GIT_UNREACHABLE: { code: 'UNAVAILABLE', job: 'REMOTE_UNREACHABLE', meaning: 'The remote does not answer.' },
  GIT_TIMEOUT: { code: 'UNAVAILABLE', job: 'REMOTE_UNREACHABLE', meaning: 'The remote fell silent.' },
  GIT_REMOTE_ERROR: {
    code: 'UNAVAILABLE',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'The remote answered with an error.',
  },
  GIT_NOT_A_REPOSITORY: {
    code: 'FAILED_PRECONDITION',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'What answers at this address or path is no git repository.',
  },
  GIT_REPO_NOT_FOUND: {
    code: 'NOT_FOUND',
    job: 'REMOTE_UNREACHABLE',
    meaning: 'There is no repository here.',
  },
  GIT_REF_NOT_FOUND: { code: 'NOT_FOUND', job: 'REF_NOT_FOUND', meaning: 'The repository has no such ref.' },
  // Not UNAUTHENTICATED: it is not the caller whom somebody does not know.
  GIT_AUTH_REQUIRED: {
    code: 'FAILED_PRECONDITION',
    job: 'AUTH_FAILED',
    meaning: 'The remote asks for credentials.',
  },
  GIT_AUTH_FAILED: {
    code: 'FAILED_PRECONDITION',
    job: 'AUTH_FAILED',
    meaning: 'The remote refused the credentials.',
  },
  GIT_NOT_A_TREE: {
    code: 'FAILED_PRECONDITION',
    job: 'NOT_A_TREE',
    meaning: 'The ref names no commit or tree.',
  },
  GIT_UNSAFE_PATH: {
    code: 'FAILED_PRECONDITION',
    job: 'UNSAFE_PATH',
    meaning: 'A tree of the repository holds a name that must not be written; `details.path` shows it.',
  },
  GIT_TOO_LARGE: {
    code: 'RESOURCE_EXHAUSTED',
    job: 'LIMIT_EXCEEDED',
    meaning: 'The repository is over a limit.',
  },
  GIT_CORRUPT: { code: 'DATA_LOSS', job: 'REMOTE_CORRUPT', meaning: 'The repository sent damaged objects.' },
  GIT_UNSUPPORTED_BUNDLE: {
    code: 'INVALID_ARGUMENT',
    job: 'INVALID_BUNDLE',
    meaning: 'The content is no git bundle of version 2 or 3, or it asks for what is not known here.',
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
    meaning: 'The server of a client does not answer, or not as it should; `details` say what is known.',
  },
  DEADLINE_EXCEEDED: {
    code: 'DEADLINE_EXCEEDED',
    errno: 'ETIMEDOUT',
    job: 'DEADLINE_EXCEEDED',
    meaning: 'A request got no answer in time, an import took too long, or its source sends too slowly.',
  },
  UNAUTHENTICATED: {
    code: 'UNAUTHENTICATED',
    errno: 'EACCES',
    meaning: 'The server does not know the token of the client.',
  },
  INTERNAL: { code: 'INTERNAL', meaning: 'A defect of this library.' },
} as const satisfies Record<string, ReasonRow>

export type ErrorReason = keyof typeof registry

/** Every reason with its status, errno, job code and meaning. */
export const errorRegistry: Readonly<Record<ErrorReason, ReasonRow>> = registry

export type ErrorDetails = Readonly<Record<string, string>>

/**
 * What every operation throws. `code` says what a caller can do about it in general, `reason` what went
 * wrong in particular, `details` holds the facts (paths, hashes, limits) as strings.
 *
 * @example
 * try { await session.files.write({ path: '/a', content, expectedHash }) }
 * catch (error) { if (error instanceof EngineError && error.reason === 'HASH_MISMATCH') retry(error.details.actualHash) }
 */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly code: StatusName
  readonly reason: ErrorReason
  readonly details: ErrorDetails

  constructor(reason: ErrorReason, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(message, options)
    this.code = registry[reason].code
    this.reason = reason
    this.details = details
  }

  /** The number of `code` in the standard RPC status codes. */
  get status(): number {
    return StatusCode[this.code]
  }
}

/** Of a call that came after `close()`, or was cut off by it. */
export function engineClosed(): EngineError {
  return new EngineError('STORE_CLOSED', 'the engine was closed')
}

/** Of a store with records of a later version, whose keys start so. */
export function unknownRecords(prefix: string): EngineError {
  return new EngineError(
    'STORE_FORMAT',
    `the store has records of a kind that this version does not know: their keys start with ${JSON.stringify(prefix)}. ` +
      'A later version wrote them, and they may need contents that seem to be unused, so nothing was collected. ' +
      'Collect with the version that wrote the store.',
    { prefix },
  )
}

export function invalid(field: string, message: string): EngineError {
  return new EngineError('INVALID_ARGUMENT', `${field}: ${message}`, { field })
}

/** What somebody threw, which may be anything, as a text. */
export function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown)
  } catch {
    return 'something without a text was thrown'
  }
}

/** Only a defect of ours makes this fail. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new EngineError('INTERNAL', message)
}
