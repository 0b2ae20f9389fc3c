import { GitRemoteHTTP } from 'isomorphic-git/managers'
import type { HttpClient as IsomorphicHttpClient } from 'isomorphic-git'
import { EngineError } from '../../../engine/ports.js'
import type { Authentication, Credentials } from './authentication.js'
import type { HttpClient, HttpRequest } from './http-client.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from '../objects/object-id.js'
import { boundTalk, flushPacket, packet, PacketReader, type Packet } from './pkt-line.js'
import { cleanRemoteText, remoteError, statusError } from './remote-errors.js'

export type Service = 'git-upload-pack' | 'git-receive-pack'

/** The capabilities that a remote sends before the first command. In version 1, the refs are included. */
export type Advertisement =
  | {
      readonly version: 2
      readonly format: ObjectFormat
      readonly capabilities: ReadonlyMap<string, string>
    }
  | {
      readonly version: 1
      readonly format: ObjectFormat
      readonly capabilities: ReadonlySet<string>
      readonly refs: ReadonlyMap<string, string>
      readonly symrefs: ReadonlyMap<string, string>
    }

/** A connection to one service of a remote, ready for commands. */
export interface SmartConnection {
  readonly advertisement: Advertisement
  /** Sends one request and returns the answer as a stream. */
  post(body: readonly Uint8Array[]): Promise<AsyncIterable<Uint8Array>>
}

export interface ConnectOptions {
  readonly url: string
  readonly http: HttpClient
  readonly service: Service
  readonly authentication: Authentication
  readonly signal: AbortSignal
}

/**
 * Discovers the service with isomorphic-git's transport. If the remote asks for credentials and none were
 * sent, the transport requests them once. Failures are EngineErrors, except the errors of the credentials
 * hook, which are rethrown unchanged. An abort throws its reason.
 */
export async function connect(options: ConnectOptions): Promise<SmartConnection> {
  const { url, http, service, authentication, signal } = options
  let sent = await authentication.atStart(signal)
  let failure: { readonly error: unknown } | undefined
  const askCredentials = async (): Promise<object | undefined> => {
    if (sent !== undefined) return undefined
    try {
      return (sent = await authentication.whenAsked(signal))
    } catch (error) {
      failure = { error }
      return { cancel: true }
    }
  }
  const client = {
    request: (request: Omit<HttpRequest, 'signal'>) =>
      checkedAdvertisement(http, { ...request, signal }, (error) => {
        failure = { error }
      }),
  } as unknown as IsomorphicHttpClient
  const explain = (error: unknown): unknown => {
    if (signal.aborted) return signal.reason
    return failure === undefined ? explainError(error, sent !== undefined) : failure.error
  }

  let found: Discovered
  try {
    found = (await GitRemoteHTTP.discover({
      http: client,
      url,
      service,
      // A new object each time, because the transport changes it.
      headers: sent === undefined ? {} : { Authorization: basicAuthorization(sent) },
      onAuth: askCredentials,
      protocolVersion: service === 'git-upload-pack' ? 2 : 1,
    })) as Discovered
    if (failure !== undefined) throw explain(undefined)
  } catch (error) {
    throw explain(error)
  }
  const advertisement = readAdvertisement(found)
  const protocol: Record<string, string> = advertisement.version === 2 ? { 'Git-Protocol': 'version=2' } : {}
  return {
    advertisement,
    async post(body) {
      try {
        const response = await GitRemoteHTTP.connect({
          http: client,
          url,
          service,
          auth: sent ?? {},
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

function basicAuthorization({ username, password }: Credentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** The result of isomorphic-git for a discovered remote. Only an empty remote lacks a version. */
interface Discovered {
  readonly protocolVersion?: 1 | 2
  readonly capabilities2?: Readonly<Record<string, string | true>>
  readonly capabilities?: ReadonlySet<string>
  readonly refs?: ReadonlyMap<string, string>
  readonly symrefs?: ReadonlyMap<string, string>
}

function readAdvertisement(found: Discovered): Advertisement {
  if (found.protocolVersion === 2) {
    const entries = Object.entries(found.capabilities2 ?? {})
    const capabilities = new Map(entries.map(([key, value]) => [key, value === true ? '' : value]))
    return { version: 2, format: objectFormat(capabilities.get('object-format')), capabilities }
  }
  const capabilities = found.capabilities ?? new Set<string>()
  const named = [...capabilities].find((capability) => capability.startsWith('object-format='))
  return {
    version: 1,
    format: objectFormat(named?.slice(14)),
    capabilities,
    refs: found.refs ?? new Map(),
    symrefs: found.symrefs ?? new Map(),
  }
}

function objectFormat(name: string | undefined): ObjectFormat {
  if (name === undefined || name === 'sha1') return 'sha1'
  if (name === 'sha256') return name
  throw new EngineError(
    'GIT_NOT_A_REPOSITORY',
    `repositories with the object format ${cleanRemoteText(name)} are not supported`,
  )
}

/** The response of a remote to the discovery, checked. `fail` gets an error that ends its body early. */
async function checkedAdvertisement(
  http: HttpClient,
  request: HttpRequest,
  fail: (error: unknown) => void,
): ReturnType<HttpClient['request']> {
  const response = await http.request(request)
  if (request.method !== 'GET' || response.statusCode !== 200) return response
  if (!/^application\/x-git-.*-advertisement$/.test(response.headers?.['content-type'] ?? ''))
    throw notARepository()
  return { ...response, body: checkedPackets(response.body as AsyncIterable<Uint8Array>, fail) }
}

/**
 * Checks the list of refs while isomorphic-git reads it. By itself, isomorphic-git would take a broken list for a
 * shorter one. The packet `version 1` is left out, because isomorphic-git does not support it.
 */
async function* checkedPackets(
  body: AsyncIterable<Uint8Array>,
  fail: (error: unknown) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  let last: Packet | undefined
  const broken = (): EngineError =>
    last === undefined
      ? notARepository()
      : new EngineError('GIT_CORRUPT', 'the remote sent an incomplete or malformed list of refs')
  const reader = new PacketReader(body, broken)
  const [talk, capabilities] = [boundTalk(), boundTalk(gitLimits.capabilityBytes)]
  let isVersionTwo = false
  try {
    for (;;) {
      const line = await reader.read()
      if (line === undefined && last === 'flush') return
      if (line === undefined) throw broken()
      last = line
      const bytes = typeof line === 'string' ? flushPacket : packet(line)
      const text = bytes.toString('latin1', 4)
      isVersionTwo ||= text.includes('version 2')
      const bound = isVersionTwo ? capabilities : talk
      bound(line)
      if (text.startsWith('ERR ')) throw remoteError(bytes.toString('utf8', 8))
      if (text !== 'version 1\n') yield bytes
    }
  } catch (error) {
    fail(error)
  }
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
  const message = 'there is no git repository at this address; check the URL'
  return new EngineError('GIT_NOT_A_REPOSITORY', message, {}, { cause })
}
