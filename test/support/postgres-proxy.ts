import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { temporaryDirectory } from './temporary-directory.js'

interface Pair {
  readonly client: Socket
  readonly server: Socket
  readonly held: Buffer[]
}

/** A Unix socket in front of that of a PostgreSQL server, or of one server after the other. */
export class PostgresProxy {
  readonly directory = mkdtempSync(join(temporaryDirectory(), 'pgp-'))
  #target: string
  readonly #pairs = new Set<Pair>()
  readonly #listener = createServer((socket) => this.#accept(socket))
  #holding = false
  #onHeld: (() => void) | undefined

  constructor(target: string) {
    this.#target = target
  }

  async listen(): Promise<this> {
    this.#listener.listen(join(this.directory, '.s.PGSQL.5432'))
    await once(this.#listener, 'listening')
    return this
  }

  get connectionString(): string {
    return `postgres:///postgres?host=${encodeURIComponent(this.directory)}&port=5432&user=postgres`
  }

  /** Leads further connections to another server. */
  redirect(target: string): void {
    this.#target = target
  }

  /** Cuts all connections on both sides. */
  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy()
      server.destroy()
    }
  }

  /** Keeps what clients send from now on. Resolves once something is kept. */
  hold(): Promise<void> {
    this.#holding = true
    return new Promise((resolve) => (this.#onHeld = resolve))
  }

  /**
   * Cuts the connections of the clients, whose data is kept, and forwards further connections again. Returns a function
   * that delivers the kept data to the server, and waits until the server is done with it.
   */
  cutClients(): () => Promise<void> {
    this.#holding = false
    const pairs = [...this.#pairs]
    this.#pairs.clear()
    for (const { client } of pairs) client.destroy()
    return async () => {
      for (const { server, held } of pairs) {
        const closed = once(server, 'close')
        server.end(Buffer.concat(held))
        await closed
      }
    }
  }

  async close(): Promise<void> {
    this.cut()
    this.#listener.close()
    await once(this.#listener, 'close')
    rmSync(this.directory, { recursive: true })
  }

  #accept(client: Socket): void {
    const server = connect(this.#target)
    const pair: Pair = { client, server, held: [] }
    this.#pairs.add(pair)
    client.on('data', (data) => {
      if (!this.#holding) {
        server.write(data)
        return
      }
      pair.held.push(data)
      this.#onHeld?.()
    })
    server.on('data', (data) => client.write(data))
    for (const socket of [client, server]) socket.on('error', () => undefined)
    server.on('close', () => client.destroy())
    client.on('close', () => {
      if (this.#pairs.delete(pair)) server.destroy()
    })
  }
}
