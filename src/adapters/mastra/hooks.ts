import type { WorkspaceToolHooks } from '@mastra/core/workspace'
import { forCall, type Callable, type CurrentCall } from './call.js'

/**
 * Hooks for the `tools` of a workspace. Mastra passes no id of the tool call to a filesystem or a sandbox; with
 * these hooks, the events of a call have its id in `details.metadata.callId`, and its abort signal ends reads and
 * keeps writes from beginning.
 *
 * They reach a filesystem and a sandbox that are passed to the workspace itself, not those below `mounts` or of a
 * resolver.
 *
 * @example
 * import { Workspace } from '@mastra/core/workspace'
 * import { sessionFilesystem, sessionToolHooks } from 'forkspace/mastra'
 *
 * const filesystem = sessionFilesystem(session)
 * const workspace = new Workspace({ filesystem, tools: { hooks: sessionToolHooks() } })
 */
export function sessionToolHooks(): WorkspaceToolHooks {
  return {
    beforeToolCall: ({ context }) => {
      if (!isToolContext(context)) return
      const { agent, abortSignal, workspace } = context
      const call: CurrentCall = {
        ...(typeof agent?.toolCallId === 'string' && { callId: agent.toolCallId }),
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
