/** A rebase of a session that has pushed commits compares with the commit that git takes as merge base. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { hasMergeTree, MergeRepository, type FileTree } from '../support/git-merge-tree.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit, type GitServer } from '../support/git-server.js'
import { conflictPaths, mergedFiles, readTree, TreeEditor, writeTree } from '../support/merge-histories.js'
import { isLong, runs, seed } from '../support/seed.js'

const main = { branchName: 'main' }

let root: string
let engine: Engine
let server: GitServer | undefined

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'rebase-git-'))
  engine = await openEngine({
    hostPaths: { roots: [root] },
    git: { allowPrivateAddresses: true },
    // The time of the commits of others.
    environment: { ...systemEnvironment, wallClockMs: () => 1_700_000_000_000 },
  })
})

afterEach(async () => {
  await engine.close()
  await server?.close()
  server = undefined
  rmSync(root, { recursive: true, force: true })
})

async function refresh(sourceId: string, gitRef: string): Promise<string> {
  const job = await engine.sources.refresh(sourceId, { gitRef })
  return (await engine.sources.waitForJob(job)).revisionId
}

/** A session with commits on a branch, and a newer revision of that branch. */
class History {
  readonly #random: () => number
  readonly #editor: TreeEditor
  readonly #repository: MergeRepository
  readonly #path: string
  readonly #branch: string

  constructor(repository: MergeRepository, path: string, n: number) {
    this.#random = randomWords(seed * 100_000 + n)
    this.#editor = new TreeEditor(this.#random)
    this.#repository = repository
    this.#path = path
    this.#branch = `case-${n}`
  }

  async run(sourceId: string): Promise<Case> {
    const base = this.#editor.tree()
    const imported = this.#push(base, [])
    const revisionId = await refresh(sourceId, this.#branch)
    let session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
    const own: { readonly commitId: string; readonly files: FileTree }[] = [
      { commitId: imported, files: base },
    ]
    for (let n = this.#below(4); n > 0; n--) {
      writeTree(session, this.#change(own.at(-1)!.files))
      own.push({ commitId: await this.#commit(session), files: readTree(session) })
      if (this.#below(3) === 0) session = await session.fork()
    }
    // Someone may have removed the newest commits from the branch.
    const left = this.#below(4) === 0 ? 1 + this.#below(own.length) : own.length
    const kept = own[Math.min(left, own.length - 1)]!
    writeTree(session, this.#change(kept.files))
    const files = readTree(session)
    // Others may make the same change, but not the same commit.
    const ours = this.#repository.commit(files, [own.at(-1)!.commitId], 'ours')
    const theirs = this.#others(kept, imported)
    await refresh(sourceId, this.#branch)
    const result = await session.rebase()
    // git does not list the old path of a renamed file where another file is now, and only some where a directory is now.
    const isReplaced = (path: string): boolean =>
      result.conflicts.every((one) => one.path !== path) && session.fs.existsSync(path)
    const conflicts = conflictPaths(result).filter((path) => !isReplaced(path))
    const merged = { conflicts, files: mergedFiles(readTree(session), conflicts) }
    const isListed = (path: string): boolean =>
      conflicts.includes(path) || session.fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true
    return { merged, isListed, commits: [ours, theirs], histories: { base, own, files } }
  }

  /** Commits of others on top of one, partly through a branch that they merge. */
  #others({ commitId, files }: { commitId: string; files: FileTree }, imported: string): string {
    let tip = commitId
    for (let n = this.#below(3); n > 0; n--) tip = this.#repository.commit(this.#change(files), [tip])
    const aside = this.#below(3) === 0 ? [this.#repository.commit(this.#change(files), [imported])] : []
    const parents = this.#below(2) === 0 ? [tip, ...aside] : [...aside, tip]
    return this.#push(this.#change(files), parents)
  }

  #change(files: FileTree): FileTree {
    return this.#editor.change(files, 1 + this.#below(5))
  }

  /** Sets the branch to a new commit. */
  #push(files: FileTree, parents: readonly string[]): string {
    const commitId = this.#repository.commit(files, parents)
    mkdirSync(join(this.#path, 'refs', 'heads'), { recursive: true })
    writeFileSync(join(this.#path, 'refs', 'heads', this.#branch), `${commitId}\n`)
    return commitId
  }

  async #commit(session: Session): Promise<string> {
    const request = { message: 'own', gitBranch: { branchName: this.#branch }, allowEmpty: true }
    return (await session.commit(request)).commitId
  }

  #below(count: number): number {
    return this.#random() % count
  }
}

interface Case {
  /** Whether a conflict of git at this path must be one here too. */
  readonly isListed: (path: string) => boolean
  readonly merged: { readonly conflicts: readonly string[]; readonly files: readonly [string, string][] }
  readonly commits: readonly string[]
  readonly histories: object
}

test.runIf(hasGit && hasMergeTree)(
  `rebases as git merges (FORKSPACE_SEED=${seed})`,
  { timeout: 600_000 },
  async () => {
    const path = join(root, 'histories.git')
    const repository = new MergeRepository(path)
    const { sourceId } = await engine.sources.create({ displayName: 'h', gitRepository: { path } })
    const cases: Case[] = []
    for (let n = 0; n < runs(600); n++) cases.push(await new History(repository, path, n).run(sourceId))
    const merges = await repository.mergeAll(cases.map(({ commits }) => commits))
    const wrong = cases.flatMap(({ merged, isListed, histories }, n) => {
      const merge = merges[n]
      if (merge === undefined) return []
      const { files, conflicts, messages } = merge
      const git = { conflicts: conflicts.filter(isListed), files: mergedFiles(files, conflicts) }
      return isDeepStrictEqual(merged, git) ? [] : [{ n, histories, merged, git, messages }]
    })
    expect(wrong.slice(0, 1)).toEqual([])
  },
)

/** Whether the import can read the commits between the pushed one and the new revision. */
const allPlaces = [
  ['a directory', true],
  ['a server with filters', true],
  ['a server without filters', false],
  ['a server with protocol 1', false],
] as const
/** To the rebase, protocol 1 is like a server without filters, so `npm test` leaves it out. */
const places = isLong ? allPlaces : allPlaces.slice(0, 3)

describe.runIf(hasGit).each(places)('a rebase of a session that pushed to %s', (place, readsHistory) => {
  let repository: GitRepository
  let sourceId: string
  let session: Session

  beforeEach(async () => {
    repository = GitRepository.create(join(root, 'r.git'))
    if (place === 'a server with filters') repository.git(['config', 'uploadpack.allowFilter', 'true'])
    change({ a: 'one\n', b: 'one\n', c: 'one\n' })
    if (place !== 'a directory') server = await serveGit(root, { protocol: place.endsWith('1') ? 1 : 2 })
    const at =
      server === undefined
        ? { gitRepository: { path: repository.path } }
        : { gitRemote: { remoteUrl: `${server.url}/r.git` } }
    ;({ sourceId } = await engine.sources.create({ displayName: 'r', ...at }))
    await refresh(sourceId, 'main')
    session = await engine.sessions.create({ sourceRef: { sourceId } })
  })

  /** A commit of someone else. */
  function change(files: Readonly<Record<string, string | null>>, ref = 'refs/heads/main'): string {
    return repository.commitFiles(
      Object.entries(files).map(([path, content]) => ['100644', path, content] as const),
      ref,
    )
  }

  async function write(files: Readonly<Record<string, string>>, to = session): Promise<void> {
    for (const [path, content] of Object.entries(files)) await to.files.write({ path: `/${path}`, content })
  }

  async function commit(branchName = 'main'): Promise<string> {
    return (await session.commit({ message: 'mine', gitBranch: { branchName } })).commitId
  }

  async function rebase(of = session, gitRef = 'main'): Promise<string[]> {
    await refresh(sourceId, gitRef)
    return (await of.rebase()).conflicts.map(({ path, kind }) => `${kind} ${path}`)
  }

  const read = (path: string, of = session): string | undefined =>
    of.fs.existsSync(path) ? of.fs.readFileSync(path, 'utf8') : undefined

  test('keeps changes that the session made after its push', async () => {
    await write({ temporary: 'x\n', changed: 'first\n', b: 'two\n', c: 'two\n' })
    await commit()
    await session.files.delete({ path: '/temporary' })
    // Also a change back.
    await write({ changed: 'second\n', b: 'one\n' })
    change({ theirs: 't\n' })
    change({ a: 'theirs\n' })
    await expect(commit()).rejects.toMatchObject({ reason: 'BRANCH_MOVED' })
    expect(await rebase()).toEqual([])
    expect(['/temporary', '/changed', '/a', '/b', '/c', '/theirs'].map((path) => read(path))).toEqual([
      undefined,
      'second\n',
      'theirs\n',
      'one\n',
      'two\n',
      't\n',
    ])
    await commit()
    expect(repository.git(['log', '--format=%s', 'main'])).toBe('mine\na commit\na commit\nmine\na commit')
    expect(repository.git(['ls-tree', '--name-only', 'main'])).toBe('a\nb\nc\nchanged\ntheirs')
  })

  /** Both sides change the pushed files. */
  async function changeBoth(): Promise<string> {
    await write({ added: '1\n2\n3\n4\n5\n', b: 'two\n', c: 'two\n' })
    const pushed = await commit()
    await write({ added: 'mine\n2\n3\n4\n5\n', c: 'mine\n' })
    change({ added: '1\n2\n3\n4\ntheirs\n' })
    change({ b: 'one\n', c: 'theirs\n' })
    return pushed
  }

  test.runIf(readsHistory)('takes what others changed after the push', async () => {
    const pushed = await changeBoth()
    expect(await rebase()).toEqual(['content /c'])
    expect([read('/b'), read('/added')]).toEqual(['one\n', 'mine\n2\n3\n4\ntheirs\n'])
    const { hunks } = await session.conflicts.read({ path: '/c' })
    expect(hunks.map(({ base }) => base)).toEqual(['two\n'])
    await session.conflicts.abort()
    // The commits of the session are those before the rebase again.
    expect(await rebase()).toEqual(['content /c'])
    await session.conflicts.resolve({ path: '/c', use: 'ours' })
    const { commitId } = await session.commit({ message: 'mine', gitBranch: main })
    expect(repository.git(['merge-base', commitId, pushed])).toBe(pushed)
  })

  test.runIf(!readsHistory)('keeps its work if the import did not read the history', async () => {
    await changeBoth()
    expect(await rebase()).toEqual(['add/add /added', 'content /c'])
    expect(read('/b')).toBe('two\n')
  })

  test('knows the direct parent of the new revision', async () => {
    await write({ added: 'one\n' })
    await commit()
    change({ added: 'theirs\n' })
    expect(await rebase()).toEqual([])
    expect(read('/added')).toBe('theirs\n')
  })

  test('builds on its own commit after a rebase onto it', async () => {
    await write({ temporary: 'x\n' })
    const pushed = await commit()
    await session.files.delete({ path: '/temporary' })
    expect(await rebase()).toEqual([])
    expect(read('/temporary')).toBeUndefined()
    const next = await commit()
    expect(repository.git(['rev-parse', `${next}^`])).toBe(pushed)
  })

  test('keeps its work if the branch was replaced by a history without it', async () => {
    await write({ added: 'mine\n', b: 'mine\n' })
    await commit()
    await write({ c: 'mine\n' })
    repository.git(['update-ref', 'refs/heads/main', 'main~1'])
    change({ a: 'theirs\n' })
    expect(await rebase()).toEqual([])
    expect(['/added', '/a', '/b', '/c'].map((path) => read(path))).toEqual([
      'mine\n',
      'theirs\n',
      'mine\n',
      'mine\n',
    ])
  })

  test('compares with an earlier commit if the branch was set back to it', async () => {
    await write({ temporary: 'x\n', b: 'two\n' })
    await commit()
    await write({ b: 'three\n' })
    await commit()
    await session.files.delete({ path: '/temporary' })
    repository.git(['update-ref', 'refs/heads/main', 'main~1'])
    change({ a: 'theirs\n' })
    change({ a: 'again\n' })
    expect(await rebase()).toEqual(readsHistory ? [] : ['content /b'])
    expect([read('/temporary'), read('/a')]).toEqual([undefined, 'again\n'])
  })

  test('recognizes its changes in a commit that squashed them', async () => {
    await write({ temporary: 'x\n', b: 'two\n' })
    await commit('feature')
    await session.files.delete({ path: '/temporary' })
    await write({ b: 'three\n' })
    change({ temporary: 'x\n', b: 'two\n' })
    change({ a: 'theirs\n' })
    expect(await rebase()).toEqual([])
    expect([read('/temporary'), read('/a'), read('/b')]).toEqual([undefined, 'theirs\n', 'three\n'])
  })

  test('recognizes its changes on two branches in a commit that squashed them', async () => {
    await write({ temporary: 'x\n' })
    await commit('first')
    await session.files.delete({ path: '/temporary' })
    await write({ added: 'one\n' })
    await commit('second')
    await session.files.delete({ path: '/added' })
    change({ temporary: 'x\n', added: 'one\n' })
    change({ a: 'theirs\n' })
    expect(await rebase()).toEqual([])
    expect([read('/temporary'), read('/added'), read('/a')]).toEqual([undefined, undefined, 'theirs\n'])
  })

  test('compares a fork with the commits of its parent, and its own ones', async () => {
    await write({ temporary: 'x\n', other: 'x\n' })
    await commit()
    const fork = await session.fork()
    const second = await fork.fork()
    await fork.files.delete({ path: '/temporary' })
    await fork.commit({ message: 'fork', gitBranch: main })
    await fork.files.delete({ path: '/other' })
    await second.files.delete({ path: '/other' })
    await second.files.delete({ path: '/temporary' })
    change({ a: 'theirs\n' })
    change({ b: 'theirs\n' })
    expect(await rebase(fork)).toEqual([])
    expect(await rebase(second)).toEqual([])
    for (const one of [fork, second])
      expect(['/temporary', '/other', '/b'].map((path) => read(path, one))).toEqual([
        undefined,
        undefined,
        'theirs\n',
      ])
  })

  test('recognizes that its commit removed and replaced directories', async () => {
    change({ 'd/y': 'y\n', 'e/z': 'z\n', 'f/z': 'z\n' })
    await refresh(sourceId, 'main')
    session = await engine.sessions.create({ sourceRef: { sourceId } })
    for (const path of ['/d', '/e', '/f']) session.fs.rmSync(path, { recursive: true })
    await write({ d: 'pushed\n' })
    await commit('feature')
    await write({ d: 'changed\n', e: 'new\n' })
    session.fs.mkdirSync('/f')
    // A commit of someone else with the same files.
    change({ 'd/y': null, 'e/z': null, 'f/z': null, d: 'pushed\n' })
    expect(await rebase()).toEqual([])
    expect([read('/d'), read('/e'), session.fs.readdirSync('/f')]).toEqual(['changed\n', 'new\n', []])
  })

  test('compares files and directories that took the place of each other', async () => {
    await session.files.delete({ path: '/a' })
    await write({ 'a/x': 'x\n', 'd/y': 'y\n' })
    await commit()
    session.fs.rmSync('/a', { recursive: true })
    await write({ a: 'file again\n' })
    session.fs.rmSync('/d', { recursive: true })
    change({ b: 'theirs\n' })
    change({ c: 'theirs\n' })
    expect(await rebase()).toEqual([])
    expect([read('/a'), session.fs.existsSync('/d'), read('/b')]).toEqual(['file again\n', false, 'theirs\n'])
  })
})

describe.runIf(hasGit)('a rebase of a session whose source has a new commit of a submodule', () => {
  test.each([
    ['removed', 'delete/modify', (session: Session) => session.fs.promises.rmdir('/m')],
    [
      'moved',
      'delete/modify',
      (session: Session) => session.files.rename({ sourcePath: '/m', destinationPath: '/moved' }),
    ],
    [
      'replaced',
      'file/directory',
      async (session: Session) => {
        await session.fs.promises.rmdir('/m')
        await session.files.write({ path: '/m', content: 'a file' })
      },
    ],
    [
      'wrote a file into',
      'file/directory',
      (session: Session) => session.files.write({ path: '/m/file', content: 'a file' }),
    ],
  ])('has a conflict if the session %s it', async (_what, kind, change) => {
    const repository = GitRepository.create(join(root, 'r.git'))
    const pin = (oid: string): string => {
      repository.stage([
        ['100644', 'a', 'a'],
        ['160000', 'm', oid],
      ])
      return repository.commit()
    }
    pin('1'.repeat(40))
    const gitRepository = { path: repository.path }
    const { sourceId } = await engine.sources.create({ displayName: 'r', gitRepository })
    await refresh(sourceId, 'main')
    const session = await engine.sessions.create({ sourceRef: { sourceId } })
    await change(session)
    pin('2'.repeat(40))
    await refresh(sourceId, 'main')
    const { conflicts } = await session.rebase()
    expect(conflicts).toMatchObject([{ path: '/m', kind, theirs: { kind: 'directory' } }])
    await session.conflicts.resolve({ path: '/m', use: 'theirs' })
    await session.commit({ message: 'x', gitBranch: { branchName: 'side' }, allowEmpty: true })
    expect(repository.git(['rev-parse', 'side:m']).trim()).toBe('2'.repeat(40))
  })
})
