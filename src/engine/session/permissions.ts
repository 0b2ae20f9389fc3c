import { EngineError } from '../base/errors.js'
import { capabilityOf, type Action } from '../operations/index.js'
import type { Capability } from '../operations/operation.js'
import type { Caller } from './core.js'

/** What an action is about. */
export interface Resource {
  readonly sessionId?: string
  readonly sourceId?: string
}

/** Whether a principal may do something: true lets it, everything else is PERMISSION_DENIED. */
export type Authorize = (caller: Caller, action: Action, resource: Resource) => boolean

/** What one caller may do by one handle. */
export class Permissions {
  readonly #caller: Caller
  readonly #authorize: Authorize | undefined
  readonly #withheld: ReadonlySet<Capability>

  constructor(
    caller: Caller,
    authorize: Authorize | undefined,
    withheld: ReadonlySet<Capability> = new Set(),
  ) {
    this.#caller = { tenant: caller.tenant, principal: caller.principal }
    this.#authorize = authorize
    this.#withheld = withheld
  }

  /** PERMISSION_DENIED, or what `authorize` throws. */
  check(action: Action, resource: Resource): void {
    if (this.#ask(action, resource)) return
    throw new EngineError('PERMISSION_DENIED', `${action} is not allowed`, { action })
  }

  /** For what is shown, not done: an `authorize` that throws is a no. */
  allows(action: Action, resource: Resource): boolean {
    try {
      return this.#ask(action, resource)
    } catch {
      return false
    }
  }

  #ask(action: Action, resource: Resource): boolean {
    if (this.#withheld.has(capabilityOf(action))) return false
    if (this.#authorize === undefined) return true
    // A promise is no permission.
    const answer: unknown = this.#authorize(this.#caller, action, resource)
    return answer === true
  }

  /** The same without some capabilities; what is withheld already stays so. */
  without(capabilities: Iterable<Capability>): Permissions {
    return new Permissions(this.#caller, this.#authorize, new Set([...this.#withheld, ...capabilities]))
  }

  /** Nothing to check at all. */
  get open(): boolean {
    return this.#authorize === undefined && this.#withheld.size === 0
  }
}
