import { Buffer } from 'node:buffer'
import type { Extract } from 'tar-stream'
import { onlyItem } from '../../engine/ports.js'
import type { NextPiece } from './byte-reader.js'
import { invalidArchive, limitExceeded, truncated } from './errors.js'
import { archiveLimits } from './limits.js'
import { blockBytes, checkHeaders } from './tar-headers.js'

interface Block {
  readonly bytes: Uint8Array
  used: number
}

/** Writes pieces to a tar parser, one at a time, and limits the bytes between entries. */
export class TarFeed {
  /** The first error of the source of the pieces or of the parser, if any. */
  failure: { readonly error: unknown } | undefined
  /** Resolves when the parser has ended. */
  readonly closed: Promise<void>
  readonly #tar: Extract
  readonly #next: NextPiece
  #taken: (() => void) | undefined
  #bytes = 0
  /** The number of zeros at the end of the bytes received so far. */
  #zeros = 0
  /** The offset at which the content of the newest entry ends. */
  #entryEnd = 0
  /** Contains at least all bytes received after that offset. They include the headers of the next entry. */
  readonly #recent: Block[] = []
  #recentStart = 0
  #aheadBytes = 0
  #hasEntries = false
  readonly #globals = new Map<string, string>()

  constructor(tar: Extract, next: NextPiece) {
    this.#tar = tar
    this.#next = next
    tar.on('drain', () => this.#taken?.())
    tar.on('error', (error) => {
      const message = this.#hasEntries
        ? 'the archive is damaged or incomplete'
        : 'the content is not a tar, gzip-compressed tar or zip archive'
      this.failure ??= { error: invalidArchive(message, undefined, { cause: error }) }
    })
    this.closed = new Promise((resolve) => {
      tar.on('close', () => {
        this.#taken?.()
        resolve()
      })
    })
    this.#run().catch((error: unknown) => {
      this.failure ??= { error }
      tar.destroy(error as Error)
    })
  }

  /**
   * Call this for every entry. Throws LIMIT_EXCEEDED if its headers are too long, and INVALID_ARCHIVE if they
   * are damaged. Returns the records of global headers that apply to it.
   */
  begin(contentStart: number, size: number, name: string): ReadonlyMap<string, string> {
    this.#hasEntries = true
    const ahead = contentStart - this.#entryEnd
    checkGap(ahead)
    checkHeaders(this.#between(this.#entryEnd, contentStart), name, this.#globals)
    let applied = ahead
    for (const [key, value] of this.#globals) applied += key.length + value.length
    this.#aheadBytes += Math.max(applied - archiveLimits.commonAheadBytes, 0)
    if (this.#aheadBytes > archiveLimits.aheadTotalBytes)
      throw limitExceeded('the headers of the archive have too many bytes', archiveLimits.aheadTotalBytes)
    this.#entryEnd = contentStart + Math.ceil(size / blockBytes) * blockBytes
    return this.#globals
  }

  /**
   * Call this after the last entry. Throws LIMIT_EXCEEDED if the bytes after it are too many, and INVALID_ARCHIVE unless
   * two empty blocks end the archive.
   */
  finish(): void {
    const rest = this.#bytes - this.#entryEnd
    checkGap(rest)
    if (rest < 2 * blockBytes || this.#zeros < rest) throw truncated()
  }

  async #run(): Promise<void> {
    for (;;) {
      const piece = await this.#next()
      if (this.#tar.destroyed) return
      if (piece === undefined) break
      this.#bytes += piece.length
      const zeros = countZeros(piece)
      this.#zeros = zeros < piece.length ? zeros : this.#zeros + zeros
      await this.#write(this.#keep(piece))
      // The last bytes may be content of an entry that is not taken yet. `begin` and `finish` check exactly.
      checkGap(this.#bytes - archiveLimits.aheadBufferBytes - this.#entryEnd)
    }
    this.#tar.end(null)
  }

  /**
   * Returns a copy of the piece. Small pieces share a block. Blocks with only content that was already read
   * are dropped.
   */
  #keep(piece: Uint8Array): Uint8Array {
    let dropped = 0
    for (const { used } of this.#recent) {
      if (this.#recentStart + used > this.#entryEnd) break
      this.#recentStart += used
      dropped++
    }
    if (dropped > 0) this.#recent.splice(0, dropped)
    let last = this.#recent.at(-1)
    if (last === undefined || last.used + piece.length > last.bytes.length) {
      last = { bytes: new Uint8Array(Math.max(piece.length, archiveLimits.keptBlockBytes)), used: 0 }
      this.#recent.push(last)
    }
    last.bytes.set(piece, last.used)
    last.used += piece.length
    return last.bytes.subarray(last.used - piece.length, last.used)
  }

  #between(start: number, end: number): Uint8Array {
    const parts: Uint8Array[] = []
    let at = this.#recentStart
    for (const { bytes, used } of this.#recent) {
      if (at >= end) break
      if (at + used > start) parts.push(bytes.subarray(Math.max(start - at, 0), Math.min(used, end - at)))
      at += used
    }
    return onlyItem(parts) ?? Buffer.concat(parts)
  }

  /** Writes a piece. If the parser's buffer is full, waits until it has room. */
  async #write(piece: Uint8Array): Promise<void> {
    if (this.#tar.write(piece) || this.#tar.destroyed) return
    await new Promise<void>((resolve) => (this.#taken = resolve))
  }
}

function checkGap(bytes: number): void {
  if (bytes > archiveLimits.aheadBytes)
    throw limitExceeded('the headers before an entry have too many bytes', archiveLimits.aheadBytes)
}

const zeroBytes = Buffer.alloc(archiveLimits.comparedZeroBytes)

/** Returns the number of zeros at the end of a piece. */
function countZeros(piece: Uint8Array): number {
  let end = piece.length
  for (let size = Math.min(end, zeroBytes.length); size > 0;) {
    if (end >= size && zeroBytes.compare(piece, end - size, end, 0, size) === 0) end -= size
    else size >>= 1
  }
  return piece.length - end
}
