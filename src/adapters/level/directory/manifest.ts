/**
 * The list of the segments. Every segment in it must exist completely. Segments that are not in it hold no
 * acknowledged data.
 */
import { Buffer } from 'node:buffer'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { EngineError, isCount, isListOf, isText, isWith } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import type { Disk, DiskFile } from './disk.js'
import { errorCode, missingFiles, restoreOrRepair } from '../errors.js'
import { asBuffer } from '../log/segment-format.js'

/** The directory of the segments, in the directory of the store. */
export const segmentsName = 'segments'
/** The directory of the index and the lock. */
export const indexName = 'index'
export const manifestName = 'manifest'

/** A segment to which nothing is appended any more. */
export interface SealedSegment {
  readonly segment: number
  readonly bytes: number
  /** The number and checksum of its last commit. */
  readonly commit: number
  readonly chain: number
}

export interface Manifest {
  readonly storeId: string
  /** In the order of their numbers, all of which are below `head`. */
  readonly sealed: readonly SealedSegment[]
  /** The number of the newest segment, to which commits are appended. */
  readonly head: number
  /** The newest commit that is known to be on the disk. */
  readonly syncedTo: number
}

const isManifest = isWith<Manifest>({
  storeId: isText,
  sealed: isListOf(
    isWith<SealedSegment>({ segment: isCount, bytes: isCount, commit: isCount, chain: isCount }),
  ),
  head: isCount,
  syncedTo: isCount,
})

/**
 * Reads the manifest.
 *
 * @throws EngineError `DATA_LOSS` when it is missing or damaged.
 */
export async function readManifest(
  disk: Disk,
  directory: string,
  fileName: string = manifestName,
): Promise<Manifest> {
  const name = `${segmentsName}/${fileName}`
  const bytes = await readFile(disk, join(directory, name))
  if (bytes === undefined) throw missingFiles([name])
  const text = bytes.toString()
  const json = text.slice(0, text.indexOf('\n') + 1)
  const manifest = text.slice(json.length) === checksumLine(json) ? parseOrNothing(json) : undefined
  if (!isManifest(manifest))
    throw new EngineError('DATA_LOSS', `${name} is damaged. ${restoreOrRepair}`, { file: name })
  return manifest
}

/** Replaces the manifest durably and in one step. */
export async function writeManifest(
  disk: Disk,
  directory: string,
  manifest: Manifest,
  name: string = manifestName,
): Promise<void> {
  await writeManifestIn(disk, join(directory, segmentsName), manifest, name)
}

/** Writes the manifest to a directory of segments. */
export async function writeManifestIn(
  disk: Disk,
  segments: string,
  manifest: Manifest,
  name: string = manifestName,
): Promise<void> {
  const json = `${JSON.stringify(manifest)}\n`
  await replaceFile(disk, segments, name, json + checksumLine(json))
}

/**
 * Replaces the contents of a file durably and in one step: a crash leaves the old contents or the new ones.
 */
export async function replaceFile(disk: Disk, directory: string, name: string, text: string): Promise<void> {
  const path = join(directory, `${name}.new`)
  const file = await openOrCreate(disk, path)
  const bytes = Buffer.from(text)
  try {
    await file.write(0, [bytes])
    await file.truncate(bytes.length)
    await file.sync()
  } finally {
    await file.close()
  }
  await disk.rename(path, join(directory, name))
  await disk.syncDirectory(directory)
}

/**
 * Opens a file for reading and writing, and creates it if it does not exist. Existing bytes stay until they
 * are overwritten.
 */
export async function openOrCreate(disk: Disk, path: string): Promise<DiskFile> {
  try {
    return await disk.open(path, 'create')
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
    return disk.open(path, 'write')
  }
}

/** The contents of a file. Undefined if it does not exist. */
export async function readFile(disk: Disk, path: string): Promise<Buffer | undefined> {
  let file
  try {
    file = await disk.open(path, 'read')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    return asBuffer(await file.read(0, Math.min(await file.size(), levelLimits.manifestBytes)))
  } finally {
    await file.close()
  }
}

/** The size of a file in bytes. 0 if it does not exist. */
export async function sizeOf(disk: Disk, path: string): Promise<number> {
  try {
    const file = await disk.open(path, 'read')
    try {
      return await file.size()
    } finally {
      await file.close()
    }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return 0
    throw error
  }
}

/** Removes a file if it exists. */
export async function removeFile(disk: Disk, path: string): Promise<void> {
  try {
    await disk.remove(path)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
}

/** Parses JSON. Undefined if the text is not JSON. */
function parseOrNothing(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

function checksumLine(json: string): string {
  return `${crc32(json).toString(16).padStart(8, '0')}\n`
}
