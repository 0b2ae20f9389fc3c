import { abortable } from '../../base/abort.js'
import { ContentWriter } from '../../cas/content-writer.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import { admitBytes } from '../usage/session-bytes.js'
import type { ContentToWrite } from './writes.js'

/** A placeholder for content that has not arrived, in a plan that is only checked. */
export const noContent: ContentToWrite = { size: 0, blobs: () => [], toCommit: () => [] }

/**
 * Stores content that arrives in pieces, in bounded memory, before the change that refers to it. Until that
 * change is stored, the caller must hold a pin with `writesSince`. An error of the pieces is passed on. When `ended` aborts,
 * this rejects with its reason and no longer waits for the pieces.
 *
 * @throws {EngineError} FILE_TOO_LARGE when the content is over `maxFileBytes`.
 * @throws {EngineError} BUDGET as soon as the content is over the byte budget of the session.
 */
export async function storeStream(
  core: Core,
  live: LiveSession,
  pieces: AsyncIterable<Uint8Array>,
  ended: AbortSignal,
): Promise<ContentToWrite> {
  const writer = new ContentWriter(core)
  const { size, blobs } = await writer.takePieces(abortable(pieces, ended), (bytes) =>
    admitBytes(core, live, bytes),
  )
  await writer.flush()
  return { size, blobs: () => blobs, toCommit: () => [] }
}
