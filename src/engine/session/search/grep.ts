import type { Buffer } from 'node:buffer'
import { loaded, type Steps } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import { itemAt, present } from '../../base/present.js'
import { BlobRef } from '../../cas/blob.js'
import { resolveEntry } from '../../tree/links.js'
import { Dir, FileNode, Link, type Entry, type Page } from '../../tree/node.js'
import type { Core } from '../core.js'
import { SearchedFiles } from './file-filter.js'
import type { ContentMatches, FileHit, PartResult, QueryResults } from './grep-cache.js'
import type { GrepFile, GrepLine, GrepResult, LineQuery, ParsedGrep } from './grep-request.js'
import { matcherOf, type LineMatcher } from './line-matcher.js'
import { searchContent } from './search-content.js'

/** Where a search starts: a directory or file of a frozen tree. */
export interface SearchStart {
  readonly root: Dir
  readonly node: Dir | FileNode
  /** The path of the node without symlinks. */
  readonly path: string
}

/** Searches the files of a frozen tree. The engine of regular expressions must be loaded. */
export function* grep(core: Core, start: SearchStart, request: ParsedGrep): Steps<GrepResult> {
  const { query, filter } = request
  const collector = new Collector(request)
  // The key identifies the result of a directory, except for its path.
  const key = JSON.stringify([query, filter, start.node instanceof Dir ? start.path : ''])
  const search = new TreeSearch(core, start, request, { results: core.searches.of(key), collector })
  yield* search.run()
  return collector.result()
}

class TreeSearch {
  readonly #core: Core
  readonly #start: SearchStart
  readonly #query: LineQuery
  readonly #files: SearchedFiles
  readonly #matcher: LineMatcher
  readonly #results: QueryResults
  readonly #collector: Collector

  constructor(
    core: Core,
    start: SearchStart,
    { query, filter }: ParsedGrep,
    { results, collector }: { readonly results: QueryResults; readonly collector: Collector },
  ) {
    this.#core = core
    this.#start = start
    this.#query = query
    this.#files = new SearchedFiles(filter, start.node instanceof Dir ? start.path : '/')
    this.#matcher = matcherOf(query)
    this.#results = results
    this.#collector = collector
  }

  *run(): Steps<void> {
    const { node, path } = this.#start
    if (node instanceof Dir) {
      yield* this.#directory(node, path === '/' ? '' : path)
      return
    }
    // A file that the caller names is searched whatever its name is.
    const matches = yield* this.#file(node)
    if (matches === 'too large') this.#collector.skip(1)
    else if (matches !== 'none') this.#collector.take({ path, matches })
  }

  /** The complete results of a directory; undefined if the search ended before. */
  *#directory(dir: Dir, path: string): Steps<PartResult | undefined> {
    const known = this.#results.part(dir, path)
    if (known !== undefined) return this.#collector.takeAll(known) ? known : undefined
    const hits: PartResult[] = []
    let skippedCount = 0
    const pages = yield* loaded(() => dir.pages ?? this.#core.loader.loadDir(dir))
    for (const page of pages) {
      const part = yield* this.#page(page, path, pages.length > 1)
      if (part === undefined) return undefined
      skippedCount += part.skippedCount
      if (part.hits.length > 0) hits.push(part)
    }
    const result = { path, hits, skippedCount }
    // The contents of hard links are not below the directory.
    if (!dir.linked) this.#results.keepPart(dir, result)
    return result
  }

  /** `isPart`: the directory has other pages. Otherwise its result is that of the page. */
  *#page(page: Page, path: string, isPart: boolean): Steps<PartResult | undefined> {
    const known = this.#results.part(page, path)
    if (known !== undefined) return this.#collector.takeAll(known) ? known : undefined
    const names = yield* loaded(() => page.names ?? this.#core.loader.loadPage(page))
    const { nodes } = page
    const hits: (FileHit | PartResult)[] = []
    let skippedCount = 0
    let hasLinks = false
    for (const [index, name] of names.entries()) {
      yield
      const entry = itemAt(nodes, index)
      if (entry instanceof Dir) {
        const below = `${path}/${name}`
        hasLinks ||= entry.linked
        if (!(yield* this.#files.mayContain(below.slice(1), name))) continue
        const part = yield* this.#directory(entry, below)
        if (part === undefined) return undefined
        skippedCount += part.skippedCount
        if (part.hits.length > 0) hits.push(part)
        continue
      }
      hasLinks ||= entry instanceof Link
      const matches = yield* this.#entry(entry, path, name)
      if (matches === 'too large') {
        skippedCount++
        this.#collector.skip(1)
      } else if (matches !== 'none') {
        const hit = { path: `${path}/${name}`, matches }
        if (!this.#collector.take(hit)) return undefined
        hits.push(hit)
      }
    }
    const result = { path, hits, skippedCount }
    if (isPart && !hasLinks) this.#results.keepPart(page, result)
    return result
  }

  *#entry(entry: Exclude<Entry, Dir>, path: string, name: string): Steps<Searched> {
    if (!(entry instanceof FileNode || entry instanceof Link)) return 'none'
    if (!(yield* this.#files.hasFile(`${path}/${name}`.slice(1), name))) return 'none'
    const file = yield* loaded(() => resolveEntry(entry, this.#start.root, this.#core.loader))
    return file instanceof FileNode ? yield* this.#file(file) : 'none'
  }

  *#file(file: FileNode): Steps<Searched> {
    if (file.size === 0) return 'none'
    if (file.size > this.#matcher.mostBytes) return 'too large'
    const { body } = file
    const key = body ?? file
    const hash = body instanceof BlobRef ? body.knownHash : file.hash
    const known = this.#results.content(key, hash)
    if (known !== undefined) return known
    const bytes = yield* this.#read(file)
    const matches = yield* searchContent(bytes, this.#matcher, this.#query)
    this.#results.keepContent(key, hash, matches)
    yield
    return matches
  }

  *#read(file: FileNode): Steps<Buffer> {
    const { content, contentIds } = this.#core
    const body = yield* loaded(() => contentIds.body(file))
    const ready = content.readSync(body, 0, file.size)
    if (ready !== undefined) return ready
    let bytes: Buffer | undefined
    yield content.read(body, 0, file.size).then((read) => {
      bytes = read
    })
    return present(bytes, 'the content of a file')
  }
}

type Searched = ContentMatches | 'none' | 'too large'

/** The results of one call, in order and bounded. */
class Collector {
  readonly #query: LineQuery
  readonly #isLines: boolean
  readonly #offset: number
  readonly #limit: number
  readonly #lines: GrepLine[] = []
  readonly #files: GrepFile[] = []
  #seen = 0
  #taken = 0
  #bytes = 0
  #skipped = 0
  #isTruncated = false

  constructor({ query, offset, limit }: ParsedGrep) {
    this.#query = query
    this.#isLines = query.mode === 'lines'
    this.#offset = offset
    this.#limit = limit
  }

  skip(count: number): void {
    this.#skipped += count
  }

  /** False when no further result is needed. */
  take({ path, matches }: FileHit): boolean {
    if (this.#isLines) return this.#takeLines(path, matches)
    if (this.#seen++ < this.#offset) return true
    if (this.#taken === this.#limit) return this.#end()
    this.#taken++
    this.#files.push({ path, matchCount: matches.matchCount })
    return true
  }

  takeAll(part: PartResult): boolean {
    const hasAll = this.#takeHits(part)
    if (hasAll) this.#skipped += part.skippedCount
    return hasAll
  }

  result(): GrepResult {
    return {
      lines: this.#lines,
      files: this.#files,
      isTruncated: this.#isTruncated,
      nextOffset: this.#offset + this.#taken,
      skippedFileCount: this.#skipped,
    }
  }

  #takeHits(part: PartResult): boolean {
    return part.hits.every((hit) => ('hits' in hit ? this.#takeHits(hit) : this.take(hit)))
  }

  #takeLines(path: string, { lines }: ContentMatches): boolean {
    const { before, after } = this.#query
    let context: GrepLine[] = []
    /** The line up to which context belongs to a match that was taken. */
    let afterEnd = 0
    const flush = (beforeStart: number): void => {
      for (const line of context)
        if (line.lineNumber <= afterEnd || line.lineNumber >= beforeStart) this.#push(line)
      context = []
    }
    for (const line of lines) {
      const found = { path, ...line }
      if (!line.isMatch) {
        context.push(found)
        continue
      }
      if (this.#seen++ < this.#offset) {
        context = []
        continue
      }
      if (this.#taken === this.#limit || this.#bytes > limits.readLinesBytes) {
        flush(Number.POSITIVE_INFINITY)
        return this.#end()
      }
      flush(line.lineNumber - before)
      this.#taken++
      this.#push(found)
      afterEnd = line.lineNumber + after
    }
    flush(Number.POSITIVE_INFINITY)
    return true
  }

  #push(line: GrepLine): void {
    this.#bytes += line.text.length
    this.#lines.push(line)
  }

  #end(): false {
    this.#isTruncated = true
    return false
  }
}
