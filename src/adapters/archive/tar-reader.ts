import { Buffer } from 'node:buffer'
import type { EntryAttributes } from '../../engine/ports.js'
import type { ByteReader } from './byte-reader.js'
import type { EntryGate } from './entry-gate.js'
import { checkDecoded, parseTarget } from './entry-name.js'
import { invalidArchive } from './errors.js'
import { archiveLimits } from './limits.js'
import type { Pacer } from './pacer.js'
import { paxTime } from './pax-records.js'
import { TarEntries, type TarEntry } from './tar-entries.js'
import { readXattrs } from './tar-xattrs.js'

/**
 * Reads a tar to its end: POSIX with pax headers, GNU with long names, and older ones. Every header has its
 * checksum, the two empty blocks at the end are there, and nothing but zeros follows them.
 */
export async function readTar(reader: ByteReader, gate: EntryGate, pacer: Pacer): Promise<void> {
  const entries = new TarEntries(reader, pacer)
  for (;;) {
    const entry = await entries.next()
    if (entry === undefined) return
    gate.count()
    await readEntry(entry, entries, gate)
  }
}

async function readEntry(entry: TarEntry, entries: TarEntries, gate: EntryGate): Promise<void> {
  const { name, linkName, size, type } = entry
  checkDecoded(name, 'a name', name)
  const attributes = attributesOf(entry)
  const isFile = fileTypes.has(type) && !name.endsWith('/')
  if (isFile) return readFile(entry, entries, attributes, gate)
  if (size !== 0) throw invalidArchive('what is no file has content', name)
  switch (type) {
    // Before POSIX a directory was a file whose name ends in a slash.
    case '\0':
    case '0':
    case '5':
      return gate.directory(name, attributes)
    case '1':
      checkDecoded(linkName, 'the name of a hard link', name)
      return gate.hardLink(name, linkName)
    case '2':
      checkDecoded(linkName, 'the target of a symlink', name)
      return gate.symlink(name, parseTarget(Buffer.from(linkName), name), attributes)
    default:
      throw invalidArchive(`an entry of type ${JSON.stringify(type)} cannot be read`, name)
  }
}

/** The last one is a file whose blocks lie together. */
const fileTypes: ReadonlySet<string> = new Set(['\0', '0', '7'])

async function readFile(
  { name, size }: TarEntry,
  entries: TarEntries,
  attributes: EntryAttributes,
  gate: EntryGate,
): Promise<void> {
  if (size > archiveLimits.pieceBytes) {
    // A sink may leave a content early: the next entry skips the rest of it.
    await gate.file(name, entries.content(), attributes)
  } else {
    await gate.file(name, Uint8Array.from(await entries.whole()), attributes)
  }
}

function attributesOf({ name, mode, mtimeSeconds, pax }: TarEntry): EntryAttributes {
  for (const key of pax.keys())
    if (key.startsWith('GNU.sparse.')) throw invalidArchive('a sparse file of GNU tar cannot be read', name)
  const mtimeMs = paxTime(pax, name) ?? mtimeSeconds * 1000
  if (!(Math.abs(mtimeMs) <= latestMs)) throw invalidArchive('the time of an entry is out of range', name)
  const xattrs = readXattrs(pax)
  return { mode: mode & 0o7777, mtimeMs, ...(xattrs && { xattrs }) }
}

/** Milliseconds since the epoch, as far as a Date goes. */
const latestMs = 8.64e15
