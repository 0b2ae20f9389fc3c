import { EngineError, itemAt } from '../../../engine/ports.js'
import type { Store, StoredEvent, StoreFinding } from '../../../engine/ports.js'
import { missingFiles } from '../errors.js'
import { IndexedReads } from '../index/indexed-reads.js'
import type { LiveIndex } from '../index/live-index.js'
import { sessionOf } from '../index/memtable.js'
import { fromBinary } from '../log/segment-format.js'
import type { Segments } from '../log/segments.js'
import type { StoredFiles } from './stored-files.js'
import { segmentPath } from './stored-files.js'

/**
 * A read-only store with the intact entries of a store that may be damaged. Its events may have gaps, because
 * damaged ones are left out. A check of it reports the findings about the files.
 */
export class SalvagedStore extends IndexedReads implements Store {
  readonly capabilities = { durable: true, syncReads: true }
  readonly #files: StoredFiles
  readonly #index: LiveIndex
  readonly #findings: readonly StoreFinding[]

  constructor(files: StoredFiles, index: LiveIndex, findings: readonly StoreFinding[]) {
    super(openFiles(files))
    this.#files = files
    this.#index = index
    this.#findings = findings
  }

  commit(): Promise<boolean> {
    return Promise.reject(new EngineError('PERMISSION_DENIED', 'the store is read-only'))
  }

  async *events(
    sessionId: string,
    range: { from: number; to: number },
  ): AsyncGenerator<readonly StoredEvent[], void, undefined> {
    const to = Math.min(range.to, await this.newestSeq(sessionId))
    for (let first = Math.max(range.from, 1); first <= to;) {
      const found = await this.eventTexts(sessionId, first, to)
      if (found.length === 0) return
      const page: StoredEvent[] = []
      for (const { seq, text } of found) {
        const body = parseBody(text)
        if (body !== undefined) page.push({ sessionId, seq, body })
      }
      first = itemAt(found, -1).seq + 1
      yield page
    }
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const last = await this.newestEvent(sessionId)
    const body = last && parseBody(last.text)
    return body && { sessionId, seq: last.seq, body }
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

  async size(): Promise<number> {
    return this.#files.bytes
  }

  async *check(): AsyncGenerator<StoreFinding, void> {
    for (const finding of this.#findings) yield finding
  }

  close(): Promise<void> {
    return this.#files.close()
  }

  protected look<T>(find: (index: LiveIndex) => T): T {
    return find(this.#index)
  }

  protected whenRepaired(): undefined {
    return undefined
  }

  protected asReadError(error: unknown): unknown {
    return error
  }
}

function openFiles({ segments }: StoredFiles): Pick<Segments, 'file'> {
  const open = new Map(segments.map(({ file }) => [file.segment, file]))
  return {
    file(segment) {
      const file = open.get(segment)
      if (file === undefined) throw missingFiles([segmentPath(segment)])
      return file
    },
  }
}

function parseBody(text: string): StoredEvent['body'] | undefined {
  try {
    const body: unknown = JSON.parse(text)
    return Array.isArray(body) ? body : undefined
  } catch {
    return undefined
  }
}
