import * as http from 'node:http'
import * as https from 'node:https'
import { pipeline } from 'node:stream'
import { createGunzip, createInflate, type Gunzip, type Inflate } from 'node:zlib'
import type { GitHttpRequest, GitHttpResponse } from 'isomorphic-git'
import { EngineError, type ReadContext } from '../../../engine/ports.js'
import { checkLiteralAddress, publicLookup } from './address-policy.js'
import { gitLimits } from '../limits.js'

export interface HttpClientOptions {
  readonly allowPrivateAddresses: boolean
  readonly idleTimeoutMs: number
  /** Measures the transfer of the job that makes the requests. */
  readonly transfer?: ReadContext['transfer']
}

export interface HttpRequest extends Omit<GitHttpRequest, 'body'> {
  readonly body?: Iterable<Uint8Array>
  readonly signal: AbortSignal
}

/**
 * Smart HTTP over node:http(s) for one operation on one repository. Every address is checked against the
 * policy, and the socket connects to exactly the checked address. This includes redirects. A redirected POST
 * stays a POST. Credentials are never sent to another origin. After a redirect has led to the repository,
 * later requests go directly to the new URL. Errors are EngineErrors; an abort throws the signal's reason.
 */
export class HttpClient {
  readonly #options: HttpClientOptions
  readonly #agents: { readonly 'http:': http.Agent; readonly 'https:': https.Agent }
  /** Maps a requested base URL to the base URL that answered after redirects. */
  readonly #moved = new Map<string, string>()

  constructor(options: HttpClientOptions) {
    this.#options = options
    // These agents are not shared, because a connection from a shared pool may lead to an unchecked address.
    const agent = {
      keepAlive: true,
      timeout: options.idleTimeoutMs,
      ...(options.allowPrivateAddresses ? {} : { lookup: publicLookup }),
    }
    this.#agents = { 'http:': new http.Agent(agent), 'https:': new https.Agent(agent) }
  }

  /** Closes all connections. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  async request(request: HttpRequest): Promise<GitHttpResponse> {
    const { method = 'GET', signal } = request
    const [base, tail] = splitUrl(request.url)
    const origin = new URL(request.url).origin
    const headers: Record<string, string> = {
      ...request.headers,
      'accept-encoding': 'gzip',
      // Some hosts answer with a web page unless the user agent starts with git/.
      'user-agent': 'git/forkspace',
    }
    const body = [...(request.body ?? [])]
    if (method === 'POST')
      headers['content-length'] = String(body.reduce((sum, part) => sum + part.length, 0))

    let url = new URL((this.#moved.get(base) ?? base) + tail)
    let isWithheld = false
    for (let redirects = 0; ; redirects++) {
      if (url.origin !== origin && headers['Authorization'] !== undefined) {
        delete headers['Authorization']
        isWithheld = true
      }
      const response = await this.#waiting(this.#send(url, { method, headers, body, signal }))
      const { statusCode = 0, headers: answered } = response.message
      if (!isRedirect(statusCode) || answered.location === undefined) {
        if (statusCode === 401 && isWithheld) {
          response.message.destroy()
          throw credentialsWithheld(url)
        }
        if (redirects > 0 && statusCode === 200) this.#rememberMove(base, url)
        return {
          url: url.href,
          method,
          statusCode,
          statusMessage: response.message.statusMessage ?? '',
          headers: flatHeaders(answered),
          // For other statuses, only the start of the body is read, and errors of that read are ignored.
          body: statusCode === 200 ? this.#body(response, method) : single(await response.beginning()),
        }
      }
      response.message.destroy()
      if (redirects === gitLimits.redirects) throw redirectError(`redirects over ${redirects} times`)
      url = redirectTarget(url, answered.location)
    }
  }

  async *#body(response: UnreadResponse, method: string): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of response.body(bodyLimit(method))) {
      // The reader of a response to a POST counts its bytes, because not all of them are content.
      if (method === 'GET') this.#options.transfer?.received(chunk.length)
      yield chunk
    }
  }

  #waiting<T>(work: Promise<T>): Promise<T> {
    const { transfer } = this.#options
    return transfer === undefined ? work : transfer.waiting(work)
  }

  #rememberMove(base: string, url: URL): void {
    const [movedBase, tail] = splitUrl(url.href)
    if (tail !== '') this.#moved.set(base, movedBase)
  }

  #send(
    url: URL,
    options: {
      method: string
      headers: Record<string, string>
      body: readonly Uint8Array[]
      signal: AbortSignal
    },
  ): Promise<UnreadResponse> {
    const { method, headers, body, signal } = options
    const protocol = url.protocol === 'https:' ? 'https:' : 'http:'
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      if (!this.#options.allowPrivateAddresses) checkLiteralAddress(url)
      const request = (protocol === 'https:' ? https : http).request(url, {
        method,
        headers,
        signal,
        agent: this.#agents[protocol],
        timeout: this.#options.idleTimeoutMs,
      })
      // Node gives a connection that waits for the next request a shorter time if the remote asked for it, and keeps
      // that time for the request.
      request.once('socket', (socket) => socket.setTimeout(this.#options.idleTimeoutMs))
      let timedOut = false
      const explain = (error: unknown): unknown => {
        if (signal.aborted) return signal.reason
        return timedOut ? timeout(url, this.#options.idleTimeoutMs) : networkError(url, error)
      }
      let answer: http.IncomingMessage | undefined
      const onSilence = (): void => {
        const { socket } = request
        if (answer === undefined || answer.readableLength === 0 || socket === null) {
          timedOut = true
          request.destroy(new Error('timeout'))
          return
        }
        // Some received bytes are still unread, so the remote is not silent. Listen again: `timeout` fires
        // only once.
        socket.once('timeout', onSilence)
        socket.setTimeout(this.#options.idleTimeoutMs)
        // The next request on this connection listens for its own timeouts.
        request.once('close', () => socket.off('timeout', onSilence))
      }
      request.on('timeout', onSilence)
      request.on('error', (error) => reject(explain(error)))
      request.on('response', (response) => {
        answer = response
        resolve(new UnreadResponse(response, explain, (work) => this.#waiting(work)))
      })
      for (const part of body) request.write(part)
      request.end()
    })
  }
}

/** A response and its unread body. */
class UnreadResponse {
  readonly message: http.IncomingMessage
  readonly #explain: (error: unknown) => unknown
  readonly #waiting: <T>(work: Promise<T>) => Promise<T>

  constructor(
    response: http.IncomingMessage,
    explain: (error: unknown) => unknown,
    waiting: <T>(work: Promise<T>) => Promise<T>,
  ) {
    this.message = response
    this.#explain = explain
    this.#waiting = waiting
  }

  /** The decoded body. Throws GIT_TOO_LARGE if it is over `limitBytes`, or too many times larger than the sent one. */
  async *body(limitBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
    let count = 0
    const decoder = this.#decoder()
    // The callback does nothing, because iterating over the decoder throws the errors of the pipeline.
    const decoded: AsyncIterable<Buffer> =
      decoder === undefined ? this.message : pipeline(this.message, decoder, () => {})
    const chunks = decoded[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await this.#waiting(chunks.next())
        if (next.done === true) return
        count += next.value.length
        if (count > limitBytes) throw tooLarge(`has over ${limitBytes} bytes`, limitBytes)
        if (decoder !== undefined) checkExpansion(count, decoder.bytesWritten)
        yield next.value
      }
    } catch (error) {
      throw this.#explain(error)
    } finally {
      await chunks.return?.()
    }
  }

  /** Returns the first bytes of the body, as many as can be read. */
  async beginning(): Promise<Uint8Array> {
    const parts: Uint8Array[] = []
    try {
      for await (const chunk of this.body(gitLimits.errorBodyBytes)) parts.push(chunk)
    } catch {
      this.message.destroy()
    }
    return Buffer.concat(parts)
  }

  #decoder(): Gunzip | Inflate | undefined {
    const encoding = this.message.headers['content-encoding']?.toLowerCase()
    if (encoding === undefined || encoding === '' || encoding === 'identity') return undefined
    return encoding === 'deflate' ? createInflate() : createGunzip()
  }
}

function checkExpansion(decoded: number, received: number): void {
  const { decodedFreeBytes, decodedBytesPerByte } = gitLimits
  if (decoded > decodedFreeBytes + decodedBytesPerByte * received)
    throw tooLarge('is too many times larger than its compressed form', decodedBytesPerByte)
}

function tooLarge(what: string, limit: number): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the response of the remote ${what}`, { limit: String(limit) })
}

async function* single(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield await Promise.resolve(bytes)
}

/** Splits a URL into the URL of the repository and the part that the smart protocol appends to it. */
function splitUrl(url: string): [base: string, tail: string] {
  const at = url.search(/\/(info\/refs\?service=git-(upload|receive)-pack|git-(upload|receive)-pack)$/)
  return at < 0 ? [url, ''] : [url.slice(0, at), url.slice(at)]
}

function bodyLimit(method: string): number {
  return method === 'GET' ? gitLimits.refsBytes : 2 * gitLimits.packBytes
}

function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 307 || status === 308
}

function redirectTarget(from: URL, location: string): URL {
  if (!URL.canParse(location, from.href)) throw redirectError('redirects to an invalid URL')
  const to = new URL(location, from)
  if (to.protocol !== 'https:' && to.protocol !== 'http:')
    throw redirectError(
      `redirects to a URL that starts with ${to.protocol}; only http and https are supported`,
    )
  if (to.protocol === 'http:' && from.protocol === 'https:')
    throw redirectError('redirects from https to http')
  to.username = ''
  to.password = ''
  return to
}

function redirectError(what: string): EngineError {
  return new EngineError('GIT_REMOTE_ERROR', `the remote ${what}`)
}

function credentialsWithheld({ origin, host }: URL): EngineError {
  return new EngineError(
    'GIT_AUTH_FAILED',
    `the remote redirects to ${origin}, which asks for credentials. They were not sent there, because it is another host: if you trust it, use its URL for the source`,
    { host },
  )
}

function flatHeaders(headers: http.IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

function timeout(url: URL, idleTimeoutMs: number): EngineError {
  return new EngineError('GIT_TIMEOUT', `${url.host} sent nothing for ${idleTimeoutMs} ms`, {
    host: url.host,
  })
}

function networkError(url: URL, error: unknown): EngineError {
  if (error instanceof EngineError) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN'
  const details = { host: url.host, errno: code }
  if (code === 'ETIMEDOUT') return new EngineError('GIT_TIMEOUT', `${url.host} does not respond`, details)
  if (code.startsWith('HPE_'))
    return new EngineError('GIT_NOT_A_REPOSITORY', `${url.host} did not respond with HTTP`, details)
  if (code.startsWith('Z_'))
    return new EngineError('GIT_CORRUPT', 'the compressed response of the remote is damaged', details)
  return new EngineError('GIT_UNREACHABLE', `the connection to ${url.host} failed: ${code}`, details, {
    cause: error,
  })
}
