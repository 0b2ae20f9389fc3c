import {
  openContent,
  receiveContent,
  type ContentParameters,
  type ReceivingRoute,
} from '../../../engine/contract.js'
import { EngineError, type EngineScope, type ImportJob } from '../../../engine/index.js'
import { HttpError } from '../http-error.js'
import { contentResponse } from '../server/responses.js'
import { clientGone, type HttpResponse, type HttpRequest } from '../server/http-messages.js'
import type { Slot } from '../server/slot.js'
import { Upload } from '../server/upload.js'
import { contentBytes } from '../limits.js'

/**
 * Executes the operation of a content route that receives a content. Returns the response of the operation.
 */
export async function receive<Name extends ReceivingRoute>(
  httpRequest: HttpRequest,
  scope: EngineScope,
  name: Name,
  parameters: ContentParameters<Name>,
  { slot, stalledMs }: { readonly slot: Slot; readonly stalledMs: number },
): Promise<object> {
  const enter = (): Promise<void> | undefined => slot.reserve(contentBytes.in, 'uploads')
  const kind = importedAs(name)
  if (kind === undefined)
    return receiveContent(scope, name, parameters, new Upload(httpRequest, { stalledMs, enter }))
  const held = slot.holdUpload(kind)
  const upload = new Upload(httpRequest, { stalledMs, enter, hold: (piece) => held.add(piece) })
  const interrupted = new AbortController()
  const content = importedFrom(upload, httpRequest, interrupted)
  const job = (await receiveContent(scope, name, parameters, content, interrupted.signal)) as ImportJob
  const release = (): void => held.release()
  scope.sources.waitForJob(job).then(release, release)
  await untilRead(httpRequest, scope, job, upload)
  if (held.refusal !== undefined) throw held.refusal
  return job
}

/**
 * The upload as an import reads it. An upload that ends early gives the job the code of the cause: the job counts as
 * interrupted if the client has disconnected. The errors of this adapter have no code of a job.
 */
async function* importedFrom(
  upload: Upload,
  httpRequest: HttpRequest,
  interrupted: AbortController,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* upload
  } catch (error) {
    const reason = error instanceof HttpError ? error.reason : undefined
    if (reason === 'REQUEST_TIMEOUT') throw asEngineError('DEADLINE_EXCEEDED', error)
    if (reason === 'QUOTA') throw asEngineError('LIMIT_EXCEEDED', error)
    if (reason === 'UNAVAILABLE' || httpRequest.isGone()) interrupted.abort(clientGone())
    throw error
  }
}

function asEngineError(reason: 'DEADLINE_EXCEEDED' | 'LIMIT_EXCEEDED', error: unknown): EngineError {
  const { message, metadata } = error as HttpError
  return new EngineError(reason, message, metadata, { cause: error })
}

/** The kind of import that a route starts. Undefined for a route without an import. */
function importedAs(name: ReceivingRoute): 'bundle' | 'archive' | undefined {
  if (name === 'writeContent') return undefined
  return name === 'uploadGitBundle' ? 'bundle' : 'archive'
}

/**
 * Resolves when a job has read the upload, or needs no more of it. Rejects if the client disconnects before
 * the job starts to read. The job then fails when it reads.
 */
async function untilRead(
  httpRequest: HttpRequest,
  scope: EngineScope,
  job: ImportJob,
  upload: Upload,
): Promise<void> {
  const stop = new AbortController()
  const done = scope.sources.waitForJob(job, { signal: stop.signal }).catch(() => undefined)
  const signal = httpRequest.signal()
  let onGone: (() => void) | undefined
  const left = new Promise<never>((_, reject) => {
    onGone = () => {
      if (!upload.started) reject(signal.reason as Error)
    }
    if (signal.aborted) onGone()
    else signal.addEventListener('abort', onGone)
  })
  try {
    await Promise.race([upload.ended, done, left])
  } finally {
    upload.abandon()
    stop.abort()
    if (onGone !== undefined) signal.removeEventListener('abort', onGone)
  }
}

/** Executes the operation of the content route that sends a content. */
export async function send(
  httpRequest: HttpRequest,
  scope: EngineScope,
  parameters: ContentParameters<'readContent'>,
  slot: Slot,
): Promise<HttpResponse> {
  await slot.reserve(contentBytes.out)
  if (httpRequest.isGone()) throw clientGone()
  const content = await openContent(scope, parameters)
  const pieces = content[Symbol.asyncIterator]()
  const httpResponse = contentResponse(content, () => slot.release(), {
    next: async () => {
      const { done, value } = await pieces.next()
      if (done === true) return undefined
      scope.usage.sent(value.byteLength)
      return value
    },
    cancel: () => {
      pieces.return?.().catch(() => undefined)
    },
  })
  if (httpRequest.method !== 'HEAD') return httpResponse
  await pieces.return?.()
  // The server API adds the length, as for every other response.
  const { 'content-length': _, ...headers } = httpResponse.headers
  return { ...httpResponse, headers, body: '' }
}
