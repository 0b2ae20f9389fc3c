/** Opens a store of format 1, which migrates it, and reads all of it. */
import { send } from 'node:process'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { EngineError } from '../../src/engine/ports.js'
import { newEntries } from '../support/format-1.js'
import { digestOf } from './entries-digest.js'

export type Opening = { readonly digest: string } | { readonly refused: string; readonly message: string }

process.on('message', ([directory, keys]: [string, readonly string[]]) => {
  void open(directory, keys).then(
    (opening) => process.send!(opening),
    () => process.exit(1),
  )
})

async function open(directory: string, keys: readonly string[]): Promise<Opening> {
  try {
    const store = await openLevelStore(directory, { durability: 'relaxed' })
    try {
      return { digest: digestOf(await newEntries(store, Object.fromEntries(keys.map((key) => [key, ''])))) }
    } finally {
      await store.close()
    }
  } catch (error) {
    const refused = error instanceof EngineError ? error.reason : 'no EngineError'
    return { refused, message: String(error) }
  }
}

if (send === undefined) throw new Error('this is run by damaged-format-1')
