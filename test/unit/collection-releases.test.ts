import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { callOperation } from '../../src/engine/contract.js'
import { openEngine, type Engine, type Session, type Storage, type Store } from '../../src/index.js'
import { limits } from '../../src/engine/base/limits.js'
import { keys, prefixEnd } from '../../src/engine/storage/keys.js'
import { letGo } from '../support/garbage.js'
import { storages } from '../support/storages.js'

const lasting = storages.filter(([, , isLasting]) => isLasting)

/** Data that an operation used can be collected right after it, without waiting for JavaScript's garbage collector. */
describe.each(lasting)('a collection right after an operation, on %s,', (_name, makeStorage) => {
  let directory: string
  let storage: Storage
  let store: Store
  let engine: Engine
  let session: Session
  let lastEventId: string
  /** Blocks reads of the store while it is set. */
  let gate: Promise<void> | undefined

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'releases-'))
    const made = makeStorage(join(directory, 's'))
    storage = {
      open: async () => {
        store = await made.open()
        const blob = store.blob.bind(store)
        store.blob = async (...range) => {
          await gate
          return blob(...range)
        }
        return store
      },
    }
    engine = await openEngine({ storage, memoryBudgetBytes: 2 ** 20 })
    session = await engine.sessions.create()
    await session.files.write({ path: '/a', content: 'first' })
    await session.checkpoint({ checkpointLabel: 'one' })
    await session.files.write({ path: '/a', content: 'second' })
    await session.checkpoint({ checkpointLabel: 'two' })
    await session.files.write({ path: '/a', content: 'third' })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function blobsAfterCollection(): Promise<number> {
    await engine.collect()
    return (await store.listBlobs!('', 1000)).length
  }

  test('frees the data of an exported bundle', async () => {
    let bytes = 0
    for await (const chunk of session.exportBundle()) bytes += chunk.length
    expect(bytes).toBeGreaterThan(0)
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('frees the data of a bundle that was only partially read', async () => {
    for await (const _chunk of session.exportBundle()) break
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('keeps the data of a bundle that is being written', async () => {
    const chunks = session.exportBundle()[Symbol.asyncIterator]()
    await chunks.next()
    await session.delete()
    await engine.collect()
    while ((await chunks.next()).done !== true);
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('keeps attributes and hard links of a bundle that are removed during its export', async () => {
    const other = await engine.sessions.create()
    await other.files.write({ path: '/before', content: randomBytes(2 ** 21) })
    await other.fs.promises.mkdir('/d')
    const value = randomBytes(20_000)
    await other.files.setXattr({ path: '/d', name: 'user.a', value })
    const content = randomBytes(30_000)
    await other.files.write({ path: '/one', content })
    await other.fs.promises.link('/one', '/two')
    const exported = other.exportBundle()[Symbol.asyncIterator]()
    const chunks = [(await exported.next()).value!]
    await other.files.removeXattr({ path: '/d', name: 'user.a' })
    for (const path of ['/one', '/two']) await other.files.delete({ path })
    await engine.collect()
    const lengths = (await store.listBlobs!('', 1000)).map(({ bytes }) => bytes)
    expect(lengths).toEqual(expect.arrayContaining([value.length, content.length]))
    for (let step = await exported.next(); step.done !== true; step = await exported.next())
      chunks.push(step.value)
    const imported = await engine.sessions.importBundle(Buffer.concat(chunks))
    const kept = await imported.files.getXattr({ path: '/d', name: 'user.a' })
    expect(value.equals(kept.value)).toBe(true)
    expect(content.equals(await imported.files.read({ path: '/two' }))).toBe(true)
  })

  test.each<[name: string, call: (session: Session) => Promise<unknown>]>([
    ['an undo', (reopened) => reopened.undo()],
    ['a dry run of an undo', (reopened) => reopened.undo({ dryRun: true })],
    ['a restore', (reopened) => reopened.restore({ from: { eventId: lastEventId } })],
    [
      'a dry run of a restore',
      (reopened) => reopened.restore({ from: { eventId: lastEventId }, dryRun: true }),
    ],
  ])('frees the state of %s that was read from its snapshot', async (_call, call) => {
    lastEventId = (await session.events.list()).events.at(-1)!.eventId
    await engine.close()
    engine = await openEngine({ storage, memoryBudgetBytes: 2 ** 20 })
    session = await engine.sessions.open(session.id)
    await session.files.write({ path: '/b', content: 'later' })
    await call(session)
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test.each<[name: string, use: (session: Session) => Promise<unknown>]>([
    ['diff', (reopened) => reopened.diff({ eventId: lastEventId }).paths()],
    ['tar', (reopened) => reopened.exportTar()[Symbol.asyncIterator]().next()],
    ['view', async (reopened) => (await reopened.at()).fs.promises.readFile('/a')],
    ['draft', async (reopened) => (await reopened.draft()).files.read({ path: '/a' })],
    [
      'directory handle',
      async () => {
        const { files, fs } = await engine.sessions.create({ files: { '/d/one': 'one' } })
        await fs.promises.readFile('/d/one')
        fs.openSync('/d', 'r')
        await files.write({ path: '/d/two', content: 'two' })
      },
    ],
  ])('frees the stored states of a %s that was dropped', async (_name, use) => {
    lastEventId = (await session.events.list()).events.at(-1)!.eventId
    await engine.close()
    engine = await openEngine({ storage, memoryBudgetBytes: 2 ** 20 })
    session = await engine.sessions.open(session.id)
    await use(session)
    for (const { id } of (await engine.sessions.list()).sessions) await engine.sessions.delete(id)
    for (let i = 0; i < 3; i++) await letGo()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('frees the data of an aborted commit', async () => {
    const signal = AbortSignal.abort(new Error('stop'))
    await expect(session.commit({ message: 'm', signal })).rejects.toThrow('stop')
    const changed = session.files.write({ path: '/a', content: 'fourth' })
    // Aborts after a pending change.
    await expect(session.commit({ message: 'm', signal })).rejects.toThrow('stop')
    await changed
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('frees the data of a disposed diff after a running iteration', async () => {
    const diff = session.diff({ checkpointLabel: 'one' })
    const changes = diff[Symbol.asyncIterator]()
    expect(await changes.next()).toMatchObject({ value: { path: '/a', change: 'modified' } })
    await session.delete()
    diff[Symbol.dispose]()
    await engine.collect()
    expect(await changes.next()).toMatchObject({ done: true })
    await expect(diff.paths()).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('frees the data of a diff that was disposed before it resolved its states', async () => {
    const diff = session.diff({ checkpointLabel: 'one' })
    diff[Symbol.dispose]()
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('keeps the data of a diff that can be read again', async () => {
    const diff = session.diff({ checkpointLabel: 'one' })
    expect((await diff.paths()).modified).toEqual(['/a'])
    await session.delete()
    await engine.collect()
    expect((await diff.paths()).modified).toEqual(['/a'])
  })

  test('frees the data of a diff page', async () => {
    const sides = { sessionId: session.id, from: { checkpointLabel: 'one' } }
    const { changes } = await callOperation(engine, 'diff', sides)
    expect(changes).toMatchObject([{ path: '/a' }])
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('frees the data of a watched restore after the watcher has been notified', async () => {
    const watcher = session.fs.watch('/', { recursive: true })
    const notified = new Promise((resolve) => watcher.once('change', resolve))
    await session.restore({ checkpointLabel: 'one' })
    await notified
    watcher.close()
    await session.delete()
    expect(await blobsAfterCollection()).toBe(0)
  })

  test('keeps the data of a watched restore until the watcher has been notified', async () => {
    const watcher = session.fs.watch('/', { recursive: true })
    const notified = new Promise((resolve) => watcher.once('change', (_type, name) => resolve(name)))
    const restored = session.restore({ checkpointLabel: 'one' })
    await Promise.all([restored, engine.collect()])
    expect(await notified).toBe('a')
    watcher.close()
  })

  test.each([2, 6])('keeps a content of %i MiB that is read while its file is deleted', async (mebibytes) => {
    const other = await engine.sessions.create()
    const content = randomBytes(mebibytes * 2 ** 20)
    await other.files.write({ path: '/large', content })
    let open = (): void => undefined
    gate = new Promise((resolve) => {
      open = resolve
    })
    const read = other.files.read({ path: '/large' })
    await other.files.delete({ path: '/large' })
    await engine.collect()
    open()
    gate = undefined
    expect(content.equals(await read)).toBe(true)
  })

  test('frees snapshots that no checkpoint needs even if older redo stays', async () => {
    const other = await engine.sessions.create()
    const write = async (): Promise<void> => {
      const { eventsPerSnapshot } = limits
      const writes = Array.from({ length: eventsPerSnapshot + 1 }, async () =>
        other.files.write({ path: '/a', content: 'a' }),
      )
      await Promise.all(writes)
    }
    const snapshots = async (): Promise<number> => {
      const gte = keys.snapshots(other.id)
      return (await store.scan({ gte, lt: prefixEnd(gte), limit: 100 })).length
    }
    await other.checkpoint({ checkpointLabel: 'first' })
    await write()
    const second = await other.checkpoint({ checkpointLabel: 'second' })
    await write()
    await other.checkpoint({ checkpointLabel: 'third' })
    await engine.collect()
    const before = await snapshots()
    await other.deleteCheckpoint({ checkpointId: second.id })
    await engine.collect()
    expect(await snapshots()).toBeLessThan(before)
  })

  test('frees the data of an open file and an open directory', async () => {
    const file = await session.fs.promises.open('/a')
    const directories = await session.fs.promises.opendir('/')
    await session.delete()
    await engine.collect()
    await file.close().catch(() => undefined)
    await directories.close().catch(() => undefined)
    expect(await blobsAfterCollection()).toBe(0)
  })
})
