import type { Core } from './core.js'
import type { LiveSession } from './live.js'
import { openSession } from './recovery.js'

/** How a handle reaches its session: the state in memory, loaded again when it had to be dropped. */
export class SessionAccess {
  readonly core: Core
  readonly sessionId: string
  #live: LiveSession

  constructor(core: Core, live: LiveSession) {
    this.core = core
    this.sessionId = live.id
    this.#live = live
  }

  /** A promise only when the session has to be loaded; SESSION_NOT_FOUND when it was deleted. */
  live(): LiveSession | Promise<LiveSession> {
    return this.#live.discarded ? this.#reopen() : this.#live
  }

  async #reopen(): Promise<LiveSession> {
    this.#live = await openSession(this.core, this.sessionId)
    return this.#live
  }
}
