import { BlobRef } from '../cas/blob.js'
import { BlockBody, UnloadedBody, type Body } from '../cas/body.js'
import {
  parseBlocks,
  parseContent,
  parsePage,
  type EncodedBlocks,
  type EncodedEntry,
  type EncodedNode,
  type StoredNode,
} from './encoded.js'
import { Dir, FileNode, Link, Symlink, type Entry } from './node.js'

/** The kind of a stored node: a directory, one page of a large directory, or the blocks of a file. */
export type StoredKind = 'directory' | 'page' | 'blocks'

/** Receives the references of a node. */
export interface References {
  node(address: string, kind: StoredKind): void
  /** `length`: the number of bytes that the blob has at least, if known. */
  blob(hash: string, length?: number): void
}

/**
 * Reports the references of a stored node, without making node objects.
 *
 * @throws {EngineError} DATA_LOSS if the node is damaged.
 */
export function storedReferences(kind: StoredKind, node: StoredNode, references: References): void {
  if (kind === 'blocks') return blockReferences(parseBlocks(node), references)
  if (kind === 'page') return entryReferences(parsePage(node), references)
  const content = parseContent(node)
  if (content[0] === 0) entryReferences(content[1], references)
  else for (const [, address] of content[1]) references.node(address, 'page')
}

/**
 * The names and nodes of a directory or page; undefined for a directory whose entries are in pages.
 *
 * @throws {EngineError} DATA_LOSS if the node is damaged.
 */
export function nodeEntries(
  kind: 'directory' | 'page',
  node: StoredNode,
): readonly EncodedEntry[] | undefined {
  if (kind === 'page') return parsePage(node)
  const content = parseContent(node)
  return content[0] === 0 ? content[1] : undefined
}

function entryReferences(entries: readonly EncodedEntry[], references: References): void {
  for (const [, node] of entries) encodedReferences(node, references)
}

/** Reports the references of a node in the form that its parent or a record stores. */
export function encodedReferences(node: EncodedNode, references: References): void {
  if (node[0] === 'd') {
    references.node(node[6], 'directory')
    const extra = node[9]
    for (const [, hash, length] of extra?.x ?? []) references.blob(hash, length)
    if (extra?.t !== undefined) encodedReferences(extra.t, references)
  } else if (node[0] === 'f') {
    const body = node[7]
    if (typeof body === 'string') references.blob(body, node[6])
    else if (Array.isArray(body)) blockReferences(body, references)
    else if (body !== 0) references.node(body.address, 'blocks')
    for (const [, hash, length] of node[10]?.x ?? []) references.blob(hash, length)
  }
}

function blockReferences(chunks: EncodedBlocks, references: References): void {
  for (const [, blocks] of chunks) {
    for (const block of blocks) {
      if (block === 0) continue
      if ('e' in block) for (const [, , hash, length] of block.e) references.blob(hash, length)
      else references.blob(block[0], block[1])
    }
  }
}

/** Reports the references of a file in memory. For blocks that are not loaded, this is their node. */
export function fileReferences({ body, xattrs }: FileNode, references: References): void {
  for (const [, value] of xattrs ?? []) references.blob(value.hash)
  bodyReferences(body, references)
}

export function bodyReferences(body: Body, references: References): void {
  if (body instanceof BlobRef) references.blob(body.hash)
  else if (body instanceof UnloadedBody) {
    if (body.body !== null) bodyReferences(body.body, references)
    references.node(body.address, 'blocks')
  } else if (body instanceof BlockBody) {
    for (const blocks of body.chunks) {
      for (const block of blocks) {
        if (block instanceof BlobRef) references.blob(block.hash)
        else if (block !== undefined) for (const { blob } of block.extents) references.blob(blob.hash)
      }
    }
  }
}

/** Reports the direct references of a directory or page in memory. Directories are passed as objects. */
export function memoryReferences(
  entries: readonly Entry[],
  references: References & { directory(dir: Dir): void },
): void {
  for (const node of entries) {
    if (node instanceof Dir) references.directory(node)
    else if (node instanceof FileNode) fileReferences(node, references)
    else if (!(node instanceof Link || node instanceof Symlink)) throw new TypeError('no such entry')
  }
}
