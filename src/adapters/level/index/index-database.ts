import type { Disk } from '../directory/disk.js'

/** Where the index keeps its pages: values by key, and nothing that is not in the segments. */
export interface IndexDatabase {
  /** The value as it was stored, or damaged: the index has a checksum of each. Undefined when there is none. */
  getSync(key: string): Uint8Array | undefined
  /** Stores all of it or nothing, also when the process ends; with `sync`, when the power fails. One after the other. */
  batch(operations: readonly IndexOperation[], options: { readonly sync: boolean }): Promise<void>
  /** Stored values that differ from the written ones, whether a reader needs them or not. */
  damages(): AsyncIterable<IndexDamage>
  /** Gives the space of replaced values back to the file system. */
  compact(): Promise<void>
  close(): Promise<void>
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
