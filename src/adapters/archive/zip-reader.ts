import type { Buffer } from 'node:buffer'
import { crc32, inflateRawSync } from 'node:zlib'
import type { Entry, ZipFile } from 'yauzl'
import { limits, type TimeSlice } from '../../engine/ports.js'
import type { EntryGate } from './entry-gate.js'
import { parseTarget } from './entry-name.js'
import { invalidArchive, limitExceeded } from './errors.js'
import { inflateEntry } from './inflate.js'
import { archiveLimits } from './limits.js'
import type { ZipContent } from './zip-content.js'
import { deflated, fromYauzl, readZipDirectory, type ZipEntry } from './zip-directory.js'

/**
 * Reads a zip or zip64. Supports stored and deflated entries, and the modes and symlinks of Unix. The central
 * directory lists the entries. It must match the local header that precedes each content.
 */
export async function readZip(content: ZipContent, gate: EntryGate, slice: TimeSlice): Promise<void> {
  const { zip, entries } = await readZipDirectory(content, slice)
  for (const entry of entries) {
    if (slice.over) await slice.next()
    gate.count()
    const start = await findContent(zip, entry)
    await giveEntry(entry, { content, start, end: start + entry.compressedSize }, gate, slice)
  }
}

/** The stored bytes of an entry. */
interface StoredRange {
  readonly content: ZipContent
  readonly start: number
  readonly end: number
}

async function giveEntry(
  entry: ZipEntry,
  range: StoredRange,
  gate: EntryGate,
  slice: TimeSlice,
): Promise<void> {
  const { name, kind, mode, mtimeMs, size } = entry
  if (kind === 'directory') {
    if (size !== 0) throw invalidArchive('an entry that is not a file has content', name)
    await gate.directory(name, { mode, mtimeMs })
  } else if (kind === 'symlink') {
    if (size > limits.pathBytes)
      throw limitExceeded('the target of a symlink is too long', limits.pathBytes, name)
    await gate.symlink(name, parseTarget(readWhole(entry, range), name), { mtimeMs })
  } else if (size <= archiveLimits.pieceBytes && entry.compressedSize <= 2 * archiveLimits.pieceBytes) {
    await gate.file(name, readWhole(entry, range), { mode, mtimeMs })
  } else {
    const pieces = new EntryContent(entry, range, slice)
    await gate.file(name, pieces, { mode, mtimeMs })
    await pieces.finish()
  }
}

/**
 * Returns the offset of the content of an entry. Throws INVALID_ARCHIVE if its local header belongs to
 * another entry.
 */
async function findContent(zip: ZipFile, entry: ZipEntry): Promise<number> {
  const { name } = entry
  const header = await fromYauzl(() => zip.readLocalFileHeaderPromise(entry as unknown as Entry), name)
  if (header.fileName.toString('latin1') !== entry.rawName)
    throw invalidArchive('the entry has another name in the central directory of the zip', name)
  if (header.compressionMethod !== entry.compressionMethod)
    throw invalidArchive('the entry has another compression method in the central directory of the zip', name)
  if (header.fileDataStart + entry.compressedSize > entry.end)
    throw invalidArchive('entries of the zip overlap', name)
  return header.fileDataStart
}

function readWhole(entry: ZipEntry, { content, start, end }: StoredRange): Uint8Array {
  const stored = content.copy(start, end)
  const bytes = entry.compressionMethod === deflated ? inflateWhole(entry, stored) : stored
  if (bytes.length !== entry.size) throw wrongSize(entry.name)
  if (crc32(bytes) !== entry.crc32) throw wrongSum(entry.name)
  return bytes
}

function inflateWhole({ name, size }: ZipEntry, stored: Buffer): Uint8Array {
  try {
    const { buffer, engine } = inflateRawSync(stored, {
      info: true,
      maxOutputLength: Math.max(1, size),
    }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } }
    if (engine.bytesWritten !== stored.length) throw wrongSize(name)
    // The result may be part of a larger buffer.
    return Uint8Array.from(buffer)
  } catch (error) {
    throw invalidArchive('the content does not inflate to the stated size', name, { cause: error })
  }
}

/**
 * The content of a large entry. It is checked while it is read. An error is thrown at its end at the latest.
 */
class EntryContent implements AsyncIterable<Uint8Array> {
  readonly #entry: ZipEntry
  readonly #range: StoredRange
  readonly #slice: TimeSlice
  #reading: AsyncGenerator<Uint8Array> | undefined

  constructor(entry: ZipEntry, range: StoredRange, slice: TimeSlice) {
    this.#entry = entry
    this.#range = range
    this.#slice = slice
  }

  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    return (this.#reading ??= this.#read())
  }

  /** Ends the read, because the sink may have stopped early. */
  async finish(): Promise<void> {
    await this.#reading?.return(undefined)
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    const { name, size, compressedSize, compressionMethod } = this.#entry
    let sum = 0
    let length = 0
    const stored = this.#stored()
    const pieces =
      compressionMethod === deflated
        ? inflateEntry(async () => (await stored.next()).value ?? undefined, {
            name,
            compressedBytes: compressedSize,
            size,
          })
        : stored
    for await (const piece of pieces) {
      if (this.#slice.over) await this.#slice.next()
      sum = crc32(piece, sum)
      length += piece.length
      yield piece
    }
    if (length !== size) throw wrongSize(name)
    if (sum !== this.#entry.crc32) throw wrongSum(name)
  }

  async *#stored(): AsyncGenerator<Uint8Array> {
    const { content, start, end } = this.#range
    for (const part of content.range(start, end)) yield Uint8Array.from(part)
  }
}

function wrongSize(name: string): Error {
  return invalidArchive('the content does not have the stated size', name)
}

function wrongSum(name: string): Error {
  return invalidArchive('the content does not have the stated checksum', name)
}
