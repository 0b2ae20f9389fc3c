import { present, runInSlices, withSignals, type Clock } from '../../../engine/ports.js'
import {
  callOperation,
  isStreamOperation,
  openStream,
  operations,
  type CallableOperation,
  type ContentParameters,
  type ContentRouteName,
  type Operation,
  type OperationRequest,
  type StreamOperation,
} from '../../../engine/contract.js'
import type { EngineScope, ImportJob } from '../../../engine/index.js'
import { jsonResponse, streamResponse } from '../server/responses.js'
import { checkBytes, readBody } from '../server/request-body.js'
import { receive, send } from './contents.js'
import { checkContent, expectedBytes, withinContentLimit } from './content-limit.js'
import { Deadlines } from '../server/deadlines.js'
import { Decoder } from './decode.js'
import { clientGone, type HttpResponse, type HttpRequest } from '../server/http-messages.js'
import type { Json, ResponseEncoder } from './encode.js'
import { HttpError } from '../http-error.js'
import { handlerLimits, type HttpLimits } from '../limits.js'
import { startLockWait, waitsForLock } from './lock-wait.js'
import { MessageStream } from './message-stream.js'
import { mayExceed, stringBytes } from './response-size.js'
import { contentIo, operationIo, type OperationIo } from './operation-io.js'
import type { Match } from './routes.js'
import { markedScope } from '../server/event-marks.js'
import type { CallerScope } from '../server/scopes.js'
import { createShared, Slot, type Shared } from '../server/slot.js'

const noBytes = new Uint8Array(0)

/** Operations that end with their request. */
const searches: ReadonlySet<CallableOperation> = new Set(['globPaths', 'grepFiles'])

/** Executes the operations of authenticated requests. */
export class Dispatcher {
  readonly #limits: HttpLimits
  readonly #io: ReturnType<typeof operationIo>
  readonly #contentIo = contentIo()
  readonly #shared: Shared
  readonly #deadlines: Deadlines
  readonly #decoder = new Decoder()

  constructor(limits: HttpLimits) {
    this.#limits = limits
    this.#io = operationIo(limits)
    this.#shared = createShared(limits)
    this.#deadlines = new Deadlines(limits.requestMs, () => {
      const limit = String(limits.requestMs)
      return new HttpError(
        'DEADLINE_EXCEEDED',
        `the request took over ${limit} ms; the operation continues, unless it is a search`,
        {
          limit,
        },
      )
    })
  }

  /** Executes a request. The request holds a slot until its operation has ended and its response was sent. */
  async dispatch(
    httpRequest: HttpRequest,
    { scope: callerScope, tenant }: CallerScope,
    match: Match,
    query: string,
  ): Promise<HttpResponse> {
    const { name, content } = match.route
    const scope = markedScope(httpRequest, callerScope)
    const io = present(this.#io.get(name), name)
    const slot = new Slot(this.#shared, tenant)
    try {
      if (content !== undefined)
        return await this.#dispatchContent(httpRequest, scope, match, content, { query, slot, io })
      const read = this.#read(httpRequest, match, query, io, slot)
      const request = read instanceof Promise ? await read : read
      if (isStreamOperation(name))
        return await this.#openStream(httpRequest, scope, name, request as never, { io, slot })
      const { response, isLarge } = waitsForLock(name, request)
        ? await this.#waitForLock(httpRequest, scope, name, request)
        : await this.#call(httpRequest, scope, name, request, slot)
      slot.dropBody()
      const json = encoded(io.response, response, { isLarge, clock: slot.clock })
      const httpResponse = jsonResponse(json instanceof Promise ? await json : json, () => slot.release())
      slot.holdResponse(httpResponse.length)
      return httpResponse
    } catch (error) {
      slot.release()
      throw error
    }
  }

  async #dispatchContent(
    httpRequest: HttpRequest,
    scope: EngineScope,
    match: Match,
    name: ContentRouteName,
    { query, slot, io }: { readonly query: string; readonly slot: Slot; readonly io: OperationIo },
  ): Promise<HttpResponse> {
    if (name !== 'readContent' && httpRequest.hasBody) checkBytes(httpRequest)
    const { readQuery, parameters } = present(this.#contentIo.get(name), name)
    const read = (await this.#decoder.decode(
      parameters,
      noBytes,
      parametersOf(match, readQuery(query)),
      slot,
    )) as ContentParameters<typeof name>
    if (name === 'readContent') return send(httpRequest, scope, read as ContentParameters<typeof name>, slot)
    const { stalledUploadMs: stalledMs } = this.#limits
    const response = await receive(httpRequest, scope, name, read, { slot, stalledMs })
    return jsonResponse(io.response.encode(response), () => slot.release())
  }

  #read(
    httpRequest: HttpRequest,
    match: Match,
    query: string,
    io: OperationIo,
    slot: Slot,
  ): object | Promise<object> {
    const parameters = parametersOf(match, io.readQuery(query))
    if (io.bodyBytes === 0 || !httpRequest.hasBody)
      return this.#decoder.decode(io.request, noBytes, parameters, slot)
    return readBody(httpRequest, io.bodyBytes, slot.bodies).then((body) => {
      slot.holdBody(body.byteLength)
      return this.#decoder.decode(io.request, body, parameters, slot)
    })
  }

  /**
   * Executes an operation after it has reserved the expected size of its response. A read whose response is larger gives
   * the response up, waits for a larger share, and is executed again. Kept, the waiting responses would fill the memory.
   */
  async #call(
    httpRequest: HttpRequest,
    scope: EngineScope,
    name: CallableOperation,
    request: object,
    slot: Slot,
  ): Promise<Answer> {
    const expected = expectedBytes(name, request, this.#limits)
    const room = expected === 0 ? undefined : slot.reserve(expected)
    if (room !== undefined) {
      await room
      if (httpRequest.isGone()) throw clientGone()
    }
    return this.#answer(httpRequest, scope, name, request, slot)
  }

  async #answer(
    httpRequest: HttpRequest,
    scope: EngineScope,
    name: CallableOperation,
    request: object,
    slot: Slot,
  ): Promise<Answer> {
    const response = await this.#run(httpRequest, scope, name, request, slot)
    const bytes = isRead(name, request) ? await unreservedBytes(response, slot) : 0
    if (bytes === 0) return { response, isLarge: false }
    const most = this.#limits.allResponseBytes * handlerLimits.mostReserved
    const larger = slot.reserved >= most ? undefined : slot.reserve(Math.min(bytes, most))
    if (larger === undefined) return { response, isLarge: true }
    const again = larger.then(() => {
      if (httpRequest.isGone()) throw clientGone()
      // The response may have grown meanwhile.
      return this.#answer(httpRequest, scope, name, request, slot)
    })
    // Not awaited here, because that would keep the first response in memory.
    return again.then((second) => ({ response: second.response, isLarge: true }))
  }

  async #run(
    httpRequest: HttpRequest,
    scope: EngineScope,
    name: CallableOperation,
    request: object,
    slot: Slot,
  ): Promise<object> {
    const { responseContentBytes } = this.#limits
    const limited = withinContentLimit(name, request, responseContentBytes)
    slot.hold()
    const answered = searches.has(name) ? new AbortController() : undefined
    const work =
      answered === undefined
        ? callOperation(scope, name, limited as never)
        : withSignals([httpRequest.gone(), answered.signal], (signal) =>
            callOperation(scope, name, limited as never, { signal }),
          )
    try {
      const response = await this.#deadlines.wait<object>(work, () => {
        if (name === 'startImport') afterJob(scope, work as Promise<ImportJob>, slot.takeBody())
        slot.release()
      })
      checkContent(name, response, responseContentBytes)
      return response
    } finally {
      answered?.abort()
    }
  }

  async #waitForLock(
    httpRequest: HttpRequest,
    scope: EngineScope,
    name: CallableOperation,
    request: object,
  ): Promise<Answer> {
    const wait = startLockWait(httpRequest.signal(), this.#limits.lockWaitMs)
    try {
      const response = await callOperation(scope, name, request as never, { signal: wait.signal })
      return { response, isLarge: false }
    } finally {
      wait.release()
    }
  }

  /** Opens a stream, which holds the slot until it ends. */
  async #openStream<Name extends StreamOperation>(
    httpRequest: HttpRequest,
    scope: EngineScope,
    name: Name,
    request: OperationRequest<Name>,
    { io, slot }: { readonly io: OperationIo; readonly slot: Slot },
  ): Promise<HttpResponse> {
    const abort = new AbortController()
    const gone = httpRequest.signal()
    const onGone = (): void => abort.abort(gone.reason)
    const release = (): void => {
      gone.removeEventListener('abort', onGone)
      abort.abort(new HttpError('UNAVAILABLE', 'the stream was closed by the client'))
    }
    if (gone.aborted) onGone()
    else gone.addEventListener('abort', onGone, { once: true })
    try {
      const items = await openStream(scope, name, request, { signal: abort.signal })
      const stream = new MessageStream(items, io.response, {
        room: slot.room,
        sent: (bytes) => scope.usage.sent(bytes),
        end: () => {
          release()
          slot.release()
        },
      })
      return streamResponse(stream, { 'forkspace-starts-after': items.startsAfter })
    } catch (error) {
      release()
      throw error
    }
  }
}

interface Answer {
  readonly response: object
  /** Whether the response needs more bytes than were expected. */
  readonly isLarge: boolean
}

/**
 * Whether the request only reads, so that it can be executed again. A change does not wait for memory after it has taken
 * effect. Its response is small, or its size was reserved before.
 */
function isRead(name: CallableOperation, request: object): boolean {
  const { method, capabilities }: Operation = operations[name]
  if (method === 'GET' || ('dryRun' in request && request.dryRun === true)) return true
  return otherReads.has(name) || capabilities.every((one) => one === 'files.read')
}

/** Reads with a body that need more than the capability to read files. */
const otherReads: ReadonlySet<CallableOperation> = new Set(['blame', 'listFileLocks'])

/** The bytes of a response if it needs more than were reserved, and otherwise 0. */
async function unreservedBytes(response: object, slot: Slot): Promise<number> {
  const known = Math.max(slot.reserved, handlerLimits.unreservedBytes)
  if (!mayExceed(response, known)) return 0
  const bytes = await runInSlices(stringBytes(response), slot.clock)
  return bytes > known ? bytes : 0
}

/** Adds the parameters of the path, which the router has decoded. */
function parametersOf({ parameters }: Match, wire: Record<string, unknown>): object {
  return Object.assign(wire, parameters)
}

/** The content of an import is in memory until the job has read it. */
function afterJob(scope: EngineScope, started: Promise<ImportJob>, dropBody: () => void): void {
  started.then((job) => scope.sources.waitForJob(job)).then(dropBody, dropBody)
}

function encoded(
  encoder: ResponseEncoder,
  response: object,
  { isLarge, clock }: { readonly isLarge: boolean; readonly clock: Clock },
): Json | Promise<Json> {
  return isLarge || encoder.isLong(response)
    ? runInSlices(encoder.inSteps(response), clock)
    : encoder.encode(response)
}
