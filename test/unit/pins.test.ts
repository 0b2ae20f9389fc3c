import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { WrittenSince } from '../../src/engine/storage/recent-writes.js'
import { PinnedRoots, Pins, ReplacedPin } from '../../src/engine/tree/pins.js'
import { Dir, noAttributes } from '../../src/engine/tree/node.js'
import { memoryStorage } from '../../src/index.js'
import { letGo } from '../support/garbage.js'
import { blobOf } from '../support/level-world.js'

const durable = (): Pins => new Pins({ durable: true, sessionTrees: () => [] })

describe('a pin whose owner was garbage collected', () => {
  test('pins no states of a session', async () => {
    const pins = durable()
    pins.pin({ states: { sessionId: 's', seqs: [3] }, owner: {} })
    const owner = {}
    pins.pin({ states: { sessionId: 's', seqs: [5] }, owner })
    await letGo()
    expect(pins.statesOf('s')).toEqual([5])
    expect(owner).toEqual({})
    pins.pin({ states: { sessionId: 'other', seqs: [] }, owner: {} })
    expect(pins.statesOf('other')).toEqual([])
    await letGo()
    expect(pins.statesOf('other')).toBeUndefined()
  })

  test('pins no tree in memory', async () => {
    const pins = durable()
    const owner = {}
    pins.pin({ roots: [{ last: undefined }], owner })
    pins.pin({ roots: [{ last: undefined }] })
    expect([...pins.roots()]).toHaveLength(2)
    await letGo()
    expect([...pins.roots()]).toHaveLength(1)
    expect(owner).toEqual({})
  })

  test('pins no tree that something else keeps in memory', async () => {
    const pins = durable()
    const root = { last: undefined }
    pins.pin({ roots: [root], owner: {} })
    expect([...pins.roots()]).toEqual([root])
    await letGo()
    expect([...pins.roots()]).toEqual([])
  })

  test('is removed when there are many pins', async () => {
    const pins = durable()
    const pin = (): unknown => pins.pin({ contents: [undefined], owner: {} })
    for (let count = 0; count < 1024; count++) pin()
    expect([...pins.contents()]).toHaveLength(1024)
    await letGo()
    pin()
    expect([...pins.contents()]).toHaveLength(1)
  })
})

test('an arriving session counts as such until its pin ends', () => {
  const pins = durable()
  const pin = pins.pin({ arrivingSession: 's' })
  expect(pins.isArriving('s')).toBe(true)
  pin[Symbol.dispose]()
  expect(pins.isArriving('s')).toBe(false)
})

test('records all states that forks start from until the pin ends', () => {
  const pins = durable()
  pins.referred('parent', 1)
  const pin = pins.pin({ forks: true })
  for (const seq of [3, 5, 3]) pins.referred('parent', seq)
  pins.referred('other', 2)
  expect([...pins.forksOf('parent')!]).toEqual([3, 5])
  expect([...pins.forksOf('other')!]).toEqual([2])
  pin[Symbol.dispose]()
  expect(pins.forksOf('parent')).toBeUndefined()
})

test('revisited sessions are noted until the pin for forks ends', () => {
  const pins = durable()
  const isRevisited = (): boolean[] => ['before', 'under way', 'later'].map((id) => pins.isRevisited(id))
  pins.pin({ revisits: 'before' })[Symbol.dispose]()
  const underWay = pins.pin({ revisits: 'under way' })
  const pin = pins.pin({ forks: true })
  pins.pin({ revisits: 'later' })[Symbol.dispose]()
  underWay[Symbol.dispose]()
  expect(isRevisited()).toEqual([false, true, true])
  expect([...pins.heldSessions()]).toEqual(['under way', 'later'])
  pin[Symbol.dispose]()
  expect(isRevisited()).toEqual([false, false, false])
  const next = pins.pin({ forks: true })
  expect(isRevisited()).toEqual([false, false, false])
  next[Symbol.dispose]()
})

test('callers wait for a removal of history until it ends or fails', async () => {
  const pins = durable()
  expect(pins.historyRemoved('session')).toBeUndefined()
  for (const end of ['removed', 'failed']) {
    let settle = (): void => undefined
    const removal = new Promise<string>((resolve, reject) => {
      settle = end === 'failed' ? () => reject(new Error(end)) : () => resolve(end)
    })
    const removing = pins.whileRemoving('session', removal).catch(({ message }: Error) => message)
    const ended: string[] = []
    const waiting = pins.historyRemoved('session')?.then(() => ended.push(end))
    expect(pins.historyRemoved('another')).toBeUndefined()
    await nextTurn()
    expect(ended).toEqual([])
    settle()
    expect(await removing).toBe(end)
    await waiting
    expect(ended).toEqual([end])
  }
})

test('a pin of recent writes keeps blobs written since the oldest such pin, even after another one ends', async () => {
  const pins = durable()
  const store = pins.watching(await memoryStorage({ durable: true }).open())
  const [before, during, since] = [blobOf(1, 10), blobOf(2, 10), blobOf(3, 10)]
  const isWritten = (): boolean[] => [before, during, since].map(({ hash }) => pins.isWritten(hash))
  const pin = (writesSince: WrittenSince): Disposable => pins.pin({ writesSince })
  await store.commit({ blobs: [before] })
  const writer = pin('now')
  await store.commit({ blobs: [during] })
  const collector = pin('the oldest pin')
  await store.commit({ blobs: [since] })
  writer[Symbol.dispose]()
  expect(isWritten()).toEqual([false, true, true])
  collector[Symbol.dispose]()
  expect(isWritten()).toEqual([false, false, false])
  await store.close()
})

test('recent writes are forgotten when their pins end, even if the oldest pin ends last', async () => {
  const pins = durable()
  const store = pins.watching(await memoryStorage({ durable: true }).open())
  const blobs = [blobOf(1, 10), blobOf(2, 10), blobOf(3, 10)]
  const writers: Disposable[] = []
  for (const blob of blobs) {
    writers.push(pins.pin({ writesSince: 'now' }))
    await store.commit({ blobs: [blob] })
  }
  const isWritten = (): boolean[] => blobs.map(({ hash }) => pins.isWritten(hash))
  for (const writer of writers.toReversed()) {
    expect(isWritten()).toEqual([true, true, true])
    writer[Symbol.dispose]()
  }
  expect(isWritten()).toEqual([false, false, false])
  expect(pins.writesSince()).toBeUndefined()
  await store.close()
})

test('pinned roots are kept until the end', () => {
  const pins = durable()
  const roots = [1, 2].map(() => new Dir(undefined, noAttributes, []))
  const pinned = new PinnedRoots(pins)
  for (const root of roots) expect(pinned.add(root)).toBe(root)
  expect([...pins.roots()]).toEqual(roots)
  pinned[Symbol.dispose]()
  expect([...pins.roots()]).toEqual([])
})

test('a replaced pin keeps only the newest roots, and none after its end', () => {
  const pins = durable()
  const [first, second, late] = [{ last: undefined }, { last: undefined }, { last: undefined }]
  const replaced = new ReplacedPin()
  replaced.hold(pins.pin({ roots: [first] }))
  replaced.hold(pins.pin({ roots: [second] }))
  const kept = [...pins.roots()]
  expect([kept.length, kept[0] === second]).toEqual([1, true])
  replaced[Symbol.dispose]()
  expect([...pins.roots()]).toEqual([])
  // A state that is found after the operation has ended.
  replaced.hold(pins.pin({ roots: [late] }))
  expect([...pins.roots()]).toEqual([])
})
