import { setTimeout as sleep } from 'node:timers/promises'
import { PostgresProxy } from './postgres-proxy.js'
import { PostgresServer } from './postgres-server.js'

const settings = [
  'wal_level=replica',
  'max_wal_senders=4',
  // A standby connects again soon after its primary was restarted.
  'wal_retrieve_retry_interval=50',
]
/** How long the standby gets nothing before the primary is killed. */
const lagMs = 100
/** A standby that has not connected by then has failed to start. */
const mostTries = 1000

/** A server with a standby, which is synchronous by default. One address leads to the primary. */
export class PostgresCluster {
  readonly proxy: PostgresProxy
  #primary: PostgresServer
  #standby: PostgresServer | undefined
  readonly #isSynchronous: boolean

  static async start({ synchronous = true } = {}): Promise<PostgresCluster> {
    const primary = await PostgresServer.start(settings)
    const proxy = await new PostgresProxy(primary.socket).listen()
    const cluster = new PostgresCluster(primary, proxy, synchronous)
    await cluster.addStandby()
    return cluster
  }

  private constructor(primary: PostgresServer, proxy: PostgresProxy, isSynchronous: boolean) {
    this.#primary = primary
    this.proxy = proxy
    this.#isSynchronous = isSynchronous
  }

  get primary(): PostgresServer {
    return this.#primary
  }

  /**
   * Kills the primary for good, and makes the standby the primary. The standby gets nothing of the last moments, in which
   * `lastly` runs. So only a synchronous one has every acknowledged commit.
   */
  async failOver(lastly: () => Promise<unknown> = () => sleep(lagMs)): Promise<void> {
    const standby = this.#standby
    if (standby === undefined) throw new Error('there is no standby')
    const old = this.#primary
    const [receiver] = await standby.sql('SELECT pid FROM pg_stat_wal_receiver')
    const pid = Number(receiver?.['pid'])
    process.kill(pid, 'SIGSTOP')
    await lastly()
    await old.kill()
    // It ends before it reads the newest data of the primary.
    for (const signal of ['SIGTERM', 'SIGCONT'] as const) process.kill(pid, signal)
    await standby.sql('SELECT pg_promote()')
    this.#primary = standby
    this.#standby = undefined
    this.proxy.redirect(standby.socket)
    await old.remove()
  }

  /** Starts a standby, unless there is one. If it is synchronous, it has each commit that the primary acknowledges. */
  async addStandby(): Promise<void> {
    if (this.#standby !== undefined) return
    this.#standby = await PostgresServer.startStandby(this.#primary)
    if (this.#isSynchronous) {
      await this.#primary.sql("ALTER SYSTEM SET synchronous_standby_names TO '*'")
      await this.#primary.sql('SELECT pg_reload_conf()')
    }
    await this.caughtUp()
  }

  /** Resolves when the standby has everything that the primary has. */
  async caughtUp(): Promise<void> {
    const states = this.#isSynchronous ? ['sync'] : ['sync', 'async']
    for (let tries = 0; ; tries++) {
      const found = await this.#primary.sql(
        `SELECT FROM pg_stat_replication
          WHERE state = 'streaming' AND sync_state = ANY($1) AND flush_lsn = pg_current_wal_flush_lsn()`,
        [states],
      )
      if (found.length > 0) return
      if (tries > mostTries) throw new Error('the standby does not catch up')
      await sleep(20)
    }
  }

  async close(): Promise<void> {
    await this.proxy.close()
    await this.#standby?.remove()
    await this.#primary.remove()
  }
}
