import type { Store } from './store.js'

/** A store in which some parts do something else. */
export function wrapped(store: Store, changes: Partial<Store>): Store {
  return {
    capabilities: store.capabilities,
    commit: (commit) => store.commit(commit),
    events: (sessionId, range) => store.events(sessionId, range),
    get: (key) => store.get(key),
    lastEvent: (sessionId) => store.lastEvent(sessionId),
    scan: (range) => store.scan(range),
    blob: (hash, range) => store.blob(hash, range),
    close: () => store.close(),
    // What not every store has.
    ...(store.getSync && { getSync: store.getSync.bind(store) }),
    ...(store.blobSync && { blobSync: store.blobSync.bind(store) }),
    ...(store.forget && { forget: store.forget.bind(store) }),
    ...(store.listBlobs && { listBlobs: store.listBlobs.bind(store) }),
    ...(store.recover && { recover: store.recover.bind(store) }),
    ...(store.check && { check: store.check.bind(store) }),
    ...(store.size && { size: store.size.bind(store) }),
    ...(store.reclaim && { reclaim: store.reclaim.bind(store) }),
    ...changes,
  }
}
