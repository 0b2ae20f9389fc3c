import { HttpError } from '../http-error.js'
import { handlerLimits } from '../limits.js'

/** A limit as one tenant may use it. */
export interface Budget {
  /** @throws HttpError `QUOTA` if the amount would exceed the limit, or the tenant's share. */
  take(amount: number): void
  give(amount: number): void
}

/** Limits the amount that is in use at the same time, such as a number of requests or bytes. */
export class ConcurrencyLimit {
  readonly #limit: number
  readonly #message: string
  /** An amount that one tenant may always use, if the others leave it. */
  readonly #least: number
  #used = 0
  readonly #tenants = new Map<string, number>()

  constructor(limit: number, message: string, least = 0) {
    this.#limit = limit
    this.#message = message
    this.#least = least
  }

  /** The limit for one tenant, which gets at most a share of the amount that the others do not hold. */
  of(tenant: string): Budget {
    const change = (amount: number): void => {
      const used = (this.#tenants.get(tenant) ?? 0) + amount
      if (used === 0) this.#tenants.delete(tenant)
      else this.#tenants.set(tenant, used)
    }
    return {
      take: (amount) => {
        const used = this.#tenants.get(tenant) ?? 0
        const free = this.#limit - (this.#used - used)
        const share = Math.max(Math.ceil(free * handlerLimits.tenantShare), this.#least)
        if (used + amount > share) throw this.#full()
        this.take(amount)
        change(amount)
      },
      give: (amount) => {
        this.give(amount)
        change(-amount)
      },
    }
  }

  /** @throws HttpError `QUOTA` if the amount would exceed the limit. */
  take(amount: number): void {
    if (this.#used + amount > this.#limit) throw this.#full()
    this.#used += amount
  }

  give(amount: number): void {
    this.#used -= amount
  }

  #full(): HttpError {
    return new HttpError('QUOTA', this.#message, { limit: String(this.#limit) })
  }
}
