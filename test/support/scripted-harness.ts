import { EventType, type StreamChunk, type TextAdapter } from '@tanstack/ai'
import { getSandbox, SandboxCapability, type SandboxHandle } from '@tanstack/ai-sandbox'

/** The work of a scripted harness: it uses the sandbox, and returns its answer. */
export type HarnessScript = (sandbox: SandboxHandle) => Promise<string>

interface Metadata {
  text: unknown
  image: unknown
  audio: unknown
  video: unknown
  document: unknown
}

type Adapter = TextAdapter<'scripted', Record<string, unknown>, readonly ['text'], Metadata>

/** An adapter of TanStack AI that works in the sandbox of its run, as the adapters of agents do. */
export function scriptedHarness(script: HarnessScript): Adapter {
  return {
    kind: 'text',
    name: 'scripted',
    model: 'scripted',
    requires: [SandboxCapability],
    async *chatStream({ capabilities }): AsyncGenerator<StreamChunk> {
      if (capabilities === undefined) throw new Error('the run has no capabilities')
      const ids = { threadId: 'thread', runId: 'run' }
      yield { type: EventType.RUN_STARTED, ...ids }
      const delta = await script(getSandbox(capabilities))
      const messageId = 'message'
      yield { type: EventType.TEXT_MESSAGE_START, messageId, role: 'assistant' }
      yield { type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta }
      yield { type: EventType.TEXT_MESSAGE_END, messageId }
      yield { type: EventType.RUN_FINISHED, ...ids, finishReason: 'stop' }
    },
    structuredOutput: () => Promise.reject(new Error('the script has no structured output')),
    // Types only, which no call reads.
    '~types': undefined as unknown as Adapter['~types'],
  }
}
