import { EngineError } from '../base/errors.js'

/** The error of a session that has as much of something as it may have. */
export function quota(what: string, limit: number): EngineError {
  return new EngineError('QUOTA', `a session can have at most ${limit} ${what}`, { limit: String(limit) })
}

/** QUOTA when a session would have more of something than it may have. */
export function checkQuota(what: string, count: number, limit: number): void {
  if (count > limit) throw quota(what, limit)
}
