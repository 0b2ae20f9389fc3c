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

/** Lengths in events of the histories that `growth` measures. Each is ten times the previous one. */
const histories = [10_000, 100_000, 1_000_000]
/** Lengths in a smoke run. */
const shortHistories = [50, 500]

/** The size of a store after a collection, as a multiple of its live data: contents and public events. */
const target = { atMost: 2 }

/** Collections of long histories with little live data. */
export const collection: Scenario = {
  name: 'collection',
  title: 'Collection of a session with many edits and checkpoints, after pruning to the last ten',
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
  yield singleRow(`store size before, ${edits} edits`, 'bytes', await store!.size!())
  await session.pruneCheckpoints({ keepLast: kept })
  const start = performance.now()
  const collected = await engine.collect()
  yield singleRow(`collect, time per edit, ${edits} edits`, 'time', (performance.now() - start) / edits)
  yield singleRow('freed bytes', 'bytes', collected.freedBytes)
  const stored = await store!.size!()
  yield singleRow('store size after', 'bytes', stored)
  let live = 0
  for (let i = Math.max(0, edits - files - kept); i < edits; i++) live += contentOf(i).length
  const bytes = await bytesOfLog(store!, session.id)
  yield singleRow('public events', 'bytes', bytes)
  yield singleRow('live contents', 'bytes', live)
  const what = 'store size after / (live contents + public events)'
  yield singleRow(what, 'count', stored / (live + bytes), context.smoke ? undefined : target)
  yield singleRow('other data / live contents', 'count', (stored - live - bytes) / live)
  await engine.close()
}

/**
 * Time and memory of a collection, alone and with two concurrent writers. Each collection runs in its own process. The
 * time per event and the memory are compared with those of the previous history, a tenth as long. Both ratios stay near
 * 1 if memory is bounded.
 */
async function* growth(context: Context): AsyncGenerator<Row> {
  for (const what of ['collect', 'collect-beside']) {
    const name = what === 'collect' ? 'collect' : 'collect with two writers'
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
      if (what === 'collect-beside') yield row('concurrent writes', 'count', report.writes)
      if (smaller !== undefined) {
        yield row('time per event / that of the previous history', 'count', perEvent / smaller.perEvent)
        yield row(
          'heap / that of the previous history',
          'count',
          report.heapBytes / Math.max(1, smaller.report.heapBytes),
        )
        yield row(
          'resident memory / that of the previous history',
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
