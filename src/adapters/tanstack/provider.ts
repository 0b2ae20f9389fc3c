import { randomUUID } from 'node:crypto'
import type {
  SandboxCapabilities,
  SandboxCreateInput,
  SandboxHandle,
  SandboxProvider,
  SandboxRestoreInput,
} from '@tanstack/ai-sandbox'
import type { EngineScope, Session, SessionCreateRequest } from '../../engine/index.js'
import { checkSignal, EngineError, given, invalid, Shape } from '../../engine/ports.js'
import { filesOf } from './files.js'
import { gitOf } from './git.js'
import { limits } from './limits.js'
import { processOf } from './process.js'
import { checkedId, SandboxSessions } from './sandbox-sessions.js'
import { SandboxState, withVariables, type ExecFactory } from './sandbox-state.js'

/** Options of {@link workspaceSandboxProvider}. */
export interface WorkspaceSandboxProviderOptions {
  /**
   * Makes the function that runs the commands of a sandbox, from its session. Without it, commands fail with
   * NO_ADAPTER.
   */
  readonly exec?: ExecFactory
  /** How sandboxes begin, as for `engine.sessions.create`: with files, or on a source. Empty by default. */
  readonly from?: SessionCreateRequest
  /** The branch to which `git.commit` commits and pushes. Without it, commits stay in the engine. */
  readonly branch?: string
}

const fromShape = new Shape<SessionCreateRequest>({
  sourceRef: true,
  files: true,
  gitRepository: true,
  initialTags: true,
  ttlSeconds: true,
})
const optionsShape = new Shape<WorkspaceSandboxProviderOptions>({ exec: true, from: true, branch: true })

/**
 * Sandboxes of TanStack AI on an engine. A sandbox is a session, and its root is both `/workspace` and `/`.
 *
 * Guarantees
 * - Paths stay in the session. A sandbox has no access to files of the host.
 * - Each change of a file is one event. `fork` and `snapshot` copy nothing but the changes since the last commit.
 * - A snapshot is a fork of its own, so it outlives a session that was deleted or has expired.
 * - Variables are kept in memory only.
 *
 * Commands run only with `exec`, which decides which files and hosts they can reach. Their output arrives when they
 * end. Ports are refused with NO_ADAPTER. Of git, a sandbox has `clone` into an empty workspace, `status`, `add` of
 * all changes, `commit` and `branch`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the engine is none.
 *
 * @example
 * import { defineSandbox, withSandbox } from '@tanstack/ai-sandbox'
 * import { workspaceShell } from 'forkspace/just-bash'
 * import { workspaceSandboxProvider } from 'forkspace/tanstack'
 *
 * const provider = workspaceSandboxProvider(engine, {
 *   exec: (session) => {
 *     const shell = workspaceShell(session)
 *     return (command, options) => shell.exec(command, options)
 *   },
 * })
 * const middleware = [withSandbox(defineSandbox({ id: 'app', provider }))] // for chat({ adapter, messages, middleware })
 */
export function workspaceSandboxProvider(
  engine: EngineScope,
  options: WorkspaceSandboxProviderOptions = {},
): SandboxProvider {
  const { exec, from: given, branch } = optionsShape.read(options, 'options')
  if (exec !== undefined && typeof exec !== 'function')
    throw invalid('exec', 'must be a function that returns one that runs a command')
  const from = given === undefined ? {} : fromShape.readPart(given, 'from')
  if (branch !== undefined && (typeof branch !== 'string' || branch === ''))
    throw invalid('branch', 'must be the name of a branch, such as main')
  if (typeof engine?.sessions?.create !== 'function')
    throw invalid('engine', 'must be an engine in this process')
  return new Sandboxes(new SandboxSessions(engine, from), { execOf: exec, branch }).provider()
}

const createShape = new Shape<SandboxCreateInput>({
  id: true,
  workspace: true,
  policy: true,
  env: true,
  signal: true,
})
const restoreShape = new Shape<SandboxRestoreInput>({
  snapshotId: true,
  workspace: true,
  policy: true,
  env: true,
  signal: true,
})
const referenceShape = new Shape<{ readonly id: string; readonly signal?: AbortSignal }>({
  id: true,
  signal: true,
})

const providerName = 'forkspace'

interface Settings {
  readonly execOf: ExecFactory | undefined
  readonly branch: string | undefined
}

class Sandboxes {
  readonly #sessions: SandboxSessions
  readonly #settings: Settings
  /** The variables of each sandbox. They may be secrets, so no session has them. */
  readonly #variables = new Map<string, Map<string, string>>()

  constructor(sessions: SandboxSessions, settings: Settings) {
    this.#sessions = sessions
    this.#settings = settings
  }

  provider(): SandboxProvider {
    const sessions = this.#sessions
    return {
      name: providerName,
      capabilities: () => this.#capabilities(),
      create: async (input) => {
        const { id = randomUUID(), workspace, env = {}, signal } = createShape.read(input, 'input')
        begin(signal, 'id', id)
        const variables = Object.fromEntries(withVariables(new Map(), env))
        const source = workspace?.source
        const session =
          source?.type === 'local'
            ? await sessions.import(id, { kind: 'directory', place: source.path, ref: '' }, signal)
            : await sessions.create(id)
        this.#variables.delete(id)
        return this.#handle(id, session, variables)
      },
      resume: async (input) => {
        const { id, signal } = referenceShape.read(input, 'input')
        begin(signal, 'id', id)
        const session = await sessions.find(id)
        return session === undefined ? null : this.#handle(id, session)
      },
      restoreSnapshot: async (input) => {
        const { snapshotId, env = {}, signal } = restoreShape.read(input, 'input')
        begin(signal, 'snapshotId', snapshotId)
        withVariables(new Map(), env)
        const { id, snapshot } = await sessions.snapshotOf(snapshotId)
        const variables = Object.fromEntries(withVariables(this.#variables.get(id) ?? new Map(), env))
        return this.#handle(id, await sessions.forkAs(id, snapshot), variables)
      },
      destroy: async (input) => {
        const { id, signal } = referenceShape.read(input, 'input')
        begin(signal, 'id', id)
        await sessions.deleteAll(id, signal)
        this.#variables.delete(id)
      },
    }
  }

  #handle(id: string, session: Session, variables: Readonly<Record<string, string>> = {}): SandboxHandle {
    const sessions = this.#sessions
    const { execOf, branch } = this.#settings
    const state = new SandboxState(id, session, { sessions, execOf, env: this.#variablesOf(id) })
    state.setEnv(variables)
    return {
      id,
      provider: providerName,
      workspaceRoot: '/',
      capabilities: this.#capabilities(),
      fs: filesOf(state),
      process: processOf(state),
      git: gitOf(state, {
        branch,
        sessions,
      }),
      ports: {
        connect: async (port) => {
          throw new EngineError(
            'NO_ADAPTER',
            `port ${given(port)} cannot be reached: a workspace has no network`,
          )
        },
      },
      env: {
        set: async (vars) => state.setEnv(vars),
      },
      snapshot: async (label) => {
        if (label !== undefined) checkedId('label', label)
        const snapshot = await sessions.oneByOne(id, () => sessions.snapshot(id, state.session, label))
        return { id: snapshot.id, ...(label !== undefined && { label }) }
      },
      fork: async () => {
        const forkId = randomUUID()
        const fork = await sessions.oneByOne(id, () => sessions.forkAs(forkId, state.session))
        return this.#handle(forkId, fork, Object.fromEntries(state.env))
      },
      destroy: async () => {
        await sessions.deleteLive(id)
        await sessions.delete(state.session.id)
      },
    }
  }

  #capabilities(): SandboxCapabilities {
    const hasCommands = this.#settings.execOf !== undefined
    return {
      fs: true,
      exec: hasCommands,
      env: hasCommands,
      ports: false,
      backgroundProcesses: hasCommands,
      writableStdin: false,
      snapshots: true,
      networkPolicy: false,
      durableFilesystem: true,
      fork: true,
    }
  }

  #variablesOf(id: string): Map<string, string> {
    const known = this.#variables.get(id) ?? new Map<string, string>()
    this.#variables.set(id, known)
    const [oldest] = this.#variables.keys()
    if (oldest !== undefined && this.#variables.size > limits.sandboxes) this.#variables.delete(oldest)
    return known
  }
}

/** Checks an id and a signal at the beginning of a call. */
function begin(signal: AbortSignal | undefined, field: string, id: string): void {
  checkedId(field, id)
  checkSignal(signal)
  signal?.throwIfAborted()
}
