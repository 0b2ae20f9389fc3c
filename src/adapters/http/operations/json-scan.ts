import type { Buffer } from 'node:buffer'
import { HttpError, invalidField } from '../http-error.js'
import { jsonLimits } from '../limits.js'
import type { Steps } from './steps.js'

/** What is known of the JSON of an object before it is parsed. Places are those of bytes. */
export interface JsonOutline {
  readonly root: Container
  readonly longStrings: readonly LongString[]
}

/** An object or a list that is too large to be parsed at once, or the root. */
export interface Container {
  readonly isList: boolean
  /** Of its brackets. */
  readonly start: number
  readonly end: number
  /** Commas between its elements, not too far from each other. Each of `large` stands alone between two. */
  readonly cuts: readonly number[]
  readonly large: readonly Container[]
}

/** A string that is not parsed with what is around it: the bytes between its quotes. */
export interface LongString {
  readonly start: number
  readonly end: number
  readonly escaped: boolean
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c

/** A container whose end is not reached; there is one for each depth, used again and again. */
class Open {
  isList = false
  #start = 0
  #comma = 0
  #cut = 0
  #names = 0
  #cuts: number[] = []
  #large: Container[] = []

  begin(isList: boolean, start: number): void {
    this.isList = isList
    this.#start = start
    this.#comma = start
    this.#cut = start
    this.#names = 1
  }

  comma(at: number): void {
    this.#comma = at
    if (at - this.#cut > jsonLimits.groupBytes) this.#cutAt(at)
    if (!this.isList && ++this.#names > jsonLimits.names)
      throw tooLarge('names in an object', jsonLimits.names)
  }

  /** Something large ends in it. */
  add(container: Container): void {
    if (this.#comma > this.#cut) this.#cutAt(this.#comma)
    this.#large.push(container)
  }

  isLarge(end: number): boolean {
    return end - this.#start > jsonLimits.groupBytes
  }

  end(end: number): Container {
    const container = { isList: this.isList, start: this.#start, end, cuts: this.#cuts, large: this.#large }
    this.#cuts = []
    this.#large = []
    return container
  }

  #cutAt(at: number): void {
    this.#cuts.push(at)
    this.#cut = at
  }
}

/**
 * Looks through the JSON of an object before it is parsed, so that this can be done in parts. INVALID_ARGUMENT for
 * what is no object or nested too deep, TOO_LARGE for what would take too long. What is in the parts, the parser
 * looks at.
 */
export function* scanJson(json: Buffer): Steps<JsonOutline> {
  const longStrings: LongString[] = []
  const opened: Open[] = []
  let root: Container | undefined
  let inner: Open | undefined
  let depth = 0
  let parts = 0
  // Behind the last byte that says something of the structure.
  let known = 0
  for (let at = 0, looked = 1; at < json.length; at++, looked++) {
    if (looked % 65_536 === 0) yield
    const byte = json[at]!
    const isStructure =
      byte === quote || byte === comma || byte === 0x7b || byte === 0x5b || byte === 0x7d || byte === 0x5d
    if (!isStructure) {
      if (inner === undefined && !isSpace(byte)) throw invalidField('body', 'must be an object')
      continue
    }
    if (at - known > jsonLimits.groupBytes)
      throw tooLarge('bytes of a number or of space', jsonLimits.groupBytes)
    known = at + 1
    if (inner === undefined && (byte !== 0x7b || root !== undefined))
      throw invalidField('body', 'must be an object')
    if (byte === quote) {
      at = yield* endOfString(json, known)
      const start = known
      known = at + 1
      if (at - start < jsonLimits.longStringBytes) continue
      if (isName(json, known)) throw tooLarge('bytes in a name', jsonLimits.longStringBytes)
      longStrings.push({ start, end: at, escaped: json.subarray(start, at).includes(backslash) })
    } else if (byte === comma) {
      inner!.comma(at)
      parts++
    } else if (byte === 0x7b || byte === 0x5b) {
      if (depth >= jsonLimits.depth) throw tooDeep()
      inner = opened[depth++] ??= new Open()
      inner.begin(byte === 0x5b, at)
      parts++
    } else {
      if (inner!.isList !== (byte === 0x5d)) throw invalidField('body', 'must be JSON')
      depth--
      const outer: Open | undefined = depth > 0 ? opened[depth - 1] : undefined
      if (outer === undefined) root = inner!.end(at)
      else if (inner!.isLarge(at)) outer.add(inner!.end(at))
      inner = outer
    }
    if (parts > jsonLimits.parts) throw tooLarge('parts', jsonLimits.parts)
  }
  if (root === undefined || inner !== undefined) throw invalidField('body', 'must be JSON')
  return { root, longStrings }
}

/** Looks through JSON of few bytes: INVALID_ARGUMENT for what is nested too deep. */
export function checkDepth(json: Uint8Array): void {
  let depth = 0
  let inString = false
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (inString) {
      if (byte === quote) inString = false
      else if (byte === backslash) at++
    } else if (byte === quote) inString = true
    else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > jsonLimits.depth) throw tooDeep()
    } else if (byte === 0x7d || byte === 0x5d) depth--
  }
}

/** Where its closing quote is, or where the text ends without one. */
function* endOfString(json: Buffer, start: number): Steps<number> {
  for (let at = start, looked = 1; ; at++, looked++) {
    // Most strings are short: a call for each would take longer than to look.
    for (const near = Math.min(at + 32, json.length); at < near && json[at] !== quote; at++);
    if (json[at] !== quote) at = json.indexOf(quote, at)
    if (at < 0) return json.length
    let escapes = 0
    while (at - escapes > start && json[at - escapes - 1] === backslash) {
      if (++escapes % 1_000_000 === 0) yield
    }
    if (escapes % 2 === 0) return at
    if (looked % 16_384 === 0) yield
  }
}

/** Whether a colon comes next. */
function isName(json: Buffer, behind: number): boolean {
  let at = behind
  while (isSpace(json[at])) at++
  return json[at] === 0x3a
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function tooDeep(): HttpError {
  return invalidField('body', `is nested over ${jsonLimits.depth} levels deep`)
}

function tooLarge(what: string, limit: number): HttpError {
  return new HttpError('TOO_LARGE', `body: over ${limit} ${what}`, { field: 'body', limit: String(limit) })
}

/** Parses a part of a body. INVALID_ARGUMENT. */
export function parseText(json: string): object {
  try {
    return JSON.parse(json) as object
  } catch {
    throw malformed()
  }
}

export function malformed(): HttpError {
  return invalidField('body', 'must be JSON')
}
