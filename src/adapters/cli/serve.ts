import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import type { Caller, Engine, Store } from '../../engine/index.js'
import type { EngineOptions } from '../../index.js'
import type { GitHandler } from '../git-server/index.js'
import type { HttpHandlerOptions, HttpServer } from '../http/index.js'
import { parsePort, parseToken, type TokenGrant } from './arguments.js'
import { ExitCode, Failure, reasonOf, UsageError } from './failure.js'
import { cliLimits } from './limits.js'
import { createLog, type Log } from './log.js'
import { givenMasterKey, keptMasterKey, type KeySource } from './master-key.js'
import { isPostgresUrl, shownPostgres } from './postgres-url.js'
import { nextSignal } from './signals.js'
import { lockedFailure } from './target.js'
import type { World } from './world.js'

export interface ServeOptions {
  readonly storage: string
  readonly schema?: string
  readonly shared?: boolean
  readonly host: string
  readonly port: string
  readonly token?: readonly string[]
  readonly allowHost?: readonly string[]
  readonly allowHostPath?: readonly string[]
  readonly allowPrivateGit?: boolean
  readonly allowGitNames?: boolean
  /** False with `--no-self-approval`. */
  readonly selfApproval?: boolean
  readonly collect?: boolean
  readonly git?: boolean
  readonly gitPush?: boolean
  readonly log: string
  readonly masterKeyFile?: string
}

const tokenBytes = 32

/** Serves a store until a signal ends it. Resolves with the exit code. */
export async function serveStore(options: ServeOptions, world: World): Promise<number> {
  const { storage, host, log: format } = options
  if (format !== 'json' && format !== 'pretty') throw new UsageError('--log takes json or pretty')
  if (storage === '') throw new UsageError("--storage takes 'memory', a directory or a postgres:// URL")
  if (options.schema !== undefined && !isPostgresUrl(storage))
    throw new UsageError('--schema is for a --storage on PostgreSQL')
  if (options.shared === true && !isPostgresUrl(storage))
    throw new UsageError('--shared is for a --storage on PostgreSQL')
  if (host === '') throw new UsageError('--host takes a name or an address')
  const port = parsePort(options.port)
  const { callers, made } = parseGrants(options.token, world.env['FORKSPACE_TOKEN'])
  for (const path of options.allowHostPath ?? []) await requireDirectory(path)
  const given = await givenMasterKey(options.masterKeyFile, world.env['FORKSPACE_MASTER_KEY'])
  const log = createLog(world.stderr, format)
  // Handle signals before opening anything, so that a signal closes it.
  const ending = nextSignal(world)

  const { engine, notes } = await open(options, given, log)
  for (const note of notes) log('warn', note)
  let server: HttpServer
  try {
    server = await listen(engine, { ...options, port, allowHost: options.allowHost ?? [] }, callers, log)
  } catch (error) {
    await engine.close()
    throw error
  }
  if (!isLoopback(host))
    log('warn', `${host} can be reached from other hosts, and HTTP does not encrypt tokens and contents`, {
      host,
    })
  const shownHost = isIP(host) === 6 ? `[${host}]` : host
  world.stdout.write(`forkspace listening on http://${shownHost}:${server.port}\n`)
  if (made !== undefined) {
    // JSON logs are read by other programs, so the token is not printed there.
    const place = format === 'json' ? world.stdout : world.stderr
    place.write(`forkspace token ${made}\n`)
  }
  log('info', 'serving', { storage: shownStorage(storage), port: server.port })

  const signal = await ending
  log('info', 'closing', { signal })
  const late = setTimeout(() => {
    log('error', 'the server did not close in time')
    process.exit(ExitCode.failure)
  }, cliLimits.closeMs)
  try {
    await server.close({ timeoutMs: cliLimits.drainMs })
  } finally {
    await engine.close()
    clearTimeout(late)
  }
  log('info', 'closed')
  return ExitCode.ok
}

/**
 * Refuses a missing directory at the start. Otherwise a typing error would be noticed only when a source is
 * created.
 */
async function requireDirectory(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isDirectory() !== true)
    throw new UsageError(
      `--allow-host-path: there is no directory ${resolve(path)}; create it, or pass another one`,
    )
}

interface Grants {
  readonly callers: Readonly<Record<string, Caller>>
  /** The token that was generated because none was given. */
  readonly made: string | undefined
}

function parseGrants(options: readonly string[] = [], variable: string | undefined): Grants {
  const given: TokenGrant[] = options.map((text) => parseToken(text, '--token'))
  if (variable !== undefined && variable !== '') given.push(parseToken(variable, 'FORKSPACE_TOKEN'))
  const made = given.length === 0 ? randomBytes(tokenBytes).toString('base64url') : undefined
  if (made !== undefined) given.push(parseToken(made, ''))
  const callers = Object.create(null) as Record<string, Caller>
  for (const { token, caller } of given) {
    const other = callers[token]
    if (other !== undefined && (other.tenant !== caller.tenant || other.principal !== caller.principal))
      throw new UsageError('the same token is given for different callers')
    callers[token] = caller
  }
  return { callers, made }
}

interface Opened {
  readonly engine: Engine
  readonly notes: readonly string[]
}

async function open(options: ServeOptions, given: KeySource | undefined, log: Log): Promise<Opened> {
  const { openEngine } = await import('../../index.js')
  const common: EngineOptions = {
    hostPaths: { roots: (options.allowHostPath ?? []).map((path) => resolve(path)) },
    git: { allowPrivateAddresses: options.allowPrivateGit === true },
    allowGitNames: options.allowGitNames === true,
    approvals: { selfApproval: options.selfApproval !== false },
    automaticCollection: options.collect === true,
    log: ({ level, message, details }) => log(level, message, details),
  }
  if (options.storage === 'memory') {
    const secrets = given === undefined ? {} : { secrets: { masterKey: given.key } }
    return { engine: await openEngine({ ...common, ...secrets }), notes: given?.notes ?? [] }
  }
  if (isPostgresUrl(options.storage)) return openOnPostgres(options, common, given)
  const directory = resolve(options.storage)
  const store = await openStore(directory)
  try {
    const { key, notes } = given ?? (await keptMasterKey(directory, store))
    const storage = { open: () => Promise.resolve(store) }
    return { engine: await openEngine({ ...common, storage, secrets: { masterKey: key } }), notes }
  } catch (error) {
    await store.close()
    throw error
  }
}

/** A database is no place for the key of the secrets in it, so no key is created. */
async function openOnPostgres(
  { storage: url, schema, shared = false }: ServeOptions,
  common: EngineOptions,
  given: KeySource | undefined,
): Promise<Opened> {
  const { postgresStorage } = await loadPostgres()
  const { openEngine } = await import('../../index.js')
  const storage = postgresStorage({ connectionString: url, shared, ...(schema !== undefined && { schema }) })
  const secrets = given === undefined ? {} : { secrets: { masterKey: given.key } }
  const notes = given?.notes ?? [
    'there is no master key, so secrets are refused: pass one with --master-key-file or FORKSPACE_MASTER_KEY',
  ]
  try {
    return { engine: await openEngine({ ...common, storage, ...secrets }), notes }
  } catch (error) {
    if (reasonOf(error) !== 'STORE_LOCKED') throw error
    const { expiresInSeconds } = (error as { details: Readonly<Record<string, string>> }).details
    const advice = `; if it has ended, its lease expires in ${expiresInSeconds} seconds`
    throw lockedFailure(shownPostgres(url), error, advice)
  }
}

/** The package pg is an optional peer dependency. */
async function loadPostgres() {
  try {
    return await import('../postgres/index.js')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes("'pg'")) throw error
    throw new Failure('a store on PostgreSQL needs the package pg: run npm install pg', { cause: error })
  }
}

function shownStorage(storage: string): string {
  if (isPostgresUrl(storage)) return shownPostgres(storage)
  return storage === 'memory' ? 'memory' : resolve(storage)
}

async function openStore(directory: string): Promise<Store> {
  const { levelStorage } = await import('../level/index.js')
  try {
    return await levelStorage(directory).open()
  } catch (error) {
    throw reasonOf(error) === 'STORE_LOCKED' ? lockedFailure(directory, error) : error
  }
}

type Listening = Pick<ServeOptions, 'host' | 'git' | 'gitPush'> & {
  readonly port: number
  readonly allowHost: readonly string[]
}

async function listen(
  engine: Engine,
  { host, port, allowHost, git, gitPush = false }: Listening,
  callers: Readonly<Record<string, Caller>>,
  log: Log,
): Promise<HttpServer> {
  const { createHttpHandler, serve, staticTokens } = await import('../http/index.js')
  const common: HttpHandlerOptions = {
    authenticate: staticTokens(callers),
    allowedHosts: [...loopbackNames, ...(isIP(host) === 6 ? [`[${host}]`] : [host]), ...allowHost],
    log: ({ level, message, details, error }) =>
      log(level, message, { ...details, error: error instanceof Error ? error.stack : String(error) }),
  }
  const gitOf = async (): Promise<GitHandler> =>
    (await import('../git-server/index.js')).gitHandler(engine, { ...common, push: gitPush })
  try {
    const repositories = git === true || gitPush ? { git: await gitOf() } : {}
    const handler = createHttpHandler(engine, { ...common, ...repositories })
    return await serve(handler, { host, port })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (reasonOf(error) === 'INVALID_ARGUMENT' && message.startsWith('allowedHosts'))
      throw new UsageError(`--host and --allow-host: each ${message.replace(/^\S+ /, '')}`)
    if (code === 'EADDRINUSE') throw new Failure(`port ${port} of ${host} is in use`, { cause: error })
    if (code === 'EACCES')
      throw new Failure(`this user is not allowed to use port ${port} of ${host}`, { cause: error })
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
      throw new Failure(`${host} is not an address of this host`, { cause: error })
    throw error
  }
}

const loopbackNames = ['localhost', '127.0.0.1', '[::1]']

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}
