import { createInflate, inflateSync, type Inflate } from 'node:zlib'
import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { corruptPack } from './pack-errors.js'

/**
 * Inflates the zlib stream at the start of `input` in one call. `consumed` is the length of the stream.
 * Returns undefined if the input ends before the stream does. Throws GIT_CORRUPT unless the result has
 * exactly `size` bytes; inflating stops at most one byte after that.
 */
export function inflateWhole(
  input: Uint8Array,
  size: number,
): { readonly body: Buffer; readonly consumed: number } | undefined {
  try {
    // Leaves room for one more byte, so that zlib sees the end in the same call.
    const options = { info: true, chunkSize: Math.max(64, size + 1), maxOutputLength: Math.max(1, size) }
    // With `info`, the call also returns the engine, which the types do not declare.
    const { buffer, engine } = inflateSync(input, options) as unknown as { buffer: Buffer; engine: Inflate }
    if (buffer.length !== size) throw wrongSize()
    return { body: buffer, consumed: engine.bytesWritten }
  } catch (error) {
    if (error instanceof EngineError) throw error
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'Z_BUF_ERROR') return undefined
    throw code === 'ERR_BUFFER_TOO_LARGE' ? wrongSize() : corruptPack('an object cannot be inflated', error)
  }
}

/** Bytes to read in order. */
export interface ByteInput {
  /** Returns the next bytes: at least one, or none at the end. The buffer never changes. */
  peek(): Buffer | Promise<Buffer>
  /** Moves forward by `count` of the bytes that `peek` returned last. */
  skip(count: number): void
}

/**
 * Inflates a zlib stream off the main thread and yields it in pieces, with only a few of them in memory.
 * After the last piece, the input is at the end of the stream. Throws GIT_CORRUPT.
 */
export async function* inflatePieces(input: ByteInput): AsyncGenerator<Buffer, void, undefined> {
  const inflate = createInflate({ chunkSize: gitLimits.pieceBytes })
  const feeding = feed(inflate, input).catch((error: unknown) => {
    inflate.destroy(error instanceof Error ? error : new InputFailure(error))
  })
  try {
    for await (const piece of inflate) yield piece as Buffer
    await feeding
  } catch (error) {
    if (error instanceof InputFailure) throw error.cause
    if (!isZlibError(error)) throw error
    throw error.code === 'Z_BUF_ERROR'
      ? corruptPack('it ends too early')
      : corruptPack('an object cannot be inflated', error)
  } finally {
    inflate.destroy()
  }
}

/** Yields the pieces unchanged. Throws GIT_CORRUPT unless they have `size` bytes in total. */
export async function* exactly(
  pieces: AsyncIterable<Buffer>,
  size: number,
): AsyncGenerator<Buffer, void, undefined> {
  let length = 0
  for await (const piece of pieces) {
    length += piece.length
    if (length > size) throw wrongSize()
    yield piece
  }
  if (length < size) throw wrongSize()
}

/** Joins pieces with a total of `size` bytes. The buffer takes up memory only as the pieces arrive. */
export async function gather(pieces: AsyncIterable<Uint8Array>, size: number): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(size)
  let end = 0
  for await (const piece of pieces) {
    whole.set(piece, end)
    end += piece.length
  }
  return whole
}

async function feed(inflate: Inflate, input: ByteInput): Promise<void> {
  let wake = (): void => {}
  // If a write fails, its callback may never be called.
  inflate.once('close', () => wake())
  for (;;) {
    const bytes = (await input.peek()).subarray(0, gitLimits.pieceBytes)
    if (inflate.destroyed) return
    if (bytes.length === 0) {
      inflate.end()
      return
    }
    const before = inflate.bytesWritten
    await new Promise<void>((resolve) => {
      wake = resolve
      inflate.write(bytes, () => resolve())
    })
    if (inflate.destroyed) return
    const used = inflate.bytesWritten - before
    input.skip(used)
    if (used < bytes.length) return
  }
}

/** Wraps a thrown value that is not an Error, such as the reason of an abort. */
class InputFailure extends Error {
  constructor(cause: unknown) {
    super('the input failed', { cause })
  }
}

function isZlibError(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')
}

function wrongSize(): EngineError {
  return corruptPack('an object does not have its stated length')
}
