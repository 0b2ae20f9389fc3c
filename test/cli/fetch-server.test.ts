import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { serveFetch, type FetchServer } from '../../src/adapters/cli/fetch-server.js'
import { cliLimits } from '../../src/adapters/cli/limits.js'

const one = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
const last = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'

let server: FetchServer | undefined
let socket: Socket | undefined

afterEach(async () => {
  socket?.destroy()
  await server?.close()
})

/** Opens a connection and sends requests on it. */
async function send(requests: string): Promise<Socket> {
  const opened = connect(server?.port ?? 0, '127.0.0.1')
  socket = opened
  opened.on('error', () => undefined)
  await once(opened, 'connect')
  opened.write(requests)
  return opened
}

test('answers the requests of a connection one after the other', async () => {
  let running = 0
  let most = 0
  server = await serveFetch(async () => {
    most = Math.max(most, ++running)
    await new Promise(setImmediate)
    running--
    return new Response('answer')
  }, 0)
  const answers = await text(await send(one.repeat(cliLimits.inspectRequests - 1) + last))
  expect(answers.split('HTTP/1.1 200').length - 1).toBe(cliLimits.inspectRequests)
  expect(most).toBe(1)
})

test('closes a connection with too many unanswered requests', async () => {
  let handled = 0
  server = await serveFetch(() => {
    handled++
    return new Promise(() => undefined)
  }, 0)
  const opened = await send(one.repeat(cliLimits.inspectRequests + 1000))
  await once(opened.resume(), 'close')
  expect(handled).toBeLessThanOrEqual(1)
})

test('closes a connection whose client does not read, and none that waits for a stream', async () => {
  const events = new EventEmitter()
  const large = Buffer.alloc(2 ** 16)
  server = await serveFetch(
    ({ url, signal }) => {
      const isLarge = url.endsWith('/large')
      signal.addEventListener('abort', () => events.emit('end', isLarge))
      const body = new ReadableStream<Uint8Array>({
        start: (stream) => {
          if (!isLarge) events.emit('waiting', stream)
        },
        pull: (stream) => {
          if (isLarge) stream.enqueue(large)
        },
      })
      return Promise.resolve(new Response(body))
    },
    0,
    50,
  )
  const waiting = once(events, 'waiting')
  const answer = text(await send(last))
  const [stream] = (await waiting) as [ReadableStreamDefaultController<Uint8Array>]
  const ended = once(events, 'end')
  const unread = await send('GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n')
  expect(await ended).toEqual([true])
  unread.destroy()
  stream.enqueue(Buffer.from('late'))
  stream.close()
  expect(await answer).toContain('late')
})

test.each([
  ['body', 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n', ' '],
  ['head', 'GET / HTTP/1.1\r\nHost: localhost\r\n', 'x: y\r\n'],
  ['body after its answer', 'PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n', ' '],
])('closes a connection whose client sends a %s slowly', async (_what, start, piece) => {
  server = await serveFetch(
    async (request) => new Response(request.method === 'POST' ? await request.text() : 'answer'),
    0,
    200,
  )
  const opened = await send(start)
  const more = setInterval(() => opened.write(piece), 20)
  try {
    await once(opened.resume(), 'close', { signal: AbortSignal.timeout(3000) })
  } finally {
    clearInterval(more)
  }
  expect(opened.destroyed).toBe(true)
})
