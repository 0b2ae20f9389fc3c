import { isUtf8 } from 'node:buffer'
import yauzl, { type Entry, type ZipFile } from 'yauzl'
import { itemAt, type TimeSlice } from '../../engine/ports.js'
import { unsafePath, invalidArchive, limitExceeded } from './errors.js'
import { checkGrowth } from './inflate.js'
import { archiveLimits } from './limits.js'
import type { ZipContent } from './zip-content.js'

/** One entry of the central directory of a zip. */
export interface ZipEntry {
  readonly name: string
  /** The bytes of the name as latin-1, one character per byte. */
  readonly rawName: string
  readonly kind: 'directory' | 'file' | 'symlink'
  readonly mode: number
  readonly mtimeMs: number
  readonly compressionMethod: number
  readonly compressedSize: number
  readonly size: number
  readonly crc32: number
  /** The offset of the local header. The library needs this name. */
  readonly relativeOffsetOfLocalHeader: number
  /**
   * The offset of the next entry, or of the directory. The bytes of this entry must end before this offset.
   */
  end: number
}

/**
 * Reads the entries of a zip, in the order of its directory. Throws INVALID_ARCHIVE if they overlap or a size
 * is wrong.
 */
export async function readZipDirectory(
  content: ZipContent,
  slice: TimeSlice,
): Promise<{ zip: ZipFile; entries: ZipEntry[] }> {
  // Names are decoded by `nameOf`, which can reject invalid UTF-8.
  const options = { decodeStrings: false, autoClose: false }
  const zip = await fromYauzl(() => yauzl.fromRandomAccessReaderPromise(content, content.length, options))
  if (zip.entryCount > archiveLimits.zipEntries)
    throw limitExceeded('the zip has too many entries', archiveLimits.zipEntries)
  const start = cursorOf(zip)
  const entries: ZipEntry[] = []
  const records = zip.eachEntry()
  let size = 0
  let nameBytes = 0
  for (;;) {
    const record = await fromYauzl(() => records.next())
    if (record.done === true) break
    const entry = describe(record.value)
    entries.push(entry)
    size += entry.size
    checkGrowth(size, content.length)
    nameBytes += entry.rawName.length
    if (nameBytes > archiveLimits.pathBytes)
      throw limitExceeded('the paths of the archive have too many bytes', archiveLimits.pathBytes)
    if (slice.over) await slice.next()
  }
  if (cursorOf(zip) !== endOfDirectory(zip, content))
    throw invalidArchive('the end record of the zip does not match its central directory')
  await separate(entries, start, slice)
  return { zip, entries }
}

/** Converts errors of the library to INVALID_ARCHIVE. */
export async function fromYauzl<T>(act: () => Promise<T>, name?: string): Promise<T> {
  try {
    return await act()
  } catch (error) {
    const { message } = error as Error
    throw invalidArchive(`the zip is damaged: ${message}`, name, { cause: error })
  }
}

/**
 * Returns the offset at which the library reads the next entry of the directory. The library's types are
 * wrong here.
 */
function cursorOf(zip: ZipFile): number {
  return zip.readEntryCursor as unknown as number
}

/**
 * Returns the offset of the end of the directory. The zip64 end record follows it or, if there is none, the
 * plain end record.
 */
function endOfDirectory(zip: ZipFile, content: ZipContent): number {
  const end = content.length - endRecordBytes - zip.comment.length
  if (end < locatorBytes) return end
  const locator = content.copy(end - locatorBytes, end)
  return locator.readUInt32LE(0) === locatorSignature ? Number(locator.readBigUInt64LE(8)) : end
}

const endRecordBytes = 22
const locatorBytes = 20
const locatorSignature = 0x07064b50

function describe(entry: Entry): ZipEntry {
  const name = nameOf(entry)
  if (name.includes('\\')) throw unsafePath('a name contains a backslash', name)
  if (/^[a-z]:($|\/)/i.test(name)) throw unsafePath('a path is absolute', name)
  if ((entry.generalPurposeBitFlag & unreadableFlags) !== 0)
    throw invalidArchive('encrypted and patched entries are not supported', name)
  const { compressionMethod } = entry
  if (compressionMethod !== 0 && compressionMethod !== deflated)
    throw invalidArchive(`compression method ${compressionMethod} is not supported`, name)
  const rawName = entry.fileNameRaw.toString('latin1')
  return {
    name,
    // If both are equal, they share one string.
    rawName: rawName === name ? name : rawName,
    ...modeOf(entry, name),
    // The time has no zone. It is read as UTC on every machine.
    mtimeMs: entry.getLastModDate({ timezone: 'UTC' }).getTime() || 0,
    compressionMethod,
    compressedSize: entry.compressedSize,
    size: entry.uncompressedSize,
    crc32: entry.crc32,
    relativeOffsetOfLocalHeader: entry.relativeOffsetOfLocalHeader,
    end: 0,
  }
}

export const deflated = 8
/** The flags for encryption, patched data, strong encryption, and an encrypted directory. */
const unreadableFlags = 0x1 | 0x20 | 0x40 | 0x2000
const utf8Flag = 0x800
const unicodePathId = 0x7075

/**
 * Decodes a name as UTF-8 if the entry has the UTF-8 flag. Tools on Unix often omit the flag, so a name that
 * was written on Unix and is valid UTF-8 is decoded as UTF-8 too. Any other name is decoded as code page 437.
 * Backslashes are kept.
 */
function nameOf({ versionMadeBy, generalPurposeBitFlag, fileNameRaw, extraFields }: Entry): string {
  const isUnsaid = isMadeOnUnix(versionMadeBy) && isUtf8(fileNameRaw)
  const flags = isUnsaid ? generalPurposeBitFlag | utf8Flag : generalPurposeBitFlag
  const name = yauzl.getFileNameLowLevel(flags, fileNameRaw, extraFields, true)
  const texts = extraFields.filter(({ id }) => id === unicodePathId).map(({ data }) => data.subarray(5))
  if ((flags & utf8Flag) !== 0) texts.push(fileNameRaw)
  if (!texts.every((text) => isUtf8(text))) throw invalidArchive('a name is not UTF-8', name)
  return name
}

/**
 * Returns the Unix mode of an entry that was written on Unix, otherwise a default. On all systems, the names
 * of directories end with a slash.
 */
function modeOf(
  { versionMadeBy, externalFileAttributes }: Entry,
  name: string,
): Pick<ZipEntry, 'kind' | 'mode'> {
  const isDirectory = name.endsWith('/')
  const given = isMadeOnUnix(versionMadeBy) ? externalFileAttributes >>> 16 : 0
  const type = given & 0o170000
  const mode = given & 0o7777
  if (isDirectory) {
    if (type !== 0 && type !== 0o040000)
      throw invalidArchive('the name ends with "/", but the entry is not a directory', name)
    return { kind: 'directory', mode: given === 0 ? 0o755 : mode }
  }
  if (type === 0o120000) return { kind: 'symlink', mode }
  if (type !== 0 && type !== 0o100000)
    throw invalidArchive('the entry is not a file, directory or symlink', name)
  return { kind: 'file', mode: given === 0 ? 0o644 : mode }
}

/** Whether the entry was written on Unix (host system 3) or macOS (19). */
function isMadeOnUnix(versionMadeBy: number): boolean {
  const madeOn = versionMadeBy >>> 8
  return madeOn === 3 || madeOn === 19
}

const localHeaderBytes = 30

/**
 * Sets the end of each entry. Rejects overlaps, because bytes that belong to many entries would be inflated
 * many times.
 */
async function separate(
  entries: readonly ZipEntry[],
  directoryStart: number,
  slice: TimeSlice,
): Promise<void> {
  const starts = new Float64Array(entries.length)
  for (const [i, { relativeOffsetOfLocalHeader }] of entries.entries())
    starts[i] = relativeOffsetOfLocalHeader
  starts.sort()
  for (const entry of entries) {
    if (slice.over) await slice.next()
    const { relativeOffsetOfLocalHeader: start, rawName, compressedSize } = entry
    const place = placeOf(start, starts)
    const isShared = starts[place + 1] === start
    entry.end = starts[place + 1] ?? directoryStart
    if (isShared || start + localHeaderBytes + rawName.length + compressedSize > entry.end)
      throw invalidArchive('entries of the zip overlap', entry.name)
  }
}

/** Returns the first index of a number in a sorted list, which must contain it. */
function placeOf(wanted: number, list: Float64Array): number {
  let from = 0
  let to = list.length - 1
  while (from < to) {
    const middle = (from + to) >>> 1
    if (itemAt(list, middle) < wanted) from = middle + 1
    else to = middle
  }
  return from
}
