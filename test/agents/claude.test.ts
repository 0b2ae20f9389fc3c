/** The adapter for the Claude Agent SDK, without its program: the server, the hooks, rewinds, and hostile arguments. */
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HookCallbackMatcher, HookInput, Options, SDKUserMessage } from '@anthropic-ai/claude-agent-sdk'
import Anthropic from '@anthropic-ai/sdk'
import { betaMemoryTool } from '@anthropic-ai/sdk/helpers/beta/memory'
import { Client } from '@modelcontextprotocol/client'
import { InMemoryTransport } from '@modelcontextprotocol/server'
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import {
  claudeWorkspace,
  claudeWorktrees,
  type ClaudeQuerySettings,
  type ClaudeWorkspace,
} from '../../src/adapters/claude/index.js'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { workspaceTools } from '../../src/adapters/tools/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { fewStores } from '../support/engines-of-both-stores.js'
import { scriptedMessagesApi } from '../support/scripted-messages-api.js'
import { isLong } from '../support/seed.js'

let directory: string
const engines: Engine[] = []
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'claude-'))
  const hostPaths = { roots: [directory] }
  const exec = { directory: join(directory, 'exec'), path: process.env['PATH'] ?? '' }
  engines.push(await openEngine({ hostPaths, exec }))
  engines.push(
    await openEngine({
      hostPaths,
      exec,
      storage: levelStorage(join(directory, 'data'), { durability: 'relaxed' }),
    }),
  )
})
afterAll(async () => {
  for (const engine of engines) await engine.close()
  await rm(directory, { recursive: true })
})

const files = { '/src/a.ts': 'const a = 1\nconst b = 2\n', '/notes.md': '# Notes\n' }

interface Called {
  readonly text: string
  readonly isError: boolean
}

/** Calls tools of a workspace as the SDK does: over its own server. */
async function caller(workspace: ClaudeWorkspace) {
  const [near, far] = InMemoryTransport.createLinkedPair()
  const { instance } = workspace.options.mcpServers['forkspace'] ?? {}
  await instance?.connect(far)
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(near)
  const call = async (name: string, input: unknown, options: object = {}): Promise<Called> => {
    const request = {
      name,
      arguments: input as Record<string, unknown>,
      _meta: { 'claudecode/toolUseId': 'toolu_1' },
    }
    const { content, isError } = await client.callTool(request, options)
    const [first] = content
    return { text: first?.type === 'text' ? first.text : '', isError: isError === true }
  }
  return { call, client }
}

const user = (content: string, uuid: SDKUserMessage['uuid']): SDKUserMessage => ({
  type: 'user',
  message: { role: 'user', content },
  parent_tool_use_id: null,
  ...(uuid !== undefined && { uuid }),
})
const image: SDKUserMessage = {
  ...user('', undefined),
  message: {
    role: 'user',
    content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: '' } }],
  },
}
const ids = [
  '5d1ffb5e-7a3e-4c12-9a35-0a1d1d4f0a10',
  '5d1ffb5e-7a3e-4c12-9a35-0a1d1d4f0a11',
  '5d1ffb5e-7a3e-4c12-9a35-0a1d1d4f0a12',
] as const

const runHook = (matchers: readonly HookCallbackMatcher[], input: object): Promise<unknown> => {
  const base = { session_id: 's', transcript_path: '/t', cwd: '/' }
  const [hook] = matchers[0]?.hooks ?? []
  return Promise.resolve(
    hook?.({ ...base, ...input } as HookInput, undefined, { signal: new AbortController().signal }),
  )
}
const submit = (workspace: ClaudeWorkspace, prompt: string, more: object = {}): Promise<unknown> =>
  runHook(workspace.options.hooks.UserPromptSubmit, { hook_event_name: 'UserPromptSubmit', prompt, ...more })

test('the options fit those of a query', () => {
  expectTypeOf<ClaudeQuerySettings>().toExtend<Options>()
})

test.runIf(isLong)(
  'the checkpoints of the newest 1,000 messages are kept, also of earlier processes',
  async () => {
    const [engine] = engines
    const session = await engine?.sessions.create({ files })
    if (session === undefined) throw new Error('no engine')
    await session.checkpoint({ checkpointLabel: 'of the program' })
    const earlier = claudeWorkspace(session)
    for (let at = 0; at < 500; at++) await submit(earlier, 'Go on.', { prompt_id: `prompt-${at}` })
    // A later process has another object.
    const workspace = claudeWorkspace(session)
    for (let at = 500; at <= 1000; at++) await submit(workspace, 'Go on.', { prompt_id: `prompt-${at}` })
    expect(workspace.turns).toHaveLength(501)
    const { checkpoints } = await session.listCheckpoints({ pageSize: 1000 })
    expect(checkpoints[0]).toMatchObject({ checkpointLabel: 'of the program' })
    expect(await workspace.rewindFiles('prompt-0')).toMatchObject({ canRewind: false })
    expect(await workspace.rewindFiles('prompt-1')).toMatchObject({ canRewind: true })
  },
)

describe.each(fewStores)('the adapter for the Claude Agent SDK on %s', (_, index) => {
  let engine: Engine
  let session: Session
  beforeEach(async () => {
    const found = engines[index]
    if (found === undefined) throw new Error('no engine')
    engine = found
    session = await engine.sessions.create({ files })
  })
  const hash = async (): Promise<string> => (await session.manifest()).manifestHash
  const read = (path: string): string => session.fs.readFileSync(path, 'utf8')

  test('refuses hostile inputs of tools with a reason, and changes nothing', async () => {
    const { call } = await caller(
      claudeWorkspace(session, { exec: () => Promise.reject(new Error('not called')) }),
    )
    const before = await hash()
    const huge = 'x'.repeat(5000)
    const inputs: [name: string, input: unknown][] = [
      ...['Read', 'Write', 'Edit', 'Glob', 'Grep', 'Bash'].flatMap((name): [string, unknown][] => [
        [name, {}],
        [name, { file_path: 5, path: 5, pattern: 5, command: 5 }],
        [name, JSON.parse('{"__proto__":{"file_path":"/src/a.ts"}}')],
        [name, { constructor: 'x' }],
      ]),
      ['Read', { file_path: '/src/a.ts', offset: -1 }],
      ['Read', { file_path: '/src/a.ts', limit: 'all' }],
      ['Read', { file_path: '/src/a.ts', pages: '1-2' }],
      ['Read', { file_path: '/../../etc/passwd' }],
      ['Read', { file_path: '/a\0b' }],
      ['Read', { file_path: `/${huge}` }],
      ['Write', { file_path: '/a\0b', content: 'x' }],
      ['Write', { file_path: '/src', content: 'x' }],
      ['Write', { file_path: `/${huge}`, content: 'x' }],
      ['Write', { file_path: '/x', content: 'x', mode: 0o777 }],
      ['Edit', { file_path: '/src/a.ts', old_string: 'const', new_string: 'let' }],
      ['Edit', { file_path: '/src/a.ts', old_string: '', new_string: 'let' }],
      ['Edit', { file_path: '/none', old_string: 'a', new_string: 'b' }],
      ['Grep', { pattern: '(' }],
      ['Grep', { pattern: 'a', head_limit: -1 }],
      ['Grep', { pattern: 'a', output_mode: 'content', '-o': true, multiline: true }],
      ['Bash', { command: 'ls', run_in_background: true }],
      ['Bash', { command: 'ls', timeout: 1e9 }],
      ['WebFetch', { url: 'http://127.0.0.1' }],
      ['constructor', {}],
    ]
    for (const [name, input] of inputs) {
      const { text, isError } = await call(name, input)
      expect(text, `${name} ${JSON.stringify(input)}`).toMatch(/^[A-Z_]+: /)
      expect(isError).toBe(true)
    }
    expect(await hash()).toBe(before)
  })

  test('refuses hostile options and arguments', async () => {
    const reasons = (call: () => unknown): string => {
      try {
        call()
        return 'none'
      } catch (error) {
        return (error as { reason: string }).reason
      }
    }
    for (const options of [{ exec: 'ls' }, { cwd: 'work' }, { cwd: 5 }, { metadata: 5 }, { tools: [] }, null])
      expect(reasons(() => claudeWorkspace(session, options as object))).toBe('INVALID_ARGUMENT')
    for (const none of [undefined, null, 'session', {}])
      expect(reasons(() => claudeWorkspace(none as never))).toBe('INVALID_ARGUMENT')
    for (const options of [
      {},
      { directory: 'work' },
      { directory, checkout: 5 },
      { directory, deleteIgnored: 1 },
      { directory, name: 'x' },
    ])
      expect(reasons(() => claudeWorktrees(session, options as never))).toBe('INVALID_ARGUMENT')
    const workspace = claudeWorkspace(session)
    for (const prompt of [undefined, null, 5, {}])
      expect(reasons(() => workspace.prompts(prompt as never))).toBe('INVALID_ARGUMENT')
    for (const id of ['', 5, null, 'x'.repeat(300), ['a']])
      await expect(workspace.rewindFiles(id as string)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    for (const options of [{ dryRun: 'yes' }, { force: true }, null])
      await expect(workspace.rewindFiles(ids[0], options as object)).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
    expect(await workspace.rewindFiles(ids[0])).toEqual({
      canRewind: false,
      error: `No checkpoint was taken before the user message ${ids[0]}.`,
    })
  })

  test('a read, an edit and a search answer as Claude Code does', async () => {
    const { call } = await caller(claudeWorkspace(session, { cwd: '/work/app/' }))
    expect((await call('Read', { file_path: '/work/app/notes.md', allow_large: true })).text).toBe(
      '     1\t# Notes',
    )
    expect((await call('Read', { file_path: '/work/application/notes.md' })).text).toContain('PATH_NOT_FOUND')
    const grep = (input: object) =>
      call('Grep', { pattern: '[ab]', path: '/work/app', output_mode: 'content', ...input })
    expect((await grep({ pattern: 'B = ', '-i': true, context: 1 })).text).toBe(
      '/src/a.ts-1-const a = 1\n/src/a.ts:2:const b = 2',
    )
    expect((await grep({ '-o': true, '-n': false, type: 'ts' })).text).toBe('/src/a.ts:a\n/src/a.ts:b')
    expect((await grep({ pattern: '^.', '-o': true, glob: '*.ts' })).text).toBe(
      '/src/a.ts:1:c\n/src/a.ts:2:c',
    )
    await session.files.write({ path: '/src/a.ts', content: 'const c = 3\n' })
    expect(
      (await call('Edit', { file_path: '/src/a.ts', old_string: 'c = 3', new_string: '$& $1' })).isError,
    ).toBe(false)
    expect(read('/src/a.ts')).toBe('const $& $1\n')
  })

  test('a command runs with the marks of its call, and ends with its time or signal', async () => {
    const shell = workspaceShell(session)
    const signals: AbortSignal[] = []
    const workspace = claudeWorkspace(session, {
      exec: (command, options) => {
        if (options.signal !== undefined) signals.push(options.signal)
        return command === 'wait' ? new Promise(() => undefined) : shell.exec(command, options)
      },
    })
    await submit(workspace, 'Go.', { prompt_id: 'prompt-1' })
    const { call } = await caller(workspace)
    expect(await call('Bash', { command: 'echo one > /one; printf two' })).toEqual({
      text: 'two',
      isError: false,
    })
    const { events } = await session.events.list({ pageSize: 100 })
    expect(events.at(-1)?.details).toMatchObject({ group: 'prompt-1', metadata: { callId: 'toolu_1' } })
    const slow = await call('Bash', { command: 'wait', timeout: 5 })
    expect(slow).toEqual({ text: 'DEADLINE_EXCEEDED: the command took longer than 5 ms.', isError: true })
    const stop = new AbortController()
    const waiting = call('Bash', { command: 'wait' }, { signal: stop.signal })
    setTimeout(() => stop.abort(), 20)
    await expect(waiting).rejects.toThrow(/abort/i)
    await expect.poll(() => signals.at(-1)?.aborted).toBe(true)
  })

  test('commands can be programs of the host', async () => {
    const workspace = claudeWorkspace(session, {
      exec: (command, { cwd, signal }) =>
        session
          .exec({
            command: 'sh',
            args: ['-c', command],
            ...(cwd !== undefined && { cwd }),
            ...(signal && { signal }),
          })
          .then(({ stdout, stderr, exitCode }) => ({
            stdout: Buffer.from(stdout).toString(),
            stderr: Buffer.from(stderr).toString(),
            exitCode: exitCode ?? 1,
          })),
    })
    const { call } = await caller(workspace)
    expect(await call('Bash', { command: 'cat src/a.ts | wc -l | tr -d " "; echo x > made' })).toEqual({
      text: '2',
      isError: false,
    })
    expect(read('/made')).toBe('x\n')
  })

  test('a narrowed session refuses what its caller may not do', async () => {
    const reader = session.narrow({ without: ['files.write'] })
    const { call } = await caller(claudeWorkspace(reader))
    const before = await hash()
    expect((await call('Read', { file_path: '/notes.md' })).isError).toBe(false)
    expect((await call('Write', { file_path: '/x', content: 'x' })).text).toMatch(/^PERMISSION_DENIED: /)
    expect(await hash()).toBe(before)
  })

  test('messages that wait together are one turn, and each can be rewound to', async () => {
    const workspace = claudeWorkspace(session)
    const sent: SDKUserMessage[] = []
    const passed = (async () => {
      const messages = [user('first', ids[0]), user('second', ids[1]), user('third', undefined)]
      for await (const message of workspace.prompts(messages)) sent.push(message)
    })()
    await passed
    expect(sent.map(({ uuid }) => uuid)).toEqual([
      ...ids.slice(0, 2),
      expect.stringMatching(/^[0-9a-f-]{36}$/),
    ])
    await submit(workspace, 'first')
    await session.files.write({ path: '/one', content: '1\n' })
    await submit(workspace, 'of a subagent', { agent_id: 'agent-1' })
    await submit(workspace, 'second\nthird')
    await session.files.write({ path: '/two', content: '2\n' })
    expect(workspace.turns.map(({ userMessageId }) => userMessageId)).toEqual(sent.map(({ uuid }) => uuid))
    // Each message has one of its arrival, and one of the beginning of its turn.
    expect((await session.listCheckpoints()).checkpoints).toHaveLength(6)
    for (const { uuid = '' } of sent.slice(1))
      expect(await workspace.rewindFiles(uuid, { dryRun: true })).toMatchObject({ filesChanged: ['/two'] })
    expect(await workspace.rewindFiles(ids[0])).toEqual({
      canRewind: true,
      filesChanged: ['/one', '/two'],
      insertions: 0,
      deletions: 2,
    })
    expect(session.fs.readdirSync('/').toSorted()).toEqual(['notes.md', 'src'])
  })

  /** Sends messages one at a time, as a program does while turns run. */
  const sender = (workspace: ClaudeWorkspace) => {
    const queue: SDKUserMessage[] = []
    let wake = (): void => undefined
    const source = async function* () {
      for (;;) {
        const message = queue.shift()
        if (message === undefined) await new Promise<void>((resolve) => (wake = resolve))
        else yield message
      }
    }
    const passed = workspace.prompts(source())[Symbol.asyncIterator]()
    return async (message: SDKUserMessage): Promise<void> => {
      queue.push(message)
      wake()
      await passed.next()
    }
  }
  const write = (content: string) => session.files.write({ path: '/state', content })
  const stateBefore = async (workspace: ClaudeWorkspace, id: string): Promise<string> => {
    await workspace.rewindFiles(id)
    const state = session.fs.existsSync('/state') ? read('/state') : 'none'
    await session.undo()
    return state
  }

  test('a message that joined a running turn keeps its state when a later one has the same text', async () => {
    const workspace = claudeWorkspace(session)
    const send = sender(workspace)
    await send(user('start', ids[0]))
    await submit(workspace, 'start')
    await write('1')
    await send(user('continue', ids[1])) // joins the turn
    await write('2')
    await send(user('continue', ids[2]))
    await write('3')
    await submit(workspace, 'continue')
    await write('4')
    expect(await stateBefore(workspace, ids[2])).toBe('3')
    expect(await stateBefore(workspace, ids[1])).toBe('1')
    expect(await stateBefore(workspace, ids[0])).toBe('none')
  })

  test('a text inside another one is no match, and an image is none', async () => {
    const workspace = claudeWorkspace(session)
    const send = sender(workspace)
    await send(user('ok', ids[0]))
    await write('1')
    await send(user('Look at this', ids[1]))
    await send({ ...image, uuid: ids[2] })
    await submit(workspace, 'Look at this')
    await write('2')
    await submit(workspace, '')
    await write('3')
    expect(workspace.turns.map(({ userMessageId }) => userMessageId)).toEqual([...ids])
    expect(await stateBefore(workspace, ids[0])).toBe('none')
    expect(await stateBefore(workspace, ids[1])).toBe('1')
    expect(await stateBefore(workspace, ids[2])).toBe('2')
    // Equal messages that wait before the first turn begin in their order.
    const other = claudeWorkspace(session)
    for await (const _ of other.prompts([user('go', ids[0]), user('go', ids[1])])) continue
    await submit(other, 'go')
    await write('4')
    await submit(other, 'go')
    expect(await stateBefore(other, ids[1])).toBe('4')
  })

  test('each of two queries has its own turn', async () => {
    const workspace = claudeWorkspace(session)
    const queries = [workspace.options, workspace.options]
    for (const [at, { hooks }] of queries.entries())
      await runHook(hooks.UserPromptSubmit, {
        hook_event_name: 'UserPromptSubmit',
        prompt: 'Go.',
        prompt_id: `query-${at}`,
      })
    for (const [at, options] of queries.entries()) {
      const { call } = await caller({ ...workspace, options })
      expect((await call('Write', { file_path: `/made-${at}`, content: 'x' })).isError).toBe(false)
    }
    const { events } = await session.events.list({ pageSize: 100 })
    expect(events.slice(-2).map(({ details }) => details['group'])).toEqual(['query-0', 'query-1'])
  })

  test('a path with two meanings is refused, and a relative one works', async () => {
    await session.files.write({ path: '/app/main.ts', content: 'in app\n' })
    await session.files.write({ path: '/main.ts', content: 'at root\n' })
    const { call } = await caller(claudeWorkspace(session, { cwd: '/app' }))
    const found = await call('Glob', { pattern: 'app/*.ts' })
    expect(found.text).toContain('/app/main.ts')
    const before = await hash()
    for (const [name, input] of [
      ['Write', { file_path: '/app/main.ts', content: 'x' }],
      ['Read', { file_path: '/app/main.ts' }],
      ['Glob', { pattern: '*', path: '/app' }],
    ] as const)
      expect(await call(name, input)).toMatchObject({
        isError: true,
        text: expect.stringMatching(/^INVALID_ARGUMENT: .*two meanings.*relative path/),
      })
    expect(await hash()).toBe(before)
    expect((await call('Read', { file_path: 'app/main.ts' })).text).toContain('in app')
    expect((await call('Read', { file_path: 'main.ts' })).text).toContain('at root')
  })

  test('refuses messages and results of commands that are none', async () => {
    const workspace = claudeWorkspace(session)
    const pass = async (message: unknown): Promise<void> => {
      for await (const _ of workspace.prompts([message as SDKUserMessage])) continue
    }
    const hostile: unknown[] = [null, 5, {}, { message: null }, { message: { content: null } }]
    hostile.push({ message: { content: [null] } }, { message: { content: [{ type: 'text', text: 5 }] } })
    hostile.push({ ...user('x', undefined), uuid: 'x'.repeat(300) })
    for (const message of hostile)
      await expect(pass(message)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(workspace.turns).toEqual([])
    for (const outcome of [undefined, null, 'x', { exitCode: 0 }, { stdout: 'x', stderr: '' }]) {
      const exec = async () => outcome as never
      const { call } = await caller(claudeWorkspace(session, { exec }))
      expect((await call('Bash', { command: 'ls' })).text).toMatch(/^INVALID_ARGUMENT: exec/)
    }
  })

  test('a worktree is removed only after its changes are in the fork', async () => {
    const place = join(directory, `worktrees-${index}`)
    const checkout = { ignore: ['*.log'] }
    const worktrees = claudeWorktrees(session, { directory: place, checkout, deleteIgnored: true })
    const create = (name: unknown) =>
      runHook(worktrees.hooks.WorktreeCreate, { hook_event_name: 'WorktreeCreate', name })
    const remove = (path: unknown) =>
      runHook(worktrees.hooks.WorktreeRemove, { hook_event_name: 'WorktreeRemove', worktree_path: path })
    for (const name of ['', '..', '.', '../x', 'a/b', 'a\0b', '-x', 'x'.repeat(500), 5, null])
      await expect(create(name)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect(await create('one')).toEqual({
      hookSpecificOutput: { hookEventName: 'WorktreeCreate', worktreePath: join(place, 'one') },
    })
    await writeFile(join(place, 'one', 'made.txt'), 'made')
    await writeFile(join(place, 'one', 'debug.log'), 'not synced')
    const [worktree] = worktrees.list
    // The fork has another change of the same path.
    await worktree?.fork.files.write({ path: '/made.txt', content: 'other' })
    await expect(remove(join(place, 'one'))).rejects.toMatchObject({ reason: 'CHECKOUT_MODIFIED' })
    expect(await readdir(join(place, 'one'))).toContain('made.txt')
    await worktree?.fork.files.delete({ path: '/made.txt' })
    await mkdir(join(directory, `other-${index}`))
    await symlink(join(place, 'one'), join(directory, `link-${index}`))
    for (const path of [
      join(directory, `other-${index}`),
      join(directory, `link-${index}`),
      place,
      '/',
      '',
      5,
    ])
      await expect(remove(path)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
    await remove(join(place, 'one'))
    expect(await readdir(place)).toEqual([])
    expect(worktrees.list).toMatchObject([{ name: 'one', isRemoved: true }])
    expect(worktree?.fork.fs.readdirSync('/').toSorted()).toEqual(['made.txt', 'notes.md', 'src'])
    await expect(remove(join(place, 'one'))).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })

    // A directory with files of another origin is refused, and leaves no fork.
    await mkdir(join(place, 'taken'))
    await writeFile(join(place, 'taken', 'mine.txt'), 'mine')
    const before = (await engine.sessions.list()).sessions.length
    await expect(create('taken')).rejects.toMatchObject({ reason: 'CHECKOUT_MODIFIED' })
    expect((await engine.sessions.list()).sessions).toHaveLength(before)
    const outside = claudeWorktrees(session, { directory: tmpdir() })
    await expect(
      runHook(outside.hooks.WorktreeCreate, { hook_event_name: 'WorktreeCreate', name: 'x' }),
    ).rejects.toMatchObject({ reason: 'HOST_PATH_NOT_ALLOWED' })
  })

  test('the memory tool of the SDK keeps its notes in the session', async () => {
    const { memory } = workspaceTools(session)
    const run = async (command: { readonly command: string }): Promise<string> => {
      const { text, isError } = await memory.call(command)
      if (isError) throw new Error(text)
      return text
    }
    const tool = betaMemoryTool({
      view: run,
      create: run,
      str_replace: run,
      insert: run,
      delete: run,
      rename: run,
    })
    const seen: string[] = []
    const steps = [
      { command: 'view', path: '/memories' },
      { command: 'create', path: '/memories/a.md', file_text: 'one\n' },
      { command: 'str_replace', path: '/memories/a.md', old_str: 'one', new_str: 'two' },
      { command: 'insert', path: '/memories/a.md', insert_line: 0, insert_text: 'zero\n' },
      { command: 'rename', old_path: '/memories/a.md', new_path: '/memories/b.md' },
      { command: 'view', path: '/memories/b.md' },
      { command: 'create', path: '/memories/../etc/c', file_text: 'x' },
      { command: 'delete', path: '/memories/b.md' },
    ]
    await using api = await scriptedMessagesApi([
      ...steps.map((input, at) => (last: string) => {
        seen.push(last)
        return [{ id: `toolu_${at}`, name: 'memory', input }]
      }),
      (last) => {
        seen.push(last)
        return 'done'
      },
    ])
    const client = new Anthropic({ baseURL: api.url, apiKey: 'of the test' })
    const final = await client.beta.messages.toolRunner({
      model: 'claude-sonnet-4-5',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Remember.' }],
      tools: [tool],
    })
    expect(final.content).toEqual([{ type: 'text', text: 'done' }])
    expect(seen[1]).toBe('/memories is empty. Create a file in it to remember something.')
    expect(seen[6]).toContain('     1\tzero\n     2\ttwo')
    expect(seen[7]).toMatch(/^error: .*INVALID_ARGUMENT: .*must be \/memories or below it/s)
    expect(seen[8]).toBe('Successfully deleted /memories/b.md')
    expect(session.fs.readdirSync('/memories')).toEqual([])
  })
})
