import { gitLimits } from '../limits.js'
import { packTooLarge } from './pack-errors.js'

/** A base that is not available yet: the id of an object, or the number of an unresolved entry. */
export type AbsentBase = string | number

export interface PendingDelta {
  readonly entry: number
  readonly delta: Buffer
}

/** Estimated overhead of a waiting delta, in bytes of memory. */
const deltaCost = 512

/** Deltas that wait for their base, up to `gitLimits.pendingDeltaBytes`. */
export class PendingDeltas {
  readonly #waiting = new Map<AbsentBase, PendingDelta[]>()
  #bytes = 0

  /** Adds a delta. Throws GIT_TOO_LARGE if the total size of all waiting deltas is too large. */
  add(base: AbsentBase, pending: PendingDelta): void {
    this.#bytes += pending.delta.length + deltaCost
    if (this.#bytes > gitLimits.pendingDeltaBytes) {
      throw packTooLarge('bytes in deltas that precede their base', gitLimits.pendingDeltaBytes)
    }
    const waiting = this.#waiting.get(base)
    if (waiting === undefined) this.#waiting.set(base, [pending])
    else waiting.push(pending)
  }

  /** Removes and returns the deltas that build on an object. */
  take(entry: number, oid: string): PendingDelta[] {
    if (this.#waiting.size === 0) return []
    const taken = [...(this.#waiting.get(oid) ?? []), ...(this.#waiting.get(entry) ?? [])]
    this.#waiting.delete(oid)
    this.#waiting.delete(entry)
    for (const { delta } of taken) this.#bytes -= delta.length + deltaCost
    return taken
  }

  /** Returns the id of a base that has not arrived, or undefined if there is none. */
  missing(): string | undefined {
    for (const base of this.#waiting.keys()) if (typeof base === 'string') return base
    return undefined
  }
}
