import { itemAt } from '../../../engine/ports.js'
import { damagedSegment } from '../errors.js'
import { levelLimits } from '../limits.js'
import { FrameScanner, laterFrameNeeds } from './frame-scanner.js'
import type { ScannedFrame } from './frame-scanner.js'
import type { IndexPlace } from '../index/index-root.js'
import { segmentHeaderBytes } from './segment-format.js'
import type { SegmentFile } from './segment-file.js'
import type { Segments } from './segments.js'

export interface Replayed {
  /** The end of the last frame. */
  readonly place: IndexPlace
  /** The newest commit that is known to be on the disk. */
  readonly syncedTo: number
  /** The offset in the head at which the frames after that commit begin. */
  readonly syncedEnd: number
}

/** The place in the oldest segment at which its frames begin. */
export function firstPlace(segments: Segments): IndexPlace {
  const segment = itemAt(segments.numbers, 0)
  const { firstCommit, chain } = segments.header(segment)
  return { segment, offset: segmentHeaderBytes, commit: firstCommit - 1, chain }
}

/**
 * Reads every frame after a place and passes it to `apply`. If the head ends with bytes that form no frame,
 * they are the remains of a write that was never acknowledged, and are cut off. If there is evidence that the
 * write was acknowledged, this fails instead.
 *
 * @throws EngineError `DATA_LOSS` when a frame is damaged that was acknowledged, or may have been.
 */
export async function replay(
  segments: Segments,
  from: IndexPlace,
  apply: (segment: number, frame: ScannedFrame) => Promise<void> | void,
): Promise<Replayed> {
  const { sealed, head, syncedTo } = segments.manifest
  for (const last of sealed) {
    if (last.segment < from.segment) continue
    const file = segments.file(last.segment)
    const scanner = scannerFrom(segments, file, from)
    for (let frame = await scanner.next(); frame !== undefined; frame = await scanner.next()) {
      await apply(last.segment, frame)
    }
    const whole = scanner.at === file.end && scanner.commit === last.commit && scanner.chain === last.chain
    if (!whole) throw damagedSegment(file.name, scanner.at)
  }
  const file = segments.file(head)
  const scanner = scannerFrom(segments, file, from)
  const starts: [commit: number, offset: number][] = []
  let known = Math.max(syncedTo, scanner.commit)
  for (let frame = await scanner.next(); frame !== undefined; frame = await scanner.next()) {
    known = Math.max(known, frame.header.syncedTo)
    starts.push([frame.header.commit, frame.offset])
    await apply(head, frame)
  }
  if (scanner.at < file.end || scanner.commit < syncedTo) await cutOff(segments, file, scanner)
  const { at: offset, commit, chain } = scanner
  const syncedEnd = starts.find(([number]) => number > known)?.[1] ?? offset
  return { place: { segment: head, offset, commit, chain }, syncedTo: Math.min(known, commit), syncedEnd }
}

/**
 * Writes unsynced bytes again and syncs them. After a failed sync, the system may treat bytes as written that
 * are not on the disk. The caller verifies the bytes.
 */
export async function writeAgain(file: SegmentFile, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += levelLimits.copiedBytes) {
    await file.file.write(at, [await file.read(at, Math.min(levelLimits.copiedBytes, to - at))])
  }
  await file.file.sync()
}

function scannerFrom(segments: Segments, file: SegmentFile, from: IndexPlace): FrameScanner {
  const { segment, seed } = { segment: file.segment, seed: segments.seed }
  if (segment === from.segment) {
    if (from.offset > file.end) throw damagedSegment(file.name, file.end)
    return new FrameScanner(file, { from: from.offset, to: file.end }, from, seed)
  }
  const { firstCommit, chain } = segments.header(segment)
  const before = { commit: firstCommit - 1, chain }
  return new FrameScanner(file, { from: segmentHeaderBytes, to: file.end }, before, seed)
}

async function cutOff(segments: Segments, file: SegmentFile, scanner: FrameScanner): Promise<void> {
  const { at, commit } = scanner
  const missing = commit + 1
  const range = { from: at, to: file.end }
  const needed =
    segments.manifest.syncedTo >= missing || (await laterFrameNeeds(file, range, missing, segments.seed))
  if (needed) throw damagedSegment(file.name, at, { commit: String(missing) })
  await file.file.truncate(at)
  await file.file.sync()
  file.end = at
}
