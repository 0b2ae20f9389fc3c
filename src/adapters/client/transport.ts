import * as z from 'zod'
import {
  operations,
  schemas,
  type Operation,
  type OperationName,
  type OperationRequest,
  type OperationResponse,
} from '../../engine/wire.js'
import { Deadline, pause } from './deadline.js'
import { fromResponse, notUnderstood, unreachable } from './errors.js'
import { readLines } from './lines.js'
import { checkToken, type Settings } from './options.js'
import { encodeRequest, type WireRequest } from './request.js'

/** What an operation takes, with nothing that would be changed. */
export type Given<T> = T extends Uint8Array
  ? Uint8Array
  : T extends readonly (infer Element)[]
    ? readonly Given<Element>[]
    : T extends object
      ? { readonly [Key in keyof T]: Given<T[Key]> }
      : T

export interface CallOptions {
  /** Ends the waiting for the answer, with its reason. */
  readonly signal?: AbortSignal | undefined
  /** It may take as long as it takes. */
  readonly patient?: boolean
}

/** A stream of items, open. */
export interface OpenStream<Item> {
  readonly items: AsyncGenerator<Item, void, undefined>
  /** The id behind which its messages come, where the server tells it. */
  readonly startsAfter: string | undefined
}

/** Before each further attempt, milliseconds. */
const retryPauses = [100, 400]

/** Carries out operations by asking a server for them. */
export class Transport {
  readonly settings: Settings
  /** Who got a lock on a file of a session by this client, ever. */
  readonly lockOwners = new Set<string>()
  /** What was asked for and is not answered yet. */
  readonly #pending = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()

  constructor(settings: Settings) {
    this.settings = settings
  }

  /** Aborts when the client is closed, and everything that is asked for is answered. */
  get closed(): AbortSignal {
    return this.#closing.signal
  }

  call<Name extends OperationName>(
    name: Name,
    request: Given<OperationRequest<Name>>,
    options: CallOptions = {},
  ): Promise<OperationResponse<Name>> {
    const answer = this.#call(name, request, options)
    const settled: Promise<unknown> = answer.catch(() => undefined).then(() => this.#pending.delete(settled))
    this.#pending.add(settled)
    return answer
  }

  /** Opens a stream; what ends it early is thrown. It ends with the signal, or when its loop is left. */
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

  /** Resolves when everything that was asked for until now is answered. */
  async settled(): Promise<void> {
    await Promise.all(this.#pending)
  }

  async close(): Promise<void> {
    await this.settled()
    this.#closing.abort()
  }

  async #call<Name extends OperationName>(
    name: Name,
    request: object,
    { signal, patient = false }: CallOptions,
  ): Promise<OperationResponse<Name>> {
    const wire = encodeRequest(name, request)
    const deadline = new Deadline(
      [this.settings.signal, signal],
      patient ? undefined : this.settings.timeoutMs,
    )
    try {
      const response = await this.#fetch(wire, deadline, isRead(operations[name]) ? retryPauses : [])
      return decode(name, response.status, await textOf(response))
    } catch (error) {
      throw deadline.reasonOf(error)
    } finally {
      deadline.end()
    }
  }

  /** A success; everything else is thrown. Only what got no answer at all is sent again. */
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
        ...(body !== undefined && { 'content-type': 'application/json' }),
        authorization: `Bearer ${checkToken(await token())}`,
      },
      ...(body !== undefined && { body }),
      redirect: 'error',
      signal,
    }
    for (let attempt = 0; ; attempt++) {
      let response: Response
      try {
        response = await fetch(`${baseUrl}${target}`, init)
      } catch (error) {
        const wait = pauses[attempt]
        if (wait === undefined || signal.aborted) throw unreachable(error)
        await pause(wait * (0.5 + Math.random()), signal)
        continue
      }
      if (response.ok) return response
      throw await fromResponse(response).catch(unreachable)
    }
  }
}

/** What changes nothing may be asked for again. */
function isRead({ method, capabilities }: Operation): boolean {
  return method === 'GET' || capabilities.every((one) => one === 'files.read')
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
    throw notUnderstood('the answer is none of the interface', httpStatus, error)
  }
}

async function* items<Name extends OperationName>(
  name: Name,
  response: Response,
  deadline: Deadline,
): AsyncGenerator<OperationResponse<Name>, void, undefined> {
  try {
    const { body, status } = response
    if (body === null) throw notUnderstood('the answer is no stream', status)
    const lines = readLines(body)
    for (;;) {
      const line = await lines.next().catch((error: unknown) => {
        throw unreachable(error)
      })
      if (line.done === true) return
      // What was received is not handed over any more once the signal has aborted.
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
