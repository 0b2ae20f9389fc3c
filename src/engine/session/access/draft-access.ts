import { EngineError } from '../../base/errors.js'
import { capabilitiesOf, type Action } from '../../operations/index.js'
import type { Capability, Condition } from '../../operations/operation.js'
import type { LiveSession } from '../table/live.js'
import type { LongWork } from '../table/while-used.js'
import { SessionAccess } from './session-access.js'

/** The access of a draft to its private fork, with the permissions of the handle that created it. */
export class DraftAccess extends SessionAccess {
  readonly #of: SessionAccess
  #isClosed = false

  constructor(of: SessionAccess, fork: LiveSession) {
    super(of.core, fork.slot)
    this.#of = of
  }

  /** Refuses changes from now on. */
  close(): void {
    this.#isClosed = true
  }

  /** The draft is to change the session, so its use is one of the session too. */
  override live(action: Action): LiveSession | Promise<LiveSession> {
    this.#of.stayUsed()
    return super.live(action)
  }

  override liveSync(action: Action): LiveSession {
    this.#of.stayUsed()
    return super.liveSync(action)
  }

  override whileUsed<T>(work: LongWork<T>): Promise<T> {
    return this.#of.whileUsed(super.whileUsed(work))
  }

  override permit(action: Action): void {
    this.#of.permit(action)
    if (this.#isClosed && capabilitiesOf(action).includes('files.write'))
      throw new EngineError(
        'READ_ONLY',
        `${action} cannot change a draft that was committed: call session.draft() again`,
        { action },
      )
  }

  override permitWhen(action: Action, condition: Condition): void {
    this.#of.permitWhen(action, condition)
  }

  override get open(): boolean {
    return this.#of.open
  }

  override has(capability: Capability): boolean {
    return this.#of.has(capability)
  }

  override allows(action: Action): boolean {
    return this.#of.allows(action)
  }
}
