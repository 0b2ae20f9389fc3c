import { mcpHandler, workspaceServer } from '../../src/adapters/mcp/index.js'
import { workspaceSandboxProvider } from '../../src/adapters/tanstack/index.js'
import { workspaceTools } from '../../src/adapters/tools/index.js'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { claudeWorkspace, claudeWorktrees } from '../../src/adapters/claude/index.js'
import { connect } from '../../src/adapters/client/index.js'
import { workspaceBackend } from '../../src/adapters/deepagents/index.js'
import { createHttpHandler, serve, type HttpServer } from '../../src/adapters/http/index.js'
import { workspaceSandbox, workspaceToolSet } from '../../src/adapters/ai-sdk/index.js'
import { sessionFilesystem, sessionSandbox, sessionToolHooks } from '../../src/adapters/mastra/index.js'
import {
  workspaceFunctionTools,
  workspacePatchTool,
  workspaceSandboxClient,
  workspaceSandboxSession,
  workspaceShellFor,
  workspaceShellTool,
} from '../../src/adapters/openai-agents/index.js'
import { gitHandler } from '../../src/adapters/git-server/index.js'
import { workspaceFileSystem, workspaceShell } from '../../src/adapters/just-bash/index.js'
import { backupStore, checkStore, levelStorage, repairStore } from '../../src/adapters/level/index.js'
import { inspector } from '../../src/adapters/inspector/index.js'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { s3Blobs } from '../../src/adapters/s3/index.js'
import { webdavHandler } from '../../src/adapters/webdav/index.js'
import {
  memoryStorage,
  openEngine,
  PosixLockKind,
  type Checkout,
  type Engine,
  type Session,
} from '../../src/index.js'
import { fixedEnvironment, openTestEngine } from '../../src/testing.js'
import { runHere } from '../support/command-here.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

const root = resolve(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

let engine: Engine
let session: Session
let checkout: Checkout
let server: HttpServer

beforeAll(async () => {
  const directory = temporaryDirectory()
  engine = await openEngine({ hostPaths: { roots: [directory] } })
  session = await engine.sessions.create()
  checkout = await session.checkout(join(directory, 'options-page'))
  server = await serve(createHttpHandler(engine, { authenticate: () => undefined }))
})
afterAll(async () => {
  await server.close()
  await engine.close()
})

type Given = Readonly<Record<string, unknown>>
type Call = (options: never) => unknown

/** Too long for a suggestion of a similar key, so that the error lists all known keys. */
const unknownKey = 'x'.repeat(100)

/** The keys that a call accepts, from its error for an unknown one. `within` is the field of an inner object. */
async function keysOf(call: Call, within?: string): Promise<string[]> {
  const options: Given = { [unknownKey]: true }
  const given = (within === undefined ? options : { [within]: options }) as never
  const failure: unknown = await Promise.resolve(given)
    .then(call)
    .catch((error: unknown) => error)
  const keys = /: unknown key; the known keys are ([A-Za-z, ]+)$/.exec((failure as Error).message)?.[1]
  if (keys === undefined) throw new Error(`no list of known keys: ${String(failure)}`)
  return keys.split(', ')
}

/** The calls with options, by their names on the page, each with the type of its options. */
const calls: Readonly<Record<string, readonly [type: string, call: Call]>> = {
  createHttpHandler: ['HttpHandlerOptions', (options) => createHttpHandler(engine, options)],
  gitHandler: ['GitHandlerOptions', (options) => gitHandler(engine, options)],
  webdavHandler: ['WebdavHandlerOptions', (options) => webdavHandler(session, options)],
  serve: [
    'ServeOptions',
    (options) => serve(createHttpHandler(engine, { authenticate: () => undefined }), options),
  ],
  'server.close': ['CloseOptions', (options) => server.close(options)],
  inspector: ['InspectorOptions', (options) => inspector(engine, options)],
  connect: ['ClientOptions', (options) => connect(options)],
  levelStorage: ['LevelStorageOptions', (options) => levelStorage('./none', options)],
  postgresStorage: ['PostgresStorageOptions', (options) => postgresStorage(options)],
  s3Blobs: ['S3BlobsOptions', (options) => s3Blobs(options)],
  memoryStorage: ['MemoryStorageOptions', (options) => memoryStorage(options)],
  checkStore: ['StoreCheckOptions', (options) => checkStore('./none', options)],
  backupStore: ['StoreBackupOptions', (options) => backupStore('./none', './none', options)],
  repairStore: ['StoreRepairOptions', (options) => repairStore('./none', './none', options)],
  workspaceShell: ['WorkspaceShellOptions', (options) => workspaceShell(session, options)],
  workspaceFileSystem: ['WorkspaceFileSystemOptions', (options) => workspaceFileSystem(session, options)],
  'shell.exec': ['ShellExecOptions', (options) => workspaceShell(session).exec('true', options)],
  fixedEnvironment: ['FixedEnvironmentOptions', (options) => fixedEnvironment(options)],
  'engine.collect': ['CollectOptions', (options) => engine.collect(options)],
  'engine.check': ['CheckOptions', (options) => engine.check(options)],
  'engine.sources.waitForJob': ['WaitOptions', (options) => engine.sources.waitForJob(job, options)],
  'engine.sources.watchJob': ['WatchOptions', (options) => engine.sources.watchJob(job, options).next()],
  'session.checkout': ['CheckoutOptions', (options) => session.checkout('/none', options)],
  'checkout.update': ['CheckoutUpdateOptions', (options) => checkout.update(options)],
  'checkout.sync': ['SyncOptions', (options) => checkout.sync(options)],
  'session.exportBundle': ['BundleOptions', (options) => firstOf(session.exportBundle(options))],
  'engine.sessions.importBundle': [
    'BundleOptions',
    (options) => engine.sessions.importBundle(new Uint8Array(), options),
  ],
  'session.events.follow': ['EventFollowOptions', (options) => session.events.follow(options).next()],
  'session.watch': ['ChangeWatchOptions', (options) => session.watch(options).next()],
  'session.posixLocks.setBlocking': [
    'LockWaitOptions',
    (options) => session.posixLocks.setBlocking(lock, options),
  ],
  'diff.files': ['DiffFilesOptions', (options) => firstOf(session.diff().files(options))],
  'diff.patch': ['DiffPatchOptions', (options) => firstOf(session.diff().patch(options))],
  'diff.stats': ['DiffStatsOptions', (options) => session.diff().stats(options)],
  'session.merge': ['MergeOptions', (options) => session.merge({ sessionId: 'none' }, options)],
  'session.rebase': ['RebaseOptions', (options) => session.rebase(options)],
  sessionFilesystem: ['SessionFilesystemOptions', (options) => sessionFilesystem(session, options)],
  sessionSandbox: ['SessionSandboxOptions', (options) => sessionSandbox(session, options)],
  sessionToolHooks: ['SessionToolHooksOptions', (options) => sessionToolHooks(options)],
  workspaceBackend: ['WorkspaceBackendOptions', (options) => workspaceBackend(session, options)],
  workspaceSandbox: ['WorkspaceSandboxOptions', (options) => workspaceSandbox(session, options)],
  claudeWorkspace: ['ClaudeWorkspaceOptions', (options) => claudeWorkspace(session, options)],
  claudeWorktrees: ['ClaudeWorktreesOptions', (options) => claudeWorktrees(session, options)],
  'workspace.rewindFiles': [
    'RewindOptions',
    (options) => claudeWorkspace(session).rewindFiles('none', options),
  ],
  workspaceSandboxProvider: [
    'WorkspaceSandboxProviderOptions',
    (options) => workspaceSandboxProvider(engine, options),
  ],
  workspaceToolSet: ['WorkspaceToolSetOptions', (options) => workspaceToolSet(session, options)],
  workspaceFunctionTools: [
    'WorkspaceFunctionToolsOptions',
    (options) => workspaceFunctionTools(session, options),
  ],
  workspacePatchTool: ['WorkspacePatchToolOptions', (options) => workspacePatchTool(session, options)],
  workspaceSandboxSession: [
    'WorkspaceSandboxSessionOptions',
    (options) => workspaceSandboxSession(session, options),
  ],
  workspaceSandboxClient: [
    'WorkspaceSandboxClientOptions',
    (options) => workspaceSandboxClient({ open: () => session, ...(options as object) }),
  ],
  workspaceShellFor: ['WorkspaceShellForOptions', (options) => workspaceShellFor(noExec, options)],
  workspaceShellTool: ['WorkspaceShellToolOptions', (options) => workspaceShellTool(noExec, options)],
  mcpHandler: ['McpHandlerOptions', (options) => mcpHandler(() => undefined, options)],
  workspaceServer: ['WorkspaceOptions', (options) => workspaceServer(session, options)],
  workspaceTools: ['WorkspaceOptions', (options) => workspaceTools(session, options)],
  'session.text.glob': ['SearchOptions', (options) => session.text.glob({ patterns: ['a'] }, options)],
  'session.text.grep': ['SearchOptions', (options) => session.text.grep({ pattern: 'a' }, options)],
}

const noExec = (): Promise<never> => Promise.reject(new Error('no command'))
const job = { sourceId: 'none', jobId: 'none' }
const lock = { path: '/a', kind: PosixLockKind.SHARED, owner: { ownerId: 'a' } }

/** The objects in the options of `openEngine`. `git` to `secrets` have the types of their own that follow. */
const engineParts: Readonly<Record<string, string | undefined>> = {
  approvals: 'ApprovalOptions',
  automaticCollection: 'AutomaticCollectionOptions',
  budgets: undefined,
  exec: 'ProcessOptions',
  git: undefined,
  hostPaths: undefined,
  imports: 'ImportOptions',
  secrets: 'SecretOptions',
}

/** Types of options that the page does not list, and the reason. */
const elsewhere: Readonly<Record<string, string>> = {
  GlobOptions: 'of session.fs, as in node:fs',
  WatchQueueOptions: 'of session.fs, as in node:fs',
  LayoutOptions: 'a part of CheckoutOptions and ProcessOptions',
  EngineOptions: 'compared row by row',
  RemoteMergeOptions: 'MergeOptions without functions',
  RemoteRebaseOptions: 'RebaseOptions without functions',
  TestEngineOptions: 'those of openEngine and fixedEnvironment',
}

const page = read('docs/options.md')

describe('the page of options', () => {
  test.each(Object.keys(calls))('has the options of %s', async (name) => {
    const row = page.split('\n').find((line) => line.startsWith(`| \`${name}\` `))
    expect(row, name).toBeDefined()
    const listed = [...row!.split('|')[2]!.matchAll(/`(\w+)`/g)].map(([, option]) => option)
    expect(listed).toEqual(await keysOf(calls[name]![1]))
  })

  test('has the options of openEngine', async () => {
    const known: string[] = []
    for (const key of await keysOf(openEngine)) {
      if (key in engineParts) for (const part of await keysOf(openEngine, key)) known.push(`${key}.${part}`)
      else known.push(key)
    }
    // `true` turns it on, so it has a row of its own.
    known.push('automaticCollection')
    const before = page.slice(0, page.indexOf('\n## Options of the server'))
    const listed = [...before.matchAll(/^\| `([A-Za-z.]+)` +\|/gm)].map(([, option]) => option!)
    expect(listed.toSorted()).toEqual(known.toSorted())
  })

  test('has all types of options that the package exports', () => {
    const entries = [
      'index',
      'testing',
      ...[
        'ai-sdk',
        'claude',
        'client',
        'deepagents',
        'git-server',
        'http',
        'inspector',
        'just-bash',
        'level',
        'mastra',
        'mcp',
        'node-vfs',
        'openai-agents',
        'postgres',
        's3',
        'tanstack',
        'tools',
        'webdav',
      ].map((name) => `adapters/${name}/index`),
    ]
    const exported = entries.flatMap((entry) =>
      [
        ...read(`src/${entry}.ts`).matchAll(/^export (?:type )?(?:\{[^}]*\}|interface \w+|type \w+)/gm),
      ].flatMap(([text]) => [...text.matchAll(/\b\w+Options\b/g)].map(([type]) => type)),
    )
    const known = [
      ...Object.values(calls).map(([type]) => type),
      ...Object.values(engineParts),
      ...Object.keys(elsewhere),
    ]
    expect(exported.length).toBeGreaterThan(20)
    expect([...new Set(exported)].toSorted()).toEqual(
      [...new Set(known)].filter((type) => type !== undefined).toSorted(),
    )
  })

  test('says that openTestEngine has the options of openEngine and fixedEnvironment', async () => {
    const expected = [...(await keysOf(openEngine)), ...(await keysOf(fixedEnvironment))]
    const known = await keysOf(openTestEngine)
    expect(known.toSorted()).toEqual(expected.filter((key) => key !== 'storage').toSorted())
    expect(page).toContain('`openTestEngine` takes the options of `openEngine` without `storage`')
  })
})

test('the page of HTTP has the names in the option limits', async () => {
  const text = read('docs/http.md')
  const section = text.slice(text.indexOf('\n## Limits'), text.indexOf('\n## See also'))
  const listed = [...section.matchAll(/^\|[^|]*\| `(\w+)` +\|/gm)].map(([, name]) => name)
  const call: Call = (given: Given) => createHttpHandler(engine, { authenticate: () => undefined, ...given })
  expect(listed).toEqual(await keysOf(call, 'limits'))
})

describe('the page of the command line', () => {
  const text = read('docs/cli.md')
  const flagsOf = async (...verb: string[]): Promise<string[]> => {
    const { stdout } = await runHere([...verb, '--help'])
    return [...stdout.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag!)
  }

  test('has the options of serve', async () => {
    const section = text.slice(text.indexOf('\n## Serve a store'), text.indexOf('\n## Master key'))
    const listed = [...section.matchAll(/^\| `(--[a-z-]+)[^`]*`/gm)].map(([, flag]) => flag!)
    const flags = await flagsOf('serve')
    expect(listed.toSorted()).toEqual(flags.filter((flag) => flag !== '--help').toSorted())
  })

  test('has all verbs', async () => {
    const section = text.slice(text.indexOf('\n## Verbs'), text.indexOf('\n## Choose'))
    const rows = [...section.matchAll(/^\| (`[^|]+`) +\|/gm)].map(([, names]) => names!)
    const listed = rows.flatMap((names) => [...names.matchAll(/`([a-z]+)/g)].map(([, name]) => name!))
    const { stdout } = await runHere(['--help'])
    const verbs = stdout.slice(stdout.indexOf('\nCommands:'), stdout.indexOf('\nSessions and sources'))
    const names = [...verbs.matchAll(/^ {2}([a-z]+)/gm)].map(([, name]) => name!)
    expect(names).toContain('serve')
    expect(names.filter((name) => !listed.includes(name))).toEqual([])
  })

  test('has the options that all verbs share', async () => {
    const [ls, cat] = [await flagsOf('ls'), await flagsOf('cat')]
    const shared = ls.filter((flag) => cat.includes(flag))
    expect(shared).toContain('--store')
    expect(shared.filter((flag) => !new RegExp(`${flag}(?![a-z-])`).test(text))).toEqual([])
  })
})

async function firstOf(items: AsyncIterable<unknown>): Promise<unknown> {
  for await (const item of items) return item
  return undefined
}
