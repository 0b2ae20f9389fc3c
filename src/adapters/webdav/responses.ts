import { Buffer } from 'node:buffer'
import { failureOf, type HttpResponse, type ResponseStream } from '../http/parts.js'
import { DavError } from './dav-error.js'
import { webdavLimits } from './limits.js'
import { xmlHead } from './xml-text.js'

export const common = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } as const

const textType = { 'content-type': 'text/plain; charset=utf-8' } as const
const xmlType = { 'content-type': 'application/xml; charset=utf-8' } as const

/** Statuses of WebDAV for reasons whose usual status clients would take for something else. */
const statuses: Readonly<Record<string, number>> = {
  ALREADY_EXISTS: 405,
  BUDGET: 507,
  FILE_TOO_LARGE: 413,
  HASH_MISMATCH: 412,
  IS_A_DIRECTORY: 405,
  LOCK_HELD: 423,
  NAME_TOO_LONG: 414,
  NOT_A_DIRECTORY: 409,
  SYMLINK_LOOP: 409,
}

/** The response to an error. A defect has no details. */
export function errorResponse(error: unknown): HttpResponse {
  if (error instanceof DavError) {
    const { status, message, condition, headers } = error
    if (status === 304) return emptyResponse(304, headers)
    if (condition === undefined) return response(status, { ...textType, ...headers }, `${message}\n`)
    const body = `${xmlHead}<D:error xmlns:D="DAV:">${condition}</D:error>\n`
    return response(status, { ...xmlType, ...headers }, body)
  }
  const { http, headers, status } = failureOf(error)
  const reason = status.details[0]?.reason ?? 'INTERNAL'
  const challenge = http === 401 ? { 'www-authenticate': 'Basic realm="forkspace", charset="UTF-8"' } : {}
  const body = `${status.message.replaceAll(/\s+/g, ' ')} (${reason})\n`
  return response(statuses[reason] ?? http, { ...textType, ...headers, ...challenge }, body)
}

export function emptyResponse(status: number, headers: Readonly<Record<string, string>> = {}): HttpResponse {
  return { status, headers: { ...common, ...headers }, body: '', length: 0 }
}

export function xmlResponse(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): HttpResponse {
  return response(status, { ...xmlType, ...headers }, `${xmlHead}${body}`)
}

function response(status: number, headers: Readonly<Record<string, string>>, body: string): HttpResponse {
  return { status, headers: { ...common, ...headers }, body, length: Buffer.byteLength(body) }
}

/** The element `multistatus`, sent as its parts are made. */
export function multistatus(parts: AsyncGenerator<string, void>): HttpResponse {
  const whole = async function* (): AsyncGenerator<string, void> {
    yield `${xmlHead}<D:multistatus xmlns:D="DAV:">\n`
    yield* parts
    yield '</D:multistatus>\n'
  }
  return { status: 207, headers: { ...common, ...xmlType }, body: new TextStream(whole()), length: 0 }
}

/** Gathers pieces of text. */
class TextStream implements ResponseStream {
  readonly #parts: AsyncGenerator<string, void>

  constructor(parts: AsyncGenerator<string, void>) {
    this.#parts = parts
  }

  async next(): Promise<Uint8Array | undefined> {
    let text = ''
    while (text.length < webdavLimits.pieceBytes) {
      const { done, value } = await this.#parts.next()
      if (done === true) break
      text += value
    }
    return text === '' ? undefined : Buffer.from(text)
  }

  cancel(): void {
    this.#parts.return().catch(() => undefined)
  }
}

/** The bytes of a file, which are read as the client takes them. */
export class FileStream implements ResponseStream {
  readonly #pieces: AsyncIterator<Uint8Array>

  constructor(content: AsyncIterable<Uint8Array>) {
    this.#pieces = content[Symbol.asyncIterator]()
  }

  async next(): Promise<Uint8Array | undefined> {
    const { done, value } = await this.#pieces.next()
    return done === true ? undefined : value
  }

  cancel(): void {
    this.#pieces.return?.().catch(() => undefined)
  }
}
