import { Buffer } from 'node:buffer'
import { finished, Readable, Writable, type ReadableOptions, type WritableOptions } from 'node:stream'
import type { Environment } from '../base/environment.js'
import { limits } from '../base/limits.js'
import { TimeSlice } from '../base/cooperative.js'
import { itemAt } from '../base/present.js'
import { argumentError, codedError, rangeError, typeError } from './argument-errors.js'
import { checkBoolean, checkInteger } from './values.js'
import { givenPath } from './resolve-path.js'
import { toNumber, toOptions, type Options } from './arguments.js'
import { settle } from './settle.js'

type Done = (error?: Error | null) => void
type Counted = (error: NodeJS.ErrnoException | null, bytes: number) => void
type Position = number | undefined
/** null when a caller's own method `open` set none. The functions refuse it. */
type Fd = number | null

/**
 * The functions of node:fs that a stream calls. They come from the session, the option `fs` or a FileHandle.
 */
interface StreamFs {
  open(path: unknown, flags: unknown, mode: unknown, done: (error: Error | null, fd: number) => void): void
  read(fd: Fd, buffer: Buffer, offset: number, length: number, position: Position, done: Counted): void
  write?(fd: Fd, buffer: Buffer, offset: number, length: number, position: Position, done: Counted): void
  writev?(fd: Fd, buffers: Buffer[], position: Position, done: Counted): void
  fsync?(fd: number, done: Done): void
  close(fd: number, done: Done): void
}

/** The part of a FileHandle that a stream needs. */
interface Handle {
  readonly fd: number
  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number | null,
  ): Promise<{ bytesRead: number }>
  write(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number | null,
  ): Promise<{ bytesWritten: number }>
  writev(buffers: Buffer[], position: number | null): Promise<{ bytesWritten: number }>
  sync(): Promise<unknown>
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
  readonly defaultEncoding?: BufferEncoding
  readonly highWaterMark?: number
  readonly flush?: boolean
  readonly fs?: unknown
}

const optionNames = [
  'fd',
  'flags',
  'mode',
  'autoClose',
  'emitClose',
  'start',
  'end',
  'defaultEncoding',
  'highWaterMark',
  'flush',
  'fs',
] as const

/** The default mode of a new file: Node's 0o666 under the usual umask. */
const defaultMode = 0o644

const work = Symbol('work')

/** Properties of both kinds of streams, as in Node. */
interface FileStream {
  fd: number | null
  path: unknown
  flags: unknown
  mode: unknown
  start: number | undefined
  pos: number | undefined
  open: () => void
  /** Private state. */
  [work]: Work
}

/**
 * The access of a stream to its file. One read or write runs at a time. Destroying the stream waits for it.
 */
class Work {
  readonly fs: StreamFs
  readonly #slice: TimeSlice
  #busy = false
  #whenIdle: ((error: Error | null) => void) | undefined

  constructor(fs: StreamFs, environment: Environment) {
    this.fs = fs
    this.#slice = new TimeSlice(environment)
  }

  /**
   * Content in memory is available without waiting. So a long stream yields to the event loop now and then.
   */
  begin(run: () => void): void {
    this.#busy = true
    if (this.#slice.over) settle(this.#slice.next(), run, run)
    else run()
  }

  end(error: Error | null): void {
    this.#busy = false
    this.#whenIdle?.(error)
  }

  whenIdle(run: (error: Error | null) => void): void {
    if (this.#busy) this.#whenIdle = run
    else run(null)
  }
}

export interface ReadStream extends Readable, FileStream {
  end: number
  bytesRead: number
  readonly pending: boolean
  autoClose: boolean
  close(done?: Done): void
}

export interface WriteStream extends Writable, FileStream {
  flush: boolean
  bytesWritten: number
  readonly pending: boolean
  autoClose: boolean
  close(done?: Done): void
  destroySoon(): void
}

/** A constructor that also works without `new`, and on an object that inherits from its prototype. */
export interface StreamConstructor<S> {
  new (path: unknown, options?: unknown): S
  (path: unknown, options?: unknown): S
  readonly prototype: S
}

export interface Streams {
  readonly ReadStream: StreamConstructor<ReadStream>
  readonly WriteStream: StreamConstructor<WriteStream>
}

/**
 * Creates the stream constructors of one `session.fs`, in the shape of those of node:fs. They are functions,
 * not classes, because packages such as graceful-fs derive constructors from them. Streams look up the
 * functions of `fs` at each call, so they also call a function that was replaced there.
 */
export function makeStreams(fs: StreamFs, environment: Environment): Streams {
  function ReadStream(this: unknown, path: unknown, options: unknown): unknown {
    if (!(this instanceof (ReadStream as unknown as new () => object)))
      return new made.ReadStream(path, options)
    startReading(this as ReadStream, { path, options, fs, environment })
    return undefined
  }

  function WriteStream(this: unknown, path: unknown, options: unknown): unknown {
    if (!(this instanceof (WriteStream as unknown as new () => object)))
      return new made.WriteStream(path, options)
    startWriting(this as WriteStream, { path, options, fs, environment })
    return undefined
  }

  const made = {
    ReadStream: inherit<ReadStream>(ReadStream, Readable, readMethods),
    WriteStream: inherit<WriteStream>(WriteStream, Writable, writeMethods),
  }
  return made
}

function inherit<S>(made: unknown, parent: { prototype: object }, methods: object): StreamConstructor<S> {
  const constructor = made as StreamConstructor<S> & { prototype: object }
  Object.setPrototypeOf(constructor, parent)
  Object.setPrototypeOf(constructor.prototype, parent.prototype)
  Object.defineProperties(constructor.prototype, Object.getOwnPropertyDescriptors(methods))
  return constructor
}

interface Given {
  readonly path: unknown
  readonly options: unknown
  readonly fs: StreamFs
  readonly environment: Environment
}

function startReading(stream: ReadStream, given: Given): void {
  const settings = toOptions<StreamOptions>(given.options, optionNames)
  const fs = begin(stream, given, settings, 'r')
  const { start, end, autoClose = true } = settings
  checkFunction(fs, 'read')
  if (autoClose) checkFunction(fs, 'close')
  if (start !== undefined) checkInteger('start', start, 0)
  if (end !== undefined && end !== Infinity) checkInteger('end', end, 0)
  if (start !== undefined && end !== undefined && start > end)
    throw rangeError('start', `<= "end" (here: ${end})`, start)
  stream.end = end ?? Infinity
  stream.bytesRead = 0
  construct(Readable, stream, {
    highWaterMark: limits.streamReadBytes,
    ...streamOptions(settings),
    autoDestroy: autoClose,
  })
  closeWith(stream, settings)
}

function startWriting(stream: WriteStream, given: Given): void {
  const settings = toOptions<StreamOptions>(given.options, optionNames)
  const fs = begin(stream, given, settings, 'w')
  const { start, autoClose = true, encoding, flush } = settings
  if (fs.write !== undefined || fs.writev === undefined) checkFunction(fs, 'write')
  if (fs.writev !== undefined) checkFunction(fs, 'writev')
  if (autoClose) checkFunction(fs, 'close')
  stream.flush = flush == null ? false : checkBoolean('options.flush', flush)
  if (stream.flush) checkFunction(fs, 'fsync')
  if (start !== undefined) checkInteger('start', start, 0)
  // One of `write` and `writev` is enough.
  if (fs.write === undefined) Object.assign(stream, { _write: null })
  if (fs.writev === undefined) Object.assign(stream, { _writev: null })
  stream.bytesWritten = 0
  construct(Writable, stream, {
    ...streamOptions(settings),
    decodeStrings: true,
    autoDestroy: autoClose,
  })
  if (encoding && encoding !== 'buffer') stream.setDefaultEncoding(encoding)
  closeWith(stream, settings)
}

/**
 * Closing the FileHandle closes the streams on it. This is called last, because the steps before it may
 * reject the options.
 */
function closeWith(stream: ReadStream | WriteStream, { fd }: StreamOptions): void {
  if (typeof fd === 'object' && fd !== null) fd.on('close', () => stream.close())
}

/** Calls one of Node's stream constructors on an object that inherits from its prototype. */
function construct(parent: unknown, stream: object, options: ReadableOptions & WritableOptions): void {
  ;(parent as (this: object, options: object) => void).call(stream, options)
}

/** Sets the file of a stream: a path to open, the number of a descriptor, or a FileHandle. */
function begin(stream: FileStream, given: Given, settings: StreamOptions, flags: string): StreamFs {
  const { fd, start } = settings
  let fs = (settings.fs ?? given.fs) as StreamFs
  stream.fd = null
  if (fd === undefined || fd === null) {
    checkFunction(fs, 'open')
    const path = givenPath(given.path)
    stream.path = given.path instanceof URL ? path : given.path
    stream.flags = settings.flags ?? flags
    stream.mode = settings.mode ?? defaultMode
  } else if (typeof fd === 'number') stream.fd = toNumber(fd)
  else if (typeof fd === 'object' && 'fd' in fd) {
    if (settings.fs !== undefined && settings.fs !== null)
      throw codedError('ERR_METHOD_NOT_IMPLEMENTED', 'The FileHandle with fs method is not implemented')
    stream.fd = toNumber(fd.fd)
    fs = handleFs(fd)
  } else throw typeError('options.fd', 'of type number or an instance of FileHandle', fd)
  stream.start = start
  stream.pos = start
  Object.defineProperty(stream, work, { value: new Work(fs, given.environment) })
  return fs
}

function handleFs(handle: Handle): StreamFs {
  const at = (position: Position): number | null => position ?? null
  return {
    open: () => {
      throw codedError('ERR_METHOD_NOT_IMPLEMENTED', 'The open() method is not implemented')
    },
    read: (_fd, buffer, offset, length, position, done) =>
      settle(
        handle.read(buffer, offset, length, at(position)),
        ({ bytesRead }) => done(null, bytesRead),
        (error) => done(error as Error, 0),
      ),
    write: (_fd, buffer, offset, length, position, done) =>
      settle(
        handle.write(buffer, offset, length, at(position)),
        ({ bytesWritten }) => done(null, bytesWritten),
        (error) => done(error as Error, 0),
      ),
    writev: (_fd, buffers, position, done) =>
      settle(
        handle.writev(buffers, at(position)),
        ({ bytesWritten }) => done(null, bytesWritten),
        (error) => done(error as Error, 0),
      ),
    fsync: (_fd, done) => finish(handle.sync(), done),
    close: (_fd, done) => finish(handle.close(), done),
  }
}

function finish(promise: Promise<unknown>, done: Done): void {
  settle(
    promise,
    () => done(),
    (error) => done(error as Error),
  )
}

function checkFunction(fs: StreamFs, name: keyof StreamFs): void {
  if (typeof fs[name] !== 'function') throw typeError(`options.fs.${name}`, 'of type function', fs[name])
}

/** The options of node:stream itself. */
function streamOptions(given: StreamOptions): object {
  const { encoding, defaultEncoding, emitClose, highWaterMark, signal } = given
  return {
    ...(encoding && encoding !== 'buffer' && { encoding }),
    ...(defaultEncoding && { defaultEncoding }),
    ...(emitClose !== undefined && { emitClose }),
    ...(highWaterMark !== undefined && { highWaterMark }),
    ...(signal !== undefined && { signal }),
  }
}

/** As in Node, this does nothing. A package that replaces it opens the file itself. */
function open(): void {}

function openFile(stream: (ReadStream | WriteStream) & FileStream, done: Done): void {
  if (typeof stream.fd === 'number') {
    done()
    return
  }
  if (stream.open !== open) {
    openByMethod(stream, done)
    return
  }
  stream[work].fs.open(stream.path, stream.flags, stream.mode, (error, fd) => {
    if (error !== null && error !== undefined) {
      done(error)
      return
    }
    stream.fd = fd
    done()
    stream.emit('open', fd)
    stream.emit('ready')
  })
}

/** A caller's own method `open` reports its result by an event: `open` or `error`. */
function openByMethod(stream: (ReadStream | WriteStream) & FileStream, done: Done): void {
  const emit = stream.emit.bind(stream)
  stream.emit = function (this: typeof stream, name: string | symbol, ...given: unknown[]): boolean {
    if (name !== 'open' && name !== 'error') return emit(name, ...given)
    this.emit = emit
    if (name === 'error') {
      done(given[0] as Error)
      return true
    }
    done()
    return emit(name, ...given)
  } as typeof emit
  stream.open()
}

function closeFile(stream: FileStream, failed: Error | null, done: Done): void {
  const { fs } = stream[work]
  const { fd } = stream
  if (fd === null || fd === undefined) {
    done(failed)
    return
  }
  fs.close(fd, (error) => done(error ?? failed))
  stream.fd = null
}

const isPending = (stream: FileStream): boolean => stream.fd === null

/** Methods of streams that read. */
const readMethods = {
  open,

  /** Whether the file is not open yet. */
  get pending(): boolean {
    return isPending(this as unknown as FileStream)
  },

  get autoClose(): boolean {
    return stateOf(this, '_readableState').autoDestroy
  },

  set autoClose(value: boolean) {
    stateOf(this, '_readableState').autoDestroy = value
  },

  _construct(this: ReadStream, done: Done): void {
    openFile(this, done)
  },

  _read(this: ReadStream, size: number): void {
    const length = Math.min(this.end - (this.pos ?? this.bytesRead) + 1, size)
    if (length <= 0) {
      this.push(null)
      return
    }
    const io = this[work]
    const buffer = Buffer.allocUnsafeSlow(length)
    const onRead: Counted = (error, bytesRead) => {
      io.end(error)
      if (this.destroyed) return
      if (error !== null && error !== undefined) {
        if (this.autoClose) this.destroy(error)
        else this.emit('error', error)
      } else if (bytesRead === 0) this.push(null)
      else {
        if (this.pos !== undefined) this.pos += bytesRead
        this.bytesRead += bytesRead
        // Copies a short read, so that it does not keep the whole buffer in memory.
        this.push(bytesRead === length ? buffer : copyOf(buffer, bytesRead))
      }
    }
    io.begin(() => io.fs.read(this.fd, buffer, 0, length, this.pos, onRead))
  },

  _destroy(this: ReadStream, error: Error | null, done: Done): void {
    this[work].whenIdle((failed) => closeFile(this, error ?? failed, done))
  },

  close(this: ReadStream, done?: Done): void {
    if (done !== undefined) finished(this, done)
    this.destroy()
  },
}

/** Methods of streams that write. A write is acknowledged when its callback runs. */
const writeMethods = {
  open,

  /** Whether the file is not open yet. */
  get pending(): boolean {
    return isPending(this as unknown as FileStream)
  },

  get autoClose(): boolean {
    return stateOf(this, '_writableState').autoDestroy
  },

  set autoClose(value: boolean) {
    stateOf(this, '_writableState').autoDestroy = value
  },

  _construct(this: WriteStream, done: Done): void {
    openFile(this, done)
  },

  _write(this: WriteStream, chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    const io = this[work]
    const { fs } = io
    writeAll(this, done, [chunk], (buffers, position, written) => {
      const rest = itemAt(buffers, 0)
      fs.write!(this.fd, rest, 0, rest.length, position, written)
    })
  },

  _writev(this: WriteStream, chunks: { chunk: Buffer }[], done: Done): void {
    const { fs } = this[work]
    const buffers = chunks.map(({ chunk }) => chunk)
    writeAll(this, done, buffers, (rest, position, written) => fs.writev!(this.fd, rest, position, written))
  },

  _destroy(this: WriteStream, error: Error | null, done: Done): void {
    this[work].whenIdle((failed) => {
      const reason = error ?? failed
      const { fs } = this[work]
      if (!this.flush || this.fd === null) closeFile(this, reason, done)
      else fs.fsync!(this.fd, (unsynced) => closeFile(this, reason ?? unsynced ?? null, done))
    })
  },

  close(this: WriteStream, done?: Done): void {
    if (done !== undefined) {
      if (this.closed) {
        queueMicrotask(() => done())
        return
      }
      this.on('close', () => done())
    }
    if (!this.autoClose) this.on('finish', () => this.destroy())
    this.end()
  },

  /** The same as `end`: earlier writes are completed. */
  destroySoon(this: WriteStream): void {
    this.end()
  },
}

/**
 * Writes until everything is written. The caller's own `fs` may write only a part, or fail with EAGAIN, which
 * is then tried again.
 */
function writeAll(
  stream: WriteStream,
  done: Done,
  buffers: Buffer[],
  write: (rest: Buffer[], position: Position, written: Counted) => void,
): void {
  const io = stream[work]
  const { pos } = stream
  let rest = buffers
  let at = pos
  let retries = 0
  if (pos !== undefined) stream.pos = pos + buffers.reduce((sum, { length }) => sum + length, 0)
  const end = (error: Error | null): void => {
    io.end(error)
    done(error)
  }
  const next = (): void => write(rest, at, written)
  const written: Counted = (error, count) => {
    const again = error?.code === 'EAGAIN'
    if (error !== null && error !== undefined && !again) return end(error)
    if (stream.destroyed)
      return end(codedError('ERR_STREAM_DESTROYED', 'Cannot call write after a stream was destroyed'))
    const bytes = again ? 0 : count
    stream.bytesWritten += bytes
    if (at !== undefined) at += bytes
    rest = withoutStart(rest, bytes)
    if (rest.length === 0) return end(null)
    retries = bytes === 0 ? retries + 1 : 0
    if (retries > limits.emptyWrites)
      return end(error ?? codedError('EAGAIN', 'write failed: nothing was written'))
    return next()
  }
  io.begin(next)
}

function withoutStart(buffers: Buffer[], bytes: number): Buffer[] {
  let skip = bytes
  let index = 0
  let first = buffers[index]
  while (first !== undefined && skip >= first.length) {
    skip -= first.length
    first = buffers[++index]
  }
  return first === undefined ? [] : [first.subarray(skip), ...buffers.slice(index + 1)]
}

function copyOf(buffer: Buffer, length: number): Buffer {
  const copy = Buffer.allocUnsafeSlow(length)
  buffer.copy(copy, 0, 0, length)
  return copy
}

function stateOf(stream: unknown, name: '_readableState' | '_writableState'): { autoDestroy: boolean } {
  const state = (stream as Record<typeof name, { autoDestroy: boolean } | undefined>)[name]
  if (state === undefined) throw argumentError('ERR_INVALID_THIS', 'Value of "this" must be a stream')
  return state
}
