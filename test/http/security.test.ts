/** Every route of the contract with invalid requests: it must answer correctly and change nothing. */
import { deepStrictEqual, ok } from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { HttpHandler } from '../../src/adapters/http/index.js'
import { contentRoutes, type ContentRouteName } from '../../src/engine/operations/content-routes.js'
import { capabilitiesOf, type Action } from '../../src/index.js'
import {
  responseOf,
  bodySchema,
  contract,
  problems,
  routes,
  type DescribedRoute,
} from '../support/contract-checks.js'
import {
  compatible,
  fieldName,
  positionsOf,
  remove,
  replaced,
  sampleOf,
  sampleText,
  wrongTexts,
  wrongValues,
} from '../support/contract-fields.js'
import { everythingOf, narrowBytes, openWorld, type Tenant, type World } from '../support/http-world.js'
import { isLong, stepOf } from '../support/seed.js'

interface Sent {
  readonly tenant?: Tenant
  readonly handler?: HttpHandler
  /** Path and query parameters that override those of the tenant. */
  readonly parameters?: Readonly<Record<string, string>>
  /** Appended to the query unencoded. */
  readonly rawQuery?: string
  readonly method?: string
  /** Text is sent unchanged, other values as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string | undefined>>
}

interface Status {
  readonly code: number
  readonly message: string
  readonly details: readonly [
    { readonly reason: string; readonly metadata: Readonly<Record<string, string>> },
  ]
}

interface Refusal {
  readonly http: number
  readonly headers: Headers
  readonly text: string
  readonly status: Status
}

let world: World
let before: unknown

beforeAll(async () => {
  world = await openWorld()
  before = await everything()
})
afterAll(async () => {
  try {
    await changesNothing()
  } finally {
    await world[Symbol.asyncDispose]()
  }
})
/** Reading everything costs more than most tests, so it happens once for several of them in `npm test`. */
let unread = 0
afterEach(async () => {
  if (++unread >= (isLong ? 1 : 10)) await changesNothing()
})
async function changesNothing(): Promise<void> {
  unread = 0
  const now = await everything()
  // An assertion costs more than the comparison itself.
  if (!isDeepStrictEqual(now, before)) expect(now).toEqual(before)
  expect(Object.keys(Object.prototype)).toEqual([])
}

async function everything(): Promise<unknown> {
  return [await everythingOf(world.ann), await everythingOf(world.eve)]
}

const label = ({ method, path }: DescribedRoute): string => `${method} ${path}`
const named = (list: readonly DescribedRoute[]): [string, DescribedRoute][] =>
  list.map((one) => [label(one), one])
const guarded = routes.filter(({ operation }) => operation.security === undefined)
const withBody = guarded.filter(({ operation }) => bodySchema(operation) !== undefined)
const parametersOf = ({ operation }: DescribedRoute, place: 'path' | 'query') =>
  (operation.parameters ?? []).filter((one) => one.in === place)

const nameNames = ['key', 'secretName']

/** A well-formed id that does not exist. */
const unknownId = '1kg9h1s000zzzzzzzzzzzzzzzzzzzzzzzzzz'

function send(route: DescribedRoute, sent: Sent = {}): Promise<Response> {
  const { tenant = world.ann, handler = world.handler, parameters = {}, rawQuery = '' } = sent
  const path = route.path.replaceAll(
    /\{(\w+)\}/g,
    (_all, name: string) => parameters[name] ?? encodeURIComponent(tenant.ids[name]!),
  )
  const query = parametersOf(route, 'query').flatMap(({ name, required, schema }) => {
    const value = parameters[name] ?? (required === true ? sampleText(schema) : undefined)
    return value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]
  })
  const headers = new Headers({ authorization: `Bearer ${tenant.token}` })
  const body = 'body' in sent ? sent.body : sampleBody(route)
  if (body !== undefined) headers.set('content-type', 'application/json')
  for (const [name, value] of Object.entries(sent.headers ?? {})) {
    if (value === undefined) headers.delete(name)
    else headers.set(name, value)
  }
  const isRaw = typeof body === 'string' || body instanceof Uint8Array || body instanceof ReadableStream
  return handler.fetch(
    new Request(`http://localhost${path}?${[...query, rawQuery].join('&')}`, {
      method: sent.method ?? route.method,
      headers,
      ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body), duplex: 'half' }),
    }),
  )
}

function sampleBody({ operation }: DescribedRoute): unknown {
  const schema = bodySchema(operation)
  return schema && sampleOf(schema)
}

/** Sends a request that must fail as the contract says, without internal details. */
async function refused(route: DescribedRoute, sent: Sent = {}): Promise<Refusal> {
  const response = await send(route, sent)
  const text = response.ok ? (await response.body?.cancel(), '') : await response.text()
  const asked = `${label(route)} ${JSON.stringify(sent.parameters ?? '')} ${JSON.stringify(sent.body)?.slice(0, 300)}: `
  const isRefused = response.status >= 400 && response.status < 500
  // Assertions cost more than the comparison itself, and there are thousands.
  ok(isRefused, `${asked}${response.status} ${text}`)
  const names = ['content-type', 'cache-control', 'x-content-type-options']
  const status = JSON.parse(text) as Status
  const found = {
    headers: names.map((name) => response.headers.get(name)),
    problems: problems({ $ref: '#/components/schemas/Status' }, status),
    inside: /node_modules|\.(?:js|ts):\d|\/src\/engine/.exec(text)?.[0],
    asked,
  }
  const right = {
    headers: ['application/json', 'no-store', 'nosniff'],
    problems: [],
    inside: undefined,
    asked,
  }
  deepStrictEqual(found, right)
  return { http: response.status, headers: response.headers, text, status }
}

/** Does the same as {@link refused}, and requires a status and reason that the contract lists for the operation. */
async function refusedAsDocumented(route: DescribedRoute, sent: Sent = {}): Promise<Refusal> {
  const refusal = await refused(route, sent)
  const [{ reason }] = refusal.status.details
  const answer = responseOf(route.operation, refusal.http)
  ok(answer?.['x-reasons']?.includes(reason), `${label(route)} ${refusal.text}`)
  return refusal
}

/** The status, the reason, and the field if there is one. */
function summaryOf({ http, status }: Refusal): string {
  const [{ reason, metadata }] = status.details
  return [http, reason, metadata['field'] ?? []].flat().join(' ')
}

test('has routes to test', () => {
  expect(guarded.length).toBeGreaterThan(75)
  expect(withBody.length).toBeGreaterThan(45)
})

describe('an invalid token gets the same rejection from', () => {
  const tokens = [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'token-of-ann',
    'Basic dG9rZW46b2Y=',
    'Token token-of-ann',
    'Bearertoken-of-ann',
    'Bearer token-of-ann x',
    'Bearer token-of-ann,Bearer token-of-ann',
    'Bearer "token-of-ann"',
    'Bearer token-of-an',
    'Bearer token-of-ann=',
    'Bearer Token-of-ann',
    'Bearer toke\u00f1-of-ann',
    `Bearer ${'a'.repeat(10_000)}`,
    'Bearer __proto__',
    'Bearer toString',
  ]

  test.each(named(guarded))('%s', async (_label, route) => {
    const answers = new Set<string>()
    for (const authorization of tokens) {
      const refusal = await refusedAsDocumented(route, { headers: { authorization } })
      expect(summaryOf(refusal)).toMatch(/^401 UNAUTHENTICATED\b/)
      expect(refusal.headers.get('www-authenticate')).toBe('Bearer')
      answers.add(refusal.text)
    }
    // The token is checked first.
    const parameters = Object.fromEntries(parametersOf(route, 'path').map(({ name }) => [name, '%']))
    const headers = { authorization: undefined, 'content-type': 'text/plain' }
    const wrong = route.method === 'GET' ? {} : { body: '{' }
    answers.add((await refusedAsDocumented(route, { headers, parameters, ...wrong })).text)
    expect([...answers]).toHaveLength(1)
  })

  test('except the contract itself', async () => {
    for (const route of routes.filter(({ operation }) => operation.security !== undefined)) {
      const response = await send(route, { headers: { authorization: undefined } })
      expect(response.status).toBe(200)
      expect(await response.json()).toEqual(contract)
    }
  })
})

describe('an id of another tenant is treated like an unknown one by', () => {
  const tenants = ['sessionId', 'sourceSessionId', 'sourceId']
  const targeted = guarded.filter((route) =>
    parametersOf(route, 'path').some(({ name }) => tenants.includes(name)),
  )

  test.each(named(targeted))('%s', async (_label, route) => {
    const names = parametersOf(route, 'path').map(({ name }) => name)
    const { ann, eve } = world
    const foreign = Object.fromEntries(names.map((name) => [name, ann.ids[name]!]))
    const unknown = Object.fromEntries(
      names.map((name) => [name, tenants.includes(name) ? unknownId : ann.ids[name]!]),
    )
    const body = validBody(route, eve)
    const answers = []
    for (const parameters of [foreign, unknown]) {
      const refusal = await refusedAsDocumented(route, { tenant: eve, parameters, ...(body && { body }) })
      expect(refusal.http, refusal.text).toBe(404)
      answers.push(withoutIds(refusal))
    }
    expect(answers[0]).toEqual(answers[1])
  })

  // Ids in bodies, in requests for the caller's own resources.
  const inBodies = withBody.flatMap((route) =>
    positionsOf(route.operation)
      .filter(({ path }) => ['sessionId', 'sourceId', 'checkpointId', 'lockId'].includes(String(path.at(-1))))
      .map(({ path }): [string, DescribedRoute, typeof path] => [
        `${label(route)} ${fieldName(path)}`,
        route,
        path,
      ]),
  )

  test.each(inBodies)('%s', async (_label, route, path) => {
    const name = String(path.at(-1))
    const { ann, eve } = world
    const answers = []
    for (const id of [ann.ids[name]!, unknownId]) {
      const body = replaced(compatible(validBody(route, eve) ?? {}, path), path, id)
      const refusal = await refusedAsDocumented(route, { tenant: eve, body })
      expect(refusal.http, refusal.text).toBe(404)
      answers.push(withoutIds(refusal))
    }
    expect(answers[0]).toEqual(answers[1])
  })

  test('the ids of revisions and contents', async () => {
    const { ann, eve } = world
    const create = routes.find(({ operation }) => operation.operationId === 'createSession')!
    const patch = routes.find(({ operation }) => operation.operationId === 'patchSegments')!
    const sourceId = eve.ids['sourceId']!
    const revisions = [ann.ids['revisionId']!, '0'.repeat(64)].map((revisionId) =>
      refusedAsDocumented(create, { tenant: eve, body: { sourceRef: { sourceId, revisionId } } }),
    )
    const hashes = [await ann.session.files.contentHash('/file'), `sha256:${'0'.repeat(64)}`].map((hash) => {
      const segments = [{ borrowed: { offset: '0', length: '1', hash } }]
      return refusedAsDocumented(patch, { tenant: eve, body: { mutations: [{ path: '/new', segments }] } })
    })
    for (const pair of [revisions, hashes]) {
      const [foreign, unknown] = await Promise.all(pair)
      expect(foreign!.http, foreign!.text).toBe(404)
      expect(withoutIds(foreign!)).toEqual(withoutIds(unknown!))
    }
  })

  function withoutIds({ text, headers }: Refusal): object {
    const known = [unknownId, ...Object.values(world.ann.ids).filter((id) => id.length === unknownId.length)]
    const plain = known.reduce((all, id) => all.replaceAll(id, 'ID'), text)
    return [plain.replaceAll(/[\da-f]{64}/g, 'HASH'), [...headers]]
  }
})

describe('a denied capability is reported by name only, by', () => {
  // A sample uses the same time for both ends of a window.
  const parameters = { windowEnd: '2026-02-01T00:00:00Z', path: '/file' }

  test.each(named(guarded))('%s', async (_label, route) => {
    const id = route.operation.operationId.replace(/Alias$/, '')
    const action = id in contentRoutes ? contentRoutes[id as ContentRouteName].operation : (id as Action)
    for (const capability of capabilitiesOf(action)) {
      world.withheld.add(capability)
      const body = validBody(route, world.ann) ?? sampleBody(route)
      const { http, status } = await refusedAsDocumented(route, { body, parameters }).finally(() =>
        world.withheld.clear(),
      )
      const [{ reason, metadata }] = status.details
      const message = `${action} is not allowed: the option authorize denies it to the principal "ann"`
      expect([http, reason, metadata, status.message]).toEqual([
        403,
        'PERMISSION_DENIED',
        { action },
        message,
      ])
    }
  })
})

/** The first example of the contract, with the ids of a tenant. */
function validBody(route: DescribedRoute, { ids }: Tenant): object | undefined {
  const { examples = {} } = route.operation.requestBody?.content['application/json'] ?? {}
  const [example] = Object.values(examples)
  if (example === undefined) return undefined
  return JSON.parse(JSON.stringify(example.value), (key, value: unknown) => ids[key] ?? value) as object
}

describe('another host or origin is rejected by', () => {
  const hosts = [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil.example:80',
    'localhost:80:80',
    'localhost@evil.example',
    '0.0.0.0',
    '[::2]',
    'xlocalhost',
  ]
  const origins = ['https://evil.example', 'null', 'http://localhost', 'http://localhost:80', 'file://', '']

  test.each(named(routes))('%s', async (_label, route) => {
    for (const host of hosts)
      expect(summaryOf(await refusedAsDocumented(route, { headers: { host } }))).toMatch(
        /^403 HOST_NOT_ALLOWED\b/,
      )
    for (const origin of origins) {
      const refusal = await refusedAsDocumented(route, { headers: { origin } })
      expect(summaryOf(refusal)).toMatch(/^403 ORIGIN_NOT_ALLOWED\b/)
      expect([...refusal.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })
})

describe('a body that is too large or not JSON is rejected by', () => {
  const types = [
    undefined,
    '',
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=a',
    'application/jsonp',
    'application/json; charset=iso-8859-1',
    'application/json, text/plain',
    'application/octet-stream',
  ]
  const texts = [
    '{',
    'null',
    '[]',
    '[{}]',
    '"a"',
    '5',
    'true',
    '{}{}',
    "{'a':1}",
    '{"a":1,}',
    '\ufeff{}',
    'NaN',
  ]

  test.each(named(withBody))('%s', async (_label, route) => {
    for (const type of types) {
      // Sent as bytes, for which fetch sets no content type.
      const refusal = await refusedAsDocumented(route, {
        headers: { 'content-type': type },
        body: Buffer.from('{}'),
      })
      expect(summaryOf(refusal)).toMatch(/^415 UNSUPPORTED_MEDIA_TYPE\b/)
    }
    const encoded = await refusedAsDocumented(route, { headers: { 'content-encoding': 'gzip' } })
    expect(summaryOf(encoded)).toMatch(/^415 UNSUPPORTED_MEDIA_TYPE\b/)
    for (const body of texts)
      expect(summaryOf(await refusedAsDocumented(route, { body }))).toBe('400 INVALID_ARGUMENT body')
    const deep = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    for (const body of [Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d), deep])
      expect(summaryOf(await refusedAsDocumented(route, { body }))).toMatch(/^400 INVALID_ARGUMENT\b/)
    const large = JSON.stringify({ a: 'a'.repeat(narrowBytes) })
    const { narrow: handler } = world
    const announced = { handler, body: large, headers: { 'content-length': String(large.length) } }
    expect(summaryOf(await refusedAsDocumented(route, announced))).toMatch(/^413 BODY_TOO_LARGE\b/)
    expect(summaryOf(await refusedAsDocumented(route, { handler, body: large }))).toMatch(
      /^413 BODY_TOO_LARGE\b/,
    )
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(1024).fill(0x20)),
    })
    expect(summaryOf(await refusedAsDocumented(route, { handler, body: endless }))).toMatch(
      /^413 BODY_TOO_LARGE\b/,
    )
  })
})

describe('a value of a wrong type is rejected with its field name by', () => {
  test.each(named(withBody))('%s', async (_label, route) => {
    const sample = sampleBody(route)
    for (const { path, schema, required } of positionsOf(route.operation)) {
      for (const value of wrongValues(schema).filter((_, index) => index % stepOf(3) === 0)) {
        const body = replaced(compatible(sample, path), path, value)
        const refusal = await refusedAsDocumented(route, { body })
        expect(summaryOf(refusal)).toBe(`400 INVALID_ARGUMENT ${fieldName(path)}`)
      }
      if (!required) continue
      const missing = await refusedAsDocumented(route, { body: replaced(sample, path, remove) })
      expect(summaryOf(missing)).toBe(`400 INVALID_ARGUMENT ${fieldName(path)}`)
    }
  })

  const withQuery = guarded.filter((route) => parametersOf(route, 'query').length > 0)

  test.each(named(withQuery))('%s', async (_label, route) => {
    const query = parametersOf(route, 'query')
    for (const { name, schema } of query) {
      for (const value of wrongTexts(schema).filter((_, index) => index % stepOf(3) === 0)) {
        const refusal = await refusedAsDocumented(route, { parameters: { path: '/file', [name]: value } })
        expect(summaryOf(refusal)).toBe(`400 INVALID_ARGUMENT ${name}`)
      }
      for (const raw of [`${name}=%`, `${name}=%ff`])
        expect(summaryOf(await refusedAsDocumented(route, { rawQuery: raw }))).toBe(
          `400 INVALID_ARGUMENT ${name}`,
        )
    }
    for (const { name, schema } of query.filter(({ schema }) => schema['type'] !== 'array')) {
      const once = `${name}=${encodeURIComponent(sampleText(schema))}`
      const refusal = await refusedAsDocumented(route, { rawQuery: `${once}&${once}` })
      expect(summaryOf(refusal)).toBe(`400 INVALID_ARGUMENT ${name}`)
    }
    const [needed] = query.filter(({ required }) => required)
    const bare = { ...route, operation: { ...route.operation, parameters: parametersOf(route, 'path') } }
    const missing = needed && summaryOf(await refusedAsDocumented(bare))
    expect(missing).toBe(needed && `400 INVALID_ARGUMENT ${needed.name}`)
  })
})

describe('names of JavaScript properties are ordinary keys for', () => {
  const keys = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty']
  const targeted = withBody.filter((route) => parametersOf(route, 'path').length > 0)

  /** The same JSON with additional keys in each of its objects at any depth. */
  function polluted(value: unknown): string {
    if (Array.isArray(value)) return `[${value.map(polluted).join(',')}]`
    if (typeof value !== 'object' || value === null) return JSON.stringify(value)
    const own = Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}:${polluted(one)}`)
    const further = keys.map((key) => `"${key}":{"polluted":true,"sessionId":"a","path":"/a"}`)
    return `{${[...further, ...own].join(',')}}`
  }

  test.each(named(targeted))('%s', async (_label, route) => {
    const parameters = Object.fromEntries(parametersOf(route, 'path').map(({ name }) => [name, unknownId]))
    const body = validBody(route, world.ann)
    const { http, status, text } = await refusedAsDocumented(route, { parameters, body: polluted(body) })
    // Maps of strings reject these values; operations and chunks reject unknown keys.
    expect([400, 404], text).toContain(http)
    expect(status.message).not.toContain('polluted')
  })

  test('tags and labels', async () => {
    await using other = await openWorld()
    const json = '{"__proto__":"a","constructor":"b","toString":"c"}'
    for (const [path, body, field] of [
      ['/v1/sessions', `{"initialTags":${json}}`, 'tags'],
      ['/v1/sources', `{"displayName":"a","uploadedSnapshot":{},"labels":${json}}`, 'labels'],
    ] as const) {
      const response = await other.handler.fetch(
        new Request(`http://localhost${path}`, {
          method: 'POST',
          headers: { authorization: 'Bearer token-of-ann', 'content-type': 'application/json' },
          body,
        }),
      )
      expect(response.status).toBe(200)
      expect(await response.text()).toContain(`"${field}":${json}`)
    }
  })
})

describe('an unknown id is not found by', () => {
  const idNames = ['sessionId', 'sourceSessionId', 'sourceId', 'jobId', 'annotationId', 'approvalId']
  const ids = [
    unknownId,
    'x',
    '0',
    '%20',
    '%00',
    'a%2Fb',
    '%F0%9F%98%80',
    '..%2F..',
    '%252e%252e',
    '__proto__',
    'constructor',
    'x'.repeat(10_000),
  ]

  const targeted = guarded.filter((route) =>
    parametersOf(route, 'path').some(({ name }) => idNames.includes(name)),
  )

  test.each(named(targeted))('%s', async (_label, route) => {
    const body = validBody(route, world.ann)
    for (const { name } of parametersOf(route, 'path').filter(({ name }) => idNames.includes(name))) {
      for (const id of ids) {
        const refusal = await refusedAsDocumented(route, {
          parameters: { [name]: id },
          ...(body && { body }),
        })
        expect(refusal.http, refusal.text).toBe(404)
        expect(refusal.status.code).toBe(5)
      }
      // Segments that the Fetch API removes from a URL select no other route.
      for (const id of ['..', '%2e%2e', '.', '%2E']) {
        const refusal = await refused(route, { parameters: { [name]: id }, ...(body && { body }) })
        expect([404, 405], refusal.text).toContain(refusal.http)
      }
      for (const id of ['%', '%zz', '%ff', '%c0%af']) {
        const refusal = await refusedAsDocumented(route, {
          parameters: { [name]: id },
          ...(body && { body }),
        })
        expect(summaryOf(refusal)).toBe('400 INVALID_ARGUMENT url')
      }
    }
  })
})

describe('an invalid name is rejected by', () => {
  const targeted = guarded.filter((route) =>
    parametersOf(route, 'path').some(({ name }) => nameNames.includes(name)),
  )

  test.each(named(targeted))('%s', async (_label, route) => {
    const { name } = parametersOf(route, 'path').find(({ name }) => nameNames.includes(name))!
    for (const value of ['x'.repeat(10_000), '%', '%ff']) {
      const refusal = await refusedAsDocumented(route, { parameters: { [name]: value } })
      expect(refusal.http, refusal.text).toBe(400)
    }
    for (const value of ['..', '%2e%2e', '']) {
      const refusal = await refused(route, { parameters: { [name]: value } })
      expect([404, 405], refusal.text).toContain(refusal.http)
    }
  })
})

describe('other methods are rejected by', () => {
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'LOCK', 'QUERY']
  const paths = [...new Set(routes.map(({ path }) => path))]

  test.each(paths)('%s', async (path) => {
    const own = routes.filter((route) => route.path === path)
    const allowed = own.map(({ method }) => method)
    for (const method of methods.filter((method) => !allowed.includes(method))) {
      // `/cache/{key}` also matches `/cache/keys`.
      if (shadowed(path, method)) continue
      const body = method === 'GET' ? undefined : '{}'
      const refusal = await refused(own[0]!, { method, body })
      expect(summaryOf(refusal)).toMatch(/^405 METHOD_NOT_ALLOWED\b/)
      expect(refusal.status.code).toBe(12)
      const allow = refusal.headers.get('allow')?.split(', ')
      expect(allow).toEqual(expect.arrayContaining(allowed))
      expect(allow).not.toContain(method)
    }
  })
})

describe('similar paths are not routes:', () => {
  test.each(named(guarded))('%s', async (_label, route) => {
    const near = [
      `${route.path}/`,
      `${route.path}/x`,
      `/${route.path}`,
      route.path.replace('/v1/', '/V1/'),
      route.path.replace('/v1/', '/v2/'),
      route.path.replace('/v1/', '/'),
      `/x${route.path}`,
      route.path.replace(/([a-zA-Z])$/, '$1:x'),
      `${route.path}%2F`,
      `${route.path};x=1`,
    ]
    // Names may contain any character.
    for (const path of near.filter((path) => path !== route.path && !isOfNames(path))) {
      const refusal = await refused({ ...route, path })
      expect([400, 404, 405], `${path} ${refusal.text}`).toContain(refusal.http)
    }
  })
})

/** Whether a path with this method matches another route. */
function shadowed(path: string, method: string): boolean {
  return routes.some((route) => route.method === method && formOf(route).test(path))
}

function isOfNames(path: string): boolean {
  const ofNames = routes.filter((route) =>
    parametersOf(route, 'path').some(({ name }) => nameNames.includes(name)),
  )
  return ofNames.some((route) => formOf(route).test(path))
}

function formOf({ path }: DescribedRoute): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
}
