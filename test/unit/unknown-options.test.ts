/** Every public method rejects unknown options, in process and from a client. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as archive from '../../src/adapters/archive/index.js'
import * as client from '../../src/adapters/client/index.js'
import * as git from '../../src/adapters/git/index.js'
import * as host from '../../src/adapters/host/index.js'
import * as http from '../../src/adapters/http/index.js'
import * as inspector from '../../src/adapters/inspector/index.js'
import * as level from '../../src/adapters/level/index.js'
import * as aiSdk from '../../src/adapters/ai-sdk/index.js'
import * as gitServer from '../../src/adapters/git-server/index.js'
import * as justBash from '../../src/adapters/just-bash/index.js'
import * as postgres from '../../src/adapters/postgres/index.js'
import * as s3 from '../../src/adapters/s3/index.js'
import * as mcp from '../../src/adapters/mcp/index.js'
import * as mastra from '../../src/adapters/mastra/index.js'
import * as nodeVfs from '../../src/adapters/node-vfs/index.js'
import * as claude from '../../src/adapters/claude/index.js'
import * as deepagents from '../../src/adapters/deepagents/index.js'
import * as openaiAgents from '../../src/adapters/openai-agents/index.js'
import * as tanstack from '../../src/adapters/tanstack/index.js'
import * as tools from '../../src/adapters/tools/index.js'
import * as webdav from '../../src/adapters/webdav/index.js'
import * as main from '../../src/index.js'
import * as testing from '../../src/testing.js'
import manifest from '../../package.json' with { type: 'json' }
import * as calls from '../support/public-calls.js'
import { openRemote, type Remote } from '../support/remote.js'

let directory: string
let remote: Remote
let local: main.Engine
let handler: http.HttpHandler
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'unknown-options-'))
  remote = await openRemote()
  local = await main.openEngine({ hostPaths: { roots: [directory] } })
  handler = http.createHttpHandler(local, { authenticate: () => undefined })
})
afterAll(async () => {
  await local.close()
  await remote.close()
  await rm(directory, { recursive: true })
})

/** The paths of the option objects in arguments. */
function* places(
  given: unknown,
  at: readonly (string | number)[] = [],
): Generator<readonly (string | number)[]> {
  if (Array.isArray(given)) {
    for (const [index, part] of given.entries()) yield* places(part, [...at, index])
    return
  }
  if (typeof given !== 'object' || given === null || Object.getPrototypeOf(given) !== Object.prototype) return
  if (at.length > 0) yield at
  for (const [name, part] of Object.entries(given))
    if (!calls.data.has(name)) yield* places(part, [...at, name])
}

/** A copy with a misspelt name in one option object. */
function misspelt(
  given: unknown,
  [first, ...rest]: readonly (string | number)[],
): { readonly copy: unknown; readonly name: string; readonly meant: string | undefined } {
  if (first === undefined) {
    const [meant] = Object.keys(given as object)
    const name = meant === undefined ? 'unknownName' : `${meant.slice(0, -1)}Q${meant.slice(-1)}`
    return { copy: { ...(given as object), [name]: 1 }, name, meant }
  }
  const inner = misspelt((given as Record<string, unknown>)[first], rest)
  const copy: unknown = Array.isArray(given) ? [...(given as unknown[])] : { ...(given as object) }
  ;(copy as Record<string, unknown>)[first] = inner.copy
  return { ...inner, copy }
}

/** The error of a call: thrown, rejected, or thrown when its result is read. */
async function failureOf(target: unknown, name: string, given: readonly unknown[]): Promise<unknown> {
  try {
    const result: unknown = (target as Record<string, (...all: readonly unknown[]) => unknown>)[name]!(
      ...given,
    )
    if (typeof (result as PromiseLike<unknown>)?.then === 'function') await result
    else if (typeof (result as AsyncIterable<unknown>)?.[Symbol.asyncIterator] === 'function')
      for await (const _ of result as AsyncIterable<unknown>) break
    return undefined
  } catch (error) {
    return error
  }
}

type Table = Readonly<Record<string, readonly (readonly unknown[])[]>>

/** Calls every method of a table with a misspelt name in each option object. */
function rejects(title: string, handle: () => unknown, table: object, leftOut: readonly string[] = []): void {
  const rows = Object.entries(table as Table).filter(([name]) => !leftOut.includes(name))
  test(`every method of ${title} is listed`, async () => {
    const prototype: unknown = Object.getPrototypeOf(await handle())
    // A module has no prototype; the compiler alone compares its functions.
    const descriptors = Object.entries(Object.getOwnPropertyDescriptors(prototype ?? {}))
    const methods = descriptors.filter(([, { value }]) => typeof value === 'function')
    const names = methods.map(([name]) => name).filter((name) => name !== 'constructor')
    expect(prototype === Object.prototype ? [] : names.filter((name) => !(name in table))).toEqual([])
  })
  test.each(rows)(`${title}.%s`, async (name, variants) => {
    const target = await handle()
    for (const given of variants) {
      if (calls.dataMethods.has(name)) continue
      for (const place of places(given)) {
        const { copy, name: wrong, meant } = misspelt(given, place)
        const failure = await failureOf(target, name, copy as unknown[])
        const at = `${title}.${name} with ${wrong} at ${place.join('.')}`
        expect([at, failure]).toEqual([at, expect.any(main.EngineError)])
        const { reason, message, details } = failure as main.EngineError
        expect([at, reason, details['field']?.split('.').at(-1)]).toEqual([at, 'INVALID_ARGUMENT', wrong])
        expect(message).toContain('unknown key')
        expect([at, details['suggestion']]).toEqual([at, meant])
      }
      const right =
        target === local || name === 'subscribe' ? undefined : await failureOf(target, name, given)
      expect([title, name, String(right)]).not.toEqual([title, name, expect.stringContaining('unknown key')])
    }
  })
}

/** The tables of the functions that each subpath of the package exports. */
const subpaths: Readonly<Record<string, readonly [module: object, table: object]>> = {
  '.': [main, calls.openingsCalls],
  './ai-sdk': [aiSdk, calls.aiSdkCalls],
  './client': [client, calls.clientsCalls],
  './git': [gitServer, calls.gitServerCalls],
  './http': [http, calls.httpCalls],
  './inspector': [inspector, calls.inspectorCalls],
  './level': [level, calls.levelsCalls],
  './just-bash': [justBash, calls.justBashCalls],
  './mcp': [mcp, calls.mcpCalls],
  './node-vfs': [nodeVfs, calls.nodeVfsCalls],
  './claude': [claude, calls.claudeCalls],
  './tanstack': [tanstack, calls.tanstackCalls],
  './mastra': [mastra, calls.mastraCalls],
  './postgres': [postgres, calls.postgresCalls],
  './s3': [s3, calls.s3Calls],
  './deepagents': [deepagents, calls.deepagentsCalls],
  './openai-agents': [openaiAgents, calls.openaiAgentsCalls],
  './testing': [testing, calls.testsCalls],
  './webdav': [webdav, calls.webdavCalls],
  './tools': [tools, calls.toolsCalls],
}

/** Classes whose methods have their own tables, or whose constructors take no options. */
const classes = new Set<unknown>([
  main.Engine,
  main.EngineScope,
  main.Session,
  main.Sessions,
  main.Checkout,
  client.RemoteEngine,
  client.RemoteSession,
  main.EngineError,
  main.Secret,
])

test('each subpath of the package has a table with all of its exported functions', () => {
  const scripts = Object.keys(manifest.exports).filter((subpath) => !subpath.endsWith('.json'))
  expect(Object.keys(subpaths).toSorted()).toEqual(scripts.toSorted())
  for (const [subpath, [module, table]] of Object.entries(subpaths)) {
    const functions = Object.entries(module).filter(([, value]) => typeof value === 'function')
    const names = functions.filter(([, value]) => !classes.has(value)).map(([name]) => name)
    expect([subpath, names.toSorted()]).toEqual([subpath, Object.keys(table).toSorted()])
  }
})

describe('in process', () => {
  const open = (): Promise<main.Session> => local.sessions.create({ files: { '/a': 'x' } })
  const of = (part: keyof main.Session) => async (): Promise<unknown> => (await open())[part]
  rejects('engine', () => local, calls.engineCalls)
  rejects('sessions', () => local.sessions, calls.sessionsCalls)
  rejects('sources', () => local.sources, calls.sourcesCalls)
  rejects('usage', () => local.usage, calls.usageCalls)
  rejects('session', open, calls.sessionCalls)
  rejects('files', of('files'), calls.filesCalls)
  rejects('cache', of('cache'), calls.cacheCalls)
  rejects('bus', of('bus'), calls.busCalls)
  rejects('events', of('events'), calls.eventsCalls, [])
  rejects('annotations', of('annotations'), calls.annotationsCalls)
  rejects('approvals', of('approvals'), calls.approvalsCalls)
  rejects('fileLocks', of('fileLocks'), calls.fileLocksCalls)
  rejects('posixLocks', of('posixLocks'), calls.posixLocksCalls)
  rejects('commits', of('commits'), calls.commitsCalls)
  rejects('health', of('health'), calls.healthCalls)
  rejects('secrets', of('secrets'), calls.secretsCalls)
  rejects(
    'checkout',
    async () => (await open()).checkout(join(directory, crypto.randomUUID())),
    calls.checkoutCalls,
  )
  rejects('forkspace', () => main, calls.openingsCalls)
  rejects('forkspace/level', () => level, calls.levelsCalls)
  rejects('forkspace/testing', () => testing, calls.testsCalls)
  rejects('forkspace/http', () => http, calls.httpCalls)
  rejects('forkspace/git', () => gitServer, calls.gitServerCalls)
  rejects('forkspace/inspector', () => inspector, calls.inspectorCalls)
  rejects('forkspace/mcp', () => mcp, calls.mcpCalls)
  rejects('forkspace/node-vfs', () => nodeVfs, calls.nodeVfsCalls)
  rejects('forkspace/claude', () => claude, calls.claudeCalls)
  rejects('forkspace/tanstack', () => tanstack, calls.tanstackCalls)
  rejects('forkspace/mastra', () => mastra, calls.mastraCalls)
  rejects('forkspace/postgres', () => postgres, calls.postgresCalls)
  rejects('forkspace/s3', () => s3, calls.s3Calls)
  rejects('forkspace/deepagents', () => deepagents, calls.deepagentsCalls)
  rejects('forkspace/openai-agents', () => openaiAgents, calls.openaiAgentsCalls)
  rejects('forkspace/tools', () => tools, calls.toolsCalls)
  rejects('forkspace/ai-sdk', () => aiSdk, calls.aiSdkCalls)
  rejects('forkspace/just-bash', () => justBash, calls.justBashCalls)
  rejects('forkspace/webdav', () => webdav, calls.webdavCalls)
  rejects('the git adapter', () => git, calls.gitAdapterCalls)
  rejects('the archive adapter', () => archive, calls.archivesCalls)
  rejects('the host adapter', () => host, calls.hostCalls)
  test('serve and close', async () => {
    await expect(http.serve(handler, { prot: 1 } as never)).rejects.toMatchObject({
      details: { suggestion: 'port' },
    })
    const server = await http.serve(handler, { port: 0 })
    await expect(server.close({ timeoutMS: 1 } as never)).rejects.toMatchObject({
      details: { suggestion: 'timeoutMs' },
    })
    await server.close({ timeoutMs: 1 })
    expect(() => http.staticTokens({ a: { tenant: 'a', principle: 'b' } as never })).toThrow(
      'did you mean "principal"?',
    )
  })
})

describe('from a client', () => {
  const open = (): Promise<client.RemoteSession> => remote.client.sessions.create({ files: { '/a': 'x' } })
  const of = (part: keyof client.RemoteSession) => async (): Promise<unknown> => (await open())[part]
  const nativeOnly = [
    'as',
    'narrow',
    'rotateSecrets',
    'collect',
    'check',
    'importBundle',
    'exportTar',
    'onJob',
    'sent',
  ]
  const inProcess = [...nativeOnly, 'checkout', 'exec', 'exportBundle', 'follow', 'verify', 'watch']
  const wireSources: calls.Calls<main.Sources> = {
    ...calls.sourcesCalls,
    create: calls.sourcesCalls.create.slice(0, 4),
  }
  const wireSessions: calls.Calls<main.Sessions> = {
    ...calls.sessionsCalls,
    create: [[{ sourceRef: { sourceId: calls.id, revisionId: calls.id }, initialTags: {} }], [{ files: {} }]],
  }
  rejects('engine', () => remote.client, calls.engineCalls, inProcess)
  rejects('sessions', () => remote.client.sessions, wireSessions, inProcess)
  rejects('sources', () => remote.client.sources, wireSources, inProcess)
  rejects('usage', () => remote.client.usage, calls.usageCalls, inProcess)
  const { mergers: _, ...wireMerge } = calls.mergeOptions
  const wireSession = {
    ...calls.sessionCalls,
    merge: [[calls.sessionCalls.merge[0]![0], wireMerge]],
    rebase: [[{ revisionId: '', ...wireMerge }]],
  } as calls.Calls<main.Session>
  rejects('session', open, wireSession, inProcess)
  rejects('files', of('files'), calls.filesCalls)
  rejects('cache', of('cache'), calls.cacheCalls)
  rejects('bus', of('bus'), calls.busCalls)
  rejects('events', of('events'), calls.eventsCalls, inProcess)
  rejects('annotations', of('annotations'), calls.annotationsCalls)
  rejects('approvals', of('approvals'), calls.approvalsCalls)
  rejects('fileLocks', of('fileLocks'), calls.fileLocksCalls)
  rejects('posixLocks', of('posixLocks'), calls.posixLocksCalls)
  rejects('health', of('health'), calls.healthCalls)
  rejects('secrets', of('secrets'), calls.secretsCalls)
  rejects('forkspace/client', () => client, calls.clientsCalls)
})

test('properties of Object.prototype are not options', async () => {
  const polluted = Object.prototype as Record<string, unknown>
  const opened = await local.sessions.create({ files: { '/a': 'x' } })
  const names = {
    expectedHash: calls.hash,
    exclusive: true,
    createParents: false,
    checkpointLabel: 'none',
    mode: 0,
  }
  Object.assign(polluted, names)
  try {
    await opened.files.write({ path: '/a', content: 'y' })
    await opened.files.write({ path: '/new/a', content: 'y' })
    await opened.files.batch([{ write: { path: '/a', content: 'z' } }])
    await opened.fork()
    expect((await opened.checkpoint()).checkpointLabel).toBe('')
  } finally {
    for (const name of Object.keys(names)) delete polluted[name]
  }
  expect((await opened.files.stat({ path: '/new/a' })).mode).toBe(0o644)
})
