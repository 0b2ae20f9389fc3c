import type { FrameBuilder } from './frame.js'
import { FrameScanner } from './frame-scanner.js'
import type { IndexPlace } from '../index/index-root.js'
import { damagedSegment } from '../errors.js'
import { writeAgain } from './recovery.js'
import type { Replayed } from './recovery.js'
import { segmentHeaderBytes } from './segment-format.js'
import type { Segments } from './segments.js'

export interface CommitLogOptions {
  /** Whether appended frames are synced before they count as written. */
  readonly sync: boolean
  /** @throws EngineError `STORE_MOVED` when the store is not where it was opened. */
  readonly checkPlace: () => void
  /** The size at which another segment is begun; a commit larger than this has a segment of its own. */
  readonly segmentBytes: number
}

/**
 * For this long after a check of the place no other process can have opened the store and written to it. A steady
 * writer checks once for each write.
 */
const placeHoldsMs = 1

/** The place of appended frames. */
export interface Appended {
  readonly frame: FrameBuilder
  readonly offset: number
  /** The end of the frame. */
  readonly place: IndexPlace
}

/** The end of the newest segment, to which frames are appended. One call at a time, but for `sync`. */
export class CommitLog {
  readonly #segments: Segments
  readonly #options: CommitLogOptions
  /** The end of the written frames; with `sync` they are on the disk. */
  place: IndexPlace
  #syncedTo: number
  /** Where in the head the frames begin that were not synced yet. */
  #syncedEnd: number
  /** The newest sync. The system reports bytes that it could not write only once: after a failure all fail. */
  #syncing: Promise<void> = Promise.resolve()
  #checkedAt = -Infinity

  constructor(segments: Segments, replayed: Replayed, options: CommitLogOptions) {
    this.#segments = segments
    this.place = replayed.place
    this.#syncedTo = replayed.syncedTo
    this.#syncedEnd = replayed.syncedEnd
    this.#options = options
  }

  /** Appends frames in one write. When it fails, nothing counts as appended. */
  async append(frames: readonly FrameBuilder[]): Promise<readonly Appended[]> {
    let bytes = 0
    for (const frame of frames) bytes += frame.length
    const { end } = this.#segments.head
    if (end > segmentHeaderBytes && end + bytes > this.#options.segmentBytes) await this.rotate()

    const { head, seed } = this.#segments
    const appended: Appended[] = []
    const pieces: Uint8Array[] = []
    let { offset, commit, chain } = this.place
    for (const frame of frames) {
      const sealed = frame.seal({ commit: commit + 1, syncedTo: this.#syncedTo, chain }, seed)
      pieces.push(sealed.bytes)
      const begin = offset
      offset += sealed.bytes.length
      commit++
      chain = sealed.checksum
      appended.push({ frame, offset: begin, place: { segment: head.segment, offset, commit, chain } })
    }
    if (performance.now() - this.#checkedAt > placeHoldsMs) this.#checkPlace()
    await head.file.write(head.end, pieces)
    if (this.#options.sync) await this.#syncHead()
    // Nothing is acknowledged that the next opener would not find.
    this.#checkPlace()
    head.end = offset
    this.place = { segment: head.segment, offset, commit, chain }
    if (this.#options.sync) this.#noteSynced(this.place)
    return appended
  }

  /** Syncs frames appended up to a place. */
  async sync(place: IndexPlace): Promise<void> {
    if (place.commit <= this.#syncedTo) return
    // Earlier segments were synced before the head was begun.
    const now = this.place
    await this.#syncHead()
    this.#noteSynced(now)
  }

  /** Begins another segment. */
  async rotate(): Promise<void> {
    await this.sync(this.place)
    await this.#segments.rotate(this.place)
    const { head } = this.#segments
    this.place = { ...this.place, segment: head.segment, offset: head.end }
    this.#syncedEnd = head.end
  }

  /**
   * Makes the log fit for appending after a failure: it cuts off unacknowledged frames, reads back and verifies
   * acknowledged ones, and writes unsynced ones again. Goes on in another segment.
   *
   * @throws EngineError `DATA_LOSS` when the frames after `verified` are damaged.
   */
  async recover(verified: IndexPlace): Promise<void> {
    this.#checkPlace()
    const { head, seed } = this.#segments
    await head.file.truncate(head.end)
    // An index in which nothing was stored yet has no commit before its place.
    const known = verified.segment === head.segment && verified.commit > 0
    const first = known ? verified : this.#firstOfHead()
    const scanner = new FrameScanner(head, { from: first.offset, to: head.end }, first, seed)
    while ((await scanner.next()) !== undefined);
    const whole = scanner.at === head.end && scanner.commit === this.place.commit
    if (!whole || scanner.chain !== this.place.chain) throw damagedSegment(head.name, scanner.at)
    await writeAgain(head, this.#syncedEnd, head.end)
    this.#syncing = Promise.resolve()
    this.#noteSynced(this.place)
    await this.rotate()
  }

  /** Notes the synced commits in the manifest: the next opening will notice if they are missing. */
  async noteSynced(): Promise<void> {
    await this.sync(this.place)
    await this.#segments.noteSynced(this.#syncedTo)
  }

  #checkPlace(): void {
    this.#options.checkPlace()
    this.#checkedAt = performance.now()
  }

  async #syncHead(): Promise<void> {
    this.#syncing = this.#syncing.then(() => this.#segments.head.file.sync())
    await this.#syncing
  }

  #firstOfHead(): IndexPlace {
    const { segment } = this.#segments.head
    const { firstCommit, chain } = this.#segments.header(segment)
    return { segment, offset: segmentHeaderBytes, commit: firstCommit - 1, chain }
  }

  #noteSynced(place: IndexPlace): void {
    if (place.commit <= this.#syncedTo) return
    this.#syncedTo = place.commit
    if (place.segment === this.#segments.head.segment) this.#syncedEnd = place.offset
  }
}
