import { formatTime } from '../base/environment.js'
import { EngineError, invalid } from '../base/errors.js'
import { parseFlag } from '../base/input.js'
import { Shape } from '../base/shape.js'
import { parseTime } from '../base/time.js'
import { Dir } from '../tree/node.js'
import { checkpointFields, findCheckpoint, type CheckpointReference } from './checkpoints.js'
import type { Core } from './core.js'
import { Diff, type PinnedRoot } from './diffs/diff.js'
import { touch } from './table/activity.js'
import type { LiveSession } from './table/live.js'
import { openUsed, usedNow } from './table/expiry.js'
import { eventIdOf, parseEventId } from './history/event-ids.js'
import { namedRoot } from './history/replay.js'
import { firstSince } from './history/stored-events.js'

/** Refers to one state of a session by at most one of its fields. Without any: the newest state. */
export interface StateName extends CheckpointReference {
  /** The `eventId` of an event: the state after it. */
  readonly eventId?: string
  /** RFC 3339: the state at this time. */
  readonly time?: string
  /** true: the base that the session and all its relatives by fork started from. false, the default, has no effect. */
  readonly base?: boolean
}

/** Refers to one state of a session: its newest, that of a checkpoint, event or time, or its base. */
export interface StateReference extends StateName {
  /** The id of the session. */
  readonly sessionId: string
}

/** Whether a request refers to an earlier state of a session, not its newest or its base. */
export function refersToHistory({ checkpointId, checkpointLabel, eventId, time }: StateName): boolean {
  return (
    checkpointId !== undefined || checkpointLabel !== undefined || eventId !== undefined || time !== undefined
  )
}

/** Whether a reference names an earlier state by something that does not keep the state, as a checkpoint does. */
export function namesUnkeptState({ eventId, time }: StateName): boolean {
  return eventId !== undefined || time !== undefined
}

export const stateFields = { ...checkpointFields, eventId: true, time: true, base: true } as const

/** The reference to the newest state. It has no prototype, whose properties would count. */
export const newestState: StateName = Object.freeze(Object.create(null) as StateName)

export const stateNameShape = new Shape<StateName>(stateFields)

export const stateShape = new Shape<StateReference>({ sessionId: true, ...stateFields })

async function findState(core: Core, reference: StateReference | Dir): Promise<PinnedRoot> {
  if (reference instanceof Dir) return pinned(core, reference)
  // If the session is in memory, nothing is awaited, so the state is that at the time of the call.
  const live = usedNow(core, reference.sessionId) ?? (await openUsed(core, reference.sessionId))
  touch(core, live)
  return pinned(core, await stateOf(core, live, reference))
}

function pinned(core: Core, root: Dir): PinnedRoot {
  // The diff keeps this object.
  const state = { root }
  return Object.assign(state, { pin: core.pins.pin({ roots: [root], owner: state }) })
}

/** A state of a session; without a reference, that of the call. */
export async function stateOf(core: Core, live: LiveSession, reference: StateName): Promise<Dir> {
  return (await positionedState(core, live, reference)).root
}

/** A root, and the number of the event before it. The base has none. */
export interface PositionedState {
  readonly root: Dir
  readonly seq: number | undefined
}

/** Like {@link stateOf}, with the position of the state in the history. */
export async function positionedState(
  core: Core,
  live: LiveSession,
  reference: StateName,
): Promise<PositionedState> {
  if (parseFlag('base', reference.base, false)) {
    if (refersToHistory(reference))
      throw invalid('base', 'cannot be combined with a checkpoint, event or time: pass one of them')
    return { root: live.baseline, seq: undefined }
  }
  if (!refersToHistory(reference)) return { root: live.tree.freeze(), seq: live.seq }
  const seq = await seqOf(core, live, reference)
  return { root: await namedRoot(core, live, seq), seq }
}

/** The public id of a state's newest event; '' for the base. */
export function stateIdOf(live: LiveSession, { seq }: PositionedState): string {
  return seq === undefined ? '' : eventIdOf(live.id, seq)
}

/** The number of the event that a reference names, or that it refers to by a time or checkpoint. */
async function seqOf(core: Core, live: LiveSession, reference: StateName): Promise<number> {
  const { eventId, time, checkpointId, checkpointLabel } = reference
  const given = [eventId, time, checkpointId ?? checkpointLabel]
  if (given.filter((one) => one !== undefined).length > 1)
    throw invalid('eventId', 'pass one of eventId, time, checkpointId and checkpointLabel')
  if (eventId !== undefined) return existingEvent(live, eventId)
  if (time !== undefined) return seqAtTime(core, live, time)
  return (await findCheckpoint(core, live, reference)).seq
}

function existingEvent(live: LiveSession, eventId: string): number {
  const seq = parseEventId('eventId', live.id, eventId)
  if (seq <= live.seq) return seq
  throw new EngineError(
    'EVENT_NOT_FOUND',
    `the session has no event ${eventId}; its newest is ${eventIdOf(live.id, live.seq)}`,
    { eventId },
  )
}

/** The newest event at or before a time. */
async function seqAtTime(core: Core, live: LiveSession, time: string): Promise<number> {
  const at = parseTime('time', time)
  if (at >= live.lastEventAt) return live.seq
  const last = live.seq
  await live.acknowledged
  const seq = (await firstSince(core, live, last, at + 1)) - 1
  if (seq > 0) return seq
  throw new EngineError(
    'EVENT_NOT_FOUND',
    `the session did not exist at ${formatTime(at)}; it was created at ${formatTime(live.record.createdAt)}`,
    { time: formatTime(at) },
  )
}

/** The changes between two states, as they are now. An error in a reference appears when the diff is read. */
export function diffOf(core: Core, from: () => StateReference | Dir, to: () => StateReference | Dir): Diff {
  const before = (async () => findState(core, from()))()
  const after = (async () => findState(core, to()))()
  return new Diff(core, Promise.all([before, after]))
}
