import { invalid } from '../../engine/index.js'
import { readBody } from './body.js'

/** Headers of a request that the preview keeps. The body is written anew. */
const keptHeaders = ['accept', 'authorization', 'host']

/**
 * The request of a merge as a preview, which changes nothing; undefined if the request asks for a merge. The caller
 * must be known already.
 *
 * @throws EngineError `INVALID_ARGUMENT` when the body is not a JSON object; HttpError `BODY_TOO_LARGE`
 */
export async function previewOf(request: Request): Promise<Request | undefined> {
  const body = parseBody((await readBody(request)).toString())
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

function parseBody(text: string): Readonly<Record<string, unknown>> {
  let body: unknown
  try {
    body = JSON.parse(text === '' ? '{}' : text)
  } catch {
    body = undefined
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalid('body', 'must be a JSON object')
  return body as Readonly<Record<string, unknown>>
}
