import { Buffer } from 'node:buffer'
import { extract, type Header } from 'tar-stream'
import { abortable, type EntryAttributes, type TimeSlice } from '../../engine/ports.js'
import type { NextPiece } from './byte-reader.js'
import type { EntryGate } from './entry-gate.js'
import { checkDecoded, parseTarget } from './entry-name.js'
import { invalidArchive, limitExceeded, truncated } from './errors.js'
import { archiveLimits } from './limits.js'
import { TarFeed } from './tar-feed.js'
import { readXattrs, type PaxRecords } from './tar-xattrs.js'

export interface TarReading {
  readonly slice: TimeSlice
  /** Ends the read, even if the parser waits for content that never arrives. */
  readonly signal: AbortSignal
}

/**
 * Reads a tar to its end: POSIX with pax headers, GNU with long names, and older formats. Throws
 * INVALID_ARCHIVE if a header does not match its checksum, or if the tar does not end with two empty blocks
 * and only zeros after them.
 */
export async function readTar(next: NextPiece, gate: EntryGate, reading: TarReading): Promise<void> {
  const { slice, signal } = reading
  const tar = extract(options)
  const feed = new TarFeed(tar, next)
  let records = 0
  try {
    for await (const stream of abortable(tar, signal)) {
      if (slice.over) await slice.next()
      gate.count()
      const own = stream.header as Header | TarHeader as TarHeader
      checkNumbers(own)
      const globals = feed.begin(own.byteOffset, own.size, own.name)
      records += globals.size + (own.pax === null ? 0 : Object.keys(own.pax).length)
      if (records > archiveLimits.paxRecords)
        throw limitExceeded('the entries have too many pax records', archiveLimits.paxRecords, own.name)
      const header =
        globals.size === 0 ? own : { ...own, pax: { ...Object.fromEntries(globals), ...own.pax } }
      await readEntry(header, abortable(stream as AsyncIterable<Uint8Array>, signal), gate, slice)
    }
    feed.finish()
  } catch (error) {
    tar.destroy()
    signal.throwIfAborted()
    await feed.closed
    throw feed.failure === undefined ? error : feed.failure.error
  }
}

/** The tar format from before POSIX has no signature. */
const options: object = { allowUnknownFormat: true }

/** A header as returned by the library, whose own types are inexact. */
interface TarHeader extends Omit<Header, 'type' | 'linkname' | 'pax'> {
  /** Null for a type that the library does not know. */
  readonly type: Header['type'] | null
  readonly linkname: string | null
  readonly pax: PaxRecords | null
  /** The offset of the content. */
  readonly byteOffset: number
}

/**
 * Rejects invalid numbers. The library returns null for a base-256 number that it cannot read, NaN for text,
 * and -0 for a size of -1. If the size of an entry is null, the library waits for endless content.
 */
function checkNumbers({ name, size, mode, pax }: TarHeader): void {
  if (!isCount(size) || !/^\d{0,16}$/.test(pax?.['size'] ?? ''))
    throw invalidArchive('the size of an entry is damaged or out of range', name)
  if (!isCount(mode)) throw invalidArchive('the mode of an entry is damaged or out of range', name)
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)
}

async function readEntry(
  header: TarHeader,
  stream: AsyncIterable<Uint8Array>,
  gate: EntryGate,
  slice: TimeSlice,
): Promise<void> {
  const { name, size } = header
  const linkName = header.linkname ?? ''
  checkDecoded(name, 'a name', name)
  const attributes = attributesOf(header)
  const isFile = (header.type === 'file' || header.type === 'contiguous-file') && !name.endsWith('/')
  if (isFile) return readFile(name, contentOf(header, stream, slice), attributes, size, gate)
  if (size !== 0) throw invalidArchive('an entry that is not a file has content', name)
  switch (header.type) {
    // In tars from before POSIX, a directory is a file whose name ends with a slash.
    case 'file':
    case 'directory':
      return gate.directory(name, attributes)
    case 'link':
      checkDecoded(linkName, 'the name of a hard link', name)
      return gate.hardLink(name, linkName)
    case 'symlink':
      checkDecoded(linkName, 'the target of a symlink', name)
      return gate.symlink(name, parseTarget(Buffer.from(linkName), name), attributes)
    default:
      throw invalidArchive(`entries of the type ${header.type ?? 'unknown'} are not supported`, name)
  }
}

async function readFile(
  name: string,
  content: AsyncGenerator<Uint8Array>,
  attributes: EntryAttributes,
  size: number,
  gate: EntryGate,
): Promise<void> {
  if (size > archiveLimits.pieceBytes) {
    // A sink may stop reading early. These pieces have no `return`, because the library's `return` would end
    // the whole archive.
    const pieces = { [Symbol.asyncIterator]: () => ({ next: () => content.next() }) }
    await gate.file(name, pieces, attributes)
    while ((await content.next()).done !== true);
  } else {
    const pieces: Uint8Array[] = []
    for await (const piece of content) pieces.push(piece)
    await gate.file(name, Buffer.concat(pieces), attributes)
  }
}

async function* contentOf(
  { name, size }: TarHeader,
  stream: AsyncIterable<Uint8Array>,
  slice: TimeSlice,
): AsyncGenerator<Uint8Array> {
  let left = size
  for await (const piece of stream) {
    if (slice.over) await slice.next()
    left -= piece.length
    yield piece
  }
  if (left !== 0) throw truncated(name)
}

function attributesOf({ name, mode, mtime, pax }: TarHeader): EntryAttributes {
  const sparse = Object.keys(pax ?? {}).some((key) => key.startsWith('GNU.sparse.'))
  if (sparse) throw invalidArchive('sparse files of GNU tar are not supported', name)
  const mtimeMs = pax?.['mtime'] === undefined ? headerTime(mtime) : paxTime(pax['mtime'], name)
  if (!(Math.abs(mtimeMs) <= latestMs))
    throw invalidArchive('the time of an entry is damaged or out of range', name)
  const xattrs = pax === null ? undefined : readXattrs(pax)
  return { mode: mode & 0o7777, mtimeMs, ...(xattrs && { xattrs }) }
}

/** The latest time of a Date, in milliseconds since the epoch. */
const latestMs = 8.64e15

/** Returns milliseconds since the epoch. For negative times, the library's result is one second too high. */
function headerTime(time: Date): number {
  const ms = time.getTime()
  return ms < 0 ? ms - 1000 : ms
}

/** Parses seconds since the epoch, with fractions. Returns milliseconds. */
function paxTime(text: string, name: string): number {
  if (!/^-?\d{1,16}(\.\d*)?$/.test(text)) throw invalidArchive('the time of an entry is damaged', name)
  return Number(text) * 1000
}
