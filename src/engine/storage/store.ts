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
  /** The features of this store. They never change while it is open. */
  readonly capabilities: StoreCapabilities

  /**
   * Stores everything in the commit, or nothing. Resolves to true once it is stored. Resolves to false, with nothing
   * changed, when the session already has an event with one of the `seq` numbers, because another writer was first.
   *
   * @throws {EngineError} STORE_FAILED when the write failed, or one before it.
   * @throws {EngineError} STORE_FULL when the disk has no space left.
   * @throws {EngineError} STORE_MOVED when the directory of the store was moved, removed or replaced.
   * @throws {EngineError} STORE_CLOSED after `close()`.
   */
  commit(commit: StoreCommit): Promise<boolean>

  /**
   * The events of the session with from ≤ seq ≤ to, in order, in pages of any size. The range may end after the
   * newest event.
   *
   * @throws {EngineError} DATA_LOSS when a stored event is damaged.
   */
  events(sessionId: string, range: { from: number; to: number }): AsyncIterable<readonly StoredEvent[]>

  /**
   * The value of a record as text; undefined when there is none.
   *
   * @throws {EngineError} DATA_LOSS when the stored value is damaged.
   */
  get(key: string): Promise<string | undefined>
  /**
   * As `get`, at once. It is present exactly when `capabilities.syncReads` is true.
   *
   * @throws {EngineError} WOULD_BLOCK when the value has to be awaited this time, as while a store repairs itself.
   */
  getSync?(key: string): string | undefined

  /** The newest event of the session; undefined when it has none. */
  lastEvent(sessionId: string): Promise<StoredEvent | undefined>

  /** Records with gte ≤ key < lt in the order of their keys, or in reverse, at most `limit`. */
  scan(range: ScanRange): Promise<readonly (readonly [key: string, value: string])[]>

  /**
   * Bytes offset … offset + length of a blob, fewer at its end; undefined when the store has no such blob.
   *
   * @throws {EngineError} DATA_LOSS when the stored blob is damaged.
   */
  blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined>
  /**
   * As `blob`, at once. It is present exactly when `capabilities.syncReads` is true.
   *
   * @throws {EngineError} WOULD_BLOCK when the blob has to be awaited this time, as while a store repairs itself.
   */
  blobSync?(hash: string, range: ByteRange): Uint8Array | undefined

  /**
   * Frees the events of a deleted session. Only a store that is not durable has it; a durable store waits for a
   * collection.
   */
  forget?(sessionId: string): void

  /**
   * The stored blobs after the hash `after`, or from the first with '', in the order of their hashes, at most
   * `limit`. Blobs that are committed meanwhile may be included or not. A durable store has it.
   */
  listBlobs?(after: string, limit: number): Promise<readonly StoredBlobSize[]>

  /**
   * Makes a store accept commits again after one failed, once it has read back and verified its data. The failed
   * commit may turn out to be stored. It rejects while recovery is impossible, such as on a full disk, and can be
   * called again. It does nothing where no commit failed.
   */
  recover?(): Promise<void>

  /** The size of the store on disk, in bytes. A durable store has it. */
  size?(): Promise<number>

  /**
   * Reads its own files and yields each damaged or missing part. It changes nothing. The signal ends it with its
   * reason.
   */
  check?(options: { readonly signal?: AbortSignal | undefined }): AsyncIterable<StoreFinding>

  /**
   * Returns the space of deleted and replaced data to the file system, in steps, while commits and reads go on. Space
   * that is mostly in use may stay as it is. A failed write of its own counts as a failed commit. The signal ends it
   * with its reason.
   */
  reclaim?(options: { readonly signal?: AbortSignal | undefined }): Promise<void>

  /** Waits for every queued commit, awaited or not, then releases everything. Idempotent. */
  close(): Promise<void>
}

/** The features of a {@link Store}. */
export interface StoreCapabilities {
  /** true: the data survives the process. The engine then writes effects, blobs, nodes and snapshots to it. */
  readonly durable: boolean
  /** true: the store has `getSync` and `blobSync`. */
  readonly syncReads: boolean
}

/** One atomic change of a {@link Store}. An absent field changes nothing. */
export interface StoreCommit {
  /** Events to add. Those of one session continue its numbers without a gap. */
  readonly events?: readonly NewStoredEvent[]
  /**
   * Records to set. The store keeps an object as its JSON text; neither it nor the body of an event may change later.
   */
  readonly put?: readonly (readonly [key: string, value: string | object])[]
  /** Keys of records to delete, if they exist. */
  readonly del?: readonly string[]
  /** Blobs to add. A blob that the store has already stays as it is. */
  readonly blobs?: readonly StoredBlob[]
  /** Hashes of blobs to delete, if they exist. A blob that is also in `blobs` is kept. */
  readonly deleteBlobs?: readonly string[]
  /** Events that exist already, with other bodies. */
  readonly replaceEvents?: readonly NewStoredEvent[]
  /** Ids of sessions whose events are all deleted. No later commit adds to them. */
  readonly deleteEvents?: readonly string[]
}

/** An event as a {@link Store} returns it. */
export interface StoredEvent {
  /** The id of the session that the event belongs to. */
  readonly sessionId: string
  /** The number of the event in its session, from 1, without gaps. */
  readonly seq: number
  /** A JSON array. The store may keep it as it is or encode it. */
  readonly body: readonly unknown[]
}

/** An event to store. */
export interface NewStoredEvent extends Omit<StoredEvent, 'body'> {
  /** The JSON array, or its text. */
  readonly body: StoredEvent['body'] | string
}

/** A blob to store. */
export interface StoredBlob {
  /** The SHA-256 of the bytes, as 64 lower-case hex digits. */
  readonly hash: string
  /** The content. It must not change later. */
  readonly bytes: Uint8Array
}

/** A fault in the files of a {@link Store}. */
export interface StoreFinding {
  /** `missing`: the part does not exist. `damaged`: it does not match its checksum or cannot be read. */
  readonly problem: 'missing' | 'damaged'
  /** `file`, followed by the name of the file. */
  readonly object: string
  /** One sentence for an operator. */
  readonly message: string
}

/** The name and size of a stored blob. */
export interface StoredBlobSize {
  /** The SHA-256 of the bytes, as 64 lower-case hex digits. */
  readonly hash: string
  /** The size of the content, in bytes. */
  readonly bytes: number
}

/** A range of keys in the order of their UTF-8 bytes. */
export interface ScanRange {
  /** The first possible key. */
  readonly gte: string
  /** The end of the range. This key is not part of it. */
  readonly lt: string
  /** The largest number of records to return. */
  readonly limit: number
  /** true: from the last key to the first; false by default. `limit` then keeps the last records. */
  readonly reverse?: boolean
}

/** A range of bytes in a blob. */
export interface ByteRange {
  /** The first byte, counted from 0. */
  readonly offset: number
  /** The number of bytes. */
  readonly length: number
}

/**
 * A store that is not open yet, for `openEngine({ storage })`. The engine opens it once, and closes it in `close()`.
 */
export interface Storage {
  /**
   * Opens the store.
   *
   * @throws {EngineError} STORE_LOCKED when the store is open already.
   * @throws {EngineError} STORE_FORMAT when it has a format that this version cannot read.
   * @throws {EngineError} DATA_LOSS when its data is missing or damaged.
   */
  open(): Promise<Store>
}
