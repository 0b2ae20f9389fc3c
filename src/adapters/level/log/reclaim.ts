import { levelLimits } from '../limits.js'
import type { CommitLog } from './commit-log.js'
import { damagedSegment } from '../errors.js'
import { FrameBuilder } from './frame.js'
import { FrameScanner } from './frame-scanner.js'
import type { ScannedFrame } from './frame-scanner.js'
import type { GroupCommit } from './group-commit.js'
import type { LiveIndex } from '../index/live-index.js'
import { entryKind, segmentHeaderBytes } from './segment-format.js'
import type { EntryKind } from './segment-format.js'
import type { Segments } from './segments.js'

export interface ReclaimParts {
  readonly segments: Segments
  readonly log: CommitLog
  readonly commits: GroupCommit
  readonly index: () => LiveIndex
  /** Flushes the index and syncs it. */
  readonly flush: () => Promise<void>
  /** Throws if the reclaiming must end. */
  readonly check: () => void
}

/**
 * Copies the needed entries of mostly unneeded segments to the newest one, then removes these segments.
 *
 * An entry is copied in a turn of the commit queue, and only if the index still has it at its old place. So
 * the order of entries in the segments stays the order in which they took effect. A segment is removed once
 * an index that no longer refers to it is on the disk. A crash before that leaves some entries twice, which
 * does no harm because both have the same effect.
 */
export async function reclaimSegments(parts: ReclaimParts): Promise<void> {
  const { segments, log, commits, flush, check } = parts
  check()
  await flush()
  if (isMostlyUnneeded(parts, segments.manifest.head)) {
    await commits.addLater(async () => {
      await log.rotate()
      return undefined
    })
  }
  // Segments with few needed bytes come first. Moving their entries takes the least space.
  const found = segments.manifest.sealed
    .map(({ segment }) => segment)
    .filter((segment) => isMostlyUnneeded(parts, segment))
    .sort((a, b) => needed(parts, a) - needed(parts, b) || a - b)
  for (const segment of found) {
    await moveEntries(parts, segment)
    check()
    await flush()
    if ((parts.index().pages.root.uses.get(segment)?.live ?? 0) === 0) await segments.remove(segment)
  }
  if (found.length === 0) return
  // The next flush removes the pages that the last one replaced.
  await flush()
  check()
  await parts.index().pages.db.compact()
}

function isMostlyUnneeded(parts: ReclaimParts, segment: number): boolean {
  const bytes = parts.segments.file(segment).end - segmentHeaderBytes
  return bytes > 0 && needed(parts, segment) <= bytes * levelLimits.neededShare
}

/**
 * The needed bytes of a segment. Deletions are needed as long as an older segment can contain the deleted
 * entries.
 */
function needed({ segments, index }: ReclaimParts, segment: number): number {
  const { live, deletions } = index().pages.root.uses.get(segment) ?? { live: 0, deletions: 0 }
  return segment === segments.numbers[0] ? live : live + deletions
}

interface Moved {
  readonly kind: EntryKind
  readonly key: string
  readonly offset: number
  readonly bytes: Buffer
}

async function moveEntries(parts: ReclaimParts, segment: number): Promise<void> {
  const { segments, index, check } = parts
  const file = segments.file(segment)
  const { firstCommit, chain } = segments.header(segment)
  const range = { from: segmentHeaderBytes, to: file.end }
  const scanner = new FrameScanner(file, range, { commit: firstCommit - 1, chain }, segments.seed)
  let batch: Moved[] = []
  let bytes = 0
  for (let frame = await scanner.next(); frame !== undefined; frame = await scanner.next()) {
    for (const entry of entriesOf(frame)) {
      if (!isNeeded(segments, index(), segment, entry)) continue
      // The bytes are copied, because a part of the scanner's window would keep the whole window in memory.
      batch.push({ ...entry, bytes: Buffer.from(entry.bytes) })
      bytes += entry.bytes.length
      if (bytes < levelLimits.reclaimedBytes && batch.length < levelLimits.reclaimedEntries) continue
      await append(parts, segment, batch)
      check()
      batch = []
      bytes = 0
    }
  }
  if (scanner.at < file.end) throw damagedSegment(file.name, scanner.at)
  await append(parts, segment, batch)
}

function* entriesOf(frame: ScannedFrame): Generator<Moved> {
  for (const { kind, key, at, length } of frame.entries) {
    yield { kind, key, offset: frame.offset + at, bytes: frame.bytes.subarray(at, at + length) }
  }
}

async function append(parts: ReclaimParts, segment: number, batch: readonly Moved[]): Promise<void> {
  const { segments, commits, index } = parts
  let failure: { readonly cause: unknown } | undefined
  await commits.addLater(async () => {
    try {
      const frame = new FrameBuilder(batch.reduce((sum, { bytes }) => sum + bytes.length, 0))
      for (const entry of batch) {
        if (!isNeeded(segments, index(), segment, entry)) continue
        if (isDeletion(entry.kind)) frame.deletion(entry.kind, entry.key.slice(1), originOf(segment, entry))
        else frame.copy(entry.kind, entry.key, entry.bytes)
      }
      return frame.entries.length > 0 ? frame : undefined
    } catch (cause) {
      // A page of the index that cannot be read ends the reclaiming. Commits continue.
      failure = { cause }
      return undefined
    }
  })
  if (failure !== undefined) throw failure.cause
}

/** Whether the store would change if the entry were gone. */
function isNeeded(segments: Segments, index: LiveIndex, segment: number, entry: Moved): boolean {
  if (!isDeletion(entry.kind)) {
    const place = index.get(entry.key)
    return place?.segment === segment && place.offset === entry.offset
  }
  const origin = originOf(segment, entry)
  if (!segments.numbers.some((number) => number < origin)) return false
  return entry.kind === entryKind.deleteEvents || index.get(entry.key) === undefined
}

/**
 * The segment in which the deletion was first written. The deleted entries are in this segment or in earlier
 * ones.
 */
function originOf(segment: number, { bytes }: Moved): number {
  const origin = bytes.readUInt32LE(bytes.length - 4)
  return origin === 0 ? segment : origin
}

function isDeletion(kind: EntryKind): boolean {
  return kind === entryKind.delete || kind === entryKind.deleteBlob || kind === entryKind.deleteEvents
}
