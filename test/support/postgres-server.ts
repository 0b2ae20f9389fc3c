import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { initialDataVariable } from './initial-postgres-data.js'
import { temporaryDirectory } from './temporary-directory.js'

const programs = findPrograms()

/** Whether PostgreSQL is installed. A missing one is an error when FORKSPACE_REQUIRE_ALL is 1. */
export const hasPostgres = programs !== undefined
if (!hasPostgres && process.env['FORKSPACE_REQUIRE_ALL'] === '1') throw new Error('PostgreSQL is missing')

/** The port is only a part of the name of the socket. */
const port = 5432
const user = 'postgres'
/** A server that has not answered by then has failed to start. */
const mostTries = 1000

/** The directory with `initdb` and `postgres`: on the path, or where Debian and others put it. */
function findPrograms(): string | undefined {
  const packaged = '/usr/lib/postgresql'
  const versions = existsSync(packaged) ? readdirSync(packaged).toSorted((a, b) => Number(b) - Number(a)) : []
  const places = [
    ...versions.map((version) => join(packaged, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(':'),
  ]
  return places.find((place) => existsSync(join(place, 'initdb')) && existsSync(join(place, 'postgres')))
}

/** PostgreSQL refuses to run as root, so root runs it as another user. */
function account(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const [uid, gid] = ['-u', '-g'].map((flag) =>
    Number(execFileSync('id', [flag, user], { encoding: 'utf8' })),
  )
  return { uid: uid!, gid: gid! }
}

/**
 * Ends the server when standard input ends, which it also does when this process is killed. Then removes the
 * directory.
 */
const guard = `
  "$0" "$@" & server=$!
  cat >/dev/null
  kill -QUIT "$server" 2>/dev/null
  wait "$server"
  rm -rf "$FORKSPACE_POSTGRES"`

/** Runs a program as the owner of the data. */
type Run = (program: string, args: readonly string[]) => void

/** Makes the data of a server in a directory. */
type MakeData = (data: string, run: Run) => void

const initialize: MakeData = (data, run) => {
  const options = ['--no-sync', '--no-instructions', '--auth=trust', `--username=${user}`, '--no-locale']
  run(join(programs!, 'initdb'), ['-D', data, ...options, '-E', 'UTF8'])
}

/** Copies the data of a new server. `initdb` takes a second, so it runs only once in each run of the tests. */
const copyInitial: MakeData = (data, run) => {
  const initial = process.env[initialDataVariable]
  if (initial === undefined) {
    initialize(data, run)
    return
  }
  if (!existsSync(initial)) {
    const made = `${initial}-${process.pid}`
    initialize(made, run)
    try {
      renameSync(made, initial)
    } catch {
      // Another process was first.
      rmSync(made, { recursive: true })
    }
  }
  run('cp', ['-a', initial, data])
}

/** A PostgreSQL server with its own data, which listens on a Unix socket. */
export class PostgresServer {
  /** The directory of the data and the socket. */
  readonly directory: string
  readonly #settings: readonly string[]
  #process: ChildProcess | undefined

  /** Starts a server with no data, in a new directory below `parent`. `settings` are of the form `name=value`. */
  static start(settings: readonly string[] = [], parent = temporaryDirectory()): Promise<PostgresServer> {
    return PostgresServer.#startNew(settings, parent, copyInitial)
  }

  /** Starts a standby of a server that sends its log, which is one with the same settings. */
  static startStandby(primary: PostgresServer): Promise<PostgresServer> {
    const from = ['-h', primary.directory, '-p', String(port), '-U', user]
    const options = ['--write-recovery-conf', '--checkpoint=fast', '--no-sync']
    return PostgresServer.#startNew(primary.#settings, temporaryDirectory(), (data, run) => {
      run(join(programs!, 'pg_basebackup'), ['-D', data, ...from, ...options])
    })
  }

  static async #startNew(
    settings: readonly string[],
    parent: string,
    makeData: MakeData,
  ): Promise<PostgresServer> {
    const server = new PostgresServer(settings, parent, makeData)
    await server.start()
    return server
  }

  private constructor(settings: readonly string[], parent: string, makeData: MakeData) {
    this.#settings = settings
    this.directory = mkdtempSync(join(parent, 'pg-'))
    const owner = account()
    if (owner !== undefined) chownSync(this.directory, owner.uid, owner.gid)
    chmodSync(this.directory, 0o700)
    makeData(join(this.directory, 'data'), (program, args) => {
      execFileSync(program, args, { stdio: 'ignore', cwd: '/', ...owner })
    })
  }

  /** Starts the server again. It recovers first if it was killed. */
  async start(): Promise<void> {
    const options = [
      'listen_addresses=',
      'max_connections=60',
      'wal_level=minimal',
      'max_wal_senders=0',
      'dynamic_shared_memory_type=mmap',
      ...this.#settings,
    ]
    const args = [
      '-D',
      join(this.directory, 'data'),
      '-k',
      this.directory,
      ...options.flatMap((option) => ['-c', option]),
    ]
    const log = openSync(join(this.directory, 'log'), 'w')
    const child = spawn('sh', ['-c', guard, join(programs!, 'postgres'), ...args], {
      stdio: ['pipe', log, log],
      cwd: '/',
      env: { ...process.env, FORKSPACE_POSTGRES: this.directory },
      ...account(),
    })
    this.#process = child
    // An open server does not keep the process of the tests alive.
    child.unref()
    ;(child.stdin as unknown as { unref(): void }).unref()
    closeSync(log)
    for (let tries = 0; ; tries++) {
      const client = this.client()
      client.on('error', () => undefined)
      try {
        await client.connect()
        await client.end()
        return
      } catch (cause) {
        if (tries > mostTries) throw new Error(readFileSync(join(this.directory, 'log'), 'utf8'), { cause })
        await sleep(20)
      }
    }
  }

  /** The process of the server itself. */
  get pid(): number {
    return Number(
      execFileSync('head', ['-1', join(this.directory, 'data', 'postmaster.pid')], { encoding: 'utf8' }),
    )
  }

  /** Kills all processes of the server. Unwritten data is lost. */
  async kill(): Promise<void> {
    const exited = once(this.#process!, 'exit')
    this.#process!.ref()
    // Without the guard, the data is kept.
    this.#process!.kill('SIGKILL')
    await exited
    const { pid } = this
    const backends = psOf('pid=', '--ppid', pid).split(/\s+/)
    for (const each of [pid, ...backends.map(Number)]) {
      try {
        process.kill(each, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
    }
    // A process without a parent that reads its status may stay as a zombie, whose id the next server would respect.
    while (/^[^Z]/.test(psOf('stat=', '-p', pid))) await sleep(5)
    for (const file of [join(this.directory, 'data', 'postmaster.pid'), `${this.socket}.lock`]) rmSync(file)
  }

  /** Ends the server and removes its data. */
  async remove(): Promise<void> {
    const child = this.#process!
    if (child.exitCode !== null || child.signalCode !== null) {
      rmSync(this.directory, { recursive: true })
      return
    }
    const exited = once(child, 'exit')
    child.ref()
    child.stdin!.end()
    await exited
  }

  /** A client that is not connected. */
  client(): pg.Client {
    return new pg.Client({ host: this.directory, port, user, database: 'postgres' })
  }

  get socket(): string {
    return join(this.directory, `.s.PGSQL.${port}`)
  }

  get connectionString(): string {
    return `postgres:///postgres?host=${encodeURIComponent(this.directory)}&port=${port}&user=${user}`
  }

  /** Runs SQL, and returns its rows. */
  async sql(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = this.client()
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(text, values)).rows
    } finally {
      await client.end()
    }
  }
}

function psOf(column: string, by: string, pid: number): string {
  return spawnSync('ps', ['-o', column, by, String(pid)], { encoding: 'utf8' }).stdout.trim()
}
