import { throwIfAborted } from './argument-errors.js'
import { toBytes, toOptions } from './arguments.js'

export type Chunks = Iterable<unknown> | AsyncIterable<unknown>

/** Whether data comes piece by piece: an iterable that is no bytes and no text, a stream for example. */
export function isChunks(data: unknown): data is Chunks {
  if (typeof data !== 'object' || data === null || ArrayBuffer.isView(data)) return false
  return Symbol.asyncIterator in data || Symbol.iterator in data
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
