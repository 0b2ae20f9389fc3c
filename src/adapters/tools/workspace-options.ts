import type { SessionApi } from '../../engine/index.js'
import { given, invalid, Shape } from '../../engine/ports.js'
import { Workspace, type WorkspaceOptions } from './workspace.js'

const optionsShape = new Shape<WorkspaceOptions>({ metadata: true, guards: true })

/**
 * The state of tools for a session.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 */
export function workspaceOf(session: SessionApi, options: WorkspaceOptions): Workspace {
  if (typeof session?.withMetadata !== 'function')
    throw invalid('session', `must be a session of forkspace; it is ${given(session)}`)
  const copy = optionsShape.read(options, 'options')
  const { metadata, guards } = copy
  if (
    metadata !== undefined &&
    (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))
  )
    throw invalid('metadata', `must be an object of JSON; it is ${given(metadata)}`)
  if (guards !== undefined && typeof guards !== 'boolean')
    throw invalid('guards', `must be true or false; it is ${given(guards)}`)
  return new Workspace(session, copy)
}
