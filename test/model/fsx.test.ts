import { expect, test } from 'vitest'
import { fsxStorages, runFsx } from './fsx.js'
import { runs, seed, size } from '../support/seed.js'

test.each(fsxStorages)(
  `random reads and writes of files agree with plain bytes on %s (FORKSPACE_SEED=${seed})`,
  { timeout: 60_000 + size * 60_000 },
  async (storage) => {
    const operations = runs(2000)
    const result = await runFsx({ seed, operations, storages: [storage] })
    expect(result.operations).toBe(operations)
  },
)
