import { given, invalid } from '../../../engine/index.js'
import type { HttpRequest } from './http-messages.js'
import { HttpError, invalidField } from '../http-error.js'
import { markHeaders } from './event-marks.js'

/** Headers that occur once. If one on which access depends is repeated, a proxy may have checked the other copy. */
const single = ['host', 'authorization', 'content-type', ...markHeaders] as const

/** @throws HttpError `INVALID_ARGUMENT` for a repeated header that must occur once. */
export function checkSingle(httpRequest: HttpRequest): void {
  for (const name of single)
    if (httpRequest.repeats(name)) throw invalidField(name, 'the header must not be repeated')
}

const hostForm = /^(\[[\da-f:.]+\]|[^:[\]/@\s]+)(?::\d{1,5})?$/i

/** Whether a text can be an entry of `allowedHosts`. No request matches any other text. */
function isHostEntry(entry: string): boolean {
  return entry === '*' || (hostForm.test(entry) && !entry.includes('*'))
}

/**
 * Refuses requests for a host that is not allowed. This prevents DNS rebinding, an attack by a web page whose
 * name resolves to this server. An entry is `name` or an address for any port, `name:port` for one port, or
 * `*` for every host.
 *
 * @throws EngineError `INVALID_ARGUMENT` for an entry that no request can match
 */
export function hostGuard(
  allowed: readonly string[] | undefined,
): (httpRequest: Pick<HttpRequest, 'header' | 'target'>) => void {
  for (const [i, entry] of (allowed ?? []).entries()) {
    if (!isHostEntry(entry))
      throw invalid(
        `allowedHosts[${i}]`,
        `must be a name such as "app.example" or "app.example:8080", without https:// and without a path, an address such as "[::1]", or "*" for every host; it is ${given(entry)}`,
      )
  }
  const entries = allowed && new Set(allowed.map((entry) => entry.toLowerCase()))
  const check = (host: string | undefined): boolean => {
    const name = host === undefined ? undefined : hostForm.exec(host)?.[1]?.toLowerCase()
    if (host === undefined || name === undefined) return false
    if (entries === undefined) return isLoopback(name)
    return entries.has(name) || entries.has(host.toLowerCase()) || entries.has('*')
  }
  let known: string | undefined
  return (httpRequest) => {
    const host = httpRequest.header('host')
    if (host !== undefined && host === known && httpRequest.target.startsWith('/')) return
    const authority = /^https?:\/\/([^/?#]*)/i.exec(httpRequest.target)?.[1]
    if (!check(host) || (authority !== undefined && !check(authority)))
      throw new HttpError(
        'HOST_NOT_ALLOWED',
        'the host of the request is not in the option allowedHosts of the server',
      )
    known = host
  }
}

/** Whether browsers can send a text as an `Origin` header. Apps have schemes of their own. */
function isOrigin(text: string): boolean {
  if (text === 'null') return true
  if (/^https?:/i.test(text))
    return URL.canParse(text) && new URL(text).origin === text && !text.includes('*')
  return /^[a-z][a-z\d+.-]*:\/\/[^/?#@*\s]*$/.test(text)
}

/**
 * Refuses requests of web pages whose origin is not in the list. Returns the CORS headers for the response.
 *
 * @throws EngineError `INVALID_ARGUMENT` for an entry that no request can match
 */
export function originGuard(
  allowed: readonly string[],
): (httpRequest: HttpRequest) => Readonly<Record<string, string>> | undefined {
  for (const [i, origin] of allowed.entries()) {
    if (!isOrigin(origin))
      throw invalid(
        `allowedOrigins[${i}]`,
        `must be an origin as browsers send it, such as "https://app.example" or "http://localhost:5173": in lower case, with its scheme, and without a path; it is ${given(origin)}`,
      )
  }
  const origins = new Map(allowed.map((origin) => [origin, corsHeaders(origin)]))
  return (httpRequest) => {
    const origin = httpRequest.header('origin')
    if (origin === undefined) return undefined
    const headers = origins.get(origin)
    if (headers === undefined)
      throw new HttpError(
        'ORIGIN_NOT_ALLOWED',
        'the origin of the request is not in the option allowedOrigins of the server',
      )
    return headers
  }
}

function corsHeaders(origin: string): Readonly<Record<string, string>> {
  return {
    'access-control-allow-origin': origin,
    'access-control-expose-headers': 'forkspace-size-bytes, forkspace-starts-after',
    vary: 'origin',
  }
}

function isLoopback(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(name)
}
