/** The file system operations of a store; paths are absolute. Failures are errors of node:fs with a `code`. */
export interface Disk {
  /** Names of the entries, in no order; none when the directory does not exist. */
  list(directory: string): Promise<readonly string[]>
  /**
   * Creates the directory and its parents where they are missing, so that they last. Gives the first of them that it
   * created, and undefined when all were there.
   */
  makeDirectory(directory: string): Promise<string | undefined | void>
  /** `create`: must not exist, to be read and written; `write`: must exist, to be read and written. */
  open(path: string, mode: 'read' | 'create' | 'write'): Promise<DiskFile>
  /** Renames a file, and replaces a file at the new name. The rename is durable once the directory is synced. */
  rename(from: string, to: string): Promise<void>
  /** Removes a file. ENOENT if it does not exist. The removal is durable once the directory is synced. */
  remove(path: string): Promise<void>
  /** Makes creations, renames and removals in the directory durable. */
  syncDirectory(directory: string): Promise<void>
  /** Takes an existing file or directory away from other users of the system, where that is possible. */
  restrict?(path: string, kind: 'file' | 'directory'): Promise<void>
}

export interface DiskFile {
  size(): Promise<number>
  /** Fewer bytes than `length` only at the end of the file. */
  read(position: number, length: number): Promise<Uint8Array>
  readSync(position: number, length: number): Uint8Array
  /** The pieces one after the other: all of them, or an error. */
  write(position: number, pieces: readonly Uint8Array[]): Promise<void>
  truncate(size: number): Promise<void>
  /** Makes writes and truncations so far last (fdatasync). */
  sync(): Promise<void>
  close(): Promise<void>
}
