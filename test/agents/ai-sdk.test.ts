/** The adapter for the AI SDK, in its own loop with a scripted model: in memory and on LevelDB. */
import { text as textOf } from 'node:stream/consumers'
import { ReadableStream } from 'node:stream/web'
import {
  generateText,
  stepCountIs,
  tool,
  type Experimental_SandboxSession as SandboxSession,
  type ToolSet,
} from 'ai'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest'
import { z } from 'zod'
import { workspaceSandbox, workspaceToolSet, type WorkspaceToolSet } from '../../src/adapters/ai-sdk/index.js'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import type { Engine, Session } from '../../src/index.js'
import { fewStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'
import { openRemote } from '../support/remote.js'
import { scriptedSdkModel } from '../support/scripted-sdk-model.js'

let both: BothEngines
let engines: readonly Engine[]
beforeAll(async () => {
  both = await openBothEngines()
  engines = both.engines
})
afterAll(async () => {
  await both.close()
})

const files = { '/src/a.ts': 'const a = 1\nconst b = 2\n', '/notes.md': '# Notes\n' }

describe.each(fewStores)('the AI SDK on %s', (_, index) => {
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

  test('its loop reads, edits, corrects a stale edit, runs a command, forks, merges and undoes', async () => {
    const shell = workspaceShell(session)
    const tools = {
      ...workspaceToolSet(session, { turn: 'turn 1', metadata: { agent: 'ann' } }),
      bash: tool({
        inputSchema: z.object({ command: z.string() }),
        execute: ({ command }, { toolCallId, abortSignal }) =>
          shell.exec(command, {
            callId: toolCallId,
            turn: 'turn 1',
            ...(abortSignal !== undefined && { signal: abortSignal }),
          }),
        toModelOutput: ({ output }) => ({ type: 'text', value: output.stdout }),
      }),
    }
    const seen: string[] = []
    let fork = ''
    const edit = (oldText: string, newText: string) => ({
      name: 'edit',
      input: { file_path: '/src/a.ts', old_string: oldText, new_string: newText },
    })
    const model = scriptedSdkModel([
      () => [{ id: 'c1', name: 'read', input: { file_path: '/src/a.ts' } }],
      () => [{ id: 'c2', ...edit('a = 1', 'a = 10') }],
      // Before the next call, another agent changes the file.
      () => [{ id: 'c3', ...edit('a = 10', 'a = 11') }],
      (last) => {
        seen.push(last)
        return [{ id: 'c4', name: 'read', input: { file_path: '/src/a.ts' } }]
      },
      () => [{ id: 'c5', ...edit('a = 10', 'a = 11') }],
      () => [{ id: 'c6', name: 'bash', input: { command: 'wc -l < /src/a.ts > /count && cat /count' } }],
      (last) => {
        seen.push(last)
        return [{ id: 'c7', name: 'fork', input: { label: 'attempt' } }]
      },
      (last) => {
        fork = /Fork (\S+) has/.exec(last)?.[1] ?? ''
        return [{ id: 'c8', name: 'switch_workspace', input: { workspace: fork } }]
      },
      () => [{ id: 'c9', name: 'write', input: { file_path: '/new.md', content: 'of the fork\n' } }],
      () => [{ id: 'c10', name: 'switch_workspace', input: { workspace: 'main' } }],
      () => [{ id: 'c11', name: 'merge', input: { workspace: fork } }],
      () => [{ id: 'c12', name: 'undo', input: {} }],
      (last) => {
        seen.push(last)
        return 'done'
      },
    ])
    const { text, steps } = await generateText({
      model,
      tools,
      prompt: 'Improve the files.',
      stopWhen: stepCountIs(20),
      onStepEnd: async ({ toolCalls }) => {
        if (toolCalls[0]?.toolCallId === 'c2')
          await session.text.edit({ path: '/src/a.ts', oldText: 'b = 2', newText: 'b = 3' })
      },
    })
    expect(text).toBe('done')
    expect(seen[0]).toMatch(/^error-text: HASH_MISMATCH: /)
    expect(seen.slice(1)).toEqual(['text: 2\n', 'text: 1 change undone: these paths:\nremoved /new.md'])
    expect(await read('/src/a.ts')).toBe('const a = 11\nconst b = 3\n')
    const { events } = await session.events.list({ pageSize: 1000 })
    const marked = events.filter(({ details }) => details['metadata'] !== undefined)
    expect(marked.map(({ details }) => (details['metadata'] as { callId: string }).callId)).toEqual([
      'c2',
      'c5',
      'c6',
      'c11',
      'c12',
    ])
    expect(new Set(marked.map(({ details }) => details['group']))).toEqual(new Set(['turn 1']))
    const editResult = steps[1]?.toolResults[0]
    expect(editResult?.output).toMatchObject({ isError: false, data: { path: '/src/a.ts' } })
  })

  test('an input that does not fit is an error for the model, and changes nothing', async () => {
    const before = (await session.manifest()).manifestHash
    let last = ''
    await generateText({
      model: scriptedSdkModel([
        () => [{ id: 'c1', name: 'edit', input: { file_path: '/notes.md', old_string: 'x' } }],
        (output) => {
          last = output
          return 'done'
        },
      ]),
      tools: workspaceToolSet(session),
      prompt: 'Edit.',
      stopWhen: stepCountIs(3),
    })
    expect(last).toMatch(/^error-text: .*new_string/s)
    expect((await session.manifest()).manifestHash).toBe(before)
  })

  test('a turn can be a function, and an aborted signal ends a call', async () => {
    let turn = 1
    const { write } = workspaceToolSet(session, { turn: () => `turn ${turn}` })
    const call = (id: string, abortSignal?: AbortSignal): Promise<unknown> =>
      Promise.resolve(
        write.execute?.(
          { file_path: '/x', content: id },
          { toolCallId: id, messages: [], context: {}, ...(abortSignal !== undefined && { abortSignal }) },
        ),
      )
    await call('c1')
    turn = 2
    await call('c2')
    await expect(call('c3', AbortSignal.abort(new Error('stopped')))).rejects.toThrow('stopped')
    const { events } = await session.events.list()
    expect(events.slice(-2).map(({ details }) => [details['group'], details['metadata']])).toEqual([
      ['turn 1', { callId: 'c1' }],
      ['turn 2', { callId: 'c2' }],
    ])
  })

  test('a tool of the loop gets the sandbox', async () => {
    const shell = workspaceShell(session)
    const sandbox = workspaceSandbox(session, {
      cwd: '/src',
      exec: (command, options) => shell.exec(command, options),
    })
    let last = ''
    await generateText({
      model: scriptedSdkModel([
        () => [
          { id: 'c1', name: 'bash', input: { command: 'echo "$WHO" > who; cat who; ls missing; exit 3' } },
        ],
        (output) => {
          last = output
          return 'done'
        },
      ]),
      tools: {
        bash: tool({
          inputSchema: z.object({ command: z.string() }),
          execute: async ({ command }, { experimental_sandbox }) =>
            experimental_sandbox?.run({ command, env: { WHO: 'ann' } }),
          toModelOutput: ({ output }) => ({ type: 'text', value: JSON.stringify(output) }),
        }),
      },
      experimental_sandbox: sandbox,
      prompt: sandbox.description,
      stopWhen: stepCountIs(3),
    })
    expect(JSON.parse(last.slice('text: '.length))).toMatchObject({
      exitCode: 3,
      stdout: 'ann\n',
      stderr: expect.stringContaining('missing') as string,
    })
    expect(await read('/src/who')).toBe('ann\n')
  })

  test('the sandbox reads, writes, lists and deletes files', async () => {
    const sandbox = workspaceSandbox(session, { cwd: '/src' })
    expect(await textOf((await sandbox.readFile({ path: 'a.ts' }))!)).toBe(files['/src/a.ts'])
    expect(await sandbox.readTextFile({ path: '../notes.md' })).toBe('# Notes\n')
    const lines = (startLine?: number, endLine?: number) =>
      sandbox.readTextFile({
        path: 'a.ts',
        ...(startLine !== undefined && { startLine }),
        ...(endLine !== undefined && { endLine }),
      })
    expect(await lines(2)).toBe('const b = 2\n')
    expect(await lines(1, 1)).toBe('const a = 1\n')
    expect(await lines(2, 99)).toBe('const b = 2\n')
    expect(await lines(9)).toBe('')
    expect(await lines(2, 1)).toBe('')
    await expect(lines(0)).rejects.toThrow(/startLine/)
    const before = (await session.events.list({ pageSize: 1000 })).events.length
    const pieces = ['one\n', 'two\n'].map((piece) => Buffer.from(piece))
    await sandbox.writeFile({ path: '/deep/er/c', content: ReadableStream.from<Uint8Array>(pieces) })
    await sandbox.writeBinaryFile({ path: 'b.bin', content: new Uint8Array([0, 255]) })
    expect((await session.events.list({ pageSize: 1000 })).events.length).toBe(before + 2)
    expect(await read('/deep/er/c')).toBe('one\ntwo\n')
    expect([...((await sandbox.readBinaryFile({ path: 'b.bin' })) ?? [])]).toEqual([0, 255])
    for (const encoding of ['utf-8', 'utf-16le', 'latin1']) {
      await sandbox.writeTextFile({
        path: 't',
        content: '\u{FEFF}é'.slice(encoding === 'latin1' ? 1 : 0),
        encoding,
      })
      expect(await sandbox.readTextFile({ path: 't', encoding })).toMatch(/é$/)
    }
    expect(await sandbox.readTextFile({ path: 't', encoding: 'utf-8' })).not.toBe('é')
    await expect(sandbox.readTextFile({ path: 't', encoding: 'ebcdic' })).rejects.toThrow(
      /encoding.*must be one of utf-8, .*; it is ebcdic/,
    )
    expect(await sandbox.stat({ path: '.' })).toMatchObject({ type: 'directory' })
    expect(await sandbox.stat({ path: 'b.bin' })).toEqual({ type: 'file', size: 2 })
    await session.files.createSymlink({ linkPath: '/src/link', target: 'b.bin' })
    expect(await sandbox.stat({ path: 'link' })).toEqual({ type: 'file', size: 2 })
    expect(await sandbox.listDirectory({ path: '' })).toEqual([
      { name: 'a.ts', type: 'file' },
      { name: 'b.bin', type: 'file' },
      { name: 'link', type: 'symlink' },
      { name: 't', type: 'file' },
    ])
    expect(await sandbox.deleteFile({ path: 'link' })).toBe(true)
    expect(await sandbox.deleteFile({ path: 'link' })).toBe(false)
    expect(await read('/src/b.bin')).not.toBe('')
  })

  test('the sandbox gives null for paths without anything, and refuses the wrong kind', async () => {
    const sandbox = workspaceSandbox(session)
    for (const path of ['/none', '/notes.md/x']) {
      expect(await sandbox.readFile({ path })).toBe(null)
      expect(await sandbox.readBinaryFile({ path })).toBe(null)
      expect(await sandbox.readTextFile({ path })).toBe(null)
      expect(await sandbox.stat({ path })).toBe(null)
      expect(await sandbox.deleteFile({ path })).toBe(false)
    }
    expect(await sandbox.listDirectory({ path: '/none' })).toBe(null)
    const before = (await session.manifest()).manifestHash
    for (const [reason, call] of [
      ['NOT_A_DIRECTORY', () => sandbox.listDirectory({ path: '/notes.md' })],
      ['IS_A_DIRECTORY', () => sandbox.readTextFile({ path: '/src' })],
      ['IS_A_DIRECTORY', () => sandbox.writeTextFile({ path: '/src', content: '' })],
      ['IS_A_DIRECTORY', () => sandbox.deleteFile({ path: '/src' })],
    ] as const)
      await expect(Promise.resolve(call())).rejects.toMatchObject({ reason })
    expect((await session.manifest()).manifestHash).toBe(before)
  })

  test('a write that is aborted or whose stream fails changes nothing', async () => {
    const sandbox = workspaceSandbox(session)
    const before = (await session.manifest()).manifestHash
    const stop = new AbortController()
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        controller.enqueue(Buffer.from('x'))
        if (!stop.signal.aborted) setTimeout(() => stop.abort(new Error('stopped')), 5)
      },
    })
    const failing = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.error(new Error('broken')),
    })
    const abortSignal = stop.signal
    await expect(
      Promise.resolve(sandbox.writeFile({ path: '/x', content: endless, abortSignal })),
    ).rejects.toThrow('stopped')
    await expect(Promise.resolve(sandbox.writeFile({ path: '/x', content: failing }))).rejects.toThrow(
      'broken',
    )
    await expect(
      Promise.resolve(sandbox.writeTextFile({ path: '/x', content: '', abortSignal })),
    ).rejects.toThrow('stopped')
    await expect(Promise.resolve(sandbox.deleteFile({ path: '/notes.md', abortSignal }))).rejects.toThrow(
      'stopped',
    )
    await expect(Promise.resolve(sandbox.stat({ path: '/', abortSignal }))).rejects.toThrow('stopped')
    expect((await session.manifest()).manifestHash).toBe(before)
  })

  test('commands fail with NO_ADAPTER without exec', async () => {
    const sandbox = workspaceSandbox(session)
    expect(sandbox.description).toMatch(/Commands do not run here/)
    for (const call of [sandbox.run, sandbox.spawn])
      await expect(Promise.resolve(call({ command: 'ls' }))).rejects.toMatchObject({
        reason: 'NO_ADAPTER',
        message: expect.stringContaining('pass the option exec to workspaceSandbox') as string,
      })
  })

  test('a spawned command gives its output, and can be killed and aborted', async () => {
    const shell = workspaceShell(session)
    const sandbox = workspaceSandbox(session, { exec: (command, options) => shell.exec(command, options) })
    const process = await sandbox.spawn({ command: 'cat notes.md; echo oops >&2; exit 4' })
    expect(await textOf(process.stdout)).toBe('# Notes\n')
    expect(await textOf(process.stderr)).toBe('oops\n')
    expect(await process.wait()).toEqual({ exitCode: 4 })
    await expect(Promise.resolve(sandbox.spawn({ command: 'cat', stdin: true }))).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    })
    const before = (await session.manifest()).manifestHash
    const slow = { command: 'sleep 30; echo late > /late' }
    const killed = await sandbox.spawn(slow)
    await killed.kill()
    await killed.kill()
    expect(await killed.wait()).toEqual({ exitCode: 137 })
    expect(await textOf(killed.stdout)).toBe('')
    const stop = new AbortController()
    const aborted = await sandbox.spawn({ ...slow, abortSignal: stop.signal })
    const running = sandbox.run({ ...slow, abortSignal: stop.signal })
    stop.abort(new Error('stopped'))
    await expect(Promise.resolve(aborted.wait())).rejects.toThrow('stopped')
    await expect(Promise.resolve(running)).rejects.toThrow('stopped')
    expect((await session.manifest()).manifestHash).toBe(before)
  })
})

describe('the types and options', () => {
  test('are those of the AI SDK', () => {
    expectTypeOf(workspaceSandbox).returns.toEqualTypeOf<SandboxSession>()
    expectTypeOf<WorkspaceToolSet>().toExtend<ToolSet>()
  })

  test('also take a session of a server', async () => {
    const remote = await openRemote()
    try {
      const session = await remote.client.sessions.create({ files })
      const sandbox = workspaceSandbox(session)
      await sandbox.writeTextFile({ path: 'x', content: 'one' })
      expect(await textOf((await sandbox.readFile({ path: 'x' }))!)).toBe('one')
      expect(await sandbox.readTextFile({ path: 'none' })).toBe(null)
      expect(Object.keys(workspaceToolSet(session))).toHaveLength(19)
    } finally {
      await remote.close()
    }
  })

  test('refuse what is wrong', async () => {
    const session = await engines[0]!.sessions.create({ files })
    for (const options of [{ exce: 1 }, { exec: 'sh' }, { cwd: 'src' }, { description: 1 }])
      expect(() => workspaceSandbox(session, options as object)).toThrow(new RegExp(Object.keys(options)[0]!))
    for (const options of [{ trun: '1' }, { turn: 1 }, { guards: 1, gaurds: 1 }])
      expect(() => workspaceToolSet(session, options as object)).toThrow(/trun|turn|gaurds/)
    expect(() => workspaceSandbox({} as Session)).toThrow(/must be a session/)
    expect(() => workspaceToolSet({} as Session)).toThrow(/must be a session/)
  })
})
