import { EngineError } from '../base/errors.js'
import type { Store } from './store.js'

/** Reads a record synchronously if the store can do so now. Otherwise returns a promise. */
export function getSyncOrAsync(store: Store, key: string): string | undefined | Promise<string | undefined> {
  if (store.getSync === undefined) return store.get(key)
  try {
    return store.getSync(key)
  } catch (error) {
    if (!mustWait(error)) throw error
    return store.get(key)
  }
}

/** Whether a synchronous read failed because this read must be asynchronous. */
export function mustWait(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'WOULD_BLOCK'
}
