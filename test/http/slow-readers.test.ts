/** Clients that do not read their responses, and the resources that they hold meanwhile. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { responseEncoder } from '../../src/adapters/http/operations/encode.js'
import { createHttpHandler, staticTokens, toNodeHandler } from '../../src/adapters/http/index.js'
import { MessageStream } from '../../src/adapters/http/operations/message-stream.js'
import { Room } from '../../src/adapters/http/server/room.js'
import { openEngine } from '../../src/index.js'
import { caller, openServer, refusalIn, token, type TestServer } from '../support/http-server.js'

const json = 'content-type: application/json'
const large = new Uint8Array(12 * 2 ** 20).fill(0x78)

function readOf(there: TestServer, id: string, ...headers: string[]): string {
  const body = '{"path":"/large"}'
  return (
    there.head('POST', `/v1/sessions/${id}:readFile`, json, `content-length: ${body.length}`, ...headers) +
    body
  )
}

/** A connection that requests a large file and stops reading when the response begins. */
async function stalled(there: TestServer, id: string, request = readOf(there, id)): Promise<Socket> {
  const socket = await there.open()
  socket.on('error', () => undefined)
  socket.write(request)
  await once(socket, 'data')
  socket.pause()
  return socket
}

/** A generous limit for something that is certain to happen. */
const soon = { timeout: 20_000, interval: 50 }

async function statusOf(there: TestServer, id: string): Promise<number> {
  return (await there.call('GET', `/v1/sessions/${id}`)).status
}

function closed(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => socket.once('close', resolve))
}

describe('a response that is not read', () => {
  test('holds its slot until the server closes the connection', async () => {
    const limits = { concurrentRequests: 1, stalledResponseMs: 500 }
    await using there = await openServer({ handler: { limits } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    await vi.waitFor(async () => expect(await statusOf(there, id)).toBe(200), soon)
    socket.resume()
    await closed(socket)
  })

  test('holds its slot until its client disconnects', async () => {
    await using there = await openServer({ handler: { limits: { concurrentRequests: 1 } } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    expect(await statusOf(there, id)).toBe(429)
    socket.destroy()
    await vi.waitFor(async () => expect(await statusOf(there, id)).toBe(200), soon)
  })

  test('makes other large responses wait for space', async () => {
    await using there = await openServer({ handler: { limits: { allResponseBytes: 20 * 2 ** 20 } } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    // A small response does not wait.
    expect((await there.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
    let answered = false
    const next = there.call('POST', `/v1/sessions/${id}:readFile`, { path: '/large' }).then((answer) => {
      answered = true
      return answer
    })
    await pause(300)
    expect(answered).toBe(false)
    socket.destroy()
    expect((await next).text).toHaveLength((large.length / 3) * 4 + 125)
  })

  test.each([
    ['edit', { path: '/text', oldText: 'a', newText: 'b' }],
    ['grep', { pattern: 'a' }],
    ['diffFiles', { from: { base: true } }],
    ['blame', { path: '/text' }],
    ['applyPatch', { patch: '--- a/text\n+++ b/text\n@@ -1 +1 @@\n-a\n+b\n' }],
  ])('makes the work of %s wait for space', async (name, request) => {
    // Its small response would have space.
    await using there = await openServer({ handler: { limits: { allResponseBytes: 60 * 2 ** 20 } } })
    const { id } = await there.session({ '/large': large, '/text': 'a\n' })
    const socket = await stalled(there, id)
    let answered = false
    const work = there.call('POST', `/v1/sessions/${id}:${name}`, request).then((answer) => {
      answered = true
      return answer
    })
    await pause(300)
    expect(answered).toBe(false)
    socket.destroy()
    expect((await work).status).toBe(200)
  })

  test('limits the wait of other responses to the request time limit', async () => {
    const limits = { allResponseBytes: 20 * 2 ** 20, requestMs: 400 }
    await using there = await openServer({ handler: { limits } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    const next = await there.call('POST', `/v1/sessions/${id}:readFile`, { path: '/large' })
    expect(refusalIn(next)).toEqual({ status: 429, code: 8, reason: 'QUOTA', limit: `${20 * 2 ** 20}` })
    // The abandoned wait releases its place.
    socket.destroy()
    await vi.waitFor(
      async () =>
        expect((await there.call('POST', `/v1/sessions/${id}:readFile`, { path: '/large' })).status).toBe(
          200,
        ),
      soon,
    )
  })

  test('holds no body space once its work is done', async () => {
    await using there = await openServer({ handler: { limits: { allBodyBytes: 2 ** 20 } } })
    const { id } = await there.session({ '/large': large })
    const body = JSON.stringify({ path: '/large', padding: 'x'.repeat(900_000) })
    const head = there.head('POST', `/v1/sessions/${id}:readFile`, json, `content-length: ${body.length}`)
    const socket = await stalled(there, id, head + body)
    const other = { path: '/none', padding: 'x'.repeat(900_000) }
    expect((await there.call('POST', `/v1/sessions/${id}:readFile`, other)).status).toBe(404)
    socket.destroy()
  })

  test('closes its connection even if it is small', async () => {
    const limits = { stalledResponseMs: 300, requestsPerConnection: 1000 }
    await using there = await openServer({ handler: { limits } })
    const { id } = await there.session({ '/large': large.subarray(0, 300_000) })
    const socket = await there.open()
    socket.on('error', () => undefined)
    socket.pause()
    const sockets = (): number =>
      process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length
    await vi.waitFor(() => expect(sockets()).toBe(2), soon)
    // More than the system buffers for a client that does not read.
    socket.write(readOf(there, id).repeat(200))
    await vi.waitFor(() => expect(sockets()).toBe(1), soon)
    socket.destroy()
  })

  test('of a stream releases its space', async () => {
    const limits = { allResponseBytes: 2 ** 20, stalledStreamMs: 500, requestMs: 60_000 }
    await using there = await openServer({ handler: { limits } })
    const session = await there.session()
    const sockets = await Promise.all(Array.from({ length: 4 }, () => there.open()))
    for (const socket of sockets) {
      socket.on('error', () => undefined)
      socket.pause()
      socket.write(there.head('GET', `/v1/sessions/${session.id}/bus?replayLimit=20`))
    }
    for (let index = 0; index < 15; index++)
      await session.bus.publish({ topic: 't', payload: new Uint8Array(2 ** 19) })
    // A reader that takes its messages gets all of them as soon as the others are disconnected.
    const reader = await there.open()
    reader.write(there.head('GET', `/v1/sessions/${session.id}/bus?replayLimit=15`))
    let lines = 0
    reader.on('data', (piece: Buffer) => (lines += piece.toString('latin1').split('"messageId"').length - 1))
    await vi.waitFor(() => expect(lines).toBe(15), soon)
    reader.destroy()
    for (const socket of sockets) socket.destroy()
    expect((await there.call('POST', `/v1/sessions/${session.id}:readFile`, { path: '/x' })).status).toBe(404)
  })
})

describe('requests on one connection', () => {
  test('start after the previous response was sent', async () => {
    await using there = await openServer()
    const session = await there.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const wait = JSON.stringify({ path: '/a', kind, owner: { ownerId: 'other' } })
    const make = '{"path":"/made"}'
    const socket = await there.open()
    socket.write(
      there.head(
        'POST',
        `/v1/sessions/${session.id}:setPosixLockBlocking`,
        json,
        `content-length: ${wait.length}`,
      ) +
        wait +
        there.head('POST', `/v1/sessions/${session.id}/dirs`, json, `content-length: ${make.length}`) +
        make,
    )
    await pause(200)
    expect(session.fs.existsSync('/made')).toBe(false)
    await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'holder' } })
    await vi.waitFor(() => expect(session.fs.existsSync('/made')).toBe(true), soon)
    socket.destroy()
  })

  test('release their slots before the next one starts', async () => {
    await using there = await openServer({ handler: { limits: { concurrentRequests: 1 } } })
    const { id } = await there.session()
    const requests = there.head('GET', `/v1/sessions/${id}`).repeat(5)
    const answers = await there.raw(requests + there.head('GET', '/end', 'connection: close'))
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(
      [200, 200, 200, 200, 200, 404].map((status) => `HTTP/1.1 ${status}`),
    )
  })

  test('do not start after their client has disconnected', async () => {
    await using there = await openServer()
    const session = await there.session({ '/a': '' })
    const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
    await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'holder' } })
    const wait = JSON.stringify({ path: '/a', kind, owner: { ownerId: 'other' } })
    await session.cache.put({ key: 'k', value: Buffer.from('v') })
    const socket = await there.open()
    socket.write(
      there.head(
        'POST',
        `/v1/sessions/${session.id}:setPosixLockBlocking`,
        json,
        `content-length: ${wait.length}`,
      ) +
        wait +
        there.head('DELETE', `/v1/sessions/${session.id}/cache/k`),
    )
    await pause(200)
    socket.destroy()
    await pause(200)
    expect(await session.cache.exists({ key: 'k' })).toEqual({ exists: true })
  })

  test('close it when there are too many', async () => {
    await using there = await openServer({ handler: { limits: { requestsPerConnection: 3 } } })
    const { id } = await there.session()
    const get = there.head('GET', `/v1/sessions/${id}`)
    expect(
      (await there.raw(get.repeat(3) + there.head('GET', '/end', 'connection: close'))).match(
        /HTTP\/1.1 \d+/g,
      ),
    ).toEqual([200, 200, 200, 429].map((status) => `HTTP/1.1 ${status}`))
    const answer = await there.raw(get.repeat(1000))
    expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual([200, 200, 200, 429].map((status) => `HTTP/1.1 ${status}`))
    expect(answer).toMatch(/connection: close\r\n[\s\S]*"reason":"QUOTA"[\s\S]*"limit":"3"/)
  })
})

test('grants response space in request order', async () => {
  const room = new Room(20).of('acme')
  expect(room.enter(8)).toBeUndefined()
  const order: string[] = []
  const large = room.enter(9)!.then(() => order.push('large'))
  const small = room.enter(2)!.then(() => order.push('small'))
  room.leave(8)
  await large
  await nextTurn()
  expect(order).toEqual(['large'])
  room.resize(9, 8)
  await small
  // A response larger than all of the space is admitted when nothing else is.
  const huge = room.enter(100)!
  room.leave(8)
  room.leave(2)
  await huge
})

test('grants space to the longest waiting response of all tenants', async () => {
  const room = new Room(100)
  const holder = room.of('holder')
  expect(holder.enter(100)).toBeUndefined()
  const order: string[] = []
  const names = ['b', 'a', 'b', 'a', 'c']
  const waits = names.map((name, index) =>
    room
      .of(name)
      .enter(10)!
      .then(() => order.push(`${name}${index}`)),
  )
  holder.leave(100)
  await Promise.all(waits)
  expect(order).toEqual(['b0', 'a1', 'b2', 'a3', 'c4'])
})

test('lets no small response of another tenant go ahead of one that waits for space', async () => {
  const room = new Room(100)
  const [first, second, third, fourth] = ['first', 'second', 'third', 'fourth'].map((name) => room.of(name))
  expect([first!.enter(50), second!.enter(40)]).toEqual([undefined, undefined])
  const entered: string[] = []
  const waits = [
    third!.enter(50)!.then(() => entered.push('third')),
    fourth!.enter(10)!.then(() => entered.push('fourth')),
  ]
  first!.leave(50)
  await Promise.all(waits)
  expect(entered).toEqual(['third', 'fourth'])
})

test('limits a tenant to half of the space that others leave', async () => {
  const room = new Room(100)
  const [first, second, third] = ['first', 'second', 'third'].map((name) => room.of(name))
  expect(first!.enter(50)).toBeUndefined()
  const entered: string[] = []
  const held = first!.enter(1)!.then(() => entered.push('first'))
  expect(second!.enter(20)).toBeUndefined()
  expect(second!.enter(5)).toBeUndefined()
  const more = second!.enter(1)!.then(() => entered.push('second'))
  // A tenant that holds nothing needs no share and only waits for space.
  expect(third!.enter(25)).toBeUndefined()
  const fourth = room
    .of('fourth')
    .enter(10)!
    .then(() => entered.push('fourth'))
  await nextTurn()
  expect(entered).toEqual([])
  third!.leave(25)
  await fourth
  expect(entered).toEqual(['fourth'])
  first!.leave(50)
  await Promise.all([held, more])
  expect(entered).toEqual(['fourth', 'first', 'second'])
})

test('a tenant with unread responses does not block another tenant', async () => {
  const callers = { [token]: caller, other: { tenant: 'other', principal: 'bob' } }
  const limits = { allResponseBytes: 64 * 2 ** 20 }
  await using there = await openServer({ handler: { limits, authenticate: staticTokens(callers) } })
  const { id } = await there.session({ '/large': large })
  const files = { '/large': large }
  const other = await there.engine.as(callers.other).sessions.create({ files })
  const sockets = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const socket = await there.open()
      socket.on('error', () => undefined)
      socket.pause()
      socket.write(readOf(there, id))
      return socket
    }),
  )
  await pause(500)
  const headers = { authorization: 'Bearer other' }
  const answer = await there.call('POST', `/v1/sessions/${other.id}:readFile`, { path: '/large' }, headers)
  expect(answer.status).toBe(200)
  for (const socket of sockets) socket.destroy()
})

test('sends a message that does not fit in the next piece', async () => {
  const messages = [10, 2 ** 20, 10].map((size) => ({
    result: {
      messageId: '1',
      sessionId: '',
      topic: '',
      payload: new Uint8Array(size),
      senderId: '',
      publishedAt: '',
    },
  }))
  const stream = new MessageStream(messagesOf(messages), responseEncoder('subscribe'), {
    room: new Room(2 ** 20).of('acme'),
    sent: () => undefined,
    end: () => undefined,
  })
  const lines: number[] = []
  for (let piece; (piece = await stream.next()) !== undefined;)
    lines.push(Buffer.from(piece).toString().split('\n').length - 1)
  expect(lines).toEqual([1, 1, 1])
})

async function* messagesOf(messages: readonly object[]): AsyncGenerator<object> {
  yield* messages
}

test('a response queued after one of another listener releases its slot when the connection is lost', async () => {
  const engine = await openEngine()
  const handler = createHttpHandler(engine, { authenticate: () => caller, limits: { concurrentRequests: 1 } })
  const handle = toNodeHandler(handler)
  const server = createServer((incoming, outgoing) => {
    if (incoming.url !== '/never') handle(incoming, outgoing)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const get = (path: string): string =>
    `GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer x\r\n\r\n`
  const answer = (): Promise<number> =>
    fetch(`http://127.0.0.1:${port}/v1/sessions`, { headers: { authorization: 'Bearer x' } }).then(
      ({ status }) => status,
    )
  const socket = connect(port, '127.0.0.1')
  socket.write(get('/never') + get('/v1/sessions'))
  await vi.waitFor(async () => expect(await answer()).toBe(429), soon)
  socket.destroy()
  await vi.waitFor(async () => expect(await answer()).toBe(200), soon)
  server.closeAllConnections()
  server.close()
  await engine.close()
})

test('a rejected body releases its space', async () => {
  await using there = await openServer({ handler: { limits: { allBodyBytes: 2 ** 20 } } })
  const { id } = await there.session()
  for (let index = 0; index < 3; index++) {
    const wrong = { path: 1, padding: 'x'.repeat(900_000) }
    const answer = await there.call('POST', `/v1/sessions/${id}:readFile`, wrong)
    expect(refusalIn(answer)).toMatchObject({ status: 400, field: 'path' })
  }
})

test('a body gets memory as it arrives, whatever length is announced', async () => {
  await using there = await openServer()
  const { id } = await there.session()
  const before = process.memoryUsage().arrayBuffers
  const sockets = await Promise.all(Array.from({ length: 20 }, () => there.open()))
  for (const socket of sockets)
    socket.write(
      `${there.head('POST', `/v1/sessions/${id}/batch`, json, `content-length: ${60 * 2 ** 20}`)}{"a":`,
    )
  await pause(300)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 * 2 ** 20)
  for (const socket of sockets) socket.destroy()
})
