import { present } from '../../base/present.js'
import { eventMissing } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import type { EventBody } from '../../records/event.js'
import type { SessionRecord } from '../../records/session.js'
import { readHead } from '../../storage/heads.js'
import type { StoredEvent } from '../../storage/store.js'
import { Tree } from '../../tree/tree.js'
import { apply } from '../apply.js'
import type { Core } from '../core.js'
import type { CommittedEvent } from '../history/feed.js'
import { findSession, storedStateAt } from '../history/replay.js'
import type { LiveSession } from '../table/live.js'
import { bytesOf } from '../usage/session-bytes.js'
import type { StoredState } from './shared-session.js'

/** The state of a session in the store, and how it came from an earlier state. */
export interface NewerState {
  readonly head: string
  readonly record: SessionRecord
  readonly stored: StoredState
  /** The events since the earlier state. */
  readonly events: readonly CommittedEvent[]
}

/**
 * Reads the changes of a session since a stored state. Returns undefined if the session was deleted. The head is read
 * first: if another engine changes the session meanwhile, the next commit or look at the heads finds that out.
 */
export async function readNewerState(
  core: Core,
  live: LiveSession,
  from: StoredState,
): Promise<NewerState | undefined> {
  const head = await readHead(core.store, live.id)
  const record = await findSession(core, live.id)
  if (record === undefined || record.deletedAt !== undefined) return undefined
  const tree = new Tree(from.root, core.loader)
  const events: CommittedEvent[] = []
  let { seq, at, chain, bytesWritten } = from
  for await (const page of core.store.events(live.id, { from: seq + 1, to: Number.POSITIVE_INFINITY })) {
    for (const event of page) {
      if (event.seq !== seq + 1) throw eventMissing(live.id, seq + 1)
      const body = event.body as unknown as EventBody
      events.push(await applied(core, live, tree, event))
      seq = event.seq
      at = body[0]
      chain = present(body[4], 'the link of a stored event')
      if (core.sessionBytes !== undefined && typeof body[5] === 'object') bytesWritten += bytesOf(body[5])
    }
  }
  return { head, record, stored: { root: tree.freeze(), seq, at, chain, bytesWritten }, events }
}

/** Applies a stored event to a tree. */
async function applied(
  core: Core,
  live: LiveSession,
  tree: Tree,
  { seq, body }: StoredEvent,
): Promise<CommittedEvent> {
  const [at, type, details, principal, , stored] = body as unknown as EventBody
  const before = tree.freeze()
  const redo = typeof stored === 'string' ? [] : (stored ?? [])
  const event = { seq, at, type, details, principal, redo }
  const [first] = redo
  // The effects may be stored as a hash, or may be those of a restore. The state is then read as a whole.
  if (typeof stored === 'string' || first?.[0] === 'R') {
    // The changes of this engine wait for the newer state, so it must not wait for them. A collection may have removed the
    // redo of the state that a restore leads to. Then the state after the restore has a snapshot.
    tree.reset((await storedStateAt(core, live.id, seq)).root)
    return { ...event, restored: { before, after: tree.freeze() } }
  }
  await whenLoaded(() => {
    tree.reset(before)
    for (const effect of redo) if (effect[0] !== 'R') apply(tree, effect, at, core)
  })
  return event
}
