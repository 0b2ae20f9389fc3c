/** The port through which directories of the host are read and written. */
import type { EntryAttributes, ReadContext, TreeSink } from './source-ports.js'

/**
 * The results of the last scan, a text for each key. They have to change together with the scanned tree: when a
 * scan fails, both stay unchanged. Keys are paths of directories, or such a path followed by `//` and a number.
 */
export interface HostIndex {
  get(directoryPath: string): Promise<string | undefined>
  /** A promise is awaited. */
  set(directoryPath: string, json: string): void | Promise<void>
  delete(directoryPath: string): void | Promise<void>
}

export interface ScanContext extends ReadContext {
  readonly index: HostIndex
}

/** Counts of the entries that a scan left out or found changing. */
export interface ScanResult {
  /** Names and targets of symlinks that are not UTF-8; sockets, fifos and devices. */
  readonly skipped: number
  /** Files that changed during every read: the last read was given, and the next scan reads them again. */
  readonly unstable: number
}

export type HostKind = 'file' | 'directory' | 'symlink' | 'other'

export interface HostStat {
  readonly kind: HostKind
  readonly size: number
  /** Permission bits. */
  readonly mode: number
  readonly mtimeMs: number
  /** Names of one file have the same number. */
  readonly ino: string
  readonly nlink: number
  /** Another text when anything but the names of a file was changed since. */
  readonly stamp: string
  /** It was changed so lately that a further change may leave the stamp as it is. */
  readonly fresh: boolean
}

export interface HostEntry extends HostStat {
  readonly name: string
}

/**
 * A directory of the host that is held open, and everything below it, by absolute paths inside it (`/` is the
 * directory itself). Symlinks are never followed: a path through one leads to
 * nothing. Errors are HOST_FAILED with an errno, and HOST_PATH_NOT_ALLOWED.
 */
export interface HostTree {
  /** The real path on the host. */
  readonly directory: string
  /** The platform of the host, as in `process.platform`. Some names are unsafe on some platforms. */
  readonly platform: string
  /** The entries of a directory, without temporary names, in the order of the names' code units; undefined when there is no directory. */
  list(path: string): Promise<{ readonly entries: HostEntry[]; readonly skipped: number } | undefined>
  /** Undefined when nothing is there. */
  stat(path: string): Promise<HostStat | undefined>
  /**
   * Reads a file in pieces of at most 1 MiB. `receive` is called again, up to three times in all, when the file
   * changed meanwhile; `fresh` is set when it changed the last time too. Undefined when no file is there.
   */
  read<T>(
    path: string,
    receive: (content: AsyncIterable<Uint8Array>, stat: HostStat) => Promise<T>,
  ): Promise<{ readonly stat: HostStat; readonly value: T } | undefined>
  /** Undefined when no symlink is there, or its target is not UTF-8. */
  readLink(path: string): Promise<string | undefined>
  /** For its owner alone; an existing one is left as it is. */
  makeDirectory(path: string): Promise<void>
  /** The file appears whole, in the place of a file or symlink. Bits above 0o777 are left out. */
  writeFile(
    path: string,
    content: AsyncIterable<Uint8Array>,
    attributes: Pick<EntryAttributes, 'mode' | 'mtimeMs'>,
  ): Promise<HostStat>
  /** As {@link writeFile}. */
  writeSymlink(path: string, target: string, attributes: Pick<EntryAttributes, 'mtimeMs'>): Promise<HostStat>
  /**
   * A further name for a file, replacing a file or symlink. Undefined, with nothing changed, when the file at
   * `existingPath` has another inode number.
   */
  link(existingPath: string, path: string, ino: string): Promise<HostStat | undefined>
  /** Of a directory; undefined when there is none. A file is replaced instead: it may have names elsewhere. */
  setAttributes(
    path: string,
    attributes: Partial<Pick<EntryAttributes, 'mode' | 'mtimeMs'>>,
  ): Promise<HostStat | undefined>
  /** A file, a symlink, or whatever else has no names below it; nothing there is no error. */
  remove(path: string): Promise<void>
  /** False, with nothing changed, when it is not empty; true also when there is none. */
  removeDirectory(path: string): Promise<boolean>
  /** Removes the leftovers of an interrupted write from a directory. */
  removeTemporary(path: string): Promise<void>
  close(): Promise<void>
}

/** Directories of the host, at and below its roots. */
export interface Host {
  /**
   * The real path of a directory.
   *
   * @throws {EngineError} HOST_PATH_NOT_ALLOWED when it is outside the roots, whether it exists or not
   * @throws {EngineError} HOST_PATH_NOT_FOUND when there is no directory
   */
  check(path: string): Promise<string>
  /**
   * Starts from the tree of the last scan and gives a sink the differences. Throws as {@link check}, too. After an
   * error the caller must discard the contents of the sink.
   *
   * @throws {EngineError} LIMIT_EXCEEDED when the directory is too large
   * @throws {EngineError} HOST_FAILED when the file system returns an error
   */
  scan(request: { readonly path: string }, sink: TreeSink, context: ScanContext): Promise<ScanResult>
  /** Holds a directory open, which is made when it is missing. Throws as {@link check}. */
  open(path: string, options: { readonly create: boolean }): Promise<HostTree>
}
