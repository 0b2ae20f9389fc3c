/** Schemas that the versions of the library before this one wrote, as pg_dump gives them. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { tableVersion } from '../../src/adapters/postgres/migrations.js'
import { openEngine, type Session } from '../../src/index.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'

const versions = Array.from({ length: tableVersion - 1 }, (_, index) => index + 1)

async function contentsOf({ fs }: Session): Promise<Record<string, string>> {
  const contents: Record<string, string> = {}
  for (const entry of await fs.promises.readdir('/', { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name)
      contents[path] = await fs.promises.readFile(path, 'utf8')
    }
  return contents
}

describe.skipIf(!hasPostgres)('tables of an earlier version', () => {
  test.each(versions)('of version %i are opened with all data, changed and collected', async (version) => {
    const server = await sharedPostgres()
    const schema = freshSchema()
    const dump = await readFile(join(process.cwd(), `test/fixtures/postgres/tables-v${version}.sql`), 'utf8')
    await server.sql(dump.replaceAll(/\bfixture(?=[.;])/g, schema))
    const { connectionString } = server
    await using engine = await openEngine({
      storage: postgresStorage({ connectionString, schema, shared: true }),
    })
    expect(await server.sql(`SELECT max(version) AS version FROM ${schema}.migrations`)).toEqual([
      { version: tableVersion },
    ])

    const { sessions } = await engine.sessions.list()
    expect(sessions).toHaveLength(2)
    const idOf = (isFork: boolean): string =>
      sessions.find(({ parent }) => (parent !== undefined) === isFork)?.id ?? ''
    const [session, fork] = [await engine.sessions.open(idOf(false)), await engine.sessions.open(idOf(true))]
    const large = Array.from({ length: 60 }, (_, i) => `line ${i} of a larger file\n`).join('')
    const modules = Array.from({ length: 12 }, (_, i) => [
      `/src/module-${i}.ts`,
      `export const value = ${i}\n`,
    ])
    const created = { '/README.md': '# Fixture\n', '/large.txt': large, ...Object.fromEntries(modules) }
    const changed = { ...created, '/README.md': '# Changed\n' }
    const { '/src/module-1.ts': _, ...kept } = changed
    const forked = {
      ...kept,
      '/src/module-0.ts': 'export const value = 100\n',
      '/large.txt': `${large}the end\n`,
    }
    expect(await contentsOf(session)).toEqual(changed)
    expect(await contentsOf(fork)).toEqual(forked)
    expect(await session.fs.promises.readlink('/link')).toBe('README.md')

    await fork.fs.promises.writeFile('/new', 'new')
    await session.restore({ checkpointLabel: 'start' })
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    expect(await contentsOf(session)).toEqual(created)
    expect(await contentsOf(fork)).toEqual({ ...forked, '/new': 'new' })
    expect(await engine.check({ readData: true })).toMatchObject({ found: 0 })
  })
})
