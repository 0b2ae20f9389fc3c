import type { BlobRef } from '../../cas/blob.js'
import type { PublicPart, Redo } from '../../records/event.js'
import type { SessionRecord } from '../../records/session.js'
import type { MeteredStore } from '../../storage/metered-store.js'
import type { NewStoredEvent, StoreCommit } from '../../storage/store.js'
import type { LiveSession } from '../table/live.js'

/** Records that change in one commit. */
export type RecordChanges = Pick<StoreCommit, 'put' | 'del'>

/** The deletion of a session: the key of its record, and the record from then on. */
export interface Deletion {
  readonly key: string
  readonly record: SessionRecord
  readonly event: PublicPart
}

/**
 * The store's record of the changes of sessions. There are two: a durable store can give back everything that
 * memory has of a session; in the other one memory is the truth, and the store has only listed and scanned records.
 * An engine has one of the two for its life, so its operations call it without asking for the kind of store.
 */
export interface Journal {
  /**
   * The result of `make`: records that the store keeps of something that memory has too, or work on them. Undefined
   * where memory alone has it; `make` is not called then.
   */
  kept<T>(make: () => T): T | undefined
  /** Throws a Fault where the store may have records that memory does not have. */
  mustLoad(load: () => Promise<void>): void
  /** The stored body of the session's next event. Advances the session's link to it. */
  nextBody(live: LiveSession, event: PublicPart, redo: readonly Redo[]): NewStoredEvent['body']
  /** Whether the stored link of an event matches the expected one. */
  isLinked(link: string | undefined, expected: string): boolean
  /** The part of a commit with contents stored nowhere else; undefined where their handles are the only copy. */
  blobs(store: MeteredStore, blobs: readonly BlobRef[]): StoreCommit['blobs']
  deletion(live: LiveSession, deletion: Deletion): StoreCommit
}
