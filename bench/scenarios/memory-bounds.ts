import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { MemoryReport } from '../support/report-memory.js'
import { singleRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const megabyte = 2 ** 20
const sessions = 10_000
const baseFiles = 50_000
const treeFiles = 1_000_000
/** The files in a smoke run, enough for several pages. */
const fewTreeFiles = 3000
/** Growth of the process in bytes, and the time to open in milliseconds. */
const targets = { sessions: 200 * megabyte, tree: 400 * megabyte, open: 250 }

/** Memory of many sessions and large trees on disk, and the time to use them. Each measurement runs in its own process. */
export const memoryBounds: Scenario = {
  name: 'memory-bounds',
  title: 'Process memory with many sessions and large trees on disk (relaxed), without mapped files',
  async *run(context) {
    yield* manySessions(context)
    for (const what of ['directory', 'tree'] as const) yield* largeTree(context, what)
  },
}

async function* manySessions(context: Context): AsyncGenerator<Row> {
  const count = context.count(sessions)
  const report = await measure(context, 'sessions', count, context.count(baseFiles))
  const named = (what: string): string => `${count} sessions: ${what}`
  const row = (what: string, figure: string, atMost?: number): Row =>
    singleRow(
      named(what),
      figure.endsWith('Ms') ? 'time' : 'bytes',
      Math.max(0, report[figure]!),
      atMost === undefined ? undefined : { atMost },
    )
  yield row('fork and 3 writes, per session', 'createMs')
  yield row('growth, with handles of all sessions', 'grown', targets.sessions)
  yield row('growth, without handles', 'withoutHandles', targets.sessions)
  yield row('read in an earlier session', 'readMs')
  yield row('open the engine', 'openMs', targets.open)
  yield row('growth after opening', 'opened')
  yield row('open a session, first read', 'firstReadMs')
  yield row('growth, after a read in every session', 'allRead', targets.sessions)
}

async function* largeTree(context: Context, what: 'directory' | 'tree'): AsyncGenerator<Row> {
  const count = context.smoke ? fewTreeFiles : treeFiles
  // The process that creates the tree keeps some memory, so another process uses it.
  const made = await measure(context, what, count)
  const report = { ...made, ...(await measure(context, `used-${what}`, count)) }
  const place = what === 'directory' ? 'in one directory' : 'in a tree'
  const row = (text: string, figure: string, atMost?: number): Row =>
    singleRow(
      `${count} files ${place}: ${text}`,
      figure.endsWith('Ms') ? 'time' : 'bytes',
      Math.max(0, report[figure]!),
      atMost === undefined ? undefined : { atMost },
    )
  yield row('write in batches, per file', 'createMs')
  yield row('growth after writing', 'created', targets.tree)
  yield row('open, first read', 'openMs', targets.open)
  yield row('growth after opening', 'opened')
  yield row('page of 1,000 of the manifest', 'pageMs')
  yield row('growth after all pages', 'listed', targets.tree)
  yield row('stat', 'statMs')
  yield row('write', 'writeMs')
  yield row('fork', 'forkMs')
  yield row('first write in a fork', 'forkWriteMs')
  yield row('diff of one change', 'diffMs')
  yield row('growth at the end', 'used', targets.tree)
}

async function measure(context: Context, what: string, count: number, base = 0): Promise<MemoryReport> {
  const script = join(import.meta.dirname, '../support/report-memory.js')
  const args = [
    '--expose-gc',
    script,
    what,
    String(count),
    String(base),
    join(context.directory, what.replace('used-', '')),
  ]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return JSON.parse(stdout) as MemoryReport
}
