import { randomUUID } from 'node:crypto'
import {
  SandboxAbortError,
  SandboxNotReadyError,
  validateSandboxFileMode,
  type CommandResult,
  type ExecuteCommandOptions,
  type ProviderStatus,
  type SandboxCloneOptions,
  type SandboxFileInput,
  type SandboxInfo,
  type SandboxStartResult,
  type WorkspaceSandbox,
  type WriteFilesOptions,
} from '@mastra/core/workspace'
import type { JsonObject, SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid, isBytes, Shape } from '../../engine/ports.js'
import { workspaceOf, type WorkspaceExec } from '../tools/parts.js'
import { turnMarks } from '../turns/index.js'
import { forCall, handleFor, type Callable, type CurrentCall, type Shared } from './call.js'
import { findCheckpoint, findClone, writeCheckpoint, type SandboxSessions } from './checkpoints.js'
import { executeCommand, resolve, variablesOf } from './command.js'
import { limits } from './limits.js'
import { pathOf } from './path.js'

/** Options of {@link sessionSandbox}. */
export interface SessionSandboxOptions {
  /**
   * Runs commands, such as `exec` of a `workspaceShell` of `forkspace/just-bash` on the given session, which is that of
   * a clone for a clone. Without it, the agent has no tool for commands.
   */
  readonly exec?: (session: SessionApi) => WorkspaceExec
  /** The directory in which commands start; `/` by default. */
  readonly cwd?: string
  /** Environment variables of every command. */
  readonly env?: Readonly<Record<string, string>>
  /** The name under which `snapshot()` writes. Without one, each snapshot is a further checkpoint of the session. */
  readonly checkpointName?: string
  /**
   * The sessions of the engine: `engine.sessions`. Clones then find the checkpoints of other clones, and a clone with a
   * known `id` or `sandboxId` continues the session of an earlier one, also in another process.
   */
  readonly sessions?: SandboxSessions
  /** Facts for the metadata of every event, such as the name of the agent. */
  readonly metadata?: JsonObject
  /** The turn of the conversation, or a function that returns the present one. */
  readonly turn?: string | (() => string | undefined)
}

/** A sandbox whose files are those of a session. */
export interface SessionSandbox extends WorkspaceSandbox {
  /**
   * The session of the sandbox. That of a clone exists once `start()` has resolved; before, this throws a
   * `SandboxNotReadyError`.
   */
  readonly session: SessionApi
  /**
   * A sandbox on a fork, which its `start()` creates.
   *
   * @throws {EngineError} INVALID_ARGUMENT when an option has the wrong form.
   *
   * @example
   * import { sessionSandbox } from 'forkspace/mastra'
   *
   * const attempt = sessionSandbox(session).clone()
   * await attempt.start()
   */
  clone(options?: SandboxCloneOptions): SessionSandbox
  /**
   * Makes the sandbox ready. The outcome is `created` if this made the fork of a clone.
   *
   * @throws {EngineError} NO_ADAPTER when the clone has a `sandboxId`, and the sandbox no `sessions`.
   * @throws {EngineError} SESSION_NOT_FOUND when no session has the `sandboxId`.
   *
   * @example
   * import { sessionSandbox } from 'forkspace/mastra'
   *
   * const { outcome } = await sessionSandbox(session).clone().start() // created
   */
  start(): Promise<SandboxStartResult>
  /**
   * Marks the sandbox as stopped. Its session stays.
   *
   * @example
   * import { sessionSandbox } from 'forkspace/mastra'
   *
   * await sessionSandbox(session).stop()
   */
  stop(): Promise<void>
  /**
   * Marks the sandbox as destroyed. Its session stays, with its checkpoints: delete it yourself, or let it expire.
   *
   * @example
   * import { sessionSandbox } from 'forkspace/mastra'
   *
   * await sessionSandbox(session).destroy()
   */
  destroy(): Promise<void>
  /**
   * Writes files as one event. Missing parents are created.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a path or content has the wrong form.
   * @throws {EngineError} IS_A_DIRECTORY when a path is a directory.
   * @throws {EngineError} TOO_LARGE when there are over 10,000 files.
   *
   * @example
   * import { sessionSandbox } from 'forkspace/mastra'
   *
   * await sessionSandbox(session).writeFiles([{ path: '/run.sh', content: 'ls', mode: 0o755 }])
   */
  writeFiles(files: SandboxFileInput[], options?: WriteFilesOptions): Promise<void>
}

const optionsShape = new Shape<SessionSandboxOptions>({
  exec: true,
  cwd: true,
  env: true,
  checkpointName: true,
  sessions: true,
  metadata: true,
  turn: true,
})

/**
 * A session as the sandbox of a Mastra workspace. `snapshot()` is a checkpoint, and `clone()` a fork: neither copies a
 * file.
 *
 * Guarantees
 * - Commands run only with `exec`, which decides which files and hosts they can reach. Their output arrives at the end.
 * - `writeFiles` is one event, or none. An abort that comes before it changes nothing.
 * - A clone starts from the newest checkpoint of its `checkpointName`, or else of its `seedCheckpointName`, or else from
 *   the files as they are when it starts.
 * - `stop()` and `destroy()` keep the session, whose checkpoints later clones may start from.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { sessionSandbox } from 'forkspace/mastra'
 *
 * const sandbox = sessionSandbox(session, { checkpointName: 'base' })
 * await sandbox.snapshot()
 * const attempt = sandbox.clone({ seedCheckpointName: 'base' })
 * await attempt.start()
 * await attempt.writeFiles([{ path: '/new.md', content: 'of the attempt' }])
 */
export function sessionSandbox(session: SessionApi, options: SessionSandboxOptions = {}): SessionSandbox {
  const copy = optionsShape.read(options, 'options')
  const { exec, cwd = '/', env, checkpointName, sessions, metadata, turn } = copy
  if (exec !== undefined && typeof exec !== 'function')
    throw invalid('exec', 'must be a function that takes a session and returns one that runs a command')
  if (sessions !== undefined && (typeof sessions?.list !== 'function' || typeof sessions.open !== 'function'))
    throw invalid('sessions', 'must be the sessions of an engine: engine.sessions')
  const settings = {
    exec,
    cwd: resolve('/', cwd),
    env: variablesOf(env),
    sessions,
    turn: turnMarks(turn),
    options: metadata === undefined ? {} : { metadata },
  }
  const checkedName = nameOf('checkpointName', checkpointName)
  const shared = { workspace: workspaceOf(session, settings.options), turn: settings.turn }
  const state: State = { shared, status: 'running', createdAt: new Date() }
  return new Sandbox({ id: session.id, settings, checkpointName: checkedName, state }, {})
}

interface Settings {
  readonly exec: SessionSandboxOptions['exec']
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly sessions: SandboxSessions | undefined
  readonly turn: Shared['turn']
  readonly options: { readonly metadata?: JsonObject }
}

/** The state that a sandbox and its copies for single calls share. */
interface State {
  shared: Shared | undefined
  status: ProviderStatus
  /** Runs the commands, once there was one. */
  run?: WorkspaceExec
  starting?: Promise<SandboxStartResult>
  readonly createdAt: Date
}

interface Parts {
  readonly id: string
  readonly settings: Settings
  readonly checkpointName: string | undefined
  readonly state: State
  /** Gives the session of a clone. */
  readonly provision?: () => Promise<{ readonly session: SessionApi } & SandboxStartResult>
}

class Sandbox implements SessionSandbox, Callable {
  readonly id: string
  readonly name = 'forkspace'
  readonly provider = 'forkspace'
  readonly supportsCheckpoints = true
  readonly executeCommand?: NonNullable<WorkspaceSandbox['executeCommand']>
  readonly #parts: Parts
  readonly #call: CurrentCall

  constructor(parts: Parts, call: CurrentCall) {
    this.id = parts.id
    this.#parts = parts
    this.#call = call
    // Mastra offers commands to an agent if the method exists.
    if (parts.settings.exec !== undefined)
      this.executeCommand = (command, args, options) => this.#execute(command, args, options)
  }

  [forCall](call: CurrentCall): Sandbox {
    return new Sandbox(this.#parts, call)
  }

  get status(): ProviderStatus {
    return this.#parts.state.status
  }

  get session(): SessionApi {
    return this.#shared.workspace.current
  }

  get #shared(): Shared {
    const { shared, status } = this.#parts.state
    if (shared === undefined) throw new SandboxNotReadyError(status)
    return shared
  }

  getInfo(): SandboxInfo {
    const { id, name, provider, status } = this
    return { id, name, provider, status, createdAt: this.#parts.state.createdAt }
  }

  getInstructions(): string {
    const { settings } = this.#parts
    const commands =
      settings.exec === undefined ? 'Commands do not run here.' : `Commands start in ${settings.cwd}.`
    return `A sandbox on the versioned files of the workspace. ${commands}`
  }

  async start(): Promise<SandboxStartResult> {
    const { state } = this.#parts
    state.starting ??= this.#start().finally(() => {
      delete state.starting
    })
    return state.starting
  }

  async #start(): Promise<SandboxStartResult> {
    const { state, settings, provision } = this.#parts
    let outcome: SandboxStartResult['outcome'] = 'connected'
    if (state.shared === undefined && provision !== undefined) {
      state.status = 'starting'
      try {
        const started = await provision()
        state.shared = { workspace: workspaceOf(started.session, settings.options), turn: settings.turn }
        outcome = started.outcome
      } catch (error) {
        state.status = 'error'
        throw error
      }
    }
    state.status = 'running'
    return { outcome }
  }

  async stop(): Promise<void> {
    this.#parts.state.status = 'stopped'
  }

  async destroy(): Promise<void> {
    this.#parts.state.status = 'destroyed'
  }

  async snapshot(): Promise<void> {
    await writeCheckpoint(handleFor(this.#shared, this.#call), this.#parts.checkpointName)
  }

  clone(options: SandboxCloneOptions = {}): SessionSandbox {
    if (typeof options !== 'object' || options === null)
      throw invalid('options', `must be an object; it is ${given(options)}`)
    const { settings } = this.#parts
    const id = nameOf('id', options.id)
    const sandboxId = nameOf('sandboxId', options.sandboxId)
    const checkpointName = nameOf('checkpointName', options.checkpointName)
    const seed = nameOf('seedCheckpointName', options.seedCheckpointName)
    const { workingDirectory } = options
    return new Sandbox(
      {
        id: id ?? sandboxId ?? randomUUID(),
        settings: {
          ...settings,
          cwd: workingDirectory === undefined ? settings.cwd : resolve(settings.cwd, workingDirectory),
          env: { ...settings.env, ...variablesOf(options.env) },
        },
        checkpointName,
        state: { shared: undefined, status: 'pending', createdAt: new Date() },
        provision: () => this.#provision({ id, sandboxId, checkpointName, seed }),
      },
      {},
    )
  }

  /** The session of a clone: that of an earlier one with its id, or a fork. */
  async #provision({
    id,
    sandboxId,
    checkpointName,
    seed,
  }: CloneNames): Promise<{ readonly session: SessionApi } & SandboxStartResult> {
    const { sessions } = this.#parts.settings
    if (sandboxId !== undefined) {
      if (sessions === undefined)
        throw noAdapter('sandboxId needs the option sessions of sessionSandbox: pass engine.sessions')
      return { session: await sessions.open(sandboxId), outcome: 'connected' }
    }
    const known = id === undefined ? undefined : await findClone(sessions, id)
    if (known !== undefined) return { session: known, outcome: 'connected' }
    const places = { session: this.session, sessions }
    const found =
      (checkpointName === undefined ? undefined : await findCheckpoint(places, checkpointName)) ??
      (seed === undefined ? undefined : await findCheckpoint(places, seed))
    const metadata = {
      ...(id !== undefined && { sandboxId: id }),
      ...(checkpointName !== undefined && { checkpointName }),
    }
    const session =
      found === undefined
        ? await this.session.fork({ metadata })
        : await found.session.fork({ from: { checkpointId: found.checkpointId }, metadata })
    return { session, outcome: 'created' }
  }

  async writeFiles(files: SandboxFileInput[], options: WriteFilesOptions = {}): Promise<void> {
    if (!Array.isArray(files)) throw invalid('files', `must be an array; it is ${given(files)}`)
    if (files.length > limits.writtenFiles)
      throw new EngineError('TOO_LARGE', `files has ${files.length} files, over ${limits.writtenFiles}`, {
        limit: String(limits.writtenFiles),
      })
    const operations = files.map((file: unknown) => ({ write: writeOf(file) }))
    for (const signal of [options?.abortSignal, this.#call.signal])
      if (signal?.aborted === true) throw new SandboxAbortError('writeFiles', signal.reason)
    await handleFor(this.#shared, this.#call).files.batch(operations)
  }

  async #execute(
    command: string,
    args: string[] = [],
    options: ExecuteCommandOptions = {},
  ): Promise<CommandResult> {
    const { exec, cwd, env } = this.#parts.settings
    if (exec === undefined)
      throw noAdapter('this sandbox runs no commands: pass the option exec to sessionSandbox')
    if (typeof options !== 'object' || options === null)
      throw invalid('options', `must be an object; it is ${given(options)}`)
    const { signal, ...marks } = this.#call
    const { state } = this.#parts
    state.run ??= exec(this.session)
    const settings = { exec: state.run, cwd, env, marks: { ...this.#shared.turn(), ...marks } }
    const { abortSignal = signal } = options
    const abortable = abortSignal === undefined ? options : { ...options, abortSignal }
    return executeCommand(settings, command, args, abortable)
  }
}

interface CloneNames {
  readonly id: string | undefined
  readonly sandboxId: string | undefined
  readonly checkpointName: string | undefined
  readonly seed: string | undefined
}

function writeOf(file: unknown): {
  readonly path: string
  readonly content: string | Uint8Array
  mode?: number
} {
  if (typeof file !== 'object' || file === null)
    throw invalid('files', `must have objects with path and content; one is ${given(file)}`)
  const { path, content, mode } = file as Partial<SandboxFileInput>
  if (typeof content !== 'string' && !isBytes(content))
    throw invalid('content', `must be a text or bytes; it is ${given(content)}`)
  if (mode !== undefined) validateSandboxFileMode(mode)
  return { path: pathOf(path), content, ...(mode !== undefined && { mode }) }
}

function nameOf(field: string, name: unknown): string | undefined {
  if (name === undefined || (typeof name === 'string' && name !== '')) return name
  throw invalid(field, `must be a text that is not empty; it is ${given(name)}`)
}

function noAdapter(message: string): EngineError {
  return new EngineError('NO_ADAPTER', message)
}
