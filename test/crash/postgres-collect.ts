import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openEngine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { PostgresServer } from '../support/postgres-server.js'
import type { CollectingLine, CollectingWriterArguments, Files } from './collecting-protocol.js'
import { KilledBucket } from './killed-bucket.js'
import type { PostgresFaultOptions } from './postgres.js'
import { endWriter, leaseSeconds, startWriter, suspendWriter } from './postgres-writers.js'
import { sharedStorage } from './shared-storage.js'

export interface CollectFaultResult {
  readonly faults: { killed: number; suspended: number }
  collections: number
  sessions: number
  /** Sessions whose files are not those of the last acknowledged change, nor of the one after it. */
  lost: number
  /** Findings of checks, and unexpected errors. */
  wrong: number
}

/**
 * Several processes use a schema and collect it. Again and again, one of them is killed, or suspended until its lease has
 * expired. Then all files are compared with the reports, and everything is checked, before and after one more collection.
 */
export async function runCollectFaults(
  options: PostgresFaultOptions & { readonly engines: number },
): Promise<CollectFaultResult> {
  const result: CollectFaultResult = {
    faults: { killed: 0, suspended: 0 },
    collections: 0,
    sessions: 0,
    lost: 0,
    wrong: 0,
  }
  const directory = await mkdtemp(join(tmpdir(), 'postgres-collect-'))
  const server = await PostgresServer.start()
  const bucket = options.blobs ? await KilledBucket.start(join(directory, 'buckets')) : undefined
  const random = randomWords(options.seed)
  const postgres = { connectionString: server.connectionString, schema: 'collected', leaseSeconds }
  const settings = bucket?.settings(postgres.schema)
  const place = { postgres, ...(settings && { bucket: settings }) }
  const reports: string[] = []
  const start = (): Promise<ChildProcess> => {
    const name = `w${reports.length}`
    const report = join(directory, name)
    reports.push(report)
    return startWriter('collecting-writer.js', {
      ...place,
      report,
      name,
      seed: random(),
    } satisfies CollectingWriterArguments)
  }
  try {
    const writers: ChildProcess[] = []
    for (let i = 0; i < options.engines; i++) writers.push(await start())
    for (let n = 0; n < options.faults; n++) {
      await sleep(random() % 1200)
      const index = random() % writers.length
      const victim = writers[index]
      if (victim === undefined) continue
      if (random() % 3 > 0) {
        const exited = once(victim, 'exit')
        victim.kill('SIGKILL')
        await exited
        writers[index] = await start()
        result.faults.killed++
      } else {
        await suspendWriter(victim)
        result.faults.suspended++
      }
      options.onProgress(`${n + 1}: ${result.faults.killed} killed, ${result.faults.suspended} suspended`)
    }
    await sleep(500)
    await Promise.all(writers.map(endWriter))
    await check(place, reports, result, options.onProgress)
  } finally {
    await bucket?.kill()
    await server.remove()
    await rm(directory, { recursive: true })
  }
  return result
}

async function check(
  place: Pick<CollectingWriterArguments, 'postgres' | 'bucket'>,
  reports: readonly string[],
  result: CollectFaultResult,
  onProgress: (text: string) => void,
): Promise<void> {
  const possible = new Map<string, (Files | null)[]>()
  for (const report of reports)
    for (const json of (await readFile(report, 'utf8').catch(() => '')).split('\n')) {
      if (json === '') continue
      const line = JSON.parse(json) as CollectingLine
      if (line.kind === 'collected') result.collections++
      else if (line.kind === 'error') {
        result.wrong++
        onProgress(line.text)
      } else if (line.kind === 'state') possible.set(line.id, [line.files])
      else possible.get(line.id)?.push(line.files)
    }
  result.sessions = possible.size
  const engine = await openEngine({ storage: sharedStorage(place) })
  try {
    for (const isCollected of [false, true]) {
      if (isCollected) await engine.collect()
      for (const [id, states] of possible) {
        const found = await filesOf(id)
        if (states.some((files) => JSON.stringify(files) === JSON.stringify(found))) continue
        result.lost++
        onProgress(`${id}: ${JSON.stringify(found)} instead of ${JSON.stringify(states)}`)
      }
      const { found, findings } = await engine.check({ readData: true })
      result.wrong += found
      for (const finding of findings) onProgress(JSON.stringify(finding))
    }
  } finally {
    await engine.close()
  }

  async function filesOf(id: string): Promise<Files | null | string> {
    try {
      const session = await engine.sessions.open(id)
      const files: Record<string, string> = {}
      for (const name of ['/a', '/b', '/c/d', '/c/e'])
        files[name] = await session.fs.promises.readFile(name, 'utf8')
      return files
    } catch (error) {
      return Reflect.get(error as object, 'reason') === 'SESSION_NOT_FOUND' ? null : String(error)
    }
  }
}
