/**
 * The contract of a store, in prose.
 *
 * Keys and record values are strings, ordered by the bytes of their UTF-8 form in every store. Blobs are
 * bytes, named by the lower-case hex of their SHA-256. Events belong to a session and are numbered by a
 * gap-free `seq` from 1.
 *
 * Order and atomicity. `commit` takes effect as one: all of it or nothing, also after `kill -9`. Commits of
 * one store take effect in the order of the calls. When a commit fails, every commit queued after it fails
 * too, and the store accepts no more until `recover` succeeded or it was opened again. Reads go on.
 *
 * Visibility. Reads see committed data; whether they see a commit whose promise is still pending is
 * unspecified. The engine keeps queued data in memory until it is acknowledged.
 *
 * Durability. A durable store's acknowledged commit survives `kill -9`; whether it survives a power cut is
 * the adapter's option. A store that is not durable lives as long as its process.
 *
 * Errors are EngineErrors, such as STORE_FAILED, STORE_FULL, STORE_MOVED and DATA_LOSS. The engine passes on any
 * other error of a commit as the cause of STORE_FAILED.
 */
export interface Store {
  readonly capabilities: StoreCapabilities

  /**
   * Resolves to true when everything in it is stored; to false, with nothing changed, when one of its
   * events has a `seq` that the session has already passed (another writer was first).
   */
  commit(commit: StoreCommit): Promise<boolean>

  /** The session's events with from ≤ seq ≤ to, in order, in pages. */
  events(sessionId: string, range: { from: number; to: number }): AsyncIterable<readonly StoredEvent[]>

  get(key: string): Promise<string | undefined>
  /**
   * Present exactly when `capabilities.syncReads`. Throws WOULD_BLOCK where the value has to be awaited this time, as
   * while a store repairs itself; so does `blobSync`.
   */
  getSync?(key: string): string | undefined

  /** The session's newest event. */
  lastEvent(sessionId: string): Promise<StoredEvent | undefined>

  /** Records with gte ≤ key < lt in key order (reversed on request), at most `limit`. */
  scan(range: ScanRange): Promise<readonly (readonly [key: string, value: string])[]>

  /** Bytes offset … offset + length of a blob, cut at its end; undefined when the store has no such blob. */
  blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined>
  blobSync?(hash: string, range: ByteRange): Uint8Array | undefined

  /** Frees the events of a deleted session; only a store that is not durable has it, elsewhere collection does. */
  forget?(sessionId: string): void

  /**
   * The stored blobs after `after` in the order of their hashes, at most `limit`. Blobs that are committed
   * meanwhile may be included or not. A durable store has it.
   */
  listBlobs?(after: string, limit: number): Promise<readonly StoredBlobSize[]>

  /**
   * Makes a store accept commits again after one failed, once it has read back and verified its data. The
   * failed commit may turn out to be stored. Rejects while recovery is impossible, such as on a full disk,
   * and can be called again. Does nothing where no commit failed.
   */
  recover?(): Promise<void>

  /** Bytes on disk. A durable store has it. */
  size?(): Promise<number>

  /** Reports damaged and missing parts of its own files, as far as reading shows; it changes nothing. */
  check?(options: { readonly signal?: AbortSignal | undefined }): AsyncIterable<StoreFinding>

  /**
   * Returns the space of deleted and replaced data to the file system, in steps, while commits and reads go
   * on. Space that is mostly in use may stay as it is. A failed write of its own counts as a failed commit.
   */
  reclaim?(options: { readonly signal?: AbortSignal | undefined }): Promise<void>

  /** Waits for every queued commit, awaited or not, then releases everything. Idempotent. */
  close(): Promise<void>
}

export interface StoreCapabilities {
  /** Survives the process: the engine writes redo, blobs, nodes and snapshots to it. */
  readonly durable: boolean
  /** Has `getSync` and `blobSync`. */
  readonly syncReads: boolean
}

export interface StoreCommit {
  readonly events?: readonly NewStoredEvent[]
  /** A value that is an object is stored as its JSON text; neither it nor an event's body may change later. */
  readonly put?: readonly (readonly [key: string, value: string | object])[]
  readonly del?: readonly string[]
  readonly blobs?: readonly StoredBlob[]
  /** Hashes of blobs to delete, if they exist. A blob that is also in `blobs` is kept. */
  readonly deleteBlobs?: readonly string[]
  /** Other bodies for events that are stored already. */
  readonly replaceEvents?: readonly NewStoredEvent[]
  /** Deletes all events of these sessions; no later commit adds to them. */
  readonly deleteEvents?: readonly string[]
}

export interface StoredEvent {
  readonly sessionId: string
  readonly seq: number
  /** A JSON array; the store may keep it as it is or encode it. */
  readonly body: readonly unknown[]
}

/** The body of a new event is the JSON array, or its text. */
export interface NewStoredEvent extends Omit<StoredEvent, 'body'> {
  readonly body: StoredEvent['body'] | string
}

export interface StoredBlob {
  readonly hash: string
  readonly bytes: Uint8Array
}

export interface StoreFinding {
  readonly problem: 'missing' | 'damaged'
  /** `file`, followed by its name. */
  readonly object: string
  readonly message: string
}

export interface StoredBlobSize {
  readonly hash: string
  readonly bytes: number
}

export interface ScanRange {
  readonly gte: string
  readonly lt: string
  readonly limit: number
  readonly reverse?: boolean
}

export interface ByteRange {
  readonly offset: number
  readonly length: number
}

/** What `openEngine({ storage })` takes: a store that is opened when the engine opens. */
export interface Storage {
  open(): Promise<Store>
}
