/** The MCP server over stdio, by the built command, and over HTTP, each with the real client. */
import { once } from 'node:events'
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { readdirSync } from 'node:fs'
import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { join, resolve } from 'node:path'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { mcpHandler } from '../../src/adapters/mcp/index.js'
import { openEngine, type SessionApi } from '../../src/index.js'
import { commandFile, startCommand } from '../support/command.js'
import { textOf } from '../support/mcp-world.js'
import { isLong } from '../support/seed.js'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'mcp-'))
})
afterAll(() => rm(directory, { recursive: true }))

const files = { '/src/a.ts': 'const a = 1\n' }
/** How a client finds the version of the protocol. */
const modes = [...(isLong ? (['legacy'] as const) : []), 'auto'] as const
const edits = [{ oldText: 'a = 1', newText: 'a = 2' }]

async function storeOf(name: string): Promise<{ store: string; id: string }> {
  const store = join(directory, name)
  const engine = await openEngine({ storage: levelStorage(store) })
  try {
    return { store, id: (await engine.sessions.create({ files })).id }
  } finally {
    await engine.close()
  }
}

/** Reads, edits, forks, merges and undoes, as any client may. */
async function work(client: Client): Promise<void> {
  const call = async (name: string, input: Record<string, unknown> = {}) => {
    const result = await client.callTool({ name, arguments: input })
    return { ...result, structuredContent: result.structuredContent as Record<string, unknown> }
  }
  expect((await client.listTools()).tools.length).toBe(31)
  expect(textOf(await call('read_text_file', { path: '/src/a.ts' }))).toBe('const a = 1\n')
  const workspace = (await call('fork')).structuredContent['workspace']
  await call('switch_workspace', { workspace })
  expect((await call('edit_file', { path: '/src/a.ts', edits })).isError ?? false).toBe(false)
  expect((await call('edit_file', { path: '/src/a.ts', edits })).structuredContent['reason']).toBe('NO_MATCH')
  await call('switch_workspace', { workspace: 'main' })
  expect(textOf(await call('merge', { workspace }))).toContain('/src/a.ts')
  expect(textOf(await call('grep', { pattern: 'a = 2' }))).toBe('/src/a.ts')
  await call('undo')
  await call('redo')
  const { contents } = await client.readResource({ uri: 'forkspace:///src/a.ts' })
  expect(contents).toMatchObject([{ text: 'const a = 2\n' }])
}

describe('the command over stdio', { timeout: 60_000 }, () => {
  // `auto` asks for the newest protocol first, which costs the command a second server.
  test.each(modes)('serves a client that negotiates %s', async (mode) => {
    const { store, id } = await storeOf(mode)
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [commandFile, 'mcp', id.slice(0, -1), '--store', store],
      stderr: 'pipe',
    })
    const errors = text(transport.stderr as Readable)
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
    await client.connect(transport)
    expect(client.getServerVersion()?.name).toBe('forkspace')
    await work(client)
    await client.close()
    expect(await errors).toBe('')
    const engine = await openEngine({ storage: levelStorage(store) })
    const session = await engine.sessions.open(id)
    expect(Buffer.from(await session.files.read({ path: '/src/a.ts' })).toString()).toBe('const a = 2\n')
    await engine.close()
  })

  test('ends after a line that is too long', async () => {
    const { store, id } = await storeOf('long-line')
    const child = startCommand(['mcp', id, '--store', store])
    child.stdin?.on('error', () => undefined)
    child.stdin?.write(Buffer.alloc(11 << 20, 'a'))
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  test('reads no more requests while its client reads no answers', async () => {
    const { store, id } = await storeOf('unread')
    const engine = await openEngine({ storage: levelStorage(store) })
    await (await engine.sessions.open(id)).files.write({ path: '/large', content: 'x'.repeat(100_000) })
    await engine.close()
    const child = startCommand(['mcp', id, '--store', store])
    const input = child.stdin!
    const count = 500
    const _meta = { padding: 'x'.repeat(2000) }
    const params = { name: 'read_text_file', arguments: { path: '/large' }, _meta }
    for (let index = 0; index < count; index++)
      input.write(`${JSON.stringify({ jsonrpc: '2.0', id: index, method: 'tools/call', params })}\n`)
    await once(child.stdout!, 'readable')
    // Waits until the command reads no more.
    for (let before = -1; before !== input.writableLength;) {
      before = input.writableLength
      await delay(1000)
    }
    expect(input.writableLength).toBeGreaterThan(0)
    let lines = 0
    for await (const line of createInterface({ input: child.stdout! })) {
      expect(line.length).toBeGreaterThan(100_000)
      if (++lines === count) input.end()
    }
    expect(lines).toBe(count)
  })

  test('ends with its input and with SIGTERM, and prints only the protocol', async () => {
    const { store, id } = await storeOf('ends')
    const ping = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`
    for (const end of ['input', 'signal']) {
      const child = startCommand(['mcp', id, '--store', store])
      const closed = once(child, 'close') as Promise<[number | null]>
      child.stdin!.write(`no JSON\n${ping}`)
      const [line] = (await once(child.stdout!, 'data')) as [Buffer]
      expect(JSON.parse(line.toString())).toMatchObject({ jsonrpc: '2.0', id: 1, result: {} })
      if (end === 'input') child.stdin!.end()
      else child.kill('SIGTERM')
      expect((await closed)[0]).toBe(0)
    }
  })

  test('says which package to install', async () => {
    // The built package with all of its dependencies but the one of the protocol.
    const root = resolve(import.meta.dirname, '../..')
    const bare = join(directory, 'bare')
    await cp(join(root, 'dist'), join(bare, 'dist'), { recursive: true })
    await cp(join(root, 'package.json'), join(bare, 'package.json'))
    const modules = join(root, 'node_modules')
    const names = readdirSync(modules).filter(
      (name) => !name.startsWith('.') && name !== '@modelcontextprotocol',
    )
    await cp(join(root, 'package.json'), join(bare, 'node_modules', 'package.json'))
    for (const name of names) await symlink(join(modules, name), join(bare, 'node_modules', name))
    const { store, id } = await storeOf('bare-store')
    const child = spawn(process.execPath, [
      join(bare, 'dist', 'adapters', 'cli', 'main.js'),
      'mcp',
      id,
      '--store',
      store,
    ])
    const [out, err, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number]>,
    ])
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(/run npm install @modelcontextprotocol\/server/)
  })
})

describe('the handler over HTTP', () => {
  const url = new URL('http://localhost/mcp')
  const clientOf = async (
    handle: (request: Request) => Promise<Response>,
    { mode, token = 'ann' }: { readonly mode: 'legacy' | 'auto'; readonly token?: string },
  ): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
    const transport = new StreamableHTTPClientTransport(url, {
      fetch: (target, init) => {
        const request = new Request(target, init)
        request.headers.set('host', new URL(request.url).host)
        return handle(request)
      },
      requestInit: { headers: { authorization: token } },
    })
    await client.connect(transport)
    return client
  }

  test.each(modes)('serves a client that negotiates %s', async (mode) => {
    const engine = await openEngine()
    const session: SessionApi = await engine.sessions.create({ files })
    const other = await engine.sessions.create({ files: { '/b': 'b' } })
    const sessions: Record<string, SessionApi> = { ann: session, bob: other }
    const handle = mcpHandler((request) => sessions[request.headers.get('authorization') ?? ''])
    const client = await clientOf(handle, { mode })
    await work(client)

    // The versions that earlier requests read are remembered.
    await client.callTool({ name: 'read_text_file', arguments: { path: '/src/a.ts' } })
    await session.files.write({ path: '/src/a.ts', content: 'a = 1' })
    const stale = await client.callTool({ name: 'edit_file', arguments: { path: '/src/a.ts', edits } })
    expect(stale.structuredContent).toMatchObject({ reason: 'HASH_MISMATCH' })

    const bob = await clientOf(handle, { mode, token: 'bob' })
    expect((await bob.listResources()).resources.map(({ name }) => name)).toEqual(['/b'])
    await expect(clientOf(handle, { mode, token: 'eve' })).rejects.toThrow(/401|Unauthorized/i)
    await engine.close()
  })

  test('reads one media file of a request at a time', async () => {
    await using engine = await openEngine()
    const session = await engine.sessions.create({ files: { '/a.bin': new Uint8Array([0xff]) } })
    const { files } = session
    const readWithHash = files.readWithHash.bind(files)
    let active = 0
    let most = 0
    vi.spyOn(files, 'readWithHash').mockImplementation(async (request) => {
      most = Math.max(most, ++active)
      await nextTurn()
      const read = await readWithHash(request)
      active--
      return read
    })
    const call = {
      jsonrpc: '2.0',
      method: 'tools/call',
      params: { name: 'read_media_file', arguments: { path: '/a.bin' } },
    }
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    const body = JSON.stringify(Array.from({ length: 20 }, (_, id) => ({ ...call, id })))
    const request = new Request(url, { method: 'POST', headers, body })
    request.headers.set('host', 'localhost')
    const answer = await (await mcpHandler(() => session)(request)).text()
    expect(answer.match(/"blob":"\/w=="/g)).toHaveLength(20)
    expect(most).toBe(1)
  })

  test('bounds the contents that one request returns, also with many calls', async () => {
    await using engine = await openEngine()
    const session = await engine.sessions.create({ files: { '/a.bin': new Uint8Array(3 * 1024 * 1024) } })
    const handle = mcpHandler(() => session)
    const read = { name: 'read_media_file', arguments: { path: '/a.bin' } }
    const resource = { uri: 'forkspace:///a.bin' }
    const post = async (calls: readonly object[]): Promise<string[]> => {
      const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
      const body = JSON.stringify(calls.map((call, id) => ({ jsonrpc: '2.0', id, ...call })))
      const request = new Request(url, { method: 'POST', headers, body })
      request.headers.set('host', 'localhost')
      const answer = await (await handle(request)).text()
      return answer.match(/TOO_LARGE: [^"]*|"(?:data|blob)":"A+/g)?.map((found) => found.slice(0, 26)) ?? []
    }
    const call = { method: 'tools/call', params: read }
    const calls = Array.from({ length: 6 }, () => call)
    const found = await post([...calls, { method: 'resources/read', params: resource }])
    expect(found.toSorted()).toEqual([
      ...Array<string>(5).fill(`"blob":"${'A'.repeat(18)}`),
      ...Array<string>(2).fill('TOO_LARGE: /a.bin was not '),
    ])
    // The next request starts again.
    expect(await post([call])).toHaveLength(1)
  })

  test('serves no request without a session, of another host or of another origin', async () => {
    const asked: string[] = []
    const handle = mcpHandler((request) => {
      asked.push(request.url)
      return undefined
    })
    const post = (headers: Record<string, string>): Promise<Response> => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
      const request = new Request(url, { method: 'POST', body })
      for (const [name, value] of Object.entries(headers)) request.headers.set(name, value)
      return handle(request)
    }
    expect((await post({ host: 'localhost:80' })).status).toBe(401)
    expect(asked.length).toBe(1)
    expect((await post({ host: 'evil.example' })).status).toBe(403)
    expect((await post({ host: 'localhost', origin: 'https://evil.example' })).status).toBe(403)
    expect((await post({})).status).toBe(403)
    expect(asked.length).toBe(1)
    const failing = mcpHandler(() => Promise.reject(new Error('no database')))
    const request = new Request(url, { headers: { host: 'localhost' } })
    request.headers.set('host', 'localhost')
    await expect(failing(request)).rejects.toThrow('no database')
  })
})
