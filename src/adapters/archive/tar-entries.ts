import type { Buffer } from 'node:buffer'
import type { ByteReader } from './byte-reader.js'
import { invalidArchive, limitExceeded, truncated } from './errors.js'
import { archiveLimits } from './limits.js'
import type { Pacer } from './pacer.js'
import { paxSize, readPax, type PaxRecords } from './pax-records.js'
import { blockBytes, kindOfBlock, readHeader, textAt, type TarHeader } from './tar-header.js'

/** An entry with what pax records and long names say of it. */
export interface TarEntry extends TarHeader {
  readonly pax: PaxRecords
}

/**
 * The entries of a tar, one after the other. It never reads ahead: the content of an entry is what
 * {@link TarEntries.content} gives before the next entry is asked for.
 */
export class TarEntries {
  readonly #reader: ByteReader
  readonly #pacer: Pacer
  /** Records of global headers that make sense for several entries. */
  #global: PaxRecords = new Map()
  /** What is left of the content of the last entry, and the zeros that fill its last block. */
  #left = 0
  #padding = 0
  /** Of the last entry; undefined before the first header. */
  #name: string | undefined
  /** What stands ahead of the next entry, and what was too much of it in all. */
  #ahead = 0
  #aheadTotal = 0

  constructor(reader: ByteReader, pacer: Pacer) {
    this.#reader = reader
    this.#pacer = pacer
  }

  /** Undefined at the end of the archive. INVALID_ARCHIVE, LIMIT_EXCEEDED. */
  async next(): Promise<TarEntry | undefined> {
    await this.#skip()
    this.#ahead = 0
    let own: PaxRecords | undefined
    let longName = ''
    let longLinkName = ''
    let emptyBlocks = 0
    for (;;) {
      if (this.#pacer.due) await this.#pacer.rest()
      const block = await this.#reader.take(blockBytes)
      if (block.length < blockBytes) {
        const isExtended = own !== undefined || longName !== '' || longLinkName !== ''
        if (block.length > 0 || emptyBlocks < 2 || isExtended)
          throw this.#broken('the archive ends in the middle')
        return undefined
      }
      this.#passOver(blockBytes)
      const kind = kindOfBlock(block)
      if (kind === 'damaged') throw this.#broken('the checksum of a header is wrong')
      if (kind === 'empty') {
        emptyBlocks++
        continue
      }
      emptyBlocks = 0
      const header = readHeader(block)
      this.#name ??= header.name
      switch (header.type) {
        case 'x':
          own = readPax(await this.#extension(header))
          continue
        case 'g':
          this.#global = forSeveral(readPax(await this.#extension(header)))
          continue
        case 'L':
        case 'N':
          longName = textOf(await this.#extension(header))
          continue
        case 'K':
          longLinkName = textOf(await this.#extension(header))
          continue
      }
      const pax = own === undefined ? this.#global : new Map([...this.#global, ...own])
      return this.#begin(header, { longName, longLinkName, pax })
    }
  }

  /** The content of the last entry, in pieces that are valid until the next is asked for. */
  async *content(): AsyncGenerator<Buffer, void, undefined> {
    while (this.#left > 0) {
      if (this.#pacer.due) await this.#pacer.rest()
      const piece = await this.#reader.some(Math.min(this.#left, archiveLimits.pieceBytes))
      if (piece === undefined) throw truncated(this.#name)
      this.#left -= piece.length
      yield piece
    }
  }

  /** The content of the last entry as one, valid until the next call. */
  async whole(): Promise<Buffer> {
    const length = this.#left
    const content = await this.#reader.take(length)
    if (content.length < length) throw truncated(this.#name)
    this.#left = 0
    return content
  }

  #begin(
    header: TarHeader,
    {
      longName,
      longLinkName,
      pax,
    }: { readonly longName: string; readonly longLinkName: string; readonly pax: PaxRecords },
  ): TarEntry {
    const name = pax.get('path') || longName || header.name
    const linkName = pax.get('linkpath') || longLinkName || header.linkName
    const size = paxSize(pax, name) ?? header.size
    this.#aheadTotal += Math.max(this.#ahead - archiveLimits.commonAheadBytes, 0)
    if (this.#aheadTotal > archiveLimits.aheadTotalBytes)
      throw limitExceeded('the headers of the archive are too long together', archiveLimits.aheadTotalBytes)
    this.#name = name
    this.#left = size
    this.#padding = paddingOf(size)
    return { ...header, name, linkName, size, pax }
  }

  /** The content of a header that extends the next one. */
  async #extension({ name, size }: TarHeader): Promise<Buffer> {
    const length = size + paddingOf(size)
    this.#passOver(length)
    const content = await this.#reader.take(length)
    if (content.length < length) throw truncated(name)
    return content.subarray(0, size)
  }

  #passOver(bytes: number): void {
    this.#ahead += bytes
    if (this.#ahead > archiveLimits.aheadBytes)
      throw limitExceeded('what precedes an entry is too long', archiveLimits.aheadBytes)
  }

  /** Goes on behind what was left of the last entry. */
  async #skip(): Promise<void> {
    for await (const _ of this.content());
    const padding = this.#padding
    this.#padding = 0
    if (padding > 0 && (await this.#reader.take(padding)).length < padding) throw truncated(this.#name)
  }

  /** Without any header before, the content is no tar at all. */
  #broken(message: string): Error {
    return invalidArchive(
      this.#name === undefined ? 'the content is no tar, with or without gzip, and no zip' : message,
    )
  }
}

function paddingOf(size: number): number {
  return (blockBytes - (size % blockBytes)) % blockBytes
}

function textOf(content: Buffer): string {
  return textAt(content, 0, content.length)
}

/** A path or a size is that of one entry. */
function forSeveral(records: PaxRecords): PaxRecords {
  return new Map([...records].filter(([key]) => key !== 'path' && key !== 'linkpath' && key !== 'size'))
}
