/**
 * The stored form of nodes, and a checked parser for their JSON. A directory of one page is one node: `[0,
 * entries]`. A larger directory is `[1, [[last, address, hash], …], wide]`, and each of its pages is a node
 * with its entries. The attributes of a directory are in its parent's entry, so that stat and manifest need
 * not load the directory.
 */
import { isNumber, isObject, isText } from '../base/checks.js'
import { EngineError, messageOf } from '../base/errors.js'

export type EncodedAttributes = [ino: number, mode: number, mtime: number, ctime: number, birthtime: number]
export type EncodedExtent = [
  offset: number,
  length: number,
  hash: string,
  blobLength: number,
  casOffset: number,
]
export type EncodedBlock = 0 | [hash: string, length: number] | { e: EncodedExtent[]; i?: string }
export type EncodedBlocks = [chunkNumber: number, blocks: EncodedBlock[]][]
export type EncodedBody = 0 | string | EncodedBlocks | { address: string }

/**
 * Rare fields of a node: extended attributes (`x`), whether a directory has links below it (`l`), the root's
 * table of links (`t`), the number of names of a file (`n`).
 */
export interface EncodedExtra {
  readonly x?: readonly (readonly [name: string, hash: string, length: number])[]
  readonly l?: 1
  readonly t?: EncodedDir
  readonly n?: number
}
export type EncodedDir = [
  'd',
  ...EncodedAttributes,
  address: string,
  hash: string | 0,
  height: number,
  extra?: EncodedExtra,
]
type EncodedFile = [
  'f',
  ...EncodedAttributes,
  size: number,
  body: EncodedBody,
  hash?: string | 0,
  contentId?: string | 0,
  extra?: EncodedExtra,
]
type EncodedSymlink = ['l', ino: number, target: string, mtime: number]
type EncodedLink = ['h', ino: number]
export type EncodedNode = EncodedDir | EncodedFile | EncodedSymlink | EncodedLink
export type EncodedEntry = [name: string, node: EncodedNode]
export type EncodedPage = [last: string, address: string, hash: string | 0]
export type EncodedContent = [0, EncodedEntry[]] | [1, EncodedPage[], wide: 0 | 1]

/** The JSON of a node, and its address. */
export interface StoredNode {
  readonly address: string
  readonly json: string
}

/**
 * Parses the entries or pages of a directory.
 *
 * @throws {EngineError} DATA_LOSS if the node is damaged.
 */
export function parseContent(node: StoredNode): EncodedContent {
  return parseNode(node, 'directory', isContent)
}

/**
 * Parses the entries of one page of a directory with several pages.
 *
 * @throws {EngineError} DATA_LOSS if the node is damaged.
 */
export function parsePage(node: StoredNode): EncodedEntry[] {
  return parseNode(node, 'page', isEntries)
}

/**
 * Parses the blocks of a file.
 *
 * @throws {EngineError} DATA_LOSS if the node is damaged.
 */
export function parseBlocks(node: StoredNode): EncodedBlocks {
  return parseNode(node, 'list of blocks', isBlocks)
}

function parseNode<T>({ address, json }: StoredNode, form: string, is: (value: unknown) => value is T): T {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (error) {
    throw damagedNode(address, `it is not JSON: ${messageOf(error)}`)
  }
  if (!is(value)) throw damagedNode(address, `it is not a ${form}`)
  return value
}

/** The error for a required node that is missing. */
export function missingNode(address: string): EngineError {
  return new EngineError('DATA_LOSS', `the stored tree node ${address} is missing`, { address })
}

function damagedNode(address: string, why: string): EngineError {
  return new EngineError('DATA_LOSS', `the stored tree node ${address} is damaged: ${why}`, { address })
}

function isContent(value: unknown): value is EncodedContent {
  if (!Array.isArray(value)) return false
  return value[0] === 0 ? isEntries(value[1]) : value[0] === 1 && isList(value[1], isPage)
}

function isEntries(value: unknown): value is EncodedEntry[] {
  return isList(value, isEntry)
}

function isEntry(value: unknown): boolean {
  return Array.isArray(value) && isText(value[0]) && isEncodedNode(value[1])
}

function isPage(value: unknown): boolean {
  return Array.isArray(value) && isText(value[0]) && isText(value[1]) && isHash(value[2])
}

/** Whether a value is a node in the form that its parent stores. */
export function isEncodedNode(value: unknown): value is EncodedNode {
  if (!Array.isArray(value)) return false
  switch (value[0]) {
    case 'f':
      return (
        hasAttributes(value) &&
        isNumber(value[6]) &&
        isBody(value[7]) &&
        isHash(value[8]) &&
        isHash(value[9]) &&
        isExtra(value[10])
      )
    case 'd':
      return isEncodedDir(value)
    case 'l':
      return isNumber(value[1]) && isText(value[2]) && isNumber(value[3])
    case 'h':
      return isNumber(value[1])
    default:
      return false
  }
}

/**
 * Whether a value is a directory in the form that its parent stores. A root in a record has the same form.
 */
export function isEncodedDir(value: unknown): value is EncodedDir {
  return (
    Array.isArray(value) &&
    value[0] === 'd' &&
    hasAttributes(value) &&
    isText(value[6]) &&
    isHash(value[7]) &&
    isNumber(value[8]) &&
    isExtra(value[9])
  )
}

function hasAttributes(node: readonly unknown[]): boolean {
  for (let i = 1; i <= 5; i++) if (!isNumber(node[i])) return false
  return true
}

/** Whether a value is a hash, or 0 or undefined for an unknown one. */
function isHash(value: unknown): boolean {
  return value === 0 || value === undefined || isText(value)
}

function isExtra(value: unknown): boolean {
  if (value === undefined) return true
  if (!isObject(value)) return false
  const { x, t, n } = value
  return (
    (x === undefined || isList(x, isXattr)) &&
    (t === undefined || isEncodedDir(t)) &&
    (n === undefined || isNumber(n))
  )
}

function isXattr(value: unknown): boolean {
  return Array.isArray(value) && isText(value[0]) && isText(value[1]) && isNumber(value[2])
}

function isBody(value: unknown): boolean {
  if (value === 0 || isText(value) || isBlocks(value)) return true
  return isObject(value) && isText(value['address'])
}

function isBlocks(value: unknown): value is EncodedBlocks {
  return isList(value, isChunk)
}

function isChunk(value: unknown): boolean {
  return Array.isArray(value) && isNumber(value[0]) && isList(value[1], isBlock)
}

function isBlock(value: unknown): boolean {
  if (value === 0) return true
  if (Array.isArray(value)) return isText(value[0]) && isNumber(value[1])
  return isObject(value) && isList(value['e'], isExtent) && (value['i'] === undefined || isText(value['i']))
}

function isExtent(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    isNumber(value[0]) &&
    isNumber(value[1]) &&
    isText(value[2]) &&
    isNumber(value[3]) &&
    isNumber(value[4])
  )
}

/** Uses a loop, because a page has up to 1,024 names and a chunk up to 1,024 blocks. */
function isList(value: unknown, isItem: (item: unknown) => boolean): value is readonly unknown[] {
  if (!Array.isArray(value)) return false
  for (let i = 0; i < value.length; i++) if (!isItem(value[i])) return false
  return true
}
