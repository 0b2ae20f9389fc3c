import { TimeSlice } from '../../base/cooperative.js'
import { compareUtf8 } from '../../base/order.js'
import { sortedInSlices } from '../../base/sorted.js'
import type { Core } from '../../session/core.js'
import { Dir, FileNode, type Symlink } from '../../tree/node.js'
import { contentIdOf, sameNode, type ChangedPath } from './changed-paths.js'

/** New paths of a side's renamed files, by their old paths. */
export type Renames = ReadonlyMap<string, string>

type Paths = ReadonlyMap<string, ChangedPath>
type Side = 'ours' | 'theirs'

/**
 * Finds the files that a side moved without a change of their content, as git does with
 * `find-renames=100%`. Only files that the other side changed or deleted matter: for all others, a rename is
 * the same as a deletion and an addition. Empty files have no renames.
 */
export function exactRenames(core: Core, paths: Paths, side: Side): Promise<Renames> {
  return renamesOf(core, paths, side, 'changed', ({ base }) => fileOf(base) === undefined)
}

/** Finds the files that a side moved, also over another file, and that the other side left unchanged. */
export function unfollowedRenames(core: Core, paths: Paths, side: Side): Promise<Renames> {
  return renamesOf(core, paths, side, 'unchanged', ({ base, [side]: node }) => node !== base)
}

async function renamesOf(
  core: Core,
  paths: Paths,
  side: Side,
  of: 'changed' | 'unchanged',
  isTarget: (changed: ChangedPath) => boolean,
): Promise<Renames> {
  const other = side === 'ours' ? 'theirs' : 'ours'
  const slice = new TimeSlice(core.environment)
  const sources = new SourceTable(core, slice)
  for (const [path, changed] of paths) {
    if (slice.over) await slice.next()
    const base = fileOf(changed.base)
    if (base === undefined || fileOf(changed[side]) !== undefined) continue
    if ((await sameNode(core, changed[other], base)) === (of === 'unchanged')) sources.add(path, base)
  }
  const renames = new Map<string, string>()
  if (sources.size === 0) return renames
  const added = [...paths].filter(([, changed]) => isTarget(changed))
  for (const [path, changed] of await sortedInSlices(added, ([a], [b]) => compareUtf8(a, b), slice)) {
    if (slice.over) await slice.next()
    const file = fileOf(changed[side])
    const source = file === undefined ? undefined : await sources.take(path, file)
    if (source !== undefined) renames.set(source, path)
  }
  return renames
}

type File = FileNode | Symlink

function fileOf(node: ChangedPath[keyof ChangedPath]): File | undefined {
  return node instanceof Dir ? undefined : node
}

interface Source {
  readonly path: string
  readonly file: File
}

/** Removed files of one size. They are hashed once an added file has this size too. */
interface SizeClass {
  readonly sources: Source[]
  byContent: Map<string, Candidates> | undefined
}

/** Removed files with one content, in the order of their paths. */
class Candidates {
  readonly #paths: string[] = []
  readonly #byName = new Map<string, string[]>()
  readonly #taken = new Set<string>()
  #next = 0

  add(path: string): void {
    this.#paths.push(path)
    const name = nameOf(path)
    const named = this.#byName.get(name)
    if (named === undefined) this.#byName.set(name, [path])
    else named.push(path)
  }

  /** Removes and returns the first one with the name of the path, or else the first one. */
  take(path: string): string | undefined {
    const named = this.#byName.get(nameOf(path)) ?? []
    while (named[0] !== undefined && this.#taken.has(named[0])) named.shift()
    let best = named.shift()
    while (best === undefined && this.#next < this.#paths.length) {
      const first = this.#paths[this.#next++]
      if (first !== undefined && !this.#taken.has(first)) best = first
    }
    if (best !== undefined) this.#taken.add(best)
    return best
  }
}

class SourceTable {
  readonly #core: Core
  readonly #slice: TimeSlice
  readonly #bySize = new Map<string, SizeClass>()

  constructor(core: Core, slice: TimeSlice) {
    this.#core = core
    this.#slice = slice
  }

  get size(): number {
    return this.#bySize.size
  }

  add(path: string, file: File): void {
    const size = sizeOf(file)
    if (size === undefined) return
    const known = this.#bySize.get(size)
    if (known === undefined) this.#bySize.set(size, { sources: [{ path, file }], byContent: undefined })
    else known.sources.push({ path, file })
  }

  /** Removes and returns the best source of an added file. */
  async take(path: string, file: File): Promise<string | undefined> {
    const size = this.#bySize.get(sizeOf(file) ?? '')
    if (size === undefined) return undefined
    size.byContent ??= await this.#hashed(size.sources)
    return size.byContent.get(await this.#contentOf(file))?.take(path)
  }

  async #hashed(sources: readonly Source[]): Promise<Map<string, Candidates>> {
    const byContent = new Map<string, Candidates>()
    const slice = this.#slice
    const sorted = await sortedInSlices(sources, (a, b) => compareUtf8(a.path, b.path), slice)
    for (const { path, file } of sorted) {
      if (slice.over) await slice.next()
      const content = await this.#contentOf(file)
      const known = byContent.get(content) ?? new Candidates()
      known.add(path)
      byContent.set(content, known)
    }
    return byContent
  }

  async #contentOf(file: File): Promise<string> {
    return file instanceof FileNode ? contentIdOf(this.#core, file) : ''
  }
}

/** Equal files have equal sizes. Undefined for an empty file. */
function sizeOf(file: File): string | undefined {
  if (!(file instanceof FileNode)) return `link ${file.target}`
  return file.size === 0 ? undefined : String(file.size)
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
