import { getConfig } from '@langchain/langgraph'
import { createMiddleware, type AgentMiddleware } from 'langchain'
import type { SessionApi } from '../../engine/index.js'
import {
  checkMessageId,
  rewind,
  TurnCheckpoints,
  type RewindOptions,
  type RewindResult,
} from '../turns/index.js'
import { limits } from './limits.js'

/** The turns of the conversations of a deep agent: a checkpoint before each user message. */
export interface WorkspaceTurns {
  /** For the option `middleware` of `createDeepAgent`. It takes the checkpoints. */
  readonly middleware: AgentMiddleware
  /**
   * The id of the user message whose turn runs, for the option `turn` of {@link workspaceBackend}. Conversations that
   * run at the same time need a `thread_id` each.
   */
  readonly current: () => string | undefined
  /**
   * Brings all files back to their state before a user message, including the changes of commands. The rewind is one
   * event, so `session.undo()` takes it back. The conversation itself is not rewound.
   *
   * @param userMessageId - The `id` of the message in the state of the agent.
   * @throws {EngineError} INVALID_ARGUMENT when the id is no id, or an option is unknown or has the wrong form.
   *
   * @example
   * import { workspaceTurns } from 'forkspace/deepagents'
   *
   * const { canRewind } = await workspaceTurns(session).rewindFiles('message 1', { dryRun: true })
   */
  rewindFiles(userMessageId: string, options?: RewindOptions): Promise<RewindResult>
}

/**
 * Takes a checkpoint of a session before each user message of a deep agent, so that a rewind of the conversation rewinds
 * its files.
 *
 * Guarantees
 * - The checkpoint is that of the state before the model sees the message.
 * - Checkpoints have the id of the message in `metadata.userMessageId`. A later process can rewind to them.
 * - The session keeps those of its newest 1,000 messages.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the session is none.
 *
 * @example
 * import { workspaceBackend, workspaceTurns } from 'forkspace/deepagents'
 *
 * const turns = workspaceTurns(session)
 * const backend = workspaceBackend(session, { turn: turns.current })
 * console.log(turns.middleware.name) // for createDeepAgent({ model, backend, middleware: [turns.middleware] })
 */
export function workspaceTurns(session: SessionApi): WorkspaceTurns {
  const checkpoints = new TurnCheckpoints(session)
  const running = new Map<string, string>()
  return {
    middleware: createMiddleware({
      name: 'forkspaceTurns',
      beforeAgent: async ({ messages }) => {
        // An agent that the agent starts works for the same turn.
        if (isBelow()) return
        const [first, ...others] = newestUserMessages(messages)
        if (first === undefined) return
        begin(running, first)
        for (const id of [first, ...others]) await checkpoints.take(id)
      },
    }),
    current: () => running.get(threadOf()),
    rewindFiles: async (userMessageId, options = {}) => rewind(session, userMessageId, options),
  }
}

/** The ids of the user messages that no answer follows. */
function newestUserMessages(
  messages: readonly { readonly type: string; readonly id?: string | undefined }[],
): string[] {
  const ids: string[] = []
  for (const { type, id } of messages.toReversed()) {
    if (type !== 'human') break
    checkMessageId('messages', id)
    ids.unshift(id)
  }
  return ids
}

function begin(running: Map<string, string>, userMessageId: string): void {
  const thread = threadOf()
  running.delete(thread)
  running.set(thread, userMessageId)
  const [oldest] = running.keys()
  if (oldest !== undefined && running.size > limits.threads) running.delete(oldest)
}

/** The thread of the call. Conversations without one are one thread. */
function threadOf(): string {
  const id: unknown = configurable()?.['thread_id']
  return typeof id === 'string' ? id : ''
}

/** Whether the call is one of an agent below another one. LangGraph joins the namespaces of graphs by a bar. */
function isBelow(): boolean {
  const namespace: unknown = configurable()?.['checkpoint_ns']
  return typeof namespace === 'string' && namespace.includes('|')
}

function configurable(): Readonly<Record<string, unknown>> | undefined {
  // The declared type does not say that it is absent outside of a graph.
  const config = getConfig() as ReturnType<typeof getConfig> | undefined
  return config?.configurable
}
