import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine } from '../../src/index.js'
import { isLong } from './seed.js'
import { temporaryDirectory } from './temporary-directory.js'

/** For `describe.each`: the names of the stores, and the places of their engines. */
export const bothStores = [
  ['memory', 0],
  ['level', 1],
] as const

/** The same for adapters, which are far from the store: `npm test` runs their tests on LevelDB alone. */
export const fewStores = isLong ? bothStores : bothStores.slice(1)

/** Engines in memory and on LevelDB. */
export interface BothEngines {
  readonly engines: readonly [memory: Engine, level: Engine]
  /** The directory of the store, for further files of a test. */
  readonly directory: string
  /** Closes the engines, and removes the directory. */
  close(): Promise<void>
}

/**
 * Opens an engine in memory, and one on LevelDB in a directory of its own. Sources may be read from that directory.
 */
export async function openBothEngines(): Promise<BothEngines> {
  const directory = await mkdtemp(join(temporaryDirectory(), 'both-stores-'))
  const storage = levelStorage(join(directory, 'data'), { durability: 'relaxed' })
  const hostPaths = { roots: [directory] }
  const engines = [await openEngine({ hostPaths }), await openEngine({ hostPaths, storage })] as const
  return {
    engines,
    directory,
    close: async () => {
      for (const engine of engines) await engine.close()
      await rm(directory, { recursive: true })
    },
  }
}
