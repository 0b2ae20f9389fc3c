import { itemAt } from '../../base/present.js'
import { isCount } from '../../base/checks.js'
import { eventTypes } from '../../records/event.js'
import { decodeSeq, seqWidth } from '../../storage/keys.js'
import type { EventWalk, WalkedEvent } from './event-walk.js'

/** A change of files that can be undone or redone. */
export interface UndoItem {
  readonly seq: number
  /** The group of the change; undefined if it has none. */
  readonly group: string | undefined
}

/** An undone change that can be redone, and its place in the undo that it comes from. */
export interface RedoItem extends UndoItem {
  /** The event of the undo. */
  readonly undo: number
  /** The place among the changes that it undid, oldest first. */
  readonly index: number
}

/** The details of the events of undo and redo, from which alone the position follows. */
export interface StepDetails {
  /** The number of changes. */
  readonly count: number
  /** The number of the event whose state the tree then has. */
  readonly position: number
  /** Of a redo: the undo with the next change to redo. */
  readonly redoEvent?: number
  /** Of a redo: the number of changes of that undo that are already redone. */
  readonly redoSkip?: number
}

/**
 * The changes that an undo would undo as of an event, newest first. After an undo or redo, they are those of the
 * state that it led to. After an aborted merge, they are those before the merge: its files without its conflicts would
 * count as merged.
 */
export async function* undoItems(walk: EventWalk, from: number): AsyncGenerator<UndoItem, void> {
  for (let seq = from; seq > 0;) {
    const event = await walk.at(seq)
    const step = stepOf(event)
    if (step !== undefined) {
      seq = step.position
      continue
    }
    const merge = abortedMerge(event)
    if (merge !== undefined) {
      seq = merge - 1
      continue
    }
    // The base of the session is another one since then.
    if (event.body[1] === eventTypes.rebaseSession) return
    if (changesFiles(event)) yield { seq, group: groupOf(event) }
    seq--
  }
}

/** The changes that a redo would redo as of an event, in the order of redoing. */
export async function* redoItems(walk: EventWalk, from: number): AsyncGenerator<RedoItem, void> {
  for (let place = await placeAt(walk, from); place !== undefined;) {
    const { undo, skip } = place
    const { count = 0 } = stepOf(await walk.at(undo)) ?? {}
    if (skip < count) {
      const undone: UndoItem[] = []
      for await (const item of undoItems(walk, undo - 1)) if (undone.push(item) === count) break
      for (let index = skip; index < undone.length; index++)
        yield { ...itemAt(undone, undone.length - 1 - index), undo, index }
    }
    place = await placeAt(walk, undo - 1)
  }
}

/** The undo that has the next change to redo; undefined after a new change of files. */
async function placeAt(
  walk: EventWalk,
  from: number,
): Promise<{ readonly undo: number; readonly skip: number } | undefined> {
  for (let seq = from; seq > 0; seq--) {
    const event = await walk.at(seq)
    const step = stepOf(event)
    if (step === undefined) {
      // A redo would lead back to a state without the merge or rebase, even if that changed no files.
      if (changesFiles(event) || isMerge(event)) return undefined
      continue
    }
    if (event.body[1] === eventTypes.undo) return { undo: seq, skip: 0 }
    const { redoEvent: undo = 0, redoSkip: skip = 0 } = step
    return undo === 0 ? undefined : { undo, skip }
  }
  return undefined
}

/** Whether the event changed files. If its effects are no longer kept, it may have. */
function changesFiles({ redo }: WalkedEvent): boolean {
  return redo === undefined || redo.length > 0
}

function isMerge({ body: [, type] }: WalkedEvent): boolean {
  return type === eventTypes.mergeSession || type === eventTypes.rebaseSession
}

/** The details of an undo or redo. An event with other details, from a foreign bundle, is an ordinary change. */
function stepOf({ seq, body: [, type, details] }: WalkedEvent): StepDetails | undefined {
  if (type !== eventTypes.undo && type !== eventTypes.redo) return undefined
  const { count = -1, position = seq, redoEvent = 0, redoSkip = 0 } = details as Partial<StepDetails>
  const isValid = [count, position, redoEvent, redoSkip].every(isCount) && position < seq && redoEvent < seq
  return isValid ? { count, position, redoEvent, redoSkip } : undefined
}

/** The number of the merge or rebase that the event aborted. */
function abortedMerge({ seq, body: [, type, details] }: WalkedEvent): number | undefined {
  if (type !== eventTypes.abortMerge) return undefined
  const { mergeEventId } = details as { readonly mergeEventId?: unknown }
  const merge = typeof mergeEventId === 'string' ? decodeSeq(mergeEventId.slice(-seqWidth)) : 0
  return isCount(merge) && merge > 0 && merge < seq ? merge : undefined
}

function groupOf({ body: [, , details] }: WalkedEvent): string | undefined {
  const group = Object.hasOwn(details, 'group') ? (details as { readonly group: unknown }).group : undefined
  return typeof group === 'string' ? group : undefined
}
