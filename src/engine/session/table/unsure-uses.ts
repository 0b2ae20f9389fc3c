import { limits } from '../../base/limits.js'

/** The time of a session's use by the wall clock, and the monotonic time of this use or of its discovery. */
export interface UnsureUse {
  readonly lastActivityAt: number
  readonly monotonicMs: number
}

/** Last uses of sessions that the store does not tell. The oldest are forgotten. */
export class UnsureUses<Use = UnsureUse> {
  readonly #bySession = new Map<string, Use>()

  get(sessionId: string): Use | undefined {
    return this.#bySession.get(sessionId)
  }

  set(sessionId: string, use: Use): void {
    this.#bySession.delete(sessionId)
    this.#bySession.set(sessionId, use)
    const [oldest] = this.#bySession.keys()
    if (oldest !== undefined && this.#bySession.size > limits.unsureUses) this.#bySession.delete(oldest)
  }

  delete(sessionId: string): void {
    this.#bySession.delete(sessionId)
  }
}
