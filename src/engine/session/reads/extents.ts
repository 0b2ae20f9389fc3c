import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { formatHash } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { hasMoreExtents, listExtents } from '../../cas/body.js'
import { BlobRef } from '../../cas/blob.js'
import type { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'

/** A range of a file and the blob that holds its bytes. */
export interface CasExtent {
  /** The first byte in the file, counted from 0. */
  readonly offset: number
  /** The number of bytes. */
  readonly length: number
  /** The hash of the whole blob, `sha256:<hex>`. */
  readonly hash: string
  /** The first byte in the blob, counted from 0. */
  readonly casOffset: number
}

/**
 * The blobs that hold a file's bytes, in order. Hashes that are not known yet are computed in slices.
 *
 * @throws {EngineError} TOO_LARGE when there are too many of them.
 */
export async function listCasExtents(
  core: Core,
  { file, path }: { readonly file: FileNode; readonly path: string },
  slice = new TimeSlice(core.environment),
): Promise<CasExtent[]> {
  if (slice.over) await slice.next()
  const body = await whenLoaded(() => core.contentIds.body(file))
  if (body !== undefined && !(body instanceof BlobRef) && hasMoreExtents(body, limits.casExtents))
    throw new EngineError(
      'TOO_LARGE',
      `${path} is stored in over ${limits.casExtents} extents, which cannot be listed. Read its content instead`,
      { path, limit: String(limits.casExtents) },
    )
  const extents: CasExtent[] = []
  for (const { offset, length, blob, casOffset } of listExtents(body, { from: 0, to: file.size })) {
    extents.push({ offset, length, hash: formatHash(blob.hash), casOffset })
    if (slice.over) await slice.next()
  }
  return extents
}
