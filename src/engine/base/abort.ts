import { invalid } from './errors.js'

/** Who is to be told of a signal's abort. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>()

function tell({ currentTarget }: Event): void {
  const signal = currentTarget as AbortSignal
  const told = listeners.get(signal)
  listeners.delete(signal)
  for (const listener of told ?? []) listener()
}

/** INVALID_ARGUMENT for what is there and no signal. */
export function checkSignal(signal: unknown, field = 'signal'): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalid(field, 'must be an AbortSignal')
}

/**
 * Calls back once when a signal that is not aborted yet aborts; the result ends that. A signal has one listener
 * of this kind, however many wait for it: Node warns of a leak where there are many.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let waiting = listeners.get(signal)
  if (waiting === undefined) {
    listeners.set(signal, (waiting = new Set()))
    signal.addEventListener('abort', tell, { once: true })
  }
  waiting.add(listener)
  return () => {
    if (!waiting.delete(listener) || waiting.size > 0) return
    if (listeners.get(signal) !== waiting) return
    listeners.delete(signal)
    signal.removeEventListener('abort', tell)
  }
}

/**
 * The items of an iterable until the signal aborts: then its reason is thrown at once, also while the next item is
 * awaited. The iterable is told when nobody reads on.
 */
export async function* abortable<T>(
  items: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void> {
  const iterator = items[Symbol.asyncIterator]()
  let stop: (() => void) | undefined
  // Not one promise to race against: it would hold every item that it lost to.
  let fail: ((reason: unknown) => void) | undefined
  const next = (): Promise<IteratorResult<T>> =>
    new Promise((resolve, reject) => {
      fail = reject
      iterator.next().then(resolve, reject)
    })
  let isWaiting = false
  let ended = false
  try {
    signal?.throwIfAborted()
    stop = signal && onAbort(signal, () => fail?.(signal.reason))
    for (;;) {
      signal?.throwIfAborted()
      isWaiting = true
      const step = await next()
      isWaiting = false
      ended = step.done === true
      if (step.done === true) return
      yield step.value
    }
  } finally {
    stop?.()
    if (!ended) {
      const closed = Promise.resolve(iterator.return?.()).catch(() => undefined)
      // Who is asked for the next item does not hear of the end before it has given it.
      if (!isWaiting && signal?.aborted !== true) await closed
    }
  }
}
