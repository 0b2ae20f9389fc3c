import { HttpError } from '../http-error.js'

/** Limits the amount that is in use at the same time, such as a number of requests or bytes. */
export class ConcurrencyLimit {
  readonly #limit: number
  readonly #message: string
  #used = 0

  constructor(limit: number, message: string) {
    this.#limit = limit
    this.#message = message
  }

  /** @throws HttpError `QUOTA` if the amount would exceed the limit. */
  take(amount: number): void {
    if (this.#used + amount > this.#limit)
      throw new HttpError('QUOTA', this.#message, { limit: String(this.#limit) })
    this.#used += amount
  }

  give(amount: number): void {
    this.#used -= amount
  }
}
