import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openEngine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { PostgresServer } from '../support/postgres-server.js'
import { KilledBucket } from './killed-bucket.js'
import type { PostgresFaultOptions } from './postgres.js'
import { endWriter, leaseSeconds, startWriter, suspendWriter } from './postgres-writers.js'
import { sharedStorage } from './shared-storage.js'
import type { SharedLine, SharedWriterArguments } from './shared-protocol.js'

export interface SharedFaultResult {
  readonly faults: { killed: number; suspended: number }
  acknowledged: number
  /** Acknowledged lines that are missing. */
  lost: number
  /** Lines that are there more than once. */
  twice: number
  /** Lines that are there although their call failed with `not-applied`, or that no writer wrote. */
  wrong: number
  /** Calls that were refused after a suspension. */
  refused: number
}

const sessionCount = 2

/**
 * Several processes append lines to the same files on PostgreSQL. One of them is killed, or suspended until its lease
 * has expired. Then the files and the events are checked.
 */
export async function runSharedFaults(
  options: PostgresFaultOptions & { readonly engines: number },
): Promise<SharedFaultResult> {
  const result: SharedFaultResult = {
    faults: { killed: 0, suspended: 0 },
    acknowledged: 0,
    lost: 0,
    twice: 0,
    wrong: 0,
    refused: 0,
  }
  const directory = await mkdtemp(join(tmpdir(), 'postgres-shared-'))
  const server = await PostgresServer.start()
  const bucket = options.blobs ? await KilledBucket.start(join(directory, 'buckets')) : undefined
  const random = randomWords(options.seed)
  try {
    for (let round = 0; round < options.faults; round++) {
      const kind = round % 2 === 0 ? 'killed' : 'suspended'
      const reports = await runRound(
        { server, bucket, directory, random, round, kind, engines: options.engines },
        result,
      )
      result.faults[kind]++
      options.onProgress(
        `${round + 1}: ${kind}, ${reports} writers, ${result.acknowledged} acknowledged, ${result.lost} lost, ` +
          `${result.twice} twice, ${result.wrong} wrong`,
      )
    }
  } finally {
    await bucket?.kill()
    await server.remove()
    await rm(directory, { recursive: true })
  }
  return result
}

interface Round {
  readonly server: PostgresServer
  readonly bucket: KilledBucket | undefined
  readonly directory: string
  readonly random: () => number
  readonly round: number
  readonly kind: 'killed' | 'suspended'
  readonly engines: number
}

async function runRound(
  { server, bucket: on, directory, random, round, kind, engines }: Round,
  result: SharedFaultResult,
): Promise<number> {
  const postgres = { connectionString: server.connectionString, schema: `s${round}`, leaseSeconds }
  const bucket = on?.settings(postgres.schema)
  const place = { postgres, ...(bucket && { bucket }) }
  const engine = await openEngine({ storage: sharedStorage(place) })
  const sessions: Session[] = []
  for (let i = 0; i < sessionCount; i++)
    sessions.push(await engine.sessions.create({ files: { '/log': '' } }))
  const reports: string[] = []
  const start = async (): Promise<ChildProcess> => {
    const name = `w${round}-${reports.length}`
    const report = join(directory, name)
    reports.push(report)
    return startWriter('shared-writer.js', {
      ...place,
      sessions: sessions.map(({ id }) => id),
      report,
      name,
      seed: random(),
      pending: 1 + (random() % 16),
    } satisfies SharedWriterArguments)
  }
  const writers = await Promise.all(Array.from({ length: engines }, start))
  await sleep(100 + (random() % 300))
  const [victim] = writers
  if (victim === undefined) throw new Error('there is no writer')
  if (kind === 'killed') {
    const exited = once(victim, 'exit')
    victim.kill('SIGKILL')
    await exited
    writers[0] = await start()
  } else {
    await suspendWriter(victim)
  }
  await sleep(100 + (random() % 300))
  await Promise.all(writers.map(endWriter))
  await engine.close()
  await check(
    place,
    sessions.map(({ id }) => id),
    reports,
    result,
  )
  return reports.length
}

/** Checks the files and the events with another engine. */
async function check(
  place: Pick<SharedWriterArguments, 'postgres' | 'bucket'>,
  sessionIds: readonly string[],
  reports: readonly string[],
  result: SharedFaultResult,
): Promise<void> {
  const engine = await openEngine({ storage: sharedStorage(place) })
  const counts = new Map<string, number>()
  for (const id of sessionIds) {
    const session = await engine.sessions.open(id)
    const { eventCount } = await session.events.verify({})
    const lines = (await session.fs.promises.readFile('/log', 'utf8')).split('\n').slice(0, -1)
    // One event creates the session.
    if (eventCount !== lines.length + 1) throw new Error(`${eventCount} events have ${lines.length} lines`)
    for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1)
  }
  await engine.close()
  for (const report of reports)
    for (const [text, settled] of await readReport(report)) {
      const count = counts.get(text) ?? 0
      counts.delete(text)
      if (settled?.outcome === 'ok') result.acknowledged++
      if (settled?.outcome === 'ok' && count === 0) result.lost++
      if (settled?.outcome === 'not-applied') result.refused++
      if (settled?.outcome === 'not-applied' && count > 0) result.wrong++
      if (count > 1) result.twice++
    }
  result.wrong += counts.size
}

/** The calls of a writer, with their ends. */
async function readReport(
  report: string,
): Promise<Map<string, Extract<SharedLine, { kind: 'settled' }> | undefined>> {
  const calls = new Map<string, Extract<SharedLine, { kind: 'settled' }> | undefined>()
  for (const json of (await readFile(report, 'utf8')).split('\n')) {
    if (json === '') continue
    const line = JSON.parse(json) as SharedLine
    calls.set(line.text, line.kind === 'settled' ? line : calls.get(line.text))
  }
  return calls
}
