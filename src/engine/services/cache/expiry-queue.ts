interface Expiry<T> {
  readonly deadline: number
  readonly item: T
}

/** Items in the order of their deadlines, the earliest first. It is a binary heap. */
export class ExpiryQueue<T> {
  readonly #heap: Expiry<T>[] = []

  get size(): number {
    return this.#heap.length
  }

  /** The earliest deadline; infinity if the queue is empty. */
  get next(): number {
    return this.#heap[0]?.deadline ?? Number.POSITIVE_INFINITY
  }

  add(deadline: number, item: T): void {
    let place = this.#heap.length
    const expiry = { deadline, item }
    this.#heap.push(expiry)
    while (place > 0) {
      const parent = (place - 1) >>> 1
      if (this.#heap[parent]!.deadline <= deadline) break
      this.#heap[place] = this.#heap[parent]!
      place = parent
    }
    this.#heap[place] = expiry
  }

  /** Removes and returns the item with the earliest deadline. */
  take(): Expiry<T> | undefined {
    const first = this.#heap[0]
    const last = this.#heap.pop()
    if (first === undefined || last === undefined || first === last) return first
    let place = 0
    for (;;) {
      let child = 2 * place + 1
      if (child >= this.#heap.length) break
      const right = this.#heap[child + 1]
      if (right !== undefined && right.deadline < this.#heap[child]!.deadline) child++
      if (this.#heap[child]!.deadline >= last.deadline) break
      this.#heap[place] = this.#heap[child]!
      place = child
    }
    this.#heap[place] = last
    return first
  }

  clear(): void {
    this.#heap.length = 0
  }
}
