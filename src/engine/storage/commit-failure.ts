import { EngineError } from '../base/errors.js'

/**
 * A commit that fails with an EngineError, whatever the store failed with: STORE_FAILED where it did not say. What
 * is acknowledged stays in the order of the commits, where all of them come through here.
 */
export function withReason(pending: Promise<boolean>): Promise<boolean> {
  return pending.catch(storeFailed)
}

function storeFailed(cause: unknown): never {
  if (cause instanceof EngineError) throw cause
  throw new EngineError('STORE_FAILED', 'a write to the store failed', {}, { cause })
}
