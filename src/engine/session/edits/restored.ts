import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { joinPath, parsePath } from '../../base/path.js'
import { BlobRef } from '../../cas/blob.js'
import { listExtents } from '../../cas/body.js'
import type { Redo, RedoPiece } from '../../records/event.js'
import type { TreeChange } from '../../tree/diff.js'
import { Dir, FileNode, LinkedFile, Symlink, type Node } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import { findXattr, sameXattrs } from '../../tree/xattrs.js'
import type { Core } from '../core.js'
import { notADirectory, notFound } from '../reads/resolve.js'
import { treeChanges } from '../tree-changes.js'

/** The trees before and after a restore, and the restored paths; undefined: all. */
export interface PartialRestore {
  readonly before: Dir
  readonly after: Dir
  readonly paths: readonly string[] | undefined
}

/** The changes of a restore that are at or below its paths. */
export async function* restoredChanges(
  core: Core,
  { before, after, paths }: PartialRestore,
): AsyncGenerator<TreeChange, void> {
  const isWanted = paths === undefined ? () => true : isAtOrBelow(paths)
  for await (const change of treeChanges(core, before, after)) if (isWanted(change.path)) yield change
}

/**
 * The effects that give paths the state that they have in another tree. The cost is that of the changes. Contents
 * are shared, not copied.
 *
 * @throws {EngineError} PATH_NOT_FOUND when neither tree has one of the paths.
 * @throws {EngineError} NOT_A_DIRECTORY when something else is in the place of a parent.
 * @throws {EngineError} TOO_LARGE when there would be too many effects.
 */
export async function restoredEffects(core: Core, restore: PartialRestore): Promise<Redo[]> {
  const effects = new RestoredEffects(core)
  const before = new Tree(restore.before, core.loader)
  const after = new Tree(restore.after, core.loader)
  const made = new Set<string>()
  for (const path of restore.paths ?? []) await addParents(effects, { before, after, path, made })
  for await (const change of restoredChanges(core, restore)) await effects.add(change)
  return effects.list
}

function isAtOrBelow(paths: readonly string[]): (path: string) => boolean {
  const wanted = new Set(paths)
  if (wanted.has('/')) return () => true
  return (path) => {
    for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1))
      if (wanted.has(path.slice(0, end))) return true
    return false
  }
}

/** Adds the directories above a path that only the other tree has. */
async function addParents(
  effects: RestoredEffects,
  { before, after, path, made }: { before: Tree; after: Tree; path: string; made: Set<string> },
): Promise<void> {
  const names = parsePath(path)
  const restored = await whenLoaded(() => after.find(names))
  if (restored === undefined) {
    if ((await whenLoaded(() => before.find(names))) === undefined) throw notFound(path)
    return
  }
  for (let depth = 1; depth < names.length; depth++) {
    const parent = joinPath(names.slice(0, depth))
    const there = await whenLoaded(() => before.find(names.slice(0, depth)))
    if (there instanceof Dir || made.has(parent)) continue
    if (there !== undefined) throw notADirectory(parent)
    made.add(parent)
    const node = await whenLoaded(() => after.find(names.slice(0, depth)))
    await effects.add({ path: parent, before: undefined, after: node })
  }
}

/** Collects the effects of changes in the order of the manifest. */
class RestoredEffects {
  readonly list: Redo[] = []
  readonly #core: Core
  #size = 0
  /** The directory that was removed last, with a slash. */
  #removed: string | undefined
  /** The first restored name of each hard-linked file. */
  readonly #linked = new Map<number, string>()
  readonly #added = new Set<string>()

  constructor(core: Core) {
    this.#core = core
  }

  async add({ path, before, after }: TreeChange): Promise<void> {
    if (after === undefined) return this.#remove(path)
    // A parent of a path may be a change of another path, too.
    if (before === undefined && this.#added.has(path)) return
    if (before instanceof FileNode && after instanceof FileNode && isSameFile(before, after)) {
      if (after instanceof LinkedFile) this.#linked.set(after.ino, path)
      await this.#setContent(path, after, before)
      return this.#setAttributes(path, after, before)
    }
    if (before instanceof Dir && after instanceof Dir) return this.#setAttributes(path, after, before)
    if (before !== undefined) this.#push(['u', path])
    await this.#create(path, after)
  }

  #remove(path: string): void {
    if (this.#removed !== undefined && path.startsWith(this.#removed)) return
    this.#removed = `${path}/`
    this.#push(['u', path])
  }

  async #create(path: string, node: Node): Promise<void> {
    const { ids } = this.#core
    this.#added.add(path)
    if (node instanceof Symlink) return this.#push(['s', path, node.target, ids.newIno()])
    if (node instanceof Dir) {
      this.#push(['d', path, node.mode, ids.newIno()])
      return this.#setAttributes(path, node, undefined)
    }
    const first = node instanceof LinkedFile ? this.#linked.get(node.ino) : undefined
    if (first !== undefined) return this.#push(['h', first, path])
    if (node instanceof LinkedFile) this.#linked.set(node.ino, path)
    const body = await whenLoaded(() => this.#core.contentIds.body(node))
    const single = body instanceof BlobRef && body.length === node.size ? body : undefined
    this.#push(['w', path, node.mode, ids.newIno(), single ?? 0])
    if (single === undefined && node.size > 0) await this.#setPieces(path, node)
    this.#setAttributes(path, node, undefined)
    this.#push(['t', path, node.mtime])
  }

  async #setContent(path: string, node: FileNode, before: FileNode): Promise<void> {
    const { contentIds } = this.#core
    const isSame = await whenLoaded(
      () => node.size === before.size && contentIds.contentId(node) === contentIds.contentId(before),
    )
    if (isSame) return
    const body = await whenLoaded(() => contentIds.body(node))
    const single = body instanceof BlobRef && body.length === node.size ? body : undefined
    this.#push(['o', path, single ?? 0])
    if (single === undefined && node.size > 0) await this.#setPieces(path, node)
    this.#push(['t', path, node.mtime])
  }

  async #setPieces(path: string, node: FileNode): Promise<void> {
    const body = await whenLoaded(() => this.#core.contentIds.body(node))
    const pieces = listExtents(body, { from: 0, to: node.size }).map(
      ({ offset, length, blob, casOffset }): RedoPiece => [offset, length, blob, casOffset],
    )
    this.#push(['p', path, node.size, pieces], pieces.length)
  }

  #setAttributes(path: string, node: FileNode | Dir, before: FileNode | Dir | undefined): void {
    if (before !== undefined && before.mode !== node.mode) this.#push(['c', path, node.mode])
    if (sameXattrs(before?.xattrs, node.xattrs)) return
    for (const [name] of before?.xattrs ?? [])
      if (findXattr(node.xattrs, name) === undefined) this.#push(['x', path, name, 0])
    for (const [name, value] of node.xattrs ?? []) this.#push(['x', path, name, value])
  }

  #push(effect: Redo, pieces = 0): void {
    this.#size += 1 + pieces
    if (this.#size > limits.restoreEffects)
      throw new EngineError(
        'TOO_LARGE',
        `there are more than ${limits.restoreEffects} effects on files: restore fewer paths, or the whole tree, or push fewer changes at a time`,
        { limit: String(limits.restoreEffects) },
      )
    this.list.push(effect)
  }
}

/** Whether a change of the content affects no name that only one of the trees has. */
function isSameFile(before: FileNode, after: FileNode): boolean {
  const isLinked = before instanceof LinkedFile || after instanceof LinkedFile
  return (
    !isLinked || (before.ino === after.ino && before instanceof LinkedFile && after instanceof LinkedFile)
  )
}
