import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { deflate, deflateSync } from 'node:zlib'
import { EngineError, type GitObject } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import type { Pacer } from './pacer.js'

const typeNumbers = { commit: 1, tree: 2, blob: 3, tag: 4 } as const
const deflateAside = promisify<Uint8Array, Buffer>(deflate)

/** Gathers objects, compressed, for one pack. An object that is added twice is kept once. */
export class PackBuilder {
  readonly #entries = new Map<string, readonly Uint8Array[]>()
  #bytes = 32

  async add(object: GitObject): Promise<void> {
    if (this.#entries.has(object.oid)) return
    const { body } = object
    const compressed =
      body.length > gitLimits.asyncDeflateBytes ? await deflateAside(body) : deflateSync(body)
    const header = entryHeader(object)
    this.#bytes += header.length + compressed.length
    if (this.#bytes > gitLimits.packBytes) {
      throw new EngineError('GIT_TOO_LARGE', `the commit is over ${gitLimits.packBytes} bytes`, {
        limit: String(gitLimits.packBytes),
      })
    }
    this.#entries.set(object.oid, [header, compressed])
  }

  async finish(pacer: Pacer): Promise<Buffer> {
    const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
    header.writeUInt32BE(this.#entries.size, 8)
    const parts = [header, ...[...this.#entries.values()].flat()]
    const hash = createHash('sha1')
    for (const part of parts) {
      hash.update(part)
      if (pacer.due()) await pacer.rest()
    }
    return Buffer.concat([...parts, hash.digest()], this.#bytes)
  }
}

/** Type and size: four bits of the size in the first byte, seven in each that follows. */
function entryHeader(object: GitObject): Buffer {
  const bytes: number[] = []
  let rest = object.body.length
  let byte = (typeNumbers[object.type] << 4) | (rest & 15)
  rest = Math.floor(rest / 16)
  while (rest > 0) {
    bytes.push(byte | 128)
    byte = rest & 127
    rest = Math.floor(rest / 128)
  }
  bytes.push(byte)
  return Buffer.from(bytes)
}
