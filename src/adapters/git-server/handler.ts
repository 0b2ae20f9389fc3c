import { openRepository, type SessionRepository } from '../../engine/contract.js'
import { attempt, EngineError, TimeSlice, type Clock } from '../../engine/ports.js'
import type { Engine, EngineScope } from '../../engine/index.js'
import { EntryCaches, gitLimits } from '../git/parts.js'
import {
  callerOfBasic,
  checkSingle,
  clientGone,
  contentBytes,
  createShared,
  hostGuard,
  isDefect,
  originGuard,
  parseOptions,
  preflightResponse,
  Scopes,
  Slot,
  splitTarget,
  Upload,
  type HttpHandlerOptions,
  type HttpLimits,
  type HttpRequest,
  type HttpResponse,
  type PathHandler,
  type Shared,
} from '../http/parts.js'
import { capabilitiesV2, formatOfHead, refsV0 } from './advertisement.js'
import { CommitGraph } from './fetch-plan.js'
import { readRequestV0, readRequestV2, type FetchRequest } from './fetch-request.js'
import { gitServerLimits } from './limits.js'
import { readPushRequest } from './push-request.js'
import { receive } from './receive-pack.js'
import { bodyOf, isVersion2, routeOf, type Route } from './request.js'
import { errorPacket, errorResponse, gitResponse, gitStream, PieceStream } from './responses.js'
import { answerV0, answerV2, listRefs, prepareFetch } from './upload-pack.js'

/** One authenticated request. */
interface Call {
  readonly httpRequest: HttpRequest
  readonly scope: EngineScope
  readonly tenant: string
  readonly repository: SessionRepository
  readonly slot: Slot
}

/** Serves the sessions of an engine as git repositories. */
export class GitRequests implements PathHandler {
  readonly limits: HttpLimits
  readonly #options: ReturnType<typeof parseOptions>
  readonly #push: boolean
  readonly #scopes: Scopes
  readonly #shared: Shared
  readonly #caches = new EntryCaches()
  readonly #checkHost: ReturnType<typeof hostGuard>
  readonly #checkOrigin: ReturnType<typeof originGuard>

  constructor(engine: Engine, options: HttpHandlerOptions, push: boolean) {
    this.#options = parseOptions(options)
    const { limits, allowedHosts, allowedOrigins } = this.#options
    this.limits = limits
    this.#push = push
    this.#scopes = new Scopes(engine)
    this.#shared = createShared(limits)
    this.#checkHost = hostGuard(allowedHosts)
    this.#checkOrigin = originGuard(allowedOrigins)
  }

  serves(path: string): boolean {
    return path.startsWith(`${this.#options.prefix}/sessions/`)
  }

  async handle(httpRequest: HttpRequest): Promise<HttpResponse> {
    let httpResponse: HttpResponse
    let cors: Readonly<Record<string, string>> | undefined
    try {
      checkSingle(httpRequest)
      this.#checkHost(httpRequest)
      cors = this.#checkOrigin(httpRequest)
      if (cors !== undefined && httpRequest.method === 'OPTIONS') httpResponse = preflightResponse()
      else httpResponse = await this.#route(httpRequest)
    } catch (error) {
      if (isDefect(error)) this.report(error)
      httpResponse = errorResponse(error)
    }
    return cors === undefined
      ? httpResponse
      : { ...httpResponse, headers: { ...httpResponse.headers, ...cors } }
  }

  report(error: unknown): void {
    attempt(() => this.#options.log({ level: 'error', message: 'a git request failed', details: {}, error }))
  }

  async #route(httpRequest: HttpRequest): Promise<HttpResponse> {
    const { prefix, authenticate } = this.#options
    const { path, query } = splitTarget(httpRequest.target)
    const local = path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : ''
    const caller = await callerOfBasic(httpRequest, authenticate)
    const route = routeOf(httpRequest.method, local, query)
    if (route.service === 'git-receive-pack' && !this.#push)
      throw new EngineError(
        'PERMISSION_DENIED',
        'this server takes no pushes; the option push of gitHandler, or the flag --git-push, allows them',
      )
    const { scope, tenant } = this.#scopes.of(caller)
    const slot = new Slot(this.#shared, tenant)
    try {
      const repository = await openRepository(scope, route.sessionId)
      const httpResponse = await this.#answer({ httpRequest, scope, tenant, repository, slot }, route)
      if (httpResponse.body instanceof Uint8Array) {
        scope.usage.sent(httpResponse.length)
        slot.release()
      }
      return httpResponse
    } catch (error) {
      slot.release()
      throw error
    }
  }

  async #answer(call: Call, { isStart, service }: Route): Promise<HttpResponse> {
    if (service === 'git-receive-pack') return isStart ? this.#startPush(call) : this.#receive(call)
    if (isStart) return this.#startFetch(call)
    return this.#upload(call)
  }

  async #startFetch({ httpRequest, repository, slot }: Call): Promise<HttpResponse> {
    const head = await repository.head(httpRequest.signal())
    const type = 'git-upload-pack-advertisement'
    if (isVersion2(httpRequest)) return gitResponse(type, capabilitiesV2(formatOfHead(head)))
    return gitResponse(type, refsV0('git-upload-pack', head, await isCut(repository, head.base, slot.clock)))
  }

  async #startPush({ httpRequest, repository, slot }: Call): Promise<HttpResponse> {
    const head = await repository.checkPush(httpRequest.signal())
    const isShallow = await isCut(repository, head.base, slot.clock)
    return gitResponse('git-receive-pack-advertisement', refsV0('git-receive-pack', head, isShallow))
  }

  async #upload(call: Call): Promise<HttpResponse> {
    const { httpRequest, repository, slot } = call
    const signal = httpRequest.signal()
    const format = formatOfHead(await repository.served(signal))
    // The request counts like a JSON body, so that it does not wait for slow ones.
    const upload = this.#uploadOf(httpRequest, () => undefined)
    const maxBytes = gitServerLimits.fetchRequestBytes
    const body = counted(bodyOf(httpRequest, 'git-upload-pack', upload, maxBytes), slot)
    try {
      if (!isVersion2(httpRequest)) {
        const request = await readingAll(body, () => readRequestV0(body, format, slot.clock))
        await enter(call)
        return request === undefined ? result(new Uint8Array(0)) : await this.#stream(call, request, answerV0)
      }
      const request = await readingAll(body, () => readRequestV2(body, format, slot.clock))
      await enter(call)
      if (request.command === 'none') return result(new Uint8Array(0))
      if (request.command === 'ls-refs') return result(await listRefs(repository, request, signal))
      return await this.#stream(call, request, answerV2)
    } catch (error) {
      // The client shows the text of this packet, but not that of a failed request.
      if (!(error instanceof EngineError) || isDefect(error)) throw error
      return result(errorPacket(error))
    }
  }

  async #stream(
    { httpRequest, repository, scope, tenant, slot }: Call,
    request: FetchRequest,
    answer: typeof answerV2,
  ): Promise<HttpResponse> {
    const signal = httpRequest.signal()
    const cache = this.#caches.of(tenant)
    const pieces = answer(
      await prepareFetch(repository, request, { signal, cache, clock: slot.clock }),
      request,
    )
    const stream = new PieceStream(this.#reported(pieces), (bytes) => scope.usage.sent(bytes))
    return gitStream('git-upload-pack-result', stream, () => slot.release())
  }

  /** Logs defects that occur after the response has begun. */
  async *#reported(pieces: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
    try {
      yield* pieces
    } catch (error) {
      if (isDefect(error)) this.report(error)
    }
  }

  async #receive({ httpRequest, repository, slot }: Call): Promise<HttpResponse> {
    const signal = httpRequest.signal()
    const head = await repository.checkPush(signal)
    const upload = this.#uploadOf(httpRequest, () => slot.reserve(contentBytes.in, 'uploads'))
    const maxBytes = gitLimits.packBytes + gitServerLimits.commandBytes
    const body = bodyOf(httpRequest, 'git-receive-pack', upload, maxBytes)
    return readingAll(body, async () => {
      const request = await readPushRequest(body, formatOfHead(head), slot.clock)
      if (request === undefined) return gitResponse('git-receive-pack-result', new Uint8Array(0))
      const { report, error } = await receive(repository, request, signal)
      if (error !== undefined && isDefect(error)) this.report(error)
      return gitResponse('git-receive-pack-result', report)
    })
  }

  #uploadOf(httpRequest: HttpRequest, enter: () => Promise<void> | undefined): Upload {
    const { stalledUploadMs: stalledMs } = this.limits
    return new Upload(httpRequest, { stalledMs, enter })
  }
}

/** Waits for a share of the memory for responses. */
async function enter({ httpRequest, slot }: Call): Promise<void> {
  await slot.reserve(contentBytes.out)
  if (httpRequest.isGone()) throw clientGone()
}

/** Takes the bytes of a body from the budget for bodies. */
async function* counted(body: AsyncIterable<Uint8Array>, slot: Slot): AsyncGenerator<Uint8Array, void> {
  for await (const piece of body) {
    slot.growBody(piece.byteLength)
    yield piece
  }
}

/** Ends the body after work on it, so that the server can skip the rest. */
async function readingAll<T>(body: AsyncGenerator<unknown, void>, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } finally {
    // Not awaited, because it waits for a read that an abort has left.
    body.return().catch(() => undefined)
  }
}

function result(body: Uint8Array): HttpResponse {
  return gitResponse('git-upload-pack-result', body)
}

/** Whether the engine lacks the parents of the imported commit. */
async function isCut(repository: SessionRepository, base: string | null, clock: Clock): Promise<boolean> {
  return (
    base !== null && (await new CommitGraph(repository.objects, base, new TimeSlice(clock)).get(base)).isCut
  )
}
