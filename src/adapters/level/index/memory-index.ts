import type { IndexDatabase } from './index-database.js'

/** An index in memory only. */
export function memoryIndex(): IndexDatabase {
  const values = new Map<string, Uint8Array>()
  return {
    getSync: (key) => values.get(key),
    batch(operations) {
      for (const operation of operations) {
        if (operation.type === 'put') values.set(operation.key, operation.value)
        else values.delete(operation.key)
      }
      return Promise.resolve()
    },
    async *damages() {},
    compact: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
}
