import { checkSignal } from '../../base/abort.js'
import { invalid } from '../../base/errors.js'
import { given, parseSize, parseText } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { endOfRanges, type LockKind, type LockOwner, type LockRange } from './posix-lock-ranges.js'

export const PosixLockKind = {
  EXCLUSIVE: 'POSIX_LOCK_KIND_EXCLUSIVE',
  SHARED: 'POSIX_LOCK_KIND_SHARED',
} as const
export type PosixLockKind = (typeof PosixLockKind)[keyof typeof PosixLockKind]

export const PosixFlockMode = {
  EXCLUSIVE: 'POSIX_FLOCK_MODE_EXCLUSIVE',
  SHARED: 'POSIX_FLOCK_MODE_SHARED',
} as const
export type PosixFlockMode = (typeof PosixFlockMode)[keyof typeof PosixFlockMode]

/** `clientId` and `ownerId` together are the owner, each at most 1,024 bytes; the pid is information. */
export interface PosixLockOwner {
  readonly ownerId: string
  /** 0 by default. */
  readonly pid?: number
  /** '' by default. */
  readonly clientId?: string
}

/** `start` and `length` go up to 2^63 − 1, their sum to 2^63; both are 0 by default. Length 0 is to the end. */
export interface PosixLockRange {
  readonly start?: number | bigint
  readonly length?: number | bigint
}

export interface PosixUnlockRequest {
  readonly path: string
  /** Absent: all of the file. */
  readonly range?: PosixLockRange
  readonly owner: PosixLockOwner
  /** true: the flock lock, the range is ignored; false, the default: the lock on the range. */
  readonly isFlock?: boolean
}

export interface PosixSetRequest {
  readonly path: string
  readonly kind: PosixLockKind
  /** Absent: all of the file. */
  readonly range?: PosixLockRange
  readonly owner: PosixLockOwner
}

export interface PosixGetRequest extends PosixSetRequest {
  /** true: asks about flock locks, the range is ignored. */
  readonly isFlock?: boolean
}

export interface PosixFlockRequest {
  readonly path: string
  /** EXCLUSIVE by default. */
  readonly mode?: PosixFlockMode
  readonly owner: PosixLockOwner
  /** true: waits; false, the default: LOCK_HELD when it cannot be had at once. */
  readonly blocking?: boolean
}

export interface LockWaitOptions {
  /** Ends the waiting, with the signal's reason. */
  readonly signal?: AbortSignal
}

/** A lock as it is shown. */
export interface PosixLock {
  readonly kind: PosixLockKind
  /** Length 0n: to the end. */
  readonly range: { readonly start: bigint; readonly length: bigint }
  readonly owner: Required<PosixLockOwner>
  readonly isFlock: boolean
}

export type Owner = LockOwner & Required<PosixLockOwner>

/** A checked copy of a request: later changes by the caller have no effect. */
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
