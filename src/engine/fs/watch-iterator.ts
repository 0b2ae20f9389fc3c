import type { Buffer } from 'node:buffer'
import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import { whenLoaded } from '../base/fault.js'
import { abortError, codedError, throwIfAborted, valueError } from './argument-errors.js'
import { checkInteger } from './values.js'
import { givenPath } from './resolve-path.js'
import type { Context } from './calls.js'
import { toWatchOptions, Watched, watchError, type WatchOptions, type WatchSink } from './watch.js'

export interface WatchEvent {
  readonly eventType: 'rename' | 'change'
  readonly filename: string | Buffer
}

/** Options of `session.fs.promises.watch`. */
export interface WatchQueueOptions extends WatchOptions {
  /** The largest number of events that wait for the reader. At least 1; 2,048 by default. */
  readonly maxQueue?: number
  /**
   * The effect of an event over that limit: `'throw'` (default) ends the iteration with an error, `'ignore'`
   * drops the event.
   */
  readonly overflow?: 'ignore' | 'throw'
}

const optionNames = ['persistent', 'recursive', 'maxQueue', 'overflow'] as const

/**
 * Yields the changes of a file or directory, from the first `next()` until the loop is left or the signal
 * aborts.
 */
export async function* watchEvents(
  context: Context,
  filename: unknown,
  options?: unknown,
): AsyncGenerator<WatchEvent, void, void> {
  const settings = toWatchOptions<WatchQueueOptions>(options, optionNames)
  const { signal, maxQueue = limits.watchQueue, overflow = 'throw' } = settings
  const given = givenPath(filename)
  checkInteger('options.maxQueue', maxQueue, 1)
  if (overflow !== 'ignore' && overflow !== 'throw')
    throw valueError('options.overflow', 'is invalid', overflow)
  throwIfAborted(signal)
  const queue: WatchEvent[] = []
  let ended: { readonly error: unknown } | undefined
  let wake: (() => void) | undefined
  const end = (error?: unknown): void => {
    ended ??= { error }
    wake?.()
  }
  const sink: WatchSink = {
    change: (eventType, name) => {
      if (queue.length < maxQueue) queue.push({ eventType, filename: name })
      else if (overflow === 'throw') end(overflowError(maxQueue))
      wake?.()
    },
    end,
  }
  let watched: Watched
  try {
    // If everything is loaded, this does not await, so that writes right after the call are reported.
    const opened = context.access.live('fs.read')
    const live = opened instanceof Promise ? await opened : opened
    watched = await whenLoaded(() => new Watched(context, live, { given, options: settings, sink }))
  } catch (thrown) {
    throw watchError(thrown, given)
  }
  const onAbort = (): void => end(abortError(present(signal, 'the signal')))
  // It may have aborted while the session was loaded.
  if (signal?.aborted === true) onAbort()
  else signal?.addEventListener('abort', onAbort, { once: true })
  try {
    for (;;) {
      if (ended !== undefined && ended.error !== undefined) throw ended.error
      const next = queue.shift()
      if (next !== undefined) yield next
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
