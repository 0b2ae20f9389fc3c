import { limits } from '../../base/limits.js'

/** The time of a session's last use by both clocks. */
export interface LastUse {
  /** As the session has it, by the wall clock, which may have been wrong. */
  readonly lastActivityAt: number
  readonly monotonicMs: number
}

/** The last uses of sessions with times to live since the engine was opened. The oldest are forgotten. */
export class LastUses {
  readonly #bySession = new Map<string, LastUse>()

  get(sessionId: string): LastUse | undefined {
    return this.#bySession.get(sessionId)
  }

  set(sessionId: string, use: LastUse): void {
    this.#bySession.delete(sessionId)
    this.#bySession.set(sessionId, use)
    if (this.#bySession.size <= limits.lastUses) return
    const [oldest] = this.#bySession.keys()
    if (oldest !== undefined) this.#bySession.delete(oldest)
  }
}
