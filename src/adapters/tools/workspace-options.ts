import type { SessionApi } from '../../engine/index.js'
import { invalid, Shape } from '../../engine/ports.js'
import { Workspace, type WorkspaceOptions } from './workspace.js'

const optionsShape = new Shape<WorkspaceOptions>({ metadata: true, guards: true })

/**
 * The state of tools for a session.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown, or the session is none.
 */
export function workspaceOf(session: SessionApi, options: WorkspaceOptions): Workspace {
  if (typeof session?.withMetadata !== 'function') throw invalid('session', 'must be a session of forkspace')
  return new Workspace(session, optionsShape.read(options, 'options'))
}
