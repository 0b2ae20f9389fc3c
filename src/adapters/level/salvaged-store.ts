import { Buffer } from 'node:buffer'
import { decodeSeq, limits, EngineError } from '../../engine/ports.js'
import type {
  ByteRange,
  ScanRange,
  Store,
  StoredBlobSize,
  StoredEvent,
  StoreFinding,
} from '../../engine/ports.js'
import { blobKey, eventKey } from './commit-frame.js'
import { EntryReader } from './entry-reader.js'
import { missingFiles } from './errors.js'
import type { LiveIndex } from './live-index.js'
import { sessionOf } from './memtable.js'
import { blobBytesOf, fromBinary, toBinary } from './segment-format.js'
import type { StoredFiles } from './stored-files.js'
import { segmentPath } from './stored-files.js'

const seqWidth = 8
const entriesPerRead = 1000

/**
 * What is whole of a store, to be read. Events may have gaps here: those that are not whole are left out. Checking it
 * tells what was found in the files.
 */
export class SalvagedStore implements Store {
  readonly capabilities = { durable: true, syncReads: true }
  readonly #files: StoredFiles
  readonly #index: LiveIndex
  readonly #reader: EntryReader
  readonly #findings: readonly StoreFinding[]

  constructor(files: StoredFiles, index: LiveIndex, findings: readonly StoreFinding[]) {
    this.#files = files
    this.#index = index
    this.#findings = findings
    const open = new Map(files.segments.map(({ file }) => [file.segment, file]))
    this.#reader = new EntryReader({
      file(segment) {
        const file = open.get(segment)
        if (file === undefined) throw missingFiles([segmentPath(segment)])
        return file
      },
    })
  }

  commit(): Promise<boolean> {
    return Promise.reject(new EngineError('PERMISSION_DENIED', 'the store is open for reading only'))
  }

  async *events(
    sessionId: string,
    range: { from: number; to: number },
  ): AsyncGenerator<readonly StoredEvent[], void, undefined> {
    const session = `e${toBinary(sessionId)}`
    const last = this.#index.lastEvent(session)
    const to = Math.min(range.to, last === undefined ? 0 : seqOf(last[0]))
    for (let seq = Math.max(range.from, 1); seq <= to;) {
      const [from, end] = [`e${eventKey(sessionId, seq)}`, `e${eventKey(sessionId, to)}\0`]
      const entries = this.#index.range(from, end, limits.eventsPerRead, false)
      if (entries.length === 0) return
      const texts = await this.#reader.texts(entries)
      const page: StoredEvent[] = []
      for (const [i, text] of texts.entries()) {
        const body = parseBody(text)
        if (body !== undefined) page.push({ sessionId, seq: seqOf(entries[i]![0]), body })
      }
      seq = seqOf(entries.at(-1)![0]) + 1
      yield page
    }
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const last = this.#index.lastEvent(`e${toBinary(sessionId)}`)
    if (last === undefined) return undefined
    const body = parseBody(await this.#reader.text(...last))
    return body && { sessionId, seq: seqOf(last[0]), body }
  }

  /** The sessions that have events. */
  *sessionsWithEvents(): Generator<string, void> {
    for (let from = 'e'; ;) {
      const [found] = this.#index.range(from, 'f', 1, false)
      if (found === undefined) return
      const session = sessionOf(found[0])
      yield fromBinary(session.slice(1))
      from = `${session}\x7f`
    }
  }

  async get(key: string): Promise<string | undefined> {
    return this.getSync(key)
  }

  getSync(key: string): string | undefined {
    const name = `r${toBinary(key)}`
    const place = this.#index.get(name)
    return place && this.#reader.textSync(name, place)
  }

  async scan({
    gte,
    lt,
    limit,
    reverse = false,
  }: ScanRange): Promise<readonly (readonly [string, string])[]> {
    let [low, high] = [`r${toBinary(gte)}`, `r${toBinary(lt)}`]
    const found: [string, string][] = []
    for (;;) {
      const wanted = Math.min(limit - found.length, entriesPerRead)
      const entries = this.#index.range(low, high, wanted, reverse)
      const texts = await this.#reader.texts(entries)
      for (const [i, [key]] of entries.entries()) found.push([fromBinary(key.slice(1)), texts[i]!])
      if (entries.length < wanted || found.length >= limit) return found
      const last = entries.at(-1)![0]
      if (reverse) high = last
      else low = `${last}\0`
    }
  }

  async blob(hash: string, range: ByteRange): Promise<Uint8Array | undefined> {
    const key = `b${blobKey(hash)}`
    const place = this.#index.get(key)
    return place && this.#reader.blob(key, place, range)
  }

  blobSync(hash: string, range: ByteRange): Uint8Array | undefined {
    const key = `b${blobKey(hash)}`
    const place = this.#index.get(key)
    return place && this.#reader.blobSync(key, place, range)
  }

  async listBlobs(after: string, limit: number): Promise<readonly StoredBlobSize[]> {
    const from = after === '' ? 'b' : `b${blobKey(after)}\0`
    return this.#index.range(from, 'c', limit, false).map(([key, { length }]) => ({
      hash: Buffer.from(key.slice(1), 'latin1').toString('hex'),
      bytes: blobBytesOf(length),
    }))
  }

  async size(): Promise<number> {
    return this.#files.bytes
  }

  async *check(): AsyncGenerator<StoreFinding, void> {
    for (const finding of this.#findings) yield finding
  }

  close(): Promise<void> {
    return this.#files.close()
  }
}

function seqOf(key: string): number {
  return decodeSeq(key.slice(-seqWidth))
}

function parseBody(text: string): StoredEvent['body'] | undefined {
  try {
    const body: unknown = JSON.parse(text)
    return Array.isArray(body) ? body : undefined
  } catch {
    return undefined
  }
}
