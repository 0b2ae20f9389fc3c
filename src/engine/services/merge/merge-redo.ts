import { compareUtf8 } from '../../base/order.js'
import { Fault, whenLoaded } from '../../base/fault.js'
import { splitPath } from '../../base/path.js'
import { TimeSlice } from '../../base/cooperative.js'
import { sortedInSlices } from '../../base/sorted.js'
import { BlobRef } from '../../cas/blob.js'
import { listExtents } from '../../cas/body.js'
import { applyInTurns } from '../../session/history/replay.js'
import type { Core } from '../../session/core.js'
import type { Redo, RedoPiece } from '../../records/event.js'
import { Dir, FileNode, LinkedFile, Symlink, type Node } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import { findXattr, type Xattrs } from '../../tree/xattrs.js'
import { sameContent, sameNode } from './changed-paths.js'
import type { File, MergedTrees } from './merged-trees.js'

/** A path that a merge changes in the target. */
export interface MergedPath {
  readonly path: string
  readonly before: Node | undefined
  readonly after: Node | undefined
}

export interface MergeEffects {
  readonly redo: readonly Redo[]
  /** In order of the paths. */
  readonly changes: readonly MergedPath[]
}

/** The effects that turn ours into the result of a merge. Contents that a side has are not copied. */
export async function effectsOf(core: Core, ours: Dir, result: ResultNodes): Promise<MergeEffects> {
  return new EffectsBuilder(core, ours).build(result)
}

/** The tree that a merge makes from ours. */
export async function resultOf(core: Core, ours: Dir, result: ResultNodes): Promise<Dir> {
  const { redo } = await effectsOf(core, ours, result)
  const tree = new Tree(ours, core.loader)
  await applyInTurns(core, tree, redo, 0)
  return tree.freeze()
}

type ResultNodes = Pick<MergedTrees, 'files' | 'directories' | 'moves'>

class EffectsBuilder {
  readonly #core: Core
  readonly #tree: Tree
  readonly #redo: Redo[] = []
  readonly #changes: MergedPath[] = []
  /** Paths whose file another effect already moved or removed. */
  readonly #gone = new Set<string>()
  /** The first new path of each new hard-linked file, by its inode number in theirs. */
  readonly #linked = new Map<number, string>()
  readonly #slice: TimeSlice

  constructor(core: Core, ours: Dir) {
    this.#core = core
    this.#tree = new Tree(ours, core.loader)
    this.#slice = new TimeSlice(core.environment)
  }

  async build({ files, directories, moves }: ResultNodes): Promise<MergeEffects> {
    const moved = new Map<string, Node>()
    for (const [from, to] of moves) {
      if (this.#slice.over) await this.#slice.next()
      const node = await this.#movable(from, to, files)
      if (node === undefined) continue
      this.#redo.push(['m', from, to])
      this.#changed(from, node, undefined)
      this.#gone.add(from)
      moved.set(to, node)
    }
    await this.#remove(files, directories)
    await this.#makeDirectories(directories)
    for (const [path, file] of await this.#sorted(files)) {
      if (this.#slice.over) await this.#slice.next()
      if (file !== undefined) await this.#put(path, file, moved.get(path))
    }
    const changes = await sortedInSlices(this.#changes, (a, b) => compareUtf8(a.path, b.path), this.#slice)
    return { redo: this.#redo, changes }
  }

  /** The file at a path in ours, if it can move before all other effects. */
  async #movable(
    from: string,
    to: string,
    files: ReadonlyMap<string, File | undefined>,
  ): Promise<Node | undefined> {
    if (files.get(to) === undefined || files.get(from) !== undefined) return undefined
    const node = await this.#find(from)
    const target = await this.#find(to)
    const parent = await this.#find(parentOf(to))
    return node instanceof Dir || target !== undefined || !(parent instanceof Dir) ? undefined : node
  }

  /** Removes directories that nothing of the result is in, then files. */
  async #remove(
    files: ReadonlyMap<string, File | undefined>,
    directories: ReadonlyMap<string, Dir | undefined>,
  ): Promise<void> {
    const removed = new Set<string>()
    const isBelowRemoved = (path: string): boolean => {
      for (let above = parentOf(path); above !== '/'; above = parentOf(above))
        if (removed.has(above)) return true
      return false
    }
    for (const [path, wanted] of await this.#sorted(directories)) {
      if (wanted !== undefined) continue
      if (this.#slice.over) await this.#slice.next()
      const node = await this.#find(path)
      if (!(node instanceof Dir)) continue
      if (!isBelowRemoved(path)) this.#redo.push(['u', path])
      this.#changed(path, node, undefined)
      removed.add(path)
    }
    for (const [path, wanted] of await this.#sorted(files)) {
      if (wanted !== undefined || this.#gone.has(path)) continue
      if (this.#slice.over) await this.#slice.next()
      const node = await this.#find(path)
      if (node === undefined || node instanceof Dir) continue
      if (!isBelowRemoved(path)) this.#redo.push(['u', path])
      this.#changed(path, node, undefined)
    }
    for (const path of removed) this.#gone.add(path)
  }

  async #makeDirectories(directories: ReadonlyMap<string, Dir | undefined>): Promise<void> {
    for (const [path, wanted] of await this.#sorted(directories)) {
      if (wanted === undefined) continue
      if (this.#slice.over) await this.#slice.next()
      const node = await this.#find(path)
      const { mode, xattrs } = wanted
      if (node instanceof Dir) {
        if (await sameNode(this.#core, node, wanted)) continue
        if (node.mode !== mode) this.#redo.push(['c', path, mode])
        this.#putXattrs(path, node.xattrs, xattrs)
      } else {
        this.#redo.push(['d', path, mode, this.#core.ids.newIno()])
        this.#putXattrs(path, undefined, xattrs)
      }
      this.#changed(path, node instanceof Dir ? node : undefined, wanted)
    }
  }

  async #put(path: string, file: File, moved: Node | undefined): Promise<void> {
    const found = moved ?? (await this.#find(path))
    const node = found instanceof Dir ? undefined : found
    if (await sameNode(this.#core, node, file)) {
      if (moved !== undefined) this.#changed(path, undefined, file)
      return
    }
    this.#changed(path, moved === undefined ? node : undefined, file)
    if (node instanceof FileNode && file instanceof FileNode && isChangedInPlace(node, file)) {
      if (!(await sameContent(this.#core, node, file))) await this.#putContent(path, 'o', file)
      if (node.mode !== file.mode) this.#redo.push(['c', path, file.mode])
      this.#putXattrs(path, node.xattrs, file.xattrs)
      return
    }
    if (node !== undefined) this.#redo.push(['u', path])
    if (file instanceof Symlink) this.#redo.push(['s', path, file.target, this.#core.ids.newIno()])
    else await this.#create(path, file)
  }

  async #create(path: string, file: FileNode): Promise<void> {
    const first = file instanceof LinkedFile ? this.#linked.get(file.ino) : undefined
    if (first !== undefined) {
      this.#redo.push(['h', first, path])
      return
    }
    if (file instanceof LinkedFile) this.#linked.set(file.ino, path)
    await this.#putContent(path, 'w', file)
    this.#putXattrs(path, undefined, file.xattrs)
  }

  /** The whole content of a file, by references to its blobs. */
  async #putContent(path: string, effect: 'w' | 'o', file: FileNode): Promise<void> {
    const body = await whenLoaded(() => this.#core.contentIds.body(file))
    const whole = body instanceof BlobRef && body.length === file.size ? body : 0
    if (effect === 'w') this.#redo.push(['w', path, file.mode, this.#core.ids.newIno(), whole])
    else this.#redo.push(['o', path, whole])
    if (whole !== 0 || file.size === 0) return
    const pieces = listExtents(body, { from: 0, to: file.size }).map(
      ({ offset, length, blob, casOffset }): RedoPiece => [offset, length, blob, casOffset],
    )
    this.#redo.push(['p', path, file.size, pieces])
  }

  #putXattrs(path: string, before: Xattrs | undefined, after: Xattrs | undefined): void {
    for (const [name] of before ?? [])
      if (findXattr(after, name) === undefined) this.#redo.push(['x', path, name, 0])
    for (const [name, value] of after ?? [])
      if (findXattr(before, name)?.hash !== value.hash) this.#redo.push(['x', path, name, value])
  }

  #changed(path: string, before: Node | undefined, after: Node | undefined): void {
    this.#changes.push({ path, before, after })
  }

  /** Directories come before their entries. */
  #sorted<T>(nodes: ReadonlyMap<string, T>): Promise<(readonly [string, T])[]> {
    return sortedInSlices(nodes, ([a], [b]) => compareUtf8(a, b), this.#slice)
  }

  async #find(path: string): Promise<Node | undefined> {
    const names = splitPath(path)
    // Most nodes are loaded.
    try {
      return this.#tree.find(names)
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      return whenLoaded(() => this.#tree.find(names), thrown)
    }
  }
}

/** Whether the file stays the same node. A hard-linked file changes under all its names. */
function isChangedInPlace(node: FileNode, file: FileNode): boolean {
  return !(node instanceof LinkedFile) || (file instanceof LinkedFile && file.ino === node.ino)
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}
