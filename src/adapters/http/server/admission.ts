import { HttpError } from '../http-error.js'

/** Counts what is in use at once, up to a limit. */
export class Admission {
  readonly #limit: number
  readonly #message: string
  #used = 0

  constructor(limit: number, message: string) {
    this.#limit = limit
    this.#message = message
  }

  /** QUOTA where the limit would be passed. */
  take(amount: number): void {
    if (this.#used + amount > this.#limit)
      throw new HttpError('QUOTA', this.#message, { limit: String(this.#limit) })
    this.#used += amount
  }

  give(amount: number): void {
    this.#used -= amount
  }
}
