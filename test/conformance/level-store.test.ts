import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { storeSuite } from './store.js'

for (const durability of ['full', 'relaxed'] as const) {
  storeSuite({
    name: `level, ${durability}`,
    capabilities: { durable: true, syncReads: true },
    create: async () => {
      const directory = await mkdtemp(join(tmpdir(), 'level-store-'))
      return {
        storage: levelStorage(join(directory, 'data'), { durability }),
        cleanup: () => rm(directory, { recursive: true }),
      }
    },
  })
}
