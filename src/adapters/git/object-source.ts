import type { GitObject } from '../../engine/ports.js'

/** Reads objects of one repository or pack by id. */
export interface ObjectSource {
  /** Throws GIT_CORRUPT when the object is missing or damaged. */
  read(oid: string): Promise<GitObject>
}
