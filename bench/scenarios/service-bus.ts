import { EventEmitter, on } from 'node:events'
import { openEngine, type Engine } from 'forkspace'
import { expect, race, type Contestant } from '../support/measure.js'
import { contents } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row } from '../support/scenario.js'

const payloadBytes = 200

/** One message, from the publish call to its receipt by the last subscriber. */
export async function* bus(context: Context): AsyncGenerator<Row> {
  await using engine = await openEngine()
  const [payload] = contents(1, payloadBytes)
  for (const [subscribers, full] of [
    [1, 20_000],
    [10, 5000],
    [1000, 100],
  ] as const) {
    const count = context.count(full)
    const timings = await race(
      {
        ours: throughBus(engine, subscribers, count, payload!),
        iterated: throughEmitter(subscribers, count, payload!),
        called: throughListeners(subscribers, count, payload!),
      },
      { rounds: context.rounds },
    )
    const what = `publish of ${payloadBytes} B to ${subscribers.toLocaleString('en')}`
    for (const [name, timing] of [
      ['events.on', timings.iterated],
      ['EventEmitter.emit', timings.called],
    ] as const)
      yield timingRow({ what, ours: timings.ours, peer: { name, timing } })
  }
}

function throughBus(engine: Engine, subscribers: number, count: number, payload: Uint8Array): Contestant {
  let publish: () => Promise<unknown>
  let reading: Promise<number>[] = []
  return {
    count,
    prepare: async () => {
      const session = await engine.sessions.create()
      publish = () => session.bus.publish({ topic: 'tests:done', payload })
      const read = async (): Promise<number> => {
        let bytes = 0
        let left = count
        for await (const message of session.bus.subscribe({ topics: ['tests:done'] })) {
          bytes += message.payload.length
          if (--left === 0) break
        }
        return bytes
      }
      reading = Array.from({ length: subscribers }, read)
    },
    run: async () => {
      for (let i = 0; i < count; i++) await publish()
      for (const bytes of await Promise.all(reading))
        expect(bytes === count * payload.length, 'bytes are missing')
    },
  }
}

/** Each listener iterates and copies the payload, because subscribers of the bus receive copies too. */
function throughEmitter(subscribers: number, count: number, payload: Uint8Array): Contestant {
  let emitter: EventEmitter
  let reading: Promise<number>[] = []
  return {
    count,
    prepare: async () => {
      emitter = new EventEmitter()
      emitter.setMaxListeners(0)
      const read = async (): Promise<number> => {
        let bytes = 0
        let left = count
        for await (const [message] of on(emitter, 'tests:done') as AsyncIterable<[Uint8Array]>) {
          bytes += new Uint8Array(message).length
          if (--left === 0) break
        }
        return bytes
      }
      reading = Array.from({ length: subscribers }, read)
    },
    run: async () => {
      for (let i = 0; i < count; i++) {
        emitter.emit('tests:done', payload)
        await Promise.resolve()
      }
      for (const bytes of await Promise.all(reading))
        expect(bytes === count * payload.length, 'bytes are missing')
    },
  }
}

/** Synchronous listeners share one payload. This is the lowest cost of a delivery. */
function throughListeners(subscribers: number, count: number, payload: Uint8Array): Contestant {
  let emitter: EventEmitter
  let bytes = 0
  return {
    count,
    prepare: async () => {
      emitter = new EventEmitter()
      emitter.setMaxListeners(0)
      bytes = 0
      for (let i = 0; i < subscribers; i++) {
        emitter.on('tests:done', (message: Uint8Array) => {
          bytes += message.length
        })
      }
    },
    run: async () => {
      for (let i = 0; i < count; i++) emitter.emit('tests:done', payload)
      expect(bytes === count * subscribers * payload.length, 'bytes are missing')
    },
  }
}
