import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import type { Storage } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { PostgresServer } from '../support/postgres-server.js'
import { runUntilKilled } from './child.js'
import type { WriterArguments } from './protocol.js'
import { Trial } from './trial.js'

export interface PostgresFaultOptions {
  readonly faults: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface PostgresFaultResult {
  /** The faults by their kinds. */
  readonly faults: { writer: number; server: number; cut: number }
  acknowledged: number
  lost: number
  torn: number
  /** Faults after which the same engine continued, and after which it did not. */
  resumed: number
  stuck: number
}

const roundsPerSchema = 6
const callsPerRound = 400
const kinds = ['writer', 'server', 'cut'] as const

/**
 * Kills the process of an engine, kills the server, or cuts all connections while an engine writes. Checks the stored
 * data after each.
 */
export async function runPostgresFaults(options: PostgresFaultOptions): Promise<PostgresFaultResult> {
  const result = {
    faults: { writer: 0, server: 0, cut: 0 },
    acknowledged: 0,
    lost: 0,
    torn: 0,
    resumed: 0,
    stuck: 0,
  }
  const directory = await mkdtemp(join(tmpdir(), 'postgres-faults-'))
  const server = await PostgresServer.start()
  const proxy = await new PostgresProxy(server.socket).listen()
  try {
    const place = { server, proxy, directory }
    const random = randomWords(options.seed)
    for (let round = 0; round < options.faults;) {
      const schema = `s${round}`
      const faults = new Faults(place, schema, random, options.onProgress, result)
      for (let i = 0; i < roundsPerSchema && round < options.faults; i++, round++) {
        const kind = kinds[round % kinds.length]!
        await faults.round(kind, round)
        if (faults.trial.verifier.damaged) break
      }
      result.acknowledged += faults.trial.verifier.acknowledged
      result.lost += faults.trial.verifier.lost
      result.torn += faults.trial.verifier.torn
      if (faults.trial.verifier.damaged) break
    }
  } finally {
    await proxy.close()
    await server.remove()
    await rm(directory, { recursive: true })
  }
  return result
}

interface Place {
  readonly server: PostgresServer
  readonly proxy: PostgresProxy
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
    const storage = (): Storage => postgresStorage({ connectionString: place.proxy.connectionString, schema })
    this.trial = new Trial(storage, random, onProgress)
  }

  async round(kind: (typeof kinds)[number], number: number): Promise<void> {
    if (kind === 'writer') await this.#killWriter(number)
    else await this.#fail(kind)
    this.#result.faults[kind]++
    this.#onProgress(`${number + 1}: ${kind}`)
  }

  async #killWriter(number: number): Promise<void> {
    const { server, directory } = this.#place
    const report = join(directory, `report-${number}`)
    const settings: WriterArguments = {
      directory,
      postgres: { connectionString: server.connectionString, schema: this.#schema },
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

  async #fail(kind: 'server' | 'cut'): Promise<void> {
    const { server, proxy } = this.#place
    await this.trial.open()
    const failing = sleep(this.#random() % 200).then(() => (kind === 'cut' ? proxy.cut() : server.kill()))
    const failures = await this.trial.run(callsPerRound, 1 + (this.#random() % 16))
    await failing
    if (kind === 'server') await server.start()
    if (await this.trial.resumes()) this.#result.resumed++
    else {
      this.#result.stuck++
      this.#onProgress(`STUCK after ${kind}: ${failures[0]?.message}`)
    }
    await this.trial.close()
    // An engine that could not give its lease back.
    await this.#expireLease()
  }

  /** As if the time of the lease of a killed process had passed. */
  async #expireLease(): Promise<void> {
    await this.#place.server.sql(`UPDATE ${this.#schema}.leases SET expires_at = clock_timestamp()`)
  }
}
