/** Sessions as remotes of native git. */
import { join } from 'node:path'
import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Engine, Session } from '../../src/index.js'
import { bothStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'
import { hasGit } from '../support/git-repository.js'
import { GitWorld } from '../support/git-world.js'

let both: BothEngines
beforeAll(async () => {
  both = await openBothEngines()
})
afterAll(() => both.close())

describe.skipIf(!hasGit).each(bothStores)('a session as a remote, in %s', (_, at) => {
  let engine: Engine
  let world: GitWorld
  beforeAll(async () => {
    engine = both.engines[at]
    world = await GitWorld.open(engine)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  const create = (): Promise<Session> =>
    engine.sessions.create({ files: { '/a.txt': 'one\n', '/src/b.txt': 'two\n' } })

  test('is cloned with its newest state, and with the same commit each time', async () => {
    const session = await create()
    const [one, two] = [await world.clone(session), await world.clone(session)]
    expect(readFileSync(join(one.path, 'src/b.txt'), 'utf8')).toBe('two\n')
    expect(await one.head()).toBe(await two.head())
    expect(await one.git('branch', '--show-current')).toBe('main')
    expect(await one.git('fsck', '--strict')).toBe('')
  })

  test('is fetched as a fast-forward after changes', async () => {
    const session = await create()
    const clone = await world.clone(session)
    const before = await clone.head()
    await session.files.write({ path: '/c.txt', content: 'three\n' })
    await session.files.delete({ path: '/src/b.txt' })
    await clone.git('pull', '--quiet', '--ff-only')
    expect(existsSync(join(clone.path, 'src/b.txt'))).toBe(false)
    expect(await clone.head('HEAD~1')).toBe(before)
    expect(await clone.head()).toBe(await (await world.clone(session)).head())
  })

  test('takes a push as one event, and then has the pushed commit', async () => {
    const session = await create()
    const clone = await world.clone(session)
    const { events: before } = await session.events.list()
    await clone.commit({ 'a.txt': 'changed\n', 'src/b.txt': null, 'new/file.txt': 'new\n' })
    const pushed = await clone.commit({ 'a.txt': 'changed again\n' }, 'second')
    await clone.git('push', '--quiet')
    const { events } = await session.events.list()
    expect(events.length).toBe(before.length + 1)
    expect(events.at(-1)).toMatchObject({
      eventType: 'v1.PersistenceService.Commit',
      details: { commitId: pushed, branchName: 'main', paths: ['/a.txt', '/new', '/new/file.txt', '/src'] },
    })
    expect(Buffer.from(await session.files.read({ path: '/a.txt' })).toString()).toBe('changed again\n')
    await clone.git('fetch', '--quiet')
    expect(await clone.head('origin/main')).toBe(pushed)
    expect(await (await world.clone(session)).head()).toBe(pushed)
  })
})
