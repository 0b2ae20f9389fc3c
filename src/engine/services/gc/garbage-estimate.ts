import type { StoreCommit } from '../../storage/store.js'

const sessionPrefix = 's'
const checkpointPrefix = 'k'

/** The state of the store after a collection. */
export interface CollectedStore {
  readonly storeBytes: number
  readonly sessions: number
  readonly freedBytes: number
}

/**
 * Estimates how much of a store is garbage. Only a collection knows exactly. The estimate is the sum of two parts: the
 * growth of the store since the last collection, and a share of the rest for each deleted session and checkpoint. Until
 * the first collection after opening, the whole store counts as garbage.
 */
export class GarbageEstimate {
  /** Approximate bytes committed since the store's size was last read. */
  #written = 0
  /** Sessions and checkpoints deleted since the last collection began. */
  #deletions = 0
  /** Deletions that the running collection takes into account. */
  #collecting = 0
  /**
   * Weight of a deletion. Each collection that frees less than half of its estimate halves it, so that useless
   * collections become rare.
   */
  #trust = 1
  #kept = { bytes: 0, sessions: 0 }

  note({ blobs, events, put, del }: StoreCommit): void {
    for (const { bytes } of blobs ?? []) this.#written += bytes.byteLength
    this.#written += recordBytes * ((events?.length ?? 0) + (put?.length ?? 0) + (del?.length ?? 0))
    // Deletions by users have events. Those of collections, and sessions that an import has begun, have none.
    if (events === undefined) return
    for (const [key, value] of put ?? [])
      if (key.startsWith(sessionPrefix) && typeof value === 'object' && 'deletedAt' in value)
        this.#deletions++
    for (const key of del ?? []) if (key.startsWith(checkpointPrefix)) this.#deletions++
  }

  /** Whether this many bytes were committed or anything was deleted, so that the store's size is worth reading. */
  hasChanged(bytes: number): boolean {
    return this.#written >= bytes || this.#deletions > 0
  }

  /** Estimated bytes of garbage in a store of this size. */
  garbageBytes(storeBytes: number): number {
    this.#written = 0
    return Math.max(0, storeBytes - this.#kept.bytes) + this.#deletedBytes(this.#deletions)
  }

  /** Call this before a collection reads the first session. */
  begin(): void {
    this.#collecting = this.#deletions
  }

  /** Call this after each successful collection. */
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

/** Approximate bytes of an event or record. */
const recordBytes = 256
