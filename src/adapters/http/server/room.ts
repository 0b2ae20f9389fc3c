/** A budget of bytes that responses share. Responses that find no room wait for it, first come, first served. */
export class Room {
  readonly #limit: number
  #used = 0
  readonly #waiting: Waiter[] = []

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Undefined if there is room at once. An amount above the limit enters when the budget is not in use. */
  enter(bytes: number): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#hasRoom(bytes)) {
      this.#used += bytes
      return undefined
    }
    return new Promise((enter) => this.#waiting.push({ bytes, enter }))
  }

  /** Changes the amount that a response takes, without waiting. */
  resize(before: number, after: number): void {
    this.#used += after - before
    this.#letIn()
  }

  leave(bytes: number): void {
    this.#used -= bytes
    this.#letIn()
  }

  #letIn(): void {
    for (let first; (first = this.#waiting[0]) !== undefined && this.#hasRoom(first.bytes);) {
      this.#waiting.shift()
      this.#used += first.bytes
      first.enter()
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= this.#limit
  }
}

interface Waiter {
  readonly bytes: number
  readonly enter: () => void
}
