import { randomUUID } from 'node:crypto'
import type { SDKUserMessage, UserPromptSubmitHookInput } from '@anthropic-ai/claude-agent-sdk'
import type { SessionApi } from '../../engine/index.js'
import { given, invalid, type EngineError } from '../../engine/ports.js'
import { checkMessageId, TurnCheckpoints } from '../turns/index.js'
import { limits } from './limits.js'

/** A user message, and the checkpoint to which a rewind to it leads. */
export interface ClaudeTurn {
  /** The `uuid` of the message; for a prompt that did not go through `prompts`, its `prompt_id`. */
  readonly userMessageId: string
  /** The checkpoint of the state before the model saw the message. */
  readonly checkpointId: string
}

/** The messages of one call of `prompts`, which Claude Code takes in their order. */
interface Sequence {
  hasTurn: boolean
}

interface Message {
  readonly userMessageId: string
  readonly text: string
  readonly sequence: Sequence
  /** The checkpoint at its arrival, and that at the beginning of its turn. The last one counts. */
  readonly checkpointIds: string[]
  /** Whether its turn has begun, or it was added to a running turn. */
  hasBegun: boolean
}

/** Takes a checkpoint before each user message. */
export class Turns {
  readonly #checkpoints: TurnCheckpoints
  readonly #messages: Message[] = []
  #current: string | undefined

  constructor(session: SessionApi) {
    this.#checkpoints = new TurnCheckpoints(session)
  }

  /** The turn that began last: the id of its first message. */
  get current(): string | undefined {
    return this.#current
  }

  get list(): readonly ClaudeTurn[] {
    return this.#messages.map(({ userMessageId, checkpointIds }) => ({
      userMessageId,
      checkpointId: checkpointIds.at(-1) ?? '',
    }))
  }

  /**
   * Passes on messages with their ids. Each gets a checkpoint here. It counts for a message that Claude Code adds to a
   * running turn, which no hook reports.
   */
  async *prompts(
    messages: Iterable<SDKUserMessage> | AsyncIterable<SDKUserMessage>,
  ): AsyncGenerator<SDKUserMessage> {
    const sequence = { hasTurn: false }
    for await (const message of messages) {
      const text = textOf(message)
      const { uuid = randomUUID() } = message
      checkMessageId('uuid', uuid)
      await this.#add(uuid, { text, sequence, hasBegun: false })
      yield { ...message, uuid }
    }
  }

  /**
   * Takes the checkpoint of a prompt that begins a turn, and returns the id of the turn. Messages that waited together
   * are one prompt.
   */
  async begin({
    prompt,
    prompt_id: promptId = randomUUID(),
    agent_id: agentId,
  }: UserPromptSubmitHookInput): Promise<string | undefined> {
    if (agentId !== undefined) return undefined
    const found = this.#messagesOf(prompt.trim())
    const turn = found[0]?.userMessageId ?? promptId
    this.#current = turn
    if (found.length === 0)
      await this.#add(turn, { text: prompt, sequence: { hasTurn: true }, hasBegun: true })
    for (const { userMessageId, checkpointIds } of found)
      checkpointIds.push(await this.#checkpoints.take(userMessageId))
    return turn
  }

  /** The messages that a prompt has, in order. Earlier ones of their sequence were added to a running turn. */
  #messagesOf(prompt: string): readonly Message[] {
    const waiting = this.#messages.filter(({ hasBegun }) => !hasBegun)
    for (const sequence of new Set(waiting.map((message) => message.sequence))) {
      const own = waiting.filter((message) => message.sequence === sequence)
      const found = matching(own, prompt, sequence)
      const last = found.at(-1)
      if (last === undefined) continue
      sequence.hasTurn = true
      for (const message of own.slice(0, own.indexOf(last) + 1)) message.hasBegun = true
      return found
    }
    return []
  }

  async #add(
    userMessageId: string,
    message: Omit<Message, 'userMessageId' | 'checkpointIds'>,
  ): Promise<void> {
    const checkpointIds = [await this.#checkpoints.take(userMessageId)]
    this.#messages.push({ userMessageId, checkpointIds, ...message })
    if (this.#messages.length > limits.turns) this.#messages.shift()
  }
}

/**
 * The messages whose texts are the lines of a prompt. Of equal ones, the last counts: the others were added to the
 * running turn, or the prompt had them too. Before the first turn there was none to which one could be added.
 */
function matching(messages: readonly Message[], prompt: string, { hasTurn }: Sequence): readonly Message[] {
  const equal = messages.filter(({ text }) => text === prompt)
  const single = hasTurn ? equal.at(-1) : equal[0]
  if (single !== undefined) return [single]
  const found: Message[] = []
  let rest = prompt
  for (const message of messages.toReversed()) {
    const { text } = message
    if (text === '') continue
    if (text === rest) return [message, ...found]
    if (!rest.endsWith(`\n${text}`)) continue
    found.unshift(message)
    rest = rest.slice(0, -text.length - 1)
  }
  return []
}

/** The text of a message as the hook reports it: its text blocks as lines. */
function textOf(message: SDKUserMessage): string {
  const { content } = (message as Partial<SDKUserMessage> | null)?.message ?? {}
  if (typeof content === 'string') return content.trim()
  if (!Array.isArray(content)) throw noMessage(message)
  const texts = content.flatMap((block: unknown) => {
    if (typeof block !== 'object' || block === null) throw noMessage(message)
    const { type, text } = block as { readonly type?: unknown; readonly text?: unknown }
    if (type !== 'text') return []
    if (typeof text !== 'string') throw noMessage(message)
    return [text]
  })
  return texts.join('\n').trim()
}

function noMessage(message: unknown): EngineError {
  return invalid(
    'prompt',
    `must have user messages, with a string or blocks as content; one is ${given(message)}`,
  )
}
