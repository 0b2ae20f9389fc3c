import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHttpHandler, serve, staticTokens, type HttpServer } from '../../src/adapters/http/index.js'
import { inspector, type Inspector, type InspectorOptions } from '../../src/adapters/inspector/index.js'
import { inspectorLimits } from '../../src/adapters/inspector/limits.js'
import { readOperations, writeOperations } from '../../src/adapters/inspector/operations.js'
import { operations } from '../../src/engine/contract.js'
import { letGo } from '../support/garbage.js'
import { unhandledDuring } from '../support/unhandled.js'
import { memoryStorage, openEngine, type CheckReport, type Engine, type Session } from '../../src/index.js'

const token = 'page-token'
const serverToken = 'server-token'
const caller = { tenant: 'acme', principal: 'ann' }
const authenticate = staticTokens({ [token]: caller })

let engine: Engine
let session: Session
let server: HttpServer

beforeAll(async () => {
  engine = await openEngine()
  session = await engine.as(caller).sessions.create({ files: { '/a.txt': 'one\n' } })
  server = await serve(createHttpHandler(engine, { authenticate: staticTokens({ [serverToken]: caller }) }))
})
afterAll(async () => {
  await server.close()
  await engine.close()
})

/** Both forms of the inspector, with the same rules. */
const forms: readonly [form: string, make: (options?: Partial<InspectorOptions>) => Inspector][] = [
  ['an engine', (options) => inspector(engine, { authenticate, ...options })],
  [
    'a server',
    (options) => inspector({ baseUrl: server.url, token: serverToken }, { authenticate, ...options }),
  ],
]

interface Call {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

async function call(
  handle: Inspector,
  path: string,
  { method = 'GET', body, headers = {} }: Call = {},
): Promise<{ status: number; text: string; reason: string | undefined; headers: Headers }> {
  const response = await handle(
    new Request(`http://localhost:8080${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }),
  )
  const text = await response.text()
  const reason = /"reason":"(\w+)"/.exec(text)?.[1]
  return { status: response.status, text, reason, headers: response.headers }
}

describe.each(forms)('the inspector of %s', (_form, make) => {
  test('carries out reading operations for a known token only', async () => {
    const handle = make()
    const read = await call(handle, '/v1/sessions')
    expect([read.status, read.text]).toEqual([200, expect.stringContaining(session.id)])
    for (const authorization of ['', 'Bearer other', `Bearer ${serverToken}`, 'Basic eA=='])
      expect(await call(handle, '/v1/sessions', { headers: { authorization } })).toMatchObject({
        status: 401,
      })
    expect(await call(handle, '/inspector.json', { headers: { authorization: 'Bearer x' } })).toMatchObject({
      status: 401,
    })
    expect(JSON.parse((await call(handle, '/inspector.json')).text)).toMatchObject({ write: false })
  })

  test('refuses every operation that is not a reading one', async () => {
    const handle = make()
    const refused: string[] = []
    for (const [name, { method, path, stream }] of Object.entries(operations)) {
      // An allowed stream would not end.
      if (stream === true) continue
      const { status, reason } = await call(handle, path.replaceAll(/\{\w+\}/g, session.id), {
        method,
        ...(method !== 'GET' && { body: {} }),
      })
      if (status === 403 && reason === 'PERMISSION_DENIED') refused.push(name)
    }
    const others = Object.entries(operations).filter(([name]) => !readOperations.has(name as never))
    expect(refused).toEqual(others.map(([name]) => name))
    expect(await session.fs.promises.readFile('/a.txt', 'utf8')).toBe('one\n')
  })

  test('restores with the option write, and refuses other changes', async () => {
    const handle = make({ write: true })
    const [first] = (await session.events.list()).events
    await session.files.write({ path: '/a.txt', content: 'two\n' })
    const path = `/v1/sessions/${session.id}:restoreState`
    const body = { from: { eventId: first!.eventId } }
    const preview = await call(handle, path, { method: 'POST', body: { ...body, dryRun: true } })
    expect([preview.status, preview.text]).toEqual([200, expect.stringContaining('/a.txt')])
    expect(await session.fs.promises.readFile('/a.txt', 'utf8')).toBe('two\n')
    expect(await call(handle, path, { method: 'POST', body })).toMatchObject({ status: 200 })
    expect(await session.fs.promises.readFile('/a.txt', 'utf8')).toBe('one\n')
    const write = await call(handle, `/v1/sessions/${session.id}:writeFile`, {
      method: 'POST',
      body: { path: '/b', content: '' },
    })
    expect(write).toMatchObject({ status: 403, reason: 'PERMISSION_DENIED' })
    const restored = await call(make(), path, { method: 'POST', body })
    expect(restored).toMatchObject({ status: 403, text: expect.stringContaining('--write') })
  })

  test('previews a merge without the option write, and refuses every other merge', async () => {
    const handle = make()
    const fork = await session.fork()
    await fork.files.write({ path: '/merged.txt', content: 'x\n' })
    const path = `/v1/sessions/${session.id}:merge`
    const events = (await session.events.list()).events.length
    const merge = (body: string, headers: Record<string, string> = {}) =>
      handle(
        new Request(`http://localhost:8080${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
          body,
        }),
      )
    const source = `"source":{"sessionId":"${fork.id}"}`
    const preview = await merge(`{${source},"dryRun":true}`)
    expect([preview.status, await preview.json()]).toMatchObject([200, { changeCount: 1, conflicts: [] }])
    for (const body of [
      `{${source}}`,
      `{${source},"dryRun":false}`,
      `{${source},"dryRun":"true"}`,
      `{${source},"dryRun":1}`,
      `{${source},"dryRun":true,"dryRun":false}`,
      `{${source},"__proto__":{"dryRun":true}}`,
    ]) {
      const refused = await merge(body)
      expect([refused.status, await refused.text()]).toEqual([403, expect.stringContaining('--write')])
    }
    for (const body of ['[]', 'null', '{', '"dryRun"']) expect((await merge(body)).status).toBe(400)
    const deep = await merge(`{${source},"dryRun":true,"x":${'['.repeat(5000)}${']'.repeat(5000)}}`)
    expect([deep.status, await deep.text()]).toEqual([400, expect.stringContaining('levels deep')])
    expect((await merge(`{${source},"dryRun":true,"x":"${'x'.repeat(2 ** 20)}"}`)).status).toBe(413)
    expect((await merge(`{${source},"dryRun":true}`, { authorization: 'Bearer x' })).status).toBe(401)
    // The query is no way to ask for a merge either.
    const other = `${path}?dryRun=false`
    expect(
      await call(handle, other, {
        method: 'POST',
        body: { source: { sessionId: fork.id }, dryRun: true },
      }),
    ).toMatchObject({ status: 200 })
    expect((await session.events.list()).events).toHaveLength(events)
    expect(session.fs.existsSync('/merged.txt')).toBe(false)
  })

  test('does not check the store without the option check', async () => {
    const handle = make()
    expect(await call(handle, '/check', { method: 'POST' })).toMatchObject({
      status: 403,
      reason: 'PERMISSION_DENIED',
    })
    expect(await call(handle, '/check')).toMatchObject({ status: 404 })
    expect(JSON.parse((await call(handle, '/inspector.json')).text)).toMatchObject({ check: false })
  })

  test('serves no route for content that changes something, and no unknown route', async () => {
    const handle = make({ write: true })
    const content = `/v1/sessions/${session.id}/content?path=/a.txt`
    expect(await call(handle, content, { method: 'PUT', body: '' })).toMatchObject({ status: 404 })
    expect(await call(handle, '/v1/nothing')).toMatchObject({ status: 404, reason: 'ROUTE_NOT_FOUND' })
    expect(await call(handle, '/../package.json')).toMatchObject({ status: 404 })
  })

  test('refuses other hosts, and requests of other pages', async () => {
    const handle = make()
    for (const path of ['/', '/v1/sessions'])
      expect(await call(handle, path, { headers: { host: 'evil.example' } })).toMatchObject({
        status: 403,
        reason: 'HOST_NOT_ALLOWED',
      })
    const origin = (value: string): Promise<{ status: number }> =>
      call(handle, '/v1/sessions', { headers: { origin: value } })
    expect(await origin('http://evil.example')).toMatchObject({ status: 403 })
    expect(await origin('null')).toMatchObject({ status: 403 })
    expect(await origin('http://localhost:8081')).toMatchObject({ status: 403 })
    expect(await origin('http://localhost:8080')).toMatchObject({ status: 200 })
  })

  test('reads no more of a body than it takes', async () => {
    let bytes = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        bytes += 2 ** 20
        controller.enqueue(new Uint8Array(2 ** 20).fill(32))
        if (bytes > 40 * 2 ** 20) controller.close()
      },
    })
    const response = await make()(
      new Request(`http://localhost:8080/v1/sessions/${session.id}:diff`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body,
        duplex: 'half',
      }),
    )
    expect([response.status, await response.text()]).toEqual([413, expect.stringMatching(/BODY_TOO_LARGE/)])
    expect(bytes).toBeLessThan(20 * 2 ** 20)
  })

  test('takes the end of a client during its request for no defect', async () => {
    const logged: unknown[] = []
    const abort = new AbortController()
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(Buffer.from('{"dryRun":'))
        abort.signal.addEventListener('abort', () => controller.error(new Error('aborted')))
      },
    })
    const answer = make({ log: (entry) => logged.push(entry.error) })(
      new Request(`http://localhost:8080/v1/sessions/${session.id}:merge`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body,
        duplex: 'half',
        signal: abort.signal,
      }),
    )
    abort.abort()
    expect((await answer).status).not.toBe(500)
    expect(logged).toEqual([])
  })

  test('serves below a prefix', async () => {
    const handle = make({ prefix: '/inspect' })
    expect(await call(handle, '/inspect/v1/sessions')).toMatchObject({ status: 200 })
    expect(await call(handle, '/v1/sessions')).toMatchObject({ status: 404 })
    const moved = await call(handle, '/inspect')
    expect([moved.status, moved.headers.get('location')]).toEqual([308, '/inspect/'])
  })
})

test('no operation is both a reading and a writing one, and none gives the value of a secret', () => {
  for (const name of writeOperations) expect(readOperations.has(name)).toBe(false)
  expect([...readOperations, ...writeOperations]).not.toContain('getSecret')
})

test('a reading operation of an engine needs none of the withheld capabilities', () => {
  for (const name of readOperations)
    expect([name, ...operations[name].capabilities]).not.toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^(files\.write|approvals\.decide|commit|fork|delete)$/),
      ]),
    )
})

describe('a check of the store', () => {
  /** An engine whose checks wait until `end`, or until they are aborted. */
  async function heldEngine(): Promise<{ held: Engine; end: () => void }> {
    const memory = memoryStorage({ durable: true })
    let end = (): void => undefined
    const held = await openEngine({
      storage: {
        open: async () => {
          const store = await memory.open()
          store.check = async function* ({ signal }) {
            await new Promise<void>((resolve) => {
              end = resolve
              signal?.addEventListener('abort', () => resolve(), { once: true })
            })
            yield* []
          }
          return store
        },
      },
    })
    return { held, end: () => end() }
  }
  const ask = (handle: Inspector, query = '', init: RequestInit = {}): Promise<Response> =>
    handle(
      new Request(`http://localhost:8080/check${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        ...init,
      }),
    )

  test('needs a known token and runs once at a time; the end of its request or response ends it', async () => {
    const { held, end } = await heldEngine()
    await held.sessions.create({ files: { '/a': 'a' } })
    const handle = inspector(held, { authenticate, check: true })
    expect((await ask(handle, '', { headers: {} })).status).toBe(401)
    expect((await ask(handle, '?readData=1')).status).toBe(400)

    const first = await ask(handle)
    const second = await ask(handle)
    expect([second.status, await second.text()]).toEqual([429, expect.stringContaining('another check')])
    await first.body?.cancel()
    const abort = new AbortController()
    let begun: Response | undefined
    await expect.poll(async () => (begun = await ask(handle, '', { signal: abort.signal })).status).toBe(200)
    abort.abort()
    expect(await begun!.text()).toBe('{"looked":0}\n')
    let last: Response | undefined
    await expect.poll(async () => (last = await ask(handle, '?readData=true')).status).toBe(200)
    end()
    const lines = (await last!.text()).trim().split('\n')
    expect(JSON.parse(lines[0]!)).toEqual({ looked: 0 })
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({
      report: { found: 0, findings: [], sessions: 1, readBytes: 1 },
    })
    await held.close()
    const closed = (await (await ask(handle)).text()).trim().split('\n')
    expect(JSON.parse(closed.at(-1)!)).toMatchObject({ error: { details: [{ reason: 'STORE_CLOSED' }] } })
  })

  test('sends a limited number of problems', async () => {
    const memory = memoryStorage({ durable: true })
    const damaged = await openEngine({
      storage: {
        open: async () => {
          const store = await memory.open()
          store.check = async function* () {
            for (let number = 0; number < 500; number++)
              yield { problem: 'damaged', object: `file ${number}`, message: 'is damaged' }
          }
          return store
        },
      },
    })
    const text = await (await ask(inspector(damaged, { authenticate, check: true }))).text()
    const { report } = JSON.parse(text.trim().split('\n').at(-1)!) as { report: CheckReport }
    expect([report.found, report.findings.length]).toEqual([500, inspectorLimits.checkFindings])
    await damaged.close()
  })
})

test.each<[string, () => unknown]>([
  ['throw', () => fail()],
  ['reject', async () => fail()],
])('the log of an inspector may %s', async (_how, log) => {
  const unhandled = await unhandledDuring(async () => {
    const handle = inspector(engine, { authenticate: () => fail(), log })
    expect(await call(handle, '/v1/sessions')).toMatchObject({ status: 500 })
  })
  expect(unhandled).toEqual([])
})

test('a server that refuses the token of the inspector is no reason to ask for that of the page', async () => {
  const handle = inspector({ baseUrl: server.url, token: 'another' }, { authenticate })
  for (const path of ['/inspector.json', '/v1/sessions'])
    expect(await call(handle, path)).toMatchObject({
      status: 403,
      reason: 'PERMISSION_DENIED',
      text: expect.stringContaining('does not accept the token'),
    })
})

test('a server that does not answer is an error of the inspector', async () => {
  const handle = inspector({ baseUrl: 'http://127.0.0.1:1', token: 'a' }, { authenticate })
  expect(await call(handle, '/v1/sessions')).toMatchObject({ status: 503, reason: 'UNAVAILABLE' })
})

test.each([
  ['an option of the wrong type', () => inspector(engine, { authenticate, write: 1 as never })],
  ['a prefix without a slash', () => inspector(engine, { authenticate, prefix: 'a' })],
  ['no authenticate', () => inspector(engine, {} as never)],
  ['a check that is no flag', () => inspector(engine, { authenticate, check: 1 as never })],
  [
    'a check of a server',
    () => inspector({ baseUrl: 'http://a', token: 'a' }, { authenticate, check: true }),
  ],
  [
    'a check of an object without one',
    () => inspector({ as: (as) => engine.as(as) }, { authenticate, check: true }),
  ],
  ['no engine', () => inspector(undefined as never, { authenticate })],
  ['a server without a token', () => inspector({ baseUrl: 'http://a', token: '' }, { authenticate })],
  [
    'a token that no header can have',
    () => inspector({ baseUrl: 'http://a', token: 'a\nb' }, { authenticate }),
  ],
  ['a server with another scheme', () => inspector({ baseUrl: 'ftp://a', token: 'a' }, { authenticate })],
])('refuses %s', (_case, make) => {
  expect(make).toThrow(expect.objectContaining({ reason: 'INVALID_ARGUMENT' }))
})

test.each(forms)(
  'the inspector of %s ends a stream when its request aborts, even if no other code references it',
  async (_form, make) => {
    const abort = new AbortController()
    const response = await make()(
      new Request(`http://localhost:8080/v1/sessions/${session.id}/bus`, {
        headers: { authorization: `Bearer ${token}` },
        signal: abort.signal,
      }),
    )
    const reader = response.body!.getReader()
    await session.bus.publish({ topic: 't', payload: 'x' })
    expect((await reader.read()).done).toBe(false)
    const end = (async () => {
      while (!(await reader.read()).done) continue
    })().catch(() => undefined)
    for (let index = 0; index < 3; index++) await letGo()
    abort.abort()
    await end
  },
)

test('the inspector of an engine adds the principals of events, page by page', async () => {
  const handle = inspector(engine, { authenticate })
  const changed = await engine.as(caller).sessions.create({ files: { '/a': '1' } })
  const bob = await engine.as({ tenant: 'acme', principal: 'bob' }).sessions.open(changed.id)
  await bob.files.write({ path: '/a', content: '2' })
  await changed.files.write({ path: '/a', content: '3' })
  const all: unknown[] = []
  for (let pageToken = ''; ;) {
    const query = `pageSize=2&pageToken=${encodeURIComponent(pageToken)}`
    const { text, status } = await call(handle, `/v1/sessions/${changed.id}/events?${query}`)
    expect(status).toBe(200)
    const page = JSON.parse(text) as { events: { principal: string }[]; nextPageToken: string }
    all.push(...page.events.map(({ principal }) => principal))
    pageToken = page.nextPageToken
    if (pageToken === '') break
  }
  expect(all).toEqual(['ann', 'bob', 'ann'])
  const newest = (await changed.events.list()).events.at(-1)!
  const since = `/v1/sessions/${changed.id}/events?startTime=${newest.timestamp}&pageSize=1000`
  expect(JSON.parse((await call(handle, since)).text)).toMatchObject({
    events: expect.arrayContaining([{ ...newest }]) as object,
  })
  expect(await call(handle, `/v1/sessions/${changed.id}/events?pageSize=x`)).toMatchObject({ status: 400 })
})

function fail(): never {
  throw new Error('the log is down')
}
