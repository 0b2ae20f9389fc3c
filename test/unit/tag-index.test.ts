import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type Storage } from '../../src/index.js'
import { wrapped } from '../../src/engine/storage/wrapped-store.js'
import { FailingStorage } from '../support/failing-storage.js'
import { runs, seed } from '../support/seed.js'
import { storages } from '../support/storages.js'

/** More sessions than a list reads at once, so that a list by tag needs the index. */
const many = 600

/** Creates sessions with the tags `rank`, from 0 to 99, and `all`. */
async function createMany(engine: Engine): Promise<string[]> {
  const made = Array.from({ length: many }, (_, index) =>
    engine.sessions.create({ initialTags: { rank: String(index % 100), all: 'yes' } }),
  )
  return (await Promise.all(made)).map(({ id }) => id)
}

async function idsOf(engine: Engine, filter: string, pageSize = 100): Promise<string[]> {
  const ids: string[] = []
  let pageToken = ''
  do {
    const page = await engine.sessions.list({ filter, pageSize, pageToken })
    ids.push(...page.sessions.map(({ id }) => id))
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return ids
}

/** A storage that counts the records that its scans return. */
class CountingStorage implements Storage {
  scanned = 0
  readonly #storage: Storage

  constructor(storage: Storage) {
    this.#storage = storage
  }

  async open(): ReturnType<Storage['open']> {
    const store = await this.#storage.open()
    return wrapped(store, {
      scan: async (range) => {
        const found = await store.scan(range)
        this.scanned += found.length
        return found
      },
    })
  }
}

describe.each(storages)('lists by tag on %s', (_name, makeStorage, lasting) => {
  test('read only the sessions with the tag, once all sessions were read', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tags-'))
    const storage = new CountingStorage(makeStorage(directory))
    let engine = await openEngine({ storage })
    const ids = await createMany(engine)
    const expected = ids.filter((_, index) => index % 100 === 7)
    expect(await idsOf(engine, 'rank=7')).toEqual(expected)
    storage.scanned = 0
    expect(await idsOf(engine, 'rank=7', 2)).toEqual(expected)
    expect(await idsOf(engine, 'all=yes', 50)).toEqual(ids)
    expect(await idsOf(engine, 'rank=100')).toEqual([])
    expect(storage.scanned).toBe(0)
    if (lasting) {
      await engine.close()
      engine = await openEngine({ storage })
    }
    expect(await idsOf(engine, 'rank=7')).toEqual(expected)
    await engine.close()
    await rm(directory, { recursive: true })
  })

  test(`agree with a model, whatever happens in between (FORKSPACE_SEED=${seed})`, async () => {
    const step = fc.record({
      kind: fc.constantFrom('list', 'create', 'fork', 'delete', 'deleteMany', 'copy', 'collect', 'reopen'),
      rank: fc.constantFrom('0', '1', '2', '3'),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
        const directory = await mkdtemp(join(tmpdir(), 'tags-'))
        const storage = makeStorage(directory)
        let engine = await openEngine({ storage })
        /** The tag of each session. */
        const model = new Map<string, string>()
        for (const [index, id] of (await createMany(engine)).entries()) model.set(id, String(index % 100))
        const idsWith = (rank: string): string[] =>
          [...model].flatMap(([id, other]) => (other === rank ? [id] : [])).toSorted()
        const remove = async (id: string): Promise<void> => {
          await engine.sessions.delete(id)
          model.delete(id)
        }
        for (const { kind, rank } of steps) {
          const [id] = idsWith(rank)
          const session = id === undefined ? undefined : await engine.sessions.open(id)
          if (kind === 'create') model.set((await engine.sessions.create({ initialTags: { rank } })).id, rank)
          if (kind === 'fork' && session !== undefined)
            model.set((await session.fork({ newTags: { rank: '3' } })).id, '3')
          if (kind === 'copy' && session !== undefined)
            model.set((await engine.sessions.importBundle(session.exportBundle())).id, rank)
          if (kind === 'delete' && id !== undefined) await remove(id)
          if (kind === 'deleteMany') for (const other of [...model.keys()].slice(0, 100)) await remove(other)
          if (kind === 'collect') await engine.collect()
          if (kind === 'reopen' && lasting) {
            await engine.close()
            engine = await openEngine({ storage })
          }
          expect(await idsOf(engine, `rank=${rank}`, 5)).toEqual(idsWith(rank))
        }
        await engine.close()
        await rm(directory, { recursive: true })
      }),
      { seed, numRuns: runs(40) },
    )
  })
})

/** A storage whose commits wait in a queue until `release`, and are not visible before. */
class QueuingStorage implements Storage {
  #released: Promise<void> | undefined
  release: () => void = () => undefined

  hold(): void {
    this.#released = new Promise((resolve) => (this.release = resolve))
  }

  async open(): ReturnType<Storage['open']> {
    const store = await memoryStorage({ durable: true }).open()
    return wrapped(store, {
      commit: async (commit) => {
        await this.#released
        return store.commit(commit)
      },
    })
  }
}

test('a session whose commit is pending while the sessions are read is in the next list', async () => {
  const storage = new QueuingStorage()
  const engine = await openEngine({ storage })
  await createMany(engine)
  storage.hold()
  const pending = engine.sessions.create({ initialTags: { rank: 'new' } })
  const listed = idsOf(engine, 'rank=new')
  await setTimeout(20)
  storage.release()
  await listed
  const { id } = await pending
  expect(await idsOf(engine, 'rank=new')).toEqual([id])
  await engine.close()
})

test('a session whose deletion failed is in the list again', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }), { recovers: true })
  const engine = await openEngine({ storage })
  const [id] = await createMany(engine)
  const before = await idsOf(engine, 'rank=0')
  expect(before).toContain(id)
  storage.next = 'fail'
  await expect(engine.sessions.delete(id!)).rejects.toMatchObject({ reason: 'STORE_FAILED' })
  storage.next = 'commit'
  // The next change makes the store recover. Until then, the list reads the store without an index.
  expect(await idsOf(engine, 'rank=0')).toEqual(before)
  await expect.poll(() => engine.sessions.create().catch(() => undefined)).toBeDefined()
  expect(await idsOf(engine, 'rank=0')).toEqual(before)
  await engine.close()
})

test('sessions with more tags than the memory budget allows are listed without an index', async () => {
  const storage = new CountingStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage, memoryBudgetBytes: 2 ** 20 })
  const tags = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`tag ${index}`, 'x']))
  const made = Array.from({ length: many }, () => engine.sessions.create({ initialTags: tags }))
  const ids = (await Promise.all(made)).map((session) => session.id)
  for (let round = 0; round < 2; round++) {
    storage.scanned = 0
    expect(await idsOf(engine, 'tag 3=x')).toEqual(ids)
    expect(storage.scanned).toBeGreaterThanOrEqual(many)
  }
  await engine.close()
})
