import { traced } from '../../base/diagnostics.js'
import type { Action } from '../../operations/index.js'
import type { Core } from '../core.js'
import { Permissions, type Resource } from './permissions.js'

/** Checks and traces the operations of an engine that do not belong to one session. */
export class ScopeAccess {
  readonly core: Core
  readonly permissions: Permissions

  constructor(core: Core, permissions = new Permissions(core, core.authorize)) {
    this.core = core
    this.permissions = permissions
  }

  /**
   * Checks the permission, runs an operation, and reports it to diagnostics.
   *
   * @throws {EngineError} PERMISSION_DENIED when the caller may not perform the action.
   */
  async run<T>(action: Action, resource: Resource, operation: () => Promise<T>): Promise<T> {
    const { tenant, principal } = this.core
    return traced(
      () => ({ action, tenant, principal, ...resource }),
      async () => {
        this.permissions.check(action, resource)
        if (this.core.fence.closed) await this.core.fence.recover()
        return operation()
      },
    )
  }
}
