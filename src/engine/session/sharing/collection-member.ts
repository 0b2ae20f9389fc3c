import { messageOf } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import { nextTurn, TimeSlice } from '../../base/cooperative.js'
import { kindOf } from '../../records/index.js'
import { contentsOf, type Redo } from '../../records/event.js'
import { keys } from '../../storage/keys.js'
import type { CollectionEpoch, SharedStore, Store, StoreCommit } from '../../storage/store.js'
import { wrapped } from '../../storage/wrapped-store.js'
import { bodyReferences, encodedReferences, type References, type StoredKind } from '../../tree/references.js'
import { treeReferences } from '../../tree/memory-references.js'
import type { Dir, Page } from '../../tree/node.js'
import { inBackground, type Core } from '../core.js'
import { encodePins, type StorePin } from './store-pins.js'

/**
 * The part of one engine in the collections of a shared store, whichever engine collects. It looks for a new epoch in
 * regular intervals. To acknowledge one, it waits until all changes and reads that began before are over, and publishes
 * the objects in its memory, to which no record may refer.
 *
 * While a collection reads the records of the store, an engine may store a record that refers to a tree from its memory,
 * and another engine may delete the record that the tree came from. The collection may see neither of them. So each engine
 * notes all references of its commits during this time, and publishes them with its trees in memory.
 */
export class CollectionMember {
  readonly #store: SharedStore
  #epoch: CollectionEpoch
  /** Notes the states that forks start from. */
  #forks: Disposable | undefined
  /** References of commits, if they are noted now. */
  #noted: Notes | undefined
  #looking: Promise<void> | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStopped = false

  constructor(store: SharedStore) {
    this.#store = store
    this.#epoch = store.joined
    if (store.joined.stage === 'references') this.#noted = new Notes()
  }

  /** The same store, with a note of the references of all commits. */
  watching(store: Store): Store {
    return wrapped(store, {
      commit: (commit) => {
        this.#noted?.commit(commit)
        return store.commit(commit)
      },
    })
  }

  start(core: Core): void {
    core.pins.epoch = this.#epoch.epoch
    this.#enter(core, this.#epoch)
    const next = (): void => {
      if (this.#isStopped) return
      const ms = this.#epoch.stage === 'none' ? limits.sharedEpochMs : limits.sharedEpochBusyMs
      this.#timer = setTimeout(() => {
        const looked = this.look(core)
          .catch((error: unknown) =>
            core.log('warn', 'an epoch of a collection was not acknowledged', { error: messageOf(error) }),
          )
          .finally(next)
        inBackground(core, looked)
      }, ms)
      this.#timer.unref()
    }
    next()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /**
   * Publishes the notes of this engine, which commits nothing more, so that a running collection need not begin again.
   * The objects in its memory are not in use any more.
   */
  async leave(core: Core): Promise<void> {
    let tried: number | undefined
    for (;;) {
      const newest = await this.#store.epoch()
      // The collection may be about to delete a session from which this engine has made a fork. So it must begin again.
      if (newest.stage === 'history' && core.pins.heldSessions().next().done !== true) return
      if (newest.stage === 'none' || (await this.#publish(newest, [], this.#noted, false))) break
      // Unless a new epoch began meanwhile, the lease of this engine is over.
      if (newest.epoch === tried) return
      tried = newest.epoch
    }
    this.#store.leave()
  }

  /** Acknowledges the newest epoch, if that is not done. Calls share one look. */
  look(core: Core): Promise<void> {
    this.#looking ??= this.#look(core).finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #look(core: Core): Promise<void> {
    const newest = await this.#store.epoch()
    this.#enter(core, newest)
    // Otherwise a collection would wait for the next request to this engine.
    if (newest.epoch !== this.#store.acknowledged) await core.fence.recover()
    if (core.fence.closed) return
    if (newest.epoch !== this.#store.acknowledged) await this.#acknowledge(core, newest)
    else if (this.#noted !== undefined) await this.#publish(newest, [], this.#noted, false)
  }

  #enter(core: Core, epoch: CollectionEpoch): void {
    this.#epoch = epoch
    const isCollecting = epoch.stage !== 'none'
    core.table.isCollecting = isCollecting
    if (isCollecting) this.#forks ??= core.pins.pin({ forks: true })
    else {
      this.#forks?.[Symbol.dispose]()
      this.#forks = undefined
    }
    if (epoch.stage === 'references') this.#noted ??= new Notes()
    else if (epoch.stage !== 'roots') this.#noted = undefined
  }

  async #acknowledge(core: Core, newest: CollectionEpoch): Promise<void> {
    const isLast = newest.stage === 'roots'
    core.store.beginRecords()
    await core.pins.readsEnded()
    // A session that another engine deleted before this epoch leaves memory here.
    await core.sharing?.lookAtAll(core)
    for (const live of core.table.live.values()) live.lineage = undefined
    await core.store.commit({})
    await core.pins.readsEnded()
    // The callers of these reads pin their results.
    await nextTurn()
    // Read in one turn. Later forks and readers use states that the collection keeps anyway.
    const pins: StorePin[] = [{ sessions: [...core.pins.heldSessions()] }]
    if (isLast) {
      const roots = [...core.pins.roots()]
      const contents = [...core.pins.contents()]
      const since = core.pins.writesSince()
      if (since !== undefined) pins.push({ writesSince: since })
      // Nodes that are being written are stored then.
      await core.store.commit({})
      const notes = new Notes()
      for (const body of contents) bodyReferences(body, notes)
      const slice = new TimeSlice(core.environment)
      const seen = new Set<Dir | Page>()
      const visitor = {
        node: (address: string, kind: StoredKind) => notes.node(address, kind),
        blob: (hash: string) => notes.blob(hash),
        isStored: async (address: string) =>
          notes.has(address) || (await core.store.get(keys.node(address))) !== undefined,
        rest: async () => {
          if (slice.over) await slice.next()
        },
      }
      for (const root of roots) await treeReferences(root, visitor, seen)
      pins.push(...notes.take())
    }
    await this.#publish(newest, pins, this.#noted, true)
    core.pins.epoch = this.#store.acknowledged
  }

  /** Publishes pins and notes. If that fails, or the epoch is over, the notes are published later. */
  async #publish(
    { epoch, stage }: CollectionEpoch,
    pins: readonly StorePin[],
    noted: Notes | undefined,
    acknowledges: boolean,
  ): Promise<boolean> {
    const notes = noted?.take() ?? []
    let isPublished = false
    try {
      const bodies = encodePins([...pins, ...notes])
      const last = bodies.splice(-limits.pinsPerStatement)
      if (last.length === 0 && !acknowledges) return true
      while (bodies.length > 0) {
        const some = bodies.splice(0, limits.pinsPerStatement)
        if (!(await this.#store.publish(epoch, some, { acknowledges: false }))) return false
      }
      isPublished = await this.#store.publish(epoch, last, { acknowledges })
    } finally {
      if (!isPublished) noted?.restore(notes)
    }
    // Later commits refer only to objects that this engine has published, or that the collection has marked.
    if (isPublished && acknowledges && stage === 'roots') this.#noted = undefined
    return isPublished
  }
}

/** References, each of them once until they are taken. */
class Notes implements References {
  #nodes = new Map<string, StoredKind>()
  #blobs = new Set<string>()

  has(address: string): boolean {
    return this.#nodes.has(address)
  }

  node(address: string, kind: StoredKind): void {
    this.#nodes.set(address, kind)
  }

  blob(hash: string): void {
    this.#blobs.add(hash)
  }

  commit({ put = [], events = [] }: StoreCommit): void {
    for (const [key, value] of put) {
      const kind = kindOf(key)
      if (kind?.hasReferences !== true) continue
      kind.readReferences(typeof value === 'string' ? value : JSON.stringify(value), key, {
        root: (root) => encodedReferences(root, this),
        blob: (hash) => this.blob(hash),
        record: () => undefined,
      })
    }
    for (const { body } of events) {
      const redo = (typeof body === 'string' ? (JSON.parse(body) as readonly unknown[]) : body)[5]
      if (Array.isArray(redo)) for (const [hash] of contentsOf(redo as readonly Redo[])) this.blob(hash)
    }
  }

  /** Adds notes again that were taken. */
  restore(pins: readonly StorePin[]): void {
    for (const { nodes = [], blobs = [] } of pins) {
      for (const [address, kind] of nodes) this.node(address, kind)
      for (const hash of blobs) this.blob(hash)
    }
  }

  /** Returns all notes, and forgets them. */
  take(): StorePin[] {
    const pins: StorePin[] = []
    if (this.#nodes.size > 0) pins.push({ nodes: [...this.#nodes] })
    if (this.#blobs.size > 0) pins.push({ blobs: [...this.#blobs] })
    this.#nodes = new Map()
    this.#blobs = new Set()
    return pins
  }
}
