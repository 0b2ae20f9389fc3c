import { existsSync } from 'node:fs'
import { join, parse, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine, EngineApi, EngineScope } from '../../engine/index.js'
import { parseCaller, parseToken } from './arguments.js'
import { parseCredentials, type CredentialOptions, type Credentials } from './credentials.js'
import { Failure, reasonOf, UsageError } from './failure.js'
import { cliLimits } from './limits.js'
import { requireDirectory } from './postgres-url.js'

/** The store or server that a verb works on. */
export interface Target {
  readonly workspaces: EngineApi
  /** The engine of an open store, or its view of the caller of `--as`; undefined for a server. */
  readonly engine: Engine | EngineScope | undefined
  close(): Promise<void>
}

export interface TargetOptions extends CredentialOptions {
  readonly store?: string
  readonly server?: string
  readonly token?: string
  readonly as?: string
  readonly allowPrivateGit?: boolean
  readonly allowGitNames?: boolean
}

/** Environment variables. */
export type Variables = Readonly<Record<string, string | undefined>>

export type Place =
  | {
      readonly store: string
      readonly caller: { tenant: string; principal: string } | undefined
      readonly allowPrivateGit: boolean
      readonly allowGitNames: boolean
      readonly credentials: (() => Promise<Credentials>) | undefined
    }
  | { readonly server: string; readonly token: string }

const serverUrl = /^https?:\/\/\S+$/i

/** Parses the store or server to use. Options take precedence over environment variables. */
export function parsePlaceOptions(options: TargetOptions, variables: Variables): Place {
  const { store, server, token } = options
  if (store !== undefined && server !== undefined)
    throw new UsageError('--store and --server cannot be combined')
  if (store !== undefined) return storePlace(store, options, variables)
  if (server !== undefined) return serverPlace(server, options, variables)
  const stored = valueOf(variables['FORKSPACE_STORE'])
  const served = valueOf(variables['FORKSPACE_SERVER'])
  if (stored !== undefined && served !== undefined) {
    throw new UsageError('FORKSPACE_STORE and FORKSPACE_SERVER are both set: pass --store or --server')
  }
  if (stored !== undefined) return storePlace(stored, options, variables)
  if (served !== undefined)
    return serverPlace(served, { ...options, ...(token !== undefined && { token }) }, variables)
  throw new UsageError(
    'pass --store <directory> or --server <url>, or set FORKSPACE_STORE or FORKSPACE_SERVER',
  )
}

function storePlace(store: string, options: TargetOptions, variables: Variables): Place {
  const { token, as, allowPrivateGit = false, allowGitNames = false } = options
  if (store === '') throw new UsageError('--store takes a directory')
  requireDirectory('--store', store, 'run forkspace serve --storage <url>, and pass --server')
  if (token !== undefined) throw new UsageError('--token is for a server; a store needs no token')
  return {
    store: resolve(store),
    caller: as === undefined ? undefined : parseCaller(as),
    allowPrivateGit,
    allowGitNames,
    credentials: parseCredentials(options, variables),
  }
}

function serverPlace(server: string, options: TargetOptions, variables: Variables): Place {
  if (!serverUrl.test(server) || !URL.canParse(server))
    throw new UsageError(`--server takes an http or https URL, but got '${server}'`)
  if (options.as !== undefined)
    throw new UsageError('--as is for a store; on a server the token determines the caller')
  if (options.allowPrivateGit === true)
    throw new UsageError('--allow-private-git is for a store; a server has an option of its own')
  if (options.allowGitNames === true)
    throw new UsageError('--allow-git-names is for a store; a server has an option of its own')
  if ([options.username, options.passwordEnv, options.passwordFile].some((given) => given !== undefined))
    throw new UsageError('--username and passwords are for a store; commands do not send them to a server')
  const token = options.token ?? valueOf(variables['FORKSPACE_TOKEN'])
  if (token === undefined) throw new UsageError('a server needs a token: --token <token>, or FORKSPACE_TOKEN')
  return {
    server,
    token: parseToken(token, options.token === undefined ? 'FORKSPACE_TOKEN' : '--token').token,
  }
}

function valueOf(variable: string | undefined): string | undefined {
  return variable === '' ? undefined : variable
}

/** Opens a store or a connection to a server. A missing store is created only with `create`. */
export async function openTarget(place: Place, options: { readonly create: boolean }): Promise<Target> {
  return 'store' in place ? openStore(place, options.create) : openServer(place)
}

async function openStore(
  { store, caller, allowPrivateGit, allowGitNames, credentials }: Extract<Place, { store: string }>,
  create: boolean,
): Promise<Target> {
  if (!create && !existsSync(join(store, 'forkspace.json')))
    throw new Failure(
      `there is no store in ${store}; pass the directory of a store, or make one with "forkspace session create"`,
    )
  const given = await credentials?.()
  const [{ openEngine }, { levelStorage }] = await Promise.all([
    import('../../index.js'),
    import('../level/index.js'),
  ])
  const storage = levelStorage(store)
  // The user of the command may access the same host paths as the process.
  const options = {
    storage,
    hostPaths: { roots: [parse(store).root] },
    allowGitNames,
    git: {
      allowPrivateAddresses: allowPrivateGit,
      // A command connects to one remote only.
      ...(given !== undefined && { credentials: () => Promise.resolve(given) }),
    },
  }
  for (let waitedMs = 0; ; waitedMs += cliLimits.lockRetryMs) {
    try {
      const engine = await openEngine(options)
      const scope = caller === undefined ? engine : engine.as(caller)
      return { workspaces: scope, engine: scope, close: () => engine.close() }
    } catch (error) {
      if (reasonOf(error) !== 'STORE_LOCKED') throw error
      if (waitedMs >= cliLimits.lockWaitMs)
        throw lockedFailure(store, error, '; if it is a forkspace server, use --server <url>')
      await sleep(cliLimits.lockRetryMs)
    }
  }
}

/** Creates an error that contains the process that has the store open. */
export function lockedFailure(store: string, error: unknown, advice = ''): Failure {
  const { pid, since, host } = ((error as { details?: unknown }).details ?? {}) as Readonly<
    Record<string, string>
  >
  const who = pid === undefined ? 'another process' : `process ${pid} on ${host}, since ${since}`
  return new Failure(`the store ${store} is in use by ${who}${advice}`, { cause: error })
}

async function openServer({ server, token }: Extract<Place, { server: string }>): Promise<Target> {
  const { connect } = await import('../client/index.js')
  const remote = connect({ baseUrl: server, token })
  return { workspaces: remote, engine: undefined, close: () => Promise.resolve() }
}
