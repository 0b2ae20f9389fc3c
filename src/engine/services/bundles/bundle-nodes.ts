import { itemAt, onlyItem, present } from '../../base/present.js'
import { DigestTable } from '../../base/digest-table.js'
import { EngineError } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { BlobRef } from '../../cas/blob.js'
import { UnloadedBody, type BlockBody } from '../../cas/body.js'
import { ContentWriter } from '../../cas/content-writer.js'
import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import {
  decodeNode,
  encodeBlocks,
  encodeContent,
  encodeNode,
  encodePage,
  type Put,
} from '../../tree/codec.js'
import { Dir, FileNode, noAttributes, Page, type Attributes } from '../../tree/node.js'
import { peekBody, peekPage } from '../../tree/peek.js'

/** Facts about a received part of a tree. */
export interface NodeFacts {
  readonly kind: 'directory' | 'part' | 'blocks' | 'file'
  /** The number of levels of names in it. */
  readonly height: number
  /** Whether it contains a link, at any depth. */
  readonly linked: boolean
  readonly wide: boolean
  /** Whether it is a table of hard-linked files, or a part of one. */
  readonly table: boolean
}

/**
 * The contents and parts of trees received with a bundle, by their hashes and addresses in the bundle. It
 * finds only received parts, even if the store has others, because knowing a hash gives no right to the
 * content.
 */
export interface NodeVault {
  addBlob(hash: string, bytes: Uint8Array): void
  blob(hash: string, length: number): BlobRef | undefined
  facts(address: string): NodeFacts | undefined
  /** A directory that was received, with or without its pages. */
  directory(address: string, attributes: Attributes): Dir
  /** A part of a directory, with loaded names. */
  part(address: string): Promise<Page>
  body(address: string): Promise<BlockBody>
  /** The body in the form that a file stores. */
  bodyOf(address: string, body: BlockBody): BlockBody | UnloadedBody
  /** The page in the form that a directory with several pages stores. */
  keepPage(page: Page): Page
  /** Keeps a directory. If it has several pages, they must have been kept before. */
  keepDirectory(address: string, dir: Dir, facts: NodeFacts): void
  keepPart(address: string, page: Page, facts: NodeFacts): void
  keepBody(address: string, body: BlockBody, facts: NodeFacts): void
  /** A whole tree in the form to keep, without the parts that were loaded to check it. */
  unloaded(root: Dir): Dir
  /** Call this after each block. If it returns a promise, wait for it. */
  backpressure(): Promise<void> | undefined
  /** Resolves when everything received so far is stored. */
  flush(): Promise<void>
}

export function nodeVault(core: Core): NodeVault {
  return core.journal.kept(() => new StoredNodes(core)) ?? new MemoryNodes(core)
}

interface MemoryNode {
  readonly facts: NodeFacts
  readonly value: Dir | Page | BlockBody
}

/** Keeps the trees themselves, for a store that is not durable. */
class MemoryNodes implements NodeVault {
  readonly #writer: ContentWriter
  readonly #blobs = new Map<string, BlobRef>()
  readonly #nodes = new Map<string, MemoryNode>()

  constructor(core: Core) {
    this.#writer = new ContentWriter(core)
  }

  addBlob(hash: string, bytes: Uint8Array): void {
    if (!this.#blobs.has(hash)) this.#blobs.set(hash, this.#writer.takeHashed(hash, bytes))
    checkCount(this.#blobs.size, limits.bundleBlobs)
  }

  blob(hash: string, length: number): BlobRef | undefined {
    const blob = this.#blobs.get(hash)
    return blob?.length === length ? blob : undefined
  }

  facts(address: string): NodeFacts | undefined {
    return this.#nodes.get(address)?.facts
  }

  #node(address: string): MemoryNode {
    return present(this.#nodes.get(address), 'a node')
  }

  directory(address: string, attributes: Attributes): Dir {
    const { value, facts } = this.#node(address)
    const dir = new Dir(undefined, attributes, (value as Dir).pages)
    dir.wide = facts.wide
    dir.height = facts.height
    dir.linked = facts.linked
    return dir
  }

  part(address: string): Promise<Page> {
    return Promise.resolve(this.#node(address).value as Page)
  }

  body(address: string): Promise<BlockBody> {
    return Promise.resolve(this.#node(address).value as BlockBody)
  }

  bodyOf(_address: string, body: BlockBody): BlockBody {
    return body
  }

  keepPage(page: Page): Page {
    return page
  }

  keepDirectory(address: string, value: Dir, facts: NodeFacts): void {
    this.#keep(address, value, facts)
  }

  keepPart(address: string, value: Page, facts: NodeFacts): void {
    this.#keep(address, value, facts)
  }

  keepBody(address: string, value: BlockBody, facts: NodeFacts): void {
    this.#keep(address, value, facts)
  }

  #keep(address: string, value: Dir | Page | BlockBody, facts: NodeFacts): void {
    this.#nodes.set(address, { facts, value })
    checkCount(this.#nodes.size, limits.bundleNodes)
  }

  unloaded(root: Dir): Dir {
    return root
  }

  backpressure(): undefined {
    return undefined
  }

  flush(): Promise<void> {
    return this.#writer.flush()
  }
}

const kinds = ['directory', 'part', 'blocks', 'file'] as const
const addressBytes = 20
const hashBytes = 32
/** The length of a blob, and the digits of its hash that the table does not compare. */
const blobRecordBytes = 4 + hashBytes - addressBytes
/**
 * The kind, flags, height, address in the store, and for a directory with only one page the hash of that
 * page.
 */
const recordBytes = 1 + 1 + 2 + addressBytes + hashBytes
const storedAt = 4
const flags = { linked: 1, wide: 2, table: 4, hashed: 8 }

/** Stores the tree nodes in a durable store, and keeps their addresses in memory. */
class StoredNodes implements NodeVault {
  readonly #core: Core
  readonly #writer: ContentWriter
  readonly #blobs = new DigestTable(blobRecordBytes)
  readonly #nodes = new DigestTable(recordBytes)

  constructor(core: Core) {
    this.#core = core
    this.#writer = new ContentWriter(core)
  }

  addBlob(hash: string, bytes: Uint8Array): void {
    const record = this.#blobs.add(hash)
    if (record === undefined) return
    record.writeUInt32LE(bytes.byteLength)
    record.write(hash.slice(addressBytes * 2), 4, 'hex')
    this.#writer.takeHashed(hash, bytes)
    checkCount(this.#blobs.size, limits.bundleBlobs)
  }

  blob(hash: string, length: number): BlobRef | undefined {
    const record = this.#blobs.get(hash)
    if (record?.readUInt32LE() !== length) return undefined
    const isSame = record.toString('hex', 4) === hash.slice(addressBytes * 2)
    return isSame ? BlobRef.stored(hash, length) : undefined
  }

  facts(address: string): NodeFacts | undefined {
    const record = this.#nodes.get(address)
    if (record === undefined) return undefined
    const bits = record.readUInt8(1)
    return {
      kind: itemAt(kinds, record.readUInt8(0)),
      height: record.readUInt16LE(2),
      linked: (bits & flags.linked) !== 0,
      wide: (bits & flags.wide) !== 0,
      table: (bits & flags.table) !== 0,
    }
  }

  directory(address: string, attributes: Attributes): Dir {
    const { height, linked, wide } = present(this.facts(address), 'a directory')
    const hash = this.#pageHash(address)
    // The hash of the directory can be computed without the names in its page.
    const page = hash === undefined ? undefined : new Page(undefined, null, [], '')
    if (page !== undefined) page.hash = hash
    const dir = new Dir(undefined, attributes, page === undefined ? null : [page])
    dir.address = this.#storedAddress(address)
    dir.height = height
    dir.linked = linked
    dir.wide = wide
    return dir
  }

  async part(address: string): Promise<Page> {
    await this.flush()
    const page = new Page(undefined, null, [], '')
    page.address = this.#storedAddress(address)
    page.hash = this.#pageHash(address)
    const { names, nodes } = await peekPage(page, this.#core.loader)
    // The page that was loaded may be unloaded. The caller needs this one while it reads further parts.
    const part = new Page(undefined, names, nodes, itemAt(present(names, 'a loaded page'), -1))
    part.address = page.address
    part.hash = page.hash
    return part
  }

  async body(address: string): Promise<BlockBody> {
    await this.flush()
    const stored = new UnloadedBody(this.#storedAddress(address))
    return (await peekBody(new FileNode(noAttributes, 0, stored), this.#core.loader)) as BlockBody
  }

  bodyOf(address: string): UnloadedBody {
    // The files of a page may have many large bodies.
    return new UnloadedBody(this.#storedAddress(address))
  }

  keepPage(page: Page): Page {
    const kept = new Page(undefined, null, [], page.last)
    kept.address = page.address ?? this.#put(JSON.stringify(encodePage(page, this.#put)))
    kept.hash = page.hash
    return kept
  }

  keepDirectory(address: string, dir: Dir, facts: NodeFacts): void {
    const page = onlyItem(present(dir.pages, 'a new directory'))
    this.#keep(address, this.#put(encodeContent(dir, this.#put)), facts, page?.hash)
  }

  keepPart(address: string, page: Page, facts: NodeFacts): void {
    this.#keep(address, this.#put(JSON.stringify(encodePage(page, this.#put))), facts, page.hash)
  }

  keepBody(address: string, body: BlockBody, facts: NodeFacts): void {
    this.#keep(address, this.#put(JSON.stringify(encodeBlocks(body))), facts)
  }

  #keep(
    address: string,
    stored: string,
    { kind, height, linked, wide, table }: NodeFacts,
    hash?: string,
  ): void {
    const record = this.#nodes.add(address)
    if (record === undefined) return
    record[0] = kinds.indexOf(kind)
    record[1] =
      (linked ? flags.linked : 0) |
      (wide ? flags.wide : 0) |
      (table ? flags.table : 0) |
      (hash === undefined ? 0 : flags.hashed)
    record.writeUInt16LE(height, 2)
    record.write(stored, storedAt, 'hex')
    if (hash !== undefined) record.write(hash, storedAt + addressBytes, 'hex')
    checkCount(this.#nodes.size, limits.bundleNodes)
  }

  readonly #put: Put = (json) => {
    const address = sha256(json).slice(0, addressBytes * 2)
    this.#writer.record(keys.node(address), json)
    return address
  }

  #record(address: string): Buffer {
    return present(this.#nodes.get(address), 'a node')
  }

  #storedAddress(address: string): string {
    return this.#record(address).toString('hex', storedAt, storedAt + addressBytes)
  }

  #pageHash(address: string): string | undefined {
    const record = this.#record(address)
    if ((record.readUInt8(1) & flags.hashed) === 0) return undefined
    return record.toString('hex', storedAt + addressBytes, recordBytes)
  }

  unloaded(root: Dir): Dir {
    return decodeNode(encodeNode(root, () => '')) as Dir
  }

  backpressure(): Promise<void> | undefined {
    return this.#writer.backpressure()
  }

  flush(): Promise<void> {
    return this.#writer.flush()
  }
}

function checkCount(count: number, limit: number): void {
  if (count <= limit) return
  throw new EngineError(
    'LIMIT_EXCEEDED',
    `the bundle has over ${limit} blocks; an import reads at most that many`,
    { limit: String(limit) },
  )
}
