/** Clients that know only the contract. */
import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process'
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHttpHandler, openApiDocument, serve, staticTokens } from '../../src/adapters/http/index.js'
import type { HttpServer } from '../../src/adapters/http/index.js'
import { openEngine, type Engine } from '../../src/index.js'
import { compileWithTypes, type TypedProgram } from '../support/typed-client.js'

const hasCurl = spawnSync('curl', ['--version']).status === 0
if (!hasCurl && process.env['FORKSPACE_REQUIRE_ALL'] === '1') throw new Error('curl is missing')

const token = 'token-of-ann'
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const hashOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`

let engine: Engine
let server: HttpServer

beforeAll(async () => {
  engine = await openEngine()
  const authenticate = staticTokens({ [token]: { tenant: 'acme', principal: 'ann' } })
  server = await serve(createHttpHandler(engine, { authenticate }))
})

afterAll(async () => {
  await server.close()
  await engine.close()
})

describe('a client with generated types', () => {
  let program: TypedProgram

  beforeAll(async () => {
    program = await compileWithTypes(openApiDocument(), typedProgram)
  })
  afterAll(() => program.remove())

  test('compiles', () => {
    expect(program.diagnostics).toBe('')
  })

  test('creates, reads and deletes resources', async () => {
    expect(await program.run({ BASE_URL: server.url, TOKEN: token })).toEqual({
      tags: { agent: 'one', task: '7' },
      paths: ['/src', '/src/a.txt', '/src/b.txt'],
      hash: hashOf('one\ntwo\n'),
      stale: { status: 409, code: 10, reason: 'HASH_MISMATCH', actual: hashOf('one\ntwo\n') },
      content: 'one\ntwo\n',
      changes: [['/src/a.txt', 'modified']],
      forked: 'one\n',
      annotation: ['ANNOTATION_STATUS_RESOLVED', 'ann'],
      pending: 'SESSION_STATUS_PENDING_APPROVAL',
      decided: { status: 400, code: 9 },
      active: 'SESSION_STATUS_ACTIVE',
      commit: 40,
      cached: [true, 'value'],
      swapped: false,
      messages: ['one', 'two'],
      events: 'v1.SessionService.CreateSession',
      unknown: { status: 404, reason: 'SESSION_NOT_FOUND' },
      refused: { status: 401, code: 16 },
    })
  })

  test('does not compile with names that the contract lacks', async () => {
    const wrong = await compileWithTypes(openApiDocument(), wrongProgram)
    try {
      const lines = [...wrong.diagnostics.matchAll(/program\.ts\((\d+),/g)].map(([, line]) => Number(line))
      const expected = wrongProgram
        .split('\n')
        .flatMap((line, index) => (line.includes('// wrong') ? [index + 1] : []))
      expect(expected).toHaveLength(6)
      expect([...new Set(lines)]).toEqual(expected)
    } finally {
      await wrong.remove()
    }
  })
})

const head = `import createClient from 'openapi-fetch'
import type { components, paths } from './contract.js'

const baseUrl = process.env['BASE_URL']!
const headers = { authorization: 'Bearer ' + process.env['TOKEN'] }
const client = createClient<paths>({ baseUrl, headers })
`

/** A program that a reader of only the contract would write. */
const typedProgram = `${head}
type Status = components['schemas']['Status']

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const text = (content: string): string => Buffer.from(content, 'base64').toString()
const good = <T>({ data, error }: { data?: T; error?: Status }): T => {
  if (data === undefined) throw new Error(JSON.stringify(error))
  return data
}

const session = good(await client.POST('/v1/sessions', { body: { initialTags: { agent: 'one' } } }))
const path = { sessionId: session.id }
good(await client.POST('/v1/sessions/{sessionId}/batch', {
  params: { path },
  body: {
    operations: [
      { write: { path: '/src/a.txt', content: base64('one\\n'), expectedHash: '' } },
      { segmentWrite: { path: '/src/b.txt', segments: [{ data: { offset: '2', content: base64('b') } }] } },
    ],
  },
}))
good(await client.POST('/v1/sessions/{sessionId}/checkpoints', { params: { path }, body: { label: 'first' } }))
const manifest = good(await client.GET('/v1/sessions/{sessionId}/manifest', { params: { path, query: { pageSize: 2 } } }))
const rest = good(await client.GET('/v1/sessions/{sessionId}/manifest', {
  params: { path, query: { pageSize: 2, pageToken: manifest.nextPageToken, includeCasExtents: true } },
}))
const nodes = [...manifest.nodes, ...rest.nodes]
const before = nodes.find((node) => node.path === '/src/a.txt')!
const change = { path: '/src/a.txt', segments: [{ data: { offset: before.sizeBytes, content: base64('two\\n') } }] }
good(await client.POST('/v1/sessions/{sessionId}/patchSegments', {
  params: { path },
  body: { mutations: [{ ...change, expectedHash: before.contentHash }], conflictPolicy: 'SEGMENT_CONFLICT_POLICY_ABORT_ON_CONFLICT' },
}))
const stale = await client.POST('/v1/sessions/{sessionId}/patchSegments', {
  params: { path },
  body: { mutations: [{ ...change, expectedHash: before.contentHash }] },
})
const staleInfo = stale.error!.details[0]!
const read = good(await client.POST('/v1/sessions/{sessionId}:readFile', { params: { path }, body: { path: '/src/a.txt' } }))
const { changes } = good(await client.POST('/v1/sessions/{sessionId}:diff', {
  params: { path },
  body: { from: { checkpointLabel: 'first' } },
}))
const fork = good(await client.POST('/v1/sessions/{sourceSessionId}/fork', {
  params: { path: { sourceSessionId: session.id } },
  body: { sourceCheckpointLabel: 'first', newTags: { task: '7' } },
}))
const forked = good(await client.POST('/v1/sessions/{sessionId}:readFile', {
  params: { path: { sessionId: fork.id } },
  body: { path: '/src/a.txt', offset: '0', length: '100' },
}))
const { annotation } = good(await client.POST('/v1/sessions/{sessionId}/annotations', {
  params: { path },
  body: { filePath: '/src/a.txt', lineNumber: 2, expectedContentHash: read.contentHash, comment: 'two?' },
}))
const resolved = good(await client.PATCH('/v1/sessions/{sessionId}/annotations/{annotationId}', {
  params: { path: { ...path, annotationId: annotation.id } },
  body: { newStatus: 'ANNOTATION_STATUS_RESOLVED' },
}))
const { summary, changedFiles } = good(await client.POST('/v1/sessions/{sessionId}/generateCommitSummary', { params: { path }, body: {} }))
const { approvalId } = good(await client.POST('/v1/sessions/{sessionId}/request-approval', {
  params: { path },
  body: { reason: 'COMMIT_TO_MAIN', details: { summary, changedFiles } },
}))
const pending = good(await client.GET('/v1/sessions/{sessionId}', { params: { path } }))
const grant = { params: { path: { ...path, approvalId } }, body: {} }
good(await client.POST('/v1/sessions/{sessionId}/approvals/{approvalId}/grant', grant))
const again = await client.POST('/v1/sessions/{sessionId}/approvals/{approvalId}/grant', grant)
const active = good(await client.GET('/v1/sessions/{sessionId}', { params: { path } }))
const { commitId } = good(await client.POST('/v1/sessions/{sessionId}/commit', { params: { path }, body: { message: 'All' } }))

// This client inserts parameters into the path unencoded.
const cachePath = { ...path, key: encodeURIComponent('a/b %') }
good(await client.PUT('/v1/sessions/{sessionId}/cache/{key}', { params: { path: cachePath }, body: { value: base64('value'), ttlSeconds: 60 } }))
const cached = good(await client.GET('/v1/sessions/{sessionId}/cache/{key}', { params: { path: cachePath } }))
const swap = good(await client.POST('/v1/sessions/{sessionId}/cache/{key}/compare-and-set', {
  params: { path: cachePath },
  body: { newValue: base64('mine') },
}))

for (const payload of ['none', 'one']) {
  good(await client.POST('/v1/sessions/{sessionId}/bus:publish', { params: { path }, body: { topic: 't', payload: base64(payload) } }))
}
const messages: string[] = []
const abort = new AbortController()
const stream = await client.GET('/v1/sessions/{sessionId}/bus', {
  params: { path, query: { topics: ['t', 'u'], replayLimit: 1 } },
  parseAs: 'stream',
  signal: abort.signal,
})
let unread = ''
for await (const piece of stream.response.body!.pipeThrough(new TextDecoderStream())) {
  unread += piece
  for (let end; (end = unread.indexOf('\\n')) >= 0; unread = unread.slice(end + 1)) {
    const item = JSON.parse(unread.slice(0, end)) as components['schemas']['BusItem']
    if ('result' in item) messages.push(text(item.result.payload))
  }
  if (messages.length === 2) break
  good(await client.POST('/v1/sessions/{sessionId}/bus:publish', { params: { path }, body: { topic: 'u', payload: base64('two') } }))
}
abort.abort()

const { events } = good(await client.GET('/v1/sessions/{sessionId}/events', { params: { path } }))
const unknown = await client.GET('/v1/sessions/{sessionId}', { params: { path: { sessionId: '0'.repeat(36) } } })
const refused = await createClient<paths>({ baseUrl }).GET('/v1/sessions')

console.log(JSON.stringify({
  tags: fork.tags,
  paths: nodes.map((node) => node.path),
  hash: read.contentHash,
  stale: { status: stale.response.status, code: stale.error!.code, reason: staleInfo.reason, actual: staleInfo.metadata['actualHash'] },
  content: text(read.content),
  changes: changes.map((one) => [one.path, one.change]),
  forked: text(forked.content),
  annotation: [resolved.annotation.status, resolved.annotation.reviewerId],
  pending: pending.status,
  decided: { status: again.response.status, code: again.error!.code },
  active: active.status,
  commit: commitId.length,
  cached: [cached.found, text(cached.value)],
  swapped: swap.swapped,
  messages,
  events: events[0]!.eventType,
  unknown: { status: unknown.response.status, reason: unknown.error!.details[0]!.reason },
  refused: { status: refused.response.status, code: refused.error!.code },
}))
process.exit()
`

const wrongProgram = `${head}
const path = { sessionId: 'a' }
await client.GET('/v1/sessions/{sessionId}/nothing', { params: { path } }) // wrong
await client.PUT('/v1/sessions/{sessionId}', { params: { path } }) // wrong
await client.POST('/v1/sessions/{sessionId}/dirs', { params: { path }, body: { mode: 493 } }) // wrong
await client.POST('/v1/sessions/{sessionId}/commit', { params: { path }, body: { message: 5 } }) // wrong
await client.PATCH('/v1/sessions/{sessionId}/annotations/{annotationId}', { params: { path: { ...path, annotationId: 'b' } }, body: { newStatus: 'DONE' } }) // wrong
const { data } = await client.GET('/v1/sessions/{sessionId}', { params: { path } })
console.log(data?.name) // wrong
`

describe.skipIf(!hasCurl)('curl', () => {
  test('does the same from the command line', async () => {
    const created = await call('POST', '/v1/sessions', { initialTags: { agent: 'one' } })
    expect(created).toMatchObject({ status: 200, type: 'application/json' })
    const { id } = created.body as { readonly id: string }
    const at = `/v1/sessions/${id}`
    const write = { path: '/src/a b.txt', content: base64('one\n'), expectedHash: '' }
    expect(await call('POST', `${at}/batch`, { operations: [{ write }] })).toMatchObject({
      status: 200,
      body: {},
    })
    expect(await call('POST', `${at}/batch`, { operations: [{ write }] })).toMatchObject({
      status: 409,
      body: { code: 10, details: [{ reason: 'HASH_MISMATCH', metadata: { actualHash: hashOf('one\n') } }] },
    })
    expect(await call('GET', `${at}/manifest?pathPrefix=/src/&pageSize=10`)).toMatchObject({
      status: 200,
      body: {
        nodes: [{ path: '/src/a b.txt', contentHash: hashOf('one\n'), mode: 0o644, sizeBytes: '4' }],
        nextPageToken: '',
      },
    })
    expect(await call('POST', `${at}:readFile`, { path: '/src/a b.txt' })).toMatchObject({
      body: { content: base64('one\n') },
    })
    expect(await call('POST', `${at}/checkpoints`, { label: 'first' })).toMatchObject({
      body: { sessionId: id, label: 'first' },
    })
    const query = `path=${encodeURIComponent('/src/a b.txt')}&expectedHash=${hashOf('one\n')}`
    expect(await call('DELETE', `${at}/files?${query}`)).toMatchObject({ status: 200, body: {} })
    expect(await call('POST', `${at}/restore`, { checkpointLabel: 'first' })).toMatchObject({ status: 200 })
    const { approvalId } = (await call('POST', `${at}/request-approval`, {})).body as { approvalId: string }
    const grant = `${at}/approvals/${approvalId}/grant`
    expect(await call('POST', grant, {})).toMatchObject({ status: 200, body: {} })
    expect(await call('POST', grant, {})).toMatchObject({ status: 400, body: { code: 9 } })
    expect(await call('POST', `${at}/commit`, { message: 'All' })).toMatchObject({ status: 200 })
    expect(await call('GET', `${at}/events`)).toMatchObject({
      body: { events: [{ eventType: 'v1.SessionService.CreateSession' }, {}, {}, {}, {}, {}, {}, {}] },
    })
    expect(await call('GET', '/v1/openapi.json')).toMatchObject({ status: 200, body: { openapi: '3.1.0' } })
    expect(await call('DELETE', '/v1/usage')).toMatchObject({ status: 405, body: { code: 12 } })
  })

  test('reads a stream until it stops', async () => {
    const { body } = await call('POST', '/v1/sessions', {})
    const at = `/v1/sessions/${(body as { readonly id: string }).id}`
    const curl = start('GET', `${at}/bus?topics=t`, undefined, ['--no-buffer', '--verbose'])
    const read = { stdout: '', stderr: '' }
    let seen = (): void => undefined
    for (const name of ['stdout', 'stderr'] as const) {
      curl[name].on('data', (piece) => {
        read[name] += String(piece)
        seen()
      })
    }
    const until = async (holds: () => boolean): Promise<void> => {
      while (!holds()) {
        await new Promise<void>((resolve) => {
          seen = resolve
        })
      }
    }
    try {
      // The headers arrive before the first message.
      await until(() => /^< content-type: application\/x-ndjson\r?$/im.test(read.stderr))
      for (const payload of ['one', 'two']) {
        await call('POST', `${at}/bus:publish`, { topic: 't', payload: base64(payload) })
        await until(() => read.stdout.includes(base64(payload)))
      }
    } finally {
      curl.kill()
    }
    expect(read.stdout.split('\r\n\r\n')[1]).toMatch(/^\{"result":.*\}\n\{"result":.*\}\n$/)
  })

  test('is rejected without a token and with another host', async () => {
    for (const wrong of ['authorization:', 'authorization: Bearer other']) {
      expect(await call('GET', '/v1/sessions', undefined, ['-H', wrong])).toMatchObject({
        status: 401,
        body: { code: 16, details: [{ reason: 'UNAUTHENTICATED' }] },
      })
    }
    expect(await call('GET', '/v1/sessions', undefined, ['-H', 'host: example.org'])).toMatchObject({
      status: 403,
      body: { code: 7, details: [{ reason: 'HOST_NOT_ALLOWED' }] },
    })
  })

  function start(
    method: string,
    path: string,
    body: object | undefined,
    more: readonly string[],
  ): ChildProcessByStdio<null, Readable, Readable> {
    const own = more.some((one) => one.startsWith('authorization'))
      ? []
      : ['-H', `authorization: Bearer ${token}`]
    const sent =
      body === undefined ? [] : ['-H', 'content-type: application/json', '-d', JSON.stringify(body)]
    const args = ['--silent', '--include', '--noproxy', '*', '-X', method, ...own, ...sent, ...more]
    return spawn('curl', [...args, `${server.url}${path}`], { stdio: ['ignore', 'pipe', 'pipe'] })
  }

  async function call(
    method: string,
    path: string,
    body?: object,
    more: readonly string[] = [],
  ): Promise<{ status: number; type: string | undefined; body: unknown }> {
    let read = ''
    for await (const piece of start(method, path, body, more).stdout) read += String(piece)
    const [head = '', text = ''] = read.split('\r\n\r\n')
    return {
      status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]),
      type: /^content-type: (.*)$/im.exec(head)?.[1],
      body: JSON.parse(text) as unknown,
    }
  }
})
