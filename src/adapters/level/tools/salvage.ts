import type { StoreFinding } from '../../../engine/ports.js'
import type { Disk } from '../directory/disk.js'
import { levelLimits } from '../limits.js'
import { salvageFrames } from './frame-salvage.js'
import type { Damage, LostEvent, SalvageRange } from './frame-salvage.js'
import type { IndexPlace } from '../index/index-root.js'
import { checkClosedIndex } from '../index/index-check.js'
import { LiveIndex } from '../index/live-index.js'
import type { Manifest } from '../directory/manifest.js'
import { memoryIndex } from '../index/memory-index.js'
import { PageIndex } from '../index/page-index.js'
import { SalvagedStore } from './salvaged-store.js'
import { frameSeed, segmentHeaderBytes } from '../log/segment-format.js'
import { StoredFiles, fileFinding, segmentPath } from './stored-files.js'
import type { StoredSegment } from './stored-files.js'

export interface SalvageOptions {
  readonly signal?: AbortSignal | undefined
  /** Called with the bytes read so far of all segments. */
  readonly onProgress?: ((readBytes: number, totalBytes: number) => void) | undefined
}

/** The remains of a store in a directory. */
export interface Salvage {
  /** A read-only store with all intact entries. */
  readonly store: SalvagedStore
  /** The problems of the files. */
  readonly findings: readonly StoreFinding[]
  /** Observations that are no loss. */
  readonly notes: readonly string[]
  /** Events known to be damaged. */
  readonly lostEvents: readonly LostEvent[]
}

/**
 * Reads all segments of a store and changes nothing. The store may be damaged, in use, or both. Only damaged
 * entries are left out. If an older entry with the same key is intact, it replaces the damaged one.
 *
 * @throws EngineError `STORE_FORMAT` when the directory has no store, or one of another format.
 */
export async function salvageStore(
  disk: Disk,
  directory: string,
  { signal, onProgress }: SalvageOptions = {},
): Promise<Salvage> {
  const files = await StoredFiles.open(disk, directory)
  try {
    const { storeId, manifest, segments } = files
    const findings = [...files.findings, ...orderFindings(files)]
    const notes: string[] = []
    const lostEvents: LostEvent[] = []
    const first = segments[0]?.file.segment ?? 1
    const from = { storeId, segment: first, offset: segmentHeaderBytes }
    const index = new LiveIndex(PageIndex.empty(memoryIndex(), from), { ...from, commit: 0, chain: 0 })
    const totalBytes = files.bytes
    let readBytes = 0
    for (const segment of segments) {
      const { file } = segment
      const name = segmentPath(file.segment)
      const { range, isHead, sizeFinding } = rangeOf(segment, manifest)
      if (sizeFinding !== undefined) findings.push(fileFinding('damaged', name, sizeFinding))
      let commit = range.before?.commit ?? 0
      for await (const frame of salvageFrames(file, range, frameSeed(storeId))) {
        signal?.throwIfAborted()
        const tail = frame.damages.find(({ toEnd }) => toEnd)
        if (tail !== undefined && isHead && (manifest?.syncedTo ?? 0) <= commit) {
          // Otherwise, only reserved space follows.
          if (frame.offset < segment.dataEnd) notes.push(incompleteCommit(name, frame.offset))
          break
        }
        for (const damage of frame.damages) {
          findings.push(damageFinding(name, damage))
          if (damage.event !== undefined) lostEvents.push(damage.event)
        }
        commit = frame.header?.commit ?? commit + 1
        const place: IndexPlace = {
          segment: file.segment,
          offset: frame.end,
          commit,
          chain: frame.header?.checksum ?? 0,
        }
        index.apply(frame.entries, place, frame.offset)
        if (index.waiting >= levelLimits.rebuiltEntries) await flush(index)
        onProgress?.(readBytes + frame.end, totalBytes)
      }
      const needed = neededCommit(segment, manifest)
      const known = findings.some(({ object }) => object === `file ${name}`)
      if (commit < needed && !known)
        findings.push(fileFinding('damaged', name, `byte ${range.to}: commits up to ${needed} are missing`))
      readBytes += file.end
      onProgress?.(readBytes, totalBytes)
    }
    await flush(index)
    const { findings: ofIndex, notes: notesOfIndex } = await checkClosedIndex(files.disk, files.directory)
    findings.push(...ofIndex)
    notes.push(...notesOfIndex)
    return { store: new SalvagedStore(files, index, findings), findings, notes, lostEvents }
  } catch (error) {
    await files.close()
    throw error
  }
}

function flush(index: LiveIndex): Promise<void> {
  return index.flush({ sync: true, mergeEntries: 0, hasSegment: () => true }, () => Promise.resolve())
}

function incompleteCommit(name: string, offset: number): string {
  return `${name}: byte ${offset}: the file ends with an incomplete commit, which was never acknowledged`
}

function damageFinding(name: string, { offset, message }: Damage): StoreFinding {
  return fileFinding('damaged', name, `byte ${offset}: ${message}`)
}

/** The newest commit that a segment must contain, as far as the manifest records it. */
function neededCommit({ file: { segment } }: StoredSegment, manifest: Manifest | undefined): number {
  if (manifest === undefined) return 0
  if (segment === manifest.head) return manifest.syncedTo
  return manifest.sealed.find((sealed) => sealed.segment === segment)?.commit ?? 0
}

function rangeOf(
  { file, dataEnd, header }: StoredSegment,
  manifest: Manifest | undefined,
): { range: SalvageRange; isHead: boolean; sizeFinding: string | undefined } {
  const sealed = manifest?.sealed.find(({ segment }) => segment === file.segment)
  const to = sealed === undefined ? file.end : Math.min(file.end, sealed.bytes)
  const before = header && { commit: header.firstCommit - 1, chain: header.chain }
  const sizeFinding =
    sealed === undefined || sealed.bytes <= file.end
      ? undefined
      : `byte ${to}: the file has ${file.end} bytes instead of ${sealed.bytes}`
  return {
    range: { from: segmentHeaderBytes, to, dataEnd, before },
    isHead: sealed === undefined,
    sizeFinding,
  }
}

/** Finds segments that do not continue the one with the number before. */
function orderFindings({ manifest, segments }: StoredFiles): StoreFinding[] {
  const findings: StoreFinding[] = []
  for (const { file, header } of segments) {
    const before = manifest?.sealed.find(({ segment }) => segment === file.segment - 1)
    if (before === undefined || header === undefined) continue
    if (header.firstCommit !== before.commit + 1 || header.chain !== before.chain)
      findings.push(
        fileFinding(
          'damaged',
          segmentPath(file.segment),
          'byte 28: it does not continue the segment before it',
        ),
      )
  }
  return findings
}
