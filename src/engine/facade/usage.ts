import {
  parseUsage,
  type CasMetrics,
  type Usage,
  type UsageMeter,
  type UsageRequest,
} from '../services/usage.js'
import type { ScopeAccess } from '../session/access/scope-access.js'
import { parseSize } from '../base/input.js'

/** The usage of the tenant. */
export class TenantUsage {
  readonly #access: ScopeAccess
  readonly #service: UsageMeter

  constructor(access: ScopeAccess, service: UsageMeter) {
    this.#access = access
    this.#service = service
  }

  /**
   * The hours of sessions, the contents kept and the bytes sent in a window of time, deleted sessions included.
   * Computed from the records: the time it takes grows with the tenant's sessions and contents.
   * INVALID_ARGUMENT for a window that ends before it starts.
   *
   * @example
   * const { sessionHours } = await engine.usage.get({ windowStart: '2026-01-01T00:00:00Z', windowEnd: '2026-02-01T00:00:00Z' })
   */
  async get(request: UsageRequest): Promise<Usage> {
    const parsed = parseUsage(request)
    return this.#access.run('getUsage', {}, () => this.#service.usage(this.#access.core, parsed))
  }

  /** The number of contents the tenant keeps, and of its writes of them. In memory equal contents count separately. */
  metrics(): Promise<CasMetrics> {
    return this.#access.run('getCasMetrics', {}, () => this.#service.metrics(this.#access.core))
  }

  /** For adapters: adds bytes sent to a client of the tenant. `authorize` is not asked. */
  sent(bytes: number): void {
    this.#access.permissions.mustHave('usage')
    this.#service.sent(this.#access.core, parseSize('bytes', bytes))
  }
}
