/** Long work that leaves the event loop free. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { inGroup, runInSlices, type Steps } from '../../src/engine/base/cooperative.js'
import { limits } from '../../src/engine/base/limits.js'

test('works that begin together share one slice of a turn', async () => {
  let now = 0
  const clock = { now: () => now }
  function* work(): Steps<void, undefined> {
    for (let step = 0; step < 10; step++) {
      now += limits.sliceMs / 4
      yield
    }
  }
  const works = Array.from({ length: 100 }, () => runInSlices(work(), clock))
  await nextTurn()
  // One step each, in place of a slice each.
  expect(now).toBeLessThan(limits.sliceMs * 30)
  await Promise.all(works)
  expect(now).toBe((100 * 10 * limits.sliceMs) / 4)
})

test('work of one group does not wait for all the work of another', async () => {
  let now = 0
  const origin = { now: () => now }
  function* work(): Steps<void, undefined> {
    for (let step = 0; step < 5; step++) {
      now += limits.sliceMs
      yield
    }
  }
  const run = (name: string): Promise<void> =>
    runInSlices(work(), inGroup({ now: () => now }, { name, origin }))
  let ended = 0
  const many = Array.from({ length: 100 }, () => run('many').then(() => ended++))
  await run('one')
  expect(ended).toBe(0)
  await Promise.all(many)
})

test('a server accepts several connections between two slices', async () => {
  let slices = 0
  function* work(): Steps<void, undefined> {
    while (accepted < 64) {
      const end = performance.now() + limits.sliceMs
      while (performance.now() < end);
      slices++
      yield
    }
  }
  let accepted = 0
  const server = createServer((socket) => {
    accepted++
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const clients = Array.from({ length: 64 }, () => connect(port, '127.0.0.1').on('error', () => undefined))
  await runInSlices(work(), performance)
  // Node accepts one connection in each turn of the event loop.
  expect(slices).toBeLessThan(32)
  for (const client of clients) client.destroy()
  server.close()
})
