import { dateOf, etagOf, type Found } from './found.js'
import type { Served } from './conditions.js'
import { badRequest } from './dav-error.js'
import { webdavLimits } from './limits.js'
import type { Lock } from './locks.js'
import { hrefOf } from './place.js'
import { childrenOf, davNamespace, isDav, type XmlElement } from './xml-body.js'
import { escapeXml } from './xml-text.js'

/** The namespace of the property `executable`, which davfs2 reads and sets. */
export const apacheNamespace = 'http://apache.org/dav/props/'

const xmlNamespace = 'http://www.w3.org/XML/1998/namespace'

/** The bits that make a file executable. */
export const executableBits = 0o111

/** The properties that a PROPFIND requests. */
export interface Asked {
  readonly names: readonly KnownName[]
  /** Whether values are asked for, of all properties or of those that the client names. */
  readonly form: 'names' | 'all' | 'named'
  /** XML of the properties that do not exist. */
  readonly unknown: string
}

type Value = (served: Served, found: Found) => string | undefined | Promise<string | undefined>

/** The XML of each property, in the namespace `DAV:`; undefined if the resource does not have it. */
const values = {
  creationdate: (_, { stat }) => dateOf(stat.birthtimeMs).toISOString(),
  getcontentlength: (_, { isDirectory, stat }) => (isDirectory ? undefined : String(stat.sizeBytes)),
  getcontenttype: (_, { isDirectory }) => (isDirectory ? undefined : 'application/octet-stream'),
  getetag: async ({ files }, found) => {
    const etag = await etagOf(files, found)
    return etag === undefined ? undefined : escapeXml(etag)
  },
  getlastmodified: (_, { stat }) => dateOf(stat.mtimeMs).toUTCString(),
  lockdiscovery: ({ locks, prefix }, { realPath, isDirectory }) =>
    locks
      .covering(realPath)
      .map((lock) => activeLock(lock, hrefOf(prefix, lock.path, lock.path !== realPath || isDirectory)))
      .join(''),
  resourcetype: (_, { isDirectory }) => (isDirectory ? '<D:collection/>' : ''),
  supportedlock: () =>
    '<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>',
} satisfies Record<string, Value>

/** The values whose names clients ask for one by one. */
const extraValues = {
  executable: (_, { isDirectory, stat }) =>
    isDirectory ? undefined : (stat.mode & executableBits) === 0 ? 'F' : 'T',
} satisfies Record<string, Value>

type KnownName = keyof typeof values | keyof typeof extraValues

const davNames = Object.keys(values) as (keyof typeof values)[]

/**
 * Reads the body of a PROPFIND. Without one, it asks for all properties.
 *
 * @throws DavError
 */
export function parsePropfind(body: XmlElement | undefined): Asked {
  if (body === undefined) return { names: davNames, form: 'all', unknown: '' }
  if (!isDav(body, 'propfind')) throw badRequest('body: must be the element propfind')
  if (childrenOf(body, 'propname').length > 0)
    return { names: [...davNames, 'executable'], form: 'names', unknown: '' }
  const [prop] = childrenOf(body, 'prop')
  if (prop === undefined) {
    if (childrenOf(body, 'allprop').length === 0)
      throw badRequest('body: must have the element prop, allprop or propname')
    return { names: davNames, form: 'all', unknown: '' }
  }
  if (prop.children.length > webdavLimits.properties)
    throw badRequest(`body: names over ${webdavLimits.properties} properties`)
  const names = new Set<KnownName>()
  const unknown: XmlElement[] = []
  for (const element of prop.children) {
    const name = knownName(element)
    if (name === undefined) unknown.push(element)
    else names.add(name)
  }
  return { names: [...names], form: 'named', unknown: emptyElements(unknown) }
}

function knownName({ uri, local }: XmlElement): KnownName | undefined {
  if (uri === davNamespace && Object.hasOwn(values, local)) return local as keyof typeof values
  if (uri === apacheNamespace && Object.hasOwn(extraValues, local)) return local as keyof typeof extraValues
  return undefined
}

/**
 * Elements with the names of other ones, each once. A response repeats them, each with its whole namespace.
 *
 * @throws DavError if they are too long
 */
export function emptyElements(elements: readonly XmlElement[]): string {
  const names = new Set<string>()
  let length = 0
  for (const element of elements) {
    const xml = emptyElement(element)
    if (names.has(xml)) continue
    names.add(xml)
    length += xml.length
    if (length > webdavLimits.nameChars)
      throw badRequest(
        `body: names of properties, with the namespace of each, have over ${webdavLimits.nameChars} characters`,
      )
  }
  return [...names].join('')
}

function emptyElement({ uri, local }: XmlElement): string {
  if (uri === davNamespace) return `<D:${local}/>`
  // This namespace is bound to its prefix, and cannot be declared as the default.
  if (uri === xmlNamespace) return `<xml:${local}/>`
  // A name without a prefix takes the namespace of its own attribute.
  return `<${local} xmlns="${escapeXml(uri)}"/>`
}

/** The element `response` of one resource. */
export async function propertiesOf(served: Served, found: Found, asked: Asked): Promise<string> {
  let present = ''
  let missing = asked.unknown
  for (const name of asked.names) {
    const isExtra = Object.hasOwn(extraValues, name)
    const value: Value = isExtra
      ? extraValues[name as keyof typeof extraValues]
      : values[name as keyof typeof values]
    const xml = await value(served, found)
    const tag = isExtra ? `A:${name}` : `D:${name}`
    const open = isExtra ? `<A:${name} xmlns:A="${apacheNamespace}"` : `<D:${name}`
    if (xml === undefined) {
      if (asked.form === 'named') missing += `${open}/>`
    } else present += xml === '' || asked.form === 'names' ? `${open}/>` : `${open}>${xml}</${tag}>`
  }
  const href = escapeXml(hrefOf(served.prefix, found.path, found.isDirectory))
  const stats =
    (present === '' ? '' : propstat(200, present)) + (missing === '' ? '' : propstat(404, missing))
  return `<D:response><D:href>${href}</D:href>${stats || propstat(200, '')}</D:response>\n`
}

const reasons = {
  200: 'OK',
  403: 'Forbidden',
  404: 'Not Found',
  424: 'Failed Dependency',
} as const

export function propstat(status: keyof typeof reasons, properties: string, condition?: string): string {
  const error = condition === undefined ? '' : `<D:error>${condition}</D:error>`
  return `<D:propstat><D:prop>${properties}</D:prop><D:status>HTTP/1.1 ${status} ${reasons[status]}</D:status>${error}</D:propstat>`
}

export function activeLock({ token, isDeep, owner, seconds }: Lock, href: string): string {
  const of = owner.href === undefined ? escapeXml(owner.text) : `<D:href>${escapeXml(owner.href)}</D:href>`
  return [
    '<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:exclusive/></D:lockscope>',
    `<D:depth>${isDeep ? 'infinity' : '0'}</D:depth><D:owner>${of}</D:owner>`,
    `<D:timeout>Second-${seconds}</D:timeout><D:locktoken><D:href>${token}</D:href></D:locktoken>`,
    `<D:lockroot><D:href>${escapeXml(href)}</D:href></D:lockroot></D:activelock>`,
  ].join('')
}
