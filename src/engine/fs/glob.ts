import { whenPresent, type LoadingSteps } from '../base/cooperative.js'
import { itemAt } from '../base/present.js'
import { parseGlob, type Glob } from '../base/glob.js'
import type { LiveSession } from '../session/table/live.js'
import { resolve } from '../session/reads/resolve.js'
import { Dir, Symlink, type Entry } from '../tree/node.js'
import { typeError } from './argument-errors.js'
import { givenPath, resolvePath } from './resolve-path.js'
import { toObject } from './values.js'
import { readInSteps, type Define } from './calls.js'
import { toSystemError } from './errors.js'
import { Dirent } from './stats.js'

/** Options of `glob` in `session.fs`. */
export interface GlobOptions {
  /** The absolute path of the directory in which relative patterns start; `/` by default. */
  readonly cwd?: string | URL
  /**
   * Excludes paths and everything below them. Either a function of the path or entry, or a list of patterns.
   */
  readonly exclude?: ((entry: string | Dirent) => boolean) | readonly string[]
  /** If true, the results are `Dirent` objects. By default they are paths. */
  readonly withFileTypes?: boolean
}

/**
 * Finds files, directories and symlinks that match. Each appears once. Symlinks are not followed. A relative
 * pattern returns paths relative to `cwd`.
 */
export const glob: Define<(string | Dirent)[]> = (_context, pattern, options) => {
  const { cwd = '/', exclude, withFileTypes = false }: GlobOptions = toObject(options)
  const start = resolvePath('/', givenPath(cwd, 'options.cwd'))
  const searches = Array.isArray(pattern) ? parseAll(pattern, start) : [parse(pattern, start)]
  const excluded = toExclude(exclude)
  return readInSteps({ syscall: 'glob', path: start }, (live) => {
    const found = new Map<string, string | Dirent>()
    const visits = searches.map((search) => {
      const { node } = resolve(live.tree, search.start, true)
      return node instanceof Dir
        ? [new Search(live, search, { withFileTypes, excluded, found }).visit(node, '')]
        : []
    })
    return visitAll(visits.flat(), found)
  })
}

interface Parsed {
  readonly glob: Glob
  /** The directory where the walk starts. `prefix` is the prefix of the resulting paths. */
  readonly start: string
  readonly prefix: string
}

/** Reads by index, so that a hole in the list is an invalid pattern. */
function parseAll(patterns: readonly unknown[], cwd: string): Parsed[] {
  const parsed: Parsed[] = []
  for (let index = 0; index < patterns.length; index++) parsed.push(parse(patterns[index], cwd))
  return parsed
}

function parse(pattern: unknown, cwd: string): Parsed {
  if (typeof pattern !== 'string') throw typeError('pattern', 'of type string', pattern)
  let rest = pattern
  let start = cwd
  let prefix = ''
  if (pattern.startsWith('/')) {
    start = '/'
    prefix = '/'
    rest = pattern.replace(/^\/+/, '')
  }
  for (let lead = /^(\.\.?)\/+/.exec(rest); lead !== null; lead = /^(\.\.?)\/+/.exec(rest)) {
    rest = rest.slice(lead[0].length)
    if (lead[1] === '.') continue
    start = resolvePath(start, '..')
    if (prefix !== '/') prefix += '../'
  }
  try {
    return { glob: parseGlob(rest), start, prefix }
  } catch (thrown) {
    throw toSystemError(thrown, { syscall: 'glob', path: pattern })
  }
}

type Excluded = (path: string, entry: () => Dirent) => boolean

function toExclude(exclude: GlobOptions['exclude']): (withFileTypes: boolean) => Excluded {
  if (exclude === undefined || exclude === null) return () => () => false
  if (typeof exclude === 'function')
    return (withFileTypes) => (path, entry) => exclude(withFileTypes ? entry() : path)
  if (!Array.isArray(exclude))
    throw typeError('options.exclude', 'of type function or an instance of Array', exclude)
  const globs = parseAll(exclude, '/').map(({ glob }) => glob)
  return () => (path) => globs.some((one) => one.matches(path, true))
}

function* visitAll<T>(
  visits: readonly LoadingSteps<void>[],
  found: ReadonlyMap<string, T>,
): LoadingSteps<T[]> {
  for (const visit of visits) yield* visit
  return [...found.values()]
}

class Search {
  readonly #live: LiveSession
  readonly #parsed: Parsed
  readonly #withFileTypes: boolean
  readonly #excluded: Excluded
  readonly #found: Map<string, string | Dirent>

  constructor(
    live: LiveSession,
    parsed: Parsed,
    options: {
      withFileTypes: boolean
      excluded: (withFileTypes: boolean) => Excluded
      found: Map<string, string | Dirent>
    },
  ) {
    this.#live = live
    this.#parsed = parsed
    this.#withFileTypes = options.withFileTypes
    this.#excluded = options.excluded(options.withFileTypes)
    this.#found = options.found
  }

  *visit(dir: Dir, at: string): LoadingSteps<void> {
    const { glob, prefix } = this.#parsed
    const { loader } = this.#live.tree
    for (const page of yield* whenPresent(() => dir.pages ?? loader.loadDir(dir))) {
      const names = yield* whenPresent(() => page.names ?? loader.loadPage(page))
      // During a pause, the page may be unloaded.
      const { nodes } = page
      for (const [index, name] of names.entries()) {
        const node = itemAt(nodes, index)
        const path = at === '' ? name : `${at}/${name}`
        const entry = (): Dirent => this.#entry(at, name, node)
        const inside = node instanceof Dir && glob.mayContain(path)
        const matches = glob.matches(path, node instanceof Dir)
        if ((!inside && !matches) || this.#excluded(prefix + path, entry)) continue
        if (matches) this.#found.set(prefix + path, this.#withFileTypes ? entry() : prefix + path)
        if (inside) yield* this.visit(node, path)
      }
      yield
    }
  }

  #entry(at: string, name: string, node: Entry): Dirent {
    const kind = node instanceof Dir ? 'directory' : node instanceof Symlink ? 'symlink' : 'file'
    return new Dirent(name, resolvePath(this.#parsed.start, at), kind)
  }
}
