import { Buffer } from 'node:buffer'
import { whenLoaded } from '../base/fault.js'
import type { Core } from '../session/core.js'
import type { LiveSession } from '../session/live.js'
import { resolve } from '../session/resolve.js'
import { FileNode } from '../tree/node.js'
import { argumentError, type Encoding } from './arguments.js'
import { systemError } from './errors.js'
import { Stats } from './stats.js'

export interface FileReadOptions<T extends ArrayBufferView = Buffer> {
  readonly buffer?: T
  /** Where in the buffer the bytes go; 0 by default. */
  readonly offset?: number | null
  /** At most so many bytes; by default what fits. */
  readonly length?: number | null
  /** Where in the file to read; null or absent: where the last such read ended. */
  readonly position?: number | bigint | null
}

export interface FileReadResult<T> {
  readonly bytesRead: number
  readonly buffer: T
}

const defaultBufferBytes = 16 * 1024

/**
 * An open file in the shape of node:fs FileHandle, for reading ranges. It sees later writes to the file, and
 * when the file is removed or replaced it goes on reading what the file last was.
 */
export class FileHandle {
  readonly #core: Core
  readonly #live: LiveSession
  readonly #path: string
  #file: FileNode
  #position = 0
  #closed = false

  constructor(core: Core, live: LiveSession, open: { path: string; file: FileNode }) {
    this.#core = core
    this.#live = live
    this.#path = open.path
    this.#file = open.file
  }

  /** As in Node: into a buffer of yours, or into a new one of 16 KiB. At the end of the file 0 bytes are read. */
  read<T extends ArrayBufferView>(
    buffer: T,
    offset?: number | null,
    length?: number | null,
    position?: number | bigint | null,
  ): Promise<FileReadResult<T>>
  read<T extends ArrayBufferView>(
    buffer: T,
    options?: Omit<FileReadOptions<T>, 'buffer'>,
  ): Promise<FileReadResult<T>>
  read<T extends ArrayBufferView = Buffer>(options?: FileReadOptions<T>): Promise<FileReadResult<T>>
  async read(
    first?: ArrayBufferView | FileReadOptions<ArrayBufferView>,
    second?: number | null | FileReadOptions<ArrayBufferView>,
    length?: number | null,
    position?: number | bigint | null,
  ): Promise<FileReadResult<ArrayBufferView>> {
    const options: FileReadOptions<ArrayBufferView> = ArrayBuffer.isView(first)
      ? typeof second === 'object' && second !== null
        ? { ...second, buffer: first }
        : { buffer: first, offset: second ?? 0, length: length ?? null, position: position ?? null }
      : (first ?? {})
    return this.#read(options)
  }

  /** The rest of the file from the current position on. */
  async readFile(options?: { encoding?: Encoding } | Encoding): Promise<Buffer | string> {
    const encoding = typeof options === 'object' && options !== null ? options.encoding : options
    const file = this.#current('read')
    const start = Math.min(this.#position, file.size)
    const body = await whenLoaded(() => this.#core.contentIds.body(file))
    const bytes = await this.#core.content.read(body, start, file.size - start)
    this.#position = Math.max(this.#position, file.size)
    return encoding === undefined || encoding === null || encoding === 'buffer'
      ? bytes
      : bytes.toString(encoding)
  }

  async stat(): Promise<Stats> {
    return new Stats(this.#current('fstat'))
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #read(options: FileReadOptions<ArrayBufferView>): Promise<FileReadResult<ArrayBufferView>> {
    const buffer = options.buffer ?? Buffer.alloc(defaultBufferBytes)
    const target = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
    const offset = checkRange('offset', options.offset ?? 0, target.length)
    const length = checkRange('length', options.length ?? target.length - offset, target.length - offset)
    const given = options.position ?? -1
    const explicit = given >= 0
    const file = this.#current('read')
    const start = Math.min(explicit ? Number(given) : this.#position, file.size)
    const count = Math.min(length, file.size - start)
    const body = await whenLoaded(() => this.#core.contentIds.body(file))
    target.set(await this.#core.content.read(body, start, count), offset)
    if (!explicit) this.#position = start + count
    return { bytesRead: count, buffer }
  }

  #current(syscall: string): FileNode {
    if (this.#closed) throw systemError('EBADF', { syscall })
    const { node } = resolve(this.#live.tree, this.#path, false)
    if (node instanceof FileNode && node.ino === this.#file.ino) this.#file = node
    return this.#file
  }
}

function checkRange(name: string, value: number, max: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= max) return value
  const range = `It must be >= 0 && <= ${max}. Received ${value}`
  throw Object.assign(argumentError('ERR_OUT_OF_RANGE', `The value of "${name}" is out of range. ${range}`), {
    name: 'RangeError',
  })
}
