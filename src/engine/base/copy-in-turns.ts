import { nextTurn } from './cooperative.js'
import { invalid } from './errors.js'
import { copyBytes, readBytes } from './input.js'
import { limits } from './limits.js'

/**
 * A copy of a caller's bytes. Up to `limits.copiedAtOnceBytes` are copied before this returns, more of them in turns of the
 * event loop. They must not change before then.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the bytes are transferred or resized meanwhile
 */
export async function copyInTurns(field: string, value: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = readBytes(field, value)
  const size = bytes.byteLength
  if (size <= limits.copiedAtOnceBytes) return copyBytes(field, bytes)
  const copy = new Uint8Array(size)
  for (const [part, offset] of eachBlock(field, bytes, size)) {
    copy.set(part, offset)
    await nextTurn()
  }
  return copy
}

/** The parts of a caller's bytes, each of one block. `size` was their length when they were passed. */
export function* eachBlock(
  field: string,
  bytes: Uint8Array,
  size: number,
): Generator<[part: Uint8Array, offset: number]> {
  for (let offset = 0; offset < size; offset += limits.blockBytes) {
    if (bytes.byteLength !== size) throw invalid(field, 'was transferred or resized before the call ended')
    yield [bytes.subarray(offset, offset + limits.blockBytes), offset]
  }
}
