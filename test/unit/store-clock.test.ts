/** The clock that engines on a shared store agree on. */
import { expect, test } from 'vitest'
import { StoreClock } from '../../src/engine/session/sharing/store-clock.js'
import type { SharedStore } from '../../src/engine/storage/store.js'
import { fixedEnvironment } from '../../src/testing.js'

test('it goes on with the clock of the store, also while the clock of the machine jumps', async () => {
  let machine = Date.UTC(2030, 0, 1)
  let store = machine + 5000
  let monotonic = 100
  const environment = { ...fixedEnvironment(), wallClockMs: () => machine, monotonicMs: () => monotonic }
  const pass = (ms: number): void => {
    machine += ms
    store += ms
    monotonic += ms
  }
  const shared: Pick<SharedStore, 'now'> = { now: () => Promise.resolve(store) }
  const clock = new StoreClock(environment, shared as SharedStore)
  expect(clock.wallClockMs()).toBe(machine)
  await clock.adjust()
  expect(clock.wallClockMs()).toBe(store)
  for (const jump of [365 * 86_400_000, -2 * 365 * 86_400_000]) {
    machine += jump
    pass(1000)
    expect(clock.wallClockMs()).toBe(store)
    await clock.adjust()
    expect(clock.wallClockMs()).toBe(store)
  }
  // The clock of the store was corrected.
  store -= 1000
  await clock.adjust()
  expect(clock.wallClockMs()).toBe(store)
})

test('it lies between the times before and after the answer of the store', async () => {
  let monotonic = 0
  let store = 1_000_000
  const environment = { ...fixedEnvironment(), wallClockMs: () => store, monotonicMs: () => monotonic }
  // The store reads its clock 10 ms after the request, and 30 ms before the answer arrives.
  const now = (): Promise<number> => {
    monotonic += 40
    store += 40
    return Promise.resolve(store - 30)
  }
  const shared: Pick<SharedStore, 'now'> = { now }
  const clock = new StoreClock(environment, shared as SharedStore)
  await clock.adjust()
  expect(clock.wallClockMs()).toBe(store)
  // The clock of the store jumps ahead or back, by more than the time of the answer.
  store += 1000
  await clock.adjust()
  expect(store - clock.wallClockMs()).toBe(30)
  store -= 2000
  await clock.adjust()
  expect(clock.wallClockMs() - store).toBe(10)
})
