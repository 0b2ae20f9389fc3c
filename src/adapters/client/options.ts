import { invalid, Shape } from '../../engine/client-contract.js'

export interface ClientOptions {
  /** Where the interface is, without its `/v1`: `http://127.0.0.1:4000`, or with the server's prefix. */
  readonly baseUrl: string | URL
  /** Sent with each request; a function is asked before each one. */
  readonly token: string | (() => string | Promise<string>)
  /** What sends requests; the global one by default. */
  readonly fetch?: typeof globalThis.fetch
  /** Ends everything of this client, with its reason. */
  readonly signal?: AbortSignal
  /**
   * Milliseconds from a request to the end of its answer; then it is DEADLINE_EXCEEDED, and what it asked for may
   * happen even so. None by default. It bounds neither waits for locks nor open subscriptions.
   */
  readonly timeoutMs?: number
  /** Milliseconds for which a lost subscription is tried again; a minute by default. */
  readonly reconnectMs?: number
  /** Further headers of each request. */
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
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly token: () => string | Promise<string>
  readonly fetch: typeof globalThis.fetch
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number | undefined
  readonly reconnectMs: number
  readonly headers: Readonly<Record<string, string>>
}

/** INVALID_ARGUMENT for what no header can carry. The token is not repeated. */
export function checkToken(token: string): string {
  if (typeof token !== 'string' || !/^[\x21-\x7e]*$/.test(token))
    throw invalid('token', 'must consist of visible characters of ASCII')
  return token
}

/** INVALID_ARGUMENT. */
export function parseOptions(options: ClientOptions): Settings {
  const {
    baseUrl,
    token,
    fetch = globalThis.fetch,
    signal,
    timeoutMs,
    reconnectMs = 60_000,
    headers = {},
  } = optionsShape.read(options, 'options')
  if (typeof fetch !== 'function')
    throw invalid('fetch', `must be a function; it is of the type ${typeof fetch}`)
  if (typeof token !== 'string' && typeof token !== 'function')
    throw invalid('token', `must be a string or a function; it is of the type ${typeof token}`)
  if (typeof token === 'string') checkToken(token)
  if (timeoutMs !== undefined && !(timeoutMs > 0))
    throw invalid('timeoutMs', `must be a number above 0; it is ${String(timeoutMs)}`)
  if (!(reconnectMs >= 0))
    throw invalid('reconnectMs', `must be a number from 0; it is ${String(reconnectMs)}`)
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalid('signal', 'must be an AbortSignal')
  return {
    baseUrl: parseBaseUrl(baseUrl),
    token: typeof token === 'string' ? () => token : token,
    // Browsers want it to be called as what it is a function of.
    fetch: (...request) => fetch(...request),
    signal,
    timeoutMs,
    reconnectMs,
    headers: { ...headers },
  }
}

function parseBaseUrl(baseUrl: string | URL): string {
  let url: URL
  try {
    url = new URL(baseUrl)
  } catch {
    throw invalid(
      'baseUrl',
      `must be a URL, such as "http://127.0.0.1:8080"; it is ${JSON.stringify(String(baseUrl))}`,
    )
  }
  if (!/^https?:$/.test(url.protocol))
    throw invalid('baseUrl', `must be a URL of http or https; it is one of ${url.protocol}`)
  if (url.username !== '' || url.password !== '') throw invalid('baseUrl', 'must hold no credentials')
  if (url.search !== '' || url.hash !== '') throw invalid('baseUrl', 'must have neither query nor fragment')
  return url.href.replace(/\/+$/, '')
}
