/** The small parts from which the handler of requests is made, each at its limits. */
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import type { Engine } from '../../src/index.js'
import { defaultHttpLimits, handlerLimits, jsonLimits, pieceBytes } from '../../src/adapters/http/limits.js'
import {
  checkContent,
  expectedBytes,
  withinContentLimit,
} from '../../src/adapters/http/operations/content-limit.js'
import { checkBounds } from '../../src/adapters/http/operations/json-bounds.js'
import { startLockWait, waitsForLock } from '../../src/adapters/http/operations/lock-wait.js'
import { callerOf, callerOfBasic } from '../../src/adapters/http/server/authenticate.js'
import { ConcurrencyLimit } from '../../src/adapters/http/server/concurrency-limit.js'
import { Deadlines } from '../../src/adapters/http/server/deadlines.js'
import { checkSingle } from '../../src/adapters/http/server/guards.js'
import { HeldUpload } from '../../src/adapters/http/server/held-upload.js'
import type { HttpRequest } from '../../src/adapters/http/server/http-messages.js'
import { Scopes } from '../../src/adapters/http/server/scopes.js'
import { createShared, Slot } from '../../src/adapters/http/server/slot.js'
import { parseQuery, splitTarget } from '../../src/adapters/http/server/target.js'
import { Upload } from '../../src/adapters/http/server/upload.js'
import { limits } from '../../src/engine/base/limits.js'

describe('a deadline', () => {
  test('rejects work that takes too long, and reports once when the work has ended', async () => {
    const deadlines = new Deadlines(20, () => new Error('late'))
    const work = new AbortController()
    const settled = vi.fn<() => void>()
    const wait = deadlines.wait(
      new Promise((resolve) => work.signal.addEventListener('abort', resolve)),
      settled,
    )
    await expect(wait).rejects.toThrow('late')
    expect(settled).not.toHaveBeenCalled()
    work.abort()
    await vi.waitFor(() => expect(settled).toHaveBeenCalledOnce())
  })

  test('passes on a result and an error that come in time', async () => {
    const deadlines = new Deadlines(10_000, () => new Error('late'))
    const settled = vi.fn<() => void>()
    expect(await deadlines.wait(Promise.resolve('result'), settled)).toBe('result')
    await expect(deadlines.wait(Promise.reject(new Error('failed')), settled)).rejects.toThrow('failed')
    expect(settled).toHaveBeenCalledTimes(2)
  })

  test('applies to each wait from its own start, and again after all waits have ended', async () => {
    const deadlines = new Deadlines(200, () => new Error('late'))
    const never = new Promise<never>(() => undefined)
    const ended: string[] = []
    const wait = (name: string): Promise<unknown> =>
      deadlines.wait(never, () => undefined).catch(() => ended.push(name))
    const first = wait('first')
    await delay(120)
    const second = wait('second')
    await first
    expect(ended).toEqual(['first'])
    await second
    await delay(120)
    await wait('third')
    expect(ended).toEqual(['first', 'second', 'third'])
  })
})

describe('an upload that stays in memory', () => {
  const fits = (budget: ConcurrencyLimit, bytes: number): boolean => {
    try {
      budget.take(bytes)
    } catch {
      return false
    }
    budget.give(bytes)
    return true
  }

  test('counts a bundle until it is released, and its later pieces not at all', () => {
    const budget = new ConcurrencyLimit(10, 'full')
    const held = new HeldUpload(budget, 'bundle')
    held.add(Buffer.from('123'))
    held.add(Buffer.from('456'))
    expect([fits(budget, 4), fits(budget, 5)]).toEqual([true, false])
    held.release()
    held.release()
    held.add(Buffer.from('789'))
    expect([fits(budget, 10), fits(budget, 11)]).toEqual([true, false])
  })

  test.each(['PK\x03\x04', 'PK\x05\x06'])(
    'counts a zip that starts with %j, in pieces of any size',
    (start) => {
      for (const pieces of [[start], Array.from(start), [start.slice(0, 3), `${start.slice(3)}more`]]) {
        const budget = new ConcurrencyLimit(100, 'full')
        const held = new HeldUpload(budget, 'archive')
        for (const piece of pieces) held.add(Buffer.from(piece))
        held.add(Buffer.from('rest'))
        const bytes = pieces.join('').length + 4
        expect([fits(budget, 100 - bytes), fits(budget, 101 - bytes)]).toEqual([true, false])
      }
    },
  )

  test.each(['PK\x03\x05', 'PK\x07\x08', '\x1f\x8b\x08\x00', 'name'])(
    'does not count other archives: %j',
    (start) => {
      for (const pieces of [[start], Array.from(start)]) {
        const budget = new ConcurrencyLimit(10, 'full')
        const held = new HeldUpload(budget, 'archive')
        for (const piece of pieces) held.add(Buffer.from(piece))
        held.add(Buffer.from('more'))
        expect(fits(budget, 10)).toBe(true)
      }
    },
  )

  test('keeps the error of a piece that does not fit, and does not count that piece', () => {
    const budget = new ConcurrencyLimit(10, 'full')
    const held = new HeldUpload(budget, 'bundle')
    held.add(Buffer.alloc(4))
    expect(held.refusal).toBeUndefined()
    expect(() => held.add(Buffer.alloc(7))).toThrow('full')
    expect(held.refusal).toMatchObject({ reason: 'QUOTA' })
    held.release()
    expect([fits(budget, 10), fits(budget, 11)]).toEqual([true, false])
  })
})

describe('the slot of a request', () => {
  test('can leave the bytes of its body to work that takes longer', () => {
    const shared = createShared({ ...defaultHttpLimits, allBodyBytes: 10 })
    const slot = new Slot(shared, 'a')
    slot.bodies.take(4)
    slot.holdBody(4)
    const drop = slot.takeBody()
    slot.release()
    expect(() => shared.bodies.take(7)).toThrow('too many large requests')
    drop()
    shared.bodies.take(10)
    expect(() => shared.bodies.take(1)).toThrow('too many large requests')
  })

  test('holds as many bytes as the response has in the end', () => {
    const shared = createShared({ ...defaultHttpLimits, allResponseBytes: 10 })
    const slot = new Slot(shared, 'a')
    expect(slot.reserve(10)).toBeUndefined()
    slot.holdResponse(4)
    const other = shared.responses.of('b')
    expect(other.enter(6)).toBeUndefined()
    slot.release()
    // 6 bytes are in use.
    expect(shared.responses.of('c').enter(2)).toBeUndefined()
    expect(shared.responses.of('d').enter(3)).toBeInstanceOf(Promise)
  })

  test('is freed if the wait for response space takes too long', async () => {
    const shared = createShared({
      ...defaultHttpLimits,
      concurrentRequests: 2,
      allResponseBytes: 10,
      requestMs: 20,
    })
    const before = new Slot(shared, 'a')
    expect(before.reserve(10)).toBeUndefined()
    const waiting = new Slot(shared, 'b')
    await expect(waiting.reserve(4)).rejects.toMatchObject({ reason: 'QUOTA', metadata: { limit: '10' } })
    waiting.release()
    // It stays in the queue until its turn.
    expect(() => new Slot(shared, 'c')).toThrow('too many requests')
    before.release()
    const take = (): Slot => new Slot(shared, 'c')
    take()
    await vi.waitFor(take)
    expect(shared.responses.of('d').enter(5)).toBeUndefined()
    expect(shared.responses.of('e').enter(5)).toBeUndefined()
    expect(shared.responses.of('f').enter(1)).toBeInstanceOf(Promise)
  })
})

describe('the limit of contents in a response', () => {
  test('lets a read of a file return one byte more, which shows that the file is too large', () => {
    expect(withinContentLimit('readFile', { path: '/a' }, 10)).toEqual({ path: '/a', length: 11 })
    expect(withinContentLimit('readFile', { path: '/a', length: 10 }, 10)).toEqual({ path: '/a', length: 10 })
    expect(withinContentLimit('readFile', { path: '/a', length: 11 }, 10)).toEqual({ path: '/a', length: 11 })
    expect(withinContentLimit('readFile', { path: '/a', length: 99 }, 10)).toEqual({ path: '/a', length: 11 })
    expect(withinContentLimit('readFileAt', { path: '/a' }, 10)).toEqual({ path: '/a', length: 11 })
    expect(withinContentLimit('statPath', { path: '/a' }, 10)).toEqual({ path: '/a' })
  })

  test.each([
    ['readFile', (bytes: number) => ({ content: Buffer.alloc(bytes) }), 'length'],
    ['readFileAt', (bytes: number) => ({ content: Buffer.alloc(bytes) }), 'length'],
    ['readCommitFile', (bytes: number) => ({ content: Buffer.alloc(bytes) }), 'path'],
    [
      'batchGetCache',
      (bytes: number) => ({ entries: [{ value: Buffer.alloc(4) }, { value: Buffer.alloc(bytes - 4) }] }),
      'keys',
    ],
  ] as const)('includes its last byte: %s', (name, response, field) => {
    checkContent(name, response(10), 10)
    expect(() => checkContent(name, response(11), 10)).toThrow(
      expect.objectContaining({ reason: 'TOO_LARGE', metadata: { field, limit: '10' } }),
    )
  })

  test.each([
    ['readFile', { path: '/a', length: 3 }, 4],
    ['readFile', { path: '/a', length: 4 }, 8],
    ['readFile', { path: '/a', length: 31 }, 40],
    ['readFile', { path: '/a' }, 40],
    ['readFileAt', { path: '/a' }, 40],
    ['readCommitFile', {}, 40],
    ['getCacheEntry', {}, Math.ceil(limits.cacheValueBytes / 3) * 4],
    ['compareAndSetCacheEntry', {}, Math.ceil(limits.cacheValueBytes / 3) * 4],
    ['batchGetCache', { keys: ['a'] }, 40],
    ['grepFiles', {}, handlerLimits.textWorkBytes],
    ['editFile', {}, handlerLimits.textWorkBytes],
    ['listDirectory', {}, limits.pageBytes],
    ['listDirectory', { pageSize: 0 }, limits.pageBytes],
    ['listDirectory', { pageSize: 1 }, limits.pageBytes],
    ['listSessions', {}, limits.pageBytes],
    ['globPaths', {}, limits.pageBytes],
    ['diff', { pageSize: limits.pageSizeMax + 1 }, handlerLimits.entryBytes * limits.pageSizeMax],
    ['patchSegments', {}, 0],
    ['createSession', {}, 0],
    ['writeFile', {}, 0],
  ] as const)('reserves space before %s %j runs', (name, request, bytes) => {
    expect(expectedBytes(name, request, { ...defaultHttpLimits, responseContentBytes: 30 })).toBe(bytes)
  })
})

describe('the bounds of JSON', () => {
  const check = (text: string): void => checkBounds(Buffer.from(text))
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  const named = (count: number): string =>
    `{${Array.from({ length: count }, (_, index) => `"n${index}":1`).join()}}`
  const repeated = (text: string, count: number): string => `[${Array(count).fill(text).join()}]`

  test.each([
    ['levels', nested(jsonLimits.depth), nested(jsonLimits.depth + 1), 'INVALID_ARGUMENT'],
    [
      'objects and lists',
      repeated('[]', jsonLimits.containers - 1),
      repeated('{}', jsonLimits.containers),
      'TOO_LARGE',
    ],
    ['commas', repeated('1', jsonLimits.commas + 1), repeated('1', jsonLimits.commas + 2), 'TOO_LARGE'],
    ['names in sequence', named(jsonLimits.nameSequences), named(jsonLimits.nameSequences + 1), 'TOO_LARGE'],
  ])('include the last of the allowed %s', (_what, most, more, reason) => {
    check(most)
    expect(() => check(more)).toThrow(expect.objectContaining({ reason }))
  })

  test('count the same names in the same order once', () => {
    const objects = repeated('{"a":1,"b":2}', jsonLimits.nameSequences + 1)
    expect(() => check(objects)).not.toThrow()
    const lists = repeated(named(100).slice(0, -1) + ',"last":[]}', 50)
    check(lists)
  })

  test.each(['', 'x'.repeat(jsonLimits.hashedNameBytes - 1), 'x'.repeat(jsonLimits.hashedNameBytes + 10)])(
    'find the end of a string with escapes, after %s',
    (start) => {
      const deep = '['.repeat(jsonLimits.depth)
      for (const within of [String.raw`\"`, String.raw`\\\"`, '']) check(`["${start}${within}${deep}"]`)
      for (const before of [String.raw`\\`, String.raw`\"`, String.raw`\\\\`, String.raw`\"\\`, ''])
        expect(() => check(`["${start}${before}",${deep}`)).toThrow('levels deep')
    },
  )

  test('ignore closing brackets without an opening one', () => {
    expect(() => check(']]]' + nested(jsonLimits.depth + 1))).toThrow('levels deep')
  })
})

describe('a wait for a lock', () => {
  test.each([
    ['setPosixLockBlocking', {}, true],
    ['setPosixLock', { blocking: true }, false],
    ['flock', { blocking: true }, true],
    ['flock', { blocking: false }, false],
    ['flock', {}, false],
  ])('is a request %s %j: %s', (name, request, waits) => {
    expect(waitsForLock(name, request)).toBe(waits)
  })

  test('ends with LOCK_TIMEOUT after its time, and never once it is released', async () => {
    const wait = startLockWait(new AbortController().signal, 10)
    const released = startLockWait(new AbortController().signal, 10)
    released.release()
    await vi.waitFor(() => expect(wait.signal.reason).toMatchObject({ reason: 'LOCK_TIMEOUT' }))
    await delay(20)
    expect(released.signal.aborted).toBe(false)
  })

  test('ends with its client, also one that is gone before', () => {
    const client = new AbortController()
    const wait = startLockWait(client.signal, 60_000)
    const released = startLockWait(client.signal, 60_000)
    released.release()
    client.abort(new Error('gone'))
    const late = startLockWait(client.signal, 60_000)
    expect([wait.signal.reason, late.signal.reason]).toEqual([client.signal.reason, client.signal.reason])
    expect(released.signal.aborted).toBe(false)
    wait.release()
    late.release()
  })

  test('has no end of its own with the limit 0', () => {
    const { signal } = new AbortController()
    expect(startLockWait(signal, 0).signal).toBe(signal)
  })
})

describe('the target of a request', () => {
  test.each([
    ['/a?b?c', '/a', 'b?c'],
    ['/a', '/a', ''],
    ['/a?', '/a', ''],
    ['http://host/a?b', '/a', 'b'],
    ['HTTPS://host:1/a', '/a', ''],
    ['http://host?b', '', 'b'],
    ['/http://host/a', '/http://host/a', ''],
  ])('%s has the path %j and the query %j', (target, path, query) => {
    expect(splitTarget(target)).toEqual({ path, query })
  })

  test('has parameters in order, decoded once', () => {
    expect([...parseQuery('a=1&&b&c=d=e&x+y=%2B+%2520&a=2&=z')]).toEqual([
      ['a', '1'],
      ['b', ''],
      ['c', 'd=e'],
      ['x y', '+ %20'],
      ['a', '2'],
      ['', 'z'],
    ])
  })
})

test.each(['host', 'authorization', 'content-type', 'forkspace-group', 'forkspace-metadata'])(
  'a repeated header %s is rejected',
  (name) => {
    const request = { repeats: (one: string) => one === name } as HttpRequest
    expect(() => checkSingle(request)).toThrow(`${name}: the header must not be repeated`)
  },
)

test.each([
  ['user:token', 'token'],
  ['token:', 'token'],
  [':token', 'token'],
  ['user:a:b', undefined],
  ['token', undefined],
  [':', undefined],
  ['user:to ken', undefined],
])('Basic authentication with %j has the token %j', (text, token) => {
  const headers = { authorization: `Basic ${Buffer.from(text).toString('base64')}` }
  const request = {
    header: (name: string) => (name === 'authorization' ? headers.authorization : undefined),
  } as HttpRequest
  const found: string[] = []
  const authenticate = (given: string): { tenant: string; principal: string } => {
    found.push(given)
    return { tenant: 'a', principal: 'b' }
  }
  let outcome: unknown
  try {
    outcome = callerOfBasic(request, authenticate)
  } catch (error) {
    outcome = (error as Error).message
  }
  expect([found, outcome]).toEqual(
    token === undefined
      ? [[], 'the request has no valid bearer token']
      : [[token], { tenant: 'a', principal: 'b' }],
  )
})

test.each([undefined, null])('a token without a caller (%s) is refused, also later', async (caller) => {
  const request = { header: () => 'Bearer token' } as unknown as HttpRequest
  const answer = caller as undefined
  expect(() => callerOf(request, (_token) => answer)).toThrow('no valid bearer token')
  await expect(callerOf(request, async (_token) => answer)).rejects.toMatchObject({
    reason: 'UNAUTHENTICATED',
  })
})

test('scopes are kept for later requests of their callers, but not without limit', () => {
  const opened: string[] = []
  const engine = {
    as: ({ principal }: { readonly principal: string }) => {
      opened.push(principal)
      return {}
    },
  } as unknown as Engine
  const scopes = new Scopes(engine)
  const of = (principal: string): object => scopes.of({ tenant: 'a', principal })
  const first = of('0')
  for (let index = 1; index < handlerLimits.scopes; index++) of(String(index))
  expect(of('0')).toBe(first)
  expect(opened).toHaveLength(handlerLimits.scopes)
  of('more')
  expect(of('0')).not.toBe(first)
  expect(opened).toHaveLength(handlerLimits.scopes + 2)
})

describe('an upload', () => {
  const requestOf = (pieces: () => AsyncIterable<Uint8Array>): HttpRequest =>
    ({ body: pieces }) as HttpRequest
  const enter = (): undefined => undefined
  const none = async function* (): AsyncGenerator<Uint8Array> {}

  test('that is abandoned before the first read cannot be read, and later ones can', async () => {
    const abandoned = new Upload(requestOf(none), { stalledMs: 1000, enter })
    abandoned.abandon()
    await expect(abandoned[Symbol.asyncIterator]().next()).rejects.toMatchObject({ reason: 'UNAVAILABLE' })
    expect(abandoned.started).toBe(false)
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('a')
      yield Buffer.from('b')
    }
    const upload = new Upload(requestOf(body), { stalledMs: 1000, enter })
    const pieces: string[] = []
    for await (const piece of upload) {
      upload.abandon()
      pieces.push(String(piece))
    }
    expect(pieces).toEqual(['a', 'b'])
    expect(upload.started).toBe(true)
    await upload.ended
  })

  test('ends when its reader stops, and closes the body', async () => {
    const closed = vi.fn<() => void>()
    const body = async function* (): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.from('a')
      } finally {
        closed()
      }
    }
    const upload = new Upload(requestOf(body), { stalledMs: 1000, enter })
    for await (const _ of upload) break
    await upload.ended
    await vi.waitFor(() => expect(closed).toHaveBeenCalledOnce())
  })

  test('ends with the error of a piece that may not be held', async () => {
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('a')
    }
    const hold = (): never => {
      throw new Error('full')
    }
    const upload = new Upload(requestOf(body), { stalledMs: 1000, enter, hold })
    await expect(upload[Symbol.asyncIterator]().next()).rejects.toThrow('full')
    await upload.ended
  })

  test('that arrives too slowly fails, however many small pieces it has', async () => {
    const body = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) {
        await delay(20)
        yield Buffer.from('a')
      }
    }
    const upload = new Upload(requestOf(body), { stalledMs: 100, enter })
    let pieces = 0
    const read = async (): Promise<void> => {
      for await (const _ of upload) pieces++
    }
    await expect(read()).rejects.toMatchObject({ reason: 'REQUEST_TIMEOUT', metadata: { limit: '100' } })
    expect(pieces).toBeGreaterThan(0)
  })

  test('has its time again after each large piece, and does not count the time of its reader', async () => {
    const body = async function* (): AsyncGenerator<Uint8Array> {
      for (let index = 0; index < 4; index++) {
        await delay(40)
        yield Buffer.alloc(pieceBytes)
      }
    }
    const upload = new Upload(requestOf(body), { stalledMs: 120, enter })
    let bytes = 0
    for await (const piece of upload) {
      bytes += piece.length
      await delay(60)
    }
    expect(bytes).toBe(4 * pieceBytes)
  })
})
