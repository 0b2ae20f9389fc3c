/** Access control: hosts, origins and tokens, and the errors that callers see for internal failures. */
import { describe, expect, test } from 'vitest'
import { createHttpHandler, staticTokens, type HttpHandlerOptions } from '../../src/adapters/http/index.js'
import { memoryStorage, openEngine, type LogEntry, type Storage } from '../../src/index.js'
import { caller, openServer, refusalIn, token } from '../support/http-server.js'
import { unhandledDuring } from '../support/unhandled.js'

describe('a host', () => {
  const get = (host: string | undefined): string =>
    [
      `GET /v1/sessions HTTP/1.${host === undefined ? 0 : 1}`,
      ...(host === undefined ? [] : [`host: ${host}`]),
      `authorization: Bearer ${token}`,
      'connection: close',
      '',
      '',
    ].join('\r\n')

  test.each(['localhost', 'LOCALHOST:80', '127.0.0.1', '127.1.2.3:65535', '[::1]', '[::1]:8080'])(
    'of this machine is allowed: %s',
    async (host) => {
      await using server = await openServer()
      expect(await server.raw(get(host))).toMatch(/^HTTP\/1.1 200 /)
    },
  )

  test.each([
    undefined,
    '',
    'example.com',
    'localhost.example.com',
    '127.0.0.1.example.com',
    'localhost@example.com',
    'localhost:80:80',
    'localhost:x',
    'localhost, example.com',
    '[::2]',
    '0.0.0.0',
    '1127.0.0.1',
    'localhost.',
    '[::1',
  ])('of another machine is rejected: %s', async (host) => {
    await using server = await openServer()
    const answer = await server.raw(get(host))
    expect(answer).toMatch(/^HTTP\/1.1 403 /)
    expect(answer).toContain('"reason":"HOST_NOT_ALLOWED"')
  })

  test('in allowedHosts is allowed, and no other', async () => {
    await using server = await openServer({
      handler: { allowedHosts: ['Example.com', 'other.example:8080', '[2001:db8::1]'] },
    })
    const status = async (host: string): Promise<string> => (await server.raw(get(host))).slice(9, 12)
    for (const host of ['example.com', 'EXAMPLE.com:1', 'other.example:8080', '[2001:DB8::1]:80'])
      expect([host, await status(host)]).toEqual([host, '200'])
    for (const host of ['localhost', 'other.example', 'other.example:80', 'x.example.com'])
      expect([host, await status(host)]).toEqual([host, '403'])
  })

  test('is checked first, even for the contract', async () => {
    await using server = await openServer()
    const answer = await server.raw(
      'GET /openapi.json HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n',
    )
    expect(answer).toMatch(/^HTTP\/1.1 403 /)
  })

  test('of a Request without the header is taken from its URL', async () => {
    await using server = await openServer()
    const { handler } = server
    const headers = { authorization: `Bearer ${token}` }
    expect((await handler.fetch(new Request('http://localhost/v1/sessions', { headers }))).status).toBe(200)
    expect((await handler.fetch(new Request('http://a.example/v1/sessions', { headers }))).status).toBe(403)
  })
})

test.each([
  ['host', 'host: localhost'],
  ['host', 'Host: example.com'],
  ['authorization', 'authorization: Bearer other'],
  ['authorization', 'AUTHORIZATION: x'],
  ['content-type', 'content-type: text/plain'],
])('rejects a second header: %s', async (field, second) => {
  await using there = await openServer()
  const json = ['content-type: application/json', 'content-length: 2', 'connection: close']
  for (const headers of [
    [...json, second],
    [second, ...json],
  ]) {
    const answer = await there.raw(`${there.head('POST', '/v1/sessions', ...headers)}{}`)
    expect(answer).toMatch(/^HTTP\/1.1 400 [\s\S]*"reason":"INVALID_ARGUMENT"/)
    expect(answer).toContain(`"field":"${field}"`)
  }
  expect((await there.engine.as(caller).sessions.list()).sessions).toEqual([])
})

test('answers a probe without a token and for any host', async () => {
  await using there = await openServer()
  for (const head of ['GET /healthz HTTP/1.1\r\nhost: 10.1.2.3', 'GET /healthz?x=1 HTTP/1.0']) {
    const answer = await there.raw(`${head}\r\nconnection: close\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\r\ncontent-type: text\/plain\r\n[\s\S]*\r\n\r\nok\n$/)
  }
  const head = await there.raw('HEAD /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
  expect(head).toMatch(/content-length: 3\r\n[\s\S]*\r\n\r\n$/)
  expect((await there.call('POST', '/healthz', {})).status).toBe(405)
  expect((await there.call('GET', '/v1/healthz')).status).toBe(404)
  const handler = createHttpHandler(there.engine, { authenticate: () => caller, prefix: '/api' })
  const status = async (path: string): Promise<number> =>
    (await handler.fetch(new Request(`http://localhost${path}`))).status
  expect([await status('/api/healthz'), await status('/healthz')]).toEqual([200, 401])
})

describe('an origin', () => {
  test("of a web page is rejected, even the server's own", async () => {
    await using server = await openServer()
    for (const origin of ['http://evil.example', 'null', server.url, '']) {
      const answer = await server.call('GET', '/v1/sessions', undefined, { origin })
      expect(refusalIn(answer)).toEqual({ status: 403, code: 7, reason: 'ORIGIN_NOT_ALLOWED' })
      expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })

  test('in allowedOrigins passes, gets CORS headers, and may send a preflight request', async () => {
    const origin = 'https://app.example'
    await using server = await openServer({ handler: { allowedOrigins: [origin] } })
    const answer = await server.call('GET', '/v1/sessions', undefined, { origin })
    expect([
      answer.status,
      answer.headers.get('access-control-allow-origin'),
      answer.headers.get('vary'),
    ]).toEqual([200, origin, 'origin'])
    const refused = await server.call('GET', '/v1/sessions', undefined, { origin, authorization: 'x' })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, origin])
    const preflight = await server.raw(
      [
        'OPTIONS /v1/sessions HTTP/1.1',
        'host: localhost',
        `origin: ${origin}`,
        'access-control-request-method: POST',
        'access-control-request-headers: authorization,content-type',
        'connection: close',
        '',
        '',
      ].join('\r\n'),
    )
    expect(preflight).toMatch(/^HTTP\/1.1 204 /)
    expect(preflight).toMatch(/access-control-allow-methods: .*POST/i)
    expect(preflight).toMatch(
      /access-control-allow-headers: authorization, content-type, forkspace-group, forkspace-metadata/i,
    )
    expect((await server.call('GET', '/v1/sessions', undefined, { origin: `${origin}.x` })).status).toBe(403)
  })
})

describe('a token', () => {
  test('that is missing, malformed or wrong gets the same response, before any other check', async () => {
    await using server = await openServer()
    const seen = new Set<string>()
    for (const authorization of [
      '',
      'Bearer',
      'Bearer ',
      'Bearer x y',
      'Basic dXNlcjpwdw==',
      `Bearer ${token}x`,
      `Bearer ${token.slice(1)}`,
      `Token ${token}`,
      token,
      `Bearer "${token}"`,
      `Bearer ${token}, Bearer x`,
      `Bearer ${'x'.repeat(10_000)}`,
    ]) {
      for (const [method, path, body] of [
        ['GET', '/v1/sessions'],
        ['GET', '/nothing'],
        ['GET', '/v1/sessions/%zz'],
        ['DELETE', '/v1/sessions'],
        ['POST', '/v1/sessions', '{'],
      ] as const) {
        const answer = await server.call(method, path, body, { authorization, 'content-type': 'text/plain' })
        expect(refusalIn(answer)).toEqual({ status: 401, code: 16, reason: 'UNAUTHENTICATED' })
        expect(answer.headers.get('www-authenticate')).toBe('Bearer')
        seen.add(answer.text)
      }
    }
    expect(seen.size).toBe(1)
  })

  test('accepts the scheme in any case', async () => {
    await using server = await openServer()
    for (const scheme of ['Bearer', 'bearer', 'BEARER'])
      expect(
        (await server.call('GET', '/v1/sessions', undefined, { authorization: `${scheme} ${token}` })).status,
      ).toBe(200)
  })

  test('that no header can carry is rejected in advance', () => {
    for (const bad of ['', 'a b', 'a\n', 'ä', '=a', 'a=b'])
      expect(() => staticTokens({ [bad]: caller })).toThrow(
        expect.objectContaining({ reason: 'INVALID_ARGUMENT' }),
      )
    expect(staticTokens({ ['__proto__x']: caller })).toBeTypeOf('function')
  })

  test('identifies the caller', async () => {
    await using server = await openServer({
      handler: {
        authenticate: staticTokens({
          one: { tenant: 'acme', principal: 'ann' },
          two: { tenant: 'acme', principal: 'bob' },
          three: { tenant: 'else', principal: 'ann' },
        }),
      },
    })
    const as = (name: string): Record<string, string> => ({ authorization: `Bearer ${name}` })
    const { body } = await server.call('POST', '/v1/sessions', {}, as('one'))
    const { id } = body as { id: string }
    await server.call('POST', `/v1/sessions/${id}/files/lock`, { path: '/x', timeoutSeconds: 60 }, as('two'))
    const locks = await server.call('POST', `/v1/sessions/${id}/files/list-locks`, {}, as('one'))
    expect(locks.body).toMatchObject({ locks: [{ path: '/x', ownerId: 'bob' }] })
    expect((await server.call('GET', `/v1/sessions/${id}`, undefined, as('three'))).status).toBe(404)
  })
})

describe('a hook', () => {
  const cases: readonly (readonly [string, HttpHandlerOptions['authenticate'], number])[] = [
    ['returns a caller', () => caller, 200],
    ['resolves with a caller', () => Promise.resolve(caller), 200],
    ['returns undefined', () => undefined, 401],
    ['resolves with undefined', () => Promise.resolve(undefined), 401],
    ['throws', () => fail(), 500],
    ['rejects', () => Promise.reject(new Error('private detail')), 500],
    ['returns an invalid caller', () => ({ tenant: '' }) as never, 500],
    ['returns an empty name', () => ({ tenant: '', principal: 'x' }), 500],
    ['returns null', () => null as never, 401],
  ]

  test.each(cases)('that %s', async (_what, authenticate, status) => {
    const logged: (LogEntry & { error: unknown })[] = []
    await using server = await openServer({ handler: { authenticate, log: (entry) => logged.push(entry) } })
    for (const answer of [
      await server.call('GET', '/v1/sessions'),
      await server.fetch('GET', '/v1/sessions'),
    ]) {
      expect(answer.status).toBe(status)
      expect(answer.text).not.toContain('private')
      expect(answer.text.includes('"INTERNAL"')).toBe(status === 500)
    }
    expect(logged.map(({ level }) => level)).toEqual(status === 500 ? ['error', 'error'] : [])
    expect(logged.every(({ error }) => error instanceof Error)).toBe(true)
  })

  test('receives the request without its body', async () => {
    const seen: unknown[] = []
    await using server = await openServer({
      handler: {
        authenticate: (given, request) => {
          seen.push([given, request.method, new URL(request.url).pathname, request.headers.get('x-extra')])
          return caller
        },
      },
    })
    const headers = { 'x-extra': '1', authorization: 'Bearer abc' }
    expect(
      (await server.call('POST', '/v1/sessions', { initialTags: { a: 'b' } }, headers)).body,
    ).toMatchObject({
      tags: { a: 'b' },
    })
    await server.fetch('GET', '/v1/sessions', undefined, headers)
    expect(seen).toEqual([
      ['abc', 'POST', '/v1/sessions', '1'],
      ['abc', 'GET', '/v1/sessions', '1'],
    ])
  })

  test.each<[string, () => unknown]>([
    ['throw', () => fail()],
    ['reject', async () => fail()],
  ])('for the log may %s', async (_how, log) => {
    const unhandled = await unhandledDuring(async () => {
      await using server = await openServer({ handler: { authenticate: () => fail(), log } })
      expect((await server.call('GET', '/v1/sessions')).status).toBe(500)
    })
    expect(unhandled).toEqual([])
  })

  test('for permissions decides, and its errors are not revealed', async () => {
    await using server = await openServer({
      engine: {
        authorize: (principal, action) => {
          if (action === 'listSessions') throw new Error('private detail')
          return action !== 'getCasMetrics'
        },
      },
    })
    expect(refusalIn(await server.call('GET', '/v1/metrics/cas'))).toMatchObject({
      status: 403,
      code: 7,
      reason: 'PERMISSION_DENIED',
    })
    const failed = await server.call('GET', '/v1/sessions')
    expect([403, 500]).toContain(failed.status)
    expect(failed.text).not.toContain('private')
  })
})

test('a closed engine is unavailable', async () => {
  await using server = await openServer()
  await server.engine.close()
  expect(refusalIn(await server.call('GET', '/v1/sessions'))).toMatchObject({
    status: 503,
    code: 14,
    reason: 'STORE_CLOSED',
  })
})

test.each([
  ['ENOSPC', 507, 8, 'STORE_FULL'],
  ['EIO', 503, 14, 'STORE_FAILED'],
])('a store that fails with %s reports the code without a path', async (code, status, rpc, reason) => {
  const { EngineError } = await import('../../src/index.js')
  let failing = false
  const storage: Storage = {
    open: async () => {
      const store = await memoryStorage({ durable: true }).open()
      const commit = store.commit.bind(store)
      return Object.assign(store, {
        commit: (one: Parameters<typeof commit>[0]) => {
          if (!failing) return commit(one)
          const cause = Object.assign(new Error(`${code}: /secret/host/path`), { code })
          const failure =
            code === 'ENOSPC'
              ? new EngineError('STORE_FULL', 'no space', { outcome: 'not-applied' }, { cause })
              : cause
          return Promise.reject(failure)
        },
      })
    },
  }
  await using server = await openServer({ engine: { storage } })
  const { id } = await server.session()
  failing = true
  const answer = await server.call('POST', `/v1/sessions/${id}/dirs`, { path: '/d' })
  failing = false
  expect(refusalIn(answer)).toMatchObject({ status, code: rpc, reason })
  expect(answer.text).not.toContain('secret')
})

test('createHttpHandler rejects invalid engines and options', async () => {
  const engine = await openEngine()
  try {
    const authenticate = staticTokens({})
    for (const options of [
      {},
      { authenticate: 'x' },
      { authenticate, prefix: 'x' },
      { authenticate, prefix: '/x/' },
      { authenticate, allowedHosts: 'localhost' },
      { authenticate, allowedHosts: Array.from({ length: 1 }) },
      { authenticate, allowedHosts: Object.assign([], { length: 1 }) },
      { authenticate, allowedOrigins: Object.assign([], { length: 1 }) },
      { authenticate, allowedOrigins: [1] },
      { authenticate, limits: { bodyBytes: -1 } },
      { authenticate, limits: { bodyBytes: NaN } },
      { authenticate, limits: { unknown: 1 } },
    ])
      expect(() => createHttpHandler(engine, options as never)).toThrow(
        expect.objectContaining({ reason: 'INVALID_ARGUMENT' }),
      )
  } finally {
    await engine.close()
  }
})

function fail(): never {
  throw new Error('private detail')
}

test('distinguishes callers whose names concatenate to the same text', async () => {
  const engine = await openEngine()
  const tokens = {
    one: { tenant: 'a b', principal: 'c' },
    two: { tenant: 'a', principal: 'b c' },
    three: { tenant: 'a', principal: 'b' },
  }
  const handler = createHttpHandler(engine, { authenticate: staticTokens(tokens) })
  const call = async (of: string, method: string, path = ''): Promise<Response> =>
    handler.fetch(
      new Request(`http://localhost/v1/sessions${path}`, {
        method,
        headers: { authorization: `Bearer ${of}`, 'content-type': 'application/json' },
        ...(method === 'POST' && { body: '{}' }),
      }),
    )
  try {
    const { id } = (await (await call('one', 'POST')).json()) as { id: string }
    expect((await call('two', 'GET', `/${id}`)).status).toBe(404)
    const made = (await (await call('two', 'POST')).json()) as { id: string }
    expect((await call('three', 'GET', `/${made.id}`)).status).toBe(200)
    const asOther = engine.as({ tenant: 'a', principal: 'b c' })
    expect((await (await asOther.sessions.open(made.id)).events.list()).events[0]!.principal).toBe('b c')
    expect((await call('one', 'GET', `/${made.id}`)).status).toBe(404)
  } finally {
    await engine.close()
  }
})
