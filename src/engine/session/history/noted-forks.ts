import type { Core } from '../core.js'

/** What a collection has noted, by the sessions in memory of its engine. */
const notes = new WeakMap<Core['live'], Map<string, Set<number>>>()

/**
 * From here on, until the result is called, it is noted which states forks start from. A fork keeps its state by the
 * history of its parent until a collection that began later gives it a snapshot of its own. One call at a time.
 */
export function noteForks(core: Core): () => void {
  notes.set(core.live, new Map())
  return () => notes.delete(core.live)
}

/** To be called in the turn of the event loop in which a fork is put into the store's queue. */
export function noteFork(core: Core, parentId: string, seq: number): void {
  const noted = notes.get(core.live)
  if (noted === undefined) return
  const seqs = noted.get(parentId)
  if (seqs === undefined) noted.set(parentId, new Set([seq]))
  else seqs.add(seq)
}

/** The states of a session that forks were made from since; undefined without any. */
export function notedForks(core: Core, sessionId: string): ReadonlySet<number> | undefined {
  return notes.get(core.live)?.get(sessionId)
}
