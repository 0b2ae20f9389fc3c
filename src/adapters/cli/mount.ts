import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, realpath, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpServer } from '../http/index.js'
import { parsePort } from './arguments.js'
import type { Context } from './context.js'
import { Failure, UsageError } from './failure.js'
import { cliLimits } from './limits.js'
import { findDavfs, isMounted, mountDavfs, unmount } from './davfs.js'
import { mountCommands } from './mount-commands.js'
import { portFailure } from './port-failure.js'
import { ignoreSignals, nextSignal } from './signals.js'

export interface MountOptions {
  readonly write?: boolean
  readonly port?: string
}

const tokenBytes = 32

/**
 * Serves a session over WebDAV on loopback until a signal ends it. With a directory, it mounts the session there if this
 * system has a program that can, and otherwise prints the command.
 */
export async function mountSession(
  context: Context,
  [prefix, given]: readonly [string, string | undefined],
  { write = false, port: givenPort = '0' }: MountOptions,
): Promise<void> {
  const port = parsePort(givenPort)
  if (given === '') throw new UsageError('the directory is empty: pass a path, or none')
  const session = await context.session(prefix)
  const directory = given === undefined ? undefined : await emptyDirectory(given)
  const program = directory === undefined ? undefined : await findDavfs(process)
  // SIGHUP is sent when a terminal closes. Without its listener, the mount would stay without a server.
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const ending = nextSignal(context.world, signals)
  const [{ webdavHandler }, { serve }] = await Promise.all([
    import('../webdav/index.js'),
    import('../http/index.js'),
  ])
  const token = randomBytes(tokenBytes).toString('base64url')
  const handler = webdavHandler(session, {
    token,
    write,
    log: ({ message, error }) =>
      context.note(`forkspace: ${message}: ${error instanceof Error ? error.message : String(error)}`),
  })
  const server = await serve(handler, { port, connections: cliLimits.mountConnections }).catch(
    (error: unknown) => {
      throw portFailure(error, port)
    },
  )
  try {
    const url = `${server.url}/`
    if (directory !== undefined && program !== undefined) {
      try {
        // A signal ends davfs2, but not this process, which has to delete the file with the token.
        const ended = new AbortController()
        const abort = (): void => ended.abort()
        ending.then(abort, abort)
        const listen = ignoreSignals(context.world, signals)
        const { signal } = ended
        const isDone = await mountDavfs(program, { url, token, directory, write, signal }).finally(listen)
        if (!isDone) return
        const line = `forkspace mounted ${session.id} at ${directory}`
        await context.out.line(line, { sessionId: session.id, url, write, directory, mounted: true })
        await context.out.flush()
        await ending
      } finally {
        await leave(context, directory)
      }
      return
    }
    await announce(context, { url, token, write, directory })
    await ending
  } finally {
    await close(server)
  }
}

/**
 * The directory, without symlinks, as the system lists its mounts. It is created if it is missing. A mount would hide
 * the files in it.
 */
async function emptyDirectory(given: string): Promise<string> {
  const directory = resolve(given)
  let real = directory
  let names: readonly string[] | undefined
  let cause: unknown
  try {
    await makeWithParents(directory)
    real = await realpath(directory)
    names = await readdir(real)
  } catch (error) {
    cause = error
  }
  // A mount whose server has ended cannot be read.
  if (await isMounted(real))
    throw new Failure(`something is mounted at ${real} already: unmount it first, or use another directory`)
  if (names === undefined)
    throw new Failure(`${directory} cannot be used: ${reasonOf(cause as NodeJS.ErrnoException)}`, {
      cause,
    })
  if (names.length > 0) throw new Failure(`the directory ${real} is not empty: a mount would hide its files`)
  return real
}

/** The recursive call of Node would never end where the file system takes no new directories, as below `/proc`. */
async function makeWithParents(directory: string): Promise<void> {
  try {
    await mkdir(directory)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const parent = dirname(directory)
    if (code === 'ENOENT' && !existsSync(parent)) {
      await makeWithParents(parent)
      await mkdir(directory)
    } else if (!(await isDirectory(directory))) throw error
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

function reasonOf({ code = 'unknown error' }: NodeJS.ErrnoException): string {
  if (code === 'EEXIST') return 'it is not a directory'
  if (code === 'ENOENT') return 'it does not exist, and cannot be created there'
  if (code === 'ENOTDIR') return 'a part of its path is not a directory'
  return code
}

/** Prints the URL, the password and a command for connecting by hand. */
async function announce(
  { out }: Context,
  where: {
    readonly url: string
    readonly token: string
    readonly write: boolean
    readonly directory: string | undefined
  },
): Promise<void> {
  const { url, token, write } = where
  const commands = mountCommands(process.platform, where)
  await out.line(`forkspace webdav on ${url}`, { url, token, write, mounted: false, commands })
  if (!out.json) {
    await out.line(`user forkspace, password ${token}`, {})
    for (const command of commands) await out.line(`to mount it: ${command}`, {})
  }
  await out.flush()
}

/** Unmounts. While a program uses the directory, it tries again, until the next signal ends the process. */
async function leave(context: Context, directory: string): Promise<void> {
  let isNoted = false
  while (await isMounted(directory)) {
    const failure = await unmount(directory)
    if (failure === undefined) return
    if (!isNoted) {
      context.note(`forkspace: ${failure}; end the programs that use it; another signal ends this command`)
      isNoted = true
    }
    await sleep(cliLimits.unmountRetryMs)
  }
}

async function close(server: HttpServer): Promise<void> {
  await server.close({ timeoutMs: cliLimits.drainMs })
}
