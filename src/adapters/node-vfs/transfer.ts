import { nodeVfsLimits } from './limits.js'
/** The buffer of a read or write, and the position in the file. An absent position means the current one. */
export interface Transfer<T extends NodeJS.ArrayBufferView = NodeJS.ArrayBufferView> {
  readonly buffer: T
  readonly offset: number
  readonly length: number
  readonly position: Position
}

export type Position = number | bigint | null | undefined

/** The options object that a caller may pass instead of separate arguments. Every option has a default. */
export interface TransferOptions {
  readonly buffer?: NodeJS.ArrayBufferView
  readonly offset?: number | null
  readonly length?: number | null
  readonly position?: Position
}

/**
 * Parses the forms of `filehandle.read`: (buffer, offset, length, position), (buffer, options), (options).
 */
export function readForm(
  target: NodeJS.ArrayBufferView | TransferOptions | undefined,
  second: number | null | TransferOptions | undefined,
  length: number | null | undefined,
  position: Position,
): Transfer {
  if (ArrayBuffer.isView(target)) return viewForm(target, second, length, position)
  const { buffer = Buffer.alloc(nodeVfsLimits.readBufferBytes), ...rest } = target ?? {}
  return viewForm(buffer, rest, undefined, undefined)
}

/**
 * Parses the forms of `filehandle.write`: (buffer, offset, length, position), (buffer, options), (text,
 * position, encoding).
 */
export function writeForm(
  source: NodeJS.ArrayBufferView | string,
  second: number | null | TransferOptions | undefined,
  third: number | string | null | undefined,
  position: Position,
): Transfer {
  if (typeof source !== 'string') return viewForm(source, second, third as number | undefined, position)
  const encoding = typeof third === 'string' ? (third as BufferEncoding) : 'utf8'
  const at = typeof second === 'number' ? second : null
  return viewForm(Buffer.from(source, encoding), 0, undefined, at)
}

function viewForm(
  buffer: NodeJS.ArrayBufferView,
  second: number | null | TransferOptions | undefined,
  length: number | null | undefined,
  position: Position,
): Transfer {
  const given = typeof second === 'object' && second !== null ? second : { offset: second, length, position }
  const offset = given.offset ?? 0
  return { buffer, offset, length: given.length ?? buffer.byteLength - offset, position: given.position }
}
