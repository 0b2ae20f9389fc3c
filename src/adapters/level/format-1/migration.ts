/**
 * Migrates stores of format 1, which kept all data in LevelDB, when they are opened. Until the marker has
 * format 2, the old store is complete and unchanged. From then on, the segments are complete. After a crash,
 * both may exist. The name of the new manifest distinguishes them: it differs until the marker is replaced.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { EngineError, formats } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import { CommitLog } from '../log/commit-log.js'
import type { Disk } from '../directory/disk.js'
import { openError, readError, restoreOrRepair } from '../errors.js'
import { FrameBuilder } from '../log/frame.js'
import { requireWholeFiles } from './level-files.js'
import { manifestName, removeFile, segmentsName, writeManifest } from '../directory/manifest.js'
import { readMarker, writeMarker } from '../directory/marker.js'
import { firstPlace } from '../log/recovery.js'
import { entryKind, toBinary } from '../log/segment-format.js'
import { Segments, createSegment, firstManifest } from '../log/segments.js'

export const migratedName = 'manifest.migrated'

/** Converts a store of format 1 to format 2. It holds LevelDB's lock meanwhile. */
export async function migrate(disk: Disk, path: string, indexPath: string, storeId: string): Promise<void> {
  const names = await disk.list(join(path, segmentsName))
  // The store has format 2 and is finished, so its marker is damaged.
  if (names.includes(manifestName)) {
    const message = `forkspace.json is damaged: it says format 1, but the store has format 2. ${restoreOrRepair}`
    throw new EngineError('DATA_LOSS', message)
  }
  let db: ClassicLevel<string, Uint8Array>
  try {
    await requireWholeFiles(path, 'index')
    db = await openOld(indexPath)
  } catch (error) {
    // Another opener may have converted the store meanwhile, and removed the old files.
    if ((await readMarker(disk, path))?.format !== formats.orderedKeys) return
    throw error
  }
  try {
    // Another opener may have converted the store meanwhile.
    if ((await readMarker(disk, path))?.format !== formats.orderedKeys) return
    // The files are listed again under the lock, because another migration may have been interrupted since.
    for (const name of await disk.list(join(path, segmentsName)))
      await removeFile(disk, join(path, segmentsName, name))
    await copyAll(db, disk, path, storeId)
    await writeMarker(disk, path, storeId)
  } finally {
    await db.close()
  }
}

async function openOld(indexPath: string): Promise<ClassicLevel<string, Uint8Array>> {
  const db = new ClassicLevel<string, Uint8Array>(indexPath, {
    createIfMissing: false,
    valueEncoding: 'view',
  })
  try {
    await db.open()
  } catch (error) {
    throw openError(error)
  }
  return db
}

/**
 * Gives the manifest its final name. Call this while holding LevelDB's lock, when the marker has format 2.
 */
export async function finishMigration(disk: Disk, path: string): Promise<void> {
  const directory = join(path, segmentsName)
  const names = await disk.list(directory)
  if (names.includes(manifestName) || !names.includes(migratedName)) return
  await disk.rename(join(directory, migratedName), join(directory, manifestName))
  await disk.syncDirectory(directory)
}

async function copyAll(
  db: ClassicLevel<string, Uint8Array>,
  disk: Disk,
  path: string,
  storeId: string,
): Promise<void> {
  await disk.makeDirectory(join(path, segmentsName))
  await createSegment(disk, path, { storeId, segment: 1, firstCommit: 1, chain: 0 })
  await writeManifest(disk, path, firstManifest(storeId), migratedName)
  const segments = await Segments.open(disk, path, storeId, { manifestName: migratedName })
  try {
    const place = firstPlace(segments)
    const start = { place, syncedTo: 0, syncedEnd: place.offset }
    const log = new CommitLog(segments, start, {
      sync: false,
      segmentBytes: levelLimits.segmentBytes,
      checkPlace() {},
    })
    let frame = new FrameBuilder(levelLimits.migratedBytes)
    for await (const [key, value] of entriesOf(db)) {
      addEntry(frame, key, value)
      if (frame.length < levelLimits.migratedBytes) continue
      await log.append([frame])
      frame = new FrameBuilder(levelLimits.migratedBytes)
    }
    await log.append([frame])
    await log.finish()
  } finally {
    await segments.close()
  }
}

async function* entriesOf(
  db: ClassicLevel<string, Uint8Array>,
): AsyncGenerator<[key: string, value: Uint8Array]> {
  try {
    for await (const entry of db.iterator({ highWaterMarkBytes: levelLimits.migratedBytes })) yield entry
  } catch (error) {
    throw readError(error)
  }
}

const blobKey = /^b[0-9a-f]{64}$/

/**
 * Adds an entry of format 1. In this format, events and blobs were records: keys of events begin with `e`,
 * and keys of blobs with `b`.
 */
function addEntry(frame: FrameBuilder, key: string, value: Uint8Array): void {
  if (blobKey.test(key)) {
    const hash = createHash('sha256').update(value).digest('hex')
    // A damaged blob is left out. With a new checksum, it would count as intact.
    if (hash === key.slice(1)) frame.blob(hash, value)
    return
  }
  const text = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString()
  if (key.startsWith('e')) frame.text(entryKind.event, toBinary(key.slice(1)), text)
  else frame.text(entryKind.put, toBinary(key), text)
}
