/** The handler of git repositories in servers. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { mkdtempSync, rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { gitHandler } from '../../src/adapters/git-server/index.js'
import { createHttpHandler, serve, staticTokens, toNodeHandler } from '../../src/adapters/http/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { GitWorld, gitCaller, gitToken, runGit } from '../support/git-world.js'
import { randomBytes } from '../support/random-bytes.js'
import { temporaryDirectory } from '../support/temporary-directory.js'
import { unhandledDuring } from '../support/unhandled.js'

describe('a handler of git repositories', () => {
  const authenticate = staticTokens({ [gitToken]: gitCaller })
  const headers = { authorization: `Bearer ${gitToken}` }
  let directory: string
  let engine: Engine
  let session: Session
  beforeAll(async () => {
    directory = mkdtempSync(join(temporaryDirectory(), 'git-embedding-'))
    engine = await openEngine({ hostPaths: { roots: [directory] } })
    session = await engine.sessions.create({ files: { '/a.txt': 'one\n' } })
  })
  afterAll(async () => {
    await engine.close()
    rmSync(directory, { recursive: true })
  })

  const start = (prefix = ''): string =>
    `${prefix}/sessions/${session.id}.git/info/refs?service=git-upload-pack`

  test('serves the repositories of a server of the API', async () => {
    const git = gitHandler(engine, { authenticate, prefix: '/api' })
    await using server = await serve(createHttpHandler(engine, { authenticate, git, prefix: '/api' }))
    const ask = async (path: string): Promise<number> =>
      (await fetch(`${server.url}${path}`, { headers })).status
    expect(await ask(start('/api'))).toBe(200)
    expect(await ask(start())).toBe(404)
    expect(await ask('/api/v1/sessions')).toBe(200)
    expect(await ask('/api/healthz')).toBe(200)
  })

  test('has a log that may reject', async () => {
    const down = (): unknown => Promise.reject(new Error('the log is down'))
    const unhandled = await unhandledDuring(async () => {
      const handler = gitHandler(engine, {
        authenticate: () => Promise.reject(new Error('no answer')),
        log: down,
      })
      const response = await handler.fetch(new Request(`http://localhost${start()}`, { headers }))
      expect(response.status).toBe(500)
    })
    expect(unhandled).toEqual([])
  })

  test('is absent from a server of the API without it', async () => {
    await using server = await serve(createHttpHandler(engine, { authenticate }))
    expect((await fetch(`${server.url}${start()}`, { headers })).status).toBe(404)
  })

  test('answers requests of the Fetch API', async () => {
    const handler = gitHandler(engine, { authenticate })
    const response = await handler.fetch(new Request(`http://localhost${start()}`, { headers }))
    expect([response.status, await response.text()]).toEqual([
      200,
      expect.stringContaining('refs/heads/main'),
    ])
    const refused = await handler.fetch(new Request(`http://evil.example${start()}`, { headers }))
    expect([refused.status, await refused.text()]).toEqual([403, expect.stringMatching(/HOST_NOT_ALLOWED/)])
  })

  test('answers web pages that are allowed', async () => {
    const handler = gitHandler(engine, { authenticate, allowedOrigins: ['https://app.example'] })
    const origin = { origin: 'https://app.example' }
    const asked = new Request(`http://localhost${start()}`, {
      method: 'OPTIONS',
      headers: { ...origin, 'access-control-request-method': 'GET' },
    })
    expect((await handler.fetch(asked)).status).toBe(204)
    const response = await handler.fetch(
      new Request(`http://localhost${start()}`, { headers: { ...headers, ...origin } }),
    )
    expect(response.headers.get('access-control-allow-origin')).toBe('https://app.example')
  })

  test.skipIf(!hasGit)('is a listener of node:http', async () => {
    const server = createServer(toNodeHandler(gitHandler(engine, { authenticate }))).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    const url = `http://git:${gitToken}@127.0.0.1:${port}/sessions/${session.id}.git`
    expect(await runGit(directory, ['clone', '--quiet', url, 'cloned'])).toMatchObject({ code: 0 })
    server.close()
    server.closeAllConnections()
  })

  test.skipIf(!hasGit)('serves a session from a repository with SHA-256 ids', async () => {
    await using world = await GitWorld.open(engine)
    const path = join(directory, 'sha256.git')
    const repository = GitRepository.create(path, { format: 'sha256' })
    const base = repository.commitFiles([['100644', 'a.txt', 'one\n']])
    const { sourceId } = await engine.sources.create({ displayName: 's', gitRepository: { path } })
    await engine.sources.waitForJob(await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } }))
    const long = await engine.sessions.create({ sourceRef: { sourceId } })
    const clone = await world.clone(long)
    expect([base.length, await clone.head()]).toEqual([64, base])
    const pushed = await clone.commit({ 'a.txt': 'two\n' })
    await clone.git('push', '--quiet')
    expect(await (await world.clone(long)).head()).toBe(pushed)
  })

  test.skipIf(!hasGit)('sends no faster than its client reads', async () => {
    // They do not compress, so that they do not fit into one piece.
    const names = ['1', '2', '3', '4', '5', '6'] as const
    const files = Object.fromEntries(names.map((name) => [`/${name}.bin`, randomBytes(2_000_000, name)]))
    const large = await engine.sessions.create({ files })
    const handler = gitHandler(engine, { authenticate, limits: { stalledStreamMs: 60_000 } })
    const url = `http://localhost/sessions/${large.id}.git`
    const listed = await (
      await handler.fetch(new Request(`${url}/info/refs?service=git-upload-pack`, { headers }))
    ).text()
    const head = /([\da-f]{40}) HEAD/.exec(listed)?.[1] ?? ''
    const line = (text: string): string => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`
    const response = await handler.fetch(
      new Request(`${url}/git-upload-pack`, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/x-git-upload-pack-request',
          'git-protocol': 'version=2',
        },
        body: `${line('command=fetch')}0001${line(`want ${head}`)}${line('done')}0000`,
      }),
    )
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    const { value } = await reader.read()
    expect(value?.byteLength).toBeLessThan(3_000_000)
    await reader.cancel()
  })
})
