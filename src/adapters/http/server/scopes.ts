import type { Caller, Engine, EngineScope } from '../../../engine/index.js'

export interface CallerScope {
  readonly tenant: string
  readonly scope: EngineScope
}

const maxKept = 1000

/** The engine as each caller sees it; the last ones are kept, since most requests come from few. */
export class Scopes {
  readonly #engine: Engine
  readonly #kept = new Map<string, CallerScope>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Throws for what is no caller. */
  of({ tenant, principal }: Caller): CallerScope {
    if (typeof tenant !== 'string' || typeof principal !== 'string')
      throw new TypeError('authenticate must return { tenant, principal }, both strings')
    const key = `${tenant.length} ${tenant} ${principal}`
    const known = this.#kept.get(key)
    if (known !== undefined) return known
    const scope = { tenant, scope: this.#open({ tenant, principal }) }
    if (this.#kept.size >= maxKept) this.#kept.clear()
    this.#kept.set(key, scope)
    return scope
  }

  /** It is the hook that gave them, not the client. */
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
