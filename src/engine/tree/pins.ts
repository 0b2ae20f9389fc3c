import { limits } from '../base/limits.js'
import type { Body } from '../cas/body.js'
import { RecentWrites, type WrittenSince } from '../storage/recent-writes.js'
import type { Store, StoreCommit } from '../storage/store.js'
import { wrapped } from '../storage/wrapped-store.js'
import type { Dir, FileNode } from './node.js'

/** A frozen directory, or an open file, whose newest node may change before a collection reads it. */
export type PinnedNode = Dir | { readonly last: FileNode | undefined }

/** States of one session. */
export interface PinnedStates {
  readonly sessionId: string
  /** The states after these events can be read again from the store, and so can the newest one. */
  readonly seqs: readonly number[]
}

/** The objects that a pin protects from collection until it is disposed of. */
export interface PinRequest {
  /** Trees and files in memory, with everything below them. */
  readonly roots?: readonly PinnedNode[]
  readonly contents?: readonly Body[]
  /** Protects blobs and tree nodes that are written before a record refers to them. */
  readonly writesSince?: WrittenSince
  /** Kept even if the session is deleted meanwhile. Pin them while it exists and the states are referenced. */
  readonly states?: PinnedStates
  /** A partially stored session. It counts as deleted until it is complete. */
  readonly arrivingSession?: string
  /** Notes the states that forks start from, those that are merged, and sessions with `revisits`, from now on. */
  readonly forks?: boolean
  /**
   * A session of which an undo, restore, fork or merge goes back to an earlier state. A running collection may have decided
   * that nothing needs the history that leads to the state, and a later merge may need it. Pin it before the state is read,
   * then wait for {@link Pins.historyRemoved}.
   */
  readonly revisits?: string
  /**
   * The pin also ends once JavaScript has freed this object, for callers that cannot dispose of the pin. Every reader of the
   * `roots` must refer to it. The roots themselves may stay in memory longer, as in the cache of nodes.
   */
  readonly owner?: object
}

interface Pin {
  readonly roots: readonly (PinnedNode | WeakRef<PinnedNode>)[]
  readonly contents: readonly Body[]
  readonly states: PinnedStates | undefined
  readonly owner: WeakRef<object> | undefined
}

const none: Disposable = { [Symbol.dispose]: () => undefined }

/**
 * Protects objects that no stored record refers to from collection. All readers and writers pin objects here, and only
 * here does the collector check for them.
 *
 * @example
 * using _ = core.pins.pin({ roots: [root] })
 */
export class Pins {
  readonly #durable: boolean
  readonly #pins = new Set<Pin>()
  #sweepAt: number = limits.pinsPerSweep
  readonly #states = new Map<string, Set<Pin>>()
  readonly #writes = new RecentWrites()
  readonly #arriving = new Set<string>()
  readonly #reads = new Set<Promise<unknown>>()
  /** States by parent session; undefined while no pin notes forks. */
  #forks: Map<string, Set<number>> | undefined
  /** The sessions of the pins with `revisits`, each as often as it has such a pin. */
  readonly #revisiting: string[] = []
  /** Those that had such a pin since the pin for forks; undefined while there is none. */
  #revisited: Set<string> | undefined
  /** The sessions that lose history now. */
  readonly #removals = new Map<string, Promise<unknown>>()
  #settled: Promise<void> | undefined
  readonly #sessionTrees: () => Iterable<Dir>

  /** `sessionTrees` yields the trees of the sessions in memory. */
  constructor({ durable, sessionTrees }: { durable: boolean; sessionTrees: () => Iterable<Dir> }) {
    this.#durable = durable
    this.#sessionTrees = sessionTrees
  }

  /**
   * Protects objects from this turn of the event loop on. Without a durable store, only sessions are
   * collected.
   */
  pin(request: PinRequest): Disposable {
    const { writesSince, arrivingSession, forks, states, revisits } = request
    const isInMemory = states === undefined && arrivingSession === undefined && forks === undefined
    if (!this.#durable && isInMemory) return none
    const releases: (() => void)[] = []
    if (this.#durable && writesSince !== undefined) releases.push(this.#writes.begin(writesSince))
    if (arrivingSession !== undefined) releases.push(this.#arrive(arrivingSession))
    if (this.#durable && revisits !== undefined) releases.push(this.#revisit(revisits))
    if (forks === true) releases.push(this.#noteForks())
    const remove = this.#add(request)
    if (remove !== undefined) releases.push(remove)
    if (releases.length === 0) return none
    return {
      [Symbol.dispose]: () => {
        for (const release of releases.splice(0)) release()
      },
    }
  }

  /**
   * Registers a read of stored history, so that the collector waits for it before it removes history. It does not protect
   * trees that the read found in memory, or that it returns: pin these in the same turn of the event loop.
   */
  whileReading<T>(read: Promise<T>): Promise<T> {
    const settled: Promise<unknown> = read.then(ignore, ignore).then(() => this.#reads.delete(settled))
    this.#reads.add(settled)
    return read
  }

  /** Call this in the turn of the event loop in which a fork or a merge of the state is put into the store's queue. */
  referred(parentId: string, seq: number): void {
    if (this.#forks === undefined) return
    const seqs = this.#forks.get(parentId)
    if (seqs === undefined) this.#forks.set(parentId, new Set([seq]))
    else seqs.add(seq)
  }

  /** Whether a call went back to an earlier state of the session since the pin for forks. */
  isRevisited(sessionId: string): boolean {
    return this.#revisited?.has(sessionId) === true
  }

  /**
   * Registers the removal of a session's history. It must not stop halfway, because a state that can still be read would lack
   * the history that leads to it.
   */
  async whileRemoving<T>(sessionId: string, removal: Promise<T>): Promise<T> {
    this.#removals.set(sessionId, removal.catch(ignore))
    try {
      return await removal
    } finally {
      this.#removals.delete(sessionId)
    }
  }

  /**
   * Resolves when the history that the session loses now is removed. Undefined if it loses none. While it has a pin with
   * `revisits`, no collection begins to remove any.
   */
  historyRemoved(sessionId: string): Promise<unknown> | undefined {
    return this.#removals.get(sessionId)
  }

  /** Resolves when the collection that notes forks has removed the histories that nothing needs. Undefined if there is none. */
  get settled(): Promise<void> | undefined {
    return this.#settled
  }

  /** The newest epoch of a shared store that this engine has acknowledged. */
  set epoch(epoch: number) {
    this.#writes.epoch = epoch
  }

  /** Everything that was written in this epoch of a shared store or later is pinned. Undefined: nothing is. */
  writesSince(): number | undefined {
    return this.#writes.oldest
  }

  /** Sessions with pinned states, those that arrive, those of which a state was noted, and those with `revisits`. */
  *heldSessions(): Generator<string, void> {
    yield* this.#arriving
    yield* this.#forks?.keys() ?? []
    yield* this.#revisited ?? []
    for (const sessionId of this.#states.keys()) if (this.statesOf(sessionId) !== undefined) yield sessionId
  }

  /** The same store, with a note of everything that is written to it. */
  watching(store: Store): Store {
    if (!this.#durable) return store
    return wrapped(store, {
      commit: (commit: StoreCommit) => {
        this.#writes.note(commit)
        return store.commit(commit)
      },
    })
  }

  /** Whether a pin protects a blob or a tree node because it was written. There are rare false positives. */
  isWritten(digest: string): boolean {
    return this.#writes.has(digest)
  }

  /** The trees and files in memory: the frozen trees of sessions, and pinned nodes. */
  *roots(): Generator<PinnedNode> {
    yield* this.#sessionTrees()
    for (const { roots } of this.#current()) {
      for (const root of roots) {
        const node = root instanceof WeakRef ? root.deref() : root
        if (node !== undefined) yield node
      }
    }
  }

  *contents(): Generator<Body> {
    for (const { contents } of this.#current()) yield* contents
  }

  /** Without the pins that ended with their owners. */
  *#current(): Generator<Pin> {
    for (const pin of this.#pins) {
      if (isOver(pin)) this.#release(pin)
      else yield pin
    }
  }

  /** The pinned states of a session; undefined if there are none. */
  statesOf(sessionId: string): readonly number[] | undefined {
    for (const pin of this.#states.get(sessionId) ?? []) if (isOver(pin)) this.#release(pin)
    const pins = this.#states.get(sessionId)
    return pins && [...pins].flatMap(({ states }) => states?.seqs ?? [])
  }

  isArriving(sessionId: string): boolean {
    return this.#arriving.has(sessionId)
  }

  /** The states of a session that forks started from, or that were merged, since the pin for forks; undefined if there are none. */
  forksOf(sessionId: string): ReadonlySet<number> | undefined {
    return this.#forks?.get(sessionId)
  }

  /** Resolves when all current reads have ended. Later reads find the store in its current state. */
  async readsEnded(): Promise<void> {
    if (this.#reads.size > 0) await Promise.all(this.#reads)
  }

  #add({ roots = [], contents = [], states, owner }: PinRequest): (() => void) | undefined {
    // Without a durable store, objects in memory need no pin.
    if (states === undefined && (!this.#durable || roots.length + contents.length === 0)) return undefined
    const pin: Pin = {
      roots: owner === undefined ? roots : roots.map((root) => new WeakRef(root)),
      contents,
      states,
      owner: owner && new WeakRef(owner),
    }
    if (owner !== undefined && this.#pins.size >= this.#sweepAt) {
      for (const one of this.#pins) if (isOver(one)) this.#release(one)
      this.#sweepAt = Math.max(limits.pinsPerSweep, this.#pins.size * 2)
    }
    this.#pins.add(pin)
    if (states !== undefined) {
      const ofSession = this.#states.get(states.sessionId)
      if (ofSession === undefined) this.#states.set(states.sessionId, new Set([pin]))
      else ofSession.add(pin)
    }
    return () => this.#release(pin)
  }

  #release(pin: Pin): void {
    this.#pins.delete(pin)
    if (pin.states === undefined) return
    const { sessionId } = pin.states
    const ofSession = this.#states.get(sessionId)
    if (ofSession?.delete(pin) === true && ofSession.size === 0) this.#states.delete(sessionId)
  }

  #arrive(sessionId: string): () => void {
    this.#arriving.add(sessionId)
    return () => this.#arriving.delete(sessionId)
  }

  #revisit(sessionId: string): () => void {
    this.#revisiting.push(sessionId)
    this.#revisited?.add(sessionId)
    return () => this.#revisiting.splice(this.#revisiting.indexOf(sessionId), 1)
  }

  /** Only one caller may use this at a time. Collections take turns. */
  #noteForks(): () => void {
    this.#forks = new Map()
    this.#revisited = new Set(this.#revisiting)
    let settle!: () => void
    this.#settled = new Promise((resolve) => (settle = resolve))
    return () => {
      this.#forks = undefined
      this.#revisited = undefined
      this.#settled = undefined
      settle()
    }
  }
}

/** The pin of an operation that may find its state several times. Each pin replaces the one before. */
export class ReplacedPin implements Disposable {
  #pin: Disposable | undefined
  #isOver = false

  hold(pin: Disposable): void {
    this.#pin?.[Symbol.dispose]()
    this.#pin = pin
    if (this.#isOver) pin[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    this.#isOver = true
    this.#pin?.[Symbol.dispose]()
  }
}

/** The pins of an operation that finds several trees one after the other. */
export class PinnedRoots implements Disposable {
  readonly #pins: Pins
  readonly #held: Disposable[] = []

  constructor(pins: Pins) {
    this.#pins = pins
  }

  /** Pins a root, and returns it. */
  add(root: Dir): Dir {
    this.#held.push(this.#pins.pin({ roots: [root] }))
    return root
  }

  [Symbol.dispose](): void {
    for (const pin of this.#held.splice(0)) pin[Symbol.dispose]()
  }
}

function isOver({ owner }: Pin): boolean {
  return owner !== undefined && owner.deref() === undefined
}

function ignore(): void {}
