import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { keys, limits, prefixEnd } from '../../src/engine/ports.js'
import { openEngine, type Engine, type Session, type Store } from '../../src/index.js'
import { isLong } from '../support/seed.js'

describe('snapshots on a durable store', () => {
  let directory: string
  let store: Store
  let engine: Engine

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'snapshots-'))
    const storage = levelStorage(join(directory, 'data'), { durability: 'relaxed' })
    engine = await openEngine({ storage: { open: async () => (store = await storage.open()) } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  /** Makes a session with this many files, and writes to files all over its tree. Returns the seqs of its snapshots. */
  async function snapshotsOf(files: number, writes: number): Promise<readonly number[]> {
    const pathOf = (n: number): string => `/d${n % 16}/${n % files}`
    const entries = Array.from({ length: files }, (_, n): [string, string] => [pathOf(n), `${n}`])
    const session = await engine.sessions.create({ files: Object.fromEntries(entries) })
    for (let n = 0; n < writes; n++)
      await session.files.write({ path: pathOf(n * 7), content: `changed ${n}` })
    return seqsOf(session)
  }

  async function seqsOf({ id }: Session): Promise<readonly number[]> {
    const gte = keys.snapshots(id)
    const found = await store.scan({ gte, lt: prefixEnd(gte), limit: 100 })
    return found.map(([, json]) => (JSON.parse(json) as { seq: number }).seq)
  }

  test('are written every 2,000 events while they are small', async () => {
    const { eventsPerSnapshot: step } = limits
    const [first, second] = await snapshotsOf(100, 2.2 * step)
    expect(first).toBeGreaterThanOrEqual(step)
    expect(first).toBeLessThan(1.2 * step)
    expect(second! - first!).toBeGreaterThanOrEqual(step)
    expect(second! - first!).toBeLessThan(1.2 * step)
  })

  test.runIf(isLong)(
    'are written less often once one has cost more than the replay of 2,000 events',
    async () => {
      const { eventsPerSnapshot: step } = limits
      const [first, second] = await snapshotsOf(12_000, 3.5 * step)
      expect(first).toBeLessThan(1.2 * step)
      expect(second! - first!).toBeGreaterThan(1.5 * step)
    },
  )
})
