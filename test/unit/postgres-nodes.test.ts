/** Round trips for reading trees from PostgreSQL. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'

describe.skipIf(!hasPostgres).each(['UTF8', 'LATIN1'])(
  'trees in a database with the encoding %s',
  (encoding) => {
    let server: PostgresServer
    let database: string
    let schema: string
    let storage: Storage
    let engine: Engine
    let statements = 0

    beforeEach(async () => {
      server = await sharedPostgres()
      schema = freshSchema()
      database = `trees_${schema}`
      await server.sql(`CREATE DATABASE ${database} ENCODING '${encoding}' TEMPLATE template0`)
      storage = postgresStorage({ client: counted, schema })
      engine = await openEngine({ storage })
    })
    afterEach(async () => {
      await engine.close()
      await server.sql(`DROP DATABASE ${database}`)
    })

    const connected = (): pg.Client => new pg.Client({ host: server.directory, user: 'postgres', database })

    function counted(): pg.Client {
      const client = connected()
      const query = client.query.bind(client) as (...given: unknown[]) => unknown
      client.query = ((...given: unknown[]) => {
        statements++
        return query(...given)
      }) as typeof client.query
      return client
    }

    /** A session with these files, opened by another engine. */
    async function reopened(files: Readonly<Record<string, string>>): Promise<Session> {
      const { id } = await engine.sessions.create({ files })
      await engine.close()
      engine = await openEngine({ storage })
      const session = await engine.sessions.open(id)
      statements = 0
      return session
    }

    test('a first read three levels down takes three round trips, and a read of its neighbor takes one', async () => {
      const names = Array.from({ length: 100 }, (_, at) => `/src/lib/größe-${at}.ts`)
      const session = await reopened(Object.fromEntries(names.map((path) => [path, `content of ${path}`])))
      expect(Buffer.from(await session.files.read({ path: String(names[1]) })).toString()).toBe(
        `content of ${names[1]}`,
      )
      expect(statements).toBe(3)
      await session.files.read({ path: String(names[2]) })
      expect(statements).toBe(4)
    })

    test('a manifest is that of a session in memory', async () => {
      const files = Object.fromEntries(
        Array.from({ length: 300 }, (_, at) => [`/${at % 30}/${at}/file`, String(at)] as const),
      )
      const session = await reopened(files)
      const { manifestHash } = await session.manifest()
      const other = await openEngine()
      const same = await other.sessions.create({ files })
      expect((await same.manifest()).manifestHash).toBe(manifestHash)
      await other.close()
    })

    test('names that look like addresses, and large directories, change only the number of round trips', async () => {
      const address = 'a'.repeat(40)
      const names = Array.from(
        { length: postgresLimits.nodesAtOnce },
        (_, at) => `/${String(at).padStart(4, '0')}/${address}`,
      )
      const long = 'n'.repeat(200)
      const many = Array.from({ length: 200 }, (_, at) => `/dir/${long}${at}`)
      const paths = [`/${address}`, `/["d",1,"${address}"/b`, ...names, ...many, '/z/last']
      const session = await reopened(Object.fromEntries(paths.map((path) => [path, path])))
      for (const path of paths) expect(Buffer.from(await session.files.read({ path })).toString()).toBe(path)
    })

    test('a damaged directory is reported when it is used, not before', async () => {
      const session = await reopened({ '/good/a': 'a', '/bad/b': 'b', '/c': 'c' })
      const client = connected()
      await client.connect()
      const damaged = `UPDATE "${schema}".nodes SET value = 'x' WHERE strpos(encode(value, 'escape'), '["b",') > 0`
      expect((await client.query(damaged)).rowCount).toBe(1)
      await client.end()
      expect(Buffer.from(await session.files.read({ path: '/good/a' })).toString()).toBe('a')
      await expect(session.files.read({ path: '/bad/b' })).rejects.toMatchObject({ reason: 'DATA_LOSS' })
      expect(Buffer.from(await session.files.read({ path: '/c' })).toString()).toBe('c')
    })
  },
)
