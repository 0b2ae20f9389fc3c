import { idLength } from '../../base/ids.js'
import type { Environment } from '../../base/environment.js'
import { runInSlices, type TimeSlice } from '../../base/slices.js'
import { chainEvent, chainStart, expectedLink, redoHash } from '../../session/chain.js'
import { eventTypes, type EventBody, type Redo } from '../../session/events.js'
import { scanAll } from '../../session/histories.js'
import {
  parseSession,
  type Baseline,
  type CheckpointRecord,
  type SessionRecord,
  type SnapshotRecord,
} from '../../session/records.js'
import { keys } from '../../storage/keys.js'
import type { Store } from '../../storage/store.js'
import type { EncodedNode } from '../../tree/codec.js'
import type { ContentIds } from '../../tree/content-id.js'
import { hashTree } from '../../tree/hash.js'
import type { Dir } from '../../tree/node.js'
import type { RootStore } from '../../tree/roots.js'
import { whenLoaded } from '../../base/fault.js'
import { parsePath } from '../../base/path.js'
import { Tree } from '../../tree/tree.js'
import { reachOf } from './repair-history.js'
import { LooseReplay, type RawState, type ReplayContext } from './repair-replay.js'
import type { LostPath, TreeMender } from './repair-tree.js'
import type { RepairWriter } from './repair-writer.js'

/** Something that is not in the repaired store, or not as it was. */
export interface Dropped {
  /** What it is, with its id, key, label or hash behind it. */
  readonly object: string
  readonly sessionId?: string
  /** Where it was in that object. */
  readonly path?: string
  readonly message: string
}

export interface RepairContext {
  /** What is left. */
  readonly from: Store
  readonly writer: RepairWriter
  readonly mender: TreeMender
  readonly roots: RootStore
  readonly contentIds: ContentIds
  readonly replay: ReplayContext
  readonly environment: Environment
  readonly slice: TimeSlice
  readonly hasBlob: (hash: string, length: number) => boolean
  /** The newest event of a session that was there once. */
  readonly lostEvents: ReadonlyMap<string, number>
  readonly drop: (dropped: Dropped) => void
}

/** What became of a session. */
export interface RepairedSession {
  /** Everything is as it was, but for records beside its history. */
  readonly kept: boolean
  /** Its newest event that is as it was. */
  readonly last: number
  /** States that are not as they were, of those that others may rest on. */
  readonly changed: ReadonlySet<number>
}

/** A principal's name on the event that stands for lost ones. */
const repairPrincipal = 'repair'

interface Facts {
  readonly last: number
  /** What events and snapshots know of. */
  readonly newest: number
  readonly gaps: number[]
  readonly restores: [seq: number, target: number][]
  /** Hashes of contents that what events did needs, and that are lost. */
  readonly lostBlobs: Set<string>
  readonly snapshots: SnapshotRecord[]
  readonly wholeSnapshots: Set<number>
  readonly checkpoints: CheckpointRecord[]
}

/** Carries sessions over with all of their history that is left. */
export class SessionRepair {
  readonly #context: RepairContext
  readonly #sessions = new Map<string, { readonly key: string; readonly record: SessionRecord }>()
  /** Those that are gone too. */
  readonly #known = new Set<string>()
  /** By session, the events that forks of it start from. */
  readonly #bases = new Map<string, Set<number>>()
  readonly #repaired = new Map<string, Promise<RepairedSession>>()
  readonly #baselines = new Map<string, Promise<readonly [Baseline, readonly LostPath[]]>>()
  rebuilt = 0
  events = 0

  constructor(context: RepairContext) {
    this.#context = context
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
          record = parseSession(json)
        } catch {
          drop({ object: `session ${key.slice(-idLength)}`, message: 'its record is no record' })
          continue
        }
        // What was deleted when it was made never was whole.
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

  /** Whether there is a record of the session, if only that it was there. */
  knows(sessionId: string): boolean {
    return this.#known.has(sessionId)
  }

  /** Undefined for a session that is not there. */
  repaired(sessionId: string): Promise<RepairedSession> | undefined {
    const session = this.#sessions.get(sessionId)
    if (session === undefined) return undefined
    let repaired = this.#repaired.get(sessionId)
    if (repaired === undefined)
      this.#repaired.set(sessionId, (repaired = this.#repair(session.key, session.record)))
    return repaired
  }

  /** The baseline as far as it is left, and what it lost. */
  baseline(baseline: Baseline): Promise<readonly [Baseline, readonly LostPath[]]> {
    const key = JSON.stringify([baseline.root, baseline.revision?.git?.root])
    let mended = this.#baselines.get(key)
    if (mended === undefined) this.#baselines.set(key, (mended = this.#mendBaseline(baseline)))
    return mended.then(([{ fingerprint, root, revision }, lost]) => {
      const git = baseline.revision?.git
      if (lost.length === 0) return [baseline, lost]
      const { root: gitRoot } = revision?.git ?? {}
      return [
        {
          ...baseline,
          fingerprint,
          root,
          ...(git !== undefined && {
            revision: {
              ...baseline.revision!,
              git: {
                commitId: git.commitId,
                treeId: git.treeId,
                ...(gitRoot !== undefined && { root: gitRoot }),
              },
            },
          }),
        },
        lost,
      ]
    })
  }

  #addBase(sessionId: string, seq: number): void {
    let bases = this.#bases.get(sessionId)
    if (bases === undefined) this.#bases.set(sessionId, (bases = new Set()))
    bases.add(seq)
  }

  async #mendBaseline(baseline: Baseline): Promise<readonly [Baseline, readonly LostPath[]]> {
    const { mender, roots, contentIds, environment } = this.#context
    const { root, lost } = await mender.mend(roots.load(baseline.root))
    const gitRoot = baseline.revision?.git?.root
    const git = gitRoot && (await mender.mend(roots.load(gitRoot)))
    const allLost = [...lost, ...(git?.lost ?? [])]
    if (allLost.length === 0) return [baseline, allLost]
    const revision = baseline.revision && {
      ...baseline.revision,
      ...(git !== undefined && {
        git: { ...baseline.revision.git!, root: await roots.save(git.root) },
      }),
    }
    const saved = await roots.save(root)
    const fingerprint =
      lost.length === 0
        ? baseline.fingerprint
        : await runInSlices(hashTree(root, contentIds, mender.loader), environment)
    return [{ fingerprint, root: saved, ...(revision !== undefined && { revision }) }, allLost]
  }

  async #repair(key: string, record: SessionRecord): Promise<RepairedSession> {
    const { writer, drop } = this.#context
    const { id } = record
    const [baseline, lostOfBaseline] = await this.baseline(record.baseline)
    for (const lost of lostOfBaseline) drop({ object: 'baseline', sessionId: id, ...lost })
    const facts = await this.#facts(id)
    const { last, newest, checkpoints, wholeSnapshots } = facts
    const bases = [...(this.#bases.get(id) ?? [])]
    const reach = reachOf({
      ...facts,
      snapshots: [...wholeSnapshots].sort((a, b) => a - b),
      named: [...checkpoints.map(({ seq }) => seq), ...bases],
    })
    const startsSame = !reach.fromStart || (await this.#startsSame(record, lostOfBaseline))
    const kept = reach.whole && startsSame && facts.lostBlobs.size === 0 && newest === last
    for (const snapshot of facts.snapshots) {
      if (!kept || wholeSnapshots.has(snapshot.seq)) continue
      drop({
        object: `snapshot ${snapshot.seq}`,
        sessionId: id,
        message: 'what is in it is made again from events',
      })
    }
    const changed = kept ? new Set<number>() : await this.#rebuild(record, facts, bases)
    if (kept) await this.#copy(id, facts)
    await writer.put(key, { ...record, baseline })
    if (!kept) this.rebuilt++
    return { kept, last, changed }
  }

  async #startsSame({ base }: SessionRecord, lostOfBaseline: readonly LostPath[]): Promise<boolean> {
    if (base === undefined) return lostOfBaseline.length === 0
    const parent = await this.repaired(base[0])
    return parent !== undefined && base[1] <= parent.last && !parent.changed.has(base[1])
  }

  /** What is left of a session's history. */
  async #facts(sessionId: string): Promise<Facts> {
    const { from, mender, roots, hasBlob, lostEvents } = this.#context
    const snapshots = await this.#records<SnapshotRecord>(keys.snapshots(sessionId))
    const checkpoints = await this.#records<CheckpointRecord>(keys.checkpoints(sessionId))
    const wholeSnapshots = new Set<number>()
    for (const { seq, root } of snapshots)
      if ((await mender.mend(roots.load(root))).lost.length === 0) wholeSnapshots.add(seq)
    const pruned = snapshots.findLast((snapshot) => snapshot.pruned)?.seq ?? 0
    const gaps: number[] = []
    const restores: [number, number][] = []
    const lostBlobs = new Set<string>()
    let last = 0
    let newest = Math.max(snapshots.at(-1)?.seq ?? 0, lostEvents.get(sessionId) ?? 0)
    let link = chainStart
    for await (const page of from.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY })) {
      for (const { seq, body } of page) {
        const event = body as unknown as EventBody
        newest = Math.max(newest, seq)
        if (seq !== last + 1 || event[4] === undefined || event[4] !== expectedLink(event, link)) continue
        last = seq
        link = event[4]
        const redo = event[5]
        if (typeof redo === 'string') gaps.push(seq)
        else if (redo?.[0]?.[0] === 'R') restores.push([seq, redo[0][1]])
        else if (redo !== undefined && seq > pruned) {
          for (const [hash, length] of contentsOf(redo)) if (!hasBlob(hash, length)) lostBlobs.add(hash)
        }
      }
      if (this.#context.slice.over) await this.#context.slice.next()
    }
    return { last, newest, gaps, restores, lostBlobs, snapshots, wholeSnapshots, checkpoints }
  }

  async #records<T>(prefix: string): Promise<T[]> {
    const { from, drop } = this.#context
    const records: T[] = []
    for await (const page of scanAll({ store: from }, prefix)) {
      for (const [key, json] of page) {
        try {
          records.push(JSON.parse(json) as T)
        } catch {
          drop({ object: `record ${key}`, message: 'it is no record' })
        }
      }
    }
    return records
  }

  /** As it is, without snapshots that are not whole. */
  async #copy(sessionId: string, { snapshots, wholeSnapshots, checkpoints }: Facts): Promise<void> {
    const { from, writer } = this.#context
    for await (const page of from.events(sessionId, { from: 1, to: Number.POSITIVE_INFINITY })) {
      for (const { seq, body } of page) await writer.event(sessionId, seq, body)
      this.events += page.length
    }
    for (const snapshot of snapshots)
      if (wholeSnapshots.has(snapshot.seq)) await writer.put(keys.snapshot(sessionId, snapshot.seq), snapshot)
    for (const checkpoint of checkpoints)
      await writer.put(keys.checkpoint(sessionId, checkpoint.id), checkpoint)
  }

  /**
   * Every state that can be named as a snapshot of its own, and events without what they did: nothing is replayed.
   * Gives the states that are not as they were.
   */
  async #rebuild(record: SessionRecord, facts: Facts, bases: readonly number[]): Promise<Set<number>> {
    const { writer, roots, drop, environment } = this.#context
    const { id } = record
    const { last, newest, checkpoints } = facts
    const changed = new Set<number>()
    const checkpointSeqs = checkpoints.map(({ seq }) => seq)
    const wanted = new Set([last, newest, ...checkpointSeqs, ...bases])
    const states = await this.#states(record, wanted)
    for (const hash of facts.lostBlobs) {
      const message = 'what events did with it is not kept, and those before and behind them neither'
      drop({ object: `blob sha256:${hash}`, sessionId: id, message })
    }
    const behind = newest > last ? states.get(newest) : undefined
    const isSaved = behind !== undefined && behind.unknownFrom === undefined
    if (newest > last) {
      const range = newest === last + 1 ? `event ${newest}` : `events ${last + 1} to ${newest}`
      const message = isSaved ? 'lost, but for the newest state' : 'lost, and what they did'
      drop({ object: range, sessionId: id, message })
    }
    const named = new Set([...checkpointSeqs, ...bases].filter((seq) => seq <= last))
    if (!isSaved) named.add(last)
    const links = await this.#writeEvents(record, last, named)
    for (const seq of [...named].sort((a, b) => a - b)) {
      const state = states.get(seq)
      const [root, lost] = await this.#mended(state ?? (await this.#start(record)))
      const labels = checkpoints.filter((checkpoint) => checkpoint.seq === seq)
      const isNewest = seq === last && !isSaved
      if (lost.length > 0) changed.add(seq)
      if (isNewest) for (const path of lost) drop({ object: `session ${id}`, sessionId: id, ...path })
      const isKnown = state !== undefined && state.unknownFrom === undefined
      for (const checkpoint of labels) {
        const object = `checkpoint ${checkpoint.label === '' ? checkpoint.id : checkpoint.label}`
        if (!isKnown) {
          drop({ object, sessionId: id, message: 'its state is lost' })
          continue
        }
        if (!isNewest) for (const path of lost) drop({ object, sessionId: id, ...path })
        await writer.put(keys.checkpoint(id, checkpoint.id), checkpoint)
      }
      const snapshot: SnapshotRecord = { seq, ...links.get(seq)!, root: await roots.save(root) }
      await writer.put(keys.snapshot(id, seq), snapshot)
    }
    for (const checkpoint of checkpoints) {
      if (checkpoint.seq <= last) continue
      const object = `checkpoint ${checkpoint.label === '' ? checkpoint.id : checkpoint.label}`
      drop({ object, sessionId: id, message: 'its event is lost' })
    }
    if (!isSaved) return changed
    const [root, lost] = await this.#mended(behind)
    for (const path of lost) drop({ object: `session ${id}`, sessionId: id, ...path })
    const { at: before, chain } = links.get(last)!
    const at = Math.max(before, environment.wallClockMs())
    const details = { lostFrom: String(last + 1), lostTo: String(newest) }
    const { text, link } = chainEvent([at, eventTypes.repair, details, repairPrincipal], chain, [])
    await writer.event(id, last + 1, JSON.parse(text) as unknown[])
    const snapshot: SnapshotRecord = { seq: last + 1, at, chain: link, root: await roots.save(root) }
    await writer.put(keys.snapshot(id, last + 1), snapshot)
    return changed
  }

  /** Time and link of the events that are asked for, and of the last one. */
  async #writeEvents(
    { id, createdAt }: SessionRecord,
    last: number,
    wanted: ReadonlySet<number>,
  ): Promise<Map<number, Pick<SnapshotRecord, 'at' | 'chain'>>> {
    const { from, writer } = this.#context
    const links = new Map([[0, { at: createdAt, chain: chainStart }]])
    if (last === 0) return links
    for await (const page of from.events(id, { from: 1, to: last })) {
      for (const { seq, body } of page) {
        const [at, type, details, principal, link, redo] = body as unknown as EventBody
        await writer.event(id, seq, [at, type, details, principal, link, withoutContents(redo)])
        if (seq === last || wanted.has(seq)) links.set(seq, { at, chain: link! })
        this.events++
      }
    }
    return links
  }

  /** A state without what is lost of it, and all that it lost. */
  async #mended({ root, lost, unknownFrom }: RawState): Promise<readonly [Dir, readonly LostPath[]]> {
    const { mender } = this.#context
    const mended = await mender.mend(root)
    const tree = new Tree(mended.root, mender.loader)
    const all: LostPath[] = []
    for (const path of lost) if (!(await hasFile(tree, path.path))) all.push(path)
    if (unknownFrom !== undefined)
      all.push({ path: '/', message: `what events from ${unknownFrom} on did is not known` })
    return [mended.root, [...all, ...mended.lost]]
  }

  /** States of a session as far as they can be told, contents aside. */
  async #states(record: SessionRecord, wanted: ReadonlySet<number>): Promise<Map<number, RawState>> {
    const { from, mender, replay: context } = this.#context
    const snapshots = await this.#records<SnapshotRecord>(keys.snapshots(record.id))
    const targets = new Set<number>()
    const to = Math.max(...wanted)
    for await (const page of from.events(record.id, { from: 1, to }))
      for (const { body } of page)
        for (const target of restoresOf(body as unknown as EventBody)) targets.add(target)
    const states = new Map<number, RawState>()
    const replay = new LooseReplay(await this.#start(record), mender.loader, context)
    const keep = (seq: number): void => {
      if (wanted.has(seq) || targets.has(seq)) states.set(seq, replay.state)
    }
    const stored = new Map(snapshots.map(({ seq, root }) => [seq, root]))
    /** The state is that after event `seq`; a snapshot of it may know more. */
    const come = async (seq: number): Promise<void> => {
      const { unknownFrom, lost } = replay.state
      const root = stored.get(seq)
      if (root !== undefined && (unknownFrom !== undefined || lost.length > 0)) {
        const state = await this.#raw(root)
        if (state !== undefined && (unknownFrom !== undefined || state.lost.length < lost.length))
          replay.reset(state)
      }
      keep(seq)
    }
    let next = 1
    /** Events up to `last` are not there: what they did is unknown until a snapshot knows it. */
    const skip = async (last: number): Promise<void> => {
      const known = snapshots.map(({ seq }) => seq).filter((seq) => seq >= next && seq < last)
      for (const seq of [...known, last]) {
        replay.reset({ ...replay.state, unknownFrom: replay.state.unknownFrom ?? next })
        await come(seq)
        next = seq + 1
      }
    }
    await come(0)
    for await (const page of from.events(record.id, { from: 1, to })) {
      for (const { seq, body } of page) {
        if (seq > next) await skip(seq - 1)
        await replay.event(seq, body as unknown as EventBody, (target) => states.get(target))
        await come(seq)
        next = seq + 1
      }
      if (this.#context.slice.over) await this.#context.slice.next()
    }
    if (next <= to) await skip(to)
    return states
  }

  /** The state that a session started from. */
  async #start({ base, baseline }: SessionRecord): Promise<RawState> {
    const parent = base && this.#sessions.get(base[0])?.record
    if (parent !== undefined) {
      const seq = base![1]
      const state = (await this.#states(parent, new Set([seq]))).get(seq)
      if (state !== undefined) return state
    }
    const raw = await this.#raw(baseline.root)
    const start = raw ?? { ...(await this.#empty(baseline.root)), lost: [] }
    if (raw === undefined) return { ...start, lost: [{ path: '/', message: 'what it started from is lost' }] }
    if (base === undefined) return start
    return { ...start, unknownFrom: 0 }
  }

  /** A tree without what cannot be read; undefined when nothing can. */
  async #raw(encoded: EncodedNode): Promise<RawState | undefined> {
    const { mender, roots } = this.#context
    const { root, lost } = await mender.mend(roots.load(encoded), { keepFiles: true })
    if (lost.some(({ path }) => path === '/' && root.pages?.[0]?.names?.length === 0)) return undefined
    return { root, lost, unknownFrom: undefined }
  }

  async #empty(encoded: EncodedNode): Promise<RawState> {
    const { mender, roots } = this.#context
    const { root } = await mender.mend(roots.load(encoded), { keepFiles: true })
    return { root, lost: [], unknownFrom: undefined }
  }
}

/** What is shorter than its hash names no content. */
function withoutContents(redo: EventBody[5]): EventBody[5] {
  if (redo === undefined || typeof redo === 'string') return redo
  const hash = redoHash(redo)
  return JSON.stringify(redo).length <= hash.length + 2 ? redo : hash
}

function restoresOf([, , , , , redo]: EventBody): number[] {
  if (redo === undefined || typeof redo === 'string') return []
  return redo.flatMap((effect) => (effect[0] === 'R' ? [effect[1]] : []))
}

function* contentsOf(redo: readonly Redo[]): Generator<readonly [hash: string, length: number], void> {
  for (const effect of redo) {
    const contents: readonly unknown[] =
      effect[0] === 'w'
        ? [effect[4]]
        : effect[0] === 'o'
          ? [effect[2]]
          : effect[0] === 'x'
            ? [effect[3]]
            : effect[0] === 'p'
              ? effect[3].map(([, , blob]) => blob)
              : []
    for (const content of contents)
      if (Array.isArray(content)) yield content as unknown as readonly [string, number]
  }
}

/** Whether there is something again where it was lost, of which more is known than its name. */
async function hasFile(tree: Tree, path: string): Promise<boolean> {
  if (!path.startsWith('/') || path === '/') return false
  const node = await whenLoaded(() => tree.find(parsePath(path))).catch(() => undefined)
  return node !== undefined && !('pages' in node)
}
