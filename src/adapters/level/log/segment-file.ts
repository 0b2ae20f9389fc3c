import type { DiskFile } from '../directory/disk.js'
import { damagedSegment, isFull } from '../errors.js'
import { levelLimits } from '../limits.js'
import { asBuffer } from './segment-format.js'

/** An open segment. */
export class SegmentFile {
  readonly segment: number
  readonly name: string
  readonly file: DiskFile
  /** The offset at which the written frames end. */
  end: number
  /** The offset at which the frames ended when space was reserved first. */
  #firstReserved: number | undefined
  /** Frames up to this offset need no further reserved space. */
  #reservedTo = 0
  #readers = 0
  #removed = false

  constructor(segment: number, file: DiskFile, end: number) {
    this.segment = segment
    this.name = segmentName(segment)
    this.file = file
    this.end = end
  }

  /** @throws EngineError `DATA_LOSS` when the file has fewer bytes. */
  readSync(offset: number, length: number): Buffer {
    return this.#whole(this.file.readSync(offset, length), offset, length)
  }

  async read(offset: number, length: number): Promise<Buffer> {
    this.#readers++
    try {
      return this.#whole(await this.file.read(offset, length), offset, length)
    } finally {
      this.#readers--
      if (this.#removed && this.#readers === 0) await this.file.close()
    }
  }

  /**
   * Reserves space after the frames, which end at `end`, by writing zeros. Frames that replace zeros are synced faster
   * than frames that make the file longer, because the disk need not store its new size. The first space is small. Later
   * ones are as large as the data appended since. None extends past `limit`. If the disk has no room for it, nothing is
   * reserved.
   */
  async reserve(end: number, limit: number): Promise<void> {
    if (end <= this.#reservedTo) return
    this.#firstReserved ??= end
    const wanted = Math.max(end - this.#firstReserved, levelLimits.reservedBytesMin)
    const bytes = Math.min(wanted, levelLimits.reservedBytes, limit - end)
    if (bytes <= 0) return
    // This holds after a failure too. Otherwise, each commit on a full disk would try again.
    this.#reservedTo = end + bytes
    try {
      await this.file.write(end, [new Uint8Array(bytes)])
    } catch (error) {
      if (!isFull(error)) throw error
      await this.file.truncate(end)
    }
  }

  /** Cuts off everything after the frames. */
  async trim(): Promise<void> {
    this.#reservedTo = 0
    await this.file.truncate(this.end)
  }

  /** Closes the file as soon as no reader uses it. */
  async close(): Promise<void> {
    if (this.#removed) return
    this.#removed = true
    if (this.#readers === 0) await this.file.close()
  }

  #whole(bytes: Uint8Array, offset: number, length: number): Buffer {
    if (bytes.length < length) throw damagedSegment(this.name, offset)
    return asBuffer(bytes)
  }
}

/** Closes files, also those after one whose closing fails. Throws the first error. */
export async function closeAll(files: Iterable<SegmentFile>): Promise<void> {
  const results = await Promise.allSettled(Array.from(files, (file) => file.close()))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

export function segmentName(segment: number): string {
  return `${String(segment).padStart(8, '0')}.seg`
}

/** The number of the segment with this file name. Undefined if the name is not that of a segment. */
export function segmentOf(name: string): number | undefined {
  return /^\d{8}\.seg$/.test(name) ? Number.parseInt(name, 10) : undefined
}
