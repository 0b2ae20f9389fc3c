import { itemAt } from '../../base/present.js'
import { messageOf } from '../../base/errors.js'
import { DigestTable } from '../../base/digest-table.js'
import type { Environment } from '../../base/environment.js'
import { sha256 } from '../../base/hash.js'
import { IdSource, idLength } from '../../base/ids.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import { ContentStore } from '../../cas/content.js'
import { scanAll } from '../../storage/scan-all.js'
import { cacheEntryKind } from '../../records/cache-entry.js'
import { healthReportKind } from '../../records/health-report.js'
import { kindOf, type AnyRecordKind } from '../../records/index.js'
import { revisionKind, revisionLabelKind } from '../../records/revision.js'
import { sourceKind, type SourceRecord } from '../../records/source.js'
import { decodeSeq, keyPrefixes, keys, prefixEnd, tenantKeyLength } from '../../storage/keys.js'
import type { Store } from '../../storage/store.js'
import type { EncodedNode } from '../../tree/encoded.js'
import { ContentIds } from '../../tree/content-id.js'
import { StoreLoader } from '../../tree/loader.js'
import { NodeCache } from '../../tree/node-cache.js'
import { StoredRoots } from '../../tree/stored-roots.js'
import type { Dropped } from './context.js'
import { SessionRepair } from './sessions.js'
import { TreeMender } from './tree.js'
import { RepairWriter } from './writer.js'

export interface RepairOptions {
  readonly signal?: AbortSignal | undefined
  /** Called now and then with the number of copied objects. */
  readonly onProgress?: ((objects: number) => void) | undefined
  /** The sessions that have events in `from`. */
  readonly sessionsWithEvents?: Iterable<string>
  /** Events that are known to have existed. */
  readonly lostEvents?: readonly { readonly sessionId: string; readonly seq: number }[]
}

/** The counts of objects that a repair copied, and a list of lost or changed objects. */
export interface RepairReport {
  /** Everything that was lost or changed. */
  readonly dropped: readonly Dropped[]
  /** Number of copied sessions. */
  readonly sessions: number
  /** Number of copied sessions whose history changed. */
  readonly rebuiltSessions: number
  /** Number of copied events. */
  readonly events: number
  /** Number of copied tree nodes. A node is a directory, or part of one. */
  readonly nodes: number
  /** Number of copied blobs. A blob is a content, or a block of a larger one. */
  readonly blobs: number
}

/**
 * Copies the remains of a store to an empty one, so that the copy is complete. References to lost objects are
 * removed, or the objects that have them are left out. Both are reported. `from` may lack any data, even
 * events in the middle of a history, but its remaining data must be as it was written.
 */
export async function repairStore(
  from: Store,
  to: Store,
  environment: Environment,
  options: RepairOptions = {},
): Promise<RepairReport> {
  return new Repair(from, to, environment, options).run()
}

/** The prefixes of nodes, blobs and the histories of sessions, which are copied before the other records. */
const carriedBefore: readonly string[] = [
  keyPrefixes.node,
  keyPrefixes.blob,
  keyPrefixes.event,
  keyPrefixes.session,
  keyPrefixes.snapshot,
  keyPrefixes.checkpoint,
]

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
  /** Sessions that have records or events, but no record of their own. */
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
    const roots = new StoredRoots(this.#to, { environment: this.#environment, nodes })
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
    for (const sessionId of this.#options.sessionsWithEvents ?? []) {
      if (!sessions.knows(sessionId)) this.#orphans.add(sessionId)
      await this.#rest(sessions.events)
    }
    for (const sessionId of this.#orphans)
      this.#drop({
        object: `session ${sessionId}`,
        sessionId,
        message: 'its record is lost, and the whole session with it',
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
        // The objects that refer to the blob report it.
        if (content === undefined || content.byteLength !== bytes || sha256(content) !== hash) continue
        this.#sizes.add(hash)?.writeDoubleLE(bytes)
        await this.#writer.blob(hash, content)
        await this.#rest(0)
      }
      if (page.length < limits.recordsPerScan) return
      after = itemAt(page, -1).hash
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

  /** Copies all records except those of the histories of sessions. */
  async #copyRecords(
    sessions: SessionRepair,
    isWhole: (root: EncodedNode) => Promise<boolean>,
  ): Promise<void> {
    const later: (readonly [key: string, json: string])[] = []
    for (const prefix of await this.#prefixes()) {
      if (carriedBefore.includes(prefix)) continue
      for await (const page of scanAll({ store: this.#from }, prefix)) {
        for (const [key, json] of page) {
          const kind = kindOf(key)
          this.#records++
          await this.#rest(0)
          // These depend on which revisions are kept, which is known after this loop.
          if (kind === revisionLabelKind || kind === sourceKind) later.push([key, json])
          else if (kind === undefined || (await this.#isKept(kind, key, json, sessions, isWhole)))
            await this.#writer.put(key, json)
        }
      }
    }
    for (const [key, json] of later) {
      const record = sourceKind.isKey(key) ? await this.#source(key, json) : await this.#label(key, json)
      if (record !== undefined) await this.#writer.put(key, record)
    }
  }

  /** The first letters of all keys in the store. Records of an unknown kind are copied unchanged. */
  async #prefixes(): Promise<string[]> {
    const prefixes: string[] = []
    for (let gte = ''; ;) {
      const [found] = await this.#from.scan({ gte, lt: '\u{10ffff}', limit: 1 })
      if (found === undefined) return prefixes
      const [prefix] = found[0] as unknown as [string]
      prefixes.push(prefix)
      gte = prefixEnd(prefix)
    }
  }

  async #isKept(
    kind: AnyRecordKind,
    key: string,
    json: string,
    sessions: SessionRepair,
    isWhole: (root: EncodedNode) => Promise<boolean>,
  ): Promise<boolean> {
    const sessionId = kind.scope === 'session' ? key.slice(1, 1 + idLength) : undefined
    const session = sessionId === undefined ? undefined : await sessions.repaired(sessionId)
    if (sessionId !== undefined && session === undefined) {
      // The session is deleted or incomplete, so there is nothing to repair.
      if (!sessions.knows(sessionId)) this.#orphans.add(sessionId)
      return false
    }
    // The engine can rebuild the record from events or the remote. After a loss, the record may be wrong.
    if (kind.isDerived && session?.kept !== true) return false
    const drop = (message: string): false => {
      const id = idOf(key, kind)
      if (kind === revisionKind) this.#droppedRevisions.add(key)
      this.#drop({ object: `${kind.name} ${id}`, ...(sessionId !== undefined && { sessionId }), message })
      return false
    }
    const roots: EncodedNode[] = []
    const blobs: (readonly [hash: string, length: number])[] = []
    try {
      kind.readReferences(json, key, {
        root: (root) => roots.push(root),
        blob: (hash, length) => blobs.push([hash, length]),
        record: () => undefined,
      })
    } catch (error) {
      this.#drop({
        object: `record ${key}`,
        ...(sessionId !== undefined && { sessionId }),
        message: messageOf(error),
      })
      return false
    }
    if (session?.kept === false && kind === healthReportKind) {
      const seq = decodeSeq(key.slice(1 + idLength))
      if (seq > session.last) return drop('its event is lost')
    }
    for (const root of roots) if (!(await isWhole(root))) return drop('parts of its tree are lost')
    if (!blobs.every(([hash, length]) => this.#hasBlob(hash, length))) return drop('its content is lost')
    return true
  }

  /** The record of a revision's label; undefined if the revision is lost. */
  async #label(key: string, json: string): Promise<string | undefined> {
    let revision = ''
    try {
      revisionLabelKind.readReferences(json, key, {
        root: () => undefined,
        blob: () => undefined,
        record: (other) => {
          revision = other
        },
      })
    } catch (error) {
      this.#drop({ object: `record ${key}`, message: messageOf(error) })
      return undefined
    }
    if (await this.#hasRevision(revision)) return json
    this.#drop({ object: `revision label ${idOf(key, revisionLabelKind)}`, message: 'its revision is lost' })
    return undefined
  }

  /** The record of a source. If its latest revision is lost, it has none. */
  async #source(key: string, json: string): Promise<string | undefined> {
    let record: SourceRecord
    try {
      record = sourceKind.parse(json, key)
    } catch (error) {
      this.#drop({ object: `record ${key}`, message: messageOf(error) })
      return undefined
    }
    const { latestRevisionId, scannedRevisionId, ...source } = record
    const tenantKey = keys.tenantOfSource(key)
    const isThere = async (revisionId: string | undefined): Promise<boolean> =>
      revisionId === undefined ||
      revisionId === '' ||
      this.#hasRevision(keys.revision(tenantKey, record.sourceId, revisionId))
    const [latest, scanned] = [await isThere(latestRevisionId), await isThere(scannedRevisionId)]
    if (latest && scanned) return json
    if (!latest) this.#drop({ object: `source ${record.sourceId}`, message: 'its latest revision is lost' })
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

/** The newest event of each session. */
function newestOf(
  events: readonly { readonly sessionId: string; readonly seq: number }[],
): Map<string, number> {
  const newest = new Map<string, number>()
  for (const { sessionId, seq } of events) newest.set(sessionId, Math.max(seq, newest.get(sessionId) ?? 0))
  return newest
}

/** The id that distinguishes a record from others of its kind in the same place. */
function idOf(key: string, kind: AnyRecordKind): string {
  const owner = kind.scope === 'session' ? idLength : tenantKeyLength
  const rest = key.slice(1 + owner)
  if (kind === healthReportKind) return String(decodeSeq(rest))
  if (kind === revisionKind) return rest.slice(idLength)
  return kind === cacheEntryKind || kind === revisionLabelKind ? rest.slice(rest.search(/[:=]/) + 1) : rest
}
