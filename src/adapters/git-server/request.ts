import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { HttpError, type HttpRequest } from '../http/parts.js'
import { gitServerLimits } from './limits.js'

/** The two services of the protocol: fetches and pushes. */
export type Service = 'git-upload-pack' | 'git-receive-pack'

export interface Route {
  readonly sessionId: string
  /** Whether the request asks for the list of refs, which starts a fetch or a push. */
  readonly isStart: boolean
  readonly service: Service
}

const form = /^\/sessions\/([\w-]{1,64})\.git\/(info\/refs|git-upload-pack|git-receive-pack)$/

/** @throws HttpError `ROUTE_NOT_FOUND`, `METHOD_NOT_ALLOWED` or `INVALID_ARGUMENT` */
export function routeOf(method: string, path: string, query: string): Route {
  const [, sessionId = '', what = ''] = form.exec(path) ?? []
  if (sessionId === '')
    throw new HttpError(
      'ROUTE_NOT_FOUND',
      'the path does not exist; a repository has the path /sessions/<session id>.git',
    )
  const isStart = what === 'info/refs'
  const allowed = isStart ? 'GET' : 'POST'
  if (method !== allowed)
    throw new HttpError(
      'METHOD_NOT_ALLOWED',
      `the path has the method ${allowed} alone`,
      {},
      { allow: allowed },
    )
  return {
    sessionId,
    isStart,
    service: serviceOf(isStart ? new URLSearchParams(query).get('service') : what),
  }
}

function serviceOf(name: string | null): Service {
  if (name === 'git-upload-pack' || name === 'git-receive-pack') return name
  const message =
    name === null
      ? 'service: is missing; this server speaks the smart protocol of git alone'
      : 'service: must be git-upload-pack or git-receive-pack'
  throw new HttpError('INVALID_ARGUMENT', message, { field: 'service' })
}

/** Whether the client asks for version 2 of the protocol. */
export function isVersion2(httpRequest: HttpRequest): boolean {
  const versions = (httpRequest.header('git-protocol') ?? '').split(':').map((part) => part.trim())
  return versions.includes('version=2')
}

/**
 * The body of a request to a service, decompressed. It fails above `maxBytes`.
 *
 * @throws HttpError `UNSUPPORTED_MEDIA_TYPE`
 */
export function bodyOf(
  httpRequest: HttpRequest,
  service: Service,
  pieces: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Uint8Array, void> {
  const type = `application/x-${service}-request`
  if ((httpRequest.header('content-type') ?? '').trim().toLowerCase() !== type)
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', `content-type: must be ${type}`, { field: 'content-type' })
  const encoding = (httpRequest.header('content-encoding') ?? 'identity').trim().toLowerCase()
  if (encoding === 'identity') return bounded(pieces, maxBytes)
  if (encoding === 'gzip' || encoding === 'x-gzip') return bounded(inflated(pieces), maxBytes)
  throw new HttpError('UNSUPPORTED_MEDIA_TYPE', 'content-encoding: must be gzip or identity', {
    field: 'content-encoding',
  })
}

async function* inflated(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let failure: unknown
  let tooLarge: HttpError | undefined
  let received = 0
  let given = 0
  const counted = async function* (): AsyncGenerator<Uint8Array, void> {
    for await (const piece of pieces) {
      received += piece.byteLength
      yield piece
    }
  }
  const source = Readable.from(counted(), { objectMode: false })
  source.once('error', (error) => {
    failure = error
  })
  try {
    for await (const piece of pipeline(source, createGunzip(), () => undefined)) {
      given += (piece as Uint8Array).byteLength
      const limit = gitServerLimits.gunzipFreeBytes + gitServerLimits.gunzipBytesPerByte * received
      if (given > limit) {
        tooLarge = bodyTooLarge(limit)
        break
      }
      yield piece as Uint8Array
    }
  } catch {
    throw failure ?? malformed('the body is not valid gzip')
  }
  if (tooLarge !== undefined) throw tooLarge
}

async function* bounded(
  pieces: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Uint8Array, void> {
  let bytes = 0
  for await (const piece of pieces) {
    bytes += piece.byteLength
    if (bytes > maxBytes) throw bodyTooLarge(maxBytes)
    yield piece
  }
}

function bodyTooLarge(limit: number): HttpError {
  return new HttpError('BODY_TOO_LARGE', `the body is over ${limit} bytes`, { limit: String(limit) })
}

/** The error for a request that does not follow the protocol. */
export function malformed(what = 'the body is not made of packets of the git protocol'): HttpError {
  return new HttpError('INVALID_ARGUMENT', `body: ${what}`, { field: 'body' })
}
