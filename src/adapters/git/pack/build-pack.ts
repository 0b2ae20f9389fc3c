import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { crc32, deflate, deflateSync } from 'node:zlib'
import { EngineError, type GitObject, type TimeSlice } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from '../objects/object-id.js'
import { packHeaderBytes } from './pack-entry.js'
import type { IndexedObject } from './pack-index.js'

/** A self-contained pack without deltas. */
export interface BuiltPack {
  /** The bytes of the pack, in order. */
  readonly parts: readonly Uint8Array[]
  readonly objects: readonly PackedObject[]
  /** The last bytes of the pack, which are also part of its file name. */
  readonly checksum: Buffer
}

export interface PackedObject extends IndexedObject {
  readonly type: GitObject['type']
  readonly size: number
  /** The compressed body. */
  readonly deflated: Uint8Array
}

type Entry = Pick<PackedObject, 'oid' | 'type' | 'size' | 'deflated'> & { readonly header: Buffer }

const typeNumbers = { commit: 1, tree: 2, blob: 3, tag: 4 } as const
const deflateAside = promisify<Uint8Array, Buffer>(deflate)

/** Compresses objects and collects them for one pack. An object that is added twice is stored once. */
export class PackBuilder {
  readonly #format: ObjectFormat
  readonly #entries = new Map<string, Entry>()
  #bytes = 64

  constructor(format: ObjectFormat) {
    this.#format = format
  }

  /** Throws GIT_TOO_LARGE if the pack exceeds `gitLimits.packBytes`. */
  async add({ oid, type, body }: GitObject): Promise<void> {
    if (this.#entries.has(oid)) return
    const deflated = await compress(body)
    const header = entryHeader(type, body.length)
    this.#bytes += header.length + deflated.length
    if (this.#bytes > gitLimits.packBytes) {
      throw new EngineError('GIT_TOO_LARGE', `the commit is over ${gitLimits.packBytes} bytes`, {
        limit: String(gitLimits.packBytes),
      })
    }
    this.#entries.set(oid, { oid, type, size: body.length, header, deflated })
  }

  async finish(slice: TimeSlice): Promise<BuiltPack> {
    const start = packHeader(this.#entries.size)
    const hash = createHash(this.#format).update(start)
    const parts: Uint8Array[] = [start]
    const objects: PackedObject[] = []
    let offset = packHeaderBytes
    for (const { header, ...object } of this.#entries.values()) {
      const { deflated } = object
      hash.update(header)
      let crc = crc32(header)
      for (let at = 0; at < deflated.length; at += gitLimits.packStepBytes) {
        const step = deflated.subarray(at, at + gitLimits.packStepBytes)
        hash.update(step)
        crc = crc32(step, crc)
        if (slice.over) await slice.next()
      }
      parts.push(header, deflated)
      objects.push({ ...object, offset, crc32: crc })
      offset += header.length + deflated.length
    }
    const checksum = hash.digest()
    return { parts: [...parts, checksum], objects, checksum }
  }
}

/** The first bytes of a pack of version 2. */
export function packHeader(objects: number): Buffer {
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
  header.writeUInt32BE(objects, 8)
  return header
}

/** Compresses large bodies off the main thread. For small bodies, that would cost more. */
export function compress(body: Uint8Array): Buffer | Promise<Buffer> {
  return body.length > gitLimits.asyncDeflateBytes ? deflateAside(body) : deflateSync(body)
}

/** Encodes type and size. The first byte holds four bits of the size, and each further byte holds seven. */
export function entryHeader(type: GitObject['type'], size: number): Buffer {
  const bytes: number[] = []
  let rest = size
  let byte = (typeNumbers[type] << 4) | (rest & 15)
  rest = Math.floor(rest / 16)
  while (rest > 0) {
    bytes.push(byte | 128)
    byte = rest & 127
    rest = Math.floor(rest / 128)
  }
  bytes.push(byte)
  return Buffer.from(bytes)
}
