import { connect } from '../../src/adapters/client/index.js'
import { afterEach, describe, expect, test } from 'vitest'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { runHere, serveHere } from '../support/command-here.js'
import { shownPostgres } from '../../src/adapters/cli/postgres-url.js'
import type { Served } from '../support/command.js'

const password = 'hunter2-not-in-output'
const stops = new Set<() => Promise<unknown>>()

afterEach(async () => {
  for (const stop of stops) await stop()
  stops.clear()
})

async function serve(args: readonly string[], env: Record<string, string> = {}): Promise<Served> {
  const served = await serveHere(['--token', 'tok', ...args], { env })
  stops.add(() => served.stop())
  return served
}

describe.skipIf(!hasPostgres)('serve --storage postgres://', () => {
  async function urlOf(): Promise<string> {
    const { connectionString } = await sharedPostgres()
    // The server asks for no password. It is here to be missing in the output.
    return `${connectionString}&password=${password}`
  }

  test('keeps sessions in the schema, and prints no credentials', async () => {
    const [url, schema] = [await urlOf(), freshSchema()]
    const args = ['--storage', url, '--schema', schema, '--log', 'json']
    const first = await serve(args)
    await first.until(/"serving"/)
    const { id } = await connect({ baseUrl: first.url, token: 'tok' }).sessions.create()
    await first.stop()
    const output = first.lines.join('\n') + first.stderr()
    expect(output).not.toContain(password)
    expect(output).toContain('"storage":"postgres:///postgres"')
    expect(output).toContain('no master key')
    const second = await serve(args)
    const { sessions } = await connect({ baseUrl: second.url, token: 'tok' }).sessions.list()
    expect(sessions.map((session) => session.id)).toEqual([id])
  })

  test('refuses a store that another process has open, and says when its lease expires', async () => {
    const [url, schema] = [await urlOf(), freshSchema()]
    await serve(['--storage', url, '--schema', schema])
    const refused = await runHere(['serve', '--storage', url, '--schema', schema])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(
      /the store postgres:\/\/\/postgres is in use by process \d+ on .*its lease expires in \d+ seconds/,
    )
    expect(refused.stderr + refused.stdout).not.toContain(password)
  })

  test('serves one schema in two processes', async () => {
    const args = ['--storage', await urlOf(), '--schema', freshSchema(), '--shared']
    const [first, second] = [await serve(args), await serve(args)]
    const [a, b] = [first, second].map(({ url }) => connect({ baseUrl: url, token: 'tok' }))
    const session = await a!.sessions.create()
    await session.files.write({ path: '/a', content: 'a' })
    const same = await b!.sessions.open(session.id)
    await Promise.all([
      session.files.write({ path: '/b', content: 'b' }),
      same.files.write({ path: '/c', content: 'c' }),
    ])
    await expect.poll(() => same.fs.promises.readdir('/')).toEqual(['a', 'b', 'c'])
    await expect.poll(() => session.fs.promises.readdir('/')).toEqual(['a', 'b', 'c'])
  })

  test('uses a given master key for secrets', async () => {
    const served = await serve(['--storage', await urlOf(), '--schema', freshSchema()], {
      FORKSPACE_MASTER_KEY: 'ab'.repeat(32),
    })
    expect(served.stderr()).not.toContain('no master key')
  })
})

describe('the URL of a database', () => {
  const url = `postgres://app:${password}@127.0.0.1:1/app?sslmode=disable`

  test.each<[string, string[], number, RegExp]>([
    ['a server that cannot be reached', ['serve', '--storage', url], 1, /ECONNREFUSED/],
    ['a URL with an error', ['serve', '--storage', `postgres://app:${password}@[x/app`], 1, /must be a URL/],
    ['a schema of the system', ['serve', '--storage', url, '--schema', 'pg_x'], 1, /PostgreSQL itself/],
    [
      '--schema without a database',
      ['serve', '--schema', 'a'],
      2,
      /--schema is for a --storage on PostgreSQL/,
    ],
    ['--shared without a database', ['serve', '--shared'], 2, /--shared is for a --storage on PostgreSQL/],
    [
      '--store',
      ['session', 'list', '--store', url],
      2,
      /--store takes a directory; .* serve --storage <url>/,
    ],
    ['check', ['check', url], 2, /check takes a directory; for a store on PostgreSQL, call engine.check\(\)/],
  ])('is not printed for %s', async (_, args, code, message) => {
    const failed = await runHere(args)
    expect(failed.stderr).toMatch(message)
    expect(failed.code).toBe(code)
    expect(failed.stderr + failed.stdout).not.toContain(password)
  })
})

test.each([
  ['postgres://app:one@two@db.example.org:5433/app', 'postgres://db.example.org:5433/app'],
  ['postgresql://db.example.org/app?user=app&password=one@two', 'postgres://db.example.org/app'],
  ['postgres:///app?host=/run&password=one@two#@three', 'postgres:///app'],
  ['postgres://app:one@two@/app', 'postgres'],
])('shows the server and the database of %s alone', (url, shown) => {
  expect(shownPostgres(url)).toBe(shown)
})
