import { Bash } from 'just-bash'
import type { BashOptions } from 'just-bash'
import type { DraftResult, Session, SessionDraft } from '../../engine/index.js'
import { EngineError, given, invalid, limits, readEntries, Shape } from '../../engine/index.js'
import { checkSignal } from '../../engine/ports.js'
import { WorkspaceFileSystem } from './file-system.js'
import { justBashLimits } from './limits.js'
import { PrivateLayer } from './private-layer.js'
import type { Running } from './session-calls.js'

/** Options of {@link workspaceShell}. */
export interface WorkspaceShellOptions {
  /** The working directory of each command; `/` by default. */
  readonly cwd?: string
  /** Variables that each command starts with, besides those of just-bash. */
  readonly env?: Readonly<Record<string, string>>
  /** Commands of your own, from `defineCommand` of just-bash. They replace built-in ones of the same name. */
  readonly customCommands?: BashOptions['customCommands']
  /** The hosts that `curl` may reach. Absent: no network, and no `curl`. */
  readonly network?: BashOptions['network']
  /** Limits of just-bash. Those below take precedence. */
  readonly executionLimits?: BashOptions['executionLimits']
  /** The time of one command in milliseconds; 60,000 by default. */
  readonly timeoutMs?: number
  /** What one command writes to its standard output and error, in bytes; 4 MiB by default. */
  readonly maxOutputBytes?: number
  /** true: `/tmp` belongs to the shell, and not to the session; false by default. */
  readonly privateTmp?: boolean
}

/** Options of one command. */
export interface ShellExecOptions {
  /** The id of the tool call, which the event has as `details.metadata.callId`. */
  readonly callId?: string
  /** The turn of the agent. Events of one turn are a group, which `session.undo({ by: 'group' })` undoes. */
  readonly turn?: string
  /** Aborts the command. The call rejects with the reason of the signal, and the session stays as it was. */
  readonly signal?: AbortSignal
  /** The working directory of this command. */
  readonly cwd?: string
  /** Further variables of this command. */
  readonly env?: Readonly<Record<string, string>>
  /** The standard input. */
  readonly stdin?: string
}

/** A path that a command changed. */
export interface ShellChange {
  /** Absolute path. */
  readonly path: string
  /** `added`, `removed` or `modified`. */
  readonly change: DraftResult['changes'][number]['change']
  /** `file`, `directory` or `symlink`. */
  readonly kind: DraftResult['changes'][number]['kind']
  /** The hash of the new content of a file. */
  readonly contentHash?: string
}

/** The result of one command. */
export interface ShellResult {
  /** What the command wrote to its standard output. */
  readonly stdout: string
  /** What the command wrote to its standard error. */
  readonly stderr: string
  /** 0: success. 126: a limit of just-bash was exceeded. 127: there is no such command. */
  readonly exitCode: number
  /** The paths that the command changed, in order, at most 10,000. */
  readonly changes: readonly ShellChange[]
  /** The number of all changed paths. */
  readonly changeCount: number
  /** The `eventId` of the command's event; '' if it changed nothing. */
  readonly eventId: string
}

const shellShape = new Shape<WorkspaceShellOptions>({
  cwd: true,
  env: true,
  customCommands: true,
  network: true,
  executionLimits: true,
  timeoutMs: true,
  maxOutputBytes: true,
  privateTmp: true,
})
const execShape = new Shape<ShellExecOptions>({
  callId: true,
  turn: true,
  signal: true,
  cwd: true,
  env: true,
  stdin: true,
})

type ShellSettings = WorkspaceShellOptions & {
  readonly cwd: string
  readonly timeoutMs: number
  readonly maxOutputBytes: number
  readonly privateTmp: boolean
}

/** A shell on a session. Each command is one event of the session, or none. */
export class WorkspaceShell {
  readonly #session: Session
  readonly #settings: ShellSettings
  readonly #private: PrivateLayer

  /** @internal */
  constructor(session: Session, options: WorkspaceShellOptions) {
    this.#settings = parseShell(options)
    if (typeof session?.draft !== 'function') throw invalid('session', 'must be a session')
    this.#session = session
    this.#private = new PrivateLayer(this.#settings)
  }

  /**
   * Runs a command or script on a private copy of the session, and commits its changes as one event, whatever its exit
   * code. Nothing is committed if the call rejects. Commands of several calls may run at the same time.
   *
   * Each command starts in the directory and with the variables of the options, as in a new process: `cd` and `export`
   * end with their command.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the command or an option has the wrong form.
   * @throws {EngineError} TOO_LARGE when the command is longer than 1 MiB.
   * @throws {EngineError} DEADLINE_EXCEEDED when the command takes longer than `timeoutMs`.
   * @throws {EngineError} MERGE_CONFLICT when the session has changed one of the paths meanwhile; `details.paths` lists
   * them.
   *
   * @example
   * const shell = workspaceShell(session)
   * const { stdout, changes } = await shell.exec('echo one > a.txt && cat a.txt')
   */
  async exec(command: string, options: ShellExecOptions = {}): Promise<ShellResult> {
    const request = parseExec(command, options)
    request.signal?.throwIfAborted()
    const draft = await handleFor(this.#session, request).draft()
    try {
      return await this.#execOn(draft, command, request)
    } finally {
      await draft[Symbol.asyncDispose]()
    }
  }

  async #execOn(draft: SessionDraft, command: string, request: ShellExecOptions): Promise<ShellResult> {
    const { signal, cwd, env, stdin } = request
    const { timeoutMs } = this.#settings
    const startedAt = performance.now()
    const running = { hasEnded: false }
    const { stdout, stderr, exitCode } = await this.#bashOn(draft, running)
      .exec(command, {
        ...(signal !== undefined && { signal }),
        ...(cwd !== undefined && { cwd }),
        ...(env !== undefined && { env: { ...env } }),
        ...(stdin !== undefined && { stdin }),
      })
      .catch(asResult)
      .finally(() => (running.hasEnded = true))
    signal?.throwIfAborted()
    // The exit code is no sign that just-bash stopped the command: a built-in command may end with another one then.
    if (performance.now() - startedAt >= timeoutMs) throw tooSlow(timeoutMs)
    const { changes, changeCount, eventId } = await draft.commit()
    return { stdout, stderr, exitCode, changes: await withHashes(draft, changes), changeCount, eventId }
  }

  #bashOn(draft: SessionDraft, running: Running): Bash {
    const { cwd, env, customCommands, network, executionLimits, timeoutMs, maxOutputBytes } = this.#settings
    return new Bash({
      fs: new WorkspaceFileSystem(() => draft.fs, this.#private, 'the draft', running),
      cwd,
      ...(env !== undefined && { env: { ...env } }),
      ...(customCommands !== undefined && { customCommands }),
      ...(network !== undefined && { network }),
      executionLimits: { ...executionLimits, maxExecutionTimeMs: timeoutMs, maxOutputSize: maxOutputBytes },
    })
  }
}

/** The handle whose events belong to a tool call. */
function handleFor(session: Session, { turn, callId }: ShellExecOptions): Session {
  const grouped = turn === undefined ? session : session.group(turn)
  return callId === undefined ? grouped : grouped.withMetadata({ callId })
}

/** just-bash does not catch the error of a redirection such as `> file/name`. The script ends there. */
function asResult(error: unknown): Pick<ShellResult, 'stdout' | 'stderr' | 'exitCode'> {
  if (!(error instanceof Error) || !('syscall' in error)) throw error
  return { stdout: '', stderr: `bash: ${error.message}\n`, exitCode: 1 }
}

/** Adds the hashes of the new contents. After its commit, the draft can still be read. */
async function withHashes(draft: SessionDraft, changes: DraftResult['changes']): Promise<ShellChange[]> {
  const hashed: ShellChange[] = []
  for (const { path, change, kind } of changes) {
    const hasContent = kind === 'file' && change !== 'removed'
    hashed.push({
      path,
      change,
      kind,
      ...(hasContent && { contentHash: await draft.files.contentHash(path) }),
    })
  }
  return hashed
}

function parseShell(options: WorkspaceShellOptions): ShellSettings {
  const copy = shellShape.read(options, 'options')
  const { cwd = '/', env, timeoutMs, maxOutputBytes, privateTmp = false } = copy
  checkDirectory('cwd', cwd)
  checkVariables(env)
  if (typeof privateTmp !== 'boolean')
    throw invalid('privateTmp', `must be true or false; it is ${given(privateTmp)}`)
  return {
    ...copy,
    cwd,
    privateTmp,
    timeoutMs: count('timeoutMs', timeoutMs, justBashLimits.timeoutMs),
    maxOutputBytes: count('maxOutputBytes', maxOutputBytes, justBashLimits.outputBytes),
  }
}

function parseExec(command: unknown, options: ShellExecOptions): ShellExecOptions {
  if (typeof command !== 'string') throw invalid('command', `must be a string; it is ${given(command)}`)
  if (Buffer.byteLength(command) > justBashLimits.commandBytes)
    throw new EngineError(
      'TOO_LARGE',
      `the command is longer than ${justBashLimits.commandBytes} bytes: write it to a file, and run that`,
      { limit: String(justBashLimits.commandBytes) },
    )
  const copy = execShape.read(options, 'options')
  const { callId, turn, signal, cwd, env, stdin } = copy
  for (const [name, value] of Object.entries({ callId, turn, stdin }))
    if (value !== undefined && typeof value !== 'string')
      throw invalid(name, `must be a string; it is ${given(value)}`)
  checkSignal(signal)
  if (cwd !== undefined) checkDirectory('cwd', cwd)
  checkVariables(env)
  return copy
}

function checkDirectory(field: string, path: unknown): void {
  if (typeof path !== 'string' || !path.startsWith('/') || path.length > limits.pathBytes)
    throw invalid(field, `must be an absolute path, such as '/src'; it is ${given(path)}`)
}

function checkVariables(env: unknown): void {
  if (env === undefined) return
  if (typeof env !== 'object' || env === null || Array.isArray(env))
    throw invalid('env', `must be an object of strings; it is ${given(env)}`)
  for (const [name, value] of readEntries('env', env, 'must be an object of strings'))
    if (typeof value !== 'string') throw invalid(`env.${name}`, `must be a string; it is ${given(value)}`)
}

function count(field: string, value: unknown, byDefault: number): number {
  if (value === undefined) return byDefault
  if (!Number.isSafeInteger(value) || (value as number) < 1)
    throw invalid(field, `must be a whole number of at least 1; it is ${given(value)}`)
  return value as number
}

function tooSlow(timeoutMs: number): EngineError {
  return new EngineError(
    'DEADLINE_EXCEEDED',
    `the command took longer than ${timeoutMs} ms, and nothing was changed: run a shorter one, or set timeoutMs`,
    { timeoutMs: String(timeoutMs) },
  )
}
