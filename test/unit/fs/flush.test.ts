import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Session } from '../../../src/index.js'
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

  test('waits for what was called before it', () =>
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

  test('rejects when a commit failed, once for a synchronous change', () =>
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

test('a loss is told of although later changes were stored', async () => {
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
