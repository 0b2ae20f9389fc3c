import { limits } from '../../base/limits.js'

/** The time of a session's use by the wall clock, and the monotonic time of this use or of its discovery. */
export interface UnsureUse {
  readonly lastActivityAt: number
  readonly monotonicMs: number
}

/**
 * The last uses of sessions at which the wall clock differed from the expected time. The oldest are
 * forgotten.
 */
export class UnsureUses {
  readonly #bySession = new Map<string, UnsureUse>()

  get(sessionId: string): UnsureUse | undefined {
    return this.#bySession.get(sessionId)
  }

  set(sessionId: string, use: UnsureUse): void {
    this.#bySession.delete(sessionId)
    this.#bySession.set(sessionId, use)
    const [oldest] = this.#bySession.keys()
    if (oldest !== undefined && this.#bySession.size > limits.unsureUses) this.#bySession.delete(oldest)
  }
}
