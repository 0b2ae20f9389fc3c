import { Buffer } from 'node:buffer'
import { markHeaders } from './event-marks.js'
import type { HttpResponse, ResponseStream } from './http-messages.js'
import { failureOf } from '../http-error.js'

const common = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const
const jsonHeaders = { 'content-type': 'application/json', ...common } as const
const streamHeaders = { 'content-type': 'application/x-ndjson', ...common } as const

export function jsonResponse(body: string | Uint8Array, sent?: () => void): HttpResponse {
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
  const httpResponse = { status: 200, headers: jsonHeaders, body, length }
  return sent === undefined ? httpResponse : Object.assign(httpResponse, { sent })
}

export function isStream(body: HttpResponse['body']): body is ResponseStream {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}

export function streamResponse(
  body: ResponseStream,
  headers: Readonly<Record<string, string>>,
): HttpResponse {
  return { status: 200, headers: { ...streamHeaders, ...headers }, body, length: 0 }
}

/**
 * Creates a response with a part of a file. `sent` is called once, after the part was sent or when it cannot
 * be sent.
 */
export function contentResponse(
  { length, sizeBytes }: { readonly length: number; readonly sizeBytes: number },
  sent: () => void,
  body: ResponseStream,
): HttpResponse {
  const headers = {
    'content-type': 'application/octet-stream',
    'content-length': String(length),
    'forkspace-size-bytes': String(sizeBytes),
    ...common,
  }
  return { status: 200, headers, body, length, sent }
}

/** The response to a health probe, which needs no token and no allowed host name. */
export function healthResponse(method: string): HttpResponse {
  const headers = { 'content-type': 'text/plain', ...common }
  const httpResponse = { status: 200, headers, body: 'ok\n', length: 3 }
  return method === 'HEAD' ? { ...httpResponse, headersOnly: true } : httpResponse
}

export function errorResponse(error: unknown): HttpResponse {
  const { http, status, headers } = failureOf(error)
  const body = JSON.stringify(status)
  return { status: http, headers: { ...jsonHeaders, ...headers }, body, length: Buffer.byteLength(body) }
}

/** The response to OPTIONS, with the methods of a path. */
export function methodsResponse(methods: readonly string[]): HttpResponse {
  return { status: 204, headers: { ...common, allow: allowHeader(methods) }, body: '', length: 0 }
}

export function allowHeader(methods: readonly string[]): string {
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
}

/** The response to the preflight request of a browser whose web page has an allowed origin. */
export function preflightResponse(): HttpResponse {
  const headers = {
    ...common,
    'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': ['authorization', 'content-type', ...markHeaders].join(', '),
  }
  return { status: 204, headers, body: '', length: 0 }
}
