import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { invalidField } from '../http-error.js'
import { parseText, type LongString } from './json-scan.js'
import { jsonLimits } from '../limits.js'
import type { Steps } from './steps.js'

const nonceBytes = 18
const markBytes = 24

/**
 * The long strings of a body, which are taken out before it is parsed and decoded: in its place each has a mark
 * that nobody can guess, and that is base64 of as many bytes, so that it passes for a string and for bytes. Parsing
 * and decoding such strings with all the rest would hold the event loop, and takes several times as long.
 */
export class LongStrings {
  readonly #json: Buffer
  readonly #strings: readonly LongString[]
  readonly #nonce = randomBytes(nonceBytes)
  readonly #prefix = this.#nonce.toString('base64')
  readonly #restored = new Set<LongString>()
  /** The first that was not asked for. */
  #next = 0

  constructor(json: Buffer, strings: readonly LongString[]) {
    this.#json = json
    this.#strings = strings
  }

  /** A part of the JSON, with marks. Parts are asked for in their order. */
  text(from: number, to: number): string {
    let text = ''
    let rest = from
    for (let string; (string = this.#strings[this.#next]) !== undefined && string.start < to; this.#next++) {
      text += this.#json.toString('utf8', rest, string.start) + this.#mark(this.#next)
      rest = string.end
    }
    return text + this.#json.toString('utf8', rest, to)
  }

  /** Puts the strings back into what was decoded, as strings or bytes; `field` is its name. */
  *restore(value: unknown, field = ''): Steps<unknown> {
    if (typeof value === 'string') return value.startsWith(this.#prefix) ? yield* this.#text(value) : value
    if (value instanceof Uint8Array) return yield* this.#bytes(value, field)
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        if (index % 1000 === 999) yield
        value[index] = yield* this.restore(value[index], `${field}[${index}]`)
      }
    } else if (typeof value === 'object' && value !== null) {
      const fields = value as Record<string, unknown>
      for (const key of Object.keys(fields)) {
        const restored = yield* this.restore(fields[key], field === '' ? key : `${field}.${key}`)
        // Not by assignment, which does something else for `__proto__`.
        if (restored !== fields[key]) Reflect.defineProperty(fields, key, { value: restored })
      }
    }
    return value
  }

  /** INVALID_ARGUMENT for one that is no JSON, of those that nothing was made of. */
  *checkOthers(): Steps<void> {
    for (const string of this.#strings) {
      if (this.#restored.has(string)) continue
      for (const piece of this.#pieces(string)) {
        if (piece.length > 0) yield
      }
    }
  }

  #mark(index: number): string {
    const mark = Buffer.alloc(markBytes)
    this.#nonce.copy(mark)
    mark.writeUIntBE(index, nonceBytes, markBytes - nonceBytes)
    return mark.toString('base64')
  }

  #marked(mark: Uint8Array): LongString | undefined {
    if (mark.byteLength !== markBytes) return undefined
    const bytes = Buffer.from(mark.buffer, mark.byteOffset, markBytes)
    if (bytes.compare(this.#nonce, 0, nonceBytes, 0, nonceBytes) !== 0) return undefined
    const string = this.#strings[bytes.readUIntBE(nonceBytes, markBytes - nonceBytes)]
    if (string !== undefined) this.#restored.add(string)
    return string
  }

  *#text(value: string): Steps<string> {
    const string = this.#marked(Buffer.from(value, 'base64'))
    return string === undefined ? value : yield* this.#parsed(string)
  }

  *#bytes(value: Uint8Array, field: string): Steps<Uint8Array> {
    const string = this.#marked(value)
    if (string === undefined) return value
    const digits = string.escaped ? yield* this.#ascii(string) : this.#json.subarray(string.start, string.end)
    const decoded = digits && (yield* decodeBase64(digits))
    if (decoded === undefined) throw invalidField(field.slice(0, 200), 'must be base64')
    return decoded
  }

  *#parsed(string: LongString): Steps<string> {
    let text = ''
    for (const piece of this.#pieces(string)) {
      text += piece
      yield
    }
    return text
  }

  /** The bytes of what is parsed; undefined where there is anything beyond ASCII. */
  *#ascii(string: LongString): Steps<Buffer | undefined> {
    const bytes = Buffer.allocUnsafeSlow(string.end - string.start)
    let filled = 0
    for (const piece of this.#pieces(string)) {
      if (Buffer.byteLength(piece) !== piece.length) return undefined
      filled += bytes.write(piece, filled, 'latin1')
      yield
    }
    return bytes.subarray(0, filled)
  }

  /** Parsed piece by piece; none ends within a character or an escape. */
  *#pieces({ start, end }: LongString): Generator<string, void> {
    for (let from = start; from < end;) {
      const at = Math.min(from + jsonLimits.stepBytes, end)
      const to = at < end ? pieceEnd(this.#json, from, at) : end
      yield (parseText(`["${this.#json.toString('utf8', from, to)}"]`) as string[])[0]!
      from = to
    }
  }
}

/** An end at or before `to` that cuts neither `é` nor `\u00e9` in two. */
function pieceEnd(json: Buffer, from: number, to: number): number {
  let end = to
  while ((json[end]! & 0xc0) === 0x80) end--
  // An escape has up to six characters: it starts at a backslash that is not itself escaped.
  for (let at = end - 1; at >= end - 5 && at >= from; at--) {
    if (json[at] !== 0x5c) continue
    let first = at
    while (first > from && json[first - 1] === 0x5c) first--
    const escape = at - ((at - first) % 2)
    return escape + (json[escape + 1] === 0x75 ? 6 : 2) > end ? escape : end
  }
  return end
}

/** As a whole it is what the schemas take for base64. */
function* decodeBase64(digits: Buffer): Steps<Uint8Array | undefined> {
  const { length } = digits
  const padding = digits[length - 1] !== 0x3d ? 0 : digits[length - 2] === 0x3d ? 2 : 1
  const count = length - padding
  if (count % 4 === 1 || (padding > 0 && length % 4 !== 0)) return undefined
  const decoded = Buffer.allocUnsafeSlow(Math.floor((count * 3) / 4))
  let filled = 0
  for (let from = 0; from < count; from += base64Step) {
    if (from > 0) yield
    const to = Math.min(from + base64Step, count)
    const written = decoded.write(digits.toString('latin1', from, to), filled, 'base64')
    filled += written
    if (written !== Math.floor(((to - from) * 3) / 4)) return undefined
  }
  return new Uint8Array(decoded.buffer, decoded.byteOffset, decoded.byteLength)
}

/** Whole groups of four. */
const base64Step = jsonLimits.stepBytes - (jsonLimits.stepBytes % 4)
