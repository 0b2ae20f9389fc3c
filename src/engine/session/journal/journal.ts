import type { BlobRef } from '../../cas/blob.js'
import type { EventBody, PublicPart, Redo } from '../../records/event.js'
import type { SessionRecord } from '../../records/session.js'
import type { MeteredStore } from '../../storage/metered-store.js'
import type { NewStoredEvent, StoreCommit } from '../../storage/store.js'
import type { Dir } from '../../tree/node.js'
import type { NodeLoader } from '../../tree/node-loader.js'
import type { ApplyContext } from '../apply.js'
import type { EncodedRedo } from '../history/chain.js'
import type { LiveSession } from '../table/live.js'

/** The inputs of a replay in memory. */
export interface ReplayContext extends ApplyContext {
  readonly loader: NodeLoader
}

/** Records that change in one commit. */
export type RecordChanges = Pick<StoreCommit, 'put' | 'del'>

/** The deletion of a session: the key of its record, the new record, and the event. */
export interface Deletion {
  readonly key: string
  readonly record: SessionRecord
  readonly event: PublicPart
}

/**
 * Stores the changes of sessions.
 *
 * There are two implementations. With a durable store, everything that memory has of a session can be read
 * again. Otherwise memory is the only copy of the state, and the store has only the records that are listed
 * and scanned. An engine uses the same implementation for its whole life, so its operations need not ask for
 * the kind of store.
 */
export interface Journal {
  /**
   * Returns the result of `make`, which makes records of data that memory has too, or stores such records. If
   * memory is the only copy, returns undefined and does not call `make`.
   */
  kept<T>(make: () => T): T | undefined
  /** Throws a Fault if the store may have records that memory does not have. */
  mustLoad(load: () => Promise<void>): void
  /**
   * The stored body of the session's next event. Advances the session's link to that event. `prepared` has the effects of
   * a large event.
   */
  nextBody(
    live: LiveSession,
    event: PublicPart,
    redo: readonly Redo[],
    prepared?: EncodedRedo,
  ): NewStoredEvent['body']
  /** Whether the stored link of an event matches the expected one. */
  isLinked(link: string | undefined, expected: string): boolean
  /** The blobs that a commit must contain. Undefined if their handles are the only copy. */
  blobs(store: MeteredStore, blobs: readonly BlobRef[]): StoreCommit['blobs']
  deletion(live: LiveSession, deletion: Deletion): StoreCommit
  /** Keeps the newest state of an imported session, if memory is the only copy, so that its first change can be undone. */
  imported(live: LiveSession, at: number): void
  /**
   * The root after an event, if memory is the only copy. Undefined if the store can compute it.
   *
   * @throws {EngineError} STATE_NOT_KEPT when memory no longer has it.
   */
  remembered(context: ReplayContext, live: LiveSession, seq: number): Dir | undefined
  /** The effects of an event. Undefined if they are no longer kept. */
  redoOf(live: LiveSession, seq: number, body: EventBody): readonly Redo[] | undefined
}
