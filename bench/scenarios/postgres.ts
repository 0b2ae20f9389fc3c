import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { openEngine } from 'forkspace'
import { postgresStorage } from 'forkspace/postgres'
import pg from 'pg'
import { hasPostgres, PostgresServer } from '../../test/support/postgres-server.js'
import { race, type Contestant } from '../support/measure.js'
import { insertsOf, writesOf, type WriteStep, type WriteWork } from '../support/postgres-writes.js'
import { singleRow, timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const writerCounts = [1, 8, 64] as const
/** Besides this process. */
const processCounts = [2, 4] as const
/** Connections of the raw inserts, in all processes. More of them are not faster on a small machine. */
const rawConnections = 8

/** Acknowledged writes, compared with inserts of one row by pg on the same server, and round trips of operations. */
export const postgres: Scenario = {
  name: 'postgres',
  title: 'Acknowledged writes on PostgreSQL, compared with inserts of a row of 200 B by pg',
  async *run(context) {
    if (!hasPostgres) return
    // On the disk: in memory, a commit would not wait for anything.
    const server = await PostgresServer.start([], tmpdir())
    try {
      yield* onServer(server, context)
    } finally {
      await server.remove()
    }
  },
}

async function* onServer(server: PostgresServer, context: Context): AsyncGenerator<Row> {
  const { connectionString } = server
  const raw = new pg.Pool({ connectionString, max: rawConnections })
  await raw.query('CREATE TABLE raw (id bigserial PRIMARY KEY, value bytea)')
  try {
    await using engine = await openEngine({ storage: postgresStorage({ connectionString }) })
    for (const writers of writerCounts) {
      const count = context.count(writers === 1 ? 3200 : 6400)
      const timings = await race(
        { ours: await writesOf(engine, writers, count), raw: insertsOf(raw, writers, count) },
        { rounds: context.rounds },
      )
      yield timingRow({
        what: `writes by ${writers} writer${writers === 1 ? '' : 's'}`,
        ours: timings.ours,
        peer: { name: 'raw inserts', timing: timings.raw },
        perSecond: true,
      })
    }
    for (const processes of context.smoke ? processCounts.slice(0, 1) : processCounts)
      yield* byProcesses(connectionString, processes, context)
  } finally {
    await raw.end()
  }
  yield* roundTrips(server)
}

/** The same in several processes that share the store, or the table. */
async function* byProcesses(
  connectionString: string,
  processes: number,
  context: Context,
): AsyncGenerator<Row> {
  for (const writers of context.smoke ? [8] : writerCounts) {
    if (writers < processes) continue
    const each = (kind: WriteWork['kind']): WriteWork => ({
      kind,
      connectionString,
      writers: writers / processes,
      count: Math.ceil(context.count(6400) / processes),
      connections: rawConnections / processes,
    })
    await using ours = await Workers.start(each('writes'), processes)
    await using raw = await Workers.start(each('inserts'), processes)
    const timings = await race({ ours: ours.contestant, raw: raw.contestant }, { rounds: context.rounds })
    yield timingRow({
      what: `writes by ${writers} writers in ${processes} processes`,
      ours: timings.ours,
      peer: { name: 'raw inserts', timing: timings.raw },
      perSecond: true,
    })
  }
}

/** Processes that do the same work at the same time. */
class Workers implements AsyncDisposable {
  readonly contestant: Contestant
  readonly #children: readonly ChildProcess[]

  static async start(work: WriteWork, processes: number): Promise<Workers> {
    const children = Array.from({ length: processes }, () =>
      fork(new URL('../support/postgres-worker.js', import.meta.url)),
    )
    const counts: number[] = []
    // One after the other, because the first one creates the tables.
    for (const child of children) counts.push(await asked(child, { step: 'start', work }))
    return new Workers(
      children,
      counts.reduce((sum, count) => sum + count, 0),
    )
  }

  private constructor(children: readonly ChildProcess[], count: number) {
    this.#children = children
    const run = async (): Promise<void> => {
      await Promise.all(children.map((child) => asked(child, { step: 'run' })))
    }
    this.contestant = { count, run }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ends = this.#children.map((child) => once(child, 'exit'))
    for (const child of this.#children) child.disconnect()
    await Promise.all(ends)
  }
}

async function asked(child: ChildProcess, step: WriteStep): Promise<number> {
  child.send(step)
  const [{ count, error }] = (await once(child, 'message')) as [{ count: number; error?: string }]
  if (error !== undefined) throw new Error(error)
  return count
}

/** The statements that operations send, each of which is a round trip. */
async function* roundTrips(server: PostgresServer): AsyncGenerator<Row> {
  let statements = 0
  const client = (): pg.Client => {
    const made = server.client()
    const query = made.query.bind(made) as (...given: unknown[]) => unknown
    made.query = ((...given: unknown[]) => {
      statements++
      return query(...given)
    }) as typeof made.query
    return made
  }
  const storage = postgresStorage({ client, schema: 'round_trips' })
  // No look at the heads of sessions falls into a count.
  const shared = { schema: 'shared_round_trips', shared: true, freshnessMillis: 60_000 }
  const counted = async (what: string, work: () => Promise<unknown>): Promise<Row> => {
    const before = statements
    await work()
    return singleRow(`round trips of ${what}`, 'count', statements - before)
  }
  const first = await openEngine({ storage })
  const files = Object.fromEntries(
    Array.from({ length: 100 }, (_, i) => [`/src/lib/file-${i}.ts`, `content ${i}`]),
  )
  const session = await first.sessions.create({ files })
  yield await counted('a write', () => session.files.write({ path: '/a.txt', content: 'a' }))
  yield await counted('a fork', () => session.fork())
  yield await counted('a checkpoint', () => session.checkpoint())
  yield await counted('a read of a file in memory', () => session.files.read({ path: '/a.txt' }))
  await first.close()
  const second = await openEngine({ storage })
  let again = session
  yield await counted('opening a session', async () => {
    again = await second.sessions.open(session.id)
  })
  yield await counted('a first read of /src/lib/file-1.ts', () =>
    again.files.read({ path: '/src/lib/file-1.ts' }),
  )
  yield await counted('a first read of a file beside it', () =>
    again.files.read({ path: '/src/lib/file-2.ts' }),
  )
  await second.close()
  const one = await openEngine({ storage: postgresStorage({ client, ...shared }) })
  const other = await openEngine({
    storage: postgresStorage({ connectionString: server.connectionString, ...shared }),
  })
  const { id } = await other.sessions.create({ files })
  let theirs = session
  yield await counted('opening a session, shared', async () => {
    theirs = await one.sessions.open(id)
  })
  await theirs.files.write({ path: '/a.txt', content: 'a' })
  yield await counted('a write, shared', () => theirs.files.write({ path: '/a.txt', content: 'b' }))
  await (await other.sessions.open(id)).files.write({ path: '/b.txt', content: 'b' })
  yield await counted('a write after one of another engine, shared', () =>
    theirs.files.write({ path: '/a.txt', content: 'c' }),
  )
  await one.close()
  await other.close()
}
