import { present } from '../base/present.js'
import type { Store } from './store.js'

/** The heads of sessions on a shared store. */
export async function readHeads(
  store: Store,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  return present(await store.shared?.heads(sessionIds), 'the heads of a shared store')
}

/** The head of a session on a shared store; '' if it has none. */
export async function readHead(store: Store, sessionId: string): Promise<string> {
  return (await readHeads(store, [sessionId])).get(sessionId) ?? ''
}
