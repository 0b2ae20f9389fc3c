import { EventEmitter } from 'node:events'
import { UnloadedBody, type LoadedBody } from '../cas/body.js'
import { follow } from '../session/history/feed.js'
import type { LiveSession } from '../session/table/live.js'
import { findNode } from '../session/reads/lookup.js'
import { describeNode } from '../tree/describe.js'
import { FileNode, type Node } from '../tree/node.js'
import { typeError } from './argument-errors.js'
import { read, type Context } from './calls.js'
import { runLater } from './drivers.js'
import { givenPath, plainPath } from './resolve-path.js'
import { settle } from './settle.js'
import { BigIntStats, newStats, Stats } from './stats.js'
import { checkInteger } from './values.js'

type AnyStats = Stats | BigIntStats
/** The stats of the path's target and, for a file, its content. */
interface Seen {
  readonly stats: AnyStats
  readonly body: LoadedBody
}

type Listener = (current: AnyStats, previous: AnyStats) => void

interface WatchFileOptions {
  readonly bigint?: boolean
  readonly interval?: number
  readonly persistent?: boolean
}

/**
 * The shape of node:fs StatWatcher. It compares the target of a path with its previous state. Node does this
 * at an interval; this class does it after every event of the session. It never keeps the process alive.
 */
export class StatWatcher extends EventEmitter {
  readonly #context: Context
  readonly #path: string
  readonly #bigint: boolean
  #previous: Seen | undefined
  #unfollow: (() => void) | undefined
  #stopped = false
  #looking = false
  #again = false

  constructor(context: Context, path: string, bigint: boolean) {
    super()
    this.#context = context
    this.#path = path
    this.#bigint = bigint
    this.#follow()
  }

  stop(): void {
    if (this.#stopped) return
    this.#stopped = true
    this.#unfollow?.()
    queueMicrotask(() => this.emit('stop'))
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  #follow(): void {
    let live: LiveSession | Promise<LiveSession>
    try {
      live = this.#context.access.live('fs.read')
    } catch (error) {
      live = Promise.reject(error)
    }
    if (live instanceof Promise) live.then((loaded) => this.#begin(loaded)).catch(() => this.stop())
    else this.#begin(live)
  }

  #begin(live: LiveSession): void {
    if (this.#stopped) return
    this.#unfollow = follow(live, {
      event: () => this.#look(),
      // After a failed write, the session is loaded again. Otherwise the session was deleted or its engine
      // closed.
      end: (error) => {
        if (error === undefined) queueMicrotask(() => this.stop())
        else this.#follow()
      },
    })
    this.#look()
  }

  /** Runs one check at a time. Changes during a check cause one more. */
  #look(): void {
    this.#again = this.#looking
    if (this.#looking) return
    this.#looking = true
    const call = read({ syscall: 'stat', path: this.#path }, (live) => {
      const node = findNode(live, this.#path, true)
      return { stats: newStats(describeNode(node), this.#bigint), body: bodyInMemory(node) }
    })
    settle(
      runLater(this.#context, call),
      (seen) => this.#compare(seen),
      () => this.#compare({ stats: this.#bigint ? new BigIntStats(noStats) : noStats, body: undefined }),
    )
  }

  #compare(current: Seen): void {
    this.#looking = false
    const previous = this.#previous
    this.#previous = current
    if (this.#again) this.#look()
    if (this.#stopped) return
    // As in Node, a path that has no target at the start is reported once.
    if (previous === undefined) {
      if (Number(current.stats.ino) === 0) this.emit('change', current.stats, current.stats)
    } else if (differ(current, previous)) this.emit('change', current.stats, previous.stats)
  }
}

const noStats = new Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

const compared = ['ino', 'mode', 'size', 'mtimeMs', 'ctimeMs', 'birthtimeMs'] as const

/** Two writes in the same millisecond may leave equal stats. Their bodies still differ. */
function differ(a: Seen, b: Seen): boolean {
  const isOther = a.body !== undefined && b.body !== undefined && a.body !== b.body
  return isOther || compared.some((name) => a.stats[name] !== b.stats[name])
}

/** The body of a file. Undefined if it is empty or not loaded: a file is not loaded only to compare it. */
function bodyInMemory(node: Node): LoadedBody {
  if (!(node instanceof FileNode)) return undefined
  // A large body stays the same object while it is in memory, although storing it wraps it.
  return node.body instanceof UnloadedBody ? (node.body.body ?? undefined) : node.body
}

/** The files that one `session.fs` watches with `watchFile`. All listeners of a path share one watcher. */
export class WatchedFiles {
  readonly #context: Context
  readonly #watchers = new Map<string, StatWatcher>()

  constructor(context: Context) {
    this.#context = context
  }

  watch(filename: unknown, options: unknown, listener: unknown): StatWatcher {
    const path = plainPath(givenPath(filename, 'filename'))
    const given = typeof options === 'object' && options !== null ? (options as WatchFileOptions) : undefined
    const onChange = given === undefined && typeof options === 'function' ? options : listener
    if (typeof onChange !== 'function') throw typeError('listener', 'of type function', onChange)
    checkInteger('interval', given?.interval ?? 0, 0, 2 ** 32 - 1)
    let watcher = this.#watchers.get(path)
    if (watcher === undefined) {
      watcher = new StatWatcher(this.#context, path, given?.bigint === true)
      this.#watchers.set(path, watcher)
    }
    return watcher.on('change', onChange as Listener)
  }

  /** Removes one listener, or all of them. */
  unwatch(filename: unknown, listener: unknown): void {
    const path = plainPath(givenPath(filename, 'filename'))
    const watcher = this.#watchers.get(path)
    if (watcher === undefined) return
    if (typeof listener === 'function') watcher.off('change', listener as Listener)
    else watcher.removeAllListeners('change')
    if (watcher.listenerCount('change') > 0) return
    watcher.stop()
    this.#watchers.delete(path)
  }
}
