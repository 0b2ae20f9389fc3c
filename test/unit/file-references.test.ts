import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  memoryStorage,
  openEngine,
  PosixLockKind,
  type Engine,
  type Session,
} from '../../src/index.js'
import type { Store } from '../../src/engine/ports.js'
import { isLong } from '../support/seed.js'

const kind = PosixLockKind.EXCLUSIVE
const range = { start: 0, length: 0 }

describe.each([
  ...(isLong ? [['memory', () => memoryStorage()] as const] : []),
  [
    'durable memory without synchronous reads',
    () => memoryStorage({ durable: true, syncReads: false }),
  ] as const,
])('a locked file on %s', (_name, makeStorage) => {
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    engine = await openEngine({ storage: makeStorage() })
    session = await engine.sessions.create({ files: { '/a': '1', '/d/x': '2' } })
  })

  afterEach(() => engine.close())

  const lock = (path: string): Promise<void> =>
    session.posixLocks.set({ path, kind, range, owner: { ownerId: 'a' } })
  const isLocked = async (path: string): Promise<boolean> =>
    (await session.posixLocks.get({ path, kind, range, owner: { ownerId: 'other' } })).hasConflict

  test('stays locked under each of its names until the last is removed', async () => {
    const { files } = session
    await lock('/a')
    await files.link({ srcPath: '/a', dstPath: '/d/b' })
    await files.link({ srcPath: '/a', dstPath: '/d/c' })
    expect([await isLocked('/d/b'), await isLocked('/d/c'), await isLocked('/d/x')]).toEqual([
      true,
      true,
      false,
    ])
    await files.unlink({ path: '/a' })
    await files.write({ path: '/a', content: 'another' })
    expect([await isLocked('/a'), await isLocked('/d/b')]).toEqual([false, true])
    await files.rename({ sourcePath: '/d', destinationPath: '/e' })
    await files.rename({ sourcePath: '/e/b', destinationPath: '/b' })
    expect([await isLocked('/b'), await isLocked('/e/c')]).toEqual([true, true])
    await files.rename({ sourcePath: '/e/c', destinationPath: '/b' })
    expect([await isLocked('/b'), await isLocked('/e/c')]).toEqual([true, true])
    await files.rename({ sourcePath: '/e/x', destinationPath: '/b' })
    expect([await isLocked('/b'), await isLocked('/e/c')]).toEqual([false, true])
    await session.fs.promises.rm('/e', { recursive: true })
    await files.write({ path: '/d/b', content: '' })
    expect([await isLocked('/a'), await isLocked('/d/b')]).toEqual([false, false])
  })

  test('that is open keeps its last state after its last name is removed', async () => {
    const { fs, files } = session
    const handle = await fs.promises.open('/a')
    await files.link({ srcPath: '/a', dstPath: '/d/b' })
    await files.unlink({ path: '/a' })
    await files.write({ path: '/a', content: 'another' })
    await files.rename({ sourcePath: '/d', destinationPath: '/e' })
    await fs.promises.writeFile('/e/b', 'last')
    await fs.promises.rm('/e', { recursive: true })
    expect([await handle.readFile('utf8'), (await handle.stat()).nlink]).toEqual(['last', 0])
    await handle.close()
  })

  test('stays locked after a restore to its path before a rename', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await lock('/a')
    await session.files.rename({ sourcePath: '/a', destinationPath: '/b' })
    await session.restore({ checkpointLabel: 'before' })
    expect(await isLocked('/a')).toBe(true)
  })

  test('stays locked after a restore that moves its directory', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await lock('/d/x')
    await session.files.rename({ sourcePath: '/d', destinationPath: '/e' })
    await session.files.write({ path: '/e/y', content: '' })
    await session.restore({ checkpointLabel: 'before' })
    expect(await isLocked('/d/x')).toBe(true)
    await session.checkpoint({ checkpointLabel: 'then' })
    await session.files.delete({ path: '/d/x' })
    await session.restore({ checkpointLabel: 'then' })
    expect(await isLocked('/d/x')).toBe(false)
  })

  test('stays locked after a restore that removes the name used for locking', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    await session.files.link({ srcPath: '/a', dstPath: '/b' })
    await lock('/b')
    await session.restore({ checkpointLabel: 'before' })
    expect(await isLocked('/a')).toBe(true)
  })

  test('is removed cheaply in a batch and keeps its last state', async () => {
    const paths = Array.from({ length: isLong ? 4000 : 1000 }, (_, i) => `/many/${i}`)
    await session.files.batch(paths.map((path) => ({ write: { path, content: '' } })))
    for (const [i, path] of paths.entries())
      await session.posixLocks.set({ path, kind, range, owner: { ownerId: `${i}` } })
    await session.files.link({ srcPath: '/many/0', dstPath: '/other' })
    const open = await session.fs.promises.open('/many/0', 'r')
    await session.files.batch([
      ...Array.from({ length: 9000 }, (_, i) => [
        { write: { path: `/tmp${i % 2}`, content: '' } },
        { delete: { path: `/tmp${i % 2}` } },
      ])
        .flat()
        .slice(0, 9990),
      { delete: { path: '/many/0' } },
      { write: { path: '/other', content: 'last' } },
      { delete: { path: '/other' } },
      { write: { path: '/other', content: 'new' } },
    ])
    expect(await open.readFile('utf8')).toBe('last')
    await open.close()
    expect([await isLocked('/other'), await isLocked('/many/1')]).toEqual([false, true])
  })
})

describe.each([{ syncReads: true }, { syncReads: false }])('in a reloaded session, %o', (reads) => {
  let failing = false
  let release: (() => void) | undefined
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    const inner = memoryStorage({ durable: true, ...reads })
    const open = async (): Promise<Store> => {
      const store = await inner.open()
      const commit = store.commit.bind(store)
      store.commit = async (request) => {
        if (failing) throw new EngineError('STORE_FULL', 'full')
        if (release !== undefined) await new Promise<void>((resolve) => (release = resolve))
        return commit(request)
      }
      return store
    }
    engine = await openEngine({ storage: { open } })
    session = await engine.sessions.create({ files: { '/a': '1', '/d/x': '2' } })
  })

  afterEach(() => engine.close())

  const full = async (change: Promise<unknown>): Promise<void> => {
    await expect(change).rejects.toMatchObject({ reason: 'STORE_FULL' })
    failing = false
  }

  test('tracks locked and open files', async () => {
    const take = (path: string, ownerId: string): Promise<void> =>
      session.posixLocks.set({ path, kind, owner: { ownerId } })
    await take('/a', 'one')
    await take('/d', 'one')
    const open = await session.fs.promises.open('/d/x', 'r+')
    failing = true
    await full(session.files.rename({ sourcePath: '/d', destinationPath: '/e' }))
    await session.files.rename({ sourcePath: '/a', destinationPath: '/b' })
    await session.files.rename({ sourcePath: '/d/x', destinationPath: '/y' })
    for (const path of ['/b', '/d'])
      await expect(take(path, 'two')).rejects.toMatchObject({ reason: 'LOCK_HELD' })
    await open.write('3')
    expect(Buffer.from(await session.files.read({ path: '/y' })).toString()).toBe('3')
    await open.close()
    await session.posixLocks.funlock({ path: '/b', owner: { ownerId: 'one' } })
    await take('/b', 'two')
    await session.files.delete({ path: '/b' })
    await session.files.write({ path: '/b', content: '' })
    await take('/b', 'three')
  })

  test('a flush waits for earlier calls', async () => {
    const other = await engine.sessions.create()
    failing = true
    await full(other.files.write({ path: '/f', content: '' }))
    release = () => undefined
    let stored = false
    const written = session.files.write({ path: '/f', content: '' }).then(() => (stored = true))
    const flushed = session.flush().then(() => stored)
    for (let i = 0; i < 100; i++) await new Promise(setImmediate)
    release()
    release = undefined
    expect(await flushed).toBe(true)
    await written
  })
})
