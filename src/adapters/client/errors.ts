import type * as z from 'zod'
import { EngineError, errorRegistry, statusSchema, type ErrorReason } from '../../engine/client-contract.js'

type Status = z.output<typeof statusSchema>

/**
 * The reason that replaces an unknown one, by RPC status code. An unknown reason comes from the HTTP adapter
 * or a later version.
 */
const byCode: Readonly<Record<number, ErrorReason>> = {
  3: 'INVALID_ARGUMENT',
  4: 'DEADLINE_EXCEEDED',
  7: 'PERMISSION_DENIED',
  8: 'LIMIT_EXCEEDED',
  13: 'INTERNAL',
  16: 'UNAUTHENTICATED',
}

/**
 * Converts the status in a response to an error. If this version does not know the server's reason, it is in
 * `details.reason`.
 */
export function fromStatus({ code, message, details }: Status): EngineError {
  const info = (details[0] ?? {}) as { readonly reason?: unknown; readonly metadata?: unknown }
  const metadata = textsOf(info.metadata)
  const reason = typeof info.reason === 'string' ? info.reason : ''
  if (Object.hasOwn(errorRegistry, reason)) return new EngineError(reason as ErrorReason, message, metadata)
  const shown =
    reason === 'ROUTE_NOT_FOUND'
      ? 'the server has no such route. Pass a baseUrl that has the prefix of the server, and not /v1'
      : message
  return new EngineError(byCode[code] ?? 'REMOTE_FAILED', shown, {
    ...metadata,
    ...(reason !== '' && { reason }),
  })
}

/** Reads the error from a response whose HTTP status is not a success. */
export async function fromResponse(response: Response): Promise<EngineError> {
  const text = await response.text()
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = undefined
  }
  const parsed = statusSchema.safeParse(body)
  if (parsed.success) return fromStatus(parsed.data)
  return notUnderstood('the server returned an error in an unknown form', response.status)
}

export function notUnderstood(message: string, httpStatus: number, cause?: unknown): EngineError {
  return new EngineError('REMOTE_FAILED', message, { httpStatus: String(httpStatus) }, { cause })
}

/** Creates the error for a missing or incomplete response. Omit `baseUrl` if the response had started. */
export function unreachable(cause: unknown, baseUrl?: string): EngineError {
  const code = codeIn(cause)
  const message =
    baseUrl === undefined
      ? 'the response of the server is incomplete'
      : code === 'ECONNREFUSED'
        ? `no server listens at ${baseUrl}: start it, or correct the baseUrl`
        : `the server at ${baseUrl} does not respond or returned an incomplete response`
  return new EngineError('REMOTE_FAILED', message, code === undefined ? {} : { errno: code }, { cause })
}

/** Whether a retry may help, because the server did not respond or is shutting down. */
export function isOutage(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'REMOTE_FAILED'
}

/** Whether the server responds but has closed its engine. A new server may replace it. */
export function isClosing(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'STORE_CLOSED'
}

/** Returns the error code, such as `ECONNREFUSED`. Node puts it into the cause of the error. */
function codeIn(thrown: unknown): string | undefined {
  const { code, cause } = (thrown ?? {}) as { readonly code?: unknown; readonly cause?: unknown }
  if (typeof code === 'string') return code
  return cause === undefined ? undefined : codeIn(cause)
}

function textsOf(metadata: unknown): Record<string, string> {
  if (typeof metadata !== 'object' || metadata === null) return {}
  return Object.fromEntries(
    Object.entries(metadata).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
