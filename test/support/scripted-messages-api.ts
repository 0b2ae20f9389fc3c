/** A server of the Messages API of Anthropic on this machine, which answers with the steps of a script. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** A call of a tool by the scripted model. */
export interface ScriptedToolUse {
  readonly id: string
  readonly name: string
  readonly input: unknown
}

/** One answer: calls of tools, or a text. It can depend on the results of the calls before. */
export type ScriptedAnswer = (last: string) => readonly ScriptedToolUse[] | string

/** A running server. */
export interface ScriptedMessagesApi extends AsyncDisposable {
  readonly url: string
  /** The bodies of the requests so far. */
  readonly requests: readonly MessagesRequest[]
}

/** The parts of a request that tests look at. */
export interface MessagesRequest {
  readonly stream?: boolean
  readonly model: string
  readonly tools?: readonly { readonly name: string; readonly input_schema?: object }[]
  readonly messages: readonly { readonly role: string; readonly content: string | readonly Block[] }[]
}

interface Block {
  readonly type: string
  readonly text?: string
  readonly is_error?: boolean
  readonly content?: string | readonly { readonly text?: string }[]
}

/** Starts a server. A request beyond the script is answered with the text `end`. */
export async function scriptedMessagesApi(steps: readonly ScriptedAnswer[]): Promise<ScriptedMessagesApi> {
  const requests: MessagesRequest[] = []
  let at = 0
  const server = createServer((request, response) => {
    void (async () => {
      const url = request.url ?? ''
      if (request.method !== 'POST' || !url.startsWith('/v1/messages'))
        return response.writeHead(404).end('{}')
      const body = (await json(request)) as MessagesRequest
      requests.push(body)
      const answer = steps[at++]?.(lastResult(body)) ?? 'end'
      return body.stream === true ? stream(response, body, answer) : whole(response, body, answer)
    })().catch((error: unknown) => response.destroy(error as Error))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

type Answer = ReturnType<ScriptedAnswer>

function blocksOf(answer: Answer): object[] {
  if (typeof answer === 'string') return [{ type: 'text', text: answer }]
  return answer.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input }))
}

function messageOf({ model }: MessagesRequest, answer: Answer) {
  return {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model,
    content: blocksOf(answer),
    stop_reason: typeof answer === 'string' ? 'end_turn' : 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }
}

function whole(response: ServerResponse, request: MessagesRequest, answer: Answer): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(messageOf(request, answer)))
}

function stream(response: ServerResponse, request: MessagesRequest, answer: Answer): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (event: { readonly type: string } & Record<string, unknown>): void => {
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  }
  const { content, stop_reason, stop_sequence, ...message } = messageOf(request, answer)
  send({
    type: 'message_start',
    message: { ...message, content: [], stop_reason: null, stop_sequence: null },
  })
  for (const [index, block] of content.entries()) {
    const empty = 'text' in block ? { ...block, text: '' } : { ...block, input: {} }
    send({ type: 'content_block_start', index, content_block: empty })
    const delta =
      'text' in block
        ? { type: 'text_delta', text: block.text }
        : { type: 'input_json_delta', partial_json: JSON.stringify('input' in block ? block.input : {}) }
    send({ type: 'content_block_delta', index, delta })
    send({ type: 'content_block_stop', index })
  }
  send({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage: { output_tokens: 1 } })
  send({ type: 'message_stop' })
  response.end()
}

/** The newest result of a tool, after `error: ` if it is one. */
function lastResult({ messages }: MessagesRequest): string {
  const content = messages.at(-1)?.content
  if (content === undefined || typeof content === 'string') return ''
  const result = content.findLast(({ type }) => type === 'tool_result')
  if (result === undefined) return ''
  const parts = typeof result.content === 'string' ? [{ text: result.content }] : (result.content ?? [])
  const texts = parts.map(({ text = '' }) => text).filter((text) => !text.startsWith('<system-reminder>'))
  return `${result.is_error === true ? 'error: ' : ''}${texts.join('\n').split('\n\n<system-reminder>')[0]?.trimEnd() ?? ''}`
}
