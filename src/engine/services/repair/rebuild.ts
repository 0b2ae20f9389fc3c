import { present } from '../../base/present.js'
import { whenLoaded } from '../../base/fault.js'
import { parsePath } from '../../base/path.js'
import { chainEvent, chainStart, redoHash } from '../../session/history/chain.js'
import { eventTypes, type EventBody } from '../../records/event.js'
import type { SnapshotRecord } from '../../records/snapshot.js'
import type { CheckpointRecord } from '../../records/checkpoint.js'
import type { SessionRecord } from '../../records/session.js'
import { keys } from '../../storage/keys.js'
import type { Dir } from '../../tree/node.js'
import { Tree } from '../../tree/tree.js'
import type { Dropped, RepairContext } from './context.js'
import type { SessionFacts } from './facts.js'
import type { RawState } from './replay.js'
import type { SessionStates } from './states.js'
import type { LostPath } from './tree.js'

/** The principal of the event that replaces lost events. */
const repairPrincipal = 'repair'

/**
 * Rewrites a session that lost data. Each referenced state gets a snapshot of its own. Events lose
 * their redo, so that nothing is replayed.
 */
export class SessionRebuild {
  readonly #context: RepairContext
  readonly #states: SessionStates
  readonly #record: SessionRecord
  readonly #facts: SessionFacts
  /** States that changed because of lost data. */
  readonly #changed = new Set<number>()

  constructor(context: RepairContext, states: SessionStates, record: SessionRecord, facts: SessionFacts) {
    this.#context = context
    this.#states = states
    this.#record = record
    this.#facts = facts
  }

  /** Rewrites the session. `bases` are the states that forks start from. Returns the states that changed. */
  async run(bases: readonly number[]): Promise<ReadonlySet<number>> {
    const { last, newest, checkpoints } = this.#facts
    const checkpointSeqs = checkpoints.map(({ seq }) => seq)
    const wanted = new Set([last, newest, ...checkpointSeqs, ...bases])
    const states = await this.#states.at(this.#record, wanted)
    const afterGap = newest > last ? states.get(newest) : undefined
    const saved = afterGap?.unknownFrom === undefined ? afterGap : undefined
    this.#reportContents()
    this.#reportEvents(saved !== undefined)
    const referenced = new Set([...checkpointSeqs, ...bases].filter((seq) => seq <= last))
    if (saved === undefined) referenced.add(last)
    const places = await writeEvents(this.#context, this.#record, last, referenced)
    for (const seq of [...referenced].sort((a, b) => a - b))
      await this.#writeState(
        seq,
        states.get(seq),
        present(places.get(seq), 'the place of an event'),
        seq === last && saved === undefined,
      )
    for (const checkpoint of checkpoints)
      if (checkpoint.seq > last) this.#drop(nameOf(checkpoint), { message: 'its event is lost' })
    if (saved !== undefined)
      await this.#writeNewest(saved, present(places.get(last), 'the place of an event'))
    return this.#changed
  }

  #reportContents(): void {
    for (const hash of this.#facts.lostBlobs) {
      const message = 'it is lost; the session keeps its events, but not the changes that they made'
      this.#drop(`blob sha256:${hash}`, { message })
    }
  }

  #reportEvents(isNewestSaved: boolean): void {
    const { last, newest } = this.#facts
    if (newest === last) return
    const range = newest === last + 1 ? `event ${newest}` : `events ${last + 1} to ${newest}`
    const message = isNewestSaved ? 'lost; the newest state is kept' : 'lost, with their changes'
    this.#drop(range, { message })
  }

  /** Writes the state after an event, with its checkpoints. */
  async #writeState(
    seq: number,
    state: RawState | undefined,
    place: EventPlace,
    isNewest: boolean,
  ): Promise<void> {
    const { writer, roots } = this.#context
    const { id } = this.#record
    const [root, lost] = await mendState(this.#context, state ?? (await this.#states.start(this.#record)))
    if (lost.length > 0) this.#changed.add(seq)
    if (isNewest) this.#drop(`session ${id}`, ...lost)
    const isKnown = state !== undefined && state.unknownFrom === undefined
    for (const checkpoint of this.#facts.checkpoints) {
      if (checkpoint.seq !== seq) continue
      if (!isKnown) {
        this.#drop(nameOf(checkpoint), { message: 'its state is lost' })
        continue
      }
      if (!isNewest) this.#drop(nameOf(checkpoint), ...lost)
      await writer.put(keys.checkpoint(id, checkpoint.id), checkpoint)
    }
    const snapshot: SnapshotRecord = { seq, ...place, root: await roots.save(root) }
    await writer.put(keys.snapshot(id, seq), snapshot)
  }

  /** Writes the newest state, after an event that replaces the lost events. */
  async #writeNewest(state: RawState, { at: before, chain }: EventPlace): Promise<void> {
    const { writer, roots, environment } = this.#context
    const { id } = this.#record
    const { last, newest } = this.#facts
    const [root, lost] = await mendState(this.#context, state)
    this.#drop(`session ${id}`, ...lost)
    const at = Math.max(before, environment.wallClockMs())
    const details = { lostFrom: String(last + 1), lostTo: String(newest) }
    const { text, link } = chainEvent([at, eventTypes.repair, details, repairPrincipal], chain, [])
    await writer.event(id, last + 1, text)
    const snapshot: SnapshotRecord = { seq: last + 1, at, chain: link, root: await roots.save(root) }
    await writer.put(keys.snapshot(id, last + 1), snapshot)
  }

  #drop(object: string, ...all: readonly Omit<Dropped, 'object' | 'sessionId'>[]): void {
    for (const what of all) this.#context.drop({ object, sessionId: this.#record.id, ...what })
  }
}

/** The time and link of an event, for the snapshot of the state after it. */
type EventPlace = Pick<SnapshotRecord, 'at' | 'chain'>

function nameOf({ id, label }: CheckpointRecord): string {
  return `checkpoint ${label === '' ? id : label}`
}

/** Writes events without redo. Returns the places of the wanted events, and of the last one. */
async function writeEvents(
  { from, writer }: RepairContext,
  { id, createdAt }: SessionRecord,
  last: number,
  wanted: ReadonlySet<number>,
): Promise<Map<number, EventPlace>> {
  const places = new Map([[0, { at: createdAt, chain: chainStart }]])
  if (last === 0) return places
  for await (const page of from.events(id, { from: 1, to: last })) {
    for (const { seq, body } of page) {
      const [at, type, details, principal, link, redo] = body as unknown as EventBody
      await writer.event(id, seq, [at, type, details, principal, link, withoutContents(redo)])
      if (seq === last || wanted.has(seq))
        places.set(seq, { at, chain: present(link, 'the link of an event') })
    }
  }
  return places
}

/** The state without its lost parts, and a list of these parts. */
async function mendState(
  { mender }: RepairContext,
  { root, lost, unknownFrom }: RawState,
): Promise<readonly [Dir, readonly LostPath[]]> {
  const mended = await mender.mend(root)
  const tree = new Tree(mended.root, mender.loader)
  const all: LostPath[] = []
  for (const path of lost) if (!(await hasFile(tree, path.path))) all.push(path)
  if (unknownFrom !== undefined)
    all.push({ path: '/', message: `the changes of the events from ${unknownFrom} on are unknown` })
  return [mended.root, [...all, ...mended.lost]]
}

/**
 * Replaces redo by its hash, unless the redo is shorter than its hash. Such redo contains no reference to a
 * content.
 */
function withoutContents(redo: EventBody[5]): EventBody[5] {
  if (redo === undefined || typeof redo === 'string') return redo
  const hash = redoHash(redo)
  return JSON.stringify(redo).length <= hash.length + 2 ? redo : hash
}

/** Whether the path has a file or symlink again after the loss. */
async function hasFile(tree: Tree, path: string): Promise<boolean> {
  if (!path.startsWith('/') || path === '/') return false
  const node = await whenLoaded(() => tree.find(parsePath(path))).catch(() => undefined)
  return node !== undefined && !('pages' in node)
}
