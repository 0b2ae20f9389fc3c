import { attempt } from '../../base/attempt.js'
import { EngineError, invalid } from '../../base/errors.js'
import { given, readList, shown } from '../../base/input.js'
import { nearest } from '../../base/nearest.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { capabilitiesOf, capabilitiesWhen, type Action } from '../../operations/index.js'
import { capabilities, type Capability, type Condition } from '../../operations/operation.js'

/** The tenant and principal of an action. */
export interface Caller {
  /** The tenant, 1 to 1,024 bytes. Each tenant sees only its own sessions and sources. */
  readonly tenant: string
  /**
   * The user or agent that acts, 1 to 1,024 bytes. Events, annotations, approvals, locks and messages record
   * it.
   */
  readonly principal: string
}

/** The default caller. */
export const localCaller: Caller = { tenant: 'local', principal: 'local' }

/** The subject of an action. */
export interface Resource {
  /** The id of the session; absent if the action concerns none, such as a listing. */
  readonly sessionId?: string
  /** The id of the source; absent if the action concerns none. */
  readonly sourceId?: string
}

/**
 * Decides whether a principal may perform an action. Only `true` allows it. Any other result, including a
 * promise, denies it with PERMISSION_DENIED.
 *
 * @example
 * const readOnly: Authorize = (_caller, action) => !capabilitiesOf(action).includes('files.write')
 */
export type Authorize = (caller: Caller, action: Action, resource: Resource) => boolean

/** The capabilities that a narrowed handle loses. */
export interface NarrowRequest {
  /** Capabilities to withhold, such as `commit`. Capabilities that are already withheld stay withheld. */
  readonly without: readonly Capability[]
}

const narrowShape = new Shape<NarrowRequest>({ without: true })

/** The permissions of one caller on one handle. */
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

  /**
   * Checks that the caller may perform an action. It passes on errors of `authorize`.
   *
   * @throws {EngineError} PERMISSION_DENIED when the caller may not.
   */
  check(action: Action, resource: Resource): void {
    for (const capability of capabilitiesOf(action)) this.mustHave(capability, action)
    if (this.#asked(action, resource)) return
    throw new EngineError(
      'PERMISSION_DENIED',
      `${action} is not allowed: the option authorize denies it to the principal ${given(this.#caller.principal)}`,
      { action },
    )
  }

  /**
   * Checks the additional capabilities of a request that meets the condition.
   *
   * @throws {EngineError} PERMISSION_DENIED when one of them was withheld.
   */
  checkWhen(action: Action, condition: Condition): void {
    for (const capability of capabilitiesWhen(action, condition)) this.mustHave(capability, action)
  }

  /**
   * Checks one capability.
   *
   * @throws {EngineError} PERMISSION_DENIED when it was withheld.
   */
  mustHave(capability: Capability, action?: Action): void {
    if (this.has(capability)) return
    const message = `${action ?? 'this'} needs the capability ${capability}, which this handle does not have`
    throw new EngineError('PERMISSION_DENIED', message, { ...(action && { action }), capability })
  }

  /** Whether a capability is not withheld. */
  has(capability: Capability): boolean {
    return !this.#withheld.has(capability)
  }

  /**
   * Whether the caller may perform an action, for hiding parts of results. If `authorize` throws, the answer
   * is no.
   */
  allows(action: Action, resource: Resource): boolean {
    try {
      return capabilitiesOf(action).every((one) => this.has(one)) && this.#asked(action, resource)
    } catch {
      return false
    }
  }

  #asked(action: Action, resource: Resource): boolean {
    if (this.#authorize === undefined) return true
    const answer: unknown = this.#authorize(this.#caller, action, resource)
    if (answer === true) return true
    // A promise does not grant permission.
    if (answer !== false) attempt(() => answer)
    return false
  }

  /**
   * The same permissions without some capabilities. Capabilities that are already withheld stay withheld.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a capability is unknown.
   */
  without(request: NarrowRequest): Permissions {
    const { without } = narrowShape.read(request)
    const withheld = new Set(this.#withheld)
    const names = readList('without', without, limits.batchOperations, 'capabilities')
    for (const [index, capability] of names.entries()) {
      if (!isCapability(capability)) throw unknownCapability(`without[${index}]`, capability)
      withheld.add(capability)
    }
    return new Permissions(this.#caller, this.#authorize, withheld)
  }

  /** Whether there is nothing to check. */
  get open(): boolean {
    return this.#authorize === undefined && this.#withheld.size === 0
  }
}

function isCapability(value: unknown): value is Capability {
  return (capabilities as readonly unknown[]).includes(value)
}

function unknownCapability(field: string, given: unknown): EngineError {
  const meant = typeof given === 'string' ? nearest(given, capabilities) : undefined
  const hint = meant === undefined ? '' : `did you mean "${meant}"? `
  const all = `The capabilities are ${capabilities.join(', ')}.`
  return invalid(field, `unknown capability ${JSON.stringify(shown(given))}; ${hint}${all}`)
}
