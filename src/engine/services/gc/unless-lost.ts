import { EngineError } from '../../base/errors.js'
import type { Core } from '../../session/core.js'
import type { Store, StoreCommit } from '../../storage/store.js'

/**
 * The same core, whose commits fail once the store may have lost commits that a collection has read. For example, a
 * collection finds that a session is deleted, and a crash of the server brings the session back. Then the collection must
 * not delete the files of the session. On a shared store, they also fail once the engine has lost the right to collect.
 */
export function unlessLost(core: Core): Core {
  const { store, storeOf } = core
  const before = store.losses?.()
  if (before === undefined && store.shared === undefined) return core
  const guarded = <T extends Store>(one: T): T => ({
    ...one,
    commit: (commit) => {
      if (store.losses?.() !== before) return Promise.reject(lostError())
      // A commit to a session is refused by its head.
      if (store.shared === undefined || commit.heads !== undefined) return one.commit(commit)
      return whileCollecting(one, commit)
    },
  })
  return { ...core, store: guarded(store), storeOf: (tenantKey) => guarded(storeOf(tenantKey)) }
}

async function whileCollecting(store: Store, commit: StoreCommit): Promise<boolean> {
  if (await store.commit({ ...commit, collecting: true })) return true
  throw new EngineError(
    'STORE_FAILED',
    'the collection ended early, because its engine lost the right to collect. Nothing in use was deleted; collect again',
    { outcome: 'not-applied' },
  )
}

function lostError(): EngineError {
  return new EngineError(
    'STORE_FAILED',
    'the collection ended early, because the store may have lost its newest operations. Nothing in use was deleted; ' +
      'collect again',
    { outcome: 'not-applied' },
  )
}
