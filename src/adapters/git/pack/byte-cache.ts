/** A cache of values with a limit in bytes. It evicts the least recently used value first. */
export class ByteCache<Key, Value> {
  readonly #limit: number
  readonly #entries = new Map<Key, { readonly value: Value; readonly bytes: number }>()
  #bytes = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /** Stores a value, unless it is larger than a quarter of the cache. */
  set(key: Key, value: Value, bytes: number): void {
    if (bytes > this.#limit / 4) return
    this.#bytes += bytes - (this.#entries.get(key)?.bytes ?? 0)
    this.#entries.delete(key)
    this.#entries.set(key, { value, bytes })
    if (this.#bytes <= this.#limit) return
    for (const [oldest, entry] of this.#entries) {
      this.#entries.delete(oldest)
      this.#bytes -= entry.bytes
      if (this.#bytes <= this.#limit) break
    }
  }
}
