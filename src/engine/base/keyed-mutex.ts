import { Mutex } from 'async-mutex'
import { untilAborted } from './abort.js'

/** One mutex for each key, for rare jobs of many steps. An unused key takes no memory. */
export class KeyedMutex {
  readonly #mutexes = new Map<string, Mutex>()

  /** Runs a job in its turn. If the signal aborts before that, the call rejects immediately, and the job never runs. */
  async run<T>(key: string, job: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const mutex = this.#mutexes.get(key) ?? new Mutex()
    this.#mutexes.set(key, mutex)
    const end = (release: () => void): void => {
      release()
      if (!mutex.isLocked()) this.#mutexes.delete(key)
    }
    const turn = mutex.acquire()
    let release: () => void
    try {
      release = signal === undefined ? await turn : await untilAborted(turn, signal)
    } catch (error) {
      // The turn still comes. It passes to the next job.
      turn.then(end, () => undefined)
      throw error
    }
    try {
      signal?.throwIfAborted()
      return await job()
    } finally {
      end(release)
    }
  }
}
