/** Compares the store on disk with plain maps: commits, reopening, a lost index and reclaiming, in any order. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Store, StoreCommit } from '../../src/engine/ports.js'
import { PlainStore, blobOf, openSmall, readContents, sessionId } from '../support/level-world.js'
import { runs, seed } from '../support/seed.js'

const sessions = Array.from({ length: 5 }, (_, i) => sessionId(i))
const blobs = Array.from({ length: 24 }, (_, n) => blobOf(n, n % 8 === 0 ? 3000 : n * 20))
const hashes = blobs.map(({ hash }) => hash)

const numbers = (max: number, maxLength: number): fc.Arbitrary<number[]> =>
  fc.array(fc.nat(max), { maxLength })

const aCommit = fc.record({
  put: fc.array(fc.tuple(fc.nat(80), fc.string({ maxLength: 60 })), { maxLength: 6 }),
  del: numbers(80, 3),
  append: fc.array(fc.tuple(fc.nat(sessions.length - 1), fc.string({ maxLength: 30 })), { maxLength: 4 }),
  blobs: numbers(blobs.length - 1, 3),
  deleteBlobs: numbers(blobs.length - 1, 2),
  replace: fc.option(fc.tuple(fc.nat(sessions.length - 1), fc.nat(100)), { nil: undefined, freq: 4 }),
  deleteEvents: fc.option(fc.nat(sessions.length - 1), { nil: undefined, freq: 12 }),
})

const aStep = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('commits' as const),
      commits: fc.array(aCommit, { maxLength: 12 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('loseIndex' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('reclaim' as const),
      during: fc.array(aCommit, { maxLength: 8 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('read' as const) }) },
)

class World {
  readonly plain = new PlainStore()
  readonly #deleted = new Set<string>()

  /** The commit with the next sequence numbers, recorded as committed. */
  commit(drawn: typeof aCommit extends fc.Arbitrary<infer T> ? T : never): StoreCommit {
    const events = []
    const counts = new Map<string, number>()
    const stored = (id: string): number => (this.plain.events.get(id)?.length ?? 0) + (counts.get(id) ?? 0)
    for (const [session, text] of drawn.append) {
      const id = sessions[session]!
      if (this.#deleted.has(id)) continue
      events.push({ sessionId: id, seq: stored(id) + 1, body: [text] })
      counts.set(id, (counts.get(id) ?? 0) + 1)
    }
    const replaced = drawn.replace && sessions[drawn.replace[0]]!
    const count = replaced === undefined ? 0 : stored(replaced)
    const gone = drawn.deleteEvents === undefined ? [] : [sessions[drawn.deleteEvents]!]
    for (const id of gone) this.#deleted.add(id)
    const commit: StoreCommit = {
      events,
      put: drawn.put.map(([key, value]) => [`k${key}${key % 9 === 0 ? 'é' : ''}`, value] as const),
      del: drawn.del.map((key) => `k${key}${key % 9 === 0 ? 'é' : ''}`),
      blobs: drawn.blobs.map((n) => blobs[n]!),
      deleteBlobs: drawn.deleteBlobs.map((n) => hashes[n]!),
      ...(count > 0 && {
        replaceEvents: [{ sessionId: replaced!, seq: (drawn.replace![1] % count) + 1, body: ['replaced'] }],
      }),
      deleteEvents: gone,
    }
    this.plain.apply(commit)
    return commit
  }

  async check(store: Store): Promise<void> {
    expect(await readContents(store, sessions, hashes)).toEqual(this.plain.contents(sessions))
    const listed: string[] = []
    for (let after = ''; ;) {
      const page = await store.listBlobs!(after, 7)
      for (const { hash, bytes } of page) {
        listed.push(hash)
        expect(bytes).toBe(this.plain.blobs.get(hash)?.length)
      }
      if (page.length < 7) break
      after = page.at(-1)!.hash
    }
    expect(listed).toEqual([...this.plain.blobs.keys()].sort())
    for (const reverse of [false, true]) {
      const wanted = this.plain.contents([]).records.filter(([key]) => key >= 'k2' && key < 'k5')
      if (reverse) wanted.reverse()
      expect(await store.scan({ gte: 'k2', lt: 'k5', limit: 9, reverse })).toEqual(wanted.slice(0, 9))
    }
  }
}

test('agrees with plain maps after any history', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(aStep, { minLength: 5, maxLength: 40 }), async (steps) => {
      const directory = await mkdtemp(join(tmpdir(), 'level-model-'))
      const world = new World()
      let store = await openSmall(join(directory, 'data'))
      try {
        for (const step of steps) {
          if (step.kind === 'commits') {
            const done = await Promise.all(step.commits.map((drawn) => store.commit(world.commit(drawn))))
            assert(done.every(Boolean))
          } else if (step.kind === 'reclaim') {
            const reclaiming = store.reclaim()
            const writing = (async () => {
              for (const drawn of step.during) assert(await store.commit(world.commit(drawn)))
            })()
            await Promise.all([reclaiming, writing])
          } else if (step.kind === 'read') await world.check(store)
          else {
            await store.close()
            if (step.kind === 'loseIndex') await rm(join(directory, 'data/index'), { recursive: true })
            store = await openSmall(join(directory, 'data'))
          }
        }
        await world.check(store)
      } finally {
        await store.close()
        await rm(directory, { recursive: true })
      }
    }),
    { seed, numRuns: runs(40) },
  )
})
