import type { Session } from '../../engine/index.js'
import { EngineError, given, invalid } from '../../engine/ports.js'
import type { CommandContext, CommandOutcome, WorkspaceExec } from '../tools/index.js'
import { limits } from './limits.js'
import type { SandboxSessions } from './sandbox-sessions.js'

/** Makes the function that runs the commands of one sandbox. */
export type ExecFactory = (session: Session) => WorkspaceExec

/** One sandbox: its session, which a clone replaces, and its variables, which are never stored. */
export class SandboxState {
  readonly id: string
  readonly #sessions: SandboxSessions
  readonly #execOf: ExecFactory | undefined
  readonly #env: Map<string, string>
  #session: Session
  #exec: WorkspaceExec | undefined

  constructor(
    id: string,
    session: Session,
    {
      sessions,
      execOf,
      env,
    }: {
      readonly sessions: SandboxSessions
      readonly execOf: ExecFactory | undefined
      readonly env: Map<string, string>
    },
  ) {
    this.id = id
    this.#sessions = sessions
    this.#session = session
    this.#execOf = execOf
    this.#env = env
  }

  /** The session, or the one by which a clone of any handle replaced it. */
  get session(): Session {
    const newest = this.#sessions.newestOf(this.#session)
    if (newest !== this.#session) this.#exec = undefined
    this.#session = newest
    return newest
  }

  /** Runs a change of the session. A clone that replaces the session waits for its end. */
  async change<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#sessions.changes.change(this.id, () => work(this.session))
  }

  get env(): ReadonlyMap<string, string> {
    return this.#env
  }

  /**
   * Sets variables of later commands.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a name or value is none. No variable is set then.
   */
  setEnv(variables: unknown): void {
    for (const [name, value] of withVariables(this.#env, variables)) this.#env.set(name, value)
  }

  /** Runs a command with the variables of the sandbox. */
  async run(command: string, { env, ...context }: CommandContext): Promise<CommandOutcome> {
    this.requireExec()
    const all = { ...Object.fromEntries(this.#env), ...env }
    const outcome: unknown = await this.#sessions.changes.command(this.id, async () =>
      this.requireExec()(command, { ...context, env: all }),
    )
    if (!isOutcome(outcome))
      throw invalid(
        'exec',
        'must resolve to an object with the strings stdout and stderr, and the number exitCode',
      )
    return outcome
  }

  /** @throws {EngineError} NO_ADAPTER when the sandbox runs no commands. */
  requireExec(): WorkspaceExec {
    if (this.#execOf === undefined)
      throw new EngineError(
        'NO_ADAPTER',
        'this sandbox runs no commands: pass the option exec to workspaceSandboxProvider, such as one that calls exec of a workspaceShell',
      )
    const { session } = this
    this.#exec ??= this.#execOf(session)
    if (typeof this.#exec !== 'function') throw invalid('exec', 'must return a function that runs a command')
    return this.#exec
  }
}

/** The function is one of the program, so its result can be anything. */
function isOutcome(value: unknown): value is CommandOutcome {
  const { stdout, stderr, exitCode } = (value ?? {}) as Partial<Record<keyof CommandOutcome, unknown>>
  return typeof stdout === 'string' && typeof stderr === 'string' && typeof exitCode === 'number'
}

/**
 * Variables of a sandbox with further ones.
 *
 * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when they cannot be added
 */
export function withVariables(known: ReadonlyMap<string, string>, variables: unknown): Map<string, string> {
  const all = new Map([...known, ...Object.entries(checkedVariables(variables))])
  let length = 0
  for (const [name, value] of all) length += name.length + value.length
  if (all.size <= limits.variables && length <= limits.variablesLength) return all
  throw new EngineError(
    'TOO_LARGE',
    `a sandbox has at most ${limits.variables} variables with ${limits.variablesLength} characters`,
    { limit: String(limits.variables) },
  )
}

/** Variables with names that shells accept. */
export function checkedVariables(variables: unknown): Readonly<Record<string, string>> {
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables))
    throw invalid('env', `must be an object of strings; it is ${given(variables)}`)
  for (const [name, value] of Object.entries(variables)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || name === '__proto__')
      throw invalid('env', `has a name that is no variable: ${given(name)}`)
    if (typeof value !== 'string' || value.includes('\0'))
      throw invalid(`env.${name}`, `must be a string without NUL; it is ${typeof value}`)
  }
  return variables as Record<string, string>
}
