/** The port that reads and writes directories of the host. */
import type { EntryAttributes, ReadContext, TreeSink } from './source-ports.js'

/**
 * The results of the last scan, one text for each key. They must change together with the scanned tree: if a
 * scan fails, both stay unchanged. A key is the path of a directory, or such a path followed by `//` and a
 * number.
 */
export interface HostIndex {
  get(directoryPath: string): Promise<string | undefined>
  /** If this returns a promise, it is awaited. */
  set(directoryPath: string, json: string): void | Promise<void>
  delete(directoryPath: string): void | Promise<void>
}

export interface ScanContext extends ReadContext {
  readonly index: HostIndex
}

/** The counts of entries that a scan left out, or that changed during the scan. */
export interface ScanResult {
  /** Names that are not UTF-8, symlinks with a target that is not UTF-8, sockets, fifos and devices. */
  readonly skipped: number
  /** Files that changed during every read. The last read is used, and the next scan reads them again. */
  readonly unstable: number
}

export type HostKind = 'file' | 'directory' | 'symlink' | 'other'

export interface HostStat {
  readonly kind: HostKind
  readonly size: number
  /** Permission bits. */
  readonly mode: number
  readonly mtimeMs: number
  /** All names of one file have the same number. */
  readonly ino: string
  readonly nlink: number
  /** A text that changes with each change of the file, except for a change of its names. */
  readonly stamp: string
  /** Whether the file changed so recently that another change may not change the stamp. */
  readonly fresh: boolean
}

export interface HostEntry extends HostStat {
  readonly name: string
}

/**
 * A directory of the host that is kept open, with everything below it. Paths are absolute within it; `/` is
 * the directory itself. Symlinks are never followed: nothing exists at a path through one. Errors are
 * HOST_FAILED with an errno, and HOST_PATH_NOT_ALLOWED.
 */
export interface HostTree {
  /** The real path on the host. */
  readonly directory: string
  /** The platform of the host, as in `process.platform`. Some names are unsafe on some platforms. */
  readonly platform: string
  /**
   * The entries of a directory, in the order of the names' code units and without temporary names; undefined
   * if there is no directory.
   */
  list(path: string): Promise<{ readonly entries: HostEntry[]; readonly skipped: number } | undefined>
  /** undefined if nothing exists at the path. */
  stat(path: string): Promise<HostStat | undefined>
  /**
   * Reads a file in pieces of at most 1 MiB. If the file changed meanwhile, `receive` is called again, up to
   * three times in all. If it changed the last time too, `fresh` is set. Returns undefined if there is no
   * file.
   */
  read<T>(
    path: string,
    receive: (content: AsyncIterable<Uint8Array>, stat: HostStat) => Promise<T>,
  ): Promise<{ readonly stat: HostStat; readonly value: T } | undefined>
  /** undefined if there is no symlink, or its target is not UTF-8. */
  readLink(path: string): Promise<string | undefined>
  /** Creates a directory that only its owner can access. An existing directory does not change. */
  makeDirectory(path: string): Promise<void>
  /**
   * Writes a file. It appears complete, and replaces a file or symlink. Mode bits above 0o777 are ignored.
   */
  writeFile(
    path: string,
    content: AsyncIterable<Uint8Array>,
    attributes: Pick<EntryAttributes, 'mode' | 'mtimeMs'>,
  ): Promise<HostStat>
  /** Works like {@link writeFile}. */
  writeSymlink(path: string, target: string, attributes: Pick<EntryAttributes, 'mtimeMs'>): Promise<HostStat>
  /**
   * Gives a file another name, which replaces a file or symlink. If the file at `existingPath` has another
   * inode number than `ino`, returns undefined and changes nothing.
   */
  link(existingPath: string, path: string, ino: string): Promise<HostStat | undefined>
  /**
   * Changes a directory; undefined if there is none. Files are replaced instead, because they may have names
   * elsewhere.
   */
  setAttributes(
    path: string,
    attributes: Partial<Pick<EntryAttributes, 'mode' | 'mtimeMs'>>,
  ): Promise<HostStat | undefined>
  /** Removes a file, a symlink or any other entry that is not a directory. A missing entry is no error. */
  remove(path: string): Promise<void>
  /**
   * Removes an empty directory. False, with nothing changed, if it is not empty. True if it does not exist.
   */
  removeDirectory(path: string): Promise<boolean>
  /**
   * Copies another directory, with everything below it, to a path where nothing exists. It appears complete. Symlinks
   * are copied as symlinks, and other entries that are no files or directories are left out.
   */
  copyDirectory(from: HostTree, path: string, signal: AbortSignal): Promise<void>
  /** Removes everything in the directory. */
  clear(): Promise<void>
  /** Removes the leftovers of an interrupted write from a directory. */
  removeTemporary(path: string): Promise<void>
  close(): Promise<void>
}

/** A file of a repository. A path that ends with a slash is an empty directory. */
export interface RepositoryFile {
  /** Relative to `.git`. */
  readonly path: string
  readonly parts: readonly Uint8Array[]
}

/** The directories of the host at and below the configured roots. */
export interface Host {
  /**
   * Returns the real path of a directory.
   *
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED when it is outside the roots, whether it exists or not
   * @throws {EngineError} HOST_PATH_NOT_FOUND when there is no directory
   */
  check(path: string): Promise<string>
  /**
   * Starts from the tree of the last scan, and passes the differences to a sink. Also throws the errors of
   * {@link check}. After an error, the caller must discard the contents of the sink.
   *
   * @throws {EngineError} LIMIT_EXCEEDED when the directory is too large
   * @throws {EngineError} HOST_FAILED when the file system returns an error
   */
  scan(request: { readonly path: string }, sink: TreeSink, context: ScanContext): Promise<ScanResult>
  /** Opens a directory, which is made when it is missing. Throws as {@link check}. */
  open(path: string, options: { readonly create: boolean }): Promise<HostTree>
}
