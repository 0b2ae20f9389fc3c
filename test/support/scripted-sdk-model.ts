import { MockLanguageModelV4 } from 'ai/test'

/** A call of a tool by a scripted model. */
export interface ScriptedCall {
  readonly id: string
  readonly name: string
  readonly input: object
}

type Prompt = Parameters<MockLanguageModelV4['doGenerate']>[0]['prompt']
type Outcome = Awaited<ReturnType<MockLanguageModelV4['doGenerate']>>

/** One answer: calls of tools, or a text. It can depend on the outputs of the calls before. */
export type ScriptedStep = (last: string) => readonly ScriptedCall[] | string

/** A model of the AI SDK that answers with the steps of a script, in order, and reads the outputs of tools. */
export function scriptedSdkModel(steps: readonly ScriptedStep[]): MockLanguageModelV4 {
  let at = 0
  return new MockLanguageModelV4({
    doGenerate: ({ prompt }) => {
      const step = steps[at++]
      if (step === undefined) throw new Error('the script has no further step')
      return Promise.resolve(outcomeOf(step(lastOutput(prompt))))
    },
  })
}

function outcomeOf(answer: ReturnType<ScriptedStep>): Outcome {
  const isText = typeof answer === 'string'
  return {
    content: isText
      ? [{ type: 'text', text: answer }]
      : answer.map(({ id, name, input }) => ({
          type: 'tool-call',
          toolCallId: id,
          toolName: name,
          input: JSON.stringify(input),
        })),
    finishReason: { unified: isText ? 'stop' : 'tool-calls', raw: undefined },
    usage: {
      inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 1, text: 1, reasoning: 0 },
    },
    warnings: [],
  }
}

/** The text of the newest output of a tool, as the model gets it. */
function lastOutput(prompt: Prompt): string {
  const last = prompt.at(-1)
  if (last?.role !== 'tool') return ''
  const part = last.content.at(-1)
  if (part?.type !== 'tool-result') return ''
  const { output } = part
  return output.type === 'text' || output.type === 'error-text' ? `${output.type}: ${output.value}` : ''
}
