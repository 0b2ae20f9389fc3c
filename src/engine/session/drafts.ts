import { limits } from '../base/limits.js'
import { eventTypes } from '../records/event.js'
import { SessionStatus, type SessionRecord } from '../records/session.js'
import type { Core } from './core.js'
import { readAgain } from './mutation-queue.js'
import { finalState } from './sharing/when-stored.js'
import { begin, forkEvents, type StartedSession } from './sessions.js'
import type { LiveSession } from './table/live.js'

/**
 * Creates a private fork of the current state, for a draft. It is not stored yet: commits of a store form one queue, so
 * everything that is read from it is stored after it.
 */
export async function forkForDraft(core: Core, parent: LiveSession): Promise<StartedSession> {
  if (parent.tail !== undefined) await parent.tail
  const final = parent.shared && (await finalState(core.pins, parent, parent.shared))
  if (parent.discarded === 'failed') throw readAgain()
  const { seq, record: of, baseline } = final ?? parent
  const session: SessionRecord = {
    id: core.ids.newId(),
    baseline: of.baseline,
    base: [parent.id, seq],
    status: SessionStatus.ACTIVE,
    tags: {},
    metadata: { draftOf: parent.id },
    createdAt: core.environment.wallClockMs(),
    ttlSeconds: limits.draftTtlSeconds,
  }
  core.pins.referred(parent.id, seq)
  const inheritedEvents = parent.unsnapshotted + forkEvents
  const started = begin(
    core,
    session,
    { baseline, root: final?.root ?? parent.tree.freeze(), inheritedEvents },
    { type: eventTypes.forkSession, details: { sourceSessionId: parent.id, checkpointId: '' } },
  )
  // The parent may be deleted meanwhile. Its data is kept until the fork is stored.
  core.pins.whileReading(started.stored).catch(() => undefined)
  return started
}
