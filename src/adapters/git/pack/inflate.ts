import { createInflate, inflateSync, type Inflate } from 'node:zlib'
import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { corruptPack } from './pack-errors.js'

/**
 * Inflates what starts at the first byte of `input`, at once; `consumed` is how much of the input that took.
 * Undefined when the input ends first. Throws GIT_CORRUPT when it does not give exactly `size` bytes, and never
 * makes more than one byte too many.
 */
export function inflateWhole(
  input: Uint8Array,
  size: number,
): { readonly body: Buffer; readonly consumed: number } | undefined {
  try {
    // Room for one byte more, so that zlib sees the end in the same call.
    const options = { info: true, chunkSize: Math.max(64, size + 1), maxOutputLength: Math.max(1, size) }
    // With `info` the engine comes back too, which the types do not know.
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

/** Bytes that come in turn. */
export interface ByteInput {
  /** What comes next, at least one byte; none at the end. It stays unchanged for good. */
  peek(): Buffer | Promise<Buffer>
  /** Goes on behind so many of the bytes that `peek` gave last. */
  skip(count: number): void
}

/**
 * Inflates in pieces off the main thread, with few of them in memory. Behind the last piece the input stands
 * behind what was inflated. Throws GIT_CORRUPT.
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

/** As they are; GIT_CORRUPT when they are not `size` bytes together. */
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

/** Pieces of `size` bytes together as one. Memory is only used as they come. */
export async function gather(pieces: AsyncIterable<Buffer>, size: number): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(size)
  let end = 0
  for await (const piece of pieces) end += piece.copy(whole, end)
  return whole
}

async function feed(inflate: Inflate, input: ByteInput): Promise<void> {
  let wake = (): void => {}
  // A callback of `write` may never be called when it fails.
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

/** Carries what is no Error, as the reason of an abort may be. */
class InputFailure extends Error {
  constructor(cause: unknown) {
    super('the input failed', { cause })
  }
}

function isZlibError(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')
}

function wrongSize(): EngineError {
  return corruptPack('an object is not as long as it says')
}
