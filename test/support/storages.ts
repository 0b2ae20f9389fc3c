import { join } from 'node:path'
import { env } from 'node:process'
import { levelStorage } from '../../src/adapters/level/index.js'
import { memoryStorage, type Storage } from '../../src/index.js'
import { isLong } from './seed.js'

type StorageKind = readonly [name: string, make: (directory: string) => Storage, lasting: boolean]

const runsOthers = env['FORKSPACE_TEST_STORAGE'] === 'others'
const memory: StorageKind = ['memory', () => memoryStorage(), false]
const level: StorageKind = [
  'level',
  (directory) => levelStorage(join(directory, 'data'), { durability: 'relaxed' }),
  true,
]
const durable: StorageKind = ['durable memory', () => memoryStorage({ durable: true }), true]
const lazy: StorageKind = ['durable memory without synchronous reads', withoutSyncReads, true]

/**
 * The kinds of storage that behaviour tests run on. `make` takes a directory of the test; `lasting` storages keep their
 * data when the engine is closed and reopened. To the engine, durable memory behaves like level and costs less; the
 * model, contract, crash and store tests cover level itself. `npm run test:long` runs the tests once more: on level, and
 * on a storage that has no synchronous reads, as a remote one.
 */
export const storages: readonly StorageKind[] = runsOthers ? [level, lazy] : [memory, durable]

/** The same for tests of parts that are far from the storage: each run has one kind, unless its tests have their full size. */
export const fewStorages: readonly StorageKind[] = isLong ? storages : storages.slice(-1)

/** All kinds of storage, for the few tests that need each of them in one run. */
export const allStorages: readonly StorageKind[] = [memory, durable, lazy, level]

/** Selects the storages for tests with many objects. On the others, these tests would cover nothing new. */
export function isForMany(name: string): boolean {
  return name !== lazy[0]
}

/** A blob with more reads than this is assumed to be read in an infinite loop. */
const maxReadsOfBlob = 200

/** Durable memory without synchronous reads; rejects reads that would otherwise loop forever. */
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
