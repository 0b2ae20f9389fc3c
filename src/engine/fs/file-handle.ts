import { Buffer } from 'node:buffer'
import { EngineError } from '../base/errors.js'
import { whenLoaded } from '../base/fault.js'
import type { SessionAccess } from '../session/access.js'
import type { LiveSession } from '../session/live.js'
import { resolve } from '../session/resolve.js'
import { FileNode, type Node } from '../tree/node.js'
import { argumentError, type Encoding } from './arguments.js'
import { systemError, toSystemError } from './errors.js'
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
  readonly #access: SessionAccess
  readonly #path: string
  #file: FileNode
  #position = 0
  #closed = false
  /** Reads one after the other: each goes on where the one before ended. */
  #tail: Promise<unknown> = Promise.resolve()

  constructor(access: SessionAccess, open: { path: string; file: FileNode }) {
    this.#access = access
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
  readFile(options?: { encoding?: Encoding } | Encoding): Promise<Buffer | string> {
    const encoding = typeof options === 'object' && options !== null ? options.encoding : options
    return this.#inTurn('read', async (file) => {
      const start = Math.min(this.#position, file.size)
      const bytes = await this.#bytes(file, start, file.size - start)
      this.#position = Math.max(this.#position, file.size)
      return encoding === undefined || encoding === null || encoding === 'buffer'
        ? bytes
        : bytes.toString(encoding)
    })
  }

  stat(): Promise<Stats> {
    return this.#inTurn('fstat', async (file) => new Stats(file))
  }

  async close(): Promise<void> {
    this.#closed = true
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #read(options: FileReadOptions<ArrayBufferView>): Promise<FileReadResult<ArrayBufferView>> {
    const buffer = checkBuffer(options.buffer ?? Buffer.alloc(defaultBufferBytes))
    const target = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
    const offset = checkRange('offset', options.offset ?? 0, target.length)
    const length = checkRange('length', options.length ?? target.length - offset, target.length - offset)
    const position = checkPosition(options.position ?? -1)
    return this.#inTurn('read', async (file) => {
      const start = Math.min(position >= 0 ? position : this.#position, file.size)
      const count = Math.min(length, file.size - start)
      target.set(await this.#bytes(file, start, count), offset)
      if (position < 0) this.#position = start + count
      return { bytesRead: count, buffer }
    })
  }

  async #bytes(file: FileNode, start: number, count: number): Promise<Buffer> {
    const { content, contentIds } = this.#access.core
    return content.read(await whenLoaded(() => contentIds.body(file)), start, count)
  }

  #inTurn<T>(syscall: string, work: (file: FileNode) => Promise<T>): Promise<T> {
    const turn = this.#tail.then(async () => {
      if (this.#closed) throw systemError('EBADF', { syscall })
      try {
        return await work(await this.#current())
      } catch (thrown) {
        throw toSystemError(thrown, { syscall })
      }
    })
    this.#tail = turn.catch(() => undefined)
    return turn
  }

  async #current(): Promise<FileNode> {
    const live = await this.#access.live()
    const node = await whenLoaded(() => find(live, this.#path))
    if (node instanceof FileNode && node.ino === this.#file.ino) this.#file = node
    return this.#file
  }
}

/** What is at the path; undefined also when the way there is no longer one. */
function find(live: LiveSession, path: string): Node | undefined {
  try {
    return resolve(live.tree, path, false).node
  } catch (thrown) {
    if (thrown instanceof EngineError && thrown.code === 'FAILED_PRECONDITION') return undefined
    throw thrown
  }
}

function checkBuffer(buffer: unknown): ArrayBufferView {
  if (ArrayBuffer.isView(buffer)) return buffer
  throw argumentError(
    'ERR_INVALID_ARG_TYPE',
    'The "buffer" argument must be an instance of Buffer, TypedArray, or DataView.',
  )
}

function checkPosition(position: unknown): number {
  if (typeof position !== 'number' && typeof position !== 'bigint') {
    throw argumentError('ERR_INVALID_ARG_TYPE', 'The "position" argument must be of type integer or bigint.')
  }
  return checkRange('position', Number(position) + 1, Number.MAX_SAFE_INTEGER) - 1
}

function checkRange(name: string, value: number, max: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= max) return value
  const range = `It must be >= 0 && <= ${max}. Received ${value}`
  throw Object.assign(argumentError('ERR_OUT_OF_RANGE', `The value of "${name}" is out of range. ${range}`), {
    name: 'RangeError',
  })
}
