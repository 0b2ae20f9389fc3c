import { randomUUID } from 'node:crypto'
import type { SDKUserMessage, UserPromptSubmitHookInput } from '@anthropic-ai/claude-agent-sdk'
import type { SessionApi } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import { limits } from './limits.js'

/** A user message, and the checkpoint to which a rewind to it leads. */
export interface ClaudeTurn {
  /** The `uuid` of the message; for a prompt that did not go through `prompts`, its `prompt_id`. */
  readonly userMessageId: string
  /** The checkpoint of the state before the model saw the message. */
  readonly checkpointId: string
}

interface Message {
  readonly userMessageId: string
  readonly text: string
  checkpointId: string
  hasBegun: boolean
}

/** Takes a checkpoint before each user message. */
export class Turns {
  readonly #session: SessionApi
  readonly #messages: Message[] = []
  #current: string | undefined

  constructor(session: SessionApi) {
    this.#session = session
  }

  /** The turn that runs, or ran last: the id of its first message. */
  get current(): string | undefined {
    return this.#current
  }

  get list(): readonly ClaudeTurn[] {
    return this.#messages.map(({ userMessageId, checkpointId }) => ({ userMessageId, checkpointId }))
  }

  /**
   * Passes on messages with their ids. Each gets a checkpoint here. It counts for a message that Claude Code adds to a
   * running turn, which no hook reports.
   */
  async *prompts(
    messages: Iterable<SDKUserMessage> | AsyncIterable<SDKUserMessage>,
  ): AsyncGenerator<SDKUserMessage> {
    for await (const message of messages) {
      const { uuid = randomUUID() } = message
      await this.#add(uuid, { text: textOf(message), hasBegun: false })
      yield { ...message, uuid }
    }
  }

  /** Takes the checkpoint of a prompt that begins a turn. Messages that waited together are one prompt. */
  async begin({ prompt, prompt_id: promptId, agent_id: agentId }: UserPromptSubmitHookInput): Promise<void> {
    if (agentId !== undefined) return
    const found = this.#messagesOf(prompt)
    this.#current = found[0]?.userMessageId ?? promptId ?? randomUUID()
    if (found.length === 0) await this.#add(this.#current, { text: prompt, hasBegun: true })
    for (const message of found) {
      const { checkpointId } = message
      message.hasBegun = true
      message.checkpointId = await this.#checkpoint(message.userMessageId)
      await this.#deleteCheckpoint(checkpointId)
    }
  }

  /** The messages that a prompt has, in order. */
  #messagesOf(prompt: string): Message[] {
    let from = 0
    return this.#messages.filter(({ text, hasBegun }) => {
      const at = hasBegun ? -1 : prompt.indexOf(text, from)
      if (at !== -1) from = at + text.length
      return at !== -1
    })
  }

  async #add(userMessageId: string, message: Pick<Message, 'text' | 'hasBegun'>): Promise<void> {
    const checkpointId = await this.#checkpoint(userMessageId)
    this.#messages.push({ userMessageId, checkpointId, ...message })
    if (this.#messages.length <= limits.turns) return
    const oldest = this.#messages.shift()
    if (oldest !== undefined) await this.#deleteCheckpoint(oldest.checkpointId)
  }

  async #checkpoint(userMessageId: string): Promise<string> {
    const { id } = await this.#session.checkpoint({ metadata: metadataOf(userMessageId) })
    return id
  }

  async #deleteCheckpoint(checkpointId: string): Promise<void> {
    try {
      await this.#session.deleteCheckpoint({ checkpointId })
    } catch (error) {
      if (!(error instanceof EngineError) || error.reason !== 'CHECKPOINT_NOT_FOUND') throw error
    }
  }
}

/** The newest checkpoint of a user message, also of an earlier process; undefined if there is none. */
export async function checkpointOf(session: SessionApi, userMessageId: string): Promise<string | undefined> {
  let [newest, pageToken]: [string | undefined, string] = [undefined, '']
  do {
    const page = await session.listCheckpoints({ metadata: metadataOf(userMessageId), pageToken })
    newest = page.checkpoints.at(-1)?.id ?? newest
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return newest
}

function metadataOf(userMessageId: string) {
  return { userMessageId }
}

/** The text of a message as the hook reports it: the last one of several. */
function textOf({ message: { content } }: SDKUserMessage): string {
  if (typeof content === 'string') return content
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).at(-1) ?? ''
}
