/** The MCP server, driven by the real client in this process. */
import type { Client, CallToolResult } from '@modelcontextprotocol/client'
import type { McpServer } from '@modelcontextprotocol/server'
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { mcpHandler, workspaceServer } from '../../src/adapters/mcp/index.js'
import { openEngine, type Engine, type SessionApi } from '../../src/index.js'
import { connected, textOf } from '../support/mcp-world.js'
import { openRemote, type Remote } from '../support/remote.js'

let engine: Engine
let remote: Remote
beforeAll(async () => {
  engine = await openEngine()
  remote = await openRemote()
})
afterAll(async () => {
  await remote.close()
  await engine.close()
})

const files = {
  '/src/a.ts': 'const a = 1\r\nconst b = 2\r\n',
  '/notes.md': 'one\none\ntwo\n',
  '/.hidden/ü [1]#?.md': 'hidden',
  '/logo.png': new Uint8Array([137, 80, 78, 71, 0, 255]),
}

test('the types are those of the package', () => {
  expectTypeOf(workspaceServer).returns.toEqualTypeOf<McpServer>()
  expectTypeOf(mcpHandler).returns.toEqualTypeOf<(request: Request) => Promise<Response>>()
})

const kinds = [
  ['this process', () => engine],
  ['a server', () => remote.client],
] as const

describe.each(kinds)('the server for a session of %s', (_, engineOf) => {
  let session: SessionApi
  let client: Client
  beforeEach(async () => {
    session = await engineOf().sessions.create({ files })
    client = await connected(workspaceServer(session, { metadata: { agent: 'a' } }))
  })

  const call = (name: string, input: Record<string, unknown> = {}): Promise<CallToolResult> =>
    client.callTool({ name, arguments: input })
  const done = async (name: string, input: Record<string, unknown> = {}): Promise<string> => {
    const result = await call(name, input)
    expect(result.isError ?? false, textOf(result)).toBe(false)
    return textOf(result)
  }
  const bytes = async (path: string): Promise<string> =>
    Buffer.from(await session.files.read({ path })).toString()
  const eventsOf = async () => (await session.events.list({ pageSize: 1000 })).events
  const reasonOf = (result: CallToolResult): unknown => {
    expect(result.isError).toBe(true)
    const { reason } = result.structuredContent as { reason: string }
    expect(textOf(result)).toMatch(new RegExp(`^${reason}: `))
    return reason
  }

  test('lists its tools with schemas and hints', async () => {
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual([
      'read_text_file',
      'read_media_file',
      'read_multiple_files',
      'write_file',
      'edit_file',
      'create_directory',
      'list_directory',
      'list_directory_with_sizes',
      'directory_tree',
      'move_file',
      'search_files',
      'get_file_info',
      'list_allowed_directories',
      'apply_patch',
      'glob',
      'grep',
      'checkpoint',
      'restore',
      'undo',
      'redo',
      'diff',
      'fork',
      'switch_workspace',
      'list_workspaces',
      'delete_fork',
      'merge',
      'history',
      'lock',
      'unlock',
      'publish',
      'request_approval',
    ])
    const named = Object.fromEntries(tools.map((tool) => [tool.name, tool]))
    expect(named['read_text_file']?.annotations).toEqual({
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: false,
    })
    expect(named['edit_file']?.annotations).toMatchObject({ readOnlyHint: false, destructiveHint: true })
    expect(named['edit_file']?.inputSchema).toMatchObject({
      type: 'object',
      required: ['path', 'edits'],
      additionalProperties: false,
    })
  })

  test('reads whole files, ends of files, several files and media', async () => {
    expect(await done('read_text_file', { path: '/src/a.ts' })).toBe(files['/src/a.ts'])
    expect(await done('read_text_file', { path: 'src/a.ts', head: 1 })).toBe('const a = 1')
    expect(await done('read_text_file', { path: '/notes.md', tail: 2 })).toBe('one\ntwo')
    expect(reasonOf(await call('read_text_file', { path: '/notes.md', head: 1, tail: 1 }))).toBe(
      'INVALID_ARGUMENT',
    )
    expect(reasonOf(await call('read_text_file', { path: '/logo.png' }))).toBe('INVALID_ARGUMENT')
    expect(await done('read_multiple_files', { paths: ['/notes.md', '/none'] })).toMatch(
      /^\/notes\.md:\none\none\ntwo\n\n---\n\/none: PATH_NOT_FOUND/,
    )
    const { content, structuredContent } = await call('read_media_file', { path: '/logo.png' })
    const data = Buffer.from(files['/logo.png']).toString('base64')
    expect(content[1]).toEqual({ type: 'image', mimeType: 'image/png', data })
    expect(structuredContent).toMatchObject({ path: '/logo.png', mimeType: 'image/png', sizeBytes: 6 })
    expect(structuredContent).not.toHaveProperty('base64')
  })

  test('lists, searches and describes', async () => {
    expect(await done('list_directory', { path: '/' })).toBe(
      '[DIR] .hidden\n[FILE] logo.png\n[FILE] notes.md\n[DIR] src',
    )
    expect(await done('list_directory_with_sizes', { path: '/', sortBy: 'size' })).toBe(
      '[FILE] notes.md 12\n[FILE] logo.png 6\n[DIR] .hidden\n[DIR] src\nTotal: 4 entries, 18 bytes',
    )
    expect(JSON.parse(await done('directory_tree', { path: '/', excludePatterns: ['*.md', 'src'] }))).toEqual(
      [
        { name: '.hidden', type: 'directory', children: [] },
        { name: 'logo.png', type: 'file' },
      ],
    )
    expect(await done('search_files', { path: '/', pattern: '**/*.ts' })).toBe('/src/a.ts')
    expect(
      await done('search_files', { path: '/', pattern: '**/*', excludePatterns: ['src', '*.png'] }),
    ).toBe('/notes.md')
    expect(await done('get_file_info', { path: '/src/a.ts' })).toMatch(
      /kind: file\nsizeBytes: 26\npermissions: 644/,
    )
    expect(await done('list_allowed_directories')).toBe('Allowed directories:\n/')
    expect(await done('grep', { pattern: 'const', output_mode: 'content' })).toContain(
      '/src/a.ts:1:const a = 1',
    )
  })

  test('edits keep CRLF, must match once, and take effect together', async () => {
    const edits = [
      { oldText: 'a = 1\nconst', newText: 'a = "$&"\nlet' },
      { oldText: 'b = 2', newText: 'b = 3' },
    ]
    expect(await done('edit_file', { path: '/src/a.ts', edits, dryRun: true })).toMatch(
      /^Nothing was changed\. The edit would change \/src\/a\.ts to:\n +1\tconst a = "\$&"\n +2\tlet b = 3/,
    )
    expect(await bytes('/src/a.ts')).toBe(files['/src/a.ts'])
    await done('edit_file', { path: '/src/a.ts', edits })
    expect(await bytes('/src/a.ts')).toBe('const a = "$&"\r\nlet b = 3\r\n')
    const twice = [
      { oldText: 'two', newText: '2' },
      { oldText: 'one', newText: '1' },
    ]
    expect(reasonOf(await call('edit_file', { path: '/notes.md', edits: twice }))).toBe('NOT_UNIQUE')
    expect(await bytes('/notes.md')).toBe(files['/notes.md'])
  })

  test('a stale write fails until the file is read again', async () => {
    const edits = [{ oldText: 'two', newText: '2' }]
    await done('read_text_file', { path: '/notes.md' })
    await session.files.write({ path: '/notes.md', content: 'other\ntwo\n' })
    expect(reasonOf(await call('edit_file', { path: '/notes.md', edits }))).toBe('HASH_MISMATCH')
    expect(reasonOf(await call('write_file', { path: '/notes.md', content: 'x' }))).toBe('HASH_MISMATCH')
    expect(await bytes('/notes.md')).toBe('other\ntwo\n')
    await client.readResource({ uri: 'forkspace:///notes.md' })
    await done('edit_file', { path: '/notes.md', edits })
    expect(await bytes('/notes.md')).toBe('other\n2\n')
  })

  test('each change is one event with the id of its request', async () => {
    const changes: [string, Record<string, unknown>][] = [
      ['write_file', { path: '/new/deep/x', content: 'x' }],
      ['edit_file', { path: '/src/a.ts', edits: [{ oldText: 'a = 1', newText: 'a = 2' }] }],
      ['create_directory', { path: '/p/q/r' }],
      ['move_file', { source: '/new/deep/x', destination: '/y' }],
      ['apply_patch', { patch: '*** Begin Patch\n*** Add File: /z\n+z\n*** End Patch' }],
      ['undo', {}],
    ]
    const ids: unknown[] = []
    for (const [name, input] of changes) {
      const before = await eventsOf()
      await done(name, input)
      const added = (await eventsOf()).slice(before.length)
      expect(added.length, name).toBe(1)
      const { metadata } = added[0]!.details as { metadata: { agent: string; callId: string } }
      expect(metadata).toEqual({ agent: 'a', callId: expect.stringMatching(/^\d+$/) })
      ids.push(metadata.callId)
    }
    expect(new Set(ids).size).toBe(changes.length)
    expect(await bytes('/y')).toBe('x')
  })

  test('works in a fork, merges it, and goes back to a checkpoint', async () => {
    await done('checkpoint', { label: 'start' })
    const { structuredContent } = await call('fork', { label: 'attempt' })
    const { workspace } = structuredContent as { workspace: string }
    await done('switch_workspace', { workspace })
    await done('write_file', { path: '/new', content: 'from the fork' })
    expect((await client.listResources()).resources.map(({ name }) => name)).toContain('/new')
    await done('switch_workspace', { workspace: 'main' })
    expect(reasonOf(await call('read_text_file', { path: '/new' }))).toBe('PATH_NOT_FOUND')
    expect(await done('merge', { workspace })).toContain('/new')
    expect(await bytes('/new')).toBe('from the fork')
    expect(await done('history', { file_path: '/new' })).not.toBe('')
    await done('undo')
    expect(reasonOf(await call('get_file_info', { path: '/new' }))).toBe('PATH_NOT_FOUND')
    await done('redo')
    await done('restore', { label: 'start' })
    expect(await done('diff', { checkpoint: 'start' })).toBe('There are no changes.')
    await done('delete_fork', { workspace })
    expect(await done('list_workspaces')).toBe('main (current)')
  })

  test('locks paths, publishes messages and asks for approvals', async () => {
    const locked = await call('lock', { path: '/src/a.ts' })
    const { lockId } = locked.structuredContent as { lockId: string }
    expect(reasonOf(await call('lock', { path: '/src/a.ts' }))).toBe('LOCK_HELD')
    await done('unlock', { path: '/src/a.ts', lockId })
    expect((await session.fileLocks.list()).locks).toEqual([])
    await using subscription = session.bus.subscribe({ topics: ['done'], replayLimit: 1 })
    await done('publish', { topic: 'done', payload: 'yes' })
    const { value } = await subscription[Symbol.asyncIterator]().next()
    expect(Buffer.from((value as { payload: Uint8Array }).payload).toString()).toBe('yes')
    await done('request_approval', { summary: 'A change', changedFiles: ['src/a.ts'] })
    const { approvals } = await session.approvals.list()
    expect(approvals).toMatchObject([{ summary: 'A change', changedFiles: ['/src/a.ts'] }])
  })

  test('has the files as resources', async () => {
    const { resources } = await client.listResources()
    expect(resources.map(({ name, size, mimeType }) => [name, size, mimeType])).toEqual([
      ['/.hidden/ü [1]#?.md', 6, 'text/markdown'],
      ['/logo.png', 6, 'image/png'],
      ['/notes.md', 12, 'text/markdown'],
      ['/src/a.ts', 26, undefined],
    ])
    for (const { uri, name } of resources) {
      const [found] = (await client.readResource({ uri })).contents
      const content = found !== undefined && 'text' in found ? found.text : Buffer.from(found!.blob, 'base64')
      expect(Buffer.from(content)).toEqual(Buffer.from(files[name as keyof typeof files]))
    }
    const { resourceTemplates } = await client.listResourceTemplates()
    expect(resourceTemplates).toMatchObject([{ uriTemplate: 'forkspace:///{+path}' }])
    await expect(client.readResource({ uri: 'forkspace:///none' })).rejects.toMatchObject({
      data: { reason: 'PATH_NOT_FOUND' },
    })
    for (const uri of [
      'forkspace:///%ff',
      'forkspace:///notes.md?a',
      'forkspace:///notes.md#a',
      'file:///notes.md',
    ])
      await expect(client.readResource({ uri })).rejects.toMatchObject({ code: expect.any(Number) })
  })

  test('tells the progress of a call that asks for it, and ends with the request', async () => {
    const notes: number[] = []
    const onprogress = ({ progress }: { progress: number }): void => void notes.push(progress)
    await client.callTool({ name: 'grep', arguments: { pattern: 'const' } }, { onprogress })
    expect(notes).toEqual([1])
    const signal = AbortSignal.abort(new Error('stop'))
    await expect(client.callTool({ name: 'grep', arguments: { pattern: 'a' } }, { signal })).rejects.toThrow(
      'stop',
    )
  })
})

test('lists many files in pages', async () => {
  const many = Object.fromEntries(Array.from({ length: 2100 }, (_, at) => [`/f${at}`, '']))
  const client = await connected(workspaceServer(await engine.sessions.create({ files: many })))
  const first = await client.listResources({})
  const pages = [first]
  let { nextCursor } = first
  while (nextCursor !== undefined && pages.length < 10) {
    const page = await client.listResources({ cursor: nextCursor })
    pages.push(page)
    nextCursor = page.nextCursor
  }
  const names = pages.flatMap(({ resources }) => resources.map(({ name }) => name))
  expect(new Set(names)).toEqual(new Set(Object.keys(many)))
  await expect(client.listResources({ cursor: 'bad' })).rejects.toMatchObject({
    data: { reason: 'INVALID_ARGUMENT' },
  })
  const listing = await client.callTool({ name: 'list_directory', arguments: { path: '/' } })
  expect(textOf(listing)).toMatch(/\[Only the first 1000 are listed\.\]$/)
  const tree = await client.callTool({ name: 'directory_tree', arguments: { path: '/' } })
  expect(textOf(tree)).toMatch(/\[Only 1000 entries are shown\. Ask for a part\.\]$/)
})

test('a call that reads several files reads none after those that fill its result', async () => {
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files: { '/long': 'x'.repeat(300_000), '/short': 'y' } })
  let reads = 0
  const files = new Proxy(session.files, {
    get(target, name) {
      if (name === 'readWithHash') reads++
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const counted = new Proxy(session, {
    get: (target, name) => (name === 'files' ? files : (Reflect.get(target, name, target) as unknown)),
  })
  const client = await connected(workspaceServer(counted))
  const result = await client.callTool({
    name: 'read_multiple_files',
    arguments: { paths: ['/short', ...Array<string>(98).fill('/long'), '/short'] },
  })
  expect(reads).toBe(2)
  const { files: facts } = result.structuredContent as { files: { error?: { reason: string } }[] }
  expect(facts).toHaveLength(100)
  expect(facts.map(({ error }) => error?.reason).filter((reason) => reason === 'TOO_LARGE')).toHaveLength(98)
  await client.close()
})

test('the structured content of a long result is bounded', async () => {
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files: { '/long': 'a line that matches\n'.repeat(50_000) } })
  const client = await connected(workspaceServer(session))
  const input = { pattern: 'line', output_mode: 'content', head_limit: 10_000 }
  const { structuredContent, isError } = await client.callTool({ name: 'grep', arguments: input })
  expect([isError, (structuredContent as { isCut?: boolean } | undefined)?.isCut]).toEqual([undefined, true])
  expect(JSON.stringify(structuredContent).length).toBeLessThanOrEqual(200_000)
  await client.close()
})
