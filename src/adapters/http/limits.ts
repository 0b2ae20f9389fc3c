/** Limits of a handler. Each can be set. Sizes are in bytes, times in milliseconds. */
export interface HttpLimits {
  /**
   * Size of a JSON body; 16 MiB by default. It does not apply to the content routes, which accept larger
   * contents and have no size limit of their own.
   */
  readonly bodyBytes: number
  /**
   * Total size of the bodies of all requests that are being read or executed; 1 GiB by default. The body of an import
   * counts until its job has ended. An uploaded zip or git bundle counts too, but not a tar, which is read as it arrives.
   * A tenant gets at most seven eighths of the bytes that the other tenants do not hold.
   */
  readonly allBodyBytes: number
  /** Size of the file content or the cache values in a response, before base64; 16 MiB by default. */
  readonly responseContentBytes: number
  /**
   * Total size of the responses that are being prepared or sent, and of the contents that are being uploaded;
   * 256 MiB by default. A request that compares, merges, edits or searches texts counts as 32 MiB. A request whose
   * response may be large waits up to `requestMs` for a share. After its
   * first response, a tenant gets at most half of the bytes that the other tenants do not hold. Its uploads count as
   * those of another tenant.
   */
  readonly allResponseBytes: number
  /**
   * Concurrent requests, from the headers to the last byte of the response; 10,000 by default. Streams and
   * waiting requests count. A tenant gets at most seven eighths of the requests that the other tenants do not hold.
   */
  readonly concurrentRequests: number
  /**
   * Unanswered requests of one connection; 32 by default. They are executed in order. One more request closes
   * the connection.
   */
  readonly requestsPerConnection: number
  /**
   * Time from the last byte of a request to its response; 60,000 by default. After this time, the client gets
   * `DEADLINE_EXCEEDED`, but the operation continues, unless it is a search. The limit does not apply to streams and waits for
   * locks.
   */
  readonly requestMs: number
  /** The longest wait for a lock. 0, the default, means as long as the client stays connected. */
  readonly lockWaitMs: number
  /** How long a subscriber may leave a stream unread after its send buffer is full; 30,000 by default. */
  readonly stalledStreamMs: number
  /**
   * How long a client may take to receive 512 KiB of a response; 30,000 by default. A slower client's
   * connection is closed.
   */
  readonly stalledResponseMs: number
  /**
   * How long a client may take to send 512 KiB of an upload; 30,000 by default. Only time during which the
   * server waits for bytes counts.
   */
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

/**
 * Limits of the JSON in a body. They cannot be set, because they keep a request from blocking the event loop.
 */
export const jsonLimits = {
  depth: 64,
  /** Objects and arrays. */
  containers: 250_000,
  commas: 500_000,
  /** The number of different pairs of adjacent names in objects. */
  nameSequences: 2000,
  /**
   * The number of leading bytes of a name that are compared. Names of the same length count as equal if these
   * bytes are equal.
   */
  hashedNameBytes: 256,
  /** A body larger than this is decoded in slices. */
  atOnceBytes: 128 * 1024,
  /** A list longer than this is decoded and encoded element by element. */
  stepElements: 500,
  /** Elements of a long list that are encoded, or decoded, in one step. */
  groupElements: 50,
  decodedElements: 100,
  /** Base64 from this many characters on is joined as bytes. A string would be copied once more. */
  joinedAsBytes: 1024,
  /** Characters of the name or the fault of a field that an error repeats. */
  shownLength: 200,
} as const

/**
 * The size of the pieces in which a response is sent. The stall timeouts apply per this many bytes, in both
 * directions.
 */
export const pieceBytes = 512 * 1024

/**
 * The bytes that one upload (`in`) or download (`out`) through a content route takes from `allResponseBytes`.
 */
export const contentBytes = { in: 8 * 2 ** 20, out: 2 * 2 ** 20 } as const

/**
 * After it refuses a request, the server reads up to this many more bytes for this long, so that the client
 * receives the response.
 */
export const lingering = { bytes: 8 * 2 ** 20, ms: 1000 } as const

/** Bounds of the work of a handler. They cannot be set. Sizes are in bytes, times in milliseconds. */
export const handlerLimits = {
  /** A tenant may hold this part of `allBodyBytes` and `concurrentRequests`, of the amount that the others do not hold. */
  tenantShare: 7 / 8,
  /** The size of an entry with a long path. A response with a list reserves it for each entry. */
  entryBytes: 4096,
  /** The strings of a response that need no bytes of `allResponseBytes` before they are encoded. */
  unreservedBytes: 64 * 1024,
  /** The most bytes in UTF-8 that JSON takes for a UTF-16 unit of a string. */
  unitBytes: 6,
  /**
   * The part of `allResponseBytes` that a response reserves at most after its size is known. The uploads of the same tenant
   * may hold another half, and other tenants need the rest.
   */
  mostReserved: 1 / 4,
  /** The usual memory of an operation on the whole texts of large files. It is reserved like a response. */
  textWorkBytes: 32 * 2 ** 20,
  /** The first buffer for a body. It doubles as the body arrives. */
  firstBodyBytes: 64 * 1024,
  /** A piece of a stream with this many bytes gets no more lines. */
  streamPieceBytes: 64 * 1024,
  /** The fields of a message in a stream, except for its payload. */
  lineBytes: 4096,
  /** The fields of a change in a stream, except for its path. */
  changeBytes: 64,
  /** The longest time between two looks for requests over their deadline. */
  deadlineLookMs: 1000,
  /** Scopes of callers that are remembered. */
  scopes: 1000,
} as const

/** Defaults of the options of `serve`, and bounds of a server that cannot be set. Times are in milliseconds. */
export const serverLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveMs: 10_000,
  /** Silence of a connection after which the operating system asks whether its client still exists. */
  probeMs: 60_000,
  /** Bytes of the headers of a request. */
  headerBytes: 16 * 1024,
  /** Open connections. */
  connections: 10_000,
  /** Default of the option `timeoutMs` of `server.close`. */
  closeMs: 10_000,
  /** Time between two looks for connections whose headers are late. */
  checkMs: 1000,
} as const

/** The largest values of the options of `serve`, and of all times in the limits of a handler. */
export const mostServer = {
  headerBytes: 2 ** 30,
  connections: 2 ** 30,
  /** A week. A timer of Node ends at once if it is longer than 24 days. */
  ms: 7 * 24 * 3_600_000,
} as const
