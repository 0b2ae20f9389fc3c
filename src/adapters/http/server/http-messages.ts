import { HttpError } from '../http-error.js'

/** A request, independent of the server API that received it. */
export interface HttpRequest {
  readonly method: string
  /** Path and query exactly as sent: not decoded, and with dot segments. */
  readonly target: string
  /** False if the request certainly has no body. */
  readonly hasBody: boolean
  /** The value of a header. The name is in lower case. */
  header(name: string): string | undefined
  /** Whether a header occurs more than once, if the server API can report this. The name is in lower case. */
  repeats(name: string): boolean
  /**
   * Calls `take` with each piece of the body. Rejects and stops reading if `take` throws or the client
   * disconnects.
   */
  readBody(take: (piece: Uint8Array) => void): Promise<void>
  /**
   * The body as a stream, read on demand. It fails if the client disconnects. The handler need not read it to
   * its end.
   */
  body(): AsyncIterable<Uint8Array>
  /**
   * Aborts when the client disconnects or the server closes. If the server closes, the client receives the
   * reason.
   */
  signal(): AbortSignal
  /** Aborts when the client disconnects. The request goes on when the server closes. */
  gone(): AbortSignal
  /** Whether the client has disconnected, so that no response can reach it. */
  isGone(): boolean
  /** The request as an object of the Fetch API, without the body, for hooks. */
  request(): Request
}

/** A response, independent of the server API that sends it. */
export interface HttpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | ResponseStream
  /** The bytes of the body. 0 for a stream of unknown length. */
  readonly length: number
  /** If true, only the headers are sent, including the length of the body. */
  readonly headersOnly?: true
  /** Called once, when the response was sent or cannot be sent. */
  readonly sent?: () => void
}

export interface ResponseStream {
  /**
   * Resolves with the next piece, or undefined at the end. It is called only after the previous piece was
   * written.
   */
  next(): Promise<Uint8Array | undefined>
  /** Ends the stream early: `next` is not called again. */
  cancel(): void
}

export function clientGone(): HttpError {
  return new HttpError('UNAVAILABLE', 'the client closed the connection')
}
