/** The limits on requests: allowed hosts, body sizes and concurrency. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { staticTokens } from '../../src/adapters/http/index.js'
import { caller, openServer, token } from '../support/http-server.js'
import { deepPath, longPatterns } from '../support/slow-globs.js'
import { defaultHttpLimits } from '../../src/adapters/http/limits.js'
import { ConcurrencyLimit } from '../../src/adapters/http/server/concurrency-limit.js'
import { createShared, Slot } from '../../src/adapters/http/server/slot.js'

describe('a concurrency limit', () => {
  test('accepts amounts up to the limit, and again after they are released', () => {
    const limit = new ConcurrencyLimit(10, 'too much')
    limit.take(4)
    limit.take(6)
    expect(() => limit.take(1)).toThrow('too much')
    limit.give(4)
    limit.take(4)
    expect(() => limit.take(1)).toThrow(
      expect.objectContaining({ reason: 'QUOTA', metadata: { limit: '10' } }),
    )
  })

  test('does not count a rejected amount', () => {
    const limit = new ConcurrencyLimit(10, 'too much')
    expect(() => limit.take(11)).toThrow('too much')
    limit.take(10)
  })
})

describe('the slot of a request', () => {
  test('stays taken while the request waits for response space, and until its response was sent', async () => {
    const shared = createShared({ ...defaultHttpLimits, concurrentRequests: 2, allResponseBytes: 10 })
    const take = (tenant: string): Slot => new Slot(shared, tenant)
    const before = take('a')
    expect(before.reserve(10)).toBeUndefined()
    const waiting = take('b')
    const entered = waiting.reserve(10)
    before.release()
    await entered
    take('c')
    expect(() => take('d')).toThrow('too many requests at once')
    expect(shared.responses.of('e').enter(1)).toBeInstanceOf(Promise)
    waiting.release()
    take('d')
    expect(() => take('f')).toThrow('too many requests at once')
  })

  test('frees the bytes of its body once', () => {
    const shared = createShared({ ...defaultHttpLimits, allBodyBytes: 10 })
    const slot = new Slot(shared, 'a')
    slot.bodies.take(4)
    slot.holdBody(4)
    slot.dropBody()
    slot.release()
    shared.bodies.take(10)
    expect(() => shared.bodies.take(1)).toThrow('too many large requests at once')
  })
})

test('bodies of one tenant that never arrive leave space for those of another one', async () => {
  const callers = { [token]: caller, stranger: { tenant: 'other', principal: 'eve' } }
  const limits = { allBodyBytes: 2 ** 20, bodyBytes: 100_000 }
  await using there = await openServer({ handler: { authenticate: staticTokens(callers), limits } })
  const head = there.head(
    'POST',
    '/v1/sessions/none:readFile',
    'content-type: application/json',
    'content-length: 99999',
  )
  const sockets = await Promise.all(Array.from({ length: 300 }, () => there.open()))
  let refused = 0
  for (const socket of sockets) {
    socket.on('error', () => undefined).on('data', () => refused++)
    socket.write(`${head}${'x'.repeat(8000)}`)
  }
  await vi.waitFor(() => expect(refused).toBeGreaterThan(100), { timeout: 10_000 })
  const body = { path: '/none', padding: 'x'.repeat(50_000) }
  const answers = await Promise.all(
    [token, 'stranger'].map((name) =>
      there.call('POST', '/v1/sessions/none:readFile', body, { authorization: `Bearer ${name}` }),
    ),
  )
  for (const socket of sockets) socket.destroy()
  expect(answers.map(({ status }) => status)).toEqual([429, 404])
})

test('requests of one tenant that wait after their clients have left leave some for another tenant', async () => {
  const callers = { [token]: caller, stranger: { tenant: 'other', principal: 'eve' } }
  const limits = { allResponseBytes: 2 ** 20, concurrentRequests: 20 }
  await using there = await openServer({ handler: { authenticate: staticTokens(callers), limits } })
  const { id } = await there.session({ '/large': new Uint8Array(12 * 2 ** 20) })
  const body = '{"path":"/large"}'
  const path = `/v1/sessions/${id}:readFile`
  const read = there.head('POST', path, 'content-type: application/json', `content-length: ${body.length}`)
  const unread = await there.open()
  unread.on('error', () => undefined).write(read + body)
  await new Promise((resolve) => unread.once('readable', resolve))
  let refused = false
  for (let count = 0; count < 100 && !refused; count++) {
    const socket = await there.open()
    socket.on('error', () => undefined).write(read + body)
    const first = once(socket, 'data').then(([data]) => String(data))
    refused = (await Promise.race([first, pause(20, '')])).includes('too many requests at once')
    socket.destroy()
    first.catch(() => undefined)
  }
  expect(refused).toBe(true)
  const headers = { authorization: 'Bearer stranger' }
  expect((await there.call('GET', '/v1/sessions', undefined, headers)).status).toBe(200)
  unread.destroy()
})

test('a large list of one tenant leaves space for the responses to another one', async () => {
  const callers = { [token]: caller, stranger: { tenant: 'other', principal: 'eve' } }
  const limits = { allResponseBytes: 8 * 2 ** 20 }
  await using there = await openServer({ handler: { authenticate: staticTokens(callers), limits } })
  const session = await there.session()
  const summary = '\u0001'.repeat(65_536)
  for (let count = 0; count < 30; count++) await session.approvals.request({ details: { summary } })
  const sockets = await Promise.all(Array.from({ length: 5 }, () => there.open()))
  for (const socket of sockets)
    socket
      .on('error', () => undefined)
      .pause()
      .write(there.head('GET', `/v1/sessions/${session.id}/approvals`))
  await pause(1000)
  const body = { path: '/none', length: 1000 }
  const answer = there.call('POST', '/v1/sessions/none:readFile', body, { authorization: 'Bearer stranger' })
  expect(await Promise.race([answer.then(({ status }) => status), pause(5000, 'no answer')])).toBe(404)
  for (const socket of sockets) socket.destroy()
  await answer
})

test('unread previews of one tenant leave space for the responses to another one', async () => {
  const callers = { [token]: caller, stranger: { tenant: 'other', principal: 'eve' } }
  const limits = { allResponseBytes: 32 * 2 ** 20 }
  await using there = await openServer({ handler: { authenticate: staticTokens(callers), limits } })
  const session = await there.session()
  const directory = `/${'d'.repeat(200)}`.repeat(10)
  const writes = Array.from({ length: 9000 }, (_, index) => ({
    write: { path: `${directory}/${index}`, content: '' },
  }))
  await session.files.batch(writes)
  const body = '{"dryRun":true}'
  const headers = ['content-type: application/json', `content-length: ${body.length}`]
  const sockets = await Promise.all(Array.from({ length: 6 }, () => there.open()))
  for (const socket of sockets)
    socket
      .on('error', () => undefined)
      .pause()
      .write(there.head('POST', `/v1/sessions/${session.id}:undo`, ...headers) + body)
  await pause(3000)
  const read = { path: '/none', length: 2 ** 20 }
  const answer = there.call('POST', '/v1/sessions/none:readFile', read, { authorization: 'Bearer stranger' })
  expect(await Promise.race([answer.then(({ status }) => status), pause(5000, 'no answer')])).toBe(404)
  for (const socket of sockets) socket.destroy()
  await answer
})

test('slow uploads and a large list of one tenant leave space for the responses to another one', async () => {
  const callers = { [token]: caller, stranger: { tenant: 'other', principal: 'eve' } }
  const limits = { allResponseBytes: 32 * 2 ** 20 }
  await using there = await openServer({ handler: { authenticate: staticTokens(callers), limits } })
  const session = await there.session()
  const summary = '\u0001'.repeat(65_536)
  for (let count = 0; count < 60; count++) await session.approvals.request({ details: { summary } })
  const path = `/v1/sessions/${session.id}`
  const types = ['content-type: application/octet-stream', 'content-length: 100']
  const heads = [
    there.head('PUT', `${path}/content?path=/a`, ...types),
    there.head('PUT', `${path}/content?path=/b`, ...types),
    there.head('GET', `${path}/approvals`),
  ]
  const sockets: Socket[] = []
  for (const head of heads) {
    const socket = await there.open()
    sockets.push(socket)
    socket
      .on('error', () => undefined)
      .pause()
      .write(head)
    await pause(500)
  }
  await pause(1000)
  const read = { path: '/none', length: 2 ** 20 }
  const answer = there.call('POST', '/v1/sessions/none:readFile', read, { authorization: 'Bearer stranger' })
  expect(await Promise.race([answer.then(({ status }) => status), pause(5000, 'no answer')])).toBe(404)
  for (const socket of sockets) socket.destroy()
  await answer
})

test('a read with a large response waits without it, and reads again', async () => {
  const limits = { allResponseBytes: 32 * 2 ** 20 }
  await using there = await openServer({ handler: { limits } })
  const session = await there.session({ '/large': new Uint8Array(12 * 2 ** 20) })
  const summary = 'a'.repeat(65_536)
  for (let count = 0; count < 100; count++) await session.approvals.request({ details: { summary } })
  const body = '{"path":"/large","length":11500000}'
  const headers = ['content-type: application/json', `content-length: ${body.length}`]
  const unread = await there.open()
  unread
    .on('error', () => undefined)
    .write(there.head('POST', `/v1/sessions/${session.id}:readFile`, ...headers) + body)
  await new Promise((resolve) => unread.once('readable', resolve))
  const answer = there.call('GET', `/v1/sessions/${session.id}/approvals`)
  await pause(1000)
  await session.approvals.request()
  unread.destroy()
  const { approvals } = (await answer).body as { approvals: object[] }
  expect(approvals).toHaveLength(101)
})

test('a list that grows while it waits for its share waits again', async () => {
  const limits = { allResponseBytes: 32 * 2 ** 20 }
  await using there = await openServer({ handler: { limits } })
  const session = await there.session({ '/large': new Uint8Array(12 * 2 ** 20) })
  const grow = async (count: number): Promise<void> => {
    const summary = 'a'.repeat(65_536)
    for (let index = 0; index < count; index++) await session.approvals.request({ details: { summary } })
  }
  const path = `/v1/sessions/${session.id}`
  let begun = 0
  const send = async (head: string): Promise<Socket> => {
    const socket = await there.open()
    socket.on('error', () => undefined).once('readable', () => begun++)
    socket.write(head)
    return socket
  }
  await grow(80)
  const body = '{"path":"/large","length":10400000}'
  const headers = ['content-type: application/json', `content-length: ${body.length}`]
  const read = await send(there.head('POST', `${path}:readFile`, ...headers) + body)
  const download = await send(there.head('GET', `${path}/content?path=/large`))
  await vi.waitFor(() => expect(begun).toBe(2))
  const lists: Socket[] = []
  for (let count = 0; count < 3; count++) lists.push(await send(there.head('GET', `${path}/approvals`)))
  await pause(500)
  // Leaves enough for the usual size of the lists.
  download.destroy()
  await pause(500)
  expect(begun).toBe(2)
  await grow(160)
  read.destroy()
  await vi.waitFor(() => expect(begun).toBe(4), 10_000)
  await pause(1000)
  expect(begun).toBe(4)
  for (const list of lists) list.destroy()
})

test('a large list of locks waits for the share of its tenant', async () => {
  const limits = { allResponseBytes: 32 * 2 ** 20, requestMs: 2000 }
  await using there = await openServer({ handler: { limits } })
  const session = await there.session({ '/large': new Uint8Array(12 * 2 ** 20) })
  const directory = `/${'d'.repeat(250)}`.repeat(14)
  for (let index = 0; index < 600; index++)
    await session.fileLocks.lock({ path: `${directory}/${index}`, timeoutSeconds: 600 })
  const body = '{"path":"/large","length":11200000}'
  const headers = ['content-type: application/json', `content-length: ${body.length}`]
  const unread = await there.open()
  unread
    .on('error', () => undefined)
    .write(there.head('POST', `/v1/sessions/${session.id}:readFile`, ...headers) + body)
  await new Promise((resolve) => unread.once('readable', resolve))
  expect((await there.call('POST', `/v1/sessions/${session.id}/files/list-locks`, {})).status).toBe(429)
  unread.destroy()
})

test.each(['events', 'approvals', 'annotations', 'manifest', 'cache/keys'])(
  'a list of %s reserves the memory of a large page before it is read',
  async (name) => {
    const limits = { allResponseBytes: 32 * 2 ** 20, requestMs: 2000 }
    await using there = await openServer({ handler: { limits } })
    const session = await there.session({ '/large': new Uint8Array(12 * 2 ** 20) })
    const path = `/v1/sessions/${session.id}`
    const body = '{"path":"/large","length":10000000}'
    const headers = ['content-type: application/json', `content-length: ${body.length}`]
    const unread = await there.open()
    unread.on('error', () => undefined).write(there.head('POST', `${path}:readFile`, ...headers) + body)
    await new Promise((resolve) => unread.once('readable', resolve))
    expect((await there.call('GET', `${path}/${name}`)).status).toBe(429)
    unread.destroy()
  },
)

test('a page of long paths ends early', async () => {
  await using there = await openServer()
  const session = await there.session()
  const empty = await there.session()
  const directory = `/${'d'.repeat(250)}`.repeat(14)
  const paths = Array.from({ length: 3000 }, (_, index) => `${directory}/${index}`)
  await session.files.batch(paths.map((path) => ({ write: { path, content: '' } })))
  const found: number[] = []
  let pageToken = ''
  do {
    const request = { from: { sessionId: empty.id }, pageSize: 10_000, pageToken }
    const { body } = await there.call('POST', `/v1/sessions/${session.id}:diff`, request)
    const page = body as { changes: object[]; nextPageToken: string }
    found.push(page.changes.length)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  expect(found).toHaveLength(2)
  expect(found.reduce((sum, count) => sum + count)).toBe(3014)
  const { changes, isComplete } = await session.undo({ dryRun: true })
  expect([changes.length, isComplete]).toEqual([found[0], false])
})

test('a change that waits too long for the memory of its response is not made', async () => {
  const limits = { allResponseBytes: 64 * 2 ** 20, requestMs: 2000 }
  await using there = await openServer({ handler: { limits } })
  const session = await there.session({ '/large': new Uint8Array(12 * 2 ** 20) })
  const { id } = session
  const directory = `/${'d'.repeat(200)}`.repeat(6)
  const writes = Array.from({ length: 1000 }, (_, index) => ({
    write: { path: `${directory}/${index}`, content: '' },
  }))
  await session.files.batch(writes)
  // Together they leave 1,100,000 bytes of the half of the budget that the tenant may use.
  const lengths = [12 * 2 ** 20, 12 * 2 ** 20 - 825_000]
  const sockets: Socket[] = []
  for (const length of lengths) {
    const body = JSON.stringify({ path: '/large', length })
    const headers = ['content-type: application/json', `content-length: ${body.length}`]
    const socket = await there.open()
    sockets.push(socket)
    socket
      .on('error', () => undefined)
      .write(there.head('POST', `/v1/sessions/${id}:readFile`, ...headers) + body)
    await new Promise((resolve) => socket.once('readable', resolve))
  }
  const undone = await there.call('POST', `/v1/sessions/${id}:undo`, { listChanges: true })
  const { count, changes } = await session.undo({ dryRun: true })
  expect([undone.status, count, changes.length]).toEqual([429, 1, 1006])
  for (const socket of sockets) socket.destroy()
})

test('accepts a body of exactly the limit and rejects one more byte', async () => {
  const body = { initialTags: { name: 'value' } }
  const bodyBytes = JSON.stringify(body).length
  await using there = await openServer({ handler: { limits: { bodyBytes } } })
  expect((await there.call('POST', '/v1/sessions', body)).status).toBe(200)
  const larger = { initialTags: { name: 'value+' } }
  expect((await there.call('POST', '/v1/sessions', larger)).status).toBe(413)
})

test('accepts a body as large as all bodies may be together', async () => {
  const limits = { bodyBytes: 2 ** 20, allBodyBytes: 2 ** 20 }
  await using there = await openServer({ handler: { limits } })
  const body = { path: '/none', padding: 'x'.repeat(1_000_000) }
  expect((await there.call('POST', '/v1/sessions/none:readFile', body)).status).toBe(404)
})

test('rejects a request for another host, even if only its target names it', async () => {
  await using there = await openServer({})
  const statusOf = async (target: string): Promise<string | undefined> => {
    const socket = await there.open()
    socket.write(`GET ${target} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${token}\r\n\r\n`)
    for await (const piece of socket) return /^HTTP\/1.1 (\d+)/.exec(String(piece))?.[1]
    return undefined
  }
  expect(await statusOf('http://localhost/v1/sessions')).toBe('200')
  expect(await statusOf('http://evil.example/v1/sessions')).toBe('403')
})

describe('a search whose', () => {
  const limits = { concurrentRequests: 1 }
  const files = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`${deepPath}/${index}/b`, 'x']))
  const searches = [
    ['glob', { patterns: longPatterns('') }],
    ['grep', { pattern: 'x', globs: longPatterns('/') }],
  ] as const

  test.each(searches)('client disconnects ends: %s', async (name, request) => {
    await using there = await openServer({ handler: { limits } })
    const { id } = await there.session(files)
    const body = JSON.stringify(request)
    const path = `/v1/sessions/${id}:${name}`
    const json = 'content-type: application/json'
    const status = async (): Promise<number> => (await there.call('GET', `/v1/sessions/${id}`)).status
    const begin = async (): Promise<Socket> => {
      const socket = await there.open()
      socket.write(there.head('POST', path, json, `content-length: ${body.length}`) + body)
      if ((await status()) === 429) return socket
      // This request had the only slot before the search, which was refused.
      socket.destroy()
      throw new Error('the search has not begun')
    }
    const socket = await vi.waitFor(begin, 10_000)
    socket.destroy()
    await vi.waitFor(async () => expect(await status()).toBe(200))
  })

  test.each(searches)('time is over ends: %s', async (name, request) => {
    await using there = await openServer({ handler: { limits: { ...limits, requestMs: 100 } } })
    const { id } = await there.session(files)
    expect((await there.call('POST', `/v1/sessions/${id}:${name}`, request)).status).toBe(504)
    await vi.waitFor(async () => expect((await there.call('GET', `/v1/sessions/${id}`)).status).toBe(200))
  })
})
