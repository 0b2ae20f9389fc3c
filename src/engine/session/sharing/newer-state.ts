import { present } from '../../base/present.js'
import { eventMissing } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import type { EventBody } from '../../records/event.js'
import type { SessionRecord } from '../../records/session.js'
import type { StoredEvent } from '../../storage/store.js'
import { ReplacedPin } from '../../tree/pins.js'
import { Tree } from '../../tree/tree.js'
import { apply as applyEffect } from '../apply.js'
import type { BranchTips } from '../../records/branch-tip.js'
import type { Core } from '../core.js'
import type { CommittedEvent } from '../history/feed.js'
import { storedSession, storedStateAt, UnreachableState } from '../history/replay.js'
import type { LiveSession } from '../table/live.js'
import { bytesOf } from '../usage/session-bytes.js'
import type { StoredState } from './shared-session.js'

/** The state of a session in the store, and how it came from an earlier state. */
export interface NewerState {
  readonly head: string
  readonly record: SessionRecord
  readonly stored: StoredState
  readonly tips: BranchTips | undefined
  /** The events since the earlier state. */
  readonly events: readonly CommittedEvent[]
  /** Whether a collection has removed the effects of some of these events. */
  readonly isPruned: boolean
}

/**
 * Reads the changes of a session since a stored state. Returns undefined if the session was deleted. If another engine
 * changes the session meanwhile, the next commit or look at the heads finds that out.
 */
export async function readNewerState(
  core: Core,
  live: LiveSession,
  from: StoredState,
): Promise<NewerState | undefined> {
  using pinned = new ReplacedPin()
  pinned.hold(core.pins.pin({ roots: [from.root] }))
  const tree = new Tree(from.root, core.loader)
  const events: CommittedEvent[] = []
  let { seq, at, chain, bytesWritten } = from
  let isPruned = false
  /** The last event that the tree already has. */
  let reached = seq
  for (;;) {
    const { head, record, tips, seq: newest } = await storedSession(core, live.id)
    if (record === undefined || record.deletedAt !== undefined) return undefined
    const first = seq + 1
    for await (const page of core.store.events(live.id, { from: first, to: newest })) {
      for (const event of page) {
        if (event.seq !== seq + 1) throw eventMissing(live.id, seq + 1)
        const body = event.body as unknown as EventBody
        seq = event.seq
        at = body[0]
        chain = present(body[4], 'the link of a stored event')
        if (core.sessionBytes !== undefined && typeof body[5] === 'object') bytesWritten += bytesOf(body[5])
        if (seq <= reached) {
          events.push(committed(event, []))
          continue
        }
        const applied = await apply(core, live, tree, event)
        pinned.hold(core.pins.pin({ roots: [tree.freeze()] }))
        if (typeof body[5] === 'string' || applied.reached > seq) isPruned = true
        reached = applied.reached
        events.push(applied.event)
      }
    }
    if (seq >= newest && seq >= reached)
      return {
        head,
        record,
        stored: { root: tree.freeze(), seq, at, chain, bytesWritten },
        tips,
        events,
        isPruned,
      }
    // A newest state that was read as a whole may have events that came after the record, so both are read again.
    if (seq < first) throw eventMissing(live.id, first)
  }
}

/** Applies a stored event to a tree. Returns the last event that the tree then has. */
async function apply(
  core: Core,
  live: LiveSession,
  tree: Tree,
  event: StoredEvent,
): Promise<{ readonly event: CommittedEvent; readonly reached: number }> {
  const [at, , , , , stored] = event.body as unknown as EventBody
  const before = tree.freeze()
  const redo = typeof stored === 'string' ? [] : (stored ?? [])
  // The effects may be stored as a hash, or may be those of a restore. The state is then read as a whole.
  if (typeof stored === 'string' || redo[0]?.[0] === 'R') {
    // The changes of this engine wait for the newer state, so it must not wait for them.
    const { root, seq } = await wholeState(core, live.id, event.seq)
    tree.reset(root)
    return { event: { ...committed(event, redo), restored: { before, after: tree.freeze() } }, reached: seq }
  }
  await whenLoaded(() => {
    tree.reset(before)
    for (const effect of redo) if (effect[0] !== 'R') applyEffect(tree, effect, at, core)
  })
  return { event: committed(event, redo), reached: event.seq }
}

/**
 * The state after an event. A collection of another engine may have removed it, while this engine did not use the session.
 * Then it is the newest state of all, which is always stored.
 */
async function wholeState(core: Core, sessionId: string, seq: number): ReturnType<typeof storedStateAt> {
  try {
    return await storedStateAt(core, sessionId, seq)
  } catch (error) {
    if (!(error instanceof UnreachableState)) throw error
    return storedStateAt(core, sessionId, Number.POSITIVE_INFINITY)
  }
}

function committed({ seq, body }: StoredEvent, redo: CommittedEvent['redo']): CommittedEvent {
  const [at, type, details, principal] = body as unknown as EventBody
  return { seq, at, type, details, principal, redo }
}
