import { parseFlag, parseFunction } from '../../base/input.js'
import { checkSignal } from '../../base/abort.js'
import type { Environment } from '../../base/environment.js'
import { messageOf } from '../../base/errors.js'
import { Shape } from '../../base/shape.js'
import { TimeSlice } from '../../base/cooperative.js'
import { chainStart, expectedLink } from '../../session/history/chain.js'
import { contentsOf, type EventBody, type Redo } from '../../records/event.js'
import { scanAll } from '../../storage/scan-all.js'
import { snapshotKind, type SnapshotRecord } from '../../records/snapshot.js'
import { checkpointKind } from '../../records/checkpoint.js'
import { sessionKind, type SessionRecord } from '../../records/session.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import type { Store } from '../../storage/store.js'
import { CheckedBlobs } from './blobs.js'
import { Findings, type Finding } from './findings.js'
import { CheckedTrees } from './trees.js'
import { kindOf, recordKinds } from '../../records/index.js'
import type { RecordKind } from '../../records/record-kind.js'
import type { EncodedNode } from '../../tree/encoded.js'
import { idLength } from '../../base/ids.js'

/** Options of `engine.check`. */
export interface CheckOptions {
  /** Reads every content and compares it with its hash. By default, the check only tests that contents exist. */
  readonly readData?: boolean
  /** Ends the check with the signal's reason. */
  readonly signal?: AbortSignal
  /** Called now and then with the number of objects checked so far. */
  readonly onProgress?: (looked: number) => void
}

/** The result of a check. */
export interface CheckReport {
  /** The first 1,000 problems. */
  readonly findings: readonly Finding[]
  /** Number of all problems; 0 means that the store is complete and undamaged. */
  readonly found: number
  /** Number of checked sessions, including deleted ones whose records are still stored. */
  readonly sessions: number
  /** Number of checked events. */
  readonly events: number
  /** Number of checked tree nodes. A node is a directory, or part of one. */
  readonly nodes: number
  /** Number of checked blobs. A blob is a content, or a block of a larger one. */
  readonly blobs: number
  /** Bytes of contents that the check read; 0 without `readData`. */
  readonly readBytes: number
}

const optionsShape = new Shape<CheckOptions>({ readData: true, signal: true, onProgress: true })

export function parseCheck(options: CheckOptions): CheckOptions {
  const copy = optionsShape.read(options, 'options')
  const { readData, signal, onProgress } = copy
  checkSignal(signal)
  parseFlag('readData', readData, false)
  parseFunction('onProgress', onProgress)
  return copy
}

/**
 * Checks a store without changing it. It checks that every object referenced by records, events and trees exists, that the
 * hash chain links all events, and that nodes, and optionally contents, match their hashes. Writes may run concurrently,
 * but no collection.
 */
export async function checkStore(
  store: Store,
  environment: Environment,
  options: CheckOptions,
): Promise<CheckReport> {
  const check = new Check(store, environment, options)
  await check.run()
  return check.report()
}

/** The report for a store that keeps nothing. */
export const nothingToCheck: CheckReport = {
  findings: [],
  found: 0,
  sessions: 0,
  events: 0,
  nodes: 0,
  blobs: 0,
  readBytes: 0,
}

class Check {
  readonly #store: Store
  readonly #options: CheckOptions
  readonly #slice: TimeSlice
  readonly #findings = new Findings()
  readonly #blobs: CheckedBlobs
  readonly #trees: CheckedTrees
  /** Forks without a snapshot whose first state was checked. */
  readonly #started = new Set<string>()
  /** Sessions that are being imported. */
  readonly #arriving = new Set<string>()
  #sessions = 0
  #events = 0

  constructor(store: Store, environment: Environment, options: CheckOptions) {
    this.#store = store
    this.#options = options
    this.#slice = new TimeSlice(environment)
    const rest = (): Promise<void> => this.#rest()
    this.#blobs = new CheckedBlobs(store, this.#findings)
    this.#trees = new CheckedTrees(store, this.#findings, this.#blobs, rest)
  }

  async run(): Promise<void> {
    const { signal } = this.#options
    signal?.throwIfAborted()
    for await (const finding of this.#store.check?.({ signal }) ?? []) this.#findings.add(finding)
    await this.#blobs.look(this.#options.readData === true, () => this.#rest())
    await this.#eachRecord(keys.allSessions(), (key, json) => this.#session(key, json))
    for (const prefix of new Set(recordKinds.map((kind) => kind.prefix)))
      await this.#eachRecord(prefix, (key, json) => this.#record(key, json))
    this.#blobs.finish()
  }

  report(): CheckReport {
    return {
      findings: this.#findings.list,
      found: this.#findings.count,
      sessions: this.#sessions,
      events: this.#events,
      nodes: this.#trees.count,
      blobs: this.#blobs.count,
      readBytes: this.#blobs.bytes,
    }
  }

  /** Checks that a record is a valid one of its kind, and that everything it refers to exists. */
  async #record(key: string, json: string): Promise<void> {
    const kind = kindOf(key)
    if (kind === undefined) return
    const sessionId =
      kind === sessionKind
        ? key.slice(-idLength)
        : kind.scope === 'session'
          ? key.slice(1, 1 + idLength)
          : undefined
    if (sessionId !== undefined && this.#arriving.has(sessionId)) return
    const place = sessionId === undefined ? {} : { sessionId }
    const roots: EncodedNode[] = []
    const blobs: (readonly [hash: string, length: number])[] = []
    const records: string[] = []
    kind.readReferences(json, key, {
      root: (root) => roots.push(root),
      blob: (hash, length) => blobs.push([hash, length]),
      record: (other) => records.push(other),
    })
    for (const root of roots) await this.#trees.root(root, sessionId)
    for (const [hash, length] of blobs) await this.#blobs.uses(hash, length, place)
    for (const other of records) {
      if ((await this.#store.get(other)) === undefined)
        this.#report(
          'missing',
          `record ${other}`,
          `is not in the store, but the record ${key} refers to it`,
          sessionId,
        )
    }
  }

  async #session(key: string, json: string): Promise<void> {
    let record: SessionRecord
    try {
      record = sessionKind.parse(json, key)
    } catch {
      // The pass over all records reports the damage.
      return
    }
    const { id, createdAt, deletedAt } = record
    this.#sessions++
    if (deletedAt === createdAt) {
      // Equal times mark a session whose import is running or has failed.
      this.#arriving.add(id)
      return
    }
    // These are read before the events, because the events that they refer to were stored earlier or in the
    // same commit.
    const snapshots = await this.#whole(snapshotKind, keys.snapshots(id))
    const checkpoints = await this.#whole(checkpointKind, keys.checkpoints(id))
    const last = await this.#history(record, snapshots)
    for (const { id: checkpointId, seq } of checkpoints) {
      if (seq > last)
        this.#report(
          'damaged',
          `record ${keys.checkpoint(id, checkpointId)}`,
          'refers to an event that is not in the store',
          id,
        )
    }
    const oldest = checkpoints.reduce((least, { seq }) => Math.min(least, seq), last)
    // No caller can refer to a state of a deleted session, and its base may be collected before the session
    // itself.
    if (deletedAt === undefined && (snapshots[0] === undefined || snapshots[0].seq > oldest))
      await this.#base(keys.tenantOfSession(key), record)
  }

  /** The intact records below a prefix. The pass over all records reports the others. */
  async #whole<R>(kind: RecordKind<R>, prefix: string): Promise<R[]> {
    const records: R[] = []
    for await (const page of scanAll({ store: this.#store }, prefix)) {
      for (const [key, json] of page) {
        try {
          records.push(kind.parse(json, key))
        } catch {
          // The pass over all records reports this one.
        }
      }
      await this.#rest()
    }
    return records
  }

  /**
   * The seq of the newest event. Checks that the events are linked, and that their redo exists where replay
   * needs it.
   */
  async #history({ id }: SessionRecord, snapshots: readonly SnapshotRecord[]): Promise<number> {
    const newest = snapshots.at(-1)?.seq ?? 0
    const pruned = snapshots.findLast((snapshot) => snapshot.pruned)?.seq ?? 0
    let previous = chainStart
    let last = 0
    try {
      // Events that are added meanwhile do not prolong the check.
      const newestEvent = await this.#store.lastEvent(id).catch(() => undefined)
      const to = newestEvent?.seq ?? Number.POSITIVE_INFINITY
      for await (const page of this.#store.events(id, { from: 1, to })) {
        for (const { seq, body } of page) {
          const event = body as unknown as EventBody
          if (seq !== last + 1) this.#report('missing', `event ${last + 1}`, 'is not in the store', id)
          else if (event[4] !== (await expectedLink(event, previous)))
            this.#report('damaged', `event ${seq}`, 'does not match its hash in the chain of events', id)
          previous = event[4] ?? previous
          last = seq
          this.#events++
          if (seq > pruned && typeof event[5] === 'object') await this.#redo(event[5], id)
        }
        await this.#rest()
      }
    } catch (error) {
      this.#report('damaged', `event ${last + 1}`, messageOf(error), id)
    }
    if (last < newest)
      this.#report('missing', `event ${last + 1}`, 'is not in the store, but a later snapshot is', id)
    return last
  }

  async #redo(effects: readonly Redo[], sessionId: string): Promise<void> {
    for (const [hash, length, path] of contentsOf(effects))
      await this.#blobs.uses(hash, length, { sessionId, ...(path !== undefined && { path }) })
  }

  /** Checks that the state from which a fork starts still exists, in the sessions that it was forked from. */
  async #base(tenantKey: string, { id, base }: SessionRecord): Promise<void> {
    let session = id
    for (let at = base; at !== undefined && !this.#started.has(session);) {
      this.#started.add(session)
      const [parent, seq] = at
      const place = `it belongs to session ${parent}, which this session was forked from`
      const last = await this.#store.lastEvent(parent).catch(() => undefined)
      if ((last?.seq ?? 0) < seq)
        return this.#report('missing', `event ${seq}`, `is not in the store; ${place}`, id)
      const { gone, hasSnapshot } = await this.#replayed(parent, seq)
      if (gone !== undefined)
        return this.#report('missing', `event ${gone}`, `its changes are not in the store; ${place}`, id)
      const json = hasSnapshot ? undefined : await this.#store.get(keys.session(tenantKey, parent))
      session = parent
      at = json === undefined ? undefined : sessionKind.parse(json).base
    }
  }

  /**
   * Follows the replay of a state back, from restores to their targets. Returns the newest event that it needs and whose
   * changes are gone, and whether it starts from a snapshot.
   */
  async #replayed(
    sessionId: string,
    seq: number,
  ): Promise<{ readonly gone?: number; readonly hasSnapshot: boolean }> {
    for (let wanted = seq; ;) {
      const range = { gte: keys.snapshots(sessionId), lt: keys.snapshot(sessionId, wanted + 1) }
      const [newest] = await this.#store.scan({ ...range, limit: 1, reverse: true })
      const hasSnapshot = newest !== undefined
      const from = hasSnapshot ? snapshotKind.parse(newest[1]).seq : 0
      /** Events without changes in the store, and the targets of restores. */
      const gone = new Set<number>()
      const targets = new Map<number, number>()
      for await (const page of this.#store.events(sessionId, { from: from + 1, to: wanted })) {
        for (const event of page) {
          const redo = (event.body as unknown as EventBody)[5]
          if (typeof redo === 'string') gone.add(event.seq)
          else if (redo?.[0]?.[0] === 'R' && redo[0][1] < event.seq) targets.set(event.seq, redo[0][1])
        }
        await this.#rest()
      }
      let at = wanted
      while (at > from) {
        if (gone.has(at)) return { gone: at, hasSnapshot }
        at = targets.get(at) ?? at - 1
      }
      if (at === from) return { hasSnapshot }
      wanted = at
    }
  }

  /** Calls `look` with each record below a prefix. An error is reported as a finding about the record. */
  async #eachRecord(prefix: string, look: (key: string, json: string) => Promise<void>): Promise<void> {
    // The keys of most kinds grow with time, so records that are added meanwhile do not prolong the check.
    const [newest] = await this.#store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: 1, reverse: true })
    if (newest === undefined) return
    for await (const page of scanAll({ store: this.#store }, prefix, { before: `${newest[0]}\0` })) {
      for (const [key, json] of page) {
        try {
          await look(key, json)
        } catch (error) {
          this.#options.signal?.throwIfAborted()
          this.#report('damaged', `record ${key}`, messageOf(error))
        }
        await this.#rest()
      }
    }
  }

  #report(problem: Finding['problem'], object: string, message: string, sessionId?: string): void {
    this.#findings.add({ problem, object, message, ...(sessionId !== undefined && { sessionId }) })
  }

  async #rest(): Promise<void> {
    if (!this.#slice.over) return
    this.#options.signal?.throwIfAborted()
    this.#options.onProgress?.(this.#sessions + this.#events + this.#trees.count + this.#blobs.count)
    await this.#slice.next()
  }
}
