import { itemAt } from '../../../engine/ports.js'
/**
 * A budget of bytes that the responses of all tenants share. A response that does not fit waits, in order of
 * arrival. A tenant gets at most half of the bytes that the others do not hold, so that room for another
 * tenant always remains. A response that waits because of its own tenant's share does not delay other
 * tenants.
 */
export class Room {
  readonly #limit: number
  #used = 0
  #tickets = 0
  /** The tenants that hold bytes or wait for them. */
  readonly #tenants = new Map<string, Tenant>()
  readonly #waiting = new Set<Tenant>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Returns the budget for the use of one tenant. */
  of(tenant: string): TenantRoom {
    return {
      enter: (bytes) => this.#enter(tenant, bytes),
      resize: (before, after) => this.#resize(tenant, before, after),
      leave: (bytes) => this.#change(tenant, -bytes),
    }
  }

  #enter(name: string, bytes: number): Promise<void> | undefined {
    const tenant = this.#tenantOf(name)
    const isFirst = tenant.waiting.length === 0 && this.#next() === undefined
    if (isFirst && this.#isInShare(tenant, bytes) && this.#hasRoom(bytes)) {
      this.#add(name, tenant, bytes)
      return undefined
    }
    return new Promise((enter) => {
      tenant.waiting.push({ name, ticket: this.#tickets++, bytes, enter })
      this.#waiting.add(tenant)
    })
  }

  /** A response that did not wait takes only the free rest of its tenant's share, so that it keeps out no other tenant. */
  #resize(name: string, before: number, after: number): number {
    const used = this.#tenants.get(name)?.used ?? 0
    const left = Math.floor((this.#limit - (this.#used - used)) / 2) - used
    const held = Math.min(after, before + Math.max(0, left))
    this.#change(name, held - before)
    return held
  }

  #change(name: string, bytes: number): void {
    if (bytes === 0) return
    this.#add(name, this.#tenantOf(name), bytes)
    this.#letIn()
  }

  #tenantOf(name: string): Tenant {
    let tenant = this.#tenants.get(name)
    if (tenant === undefined) this.#tenants.set(name, (tenant = { used: 0, waiting: [] }))
    return tenant
  }

  #add(name: string, tenant: Tenant, bytes: number): void {
    this.#used += bytes
    tenant.used += bytes
    if (tenant.used === 0 && tenant.waiting.length === 0) this.#tenants.delete(name)
  }

  #letIn(): void {
    for (let tenant; (tenant = this.#next()) !== undefined;) {
      const { name, bytes, enter } = itemAt(tenant.waiting, 0)
      if (!this.#hasRoom(bytes)) return
      tenant.waiting.shift()
      if (tenant.waiting.length === 0) this.#waiting.delete(tenant)
      this.#add(name, tenant, bytes)
      enter()
    }
  }

  /**
   * Returns the tenant whose response has waited longest, among responses that fit into their tenant's share.
   */
  #next(): Tenant | undefined {
    let next: Tenant | undefined
    for (const tenant of this.#waiting) {
      const { ticket, bytes } = itemAt(tenant.waiting, 0)
      if ((next === undefined || ticket < itemAt(next.waiting, 0).ticket) && this.#isInShare(tenant, bytes))
        next = tenant
    }
    return next
  }

  #hasRoom(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= this.#limit
  }

  /**
   * Whether the bytes fit into the tenant's share. A tenant that holds nothing may always have one response.
   */
  #isInShare({ used }: Tenant, bytes: number): boolean {
    return used === 0 || used + bytes <= (this.#limit - (this.#used - used)) / 2
  }
}

interface Tenant {
  used: number
  readonly waiting: Waiter[]
}

export interface TenantRoom {
  /**
   * Takes bytes from the budget. Returns undefined if they fit immediately, and otherwise a promise that
   * resolves when they do. An amount above the limit fits if the budget is unused. An amount above the
   * tenant's share fits if the tenant holds nothing.
   */
  enter(bytes: number): Promise<void> | undefined
  /**
   * Changes the bytes that a response holds, without waiting. A larger amount grows at most to the tenant's share. Returns
   * the bytes that the response holds now.
   */
  resize(before: number, after: number): number
  leave(bytes: number): void
}

interface Waiter {
  /** The name of the tenant. */
  readonly name: string
  /** The position among all waiters, in order of arrival. */
  readonly ticket: number
  readonly bytes: number
  readonly enter: () => void
}
