/** A merge finds the state from which a fork of deleted sessions started, in whatever order these have their ids. */
import { expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'

/** The hours at which the root, its fork, the fork of that one, and so on are made. */
const orders = [
  [0, 1, 2, 3],
  [0, 3, 2, 1],
  [3, 2, 1, 0],
  [1, 3, 0, 2],
  [1, 0, 3, 2],
  [0, 2, 3, 1],
]

test.each(orders)('also if they were made at the hours %d, %d, %d and %d', async (...hours) => {
  const storage = memoryStorage({ durable: true })
  const at = (hour: number): Promise<Engine> =>
    openEngine({
      storage,
      environment: fixedEnvironment({ startMs: Date.UTC(2025, 0, 1) + hour * 3_600_000 }),
    })
  const chain: string[] = []
  for (const [depth, hour] of hours.entries()) {
    await using engine = await at(hour)
    const parent = chain.at(-1)
    const session =
      parent === undefined
        ? await engine.sessions.create({ files: { '/shared': 'shared' } })
        : await (await engine.sessions.open(parent)).fork()
    await session.files.write({ path: `/${depth}`, content: `${depth}` })
    chain.push(session.id)
  }
  const [root, one, two, leaf] = chain as [string, string, string, string]
  await using engine = await at(9)
  for (const id of [one, two]) await (await engine.sessions.open(id)).delete()
  const [target, source] = [await engine.sessions.open(root), await engine.sessions.open(leaf)]
  // The common state has this file, so its deletion is a change of one side.
  await source.files.delete({ path: '/0' })
  for (let round = 0; round < 2; round++) await engine.collect()
  expect(await target.merge(source)).toMatchObject({ conflicts: [] })
  expect(target.fs.readdirSync('/').sort()).toEqual(['1', '2', '3', 'shared'])
  expect((await engine.check()).findings).toEqual([])
})
