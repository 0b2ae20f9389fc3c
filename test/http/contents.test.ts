/** Contents sent and received as bytes instead of base64 in JSON. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { EngineError, ImportJob, Session } from '../../src/index.js'
import { staticTokens } from '../../src/adapters/http/index.js'
import { caller, openServer, refusalIn, token, type TestServer } from '../support/http-server.js'
import { tarOf } from '../support/raw-archives.js'
import { isLong } from '../support/seed.js'

const MiB = 2 ** 20
const bytesHeads = ['content-type: application/octet-stream']
const bytesType = { 'content-type': 'application/octet-stream' }

let there: TestServer
let session: Session

beforeAll(async () => {
  there = await openServer()
  session = await there.session({ '/file': '0123456789' })
})

afterAll(() => there[Symbol.asyncDispose]())

function place(query: Readonly<Record<string, string>>, id = session.id): string {
  return `/v1/sessions/${id}/content?${new URLSearchParams(query).toString()}`
}

function streamOf(bytes: Uint8Array, size = 100_000): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.byteLength) controller.close()
      else controller.enqueue(bytes.slice(at, (at += size)))
    },
  })
}

async function get(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(there.url + path, { ...init, headers: { authorization: `Bearer ${token}` } })
}

describe.each(['through a server', 'through fetch'])('%s:', (through) => {
  const call: TestServer['call'] = (...request) =>
    through === 'through a server' ? there.call(...request) : there.fetch(...request)

  test('writes and reads a content larger than any JSON body', async () => {
    const bytes = randomBytes(17 * MiB + 3)
    const path = `/large ${through}`
    const written = await call('PUT', place({ path, mode: '384' }), streamOf(bytes), bytesType)
    expect([written.status, written.body]).toEqual([200, {}])
    expect(await session.files.stat({ path })).toMatchObject({ sizeBytes: bytes.length, mode: 0o600 })
    const response = await get(place({ path }))
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': String(bytes.length),
      'forkspace-size-bytes': String(bytes.length),
      'x-content-type-options': 'nosniff',
    })
    expect(Buffer.compare(Buffer.from(await response.arrayBuffer()), bytes)).toBe(0)
  })

  test('writes an empty content', async () => {
    const path = `/empty ${through}`
    expect((await call('PUT', place({ path }))).status).toBe(200)
    expect(await session.files.stat({ path })).toMatchObject({ sizeBytes: 0 })
  })

  test.each([
    ['JSON', { 'content-type': 'application/json' }, 'content-type'],
    ['a type with parameters', { 'content-type': 'application/octet-stream; a=b' }, 'content-type'],
    ['compressed', { ...bytesType, 'content-encoding': 'gzip' }, 'content-encoding'],
  ])('rejects a body that is %s', async (_what, headers, field) => {
    const answer = await call('PUT', place({ path: '/refused' }), '{}', headers)
    expect(refusalIn(answer)).toMatchObject({ status: 415, reason: 'UNSUPPORTED_MEDIA_TYPE', field })
    await expect(session.files.stat({ path: '/refused' })).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
  })

  test.each([
    ['no path', {}, { status: 400, reason: 'INVALID_ARGUMENT', field: 'path' }],
    ['a bad mode', { path: '/a', mode: 'x' }, { status: 400, reason: 'INVALID_ARGUMENT', field: 'mode' }],
    ['a guard that does not match', { path: '/file', expectedHash: '' }, { reason: 'HASH_MISMATCH' }],
    ['an existing file', { path: '/file', exclusive: 'true' }, { reason: 'ALREADY_EXISTS' }],
    ['a missing parent', { path: '/no/a', createParents: 'false' }, { reason: 'PATH_NOT_FOUND' }],
  ])('rejects a write with %s', async (_what, query, refusal) => {
    const answer = await call('PUT', place(query), 'content', bytesType)
    expect(refusalIn(answer)).toMatchObject(refusal)
    expect(await session.fs.promises.readFile('/file', 'utf8')).toBe('0123456789')
  })

  test.each([
    [{ path: '/none' }, { status: 404, reason: 'PATH_NOT_FOUND' }],
    [{ path: '/' }, { reason: 'IS_A_DIRECTORY' }],
    [
      { path: '/file', offset: '-1' },
      { status: 400, field: 'offset' },
    ],
    [
      { path: '/file', length: 'x' },
      { status: 400, field: 'length' },
    ],
  ])('rejects a read of %o', async (query, refusal) => {
    expect(refusalIn(await call('GET', place(query)))).toMatchObject(refusal)
  })

  test('does not find a session of another tenant', async () => {
    const other = await there.engine.as({ tenant: 'other', principal: 'x' }).sessions.create()
    for (const method of ['GET', 'PUT']) {
      const body = method === 'PUT' ? 'x' : undefined
      const answer = await call(method, place({ path: '/a' }, other.id), body, body && bytesType)
      expect(refusalIn(answer)).toMatchObject({ status: 404, reason: 'SESSION_NOT_FOUND' })
    }
  })
})

test.each([
  [{ offset: '3' }, '3456789'],
  [{ offset: '3', length: '2' }, '34'],
  [{ offset: '10' }, ''],
])('reads a range: %o', async (part, text) => {
  const response = await get(place({ path: '/file', ...part }))
  expect(await response.text()).toBe(text)
  expect(response.headers.get('content-length')).toBe(String(text.length))
  expect(response.headers.get('forkspace-size-bytes')).toBe('10')
})

test('HEAD returns only the headers', async () => {
  const head = there.head('HEAD', place({ path: '/file', length: '4' }), 'connection: close')
  const answer = await there.raw(head)
  expect(answer).toMatch(/^HTTP\/1.1 200 /)
  expect(answer.match(/content-length: 4\r\n/gi)).toHaveLength(1)
  expect(answer).toMatch(/\r\n\r\n$/)
})

test('an upload that waits for 100 Continue is accepted', async () => {
  const socket = await there.open()
  socket.write(
    there.head(
      'PUT',
      place({ path: '/continued' }),
      'content-type: application/octet-stream',
      'content-length: 3',
      'expect: 100-continue',
      'connection: close',
    ),
  )
  let text = ''
  socket.on('data', (piece: Buffer) => {
    text += piece.toString()
    if (text === 'HTTP/1.1 100 Continue\r\n\r\n') socket.write('abc')
  })
  await once(socket, 'close')
  expect(text).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 /)
  expect(await session.fs.promises.readFile('/continued', 'utf8')).toBe('abc')
})

describe('a client that', () => {
  const limits = { stalledUploadMs: 300, stalledResponseMs: 300, concurrentRequests: 1 }
  const upload = (server: TestServer, id: string, path: string, length: number): string =>
    server.head(
      'PUT',
      place({ path }, id),
      'content-type: application/octet-stream',
      `content-length: ${length}`,
    )

  test.each([
    ['sends nothing', 0],
    ['sends too little', 10],
    ['stops in the middle', 5 * MiB],
  ])('%s of its upload is rejected and releases its slot', async (_what, sent) => {
    await using server = await openServer({ handler: { limits } })
    const { id, files } = await server.session()
    const socket = await server.open()
    socket.on('error', () => undefined)
    let answer = ''
    socket.on('data', (piece: Buffer) => (answer += piece.toString()))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(upload(server, id, '/slow', 10 * MiB))
    if (sent > 0) socket.write(Buffer.alloc(sent))
    await closed
    expect(answer).toMatch(/^HTTP\/1.1 408 [\s\S]*"reason":"REQUEST_TIMEOUT"/)
    expect((await server.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
    await expect(files.stat({ path: '/slow' })).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
  })

  test('sends slowly but steadily is not cut off', async () => {
    await using server = await openServer({
      handler: { limits: { stalledUploadMs: 400 } },
      server: { requestTimeoutMs: 100 },
    })
    const { id, files } = await server.session()
    const socket = await server.open()
    socket.write(upload(server, id, '/slow', 2 * MiB))
    for (let sent = 0; sent < 4; sent++) {
      await pause(200)
      socket.write(Buffer.alloc(MiB / 2))
    }
    const [answer] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /)
    expect(await files.stat({ path: '/slow' })).toMatchObject({ sizeBytes: 2 * MiB })
  })

  test('disconnects during its upload changes nothing and releases its slot', async () => {
    await using server = await openServer({ handler: { limits } })
    const { id, files } = await server.session({ '/file': 'before' })
    const socket = await server.open()
    socket.write(upload(server, id, '/file', 10 * MiB))
    socket.write(Buffer.alloc(2 * MiB))
    await pause(100)
    socket.destroy()
    await vi.waitFor(async () => expect((await server.call('GET', `/v1/sessions/${id}`)).status).toBe(200))
    expect(Buffer.from(await files.read({ path: '/file' })).toString()).toBe('before')
  })

  test('does not read its response is disconnected and releases its slot', async () => {
    await using server = await openServer({ handler: { limits } })
    const { id } = await server.session({ '/large': new Uint8Array(30 * MiB) as never })
    const socket = await server.open()
    socket.on('error', () => undefined)
    socket.write(server.head('GET', place({ path: '/large' }, id)))
    await once(socket, 'data')
    socket.pause()
    await vi.waitFor(async () => expect((await server.call('GET', `/v1/sessions/${id}`)).status).toBe(200), {
      timeout: 5000,
    })
    socket.destroy()
  })
})

test('an upload waits for response space up to the request time limit', async () => {
  const limits = { allResponseBytes: 10 * MiB, requestMs: 300 }
  await using server = await openServer({ handler: { limits } })
  const { id } = await server.session()
  const socket = await server.open()
  socket.write(
    server.head(
      'PUT',
      place({ path: '/a' }, id),
      'content-type: application/octet-stream',
      'content-length: 9',
    ),
  )
  await pause(50)
  const late = await server.call('PUT', place({ path: '/b' }, id), 'x', bytesType)
  expect(refusalIn(late)).toMatchObject({ status: 429, reason: 'QUOTA' })
  expect((await server.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
  socket.destroy()
  await vi.waitFor(async () =>
    expect((await server.call('PUT', place({ path: '/b' }, id), 'x', bytesType)).status).toBe(200),
  )
})

test('reads do not wait for uploads that never arrive', async () => {
  const callers = { [token]: caller, stranger: { tenant: 'other', principal: 'eve' } }
  await using server = await openServer({ handler: { authenticate: staticTokens(callers) } })
  const { id } = await server.session({ '/file': '0123456789' })
  const others = await server.engine.as(callers.stranger).sessions.create({ files: { '/file': 'theirs' } })
  const sockets = await Promise.all(Array.from({ length: 40 }, () => server.open()))
  for (const [at, socket] of sockets.entries())
    socket.write(server.head('PUT', place({ path: `/up${at}` }, id), ...bytesHeads, 'content-length: 9'))
  await pause(100)
  const path = '/file'
  const ask = (name: string, url: string, init: RequestInit = {}): Promise<Response> =>
    fetch(server.url + url, { ...init, headers: { ...bytesType, authorization: `Bearer ${name}` } })
  const reads = Promise.all([
    ask(token, place({ path }, id)),
    server.call('POST', `/v1/sessions/${id}:readFile`, { path }),
    ask('stranger', place({ path }, others.id)),
    ask('stranger', place({ path }, others.id), { method: 'PUT', body: 'x' }),
  ])
  const answers = await Promise.race([reads, pause(2000, 'late')])
  for (const socket of sockets) socket.destroy()
  await reads
  expect(answers).toMatchObject(Array.from({ length: 4 }, () => ({ status: 200 })))
})

test.runIf(isLong)('many large contents in both directions take little memory', async () => {
  const path = '/often'
  const size = 64 * MiB
  await session.files.patchSegments({ mutations: [{ path, segments: [], logicalSize: size }] })
  const before = process.memoryUsage().rss
  let most = 0
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 5)
  for (let round = 0; round < 3; round++) {
    const response = await get(place({ path }))
    let bytes = 0
    for await (const piece of response.body!) bytes += (piece as Uint8Array).byteLength
    expect(bytes).toBe(size)
  }
  clearInterval(timer)
  expect(most - before).toBeLessThan(160 * MiB)
})

describe('an import', () => {
  const job = async (id: unknown, jobId: unknown): Promise<object> =>
    (await there.call('GET', `/v1/sources/${String(id)}/jobs/${String(jobId)}`)).body as object

  async function source(kind: object): Promise<string> {
    const answer = await there.call('POST', '/v1/sources', { displayName: 'a', ...kind })
    return (answer.body as { sourceId: string }).sourceId
  }

  test('accepts an uploaded archive', async () => {
    const id = await source({ uploadedSnapshot: {} })
    await session.files.write({ path: '/to-pack/a.txt', content: 'packed' })
    const pieces: Uint8Array[] = []
    for await (const piece of session.exportTar({ path: '/to-pack' })) pieces.push(piece)
    const archive = Buffer.concat(pieces)
    const answer = await there.call(
      'POST',
      `/v1/sources/${id}/uploadedSnapshot`,
      streamOf(archive),
      bytesType,
    )
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ state: 'UNDERLAY_IMPORT_JOB_STATE_QUEUED', bytesTransferred: '0' })
    const { jobId } = answer.body as { jobId: string }
    await vi.waitFor(async () =>
      expect(await job(id, jobId)).toMatchObject({ state: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED' }),
    )
    const made = await there.call('POST', '/v1/sessions', { sourceRef: { sourceId: id } })
    const { id: sessionId } = made.body as { id: string }
    const read = await get(place({ path: '/a.txt' }, sessionId))
    expect(await read.text()).toBe('packed')
  })

  test('that fails before it has read the upload is answered immediately', async () => {
    const id = await source({ uploadedSnapshot: {} })
    const body = streamOf(Buffer.alloc(4 * MiB, 'no archive'))
    const answer = await there.call('POST', `/v1/sources/${id}/uploadedSnapshot`, body, bytesType)
    expect(answer.status).toBe(200)
    const { jobId } = answer.body as { jobId: string }
    await vi.waitFor(async () => expect(await job(id, jobId)).toMatchObject({ errorCode: 'INVALID_ARCHIVE' }))
  })

  test('whose client disconnects before its turn fails and releases its slot', async () => {
    const limits = { concurrentRequests: 2 }
    await using server = await openServer({ handler: { limits } })
    const made = await server.call('POST', '/v1/sources', { displayName: 'a', uploadedSnapshot: {} })
    const { sourceId } = made.body as { sourceId: string }
    const head = server.head(
      'POST',
      `/v1/sources/${sourceId}/uploadedSnapshot`,
      'content-type: application/octet-stream',
      'content-length: 1000',
    )
    const [first, second] = [await server.open(), await server.open()]
    for (const socket of [first, second]) socket.write(head)
    const { sources } = server.engine.as(caller)
    const busy = async (): Promise<boolean> =>
      (await server.call('GET', `/v1/sources/${sourceId}`)).status === 429
    await vi.waitFor(async () => expect(await busy()).toBe(true))
    second.destroy()
    await vi.waitFor(async () => expect(await busy()).toBe(false))
    first.destroy()
    await vi.waitFor(async () => expect((await sources.get(sourceId)).status).toMatch(/FAILED$/))
  })

  test.each([
    ['uploadedSnapshot', { uploadedSnapshot: {} }],
    ['uploadedGitBundle', { uploadedGitBundle: {} }],
  ])('whose client leaves or stops during the upload has the code of the cause: %s', async (route, kind) => {
    await using server = await openServer({ handler: { limits: { stalledUploadMs: 300 } } })
    const made = await server.call('POST', '/v1/sources', { displayName: 'a', ...kind })
    const { sourceId } = made.body as { sourceId: string }
    const { sources } = server.engine.as(caller)
    const head = server.head(
      'POST',
      `/v1/sources/${sourceId}/${route}`,
      'content-type: application/octet-stream',
      'content-length: 1000000',
    )
    const header = `# v2 git bundle\n${'a'.repeat(40)} refs/heads/main\n\nPACK`
    const start =
      route === 'uploadedGitBundle'
        ? Buffer.from(header.padEnd(500_000, '\0'))
        : tarOf({ name: 'a', content: Buffer.alloc(900_000) }).subarray(0, 500_000)
    const ends: unknown[] = []
    for (const leaves of [true, false]) {
      const socket = await server.open()
      socket.on('error', () => undefined)
      socket.write(head)
      socket.write(start)
      const started = async (): Promise<ImportJob> => {
        const [job] = (await sources.listJobs({ sourceId })).jobs
        expect(job).toMatchObject({ state: 'UNDERLAY_IMPORT_JOB_STATE_RUNNING' })
        return job as ImportJob
      }
      const job = await vi.waitFor(started)
      if (leaves) socket.destroy()
      const failure: unknown = await sources.waitForJob(job).catch((error: unknown) => error)
      ends.push((failure as EngineError).details['errorCode'], (failure as EngineError).message)
      const { bytesTransferred } = await sources.getJob(job)
      // The last bytes of a client that leaves may not arrive.
      ends.push(leaves || bytesTransferred)
      socket.destroy()
    }
    expect(ends).toEqual([
      'INTERRUPTED',
      'the client closed the connection',
      true,
      'DEADLINE_EXCEEDED',
      'the client took over 300 ms to send 524288 bytes',
      start.length,
    ])
  })

  test.each([
    ['uploadedGitBundle', { uploadedSnapshot: {} }],
    ['uploadedSnapshot', { uploadedGitBundle: {} }],
  ])('of another kind than its source is rejected: %s', async (route, kind) => {
    const id = await source(kind)
    const answer = await there.call('POST', `/v1/sources/${id}/${route}`, 'x', bytesType)
    expect(refusalIn(answer)).toMatchObject({ status: 400, reason: 'INVALID_ARGUMENT' })
  })

  test('into an unknown source is rejected', async () => {
    const answer = await there.call('POST', '/v1/sources/none/uploadedSnapshot', 'x', bytesType)
    expect(refusalIn(answer)).toMatchObject({ status: 404, reason: 'SOURCE_NOT_FOUND' })
  })
})
