import { Buffer } from 'node:buffer'
import { TextDecoder } from 'node:util'
import { SaxesParser } from 'saxes'
import type { HttpRequest } from '../http/parts.js'
import { badRequest, DavError } from './dav-error.js'
import { webdavLimits } from './limits.js'

/** The namespace of the protocol. */
export const davNamespace = 'DAV:'

/** An element of a body, without its attributes. */
export interface XmlElement {
  readonly uri: string
  readonly local: string
  readonly children: XmlElement[]
  text: string
}

/**
 * The root element of the body, or undefined without a body. A document type declaration is refused, so a body
 * cannot declare entities.
 *
 * @throws DavError for a body that is too large, or not well-formed
 */
export async function readXmlBody(httpRequest: HttpRequest): Promise<XmlElement | undefined> {
  if (!httpRequest.hasBody) return undefined
  const encoding = httpRequest.header('content-encoding')
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    throw new DavError(415, 'content-encoding: must be identity')
  const pieces: Uint8Array[] = []
  let bytes = 0
  await httpRequest.readBody((piece) => {
    bytes += piece.byteLength
    if (bytes > webdavLimits.xmlBytes)
      throw new DavError(413, `the XML body is over ${webdavLimits.xmlBytes} bytes`)
    pieces.push(piece)
  })
  if (bytes === 0) return undefined
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces))
  } catch {
    throw badRequest('body: must be in UTF-8')
  }
  return parseXml(text)
}

/** @throws DavError for text that is not well-formed, or over a limit */
export function parseXml(text: string): XmlElement {
  const parser = new SaxesParser({ xmlns: true })
  const open: XmlElement[] = []
  let root: XmlElement | undefined
  let elements = 0
  let attributes = 0
  parser.on('doctype', () => {
    throw badRequest('body: must not have a document type declaration')
  })
  parser.on('xmldecl', ({ version, encoding }) => {
    // XML 1.1 has control characters, which no response of XML 1.0 can repeat.
    if (version !== '1.0') throw badRequest('body: must be XML 1.0')
    if (encoding !== undefined && !/^utf-?8$/i.test(encoding)) throw badRequest('body: must be in UTF-8')
  })
  parser.on('opentagstart', () => {
    attributes = 0
    if (++elements > webdavLimits.xmlElements)
      throw badRequest(`body: has over ${webdavLimits.xmlElements} elements`)
    if (open.length === webdavLimits.xmlDepth)
      throw badRequest(`body: is nested over ${webdavLimits.xmlDepth} levels deep`)
  })
  parser.on('attribute', () => {
    if (++attributes > webdavLimits.xmlAttributes)
      throw badRequest(`body: an element has over ${webdavLimits.xmlAttributes} attributes`)
  })
  parser.on('opentag', ({ uri, local }) => {
    const element: XmlElement = { uri, local, children: [], text: '' }
    open.at(-1)?.children.push(element)
    root ??= element
    open.push(element)
  })
  const addText = (piece: string): void => {
    const element = open.at(-1)
    if (element !== undefined) element.text += piece
  }
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('closetag', () => {
    open.pop()
  })
  try {
    parser.write(text).close()
  } catch (error) {
    if (error instanceof DavError) throw error
    throw badRequest('body: is not well-formed XML')
  }
  if (root === undefined) throw badRequest('body: is not well-formed XML')
  return root
}

/** The children of an element that have a name of the protocol. */
export function childrenOf(element: XmlElement | undefined, local: string): readonly XmlElement[] {
  return element?.children.filter((child) => isDav(child, local)) ?? []
}

export function isDav({ uri, local }: XmlElement, name: string): boolean {
  return uri === davNamespace && local === name
}
