import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type Session } from '../../../src/index.js'
import { FailingStorage } from '../../support/failing-storage.js'
import { storages } from '../../support/storages.js'

const lastingStorages = storages.filter(([, , lasting]) => lasting)

describe.each(lastingStorages)('flush() on %s', (_name, make) => {
  async function withSession(
    use: (on: { storage: FailingStorage; session: Session }) => Promise<void>,
  ): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), 'flush-'))
    const storage = new FailingStorage(make(directory))
    const engine = await openEngine({ storage })
    await use({ storage, session: await engine.sessions.create() })
    storage.next = 'commit'
    await engine.close()
    rmSync(directory, { recursive: true })
  }

  test('waits for earlier calls', () =>
    withSession(async ({ storage, session }) => {
      const { fs } = session
      storage.hold()
      const order: string[] = []
      const written = fs.promises.writeFile('/a', 'a').then(() => order.push('written'))
      fs.writeFileSync('/b', 'b')
      const flushed = session.flush().then(() => order.push('flushed'))
      expect(fs.readFileSync('/b', 'utf8')).toBe('b')
      await new Promise(setImmediate)
      expect(order).toEqual([])
      storage.release()
      await Promise.all([written, flushed])
      expect(order).toEqual(['written', 'flushed'])
      await session.flush()
    }))

  test('rejects after a failed commit, once for a synchronous change', () =>
    withSession(async ({ storage, session }) => {
      const { fs } = session
      fs.writeFileSync('/kept', 'kept')
      await session.flush()
      storage.next = 'fail'
      fs.writeFileSync('/lost', 'lost')
      fs.renameSync('/kept', '/moved')
      const failed = expect.objectContaining({ reason: 'STORE_FAILED' }) as Error
      const both = await Promise.allSettled([session.flush(), session.flush()])
      expect(both).toEqual([
        { status: 'rejected', reason: failed },
        { status: 'rejected', reason: failed },
      ])
      expect(await fs.promises.readFile('/kept', 'utf8')).toBe('kept')
      expect(await fs.promises.readdir('/')).toEqual(['kept'])
      await session.flush()
    }))
})

test('flush() reports the first of several losses', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  storage.next = 'pass'
  storage.after = { commits: 1, failure: 'fail' }
  session.fs.writeFileSync('/first', '')
  session.fs.writeFileSync('/second', '')
  await expect(session.flush()).rejects.toMatchObject({
    reason: 'STORE_FAILED',
    message: expect.stringContaining('another engine') as string,
  })
  await engine.close()
})

test('flush() reports a loss even if later changes were stored', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  const { fs } = session
  await fs.promises.writeFile('/kept', '')
  storage.next = 'pass'
  fs.writeFileSync('/lost', '')
  await new Promise(setImmediate)
  expect(await fs.promises.readdir('/')).toEqual(['kept'])
  fs.writeFileSync('/later', '')
  await expect(session.flush()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
  await session.flush()
  expect(fs.readdirSync('/')).toEqual(['kept', 'later'])
  await engine.close()
})

describe.each(storages)('flush() on %s after deletion or close', (_name, make, lasting) => {
  const notThere = { reason: 'SESSION_NOT_FOUND' }
  const isClosed = { reason: 'STORE_CLOSED' }

  async function withEngine(use: (engine: Engine) => Promise<void>): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), 'flush-'))
    const engine = await openEngine({ storage: make(directory), memoryBudgetBytes: 2 ** 20 })
    try {
      await use(engine)
    } finally {
      await engine.close()
      rmSync(directory, { recursive: true })
    }
  }

  test('rejects with STORE_CLOSED after the engine was closed, also for an unloaded session', () =>
    withEngine(async (engine) => {
      const base = await engine.sessions.create({ files: { '/a': 'x' } })
      const left = await base.fork()
      for (let i = 0; i < (lasting ? 400 : 1); i++)
        await (await base.fork()).files.write({ path: '/a', content: `${i}` })
      await left.flush()
      const before = base.flush()
      const closing = engine.close()
      await before
      await closing
      for (const session of [base, left]) await expect(session.flush()).rejects.toMatchObject(isClosed)
    }))

  test('resolves if it was called before close()', () =>
    withEngine(async (engine) => {
      const session = await engine.sessions.create()
      session.fs.writeFileSync('/a', 'a')
      const flushed = session.flush()
      await engine.close()
      expect(await flushed).toBeUndefined()
    }))

  test('rejects with SESSION_NOT_FOUND after the session was deleted through any handle', () =>
    withEngine(async (engine) => {
      const session = await engine.sessions.create()
      const other = await engine.sessions.open(session.id)
      await other.delete()
      await expect(session.flush()).rejects.toMatchObject(notThere)
      await expect(other.flush()).rejects.toMatchObject(notThere)
    }))

  test('does not change close() of open files', () =>
    withEngine(async (engine) => {
      const session = await engine.sessions.create({ files: { '/a': 'x' } })
      const fd = session.fs.openSync('/a', 'r')
      const file = await session.fs.promises.open('/a')
      await engine.close()
      await file.close()
      session.fs.closeSync(fd)
      await expect(session.flush()).rejects.toMatchObject(isClosed)
    }))
})
