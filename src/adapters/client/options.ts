import { invalid, Shape } from '../../engine/client-contract.js'
import { kindOf } from './kind-of.js'
import { clientLimits } from './limits.js'

/** Options of {@link connect}. */
export interface ClientOptions {
  /** The URL of the server with its prefix, if any, but without `/v1`, such as `http://127.0.0.1:4000`. */
  readonly baseUrl: string | URL
  /** The bearer token. A function is called for each request. */
  readonly token: string | (() => string | Promise<string>)
  /** Sends the requests. The global `fetch` by default. */
  readonly fetch?: typeof globalThis.fetch
  /** Ends all requests and subscriptions of this client with its reason. */
  readonly signal?: AbortSignal
  /**
   * Milliseconds from a request to the end of its response. A slower request fails with `DEADLINE_EXCEEDED`,
   * but the server may still execute it. No timeout by default. Waits for locks and open subscriptions have
   * no timeout.
   */
  readonly timeoutMs?: number
  /** Milliseconds for which a lost subscription tries to reconnect; 60,000 by default. */
  readonly reconnectMs?: number
  /** Additional headers of each request; none by default. */
  readonly headers?: Readonly<Record<string, string>>
}

const optionsShape = new Shape<ClientOptions>({
  baseUrl: true,
  token: true,
  fetch: true,
  signal: true,
  timeoutMs: true,
  reconnectMs: true,
  headers: true,
})

export interface Settings {
  /** The URL without a trailing slash. */
  readonly baseUrl: string
  readonly token: () => string | Promise<string>
  readonly fetch: typeof globalThis.fetch
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number | undefined
  readonly reconnectMs: number
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Returns the token.
 *
 * @throws EngineError `INVALID_ARGUMENT` if a header cannot carry the token. The error does not contain the
 * token.
 */
export function checkToken(token: string): string {
  if (typeof token !== 'string' || !/^[\x21-\x7e]*$/.test(token))
    throw invalid('token', 'must consist of visible ASCII characters')
  return token
}

/** @throws EngineError `INVALID_ARGUMENT` */
export function parseOptions(options: ClientOptions): Settings {
  const {
    baseUrl,
    token,
    fetch = globalThis.fetch,
    signal,
    timeoutMs,
    reconnectMs = clientLimits.reconnectMs,
    headers = {},
  } = optionsShape.read(options, 'options')
  if (typeof fetch !== 'function') throw invalid('fetch', `must be a function; its type is ${typeof fetch}`)
  if (typeof token !== 'string' && typeof token !== 'function')
    throw invalid('token', `must be a string or a function; its type is ${typeof token}`)
  if (typeof token === 'string') checkToken(token)
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0))
    throw invalid('timeoutMs', `must be a number above 0; it is ${shown(timeoutMs)}`)
  if (!(typeof reconnectMs === 'number' && reconnectMs >= 0))
    throw invalid('reconnectMs', `must be a number from 0; it is ${shown(reconnectMs)}`)
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalid('signal', 'must be an AbortSignal')
  return {
    baseUrl: parseBaseUrl(baseUrl),
    token: typeof token === 'string' ? () => token : token,
    // In a browser, fetch throws if it is called as a method of an object other than the window.
    fetch: (...request) => fetch(...request),
    signal,
    timeoutMs,
    reconnectMs,
    headers: { ...headers },
  }
}

/** A wrong value for an error. */
function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  return typeof value === 'number' ? String(value) : kindOf(value)
}

function parseBaseUrl(baseUrl: string | URL): string {
  let url: URL
  try {
    url = new URL(baseUrl)
  } catch {
    throw invalid('baseUrl', `must be a URL, such as "http://127.0.0.1:8080"; it is ${shown(baseUrl)}`)
  }
  if (!/^https?:$/.test(url.protocol))
    throw invalid('baseUrl', `must be an http or https URL; its protocol is ${url.protocol}`)
  if (url.username !== '' || url.password !== '') throw invalid('baseUrl', 'must not contain credentials')
  if (url.search !== '' || url.hash !== '') throw invalid('baseUrl', 'must not have a query or fragment')
  return url.href.replace(/\/+$/, '')
}
