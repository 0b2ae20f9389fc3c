import { TimeSlice } from '../../base/cooperative.js'
import { whenLoaded } from '../../base/fault.js'
import type { Core } from '../../session/core.js'
import { visitPaths } from '../../tree/cursor.js'
import { Dir, FileNode, noAttributes, type Node } from '../../tree/node.js'
import type { ConflictRecord } from '../../records/merge.js'
import { sameNode } from './changed-paths.js'
import { findIn, sideOf } from './conflict-sides.js'
import { inTheWay, placeTaken } from './merge-errors.js'
import type { FileMerger } from './merge-files.js'
import type { ConflictSideName, ParsedResolution } from './merge-requests.js'
import type { File, MergedTrees } from './merged-trees.js'
import type { OpenMerge } from './open-merge.js'
import { submoduleAt } from './submodules.js'

interface Resolution {
  readonly open: OpenMerge
  /** The current tree of the session. */
  readonly target: Dir
  readonly conflicts: readonly ConflictRecord[]
  readonly way: Omit<ParsedResolution, 'path'>
  readonly merger: FileMerger
}

/** The nodes that conflicts are resolved to. */
export async function resolutionOf(
  core: Core,
  resolution: Resolution,
): Promise<Pick<MergedTrees, 'files' | 'directories' | 'moves'>> {
  const nodes = new ResolvedNodes(core, resolution)
  // Directories come first, because other conflicts have files in them. Moved files come last, because they may go back into
  // directories that the others make room for.
  const byRank: ConflictRecord[][] = [[], [], []]
  const slice = new TimeSlice(core.environment)
  for (const conflict of resolution.conflicts) {
    byRank[await nodes.rankOf(conflict)]?.push(conflict)
    if (slice.over) await slice.next()
  }
  for (const conflict of byRank.flat()) {
    await nodes.resolve(conflict)
    if (slice.over) await slice.next()
  }
  return nodes
}

class ResolvedNodes {
  readonly files = new Map<string, File | undefined>()
  readonly directories = new Map<string, Dir | undefined>()
  readonly moves: ReadonlyMap<string, string> = new Map()
  readonly #core: Core
  readonly #resolution: Resolution
  /** The paths that have a conflict before the resolution. */
  readonly #open: ReadonlySet<string>

  constructor(core: Core, resolution: Resolution) {
    this.#core = core
    this.#resolution = resolution
    this.#open = new Set(resolution.open.record.conflicts.map(({ path }) => path))
  }

  async rankOf(conflict: ConflictRecord): Promise<0 | 1 | 2> {
    const { use } = this.#resolution.way
    const node = use === undefined ? undefined : await this.#sideOf(conflict, use)
    if (conflict.kind === 'file/directory' || node instanceof Dir) return 0
    return conflict.kind === 'rename/rename' || conflict.kind === 'rename/delete' ? 2 : 1
  }

  async resolve(conflict: ConflictRecord): Promise<void> {
    const { way, open, merger } = this.#resolution
    const { use, content } = way
    if (use === undefined) {
      if (content === undefined) return this.#clear(conflict.path)
      const attributes = await this.#attributesAt(conflict)
      return this.#put(conflict.path, merger.file(content, attributes), undefined)
    }
    const node = await this.#sideOf(conflict, use)
    // Only a conflict of names has its files at other paths than its own.
    const isOfNames =
      conflict.kind === 'rename/rename' || (conflict.kind === 'rename/delete' && use === 'base')
    const wanted = (isOfNames ? conflict[use] : undefined) ?? conflict.path
    const path = (await this.#isKeptAt(wanted, conflict, node)) ? conflict.path : wanted
    for (const other of new Set([conflict.path, conflict.ours, conflict.theirs]))
      if (isOfNames && other !== undefined && other !== path) await this.#vacate(other, conflict, use)
    if (node === undefined) return this.#clear(path)
    if (path !== conflict.path && this.#hasOwnConflict(path) && use !== 'base') return
    if (path !== conflict.path && use === 'base') await this.#checkPlace(path, node)
    const current = await findIn(this.#core, this.#resolution.target, path)
    // Their bits and attributes are one side's. Those of a directory need nothing below it, if both sides have one.
    const isOfBits = conflict.kind !== 'file/directory' && conflict.kind !== 'rename/delete'
    if (node instanceof Dir && current instanceof Dir && isOfBits)
      return void this.directories.set(path, node)
    if ((await submoduleAt(this.#core, open.trees[use], wanted, node)) !== undefined) await this.#empty(path)
    await this.#put(path, node, open.trees[use])
  }

  /** The node of a side. Earlier versions did not name a directory in the place of a file. */
  async #sideOf(conflict: ConflictRecord, use: ConflictSideName): Promise<Node | undefined> {
    const { trees } = this.#resolution.open
    if (use === 'base' || conflict[use] !== undefined) return sideOf(this.#core, trees, conflict, use)
    const node = await findIn(this.#core, trees[use], conflict.path)
    return node instanceof Dir ? node : undefined
  }

  /** The attributes of the file that new content replaces. */
  async #attributesAt(conflict: ConflictRecord): Promise<FileNode | typeof noAttributes> {
    const { open, target } = this.#resolution
    const candidates = [
      await findIn(this.#core, target, conflict.path),
      await sideOf(this.#core, open.trees, conflict, 'ours'),
      await sideOf(this.#core, open.trees, conflict, 'theirs'),
    ]
    return candidates.find((node) => node instanceof FileNode) ?? { ...noAttributes, mode: 0o644 }
  }

  /** Takes a file away from a path of a conflict of names. The side may have something else there. */
  async #vacate(path: string, conflict: ConflictRecord, use: ConflictSideName): Promise<void> {
    const root = this.#resolution.open.trees[use]
    const node = await findIn(this.#core, root, path)
    // Another path that both sides have is none of this conflict.
    if (path !== conflict.path && (node !== undefined || (await this.#isOfBoth(path)))) return
    if (node === undefined) await this.#clear(path)
    else await this.#put(path, node, root)
  }

  /** Whether something that an earlier resolution kept is in the way of a moved file. */
  async #isKeptAt(path: string, conflict: ConflictRecord, file: Node | undefined): Promise<boolean> {
    if (path === conflict.path || path === conflict.base || this.#hasOwnConflict(path)) return false
    const current = await findIn(this.#core, this.#resolution.target, path)
    if (current === undefined || !(await this.#isOfBoth(path))) return false
    return !(await sameNode(this.#core, current, file))
  }

  /** Refuses to replace what no conflict names. */
  async #checkPlace(path: string, file: Node): Promise<void> {
    if (this.#hasOwnConflict(path)) return
    const current = await findIn(this.#core, this.#resolution.target, path)
    if (current instanceof Dir) {
      for (const [child, node] of await this.#below(this.#resolution.target, path)) {
        const isRemoved = this.files.has(child) && this.files.get(child) === undefined
        if (!(node instanceof Dir) && !isRemoved && !this.#hasOwnConflict(child))
          throw placeTaken(path, child)
      }
    } else if (current !== undefined && !(await sameNode(this.#core, current, file)))
      throw placeTaken(path, undefined)
  }

  #hasOwnConflict(path: string): boolean {
    return this.#open.has(path)
  }

  async #isOfBoth(path: string): Promise<boolean> {
    const { ours, theirs } = this.#resolution.open.trees
    return (
      (await findIn(this.#core, ours, path)) !== undefined &&
      (await findIn(this.#core, theirs, path)) !== undefined
    )
  }

  /** Removes the file or directory at a path of the session. */
  async #clear(path: string): Promise<void> {
    const node = await findIn(this.#core, this.#resolution.target, path)
    if (node instanceof Dir) this.directories.set(path, undefined)
    else if (node !== undefined) this.files.set(path, undefined)
  }

  /** Removes everything in a directory of the session. Git has no submodule where files are. */
  async #empty(path: string): Promise<void> {
    const below = await this.#below(this.#resolution.target, path)
    for (const [child, found] of below) {
      if (found instanceof Dir) this.directories.set(child, undefined)
      else this.files.set(child, undefined)
    }
  }

  /** Everything below a path of a tree. */
  async #below(root: Dir, path: string): Promise<readonly (readonly [path: string, node: Node])[]> {
    const below: [string, Node][] = []
    await whenLoaded(() => {
      below.length = 0
      visitPaths(root, { prefix: `${path}/`, after: undefined }, this.#core.loader, (child, found) => {
        below.push([child, found])
        return true
      })
    })
    return below
  }

  /** Puts a node of a side at a path; a directory with everything in it. */
  async #put(path: string, node: Node, root: Dir | undefined): Promise<void> {
    await this.#makeParents(path)
    const current = await findIn(this.#core, this.#resolution.target, path)
    if (!(node instanceof Dir)) {
      if (current instanceof Dir) this.directories.set(path, undefined)
      this.files.set(path, node)
      return
    }
    if (current !== undefined && !(current instanceof Dir)) this.files.set(path, undefined)
    this.directories.set(path, node)
    for (const [child, found] of root === undefined ? [] : await this.#below(root, path)) {
      if (found instanceof Dir) this.directories.set(child, found)
      else this.files.set(child, found)
    }
  }

  async #makeParents(path: string): Promise<void> {
    for (let end = path.indexOf('/', 1); end > 0; end = path.indexOf('/', end + 1)) {
      const parent = path.slice(0, end)
      const node = await findIn(this.#core, this.#resolution.target, parent)
      if (node instanceof Dir || this.directories.get(parent) !== undefined) continue
      const isRemoved = this.files.has(parent) && this.files.get(parent) === undefined
      if (node !== undefined && !isRemoved) throw inTheWay(parent, path, this.#hasOwnConflict(parent))
      const known = await findIn(this.#core, this.#resolution.open.trees.theirs, parent)
      const attributes = known instanceof Dir ? known : { ...noAttributes, mode: 0o755 }
      this.directories.set(parent, new Dir(undefined, attributes, null))
    }
  }
}
