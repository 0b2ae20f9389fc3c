import { Buffer } from 'node:buffer'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { buffer } from 'node:stream/consumers'
import { setTimeout as after } from 'node:timers/promises'
import {
  memoryStorage,
  openEngine,
  type BatchOperation,
  type SegmentChunk,
  type Session,
  type Storage,
} from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { collectGarbage, median } from '../support/measure.js'
import { projectPaths } from '../support/project-files.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const target = { atMost: 50 }

/** The longest time for which large operations keep timers and sockets waiting. */
export const pauses: Scenario = {
  name: 'pauses',
  title: 'Longest pause of the event loop during large operations, with those of the garbage collector',
  async *run(context) {
    const tar = await tarOf(context.count(50_000))
    for (const where of ['memory', 'disk (relaxed)']) {
      const found = new Map<string, number[]>()
      for (let round = 0; round < Math.min(context.rounds, 3); round++) {
        const directory = join(context.directory, `${where}-${round}`)
        const storage =
          where === 'memory' ? memoryStorage() : levelStorage(directory, { durability: 'relaxed' })
        for (const [what, pauseMs] of await pausesOf(context, storage, tar))
          found.set(what, [...(found.get(what) ?? []), pauseMs])
      }
      for (const [what, all] of found) yield row(`${what}, ${where}`, all)
    }
  },
}

function row(what: string, pauses: readonly number[]): Row {
  return { what, unit: 'time', median: median(pauses), best: Math.min(...pauses), target }
}

/** Each large operation, and its longest pause in milliseconds. */
async function pausesOf(context: Context, storage: Storage, tar: Buffer): Promise<[string, number][]> {
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  const large = Buffer.alloc(context.count(2 ** 29), 'forkspace')
  const batched = batchOf(context.count(10_000))
  const writes = context.count(20_000)
  const patched = Buffer.alloc(context.count(100 * 2 ** 20), 'forkspace')
  await session.files.write({ path: '/patched', content: patched })
  const chunks = chunksOf(patched.length, context.count(100_000))
  const { sourceId } = await engine.sources.create({ displayName: 'project', uploadedSnapshot: {} })
  const steps: [string, () => Promise<unknown>][] = [
    [`batch of ${batched.length} files`, () => session.files.batch(batched)],
    [`write of ${large.length} B`, () => session.fs.promises.writeFile('/large', large)],
    [`read of ${large.length} B`, () => session.fs.promises.readFile('/large')],
    [
      `patch of ${chunks.length} B in ${patched.length}`,
      () => session.files.patchSegments({ mutations: [{ path: '/patched', segments: chunks }] }),
    ],
    [`${writes} writes at once`, () => writeAtOnce(session, writes)],
    [
      `import of a tar of ${tar.length} B`,
      async () =>
        engine.sources.waitForJob(
          await engine.sources.startImport(sourceId, { uploadedSnapshot: { content: tar } }),
        ),
    ],
    ['deletion of all files, and a collection', () => deleteAndCollect()],
    ['close', () => engine.close()],
  ]
  async function deleteAndCollect(): Promise<void> {
    await session.delete()
    await engine.collect()
  }
  const pausesMs: [string, number][] = []
  for (const [what, act] of steps) pausesMs.push([what, await longestPause(act)])
  return pausesMs
}

/** Uses timers, because the monitor starts with its first tick, and notices a pause only with the tick after it. */
async function longestPause(act: () => Promise<unknown>): Promise<number> {
  await collectGarbage('major')
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await after(5)
  await act()
  await after(5)
  delay.disable()
  return delay.max / 1e6
}

function batchOf(count: number): BatchOperation[] {
  return projectPaths(count).map((path, i) => ({ write: { path: `/batch${path}`, content: `${i}` } }))
}

/** Chunks of one byte, scattered over a file. */
function chunksOf(fileBytes: number, count: number): SegmentChunk[] {
  return Array.from({ length: count }, (_, i) => ({
    data: { offset: (i * 104_729) % fileBytes, content: Uint8Array.of(i % 256) },
  }))
}

async function writeAtOnce({ fs }: Session, count: number): Promise<void> {
  fs.mkdirSync('/at-once')
  await Promise.all(Array.from({ length: count }, (_, i) => fs.promises.writeFile(`/at-once/${i}`, `${i}`)))
}

async function tarOf(count: number): Promise<Buffer> {
  await using engine = await openEngine()
  const files = Object.fromEntries(projectPaths(count).map((path, i) => [path, `export const a = ${i}\n`]))
  const session = await engine.sessions.create({ files })
  return buffer(session.exportTar())
}
