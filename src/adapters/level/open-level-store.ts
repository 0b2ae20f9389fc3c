import { mkdir, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Level } from 'level'
import { EngineError } from '../../engine/ports.js'
import type { Store } from '../../engine/ports.js'
import { errorCode, lockedError, openError, systemError } from './errors.js'
import { syncDirectory } from './durable-file.js'
import { requireFiles } from './level-files.js'
import { LevelStore } from './level-store.js'
import { claimDirectory, discardClaim, readMarker, writeMarker } from './marker.js'
import { registerOpener } from './open-registry.js'
import { findOwner, forgetOwner, noteOwner } from './owner.js'

/** Where LevelDB keeps its files, below the directory of the store. */
const indexName = 'index'

/**
 * Opens the store in `directory`, or creates one there.
 *
 * The order of creation, so that a crash at any point leaves either a store or something that the next open
 * finishes: 1. the directory; 2. the claim, an empty file that tells an unfinished store from a foreign
 * directory; 3. LevelDB, whose lock from here on keeps out other processes; 4. the contents of the claim,
 * which is then renamed to the marker. Each step is synced before the next. Nothing is acknowledged before
 * the marker exists, and once it exists LevelDB's files must exist too.
 */
export async function openLevelStore(directory: string, durability: 'full' | 'relaxed'): Promise<Store> {
  const path = await makeDirectory(directory)
  const release = registerOpener(path, join(path, indexName, 'LOCK'))
  try {
    const db = await openDatabase(path)
    return new LevelStore(db, {
      sync: durability === 'full',
      onClosing: () => forgetOwner(path),
      onClosed: release,
    })
  } catch (error) {
    release()
    if (!(error instanceof EngineError)) throw systemError(error, 'the store could not be opened')
    throw error.reason === 'STORE_LOCKED' ? lockedError(error.cause, await findOwner(path)) : error
  }
}

async function openDatabase(path: string): Promise<Level<string, string>> {
  const index = join(path, indexName)
  const exists = (await readMarker(path)) !== undefined
  if (exists) await requireFiles(path, indexName)
  else await claimDirectory(path, indexName)

  const db = exists ? await openLevel(index, false) : await createLevel(index)
  try {
    // LevelDB renames CURRENT when it opens and leaves it to others to make that last.
    await syncDirectory(index)
    // A second creator may have finished between the first look and the lock.
    if (!exists && (await readMarker(path)) === undefined) await writeMarker(path)
    else await discardClaim(path)
    await noteOwner(path)
    return db
  } catch (error) {
    await db.close()
    throw error
  }
}

async function openLevel(index: string, createIfMissing: boolean): Promise<Level<string, string>> {
  const db = new Level<string, string>(index, { createIfMissing })
  try {
    await db.open()
    return db
  } catch (error) {
    throw openError(error)
  }
}

/** A power cut during creation can leave files that LevelDB refuses; they hold nothing acknowledged. */
async function createLevel(index: string): Promise<Level<string, string>> {
  try {
    return await openLevel(index, true)
  } catch (error) {
    if (!(error instanceof EngineError) || error.reason !== 'DATA_LOSS') throw error
    await destroyLevel(index)
    return openLevel(index, true)
  }
}

/** Takes LevelDB's lock, so that it never pulls files from under another creator. */
async function destroyLevel(index: string): Promise<void> {
  const level = Level as unknown as { destroy(location: string): Promise<void> }
  await level.destroy(index)
}

/** The real path of the directory, created together with its parents when it does not exist. */
async function makeDirectory(directory: string): Promise<string> {
  try {
    const first = await mkdir(directory, { recursive: true })
    if (first !== undefined) await syncParents(directory, first)
    return await realpath(directory)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EEXIST' || code === 'ENOTDIR') {
      throw new EngineError('STORE_FORMAT', 'the path is not a directory', {}, { cause: error })
    }
    throw systemError(error, 'the directory could not be created')
  }
}

async function syncParents(directory: string, firstCreated: string): Promise<void> {
  const top = dirname(firstCreated)
  let parent = directory
  do {
    parent = dirname(parent)
    await syncDirectory(parent)
  } while (parent !== top && parent !== dirname(parent))
}
