import type { InputProcessor } from '@mastra/core/processors'
import type { SessionApi } from '../../engine/index.js'
import {
  checkMessageId,
  rewind,
  TurnCheckpoints,
  type RewindOptions,
  type RewindResult,
} from '../turns/index.js'

/** The turns of the conversations of an agent: a checkpoint before each user message. */
export interface SessionTurns {
  /** For the option `inputProcessors` of an agent. It takes the checkpoints. */
  readonly processor: InputProcessor
  /** The turn that runs with a request context: the id of its user message. For {@link sessionToolHooks}. */
  turnOf(requestContext: object | undefined): string | undefined
  /**
   * Brings all files back to their state before a user message, including the changes of commands. The rewind is one
   * event, so `session.undo()` takes it back. The conversation itself is not rewound.
   *
   * @param userMessageId - The `id` of the message, as the caller or Mastra gave it.
   * @throws {EngineError} INVALID_ARGUMENT when the id is no id, or an option is unknown or has the wrong form.
   *
   * @example
   * import { sessionTurns } from 'forkspace/mastra'
   *
   * const { canRewind } = await sessionTurns(session).rewindFiles('message 1', { dryRun: true })
   */
  rewindFiles(userMessageId: string, options?: RewindOptions): Promise<RewindResult>
}

/**
 * Takes a checkpoint of a session before each user message of an agent, so that a rewind of the conversation rewinds its
 * files.
 *
 * Guarantees
 * - The checkpoint is that of the state before the model sees the message.
 * - Checkpoints have the id of the message in `metadata.userMessageId`. A later process can rewind to them.
 * - The session keeps those of its newest 1,000 messages.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the session is none.
 *
 * @example
 * import { Workspace } from '@mastra/core/workspace'
 * import { sessionFilesystem, sessionToolHooks, sessionTurns } from 'forkspace/mastra'
 *
 * const turns = sessionTurns(session)
 * const tools = { hooks: sessionToolHooks({ turns }) }
 * const workspace = new Workspace({ filesystem: sessionFilesystem(session), tools })
 * console.log(turns.processor.id) // for new Agent({ workspace, inputProcessors: [turns.processor] })
 */
export function sessionTurns(session: SessionApi): SessionTurns {
  const checkpoints = new TurnCheckpoints(session)
  // One run of an agent passes the same context to its processors and its tools.
  const running = new WeakMap<object, string>()
  return {
    processor: {
      id: 'forkspace-turns',
      processInput: async ({ messageList, requestContext }) => {
        const [first, ...others] = messageList.get.input.db().filter(({ role }) => role === 'user')
        if (first !== undefined) {
          if (requestContext !== undefined) running.set(requestContext, first.id)
          for (const { id } of [first, ...others]) {
            checkMessageId('messages', id)
            await checkpoints.take(id)
          }
        }
        return messageList
      },
    },
    turnOf: (requestContext) => (requestContext === undefined ? undefined : running.get(requestContext)),
    rewindFiles: async (userMessageId, options = {}) => rewind(session, userMessageId, options),
  }
}
