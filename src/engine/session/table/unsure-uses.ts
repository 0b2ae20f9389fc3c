import { limits } from '../../base/limits.js'

/** When a session was used by both clocks, or first seen to have been used. */
export interface UnsureUse {
  readonly lastActivityAt: number
  readonly monotonicMs: number
}

/** The last uses of sessions at which the wall clock differed from the expected time; the oldest are forgotten. */
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
