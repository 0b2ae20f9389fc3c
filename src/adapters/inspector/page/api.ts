import { signal } from '@preact/signals'
import { pageLimits } from './limits.js'
import { decoded } from './route.js'
import type { PageInfo } from './wire.js'

/** An error of the server, or of the connection to it. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly reason: string

  constructor(status: number, reason: string, message: string) {
    super(message)
    this.status = status
    this.reason = reason
  }
}

type Query = Readonly<Record<string, string | number | undefined>>

interface CallOptions {
  readonly method?: 'GET' | 'POST' | 'PATCH'
  readonly query?: Query
  readonly body?: unknown
  readonly signal?: AbortSignal
}

const kept = 'forkspace-token'

/** Whether the page needs a token from its user. */
export const needsToken = signal(false)
/** What the page may do, once it is known. */
export const info = signal<PageInfo | undefined>(undefined)

let token = sessionStorage.getItem(kept) ?? ''

/**
 * Takes the token out of the fragment, so that it stays neither in the address bar nor in the history.
 *
 * @returns whether it is another token than before
 */
export function takeToken(): boolean {
  const found = /^#token=([^&]+)&?(.*)$/.exec(location.hash)
  if (found === null) return false
  const before = token
  useToken(decoded(found[1] ?? ''))
  history.replaceState(null, '', `#${found[2] ?? ''}`)
  return token !== before
}

/** Uses a token for all further requests of this tab. */
export function useToken(given: string): void {
  token = given.trim()
  sessionStorage.setItem(kept, token)
  needsToken.value = false
}

/** Calls an operation and returns its answer. */
export async function call<Answer>(path: string, options: CallOptions = {}): Promise<Answer> {
  const free = await slots.take(options.signal)
  try {
    const response = await send(path, options)
    return (await response.json()) as Answer
  } finally {
    free()
  }
}

/** The items of a stream of JSON lines. */
export async function* stream<Item>(
  path: string,
  query: Query,
  signal: AbortSignal,
  method: 'GET' | 'POST' = 'GET',
): AsyncGenerator<Item> {
  const response = await send(path, { method, query, signal })
  if (response.body === null) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (let next; !(next = await reader.read()).done;) {
      const lines = (rest + next.value).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') yield JSON.parse(line) as Item
    }
  } finally {
    // Otherwise a stream that is left early would keep its connection.
    reader.cancel().catch(() => undefined)
  }
}

/** All entries of a listing in pages, up to a number. */
export async function* pages<Page extends { readonly nextPageToken: string }>(
  path: string,
  options: CallOptions = {},
): AsyncGenerator<Page> {
  for (let pageToken = ''; ;) {
    const paged =
      options.method === 'POST'
        ? { ...options, body: { ...(options.body as object), pageToken } }
        : { ...options, query: { ...options.query, pageToken } }
    const page = await call<Page>(path, paged)
    yield page
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

async function send(
  path: string,
  { method = 'GET', query = {}, body, signal }: CallOptions,
): Promise<Response> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const text = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join('&')
  let response: Response
  try {
    response = await fetch(`.${path}${text === '' ? '' : `?${text}`}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
      cache: 'no-store',
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw new ApiError(0, 'UNREACHABLE', 'The inspector does not answer. Is it still running?')
  }
  if (response.ok) return response
  throw await errorOf(response)
}

async function errorOf(response: Response): Promise<ApiError> {
  if (response.status === 401) needsToken.value = true
  const status = (await response.json().catch(() => ({}))) as {
    readonly message?: string
    readonly details?: readonly { readonly reason?: string }[]
  }
  return new ApiError(
    response.status,
    status.details?.[0]?.reason ?? 'UNKNOWN',
    status.message ?? `The inspector answered with status ${response.status}.`,
  )
}

/** Few requests at once, in order, so that a stream always has a connection. */
class Slots {
  #free = pageLimits.requests
  readonly #waiting: (() => void)[] = []

  async take(signal: AbortSignal | undefined): Promise<() => void> {
    if (this.#free === 0) await new Promise<void>((go) => this.#waiting.push(go))
    else this.#free--
    if (signal?.aborted === true) {
      this.#give()
      throw signal.reason
    }
    return () => this.#give()
  }

  #give(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free++
    else next()
  }
}

const slots = new Slots()

/** The path of a session's operation. */
export function ofSession(id: string, rest = ''): string {
  return `/v1/sessions/${encodeURIComponent(id)}${rest}`
}

/** A message for people. */
export function messageOf(error: unknown): string {
  return error instanceof ApiError ? `${error.message} (${error.reason})` : String(error)
}

/** The bytes of base64. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let index = 0; index < text.length; index++) bytes[index] = text.charCodeAt(index)
  return bytes
}
