/** Reads of stored history that are under way: what they began with stays until they have ended. */
export class HistoryReads {
  readonly #reads = new Set<Promise<unknown>>()

  /** Notes a read; gives its promise back. */
  note<T>(read: Promise<T>): Promise<T> {
    const settled: Promise<unknown> = read.then(ignore, ignore).then(() => this.#reads.delete(settled))
    this.#reads.add(settled)
    return read
  }

  /** Resolves when the reads that are under way now have ended; later ones find the store as it is by now. */
  async ended(): Promise<void> {
    if (this.#reads.size > 0) await Promise.all(this.#reads)
  }
}

function ignore(): void {}
