import { present } from '../base/present.js'
import { Fault } from '../base/fault.js'
import { parsePath } from '../base/path.js'
import { EngineError } from '../base/errors.js'
import { findInos } from '../tree/find-ino.js'
import { FileNode, LinkedFile, type Dir, type Node } from '../tree/node.js'
import type { Tree } from '../tree/tree.js'
import type { FileTarget, Redo } from '../records/event.js'

/**
 * A reference of an open file or a lock to a file or directory. It follows the file through renames, and learns of its
 * removal.
 */
export class FileReference {
  readonly ino: number
  /** The last known path of the file. '' if that name was removed but the file has or may have others. */
  path: string
  /** Set once the file has no name. */
  gone = false
  /** Set while an event is applied that may take the name: the place must be checked afterwards. */
  touched = false
  /** The latest known state of a file. For a removed file, the state that only this reference sees. */
  last: FileNode | undefined
  readonly onGone: (() => void) | undefined
  /** Call this after the last read. */
  pin: Disposable | undefined = undefined
  /** The file references of the session, this one among them. */
  among: Set<FileReference> | undefined = undefined

  constructor(node: Node, path: string, onGone: (() => void) | undefined) {
    this.ino = node.ino
    this.path = path
    this.last = node instanceof FileNode ? node : undefined
    this.onGone = onGone
  }
}

/** The part of a session in memory that file references need. */
interface ReferencedSession {
  readonly tree: Tree
  readonly revive: (() => void) | undefined
  fileReferences: Set<FileReference> | undefined
}

/** `path` is resolved, and `node` is the current node there. */
export function addFileReference(
  live: ReferencedSession,
  path: string,
  node: Node,
  onGone?: () => void,
): FileReference {
  live.revive?.()
  const reference = new FileReference(node, path, onGone)
  include(live, reference)
  reference.pin = live.tree.loader.pins?.pin({ roots: [reference], owner: reference })
  return reference
}

/** Does not need the session, which may be gone. */
export function removeFileReference(reference: FileReference): void {
  reference.among?.delete(reference)
  reference.pin?.[Symbol.dispose]()
}

/** The current file. For a removed file, its last state. */
export function currentFile(live: ReferencedSession, reference: FileReference): FileNode {
  // The session may have been read again from the store since.
  if (!reference.gone) {
    live.revive?.()
    include(live, reference)
  }
  refresh(live, reference)
  return present(reference.last, 'the referenced file')
}

function include(live: ReferencedSession, reference: FileReference): void {
  reference.among = live.fileReferences ??= new Set()
  reference.among.add(reference)
}

/** The place of a referenced file in the tree. Undefined if the file was removed. */
export function targetOf(live: ReferencedSession, reference: FileReference): FileTarget | undefined {
  currentFile(live, reference)
  if (reference.gone) return undefined
  return nodeAt(live.tree, reference.path)?.ino === reference.ino ? reference.path : reference.ino
}

/** Call this before an effect removes names. */
export function beforeEffect(live: ReferencedSession, redo: Redo): void {
  if (live.fileReferences === undefined || !takesNames(redo)) return
  // The effect may still be undone, so no file counts as removed yet.
  for (const reference of live.fileReferences) {
    // A hard-linked file may have already lost the name of the reference in this event.
    const elsewhere = reference.touched && reference.last instanceof LinkedFile
    if (!elsewhere && !mayTake(redo, reference.path)) continue
    reference.touched = true
    look(live.tree, reference)
  }
}

/**
 * Call this after the effects of an event were applied for good. `restored` has the trees before and after a
 * restore. Nodes that are not loaded are checked at the next use of the reference.
 */
export function afterEvent(
  live: ReferencedSession,
  effects: readonly Redo[],
  restored?: { readonly before: Dir; readonly after: Dir },
): void {
  if (live.fileReferences === undefined) return
  for (const redo of effects) if (redo[0] === 'm') followMove(live, redo[1], redo[2])
  if (!effects.some(takesNames)) return
  try {
    if (restored !== undefined) followRestore(live, restored.before, restored.after)
    for (const reference of live.fileReferences) {
      if (!reference.touched) continue
      refresh(live, reference)
      reference.touched = false
    }
  } catch (thrown) {
    if (!(thrown instanceof Fault)) throw thrown
  }
}

/** Takes over the file references after a reload of the session. Those to files that still exist stay valid. */
export function takeOverReferences(live: ReferencedSession, dropped: ReferencedSession): void {
  live.fileReferences = dropped.fileReferences
  if (live.fileReferences === undefined) return
  followRestore(live, dropped.tree.freeze(), live.tree.freeze())
  for (const reference of live.fileReferences) refresh(live, reference)
}

function followMove(live: ReferencedSession, from: string, to: string): void {
  for (const reference of live.fileReferences ?? []) {
    if (reference.path === from) reference.path = to
    else if (reference.path.startsWith(`${from}/`)) reference.path = to + reference.path.slice(from.length)
    // The file at the destination was replaced. If it has another name, that name is not known.
    else if (reference.path === to || reference.path.startsWith(`${to}/`)) reference.path = ''
  }
}

/** A restore may put a file back where it was before a rename. */
function followRestore(live: ReferencedSession, before: Dir, after: Dir): void {
  const missing = new Set<number>()
  for (const reference of live.fileReferences ?? [])
    if (!look(live.tree, reference)) missing.add(reference.ino)
  if (missing.size === 0) return
  const found = findInos(before, after, missing, live.tree.loader)
  for (const reference of live.fileReferences ?? [])
    reference.path = found.get(reference.ino) ?? reference.path
}

function takesNames(redo: Redo): boolean {
  return redo[0] === 'u' || redo[0] === 'm' || redo[0] === 'R'
}

/** Whether an effect may remove the name of a reference. With the path '', the name is not known. */
function mayTake(redo: Redo, path: string): boolean {
  if (redo[0] === 'R' || path === '') return true
  const isIn = (root: string): boolean =>
    path.startsWith(root) && (path.length === root.length || path[root.length] === '/')
  return isIn(redo[1] as string) || (redo[0] === 'm' && isIn(redo[2]))
}

function refresh(live: ReferencedSession, reference: FileReference): void {
  if (reference.gone || look(live.tree, reference)) return
  reference.gone = true
  live.fileReferences?.delete(reference)
  reference.onGone?.()
}

/** Whether the file is still in the tree. */
function look(tree: Tree, reference: FileReference): boolean {
  let node = nodeAt(tree, reference.path)
  if (node?.ino !== reference.ino) {
    node = tree.findLinked(reference.ino)
    if (node !== undefined) reference.path = ''
  }
  if (node instanceof FileNode) reference.last = node
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
