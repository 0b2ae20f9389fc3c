import { HttpError } from '../http-error.js'

/** A request, through whichever door it came. */
export interface Exchange {
  readonly method: string
  /** Path and query as they were sent: nothing is decoded, no dot segment is taken out. */
  readonly target: string
  /** False where it is known that there is no body. */
  readonly hasBody: boolean
  /** By its name in lower case. */
  header(name: string): string | undefined
  /** Whether a header came more than once, as far as this can be known. By its name in lower case. */
  repeats(name: string): boolean
  /** Hands over the body in pieces. Rejects with what `take` throws, and when the client is gone; the rest is left. */
  readBody(take: (piece: Uint8Array) => void): Promise<void>
  /** The body as a stream, read as it is asked for. It fails when the client is gone. The handler need not read all of it. */
  body(): AsyncIterable<Uint8Array>
  /** Aborts when the client is gone, or when nobody is to wait any longer: its reason is for the client then. */
  signal(): AbortSignal
  /** Whether the client has left: no answer reaches it. */
  isGone(): boolean
  /** For hooks that want one; without the body. */
  request(): Request
}

/** A response, for whichever door. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | AnswerStream
  /** Bytes of a body that is no stream. */
  readonly length: number
  /** The length of the body is told, the body is not sent. */
  readonly headersOnly?: true
  /** The door calls it once, when the answer was sent or cannot be sent. */
  readonly sent?: () => void
}

export interface AnswerStream {
  /** The next piece; undefined at the end. One at a time, and only when there is room for it. */
  next(): Promise<Uint8Array | undefined>
  /** Nobody reads any more. */
  cancel(): void
}

export function clientGone(): HttpError {
  return new HttpError('UNAVAILABLE', 'the client is gone')
}
