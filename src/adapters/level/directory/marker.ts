/**
 * The marker file identifies a directory as a store, with its format and id. It is written last, when the
 * store is complete, and again for each new format. Until then, the claim takes its place.
 */
import { Buffer } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { EngineError, currentFormat, formats } from '../../../engine/ports.js'
import type { Disk } from './disk.js'
import { missingFiles, restoreOrRepair } from '../errors.js'
import { manifestName, readFile, removeFile, segmentsName, sizeOf } from './manifest.js'
import { segmentOf } from '../log/segment-file.js'
import { segmentHeaderBytes } from '../log/segment-format.js'

export const markerName = 'forkspace.json'
export const claimName = 'forkspace.json.new'

export interface Marker {
  readonly format: number
  readonly storeId: string
}

/**
 * Reads the marker. Undefined if the directory has none.
 *
 * @throws EngineError `STORE_FORMAT` when this version cannot read the format, `DATA_LOSS` when the marker is
 *   damaged.
 */
export async function readMarker(disk: Disk, directory: string): Promise<Marker | undefined> {
  const bytes = await readFile(disk, join(directory, markerName))
  return bytes && parseMarker(bytes.toString())
}

interface Unmarked {
  readonly directory: string
  /** The path of the directory, for errors. */
  readonly realPath: string
  readonly indexName: string
}

/** Marks the directory as an unfinished store. Rejects a directory with other contents. */
export async function claimDirectory(disk: Disk, unmarked: Unmarked): Promise<void> {
  const { directory, indexName } = unmarked
  const names = await disk.list(directory)
  if (!names.includes(claimName) && names.length > 0) throw await foreign(disk, unmarked, names)
  const other = names.find((name) => name !== claimName && name !== indexName && name !== segmentsName)
  if (other !== undefined) throw await foreign(disk, unmarked, names)
  if (!names.includes(claimName)) {
    const file = await disk.open(join(directory, claimName), 'create').catch(exists)
    await file?.close()
  }
  await disk.syncDirectory(directory)
}

/** Requires that the directory has nothing but an empty directory of segments. */
export async function requireUnused(disk: Disk, directory: string): Promise<void> {
  const names = [...(await disk.list(directory)), ...(await disk.list(join(directory, segmentsName)))]
  if (names.some((name) => name !== segmentsName))
    throw new EngineError('ALREADY_EXISTS', 'the directory has other files. Choose an empty one')
}

/**
 * Turns the claim into the marker, or replaces the marker by one of this format. Call this while holding
 * LevelDB's lock.
 */
export async function writeMarker(disk: Disk, directory: string, storeId: string): Promise<Marker> {
  const marker: Marker = { format: currentFormat, storeId }
  const claim = join(directory, claimName)
  // The claim exists until the marker does: it distinguishes an unfinished store from one that lost its
  // marker.
  const file = (await disk.open(claim, 'create').catch(exists)) ?? (await disk.open(claim, 'write'))
  try {
    await file.truncate(0)
    await file.write(0, [Buffer.from(`${JSON.stringify(marker)}\n`)])
    await file.sync()
  } finally {
    await file.close()
  }
  await disk.rename(claim, join(directory, markerName))
  await disk.syncDirectory(directory)
  return marker
}

export function newStoreId(): string {
  return randomUUID()
}

/**
 * Removes the claim of a process that tried to create the same store and came second. Call this while holding
 * LevelDB's lock.
 */
export async function discardClaim(disk: Disk, directory: string): Promise<void> {
  await removeFile(disk, join(directory, claimName))
}

/**
 * Removes the segments that an interrupted creation left. Call this while holding LevelDB's lock.
 *
 * @throws EngineError `DATA_LOSS` when they contain commits: then the store was finished and has lost its
 *   marker.
 */
export async function clearUnfinished(disk: Disk, directory: string): Promise<void> {
  const segments = join(directory, segmentsName)
  if (await hasCommits(disk, directory)) throw missingFiles([markerName])
  for (const name of await disk.list(segments)) await removeFile(disk, join(segments, name))
}

async function hasCommits(disk: Disk, directory: string): Promise<boolean> {
  const segments = join(directory, segmentsName)
  for (const name of await disk.list(segments)) {
    if (segmentOf(name) === undefined) continue
    if ((await sizeOf(disk, join(segments, name))) > segmentHeaderBytes) return true
  }
  return false
}

function parseMarker(text: string): Marker {
  const supported = String(currentFormat)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw damaged('it is not JSON', { cause: error })
  }
  if (typeof value !== 'object' || value === null) throw damaged('it is not a JSON object')
  const { format, storeId } = value as { format?: unknown; storeId?: unknown }
  if (typeof format !== 'number' || !Number.isSafeInteger(format))
    throw damaged('its "format" is not a whole number')
  // Only the format is read first, because the marker of another format may have any other fields.
  if (format !== currentFormat && format !== formats.orderedKeys) {
    const details = { format: String(format), supported }
    throw new EngineError(
      'STORE_FORMAT',
      `the store has format ${format}, and this version reads up to ${supported}. Open it with a newer version`,
      details,
    )
  }
  if (typeof storeId !== 'string') throw damaged('its "storeId" is missing', {}, String(format))
  return { format, storeId }
}

function damaged(what: string, options?: ErrorOptions, format = 'unreadable'): EngineError {
  const supported = String(currentFormat)
  return new EngineError(
    'DATA_LOSS',
    `${markerName} is damaged: ${what}. This version reads formats up to ${supported}. ${restoreOrRepair}`,
    { format, supported },
    options,
  )
}

async function foreign(
  disk: Disk,
  { directory, realPath, indexName }: Unmarked,
  names: readonly string[],
): Promise<EngineError> {
  const inSegments = names.includes(segmentsName) ? await disk.list(join(directory, segmentsName)) : []
  const isStore =
    inSegments.includes(manifestName) ||
    (names.includes(indexName) && (await holdsLevel(disk, join(directory, indexName))))
  if (isStore) return missingFiles([markerName])
  return new EngineError(
    'STORE_FORMAT',
    `${realPath} has files but no store. Choose an empty directory, or the directory of a store`,
    { supported: String(currentFormat) },
  )
}

async function holdsLevel(disk: Disk, index: string): Promise<boolean> {
  try {
    const names = await disk.list(index)
    return names.some((name) => name === 'CURRENT' || name.startsWith('MANIFEST-'))
  } catch {
    return false
  }
}

function exists(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return undefined
  throw error
}
