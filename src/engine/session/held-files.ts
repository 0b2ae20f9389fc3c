import { Fault } from '../base/fault.js'
import { parsePath } from '../base/path.js'
import { EngineError } from '../base/errors.js'
import { FileNode, type Node } from '../tree/node.js'
import type { Tree } from '../tree/tree.js'
import type { FileTarget, Redo } from './events.js'
import type { LiveSession } from './live.js'

/** A file or directory that somebody holds: an open file, a lock. It is followed through renames, and told when it is gone. */
export class HeldFile {
  readonly ino: number
  /** The name by which it is held, as far as it is known. */
  path: string
  /** Set when no name leads to it any more. */
  gone = false
  /** A file as it was last seen; of one that is gone, what only its holder sees. */
  last: FileNode | undefined
  readonly onGone: (() => void) | undefined

  constructor(node: Node, path: string, onGone: (() => void) | undefined) {
    this.ino = node.ino
    this.path = path
    this.last = node instanceof FileNode ? node : undefined
    this.onGone = onGone
  }
}

/** `path` is resolved, and `node` what is there now. */
export function holdFile(live: LiveSession, path: string, node: Node, onGone?: () => void): HeldFile {
  const held = new HeldFile(node, path, onGone)
  ;(live.held ??= new Set()).add(held)
  return held
}

export function releaseFile(live: LiveSession, held: HeldFile): void {
  live.held?.delete(held)
}

/** The file as it is now; of one that is gone, what it last was. */
export function currentFile(live: LiveSession, held: HeldFile): FileNode {
  // The session may have been read again from the store since.
  if (!held.gone) (live.held ??= new Set()).add(held)
  refresh(live, held)
  return held.last!
}

/** Where a held file stands in the tree; undefined when it is gone. */
export function targetOf(live: LiveSession, held: HeldFile): FileTarget | undefined {
  currentFile(live, held)
  if (held.gone) return undefined
  return nodeAt(live.tree, held.path)?.ino === held.ino ? held.path : held.ino
}

/** To be called before an effect takes names away. */
export function beforeEffect(live: LiveSession, redo: Redo): void {
  if (live.held === undefined || !takesNames(redo)) return
  // The effect may yet be undone, so nothing is gone here.
  for (const held of live.held) look(live.tree, held)
}

/** To be called when the effects of an event are applied for good. */
export function afterEvent(live: LiveSession, effects: readonly Redo[]): void {
  if (live.held === undefined) return
  for (const redo of effects) {
    if (redo[0] !== 'm') continue
    const [, from, to] = redo
    for (const held of live.held) {
      if (held.path === to || held.path.startsWith(`${to}/`)) refresh(live, held)
      if (held.gone) continue
      if (held.path === from) held.path = to
      else if (held.path.startsWith(`${from}/`)) held.path = to + held.path.slice(from.length)
    }
  }
  if (!effects.some(takesNames)) return
  for (const held of live.held) {
    try {
      refresh(live, held)
    } catch (thrown) {
      // What is not loaded is looked at when the holder asks.
      if (!(thrown instanceof Fault)) throw thrown
    }
  }
}

function takesNames(redo: Redo): boolean {
  return redo[0] === 'u' || redo[0] === 'm' || redo[0] === 'R'
}

function refresh(live: LiveSession, held: HeldFile): void {
  if (held.gone || look(live.tree, held)) return
  held.gone = true
  live.held?.delete(held)
  held.onGone?.()
}

/** Whether the file is still in the tree. */
function look(tree: Tree, held: HeldFile): boolean {
  const named = nodeAt(tree, held.path)
  const node = named?.ino === held.ino ? named : tree.findLinked(held.ino)
  if (node instanceof FileNode) held.last = node
  return node !== undefined
}

/** A move may have made a path longer than paths may be; then nothing is known to be there. */
function nodeAt(tree: Tree, path: string): Node | undefined {
  try {
    return tree.find(parsePath(path))
  } catch (thrown) {
    if (thrown instanceof EngineError && thrown.reason === 'NAME_TOO_LONG') return undefined
    throw thrown
  }
}
