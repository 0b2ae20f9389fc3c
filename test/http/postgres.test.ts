import { describe, expect, test } from 'vitest'
import { freshPostgres, hasPostgres } from '../support/postgres.js'
import { openServer, refusalIn } from '../support/http-server.js'
import { connect } from '../../src/adapters/client/index.js'
import { token } from '../support/http-server.js'
import { isLong } from '../support/seed.js'

describe.skipIf(!hasPostgres).each([
  ['a server on PostgreSQL', {}],
  ['a server on a shared schema of PostgreSQL', { shared: true }],
])('%s', (_, options) => {
  test('serves sessions, and finds them after a restart', async () => {
    const { storage } = await freshPostgres(options)
    let id: string
    {
      await using served = await openServer({ engine: { storage } })
      const remote = connect({ baseUrl: served.url, token })
      const session = await remote.sessions.create({ files: { '/a.txt': 'one', '/dir/b.txt': 'two' } })
      ;({ id } = session)
      await session.checkpoint({ checkpointLabel: 'start' })
      await session.files.write({ path: '/a.txt', content: 'changed' })
      const fork = await session.fork({ checkpointLabel: 'start' })
      await fork.files.write({ path: '/c.txt', content: 'three' })
      await session.merge({ sessionId: fork.id })
      await session.files.delete({ path: '/dir/b.txt' })
      await session.undo()
    }
    await using served = await openServer({ engine: { storage } })
    const again = await connect({ baseUrl: served.url, token }).sessions.open(id)
    const text = async (path: string): Promise<string> =>
      Buffer.from(await again.files.read({ path })).toString()
    expect([await text('/a.txt'), await text('/dir/b.txt'), await text('/c.txt')]).toEqual([
      'changed',
      'two',
      'three',
    ])
    const found = await again.text.grep({ pattern: 't(wo|hree)' })
    expect(found.lines.map(({ path }) => path)).toEqual(['/c.txt', '/dir/b.txt'])
    const { events } = await again.events.list()
    expect(events.length).toBeGreaterThan(4)
    expect(await served.call('GET', `/v1/sessions/${'0'.repeat(36)}`).then(refusalIn)).toMatchObject({
      status: 404,
      reason: 'SESSION_NOT_FOUND',
    })
    await again.delete()
    expect((await served.engine.check()).findings).toEqual([])
    expect(await served.engine.collect()).toBeDefined()
  })

  test.runIf(isLong || 'shared' in options)(
    'takes many writes of one moment, and streams large contents',
    async () => {
      const { storage } = await freshPostgres(options)
      await using served = await openServer({ engine: { storage } })
      const session = await connect({ baseUrl: served.url, token }).sessions.create()
      await Promise.all(
        Array.from({ length: 200 }, (_, i) => session.files.write({ path: `/${i}`, content: `${i}` })),
      )
      const large = Buffer.alloc(5 * 2 ** 20, 'abcdefg')
      await session.files.write({ path: '/large', content: large })
      expect(Buffer.from(await session.files.read({ path: '/large' })).equals(large)).toBe(true)
      expect((await session.files.list({ path: '/' })).entries.length).toBe(201)
    },
  )
})
