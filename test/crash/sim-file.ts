type State = 'pending' | 'synced' | 'poisoned'
type Change = { readonly at: number; readonly bytes: Buffer } | { readonly size: number }
type Entry = { readonly change: Change; state: State }

/** The effect of a power cut on unsynced writes. */
type Fate = 'all' | 'none' | 'prefix' | 'subset'
const fates: readonly Fate[] = ['all', 'none', 'prefix', 'prefix', 'subset']
const sector = 512

/** The bytes of a simulated file: those that readers see, and those that survive a power cut. */
export class SimFile {
  #seen = new Bytes()
  #durable = new Bytes()
  /** The changes since the durable bytes, in order. */
  #log: Entry[] = []
  readonly #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  get bytes(): Buffer {
    return this.#seen.all
  }

  /** The file takes ownership of the bytes. */
  write(at: number, bytes: Buffer): void {
    this.#apply({ at, bytes })
  }

  truncate(size: number): void {
    this.#apply({ size })
  }

  sync(): void {
    for (const entry of this.#log) if (entry.state === 'pending') entry.state = 'synced'
    while (this.#log[0]?.state === 'synced') this.#durable.apply(this.#log.shift()!.change)
  }

  /** Part of the unsynced data will not be kept, even by later syncs, although readers still see it. */
  failSync(): void {
    for (const entry of this.#log)
      if (entry.state === 'pending') entry.state = this.#random() % 4 === 0 ? 'synced' : 'poisoned'
  }

  losePower(): void {
    const fate = fates[this.#random() % fates.length]!
    const open = this.#log.filter(({ state }) => state !== 'synced').length
    let left = fate === 'all' ? open : fate === 'none' ? 0 : this.#random() % (open + 1)
    const bytes = this.#durable
    for (const { change, state } of this.#log) {
      const kept = state === 'synced' || (fate === 'subset' ? this.#random() % 2 === 0 : left-- > 0)
      if (kept) bytes.apply(change)
      // The last write that is kept may be partial.
      else if ((fate === 'prefix' && left === -1) || fate === 'subset')
        bytes.apply(this.#torn(bytes.all, change))
    }
    this.#seen = bytes.copy()
    this.#log = []
  }

  #apply(change: Change): void {
    this.#log.push({ change, state: 'pending' })
    this.#seen.apply(change)
  }

  /**
   * A partial write. Existing bytes change by whole sectors: each has the old or the new bytes. Bytes after the end of
   * the file may also be zeros or foreign data.
   */
  #torn(before: Buffer, change: Change): Change {
    if ('size' in change) return { at: 0, bytes: Buffer.alloc(0) }
    const { at, bytes } = change
    let cut = this.#random() % (bytes.length + 1)
    if (at + cut < before.length) cut = Math.max(0, cut - ((at + cut) % sector))
    const kind = this.#random() % 4
    if (kind < 2) return { at, bytes: bytes.subarray(0, cut) }
    const torn = Buffer.from(bytes)
    const lose = (from: number, to: number, value: number): void => {
      torn.fill(value, from, to)
      before.subarray(at + from, at + to).copy(torn, from)
    }
    if (kind === 2) lose(cut, torn.length, 0)
    else
      for (let from = 0; from < torn.length;) {
        const to = Math.min(from + sector - ((at + from) % sector), torn.length)
        const value = this.#random() % 3 === 0 ? this.#random() & 255 : 0
        if (this.#random() % 2 === 0) lose(from, to, value)
        from = to
      }
    return { at, bytes: torn }
  }
}

/** A buffer that grows in place. */
class Bytes {
  #buffer: Buffer = Buffer.alloc(0)
  #length = 0

  get all(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  copy(): Bytes {
    const copy = new Bytes()
    copy.apply({ at: 0, bytes: this.all })
    return copy
  }

  apply(change: Change): void {
    if ('size' in change) return this.#resize(change.size)
    if (change.bytes.length === 0) return
    this.#resize(Math.max(this.#length, change.at + change.bytes.length))
    change.bytes.copy(this.#buffer, change.at)
  }

  #resize(length: number): void {
    if (length > this.#buffer.length) {
      const larger = Buffer.alloc(Math.max(length, 2 * this.#buffer.length))
      this.all.copy(larger)
      this.#buffer = larger
    } else if (length < this.#length) this.#buffer.fill(0, length, this.#length)
    this.#length = length
  }
}
