/** Hostile calls and URIs: each gets an error with a code, and changes nothing. */
import type { Client } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { workspaceServer } from '../../src/adapters/mcp/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { connected, textOf } from '../support/mcp-world.js'

let engine: Engine
let session: Session
let client: Client
beforeAll(async () => {
  engine = await openEngine()
  session = await engine.sessions.create({ files: { '/a': 'one\none\n', '/d/b': 'b' } })
  client = await connected(workspaceServer(session))
})
afterAll(() => engine.close())

const long = 'x'.repeat(5000)
const huge = 'x'.repeat(2_000_000)
/** Paths that name nothing in the session, or are none. */
const badPaths: unknown[] = [
  '/none',
  '../../etc/passwd',
  '/../etc/passwd',
  'C:\\Windows',
  '\\\\host\\share',
  '//none//none',
  '~/.ssh/id_rsa',
  '/a\0b',
  '\0',
  `/${long}`,
  `/${'d/'.repeat(3000)}`,
  '/a/b',
  '/d/b/c',
  '%2e%2e/none',
  '/\ud800',
  'file:///a',
  '/proc/self/environ',
  '__proto__',
  '/__proto__/x',
  'constructor',
  null,
  1,
  true,
  {},
  [],
  ['/a'],
  { toString: '/a' },
  undefined,
]
const badValues: unknown[] = [null, 1, {}, [], true, undefined, { length: 1 }, ['x'], -1, 1e308, huge.length]

/** Inputs in which one field is hostile. */
const calls: (readonly [name: string, input: unknown])[] = [
  ...[
    'read_text_file',
    'read_media_file',
    'get_file_info',
    'list_directory',
    'list_directory_with_sizes',
    'directory_tree',
  ].flatMap((name) => badPaths.map((path) => [name, { path }] as const)),
  ...badPaths.map((path) => ['edit_file', { path, edits: [{ oldText: 'one', newText: '1' }] }] as const),
  ...badPaths.map((source) => ['move_file', { source, destination: '/moved' }] as const),
  ...badPaths.map((path) => ['search_files', { path, pattern: '*' }] as const),
  ...badValues.map((content) => ['write_file', { path: '/w', content }] as const),
  ...badValues.map((edits) => ['edit_file', { path: '/a', edits }] as const),
  ...badValues.map((oldText) => ['edit_file', { path: '/a', edits: [{ oldText, newText: '' }] }] as const),
  ...badValues.map((workspace) => ['switch_workspace', { workspace }] as const),
  ...badValues.map((label) => ['restore', { label }] as const),
  ...badValues.map((patch) => ['apply_patch', { patch }] as const),
  ...badValues.map((pattern) => ['grep', { pattern }] as const),
  ...badValues
    .map((paths) => ['read_multiple_files', { paths: [paths] }] as const)
    .filter(([, { paths }]) => typeof paths[0] !== 'string'),
  ...['/d', '/a', '/'].map(
    (path) => ['edit_file', { path, edits: [{ oldText: 'one', newText: '' }] }] as const,
  ),
  ['write_file', { path: '/d', content: '' }],
  ['write_file', { path: '/', content: '' }],
  ['write_file', { path: '/a/b', content: '' }],
  ['create_directory', { path: '/a' }],
  ['move_file', { source: '/', destination: '/x' }],
  ['move_file', { source: '/d', destination: '/d/e' }],
  ['move_file', { source: '/a', destination: '/none/a' }],
  ['move_file', { source: '/a', destination: '/d/b' }],
  ['edit_file', { path: '/a', edits: [{ oldText: '', newText: 'x' }] }],
  ['edit_file', { path: '/a', edits: [{ oldText: huge, newText: 'x' }] }],
  ['edit_file', { path: '/a', edits: Array.from({ length: 1001 }, () => ({ oldText: 'a', newText: '' })) }],
  ['edit_file', JSON.parse('{"__proto__":{"path":"/a"},"edits":[]}')],
  ['write_file', { path: '/w', content: '', extra: 1 }],
  ['edit_file', JSON.parse('{"path":"/a","edits":[{"oldText":"one\\none","newText":"1","__proto__":1}]}')],
  ...['[', '[a', 'src/[!', '[]', '*.[ch', '[[:alpha:]'].flatMap((glob) => [
    ['search_files', { path: '/', pattern: glob }] as const,
    ['search_files', { path: '/', pattern: '*', excludePatterns: ['x', glob] }] as const,
    ['directory_tree', { path: '/', excludePatterns: [glob] }] as const,
    ['glob', { pattern: glob }] as const,
    ['grep', { pattern: 'one', glob }] as const,
  ]),
  ['write_file', { path: `/${'n'.repeat(300)}`, content: '' }],
  ['grep', { pattern: '(' }],
  ['grep', { pattern: '(?=a)' }],
  ['search_files', { path: '/', pattern: '' }],
  ['read_text_file', { path: '/a', head: 0 }],
  ['read_text_file', { path: '/a', head: 1, tail: 1 }],
  ['lock', { path: '/a', timeoutSeconds: 0 }],
  ['unlock', { path: '/a', lockId: 'none' }],
  ['publish', { topic: '', payload: '' }],
  ['publish', { topic: 't', payload: huge }],
  ['request_approval', { reason: 'a b' }],
  ['request_approval', { summary: huge }],
  ['delete_fork', { workspace: 'main' }],
  ['merge', { workspace: '../main' }],
  ['apply_patch', { patch: '*** Begin Patch\n*** Delete File: /none\n*** End Patch' }],
  ['apply_patch', { patch: '--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n' }],
]

test('gives every hostile call a code, and changes nothing', async () => {
  expect(calls.length).toBeGreaterThan(300)
  const { manifestHash } = await session.manifest()
  const { events } = await session.events.list({ pageSize: 1000 })
  for (const [name, input] of calls) {
    const shown = `${name} ${JSON.stringify(input).slice(0, 120)}`
    const result = await client.callTool({ name, arguments: input as Record<string, unknown> })
    expect(result.isError, shown).toBe(true)
    const { reason } = result.structuredContent as { reason: string }
    expect(reason, shown).toMatch(/^[A-Z_]+$/)
    expect(reason, shown).not.toBe('INTERNAL')
    expect(textOf(result).startsWith(`${reason}: `), shown).toBe(true)
  }
  expect((await session.manifest()).manifestHash).toBe(manifestHash)
  expect((await session.events.list({ pageSize: 1000 })).events).toEqual(events)
  expect(Object.prototype).not.toHaveProperty('path')
})

test('takes globs whose brackets are closed or escaped', async () => {
  for (const pattern of ['[ab]', '[!x]', '[]a]', '[[:alpha:]]', '\\[', '[\\]a]', 'a]']) {
    const result = await client.callTool({ name: 'glob', arguments: { pattern } })
    expect(result.isError, pattern).not.toBe(true)
  }
})

test('gives unknown tools and hostile URIs an error of the protocol', async () => {
  for (const name of ['__proto__', 'constructor', 'toString', 'bash', '', long])
    await expect(client.callTool({ name, arguments: {} })).rejects.toMatchObject({ code: -32_602 })
  const uris = [
    '',
    'x',
    'file:///etc/passwd',
    'forkspace://a',
    'forkspace:///',
    'forkspace:///d',
    'forkspace:///%00',
  ]
  for (const uri of [
    ...uris,
    'forkspace:///%ff',
    'forkspace:///../../none',
    'forkspace:///a%2fb',
    `forkspace:///${long}`,
  ])
    await expect(client.readResource({ uri })).rejects.toMatchObject({ code: expect.any(Number) })
})
