import type { HttpRequest, HttpResponse } from '../http/parts.js'
import { requireUnlocked, inParent } from './changes.js'
import { checkConditions, listsOf, type Served } from './conditions.js'
import { badRequest, DavError } from './dav-error.js'
import { find, realPathOfNew } from './found.js'
import { tokensOf } from './if-header.js'
import { webdavLimits } from './limits.js'
import { parseTimeout, type Lock, type LockOwner } from './locks.js'
import { hrefOf, type Place } from './place.js'
import { activeLock, apacheNamespace, emptyElements, executableBits, propstat } from './properties.js'
import { foundAt } from './reads.js'
import { emptyResponse, xmlResponse } from './responses.js'
import { childrenOf, isDav, readXmlBody, type XmlElement } from './xml-body.js'
import { escapeXml } from './xml-text.js'

/** PROPPATCH. Only the property `executable` of a file can be set. All other properties are protected. */
export async function patchProperties(
  served: Served,
  httpRequest: HttpRequest,
  place: Place,
): Promise<HttpResponse> {
  const body = await readXmlBody(httpRequest)
  if (body === undefined || !isDav(body, 'propertyupdate'))
    throw badRequest('body: must be the element propertyupdate')
  const found = await foundAt(served, place)
  const { tokens } = await checkConditions(served, httpRequest, place.path, found)
  requireUnlocked(served, tokens, found.realPath, 'content')
  const sets = childrenOf(body, 'set').flatMap(propertiesIn)
  const named = [...sets, ...childrenOf(body, 'remove').flatMap(propertiesIn)]
  if (named.length === 0) throw badRequest('body: names no property')
  if (named.length > webdavLimits.properties)
    throw badRequest(`body: names over ${webdavLimits.properties} properties`)
  const settable = found.isDirectory ? [] : sets.filter(isExecutable)
  const isAll = settable.length === named.length
  const settableXml = emptyElements(settable)
  const protectedXml = emptyElements(named.filter((element) => !settable.includes(element)))
  const last = settable.at(-1)
  if (isAll && last !== undefined) {
    const { mode } = found.stat
    const isSet = last.text.trim() === 'T'
    await served.files.setMode({
      path: found.path,
      mode: isSet ? mode | executableBits : mode & ~executableBits,
    })
  }
  const stats = [
    settable.length > 0 ? propstat(isAll ? 200 : 424, settableXml) : '',
    isAll ? '' : propstat(403, protectedXml, '<D:cannot-modify-protected-property/>'),
  ]
  const href = escapeXml(hrefOf(served.prefix, found.path, found.isDirectory))
  const response = `<D:response><D:href>${href}</D:href>${stats.join('')}</D:response>`
  return xmlResponse(207, `<D:multistatus xmlns:D="DAV:">${response}</D:multistatus>\n`)
}

function propertiesIn(change: XmlElement): readonly XmlElement[] {
  return childrenOf(change, 'prop').flatMap(({ children }) => children)
}

function isExecutable({ uri, local, text }: XmlElement): boolean {
  return uri === apacheNamespace && local === 'executable' && /^[TF]$/.test(text.trim())
}

/** LOCK: takes or refreshes a lock. A path without a file gets an empty one. */
export async function lockPath(
  served: Served,
  httpRequest: HttpRequest,
  place: Place,
): Promise<HttpResponse> {
  const { files, locks } = served
  const body = await readXmlBody(httpRequest)
  const found = await find(files, place.path)
  const realPath = found?.realPath ?? (await realPathOfNew(files, place.path))
  const seconds = parseTimeout(httpRequest.header('timeout'))
  if (body === undefined) {
    const [token, ...others] = tokensOf(listsOf(httpRequest))
    if (token === undefined || others.length > 0)
      throw badRequest('if: must have the token of the lock to refresh')
    const refreshed = locks.refresh(token, realPath, seconds)
    if (refreshed === undefined) throw noSuchLock(412)
    return lockResponse(served, 200, refreshed)
  }
  const { tokens } = await checkConditions(served, httpRequest, place.path, found)
  const { isDeep, owner } = parseLock(body, httpRequest.header('depth'))
  if (found === undefined) {
    if (place.isDirectory) throw new DavError(409, 'the directory does not exist: create it with MKCOL')
    requireUnlocked(served, tokens, realPath, 'names')
  }
  const lock = locks.take({ path: realPath, isDeep, owner, seconds })
  if (found === undefined) {
    try {
      await inParent(files.write({ path: place.path, content: '', createParents: false, exclusive: true }))
    } catch (error) {
      locks.release(lock.token, realPath)
      throw error
    }
  }
  return lockResponse(served, found === undefined ? 201 : 200, lock)
}

function lockResponse(served: Served, status: number, lock: Lock): HttpResponse {
  const active = activeLock(lock, hrefOf(served.prefix, lock.path, false))
  const body = `<D:prop xmlns:D="DAV:"><D:lockdiscovery>${active}</D:lockdiscovery></D:prop>\n`
  return xmlResponse(status, body, { 'lock-token': `<${lock.token}>` })
}

function parseLock(
  body: XmlElement,
  depth = 'infinity',
): { readonly isDeep: boolean; readonly owner: LockOwner } {
  const [scope] = childrenOf(body, 'lockscope')
  const [type] = childrenOf(body, 'locktype')
  if (!isDav(body, 'lockinfo') || scope === undefined || type === undefined)
    throw badRequest('body: must be the element lockinfo, with lockscope and locktype')
  if (childrenOf(scope, 'exclusive').length === 0 || childrenOf(type, 'write').length === 0)
    throw new DavError(403, 'body: only exclusive locks for writing are supported')
  const asked = depth.trim().toLowerCase()
  if (asked !== '0' && asked !== 'infinity') throw badRequest('depth: must be 0 or infinity')
  const [given] = childrenOf(body, 'owner')
  const owner = { text: given?.text.trim() ?? '', href: childrenOf(given, 'href')[0]?.text.trim() }
  if (owner.text.length + (owner.href?.length ?? 0) > webdavLimits.ownerLength)
    throw badRequest(`body: the owner has over ${webdavLimits.ownerLength} characters`)
  return { isDeep: asked === 'infinity', owner }
}

/** UNLOCK. */
export async function unlockPath(
  { files, locks }: Served,
  httpRequest: HttpRequest,
  { path }: Place,
): Promise<HttpResponse> {
  const [, token] = /^<([^<>]{1,256})>$/.exec(httpRequest.header('lock-token')?.trim() ?? '') ?? []
  if (token === undefined) throw badRequest('lock-token: must be a token in angle brackets')
  const found = await find(files, path)
  if (!locks.release(token, found?.realPath ?? (await realPathOfNew(files, path)))) throw noSuchLock(409)
  return emptyResponse(204)
}

function noSuchLock(status: number): DavError {
  return new DavError(status, 'no lock with this token covers the path', {
    condition: '<D:lock-token-matches-request-uri/>',
  })
}
