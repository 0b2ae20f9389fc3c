import { Mutex } from 'async-mutex'

/** One mutex for each key, for rare jobs of many steps. An unused key takes no memory. */
export class KeyedMutex {
  readonly #mutexes = new Map<string, Mutex>()

  async run<T>(key: string, job: () => Promise<T>): Promise<T> {
    let mutex = this.#mutexes.get(key)
    if (mutex === undefined) this.#mutexes.set(key, (mutex = new Mutex()))
    try {
      return await mutex.runExclusive(job)
    } finally {
      if (!mutex.isLocked()) this.#mutexes.delete(key)
    }
  }
}
