import type { Core } from '../core.js'

/** States of one session that somebody reads for longer than an operation, such as who writes a bundle. */
interface Hold {
  readonly seqs: readonly number[]
  /** It counts for as long as that is in memory. */
  readonly owner: WeakRef<object>
}

/** By the sessions in memory of their engine, then by session. */
const holds = new WeakMap<Core['live'], Map<string, Set<Hold>>>()

/**
 * What a session is now, and its states after these events, stay what they are for collections that begin from here
 * on, whether somebody can name them or not, and whether the session is deleted or not: until the result is called,
 * or the owner is not in memory any more. To be called while the session is there and they can be named.
 */
export function holdStates(
  core: Core,
  sessionId: string,
  { seqs, owner }: { readonly seqs: readonly number[]; readonly owner: object },
): () => void {
  let sessions = holds.get(core.live)
  if (sessions === undefined) holds.set(core.live, (sessions = new Map()))
  let held = sessions.get(sessionId)
  if (held === undefined) sessions.set(sessionId, (held = new Set()))
  const hold: Hold = { seqs, owner: new WeakRef(owner) }
  held.add(hold)
  return () => letGo(core, sessionId, hold)
}

/** The states of a session that are held; undefined where nobody holds any. */
export function heldStates(core: Core, sessionId: string): readonly number[] | undefined {
  const held = holds.get(core.live)?.get(sessionId)
  if (held === undefined) return undefined
  for (const hold of held) if (hold.owner.deref() === undefined) letGo(core, sessionId, hold)
  return held.size === 0 ? undefined : [...held].flatMap(({ seqs }) => seqs)
}

function letGo(core: Core, sessionId: string, hold: Hold): void {
  const sessions = holds.get(core.live)
  const held = sessions?.get(sessionId)
  if (held?.delete(hold) === true && held.size === 0) sessions!.delete(sessionId)
}
