import { checkSignal } from '../../base/abort.js'
import { invalid } from '../../base/errors.js'
import { given, parseSize, parseText } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { endOfRanges, type LockKind, type LockOwner, type LockRange } from './posix-lock-ranges.js'

/** The kinds of locks on ranges. */
export const PosixLockKind = {
  /** A write lock. No other owner can hold a lock on the same bytes. */
  EXCLUSIVE: 'POSIX_LOCK_KIND_EXCLUSIVE',
  /** A read lock. Several owners can hold it on the same bytes. */
  SHARED: 'POSIX_LOCK_KIND_SHARED',
} as const
/** One of the values of {@link PosixLockKind}. */
export type PosixLockKind = (typeof PosixLockKind)[keyof typeof PosixLockKind]

/** The modes of locks on whole files. */
export const PosixFlockMode = {
  /** No other owner can hold a flock lock on the file. */
  EXCLUSIVE: 'POSIX_FLOCK_MODE_EXCLUSIVE',
  /** Several owners can hold it on the file. */
  SHARED: 'POSIX_FLOCK_MODE_SHARED',
} as const
/** One of the values of {@link PosixFlockMode}. */
export type PosixFlockMode = (typeof PosixFlockMode)[keyof typeof PosixFlockMode]

/** The owner of a lock. `clientId` and `ownerId` together identify it. */
export interface PosixLockOwner {
  /** An id that you choose, such as one of an agent or process, 1 to 1,024 bytes. */
  readonly ownerId: string
  /** A process id, for information only; 0 by default. */
  readonly pid?: number
  /** Separates owners of different clients, at most 1,024 bytes; '' by default. */
  readonly clientId?: string
}

/** A range of bytes. Its end, `start` plus `length`, is at most 2^63. */
export interface PosixLockRange {
  /** The first byte, from 0, the default, to 2^63 − 1. */
  readonly start?: number | bigint
  /** Number of bytes, at most 2^63 − 1. 0, the default, means to the end of the file, also when it grows. */
  readonly length?: number | bigint
}

/** The request of `session.posixLocks.funlock`. */
export interface PosixUnlockRequest {
  /** Absolute path in the session, such as `/src/a.ts`. It must exist. Symlinks are followed. */
  readonly path: string
  /** The bytes to release. Absent: the whole file. */
  readonly range?: PosixLockRange
  /** The owner whose locks are released. */
  readonly owner: PosixLockOwner
  /**
   * If true, the owner's flock lock is released, and `range` is ignored. If false, the default, the owner's
   * locks in the range are released.
   */
  readonly isFlock?: boolean
}

/** The request of `session.posixLocks.set` and `setBlocking`. */
export interface PosixSetRequest {
  /** Absolute path in the session, such as `/src/a.ts`. It must exist. Symlinks are followed. */
  readonly path: string
  /** Whether the lock is exclusive or shared. */
  readonly kind: PosixLockKind
  /** The bytes to lock. Absent: the whole file. */
  readonly range?: PosixLockRange
  /** The owner of the lock. */
  readonly owner: PosixLockOwner
}

/** The request of `session.posixLocks.get`: the lock to test. */
export interface PosixGetRequest extends PosixSetRequest {
  /**
   * If true, the request tests flock locks, and ignores `range`. If false, the default, it tests locks on
   * ranges.
   */
  readonly isFlock?: boolean
}

/** The request of `session.posixLocks.flock`. */
export interface PosixFlockRequest {
  /** Absolute path in the session, such as `/src/a.ts`. It must exist. Symlinks are followed. */
  readonly path: string
  /** Whether the lock is exclusive, the default, or shared. */
  readonly mode?: PosixFlockMode
  /** The owner of the lock. */
  readonly owner: PosixLockOwner
  /**
   * If true, the call waits for the lock. If false, the default, it fails with `LOCK_HELD` if the lock is not
   * free.
   */
  readonly blocking?: boolean
}

/** Options of a call that waits for a lock. */
export interface LockWaitOptions {
  /** Ends the wait with the signal's reason. */
  readonly signal?: AbortSignal
}

/** A lock that is held or requested. */
export interface PosixLock {
  /** Whether the lock is exclusive or shared. */
  readonly kind: PosixLockKind
  /** The locked bytes; the whole file for a flock lock. */
  readonly range: {
    /** The first byte. */
    readonly start: bigint
    /** Number of bytes; 0n means to the end of the file, also when it grows. */
    readonly length: bigint
  }
  /** The owner of the lock, with its defaults filled in. */
  readonly owner: Required<PosixLockOwner>
  /** Whether this is a flock lock on the whole file. */
  readonly isFlock: boolean
}

export type Owner = LockOwner & Required<PosixLockOwner>

/** A checked copy of a request. Later changes by the caller do not affect it. */
export interface ParsedLock extends LockRange {
  readonly path: string
  readonly kind: LockKind
  readonly owner: Owner
  readonly space: 'ranges' | 'whole'
}

export type ParsedUnlock = Omit<ParsedLock, 'kind'>

const kinds: ReadonlyMap<unknown, LockKind> = new Map([
  [PosixLockKind.EXCLUSIVE, 'exclusive'],
  [PosixLockKind.SHARED, 'shared'],
])
const modes: ReadonlyMap<unknown, LockKind> = new Map([
  [PosixFlockMode.EXCLUSIVE, 'exclusive'],
  [PosixFlockMode.SHARED, 'shared'],
])
const placeNames = { path: true, owner: true } as const
const setShape = new Shape<PosixSetRequest>({ ...placeNames, kind: true, range: true })
const getShape = new Shape<PosixGetRequest>({ ...placeNames, kind: true, range: true, isFlock: true })
const flockShape = new Shape<PosixFlockRequest>({ ...placeNames, mode: true, blocking: true })
const unlockShape = new Shape<PosixUnlockRequest>({ ...placeNames, range: true, isFlock: true })
const ownerShape = new Shape<PosixLockOwner>({ ownerId: true, pid: true, clientId: true })
const rangeShape = new Shape<PosixLockRange>({ start: true, length: true })
const waitShape = new Shape<LockWaitOptions>({ signal: true })

const wholeFile: LockRange = { start: 0n, end: endOfRanges }

export function parseSet(request: PosixSetRequest): ParsedLock {
  return lockOf(setShape.read(request))
}

export function parseGet(request: PosixGetRequest): ParsedLock {
  const copy = getShape.read(request)
  const lock = lockOf(copy)
  return parseFlag('isFlock', copy.isFlock) ? { ...lock, ...wholeFile, space: 'whole' } : lock
}

function lockOf(request: PosixSetRequest): ParsedLock {
  const kind = parseEnum('kind', kinds, request.kind)
  return { ...parsePlace(request), kind, space: 'ranges', ...parseRange(request.range) }
}

export function parseFlock(request: PosixFlockRequest): ParsedLock & { readonly blocking: boolean } {
  const copy = flockShape.read(request)
  const kind = parseEnum('mode', modes, copy.mode ?? PosixFlockMode.EXCLUSIVE)
  const blocking = parseFlag('blocking', copy.blocking)
  return { ...parsePlace(copy), kind, space: 'whole', ...wholeFile, blocking }
}

export function parseUnlock(request: PosixUnlockRequest): ParsedUnlock {
  const copy = unlockShape.read(request)
  const place = parsePlace(copy)
  if (parseFlag('isFlock', copy.isFlock)) return { ...place, space: 'whole', ...wholeFile }
  return { ...place, space: 'ranges', ...parseRange(copy.range) }
}

export function parseSignal(options: LockWaitOptions): AbortSignal | undefined {
  const { signal } = waitShape.read(options, 'options')
  checkSignal(signal, 'options.signal')
  return signal
}

export function showLock(
  { kind, owner, start, end }: Omit<ParsedLock, 'path' | 'space'>,
  isFlock: boolean,
): PosixLock {
  const { ownerId, pid, clientId } = owner
  return {
    kind: kind === 'exclusive' ? PosixLockKind.EXCLUSIVE : PosixLockKind.SHARED,
    range: { start, length: end === endOfRanges ? 0n : end - start },
    owner: { ownerId, pid, clientId },
    isFlock,
  }
}

function parsePlace(request: { path: string; owner: PosixLockOwner }): { path: string; owner: Owner } {
  const { path } = request
  parsePath(path)
  const owner = ownerShape.readPart(request.owner, 'owner')
  const ownerId = parseText('owner.ownerId', owner.ownerId, limits.labelBytes)
  if (ownerId === '') throw invalid('owner.ownerId', 'must not be empty')
  const clientId = parseText('owner.clientId', owner.clientId ?? '', limits.labelBytes)
  const pid = parseSize('owner.pid', owner.pid ?? 0)
  return { path, owner: { key: JSON.stringify([clientId, ownerId]), ownerId, pid, clientId } }
}

function parseRange(given: PosixLockRange | undefined): LockRange {
  if (given === undefined) return wholeFile
  const range = rangeShape.readPart(given, 'range')
  const start = parseInt64('range.start', range.start ?? 0n)
  const length = parseInt64('range.length', range.length ?? 0n)
  if (start + length > endOfRanges)
    throw invalid('range.length', 'makes the range end after 2^63; 0 means to the end of the file')
  return { start, end: length === 0n ? endOfRanges : start + length }
}

function parseInt64(field: string, value: unknown): bigint {
  const integer = typeof value === 'number' ? Number.isSafeInteger(value) : typeof value === 'bigint'
  const parsed = integer ? BigInt(value as number | bigint) : -1n
  if (parsed < 0n || parsed >= endOfRanges) {
    throw invalid(
      field,
      `must be a whole number from 0 to 2^63 − 1, above 2^53 − 1 as a bigint; it is ${given(value)}`,
    )
  }
  return parsed
}

function parseEnum(field: string, values: ReadonlyMap<unknown, LockKind>, value: unknown): LockKind {
  const kind = values.get(value)
  if (kind === undefined)
    throw invalid(field, `must be one of ${[...values.keys()].join(', ')}; it is ${given(value)}`)
  return kind
}

function parseFlag(field: string, value: unknown): boolean {
  if (value !== undefined && typeof value !== 'boolean')
    throw invalid(field, `must be true or false; it is ${given(value)}`)
  return value === true
}
