/** Message streams, waits for locks, and clients that disconnect or do not read. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createHttpHandler } from '../../src/adapters/http/index.js'
import { openEngine, type Session } from '../../src/index.js'
import { letGo } from '../support/garbage.js'
import { caller, openServer, refusalIn, token, type TestServer } from '../support/http-server.js'
import { isLong } from '../support/seed.js'

interface Item {
  readonly result?: { readonly messageId: string; readonly topic: string; readonly payload: string }
  readonly error?: { readonly code: number; readonly details: readonly { readonly reason: string }[] }
}

/** The lines of a stream as they arrive. */
class Lines {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #decoder = new TextDecoder()
  #text = ''
  pieces = 0
  readonly request: Request | undefined

  /** The signal of a garbage-collected request aborts nothing, so `request` stays referenced. */
  constructor(body: ReadableStream<Uint8Array>, request?: Request) {
    this.request = request
    this.#reader = body.getReader()
  }

  async next(): Promise<Item | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\n')
      if (end >= 0) {
        const line = this.#text.slice(0, end)
        this.#text = this.#text.slice(end + 1)
        return JSON.parse(line) as Item
      }
      const { done, value } = await this.#reader.read()
      if (done) return undefined
      this.pieces++
      this.#text += this.#decoder.decode(value, { stream: true })
    }
  }

  async take(count: number): Promise<string[]> {
    const payloads: string[] = []
    while (payloads.length < count) {
      const item = await this.next()
      payloads.push(item?.result === undefined ? JSON.stringify(item) : text(item.result.payload))
    }
    return payloads
  }

  async leave(): Promise<void> {
    await this.#reader.cancel()
  }
}

/** The responses of servers in this process that are neither complete nor aborted. */
function openResponses(): Disposable & { readonly responses: ReadonlySet<ServerResponse> } {
  const responses = new Set<ServerResponse>()
  const add = (message: unknown): void => {
    const { response } = message as { response: ServerResponse }
    responses.add(response)
    response.once('close', () => responses.delete(response))
  }
  subscribe('http.server.request.start', add)
  return {
    responses,
    [Symbol.dispose]: () => {
      unsubscribe('http.server.request.start', add)
    },
  }
}

const text = (payload: string): string => Buffer.from(payload, 'base64').toString()
const authorization = `Bearer ${token}`

const entryPoints = [
  ['a server', (_server: TestServer, request: Request) => fetch(request)],
  ['fetch', (server: TestServer, request: Request) => server.handler.fetch(request)],
] as const

describe.each(entryPoints)('through %s:', (_entryPoint, send) => {
  async function subscribe(
    server: TestServer,
    session: Session,
    query = '',
    init: RequestInit = {},
  ): Promise<Lines> {
    const url = `${server.url}/v1/sessions/${session.id}/bus${query}`
    const request = new Request(url, { headers: { authorization }, ...init })
    const response = await send(server, request)
    expect([
      response.status,
      response.headers.get('content-type'),
      response.headers.get('cache-control'),
    ]).toEqual([200, 'application/x-ndjson', 'no-store'])
    return new Lines(response.body!, request)
  }

  /** Resolves when the session has this many subscribers. */
  async function subscribers(session: Session, count: number): Promise<void> {
    while ((await countOf(session)) !== count) await pause(5)
  }

  test('a subscription is active once its headers arrive, and delivers all later messages', async () => {
    await using server = await openServer()
    const session = await server.session()
    await session.bus.publish({ topic: 't', payload: 'before' })
    const lines = await subscribe(server, session)
    for (let index = 0; index < 100; index++) {
      await server.call('POST', `/v1/sessions/${session.id}/bus:publish`, {
        topic: 't',
        payload: Buffer.from(`${index}`).toString('base64'),
      })
    }
    expect(await lines.take(100)).toEqual(Array.from({ length: 100 }, (_, index) => `${index}`))
    await lines.leave()
  })

  test('a message has all its fields', async () => {
    await using server = await openServer()
    const session = await server.session()
    const lines = await subscribe(server, session)
    await session.bus.publish({ topic: 'ä', payload: new Uint8Array([0, 255]) })
    expect(await lines.next()).toEqual({
      result: {
        messageId: expect.any(String) as string,
        sessionId: session.id,
        topic: 'ä',
        payload: 'AP8=',
        senderId: caller.principal,
        publishedAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      },
    })
    await lines.leave()
  })

  test('supports topics, patterns and replays', async () => {
    await using server = await openServer()
    const cases: readonly (readonly [string, readonly string[]])[] = [
      ['?replayLimit=2', ['a', 'c:y']],
      ['?topics=a&topics=b&replayLimit=10', ['a', 'b', 'a']],
      ['?topicPatterns=c:*&replayLimit=10&scope=SESSION_ONLY', ['c:x', 'c:y']],
      ['?replayAfterMessageId=00000003&scope=', ['a', 'c:y']],
      ['?replayAfterMessageId=00000001&replayLimit=1', ['c:y']],
      ['?replayAfterMessageId=&replayLimit=0', []],
    ]
    for (const [query, expected] of cases) {
      const session = await server.session()
      for (const topic of ['a', 'b', 'c:x', 'a', 'c:y']) await session.bus.publish({ topic, payload: topic })
      const lines = await subscribe(server, session, query)
      await session.bus.publish({ topic: query.includes('topics=') ? 'a' : 'c:end', payload: 'end' })
      expect([query, await lines.take(expected.length + 1)]).toEqual([query, [...expected, 'end']])
      await lines.leave()
    }
  })

  test('reports an invalid request before the stream starts', async () => {
    await using server = await openServer()
    const session = await server.session()
    for (const [id, query, status, reason] of [
      ['0'.repeat(36), '', 404, 'SESSION_NOT_FOUND'],
      [session.id, '?topics=', 400, 'INVALID_ARGUMENT'],
      [session.id, '?scope=OTHER', 400, 'INVALID_ARGUMENT'],
      [session.id, '?replayLimit=-1', 400, 'INVALID_ARGUMENT'],
      [session.id, '?replayLimit=x', 400, 'INVALID_ARGUMENT'],
      [session.id, '?replayAfterMessageId=!', 400, 'INVALID_ARGUMENT'],
    ] as const)
      expect(refusalIn(await server.call('GET', `/v1/sessions/${id}/bus${query}`))).toMatchObject({
        status,
        reason,
      })
  })

  test('a stream ends with its session and with the engine', async () => {
    await using server = await openServer()
    for (const end of [(session: Session) => session.delete(), () => server.engine.close()]) {
      const session = await server.session()
      const lines = await subscribe(server, session)
      await session.bus.publish({ topic: 't', payload: 'last' })
      await end(session)
      expect(await lines.take(1)).toEqual(['last'])
      expect(await lines.next()).toBeUndefined()
    }
  })

  test('messages that are ready together are sent together', async () => {
    await using server = await openServer()
    const session = await server.session()
    for (let index = 0; index < 1000; index++) await session.bus.publish({ topic: 't', payload: `${index}` })
    const lines = await subscribe(server, session, '?replayLimit=1000')
    expect((await lines.take(1000)).at(-1)).toBe('999')
    expect(lines.pieces).toBeLessThan(100)
    await lines.leave()
  })

  test('a client that disconnects is no longer a subscriber', async () => {
    await using server = await openServer()
    const session = await server.session()
    const all = await Promise.all(Array.from({ length: 20 }, () => subscribe(server, session)))
    await subscribers(session, 20)
    for (const lines of all.slice(0, 10)) await lines.leave()
    await subscribers(session, 10)
    await session.bus.publish({ topic: 't', payload: 'x' })
    for (const lines of all.slice(10)) {
      expect(await lines.take(1)).toEqual(['x'])
      await lines.leave()
    }
    await subscribers(session, 0)
    const abort = new AbortController()
    const left = await subscribe(server, session, '', { signal: abort.signal })
    await subscribers(session, 1)
    abort.abort()
    await left.next().catch(() => undefined)
    await subscribers(session, 0)
  })

  test('a slow reader gets its buffered messages, then one error, and the end', async () => {
    await using server = await openServer()
    const session = await server.session()
    const lines = await subscribe(server, session)
    const payload = Buffer.alloc(2 ** 20, 'x')
    // More than the buffers of both sides of a connection hold.
    for (let index = 0; index < 64; index++) await session.bus.publish({ topic: 't', payload })
    const items: Item[] = []
    for (let item; (item = await lines.next()) !== undefined;) items.push(item)
    expect(items.length).toBeLessThan(64)
    expect(items.filter(({ error }) => error !== undefined)).toHaveLength(1)
    expect(items.at(-1)!.error).toMatchObject({
      code: 8,
      details: [{ reason: 'SLOW_CONSUMER', domain: 'forkspace' }],
    })
    expect(items.slice(0, -1).map(({ result }) => Number(result!.messageId))).toEqual(
      Array.from({ length: items.length - 1 }, (_, index) => index + 1),
    )
  })

  test('drops a wait for a lock when its client disconnects', async () => {
    let came = 0
    const authenticate = (_token: string): typeof caller => {
      came++
      return caller
    }
    await using server = await openServer({ handler: { authenticate } })
    using open = openResponses()
    const session = await server.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const waits = Array.from({ length: 200 }, (_, index) => {
      const abort = new AbortController()
      const [verb, body] =
        index % 2 === 0
          ? (['setPosixLockBlocking', { path: '/a', kind, owner: { ownerId: `w${index}` } }] as const)
          : (['flock', { path: '/a', blocking: true, owner: { ownerId: `w${index}` } }] as const)
      const request = new Request(`${server.url}/v1/sessions/${session.id}:${verb}`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: abort.signal,
      })
      return {
        index,
        abort,
        // An unreferenced request may be garbage collected, and its signal then aborts nothing.
        request,
        done: send(server, request).then(
          ({ status }) => status,
          () => 0,
        ),
      }
    })
    const [first, ...others] = waits.filter(({ index }) => index % 2 === 1)
    // Whole-file locks are free, so one of the waiters gets it at once.
    expect(await Promise.race([first!, ...others].map(({ done }) => done))).toBe(200)
    while (came < waits.length) await pause(5)
    for (const { abort } of waits) abort.abort()
    await Promise.all(waits.map(({ done }) => done))
    // A client whose disconnect is not noticed yet may get the lock and keep it.
    while (open.responses.size > 0) await pause(5)
    await server.call('POST', `/v1/sessions/${session.id}:funlock`, {
      path: '/a',
      owner: { ownerId: 'holder' },
    })
    for (;;) {
      // No waiters are left: a new caller gets the lock as soon as this is known.
      const { hasConflict } = await session.posixLocks.get({ path: '/a', kind, owner: { ownerId: 'late' } })
      if (!hasConflict) break
      await pause(5)
    }
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'late' } })
  })
})

test('a stream of the fetch handler references its request, so an abort ends it', async () => {
  await using server = await openServer()
  const session = await server.session()
  const abort = new AbortController()
  const url = `${server.url}/v1/sessions/${session.id}/bus`
  const { body } = await server.handler.fetch(
    new Request(url, { headers: { authorization }, signal: abort.signal }),
  )
  const lines = new Lines(body!)
  const next = lines.next()
  for (let index = 0; index < 3; index++) await letGo()
  expect(await countOf(session)).toBe(1)
  abort.abort()
  await next
  expect(await countOf(session)).toBe(0)
})

test('a client that never reads holds little memory and is disconnected', async () => {
  await using server = await openServer({ handler: { limits: { stalledStreamMs: 300 } } })
  const session = await server.session()
  const sockets: Socket[] = []
  for (let index = 0; index < 20; index++) {
    const socket = await server.open()
    socket.on('error', () => undefined)
    socket.write(server.head('GET', `/v1/sessions/${session.id}/bus`, 'connection: close'))
    await new Promise((resolve) => socket.once('data', resolve))
    socket.pause()
    sockets.push(socket)
  }
  globalThis.gc?.()
  const before = process.memoryUsage()
  const payload = Buffer.alloc(2 ** 20, 'x')
  for (let index = 0; index < 60; index++) await session.bus.publish({ topic: 't', payload })
  const { rss } = process.memoryUsage()
  // 20 × (2 MiB waiting + a piece in progress), the kept messages, and the system's buffers.
  expect(rss - before.rss).toBeLessThan(400 * 2 ** 20)
  while ((await countOf(session)) > 0) await pause(10)
  const closed = sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve)))
  for (const socket of sockets) socket.resume()
  await Promise.all(closed)
})

test.runIf(isLong)('a thousand subscribers get every message', async () => {
  await using server = await openServer()
  const session = await server.session()
  const sockets = await Promise.all(
    Array.from({ length: 1000 }, async () => {
      const socket = await server.open()
      let received = ''
      socket.on('data', (piece: Buffer) => (received += piece.toString('latin1')))
      socket.on('error', () => undefined)
      socket.write(server.head('GET', `/v1/sessions/${session.id}/bus`))
      return { socket, received: () => received }
    }),
  )
  while ((await countOf(session)) < 1000) await pause(20)
  const refused = await server.call('GET', `/v1/sessions/${session.id}/bus`)
  expect(refusalIn(refused)).toMatchObject({ status: 429, code: 8, reason: 'QUOTA' })
  for (let index = 0; index < 5; index++) await session.bus.publish({ topic: 't', payload: `m${index}` })
  for (const { received } of sockets) {
    while (received().split('"result"').length < 6) await pause(10)
    expect(received().match(/"messageId":"(\d+)"/g)).toEqual(
      [1, 2, 3, 4, 5].map((id) => `"messageId":"0000000${id}"`),
    )
  }
  for (const { socket } of sockets) socket.destroy()
  while ((await countOf(session)) > 0) await pause(20)
})

test('counts sent bytes', async () => {
  await using server = await openServer()
  const session = await server.session({ '/a': 'x'.repeat(1000) })
  const tenant = server.engine.as(caller)
  const gigabytes = async (): Promise<number> =>
    (await tenant.usage.get({ windowStart: '2020-01-01T00:00:00Z', windowEnd: '2100-01-01T00:00:00Z' }))
      .egressGb
  expect(await gigabytes()).toBe(0)
  let bytes = 0
  for (const call of [server.call, server.fetch]) {
    bytes += (await call('POST', `/v1/sessions/${session.id}:readFile`, { path: '/a' })).text.length
    bytes += (await call('GET', '/nothing')).text.length
    await call('HEAD', `/v1/sessions/${session.id}`)
    await call('GET', '/openapi.json')
    await call('GET', `/v1/sessions/${session.id}`, undefined, { authorization: 'Bearer x' })
  }
  expect(await gigabytes()).toBeCloseTo(bytes / 1e9, 12)
  await session.bus.publish({ topic: 't', payload: 'x'.repeat(5000) })
  const response = await fetch(`${server.url}/v1/sessions/${session.id}/bus?replayLimit=1`, {
    headers: { authorization },
  })
  const reader = response.body!.getReader()
  bytes += (await reader.read()).value!.byteLength
  await reader.cancel()
  expect(await gigabytes()).toBeCloseTo(bytes / 1e9, 12)
})

test('limits concurrent requests, including waiting ones, until their work is done', async () => {
  const engine = await openEngine()
  try {
    const handler = createHttpHandler(engine, {
      authenticate: () => caller,
      limits: { concurrentRequests: 3 },
    })
    const session = await engine.as(caller).sessions.create()
    const get = (path: string): Promise<Response> =>
      handler.fetch(
        new Request(`http://localhost/v1/sessions/${session.id}${path}`, { headers: { authorization } }),
      )
    const streams = [await get('/bus'), await get('/bus')]
    expect((await get('')).status).toBe(200)
    streams.push(await get('/bus'))
    const refused = await get('')
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await refused.json()).toMatchObject({
      code: 8,
      details: [{ reason: 'QUOTA', metadata: { limit: '3' } }],
    })
    await streams[0]!.body!.cancel()
    expect((await get('')).status).toBe(200)
    for (const stream of streams.slice(1)) await stream.body!.cancel()
    for (let index = 0; index < 10; index++) expect((await get('/cache/%zz')).status).toBe(400)
    expect((await Promise.all([get(''), get(''), get('')])).map(({ status }) => status)).toEqual([
      200, 200, 200,
    ])
  } finally {
    await engine.close()
  }
})

test('limits the wait for a lock', async () => {
  await using server = await openServer({ handler: { limits: { lockWaitMs: 30 } } })
  const session = await server.session({ '/a': '' })
  const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
  await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
  const request = { path: '/a', kind, owner: { ownerId: 'other' } }
  const wait = await server.call('POST', `/v1/sessions/${session.id}:setPosixLockBlocking`, request)
  expect(refusalIn(wait)).toEqual({ status: 504, code: 4, reason: 'LOCK_TIMEOUT', limit: '30' })
  await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'holder' } })
  expect(
    (await server.call('POST', `/v1/sessions/${session.id}:setPosixLockBlocking`, request)).body,
  ).toEqual({})
})

test('limits the time of a request but not of its work', async () => {
  let release: (() => void) | undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const { memoryStorage } = await import('../../src/index.js')
  let holding = false
  await using server = await openServer({
    handler: { limits: { requestMs: 40 } },
    engine: {
      storage: {
        open: async () => {
          const store = await memoryStorage({ durable: true }).open()
          const commit = store.commit.bind(store)
          return Object.assign(store, {
            commit: async (one: Parameters<typeof commit>[0]) => {
              if (holding) await held
              return commit(one)
            },
          })
        },
      },
    },
  })
  const session = await server.session()
  holding = true
  const late = await server.call('POST', `/v1/sessions/${session.id}/dirs`, { path: '/d' })
  expect(refusalIn(late)).toEqual({ status: 504, code: 4, reason: 'DEADLINE_EXCEEDED', limit: '40' })
  release!()
  const again = server.call('POST', `/v1/sessions/${session.id}/dirs`, { path: '/d' })
  expect(refusalIn(await again)).toMatchObject({ reason: 'ALREADY_EXISTS' })
})

/** The number of subscribers: the maximum minus the number that still fit. */
async function countOf(session: Session): Promise<number> {
  const probes = []
  for (;;) {
    const probe = session.bus.subscribe({ topics: ['\u0001probe'] })
    try {
      await probe.opened
      probes.push(probe)
    } catch {
      break
    }
  }
  for (const probe of probes) await probe.return()
  return 1000 - probes.length
}

test.each(['', '{"initial'])(
  'a client that disconnects during authentication holds no resources: %j sent',
  async (sent) => {
    let asked = 0
    let answer: (() => void) | undefined
    await using there = await openServer({
      handler: {
        limits: { concurrentRequests: 1 },
        authenticate: async () => {
          if (asked++ === 0) await new Promise<void>((resolve) => (answer = resolve))
          return caller
        },
      },
    })
    const socket = await there.open()
    socket.write(
      `${there.head('POST', '/v1/sessions', 'content-type: application/json', 'content-length: 100')}${sent}`,
    )
    while (answer === undefined) await pause(5)
    socket.destroy()
    await pause(100)
    answer()
    await pause(50)
    expect((await there.call('GET', '/v1/sessions')).status).toBe(200)
  },
)
