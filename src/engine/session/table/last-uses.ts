import { limits } from '../../base/limits.js'

/** The time of a session's last use by both clocks. */
export interface LastUse {
  /** As the session has it, by the wall clock, which may have been wrong. */
  readonly lastActivityAt: number
  readonly monotonicMs: number
}

interface Entry {
  use: LastUse
  /** When the entry became the newest one, by the monotonic clock. */
  movedMs: number
}

/** The last uses of sessions with times to live since the engine was opened. The oldest are forgotten. */
export class LastUses {
  readonly #bySession = new Map<string, Entry>()
  #hasForgotten = false

  /** Whether a session without a known last use may have been used since the engine was opened. */
  get hasForgotten(): boolean {
    return this.#hasForgotten
  }

  get(sessionId: string): LastUse | undefined {
    return this.#bySession.get(sessionId)?.use
  }

  set(sessionId: string, use: LastUse): void {
    const known = this.#bySession.get(sessionId)
    if (known !== undefined) {
      known.use = use
      // A move for each read would double the cost of the read.
      if (use.monotonicMs - known.movedMs < limits.lastUsesMoveMs) return
      this.#bySession.delete(sessionId)
    }
    this.#bySession.set(sessionId, { use, movedMs: use.monotonicMs })
    if (this.#bySession.size <= limits.lastUses) return
    const [oldest] = this.#bySession.keys()
    if (oldest !== undefined) this.#bySession.delete(oldest)
    this.#hasForgotten = true
  }
}
