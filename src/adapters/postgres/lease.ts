import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { pid } from 'node:process'
import { run, type Connections, type PostgresClient, type Row } from './connections.js'
import { writerLease, type LeaseClaim } from './commit-statement.js'
import { isLockTimeout, lockedError, takenError } from './errors.js'
import { postgresLimits } from './limits.js'

/**
 * The right of one engine to write to a store, for a time that the server's clock measures. Each new owner, and
 * each recovery of an owner, increments the token. A statement with an older token stores nothing, so it makes
 * no difference how late the statement of a former owner arrives.
 */
export class Lease {
  readonly #connections: Connections
  readonly #schema: string
  readonly #seconds: number
  readonly #owner = randomUUID()
  #token = ''
  #timer: NodeJS.Timeout | undefined
  #renewing: Promise<void> | undefined
  #onLost: () => void = ignore

  /** `schema` is quoted. */
  constructor(connections: Connections, schema: string, seconds: number) {
    this.#connections = connections
    this.#schema = schema
    this.#seconds = seconds
  }

  /** What the statements of this owner must carry. */
  get claim(): LeaseClaim {
    return { owner: this.#owner, token: this.#token }
  }

  /**
   * Takes the lease if it is free or has expired.
   *
   * @throws {EngineError} STORE_LOCKED when another engine has it.
   */
  async take(client: PostgresClient): Promise<void> {
    const [taken] = await this.#perform(
      client,
      `INSERT INTO ${this.#schema}.leases AS l (name, owner, host, pid, since, token, expires_at)
        VALUES ($1, $2, $3, $4, clock_timestamp(), 1, clock_timestamp() + make_interval(secs => $5))
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, host = excluded.host, pid = excluded.pid,
          since = excluded.since, token = l.token + 1, expires_at = excluded.expires_at
        WHERE l.expires_at <= clock_timestamp()
        RETURNING token`,
      [writerLease, this.#owner, hostname(), pid, this.#seconds],
    )
    if (taken === undefined) throw lockedError(await this.#holder(client))
    this.#token = String(taken[0])
  }

  /**
   * Increments the token, on a new connection. This waits for a statement of the old connection that still
   * runs. Afterwards that statement is committed, or can never be.
   *
   * @throws {EngineError} STORE_TAKEN when another engine has the lease.
   */
  async renewToken(client: PostgresClient): Promise<void> {
    // The token is compared, so this statement changes nothing if it arrives after a later recovery.
    for (let token = this.#token; ;) {
      const [renewed] = await this.#perform(
        client,
        `UPDATE ${this.#schema}.leases
          SET token = token + 1, expires_at = clock_timestamp() + make_interval(secs => $3)
          WHERE name = $1 AND owner = $2 AND token = $4::bigint RETURNING token`,
        [writerLease, this.#owner, this.#seconds, token],
      )
      if (renewed !== undefined) {
        this.#token = String(renewed[0])
        return
      }
      // An earlier recovery, whose result was lost, has incremented the token.
      const [current] = await this.#perform(
        client,
        `SELECT token FROM ${this.#schema}.leases WHERE name = $1 AND owner = $2`,
        [writerLease, this.#owner],
      )
      if (current === undefined || String(current[0]) === token) throw takenError()
      token = String(current[0])
    }
  }

  /**
   * Renews the lease from now on, on the connection for commits: connections for reads may all be in use, or
   * their settings may forbid it. `onLost` is called when another engine has the lease.
   */
  keep(onLost: () => void): void {
    this.#onLost = onLost
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
    await this.#perform(
      client,
      `UPDATE ${this.#schema}.leases SET owner = NULL, expires_at = clock_timestamp() WHERE name = $1 AND owner = $2`,
      [writerLease, this.#owner],
    )
  }

  async #renew(): Promise<void> {
    try {
      const renewed = await this.#connections.write((client) =>
        this.#perform(
          client,
          `UPDATE ${this.#schema}.leases SET expires_at = clock_timestamp() + make_interval(secs => $3)
            WHERE name = $1 AND owner = $2 RETURNING 1`,
          [writerLease, this.#owner, this.#seconds],
        ),
      )
      if (renewed.length > 0) return
    } catch {
      // The lease is lost only if another engine takes it. The next renewal, or a commit, finds that out.
      return
    }
    clearInterval(this.#timer)
    this.#onLost()
  }

  async #holder(client: PostgresClient): Promise<Record<string, string>> {
    const [row] = await this.#perform(
      client,
      `SELECT host, pid, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
          greatest(0, ceil(extract(epoch FROM expires_at - clock_timestamp())))
        FROM ${this.#schema}.leases WHERE name = $1`,
      [writerLease],
    )
    const [host, holderPid, since, seconds] = row ?? []
    return {
      ...(typeof host === 'string' && { host }),
      ...(typeof holderPid === 'string' && { pid: holderPid }),
      ...(typeof since === 'string' && { since }),
      ...(typeof seconds === 'string' && { expiresInSeconds: String(Number(seconds)) }),
    }
  }

  async #perform(client: PostgresClient, text: string, values: readonly unknown[]): Promise<Row[]> {
    try {
      return await run(client, { text, values }, postgresLimits.readMs)
    } catch (error) {
      // A statement of another engine, or of the old connection, still runs.
      if (isLockTimeout(error)) throw new Error('another statement still uses the lease', { cause: error })
      throw error
    }
  }
}

function ignore(): void {}
