import { Buffer } from 'node:buffer'
import type { Answer, AnswerStream } from './exchange.js'
import { failureOf } from '../http-error.js'

const common = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const
const jsonHeaders = { 'content-type': 'application/json', ...common } as const
const streamHeaders = { 'content-type': 'application/x-ndjson', ...common } as const

export function answerJson(body: string | Uint8Array, sent?: () => void): Answer {
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
  const answer = { status: 200, headers: jsonHeaders, body, length }
  return sent === undefined ? answer : Object.assign(answer, { sent })
}

export function isStream(body: Answer['body']): body is AnswerStream {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}

export function answerStream(body: AnswerStream, headers: Readonly<Record<string, string>>): Answer {
  return { status: 200, headers: { ...streamHeaders, ...headers }, body, length: 0 }
}

/** A part of a file. `sent` is called once, after the part was sent or when it cannot be sent. */
export function answerContent(
  { length, sizeBytes }: { readonly length: number; readonly sizeBytes: number },
  sent: () => void,
  body: AnswerStream,
): Answer {
  const headers = {
    'content-type': 'application/octet-stream',
    'content-length': String(length),
    'forkspace-size-bytes': String(sizeBytes),
    ...common,
  }
  return { status: 200, headers, body, length, sent }
}

/** For health probes. They need no token and no allowed host name. */
export function answerHealth(method: string): Answer {
  const headers = { 'content-type': 'text/plain', ...common }
  const answer = { status: 200, headers, body: 'ok\n', length: 3 }
  return method === 'HEAD' ? { ...answer, headersOnly: true } : answer
}

export function answerError(error: unknown): Answer {
  const { http, status, headers } = failureOf(error)
  const body = JSON.stringify(status)
  return { status: http, headers: { ...jsonHeaders, ...headers }, body, length: Buffer.byteLength(body) }
}

/** For OPTIONS: the methods of a path. */
export function answerMethods(methods: readonly string[]): Answer {
  return { status: 204, headers: { ...common, allow: allowHeader(methods) }, body: '', length: 0 }
}

export function allowHeader(methods: readonly string[]): string {
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ')
}

/** For the preflight request of a browser whose web page has an allowed origin. */
export function answerPreflight(): Answer {
  const headers = {
    ...common,
    'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': 'authorization, content-type',
  }
  return { status: 204, headers, body: '', length: 0 }
}
