/** Sessions as remotes of native git. */
import { join } from 'node:path'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { gitServerLimits } from '../../src/adapters/git-server/limits.js'
import type { Engine, Session } from '../../src/index.js'
import { bothStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { isLong } from '../support/seed.js'
import { randomBytes } from '../support/random-bytes.js'
import { GitClone, GitWorld, runGit } from '../support/git-world.js'

let both: BothEngines
beforeAll(async () => {
  both = await openBothEngines()
})
afterAll(() => both.close())

describe.skipIf(!hasGit).each(bothStores)('a session as a remote, in %s', (_, at) => {
  /** Tests that do not depend on the store, and start many processes, run on one store in the short form. */
  const elsewhere = at === 0 && !isLong
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

  test.skipIf(elsewhere)('takes a push that moves files, whose contents git does not send', async () => {
    const files = Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => [`/dir/sub${index % 3}/${index}`, `${index}\n`.repeat(200)]),
    )
    const session = await engine.sessions.create({ files: { ...files, '/top': 'top\n'.repeat(500) } })
    const clone = await world.clone(session)
    await clone.git('mv', 'dir', 'moved')
    await clone.commit({ top: `${'top\n'.repeat(500)}more\n` }, 'move')
    await clone.git('mv', 'moved/sub0/3', 'three')
    await clone.commit({ 'moved/sub1/1': null }, 'move one and remove another')
    await clone.commit({ 'sub1/1': '1\n'.repeat(200) }, 'bring it back elsewhere')
    await clone.git('push', '--quiet')
    const later = await world.clone(session)
    expect(await later.head()).toBe(await clone.head())
    expect(await later.git('fsck', '--strict')).toBe('')
    expect(Buffer.from(await session.files.read({ path: '/three' })).toString()).toBe('3\n'.repeat(200))
  })

  test.skipIf(elsewhere)('takes a push of a merge with changes that were fetched', async () => {
    const session = await create()
    const clone = await world.clone(session)
    await clone.commit({ 'own.txt': 'own\n' }, 'own')
    await session.files.write({ path: '/src/b.txt', content: 'theirs\n' })
    await session.files.write({ path: '/src/new/c.txt', content: 'theirs too\n' })
    await clone.git('pull', '--quiet', '--no-rebase', '--no-edit')
    await clone.git('push', '--quiet')
    expect((await clone.log())[0]).toMatch(/^Merge/)
    expect(Buffer.from(await session.files.read({ path: '/own.txt' })).toString()).toBe('own\n')
    expect(await (await world.clone(session)).head()).toBe(await clone.head())
  })

  test.skipIf(elsewhere)('rejects a push by a client that has not seen the newest state', async () => {
    const session = await create()
    const [early, late] = [await world.clone(session), await world.clone(session)]
    await early.commit({ 'early.txt': 'early\n' }, 'early')
    await late.commit({ 'late.txt': 'late\n' }, 'late')
    await early.git('push', '--quiet')
    expect((await late.run('push')).stderr).toMatch(/\[rejected\] +main -> main \(fetch first\)/)
    await late.git('fetch', '--quiet')
    expect((await late.run('push')).stderr).toMatch(/\[rejected\] +main -> main \(non-fast-forward\)/)
    await late.git('push', '--quiet', '--force').then(
      () => expect.unreachable(),
      (error: Error) => expect(error.message).toMatch(/remote rejected.*non-fast-forward.*BRANCH_MOVED/),
    )
    await late.git('rebase', '--quiet', 'origin/main')
    await late.git('push', '--quiet')
    await early.git('pull', '--quiet', '--ff-only')
    expect((await early.log()).slice(0, 2)).toEqual(['late', 'early'])
  })

  test.skipIf(elsewhere)('rejects a push when the session has changed since the fetch', async () => {
    const session = await create()
    const clone = await world.clone(session)
    await clone.commit({ 'a.txt': 'theirs\n' })
    await session.files.write({ path: '/a.txt', content: 'ours\n' })
    const { code, stderr } = await clone.run('push')
    expect([code, stderr]).toEqual([1, expect.stringMatching(/rejected.*fetch first/)])
    expect(Buffer.from(await session.files.read({ path: '/a.txt' })).toString()).toBe('ours\n')
  })

  test.skipIf(elsewhere)('accepts a push after an event that changes no files', async () => {
    const session = await create()
    const clone = await world.clone(session)
    await session.checkpoint({ checkpointLabel: 'one' })
    const pushed = await clone.commit({ 'a.txt': 'theirs\n' })
    await clone.git('push', '--quiet')
    expect(await (await world.clone(session)).head()).toBe(pushed)
  })

  test.skipIf(elsewhere)('stays a fast-forward through undo, restore and merge', async () => {
    const session = await create()
    const clone = await world.clone(session)
    const fork = await session.fork()
    await session.checkpoint({ checkpointLabel: 'start' })
    const steps: (() => Promise<unknown>)[] = [
      () => session.files.write({ path: '/a.txt', content: 'changed\n' }),
      () => session.undo(),
      () => session.redo(),
      () => session.restore({ checkpointLabel: 'start' }),
      () => fork.files.write({ path: '/fork.txt', content: 'fork\n' }),
      () => session.merge(fork),
      () => session.fs.promises.rename('/src', '/lib'),
    ]
    for (const step of steps) {
      await step()
      await clone.git('pull', '--quiet', '--ff-only')
    }
    expect((await clone.git('ls-files')).split('\n')).toEqual(['a.txt', 'fork.txt', 'lib/b.txt'])
    expect(await clone.git('fsck', '--strict')).toBe('')
  })

  test('is fetched whole after changes and their undo, which clients have not seen', async () => {
    const session = await create()
    const clone = await world.clone(session)
    for (const step of [
      () => session.files.write({ path: '/kept.txt', content: 'kept\n' }),
      () => session.files.write({ path: '/src/undone.txt', content: 'undone\n' }),
      () => session.undo(),
    ]) {
      await step()
      await world.serve(session)
    }
    await clone.git('pull', '--quiet', '--ff-only')
    expect(await clone.git('show', 'HEAD:kept.txt')).toBe('kept')
    expect(await clone.git('fsck', '--strict')).toBe('')
  })

  test.skipIf(elsewhere)('keeps attributes that git does not have', async () => {
    const session = await create()
    await session.files.setAttributes({ path: '/a.txt', mode: 0o640 })
    await session.files.setXattr({ path: '/a.txt', name: 'user.note', value: Buffer.from('kept') })
    await session.files.createDirectory({ path: '/empty' })
    await session.files.setAttributes({ path: '/empty', mode: 0o700 })
    await session.files.setXattr({ path: '/empty', name: 'user.note', value: Buffer.from('kept') })
    const clone = await world.clone(session)
    await clone.commit({ 'a.txt': 'changed\n', 'empty/new.txt': 'new\n' })
    await clone.git('push', '--quiet')
    expect(await session.files.stat({ path: '/empty' })).toMatchObject({ mode: 0o700 })
    expect(await session.files.listXattrs({ path: '/empty' })).toMatchObject({ names: ['user.note'] })
    expect(await session.files.stat({ path: '/a.txt' })).toMatchObject({ mode: 0o640, sizeBytes: 8 })
    expect(await session.files.listXattrs({ path: '/a.txt' })).toMatchObject({ names: ['user.note'] })
    expect(await session.files.stat({ path: '/empty' })).toMatchObject({ kind: 'directory' })
    await clone.git('update-index', '--chmod=+x', 'a.txt')
    await clone.git('commit', '--quiet', '-m', 'executable')
    await clone.git('push', '--quiet')
    expect(await session.files.stat({ path: '/a.txt' })).toMatchObject({ mode: 0o750 })
    await clone.git('fetch', '--quiet')
    expect(await clone.head('origin/main')).toBe(await clone.head())
  })

  test.runIf(isLong)('takes symlinks, large files, and removals of directories', async () => {
    const session = await create()
    const clone = await world.clone(session)
    // It does not compress, so git sends the push in pieces, after a first request without one.
    const large = randomBytes(5_000_000, 'large')
    await clone.git('rm', '-r', '--quiet', 'src')
    await clone.commit({ 'large.txt': large, 'deep/er/file': '' })
    symlinkSync('../a.txt', join(clone.path, 'deep/link'))
    const pushed = await clone.commit({})
    await clone.git('push', '--quiet')
    expect(await session.fs.promises.readlink('/deep/link')).toBe('../a.txt')
    expect((await session.files.stat({ path: '/large.txt' })).sizeBytes).toBe(large.length)
    const again = await world.clone(session)
    expect(await again.head()).toBe(pushed)
    expect(large.equals(readFileSync(join(again.path, 'large.txt')))).toBe(true)
    expect((await again.git('ls-files')).split('\n')).toEqual([
      'a.txt',
      'deep/er/file',
      'deep/link',
      'large.txt',
    ])
  })

  test('is an empty repository while it has no files, and takes a first push', async () => {
    const session = await engine.sessions.create()
    const clone = await world.clone(session)
    const pushed = await clone.commit({ 'first.txt': 'first\n' })
    await clone.git('push', '--quiet', '--set-upstream', 'origin', 'main')
    expect(await (await world.clone(session)).head()).toBe(pushed)
    expect(await session.fs.promises.readdir('/')).toEqual(['first.txt'])
  })

  const versions = [...(isLong ? ['protocol.version=0', 'protocol.version=1'] : []), 'protocol.version=2']
  test.skipIf(elsewhere).each(versions)(
    'is cloned shallow, deepened and completed, with %s',
    async (version) => {
      const session = await create()
      await world.serve(session)
      for (const round of [1, 2, 3, 4]) {
        await session.files.write({ path: '/a.txt', content: `round ${round}\n` })
        await world.serve(session)
      }
      const clone = await world.clone(session, version, '--depth=1')
      const count = async (): Promise<number> => {
        const { length } = await clone.log()
        // Git does not show commits that the server sends in vain.
        const types = await clone.git('cat-file', '--batch-all-objects', '--batch-check=%(objecttype)')
        expect(types.split('\n').filter((type) => type === 'commit')).toHaveLength(length)
        return length
      }
      expect(await count()).toBe(1)
      await clone.git('-c', version, 'fetch', '--quiet', '--deepen=2')
      expect(await count()).toBe(3)
      await session.files.write({ path: '/late.txt', content: 'late\n' })
      await clone.git('-c', version, 'pull', '--quiet', '--ff-only')
      expect(await count()).toBe(4)
      await clone.git('-c', version, 'fetch', '--quiet', '--unshallow')
      expect(await count()).toBe(6)
      expect(await clone.git('fsck', '--strict')).toBe('')
      const pushed = await clone.commit({ 'late.txt': 'pushed\n' })
      await clone.git('push', '--quiet')
      expect(await (await world.clone(session, version)).head()).toBe(pushed)
    },
  )

  test.skipIf(elsewhere).each(isLong ? versions : versions.slice(0, 1))(
    'is fetched by a client with many commits of its own, with %s',
    async (version) => {
      const session = await create()
      const clone = await world.clone(session, version)
      new GitRepository(clone.path).commitSeries(Array.from({ length: 20 }, () => []))
      await session.files.write({ path: '/b.txt', content: 'new\n' })
      await clone.git('-c', version, 'fetch', '--quiet')
      expect(await clone.log('origin/main')).toHaveLength(2)
      await clone.git('merge', '--quiet', '--no-edit', 'origin/main')
      await clone.git('push', '--quiet')
      await session.files.write({ path: '/b.txt', content: 'newer\n' })
      await clone.git('-c', version, 'pull', '--quiet', '--ff-only')
      expect(await clone.log()).toHaveLength(24)
    },
  )

  test.skipIf(elsewhere)('names the arguments that it does not support', async () => {
    const { stderr } = await runGit(world.directory, [
      'clone',
      '--shallow-since=2020-01-01',
      world.urlOf(await create()),
      'since',
    ])
    expect(stderr).toMatch(/remote error: .*deepen-since.* is not supported/)
  })

  test.skipIf(elsewhere)('deepens a shallow clone without objects that it has', async () => {
    const session = await create()
    await world.serve(session)
    await session.files.write({ path: '/a.txt', content: 'later\n' })
    const clone = await world.clone(session, '--depth=1')
    const packed = async (): Promise<number> =>
      Number(/^in-pack: (\d+)$/m.exec(await clone.git('count-objects', '-v'))?.[1])
    const before = await packed()
    await clone.git('-c', 'fetch.unpackLimit=1', 'fetch', '--quiet', '--deepen=1')
    expect(await clone.log()).toHaveLength(2)
    // The earlier commit, its root directory and the earlier content.
    expect((await packed()) - before).toBe(3)
  })

  test.skipIf(elsewhere)('takes a push from a shallow clone', async () => {
    const session = await create()
    await world.clone(session)
    await session.files.write({ path: '/a.txt', content: 'later\n' })
    const clone = await world.clone(session, '--depth=1')
    const pushed = await clone.commit({ 'a.txt': 'shallow\n' })
    await clone.git('push', '--quiet')
    const full = await world.clone(session)
    expect([await full.head(), (await full.log()).length]).toEqual([pushed, 3])
  })

  test('has its checkpoints as refs', async () => {
    const session = await create()
    const { id } = await session.checkpoint({ checkpointLabel: 'has/a slash' })
    await session.files.write({ path: '/a.txt', content: 'changed\n' })
    await session.checkpoint({ checkpointLabel: 'after' })
    const clone = await world.clone(session)
    expect(await clone.git('for-each-ref', 'refs/checkpoints')).toBe('')
    await clone.git('fetch', '--quiet', 'origin', 'refs/checkpoints/*:refs/checkpoints/*')
    const refs = (await clone.git('for-each-ref', '--format=%(refname)', 'refs/checkpoints')).split('\n')
    expect(refs.sort()).toEqual([`refs/checkpoints/${id}`, 'refs/checkpoints/after'].sort())
    expect(await clone.git('show', `refs/checkpoints/${id}:a.txt`)).toBe('one')
    expect(await clone.git('show', 'refs/checkpoints/after:a.txt')).toBe('changed')
    const listed = await clone.git('ls-remote', 'origin', 'refs/checkpoints/*')
    expect(await clone.git('ls-remote', 'origin', 'refs/checkpoints/*')).toBe(listed)
  })

  test.skipIf(elsewhere)(
    'has checkpoints of earlier files, without those that git does not allow',
    async () => {
      const session = await create()
      await session.checkpoint({ checkpointLabel: 'first' })
      await session.files.write({ path: '/.git/config', content: '', createParents: true })
      await session.checkpoint({ checkpointLabel: 'unsafe' })
      await session.fs.promises.rm('/.git', { recursive: true })
      await session.files.delete({ path: '/src/b.txt' })
      await session.files.write({ path: '/c.txt', content: 'three\n' })
      await session.checkpoint({ checkpointLabel: 'last' })
      await session.files.write({ path: '/a.txt', content: 'later\n' })
      const clone = await world.clone(session)
      await clone.git('fetch', '--quiet', 'origin', 'refs/checkpoints/*:refs/checkpoints/*')
      const filesOf = (label: string): Promise<string> =>
        clone.git('ls-tree', '-r', '--name-only', `refs/checkpoints/${label}`)
      expect(await clone.git('for-each-ref', '--format=%(refname:lstrip=2)', 'refs/checkpoints')).toBe(
        'first\nlast',
      )
      expect([await filesOf('first'), await filesOf('last')]).toEqual(['a.txt\nsrc/b.txt', 'a.txt\nc.txt'])
      expect(await clone.git('show', 'refs/checkpoints/last:a.txt')).toBe('one')
    },
  )

  test.skipIf(elsewhere)('has a checkpoint by its id if clients could not keep its label', async () => {
    const session = await create()
    const first = await session.checkpoint({ checkpointLabel: 'é'.repeat(126) })
    const second = await session.checkpoint({ checkpointLabel: first.id })
    const clone = await world.clone(session)
    await clone.git('fetch', '--quiet', 'origin', 'refs/checkpoints/*:refs/checkpoints/*')
    const refs = (await clone.git('for-each-ref', '--format=%(refname)', 'refs/checkpoints')).split('\n')
    expect(refs.sort()).toEqual([first, second].map(({ id }) => `refs/checkpoints/${id}`).sort())
  })

  test.runIf(isLong)('says why it refuses a push that is larger than the buffers', async () => {
    const session = await create()
    const clone = await world.clone(session)
    await clone.commit({ 'large.bin': randomBytes(24_000_000, 'refused') })
    expect((await clone.run('push', 'origin', 'HEAD:refs/heads/other')).stderr).toMatch(
      /remote rejected.*a session has the branch main alone/,
    )
    // The commit comes first in the pack, so the rest of the pack is skipped.
    const message = join(world.directory, 'message')
    writeFileSync(message, 'm'.repeat(gitServerLimits.commitBytes))
    await clone.git('commit', '--quiet', '--amend', '--file', message)
    expect((await clone.run('push')).stderr).toMatch(/remote rejected.*bytes in a commit \(GIT_TOO_LARGE\)/)
  })

  test.skipIf(elsewhere)('refuses other branches, deletions and tags', async () => {
    const session = await create()
    const clone = await world.clone(session)
    const head = await clone.head()
    expect((await clone.run('push', 'origin', 'HEAD:refs/heads/other')).stderr).toMatch(
      /remote rejected.*a session has the branch main alone/,
    )
    expect((await clone.run('push', 'origin', ':main')).stderr).toMatch(/cannot be deleted/)
    expect((await clone.run('push', 'origin', 'HEAD:refs/tags/v1')).stderr).toMatch(/branch main alone/)
    expect(await (await world.clone(session)).head()).toBe(head)
  })

  test.skipIf(elsewhere).each([
    ['a submodule', '160000', 'module', '1234567890123456789012345678901234567890', /module is a submodule/],
    ['the name .git', '100644', '.GIT', '', /unsafe name.*\.GIT/],
    ['a name that is not UTF-8', '100644', Buffer.from([0x61, 0xff]), '', /must be UTF-8/],
    ['a long name', '100644', 'n'.repeat(300), '', /bytes in a name/],
  ])('rejects %s in a push', async (_what, mode, name, id, message) => {
    const session = await create()
    const clone = await world.clone(session)
    const repository = new GitRepository(clone.path)
    const oid = id === '' ? repository.blob('content') : id
    const tree = repository.rawTree([[mode, name, oid]])
    const commit = await clone.git('commit-tree', '-p', 'HEAD', '-m', 'bad', tree)
    const { events } = await session.events.list()
    const { code, stderr } = await clone.run('push', 'origin', `${commit}:main`)
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)])
    expect((await session.events.list()).events).toEqual(events)
  })

  test.skipIf(elsewhere).each([
    ['empty', '', /\/link is a symlink whose target/],
    ['with NUL', 'a\0b', /\/link is a symlink whose target.*without NUL/],
    ['too long', 'a'.repeat(5000), /\/link is a symlink whose target.*4096 bytes/],
  ])('names the fault of a symlink whose target is %s in a push', async (_what, target, message) => {
    const clone = await world.clone(await create())
    const repository = new GitRepository(clone.path)
    const tree = repository.rawTree([['120000', 'link', repository.blob(target)]])
    const commit = await clone.git('commit-tree', '-p', 'HEAD', '-m', 'bad', tree)
    expect((await clone.run('push', 'origin', `${commit}:main`)).stderr).toMatch(message)
  })

  test.skipIf(elsewhere)('says that a name occurs twice in a push', async () => {
    const clone = await world.clone(await create())
    const repository = new GitRepository(clone.path)
    const entry = ['100644', 'twice', repository.blob('content')] as const
    const commit = await clone.git(
      'commit-tree',
      '-p',
      'HEAD',
      '-m',
      'bad',
      repository.rawTree([entry, entry]),
    )
    expect((await clone.run('push', 'origin', `${commit}:main`)).stderr).toMatch(/has the name "twice" twice/)
  })

  test.skipIf(elsewhere)('is gone after its deletion', async () => {
    const session = await create()
    const clone = await world.clone(session)
    await session.delete()
    const { code, stderr } = await clone.run('fetch')
    expect([code, stderr]).toEqual([128, expect.stringMatching(/SESSION_NOT_FOUND[\s\S]*not found/)])
  })

  describe('from a git source', () => {
    let sources = 0
    const upstream = async (
      names: readonly string[] = ['one', 'two', 'three'],
    ): Promise<{
      repository: GitRepository
      session: Session
      base: string
      sourceId: string
    }> => {
      const path = join(both.directory, `upstream-${at}-${sources++}`)
      const repository = GitRepository.create(path)
      const commits = names.map((text) => [['100644', `src/${text}.txt`, `${text}\n`]] as const)
      const base = repository.commitSeries(commits)
      const { sourceId } = await engine.sources.create({ displayName: 's', gitRepository: { path } })
      await engine.sources.waitForJob(await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } }))
      const session = await engine.sessions.create({ sourceRef: { sourceId } })
      return { repository, session, base, sourceId }
    }

    test.skipIf(elsewhere)('starts from the imported commit, as a shallow one', async () => {
      const { session, base } = await upstream()
      const clone = await world.clone(session)
      expect(await clone.head()).toBe(base)
      expect(readFileSync(join(clone.path, '.git/shallow'), 'utf8').trim()).toBe(base)
      await session.files.write({ path: '/src/one.txt', content: 'changed\n' })
      await clone.git('pull', '--quiet', '--ff-only')
      expect(await clone.head('HEAD~1')).toBe(base)
      const pushed = await clone.commit({ 'src/two.txt': 'pushed\n' })
      await clone.git('push', '--quiet')
      expect(await (await world.clone(session)).head()).toBe(pushed)
    })

    test.skipIf(elsewhere)('starts from an imported commit without parents, as a full one', async () => {
      const { session, base } = await upstream(['one'])
      const clone = await world.clone(session)
      expect(await clone.head()).toBe(base)
      expect(existsSync(join(clone.path, '.git/shallow'))).toBe(false)
    })

    test.skipIf(elsewhere)('is a remote of a full clone of the source', async () => {
      const { repository, session } = await upstream()
      await session.files.write({ path: '/src/one.txt', content: 'changed\n' })
      const path = join(both.directory, `full-${at}`)
      expect((await runGit(both.directory, ['clone', '--quiet', repository.path, path])).code).toBe(0)
      const full = new GitClone(path)
      await full.git('remote', 'add', 'session', world.urlOf(session))
      await full.git('fetch', '--quiet', 'session')
      expect(existsSync(join(path, '.git/shallow'))).toBe(false)
      await full.git('merge', '--quiet', '--ff-only', 'session/main')
      repository.commitFiles([['100644', 'src/four.txt', 'four\n']], 'refs/heads/main', 'four')
      await full.git('pull', '--quiet', '--no-rebase', '--no-edit', 'origin', 'main')
      await full.git('push', '--quiet', 'session', 'main')
      const clone = await world.clone(session)
      expect(await clone.head()).toBe(await full.head())
      expect(await clone.git('fsck', '--strict')).toBe('')
      expect(await session.fs.promises.readdir('/src')).toContain('four.txt')
    })

    test.skipIf(elsewhere)('has the commits of the session, which are those of the source', async () => {
      const { repository, session } = await upstream()
      await session.files.write({ path: '/src/one.txt', content: 'changed\n' })
      const { commitId } = await session.commit({ message: 'own', gitBranch: { branchName: 'work' } })
      const clone = await world.clone(session)
      expect([await clone.head(), repository.tip('refs/heads/work')]).toEqual([commitId, commitId])
      await session.files.write({ path: '/src/one.txt', content: 'again\n' })
      await clone.git('pull', '--quiet', '--ff-only')
      const second = await session.commit({ message: 'own again', gitBranch: { branchName: 'work' } })
      await clone.git('pull', '--quiet', '--ff-only')
      expect((await clone.git('log', '--format=%P', '-1')).split(' ')).toContain(second.commitId)
      expect(await clone.git('diff', second.commitId, 'HEAD')).toBe('')
      expect(await clone.git('fsck', '--strict')).toBe('')
    })

    test.skipIf(elsewhere)('is cloned after a commit on a merge whose other side is not here', async () => {
      const { repository, session, sourceId, base } = await upstream()
      const clone = await world.clone(session)
      const side = repository.commitFiles([['100644', 'side.txt', 'side\n']], 'refs/heads/side', 'side')
      const source = new GitClone(repository.path)
      const merge = await source.git('commit-tree', '-p', base, '-p', side, '-m', 'm', `${side}^{tree}`)
      await source.git('update-ref', 'refs/heads/main', merge)
      const job = await engine.sources.refresh(sourceId, { gitRef: 'main' })
      const { revisionId } = await engine.sources.waitForJob(job)
      await session.rebase({ revisionId })
      await session.files.write({ path: '/own.txt', content: 'own\n' })
      await session.commit({ message: 'own', gitBranch: { branchName: 'own' } })
      await clone.git('pull', '--quiet', '--ff-only')
      expect((await clone.git('ls-files')).split('\n')).toEqual(
        expect.arrayContaining(['own.txt', 'side.txt']),
      )
      expect(await (await world.clone(session)).head()).toBe(await clone.head())
    })

    test.skipIf(elsewhere)('gives a fork a pushed merge whose first parent has no history here', async () => {
      const { session } = await upstream()
      const clone = await world.clone(session)
      await clone.git('checkout', '--quiet', '--orphan', 'other')
      await clone.commit({ 'other.txt': 'other\n' })
      const merge = ['merge', '--quiet', '--no-edit', '--allow-unrelated-histories', 'origin/main']
      await clone.git(...merge)
      await clone.git('push', '--quiet', 'origin', 'HEAD:main')
      expect(await (await world.clone(await session.fork())).head()).toBe(await clone.head())
    })

    test.skipIf(elsewhere)('stays a fast-forward after a rebase onto a newer revision', async () => {
      const { repository, session, sourceId } = await upstream()
      await session.files.write({ path: '/src/one.txt', content: 'changed\n' })
      const clone = await world.clone(session)
      repository.commitFiles([['100644', 'src/four.txt', 'four\n']], 'refs/heads/main', 'four')
      const job = await engine.sources.refresh(sourceId, { gitRef: 'main' })
      const { revisionId } = await engine.sources.waitForJob(job)
      await session.rebase({ revisionId })
      await clone.git('pull', '--quiet', '--ff-only')
      await session.commit({ message: 'rebased', gitBranch: { branchName: 'rebased' } })
      await clone.git('pull', '--quiet', '--ff-only')
      expect((await clone.git('ls-files')).split('\n')).toContain('src/four.txt')
      expect((await world.clone(session)).path).not.toBe('')
    })
  })
})
