import type { BigIntStats } from 'node:fs'
import { itemAt } from '../../engine/ports.js'
import type { DirectoryHandle } from './directory-handle.js'
import { hostLimits } from './limits.js'
import { readFile, wholeOf, type ReadFile } from './read-file.js'

/**
 * A whole file, without a `value` if it is too large. Undefined if it was not read ahead or is not a regular
 * file.
 */
type Whole = ReadFile<Uint8Array | undefined> | undefined

/** Reads small files of a directory concurrently, while the caller processes earlier files. */
export class ReadAhead {
  readonly #directory: DirectoryHandle
  readonly #files: readonly (readonly [name: string, stat: BigIntStats])[]
  readonly #reading = new Map<string, Promise<Whole>>()
  #next = 0
  #bytes = 0

  /** The caller must take the `files` in their order. */
  constructor(directory: DirectoryHandle, files: readonly (readonly [name: string, stat: BigIntStats])[]) {
    this.#directory = directory
    this.#files = files.filter(([, { size }]) => size <= hostLimits.pieceBytes)
  }

  async take(name: string): Promise<Whole> {
    this.#start()
    const reading = this.#reading.get(name)
    if (reading === undefined) return undefined
    try {
      return await reading
    } finally {
      this.#reading.delete(name)
    }
  }

  /** Starts no further reads. Resolves when the running reads have ended. */
  async end(): Promise<void> {
    this.#next = this.#files.length
    await Promise.allSettled(this.#reading.values())
  }

  #start(): void {
    if (this.#reading.size === 0) this.#bytes = 0
    while (
      this.#next < this.#files.length &&
      this.#reading.size < hostLimits.readsAtOnce &&
      (this.#bytes < hostLimits.readAheadBytes || this.#reading.size === 0)
    ) {
      const [name, { size }] = itemAt(this.#files, this.#next++)
      this.#bytes += Number(size)
      const whole = readFile(this.#directory, name, async (content, stat) =>
        stat.size <= hostLimits.pieceBytes ? wholeOf(content) : undefined,
      )
      // `take` throws the error.
      whole.catch(() => undefined)
      this.#reading.set(name, whole)
    }
  }
}
