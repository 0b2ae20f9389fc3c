import type { Buffer } from 'node:buffer'
import { randomInt } from 'node:crypto'
import { HttpError, invalidField } from '../http-error.js'
import { jsonLimits } from '../limits.js'

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const backslash = 0x5c

/** The seed differs between processes, so that a client cannot choose names with equal hashes. */
const hashSeed = randomInt(2 ** 31)

/**
 * Refuses JSON that would block the event loop for long, before `JSON.parse` is called. It counts objects,
 * arrays and commas. It also counts different pairs of adjacent names: the parser creates a hidden class for
 * each new sequence of names, which takes longer than the rest of parsing. It does not check the syntax.
 *
 * @throws HttpError `INVALID_ARGUMENT` for JSON that is nested too deep, `TOO_LARGE` for too many parts.
 */
export function checkBounds(json: Buffer): void {
  /** The hash of the newest name at each depth; 0 before the first one. */
  const names = [0]
  const sequences = new Set<number>()
  let depth = 0
  let containers = 0
  let commas = 0
  let hash = 0
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === quote) {
      const start = at + 1
      const hashedEnd = Math.min(start + jsonLimits.hashedNameBytes, json.length)
      hash = hashSeed
      for (at = start; at < hashedEnd && json[at] !== quote; at++) {
        if (json[at] === backslash) at++
        // A backslash can be the last byte; what follows it changes nothing.
        hash = Math.imul(hash ^ (json[at] ?? 0), 0x01000193)
      }
      if (at >= hashedEnd) at = endOfString(json, at)
      hash ^= at - start
    } else if (byte === comma) {
      if (++commas > jsonLimits.commas) throw tooMany('commas', jsonLimits.commas)
    } else if (byte === colon) {
      sequences.add(Math.imul(names[depth] ?? 0, 31) ^ hash)
      if (sequences.size > jsonLimits.nameSequences)
        throw tooMany('different sequences of field names', jsonLimits.nameSequences)
      names[depth] = hash
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++containers > jsonLimits.containers) throw tooMany('objects and lists', jsonLimits.containers)
      if (++depth > jsonLimits.depth)
        throw invalidField('body', `is nested over ${jsonLimits.depth} levels deep`)
      names[depth] = 0
    } else if ((byte === 0x7d || byte === 0x5d) && depth > 0) depth--
  }
}

/**
 * Returns the index of the quote that ends a string, or the end of the text. `from` must not be within an
 * escape.
 */
function endOfString(json: Buffer, from: number): number {
  for (let at = from; ; at++) {
    at = json.indexOf(quote, at)
    if (at < 0) return json.length
    let escapes = 0
    while (at - escapes > from && json[at - escapes - 1] === backslash) escapes++
    if (escapes % 2 === 0) return at
  }
}

function tooMany(what: string, limit: number): HttpError {
  return new HttpError('TOO_LARGE', `body: over ${limit} ${what}`, { field: 'body', limit: String(limit) })
}
