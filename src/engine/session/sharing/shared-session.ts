import { EngineError } from '../../base/errors.js'
import type { HeadMove } from '../../storage/store.js'
import type { Dir } from '../../tree/node.js'

/** A state of a session that is stored. */
export interface StoredState {
  readonly root: Dir
  readonly seq: number
  /** The time and the link of event `seq`. */
  readonly at: number
  readonly chain: string
  /** The bytes that the changes up to event `seq` wrote, if the engine counts them. */
  readonly bytesWritten: number
}

/** The error of a commit that was not stored because another engine had changed the session. */
export class Overtaken extends EngineError {
  constructor(sessionId: string) {
    super(
      'SESSION_MOVED',
      'the operation was not applied, because other engines changed the session meanwhile; repeat it',
      { sessionId, outcome: 'not-applied' },
    )
  }
}

/** A change whose commits are not all stored yet. It runs again if another engine was first. */
export class Change {
  /** Plans the change from the newest state, applies it and queues its commits. May throw a Fault. */
  readonly plan: () => Promise<void>
  /** Settles with the change, however often it runs. */
  readonly done: Promise<void>
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
  /** How often it has run. */
  runs = 0
  /** The number of commits of its newest run. */
  commits = 0
  /** Whether one of these was not stored because another engine was first. */
  isLost = false

  constructor(plan: () => Promise<void>) {
    this.plan = plan
    let settle: Pick<Change, 'resolve' | 'reject'> = { resolve: ignore, reject: ignore }
    this.done = new Promise((resolve, reject) => {
      settle = { resolve, reject }
    })
    this.resolve = settle.resolve
    this.reject = settle.reject
  }
}

/** The facts about a session that an engine keeps while other engines may change the session too. */
export class SharedSession {
  readonly #sessionId: string
  readonly #nextHead: () => string
  readonly #listeners = new Map<object, () => void>()
  /** The head after all queued commits. */
  #head: string
  /** The newest head that was read from the store. */
  seen: string
  /** The newest state that is stored, without changes that wait for their commits. */
  stored: StoredState
  /** Changes in the order of their plans. */
  readonly inFlight = new Set<Change>()
  /** The change whose plan runs now. */
  planning: Change | undefined
  /** Settles with the newest queued commit. */
  queued: Promise<unknown> = Promise.resolve()
  /** Runs while the session is brought to the state in the store. Other changes wait for it. */
  catchingUp: Promise<void> | undefined
  /** How often the state in memory was replaced by that of the store. */
  restarts = 0
  /** Whether a commit was not stored since the session was last read. */
  isOvertaken = false
  /** Whether the session was used since the last look at the heads of all sessions. */
  isUsed = true
  /** The time by the monotonic clock at which its head was read last. */
  readAt: number

  constructor(
    sessionId: string,
    {
      head,
      stored,
      readAt,
      nextHead,
    }: { head: string; stored: StoredState; readAt: number; nextHead: () => string },
  ) {
    this.#sessionId = sessionId
    this.#nextHead = nextHead
    this.#head = head
    this.seen = head
    this.stored = stored
    this.readAt = readAt
  }

  /** Whether it may not leave memory. */
  get isBusy(): boolean {
    return this.inFlight.size > 0 || this.catchingUp !== undefined
  }

  /** The step of the head for the next commit. */
  move(): HeadMove {
    const from = this.#head
    this.#head = this.#nextHead()
    return { id: this.#sessionId, from, to: this.#head }
  }

  /** Calls a listener after each change of another engine. Each key has one listener. */
  onRestart(key: object, listener: () => void): void {
    this.#listeners.set(key, listener)
  }

  /** Corrects the count of the bytes that the stored changes wrote. */
  recount(correction: number): void {
    this.stored = { ...this.stored, bytesWritten: this.stored.bytesWritten + correction }
  }

  /** Notes a state that is stored now. */
  store(state: StoredState): void {
    if (state.seq > this.stored.seq) this.stored = state
  }

  /** Begins again from a head that was read from the store. */
  restart(head: string): void {
    this.#head = head
    this.seen = head
    this.isOvertaken = false
    this.restarts++
    for (const listener of this.#listeners.values()) listener()
  }
}

function ignore(): void {}
