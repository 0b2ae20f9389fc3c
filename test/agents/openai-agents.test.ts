/** The adapter for the Agents SDK of OpenAI, in its own loop with a scripted model: in memory and on LevelDB. */
import {
  Agent,
  applyPatchTool,
  run,
  setTracingDisabled,
  shellTool,
  tool,
  type ApplyPatchOperation,
  type ApplyPatchResult,
  type ApplyPatchTool,
  type Editor,
  type RunContext,
  type Shell,
  type Tool,
} from '@openai/agents'
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from '@openai/agents/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest'
import { z } from 'zod'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import {
  workspaceEditor,
  workspaceFunctionTools,
  workspacePatchTool,
  workspaceShellFor,
  workspaceShellTool,
} from '../../src/adapters/openai-agents/index.js'
import type { Engine, Session } from '../../src/index.js'
import { fewStores, openBothEngines, type BothEngines } from '../support/engines-of-both-stores.js'

let both: BothEngines
let engines: readonly Engine[]
beforeAll(async () => {
  setTracingDisabled(true)
  both = await openBothEngines()
  engines = both.engines
})
afterAll(async () => {
  await both.close()
})

const files = { '/src/a.ts': 'const a = 1\nconst b = 2\n', '/notes.md': '# Notes\n' }

/** An answer of the scripted model, from the text of the newest output of a tool. */
type Step = (last: string) => string | object

function scripted(steps: readonly Step[]): ScriptedModel {
  return new ScriptedModel(
    steps.map((step) =>
      modelResponder(({ request }) => {
        const last = Array.isArray(request.input) ? request.input.at(-1) : undefined
        const answer = step(JSON.stringify(last ?? ''))
        return [typeof answer === 'string' ? assistantMessage(answer) : (answer as never)]
      }),
    ),
  )
}

const patchCall = (callId: string, operation: ApplyPatchOperation) => ({
  type: 'apply_patch_call',
  callId,
  status: 'completed',
  operation,
})
const shellCall = (callId: string, commands: string[]) => ({
  type: 'shell_call',
  callId,
  status: 'completed',
  action: { commands },
})

describe.each(fewStores)('the Agents SDK on %s', (_, index) => {
  let session: Session
  const fetched = vi.fn<() => Promise<never>>(() => Promise.reject(new Error('no test may use the network')))
  beforeEach(async () => {
    session = await engines[index]!.sessions.create({ files })
    vi.stubGlobal('fetch', fetched)
  })
  afterEach(() => {
    vi.unstubAllGlobals()
    expect(fetched).not.toHaveBeenCalled()
  })

  const read = async (path: string): Promise<string> =>
    Buffer.from(await session.files.read({ path })).toString()
  const callIds = async (): Promise<(string | undefined)[]> => {
    const { events } = await session.events.list({ pageSize: 1000 })
    return events
      .slice(1)
      .map(({ details }) => (details['metadata'] as { callId: string } | undefined)?.callId)
  }

  test('its loop reads, edits, corrects a stale edit, runs commands, forks, merges and undoes', async () => {
    const shell = workspaceShell(session)
    const seen: string[] = []
    let fork = ''
    const edit = (callId: string, oldText: string, newText: string) =>
      functionCall('edit', { file_path: '/src/a.ts', old_string: oldText, new_string: newText }, { callId })
    const model = scripted([
      () => functionCall('read', { file_path: '/src/a.ts' }, { callId: 'c1' }),
      () => edit('c2', 'a = 1', 'a = 10'),
      () => functionCall('other', {}, { callId: 'c3' }),
      () => edit('c4', 'a = 10', 'a = 11'),
      (last) => {
        seen.push(last)
        return functionCall('read', { file_path: '/src/a.ts' }, { callId: 'c5' })
      },
      () => edit('c6', 'a = 10', 'a = 11'),
      () =>
        patchCall('c7', { type: 'update_file', path: 'src/a.ts', diff: '@@\n-const b = 9\n+const b = 4' }),
      (last) => {
        seen.push(last)
        return patchCall('c8', {
          type: 'update_file',
          path: 'src/a.ts',
          diff: '@@\n-const b = 3\n+const b = 4',
        })
      },
      () => shellCall('c9', ['wc -l < /src/a.ts > /count', 'cat /count']),
      (last) => {
        seen.push(last)
        return functionCall('fork', { label: 'attempt' }, { callId: 'c10' })
      },
      (last) => {
        fork = /Fork (\S+) has/.exec(last)?.[1] ?? ''
        return functionCall('switch_workspace', { workspace: fork }, { callId: 'c11' })
      },
      () => functionCall('write', { file_path: '/new.md', content: 'of the fork\n' }, { callId: 'c12' }),
      () => functionCall('switch_workspace', { workspace: 'main' }, { callId: 'c13' }),
      () => functionCall('merge', { workspace: fork }, { callId: 'c14' }),
      () => functionCall('undo', {}, { callId: 'c15' }),
      (last) => {
        seen.push(last)
        return 'done'
      },
    ])
    const agent = new Agent({
      name: 'editor',
      model,
      tools: [
        ...workspaceFunctionTools(session, { turn: 'turn 1' }).filter(({ name }) => name !== 'apply_patch'),
        workspacePatchTool(session, { turn: 'turn 1' }),
        workspaceShellTool((command, options) => shell.exec(command, { ...options, turn: 'turn 1' })),
        // Another agent changes the session meanwhile.
        tool({
          name: 'other',
          description: 'Changes the session.',
          parameters: z.object({}),
          execute: async () => {
            await session.text.edit({ path: '/src/a.ts', oldText: 'b = 2', newText: 'b = 3' })
            return 'changed'
          },
        }),
      ],
    })
    const { finalOutput } = await run(agent, 'Improve the files.', { maxTurns: 30 })
    expect(finalOutput).toBe('done')
    model.assertComplete()
    expect(seen[0]).toMatch(/HASH_MISMATCH: /)
    expect(seen[1]).toMatch(/"status":"failed".*NO_MATCH: /)
    expect(seen[2]).toMatch(/"stdout":"2\\n"/)
    expect(seen[3]).toMatch(/1 change undone: these paths:\\\\?nremoved \/new\.md/)
    expect(await read('/src/a.ts')).toBe('const a = 11\nconst b = 4\n')
    expect(await callIds()).toEqual(['c2', undefined, 'c6', 'c8', 'c9', 'c14', 'c15'])
    const { events } = await session.events.list({ pageSize: 1000 })
    expect(events.map(({ details }) => details['group'])).toEqual([
      undefined,
      'turn 1',
      undefined,
      'turn 1',
      'turn 1',
      'turn 1',
      'turn 1',
      'turn 1',
    ])
  })

  test('an input that does not fit is an error for the model', async () => {
    let last = ''
    const model = scripted([
      () => functionCall('edit', { file_path: '/notes.md', old_string: 'x' }, { callId: 'c1' }),
      (output) => {
        last = output
        return 'done'
      },
    ])
    await run(new Agent({ name: 'editor', model, tools: workspaceFunctionTools(session) }), 'Edit.')
    expect(last).toMatch(/INVALID_ARGUMENT: the input of edit does not fit its schema/)
    expect(await callIds()).toEqual([])
  })

  test('the editor creates, updates, moves and deletes files, each as one event', async () => {
    const editor = workspaceEditor(session)
    const done = async (result: Promise<ApplyPatchResult | void>): Promise<string> => {
      const { status, output = '' } = (await result) ?? {}
      expect([status, output]).toEqual(['completed', output])
      return output
    }
    await done(editor.createFile({ type: 'create_file', path: 'lib/c.ts', diff: '+one\n+two\n' }))
    expect(await read('/lib/c.ts')).toBe('one\ntwo\n')
    await done(
      editor.updateFile({
        type: 'update_file',
        path: '/lib/c.ts',
        diff: '@@ one\n-two\n+*** End Patch\n*** End of File',
      }),
    )
    expect(await read('/lib/c.ts')).toBe('one\n*** End Patch\n')
    await done(
      editor.updateFile({
        type: 'update_file',
        path: 'lib/c.ts',
        moveTo: 'lib/d.ts',
        diff: '@@\n-one\n+uno',
      }),
    )
    expect(await read('/lib/d.ts')).toBe('uno\n*** End Patch\n')
    await done(editor.deleteFile({ type: 'delete_file', path: 'lib/d.ts' }))
    expect(await callIds()).toHaveLength(4)
  })

  test('the editor refuses operations that do not fit, and changes nothing', async () => {
    const editor = workspaceEditor(session)
    const before = (await session.manifest()).manifestHash
    const fails = async (result: Promise<ApplyPatchResult | void>): Promise<void> => {
      expect(
        await result.catch((error: Error) => ({ status: 'failed', output: error.message })),
      ).toMatchObject({
        status: 'failed',
        output: expect.stringMatching(/./) as string,
      })
      expect((await session.manifest()).manifestHash).toBe(before)
    }
    const update = (diff: string, path = 'src/a.ts') => editor.updateFile({ type: 'update_file', path, diff })
    await fails(editor.createFile({ type: 'create_file', path: 'notes.md', diff: '+other' }))
    await fails(editor.deleteFile({ type: 'delete_file', path: 'none' }))
    await fails(update('@@\n-none\n+x'))
    await fails(update(''))
    // A diff cannot reach a file that the operation does not name.
    for (const marker of ['*** Delete File: notes.md', '*** Move to: b', '*** Add File: x', '*** End Patch'])
      for (const diff of [
        `${marker}\n@@\n-const a = 1\n+const a = 2`,
        `@@\n-const a = 1\n+const a = 2\n${marker}`,
      ])
        await fails(update(diff))
    await fails(update('@@\n-const a = 1\n+x', 'src/a.ts\n*** Delete File: notes.md'))
    await fails(editor.deleteFile({ type: 'delete_file', path: 'src/a.ts\r\n*** Delete File: notes.md' }))
    await expect(update('*** Delete File: notes.md')).rejects.toMatchObject({ reason: 'INVALID_PATCH' })
  })

  test('an approval decides about a patch', async () => {
    const asked: unknown[] = []
    const tool = workspacePatchTool(session, {
      needsApproval: (_context: RunContext, operation: ApplyPatchOperation, callId?: string) => {
        asked.push([operation.path, callId])
        return Promise.resolve(true)
      },
    })
    const model = scripted([() => patchCall('c1', { type: 'delete_file', path: 'notes.md' }), () => 'done'])
    const agent = new Agent({ name: 'editor', model, tools: [tool] })
    const { interruptions, state } = await run(agent, 'Delete.')
    expect(interruptions).toHaveLength(1)
    expect(asked).toEqual([['notes.md', 'c1']])
    expect(await callIds()).toEqual([])
    for (const one of interruptions) state.approve(one)
    expect((await run(agent, state)).finalOutput).toBe('done')
    expect(await callIds()).toEqual(['c1'])
  })

  test('a shell stops at its time and at errors, and cuts outputs', async () => {
    const bash = workspaceShell(session)
    const shell = workspaceShellFor((command, options) => bash.exec(command, options), {
      cwd: '/src',
      env: { WHO: 'ann' },
    })
    expect(await shell.run({ commands: ['echo $WHO; pwd', 'exit 3', 'ls'], maxOutputLength: 5 })).toEqual({
      output: [
        { stdout: 'ann\n/', stderr: '', outcome: { type: 'exit', exitCode: 0 } },
        { stdout: '', stderr: '', outcome: { type: 'exit', exitCode: 3 } },
        { stdout: 'a.ts\n', stderr: '', outcome: { type: 'exit', exitCode: 0 } },
      ],
      maxOutputLength: 5,
    })
    const { output } = await shell.run({
      commands: ['sleep 30; echo late > late', 'echo > next'],
      timeoutMs: 20,
    })
    expect(output).toEqual([{ stdout: '', stderr: '', outcome: { type: 'timeout' } }])
    const reading = workspaceShell(session.narrow({ without: ['files.write'] }))
    const denied = workspaceShellFor((command, options) => reading.exec(command, options))
    const { output: refused } = await denied.run({ commands: ['echo x > x', 'echo > next'] })
    expect(refused).toMatchObject([
      {
        stderr: expect.stringContaining('PERMISSION_DENIED') as string,
        outcome: { type: 'exit', exitCode: null },
      },
    ])
    const broken = workspaceShellFor(() => Promise.reject(new Error('broken')))
    await expect(broken.run({ commands: ['ls'] })).rejects.toThrow('broken')
    expect(await callIds()).toEqual([])
  })
})

describe('the types and options', () => {
  test('are those of the Agents SDK', async () => {
    const session = await engines[0]!.sessions.create({ files })
    expectTypeOf(workspaceEditor).returns.toEqualTypeOf<Editor>()
    expectTypeOf(workspaceShellFor).returns.toEqualTypeOf<Shell>()
    expectTypeOf(workspaceFunctionTools).returns.toEqualTypeOf<Tool[]>()
    expectTypeOf(workspacePatchTool).returns.toEqualTypeOf<ApplyPatchTool>()
    expectTypeOf(workspaceShellTool).returns.toEqualTypeOf<Tool>()
    const editor = workspaceEditor(session)
    const shell = workspaceShellFor(() => Promise.resolve({ stdout: '', stderr: '', exitCode: 0 }))
    expect([applyPatchTool({ editor }).type, shellTool({ shell }).type]).toEqual(['apply_patch', 'shell'])
  })

  test('refuse what is wrong', async () => {
    const session = await engines[0]!.sessions.create({ files })
    const exec = () => Promise.resolve({ stdout: '', stderr: '', exitCode: 0 })
    for (const options of [{ trun: '' }, { turn: 1 }]) {
      const name = new RegExp(Object.keys(options)[0]!)
      expect(() => workspaceFunctionTools(session, options as object)).toThrow(name)
      expect(() => workspacePatchTool(session, options as object)).toThrow(name)
    }
    for (const options of [{ cwd: 'src' }, { timeoutMs: 0 }, { timeoutMs: 1e9 }, { tmeout: 1 }])
      for (const call of [workspaceShellFor, workspaceShellTool])
        expect(() => call(exec, options as object)).toThrow(new RegExp(Object.keys(options)[0]!))
    expect(() => workspaceShellTool(exec, { needsApproval: 1 as never })).toThrow(/needsApproval/)
    expect(() => workspacePatchTool(session, { needsApproval: 1 as never })).toThrow(/needsApproval/)
    expect(() => workspaceShellFor('sh' as never)).toThrow(/exec must be|exec.*function/)
    expect(() => workspaceEditor({} as Session)).toThrow(/must be a session/)
  })
})
