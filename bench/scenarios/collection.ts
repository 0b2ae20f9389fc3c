import { join } from 'node:path'
import { openEngine, type Storage, type Store } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { singleRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const files = 100
const kept = 10

/** How large a store is after a collection, as a multiple of what is live: contents and the public events. */
const target = { atMost: 2 }

/** A long history of which little is kept. */
export const collection: Scenario = {
  name: 'collection',
  title: 'A session of many edits with a checkpoint each, pruned to the last ten and collected',
  async *run(context) {
    yield* history(context, context.count(10_000))
  },
}

async function* history(context: Context, edits: number): AsyncGenerator<Row> {
  const storage = levelStorage(join(context.directory, 'data'), { durability: 'relaxed' })
  let store: Store | undefined
  const observed: Storage = { open: async () => (store = await storage.open()) }
  const engine = await openEngine({ storage: observed })
  const session = await engine.sessions.create()
  for (let i = 0; i < edits; i++) {
    await session.files.write({ path: `/src/${i % files}.ts`, content: contentOf(i) })
    await session.checkpoint()
  }
  yield singleRow(`store before, ${edits} edits`, 'bytes', await store!.size!())
  await session.pruneCheckpoints({ keepLast: kept })
  const start = performance.now()
  const collected = await engine.collect()
  yield singleRow(`collect, per edit, ${edits} edits`, 'time', (performance.now() - start) / edits)
  yield singleRow('freed', 'bytes', collected.freedBytes)
  const stored = await store!.size!()
  yield singleRow('store after', 'bytes', stored)
  let live = 0
  for (let i = Math.max(0, edits - files - kept); i < edits; i++) live += contentOf(i).length
  const bytes = await bytesOfLog(store!, session.id)
  yield singleRow('public events', 'bytes', bytes)
  yield singleRow('live contents', 'bytes', live)
  const what = 'store after, by live contents and public events'
  yield singleRow(what, 'count', stored / (live + bytes), context.smoke ? undefined : target)
  yield singleRow('what else there is, by live contents', 'count', (stored - live - bytes) / live)
  await engine.close()
}

function contentOf(i: number): string {
  return `content ${i} `.repeat(400)
}

async function bytesOfLog(store: Store, sessionId: string): Promise<number> {
  let bytes = 0
  for await (const page of store.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY })) {
    for (const { body } of page)
      bytes += JSON.stringify(typeof body[5] === 'string' ? body : body.slice(0, 5)).length
  }
  return bytes
}
