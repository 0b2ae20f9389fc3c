import type { BlobRef } from '../../cas/blob.js'
import type { PublicPart } from '../../records/event.js'
import { keys } from '../../storage/keys.js'
import type { MeteredStore } from '../../storage/metered-store.js'
import type { StoreCommit } from '../../storage/store.js'
import type { LiveSession } from '../table/live.js'
import type { Deletion, Journal } from './journal.js'

/**
 * The journal of a store that is not durable. Memory is the only copy of the state, for as long as the engine
 * is open.
 */
export class MemoryJournal implements Journal {
  kept(): undefined {
    return undefined
  }

  mustLoad(): void {
    // Records missing from memory do not exist.
  }

  nextBody(_live: LiveSession, event: PublicPart): PublicPart {
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
    const checkpoints = [...(live.checkpoints?.values() ?? [])].map(({ id }) => keys.checkpoint(live.id, id))
    return { put: [[key, { ...record, tags: {} }]], del: checkpoints }
  }
}
