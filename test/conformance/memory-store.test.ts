import { memoryStorage } from '../../src/engine/storage/memory-store.js'
import type { MemoryStorageOptions } from '../../src/engine/storage/memory-store.js'
import { expect, test } from 'vitest'
import { storeSuite } from './store.js'

suite('memory', {})
suite('memory, durable', { durable: true })
suite('memory, durable, without synchronous reads', { durable: true, syncReads: false })

test('a durable memory store rejects a commit with an event body that is not a JSON array', async () => {
  const store = await memoryStorage({ durable: true }).open()
  for (const body of ['', '{', '{}', 'null', '"text"']) {
    const commit = store.commit({ events: [{ sessionId: 'one', seq: 1, body }], put: [['key', 'value']] })
    await expect(commit, body).rejects.toThrow(/JSON/)
    expect(await store.lastEvent('one')).toBeUndefined()
    expect(await store.get('key')).toBeUndefined()
  }
  expect(await store.commit({ events: [{ sessionId: 'one', seq: 1, body: '[1]' }] })).toBe(true)
  expect(await store.lastEvent('one')).toMatchObject({ seq: 1, body: [1] })
})

function suite(name: string, options: MemoryStorageOptions): void {
  storeSuite({
    name,
    capabilities: { durable: options.durable ?? false, syncReads: options.syncReads ?? true },
    create: () => Promise.resolve({ storage: memoryStorage(options), cleanup: () => Promise.resolve() }),
  })
}
