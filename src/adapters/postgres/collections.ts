import type { Acknowledgement, CollectionEpoch, CollectionStage } from '../../engine/ports.js'
import { byteaArray } from './arrays.js'
import type { LeaseClaim } from './commit-statement.js'
import { run, type Connections, type Row } from './connections.js'
import { collectingError, emptiedError, endedError, isDeadlock } from './errors.js'
import type { Lease } from './lease.js'
import { postgresLimits } from './limits.js'

/**
 * Collections of a schema that several engines share. One engine at a time has the right to collect: the row of
 * `collections` has its id, and a number that each new owner increments. A statement of a collection checks both, and the
 * lease of the engine, so a collection that was given up changes nothing more.
 */
export class Collections {
  readonly #connections: Connections
  readonly #schema: string
  readonly #lease: Lease
  readonly #hash: (digits: string) => Buffer
  #token: string | undefined
  /** The files of the tables when the collection began. */
  #files = ''
  /** Whether this engine takes the right to collect, has it, or gives it back. */
  #isCollecting = false

  /** `schema` is quoted. */
  constructor(connections: Connections, schema: string, lease: Lease, hash: (digits: string) => Buffer) {
    this.#connections = connections
    this.#schema = schema
    this.#lease = lease
    this.#hash = hash
  }

  /** Gives up the collection, because the server may have lost commits that it has read. */
  lost(): void {
    this.#token = undefined
  }

  /** The number of the right to collect; undefined if this engine does not have it. */
  get token(): string | undefined {
    return this.#token
  }

  async epoch(): Promise<CollectionEpoch> {
    for (let isSecond = false; ; isSecond = true) {
      const [row] = await this.#connections.read({
        text: `SELECT c.epoch, c.stage, c.owner IS NOT NULL AND NOT ${this.#isAlive('c.owner')},
            CASE WHEN c.owner = $1 THEN c.token END
          FROM ${this.#schema}.collections c`,
        values: [this.#lease.claim.owner],
      })
      if (row === undefined) throw emptiedError('collections')
      const [epoch, stage, isOver, own] = row
      const isLeft = typeof own === 'string' && !this.#isCollecting
      if (isSecond || !(isOver === 't' || isLeft))
        return { epoch: Number(epoch), stage: stage as CollectionStage }
      // This engine could not give the right back, or got it with a statement that seemed to have failed.
      if (isLeft) await this.#giveBack(own)
      // The engine may take its lease again at this moment, and continue. Only the row shows whether it did.
      else await this.#endOfKilled()
    }
  }

  /** Ends the collection of an engine whose lease is over, even if that engine is only suspended. */
  async #endOfKilled(): Promise<void> {
    await this.#write(
      `UPDATE ${this.#schema}.collections c SET owner = NULL, token = token + 1, stage = 'none'
        WHERE c.owner IS NOT NULL AND NOT ${this.#isAlive('c.owner')}`,
    )
  }

  async publish(of: number, pins: readonly string[], acknowledges: boolean): Promise<boolean> {
    const { owner, token } = this.#lease.claim
    // `greatest`: a statement that arrives late never leads back to an earlier epoch.
    const lease = acknowledges
      ? `UPDATE ${this.#schema}.leases SET epoch = greatest(epoch, $3::bigint)`
      : `SELECT owner FROM ${this.#schema}.leases`
    const [row] = await this.#write(
      `WITH current AS (SELECT FROM ${this.#schema}.collections WHERE epoch = $3::bigint FOR SHARE),
        mine AS (${lease} WHERE ${this.#lease.checked.row} AND token = $1::bigint AND owner = $2
          AND expires_at > clock_timestamp() AND EXISTS (SELECT FROM current)
          ${acknowledges ? 'RETURNING owner' : 'FOR SHARE'}),
        pinned AS (INSERT INTO ${this.#schema}.pins (owner, epoch, body)
          SELECT mine.owner, $3::bigint, p.body FROM mine, unnest($4::bytea[]) AS p(body))
        SELECT EXISTS (SELECT FROM mine)`,
      () => [token, owner, of, byteaArray(pins)],
    )
    if (row?.[0] !== 't') return false
    if (acknowledges) this.#lease.acknowledged(of)
    return true
  }

  async begin(): Promise<void> {
    this.#isCollecting = true
    try {
      await this.#begin()
    } catch (error) {
      this.#token = undefined
      this.#isCollecting = false
      throw error
    }
  }

  async #begin(): Promise<void> {
    await this.#endOfKilled()
    const { owner, token } = this.#lease.claim
    const [row] = await this.#write(
      `UPDATE ${this.#schema}.collections SET owner = $2, token = token + 1
        WHERE (owner IS NULL OR owner = $2) AND ${this.#isMine} RETURNING token, ${this.#lease.checked.files}`,
      () => [token, owner],
    )
    if (row === undefined) {
      await this.#connections.write((client) => this.#lease.checkRows(client))
      throw collectingError()
    }
    this.#token = String(row[0])
    this.#files = String(row[1])
    await this.#write(`DELETE FROM ${this.#schema}.pins WHERE ${this.#hasRole}`, () => this.#claims)
  }

  async next(stage: CollectionStage): Promise<number> {
    const [row] = await this.#write(
      `UPDATE ${this.#schema}.collections SET epoch = epoch + 1, stage = $4
        WHERE owner = $2 AND token = $3::bigint AND ${this.#isMine} RETURNING epoch`,
      () => [...this.#claims, stage],
    )
    if (row === undefined) throw endedError()
    return Number(row[0])
  }

  async acknowledgement(epoch: number): Promise<Acknowledgement> {
    // From here on, these engines store nothing with their old leases. The deletion waits for their last statements.
    const ended = await this.#write(
      `DELETE FROM ${this.#schema}.leases WHERE name IN (
        SELECT name FROM ${this.#schema}.leases
          WHERE starts_with(name, 'engine:') AND expires_at <= clock_timestamp() AND ${this.#hasRole} FOR UPDATE)
        RETURNING 1`,
      () => this.#claims,
    )
    const [row] = await this.#write(
      `SELECT NOT EXISTS (SELECT FROM ${this.#schema}.leases WHERE starts_with(name, 'engine:') AND epoch < $4::bigint),
        ${this.#hasRole}`,
      () => [...this.#claims, epoch],
    )
    if (row?.[1] !== 't') throw endedError()
    return { isComplete: row[0] === 't', endedEngines: ended.length }
  }

  async *pins(since: number): AsyncGenerator<readonly string[], void, undefined> {
    for (let after = '0'; ;) {
      const rows = await this.#connections.read({
        text: `SELECT id, encode(body, 'hex') FROM ${this.#schema}.pins
          WHERE epoch >= $1 AND id > $2 ORDER BY id LIMIT ${postgresLimits.pinsPerRead}`,
        values: [since, after],
      })
      const last = rows.at(-1)
      if (last === undefined) return
      yield rows.map(([, hex]) => Buffer.from(hex ?? '', 'hex').toString())
      after = String(last[0])
    }
  }

  async sweep(
    nodes: readonly string[],
    blobs: readonly string[],
    before: number,
  ): Promise<ReadonlySet<string>> {
    const swept = new Set<string>()
    for (const [table, column, names] of [
      ['nodes', 'key', nodes.map((key) => Buffer.from(key))],
      ['blobs', 'hash', blobs.map(this.#hash)],
    ] as const) {
      if (names.length === 0) continue
      // A row that another statement has locked is compared again, so its epoch is the newest one.
      const rows = await this.#write(
        `WITH lease AS (SELECT FROM ${this.#schema}.leases WHERE ${this.#lease.checked.row} AND token = $1::bigint
            AND owner = $2 AND expires_at > clock_timestamp() AND ${this.#lease.checked.files} = $6 FOR SHARE),
          role AS (SELECT FROM ${this.#schema}.collections WHERE owner = $2 AND token = $3::bigint FOR SHARE),
          gone AS (DELETE FROM ${this.#schema}.${table} WHERE ${column} = ANY($4::bytea[]) AND epoch < $5::bigint
            AND EXISTS (SELECT FROM lease) AND EXISTS (SELECT FROM role) RETURNING ${column} AS name)
          SELECT encode(name, 'hex') FROM gone
          UNION ALL SELECT NULL WHERE NOT (EXISTS (SELECT FROM lease) AND EXISTS (SELECT FROM role))`,
        () => [...this.#claims, byteaArray(names), before, this.#files],
      )
      for (const [hex] of rows) {
        if (typeof hex !== 'string') throw endedError()
        swept.add(table === 'blobs' ? hex : Buffer.from(hex, 'hex').toString())
      }
    }
    return swept
  }

  /** If this fails, the next look at the epoch does it again, or others do it once the lease of this engine is over. */
  async end(): Promise<void> {
    // After `lost`, the number is not known any more. An engine has no other collection at the same time.
    const token = this.#token ?? '0'
    this.#token = undefined
    try {
      await this.#giveBack(token)
    } finally {
      this.#isCollecting = false
    }
  }

  /** Ends the collection of this engine that has the number `token`. '0' means any number. */
  async #giveBack(token: string): Promise<void> {
    await this.#write(
      `WITH ended AS (UPDATE ${this.#schema}.collections SET owner = NULL, token = token + 1, stage = 'none'
          WHERE owner = $1 AND $2::bigint IN (0, token) RETURNING 1)
        DELETE FROM ${this.#schema}.pins WHERE EXISTS (SELECT FROM ended)`,
      () => [this.#lease.claim.owner, token],
    )
  }

  /** The parameters of {@link #hasRole}. */
  get #claims(): readonly [token: string, owner: string, collector: string] {
    const { token, owner }: LeaseClaim = this.#lease.claim
    return [token, owner, this.#token ?? '0']
  }

  get #isMine(): string {
    return `EXISTS (SELECT FROM ${this.#schema}.leases WHERE ${this.#lease.checked.row} AND token = $1::bigint
      AND owner = $2 AND expires_at > clock_timestamp())`
  }

  get #hasRole(): string {
    return `(${this.#isMine} AND EXISTS (SELECT FROM ${this.#schema}.collections WHERE owner = $2 AND token = $3::bigint))`
  }

  #isAlive(owner: string): string {
    return `EXISTS (SELECT FROM ${this.#schema}.leases l WHERE l.owner = ${owner} AND l.expires_at > clock_timestamp()
      AND starts_with(l.name, 'engine:'))`
  }

  /** `values` is called when the statement is sent, so that a collection that was given up meanwhile sends nothing. */
  async #write(text: string, values: () => readonly unknown[] = () => []): Promise<Row[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#connections.write((client) =>
          run(client, { text, values: values() }, postgresLimits.commitMs),
        )
      } catch (error) {
        // Another engine waited for this statement, which the server has rolled back.
        if (!isDeadlock(error) || attempt === postgresLimits.deadlockAttempts) throw error
      }
    }
  }
}
