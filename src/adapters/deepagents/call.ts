import { getConfig, getCurrentTaskInput } from '@langchain/langgraph'

/** What LangGraph knows about the tool call in whose course a backend is called. */
export interface CurrentCall {
  readonly callId?: string
  readonly signal?: AbortSignal
}

/**
 * The tool call that is running. The protocol does not pass it to a backend, so it comes from the context of LangGraph.
 * Outside of a graph, there is none.
 */
export function currentCall(): CurrentCall {
  // The declared type does not say that it is absent outside of a graph.
  const config = getConfig() as ReturnType<typeof getConfig> | undefined
  if (config?.configurable === undefined) return {}
  const callId = callIdOf(config)
  return {
    ...(callId !== undefined && { callId }),
    ...(config.signal !== undefined && { signal: config.signal }),
  }
}

function callIdOf(config: ReturnType<typeof getConfig>): string | undefined {
  try {
    const input = getCurrentTaskInput<{ readonly lg_tool_call?: { readonly id?: unknown } } | undefined>(
      config,
    )
    const id = input?.lg_tool_call?.id
    return typeof id === 'string' ? id : undefined
  } catch {
    // A step of another kind than a node of a graph has no input.
    return undefined
  }
}
