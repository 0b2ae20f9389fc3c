/** The server: slow and faulty clients, connections, closing. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { createHttpHandler, serve, staticTokens, toNodeHandler } from '../../src/adapters/http/index.js'
import { openEngine, type Caller } from '../../src/index.js'
import { caller, openServer, readAll, token } from '../support/http-server.js'

const json = 'content-type: application/json'
const authorization = `Bearer ${token}`

describe('a slow client', () => {
  const server = { headersTimeoutMs: 300, requestTimeoutMs: 600 }

  test('with its headers is disconnected', async () => {
    await using there = await openServer({ server })
    const socket = await there.open()
    const answer = readAll(socket)
    for (const sign of 'GET / HTTP/1.1\r\nx-slow: 1234567890'.repeat(3)) {
      if (socket.destroyed) break
      socket.write(sign)
      await pause(40)
    }
    expect(await answer).toMatch(/^HTTP\/1.1 408 [\s\S]*"reason":"REQUEST_TIMEOUT"/)
  })

  test('with its body is disconnected', async () => {
    await using there = await openServer({ server })
    const { id } = await there.session()
    const socket = await there.open()
    const answer = readAll(socket)
    socket.write(there.head('POST', `/v1/sessions/${id}/checkpoints`, json, 'content-length: 1000'))
    while (!socket.destroyed) {
      socket.write(' ')
      await pause(40)
    }
    expect(await answer).toMatch(/^HTTP\/1.1 408 [\s\S]*"reason":"REQUEST_TIMEOUT"/)
    expect((await there.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
  })

  test.each(['\r\n', '\n'])(
    'that sends only blank lines (%j) after a response is disconnected',
    async (line) => {
      await using there = await openServer({ server: { headersTimeoutMs: 300, keepAliveMs: 200 } })
      const socket = await there.open()
      const answer = readAll(socket)
      socket.write(there.head('GET', '/v1/sessions'))
      const started = performance.now()
      while (!socket.destroyed && performance.now() - started < 5000) {
        socket.write(line)
        await pause(40)
      }
      expect(socket.destroyed).toBe(true)
      expect(await answer).toMatch(/^HTTP\/1.1 200 /)
    },
  )

  test.runIf(process.platform === 'linux')('that is silent is probed, because it may be gone', async () => {
    await using there = await openServer({ server })
    const { id } = await there.session()
    const stream = await fetch(`${there.url}/v1/sessions/${id}/bus`, { headers: { authorization } })
    const port = Number(new URL(there.url).port).toString(16).toUpperCase().padStart(4, '0')
    // The fields are a number, the local address, the remote one, the state, the queues, and the timer.
    const timers = readFileSync('/proc/net/tcp', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local = '', , state]) => local.endsWith(`:${port}`) && state === '01')
      .map(([, , , , , timer = '']) => timer.slice(0, 2))
    // 02 is the timer of the next probe.
    expect(timers).toEqual(['02'])
    await stream.body!.cancel()
  })

  test('that reads a stream or waits for a lock is not disconnected', async () => {
    await using there = await openServer({ server: { ...server, keepAliveMs: 100 } })
    const session = await there.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const stream = await fetch(`${there.url}/v1/sessions/${session.id}/bus`, { headers: { authorization } })
    const lock = there.call('POST', `/v1/sessions/${session.id}:setPosixLockBlocking`, {
      path: '/a',
      kind,
      owner: { ownerId: 'other' },
    })
    await pause(2500)
    await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'holder' } })
    expect((await lock).body).toEqual({})
    await session.bus.publish({ topic: 't', payload: 'x' })
    const reader = stream.body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toContain('"topic":"t"')
    await reader.cancel()
  })
})

describe('an invalid request', () => {
  test.each([
    ['nonsense', 'nonsense\r\n\r\n', 400],
    ['another protocol', 'GET / SPDY/1\r\n\r\n', 400],
    [
      'two lengths',
      `POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n`,
      400,
    ],
    [
      'a length and chunks',
      `POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`,
      400,
    ],
    ['long headers', `GET / HTTP/1.1\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ])('is rejected: %s', async (_what, sent, status) => {
    await using server = await openServer()
    const answer = await server.raw(sent)
    expect(answer.slice(0, 12)).toBe(`HTTP/1.1 ${status}`)
    const [head, body] = answer.split('\r\n\r\n')
    expect(head).toMatch(/content-type: application\/json\r\n/)
    expect(JSON.parse(body!)).toMatchObject({ code: 3, details: [{ domain: 'forkspace' }] })
  })
})

describe('a connection', () => {
  test('that was rejected is closed by the server after its client could read the response', async () => {
    await using there = await openServer({ server: { headersTimeoutMs: 300, requestTimeoutMs: 600 } })
    const refused = [
      ['GET / HTTP/1.1\r\nx: half', 408],
      ['nonsense\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nx: ${'x'.repeat(200_000)}`, 431],
    ] as const
    const answers = refused.map(async ([sent]) => {
      const socket = await there.open({ allowHalfOpen: true })
      let answer = ''
      socket.on('data', (piece: Buffer) => (answer += piece.toString('latin1')))
      const closed = new Promise((resolve) => socket.once('error', resolve).once('close', resolve))
      socket.write(sent)
      // A connection closed by the peer rejects writes.
      const writing = setInterval(() => socket.write('x'), 50)
      await closed
      clearInterval(writing)
      socket.destroy()
      return answer.slice(0, 12)
    })
    expect(await Promise.all(answers)).toEqual(refused.map(([, status]) => `HTTP/1.1 ${status}`))
  })

  test('above the limit is closed at once, and accepted again later', async () => {
    await using there = await openServer({ server: { connections: 2 } })
    const sockets = [await there.open(), await there.open()]
    expect(await there.raw(there.head('GET', '/v1/sessions'))).toBe('')
    sockets[0]!.destroy()
    const get = there.head('GET', '/v1/sessions')
    await vi.waitFor(async () => expect(await there.raw(get, '"nextPageToken"')).toMatch(/^HTTP\/1.1 200 /), {
      timeout: 20_000,
      interval: 50,
    })
  })

  test('is reused, also after errors and unread bodies', async () => {
    await using server = await openServer()
    const { id } = await server.session()
    const socket = await server.open()
    const get = server.head('GET', `/v1/sessions/${id}`)
    const body = JSON.stringify({ label: 'x'.repeat(500) })
    const requests = [
      get,
      server.head('GET', '/nothing'),
      server.head('POST', '/nothing', json, `content-length: ${body.length}`) + body,
      server.head(
        'POST',
        `/v1/sessions/${id}/checkpoints`,
        'content-type: text/plain',
        `content-length: ${body.length}`,
      ) + body,
      server.head('DELETE', `/v1/sessions/${id}/cache/k`, json, `content-length: ${body.length}`) + body,
      server.head('HEAD', `/v1/sessions/${id}`),
      server.head('OPTIONS', `/v1/sessions/${id}`),
      get,
    ]
    const statuses: string[] = []
    for (const request of requests) {
      socket.write(request)
      const answer = await new Promise<Buffer>((resolve) => socket.once('data', resolve))
      statuses.push(answer.toString('latin1', 9, 12))
    }
    expect(statuses).toEqual(['200', '404', '404', '415', '200', '200', '204', '200'])
    socket.destroy()
  })

  test('may pipeline several requests, which are answered in order', async () => {
    await using server = await openServer()
    const { id } = await server.session({ '/a': 'x' })
    const paths = [
      `/v1/sessions/${id}`,
      '/nothing',
      `/v1/sessions/${id}/manifest`,
      `/v1/sessions/${id}/cache/%zz`,
    ]
    const answer = await server.raw(
      paths.map((path) => server.head('GET', path)).join('') +
        server.head('GET', '/end', 'connection: close'),
    )
    expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(
      [200, 404, 200, 400, 404].map((status) => `HTTP/1.1 ${status}`),
    )
  })

  test('gets 100 Continue only when the body is wanted', async () => {
    await using server = await openServer()
    const { id } = await server.session()
    const body = '{"label":"continued"}'
    const expecting = [json, `content-length: ${body.length}`, 'expect: 100-continue', 'connection: close']
    const socket = await server.open()
    const answer = readAll(socket)
    socket.write(server.head('POST', `/v1/sessions/${id}/checkpoints`, ...expecting))
    await new Promise((resolve) => socket.once('data', resolve))
    socket.write(body)
    expect(await answer).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 [\s\S]*"continued"/)
    const refused = await server.raw(server.head('POST', '/nothing', ...expecting), '"ROUTE_NOT_FOUND"')
    expect(refused).toMatch(/^HTTP\/1.1 404 /)
  })

  test('is answered despite an unknown expectation', async () => {
    await using there = await openServer()
    const head = there.head('GET', '/v1/sessions', 'expect: the-unexpected')
    expect(await there.raw(head, '"nextPageToken"')).toMatch(/^HTTP\/1.1 200 /)
  })

  test('may send as many headers as fit before the relevant ones', async () => {
    await using there = await openServer()
    const many = Array.from({ length: 1500 }, () => 'x: 1')
    const head = there.head('POST', '/v1/sessions', ...many, json, 'content-length: 30')
    expect(await there.raw(`${head}{"initialTags":{"last":"yes"}}`, '}}')).toContain('"last":"yes"')
  })

  test('gets its responses before invalid later data is rejected', async () => {
    await using there = await openServer()
    const post = there.head('POST', '/v1/sessions', json, 'content-length: 30')
    const whole = `${post}{"initialTags":{"last":"yes"}}`
    for (const behind of [' nonsense\r\n\r\n', `${whole}nonsense\r\n\r\n`]) {
      const answers = (await there.raw(whole + behind)).match(/HTTP\/1.1 \d+|"last":"yes"/g)
      const answer = ['HTTP/1.1 200', '"last":"yes"']
      expect(answers).toEqual(behind.startsWith(' ') ? answer : [...answer, ...answer])
    }
  })

  test('as a proxy is refused, after the responses to earlier requests', async () => {
    await using there = await openServer()
    const connect =
      'CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\n\r\nand bytes for the other server'
    const refused = await there.raw(connect)
    expect(refused).toMatch(/^HTTP\/1.1 405 /)
    expect(refused).toContain('"METHOD_NOT_ALLOWED"')
    const answers = (await there.raw(there.head('GET', '/v1/sessions') + connect)).match(/HTTP\/1.1 \d+/g)
    expect(answers).toEqual(['HTTP/1.1 200'])
  })

  test('before one as a proxy no longer waits for a lock when its client leaves', async () => {
    await using there = await openServer()
    const session = await there.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const body = JSON.stringify({ path: '/a', kind, owner: { ownerId: 'gone' } })
    const route = `/v1/sessions/${session.id}:setPosixLockBlocking`
    const socket = await there.open()
    socket.write(there.head('POST', route, json, `content-length: ${body.length}`) + body)
    await pause(20)
    socket.end('CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\n\r\n')
    await once(socket, 'close')
    await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'holder' } })
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'later' } })
    await expect(
      session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } }),
    ).rejects.toMatchObject({ reason: 'LOCK_HELD' })
  })

  test('that keeps sending invalid data while it waits adds no listeners to its response', async () => {
    await using there = await openServer()
    const session = await there.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const warnings: string[] = []
    const warn = ({ name }: Error): unknown => warnings.push(name)
    process.on('warning', warn)
    const body = JSON.stringify({ path: '/a', kind, owner: { ownerId: 'other' } })
    const post = there.head(
      'POST',
      `/v1/sessions/${session.id}:setPosixLockBlocking`,
      json,
      `content-length: ${body.length}`,
    )
    const socket = connect(Number(new URL(there.url).port), '127.0.0.1')
    let answers = ''
    socket.on('data', (data: Buffer) => (answers += data.toString()))
    socket.write(post + body)
    for (let n = 0; n < 30; n++) {
      await pause(5)
      socket.write(' nonsense\r\n\r\n')
    }
    await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'holder' } })
    await once(socket, 'close')
    process.off('warning', warn)
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200'])
    expect(warnings).toEqual([])
  })

  test('that ends during a body changes nothing', async () => {
    await using server = await openServer()
    const session = await server.session()
    for (let index = 0; index < 20; index++) {
      const socket = await server.open()
      socket.write(
        server.head('POST', `/v1/sessions/${session.id}/dirs`, json, 'content-length: 100') + '{"path":"/x"}',
      )
      await pause(2)
      socket.destroy()
    }
    await expect(session.fs.promises.stat('/x')).rejects.toMatchObject({ code: 'ENOENT' })
    expect((await server.call('GET', `/v1/sessions/${session.id}`)).status).toBe(200)
  })
})

describe('closing', () => {
  test('completes requests, ends streams and waits, and accepts no new requests', async () => {
    let arrived = 0
    const authenticate = (): Caller => {
      arrived++
      return caller
    }
    const server = await openServer({ handler: { authenticate } })
    const session = await server.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const stream = await fetch(`${server.url}/v1/sessions/${session.id}/bus`, { headers: { authorization } })
    const lock = server.call('POST', `/v1/sessions/${session.id}:setPosixLockBlocking`, {
      path: '/a',
      kind,
      owner: { ownerId: 'other' },
    })
    const idle = await server.open()
    const idleClosed = new Promise((resolve) => idle.once('close', resolve))
    const operations = Array.from({ length: 500 }, (_, at) => ({
      write: { path: `/f${at}`, content: 'QUJD'.repeat(500) },
    }))
    const large = server.call('POST', `/v1/sessions/${session.id}/batch`, { operations })
    // A connection without a request would be closed.
    await vi.waitFor(() => expect(arrived).toBe(3), { timeout: 30_000 })
    const closed = Promise.all([server.server.close(), server.server.close()])
    expect(await stream.text()).toMatch(/^\{"error":\{"code":14,.*"reason":"UNAVAILABLE".*\}\n$/)
    expect((await lock).status).toBe(503)
    expect((await large).body).toEqual({})
    await closed
    await idleClosed
    await expect(fetch(server.url)).rejects.toThrow('fetch failed')
    expect(await session.fs.promises.readdir('/')).toHaveLength(501)
    await server.engine.close()
  })

  test('cuts off requests that do not end in time', async () => {
    const server = await openServer()
    const { id } = await server.session()
    const socket = await server.open()
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.on('error', () => undefined)
    socket.write(server.head('POST', `/v1/sessions/${id}/checkpoints`, json, 'content-length: 100'))
    await pause(50)
    await server.server.close({ timeoutMs: 50 })
    await closed
    expect(socket.destroyed).toBe(true)
    await server.engine.close()
  })

  test('is possible at any time and without any requests', async () => {
    const server = await openServer()
    await server[Symbol.asyncDispose]()
    await server.server.close()
    for (let round = 0; round < 10; round++) {
      const other = await openServer()
      const { id } = await other.session()
      const calls = Array.from({ length: 20 }, () =>
        other.call('GET', `/v1/sessions/${id}`).then(
          ({ status }) => status,
          () => 0,
        ),
      )
      await pause(round)
      await other.server.close({ timeoutMs: 1000 })
      expect((await Promise.all(calls)).filter((status) => status !== 0 && status !== 200)).toEqual([])
      await other.engine.close()
    }
  })
})

test('a server listens on the given address and reports it', async () => {
  const engine = await openEngine()
  try {
    const handler = createHttpHandler(engine, { authenticate: staticTokens({}) })
    await using one = await serve(handler)
    expect([one.host, one.url]).toEqual(['127.0.0.1', `http://127.0.0.1:${one.port}`])
    await expect(serve(handler, { port: one.port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
    await expect(serve({ ...handler })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(() => toNodeHandler({ ...handler })).toThrow(
      expect.objectContaining({ reason: 'INVALID_ARGUMENT' }),
    )
  } finally {
    await engine.close()
  }
})
