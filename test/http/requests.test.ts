/** Bodies, fields and queries of requests, and the requests that are rejected. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Session } from '../../src/index.js'
import { caller, openServer, refusalIn, type TestServer } from '../support/http-server.js'

let server: TestServer
let session: Session
let id: string

beforeAll(async () => {
  server = await openServer()
  session = await server.session({ '/a': 'one', '/dir/b': 'two' })
  id = session.id
})
afterAll(() => server[Symbol.asyncDispose]())

const entryPoints = [
  ['a server', (...request: Parameters<TestServer['call']>) => server.call(...request)],
  ['fetch', (...request: Parameters<TestServer['fetch']>) => server.fetch(...request)],
] as const

const invalid = (field: string): object => ({ status: 400, code: 3, reason: 'INVALID_ARGUMENT', field })

describe.each(entryPoints)('through %s:', (_entryPoint, call) => {
  describe('a body', () => {
    test.each([
      ['text', 'x'],
      ['an incomplete JSON value', '{"a":'],
      ['two values', '{} {}'],
      ['a trailing comma', '{"a":1,}'],
      ['a comment', '{}//'],
      ['NaN', '{"a":NaN}'],
      ['a control character', '{"a":"\n"}'],
      ['white space', '  '],
      ['a byte order mark', '\ufeff{}'],
      ['a list', '[]'],
      ['null', 'null'],
      ['a string', '"x"'],
      ['a number', '1'],
      ['deep nesting', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`],
      ['very deep nesting', `{"a":${'['.repeat(100_000)}`],
      ['very deep nesting in a large body', `{"p":"${'x'.repeat(3000)}","a":${'{"a":'.repeat(100_000)}`],
      ['invalid UTF-8', new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
      ['an encoded surrogate', new Uint8Array([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d])],
      ['UTF-16', new Uint8Array([0x7b, 0, 0x7d, 0])],
    ])('of %s is rejected', async (_what, body) => {
      const answer = await call('POST', `/v1/sessions/${id}/checkpoints`, body)
      expect(refusalIn(answer)).toMatchObject(invalid('body'))
    })

    test('with a long unknown name is accepted', async () => {
      const body = `{"${'n'.repeat(5000)}":1}`
      expect((await call('POST', '/v1/sessions', body)).status).toBe(200)
    })

    test('at the maximum depth is accepted', async () => {
      const deep = `{"label":"d","a":${'['.repeat(63)}${']'.repeat(63)}}`
      expect((await call('POST', '/v1/sessions', deep)).status).toBe(200)
      const inStrings = JSON.stringify({ initialTags: { a: '[{'.repeat(200) } })
      expect((await call('POST', '/v1/sessions', inStrings)).status).toBe(200)
      const escaped = String.raw`{"initialTags":{"a":"\"[[[\\\"{{{\\"}}`
      expect((await call('POST', '/v1/sessions', escaped)).body).toMatchObject({
        tags: { a: String.raw`"[[[\"{{{` + '\\' },
      })
    })

    test('that is empty means an object without fields', async () => {
      for (const [body, headers] of [
        [undefined, undefined],
        ['', { 'content-type': 'application/json' }],
        ['{}', undefined],
      ] as const)
        expect((await call('POST', '/v1/sessions', body, headers)).status).toBe(200)
      expect(refusalIn(await call('POST', `/v1/sessions/${id}:rename`))).toEqual(invalid('sourcePath'))
      expect((await call('POST', `/v1/sessions/${id}/generateCommitSummary`)).status).toBe(200)
    })

    test.each([
      'application/json',
      'application/json; charset=utf-8',
      'application/json;charset=UTF-8',
      'Application/JSON; charset="utf-8"',
    ])('accepts the type %s', async (type) => {
      expect((await call('POST', '/v1/sessions', '{}', { 'content-type': type })).status).toBe(200)
    })

    test.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=latin1',
      'application/json-patch+json',
      'application/jsonx',
      'text/plain; application/json',
      'application/json, text/plain',
    ])('rejects the type %s', async (type) => {
      const answer = await call('POST', '/v1/sessions', '{}', { 'content-type': type })
      expect(refusalIn(answer)).toEqual({
        status: 415,
        code: 3,
        reason: 'UNSUPPORTED_MEDIA_TYPE',
        field: 'content-type',
      })
    })

    test('cannot be compressed', async () => {
      const answer = await call('POST', '/v1/sessions', '{}', { 'content-encoding': 'gzip' })
      expect(refusalIn(answer)).toMatchObject({ status: 415, field: 'content-encoding' })
    })

    test('is ignored on a route that takes none', async () => {
      const answer = await call('DELETE', `/v1/sessions/${id}/cache/none`, '{', {
        'content-type': 'text/plain',
      })
      expect(answer.body).toEqual({})
    })

    test('has unknown fields ignored, except in operations and chunks', async () => {
      expect((await call('POST', '/v1/sessions', { unknown: 1, tags: {} })).status).toBe(200)
      const batch = (operation: object): ReturnType<typeof call> =>
        call('POST', `/v1/sessions/${id}/batch`, { operations: [operation] })
      const write = { path: '/w', content: '', other: 1 }
      expect((await batch({ write })).body).toEqual({})
      expect(refusalIn(await batch({ write, other: 1 }))).toEqual(invalid('operations[0]'))
      expect(refusalIn(await batch(JSON.parse('{"__proto__":{}}')))).toEqual(invalid('operations[0]'))
      const segmentWrite = { path: '/w', segments: [{ data: { offset: '0' }, other: {} }] }
      expect(refusalIn(await batch({ segmentWrite }))).toEqual(
        invalid('operations[0].segmentWrite.segments[0]'),
      )
    })

    test('may use any name as data, even __proto__; the last duplicate counts', async () => {
      const tags = '{"__proto__":"a","constructor":"b","toString":"c","x":"1","x":"2","5":"e"}'
      const { body } = await call('POST', '/v1/sessions', `{"initialTags":${tags}}`)
      const { id: made, tags: given } = body as { id: string; tags: object }
      expect(new Map(Object.entries(given))).toEqual(
        new Map([
          ['__proto__', 'a'],
          ['constructor', 'b'],
          ['toString', 'c'],
          ['x', '2'],
          ['5', 'e'],
        ]),
      )
      const again = await call('GET', `/v1/sessions/${made}`)
      expect(again.text).toContain('"__proto__":"a"')
    })

    // Bodies of these sizes take different code paths.
    test.each([0, 3000, 200_000])('of %i bytes cannot override the session of the path', async (size) => {
      const other = await server.session()
      const answer = await call('POST', `/v1/sessions/${id}/checkpoints`, {
        sessionId: other.id,
        label: `of ${_entryPoint}, ${size}`,
        padding: 'x'.repeat(size),
      })
      expect(answer.body).toMatchObject({ sessionId: id })
      const removed = await call('DELETE', `/v1/sessions/${id}/cache/a?sessionId=${other.id}&key=b`)
      expect(removed.status).toBe(200)
    })
  })

  describe('a field', () => {
    const chunk = (data: object): object => ({
      operations: [{ segmentWrite: { path: '/s', segments: [{ data }] } }],
    })

    test.each([
      '-1',
      '+1',
      '1.0',
      '1e3',
      '0x10',
      '01',
      ' 1',
      '',
      '9223372036854775808',
      -1,
      1.5,
      2 ** 53,
      1e300,
      null,
      true,
      {},
    ])('of 64 bits rejects %j', async (offset) => {
      expect(refusalIn(await call('POST', `/v1/sessions/${id}/batch`, chunk({ offset })))).toEqual(
        invalid('operations[0].segmentWrite.segments[0].data.offset'),
      )
    })

    test('of 64 bits is a decimal string or a number, and is returned as a string', async () => {
      for (const offset of ['3', 3]) {
        expect(
          (await call('POST', `/v1/sessions/${id}/batch`, chunk({ offset, content: 'eA==' }))).body,
        ).toEqual({})
        const read = await call('POST', `/v1/sessions/${id}:readFile`, { path: '/s', offset })
        expect(read.body).toMatchObject({ content: 'eA==', sizeBytes: '4' })
      }
      // More than a file may have, but a valid number.
      const far = await call(
        'POST',
        `/v1/sessions/${id}/batch`,
        chunk({ offset: '9223372036854775807', content: 'eA==' }),
      )
      expect(far.status).toBe(400)
      expect(refusalIn(far)).toMatchObject({ status: 400 })
      const lock = { path: '/a', kind: 'POSIX_LOCK_KIND_EXCLUSIVE', owner: { ownerId: 'o' } }
      const range = { start: '9223372036854775806', length: '1' }
      expect((await call('POST', `/v1/sessions/${id}:setPosixLock`, { ...lock, range })).body).toEqual({})
      const other = { ...lock, owner: { ownerId: 'p' }, range: { start: '0', length: '0' } }
      expect((await call('POST', `/v1/sessions/${id}:getPosixLock`, other)).body).toEqual({
        hasConflict: true,
        conflict: {
          kind: lock.kind,
          range,
          owner: { ownerId: 'o', pid: 0, clientId: '' },
          isFlock: false,
        },
      })
    })

    test.each(['*', 'a', 'abcde', 'ab==c', 'a b=', 'YQ=\n', 'YQ===', '=', 'é', 1, null, ['YQ==']])(
      'of bytes rejects %j',
      async (value) => {
        expect(refusalIn(await call('PUT', `/v1/sessions/${id}/cache/k`, { value }))).toEqual(
          invalid('value'),
        )
      },
    )

    test.each([
      ['YQ==', 'YQ=='],
      ['YQ', 'YQ=='],
      ['-_-_', '+/+/'],
      ['+/+/', '+/+/'],
      ['', ''],
    ])('of bytes accepts %j', async (value, given) => {
      expect((await call('PUT', `/v1/sessions/${id}/cache/k`, { value })).body).toEqual({})
      expect((await call('GET', `/v1/sessions/${id}/cache/k`)).body).toEqual({ value: given, found: true })
    })

    test.each([
      [{ path: 1 }, 'path'],
      [{ path: null }, 'path'],
      [{ path: '/x', mode: '420' }, 'mode'],
      [{ path: '/x', mode: 1.5 }, 'mode'],
      [{ path: '/x', mode: -1 }, 'mode'],
      [{ path: 'x' }, 'path'],
      [{ path: '/x/../y' }, 'path'],
      [{}, 'path'],
    ])('of a wrong type is named: %j', async (body, field) => {
      expect(refusalIn(await call('POST', `/v1/sessions/${id}/dirs`, body))).toEqual(invalid(field))
    })

    test('of a map must be a string', async () => {
      for (const initialTags of [{ a: 1 }, { a: null }, [], 'x', null])
        expect(refusalIn(await call('POST', '/v1/sessions', { initialTags }))).toEqual(invalid('initialTags'))
    })

    test('with a lone surrogate is rejected', async () => {
      const body = String.raw`{"path":"/\ud800"}`
      expect(refusalIn(await call('POST', `/v1/sessions/${id}/dirs`, body))).toEqual(invalid('path'))
    })
  })

  describe('a query', () => {
    const manifest = (query: string): ReturnType<typeof call> =>
      call('GET', `/v1/sessions/${id}/manifest${query}`)

    test('has numbers, booleans and text', async () => {
      const { body } = await manifest('?pathPrefix=%2Fdir&pageSize=1&includeCasExtents=true')
      expect(body).toMatchObject({
        nodes: [
          {
            path: '/dir',
            fileType: 'VFS_FILE_TYPE_DIRECTORY',
            sizeBytes: '0',
            contentHash: '',
            casExtents: [],
          },
        ],
      })
      const { nextPageToken } = body as { nextPageToken: string }
      expect(nextPageToken).not.toBe('')
      const second = await manifest(
        `?pathPrefix=%2Fdir&pageSize=1&includeCasExtents=true&pageToken=${encodeURIComponent(nextPageToken)}`,
      )
      expect(second.body).toMatchObject({
        nodes: [
          { path: '/dir/b', sizeBytes: '3', casExtents: [{ offset: '0', length: '3', casOffset: '0' }] },
        ],
        nextPageToken: '',
      })
    })

    test.each([
      ['?pageSize=x', 'pageSize'],
      ['?pageSize=1.5', 'pageSize'],
      ['?pageSize=-1', 'pageSize'],
      ['?pageSize=', 'pageSize'],
      ['?pageSize=1e3', 'pageSize'],
      ['?pageSize=99999999999999999999', 'pageSize'],
      ['?includeCasExtents=1', 'includeCasExtents'],
      ['?includeCasExtents=TRUE', 'includeCasExtents'],
      ['?pathPrefix=%2F&pathPrefix=%2F', 'pathPrefix'],
      ['?pageToken=%FF', 'pageToken'],
      ['?pageToken=nonsense', 'pageToken'],
      ['?%zz=1', 'query'],
    ])('is rejected: %s', async (query, field) => {
      expect(refusalIn(await manifest(query))).toEqual(invalid(field))
    })

    test.each([
      '?',
      '?&&',
      '?unknown=1&unknown=2',
      '?pageSize=0',
      '?__proto__=1',
      '?pathPrefix=/',
      '?pathPrefix',
    ])('is accepted: %s', async (query) => {
      expect((await manifest(query)).status).toBe(200)
    })

    test('decodes + to a space and %2B to a plus', async () => {
      for (const key of ['a b', 'a+b']) await session.cache.put({ key, value: '' })
      const keys = async (prefix: string): Promise<unknown> =>
        (await call('GET', `/v1/sessions/${id}/cache/keys?prefix=${prefix}`)).body
      expect(await keys('a+')).toMatchObject({ keys: ['a b'] })
      expect(await keys('a%20')).toMatchObject({ keys: ['a b'] })
      expect(await keys('a%2B')).toMatchObject({ keys: ['a+b'] })
      await session.cache.deleteByPrefix({ prefix: 'a' })
    })

    test('names the path to delete', async () => {
      await session.files.write({ path: '/del ete', content: 'x' })
      await session.files.createDirectory({ path: '/gone' })
      const files = `/v1/sessions/${id}/files`
      const wrong = await call('DELETE', `${files}?path=/del+ete&expectedHash=sha256:${'0'.repeat(64)}`)
      expect(refusalIn(wrong)).toMatchObject({
        status: 409,
        code: 10,
        reason: 'HASH_MISMATCH',
        path: '/del ete',
      })
      expect((await call('DELETE', `${files}?path=%2Fdel%20ete&expectedHash=`)).body).toEqual({})
      expect((await call('DELETE', `/v1/sessions/${id}/dirs?path=/gone`)).body).toEqual({})
      expect(refusalIn(await call('DELETE', files))).toEqual(invalid('path'))
    })

    test('accepts an empty scope', async () => {
      expect((await call('GET', `/v1/sessions/${id}/secrets?scope=`)).body).toEqual({ secrets: [] })
      expect(refusalIn(await call('GET', `/v1/sessions/${id}/secrets?scope=x`))).toEqual(invalid('scope'))
    })
  })

  describe('a response', () => {
    test('reveals a secret in only one place', async () => {
      const path = `/v1/sessions/${id}/secrets/${encodeURIComponent('a/b')}`
      const answers = [
        await call('PUT', path, { secretValue: 'canary-value' }),
        await call('GET', `/v1/sessions/${id}/secrets`),
        await call('GET', `/v1/sessions/${id}/events`),
        await call('PUT', path, '{"secretValue":"canary-value"'),
        await call('PUT', path, { secretValue: 'canary-value', scope: 'canary-value' }),
      ]
      expect(answers[0]!.body).toEqual({ secretName: 'a/b', scope: 'SECRET_SCOPE_SESSION' })
      for (const { text } of answers) expect(text).not.toContain('canary-value')
      expect((await call('GET', path)).body).toEqual({ secretName: 'a/b', secretValue: 'canary-value' })
      expect((await call('DELETE', path)).text).not.toContain('canary-value')
      expect(refusalIn(await call('GET', path))).toMatchObject({
        status: 404,
        code: 5,
        reason: 'SECRET_NOT_FOUND',
      })
    })

    test('with events does not name the principal', async () => {
      await session.files.rename({ sourcePath: '/a', destinationPath: '/a2' })
      await session.files.rename({ sourcePath: '/a2', destinationPath: '/a' })
      const { body } = await call('GET', `/v1/sessions/${id}/events?pageSize=10000`)
      const { events } = body as { events: object[] }
      for (const event of events)
        expect(Object.keys(event)).toEqual(['eventId', 'timestamp', 'eventType', 'details'])
    })

    test('contains every field, including empty ones', async () => {
      const fork = await session.fork()
      expect((await call('GET', `/v1/sessions/${fork.id}/analytics`)).body).toEqual({
        sessionId: fork.id,
        timeToFirstWriteMs: '0',
        totalFileMutations: '0',
        checkpointCount: '0',
        restoreCount: '0',
        lastReportedHealth: {
          status: 'STATUS_UNKNOWN',
          testsPassed: 0,
          testsFailed: 0,
          testsSkipped: 0,
          lastUpdatedAt: '',
        },
        completionTime: '',
      })
    })

    test('is the same for an id of another tenant as for an unknown one', async () => {
      const foreign = (await server.engine.as({ ...caller, tenant: 'other' }).sessions.create()).id
      const known = await call('GET', `/v1/sessions/${foreign}`)
      const unknown = await call('GET', `/v1/sessions/${'1'.repeat(36)}`)
      expect(known.status).toBe(404)
      expect(known.text.replaceAll(foreign, '')).toBe(unknown.text.replaceAll('1'.repeat(36), ''))
    })
  })
})

test('approval states map to status codes', async () => {
  const { approvalId } = (await server.call('POST', `/v1/sessions/${id}/request-approval`, {})).body as {
    approvalId: string
  }
  const grant = `/v1/sessions/${id}/approvals/${approvalId}/grant`
  expect((await server.call('POST', grant, {})).body).toEqual({})
  expect(refusalIn(await server.call('POST', grant, {}))).toMatchObject({
    status: 400,
    code: 9,
    reason: 'APPROVAL_NOT_PENDING',
  })
})

test.each([
  ['POST', 'dirs', { path: '/dir' }, 409, 6],
  ['POST', 'dirs', { path: '/none/x' }, 404, 5],
  ['DELETE', 'dirs?path=/dir', undefined, 400, 9],
  ['POST', 'dirs', { path: `/${'n'.repeat(256)}` }, 400, 3],
  ['GET', 'readSymlink?path=/dir/b', undefined, 400, 9],
  [
    'POST',
    'batch',
    { operations: [{ segmentWrite: { path: '/b', logicalSize: String(2 ** 50) } }] },
    400,
    11,
  ],
])('%s %s %j returns %i and %i', async (method, path, body, status, code) => {
  expect(refusalIn(await server.call(method, `/v1/sessions/${id}/${path}`, body))).toMatchObject({
    status,
    code,
  })
})
