import { present } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import type { LiveSession } from './live.js'

/**
 * Decides which sessions stay in memory. On a durable store, the least recently used ones are evicted when
 * all together exceed the budget. Operations, open or locked files, followers of events and unstored changes
 * prevent eviction.
 *
 * Handles find evicted sessions again. An operation that still refers to an evicted session revives that
 * object, so one session never has two objects.
 */
export class Residency {
  readonly #live: Map<string, LiveSession>
  readonly #budgetBytes: number
  /**
   * Whether memory is the only copy of the state, because there is no durable store. Then nothing may be
   * evicted.
   */
  readonly #isTruth: boolean
  /** Evicted sessions, until JavaScript frees them. */
  readonly #evicted = new Map<string, WeakRef<LiveSession>>()
  readonly #cleared = new FinalizationRegistry<string>((id) => {
    if (this.#evicted.get(id)?.deref() === undefined) this.#evicted.delete(id)
  })
  /** Functions that return the approximate memory of a service for a session, in bytes. */
  readonly #weights: ((live: LiveSession) => number)[] = []
  #uses = 0
  #untilLook: number = limits.sessionsLookedAt

  /** `budgetBytes` is infinite without a durable store. */
  constructor(live: Map<string, LiveSession>, budgetBytes: number) {
    this.#live = live
    this.#budgetBytes = budgetBytes
    this.#isTruth = budgetBytes === Number.POSITIVE_INFINITY
  }

  /** Whether a session holds too many roots of earlier states. */
  hasTooManyPins({ pins, pinnedBytes }: LiveSession): boolean {
    if (this.#isTruth || pins === undefined) return false
    return pins.size > limits.pinnedRoots || pinnedBytes > this.#budgetBytes / limits.sessionShare
  }

  /**
   * Whether the session needs a new snapshot, so that opening it replays few events and stored nodes can be
   * unloaded. A snapshot that would cost more than the replay of the events waits for further events. It is expected to
   * cost as much as the one before it.
   */
  wantsSnapshot(live: LiveSession): boolean {
    if (this.#isTruth) return false
    const events = live.seq - live.snapshotSeq
    if (events < limits.eventsPerSnapshot) return live.unstoredBytes > this.#budgetBytes
    const isWorth = live.snapshotSize <= events * limits.snapshotSizePerEvent
    return isWorth || events >= limits.eventsPerSnapshotMax || live.unstoredBytes > this.#budgetBytes
  }

  /** Whether so much of the tree is unstored that changes must wait. */
  isOverdue(live: LiveSession): boolean {
    return live.unstoredBytes > this.#budgetBytes * 2
  }

  /** `weight` returns the approximate memory of a service for a session, in bytes. */
  weigh(weight: (live: LiveSession) => number): void {
    this.#weights.push(weight)
  }

  used(live: LiveSession): void {
    live.usedAt = ++this.#uses
  }

  /** Adds a session to memory. */
  enter(live: LiveSession): void {
    this.used(live)
    this.#live.set(live.id, live)
    live.slot.live = live
  }

  /**
   * Returns an evicted session to memory if it was not freed yet. Undefined if it must be read from the
   * store.
   */
  revive(id: string, tenantKey: string): LiveSession | undefined {
    const live = this.#evicted.get(id)?.deref()
    if (live === undefined || live.tenantKey !== tenantKey) return undefined
    live.revive?.()
    return live
  }

  /** Evicts a session that is idle and completely stored. */
  evict(live: LiveSession): void {
    this.#live.delete(live.id)
    this.#evicted.set(live.id, new WeakRef(live))
    this.#cleared.register(live, live.id)
    live.epoch = {}
    live.pins = undefined
    live.pinnedBytes = 0
    live.checkpoints = undefined
    live.lineage = undefined
    // Other engines may store newer ones than those of this state.
    if (live.shared === undefined) live.branchTips = undefined
    live.revive = () => {
      live.revive = undefined
      if (live.discarded !== undefined) return
      this.#evicted.delete(live.id)
      this.enter(live)
    }
    if (!live.slot.synchronous) live.slot.live = undefined
  }

  /** Evicted sessions that are not freed yet. */
  get evicted(): LiveSession[] {
    return [...this.#evicted.values()].flatMap((ref) => ref.deref() ?? [])
  }

  /** Returns {@link evicted} and forgets them. */
  takeEvicted(): LiveSession[] {
    const { evicted } = this
    this.#evicted.clear()
    return evicted
  }

  /** Whether a check is due. Call this once for each session that was loaded or changed. */
  get due(): boolean {
    if (this.#isTruth || --this.#untilLook > 0) return false
    this.#untilLook = Math.max(limits.sessionsLookedAt, this.#live.size >> 2)
    return true
  }

  /** Idle sessions whose unstored nodes take much memory. A snapshot lets these nodes be unloaded. */
  toSnapshot(): LiveSession[] {
    const share = this.#budgetBytes / limits.sessionShare
    return [...this.#live.values()].filter((live) => live.idle && live.unstoredBytes > share)
  }

  /** Idle sessions to evict, least recently used first, so that a quarter of the budget becomes free. */
  toEvict(): LiveSession[] {
    let bytes = 0
    const weights = new Map<LiveSession, number>()
    for (const live of this.#live.values()) {
      // Sessions that cannot be evicted must not cause the eviction of others.
      if (!live.idle) continue
      const weight = this.#weights.reduce((sum, weigh) => sum + weigh(live), live.bytes)
      weights.set(live, weight)
      bytes += weight
    }
    const chosen: LiveSession[] = []
    if (bytes <= this.#budgetBytes) return chosen
    const oldest = [...weights.keys()].toSorted((a, b) => a.usedAt - b.usedAt)
    for (const live of oldest) {
      if (bytes <= this.#budgetBytes * 0.75) break
      bytes -= present(weights.get(live), 'the weight of a session')
      chosen.push(live)
    }
    return chosen
  }
}
