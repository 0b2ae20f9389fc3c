import { Buffer } from 'node:buffer'
import { addAbortSignal, finished, Readable, Writable } from 'node:stream'
import { TimeSlice } from '../base/slices.js'
import { rangeError, typeError } from './argument-errors.js'
import { checkBoolean, checkInteger } from './values.js'
import { givenPath } from './plain-path.js'
import { toNumber, toOptions, type Options } from './arguments.js'
import type { Context } from './calls.js'
import * as descriptors from './descriptor-calls.js'
import { runLater } from './drivers.js'
import { open } from './open-calls.js'
import { settle } from './settle.js'

/** What a stream needs of a FileHandle. */
interface Handle {
  readonly fd: number
  close(): Promise<void>
  on(event: 'close', listener: () => void): unknown
}

export interface StreamOptions extends Options {
  readonly fd?: number | Handle | null
  readonly flags?: string | number
  readonly mode?: number | string
  readonly autoClose?: boolean
  readonly emitClose?: boolean
  readonly start?: number
  readonly end?: number
  readonly highWaterMark?: number
  readonly flush?: boolean
}

const readChunkBytes = 64 * 1024

/** The open file behind a stream: opened by the stream itself, a descriptor's number, or a FileHandle. */
class StreamFile {
  readonly context: Context
  readonly path: string | undefined
  readonly flags: unknown
  readonly mode: unknown
  fd: number | null = null
  readonly #handle: Handle | undefined
  readonly #slice: TimeSlice
  #working: Promise<unknown> = Promise.resolve()

  constructor(context: Context, path: unknown, options: StreamOptions, defaultFlags: string) {
    this.context = context
    this.#slice = new TimeSlice(context.core.environment)
    const { fd } = options
    if (fd === undefined || fd === null) {
      this.path = givenPath(path)
      this.flags = options.flags ?? defaultFlags
      this.mode = options.mode
    } else if (typeof fd === 'number') this.fd = toNumber(fd)
    else if (typeof fd === 'object' && 'fd' in fd) {
      this.#handle = fd
      this.fd = toNumber(fd.fd)
    } else throw typeError('options.fd', 'of type number or an instance of FileHandle', fd)
  }

  onHandleClosed(listener: () => void): void {
    this.#handle?.on('close', listener)
  }

  /** True when this opened it just now. */
  async open(): Promise<boolean> {
    if (this.fd !== null) return false
    this.fd = await runLater(this.context, open(this.context, this.path, this.flags, this.mode))
    return true
  }

  /**
   * Reads and writes one at a time; closing waits for the one under way. What is in memory is there at once,
   * so a long stream lets the event loop have a turn now and then.
   */
  work<T>(run: (fd: number) => Promise<T>): Promise<T> {
    const working = this.#slice.over ? this.#slice.next().then(() => run(this.fd!)) : run(this.fd!)
    this.#working = working.catch(() => undefined)
    return working
  }

  async close(flush: boolean): Promise<void> {
    await this.#working
    const { fd, context } = this
    if (fd === null) return
    this.fd = null
    if (flush) await runLater(context, descriptors.fsync(context, fd))
    if (this.#handle === undefined) await runLater(context, descriptors.close(context, fd))
    else await this.#handle.close()
  }
}

type Done = (error?: Error | null) => void

function finish(work: Promise<unknown>, done: Done): void {
  settle(
    work,
    () => done(),
    (error) => done(error as Error),
  )
}

function openInto(stream: Readable | Writable, file: StreamFile, done: Done): void {
  settle(
    file.open(),
    (opened) => {
      done()
      if (!opened) return
      stream.emit('open', file.fd)
      stream.emit('ready')
    },
    (error) => done(error as Error),
  )
}

/** The shape of node:fs ReadStream. `end` is inclusive. */
export class ReadStream extends Readable {
  readonly path: string | undefined
  bytesRead = 0
  readonly start: number | undefined
  readonly end: number
  pos: number | undefined
  readonly #file: StreamFile

  constructor(context: Context, path: unknown, options: unknown) {
    const settings: StreamOptions = toOptions(options)
    const file = new StreamFile(context, path, settings, 'r')
    const { start, end, autoClose = true } = settings
    if (start !== undefined) checkInteger('start', start, 0)
    if (end !== undefined && end !== Infinity) checkInteger('end', end, 0)
    if (start !== undefined && end !== undefined && start > end)
      throw rangeError('start', `<= "end" (here: ${end})`, start)
    super({ highWaterMark: readChunkBytes, ...streamOptions(settings), autoDestroy: autoClose })
    this.#file = file
    this.path = file.path
    this.start = start
    this.end = end ?? Infinity
    this.pos = start
    file.onHandleClosed(() => this.close())
    if (settings.signal !== undefined) addAbortSignal(settings.signal, this)
  }

  /** Whether the file is not open yet. */
  get pending(): boolean {
    return this.#file.fd === null
  }

  get fd(): number | null {
    return this.#file.fd
  }

  get autoClose(): boolean {
    return (this as unknown as { _readableState: { autoDestroy: boolean } })._readableState.autoDestroy
  }

  override _construct(done: Done): void {
    openInto(this, this.#file, done)
  }

  override _read(size: number): void {
    const left = this.end - (this.pos ?? this.bytesRead) + 1
    const length = Math.min(left, size)
    if (length <= 0) {
      this.push(null)
      return
    }
    const { context } = this.#file
    const buffer = Buffer.allocUnsafeSlow(length)
    const position = this.pos ?? null
    settle(
      this.#file.work((fd) => runLater(context, descriptors.read(context, fd, buffer, 0, length, position))),
      ({ bytesRead }) => {
        if (this.destroyed) return
        if (bytesRead === 0) {
          this.push(null)
          return
        }
        if (this.pos !== undefined) this.pos += bytesRead
        this.bytesRead += bytesRead
        // A copy, so that a short read does not keep the whole buffer.
        this.push(bytesRead === length ? buffer : Buffer.from(buffer.subarray(0, bytesRead)))
      },
      (error) => {
        if (this.autoClose) this.destroy(error as Error)
        else this.emit('error', error)
      },
    )
  }

  override _destroy(error: Error | null, done: Done): void {
    finish(this.#file.close(false), (failure) => done(failure ?? error))
  }

  close(callback?: (error?: Error | null) => void): void {
    if (callback !== undefined) finished(this, callback)
    this.destroy()
  }
}

/** The shape of node:fs WriteStream. What is written is acknowledged when its callback runs. */
export class WriteStream extends Writable {
  readonly path: string | undefined
  bytesWritten = 0
  readonly start: number | undefined
  pos: number | undefined
  readonly #flush: boolean
  readonly #file: StreamFile

  constructor(context: Context, path: unknown, options: unknown) {
    const settings: StreamOptions = toOptions(options)
    const file = new StreamFile(context, path, settings, 'w')
    const { start, autoClose = true, encoding, flush } = settings
    const flushes = flush == null ? false : checkBoolean('options.flush', flush)
    if (start !== undefined) checkInteger('start', start, 0)
    super({ ...streamOptions(settings), decodeStrings: true, autoDestroy: autoClose })
    this.#file = file
    this.#flush = flushes
    this.path = file.path
    this.start = start
    this.pos = start
    file.onHandleClosed(() => this.close())
    if (settings.signal !== undefined) addAbortSignal(settings.signal, this)
    if (encoding !== undefined && encoding !== null && encoding !== 'buffer')
      this.setDefaultEncoding(encoding)
  }

  /** Whether the file is not open yet. */
  get pending(): boolean {
    return this.#file.fd === null
  }

  get fd(): number | null {
    return this.#file.fd
  }

  get autoClose(): boolean {
    return (this as unknown as { _writableState: { autoDestroy: boolean } })._writableState.autoDestroy
  }

  override _construct(done: Done): void {
    openInto(this, this.#file, done)
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#writeBytes([chunk], done)
  }

  override _writev(chunks: { chunk: Buffer }[], done: Done): void {
    this.#writeBytes(
      chunks.map(({ chunk }) => chunk),
      done,
    )
  }

  override _destroy(error: Error | null, done: Done): void {
    finish(this.#file.close(this.#flush), (failure) => done(failure ?? error))
  }

  close(callback?: (error?: Error | null) => void): void {
    if (callback !== undefined) {
      if (this.closed) queueMicrotask(() => callback())
      else this.on('close', () => callback())
    }
    if (!this.autoClose) this.on('finish', () => this.destroy())
    this.end()
  }

  /** As `end`: what is written first is kept. */
  destroySoon(): void {
    this.end()
  }

  #writeBytes(chunks: Buffer[], done: Done): void {
    const { context } = this.#file
    const position = this.pos ?? null
    const written = this.#file.work(async (fd) => {
      const { bytesWritten } = await runLater(context, descriptors.writev(context, fd, chunks, position))
      if (this.pos !== undefined) this.pos += bytesWritten
      this.bytesWritten += bytesWritten
    })
    finish(written, done)
  }
}

/** What node:stream itself takes of the options. */
function streamOptions({ encoding, emitClose, highWaterMark }: StreamOptions): object {
  return {
    ...(encoding !== undefined && encoding !== null && encoding !== 'buffer' && { encoding }),
    ...(emitClose !== undefined && { emitClose }),
    ...(highWaterMark !== undefined && { highWaterMark }),
  }
}
