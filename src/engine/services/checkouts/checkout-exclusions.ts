import { Buffer } from 'node:buffer'
import type { TimeSlice } from '../../base/cooperative.js'
import { EngineError, invalid } from '../../base/errors.js'
import {
  bytesOf,
  parseIgnoreFile,
  parseIgnorePattern,
  type IgnorePattern,
} from '../../base/ignore-pattern.js'
import { given, parseText, readList } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { itemAt } from '../../base/present.js'
import type { HostTree } from '../sources/host-ports.js'
import { splitParent } from './checkout-index.js'

/** The names in a checked-out directory that are no part of the session. */
export interface ExclusionOptions {
  /** The caller's patterns. They take precedence over the files `.gitignore`. */
  readonly ignore: readonly IgnorePattern[]
  /** Whether the files `.gitignore` of the directory apply. */
  readonly gitignore: boolean
  /** Paths that are never part of the session, with everything below them. */
  readonly apart: readonly string[]
}

/** The patterns of one directory, and those of the directories above it. */
interface Level {
  readonly above: Level | undefined
  /** The length of the directory's path, with the slash after it. */
  readonly start: number
  readonly patterns: readonly IgnorePattern[]
  /** The bytes of all patterns up to this one. */
  readonly bytes: number
}

type Rules = Level | 'everything' | undefined

/**
 * Decides which entries of a directory of the host are left out, by the rules of git. It reads the files `.gitignore`
 * of the host once, as they are at the first question. An entry of the session is never left out: callers ask only
 * about others.
 */
export class Exclusions {
  /** Whether anything can be left out. */
  readonly any: boolean
  readonly #tree: HostTree
  readonly #options: ExclusionOptions
  readonly #apart: ReadonlySet<string>
  readonly #rules = new Map<string, Promise<Rules>>()
  /** The bytes of the files that were read for these rules. */
  #bytesRead = 0
  readonly #slice: TimeSlice
  #compared = 0

  constructor(tree: HostTree, options: ExclusionOptions, slice: TimeSlice) {
    this.#tree = tree
    this.#options = options
    this.#slice = slice
    this.#apart = new Set(options.apart)
    this.any = options.gitignore || options.ignore.length > 0 || options.apart.length > 0
  }

  /** Whether an entry at a path is left out, unless it is part of the session. */
  async leavesOut(path: string, isDirectory: boolean): Promise<boolean> {
    if (!this.any) return false
    if (this.#apart.has(path)) return true
    const { parent, name } = splitParent(path)
    const rules = await this.#rulesIn(parent)
    if (rules === 'everything') return true
    const { ignore } = this.#options
    if (rules === undefined && ignore.length === 0) return false
    const bytes = bytesOf(path)
    const last = bytesOf(name)
    let isIgnored = await this.#decide(ignore, bytes.slice(1), last, isDirectory)
    for (let level = rules; level !== undefined && isIgnored === undefined; level = level.above)
      isIgnored = await this.#decide(level.patterns, bytes.slice(level.start), last, isDirectory)
    return isIgnored ?? false
  }

  /** The decision of the last pattern that matches. */
  async #decide(
    patterns: readonly IgnorePattern[],
    path: string,
    name: string,
    isDirectory: boolean,
  ): Promise<boolean | undefined> {
    for (let index = patterns.length - 1; index >= 0; index--) {
      const { directoryOnly, matches, negated } = itemAt(patterns, index)
      if (++this.#compared % limits.ignoreComparisons === 0 && this.#slice.over) await this.#slice.next()
      if ((isDirectory || !directoryOnly) && matches(path, name)) return !negated
    }
    return undefined
  }

  #rulesIn(directory: string): Promise<Rules> {
    let rules = this.#rules.get(directory)
    if (rules !== undefined) return rules
    if (this.#rules.size >= limits.ignoreDirectories || this.#bytesRead >= limits.ignoreHeldBytes) {
      this.#rules.clear()
      this.#bytesRead = 0
    }
    rules = this.#readRules(directory)
    this.#rules.set(directory, rules)
    return rules
  }

  async #readRules(directory: string): Promise<Rules> {
    const isRoot = directory === '/'
    const above = isRoot ? undefined : await this.#rulesIn(splitParent(directory).parent)
    if (above === 'everything' || (!isRoot && (await this.leavesOut(directory, true)))) return 'everything'
    if (!this.#options.gitignore) return above
    const patterns = await this.#readFile(directory, above?.bytes ?? 0)
    if (patterns === undefined) return above
    const start = bytesOf(isRoot ? '/' : `${directory}/`).length
    return { above, start, ...patterns }
  }

  async #readFile(
    directory: string,
    above: number,
  ): Promise<{ readonly patterns: readonly IgnorePattern[]; readonly bytes: number } | undefined> {
    const path = `${directory === '/' ? '' : directory}/.gitignore`
    const read = await this.#tree.read(path, async (content) => {
      const pieces: Uint8Array[] = []
      let bytes = above
      for await (const piece of content) {
        bytes += piece.length
        if (bytes > limits.ignoreBytes)
          throw new EngineError(
            'LIMIT_EXCEEDED',
            `${path}: the ignore rules for one path have over ${limits.ignoreBytes} bytes`,
            { path, limit: String(limits.ignoreBytes) },
          )
        pieces.push(piece)
      }
      this.#bytesRead += bytes - above
      return { patterns: parseIgnoreFile(Buffer.concat(pieces)), bytes }
    })
    return read?.value
  }
}

/**
 * The caller's list of patterns.
 *
 * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when it is invalid
 */
export function parseIgnore(
  field: string,
  list: unknown,
): { readonly patterns: readonly IgnorePattern[]; readonly lines: readonly string[] } {
  let bytes = 0
  const elements = list === undefined ? [] : readList(field, list, limits.ignorePatterns, 'patterns')
  const lines = elements.map((pattern, index) => {
    const text = parseText(`${field}[${index}]`, pattern, limits.globBytes)
    if (text.includes('\n')) throw invalid(`${field}[${index}]`, `must be one pattern; it is ${given(text)}`)
    bytes += text.length
    if (bytes > limits.ignoreBytes)
      throw new EngineError('TOO_LARGE', `${field} has over ${limits.ignoreBytes} bytes`, {
        field,
        limit: String(limits.ignoreBytes),
      })
    return text
  })
  return { patterns: lines.flatMap((line) => parseIgnorePattern(line) ?? []), lines }
}
