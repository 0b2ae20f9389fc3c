import { Buffer } from 'node:buffer'

/** The error that hostile getters and traps throw. */
export const hostileError = new Error('a hostile getter threw')

/** A call rejects with the reason of an aborted signal, as documented. */
export const abortReason = new Error('a hostile signal was aborted')

function fail(): never {
  throw hostileError
}

class LyingArray extends Array<unknown> {
  override get length(): number {
    return 2 ** 53
  }
  override set length(_: number) {
    // The value stays as it is.
  }
}

class LyingBytes extends Uint8Array {
  override get byteLength(): number {
    return 2 ** 40
  }
}

class StringBytes extends Uint8Array {
  override get length(): number {
    return 'ten' as unknown as number
  }
}

function detached(): Uint8Array {
  const bytes = new Uint8Array(8)
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
  return bytes
}

/** Not in the TypeScript library that this project uses. */
const Resizable = ArrayBuffer as unknown as new (
  length: number,
  options: object,
) => ArrayBuffer & { resize: (length: number) => void }

function outOfBounds(): Uint8Array {
  const buffer = new Resizable(16, { maxByteLength: 32 })
  const bytes = new Uint8Array(buffer, 8, 8)
  buffer.resize(4)
  return bytes
}

function cyclic(): object {
  const object: Record<string, unknown> = {}
  object['self'] = object
  object['path'] = object
  return object
}

function cyclicList(): unknown[] {
  const list: unknown[] = []
  list.push(list, list)
  return list
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

function revokedList(): object {
  const { proxy, revoke } = Proxy.revocable<unknown[]>([], {})
  revoke()
  return proxy
}

/** An object that returns another value on each read. */
function fickle(): object {
  let reads = 0
  const next = (): unknown => ['/a', 5, fail, undefined][reads++ % 4]
  return Object.defineProperties(
    {},
    {
      path: { enumerable: true, get: next },
      content: { enumerable: true, get: next },
      signal: { enumerable: true, get: next },
    },
  )
}

const own = (name: string, value: unknown): object =>
  Object.defineProperty({}, name, { enumerable: true, value })

const traps = ['get', 'has', 'ownKeys', 'getPrototypeOf', 'getOwnPropertyDescriptor'] as const

/** An array with a length but no elements. */
const sparse: unknown[] = []
sparse.length = 150_000

/** Creates new values each time, because calls may change their arguments. */
export function hostileValues(): readonly unknown[] {
  return [
    undefined,
    null,
    true,
    NaN,
    -0,
    -1,
    1.5,
    2 ** 53,
    -Infinity,
    10n,
    2n ** 80n,
    Symbol('hostile'),
    '',
    '\0',
    '/a\0b',
    '..',
    '../../etc/passwd',
    '__proto__',
    'constructor',
    '/__proto__',
    '\uD800',
    'x'.repeat(70_000),
    `/${'a/'.repeat(3000)}`,
    '/' + 'n'.repeat(300),
    fail,
    () => undefined,
    async () => Promise.resolve(),
    Map,
    [],
    {},
    [undefined],
    Array.from({ length: 3 }),
    sparse,
    new LyingArray(),
    LyingArray.from([{}]),
    new LyingBytes(4),
    new StringBytes(4),
    detached(),
    outOfBounds(),
    new Uint8Array(new SharedArrayBuffer(8)),
    Object.create(Uint8Array.prototype),
    Object.create(AbortSignal.prototype),
    Object.create(Date.prototype),
    Object.create(Buffer.prototype),
    new Float64Array(2),
    new DataView(new ArrayBuffer(4)),
    new ArrayBuffer(4),
    new Date(NaN),
    new Date(8.64e15),
    new Map([['path', '/a']]),
    new Set(['/a']),
    new WeakMap(),
    new Error('an error'),
    /x/g,
    new URL('http://x/'),
    new URL('file:///a%2Fb'),
    new Proxy({}, Object.fromEntries(traps.map((trap) => [trap, fail]))),
    ...traps.map((trap) => new Proxy({ path: '/a' }, { [trap]: fail })),
    new Proxy([], { get: fail }),
    new Proxy(() => undefined, { get: fail, apply: fail }),
    new Proxy(new Uint8Array(2), {}),
    revoked(),
    revokedList(),
    cyclic(),
    cyclicList(),
    fickle(),
    // oxlint-disable-next-line unicorn/no-thenable -- an attack value
    { then: fail },
    // oxlint-disable-next-line unicorn/no-thenable -- an attack value
    { then: () => undefined },
    own('__proto__', { exclusive: true, force: true }),
    own('constructor', { prototype: { polluted: true } }),
    JSON.parse('{"__proto__":{"polluted":true},"path":"/a"}') as unknown,
    { toString: fail, valueOf: fail },
    { [Symbol.toPrimitive]: fail },
    { [Symbol.iterator]: fail },
    { [Symbol.asyncIterator]: fail },
    { [Symbol.asyncIterator]: () => ({ next: fail }) },
    {
      async *[Symbol.asyncIterator]() {
        yield 'a string'
      },
    },
    AbortSignal.abort(abortReason),
    { aborted: true, reason: hostileError },
    Object.freeze([Object.freeze({ write: null })]),
    [{ write: cyclic() }],
    new String('/a'),
    new Number(3),
    Object(1n),
  ]
}
