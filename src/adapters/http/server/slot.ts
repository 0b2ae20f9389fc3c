import { inGroup, type Clock } from '../../../engine/ports.js'
import { HttpError } from '../http-error.js'
import type { HttpLimits } from '../limits.js'
import { ConcurrencyLimit, type Budget } from './concurrency-limit.js'
import { Deadlines } from './deadlines.js'
import { HeldUpload } from './held-upload.js'
import { Room, type TenantRoom } from './room.js'

/**
 * Uploads have a share of their own in the budget for responses, as if another tenant sent them. Slow ones hold it for
 * long, and the responses to the same tenant would wait for them.
 */
type Share = 'responses' | 'uploads'

/** The limits that all requests of a handler share. */
export interface Shared {
  readonly requests: ConcurrencyLimit
  readonly bodies: ConcurrencyLimit
  readonly responses: Room
  /** Ends waits for `responses` that take too long. */
  readonly waits: Deadlines
}

export function createShared(limits: HttpLimits): Shared {
  return {
    requests: new ConcurrencyLimit(limits.concurrentRequests, 'too many requests at once'),
    bodies: new ConcurrencyLimit(limits.allBodyBytes, 'too many large requests at once', limits.bodyBytes),
    responses: new Room(limits.allResponseBytes),
    waits: new Deadlines(limits.requestMs, () => {
      const limit = String(limits.allResponseBytes)
      return new HttpError('QUOTA', 'too many large responses at once', { limit })
    }),
  }
}

/**
 * The share of one request in the budgets. It lasts until the operation has ended and the response was sent.
 */
export class Slot {
  readonly #shared: Shared
  readonly tenant: string
  /** The budget for responses, for the use of this tenant. */
  readonly room: TenantRoom
  /** The budget for bodies, for the use of this tenant. */
  readonly bodies: Budget
  /** Measures the work on the request, which takes turns with that of other tenants and with the work of the engine. */
  readonly clock: Clock
  readonly #requests: Budget
  /** The share that `#responseBytes` belong to. */
  #reserved: TenantRoom
  /** The number of holders. The operation and the response each hold the slot. */
  #holders = 1
  #bodyBytes = 0
  #responseBytes = 0

  /** @throws HttpError `QUOTA` if there are too many requests. */
  constructor(shared: Shared, tenant: string) {
    this.#shared = shared
    this.tenant = tenant
    this.clock = inGroup(
      { now: () => performance.now() },
      { name: `requests ${tenant}`, origin: performance },
    )
    this.room = this.#reserved = this.#roomOf('responses')
    this.bodies = shared.bodies.of(tenant)
    this.#requests = shared.requests.of(tenant)
    this.#requests.take(1)
  }

  /** Takes ownership of the bytes that the reader of the body took from the budget. */
  holdBody(bytes: number): void {
    this.#bodyBytes = bytes
  }

  /**
   * Takes more bytes of the body from the budget. A piece that arrives after the request has ended takes nothing.
   *
   * @throws HttpError `QUOTA` if they do not fit.
   */
  growBody(bytes: number): void {
    if (this.#holders === 0) return
    this.bodies.take(bytes)
    this.#bodyBytes += bytes
  }

  /** The share of an upload that stays in memory. It does not end with the slot. */
  holdUpload(kind: 'bundle' | 'archive'): HeldUpload {
    return new HeldUpload(this.bodies, kind)
  }

  dropBody(): void {
    this.takeBody()()
  }

  /** Keeps the share of the body beyond the request, until the returned function is called. */
  takeBody(): () => void {
    const bytes = this.#bodyBytes
    this.#bodyBytes = 0
    return () => this.bodies.give(bytes)
  }

  /**
   * Reserves bytes for an upload, or for a response before the operation starts, in place of bytes that were reserved
   * before. Returns a promise if the request must wait for them.
   */
  reserve(bytes: number, share: Share = 'responses'): Promise<void> | undefined {
    this.#reserved.leave(this.#responseBytes)
    this.#responseBytes = 0
    const room = this.#roomOf(share)
    this.#reserved = room
    const entering = room.enter(bytes)
    if (entering === undefined) {
      this.#responseBytes = bytes
      return undefined
    }
    this.hold()
    const entered = entering.then(() => {
      this.#responseBytes = bytes
    })
    return this.#shared.waits.wait(entered, () => this.release())
  }

  /** The bytes that are reserved for the response. */
  get reserved(): number {
    return this.#responseBytes
  }

  holdResponse(bytes: number): void {
    this.#responseBytes = this.#reserved.resize(this.#responseBytes, bytes)
  }

  hold(): void {
    this.#holders++
  }

  /** Each holder calls this once. The last call frees the share. */
  release(): void {
    if (--this.#holders > 0) return
    this.#requests.give(1)
    this.dropBody()
    this.#reserved.leave(this.#responseBytes)
  }

  #roomOf(share: Share): TenantRoom {
    return this.#shared.responses.of(`${share} ${this.tenant}`)
  }
}
