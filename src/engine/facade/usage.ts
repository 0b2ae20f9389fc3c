import {
  parseUsage,
  type CasMetrics,
  type Usage,
  type UsageMeter,
  type UsageRequest,
} from '../services/usage.js'
import type { ScopeAccess } from '../session/access/scope-access.js'
import { parseSize } from '../base/input.js'

/** The sessions, contents and traffic of a tenant. */
export class TenantUsage {
  readonly #access: ScopeAccess
  readonly #service: UsageMeter

  /** @internal */
  constructor(access: ScopeAccess, service: UsageMeter) {
    this.#access = access
    this.#service = service
  }

  /**
   * The hours of sessions, the stored contents and the sent bytes in a window of time, deleted sessions included. The
   * time it takes grows with the sessions and contents of the tenant.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a time is malformed, or the window does not end after its start.
   *
   * @example
   * const { sessionHours } = await engine.usage.get({ windowStart: '2026-01-01T00:00:00Z', windowEnd: '2026-02-01T00:00:00Z' })
   */
  async get(request: UsageRequest): Promise<Usage> {
    const parsed = parseUsage(request)
    return this.#access.run('getUsage', {}, () => this.#service.usage(this.#access.core, parsed))
  }

  /**
   * The number and size of the contents of the tenant, and of its writes of them. A storage that is not durable
   * counts equal contents separately.
   *
   * @example
   * const { storedBytes, dedupRatio } = await engine.usage.metrics()
   */
  metrics(): Promise<CasMetrics> {
    return this.#access.run('getCasMetrics', {}, () => this.#service.metrics(this.#access.core))
  }

  /**
   * For adapters of your own: adds bytes sent to a client of the tenant. It does not call `authorize`.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the number is not a whole number from 0.
   * @throws {EngineError} PERMISSION_DENIED when the handle was narrowed without `usage`.
   *
   * @example
   * engine.usage.sent(1024)
   */
  sent(bytes: number): void {
    this.#access.permissions.mustHave('usage')
    this.#service.sent(this.#access.core, parseSize('bytes', bytes))
  }
}
