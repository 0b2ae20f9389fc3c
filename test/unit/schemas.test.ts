import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { schemas, statusSchema, wireJsonSchema } from '../../src/engine/contract.js'

const sessionId = '0'.repeat(36)
const seed = 20_260_131

const { applyBatch, patchSegments, readFile, getPosixLock, createSession, getSecret, subscribe } = schemas
const patch = (chunk: object): object => ({ sessionId, mutations: [{ path: '/a', segments: [chunk] }] })
const chunkOf = (input: object): object =>
  z.decode(patchSegments.request, patch(input) as z.input<typeof patchSegments.request>).mutations[0]!
    .segments[0]!
const issues = (schema: z.ZodType, input: unknown): (string | undefined)[] =>
  z.safeDecode(schema, input).error?.issues.map(({ path }) => path.join('.')) ?? []

describe('the wire format', () => {
  test('of bytes is base64 and round-trips', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (content) => {
        const response = { content, contentHash: '', sizeBytes: content.length }
        const wire = z.encode(readFile.response, response)
        expect(wire.content).toBe(Buffer.from(content).toString('base64'))
        expect(z.decode(readFile.response, wire)).toEqual(response)
      }),
      { seed },
    )
  })

  test('of a buffer view contains only that view', () => {
    const content = new Uint8Array([1, 2, 3, 4]).subarray(1, 3)
    expect(z.encode(readFile.response, { content, contentHash: '', sizeBytes: 2 }).content).toBe('AgM=')
  })

  test.each([
    ['', []],
    ['+/8=', [0xfb, 0xff]],
    ['-_8', [0xfb, 0xff]],
    ['-_8=', [0xfb, 0xff]],
    ['+/8', [0xfb, 0xff]],
    ['AA', [0]],
    ['AAAA', [0, 0, 0]],
  ])('of bytes accepts %j', (content, expected) => {
    expect(chunkOf({ data: { offset: '0', content } })).toEqual({
      data: { offset: 0, content: new Uint8Array(expected) },
    })
  })

  test.each([
    'A',
    'AAAAA',
    'AA=',
    'A===',
    '====',
    '=',
    'AA==AA==',
    'AA A',
    ' AAA',
    'AAA\n',
    'AA*A',
    'ÀAAA',
    'AAA\u0141',
    5,
    null,
  ])('of bytes rejects %j', (content) => {
    expect(issues(patchSegments.request, patch({ data: { offset: '0', content } }))).toEqual([
      'mutations.0.segments.0.data.content',
    ])
  })

  test('of bytes accepts only base64', () => {
    const alphabet = 'AZaz09+/-_=\n .*éŁ'.split('')
    const text = fc.array(fc.constantFrom(...alphabet), { maxLength: 9 }).map((parts) => parts.join(''))
    fc.assert(
      fc.property(text, (content) => {
        const good =
          /^(?:[\w+/-]{4})*(?:[\w+/-]{2}(?:==)?|[\w+/-]{3}=?)?$/.test(content) && !content.includes('\n')
        const found = issues(patchSegments.request, patch({ data: { offset: '0', content } }))
        expect(found.length === 0).toBe(good)
      }),
      { seed, numRuns: 5000 },
    )
  })

  test('of a 64-bit integer is a decimal string and round-trips', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (sizeBytes) => {
        const response = { content: new Uint8Array(), contentHash: '', sizeBytes }
        const wire = z.encode(readFile.response, response)
        expect(wire.sizeBytes).toBe(String(sizeBytes))
        expect(z.decode(readFile.response, wire)).toEqual(response)
      }),
      { seed },
    )
  })

  test.each([
    ['0', 0],
    [12, 12],
    ['9007199254740991', 2 ** 53 - 1],
    [2 ** 53 - 1, 2 ** 53 - 1],
    // The engine rejects this one.
    ['9223372036854775807', 2 ** 63],
  ])('of a 64-bit integer accepts %j', (offset, expected) => {
    expect(chunkOf({ hole: { offset, length: '1' } })).toEqual({ hole: { offset: expected, length: 1 } })
  })

  test.each([
    '',
    '-1',
    '1.0',
    '1e3',
    '0x1',
    '007',
    ' 1',
    '9223372036854775808',
    '1'.repeat(20),
    -1,
    1.5,
    2 ** 53,
    true,
    null,
    [1],
  ])('of a 64-bit integer rejects %j', (offset) => {
    expect(issues(patchSegments.request, patch({ hole: { offset, length: '1' } }))).toEqual([
      'mutations.0.segments.0.hole.offset',
    ])
  })

  test('of lock ranges is exact', () => {
    const range = { start: 2n ** 62n + 1n, length: 2n ** 62n - 1n }
    const wireRange = { start: '4611686018427387905', length: '4611686018427387903' }
    const rest = { kind: 'POSIX_LOCK_KIND_SHARED', isFlock: false } as const
    const owner = { ownerId: 'a', pid: 1, clientId: '' }
    const request = { sessionId, path: '/a', ...rest, range, owner }
    expect(z.encode(getPosixLock.request, request)).toEqual({ ...request, range: wireRange })
    expect(z.decode(getPosixLock.request, { ...request, range: wireRange })).toEqual(request)
    const response = { hasConflict: true, conflict: { ...rest, range, owner } }
    const wire = { hasConflict: true, conflict: { ...rest, range: wireRange, owner } }
    expect(z.encode(getPosixLock.response, response)).toEqual(wire)
    expect(z.decode(getPosixLock.response, wire)).toEqual(response)
    expect(z.encode(getPosixLock.response, { hasConflict: false })).toEqual({ hasConflict: false })
  })

  test('of a secret is its value', () => {
    const wire = z.encode(getSecret.response, { secretName: 's', secretValue: { reveal: () => 'hidden' } })
    expect(wire).toEqual({ secretName: 's', secretValue: 'hidden' })
    expect(z.decode(getSecret.response, wire).secretValue.reveal()).toBe('hidden')
  })

  test('of maps keeps every key', () => {
    const initialTags = JSON.parse('{"__proto__":"a","constructor":"b"}') as Record<string, string>
    const decoded = z.decode(createSession.request, { initialTags })
    expect(Object.entries(decoded.initialTags!)).toEqual([
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ])
    expect(issues(createSession.request, { initialTags: { a: 1 } })).toEqual(['initialTags'])
    expect(issues(createSession.request, { initialTags: [] })).toEqual(['initialTags'])
  })

  test('of a stream item is a result or an error', () => {
    const result = { messageId: '1', sessionId, topic: 't', senderId: 'a', publishedAt: '' }
    const wire = { result: { ...result, payload: 'AA==' } }
    expect(z.encode(subscribe.response, { result: { ...result, payload: new Uint8Array(1) } })).toEqual(wire)
    const error = { code: 8, message: 'slow', details: [{ reason: 'SLOW_CONSUMER' }] }
    expect(z.encode(subscribe.response, { error })).toEqual({ error })
    expect(z.decode(statusSchema, error)).toEqual(error)
  })
})

describe('fields', () => {
  test('that are unknown are ignored', () => {
    expect(
      z.decode(createSession.request, { extra: 1, sourceRef: { sourceId: 'a', more: 2 } } as never),
    ).toEqual({
      sourceRef: { sourceId: 'a' },
    })
  })

  test('that are unknown are rejected where they select an operation', () => {
    expect(issues(applyBatch.request, { sessionId, operations: [{ move: {} }] })).toEqual(['operations.0'])
    expect(issues(patchSegments.request, patch({ fill: {} }))).toEqual(['mutations.0.segments.0'])
    expect(
      issues(applyBatch.request, { sessionId, operations: [{ delete: { path: '/a', extra: 1 } }] }),
    ).toEqual([])
  })

  test('that are empty can be omitted', () => {
    expect(z.decode(applyBatch.request, { sessionId, operations: [{ write: { path: '/a' } }] })).toEqual({
      sessionId,
      operations: [{ write: { path: '/a', content: new Uint8Array() } }],
    })
    expect(chunkOf({ data: {} })).toEqual({ data: { offset: 0, content: new Uint8Array() } })
  })

  test('cannot be null', () => {
    expect(issues(readFile.request, { sessionId, path: '/a', offset: null })).toEqual(['offset'])
  })

  test('of a response are all required', () => {
    expect(
      z.safeEncode(readFile.response, { content: new Uint8Array(), contentHash: '' } as never).success,
    ).toBe(false)
  })
})

describe('the JSON Schema', () => {
  test('covers every request and response', () => {
    for (const { request, response } of Object.values(schemas)) {
      expect(wireJsonSchema(request)).toMatchObject({ type: 'object' })
      expect(wireJsonSchema(response)).toBeTypeOf('object')
    }
  })

  test('of bytes, integers, maps and extensions describes the wire format', () => {
    expect(wireJsonSchema(readFile.response)).toMatchObject({
      properties: {
        content: { type: 'string', contentEncoding: 'base64' },
        sizeBytes: { type: 'string', format: 'int64' },
      },
      required: ['content', 'contentHash', 'sizeBytes'],
    })
    expect(wireJsonSchema(createSession.response)).toMatchObject({
      properties: { tags: { type: 'object', additionalProperties: { type: 'string' } } },
    })
    expect(wireJsonSchema(subscribe.request)).toMatchObject({
      properties: { topicPatterns: { type: 'array', 'x-extension': true } },
      required: ['sessionId'],
    })
  })

  test('rejects types that it cannot represent', () => {
    expect(() => wireJsonSchema(z.object({ a: z.custom(() => true) }))).toThrow('cannot be represented')
  })
})
