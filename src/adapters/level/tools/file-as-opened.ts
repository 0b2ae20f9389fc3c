import { Buffer } from 'node:buffer'
import type { DiskFile } from '../directory/disk.js'
import { levelLimits } from '../limits.js'

/**
 * A segment whose end stays as it is now, although its store may be in use. It can be read only.
 *
 * For example, a store has three commits and reserved space, which is zeros. A reader reads all of this, and then the
 * store puts commits 4 and 5 into the space. If the reader looked there again, it could find commit 5 after the zeros
 * that it has already read, as if commit 4 were damaged.
 */
export class FileAsOpened implements DiskFile {
  /** All bytes from here on were zeros. They are reserved space, or belong to the last commit. */
  readonly dataEnd: number
  readonly #file: DiskFile
  readonly #size: number

  private constructor(file: DiskFile, size: number, dataEnd: number) {
    this.#file = file
    this.#size = size
    this.dataEnd = dataEnd
  }

  static async of(file: DiskFile): Promise<FileAsOpened> {
    const size = await file.size()
    return new FileAsOpened(file, size, await endOfData(file, size))
  }

  size(): Promise<number> {
    return Promise.resolve(this.#size)
  }

  async read(position: number, length: number): Promise<Uint8Array> {
    const end = Math.min(position + length, this.#size)
    if (end <= this.dataEnd) return this.#file.read(position, length)
    const bytes = Buffer.alloc(Math.max(0, end - position))
    if (position >= this.dataEnd) return bytes
    const found = await this.#file.read(position, this.dataEnd - position)
    if (position + found.length < this.dataEnd) return found
    bytes.set(found)
    return bytes
  }

  /** Only for bytes of a commit, which never change. */
  readSync(position: number, length: number): Uint8Array {
    return this.#file.readSync(position, length)
  }

  write(position: number, pieces: readonly Uint8Array[]): Promise<void> {
    return this.#file.write(position, pieces)
  }

  truncate(size: number): Promise<void> {
    return this.#file.truncate(size)
  }

  sync(where?: 'here' | 'elsewhere'): Promise<void> {
    return this.#file.sync(where)
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

/**
 * The offset after the last byte that is not zero. The search ends where reserved space cannot begin: bytes before this
 * are commits, and never change.
 */
async function endOfData(file: DiskFile, size: number): Promise<number> {
  // Most files have no such space. Then a short piece suffices.
  for (const bytes of [levelLimits.endBytes, levelLimits.reservedBytes]) {
    const from = Math.max(0, size - bytes)
    const end = endIn(await file.read(from, size - from))
    if (end > 0) return from + end
  }
  return Math.max(0, size - levelLimits.reservedBytes)
}

function endIn(bytes: Uint8Array): number {
  let end = bytes.length
  while (end > 0 && bytes[end - 1] === 0) end--
  return end
}
