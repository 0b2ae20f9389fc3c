import { attempt, EngineError } from '../../engine/ports.js'
import {
  callerOfBasic,
  checkSingle,
  contentBytes,
  createShared,
  hostGuard,
  HttpError,
  isDefect,
  originGuard,
  Slot,
  Upload,
  type HttpLimits,
  type HttpRequest,
  type HttpResponse,
  type parseOptions,
  type Shared,
} from '../http/parts.js'
import { lockPath, patchProperties, unlockPath } from './attributes.js'
import { copy, makeDirectory, move, putFile, remove } from './changes.js'
import type { Served } from './conditions.js'
import { DavError } from './dav-error.js'
import type { Files } from './found.js'
import { Locks } from './locks.js'
import { placeOf, type Place } from './place.js'
import { listProperties, optionsResponse, readFile } from './reads.js'
import { errorResponse } from './responses.js'

/** One request, and what its method needs. */
interface Call {
  readonly served: Served
  readonly httpRequest: HttpRequest
  readonly place: Place
  readonly allow: string
  readonly slot: Slot
  readonly limits: HttpLimits
}

type Method = (call: Call) => Promise<HttpResponse>

const readMethods = ['OPTIONS', 'GET', 'HEAD', 'PROPFIND']

const get: Method = ({ served, httpRequest, place, allow, slot }) =>
  readFile(served, httpRequest, place, { allow, reserve: () => slot.reserve(contentBytes.out) })

const methods: Readonly<Record<string, Method>> = {
  GET: get,
  HEAD: get,
  PROPFIND: async ({ served, httpRequest, place, slot }) => {
    const httpResponse = await listProperties(served, httpRequest, place)
    await slot.reserve(contentBytes.out)
    return httpResponse
  },
  PUT: ({ served, httpRequest, place, slot, limits: { stalledUploadMs: stalledMs } }) => {
    const content = new Upload(httpRequest, {
      stalledMs,
      enter: () => slot.reserve(contentBytes.in, 'uploads'),
    })
    return putFile(served, httpRequest, place, content)
  },
  MKCOL: ({ served, httpRequest, place }) => makeDirectory(served, httpRequest, place),
  DELETE: ({ served, httpRequest, place }) => remove(served, httpRequest, place),
  COPY: ({ served, httpRequest, place }) => copy(served, httpRequest, place),
  MOVE: ({ served, httpRequest, place }) => move(served, httpRequest, place),
  PROPPATCH: ({ served, httpRequest, place }) => patchProperties(served, httpRequest, place),
  LOCK: ({ served, httpRequest, place }) => lockPath(served, httpRequest, place),
  UNLOCK: ({ served, httpRequest, place }) => unlockPath(served, httpRequest, place),
}

/** The tenant for the budgets of memory. A handler serves one session, so all its clients share them. */
const tenant = 'webdav'

/** Serves the files of a session over WebDAV. */
export class WebdavRequests {
  readonly limits: HttpLimits
  readonly #options: ReturnType<typeof parseOptions>
  readonly #write: boolean
  readonly #allow: string
  readonly #served: Served
  readonly #shared: Shared
  readonly #checkHost: ReturnType<typeof hostGuard>
  readonly #checkOrigin: ReturnType<typeof originGuard>

  constructor(files: Files, options: ReturnType<typeof parseOptions>, write: boolean) {
    this.#options = options
    this.limits = options.limits
    this.#write = write
    this.#allow = (write ? ['OPTIONS', ...Object.keys(methods)] : readMethods).join(', ')
    this.#served = { files, locks: new Locks(() => performance.now()), prefix: options.prefix }
    this.#shared = createShared(options.limits)
    this.#checkHost = hostGuard(options.allowedHosts)
    this.#checkOrigin = originGuard(options.allowedOrigins)
  }

  async handle(httpRequest: HttpRequest): Promise<HttpResponse> {
    let httpResponse: HttpResponse
    try {
      checkSingle(httpRequest)
      this.#checkHost(httpRequest)
      this.#checkOrigin(httpRequest)
      await callerOfBasic(httpRequest, this.#options.authenticate)
      httpResponse = await this.#answer(httpRequest)
    } catch (error) {
      if (!(error instanceof DavError)) this.report(error)
      httpResponse = errorResponse(error)
    }
    return httpRequest.method === 'HEAD' ? { ...httpResponse, headersOnly: true } : httpResponse
  }

  /** Logs a defect. A response that ends early, because the session was deleted, is none. */
  report(error: unknown): void {
    if (!isDefect(error)) return
    attempt(() =>
      this.#options.log({ level: 'error', message: 'a WebDAV request failed', details: {}, error }),
    )
  }

  async #answer(httpRequest: HttpRequest): Promise<HttpResponse> {
    const { method: name, target } = httpRequest
    if (name === 'OPTIONS') return optionsResponse(this.#allow, this.#write)
    const method = Object.hasOwn(methods, name) ? methods[name] : undefined
    if (method === undefined)
      throw new HttpError(
        'METHOD_NOT_ALLOWED',
        'the server does not have this method',
        {},
        { allow: this.#allow },
      )
    if (!this.#write && !readMethods.includes(name))
      throw new EngineError(
        'PERMISSION_DENIED',
        'this server only reads; the option write of webdavHandler, or the flag --write of forkspace mount, allows changes',
      )
    const place = placeOf(target, this.#options.prefix)
    const slot = new Slot(this.#shared, tenant)
    try {
      const { limits } = this
      const httpResponse = await method({
        served: this.#served,
        httpRequest,
        place,
        allow: this.#allow,
        slot,
        limits,
      })
      if (typeof httpResponse.body !== 'string') return { ...httpResponse, sent: () => slot.release() }
      slot.release()
      return httpResponse
    } catch (error) {
      slot.release()
      throw error
    }
  }
}
