import { Buffer } from 'node:buffer'
import { itemAt, onlyItem, present } from '../../base/present.js'
import { DigestTable } from '../../base/digest-table.js'
import { EngineError } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { BlobRef } from '../../cas/blob.js'
import { hasMoreExtents, type BlockBody, type LoadedBody } from '../../cas/body.js'
import type { Core } from '../../session/core.js'
import { Dir, Link, LinkedFile, Symlink, type Entry, type FileNode, type Page } from '../../tree/node.js'
import { peekBody, peekPage, peekPages } from '../../tree/peek.js'
import type { Xattrs } from '../../tree/xattrs.js'
import {
  treeKinds,
  type BundleBlockEntry,
  type BundleBody,
  type BundleDirectory,
  type BundleExtent,
  type BundleExtra,
  type BundleNode,
} from './bundle-format.js'

/** A content whose bytes have not been read yet, or a node of a tree. */
export type TreeBlock = BlobRef | { readonly hash: string; readonly bytes: Buffer }

interface PageContent {
  readonly names: readonly string[]
  readonly nodes: readonly Entry[]
}

/** A directory in progress. Everything below it is written first. */
interface Frame {
  readonly dir: Dir
  readonly pages: readonly Page[]
  index: number
  /** The page at `index`, with its names. */
  page: PageContent | undefined
  /** Directories in that page that may not have been written yet. */
  waiting: Dir[]
  /** The addresses of the parts written so far. */
  readonly parts: string[]
}

/**
 * Converts frozen trees to the blocks of a bundle. Each block is written once, even if several trees have it.
 * The blocks of a tree depend only on its contents, not on its history, its place in storage or its loaded
 * parts.
 */
export class TreeWriter {
  readonly #core: Core
  readonly #nodes = new DigestTable()
  readonly #blobs = new DigestTable()
  /**
   * Addresses in the bundle of written directories, by the address in storage, or by the directory if it has
   * none.
   */
  readonly #directories = new Map<Dir | string, string>()
  readonly #pages = new Map<Page | string, readonly string[]>()
  readonly #slice: TimeSlice
  readonly #keys = new WeakMap<Dir, Dir | string>()
  /** Blocks that have been made and not yet yielded. */
  #made: TreeBlock[] = []

  constructor(core: Core) {
    this.#core = core
    this.#slice = new TimeSlice(core.environment)
  }

  /** The number of blocks so far. */
  get count(): number {
    return this.#nodes.size + this.#blobs.size
  }

  /** Yields the blocks of a tree that have not been yielded before, and returns the entry for its root. */
  async *write(root: Dir): AsyncGenerator<TreeBlock, BundleDirectory> {
    if (root.links !== undefined) yield* this.#directory(root.links)
    yield* this.#directory(root)
    const encoded = this.#encodeDirectory(root)
    yield* this.#take()
    return encoded
  }

  async *#directory(root: Dir): AsyncGenerator<TreeBlock, void> {
    // Not recursive, because a tree may be as deep as paths allow.
    const stack: Frame[] = []
    if (!this.#directories.has(this.#keyOf(root))) stack.push(await this.#open(root))
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const child = top.waiting.pop()
      if (child !== undefined) {
        if (!this.#directories.has(this.#keyOf(child))) stack.push(await this.#open(child))
        continue
      }
      if (top.page !== undefined) {
        yield* this.#page(top, top.page)
        top.page = undefined
        top.index++
      }
      await this.#nextPage(top)
      if (top.index < top.pages.length) continue
      const whole = top.pages.length === 1 ? onlyItem(top.parts) : undefined
      this.#directories.set(this.#keyOf(top.dir), whole ?? this.#list(top.parts))
      yield* this.#take()
      stack.pop()
    }
  }

  async #open(dir: Dir): Promise<Frame> {
    const pages = await peekPages(dir, this.#core.loader)
    const frame: Frame = { dir, pages, index: 0, page: undefined, waiting: [], parts: [] }
    await this.#nextPage(frame)
    return frame
  }

  /** Moves to the next page that has not been written before. */
  async #nextPage(frame: Frame): Promise<void> {
    for (; frame.index < frame.pages.length && frame.page === undefined; frame.index++) {
      const page = itemAt(frame.pages, frame.index)
      const known = frame.pages.length === 1 ? undefined : this.#pages.get(page.address ?? page)
      if (known === undefined) {
        const { names, nodes } = await peekPage(page, this.#core.loader)
        // The page itself may be unloaded before it is written.
        frame.page = { names: present(names, 'a loaded page'), nodes }
        frame.waiting = frame.page.nodes.filter((node) => node instanceof Dir)
        return
      }
      frame.parts.push(...known)
    }
  }

  async *#page(
    { pages, index, parts }: Frame,
    { names, nodes }: PageContent,
  ): AsyncGenerator<TreeBlock, void> {
    const entries: string[] = []
    const written: string[] = []
    let length = 0
    const cut = (kind: string): void => {
      written.push(this.#node(kind, entries.join(',')))
      entries.length = 0
      length = 0
    }
    for (const [at, name] of names.entries()) {
      const entry = JSON.stringify([name, await this.#encode(itemAt(nodes, at))])
      yield* this.#take()
      if (length + entry.length > limits.bundlePieceBytes && length > 0) cut(treeKinds.part)
      entries.push(entry)
      length += entry.length
    }
    cut(pages.length === 1 && written.length === 0 ? treeKinds.directory : treeKinds.part)
    yield* this.#take()
    const page = itemAt(pages, index)
    if (pages.length > 1) this.#pages.set(page.address ?? page, written)
    for (const part of written) parts.push(part)
  }

  async #encode(node: Entry): Promise<BundleNode> {
    if (this.#slice.over) await this.#slice.next()
    if (node instanceof Link) return ['h', node.ino]
    if (node instanceof Symlink) return ['l', node.ino, node.target, node.mtime]
    if (node instanceof Dir) return this.#encodeDirectory(node)
    const { ino, mode, mtime, ctime, birthtime, size } = node
    const body = await this.#body(node)
    const extra = {
      ...this.#xattrs(node.xattrs),
      ...(node instanceof LinkedFile && { n: node.nlink }),
    }
    return ['f', ino, mode, mtime, ctime, birthtime, size, body, ...optional(extra)]
  }

  /**
   * Directories with the same address have the same contents, so the address is the key. A directory may get an address, or
   * lose one, while the tree is read, so it keeps its first key.
   */
  #keyOf(dir: Dir): Dir | string {
    const known = this.#keys.get(dir)
    if (known !== undefined) return known
    const key = dir.address ?? dir
    this.#keys.set(dir, key)
    return key
  }

  #written(dir: Dir): string {
    return present(this.#directories.get(this.#keyOf(dir)), 'a written directory')
  }

  #encodeDirectory(dir: Dir): BundleDirectory {
    const { ino, mode, mtime, ctime, birthtime, links } = dir
    const extra = {
      ...this.#xattrs(dir.xattrs),
      ...(links !== undefined && { t: this.#written(links) }),
    }
    const content = this.#written(dir)
    return ['d', ino, mode, mtime, ctime, birthtime, content, ...optional(extra)]
  }

  #xattrs(xattrs: Xattrs | undefined): BundleExtra | undefined {
    return xattrs && { x: xattrs.map(([name, value]) => [name, this.#blob(value), value.length]) }
  }

  async #body(file: FileNode): Promise<BundleBody> {
    const body: LoadedBody = await peekBody(file, this.#core.loader)
    if (body === undefined) return 0
    if (body instanceof BlobRef) return this.#blob(body)
    const inline: BundleBlockEntry[] = []
    const isInline = !hasMoreExtents(body, limits.inlineExtents)
    const lists: string[] = []
    let entries: string[] = []
    let length = 0
    const cut = (): void => {
      lists.push(this.#node(treeKinds.blocks, entries.join(',')))
      entries = []
      length = 0
    }
    for await (const entry of this.#blocks(body)) {
      if (isInline) inline.push(entry)
      else {
        const text = JSON.stringify(entry)
        entries.push(text)
        length += text.length
        if (length > limits.bundlePieceBytes) cut()
      }
    }
    if (isInline) return inline
    if (entries.length > 0) cut()
    return { b: onlyItem(lists) ?? this.#list(lists) }
  }

  async *#blocks(body: BlockBody): AsyncGenerator<BundleBlockEntry, void> {
    for (const [index, blocks] of body.chunks.entries()) {
      const start = itemAt(body.chunkNumbers, index) * limits.blocksPerChunk
      for (const [within, block] of blocks.entries()) {
        if (this.#slice.over) await this.#slice.next()
        if (block instanceof BlobRef) yield [start + within, [this.#blob(block), block.length]]
        else if (block !== undefined) {
          const extents: BundleExtent[] = []
          for (const { offset, length, blob, casOffset } of block.extents) {
            // The next line may have to compute the hash of the blob.
            if (this.#slice.over) await this.#slice.next()
            extents.push([offset, length, this.#blob(blob), blob.length, casOffset])
          }
          yield [start + within, extents]
        }
      }
    }
  }

  #blob(blob: BlobRef): string {
    const { hash } = blob
    if (this.#blobs.add(hash) !== undefined) this.#made.push(blob)
    if (this.#blobs.size > limits.bundleBlobs) throw tooMany('contents', limits.bundleBlobs)
    return hash
  }

  #list(addresses: readonly string[]): string {
    return this.#node(treeKinds.list, addresses.map((address) => `"${address}"`).join(','))
  }

  #node(kind: string, items: string): string {
    const bytes = Buffer.from(`["${kind}",[${items}]]`)
    if (bytes.length > limits.bundleNodeBytes) throw tooMany('bytes in one node', limits.bundleNodeBytes)
    const hash = sha256(bytes)
    if (this.#nodes.add(hash) !== undefined) this.#made.push({ hash, bytes })
    if (this.#nodes.size > limits.bundleNodes) throw tooMany('nodes', limits.bundleNodes)
    return hash.slice(0, addressDigits)
  }

  #take(): readonly TreeBlock[] {
    const made = this.#made
    if (made.length > 0) this.#made = []
    return made
  }
}

const addressDigits = 40

function optional(extra: BundleExtra): [] | [BundleExtra] {
  return Object.keys(extra).length === 0 ? [] : [extra]
}

function tooMany(what: string, limit: number): EngineError {
  const message = `the session is too large for a bundle: it has over ${limit} ${what}`
  return new EngineError('LIMIT_EXCEEDED', message, { limit: String(limit) })
}
