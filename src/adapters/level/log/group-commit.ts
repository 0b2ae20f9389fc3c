import { inGroup, TimeSlice, type StoreCommit } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import { encodeCommit } from './commit-frame.js'
import type { Appended, CommitLog } from './commit-log.js'
import { fencedError, writeError } from '../errors.js'
import { EventSequence } from './event-sequence.js'
import type { FrameBuilder } from './frame.js'

const nothingPassed = Promise.resolve(false)
const nextMicrotask = Promise.resolve()

export interface GroupCommitOptions {
  readonly log: CommitLog
  readonly hasEvent: (sessionId: string, seq: number) => boolean
  /**
   * Called in the order of the commits, after they were written and before they are acknowledged. If it
   * returns a promise, the queue waits for it.
   */
  readonly onWritten: (appended: readonly Appended[]) => Promise<void> | undefined
}

/**
 * The queue of commits. Commits that arrive while a group is being written form the next group. They share
 * its promise, so that one write and one fdatasync serve all of them. A commit is encoded when it arrives.
 *
 * After a failed write, the queue writes nothing until `resume`. Commits of the failed group are rejected
 * with the outcome `unknown`, and commits queued after it with `not-applied`.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions
  #sequence: EventSequence
  /**
   * The groups that are not being written yet, in the order of the calls. A new commit joins the last one if
   * that has room.
   */
  readonly #waiting: Group[] = []
  /** The promise of the newest group. Undefined if nothing is queued or being written. */
  #newest: Promise<boolean> | undefined
  #running: Promise<void> | undefined
  #failure: { readonly cause: unknown } | undefined
  /** In a group of its own, because all tenants wait for the commits. */
  readonly #slice = new TimeSlice(
    inGroup({ now: () => performance.now() }, { name: 'commits', origin: performance }),
  )

  constructor(options: GroupCommitOptions) {
    this.#options = options
    this.#sequence = new EventSequence(options.hasEvent)
  }

  get failed(): boolean {
    return this.#failure !== undefined
  }

  /** @throws {EngineError} after a failed write, until `resume`. */
  assertAccepting(): void {
    if (this.#failure !== undefined) throw fencedError(this.#failure.cause)
  }

  add(commit: StoreCommit): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(fencedError(this.#failure.cause))
    let frame: FrameBuilder
    try {
      // Encoding can fail, so it comes before the event numbers are claimed.
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
   * Queues work for its own turn. It runs when everything before it is written and can be read, and nothing
   * else is being written. If it returns a frame, the frame is appended.
   */
  addLater(make: () => Promise<FrameBuilder | undefined>): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(fencedError(this.#failure.cause))
    const group = new Group(make)
    this.#waiting.push(group)
    this.#newest = group.promise
    this.#running ??= this.#run()
    return group.promise
  }

  /** Waits until every added commit is written or rejected. */
  async drain(): Promise<void> {
    await this.#running
  }

  /** Stops accepting commits. Queued ones are rejected with the outcome `not-applied`. */
  fence(cause: unknown): void {
    this.#failure ??= { cause }
    for (const group of this.#waiting.splice(0)) group.reject(writeError(cause, 'not-applied'))
  }

  /** Accepts commits again. Call this while nothing is queued or being written. */
  resume(): void {
    this.#failure = undefined
    this.#sequence = new EventSequence(this.#options.hasEvent)
  }

  /**
   * The result for a commit whose event number is taken already: false. A queued commit may have taken the
   * number, so the result comes only when that commit can be read.
   */
  #passed(): Promise<boolean> {
    return this.#newest === undefined ? nothingPassed : this.#newest.then(no)
  }

  #openGroup(): Group {
    const last = this.#waiting.at(-1)
    if (last !== undefined && last.make === undefined && last.bytes < levelLimits.groupBytes) return last
    const group = new Group(undefined)
    this.#waiting.push(group)
    this.#newest = group.promise
    return group
  }

  async #run(): Promise<void> {
    // This wait lets all commits of the same turn join the first group.
    await nextMicrotask
    for (let group = this.#waiting.shift(); group !== undefined; group = this.#waiting.shift()) {
      try {
        if (group.make !== undefined) {
          const frame = await group.make()
          if (frame !== undefined) group.frames.push(frame)
        }
        if (group.frames.length > 0) {
          const appended = await this.#options.log.append(group.frames)
          // There is a promise only if the index lags far.
          const flushing = this.#options.onWritten(appended)
          if (flushing !== undefined) await flushing
        }
      } catch (error) {
        group.reject(writeError(error, 'unknown'))
        this.fence(error)
        break
      }
      // If writes never wait for the disk, this gives timers, sockets and other work their turns.
      if (this.#slice.over) await this.#slice.next()
      group.resolve(true)
      if (this.#failure !== undefined) break
    }
    // There is no await after the last check of the queue. So a commit that is added later starts a new run.
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
