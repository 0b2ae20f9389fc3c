import { expect, test } from 'vitest'
import { loaded, runInSlices, runLoading, whenPresent } from '../../src/engine/base/cooperative.js'
import { Fault, whenLoaded } from '../../src/engine/base/fault.js'

/** Code that faults this many times before it succeeds; records its steps in order. */
function faulting(times: number, noted: string[], outcome: () => string): () => string {
  let left = times
  return () => {
    if (left === 0) return outcome()
    const number = left--
    const resolve = (): Promise<void> => Promise.resolve(void noted.push(`resolve ${number}`))
    throw new Fault(resolve, () => noted.push(`release ${number}`))
  }
}

test('resources held by faults are released when the code succeeds', async () => {
  const noted: string[] = []
  const run = faulting(2, noted, () => {
    noted.push('done')
    return 'outcome'
  })
  expect(await whenLoaded(run)).toBe('outcome')
  expect(noted).toEqual(['resolve 2', 'resolve 1', 'done', 'release 2', 'release 1'])
})

test('resources held by faults are released when the code fails', async () => {
  const noted: string[] = []
  const run = faulting(1, noted, () => {
    throw new Error('failed')
  })
  await expect(whenLoaded(run)).rejects.toThrow('failed')
  expect(noted).toEqual(['resolve 1', 'release 1'])
})

test('each step releases what its own faults hold', async () => {
  const noted: string[] = []
  const step = (name: string): (() => string) => faulting(1, noted, () => `${noted.push(name)}`)
  await runLoading(
    (function* () {
      yield* whenPresent(step('first'))
      yield
      yield* whenPresent(step('second'))
    })(),
    performance,
  )
  await runInSlices(
    (function* () {
      yield* loaded(step('third'))
      yield* loaded(step('fourth'))
    })(),
    performance,
  )
  expect(noted).toEqual(
    ['first', 'second', 'third', 'fourth'].flatMap((name) => ['resolve 1', name, 'release 1']),
  )
})

test('a step releases its data if its fault cannot be resolved', async () => {
  const noted: string[] = []
  const fail = (): never => {
    throw new Fault(
      () => Promise.reject(new Error('unreadable')),
      () => noted.push('release'),
    )
  }
  await expect(runInSlices(loaded(fail), performance)).rejects.toThrow('unreadable')
  await expect(runLoading(whenPresent(fail), performance)).rejects.toThrow('unreadable')
  expect(noted).toEqual(['release', 'release'])
})
