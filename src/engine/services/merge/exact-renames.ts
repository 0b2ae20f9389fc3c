import { TimeSlice } from '../../base/cooperative.js'
import { compareUtf8 } from '../../base/order.js'
import { sortedInSlices } from '../../base/sorted.js'
import type { Core } from '../../session/core.js'
import { Dir, FileNode } from '../../tree/node.js'
import { contentIdOf, sameNode, type ChangedPath } from './changed-paths.js'
import type { File, Placed } from './merged-trees.js'

/** New paths of a side's renamed files, by their old paths. */
export type Renames = ReadonlyMap<string, string>

type Paths = ReadonlyMap<string, ChangedPath>
type Side = 'ours' | 'theirs'

/**
 * Finds the files that a side moved without a change of their content, as git does with
 * `find-renames=100%`. Only files that the other side changed or deleted matter: for all others, a rename is
 * the same as a deletion and an addition. Empty files have no renames.
 */
export async function exactRenames(core: Core, paths: Paths, side: Side): Promise<Renames> {
  const slice = new TimeSlice(core.environment)
  const sources = await sourcesOf(core, paths, side, { others: 'changed', slice })
  if (sources.size === 0) return new Map()
  const targets = [...paths].flatMap(([path, { base, [side]: node }]) => {
    const file = fileOf(base) === undefined ? fileOf(node) : undefined
    return file === undefined ? [] : [{ path, file }]
  })
  return sources.taken(await byPath(targets, slice))
}

/**
 * Finds the files that a side moved to some of its new or changed paths, and that the other side left unchanged. The other
 * paths take their files first, so a file that is also at one of these is not found.
 */
export async function unfollowedRenames(
  core: Core,
  paths: Paths,
  side: Side,
  isWanted: (path: string) => boolean,
): Promise<Renames> {
  const slice = new TimeSlice(core.environment)
  const wanted: Placed[] = []
  const others: Placed[] = []
  for (const [path, { base, [side]: node }] of paths) {
    if (slice.over) await slice.next()
    const file = fileOf(node)
    if (file !== undefined && node !== base) (isWanted(path) ? wanted : others).push({ path, file })
  }
  // Most merges have few wanted paths, so few files are hashed.
  const sizes = new Set(wanted.map(({ file }) => sizeOf(file)))
  if (sizes.size === 0) return new Map()
  const sources = await sourcesOf(core, paths, side, { others: 'unchanged', slice, sizes })
  if (sources.size === 0) return new Map()
  const ofSize = others.filter(({ file }) => sizes.has(sizeOf(file)))
  await sources.taken(await byPath(ofSize, slice))
  return sources.taken(await byPath(wanted, slice))
}

/** The files that a side removed, and that the other side changed or not. */
async function sourcesOf(
  core: Core,
  paths: Paths,
  side: Side,
  which: {
    readonly others: 'changed' | 'unchanged'
    readonly slice: TimeSlice
    readonly sizes?: ReadonlySet<string | undefined>
  },
): Promise<SourceTable> {
  const { others, slice, sizes } = which
  const other = side === 'ours' ? 'theirs' : 'ours'
  const sources = new SourceTable(core, slice)
  for (const [path, changed] of paths) {
    if (slice.over) await slice.next()
    const base = fileOf(changed.base)
    if (base === undefined || fileOf(changed[side]) !== undefined) continue
    if (sizes !== undefined && !sizes.has(sizeOf(base))) continue
    if ((await sameNode(core, changed[other], base)) === (others === 'unchanged')) sources.add(path, base)
  }
  return sources
}

function byPath(placed: readonly Placed[], slice: TimeSlice): Promise<Placed[]> {
  return sortedInSlices(placed, (a, b) => compareUtf8(a.path, b.path), slice)
}

function fileOf(node: ChangedPath[keyof ChangedPath]): File | undefined {
  return node instanceof Dir ? undefined : node
}

/** Removed files of one size. They are hashed once an added file has this size too. */
interface SizeClass {
  readonly sources: Placed[]
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

  /** Takes the sources of these files, in their order. */
  async taken(files: readonly Placed[]): Promise<Map<string, string>> {
    const renames = new Map<string, string>()
    for (const { path, file } of files) {
      if (this.#slice.over) await this.#slice.next()
      const source = await this.#take(path, file)
      if (source !== undefined) renames.set(source, path)
    }
    return renames
  }

  /** Removes and returns the best source of an added file. */
  async #take(path: string, file: File): Promise<string | undefined> {
    const size = this.#bySize.get(sizeOf(file) ?? '')
    if (size === undefined) return undefined
    size.byContent ??= await this.#hashed(size.sources)
    return size.byContent.get(await this.#contentOf(file))?.take(path)
  }

  async #hashed(sources: readonly Placed[]): Promise<Map<string, Candidates>> {
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
