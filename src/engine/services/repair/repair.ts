import { messageOf } from '../../base/errors.js'
import { DigestTable } from '../../base/digest-table.js'
import type { Environment } from '../../base/environment.js'
import { sha256 } from '../../base/hash.js'
import { IdSource, idLength } from '../../base/ids.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/slices.js'
import { ContentStore } from '../../cas/content.js'
import { scanAll } from '../../storage/scan-all.js'
import type { Baseline } from '../../session/records.js'
import { decodeSeq, keys, prefixEnd, seqWidth, tenantKeyLength } from '../../storage/keys.js'
import type { Store } from '../../storage/store.js'
import type { EncodedNode } from '../../tree/codec.js'
import { ContentIds } from '../../tree/content-id.js'
import { StoreLoader } from '../../tree/loader.js'
import { NodeCache } from '../../tree/node-cache.js'
import { RootStore } from '../../tree/roots.js'
import type { Dropped } from './context.js'
import { SessionRepair } from './sessions.js'
import { TreeMender } from './tree.js'
import { RepairWriter } from './writer.js'

export interface RepairOptions {
  readonly signal?: AbortSignal | undefined
  /** Told now and then how many objects were carried over. */
  readonly onProgress?: ((objects: number) => void) | undefined
  /** Sessions of which `from` has events. */
  readonly sessionsWithEvents?: Iterable<string>
  /** Events that were there once. */
  readonly lostEvents?: readonly { readonly sessionId: string; readonly seq: number }[]
}

/** What was carried over to another store, and what was not. */
export interface RepairReport {
  /** Everything that is not there any more, or not as it was. */
  readonly dropped: readonly Dropped[]
  readonly sessions: number
  /** Of these, such whose history is not as it was. */
  readonly rebuiltSessions: number
  readonly events: number
  readonly nodes: number
  readonly blobs: number
}

/**
 * Carries everything over that is left of a store to an empty one, so that the other is whole: what leads to something
 * that is lost is left out or goes without it, and told. `from` may lack anything, events in the middle too, but what
 * it has is as it was written.
 */
export async function repairStore(
  from: Store,
  to: Store,
  environment: Environment,
  options: RepairOptions = {},
): Promise<RepairReport> {
  return new Repair(from, to, environment, options).run()
}

/** Key spaces by their first letters, that belong to a session. */
const ofSessions = 'vlapuhxtqc'
/** Key spaces that are written by other means, or not carried over. */
const elsewhere = 'snrkbe'

class Repair {
  readonly #from: Store
  readonly #to: Store
  readonly #environment: Environment
  readonly #options: RepairOptions
  readonly #writer: RepairWriter
  readonly #slice: TimeSlice
  readonly #sizes = new DigestTable(8)
  readonly #dropped: Dropped[] = []
  readonly #droppedRevisions = new Set<string>()
  /** Sessions that have records and no record of themselves. */
  readonly #orphans = new Set<string>()
  #nodes = 0
  #records = 0

  constructor(from: Store, to: Store, environment: Environment, options: RepairOptions) {
    this.#from = from
    this.#to = to
    this.#environment = environment
    this.#options = options
    this.#writer = new RepairWriter(to)
    this.#slice = new TimeSlice(environment)
  }

  async run(): Promise<RepairReport> {
    await this.#copyBlobs()
    await this.#copyNodes()
    await this.#writer.flush()
    const ids = new IdSource(this.#environment)
    const nodes = new NodeCache(limits.memoryBudgetBytes / 2)
    const loader = new StoreLoader(this.#to, nodes)
    const content = new ContentStore(this.#to, this.#environment, limits.memoryBudgetBytes / 4)
    const contentIds = new ContentIds(content, loader)
    const hasBlob = (hash: string, length: number): boolean => this.#hasBlob(hash, length)
    const mender = new TreeMender(loader, hasBlob, this.#slice)
    const roots = new RootStore(this.#to, { environment: this.#environment, ids, nodes, loader })
    const sessions = new SessionRepair({
      from: this.#from,
      writer: this.#writer,
      mender,
      roots,
      contentIds,
      replay: { contentIds, newIno: () => ids.newIno() },
      environment: this.#environment,
      slice: this.#slice,
      hasBlob,
      lostEvents: newestOf(this.#options.lostEvents ?? []),
      drop: (dropped) => this.#drop(dropped),
    })
    await sessions.run(() => this.#rest(sessions.events))
    const isWhole = async (root: EncodedNode): Promise<boolean> =>
      (await mender.mend(roots.load(root))).lost.length === 0
    await this.#copyRecords(sessions, isWhole)
    for (const sessionId of this.#options.sessionsWithEvents ?? [])
      if (!sessions.knows(sessionId)) this.#orphans.add(sessionId)
    for (const sessionId of this.#orphans)
      this.#drop({
        object: `session ${sessionId}`,
        sessionId,
        message: 'its record is lost, and so is all of it',
      })
    await this.#writer.flush()
    return {
      dropped: this.#dropped,
      sessions: sessions.count,
      rebuiltSessions: sessions.rebuilt,
      events: sessions.events,
      nodes: this.#nodes,
      blobs: this.#sizes.size,
    }
  }

  async #copyBlobs(): Promise<void> {
    for (let after = ''; ;) {
      const page = (await this.#from.listBlobs?.(after, limits.recordsPerScan)) ?? []
      for (const { hash, bytes } of page) {
        const content = await this.#from.blob(hash, { offset: 0, length: bytes }).catch(() => undefined)
        // What leads to it tells of it.
        if (content === undefined || content.byteLength !== bytes || sha256(content) !== hash) continue
        this.#sizes.add(hash)?.writeDoubleLE(bytes)
        await this.#writer.blob(hash, content)
        await this.#rest(0)
      }
      if (page.length < limits.recordsPerScan) return
      after = page.at(-1)!.hash
    }
  }

  async #copyNodes(): Promise<void> {
    const prefix = keys.allNodes()
    for await (const page of scanAll({ store: this.#from }, prefix)) {
      for (const [key, json] of page) {
        if (!sha256(json).startsWith(key.slice(prefix.length))) continue
        this.#nodes++
        await this.#writer.put(key, json)
        await this.#rest(0)
      }
    }
  }

  /** All but those of the histories of sessions. */
  async #copyRecords(
    sessions: SessionRepair,
    isWhole: (root: EncodedNode) => Promise<boolean>,
  ): Promise<void> {
    const labels: (readonly [key: string, json: string])[] = []
    const sources: (readonly [key: string, json: string])[] = []
    for (const letter of await this.#letters()) {
      if (elsewhere.includes(letter)) continue
      for await (const page of scanAll({ store: this.#from }, letter)) {
        for (const [key, json] of page) {
          this.#records++
          await this.#rest(0)
          let record: Parsed
          try {
            record = JSON.parse(json) as Parsed
          } catch (error) {
            this.#drop({ object: `record ${key}`, message: messageOf(error) })
            continue
          }
          if (letter === 'f' && record?.root === undefined) labels.push([key, json])
          else if (letter === 'o') sources.push([key, json])
          else if (await this.#isKept(letter, key, record, sessions, isWhole))
            await this.#writer.put(key, json)
        }
      }
    }
    for (const [key, json] of labels) {
      const { revisionId } = JSON.parse(json) as { revisionId: string }
      const revision = key.slice(0, 1 + tenantKeyLength + idLength) + revisionId
      if (await this.#hasRevision(revision)) await this.#writer.put(key, json)
      else
        this.#drop({
          object: `revision label ${key.slice(revision.length - revisionId.length + 1)}`,
          message: 'its revision is lost',
        })
    }
    for (const [key, json] of sources) await this.#writer.put(key, await this.#source(key, json))
  }

  /** The first letters of all keys: what is not known here is carried over as it is. */
  async #letters(): Promise<string[]> {
    const letters: string[] = []
    for (let gte = ''; ;) {
      const [found] = await this.#from.scan({ gte, lt: '\u{10ffff}', limit: 1 })
      if (found === undefined) return letters
      const [letter] = found[0] as unknown as [string]
      letters.push(letter)
      gte = prefixEnd(letter)
    }
  }

  async #isKept(
    letter: string,
    key: string,
    record: Parsed,
    sessions: SessionRepair,
    isWhole: (root: EncodedNode) => Promise<boolean>,
  ): Promise<boolean> {
    if (ofSessions.includes(letter)) return this.#isKeptOfSession(letter, key, record, sessions)
    const id = key.slice(1 + tenantKeyLength)
    switch (letter) {
      case 'f':
      case 'd': {
        const { root, revision } = record as Baseline
        const gitRoot = revision?.git?.root
        if ((await isWhole(root)) && (gitRoot === undefined || (await isWhole(gitRoot)))) return true
        const object = letter === 'f' ? `revision ${id.slice(idLength)}` : `git tree ${id}`
        if (letter === 'f') this.#droppedRevisions.add(key)
        this.#drop({ object, message: 'its tree is not whole' })
        return false
      }
      case 'g': {
        const { hash, blobs, size } = record as GitRecord
        const contents = hash === undefined ? (blobs ?? []) : [[hash, size ?? 0] as const]
        if (contents.every(([blob, length]) => this.#hasBlob(blob, length))) return true
        this.#drop({ object: `git object ${id}`, message: 'its content is lost' })
        return false
      }
      case 'm': {
        if (!keys.isCheckout(key)) return true
        const { trees, sessionId } = record as { trees: readonly EncodedNode[]; sessionId: string }
        for (const root of trees) {
          if (await isWhole(root)) continue
          this.#drop({ object: `checkout ${id}`, sessionId, message: 'what was written there is not whole' })
          return false
        }
        return true
      }
      // What a remote is told to be here already: it may not be.
      case 'z':
        return false
      default:
        return true
    }
  }

  async #isKeptOfSession(
    letter: string,
    key: string,
    record: Parsed,
    sessions: SessionRepair,
  ): Promise<boolean> {
    const sessionId = key.slice(1, 1 + idLength)
    const session = await sessions.repaired(sessionId)
    if (session === undefined) {
      // Of one that was deleted, or never was whole, nothing is missed.
      if (!sessions.knows(sessionId)) this.#orphans.add(sessionId)
      return false
    }
    if (session.kept && letter !== 'c') return true
    // Counted again from the events.
    if (letter === 'q') return false
    const rest = key.slice(1 + idLength)
    if (letter === 'h' && decodeSeq(rest.slice(0, seqWidth)) > session.last) {
      this.#drop({ object: `health report ${decodeSeq(rest)}`, sessionId, message: 'its event is lost' })
      return false
    }
    if (letter !== 'c') return true
    const { value } = record as { value: string | readonly (readonly [string, number])[] }
    if (typeof value === 'string' || value.every(([hash, length]) => this.#hasBlob(hash, length))) return true
    this.#drop({ object: `cache entry ${rest.slice(1)}`, sessionId, message: 'its value is lost' })
    return false
  }

  /** A source whose newest revision is lost has none. */
  async #source(key: string, json: string): Promise<string> {
    const { latestRevisionId, scannedRevisionId, ...source } = JSON.parse(json) as SourceRevisions
    const prefix = `f${key.slice(1)}`
    const isThere = async (revisionId: string | undefined): Promise<boolean> =>
      revisionId === undefined || revisionId === '' || this.#hasRevision(prefix + revisionId)
    const [latest, scanned] = [await isThere(latestRevisionId), await isThere(scannedRevisionId)]
    if (latest && scanned) return json
    if (!latest)
      this.#drop({ object: `source ${key.slice(-idLength)}`, message: 'its latest revision is lost' })
    return JSON.stringify({
      ...source,
      latestRevisionId: latest ? latestRevisionId : '',
      ...(scanned && scannedRevisionId !== undefined && { scannedRevisionId }),
    })
  }

  async #hasRevision(key: string): Promise<boolean> {
    return !this.#droppedRevisions.has(key) && (await this.#from.get(key)) !== undefined
  }

  #hasBlob(hash: string, length: number): boolean {
    const size = this.#sizes.get(hash)
    return size !== undefined && size.readDoubleLE() >= length
  }

  #drop(dropped: Dropped): void {
    this.#dropped.push(dropped)
  }

  async #rest(events: number): Promise<void> {
    if (!this.#slice.over) return
    this.#options.signal?.throwIfAborted()
    this.#options.onProgress?.(this.#nodes + this.#sizes.size + this.#records + events)
    await this.#slice.next()
  }
}

/** The newest one of each session. */
function newestOf(
  events: readonly { readonly sessionId: string; readonly seq: number }[],
): Map<string, number> {
  const newest = new Map<string, number>()
  for (const { sessionId, seq } of events) newest.set(sessionId, Math.max(seq, newest.get(sessionId) ?? 0))
  return newest
}

type Parsed = { readonly root?: EncodedNode } | undefined

interface GitRecord {
  readonly hash?: string
  readonly size?: number
  readonly blobs?: readonly (readonly [hash: string, length: number])[]
}

interface SourceRevisions {
  readonly latestRevisionId: string
  readonly scannedRevisionId?: string
}
