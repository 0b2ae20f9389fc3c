import type { Buffer } from 'node:buffer'
import { abortError, codedError, throwIfAborted, valueError } from './argument-errors.js'
import { checkInteger, givenPath } from './arguments.js'
import type { Context } from './calls.js'
import { toWatchOptions, Watched, type WatchOptions } from './watch.js'

export interface WatchEvent {
  readonly eventType: 'rename' | 'change'
  readonly filename: string | Buffer
}

export interface WatchQueueOptions extends WatchOptions {
  /** Events that may wait to be taken; 2,048 by default. */
  readonly maxQueue?: number
  /** What happens to one more: 'throw' (default) ends the iteration by an error, 'ignore' drops it. */
  readonly overflow?: 'ignore' | 'throw'
}

const defaultMaxQueue = 2048

/** The changes of a file or directory from the first `next()` on, until the loop is left or the signal aborts. */
export async function* watchEvents(
  context: Context,
  filename: unknown,
  options?: unknown,
): AsyncGenerator<WatchEvent, void, void> {
  const settings = toWatchOptions(options) as WatchQueueOptions
  const { signal, maxQueue = defaultMaxQueue, overflow = 'throw' } = settings
  const given = givenPath(filename)
  checkInteger('options.maxQueue', maxQueue, 1)
  if (overflow !== 'ignore' && overflow !== 'throw') throw valueError('options.overflow', 'is invalid', overflow)
  throwIfAborted(signal)
  const queue: WatchEvent[] = []
  let ended: { readonly error: unknown } | undefined
  let wake: (() => void) | undefined
  const end = (error?: unknown): void => {
    ended ??= { error }
    wake?.()
  }
  const watched = new Watched(context, await context.access.live(), {
    given,
    options: settings,
    sink: {
      change: (eventType, name) => {
        if (queue.length < maxQueue) queue.push({ eventType, filename: name })
        else if (overflow === 'throw') end(overflowError(maxQueue))
        wake?.()
      },
      end,
    },
  })
  const onAbort = (): void => end(abortError(signal!))
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    for (;;) {
      if (ended !== undefined && ended.error !== undefined) throw ended.error
      if (queue.length > 0) yield queue.shift()!
      else if (ended !== undefined) return
      else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  } finally {
    watched.stop()
    signal?.removeEventListener('abort', onAbort)
  }
}

function overflowError(maxQueue: number): Error {
  return codedError('ERR_FS_WATCH_QUEUE_OVERFLOW', `fs.watch() queued more than ${maxQueue} events`)
}
