import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { memoryStorage, type Storage } from '../../src/index.js'

/**
 * The kinds of storage that a test of behaviour runs on: `make` gets a directory of the test's own, and on
 * `lasting` ones everything is still there when the engine was closed and opened again. To an engine, durable memory
 * with synchronous reads is what level is; its own tests are those of the model and of the store's contract.
 */
export const storages: readonly (readonly [
  name: string,
  make: (directory: string) => Storage,
  lasting: boolean,
])[] = [
  ['memory', () => memoryStorage(), false],
  ['durable memory without synchronous reads', withoutSyncReads, true],
  ['level', (directory) => levelStorage(join(directory, 'data'), { durability: 'relaxed' }), true],
]

/** The storages that a test of many objects runs on: to the others only their number would be new. */
export function isForMany(name: string): boolean {
  return name === 'memory' || name === 'level'
}

/** A blob that is read this often is read in a loop that would never end. */
const maxReadsOfBlob = 200

/** Lasting memory without synchronous reads; refuses what would otherwise go on for ever. */
function withoutSyncReads(): Storage {
  const inner = memoryStorage({ durable: true, syncReads: false })
  const open = async (): ReturnType<Storage['open']> => {
    const store = await inner.open()
    const reads = new Map<string, number>()
    const blob = store.blob.bind(store)
    return Object.assign(store, {
      blob: (hash: string, range: Parameters<typeof blob>[1]) => {
        const count = (reads.get(hash) ?? 0) + 1
        reads.set(hash, count)
        if (count > maxReadsOfBlob) throw new Error('the same blob was read over and over')
        return blob(hash, range)
      },
    })
  }
  return { open }
}
