import { EventEmitter } from 'node:events'
import type { Buffer } from 'node:buffer'
import { follow, type CommittedEvent } from '../session/history/feed.js'
import type { LiveSession } from '../session/table/live.js'
import { notFound, resolve } from '../session/reads/resolve.js'
import { loadedNow } from '../session/mutation-queue.js'
import { Dir } from '../tree/node.js'
import { checkBoolean } from './values.js'
import { encodeName, toOptions, type Encoding, type Options } from './arguments.js'
import { givenPath, plainPath } from './resolve-path.js'
import { locate, type Context } from './calls.js'
import { toSystemError } from './errors.js'
import { changesOf, type WatchChange, type WatchEventType } from './watch-changes.js'

export interface WatchOptions extends Options {
  /** Accepted for compatibility with Node, without effect: a watcher never keeps the process alive. */
  readonly persistent?: boolean
  /** If true, reports changes at every level below a directory. By default, only those of its own entries. */
  readonly recursive?: boolean
}

export type WatchListener = (eventType: WatchEventType, filename: string | Buffer) => void

/** Receives a watcher's events. `end` is the last call. It has an error if later events cannot be known. */
export interface WatchSink {
  change(eventType: WatchEventType, filename: string | Buffer): void
  end(error?: unknown): void
}

/**
 * Reports the changes of one file or directory from the session's journal, and follows it when it is moved.
 */
export class Watched {
  readonly #context: Context
  readonly #sink: WatchSink
  readonly #recursive: boolean
  readonly #encoding: Encoding
  readonly #unfollow: () => void
  /** The last name of the given path. Events use it even after a rename. */
  readonly #name: string
  #path: string
  #directory: boolean
  /** Set after the removal of the watched node. No more changes are reported. */
  #gone = false
  /** Pending while the differences of a restore are computed. Later events wait for it. */
  #pending: Promise<void> | undefined

  constructor(
    context: Context,
    live: LiveSession,
    { given, options, sink }: { given: string; options: WatchOptions; sink: WatchSink },
  ) {
    this.#context = context
    this.#sink = sink
    this.#recursive = options.recursive ?? false
    this.#encoding = options.encoding
    this.#name = nameOf(plainPath(given))
    const at = resolve(live.tree, locate(live, given), true)
    if (at.node === undefined) throw notFound(given)
    this.#path = at.path
    this.#directory = at.node instanceof Dir
    this.#unfollow = follow(live, {
      event: (event) => this.#event(event),
      end: (error) => this.#sink.end(error),
    })
  }

  stop(): void {
    this.#gone = true
    this.#unfollow()
  }

  #event(event: CommittedEvent): void {
    const changes = changesOf(this.#context.core, event)
    if (!(changes instanceof Promise) && this.#pending === undefined) {
      for (const change of changes) this.#notify(change)
      return
    }
    const before = this.#pending
    const pending = (async () => {
      await before
      for (const change of await changes) this.#notify(change)
    })()
      .catch((error: unknown) => this.#sink.end(error))
      .then(() => {
        if (this.#pending === pending) this.#pending = undefined
      })
    this.#pending = pending
  }

  #notify({ type, path, movedTo, removed = false }: WatchChange): void {
    if (this.#gone) return
    const own = this.#path
    const takenAway = removed || movedTo !== undefined
    if (takenAway && (path === own || own.startsWith(`${path}/`))) {
      this.#say(type, this.#name)
      if (movedTo !== undefined) this.#path = movedTo + own.slice(path.length)
      else this.#gone = true
      return
    }
    this.#reportName(type, path)
    if (movedTo !== undefined) this.#reportName(type, movedTo)
  }

  #reportName(type: WatchEventType, path: string): void {
    const own = this.#path
    if (path === own) {
      this.#say(type, this.#name)
      return
    }
    if (!this.#directory) return
    const base = own === '/' ? '/' : `${own}/`
    if (!path.startsWith(base)) return
    const name = path.slice(base.length)
    if (this.#recursive || !name.includes('/')) this.#say(type, name)
  }

  #say(type: WatchEventType, name: string): void {
    this.#sink.change(type, encodeName(name, this.#encoding))
  }
}

/**
 * The shape of node:fs FSWatcher. It never keeps the process alive, so `ref`, `unref` and `persistent` have
 * no effect.
 */
export class FSWatcher extends EventEmitter {
  #watched: Watched | undefined

  constructor(context: Context, filename: unknown, options: unknown) {
    super()
    const settings = toWatchOptions(options)
    const given = givenPath(filename, 'filename')
    const { signal } = settings
    const sink: WatchSink = {
      change: (type, name) =>
        queueMicrotask(() => {
          if (this.#watched !== undefined) this.emit('change', type, name)
        }),
      end: (error) => {
        queueMicrotask(() => {
          if (error !== undefined && this.#watched !== undefined) this.emit('error', error)
          this.close()
        })
      },
    }
    try {
      const live = context.access.liveSync('fs.read')
      this.#watched = loadedNow(() => new Watched(context, live, { given, options: settings, sink }))
    } catch (thrown) {
      throw watchError(thrown, given)
    }
    if (signal === undefined) return
    const onAbort = (): void => this.close()
    if (signal.aborted) queueMicrotask(onAbort)
    signal.addEventListener('abort', onAbort, { once: true })
    this.once('close', () => signal.removeEventListener('abort', onAbort))
  }

  close(): void {
    if (this.#watched === undefined) return
    this.#watched.stop()
    this.#watched = undefined
    queueMicrotask(() => this.emit('close'))
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

export function watch(context: Context, filename: unknown, options?: unknown, listener?: unknown): FSWatcher {
  const watcher = new FSWatcher(context, filename, typeof options === 'function' ? undefined : options)
  const onChange = typeof options === 'function' ? options : listener
  if (typeof onChange === 'function') watcher.on('change', onChange as WatchListener)
  return watcher
}

/**
 * Creates the error of a watch that could not start. As in Node, it contains the file twice: as `path` and
 * `filename`.
 */
export function watchError(thrown: unknown, given: string): Error {
  const error = toSystemError(thrown, { syscall: 'watch', path: given })
  return error === thrown ? error : Object.assign(error, { filename: given })
}

const optionNames = ['persistent', 'recursive'] as const

export function toWatchOptions<T extends WatchOptions>(
  options: unknown,
  names: readonly (keyof T & string)[] = optionNames,
): T {
  const settings = toOptions<T>(options, names)
  checkBoolean('options.persistent', settings.persistent ?? true)
  checkBoolean('options.recursive', settings.recursive ?? false)
  return settings
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
