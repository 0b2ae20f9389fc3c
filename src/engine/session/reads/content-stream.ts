import { whenLoaded } from '../../base/fault.js'
import { parseSize } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'

/** A file, and a range of its bytes. */
export interface FileReadRequest {
  /** Absolute path in the session, such as `/src/a.ts`. Symlinks are followed. */
  readonly path: string
  /** The first byte, counted from 0; 0 by default. */
  readonly offset?: number
  /** The largest number of bytes; up to the end of the file by default. */
  readonly length?: number
}

const readShape = new Shape<FileReadRequest>({ path: true, offset: true, length: true })

/**
 * Returns a checked copy of the request.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the request has the wrong form.
 */
export function parseRead(request: FileReadRequest): Required<FileReadRequest> {
  const { path, offset, length } = readShape.read(request)
  return {
    path,
    offset: parseSize('offset', offset ?? 0),
    length: parseSize('length', length ?? Number.MAX_SAFE_INTEGER),
  }
}

/** The bytes of a file, in pieces of at most 1 MiB. It can be read once. */
export interface ContentStream extends AsyncIterable<Uint8Array> {
  /** The size of the whole file, in bytes. */
  readonly sizeBytes: number
  /** The size of all pieces together, in bytes. */
  readonly length: number
}

/**
 * A range of a file as it is now, even if the file changes or is deleted later. Its content is protected from
 * collections until it has been read.
 */
export function streamContent(
  core: Core,
  file: FileNode,
  { offset, length }: { readonly offset: number; readonly length: number },
): ContentStream {
  const start = Math.min(offset, file.size)
  const end = Math.min(file.size, start + length)
  const reader = { last: file }
  const pin = core.pins.pin({ roots: [reader], owner: reader })
  async function* pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    using _ = pin
    yield* readContent(core, reader.last, { start, end })
  }
  const stream = pieces()
  return { sizeBytes: file.size, length: end - start, [Symbol.asyncIterator]: () => stream }
}

/**
 * The bytes of a file from `start` to `end`, in pieces of at most 1 MiB. The caller must protect them from
 * collections.
 */
export async function* readContent(
  core: Core,
  file: FileNode,
  { start, end }: { readonly start: number; readonly end: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  const body = await whenLoaded(() => core.contentIds.body(file))
  const slice = new TimeSlice(core.environment)
  for (let offset = start; offset < end; offset += limits.blockBytes) {
    yield await core.content.read(body, offset, Math.min(limits.blockBytes, end - offset))
    if (slice.over) await slice.next()
  }
}
