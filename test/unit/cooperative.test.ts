/** Long work that leaves the event loop free. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { runInSlices, type Steps } from '../../src/engine/base/cooperative.js'
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
