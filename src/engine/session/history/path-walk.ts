import { itemAt } from '../../base/present.js'
import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { parsePath } from '../../base/path.js'
import type { Redo } from '../../records/event.js'
import { Dir, FileNode, Symlink, type Node } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import { sameXattrs } from '../../tree/xattrs.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { EventWalk, type WalkedEvent } from './event-walk.js'
import { applyInTurns, namedRoot } from './replay.js'

/** A change of a path by an event. */
export interface PathVersion {
  readonly event: WalkedEvent
  /** The path after the event. */
  readonly path: string
  /** The path before the event. It differs if the event moved the file, or a directory above it. */
  readonly previousPath: string
  readonly before: Node | undefined
  readonly after: Node | undefined
}

/** The result of a walk at one event. */
export interface PathStep {
  readonly seq: number
  /** Undefined if the event did not change the path. */
  readonly version: PathVersion | undefined
  /** The number of the event to continue with, and the path after it. */
  readonly next: { readonly seq: number; readonly path: string }
}

/** The states after consecutive events: `roots[0]` is that after event `from`. */
interface Window {
  readonly from: number
  readonly roots: readonly Dir[]
  /** Whether the states before it are no longer kept. */
  readonly isOldest: boolean
}

/**
 * Follows a path back through the events of a session, and through its renames. The states are computed in windows
 * of events. Run it inside `whileReading`, so that no collection removes these states.
 */
export class PathWalk {
  readonly #core: Core
  readonly #live: LiveSession
  readonly #events: EventWalk
  readonly #followsRestores: boolean
  readonly #held = new Map<number, Dir>()
  #window: Window | undefined
  /** Whether the walk ended because earlier states are no longer kept. */
  endedEarly = false

  /** `followsRestores`: after a restore, goes on with the restored state, not with the event before. */
  constructor(core: Core, live: LiveSession, { followsRestores }: { readonly followsRestores: boolean }) {
    this.#core = core
    this.#live = live
    this.#events = new EventWalk(core, live)
    this.#followsRestores = followsRestores
  }

  /** Each event from `seq` back, with the change of the path in it. */
  async *from(seq: number, path: string): AsyncGenerator<PathStep, void> {
    const slice = new TimeSlice(this.#core.environment)
    for (let next = { seq, path }; next.seq > 0;) {
      if (slice.over) await slice.next()
      const window = await this.#windowOf(next.seq)
      if (window === undefined) return
      const step = await this.#step(window, next.seq, next.path)
      if (step === undefined) return
      yield step
      next = step.next
    }
  }

  /** Undefined if the effects of the event have just been dropped. */
  async #step(window: Window, seq: number, path: string): Promise<PathStep | undefined> {
    const index = seq - window.from
    const event = await this.#event(seq)
    if (event.redo === undefined) return this.#end()
    const target = restoredSeq(event.redo)
    if (target !== undefined && this.#followsRestores)
      return { seq, version: undefined, next: { seq: target, path } }
    const after = await this.#find(itemAt(window.roots, index), path)
    const previousPath = after === undefined ? path : pathBefore(event.redo, path)
    const before = await this.#find(itemAt(window.roots, index - 1), previousPath)
    const isChanged = previousPath !== path || !(await this.#isSame(before, after))
    const version = isChanged ? { event, path, previousPath, before, after } : undefined
    return { seq, version, next: { seq: seq - 1, path: previousPath } }
  }

  /**
   * Without effects if only their hash is stored. All events of a bundle from an engine in memory have the hash of no effects, also
   * those that changed files.
   */
  async #event(seq: number): Promise<WalkedEvent> {
    const event = await this.#events.at(seq)
    return typeof event.body[5] === 'string' ? { ...event, redo: undefined } : event
  }

  #find(root: Dir, path: string): Promise<Node | undefined> {
    const tree = new Tree(root, this.#core.loader)
    return whenLoaded(() => tree.find(parsePath(path)))
  }

  async #isSame(before: Node | undefined, after: Node | undefined): Promise<boolean> {
    if (before === after) return true
    if (before instanceof Symlink && after instanceof Symlink) return before.target === after.target
    const isFile = before instanceof FileNode && after instanceof FileNode
    if (!isFile && !(before instanceof Dir && after instanceof Dir)) return false
    if (before.mode !== after.mode || !sameXattrs(before.xattrs, after.xattrs)) return false
    if (!isFile) return true
    const { contentIds } = this.#core
    return (
      before.size === after.size &&
      (await whenLoaded(() => contentIds.contentId(before) === contentIds.contentId(after)))
    )
  }

  /** The window with an event; undefined if its state, or the one before it, is no longer kept. */
  async #windowOf(seq: number): Promise<Window | undefined> {
    const known = this.#window
    if (known !== undefined && seq > known.from && seq < known.from + known.roots.length) return known
    if (known?.isOldest === true && seq <= known.from) return this.#end()
    const wanted = Math.max(0, seq - limits.historyWindowEvents)
    const start = await this.#oldestState(wanted, seq)
    if (start === undefined) return this.#end()
    this.#window = await this.#replay(start, seq, wanted)
    return this.#window ?? this.#end()
  }

  #end(): undefined {
    this.endedEarly = true
    return undefined
  }

  /** The earliest state from `wanted` to the one before `seq` that is kept. */
  async #oldestState(
    wanted: number,
    seq: number,
  ): Promise<{ readonly seq: number; readonly root: Dir } | undefined> {
    let from = seq - 1
    // The effects of all later events are needed.
    while (from > wanted && (await this.#event(from)).redo !== undefined) from--
    if ((await this.#event(seq)).redo === undefined) return undefined
    for (const last = Math.min(seq - 1, from + limits.historyRootEvents); from <= last; from++) {
      const root = await this.#kept(from)
      if (root !== undefined) return { seq: from, root }
    }
    return undefined
  }

  async #kept(seq: number): Promise<Dir | undefined> {
    try {
      return await namedRoot(this.#core, this.#live, seq)
    } catch (error) {
      if (error instanceof EngineError && error.reason === 'STATE_NOT_KEPT') return undefined
      throw error
    }
  }

  async #replay(
    start: { readonly seq: number; readonly root: Dir },
    to: number,
    wanted: number,
  ): Promise<Window | undefined> {
    const tree = new Tree(start.root, this.#core.loader)
    const roots = [start.root]
    // A walk that follows restores needs no state between a restore and its target.
    for (let seq = start.seq + 1; seq <= to; seq++) {
      const { redo, body } = await this.#event(seq)
      const target = restoredSeq(redo)
      if (target === undefined && redo !== undefined) await applyInTurns(this.#core, tree, redo, body[0])
      else {
        const known = target === undefined ? undefined : roots[target - start.seq]
        const after = known ?? (await this.#heldState(target ?? seq)) ?? (await this.#kept(seq))
        // A collection removed the restored state, or has just removed the effects.
        if (after === undefined) return this.#replayAfter(seq, to, wanted)
        tree.reset(after)
      }
      roots.push(tree.freeze())
    }
    return { from: start.seq, roots, isOldest: start.seq > wanted }
  }

  /** The window that starts after an event whose state is no longer kept. */
  async #replayAfter(seq: number, to: number, wanted: number): Promise<Window | undefined> {
    const start = seq === to ? undefined : await this.#oldestState(seq, to)
    return start && this.#replay(start, to, wanted)
  }

  async #heldState(seq: number): Promise<Dir | undefined> {
    const root = this.#held.get(seq) ?? (await this.#kept(seq))
    if (root === undefined) return undefined
    this.#held.set(seq, root)
    const [oldest] = this.#held.keys()
    if (oldest !== undefined && this.#held.size > limits.historyHeldStates) this.#held.delete(oldest)
    return root
  }
}

function restoredSeq(redo: readonly Redo[] | undefined): number | undefined {
  const first = redo?.[0]
  return first?.[0] === 'R' ? first[1] : undefined
}

/** The path that a file had before the effects of an event. */
function pathBefore(effects: readonly Redo[], after: string): string {
  let path = after
  for (const effect of effects.toReversed()) {
    const made = madePath(effect)
    if (made !== undefined && isAtOrBelow(path, made)) return path
    if (effect[0] === 'm' && isAtOrBelow(path, effect[2])) path = effect[1] + path.slice(effect[2].length)
  }
  return path
}

/** The path at which an effect creates an entry that did not exist. */
function madePath(effect: Redo): string | undefined {
  if (effect[0] === 'w' || effect[0] === 'd' || effect[0] === 's') return effect[1]
  return effect[0] === 'h' ? effect[2] : undefined
}

function isAtOrBelow(path: string, root: string): boolean {
  return path.startsWith(root) && (path.length === root.length || path[root.length] === '/')
}
