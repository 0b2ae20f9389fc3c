import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { endsPage } from '../../src/engine/tree/page.js'
import {
  EngineError,
  memoryStorage,
  openEngine,
  type Engine,
  type ErrorReason,
  type Session,
  type SessionFiles,
  type Storage,
} from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit } from '../support/git-server.js'
import { isLong } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'

const endings = Array.from({ length: 20_000 }, (_, i) => `n${i}`).filter(endsPage)

describe.each(fewStorages)('hard links on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session
  let files: SessionFiles

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'links-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    use(await engine.sessions.create({ files: { '/a': 'one', '/d/x': 'x', '/d/e/y': 'y' } }))
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  function use(chosen: Session): void {
    session = chosen
    files = chosen.files
  }

  /** Unloads everything on durable storage, so that it is loaded again on demand. */
  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    use(await engine.sessions.open(id))
  }

  const link = (srcPath: string, dstPath: string): Promise<void> => files.link({ srcPath, dstPath })
  const rename = (sourcePath: string, destinationPath: string): Promise<void> =>
    files.rename({ sourcePath, destinationPath })
  const hashOf = async (of: Session = session): Promise<string> => (await of.manifest()).manifestHash
  const text = async (path: string, of: Session = session): Promise<string> =>
    Buffer.from(await of.files.read({ path })).toString()

  async function facts(path: string, of: Session = session): Promise<unknown> {
    const { ino, nlink, mode, size, mtimeMs, ctimeMs, birthtimeMs } = await of.fs.promises.stat(path)
    const { names } = await of.files.listXattrs({ path })
    const values = []
    for (const name of names)
      values.push([name, Buffer.from((await of.files.getXattr({ path, name })).value).toString('hex')])
    const hash = await of.files.contentHash(path)
    const content = await text(path, of)
    return { ino, nlink, mode, size, mtimeMs, ctimeMs, birthtimeMs, values, hash, content }
  }

  /** Requires that all names refer to one file with this number of links. */
  async function same(paths: readonly string[], of: Session = session): Promise<void> {
    const first = await facts(paths[0]!, of)
    expect(first).toMatchObject({ nlink: paths.length })
    for (const path of paths) expect([path, await facts(path, of)]).toEqual([path, first])
  }

  /** The hash of an equal tree without hard links, which must be the same. */
  async function hashOfCopy(of: Session = session): Promise<string> {
    const other = await openEngine()
    const copy = await other.sessions.create()
    for (const { path, fileType, mode } of (await of.manifest({ pageSize: 10_000 })).nodes) {
      if (fileType === 'VFS_FILE_TYPE_DIRECTORY') await copy.files.createDirectory({ path, mode })
      else {
        await copy.files.write({ path, mode, content: await of.files.read({ path }) })
        for (const name of (await of.files.listXattrs({ path })).names)
          await copy.files.setXattr({ path, name, value: (await of.files.getXattr({ path, name })).value })
      }
    }
    for (const { path, target } of (await of.files.listSymlinks()).symlinks)
      await copy.files.createSymlink({ linkPath: path, target })
    const hash = await hashOf(copy)
    await other.close()
    return hash
  }

  async function refuse(operation: Promise<unknown>, reason: ErrorReason, before: string): Promise<void> {
    const error: unknown = await operation.catch((thrown: unknown) => thrown)
    expect(error instanceof EngineError && error.reason).toBe(reason)
    expect(await hashOf()).toBe(before)
  }

  test('a moved name counts until the directory above it is removed', async () => {
    await link('/a', '/second')
    await files.createDirectory({ path: '/to/below', recursive: true })
    await rename('/second', '/to/below/second')
    expect(session.fs.statSync('/a').nlink).toBe(2)
    await files.removeDirectory({ path: '/to', recursive: true })
    expect(session.fs.statSync('/a').nlink).toBe(1)
  })

  test('a new name changes the ctime of the file, and not its mtime', async () => {
    const before = session.fs.statSync('/a')
    await sleep(5)
    await link('/a', '/second')
    const after = session.fs.statSync('/a')
    expect(after.ctimeMs).toBeGreaterThan(before.ctimeMs)
    expect(after.mtimeMs).toBe(before.mtimeMs)
    await sleep(5)
    await link('/a', '/third')
    expect(session.fs.statSync('/a').ctimeMs).toBeGreaterThan(after.ctimeMs)
  })

  test('content, mode, times and attributes are shared by all names', async () => {
    await link('/a', '/b')
    await link('/b', '/d/e/c')
    await same(['/a', '/b', '/d/e/c'])
    await files.write({ path: '/d/e/c', content: 'two' })
    expect(await text('/a')).toBe('two')
    await same(['/a', '/b', '/d/e/c'])
    await files.append({ path: '/b', content: '!' })
    await files.setMode({ path: '/a', mode: 0o600 })
    await files.setXattr({ path: '/b', name: 'user.x', value: 'v' })
    await files.patchSegments({
      mutations: [{ path: '/a', segments: [{ data: { offset: 1, content: 'W' } }] }],
    })
    await files.batch([{ write: { path: '/new', content: '' } }, { delete: { path: '/new' } }])
    expect(await text('/d/e/c')).toBe('tWo!')
    await same(['/a', '/b', '/d/e/c'])
    await reload()
    await same(['/a', '/b', '/d/e/c'])
    await files.removeXattr({ path: '/d/e/c', name: 'user.x' })
    await files.write({ path: '/a', content: 'three', mode: 0o755 })
    await same(['/a', '/b', '/d/e/c'])
    expect(await text('/b')).toBe('three')
    expect(await hashOf()).toBe(await hashOfCopy())
    await reload()
    await same(['/a', '/b', '/d/e/c'])
  })

  test('a change through one name affects the hash and diff of every other', async () => {
    await link('/a', '/d/b')
    await link('/a', '/d/e/c')
    await session.checkpoint({ checkpointLabel: 'before' })
    const before = await hashOf()
    for (const reopened of [false, true]) {
      if (reopened) await reload()
      for (const path of ['/a', '/d/b', '/d/e/c']) {
        await files.write({ path, content: `by ${path}` })
        const hash = await hashOf()
        expect(hash).not.toBe(before)
        expect(hash).toBe(await hashOfCopy())
        const sessionId = session.id
        const changed = await engine
          .diff({ from: { sessionId, checkpointLabel: 'before' }, to: { sessionId } })
          .paths()
        expect(changed).toEqual({ added: [], removed: [], modified: ['/a', '/d/b', '/d/e/c'] })
        await files.write({ path: '/d/b', content: 'one' })
        expect(await hashOf()).toBe(before)
        const back = await engine
          .diff({ from: { sessionId, checkpointLabel: 'before' }, to: { sessionId } })
          .paths()
        expect(back).toEqual({ added: [], removed: [], modified: [] })
      }
    }
  })

  test('link names in a directory of many pages', async () => {
    const names = endings.slice(0, 40)
    await files.batch(names.map((name) => ({ write: { path: `/m/${name}`, content: name } })))
    await link(`/m/${names[3]!}`, '/m/zz')
    await link(`/m/${names[3]!}`, '/d/e/z')
    const linked = [`/m/${names[3]!}`, '/m/zz', '/d/e/z']
    await session.checkpoint({ checkpointLabel: 'one' })
    expect(await hashOf()).toBe(await hashOfCopy())
    await reload()
    await files.write({ path: '/d/e/z', content: 'changed' })
    await same(linked)
    const sessionId = session.id
    const { modified } = await engine
      .diff({ from: { sessionId, checkpointLabel: 'one' }, to: { sessionId } })
      .paths()
    expect(modified.toSorted()).toEqual(linked.toSorted())
    expect(await hashOf()).toBe(await hashOfCopy())
    await reload()
    expect(await hashOf()).toBe(await hashOfCopy())
    await same(linked)
  })

  test('links survive fork, checkpoint, restore and reopening', async () => {
    await link('/a', '/d/b')
    await session.checkpoint({ checkpointLabel: 'linked' })
    const fork = await session.fork()
    await fork.files.write({ path: '/a', content: 'fork' })
    await fork.files.link({ srcPath: '/d/b', dstPath: '/c' })
    await same(['/a', '/d/b'])
    expect(await text('/d/b')).toBe('one')
    await same(['/a', '/d/b', '/c'], fork)
    const diff = (): Promise<unknown> =>
      engine.diff({ from: { sessionId: session.id }, to: { sessionId: fork.id } }).paths()
    const expected = { added: ['/c'], removed: [], modified: ['/a', '/d/b'] }
    expect(await diff()).toEqual(expected)
    await files.unlink({ path: '/a' })
    await files.unlink({ path: '/d/b' })
    await reload()
    const again = await engine.sessions.open(fork.id)
    await same(['/a', '/d/b', '/c'], again)
    await session.restore({ checkpointLabel: 'linked' })
    await same(['/a', '/d/b'])
    expect(await diff()).toEqual(expected)
    await files.write({ path: '/d/b', content: 'restored' })
    await same(['/a', '/d/b'])
    await reload()
    await same(['/a', '/d/b'])
    expect(await text('/a')).toBe('restored')
    const early = await session.fork({ checkpointLabel: 'linked' })
    await same(['/a', '/d/b'], early)
    expect(await text('/a', early)).toBe('one')
    expect(await hashOf(early)).toBe(await hashOfCopy(early))
  })

  test('renames a name or its directories, over a name, and onto another name of the same file', async () => {
    await link('/a', '/d/e/b')
    await rename('/d/e/b', '/d/c')
    await same(['/a', '/d/c'])
    await rename('/d', '/D')
    await same(['/a', '/D/c'])
    const before = await hashOf()
    const unchanged = await facts('/a')
    await rename('/a', '/D/c')
    expect(await hashOf()).toBe(before)
    expect(await facts('/a')).toEqual(unchanged)
    await rename('/D/e/y', '/D/c')
    await same(['/a'])
    expect([await text('/a'), await text('/D/c')]).toEqual(['one', 'y'])
    await link('/a', '/f')
    await link('/D/c', '/g')
    await rename('/a', '/g')
    await same(['/f', '/g'])
    await same(['/D/c'])
    await reload()
    await same(['/f', '/g'])
    await same(['/D/c'])
    await files.createDirectory({ path: '/D/h' })
    await rename('/D', '/E')
    await files.write({ path: '/E/c', content: 'end' })
    expect(await hashOf()).toBe(await hashOfCopy())
  })

  test('removing names or whole directories decreases the link count', async () => {
    await link('/a', '/d/b')
    await link('/a', '/d/e/c')
    await link('/a', '/f')
    await reload()
    await session.fs.promises.rm('/d', { recursive: true })
    await same(['/a', '/f'])
    await files.unlink({ path: '/a' })
    await same(['/f'])
    await reload()
    await same(['/f'])
    await files.write({ path: '/f', content: 'still' })
    await link('/f', '/g')
    await same(['/f', '/g'])
    await files.delete({ path: '/f' })
    await files.unlink({ path: '/g' })
    const before = await hashOf()
    await refuse(files.read({ path: '/g' }), 'PATH_NOT_FOUND', before)
    await refuse(files.unlink({ path: '/g' }), 'PATH_NOT_FOUND', before)
    expect(await hashOf()).toBe(await hashOfCopy())
    await reload()
    expect((await session.manifest()).nodes).toEqual([])
  })

  test('rejects links to directories, missing paths and existing names', async () => {
    await files.createSymlink({ linkPath: '/l', target: 'nowhere' })
    const before = await hashOf()
    await refuse(link('/d', '/dd'), 'NOT_PERMITTED', before)
    await refuse(link('/', '/dd'), 'NOT_PERMITTED', before)
    await refuse(link('/none', '/b'), 'PATH_NOT_FOUND', before)
    await refuse(link('/a', '/a'), 'ALREADY_EXISTS', before)
    await refuse(link('/a', '/d/x'), 'ALREADY_EXISTS', before)
    await refuse(link('/a', '/d'), 'ALREADY_EXISTS', before)
    await refuse(link('/a', '/l'), 'ALREADY_EXISTS', before)
    await refuse(link('/a', '/none/b'), 'PATH_NOT_FOUND', before)
    await refuse(link('/a', '/a/b'), 'NOT_A_DIRECTORY', before)
    await refuse(link('/a/b', '/b'), 'NOT_A_DIRECTORY', before)
    await refuse(link('a', '/b'), 'INVALID_ARGUMENT', before)
    await refuse(link('/a', `/${'x'.repeat(256)}`), 'NAME_TOO_LONG', before)
    await refuse(files.unlink({ path: '/d' }), 'IS_A_DIRECTORY', before)
    const wrong = `sha256:${'0'.repeat(64)}`
    await link('/a', '/b')
    const linked = await hashOf()
    await refuse(files.unlink({ path: '/b', expectedHash: wrong }), 'HASH_MISMATCH', linked)
    await files.unlink({ path: '/b', expectedHash: await files.contentHash('/a') })
    expect(await hashOf()).toBe(before)
  })

  test('a link to a symlink makes another symlink and leaves its target alone', async () => {
    await files.createSymlink({ linkPath: '/d/l', target: 'x' })
    await link('/d/l', '/d/e/l')
    expect(await files.readSymlink('/d/e/l')).toEqual({ target: 'x' })
    expect((await session.fs.promises.stat('/d/x')).nlink).toBe(1)
    await files.unlink({ path: '/d/l' })
    expect(await files.readSymlink('/d/e/l')).toEqual({ target: 'x' })
    await files.createSymlink({ linkPath: '/to', target: 'd' })
    await link('/to/x', '/to/e/z')
    await same(['/d/x', '/d/e/z'])
    await reload()
    expect(await hashOf()).toBe(await hashOfCopy())
  })

  test('links files with several blobs', async () => {
    const large = new Uint8Array(2 ** 20 + 5).fill(7)
    await files.write({ path: '/d/large', content: large })
    await link('/d/large', '/d/e/large')
    const hash = await files.contentHash('/d/e/large')
    await files.append({ path: '/d/e/large', content: 'x' })
    expect(await files.contentHash('/d/large')).not.toBe(hash)
    await reload()
    expect((await session.fs.promises.stat('/d/large')).size).toBe(2 ** 20 + 6)
    expect(await files.contentHash('/d/large')).toBe(await files.contentHash('/d/e/large'))
    expect(await files.getCasExtents({ path: '/d/large' })).toEqual(
      await files.getCasExtents({ path: '/d/e/large' }),
    )
    expect(await hashOf()).toBe(await hashOfCopy())
  })

  test('a failed batch undoes its changes of a linked file', async () => {
    await link('/a', '/d/b')
    const before = await hashOf()
    await refuse(
      files.batch([
        { write: { path: '/d/b', content: 'batch' } },
        { delete: { path: '/a' } },
        { delete: { path: '/none' } },
      ]),
      'PATH_NOT_FOUND',
      before,
    )
    await same(['/a', '/d/b'])
    await files.batch([{ delete: { path: '/a' } }, { write: { path: '/d/b', content: 'batch' } }])
    await same(['/d/b'])
    expect(await text('/d/b')).toBe('batch')
  })

  test('hashes of forks that are computed at the same time are correct', async () => {
    await link('/a', '/d/b')
    await files.write({ path: '/z/x', content: '' })
    await link('/a', '/z/e')
    const forks: Session[] = []
    for (let i = 0; i < 4; i++) {
      const fork = await session.fork()
      await fork.files.write({ path: '/a', content: `fork ${i}` })
      // Hashing these takes several turns.
      for (const path of ['/large', '/d/large', '/z/large'])
        await fork.files.write({ path, content: new Uint8Array(2 ** 21 + i).fill(i) })
      forks.push(fork)
    }
    const hashes = await Promise.all(forks.map((fork) => hashOf(fork)))
    const expected: string[] = []
    for (const fork of forks) expected.push(await hashOfCopy(fork))
    expect(hashes).toEqual(expected)
  })

  test('lists symlinks by prefix, in pages', async () => {
    const paths = ['/d/e/l', '/d/k', '/d2', '/l0', '/l1', '/l2', '/l3', '/m']
    for (const path of paths) await files.createSymlink({ linkPath: path, target: path })
    await reload()
    const list = async (pathPrefix: string, pageSize: number): Promise<string[]> => {
      const found: string[] = []
      for (let pageToken = ''; ;) {
        const page = await files.listSymlinks({ pathPrefix, pageSize, pageToken })
        expect(page.symlinks.length).toBeLessThanOrEqual(pageSize)
        for (const { path, target } of page.symlinks) {
          expect(target).toBe(path)
          found.push(path)
        }
        if (page.nextPageToken === '') return found
        pageToken = page.nextPageToken
      }
    }
    for (const prefix of ['', '/', '/l', '/d', '/d/', '/d/e/', '/l1', '/none', '/d/none/'])
      for (const pageSize of [1, 2, 3, 1000])
        expect(await list(prefix, pageSize)).toEqual(paths.filter((path) => path.startsWith(prefix)))
    const { nextPageToken } = await files.listSymlinks({ pathPrefix: '/l', pageSize: 1 })
    await expect(files.listSymlinks({ pathPrefix: '/d', pageToken: nextPageToken })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    })
  })

  test('a symlink whose target ends with a slash resolves to a directory or nothing', async () => {
    for (const target of ['./c/', 'c/.', 'none/c/']) {
      await files.createSymlink({ linkPath: '/l', target })
      const before = await hashOf()
      await refuse(files.write({ path: '/l', content: '' }), 'PATH_NOT_FOUND', before)
      await refuse(files.append({ path: '/l', content: '' }), 'PATH_NOT_FOUND', before)
      await files.unlink({ path: '/l' })
    }
    await files.createSymlink({ linkPath: '/l', target: 'a/' })
    const before = await hashOf()
    await refuse(files.write({ path: '/l', content: '' }), 'NOT_A_DIRECTORY', before)
    await refuse(files.read({ path: '/l' }), 'NOT_A_DIRECTORY', before)
    await files.createSymlink({ linkPath: '/m', target: './c/' })
    await files.write({ path: '/m/new', content: 'below' })
    expect(await text('/c/new')).toBe('below')
  })

  test('follows 40 symlinks but not 41', async () => {
    await files.createSymlink({ linkPath: '/s1', target: 'a' })
    for (let i = 2; i <= 41; i++) await files.createSymlink({ linkPath: `/s${i}`, target: `s${i - 1}` })
    await reload()
    expect(await text('/s40')).toBe('one')
    await expect(files.read({ path: '/s41' })).rejects.toMatchObject({ reason: 'SYMLINK_LOOP' })
    await files.createSymlink({ linkPath: '/t', target: 's40' })
    await expect(files.write({ path: '/t', content: '' })).rejects.toMatchObject({ reason: 'SYMLINK_LOOP' })
    await files.setXattr({ path: '/s40', name: 'n', value: '' })
    await link('/s41', '/hard')
    expect(await files.readSymlink('/hard')).toEqual({ target: 's40' })
  })
})

test('supports thousands of names of one file', { timeout: 60_000 }, async () => {
  const count = isLong ? 10_000 : 2000
  const storage = memoryStorage({ durable: true, syncReads: false })
  const first = await openEngine({ storage })
  const { id, files } = await first.sessions.create({ files: { '/a': 'one', '/d/x': '' } })
  const made: Promise<void>[] = []
  for (let i = 1; i < count; i++)
    made.push(files.link({ srcPath: i === 1 ? '/a' : '/d/n1', dstPath: `/d/n${i}` }))
  await Promise.all(made)
  await first.close()
  const engine = await openEngine({ storage })
  const session = await engine.sessions.open(id)
  expect((await session.fs.promises.readdir('/d')).length).toBe(count)
  expect((await session.fs.promises.stat('/a')).nlink).toBe(count)
  await session.checkpoint({ checkpointLabel: 'all' })
  await session.files.write({ path: '/d/n2', content: 'changed' })
  const { modified } = await engine
    .diff({ from: { sessionId: id, checkpointLabel: 'all' }, to: { sessionId: id } })
    .paths()
  expect(modified.length).toBe(count)
  await session.fs.promises.rm('/d', { recursive: true })
  expect((await session.fs.promises.stat('/a')).nlink).toBe(1)
  expect(Buffer.from(await session.files.read({ path: '/a' })).toString()).toBe('changed')
  await engine.close()
})

test.skipIf(!hasGit)('a git commit contains every name as a file', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'links-git-'))
  const server = await serveGit(directory)
  const engine = await openEngine({ git: { allowPrivateAddresses: true } })
  try {
    const repository = GitRepository.create(join(directory, 'r.git'))
    repository.stage([['100644', 'a', 'one']])
    repository.commit()
    const { sourceId } = await engine.sources.create({
      displayName: 'r',
      gitRemote: { remoteUrl: `${server.url}/r.git` },
    })
    await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
    const session = await engine.sessions.create({ sourceRef: { sourceId } })
    const { files } = session
    await files.link({ srcPath: '/a', dstPath: '/b' })
    const commit = async (): Promise<string> =>
      (await session.commit({ message: 'm', gitBranch: { branchName: 'linked' } })).commitId
    const show = (commitId: string, path: string): string => repository.git(['show', `${commitId}:${path}`])
    const one = await commit()
    expect([show(one, 'a'), show(one, 'b')].map((shown) => shown.trim())).toEqual(['one', 'one'])
    await files.createDirectory({ path: '/d' })
    await files.link({ srcPath: '/b', dstPath: '/d/c' })
    await files.write({ path: '/d/c', content: 'two', mode: 0o755 })
    const two = await commit()
    expect(['a', 'b', 'd/c'].map((path) => show(two, path).trim())).toEqual(['two', 'two', 'two'])
    const tree = repository.git(['ls-tree', '-r', two]).trim().split('\n')
    expect(tree.map((line) => line.slice(0, 6))).toEqual(['100755', '100755', '100755'])
    await files.unlink({ path: '/a' })
    const three = await commit()
    expect(repository.git(['ls-tree', '-r', '--name-only', three]).trim().split('\n')).toEqual(['b', 'd/c'])
  } finally {
    await engine.close()
    await server.close()
    await rm(directory, { recursive: true, force: true })
  }
})
