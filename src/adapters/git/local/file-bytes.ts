import type { Stats } from 'node:fs'
import type { ByteCache } from '../pack/byte-cache.js'
import { gitLimits } from '../limits.js'
import { readFully } from './local-files.js'
import { FileGone, type FilePlace, type OpenFiles } from './open-files.js'
import type { RandomBytes } from '../pack/random-bytes.js'

/** A cache of windows of several files. The key consists of the file's key and the number of the window. */
export type WindowCache = ByteCache<string, Buffer>

/** A file that does not change, read in windows. Throws FileGone if another file has replaced it. */
export class FileBytes implements RandomBytes {
  readonly size: number
  readonly #place: FilePlace
  readonly #stat: Stats
  readonly #files: OpenFiles
  readonly #windows: WindowCache
  /** The window of the last read. The next read usually needs it too. */
  #lastNumber = -1
  #last: Buffer = Buffer.alloc(0)

  private constructor(place: FilePlace, stat: Stats, files: OpenFiles, windows: WindowCache) {
    this.#place = place
    this.#stat = stat
    this.#files = files
    this.#windows = windows
    this.size = stat.size
  }

  static async open(place: FilePlace, files: OpenFiles, windows: WindowCache): Promise<FileBytes> {
    const stat = await files.use(place, (file) => Promise.resolve(file.stat))
    return new FileBytes(place, stat, files, windows)
  }

  at(offset: number, length: number): Buffer | Promise<Buffer> {
    const end = Math.min(offset + length, this.size)
    if (offset >= end) return Buffer.alloc(0)
    const number = Math.floor(offset / gitLimits.windowBytes)
    const start = number * gitLimits.windowBytes
    if (end > start + gitLimits.windowBytes) return this.#read(offset, end - offset)
    const window =
      number === this.#lastNumber ? this.#last : this.#windows.get(`${this.#place.key}:${number}`)
    if (window === undefined) {
      return this.#readWindow(number).then((bytes) => bytes.subarray(offset - start, end - start))
    }
    this.#lastNumber = number
    this.#last = window
    return window.subarray(offset - start, end - start)
  }

  async #readWindow(number: number): Promise<Buffer> {
    const start = number * gitLimits.windowBytes
    const window = await this.#read(start, Math.min(gitLimits.windowBytes, this.size - start))
    this.#windows.set(`${this.#place.key}:${number}`, window, window.length)
    return window
  }

  #read(offset: number, length: number): Promise<Buffer> {
    return this.#files.use(this.#place, async ({ handle, stat }) => {
      const { ino, size, mtimeMs } = this.#stat
      if (stat.ino !== ino || stat.size !== size || stat.mtimeMs !== mtimeMs) throw new FileGone()
      const bytes = await readFully(handle, offset, length)
      if (bytes.length < length) throw new FileGone()
      return bytes
    })
  }
}
