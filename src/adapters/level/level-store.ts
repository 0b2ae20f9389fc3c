import { EngineError } from '../../engine/ports.js'
import type { Store, StoreCommit, StoreFinding, StoredEvent } from '../../engine/ports.js'
import { levelLimits } from './limits.js'
import { eventKey } from './log/commit-frame.js'
import type { Appended, CommitLog } from './log/commit-log.js'
import { lostEvent, parseBody, parseHead } from './log/event-body.js'
import { closedError, readError, systemError, unreadableError, writeError } from './errors.js'
import { GroupCommit } from './log/group-commit.js'
import { indexFinding, unreadableIndex } from './index/index-check.js'
import type { IndexDamage } from './index/index-database.js'
import { IndexedReads } from './index/indexed-reads.js'
import type { LiveIndex } from './index/live-index.js'
import { damagedIndex } from './index/page-index.js'
import { reclaimSegments } from './log/reclaim.js'
import { checkSegments } from './log/segment-check.js'
import type { Segments } from './log/segments.js'

export interface LevelStoreParts {
  readonly segments: Segments
  readonly log: CommitLog
  readonly index: LiveIndex
  /** Opens the index again after a failed write, or rebuilds it from the segments if it is damaged. */
  readonly reopenIndex: (damaged: boolean) => Promise<LiveIndex>
  readonly indexBytes: () => Promise<number>
  /** The index is flushed when this many entries are not in it yet. */
  readonly flushEntries: number
  /** The index is flushed when frames of this many bytes are not in it yet. */
  readonly flushBytes: number
  /** Releases the lock and the directory. Called once, after everything was written and closed. */
  readonly release: () => Promise<void>
}

/**
 * A store of format 2. The segments contain all data. The index maps each key to the place of its entry, and
 * can be rebuilt from the segments.
 */
export class LevelStore extends IndexedReads implements Store {
  readonly capabilities = { durable: true, syncReads: true }
  readonly #parts: LevelStoreParts
  readonly #commits: GroupCommit
  #index: LiveIndex
  /** The failure after which the index cannot be written until the store recovers. */
  #indexFailure: { readonly cause: unknown } | undefined
  /** Whether the index is damaged and has not been rebuilt yet. */
  #indexDamaged = false
  /** How often the file of the index was replaced, including a replacement that is running. */
  #indexReplacements = 0
  /**
   * The running rebuild of the index. Commits wait for it, and so do reads of damaged pages. It never
   * rejects.
   */
  #repairing: Promise<void> | undefined
  /**
   * Whether the log has recovered, but the recovery of the store has not finished. Nothing was appended
   * since, so the next attempt skips the log.
   */
  #logRecovered = false
  #closing: Promise<void> | undefined
  #recovering: Promise<void> | undefined
  #reclaiming: Promise<void> | undefined
  #reclaimPass: Promise<void> | undefined

  constructor(parts: LevelStoreParts) {
    super(parts.segments)
    this.#parts = parts
    this.#index = parts.index
    this.#commits = new GroupCommit({
      log: parts.log,
      hasEvent: (sessionId, seq) =>
        this.look((index) => index.get(`e${eventKey(sessionId, seq)}`)) !== undefined,
      onWritten: (appended) => this.#apply(appended),
    })
  }

  commit(commit: StoreCommit): Promise<boolean> {
    if (this.#closing !== undefined) return Promise.reject(closedError())
    if (this.#repairing === undefined) {
      const added = this.#commits.add(commit)
      // Adding a commit looks up event numbers in the index. This lookup may have found the damage just now.
      if (this.#repairing === undefined) return added
      added.catch(ignore)
    }
    // Waiting commits are added in call order. Their blobs are copied, because the caller may change the
    // bytes meanwhile.
    const kept = commit.blobs === undefined ? commit : { ...commit, blobs: commit.blobs.map(copyOf) }
    return this.#repairing.then(() => this.#commits.add(kept))
  }

  async *events(
    sessionId: string,
    range: { from: number; to: number },
  ): AsyncGenerator<readonly StoredEvent[], void, undefined> {
    for (let first = Math.max(range.from, 1); ;) {
      const to = Math.min(range.to, await this.newestSeq(sessionId))
      if (first > to) return
      const found = await this.eventTexts(sessionId, first, to)
      const page: StoredEvent[] = []
      for (const event of found) {
        const seq = first + page.length
        if (event.seq !== seq) throw lostEvent(sessionId, seq)
        page.push({ sessionId, seq, body: await parseBody(sessionId, seq, event.text) })
      }
      if (page.length === 0) throw lostEvent(sessionId, first)
      first += page.length
      yield page
    }
  }

  async lastEvent(sessionId: string): Promise<StoredEvent | undefined> {
    const last = await this.newestEvent(sessionId)
    return last && { sessionId, seq: last.seq, body: await parseHead(sessionId, last.seq, last.text) }
  }

  async size(): Promise<number> {
    this.#assertOpen()
    try {
      return this.#parts.segments.bytes + (await this.#parts.indexBytes())
    } catch (error) {
      if (this.#closing !== undefined) throw closedError()
      throw systemError(error, 'the size of the store could not be read')
    }
  }

  async *check({
    signal,
  }: {
    readonly signal?: AbortSignal | undefined
  }): AsyncGenerator<StoreFinding, void> {
    this.#assertOpen()
    try {
      yield* checkSegments(this.#parts.segments, signal)
      let damages: readonly IndexDamage[]
      try {
        damages = await this.#indexDamages()
      } catch (error) {
        const finding = unreadableIndex(error)
        if (finding === undefined) throw error
        yield finding
        return
      }
      yield* damages.map(indexFinding)
      if (damages.length > 0) await this.#noteDamage()
    } catch (error) {
      throw signal?.aborted === true ? error : this.asReadError(error)
    }
  }

  /** A recovery or repair that replaces the file meanwhile also replaces any damage. */
  async #indexDamages(): Promise<readonly IndexDamage[]> {
    await this.#recovering?.catch(ignore)
    await this.#repairing
    const replacements = this.#indexReplacements
    const damages: IndexDamage[] = []
    try {
      for await (const damage of this.#index.pages.db.damages()) damages.push(damage)
    } catch (error) {
      if (replacements === this.#indexReplacements) throw error
    }
    return replacements === this.#indexReplacements ? damages : []
  }

  recover(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(closedError())
    if (!this.#commits.failed) return Promise.resolve()
    this.#recovering ??= this.#recover().finally(() => (this.#recovering = undefined))
    return this.#recovering
  }

  reclaim({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(closedError())
    this.#reclaiming ??= this.#reclaim(signal).finally(() => (this.#reclaiming = undefined))
    return this.#reclaiming
  }

  /** If the index turns out to be damaged, it is rebuilt, and this starts again. */
  async #reclaim(signal: AbortSignal | undefined): Promise<void> {
    const { segments, log } = this.#parts
    for (;;) {
      await this.#repairing
      this.#reclaimPass = reclaimSegments({
        segments,
        log,
        commits: this.#commits,
        index: () => this.#index,
        flush: () => this.#flush(true),
        check: () => {
          signal?.throwIfAborted()
          this.#assertOpen()
          this.#commits.assertAccepting()
          if (this.#repairing !== undefined) throw damagedIndex()
        },
      })
      try {
        await this.#reclaimPass
        return
      } catch (error) {
        if (isIndexDamage(error) && this.#noteDamage() !== undefined) continue
        if (error instanceof EngineError || (signal?.aborted === true && error === signal.reason)) throw error
        throw systemError(error, 'space could not be reclaimed')
      } finally {
        this.#reclaimPass = undefined
      }
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#recovering?.catch(ignore)
    await this.#reclaiming?.catch(ignore)
    await this.#repairing
    await this.#commits.drain()
    const { log, segments, release } = this.#parts
    // A failed step is no loss. Acknowledged commits are in the segments, and the next opening repeats the
    // step.
    if (!this.#commits.failed) {
      if (this.#index.waiting > 0 && !this.#indexDamaged)
        await this.#flush(false, levelLimits.openedEntries).catch(ignore)
      if (!this.#commits.failed) await log.finish().catch(ignore)
    }
    await this.#index.flushing?.catch(ignore)
    const { pages } = this.#index
    if (this.#indexDamaged) await pages.forget().catch(ignore)
    await pages.db.close({ compact: true }).catch(ignore)
    await segments.close().catch(ignore)
    try {
      await release()
    } catch (error) {
      throw systemError(error, 'the store could not be closed')
    }
  }

  async #recover(): Promise<void> {
    await this.#repairing
    await this.#commits.drain()
    await this.#index.flushing?.catch(ignore)
    try {
      // Without a usable index the reclaiming ends. Then it no longer changes the list of segments.
      const renewIndex = this.#indexFailure !== undefined || this.#indexDamaged
      if (renewIndex) await this.#reclaiming?.catch(ignore)
      if (!this.#logRecovered) await this.#parts.log.recover(this.#index.pages.tail)
      this.#logRecovered = true
      if (renewIndex) await this.#replaceIndex()
    } catch (error) {
      throw error instanceof EngineError ? error : writeError(error, 'not-applied')
    }
    this.#logRecovered = false
    this.#commits.resume()
  }

  /**
   * Starts to rebuild the index from the segments, after the commits that are already waiting. Returns
   * undefined if the recovery will do this instead, or if the store is being closed.
   */
  #noteDamage(): Promise<void> | undefined {
    this.#indexDamaged = true
    if (this.#commits.failed || this.#closing !== undefined) return undefined
    this.#repairing ??= this.#repair().finally(() => (this.#repairing = undefined))
    return this.#repairing
  }

  async #repair(): Promise<void> {
    // The reclaiming changes the list of segments. Its next check finds the repair and ends it.
    await this.#reclaimPass?.catch(ignore)
    try {
      await this.#commits.addLater(async () => {
        await this.#replaceIndex()
        return undefined
      })
    } catch (error) {
      this.#indexFailure ??= { cause: error }
    }
  }

  /**
   * Reopens or rebuilds the index. Call this while no commit is being written. Reads use the old index until
   * the new one is ready.
   */
  async #replaceIndex(): Promise<void> {
    const old = this.#index
    await old.flushing?.catch(ignore)
    this.#indexReplacements++
    this.#index = await this.#parts.reopenIndex(this.#indexDamaged)
    this.#indexFailure = undefined
    this.#indexDamaged = false
    await old.pages.db.close().catch(ignore)
  }

  /**
   * Makes written commits readable. Returns the running flush if the index lags so far that commits must wait
   * for it.
   */
  #apply(appended: readonly Appended[]): Promise<void> | undefined {
    const index = this.#index
    for (const { frame, place, offset } of appended) index.apply(frame.entries, place, offset)
    const { flushEntries, flushBytes } = this.#parts
    if (index.waiting < flushEntries && index.unflushedBytes < flushBytes) return undefined
    if (index.flushing === undefined) this.#flush(false).catch(ignore)
    const bound = flushEntries * levelLimits.flushesBehind
    const behind = index.waiting >= bound || index.unflushedBytes >= flushBytes * levelLimits.flushesBehind
    return behind ? index.flushing : undefined
  }

  /**
   * Flushes the index. If the index turns out to be damaged, it is rebuilt. If anything else fails, the store
   * accepts no commits until it has recovered.
   */
  async #flush(
    sync: boolean,
    mergeEntries = this.#parts.flushEntries * levelLimits.flushesPerMerge,
  ): Promise<void> {
    if (this.#indexDamaged) throw damagedIndex()
    const { segments, log } = this.#parts
    const hasSegment = (segment: number): boolean => segments.has(segment)
    try {
      await this.#index.flush({ sync, mergeEntries, hasSegment }, (place) => log.sync(place))
    } catch (error) {
      if (isIndexDamage(error) && this.#noteDamage() !== undefined) throw error
      this.#indexFailure ??= { cause: error }
      this.#commits.fence(error)
      throw error
    }
  }

  protected look<T>(find: (index: LiveIndex) => T): T {
    this.#assertOpen()
    try {
      return find(this.#index)
    } catch (error) {
      if (!isIndexDamage(error)) throw this.asReadError(error)
      throw this.#noteDamage() === undefined ? error : mustWait(error)
    }
  }

  /** The repair to await before retrying a read that failed with this error. */
  protected whenRepaired(error: unknown): Promise<void> | undefined {
    return error instanceof EngineError && error.reason === 'WOULD_BLOCK' ? this.#repairing : undefined
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw closedError()
  }

  /**
   * Converts the error of a read. A read is no data loss if it failed because the store was closed meanwhile,
   * or because the index was being reopened.
   */
  protected asReadError(error: unknown): unknown {
    if (this.#closing !== undefined) return closedError()
    const known = error instanceof EngineError ? error : readError(error)
    return known.reason === 'STORE_CLOSED' ? unreadableError(error) : known
  }
}

/** Whether an error reports a damaged index. A damaged segment is no reason to rebuild the index. */
function isIndexDamage(error: unknown): boolean {
  return error instanceof EngineError && error.details['damaged'] === 'index'
}

function mustWait(cause: unknown): EngineError {
  const message = 'the index is damaged and is being rebuilt: use the promise form, or try again later'
  return new EngineError('WOULD_BLOCK', message, {}, { cause })
}

type Blob = NonNullable<StoreCommit['blobs']>[number]

function copyOf({ hash, bytes }: Blob): Blob {
  return { hash, bytes: Uint8Array.from(bytes) }
}

function ignore(): void {}
