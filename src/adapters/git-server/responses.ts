import { Buffer } from 'node:buffer'
import { failureOf, type HttpResponse, type ResponseStream } from '../http/parts.js'
import { packet } from '../git/parts.js'
import { gitServerLimits } from './limits.js'

const common = { 'cache-control': 'no-cache, no-store', 'x-content-type-options': 'nosniff' } as const

/** git shows the text of a failed request to its user. */
export function errorResponse(error: unknown): HttpResponse {
  const { http, headers } = failureOf(error)
  const challenge = http === 401 ? { 'www-authenticate': 'Basic realm="forkspace", charset="UTF-8"' } : {}
  const body = `${textOf(error)}\n`
  return {
    status: http,
    headers: { 'content-type': 'text/plain; charset=utf-8', ...common, ...headers, ...challenge },
    body,
    length: Buffer.byteLength(body),
  }
}

/** The message of an error with its reason, in one line. */
export function textOf(error: unknown): string {
  const { status } = failureOf(error)
  const reason = status.details[0]?.reason ?? 'INTERNAL'
  return `${status.message.replaceAll(/\s+/g, ' ')} (${reason})`
}

/** A packet that ends the conversation with an error. */
export function errorPacket(error: unknown): Buffer {
  return packet(`ERR ${textOf(error)}\n`)
}

export function gitResponse(type: string, body: Uint8Array): HttpResponse {
  return { status: 200, headers: headersOf(type), body, length: body.length }
}

export function gitStream(type: string, body: ResponseStream, sent: () => void): HttpResponse {
  return { status: 200, headers: headersOf(type), body, length: 0, sent }
}

function headersOf(type: string): Readonly<Record<string, string>> {
  return { 'content-type': `application/x-${type}`, ...common }
}

/** Sends pieces as they are read, and gathers small ones. Reading stops when the client does not take them. */
export class PieceStream implements ResponseStream {
  readonly #pieces: AsyncGenerator<Buffer, void>
  readonly #sent: (bytes: number) => void

  constructor(pieces: AsyncGenerator<Buffer, void>, sent: (bytes: number) => void) {
    this.#pieces = pieces
    this.#sent = sent
  }

  async next(): Promise<Uint8Array | undefined> {
    const parts: Buffer[] = []
    for (let bytes = 0; bytes < gitServerLimits.pieceBytes;) {
      const { done, value } = await this.#pieces.next()
      if (done === true) break
      parts.push(value)
      bytes += value.length
    }
    if (parts.length === 0) return undefined
    const piece = Buffer.concat(parts)
    this.#sent(piece.length)
    return piece
  }

  cancel(): void {
    this.#pieces.return().catch(() => undefined)
  }
}
