/** Sessions as remotes of isomorphic-git, which speaks version 0 for fetches. Its working directory is a session too. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import git from 'isomorphic-git'
import http from 'isomorphic-git/http/node'
import type { Engine } from '../../src/index.js'
import { bothStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'
import { GitWorld, gitToken } from '../support/git-world.js'

let both: BothEngines
beforeAll(async () => {
  both = await openBothEngines()
})
afterAll(() => both.close())

describe.each(bothStores)('isomorphic-git with a session in %s', (_, at) => {
  let engine: Engine
  let world: GitWorld
  beforeAll(async () => {
    engine = both.engines[at]
    world = await GitWorld.open(engine)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test('clones, commits, pushes, and fetches', async () => {
    const session = await engine.sessions.create({ files: { '/a.txt': 'one\n', '/src/b.txt': 'two\n' } })
    const url = `${world.url}/sessions/${session.id}.git`
    const onAuth = (): { username: string; password: string } => ({ username: 'git', password: gitToken })
    const author = { name: 'Ada', email: 'ada@example.org' }
    const open = async (depth?: number) => {
      const { fs } = await engine.sessions.create()
      const place = { fs, http, dir: '/work', onAuth }
      await fs.promises.mkdir('/work')
      await git.clone({ ...place, url, singleBranch: true, ...(depth !== undefined && { depth }) })
      return place
    }
    const place = await open()
    const { fs } = place
    expect(await fs.promises.readFile('/work/src/b.txt', 'utf8')).toBe('two\n')
    await fs.promises.writeFile('/work/a.txt', 'changed\n')
    await git.add({ ...place, filepath: 'a.txt' })
    const pushed = await git.commit({ ...place, author, message: 'by isomorphic-git' })
    expect(await git.push({ ...place })).toMatchObject({ ok: true })
    expect(Buffer.from(await session.files.read({ path: '/a.txt' })).toString()).toBe('changed\n')

    await session.files.write({ path: '/c.txt', content: 'three\n' })
    await git.pull({ ...place, author, fastForwardOnly: true })
    const [newest, before] = await git.log(place)
    expect(before?.oid).toBe(pushed)
    expect(await fs.promises.readFile('/work/c.txt', 'utf8')).toBe('three\n')

    const shallow = await open(1)
    expect((await git.log(shallow)).map(({ oid }) => oid)).toEqual([newest?.oid])

    await session.files.write({ path: '/a.txt', content: 'meanwhile\n' })
    await fs.promises.writeFile('/work/a.txt', 'late\n')
    await git.add({ ...place, filepath: 'a.txt' })
    await git.commit({ ...place, author, message: 'late' })
    await expect(git.push(place)).rejects.toThrow(/fast-forward|fetch first/)
    await expect(git.push({ ...place, force: true })).rejects.toThrow(/BRANCH_MOVED/)
    expect(Buffer.from(await session.files.read({ path: '/a.txt' })).toString()).toBe('meanwhile\n')
  })
})
