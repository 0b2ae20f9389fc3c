import { EngineError, invalid } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { given, parseText, shown, kindOf } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { sortedInSlices } from '../../base/sorted.js'
import { TimeSlice } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import { compareUtf8 } from '../../base/order.js'
import { parsePath } from '../../base/path.js'
import type { Core } from '../../session/core.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../../session/table/live.js'
import type { RecordChanges } from '../../session/journal/journal.js'
import { touch } from '../../session/table/activity.js'
import { deadlineOf } from '../../session/table/deadline.js'
import { roughly, SessionIndex } from '../../session/table/session-index.js'
import { commitRecords, mutate, record } from '../../session/mutation-queue.js'
import { keys } from '../../storage/keys.js'
import { checkQuota } from '../quota.js'
import { parsePrefix } from '../../tree/cursor.js'
import { fileLockKind, type FileLockRecord } from '../../records/file-lock.js'

/** The request of `session.fileLocks.lock`. */
export interface FileLockRequest {
  /** Absolute path in the session, such as `/src/a.ts`. It need not exist. */
  readonly path: string
  /** Whole seconds until the lock expires, from 1 to 86,400; more counts as 86,400. */
  readonly timeoutSeconds: number
}

/** Identifies a lock. A caller that knows the id of a lock may renew and release it. */
export interface FileLockReference {
  /** Absolute path in the session, such as `/src/a.ts`. It need not exist. */
  readonly path: string
  /** The id of the lock, which `session.fileLocks.lock` returned. */
  readonly lockId: string
}

/** The request of `session.fileLocks.forceUnlock`. */
export interface FileForceUnlockRequest {
  /** Absolute path in the session, such as `/src/a.ts`. It need not exist. */
  readonly path: string
  /** The reason for the event, at most 65,536 bytes; '' by default. */
  readonly reason?: string
}

/** A lock that is currently held. In a list, `lockId` is '' if the handle may not release the locks of others. */
export interface FileLock extends FileLockReference {
  /** The principal that took the lock. */
  readonly ownerId: string
  /** Seconds until the lock expires, rounded up. */
  readonly remainingTtlSeconds: number
}

interface HeldLock {
  readonly lockId: string
  readonly ownerId: string
  /** By the monotonic clock. */
  readonly expiresAt: number
}

/** The locks of a session in memory. Expired locks stay until the next lock is taken. */
interface LockIndex {
  readonly byPath: Map<string, HeldLock>
  /** No lock in the index expires before this time. */
  nextExpiry: number
}

function addStored(index: LockIndex, json: string, core: Core, key: string): void {
  const { path, lockId, ownerId, expiresAt: storedExpiry, ttlSeconds } = fileLockKind.parse(json, key)
  const expiresAt = deadlineOf(core, storedExpiry, ttlSeconds * 1000)
  index.byPath.set(path, { lockId, ownerId, expiresAt })
  index.nextExpiry = Math.min(index.nextExpiry, expiresAt)
}

/** Locks on paths, with a time to live. They are advisory: they do not prevent writes. */
export class FileLocks {
  readonly #indexes = new SessionIndex<LockIndex>(
    keys.fileLocks,
    () => ({ byPath: new Map(), nextExpiry: Number.POSITIVE_INFINITY }),
    addStored,
    { weigh: ({ byPath }) => byPath.size * roughly.record },
  )

  lock(
    core: Core,
    live: LiveSession,
    { path, timeoutSeconds }: FileLockRequest,
  ): Promise<{ lockId: string }> {
    return mutate(core, live, () => {
      const { byPath } = this.#indexes.get(core, live)
      if (this.#find(core, live, path) !== undefined) {
        throw new EngineError(
          'LOCK_HELD',
          `${path} is locked: wait until it is unlocked or expires, or use forceUnlock`,
          { path },
        )
      }
      const expired = this.#sweep(core, live)
      checkQuota('file locks', byPath.size + 1, limits.fileLocks)
      const lockId = core.ids.newId()
      const put = this.#put(core, live, { path, lockId, ownerId: core.principal, timeoutSeconds })
      const del = expired.filter((one) => one !== path).map((one) => keys.fileLock(live.id, one))
      const committed = record(core, live, {
        type: eventTypes.lockFile,
        details: { path, lockId },
        redo: [],
        ...core.journal.kept((): RecordChanges => ({ put: [put], ...(del.length > 0 && { del }) })),
      })
      return committed.then(() => ({ lockId }))
    })
  }

  renew(
    core: Core,
    live: LiveSession,
    { path, lockId, timeoutSeconds }: FileLockRequest & FileLockReference,
  ): Promise<{ lockId: string; remainingTtlSeconds: number }> {
    return mutate(core, live, () => {
      const { ownerId } = this.#mustFind(core, live, path, lockId)
      // A renewal has no event, so its use of the session must be noted here.
      touch(core, live)
      const put = this.#put(core, live, { path, lockId, ownerId, timeoutSeconds })
      const committed = core.journal.kept(() => commitRecords(core, live, { put: [put] }))
      return (committed ?? live.acknowledged).then(() => ({ lockId, remainingTtlSeconds: timeoutSeconds }))
    })
  }

  /**
   * Lists locks in the order of their paths. Omits their ids if `showIds` is false, because an id is the
   * right to the lock.
   */
  async list(
    core: Core,
    live: LiveSession,
    pathPrefix: string,
    showIds: boolean,
  ): Promise<{ locks: FileLock[] }> {
    const { byPath } = await whenLoaded(() => this.#indexes.get(core, live))
    const now = core.environment.monotonicMs()
    const slice = new TimeSlice(core.environment)
    const held = [...byPath]
    const found: FileLock[] = []
    for (const [path, { lockId, ownerId, expiresAt }] of held) {
      if (slice.over) await slice.next()
      if (expiresAt <= now || !path.startsWith(pathPrefix)) continue
      const remainingTtlSeconds = Math.ceil((expiresAt - now) / 1000)
      found.push({ lockId: showIds ? lockId : '', path, ownerId, remainingTtlSeconds })
    }
    return { locks: await sortedInSlices(found, (a, b) => comparePaths(a.path, b.path), slice) }
  }

  unlock(core: Core, live: LiveSession, { path, lockId }: FileLockReference): Promise<void> {
    return mutate(core, live, () => {
      this.#mustFind(core, live, path, lockId)
      return this.#remove(core, live, path, { type: eventTypes.unlockFile, details: { path, lockId } })
    })
  }

  forceUnlock(
    core: Core,
    live: LiveSession,
    { path, reason }: Required<FileForceUnlockRequest>,
  ): Promise<{ lockId: string; ownerId: string }> {
    return mutate(core, live, () => {
      const { lockId, ownerId } = this.#mustFind(core, live, path)
      const details = { path, lockId, reason }
      const committed = this.#remove(core, live, path, { type: eventTypes.forceUnlockFile, details })
      return committed.then(() => ({ lockId, ownerId }))
    })
  }

  #remove(
    core: Core,
    live: LiveSession,
    path: string,
    event: { type: (typeof eventTypes)['unlockFile' | 'forceUnlockFile']; details: object },
  ): Promise<void> {
    this.#indexes.get(core, live).byPath.delete(path)
    return record(core, live, {
      ...event,
      redo: [],
      ...core.journal.kept((): RecordChanges => ({ del: [keys.fileLock(live.id, path)] })),
    })
  }

  /** Finds a lock that has not expired. */
  #find(core: Core, live: LiveSession, path: string): HeldLock | undefined {
    const lock = this.#indexes.get(core, live).byPath.get(path)
    return lock !== undefined && lock.expiresAt > core.environment.monotonicMs() ? lock : undefined
  }

  #mustFind(core: Core, live: LiveSession, path: string, lockId?: string): HeldLock {
    const lock = this.#find(core, live, path)
    if (lock !== undefined && (lockId === undefined || lock.lockId === lockId)) return lock
    throw new EngineError(
      'LOCK_NOT_FOUND',
      `${path} has no lock with this id: it was released, or it expired`,
      {
        path,
        ...(lockId !== undefined && { lockId: shown(lockId) }),
      },
    )
  }

  /** Sets a lock in memory, and returns its record. */
  #put(
    core: Core,
    live: LiveSession,
    lock: { path: string; lockId: string; ownerId: string; timeoutSeconds: number },
  ): readonly [key: string, record: FileLockRecord] {
    const { path, lockId, ownerId, timeoutSeconds } = lock
    const { environment } = core
    core.fineClockSpans.note(environment)
    const expiresAt = environment.monotonicMs() + timeoutSeconds * 1000
    const index = this.#indexes.get(core, live)
    index.byPath.set(path, { lockId, ownerId, expiresAt })
    index.nextExpiry = Math.min(index.nextExpiry, expiresAt)
    return [
      keys.fileLock(live.id, path),
      {
        path,
        lockId,
        ownerId,
        expiresAt: environment.wallClockMs() + timeoutSeconds * 1000,
        ttlSeconds: timeoutSeconds,
      },
    ]
  }

  /** Removes expired locks, and returns their paths. */
  #sweep(core: Core, live: LiveSession): string[] {
    const index = this.#indexes.get(core, live)
    const now = core.environment.monotonicMs()
    if (index.nextExpiry > now) return []
    const expired: string[] = []
    index.nextExpiry = Number.POSITIVE_INFINITY
    for (const [path, { expiresAt }] of index.byPath) {
      if (expiresAt <= now) {
        expired.push(path)
        index.byPath.delete(path)
      } else index.nextExpiry = Math.min(index.nextExpiry, expiresAt)
    }
    return expired
  }
}

const lockShape = new Shape<FileLockRequest>({ path: true, timeoutSeconds: true })

const renewShape = new Shape<FileLockRequest & FileLockReference>({
  path: true,
  timeoutSeconds: true,
  lockId: true,
})

const referenceShape = new Shape<FileLockReference>({ path: true, lockId: true })

const forceUnlockShape = new Shape<FileForceUnlockRequest>({ path: true, reason: true })

const listShape = new Shape<{ readonly pathPrefix?: string }>({ pathPrefix: true })

export function parseRenewal(
  request: FileLockRequest & FileLockReference,
): FileLockRequest & FileLockReference {
  const { lockId, ...lock } = renewShape.read(request)
  return { ...parseFileLock(lock), lockId: parseLockId(lockId) }
}

function parseLockId(lockId: unknown): string {
  if (typeof lockId !== 'string') throw invalid('lockId', `must be a string; it is ${kindOf(lockId)}`)
  return lockId
}

export function parseFileLock(request: FileLockRequest): FileLockRequest {
  const { path, timeoutSeconds } = lockShape.read(request)
  parsePath(path)
  if (!Number.isInteger(timeoutSeconds) || timeoutSeconds <= 0)
    throw invalid(
      'timeoutSeconds',
      `must be a whole number of seconds from 1; it is ${given(timeoutSeconds)}`,
    )
  return { path, timeoutSeconds: Math.min(timeoutSeconds, limits.fileLockSeconds) }
}

export function parseFileLockReference(request: FileLockReference): FileLockReference {
  const { path, lockId } = referenceShape.read(request)
  parsePath(path)
  return { path, lockId: parseLockId(lockId) }
}

export function parseForceUnlock(request: FileForceUnlockRequest): Required<FileForceUnlockRequest> {
  const { path, reason = '' } = forceUnlockShape.read(request)
  parsePath(path)
  return { path, reason: parseText('reason', reason, limits.messageBytes) }
}

export function parseFileLockList(request: { readonly pathPrefix?: string }): string {
  return parsePrefix(listShape.read(request).pathPrefix ?? '')
}

/** Compares as if `/` came before every other character, so that a directory comes before its entries. */
function comparePaths(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  let at = 0
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++
  if (at === length) return a.length - b.length
  if (a[at] === '/') return -1
  return b[at] === '/' ? 1 : compareUtf8(a.charAt(at), b.charAt(at))
}
