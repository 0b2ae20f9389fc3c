import { memoryStorage } from '../../src/engine/storage/memory-store.js'
import type { MemoryStorageOptions } from '../../src/engine/storage/memory-store.js'
import { storeSuite } from './store.js'

suite('memory', {})
suite('memory, durable', { durable: true })
suite('memory, durable, without synchronous reads', { durable: true, syncReads: false })

function suite(name: string, options: MemoryStorageOptions): void {
  storeSuite({
    name,
    capabilities: { durable: options.durable ?? false, syncReads: options.syncReads ?? true },
    create: () => Promise.resolve({ storage: memoryStorage(options), cleanup: () => Promise.resolve() }),
  })
}
