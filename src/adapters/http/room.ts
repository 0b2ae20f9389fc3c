/** Bytes that responses share. Who finds no room waits for it, in order. */
export class Room {
  readonly #limit: number
  #used = 0
  readonly #waiting: Waiter[] = []

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Undefined where there is room at once. More than there is in all gets in alone. */
  enter(bytes: number): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#hasRoom(bytes)) {
      this.#used += bytes
      return undefined
    }
    return new Promise((enter) => this.#waiting.push({ bytes, enter }))
  }

  /** Changes what was taken to what is needed, without waiting. */
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
