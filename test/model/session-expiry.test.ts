/** No session is deleted or hidden within its time to live, however the wall clock jumps and whenever sessions leave memory. */
import { expect, test, vi } from 'vitest'
import { limits, memoryStorage, openEngine, type Session, type Store } from '../../src/index.js'
import { itemAt } from '../../src/engine/base/present.js'
import { fixedEnvironment, randomWords } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { runs, seed } from '../support/seed.js'

const jumps = [2000, 60_000, 240_000, 290_000, 310_000, 3_600_000, 86_400_000, 31e9]

/**
 * Returns the steps up to the first one at which a session in use was gone; undefined if there is none. Other sessions with
 * times to live are used too.
 */
async function firstLoss(run: number, otherCount: number): Promise<readonly string[] | undefined> {
  const next = randomWords(seed * 100_003 + run)
  const below = (count: number): number => next() % count
  const start = Date.UTC(2030, 0, 1)
  let wall = start
  let monotonic = 0
  const environment = { ...fixedEnvironment(), wallClockMs: () => wall, monotonicMs: () => monotonic }
  const inner = memoryStorage({ durable: true })
  let store: Store | undefined
  const storage = { open: async () => (store = await inner.open()) }
  const engine = await openEngine({ storage, environment })
  const other = await engine.sessions.create()
  const ttlMs = itemAt([60_000, 600_000, 3_600_000], below(3))
  const session = await engine.sessions.create({ ttlSeconds: ttlMs / 1000, files: { '/a': 'a' } })
  const others: Session[] = []
  for (let n = 0; n < otherCount; n++)
    others.push(await engine.sessions.create({ ttlSeconds: 1e7, files: { '/a': 'a' } }))
  let usedAt = 0
  const steps: string[] = []

  async function drop(step: number): Promise<void> {
    if (store !== undefined) vi.spyOn(store, 'commit').mockRejectedValueOnce(new Error('the disk failed'))
    await other.files.write({ path: '/x', content: String(step) }).catch(() => undefined)
  }

  const use = (): Promise<unknown> =>
    below(2) === 0
      ? session.files.read({ path: '/a' })
      : session.files.write({ path: '/a', content: String(monotonic) })

  try {
    for (let step = 0; step < 50; step++) {
      const ms = Math.floor(ttlMs * itemAt([0.01, 0.1, 0.3, 0.6, 0.95], below(5)))
      monotonic += ms
      wall += ms
      if (below(4) === 0) {
        if (below(3) === 0) wall = start + monotonic
        else wall += (below(2) === 0 ? -1 : 1) * itemAt(jumps, below(jumps.length))
      }
      steps.push(`${monotonic}, ahead by ${wall - start - monotonic}`)
      if (below(3) === 0) {
        steps.push('drop')
        await drop(step)
      }
      if (below(6) === 0) await engine.collect()
      const isInUse = monotonic - usedAt < ttlMs
      const { sessions } = await engine.sessions.list()
      if (isInUse && sessions.every(({ id }) => id !== session.id)) return [...steps, 'list']
      if (otherCount > 0 && below(2) === 0) {
        steps.push('use of others')
        for (const one of others) await one.files.read({ path: '/a' })
      }
      if (below(3) === 0) continue
      const isThere = await use().then(
        () => true,
        () => false,
      )
      steps.push('use')
      if (!isThere) return isInUse ? steps : undefined
      usedAt = monotonic
    }
    return undefined
  } finally {
    await engine.close()
  }
}

test('a session is kept while it is in use', async () => {
  for (let run = 0; run < runs(1000); run++) expect([run, await firstLoss(run, 0)]).toEqual([run, undefined])
}, 120_000)

test('a session is kept while it is in use, although its last use may be forgotten', async () => {
  lowerBound(limits, 'lastUses', 2)
  for (let run = 0; run < runs(500); run++) expect([run, await firstLoss(run, 3)]).toEqual([run, undefined])
}, 120_000)
