/** The interfaces that import trees from all kinds of sources. */
import type { Transfer } from '../../base/transfer.js'
import type { ContentIn } from '../../cas/content-writer.js'
import type { EntryAttributes } from '../../session/tree-builder.js'
import type { TreeEntry } from '../../session/reads/tree-entries.js'

export type { ContentIn, EntryAttributes, TreeEntry }

/**
 * Receives a tree. Paths are absolute and normal (`/src/index.ts`), and the caller has checked the names.
 * Missing parents are created with mode 0755. If a parent is given later, it gets its own attributes. An
 * entry replaces the one at its path. If a method returns a promise, await it before the next call. Otherwise
 * the next call may follow at once.
 */
export interface TreeSink {
  /** The path may be that of the root. */
  directory(path: string, attributes: EntryAttributes): void | Promise<void>
  file(path: string, content: ContentIn, attributes: EntryAttributes): void | Promise<void>
  symlink(path: string, target: string, attributes: { readonly mtimeMs: number }): void | Promise<void>
  /** Gives another name to a file that was given before. */
  hardLink(existingPath: string, path: string): void | Promise<void>
  /** Removes the entry at a path, with everything below it. A missing entry is no error. */
  remove(path: string): void | Promise<void>
}

/** The context in which an adapter reads for a job. */
export interface ReadContext {
  /** When it aborts, throw its reason. */
  readonly signal: AbortSignal
  /** Call this as the totals grow: bytes received from outside, and files and symlinks given to the sink. */
  onProgress(progress: { readonly bytesTransferred: number; readonly filesProcessed: number }): void
  /** Measures how long the job waits for third parties. Each wait for a remote must use it. */
  readonly transfer?: Pick<Transfer, 'waiting' | 'received'>
}

/** Reads and writes archives. */
export interface Archives {
  /**
   * Passes the tree of an archive to a sink. The archive is a tar, optionally with gzip, or a zip; its first bytes show
   * which. After an error, the caller must discard the contents of the sink.
   *
   * @throws {EngineError} INVALID_ARCHIVE, UNSAFE_PATH, LIMIT_EXCEEDED when the archive is damaged, unsafe or too large
   */
  read(content: ContentIn, sink: TreeSink, context: ReadContext): Promise<void>
  /** Writes a tree as a tar stream in the pax format. */
  writeTar(entries: AsyncIterable<TreeEntry>): AsyncIterable<Uint8Array>
}
