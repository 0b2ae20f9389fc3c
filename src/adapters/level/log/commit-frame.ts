import { encodeSeq, itemAt } from '../../../engine/ports.js'
import type { StoreCommit } from '../../../engine/ports.js'
import { FrameBuilder } from './frame.js'
import { entryKind, toBinary } from './segment-format.js'

/** The approximate size of an entry without its value, in bytes. */
const entryBytes = 96

/**
 * Encodes a commit as a frame. The last entry of a key wins. So a record that a commit both puts and deletes
 * is deleted, and a blob that it both adds and deletes is kept.
 */
export function encodeCommit(commit: StoreCommit): FrameBuilder {
  const { events, put, del, blobs, deleteBlobs, replaceEvents, deleteEvents } = commit
  const bodies = events?.map(encodeBody)
  const values = put?.map(encodeValue)
  const replaced = replaceEvents?.map(encodeBody)

  let expected = entryBytes * ((del?.length ?? 0) + (deleteBlobs?.length ?? 0) + (deleteEvents?.length ?? 0))
  for (const texts of [bodies, values, replaced]) {
    if (texts !== undefined) for (const text of texts) expected += text.length + entryBytes
  }
  if (blobs !== undefined) for (const { bytes } of blobs) expected += bytes.length + entryBytes

  const frame = new FrameBuilder(expected)
  if (events !== undefined) putEvents(frame, events, bodies ?? [])
  if (put !== undefined) {
    for (const [i, [key]] of put.entries()) frame.text(entryKind.put, toBinary(key), itemAt(values ?? [], i))
  }
  if (del !== undefined) for (const key of del) frame.deletion(entryKind.delete, toBinary(key), 0)
  if (deleteBlobs !== undefined) {
    for (const hash of deleteBlobs) frame.deletion(entryKind.deleteBlob, blobKey(hash), 0)
  }
  if (blobs !== undefined) for (const { hash, bytes } of blobs) frame.blob(hash, bytes)
  if (replaceEvents !== undefined) putEvents(frame, replaceEvents, replaced ?? [])
  if (deleteEvents !== undefined) {
    for (const sessionId of deleteEvents) frame.deletion(entryKind.deleteEvents, toBinary(sessionId), 0)
  }
  return frame
}

/** The key of an event, without the letter of its key space. */
export function eventKey(sessionId: string, seq: number): string {
  return toBinary(sessionId) + encodeSeq(seq)
}

/** The key of a blob, without the letter of its key space. */
export function blobKey(hash: string): string {
  return Buffer.from(hash, 'hex').toString('latin1')
}

function putEvents(
  frame: FrameBuilder,
  events: readonly { readonly sessionId: string; readonly seq: number }[],
  bodies: readonly string[],
): void {
  for (const [i, { sessionId, seq }] of events.entries())
    frame.text(entryKind.event, eventKey(sessionId, seq), itemAt(bodies, i))
}

function encodeBody({ body }: { readonly body: readonly unknown[] | string }): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

function encodeValue([, value]: readonly [string, string | object]): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
