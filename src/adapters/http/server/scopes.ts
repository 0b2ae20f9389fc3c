import type { Caller, Engine, EngineScope } from '../../../engine/index.js'
import { handlerLimits } from '../limits.js'

export interface CallerScope {
  readonly tenant: string
  readonly scope: EngineScope
}

/** Creates the scopes of callers. It caches up to 1,000, because most requests come from few callers. */
export class Scopes {
  readonly #engine: Engine
  readonly #kept = new Map<string, CallerScope>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** @throws TypeError if the hook `authenticate` returned an invalid caller. */
  of({ tenant, principal }: Caller): CallerScope {
    if (typeof tenant !== 'string' || typeof principal !== 'string')
      throw new TypeError('authenticate must return { tenant, principal }, both strings')
    const key = `${tenant.length} ${tenant} ${principal}`
    const known = this.#kept.get(key)
    if (known !== undefined) return known
    const scope = { tenant, scope: this.#open({ tenant, principal }) }
    if (this.#kept.size >= handlerLimits.scopes) this.#kept.clear()
    this.#kept.set(key, scope)
    return scope
  }

  /** Throws a TypeError for an invalid caller, because that is an error of the hook, not of the client. */
  #open(caller: Caller): EngineScope {
    try {
      return this.#engine.as(caller)
    } catch (error) {
      throw new TypeError('authenticate returned an invalid tenant or principal (see cause)', {
        cause: error,
      })
    }
  }
}
