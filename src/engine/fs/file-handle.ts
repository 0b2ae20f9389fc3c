import { EventEmitter } from 'node:events'
import { limits } from '../base/limits.js'
import { present } from '../base/present.js'
import { TimeSlice } from '../base/cooperative.js'
import { codedError } from './argument-errors.js'
import type { Context, Define } from './calls.js'
import * as descriptors from './descriptor-calls.js'
import { runLater } from './drivers.js'
import { readOpened, writeOpened } from './file-calls.js'
import { toChunks, writeChunks } from './chunks.js'
import { FileLines } from './lines.js'
import type { OpenFile } from './open-files.js'
import type { ReadStream, StreamOptions, Streams, WriteStream } from './streams.js'

/**
 * An open file in the shape of node:fs FileHandle. It follows its file through renames. After the file is
 * removed or replaced, it keeps the file's last state. Reads and writes without a position take effect in
 * call order. A read does not wait for the acknowledgement of earlier writes. Garbage collection of the
 * handle does not close it.
 */
export class FileHandle extends EventEmitter {
  readonly #context: Context
  readonly #streams: () => Streams
  #fd: number
  /** The number of running calls. Closing waits for them. */
  #busy = 0
  #idle: (() => void) | undefined
  #closing: Promise<void> | undefined
  #streamed = false

  constructor(context: Context, file: OpenFile, streams: () => Streams) {
    super()
    this.#context = context
    this.#streams = streams
    this.#fd = file.number
  }

  /** The file descriptor for the callback and synchronous forms; −1 after the handle is closed. */
  get fd(): number {
    return this.#fd
  }

  read(...parameters: unknown[]): Promise<unknown> {
    return this.#call('read', descriptors.read, parameters)
  }

  readv(buffers: unknown, position?: unknown): Promise<unknown> {
    return this.#call('readv', descriptors.readv, [buffers, position])
  }

  /** Reads the rest of the file, from the current position. */
  readFile(options?: unknown): Promise<unknown> {
    return this.#call('readFile', readOpened, [options])
  }

  /** Reads the rest of the file as lines, without line ends. */
  readLines(options?: StreamOptions): FileLines {
    return new FileLines(this.createReadStream(options))
  }

  /**
   * Streams the rest of the file as bytes, in chunks of 16 KiB or of the size of the reader's own buffers.
   * The stream does not close the handle.
   */
  readableWebStream(_options?: unknown): ReadableStream<Uint8Array> {
    if (this.#fd < 0) throw codedError('ERR_INVALID_STATE', 'Invalid state: The FileHandle is closed')
    if (this.#streamed) throw codedError('ERR_INVALID_STATE', 'Invalid state: The FileHandle is locked')
    this.#streamed = true
    const slice = new TimeSlice(this.#context.core.environment)
    return new ReadableStream({
      type: 'bytes',
      autoAllocateChunkSize: limits.readBufferBytes,
      pull: async (controller) => {
        // Every read has a request, because chunks are allocated for readers without buffers.
        const request = present(controller.byobRequest, 'the request of a stream')
        if (slice.over) await slice.next()
        const { bytesRead } = (await this.read(request.view)) as descriptors.ReadResult
        if (bytesRead === 0) controller.close()
        request.respond(bytesRead)
      },
    })
  }

  write(data: unknown, ...parameters: unknown[]): Promise<unknown> {
    return this.#call('write', descriptors.write, [data, ...parameters])
  }

  writev(buffers: unknown, position?: unknown): Promise<unknown> {
    return this.#call('writev', descriptors.writev, [buffers, position])
  }

  /** Writes from the current position. */
  async writeFile(data: unknown, options?: unknown): Promise<unknown> {
    const chunks = toChunks(data)
    if (chunks === undefined) return this.#call('writeFile', writeOpened, [data, options])
    return writeChunks((chunk) => this.#call('writeFile', writeOpened, [chunk]), chunks, options)
  }

  appendFile(data: unknown, options?: unknown): Promise<unknown> {
    return this.writeFile(data, options)
  }

  stat(options?: unknown): Promise<unknown> {
    return this.#call('fstat', descriptors.fstat, [options])
  }

  truncate(length?: unknown): Promise<unknown> {
    return this.#call('ftruncate', descriptors.ftruncate, [length])
  }

  sync(): Promise<unknown> {
    return this.#call('fsync', descriptors.fsync, [])
  }

  datasync(): Promise<unknown> {
    return this.#call('fdatasync', descriptors.fdatasync, [])
  }

  chmod(mode: unknown): Promise<unknown> {
    return this.#call('fchmod', descriptors.fchmod, [mode])
  }

  chown(uid: unknown, gid: unknown): Promise<unknown> {
    return this.#call('fchown', descriptors.fchown, [uid, gid])
  }

  utimes(atime: unknown, mtime: unknown): Promise<unknown> {
    return this.#call('futimes', descriptors.futimes, [atime, mtime])
  }

  createReadStream(options?: StreamOptions): ReadStream {
    return new (this.#streams().ReadStream)(undefined, { ...options, fd: this })
  }

  createWriteStream(options?: StreamOptions): WriteStream {
    return new (this.#streams().WriteStream)(undefined, { ...options, fd: this })
  }

  /** Waits for running calls, then closes. Closing again does nothing. */
  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    const fd = this.#fd
    const settled = this.#busy === 0 ? undefined : new Promise<void>((resolve) => (this.#idle = resolve))
    const close = (): Promise<void> => {
      this.#fd = -1
      return runLater(this.#context, descriptors.close(this.#context, fd))
    }
    this.#closing = settled === undefined ? close() : settled.then(close)
    this.emit('close')
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #call<T>(name: string, define: Define<T>, parameters: readonly unknown[]): Promise<T> {
    if (this.#fd < 0) throw Object.assign(codedError('EBADF', 'file closed'), { syscall: name })
    this.#busy++
    try {
      const [a, b, c, d] = parameters
      return await runLater(this.#context, define(this.#context, this.#fd, a, b, c, d))
    } finally {
      if (--this.#busy === 0) this.#idle?.()
    }
  }
}
