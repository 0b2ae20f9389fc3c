import { formatTime } from '../base/environment.js'
import { limits } from '../base/limits.js'
import { inBackground, type Core } from '../session/core.js'
import { shownTime } from '../session/history/event-times.js'
import { eventTypes, type EventBody, type EventType } from '../records/event.js'
import type { LiveSession } from '../session/table/live.js'
import { keys } from '../storage/keys.js'
import { type Counted, sessionCountsKind } from '../records/session-counts.js'

/** Counts of the operations in a session, from its events. A fork starts at zero. */
export interface SessionCounts {
  /** Milliseconds from the creation to the first change of a file; 0 before the first change. */
  readonly timeToFirstWriteMs: number
  /** Number of successful changes of files. A batch counts as one. */
  readonly totalFileMutations: number
  /** Number of checkpoints ever created, including deleted ones. */
  readonly checkpointCount: number
  /** Number of restores. */
  readonly restoreCount: number
  /** RFC 3339 time in UTC of the first commit; '' before the first commit. */
  readonly completionTime: string
}

const nothing: Counted = {
  seq: 0,
  mutations: 0,
  checkpoints: 0,
  restores: 0,
  firstWriteAt: 0,
  completedAt: 0,
}

/** Counts the events of sessions on request. It counts each event once. */
export class Analytics {
  readonly #counted = new WeakMap<LiveSession, { readonly counted: Counted; readonly storedSeq: number }>()

  /** A fork starts at zero. */
  async counts(core: Core, live: LiveSession): Promise<SessionCounts> {
    let { counted, storedSeq } = this.#counted.get(live) ?? (await stored(core, live.id))
    counted = await count(core, live, counted)
    // Nothing is stored for a session that was deleted meanwhile.
    if (live.discarded === undefined && counted.seq - storedSeq >= limits.eventsPerSnapshot) {
      const put = [[keys.analytics(live.id), counted]] as const
      storedSeq = counted.seq
      const stored = core.journal.kept(() => core.store.commit({ put }).then(() => undefined))
      if (stored !== undefined) inBackground(core, stored)
    }
    this.#counted.set(live, { counted, storedSeq })
    const { firstWriteAt, completedAt } = counted
    return {
      timeToFirstWriteMs: firstWriteAt === 0 ? 0 : Math.max(0, firstWriteAt - live.record.createdAt),
      totalFileMutations: counted.mutations,
      checkpointCount: counted.checkpoints,
      restoreCount: counted.restores,
      completionTime: completedAt === 0 ? '' : formatTime(completedAt),
    }
  }
}

async function stored(core: Core, sessionId: string): Promise<{ counted: Counted; storedSeq: number }> {
  const json = await core.store.get(keys.analytics(sessionId))
  const counted = json === undefined ? nothing : sessionCountsKind.parse(json)
  return { counted, storedSeq: counted.seq }
}

async function count(core: Core, live: LiveSession, before: Counted): Promise<Counted> {
  const counted = { ...before }
  const events = core.store.events(live.id, { from: before.seq + 1, to: Number.POSITIVE_INFINITY })
  for await (const page of events) {
    for (const { seq, body } of page) {
      const [recorded, type] = body as unknown as EventBody
      const at = shownTime(live.record, seq, recorded)
      counted.seq = seq
      if (isMutation(type)) {
        counted.mutations++
        counted.firstWriteAt ||= at
      } else if (type === eventTypes.createCheckpoint) counted.checkpoints++
      else if (type === eventTypes.restoreCheckpoint) counted.restores++
      else if (type === eventTypes.commit) counted.completedAt ||= at
    }
  }
  return counted
}

function isMutation(type: EventType): boolean {
  return type.startsWith('v1.FileSystemService.')
}
