import type { GitObject } from '../../../engine/ports.js'
import { idBytes, type ObjectFormat } from '../objects/object-id.js'
import { corruptPack } from './pack-errors.js'

/** The header of one entry of a pack. The compressed bytes follow it. */
export type PackEntry = EntryFields &
  (
    | { readonly kind: GitObject['type'] }
    /** A delta that builds on the entry `baseDistance` bytes before this one. */
    | { readonly kind: 'offset-delta'; readonly baseDistance: number }
    | { readonly kind: 'id-delta'; readonly baseOid: string }
  )

interface EntryFields {
  /** Size of the inflated bytes. For a delta, this is the size of the delta itself, not of its result. */
  readonly size: number
  /** The length of this header. */
  readonly headerBytes: number
}

/** An upper bound on the length of the header of an entry. */
export const maxEntryHeaderBytes = 64

export const packHeaderBytes = 12

/** Returns the number of objects in the header of a pack. Throws GIT_CORRUPT. */
export function readPackHeader(bytes: Buffer): number {
  if (
    bytes.length < packHeaderBytes ||
    bytes.toString('latin1', 0, 4) !== 'PACK' ||
    bytes.readUInt32BE(4) !== 2
  ) {
    throw corruptPack('it is not a pack of version 2')
  }
  return bytes.readUInt32BE(8)
}

/** Reads the header of an entry at `at`. Throws GIT_CORRUPT. */
export function readEntry(bytes: Buffer, at: number, format: ObjectFormat): PackEntry {
  const start = at
  let byte = byteAt(bytes, at++)
  const type = (byte >> 4) & 7
  let size = byte & 15
  for (let factor = 16; byte & 128; factor *= 128) {
    byte = byteAt(bytes, at++)
    size += (byte & 127) * factor
    if (!Number.isSafeInteger(size)) throw corruptPack('an object has an invalid size')
  }
  if (type === 6) {
    byte = byteAt(bytes, at++)
    let baseDistance = byte & 127
    while (byte & 128) {
      byte = byteAt(bytes, at++)
      baseDistance = (baseDistance + 1) * 128 + (byte & 127)
      if (!Number.isSafeInteger(baseDistance)) throw corruptPack('a delta has no base')
    }
    return { kind: 'offset-delta', baseDistance, size, headerBytes: at - start }
  }
  if (type === 7) {
    const end = at + idBytes(format)
    if (end > bytes.length) throw corruptPack('it ends too early')
    return { kind: 'id-delta', baseOid: bytes.toString('hex', at, end), size, headerBytes: end - start }
  }
  const kind = plainTypes[type]
  if (kind === undefined) throw corruptPack('an object has an unknown type')
  return { kind, size, headerBytes: at - start }
}

const plainTypes: readonly (GitObject['type'] | undefined)[] = [undefined, 'commit', 'tree', 'blob', 'tag']

function byteAt(bytes: Buffer, at: number): number {
  const byte = bytes[at]
  if (byte === undefined) throw corruptPack('it ends too early')
  return byte
}
