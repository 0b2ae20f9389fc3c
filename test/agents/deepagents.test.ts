/** The adapter for Deep Agents, in its own loop with a scripted model: in memory and on LevelDB. */
import { join } from 'node:path'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { MemorySaver } from '@langchain/langgraph'
import {
  createDeepAgent,
  isSandboxBackend,
  type BackendProtocolV2,
  type SandboxBackendProtocolV2,
} from 'deepagents'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest'
import { workspaceBackend, workspaceTurns } from '../../src/adapters/deepagents/index.js'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { fewStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'
import { openRemote } from '../support/remote.js'
import { ScriptedChatModel, type ScriptedAnswer } from '../support/scripted-chat-model.js'

let both: BothEngines
let engines: readonly Engine[]
beforeAll(async () => {
  // LangSmith would send traces if a developer has set this.
  vi.stubEnv('LANGSMITH_TRACING', 'false')
  vi.stubEnv('LANGCHAIN_TRACING_V2', 'false')
  both = await openBothEngines()
  engines = both.engines
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await both.close()
})

const files = { '/src/a.ts': 'const a = 1\nconst b = 2\n', '/notes.md': '# Notes\n' }
const ask = { messages: [{ role: 'user', content: 'Improve the files.' }] }

describe.each(fewStores)('Deep Agents on %s', (_, index) => {
  let session: Session
  beforeEach(async () => {
    session = await engines[index]!.sessions.create({ files })
    vi.stubGlobal('fetch', () => {
      throw new Error('no test may use the network')
    })
  })
  afterEach(() => vi.unstubAllGlobals())

  const read = async (path: string): Promise<string> =>
    Buffer.from(await session.files.read({ path })).toString()
  const hash = async (): Promise<string> => (await session.manifest()).manifestHash
  const callIds = async (): Promise<unknown[]> => {
    const { events } = await session.events.list({ pageSize: 1000 })
    return events
      .slice(1)
      .map(({ details }) => (details['metadata'] as { callId?: string } | undefined)?.callId)
  }

  test('its loop lists, reads, edits, greps, runs a command and deletes; undo takes the turn back', async () => {
    const shell = workspaceShell(session)
    const backend = workspaceBackend(session, {
      turn: 'turn 1',
      metadata: { agent: 'ann' },
      exec: (command, options) => shell.exec(command, { ...options, turn: 'turn 1' }),
    })
    const seen: string[] = []
    const step =
      (id: string, name: string, args: Record<string, unknown>): ScriptedAnswer =>
      (outputs) => {
        seen.push(...outputs)
        return [{ id, name, args }]
      }
    const model = new ScriptedChatModel([
      step('c1', 'ls', {}),
      step('c2', 'read_file', { file_path: '/src/a.ts' }),
      step('c3', 'edit_file', { file_path: '/src/a.ts', old_string: 'a = 1', new_string: 'a = $&' }),
      step('c4', 'grep', { pattern: '$&' }),
      step('c5', 'write_file', { file_path: '/docs/new.md', content: 'new\n' }),
      step('c6', 'execute', { command: 'wc -l < src/a.ts | tee count; exit 3' }),
      step('c7', 'glob', { pattern: '**/*.md' }),
      step('c8', 'delete', { file_path: '/docs' }),
      (outputs) => {
        seen.push(...outputs)
        return 'done'
      },
    ])
    const before = await hash()
    const { messages } = await createDeepAgent({ model, backend }).invoke(ask)
    expect(messages.at(-1)?.text).toBe('done')
    expect(seen).toEqual([
      '/notes.md (8 bytes)\n/src/ (directory)',
      '@@ lines 1-2 of 2 @@\nconst a = 1\nconst b = 2',
      "Successfully replaced 1 occurrence(s) in '/src/a.ts'",
      '/src/a.ts:\n  1: const a = $&',
      "Successfully wrote to '/docs/new.md'",
      '2\n\n[Command failed with exit code 3]',
      '/docs/new.md\n/notes.md',
      'Deleted /docs',
    ])
    expect(await callIds()).toEqual(['c3', 'c5', 'c6', 'c8'])
    const { events } = await session.events.list({ pageSize: 1000 })
    expect(events[1]?.details['metadata']).toEqual({ agent: 'ann', callId: 'c3' })
    const edit = messages.find((message) => message.type === 'tool' && message.name === 'edit_file')
    expect(edit).toMatchObject({
      metadata: {
        contentHash: await session.files.contentHash('/src/a.ts'),
        hunks: [{ startLine: 1, lines: ['const a = $&', 'const b = 2'] }],
      },
    })
    expect((await session.undo({ by: 'group' })).count).toBe(4)
    expect(await hash()).toBe(before)
  })

  test('calls of one answer have their own ids, and an agent below has the ids of its calls', async () => {
    const write = (id: string, path: string) => ({
      id,
      name: 'write_file',
      args: { file_path: path, content: path },
    })
    const model = new ScriptedChatModel([
      () => [write('c1', '/1'), write('c2', '/2')],
      () => [
        { id: 'c3', name: 'task', args: { description: 'Write a file.', subagent_type: 'general-purpose' } },
      ],
      () => [write('c4', '/3')],
      () => 'done below',
      () => 'done',
    ])
    await createDeepAgent({ model, backend: workspaceBackend(session) }).invoke(ask)
    expect(await read('/3')).toBe('/3')
    expect(new Set(await callIds())).toEqual(new Set(['c1', 'c2', 'c4']))
  })

  test('each turn is a checkpoint and a group, and a rewind of the conversation rewinds its files', async () => {
    const shell = workspaceShell(session)
    const turns = workspaceTurns(session)
    const backend = workspaceBackend(session, {
      turn: turns.current,
      exec: (command, options) => shell.exec(command, options),
    })
    const write = (id: string, content: string) => ({
      id,
      name: 'write_file',
      args: { file_path: '/state', content },
    })
    const model = new ScriptedChatModel([
      () => [write('c1', 'of turn 1')],
      () => 'done',
      () => [{ id: 'c2', name: 'task', args: { description: 'Write.', subagent_type: 'general-purpose' } }],
      () => [write('c3', 'of turn 2, below')],
      () => 'done below',
      () => [{ id: 'c4', name: 'execute', args: { command: 'rm notes.md' } }],
      () => 'done',
    ])
    const checkpointer = new MemorySaver()
    const agent = createDeepAgent({ model, backend, middleware: [turns.middleware], checkpointer })
    const thread = { configurable: { thread_id: session.id } }
    const message = (content: string) => ({ messages: [{ role: 'user', content }] })
    await agent.invoke(message('First.'), thread)
    const first = await hash()
    const afterFirst = await checkpointer.getTuple(thread)
    const { messages } = await agent.invoke(message('Second.'), thread)
    const [one = '', two = ''] = messages.flatMap(({ type, id }) => (type === 'human' ? [id] : []))
    const { events } = await session.events.list({ pageSize: 1000 })
    const groups = events.flatMap(({ details }) => details['group'] ?? [])
    expect(groups).toEqual([one, two, two])
    expect(await read('/state')).toBe('of turn 2, below')
    expect(session.fs.existsSync('/notes.md')).toBe(false)
    expect((await session.listCheckpoints()).checkpoints.map(({ metadata }) => metadata)).toEqual([
      { userMessageId: one },
      { userMessageId: two },
    ])

    // Another process rewinds the files to the end of the first turn, and continues the conversation from there.
    const later = workspaceTurns(session)
    const changes = { canRewind: true, filesChanged: ['/notes.md', '/state'], insertions: 2, deletions: 1 }
    expect(await later.rewindFiles(two, { dryRun: true })).toEqual(changes)
    expect(await later.rewindFiles(two)).toEqual(changes)
    expect(await hash()).toBe(first)
    const again = createDeepAgent({
      model: new ScriptedChatModel([() => [write('c5', 'of turn 2 again')], () => 'done']),
      backend: workspaceBackend(session, { turn: later.current }),
      middleware: [later.middleware],
      checkpointer,
    })
    const continued = await again.invoke(message('Second, again.'), afterFirst?.config)
    expect(continued.messages.filter(({ type }) => type === 'human').map(({ text }) => text)).toEqual([
      'First.',
      'Second, again.',
    ])
    expect(await read('/state')).toBe('of turn 2 again')
    expect(await read('/notes.md')).toBe('# Notes\n')
    await turns.rewindFiles(one)
    expect(session.fs.existsSync('/state')).toBe(false)
    await session.undo()
    expect(await read('/state')).toBe('of turn 2 again')
  })

  test('conversations of threads that run at the same time have their own turns', async () => {
    const turns = workspaceTurns(session)
    const backend = workspaceBackend(session, { turn: turns.current })
    const agents = [1, 2].map((at) => {
      const model = new ScriptedChatModel([
        () => [{ id: `c${at}`, name: 'write_file', args: { file_path: `/${at}`, content: 'x' } }],
        () => 'done',
      ])
      return createDeepAgent({ model, backend, middleware: [turns.middleware] })
    })
    await Promise.all(
      agents.map((agent, at) =>
        agent.invoke(
          { messages: [{ role: 'user', content: 'Write.', id: `m${at + 1}` }] },
          { configurable: { thread_id: `${at}` } },
        ),
      ),
    )
    const { events } = await session.events.list({ pageSize: 1000 })
    const marks = events.flatMap(({ details }) =>
      details['group'] === undefined ? [] : [[details['group'], details['metadata']]],
    )
    expect(new Map(marks as [string, unknown][])).toEqual(
      new Map([
        ['m1', { callId: 'c1' }],
        ['m2', { callId: 'c2' }],
      ]),
    )
  })

  test('a stale edit is refused, and works after the file was read again', async () => {
    const edit = (id: string): ReturnType<ScriptedAnswer> => [
      { id, name: 'edit_file', args: { file_path: '/src/a.ts', old_string: 'a = 1', new_string: 'a = 3' } },
    ]
    const again = (id: string): ReturnType<ScriptedAnswer> => [
      { id, name: 'read_file', args: { file_path: '/src/a.ts' } },
    ]
    let refused = ''
    const model = new ScriptedChatModel([
      () => again('c1'),
      () => {
        session.fs.writeFileSync('/src/a.ts', 'const a = 1\nconst b = 4\n')
        return edit('c2')
      },
      ([text = '']) => {
        refused = text
        return again('c3')
      },
      () => edit('c4'),
      () => 'done',
    ])
    await createDeepAgent({ model, backend: workspaceBackend(session) }).invoke(ask)
    expect(refused).toMatch(/^HASH_MISMATCH: /)
    expect(await read('/src/a.ts')).toBe('const a = 3\nconst b = 4\n')
  })

  test('an abort of the run ends a command, and the session stays as it was', async () => {
    const before = await hash()
    const stop = new AbortController()
    const shell = workspaceShell(session)
    let reason: unknown
    const backend = workspaceBackend(session, {
      exec: async (command, options) => {
        setTimeout(() => stop.abort(new Error('stopped')), 20)
        try {
          return await shell.exec(command, options)
        } catch (error) {
          reason = error
          throw error
        }
      },
    })
    const model = new ScriptedChatModel([
      () => [{ id: 'c1', name: 'execute', args: { command: 'sleep 30; echo late > late' } }],
    ])
    await expect(createDeepAgent({ model, backend }).invoke(ask, { signal: stop.signal })).rejects.toThrow(
      /stopped|abort/i,
    )
    await vi.waitFor(() => expect(reason).toBeDefined())
    expect(await hash()).toBe(before)
  })

  test('permission rules of Deep Agents hold, whatever the path looks like', async () => {
    const permissions = [{ operations: ['read', 'write'], paths: ['/src/**'], mode: 'deny' }] as const
    const texts: string[] = []
    const paths = ['/src/a.ts', '//src//a.ts', '/./src/a.ts', '/x/../src/a.ts', 'src/a.ts']
    const model = new ScriptedChatModel([
      () =>
        paths.map((path, at) => ({
          id: `c${at}`,
          name: 'write_file',
          args: { file_path: path, content: 'x' },
        })),
      (outputs) => {
        texts.push(...outputs)
        return 'done'
      },
    ])
    const before = await hash()
    const options = { model, backend: workspaceBackend(session), permissions: [...permissions] }
    await createDeepAgent(options as unknown as Parameters<typeof createDeepAgent>[0]).invoke(ask)
    expect(texts).toHaveLength(paths.length)
    expect(texts[2]).toMatch(/^INVALID_ARGUMENT: /)
    expect(await hash()).toBe(before)
  })
})

describe('the methods of a backend', () => {
  let session: Session
  let backend: BackendProtocolV2
  beforeEach(async () => {
    session = await engines[0]!.sessions.create({ files })
    backend = workspaceBackend(session)
  })

  const lines = (count: number): string =>
    Array.from({ length: count }, (_, at) => `line ${at + 1}\n`).join('')
  const eventCount = async (): Promise<number> =>
    (await session.events.list({ pageSize: 1000 })).events.length

  test('ls lists directories with a slash, hidden files and targets of symlinks; a missing one is empty', async () => {
    await session.files.write({ path: '/.env', content: 'x' })
    await session.files.createSymlink({ linkPath: '/to-dir', target: '/src' })
    await session.files.createSymlink({ linkPath: '/to-none', target: '/none' })
    const { files: found } = await backend.ls('/')
    expect(found?.map(({ path, is_dir: isDir, size }) => [path, isDir, size])).toEqual([
      ['/.env', false, 1],
      ['/notes.md', false, 8],
      ['/src/', true, 0],
      ['/to-dir/', true, 0],
      ['/to-none', false, 0],
    ])
    expect(new Date(found?.[0]?.modified_at ?? '').getTime()).toBeGreaterThan(0)
    expect(await backend.ls('/src/')).toMatchObject({ files: [{ path: '/src/a.ts' }] })
    expect(await backend.ls('/none')).toEqual({ files: [] })
    // Deep Agents looks for this text, to tell a file from a directory.
    expect((await backend.ls('/notes.md')).error).toContain('not a directory')
  })

  test('read counts lines from 0 and says where the next ones begin', async () => {
    await session.files.write({ path: '/lines', content: lines(1200) })
    expect(await backend.read('/lines')).toMatchObject({
      totalLines: 1200,
      startLine: 1,
      endLine: 500,
      nextOffset: 500,
      mimeType: 'text/plain',
    })
    expect(await backend.read('/lines', 5, 2)).toEqual({
      content: 'line 6\nline 7',
      mimeType: 'text/plain',
      totalLines: 1200,
      startLine: 6,
      endLine: 7,
      nextOffset: 7,
    })
    expect(await backend.read('/lines', 1199, 10)).toEqual({
      content: 'line 1200',
      mimeType: 'text/plain',
      totalLines: 1200,
      startLine: 1200,
      endLine: 1200,
    })
    expect(await backend.read('/lines', -3.5, 1.9)).toMatchObject({ content: 'line 1' })
    expect(await backend.read('/lines', 0, 0)).toEqual({ content: '', mimeType: 'text/plain' })
    expect(await backend.read('/lines', 1200)).toEqual({
      error: expect.stringMatching(/^INVALID_ARGUMENT: offset: must be below 1200/) as string,
    })
    expect((await backend.read('/lines', 1e300)).error).toMatch(/^INVALID_ARGUMENT/)
    expect((await backend.read('/none')).error).toMatch(/not found/i)
    expect((await backend.read('/none', 0, 0)).error).toMatch(/not found/i)
    expect((await backend.read('/src')).error).toMatch(/^IS_A_DIRECTORY/)
  })

  test('read gives lines of a file with CRLF and a byte order mark, says which line is cut, and notes an empty file', async () => {
    await session.files.write({ path: '/crlf', content: '\ufeffone\r\ntwo\r\n' })
    expect((await backend.read('/crlf')).content).toBe('one\ntwo')
    expect(await backend.edit('/crlf', 'one\ntwo', '1\n2')).toMatchObject({ occurrences: 1 })
    expect(Buffer.from(await session.files.read({ path: '/crlf' })).toString()).toBe('\ufeff1\r\n2\r\n')
    await session.files.write({ path: '/long', content: `${'x'.repeat(100_001)}\nend\n` })
    expect((await backend.read('/long')).content).toMatch(/x\[the line goes on: .*\]\nend$/)
    await session.files.write({ path: '/empty', content: '' })
    expect((await backend.read('/empty')).content).toBe('System reminder: File exists but has empty contents')
  })

  test('binary files are bytes when read, base64 when written, and bounded', async () => {
    const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255])
    expect(await backend.write('/i.png', png.toString('base64'))).toMatchObject({ path: '/i.png' })
    expect(await backend.write('/J.PNG', `data:image/png;base64,${png.toString('base64')}\n`)).toMatchObject({
      metadata: { sizeBytes: 6 },
    })
    for (const path of ['/i.png', '/J.PNG']) {
      const { content, mimeType } = await backend.read(path, 3, 1)
      expect([Buffer.from(content as Uint8Array), mimeType]).toEqual([png, 'image/png'])
    }
    expect((await backend.write('/i.png', 'not base64!')).error).toMatch(/^INVALID_ARGUMENT: .*base64/)
    await session.files.write({ path: '/large.pdf', content: new Uint8Array(10 * 1024 * 1024 + 1) })
    expect((await backend.read('/large.pdf')).error).toMatch(/^TOO_LARGE: .*downloadFiles/)
    expect((await backend.readRaw('/large.pdf')).data).toMatchObject({ mimeType: 'application/pdf' })
    await session.files.write({ path: '/huge', content: new Uint8Array(64 * 1024 * 1024 + 1) })
    expect((await backend.readRaw('/huge')).error).toMatch(/^TOO_LARGE: /)
  })

  test('readRaw gives content, type and times', async () => {
    const { data } = await backend.readRaw('/notes.md')
    expect(data).toMatchObject({ content: '# Notes\n', mimeType: 'text/plain' })
    expect(new Date(data?.created_at ?? '').getTime()).toBeGreaterThan(0)
    expect((await backend.readRaw('/none')).error).toMatch(/not found/i)
  })

  test('write creates directories, replaces a file, and gives the new hash', async () => {
    const before = await eventCount()
    expect(await backend.write('/new/deep/x', 'one')).toEqual({
      path: '/new/deep/x',
      filesUpdate: null,
      metadata: {
        path: '/new/deep/x',
        contentHash: await session.files.contentHash('/new/deep/x'),
        sizeBytes: 3,
      },
    })
    expect(await backend.write('/new/deep/x', 'two')).toMatchObject({ path: '/new/deep/x' })
    expect(await eventCount()).toBe(before + 2)
    expect((await backend.write('/src', 'x')).error).toMatch(/^IS_A_DIRECTORY/)
    expect((await backend.write('/notes.md/x', 'x')).error).toMatch(/^NOT_A_DIRECTORY/)
  })

  test('edit replaces one text literally, or all, and fills an empty file', async () => {
    await session.files.write({ path: '/f', content: 'a.c a.c abc\n' })
    expect((await backend.edit('/f', 'a.c', 'x')).error).toMatch(/^Multiple occurrences.*NOT_UNIQUE/)
    expect(await backend.edit('/f', 'a.c', '$1', true)).toMatchObject({ path: '/f', occurrences: 2 })
    expect(await backend.edit('/f', ' abc', ' abc')).toMatchObject({ occurrences: 1 })
    expect(Buffer.from(await session.files.read({ path: '/f' })).toString()).toBe('$1 $1 abc\n')
    expect((await backend.edit('/f', 'zzz', 'x')).error).toMatch(/^String not found: NO_MATCH/)
    expect((await backend.edit('/none', 'a', 'b')).error).toMatch(/^File not found/)
    expect((await backend.edit('/f', '', 'b')).error).toMatch(/^INVALID_ARGUMENT: oldString/)
    await session.files.write({ path: '/empty', content: '' })
    expect(await backend.edit('/empty', '', 'filled')).toMatchObject({ path: '/empty', occurrences: 0 })
    expect(Buffer.from(await session.files.read({ path: '/empty' })).toString()).toBe('filled')
  })

  test('grep finds a literal text, filters by name, and says when it stopped early', async () => {
    await session.files.write({ path: '/src/deep/b.py', content: 'x.y\nxzy\nx.y\n' })
    await session.files.write({ path: '/i.png', content: 'x.y' })
    expect(await backend.grep('x.y')).toEqual({
      matches: [
        { path: '/src/deep/b.py', line: 1, text: 'x.y' },
        { path: '/src/deep/b.py', line: 3, text: 'x.y' },
      ],
    })
    expect(await backend.grep('x.y', '/src/', '*.ts', null)).toEqual({ matches: [] })
    expect(await backend.grep('x.y', '/src/deep/b.py', '*.py', 1)).toMatchObject({
      matches: [{ line: 1 }],
      truncated: true,
    })
    expect(await backend.grep('x', '/none', null)).toEqual({ matches: [] })
    await session.files.write({ path: '/large', content: new Uint8Array(17 * 1024 * 1024) })
    expect(await backend.grep('x.y', null)).toMatchObject({ truncated: true })
  })

  test('glob gives absolute paths below a directory, and directories with a slash', async () => {
    await session.files.write({ path: '/src/deep/b.ts', content: '' })
    const pathsOf = async (pattern: string, path?: string): Promise<unknown> =>
      (await backend.glob(pattern, path)).files?.map((info) => info.path)
    expect(await pathsOf('**/*.ts')).toEqual(['/src/a.ts', '/src/deep/b.ts'])
    expect(await pathsOf('/src/*')).toEqual(['/src/a.ts', '/src/deep/'])
    expect(await pathsOf('*.ts', '/src/')).toEqual(['/src/a.ts'])
    expect(await pathsOf('*', '/none')).toEqual([])
  })

  test('delete removes a file, a symlink or a whole directory as one event, and never the root', async () => {
    await session.files.createSymlink({ linkPath: '/link', target: '/notes.md' })
    await backend.read('/link')
    const before = await eventCount()
    expect(await backend.delete!('/link')).toEqual({ path: '/link', filesUpdate: null })
    expect(await backend.delete!('/src/')).toMatchObject({ path: '/src/' })
    expect(await eventCount()).toBe(before + 2)
    await session.undo()
    expect(session.fs.readFileSync('/src/a.ts', 'utf8')).toBe(files['/src/a.ts'])
    expect((await backend.delete!('/none')).error).toMatch(/not found/i)
    expect((await backend.delete!('/')).error).toMatch(/^INVALID_ARGUMENT/)
    await backend.read('/notes.md')
    await session.files.write({ path: '/notes.md', content: 'changed' })
    expect((await backend.delete!('/notes.md')).error).toMatch(/^HASH_MISMATCH/)
  })

  test('uploads and downloads answer for each file', async () => {
    const bytes = Buffer.from([0, 1, 2])
    expect(
      await backend.uploadFiles!([
        ['/up/x', bytes],
        ['/src', bytes],
        ['up', bytes],
        ['/notes.md/y', bytes],
      ]),
    ).toEqual([
      { path: '/up/x', error: null },
      { path: '/src', error: 'is_directory' },
      { path: 'up', error: 'invalid_path' },
      { path: '/notes.md/y', error: 'invalid_path' },
    ])
    expect(await backend.downloadFiles!(['/up/x', '/src', '/none', '/../x'])).toEqual([
      { path: '/up/x', content: bytes, error: null },
      { path: '/src', content: null, error: 'is_directory' },
      { path: '/none', content: null, error: 'file_not_found' },
      { path: '/../x', content: null, error: 'invalid_path' },
    ])
    const narrowed = (await openEngineFor('no')).backend
    expect(await narrowed.uploadFiles!([['/x', bytes]])).toEqual([{ path: '/x', error: 'permission_denied' }])
  })

  test('a caller without the permission gets it as a text', async () => {
    const { backend: narrowed } = await openEngineFor('no')
    expect((await narrowed.write('/x', '')).error).toMatch(/^PERMISSION_DENIED: /)
    const { backend: allowed, session: own } = await openEngineFor('ann')
    expect((await allowed.write('/x', '')).error).toBeUndefined()
    expect((await own.events.list()).events.at(-1)?.principal).toBe('ann')
  })

  const opened: Engine[] = []
  afterAll(async () => {
    for (const engine of opened) await engine.close()
  })
  async function openEngineFor(principal: string) {
    const engine = await openEngine({
      authorize: (caller, action) => caller.principal !== 'no' || action !== 'writeFile',
    })
    opened.push(engine)
    const own = await engine.as({ principal }).sessions.create({ files })
    return { backend: workspaceBackend(own), session: own }
  }

  const hostilePaths = [
    'src/a.ts',
    '',
    '..',
    '/../etc/passwd',
    '/src/../notes.md',
    '/./notes.md',
    '/a\0b',
    `/${'x'.repeat(300)}`,
    `/${'x/'.repeat(300)}`,
    `/${'x'.repeat(1_000_000)}`,
    '__proto__',
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
      const before = (await session.manifest()).manifestHash
      const calls = [
        backend.ls(path),
        backend.read(path),
        backend.readRaw(path),
        backend.write(path, 'x'),
        backend.edit(path, 'a', 'b'),
        backend.delete!(path),
        ...(path === undefined || path === null ? [] : [backend.grep('a', path), backend.glob('*', path)]),
      ]
      for (const result of await Promise.all(calls.map(async (call) => call))) {
        expect(Object.keys(result)).toEqual(['error'])
        expect((result as { error: string }).error).toMatch(/^(INVALID_ARGUMENT|NAME_TOO_LONG): /)
      }
      expect(await backend.downloadFiles!([path])).toMatchObject([{ content: null, error: 'invalid_path' }])
      expect(await backend.uploadFiles!([[path, new Uint8Array(1)]])).toMatchObject([
        { error: 'invalid_path' },
      ])
      expect((await session.manifest()).manifestHash).toBe(before)
    },
  )

  test('after an abort of the run, a read rejects and a write does not begin', async () => {
    const before = (await session.manifest()).manifestHash
    const config = { signal: AbortSignal.abort(new Error('stopped')), configurable: {} }
    const calls = [
      () => backend.ls('/'),
      () => backend.read('/notes.md'),
      () => backend.grep('x'),
      () => backend.write('/x', 'x'),
      () => backend.edit('/notes.md', 'Notes', 'x'),
      () => backend.delete!('/notes.md'),
      () => backend.uploadFiles!([['/x', new Uint8Array(1)]]),
      () => backend.downloadFiles!(['/notes.md']),
    ]
    for (const call of calls)
      await expect(
        Promise.resolve(AsyncLocalStorageProviderSingleton.runWithConfig(config, async () => call())),
      ).rejects.toThrow('stopped')
    expect((await session.manifest()).manifestHash).toBe(before)
  })

  test('hostile arguments get a coded error and change nothing; names of Object.prototype are names', async () => {
    const before = (await session.manifest()).manifestHash
    for (const bad of [undefined, null, 7, {}, [], Symbol('x')] as unknown as string[]) {
      const results = await Promise.all([
        backend.write('/x', bad),
        backend.edit('/notes.md', bad, 'x'),
        backend.edit('/notes.md', 'Notes', bad),
        backend.grep(bad),
        backend.glob(bad),
      ])
      for (const { error } of results) expect(error).toMatch(/^INVALID_ARGUMENT: /)
    }
    const others = await Promise.all([
      backend.edit('/notes.md', 'Notes', 'x', 'yes' as unknown as boolean),
      backend.edit('/notes.md', 'x'.repeat(2 ** 20 + 1), 'x'),
      backend.grep('x'.repeat(1001)),
      backend.grep('', '/'),
      backend.grep('x', '/', 7 as unknown as string),
      backend.grep('x', '/', null, 0),
      backend.grep('x', '/', null, Number.NaN),
      backend.glob('{'.repeat(50)),
      backend.glob('x'.repeat(5000)),
    ])
    for (const { error } of others) expect(error).toMatch(/^(INVALID_ARGUMENT|TOO_LARGE): /)
    for (const list of [undefined, 'x', [7], [['/x', 'text']], [[]]] as never[])
      await expect(Promise.resolve(backend.uploadFiles!(list))).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    const many = Array.from({ length: 1001 }, () => '/x')
    await expect(Promise.resolve(backend.downloadFiles!(many))).rejects.toMatchObject({ reason: 'TOO_LARGE' })
    await expect(Promise.resolve(backend.downloadFiles!('x' as never))).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    })
    expect((await session.manifest()).manifestHash).toBe(before)
    for (const name of ['__proto__', 'constructor', 'toString.png'])
      expect((await backend.write(`/${name}`, 'aaaa')).error).toBeUndefined()
    expect((await backend.ls('/')).files?.map(({ path }) => path)).toContain('/__proto__')
  })
})

describe('commands', () => {
  let session: Session
  beforeEach(async () => {
    session = await engines[0]!.sessions.create({ files })
  })

  test('exist only with exec', () => {
    expect(isSandboxBackend(workspaceBackend(session))).toBe(false)
    const backend = workspaceBackend(session, { exec: () => Promise.reject(new Error('none')) })
    expect(isSandboxBackend(backend)).toBe(true)
    expect(backend.id).toBe(session.id)
    expectTypeOf(backend).toEqualTypeOf<SandboxBackendProtocolV2>()
    expectTypeOf(workspaceBackend(session)).toEqualTypeOf<BackendProtocolV2>()
  })

  test('have both outputs, the exit code, the directory, and a bounded end', async () => {
    const shell = workspaceShell(session)
    const backend = workspaceBackend(session, {
      cwd: '/src',
      exec: (command, options) => shell.exec(command, options),
    })
    expect(await backend.execute('printf out; echo err >&2; exit 4')).toEqual({
      output: 'out\nerr\n',
      exitCode: 4,
      truncated: false,
    })
    expect(await backend.execute('pwd')).toMatchObject({ output: '/src\n', exitCode: 0 })
    const long = await backend.execute('seq 1 50000')
    expect([long.truncated, long.output.length, long.output.endsWith('50000\n')]).toEqual([
      true,
      100_000,
      true,
    ])
    for (const command of ['', undefined, 7] as string[])
      expect(await backend.execute(command)).toMatchObject({
        output: expect.stringMatching(/^INVALID_ARGUMENT: command/) as string,
        exitCode: 1,
      })
  })

  test('run programs of the host through session.exec of an engine that allows it', async () => {
    const engine = await openEngine({
      hostPaths: { roots: [both.directory] },
      exec: { directory: join(both.directory, 'exec'), path: '/usr/bin:/bin' },
    })
    try {
      const own = await engine.sessions.create({ files })
      const backend = workspaceBackend(own, {
        exec: async (command, { cwd = '/', env = {}, signal, callId }) => {
          const marked = callId === undefined ? own : own.withMetadata({ callId })
          const shell = { command: 'sh', args: ['-c', command], cwd, env }
          const { stdout, stderr, exitCode } = await marked.exec({
            ...shell,
            ...(signal !== undefined && { signal }),
          })
          return {
            stdout: Buffer.from(stdout).toString(),
            stderr: Buffer.from(stderr).toString(),
            exitCode: exitCode ?? 137,
          }
        },
      })
      const model = new ScriptedChatModel([
        () => [{ id: 'c1', name: 'execute', args: { command: 'wc -c < notes.md > size; cat size' } }],
        ([output = '']) => output,
      ])
      const { messages } = await createDeepAgent({ model, backend }).invoke(ask)
      expect(messages.at(-1)?.text.trim()).toMatch(/^8\n\n\[Command succeeded/)
      const { events } = await own.events.list()
      expect(events.at(-1)?.details['metadata']).toEqual({ callId: 'c1' })
    } finally {
      await engine.close()
    }
  })

  test('that fail with an error of the session give it as output; other errors are thrown', async () => {
    const shell = workspaceShell(session)
    const conflicting = workspaceBackend(session, {
      exec: async (command, options) => {
        const running = shell.exec(command, options)
        await session.files.write({ path: '/notes.md', content: 'other\n' })
        return running
      },
    })
    expect(await conflicting.execute('sleep 0.05; echo mine > /notes.md')).toMatchObject({
      output: expect.stringMatching(/^MERGE_CONFLICT: /) as string,
      exitCode: 1,
    })
    const broken = workspaceBackend(session, { exec: () => Promise.reject(new Error('broken')) })
    await expect(Promise.resolve(broken.execute('ls'))).rejects.toThrow('broken')
  })
})

describe('the options', () => {
  test('also take a session of a server', async () => {
    const remote = await openRemote()
    try {
      const session = await remote.client.sessions.create({ files })
      const backend = workspaceBackend(session, { turn: () => 'turn 1' })
      expect(await backend.write('/x', 'one')).toMatchObject({ path: '/x' })
      expect(await backend.edit('/x', 'one', 'two')).toMatchObject({ occurrences: 1 })
      expect((await backend.read('/x')).content).toBe('two')
      expect((await backend.read('/none')).error).toMatch(/^File not found/)
      expect((await session.undo({ by: 'group' })).count).toBe(2)
    } finally {
      await remote.close()
    }
  })

  test('without guards, a write replaces a version that the agent has not read', async () => {
    const session = await engines[0]!.sessions.create({ files })
    const backend = workspaceBackend(session, { guards: false })
    await backend.read('/notes.md')
    await session.files.write({ path: '/notes.md', content: 'other' })
    expect((await backend.write('/notes.md', 'mine')).error).toBeUndefined()
  })

  test('are refused when they are unknown or wrong', async () => {
    const session = await engines[0]!.sessions.create({ files })
    for (const options of [
      { exce: 1 },
      { exec: 'sh' },
      { cwd: 'src' },
      { cwd: 1 },
      { turn: 1 },
      { trun: 'x' },
    ])
      expect(() => workspaceBackend(session, options as object)).toThrow(new RegExp(Object.keys(options)[0]!))
    expect(() => workspaceBackend({} as Session)).toThrow(/must be a session/)
  })
})
