import { parseBody } from '../http/parts.js'
import { readBody } from './body.js'

/** Headers of a request that the preview keeps. The body is written anew. */
const keptHeaders = ['accept', 'authorization', 'host']

/**
 * The request of a merge as a preview, which changes nothing; undefined if the request asks for a merge. The caller
 * must be known already.
 *
 * @throws HttpError `INVALID_ARGUMENT` when the body is not a JSON object, or is nested too deep; `TOO_LARGE`,
 * `BODY_TOO_LARGE`
 */
export async function previewOf(request: Request): Promise<Request | undefined> {
  const bytes = await readBody(request)
  const body: Readonly<Record<string, unknown>> = bytes.length === 0 ? {} : { ...parseBody(bytes) }
  if (body['dryRun'] !== true) return undefined
  const headers = new Headers({ 'content-type': 'application/json' })
  for (const name of keptHeaders) {
    const value = request.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  // The server reads these bytes, and not those of the page, which another parser could understand differently.
  return new Request(request.url, {
    method: 'POST',
    headers,
    body: JSON.stringify({ ...body, dryRun: true }),
    signal: request.signal,
  })
}
