import { expect, test } from 'vitest'
import { fsxStorages, runFsx } from './fsx.js'
import { seed, size } from '../support/seed.js'

test.each(fsxStorages)(
  `random reads and writes of files agree with plain bytes on %s (FORKSPACE_SEED=${seed})`,
  { timeout: 60_000 + size * 60_000 },
  async (storage) => {
    const operations = Math.ceil(2000 * size)
    const result = await runFsx({ seed, operations, storages: [storage] })
    expect(result.operations).toBe(operations)
  },
)
