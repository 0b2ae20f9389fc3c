import { Buffer } from 'node:buffer'
import { posix } from 'node:path'
import { ReadableStream } from 'node:stream/web'
import type { Experimental_SandboxSession as SandboxSession } from 'ai'
import type { SessionApi } from '../../engine/index.js'
import { abortable, EngineError, given, invalid, Shape, untilAborted } from '../../engine/ports.js'
import type { WorkspaceExec } from '../tools/index.js'
import { limits } from './limits.js'
import { startProcess } from './process.js'

/** Options of {@link workspaceSandbox}. */
export interface WorkspaceSandboxOptions {
  /**
   * Runs the commands of `run` and `spawn`, such as `exec` of a `workspaceShell` of `forkspace/just-bash`. Without it,
   * commands fail with NO_ADAPTER.
   */
  readonly exec?: WorkspaceExec
  /** The directory of relative paths and of commands; `/` by default. */
  readonly cwd?: string
  /** The description for the instructions of an agent. By default, it names the directory and says if commands run. */
  readonly description?: string
}

type Of<Method extends keyof SandboxSession> = SandboxSession[Method] extends (
  options: infer Options,
) => unknown
  ? Options
  : never
type SpawnOptions = Of<'run'> & { readonly stdin?: boolean }

const optionsShape = new Shape<WorkspaceSandboxOptions>({ exec: true, cwd: true, description: true })

/**
 * The files of a session as a sandbox of the AI SDK, for `experimental_sandbox` of its loops.
 *
 * Guarantees
 * - Paths stay in the session. A sandbox has no access to files of the host.
 * - A write is one event, also of a stream. A stream that fails or is aborted changes nothing.
 * - A text that is written and read with the same encoding is equal, a byte order mark included.
 *
 * Commands run only with the option `exec`. That function decides which files and hosts a command can reach. A command
 * has no standard input: `spawn` with `stdin` fails with INVALID_ARGUMENT. Its output arrives when it ends.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or `session` is not a session.
 *
 * @example
 * import { workspaceSandbox } from 'forkspace/ai-sdk'
 * import { workspaceShell } from 'forkspace/just-bash'
 *
 * const shell = workspaceShell(session)
 * const sandbox = workspaceSandbox(session, { exec: (command, options) => shell.exec(command, options) })
 * const { stdout } = await sandbox.run({ command: 'ls src' })
 */
export function workspaceSandbox(session: SessionApi, options: WorkspaceSandboxOptions = {}): SandboxSession {
  const { exec, cwd = '/', description } = optionsShape.read(options, 'options')
  if (typeof session?.files !== 'object')
    throw invalid('session', `must be a session of forkspace; it is ${given(session)}`)
  if (exec !== undefined && typeof exec !== 'function')
    throw invalid('exec', 'must be a function that runs a command, such as exec of a workspaceShell')
  if (typeof cwd !== 'string' || !cwd.startsWith('/'))
    throw invalid('cwd', 'must be an absolute path of the workspace, such as /src')
  if (description !== undefined && typeof description !== 'string')
    throw invalid('description', 'must be a string')
  const { files } = session
  const at = (path: string): string => {
    if (typeof path !== 'string') throw invalid('path', 'must be a path, such as src/a.ts')
    return posix.resolve(cwd, path)
  }

  const readBinaryFile = async ({ path, abortSignal }: Of<'readBinaryFile'>): Promise<Uint8Array | null> =>
    untilAborted(absentAs(null, files.read({ path: at(path) })), abortSignal)

  const writeBinaryFile = async ({
    path,
    content,
    abortSignal,
  }: Of<'writeFile'> | Of<'writeBinaryFile'>): Promise<void> => {
    abortSignal?.throwIfAborted()
    const isWhole = content instanceof Uint8Array
    await files.write({ path: at(path), content: isWhole ? content : abortable(content, abortSignal) })
  }

  const start = ({ command, workingDirectory = '', env, abortSignal }: SpawnOptions) => {
    if (exec === undefined)
      throw new EngineError(
        'NO_ADAPTER',
        'this sandbox runs no commands: pass the option exec to workspaceSandbox, such as exec of a workspaceShell',
      )
    if (typeof command !== 'string') throw invalid('command', 'must be a string')
    abortSignal?.throwIfAborted()
    const execOptions = { cwd: at(workingDirectory), ...(env !== undefined && { env }) }
    return startProcess((signal) => exec(command, { ...execOptions, signal }), abortSignal)
  }

  async function spawn(options: SpawnOptions & { readonly stdin: true }): Promise<never>
  async function spawn(options: SpawnOptions): Promise<ReturnType<typeof start>['process']>
  async function spawn(options: SpawnOptions): Promise<ReturnType<typeof start>['process']> {
    if (options.stdin === true)
      throw invalid('stdin', 'must be false: commands of this sandbox have no writable standard input')
    return start(options).process
  }

  return {
    description: description ?? describe(cwd, exec !== undefined),
    readFile: async ({ path, abortSignal }) => {
      const stream = await untilAborted(absentAs(null, files.readStream({ path: at(path) })), abortSignal)
      return stream && ReadableStream.from<Uint8Array>(abortable(stream, abortSignal))
    },
    readBinaryFile,
    readTextFile: async ({ encoding = 'utf-8', startLine, endLine, ...request }) => {
      const checked = encodingOf(encoding)
      const range = lineRange(startLine, endLine)
      const content = await readBinaryFile(request)
      return (
        content &&
        linesOf(Buffer.from(content.buffer, content.byteOffset, content.length).toString(checked), range)
      )
    },
    writeFile: writeBinaryFile,
    writeBinaryFile,
    writeTextFile: async ({ content, encoding = 'utf-8', ...request }) => {
      if (typeof content !== 'string') throw invalid('content', 'must be a string')
      await writeBinaryFile({ ...request, content: Buffer.from(content, encodingOf(encoding)) })
    },
    stat: async ({ path, abortSignal }) => {
      const stat = await untilAborted(absentAs(null, files.stat({ path: at(path) })), abortSignal)
      return stat && { type: stat.kind === 'symlink' ? 'other' : stat.kind, size: stat.sizeBytes }
    },
    listDirectory: async ({ path, abortSignal }) => {
      const entries: { name: string; type: 'file' | 'directory' | 'symlink' }[] = []
      let pageToken = ''
      do {
        const request = { path: at(path), pageSize: limits.entriesPerPage, pageToken }
        const page = await untilAborted(absentAs(null, files.list(request), ['PATH_NOT_FOUND']), abortSignal)
        if (page === null) return null
        entries.push(...page.entries.map(({ name, kind }) => ({ name, type: kind })))
        pageToken = page.nextPageToken
      } while (pageToken !== '')
      return entries
    },
    deleteFile: async ({ path, abortSignal }) => {
      abortSignal?.throwIfAborted()
      return absentAs(
        false,
        files.delete({ path: at(path) }).then(() => true),
      )
    },
    spawn,
    run: async (options) => start(options).result,
  }
}

function describe(cwd: string, hasCommands: boolean): string {
  const commands = hasCommands ? `Commands run in ${cwd}.` : 'Commands do not run here.'
  return `A versioned workspace of files. Relative paths begin at ${cwd}. ${commands}`
}

/** The outcome of a call, or another value if nothing exists at its path. */
async function absentAs<T, Absent>(
  value: Absent,
  call: Promise<T>,
  reasons: readonly string[] = ['PATH_NOT_FOUND', 'NOT_A_DIRECTORY'],
): Promise<T | Absent> {
  try {
    return await call
  } catch (error) {
    if (error instanceof EngineError && reasons.includes(error.reason)) return value
    throw error
  }
}

/** Encodings that read what they wrote. */
const encodings: Readonly<Record<string, BufferEncoding>> = {
  'utf-8': 'utf8',
  utf8: 'utf8',
  'utf-16le': 'utf16le',
  utf16le: 'utf16le',
  latin1: 'latin1',
}

function encodingOf(name: string): BufferEncoding {
  const found = typeof name === 'string' ? encodings[name.toLowerCase()] : undefined
  if (found !== undefined) return found
  throw invalid('encoding', `must be one of ${Object.keys(encodings).join(', ')}; it is ${String(name)}`)
}

interface LineRange {
  readonly start: number
  readonly end: number
}

function lineRange(start = 1, end = Infinity): LineRange {
  for (const [name, line] of [
    ['startLine', start],
    ['endLine', end === Infinity ? 1 : end],
  ] as const)
    if (!Number.isInteger(line) || line < 1)
      throw invalid(name, `must be a line number from 1; it is ${line}`)
  return { start, end }
}

/** Lines of a text with their line ends. */
function linesOf(text: string, { start, end }: LineRange): string {
  if (start === 1 && end === Infinity) return text
  let at = 0
  let from = start === 1 ? 0 : text.length
  for (let line = 1; line <= end; line++) {
    if (line === start) from = at
    const next = text.indexOf('\n', at)
    if (next === -1) return text.slice(from)
    at = next + 1
  }
  return text.slice(from, Math.max(from, at))
}
