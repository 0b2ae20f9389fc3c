import { EngineError } from '../base/errors.js'

/** The error of a session that has reached a limit. */
export function quota(what: string, limit: number): EngineError {
  return new EngineError('QUOTA', `a session can have at most ${limit} ${what}`, { limit: String(limit) })
}

/** @throws {EngineError} QUOTA when `count` exceeds the limit */
export function checkQuota(what: string, count: number, limit: number): void {
  if (count > limit) throw quota(what, limit)
}
