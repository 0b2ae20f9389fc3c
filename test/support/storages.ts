import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { memoryStorage, type Storage } from '../../src/index.js'

/**
 * The kinds of storage that behaviour tests run on. `make` takes a directory of the test; `lasting` storages keep their
 * data when the engine is closed and reopened. To the engine, durable memory with synchronous reads behaves like level;
 * the model and contract tests cover level itself.
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

/** Selects the storages for tests with many objects. On the others, these tests would cover nothing new. */
export function isForMany(name: string): boolean {
  return name === 'memory' || name === 'level'
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
