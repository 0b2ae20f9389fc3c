/** The stored records of checkpoints. */
import { expect, test } from 'vitest'
import { openRepository } from '../../src/engine/contract.js'
import { keys, prefixEnd } from '../../src/engine/ports.js'
import { memoryStorage, openEngine, type Engine, type Session, type Store } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'

const startMs = Date.UTC(2025, 0, 1)

async function labelsOf(session: Session): Promise<string[]> {
  return (await session.listCheckpoints()).checkpoints.map(({ checkpointLabel }) => checkpointLabel)
}

test('are deleted with the commits that were served for them', async () => {
  let store!: Store
  const inner = memoryStorage({ durable: true })
  await using engine = await openEngine({ storage: { open: async () => (store = await inner.open()) } })
  const session = await engine.sessions.create({ files: { '/a': 'one' } })
  const ids: string[] = []
  for (const checkpointLabel of ['one', 'two', 'three']) {
    await session.files.write({ path: '/a', content: checkpointLabel })
    ids.push((await session.checkpoint({ checkpointLabel })).id)
  }
  const repository = await openRepository(engine, session.id)
  await repository.checkpoints()
  await repository.head()
  const of = async (prefix: string): Promise<string[]> => {
    const found = await store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: 10 })
    return found.map(([key]) => key.slice(prefix.length)).sort()
  }
  const served = keys.servedCommit(session.id)
  const [one, two, three] = ids as [string, string, string]
  const whole = await of(served)
  expect(whole.filter((id) => id !== '')).toEqual([...ids].sort())
  await session.deleteCheckpoint({ checkpointLabel: 'two' })
  expect(await of(keys.checkpoints(session.id))).toEqual([one, three].sort())
  expect(await of(served)).toEqual(whole.filter((id) => id !== two))
  expect(await session.pruneCheckpoints({ keepLast: 1 })).toEqual({ deletedCount: 1 })
  expect(await of(keys.checkpoints(session.id))).toEqual([three])
  expect(await of(served)).toEqual(whole.filter((id) => id === '' || id === three))
})

test('are in the order of their states, also after the clock was set back', async () => {
  const storage = memoryStorage({ durable: true })
  const open = (hour: number): Promise<Engine> =>
    openEngine({ storage, environment: fixedEnvironment({ startMs: startMs + hour * 3_600_000 }) })
  let id: string | undefined
  for (const [at, hour] of [5, 3, 9, 1].entries()) {
    await using engine = await open(hour)
    const session = id === undefined ? await engine.sessions.create() : await engine.sessions.open(id)
    id = session.id
    await session.files.write({ path: '/a', content: `${at}` })
    await session.checkpoint({ checkpointLabel: `${at}` })
  }
  await using engine = await open(0)
  const session = await engine.sessions.open(id ?? '')
  expect(await labelsOf(session)).toEqual(['0', '1', '2', '3'])
  await session.pruneCheckpoints({ keepLast: 2 })
  expect(await labelsOf(session)).toEqual(['2', '3'])
})
