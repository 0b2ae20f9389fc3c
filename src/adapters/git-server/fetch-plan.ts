import { EngineError, type RepositoryObjects, type TimeSlice } from '../../engine/ports.js'
import { commitReader } from '../git/parts.js'
import type { FetchRequest } from './fetch-request.js'
import { gitServerLimits } from './limits.js'

export interface GraphCommit {
  readonly treeId: string
  /** The parents in the repository. Those of the imported commit are not. */
  readonly parents: readonly string[]
  /** Whether the commit has parents that the repository does not have. */
  readonly isCut: boolean
}

/** The commits of a repository, each with its parents. */
export class CommitGraph {
  readonly #objects: RepositoryObjects
  readonly #base: string | null
  readonly #slice: TimeSlice
  readonly #commits = new Map<string, GraphCommit>()

  constructor(objects: RepositoryObjects, base: string | null, slice: TimeSlice) {
    this.#objects = objects
    this.#base = base
    this.#slice = slice
  }

  async get(id: string): Promise<GraphCommit> {
    // Also for a known commit: a plan of a long history asks for each of them several times.
    if (this.#slice.over) await this.#slice.next()
    const known = this.#commits.get(id)
    if (known !== undefined) return known
    const commit = await commitReader.describe(id, this.#objects)
    if (commit === undefined)
      throw new EngineError('GIT_CORRUPT', `the commit ${id}, which the session needs, is missing`)
    if (this.#commits.size >= gitServerLimits.commits)
      throw new EngineError('GIT_TOO_LARGE', `the history has over ${gitServerLimits.commits} commits`, {
        limit: String(gitServerLimits.commits),
      })
    const isBase = id === this.#base
    const found = {
      treeId: commit.treeId,
      parents: isBase ? [] : commit.parentIds,
      isCut: isBase && commit.parentIds.length > 0,
    }
    this.#commits.set(id, found)
    return found
  }

  /** Commits with their ancestors. It does not go beyond the commits in `ends`. */
  async closure(starts: Iterable<string>, ends: ReadonlySet<string> = new Set()): Promise<Set<string>> {
    const found = new Set(starts)
    for (const id of found)
      if (!ends.has(id)) for (const parent of (await this.get(id)).parents) found.add(parent)
    return found
  }

  /** The distance of commits from the nearest of `starts`, which have 1, up to `depth`. */
  async levels(starts: Iterable<string>, depth: number): Promise<Map<string, number>> {
    const levels = new Map<string, number>()
    for (const id of starts) levels.set(id, 1)
    for (const [id, level] of levels) {
      if (level >= depth) continue
      for (const parent of (await this.get(id)).parents)
        if (!levels.has(parent)) levels.set(parent, level + 1)
    }
    return levels
  }
}

/** The ids of commits, each after its parents. */
export async function parentsFirst(
  commits: ReadonlyMap<string, { readonly parents: readonly string[] }>,
  slice: TimeSlice,
): Promise<ReadonlySet<string>> {
  const sorted = new Set<string>()
  const open = [...commits.keys()]
  for (let id = open.at(-1); id !== undefined; id = open.at(-1)) {
    const { length } = open
    for (const parent of commits.get(id)?.parents ?? [])
      if (commits.has(parent) && !sorted.has(parent)) open.push(parent)
    if (open.length === length) {
      sorted.add(id)
      open.pop()
    }
    if (slice.over) await slice.next()
  }
  return sorted
}

/** What a client gets for its request. */
export interface FetchPlan {
  /** Commits that the client has, of those that it named. */
  readonly common: readonly string[]
  /** All commits that the client has. */
  readonly known: ReadonlySet<string>
  readonly send: readonly string[]
  /** Commits that the client gets without their parents, and those whose parents it gets now. */
  readonly shallow: readonly string[]
  readonly unshallow: readonly string[]
}

/** Decides which commits a client gets. All of `wants` are in the graph. */
export async function planFetch(graph: CommitGraph, request: FetchRequest): Promise<FetchPlan> {
  const { wants, depth, isRelative } = request
  const all = await graph.closure(wants)
  const common = [...request.haves].filter((id) => all.has(id))
  const has = new Set([...request.shallow].filter((id) => all.has(id)))
  const known = await graph.closure([...common, ...has], has)
  if (depth === 0) {
    // As in git, a commit that the client has without its parents does not bring them.
    const send = [...(await graph.closure(wants, has))].filter((id) => !known.has(id))
    const shallow: string[] = []
    for (const id of send) if ((await graph.get(id)).isCut) shallow.push(id)
    return { common, known, send, shallow, unshallow: [] }
  }
  const isFromShallow = isRelative && has.size > 0
  const most = isFromShallow ? depth + 1 : depth
  const levels = await graph.levels(isFromShallow ? has : wants, most)
  const wanted = isFromShallow ? new Set([...(await graph.closure(wants, has)), ...levels.keys()]) : levels
  const shallow: string[] = []
  const unshallow: string[] = []
  for (const [id, level] of levels) {
    const { parents, isCut } = await graph.get(id)
    const isEnd = isCut || (level === most && parents.length > 0)
    if (isEnd && !has.has(id)) shallow.push(id)
    if (!isEnd && has.has(id)) unshallow.push(id)
  }
  return { common, known, send: [...wanted.keys()].filter((id) => !known.has(id)), shallow, unshallow }
}
