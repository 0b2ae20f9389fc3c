/** The adapter for Mastra, in the loop of its own agents with a scripted model: in memory and on LevelDB. */
import { Agent, type AgentConfig } from '@mastra/core/agent'
import {
  DirectoryNotEmptyError,
  DirectoryNotFoundError,
  FileExistsError,
  FileNotFoundError,
  IsDirectoryError,
  NotDirectoryError,
  PermissionError,
  SandboxAbortError,
  SandboxNotReadyError,
  SandboxTimeoutError,
  StaleFileError,
  UnsupportedGrepPatternError,
  Workspace,
  WorkspaceReadOnlyError,
} from '@mastra/core/workspace'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import {
  sessionFilesystem,
  sessionSandbox,
  sessionToolHooks,
  sessionTurns,
  type SessionFilesystem,
} from '../../src/adapters/mastra/index.js'
import { openEngine, type Engine, type Session, type SessionApi } from '../../src/index.js'
import { fewStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'
import { openRemote } from '../support/remote.js'
import { scriptedSdkModel, type ScriptedStep } from '../support/scripted-sdk-model.js'

let both: BothEngines
let engines: readonly Engine[]
beforeAll(async () => {
  vi.stubEnv('MASTRA_TELEMETRY_DISABLED', '1')
  both = await openBothEngines()
  engines = both.engines
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await both.close()
})

const files = { '/src/a.ts': 'const a = 1\nconst b = 2\n', '/notes.md': '# Notes\n' }
const textOf = async (session: SessionApi, path: string): Promise<string> =>
  Buffer.from(await session.files.read({ path })).toString()
const hashOf = async (session: SessionApi): Promise<string> => (await session.manifest()).manifestHash
const bash = (session: SessionApi) => {
  const shell = workspaceShell(session as Session)
  return (command: string, options: object) => shell.exec(command, options)
}

describe.each(fewStores)('Mastra on %s', (_, index) => {
  let session: Session
  beforeEach(async () => {
    session = await engines[index]!.sessions.create({ files })
    vi.stubGlobal('fetch', () => {
      throw new Error('no test may use the network')
    })
  })
  afterEach(() => vi.unstubAllGlobals())

  const callIds = async (): Promise<unknown[]> => {
    const { events } = await session.events.list({ pageSize: 1000 })
    return events
      .slice(1)
      .map(({ details }) => (details['metadata'] as { callId?: string } | undefined)?.callId)
  }
  const agentOn = (
    workspace: Workspace,
    steps: readonly ScriptedStep[],
    more: Partial<AgentConfig> = {},
  ): Agent => {
    // Mastra declares its own type of a model. At run time, it takes those of the AI SDK.
    const model = scriptedSdkModel(steps) as unknown as AgentConfig['model']
    return new Agent({ id: 'editor', name: 'editor', instructions: 'Edit.', model, workspace, ...more })
  }

  test('its loop lists, reads, edits, greps, runs a command and deletes; undo takes the turn back', async () => {
    const shell = workspaceShell(session)
    const turn = 'turn 1'
    const workspace = new Workspace({
      filesystem: sessionFilesystem(session, { turn, metadata: { agent: 'ann' } }),
      sandbox: sessionSandbox(session, {
        exec: () => (command, options) => shell.exec(command, { ...options, turn }),
      }),
      tools: { hooks: sessionToolHooks() },
    })
    const seen: string[] = []
    const step =
      (id: string, tool: string, input: object): ScriptedStep =>
      (last) => {
        if (last !== '') seen.push(last.replace(/^text: /, ''))
        return [{ id, name: `mastra_workspace_${tool}`, input }]
      }
    const agent = agentOn(workspace, [
      step('c1', 'list_files', { path: './' }),
      step('c2', 'read_file', { path: 'src/a.ts' }),
      step('c3', 'edit_file', { path: '/src/a.ts', old_string: 'a = 1', new_string: 'a = 10' }),
      step('c4', 'grep', { pattern: 'a = \\d+' }),
      step('c5', 'write_file', { path: 'docs/new.md', content: 'new\n' }),
      step('c6', 'execute_command', { command: 'wc -l < src/a.ts | tee count; exit 3' }),
      step('c7', 'mkdir', { path: 'docs/empty' }),
      step('c8', 'file_stat', { path: 'none' }),
      step('c9', 'delete', { path: 'docs', recursive: true }),
      (last) => {
        seen.push(last.replace(/^text: /, ''))
        return 'done'
      },
    ])
    const before = await hashOf(session)
    const { text } = await agent.generate('Improve the files.', { maxSteps: 20 })
    expect(text).toBe('done')
    expect(seen[0]).toContain('notes.md')
    expect(seen[1]).toContain('/src/a.ts (24 bytes)\n     1→const a = 1\n     2→const b = 2')
    expect(seen[2]).toBe('Replaced 1 occurrence in /src/a.ts (lines 1)')
    expect(seen[3]).toMatch(/src\/a\.ts:1:7: const a = 10/)
    expect(seen[4]).toBe('Wrote 4 bytes to docs/new.md')
    expect(seen[5]).toBe('2\n\nExit code: 3')
    expect(seen[7]).toBe('none: not found')
    expect(await callIds()).toEqual(['c3', 'c5', 'c6', 'c7', 'c9'])
    const { events } = await session.events.list({ pageSize: 1000 })
    expect(events[1]?.details['metadata']).toEqual({ agent: 'ann', callId: 'c3' })
    expect((await session.undo({ by: 'group' })).count).toBe(5)
    expect(await hashOf(session)).toBe(before)
  })

  test('each turn is a checkpoint and a group, and a rewind of the conversation rewinds its files', async () => {
    const turns = sessionTurns(session)
    const workspace = new Workspace({
      filesystem: sessionFilesystem(session),
      sandbox: sessionSandbox(session, { exec: bash }),
      tools: { hooks: sessionToolHooks({ turns }) },
    })
    const write = (id: string, content: string) => ({
      id,
      name: 'mastra_workspace_write_file',
      input: { path: 'state', content },
    })
    const agent = agentOn(
      workspace,
      [
        () => [write('c1', 'of turn 1')],
        () => 'done',
        () => [{ id: 'c2', name: 'mastra_workspace_execute_command', input: { command: 'rm notes.md' } }],
        () => [write('c3', 'of turn 2')],
        () => 'done',
      ],
      { inputProcessors: [turns.processor] },
    )
    const send = async (id: string, content: string) =>
      agent.generate([{ role: 'user', id, content }], { maxSteps: 5 })
    const before = await hashOf(session)
    await send('m1', 'First.')
    const first = await hashOf(session)
    await send('m2', 'Second.')
    const { events } = await session.events.list({ pageSize: 1000 })
    expect(events.flatMap(({ details }) => details['group'] ?? [])).toEqual(['m1', 'm2', 'm2'])
    expect(session.fs.existsSync('/notes.md')).toBe(false)

    // Another process finds the checkpoints.
    const changes = { canRewind: true, filesChanged: ['/notes.md', '/state'], insertions: 2, deletions: 1 }
    expect(await sessionTurns(session).rewindFiles('m2', { dryRun: true })).toEqual(changes)
    expect(await sessionTurns(session).rewindFiles('m2')).toEqual(changes)
    expect(await hashOf(session)).toBe(first)
    await turns.rewindFiles('m1')
    expect(await hashOf(session)).toBe(before)
    expect(await turns.rewindFiles('m3')).toMatchObject({ canRewind: false })
  })

  test('runs at the same time have their own turns', async () => {
    const turns = sessionTurns(session)
    const workspace = new Workspace({
      filesystem: sessionFilesystem(session),
      tools: { hooks: sessionToolHooks({ turns }) },
    })
    const run = async (at: number): Promise<void> => {
      const steps: ScriptedStep[] = [
        () => [{ id: `c${at}`, name: 'mastra_workspace_write_file', input: { path: `${at}`, content: 'x' } }],
        () => 'done',
      ]
      const agent = agentOn(workspace, steps, { inputProcessors: [turns.processor] })
      await agent.generate([{ role: 'user', id: `m${at}`, content: 'Write.' }], { maxSteps: 5 })
    }
    await Promise.all([run(1), run(2)])
    const { events } = await session.events.list({ pageSize: 1000 })
    const marks = events.flatMap(({ details }): [unknown, unknown][] =>
      details['group'] === undefined ? [] : [[details['group'], details['metadata']]],
    )
    expect(new Map(marks)).toEqual(
      new Map([
        ['m1', { callId: 'c1' }],
        ['m2', { callId: 'c2' }],
      ]),
    )
  })

  test('a write of a version that another one changed is refused, and works after it was read again', async () => {
    const workspace = new Workspace({
      filesystem: sessionFilesystem(session),
      tools: { hooks: sessionToolHooks() },
    })
    const read = (id: string) => [{ id, name: 'mastra_workspace_read_file', input: { path: 'notes.md' } }]
    const write = (id: string) => [
      { id, name: 'mastra_workspace_write_file', input: { path: 'notes.md', content: 'mine\n' } },
    ]
    let refused = ''
    const agent = agentOn(workspace, [
      () => read('c1'),
      () => {
        session.fs.writeFileSync('/notes.md', 'other\n')
        return write('c2')
      },
      (last) => {
        refused = last
        return read('c3')
      },
      () => write('c4'),
      () => 'done',
    ])
    await agent.generate('Write.', { maxSteps: 10 })
    expect(refused).toMatch(/was modified|stale|expected mtime/i)
    expect(await textOf(session, '/notes.md')).toBe('mine\n')
    expect(await callIds()).toEqual([undefined, 'c4'])
  })

  test('an abort of the agent ends its command, and the session stays as it was', async () => {
    const before = await hashOf(session)
    const stop = new AbortController()
    let reason: unknown
    const shell = workspaceShell(session)
    const sandbox = sessionSandbox(session, {
      exec: () => async (command, options) => {
        setTimeout(() => stop.abort(new Error('stopped')), 20)
        return shell.exec(command, options).catch((error: unknown) => {
          reason = error
          throw error
        })
      },
    })
    const agent = agentOn(new Workspace({ filesystem: sessionFilesystem(session), sandbox }), [
      () => [
        {
          id: 'c1',
          name: 'mastra_workspace_execute_command',
          input: { command: 'sleep 30; echo late > late' },
        },
      ],
      () => 'done',
    ])
    await agent.generate('Run.', { abortSignal: stop.signal, maxSteps: 3 }).catch(() => undefined)
    await vi.waitFor(() => expect(reason).toBeDefined())
    expect(await hashOf(session)).toBe(before)
  })

  test('checkpoints of clones survive the process, and a clone with a known id continues', async () => {
    const { sessions } = engines[index]!
    const template = sessionSandbox(session, { sessions, exec: bash })
    const name = `project ${session.id}`
    const first = template.clone({ id: `vm ${session.id}`, checkpointName: name })
    expect(first.status).toBe('pending')
    expect(() => first.session).toThrow(SandboxNotReadyError)
    await expect(first.snapshot()).rejects.toThrow(SandboxNotReadyError)
    expect(await first.start()).toEqual({ outcome: 'created' })
    await first.writeFiles([{ path: 'one', content: '1', mode: 0o600 }])
    expect((await first.executeCommand?.('cat', ['one', "it's"]))?.stdout).toBe('1')
    await first.snapshot()
    await first.writeFiles([{ path: 'two', content: '2' }])
    await first.snapshot()
    expect((await first.session.listCheckpoints()).checkpoints).toHaveLength(1)
    await first.writeFiles([{ path: 'three', content: '3' }])
    await first.destroy()

    // Another process has only the engine and the session of the template.
    const again = sessionSandbox(await sessions.open(session.id), { sessions })
    const revived = again.clone({ checkpointName: name })
    expect(await revived.start()).toEqual({ outcome: 'created' })
    const names = async (of: SessionApi) =>
      (await of.files.list({ path: '/' })).entries.map((entry) => entry.name)
    expect(await names(revived.session)).toEqual(['notes.md', 'one', 'src', 'two'])
    const continued = again.clone({ id: `vm ${session.id}` })
    expect(await continued.start()).toEqual({ outcome: 'connected' })
    expect(continued.session.id).toBe(first.session.id)
    const attached = again.clone({ sandboxId: first.session.id })
    expect(await attached.start()).toEqual({ outcome: 'connected' })
    expect(await names(attached.session)).toContain('three')
    expect(await names(session)).toEqual(['notes.md', 'src'])
  })
})

describe('the filesystem', () => {
  let session: Session
  let fs: SessionFilesystem
  beforeEach(async () => {
    session = await engines[0]!.sessions.create({ files })
    fs = sessionFilesystem(session)
  })

  const eventCount = async (): Promise<number> =>
    (await session.events.list({ pageSize: 1000 })).events.length

  test('describes itself', async () => {
    expect([fs.id, fs.provider, fs.status, fs.readOnly]).toEqual([session.id, 'forkspace', 'ready', false])
    expect(await fs.getInfo()).toMatchObject({ id: session.id, provider: 'forkspace' })
    expect(fs.getInstructions()).toMatch(/root/)
  })

  test('readFile gives bytes, or a text in an encoding', async () => {
    expect(await fs.readFile('notes.md')).toEqual(Buffer.from('# Notes\n'))
    expect(await fs.readFile('/notes.md', { encoding: 'base64' })).toBe('IyBOb3Rlcwo=')
    await expect(fs.readFile('/none')).rejects.toThrow(FileNotFoundError)
    await expect(fs.readFile('/src')).rejects.toThrow(IsDirectoryError)
    await expect(fs.readFile('/notes.md/x')).rejects.toThrow(NotDirectoryError)
    await expect(fs.readFile('/none')).rejects.toMatchObject({
      code: 'ENOENT',
      cause: { reason: 'PATH_NOT_FOUND' },
    })
    await session.files.write({ path: '/huge', content: new Uint8Array(64 * 1024 * 1024 + 1) })
    await expect(fs.readFile('/huge')).rejects.toMatchObject({ reason: 'TOO_LARGE' })
  })

  test('writeFile creates parents unless recursive is false, and replaces unless overwrite is false', async () => {
    const before = await eventCount()
    await fs.writeFile('new/deep/x', 'one')
    await fs.writeFile('/new/deep/x', Buffer.from('two'))
    expect(await textOf(session, '/new/deep/x')).toBe('two')
    expect(await eventCount()).toBe(before + 2)
    await expect(fs.writeFile('/no/x', '', { recursive: false })).rejects.toThrow(DirectoryNotFoundError)
    await expect(fs.writeFile('/notes.md', '', { overwrite: false })).rejects.toThrow(FileExistsError)
    await expect(fs.writeFile('/src', '')).rejects.toThrow(IsDirectoryError)
    await expect(fs.writeFile('/notes.md/x', '')).rejects.toThrow(NotDirectoryError)
  })

  test('a write with expectedMtime loses no change: of another time, of the same time, or while it is under way', async () => {
    const { modifiedAt: expectedMtime } = await fs.stat('/notes.md')
    await fs.readFile('/notes.md')
    await fs.writeFile('/notes.md', 'one', { expectedMtime })
    await expect(
      fs.writeFile('/notes.md', 'x', { expectedMtime: new Date(expectedMtime.getTime() - 1) }),
    ).rejects.toThrow(StaleFileError)

    // Another change with the same time.
    const time = (await fs.stat('/notes.md')).modifiedAt
    await session.files.write({ path: '/notes.md', content: 'other' })
    await session.files.setAttributes({ path: '/notes.md', mtimeMs: time.getTime() })
    await expect(fs.writeFile('/notes.md', 'x', { expectedMtime: time })).rejects.toMatchObject({
      code: 'ESTALE',
      cause: { reason: 'HASH_MISMATCH' },
    })
    expect(await textOf(session, '/notes.md')).toBe('other')

    // Many writers that all have read the same version: one of them wins, and the others know that they lost.
    const { modifiedAt } = await fs.stat('/notes.md')
    const writers = Array.from({ length: 20 }, () => sessionFilesystem(session))
    const outcomes = await Promise.allSettled(
      writers.map((writer, at) =>
        writer.writeFile('/notes.md', `writer ${at}`, { expectedMtime: modifiedAt }),
      ),
    )
    const won = outcomes.flatMap(({ status }, at) => (status === 'fulfilled' ? [at] : []))
    expect(won).toHaveLength(1)
    expect(await textOf(session, '/notes.md')).toBe(`writer ${won[0]}`)
    const lost = outcomes.flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason as unknown] : [],
    )
    expect(lost.filter((error) => error instanceof StaleFileError)).toHaveLength(19)

    // A file that is gone is written anew, by one of several.
    await session.files.delete({ path: '/notes.md' })
    const anew = await Promise.allSettled(
      writers.map((writer) => writer.writeFile('/notes.md', 'anew', { expectedMtime: modifiedAt })),
    )
    expect(anew.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test('appendFile, deleteFile and mkdir', async () => {
    await fs.appendFile('log/x', 'one')
    await fs.appendFile('log/x', Buffer.from('two'))
    expect(await textOf(session, '/log/x')).toBe('onetwo')
    await fs.deleteFile('log/x')
    await expect(fs.deleteFile('log/x')).rejects.toThrow(FileNotFoundError)
    await fs.deleteFile('log/x', { force: true })
    await expect(fs.deleteFile('src')).rejects.toThrow(IsDirectoryError)
    await fs.mkdir('a/b')
    await fs.mkdir('a/b', { recursive: false })
    await expect(fs.mkdir('no/b', { recursive: false })).rejects.toThrow(DirectoryNotFoundError)
    await expect(fs.mkdir('notes.md')).rejects.toThrow(FileExistsError)
    expect(session.fs.statSync('/a/b').isDirectory()).toBe(true)
  })

  test('rmdir removes an empty directory, or with recursive a full one, and never the root', async () => {
    await expect(fs.rmdir('src')).rejects.toThrow(DirectoryNotEmptyError)
    await expect(fs.rmdir('notes.md')).rejects.toThrow(NotDirectoryError)
    await expect(fs.rmdir('none')).rejects.toThrow(DirectoryNotFoundError)
    await fs.rmdir('none', { force: true })
    await expect(fs.rmdir('/', { recursive: true })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    const before = await eventCount()
    await fs.rmdir('src', { recursive: true })
    expect(await eventCount()).toBe(before + 1)
    expect(await fs.exists('src/a.ts')).toBe(false)
  })

  test('copyFile copies a file as one event, and a directory with recursive', async () => {
    const before = await eventCount()
    await fs.copyFile('notes.md', 'copy.md')
    await fs.copyFile('notes.md', 'new/deep/copy.md')
    expect(await eventCount()).toBe(before + 2)
    await expect(fs.copyFile('notes.md', 'copy.md', { overwrite: false })).rejects.toThrow(FileExistsError)
    await expect(fs.copyFile('none', 'x')).rejects.toThrow(FileNotFoundError)
    await expect(fs.copyFile('src', 'x')).rejects.toThrow(IsDirectoryError)
    await fs.mkdir('src/empty')
    await session.files.setMode({ path: '/src/a.ts', mode: 0o755 })
    await fs.copyFile('src', 'src/deep/copy', { recursive: true })
    expect(session.fs.readdirSync('/src/deep/copy')).toEqual(['a.ts', 'empty'])
    expect(session.fs.statSync('/src/deep/copy/a.ts').mode & 0o777).toBe(0o755)
    await expect(fs.copyFile('src', 'src/deep/copy', { recursive: true, overwrite: false })).rejects.toThrow(
      FileExistsError,
    )
  })

  test('moveFile moves, creates parents, and replaces unless overwrite is false', async () => {
    await fs.moveFile('notes.md', 'new/notes.md')
    expect(await fs.exists('notes.md')).toBe(false)
    await expect(fs.moveFile('none', 'x')).rejects.toThrow(FileNotFoundError)
    expect(await fs.exists('x')).toBe(false)
    await expect(fs.moveFile('src/a.ts', 'new/notes.md', { overwrite: false })).rejects.toThrow(
      FileExistsError,
    )
    await expect(fs.moveFile('src', 'new', { overwrite: false })).rejects.toThrow(FileExistsError)
    const before = await eventCount()
    await fs.moveFile('src/a.ts', 'other/a.ts', { overwrite: false })
    expect(await eventCount()).toBe(before + 1)
    await fs.moveFile('other/a.ts', 'new/notes.md')
    expect(await textOf(session, '/new/notes.md')).toBe(files['/src/a.ts'])
  })

  test('readdir lists entries, by extension, and below to a depth', async () => {
    await session.files.write({ path: '/src/deep/er/b.py', content: 'x' })
    await session.files.write({ path: '/.env', content: '' })
    await session.files.createSymlink({ linkPath: '/link', target: 'src' })
    await session.files.createSymlink({ linkPath: '/broken', target: 'none' })
    expect(await fs.readdir('.')).toEqual([
      { name: '.env', type: 'file', size: 0 },
      { name: 'broken', type: 'file', isSymlink: true, symlinkTarget: 'none' },
      { name: 'link', type: 'directory', isSymlink: true, symlinkTarget: 'src' },
      { name: 'notes.md', type: 'file', size: 8 },
      { name: 'src', type: 'directory' },
    ])
    const names = async (options: object) => (await fs.readdir('/', options)).map(({ name }) => name)
    expect(await names({ recursive: true, extension: ['.py', 'ts'] })).toEqual([
      'link',
      'src',
      'src/a.ts',
      'src/deep',
      'src/deep/er',
      'src/deep/er/b.py',
    ])
    expect(await names({ recursive: true, maxDepth: 1, extension: '.ts' })).toEqual([
      'link',
      'src',
      'src/a.ts',
      'src/deep',
    ])
    expect(await names({ recursive: true, maxDepth: 0 })).toEqual([
      '.env',
      'broken',
      'link',
      'notes.md',
      'src',
    ])
    await expect(fs.readdir('/none')).rejects.toThrow(DirectoryNotFoundError)
    await expect(fs.readdir('/notes.md')).rejects.toThrow(NotDirectoryError)
  })

  test('walk gives paths below its root, without hidden ones, to a depth', async () => {
    await session.files.write({ path: '/src/.hidden/x', content: 'x' })
    await session.files.write({ path: '/src/deep/b', content: 'x' })
    const paths = async (options?: object) => (await fs.walk('src/', options)).map(({ path }) => path)
    expect(await paths()).toEqual(['a.ts', 'deep', 'deep/b'])
    expect(await paths({ maxDepth: 1 })).toEqual(['a.ts', 'deep'])
    expect(await paths({ includeHidden: true })).toEqual(['.hidden', '.hidden/x', 'a.ts', 'deep', 'deep/b'])
    expect(await fs.walk('src')).toContainEqual({ path: 'deep/b', name: 'b', type: 'file', size: 1 })
    await expect(fs.walk('/none')).rejects.toThrow(DirectoryNotFoundError)
    await expect(fs.walk('/notes.md')).rejects.toThrow(NotDirectoryError)
  })

  test('grep gives lines with columns from 0 and context, and leaves what RE2 cannot do to Mastra', async () => {
    await session.files.write({ path: '/src/b.ts', content: '𝒳 one\nTwo\none two\nfour\none\n' })
    await session.files.write({ path: '/.env', content: 'one\n' })
    const search = { path: '/', caseSensitive: true, includeHidden: false }
    expect(await fs.grep({ ...search, pattern: 'one', contextLines: 1 })).toEqual([
      {
        path: 'src/b.ts',
        matches: [
          { line: 1, column: 3, text: '𝒳 one', before: [], after: ['Two'] },
          { line: 3, column: 0, text: 'one two', before: ['Two'], after: ['four'] },
          { line: 5, column: 0, text: 'one', before: ['four'], after: [] },
        ],
      },
    ])
    expect(await fs.grep({ ...search, path: 'src', pattern: 'TWO', caseSensitive: false })).toEqual([
      {
        path: 'b.ts',
        matches: [
          { line: 2, column: 0, text: 'Two' },
          { line: 3, column: 4, text: 'one two' },
        ],
      },
    ])
    const hidden = await fs.grep({ ...search, pattern: 'one', includeHidden: true, maxCountPerFile: 1 })
    expect(hidden.map(({ path, matches }) => [path, matches.length])).toEqual([
      ['.env', 1],
      ['src/b.ts', 1],
    ])
    const two = await fs.grep({ ...search, pattern: 'one', maxTotalMatches: 2 })
    expect(two.flatMap(({ matches }) => matches)).toHaveLength(2)
    expect(await fs.grep({ ...search, path: '/src/b.ts', pattern: 'four' })).toMatchObject([{ path: 'b.ts' }])
    for (const pattern of ['(?<=a)b', '(a)\\1', ''])
      await expect(fs.grep({ ...search, pattern })).rejects.toThrow(UnsupportedGrepPatternError)
    await expect(fs.grep({ ...search, path: '/none', pattern: 'x' })).rejects.toThrow(FileNotFoundError)
    await session.files.write({ path: '/many', content: 'x\n'.repeat(25_000) })
    const many = await fs.grep({ ...search, path: '/many', pattern: 'x' })
    expect(many[0]?.matches).toHaveLength(25_000)
  })

  test('stat, exists and realpath', async () => {
    await session.files.createSymlink({ linkPath: '/link', target: 'src' })
    expect(await fs.stat('notes.md')).toMatchObject({
      name: 'notes.md',
      path: '/notes.md',
      type: 'file',
      size: 8,
    })
    expect((await fs.stat('notes.md')).createdAt).toBeInstanceOf(Date)
    expect(await fs.stat('link')).toMatchObject({ type: 'directory', size: 0 })
    await session.files.write({ path: '/i.PNG', content: 'x' })
    expect((await fs.stat('i.PNG')).mimeType).toBe('image/png')
    await expect(fs.stat('none')).rejects.toThrow(FileNotFoundError)
    expect(await fs.realpath('link/a.ts')).toBe('/src/a.ts')
    expect([await fs.exists('src'), await fs.exists('none'), await fs.exists('notes.md/x')]).toEqual([
      true,
      false,
      false,
    ])
  })

  test('a read-only filesystem refuses every change, and gives an agent no tools that write', async () => {
    const readOnly = sessionFilesystem(session, { readOnly: true })
    const before = await hashOf(session)
    const calls = [
      readOnly.writeFile('x', ''),
      readOnly.appendFile('x', ''),
      readOnly.deleteFile('notes.md'),
      readOnly.copyFile('notes.md', 'x'),
      readOnly.moveFile('notes.md', 'x'),
      readOnly.mkdir('x'),
      readOnly.rmdir('src', { recursive: true }),
    ]
    for (const outcome of await Promise.allSettled(calls))
      expect(outcome).toMatchObject({ reason: expect.any(WorkspaceReadOnlyError) as unknown })
    expect(await hashOf(session)).toBe(before)
    expect(await readOnly.readFile('notes.md', { encoding: 'utf8' })).toBe('# Notes\n')
  })

  test('a caller without the permission gets a PermissionError; events have the principal', async () => {
    const engine = await openEngine({
      authorize: (caller, action) => caller.principal !== 'no' || action !== 'writeFile',
    })
    try {
      const denied = await engine.as({ principal: 'no' }).sessions.create({ files })
      await expect(sessionFilesystem(denied).writeFile('x', '')).rejects.toThrow(PermissionError)
      const allowed = await engine.as({ principal: 'ann' }).sessions.create({ files })
      await sessionFilesystem(allowed).writeFile('x', '')
      expect((await allowed.events.list()).events.at(-1)?.principal).toBe('ann')
    } finally {
      await engine.close()
    }
  })

  const hostilePaths = [
    '..',
    '../etc/passwd',
    '/src/../notes.md',
    'a\0b',
    'x'.repeat(300),
    'x/'.repeat(300),
    `/${'x'.repeat(1_000_000)}`,
    undefined,
    null,
    7,
    {},
    ['/notes.md'],
    Symbol('x'),
  ] as string[]

  test.each(hostilePaths.map((path, at) => [at, path] as const))(
    'hostile path %i gets a coded error and changes nothing',
    async (_, path) => {
      const before = await hashOf(session)
      const outcomes = await Promise.allSettled([
        fs.readFile(path),
        fs.writeFile(path, 'x'),
        fs.appendFile(path, 'x'),
        fs.deleteFile(path, { force: true }),
        fs.copyFile(path, 'x'),
        fs.copyFile('notes.md', path),
        fs.moveFile(path, 'x'),
        fs.moveFile('notes.md', path),
        fs.mkdir(path),
        fs.rmdir(path, { recursive: true, force: true }),
        fs.readdir(path),
        fs.walk(path),
        fs.grep({ pattern: 'x', path, caseSensitive: true, includeHidden: true }),
        fs.exists(path),
        fs.stat(path),
        fs.realpath(path),
      ])
      for (const outcome of outcomes)
        expect(outcome).toMatchObject({
          status: 'rejected',
          reason: { reason: expect.stringMatching(/^(INVALID_ARGUMENT|NAME_TOO_LONG)$/) as string },
        })
      expect(await hashOf(session)).toBe(before)
    },
  )

  test('hostile arguments get a coded error and change nothing; names of Object.prototype are names', async () => {
    const before = await hashOf(session)
    const bad = { pattern: 'x', path: '/', caseSensitive: true, includeHidden: true }
    const outcomes = await Promise.allSettled([
      fs.readFile('notes.md', { encoding: 'klingon' as BufferEncoding }),
      fs.readFile('notes.md', null as never),
      fs.writeFile('x', 7 as never),
      fs.writeFile('x', undefined as never),
      fs.writeFile('x', [1] as never),
      fs.writeFile('x', '', { overwrite: 'no' as never }),
      fs.writeFile('x', '', { recursive: 0 as never }),
      fs.writeFile('x', '', 'options' as never),
      fs.writeFile('notes.md', '', { expectedMtime: 5 as never }),
      fs.writeFile('notes.md', '', { expectedMtime: new Date(Number.NaN) }),
      fs.appendFile('x', {} as never),
      fs.deleteFile('notes.md', { force: 'x' as never }),
      fs.copyFile('notes.md', 'x', { overwrite: 1 as never }),
      fs.moveFile('notes.md', 'x', { overwrite: 1 as never }),
      fs.mkdir('x', { recursive: 1 as never }),
      fs.rmdir('src', { recursive: 1 as never }),
      fs.readdir('/', { recursive: true, maxDepth: -1 }),
      fs.readdir('/', { extension: 5 as never }),
      fs.walk('/', { maxDepth: Number.NaN }),
      fs.grep({ ...bad, pattern: 5 as never }),
      fs.grep({ ...bad, maxTotalMatches: 0 }),
      fs.grep({ ...bad, contextLines: -1 }),
      fs.grep(undefined as never),
    ])
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ status: 'rejected', reason: { reason: 'INVALID_ARGUMENT' } })
    expect(await hashOf(session)).toBe(before)
    for (const name of ['__proto__', 'constructor', 'toString.png']) {
      await fs.writeFile(name, name)
      expect(await fs.readFile(name, { encoding: 'utf8' })).toBe(name)
    }
    const found = await fs.grep({ ...bad, pattern: '__proto__' })
    expect(found.map(({ path }) => path)).toEqual(['__proto__'])
  })
})

describe('the sandbox', () => {
  let session: Session
  beforeEach(async () => {
    session = await engines[0]!.sessions.create({ files })
  })

  test('runs commands only with exec, with arguments, directory, variables and a bounded output', async () => {
    expect(sessionSandbox(session)).toHaveProperty('executeCommand', undefined)
    expect(sessionSandbox(session).getInstructions?.()).toMatch(/do not run/)
    const sandbox = sessionSandbox(session, { exec: bash, cwd: 'src', env: { A: 'one' } })
    const run = sandbox.executeCommand!.bind(sandbox)
    expect(await run('printf', ['%s|', "it's", '$A', 'b c'])).toMatchObject({
      success: true,
      exitCode: 0,
      stdout: "it's|$A|b c|",
      command: 'printf',
    })
    const chunks: string[] = []
    const options = { env: { B: 'two' }, onStdout: (text: string) => chunks.push(text) }
    const full = await run('pwd; echo $A $B; echo err >&2; exit 4', [], options)
    expect(full).toMatchObject({ success: false, exitCode: 4, stdout: '/src\none two\n', stderr: 'err\n' })
    expect(chunks.join('')).toBe(full.stdout)
    expect(await run('pwd', [], { cwd: '/' })).toMatchObject({ stdout: '/\n' })
    expect(await run('printf', ['abcé'], { maxRetainedBytes: 3 })).toMatchObject({
      stdout: 'cé',
      stdoutTruncated: true,
      stdoutDroppedBytes: 2,
    })
    await expect(run('sleep 30', [], { timeout: 20 })).rejects.toThrow(SandboxTimeoutError)
    await expect(run('ls', [], { abortSignal: AbortSignal.abort(new Error('stopped')) })).rejects.toThrow(
      'stopped',
    )
  })

  test('snapshot is a checkpoint, and a clone a fork of it', async () => {
    const sandbox = sessionSandbox(session, { checkpointName: 'base' })
    expect([sandbox.supportsCheckpoints, sandbox.status, await sandbox.start()]).toEqual([
      true,
      'running',
      { outcome: 'connected' },
    ])
    await sandbox.snapshot()
    await sandbox.writeFiles([{ path: '/later', content: Buffer.from('x') }])
    const seeded = sandbox.clone({ checkpointName: 'own', seedCheckpointName: 'base' })
    const both = await Promise.all([seeded.start(), seeded.start()])
    expect(both).toEqual([{ outcome: 'created' }, { outcome: 'created' }])
    expect(await seeded.start()).toEqual({ outcome: 'connected' })
    const has = async (of: SessionApi, path: string) => sessionFilesystem(of).exists(path)
    expect(await has(seeded.session, '/later')).toBe(false)
    const current = sandbox.clone()
    await current.start()
    expect(await has(current.session, '/later')).toBe(true)
    const { checkpoints } = await session.listCheckpoints()
    expect(checkpoints.map(({ metadata }) => metadata)).toEqual([{ checkpointName: 'base' }])
    const unnamed = sessionSandbox(session)
    await unnamed.snapshot()
    await unnamed.snapshot()
    expect((await session.listCheckpoints()).checkpoints).toHaveLength(3)
    await current.destroy()
    await current.stop()
    expect(await has(current.session, '/later')).toBe(true)
  })

  test('writeFiles is one event or none', async () => {
    const sandbox = sessionSandbox(session)
    const count = async () => (await session.events.list({ pageSize: 1000 })).events.length
    const before = await count()
    await sandbox.writeFiles([
      { path: 'bin/run', content: '#!', mode: 0o755 },
      { path: '/b', content: Buffer.from('b') },
    ])
    expect(await count()).toBe(before + 1)
    expect(session.fs.statSync('/bin/run').mode & 0o777).toBe(0o755)
    const manifest = await hashOf(session)
    const good = { path: '/c', content: 'c' }
    await expect(sandbox.writeFiles([good, { path: '/src', content: 'x' }])).rejects.toMatchObject({
      reason: 'IS_A_DIRECTORY',
    })
    await expect(sandbox.writeFiles([good, { ...good, mode: 0o7777 }])).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await expect(sandbox.writeFiles([good], { abortSignal: AbortSignal.abort() })).rejects.toThrow(
      SandboxAbortError,
    )
    for (const list of [undefined, 'x', [7], [null], [{ path: '../x', content: '' }], [{ path: 'x' }]])
      await expect(sandbox.writeFiles(list as never)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(await hashOf(session)).toBe(manifest)
  })

  test('hostile arguments of commands and clones get a coded error', async () => {
    const sandbox = sessionSandbox(session, { exec: bash })
    const run = sandbox.executeCommand!.bind(sandbox) as (...args: unknown[]) => Promise<unknown>
    for (const args of [
      [undefined],
      [''],
      [7],
      ['ls', 'x'],
      ['ls', [7]],
      ['ls', [], null],
      ['ls', [], { cwd: '../x' }],
      ['ls', [], { cwd: 7 }],
      ['ls', [], { env: 'x' }],
      ['ls', [], { env: { A: 1 } }],
      ['ls', [], { timeout: 'x' }],
      ['ls', [], { timeout: Number.NaN }],
      ['ls', [], { maxRetainedBytes: -1 }],
      ['ls', [], { abortSignal: {} }],
    ])
      await expect(run(...args)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    for (const options of [null, { id: 7 }, { checkpointName: '' }, { env: 1 }, { workingDirectory: '../x' }])
      expect(() => sandbox.clone(options as never)).toThrow(/must/)
    await expect(sandbox.clone({ sandboxId: session.id }).start()).rejects.toMatchObject({
      reason: 'NO_ADAPTER',
    })
    const lost = sessionSandbox(session, { sessions: engines[0]!.sessions }).clone({ sandboxId: 'none' })
    await expect(lost.start()).rejects.toMatchObject({ name: 'EngineError' })
    expect(lost.status).toBe('error')
  })
})

describe('the options', () => {
  test('also take a session of a server', async () => {
    const remote = await openRemote()
    try {
      const session = await remote.client.sessions.create({ files })
      const fs = sessionFilesystem(session, { turn: () => 'turn 1' })
      await fs.writeFile('x', 'one')
      await fs.copyFile('x', 'new/x')
      expect(await fs.readFile('new/x', { encoding: 'utf8' })).toBe('one')
      await expect(fs.stat('none')).rejects.toThrow(FileNotFoundError)
      const { modifiedAt } = await fs.stat('x')
      await session.files.write({ path: '/x', content: 'two' })
      await expect(fs.writeFile('x', 'mine', { expectedMtime: modifiedAt })).rejects.toThrow(StaleFileError)
      const sandbox = sessionSandbox(session, { sessions: remote.client.sessions, checkpointName: 'base' })
      await sandbox.snapshot()
      const clone = sandbox.clone({ seedCheckpointName: 'base' })
      await clone.start()
      expect(await textOf(clone.session, '/x')).toBe('two')
    } finally {
      await remote.close()
    }
  })

  test('are refused when they are unknown or wrong', async () => {
    const session = await engines[0]!.sessions.create({ files })
    for (const options of [{ trun: 1 }, { turn: 1 }, { readOnly: 'x' }, { readonly: true }])
      expect(() => sessionFilesystem(session, options as object)).toThrow(
        new RegExp(Object.keys(options)[0]!),
      )
    for (const options of [
      { exce: 1 },
      { exec: 'sh' },
      { cwd: '../x' },
      { env: { A: 1 } },
      { checkpointName: '' },
      { sessions: {} },
      { turn: 1 },
    ])
      expect(() => sessionSandbox(session, options as object)).toThrow(new RegExp(Object.keys(options)[0]!))
    expect(() => sessionFilesystem({} as Session)).toThrow(/must be a session/)
    expect(() => sessionSandbox({} as Session)).toThrow(/must be a session/)
  })

  test('hooks pass the signal of a call: after an abort, a read rejects and a write does not begin', async () => {
    const session = await engines[0]!.sessions.create({ files })
    const workspace = new Workspace({
      filesystem: sessionFilesystem(session),
      sandbox: sessionSandbox(session, { exec: bash }),
    })
    const before = await hashOf(session)
    const abortSignal = AbortSignal.abort(new Error('stopped'))
    const context = { workspace, agent: { toolCallId: 'c1' }, abortSignal }
    await sessionToolHooks().beforeToolCall?.({ context } as never)
    const { filesystem, sandbox } = context.workspace
    const calls = [
      filesystem.readFile('notes.md'),
      filesystem.walk('/'),
      filesystem.exists('/'),
      filesystem.writeFile('x', ''),
      filesystem.rmdir('src', { recursive: true }),
      sandbox.executeCommand!('touch x'),
    ]
    for (const outcome of await Promise.allSettled(calls))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'stopped' } })
    await expect(sandbox.writeFiles([{ path: 'x', content: '' }])).rejects.toThrow(SandboxAbortError)
    expect(await hashOf(session)).toBe(before)
    // The workspace itself has no marks.
    await workspace.filesystem.writeFile('x', '')
  })

  test('hooks leave a context alone that has no workspace', async () => {
    const { beforeToolCall } = sessionToolHooks()
    for (const context of [undefined, null, 7, {}, { workspace: null }])
      expect(await beforeToolCall?.({ context } as never)).toBeUndefined()
  })
})
