import { Fault } from '../../base/fault.js'
import type { BlobRef } from '../../cas/blob.js'
import type { EventBody, PublicPart, Redo } from '../../records/event.js'
import type { MeteredStore } from '../../storage/metered-store.js'
import type { StoreCommit } from '../../storage/store.js'
import { chainEvent, knownRedo, type EncodedRedo } from '../history/chain.js'
import type { LiveSession } from '../table/live.js'
import type { Deletion, Journal } from './journal.js'

/** The journal of a durable store. Sessions can leave memory and be read again. */
export class StoredJournal implements Journal {
  kept<T>(make: () => T): T {
    return make()
  }

  mustLoad(load: () => Promise<void>): never {
    throw new Fault(load)
  }

  nextBody(live: LiveSession, event: PublicPart, redo: readonly Redo[], prepared?: EncodedRedo): string {
    const { text, link } = chainEvent(event, live.chain, prepared ?? redo)
    live.chain = link
    return text
  }

  isLinked(link: string | undefined, expected: string): boolean {
    return link === expected
  }

  blobs(_store: MeteredStore, blobs: readonly BlobRef[]): NonNullable<StoreCommit['blobs']> {
    return blobs.map((blob) => blob.toStore())
  }

  /** The next collection deletes the other records of the session. */
  deletion(live: LiveSession, { key, record, event }: Deletion): StoreCommit {
    const body = chainEvent(event, live.chain, []).text
    return { events: [{ sessionId: live.id, seq: live.seq + 1, body }], put: [[key, record]] }
  }

  imported(): void {
    // The import stores the state as a snapshot.
  }

  remembered(): undefined {
    return undefined
  }

  redoOf(_live: LiveSession, _seq: number, body: EventBody): readonly Redo[] | undefined {
    return body[5] === undefined ? [] : knownRedo(body[5])
  }
}
