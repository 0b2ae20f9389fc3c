import { idLength } from '../../base/ids.js'
import { scanAll } from '../../storage/scan-all.js'
import { sessionKind, type SessionRecord } from '../../records/session.js'
import { keys } from '../../storage/keys.js'
import { BaselineRepair } from './baselines.js'
import type { RepairContext } from './context.js'
import { readFacts, type SessionFacts } from './facts.js'
import { reachOf } from './history.js'
import { SessionRebuild } from './rebuild.js'
import { SessionStates } from './states.js'
import type { LostPath } from './tree.js'

/** The result of repairing a session. */
export interface RepairedSession {
  /** Whether everything is unchanged, except for records outside its history. */
  readonly kept: boolean
  /** Its newest unchanged event. */
  readonly last: number
  /** Changed states that others may build on. */
  readonly changed: ReadonlySet<number>
}

/** Copies sessions with the remains of their histories. */
export class SessionRepair {
  readonly #context: RepairContext
  readonly #sessions = new Map<string, { readonly key: string; readonly record: SessionRecord }>()
  /** Sessions with an intact record, including deleted and incomplete ones. */
  readonly #known = new Set<string>()
  /** For each session, the events that its forks start from. */
  readonly #bases = new Map<string, Set<number>>()
  readonly #repaired = new Map<string, Promise<RepairedSession>>()
  readonly #baselines: BaselineRepair
  readonly #states: SessionStates
  rebuilt = 0
  events = 0

  constructor(context: RepairContext) {
    this.#context = context
    this.#baselines = new BaselineRepair(context)
    this.#states = new SessionStates(context, (id) => this.#sessions.get(id)?.record)
  }

  get count(): number {
    return this.#repaired.size
  }

  async run(rest: () => Promise<void>): Promise<void> {
    const { from, drop } = this.#context
    for await (const page of scanAll({ store: from }, keys.allSessions())) {
      for (const [key, json] of page) {
        let record: SessionRecord
        try {
          record = sessionKind.parse(json)
        } catch {
          drop({ object: `session ${key.slice(-idLength)}`, message: 'its record is damaged' })
          continue
        }
        // A session that was deleted at the moment of its creation was never complete.
        this.#known.add(record.id)
        if (record.deletedAt !== record.createdAt) this.#sessions.set(record.id, { key, record })
        if (record.base !== undefined) this.#addBase(...record.base)
      }
    }
    for (const id of this.#sessions.keys()) {
      await this.repaired(id)
      await rest()
    }
  }

  /** Whether the session has an intact record. It may be deleted or incomplete. */
  knows(sessionId: string): boolean {
    return this.#known.has(sessionId)
  }

  /** Repairs a session; undefined if it does not exist. */
  repaired(sessionId: string): Promise<RepairedSession> | undefined {
    const session = this.#sessions.get(sessionId)
    if (session === undefined) return undefined
    let repaired = this.#repaired.get(sessionId)
    if (repaired === undefined)
      this.#repaired.set(sessionId, (repaired = this.#repair(session.key, session.record)))
    return repaired
  }

  #addBase(sessionId: string, seq: number): void {
    let bases = this.#bases.get(sessionId)
    if (bases === undefined) this.#bases.set(sessionId, (bases = new Set()))
    bases.add(seq)
  }

  async #repair(key: string, record: SessionRecord): Promise<RepairedSession> {
    const { writer, drop } = this.#context
    const { id } = record
    const [baseline, lostOfBaseline] = await this.#baselines.mended(record.baseline)
    const { start } = record
    const [mendedStart, lostOfStart] =
      start === undefined
        ? [undefined, lostOfBaseline]
        : await this.#baselines.mended({ fingerprint: '', root: start })
    if (mendedStart !== undefined)
      for (const lost of lostOfStart) drop({ object: 'start', sessionId: id, ...lost })
    if (record.collected === true) {
      // Its history was deleted, so nothing of it is lost.
      await writer.put(key, { ...record, baseline, ...(mendedStart && { start: mendedStart.root }) })
      return { kept: true, last: 0, changed: new Set() }
    }
    const facts = await readFacts(this.#context, id)
    const { last, newest, checkpoints, wholeSnapshots } = facts
    const bases = [...(this.#bases.get(id) ?? [])]
    const reach = reachOf({
      ...facts,
      snapshots: [...wholeSnapshots].sort((a, b) => a - b),
      referenced: [...checkpoints.map(({ seq }) => seq), ...bases],
    })
    const startsSame = !reach.fromStart || (await this.#startsSame(record, lostOfStart))
    const kept = reach.whole && startsSame && facts.lostBlobs.size === 0 && newest === last
    for (const snapshot of facts.snapshots) {
      if (!kept || wholeSnapshots.has(snapshot.seq)) continue
      drop({
        object: `snapshot ${snapshot.seq}`,
        sessionId: id,
        message: 'parts of it are lost; its state is rebuilt from events',
      })
    }
    let changed: ReadonlySet<number> = new Set()
    if (kept) await this.#copy(id, facts)
    else changed = await new SessionRebuild(this.#context, this.#states, record, facts).run(bases)
    await writer.put(key, {
      ...record,
      baseline,
      ...(mendedStart !== undefined && { start: mendedStart.root }),
    })
    this.events += last
    if (!kept) this.rebuilt++
    return { kept, last, changed }
  }

  async #startsSame({ base }: SessionRecord, lostOfStart: readonly LostPath[]): Promise<boolean> {
    if (base === undefined) return lostOfStart.length === 0
    const parent = await this.repaired(base[0])
    return parent !== undefined && base[1] <= parent.last && !parent.changed.has(base[1])
  }

  /** Copies a history unchanged, but without incomplete snapshots. */
  async #copy(sessionId: string, { snapshots, wholeSnapshots, checkpoints }: SessionFacts): Promise<void> {
    const { from, writer } = this.#context
    for await (const page of from.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY })) {
      for (const { seq, body } of page) await writer.event(sessionId, seq, body)
    }
    for (const snapshot of snapshots)
      if (wholeSnapshots.has(snapshot.seq)) await writer.put(keys.snapshot(sessionId, snapshot.seq), snapshot)
    for (const checkpoint of checkpoints)
      await writer.put(keys.checkpoint(sessionId, checkpoint.id), checkpoint)
  }
}
