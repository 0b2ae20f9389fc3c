import { EngineError, decodeSeq, encodeSeq, keys, limits, prefixEnd } from '../../engine/ports.js'
import type { ByteRange, ScanRange, Store, StoreCommit, StoredEvent } from '../../engine/ports.js'
import { asBytes } from './database.js'
import type { Database } from './database.js'
import { closedError, readError, systemError } from './errors.js'
import { GroupCommit } from './group-commit.js'

export interface LevelStoreOptions {
  /** Whether a batch is acknowledged only after fdatasync. */
  readonly sync: boolean
  /** Called once, when everything was written and the database is still locked. Never rejects. */
  readonly onClosing?: () => Promise<void>
  /** Called once, when the database was closed. */
  readonly onClosed: () => void
}

const seqWidth = encodeSeq(0).length
const maxSeq = decodeSeq('z'.repeat(seqWidth))
/** LevelDB hands over this much at once; without it a page of events would take many small reads. */
const pageBytes = 2 ** 20
const entriesPerRead = 1000

/** Format 1: records, events and blobs as values under the keys of the engine. */
export class LevelStore implements Store {
  readonly capabilities = { durable: true, syncReads: true }
  readonly #db: Database
  readonly #commits: GroupCommit
  readonly #onClosing: (() => Promise<void>) | undefined
  readonly #onClosed: () => void
  #closing: Promise<void> | undefined
  /** The blob of which a part was read last. */
  #last: { readonly hash: string; readonly bytes: Uint8Array } | undefined

  /** `db` is open and this store's own. */
  constructor(db: Database, options: LevelStoreOptions) {
    this.#db = db
    this.#commits = new GroupCommit(db, options)
    this.#onClosing = options.onClosing
    this.#onClosed = options.onClosed
  }

  commit(commit: StoreCommit): Promise<boolean> {
    return this.#closing === undefined ? this.#commits.add(commit) : Promise.reject(closedError())
  }

  async *events(
    sessionId: string,
    range: { from: number; to: number },
  ): AsyncGenerator<readonly StoredEvent[], void, undefined> {
    this.#assertOpen()
    let seq = Math.max(range.from, 1)
    const to = Math.min(range.to, maxSeq)
    if (seq > to) return
    const iterator = this.#db.iterator({
      gte: keys.event(sessionId, seq),
      lte: keys.event(sessionId, to),
      highWaterMarkBytes: pageBytes,
    })
    try {
      for (;;) {
        const entries = await iterator.nextv(limits.eventsPerRead)
        if (entries.length === 0) return
        const page: StoredEvent[] = []
        for (const [key, text] of entries) {
          if (key !== keys.event(sessionId, seq)) throw lostEvent(sessionId, seq)
          page.push({ sessionId, seq, body: parseBody(sessionId, seq, text) })
          seq++
        }
        yield page
      }
    } catch (error) {
      throw this.#asReadError(error)
    } finally {
      await iterator.close()
    }
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const range = { gte: keys.event(sessionId, 0), lt: prefixEnd(keys.event(sessionId, maxSeq)) }
    const found = await this.#range({ ...range, limit: 1, reverse: true })
    if (found[0] === undefined) return undefined
    const [key, text] = found[0]
    const seq = decodeSeq(key.slice(-seqWidth))
    return { sessionId, seq, body: parseBody(sessionId, seq, text) }
  }

  async get(key: string): Promise<string | undefined> {
    this.#assertOpen()
    try {
      return await this.#db.get(key)
    } catch (error) {
      throw this.#asReadError(error)
    }
  }

  getSync(key: string): string | undefined {
    this.#assertOpen()
    try {
      return this.#db.getSync(key)
    } catch (error) {
      throw this.#asReadError(error)
    }
  }

  scan({ gte, lt, limit, reverse }: ScanRange): Promise<readonly (readonly [string, string])[]> {
    return this.#range({ gte, lt, limit, reverse: reverse ?? false })
  }

  async blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined> {
    this.#assertOpen()
    try {
      return cut(await this.#db.get<string, Uint8Array>(keys.blob(hash), asBytes), range)
    } catch (error) {
      throw this.#asReadError(error)
    }
  }

  /** LevelDB reads blobs whole; who wants a part often wants the next one too. */
  blobSync(hash: string, range: ByteRange): Uint8Array | undefined {
    this.#assertOpen()
    if (this.#last?.hash === hash) return cut(this.#last.bytes, range)
    try {
      const bytes = this.#db.getSync<string, Uint8Array>(keys.blob(hash), asBytes)
      if (bytes !== undefined && range.length < bytes.length) this.#last = { hash, bytes }
      return cut(bytes, range)
    } catch (error) {
      throw this.#asReadError(error)
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#commits.drain()
    await this.#onClosing?.()
    try {
      await this.#db.close()
    } catch (error) {
      throw systemError(error, 'the store could not be closed')
    } finally {
      this.#onClosed()
    }
  }

  /**
   * LevelDB leaves out the entries of tables that it cannot read, and says so only at the end of a range.
   * When the limit ends the reading, the iterator is sent there to be asked.
   */
  async #range({ gte, lt, limit, reverse }: Required<ScanRange>): Promise<[string, string][]> {
    this.#assertOpen()
    const iterator = this.#db.iterator({ gte, lt, reverse, highWaterMarkBytes: pageBytes })
    try {
      const found: [string, string][] = []
      while (found.length < limit) {
        const page = await iterator.nextv(Math.min(limit - found.length, entriesPerRead))
        if (page.length === 0) return found
        for (const entry of page) found.push(entry)
      }
      iterator.seek(reverse ? gte : lt)
      // Two: in reverse, `gte` itself may be there, and the end comes after it.
      await iterator.nextv(2)
      return found
    } catch (error) {
      throw this.#asReadError(error)
    } finally {
      await iterator.close()
    }
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw closedError()
  }

  /** A read that the closing overtook is no loss of data. */
  #asReadError(error: unknown): unknown {
    if (error instanceof EngineError) return error
    return this.#closing === undefined ? readError(error) : closedError()
  }
}

function cut(bytes: Uint8Array | undefined, { offset, length }: ByteRange): Uint8Array | undefined {
  return bytes?.subarray(offset, offset + length)
}

function parseBody(sessionId: string, seq: number, text: string): StoredEvent['body'] {
  try {
    const body: unknown = JSON.parse(text)
    if (Array.isArray(body)) return body
  } catch (error) {
    throw damagedEvent(sessionId, seq, { cause: error })
  }
  throw damagedEvent(sessionId, seq)
}

function damagedEvent(sessionId: string, seq: number, options?: ErrorOptions): EngineError {
  return new EngineError('DATA_LOSS', 'a stored event is damaged', { sessionId, seq: String(seq) }, options)
}

function lostEvent(sessionId: string, seq: number): EngineError {
  return new EngineError('DATA_LOSS', 'a stored event is missing', { sessionId, seq: String(seq) })
}
