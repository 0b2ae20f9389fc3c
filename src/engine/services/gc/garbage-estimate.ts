import type { StoreCommit } from '../../storage/store.js'

const sessionPrefix = 's'
const checkpointPrefix = 'k'

/** What a finished collection says about the store. */
export interface CollectedStore {
  readonly storeBytes: number
  readonly sessions: number
  readonly freedBytes: number
}

/**
 * Estimates how much of a store is garbage. Only a collection knows exactly, so this adds two things: the growth of the
 * store since the last collection, and a share of the rest for each deleted session and checkpoint. A store that was
 * not collected since it was opened counts as garbage as a whole.
 */
export class GarbageEstimate {
  /** About how many bytes were committed since the store's size was last read. */
  #written = 0
  /** Sessions and checkpoints that were deleted since the last collection began. */
  #deletions = 0
  /** Deletions that the running collection takes into account. */
  #collecting = 0
  /** Halved by each collection that freed less than its deletions promised, so that useless ones become rare. */
  #trust = 1
  #kept = { bytes: 0, sessions: 0 }

  note({ blobs, events, put, del }: StoreCommit): void {
    for (const { bytes } of blobs ?? []) this.#written += bytes.byteLength
    this.#written += recordBytes * ((events?.length ?? 0) + (put?.length ?? 0) + (del?.length ?? 0))
    // A collection deletes checkpoints too, and imports begin with a session that counts as deleted: without an event.
    if (events === undefined) return
    for (const [key, value] of put ?? [])
      if (key.startsWith(sessionPrefix) && typeof value === 'object' && 'deletedAt' in value)
        this.#deletions++
    for (const key of del ?? []) if (key.startsWith(checkpointPrefix)) this.#deletions++
  }

  /** Whether so much was committed, or anything deleted, that the store's size is worth reading. */
  hasChanged(bytes: number): boolean {
    return this.#written >= bytes || this.#deletions > 0
  }

  /** Bytes of garbage in a store of this size. */
  garbageBytes(storeBytes: number): number {
    this.#written = 0
    return Math.max(0, storeBytes - this.#kept.bytes) + this.#deletedBytes(this.#deletions)
  }

  /** To be called before a collection looks at the first session. */
  begin(): void {
    this.#collecting = this.#deletions
  }

  /** To be called when a collection has ended, but not when it failed. */
  collected({ storeBytes, sessions, freedBytes }: CollectedStore): void {
    if (this.#collecting > 0)
      this.#trust = freedBytes < this.#deletedBytes(this.#collecting) / 2 ? this.#trust / 2 : 1
    this.#deletions -= this.#collecting
    this.#collecting = 0
    this.#kept = { bytes: storeBytes, sessions }
  }

  #deletedBytes(deletions: number): number {
    const { bytes, sessions } = this.#kept
    return bytes * Math.min(1, (deletions * this.#trust) / Math.max(1, sessions))
  }
}

/** About what an event or a record takes. */
const recordBytes = 256
