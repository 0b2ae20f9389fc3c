/**
 * Creates a long history, or runs a collection on one and prints its cost. Each runs in its own process. Arguments:
 * `make`, `collect` or `collect-beside` (with concurrent writers), the number of events, and the storage directory.
 */
import { openEngine, type Engine } from 'forkspace'
import { levelStorage } from 'forkspace/level'

/** Bytes and milliseconds. */
export interface CollectReport {
  readonly tookMs: number
  /** The peak during the collection, minus the value before it. */
  readonly heapBytes: number
  readonly rssBytes: number
  readonly freedBytes: number
  /** Writes of the concurrent writers. */
  readonly writes: number
}

const writesAtOnce = 500
const files = 1000
const looksEveryMs = 10

const [what = '', events = '', directory = ''] = process.argv.slice(2)
const engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
if (what === 'make') await make(engine, Number(events))
else console.log(JSON.stringify(await collect(engine, what === 'collect-beside')))
await engine.close()

async function make(engine: Engine, events: number): Promise<void> {
  const session = await engine.sessions.create()
  for (let from = 0; from < events; from += writesAtOnce) {
    const numbers = Array.from({ length: Math.min(writesAtOnce, events - from) }, (_, i) => from + i)
    await Promise.all(
      numbers.map((i) => session.files.write({ path: `/d${i % 37}/f${i % files}`, content: `content ${i}` })),
    )
  }
}

async function collect(engine: Engine, beside: boolean): Promise<CollectReport> {
  let over = false
  let writes = 0
  const writer = async (): Promise<void> => {
    const session = await engine.sessions.create()
    while (!over) await session.files.write({ path: `/f${writes % files}`, content: `written ${writes++}` })
  }
  globalThis.gc!()
  const before = process.memoryUsage()
  let [heapUsed, rss] = [before.heapUsed, before.rss]
  const timer = setInterval(() => {
    const now = process.memoryUsage()
    heapUsed = Math.max(heapUsed, now.heapUsed)
    rss = Math.max(rss, now.rss)
  }, looksEveryMs)
  const writers = beside ? Promise.all([writer(), writer()]) : undefined
  const { tookMs, freedBytes } = await engine.collect()
  over = true
  await writers
  clearInterval(timer)
  return { tookMs, freedBytes, writes, heapBytes: heapUsed - before.heapUsed, rssBytes: rss - before.rss }
}
