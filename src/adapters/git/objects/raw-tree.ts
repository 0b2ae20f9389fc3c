import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { idBytes, type ObjectFormat } from './object-id.js'

/** One entry of a tree, without normalisation, so that it can be written back byte for byte. */
export interface RawEntry {
  /** Octal digits, for example 100644, 100664 or 40000. */
  readonly mode: string
  /** The bytes of the name as latin-1, one character per byte. Comparing such strings gives git's order. */
  readonly name: string
  readonly oid: string
}

export type EntryKind = 'file' | 'symlink' | 'tree' | 'gitlink'

/** Returns the entries of a raw tree. Throws GIT_CORRUPT. */
export function parseTree(body: Uint8Array, format: ObjectFormat): RawEntry[] {
  return [...parseTreeInParts(body, format)].flat()
}

/** Yields the entries of a raw tree, a few thousand at a time. Throws GIT_CORRUPT. */
export function* parseTreeInParts(
  body: Uint8Array,
  format: ObjectFormat,
): Generator<RawEntry[], void, undefined> {
  const idLength = idBytes(format)
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  for (let at = 0; at < bytes.length;) {
    const entries: RawEntry[] = []
    while (at < bytes.length && entries.length < gitLimits.entriesPerPart) {
      const space = bytes.indexOf(32, at)
      const nul = bytes.indexOf(0, space)
      const end = nul + 1 + idLength
      if (space < 0 || nul < 0 || end > bytes.length) throw damaged()
      entries.push({
        mode: bytes.toString('latin1', at, space),
        name: bytes.toString('latin1', space + 1, nul),
        oid: bytes.toString('hex', nul + 1, end),
      })
      at = end
    }
    yield entries
  }
}

/** Formats a raw tree, with its entries in git's order. */
export function formatTree(entries: Iterable<RawEntry>): Buffer {
  const keyed = [...entries].map((entry) => ({ entry, key: sortKey(entry) }))
  keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
  const parts = keyed.flatMap(({ entry }) => [
    Buffer.from(`${entry.mode} ${entry.name}\0`, 'latin1'),
    Buffer.from(entry.oid, 'hex'),
  ])
  return Buffer.concat(parts)
}

export function entryKind(mode: string): EntryKind {
  // Fast path: nearly all entries have one of these modes.
  if (mode === '100644' || mode === '100755') return 'file'
  if (mode === '40000') return 'tree'
  const bits = /^[0-7]{5,7}$/.test(mode) ? Number.parseInt(mode, 8) : 0
  switch (bits & 0o170000) {
    case 0o100000:
      return 'file'
    case 0o120000:
      return 'symlink'
    case 0o040000:
      return 'tree'
    case 0o160000:
      return 'gitlink'
    default:
      throw damaged()
  }
}

export function isExecutable(mode: string): boolean {
  return (Number.parseInt(mode, 8) & 0o100) !== 0
}

/** Git sorts a subtree as if its name ended with a slash. */
function sortKey(entry: RawEntry): string {
  return entryKind(entry.mode) === 'tree' ? `${entry.name}/` : entry.name
}

function damaged(): EngineError {
  return new EngineError('GIT_CORRUPT', 'a tree is damaged')
}
