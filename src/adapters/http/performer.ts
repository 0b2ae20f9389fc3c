import {
  callOperation,
  openStream,
  type CallableOperation,
  type OperationRequest,
} from '../../engine/contract.js'
import type { EngineScope } from '../../engine/index.js'
import { Admission } from './admission.js'
import { answerJson, answerStream } from './answers.js'
import { readBody } from './body.js'
import { checkContent, withinContentLimit } from './content-limit.js'
import { Deadlines } from './deadlines.js'
import { Decoder } from './decode.js'
import type { Answer, Exchange } from './exchange.js'
import type { Json, ResponseEncoder } from './encode.js'
import { HttpError } from './http-error.js'
import type { HttpLimits } from './limits.js'
import { startLockWait, waitsForLock } from './lock-wait.js'
import { MessageStream } from './message-stream.js'
import { operationIo, type OperationIo } from './operation-io.js'
import type { Match } from './routes.js'
import { runInSlices } from './steps.js'
import { decodePart } from './target.js'

const noBytes = new Uint8Array(0)

type Subscription = OperationRequest<'subscribe'>

/** Carries out operations for requests whose caller is known. */
export class Performer {
  readonly #limits: HttpLimits
  readonly #io: ReturnType<typeof operationIo>
  readonly #requests: Admission
  readonly #bodies: Admission
  readonly #deadlines: Deadlines
  readonly #decoder = new Decoder()

  constructor(limits: HttpLimits) {
    this.#limits = limits
    this.#io = operationIo(limits)
    this.#requests = new Admission(limits.concurrentRequests, 'too many requests at once')
    this.#bodies = new Admission(limits.allBodyBytes, 'too many large requests at once')
    this.#deadlines = new Deadlines(limits.requestMs, () => {
      const limit = String(limits.requestMs)
      return new HttpError('DEADLINE_EXCEEDED', `the request took over ${limit} ms; its work goes on`, {
        limit,
      })
    })
  }

  /** What a request takes up is free again when its work is over, which may be after its answer. */
  async perform(exchange: Exchange, scope: EngineScope, match: Match, query: string): Promise<Answer> {
    const { name } = match.route
    const io = this.#io.get(name)!
    this.#requests.take(1)
    let bodyBytes = 0
    const release = (): void => {
      this.#requests.give(1)
      this.#bodies.give(bodyBytes)
    }
    let request: object
    try {
      const parameters = parametersOf(match, io.readQuery(query))
      let body: Uint8Array = noBytes
      if (io.bodyBytes > 0 && exchange.hasBody) {
        body = await readBody(exchange, io.bodyBytes, this.#bodies)
        bodyBytes = body.byteLength
      }
      const decoded = this.#decoder.decode(io.request, body, parameters)
      request = decoded instanceof Promise ? await decoded : decoded
    } catch (error) {
      release()
      throw error
    }
    if (name === 'subscribe') return this.#subscribe(exchange, scope, request as Subscription, io, release)
    if (waitsForLock(name, request)) return this.#waitForLock(exchange, scope, name, request, io, release)
    const limited = withinContentLimit(name, request, this.#limits.responseContentBytes)
    const work = callOperation(scope, name, limited as never)
    const response = await this.#deadlines.wait<object>(work, release)
    checkContent(name, response, this.#limits.responseContentBytes)
    const json = encoded(io.response, response)
    return answerJson(json instanceof Promise ? await json : json)
  }

  async #waitForLock(
    exchange: Exchange,
    scope: EngineScope,
    name: CallableOperation,
    request: object,
    io: OperationIo,
    release: () => void,
  ): Promise<Answer> {
    const wait = startLockWait(exchange.signal(), this.#limits.lockWaitMs)
    try {
      const response = await callOperation(scope, name, request as never, { signal: wait.signal })
      return answerJson(await encoded(io.response, response))
    } finally {
      wait.end()
      release()
    }
  }

  async #subscribe(
    exchange: Exchange,
    scope: EngineScope,
    request: Subscription,
    io: OperationIo,
    release: () => void,
  ): Promise<Answer> {
    const abort = new AbortController()
    const gone = exchange.signal()
    const leave = (): void => abort.abort(gone.reason)
    const end = (): void => {
      gone.removeEventListener('abort', leave)
      abort.abort(new HttpError('UNAVAILABLE', 'the stream was left'))
      release()
    }
    if (gone.aborted) leave()
    else gone.addEventListener('abort', leave, { once: true })
    try {
      const items = await openStream(scope, 'subscribe', request, { signal: abort.signal })
      const stream = new MessageStream(items, io.response, (bytes) => scope.usage.sent(bytes), end)
      return answerStream(stream, { 'forkspace-starts-after': items.startsAfter })
    } catch (error) {
      end()
      throw error
    }
  }
}

/** Adds those of the path, each decoded once. */
function parametersOf({ parameters }: Match, wire: Record<string, unknown>): object {
  for (const name in parameters) wire[name] = decodePart(parameters[name]!, name)
  return wire
}

function encoded(encoder: ResponseEncoder, response: object): Json | Promise<Json> {
  return encoder.isLong(response) ? runInSlices(encoder.inSteps(response)) : encoder.encode(response)
}
