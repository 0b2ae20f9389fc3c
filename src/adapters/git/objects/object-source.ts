import type { GitObject } from '../../../engine/ports.js'

/** Reads objects of one repository or pack by id. */
export interface ObjectSource {
  /** Reads a whole object and verifies its id. Throws GIT_CORRUPT if the object is missing or damaged. */
  read(oid: string): Promise<GitObject>
  /**
   * Streams the content of a blob over `gitLimits.streamedBlobBytes`. Returns undefined for every other
   * object, because `read` is cheap for these. The id is verified after the last piece. Until then, the
   * pieces may be damaged.
   */
  readBlob(oid: string): Promise<AsyncIterable<Uint8Array> | undefined>
}
