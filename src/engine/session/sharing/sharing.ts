import { messageOf } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { inBackground, type Core, type StoreSharing } from '../core.js'
import { readHeads } from '../../storage/heads.js'
import type { SharedCapability, SharedStore } from '../../storage/store.js'
import type { LiveSession } from '../table/live.js'
import { bytesWritten } from '../usage/session-bytes.js'
import { catchUp } from './shared-changes.js'
import { SharedSession, type StoredState } from './shared-session.js'
import type { CollectionMember } from './collection-member.js'
import type { StoreClock } from './store-clock.js'

/**
 * One engine's view of a store that other engines change too. It compares the heads of the sessions in memory with those
 * in the store, all with one query, and brings sessions to the state in the store.
 */
export class Sharing implements StoreSharing {
  readonly #freshnessMs: number
  readonly #member: CollectionMember
  readonly #clock: StoreClock
  readonly engineId: string
  /** Starts all heads that this engine makes. */
  readonly #prefix: string
  #heads = 0
  #looking: Promise<void> | undefined
  #sweeper: ReturnType<typeof setInterval> | undefined
  #timer: ReturnType<typeof setInterval> | undefined

  #sweeping: Promise<void> | undefined

  constructor(
    { freshnessMs }: SharedCapability,
    { engineId }: SharedStore,
    { clock, member }: { readonly clock: StoreClock; readonly member: CollectionMember },
  ) {
    this.#member = member
    this.#freshnessMs = freshnessMs
    this.#clock = clock
    this.engineId = engineId
    this.#prefix = `${this.engineId}.`
  }

  /**
   * Looks at the heads in regular intervals, for followers of events, subscribers to messages and long work. `sweep` looks
   * for work of engines that have ended.
   */
  start(core: Core, sweep: () => Promise<void>): void {
    this.#sweeper = setInterval(() => {
      if (core.fence.closed) {
        // Otherwise other engines do not learn of long work while this engine gets no requests.
        if (core.table.inUse.size > 0) inBackground(core, core.fence.recover())
        return
      }
      this.#sweeping ??= this.#clock
        .adjust()
        .then(() => {
          core.clockSpans.note(core.environment)
          for (const use of core.table.inUse.values()) use.note()
          return sweep()
        })
        .finally(() => {
          this.#sweeping = undefined
        })
      inBackground(core, this.#sweeping)
    }, limits.sharedSweepMs)
    this.#sweeper.unref()
    this.#timer = setInterval(() => {
      if (core.table.live.size === 0 || core.fence.closed) return
      const looked = this.#look(core)
      // The next read looks again, and gets the error.
      looked.catch((error: unknown) =>
        core.log('warn', 'the store could not be read', { error: messageOf(error) }),
      )
    }, this.#freshnessMs)
    this.#timer.unref()
    this.#member.start(core)
  }

  stop(): void {
    clearInterval(this.#timer)
    clearInterval(this.#sweeper)
    this.#member.stop()
  }

  async lookAtAll(core: Core): Promise<void> {
    // One that is used again is compared with the store first.
    for (const { shared } of core.table.residency.evicted)
      if (shared !== undefined) shared.readAt = Number.NEGATIVE_INFINITY
    const since = core.environment.monotonicMs()
    const lives = [...core.table.live.values()]
    // One look reads the heads of all of them.
    for (const { shared } of lives) if (shared !== undefined) shared.isUsed = true
    for (const live of lives)
      await this.#readSince(core, live, since).catch((error: unknown) => {
        // A session that could not be brought to its state in the store has left memory.
        if (live.discarded === undefined) throw error
      })
  }

  acknowledge(core: Core): Promise<void> {
    return this.#member.look(core)
  }

  leave(core: Core): Promise<void> {
    return this.#member.leave(core)
  }

  enter(live: LiveSession, head: string, readAt: number): void {
    const stored: StoredState = {
      root: live.tree.freeze(),
      seq: live.seq,
      at: live.lastEventAt,
      chain: live.chain,
      bytesWritten: bytesWritten(live),
    }
    live.shared = new SharedSession(live.id, { head, stored, readAt, nextHead: () => this.nextHead() })
  }

  nextHead(): string {
    return `${this.#prefix}${(++this.#heads).toString(36)}`
  }

  isOwn(head: string): boolean {
    return head.startsWith(this.#prefix)
  }

  isFresh({ environment }: Core, { shared }: LiveSession): boolean {
    if (shared === undefined) return true
    shared.isUsed = true
    return shared.catchingUp === undefined && environment.monotonicMs() - shared.readAt <= this.#freshnessMs
  }

  freshen(core: Core, live: LiveSession): Promise<void> {
    // The bound is that of the call. A state read since then is new enough, however long the read took.
    return this.#readSince(core, live, core.environment.monotonicMs() - this.#freshnessMs)
  }

  async #readSince(core: Core, live: LiveSession, since: number): Promise<void> {
    const { shared } = live
    if (shared === undefined) return
    while (live.discarded === undefined && (shared.catchingUp !== undefined || shared.readAt < since)) {
      shared.isUsed = true
      // A look reads only the heads of sessions in memory. This one may have been evicted before or during the last look.
      live.revive?.()
      if (shared.catchingUp === undefined) await this.#look(core)
      await shared.catchingUp
    }
  }

  #look(core: Core): Promise<void> {
    this.#looking ??= this.#lookNow(core).finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #lookNow(core: Core): Promise<void> {
    const looked: [LiveSession, SharedSession][] = []
    for (const live of core.table.live.values()) {
      const { shared, followers } = live
      if (shared === undefined || shared.catchingUp !== undefined) continue
      const isFollowed = (followers !== undefined && followers.size > 0) || core.table.inUse.has(live.id)
      if (!shared.isUsed && !isFollowed) continue
      shared.isUsed = false
      looked.push([live, shared])
    }
    if (looked.length === 0) return
    const startedAt = core.environment.monotonicMs()
    const heads = await readHeads(
      core.store,
      looked.map(([{ id }]) => id),
    )
    for (const [live, shared] of looked) {
      if (live.discarded !== undefined || shared.catchingUp !== undefined) continue
      const head = heads.get(live.id) ?? ''
      if (head === shared.seen || this.isOwn(head)) {
        shared.readAt = Math.max(shared.readAt, startedAt)
        continue
      }
      catchUp(core, live).catch(ignore)
    }
  }
}

function ignore(): void {}
