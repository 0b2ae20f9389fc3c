/** The checks of a statement that commits, and its locks, which last until its transaction ends. */
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CommitSet, encodeCommit, KnownContent, setOf } from '../../src/adapters/postgres/commit-set.js'
import {
  CommitStatements,
  statusOf,
  type CommitStatus,
} from '../../src/adapters/postgres/commit-statement.js'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import type { Store, StoreCommit } from '../../src/engine/ports.js'
import { blobOf, reasonOf } from '../support/level-world.js'
import { freshSchema, hasPostgres, sharedPostgres, type PostgresServer } from '../support/postgres.js'

const content = blobOf(1, 9)

describe.skipIf(!hasPostgres).each([true, false])('a statement of a commit, shared: %s', (shared) => {
  let server: PostgresServer
  let schema: string
  let store: Store
  let name: string
  let claim: { owner: string; token: string; files: string }
  const clients: pg.Client[] = []

  beforeEach(async () => {
    server = await sharedPostgres()
    schema = freshSchema()
    const { connectionString } = server
    store = await postgresStorage({ connectionString, schema, shared, durability: 'relaxed' }).open()
    const [lease] = await server.sql(`SELECT name, owner, token FROM ${schema}.leases`)
    name = String(lease?.['name'])
    claim = { owner: String(lease?.['owner']), token: String(lease?.['token']), files: '7' }
  })
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.end()
    await store.close()
  })

  async function connect(): Promise<pg.Client> {
    const client = server.client()
    await client.connect()
    clients.push(client)
    return client
  }

  async function run(client: pg.Client, set: CommitSet, of = claim): Promise<CommitStatus> {
    const { text, values } = new CommitStatements(schema, {
      row: `name = '${name}'`,
      files: `'7'`,
      ends: shared,
    }).statement(set, of)
    const { rows } = await client.query<string[]>({ text, values: [...(values ?? [])], rowMode: 'array' })
    return statusOf(rows[0])
  }

  const statusOfCommit = async (commit: StoreCommit, of = claim): Promise<CommitStatus> =>
    run(await connect(), setFor(commit), of)

  const put = (key: string): StoreCommit => ({ put: [[key, '1']] })
  const events = (sessionId: string, ...seqs: number[]): StoreCommit => ({
    events: seqs.map((seq) => ({ sessionId, seq, body: [seq] })),
  })

  test('needs the files of the tables from which its engine read its state', async () => {
    expect(await statusOfCommit(put('a'), { ...claim, files: '8' })).toBe('taken')
    expect(await store.get('a')).toBeUndefined()
  })

  test('needs the owner and the token of the lease', async () => {
    expect(await statusOfCommit(put('a'))).toBe('stored')
    expect(await statusOfCommit(put('b'), { ...claim, owner: randomUUID() })).toBe('taken')
    expect(await statusOfCommit(put('b'), { ...claim, token: '1' })).toBe('taken')
    await server.sql(`UPDATE ${schema}.leases SET owner = '${randomUUID()}'`)
    expect(await statusOfCommit(put('b'))).toBe('taken')
    expect([await store.get('a'), await store.get('b')]).toEqual(['1', undefined])
  })

  test('needs the time of a lease only on a shared schema', async () => {
    await server.sql(`UPDATE ${schema}.leases SET expires_at = clock_timestamp()`)
    expect(await statusOfCommit(put('a'))).toBe(shared ? 'taken' : 'stored')
  })

  test('accepts only the next number of a session', async () => {
    await statusOfCommit(events('a', 1, 2))
    for (const [seq, status] of [
      [1, 'passed'],
      [2, 'passed'],
      [4, 'gap'],
      [5, 'gap'],
      [3, 'stored'],
    ] as const)
      expect(await statusOfCommit(events('a', seq)), String(seq)).toBe(status)
    expect(await statusOfCommit(events('b', 2))).toBe('gap')
    // The number of one session is right, that of the other is not.
    const both = (seq: number): StoreCommit => ({
      events: [...(events('a', seq).events ?? []), ...(events('b', 1).events ?? [])],
    })
    expect(await statusOfCommit(both(3))).toBe('passed')
    expect(await statusOfCommit(both(5))).toBe('gap')
    expect(await store.lastEvent('b')).toBeUndefined()
  })

  test('names each session whose head is another one', async () => {
    await statusOfCommit({
      heads: [
        { id: 'a', from: '', to: 'a1' },
        { id: 'b', from: '', to: 'b1' },
      ],
    })
    const move = (id: string, from: string): object => ({ id, from, to: `${id}-next` })
    const status = (...heads: object[]): Promise<CommitStatus> =>
      statusOfCommit({ heads: heads as StoreCommit['heads'] & object, put: [['k', '1']] })
    expect(await status(move('a', 'a0'))).toEqual({ overtaken: new Set(['a']) })
    expect(await status(move('a', ''))).toEqual({ overtaken: new Set(['a']) })
    // The session was deleted.
    expect(await status(move('c', 'c1'))).toEqual({ overtaken: new Set(['c']) })
    expect(await status(move('a', ''), move('b', 'b1'), move('c', 'c1'))).toEqual({
      overtaken: new Set(['a', 'c']),
    })
    expect(await store.get('k')).toBeUndefined()
    expect(await status(move('a', 'a1'), move('c', ''))).toBe('stored')
    expect(await server.sql(`SELECT head FROM ${schema}.heads ORDER BY session_id`)).toEqual(
      ['a-next', 'b1', 'c-next'].map((head) => ({ head })),
    )
  })

  test('compares a head again after it waited for another statement', async () => {
    await statusOfCommit({ heads: [{ id: 'a', from: '', to: 'a1' }] })
    const [first, second] = [await connect(), await connect()]
    await first.query('BEGIN')
    const moveTo = (to: string): CommitSet => setFor({ heads: [{ id: 'a', from: 'a1', to }] })
    expect(await run(first, moveTo('a2'))).toBe('stored')
    const late = run(second, moveTo('a3'))
    await expect
      .poll(() => server.sql(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'`))
      .not.toEqual([])
    await first.query('COMMIT')
    expect(await late).toEqual({ overtaken: new Set(['a']) })
  })

  test('is overtaken by one that stores its event while it waits', async () => {
    const client = await connect()
    await client.query('BEGIN')
    expect(await run(client, setFor(events('s', 1)))).toBe('stored')
    const late = store.commit(events('s', 1))
    await expect
      .poll(() => server.sql(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'`))
      .not.toEqual([])
    await client.query('COMMIT')
    expect(await late).toBe(false)
    expect(await store.commit(put('a'))).toBe(true)
  })

  test('locks its lease, and the contents that it uses again', async () => {
    await statusOfCommit({ blobs: [content] })
    const client = await connect()
    await client.query('BEGIN')
    const set = setFor({ blobs: [content] })
    set.replaceBlob(content.hash, new KnownContent(content.bytes))
    expect(await run(client, set)).toBe('stored')
    for (const table of ['leases', 'blobs'])
      await expect(server.sql(`SELECT FROM ${schema}.${table} FOR UPDATE NOWAIT`)).rejects.toThrow(
        /could not obtain lock/,
      )
    await client.query('ROLLBACK')
    await server.sql(`DELETE FROM ${schema}.blobs`)
    expect(await run(client, set)).toBe('dropped')
  })

  test('replaces only an event that exists', async () => {
    await statusOfCommit(events('a', 1, 2))
    const replacing = (seq: number): StoreCommit => ({
      replaceEvents: [{ sessionId: 'a', seq, body: ['again'] }],
    })
    expect(await statusOfCommit(replacing(3))).toBe('missing')
    expect(await statusOfCommit(replacing(2))).toBe('stored')
    expect((await store.events('a', { from: 1, to: 2 })[Symbol.asyncIterator]().next()).value).toEqual([
      { sessionId: 'a', seq: 1, body: [1] },
      { sessionId: 'a', seq: 2, body: ['again'] },
    ])
  })

  test('deletes nothing if it is refused', async () => {
    await statusOfCommit({
      ...events('a', 1),
      put: [
        ['k', '1'],
        ['n1', '1'],
      ],
      blobs: [content],
    })
    const refused = {
      ...events('b', 2),
      del: ['k', 'n1'],
      deleteBlobs: [content.hash],
      deleteEvents: ['a'],
    }
    expect(await statusOfCommit(refused)).toBe('gap')
    expect(await Promise.all([store.get('k'), store.get('n1'), store.lastEvent('a')])).toMatchObject([
      '1',
      '1',
      { seq: 1 },
    ])
    expect(await store.listBlobs?.('', 9)).toHaveLength(1)
  })

  test('of a collection needs the owner and the number of the right to collect', async () => {
    const { owner } = claim
    await server.sql(`UPDATE ${schema}.collections SET owner = '${owner}', token = 7, stage = 'roots'`)
    const status = async (token: string): Promise<CommitStatus> =>
      run(await connect(), setFor(put('a'), token))
    expect(await status('6')).toBe('ended')
    expect(await status('7')).toBe('stored')
    await server.sql(`UPDATE ${schema}.collections SET owner = '${randomUUID()}'`)
    expect(await status('7')).toBe('ended')
  })

  test.runIf(shared)(
    'gives the epoch of its lease to the objects that it uses, and no older one',
    async () => {
      const node: StoreCommit = { put: [['n1', '1']] }
      const known = setFor({ blobs: [content] })
      known.replaceBlob(content.hash, new KnownContent(content.bytes))
      const sets = [setFor(node), setFor({ blobs: [content] }), known]
      const epochs = async (): Promise<unknown[]> => {
        const rows = await server.sql(
          `SELECT epoch::int FROM ${schema}.nodes UNION ALL SELECT epoch::int FROM ${schema}.blobs`,
        )
        return rows.map(({ epoch }) => epoch)
      }
      const client = await connect()
      for (const set of sets.slice(0, 2)) await run(client, set)
      for (const [lease, before, after] of [
        [5, 4, 5],
        [5, 6, 6],
      ] as const)
        for (const set of sets) {
          await server.sql(`UPDATE ${schema}.leases SET epoch = ${lease}`)
          for (const table of ['nodes', 'blobs'])
            await server.sql(`UPDATE ${schema}.${table} SET epoch = ${before}`)
          expect(await run(client, set)).toBe('stored')
          expect(await epochs()).toEqual(set === sets[0] ? [after, before] : [before, after])
        }
    },
  )

  test('comes after one whose outcome it depends on', async () => {
    // The second commit of each pair could join the first one.
    const first = [store.commit({ ...put('b'), collecting: true }), store.commit(put('a'))]
    expect(await Promise.all(first)).toEqual([false, true])
    const second = [
      store.commit({ heads: [{ id: 'a', from: '', to: 'a1' }] }),
      store.commit({ deleteEvents: ['a'] }),
    ]
    expect(await Promise.all(second)).toEqual([true, true])
    expect(await server.sql(`SELECT FROM ${schema}.heads`)).toEqual([])
    expect([await store.get('a'), await store.get('b')]).toEqual(['1', undefined])
    const third = [store.commit(events('s', 1)), store.commit(events('s', 1))]
    expect(await Promise.all(third)).toEqual([true, false])
    const fourth = [store.commit({ deleteEvents: ['s'] }), store.commit(events('s', 2)).catch(reasonOf)]
    expect(await Promise.all(fourth)).toEqual([true, 'INTERNAL'])
  })

  test('stores several commits of which each continues the one before it', async () => {
    const set = setFor(events('s', 1))
    const others: StoreCommit[] = [
      events('s', 2),
      { replaceEvents: [{ sessionId: 's', seq: 2, body: ['again'] }] },
    ]
    for (const commit of others) {
      const encoded = encodeCommit(commit)
      if (encoded !== undefined && set.accepts(encoded)) set.add(encoded)
    }
    expect(await run(await connect(), set)).toBe('stored')
    const rows = await server.sql(
      `SELECT seq::int, convert_from(body, 'UTF8') AS body FROM ${schema}.events ORDER BY seq`,
    )
    expect(rows.map(({ seq, body }) => [seq, body])).toEqual([
      [1, '[1]'],
      [2, '["again"]'],
    ])
  })

  test('of a large commit stores nothing if it is refused for any reason', async () => {
    await store.commit({ heads: [{ id: 'a', from: '', to: 'a1' }], put: [['old', '1']] })
    const value = 'x'.repeat(postgresLimits.statementBytes / 4)
    const large: StoreCommit = {
      put: Array.from({ length: 5 }, (_, n) => [`k${n}`, value] as const),
      del: ['old'],
    }
    const outcomes = [
      store.commit({ ...large, heads: [{ id: 'a', from: 'a0', to: 'a2' }] }),
      store.commit({ ...large, collecting: true }),
      store.commit({ ...large, events: [{ sessionId: 's', seq: 2, body: [] }] }).catch(reasonOf),
    ]
    expect(await Promise.all(outcomes)).toEqual([false, false, 'INTERNAL'])
    expect(await store.scan({ gte: 'a', lt: 'z', limit: 9 })).toEqual([['old', '1']])
    expect(await store.commit({ ...large, deleteEvents: ['a'] })).toBe(true)
    expect(await server.sql(`SELECT FROM ${schema}.heads`)).toEqual([])
  })
})

function setFor(commit: StoreCommit, collector?: string): CommitSet {
  const encoded = encodeCommit(commit, collector)
  return encoded === undefined ? new CommitSet() : setOf(encoded)
}
