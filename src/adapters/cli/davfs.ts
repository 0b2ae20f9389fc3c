import { spawn } from 'node:child_process'
import { access, constants, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Failure } from './failure.js'
import { cliLimits } from './limits.js'

const programs = ['/usr/sbin/mount.davfs', '/sbin/mount.davfs']

/** The program of davfs2, if this process may mount with it: on Linux, as root. */
export async function findDavfs({
  platform,
  getuid,
}: Pick<NodeJS.Process, 'platform' | 'getuid'>): Promise<string | undefined> {
  if (platform !== 'linux' || getuid?.() !== 0) return undefined
  for (const program of [...programs, '/dev/fuse']) {
    const isThere = await access(program, constants.R_OK).then(
      () => true,
      () => false,
    )
    if (isThere) return program === '/dev/fuse' ? undefined : program
  }
  return undefined
}

export interface DavfsMount {
  readonly url: string
  readonly token: string
  readonly directory: string
  readonly write: boolean
  /** Ends the program. */
  readonly signal: AbortSignal
}

/**
 * Mounts with davfs2. It reads the token from a file of root, which is deleted afterwards. Returns false if the signal
 * ended it.
 *
 * @throws Failure
 */
export async function mountDavfs(
  program: string,
  { url, token, directory, write, signal }: DavfsMount,
): Promise<boolean> {
  if (directory.includes("'"))
    throw new Failure(
      `davfs2 cannot unmount ${directory}, whose path has an apostrophe: use another directory`,
    )
  // The options of a mount are a list with commas.
  if (tmpdir().includes(','))
    throw new Failure(
      `davfs2 cannot use the directory ${tmpdir()}, which has a comma: set TMPDIR to another one`,
    )
  // Only the user of this process can enter the directory.
  const place = await mkdtemp(join(tmpdir(), 'forkspace-mount-'))
  try {
    const config = join(place, 'davfs2.conf')
    const secrets = join(place, 'secrets')
    const lines = [
      `secrets "${secrets.replaceAll(/["\\]/g, String.raw`\$&`)}"`,
      'ask_auth 0',
      // Uploads begin when a program closes the file, and not ten seconds later.
      'delay_upload 0',
      // With its buffer of 16 KiB, davfs2 cannot list directories on a kernel that asks for 32 KiB at once.
      `buf_size ${cliLimits.davfsBufferKib}`,
      `use_locks ${write ? '1' : '0'}`,
    ]
    await writeFile(config, `${lines.join('\n')}\n`, { mode: 0o600 })
    await writeFile(secrets, `${url} forkspace "${token}"\n`, { mode: 0o600 })
    const options = [`conf=${config}`, ...(write ? [] : ['ro'])].join(',')
    if (signal.aborted) return false
    const { code, errors } = await run(program, [url, directory, '-o', options], signal)
    if (code === 0) return true
    if (signal.aborted) return false
    throw new Failure(`${program} could not mount ${directory}: ${errors || `exit code ${code}`}`)
  } finally {
    await rm(place, { recursive: true })
  }
}

/** Returns why the directory could not be unmounted, or undefined. davfs2 finishes its uploads first. */
export async function unmount(directory: string): Promise<string | undefined> {
  const { code, errors } = await run('umount', [directory])
  return code === 0 ? undefined : errors
}

/** Whether something is mounted at a directory. */
export async function isMounted(directory: string): Promise<boolean> {
  // Other systems do not have the file, and this command mounts nothing there.
  const mounts = await readFile('/proc/self/mounts', 'utf8').catch(() => '')
  // The file shows a space as \040, and other characters as they are.
  const shown = directory.replaceAll(
    /[ \t\n\\]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  )
  return mounts.split('\n').some((line) => line.split(' ')[1] === shown)
}

interface Ended {
  readonly code: number | null
  /** The standard error of the program, in one line. */
  readonly errors: string
}

/** Runs a program in a group of its own, so that an interrupt of the terminal does not end the mount. */
function run(program: string, args: readonly string[], signal?: AbortSignal): Promise<Ended> {
  return new Promise((resolve, reject) => {
    // The daemon of davfs2 keeps its standard error, so the end of the program counts, not that of the stream.
    // The daemon keeps its environment, which could have a token of a server. It would use a proxy that is named there.
    const env = { PATH: process.env['PATH'] }
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true, env })
    const end = (): void => void child.kill()
    signal?.addEventListener('abort', end)
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(0, cliLimits.mountErrorChars)
    })
    child.once('error', (cause) => reject(new Failure(`${program} could not be started`, { cause })))
    child.once('exit', (code) => {
      signal?.removeEventListener('abort', end)
      // The last bytes of standard error arrive by the next turn of the event loop.
      setImmediate(() => {
        child.stderr.destroy()
        resolve({ code, errors: errors.trim().replaceAll(/\s+/g, ' ') })
      })
    })
  })
}
