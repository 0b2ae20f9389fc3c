import { present } from '../base/present.js'
import { Fault } from '../base/fault.js'
import { parsePath } from '../base/path.js'
import { EngineError } from '../base/errors.js'
import { findInos } from '../tree/find-ino.js'
import { FileNode, LinkedFile, type Dir, type Node } from '../tree/node.js'
import type { Tree } from '../tree/tree.js'
import type { FileTarget, Redo } from '../records/event.js'

/**
 * A file or directory that an open file or a lock uses. It is followed through renames, and its holder is
 * informed of its removal.
 */
export class HeldFile {
  readonly ino: number
  /** The name by which it is held. '' if that name was removed but the file has or may have others. */
  path: string
  /** Set once the file has no name. */
  gone = false
  /** Set while an event that may remove its name is applied. Its place must be checked afterwards. */
  touched = false
  /** The latest known state of a file. For a removed file, the state that only its holder sees. */
  last: FileNode | undefined
  readonly onGone: (() => void) | undefined
  /** Call this after the last read. */
  pin: Disposable | undefined = undefined
  /** The held files of the session, this one among them. */
  among: Set<HeldFile> | undefined = undefined

  constructor(node: Node, path: string, onGone: (() => void) | undefined) {
    this.ino = node.ino
    this.path = path
    this.last = node instanceof FileNode ? node : undefined
    this.onGone = onGone
  }
}

/** The part of a session in memory that holds files. */
interface Holder {
  readonly tree: Tree
  readonly revive: (() => void) | undefined
  held: Set<HeldFile> | undefined
}

/** `path` is resolved, and `node` is the current node there. */
export function holdFile(live: Holder, path: string, node: Node, onGone?: () => void): HeldFile {
  live.revive?.()
  const held = new HeldFile(node, path, onGone)
  include(live, held)
  held.pin = live.tree.loader.pins?.pin({ roots: [held], owner: held })
  return held
}

/** Does not need the session, which may be gone. */
export function releaseFile(held: HeldFile): void {
  held.among?.delete(held)
  held.pin?.[Symbol.dispose]()
}

/** The current file. For a removed file, its last state. */
export function currentFile(live: Holder, held: HeldFile): FileNode {
  // The session may have been read again from the store since.
  if (!held.gone) {
    live.revive?.()
    include(live, held)
  }
  refresh(live, held)
  return present(held.last, 'the held file')
}

function include(live: Holder, held: HeldFile): void {
  held.among = live.held ??= new Set()
  held.among.add(held)
}

/** The place of a held file in the tree. Undefined if the file was removed. */
export function targetOf(live: Holder, held: HeldFile): FileTarget | undefined {
  currentFile(live, held)
  if (held.gone) return undefined
  return nodeAt(live.tree, held.path)?.ino === held.ino ? held.path : held.ino
}

/** Call this before an effect removes names. */
export function beforeEffect(live: Holder, redo: Redo): void {
  if (live.held === undefined || !takesNames(redo)) return
  // The effect may still be undone, so no file counts as removed yet.
  for (const held of live.held) {
    // During this event, a hard-linked file may already have lost the name by which it is held.
    const elsewhere = held.touched && held.last instanceof LinkedFile
    if (!elsewhere && !mayTake(redo, held.path)) continue
    held.touched = true
    look(live.tree, held)
  }
}

/**
 * Call this after the effects of an event were applied for good. `restored` has the trees before and after a
 * restore. Nodes that are not loaded are checked when the holder asks.
 */
export function afterEvent(
  live: Holder,
  effects: readonly Redo[],
  restored?: { readonly before: Dir; readonly after: Dir },
): void {
  if (live.held === undefined) return
  for (const redo of effects) if (redo[0] === 'm') followMove(live, redo[1], redo[2])
  if (!effects.some(takesNames)) return
  try {
    if (restored !== undefined) followRestore(live, restored.before, restored.after)
    for (const held of live.held) {
      if (!held.touched) continue
      refresh(live, held)
      held.touched = false
    }
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown
  }
}

/** Takes over held files after a reload of the session. Files that still exist stay held. */
export function takeOver(live: Holder, dropped: Holder): void {
  live.held = dropped.held
  if (live.held === undefined) return
  followRestore(live, dropped.tree.freeze(), live.tree.freeze())
  for (const held of live.held) refresh(live, held)
}

function followMove(live: Holder, from: string, to: string): void {
  for (const held of live.held ?? []) {
    if (held.path === from) held.path = to
    else if (held.path.startsWith(`${from}/`)) held.path = to + held.path.slice(from.length)
    // The file at the destination was replaced. If it has another name, that name is not known.
    else if (held.path === to || held.path.startsWith(`${to}/`)) held.path = ''
  }
}

/** A restore may put a file back where it was before a rename. */
function followRestore(live: Holder, before: Dir, after: Dir): void {
  const missing = new Set<number>()
  for (const held of live.held ?? []) if (!look(live.tree, held)) missing.add(held.ino)
  if (missing.size === 0) return
  const found = findInos(before, after, missing, live.tree.loader)
  for (const held of live.held ?? []) held.path = found.get(held.ino) ?? held.path
}

function takesNames(redo: Redo): boolean {
  return redo[0] === 'u' || redo[0] === 'm' || redo[0] === 'R'
}

/** Whether an effect may remove the name by which a file is held. A file held by '' may have any name. */
function mayTake(redo: Redo, path: string): boolean {
  if (redo[0] === 'R' || path === '') return true
  const isIn = (root: string): boolean =>
    path.startsWith(root) && (path.length === root.length || path[root.length] === '/')
  return isIn(redo[1] as string) || (redo[0] === 'm' && isIn(redo[2]))
}

function refresh(live: Holder, held: HeldFile): void {
  if (held.gone || look(live.tree, held)) return
  held.gone = true
  live.held?.delete(held)
  held.onGone?.()
}

/** Whether the file is still in the tree. */
function look(tree: Tree, held: HeldFile): boolean {
  let node = nodeAt(tree, held.path)
  if (node?.ino !== held.ino) {
    node = tree.findLinked(held.ino)
    if (node !== undefined) held.path = ''
  }
  if (node instanceof FileNode) held.last = node
  return node !== undefined
}

/** A move may have made a path longer than the limit. Then the node at that path is unknown. */
function nodeAt(tree: Tree, path: string): Node | undefined {
  if (path === '') return undefined
  try {
    return tree.find(parsePath(path))
  } catch (thrown) {
    if (thrown instanceof EngineError && thrown.reason === 'NAME_TOO_LONG') return undefined
    throw thrown
  }
}
