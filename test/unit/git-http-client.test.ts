import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { HttpClient, type HttpRequest } from '../../src/adapters/git/remote/http-client.js'

/** Tests of other files use the same limits. */
const { decodedFreeBytes, decodedBytesPerByte } = gitLimits
const zeros = 4 * 2 ** 20

let server: Server
let origin: string

beforeAll(async () => {
  // Serves ten bytes after the number of redirects in the path, or zeros that are compressed.
  server = createServer((request, response) => {
    request.resume()
    if (request.url === '/zeros') {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(zeros)))
      return
    }
    const left = Number(request.url!.slice(1))
    if (left > 0) response.writeHead(307, { location: `/${left - 1}` }).end()
    else response.end('ten bytes.')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(() => {
  server.close()
})

/** The text of a response, and the bytes that count as transferred. */
async function ask(request: Omit<HttpRequest, 'signal' | 'headers'>): Promise<[string, number]> {
  let count = 0
  const http = new HttpClient({
    allowPrivateAddresses: true,
    idleTimeoutMs: 60_000,
    transfer: {
      received: (bytes) => {
        count += bytes
      },
      waiting: async (work) => work,
    },
  })
  try {
    const { body } = await http.request({ ...request, headers: {}, signal: new AbortController().signal })
    const pieces: Uint8Array[] = []
    for await (const piece of body!) pieces.push(piece)
    return [Buffer.concat(pieces).toString(), count]
  } finally {
    http.close()
  }
}

test('follows redirects up to the limit', async () => {
  expect((await ask({ url: `${origin}/${gitLimits.redirects}` }))[0]).toBe('ten bytes.')
  await expect(ask({ url: `${origin}/${gitLimits.redirects + 1}` })).rejects.toMatchObject({
    reason: 'GIT_REMOTE_ERROR',
    message: expect.stringContaining('redirects') as string,
  })
})

test('says that credentials are not sent to another host that asks for them after a redirect', async () => {
  const seen: unknown[] = []
  const other = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
  })
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  const target = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  const first = createServer((_, response) => response.writeHead(302, { location: `${target}/a` }).end())
  first.listen(0, '127.0.0.1')
  await once(first, 'listening')
  const http = new HttpClient({ allowPrivateAddresses: true, idleTimeoutMs: 60_000 })
  const url = `http://127.0.0.1:${(first.address() as AddressInfo).port}/a`
  const { signal } = new AbortController()
  try {
    await expect(http.request({ url, headers: { Authorization: 'Basic x' }, signal })).rejects.toMatchObject({
      reason: 'GIT_AUTH_FAILED',
      message: expect.stringContaining(`redirects to ${target}, which asks for credentials`) as string,
    })
    // Without credentials, the caller gets the 401, and asks for some.
    expect(await http.request({ url, headers: {}, signal })).toMatchObject({ statusCode: 401 })
    expect(seen).toEqual([undefined, undefined])
  } finally {
    http.close()
    first.close()
    other.close()
  }
})

test('counts the whole response to a GET as transferred, but not that to a POST', async () => {
  const url = `${origin}/0`
  expect(await ask({ url })).toEqual(['ten bytes.', 10])
  expect(await ask({ url, method: 'POST', body: [Buffer.from('asked')] })).toEqual(['ten bytes.', 0])
})

test('gives a reused connection the whole time, although the remote closes unused ones sooner', async () => {
  let connections = 0
  const slow = createServer((request, response) => {
    response.setHeader('keep-alive', 'timeout=2')
    if (request.url === '/now') response.end()
    // Node closes an unused connection a second before the remote would.
    else setTimeout(() => response.end('late'), 1500)
  }).on('connection', () => connections++)
  slow.listen(0, '127.0.0.1')
  await once(slow, 'listening')
  const { port } = slow.address() as AddressInfo
  const http = new HttpClient({ allowPrivateAddresses: true, idleTimeoutMs: 60_000 })
  try {
    const texts: string[] = []
    for (const path of ['/now', '/later']) {
      const url = `http://127.0.0.1:${port}${path}`
      const { body } = await http.request({ url, headers: {}, signal: new AbortController().signal })
      texts.push(await text(body as AsyncIterable<Uint8Array>))
    }
    expect({ texts, connections }).toEqual({ texts: ['', 'late'], connections: 1 })
  } finally {
    http.close()
    slow.close()
  }
})

test('rejects a compressed response that expands too much', async () => {
  try {
    // Lower bounds save time.
    Object.assign(gitLimits, { decodedFreeBytes: 2 ** 20, decodedBytesPerByte: 4 })
    await expect(ask({ url: `${origin}/zeros`, method: 'POST' })).rejects.toMatchObject({
      reason: 'GIT_TOO_LARGE',
      details: { limit: '4' },
    })
    Object.assign(gitLimits, { decodedFreeBytes: zeros })
    expect((await ask({ url: `${origin}/zeros`, method: 'POST' }))[0]).toHaveLength(zeros)
  } finally {
    Object.assign(gitLimits, { decodedFreeBytes, decodedBytesPerByte })
  }
})
