import { posix } from 'node:path'
import { shellTool, type Shell, type Tool } from '@openai/agents'
import { EngineError, invalid, Shape, untilAborted } from '../../engine/ports.js'
import type { WorkspaceExec } from '../tools/index.js'
import { limits } from './limits.js'

type Action = Parameters<Shell['run']>[0]
type Output = Awaited<ReturnType<Shell['run']>>['output'][number]

/** Options of {@link workspaceShellFor}. */
export interface WorkspaceShellForOptions {
  /** The directory in which commands start; `/` by default. */
  readonly cwd?: string
  /** Environment variables of every command. */
  readonly env?: Readonly<Record<string, string>>
  /** The time that a command has if the model names none, at most 10 minutes; 2 minutes by default. */
  readonly timeoutMs?: number
}

/** Options of {@link workspaceShellTool}. */
export interface WorkspaceShellToolOptions extends WorkspaceShellForOptions {
  /** Whether a person must approve commands; false by default. */
  readonly needsApproval?: boolean | ((action: Action, callId?: string) => boolean | Promise<boolean>)
}

const shellShape = new Shape<WorkspaceShellForOptions>({ cwd: true, env: true, timeoutMs: true })
const toolShape = new Shape<WorkspaceShellToolOptions>({
  cwd: true,
  env: true,
  timeoutMs: true,
  needsApproval: true,
})

/**
 * A shell for `shellTool({ shell })`, which runs commands by a function, such as `exec` of a `workspaceShell`.
 *
 * Guarantees
 * - Commands run in order. After a command that exceeds its time or fails with an error, the rest does not run.
 * - An output has at most as many characters as the model asks for, and 100,000.
 *
 * @throws {EngineError} INVALID_ARGUMENT when `exec` is no function, or an option is unknown or has the wrong form.
 *
 * @example
 * import { shellTool } from '@openai/agents'
 * import { workspaceShell } from 'forkspace/just-bash'
 * import { workspaceShellFor } from 'forkspace/openai-agents'
 *
 * const bash = workspaceShell(session)
 * const tool = shellTool({ shell: workspaceShellFor((command, options) => bash.exec(command, options)) })
 */
export function workspaceShellFor(exec: WorkspaceExec, options: WorkspaceShellForOptions = {}): Shell {
  return shellOn(exec, shellShape.read(options, 'options'), () => undefined)
}

/**
 * The tool `shell` of the Agents SDK: {@link workspaceShellFor}, whose commands also get the id of the call.
 *
 * @throws {EngineError} INVALID_ARGUMENT when `exec` is no function, or an option is unknown or has the wrong form.
 *
 * @example
 * import { Agent } from '@openai/agents'
 * import { workspaceShell } from 'forkspace/just-bash'
 * import { workspaceShellTool } from 'forkspace/openai-agents'
 *
 * const bash = workspaceShell(session)
 * const shell = workspaceShellTool((command, options) => bash.exec(command, options))
 * const agent = new Agent({ name: 'runner', tools: [shell] })
 */
export function workspaceShellTool(exec: WorkspaceExec, options: WorkspaceShellToolOptions = {}): Tool {
  const { needsApproval = false, ...settings } = toolShape.read(options, 'options')
  if (typeof needsApproval !== 'boolean' && typeof needsApproval !== 'function')
    throw invalid('needsApproval', 'must be true, false, or a function that returns one of them')
  const callIds = new WeakMap<Action, string>()
  return shellTool({
    shell: shellOn(exec, settings, (action) => callIds.get(action)),
    // The only call that says which action belongs to which id. It comes before the one of the shell.
    needsApproval: async (_context, action, callId) => {
      if (callId !== undefined) callIds.set(action, callId)
      return typeof needsApproval === 'function' ? needsApproval(action, callId) : needsApproval
    },
  })
}

function shellOn(
  exec: WorkspaceExec,
  { cwd = '/', env, timeoutMs = limits.commandMs }: WorkspaceShellForOptions,
  callIdOf: (action: Action) => string | undefined,
): Shell {
  if (typeof exec !== 'function')
    throw invalid('exec', 'must be a function that runs a command, such as exec of a workspaceShell')
  if (typeof cwd !== 'string' || !posix.isAbsolute(cwd))
    throw invalid('cwd', 'must be an absolute path of the workspace, such as /src')
  if (!isTime(timeoutMs)) throw invalid('timeoutMs', `must be from 1 to ${limits.longestCommandMs}`)
  return {
    async run(action) {
      const { commands, timeoutMs: wanted = timeoutMs, maxOutputLength = limits.outputLength } = action
      const time = isTime(wanted) ? wanted : timeoutMs
      const isLength = typeof maxOutputLength === 'number' && maxOutputLength >= 0
      const length = Math.min(isLength ? maxOutputLength : limits.outputLength, limits.outputLength)
      const callId = callIdOf(action)
      const context = { cwd, ...(env !== undefined && { env }), ...(callId !== undefined && { callId }) }
      const output: Output[] = []
      for (const command of commands) {
        const one = await outputOf((signal) => exec(command, { ...context, signal }), time)
        output.push({ ...one, stdout: one.stdout.slice(0, length), stderr: one.stderr.slice(0, length) })
        if (one.outcome.type === 'timeout' || one.outcome.exitCode === null) break
      }
      return { output, maxOutputLength: length }
    },
  }
}

function isTime(timeoutMs: unknown): timeoutMs is number {
  return typeof timeoutMs === 'number' && timeoutMs >= 1 && timeoutMs <= limits.longestCommandMs
}

/** Runs a command for at most a time. An error of the workspace is the output of the command, so that a model sees it. */
export async function outputOf(
  work: (signal: AbortSignal) => ReturnType<WorkspaceExec>,
  timeMs: number,
): Promise<Output> {
  const stop = new AbortController()
  const tooSlow = new Error('the command took too long')
  const timer = setTimeout(() => stop.abort(tooSlow), timeMs)
  try {
    const { stdout, stderr, exitCode } = (await untilAborted(work(stop.signal), stop.signal)) ?? {}
    if (typeof stdout !== 'string' || typeof stderr !== 'string' || typeof exitCode !== 'number')
      throw invalid(
        'exec',
        'must return an object with the strings stdout and stderr, and the number exitCode',
      )
    return { stdout, stderr, outcome: { type: 'exit', exitCode } }
  } catch (error) {
    if (stop.signal.reason === tooSlow) return { stdout: '', stderr: '', outcome: { type: 'timeout' } }
    if (!(error instanceof EngineError)) throw error
    const stderr = `${error.reason}: ${error.message}\n`
    return { stdout: '', stderr, outcome: { type: 'exit', exitCode: null } }
  } finally {
    clearTimeout(timer)
  }
}
