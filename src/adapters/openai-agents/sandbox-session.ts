import { Buffer } from 'node:buffer'
import { performance } from 'node:perf_hooks'
import { posix } from 'node:path'
import {
  Manifest,
  type ExecCommandArgs,
  type SandboxDirectoryEntry,
  type SandboxExecResult,
  type SandboxSession,
  type SandboxSessionState,
} from '@openai/agents/sandbox'
import type { ToolOutputImage } from '@openai/agents'
import type { Session, SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid, Shape } from '../../engine/ports.js'
import { mediaTypeOf } from '../tools/parts.js'
import type { WorkspaceExec } from '../tools/index.js'
import { workspaceEditor } from './editor.js'
import { limits } from './limits.js'
import { writeEntries } from './manifest-entries.js'
import { outputOf } from './shell.js'

/** The state of a sandbox: the fields of the Agents SDK, and the id of the session. */
export interface WorkspaceSandboxState extends SandboxSessionState {
  /** The id of the session of forkspace. */
  readonly sessionId: string
}

/** Options of {@link workspaceSandboxSession}. */
export interface WorkspaceSandboxSessionOptions {
  /** Runs commands, such as `exec` of a `workspaceShell`. Without it, the sandbox runs none. */
  readonly exec?: WorkspaceExec
}

const optionsShape = new Shape<WorkspaceSandboxSessionOptions>({ exec: true })

/**
 * A session as a sandbox of the Agents SDK, for `run(agent, input, { sandbox: { session } })`. The root of the sandbox
 * is the root of the session.
 *
 * Guarantees
 * - Paths stay in the session. Entries of a manifest that come from the host or a network are refused.
 * - The session remains after the run, so that its changes can be compared, merged or undone.
 * - `persistWorkspace` returns a tar of the files. It is absent for a session of `forkspace/client`.
 *
 * Agents with the capability `shell` need the option `exec`, which decides which files and hosts a command can reach.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or `session` is not a session.
 *
 * @example
 * import { filesystem, SandboxAgent } from '@openai/agents/sandbox'
 * import { workspaceSandboxSession } from 'forkspace/openai-agents'
 *
 * const sandbox = { session: workspaceSandboxSession(session) }
 * const agent = new SandboxAgent({ name: 'editor', capabilities: [filesystem()] })
 * // await run(agent, 'Fix the typos.', { sandbox })
 * console.log(await sandbox.session.pathExists?.('/src'), agent.name) // true editor
 */
export function workspaceSandboxSession(
  session: SessionApi,
  options: WorkspaceSandboxSessionOptions = {},
): SandboxSession<WorkspaceSandboxState> {
  const { exec } = optionsShape.read(options, 'options')
  if (typeof session?.files !== 'object')
    throw invalid('session', `must be a session of forkspace; it is ${given(session)}`)
  if (exec !== undefined && typeof exec !== 'function')
    throw invalid('exec', 'must be a function that runs a command, such as exec of a workspaceShell')
  return sandboxOn(session, exec, { manifest: new Manifest({ root: '/' }) })
}

/** A sandbox with the state of an earlier one. */
export function sandboxOn(
  session: SessionApi,
  exec: WorkspaceExec | undefined,
  { manifest }: { readonly manifest: Manifest },
): SandboxSession<WorkspaceSandboxState> {
  const { files } = session
  const kindOf = async (path: string): Promise<string | undefined> =>
    files.stat({ path: at(path) }).then(
      ({ kind }) => kind,
      (error: unknown) => {
        if (error instanceof EngineError && absent.has(error.reason)) return undefined
        throw error
      },
    )
  const run = async (command: ExecCommandArgs): Promise<SandboxExecResult> =>
    runCommand(exec as WorkspaceExec, command, await manifest.resolveEnvironment())

  return {
    state: { manifest, workspaceReady: true, sessionId: session.id },
    running: async () => true,
    createEditor: (runAs) => {
      refuseUser(runAs)
      return workspaceEditor(session)
    },
    ...(exec !== undefined && {
      exec: run,
      execCommand: async (command: ExecCommandArgs) => describeOutcome(await run(command)),
    }),
    supportsPty: () => false,
    viewImage: async ({ path, runAs }) => {
      refuseUser(runAs)
      return readImage(session, at(path))
    },
    readFile: async ({ path, runAs, maxBytes }) => {
      refuseUser(runAs)
      if (maxBytes === undefined) return files.read({ path: at(path) })
      const { sizeBytes } = await files.stat({ path: at(path) })
      if (sizeBytes <= maxBytes) return files.read({ path: at(path) })
      throw new EngineError('TOO_LARGE', `${path} has ${sizeBytes} bytes, more than ${maxBytes}`, {
        limit: String(maxBytes),
      })
    },
    listDir: async ({ path, runAs }) => {
      refuseUser(runAs)
      return listDirectory(session, at(path))
    },
    pathExists: async (path, runAs) => {
      refuseUser(runAs)
      return (await kindOf(path)) !== undefined
    },
    directoryExists: async (path, runAs) => {
      refuseUser(runAs)
      return (await kindOf(path)) === 'directory'
    },
    materializeEntry: async ({ path, entry, runAs }) => {
      refuseUser(runAs)
      await writeEntries(session, { [at(path).slice(1)]: entry })
    },
    applyManifest: async ({ entries }, runAs) => {
      refuseUser(runAs)
      await writeEntries(session, entries)
    },
    ...(hasExport(session) && { persistWorkspace: async () => archiveOf(session) }),
    close: async () => session.flush(),
  }
}

const absent = new Set(['PATH_NOT_FOUND', 'NOT_A_DIRECTORY'])

/** An absolute path of the session. A relative path begins at the root. */
function at(path: string): string {
  if (typeof path !== 'string') throw invalid('path', 'must be a path, such as src/a.ts')
  return posix.resolve('/', path)
}

/** A session has no users of its own. Running as one of them in name only would mislead. */
function refuseUser(runAs: unknown): void {
  if (runAs === undefined) return
  throw invalid(
    'runAs',
    'is not supported: a workspace has no users; give the agent a narrowed session instead',
  )
}

async function runCommand(
  exec: WorkspaceExec,
  { cmd, workdir = '/', tty = false, maxOutputTokens, runAs }: ExecCommandArgs,
  env: Readonly<Record<string, string>>,
): Promise<SandboxExecResult> {
  refuseUser(runAs)
  if (typeof cmd !== 'string') throw invalid('cmd', 'must be a string')
  if (tty) throw invalid('tty', 'must be false: commands of this sandbox have no terminal')
  const start = performance.now()
  const { stdout, stderr, outcome } = await outputOf(
    (signal) => exec(cmd, { cwd: at(workdir), env, signal }),
    limits.commandMs,
  )
  const wallTimeSeconds = (performance.now() - start) / 1000
  const late = outcome.type === 'timeout' ? `The command did not end within ${limits.commandMs} ms.\n` : ''
  const whole = `${stdout}${stderr}${late}`
  const most = Math.min(limits.outputLength, charactersOf(maxOutputTokens))
  const isCut = whole.length > most
  const output = isCut
    ? `${whole.slice(0, most)}\n[${whole.length - most} more characters were cut off]`
    : whole
  const exitCode = outcome.type === 'exit' ? outcome.exitCode : null
  const originalTokenCount = Math.ceil(whole.length / limits.charactersPerToken)
  return { output, stdout, stderr, wallTimeSeconds, exitCode, ...(isCut && { originalTokenCount }) }
}

/** The characters for a number of tokens. A number that makes no sense sets no limit. */
function charactersOf(tokens: number | undefined): number {
  return typeof tokens === 'number' && tokens >= 0 ? tokens * limits.charactersPerToken : Infinity
}

/** The outcome of a command in the words of the sandboxes of the Agents SDK. */
function describeOutcome(result: SandboxExecResult): string {
  const { output, wallTimeSeconds, exitCode, originalTokenCount } = result
  return [
    `Wall time: ${wallTimeSeconds.toFixed(4)} seconds`,
    ...(typeof exitCode === 'number' ? [`Process exited with code ${exitCode}`] : []),
    ...(originalTokenCount === undefined ? [] : [`Original token count: ${originalTokenCount}`]),
    'Output:',
    output,
  ].join('\n')
}

async function readImage(session: SessionApi, path: string): Promise<ToolOutputImage> {
  const mediaType = mediaTypeOf(path)
  if (mediaType?.startsWith('image/') !== true)
    throw invalid('path', `${JSON.stringify(path)} is not a supported image file`)
  const { sizeBytes } = await session.files.stat({ path })
  if (sizeBytes > limits.imageBytes)
    throw new EngineError('TOO_LARGE', `${path} exceeded the allowed size of 10 MB`, {
      limit: String(limits.imageBytes),
    })
  const data = new Uint8Array(await session.files.read({ path }))
  return { type: 'image', image: { data, mediaType } }
}

async function listDirectory(session: SessionApi, path: string): Promise<SandboxDirectoryEntry[]> {
  const found: SandboxDirectoryEntry[] = []
  let pageToken = ''
  do {
    const page = await session.files.list({ path, pageSize: limits.entriesPerPage, pageToken })
    for (const { name, kind } of page.entries)
      found.push({ name, path: posix.join(path, name), type: typeOf(kind) })
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return found
}

function typeOf(kind: string): SandboxDirectoryEntry['type'] {
  if (kind === 'file') return 'file'
  return kind === 'directory' ? 'dir' : 'other'
}

function hasExport(session: SessionApi): session is Session {
  return 'exportTar' in session
}

async function archiveOf(session: Session): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of session.exportTar()) {
    size += piece.length
    if (size > limits.archiveBytes)
      throw new EngineError('TOO_LARGE', `the archive has more than ${limits.archiveBytes} bytes`, {
        limit: String(limits.archiveBytes),
      })
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
