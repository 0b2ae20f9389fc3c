import { expect, test } from 'vitest'
import { Room } from '../../src/adapters/http/server/room.js'

test('a waiting response enters once all of its bytes fit, and later ones follow in order', async () => {
  const room = new Room(100)
  const [a, b, c] = [room.of('a'), room.of('b'), room.of('c')]
  const entered: string[] = []
  expect(a.enter(60)).toBeUndefined()
  const waits = [b.enter(60)?.then(() => entered.push('b')), c.enter(10)?.then(() => entered.push('c'))]
  a.resize(60, 50)
  await Promise.resolve()
  expect(entered).toEqual([])
  a.resize(50, 40)
  await waits[0]
  expect(entered).toEqual(['b'])
  a.leave(40)
  await Promise.all(waits)
  expect(entered).toEqual(['b', 'c'])
})
