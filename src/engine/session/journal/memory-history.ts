import { itemAt, present } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import type { BlobRef, EncodedBlob } from '../../cas/blob.js'
import type { Redo } from '../../records/event.js'
import type { Dir } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import { apply } from '../apply.js'
import { stateNotKept } from '../history/event-ids.js'
import type { LiveSession } from '../table/live.js'
import type { ReplayContext } from './journal.js'

/** The approximate memory of an event and of one of its effects, in bytes. */
const eventBytes = 200
const effectBytes = 150

/** One event: its effects, and for some events the root after it. */
interface KeptEvent {
  readonly at: number
  /** Undefined for an imported event, whose effects are unknown. */
  readonly redo: readonly Redo[] | undefined
  readonly root: Dir | undefined
  readonly bytes: number
}

/** The newest events of one session, without gaps. */
class KeptEvents {
  /** The number of the event at `start`. */
  first: number
  start = 0
  /** Undefined before `start`. */
  readonly events: (KeptEvent | undefined)[] = []
  bytes = 0
  /** Events, effects and their bytes since the newest root. */
  eventsSince = 0
  effectsSince = 0
  bytesSince = 0
  /** The size of the tree's nodes at the newest root. */
  rootedAt: number
  ended = false

  constructor(first: number, rootedAt: number) {
    this.first = first
    this.rootedAt = rootedAt
  }

  get last(): number {
    return this.first + this.events.length - this.start - 1
  }

  at(seq: number): KeptEvent | undefined {
    return seq < this.first ? undefined : this.events[this.start + seq - this.first]
  }

  dropOldest(): void {
    this.bytes -= present(this.events[this.start], 'the oldest kept event').bytes
    this.events[this.start] = undefined
    this.first++
    this.start++
    if (this.start < 64 || this.start * 2 < this.events.length) return
    this.events.splice(0, this.start)
    this.start = 0
  }
}

/**
 * The newest changes of all sessions, for a store that is not durable. Earlier states are computed from the roots
 * that it keeps in between. When the bound is reached, the oldest changes of any session are dropped first.
 *
 * The bound counts the written contents and the changed nodes. Contents that a kept change replaced or deleted
 * are not counted, and stay in memory as long as the root before that change.
 */
export class MemoryHistory {
  readonly #maxBytes: number
  #bytes = 0
  readonly #sessions = new Map<string, KeptEvents>()
  /** The session of each kept event, oldest first. The events of ended sessions are no longer kept. */
  #order: KeptEvents[] = []
  #orderStart = 0
  #endedItems = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Adds the newest event of a session, whose effects are applied; undefined if they are unknown. */
  add(live: LiveSession, at: number, redo: readonly Redo[] | undefined): void {
    if (this.#maxBytes === 0) return
    let kept = this.#sessions.get(live.id)
    if (kept === undefined || kept.last + 1 !== live.seq) {
      this.forget(live.id)
      kept = new KeptEvents(live.seq, live.tree.madeBytes)
      this.#sessions.set(live.id, kept)
    }
    const root = rootFor(kept, live, redo ?? [], this.#maxBytes / limits.historyRootShare)
    let bytes = eventBytes
    if (root !== undefined) {
      bytes += live.tree.madeBytes - kept.rootedAt
      kept.rootedAt = live.tree.madeBytes
    }
    for (const effect of redo ?? []) bytes += effectBytes + sizeOf(effect)
    kept.bytesSince += bytes
    kept.events.push({ at, redo, root, bytes })
    kept.bytes += bytes
    this.#bytes += bytes
    this.#order.push(kept)
    while (this.#bytes > this.#maxBytes) this.#dropOldest()
  }

  forget(sessionId: string): void {
    const kept = this.#sessions.get(sessionId)
    if (kept === undefined) return
    this.#sessions.delete(sessionId)
    this.#bytes -= kept.bytes
    this.#endedItems += kept.events.length - kept.start
    kept.ended = true
    kept.events.length = 0
    kept.start = 0
    kept.bytes = 0
    if (this.#endedItems < limits.historyEndedItems || this.#endedItems * 2 < this.#order.length) return
    this.#order = this.#order.slice(this.#orderStart).filter(({ ended }) => !ended)
    this.#orderStart = 0
    this.#endedItems = 0
  }

  redoOf(sessionId: string, seq: number): readonly Redo[] | undefined {
    return this.#sessions.get(sessionId)?.at(seq)?.redo
  }

  /**
   * The root after an event.
   *
   * @throws {EngineError} STATE_NOT_KEPT when it can no longer be computed.
   */
  rootAt(context: ReplayContext, live: LiveSession, seq: number): Dir {
    const kept = this.#sessions.get(live.id)
    // The first event of a session changes no files.
    const wanted = seq === 0 && kept?.first === 1 ? 1 : seq
    let from = wanted
    while (kept?.at(from) !== undefined && kept.at(from)?.root === undefined) from--
    const root = kept?.at(from)?.root
    if (kept === undefined || root === undefined)
      throw stateNotKept(live.id, seq, 'memory holds only the newest changes')
    if (from === wanted) return root
    const tree = new Tree(root, context.loader)
    for (let next = from + 1; next <= wanted; next++) {
      const { at, redo } = present(kept.at(next), 'a kept event')
      for (const effect of redo ?? []) if (effect[0] !== 'R') apply(tree, effect, at, context)
    }
    return tree.freeze()
  }

  #dropOldest(): void {
    const kept = itemAt(this.#order, this.#orderStart++)
    if (kept.ended) this.#endedItems--
    else {
      const before = kept.bytes
      kept.dropOldest()
      this.#bytes -= before - kept.bytes
    }
    if (this.#orderStart < limits.historyEndedItems || this.#orderStart * 2 < this.#order.length) return
    this.#order.splice(0, this.#orderStart)
    this.#orderStart = 0
  }
}

/** Freezes the tree at the first event, after a restore, and in regular distances. */
function rootFor(
  kept: KeptEvents,
  live: LiveSession,
  redo: readonly Redo[],
  maxBytes: number,
): Dir | undefined {
  kept.eventsSince++
  kept.effectsSince += redo.length
  const isDue =
    kept.events.length === kept.start ||
    redo[0]?.[0] === 'R' ||
    kept.eventsSince >= limits.historyRootEvents ||
    kept.bytesSince >= maxBytes ||
    kept.effectsSince >= limits.historyRootEffects
  if (!isDue) return undefined
  kept.eventsSince = 0
  kept.effectsSince = 0
  kept.bytesSince = 0
  return live.tree.freeze()
}

/** The bytes of the contents in an effect. */
function sizeOf(effect: Redo): number {
  switch (effect[0]) {
    case 'w':
      return lengthOf(effect[4])
    case 'o':
      return lengthOf(effect[2])
    case 'x':
      return lengthOf(effect[3])
    case 'p': {
      let bytes = 0
      for (const [, , blob] of effect[3]) bytes += effectBytes + lengthOf(blob)
      return bytes
    }
    default:
      return 0
  }
}

function lengthOf(blob: BlobRef | EncodedBlob | 0): number {
  return blob === 0 ? 0 : 'hash' in blob ? blob.length : blob[1]
}
