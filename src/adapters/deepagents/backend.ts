import { posix } from 'node:path'
import type { BackendProtocolV2, SandboxBackendProtocolV2 } from 'deepagents'
import type { SessionApi } from '../../engine/index.js'
import { given, invalid, Shape } from '../../engine/ports.js'
import { workspaceOf, type WorkspaceExec, type WorkspaceOptions } from '../tools/parts.js'
import { turnMarks } from '../turns/index.js'
import { changeMethods } from './changes.js'
import { runCommand } from './commands.js'
import { readMethods } from './reads.js'

/** Options of {@link workspaceBackend}. */
export interface WorkspaceBackendOptions extends WorkspaceOptions {
  /**
   * The turn of the conversation, or a function that returns the present one, such as `current` of
   * {@link workspaceTurns}. The changes of a turn are a group, which `undo({ by: 'group' })` undoes together.
   */
  readonly turn?: string | (() => string | undefined)
  /**
   * Runs the commands of the tool `execute`, such as `exec` of a `workspaceShell` of `forkspace/just-bash`. Without it,
   * the agent has no such tool.
   */
  readonly exec?: WorkspaceExec
  /** The directory of commands; `/` by default. */
  readonly cwd?: string
}

const optionsShape = new Shape<WorkspaceBackendOptions>({
  metadata: true,
  guards: true,
  turn: true,
  exec: true,
  cwd: true,
})

/**
 * The files of a session as the backend of a deep agent. With `exec`, it is also a sandbox, and the agent has the tool
 * `execute`.
 *
 * Guarantees
 * - Paths stay in the session. A backend has no access to files of the host.
 * - A call that changes files is one event, with the id of the tool call in `details.metadata.callId`. An upload is an
 *   event for each file.
 * - A call that fails changes nothing. Its result has an `error` that begins with a phrase of the protocol or a reason
 *   such as `HASH_MISMATCH`, and says what to do. After an abort, it rejects with the reason of the signal.
 * - A write to a file that changed since the agent read it fails with HASH_MISMATCH.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { workspaceBackend } from 'forkspace/deepagents'
 *
 * const backend = workspaceBackend(session, { turn: 'turn 1' }) // for createDeepAgent({ model, backend })
 * await backend.write('/notes.md', 'one')
 * const { files } = await backend.ls('/')
 */
export function workspaceBackend(
  session: SessionApi,
  options: WorkspaceBackendOptions & { readonly exec: WorkspaceExec },
): SandboxBackendProtocolV2
export function workspaceBackend(session: SessionApi, options?: WorkspaceBackendOptions): BackendProtocolV2
export function workspaceBackend(
  session: SessionApi,
  options: WorkspaceBackendOptions = {},
): BackendProtocolV2 | SandboxBackendProtocolV2 {
  const { turn, exec, cwd = '/', ...forTools } = optionsShape.read(options, 'options')
  if (exec !== undefined && typeof exec !== 'function')
    throw invalid('exec', 'must be a function that runs a command, such as exec of a workspaceShell')
  if (typeof cwd !== 'string' || !posix.isAbsolute(cwd))
    throw invalid('cwd', `must be an absolute path of the workspace, such as /src; it is ${given(cwd)}`)
  const scope = { workspace: workspaceOf(session, forTools), turn: turnMarks(turn) }
  const backend = { ...readMethods(scope), ...changeMethods(scope) }
  if (exec === undefined) return backend
  return { ...backend, id: session.id, execute: (command) => runCommand(scope, exec, { command, cwd }) }
}
