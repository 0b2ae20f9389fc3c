import { EngineError, given, invalid, untilAborted } from '../../engine/ports.js'
import type { ExecuteResponse } from 'deepagents'
import type { WorkspaceExec } from '../tools/parts.js'
import { currentCall } from './call.js'
import { limits } from './limits.js'
import { errorText, type BackendScope } from './scope.js'

/**
 * Runs a command. An error of the session, such as a conflict, is the output of a command that failed, so that a model
 * sees it.
 */
export async function runCommand(
  { turn }: BackendScope,
  exec: WorkspaceExec,
  { command, cwd }: { readonly command: unknown; readonly cwd: string },
): Promise<ExecuteResponse> {
  const { signal, ...call } = currentCall()
  signal?.throwIfAborted()
  try {
    if (typeof command !== 'string' || command === '')
      throw invalid('command', `must be a text that is not empty; it is ${given(command)}`)
    const context = { cwd, ...call, ...turn(), ...(signal !== undefined && { signal }) }
    const { stdout, stderr, exitCode } = await untilAborted(exec(command, context), signal)
    return { ...bounded(joined(stdout, stderr)), exitCode }
  } catch (error) {
    signal?.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    return { ...bounded(errorText(error)), exitCode: 1 }
  }
}

function joined(stdout: string, stderr: string): string {
  const needsBreak = stdout !== '' && stderr !== '' && !stdout.endsWith('\n')
  return `${stdout}${needsBreak ? '\n' : ''}${stderr}`
}

/** Errors of a command are at the end of its output. */
function bounded(output: string): Pick<ExecuteResponse, 'output' | 'truncated'> {
  const truncated = output.length > limits.outputLength
  return { output: truncated ? output.slice(-limits.outputLength) : output, truncated }
}
