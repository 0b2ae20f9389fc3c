import type { Disk } from '../directory/disk.js'

/** The storage for the pages of the index: values by key. All of it can be rebuilt from the segments. */
export interface IndexDatabase {
  /**
   * The value of a key, or undefined if there is none. The value may be damaged: the caller compares it with
   * a checksum from elsewhere.
   */
  getSync(key: string): Uint8Array | undefined
  /**
   * Stores all operations or none, even if the process ends meanwhile. With `sync`, this also holds if the
   * power fails. Batches run one after the other.
   */
  batch(operations: readonly IndexOperation[], options: { readonly sync: boolean }): Promise<void>
  /** Finds stored values that differ from the written ones, whether a reader needs them or not. */
  damages(): AsyncIterable<IndexDamage>
  /** Returns the space of replaced values to the file system. */
  compact(): Promise<void>
  /**
   * Closes it. With `compact`, it first shortens a file that would be slow to open. Only the owner of the file may ask
   * for that, because another database may have opened the file to replace this one.
   */
  close(options?: { readonly compact?: boolean }): Promise<void>
}

export interface IndexDamage {
  readonly offset: number
  readonly message: string
}

export type IndexOperation =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly type: 'del'; readonly key: string }

/** Opens the database in a directory, or creates an empty one. `reset` empties an existing database. */
export type OpenIndex = (
  disk: Disk,
  directory: string,
  options: { readonly reset: boolean },
) => Promise<IndexDatabase>
