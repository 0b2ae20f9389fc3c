import type { GitObject } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { packTooLarge } from './pack-errors.js'

/**
 * Limits the cost of reading one pack, in total and in proportion to the received bytes. Throws
 * GIT_TOO_LARGE.
 */
export class PackBudget {
  #received = 0
  #inflated = 0
  #read = 0

  receive(bytes: number): void {
    this.#received += bytes
    if (this.#received > gitLimits.packBytes) throw packTooLarge('bytes', gitLimits.packBytes)
  }

  /** Counts bytes that were inflated, or that a delta will produce. */
  inflate(bytes: number): void {
    this.#inflated += bytes
    const limit = this.#inflatedLimit()
    if (this.#inflated > limit) throw packTooLarge('bytes in objects, the limit for its size', limit)
  }

  /**
   * Counts a base that had to be read again. Many small deltas can each cause a read of the same large base.
   */
  readBase(bytes: number): void {
    this.#read += bytes
    const limit = this.#inflatedLimit()
    if (this.#read > limit) throw packTooLarge('bytes in the bases of deltas, the limit for its size', limit)
  }

  /** Checks the size of a delta while it is inflated, or the size of a base before it is read into memory. */
  hold(bytes: number): void {
    const limit = Math.min(
      gitLimits.deltaBytes,
      gitLimits.deltaBytesFree + gitLimits.deltaBytesPerByte * this.#received,
    )
    if (bytes > limit) throw packTooLarge('bytes in a delta or its base, the limit for its size', limit)
  }

  #inflatedLimit(): number {
    return Math.min(
      gitLimits.inflatedBytes,
      gitLimits.inflatedBytesFree + gitLimits.inflatedBytesPerByte * this.#received,
    )
  }
}

/** Throws GIT_TOO_LARGE. */
export function checkObjectSize(type: GitObject['type'], size: number): void {
  const limit = type === 'blob' ? gitLimits.objectBytes : gitLimits.structureBytes
  if (size > limit) throw packTooLarge(`bytes in a ${type}`, limit)
}

/** Throws GIT_TOO_LARGE. */
export function checkDepth(depth: number): void {
  if (depth > gitLimits.deltaDepth) throw packTooLarge('deltas in a chain', gitLimits.deltaDepth)
}
