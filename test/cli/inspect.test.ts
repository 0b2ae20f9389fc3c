import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { runHere } from '../support/command-here.js'
import { outputOf, runCommand, serveCommand, startCommand } from '../support/command.js'

let directory: string
let store: string
const stops = new Set<() => Promise<unknown>>()

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'inspect-'))
  store = join(directory, 'store')
})
afterEach(async () => {
  for (const stop of stops) await stop()
  stops.clear()
  await rm(directory, { recursive: true })
})

interface Opened {
  readonly port: number
  readonly token: string
  /** Ends the command, and returns what it printed on standard error. */
  stop(): Promise<{ code: number | null; errors: string }>
}

async function inspect(...args: readonly string[]): Promise<Opened> {
  const child = startCommand(['inspect', ...args])
  const closed = once(child, 'close')
  const errors = text(child.stderr!)
  let stopped: Promise<{ code: number | null; errors: string }> | undefined
  const stop = (): Promise<{ code: number | null; errors: string }> => {
    stopped ??= (async () => {
      child.kill('SIGTERM')
      const [code] = (await closed) as [number | null]
      return { code, errors: await errors }
    })()
    return stopped
  }
  stops.add(stop)
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
  const [, port, token] =
    /^forkspace inspector on http:\/\/127\.0\.0\.1:(\d+)\/#token=([\w-]{43})$/.exec(line) ?? []
  return { port: Number(port), token: token!, stop }
}

async function get(
  { port, token }: Opened,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: string; policy: string | undefined }> {
  const sent = request({
    host: '127.0.0.1',
    port,
    path,
    headers: { authorization: `Bearer ${token}`, ...headers },
    agent: false,
  })
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const policy = response.headers['content-security-policy'] as string | undefined
  return { status: response.statusCode!, body: await text(response), policy }
}

test('serves the page of a store on loopback, and ends with a signal', async () => {
  const session = await outputOf(['session', 'create', '--tag', 'task=42', '--store', store])
  const opened = await inspect(store)
  const page = await get(opened, '/')
  expect([page.status, page.body]).toEqual([200, expect.stringContaining('page.js')])
  expect(page.policy).toContain("default-src 'none'")
  expect(page.policy).not.toContain('unsafe')
  expect(await get(opened, '/page.js')).toMatchObject({ status: 200 })
  expect(await get(opened, '/v1/sessions')).toMatchObject({
    status: 200,
    body: expect.stringContaining(session),
  })
  expect(await get({ ...opened, token: 'other' }, '/v1/sessions')).toMatchObject({ status: 401 })
  for (const path of ['/', '/v1/sessions'])
    expect(await get(opened, path, { host: 'evil.example' })).toMatchObject({ status: 403 })
  for (const path of ['//evil.example/v1/sessions', '/%2e%2e/package.json', '/v1/../v1/secrets'])
    expect((await get(opened, path)).status).not.toBe(500)

  const second = await runCommand(['inspect', store])
  expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('use --server <url>')])
  expect(await opened.stop()).toEqual({ code: 0, errors: '' })
})

test('serves the page of a server, with a token of its own', async () => {
  const served = await serveCommand(['--token', 'server-token'])
  stops.add(() => served.stop('SIGKILL'))
  const opened = await inspect(served.url, '--token', 'server-token')
  expect(JSON.parse((await get(opened, '/inspector.json')).body)).toMatchObject({
    write: false,
    target: 'server',
  })
  expect(await get(opened, '/v1/sessions')).toMatchObject({ status: 200 })
  expect(await get({ ...opened, token: 'server-token' }, '/v1/sessions')).toMatchObject({ status: 401 })
})

test.each([
  ['a missing store', ['inspect', './none'], 1, 'there is no store'],
  ['no place', ['inspect'], 2, 'pass --store'],
  ['two places', ['inspect', './a', '--store', './b'], 2, 'pass the store or the server once'],
  ['a wrong port', ['inspect', './a', '--port', 'x'], 2, 'a port must be'],
  ['a server without a token', ['inspect', 'http://127.0.0.1:1'], 2, 'token'],
])('refuses %s', async (_case, args, code, message) => {
  const result = await runHere(args, { cwd: directory })
  expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(message)])
})
