import type { GitObject } from '../../../engine/ports.js'

/** Reads objects of one repository or pack by id. */
export interface ObjectSource {
  /** Whole. Throws GIT_CORRUPT when the object is missing or damaged; the id is verified. */
  read(oid: string): Promise<GitObject>
  /**
   * The content of a blob in pieces, for one that is over `gitLimits.streamedBlobBytes`; undefined for every
   * other object, which `read` gives at small cost. The id is verified when the last piece was taken: until
   * then what came may be wrong.
   */
  readBlob(oid: string): Promise<AsyncIterable<Uint8Array> | undefined>
}
