import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Room } from '../../src/adapters/http/server/room.js'
import { randomWords } from '../../src/testing.js'
import { seed } from '../support/seed.js'

test('a waiting response enters once all of its bytes fit, and later ones follow in order', async () => {
  const room = new Room(100)
  const [a, b, c] = [room.of('a'), room.of('b'), room.of('c')]
  const entered: string[] = []
  expect(a.enter(60)).toBeUndefined()
  const bIn = Promise.resolve(b.enter(60)).then(() => entered.push('b'))
  const cIn = Promise.resolve(c.enter(10)).then(() => entered.push('c'))
  a.resize(60, 50)
  await nextTurn()
  expect(entered).toEqual([])
  a.resize(50, 40)
  await bIn
  expect(entered).toEqual(['b'])
  a.leave(40)
  await cIn
  expect(entered).toEqual(['b', 'c'])
})

test('a response that becomes larger keeps out no other tenant', () => {
  const room = new Room(100)
  const [a, b] = [room.of('a'), room.of('b')]
  expect(a.enter(30)).toBeUndefined()
  expect(a.resize(30, 90)).toBe(50)
  expect(a.resize(50, 200)).toBe(50)
  expect(b.enter(50)).toBeUndefined()
  expect(b.resize(50, 60)).toBe(50)
  a.leave(50)
  expect(b.resize(50, 40)).toBe(40)
  b.leave(40)
  expect(a.enter(100)).toBeUndefined()
})

describe(`the room for responses (FORKSPACE_SEED=${seed})`, () => {
  interface Waiting {
    readonly id: number
    readonly tenant: string
    readonly bytes: number
  }

  test('agrees with a plain model', async () => {
    const next = randomWords(seed)
    let [waited, overShare, alone] = [0, 0, 0]
    for (let round = 0; round < 30; round++) {
      const room = new Room(100)
      const tenants = ['a', 'b', 'c'].slice(0, 1 + (round % 3))
      const holding: Waiting[] = []
      let waiting: Waiting[] = []
      const entered: number[] = []
      const used = (tenant?: string): number =>
        holding
          .filter((one) => tenant === undefined || one.tenant === tenant)
          .reduce((sum, { bytes }) => sum + bytes, 0)
      const isInShare = ({ tenant, bytes }: Waiting): boolean =>
        used(tenant) === 0 || used(tenant) + bytes <= (100 - (used() - used(tenant))) / 2
      /** Of each tenant, only the first may enter; of these, the first one in its share; and only if it fits. */
      const letIn = (): number[] => {
        const admitted: number[] = []
        for (;;) {
          const first = waiting.find(
            (one, at) =>
              !waiting.some((other, before) => before < at && other.tenant === one.tenant) && isInShare(one),
          )
          if (first === undefined || (used() > 0 && used() + first.bytes > 100)) return admitted
          waiting = waiting.filter((one) => one !== first)
          holding.push(first)
          admitted.push(first.id)
        }
      }
      for (let id = 0; id < 40 || holding.length > 0; id++) {
        let expected: number[]
        if (id < 40 && (holding.length === 0 || next() % 5 < 3)) {
          const one = {
            id,
            tenant: tenants[next() % tenants.length]!,
            bytes: 1 + (next() % (next() % 8 === 0 ? 150 : 40)),
          }
          if (!isInShare(one)) overShare++
          if (one.bytes > 100) alone++
          waiting.push(one)
          expected = letIn()
          const entering = room.of(one.tenant).enter(one.bytes)
          if (entering === undefined) entered.push(id)
          else {
            waited++
            entering.then(
              () => entered.push(id),
              () => undefined,
            )
          }
        } else {
          const at = next() % holding.length
          const { tenant, bytes } = holding[at]!
          // Some responses become smaller first.
          const rest = next() % 3 === 0 ? bytes >> 1 : 0
          if (rest > 0) room.of(tenant).resize(bytes, rest)
          else room.of(tenant).leave(bytes)
          holding.splice(at, 1, ...(rest > 0 ? [{ ...holding[at]!, bytes: rest }] : []))
          expected = letIn()
        }
        await nextTurn()
        expect(entered.splice(0)).toEqual(expected)
      }
      expect(waiting).toEqual([])
    }
    expect(Math.min(waited, overShare, alone)).toBeGreaterThan(20)
  })
})
