/**
 * The result of a commit that took effect during the call, on a store that is not durable. Nothing waits for it, so
 * callers that receive this promise need not either.
 */
export const storedAtOnce: Promise<boolean> = Promise.resolve(true)

/**
 * The contract of a store.
 *
 * Keys and record values are strings. Every store orders keys by the bytes of their UTF-8 form. A blob is a
 * sequence of bytes, identified by the lower-case hex of its SHA-256. Events belong to a session. Their `seq`
 * numbers start at 1 and have no gaps.
 *
 * Order and atomicity. A commit is atomic: the store applies all of it or nothing, even after `kill -9`. The
 * commits of one store take effect in call order. When a commit fails, every commit queued after it fails
 * too. The store then accepts no commits until `recover` succeeds or the store is opened again. Reads
 * continue to work.
 *
 * Visibility. Reads see committed data. A read may or may not see a commit whose promise is still pending.
 * The engine keeps queued data in memory until it is acknowledged.
 *
 * Durability. A durable store's acknowledged commit survives `kill -9`. Whether it also survives a power cut
 * is an option of the adapter. A store that is not durable lives as long as its process.
 *
 * Errors are EngineErrors, such as STORE_FAILED, STORE_FULL, STORE_MOVED and DATA_LOSS. The engine turns any
 * other error of a commit into STORE_FAILED, with the original error as its cause.
 */
export interface Store {
  /** The features of this store. They never change while it is open. */
  readonly capabilities: StoreCapabilities

  /**
   * Stores everything in the commit, or nothing. Resolves to true once it is stored. Resolves to false, with
   * nothing changed, when the session already has an event with one of the `seq` numbers or another head,
   * because another writer was first.
   *
   * @throws {EngineError} STORE_FAILED when this write or an earlier one failed.
   * @throws {EngineError} STORE_FULL when the disk has no space left.
   * @throws {EngineError} STORE_MOVED when the directory of the store was moved, removed or replaced.
   * @throws {EngineError} STORE_CLOSED after `close()`.
   */
  commit(commit: StoreCommit): Promise<boolean>

  /**
   * The events of the session with from ≤ seq ≤ to, in order, in pages of any size. The event loop has turns between
   * pages. `to` may be greater than the number of the newest event.
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
   * Like `get`, but synchronous. Present if and only if `capabilities.syncReads` is true.
   *
   * @throws {EngineError} WOULD_BLOCK when this read must be asynchronous, for example while the store
   * repairs itself.
   */
  getSync?(key: string): string | undefined

  /**
   * The tree node with this key, and some of the nodes that it refers to, all by their keys; empty when there is no such
   * node. A node refers to others by their addresses: strings of 40 hex digits in its text, which are their keys
   * without the prefix. A store has this method if it can read them in one round trip.
   *
   * @throws {EngineError} DATA_LOSS when the stored value is damaged.
   */
  getNodes?(key: string): Promise<ReadonlyMap<string, string>>

  /**
   * The newest event of the session; undefined when it has none. The body of a large event may lack its effects, the last
   * part.
   */
  lastEvent(sessionId: string): Promise<StoredEvent | undefined>

  /** The records with gte ≤ key < lt, in key order or in reverse, at most `limit` of them. */
  scan(range: ScanRange): Promise<readonly (readonly [key: string, value: string])[]>

  /**
   * The `length` bytes of a blob from `offset` on, or fewer at the end of the blob. Undefined when the store
   * has no such blob.
   *
   * @throws {EngineError} DATA_LOSS when the stored blob is damaged.
   */
  blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined>
  /**
   * Like `blob`, but synchronous. Present if and only if `capabilities.syncReads` is true.
   *
   * @throws {EngineError} WOULD_BLOCK when this read must be asynchronous, for example while the store
   * repairs itself.
   */
  blobSync?(hash: string, range: ByteRange): Uint8Array | undefined

  /**
   * Frees the events of a deleted session. It does nothing after `close()`. Only a store that is not durable
   * has this method. In a durable store, a collection frees them.
   */
  forget?(sessionId: string): void

  /** Present if and only if `capabilities.shared` is. */
  readonly shared?: SharedStore

  /**
   * The stored blobs after the hash `after`, in the order of their hashes, at most `limit` of them. If
   * `after` is '', the list starts at the first blob. It may or may not include blobs that are committed
   * meanwhile. Every durable store has this method.
   */
  listBlobs?(after: string, limit: number): Promise<readonly StoredBlobSize[]>

  /**
   * Makes the store accept commits again after a failed one. The store first reads back and verifies its
   * data. The failed commit may turn out to be stored. Rejects while recovery is impossible, such as on a
   * full disk, and can then be called again. Does nothing if no commit failed.
   */
  recover?(): Promise<void>

  /**
   * How often the store may have lost commits that this engine has read, for example when its server crashed. The number
   * changes before a later commit is stored. A store without this method never loses a commit.
   */
  losses?(): number

  /** The size of the store on disk, in bytes. Every durable store has this method. */
  size?(): Promise<number>

  /**
   * Reads the store's own files and yields each damaged or missing part. It changes nothing. When the signal
   * aborts, the check ends with the signal's reason.
   */
  check?(options: { readonly signal?: AbortSignal | undefined }): AsyncIterable<StoreFinding>

  /**
   * Returns the space of deleted and replaced data to the file system, in steps, while commits and reads
   * continue. Space that is mostly in use may stay as it is. If a write of this method fails, it counts as a
   * failed commit. When the signal aborts, the call ends with the signal's reason.
   */
  reclaim?(options: { readonly signal?: AbortSignal | undefined }): Promise<void>

  /** Waits for every queued commit, awaited or not, then releases all resources. Idempotent. */
  close(): Promise<void>
}

/** The features of a {@link Store}. */
export interface StoreCapabilities {
  /**
   * true: the data survives the process. The engine then writes effects, blobs, nodes and snapshots to it.
   */
  readonly durable: boolean
  /** true: the store has `getSync` and `blobSync`. */
  readonly syncReads: boolean
  /**
   * Present: other engines may change the store at the same time. The engine then passes `heads` with its commits, and
   * asks for the heads of sessions in memory.
   */
  readonly shared?: SharedCapability
}

/** The part of a {@link Store} that several engines need. */
export interface SharedStore {
  /** The id of this engine. */
  readonly engineId: string
  /** The ids of the engines that have the store open. An engine that is not among them stores nothing. */
  liveEngines(): Promise<ReadonlySet<string>>
  /** The time by the clock of the store, in whole milliseconds since 1970. */
  now(): Promise<number>
  /** The heads of some sessions, sources or jobs; see {@link HeadMove}. Those without a head are not in the result. */
  heads(ids: readonly string[]): Promise<ReadonlyMap<string, string>>
  /** A session at one moment. */
  session(id: string, records: SessionRecords): Promise<SessionInStore>
  /**
   * The newest epoch of collections when this engine joined. It must behave from its first commit on as if it had
   * acknowledged this epoch.
   */
  readonly joined: CollectionEpoch
  /** The newest epoch that this engine has acknowledged. */
  readonly acknowledged: number
  /** The newest epoch of collections. Ends the collection of an engine whose lease is over. */
  epoch(): Promise<CollectionEpoch>
  /**
   * Stores pins of this engine, for a running collection. With `acknowledges`, all later commits of this engine belong to
   * the epoch `of`. Resolves to false, with nothing changed, when `of` is not the newest epoch any more.
   */
  publish(of: number, pins: readonly string[], options: { readonly acknowledges: boolean }): Promise<boolean>
  /**
   * Notes that this engine commits nothing more, and that it has published all that a running collection needs from it.
   * That collection then continues after `close`. Otherwise it begins again.
   */
  leave(): void
  /**
   * Takes the right to collect, which one engine has at a time.
   *
   * @throws {EngineError} STORE_LOCKED when another engine has it.
   */
  beginCollection(): Promise<void>
  /**
   * Begins an epoch.
   *
   * @throws {EngineError} STORE_FAILED when this engine has lost the right to collect. The same applies to the methods
   *   below.
   */
  nextEpoch(stage: CollectionStage): Promise<number>
  /** Which engines have acknowledged an epoch. An engine whose lease is over is ended here: it can store nothing more. */
  acknowledgement(epoch: number): Promise<Acknowledgement>
  /** The pins of all engines since an epoch, in pages. */
  pins(since: number): AsyncIterable<readonly string[]>
  /** Deletes those nodes and blobs that no commit of this epoch or a later one stored or used. Resolves to their names. */
  sweep(objects: SweptObjects, before: number): Promise<ReadonlySet<string>>
  /** Gives the right to collect back. */
  endCollection(): Promise<void>
}

/** The records of a session that {@link SharedStore.session} reads. */
export interface SessionRecords {
  /** The key of its record. */
  readonly key: string
  /** The first key of the range with its other records. */
  readonly gte: string
  /** The end of that range, which is not part of it. */
  readonly lt: string
}

/** A session in a shared store at one moment. */
export interface SessionInStore {
  /** See {@link HeadMove}. Undefined: no engine has shared the session yet. */
  readonly head: string | undefined
  /** Its record as JSON. Undefined: there is no such session. */
  readonly record: string | undefined
  /** Its other records in the range, in the order of their keys. */
  readonly others: readonly (readonly [key: string, value: string])[]
  /** The number of its newest event; 0 without events. */
  readonly seq: number
}

/**
 * A stage of a collection. The engines that share the store act by it once they have acknowledged it.
 *
 * - `none`: no collection runs.
 * - `history`: commits that refer to earlier states of sessions store these states.
 * - `references`: engines also note the references of their commits.
 * - `roots`: engines have published the objects in their memory, and their notes.
 */
export type CollectionStage = 'none' | 'history' | 'references' | 'roots'

/** Objects that a collection deletes. */
export interface SweptObjects {
  /** The keys of nodes. */
  readonly nodes?: readonly string[]
  /** The hashes of blobs. */
  readonly blobs?: readonly string[]
}

/** How far the engines that share a store are with an epoch. */
export interface Acknowledgement {
  /** Whether all of them have acknowledged it. */
  readonly isComplete: boolean
  /** The number of engines that this call ended. */
  readonly endedEngines: number
}

/** A step of a collection of a shared store. */
export interface CollectionEpoch {
  /** It increases by one with each step. */
  readonly epoch: number
  /** What the engines do from this epoch on. */
  readonly stage: CollectionStage
}

/** How several engines use a {@link Store}. */
export interface SharedCapability {
  /** The longest time after which a read must see the changes of other engines, in milliseconds. */
  readonly freshnessMs: number
}

/** One atomic change of a {@link Store}. An absent field changes nothing. */
export interface StoreCommit {
  /**
   * The sessions, sources and jobs that the commit changes, on a shared store. If one of them has another head than
   * expected, nothing is stored, and `commit` resolves to false.
   */
  readonly heads?: readonly HeadMove[]
  /** Events to add. The events of one session continue its `seq` numbers without a gap. */
  readonly events?: readonly NewStoredEvent[]
  /**
   * Records to set. The store keeps an object as its JSON text. Such an object must not change later, and
   * neither may the body of an event.
   */
  readonly put?: readonly (readonly [key: string, value: string | object])[]
  /** Keys of records to delete, if they exist. */
  readonly del?: readonly string[]
  /** Blobs to add. If the store already has a blob, it stays as it is. */
  readonly blobs?: readonly StoredBlob[]
  /** Hashes of blobs to delete, if they exist. A blob that is also in `blobs` is kept. */
  readonly deleteBlobs?: readonly string[]
  /** Existing events to store again, with new bodies. */
  readonly replaceEvents?: readonly NewStoredEvent[]
  /** Ids of sessions whose events are all deleted. No later commit adds events to these sessions. */
  readonly deleteEvents?: readonly string[]
  /**
   * true: a part of a collection of a shared store. If this engine has lost the right to collect, nothing is stored, and
   * `commit` resolves to false.
   */
  readonly collecting?: boolean
  /** The number of effects of the events, if there are several. A store may use it to share the event loop fairly. */
  readonly effects?: number
}

/**
 * A step of the head of a session, source or job. The head names the newest commit to it, so a commit that expects the
 * head that it builds on is stored only if no other engine has changed the session since.
 */
export interface HeadMove {
  /** The id of the session, source or job. */
  readonly id: string
  /** The head that it must have; '' if it must have none. */
  readonly from: string
  /** The new head, which no other commit has. */
  readonly to: string
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
  /** true: from the last key to the first, so that `limit` keeps the last records. false by default. */
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
 * A store that is not open yet, for `openEngine({ storage })`. The engine opens it once, and closes it in
 * `close()`.
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
