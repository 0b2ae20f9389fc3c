import type { Buffer } from 'node:buffer'
import { createGunzip, createInflateRaw, type Gunzip, type InflateRaw } from 'node:zlib'
import type { NextPiece } from './byte-reader.js'
import { invalidArchive, limitExceeded } from './errors.js'
import { archiveLimits } from './limits.js'

const options = { chunkSize: archiveLimits.inflatedPieceBytes }

/**
 * Inflates all members of gzip data off the main thread. Throws LIMIT_EXCEEDED if the content is too large in
 * proportion to the data, or much too small, because the data can consist of any number of empty members.
 */
export async function* gunzip(next: NextPiece): AsyncGenerator<Buffer> {
  const inflater = createGunzip(options)
  let inflated = 0
  const checkContent = (): void => {
    const most = archiveLimits.emptyFromBytes + inflated * archiveLimits.emptyRatio
    if (inflater.bytesWritten > most)
      throw limitExceeded('the gzip data is too many times larger than its content', archiveLimits.emptyRatio)
  }
  for await (const piece of inflate(inflater, next, { taken: checkContent })) {
    inflated += piece.length
    checkGrowth(inflated, inflater.bytesWritten)
    yield piece
  }
}

/**
 * Inflates one entry of a zip. Throws INVALID_ARCHIVE unless it uses all `compressedBytes` from `next` and
 * yields exactly `size` bytes.
 */
export async function* inflateEntry(
  next: NextPiece,
  { name, compressedBytes, size }: { name: string; compressedBytes: number; size: number },
): AsyncGenerator<Buffer> {
  const inflater = createInflateRaw(options)
  let inflated = 0
  for await (const piece of inflate(inflater, next, { name })) {
    inflated += piece.length
    if (inflated > size) break
    yield piece
  }
  if (inflated !== size || inflater.bytesWritten !== compressedBytes)
    throw invalidArchive('the content does not have the stated size', name)
}

/**
 * Throws LIMIT_EXCEEDED for a decompression bomb. Bombs inflate about 1,000 times; real content rarely
 * inflates 200 times.
 */
export function checkGrowth(inflated: number, from: number): void {
  if (inflated > archiveLimits.contentBytes)
    throw limitExceeded('the inflated content is too large', archiveLimits.contentBytes)
  if (inflated > archiveLimits.ratioFromBytes && inflated > from * archiveLimits.ratio)
    throw limitExceeded('the inflated content is too many times larger than the archive', archiveLimits.ratio)
}

async function* inflate(
  inflater: Gunzip | InflateRaw,
  next: NextPiece,
  { name, taken }: { readonly name?: string; readonly taken?: () => void },
): AsyncGenerator<Buffer> {
  const feed = new Feed(inflater, next, taken)
  try {
    for await (const piece of inflater) yield piece as Buffer
  } catch (error) {
    if (feed.failure !== undefined) throw feed.failure.error
    throw invalidArchive('the compressed data is damaged or incomplete', name, { cause: error })
  } finally {
    inflater.destroy()
  }
}

/** Writes pieces to an inflater. Each is written after the inflater has consumed the previous one. */
class Feed {
  /** The error of the source of the pieces or of the check, if one failed. */
  failure: { readonly error: unknown } | undefined
  readonly #inflater: Gunzip | InflateRaw
  readonly #next: NextPiece
  /** Called after each piece. If it throws, inflating ends. */
  readonly #check: (() => void) | undefined
  #taken: (() => void) | undefined

  constructor(inflater: Gunzip | InflateRaw, next: NextPiece, check: (() => void) | undefined) {
    this.#inflater = inflater
    this.#next = next
    this.#check = check
    // An inflater that fails, or receives more data than it needs, does not call back for the current piece.
    inflater.on('close', () => this.#taken?.())
    inflater.on('error', () => undefined)
    this.#run().catch(() => undefined)
  }

  async #run(): Promise<void> {
    try {
      for (;;) {
        const piece = await this.#next()
        if (this.#inflater.destroyed) return
        if (piece === undefined) break
        await new Promise<void>((resolve) => {
          this.#taken = resolve
          this.#inflater.write(piece, () => resolve())
        })
        this.#check?.()
      }
      this.#inflater.end()
    } catch (error) {
      this.failure = { error }
      this.#inflater.destroy(error as Error)
    }
  }
}
