import { inNextTurn } from '../base/cooperative.js'
import { firstWhere } from '../base/ascending.js'
import { itemAt, onlyItem, present } from '../base/present.js'
import { assert, EngineError } from '../base/errors.js'
import { parseFlag } from '../base/input.js'
import { limits } from '../base/limits.js'
import { Shape } from '../base/shape.js'
import { compareUtf8 } from '../base/order.js'
import { parseEventText } from './event-text.js'
import {
  storedAtOnce,
  type ByteRange,
  type ScanRange,
  type Storage,
  type Store,
  type StoreCapabilities,
  type NewStoredEvent,
  type StoreCommit,
  type StoredBlobSize,
  type StoredEvent,
} from './store.js'

/** Options of {@link memoryStorage}. */
export interface MemoryStorageOptions {
  /**
   * true: the storage behaves like a disk. It keeps everything that a durable store keeps, and an engine that
   * closes and opens again on the same storage finds it. For tests of recovery. false by default.
   */
  readonly durable?: boolean
  /**
   * false: the store has no synchronous reads, like a remote one. For tests of lazy loading. true by default.
   */
  readonly syncReads?: boolean
}

const optionsShape = new Shape<MemoryStorageOptions>({ durable: true, syncReads: true })

/**
 * Storage in the memory of this process. It is the default of `openEngine()`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or not a boolean.
 *
 * @example
 * const storage = memoryStorage({ durable: true })
 * await (await openEngine({ storage })).close()
 * const engine = await openEngine({ storage })
 */
export function memoryStorage(options: MemoryStorageOptions = {}): Storage {
  const data = emptyData()
  const { durable, syncReads } = optionsShape.read(options, 'options')
  const capabilities = {
    durable: parseFlag('durable', durable, false),
    syncReads: parseFlag('syncReads', syncReads, true),
  }
  const Kind = capabilities.syncReads
    ? capabilities.durable
      ? SyncMemoryStore
      : TransientMemoryStore
    : MemoryStore
  // Data that is not durable lives only as long as the engine that opened it.
  return { open: () => Promise.resolve(new Kind(capabilities.durable ? data : emptyData(), capabilities)) }
}

function emptyData(): MemoryData {
  return { records: new Map(), events: new Map(), blobs: new Map(), sortedKeys: undefined }
}

interface MemoryData {
  readonly records: Map<string, string | object>
  readonly events: Map<string, KeptBody[]>
  readonly blobs: Map<string, Uint8Array>
  /** The sorted keys of the records. Undefined before the first scan, and after a change of the keys. */
  sortedKeys: string[] | undefined
}

const stored = Promise.resolve(true)
const passed = Promise.resolve(false)

class MemoryStore implements Store {
  readonly capabilities: StoreCapabilities
  readonly #data: MemoryData
  #closed = false
  #acknowledged = 0
  /** The newest acknowledgement that waits for a turn of the event loop. */
  #delayed: Promise<boolean> = stored

  constructor(data: MemoryData, capabilities: StoreCapabilities) {
    this.#data = data
    this.capabilities = capabilities
  }

  commit(commit: StoreCommit): Promise<boolean> {
    if (this.#closed) return Promise.reject(closedError())
    const { events, put, del, blobs, deleteBlobs, replaceEvents, deleteEvents } = commit
    try {
      if (events !== undefined && !this.#follows(events)) return passed
      // Encodes first, so that a value that cannot be encoded fails before anything has changed.
      const { durable } = this.capabilities
      const bodies = durable ? events?.map(({ body }) => copied(body)) : undefined
      const values = durable ? put?.map(([, value]) => text(value)) : undefined
      if (replaceEvents !== undefined) this.#replace(replaceEvents)
      events?.forEach((event, i) => this.#append(event, bodies?.[i]))
      put?.forEach(([key, value], i) => this.#put(key, values?.[i] ?? value))
    } catch (error) {
      return Promise.reject(error)
    }
    if (del !== undefined)
      for (const key of del) if (this.#data.records.delete(key)) this.#data.sortedKeys = undefined
    if (deleteBlobs !== undefined) for (const hash of deleteBlobs) this.#data.blobs.delete(hash)
    if (blobs !== undefined) for (const blob of blobs) this.#data.blobs.set(blob.hash, blob.bytes)
    if (deleteEvents !== undefined) for (const sessionId of deleteEvents) this.#data.events.delete(sessionId)
    // A loop that only awaits resolved promises would never let timers and sockets run.
    this.#acknowledged += commit.effects ?? 1
    if (this.#acknowledged >= limits.acknowledgementsPerTurn) {
      this.#acknowledged = 0
      return (this.#delayed = nextTurn())
    }
    return this.capabilities.durable ? stored : storedAtOnce
  }

  #put(key: string, value: string | object): void {
    const { records } = this.#data
    const before = records.size
    records.set(key, value)
    if (records.size !== before) this.#data.sortedKeys = undefined
  }

  /**
   * Whether each event is the next one of its session. False if the session already has an event with its
   * number.
   */
  #follows(events: readonly NewStoredEvent[]): boolean {
    const only = onlyItem(events)
    if (only !== undefined) return this.#isNext(only, 0)
    const counts = new Map<string, number>()
    for (const event of events) {
      const before = counts.get(event.sessionId) ?? 0
      if (!this.#isNext(event, before)) return false
      counts.set(event.sessionId, before + 1)
    }
    return true
  }

  #isNext({ sessionId, seq }: NewStoredEvent, queued: number): boolean {
    const next = (this.#data.events.get(sessionId)?.length ?? 0) + queued + 1
    assert(seq <= next, 'the event numbers of a session have no gap')
    return seq === next
  }

  #append({ sessionId, body }: NewStoredEvent, copy: KeptBody | undefined): void {
    const kept = copy ?? body
    const list = this.#data.events.get(sessionId)
    if (list === undefined) this.#data.events.set(sessionId, [kept])
    else list.push(kept)
  }

  #replace(events: readonly NewStoredEvent[]): void {
    const copies = events.map(({ sessionId, seq, body }) => {
      const list = this.#data.events.get(sessionId)
      assert(list !== undefined && seq >= 1 && seq <= list.length, 'a replaced event is stored')
      return copied(body)
    })
    for (const [index, { sessionId, seq }] of events.entries())
      present(this.#data.events.get(sessionId), 'the log of a session')[seq - 1] = itemAt(copies, index)
  }

  async *events(
    sessionId: string,
    range: { from: number; to: number },
  ): AsyncIterable<readonly StoredEvent[]> {
    const list = this.read().events.get(sessionId) ?? []
    const end = Math.min(range.to, list.length)
    for (let from = Math.max(range.from, 1); from <= end; from += limits.eventsPerRead) {
      const page = list.slice(from - 1, Math.min(end, from - 1 + limits.eventsPerRead))
      if (from > range.from && from > 1) await nextTurn()
      const events: StoredEvent[] = []
      for (const [index, body] of page.entries())
        events.push({
          sessionId,
          seq: from + index,
          body: typeof body === 'string' ? await readBody(body) : body,
        })
      yield events
    }
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const list = this.read().events.get(sessionId)
    const body = list?.at(-1)
    if (list === undefined || body === undefined) return undefined
    const { length: seq } = list
    return { sessionId, seq, body: typeof body === 'string' ? await readBody(body) : body }
  }

  async get(key: string): Promise<string | undefined> {
    return text(this.read().records.get(key))
  }

  async scan({ gte, lt, limit, reverse }: ScanRange): Promise<readonly (readonly [string, string])[]> {
    const data = this.read()
    data.sortedKeys ??= [...data.records.keys()].toSorted(compareUtf8)
    const from = firstAtLeast(data.sortedKeys, gte)
    const to = Math.max(from, firstAtLeast(data.sortedKeys, lt))
    const keys =
      reverse === true
        ? data.sortedKeys.slice(Math.max(from, to - limit), to).reverse()
        : data.sortedKeys.slice(from, Math.min(to, from + limit))
    return keys.map((key) => [key, text(present(data.records.get(key), 'a listed record'))] as const)
  }

  async blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined> {
    return readRange(this.read().blobs.get(hash), range)
  }

  async listBlobs(after: string, limit: number): Promise<readonly StoredBlobSize[]> {
    const { blobs } = this.read()
    const page: StoredBlobSize[] = []
    // All hashes have the same length and only hex digits, so the order of strings is correct.
    for (const hash of [...blobs.keys()]
      .filter((one) => one > after)
      .toSorted()
      .slice(0, limit))
      page.push({ hash, bytes: present(blobs.get(hash), 'a listed blob').byteLength })
    return page
  }

  async size(): Promise<number> {
    const { records, events, blobs } = this.read()
    let bytes = 0
    for (const [key, value] of records) bytes += key.length + text(value).length
    for (const list of events.values()) for (const body of list) bytes += encoded(body).length
    for (const blob of blobs.values()) bytes += blob.byteLength
    return bytes
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#delayed
  }

  protected get closed(): boolean {
    return this.#closed
  }

  protected read(): MemoryData {
    if (this.#closed) throw closedError()
    return this.#data
  }
}

class SyncMemoryStore extends MemoryStore {
  getSync(key: string): string | undefined {
    return text(this.read().records.get(key))
  }

  blobSync(hash: string, range: ByteRange): Uint8Array | undefined {
    return readRange(this.read().blobs.get(hash), range)
  }
}

class TransientMemoryStore extends SyncMemoryStore {
  forget(sessionId: string): void {
    if (!this.closed) this.read().events.delete(sessionId)
  }
}

function firstAtLeast(sorted: readonly string[], key: string): number {
  return firstWhere(sorted, (one) => compareUtf8(one, key) >= 0)
}

function readRange(bytes: Uint8Array | undefined, { offset, length }: ByteRange): Uint8Array | undefined {
  return bytes?.subarray(offset, offset + length)
}

/** The body of an event, or the text of a large one, which takes long to parse. */
type KeptBody = StoredEvent['body'] | string

/** A copy, as if it were written to a disk. */
function copied(body: NewStoredEvent['body']): KeptBody {
  const json = encoded(body)
  return json.length > limits.parsedPerTurn ? json : checkedBody(JSON.parse(json))
}

function encoded(body: NewStoredEvent['body']): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

async function readBody(body: string): Promise<StoredEvent['body']> {
  return checkedBody(await parseEventText(body))
}

function checkedBody(body: unknown): StoredEvent['body'] {
  assert(Array.isArray(body), 'the body of an event is a JSON array')
  return body
}

function text(value: string | object): string
function text(value: string | object | undefined): string | undefined
function text(value: string | object | undefined): string | undefined {
  return typeof value === 'object' ? JSON.stringify(value) : value
}

function closedError(): EngineError {
  return new EngineError('STORE_CLOSED', 'the storage was closed')
}

function nextTurn(): Promise<true> {
  return new Promise((resolve) => {
    inNextTurn(resolve, true)
  })
}
