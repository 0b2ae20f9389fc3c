import type { Session } from '../../engine/index.js'
import { EngineError, given, invalid } from '../../engine/ports.js'
import type { CommandContext, CommandOutcome, WorkspaceExec } from '../tools/index.js'
import { limits } from './limits.js'

/** Makes the function that runs the commands of one sandbox. */
export type ExecFactory = (session: Session) => WorkspaceExec

/** One sandbox: its session, which a clone replaces, and its variables, which are never stored. */
export class SandboxState {
  readonly id: string
  readonly #execOf: ExecFactory | undefined
  readonly #env: Map<string, string>
  #session: Session
  #exec: WorkspaceExec | undefined

  constructor(
    id: string,
    session: Session,
    { execOf, env }: { readonly execOf: ExecFactory | undefined; readonly env: Map<string, string> },
  ) {
    this.id = id
    this.#session = session
    this.#execOf = execOf
    this.#env = env
  }

  get session(): Session {
    return this.#session
  }

  get env(): ReadonlyMap<string, string> {
    return this.#env
  }

  /** Continues on another session. */
  use(session: Session): void {
    this.#session = session
    this.#exec = undefined
  }

  /**
   * Sets variables of later commands.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a name or value is none. No variable is set then.
   */
  setEnv(variables: unknown): void {
    const all = new Map(this.#env)
    for (const [name, value] of Object.entries(checkedVariables(variables))) all.set(name, value)
    let length = 0
    for (const [name, value] of all) length += name.length + value.length
    if (all.size > limits.variables || length > limits.variablesLength)
      throw new EngineError(
        'TOO_LARGE',
        `a sandbox has at most ${limits.variables} variables with ${limits.variablesLength} characters`,
        {
          limit: String(limits.variables),
        },
      )
    for (const [name, value] of all) this.#env.set(name, value)
  }

  /** Runs a command with the variables of the sandbox. */
  async run(command: string, { env, ...context }: CommandContext): Promise<CommandOutcome> {
    const exec = this.requireExec()
    const all = { ...Object.fromEntries(this.#env), ...env }
    return exec(command, { ...context, env: all })
  }

  /** @throws {EngineError} NO_ADAPTER when the sandbox runs no commands. */
  requireExec(): WorkspaceExec {
    if (this.#execOf === undefined)
      throw new EngineError(
        'NO_ADAPTER',
        'this sandbox runs no commands: pass the option exec to workspaceSandboxProvider, such as one that calls exec of a workspaceShell',
      )
    this.#exec ??= this.#execOf(this.#session)
    if (typeof this.#exec !== 'function') throw invalid('exec', 'must return a function that runs a command')
    return this.#exec
  }
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
