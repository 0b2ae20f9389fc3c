import { nextTurn, type EngineError, type StoreCommit } from '../../engine/ports.js'
import { CommitSet, encodeCommit, firstClaim, gapText, setOf, type EncodedCommit } from './commit-set.js'
import type { CommitStatus } from './commit-statement.js'
import { fencedError, isDeadlock, isEventTaken, missingEvent, writeError } from './errors.js'
import { postgresLimits } from './limits.js'

const nextMicrotask = Promise.resolve()

/**
 * The queue of commits. While a statement is under way, further commits gather in a group, which the next
 * statement stores. The effect is that of the commits one after the other.
 *
 * After a failed statement, the queue stores nothing until `resume`. All queued commits are rejected.
 */
export class CommitQueue {
  readonly #store: (set: CommitSet) => Promise<CommitStatus>
  readonly #takenError: () => EngineError
  readonly #collector: () => string | undefined
  readonly #waiting: Group[] = []
  #newest: Promise<unknown> | undefined
  #running: Promise<void> | undefined
  #failure: { readonly cause: unknown } | undefined

  /**
   * `store` stores a set whole, or nothing of it. Only one call runs at a time. `takenError` makes the error of a commit
   * for which the lease of this engine is lost. `collector` is the number of its right to collect.
   */
  constructor(
    store: (set: CommitSet) => Promise<CommitStatus>,
    takenError: () => EngineError,
    collector: () => string | undefined,
  ) {
    this.#store = store
    this.#takenError = takenError
    this.#collector = collector
  }

  get failed(): boolean {
    return this.#failure !== undefined
  }

  add(commit: StoreCommit): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(fencedError(this.#failure.cause))
    let encoded: EncodedCommit | undefined
    try {
      encoded = encodeCommit(commit, commit.collecting === true ? (this.#collector() ?? '0') : undefined)
    } catch (error) {
      return Promise.reject(error)
    }
    // The events of earlier commits must be readable when the caller learns of the conflict.
    if (encoded === undefined) return (this.#newest ?? nextMicrotask).then(no, no)
    const promise = this.#groupFor(encoded).add(encoded)
    this.#newest = promise
    this.#running ??= this.#run()
    return promise
  }

  /** Waits until every added commit is stored or rejected. */
  async drain(): Promise<void> {
    await this.#running
  }

  /** Accepts no commits from now on. Queued ones are rejected. */
  fence(cause: unknown): void {
    this.#failure ??= { cause }
    for (const group of this.#waiting.splice(0)) group.reject(fencedError(cause))
  }

  /** Accepts commits again. Call this while nothing is queued or being stored. */
  resume(): void {
    this.#failure = undefined
  }

  #groupFor(commit: EncodedCommit): Group {
    const last = this.#waiting.at(-1)
    if (last?.accepts(commit) === true) return last
    const group = new Group()
    this.#waiting.push(group)
    return group
  }

  async #run(): Promise<void> {
    // This wait lets all commits of the same turn join the first group.
    await nextMicrotask
    for (let group = this.#waiting.shift(); group !== undefined; group = this.#waiting.shift()) {
      try {
        await this.#storeGroup(group)
        // Callers that wait for this group can add their next commits, which then share one statement.
        await nextTurn()
      } catch (error) {
        const failure = writeError(error)
        group.reject(failure)
        this.fence(failure)
      }
    }
    // There is no await after the last check of the queue. So a commit that is added later starts a new run.
    this.#running = undefined
    this.#newest = undefined
  }

  /**
   * Stores a group with one statement. If the store refuses it, because one of its commits comes too late, its
   * commits are stored one by one. That happens only if another engine writes to the same session. If the store
   * names these sessions, the commits to other sessions are stored together.
   */
  async #storeGroup(group: Group): Promise<void> {
    const status = await this.#statusOf(group.set)
    const [only, ...others] = group.pending
    if (only === undefined) return
    if (status === 'stored') for (const { resolve } of group.pending) resolve(true)
    else if (typeof status === 'object') {
      const rest = new Group()
      for (const pending of group.pending)
        if (pending.commit.heads.some(({ id }) => status.overtaken.has(id))) pending.resolve(false)
        else rest.take(pending)
      group.pending.splice(0, Infinity, ...rest.pending)
      if (rest.pending.length > 0) await this.#storeGroup(rest)
    } else if (others.length === 0) settle(only, status)
    else for (const pending of group.pending) settle(pending, await this.#statusOf(setOf(pending.commit)))
  }

  async #statusOf(set: CommitSet): Promise<CommitStatus> {
    let status: CommitStatus | undefined
    for (let attempt = 1; status === undefined; attempt++) {
      try {
        status = await this.#store(set)
      } catch (error) {
        // Another engine added the event while the statement ran.
        if (isEventTaken(error)) status = 'passed'
        // The statement of another engine waited for this one. The server has rolled this one back.
        else if (!isDeadlock(error) || attempt === postgresLimits.deadlockAttempts) throw error
      }
    }
    if (status === 'taken') throw this.#takenError()
    return status
  }
}

interface Pending {
  readonly commit: EncodedCommit
  readonly resolve: (stored: boolean) => void
  readonly reject: (error: EngineError) => void
}

/** The commits that one statement stores. */
class Group {
  readonly set = new CommitSet()
  readonly pending: Pending[] = []

  accepts(commit: EncodedCommit): boolean {
    if (this.pending.length >= postgresLimits.groupCommits) return false
    return this.set.bytes < postgresLimits.groupBytes && this.set.accepts(commit)
  }

  add(commit: EncodedCommit): Promise<boolean> {
    this.set.add(commit)
    return new Promise((resolve, reject) => {
      this.pending.push({ commit, resolve, reject })
    })
  }

  /** Adds a commit of another group. */
  take(pending: Pending): void {
    this.set.add(pending.commit)
    this.pending.push(pending)
  }

  /** Rejects the commits that have no result yet. */
  reject(error: EngineError): void {
    for (const { reject } of this.pending) reject(error)
  }
}

function settle({ commit, resolve, reject }: Pending, status: CommitStatus): void {
  if (status === 'stored') resolve(true)
  else if (status === 'passed' || status === 'ended' || typeof status === 'object') resolve(false)
  else if (status === 'gap') {
    const [sessionId, seq] = firstClaim(commit)
    reject(missingEvent(gapText(sessionId, seq)))
  } else reject(missingEvent('an event to replace does not exist'))
}

function no(): false {
  return false
}
