/** Paths and methods, through a server and through fetch. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { operations, type Operation } from '../../src/engine/contract.js'
import { createHttpHandler } from '../../src/adapters/http/index.js'
import { openServer, refusalIn, type TestServer } from '../support/http-server.js'
import { stepOf } from '../support/seed.js'

let server: TestServer
let id: string

beforeAll(async () => {
  server = await openServer()
  id = (await server.session({ '/a': 'one' })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

const routes = Object.entries<Operation>(operations).flatMap(([name, operation]) =>
  [operation.path, ...(operation.aliases ?? [])].map((path) => ({ name, method: operation.method, path })),
)

const filledPath = (path: string): string => path.replaceAll(/\{\w+\}/g, '0'.repeat(36))

/** Two ways to call the same handler. */
const entryPoints = [
  ['a server', (...request: Parameters<TestServer['call']>) => server.call(...request)],
  ['fetch', (...request: Parameters<TestServer['fetch']>) => server.fetch(...request)],
] as const

describe.each(entryPoints)('through %s:', (_entryPoint, call) => {
  test.each(routes)('$method $path calls $name', async ({ method, path }) => {
    const answer = await call(
      method,
      filledPath(path),
      method === 'GET' || method === 'DELETE' ? undefined : {},
    )
    // Ids are unknown and fields are missing: only the routing matters.
    expect(JSON.stringify(answer.body)).not.toMatch(/ROUTE_NOT_FOUND|METHOD_NOT_ALLOWED/)
    expect([200, 400, 404]).toContain(answer.status)
  })

  test('rejects other methods of a path and lists its methods', async () => {
    const allowed = new Map<string, Set<string>>()
    for (const { method, path } of routes) allowed.set(path, (allowed.get(path) ?? new Set()).add(method))
    // As a cache key it also matches another route.
    const more = (path: string): string[] => (/\/cache\/[a-z-]+$/.test(path) ? ['GET', 'PUT', 'DELETE'] : [])
    for (const [path, own] of [...allowed].filter((_, index) => index % stepOf(4) === 0)) {
      const all = new Set([...own, ...more(path)])
      for (const method of methods.filter((one) => !all.has(one))) {
        const answer = await call(method, filledPath(path), method === 'GET' ? undefined : {})
        expect([method, path, refusalIn(answer)]).toEqual([
          method,
          path,
          { status: 405, code: 12, reason: 'METHOD_NOT_ALLOWED' },
        ])
        const allow = answer.headers.get('allow')!.split(', ')
        expect(new Set(allow)).toEqual(new Set([...all, ...(all.has('GET') ? ['HEAD'] : []), 'OPTIONS']))
      }
    }
  })

  test.each([
    '/',
    '/v1',
    '/v1/',
    '/v1/sessions/',
    '/v2/sessions',
    '/v1/Sessions',
    '//v1/sessions',
    '/v1//sessions',
    '/v1/sessions/x/',
    '/v1/sessions//manifest',
    '/v1/sessions/:rename',
    '/v1/sessions/x:Rename',
    '/v1/sessions/x:rename/y',
    '/v1/sessions/x/cache/',
    '/v1/sessions/x/cache/a/b',
    '/v1/sessions/x%2Fmanifest',
    '/v1/sessions/x%3Arename/manifes',
    '/v1/sessions/__proto__/constructor',
    '/__proto__',
    '/constructor',
  ])('%s is not a route', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await call(method, path, method === 'POST' ? {} : undefined)
      expect([404, 405]).toContain(answer.status)
      expect(JSON.stringify(answer.body)).toMatch(
        /"(?:ROUTE_NOT_FOUND|SESSION_NOT_FOUND|METHOD_NOT_ALLOWED)"/,
      )
    }
  })

  test('a verb follows the colon after an id, which may be percent-encoded', async () => {
    for (const sent of [':listXattrs', '%3AlistXattrs'])
      expect((await call('POST', `/v1/sessions/${id}${sent}`, { path: '/a' })).body).toEqual({ names: [] })
  })

  test.each([
    ['POST', ':x:listXattrs'],
    ['POST', ':x'],
    ['GET', ':x'],
    ['GET', '%3AlistXattrs/manifest'],
  ])('an id has no colon: %s %s is not a route', async (method, sent) => {
    const answer = await call(method, `/v1/sessions/${id}${sent}`, method === 'GET' ? undefined : {})
    expect(refusalIn(answer)).toMatchObject({ status: 404, reason: 'ROUTE_NOT_FOUND' })
  })

  test.each([
    ['a', 'a'],
    ['a%2Fb', 'a/b'],
    ['a%252Fb', 'a%2Fb'],
    ['%C3%A4%F0%9F%98%80', 'ä😀'],
    ['a+b%20c', 'a+b c'],
    ['a:b', 'a:b'],
    ['a%3Fb%23c', 'a?b#c'],
    ['%00', '\0'],
    ['__proto__', '__proto__'],
    ['..%2F..', '../..'],
    ['a%2F..%2Fb', 'a/../b'],
    ['batch-get', 'batch-get'],
  ])('a cache key is decoded once: %s is %s', async (sent, key) => {
    const path = `/v1/sessions/${id}/cache/${sent}`
    const value = Buffer.from(key).toString('base64')
    expect((await call('PUT', path, { value })).body).toEqual({})
    expect((await call('GET', path)).body).toEqual({ value, found: true })
    expect((await call('GET', `${path}/exists`)).body).toEqual({ exists: true })
    expect((await call('GET', `${path}/metadata`)).body).toMatchObject({ key })
    const stored = await call('POST', `/v1/sessions/${id}/cache/batch-get`, { keys: [key] })
    expect(stored.body).toEqual({ entries: [{ key, value, found: true }] })
    expect((await call('DELETE', path)).body).toEqual({})
    expect((await call('GET', path)).body).toEqual({ value: '', found: false })
  })

  test.each(['%', '%2', '%zz', '%80', '%C3', '%ED%A0%80', 'a%'])('%s is malformed', async (sent) => {
    expect(refusalIn(await call('GET', `/v1/sessions/${id}/cache/${sent}`))).toEqual({
      status: 400,
      code: 3,
      reason: 'INVALID_ARGUMENT',
      field: 'url',
    })
    expect(refusalIn(await call('GET', `/v1/sessions/${id}/manifest?pathPrefix=${sent}`))).toMatchObject({
      status: 400,
      field: 'pathPrefix',
    })
  })

  test('HEAD returns the same as GET without the body', async () => {
    const get = await call('GET', `/v1/sessions/${id}/cache/none`)
    const head = await call('HEAD', `/v1/sessions/${id}/cache/none`)
    expect([head.status, head.text]).toEqual([200, ''])
    expect(head.headers.get('content-length')).toBe(String(get.text.length))
    for (const name of ['content-type', 'cache-control', 'x-content-type-options'])
      expect(head.headers.get(name)).toBe(get.headers.get(name))
    expect((await call('HEAD', '/v1/sessions/x')).status).toBe(404)
    expect((await call('HEAD', `/v1/sessions/${id}/bus`)).status).toBe(405)
    expect((await call('HEAD', `/v1/sessions/${id}/dirs`)).status).toBe(405)
  })

  test('OPTIONS lists methods and grants nothing', async () => {
    const answer = await call('OPTIONS', `/v1/sessions/${id}/files`)
    expect([answer.status, answer.text, answer.headers.get('allow')]).toEqual([204, '', 'DELETE, OPTIONS'])
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    expect((await call('OPTIONS', '/nothing')).status).toBe(404)
  })

  test('serves the contract without a token', async () => {
    for (const path of ['/v1/openapi.json', '/openapi.json']) {
      const answer = await call('GET', path, undefined, { authorization: '' })
      expect(answer.status).toBe(200)
      expect(answer.body).toEqual(JSON.parse(JSON.stringify(server.handler.openapi)))
      expect((await call('POST', path, {}, { authorization: '' })).status).toBe(405)
    }
  })

  test('every response has the same headers', async () => {
    for (const path of [`/v1/sessions/${id}`, '/nothing', '/openapi.json', '/v1/sessions/x']) {
      const { headers } = await call('GET', path)
      expect(headers.get('content-type')).toBe('application/json')
      expect(headers.get('cache-control')).toBe('no-store')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
    }
  })
})

describe('raw requests', () => {
  test.each(['..', '.', '%2e%2e', '%2E', '.%2e'])('a dot segment is a parameter: %s', async (sent) => {
    const answer = await server.raw(
      server.head('GET', `/v1/sessions/${id}/cache/${sent}`, 'connection: close'),
    )
    expect(answer).toMatch(/^HTTP\/1.1 400 /)
    expect(answer).toContain('"field":"key"')
    for (const path of [`/v1/sessions/${id}/cache/${sent}/`, `/v1/sessions/x/${sent}/${id}/manifest`])
      expect(await server.raw(server.head('GET', path, 'connection: close'))).toMatch(/^HTTP\/1.1 404 /)
    const deleted = await server.raw(
      server.head('DELETE', `/v1/sessions/${id}/cache/${sent}`, 'connection: close'),
    )
    expect(deleted).toMatch(/^HTTP\/1.1 400 /)
    expect((await server.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
  })

  test('accepts an absolute URL with an allowed host', async () => {
    const get = (target: string): Promise<string> =>
      server.raw(server.head('GET', target, 'connection: close'))
    expect(await get(`http://localhost/v1/sessions/${id}`)).toMatch(/^HTTP\/1.1 200 /)
    expect(await get(`http://elsewhere.example/v1/sessions/${id}`)).toMatch(/^HTTP\/1.1 403 /)
  })
})

test('a prefix applies to every route', async () => {
  await using other = await openServer({ handler: { prefix: '/api/x' } })
  const session = await other.session()
  expect((await other.call('GET', `/api/x/v1/sessions/${session.id}`)).status).toBe(200)
  expect((await other.call('GET', '/api/x/openapi.json')).status).toBe(200)
  for (const path of [`/v1/sessions/${session.id}`, '/openapi.json', '/api/xv1/sessions', '/api/x'])
    expect((await other.call('GET', path)).status).toBe(404)
})

test('a path outside the prefix is not a route', async () => {
  const handler = createHttpHandler(server.engine, {
    authenticate: () => ({ tenant: 'acme', principal: 'ann' }),
    prefix: '/api',
  })
  const status = async (path: string): Promise<number> =>
    (await handler.fetch(new Request(`http://localhost${path}`, { headers: { authorization: 'Bearer x' } })))
      .status
  expect(await status('/api/v1/sessions')).toBe(200)
  for (const path of ['/', '/v1/sessions', '/api', '/apiv1/sessions', '/%zz'])
    expect(await status(path)).toBe(404)
})
