import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { pack, type Pack } from 'tar-stream'
import { EngineError, type TreeEntry } from '../../engine/ports.js'
import { archiveLimits } from './limits.js'
import { xattrRecords } from './tar-xattrs.js'

/**
 * Writes a tree as a tar with pax headers. The same tree gives the same bytes: owners are 0 and have no
 * names, and times are whole seconds. The root is `./`.
 */
export async function* writeTar(entries: AsyncIterable<TreeEntry>): AsyncGenerator<Uint8Array> {
  // Small parts are joined. Large parts are yielded unchanged.
  let waiting: Uint8Array[] = []
  let bytes = 0
  for await (const part of tarParts(entries)) {
    const isLarge = part.length >= archiveLimits.writtenBytes
    if (!isLarge) {
      waiting.push(part)
      bytes += part.length
    }
    if (waiting.length > 0 && (isLarge || bytes >= archiveLimits.writtenBytes)) {
      yield Buffer.concat(waiting)
      waiting = []
      bytes = 0
    }
    if (isLarge) yield part
  }
  yield Buffer.concat(waiting)
}

async function* tarParts(entries: AsyncIterable<TreeEntry>): AsyncGenerator<Uint8Array> {
  // No limit, because the output is read right after each write.
  const tar = pack({ highWaterMark: Infinity })
  tar.on('error', () => undefined)
  for await (const entry of entries) {
    const isContent = entry.kind === 'file' && entry.linkTo === undefined
    let failure: unknown
    const sink = tar.entry(headerOf(entry, isContent ? entry.size : 0), (error) => (failure = error))
    sink.on('error', () => undefined)
    const closed = new Promise<void>((resolve) => sink.on('close', () => resolve()))
    if (isContent) {
      for await (const piece of entry.read()) {
        if (!sink.write(piece)) await once(sink, 'drain')
        yield* taken(tar)
      }
    }
    sink.end(null)
    await closed
    if (failure)
      throw new EngineError('INTERNAL', 'the content of a file does not have its stated size', {
        path: entry.path,
      })
    yield* taken(tar)
  }
  tar.finalize()
  yield* taken(tar)
}

function* taken(tar: Pack): Generator<Uint8Array> {
  for (let part = tar.read(); part !== null; part = tar.read()) yield part as Uint8Array
}

/**
 * Values that do not fit into a plain header are put into a preceding pax header, which the library writes.
 */
function headerOf(entry: TreeEntry, size: number): Parameters<Pack['entry']>[0] {
  const seconds = Math.floor(entry.attributes.mtimeMs / 1000)
  const linkname = linkNameOf(entry)
  const headerSeconds = Math.min(Math.max(seconds, 0), latestHeaderSeconds)
  const pax = {
    ...(seconds !== headerSeconds && { mtime: String(seconds) }),
    ...(takesXattrs(entry) && xattrRecords(entry.attributes.xattrs ?? new Map())),
  }
  return {
    name: nameOf(entry),
    linkname,
    type: typeOf(entry),
    size,
    // Without a type bit, the library would treat a mode of 0 as a missing mode.
    mode: entry.kind === 'symlink' ? 0o777 : entry.attributes.mode | typeBit,
    mtime: new Date(headerSeconds * 1000),
    // A plain header cannot declare the encoding of a link name that is not ASCII.
    // oxlint-disable-next-line no-control-regex
    ...((Object.keys(pax).length > 0 || /[^\x01-\x7f]/.test(linkname)) && { pax }),
  }
}

const typeBit = 0o100000

/** The latest time that the library can write. */
const latestHeaderSeconds = 2 ** 31 - 1

function typeOf(entry: TreeEntry): 'file' | 'directory' | 'symlink' | 'link' {
  return entry.kind === 'file' && entry.linkTo !== undefined ? 'link' : entry.kind
}

function nameOf({ kind, path }: TreeEntry): string {
  if (path === '/') return './'
  return kind === 'directory' ? `${path.slice(1)}/` : path.slice(1)
}

function linkNameOf(entry: TreeEntry): string {
  if (entry.kind === 'symlink') return entry.target
  return entry.kind === 'file' ? (entry.linkTo?.slice(1) ?? '') : ''
}

/**
 * Whether extended attributes are written with this entry. A file with hard links has them only with its
 * first name.
 */
function takesXattrs(entry: TreeEntry): entry is TreeEntry & { readonly kind: 'directory' | 'file' } {
  return typeOf(entry) === 'file' || typeOf(entry) === 'directory'
}
