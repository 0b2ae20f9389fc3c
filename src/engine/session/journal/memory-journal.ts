import type { BlobRef } from '../../cas/blob.js'
import type { EventBody, PublicPart, Redo } from '../../records/event.js'
import { knownRedo } from '../history/chain.js'
import { keys } from '../../storage/keys.js'
import type { MeteredStore } from '../../storage/metered-store.js'
import type { StoreCommit } from '../../storage/store.js'
import type { Dir } from '../../tree/node.js'
import type { LiveSession } from '../table/live.js'
import type { Deletion, Journal, ReplayContext } from './journal.js'
import { MemoryHistory } from './memory-history.js'

/**
 * The journal of a store that is not durable. Memory is the only copy of the state, for as long as the engine
 * is open.
 */
export class MemoryJournal implements Journal {
  readonly #history: MemoryHistory

  /** `historyBytes` bounds the changes that are kept, so that earlier states can be read. 0: none are kept. */
  constructor({ historyBytes }: { readonly historyBytes: number }) {
    this.#history = new MemoryHistory(historyBytes)
  }

  kept(): undefined {
    return undefined
  }

  mustLoad(): void {
    // Records missing from memory do not exist.
  }

  nextBody(live: LiveSession, event: PublicPart, redo: readonly Redo[]): PublicPart {
    this.#history.add(live, event[0], redo)
    return event
  }

  /** Only events that came from a durable store have a link. */
  isLinked(link: string | undefined, expected: string): boolean {
    return link === undefined || link === expected
  }

  /** Counts the contents. They stay in their handles. */
  blobs(store: MeteredStore, blobs: readonly BlobRef[]): undefined {
    for (const blob of blobs) store.wrote(blob.length)
    return undefined
  }

  /** Also deletes the checkpoints. A durable store leaves them to the next collection. */
  deletion(live: LiveSession, { key, record }: Deletion): StoreCommit {
    this.#history.forget(live.id)
    const checkpoints = [...(live.checkpoints?.values() ?? [])].map(({ id }) => keys.checkpoint(live.id, id))
    return { put: [[key, { ...record, tags: {} }]], del: checkpoints }
  }

  imported(live: LiveSession, at: number): void {
    this.#history.add(live, at, undefined)
  }

  remembered(context: ReplayContext, live: LiveSession, seq: number): Dir {
    return this.#history.rootAt(context, live, seq)
  }

  redoOf(live: LiveSession, seq: number, body: EventBody): readonly Redo[] | undefined {
    return this.#history.redoOf(live.id, seq) ?? knownRedo(body[5])
  }
}
