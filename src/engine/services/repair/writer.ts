import { limits } from '../../base/limits.js'
import type { NewStoredEvent, Store, StoreCommit } from '../../storage/store.js'

type Records = NonNullable<StoreCommit['put']>
type Blobs = NonNullable<StoreCommit['blobs']>
type Events = NonNullable<StoreCommit['events']>

/** Writes to a store, and groups the writes into commits of a limited size. */
export class RepairWriter {
  readonly #store: Store
  #put: Records[number][] = []
  #blobs: Blobs[number][] = []
  #events: Events[number][] = []
  #bytes = 0

  constructor(store: Store) {
    this.#store = store
  }

  put(key: string, value: string | object): Promise<void> | undefined {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    this.#put.push([key, text])
    return this.#added(key.length + text.length)
  }

  blob(hash: string, bytes: Uint8Array): Promise<void> | undefined {
    this.#blobs.push({ hash, bytes })
    return this.#added(bytes.byteLength)
  }

  event(sessionId: string, seq: number, body: NewStoredEvent['body']): Promise<void> | undefined {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    this.#events.push({ sessionId, seq, body: text })
    return this.#added(text.length)
  }

  async flush(): Promise<void> {
    const commit = { events: this.#events, put: this.#put, blobs: this.#blobs }
    this.#put = []
    this.#blobs = []
    this.#events = []
    this.#bytes = 0
    await this.#store.commit(commit)
  }

  #added(bytes: number): Promise<void> | undefined {
    this.#bytes += bytes
    const count = this.#put.length + this.#blobs.length + this.#events.length
    const isFull = this.#bytes >= limits.importCommitBytes || count >= limits.recordsPerCommit
    return isFull ? this.flush() : undefined
  }
}
