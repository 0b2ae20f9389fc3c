import { throwIfAborted } from './argument-errors.js'
import { toBytes, toOptions } from './arguments.js'

export type Chunks = Iterable<unknown> | AsyncIterable<unknown>

/**
 * Returns data that arrives in pieces, for example a stream: any iterable except bytes and text. The method
 * that creates the iterator is read once, here, and called after the file is open.
 */
export function toChunks(data: unknown): Chunks | undefined {
  if (typeof data !== 'object' || data === null || ArrayBuffer.isView(data)) return undefined
  const given = data as { readonly [Symbol.asyncIterator]?: unknown; readonly [Symbol.iterator]?: unknown }
  const later = given[Symbol.asyncIterator]
  if (typeof later === 'function')
    return { [Symbol.asyncIterator]: () => later.call(data) as AsyncIterator<unknown> }
  const now = given[Symbol.iterator]
  if (typeof now === 'function') return { [Symbol.iterator]: () => now.call(data) as Iterator<unknown> }
  return undefined
}

/** Writes one piece after the other. */
export async function writeChunks(
  write: (chunk: string | Uint8Array) => Promise<unknown>,
  data: Chunks,
  options: unknown,
): Promise<void> {
  const { encoding, signal } = toOptions(options)
  throwIfAborted(signal)
  for await (const chunk of data) {
    throwIfAborted(signal)
    await write(toBytes(chunk, encoding))
  }
}
