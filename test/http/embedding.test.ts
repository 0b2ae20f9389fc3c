/** The handler at a path of other servers. */
import { createServer, type RequestListener } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import {
  createHttpHandler,
  staticTokens,
  toNodeHandler,
  type HttpHandler,
} from '../../src/adapters/http/index.js'
import { gitHandler } from '../../src/adapters/git-server/index.js'
import { webdavHandler } from '../../src/adapters/webdav/index.js'
import { openEngine, type Engine } from '../../src/index.js'
import { caller, token } from '../support/http-server.js'

interface Running {
  readonly url: string
  close(): Promise<unknown>
}

async function listening(server: ReturnType<typeof createServer>): Promise<Running> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Each serves the handler at `/api`, and a route of its own at `/own`. */
const servers: Readonly<Record<string, (make: (prefix: string) => HttpHandler) => Promise<Running>>> = {
  'node:http': (make) => {
    const handle = toNodeHandler(make('/api'))
    const listener: RequestListener = (incoming, outgoing) => {
      if (incoming.url === '/own') outgoing.end('own')
      else handle(incoming, outgoing)
    }
    return listening(createServer(listener))
  },
  Express: (make) => {
    const app = express()
    // Express removes the mount path of a middleware.
    app.use('/api', toNodeHandler(make('')))
    app.get('/own', (_, response) => response.send('own'))
    return listening(createServer(app))
  },
  Fastify: async (make) => {
    const app = fastify()
    const handle = toNodeHandler(make('/api'))
    await app.register(async (scope) => {
      // The handler must read the body itself.
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
      scope.all('/api/*', (request, reply) => {
        reply.hijack()
        handle(request.raw, reply.raw)
      })
    })
    app.get('/own', () => 'own')
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    return {
      url,
      close: async () => {
        app.server.closeAllConnections()
        await app.close()
      },
    }
  },
  Hono: (make) => {
    const app = new Hono()
    const handler = make('/api')
    app.all('/api/*', ({ req }) => handler.fetch(req.raw))
    app.get('/own', (context) => context.text('own'))
    return listening(
      createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as ReturnType<
        typeof createServer
      >,
    )
  },
  'Hono, mounted': (make) => {
    const app = new Hono()
    app.mount('/api', make('').fetch)
    app.get('/own', (context) => context.text('own'))
    return listening(
      createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as ReturnType<
        typeof createServer
      >,
    )
  },
}

describe.each(Object.keys(servers))('in %s', (name) => {
  async function run(test: (url: string, engine: Engine) => Promise<void>): Promise<void> {
    const engine = await openEngine()
    const running = await servers[name]!((prefix) =>
      createHttpHandler(engine, {
        prefix,
        authenticate: staticTokens({ [token]: caller }),
        limits: { bodyBytes: 100_000 },
      }),
    )
    try {
      await test(running.url, engine)
    } finally {
      await running.close()
      await engine.close()
    }
  }

  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }

  test('requests, errors and streams behave the same', async () => {
    await run(async (url, engine) => {
      expect(await (await fetch(`${url}/own`)).text()).toBe('own')
      const call = async (
        method: string,
        path: string,
        body?: object,
      ): Promise<{ status: number; body: unknown }> => {
        const response = await fetch(`${url}/api${path}`, {
          method,
          headers,
          ...(body !== undefined && { body: JSON.stringify(body) }),
        })
        return { status: response.status, body: await response.json() }
      }
      const { body } = await call('POST', '/v1/sessions', { initialTags: { a: 'ä' } })
      const { id } = body as { id: string }
      expect(body).toMatchObject({ tags: { a: 'ä' } })
      expect(await call('PUT', `/v1/sessions/${id}/cache/a%2Fb`, { value: 'eA==' })).toEqual({
        status: 200,
        body: {},
      })
      expect((await call('GET', `/v1/sessions/${id}/cache/keys?prefix=a%2F`)).body).toMatchObject({
        keys: ['a/b'],
      })
      expect((await call('POST', `/v1/sessions/${id}:readFile`, { path: '/none' })).status).toBe(404)
      expect((await call('DELETE', `/v1/sessions/${id}/files?path=/none`)).status).toBe(404)
      expect((await call('GET', '/nothing')).body).toMatchObject({ code: 5 })
      expect(
        (await call('POST', `/v1/sessions/${id}/checkpoints`, { label: 'x'.repeat(200_000) })).status,
      ).toBe(413)
      expect((await fetch(`${url}/api/openapi.json`)).status).toBe(200)
      expect((await fetch(`${url}/api/v1/sessions`)).status).toBe(401)

      const session = await engine.as(caller).sessions.open(id)
      const abort = new AbortController()
      const stream = await fetch(`${url}/api/v1/sessions/${id}/bus`, { headers, signal: abort.signal })
      expect(stream.headers.get('content-type')).toBe('application/x-ndjson')
      const reader = stream.body!.getReader()
      await session.bus.publish({ topic: 't', payload: 'x' })
      expect(new TextDecoder().decode((await reader.read()).value)).toMatch(
        /^\{"result":\{.*"payload":"eA==".*\}\}\n$/,
      )
      await session.files.write({ path: '/l', content: '' })
      const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
      await session.posixLocks.set({ path: '/l', kind, owner: { ownerId: 'holder' } })
      const lock = fetch(`${url}/api/v1/sessions/${id}:setPosixLockBlocking`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ path: '/l', kind, owner: { ownerId: 'left' } }),
        signal: abort.signal,
      }).catch(() => undefined)
      abort.abort()
      await lock
      await session.posixLocks.funlock({ path: '/l', owner: { ownerId: 'holder' } })
      // If the abandoned wait were still queued, this one would wait forever.
      await session.posixLocks.setBlocking({ path: '/l', kind, owner: { ownerId: 'next' } })
      // The maximum number of subscribers fits, because the stream was released.
      for (let all = false; !all;) {
        const subscriptions = Array.from({ length: 1000 }, () => session.bus.subscribe())
        const opened = await Promise.allSettled(subscriptions.map((subscription) => subscription.opened))
        all = opened.every(({ status }) => status === 'fulfilled')
        for (const subscription of subscriptions) await subscription.return()
        await pause(5)
      }
    })
  })
})

test('reports a body that other middleware has already read', async () => {
  const engine = await openEngine()
  const logged: unknown[] = []
  const handler = createHttpHandler(engine, {
    authenticate: staticTokens({ [token]: caller }),
    log: ({ error }) => logged.push(error),
  })
  const app = express()
  app.use(express.json())
  app.use(toNodeHandler(handler))
  const running = await listening(createServer(app))
  try {
    const response = await fetch(`${running.url}/v1/sessions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: '{"initialTags":{"a":"b"}}',
    })
    expect(response.status).toBe(500)
    expect(String(logged[0])).toContain('was already read before the handler')
  } finally {
    await running.close()
    await engine.close()
  }
})

test.each([
  ['JSON', 'POST', 'v1/sessions', 'application/json'],
  ['a content', 'PUT', 'v1/sessions/{id}/content?path=/a', 'application/octet-stream'],
  ['a push', 'POST', 'sessions/{id}.git/git-receive-pack', 'application/x-git-receive-pack-request'],
  ['a file over WebDAV', 'PUT', 'dav/a', 'text/plain'],
  ['a listing over WebDAV', 'PROPFIND', 'dav/', 'application/xml'],
])('a request with %s that the client aborts is no defect', async (_what, method, path, type) => {
  await using engine = await openEngine()
  const session = await engine.as(caller).sessions.create()
  const logged: unknown[] = []
  const options = {
    authenticate: staticTokens({ [token]: caller }),
    log: ({ error }: { error?: unknown }) => logged.push(error),
  }
  const { log } = options
  const { fetch } = path.startsWith('dav')
    ? webdavHandler(session, { token, write: true, prefix: '/dav', log })
    : path.startsWith('sessions')
      ? gitHandler(engine, { ...options, push: true })
      : createHttpHandler(engine, options)
  const body = new ReadableStream<Uint8Array>({
    start: (pieces) => pieces.enqueue(Buffer.from('0094')),
    pull: (pieces) => pieces.error(new Error('aborted')),
  })
  const headers = { authorization: `Bearer ${token}`, 'content-type': type, depth: '0' }
  const init = { method, headers, body, duplex: 'half' } as const
  const response = await fetch(new Request(`http://127.0.0.1/${path.replace('{id}', session.id)}`, init))
  expect([response.status, logged]).toEqual([503, []])
})
