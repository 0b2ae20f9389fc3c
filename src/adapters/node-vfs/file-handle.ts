import type { BigIntStats, StatOptions, Stats } from 'node:fs'
import { promised, type NodeFs } from './node-fs.js'
import { readForm, writeForm, type Position, type TransferOptions } from './transfer.js'

type Data = string | NodeJS.ArrayBufferView
type Encoded = BufferEncoding | { readonly encoding?: BufferEncoding | null } | null | undefined

/**
 * An open file for node:vfs. It implements every method that node:vfs calls on its own handles, on top of a
 * numeric descriptor of `session.fs`. Methods that return a promise resolve when the change is acknowledged.
 */
export class SessionFileHandle {
  readonly #fs: NodeFs
  readonly #fd: number
  #closed = false
  /** Null while the descriptor tracks the position. */
  #position: number | null = null

  constructor(fs: NodeFs, fd: number) {
    this.#fs = fs
    this.#fd = fd
  }

  /** The offset of the next read or write that gives no position. Write streams with a `start` set it. */
  set position(position: number) {
    this.#position = position
  }

  readSync(buffer: NodeJS.ArrayBufferView, offset: number, length: number, position?: Position): number {
    const at = this.#at(position)
    return this.#moved(position, this.#fs.readSync(this.#fd, buffer, offset, length, at))
  }

  writeSync(buffer: NodeJS.ArrayBufferView, offset: number, length: number, position?: Position): number {
    const at = this.#at(position)
    return this.#moved(position, this.#fs.writeSync(this.#fd, buffer, offset, length, at))
  }

  async read(
    buffer?: NodeJS.ArrayBufferView | TransferOptions,
    offset?: number | TransferOptions | null,
    length?: number | null,
    position?: Position,
  ): Promise<{ bytesRead: number; buffer: NodeJS.ArrayBufferView }> {
    const transfer = readForm(buffer, offset, length, position)
    const at = this.#at(transfer.position)
    const bytesRead = await promised<number>((done) =>
      this.#fs.read(this.#fd, transfer.buffer, transfer.offset, transfer.length, at, done),
    )
    this.#moved(transfer.position, bytesRead)
    return { bytesRead, buffer: transfer.buffer }
  }

  async write<T extends NodeJS.ArrayBufferView | string>(
    data: T,
    offset?: number | TransferOptions | null,
    length?: number | string | null,
    position?: Position,
  ): Promise<{ bytesWritten: number; buffer: T }> {
    const transfer = writeForm(data, offset, length, position)
    const at = this.#at(transfer.position)
    const bytesWritten = await promised<number>((done) =>
      this.#fs.write(this.#fd, transfer.buffer, transfer.offset, transfer.length, at, done),
    )
    this.#moved(transfer.position, bytesWritten)
    return { bytesWritten, buffer: data }
  }

  async readv<T extends readonly NodeJS.ArrayBufferView[]>(
    buffers: T,
    position?: number | null,
  ): Promise<{ bytesRead: number; buffers: T }> {
    let bytesRead = 0
    for (const buffer of buffers) {
      const at = typeof position === 'number' ? position + bytesRead : null
      const one = (await this.read(buffer, 0, buffer.byteLength, at)).bytesRead
      bytesRead += one
      if (one < buffer.byteLength) break
    }
    return { bytesRead, buffers }
  }

  async writev<T extends readonly NodeJS.ArrayBufferView[]>(
    buffers: T,
    position?: number | null,
  ): Promise<{ bytesWritten: number; buffers: T }> {
    let bytesWritten = 0
    for (const buffer of buffers) {
      const at = typeof position === 'number' ? position + bytesWritten : null
      bytesWritten += (await this.write(buffer, 0, buffer.byteLength, at)).bytesWritten
    }
    return { bytesWritten, buffers }
  }

  /** Reads the whole file, regardless of the position. The read streams of node:vfs depend on this. */
  readFileSync(options?: Encoded): Buffer | string {
    const bytes = Buffer.alloc(this.#fs.fstatSync(this.#fd).size)
    let at = 0
    for (let read = -1; read !== 0 && at < bytes.length; at += read) {
      read = this.#fs.readSync(this.#fd, bytes, at, bytes.length - at, at)
    }
    return decoded(bytes.subarray(0, at), options)
  }

  async readFile(options?: Encoded): Promise<Buffer | string> {
    const bytes = Buffer.alloc(Number((await this.stat()).size))
    let at = 0
    for (let read = -1; read !== 0 && at < bytes.length; at += read) {
      read = (await this.read(bytes, at, bytes.length - at, at)).bytesRead
    }
    return decoded(bytes.subarray(0, at), options)
  }

  /** Writes at the position, or at the end of a file that was opened for appending. */
  writeFileSync(data: Data, options?: Encoded): void {
    const bytes = encoded(data, options)
    for (let at = 0; at < bytes.length;) at += this.writeSync(bytes, at, bytes.length - at, null)
  }

  async writeFile(data: Data | Iterable<Data> | AsyncIterable<Data>, options?: Encoded): Promise<void> {
    const chunks = typeof data === 'string' || ArrayBuffer.isView(data) ? [data] : data
    for await (const chunk of chunks) {
      const bytes = encoded(chunk, options)
      for (let at = 0; at < bytes.length;) {
        at += (await this.write(bytes, at, bytes.length - at, null)).bytesWritten
      }
    }
  }

  appendFile(data: Data | Iterable<Data> | AsyncIterable<Data>, options?: Encoded): Promise<void> {
    return this.writeFile(data, options)
  }

  statSync(options?: StatOptions): Stats | BigIntStats {
    return this.#fs.fstatSync(this.#fd, options)
  }

  stat(options: StatOptions = {}): Promise<Stats | BigIntStats> {
    return promised((done) => this.#fs.fstat(this.#fd, options, done))
  }

  truncateSync(length = 0): void {
    this.#fs.ftruncateSync(this.#fd, length)
  }

  truncate(length = 0): Promise<void> {
    return promised((done) => this.#fs.ftruncate(this.#fd, length, done))
  }

  chmodSync(mode: number | string): void {
    this.#fs.fchmodSync(this.#fd, mode)
  }

  chmod(mode: number | string): Promise<void> {
    return promised((done) => this.#fs.fchmod(this.#fd, mode, done))
  }

  chown(uid: number, gid: number): Promise<void> {
    return promised((done) => this.#fs.fchown(this.#fd, uid, gid, done))
  }

  utimesSync(atime: Date | number | string, mtime: Date | number | string): void {
    this.#fs.futimesSync(this.#fd, atime, mtime)
  }

  utimes(atime: Date | number | string, mtime: Date | number | string): Promise<void> {
    return promised((done) => this.#fs.futimes(this.#fd, atime, mtime, done))
  }

  sync(): Promise<void> {
    return promised((done) => this.#fs.fsync(this.#fd, done))
  }

  datasync(): Promise<void> {
    return promised((done) => this.#fs.fdatasync(this.#fd, done))
  }

  closeSync(): void {
    if (this.#closed) return
    this.#closed = true
    this.#fs.closeSync(this.#fd)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await promised((done) => this.#fs.close(this.#fd, done))
  }

  #at(position: Position): number | null {
    return isCurrent(position) ? this.#position : Number(position)
  }

  /**
   * Advances the position after a call that passed none. If the descriptor tracks the position, this does
   * nothing.
   */
  #moved(given: Position, bytes: number): number {
    if (this.#position !== null && isCurrent(given)) this.#position += bytes
    return bytes
  }
}

function isCurrent(position: Position): boolean {
  return position === null || position === undefined || Number(position) < 0
}

function encoded(data: Data, options: Encoded): Buffer {
  if (typeof data !== 'string') return Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  return Buffer.from(data, encodingOf(options) ?? 'utf8')
}

function decoded(bytes: Buffer, options: Encoded): Buffer | string {
  const encoding = encodingOf(options)
  return encoding === undefined ? bytes : bytes.toString(encoding)
}

function encodingOf(options: Encoded): BufferEncoding | undefined {
  const encoding = typeof options === 'string' ? options : options?.encoding
  // In node:fs, `buffer` means no encoding. Its types do not list it.
  return encoding === null || (encoding as string) === 'buffer' ? undefined : encoding
}
