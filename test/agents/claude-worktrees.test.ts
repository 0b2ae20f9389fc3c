/** Worktrees of Claude Code: no change is lost by a removal, and no directory has two forks. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { HookCallbackMatcher, HookInput } from '@anthropic-ai/claude-agent-sdk'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { claudeWorktrees, type ClaudeWorktreesOptions } from '../../src/adapters/claude/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'

let root: string
let engine: Engine
let session: Session
let count = 0
beforeAll(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'claude-worktrees-')))
  engine = await openEngine({ hostPaths: { roots: [root] } })
})
afterAll(async () => {
  await engine.close()
  await rm(root, { recursive: true })
})
beforeEach(async () => {
  session = await engine.sessions.create({ files: { '/a': '1\n', '/src/b': '2\n' } })
})

function open(options: Partial<ClaudeWorktreesOptions> = {}) {
  const directory = join(root, `place-${(count += 1)}`)
  const worktrees = claudeWorktrees(session, { directory, ...options })
  const run = async ([matcher]: readonly HookCallbackMatcher[], input: object): Promise<unknown> =>
    matcher?.hooks[0]?.(input as HookInput, undefined, { signal: new AbortController().signal })
  return {
    directory,
    worktrees,
    create: async (name: string): Promise<string> => {
      await run(worktrees.hooks.WorktreeCreate, { hook_event_name: 'WorktreeCreate', name })
      return join(directory, name)
    },
    remove: (path: string) =>
      run(worktrees.hooks.WorktreeRemove, { hook_event_name: 'WorktreeRemove', worktree_path: path }),
    fork: (at = 0): Session => {
      const found = worktrees.list[at]
      if (found === undefined) throw new Error('no worktree')
      return found.fork
    },
  }
}
const refused = { code: 'ABORTED', reason: 'CHECKOUT_MODIFIED' }
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1))

test('a file that is written at any time of a removal is in the fork, or stays, or its write fails', async () => {
  for (let delay = 0; delay < 60; delay += 6) {
    const { create, remove, fork } = open()
    const path = await create('one')
    const removed = remove(path).then(
      () => true,
      () => false,
    )
    await new Promise((resolve) => setTimeout(resolve, delay))
    let isWritten = true
    try {
      writeFileSync(join(path, 'late'), 'late')
    } catch {
      isWritten = false
    }
    const isRemoved = await removed
    expect(existsSync(path)).toBe(!isRemoved)
    const kept = isRemoved
      ? fork().fs.existsSync('/late') && fork().fs.readFileSync('/late', 'utf8')
      : readFileSync(join(path, 'late'), 'utf8')
    expect(kept, `after ${delay} ms`).toBe(isWritten && 'late')
  }
})

test('a removal fails while a program writes, and succeeds after it', async () => {
  const { directory, create, remove, fork } = open()
  const path = await create('one')
  let [isStopped, written] = [false, '']
  const writer = (async () => {
    while (!isStopped) {
      try {
        appendFileSync(join(path, 'log'), 'x')
        written += 'x'
      } catch {
        isStopped = true
      }
      await pause()
    }
  })()
  await pause()
  await expect(remove(path)).rejects.toMatchObject(refused)
  isStopped = true
  await writer
  expect(readFileSync(join(path, 'log'), 'utf8')).toBe(written)
  await remove(path)
  expect(fork().fs.readFileSync('/log', 'utf8')).toBe(written)
  expect(await readdir(directory)).toEqual([])
})

test('an ignored file keeps the directory, unless deleteIgnored is true', async () => {
  await session.files.write({ path: '/.gitignore', content: '.env\nnode_modules/\n' })
  const shared = join(root, 'shared')
  await mkdir(shared, { recursive: true })
  await writeFile(join(shared, 'lib.js'), 'shared')
  const checkout = {
    gitignore: true,
    ignore: ['*.log'],
    sharedDirectories: [{ path: '/deps', from: shared, copy: true }],
  }
  const { create, remove, fork } = open({ checkout })
  const path = await create('ignored')
  await writeFile(join(path, 'made'), 'made')
  for (const name of ['.env', 'node_modules/x/index.js', 'src/debug.log']) {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), 'not in the fork')
    await expect(remove(path)).rejects.toMatchObject({ ...refused, details: { path: join(path, name) } })
    expect(await readFile(join(path, name), 'utf8')).toBe('not in the fork')
    await rm(join(path, name))
  }
  await remove(path)
  expect(existsSync(path)).toBe(false)
  expect(await readFile(join(shared, 'lib.js'), 'utf8')).toBe('shared')
  expect(fork().fs.readFileSync('/made', 'utf8')).toBe('made')

  const other = open({ checkout, deleteIgnored: true })
  const deleted = await other.create('deleted')
  await writeFile(join(deleted, '.env'), 'x')
  await other.remove(deleted)
  expect(existsSync(deleted)).toBe(false)
})

test('a name that a sync skips keeps the directory', async () => {
  const { create, remove, fork } = open()
  const path = await create('one')
  const bytes = Buffer.concat([Buffer.from(`${path}/src/n`), Buffer.from([0xff])])
  await writeFile(bytes, 'work')
  await expect(remove(path)).rejects.toMatchObject(refused)
  expect(existsSync(bytes)).toBe(true)
  await rename(bytes, join(path, 'renamed'))
  await symlink(Buffer.from([0xff]), join(path, 'link'))
  await expect(remove(path)).rejects.toMatchObject(refused)
  await rm(join(path, 'link'))
  await remove(path)
  expect(fork().fs.readFileSync('/renamed', 'utf8')).toBe('work')
})

test.skipIf(!hasGit)('commits in a directory keep it', async () => {
  const repository = GitRepository.create(join(root, 'repository'))
  repository.commitFiles([['100644', 'a', '1\n']])
  const { sourceId } = await engine.sources.create({
    displayName: 'repository',
    gitRepository: { path: repository.path },
  })
  const { revisionId } = await engine.sources.waitForJob(await engine.sources.startImport(sourceId, {}))
  session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
  const { create, remove, fork } = open({ checkout: { git: true } })
  await remove(await create('clean'))
  for (const [at, commands] of [
    ['commit', '-qam', 'work'],
    ['branch', 'kept'],
    ['stash', '-q'],
  ].entries()) {
    const path = await create(`tree-${at}`)
    await writeFile(join(path, 'a'), `${at}\n`)
    repository.git(['-C', path, ...commands])
    await expect(remove(path)).rejects.toMatchObject(refused)
    expect(existsSync(join(path, '.git'))).toBe(true)
    await rm(join(path, '.git'), { recursive: true })
    await remove(path)
    expect(existsSync(path)).toBe(false)
  }
  expect(fork(1).fs.readFileSync('/a', 'utf8')).toBe('0\n')
})

test('a name has one directory', async () => {
  const { worktrees, create, remove, fork } = open()
  const results = await Promise.allSettled([create('one'), create('one')])
  expect(results).toMatchObject([{ status: 'fulfilled' }, { reason: { reason: 'ALREADY_EXISTS' } }])
  const path = await create('two')
  await writeFile(join(path, 'work'), 'work')
  await expect(create('two')).rejects.toMatchObject({ reason: 'ALREADY_EXISTS' })
  const other = claudeWorktrees(session, { directory: join(path, '..') })
  const [hook] = other.hooks.WorktreeCreate[0]?.hooks ?? []
  const input = { hook_event_name: 'WorktreeCreate', name: 'two' } as HookInput
  const { signal } = new AbortController()
  await expect(hook?.(input, undefined, { signal })).rejects.toMatchObject(refused)
  expect(await Promise.all([remove(path), remove(path)])).toEqual([{}, {}])
  expect(fork(1).fs.readFileSync('/work', 'utf8')).toBe('work')
  await expect(remove(path)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  await create('two')
  expect((await readdir(path)).toSorted()).toEqual(['a', 'src'])
  await remove(path)
  expect(fork(2).fs.readdirSync('/').toSorted()).toEqual(['a', 'src'])
  expect(worktrees.list.map(({ name, isRemoved }) => [name, isRemoved])).toEqual([
    ['one', false],
    ['two', true],
    ['two', true],
  ])
})

test('a directory that is missing counts as removed, and one that is a symlink stays', async () => {
  const { worktrees, create, remove, fork } = open()
  const [gone, linked] = [await create('gone'), await create('linked')]
  await rm(gone, { recursive: true })
  await remove(gone)
  expect(worktrees.list[0]).toMatchObject({ name: 'gone', isRemoved: true })
  expect(await fork().diff(session).paths()).toEqual({ added: [], modified: [], removed: [] })
  const target = join(root, `target-${count}`)
  await mkdir(target)
  await writeFile(join(target, 'precious'), 'x')
  await rm(linked, { recursive: true })
  await symlink(target, linked)
  await expect(remove(linked)).rejects.toMatchObject(refused)
  expect(await readdir(target)).toEqual(['precious'])
})

test('calls at the same time do not exceed 100 worktrees', async () => {
  const { worktrees, create } = open()
  const results = await Promise.allSettled(Array.from({ length: 105 }, (_, at) => create(`tree-${at}`)))
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(100)
  expect(results.at(-1)).toMatchObject({ reason: { reason: 'TOO_LARGE' } })
  expect(worktrees.list).toHaveLength(100)
})
