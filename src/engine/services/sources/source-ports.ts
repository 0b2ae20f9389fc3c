/** The interfaces for importing trees from all kinds of sources. */
import type { Transfer } from '../../base/transfer.js'
import type { ContentIn } from '../../cas/content-writer.js'
import type { EntryAttributes } from '../../session/tree-builder.js'
import type { TreeEntry } from '../../session/reads/tree-entries.js'

export type { ContentIn, EntryAttributes, TreeEntry }

/**
 * Takes a tree. Paths are absolute and normal (`/src/index.ts`); the caller has checked the names. Missing
 * parents are created with mode 0755; given later, they get their attributes. An entry replaces the one at its path.
 * A promise is to be awaited before the next call; without one the next call may come at once.
 */
export interface TreeSink {
  /** The root may be given too. */
  directory(path: string, attributes: EntryAttributes): void | Promise<void>
  file(path: string, content: ContentIn, attributes: EntryAttributes): void | Promise<void>
  symlink(path: string, target: string, attributes: { readonly mtimeMs: number }): void | Promise<void>
  /** A further name for a file that was given before. */
  hardLink(existingPath: string, path: string): void | Promise<void>
  /** Removes the entry at a path, with everything below it; a missing entry is no error. */
  remove(path: string): void | Promise<void>
}

/** The environment of a running job. */
export interface ReadContext {
  /** Its reason is thrown when it is aborted. */
  readonly signal: AbortSignal
  /** Called as the counters grow, with totals: bytes that came in from outside, files and symlinks given. */
  onProgress(progress: { readonly bytesTransferred: number; readonly filesProcessed: number }): void
  /** Measures how long the job waits for a third party: waits for a remote go through it. */
  readonly transfer?: Pick<Transfer, 'waiting' | 'received'>
}

/** Reads and writes archives. */
export interface Archives {
  /**
   * Gives the tree of an archive to a sink: tar, optionally with gzip, or zip, recognised by its first bytes. After an
   * error the caller must discard the contents of the sink.
   *
   * @throws {EngineError} INVALID_ARCHIVE, UNSAFE_PATH, LIMIT_EXCEEDED when the archive is damaged, unsafe or too
   *   large
   */
  read(content: ContentIn, sink: TreeSink, context: ReadContext): Promise<void>
  /** A tar stream (pax) of a tree. */
  writeTar(entries: AsyncIterable<TreeEntry>): AsyncIterable<Uint8Array>
}
