import type { EventBody } from '../../records/event.js'
import { snapshotKind } from '../../records/snapshot.js'
import { startOf, type SessionRecord } from '../../records/session.js'
import { keys } from '../../storage/keys.js'
import type { EncodedNode } from '../../tree/encoded.js'
import type { RepairContext } from './context.js'
import { readRecords } from './facts.js'
import { LooseReplay, type RawState } from './replay.js'

/** Derives states of sessions from snapshots and events, skipping missing ones. */
export class SessionStates {
  readonly #context: RepairContext
  readonly #recordOf: (sessionId: string) => SessionRecord | undefined

  /** `recordOf` returns the record of the session that another was forked from. */
  constructor(context: RepairContext, recordOf: (sessionId: string) => SessionRecord | undefined) {
    this.#context = context
    this.#recordOf = recordOf
  }

  /** The wanted states of a session, as far as they can be derived. Lost contents are ignored. */
  async at(record: SessionRecord, wanted: ReadonlySet<number>): Promise<Map<number, RawState>> {
    const { from, mender, replay: context } = this.#context
    const snapshots = await readRecords(this.#context, snapshotKind, keys.snapshots(record.id))
    const targets = new Set<number>()
    const to = Math.max(...wanted)
    for await (const page of from.events(record.id, { from: 1, to }))
      for (const { body } of page)
        for (const target of restoresOf(body as unknown as EventBody)) targets.add(target)
    const states = new Map<number, RawState>()
    const replay = new LooseReplay(await this.start(record), mender.loader, context)
    const keep = (seq: number): void => {
      if (wanted.has(seq) || targets.has(seq)) states.set(seq, replay.state)
    }
    const stored = new Map(snapshots.map(({ seq, root }) => [seq, root]))
    /**
     * Called when the replay has reached the state after event `seq`. A snapshot of this state may know more.
     */
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
    /** Skips missing events up to `last`. Their effects are unknown until the next snapshot. */
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
  async start(record: SessionRecord): Promise<RawState> {
    const { base } = record
    const first = startOf(record)
    const parent = base && this.#recordOf(base[0])
    if (base !== undefined && parent !== undefined) {
      const [, seq] = base
      const state = (await this.at(parent, new Set([seq]))).get(seq)
      if (state !== undefined) return state
    }
    const raw = await this.#raw(first)
    const start = raw ?? { ...(await this.#empty(first)), lost: [] }
    if (raw === undefined)
      return { ...start, lost: [{ path: '/', message: 'the files that the session started from are lost' }] }
    if (base === undefined) return start
    return { ...start, unknownFrom: 0 }
  }

  /** A tree without its unreadable parts; undefined if no part can be read. */
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

function restoresOf([, , , , , redo]: EventBody): number[] {
  if (redo === undefined || typeof redo === 'string') return []
  return redo.flatMap((effect) => (effect[0] === 'R' ? [effect[1]] : []))
}
