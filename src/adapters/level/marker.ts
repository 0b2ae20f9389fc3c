/**
 * The marker file says that a directory is a store, of which format, and which one. It is written once,
 * last, when the store is complete; until then the claim stands in its place.
 */
import { randomUUID } from 'node:crypto'
import { readFile, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { EngineError, currentFormat } from '../../engine/ports.js'
import { syncDirectory, touchSynced, writeSynced } from './durable-file.js'
import { errorCode } from './errors.js'

const markerName = 'forkspace.json'
const claimName = 'forkspace.json.new'

export interface Marker {
  readonly format: number
  readonly storeId: string
}

/** The marker of a store of this format, or undefined when the directory has none. */
export async function readMarker(directory: string): Promise<Marker | undefined> {
  let text: string
  try {
    text = await readFile(join(directory, markerName), 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  return parseMarker(text)
}

/** Marks the directory as a store that is not finished yet; refuses one that holds anything else. */
export async function claimDirectory(directory: string, indexName: string): Promise<void> {
  const names = await readdir(directory)
  if (!names.includes(claimName) && names.length > 0) throw await foreign(directory, names, indexName)
  const other = names.find((name) => name !== claimName && name !== indexName)
  if (other !== undefined) throw await foreign(directory, names, indexName)
  await touchSynced(join(directory, claimName))
  await syncDirectory(directory)
}

/** Turns the claim into the marker. To be called under LevelDB's lock. */
export async function writeMarker(directory: string): Promise<void> {
  const marker: Marker = { format: currentFormat, storeId: randomUUID() }
  await writeSynced(join(directory, claimName), `${JSON.stringify(marker)}\n`)
  await rename(join(directory, claimName), join(directory, markerName))
  await syncDirectory(directory)
}

/** Removes the claim of a creator that came second. To be called under LevelDB's lock. */
export async function discardClaim(directory: string): Promise<void> {
  await rm(join(directory, claimName), { force: true })
}

function parseMarker(text: string): Marker {
  const supported = String(currentFormat)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw damaged({ format: 'unreadable', supported }, { cause: error })
  }
  if (typeof value !== 'object' || value === null) throw damaged({ format: 'unreadable', supported })
  const { format, storeId } = value as { format?: unknown; storeId?: unknown }
  if (!Number.isSafeInteger(format)) throw damaged({ format: 'unreadable', supported })
  // A newer format may keep anything else in its marker: look at nothing but the number.
  if (format !== currentFormat) {
    const details = { format: String(format), supported }
    throw new EngineError('STORE_FORMAT', 'the store has a format that this version does not read', details)
  }
  if (typeof storeId !== 'string') throw damaged({ format: String(format), supported })
  return { format: currentFormat, storeId }
}

function damaged(details: { format: string; supported: string }, options?: ErrorOptions): EngineError {
  return new EngineError('DATA_LOSS', `the marker file ${markerName} is damaged`, details, options)
}

async function foreign(directory: string, names: readonly string[], indexName: string): Promise<EngineError> {
  if (names.includes(indexName) && (await holdsLevel(join(directory, indexName)))) {
    return new EngineError('DATA_LOSS', `the marker file ${markerName} is missing`, { missing: markerName })
  }
  return new EngineError('STORE_FORMAT', 'the directory is not empty and is no store', {
    supported: String(currentFormat),
  })
}

async function holdsLevel(index: string): Promise<boolean> {
  try {
    const names = await readdir(index)
    return names.some((name) => name === 'CURRENT' || name.startsWith('MANIFEST-'))
  } catch {
    return false
  }
}
