import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { fewStorages } from '../support/storages.js'

const author = { name: 'Ada', email: 'ada@example.org' }

let root: string
let repository: GitRepository
let engine: Engine
let session: Session

async function collected(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

describe.runIf(hasGit).each(fewStorages)('commits of a session on %s', (_name, make, lasting) => {
  let storage: Storage
  const open = (): Promise<Engine> => openEngine({ storage, hostPaths: { roots: [root] } })

  async function imported(format: 'sha1' | 'sha256' = 'sha1'): Promise<Session> {
    repository = GitRepository.create(join(root, `${format}.git`), { format })
    repository.stage([
      ['100644', 'a.txt', 'one'],
      ['100755', 'src/run.sh', '#!/bin/sh\n'],
      ['100644', 'src/deep/b.txt', 'b'],
    ])
    repository.commit()
    const { sourceId } = await engine.sources.create({
      displayName: 'a',
      gitRepository: { path: repository.path },
    })
    const job = await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } })
    const { revisionId } = await engine.sources.waitForJob(job)
    return engine.sessions.create({ sourceRef: { sourceId, revisionId } })
  }

  beforeEach(async () => {
    root = mkdtempSync(join(tmpdir(), 'kept-commits-'))
    storage = make(root)
    engine = await open()
    session = await imported()
  })
  afterEach(async () => {
    await engine.close()
    rmSync(root, { recursive: true })
  })

  async function commitTwice(): Promise<[first: string, second: string]> {
    await session.files.write({ path: '/a.txt', content: 'two' })
    const first = await session.commit({ message: 'First\n\nWith a body', author })
    await session.files.rename({ sourcePath: '/src/deep', destinationPath: '/deep' })
    await session.files.createSymlink({ linkPath: '/link', target: 'a.txt' })
    const second = await session.commit({ message: 'Second', author })
    return [first.commitId, second.commitId]
  }

  test('are listed newest first, without the imported one', async () => {
    expect(await session.commits.list()).toEqual({ commits: [], nextPageToken: '' })
    const [first, second] = await commitTwice()
    const { commits } = await session.commits.list()
    expect(commits).toEqual([
      {
        commitId: second,
        parentId: first,
        branchName: '',
        author,
        committedAt: expect.stringMatching(/^20\d\d-.*Z$/),
        message: 'Second\n',
      },
      {
        commitId: first,
        parentId: repository.tip('refs/heads/main'),
        branchName: '',
        author,
        committedAt: expect.any(String),
        message: 'First\n\nWith a body\n',
      },
    ])
    expect(await session.commits.get({ commitId: first })).toEqual(commits[1])
  })

  test('are listed by branch and in pages', async () => {
    const [first, second] = await commitTwice()
    const pushed = await session.commit({ message: 'Pushed', gitBranch: { branchName: 'next' } })
    const ids = async (request: object): Promise<string[]> =>
      (await session.commits.list(request)).commits.map(({ commitId }) => commitId)
    expect(await ids({})).toEqual([second, first, pushed.commitId])
    expect(await ids({ branchName: 'next' })).toEqual([pushed.commitId])
    expect(await ids({ branchName: 'none' })).toEqual([])
    const page = await session.commits.list({ pageSize: 2 })
    expect(await ids({ pageToken: page.nextPageToken })).toEqual([pushed.commitId])
    await expect(
      session.commits.list({ pageToken: page.nextPageToken, branchName: '' }),
    ).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })

  test('have the files of their time', async () => {
    const [first, second] = await commitTwice()
    await session.files.write({ path: '/a.txt', content: 'three' })
    const read = async (commitId: string, path: string): Promise<string> =>
      Buffer.from((await session.commits.readFile({ commitId, path })).content).toString()
    expect(await read(first, '/a.txt')).toBe('two')
    expect(await read(first, '/src/deep/b.txt')).toBe('b')
    expect(await read(second, '/deep/b.txt')).toBe('b')
    for (const path of ['/src/deep/b.txt', '/none', '/a.txt/b', '/src', '/link', '/'])
      await expect(read(second, path), path).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
  })

  test('that the session did not make are not found', async () => {
    const main = repository.tip('refs/heads/main')!
    const other = await imported('sha256')
    const { commitId } = await other.commit({ message: 'Other' })
    for (const id of [main, commitId, 'a'.repeat(40)])
      await expect(session.commits.get({ commitId: id })).rejects.toMatchObject({
        reason: 'COMMIT_NOT_FOUND',
      })
    for (const id of ['', 'A'.repeat(40), 'a'.repeat(41), '../x', 7 as never])
      await expect(session.commits.get({ commitId: id })).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
  })

  test.each(['sha1', 'sha256'] as const)(
    'become a bundle that git fetches into a repository of %s',
    async (format) => {
      session = await imported(format)
      const [first, second] = await commitTwice()
      const file = join(root, 'session.bundle')
      writeFileSync(file, await collected(session.commits.exportBundle({ as: 'fix' })))
      expect(repository.git(['bundle', 'list-heads', file])).toBe(`${second} refs/heads/fix`)
      repository.git(['-c', 'fetch.fsckObjects=true', 'fetch', file, 'fix:fetched'])
      expect(repository.git(['rev-list', 'fetched', '^main']).split('\n')).toEqual([second, first])
      expect(repository.git(['ls-tree', '-r', '--name-only', 'fetched']).split('\n')).toEqual([
        'a.txt',
        'deep/b.txt',
        'link',
        'src/run.sh',
      ])
      expect(repository.git(['fsck', '--strict', '--no-dangling'])).toBe('')
    },
  )

  test('of a session without a repository become a bundle that git clones', async () => {
    const blank = await engine.sessions.create({ files: { '/a.txt': 'one' } })
    const empty = await blank.commit({ message: 'One', gitBranch: { branchName: 'main' } })
    await blank.files.delete({ path: '/a.txt' })
    const { commitId } = await blank.commit({ message: 'None', gitBranch: { branchName: 'main' } })
    const file = join(root, 'blank.bundle')
    writeFileSync(file, await collected(blank.commits.exportBundle({ branchName: 'main' })))
    repository.git(['clone', '--quiet', '--bare', file, join(root, 'clone.git')])
    const clone = new GitRepository(join(root, 'clone.git'))
    expect(clone.git(['rev-list', 'main']).split('\n')).toEqual([commitId, empty.commitId])
    expect(clone.git(['show', `${empty.commitId}:a.txt`])).toBe('one')
  })

  test('that do not exist become no bundle', async () => {
    await expect(collected(session.commits.exportBundle())).rejects.toMatchObject({
      reason: 'COMMIT_NOT_FOUND',
    })
    await session.commit({ message: 'all' })
    for (const request of [{ as: 'a b' }, { as: 7 }, { branchName: null }, { branch: 'a' }])
      await expect(collected(session.commits.exportBundle(request as never))).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    const reason = new Error('enough')
    await expect(collected(session.commits.exportBundle({ signal: AbortSignal.abort(reason) }))).rejects.toBe(
      reason,
    )
  })

  test.runIf(lasting)('remain after a collection and after the engine was opened again', async () => {
    const [first, second] = await commitTwice()
    await engine.collect()
    await engine.close()
    engine = await open()
    session = await engine.sessions.open(session.id)
    expect((await session.commits.list()).commits.map(({ commitId }) => commitId)).toEqual([second, first])
    expect((await collected(session.commits.exportBundle())).subarray(0, 16).toString()).toBe(
      '# v2 git bundle\n',
    )
  })

  test('need the capabilities of reading files and history', async () => {
    const { commitId } = await session.commit({ message: 'all' })
    for (const capability of ['files.read', 'history'] as const) {
      const { commits } = session.narrow({ without: [capability] })
      for (const call of [
        commits.list(),
        commits.get({ commitId }),
        commits.readFile({ commitId, path: '/a.txt' }),
        collected(commits.exportBundle()),
      ])
        await expect(call).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    }
  })
})
