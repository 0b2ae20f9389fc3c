import type { DiskFile } from '../directory/disk.js'
import { damagedSegment } from '../errors.js'
import { asBuffer } from './segment-format.js'

/** An open segment. */
export class SegmentFile {
  readonly segment: number
  readonly name: string
  readonly file: DiskFile
  /** The offset at which the written frames end. */
  end: number
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

export function segmentName(segment: number): string {
  return `${String(segment).padStart(8, '0')}.seg`
}

/** The number of the segment with this file name. Undefined if the name is not that of a segment. */
export function segmentOf(name: string): number | undefined {
  return /^\d{8}\.seg$/.test(name) ? Number.parseInt(name, 10) : undefined
}
