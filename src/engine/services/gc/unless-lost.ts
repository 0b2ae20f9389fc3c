import { EngineError } from '../../base/errors.js'
import type { Core } from '../../session/core.js'
import type { Store } from '../../storage/store.js'

/**
 * The same core, whose commits fail once the store may have lost commits that a collection has read. For example, a
 * collection finds that a session is deleted, and a crash of the server brings the session back. Then the collection must
 * not delete the files of the session.
 */
export function unlessLost(core: Core): Core {
  const { store, storeOf } = core
  const losses = store.losses?.bind(store)
  if (losses === undefined) return core
  const before = losses()
  const guarded = <T extends Store>(one: T): T => ({
    ...one,
    commit: (commit) => (losses() === before ? one.commit(commit) : Promise.reject(lostError())),
  })
  return { ...core, store: guarded(store), storeOf: (tenantKey) => guarded(storeOf(tenantKey)) }
}

function lostError(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the collection ended early, because the store may have lost its newest operations. Nothing in use was deleted; ' +
      'collect again',
    { outcome: 'not-applied' },
  )
}
