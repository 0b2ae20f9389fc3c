import { EngineError, TimeSlice } from '../../engine/ports.js'
import type { HttpRequest, HttpResponse } from '../http/parts.js'
import { checkConditions, type Served } from './conditions.js'
import { badRequest, DavError } from './dav-error.js'
import { dateOf, etagOf, find, type Found } from './found.js'
import { webdavLimits } from './limits.js'
import { joined, type Place } from './place.js'
import { parsePropfind, propertiesOf, type Asked } from './properties.js'
import { common, emptyResponse, FileStream, multistatus } from './responses.js'
import { readXmlBody } from './xml-body.js'

/**
 * The file or directory of a request.
 *
 * @throws DavError 404 if it does not exist
 */
export async function foundAt({ files }: Served, { path, isDirectory }: Place): Promise<Found> {
  const found = await find(files, path)
  // A path with a slash at its end names a directory.
  if (found === undefined || (isDirectory && !found.isDirectory))
    throw new DavError(404, 'nothing exists at this path')
  return found
}

/** GET and HEAD. `reserve` waits for a share of the memory budget. */
export async function readFile(
  served: Served,
  httpRequest: HttpRequest,
  place: Place,
  { allow, reserve }: { readonly allow: string; readonly reserve: () => Promise<void> | undefined },
): Promise<HttpResponse> {
  const { files } = served
  const found = await foundAt(served, place)
  if (found.isDirectory)
    throw new DavError(405, 'the path is a directory: list it with PROPFIND', { headers: { allow } })
  await checkConditions(served, httpRequest, place.path, found)
  // Taken before the content, so that the ETag is never that of a newer content.
  const etag = (await etagOf(files, found)) ?? ''
  const headers = {
    ...common,
    'accept-ranges': 'bytes',
    'content-type': 'application/octet-stream',
    'last-modified': dateOf(found.stat.mtimeMs).toUTCString(),
    etag,
  }
  const size = found.stat.sizeBytes
  if (httpRequest.method === 'HEAD') return { status: 200, headers, body: '', length: size }
  const range = rangeOf(httpRequest, size, etag)
  if (size === 0) return { status: 200, headers, body: '', length: 0 }
  await reserve()
  const stream = await files.readStream({ path: found.path, ...range })
  const body = new FileStream(stream)
  const { length, sizeBytes } = stream
  const sized = { ...headers, 'content-length': String(length) }
  if (range === undefined) return { status: 200, headers: sized, body, length }
  const end = range.offset + length - 1
  return {
    status: 206,
    headers: { ...sized, 'content-range': `bytes ${range.offset}-${end}/${sizeBytes}` },
    body,
    length,
  }
}

/** The range that a request asks for. Undefined for the whole file, and for several ranges. */
function rangeOf(
  httpRequest: HttpRequest,
  size: number,
  etag: string,
): { readonly offset: number; readonly length: number } | undefined {
  const ifRange = httpRequest.header('if-range')
  if (ifRange !== undefined && ifRange.trim() !== etag) return undefined
  const [, first = '', last = ''] =
    /^bytes=(\d{0,15})-(\d{0,15})$/.exec(httpRequest.header('range')?.trim() ?? '') ?? []
  if (first === '' && last === '') return undefined
  const offset = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (offset >= end)
    throw new DavError(416, `range: the file has ${size} bytes`, {
      headers: { 'content-range': `bytes */${size}` },
    })
  return { offset, length: end - offset }
}

/** PROPFIND: the properties of the resource, and with depth 1 of the entries of a directory. */
export async function listProperties(
  served: Served,
  httpRequest: HttpRequest,
  place: Place,
): Promise<HttpResponse> {
  const depth = httpRequest.header('depth')?.trim().toLowerCase() ?? 'infinity'
  if (depth === 'infinity')
    throw new DavError(403, 'depth: must be 0 or 1', { condition: '<D:propfind-finite-depth/>' })
  if (depth !== '0' && depth !== '1') throw badRequest('depth: must be 0 or 1')
  const asked = parsePropfind(await readXmlBody(httpRequest))
  const found = await foundAt(served, place)
  await checkConditions(served, httpRequest, place.path, found)
  // The first part is made now, so that an error can still have a status of its own.
  const own = await propertiesOf(served, found, asked)
  return multistatus(
    responses(own, depth === '1' && found.isDirectory ? { served, found, asked } : undefined),
  )
}

/** Why an entry is left out of a listing. It may change between two of the reads of its properties. */
const unlisted: ReadonlySet<string> = new Set([
  'IS_A_DIRECTORY',
  'NAME_TOO_LONG',
  'NOT_A_DIRECTORY',
  'PATH_NOT_FOUND',
  'SYMLINK_LOOP',
])

interface Listing {
  readonly served: Served
  readonly found: Found
  readonly asked: Asked
}

async function* responses(own: string, listing: Listing | undefined): AsyncGenerator<string, void> {
  yield own
  if (listing === undefined) return
  const { served, found, asked } = listing
  const { files } = served
  // An entry may be gone, be a symlink that leads to nothing, or have a path that is too long for any request.
  const entryOf = async ({ name }: { readonly name: string }): Promise<string> => {
    try {
      const entry = await find(files, joined(found.path, name))
      return entry === undefined ? '' : await propertiesOf(served, entry, asked)
    } catch (error) {
      if (error instanceof EngineError && unlisted.has(error.reason)) return ''
      throw error
    }
  }
  // A session in memory answers without a turn of the event loop.
  const slice = new TimeSlice(performance)
  let pageToken = ''
  do {
    const page = await files.list({ path: found.realPath, pageSize: webdavLimits.pageEntries, pageToken })
    for (let at = 0; at < page.entries.length; at += webdavLimits.statsAtOnce) {
      const group = page.entries.slice(at, at + webdavLimits.statsAtOnce)
      yield* await Promise.all(group.map(entryOf))
      if (slice.over) await slice.next()
    }
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}

/** OPTIONS. */
export function optionsResponse(allow: string, write: boolean): HttpResponse {
  return emptyResponse(200, { allow, dav: write ? '1, 2' : '1', 'ms-author-via': 'DAV' })
}
