import { limits } from '../../base/limits.js'
import { itemAt } from '../../base/present.js'
import type { Dir, Page } from '../../tree/node.js'
import type { GrepLine } from './grep-request.js'

/** A line of a content without the path of a file. */
export type ContentLine = Omit<GrepLine, 'path'>

/** The matches of one content. */
export interface ContentMatches {
  readonly matchCount: number
  readonly lines: readonly ContentLine[]
}

/** A file with matches. */
export interface FileHit {
  readonly path: string
  readonly matches: ContentMatches
}

/** The complete results of a directory or a page of one. */
export interface PartResult {
  readonly path: string
  readonly hits: readonly (FileHit | PartResult)[]
  /** Files that are too large. */
  readonly skippedCount: number
}

/**
 * Remembered results of one query. Frozen nodes and contents never change, so a result stays right for as long as its
 * key exists. A fork shares the nodes of its parent: a search of it visits only the directories that changed.
 */
export class QueryResults {
  readonly #grown: () => void
  #parts = new WeakMap<Dir | Page, PartResult>()
  #contents = new WeakMap<object, ContentMatches | 'none'>()
  #byHash = new Map<string, ContentMatches | 'none'>()
  #partBytes = 0
  #contentBytes = 0

  constructor(grown: () => void) {
    this.#grown = grown
  }

  part(node: Dir | Page, path: string): PartResult | undefined {
    const known = this.#parts.get(node)
    // A directory that was moved is the same node at another path.
    return known?.path === path ? known : undefined
  }

  keepPart(node: Dir | Page, result: PartResult): void {
    this.#parts.set(node, result)
    this.#partBytes += partBytes + result.hits.length * hitBytes
    this.#grown()
  }

  /** `hash`: the hash of the content if it is known. It identifies a content that was unloaded and read again. */
  content(body: object, hash: string | undefined): ContentMatches | 'none' | undefined {
    return this.#contents.get(body) ?? (hash === undefined ? undefined : this.#byHash.get(hash))
  }

  keepContent(body: object, hash: string | undefined, matches: ContentMatches | 'none'): void {
    this.#contents.set(body, matches)
    if (hash !== undefined) this.#byHash.set(hash, matches)
    let bytes = contentBytes
    if (matches !== 'none') for (const { text } of matches.lines) bytes += lineBytes + 2 * text.length
    this.#contentBytes += bytes
    this.#grown()
  }

  get bytes(): number {
    return this.#partBytes + this.#contentBytes
  }

  clear(): void {
    this.clearContents()
    this.#parts = new WeakMap()
    this.#partBytes = 0
  }

  /** Keeps the results of directories. Returns the freed bytes. */
  clearContents(): number {
    const bytes = this.#contentBytes
    this.#contents = new WeakMap()
    this.#byHash = new Map()
    this.#contentBytes = 0
    return bytes
  }
}

/** The rough memory of entries. */
const partBytes = 150
const hitBytes = 60
const contentBytes = 250
const lineBytes = 120

/** The results of the latest queries of an engine, in bounded memory. */
export class GrepCache {
  /** By key, the least recently used first. */
  readonly #queries = new Map<string, QueryResults>()

  of(key: string): QueryResults {
    const known = this.#queries.get(key)
    const results = known ?? new QueryResults(() => this.#shrink(results))
    this.#queries.delete(key)
    this.#queries.set(key, results)
    if (this.#queries.size > limits.grepQueries) this.#drop()
    return results
  }

  #shrink(current: QueryResults): void {
    let bytes = 0
    for (const results of this.#queries.values()) bytes += results.bytes
    if (bytes <= limits.grepCacheBytes) return
    // Results of contents take most of the memory, and save the reading of a few directories only.
    for (const results of this.#queries.values()) {
      if (bytes <= limits.grepCacheBytes) return
      bytes -= results.clearContents()
    }
    while (bytes > limits.grepCacheBytes && this.#queries.size > 1) bytes -= this.#drop()
    if (bytes > limits.grepCacheBytes) current.clear()
  }

  #drop(): number {
    const [key, results] = itemAt([...this.#queries.entries()], 0)
    this.#queries.delete(key)
    const { bytes } = results
    // A search that still runs must not fill it again.
    results.clear()
    return bytes
  }
}
