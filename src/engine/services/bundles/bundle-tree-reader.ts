import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { limits } from '../../base/limits.js'
import { compareUtf8, needsUtf8Order } from '../../base/order.js'
import { checkName } from '../../base/path.js'
import { runInSlices, TimeSlice } from '../../base/slices.js'
import type { BlobRef } from '../../cas/blob.js'
import { normalize } from '../../cas/body-edit.js'
import {
  BlockBody,
  ExtentBlock,
  forEachExtent,
  hasMoreExtents,
  UnloadedBody,
  type Block,
  type Body,
  type Extent,
} from '../../cas/body.js'
import { checkFileSize } from '../../cas/staging.js'
import type { Core } from '../../session/core.js'
import { manifestHash } from '../../session/manifest.js'
import { decodeNode, encodeNode } from '../../tree/codec.js'
import { hashTree } from '../../tree/hash.js'
import { isLinked } from '../../tree/links.js'
import {
  Dir,
  FileNode,
  Link,
  linkKey,
  LinkedFile,
  Page,
  Symlink,
  type Attributes,
  type Entry,
} from '../../tree/node.js'
import { endsPage } from '../../tree/page.js'
import { peekPage, peekPages } from '../../tree/peek.js'
import type { Xattr, Xattrs } from '../../tree/xattrs.js'
import {
  asAddress,
  asHash,
  asInteger,
  asList,
  asNumber,
  asObject,
  asText,
  checked,
  damaged,
  parseJson,
} from './bundle-checks.js'
import { treeKinds, type BundleState } from './bundle-format.js'
import { nodeVault, type NodeFacts, type NodeVault } from './bundle-nodes.js'
import type { BundleBlock } from './bundle-ports.js'

const addressDigits = 40

/**
 * Takes the trees of a bundle. What a block names must have come before it, so there are no circles and nothing is
 * missing. Nothing that can be worked out is taken from the bundle: hashes, heights, pages, order.
 */
export class TreeReader {
  readonly #core: Core
  readonly #vault: NodeVault
  readonly #slice: TimeSlice
  /** Directories without a file of one of the linked numbers, by their addresses in storage or themselves. */
  #unlinked = { inos: '', dirs: new Set<Dir | string>() }

  constructor(core: Core) {
    this.#core = core
    this.#vault = nodeVault(core)
    this.#slice = new TimeSlice(core.environment)
  }

  async take({ kind, hash, bytes }: BundleBlock): Promise<void> {
    if (kind === 'raw') this.#vault.addBlob(hash, bytes)
    else {
      const address = hash.slice(0, addressDigits)
      if (this.#vault.facts(address) !== undefined) return
      const [tag, list] = asList(parseJson(bytes))
      await this.#node(address, tag, asList(list))
    }
    await this.#vault.backpressure()
    if (this.#slice.over) await this.#slice.next()
  }

  /** Resolves when everything that came is stored. */
  flush(): Promise<void> {
    return this.#vault.flush()
  }

  /** A state, checked in full; what comes of it is frozen. */
  async state({ root: encoded, manifestHash: expected }: BundleState): Promise<Dir> {
    const value = asList(encoded)
    if (value[0] !== 'd') throw damaged('a tree has no root')
    const root = this.#directory(value)
    const { t: table } = asObject(value[7] ?? {})
    if (table !== undefined) {
      const address = asAddress(table)
      if (this.#vault.facts(address)?.kind !== 'directory') throw damaged('a table of links is missing')
      root.links = this.#vault.directory(address, noAttributes)
      root.links.linked = false
    }
    await this.flush()
    const { durable } = this.#core.store.capabilities
    const hash = root.linked ? undefined : await this.#hash(root)
    // As it is read from storage, so that what is looked at for checking is not kept.
    const frozen = durable ? (decodeNode(encodeNode(root, () => '')) as Dir) : root
    if (root.linked || root.links !== undefined) await this.#checkLinks(frozen)
    if ((hash ?? (await manifestHash(this.#core, frozen))) !== expected)
      throw damaged('a tree is not what the manifest says')
    return frozen
  }

  #node(address: string, kind: unknown, list: readonly unknown[]): Promise<void> {
    switch (kind) {
      case treeKinds.directory:
      case treeKinds.part:
        return this.#page(address, list, kind === treeKinds.directory)
      case treeKinds.blocks:
        return this.#blocks(address, list)
      case treeKinds.list: {
        const parts = list.map(asAddress)
        const [first] = parts
        const isPage = first !== undefined && this.#vault.facts(first)?.kind === 'part'
        return isPage ? this.#pages(address, parts) : this.#blockLists(address, parts)
      }
    }
    throw damaged('a block is of no known kind')
  }

  async #page(address: string, list: readonly unknown[], isWhole: boolean): Promise<void> {
    if (list.length > limits.namesPerPage || (list.length === 0 && !isWhole))
      throw damaged('a directory is cut in the wrong places')
    const names: string[] = []
    const nodes: Entry[] = []
    let previous: string | undefined
    for (const entry of list) {
      if (this.#slice.over) await this.#slice.next()
      const [given, node] = asList(entry)
      const name = asName(given)
      if (previous !== undefined) {
        if (compareUtf8(previous, name) >= 0) throw damaged('names are not in order')
        if (endsPage(previous)) throw damaged('a directory is cut in the wrong places')
      }
      previous = name
      names.push(name)
      nodes.push(await this.#entry(asList(node)))
    }
    const page = new Page(undefined, names, nodes, names.at(-1) ?? '')
    const facts = factsOf(page, isWhole ? 'directory' : 'part')
    await this.#hashPage(page, facts)
    if (isWhole) this.#vault.keepDirectory(address, directoryOf([page]), facts)
    else this.#vault.keepPart(address, page, facts)
  }

  /** The page's hash, or where links stand in it the hashes of all else. */
  async #hashPage(page: Page, { linked, table }: NodeFacts): Promise<void> {
    const { contentIds, loader } = this.#core
    if (page.nodes.some(mustBeRead)) await this.flush()
    if (!linked && !table) {
      await this.#hash(directoryOf([page]))
      return
    }
    for (const node of page.nodes) {
      if (this.#slice.over) await this.#slice.next()
      if (node instanceof FileNode) await whenLoaded(() => contentIds.contentId(node))
      else if (node instanceof Dir && !node.linked) {
        await runInSlices(hashTree(node, contentIds, loader), this.#core.environment)
      }
    }
  }

  #hash(dir: Dir): Promise<string> {
    const { contentIds, loader, environment } = this.#core
    return runInSlices(hashTree(dir, contentIds, loader), environment)
  }

  /** A directory of several parts: its pages end where they have to, and parts where they may. */
  async #pages(address: string, parts: readonly string[]): Promise<void> {
    let pages: Page[] = []
    const all: NodeFacts[] = []
    let whole: Page | undefined
    let open: Page[] = []
    let count = 0
    let last: string | undefined
    const close = async (): Promise<void> => {
      const page = open.length === 1 ? open[0]! : joined(open)
      if (open.length > 1) await this.#hashPage(page, factsOf(page, 'part'))
      whole = pages.length === 0 ? page : undefined
      pages.push(this.#vault.keepPage(page))
      open = []
      count = 0
    }
    for (const part of parts) {
      if (this.#slice.over) await this.#slice.next()
      const facts = this.#vault.facts(part)
      if (facts?.kind !== 'part') throw damaged('a part of a directory is missing')
      const page = await this.#vault.part(part)
      if (last !== undefined && compareUtf8(last, page.names![0]!) >= 0)
        throw damaged('names are not in order')
      last = page.last
      all.push(facts)
      open.push(page)
      count += page.names!.length
      if (count > limits.namesPerPage) throw damaged('a directory is cut in the wrong places')
      if (count === limits.namesPerPage || endsPage(page.last)) await close()
      await this.#vault.backpressure()
    }
    if (open.length > 0) await close()
    const facts: NodeFacts = {
      kind: 'directory',
      height: all.reduce((height, one) => Math.max(height, one.height), 0),
      linked: all.some(({ linked }) => linked),
      wide: all.some(({ wide }) => wide),
      table: all.some(({ table }) => table),
    }
    if (whole !== undefined) pages = [whole]
    const dir = directoryOf(pages)
    dir.wide = facts.wide
    this.#vault.keepDirectory(address, dir, facts)
  }

  async #entry(value: readonly unknown[]): Promise<Entry> {
    switch (value[0]) {
      case 'f':
        return this.#file(value)
      case 'd': {
        const dir = this.#directory(value)
        if (dir.height >= limits.pathDepth) throw damaged('a tree is too deep')
        return dir
      }
      case 'l': {
        const target = asText(value[2], limits.pathBytes)
        if (target === '' || target.includes('\0')) throw damaged('a symlink leads nowhere')
        return new Symlink(asIno(value[1]), target, asNumber(value[3]))
      }
      case 'h':
        return new Link(asIno(value[1]))
    }
    throw damaged('an entry is of no known kind')
  }

  #directory(value: readonly unknown[]): Dir {
    const address = asAddress(value[6])
    const facts = this.#vault.facts(address)
    if (facts?.kind !== 'directory' || facts.table) throw damaged('a directory is missing')
    return this.#vault.directory(address, this.#attributes(value, value[7]))
  }

  async #file(value: readonly unknown[]): Promise<FileNode> {
    const size = asInteger(value[6], 0)
    checkFileSize(size, this.#core.maxFileBytes)
    const attributes = this.#attributes(value, value[8])
    const file = new FileNode(attributes, size, await this.#body(value[7], size))
    const { n } = asObject(value[8] ?? {})
    return n === undefined ? file : new LinkedFile(file, asInteger(n, 1))
  }

  #attributes(value: readonly unknown[], extra: unknown): Attributes {
    return {
      ino: asIno(value[1]),
      mode: asInteger(value[2], 0, 0o7777),
      mtime: asNumber(value[3]),
      ctime: asNumber(value[4]),
      birthtime: asNumber(value[5]),
      xattrs: this.#xattrs(asObject(extra ?? {})['x']),
    }
  }

  #xattrs(value: unknown): Xattrs | undefined {
    if (value === undefined) return undefined
    const xattrs: Xattr[] = []
    for (const item of asList(value, limits.xattrsPerNode)) {
      const [given, hash, length] = asList(item)
      const name = asText(given, limits.xattrNameBytes)
      const last = xattrs.at(-1)
      if (name === '' || name.includes('\0') || (last !== undefined && last[0] >= name))
        throw damaged('extended attributes are not in order')
      xattrs.push([name, this.#blob(hash, asInteger(length, 0, limits.xattrValueBytes))])
    }
    return xattrs.length === 0 ? undefined : xattrs
  }

  async #body(value: unknown, size: number): Promise<Body> {
    if (value === 0) return undefined
    if (typeof value === 'string') return this.#blob(value, size)
    if (Array.isArray(value)) {
      return normalize(this.#within(this.#blockBody(asList(value, limits.inlineExtents)), size), size)
    }
    const address = asAddress(asObject(value)['b'])
    const kind = this.#vault.facts(address)?.kind
    if (kind !== 'blocks' && kind !== 'file') throw damaged('the content of a file is missing')
    const body = this.#within(await this.#vault.body(address), size)
    return hasMoreExtents(body, limits.inlineExtents)
      ? this.#vault.bodyOf(address, body)
      : normalize(body, size)
  }

  /** Data behind the end of a file would come to light when the file grows. */
  #within(body: BlockBody, size: number): BlockBody {
    forEachExtent(body, { from: size, to: Number.MAX_SAFE_INTEGER }, () => {
      throw damaged('a file is longer than its size')
    })
    return body
  }

  async #blocks(address: string, list: readonly unknown[]): Promise<void> {
    if (list.length === 0) throw damaged('a list of blocks is empty')
    this.#vault.keepBody(address, this.#blockBody(list), { ...plain, kind: 'blocks' })
  }

  async #blockLists(address: string, parts: readonly string[]): Promise<void> {
    const blocks: [number, Block][] = []
    for (const part of parts) {
      if (this.#slice.over) await this.#slice.next()
      if (this.#vault.facts(part)?.kind !== 'blocks') throw damaged('a part of a list is missing')
      for (const block of numbered(await this.#vault.body(part))) {
        if (blocks.length > 0 && blocks.at(-1)![0] >= block[0]) throw damaged('blocks are not in order')
        blocks.push(block)
      }
    }
    if (blocks.length === 0) throw damaged('a list is empty')
    this.#vault.keepBody(address, bodyOf(blocks), { ...plain, kind: 'file' })
  }

  #blockBody(list: readonly unknown[]): BlockBody {
    const blocks: [number, Block][] = []
    for (const item of list) {
      const [given, block] = asList(item)
      const number = asInteger(given, 0, lastBlock)
      if (blocks.length > 0 && blocks.at(-1)![0] >= number) throw damaged('blocks are not in order')
      blocks.push([number, this.#block(asList(block, limits.extentsPerBlock))])
    }
    return bodyOf(blocks)
  }

  #block(value: readonly unknown[]): Block {
    const { blockBytes } = limits
    if (typeof value[0] === 'string') return this.#blob(value[0], asInteger(value[1], 1, blockBytes))
    const extents: Extent[] = []
    let end = 0
    for (const item of value) {
      const [at, count, hash, blobLength, from] = asList(item)
      const offset = asInteger(at, end, blockBytes - 1)
      const length = asInteger(count, 1, blockBytes - offset)
      const blob = this.#blob(hash, asInteger(blobLength, 1, blockBytes))
      extents.push({ offset, length, blob, casOffset: asInteger(from, 0, blob.length - length) })
      end = offset + length
    }
    if (extents.length === 0) throw damaged('a block is empty')
    return new ExtentBlock(extents)
  }

  #blob(hash: unknown, length: number): BlobRef {
    const blob = this.#vault.blob(asHash(hash), length)
    if (blob === undefined) throw damaged('a content is missing, or of another size')
    return blob
  }

  /** Each link leads to a file of the table, which has as many names as it says, and no file beside it its number. */
  async #checkLinks(root: Dir): Promise<void> {
    const expected = await this.#table(root.links)
    const inos = [...expected.keys()].toSorted((a, b) => a - b).join(' ')
    if (this.#unlinked.inos !== inos) this.#unlinked = { inos, dirs: new Set() }
    const found = new Map<number, number>()
    const stack: Dir[] = [root]
    for (let dir = stack.pop(); dir !== undefined; dir = stack.pop()) {
      const key = dir.address ?? dir
      if (!dir.linked && this.#unlinked.dirs.has(key)) continue
      for await (const node of this.#nodes(dir)) {
        if (node instanceof Dir) stack.push(node)
        else if (node instanceof Link) found.set(node.ino, (found.get(node.ino) ?? 0) + 1)
        else if (expected.has(node.ino)) throw damaged('two files have one number')
      }
      if (!dir.linked) this.#unlinked.dirs.add(key)
    }
    if (found.size !== expected.size) throw damaged('a link leads nowhere')
    for (const [ino, count] of found) if (expected.get(ino) !== count) throw damaged('links were miscounted')
  }

  async #table(links: Dir | undefined): Promise<Map<number, number>> {
    const expected = new Map<number, number>()
    if (links === undefined) return expected
    for await (const node of this.#nodes(links, (name, { ino }) => name === linkKey(ino))) {
      if (!(node instanceof LinkedFile)) throw damaged('a table of links holds something else')
      expected.set(node.ino, node.nlink)
      if (expected.size > limits.bundleLinkedFiles) {
        throw new EngineError('LIMIT_EXCEEDED', 'a tree of the bundle has too many files of several names', {
          limit: String(limits.bundleLinkedFiles),
        })
      }
    }
    return expected
  }

  async *#nodes(
    dir: Dir,
    isNamed: (name: string, node: Entry) => boolean = () => true,
  ): AsyncGenerator<Entry, void> {
    const { loader } = this.#core
    for (const page of await peekPages(dir, loader)) {
      const { names, nodes } = await peekPage(page, loader)
      for (const [index, node] of nodes.entries()) {
        if (!isNamed(names![index]!, node)) throw damaged('a table of links is not in order')
        yield node
      }
      if (this.#slice.over) await this.#slice.next()
    }
  }
}

const noAttributes: Attributes = { ino: 0, mode: 0, mtime: 0, ctime: 0, birthtime: 0 }
const plain = { height: 0, linked: false, wide: false, table: false }
const lastBlock = Math.floor(Number.MAX_SAFE_INTEGER / limits.blockBytes)

function asIno(value: unknown): number {
  return asInteger(value, 1)
}

function asName(value: unknown): string {
  const name = asText(value, limits.nameBytes)
  checked(() => checkName(name))
  if (name.includes('/')) throw damaged('a name contains a slash')
  return name
}

function factsOf({ names, nodes }: Page, kind: NodeFacts['kind']): NodeFacts {
  let height = 0
  for (const node of nodes) height = Math.max(height, 1 + (node instanceof Dir ? node.height : 0))
  return {
    kind,
    height,
    linked: nodes.some(isLinked),
    wide: names!.some(needsUtf8Order),
    table: nodes.some((node) => node instanceof LinkedFile),
  }
}

/** Whether the page's hash takes more than what came with the page. */
function mustBeRead(node: Entry): boolean {
  if (node instanceof Dir) return node.pages === null
  return node instanceof FileNode && (node.body instanceof BlockBody || node.body instanceof UnloadedBody)
}

function directoryOf(pages: Page[]): Dir {
  return new Dir(undefined, noAttributes, pages)
}

function joined(parts: readonly Page[]): Page {
  const names = parts.flatMap((part) => part.names!)
  return new Page(
    undefined,
    names,
    parts.flatMap((part) => part.nodes),
    names.at(-1)!,
  )
}

function bodyOf(blocks: readonly (readonly [number, Block])[]): BlockBody {
  const numbers: number[] = []
  const chunks: Block[][] = []
  for (const [block, content] of blocks) {
    const number = Math.floor(block / limits.blocksPerChunk)
    if (numbers.at(-1) !== number) {
      numbers.push(number)
      chunks.push([])
    }
    const chunk = chunks.at(-1)!
    while (chunk.length < block % limits.blocksPerChunk) chunk.push(undefined)
    chunk.push(content)
  }
  return new BlockBody(numbers, chunks)
}

function* numbered({ chunkNumbers, chunks }: BlockBody): Generator<[number, Block], void> {
  for (const [index, blocks] of chunks.entries()) {
    for (const [within, block] of blocks.entries())
      if (block !== undefined) yield [chunkNumbers[index]! * limits.blocksPerChunk + within, block]
  }
}
