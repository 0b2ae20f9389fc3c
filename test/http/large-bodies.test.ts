/** Bodies that are read in parts decode to the same values as whole ones. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { Decoder } from '../../src/adapters/http/operations/decode.js'
import { HttpError } from '../../src/adapters/http/http-error.js'
import { jsonLimits } from '../../src/adapters/http/limits.js'
import { schemas } from '../../src/engine/contract.js'
import { inGroup } from '../../src/engine/ports.js'
import { isLong, runs, seed } from '../support/seed.js'
import { openServer, refusalIn } from '../support/http-server.js'

const { applyBatch, patchSegments, createSession } = schemas

/** The sender of a body that no other tenant disturbs. */
const alone = { tenant: 'a', clock: performance }

/** The native value, decoded independently; or the error. */
function expected(schema: z.ZodType, body: Buffer): unknown {
  try {
    const wire = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)) as object
    return z.decode(schema, { ...wire, sessionId: 's' })
  } catch {
    return 'refused'
  }
}

async function given(schema: z.ZodType<object>, body: Buffer): Promise<unknown> {
  try {
    return await new Decoder().decode(schema, body, { sessionId: 's' }, alone)
  } catch (error) {
    if (error instanceof HttpError && error.code === 3) return 'refused'
    throw error
  }
}

class Random {
  #state: number

  constructor(state: number) {
    this.#state = state >>> 0
  }

  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0
    return Math.floor((this.#state / 2 ** 32) * limit)
  }

  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!
  }
}

const pieces = [
  'a',
  'b"',
  '\\',
  '\\\\"',
  '/',
  'ä',
  '€',
  '😀',
  '\n',
  '\u2028',
  '{"',
  '[[',
  ']',
  '},',
  ',',
  ':',
  '\ud83d',
]

/** The remaining characters of a body; values are small when none are left. */
let left = 0

function lengthOf(random: Random): number {
  const length = left > 0 ? random.of(lengths) : random.below(3)
  left -= length
  return length
}

function countOf(random: Random, counts: readonly number[]): number {
  return left > 0 ? random.below(random.of(counts)) : 0
}

function randomText(random: Random, length: number): string {
  let text = ''
  while (text.length < length) text += random.of(pieces).repeat(1 + random.below(random.below(50) + 1))
  return text
}

function randomBase64(random: Random, length: number): string {
  const bytes = Buffer.alloc(length, randomText(random, 50))
  return random.of([bytes.toString('base64'), bytes.toString('base64url')])
}

const lengths = [0, 1, 3, 40, 4090, 4096, 5000, 30_000, 33_000, 70_000]

function randomValue(random: Random, depth: number): unknown {
  const kind = random.below(depth > 0 ? 7 : 4)
  if (kind === 0) return random.of([null, true, false, 0, -1.5e300, 12_345])
  if (kind < 3) return randomText(random, lengthOf(random))
  if (kind === 3) return randomBase64(random, lengthOf(random))
  left -= 3
  const count = countOf(random, [1, 4, 30, 700])
  if (kind < 6) return Array.from({ length: count }, () => randomValue(random, depth - 2))
  const entries = Array.from({ length: Math.min(count, 40) }, () => {
    const name = random.of([
      'a',
      'b',
      '__proto__',
      'constructor',
      '1',
      '0',
      randomText(random, random.of([1, 50, 1000])),
    ])
    return [name, randomValue(random, depth - 2)] as const
  })
  return Object.fromEntries(entries)
}

/** Writes each value and each separator in a random form. */
function text(random: Random, value: unknown): string {
  const space = (): string => ' \n\t\r'.repeat(2).slice(0, random.below(2) * random.below(8))
  if (Array.isArray(value))
    return `[${value.map((one) => space() + text(random, one) + space()).join(',')}${space()}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).map(
      ([key, one]) => `${space()}${JSON.stringify(key)}${space()}:${space()}${text(random, one)}`,
    )
    // Occasionally repeats a name.
    if (fields.length > 0 && random.below(4) === 0) fields.push(random.of(fields))
    return `{${fields.join(',')}${space()}}`
  }
  if (typeof value !== 'string') return JSON.stringify(value)
  const escape = random.below(4)
  if (escape === 0)
    return `"${JSON.stringify(value)
      .slice(1, -1)
      .replaceAll('/', String.raw`\/`)}"`
  if (escape === 1)
    return `"${Array.from({ length: value.length }, (_, at) => `\\u${value.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`
  return JSON.stringify(value)
}

function randomRequest(random: Random): readonly [z.ZodType<object>, unknown] {
  const chunk = (): object => ({
    data: { offset: String(random.below(1000)), content: randomBase64(random, lengthOf(random)) },
  })
  left = 300_000
  const many = random.of([0, 1, 5, 40])
  const path = (): string => `/${randomText(random, random.of([1, 10, 5000])).replaceAll('\ud83d', '')}`
  const write = (): object => ({
    write: {
      path: path(),
      content: randomBase64(random, lengthOf(random)),
      unknown: randomValue(random, 4),
    },
  })
  const segments = (): object => ({
    path: path(),
    segments: Array.from({ length: random.of([0, 3, 501, 1200]) }, () => ({
      hole: { length: random.below(9) },
    })),
  })
  const which = random.below(3)
  if (which === 0)
    return [
      applyBatch.request,
      { operations: Array.from({ length: many }, write), unknown: randomValue(random, 6) },
    ]
  if (which === 1) {
    const mutations = Array.from({ length: many }, () =>
      random.below(2) === 0 ? segments() : { path: path(), segments: [chunk()] },
    )
    return [patchSegments.request, { unknown: randomValue(random, 6), mutations }]
  }
  const initialTags = Object.fromEntries(
    Array.from({ length: many }, (_, index) => [
      random.of([`k${index}`, '__proto__']),
      randomText(random, lengthOf(random)),
    ]),
  )
  return [createSession.request, { initialTags, a: randomValue(random, 8) }]
}

/** Members with different names of at least this length. */
function namesFrom(length: number, count: number): string {
  return Array.from({ length: count }, (_, n) => `"${String(n).padEnd(length, 'n')}":1`).join(',')
}

describe('a random body', () => {
  test('decodes to the same value as when it is parsed as a whole', async () => {
    for (let run = 0; run < runs(400); run++) {
      const random = new Random(seed + run)
      const [schema, value] = randomRequest(random)
      const body = Buffer.from(text(random, value))
      try {
        expect(isDeepStrictEqual(await given(schema, body), expected(schema, body))).toBe(true)
      } catch (error) {
        throw new Error(`seed ${seed}, run ${run}`, { cause: error })
      }
      await nextTurn()
    }
  })

  test('that is damaged is rejected exactly when it is rejected as a whole', async () => {
    for (let run = 0; run < runs(1000); run++) {
      const random = new Random(seed + 10_000 + run)
      const [schema, value] = randomRequest(random)
      const body = Buffer.from(text(random, value))
      const at = random.below(body.length)
      // Damages structural characters as often as others.
      const structure = ['{', '}', '[', ']', ',', ':', '"']
        .map((one) => body.indexOf(one, at))
        .filter((place) => place >= 0)
      const place = random.below(2) === 0 && structure.length > 0 ? random.of(structure) : at
      const damage = random.below(3)
      const sign = Buffer.from(
        random.of(['{', '}', '[', ']', ',', ':', '"', '\\', ' ', '0', 'a', '\u0001', 'null']),
      )
      const damaged =
        damage === 0
          ? Buffer.concat([body.subarray(0, place), body.subarray(place + 1)])
          : Buffer.concat([body.subarray(0, place), sign, body.subarray(place + (damage === 1 ? 1 : 0))])
      try {
        expect(isDeepStrictEqual(await given(schema, damaged), expected(schema, damaged))).toBe(true)
      } catch (error) {
        throw new Error(`seed ${seed}, run ${run}`, { cause: error })
      }
      await nextTurn()
    }
  })
})

describe('a large body', () => {
  const filler = 'x'.repeat(200_000)
  const part = `"u":{"a":["${filler}","${filler}"],"b":1}`

  test.each([
    ['two lists without a comma', `{"operations":[],"u":[["${filler}"]["${filler}"]]}`],
    ['a value before a list', `{"operations":[],"u":[5["${filler}"]]}`],
    ['a value after a list', `{"operations":[],"u":[["${filler}"]5]}`],
    ['a list without a name', `{"operations":[],["${filler}"]}`],
    ['a list with two names', `{"operations":[],"a":"b":["${filler}"]}`],
    ['an extra comma', `{"operations":[],"u":["${filler}",${'1,'.repeat(40_000)}]}`],
    ['an extra leading comma', `{"operations":[],"u":[,"${filler}"${',1'.repeat(40_000)}]}`],
    ['two commas', `{"operations":[],"u":[${'1,'.repeat(40_000)},1,"${filler}"]}`],
    ['mismatched brackets', `{"operations":[],${part.replace(']', '}')}}`],
    ['an extra bracket', `{"operations":[],${part}}}`],
    ['a missing bracket', `{"operations":[],${part}`],
    ['two objects', `{"operations":[],${part}}{}`],
    ['leading text', `x{"operations":[],${part}}`],
    ['an unterminated string', `{"operations":[],${part},"${filler}`],
    ['a control character in a string', `{"operations":[{"delete":{"path":"${filler}\n"}}]}`],
    ['a bad escape', String.raw`{"operations":[{"delete":{"path":"${filler}\x"}}]}`],
    ['a truncated escape', String.raw`{"operations":[{"delete":{"path":"${filler}\u12"}}]}`],
    ['only a list', `["${filler}"]`],
    ['deep nesting', `{"operations":[],"s":"${filler}","u":${'['.repeat(64)}${']'.repeat(64)}}`],
  ])('rejects %s', async (_what, body) => {
    expect(await given(applyBatch.request, Buffer.from(body))).toBe('refused')
  })

  test.each([
    [
      'operations[1].write.content',
      [{ delete: { path: '/a' } }, { write: { path: '/a', content: `${'A'.repeat(200_000)}*` } }],
    ],
    ['operations[0].write.content', [{ write: { path: '/a', content: `é${'A'.repeat(200_000)}` } }]],
    [
      'operations[700].delete.path',
      Array.from({ length: 701 }, (_, at) => ({ delete: { path: at === 700 ? 5 : filler.slice(0, 500) } })),
    ],
    ['operations[2]', [{ delete: { path: filler } }, {}, { unknown: {} }]],
    [
      'operations[0].segmentWrite.segments[600].data.offset',
      [
        {
          segmentWrite: {
            path: filler,
            segments: Array.from({ length: 601 }, (_, at) => ({ data: { offset: at === 600 ? '-1' : '1' } })),
          },
        },
      ],
    ],
    [
      'operations[600].segmentWrite.segments[501].data.offset',
      Array.from({ length: 601 }, (_, operation) => ({
        segmentWrite: {
          path: filler.slice(0, 500),
          segments: Array.from({ length: operation === 600 ? 502 : 1 }, (_segment, at) => ({
            data: { offset: at === 501 ? '-1' : '1' },
          })),
        },
      })),
    ],
  ])('names the invalid field: %s', async (field, operations) => {
    await expect(
      (async () =>
        new Decoder().decode(
          applyBatch.request,
          Buffer.from(JSON.stringify({ operations })),
          {
            sessionId: 's',
          },
          alone,
        ))(),
    ).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT', metadata: { field } })
  })

  test.each([
    ['lists', '250000', (count: number) => '[],'.repeat(count - 3)],
    ['objects', '250000', (count: number) => '{},'.repeat(count - 3)],
    ['commas', '500000', (count: number) => '1,'.repeat(count - 1)],
    ['names', '2000', (count: number) => `{${namesFrom(0, count - 2)}},`],
    // Equal names in a different order cost the parser as much as new names.
    [
      'orders of names',
      '2000',
      (count: number) =>
        Array.from({ length: count - 52 }, (_, n) => `{"n${n % 50}":1,"m${Math.floor(n / 50)}":1},`).join(''),
    ],
    ['long names', '2000', (count: number) => `{${namesFrom(300, count - 2)}},`],
  ])('rejects too many %s with its limit', async (_what, limit, repeated) => {
    const body = (count: number): Buffer => Buffer.from(`{"operations":[],"u":[${repeated(count)}1]}`)
    const decode = async (count: number): Promise<unknown> =>
      new Decoder().decode(applyBatch.request, body(count), { sessionId: 's' }, alone)
    expect(await decode(Number(limit))).toEqual({ operations: [], sessionId: 's' })
    await expect(decode(Number(limit) + 2)).rejects.toMatchObject({
      reason: 'TOO_LARGE',
      metadata: { field: 'body', limit },
    })
  })

  test.runIf(isLong)('accepts the maximum number of segments', async () => {
    const hash = `sha256:${'0'.repeat(64)}`
    const segments = Array.from({ length: 100_000 }, (_, at) => ({
      borrowed: { offset: String(at), length: '1', hash, casOffset: '1' },
    }))
    const body = Buffer.from(JSON.stringify({ mutations: [{ path: '/a', segments }] }))
    const decoded = (await given(patchSegments.request, body)) as { mutations: { segments: unknown[] }[] }
    expect(decoded.mutations[0]!.segments).toHaveLength(100_000)
  })

  test('decodes the body of a tenant before the earlier ones of another tenant', async () => {
    const decoder = new Decoder()
    const operations = Array.from({ length: 1000 }, (_, at) => ({
      write: { path: `/f${at}`, content: 'QUJD'.repeat(500) },
    }))
    const body = Buffer.from(JSON.stringify({ operations }))
    const order: string[] = []
    const decode = async (tenant: string): Promise<void> => {
      const clock = inGroup({ now: () => performance.now() }, { name: tenant, origin: performance })
      await decoder.decode(applyBatch.request, body, { sessionId: 's' }, { tenant, clock })
      order.push(tenant)
    }
    await Promise.all([...Array.from({ length: 10 }, () => 'a'), 'b'].map(decode))
    expect(order).toHaveLength(11)
    expect(order.indexOf('b')).toBeLessThan(5)
  })

  test('does not block other requests', async () => {
    await using server = await openServer()
    const { id } = await server.session()
    const operations = Array.from({ length: 1000 }, (_, at) => ({
      write: { path: `/f${at}`, content: 'QUJD'.repeat(4000) },
    }))
    let finished = false
    const large = server.call('POST', `/v1/sessions/${id}/batch`, { operations }).finally(() => {
      finished = true
    })
    let answered = 0
    while (!finished) {
      expect((await server.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
      answered++
    }
    expect((await large).body).toEqual({})
    expect(answered).toBeGreaterThan(3)
    const read = await server.call('POST', `/v1/sessions/${id}:readFile`, { path: '/f999' })
    expect(read.body).toMatchObject({ content: 'QUJD'.repeat(4000), sizeBytes: '12000' })
  })
})

describe('the body size', () => {
  test('is limited, with or without a content-length', async () => {
    const limit = 1000
    await using server = await openServer({ handler: { limits: { bodyBytes: limit } } })
    const { id } = await server.session()
    for (const path of [
      `/v1/sessions/${id}/checkpoints`,
      `/v1/sessions/${id}/batch`,
      '/v1/sources/x/startImport',
    ]) {
      for (const size of [limit, limit + 1]) {
        const body = `{"x":"${'x'.repeat(size - 8)}"}`
        const streamed = new Blob([body.slice(0, 700), body.slice(700)]).stream()
        for (const sent of [body, streamed]) {
          for (const call of sent === body ? [server.call, server.fetch] : [server.call]) {
            const answer = await call('POST', path, sent)
            const tooLarge = { status: 413, code: 8, reason: 'BODY_TOO_LARGE', limit: String(limit) }
            expect([path, size, answer.status === 413 ? refusalIn(answer) : 'read']).toEqual([
              path,
              size,
              size > limit ? tooLarge : 'read',
            ])
          }
        }
      }
    }
  })

  test('is checked before the body is read', async () => {
    await using server = await openServer()
    const { id } = await server.session()
    const head = server.head(
      'POST',
      `/v1/sessions/${id}/batch`,
      'content-type: application/json',
      `content-length: ${2 ** 31}`,
    )
    expect(await server.raw(head, '"BODY_TOO_LARGE"')).toMatch(/^HTTP\/1.1 413 /)
    const waiting = server.head(
      'POST',
      `/v1/sessions/${id}/batch`,
      'content-type: application/json',
      `content-length: ${2 ** 31}`,
      'expect: 100-continue',
    )
    const answer = await server.raw(waiting, '"BODY_TOO_LARGE"')
    expect(answer).toMatch(/^HTTP\/1.1 413 /)
  })

  test('of an endless body is cut off', async () => {
    await using server = await openServer()
    const { id } = await server.session()
    const socket = await server.open()
    socket.on('error', () => undefined)
    const before = process.memoryUsage().rss
    let sent = 0
    let answer = ''
    socket.on('data', (piece: Buffer) => (answer += piece.toString()))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(
      server.head(
        'POST',
        `/v1/sessions/${id}/checkpoints`,
        'content-type: application/json',
        'transfer-encoding: chunked',
      ),
    )
    const piece = Buffer.from(`100000\r\n${'x'.repeat(2 ** 20)}\r\n`)
    const pump = (): void => {
      while (!socket.destroyed && sent < 2 ** 30 && socket.write(piece)) sent += piece.length
    }
    socket.on('drain', pump)
    pump()
    await closed
    expect(answer).toMatch(/^HTTP\/1.1 413 /)
    expect(sent).toBeLessThan(200 * 2 ** 20)
    expect(process.memoryUsage().rss - before).toBeLessThan(400 * 2 ** 20)
  })

  test('of all requests together is limited', async () => {
    await using server = await openServer({ handler: { limits: { allBodyBytes: 100_000 } } })
    const { id } = await server.session()
    const body = { label: 'x', other: 'x'.repeat(150_000) }
    expect(refusalIn(await server.call('POST', `/v1/sessions/${id}/checkpoints`, body))).toEqual({
      status: 429,
      code: 8,
      reason: 'QUOTA',
      limit: '100000',
    })
    const small = { label: 'x', other: 'x'.repeat(80_000) }
    for (let round = 0; round < 5; round++)
      expect(
        (await server.call('POST', `/v1/sessions/${id}/checkpoints`, { ...small, label: `${round}` })).status,
      ).toBe(200)
  })

  test('of a content in a response is limited', async () => {
    await using server = await openServer({ handler: { limits: { responseContentBytes: 1000 } } })
    const session = await server.session({ '/large': 'x'.repeat(1001), '/fits': 'x'.repeat(1000) })
    const read = (body: object): ReturnType<typeof server.call> =>
      server.call('POST', `/v1/sessions/${session.id}:readFile`, body)
    expect((await read({ path: '/fits' })).status).toBe(200)
    expect((await read({ path: '/large', length: '1000' })).body).toMatchObject({ sizeBytes: '1001' })
    expect((await read({ path: '/large', offset: '1' })).status).toBe(200)
    for (const length of [undefined, '1001', '9223372036854775807'.slice(0, 15)])
      expect(refusalIn(await read({ path: '/large', length }))).toEqual({
        status: 400,
        code: 3,
        reason: 'TOO_LARGE',
        field: 'length',
        limit: '1000',
      })
    await session.files.patchSegments({ mutations: [{ path: '/huge', segments: [], logicalSize: 2 ** 22 }] })
    expect(refusalIn(await read({ path: '/huge', offset: '5' }))).toMatchObject({ reason: 'TOO_LARGE' })
    const earlier = await server.call('POST', `/v1/sessions/${session.id}:readFileAt`, {
      path: '/huge',
      at: {},
    })
    expect(refusalIn(earlier)).toMatchObject({ reason: 'TOO_LARGE', field: 'length' })
    await session.cache.put({ key: 'k', value: 'x'.repeat(600) })
    const keys = (...keys: string[]): ReturnType<typeof server.call> =>
      server.call('POST', `/v1/sessions/${session.id}/cache/batch-get`, { keys })
    expect((await keys('k')).status).toBe(200)
    expect(refusalIn(await keys('k', 'k'))).toMatchObject({ reason: 'TOO_LARGE', field: 'keys' })
  })
})

test('a list whose elements have long and short lists decodes correctly', async () => {
  const chunk = { data: { offset: '0', content: Buffer.alloc(300, 'x').toString('base64') } }
  const mutations = [jsonLimits.stepElements + 1, 1].map((count) => ({
    path: '/a',
    segments: Array.from({ length: count }, () => chunk),
  }))
  const body = Buffer.from(JSON.stringify({ mutations }))
  expect(body.length).toBeGreaterThan(jsonLimits.atOnceBytes)
  const decoded = await given(patchSegments.request, body)
  expect(decoded).not.toBe('refused')
  expect(decoded).toEqual(expected(patchSegments.request, body))
})
