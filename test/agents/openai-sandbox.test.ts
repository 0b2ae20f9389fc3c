/** Sandboxes of the Agents SDK on sessions, in its own loop with a scripted model: in memory and on LevelDB. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, RunState, setTracingDisabled, tool } from '@openai/agents'
import {
  dir,
  file,
  filesystem,
  gitRepo,
  localDir,
  Manifest,
  SandboxAgent,
  shell,
  type SandboxSession,
} from '@openai/agents/sandbox'
import { assistantMessage, functionCall, modelResponder, ScriptedModel } from '@openai/agents/testing'
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { workspaceShell } from '../../src/adapters/just-bash/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import {
  workspaceSandboxClient,
  workspaceSandboxSession,
  type WorkspaceSandboxState,
} from '../../src/adapters/openai-agents/index.js'
import { openEngine, type Engine, type EngineOptions, type Session } from '../../src/index.js'

let directory: string
beforeAll(async () => {
  setTracingDisabled(true)
  directory = await mkdtemp(join(tmpdir(), 'openai-sandbox-'))
})
afterAll(() => rm(directory, { recursive: true }))

const files = { '/src/a.ts': 'const a = 1\n', '/logo.png': Buffer.from('89504e470d0a1a0a', 'hex') }
const textOf = async (session: Session, path: string): Promise<string> =>
  Buffer.from(await session.files.read({ path })).toString()

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

const bashOf = (session: Session) => {
  const bash = workspaceShell(session)
  return (command: string, options: Parameters<typeof bash.exec>[1]) => bash.exec(command, options)
}

describe.each<[string, () => EngineOptions]>([
  ['memory', () => ({})],
  ['level', () => ({ storage: levelStorage(join(directory, 'data'), { durability: 'relaxed' }) })],
])('a sandbox on %s', (_, options) => {
  let engine: Engine
  beforeAll(async () => {
    engine = await openEngine(options())
  })
  afterAll(() => engine.close())

  test('is a fork for a run, whose changes are merged afterwards', async () => {
    const base = await engine.sessions.create({ files })
    const forks: Session[] = []
    const client = workspaceSandboxClient({
      open: async () => {
        const fork = await base.fork()
        forks.push(fork)
        return fork
      },
      exec: (session) => bashOf(session),
    })
    const outputs: string[] = []
    const operation = {
      type: 'update_file',
      path: 'src/a.ts',
      diff: '@@\n-const a = 1\n+const a = 2',
    } as const
    const model = scripted([
      () => functionCall('exec_command', { cmd: 'cat src/a.ts; pwd; cat docs/todo.md' }, { callId: 'c1' }),
      (last) => {
        outputs.push(last)
        return { type: 'apply_patch_call', callId: 'c2', status: 'completed', operation }
      },
      () =>
        functionCall('exec_command', { cmd: 'wc -l < a.ts > ../count', workdir: 'src' }, { callId: 'c3' }),
      () => functionCall('view_image', { path: 'logo.png' }, { callId: 'c4' }),
      (last) => {
        outputs.push(last)
        return functionCall('exec_command', { cmd: 'ls none', max_output_tokens: 1 }, { callId: 'c5' })
      },
      (last) => {
        outputs.push(last)
        return 'done'
      },
    ])
    const agent = new SandboxAgent({
      name: 'editor',
      model,
      capabilities: [filesystem(), shell()],
      defaultManifest: new Manifest({
        entries: { docs: dir({ children: { 'todo.md': file({ content: 'Fix a.\n' }), empty: dir() } }) },
      }),
    })
    const { finalOutput } = await run(agent, 'Set a to 2.', { sandbox: { client } })
    expect(finalOutput).toBe('done')
    model.assertComplete()
    expect(outputs[0]).toMatch(/Process exited with code 0\\nOutput:\\nconst a = 1\\n\/\\nFix a\.\\n/)
    expect(outputs[1]).toMatch(/image/)
    expect(outputs[2]).toMatch(/exited with code [12].*more characters were cut off/)
    expect(forks).toHaveLength(1)
    expect(await textOf(base, '/src/a.ts')).toBe('const a = 1\n')
    await base.merge(forks[0]!)
    expect(await textOf(base, '/src/a.ts')).toBe('const a = 2\n')
    expect(await textOf(base, '/count')).toBe('1\n')
    expect(await base.files.stat({ path: '/docs/empty' })).toMatchObject({ kind: 'directory' })
  })

  test('is the given session, read and written by its methods', async () => {
    const session = await engine.sessions.create({ files })
    const sandbox = workspaceSandboxSession(session)
    expect(sandbox.state.sessionId).toBe(session.id)
    expect(Buffer.from((await sandbox.readFile?.({ path: 'src/a.ts' })) ?? '').toString()).toBe(
      'const a = 1\n',
    )
    expect(await sandbox.listDir?.({ path: '/' })).toEqual([
      { name: 'logo.png', path: '/logo.png', type: 'file' },
      { name: 'src', path: '/src', type: 'dir' },
    ])
    expect(await sandbox.pathExists?.('../../src/a.ts')).toBe(true)
    expect(await sandbox.pathExists?.('/src/a.ts/b')).toBe(false)
    expect(await sandbox.directoryExists?.('src')).toBe(true)
    expect(await sandbox.directoryExists?.('src/a.ts')).toBe(false)
    await sandbox.materializeEntry?.({ path: '/lib/b.ts', entry: file({ content: 'b' }) })
    expect(await textOf(session, '/lib/b.ts')).toBe('b')
    const archive = Buffer.from((await sandbox.persistWorkspace?.()) ?? '')
    expect(archive.subarray(257, 262).toString()).toBe('ustar')
    expect(archive.includes('const a = 1')).toBe(true)
    await sandbox.close?.()
  })

  test('refuses what it cannot do, and changes nothing', async () => {
    const session = await engine.sessions.create({ files })
    const sandbox = workspaceSandboxSession(session, { exec: bashOf(session) })
    const before = (await session.manifest()).manifestHash
    const refuse = async (work: Promise<unknown> | undefined, reason: string): Promise<void> =>
      expect(work).rejects.toMatchObject({ reason })
    const good = { 'a.md': file({ content: 'a' }) }
    for (const entries of [
      { ...good, x: localDir({ src: '/etc' }) },
      { ...good, x: gitRepo({ repo: 'a/b' }) },
      { ...good, x: dir({ children: { '../../y': file({ content: '' }) } }) },
      { ...good, empty: dir(), x: null },
      { ...good, empty: dir(), x: { type: 'dir', children: null } },
    ])
      await refuse(sandbox.applyManifest?.({ entries } as never), 'INVALID_ARGUMENT')
    let deep = dir({ children: {} })
    for (let level = 0; level < 20_000; level++) deep = dir({ children: { d: deep } })
    await refuse(sandbox.applyManifest?.({ entries: { deep } } as never), 'TOO_LARGE')
    await refuse(
      sandbox.applyManifest?.({ entries: { empty: dir(), 'src/a.ts/b': file({ content: '' }) } } as never),
      'NOT_A_DIRECTORY',
    )
    await refuse(sandbox.readFile?.({ path: 'none' }), 'PATH_NOT_FOUND')
    await refuse(sandbox.readFile?.({ path: 'src/a.ts', maxBytes: 3 }), 'TOO_LARGE')
    await refuse(sandbox.readFile?.({ path: 1 as never }), 'INVALID_ARGUMENT')
    await refuse(sandbox.viewImage?.({ path: 'src/a.ts' }), 'INVALID_ARGUMENT')
    await refuse(sandbox.exec?.({ cmd: 'ls', tty: true }), 'INVALID_ARGUMENT')
    await refuse(sandbox.exec?.({ cmd: 'ls', runAs: 'root' }), 'INVALID_ARGUMENT')
    await refuse(sandbox.pathExists?.('/src', 'root'), 'INVALID_ARGUMENT')
    expect(() => sandbox.createEditor?.('root')).toThrow(/runAs/)
    expect((await session.manifest()).manifestHash).toBe(before)
    expect('exec' in workspaceSandboxSession(session)).toBe(false)
    for (const wrong of [{ exec: 'sh' }, { shell: true }])
      expect(() => workspaceSandboxSession(session, wrong as object)).toThrow(/exec|shell/)
    expect(() => workspaceSandboxSession({} as Session)).toThrow(/must be a session/)
    for (const wrong of [{}, { open: 1 }, { open: () => session, find: 1 }, { open: () => session, x: 1 }])
      expect(() => workspaceSandboxClient(wrong as never)).toThrow(/open|find|x/)
  })
})

test('a run that waits for an approval continues in another process on the same session', async () => {
  const storage = () => levelStorage(join(directory, 'resumed'))
  let engine = await openEngine({ storage: storage() })
  let opened = 0
  const client = workspaceSandboxClient({
    open: () => {
      opened++
      return engine.sessions.create({ files })
    },
    find: (id) => engine.sessions.open(id),
    exec: (session) => bashOf(session),
  })
  const publish = tool({
    name: 'publish',
    description: 'Publishes the files.',
    parameters: z.object({}),
    needsApproval: true,
    execute: async () => 'published',
  })
  const agentOf = (steps: readonly Step[]) =>
    new SandboxAgent({ name: 'editor', model: scripted(steps), capabilities: [shell()], tools: [publish] })
  const first = agentOf([
    () => functionCall('exec_command', { cmd: 'echo draft > note' }, { callId: 'c1' }),
    () => functionCall('publish', {}, { callId: 'c2' }),
  ])
  const { interruptions, state } = await run(first, 'Write and publish.', { sandbox: { client } })
  expect(interruptions).toHaveLength(1)
  const kept = state.toString()
  await engine.close()

  engine = await openEngine({ storage: storage() })
  let note = ''
  const second = agentOf([
    () => functionCall('exec_command', { cmd: 'cat note' }, { callId: 'c3' }),
    (last) => {
      note = last
      return 'done'
    },
  ])
  const again = await RunState.fromString(second, kept)
  for (const one of again.getInterruptions()) again.approve(one)
  const { finalOutput } = await run(second, again, { sandbox: { client } })
  expect([finalOutput, opened]).toEqual(['done', 1])
  expect(note).toMatch(/draft/)
  await engine.close()
})

test('commands get the environment of the manifest, and outputs are cut to a number of tokens that makes sense', async () => {
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files })
  const client = workspaceSandboxClient({ open: () => session, exec: bashOf })
  const sandbox = await client.create?.({ manifest: new Manifest({ environment: { A: 'one' } }) })
  expect(await sandbox?.exec?.({ cmd: 'echo $A' })).toMatchObject({ output: 'one\n', exitCode: 0 })
  for (const maxOutputTokens of [NaN, -1, 'x' as never])
    expect(await sandbox?.exec?.({ cmd: 'echo 12345678', maxOutputTokens })).toMatchObject({
      output: '12345678\n',
    })
  const { output } = (await sandbox?.exec?.({ cmd: 'seq 100000' })) ?? {}
  expect(output?.length).toBeLessThan(100_100)
})

test('a client refuses a manifest before it opens a session, and something that is no session', async () => {
  let opened = 0
  const open = () => {
    opened++
    return null as never
  }
  const client = workspaceSandboxClient({ open, find: open })
  const manifest = new Manifest({ entries: { x: localDir({ src: '/etc' }) } })
  await expect(client.create?.({ manifest })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  expect(opened).toBe(0)
  await expect(client.create?.({})).rejects.toThrow(/open: must return a session/)
  await expect(client.resume?.({ sessionId: 'x', manifest })).rejects.toThrow(/find: must return a session/)
})

test('the types are those of the Agents SDK', () => {
  expectTypeOf(workspaceSandboxSession).returns.toEqualTypeOf<SandboxSession<WorkspaceSandboxState>>()
})
