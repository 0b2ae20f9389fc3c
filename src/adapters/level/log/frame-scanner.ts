import { Buffer } from 'node:buffer'
import { levelLimits } from '../limits.js'
import { readFrame } from './frame.js'
import type { FrameEntry } from './frame.js'
import { findFrame, frameHeaderBytes, readFrameHeader } from './segment-format.js'
import type { FrameHeader } from './segment-format.js'
import type { SegmentFile } from './segment-file.js'

export interface ScannedFrame {
  readonly header: FrameHeader
  /** The offset in the segment at which the frame begins. */
  readonly offset: number
  readonly length: number
  readonly bytes: Buffer
  readonly entries: readonly FrameEntry[]
}

/** Reads the frames of a segment one after the other, and verifies every byte of them. */
export class FrameScanner {
  /** The end of the last frame that `next` returned. */
  at: number
  /** The number and checksum of that frame. */
  commit: number
  chain: number
  readonly #file: SegmentFile
  readonly #end: number
  readonly #seed: number
  #window: Buffer = Buffer.alloc(0)
  #windowAt = 0

  /** Starts at a place between two frames. `before` is the frame that ends there. */
  constructor(
    file: SegmentFile,
    range: { readonly from: number; readonly to: number },
    before: { readonly commit: number; readonly chain: number },
    seed: number,
  ) {
    this.#file = file
    this.at = range.from
    this.#end = range.to
    this.commit = before.commit
    this.chain = before.chain
    this.#seed = seed
  }

  /**
   * Reads the next frame. Returns undefined at the end of the range, and at damage. In the second case, `at`
   * is before the end.
   */
  async next(): Promise<ScannedFrame | undefined> {
    const offset = this.at
    if (!(await this.#load(offset, frameHeaderBytes))) return undefined
    const header = readFrameHeader(this.#window, offset - this.#windowAt, this.#seed)
    if (header === undefined || header.commit !== this.commit + 1 || header.chain !== this.chain)
      return undefined
    const length = frameHeaderBytes + header.bodyBytes
    if (!(await this.#load(offset, length))) return undefined
    const start = offset - this.#windowAt
    const entries = readFrame(this.#window, start, header)
    if (entries === undefined) return undefined
    this.at = offset + length
    this.commit = header.commit
    this.chain = header.checksum
    return { header, offset, length, bytes: this.#window.subarray(start, start + length), entries }
  }

  /** Loads the bytes into the window. Returns false if they extend past the end of the range. */
  async #load(offset: number, length: number): Promise<boolean> {
    if (offset + length > this.#end) return false
    if (offset >= this.#windowAt && offset + length <= this.#windowAt + this.#window.length) return true
    const wanted = Math.min(Math.max(length, levelLimits.scannedBytes), this.#end - offset)
    this.#window = await this.#file.read(offset, wanted)
    this.#windowAt = offset
    return true
  }
}

/**
 * Whether a later frame proves that a commit was on the disk. For example, commit 8 is damaged, and the next
 * frame records 8 as `syncedTo`: then commit 8 was synced, and its damage is a loss. Offsets of frames after
 * damage are unknown, so this searches for headers at every byte.
 */
export async function laterFrameNeeds(
  file: SegmentFile,
  range: { readonly from: number; readonly to: number },
  commit: number,
  seed: number,
): Promise<boolean> {
  for (let at = range.from; at < range.to; at += levelLimits.scannedBytes) {
    // Windows overlap by the size of a header. So a header at the end of a window is complete in it.
    const window = await file.read(at, Math.min(levelLimits.scannedBytes + frameHeaderBytes, range.to - at))
    for (let found = findFrame(window, 0); found >= 0; found = findFrame(window, found + 1)) {
      const header = readFrameHeader(window, found, seed)
      if (header !== undefined && header.syncedTo >= commit) return true
    }
  }
  return false
}
