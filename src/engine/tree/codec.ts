/** Converts nodes to JSON and back. `encoded.ts` defines the format. */
import { itemAt, onlyItem, present } from '../base/present.js'
import { BlobRef } from '../cas/blob.js'
import {
  BlockBody,
  ExtentBlock,
  hasMoreExtents,
  UnloadedBody,
  type Block,
  type Body,
  type LoadedBody,
} from '../cas/body.js'
import { needsUtf8Order } from '../base/order.js'
import { limits } from '../base/limits.js'
import {
  parseBlocks,
  parseContent,
  parsePage,
  type EncodedAttributes,
  type EncodedBlock,
  type EncodedBlocks,
  type EncodedBody,
  type EncodedContent,
  type EncodedDir,
  type EncodedEntry,
  type EncodedExtra,
  type EncodedNode,
  type EncodedPage,
} from './encoded.js'
import { Dir, FileNode, Link, LinkedFile, Page, Symlink, type Attributes, type Entry } from './node.js'
import type { Xattrs } from './xattrs.js'

/** Takes the JSON of a node, and returns the node's address. */
export type Put = (json: string, file?: FileNode) => string

export function encodePage(page: Page, put: Put): EncodedEntry[] {
  const names = present(page.names, 'a loaded page')
  return page.nodes.map((node, index) => [itemAt(names, index), encodeNode(node, put)])
}

/** The directory's content as JSON. If it has several pages, all of them must have addresses. */
export function encodeContent(dir: Dir, put: Put): string {
  const pages = present(dir.pages, 'a loaded directory')
  const only = onlyItem(pages)
  const content: EncodedContent =
    only === undefined ? [1, pages.map(encodePlace), dir.wide ? 1 : 0] : [0, encodePage(only, put)]
  return JSON.stringify(content)
}

function encodePlace({ last, address, hash }: Page): EncodedPage {
  return [last, present(address, 'the address of a page'), hash ?? 0]
}

/** A node in the form that its parent stores. A directory must have an address. */
export function encodeNode(node: Entry, put: Put): EncodedNode {
  if (node instanceof Link) return ['h', node.ino]
  if (node instanceof Symlink) return ['l', node.ino, node.target, node.mtime]
  const attributes: EncodedAttributes = [node.ino, node.mode, node.mtime, node.ctime, node.birthtime]
  if (node instanceof Dir) return encodeDir(node, attributes)
  const body = encodeBody(node, put)
  const nlink = node instanceof LinkedFile ? { n: node.nlink } : undefined
  if (node.xattrs === undefined && nlink === undefined) {
    if (node.hash === undefined && node.contentId === undefined) return ['f', ...attributes, node.size, body]
    return ['f', ...attributes, node.size, body, node.hash ?? 0, node.contentId ?? 0]
  }
  const extra = { ...encodeXattrs(node.xattrs), ...nlink }
  return ['f', ...attributes, node.size, body, node.hash ?? 0, node.contentId ?? 0, extra]
}

function encodeDir(dir: Dir, attributes: EncodedAttributes): EncodedDir {
  const plain: EncodedDir = [
    'd',
    ...attributes,
    present(dir.address, 'the address of a directory'),
    dir.hash ?? 0,
    dir.height,
  ]
  const { xattrs, linked, links } = dir
  if (xattrs === undefined && !linked && links === undefined) return plain
  const extra: EncodedExtra = {
    ...encodeXattrs(xattrs),
    ...(linked && { l: 1 as const }),
    ...(links !== undefined && { t: encodeDir(links, [0, 0, 0, 0, 0]) }),
  }
  plain.push(extra)
  return plain
}

function encodeXattrs(xattrs: Xattrs | undefined): EncodedExtra {
  return xattrs === undefined
    ? {}
    : { x: xattrs.map(([name, value]) => [name, value.hash, value.length] as const) }
}

function decodeXattrs(extra: EncodedExtra | undefined): Xattrs | undefined {
  return extra?.x?.map(([name, hash, length]) => [name, BlobRef.stored(hash, length)] as const)
}

export function decodeNode(encoded: EncodedNode): Entry {
  if (encoded[0] === 'h') return new Link(encoded[1])
  if (encoded[0] === 'l') return new Symlink(encoded[1], encoded[2], encoded[3])
  const attributes: Attributes = {
    ino: encoded[1],
    mode: encoded[2],
    mtime: encoded[3],
    ctime: encoded[4],
    birthtime: encoded[5],
    xattrs: decodeXattrs(encoded[0] === 'd' ? encoded[9] : encoded[10]),
  }
  if (encoded[0] === 'd') {
    const dir = new Dir(undefined, attributes, null)
    dir.linked = encoded[9]?.l === 1
    if (encoded[9]?.t !== undefined) dir.links = decodeNode(encoded[9].t) as Dir
    dir.address = encoded[6]
    dir.hash = encoded[7] === 0 ? undefined : encoded[7]
    dir.height = encoded[8]
    return dir
  }
  const file = new FileNode(attributes, encoded[6], decodeBody(encoded[7], encoded[6]))
  if (encoded.length > 8) {
    file.hash = encoded[8] === 0 ? undefined : encoded[8]
    file.contentId = encoded[9] === 0 ? undefined : encoded[9]
  }
  const nlink = encoded[10]?.n
  return nlink === undefined ? file : new LinkedFile(file, nlink)
}

/**
 * Loads the entries of a page.
 *
 * @throws {EngineError} DATA_LOSS when the text is damaged; `page` does not change.
 */
export function decodePageInto(page: Page, json: string): string[] {
  const entries = parsePage({ address: present(page.address, 'the address of a page'), json })
  page.nodes = entries.map((entry) => decodeNode(entry[1]))
  page.names = entries.map((entry) => entry[0])
  return page.names
}

/**
 * Loads the entries or pages of a directory.
 *
 * @throws {EngineError} DATA_LOSS when the text is damaged; `dir` does not change.
 */
export function decodeContentInto(dir: Dir, json: string): Page[] {
  const content = parseContent({ address: present(dir.address, 'the address of a directory'), json })
  if (content[0] === 0) {
    const entries = content[1]
    const names = entries.map((entry) => entry[0])
    const nodes = entries.map((entry) => decodeNode(entry[1]))
    dir.wide = names.some(needsUtf8Order)
    dir.pages = [new Page(undefined, names, nodes, names.at(-1) ?? '')]
  } else {
    dir.wide = content[2] === 1
    dir.pages = content[1].map(([last, address, hash]) => {
      const page = new Page(undefined, null, [], last)
      page.address = address
      page.hash = hash === 0 ? undefined : hash
      return page
    })
  }
  return dir.pages
}

function encodeBody(file: FileNode, put: Put): EncodedBody {
  const { body } = file
  if (body === undefined) return 0
  if (body instanceof BlobRef) return body.hash
  if (body instanceof UnloadedBody) return { address: body.address }
  const blocks = encodeBlocks(body)
  return hasMoreExtents(body, limits.inlineExtents) ? { address: put(JSON.stringify(blocks), file) } : blocks
}

export function encodeBlocks(body: BlockBody): EncodedBlocks {
  return body.chunks.map((chunk, index) => [itemAt(body.chunkNumbers, index), chunk.map(encodeBlock)])
}

function encodeBlock(block: Block): EncodedBlock {
  if (block === undefined) return 0
  if (block instanceof BlobRef) return [block.hash, block.length]
  const e = block.extents.map(
    ({ offset, length, blob, casOffset }) =>
      [offset, length, blob.hash, blob.length, casOffset] as [number, number, string, number, number],
  )
  return block.id === undefined ? { e } : { e, i: block.id }
}

function decodeBody(encoded: EncodedBody, size: number): Body {
  if (encoded === 0) return undefined
  if (typeof encoded === 'string') return BlobRef.stored(encoded, size)
  return Array.isArray(encoded) ? decodeBlocks(encoded) : new UnloadedBody(encoded.address)
}

function decodeBlocks(encoded: EncodedBlocks): LoadedBody {
  return new BlockBody(
    encoded.map(([number]) => number),
    encoded.map(([, blocks]) => blocks.map(decodeBlock)),
  )
}

/**
 * Loads the blocks of a file.
 *
 * @throws {EngineError} DATA_LOSS when the text is damaged; `body` does not change.
 */
export function decodeBlocksInto(body: UnloadedBody, json: string): void {
  body.body = decodeBlocks(parseBlocks({ address: body.address, json }))
}

function decodeBlock(encoded: EncodedBlock): Block {
  if (encoded === 0) return undefined
  if (Array.isArray(encoded)) return BlobRef.stored(encoded[0], encoded[1])
  const block = new ExtentBlock(
    encoded.e.map(([offset, length, hash, blobLength, casOffset]) => ({
      offset,
      length,
      blob: BlobRef.stored(hash, blobLength),
      casOffset,
    })),
  )
  block.id = encoded.i
  return block
}
