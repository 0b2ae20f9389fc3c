import type { WorkspaceToolHooks } from '@mastra/core/workspace'
import { invalid, Shape } from '../../engine/ports.js'
import { forCall, type Callable, type CurrentCall } from './call.js'
import type { SessionTurns } from './turns.js'

/** Options of {@link sessionToolHooks}. */
export interface SessionToolHooksOptions {
  /** The turns of the session. The changes of a turn are then a group with the id of its user message. */
  readonly turns?: SessionTurns
}

const optionsShape = new Shape<SessionToolHooksOptions>({ turns: true })

/**
 * Hooks for the `tools` of a workspace. Mastra passes no id of the tool call to a filesystem or a sandbox; with
 * these hooks, the events of a call have its id in `details.metadata.callId`, and its abort signal ends reads and
 * keeps writes from beginning.
 *
 * They reach a filesystem and a sandbox that are passed to the workspace itself, not those below `mounts` or of a
 * resolver.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form.
 *
 * @example
 * import { Workspace } from '@mastra/core/workspace'
 * import { sessionFilesystem, sessionToolHooks } from 'forkspace/mastra'
 *
 * const filesystem = sessionFilesystem(session)
 * const workspace = new Workspace({ filesystem, tools: { hooks: sessionToolHooks() } })
 */
export function sessionToolHooks(options: SessionToolHooksOptions = {}): WorkspaceToolHooks {
  const { turns } = optionsShape.read(options, 'options')
  if (turns !== undefined && typeof turns?.turnOf !== 'function')
    throw invalid('turns', 'must be what sessionTurns returns')
  return {
    beforeToolCall: ({ context }) => {
      if (!isToolContext(context)) return
      const { agent, abortSignal, requestContext, workspace } = context
      const turn = turns?.turnOf(requestContext)
      const call: CurrentCall = {
        ...(typeof agent?.toolCallId === 'string' && { callId: agent.toolCallId }),
        ...(turn !== undefined && { turn }),
        ...(abortSignal !== undefined && { signal: abortSignal }),
      }
      // The context is that of this call alone. Mastra puts a workspace with resolved providers into it in the same way.
      context.workspace = new Proxy(workspace, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name)
          return isCallable(value) ? value[forCall](call) : value
        },
      })
    },
  }
}

/** The parts of the context of a tool that the hook needs. Mastra declares it as unknown. */
interface ToolContext {
  readonly agent?: { readonly toolCallId?: unknown }
  readonly abortSignal?: AbortSignal
  readonly requestContext?: object
  workspace: object
}

function isToolContext(context: unknown): context is ToolContext {
  return (
    typeof context === 'object' &&
    context !== null &&
    'workspace' in context &&
    typeof context.workspace === 'object' &&
    context.workspace !== null
  )
}

function isCallable(value: unknown): value is Callable {
  return typeof value === 'object' && value !== null && forCall in value
}
