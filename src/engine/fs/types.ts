import type * as fs from 'node:fs'
import type { GlobOptions } from './glob.js'
import type { WatchQueueOptions } from './watch-iterator.js'

type WithTypes = { readonly withFileTypes: true }

/** `session.fs.promises`: the shape of `node:fs/promises`. */
export type FsPromises = typeof fs.promises & OwnPromises

/** With members that not every version of Node's types has. */
interface OwnPromises {
  /** Paths that match a pattern or several; relative ones are relative to `options.cwd`, `/` by default. */
  glob(
    pattern: string | readonly string[],
    options: GlobOptions & WithTypes,
  ): AsyncIterableIterator<fs.Dirent>
  glob(pattern: string | readonly string[], options?: GlobOptions): AsyncIterableIterator<string>
  /** The changes of a file or directory. ERR_FS_WATCH_QUEUE_OVERFLOW when they are not taken in time. */
  readonly watch: typeof fs.promises.watch & WatchWithQueue
  /** A new directory, with a method that removes it. */
  mkdtempDisposable(
    prefix: string,
    options?: BufferEncoding | { encoding?: BufferEncoding },
  ): Promise<TemporaryLater>
}

interface TemporaryLater extends AsyncDisposable {
  readonly path: string
  remove(): Promise<void>
}

interface TemporaryNow extends Disposable {
  readonly path: string
  remove(): void
}

/** With options that Node has, but not every version of its types. */
type WatchWithQueue = (
  filename: fs.PathLike,
  options: WatchQueueOptions,
) => AsyncIterable<{ eventType: 'rename' | 'change'; filename: string }>

type GlobCallback<T> = (error: NodeJS.ErrnoException | null, matches: T[]) => void

/**
 * A session's files in the shape of `node:fs`, in its three forms, with Node's errors. All functions work
 * unbound. Paths are absolute; `.` and `..` are resolved before anything else.
 *
 * A change by a promise or callback is acknowledged when that is called. A synchronous one takes effect at
 * once. It is durable when it returns where the store commits synchronously; on others its commit is queued
 * in order, and `session.flush()` waits for it. A synchronous call throws EAGAIN where it would have to
 * wait: while asynchronous changes of the session are waiting, or for data that a store cannot read at once.
 *
 * `docs/node-fs.md` lists all differences from Node, with reasons.
 *
 * @example
 * session.fs.mkdirSync('/src', { recursive: true })
 * await session.fs.promises.writeFile('/src/a.ts', 'export const a = 1')
 * session.fs.readFileSync('/src/a.ts', 'utf8')
 */
export type SessionFs = typeof fs & OwnFs

interface OwnFs {
  readonly promises: FsPromises
  /** A new directory, with a method that removes it. */
  mkdtempDisposableSync(
    prefix: string,
    options?: BufferEncoding | { encoding?: BufferEncoding },
  ): TemporaryNow
  /** As openAsBlob. Holds the content of the moment of the call. */
  openAsBlobSync(path: fs.PathLike, options?: fs.OpenAsBlobOptions): Blob
  globSync(pattern: string | readonly string[], options: GlobOptions & WithTypes): fs.Dirent[]
  globSync(pattern: string | readonly string[], options?: GlobOptions): string[]
  glob(pattern: string | readonly string[], callback: GlobCallback<string>): void
  glob(
    pattern: string | readonly string[],
    options: GlobOptions & WithTypes,
    callback: GlobCallback<fs.Dirent>,
  ): void
  glob(pattern: string | readonly string[], options: GlobOptions, callback: GlobCallback<string>): void
}
