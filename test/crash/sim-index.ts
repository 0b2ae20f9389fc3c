type Operation =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly type: 'del'; readonly key: string }

interface SimDatabase {
  getSync(key: string): Uint8Array | undefined
  batch(operations: readonly Operation[]): Promise<void>
  compact(): Promise<void>
  close(): Promise<void>
}

const mostLost = 50

/** The batches that were written to an index, of which a crash keeps some number of the first. */
export class SimIndex {
  readonly #random: () => number
  #batches: (readonly Operation[])[] = []
  #life = {}
  /** Makes the next batch fail. */
  failNext = false

  constructor(random: () => number) {
    this.#random = random
  }

  crash(): void {
    this.#life = {}
    this.failNext = false
    const fate = this.#random() % 4
    if (fate === 0) this.#batches = []
    else if (fate < 3) this.#batches.length -= this.#random() % (Math.min(this.#batches.length, mostLost) + 1)
  }

  open({ reset }: { readonly reset: boolean }): Promise<SimDatabase> {
    if (reset) this.#batches = []
    const values = new Map<string, Uint8Array>()
    for (const batch of this.#batches) apply(values, batch)
    const life = this.#life
    return Promise.resolve({
      getSync: (key) => {
        const value = values.get(key)
        return value && Buffer.from(value)
      },
      batch: async (operations) => {
        const copies = operations.map((one) =>
          one.type === 'put' ? { ...one, value: Buffer.from(one.value) } : one,
        )
        await Promise.resolve()
        if (life !== this.#life) return new Promise(() => {})
        if (this.failNext) {
          this.failNext = false
          throw new Error('IO error: the index could not be written')
        }
        this.#batches.push(copies)
        apply(values, copies)
      },
      compact: () => Promise.resolve(),
      close: () => Promise.resolve(),
    })
  }
}

function apply(values: Map<string, Uint8Array>, batch: readonly Operation[]): void {
  for (const one of batch) {
    if (one.type === 'put') values.set(one.key, one.value)
    else values.delete(one.key)
  }
}
