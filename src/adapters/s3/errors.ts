/** Turns errors of S3 into errors of the engine. Clients may see them, so none has the bucket, its address or a key. */
import { EngineError } from '../../engine/ports.js'
import { s3Limits } from './limits.js'

type Details = Readonly<Record<string, string>>

/** The failure of a part of a request, in an answer that is no error itself. */
export class PartialFailure extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The error of a request. `what` says what failed. */
export function requestError(cause: unknown, what: string, details: Details = {}): EngineError {
  if (cause instanceof EngineError) return cause
  const name = nameOf(cause)
  const status = statusOf(cause)
  if (status === 401 || status === 403 || refusals.has(name))
    return new EngineError(
      'PERMISSION_DENIED',
      `${what}: S3 refused access (${name}). Check the credentials of the client and the rights to the bucket`,
      details,
      { cause },
    )
  return new EngineError(
    'STORE_FAILED',
    `${what}: ${reasonOf(name, status, cause instanceof PartialFailure)}`,
    details,
    { cause },
  )
}

export function isMissing(error: unknown): boolean {
  return nameOf(error) === 'NoSuchKey'
}

/** Whether an object with the key exists already. */
export function isTaken(error: unknown): boolean {
  return statusOf(error) === 412
}

/** Whether a body did not match the checksum that S3 sent with it. */
export function isMismatch(error: unknown): boolean {
  return error instanceof Error && /^checksum mismatch/i.test(error.message)
}

/** Without credentials, a client sends no request. A request to delete many objects may be refused for some of them. */
const refusals: ReadonlySet<string> = new Set([
  'CredentialsProviderError',
  'TokenProviderError',
  'AccessDenied',
])

function reasonOf(name: string, status: number | undefined, isPartial: boolean): string {
  if (name === 'NoSuchBucket') return 'the bucket does not exist. Create it, or correct its name'
  if (status === 301) return 'the bucket is in another region. Correct the region of the client'
  if (name === 'TimeoutError' || name === 'AbortError')
    return `S3 did not answer within ${s3Limits.requestMs / 1000} seconds. Try again`
  if (status !== undefined) return `S3 answered with ${status} (${name}). Try again`
  if (isPartial) return `S3 answered with ${name}. Try again`
  return `S3 cannot be reached (${name}). Check the connection and the endpoint of the client, and try again`
}

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  const code: unknown = Reflect.get(error, 'code')
  return typeof code === 'string' && code !== '' ? code : error.name
}

function statusOf(error: unknown): number | undefined {
  const metadata: unknown = error instanceof Error ? Reflect.get(error, '$metadata') : undefined
  if (typeof metadata !== 'object' || metadata === null) return undefined
  const status: unknown = Reflect.get(metadata, 'httpStatusCode')
  return typeof status === 'number' ? status : undefined
}
