import { join } from 'node:path'
import { levelLimits } from '../limits.js'
import type { IndexDatabase, OpenIndex } from './index-database.js'
import type { IndexPlace } from './index-root.js'
import { LiveIndex } from './live-index.js'
import { removeFile, segmentsName } from '../directory/manifest.js'
import { PageIndex, placeOf } from './page-index.js'
import { firstPlace, replay } from '../log/recovery.js'
import type { Replayed } from '../log/recovery.js'
import type { Segments } from '../log/segments.js'

export interface IndexOpener {
  readonly segments: Segments
  readonly openIndex: OpenIndex
  readonly indexPath: string
  /** Whether the index is known to be empty. */
  readonly isNew: boolean
}

export interface LoadedIndex {
  readonly index: LiveIndex
  readonly replayed: Replayed
}

/**
 * Completes the index up to the newest commit. Missing entries are read from the frames after the place of
 * the index. All frames are read if the index is missing or damaged, or if segments after its place were
 * removed.
 */
export async function loadIndex(opener: IndexOpener, db: IndexDatabase): Promise<LoadedIndex> {
  const { segments } = opener
  let pages = PageIndex.load(db)
  if (pages === undefined || !fits(segments, pages)) {
    let empty = db
    if (!opener.isNew) {
      await db.close()
      empty = await openAgain(opener, true)
    }
    const { segment, offset } = firstPlace(segments)
    pages = PageIndex.empty(empty, { storeId: segments.manifest.storeId, segment, offset })
  }
  try {
    return await complete(segments, pages)
  } catch (error) {
    await pages.db.close()
    throw error
  }
}

/**
 * Opens the index again after a failed write, which may have left any data, or rebuilds a damaged index. The
 * old one can be read until it is closed. This first checks that the disk has space for the new one.
 */
export async function reopenIndex(opener: IndexOpener, damaged: boolean): Promise<LiveIndex> {
  await probe(opener.segments)
  const db = await openAgain(opener, damaged)
  return (await loadIndex({ ...opener, isNew: damaged }, db)).index
}

function openAgain({ segments, openIndex, indexPath }: IndexOpener, reset: boolean): Promise<IndexDatabase> {
  return openIndex(segments.disk, indexPath, { reset })
}

async function complete(segments: Segments, pages: PageIndex): Promise<LoadedIndex> {
  const from = pages.tail.commit === 0 ? firstPlace(segments) : placeOf(pages.tail)
  const index = new LiveIndex(pages, from)
  const hasSegment = (segment: number): boolean => segments.has(segment)
  const replayed = await replay(segments, from, async (segment, { header, offset, length, entries }) => {
    const place = { segment, offset: offset + length, commit: header.commit, chain: header.checksum }
    index.apply(entries, place, offset)
    // The index must not refer to frames that are not on the disk.
    if (index.waiting >= levelLimits.rebuiltEntries) {
      await index.flush({ sync: false, mergeEntries: 0, hasSegment }, () => segments.head.file.sync())
    }
  })
  index.place = replayed.place
  return { index, replayed }
}

/** Whether the segments can complete the index: no commit after its place is missing. */
function fits(segments: Segments, { root, tail }: PageIndex): boolean {
  const { storeId, sealed, head } = segments.manifest
  if (root.storeId !== storeId || tail.segment > head) return false
  let before: Pick<IndexPlace, 'commit' | 'chain'> | undefined = segments.has(tail.segment) ? undefined : tail
  for (const segment of segments.numbers) {
    if (segment < tail.segment) continue
    const { firstCommit, chain } = segments.header(segment)
    if (before !== undefined && (firstCommit !== before.commit + 1 || chain !== before.chain)) return false
    before = sealed.find((one) => one.segment === segment)
  }
  return true
}

/** Writes a file and removes it again, so that reopening fails early if the disk has no space left. */
async function probe({ disk, directory }: Segments): Promise<void> {
  const path = join(directory, segmentsName, 'probe')
  await removeFile(disk, path)
  const file = await disk.open(path, 'create')
  try {
    await file.write(0, [new Uint8Array(levelLimits.probeBytes)])
    await file.sync()
  } finally {
    await file.close()
    await removeFile(disk, path)
  }
}
