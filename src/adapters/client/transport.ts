import * as z from 'zod'
import {
  contentRoutes,
  onAbort,
  operations,
  schemas,
  type ContentParameters,
  type ContentRouteName,
  type Operation,
  type OperationName,
  type OperationRequest,
  type OperationResponse,
} from '../../engine/client-contract.js'
import { Deadline, pause } from './deadline.js'
import { fromResponse, notUnderstood, unreachable } from './errors.js'
import { clientLimits } from './limits.js'
import { readLines } from './lines.js'
import { checkToken, type Settings } from './options.js'
import { encodeContentRequest, encodeRequest, type WireRequest } from './encode-request.js'
import { copyBytes } from './bytes.js'

/** The request of an operation, read-only at every depth. */
export type Given<T> = T extends Uint8Array
  ? Uint8Array
  : T extends readonly (infer Element)[]
    ? readonly Given<Element>[]
    : T extends object
      ? { readonly [Key in keyof T]: Given<T[Key]> }
      : T

export interface CallOptions {
  /** Ends the wait for the response, with its reason. */
  readonly signal?: AbortSignal | undefined
  /** Whether the call has no timeout. */
  readonly patient?: boolean
}

/** A content route that sends a content to the server. */
export type SendingRoute = Exclude<ContentRouteName, 'readContent'>

type OperationOf<Name extends SendingRoute> = (typeof contentRoutes)[Name]['operation']

/** An open stream of items. */
export interface OpenStream<Item> {
  readonly items: AsyncGenerator<Item, void, undefined>
  /** The id of the message that the stream starts after, if the server sends it. */
  readonly startsAfter: string | undefined
}

/** The state of a client that its handles share. */
class Connection {
  readonly lockOwners = new Set<string>()
  /** Requests that have no response yet. */
  readonly pending = new Set<Promise<unknown>>()
  readonly closing = new AbortController()
}

/** Calls operations on a server. */
export class Transport {
  readonly settings: Settings
  readonly #connection: Connection

  constructor(settings: Settings, connection = new Connection()) {
    this.settings = settings
    this.#connection = connection
  }

  /** The same connection, with further headers in each request. */
  withHeaders(headers: Readonly<Record<string, string>>): Transport {
    const settings = { ...this.settings, headers: { ...this.settings.headers, ...headers } }
    return new Transport(settings, this.#connection)
  }

  /** All owners that ever got a lock through this client. */
  get lockOwners(): Set<string> {
    return this.#connection.lockOwners
  }

  /** Aborts when the client is closed and its pending requests have ended. */
  get closed(): AbortSignal {
    return this.#connection.closing.signal
  }

  call<Name extends OperationName>(
    name: Name,
    request: Given<OperationRequest<Name>>,
    options: CallOptions = {},
  ): Promise<OperationResponse<Name>> {
    return this.#noted(async () => {
      const pauses = isRead(operations[name]) ? clientLimits.retryPauseMs : []
      const read = async (response: Response): Promise<OperationResponse<Name>> =>
        decode(name, response.status, await textOf(response))
      return this.#ask(encodeRequest(name, request), options, read, pauses)
    })
  }

  /** Sends a content through a content route, and returns the response of its operation. */
  send<Name extends SendingRoute>(
    name: Name,
    parameters: Given<ContentParameters<Name>>,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    options: CallOptions = {},
  ): Promise<OperationResponse<OperationOf<Name>>> {
    const operation: OperationOf<Name> = contentRoutes[name].operation
    return this.#noted(async () => {
      const wire = { ...encodeContentRequest(name, parameters), body: content }
      return this.#ask(wire, options, async (response) =>
        decode(operation, response.status, await textOf(response)),
      )
    })
  }

  /** Reads a content through a content route. Leaving the loop over the content ends the request. */
  async receive(
    parameters: Given<ContentParameters<'readContent'>>,
  ): Promise<{ readonly sizeBytes: number; readonly length: number; readonly content: Contents }> {
    const deadline = new Deadline([this.settings.signal], this.settings.timeoutMs)
    try {
      const wire = encodeContentRequest('readContent', parameters)
      const { headers, body, status } = await this.#fetch(wire, deadline, clientLimits.retryPauseMs)
      const [sizeBytes, length] = ['forkspace-size-bytes', 'content-length'].map((name) =>
        Number(headers.get(name) ?? NaN),
      ) as [number, number]
      if (!Number.isSafeInteger(sizeBytes) || !Number.isSafeInteger(length) || body === null)
        throw notUnderstood('the response has no valid content headers', status)
      return { sizeBytes, length, content: pieces(body, length, deadline) }
    } catch (error) {
      deadline.end()
      throw deadline.reasonOf(error)
    }
  }

  /**
   * Opens a stream. The signal, or leaving the loop over the items, ends it. The loop throws if it ends
   * early.
   */
  async open<Name extends OperationName>(
    name: Name,
    request: Given<OperationRequest<Name>>,
    signal: AbortSignal,
  ): Promise<OpenStream<OperationResponse<Name>>> {
    const deadline = new Deadline([this.settings.signal, signal], this.settings.timeoutMs)
    try {
      const response = await this.#fetch(encodeRequest(name, request), deadline)
      deadline.clearTimeout()
      const startsAfter = response.headers.get('forkspace-starts-after') ?? undefined
      return { items: items(name, response, deadline), startsAfter }
    } catch (error) {
      deadline.end()
      throw deadline.reasonOf(error)
    }
  }

  /** Resolves when all requests that are pending now have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#connection.pending)
  }

  async close(): Promise<void> {
    await this.settled()
    this.#connection.closing.abort()
  }

  #noted<T>(ask: () => Promise<T>): Promise<T> {
    const response = ask()
    const settled: Promise<unknown> = response
      .catch(() => undefined)
      .then(() => this.#connection.pending.delete(settled))
    this.#connection.pending.add(settled)
    return response
  }

  async #ask<T>(
    wire: WireRequest,
    { signal, patient = false }: CallOptions,
    read: (response: Response) => Promise<T>,
    pauses: readonly number[] = [],
  ): Promise<T> {
    const deadline = new Deadline(
      [this.settings.signal, signal],
      patient ? undefined : this.settings.timeoutMs,
    )
    try {
      return await read(await this.#fetch(wire, deadline, pauses))
    } catch (error) {
      const reason = deadline.reasonOf(error)
      // Stops the sending of a content.
      deadline.abort(reason)
      throw reason
    } finally {
      deadline.end()
    }
  }

  /**
   * Returns a successful response, and throws an error for any other. A request is retried only if it got no
   * response.
   */
  async #fetch(
    { method, target, body }: WireRequest,
    { signal }: Deadline,
    pauses: readonly number[] = [],
  ): Promise<Response> {
    const { baseUrl, token, headers, fetch } = this.settings
    const init: RequestInit = {
      method,
      headers: {
        ...headers,
        ...(body !== undefined && {
          'content-type': typeof body === 'string' ? 'application/json' : 'application/octet-stream',
        }),
        authorization: `Bearer ${checkToken(await token())}`,
      },
      ...(body !== undefined && bodyOf(body, signal)),
      redirect: 'error',
      signal,
    }
    for (let attempt = 0; ; attempt++) {
      let response: Response
      try {
        response = await fetch(`${baseUrl}${target}`, init)
      } catch (error) {
        const wait = pauses[attempt]
        if (wait === undefined || signal.aborted) throw unreachable(error, baseUrl)
        await pause(wait * (0.5 + Math.random()), signal)
        continue
      }
      if (response.ok) return response
      throw await fromResponse(response).catch(unreachable)
    }
  }
}

/** Whether an operation changes nothing, so that it can be retried. */
function isRead({ method, capabilities }: Operation): boolean {
  return method === 'GET' || capabilities.every((one) => one === 'files.read')
}

/**
 * Creates the body of a request. A stream is sent while it is read, which requires `duplex: 'half'` in fetch.
 * The stream ends when the signal aborts, because Node's fetch would continue to read it after an abort or a
 * lost connection.
 */
function bodyOf(body: NonNullable<WireRequest['body']>, signal: AbortSignal): RequestInit {
  if (typeof body === 'string' || body instanceof Uint8Array) return { body: body as string }
  const iterator = body[Symbol.asyncIterator]()
  let release = (): void => undefined
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      release = onAbort(signal, () => {
        controller.error(signal.reason)
        iterator.return?.().catch(() => undefined)
      })
    },
    async pull(controller) {
      const { done, value } = await iterator.next()
      if (signal.aborted) return
      if (done === true) {
        release()
        controller.close()
      } else controller.enqueue(copyBytes(value, 'a piece of content'))
    },
    async cancel() {
      release()
      await iterator.return?.()
    },
  })
  return { body: stream, duplex: 'half' }
}

type Contents = AsyncGenerator<Uint8Array, void, undefined>

/** Yields the pieces of a response, which must have `length` bytes in total. */
async function* pieces(body: ReadableStream<Uint8Array>, length: number, deadline: Deadline): Contents {
  const reader = body.getReader()
  let received = 0
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw unreachable(error)
      })
      if (done) break
      received += value.byteLength
      yield value
    }
    if (received !== length) throw unreachable(new Error(`${received} of ${length} bytes arrived`))
  } catch (error) {
    throw deadline.reasonOf(error)
  } finally {
    deadline.abort(undefined)
    deadline.end()
  }
}

async function textOf(response: Response): Promise<string> {
  try {
    return await response.text()
  } catch (error) {
    throw unreachable(error)
  }
}

function decode<Name extends OperationName>(
  name: Name,
  httpStatus: number,
  text: string,
): OperationResponse<Name> {
  try {
    const schema: z.ZodType = schemas[name].response
    return z.decode(schema, JSON.parse(text)) as OperationResponse<Name>
  } catch (error) {
    throw notUnderstood('the response is not valid for the operation', httpStatus, error)
  }
}

async function* items<Name extends OperationName>(
  name: Name,
  response: Response,
  deadline: Deadline,
): AsyncGenerator<OperationResponse<Name>, void, undefined> {
  try {
    const { body, status } = response
    if (body === null) throw notUnderstood('the response is not a stream', status)
    const lines = readLines(body)
    for (;;) {
      const line = await lines.next().catch((error: unknown) => {
        throw unreachable(error)
      })
      if (line.done === true) return
      // After an abort, items that were already received are dropped.
      deadline.signal.throwIfAborted()
      yield decode(name, status, line.value)
    }
  } catch (error) {
    throw deadline.reasonOf(error)
  } finally {
    deadline.abort(undefined)
    deadline.end()
  }
}
