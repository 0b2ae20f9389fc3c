/** Bounds of what a handler takes and gives; each can be set. Sizes are bytes, times milliseconds. */
export interface HttpLimits {
  /** A body of JSON. Larger contents go through the content routes, which have no limit of their own. */
  readonly bodyBytes: number
  /** The bodies of all requests that are being read or carried out, together. */
  readonly allBodyBytes: number
  /** What the content of a file or the values of a response may have, before they become base64. */
  readonly responseContentBytes: number
  /**
   * The responses that are being made or sent, and the contents that are being uploaded, together. A request whose response may be large waits for room, up to
   * `requestMs`. One tenant holds at most half of what the others have left, beyond its first response.
   */
  readonly allResponseBytes: number
  /** Requests at once, from their heads to the last bytes of their responses; streams and waiting ones included. */
  readonly concurrentRequests: number
  /** Requests of one connection that are not answered. They are carried out one after the other; one more ends it. */
  readonly requestsPerConnection: number
  /** From the last byte of a request to its response; the work goes on after it. Streams and waits for locks have none. */
  readonly requestMs: number
  /** The longest wait for a lock; 0: as long as the client stays. */
  readonly lockWaitMs: number
  /** How long a subscriber may leave a stream unread, once what may wait for it is full. */
  readonly stalledStreamMs: number
  /** How long a client may take to receive 512 KiB of a response; then its connection is closed. */
  readonly stalledResponseMs: number
  /** How long a client may take to send 512 KiB of an uploaded content, while the service waits for them. */
  readonly stalledUploadMs: number
}

export const defaultHttpLimits: HttpLimits = {
  bodyBytes: 16 * 2 ** 20,
  allBodyBytes: 2 ** 30,
  responseContentBytes: 16 * 2 ** 20,
  allResponseBytes: 256 * 2 ** 20,
  concurrentRequests: 10_000,
  requestsPerConnection: 32,
  requestMs: 60_000,
  lockWaitMs: 0,
  stalledStreamMs: 30_000,
  stalledResponseMs: 30_000,
  stalledUploadMs: 30_000,
}

/** Bounds of the JSON in a body. They are fixed, because they keep the event loop free. */
export const jsonLimits = {
  depth: 64,
  /** Objects and lists. */
  containers: 250_000,
  commas: 500_000,
  /** Pairs of names that follow each other in an object. */
  nameSequences: 2000,
  /** Bytes of a name that tell it from others of the same length. */
  hashedNameBytes: 256,
  /** A larger body is decoded in slices. */
  atOnceBytes: 128 * 1024,
  /** A longer list is decoded, or encoded, element by element. */
  stepElements: 500,
} as const

/** A response is sent in pieces of this size. The client has to take each of them in time, and to send as much. */
export const pieceBytes = 512 * 1024

/** The memory that a content on its way through a content route is counted with, in each direction. */
export const contentBytes = { in: 8 * 2 ** 20, out: 2 * 2 ** 20 } as const

/** What is read from a client after its request was refused, so that it can receive the answer. */
export const lingering = { bytes: 8 * 2 ** 20, ms: 1000 } as const
