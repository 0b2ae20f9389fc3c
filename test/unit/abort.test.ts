import { getEventListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { abortable, onAbort, pause, untilAborted, withSignals } from '../../src/engine/base/abort.js'
import { Transfer } from '../../src/engine/base/transfer.js'
import { fixedEnvironment } from '../../src/testing.js'

const never = new Promise<never>(() => undefined)
const reason = new Error('enough')

/** A third-party iterable. */
function of(next: () => unknown, more: object = {}): AsyncIterable<number> {
  return { [Symbol.asyncIterator]: () => ({ next, ...more }) } as AsyncIterable<number>
}

describe('untilAborted', () => {
  test('returns the outcome of the work', async () => {
    const { signal } = new AbortController()
    expect(await untilAborted(Promise.resolve(1), signal)).toBe(1)
    await expect(untilAborted(Promise.reject(reason), signal)).rejects.toBe(reason)
  })

  test('rejects with the abort reason at once and handles later failures', async () => {
    const controller = new AbortController()
    let fail!: (error: Error) => void
    const waiting = untilAborted(new Promise((_resolve, reject) => (fail = reject)), controller.signal)
    controller.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    fail(new Error('late'))
    await setImmediate()
    await expect(untilAborted(never, controller.signal)).rejects.toBe(reason)
  })
})

test('a pause rejects at once with a signal that has aborted', async () => {
  await expect(pause(2 ** 30, AbortSignal.abort(reason))).rejects.toBe(reason)
})

describe('untilAborted, after the work has ended,', () => {
  test('leaves no listener on the signal', async () => {
    const { signal } = new AbortController()
    expect(await untilAborted(Promise.resolve(1), signal)).toBe(1)
    expect(getEventListeners(signal, 'abort')).toEqual([])
    await expect(untilAborted(Promise.reject(reason), signal)).rejects.toBe(reason)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('onAbort', () => {
  test('notifies only the listeners that have not stopped', () => {
    const controller = new AbortController()
    const notified: string[] = []
    const stops = ['a', 'b', 'c'].map((name) => onAbort(controller.signal, () => notified.push(name)))
    stops[1]!()
    stops[1]!()
    expect(getEventListeners(controller.signal, 'abort').length).toBe(1)
    controller.abort()
    expect(notified).toEqual(['a', 'c'])
    stops[0]!()
  })

  test('removes its listener when the last caller stops, and can listen again', () => {
    const controller = new AbortController()
    onAbort(controller.signal, () => undefined)()
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    let notified = 0
    onAbort(controller.signal, () => notified++)
    controller.abort()
    expect(notified).toBe(1)
  })
})

describe('withSignals', () => {
  test('does not start work if a signal has aborted', async () => {
    let began = false
    const work = async (): Promise<void> => {
      began = true
    }
    const signals = [new AbortController().signal, AbortSignal.abort(reason)]
    await expect(withSignals(signals, work)).rejects.toBe(reason)
    expect(began).toBe(false)
  })

  test('passes a signal that aborts with any of the given ones, and removes its listeners at the end', async () => {
    const controllers = [new AbortController(), new AbortController()]
    const signals = controllers.map(({ signal }) => signal)
    const working = withSignals([undefined, ...signals], (signal) => untilAborted(never, signal))
    controllers[1]!.abort(reason)
    await expect(working).rejects.toBe(reason)
    expect(await withSignals(signals.slice(0, 1), () => Promise.resolve(1))).toBe(1)
    expect(getEventListeners(signals[0]!, 'abort')).toEqual([])
  })
})

describe('abortable', () => {
  test('yields the items and the failure of the iterable', async () => {
    const { signal } = new AbortController()
    async function* three(): AsyncGenerator<number> {
      yield* [1, 2]
      await Promise.resolve()
      throw reason
    }
    const seen: number[] = []
    const reading = (async () => {
      for await (const item of abortable(three(), signal)) seen.push(item)
    })()
    await expect(reading).rejects.toBe(reason)
    expect(seen).toEqual([1, 2])
  })

  test.each<[string, object]>([
    ['has no return', {}],
    ['never returns', { return: () => never }],
    ['throws when it returns', { return: () => Promise.reject(new Error('no')) }],
    [
      'throws at once when it returns',
      {
        return: () => {
          throw new Error('no')
        },
      },
    ],
  ])('ends on an abort and on an early return if the iterator %s', async (_what, more) => {
    const controller = new AbortController()
    const items = abortable(
      of(() => never, more),
      controller.signal,
    )
    const waiting = items.next()
    controller.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await expect(items.next()).rejects.toBe(reason)
    const left = abortable(
      of(() => never, more),
      new AbortController().signal,
    )
    const pending = left.next()
    await left.return?.()
    expect(await pending).toEqual({ done: true, value: undefined })
    expect(await left.next()).toEqual({ done: true, value: undefined })
  })

  test('returns an iterator once on an abort, even between reads', async () => {
    const controller = new AbortController()
    let returns = 0
    const items = abortable(
      of(() => Promise.resolve({ done: false, value: 1 }), { return: () => void returns++ }),
      controller.signal,
    )
    await items.next()
    controller.abort(reason)
    expect(returns).toBe(1)
    await items.return?.()
    await expect(items.next()).rejects.toBe(reason)
    expect(returns).toBe(1)
  })

  test.each<[string, () => Promise<unknown>, boolean]>([
    ['the end', () => Promise.resolve({ done: true, value: undefined }), false],
    ['a failure', () => Promise.reject(reason), false],
    ['an early end', () => Promise.resolve({ done: false, value: 1 }), true],
  ])('removes its listener from the signal after %s', async (_what, next, leaves) => {
    const { signal } = new AbortController()
    const items = abortable(of(next), signal)
    expect(getEventListeners(signal, 'abort').length).toBe(1)
    await items.next().catch(() => undefined)
    if (leaves) await items.return?.()
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('destroys a stream with a pending read', async () => {
    const stream = new Readable({ read: () => undefined })
    const items = abortable<unknown>(stream, undefined)
    const waiting = items.next()
    await items.return?.()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(stream.destroyed).toBe(true)
  })

  test('rejects with a synchronous error or for a result that is not a promise', async () => {
    const thrown = of(() => {
      throw reason
    })
    await expect(abortable(thrown, undefined).next()).rejects.toBe(reason)
    for (const given of [() => 1, () => undefined, () => Promise.resolve(null)])
      await expect(abortable(of(given), undefined).next()).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    for (const iterator of [undefined, 1, {}, { next: 1 }]) {
      const items = { [Symbol.asyncIterator]: () => iterator } as unknown as AsyncIterable<number>
      expect(() => abortable(items, undefined)).toThrow('has no method next()')
    }
  })

  test('yields to the event loop when items arrive immediately', async () => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(reason), 1)
    const reading = (async () => {
      for await (const _ of abortable(
        of(() => Promise.resolve({ done: false, value: 0 })),
        controller.signal,
      ));
    })()
    await expect(reading).rejects.toBe(reason)
  })
})

describe('a transfer', () => {
  /** A transfer with a window of 100 ms, and the rates that it reported as too slow. */
  function transferOf(minBytesPerSecond: number): {
    transfer: Transfer
    environment: ReturnType<typeof fixedEnvironment>
    slow: number[]
  } {
    const environment = fixedEnvironment({ stepMs: 0 })
    const slow: number[] = []
    const transfer = new Transfer(environment, { minBytesPerSecond, windowMs: 40 }, (bytes) =>
      slow.push(bytes),
    )
    return { transfer, environment, slow }
  }
  const aLook = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50))

  test('is too slow if a full window of waiting receives too few bytes', async () => {
    const { transfer, environment, slow } = transferOf(1000)
    transfer.waiting(never).catch(() => undefined)
    transfer.received(39)
    environment.advance(40)
    await aLook()
    expect(slow).toEqual([39])
    transfer.close()
  })

  test('is not too slow at the minimum rate, or without a minimum', async () => {
    for (const [minimum, bytes] of [
      [1000, 40],
      [0, 0],
    ] as const) {
      const { transfer, environment, slow } = transferOf(minimum)
      transfer.waiting(never).catch(() => undefined)
      transfer.received(bytes)
      environment.advance(40)
      await aLook()
      expect(slow).toEqual([])
      transfer.close()
    }
  })

  test('excludes the time in which nothing is waiting', async () => {
    const { transfer, environment, slow } = transferOf(1000)
    for (let i = 0; i < 3; i++) {
      environment.advance(1000)
      await transfer.waiting(Promise.resolve())
    }
    await aLook()
    expect(slow).toEqual([])
    transfer.close()
  })

  test('counts nested waits once and adds up short ones', async () => {
    const { transfer, environment, slow } = transferOf(1000)
    for (let i = 0; i < 4; i++) {
      const inner = transfer.waiting(setImmediate())
      const outer = transfer.waiting(inner)
      environment.advance(9)
      await outer
    }
    await aLook()
    expect(slow).toEqual([])
    const last = transfer.waiting(setImmediate())
    environment.advance(4)
    await last
    await aLook()
    expect(slow).toEqual([0])
    transfer.close()
  })

  test('counts a wait from its start when a shorter wait runs within it', async () => {
    for (const [ms, expected] of [
      [20, [0]],
      [15, []],
    ] as const) {
      const { transfer, environment, slow } = transferOf(1000)
      let end!: () => void
      const outer = transfer.waiting(new Promise<void>((resolve) => (end = resolve)))
      environment.advance(ms)
      await transfer.waiting(setImmediate())
      environment.advance(ms)
      end()
      await outer
      await aLook()
      expect(slow).toEqual(expected)
      transfer.close()
    }
  })

  test('counts the bytes of each window separately', async () => {
    const { transfer, environment, slow } = transferOf(1000)
    transfer.waiting(never).catch(() => undefined)
    transfer.received(400)
    environment.advance(40)
    await aLook()
    expect(slow).toEqual([])
    environment.advance(40)
    await aLook()
    expect(slow).toEqual([0])
    transfer.close()
  })

  test('rejects pieces that are not bytes and destroys their source', async () => {
    const { transfer } = transferOf(0)
    const stream = Readable.from(['text'])
    const pieces = transfer.pieces(stream, new AbortController().signal)
    await expect(pieces.next()).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(stream.destroyed).toBe(true)
    transfer.close()
  })
})
