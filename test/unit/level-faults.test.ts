/** Fails each file change of a store once, or ends the process there. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { indexName, segmentsName } from '../../src/adapters/level/directory/manifest.js'
import { indexFileName, openIndexFile } from '../../src/adapters/level/index/index-file.js'
import type { IndexDatabase, OpenIndex } from '../../src/adapters/level/index/index-database.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import type { Store, StoreFinding } from '../../src/engine/ports.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { blobOf, openSmall, reasonOf, sessionId } from '../support/level-world.js'
import { runs } from '../support/seed.js'

const session = sessionId(1)
const count = 60

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-faults-'))
})

afterEach(() => rm(directory, { recursive: true, force: true }))

type Outcome = 'stored' | 'unknown' | 'not-applied'

/** Makes commits with numbered events, and records the outcome of each. */
class Writer {
  readonly outcomes: Outcome[] = []
  failures = 0
  #next = 1

  /** Commits until all numbers are used; lets the store recover after failures. */
  async write(store: Store, recover: boolean): Promise<void> {
    while (this.#next <= count) {
      const group = [0, 1, 2].map((i) => this.#commit(store, this.#next + i))
      for (const outcome of await Promise.all(group)) {
        this.outcomes.push(outcome)
        this.#next++
      }
      if (this.outcomes.at(-1) === 'stored') continue
      if (!recover) return
      await this.#recover(store)
      // The failed commits may be stored after all, from the first one on.
      this.#next = ((await store.lastEvent(session))?.seq ?? 0) + 1
      this.outcomes.fill('stored', 0, this.#next - 1)
      this.outcomes.length = this.#next - 1
    }
  }

  async #commit(store: Store, n: number): Promise<Outcome> {
    try {
      await store.commit(commitOf(n))
      return 'stored'
    } catch (error) {
      this.failures++
      reasonOf(error)
      return (error as { details: { outcome: Outcome } }).details.outcome
    }
  }

  async #recover(store: Store): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return await store.recover!()
      } catch (error) {
        if (tries > 3) throw error
        reasonOf(error)
      }
    }
  }
}

function commitOf(n: number): Parameters<Store['commit']>[0] {
  return {
    events: [{ sessionId: session, seq: n, body: [n] }],
    put: [
      ['head', String(n)],
      [`k${n % 20}`, `value ${n}`.repeat(20)],
    ],
    blobs: [blobOf(n, 400)],
    ...(n > 10 && { deleteBlobs: [blobOf(n - 10, 400).hash] }),
  }
}

/** Requires a prefix of the commits that includes at least all acknowledged ones. */
async function checkPrefix(store: Store, outcomes: readonly Outcome[]): Promise<void> {
  const last = (await store.lastEvent(session))?.seq ?? 0
  const acknowledged = outcomes.lastIndexOf('stored') + 1
  expect(last).toBeGreaterThanOrEqual(acknowledged)
  expect(outcomes.slice(last).includes('stored')).toBe(false)
  expect(outcomes.slice(0, last)).not.toContain('not-applied')
  let seq = 0
  for await (const page of store.events(session, { from: 1, to: Infinity })) {
    for (const { body } of page) expect(body).toEqual([++seq])
  }
  expect(seq).toBe(last)
  expect(await store.get('head')).toBe(last === 0 ? undefined : String(last))
  for (let n = Math.max(1, last - 19); n <= last; n++) {
    expect(await store.get(`k${n % 20}`)).toBe(`value ${n}`.repeat(20))
  }
  const blobs = (await store.listBlobs!('', 1000)).map(({ hash }) => hash)
  const wanted: string[] = []
  for (let n = Math.max(1, last - 9); n <= last; n++) wanted.push(blobOf(n, 400).hash)
  expect(blobs).toEqual(wanted.sort())
  for (const hash of wanted) {
    expect(store.blobSync!(hash, { offset: 0, length: 400 })).toBeDefined()
  }
}

/** The numbers of the changes to fail, spread over all changes. */
function points(total: number): number[] {
  const step = Math.max(1, Math.floor(total / runs(160)))
  return Array.from({ length: Math.ceil(total / step) }, (_, i) => i * step + 1 + (i % step))
}

describe.each(['full', 'relaxed'] as const)('with durability %s', (durability) => {
  async function run(disk: FaultyDisk, name: string, recover: boolean): Promise<Writer> {
    const writer = new Writer()
    const data = join(directory, name)
    const store = await openSmall(data, { durability, disk }).catch((error: unknown) => {
      reasonOf(error)
      return undefined
    })
    if (store === undefined) return writer
    await writer.write(store, recover)
    const reclaimed = await store.reclaim().then(
      () => true,
      (error: unknown) => {
        reasonOf(error)
        return false
      },
    )
    if (recover) {
      if (!reclaimed) await store.recover()
      await checkPrefix(store, writer.outcomes)
    }
    await store.close().catch(reasonOf)
    return writer
  }

  async function total(): Promise<number> {
    const disk = new FaultyDisk()
    const writer = await run(disk, 'whole', true)
    expect(writer.outcomes).toEqual(Array(count).fill('stored'))
    return disk.operations
  }

  test('a single failed change loses no acknowledged commit', { timeout: 300_000 }, async () => {
    let failures = 0
    for (const code of ['EIO', 'ENOSPC']) {
      for (const failAt of points(await total())) {
        const disk = Object.assign(new FaultyDisk(), { failAt, code })
        const name = `${code}-${failAt}`
        try {
          const writer = await run(disk, name, true)
          failures += writer.failures
          const again = await openSmall(join(directory, name), { durability })
          await checkPrefix(again, writer.outcomes)
          await again.close()
        } catch (error) {
          throw new Error(`${name}: ${disk.log[failAt - 1]}`, { cause: error })
        }
        await rm(join(directory, name), { recursive: true })
      }
    }
    expect(failures).toBeGreaterThan(runs(50))
  })

  test('a process that ends at any change loses no acknowledged commit', { timeout: 300_000 }, async () => {
    const tried = points(await total())
    expect(tried.length).toBeGreaterThan(runs(100))
    for (const failAt of tried) {
      const disk = Object.assign(new FaultyDisk(), { failAt, forEver: true })
      const name = `end-${failAt}`
      try {
        const { outcomes } = await run(disk, name, false)
        for (let times = 0; times < 2; times++) {
          const again = await openSmall(join(directory, name), { durability })
          await checkPrefix(again, outcomes)
          await again.close()
        }
      } catch (error) {
        throw new Error(`${name}: ${disk.log[failAt - 1]}`, { cause: error })
      }
      await rm(join(directory, name), { recursive: true, force: true })
    }
  })

  test('an index that cannot be written is reopened', { timeout: 120_000 }, async () => {
    for (const failAt of [1, 2, 3, 5]) {
      const index = new FaultyIndex(failAt)
      const data = join(directory, `index-${failAt}`)
      const store = await openSmall(data, { durability, openIndex: index.open })
      const writer = new Writer()
      await writer.write(store, true)
      // A flush in the background may not have finished.
      await store.reclaim().catch(reasonOf)
      expect(index.failed).toBe(true)
      await store.recover()
      await checkPrefix(store, writer.outcomes)
      await store.close()
      const again = await openSmall(data, { durability })
      await checkPrefix(again, writer.outcomes)
      await again.close()
    }
  })

  test('a check finds no damage after an index of many batches was replaced', async () => {
    const index = new FaultyIndex(100)
    const data = join(directory, 'many')
    const store = await openSmall(data, { durability, openIndex: index.open })
    for (let n = 0; !index.failed; n++) await store.commit({ put: [[`a${n}`, 'value']] }).catch(reasonOf)
    // A flush in the background may not have finished.
    await store.reclaim().catch(reasonOf)
    await store.recover()
    for (let n = 0; n < 20; n++) await store.commit({ put: [[`b${n}`, 'value']] })
    const findings: StoreFinding[] = []
    for await (const finding of store.check({})) findings.push(finding)
    expect(findings).toEqual([])
    await store.close()
    const again = await openSmall(data, { durability })
    expect(await again.get('b19')).toBe('value')
    await again.close()
  })

  test('no space is reclaimed while the store accepts no commits', async () => {
    const index = new FaultyIndex(2)
    const store = await openSmall(join(directory, 'failed'), { durability, openIndex: index.open })
    for (let n = 0; !index.failed; n++) await store.commit({ put: [['a', String(n)]] }).catch(reasonOf)
    // A flush in the background may not have finished.
    await store.reclaim().catch(reasonOf)
    await expect(store.reclaim()).rejects.toMatchObject({ details: { outcome: 'not-applied' } })
    const recovered = store.recover()
    await expect(store.reclaim()).rejects.toMatchObject({ details: { outcome: 'not-applied' } })
    await recovered
    await store.reclaim()
    await store.close()
  })

  test('a check finds no damage while the index is replaced', async () => {
    const index = new FaultyIndex(1)
    const checks: Promise<StoreFinding[]>[] = []
    const findings = async (): Promise<StoreFinding[]> => {
      const found: StoreFinding[] = []
      for await (const finding of store.check({})) found.push(finding)
      return found
    }
    const store = await openSmall(join(directory, 'checked'), {
      durability,
      openIndex: async (disk, path, options) => {
        if (index.failed) checks.push(findings())
        const db = await index.open(disk, path, { reset: index.failed || options.reset })
        // This check looks at the new file, while the store still uses the old one.
        if (index.failed) checks.push(findings())
        await sleep(20)
        return db
      },
    })
    await new Writer().write(store, true)
    await store.reclaim().catch(reasonOf)
    checks.push(findings())
    const recovered = store.recover()
    checks.push(findings())
    await recovered
    checks.push(findings())
    expect(checks.length).toBeGreaterThan(4)
    expect((await Promise.all(checks)).flat()).toEqual([])
    await store.close()
  })
})

class FaultyIndex {
  failed = false
  readonly #failAt: number
  #batches = 0

  constructor(failAt: number) {
    this.#failAt = failAt
  }

  readonly open: OpenIndex = async (disk, path, options) => {
    const db = await openIndexFile(disk, path, options)
    const faulty: IndexDatabase = {
      getSync: (key) => db.getSync(key),
      damages: () => db.damages(),
      compact: () => db.compact(),
      close: (options) => db.close(options),
      batch: async (operations, options) => {
        if (++this.#batches !== this.#failAt) return db.batch(operations, options)
        this.failed = true
        // The batch may be written despite the error.
        if (this.#failAt % 2 === 0) await db.batch(operations, options)
        throw new Error('IO error: 000003.log: No space left on device')
      },
    }
    return faulty
  }
}

test('an index that is rebuilt refers only to frames that are on the disk', async () => {
  const sizes = { segmentBytes: 2 ** 26, flushEntries: 2 ** 20, flushBytes: 2 ** 26 }
  const store = await openSmall(directory, sizes)
  for (let from = 0; from < levelLimits.rebuiltEntries; from += 4096)
    await store.commit({ put: Array.from({ length: 4096 }, (_, i) => [`k${from + i}`, 'v']) })
  await store.close()
  await rm(join(directory, indexName, indexFileName))
  const disk = new FaultyDisk()
  const again = await openSmall(directory, { ...sizes, disk })
  const steps = disk.log.map((step) => step.replaceAll(`${directory}/`, ''))
  const lastPages = steps.lastIndexOf(`write ${indexName}/${indexFileName}`)
  expect(lastPages).toBeGreaterThan(0)
  expect(steps.slice(0, lastPages)).toContain(`sync ${segmentsName}/00000001.seg`)
  await again.close()
})
