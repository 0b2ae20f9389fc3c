import type { Steps } from '../base/cooperative.js'
import { EngineError } from '../base/errors.js'
import { limits } from '../base/limits.js'
import type { ByteText } from './byte-text.js'
import { invalidPatch } from './patch-error.js'

/**
 * Applies a delta of git: the sizes of both contents, then instructions that copy a range of the old content or insert
 * bytes of the delta.
 *
 * @throws {EngineError} INVALID_PATCH when the delta does not fit the old content.
 * @throws {EngineError} TOO_LARGE when the new content has over `maxBytes` bytes.
 */
export function* applyBinaryDelta(
  delta: ByteText,
  before: ByteText,
  { path, maxBytes }: { readonly path: string; readonly maxBytes: number },
): Steps<ByteText, undefined> {
  const reader = new DeltaReader(delta, path)
  const oldSize = reader.size()
  const newSize = reader.size()
  if (oldSize !== before.length) throw reader.misfit()
  if (newSize > maxBytes)
    throw new EngineError(
      'TOO_LARGE',
      `${path} would have ${newSize} bytes; a patch writes at most ${maxBytes}`,
      {
        path,
        limit: String(maxBytes),
      },
    )
  const parts: ByteText[] = []
  let size = 0
  while (!reader.isAtEnd) {
    const instruction = reader.byte()
    let part: ByteText
    if (instruction >= 128) {
      const from = reader.number(instruction, 4)
      const count = reader.number(instruction >> 4, 3)
      part = before.slice(from, from + (count === 0 ? 0x10000 : count))
      if (part.length !== (count === 0 ? 0x10000 : count)) throw reader.misfit()
    } else {
      if (instruction === 0) throw reader.misfit()
      part = reader.take(instruction)
    }
    size += part.length
    if (size > newSize) throw reader.misfit()
    parts.push(part)
    if (parts.length % limits.deltaInstructionsPerLook === 0) yield
  }
  if (size !== newSize) throw reader.misfit()
  return parts.join('')
}

class DeltaReader {
  readonly #delta: ByteText
  readonly #path: string
  #at = 0

  constructor(delta: ByteText, path: string) {
    this.#delta = delta
    this.#path = path
  }

  get isAtEnd(): boolean {
    return this.#at === this.#delta.length
  }

  byte(): number {
    if (this.isAtEnd) throw this.misfit()
    return this.#delta.charCodeAt(this.#at++)
  }

  take(count: number): ByteText {
    const part = this.#delta.slice(this.#at, this.#at + count)
    if (part.length < count) throw this.misfit()
    this.#at += count
    return part
  }

  /** A size: 7 bits in each byte, the lowest first. */
  size(): number {
    let size = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.byte()
      size += (byte & 127) * factor
      if (byte < 128) return size
      if (factor > 2 ** 35) throw this.misfit()
    }
  }

  /** A number whose bytes are there only if their bit is set. */
  number(bits: number, bytes: number): number {
    let value = 0
    for (let index = 0; index < bytes; index++) if (bits & (1 << index)) value += this.byte() * 256 ** index
    return value
  }

  misfit(): EngineError {
    return invalidPatch(`the binary change of ${this.#path} is malformed; make the patch again`, {
      file: this.#path,
    })
  }
}
