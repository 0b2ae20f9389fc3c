/** Reading of option objects, and suggestions for misspelt names. */
import { parseJsonObject } from '../../src/engine/base/json-object.js'
import { describe, expect, test } from 'vitest'
import { EngineError } from '../../src/engine/base/errors.js'
import { byteLengthOf, readBytes, readEntries, readList } from '../../src/engine/base/input.js'
import { nearest } from '../../src/engine/base/nearest.js'
import { Shape } from '../../src/engine/base/shape.js'
import { parseTime } from '../../src/engine/base/time.js'

interface Options {
  readonly path: string
  readonly expectedHash?: string
  readonly exclusive?: boolean
}
const shape = new Shape<Options>({ path: true, expectedHash: true, exclusive: true })

function refusal(act: () => unknown): EngineError {
  try {
    act()
  } catch (error) {
    if (error instanceof EngineError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('an object of options', () => {
  test('is copied without its prototype', () => {
    const given = { path: '/a', exclusive: true }
    const copy = shape.read(given)
    given.path = '/b'
    expect({ ...copy }).toEqual({ path: '/a', exclusive: true })
    expect(Object.getPrototypeOf(Object.getPrototypeOf(copy) as object)).toBe(null)
    expect('toString' in copy).toBe(false)
  })

  test('treats undefined as absent, also for unknown names', () => {
    const copy = shape.read({ path: '/a', expectedHash: undefined, other: undefined } as never)
    expect(Object.keys(copy)).toEqual(['path'])
  })

  test('reads own enumerable properties, but no symbols, inherited or hidden ones', () => {
    const given = Object.assign(Object.create({ exclusive: true, other: 1 }) as object, {
      path: '/a',
      [Symbol('other')]: 1,
    })
    Object.defineProperty(given, 'hidden', { value: 1 })
    expect({ ...shape.read(given as Options) }).toEqual({ path: '/a' })
  })

  test('may be an instance of a class with the options as fields', () => {
    class Request {
      readonly path = '/a'
    }
    expect({ ...shape.read(new Request()) }).toEqual({ path: '/a' })
  })

  test('ignores a polluted Object.prototype', () => {
    const polluted = Object.prototype as Record<string, unknown>
    polluted['exclusive'] = true
    polluted['unknownName'] = true
    try {
      expect(shape.read({ path: '/a' }).exclusive).toBe(undefined)
    } finally {
      delete polluted['exclusive']
      delete polluted['unknownName']
    }
  })

  test('rejects unknown names, such as an own __proto__', () => {
    const given = JSON.parse('{"path":"/a","__proto__":{"exclusive":true}}') as Options
    expect(refusal(() => shape.read(given)).details).toEqual({ field: '__proto__' })
  })

  test('reads each property once', () => {
    let reads = 0
    const copy = shape.read({
      get path() {
        return `/${++reads}`
      },
    })
    expect([copy.path, copy.path, reads]).toEqual(['/1', '/1', 1])
  })

  test.each([
    ['null', null, 'null'],
    ['a string', 'a', 'a string'],
    ['a function', () => undefined, 'a function'],
    ['an array', [], 'an array'],
    ['bytes', new Uint8Array(3), 'not a plain object'],
    ['a Map', new Map([['path', '/a']]), 'not a plain object'],
    ['a promise', Promise.resolve(), 'a promise, which must be awaited first'],
    [
      'a class with getters',
      new (class {
        get path(): string {
          return '/a'
        }
      })(),
      'not a plain object',
    ],
    ['an object that inherits the options', Object.create({ path: '/a' }), 'not a plain object'],
  ])('cannot be %s', (_what, given, shown) => {
    const error = refusal(() => shape.read(given as never))
    expect(error).toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'request' } })
    expect(error.message).toBe(
      `request: must be an object with the keys path, expectedHash, exclusive; it is ${shown}`,
    )
  })

  test.each([
    [
      'has a getter that throws',
      () => ({
        get path() {
          throw new TypeError('no')
        },
      }),
    ],
    ['is a revoked proxy', revoked],
    [
      'is a proxy that throws',
      () =>
        new Proxy(
          {},
          {
            ownKeys() {
              throw new RangeError('no')
            },
          },
        ),
    ],
  ])('that %s fails with INVALID_ARGUMENT and the cause', (_what, give) => {
    const given: unknown = give()
    const error = refusal(() => shape.read(given as never))
    expect(error).toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'request' } })
    expect(error.cause).toBeInstanceOf(Error)
  })

  test('errors name the parameter, or the path of a nested field', () => {
    expect(refusal(() => shape.read(null as never, 'options')).details).toEqual({ field: 'options' })
    expect(refusal(() => shape.read({ pth: '' } as never, 'options')).details['field']).toBe('pth')
    expect(refusal(() => shape.readPart({ pth: '' } as never, 'operations[3].write')).message).toBe(
      'operations[3].write.pth: unknown key; did you mean "path"?',
    )
  })

  test('errors list the known names if none is close', () => {
    expect(refusal(() => shape.read({ zzz: 1 } as never)).message).toBe(
      'zzz: unknown key; the known keys are path, expectedHash, exclusive',
    )
    expect(refusal(() => new Shape<object>({}).read({ zzz: 1 })).message).toBe(
      'zzz: unknown key; this call has no options',
    )
  })

  test('errors quote and shorten a hostile name', () => {
    const { message, details } = refusal(() => shape.read({ [`\n${'x'.repeat(1e6)}`]: 1 } as never))
    expect(message.length).toBeLessThan(200)
    expect(message).not.toContain('\n')
    expect(details['field']!.length).toBeLessThan(100)
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

describe('suggestions', () => {
  test.each([
    ['stroage', ['storage', 'secrets'], 'storage'],
    ['expectdHash', ['path', 'expectedHash'], 'expectedHash'],
    ['label', ['checkpointId', 'checkpointLabel'], 'checkpointLabel'],
    ['sourceCheckpointLabel', ['checkpointLabel', 'newTags'], 'checkpointLabel'],
    ['branch', ['message', 'gitBranch'], 'gitBranch'],
    ['TTLSeconds', ['key', 'ttlSeconds'], 'ttlSeconds'],
    ['ttl', ['key', 'value', 'ttlSeconds'], 'ttlSeconds'],
    ['pahts', ['paths', 'path'], 'paths'],
    ['mod', ['path', 'mode'], 'mode'],
    ['x', ['path'], undefined],
    ['entirely', ['path', 'mode'], undefined],
    ['p', ['path'], undefined],
    ['a'.repeat(1e6), ['a'], undefined],
  ])('for %.30s among %j is %s', (name, known, expected) => {
    expect(nearest(name, known)).toBe(expected)
  })
})

describe('an array argument', () => {
  test('is read by index, ignoring methods that a subclass overrides', () => {
    class Lying extends Array<number> {
      override *[Symbol.iterator](): ArrayIterator<number> {
        yield 9
      }
      override map(): never {
        throw new Error('used')
      }
    }
    expect(readList('list', Lying.from([1, 2, 3]), 10, 'entries')).toEqual([1, 2, 3])
  })

  test('reads a hole as undefined', () => {
    // oxlint-disable-next-line no-sparse-arrays -- The test needs a hole.
    expect(readList('list', [1, , 3], 10, 'entries')).toEqual([1, undefined, 3])
  })

  test.each([-1, Number.NaN, 1.5, '3', undefined, {}])(
    'with the length %s fails with INVALID_ARGUMENT',
    (length) => {
      const lying = new Proxy([1], { get: (list, key) => (key === 'length' ? length : list[key as never]) })
      expect(refusal(() => readList('list', lying, 10, 'entries')).reason).toBe('INVALID_ARGUMENT')
    },
  )

  test('over its limit fails with TOO_LARGE after reading at most the limit', () => {
    let reads = 0
    const endless = new Proxy([], {
      get: (_, key) => (key === 'length' ? 2 ** 32 : ++reads),
    })
    expect(refusal(() => readList('list', endless, 10, 'entries'))).toMatchObject({
      reason: 'TOO_LARGE',
      details: { field: 'list', limit: '10' },
    })
    expect(reads).toBeLessThanOrEqual(10)
    expect(readList('list', Array.from({ length: 10 }), 10, 'entries').length).toBe(10)
  })

  test.each([
    ['undefined', () => undefined],
    ['an object with a length', () => ({ length: 1 })],
    ['a string', () => 'ab'],
    ['a revoked proxy', revoked],
  ])('cannot be %s', (_what, given) => {
    expect(refusal(() => readList('list', given(), 10, 'entries')).reason).toBe('INVALID_ARGUMENT')
  })
})

describe('a bytes argument', () => {
  test('reads only the bytes of a view', () => {
    const part = new Uint8Array([1, 2, 3, 4]).subarray(1, 3)
    expect([...readBytes('content', part)]).toEqual([2, 3])
    expect([...readBytes('content', Buffer.from('ab'))]).toEqual([97, 98])
  })

  test.each([
    ['byteLength', 1],
    ['byteLength', 1e9],
    ['length', 0],
    ['length', 1e9],
  ])('whose %s is reported as %i fails with INVALID_ARGUMENT', (name, said) => {
    const lying = Object.defineProperty(new Uint8Array(3), name, { get: () => said })
    expect(refusal(() => readBytes('content', lying))).toMatchObject({
      reason: 'INVALID_ARGUMENT',
      details: { field: 'content' },
    })
    expect(byteLengthOf(lying)).toBe(3)
  })

  test('ignores properties that a subclass overrides', () => {
    class Lying extends Uint8Array {
      override get buffer(): never {
        return new ArrayBuffer(100) as never
      }
      override get byteOffset(): number {
        return 50
      }
    }
    expect([...readBytes('content', new Lying([7, 8, 9]))]).toEqual([7, 8, 9])
  })

  test.each([
    ['an object with the prototype', () => Object.create(Uint8Array.prototype) as unknown],
    ['a proxy', () => new Proxy(new Uint8Array(1), {})],
    ['an array', () => [1]],
  ])('cannot be %s', (_what, give) => {
    expect(refusal(() => readBytes('content', give())).reason).toBe('INVALID_ARGUMENT')
  })
})

test('reads own enumerable entries of data, each once', () => {
  let reads = 0
  const map = Object.assign(Object.create({ inherited: 1 }) as object, JSON.parse('{"__proto__":"x"}'))
  Object.defineProperty(map, 'a', { enumerable: true, get: () => ++reads })
  expect(readEntries('map', map, 'must be an object')).toEqual([['a', 1]])
  expect(readEntries('map', JSON.parse('{"__proto__":"x"}'), '')).toEqual([['__proto__', 'x']])
  expect(refusal(() => readEntries('map', revoked(), 'must be an object')).reason).toBe('INVALID_ARGUMENT')
  expect(refusal(() => readEntries('map', [], 'must be an object')).reason).toBe('INVALID_ARGUMENT')
})

test('an object of JSON that is a revoked proxy, or has one, is rejected with its field', () => {
  for (const value of [revoked(), { at: revoked() }, { list: [revoked()] }])
    expect(refusal(() => parseJsonObject('metadata', value)).reason).toBe('INVALID_ARGUMENT')
})

test('a time that is a revoked proxy, or whose properties throw, is rejected with its field', () => {
  const throwing = new Proxy(new Date(), {
    getPrototypeOf() {
      throw new Error('a trap threw')
    },
  })
  for (const value of [revoked(), throwing]) {
    const { reason, details } = refusal(() => parseTime('since', value))
    expect([reason, details['field']]).toEqual(['INVALID_ARGUMENT', 'since'])
  }
})
