type ArgumentCode =
  | 'ERR_INVALID_ARG_TYPE'
  | 'ERR_INVALID_ARG_VALUE'
  | 'ERR_INVALID_FILE_URL_HOST'
  | 'ERR_INVALID_FILE_URL_PATH'
  | 'ERR_INVALID_URL_SCHEME'
  | 'ERR_INCOMPATIBLE_OPTION_PAIR'
  | 'ERR_INVALID_THIS'
  | 'ERR_MISSING_ARGS'

/** Creates one of Node's errors for an argument of the wrong type or form. */
export function argumentError(code: ArgumentCode, message: string): TypeError {
  return Object.assign(new TypeError(message), { code })
}

/** `expected` is the middle of Node's sentence, for example "of type string". */
export function typeError(name: string, expected: string, value: unknown): TypeError {
  const kind = name.includes('.') ? 'property' : 'argument'
  return argumentError('ERR_INVALID_ARG_TYPE', `The "${name}" ${kind} must be ${expected}.${received(value)}`)
}

/** `reason` is the end of Node's sentence, for example "is invalid". */
export function valueError(name: string, reason: string, value: unknown): TypeError {
  const kind = name.includes('.') ? 'property' : 'argument'
  return argumentError('ERR_INVALID_ARG_VALUE', `The ${kind} '${name}' ${reason}. Received ${inspect(value)}`)
}

export function rangeError(name: string, range: string, value: unknown): RangeError {
  const message = `The value of "${name}" is out of range. It must be ${range}. Received ${inspectNumber(value)}`
  return Object.assign(new RangeError(message), { code: 'ERR_OUT_OF_RANGE' })
}

/** Creates Node's abort error, with the signal's reason as its cause. */
export function abortError(signal: AbortSignal): Error {
  const error = new Error('The operation was aborted', { cause: signal.reason })
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' })
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw abortError(signal)
}

/** Creates a plain `Error` with one of Node's codes. */
export function codedError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

function received(value: unknown): string {
  if (value === undefined || value === null) return ` Received ${String(value)}`
  if (typeof value === 'function') return ` Received function ${nameOf(value) ?? ''}`
  if (typeof value === 'object') {
    const name = nameOf(value, 'constructor')
    return name === undefined ? ' Received [Object: null prototype] {}' : ` Received an instance of ${name}`
  }
  return ` Received type ${typeof value} (${inspect(value)})`
}

function inspect(value: unknown): string {
  if (typeof value === 'string') {
    const text = value.length > 128 ? `${value.slice(0, 128)}...` : value
    return `'${text.replaceAll('\0', String.raw`\x00`).replaceAll('\n', String.raw`\n`)}'`
  }
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'object' && value !== null) return inspectObject(value)
  if (typeof value === 'function') {
    const name = nameOf(value)
    return name === undefined ? '[Function (anonymous)]' : `[Function: ${name}]`
  }
  return String(value)
}

/** Never throws, although the getters of a caller's object may. */
function inspectObject(value: object): string {
  try {
    if (isBuffer(value)) return `<Buffer ${value.toString('hex').replaceAll(/(..)(?=.)/g, '$1 ')}>`
    if (isEmptyArray(value)) return `${nameOf(value, 'constructor')}(0) []`
    return Array.isArray(value) ? '[]' : '{}'
  } catch {
    return '{}'
  }
}

function isEmptyArray(value: object): boolean {
  return ArrayBuffer.isView(value) && !(value instanceof DataView) && value.byteLength === 0
}

/** Returns the name of a function or of an object's constructor, or undefined if no name can be read. */
function nameOf(value: object, of?: 'constructor'): string | undefined {
  try {
    const named = of === undefined ? value : (value as { readonly constructor?: unknown }).constructor
    const { name } = (named ?? {}) as { readonly name?: unknown }
    return typeof name === 'string' && name !== '' ? name : undefined
  } catch {
    return undefined
  }
}

/** As in Node, the digits of a large number are grouped in threes: 5_000_000_000. */
function inspectNumber(value: unknown): string {
  if (typeof value === 'bigint') return `${grouped(String(value))}n`
  if (typeof value !== 'number') return inspect(value)
  return Number.isInteger(value) && Math.abs(value) > 2 ** 32 ? grouped(String(value)) : String(value)
}

function grouped(digits: string): string {
  return digits.replaceAll(/(?<=\d)(?=(?:\d{3})+$)/g, '_')
}

/** Recognizes a Buffer by its class name. A client in a browser has no `Buffer` class to compare with. */
function isBuffer(value: unknown): value is Buffer {
  return value instanceof Uint8Array && value.constructor.name === 'Buffer'
}
