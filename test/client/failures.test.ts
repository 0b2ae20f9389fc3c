/** Failures: errors as in process, network failures, time limits, aborts, tenants. */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  connect,
  EngineError,
  type ClientOptions,
  type RemoteEngine,
  type RemoteSession,
} from '../../src/adapters/client/index.js'
import type { EngineScope } from '../../src/index.js'
import { Transport } from '../../src/adapters/client/transport.js'
import { openRemote, type Remote } from '../support/remote.js'
import { plainly } from './plainly.js'

const unknownId = '0'.repeat(36)
const hash = `sha256:${'0'.repeat(64)}`

type Failing = (engine: EngineScope | RemoteEngine, sessionId: string) => Promise<unknown>

const failing: Readonly<Record<string, Failing>> = {
  'a session that is not there': (engine) => engine.sessions.open(unknownId),
  'a session of no name': (engine) => engine.sessions.open(''),
  'a session of two dots': (engine) => engine.sessions.get('..'),
  'a path that is not there': (engine, id) => open(engine, id, ({ files }) => files.read({ path: '/none' })),
  'the hash of a directory': (engine, id) => open(engine, id, ({ files }) => files.contentHash('/dir')),
  'a hash that does not hold': (engine, id) =>
    open(engine, id, ({ files }) => files.write({ path: '/a', content: '', expectedHash: hash })),
  'a path that is relative': (engine, id) =>
    open(engine, id, ({ files }) => files.write({ path: 'a', content: '' })),
  'a path with a lone surrogate': (engine, id) =>
    open(engine, id, ({ files }) => files.removeDirectory({ path: '/\ud800' })),
  'a mode that is none': (engine, id) =>
    open(engine, id, ({ files }) => files.createDirectory({ path: '/x', mode: 2 ** 20 })),
  'a directory that is not empty': (engine, id) =>
    open(engine, id, ({ files }) => files.removeDirectory({ path: '/dir' })),
  'a batch of an unknown kind': (engine, id) =>
    open(engine, id, ({ files }) => files.batch([{ move: {} } as object])),
  'a batch that is none': (engine, id) => open(engine, id, ({ files }) => files.batch(5 as unknown as [])),
  'a content that is none': (engine, id) =>
    open(engine, id, ({ files }) => files.write({ path: '/a', content: 5 as unknown as string })),
  'an attribute that is not there': (engine, id) =>
    open(engine, id, ({ files }) => files.getXattr({ path: '/a', name: 'user.none' })),
  'a label that is taken': (engine, id) =>
    open(engine, id, async (session) => {
      await session.checkpoint({ checkpointLabel: 'here' })
      await session.checkpoint({ checkpointLabel: 'here' })
    }),
  'a checkpoint that is not there': (engine, id) =>
    open(engine, id, (session) => session.diff({ checkpointLabel: 'none' }).paths()),
  'a cache key of dots': (engine, id) => open(engine, id, ({ cache }) => cache.get({ key: '..' })),
  'a cache key that is empty': (engine, id) =>
    open(engine, id, ({ cache }) => cache.put({ key: '', value: '' })),
  'an approval that is decided on': (engine, id) =>
    open(engine, id, async ({ approvals }) => {
      const approval = await approvals.request()
      await approvals.grant(approval)
      await approvals.deny(approval)
    }),
  'an approval of no name': (engine, id) =>
    open(engine, id, ({ approvals }) => approvals.grant({ approvalId: '' })),
  'a lock that is held': (engine, id) =>
    open(engine, id, async ({ fileLocks }) => {
      await fileLocks.lock({ path: '/locked', timeoutSeconds: 60 })
      await fileLocks.lock({ path: '/locked', timeoutSeconds: 60 })
    }),
  'a secret that is not there': (engine, id) =>
    open(engine, id, ({ secrets }) => secrets.get({ secretName: 'none' })),
  'a page token of another listing': (engine, id) =>
    open(engine, id, (session) => session.manifest({ pageToken: 'x' })),
  'a source that is not there': (engine) => engine.sources.get(unknownId),
  'a job that is not there': (engine) => engine.sources.waitForJob({ sourceId: unknownId, jobId: '' }),
  'a window that ends before it starts': (engine) =>
    engine.usage.get({ windowStart: '2026-01-02T00:00:00Z', windowEnd: '2026-01-01T00:00:00Z' }),
}

type AnySession = Awaited<ReturnType<(EngineScope | RemoteEngine)['sessions']['open']>>

async function open(
  engine: EngineScope | RemoteEngine,
  id: string,
  act: (session: AnySession) => Promise<unknown>,
): Promise<unknown> {
  return act(await engine.sessions.open(id))
}

let remote: Remote
beforeAll(async () => {
  remote = await openRemote()
})
afterAll(() => remote.close())

describe('an error is the same as in process', () => {
  test.each(Object.keys(failing))('of %s', async (name) => {
    const outcomes = await Promise.all(
      [remote.engine.as({ tenant: 'acme' }), remote.client].map(async (engine) => {
        const session = await engine.sessions.create({ files: { '/a': '1', '/dir/b': '' } })
        const error: unknown = await failing[name]!(engine, session.id).catch((thrown: unknown) => thrown)
        expect(error).toBeInstanceOf(EngineError)
        const { code, reason, status, details, message } = error as EngineError
        // The first validation to see an invalid value reports it, in its own words.
        return plainly(
          reason === 'INVALID_ARGUMENT' ? { code, reason } : { code, reason, status, details, message },
        )
      }),
    )
    expect(outcomes[1]).toEqual(outcomes[0])
  })
})

test('resources of other tenants are not visible', async () => {
  const { id } = await remote.client.sessions.create()
  const bob = remote.connect({ token: 'bob-token' })
  await expect(bob.sessions.open(id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  expect((await bob.sessions.list()).sessions).toEqual([])
  const own = await bob.sessions.create()
  const { annotation } = await own.files
    .write({ path: '/a', content: '' })
    .then(async () =>
      own.annotations.add({ filePath: '/a', expectedContentHash: await own.files.contentHash('/a') }),
    )
  expect(annotation.reviewerId).toBe('bob')
})

test('an unknown token is rejected, and a token function is called for each request', async () => {
  await expect(remote.connect({ token: 'no' }).sessions.list()).rejects.toMatchObject({
    reason: 'UNAUTHENTICATED',
    code: 'UNAUTHENTICATED',
  })
  const tokens = ['no', 'ann-token']
  const client = remote.connect({ token: () => Promise.resolve(tokens.shift()!) })
  await expect(client.sessions.list()).rejects.toMatchObject({ reason: 'UNAUTHENTICATED' })
  await client.sessions.list()
})

test('rejects invalid options', () => {
  const wrong: readonly Partial<ClientOptions>[] = [
    { baseUrl: 'nowhere' },
    { baseUrl: 'ftp://127.0.0.1' },
    { baseUrl: 'http://u:p@127.0.0.1' },
    { baseUrl: 'http://127.0.0.1/?q' },
    { token: 5 as unknown as string },
    { timeoutMs: 0 },
    { reconnectMs: -1 },
    ...[Symbol('one'), 5n, '5', Object.create(Date.prototype), Object.create(Uint8Array.prototype)].flatMap(
      (value) => [{ timeoutMs: value }, { reconnectMs: value }, { baseUrl: value }] as object[],
    ),
    { fetch: 5 as unknown as typeof fetch },
    { signal: {} as AbortSignal },
  ]
  for (const options of wrong) expect(() => remote.connect(options)).toThrow(EngineError)
})

test('rejects a Map, a Set or a promise in place of a plain object, whose contents would be lost', async () => {
  const wrong = [new Map([['/a', 'x']]), new Set(['x']), Promise.resolve({ '/a': 'x' })] as never[]
  const { sessions } = remote.client
  for (const value of wrong) {
    await expect(sessions.create({ files: value })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    await expect(sessions.create({ initialTags: value })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    })
  }
})

describe('a faulty server', () => {
  let server: Server
  let answer: RequestListener
  let requests: string[]
  let client: RemoteEngine

  beforeAll(async () => {
    server = createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`)
      request.resume()
      answer(request, response)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    client = connectTo({})
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  const connectTo = (options: Partial<ClientOptions>): RemoteEngine => {
    const { port } = server.address() as AddressInfo
    return connect({ baseUrl: `http://127.0.0.1:${port}/base/`, token: 't', ...options })
  }
  const failed = (details: object = {}): unknown =>
    expect.objectContaining({ reason: 'REMOTE_FAILED', code: 'UNAVAILABLE', ...details })

  test('gets retries for reads, and never for changes', async () => {
    requests = []
    answer = (request) => request.socket.destroy()
    await expect(client.sessions.list()).rejects.toEqual(failed())
    expect(requests).toEqual(Array.from({ length: 3 }, () => 'GET /base/v1/sessions'))
    requests = []
    await expect(client.sessions.create()).rejects.toEqual(failed())
    expect(requests).toEqual(['POST /base/v1/sessions'])
    requests = []
    const { id } = await remote.client.sessions.create()
    const headers = { authorization: 'Bearer ann-token' }
    const body = await (await fetch(`${remote.server.url}/v1/sessions/${id}`, { headers })).text()
    answer = (request, response) => (requests.length === 1 ? response.end(body) : request.socket.destroy())
    const session = await client.sessions.open(id)
    const note = { filePath: '/a', comment: 'a note', expectedContentHash: `sha256:${'0'.repeat(64)}` }
    await expect(session.annotations.add(note)).rejects.toEqual(failed())
    expect(requests).toHaveLength(2)
    requests = []
    answer = (request, response) =>
      requests.length < 3
        ? request.socket.destroy()
        : response.end(JSON.stringify({ sessions: [], nextPageToken: '' }))
    expect(await client.sessions.list()).toEqual({ sessions: [], nextPageToken: '' })
  })

  test.each([
    ['invalid JSON', 200, 'hello'],
    ['unexpected JSON', 200, '{"sessions":5}'],
    ["a proxy's HTML page", 502, '<html>'],
    ['an error without a reason', 503, '{"code":14,"message":"gone","details":[]}'],
    ['a property name of every object', 404, '{"code":5,"message":"?","details":[{"reason":"toString"}]}'],
    ['an unknown reason', 404, '{"code":5,"message":"?","details":[{"reason":"ROUTE_NOT_FOUND"}]}'],
  ])('is reported for a response with %s', async (_name, status, body) => {
    requests = []
    answer = (_, response) => response.writeHead(status).end(body)
    await expect(client.sessions.list()).rejects.toEqual(failed())
    expect(requests).toHaveLength(1)
  })

  test('may neither redirect nor break off', async () => {
    requests = []
    answer = (_, response) => response.writeHead(307, { location: remote.server.url }).end()
    await expect(client.sessions.create()).rejects.toEqual(failed())
    answer = (_, response) => {
      response.writeHead(200, { 'content-length': 100 }).flushHeaders()
      response.write('{"sessions"', () => response.destroy())
    }
    await expect(client.sessions.list()).rejects.toEqual(failed())
  })

  test('that does not respond fails after the timeout, or on an abort', async () => {
    requests = []
    answer = () => undefined
    const hasty = connectTo({ timeoutMs: 50 })
    await expect(hasty.sessions.list()).rejects.toMatchObject({
      reason: 'DEADLINE_EXCEEDED',
      status: 4,
      details: { timeoutMs: '50' },
    })
    // A timer of this length would end at once.
    const abort = new AbortController()
    const ended = connectTo({ signal: abort.signal, timeoutMs: Infinity })
    const waiting = ended.sessions.list()
    setTimeout(() => abort.abort(new Error('enough')), 50)
    await expect(waiting).rejects.toThrow('enough')
    await expect(ended.sessions.list()).rejects.toThrow('enough')
    await expect(ended.sources.watchJob({ sourceId: 'a', jobId: 'b' }).next()).rejects.toThrow('enough')
  })

  test('that is unreachable is reported', async () => {
    const other = createServer()
    other.listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    other.close()
    await once(other, 'close')
    const nobody = connect({ baseUrl: `http://127.0.0.1:${port}`, token: 't' })
    await expect(nobody.sessions.create()).rejects.toEqual(failed({ details: { errno: 'ECONNREFUSED' } }))
  })
})

test('a content that ends before its length is a failure', async () => {
  const { id } = await remote.client.sessions.create({ files: { '/a': 'content' } })
  let cut = 0
  const client = remote.connect({
    fetch: async (...request: Parameters<typeof fetch>) => {
      const response = await fetch(...request)
      if (!response.headers.has('forkspace-size-bytes')) return response
      const bytes = new Uint8Array(await response.arrayBuffer())
      return new Response(bytes.subarray(0, bytes.length - cut), { headers: response.headers })
    },
  })
  const { files } = await client.sessions.open(id)
  const read = async (): Promise<string> => {
    const pieces: Uint8Array[] = []
    for await (const piece of await files.readStream({ path: '/a' })) pieces.push(piece)
    return Buffer.concat(pieces).toString()
  }
  expect(await read()).toBe('content')
  cut = 1
  await expect(read()).rejects.toMatchObject({ reason: 'REMOTE_FAILED' })
  await client.close()
})

describe('a stream that is being sent is closed', () => {
  let returned = 0
  const content: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        await pause(5)
        return { done: false, value: new Uint8Array(100) }
      },
      return: () => {
        returned++
        return Promise.resolve({ done: true, value: undefined })
      },
    }),
  }

  test('when its request is aborted', async () => {
    returned = 0
    const abort = new AbortController()
    const client = remote.connect({ signal: abort.signal })
    const { files } = await client.sessions.create()
    const writing = files.write({ path: '/endless', content })
    await pause(50)
    abort.abort(new Error('enough'))
    await expect(writing).rejects.toThrow('enough')
    await vi.waitFor(() => expect(returned).toBe(1))
  })

  test('when its server disconnects', async () => {
    returned = 0
    const { id } = await remote.client.sessions.create()
    const server = createServer((request) => request.once('data', () => request.socket.destroy()))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = remote.connect({
      fetch: (url, init) =>
        init?.method === 'GET' ? fetch(url, init) : fetch(`http://127.0.0.1:${port}/`, init),
    })
    const { files } = await client.sessions.open(id)
    await expect(files.write({ path: '/endless', content })).rejects.toMatchObject({
      reason: 'REMOTE_FAILED',
    })
    await vi.waitFor(() => expect(returned).toBe(1))
    server.close()
  })
})

test('a stream may outlast the response timeout', async () => {
  const client = remote.connect({ timeoutMs: 1000 })
  const { bus } = await client.sessions.create()
  const messages = bus.subscribe({ topicPatterns: ['*'] })
  await messages.opened
  await pause(1200)
  await bus.publish({ topic: 't', payload: 'late' })
  expect(await messages.next()).toMatchObject({ value: { topic: 't' } })
  await messages.return()
  await client.close()
})

test('messages that arrived together are not delivered after an abort', async () => {
  const payloads = ['1', '2', '3']
  /** Delivers the messages of a subscription in one piece. */
  const together: typeof fetch = async (...request) => {
    const response = await fetch(...request)
    if (!response.headers.has('forkspace-starts-after')) return response
    let pieces: Uint8Array[] = []
    const gathered = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        pieces.push(piece)
        const lines = Buffer.concat(pieces).toString().split('\n').length - 1
        if (lines < payloads.length) return
        controller.enqueue(Buffer.concat(pieces))
        pieces = []
      },
    })
    return new Response(response.body!.pipeThrough(gathered), response)
  }
  const { id } = await remote.client.sessions.create()
  const client = remote.connect({ fetch: together })
  const session = await client.sessions.open(id)
  const abort = new AbortController()
  const messages = session.bus.subscribe({ signal: abort.signal })
  await messages.opened
  for (const payload of payloads) await session.bus.publish({ topic: 't', payload })
  expect(new TextDecoder().decode((await messages.next()).value?.payload)).toBe('1')
  abort.abort(new Error('enough'))
  await expect(messages.next()).rejects.toThrow('enough')
  await client.close()
})

test('a wait for a lock ends with its signal, and leaves no lock', async () => {
  const session = await remote.client.sessions.create({ files: { '/a': '' } })
  const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
  await session.posixLocks.set({ path: '/a', kind, owner: { ownerId: 'one' } })
  const abort = new AbortController()
  const hasty = await remote.connect({ timeoutMs: 5000 }).sessions.open(session.id)
  const waiting = hasty.posixLocks.setBlocking(
    { path: '/a', kind, owner: { ownerId: 'two' } },
    { signal: abort.signal },
  )
  setTimeout(() => abort.abort(new Error('enough')), 100)
  await expect(waiting).rejects.toThrow('enough')
  await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'one' } })
  await session.posixLocks.setBlocking({ path: '/a', kind, owner: { ownerId: 'three' } })
})

test.each([false, true])('a lock granted to an aborted wait is released, flock: %s', async (isFlock) => {
  const session = await remote.client.sessions.create({ files: { '/a': '' } })
  const take = ({ posixLocks }: RemoteSession, ownerId: string, signal?: AbortSignal): Promise<void> => {
    const request = { path: '/a', owner: { ownerId } }
    const options = signal === undefined ? {} : { signal }
    return isFlock
      ? posixLocks.flock({ ...request, blocking: true }, options)
      : posixLocks.setBlocking({ ...request, kind: 'POSIX_LOCK_KIND_EXCLUSIVE' }, options)
  }
  await take(session, 'one')
  const abort = new AbortController()
  // The server notices the abort too late.
  const late: typeof fetch = async (url, init) => {
    if (!/Blocking$|:flock$/.test(url as string)) return fetch(url, init)
    const answer = fetch(url, { ...init, signal: null })
    abort.abort(new Error('enough'))
    await session.posixLocks.funlock({ path: '/a', owner: { ownerId: 'one' }, isFlock })
    await answer
    throw init!.signal!.reason as Error
  }
  const hasty = await remote.connect({ fetch: late }).sessions.open(session.id)
  await expect(take(hasty, 'two', abort.signal)).rejects.toThrow('enough')
  const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
  const asked = { path: '/a', kind, owner: { ownerId: 'three' }, isFlock } as const
  expect(await session.posixLocks.get(asked)).toEqual({ hasConflict: false })
})

test('closing waits for pending calls', async () => {
  const engine = remote.connect()
  const making = engine.sessions.create({ initialTags: { last: 'yes' } })
  await engine.close()
  expect((await remote.client.sessions.list({ filter: 'last=yes' })).sessions).toHaveLength(1)
  await making
})

test("the properties of a handle do not expose the client's transport, which has the token", async () => {
  const pending: [at: string, value: unknown][] = [['session', await remote.client.sessions.create()]]
  const seen = new Set<unknown>()
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [at, value] = next
    // It has the token, and can send any request.
    expect(value, at).not.toBeInstanceOf(Transport)
    if (typeof value !== 'object' || value === null || seen.has(value)) continue
    seen.add(value)
    for (let owner: object = value; owner !== Object.prototype && owner !== null;) {
      for (const name of Reflect.ownKeys(owner))
        pending.push([`${at}.${String(name)}`, Reflect.get(owner, name, value)])
      owner = Reflect.getPrototypeOf(owner)!
    }
  }
  expect(seen.size).toBeGreaterThan(10)
})
