import { Buffer } from 'node:buffer'
import { HttpError } from '../http/parts.js'
import { inspectorLimits } from './limits.js'

/**
 * The whole body of a request, which is not read beyond its limit. The caller must be known already.
 *
 * @throws HttpError `BODY_TOO_LARGE`
 */
export async function readBody({ body }: Request): Promise<Buffer<ArrayBuffer>> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body ?? []) {
    bytes += piece.byteLength
    if (bytes > inspectorLimits.bodyBytes) {
      const limit = String(inspectorLimits.bodyBytes)
      throw new HttpError('BODY_TOO_LARGE', `the body is over ${limit} bytes`, { limit })
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
