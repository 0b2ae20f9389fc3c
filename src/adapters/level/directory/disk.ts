/**
 * The file system operations of a store; paths are absolute. Failures are errors of node:fs with a `code`.
 */
export interface Disk {
  /** The names of the entries, in no particular order. Empty if the directory does not exist. */
  list(directory: string): Promise<readonly string[]>
  /**
   * Creates the directory and its missing parents, durably. Returns the outermost directory that it created,
   * or undefined if all existed.
   */
  makeDirectory(directory: string): Promise<string | undefined | void>
  /**
   * Opens a file. `read` and `write`: the file must exist. `create`: it must not exist. `write` and `create`
   * open it for reading and writing.
   */
  open(path: string, mode: 'read' | 'create' | 'write'): Promise<DiskFile>
  /**
   * Renames a file, and replaces a file at the new name. The rename is durable once the directory is synced.
   */
  rename(from: string, to: string): Promise<void>
  /** Removes a file. ENOENT if it does not exist. The removal is durable once the directory is synced. */
  remove(path: string): Promise<void>
  /** Makes creations, renames and removals in the directory durable. */
  syncDirectory(directory: string): Promise<void>
  /**
   * Makes an existing file or directory inaccessible to other users of the system, if the system can do this.
   */
  restrict?(path: string, kind: 'file' | 'directory'): Promise<void>
}

export interface DiskFile {
  size(): Promise<number>
  /** Reads `length` bytes, or fewer at the end of the file. */
  read(position: number, length: number): Promise<Uint8Array>
  readSync(position: number, length: number): Uint8Array
  /** Writes all pieces, one after the other, or fails. */
  write(position: number, pieces: readonly Uint8Array[]): Promise<void>
  truncate(size: number): Promise<void>
  /**
   * Makes all writes and truncations so far durable (fdatasync). `here` blocks the event loop until the disk has
   * answered. `elsewhere` waits on another thread. The first takes less time, the second leaves the loop to other work.
   */
  sync(where?: 'here' | 'elsewhere'): Promise<void>
  /** Whether the path still refers to this file. Absent on a disk that no other program can change. */
  isAt?(path: string): boolean
  close(): Promise<void>
}
