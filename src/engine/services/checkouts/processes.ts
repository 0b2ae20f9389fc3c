import { withSignals } from '../../base/abort.js'
import { engineClosed, EngineError, invalid } from '../../base/errors.js'
import { parseText } from '../../base/input.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'
import { layoutNames, parseLayout, type Layout, type LayoutOptions } from './checkout-requests.js'
import { parseVariables, type ParsedExec } from './exec-request.js'
import type { ProcessResult, RunProcess } from './process-ports.js'

/** The settings of `session.exec`. */
export interface ProcessOptions extends LayoutOptions {
  /**
   * A directory of the host for the files of the sessions, at or below one of `hostPaths.roots`. No other program
   * should use it.
   */
  readonly directory: string
  /** The variable PATH of each command, such as `/usr/bin:/bin`. */
  readonly path: string
  /** Further variables of each command. Nothing of the process's own environment is passed on. None by default. */
  readonly env?: Readonly<Record<string, string>>
}

export interface ParsedProcessOptions {
  readonly directory: string
  /** With PATH. */
  readonly env: Readonly<Record<string, string>>
  readonly layout: Layout
}

const optionsShape = new Shape<ProcessOptions>({ directory: true, path: true, env: true, ...layoutNames })

export function parseProcessOptions(options: ProcessOptions | undefined): ParsedProcessOptions | undefined {
  if (options === undefined) return undefined
  const { directory, path, env, ...rest } = optionsShape.readPart(options, 'exec')
  if (parseText('exec.directory', directory, limits.pathBytes) === '')
    throw invalid('exec.directory', 'must not be empty')
  const variables = parseVariables('exec.env', env)
  const PATH = parseText('exec.path', path, limits.execArgumentBytes)
  return { directory, env: { ...variables, PATH }, layout: parseLayout(rest, 'exec.') }
}

/** Runs commands for sessions, one at a time for each session. */
export class Processes {
  readonly #options: ParsedProcessOptions | undefined
  readonly #run: () => Promise<RunProcess>
  readonly #mutex = new KeyedMutex()
  readonly #closing = new AbortController()
  readonly #running = new Set<Promise<unknown>>()
  /** Directories that have exactly the files of the last sync. */
  readonly #clean = new Set<string>()

  constructor(options: ParsedProcessOptions | undefined, run: () => Promise<RunProcess>) {
    this.#options = options
    this.#run = run
  }

  /**
   * The parts of the directories that are not part of the session.
   *
   * @throws {EngineError} PERMISSION_DENIED when the engine has no option `exec`
   */
  get layout(): Layout {
    return this.#enabled().layout
  }

  /** The directories for a session, in the order in which they are tried. */
  *directoriesOf(sessionId: string): Generator<string> {
    const { directory } = this.#enabled()
    for (let number = 0; number < limits.execConflicts; number++) yield `${directory}/${sessionId}-${number}`
    throw new EngineError(
      'LIMIT_EXCEEDED',
      `the session has ${limits.execConflicts} directories with the files of conflicting commands; delete some of ${directory}/${sessionId}-*`,
      { limit: String(limits.execConflicts) },
    )
  }

  isClean(directory: string): boolean {
    return this.#clean.has(directory)
  }

  setClean(directory: string, isClean: boolean): void {
    if (isClean) this.#clean.add(directory)
    else this.#clean.delete(directory)
  }

  /** Runs the work for one command, after those before it on the session. */
  async inTurn<T>(
    sessionId: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (this.#closing.signal.aborted) throw engineClosed()
    const running = withSignals([signal, this.#closing.signal], (ends) =>
      this.#mutex.run(sessionId, () => work(ends), ends),
    )
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Runs a command in a directory of the host, which has the files of the session. */
  async run(directory: string, request: ParsedExec, signal: AbortSignal): Promise<ProcessResult> {
    const { cwd, env, ...rest } = request
    const run = await this.#run()
    return run({
      ...rest,
      directory: cwd === '/' ? directory : `${directory}${cwd}`,
      env: { ...this.#enabled().env, ...env },
      signal,
    })
  }

  /** Kills running commands, and waits until they have ended. */
  async close(): Promise<void> {
    this.#closing.abort(engineClosed())
    await Promise.allSettled(this.#running)
  }

  #enabled(): ParsedProcessOptions {
    if (this.#options !== undefined) return this.#options
    throw new EngineError(
      'PERMISSION_DENIED',
      'session.exec runs programs of the host, which is off by default; open the engine with the option exec: { directory, path }',
    )
  }
}
