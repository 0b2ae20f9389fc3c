/** Tools for models without a framework: in memory, on LevelDB, and on a session of a server. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { workspaceTools, type ToolResult, type WorkspaceTools } from '../../src/adapters/tools/index.js'
import { openEngine, type Engine, type MergeResult, type SessionApi } from '../../src/index.js'
import { openRemote, type Remote } from '../support/remote.js'
import { isLong } from '../support/seed.js'

let directory: string
let remote: Remote
const engines: Engine[] = []
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tools-'))
  remote = await openRemote()
  engines.push(await openEngine())
  engines.push(
    await openEngine({ storage: levelStorage(join(directory, 'data'), { durability: 'relaxed' }) }),
  )
})
afterAll(async () => {
  for (const engine of engines) await engine.close()
  await remote.close()
  await rm(directory, { recursive: true })
})

const files = {
  '/src/a.ts': 'const a = 1\nconst b = 2\nexport { a, b }\n',
  '/src/b.ts': 'import { a } from "./a"\r\nconsole.log(a)\r\n',
  '/notes.md': '# Notes\n\none\none\n',
}

const kinds = [
  ...(isLong ? [['memory', () => engines[0]!] as const] : []),
  ['level', () => engines[1]!],
  ['a server', () => remote.client],
] as const

describe.each(kinds)('tools on %s', (_, engineOf) => {
  let session: SessionApi
  let tools: WorkspaceTools
  beforeEach(async () => {
    session = await engineOf().sessions.create({ files })
    tools = workspaceTools(session)
  })

  const editor = (input: object): Promise<ToolResult> => tools.str_replace_based_edit_tool.call(input)
  const text = async (path: string): Promise<string> =>
    Buffer.from(await session.files.read({ path })).toString()
  const eventCount = async (): Promise<number> =>
    (await session.events.list({ pageSize: 1000 })).events.length

  /** Runs a call that must fail, and change nothing. */
  const refused = async (call: () => Promise<ToolResult>): Promise<ToolResult> => {
    const before = (await session.manifest()).manifestHash
    const result = await call()
    expect(result.isError).toBe(true)
    expect((await session.manifest()).manifestHash).toBe(before)
    return result
  }

  test('the text editor views, creates, replaces and inserts', async () => {
    expect((await editor({ command: 'view', path: '/src/a.ts', view_range: [2, -1] })).text).toBe(
      "Here's the content of /src/a.ts with line numbers:\n     2\tconst b = 2\n     3\texport { a, b }",
    )
    expect((await editor({ command: 'view', path: '/' })).text.split('\n').slice(1)).toEqual([
      '/',
      '/notes.md',
      '/src/',
      '/src/a.ts',
      '/src/b.ts',
    ])
    const edited = await editor({
      command: 'str_replace',
      path: 'src/a.ts',
      old_str: 'a = 1',
      new_str: 'a = "$&"',
    })
    expect(await text('/src/a.ts')).toBe('const a = "$&"\nconst b = 2\nexport { a, b }\n')
    expect(edited.data).toMatchObject({
      path: '/src/a.ts',
      contentHash: await session.files.contentHash('/src/a.ts'),
      hunks: [{ startLine: 1, lines: ['const a = "$&"', 'const b = 2', 'export { a, b }'] }],
    })
    await editor({ command: 'insert', path: '/src/b.ts', insert_line: 1, insert_text: 'one\ntwo' })
    expect(await text('/src/b.ts')).toBe('import { a } from "./a"\r\none\r\ntwo\r\nconsole.log(a)\r\n')
    // The older name of the field.
    await editor({ command: 'insert', path: '/src/b.ts', insert_line: 0, new_str: 'first\n' })
    expect(await text('/src/b.ts')).toMatch(/^first\r\nimport/)
    await editor({ command: 'create', path: '/new/open', file_text: 'no end' })
    await editor({ command: 'insert', path: '/new/open', insert_line: 1, insert_text: 'last' })
    expect(await text('/new/open')).toBe('no end\nlast')
  })

  test('the refusals of the text editor say what to do', async () => {
    const missing = await refused(() =>
      editor({ command: 'str_replace', path: '/src/a.ts', old_str: 'const c', new_str: '' }),
    )
    expect(missing.text).toMatch(
      /^NO_MATCH: No replacement was performed, old_str `const c` did not appear verbatim in \/src\/a\.ts/,
    )
    expect(missing.text).toMatch(/Nearest lines:\nconst/)
    const twice = await refused(() =>
      editor({ command: 'str_replace', path: '/notes.md', old_str: 'one', new_str: 'x' }),
    )
    expect(twice.text).toMatch(
      /^NOT_UNIQUE: No replacement was performed\. Multiple occurrences of old_str `one` in lines: 3,4\./,
    )
    const far = await refused(() =>
      editor({ command: 'insert', path: '/notes.md', insert_line: 9, insert_text: 'x' }),
    )
    expect(far.text).toMatch(/must be from 0 to 4, the number of lines of \/notes\.md; it is 9/)
    expect((await refused(() => editor({ command: 'view', path: '/none' }))).data['reason']).toBe(
      'PATH_NOT_FOUND',
    )
    expect((await refused(() => editor({ command: 'create', path: '/x' }))).text).toMatch(
      /file_text is required|file_text: is required/,
    )
    const misspelt = await refused(() => editor({ command: 'view', pth: '/notes.md' }))
    expect(misspelt.text).toMatch(
      /^INVALID_ARGUMENT: the input of str_replace_based_edit_tool does not fit its schema/,
    )
  })

  test('memory keeps notes in its directory only', async () => {
    const memory = (input: object): Promise<ToolResult> => tools.memory.call(input)
    expect((await memory({ command: 'view', path: '/memories' })).isError).toBe(false)
    expect(await eventCount()).toBe(1)
    await memory({ command: 'create', path: '/memories/a.md', file_text: 'one\n' })
    await memory({ command: 'insert', path: '/memories/a.md', insert_line: 1, insert_text: 'two' })
    await memory({ command: 'str_replace', path: '/memories/a.md', old_str: 'one', new_str: 'uno' })
    await memory({ command: 'rename', old_path: '/memories/a.md', new_path: '/memories/deep/b.md' })
    expect(await text('/memories/deep/b.md')).toBe('uno\ntwo\n')
    expect((await memory({ command: 'view', path: '/memories' })).text).toMatch(/\/memories\/deep\/b\.md/)
    await memory({ command: 'create', path: '/memories/c.md', file_text: '' })
    for (const input of [
      { command: 'view', path: '/src' },
      { command: 'view', path: '/memories/../src/a.ts' },
      { command: 'delete', path: '/memories' },
      { command: 'create', path: '/memories/c.md', file_text: 'again' },
      { command: 'rename', old_path: '/memories/c.md', new_path: '/memories/deep' },
      { command: 'rename', old_path: '/memories/c.md', new_path: '/notes2.md' },
      { command: 'rename', old_path: '/memories/none', new_path: '/memories/x/y' },
      { command: 'delete', path: '/memoriesX' },
    ])
      await refused(() => memory(input))
    await memory({ command: 'delete', path: '/memories/deep' })
    expect((await memory({ command: 'view', path: '/memories' })).data).toMatchObject({
      entries: ['/memories/c.md'],
    })
  })

  test('patches change several files as one event', async () => {
    const patch = [
      '*** Begin Patch',
      '*** Update File: src/a.ts',
      '@@',
      '-const a = 1',
      '+const a = 10',
      '*** Add File: src/c.ts',
      '+export {}',
      '*** Delete File: notes.md',
      '*** End Patch',
    ].join('\n')
    const before = await eventCount()
    expect((await tools.apply_patch.call({ patch, dry_run: true })).text).toMatch(
      /^The patch would change:\n/,
    )
    const { text: report } = await tools.apply_patch.call({ patch })
    expect(report.split('\n').slice(1).toSorted()).toEqual([
      'created /src/c.ts (+1 -0)',
      'deleted /notes.md (+0 -0)',
      'modified /src/a.ts (+1 -1)',
    ])
    expect(await eventCount()).toBe(before + 1)
    await refused(() => tools.apply_patch.call({ patch }))
  })

  test('read, edit and write refuse a version that another one has changed', async () => {
    expect((await tools.read.call({ file_path: '/src/a.ts', limit: 1 })).text).toBe(
      '     1\tconst a = 1\n[Lines 2 to 3 follow: read on at offset 2.]',
    )
    await session.files.write({ path: '/src/a.ts', content: 'changed by another one\n' })
    const edit = { file_path: '/src/a.ts', old_string: 'changed', new_string: 'x' }
    const stale = await refused(() => tools.edit.call(edit))
    expect(stale.text).toMatch(/^HASH_MISMATCH: .*read it again/)
    await refused(() => tools.write.call({ file_path: '/src/a.ts', content: 'x' }))
    await tools.read.call({ file_path: '/src/a.ts' })
    expect((await tools.edit.call(edit)).isError).toBe(false)
    // A tool knows its own writes.
    expect((await tools.write.call({ file_path: '/src/a.ts', content: 'y' })).isError).toBe(false)
    await session.files.write({ path: '/src/a.ts', content: 'z' })
    const unguarded = workspaceTools(session, { guards: false })
    await unguarded.read.call({ file_path: '/src/a.ts' })
    await session.files.write({ path: '/src/a.ts', content: 'other' })
    expect((await unguarded.write.call({ file_path: '/src/a.ts', content: 'y' })).isError).toBe(false)
  })

  test('a patch neither deletes nor moves a version that the agent has not read', async () => {
    await tools.read.call({ file_path: '/src/a.ts' })
    await tools.read.call({ file_path: '/notes.md' })
    await session.text.edit({ path: '/src/a.ts', oldText: 'const a = 1', newText: 'const a = 5' })
    await session.files.write({ path: '/notes.md', content: 'of another agent\n' })
    const patch = (...lines: string[]) => ({
      patch: ['*** Begin Patch', ...lines, '*** End Patch'].join('\n'),
    })
    const stale = await refused(() => tools.apply_patch.call(patch('*** Delete File: notes.md')))
    expect(stale.text).toMatch(/^HASH_MISMATCH: /)
    const move = ['*** Update File: src/a.ts', '*** Move to: src/z.ts', '@@', '-const a = 5', '+const a = 6']
    await refused(() => tools.apply_patch.call(patch(...move)))
    // The context of an update matches, so it applies. The rest of that version is still unread.
    const update = ['*** Update File: src/a.ts', '@@', '-const a = 5', '+const a = 6']
    expect((await tools.apply_patch.call(patch(...update))).isError).toBe(false)
    await refused(() => tools.write.call({ file_path: '/src/a.ts', content: 'all' }))
    await tools.read.call({ file_path: '/src/a.ts' })
    expect((await tools.apply_patch.call(patch('*** Delete File: src/a.ts'))).isError).toBe(false)
  })

  test('memory deletes no directory with a note that changed, and follows no symlinks', async () => {
    const memory = (input: object): Promise<ToolResult> => tools.memory.call(input)
    await memory({ command: 'create', path: '/memories/d/a.md', file_text: 'one\n' })
    await session.files.write({ path: '/memories/d/a.md', content: 'of another agent\n' })
    expect((await refused(() => memory({ command: 'delete', path: '/memories/d' }))).text).toMatch(
      /^HASH_MISMATCH/,
    )
    await memory({ command: 'view', path: '/memories/d/a.md' })
    expect(
      (
        await refused(() =>
          memory({ command: 'rename', old_path: '/memories/d', new_path: '/memories/d/x/y' }),
        )
      ).text,
    ).toMatch(/^INVALID_ARGUMENT/)
    await session.files.createSymlink({ linkPath: '/memories/l', target: '/src' })
    for (const input of [
      { command: 'view', path: '/memories/l' },
      { command: 'view', path: '/memories/l/a.ts' },
      { command: 'delete', path: '/memories/l/a.ts' },
      { command: 'create', path: '/memories/l/new', file_text: '' },
      { command: 'rename', old_path: '/memories/d/a.md', new_path: '/memories/l/b' },
    ])
      expect((await refused(() => memory(input))).text).toMatch(/must not lead through a symlink/)
    expect((await memory({ command: 'delete', path: '/memories/l' })).isError).toBe(false)
    expect(await text('/src/a.ts')).toMatch(/const a/)
    expect((await memory({ command: 'delete', path: '/memories/d' })).isError).toBe(false)
  })

  test('a file that is gone can be written anew once the agent knows that it is gone', async () => {
    const write = (path: string) => tools.write.call({ file_path: path, content: 'new\n' })
    await tools.read.call({ file_path: '/notes.md' })
    await tools.read.call({ file_path: '/src/a.ts' })
    await session.files.delete({ path: '/notes.md' })
    await session.files.removeDirectory({ path: '/src', recursive: true })
    for (const path of ['/notes.md', '/src/a.ts']) {
      expect((await refused(() => write(path))).text).toMatch(/^HASH_MISMATCH: /)
      expect((await tools.read.call({ file_path: path })).text).toMatch(/^PATH_NOT_FOUND: /)
      expect((await write(path)).isError).toBe(false)
      expect(await text(path)).toBe('new\n')
    }
  })

  test('glob and grep find paths and lines', async () => {
    expect((await tools.glob.call({ pattern: '**/*.ts' })).data).toMatchObject({ isTruncated: false })
    expect((await tools.glob.call({ pattern: '*.md', path: '/src' })).text).toBe('No files found')
    expect(
      (await tools.grep.call({ pattern: 'const', output_mode: 'content', glob: '*.ts', '-A': 1 })).text,
    ).toBe('/src/a.ts:1:const a = 1\n/src/a.ts:2:const b = 2\n/src/a.ts-3-export { a, b }')
    expect((await tools.grep.call({ pattern: 'ONE', '-i': true })).text).toBe('/notes.md')
    expect((await tools.grep.call({ pattern: 'one', output_mode: 'count' })).text).toBe('/notes.md:2')
    expect((await tools.grep.call({ pattern: 'one', head_limit: 1, output_mode: 'content' })).text).toMatch(
      /There are more results: repeat with offset 1/,
    )
    const parts = await tools.grep.call({
      pattern: '[oO]',
      '-o': true,
      output_mode: 'content',
      head_limit: 0,
    })
    expect(parts.text.split('\n')[0]).toMatch(/^\/\S+:\d+:[oO]$/)
    expect(
      (
        await refused(() =>
          tools.grep.call({ pattern: 'one', '-o': true, multiline: true, output_mode: 'content' }),
        )
      ).data,
    ).toMatchObject({ reason: 'INVALID_ARGUMENT' })
    expect((await refused(() => tools.grep.call({ pattern: '(?=x)' }))).data['reason']).toBe(
      'INVALID_ARGUMENT',
    )
  })

  test('versions go back and forth', async () => {
    await tools.checkpoint.call({ label: 'start' })
    await tools.write.call({ file_path: '/x', content: '1' })
    await tools.write.call({ file_path: '/x', content: '2' })
    expect((await tools.undo.call({ dry_run: true })).text).toMatch(
      /^1 change would be undone: these paths:\nmodified \/x$/,
    )
    expect((await tools.undo.call({})).text).toMatch(/^1 change undone/)
    expect(await text('/x')).toBe('1')
    expect((await tools.redo.call({})).text).toMatch(/^1 change redone/)
    expect(await text('/x')).toBe('2')
    expect((await tools.diff.call({})).text).toMatch(/\+2/)
    expect((await tools.diff.call({ checkpoint: 'start' })).text).toMatch(/new file mode/)
    expect((await tools.history.call({ file_path: '/x' })).text.split('\n')).toHaveLength(4)
    expect((await tools.restore.call({ label: 'start', dry_run: true })).text).toMatch(/would change/)
    expect((await tools.restore.call({ label: 'start' })).text).toBe(
      'The restore changed these paths:\nremoved /x',
    )
    await refused(() => tools.restore.call({ label: 'none' }))
    expect((await tools.diff.call({})).text).toBe('There are no changes.')
    expect((await workspaceTools(session).redo.call({})).text).toBe('There is nothing to redo.')
  })

  test('creates at most 100 forks, also at the same time', async () => {
    const results = await Promise.all(Array.from({ length: 101 }, () => tools.fork.call({})))
    const refusals = results.filter(({ isError }) => isError)
    expect(refusals.map(({ data }) => data['reason'])).toEqual(['TOO_LARGE'])
    await tools.delete_fork.call({ workspace: results[0]!.data['workspace'] })
    expect((await tools.fork.call({})).isError).toBe(false)
  })

  test('forks try something, and merge brings it back', async () => {
    const { data } = await tools.fork.call({ label: 'attempt' })
    const fork = data['workspace'] as string
    await tools.switch_workspace.call({ workspace: fork })
    await tools.edit.call({ file_path: '/src/a.ts', old_string: 'a = 1', new_string: 'a = 5' })
    expect(await text('/src/a.ts')).toContain('a = 1')
    expect((await tools.list_workspaces.call({})).text).toBe(`main\n${fork} (current)`)
    await tools.switch_workspace.call({ workspace: 'main' })
    expect((await tools.merge.call({ workspace: fork, dry_run: true })).text).toMatch(/would change/)
    const before = await eventCount()
    expect((await tools.merge.call({ workspace: fork })).text).toBe(
      'The merge changed these paths:\nmodified /src/a.ts',
    )
    expect(await eventCount()).toBe(before + 1)
    expect((await tools.merge.call({ workspace: fork })).text).toBe('There is nothing to merge.')
    // Conflicts change nothing until a side is chosen.
    await tools.switch_workspace.call({ workspace: fork })
    await tools.read.call({ file_path: '/src/a.ts' })
    await tools.edit.call({ file_path: '/src/a.ts', old_string: 'a = 5', new_string: 'a = 6' })
    await tools.switch_workspace.call({ workspace: 'main' })
    await session.text.edit({ path: '/src/a.ts', oldText: 'a = 5', newText: 'a = 7' })
    const conflict = await tools.merge.call({ workspace: fork })
    expect(conflict.text).toMatch(/both sides changed these paths.*\ncontent \/src\/a\.ts$/)
    expect(await text('/src/a.ts')).toContain('a = 7')
    await tools.merge.call({ workspace: fork, on_conflict: 'theirs' })
    expect(await text('/src/a.ts')).toContain('a = 6')
    expect((await tools.diff.call({ workspace: fork })).text).toBe('There are no changes.')
    await refused(() => tools.delete_fork.call({ workspace: 'main' }))
    await tools.delete_fork.call({ workspace: fork })
    const gone = await refused(() => tools.switch_workspace.call({ workspace: fork }))
    expect(gone.data['reason']).toBe('SESSION_NOT_FOUND')
  })

  test('merge leaves no conflicts in the session, which no tool resolves', async () => {
    const { data } = await tools.fork.call({})
    const fork = data['workspace'] as string
    const theirs = await engineOf().sessions.open(fork)
    await theirs.text.edit({ path: '/src/a.ts', oldText: 'a = 1', newText: 'a = 5' })
    // Markers leave conflicts to resolve.
    await session.text.edit({ path: '/src/a.ts', oldText: 'a = 1', newText: 'a = 7' })
    expect((await refused(() => tools.merge.call({ workspace: fork, on_conflict: 'markers' }))).text).toMatch(
      /on_conflict/,
    )
    await session.undo()
    const type = Object.getPrototypeOf(session) as SessionApi
    const merge: unknown = Reflect.get(type, 'merge')
    if (typeof merge !== 'function') throw new Error('sessions have no merge')
    const spy = vi.spyOn(type, 'merge').mockImplementation(async function (this: SessionApi, ...args) {
      const result = (await Reflect.apply(merge, this, args)) as MergeResult
      // A conflict between the preview and the merge. The policy union decides only those of texts.
      if (args[1]?.dryRun === true) await session.files.delete({ path: '/src/a.ts' })
      return result
    })
    const result = await tools.merge.call({ workspace: fork, on_conflict: 'union' })
    spy.mockRestore()
    expect(result.text).toMatch(
      /^Nothing was merged: .*Repeat with on_conflict: ours or theirs, or .*\ndelete\/modify \/src\/a\.ts$/,
    )
    expect((await session.get()).status).toBe('SESSION_STATUS_ACTIVE')
    await refused(() => tools.read.call({ file_path: '/src/a.ts' }))
    await tools.undo.call({})
    expect(await text('/src/a.ts')).toContain('a = 1')
  })

  test('a call is one event with its id, and a turn is undone together', async () => {
    const marked = workspaceTools(session, { metadata: { agent: 'ann' } })
    const before = await eventCount()
    await marked.write.call({ file_path: '/x', content: '1' }, { callId: 'call_1', turn: 'turn 1' })
    await marked.edit.call(
      { file_path: '/x', old_string: '1', new_string: '2' },
      { callId: 'call_2', turn: 'turn 1' },
    )
    const { events } = await session.events.list({ pageSize: 1000 })
    expect(events.slice(before).map(({ details }) => [details['group'], details['metadata']])).toEqual([
      ['turn 1', { agent: 'ann', callId: 'call_1' }],
      ['turn 1', { agent: 'ann', callId: 'call_2' }],
    ])
    expect((await marked.undo.call({ by: 'group' })).data).toMatchObject({ count: 2 })
    expect((await session.files.list({ path: '/' })).entries.map(({ name }) => name)).toEqual([
      'notes.md',
      'src',
    ])
  })

  test('an aborted call rejects with the reason', async () => {
    const signal = AbortSignal.abort(new Error('stopped'))
    await expect(tools.grep.call({ pattern: 'x' }, { signal })).rejects.toThrow('stopped')
  })
})

test('a patch of many newer versions is not applied once for each of them', async () => {
  const names = ['/src/a.ts', '/src/b.ts', '/notes.md']
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files })
  const { read, apply_patch: apply, write } = workspaceTools(session)
  for (const path of names) {
    await read.call({ file_path: path })
    await session.files.write({ path, content: 'newer\n' })
  }
  const updates = names.map((path) => `*** Update File: ${path}\n@@\n-newer\n+newest\n`)
  const patch = `*** Begin Patch\n${updates.join('')}*** End Patch\n`
  const applied = vi.spyOn(session.text, 'applyPatch')
  expect(await apply.call({ patch })).toMatchObject({ isError: false })
  // The tool previews the patch, applies it to the versions that it has read, and then to the newer versions.
  expect(applied).toHaveBeenCalledTimes(3)
  for (const path of names)
    expect(await write.call({ file_path: path, content: 'unread' })).toMatchObject({ isError: true })
})

describe('the schemas of tools', () => {
  let tools: WorkspaceTools
  beforeAll(async () => {
    tools = workspaceTools(await engines[0]!.sessions.create({ files }))
  })

  test('are strict JSON schemas with a description of each property', () => {
    const ajv = new Ajv2020({ strict: true })
    for (const tool of Object.values(tools)) {
      ajv.compile(tool.inputSchema)
      expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false })
      expect(tool.description.length).toBeGreaterThan(20)
      const properties = Object.entries((tool.inputSchema['properties'] ?? {}) as Record<string, object>)
      const without = properties
        .filter(([, schema]) => !('description' in schema))
        .map(([name]) => `${tool.name}.${name}`)
      expect(without).toEqual([])
    }
  })

  test('have hints: those that only read change nothing', () => {
    const reading = Object.values(tools).filter(({ hints }) => hints.readOnly)
    expect(reading.map(({ name }) => name).toSorted()).toEqual([
      'diff',
      'glob',
      'grep',
      'history',
      'list_workspaces',
      'read',
    ])
  })

  test('refuse unknown options and something that is no session', async () => {
    const session = await engines[0]!.sessions.create({ files })
    expect(() => workspaceTools(session, { gards: false } as object)).toThrow(/gards/)
    expect(() => workspaceTools({} as SessionApi)).toThrow(/must be a session/)
  })
})
