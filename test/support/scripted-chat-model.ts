import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, type BaseMessage } from '@langchain/core/messages'
import type { ChatResult } from '@langchain/core/outputs'

/** A call of a tool by a scripted model. */
export interface ScriptedToolCall {
  readonly id: string
  readonly name: string
  readonly args: Record<string, unknown>
}

/** One answer: calls of tools, or a text. It can depend on the texts of the newest outputs of tools. */
export type ScriptedAnswer = (outputs: readonly string[]) => readonly ScriptedToolCall[] | string

/** A chat model of LangChain that answers with the steps of a script, in order, and records the tools that it gets. */
export class ScriptedChatModel extends BaseChatModel {
  readonly #steps: readonly ScriptedAnswer[]
  readonly toolNames = new Set<string>()
  #at = 0

  constructor(steps: readonly ScriptedAnswer[]) {
    super({})
    this.#steps = steps
  }

  override _llmType(): string {
    return 'scripted'
  }

  override bindTools(tools: Parameters<NonNullable<BaseChatModel['bindTools']>>[0]): this {
    for (const tool of tools)
      if ('name' in tool && typeof tool.name === 'string') this.toolNames.add(tool.name)
    return this
  }

  override _generate(
    messages: BaseMessage[],
    _options: this['ParsedCallOptions'],
    _manager?: CallbackManagerForLLMRun,
  ): Promise<ChatResult> {
    const step = this.#steps[this.#at++]
    if (step === undefined) throw new Error('the script has no further step')
    const answer = step(newestOutputs(messages))
    const message =
      typeof answer === 'string'
        ? new AIMessage(answer)
        : new AIMessage({
            content: '',
            tool_calls: answer.map(({ id, name, args }) => ({ id, name, args, type: 'tool_call' as const })),
          })
    return Promise.resolve({ generations: [{ text: '', message }] })
  }
}

function newestOutputs(messages: readonly BaseMessage[]): string[] {
  const outputs: string[] = []
  for (const message of messages.toReversed()) {
    if (message.type !== 'tool') break
    outputs.unshift(message.text)
  }
  return outputs
}
