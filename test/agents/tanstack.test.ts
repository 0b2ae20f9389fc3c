/** The provider for TanStack AI, in its own loop with a scripted adapter: in memory and on LevelDB. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chat } from '@tanstack/ai'
import {
  defineSandbox,
  defineWorkspace,
  gitSource,
  localSource,
  resolveHarnessCwd,
  watchWorkspace,
  withSandbox,
  type SandboxConfig,
  type SandboxFileEvent,
  type SandboxProvider,
} from '@tanstack/ai-sandbox'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { workspaceSandboxProvider, type ExecFactory } from '../../src/adapters/tanstack/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { fewStores } from '../support/engines-of-both-stores.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { scriptedHarness, type HarnessScript } from '../support/scripted-harness.js'

let directory: string
const engines: Engine[] = []
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tanstack-'))
  const hostPaths = { roots: [directory] }
  engines.push(await openEngine({ hostPaths }))
  const storage = levelStorage(join(directory, 'data'), { durability: 'relaxed' })
  engines.push(await openEngine({ hostPaths, storage }))
})
afterAll(async () => {
  for (const engine of engines) await engine.close()
  await rm(directory, { recursive: true })
})

const exec: ExecFactory = (session) => {
  const shell = workspaceShell(session)
  return (command, options) => shell.exec(command, options)
}
const files = { '/src/a.ts': 'const a = 1\n', '/notes.md': '# Notes\n' }
const empty = defineWorkspace({ source: { type: 'none' } })
let count = 0
/** An id that no earlier test has: the sandboxes of TanStack AI outlive a run. */
const fresh = (): string => `sandbox-${(count += 1)}`

/** Runs one chat in a sandbox, and returns its answer. */
async function run(config: SandboxConfig, threadId: string, script: HarnessScript): Promise<string> {
  return chat({
    adapter: scriptedHarness(script),
    messages: [{ role: 'user', content: 'Go.' }],
    middleware: [withSandbox(defineSandbox(config))],
    stream: false,
    debug: false,
    threadId,
  })
}

const reasonOf = async (call: () => unknown): Promise<string> => {
  try {
    await call()
    return 'none'
  } catch (error) {
    return (error as { readonly reason?: string }).reason ?? String(error)
  }
}

test('the newest 100 snapshots of a sandbox are kept', async () => {
  const [engine] = engines
  if (engine === undefined) throw new Error('no engine')
  const provider = workspaceSandboxProvider(engine)
  const id = fresh()
  const handle = await provider.create({ id })
  const snapshots: string[] = []
  for (let at = 0; at <= 100; at++) snapshots.push((await handle.snapshot?.())?.id ?? '')
  const { sessions } = await engine.sessions.list({ filter: `sandbox=${id}`, pageSize: 1000 })
  expect(sessions.filter(({ tags }) => tags['sandbox-kind'] === 'snapshot').map((one) => one.id)).toEqual(
    snapshots.slice(1),
  )
  await provider.destroy({ id })
  expect((await engine.sessions.list({ filter: `sandbox=${id}` })).sessions).toEqual([])
})

describe.each(fewStores)('the provider for TanStack AI on %s', (_, index) => {
  let engine: Engine
  let provider: SandboxProvider
  beforeEach(() => {
    const found = engines[index]
    if (found === undefined) throw new Error('no engine')
    engine = found
    provider = workspaceSandboxProvider(engine, { exec, from: { files } })
  })
  const sessionOf = async (id: string): Promise<Session> => {
    const { sessions } = await engine.sessions.list({ filter: `sandbox=${id}`, pageSize: 1000 })
    const live = sessions.findLast(({ tags }) => tags['sandbox-kind'] === 'live')
    return engine.sessions.open(live?.id ?? '')
  }

  test('runs of its loop continue in one session, and report its files', async () => {
    const [id, threadId] = [fresh(), fresh()]
    const events: string[] = []
    const config: SandboxConfig = {
      id,
      provider,
      workspace: empty,
      hooks: { onFile: ({ type, path }) => void events.push(`${type} ${path}`) },
    }
    let sandboxId = ''
    const first = await run(config, threadId, async (sandbox) => {
      sandboxId = sandbox.id
      await sandbox.fs.write('/workspace/src/b.ts', 'const b = 2\n')
      await sandbox.fs.write('src/a.ts', 'const a = 3\n')
      await sandbox.fs.remove('/notes.md')
      const { stdout } = await sandbox.process.exec('cat src/*.ts', { cwd: '/workspace' })
      await expect
        .poll(() => events.toSorted())
        .toEqual(['change /workspace/src/a.ts', 'create /workspace/src/b.ts', 'delete /workspace/notes.md'])
      return stdout
    })
    expect(first).toBe('const a = 3\nconst b = 2\n')
    const second = await run(config, threadId, async (sandbox) => {
      expect(sandbox.id).toBe(sandboxId)
      return sandbox.fs.read('/workspace/src/b.ts')
    })
    expect(second).toBe('const b = 2\n')
    const session = await sessionOf(sandboxId)
    const { events: logged } = await session.events.list({ pageSize: 100 })
    expect(logged.filter(({ eventType }) => eventType.startsWith('v1.FileSystemService.'))).toHaveLength(3)

    // The session was deleted. The next run continues from the snapshot that the first one took after its setup.
    await session.delete()
    const third = await run(config, threadId, async (sandbox) => {
      expect(sandbox.id).toBe(sandboxId)
      return sandbox.fs.read('/workspace/src/a.ts')
    })
    expect(third).toBe('const a = 1\n')

    await defineSandbox(config).destroy({ threadId, runId: 'run' })
    expect((await engine.sessions.list({ filter: `sandbox=${sandboxId}` })).sessions).toEqual([])
  })

  test('a workspace with instructions, files, variables and setup is built', async () => {
    const workspace = defineWorkspace({
      source: { type: 'none' },
      instructions: 'Be brief.',
      skills: [{ kind: 'file', path: 'docs/style.md', content: 'Tabs.\n' }],
      setup: ['mkdir -p made', 'echo "$GREETING" > made/greeting'],
    })
    const answer = await run({ id: fresh(), provider, workspace }, fresh(), async (sandbox) => {
      await sandbox.env.set({ GREETING: 'hello' })
      const { stdout } = await sandbox.process.exec(
        'cat AGENTS.md docs/style.md; readlink CLAUDE.md; echo $GREETING',
      )
      return stdout
    })
    expect(answer).toBe('Be brief.Tabs.\nAGENTS.md\nhello\n')
  })

  test('a directory of the host can be the source', async () => {
    const path = join(directory, `local-${index}`)
    await mkdir(path, { recursive: true })
    await writeFile(join(path, 'a.txt'), 'of the host')
    const config = { id: fresh(), provider, workspace: defineWorkspace({ source: localSource(path) }) }
    expect(await run(config, fresh(), (sandbox) => sandbox.fs.read('/workspace/a.txt'))).toBe('of the host')
    const outside = { ...config, id: fresh(), workspace: defineWorkspace({ source: localSource('/etc') }) }
    await expect(run(outside, fresh(), async () => '')).rejects.toThrow(/hostPaths/)
  })

  test.skipIf(!hasGit)('clones, shows, and commits a repository', async () => {
    const path = join(directory, `repository-${index}.git`)
    const repository = GitRepository.create(path)
    repository.commitFiles([
      ['100644', 'a.txt', 'one\n'],
      ['100644', 'b.txt', 'two\n'],
    ])
    const config: SandboxConfig = {
      id: fresh(),
      provider: workspaceSandboxProvider(engine, { branch: 'work' }),
      workspace: defineWorkspace({ source: gitSource({ url: path, ref: 'main' }) }),
    }
    await run(config, fresh(), async ({ fs, git }) => {
      expect(await git.status()).toBe('')
      expect(await git.branch()).toBe('work')
      await fs.write('a.txt', 'changed\n')
      await fs.write('new file.txt', 'new\n')
      await fs.remove('b.txt')
      expect(await git.status('/workspace')).toBe(' M a.txt\n D b.txt\n?? "new file.txt"\n')
      expect(await reasonOf(() => git.add(['a.txt', 'b.txt']))).toBe('INVALID_ARGUMENT')
      await git.add(['.'])
      await git.commit('First')
      expect(await git.status()).toBe('')
      await fs.write('a.txt', 'again\n')
      await git.commit('Second')
      await git.push()
      expect(await reasonOf(() => git.pull())).toBe('NO_ADAPTER')
      for (const request of [
        { url: path },
        { url: path, dir: '/workspace/skills' },
        { url: path, auth: { token: 'secret' } },
        { url: path, depth: 'full' },
        { url: '' },
        { url: 'x'.repeat(5000) },
        null,
      ])
        expect(['INVALID_ARGUMENT', 'DIRECTORY_NOT_EMPTY']).toContain(
          await reasonOf(() => git.clone(request as never)),
        )
      return 'done'
    })
    expect(repository.git(['log', '--format=%s', 'work'])).toMatch(/^Second\nFirst\n/)
    expect(repository.git(['ls-tree', '--name-only', 'work'])).toBe('a.txt\nnew file.txt')
    expect(repository.git(['show', 'work:a.txt'])).toBe('again')
  })

  test.skipIf(!hasGit)(
    'a clone that fails leaves the sandbox, and a failed setup leaves no session',
    async () => {
      const id = fresh()
      const handle = await workspaceSandboxProvider(engine).create({ id })
      await expect(handle.git.clone({ url: join(directory, 'none.git') })).rejects.toMatchObject({
        reason: expect.stringMatching(/^(IMPORT_FAILED|GIT_|HOST_)/),
      })
      await handle.fs.write('a', 'a')
      expect(await handle.fs.read('a')).toBe('a')
      const config: SandboxConfig = {
        id: fresh(),
        provider,
        workspace: defineWorkspace({ source: { type: 'none' }, setup: ['exit 3'] }),
      }
      const before = (await engine.sessions.list({ pageSize: 1000 })).sessions.length
      await expect(run(config, fresh(), async () => '')).rejects.toThrow('setup step failed: exit 3')
      expect((await engine.sessions.list({ pageSize: 1000 })).sessions).toHaveLength(before)
    },
  )

  test('files are read, listed, moved, removed and watched', async () => {
    const { fs, process } = await provider.create({ id: fresh() })
    await fs.write('/workspace/bin/data', new Uint8Array([0, 255, 1]))
    expect([...(await fs.readBytes('bin/data'))]).toEqual([0, 255, 1])
    await fs.mkdir('/workspace/deep/er')
    await fs.mkdir('/workspace/deep/er')
    await fs.mkdir('/workspace')
    await process.exec('ln -s src link && ln -s gone broken')
    expect(await fs.list('/workspace')).toEqual([
      { name: 'bin', path: '/workspace/bin', type: 'dir' },
      { name: 'broken', path: '/workspace/broken', type: 'file' },
      { name: 'deep', path: '/workspace/deep', type: 'dir' },
      { name: 'link', path: '/workspace/link', type: 'dir' },
      { name: 'notes.md', path: '/workspace/notes.md', type: 'file' },
      { name: 'src', path: '/workspace/src', type: 'dir' },
    ])
    expect(await fs.list('/src')).toEqual([{ name: 'a.ts', path: '/src/a.ts', type: 'file' }])
    await fs.rename('notes.md', 'src/notes.md')
    await fs.remove('/workspace/deep')
    await fs.remove('/workspace/deep')
    expect(
      await Promise.all(['src/notes.md', '/workspace', 'deep', 'src/a.ts/x'].map((path) => fs.exists(path))),
    ).toEqual([true, true, false, false])
    const seen: string[] = []
    const watch = await fs.watch?.('/workspace/src', ({ type, path }) => void seen.push(`${type} ${path}`))
    await fs.write('elsewhere', 'x')
    await fs.write('src/c.ts', 'x')
    await expect.poll(() => seen).toEqual(['create /workspace/src/c.ts'])
    await watch?.stop()
    await fs.write('src/d.ts', 'x')
    expect(seen).toHaveLength(1)
  })

  test('the watcher of TanStack AI ends with its signal', async () => {
    const handle = await provider.create({ id: fresh() })
    const stop = new AbortController()
    const events: SandboxFileEvent[] = []
    const watch = await watchWorkspace(handle, {
      onEvent: (event) => void events.push(event),
      signal: stop.signal,
    })
    await handle.fs.write('one', '1')
    await expect.poll(() => events.map(({ path }) => path)).toEqual(['/workspace/one'])
    stop.abort()
    await watch.stop()
    await handle.destroy()
  })

  test('forks and snapshots are separate, and a snapshot outlives its sandbox', async () => {
    const id = fresh()
    const handle = await provider.create({ id, env: { NAME: 'ann' } })
    const snapshot = await handle.snapshot?.('before')
    expect(snapshot).toEqual({ id: expect.any(String), label: 'before' })
    const fork = await handle.fork?.()
    await fork?.fs.write('notes.md', 'of the fork')
    expect((await fork?.process.exec('echo $NAME'))?.stdout).toBe('ann\n')
    await handle.fs.write('notes.md', 'later')
    expect(await fork?.fs.read('notes.md')).toBe('of the fork')
    expect(await (await provider.resume({ id: fork?.id ?? '' }))?.fs.read('notes.md')).toBe('of the fork')
    expect(await (await provider.resume({ id }))?.fs.read('notes.md')).toBe('later')
    await handle.destroy()
    await handle.destroy()
    expect(await provider.resume({ id })).toBeNull()
    const restored = await provider.restoreSnapshot?.({
      snapshotId: snapshot?.id ?? '',
      env: { NAME: 'bob' },
    })
    expect(restored?.id).toBe(id)
    expect(await restored?.fs.read('notes.md')).toBe('# Notes\n')
    expect((await restored?.process.exec('echo $NAME'))?.stdout).toBe('bob\n')

    // A second provider, as of a later process, finds the sandbox, but not its variables.
    const later = await workspaceSandboxProvider(engine, { exec }).resume({ id })
    expect((await later?.process.exec('cat notes.md; echo "[$NAME]"'))?.stdout).toBe('# Notes\n[]\n')
    await provider.destroy({ id })
    await provider.destroy({ id })
    expect(await reasonOf(() => provider.restoreSnapshot?.({ snapshotId: snapshot?.id ?? '' }))).toBe(
      'SESSION_NOT_FOUND',
    )
    expect(await fork?.fs.exists('notes.md')).toBe(true)
  })

  test('commands run with variables and signals, and spawned ones can be killed', async () => {
    const handle = await provider.create({ id: fresh(), env: { A: '1', B: '2' } })
    const { stdout } = await handle.process.exec('echo $A $B $(pwd)', {
      cwd: '/workspace/src',
      env: { B: '3' },
    })
    expect(stdout).toBe('1 3 /src\n')
    expect(await handle.process.exec('echo out; echo err >&2; exit 4')).toEqual({
      stdout: 'out\n',
      stderr: 'err\n',
      exitCode: 4,
    })
    const spawned = await handle.process.spawn('echo one; echo two')
    let text = ''
    for await (const chunk of spawned.stdout) text += chunk
    expect([text, await spawned.wait()]).toEqual(['one\ntwo\n', 0])
    await spawned.stdin.end()
    expect(await reasonOf(() => spawned.stdin.write('x'))).toBe('NO_ADAPTER')
    const slow = await handle.process.spawn('sleep 30; echo late > late')
    await slow.kill('SIGKILL')
    expect(await slow.wait()).toBe(137)
    const aborted = new Error('stopped')
    const stop = new AbortController()
    const waiting = handle.process.exec('sleep 30; echo late > late', { signal: stop.signal })
    stop.abort(aborted)
    await expect(waiting).rejects.toBe(aborted)
    await expect(handle.process.exec('ls', { signal: AbortSignal.abort(aborted) })).rejects.toBe(aborted)
    expect(await handle.fs.exists('late')).toBe(false)
    for (const call of ['create', 'resume', 'destroy'] as const)
      await expect(provider[call]({ id: fresh(), signal: AbortSignal.abort(aborted) })).rejects.toBe(aborted)
  })

  test('what a session cannot do is refused, and the capabilities say so', async () => {
    const plain = workspaceSandboxProvider(engine)
    expect(plain.capabilities()).toMatchObject({
      fs: true,
      exec: false,
      ports: false,
      backgroundProcesses: false,
    })
    expect(provider.capabilities()).toMatchObject({
      exec: true,
      writableStdin: false,
      snapshots: true,
      fork: true,
    })
    const handle = await plain.create({ id: fresh() })
    expect(await reasonOf(() => handle.process.exec('ls'))).toBe('NO_ADAPTER')
    expect(await reasonOf(() => handle.process.spawn('ls'))).toBe('NO_ADAPTER')
    expect(await reasonOf(() => handle.ports.connect(3000))).toBe('NO_ADAPTER')
    expect(await reasonOf(() => handle.git.push())).toBe('NO_ADAPTER')
    expect(await reasonOf(() => handle.git.pull())).toBe('NO_ADAPTER')
    // Its loop works without commands.
    const answer = await run({ id: fresh(), provider: plain, workspace: empty }, fresh(), async ({ fs }) => {
      await fs.write('a', 'b')
      return fs.read('/workspace/a')
    })
    expect(answer).toBe('b')
  })

  test.skipIf(!hasGit)(
    'a clone keeps files that are written meanwhile, and other handles follow it',
    async () => {
      const url = join(directory, `cloned-${index}.git`)
      GitRepository.create(url).commitFiles([['100644', 'a.txt', 'one\n']])
      const plain = workspaceSandboxProvider(engine)
      const count = async () => (await engine.sessions.list({ pageSize: 1000 })).sessions.length
      const before = await count()
      let cloned = 0
      for (let delay = 0; delay < 8; delay++) {
        const handle = await plain.create({ id: fresh() })
        const cloning = reasonOf(() => handle.git.clone({ url }))
        await new Promise((resolve) => setTimeout(resolve, delay))
        await handle.fs.write('mine', 'x')
        const reason = await cloning
        expect(['none', 'DIRECTORY_NOT_EMPTY']).toContain(reason)
        if (reason === 'none') cloned += 1
        expect(await handle.fs.read('mine')).toBe('x')
        expect(await handle.fs.exists('a.txt')).toBe(reason === 'none')
        await plain.destroy({ id: handle.id })
      }
      expect(cloned).toBeLessThan(8)
      expect(await count()).toBe(before)
      const handle = await plain.create({ id: fresh() })
      const other = await plain.resume({ id: handle.id })
      const both = await Promise.all([1, 2].map(() => reasonOf(() => handle.git.clone({ url }))))
      expect(both).toEqual(['none', 'DIRECTORY_NOT_EMPTY'])
      expect(await other?.fs.read('a.txt')).toBe('one\n')
      await other?.fs.write('a.txt', 'two\n')
      await other?.git.commit('First')
      await handle.fs.write('a.txt', 'three\n')
      const commits = await Promise.all(
        ['Second', 'Third'].map((text) => reasonOf(() => handle.git.commit(text))),
      )
      expect(commits[0]).toBe('none')
      expect(commits).not.toContain('CHECKPOINT_NOT_FOUND')
      expect(await handle.git.status()).toBe('')
      expect(await count()).toBe(before + 1)
      await plain.destroy({ id: handle.id })
    },
  )

  test.skipIf(!hasGit)('no acknowledged write is lost to a clone', async () => {
    const url = join(directory, `raced-${index}.git`)
    GitRepository.create(url).commitFiles([['100644', 'a.txt', 'one\n']])
    const handle = await workspaceSandboxProvider(engine, { exec }).create({ id: fresh() })
    let isOver = false
    const cloning = reasonOf(() => handle.git.clone({ url })).finally(() => (isOver = true))
    await engine.sources.list()
    const written: string[] = []
    const write = async (at: number): Promise<void> => {
      for (let next = at; !isOver && next < 500; next += 10) {
        await handle.fs.write(`/mine/${next}`, 'x')
        await handle.fs.rename(`/mine/${next}`, `/kept/${next}`).catch(() => handle.fs.mkdir('/kept'))
        if (await handle.fs.exists(`/kept/${next}`)) written.push(`/kept/${next}`)
        else written.push(`/mine/${next}`)
      }
    }
    await Promise.all([cloning, ...Array.from({ length: 10 }, (_, at) => write(at))])
    for (const path of written) expect(await handle.fs.exists(path)).toBe(true)

    // A command can last, and can change files at its end.
    const other = await workspaceSandboxProvider(engine, { exec }).create({ id: fresh() })
    const command = other.process.exec('sleep 1; echo late > late')
    expect(await reasonOf(() => other.git.clone({ url }))).toBe('WOULD_BLOCK')
    await command
    expect(await other.fs.read('late')).toBe('late\n')
  })

  test.skipIf(!hasGit)('a fork and a snapshot have the last commit, and the changes since then', async () => {
    const url = join(directory, `forked-${index}.git`)
    GitRepository.create(url).commitFiles([['100644', 'a.txt', 'one\n']])
    const plain = workspaceSandboxProvider(engine)
    const handle = await plain.create({ id: fresh() })
    await handle.git.clone({ url })
    expect(await (await handle.fork?.())?.git.status()).toBe('')
    await handle.fs.write('b.txt', 'two\n')
    await handle.git.commit('First')
    const clean = await handle.fork?.()
    expect(await clean?.git.status()).toBe('')
    await clean?.git.add([])
    await handle.fs.write('a.txt', 'changed\n')
    await handle.fs.mkdir('empty')
    const snapshot = await handle.snapshot?.()
    const restored = await plain.restoreSnapshot?.({ snapshotId: snapshot?.id ?? '' })
    const twice = await (await handle.fork?.())?.fork?.()
    for (const one of [restored, twice]) {
      expect(await one?.git.status()).toBe(' M a.txt\n')
      expect(await one?.fs.exists('empty')).toBe(true)
    }
    await twice?.git.commit('Second')
    expect(await twice?.git.status()).toBe('')
    expect(await handle.git.status()).toBe(' M a.txt\n')
  })

  test.skipIf(!hasGit)('an imported source is deleted when no sandbox and no snapshot is on it', async () => {
    const ids = async () => (await engine.sources.list()).sources.map(({ sourceId }) => sourceId)
    const own = await engine.sources.create({ displayName: 'of the program', uploadedSnapshot: {} })
    const before = await ids()
    const url = join(directory, `source-${index}.git`)
    GitRepository.create(url).commitFiles([['100644', 'a.txt', 'one\n']])
    const plain = workspaceSandboxProvider(engine)
    expect(await reasonOf(async () => (await plain.create({})).git.clone({ url: `${url}.none` }))).not.toBe(
      'none',
    )
    expect(await ids()).toEqual(before)
    const open = async (id: string) => {
      const handle = await plain.create({ id })
      await handle.git.clone({ url })
      return handle
    }
    const [one, two] = [await open(fresh()), await open(fresh())]
    expect(await ids()).toHaveLength(before.length + 1)
    const snapshot = await two.snapshot?.()
    const fork = await two.fork?.()
    await plain.destroy({ id: one.id })
    await two.destroy()
    await fork?.destroy()
    expect(await ids()).toHaveLength(before.length + 1)
    const restored = await plain.restoreSnapshot?.({ snapshotId: snapshot?.id ?? '' })
    expect(await restored?.fs.read('a.txt')).toBe('one\n')
    await plain.destroy({ id: two.id })
    expect(await ids()).toEqual(before)
    expect(before).toContain(own.sourceId)
    await (await open(fresh())).destroy()
    // Imports that begin while the source goes have a source of their own.
    const many = await Promise.all(Array.from({ length: 5 }, () => open(fresh())))
    await Promise.all([
      ...many.map((handle) => handle.destroy()),
      open('last').then((last) => last.destroy()),
    ])
    expect(await ids()).toEqual(before)
  })

  test('a command sees the root of the session as /, where the framework sends it', async () => {
    const handle = await provider.create({ id: fresh() })
    const cwd = resolveHarnessCwd(handle, '/workspace/src')
    expect([cwd, handle.workspaceRoot]).toEqual(['/src', '/'])
    for (const given of [cwd, '/workspace/src', 'src'])
      expect((await handle.process.exec('pwd', { cwd: given })).stdout).toBe('/src\n')
  })

  test('too many variables create no session', async () => {
    const env = Object.fromEntries(Array.from({ length: 1001 }, (__, at) => [`V${at}`, 'x']))
    const id = fresh()
    expect(await reasonOf(() => provider.create({ id, env }))).toBe('TOO_LARGE')
    expect(await provider.resume({ id })).toBeNull()
    const handle = await provider.create({ id, env: { A: '1' } })
    const snapshotId = (await handle.snapshot?.())?.id ?? ''
    await handle.destroy()
    const { V0: _, ...fewer } = env
    for (const more of [env, fewer])
      expect(await reasonOf(() => provider.restoreSnapshot?.({ snapshotId, env: more }))).toBe('TOO_LARGE')
    expect(await provider.resume({ id })).toBeNull()
  })

  test('a loop of symlinks is listed, and does not exist', async () => {
    const { fs, process } = await provider.create({ id: fresh() })
    await process.exec('ln -s loop loop')
    expect((await fs.list('/')).map(({ name, type }) => `${name} ${type}`)).toEqual([
      'loop file',
      'notes.md file',
      'src dir',
    ])
    expect(await fs.exists('loop')).toBe(false)
    await fs.remove('loop')
    expect((await fs.list('/')).map(({ name }) => name)).toEqual(['notes.md', 'src'])
  })

  test('a sandbox that was created twice is gone after its destruction', async () => {
    const id = fresh()
    await provider.create({ id })
    const second = await provider.create({ id })
    const snapshot = await second.snapshot?.()
    await second.destroy()
    expect(await provider.resume({ id })).toBeNull()
    expect(await provider.restoreSnapshot?.({ snapshotId: snapshot?.id ?? '' })).toMatchObject({ id })
  })

  test('a result of exec that is none is refused', async () => {
    for (const outcome of [undefined, null, 'x', { exitCode: 0 }, { stdout: '', stderr: '' }]) {
      const { process } = await workspaceSandboxProvider(engine, {
        exec: () => async () => outcome as never,
      }).create({
        id: fresh(),
      })
      expect(await reasonOf(() => process.exec('ls'))).toBe('INVALID_ARGUMENT')
    }
  })

  test('a narrowed engine refuses what its caller may not do', async () => {
    const id = fresh()
    await provider.create({ id })
    const reader = workspaceSandboxProvider(engine.narrow({ without: ['files.write'] }), { exec })
    const handle = await reader.resume({ id })
    expect(await handle?.fs.read('notes.md')).toBe('# Notes\n')
    expect(await reasonOf(() => handle?.fs.write('notes.md', 'x'))).toBe('PERMISSION_DENIED')
    expect(await reasonOf(() => handle?.process.exec('echo x > notes.md'))).toBe('PERMISSION_DENIED')
    expect(await (await sessionOf(id)).fs.promises.readFile('/notes.md', 'utf8')).toBe('# Notes\n')
    const other = workspaceSandboxProvider(engine.as({ tenant: 'other' }), { exec })
    expect(await other.resume({ id })).toBeNull()
  })

  test('hostile arguments are refused, and change nothing', async () => {
    const id = fresh()
    const handle = await provider.create({ id })
    const session = await sessionOf(id)
    const before = (await session.manifest()).manifestHash
    const count = (await engine.sessions.list({ pageSize: 1000 })).sessions.length
    const { fs, git, process, env } = handle as unknown as Loose
    const huge = 'x'.repeat(5000)
    const polluted = JSON.parse('{"__proto__":"x"}') as unknown
    for (const path of [undefined, null, 5, '', {}, ['a'], 'a\0b', huge, `/${huge}`])
      for (const call of [
        () => fs['read']?.(path),
        () => fs['readBytes']?.(path),
        () => fs['write']?.(path, 'x'),
        () => fs['list']?.(path),
        () => fs['mkdir']?.(path),
        () => fs['remove']?.(path),
        () => fs['rename']?.(path, 'b'),
        () => fs['rename']?.('notes.md', path),
        () => fs['watch']?.(path, null),
        () => process['exec']?.('ls', { cwd: path ?? 5 }),
      ])
        expect(await reasonOf(call), JSON.stringify(path)).toMatch(
          /^(INVALID_ARGUMENT|NAME_TOO_LONG|PATH_NOT_FOUND)$/,
        )
    const calls: [call: () => unknown, reason: RegExp][] = [
      [() => fs['read']?.('../../../etc/passwd'), /^PATH_NOT_FOUND$/],
      [() => fs['read']?.('src'), /^IS_A_DIRECTORY$/],
      [() => fs['write']?.('src', 'x'), /^IS_A_DIRECTORY$/],
      [() => fs['write']?.('a', 5), /^INVALID_ARGUMENT$/],
      [() => fs['write']?.('a', { length: 3 }), /^INVALID_ARGUMENT$/],
      [() => fs['remove']?.('/workspace'), /^INVALID_ARGUMENT$/],
      [() => fs['remove']?.('/'), /^INVALID_ARGUMENT$/],
      [() => fs['watch']?.('/workspace', 'x'), /^INVALID_ARGUMENT$/],
      [() => fs['rename']?.('none', 'b'), /^PATH_NOT_FOUND$/],
      [() => process['exec']?.(5), /^INVALID_ARGUMENT$/],
      [() => process['exec']?.('ls', { shell: true }), /^INVALID_ARGUMENT$/],
      [() => process['exec']?.('ls', { env: { 'a b': 'x' } }), /^INVALID_ARGUMENT$/],
      [() => process['exec']?.('ls', { env: { A: 5 } }), /^INVALID_ARGUMENT$/],
      [() => process['exec']?.('ls', { signal: 'now' }), /^INVALID_ARGUMENT$/],
      [() => process['spawn']?.(null), /^INVALID_ARGUMENT$/],
      [() => env['set']?.(null), /^INVALID_ARGUMENT$/],
      [() => env['set']?.(polluted), /^INVALID_ARGUMENT$/],
      [() => env['set']?.({ A: 'a\0b' }), /^INVALID_ARGUMENT$/],
      [() => env['set']?.({ A: 'x'.repeat(2_000_000) }), /^TOO_LARGE$/],
      [
        () => env['set']?.(Object.fromEntries(Array.from({ length: 2000 }, (__, at) => [`A${at}`, '']))),
        /^TOO_LARGE$/,
      ],
      [() => git['status']?.('/workspace/src'), /^INVALID_ARGUMENT$/],
      [() => git['add']?.('.'), /^INVALID_ARGUMENT$/],
      [() => git['commit']?.(5), /^INVALID_ARGUMENT$/],
      [() => git['commit']?.(''), /^INVALID_ARGUMENT$/],
      [() => git['clone']?.(), /^INVALID_ARGUMENT$/],
      [() => (handle as unknown as { snapshot: Call }).snapshot(5), /^INVALID_ARGUMENT$/],
      [() => provider.create({ id: '' }), /^INVALID_ARGUMENT$/],
      [() => provider.create({ id: 'a\nb' }), /^INVALID_ARGUMENT$/],
      [() => provider.create({ id: huge }), /^INVALID_ARGUMENT$/],
      [() => provider.create({ id: 'a', env: { A: 5 } } as never), /^INVALID_ARGUMENT$/],
      [() => provider.create({ id: 'a', image: 'node' } as never), /^INVALID_ARGUMENT$/],
      [() => provider.create(null as never), /^INVALID_ARGUMENT$/],
      [() => provider.resume({ id: 5 } as never), /^INVALID_ARGUMENT$/],
      [() => provider.destroy({} as never), /^INVALID_ARGUMENT$/],
      [() => provider.restoreSnapshot?.({ snapshotId: session.id }), /^SESSION_NOT_FOUND$/],
      [() => provider.restoreSnapshot?.({ snapshotId: 'none' }), /^SESSION_NOT_FOUND$/],
    ]
    for (const [call, reason] of calls) expect(await reasonOf(call), String(call)).toMatch(reason)
    expect((await session.manifest()).manifestHash).toBe(before)
    expect((await engine.sessions.list({ pageSize: 1000 })).sessions).toHaveLength(count)
    expect(await fs['exists']?.('../../../etc/passwd')).toBe(false)
    for (const options of [
      { exec: 'sh' },
      { from: { files, image: 'x' } },
      { branch: '' },
      { shell: true },
      null,
    ])
      expect(await reasonOf(() => workspaceSandboxProvider(engine, options as never))).toBe(
        'INVALID_ARGUMENT',
      )
    for (const none of [undefined, null, {}, 'engine'])
      expect(await reasonOf(() => workspaceSandboxProvider(none as never))).toBe('INVALID_ARGUMENT')
  })
})

type Call = (...args: unknown[]) => unknown

/** A handle whose calls take anything, as from JavaScript. */
type Loose = Readonly<Record<'fs' | 'git' | 'process' | 'env', Readonly<Record<string, Call>>>>
