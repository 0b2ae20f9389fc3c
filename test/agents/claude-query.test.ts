/** The adapter for the Claude Agent SDK, in its own loop: the program that the SDK ships, with a scripted model. */
import { EventEmitter, once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SDKUserMessage } from '@anthropic-ai/claude-agent-sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claudeWorkspace, claudeWorktrees } from '../../src/adapters/claude/index.js'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { hasClaudeCode, runQuery } from '../support/claude-code.js'
import { scriptedMessagesApi, type ScriptedAnswer } from '../support/scripted-messages-api.js'
import { isLong } from '../support/seed.js'

let home: string
let engine: Engine
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'claude-'))
  engine = await openEngine({ hostPaths: { roots: [home] } })
})
afterAll(async () => {
  await engine.close()
  await rm(home, { recursive: true })
})

const files = { '/src/a.ts': 'const a = 1\nconst b = 2\n', '/notes.md': '# Notes\n' }
const create = (): Promise<Session> => engine.sessions.create({ files })
const read = async (session: Session, path: string): Promise<string> =>
  Buffer.from(await session.files.read({ path })).toString()
const user = (content: string, uuid?: SDKUserMessage['uuid']): SDKUserMessage => ({
  type: 'user',
  message: { role: 'user', content },
  parent_tool_use_id: null,
  ...(uuid !== undefined && { uuid }),
})

describe.skipIf(!hasClaudeCode)('Claude Code', { timeout: 60_000 }, () => {
  test('its built-in tools read, edit, search and run commands in the session', async () => {
    const session = await create()
    const shell = workspaceShell(session)
    const cwd = join(home, 'work')
    const workspace = claudeWorkspace(session, {
      metadata: { agent: 'ann' },
      exec: (command, options) => shell.exec(command, options),
      cwd,
    })
    const seen: string[] = []
    const after =
      (answer: ReturnType<ScriptedAnswer>): ScriptedAnswer =>
      (last) => {
        seen.push(last)
        return answer
      }
    const edit = (id: string, old_string: string, new_string: string) => [
      {
        id,
        name: 'Edit',
        input: { file_path: `${cwd}/src/a.ts`, old_string, new_string, replace_all: false },
      },
    ]
    await using api = await scriptedMessagesApi([
      () => [
        { id: 'toolu_1', name: 'Read', input: { file_path: `${cwd}/src/a.ts`, offset: 0, limit: 5000 } },
      ],
      after(edit('toolu_2', 'a = 1', 'a = 10')),
      (last) => {
        seen.push(last)
        // Another agent changes the file before the next call.
        session.fs.appendFileSync('/src/a.ts', 'const c = 3\n')
        return edit('toolu_3', 'a = 10', 'a = 11')
      },
      after([{ id: 'toolu_4', name: 'Read', input: { file_path: 'src/a.ts' } }]),
      after(edit('toolu_5', 'a = 10', 'a = 11')),
      after([{ id: 'toolu_6', name: 'Write', input: { file_path: '/new.md', content: 'new\n' } }]),
      after([{ id: 'toolu_7', name: 'Glob', input: { pattern: '**/*.md' } }]),
      after([
        {
          id: 'toolu_8',
          name: 'Grep',
          input: { pattern: '[a-z] = \\d+', path: cwd, output_mode: 'content', '-o': true, head_limit: 0 },
        },
      ]),
      after([
        {
          id: 'toolu_9',
          name: 'Bash',
          input: {
            command: 'rm /notes.md; cat /new.md; exit 3',
            description: 'Removes a file',
            timeout: 5000,
          },
        },
      ]),
      after('done'),
    ])
    const messages = await runQuery(workspace.prompts('Improve the files.'), {
      ...workspace.options,
      url: api.url,
      home,
    })
    expect(messages.find(({ type }) => type === 'result')).toMatchObject({
      subtype: 'success',
      result: 'done',
    })
    expect(api.requests[0]?.tools?.map(({ name }) => name).toSorted()).toEqual(
      ['Bash', 'Edit', 'Glob', 'Grep', 'Read', 'Write'].map((name) => `mcp__forkspace__${name}`),
    )
    expect(seen[0]).toBe('     1\tconst a = 1\n     2\tconst b = 2')
    expect(seen[1]).toContain('The file /src/a.ts has been edited.')
    expect(seen[2]).toMatch(/^error: HASH_MISMATCH: .*It changed after you last read it/s)
    expect(seen.slice(6)).toEqual([
      '/new.md\n/notes.md',
      '/src/a.ts:1:a = 11\n/src/a.ts:2:b = 2\n/src/a.ts:3:c = 3',
      'error: Exit code 3\nnew',
    ])
    expect(await read(session, '/src/a.ts')).toBe('const a = 11\nconst b = 2\nconst c = 3\n')

    const { events } = await session.events.list({ pageSize: 1000 })
    const marked = events.filter(({ details }) => details['group'] !== undefined)
    const turn = workspace.turns[0]?.userMessageId
    expect(marked.map(({ details }) => details['group'])).toEqual([turn, turn, turn, turn])
    expect(marked.map(({ details }) => (details['metadata'] as { callId: string }).callId)).toEqual([
      'toolu_2',
      'toolu_5',
      'toolu_6',
      'toolu_9',
    ])
    expect(await readdir(cwd)).toEqual([])
  })

  test.runIf(isLong)('a read of an image shows it, and a file that cannot be shown is an error', async () => {
    const session = await create()
    const png = Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
      'base64',
    )
    await session.files.write({ path: '/dot.PNG', content: png })
    await session.files.write({ path: '/page.pdf', content: '%PDF-1.7' })
    await session.files.write({ path: '/huge.jpg', content: new Uint8Array(4_000_000) })
    await session.files.write({ path: '/book.ipynb', content: '{"cells": []}' })
    const workspace = claudeWorkspace(session)
    const seen: string[] = []
    const paths = ['/dot.PNG', '/page.pdf', '/huge.jpg', '/none.gif', '/book.ipynb']
    await using api = await scriptedMessagesApi([
      ...paths.map((path, at): ScriptedAnswer => (last) => {
        seen.push(last)
        return [{ id: `toolu_${at}`, name: 'Read', input: { file_path: path } }]
      }),
      (last) => {
        seen.push(last)
        return 'done'
      },
    ])
    await runQuery(workspace.prompts('Look.'), { ...workspace.options, url: api.url, home })
    const [, image, ...others] = seen
    expect(image).toContain('/dot.PNG: image/png, 70 bytes.')
    expect(JSON.stringify(api.requests[1]?.messages)).toContain(
      `"source":{"type":"base64","media_type":"image/png","data":"${png.toString('base64')}"`,
    )
    expect(others[0]).toMatch(/INVALID_ARGUMENT: .*application\/pdf, which cannot be shown/)
    expect(others[1]).toMatch(/TOO_LARGE: /)
    expect(others[2]).toMatch(/PATH_NOT_FOUND: /)
    expect(others[3]).toBe('     1\t{"cells": []}')
  })

  test('without exec there is no Bash, and files of the host stay out of reach', async () => {
    const session = await create()
    const before = (await session.manifest()).manifestHash
    const secret = join(home, 'secret.txt')
    await writeFile(secret, 'of the host')
    const workspace = claudeWorkspace(session)
    const seen: string[] = []
    const calls = [
      { name: 'Bash', input: { command: `cat ${secret}` } },
      { name: 'Read', input: { file_path: secret } },
      { name: 'Read', input: { file_path: `../../../..${secret}` } },
      { name: 'Grep', input: { pattern: 'host', path: home } },
      { name: 'NotebookEdit', input: { notebook_path: secret, new_source: '' } },
      { name: 'Edit', input: { file_path: '/src/a.ts', old_string: 5, __proto__: null } },
      { name: 'Write', input: { file_path: '/a\0b', content: 'x' } },
      { name: 'Read', input: {} },
    ]
    await using api = await scriptedMessagesApi([
      ...calls.map(({ name, input }, index): ScriptedAnswer => (last) => {
        seen.push(last)
        return [{ id: `toolu_${index}`, name, input }]
      }),
      (last) => {
        seen.push(last)
        return 'done'
      },
    ])
    await runQuery(workspace.prompts(`Look at @${secret}`), { ...workspace.options, url: api.url, home })
    expect(seen.slice(1).every((text) => text.startsWith('error: '))).toBe(true)
    expect(seen[1]).toContain('No such tool available: Bash')
    expect(seen[2]).toContain('PATH_NOT_FOUND')
    expect(seen[3]).toContain('PATH_NOT_FOUND')
    expect(seen[4]).toContain('PATH_NOT_FOUND')
    expect(seen[6]).toContain('INVALID_ARGUMENT')
    expect(seen[7]).toContain('INVALID_ARGUMENT')
    expect(seen[8]).toContain('INVALID_ARGUMENT')
    expect(JSON.stringify(api.requests)).not.toContain('of the host')
    expect((await session.manifest()).manifestHash).toBe(before)
  })

  test.runIf(isLong)(
    'a rewind to a user message undoes the later changes of tools and commands',
    async () => {
      const session = await create()
      const shell = workspaceShell(session)
      const workspace = claudeWorkspace(session, { exec: (command, options) => shell.exec(command, options) })
      const bash = (id: string, command: string) => [{ id, name: 'Bash', input: { command } }]
      const turns = new EventEmitter()
      const [first, last] = [once(turns, 'first'), once(turns, 'last')]
      await using api = await scriptedMessagesApi([
        () => bash('toolu_1', 'echo one >> /notes.md'),
        () => {
          turns.emit('first')
          return 'done'
        },
        () => bash('toolu_2', 'mkdir -p /made && printf "two\\nthree\\n" > /made/b.txt && rm /notes.md'),
        () => [{ id: 'toolu_3', name: 'Write', input: { file_path: '/src/a.ts', content: 'const a = 1\n' } }],
        () => {
          turns.emit('last')
          return 'done'
        },
      ])
      const second = '5d1ffb5e-7a3e-4c12-9a35-0a1d1d4f0a10'
      const messages = async function* () {
        yield user('First.')
        await first
        yield user('Second.', second)
        yield user('And more.')
        // The SDK closes the input of the program after the last message, and with it the tools.
        await last
      }
      await runQuery(workspace.prompts(messages()), { ...workspace.options, url: api.url, home })
      expect(workspace.turns).toHaveLength(3)
      expect(workspace.turns[1]?.userMessageId).toBe(second)
      expect(session.fs.existsSync('/notes.md')).toBe(false)

      const changes = {
        canRewind: true,
        filesChanged: ['/made/b.txt', '/notes.md', '/src/a.ts'],
        insertions: 3,
        deletions: 2,
      }
      const before = (await session.manifest()).manifestHash
      expect(await workspace.rewindFiles(second, { dryRun: true })).toEqual(changes)
      expect((await session.manifest()).manifestHash).toBe(before)
      expect(await workspace.rewindFiles(second)).toEqual(changes)
      expect(await read(session, '/notes.md')).toBe('# Notes\none\n')
      expect(session.fs.existsSync('/made')).toBe(false)
      await session.undo()
      expect((await session.manifest()).manifestHash).toBe(before)
      await workspace.rewindFiles(workspace.turns[0]?.userMessageId ?? '')
      expect(await read(session, '/notes.md')).toBe('# Notes\n')

      // Another workspace on the session finds the checkpoints.
      expect(await claudeWorkspace(session).rewindFiles(second, { dryRun: true })).toMatchObject({
        canRewind: true,
      })
    },
  )

  test('a worktree is a fork in a directory, and its changes come back', async () => {
    const session = await create()
    const worktrees = claudeWorktrees(session, { directory: join(home, 'worktrees') })
    await using api = await scriptedMessagesApi([
      () => [{ id: 'toolu_1', name: 'EnterWorktree', input: { name: 'try-1' } }],
      () => [
        {
          id: 'toolu_2',
          name: 'Write',
          input: { file_path: `${home}/worktrees/try-1/new.md`, content: 'new\n' },
        },
      ],
      () => [{ id: 'toolu_3', name: 'ExitWorktree', input: { action: 'remove', discard_changes: true } }],
      () => 'done',
    ])
    await runQuery('Try it.', {
      url: api.url,
      home,
      tools: ['EnterWorktree', 'ExitWorktree', 'Write'],
      allowedTools: ['EnterWorktree', 'ExitWorktree', 'Write'],
      permissionMode: 'acceptEdits',
      hooks: worktrees.hooks,
    })
    const [worktree] = worktrees.list
    expect(worktree).toMatchObject({ name: 'try-1', isRemoved: true })
    expect(await readdir(join(home, 'worktrees'))).toEqual([])
    expect(session.fs.existsSync('/new.md')).toBe(false)
    expect(worktree?.fork.fs.readFileSync('/new.md', 'utf8')).toBe('new\n')
    await session.merge({ sessionId: worktree?.fork.id ?? '' })
    expect(await read(session, '/new.md')).toBe('new\n')
  })

  test.runIf(isLong)('a worktree that cannot be a fork is not created in another way', async () => {
    const session = await create()
    const outside = await mkdtemp(join(tmpdir(), 'outside-'))
    const worktrees = claudeWorktrees(session, { directory: outside })
    const seen: string[] = []
    await using api = await scriptedMessagesApi([
      () => [{ id: 'toolu_1', name: 'EnterWorktree', input: { name: 'try-2' } }],
      (last) => {
        seen.push(last)
        return 'done'
      },
    ])
    const tools = ['EnterWorktree']
    await runQuery('Try it.', { url: api.url, home, tools, allowedTools: tools, hooks: worktrees.hooks })
    expect(seen[0]).toMatch(/^error: .*WorktreeCreate/s)
    expect(worktrees.list).toEqual([])
    expect(await readdir(outside)).toEqual([])
    await rm(outside, { recursive: true })
  })

  test.runIf(isLong)('a message of several blocks is recognised', async () => {
    const session = await create()
    const workspace = claudeWorkspace(session)
    await using api = await scriptedMessagesApi([() => 'done'])
    const content = [
      { type: 'text' as const, text: 'Look at this.' },
      { type: 'text' as const, text: 'And at that.' },
    ]
    const message = { ...user(''), message: { role: 'user' as const, content } }
    await runQuery(workspace.prompts([message]), { ...workspace.options, url: api.url, home })
    expect(workspace.turns).toHaveLength(1)
    expect((await session.listCheckpoints()).checkpoints).toHaveLength(2)
  })
})
