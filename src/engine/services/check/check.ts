import { checkSignal } from '../../base/abort.js'
import type { Environment } from '../../base/environment.js'
import { invalid, messageOf } from '../../base/errors.js'
import { Shape } from '../../base/shape.js'
import { TimeSlice } from '../../base/slices.js'
import { chainStart, expectedLink } from '../../session/history/chain.js'
import type { EventBody, Redo } from '../../session/events.js'
import { scanAll } from '../../storage/scan-all.js'
import {
  parseSession,
  type Baseline,
  type CheckpointRecord,
  type SessionRecord,
  type SnapshotRecord,
} from '../../session/records.js'
import { keys } from '../../storage/keys.js'
import type { Store } from '../../storage/store.js'
import { CheckedBlobs } from './blobs.js'
import { Findings, type Finding } from './findings.js'
import { CheckedTrees } from './trees.js'

export interface CheckOptions {
  /** true: every content is read and compared with its hash; by default it only has to be there. */
  readonly readData?: boolean
  readonly signal?: AbortSignal
  /** Told now and then how many objects were looked at. */
  readonly onProgress?: (looked: number) => void
}

/** What a check saw. */
export interface CheckReport {
  /** The first 1,000. */
  readonly findings: readonly Finding[]
  /** All of them; 0: the store is whole. */
  readonly found: number
  readonly sessions: number
  readonly events: number
  readonly nodes: number
  readonly blobs: number
  /** Of contents that were read. */
  readonly readBytes: number
}

const optionsShape = new Shape<CheckOptions>({ readData: true, signal: true, onProgress: true })

export function parseCheck(options: CheckOptions): CheckOptions {
  const copy = optionsShape.read(options, 'options')
  const { readData, signal, onProgress } = copy
  checkSignal(signal)
  if (readData !== undefined && typeof readData !== 'boolean') throw invalid('readData', 'must be a boolean')
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalid('onProgress', 'must be a function')
  return copy
}

/**
 * Looks through a store, reading only: whether all that records, events and trees lead to is there, whether events
 * are the ones that were linked, and whether nodes, and on request contents, are what they are named by. It may be
 * written to meanwhile, but nothing may be collected.
 */
export async function checkStore(
  store: Store,
  environment: Environment,
  options: CheckOptions,
): Promise<CheckReport> {
  const check = new Check(store, environment, options)
  if (store.capabilities.durable) await check.run()
  return check.report()
}

class Check {
  readonly #store: Store
  readonly #options: CheckOptions
  readonly #slice: TimeSlice
  readonly #findings = new Findings()
  readonly #blobs: CheckedBlobs
  readonly #trees: CheckedTrees
  /** Forks without a snapshot of which the first state was looked for. */
  readonly #started = new Set<string>()
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
    for (const prefix of [keys.allRevisions(), keys.allGitTrees()]) {
      await this.#eachRecord(prefix, (_, json) => {
        const record = JSON.parse(json) as Partial<Baseline>
        // Labels stand among the revisions.
        return record.root === undefined ? undefined : this.#baseline(record as Baseline)
      })
    }
    await this.#eachRecord(keys.allHostEntries(), async (key, json) => {
      if (!keys.isCheckout(key)) return
      const { trees } = JSON.parse(json) as { readonly trees: readonly Baseline['root'][] }
      for (const root of trees) await this.#trees.root(root)
    })
    await this.#eachRecord(keys.allGitObjects(), async (_, json) => {
      const object = JSON.parse(json) as { hash?: string; blobs?: readonly (readonly [string, number])[] }
      if (object.hash !== undefined) await this.#blobs.uses(object.hash, 0, {})
      for (const [hash, length] of object.blobs ?? []) await this.#blobs.uses(hash, length, {})
    })
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

  async #session(key: string, json: string): Promise<void> {
    const record = parseSession(json)
    const { id, createdAt, deletedAt } = record
    this.#sessions++
    // One that was deleted when it was made is on its way, or came to nothing.
    if (deletedAt === createdAt) return
    await this.#baseline(record.baseline, id)
    // Read before the events, which are stored with or before what names them.
    const snapshots: SnapshotRecord[] = []
    await this.#eachRecord(
      keys.snapshots(id),
      (_, text) => void snapshots.push(JSON.parse(text) as SnapshotRecord),
      id,
    )
    const checkpoints: CheckpointRecord[] = []
    await this.#eachRecord(
      keys.checkpoints(id),
      (_, text) => void checkpoints.push(JSON.parse(text) as CheckpointRecord),
      id,
    )
    for (const { root } of snapshots) await this.#trees.root(root, id)
    const last = await this.#history(record, snapshots)
    for (const { id: checkpointId, seq } of checkpoints) {
      if (seq > last)
        this.#tell(
          'damaged',
          `record ${keys.checkpoint(id, checkpointId)}`,
          'names an event that is not there',
          id,
        )
    }
    const oldest = checkpoints.reduce((least, { seq }) => Math.min(least, seq), last)
    // Of a deleted session nobody can name a state, and what it was forked from may be collected before it is.
    if (deletedAt === undefined && (snapshots[0] === undefined || snapshots[0].seq > oldest))
      await this.#base(keys.tenantOfSession(key), record)
    await this.#eachRecord(
      keys.cacheEntries(id),
      async (_, text) => {
        const { value } = JSON.parse(text) as { value: string | readonly (readonly [string, number])[] }
        if (typeof value !== 'string')
          for (const [hash, length] of value) await this.#blobs.uses(hash, length, { sessionId: id })
      },
      id,
    )
  }

  /** The newest event; each must follow the one before it, and what it did must be there where replay needs it. */
  async #history({ id }: SessionRecord, snapshots: readonly SnapshotRecord[]): Promise<number> {
    const newest = snapshots.at(-1)?.seq ?? 0
    const pruned = snapshots.findLast((snapshot) => snapshot.pruned)?.seq ?? 0
    let previous = chainStart
    let last = 0
    try {
      for await (const page of this.#store.events(id, { from: 1, to: Number.POSITIVE_INFINITY })) {
        for (const { seq, body } of page) {
          const event = body as unknown as EventBody
          if (seq !== last + 1) this.#tell('missing', `event ${last + 1}`, 'is not there', id)
          else if (event[4] !== expectedLink(event, previous))
            this.#tell('damaged', `event ${seq}`, 'is not the one that was linked', id)
          previous = event[4] ?? previous
          last = seq
          this.#events++
          if (seq > pruned && typeof event[5] === 'object') await this.#redo(event[5], id)
        }
        await this.#rest()
      }
    } catch (error) {
      this.#tell('damaged', `event ${last + 1}`, messageOf(error), id)
    }
    if (last < newest)
      this.#tell('missing', `event ${last + 1}`, 'is not there, and a snapshot stands behind it', id)
    return last
  }

  async #redo(effects: readonly Redo[], sessionId: string): Promise<void> {
    for (const effect of effects) {
      const path = typeof effect[1] === 'string' ? { path: effect[1] } : {}
      const use = async (blob: unknown): Promise<void> => {
        if (Array.isArray(blob))
          await this.#blobs.uses(blob[0] as string, blob[1] as number, { sessionId, ...path })
      }
      if (effect[0] === 'w') await use(effect[4])
      else if (effect[0] === 'o') await use(effect[2])
      else if (effect[0] === 'x') await use(effect[3])
      else if (effect[0] === 'p') for (const [, , blob] of effect[3]) await use(blob)
    }
  }

  /** Whether the state that a fork started from is still there, in the sessions that it goes back to. */
  async #base(tenantKey: string, { id, base }: SessionRecord): Promise<void> {
    let session = id
    for (let at = base; at !== undefined && !this.#started.has(session);) {
      this.#started.add(session)
      const [parent, seq] = at
      const of = `of session ${parent}, from which this one was forked`
      const last = await this.#store.lastEvent(parent).catch(() => undefined)
      if ((last?.seq ?? 0) < seq) return this.#tell('missing', `event ${seq}`, of, id)
      const range = { gte: keys.snapshots(parent), lt: keys.snapshot(parent, seq + 1) }
      const [newest] = await this.#store.scan({ ...range, limit: 1, reverse: true })
      const from = newest === undefined ? 0 : (JSON.parse(newest[1]) as SnapshotRecord).seq
      for await (const page of this.#store.events(parent, { from: from + 1, to: seq })) {
        const gone = page.find(({ body }) => typeof (body as unknown as EventBody)[5] === 'string')
        if (gone !== undefined) return this.#tell('missing', `what event ${gone.seq} did`, of, id)
        await this.#rest()
      }
      const json = newest === undefined ? await this.#store.get(keys.session(tenantKey, parent)) : undefined
      session = parent
      at = json === undefined ? undefined : parseSession(json).base
    }
  }

  async #baseline({ root, revision }: Baseline, sessionId?: string): Promise<void> {
    await this.#trees.root(root, sessionId)
    if (revision?.git?.root !== undefined) await this.#trees.root(revision.git.root, sessionId)
  }

  /** What cannot be read as what it should be is a finding. */
  async #eachRecord(
    prefix: string,
    look: (key: string, json: string) => Promise<void> | undefined | void,
    sessionId?: string,
  ): Promise<void> {
    for await (const page of scanAll({ store: this.#store }, prefix)) {
      for (const [key, json] of page) {
        try {
          await look(key, json)
        } catch (error) {
          this.#options.signal?.throwIfAborted()
          this.#tell('damaged', `record ${key}`, messageOf(error), sessionId)
        }
        await this.#rest()
      }
    }
  }

  #tell(problem: Finding['problem'], object: string, message: string, sessionId?: string): void {
    this.#findings.add({ problem, object, message, ...(sessionId !== undefined && { sessionId }) })
  }

  async #rest(): Promise<void> {
    if (!this.#slice.over) return
    this.#options.signal?.throwIfAborted()
    this.#options.onProgress?.(this.#sessions + this.#events + this.#trees.count + this.#blobs.count)
    await this.#slice.next()
  }
}
