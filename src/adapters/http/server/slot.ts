import type { Admission } from './admission.js'
import type { Deadlines } from './deadlines.js'
import type { Room, TenantRoom } from './room.js'

/** The budgets of a handler. */
export interface Shared {
  readonly requests: Admission
  readonly bodies: Admission
  readonly responses: Room
  /** Ends the wait for room. */
  readonly waits: Deadlines
}

/** The share of one request in the budgets, until its work is over and its answer was sent. */
export class Slot {
  readonly #shared: Shared
  /** The room for responses, as this tenant uses it. */
  readonly room: TenantRoom
  /** One for the work, one for the answer. */
  #holders = 1
  #bodyBytes = 0
  #responseBytes = 0

  /** QUOTA if there are too many requests. */
  constructor(shared: Shared, tenant: string) {
    this.#shared = shared
    this.room = shared.responses.of(tenant)
    shared.requests.take(1)
  }

  /** Takes over the bytes of a body from its reader. */
  holdBody(bytes: number): void {
    this.#bodyBytes = bytes
  }

  dropBody(): void {
    this.#shared.bodies.give(this.#bodyBytes)
    this.#bodyBytes = 0
  }

  /** Waits for room for a response, before it is made. */
  reserve(bytes: number): Promise<void> | undefined {
    const room = this.room.enter(bytes)
    if (room === undefined) {
      this.#responseBytes = bytes
      return undefined
    }
    this.hold()
    const entered = room.then(() => {
      this.#responseBytes = bytes
    })
    return this.#shared.waits.wait(entered, () => this.release())
  }

  holdResponse(bytes: number): void {
    this.room.resize(this.#responseBytes, bytes)
    this.#responseBytes = bytes
  }

  hold(): void {
    this.#holders++
  }

  /** To be called once by each holder; the last one frees the share. */
  release(): void {
    if (--this.#holders > 0) return
    this.#shared.requests.give(1)
    this.dropBody()
    this.room.leave(this.#responseBytes)
  }
}
