import { nextTick } from 'node:process'
import { levelLimits } from '../limits.js'
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
  /**
   * Checks that the directory of the store and that of its segments are still at their paths.
   *
   * @throws EngineError `STORE_MOVED` when they are not.
   */
  readonly checkPlace: () => void
  /**
   * A new segment begins when the newest one would exceed this size, in bytes. Frames of one write that
   * exceed it together get a segment of their own.
   */
  readonly segmentBytes: number
}

/** A frame that was appended, and its place. */
export interface Appended {
  readonly frame: FrameBuilder
  readonly offset: number
  /** The end of the frame. */
  readonly place: IndexPlace
}

/**
 * Appends frames to the end of the newest segment, the head. Only one call may run at a time, except for
 * `sync`.
 */
export class CommitLog {
  readonly #segments: Segments
  readonly #options: CommitLogOptions
  /** The end of the written frames. With the option `sync`, all of them are on the disk. */
  place: IndexPlace
  #syncedTo: number
  /** The offset in the head at which the unsynced frames begin. */
  #syncedEnd: number
  /**
   * The newest sync. After a failed sync all later ones fail too, because the system reports only once that
   * it could not write some bytes.
   */
  #syncing: Promise<void> = Promise.resolve()
  /** How long the last sync took. */
  #syncMs = Infinity
  /** Whether the last group had only one commit. */
  #isAlone = false
  #checkedAt = -Infinity
  /** Whether no other callback of the event loop has run since the last check of the place. */
  #isCheckedTurn = false

  constructor(segments: Segments, replayed: Replayed, options: CommitLogOptions) {
    this.#segments = segments
    this.place = replayed.place
    this.#syncedTo = replayed.syncedTo
    this.#syncedEnd = replayed.syncedEnd
    this.#options = options
  }

  /** Appends frames in one write. If it fails, none of them counts as appended. */
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
    this.#checkPlaceIfDue()
    await head.file.write(head.end, pieces)
    if (this.#options.sync) {
      if (bytes <= levelLimits.reservingBytes) await head.reserve(offset, this.#options.segmentBytes)
      await this.#syncHead(this.#mayBlock(frames.length, bytes) ? 'here' : 'elsewhere')
    }
    // The directory may have moved during the write. Then the next opener would not find these frames, so
    // they must not be acknowledged. A check costs little compared with a sync.
    if (this.#options.sync) this.#checkPlace()
    else this.#checkPlaceIfDue()
    head.end = offset
    this.place = { segment: head.segment, offset, commit, chain }
    if (this.#options.sync) this.#noteSynced(this.place)
    return appended
  }

  /** Syncs the frames up to a place. */
  async sync(place: IndexPlace): Promise<void> {
    if (place.commit <= this.#syncedTo) return
    // Earlier segments were synced before the head began.
    const now = this.place
    await this.#syncHead('elsewhere')
    this.#noteSynced(now)
  }

  /** Syncs the head and continues in a new segment. */
  async rotate(): Promise<void> {
    await this.sync(this.place)
    this.#checkPlace()
    await this.#segments.head.trim()
    await this.#segments.rotate(this.place)
    const { head } = this.#segments
    this.place = { ...this.place, segment: head.segment, offset: head.end }
    this.#syncedEnd = head.end
  }

  /**
   * Prepares the log for appending again after a failure. It cuts off unacknowledged frames, reads back and
   * verifies acknowledged ones, and writes unsynced ones again. Then it continues in a new segment.
   *
   * @throws EngineError `DATA_LOSS` when the frames after `verified` are damaged.
   */
  async recover(verified: IndexPlace): Promise<void> {
    this.#checkPlace()
    const { head, seed } = this.#segments
    await head.trim()
    // An index without entries has a place with the commit number 0. Then no frames were verified.
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

  /**
   * Syncs all frames and records the newest commit in the manifest. The next opening then notices if it is
   * missing. Then it removes the reserved space.
   */
  async finish(): Promise<void> {
    await this.sync(this.place)
    this.#checkPlace()
    await this.#segments.noteSynced(this.#syncedTo)
    await this.#segments.head.trim()
  }

  /**
   * Checks the place, unless the last check still holds. A check holds for a millisecond, and only within its turn, which
   * is one callback of the event loop with its microtasks. Code that waited for the move of the directory runs in another
   * callback.
   */
  #checkPlaceIfDue(): void {
    if (!this.#isCheckedTurn || performance.now() - this.#checkedAt > levelLimits.placeHoldsMs)
      this.#checkPlace()
  }

  #checkPlace(): void {
    this.#options.checkPlace()
    this.#checkedAt = performance.now()
    if (this.#isCheckedTurn) return
    this.#isCheckedTurn = true
    // An immediate would be too late: the loop runs the callbacks of finished calls first, such as that of the move.
    nextTick(this.#endTurn)
  }

  readonly #endTurn = (): void => {
    this.#isCheckedTurn = false
  }

  /**
   * Whether the sync of a group may block the event loop: only if a single writer waits, so that no other commit could
   * join the next group meanwhile, and the disk is fast.
   */
  #mayBlock(commits: number, bytes: number): boolean {
    const wasAlone = this.#isAlone
    this.#isAlone = commits === 1
    if (!wasAlone || !this.#isAlone || bytes > levelLimits.blockingSyncBytes) return false
    return this.#syncMs <= levelLimits.blockingSyncMs
  }

  async #syncHead(where: 'here' | 'elsewhere'): Promise<void> {
    const start = performance.now()
    this.#syncing = this.#syncing.then(() => this.#segments.head.file.sync(where))
    await this.#syncing
    this.#syncMs = performance.now() - start
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
