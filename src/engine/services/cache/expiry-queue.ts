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
      const above = this.#heap[parent]
      if (above === undefined || above.deadline <= deadline) break
      this.#heap[place] = above
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
      let below = this.#heap[child]
      const right = this.#heap[child + 1]
      if (below !== undefined && right !== undefined && right.deadline < below.deadline) {
        child++
        below = right
      }
      if (below === undefined || below.deadline >= last.deadline) break
      this.#heap[place] = below
      place = child
    }
    this.#heap[place] = last
    return first
  }

  clear(): void {
    this.#heap.length = 0
  }
}
