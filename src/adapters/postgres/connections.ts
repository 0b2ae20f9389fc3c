import { EngineError, invalid } from '../../engine/ports.js'
import { isTaken, keepsConnection, noConnection } from './errors.js'
import { postgresLimits } from './limits.js'

/** A statement, in the form of a query of `pg`. */
export interface PostgresQuery {
  /** The SQL. */
  text: string
  /** The name of a prepared statement. Absent: the statement is not prepared. */
  name?: string
  /** The parameters. */
  values?: unknown[]
  /** Rows are arrays. */
  rowMode: 'array'
  /** How values are parsed. */
  types: PostgresTypes
  /** The longest time to wait for the result, in milliseconds. */
  query_timeout: number
}

/** The parsers of values of a {@link PostgresQuery}. */
export interface PostgresTypes {
  /** The parser of a type, which returns the text unchanged. */
  getTypeParser(): (text: string) => string
}

/** The result of a {@link PostgresQuery}. */
export interface PostgresRows {
  /** The rows, each an array of values. */
  readonly rows: unknown[]
}

/** A connection of a {@link PostgresPool}, such as a `PoolClient` of `pg`. */
export interface PostgresClient {
  /** Runs a statement. */
  query(query: PostgresQuery): Promise<PostgresRows>
  /** Adds a listener for a lost connection. */
  on(event: 'error', listener: (error: Error) => void): unknown
  /** Removes the listener. */
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  /** Gives the connection back. With true or an error, it is closed. */
  release(error?: Error | boolean): void
}

/** A pool of connections, such as a `Pool` of `pg`. */
export interface PostgresPool {
  /** A connection for exclusive use, until its `release`. */
  connect(): Promise<PostgresClient>
}

/** A row: the values as text, or null. */
export type Row = readonly (string | null)[]

export interface Statement {
  readonly text: string
  /** Absent: the statement is not prepared. */
  readonly name?: string
  readonly values?: readonly unknown[]
}

const text = (value: string): string => value
/** The process may have changed the parsers of `pg`, so none of them is used. */
const types = { getTypeParser: () => text }

/** Runs a statement on a connection. */
export async function run(client: PostgresClient, statement: Statement, timeoutMs: number): Promise<Row[]> {
  const { rows } = await client.query({
    text: statement.text,
    ...(statement.name !== undefined && { name: statement.name }),
    values: statement.values === undefined ? [] : [...statement.values],
    rowMode: 'array',
    types,
    query_timeout: timeoutMs,
  })
  return rows as Row[]
}

/** The timeline of the server's log. It is another one after a standby was promoted. A standby has none to write to. */
const timelineOf: Statement = {
  text: 'SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END',
}

/** The connections of a store: one for its commits, and several for its reads. */
export class Connections {
  readonly #pool: PostgresPool
  readonly #setUp: Statement
  readonly #end: () => Promise<void>
  #writer: PostgresClient | undefined
  #onLost: () => void = ignore
  #onPromoted: () => void = ignore
  #timeline: string | undefined
  /** The end of the newest call of `write`. */
  #written: Promise<unknown> = Promise.resolve()

  /** `setUp` runs first on each connection for commits. `end` closes the pool, if this store made it. */
  constructor(pool: PostgresPool, setUp: Statement, end: () => Promise<void>) {
    this.#pool = pool
    this.#setUp = setUp
    this.#end = end
  }

  /** Sets a callback for the end of a connection for commits, whatever its cause. */
  onLost(listener: () => void): void {
    this.#onLost = listener
  }

  /**
   * Sets a callback for a connection for commits that leads to a promoted standby, before its first use. If the callback
   * throws, the work that needed the connection is not done.
   */
  onPromoted(listener: () => void): void {
    this.#onPromoted = listener
  }

  /**
   * Runs work on the connection for commits, after the work of earlier calls. Opens the connection if there is
   * none. If the work fails in a way that may have broken the connection, the next call opens another one.
   */
  write<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const done = this.#written.then(() => this.#write(work))
    this.#written = done.catch(ignore)
    return done
  }

  async #write<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = this.#writer ?? (await this.#openWriter())
    setRef(client, true)
    try {
      return await work(client)
    } catch (error) {
      if (!keepsConnection(error) && !isTaken(error)) this.dropWriter()
      throw error
    } finally {
      if (this.#writer === client) setRef(client, false)
    }
  }

  /** Closes the connection for commits, which may be broken. */
  dropWriter(): void {
    const writer = this.#writer
    this.#writer = undefined
    if (writer === undefined) return
    // Later errors of the closed connection are ignored.
    writer.release(true)
    this.#onLost()
  }

  /**
   * Runs a statement that changes nothing. Repeats it if the connection is lost, which shows at once. A server that did
   * not answer in time is not asked again.
   */
  async read(statement: Statement): Promise<Row[]> {
    const startedAt = performance.now()
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.once(statement)
      } catch (error) {
        const isLate = performance.now() - startedAt > postgresLimits.readAgainMs
        if (attempt === postgresLimits.readAttempts || isLate || !isLost(error)) throw error
      }
    }
  }

  /** Runs a statement on a connection for reads, once. */
  once(statement: Statement, timeoutMs: number = postgresLimits.readMs): Promise<Row[]> {
    return this.aside((client) => run(client, statement, timeoutMs))
  }

  /** Runs work on a connection for reads. */
  async aside<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    client.on('error', ignore)
    let broken = true
    try {
      const result = await work(client)
      broken = false
      return result
    } catch (error) {
      broken = !keepsConnection(error)
      throw error
    } finally {
      if (!broken) client.removeListener('error', ignore)
      client.release(broken)
    }
  }

  async close(): Promise<void> {
    this.dropWriter()
    await this.#end()
  }

  /** A connection of the pool. A pool of the caller may wait for one without a bound of its own. */
  #connect(): Promise<PostgresClient> {
    return new Promise((resolve, reject) => {
      let isOver = false
      const timer = setTimeout(() => {
        isOver = true
        reject(noConnection(postgresLimits.poolMs))
      }, postgresLimits.poolMs)
      const connecting = (async () => this.#pool.connect())()
      connecting.then(
        (client) => {
          clearTimeout(timer)
          if (isOver) client.release()
          else resolve(client)
        },
        (error: unknown) => {
          clearTimeout(timer)
          reject(error)
        },
      )
    })
  }

  async #openWriter(): Promise<PostgresClient> {
    const client = await this.#connect()
    // Without a listener, a connection that is lost while it is idle would end the process.
    client.on('error', () => {
      if (this.#writer === client) this.dropWriter()
    })
    const before = this.#timeline
    try {
      await run(client, this.#setUp, postgresLimits.readMs)
      const [row] = await run(client, timelineOf, postgresLimits.readMs)
      this.#timeline = row?.[0] ?? before
    } catch (error) {
      client.release(true)
      throw error
    }
    this.#writer = client
    if (before !== undefined && this.#timeline !== before) this.#onPromoted()
    return client
  }
}

/** Whether an idle connection keeps the process running. Not every pool has connections with this choice. */
function setRef(client: PostgresClient, isRef: boolean): void {
  const { ref, unref } = client as Partial<Record<'ref' | 'unref', () => void>>
  const change = isRef ? ref : unref
  if (typeof change === 'function') change.call(client)
}

/** Whether a read failed because its connection was lost. A new connection may succeed. */
function isLost(error: unknown): boolean {
  return !(error instanceof EngineError) && !keepsConnection(error)
}

function ignore(): void {}

/** @throws {EngineError} INVALID_ARGUMENT when the pool has no room for commits and reads. */
export function checkPool(pool: unknown): PostgresPool {
  if (typeof pool !== 'object' || pool === null || typeof Reflect.get(pool, 'connect') !== 'function')
    throw invalid('pool', 'must be a pool of pg, with a method connect')
  const options: unknown = Reflect.get(pool, 'options')
  const max: unknown =
    typeof options === 'object' && options !== null ? Reflect.get(options, 'max') : undefined
  if (typeof max === 'number' && max < 2)
    throw invalid(
      'pool',
      `needs at least 2 connections: one for commits, and one for reads; its max is ${max}`,
    )
  return pool as PostgresPool
}
