/** The share of one request in the budgets. */
import { expect, test } from 'vitest'
import { defaultHttpLimits } from '../../src/adapters/http/limits.js'
import { createShared, Slot } from '../../src/adapters/http/server/slot.js'
import { inGroup, limits, runInSlices, type Clock, type Steps } from '../../src/engine/ports.js'

test.each(['commits', ''])('the work of tenant "%s" does not delay the store', async (tenant) => {
  function* work(): Steps<void, undefined> {
    const end = performance.now() + limits.sliceMs
    while (performance.now() < end);
    yield
  }
  const shared = createShared(defaultHttpLimits)
  const { clock } = new Slot(shared, tenant)
  const store: Clock = inGroup({ now: () => performance.now() }, { name: tenant, origin: performance })
  let ended = 0
  const many = Array.from({ length: 20 }, () => runInSlices(work(), clock).then(() => ended++))
  await runInSlices(work(), store)
  expect(ended).toBeLessThan(5)
  await Promise.all(many)
})
