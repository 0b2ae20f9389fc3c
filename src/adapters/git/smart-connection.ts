import { GitRemoteHTTP } from 'isomorphic-git/managers'
import type { HttpClient as IsomorphicHttpClient } from 'isomorphic-git'
import { EngineError } from '../../engine/ports.js'
import type { HttpClient, HttpRequest } from './http-client.js'
import { remoteError, statusError } from './remote-errors.js'

export interface Credentials {
  readonly username: string
  readonly password: string
}

export type Service = 'git-upload-pack' | 'git-receive-pack'

/** What a remote says of itself before the first command. */
export type Advertisement =
  | { readonly version: 2; readonly capabilities: ReadonlyMap<string, string> }
  | {
      readonly version: 1
      readonly capabilities: ReadonlySet<string>
      readonly refs: ReadonlyMap<string, string>
      readonly symrefs: ReadonlyMap<string, string>
    }

/** A service of one remote, ready to take commands. */
export interface SmartConnection {
  readonly advertisement: Advertisement
  /** Sends one request; the stream is its answer. */
  post(body: readonly Uint8Array[]): Promise<AsyncIterable<Uint8Array>>
}

export interface ConnectOptions {
  readonly url: string
  readonly http: HttpClient
  readonly service: Service
  readonly credentials: ((url: string) => Promise<Credentials | undefined>) | undefined
  readonly signal: AbortSignal
}

/**
 * Discovers the service with isomorphic-git's transport, which also asks for credentials, once, when the
 * remote wants them. Everything that can go wrong is thrown as an EngineError; an abort throws its reason.
 */
export async function connect(options: ConnectOptions): Promise<SmartConnection> {
  const { url, http, service, credentials, signal } = options
  let credentialsSent = false
  let hookFailure: { readonly error: unknown } | undefined
  const askCredentials = async (): Promise<object | undefined> => {
    try {
      const given = await credentials?.(url)
      if (given === undefined) return undefined
      credentialsSent = true
      return { username: given.username, password: given.password }
    } catch (error) {
      hookFailure = { error }
      return { cancel: true }
    }
  }
  const client = {
    request: (request: Omit<HttpRequest, 'signal'>) => wholeAdvertisement(http, { ...request, signal }),
  } as unknown as IsomorphicHttpClient
  const explain = (error: unknown): unknown => {
    if (signal.aborted) return signal.reason
    return hookFailure === undefined ? explainError(error, credentialsSent) : hookFailure.error
  }

  let found: Discovered
  try {
    found = (await GitRemoteHTTP.discover({
      http: client,
      url,
      service,
      // A new object each time: it is changed in there.
      headers: {},
      onAuth: askCredentials,
      protocolVersion: service === 'git-upload-pack' ? 2 : 1,
    })) as Discovered
  } catch (error) {
    throw explain(error)
  }
  const advertisement = readAdvertisement(found)
  checkObjectFormat(advertisement)
  const protocol: Record<string, string> = advertisement.version === 2 ? { 'Git-Protocol': 'version=2' } : {}
  return {
    advertisement,
    async post(body) {
      try {
        const response = await GitRemoteHTTP.connect({
          http: client,
          url,
          service,
          auth: found.auth,
          headers: { ...protocol },
          body,
        })
        if (response.headers?.['content-type'] !== `application/x-${service}-result`) throw notARepository()
        return response.body as AsyncIterable<Uint8Array>
      } catch (error) {
        throw explain(error)
      }
    },
  }
}

/** What isomorphic-git gives for a discovered remote; only an empty one has no version. */
interface Discovered {
  readonly protocolVersion?: 1 | 2
  readonly capabilities2?: Readonly<Record<string, string | true>>
  readonly capabilities?: ReadonlySet<string>
  readonly refs?: ReadonlyMap<string, string>
  readonly symrefs?: ReadonlyMap<string, string>
  readonly auth: object
}

function readAdvertisement(found: Discovered): Advertisement {
  if (found.protocolVersion === 2) {
    const entries = Object.entries(found.capabilities2 ?? {})
    return {
      version: 2,
      capabilities: new Map(entries.map(([key, value]) => [key, value === true ? '' : value])),
    }
  }
  return {
    version: 1,
    capabilities: found.capabilities ?? new Set(),
    refs: found.refs ?? new Map(),
    symrefs: found.symrefs ?? new Map(),
  }
}

function checkObjectFormat(advertisement: Advertisement): void {
  const sha256 =
    advertisement.version === 2
      ? (advertisement.capabilities.get('object-format') ?? 'sha1') !== 'sha1'
      : advertisement.capabilities.has('object-format=sha256')
  if (sha256) throw new EngineError('GIT_NOT_A_REPOSITORY', 'repositories with SHA-256 ids are not supported')
}

/**
 * isomorphic-git takes a broken stream for a short list of refs. So it is given the whole list, and only if
 * that ends as it must.
 */
async function wholeAdvertisement(http: HttpClient, request: HttpRequest): ReturnType<HttpClient['request']> {
  const response = await http.request(request)
  if (request.method !== 'GET' || response.statusCode !== 200) return response
  const parts: Uint8Array[] = []
  for await (const part of response.body ?? []) parts.push(part)
  const whole = Buffer.concat(parts)
  const smart = /^application\/x-git-.*-advertisement$/.test(response.headers?.['content-type'] ?? '')
  if (smart && whole.toString('latin1', 4, 8) === 'ERR ') throw remoteError(whole.toString('utf8', 8))
  if (!smart) throw notARepository()
  if (whole.toString('latin1', whole.length - 4) !== '0000') {
    throw new EngineError('GIT_CORRUPT', 'the list of refs is cut')
  }
  return { ...response, body: iterate(whole) }
}

async function* iterate(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield await Promise.resolve(bytes)
}

function explainError(error: unknown, credentialsSent: boolean): unknown {
  if (error instanceof EngineError) return error
  if (isHttpError(error)) return statusError(error.data.statusCode, credentialsSent)
  return notARepository(error)
}

function isHttpError(error: unknown): error is { readonly data: { readonly statusCode: number } } {
  return error instanceof Error && 'code' in error && error.code === 'HttpError'
}

function notARepository(cause?: unknown): EngineError {
  const message = 'what answers at this address is no git repository over smart HTTP'
  return new EngineError('GIT_NOT_A_REPOSITORY', message, {}, { cause })
}
