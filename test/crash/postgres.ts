import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { openEngine, type Storage } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { PostgresCluster } from '../support/postgres-cluster.js'
import { runUntilKilled } from './child.js'
import { blobsOf, KilledBucket } from './killed-bucket.js'
import type { WriterArguments } from './protocol.js'
import { Trial } from './trial.js'

export interface PostgresFaultOptions {
  readonly faults: number
  readonly seed: number
  /** Whether large contents are in a bucket, whose server is killed too. */
  readonly blobs: boolean
  readonly onProgress: (line: string) => void
}

export interface PostgresFaultResult {
  /** The faults by their kinds. */
  readonly faults: Record<FaultKind, number>
  acknowledged: number
  lost: number
  torn: number
  /** Faults after which the same engine continued, and after which it did not. */
  resumed: number
  stuck: number
}

const roundsPerSchema = 8
const callsPerRound = 400
const kinds = ['writer', 'server', 'cut', 'failover'] as const
const kindsWithBucket = ['writer', 'bucket', ...kinds] as const

type FaultKind = (typeof kindsWithBucket)[number]

/**
 * Kills the process of an engine, kills and restarts the server, cuts all connections, or kills the server for good and
 * promotes its synchronous standby, while an engine writes. Checks the stored data after each.
 */
export async function runPostgresFaults(options: PostgresFaultOptions): Promise<PostgresFaultResult> {
  const result = {
    faults: { writer: 0, server: 0, cut: 0, failover: 0, bucket: 0 },
    acknowledged: 0,
    lost: 0,
    torn: 0,
    resumed: 0,
    stuck: 0,
  }
  const directory = await mkdtemp(join(tmpdir(), 'postgres-faults-'))
  const cluster = await PostgresCluster.start()
  const bucket = options.blobs ? await KilledBucket.start(join(directory, 'buckets')) : undefined
  try {
    const place = { cluster, bucket, directory }
    const chosen = bucket ? kindsWithBucket : kinds
    const random = randomWords(options.seed)
    for (let round = 0; round < options.faults;) {
      const schema = `s${round}`
      const faults = new Faults(place, schema, random, options.onProgress, result)
      for (let i = 0; i < roundsPerSchema && round < options.faults; i++, round++) {
        const kind = chosen[round % chosen.length]!
        await faults.round(kind, round)
        if (faults.trial.verifier.damaged) break
      }
      result.acknowledged += faults.trial.verifier.acknowledged
      result.lost += faults.trial.verifier.lost
      result.torn += faults.trial.verifier.torn
      if (faults.trial.verifier.damaged) break
    }
  } finally {
    await bucket?.kill()
    await cluster.close()
    await rm(directory, { recursive: true })
  }
  return result
}

interface Place {
  readonly cluster: PostgresCluster
  readonly bucket: KilledBucket | undefined
  readonly directory: string
}

/** The faults of one store. */
class Faults {
  readonly trial: Trial
  readonly #place: Place
  readonly #schema: string
  readonly #random: () => number
  readonly #onProgress: (line: string) => void
  readonly #result: PostgresFaultResult

  constructor(
    place: Place,
    schema: string,
    random: () => number,
    onProgress: (line: string) => void,
    result: PostgresFaultResult,
  ) {
    this.#place = place
    this.#schema = schema
    this.#random = random
    this.#onProgress = onProgress
    this.#result = result
    this.trial = new Trial(() => this.#storage(), random, onProgress)
  }

  async round(kind: FaultKind, number: number): Promise<void> {
    await this.#place.cluster.addStandby()
    if (kind === 'writer') await this.#killWriter(number)
    else await this.#fail(kind)
    this.#result.faults[kind]++
    this.#onProgress(`${number + 1}: ${kind}`)
  }

  async #killWriter(number: number): Promise<void> {
    const { cluster, bucket, directory } = this.#place
    const report = join(directory, `report-${number}`)
    const settings: WriterArguments = {
      directory,
      postgres: { connectionString: cluster.proxy.connectionString, schema: this.#schema },
      ...(bucket && { bucket: bucket.settings(this.#schema) }),
      report,
      durability: 'full',
      seed: this.#random(),
      firstNumber: (number + 1) * 1_000_000,
      pending: 1 + (this.#random() % 64),
    }
    await runUntilKilled('writer.js', settings, { line: 'ready', delayMs: 100 + (this.#random() % 400) })
    this.trial.verifier.readReport(await readFile(report, 'utf8'))
    await this.#expireLease()
    await this.trial.open()
    await this.trial.close()
  }

  async #fail(kind: Exclude<FaultKind, 'writer'>): Promise<void> {
    const { cluster, bucket } = this.#place
    const fail = {
      cut: () => cluster.proxy.cut(),
      server: () => cluster.primary.kill(),
      failover: () => cluster.failOver(),
      bucket: async () => bucket?.kill(),
    }[kind]
    await this.trial.open()
    const failing = sleep(this.#random() % 200).then(fail)
    const failures = await this.trial.run(callsPerRound, 1 + (this.#random() % 16))
    await failing
    if (kind === 'server') await cluster.primary.start()
    if (kind === 'bucket') await bucket?.start()
    if (await this.trial.resumes()) this.#result.resumed++
    else {
      this.#result.stuck++
      this.#onProgress(`STUCK after ${kind}: ${failures[0]?.message}`)
    }
    await this.trial.close()
    // An engine that could not give its lease back.
    await this.#expireLease()
    if (kind === 'bucket') await this.#collect()
  }

  #storage(): Storage {
    const { cluster, bucket } = this.#place
    const { connectionString } = cluster.proxy
    const blobs = bucket && blobsOf(bucket.settings(this.#schema))
    return postgresStorage({ connectionString, schema: this.#schema, ...(blobs && { blobs }) })
  }

  /** Collects twice, as if days had passed before and between. The next round then checks all contents. */
  async #collect(): Promise<void> {
    const { cluster, bucket } = this.#place
    const before = await bucket?.count()
    const engine = await openEngine({ storage: this.#storage() })
    for (let times = 0; times < 2; times++) {
      await bucket?.age()
      await cluster.primary.sql(
        `UPDATE ${this.#schema}.objects SET unused_since = unused_since - interval '2 days'`,
      )
      await engine.collect()
    }
    await engine.close()
    this.#onProgress(`collected: ${before} objects before, ${await bucket?.count()} after`)
  }

  /** As if the time of the lease of a killed process had passed. */
  async #expireLease(): Promise<void> {
    await this.#place.cluster.primary.sql(`UPDATE ${this.#schema}.leases SET expires_at = clock_timestamp()`)
  }
}
