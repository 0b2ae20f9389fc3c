import type * as fs from 'node:fs'
import type { GlobOptions } from './glob.js'
import type { WatchQueueOptions } from './watch-iterator.js'

/** @inline */
type WithTypes = { readonly withFileTypes: true }

/** The type of `session.fs.promises`: the shape of `node:fs/promises`. */
export type FsPromises = typeof fs.promises & OwnPromises

/**
 * Adds members that some versions of Node's types lack.
 *
 * @inline
 */
interface OwnPromises {
  /**
   * Paths that match one or more patterns. Relative patterns start in `options.cwd`, `/` by default, and give
   * relative paths. Each path appears once. Symlinks are not followed.
   *
   * @example
   * for await (const path of session.fs.promises.glob('src/*.ts')) console.log(path)
   */
  glob(
    pattern: string | readonly string[],
    options: GlobOptions & WithTypes,
  ): AsyncIterableIterator<fs.Dirent>
  /** The same as the other form, with paths instead of entries. */
  glob(pattern: string | readonly string[], options?: GlobOptions): AsyncIterableIterator<string>
  /**
   * The changes of a file or directory. The iteration fails with ERR_FS_WATCH_QUEUE_OVERFLOW if its reader is
   * too slow.
   */
  readonly watch: typeof fs.promises.watch & WatchWithQueue
  /**
   * Creates a directory whose path is `prefix` and six random characters. `remove()`, or the end of an
   * `await using` block, deletes it with its entries.
   *
   * @example
   * await using directory = await session.fs.promises.mkdtempDisposable('/tmp-')
   * await session.fs.promises.writeFile(`${directory.path}/a`, 'one')
   */
  mkdtempDisposable(
    prefix: string,
    options?: BufferEncoding | { encoding?: BufferEncoding },
  ): Promise<TemporaryLater>
}

/** @inline */
interface TemporaryLater extends AsyncDisposable {
  /** Absolute path of the directory. */
  readonly path: string
  /** Deletes the directory with its entries. */
  remove(): Promise<void>
}

/** @inline */
interface TemporaryNow extends Disposable {
  /** Absolute path of the directory. */
  readonly path: string
  /** Deletes the directory with its entries. */
  remove(): void
}

/**
 * Adds options that some versions of Node's types lack.
 *
 * @inline
 */
type WatchWithQueue = (
  filename: fs.PathLike,
  options: WatchQueueOptions,
) => AsyncIterable<{
  /** `rename`: the entry was created, deleted or moved. `change`: its content or attributes changed. */
  eventType: 'rename' | 'change'
  /** The path of the entry, relative to the watched directory, or the name of the watched file. */
  filename: string
}>

/** @inline */
type GlobCallback<T> = (error: NodeJS.ErrnoException | null, matches: T[]) => void

/**
 * A session's files in the shape of `node:fs`, in its three forms, with Node's errors. All functions work
 * without a `this`. Paths are absolute. `.` and `..` are resolved before anything else.
 *
 * A change in the promise or callback form is acknowledged when its promise resolves or its callback is
 * called. A synchronous change takes effect immediately. If the store commits synchronously, the change is
 * durable when the call returns. On other stores the commit is queued in order, and `session.flush()` waits
 * for it. A synchronous call that would have to wait throws EAGAIN: while asynchronous changes of the session
 * wait, or if the store cannot read the data synchronously.
 *
 * `docs/node-fs.md` lists all differences from Node, with reasons.
 *
 * @example
 * session.fs.mkdirSync('/src', { recursive: true })
 * await session.fs.promises.writeFile('/src/a.ts', 'export const a = 1')
 * session.fs.readFileSync('/src/a.ts', 'utf8')
 */
export type SessionFs = typeof fs & OwnFs

/**
 * Adds members that some versions of Node's types lack.
 *
 * @inline
 */
interface OwnFs {
  /** The functions that return promises, in the shape of `node:fs/promises`. */
  readonly promises: FsPromises
  /**
   * Creates a directory whose path is `prefix` and six random characters. `remove()`, or the end of a `using`
   * block, deletes it with its entries.
   *
   * @example
   * using directory = session.fs.mkdtempDisposableSync('/tmp-')
   * session.fs.writeFileSync(`${directory.path}/a`, 'one')
   */
  mkdtempDisposableSync(
    prefix: string,
    options?: BufferEncoding | { encoding?: BufferEncoding },
  ): TemporaryNow
  /**
   * A `Blob` with the content that the file has at the call, like `openAsBlob`.
   *
   * @example
   * const text = await session.fs.openAsBlobSync('/a.txt').text()
   */
  openAsBlobSync(path: fs.PathLike, options?: fs.OpenAsBlobOptions): Blob
  /**
   * Paths that match one or more patterns, like `promises.glob`.
   *
   * @example
   * const paths = session.fs.globSync('src/*.ts')
   */
  globSync(pattern: string | readonly string[], options: GlobOptions & WithTypes): fs.Dirent[]
  /** The same as the other form, with paths instead of entries. */
  globSync(pattern: string | readonly string[], options?: GlobOptions): string[]
  /**
   * Paths that match one or more patterns, like `promises.glob`. The callback gets all of them at once.
   *
   * @example
   * session.fs.glob('src/*.ts', (error, paths) => console.log(error ?? paths))
   */
  glob(pattern: string | readonly string[], callback: GlobCallback<string>): void
  /** The same as the first form, with entries instead of paths. */
  glob(
    pattern: string | readonly string[],
    options: GlobOptions & WithTypes,
    callback: GlobCallback<fs.Dirent>,
  ): void
  /** The same as the first form, with options. */
  glob(pattern: string | readonly string[], options: GlobOptions, callback: GlobCallback<string>): void
}
