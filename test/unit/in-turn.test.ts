/** Jobs that run in sequence, or a few at a time. */
import { setImmediate as setTimer } from 'node:timers'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { Fault } from '../../src/engine/base/fault.js'
import { inGroups } from '../../src/engine/base/in-groups.js'
import { KeyedMutex } from '../../src/engine/base/keyed-mutex.js'
import { limits } from '../../src/engine/base/limits.js'
import { loaded, runAtOnce, runInSlices, TimeSlice, type Steps } from '../../src/engine/base/cooperative.js'
import { fixedEnvironment } from '../../src/testing.js'

describe('a mutex for each key', () => {
  /** Starts jobs that last a few turns, and records the order in which they start and end. */
  function jobsOf(mutex: KeyedMutex): { run: (key: string, name: string) => Promise<void>; seen: string[] } {
    const seen: string[] = []
    const run = (key: string, name: string): Promise<void> =>
      mutex.run(key, async () => {
        seen.push(`${name} begins`)
        await setImmediate()
        seen.push(`${name} ends`)
      })
    return { run, seen }
  }

  test('runs jobs with the same key in sequence, including jobs that arrive later', async () => {
    const { run, seen } = jobsOf(new KeyedMutex())
    const first = run('key', 'first')
    const second = run('key', 'second')
    await first
    // The key is still in use.
    await Promise.all([second, run('key', 'third')])
    const names = ['first', 'second', 'third']
    expect(seen).toEqual(names.flatMap((name) => [`${name} begins`, `${name} ends`]))
  })

  test('runs jobs with different keys concurrently', async () => {
    const { run, seen } = jobsOf(new KeyedMutex())
    await Promise.all([run('a', 'first'), run('b', 'second')])
    expect(seen).toEqual(['first begins', 'second begins', 'first ends', 'second ends'])
  })

  test('ends the wait for a turn with the signal, and the other jobs continue', async () => {
    const mutex = new KeyedMutex()
    const { run, seen } = jobsOf(mutex)
    const abort = new AbortController()
    let go = (): void => undefined
    const first = mutex.run('key', () => new Promise<void>((resolve) => (go = resolve)))
    const second = mutex.run('key', () => run('other', 'second'), abort.signal)
    const third = run('key', 'third')
    const reason = new Error('left')
    abort.abort(reason)
    // The first job has not ended.
    await expect(second).rejects.toBe(reason)
    await expect(mutex.run('key', () => run('other', 'fourth'), abort.signal)).rejects.toBe(reason)
    expect(seen).toEqual([])
    go()
    await Promise.all([first, third])
    expect(seen).toEqual(['third begins', 'third ends'])
  })

  test('returns the outcome of a job and continues after a failed one', async () => {
    const mutex = new KeyedMutex()
    const failing = mutex.run('key', () => Promise.reject(new Error('no')))
    const next = mutex.run('key', () => Promise.resolve(2))
    await expect(failing).rejects.toThrow('no')
    expect(await next).toBe(2)
  })
})

describe('work in groups', () => {
  test('runs at most one group at a time and completes all items', async () => {
    let running = 0
    let most = 0
    const done: number[] = []
    await inGroups([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
      most = Math.max(most, ++running)
      await setImmediate()
      running--
      done.push(item)
    })
    expect([most, done]).toEqual([3, [1, 2, 3, 4, 5, 6, 7]])
  })

  test.each([
    ['of a full group', 2, [1, 2, 3]],
    ['of the last group', 4, [1, 2, 3, 4, 5]],
  ])(
    'rejects with the failure %s when its group has ended, and starts no other',
    async (_what, bad, begun) => {
      const seen: number[] = []
      let running = 0
      const working = inGroups([1, 2, 3, 4, 5], 3, async (item) => {
        seen.push(item)
        running++
        if (item === bad) {
          running--
          throw new Error('no')
        }
        await setImmediate()
        running--
      })
      await expect(working).rejects.toThrow('no')
      expect([seen, running]).toEqual([begun, 0])
    },
  )
})

describe('work in slices', () => {
  const environment = fixedEnvironment({ stepMs: 0 })
  let now = 0

  test('waits for pending data before the next step', async () => {
    const seen: string[] = []
    function* steps(): Steps<string> {
      yield setImmediate().then(() => void seen.push('loaded'))
      seen.push('used')
      return 'done'
    }
    expect(await runInSlices(steps(), environment)).toBe('done')
    expect(seen).toEqual(['loaded', 'used'])
  })

  test('yields to the event loop at the end of a slice and not before', async () => {
    const turns: number[] = []
    let turn = 0
    const count = (): void => {
      turn++
      if (turn < 10) setTimer(count)
    }
    setTimer(count)
    function* steps(): Steps<void> {
      for (let i = 0; i < 4; i++) {
        turns.push(turn)
        if (i === 1) environment.advance(limits.sliceMs)
        yield undefined
      }
    }
    await runInSlices(steps(), environment)
    expect(turns.slice(0, 2)).toEqual([0, 0])
    expect(turns[2]).toBeGreaterThan(0)
    expect(turns[3]).toBe(turns[2])
  })

  test('retries after missing data is loaded, and rethrows other errors', async () => {
    let isLoaded = false
    const attempt = (): string => {
      if (isLoaded) return 'found'
      throw new Fault(async () => {
        await setImmediate()
        isLoaded = true
      })
    }
    expect(await runInSlices(loaded(attempt), environment)).toBe('found')
    const failing = loaded(() => {
      throw new Error('no')
    })
    await expect(runInSlices(failing, environment)).rejects.toThrow('no')
  })

  test.each([
    ['an environment', { monotonicMs: () => now }],
    ['performance', { now: () => now }],
  ])('measures a slice by the clock of %s', async (_name, clock) => {
    now = 0
    const slice = new TimeSlice(clock)
    now = limits.sliceMs - 1
    expect(slice.over).toBe(false)
    now = limits.sliceMs
    expect(slice.over).toBe(true)
    await slice.next()
    expect(slice.over).toBe(false)
  })

  test('ends with the reason of a signal that aborted during the turn', async () => {
    const abort = new AbortController()
    const slice = new TimeSlice(environment, abort.signal)
    await slice.next()
    setTimer(() => abort.abort(new Error('enough')))
    await expect(slice.next()).rejects.toThrow('enough')
  })

  test('gives the result at once if it never waits', () => {
    function* steps(): Steps<number, undefined> {
      yield undefined
      yield undefined
      return 3
    }
    expect(runAtOnce(steps())).toBe(3)
  })
})
