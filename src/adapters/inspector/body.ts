import { Buffer } from 'node:buffer'
import { clientGone, HttpError } from '../http/parts.js'
import { inspectorLimits } from './limits.js'

/**
 * The whole body of a request, which is not read beyond its limit. The caller must be known already.
 *
 * @throws HttpError `BODY_TOO_LARGE`, or the one of a client that has gone
 */
export async function readBody({ body, signal }: Request): Promise<Buffer<ArrayBuffer>> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const piece of body ?? []) {
      bytes += piece.byteLength
      if (bytes > inspectorLimits.bodyBytes) {
        const limit = String(inspectorLimits.bodyBytes)
        throw new HttpError('BODY_TOO_LARGE', `the body is over ${limit} bytes`, { limit })
      }
      pieces.push(piece)
    }
  } catch (error) {
    throw signal.aborted ? clientGone() : error
  }
  return Buffer.concat(pieces)
}
