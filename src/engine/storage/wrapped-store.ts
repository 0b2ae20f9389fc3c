import type { Store } from './store.js'

type Method<Name extends keyof Store> = Extract<Store[Name], (...args: never) => unknown>
type Parts<Name extends keyof Store> = Parameters<Method<Name>>

/** A store that forwards its calls to another one, except for the methods in `changes`. */
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
    // Methods that not every store has.
    ...(store.getSync && { getSync: (...args: Parts<'getSync'>) => store.getSync!(...args) }),
    ...(store.getNodes && { getNodes: store.getNodes.bind(store) }),
    ...(store.blobSync && { blobSync: (...args: Parts<'blobSync'>) => store.blobSync!(...args) }),
    ...(store.forget && { forget: (...args: Parts<'forget'>) => store.forget!(...args) }),
    ...(store.shared && { shared: store.shared }),
    ...(store.listBlobs && { listBlobs: (...args: Parts<'listBlobs'>) => store.listBlobs!(...args) }),
    ...(store.losses && { losses: store.losses.bind(store) }),
    ...(store.recover && { recover: () => store.recover!() }),
    ...(store.check && { check: (...args: Parts<'check'>) => store.check!(...args) }),
    ...(store.size && { size: () => store.size!() }),
    ...(store.reclaim && { reclaim: (...args: Parts<'reclaim'>) => store.reclaim!(...args) }),
    ...changes,
  }
}
