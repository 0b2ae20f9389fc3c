import { itemAt, present } from '../../../engine/ports.js'
import { idBytes, type ObjectFormat } from '../objects/object-id.js'

const unresolved = 0xffff
const firstCapacity = 256

/** The offsets and ids of the entries of a pack. Takes about 50 bytes of memory per entry. */
export class PackEntries {
  readonly #idBytes: number
  #offsets = new Float64Array(firstCapacity)
  #depths = new Uint16Array(firstCapacity)
  #ids: Buffer
  #count = 0
  /**
   * A hash table by id. A slot contains the number of an entry plus one, or 0. The table is empty until the
   * first search.
   */
  #slots = new Uint32Array(0)

  constructor(format: ObjectFormat) {
    this.#idBytes = idBytes(format)
    this.#ids = Buffer.allocUnsafeSlow(firstCapacity * this.#idBytes)
  }

  get count(): number {
    return this.#count
  }

  /**
   * Adds the entry at an offset, which must be larger than all earlier offsets. Returns the number of the
   * entry.
   */
  add(offset: number): number {
    if (this.#count === this.#offsets.length) this.#grow()
    this.#offsets[this.#count] = offset
    this.#depths[this.#count] = unresolved
    return this.#count++
  }

  /** Records the id of an entry, and the length of its chain of deltas. */
  resolve(entry: number, oid: string, depth: number): void {
    this.#depths[entry] = depth
    this.#ids.write(oid, entry * this.#idBytes, 'hex')
    if (this.#slots.length === 0) return
    if (this.#count * 2 > this.#slots.length) this.#index()
    else this.#insert(entry)
  }

  offset(entry: number): number {
    return itemAt(this.#offsets, entry)
  }

  depth(entry: number): number {
    return itemAt(this.#depths, entry)
  }

  /** Returns the id of an entry, or undefined for a delta whose base has not arrived. */
  oid(entry: number): string | undefined {
    if (this.#depths[entry] === unresolved) return undefined
    return this.#ids.toString('hex', entry * this.#idBytes, (entry + 1) * this.#idBytes)
  }

  /** The entry at an offset. */
  at(offset: number): number | undefined {
    let low = 0
    let high = this.#count
    while (low < high) {
      const middle = (low + high) >>> 1
      if (present(this.#offsets[middle], 'an offset') < offset) low = middle + 1
      else high = middle
    }
    return low < this.#count && this.#offsets[low] === offset ? low : undefined
  }

  /** The entry with an id. */
  find(oid: string): number | undefined {
    const id = Buffer.from(oid, 'hex')
    if (id.length !== this.#idBytes) return undefined
    if (this.#slots.length === 0) this.#index()
    const mask = this.#slots.length - 1
    for (let slot = id.readUInt32BE() & mask; ; slot = (slot + 1) & mask) {
      const found = this.#slots[slot]!
      if (found === 0) return undefined
      const start = (found - 1) * this.#idBytes
      if (id.compare(this.#ids, start, start + this.#idBytes) === 0) return found - 1
    }
  }

  #insert(entry: number): void {
    const mask = this.#slots.length - 1
    let slot = this.#ids.readUInt32BE(entry * this.#idBytes) & mask
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask
    this.#slots[slot] = entry + 1
  }

  #index(): void {
    let size = 1024
    while (size < this.#count * 4) size *= 2
    this.#slots = new Uint32Array(size)
    for (let entry = 0; entry < this.#count; entry++) {
      if (this.#depths[entry] !== unresolved) this.#insert(entry)
    }
  }

  #grow(): void {
    const capacity = this.#offsets.length * 2
    const offsets = new Float64Array(capacity)
    offsets.set(this.#offsets)
    this.#offsets = offsets
    const depths = new Uint16Array(capacity)
    depths.set(this.#depths)
    this.#depths = depths
    const ids = Buffer.allocUnsafeSlow(capacity * this.#idBytes)
    this.#ids.copy(ids)
    this.#ids = ids
  }
}
