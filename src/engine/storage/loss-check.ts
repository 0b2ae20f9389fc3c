import { EngineError } from '../base/errors.js'
import type { Store } from './store.js'

/**
 * A check for an operation that stores contents before the records that refer to them. Call it in the same turn as the
 * commit of those records. It throws if the store may have lost the contents meanwhile, for example in a crash of its
 * server: a recovery keeps such an operation running.
 *
 * @throws {EngineError} STORE_FAILED
 */
export function lossCheck(store: Pick<Store, 'losses'>): () => void {
  const before = store.losses?.()
  return () => {
    if (store.losses?.() !== before)
      throw new EngineError(
        'STORE_FAILED',
        'the operation was not applied, because the store may have lost contents that it had stored for the operation; repeat it',
        { outcome: 'not-applied' },
      )
  }
}
