import { loaded, some, type Steps } from '../../base/cooperative.js'
import { invalid } from '../../base/errors.js'
import type { Glob } from '../../base/glob.js'
import { parseFlag } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { itemAt } from '../../base/present.js'
import { Shape } from '../../base/shape.js'
import { resolveEntry } from '../../tree/links.js'
import { Dir, FileNode, kindOf, type Node, type NodeKind } from '../../tree/node.js'
import type { NodeLoader } from '../../tree/node-loader.js'
import { globFrom, parseChoice, parseCount, readGlobs } from './search-input.js'

/** The request of `session.text.glob`. */
export interface GlobRequest {
  /**
   * Globs, such as `src/*.ts`, 1 to 100. A relative pattern begins at `path`, and one with a leading slash at the root.
   * A wildcard does not match a leading dot of a name.
   */
  readonly patterns: readonly string[]
  /** Absolute path of the directory where relative patterns begin; `/` by default. Symlinks are followed. */
  readonly path?: string
  /** Globs for paths that are left out, with everything below them. */
  readonly exclude?: readonly string[]
  /** The most entries that are returned, up to 10,000; 1,000 by default. */
  readonly limit?: number
  /** true: directories are returned too; false by default. */
  readonly includeDirectories?: boolean
  /** `'path'`, the default: in the order of a listing. `'modified'`: the newest change first. */
  readonly order?: 'path' | 'modified'
}

/** A path that matches a glob. */
export interface GlobEntry {
  /** Absolute path in the session. */
  readonly path: string
  /** `'file'`, `'directory'` or `'symlink'`. */
  readonly kind: NodeKind
  /** The size of a file, in bytes; 0 for others. */
  readonly sizeBytes: number
  /** The time of the last change, in milliseconds since 1970. */
  readonly mtimeMs: number
}

/** The result of `session.text.glob`. */
export interface GlobResult {
  /** The entries in the requested order. */
  readonly entries: GlobEntry[]
  /** Whether more paths match. */
  readonly isTruncated: boolean
}

const shape = new Shape<GlobRequest>({
  patterns: true,
  path: true,
  exclude: true,
  limit: true,
  includeDirectories: true,
  order: true,
})

export interface ParsedGlobRequest {
  readonly patterns: readonly string[]
  readonly path: string
  readonly exclude: readonly string[]
  readonly limit: number
  readonly includeDirectories: boolean
  readonly order: 'path' | 'modified'
}

/** Returns a checked copy of the request. */
export function parseGlobRequest(request: GlobRequest): ParsedGlobRequest {
  const { patterns, path = '/', exclude, limit, includeDirectories, order } = shape.read(request)
  const parsed = readGlobs('patterns', patterns)
  if (parsed.length === 0) throw invalid('patterns', 'must have at least one glob, such as "**/*.ts"')
  const copy = {
    patterns: parsed,
    path,
    exclude: readGlobs('exclude', exclude),
    limit: parseCount('limit', limit, {
      least: 1,
      most: limits.searchResults,
      fallback: limits.searchResultsDefault,
    }),
    includeDirectories: parseFlag('includeDirectories', includeDirectories, false),
    order: parseChoice('order', order, ['path', 'modified']),
  }
  // Malformed globs fail at the call.
  globsOf(copy, '/')
  return copy
}

function globsOf(
  { patterns, exclude }: ParsedGlobRequest,
  directory: string,
): { readonly wanted: readonly Glob[]; readonly excluded: readonly Glob[] } {
  return {
    wanted: patterns.map((pattern, index) => globFrom(directory, pattern, `patterns[${index}]`)),
    excluded: exclude.map((pattern, index) => globFrom(directory, pattern, `exclude[${index}]`)),
  }
}

/** Finds the paths of a frozen tree that match. `directory` is the resolved `path` of the request. */
export function* findPaths(
  {
    root,
    loader,
    directory,
  }: { readonly root: Dir; readonly loader: NodeLoader; readonly directory: string },
  request: ParsedGlobRequest,
): Steps<GlobResult> {
  const { wanted, excluded } = globsOf(request, directory)
  const found = new Found(request)
  const visit = function* (dir: Dir, at: string): Steps<boolean> {
    const pages = yield* loaded(() => dir.pages ?? loader.loadDir(dir))
    for (const page of pages) {
      const names = yield* loaded(() => page.names ?? loader.loadPage(page))
      const { nodes } = page
      for (const [index, name] of names.entries()) {
        yield
        const entry = itemAt(nodes, index)
        const path = at === '' ? name : `${at}/${name}`
        const isDirectory = entry instanceof Dir
        // Long globs take time for each path.
        const isMatch = (glob: Glob): boolean => glob.matches(path, isDirectory)
        const isInside = isDirectory && (yield* some(wanted, (glob) => glob.mayContain(path)))
        const matches = (!isDirectory || request.includeDirectories) && (yield* some(wanted, isMatch))
        if ((!isInside && !matches) || (yield* some(excluded, isMatch))) continue
        if (matches) {
          const node = yield* loaded(() => resolveEntry(entry, root, loader))
          if (!found.add(`/${path}`, node)) return false
        }
        if (isInside && !(yield* visit(entry, path))) return false
      }
    }
    return true
  }
  yield* visit(root, '')
  return found.result()
}

/** The entries found so far, bounded. */
class Found {
  readonly #limit: number
  readonly #byTime: boolean
  #entries: GlobEntry[] = []
  #isTruncated = false

  constructor({ limit, order }: ParsedGlobRequest) {
    this.#limit = limit
    this.#byTime = order === 'modified'
  }

  /** False when no further entry is needed. */
  add(path: string, node: Node): boolean {
    if (!this.#byTime && this.#entries.length === this.#limit) {
      this.#isTruncated = true
      return false
    }
    const sizeBytes = node instanceof FileNode ? node.size : 0
    this.#entries.push({ path, kind: kindOf(node), sizeBytes, mtimeMs: node.mtime })
    if (this.#byTime && this.#entries.length > 2 * this.#limit) this.#sort()
    return true
  }

  result(): GlobResult {
    if (this.#byTime) this.#sort()
    return { entries: this.#entries, isTruncated: this.#isTruncated }
  }

  #sort(): void {
    // The sort is stable, so entries of one time stay in the order of their paths.
    this.#entries.sort((a, b) => b.mtimeMs - a.mtimeMs)
    if (this.#entries.length <= this.#limit) return
    this.#entries = this.#entries.slice(0, this.#limit)
    this.#isTruncated = true
  }
}
