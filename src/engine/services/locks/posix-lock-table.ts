import { itemAt, present } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import {
  conflicts,
  conflictsWithHeld,
  everything,
  firstConflict,
  overlap,
  replaced,
  type Lock,
  type LockKind,
  type LockOwner,
  type LockRange,
} from './posix-lock-ranges.js'
import { quota } from '../quota.js'

/**
 * Locks conflict only within one space: those on ranges and those on whole files are independent of each
 * other.
 */
export type LockSpace = 'ranges' | 'whole'

export interface LockTarget<Owner extends LockOwner> extends LockRange {
  /** Identifies the file by its inode number. */
  readonly file: number
  readonly space: LockSpace
  readonly owner: Owner
  /** Only for error messages. */
  readonly path: string
}

export interface LockRequest<Owner extends LockOwner> extends LockTarget<Owner> {
  readonly kind: LockKind
}

interface Waiter<Owner extends LockOwner> {
  readonly request: LockRequest<Owner>
  readonly queue: FileLocks<Owner>
  readonly signal: AbortSignal | undefined
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** The locks of one file in one space. */
interface FileLocks<Owner extends LockOwner> {
  /** The locks of each owner, in order and without overlap. Locks of one kind that touch are merged. */
  readonly held: Map<string, readonly Lock<Owner>[]>
  /** The waiting requests in the order of the queue; see {@link LockTable}. */
  readonly waiting: Waiter<Owner>[]
}

/**
 * The advisory locks of many files, and the queues for them.
 *
 * A request replaces the locks that its owner has on the range. It can split, merge, upgrade and downgrade
 * them. It conflicts with a lock of another owner if the ranges overlap and one of the two is exclusive. A
 * request also queues after every conflicting request that already waits, even if the request itself cannot
 * wait, so that no owner starves. There is one exception: a waiter that depends on this owner, directly or
 * through others, stays after its request. For example, an owner that upgrades its lock goes ahead of the
 * waiters for that lock.
 *
 * A request that would close a cycle of owners that wait for each other, across all files, fails at once with
 * DEADLOCK. The other owners continue to wait. Only a request can close a cycle. A grant, a release or a
 * waiter that leaves adds no dependency.
 *
 * A waiter gets its lock in the same step that removes the conflict, so no other caller can take the lock
 * first.
 */
export class LockTable<Owner extends LockOwner> {
  readonly #files: Record<LockSpace, Map<number, FileLocks<Owner>>> = { ranges: new Map(), whole: new Map() }
  /** The number of locks that each owner holds. */
  readonly #held = new Map<string, number>()
  #heldTotal = 0
  readonly #waiting = new Map<string, Set<Waiter<Owner>>>()
  #waitingTotal = 0
  /** One listener for each signal, for all requests that wait with it. */
  readonly #signals = new Map<AbortSignal, Set<Waiter<Owner>>>()
  readonly #onAbort = ({ currentTarget }: Event): void => this.#abort(currentTarget as AbortSignal)
  readonly #onUnused: (file: number) => void

  /**
   * `onUnused` is called when a file has lost its last lock and waiter, except by {@link drop} and {@link
   * close}.
   */
  constructor(onUnused: (file: number) => void = () => undefined) {
    this.#onUnused = onUnused
  }

  /** Whether a file has a lock or waiter. */
  uses(file: number): boolean {
    return this.#files.ranges.has(file) || this.#files.whole.has(file)
  }

  /** Whether the table has neither locks nor waiters. */
  get empty(): boolean {
    return this.#files.ranges.size === 0 && this.#files.whole.size === 0
  }

  /**
   * The lock that makes {@link set} fail: the first conflicting lock that is held, otherwise the first that
   * waits.
   */
  conflict(request: LockRequest<Owner>): Lock<Owner> | undefined {
    const locks = this.#files[request.space].get(request.file)
    if (locks === undefined) return undefined
    let first: Lock<Owner> | undefined
    for (const lock of conflictsWithHeld(locks.held, request)) {
      if (first === undefined || lock.start < first.start) first = lock
    }
    if (first !== undefined) return first
    const position = this.#position(locks, this.#search(request))
    return position.find((waiter) => conflicts(waiter.request, request))?.request
  }

  /**
   * Sets a lock.
   *
   * @throws {EngineError} LOCK_HELD when a lock or an earlier request conflicts
   * @throws {EngineError} QUOTA when the table is full
   */
  set(request: LockRequest<Owner>): void {
    if (this.conflict(request) !== undefined) {
      throw new EngineError(
        'LOCK_HELD',
        `${request.path} is locked by another owner; wait for the lock with a blocking request, or try again later`,
        { path: request.path },
      )
    }
    this.#change(request, request)
  }

  /**
   * Like {@link set}, but waits while there is a conflict. The signal ends the wait with its reason. The
   * following errors are thrown synchronously, and change nothing:
   *
   * @throws {EngineError} DEADLOCK when the wait would never end
   * @throws {EngineError} QUOTA when the table is full, or too many requests already wait
   */
  wait(request: LockRequest<Owner>, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.conflict(request) === undefined) {
      this.#change(request, request)
      return Promise.resolve()
    }
    const { file, space, owner, path } = request
    const queue = present(this.#files[space].get(file), 'the queue of a file')
    const search = this.#search(request)
    const ahead = this.#position(queue, search)
    if (search?.leads(queue, request, ahead) === true) {
      throw new EngineError(
        'DEADLOCK',
        `waiting for the lock on ${path} would never end: its owner waits for a lock of this owner; release that lock first`,
        { path },
      )
    }
    if (this.#waitingTotal >= limits.lockWaiters) throw quota('lock waiters', limits.lockWaiters)
    return new Promise((resolve, reject) => {
      const waiter: Waiter<Owner> = { request, queue, signal, resolve, reject }
      const before = new Set(ahead)
      const behind = queue.waiting.filter((other) => !before.has(other))
      queue.waiting.splice(0, queue.waiting.length, ...ahead, waiter, ...behind)
      addTo(this.#waiting, owner.key, waiter)
      this.#waitingTotal++
      if (signal === undefined) return
      if (!this.#signals.has(signal)) signal.addEventListener('abort', this.#onAbort)
      addTo(this.#signals, signal, waiter)
    })
  }

  /**
   * Releases the owner's locks on a range.
   *
   * @throws {EngineError} QUOTA when the remaining pieces are too many for the table
   */
  release(target: LockTarget<Owner>): void {
    this.#change(target, undefined)
  }

  /** Removes a file, and rejects its waiters. */
  drop(file: number, reason: () => Error): void {
    for (const files of [this.#files.ranges, this.#files.whole]) {
      const locks = files.get(file)
      if (locks === undefined) continue
      files.delete(file)
      for (const [owner, held] of locks.held) this.#count(owner, -held.length)
      for (let first = locks.waiting[0]; first !== undefined; first = locks.waiting[0]) {
        this.#leave(first)
        first.reject(reason())
      }
    }
  }

  /** Removes all files, and rejects all waiters. */
  close(reason: () => Error): void {
    for (const files of [this.#files.ranges, this.#files.whole]) {
      for (const file of files.keys()) this.drop(file, reason)
    }
  }

  /**
   * Carries out a request, or a release if `request` is undefined. Then wakes the waiters that it unblocks.
   */
  #change(target: LockTarget<Owner>, request: LockRequest<Owner> | undefined): void {
    const files = this.#files[target.space]
    let locks = files.get(target.file)
    if (locks === undefined) {
      if (request === undefined) return
      locks = { held: new Map(), waiting: [] }
    }
    const before = locks.held.get(target.owner.key) ?? []
    const after = replaced(before, target, request)
    if (after.length > before.length && this.#heldTotal + after.length - before.length > limits.heldLocks) {
      throw quota('locks', limits.heldLocks)
    }
    files.set(target.file, locks)
    if (this.#put(locks, target, request, after)) this.#wake(locks, target)
    this.#tidy(target.file, target.space)
  }

  /** Stores an owner's locks. Returns whether waiters may now get a lock. */
  #put(
    locks: FileLocks<Owner>,
    target: LockTarget<Owner>,
    request: LockRequest<Owner> | undefined,
    after: readonly Lock<Owner>[],
  ): boolean {
    const { key } = target.owner
    const before = locks.held.get(key) ?? []
    if (after.length === 0) locks.held.delete(key)
    else locks.held.set(key, after)
    this.#count(key, after.length - before.length)
    if (request?.kind === 'exclusive') return false
    return before.some(
      (lock) => overlap(lock, target) && (request === undefined || lock.kind === 'exclusive'),
    )
  }

  /** Grants waiting requests that no longer conflict after a range was freed, in the order of the queue. */
  #wake(locks: FileLocks<Owner>, left: LockRange): void {
    const { waiting, held } = locks
    const freed = [left]
    // The list grows during the loop, because a waiter that replaces its lock by a weaker one also frees a
    // range.
    for (const range of freed) {
      for (let i = 0; i < waiting.length;) {
        const waiter = itemAt(waiting, i)
        const { request } = waiter
        if (
          !overlap(request, range) ||
          waiting.some((one, at) => at < i && conflicts(one.request, request)) ||
          hasConflict(locks, request)
        ) {
          i++
          continue
        }
        this.#leave(waiter)
        waiter.resolve()
        const after = replaced(held.get(request.owner.key) ?? [], request, request)
        if (this.#put(locks, request, request, after)) freed.push(request)
      }
    }
  }

  /**
   * The waiters that a request queues after. Waiters that depend on the request's owner stay after it. They
   * get no new dependency from that.
   */
  #position(locks: FileLocks<Owner>, search: Search<Owner> | undefined): readonly Waiter<Owner>[] {
    if (search === undefined) return locks.waiting
    return locks.waiting.filter((waiter) => !search.leadsFrom(waiter))
  }

  /**
   * A search for the waiters that depend on an owner. An owner that holds nothing and waits for nothing has
   * none.
   */
  #search({ owner: { key } }: LockRequest<Owner>): Search<Owner> | undefined {
    return this.#held.has(key) || this.#waiting.has(key) ? new Search(this, key) : undefined
  }

  /** Used by {@link Search}. */
  waitersOf(owner: string): Iterable<Waiter<Owner>> {
    return this.#waiting.get(owner) ?? []
  }

  /** Removes all waiters with the signal before any lock is granted. */
  #abort(signal: AbortSignal): void {
    const waiters = [...(this.#signals.get(signal) ?? [])]
    for (const waiter of waiters) {
      this.#leave(waiter)
      waiter.reject(signal.reason)
    }
    for (const queue of new Set(waiters.map((waiter) => waiter.queue))) this.#wake(queue, everything)
    for (const { request } of waiters) this.#tidy(request.file, request.space)
  }

  /** Used by {@link Search}. */
  waitingOwners(): Iterable<string> {
    return this.#waiting.keys()
  }

  #leave(waiter: Waiter<Owner>): void {
    const { queue, request, signal } = waiter
    queue.waiting.splice(queue.waiting.indexOf(waiter), 1)
    deleteFrom(this.#waiting, request.owner.key, waiter)
    this.#waitingTotal--
    if (signal === undefined) return
    deleteFrom(this.#signals, signal, waiter)
    if (!this.#signals.has(signal)) signal.removeEventListener('abort', this.#onAbort)
  }

  #count(owner: string, change: number): void {
    const count = (this.#held.get(owner) ?? 0) + change
    if (count === 0) this.#held.delete(owner)
    else this.#held.set(owner, count)
    this.#heldTotal += change
  }

  #tidy(file: number, space: LockSpace): void {
    const locks = this.#files[space].get(file)
    if (locks === undefined || locks.held.size > 0 || locks.waiting.length > 0) return
    this.#files[space].delete(file)
    if (!this.uses(file)) this.#onUnused(file)
  }
}

/** Finds the owners that wait for one owner, directly or through others. It visits each owner once. */
class Search<Owner extends LockOwner> {
  readonly #table: LockTable<Owner>
  readonly #target: string
  readonly #known: Map<string, boolean>
  /** Waiting owners that may depend on the target. */
  readonly #open: Set<string>

  constructor(table: LockTable<Owner>, target: string) {
    this.#table = table
    this.#target = target
    this.#known = new Map([[target, true]])
    this.#open = new Set(table.waitingOwners())
  }

  leadsFrom({ queue, request }: Waiter<Owner>): boolean {
    return this.leads(queue, request, queue.waiting)
  }

  /**
   * Whether a request depends on the target. `line` is the queue that contains the request, or the waiters
   * ahead of it.
   */
  leads(locks: FileLocks<Owner>, request: LockRequest<Owner>, line: readonly Waiter<Owner>[]): boolean {
    if (this.#holds(this.#target, locks, request)) return true
    // Only owners that hold one lock and wait for another can form a path to the target.
    for (const owner of this.#open) {
      if (this.#holds(owner, locks, request) && this.#waits(owner)) return true
    }
    for (const other of line) {
      if (other.request === request) break
      const { key } = other.request.owner
      if (this.#open.has(key) && conflicts(other.request, request) && this.#waits(key)) return true
    }
    return false
  }

  #holds(owner: string, { held }: FileLocks<Owner>, request: Lock<Owner>): boolean {
    const locks = held.get(owner)
    return locks !== undefined && firstConflict(locks, request) !== undefined
  }

  #waits(owner: string): boolean {
    const known = this.#known.get(owner)
    if (known !== undefined) return known
    // No owner waits for itself, so no answer below depends on this one.
    this.#known.set(owner, false)
    this.#open.delete(owner)
    for (const waiter of this.#table.waitersOf(owner)) {
      if (!this.leadsFrom(waiter)) continue
      this.#known.set(owner, true)
      this.#open.add(owner)
      return true
    }
    return false
  }
}

function hasConflict<Owner extends LockOwner>(locks: FileLocks<Owner>, request: Lock<Owner>): boolean {
  return conflictsWithHeld(locks.held, request).next().done !== true
}

function addTo<Key, Value>(map: Map<Key, Set<Value>>, key: Key, value: Value): void {
  const values = map.get(key)
  if (values === undefined) map.set(key, new Set([value]))
  else values.add(value)
}

function deleteFrom<Key, Value>(map: Map<Key, Set<Value>>, key: Key, value: Value): void {
  const values = map.get(key)
  values?.delete(value)
  if (values?.size === 0) map.delete(key)
}
