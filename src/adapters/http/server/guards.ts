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

/**
 * Refuses requests for a host that is not allowed. This prevents DNS rebinding, an attack by a web page whose
 * name resolves to this server. An entry is `name` or an address for any port, `name:port` for one port, or
 * `*` for every host.
 */
export function hostGuard(
  allowed: readonly string[] | undefined,
): (httpRequest: Pick<HttpRequest, 'header' | 'target'>) => void {
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

/**
 * Refuses requests of web pages whose origin is not in the list. Returns the CORS headers for the response.
 */
export function originGuard(
  allowed: readonly string[],
): (httpRequest: HttpRequest) => Readonly<Record<string, string>> | undefined {
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
