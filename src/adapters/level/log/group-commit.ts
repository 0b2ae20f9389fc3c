import { limits } from '../../../engine/ports.js'
import type { StoreCommit } from '../../../engine/ports.js'
import { encodeCommit } from './commit-frame.js'
import type { Appended, CommitLog } from './commit-log.js'
import { fencedError, writeError } from '../errors.js'
import { EventSequence } from './event-sequence.js'
import type { FrameBuilder } from './frame.js'

/** A group takes no further commit above this; one commit is never split. */
const maxGroupBytes = 8 * 2 ** 20

const nothingPassed = Promise.resolve(false)
const nextMicrotask = Promise.resolve()

export interface GroupCommitOptions {
  readonly log: CommitLog
  readonly hasEvent: (sessionId: string, seq: number) => boolean
  /** Called in the order of the commits when they were written, before they are acknowledged. */
  readonly onWritten: (appended: readonly Appended[]) => Promise<void> | undefined
}

/**
 * The queue of commits. Those that arrive while a group is being written go out together in the next one and share
 * its promise, so that one write and one fdatasync serve all of them. A commit is encoded when it arrives.
 *
 * After a failed write nothing is written any more, until `resume`: the commits of that group have an unknown
 * outcome, those queued after it are not applied.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions
  #sequence: EventSequence
  /** In the order of the calls. Commits go into the last one; the one being written is not in here. */
  readonly #waiting: Group[] = []
  /** The promise of the newest group that is not known to be written. */
  #newest: Promise<boolean> | undefined
  #running: Promise<void> | undefined
  #failure: { readonly cause: unknown } | undefined
  /** When the event loop had its last turn here. */
  #turnAt = 0

  constructor(options: GroupCommitOptions) {
    this.#options = options
    this.#sequence = new EventSequence(options.hasEvent)
  }

  get failed(): boolean {
    return this.#failure !== undefined
  }

  add(commit: StoreCommit): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(fencedError(this.#failure.cause))
    let frame: FrameBuilder
    try {
      // Everything that can fail comes before the numbers of the events are taken.
      frame = encodeCommit(commit)
      const { events = [], replaceEvents } = commit
      if (!this.#sequence.claim(events)) return this.#passed()
      if (replaceEvents !== undefined) this.#sequence.expectStored(replaceEvents, events)
    } catch (error) {
      return Promise.reject(error)
    }
    const group = this.#openGroup()
    group.frames.push(frame)
    group.bytes += frame.length
    this.#running ??= this.#run()
    return group.promise
  }

  /**
   * Queues work that is done when its turn comes: when everything before it can be read, and nothing else is being
   * written. The frame that it gives is appended.
   */
  addLater(make: () => Promise<FrameBuilder | undefined>): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(fencedError(this.#failure.cause))
    const group = new Group(make)
    this.#waiting.push(group)
    this.#newest = group.promise
    this.#running ??= this.#run()
    return group.promise
  }

  /** Waits until everything that was added is written or rejected. */
  async drain(): Promise<void> {
    await this.#running
  }

  /** Accepts nothing any more; queued commits are not applied. */
  fence(cause: unknown): void {
    this.#failure ??= { cause }
    for (const group of this.#waiting.splice(0)) group.reject(writeError(cause, 'not-applied'))
  }

  /** Accepts commits again. Call this when nothing is queued or being written. */
  resume(): void {
    this.#failure = undefined
    this.#sequence = new EventSequence(this.#options.hasEvent)
  }

  /** The number may have been taken by a queued commit: answer when that one can be read. */
  #passed(): Promise<boolean> {
    return this.#newest === undefined ? nothingPassed : this.#newest.then(no)
  }

  #openGroup(): Group {
    const last = this.#waiting.at(-1)
    if (last !== undefined && last.make === undefined && last.bytes < maxGroupBytes) return last
    const group = new Group(undefined)
    this.#waiting.push(group)
    this.#newest = group.promise
    return group
  }

  async #run(): Promise<void> {
    // Commits of the same turn go out together.
    await nextMicrotask
    for (let group = this.#waiting.shift(); group !== undefined; group = this.#waiting.shift()) {
      try {
        if (group.make !== undefined) {
          const frame = await group.make()
          if (frame !== undefined) group.frames.push(frame)
        }
        if (group.frames.length > 0) {
          const appended = await this.#options.log.append(group.frames)
          // Waits only where the index lags far.
          const behind = this.#options.onWritten(appended)
          if (behind !== undefined) await behind
        }
      } catch (error) {
        group.reject(writeError(error, 'unknown'))
        this.fence(error)
        break
      }
      // Where a write never waits for the disk, timers, sockets and other work get their turns here.
      if (performance.now() - this.#turnAt >= limits.sliceMs) {
        await new Promise(setImmediate)
        this.#turnAt = performance.now()
      }
      group.resolve(true)
      if (this.#failure !== undefined) break
    }
    // There is no await since the last check of the queue, so a later commit finds nothing running.
    this.#running = undefined
    this.#newest = undefined
    this.#sequence.trim()
  }
}

class Group {
  readonly frames: FrameBuilder[] = []
  readonly make: (() => Promise<FrameBuilder | undefined>) | undefined
  readonly promise: Promise<boolean>
  bytes = 0
  resolve!: (stored: boolean) => void
  reject!: (error: unknown) => void

  constructor(make: Group['make']) {
    this.make = make
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
}

function no(): false {
  return false
}
