import {
  EngineError,
  errorRegistry,
  StatusCode,
  type ErrorReason,
  type StatusName,
} from '../../engine/index.js'

/** The body of every failed request, and the last item of a stream that fails. */
export interface Status {
  readonly code: number
  readonly message: string
  readonly details: readonly ErrorInfo[]
}

interface ErrorInfo {
  readonly '@type': 'type.googleapis.com/google.rpc.ErrorInfo'
  readonly reason: string
  readonly domain: 'forkspace'
  readonly metadata: Readonly<Record<string, string>>
}

interface Row {
  readonly code: number
  readonly http: number
  readonly headers?: Readonly<Record<string, string>>
}

/** The errors of the adapter itself. Most occur before it calls the engine. */
const rows = {
  BODY_TOO_LARGE: { code: 8, http: 413 },
  DEADLINE_EXCEEDED: { code: 4, http: 504 },
  HEADERS_TOO_LARGE: { code: 3, http: 431 },
  HOST_NOT_ALLOWED: { code: 7, http: 403 },
  INVALID_ARGUMENT: { code: 3, http: 400 },
  LOCK_TIMEOUT: { code: 4, http: 504 },
  METHOD_NOT_ALLOWED: { code: 12, http: 405 },
  ORIGIN_NOT_ALLOWED: { code: 7, http: 403 },
  QUOTA: { code: 8, http: 429, headers: { 'retry-after': '1' } },
  REQUEST_TIMEOUT: { code: 4, http: 408 },
  ROUTE_NOT_FOUND: { code: 5, http: 404 },
  TOO_LARGE: { code: 3, http: 400 },
  UNAUTHENTICATED: { code: 16, http: 401, headers: { 'www-authenticate': 'Bearer' } },
  UNAVAILABLE: { code: 14, http: 503 },
  UNSUPPORTED_MEDIA_TYPE: { code: 3, http: 415 },
} as const satisfies Record<string, Row>

export type HttpReason = keyof typeof rows

/** An error of the adapter that is sent to the client. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly code: number
  readonly http: number
  readonly reason: string
  readonly metadata: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>

  constructor(
    reason: HttpReason,
    message: string,
    metadata: Readonly<Record<string, string>> = {},
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message)
    const row: Row = rows[reason]
    this.code = row.code
    this.http = row.http
    this.reason = reason
    this.metadata = metadata
    this.headers = { ...row.headers, ...headers }
  }
}

export function invalidField(field: string, message: string): HttpError {
  return new HttpError('INVALID_ARGUMENT', `${field}: ${message}`, { field })
}

/** HTTP status codes by RPC status. */
const httpCodes: Readonly<Record<StatusName, number>> = {
  INVALID_ARGUMENT: 400,
  DEADLINE_EXCEEDED: 504,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 409,
  PERMISSION_DENIED: 403,
  RESOURCE_EXHAUSTED: 429,
  FAILED_PRECONDITION: 400,
  ABORTED: 409,
  OUT_OF_RANGE: 400,
  INTERNAL: 500,
  UNAVAILABLE: 503,
  DATA_LOSS: 500,
  UNAUTHENTICATED: 401,
}

function httpOf(reason: string, status: StatusName): number {
  return reason === 'STORE_FULL' ? 507 : httpCodes[status]
}

/** Returns the HTTP status of an error with this reason, and the RPC status code in its body. */
export function statusOfReason(reason: ErrorReason | HttpReason): {
  readonly http: number
  readonly code: number
} {
  if (Object.hasOwn(rows, reason)) return rows[reason as HttpReason]
  const { code } = errorRegistry[reason as ErrorReason]
  return { http: httpOf(reason, code), code: StatusCode[code] }
}

/**
 * The response to an error. An error that comes neither from the engine nor from this adapter is a defect.
 * The response to a defect contains no details.
 */
export interface Failure {
  readonly http: number
  readonly status: Status
  readonly headers: Readonly<Record<string, string>>
}

export function failureOf(error: unknown): Failure {
  if (error instanceof HttpError) {
    const { code, http, headers, message, reason, metadata } = error
    return { http, headers, status: statusOf(code, message, reason, metadata) }
  }
  if (error instanceof EngineError && error.reason !== 'INTERNAL') {
    const { code, status, message, reason, details } = error
    return {
      http: httpOf(reason, code),
      headers: code === 'UNAUTHENTICATED' ? rows.UNAUTHENTICATED.headers : {},
      status: statusOf(status, message, reason, details),
    }
  }
  return { http: 500, headers: {}, status: statusOf(13, 'internal error', 'INTERNAL', {}) }
}

/** Whether an error is a defect, which is written to the embedder's log. */
export function isDefect(error: unknown): boolean {
  if (error instanceof HttpError) return false
  return !(error instanceof EngineError) || error.reason === 'INTERNAL'
}

function statusOf(
  code: number,
  message: string,
  reason: string,
  metadata: Readonly<Record<string, string>>,
): Status {
  return {
    code,
    message,
    details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'forkspace', metadata }],
  }
}
