import { EngineError } from '../../../engine/ports.js'

export function corruptPack(what: string, cause?: unknown): EngineError {
  return new EngineError(
    'GIT_CORRUPT',
    `the pack is damaged: ${what}. Check the repository with "git fsck", and import it again`,
    {},
    { cause },
  )
}

export function packTooLarge(what: string, limit: number): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the pack has over ${limit} ${what}`, { limit: String(limit) })
}

/**
 * The error for a delta that builds on an object that is neither in the pack nor known. `details.baseOid` is
 * its id.
 */
export function missingBase(baseOid: string): EngineError {
  return new EngineError('GIT_CORRUPT', `a delta of the pack has the base ${baseOid}, which is missing`, {
    baseOid,
  })
}

export function isMissingBase(error: unknown): error is EngineError {
  return error instanceof EngineError && error.reason === 'GIT_CORRUPT' && 'baseOid' in error.details
}
