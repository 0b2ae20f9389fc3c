import { itemAt } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import type { TimeSlice } from '../../base/cooperative.js'
import type { BlobRef } from '../../cas/blob.js'
import { normalize } from '../../cas/body-edit.js'
import {
  BlockBody,
  ExtentBlock,
  forEachExtent,
  hasMoreExtents,
  type Block,
  type Body,
  type Extent,
} from '../../cas/body.js'
import { asAddress, asHash, asInteger, asList, asObject, damaged } from './bundle-checks.js'
import type { NodeVault } from './bundle-nodes.js'

/** Reads the contents of files from the blocks of a bundle, and checks them completely. */
export class BodyReader {
  readonly #vault: NodeVault
  readonly #slice: TimeSlice

  constructor(vault: NodeVault, slice: TimeSlice) {
    this.#vault = vault
    this.#slice = slice
  }

  /** Takes a block of a bundle that has the blocks of a file, or a part of them. */
  takeBlocks(address: string, list: readonly unknown[]): void {
    if (list.length === 0) throw damaged('a list of blocks is empty')
    this.#vault.keepBody(address, this.#blockBody(list), { ...plain, kind: 'blocks' })
  }

  /** Takes a block of a bundle that lists the parts of a file's blocks. */
  async takeLists(address: string, parts: readonly string[]): Promise<void> {
    const blocks: [number, Block][] = []
    for (const part of parts) {
      if (this.#slice.over) await this.#slice.next()
      if (this.#vault.facts(part)?.kind !== 'blocks') throw damaged('a part of a list is missing')
      for (const block of numbered(await this.#vault.body(part))) {
        if ((blocks.at(-1)?.[0] ?? -1) >= block[0]) throw damaged('blocks are not in order')
        blocks.push(block)
      }
    }
    if (blocks.length === 0) throw damaged('a list is empty')
    this.#vault.keepBody(address, bodyOf(blocks), { ...plain, kind: 'file' })
  }

  /** The body of a file. */
  async body(value: unknown, size: number): Promise<Body> {
    if (value === 0) return undefined
    if (typeof value === 'string') return this.blob(value, size)
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

  blob(hash: unknown, length: number): BlobRef {
    const blob = this.#vault.blob(asHash(hash), length)
    if (blob === undefined) throw damaged('a content is missing or has another size')
    return blob
  }

  /** Rejects data after the end of a file. It would become visible when the file grows. */
  #within(body: BlockBody, size: number): BlockBody {
    forEachExtent(body, { from: size, to: Number.MAX_SAFE_INTEGER }, () => {
      throw damaged('a file has data past its size')
    })
    return body
  }

  #blockBody(list: readonly unknown[]): BlockBody {
    const blocks: [number, Block][] = []
    for (const item of list) {
      const [given, block] = asList(item)
      const number = asInteger(given, 0, lastBlock)
      if ((blocks.at(-1)?.[0] ?? -1) >= number) throw damaged('blocks are not in order')
      blocks.push([number, this.#block(asList(block, limits.extentsPerBlock))])
    }
    return bodyOf(blocks)
  }

  #block(value: readonly unknown[]): Block {
    const { blockBytes } = limits
    if (typeof value[0] === 'string') return this.blob(value[0], asInteger(value[1], 1, blockBytes))
    const extents: Extent[] = []
    let end = 0
    for (const item of value) {
      const [at, count, hash, blobLength, from] = asList(item)
      const offset = asInteger(at, end, blockBytes - 1)
      const length = asInteger(count, 1, blockBytes - offset)
      const blob = this.blob(hash, asInteger(blobLength, 1, blockBytes))
      extents.push({ offset, length, blob, casOffset: asInteger(from, 0, blob.length - length) })
      end = offset + length
    }
    if (extents.length === 0) throw damaged('a block is empty')
    return new ExtentBlock(extents)
  }
}

const plain = { height: 0, linked: false, wide: false, table: false }
const lastBlock = Math.floor(Number.MAX_SAFE_INTEGER / limits.blockBytes)

function bodyOf(blocks: readonly (readonly [number, Block])[]): BlockBody {
  const numbers: number[] = []
  const chunks: Block[][] = []
  for (const [block, content] of blocks) {
    const number = Math.floor(block / limits.blocksPerChunk)
    if (numbers.at(-1) !== number) {
      numbers.push(number)
      chunks.push([])
    }
    const chunk = itemAt(chunks, -1)
    while (chunk.length < block % limits.blocksPerChunk) chunk.push(undefined)
    chunk.push(content)
  }
  return new BlockBody(numbers, chunks)
}

function* numbered({ chunkNumbers, chunks }: BlockBody): Generator<[number, Block], void> {
  for (const [index, blocks] of chunks.entries()) {
    const start = itemAt(chunkNumbers, index) * limits.blocksPerChunk
    for (const [within, block] of blocks.entries()) if (block !== undefined) yield [start + within, block]
  }
}
