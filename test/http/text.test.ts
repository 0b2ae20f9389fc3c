/** Every string of every response reaches the client unchanged. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { parseOptions } from '../../src/adapters/client/options.js'
import { Transport } from '../../src/adapters/client/transport.js'
import { responseEncoder } from '../../src/adapters/http/operations/encode.js'
import { MessageStream } from '../../src/adapters/http/operations/message-stream.js'
import { Room } from '../../src/adapters/http/server/room.js'
import { runAtOnce } from '../../src/engine/ports.js'
import { operations, schemas, type Operation, type OperationName } from '../../src/engine/contract.js'
import { openRemote } from '../support/remote.js'
import { hostileText, valuesOf } from '../support/schema-values.js'
import { seed } from '../support/seed.js'

const names = Object.keys(operations) as OperationName[]

function isStream(name: OperationName): boolean {
  const operation: Operation = operations[name]
  return operation.stream === true
}

/** A client whose server responds with this body. */
function clientOf(body: string | Uint8Array<ArrayBuffer>): Transport {
  const fetch = (): Promise<Response> => Promise.resolve(new Response(body))
  return new Transport(parseOptions({ baseUrl: 'http://localhost', token: 't', fetch }))
}

function requestOf(name: OperationName): never {
  const [request] = fc.sample(valuesOf(schemas[name].request, fc.constant('x')), { numRuns: 1, seed })
  return request as never
}

const toWire = (name: OperationName, value: unknown): unknown =>
  z.encode(schemas[name].response as z.ZodType, value)

describe('a client reads the written values of', () => {
  test.each(names.filter((name) => !isStream(name)))('%s', async (name) => {
    const encoder = responseEncoder(name)
    await fc.assert(
      fc.asyncProperty(valuesOf(schemas[name].response), async (response) => {
        const json = encoder.encode(response as object)
        const wire = toWire(name, response)
        expect(JSON.parse(Buffer.from(json as string).toString())).toEqual(wire)
        const read = await clientOf(json as string).call(name, requestOf(name))
        expect(toWire(name, read)).toEqual(wire)
      }),
      { seed, numRuns: 15 },
    )
  })

  test.each(names.filter(isStream))('the stream of %s', async (name) => {
    await fc.assert(
      fc.asyncProperty(fc.array(valuesOf(schemas[name].response), { maxLength: 5 }), async (items) => {
        const stream = new MessageStream(listed(items as object[]), responseEncoder(name), {
          room: new Room(1).of('acme'),
          sent: () => undefined,
          end: () => undefined,
        })
        const pieces: Uint8Array[] = []
        for (let piece; (piece = await stream.next()) !== undefined;) pieces.push(piece)
        const { signal } = new AbortController()
        const read = await clientOf(Buffer.concat(pieces)).open(name, requestOf(name), signal)
        const received: unknown[] = []
        for await (const item of read.items) received.push(toWire(name, item))
        expect(received).toEqual(items.map((item) => toWire(name, item)))
      }),
      { seed, numRuns: 50 },
    )
  })

  test.each(names.filter((name) => listsOf(name).length > 0))('%s, with long lists', (name) => {
    const encoder = responseEncoder(name)
    const [response] = fc.sample(valuesOf(schemas[name].response), { numRuns: 1, seed }) as object[]
    expect(encoder.isLong(response!)).toBe(false)
    for (const [key, { element }] of listsOf(name)) {
      const elements = fc.sample(valuesOf(element as z.ZodType), { numRuns: 51, seed })
      const list = Array.from({ length: 501 }, (_, index) => elements[index % elements.length])
      Object.assign(response!, { [key]: list })
    }
    expect(encoder.isLong(response!)).toBe(true)
    const json = runAtOnce(encoder.inSteps(response!))
    expect(JSON.parse(Buffer.from(json as string).toString())).toEqual(toWire(name, response))
  })
})

function listsOf(name: OperationName): [string, z.ZodArray][] {
  const schema: z.ZodType = schemas[name].response
  const fields = schema instanceof z.ZodObject ? Object.entries<z.ZodType>(schema.shape) : []
  return fields.filter((entry): entry is [string, z.ZodArray] => entry[1] instanceof z.ZodArray)
}

test('omits fields that the schema does not have', () => {
  const value = { secretName: 'a', secretValue: { reveal: () => 'b' }, secretKey: 'c' }
  expect(responseEncoder('getSecret').encode(value)).toBe('{"secretName":"a","secretValue":"b"}')
})

/** Uses a real server with values that the engine accepts. */
test('a client reads back the values that it stored', { timeout: 60_000 }, async () => {
  const remote = await openRemote()
  try {
    const session = await remote.client.sessions.create()
    await fc.assert(
      fc.asyncProperty(hostileText, async (text) => {
        const value = text.toWellFormed()
        await session.secrets.put({ secretName: 'S', secretValue: value })
        expect((await session.secrets.get({ secretName: 'S' })).secretValue.reveal()).toBe(value)
        const { approvalId } = await session.approvals.request({ details: { summary: value } })
        const { approvals } = await session.approvals.list()
        expect(approvals.find((one) => one.approvalId === approvalId)).toMatchObject({ summary: value })
        const tags = Object.fromEntries([['__proto__', value.slice(0, 200)]])
        const { id } = await remote.client.sessions.create({ initialTags: tags })
        expect((await remote.client.sessions.get(id)).tags).toEqual(tags)
      }),
      { seed, numRuns: 25 },
    )
  } finally {
    await remote.close()
  }
})

async function* listed<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}
