import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { EngineError, formats } from '../../engine/ports.js'
import { levelLimits } from './limits.js'
import { CommitLog } from './log/commit-log.js'
import { Creation } from './directory/creation.js'
import type { Disk } from './directory/disk.js'
import { errorCode, lockedError, movedError, openError, systemError } from './errors.js'
import { fileIdentity, openDirectory, unguardedDirectory } from './directory/open-directory.js'
import type { OpenDirectory } from './directory/open-directory.js'
import type { IndexDatabase, OpenIndex } from './index/index-database.js'
import { openIndexFile } from './index/index-file.js'
import { LevelStore } from './level-store.js'
import { loadIndex, reopenIndex } from './index/load-index.js'
import { indexName, segmentsName, sizeOf, writeManifest } from './directory/manifest.js'
import {
  claimDirectory,
  clearUnfinished,
  discardClaim,
  markerName,
  newStoreId,
  readMarker,
  requireUnused,
  writeMarker,
} from './directory/marker.js'
import type { Marker } from './directory/marker.js'
import { finishMigration, migrate } from './format-1/migration.js'
import { nodeDisk } from './directory/node-disk.js'
import { registerOpener } from './directory/process-lock.js'
import { findOwner, forgetOwner, noteOwner } from './directory/owner.js'
import { writeAgain } from './log/recovery.js'
import { Segments, createSegment, firstManifest } from './log/segments.js'
import { takeLevelLock } from './directory/store-lock.js'
import type { StoreLock, TakeLock } from './directory/store-lock.js'

export interface OpenLevelStoreOptions {
  readonly durability: 'full' | 'relaxed'
  /** The host's by default. On another disk the directory is not kept open, and no `owner.json` names the owner. */
  readonly disk?: Disk
  /** How the directory is kept: by default by a descriptor, and where the system has no such paths by its identity. */
  readonly hold?: 'descriptor' | 'identity'
  /** Takes LevelDB's lock by default. */
  readonly takeLock?: TakeLock
  /** Opens a file of the disk by default. */
  readonly openIndex?: OpenIndex
  /**
   * The id of a new store whose marker the caller writes, once the store is complete. Until then, no opener takes the
   * directory for a store. It must have no files, except for an empty directory of segments.
   */
  readonly unmarkedId?: string
  /** A new segment begins when the newest one would exceed this size, in bytes. */
  readonly segmentBytes?: number
  /** The index is flushed when this many entries are not in it yet. */
  readonly flushEntries?: number
  /** The index is flushed when frames of this many bytes are not in it yet. */
  readonly flushBytes?: number
}

/**
 * Opens the store in `directory`, or creates one there.
 *
 * A crash during creation leaves either a store, or an unfinished store that the next opening finishes. For
 * this, creation has a fixed order, and each step is synced before the next:
 * 1. the directory;
 * 2. the claim, an empty file that distinguishes an unfinished store from a foreign directory;
 * 3. the lock, which keeps out other processes for all further steps;
 * 4. the first segment, then the manifest;
 * 5. the contents of the claim, which is then renamed to the marker.
 *
 * Nothing is acknowledged before the marker exists. Once it exists, the manifest and the segments must exist
 * too.
 *
 * A failed creation removes its files.
 */
export async function openLevelStore(directory: string, options: OpenLevelStoreOptions): Promise<LevelStore> {
  const disk = options.disk ?? nodeDisk
  const isHost = disk === nodeDisk
  const { path, creation } = await makeDirectory(disk, directory, isHost)
  let handle: OpenDirectory | undefined
  let unregister: (() => void) | undefined
  const release = (): void => {
    unregister?.()
    handle?.close()
  }
  try {
    handle = isHost ? openDirectory(disk, path, options.hold) : unguardedDirectory(disk, path)
    unregister = registerOpener(handle.identity, path, join(handle.path, indexName, 'LOCK'))
    return await open({ handle, realPath: path, isHost, creation }, options, release)
  } catch (error) {
    // A second opener in this process must not touch the files of the first.
    if (unregister !== undefined && handle !== undefined) await creation.discardRest(handle.path)
    release()
    if (!(error instanceof EngineError)) throw openError(error)
    throw error.reason === 'STORE_LOCKED' && unregister !== undefined
      ? lockedError(error.cause, await findOwner(path))
      : error
  }
}

interface Place {
  readonly handle: OpenDirectory
  readonly realPath: string
  readonly isHost: boolean
  readonly creation: Creation
}

async function open(
  { handle, realPath, isHost, creation }: Place,
  options: OpenLevelStoreOptions,
  release: () => void,
): Promise<LevelStore> {
  const { path, disk } = handle
  const openIndex = options.openIndex ?? openIndexFile
  const takeLock = options.takeLock ?? takeLevelLock
  const indexPath = join(path, indexName)
  const before = await readMarker(disk, path)
  const { unmarkedId } = options
  if (unmarkedId !== undefined) await requireUnused(disk, path)
  else if (before === undefined) await claimDirectory(disk, { directory: path, realPath, indexName })
  else if (before.format === formats.orderedKeys) await migrate(disk, path, indexPath, before.storeId)

  let lock: StoreLock | undefined
  let db: IndexDatabase | undefined
  let segments: Segments | undefined
  let isNew = false
  try {
    lock = await takeLock(disk, { path: indexPath, realPath: join(realPath, indexName) })
    const marker = await lockedMarker(disk, path)
    isNew = marker === undefined
    const storeId = marker?.storeId ?? (await createStore(disk, path, unmarkedId))
    await finishMigration(disk, path)
    if (isHost) noteOwner(path)
    if (isHost) await restrictStore(disk, path)
    const taken = lock
    const isSegmentsAt = isHost
      ? whetherSame(join(path, segmentsName), join(realPath, segmentsName))
      : () => true
    const checkPlace = (): void => {
      taken.check()
      if (!isSegmentsAt()) throw movedError()
      segments?.checkHead()
    }
    segments = await Segments.open(disk, path, storeId, { checkPlace })
    db = await openIndex(disk, indexPath, { reset: false })
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
    const segmentBytes = options.segmentBytes ?? levelLimits.segmentBytes
    const forget = async (): Promise<void> => {
      // If the store knows its directory only by the path, another store may be at that path now.
      if (isHost && (path !== realPath || handle.isAtPath())) forgetOwner(path)
    }
    return new LevelStore({
      segments,
      log: new CommitLog(segments, replayed, { sync, segmentBytes, checkPlace }),
      index: loaded.index,
      reopenIndex: (damaged) => reopenIndex(opener, damaged),
      indexBytes: () => bytesIn(disk, indexPath),
      flushEntries: options.flushEntries ?? levelLimits.flushEntries,
      flushBytes: options.flushBytes ?? levelLimits.flushBytes,
      release: async () => {
        await forget()
        try {
          await taken.release()
        } finally {
          release()
        }
      },
    })
  } catch (error) {
    await db?.close().catch(ignore)
    await segments?.close().catch(ignore)
    if (lock !== undefined) {
      if (isNew) await creation.discardStore(disk, path)
      if (isHost) forgetOwner(path)
    }
    await lock?.release().catch(ignore)
    throw error
  }
}

/** Reads the marker again under the lock, because another creator may have finished meanwhile. */
async function lockedMarker(disk: Disk, path: string): Promise<Marker | undefined> {
  const marker = await readMarker(disk, path)
  if (marker === undefined) return undefined
  // Another process may have renamed the marker and ended before it synced the directory.
  await disk.syncDirectory(path)
  await discardClaim(disk, path)
  return marker
}

/**
 * Creates the first segment, the manifest and the marker, and returns the id of the store. Call this while holding the
 * lock.
 */
async function createStore(disk: Disk, path: string, unmarkedId: string | undefined): Promise<string> {
  await clearUnfinished(disk, path)
  const storeId = unmarkedId ?? newStoreId()
  await disk.makeDirectory(join(path, segmentsName))
  await createSegment(disk, path, { storeId, segment: 1, firstCommit: 1, chain: 0 })
  await writeManifest(disk, path, firstManifest(storeId))
  if (unmarkedId === undefined) await writeMarker(disk, path, storeId)
  return storeId
}

/**
 * Makes a store of an earlier version inaccessible to other users. The directory itself keeps its mode:
 * either this opening created it with the mode 0700, or its owner chose the mode and may keep other files in
 * it.
 */
async function restrictStore(disk: Disk, path: string): Promise<void> {
  for (const name of [segmentsName, indexName]) await disk.restrict?.(join(path, name), 'directory')
  await disk.restrict?.(join(path, markerName), 'file')
}

/**
 * The total size of the files in a directory. The lock file is not opened, because closing it would release
 * the lock.
 */
async function bytesIn(disk: Disk, directory: string): Promise<number> {
  let bytes = 0
  for (const name of await disk.list(directory)) {
    if (name !== 'LOCK') bytes += await sizeOf(disk, join(directory, name))
  }
  return bytes
}

/** Returns a function that checks whether `path` still leads to the directory that `now` leads to at this moment. */
function whetherSame(now: string, path: string): () => boolean {
  const identity = fileIdentity(now)
  return () => fileIdentity(path) === identity
}

/** Creates the directory and its parents if they do not exist, and returns its real path. */
async function makeDirectory(
  disk: Disk,
  directory: string,
  isHost: boolean,
): Promise<{ path: string; creation: Creation }> {
  try {
    const created = await disk.makeDirectory(directory)
    const path = isHost ? realpathSync.native(directory) : directory
    return { path, creation: await Creation.begin(path, isHost ? created : undefined) }
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST' || code === 'ENOTDIR') {
      throw new EngineError(
        'STORE_FORMAT',
        `${directory}, the path of the store, is not a directory. Choose another path`,
        {},
        { cause: error },
      )
    }
    throw systemError(error, `the directory ${directory} could not be created`)
  }
}

function ignore(): void {}
