import { ContentWriter } from '../../cas/content-writer.js'
import type { Core } from '../core.js'
import type { ContentToWrite } from './writes.js'

/** A placeholder for a content that has not arrived, in a plan that is only checked. */
export const noContent: ContentToWrite = { size: 0, blobs: () => [], toCommit: () => [] }

/**
 * Stores a content that arrives in pieces, in bounded memory, ahead of the change that names it. The caller notes
 * recent writes until that change is stored. A failure of the pieces is passed on.
 *
 * @throws {EngineError} FILE_TOO_LARGE when the content is over `maxFileBytes`.
 */
export async function storeStream(core: Core, pieces: AsyncIterable<Uint8Array>): Promise<ContentToWrite> {
  const writer = new ContentWriter(core)
  const { size, blobs } = await writer.takePieces(pieces)
  await writer.flush()
  return { size, blobs: () => blobs, toCommit: () => [] }
}
