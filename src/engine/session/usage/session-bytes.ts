import { exhausted } from '../../storage/byte-budgets.js'
import type { Core } from '../core.js'
import type { Redo } from '../../records/event.js'
import type { LiveSession } from '../table/live.js'

/**
 * The bytes that sessions in memory wrote. A session without an entry wrote nothing, or is counted before it
 * is opened.
 */
const written = new WeakMap<object, number>()

/**
 * Checks the byte budgets of the session and its tenant for a change. It counts nothing yet.
 *
 * @throws {EngineError} BUDGET when the change would write more than a budget allows.
 */
export function admitChange(
  core: Core,
  live: LiveSession,
  {
    redo,
    blobs = [],
  }: { readonly redo: readonly Redo[]; readonly blobs?: readonly { hash: string; length: number }[] },
): void {
  if (core.sessionBytes !== undefined && redo.length > 0) admitBytes(core, live, bytesOf(redo))
  core.store.admit?.(blobs)
}

/**
 * Checks the byte budget of the session for content that is stored before its change. Otherwise content that this budget
 * refuses would use up the budget of the tenant. The bytes of a copied state are not known: only the content counts.
 *
 * @throws {EngineError} BUDGET when the session would write more than its budget allows.
 */
export function admitAhead(
  core: Core,
  state: Pick<LiveSession, 'tree'>,
  { size }: { readonly size: number },
): void {
  if (core.content.mustStoreAhead(size)) admitBytes(core, state, size)
}

/**
 * Checks the byte budget of the session for bytes that it is about to write. It counts nothing yet.
 *
 * @throws {EngineError} BUDGET when the session would write more than its budget allows.
 */
export function admitBytes(core: Core, state: object, bytes: number): void {
  const limit = core.sessionBytes
  // Only sessions of a durable store are counted again when they are opened.
  if (limit !== undefined && bytes > 0 && (written.get(state) ?? 0) + bytes > limit)
    throw exhausted('sessionBytes', limit, core.onOpen !== undefined)
}

/** Call this for a change that was admitted. */
export function countChange(core: Core, live: LiveSession, redo: readonly Redo[]): void {
  if (core.sessionBytes !== undefined && redo.length > 0)
    written.set(live, (written.get(live) ?? 0) + bytesOf(redo))
}

/** The bytes that a session wrote, as far as they are counted. */
export function bytesWritten(live: LiveSession): number {
  return written.get(live) ?? 0
}

export function setBytesWritten(live: LiveSession, bytes: number): void {
  written.set(live, bytes)
}

/** The bytes of new contents in these effects. Holes and copies do not count. */
export function bytesOf(effects: readonly Redo[]): number {
  let bytes = 0
  for (const effect of effects) {
    if (effect[0] === 'w') bytes += lengthOf(effect[4])
    else if (effect[0] === 'o') bytes += lengthOf(effect[2])
    else if (effect[0] === 'x') bytes += lengthOf(effect[3])
    else if (effect[0] === 'p') for (const [, length, blob] of effect[3]) bytes += blob === 0 ? 0 : length
  }
  return bytes
}

type Value = 0 | { readonly length: number } | readonly [hash: string, length: number]

function lengthOf(value: Value): number {
  if (value === 0) return 0
  return Array.isArray(value) ? (value[1] as number) : value.length
}
