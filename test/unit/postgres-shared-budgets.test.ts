/** Budgets of several engines on one schema. */
import { afterEach, describe, expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { limits, openEngine, type Budgets, type Engine, type Session } from '../../src/index.js'
import { lowerBound } from '../support/lower-bound.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { SteppedStorage } from '../support/stepped-storage.js'

const kb = 1000
const usedUp = (budget: string): object => ({ reason: 'BUDGET', details: { budget } })

describe.skipIf(!hasPostgres)('budgets on a shared schema', () => {
  const open: Engine[] = []
  afterEach(async () => {
    for (const engine of open.splice(0)) await engine.close()
  })

  async function storageOn(schema: string): Promise<SteppedStorage> {
    const { connectionString } = await sharedPostgres()
    return new SteppedStorage(postgresStorage({ connectionString, schema, shared: true, freshnessMillis: 1 }))
  }

  async function engineOn(storage: SteppedStorage, budgets: Budgets): Promise<Engine> {
    const engine = await openEngine({ storage, budgets })
    open.push(engine)
    return engine
  }

  const bytes = (count: number, fill: string): Buffer => Buffer.alloc(count * kb, fill)
  const write = (session: Session, path: string, content: Buffer): Promise<void> =>
    session.files.write({ path, content })

  function countOften(): void {
    lowerBound(limits, 'sharedSweepMs', 20)
    lowerBound(limits, 'sharedRecountMs', 20)
  }

  test('the bytes of a tenant include those that other engines stored before and meanwhile', async () => {
    countOften()
    const schema = freshSchema()
    const first = await engineOn(await storageOn(schema), {})
    const session = await first.sessions.create({ files: { '/a': bytes(60, 'a') } })
    const second = await engineOn(await storageOn(schema), { tenantBytes: 100 * kb })
    const other = await second.sessions.open(session.id)
    await expect(write(other, '/b', bytes(50, 'b'))).rejects.toMatchObject(usedUp('tenantBytes'))
    await write(other, '/b', bytes(30, 'b'))
    const most = Buffer.alloc(9950, 'c')
    await write(session, '/c', most)
    let tries = 0
    const more = (): Promise<unknown> =>
      write(other, '/d', Buffer.from(`${++tries}`.padEnd(100))).catch(
        (error: { reason: string }) => error.reason,
      )
    await expect.poll(more, { timeout: 10_000 }).toBe('BUDGET')
    // Content that is stored already still counts once.
    await write(other, '/e', most)
  })

  test('a commit that another engine overtook and that was not repeated does not stay counted', async () => {
    countOften()
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const budgets = { tenantBytes: 100 * kb, sessionBytes: 100 * kb }
    const a = await engineOn(steps, budgets)
    const b = await engineOn(await storageOn(schema), budgets)
    const session = await a.sessions.create({ files: { '/a': '1' } })
    const other = await b.sessions.open(session.id)
    const held = steps.hold('commit', ({ events }) => events !== undefined)
    const expectedHash = await session.files.contentHash('/a')
    const lost = session.files.write({ path: '/a', content: bytes(60, 'a'), expectedHash })
    await held.reached
    await write(other, '/a', bytes(1, 'b'))
    held.release()
    await expect(lost).rejects.toMatchObject({ reason: 'HASH_MISMATCH' })
    await expect
      .poll(() => write(session, '/c', bytes(90, 'c')).then(() => 'written'), { timeout: 10_000 })
      .toBe('written')
  })

  test('the bytes of a session are those of all engines that change it', async () => {
    const schema = freshSchema()
    const budgets = { sessionBytes: 100 * kb }
    const [a, b] = [
      await engineOn(await storageOn(schema), budgets),
      await engineOn(await storageOn(schema), budgets),
    ]
    const session = await a.sessions.create()
    const both = [session, await b.sessions.open(session.id)]
    // Most of these are overtaken by the other engine, and run again.
    const written = await Promise.allSettled(
      Array.from({ length: 40 }, (_, i) =>
        write(both[i % 2]!, `/${i}`, bytes(5, String.fromCharCode(97 + i))),
      ),
    )
    const failed = written.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []))
    expect(failed).toHaveLength(20)
    for (const error of failed) expect(error).toMatchObject(usedUp('sessionBytes'))
    for (const one of both) {
      await expect(write(one, '/more', bytes(1, 'x'))).rejects.toMatchObject(usedUp('sessionBytes'))
      expect((await one.fs.promises.readdir('/')).length).toBe(20)
    }
  })
})
