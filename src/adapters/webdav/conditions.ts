import type { HttpRequest } from '../http/parts.js'
import { DavError } from './dav-error.js'
import { etagOf, find, realPathOfNew, type Files, type Found } from './found.js'
import { parseIf, tokensOf, type Condition, type ConditionList } from './if-header.js'
import type { Locks } from './locks.js'
import { destinationTarget, placeOf } from './place.js'

/** The services that the methods share. */
export interface Served {
  readonly files: Files
  readonly locks: Locks
  readonly prefix: string
}

/** The conditions of a request that were true. */
export interface Passed {
  /** The tokens of locks that the client submitted. */
  readonly tokens: ReadonlySet<string>
  /** The ETag that the request requires, if it names one: a write can require the same content. */
  readonly etag: string | undefined
}

/**
 * Checks the conditions in the headers of a request.
 *
 * @throws DavError 412 if one is false, 304 if the client has the content already
 */
export async function checkConditions(
  served: Served,
  httpRequest: HttpRequest,
  path: string,
  found: Found | undefined,
): Promise<Passed> {
  const lists = listsOf(httpRequest)
  const etag = await checkEtags(served, httpRequest, found)
  if (lists.length > 0 && !(await isAnyTrue(served, httpRequest, path, lists))) throw failed('if')
  return { tokens: tokensOf(lists), etag }
}

/**
 * Checks the headers `If-Match` and `If-None-Match`. Returns the ETag that `If-Match` requires, if it names one.
 *
 * @throws DavError 412 if one is false, 304 if the client has the content already
 */
export async function checkEtags(
  served: Served,
  httpRequest: HttpRequest,
  found: Found | undefined,
): Promise<string | undefined> {
  const ifMatch = httpRequest.header('if-match')
  const ifNoneMatch = httpRequest.header('if-none-match')
  const needsEtag = ifMatch !== undefined || ifNoneMatch !== undefined
  const etag = needsEtag && found !== undefined ? await etagOf(served.files, found) : undefined
  if (ifMatch !== undefined && !matches(ifMatch, found, etag)) throw failed('if-match')
  const isRead = httpRequest.method === 'GET' || httpRequest.method === 'HEAD'
  if (ifNoneMatch !== undefined && matches(ifNoneMatch, found, etag)) {
    if (!isRead) throw failed('if-none-match')
    throw new DavError(304, 'not modified', { headers: etag === undefined ? {} : { etag } })
  }
  return ifMatch === undefined || ifMatch.trim() === '*' ? undefined : etag
}

/** The lists of the header `If`, without a check of them. */
export function listsOf(httpRequest: HttpRequest): readonly ConditionList[] {
  const header = httpRequest.header('if')
  return header === undefined ? [] : parseIf(header)
}

function failed(header: string): DavError {
  return new DavError(412, `${header}: the condition is false`)
}

function matches(header: string, found: Found | undefined, etag: string | undefined): boolean {
  if (header.trim() === '*') return found !== undefined
  if (etag === undefined) return false
  return header.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)
}

async function isAnyTrue(
  served: Served,
  httpRequest: HttpRequest,
  path: string,
  lists: readonly ConditionList[],
): Promise<boolean> {
  const states = new Map<string | undefined, State | undefined>()
  for (const { tag, conditions } of lists) {
    if (!states.has(tag)) states.set(tag, await stateOf(served, httpRequest, path, tag))
    const state = states.get(tag)
    if (state !== undefined && conditions.every((condition) => isTrue(condition, state))) return true
  }
  return false
}

/** What conditions about a resource need. */
interface State {
  readonly tokens: readonly string[]
  readonly etag: string | undefined
}

/** Undefined for a tag that is not a path of this server. */
async function stateOf(
  { files, locks, prefix }: Served,
  httpRequest: HttpRequest,
  path: string,
  tag: string | undefined,
): Promise<State | undefined> {
  const at = tag === undefined ? path : taggedPath(tag, httpRequest, prefix)
  if (at === undefined) return undefined
  const found = await find(files, at)
  const realPath = found?.realPath ?? (await realPathOfNew(files, at))
  return {
    tokens: locks.covering(realPath).map(({ token }) => token),
    etag: found === undefined ? undefined : await etagOf(files, found),
  }
}

function taggedPath(tag: string, httpRequest: HttpRequest, prefix: string): string | undefined {
  try {
    return placeOf(destinationTarget(tag, httpRequest.header('host')), prefix).path
  } catch (error) {
    if (error instanceof DavError) return undefined
    throw error
  }
}

function isTrue({ kind, value, isNegated }: Condition, { tokens, etag }: State): boolean {
  const isMet = kind === 'token' ? tokens.includes(value) : value.replace(/^W\//, '') === etag
  return isMet !== isNegated
}
