import { memoryStorage, type Storage } from '../../src/index.js'

/** A durable storage in memory, and the sizes of the blobs that were stored in it. */
export function notedStorage(): { readonly storage: Storage; readonly stored: number[] } {
  const stored: number[] = []
  const inner = memoryStorage({ durable: true })
  const open: Storage['open'] = async () => {
    const store = await inner.open()
    const commit = store.commit.bind(store)
    return Object.assign(store, {
      commit: (given: Parameters<typeof commit>[0]) => {
        for (const { bytes } of given.blobs ?? []) stored.push(bytes.byteLength)
        return commit(given)
      },
    })
  }
  return { storage: { open }, stored }
}
