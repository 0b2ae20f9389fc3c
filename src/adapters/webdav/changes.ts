import { Buffer } from 'node:buffer'
import { EngineError, limits } from '../../engine/ports.js'
import type { HttpRequest, HttpResponse } from '../http/parts.js'
import { checkConditions, checkEtags, type Passed, type Served } from './conditions.js'
import { badRequest, DavError, locked } from './dav-error.js'
import { find, findEntry, hashOfEtag, realPathOfNew, type Files, type Found } from './found.js'
import { webdavLimits } from './limits.js'
import type { Lock } from './locks.js'
import { destinationTarget, hrefOf, isBelow, joined, parentOf, placeOf, type Place } from './place.js'
import { foundAt } from './reads.js'
import { emptyResponse } from './responses.js'

/** A change of the names in a directory, or of one content. */
export type Reach = 'names' | 'content'

/** @throws DavError `423` if a lock whose token the client did not submit is in the way */
export function requireUnlocked(
  { locks, prefix }: Served,
  tokens: Passed['tokens'],
  realPath: string,
  reach: Reach,
): void {
  const found: (Lock | undefined)[] = [...locks.covering(realPath)]
  if (reach === 'names') found.push(locks.at(parentOf(realPath)), ...locks.below(realPath))
  for (const lock of found)
    if (lock !== undefined && !tokens.has(lock.token)) throw locked(hrefOf(prefix, lock.path, false))
}

/** Runs a change that needs a parent directory. */
export async function inParent(work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (error instanceof EngineError && error.reason === 'PATH_NOT_FOUND')
      throw new DavError(409, 'the parent directory does not exist: create it first')
    throw error
  }
}

/** PUT: writes a whole file, as one change. */
export async function putFile(
  served: Served,
  httpRequest: HttpRequest,
  { path, isDirectory }: Place,
  content: AsyncIterable<Uint8Array>,
): Promise<HttpResponse> {
  const { files } = served
  if (isDirectory) throw new DavError(409, 'the path of a file does not end with a slash')
  if (httpRequest.header('content-range') !== undefined)
    throw badRequest('content-range: a PUT writes a whole file')
  const encoding = httpRequest.header('content-encoding')
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    throw new DavError(415, 'content-encoding: must be identity')
  const found = await find(files, path)
  const { tokens, etag } = await checkConditions(served, httpRequest, path, found)
  await requireWritable(served, tokens, path, found)
  const expectedHash = hashOfEtag(etag)
  const mustBeNew = httpRequest.header('if-none-match')?.trim() === '*'
  // The condition was true before the body arrived, and must still be true after it.
  const guard = mustBeNew ? { expectedHash: '' } : expectedHash === undefined ? {} : { expectedHash }
  let refusal: unknown
  const checked = async function* (): AsyncGenerator<Uint8Array, void> {
    yield* content
    try {
      // Another client may have locked or changed the file meanwhile.
      const now = await find(files, path)
      await checkEtags(served, httpRequest, now)
      await requireWritable(served, tokens, path, now)
    } catch (error) {
      refusal = error
      throw error
    }
  }
  try {
    await inParent(files.write({ path, content: checked(), createParents: false, ...guard }))
  } catch (error) {
    throw refusal ?? error
  }
  return emptyResponse(found === undefined ? 201 : 204)
}

/** @throws DavError if a lock is in the way, or the path is a symlink to a file that a write would create elsewhere */
async function requireWritable(
  served: Served,
  tokens: Passed['tokens'],
  path: string,
  found: Found | undefined,
): Promise<void> {
  const { files } = served
  if (found === undefined && (await findEntry(files, path)) !== undefined)
    throw new DavError(409, 'the path is a symlink that leads to nothing: delete it first')
  const realPath = found?.realPath ?? (await realPathOfNew(files, path))
  requireUnlocked(served, tokens, realPath, found === undefined ? 'names' : 'content')
}

/** MKCOL: creates a directory. */
export async function makeDirectory(
  served: Served,
  httpRequest: HttpRequest,
  { path }: Place,
): Promise<HttpResponse> {
  if (httpRequest.hasBody) throw new DavError(415, 'a body of MKCOL is not supported')
  const { files } = served
  const found = await find(files, path)
  const { tokens } = await checkConditions(served, httpRequest, path, found)
  requireUnlocked(served, tokens, found?.realPath ?? (await realPathOfNew(files, path)), 'names')
  await inParent(files.createDirectory({ path }))
  return emptyResponse(201)
}

/** DELETE: removes a file, a symlink, or a directory with everything below it, as one change. */
export async function remove(served: Served, httpRequest: HttpRequest, place: Place): Promise<HttpResponse> {
  const { files, locks } = served
  const { path } = place
  if (path === '/') throw new DavError(403, 'the root cannot be deleted')
  const depth = httpRequest.header('depth')?.trim().toLowerCase() ?? 'infinity'
  const entry = await findEntry(files, path)
  if (entry === undefined || (place.isDirectory && entry.kind === 'file'))
    throw new DavError(404, 'nothing exists at this path')
  // A client sees a directory there. It would delete the files of the target before it deletes the link.
  if (entry.path !== path)
    throw new DavError(403, 'a directory of the path is a symlink: delete the file at its own path instead')
  if (depth !== 'infinity' && (depth !== '0' || entry.kind === 'directory'))
    throw badRequest('depth: must be infinity')
  const passed = await checkConditions(served, httpRequest, path, await find(files, path))
  requireUnlocked(served, passed.tokens, entry.path, 'names')
  const expectedHash = entry.kind === 'file' ? hashOfEtag(passed.etag) : undefined
  if (entry.kind === 'directory') await files.removeDirectory({ path, recursive: true })
  else await files.delete({ path, ...(expectedHash !== undefined && { expectedHash }) })
  locks.forget(entry.path)
  return emptyResponse(204)
}

/** The destination of a COPY or MOVE. */
interface Destination {
  readonly path: string
  readonly realPath: string
  /** The kind of the entry that the request would replace. */
  readonly kind: 'file' | 'directory' | 'symlink' | undefined
  readonly overwrite: boolean
}

async function destinationOf(
  { files, prefix }: Served,
  httpRequest: HttpRequest,
  sourcePath: string,
): Promise<Destination> {
  const target = destinationTarget(httpRequest.header('destination'), httpRequest.header('host'))
  const { path } = placeOf(target, prefix)
  const flag = httpRequest.header('overwrite')?.trim().toUpperCase() ?? 'T'
  if (flag !== 'T' && flag !== 'F') throw badRequest('overwrite: must be T or F')
  const entry = await findEntry(files, path)
  const realPath = entry?.path ?? (await realPathOfNew(files, path))
  if (realPath === sourcePath || isBelow(realPath, sourcePath) || isBelow(sourcePath, realPath))
    throw new DavError(403, 'destination: must not be the source, nor a parent or a part of it')
  if (entry !== undefined && flag === 'F') throw new DavError(412, 'destination: exists, and overwrite is F')
  return { path, realPath, kind: entry?.kind, overwrite: flag === 'T' }
}

async function removeAt(files: Files, { path, kind }: Destination): Promise<void> {
  if (kind === 'directory') await files.removeDirectory({ path, recursive: true })
  else if (kind !== undefined) await files.delete({ path })
}

/** MOVE: one change, except if it replaces a directory with entries, or a file by a directory or the reverse. */
export async function move(served: Served, httpRequest: HttpRequest, { path }: Place): Promise<HttpResponse> {
  const { files, locks } = served
  if (path === '/') throw new DavError(403, 'the root cannot be moved')
  const entry = await findEntry(files, path)
  if (entry === undefined) throw new DavError(404, 'nothing exists at this path')
  const { tokens } = await checkConditions(served, httpRequest, path, await find(files, path))
  const destination = await destinationOf(served, httpRequest, entry.path)
  requireUnlocked(served, tokens, entry.path, 'names')
  requireUnlocked(served, tokens, destination.realPath, 'names')
  const { kind } = destination
  const rename = (): Promise<void> =>
    inParent(
      files.rename({
        // The request's path may lead through a symlink in the destination, which is removed below.
        sourcePath: entry.path,
        destinationPath: destination.path,
        ...(!destination.overwrite && { exclusive: true }),
      }),
    )
  try {
    await rename()
  } catch (error) {
    // Nothing is removed for a move that is impossible for another reason.
    if (kind === undefined || !(error instanceof EngineError && inTheWay.has(error.reason))) throw error
    await removeAt(files, destination)
    await rename()
  }
  locks.forget(entry.path)
  return emptyResponse(kind === undefined ? 201 : 204)
}

/** Why a rename is refused that would replace a directory, or something else by a directory. */
const inTheWay: ReadonlySet<string> = new Set(['DIRECTORY_NOT_EMPTY', 'IS_A_DIRECTORY', 'NOT_A_DIRECTORY'])

/** COPY: one change for a file, and one for each entry of a directory. */
export async function copy(served: Served, httpRequest: HttpRequest, place: Place): Promise<HttpResponse> {
  const { files } = served
  const source = await foundAt(served, place)
  const { tokens } = await checkConditions(served, httpRequest, place.path, source)
  const depth = httpRequest.header('depth')?.trim().toLowerCase() ?? 'infinity'
  if (depth !== '0' && depth !== 'infinity') throw badRequest('depth: must be 0 or infinity')
  const destination = await destinationOf(served, httpRequest, source.realPath)
  requireUnlocked(served, tokens, destination.realPath, 'names')
  const { kind, path, overwrite } = destination
  if (source.isDirectory) {
    const entries = depth === '0' ? [] : await entriesBelow(files, source.realPath)
    for (const { name } of entries) requireReachable(joined(source.realPath, name), joined(path, name))
    await removeAt(files, destination)
    await inParent(files.createDirectory({ path }))
    await copyEntries(files, source.realPath, path, entries)
  } else {
    if (kind !== 'file') await removeAt(files, destination)
    await inParent(
      files.copy({
        sourcePath: source.realPath,
        destinationPath: path,
        ...(!overwrite && { exclusive: true }),
      }),
    )
  }
  return emptyResponse(kind === undefined ? 201 : 204)
}

/** @throws DavError if a path has no request, because it would be too long */
function requireReachable(...paths: readonly string[]): void {
  for (const path of paths)
    if (Buffer.byteLength(path) > limits.pathBytes || path.split('/').length - 1 > limits.pathDepth)
      throw new DavError(
        414,
        `the directory has entries whose paths would have over ${limits.pathBytes} bytes or ${limits.pathDepth} levels`,
      )
}

interface Entry {
  readonly name: string
  readonly kind: string
}

/** Everything below a directory, parents first. */
async function entriesBelow(files: Files, path: string): Promise<readonly Entry[]> {
  const all: Entry[] = []
  let pageToken = ''
  do {
    const page = await files.list({ path, recursive: true, pageSize: webdavLimits.pageEntries, pageToken })
    all.push(...page.entries)
    if (all.length > webdavLimits.copyEntries)
      throw new DavError(507, `the directory has over ${webdavLimits.copyEntries} entries: copy parts of it`)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return all
}

async function copyEntries(files: Files, from: string, to: string, entries: readonly Entry[]): Promise<void> {
  for (const { name, kind } of entries) {
    const sourcePath = joined(from, name)
    const path = joined(to, name)
    if (kind === 'directory') await files.createDirectory({ path })
    else if (kind === 'file') await files.copy({ sourcePath, destinationPath: path })
    else {
      const { target } = await files.readSymlink(sourcePath)
      await files.createSymlink({ linkPath: path, target })
    }
  }
}
