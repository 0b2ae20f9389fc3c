import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { pid } from 'node:process'
import { present, type CollectionEpoch, type CollectionStage } from '../../engine/ports.js'
import { run, type Connections, type PostgresClient, type Row } from './connections.js'
import type { CheckedLease, LeaseClaim } from './commit-statement.js'
import { emptiedError, emptiedStore, isLockTimeout, lockedError, sharedError, takenError } from './errors.js'
import { postgresLimits } from './limits.js'
import { lockSchema } from './migrations.js'
import { emptiedTable, filesOf, readTables, type OpenTables } from './table-files.js'

/** The name of the lease of the only engine that may write to a store. */
const writerLease = 'writer'
/** The names of leases on a shared store start with this. */
const sharedLease = 'engine:'

/**
 * The right of one engine to write to a store, for a time that the server's clock measures. Each new owner, and
 * each recovery of an owner, increments the token. A statement with an older token stores nothing, so it makes
 * no difference how late the statement of a former owner arrives.
 *
 * On a shared store, each engine has a lease of its own. Its statements store nothing once its time is over, so other
 * engines know that an engine with an expired lease has stopped. There is either one engine with the lease `writer`, or
 * any number of engines that share the store.
 */
export class Lease {
  readonly #connections: Connections
  readonly #name: string
  readonly #schema: string
  readonly #seconds: number
  readonly #isShared: boolean
  readonly #owner = randomUUID()
  #token = ''
  /** The tables that this engine opened. */
  #tables: OpenTables | undefined
  /** Identifies the time since an engine last had the store alone. */
  #period: string | undefined
  /** The newest epoch of collections that this engine has acknowledged. */
  #epoch: number | undefined
  #joined: CollectionEpoch = { epoch: 0, stage: 'none' }
  #timer: NodeJS.Timeout | undefined
  #renewing: Promise<void> | undefined
  #onLost: () => void = ignore
  #onChanged: () => void = ignore
  /** Whether a running collection has all notes of this engine. */
  #hasLeft = false

  /** `name` is that of the schema, and `schema` is quoted. */
  constructor(connections: Connections, { name, schema, seconds, shared }: LeaseOptions) {
    this.#connections = connections
    this.#name = name
    this.#schema = schema
    this.#seconds = seconds
    this.#isShared = shared
  }

  /** What each statement must check. */
  get checked(): CheckedLease {
    return { row: this.#row, files: filesOf(this.#name), ends: this.#isShared }
  }

  /** What the statements of this owner must carry. */
  get claim(): LeaseClaim {
    return { owner: this.#owner, token: this.#token, files: this.#opened.files }
  }

  /** The newest epoch of collections that this engine has acknowledged. */
  get epoch(): number {
    return this.#epoch ?? 0
  }

  /** Notes that an epoch was acknowledged. */
  acknowledged(epoch: number): void {
    this.#epoch = epoch
  }

  /** Notes that a running collection has all notes of this engine, which commits nothing more. */
  leave(): void {
    this.#hasLeft = true
  }

  /** The state of collections when this engine took its lease. */
  get joined(): CollectionEpoch {
    return this.#joined
  }

  /** The condition of the row of this lease, in the tables that this engine opened. */
  get #row(): string {
    return `name = '${this.#key}' AND tableoid = ${this.#opened.leases}`
  }

  get #opened(): OpenTables {
    return present(this.#tables, 'the tables of a lease')
  }

  get #key(): string {
    return this.#isShared ? `${sharedLease}${this.#owner}` : writerLease
  }

  /**
   * Takes the lease if it is free or has expired.
   *
   * @throws {EngineError} STORE_LOCKED when another engine has it, or the other kind of lease.
   */
  async take(client: PostgresClient): Promise<void> {
    // Outside of the transaction, which is rolled back if the lease is not free yet.
    await this.#shorten(client)
    await this.#inTransaction(client, async () => {
      await this.#noteTables(client)
      await (this.#isShared ? this.#endWriter(client) : this.#endShared(client))
      if (this.#isShared && (await this.#takeAgain(client))) return
      // A collection begins its next epoch after this transaction, so it waits for this engine then.
      const [current] = await this.#perform(
        client,
        `SELECT epoch, stage FROM ${this.#schema}.collections FOR SHARE`,
      )
      const epoch = Number(current?.[0])
      // The memory of this engine may refer to objects that a collection has deleted since.
      if (this.#isShared && this.#epoch !== undefined && this.#epoch !== epoch) throw takenError()
      const [taken] = await this.#perform(
        client,
        `INSERT INTO ${this.#schema}.leases AS l (name, owner, host, pid, since, token, seconds, expires_at, epoch)
          VALUES ($1, $2, $3, $4, clock_timestamp(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
            $5::integer, clock_timestamp() + make_interval(secs => $5), $6)
          ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, host = excluded.host, pid = excluded.pid,
            since = excluded.since, token = l.token + 1, seconds = excluded.seconds, expires_at = excluded.expires_at
          WHERE l.expires_at <= clock_timestamp() OR l.owner = excluded.owner
          RETURNING token`,
        [this.#key, this.#owner, hostname(), pid, this.#seconds, epoch],
      )
      if (taken === undefined) throw lockedError(await this.#holder(client, this.#key))
      this.#epoch = epoch
      this.#joined = { epoch, stage: String(current?.[1]) as CollectionStage }
      this.#token = String(taken[0])
      await this.#forgetKilled(client)
    })
  }

  /**
   * Whether tables were emptied, restored or rewritten since this engine read them.
   *
   * @throws {EngineError} STORE_MOVED when they were renamed, dropped or replaced, or when a row is missing that each store
   *   has.
   */
  async haveTablesChanged(client: PostgresClient): Promise<boolean> {
    const { files } = await readTables(client, this.#name, this.#tables)
    if (files !== this.#opened.files) return true
    await this.checkRows(client)
    return false
  }

  /** Notes the tables, before this engine reads everything from them, or reads everything again. */
  async #noteTables(client: PostgresClient): Promise<void> {
    const tables = await readTables(client, this.#name, this.#tables)
    if (this.#tables !== undefined) {
      await this.checkRows(client)
      if (tables.files !== this.#tables.files) {
        this.#onChanged()
        // Those of the earlier tables. This engine reads everything again.
        this.#period = undefined
        this.#epoch = undefined
      }
    } else {
      const emptied = await emptiedTable(client, this.#name, ['collections'])
      if (emptied !== undefined) throw emptiedStore(this.#schema, emptied)
    }
    this.#tables = tables
  }

  /** @throws {EngineError} STORE_MOVED when a row is missing that each store has. */
  async checkRows(client: PostgresClient): Promise<void> {
    const tables = ['migrations', 'collections', ...(this.#isShared ? [] : ['leases'])]
    const emptied = await emptiedTable(client, this.#name, tables)
    if (emptied !== undefined) throw emptiedError(emptied)
  }

  /**
   * Takes the lease of this engine again, if it is still there. A collection removes the leases that are over before it
   * goes on without their engines, so it has not done so here.
   */
  async #takeAgain(client: PostgresClient): Promise<boolean> {
    const [taken] = await this.#perform(
      client,
      `UPDATE ${this.#schema}.leases SET since = clock_timestamp(), token = token + 1,
          expires_at = clock_timestamp() + make_interval(secs => $3)
        WHERE name = $1 AND owner = $2 RETURNING token, epoch`,
      [this.#key, this.#owner, this.#seconds],
    )
    if (taken === undefined) return false
    this.#token = String(taken[0])
    this.#epoch = Number(taken[1])
    return true
  }

  /**
   * Ends leases at the latest after their duration from now on. If the clock of the server went back, the lease of an
   * engine that was killed before would last for as long as the clock went back. A living engine renews its own in time.
   */
  async #shorten(client: PostgresClient): Promise<void> {
    await this.#perform(
      client,
      `UPDATE ${this.#schema}.leases SET expires_at = clock_timestamp() + make_interval(secs => seconds)
        WHERE name IN (
          SELECT name FROM ${this.#schema}.leases
            WHERE expires_at > clock_timestamp() + make_interval(secs => seconds) FOR UPDATE SKIP LOCKED)`,
    )
  }

  /**
   * Removes the leases of engines that were killed long ago. Such an engine may still be suspended. Then it takes another
   * lease later, whose token is larger, because tokens start at the time.
   */
  async #forgetKilled(client: PostgresClient): Promise<void> {
    await this.#perform(
      client,
      `DELETE FROM ${this.#schema}.leases WHERE name IN (
        SELECT name FROM ${this.#schema}.leases
          WHERE starts_with(name, $1) AND expires_at < clock_timestamp() - make_interval(secs => $2)
            AND NOT EXISTS (SELECT FROM ${this.#schema}.collections WHERE stage <> 'none')
          FOR UPDATE SKIP LOCKED)`,
      [sharedLease, postgresLimits.killedLeaseSeconds],
    )
  }

  /** Runs work while no other engine takes or gives back a lease. */
  async #inTransaction(client: PostgresClient, work: () => Promise<void>): Promise<void> {
    await this.#perform(client, 'BEGIN')
    try {
      await lockSchema(client, this.#name)
      await work()
      await this.#perform(client, 'COMMIT')
    } catch (error) {
      await this.#perform(client, 'ROLLBACK').catch(ignore)
      throw error
    }
  }

  /** Ends the lease of an engine that had the store alone, if its time is over. */
  async #endWriter(client: PostgresClient): Promise<void> {
    await this.#perform(
      client,
      `UPDATE ${this.#schema}.leases SET owner = NULL, token = token + 1
        WHERE name = $1 AND owner IS NOT NULL AND expires_at <= clock_timestamp()`,
      [writerLease],
    )
    const [row] = await this.#perform(
      client,
      `SELECT coalesce(sum(token), 0), bool_or(owner IS NOT NULL) FROM ${this.#schema}.leases WHERE name = $1`,
      [writerLease],
    )
    if (row?.[1] === 't') throw lockedError(await this.#holder(client, writerLease))
    // The memory of this engine may refer to objects that were deleted since.
    const period = String(row?.[0])
    if (this.#period !== undefined && this.#period !== period) throw takenError()
    this.#period = period
  }

  /** Ends the leases of engines that shared the store, if their times are over. */
  async #endShared(client: PostgresClient): Promise<void> {
    await this.#perform(
      client,
      `DELETE FROM ${this.#schema}.leases
        WHERE starts_with(name, $1) AND expires_at <= clock_timestamp() AND owner <> $2`,
      [sharedLease, this.#owner],
    )
    const [row] = await this.#perform(
      client,
      `SELECT count(*), greatest(0, ceil(extract(epoch FROM max(expires_at) - clock_timestamp())))
        FROM ${this.#schema}.leases WHERE starts_with(name, $1) AND owner <> $2`,
      [sharedLease, this.#owner],
    )
    const [engines = '0', seconds] = row ?? []
    if (engines !== '0' && engines !== null)
      throw sharedError({ engines, expiresInSeconds: String(Number(seconds)) })
  }

  /**
   * Increments the token, on a new connection. This waits for a statement of the old connection that still
   * runs. Afterwards that statement is committed, or can never be.
   *
   * @throws {EngineError} STORE_TAKEN when another engine has the lease.
   */
  async renewToken(client: PostgresClient): Promise<void> {
    // The state of the engine in memory is read again, so it may join again even after its lease has expired.
    if (this.#isShared) return this.take(client)
    await this.#noteTables(client)
    // The token is compared, so this statement changes nothing if it arrives after a later recovery.
    for (let token = this.#token; ;) {
      const [renewed] = await this.#perform(
        client,
        `UPDATE ${this.#schema}.leases
          SET token = token + 1, expires_at = clock_timestamp() + make_interval(secs => $3)
          WHERE name = $1 AND owner = $2 AND token = $4::bigint RETURNING token`,
        [this.#key, this.#owner, this.#seconds, token],
      )
      if (renewed !== undefined) {
        this.#token = String(renewed[0])
        return
      }
      // An earlier recovery, whose result was lost, has incremented the token.
      const [current] = await this.#perform(
        client,
        `SELECT token FROM ${this.#schema}.leases WHERE name = $1 AND owner = $2`,
        [this.#key, this.#owner],
      )
      if (current === undefined || String(current[0]) === token) throw takenError()
      token = String(current[0])
    }
  }

  /**
   * Renews the lease from now on, on the connection for commits: connections for reads may all be in use, or
   * their settings may forbid it. `onLost` is called when another engine has the lease, and `onChanged` in a recovery, when tables were emptied,
   * restored or rewritten before.
   */
  keep(onLost: () => void, onChanged: () => void): void {
    this.#onLost = onLost
    this.#onChanged = onChanged
    const ms = (this.#seconds * 1000) / postgresLimits.renewalsPerLease
    this.#timer = setInterval(() => {
      this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined))
    }, ms)
    this.#timer.unref()
  }

  /** Stops the renewal. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#renewing
  }

  /** Gives the lease back, so that the next engine need not wait. */
  async release(client: PostgresClient): Promise<void> {
    const where = `WHERE name = $1 AND owner = $2`
    const values = [this.#key, this.#owner]
    if (!this.#isShared)
      await this.#perform(
        client,
        `UPDATE ${this.#schema}.leases SET owner = NULL, expires_at = clock_timestamp() ${where}`,
        values,
      )
    else if (this.#hasLeft) await this.#perform(client, `DELETE FROM ${this.#schema}.leases ${where}`, values)
    // A running collection must learn that this engine has ended, because it never got the notes of this engine.
    else
      await this.#perform(
        client,
        `WITH ended AS (DELETE FROM ${this.#schema}.leases ${where}
            AND NOT EXISTS (SELECT FROM ${this.#schema}.collections WHERE stage <> 'none' FOR SHARE))
          UPDATE ${this.#schema}.leases SET expires_at = clock_timestamp() ${where}
            AND EXISTS (SELECT FROM ${this.#schema}.collections WHERE stage <> 'none' FOR SHARE)`,
        values,
      )
  }

  async #renew(): Promise<void> {
    try {
      const rows = await this.#connections.write(async (client) => {
        // Jobs of a killed engine wait for the end of its lease.
        if (this.#isShared) await this.#shorten(client)
        const renewed = await this.#perform(
          client,
          `UPDATE ${this.#schema}.leases SET expires_at = clock_timestamp() + make_interval(secs => $2)
            WHERE ${this.#row} AND owner = $1${this.#isShared ? ' AND expires_at > clock_timestamp()' : ''} RETURNING 1`,
          [this.#owner, this.#seconds],
        )
        // The next commit rejects with the error.
        return renewed.length === 0 && (await this.haveTablesChanged(client)) ? undefined : renewed
      })
      if (rows?.length !== 0) return
    } catch {
      // The lease is lost only if another engine takes it. The next renewal, or a commit, finds that out.
      return
    }
    // On a shared store, the engine takes another lease when it recovers.
    if (!this.#isShared) clearInterval(this.#timer)
    this.#onLost()
  }

  async #holder(client: PostgresClient, name: string): Promise<Record<string, string>> {
    const [row] = await this.#perform(
      client,
      `SELECT host, pid, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
          greatest(0, ceil(extract(epoch FROM expires_at - clock_timestamp())))
        FROM ${this.#schema}.leases WHERE name = $1`,
      [name],
    )
    const [host, holderPid, since, seconds] = row ?? []
    return {
      ...(typeof host === 'string' && { host }),
      ...(typeof holderPid === 'string' && { pid: holderPid }),
      ...(typeof since === 'string' && { since }),
      ...(typeof seconds === 'string' && { expiresInSeconds: String(Number(seconds)) }),
    }
  }

  async #perform(client: PostgresClient, text: string, values: readonly unknown[] = []): Promise<Row[]> {
    try {
      return await run(client, { text, values }, postgresLimits.readMs)
    } catch (error) {
      // A statement of another engine, or of the old connection, still runs.
      if (isLockTimeout(error)) throw new Error('another statement still uses the lease', { cause: error })
      throw error
    }
  }
}

export interface LeaseOptions {
  /** The name of the schema. */
  readonly name: string
  /** The same, quoted. */
  readonly schema: string
  readonly seconds: number
  /** Whether other engines may have leases at the same time. */
  readonly shared: boolean
}

function ignore(): void {}
