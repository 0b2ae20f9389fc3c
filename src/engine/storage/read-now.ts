import { EngineError } from '../base/errors.js'
import type { Store } from './store.js'

/** A record, at once where the store has it at hand, else as a promise. */
export function readNow(store: Store, key: string): string | undefined | Promise<string | undefined> {
  if (store.getSync === undefined) return store.get(key)
  try {
    return store.getSync(key)
  } catch (error) {
    if (!mustWait(error)) throw error
    return store.get(key)
  }
}

/** Whether a synchronous read failed that has to be awaited this time. */
export function mustWait(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'WOULD_BLOCK'
}
