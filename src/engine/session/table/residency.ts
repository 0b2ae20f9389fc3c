import { limits } from '../../base/limits.js'
import type { LiveSession } from './live.js'

/**
 * The sessions in memory. On a durable store the least recently used ones leave memory when all
 * together have more than the budget, unless something rests on them: operations, open or locked files, followers of
 * their events, unstored changes. Handles find them again. An operation that still has hold of a session that
 * left goes on with the very same one, which then is in memory again: there is never a second one at the same time.
 */
export class Residency {
  readonly #live: Map<string, LiveSession>
  readonly #budgetBytes: number
  /** Memory is the truth: nothing may leave it. */
  readonly #isTruth: boolean
  /** Sessions that left, for as long as something has hold of them. */
  readonly #left = new Map<string, WeakRef<LiveSession>>()
  readonly #cleared = new FinalizationRegistry<string>((id) => {
    if (this.#left.get(id)?.deref() === undefined) this.#left.delete(id)
  })
  /** The memory that services use for a session, roughly, in bytes. */
  readonly #weights: ((live: LiveSession) => number)[] = []
  #uses = 0
  #untilLook: number = limits.sessionsLookedAt

  /** `budgetBytes` is infinite where memory is the truth. */
  constructor(live: Map<string, LiveSession>, budgetBytes: number) {
    this.#live = live
    this.#budgetBytes = budgetBytes
    this.#isTruth = budgetBytes === Number.POSITIVE_INFINITY
  }

  /** Whether a session has more earlier states at hand than it may. */
  hasTooManyPins({ pins, pinnedBytes }: LiveSession): boolean {
    if (this.#isTruth || pins === undefined) return false
    return pins.size > limits.pinnedRoots || pinnedBytes > this.#budgetBytes / limits.sessionShare
  }

  /**
   * Whether the store should have the session's tree, so that opening it replays few events, and not all of the tree
   * has to be in memory.
   */
  wantsSnapshot(live: LiveSession): boolean {
    if (this.#isTruth) return false
    return live.seq - live.snapshotSeq >= limits.eventsPerSnapshot || live.unstoredBytes > this.#budgetBytes
  }

  /** Whether the store lags so much that changes have to wait for it. */
  isOverdue(live: LiveSession): boolean {
    return live.unstoredBytes > this.#budgetBytes * 2
  }

  /** `weight` gives the memory that a service uses for a session, roughly, in bytes. */
  weigh(weight: (live: LiveSession) => number): void {
    this.#weights.push(weight)
  }

  used(live: LiveSession): void {
    live.usedAt = ++this.#uses
  }

  /** A session comes into memory. */
  enter(live: LiveSession): void {
    this.used(live)
    this.#live.set(live.id, live)
    live.slot.live = live
  }

  /** The session that something still has hold of, in memory again; undefined when it has to be read. */
  comeBack(id: string, tenantKey: string): LiveSession | undefined {
    const live = this.#left.get(id)?.deref()
    if (live === undefined || live.tenantKey !== tenantKey) return undefined
    live.comeBack?.()
    return live
  }

  /** Takes a session out of memory that is idle, and of which the store has everything. */
  leave(live: LiveSession): void {
    this.#live.delete(live.id)
    this.#left.set(live.id, new WeakRef(live))
    this.#cleared.register(live, live.id)
    live.stay = {}
    live.pins = undefined
    live.pinnedBytes = 0
    live.checkpoints = undefined
    live.comeBack = () => {
      live.comeBack = undefined
      if (live.discarded !== undefined) return
      this.#left.delete(live.id)
      this.enter(live)
    }
    if (!live.slot.synchronous) live.slot.live = undefined
  }

  /** Sessions that left and that something still has hold of. */
  get left(): LiveSession[] {
    return [...this.#left.values()].flatMap((ref) => ref.deref() ?? [])
  }

  /** As {@link left}; they are forgotten. */
  takeLeft(): LiveSession[] {
    const { left } = this
    this.#left.clear()
    return left
  }

  /** To be called when something may have grown: whether it is time to look at all. */
  get due(): boolean {
    if (this.#isTruth || --this.#untilLook > 0) return false
    this.#untilLook = Math.max(limits.sessionsLookedAt, this.#live.size >> 2)
    return true
  }

  /** Idle sessions that would leave more room to others if the store had their trees. */
  heavy(): LiveSession[] {
    const share = this.#budgetBytes / limits.sessionShare
    return [...this.#live.values()].filter((live) => live.idle && live.unstoredBytes > share)
  }

  /** Idle sessions to take out of memory, oldest first, so that a quarter of the budget is free again. */
  tooMany(): LiveSession[] {
    let bytes = 0
    const weights = new Map<LiveSession, number>()
    for (const live of this.#live.values()) {
      // Sessions that cannot leave must not drive out the others.
      if (!live.idle) continue
      const weight = this.#weights.reduce((sum, weigh) => sum + weigh(live), live.bytes)
      weights.set(live, weight)
      bytes += weight
    }
    const leaving: LiveSession[] = []
    if (bytes <= this.#budgetBytes) return leaving
    const oldest = [...weights.keys()].toSorted((a, b) => a.usedAt - b.usedAt)
    for (const live of oldest) {
      if (bytes <= this.#budgetBytes * 0.75) break
      bytes -= weights.get(live)!
      leaving.push(live)
    }
    return leaving
  }
}
