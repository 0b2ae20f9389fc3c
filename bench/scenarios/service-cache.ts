import { openEngine, type Session } from 'forkspace'
import { LRUCache } from 'lru-cache'
import { expect, race, type Contestant } from '../support/measure.js'
import { contents, shuffled } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row } from '../support/scenario.js'

const valueBytes = 200
const maxBytes = 64 * 2 ** 20

/** The calls of a map that both sides support. Those of a session are asynchronous. */
interface Store {
  put(key: string, value: Buffer): Promise<void> | void
  get(key: string): Promise<Uint8Array> | Uint8Array
}

/**
 * `session.cache`, with each call awaited, compared with its alternatives: a map that holds the caller's own buffers,
 * and a bounded cache of such buffers.
 */
export async function* cache(context: Context): AsyncGenerator<Row> {
  const count = context.count(20_000)
  const names = Array.from({ length: count }, (_, i) => `build/${i % 100}/${i}`)
  await using engine = await openEngine()
  const peers: Record<string, () => Store> = {
    Map: () => {
      const map = new Map<string, Buffer>()
      return { put: (key, value) => void map.set(key, value), get: (key) => map.get(key)! }
    },
    'lru-cache': () => {
      const lru = new LRUCache<string, Buffer>({ maxSize: maxBytes, sizeCalculation: sizeOf })
      return { put: (key, value) => void lru.set(key, value), get: (key) => lru.get(key)! }
    },
  }
  const ours = async (): Promise<Store> => asStore(await engine.sessions.create())
  for (const name of ['put', 'get'] as const) {
    const contestants = { ours: operations(names, ours)[name] } as Record<string, Contestant>
    for (const [peer, open] of Object.entries(peers)) contestants[peer] = operations(names, open)[name]
    const timings = await race(contestants, { rounds: context.rounds })
    for (const peer of Object.keys(peers)) {
      yield timingRow({
        what: `cache: ${name}, ${count} entries of ${valueBytes} B`,
        ours: timings['ours']!,
        peer: { name: peer, timing: timings[peer]! },
        clock: 'cpu',
      })
    }
  }
}

function asStore({ cache }: Session): Store {
  return {
    put: (key, value) => cache.put({ key, value }),
    get: async (key) => (await cache.get({ key })).value,
  }
}

function sizeOf(value: Buffer, key: string): number {
  return value.length + key.length
}

function operations(
  names: readonly string[],
  open: () => Promise<Store> | Store,
): Record<'put' | 'get', Contestant> {
  const order = shuffled(names)
  const values = contents(names.length, valueBytes)
  let store: Store
  const start = async (): Promise<void> => {
    store = await open()
  }
  const putAll = async (): Promise<void> => {
    for (let i = 0; i < order.length; i++) {
      const pending = store.put(order[i]!, values[i]!)
      if (pending !== undefined) await pending
    }
  }
  return {
    put: { count: names.length, prepare: start, run: putAll },
    get: {
      count: names.length,
      prepare: async () => {
        await start()
        await putAll()
      },
      run: async () => {
        let bytes = 0
        for (const name of names) {
          const found = store.get(name)
          bytes += (found instanceof Promise ? await found : found).length
        }
        expect(bytes === names.length * valueBytes, 'the gets returned the wrong number of bytes')
      },
    },
  }
}
