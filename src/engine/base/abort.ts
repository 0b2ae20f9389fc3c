import { attempt } from './attempt.js'
import { invalid } from './errors.js'
import { limits } from './limits.js'
import { nextTurn } from './cooperative.js'

/** The listeners that wait for a signal to abort. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>()

function notify({ currentTarget }: Event): void {
  const signal = currentTarget as AbortSignal
  const waiting = listeners.get(signal)
  listeners.delete(signal)
  for (const listener of waiting ?? []) listener()
}

/**
 * Checks that a value is a signal or absent.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is another value.
 */
export function checkSignal(signal: unknown, field = 'signal'): void {
  if (signal === undefined) return
  try {
    // This getter throws for anything but a real signal. An object that merely has the prototype would fail
    // later.
    Reflect.get(AbortSignal.prototype, 'aborted', signal)
  } catch {
    throw invalid(field, 'must be an AbortSignal')
  }
}

/**
 * Calls `listener` once when the signal aborts. The signal must not be aborted yet. The returned function
 * removes the listener. However many listeners wait, the signal itself gets only one, because Node warns of a
 * leak if a signal has many.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let waiting = listeners.get(signal)
  if (waiting === undefined) {
    listeners.set(signal, (waiting = new Set()))
    signal.addEventListener('abort', notify, { once: true })
  }
  waiting.add(listener)
  return () => {
    if (!waiting.delete(listener) || waiting.size > 0) return
    if (listeners.get(signal) !== waiting) return
    listeners.delete(signal)
    signal.removeEventListener('abort', notify)
  }
}

/**
 * Runs work with a signal that aborts when the first of `sources` aborts. `AbortSignal.any` does not work
 * here: Node 20 frees a timeout signal to which only the combined signal refers, and then never aborts.
 */
export async function withSignals<T>(
  sources: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const combined = new AbortController()
  const { signal } = combined
  const releases: (() => void)[] = []
  try {
    for (const source of sources) {
      if (source?.aborted === true) combined.abort(source.reason)
      else if (source !== undefined) releases.push(onAbort(source, () => combined.abort(source.reason)))
    }
    signal.throwIfAborted()
    return await work(signal)
  } finally {
    for (const release of releases) release()
  }
}

/**
 * The outcome of a third party's work, which may never end. If the signal aborts first, this rejects
 * immediately with its reason, and ignores the outcome of the work.
 */
export function untilAborted<T>(work: PromiseLike<T>, signal: AbortSignal | undefined): Promise<T> {
  // Promise.race would keep every earlier outcome in memory for as long as the signal exists.
  return new Promise((resolve, reject) => {
    let release: (() => void) | undefined
    if (signal?.aborted === true) reject(signal.reason as Error)
    else release = signal && onAbort(signal, () => reject(signal.reason as Error))
    Promise.resolve(work).then(
      (outcome) => {
        release?.()
        resolve(outcome)
      },
      (error: unknown) => {
        release?.()
        reject(error)
      },
    )
  })
}

/**
 * The items of a third party's iterable, which may never yield an item, never end, or ignore a request to
 * stop. When the signal aborts, its reason is thrown immediately, even to a caller that waits for an item. An
 * early end calls the iterator's `return` without waiting for it, and destroys a stream. The event loop gets
 * its turns even if many items are ready at once.
 */
export function abortable<T>(items: AsyncIterable<T>, signal: AbortSignal | undefined): Abortable<T> {
  return new Abortable(items, signal)
}

class Abortable<T> implements AsyncIterableIterator<T, undefined, unknown> {
  readonly #items: AsyncIterable<T>
  readonly #iterator: AsyncIterator<T>
  readonly #signal: AbortSignal | undefined
  readonly #release: (() => void) | undefined
  #end: ((outcome: IteratorReturnResult<undefined>) => void) | undefined
  #fail: ((reason: unknown) => void) | undefined
  #ended = false
  #count = 0

  constructor(items: AsyncIterable<T>, signal: AbortSignal | undefined) {
    this.#items = items
    this.#signal = signal
    this.#iterator = iteratorOf(items)
    if (signal?.aborted === true) this.#leave()
    else this.#release = signal && onAbort(signal, () => this.#leave())
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    if (++this.#count % limits.itemsPerTurn === 0) await nextTurn()
    this.#signal?.throwIfAborted()
    if (this.#ended) return done
    try {
      const item: unknown = await this.#pull()
      if (!isResult<T>(item))
        throw invalid('content', 'has an iterator whose next() does not return an object')
      if (item.done !== true) return item
    } catch (error) {
      this.#over()
      throw error
    }
    this.#over()
    return done
  }

  return(): Promise<IteratorReturnResult<undefined>> {
    this.#leave()
    return Promise.resolve(done)
  }

  #pull(): Promise<IteratorResult<T>> {
    return new Promise((resolve, reject) => {
      this.#end = resolve
      this.#fail = reject
      Promise.resolve(this.#iterator.next()).then(resolve, reject)
    })
  }

  #over(): void {
    this.#ended = true
    this.#release?.()
  }

  /** Ends the iteration and the source of the items. */
  #leave(): void {
    if (this.#ended) return
    this.#over()
    // While a stream waits for its next item, it does not react to `return`. So it is destroyed.
    attempt(() => (this.#items as { destroy?: () => unknown }).destroy?.())
    attempt(() => this.#iterator.return?.())
    if (this.#signal?.aborted === true) this.#fail?.(this.#signal.reason)
    else this.#end?.(done)
  }
}

function iteratorOf<T>(items: AsyncIterable<T>): AsyncIterator<T> {
  const iterator: unknown = items[Symbol.asyncIterator]()
  if (typeof iterator === 'object' && iterator !== null && 'next' in iterator)
    if (typeof iterator.next === 'function') return iterator as AsyncIterator<T>
  throw invalid('content', 'must be an async iterable; its iterator has no method next()')
}

function isResult<T>(item: unknown): item is IteratorResult<T> {
  return typeof item === 'object' && item !== null
}

const done: IteratorReturnResult<undefined> = { done: true, value: undefined }

/** Waits for some time. Rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      release?.()
      settle()
    }
    const timer = setTimeout(() => end(resolve), ms)
    const release = signal && onAbort(signal, () => end(() => reject(signal.reason as Error)))
  })
}
