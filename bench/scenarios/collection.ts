import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openEngine, type Storage, type Store } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import type { CollectReport } from '../support/collect-and-report.js'
import { singleRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const files = 100
const kept = 10

/** Events of the histories of which memory and time are measured; each is ten times the one before. */
const histories = [10_000, 100_000, 1_000_000]
/** In the short form. */
const shortHistories = [50, 500]

/** How large a store is after a collection, as a multiple of what is live: contents and the public events. */
const target = { atMost: 2 }

/** A long history of which little is kept. */
export const collection: Scenario = {
  name: 'collection',
  title: 'A session of many edits with a checkpoint each, pruned to the last ten and collected',
  async *run(context) {
    yield* history(context, context.count(10_000))
    yield* growth(context)
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

/**
 * Time and memory of a collection, alone and beside two writers, in processes of their own. The time of each event and
 * the memory are compared with those of a history of a tenth: in bounded memory both ratios stay near 1.
 */
async function* growth(context: Context): AsyncGenerator<Row> {
  for (const what of ['collect', 'collect-beside']) {
    const name = what === 'collect' ? 'collect' : 'collect beside writers'
    let smaller: { readonly perEvent: number; readonly report: CollectReport } | undefined
    for (const events of context.smoke ? shortHistories : histories) {
      const directory = join(context.directory, `${what}-${events}`)
      await inProcess('make', events, directory)
      const report = JSON.parse(await inProcess(what, events, directory)) as CollectReport
      const perEvent = report.tookMs / events
      const row = (text: string, unit: Row['unit'], figure: number): Row =>
        singleRow(`${name}, ${events} events: ${text}`, unit, figure)
      yield row('time', 'time', report.tookMs)
      yield row('heap', 'bytes', report.heapBytes)
      yield row('resident memory', 'bytes', report.rssBytes)
      if (what === 'collect-beside') yield row('writes meanwhile', 'count', report.writes)
      if (smaller !== undefined) {
        yield row('time of each, by that of a tenth', 'count', perEvent / smaller.perEvent)
        yield row(
          'heap, by that of a tenth',
          'count',
          report.heapBytes / Math.max(1, smaller.report.heapBytes),
        )
        yield row(
          'memory, by that of a tenth',
          'count',
          report.rssBytes / Math.max(1, smaller.report.rssBytes),
        )
      }
      smaller = { perEvent, report }
    }
  }
}

async function inProcess(what: string, events: number, directory: string): Promise<string> {
  const script = join(import.meta.dirname, '../support/collect-and-report.js')
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--expose-gc',
    script,
    what,
    String(events),
    directory,
  ])
  return stdout
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
