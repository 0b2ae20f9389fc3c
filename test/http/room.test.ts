import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Room } from '../../src/adapters/http/server/room.js'

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
