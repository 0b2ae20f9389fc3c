import { Buffer } from 'node:buffer'
import { StagedCall } from '../cas/staging.js'
import { planSetAttributes, type AttributeChange } from '../session/edits/attributes.js'
import type { LiveSession } from '../session/table/live.js'
import { planResize, planWriteAt } from '../session/edits/writes.js'
import type { FileNode } from '../tree/node.js'
import { throwIfAborted } from './argument-errors.js'
import {
  decodeBytes,
  toBuffers,
  toBytes,
  toNumber,
  toPositionedBytes,
  viewBytes,
  type Encoding,
} from './arguments.js'
import { toLength, toMode, toOwner } from './values.js'
import {
  change,
  changeWith,
  checkReadable,
  Content,
  nothing,
  read as look,
  type Call,
  type ChangeCall,
  type Context,
  type Define,
} from './calls.js'
import { toTimes } from './change-calls.js'
import { systemError } from './errors.js'
import type { OpenFile } from './open-files.js'
import { toPosition, toReadRange, toWriteRange } from './ranges.js'
import { describeNode } from '../tree/describe.js'
import { newStats, type BigIntStats, type Stats } from './stats.js'

export interface ReadResult<T = ArrayBufferView> {
  readonly bytesRead: number
  readonly buffer: T
}

export interface WriteResult<T = ArrayBufferView | string> {
  readonly bytesWritten: number
  readonly buffer: T
}

export const close: Define<void> = ({ files }, fd) => {
  const number = toNumber(fd)
  const release = (): void => files.close(number)
  return { names: { syscall: 'close' }, plan: undefined, look: release, without: release }
}

export const read: Define<ReadResult> = (context, fd, ...parameters) => {
  const number = toNumber(fd)
  const { buffer, offset, length, position } = toReadRange(context.form, parameters)
  const target = viewBytes(buffer)
  const range = new FileRange(context, number, { length, position })
  return look({ syscall: 'read' }, (live) => {
    if (length === 0) return { bytesRead: 0, buffer }
    const bytes = range.bytes(live)
    target.set(bytes, offset)
    return { bytesRead: bytes.length, buffer }
  })
}

/** As in Node, `buffers` in the result is the caller's own list. */
export const readv: Define<{ bytesRead: number; buffers: unknown }> = (context, fd, list, at) => {
  const number = toNumber(fd)
  const buffers = toBuffers(list)
  const position = toPosition(at) ?? -1
  const length = buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0)
  const range = new FileRange(context, number, { length, position })
  return look({ syscall: 'read' }, (live) => {
    if (buffers.length === 0) throw systemError('EINVAL', { syscall: 'read' })
    const bytes = range.bytes(live)
    let done = 0
    for (const buffer of buffers) {
      const target = viewBytes(buffer)
      target.set(bytes.subarray(done, done + target.length))
      done += target.length
    }
    return { bytesRead: bytes.length, buffers: list }
  })
}

/** Reads the rest of the content, from the current position. */
export function readRest(
  context: Context,
  number: number,
  encoding: Encoding,
  signal: AbortSignal | undefined,
): Call<Buffer | string> {
  // Node calls fstat first, except in the promise form and in the synchronous form as UTF-8.
  const utf8 = encoding === 'utf8' || encoding === 'utf-8'
  const first = context.form === 'promise' || (context.form === 'sync' && utf8) ? 'read' : 'fstat'
  const range = new FileRange(context, number, { length: Number.MAX_SAFE_INTEGER, position: -1, first })
  return look({ syscall: 'read' }, (live) => {
    throwIfAborted(signal)
    const bytes = range.bytes(live)
    return decodeBytes(bytes, encoding)
  })
}

interface OpenRange {
  readonly open: OpenFile
  readonly file: FileNode
  readonly start: number
  readonly count: number
}

/**
 * A read of an open file. The first attempt fixes the range and moves the file's position. So the next read
 * starts at the end of this range, even while this read still waits for its content.
 */
class FileRange {
  readonly #context: Context
  readonly #number: number
  readonly #wanted: { readonly length: number; readonly position: number; readonly first?: string }
  readonly #content = new Content()
  #range: OpenRange | undefined

  constructor(
    context: Context,
    number: number,
    wanted: { length: number; position: number; first?: string },
  ) {
    this.#context = context
    this.#number = number
    this.#wanted = wanted
  }

  bytes(live: LiveSession): Buffer {
    if (this.#content.ready !== undefined) return this.#content.ready
    this.#range ??= this.#begin(live)
    const { open, file, start, count } = this.#range
    try {
      return this.#content.read(this.#context, file, start, count)
    } catch (thrown) {
      // A synchronous read is not tried again. It failed, so the position moves back.
      if (this.#context.form === 'sync' && this.#wanted.position < 0) open.position -= count
      throw thrown
    }
  }

  #begin(live: LiveSession): OpenRange {
    const { length, position, first } = this.#wanted
    const open = this.#context.files.get(this.#number, first ?? 'read')
    if (!open.flags.read) throw systemError('EBADF', { syscall: 'read' })
    const file = open.file(live)
    const start = Math.min(position < 0 ? open.position : position, file.size)
    const count = Math.min(length, file.size - start)
    if (first !== undefined) checkReadable(count)
    if (position < 0) open.position += count
    return { open, file, start, count }
  }
}

export const write: Define<WriteResult> = (context, fd, data, ...parameters) => {
  const number = toNumber(fd)
  if (typeof data === 'string') {
    const [at, encoding] = parameters
    return writing(context, number, toPositionedBytes(data, encoding), {
      position: toPosition(at),
      result: (count) => ({ bytesWritten: count, buffer: data }),
    })
  }
  if (context.form === 'promise' && ArrayBuffer.isView(data) && data.byteLength === 0)
    return {
      ...look({ syscall: 'write' }, () => ({ bytesWritten: 0, buffer: data })),
      needs: ['fs.write'],
    }
  toBytes(data, undefined, 'buffer')
  const buffer = data as ArrayBufferView
  const { offset, length, position } = toWriteRange(buffer, parameters)
  const bytes = viewBytes(buffer).subarray(offset, offset + length)
  return writing(context, number, bytes, { position, result: (count) => ({ bytesWritten: count, buffer }) })
}

/** As in Node, `buffers` in the result is the caller's own list. */
export const writev: Define<{ bytesWritten: number; buffers: unknown }> = (context, fd, list, at) => {
  const number = toNumber(fd)
  const buffers = toBuffers(list)
  const bytes = Buffer.concat(buffers.map(viewBytes))
  return writing(context, number, bytes, {
    position: toPosition(at),
    result: (count) => ({ bytesWritten: count, buffers: list }),
  })
}

/** Writes a whole content at the current position, as writeFile does for a descriptor. */
export function writeHere(
  context: Context,
  number: number,
  bytes: string | Uint8Array,
  signal: AbortSignal | undefined,
): Call<void> {
  const call = writing(context, number, bytes, { position: undefined, result: nothing })
  if (signal === undefined) return call
  return {
    ...call,
    plan: (live) => {
      throwIfAborted(signal)
      return call.plan(live)
    },
  }
}

function writing<T>(
  context: Context,
  number: number,
  bytes: string | Uint8Array,
  { position, result }: { position: number | undefined; result: (count: number) => T },
): ChangeCall<T> {
  const { core, files, form } = context
  const staged = new StagedCall(bytes, core, { mayWait: form !== 'sync' })
  let open: OpenFile
  return changeWith(
    { syscall: 'write' },
    (live) => {
      open = files.get(number, 'write')
      if (!open.flags.write) throw systemError('EBADF', { syscall: 'write' })
      if (staged.size === 0) return undefined
      const at = open.flags.append ? 'end' : (position ?? open.position)
      return planWriteAt(core, live, open.reference, { position: at, staged })
    },
    (live) => {
      if (position === undefined && staged.size > 0)
        open.position = open.flags.append ? open.file(live).size : open.position + staged.size
      return result(staged.size)
    },
  )
}

export const fstat: Define<Stats | BigIntStats> = ({ files }, fd, options) => {
  const number = toNumber(fd)
  const { bigint } = (typeof options === 'object' && options !== null ? options : {}) as { bigint?: unknown }
  return look({ syscall: 'fstat' }, (live) => {
    const open = files.get(number, 'fstat')
    return newStats(describeNode(open.node(live)), bigint, open.reference.gone)
  })
}

export const ftruncate: Define<void> = ({ core, files }, fd, length) => {
  const number = toNumber(fd)
  const size = toLength(length)
  return change({ syscall: 'ftruncate' }, (live) => {
    const open = files.get(number, 'ftruncate')
    if (!open.flags.write) throw systemError('EINVAL', { syscall: 'ftruncate' })
    return planResize(core, live, open.reference, size)
  })
}

/** The call changes nothing. It only waits until earlier writes are acknowledged. */
function syncBy(syscall: string): Define<void> {
  return ({ files }, fd) => {
    const number = toNumber(fd)
    return change({ syscall }, () => {
      files.get(number, syscall)
      return undefined
    })
  }
}

export const fsync = syncBy('fsync')
export const fdatasync = syncBy('fdatasync')

/** Changes attributes. The call has no effect on a removed directory. */
function setting({ files }: Context, syscall: string, number: number, changes: AttributeChange): Call<void> {
  return change({ syscall }, (live) => {
    const target = files.get(number, syscall).target(live)
    return target === undefined ? undefined : planSetAttributes(live, target, changes)
  })
}

export const fchmod: Define<void> = (context, fd, mode) =>
  setting(context, 'fchmod', toNumber(fd), { mode: toMode(mode) })

export const fchown: Define<void> = (context, fd, uid, gid) => {
  const number = toNumber(fd)
  toOwner('uid', uid)
  toOwner('gid', gid)
  return setting(context, 'fchown', number, {})
}

export const futimes: Define<void> = (context, fd, atime, mtime) =>
  setting(context, 'futime', toNumber(fd), { mtime: toTimes(context, atime, mtime, true) })
