/** Clients that do not take their answers, and what they hold of the server meanwhile. */
import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { openServer, refusalIn, type TestServer } from '../support/http-server.js'

const json = 'content-type: application/json'
const large = new Uint8Array(12 * 2 ** 20).fill(0x78)

function readOf(there: TestServer, id: string, ...headers: string[]): string {
  const body = '{"path":"/large"}'
  return (
    there.head('POST', `/v1/sessions/${id}:readFile`, json, `content-length: ${body.length}`, ...headers) +
    body
  )
}

/** A connection that asks for a large file and reads nothing of it. */
async function stalled(there: TestServer, id: string): Promise<Socket> {
  const socket = await there.open()
  socket.on('error', () => undefined)
  socket.pause()
  socket.write(readOf(there, id))
  return socket
}

function closed(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => socket.once('close', resolve))
}

describe('a response that is not read', () => {
  test('holds its slot until the server closes the connection', async () => {
    const limits = { concurrentRequests: 1, stalledResponseMs: 1000 }
    await using there = await openServer({ handler: { limits } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    await vi.waitFor(async () =>
      expect(refusalIn(await there.call('GET', `/v1/sessions/${id}`))).toMatchObject({ reason: 'QUOTA' }),
    )
    await vi.waitFor(async () => expect((await there.call('GET', `/v1/sessions/${id}`)).status).toBe(200), {
      timeout: 20_000,
      interval: 100,
    })
    socket.resume()
    await closed(socket)
  })

  test('holds its slot until its client leaves', async () => {
    await using there = await openServer({ handler: { limits: { concurrentRequests: 1 } } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    await vi.waitFor(async () => expect((await there.call('GET', `/v1/sessions/${id}`)).status).toBe(429))
    socket.destroy()
    await vi.waitFor(async () => expect((await there.call('GET', `/v1/sessions/${id}`)).status).toBe(200))
  })

  test('holds room that other large responses wait for', async () => {
    await using there = await openServer({ handler: { limits: { allResponseBytes: 20 * 2 ** 20 } } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    // What is small waits for nothing.
    await pause(100)
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

  test('lets others wait for room no longer than requests may take', async () => {
    const limits = { allResponseBytes: 20 * 2 ** 20, requestMs: 400 }
    await using there = await openServer({ handler: { limits } })
    const { id } = await there.session({ '/large': large })
    const socket = await stalled(there, id)
    await pause(100)
    const next = await there.call('POST', `/v1/sessions/${id}:readFile`, { path: '/large' })
    expect(refusalIn(next)).toEqual({ status: 429, code: 8, reason: 'QUOTA', limit: `${20 * 2 ** 20}` })
    // The wait that was given up leaves no hole.
    socket.destroy()
    await vi.waitFor(async () =>
      expect((await there.call('POST', `/v1/sessions/${id}:readFile`, { path: '/large' })).status).toBe(200),
    )
  })

  test('of a stream gives its room back', async () => {
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
    // A reader that does take its messages gets all of them, as soon as the others are cut off.
    const reader = await there.open()
    reader.write(there.head('GET', `/v1/sessions/${session.id}/bus?replayLimit=15`))
    let lines = 0
    reader.on('data', (piece: Buffer) => (lines += piece.toString('latin1').split('"messageId"').length - 1))
    await vi.waitFor(() => expect(lines).toBe(15), { timeout: 20_000, interval: 50 })
    reader.destroy()
    for (const socket of sockets) socket.destroy()
    expect((await there.call('POST', `/v1/sessions/${session.id}:readFile`, { path: '/x' })).status).toBe(404)
  })
})

describe('requests of one connection', () => {
  test('begin when the answer before them was sent', async () => {
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
    await vi.waitFor(() => expect(session.fs.existsSync('/made')).toBe(true))
    socket.destroy()
  })

  test('do not begin when their client has left', async () => {
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
    socket.destroy()
    await pause(200)
    expect(session.fs.existsSync('/made')).toBe(false)
  })

  test('end it when there are too many', async () => {
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

test('a body gets memory as it comes, whatever length is announced', async () => {
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
