import { openEngine, type Engine } from 'forkspace'
import { postgresStorage } from 'forkspace/postgres'
import pg from 'pg'
import { hasPostgres, PostgresServer } from '../../test/support/postgres-server.js'
import { race, type Contestant } from '../support/measure.js'
import { contents } from '../support/project-files.js'
import { singleRow, timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const writerCounts = [1, 8, 64] as const
/** Connections of the raw inserts. More of them are not faster on a small machine. */
const rawConnections = 8

/** Acknowledged writes, compared with inserts of one row by pg on the same server, and round trips of operations. */
export const postgres: Scenario = {
  name: 'postgres',
  title: 'Acknowledged writes on PostgreSQL, compared with inserts of a row of 200 B by pg',
  async *run(context) {
    if (!hasPostgres) return
    const server = await PostgresServer.start()
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
      const count = context.count(writers === 1 ? 400 : 6400)
      const timings = await race(
        { ours: await writes(engine, writers, count), raw: inserts(raw, writers, count) },
        { rounds: context.rounds },
      )
      yield timingRow({
        what: `writes by ${writers} writer${writers === 1 ? '' : 's'}`,
        ours: timings.ours,
        peer: { name: 'raw inserts', timing: timings.raw },
        perSecond: true,
      })
    }
  } finally {
    await raw.end()
  }
  yield* roundTrips(server)
}

async function writes(engine: Engine, writers: number, count: number): Promise<Contestant> {
  const sessions = await Promise.all(Array.from({ length: writers }, () => engine.sessions.create()))
  const bodies = contents(1024, 200)
  let number = 0
  return shared(writers, count, (writer) => {
    const content = bodies[number % bodies.length]!
    // Every content is new.
    content.writeUInt32LE(number)
    return sessions[writer]!.fs.promises.writeFile(`/file-${number++}`, content)
  })
}

function inserts(raw: pg.Pool, writers: number, count: number): Contestant {
  const [value] = contents(1, 200)
  return shared(writers, count, () =>
    raw.query({ name: 'insert', text: 'INSERT INTO raw (value) VALUES ($1)', values: [value] }),
  )
}

/** Work that several writers share, each of which waits for its own. */
function shared(writers: number, count: number, work: (writer: number) => Promise<unknown>): Contestant {
  const share = Math.ceil(count / writers)
  return {
    count: share * writers,
    run: async () => {
      const one = async (writer: number): Promise<void> => {
        for (let i = 0; i < share; i++) await work(writer)
      }
      await Promise.all(Array.from({ length: writers }, (_, writer) => one(writer)))
    },
  }
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
