import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { EngineError, formats } from '../../engine/ports.js'
import { CommitLog } from './commit-log.js'
import type { Disk } from './disk.js'
import { errorCode, lockedError, systemError } from './errors.js'
import type { IndexDatabase, OpenIndex } from './index-database.js'
import { openLevelIndex } from './index-database.js'
import { LevelStore } from './level-store.js'
import { loadIndex, reopenIndex } from './load-index.js'
import { segmentsName, sizeOf, writeManifest } from './manifest.js'
import {
  claimDirectory,
  clearUnfinished,
  discardClaim,
  newStoreId,
  readMarker,
  writeMarker,
} from './marker.js'
import type { Marker } from './marker.js'
import { finishMigration, migrate } from './migration.js'
import { nodeDisk } from './node-disk.js'
import { registerOpener } from './open-registry.js'
import { findOwner, forgetOwner, noteOwner } from './owner.js'
import { writeAgain } from './recovery.js'
import { Segments, createSegment, firstManifest } from './segments.js'

/** Where LevelDB keeps its files, below the directory of the store. */
const indexName = 'index'

export interface OpenLevelStoreOptions {
  readonly durability: 'full' | 'relaxed'
  /** That of the host when absent. Another one has paths of its own, and nobody is told who has the store. */
  readonly disk?: Disk
  /** LevelDB when absent. */
  readonly openIndex?: OpenIndex
  /** The size at which another segment is begun. */
  readonly segmentBytes?: number
  /** The index is brought up to date when it lacks so many entries, or the entries of so many bytes. */
  readonly flushEntries?: number
  readonly flushBytes?: number
}

const defaults = { segmentBytes: 128 * 2 ** 20, flushEntries: 8192, flushBytes: 8 * 2 ** 20 }

/**
 * Opens the store in `directory`, or creates one there.
 *
 * The order of creation, so that a crash at any point leaves either a store or something that the next open
 * finishes: 1. the directory; 2. the claim, an empty file that tells an unfinished store from a foreign
 * directory; 3. LevelDB, whose lock from here on keeps out other processes; 4. the first segment, then the
 * manifest; 5. the contents of the claim, which is then renamed to the marker. Each step is synced before the
 * next. Nothing is acknowledged before the marker exists, and once it exists manifest and segments must exist too.
 */
export async function openLevelStore(directory: string, options: OpenLevelStoreOptions): Promise<LevelStore> {
  const disk = options.disk ?? nodeDisk
  const isHost = disk === nodeDisk
  const path = await makeDirectory(disk, directory, isHost)
  const release = registerOpener(path, join(path, indexName, 'LOCK'))
  try {
    return await open(disk, path, options, {
      onLocked: () => (isHost ? noteOwner(path) : Promise.resolve()),
      onClosing: () => (isHost ? forgetOwner(path) : Promise.resolve()),
      onClosed: release,
    })
  } catch (error) {
    release()
    if (!(error instanceof EngineError)) throw systemError(error, 'the store could not be opened')
    throw error.reason === 'STORE_LOCKED' ? lockedError(error.cause, await findOwner(path)) : error
  }
}

interface Hooks {
  readonly onLocked: () => Promise<void>
  readonly onClosing: () => Promise<void>
  readonly onClosed: () => void
}

async function open(
  disk: Disk,
  path: string,
  options: OpenLevelStoreOptions,
  hooks: Hooks,
): Promise<LevelStore> {
  const openIndex = options.openIndex ?? openLevelIndex
  const indexPath = join(path, indexName)
  const before = await readMarker(disk, path)
  if (before === undefined) await claimDirectory(disk, path, indexName)
  else if (before.format === formats.orderedKeys) await migrate(disk, path, indexPath, before.storeId)

  let db: IndexDatabase | undefined
  let segments: Segments | undefined
  try {
    db = await openIndex(indexPath, { reset: false })
    const { storeId, isNew } = await lockedMarker(disk, path)
    await finishMigration(disk, path)
    await hooks.onLocked()
    segments = await Segments.open(disk, path, storeId)
    const opener = { segments, openIndex, indexPath, isNew }
    const loaded = await loadIndex(opener, db)
    db = loaded.index.pages.db
    const { head } = segments
    let { replayed } = loaded
    const sync = options.durability === 'full'
    if (sync && replayed.syncedEnd < head.end) {
      await writeAgain(head, replayed.syncedEnd, head.end)
      replayed = { ...replayed, syncedTo: replayed.place.commit, syncedEnd: head.end }
    }
    const segmentBytes = options.segmentBytes ?? defaults.segmentBytes
    return new LevelStore({
      segments,
      log: new CommitLog(segments, replayed, { sync, segmentBytes }),
      index: loaded.index,
      reopenIndex: (index, damaged) => reopenIndex({ ...opener, isNew: false }, index, damaged),
      indexBytes: () => bytesIn(disk, indexPath),
      flushEntries: options.flushEntries ?? defaults.flushEntries,
      flushBytes: options.flushBytes ?? defaults.flushBytes,
      onClosing: hooks.onClosing,
      onClosed: hooks.onClosed,
    })
  } catch (error) {
    await segments?.close().catch(ignore)
    await db?.close().catch(ignore)
    throw error
  }
}

/** The marker, looked at under LevelDB's lock: another creator may have finished between the first look and it. */
async function lockedMarker(disk: Disk, path: string): Promise<Marker & { readonly isNew: boolean }> {
  const marker = await readMarker(disk, path)
  if (marker !== undefined) {
    // Its name may be one that a process gave it which died before it was made to last.
    await disk.syncDirectory(path)
    await discardClaim(disk, path)
    return { ...marker, isNew: false }
  }
  await clearUnfinished(disk, path)
  const storeId = newStoreId()
  await disk.makeDirectory(join(path, segmentsName))
  await createSegment(disk, path, { storeId, segment: 1, firstCommit: 1, chain: 0 })
  await writeManifest(disk, path, firstManifest(storeId))
  return { ...(await writeMarker(disk, path, storeId)), isNew: true }
}

/** LevelDB's lock file is not opened: closing it would give the lock away. */
async function bytesIn(disk: Disk, directory: string): Promise<number> {
  let bytes = 0
  for (const name of await disk.list(directory)) {
    if (name !== 'LOCK') bytes += await sizeOf(disk, join(directory, name))
  }
  return bytes
}

/** The real path of the directory, created together with its parents when it does not exist. */
async function makeDirectory(disk: Disk, directory: string, isHost: boolean): Promise<string> {
  try {
    await disk.makeDirectory(directory)
    return isHost ? await realpath(directory) : directory
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST' || code === 'ENOTDIR') {
      throw new EngineError('STORE_FORMAT', 'the path is not a directory', {}, { cause: error })
    }
    throw systemError(error, 'the directory could not be created')
  }
}

function ignore(): void {}
