import { join } from 'node:path'
import { EngineError, formats } from '../../../engine/ports.js'
import type { StoreFinding } from '../../../engine/ports.js'
import type { Disk } from '../directory/disk.js'
import { errorCode } from '../errors.js'
import { openDirectory, unguardedDirectory } from '../directory/open-directory.js'
import type { OpenDirectory } from '../directory/open-directory.js'
import { FileAsOpened } from './file-as-opened.js'
import { manifestName, readManifest, segmentsName } from '../directory/manifest.js'
import type { Manifest } from '../directory/manifest.js'
import { markerName, readMarker } from '../directory/marker.js'
import { migratedName } from '../format-1/migration.js'
import { nodeDisk } from '../directory/node-disk.js'
import { levelLimits } from '../limits.js'
import { closeAll, SegmentFile, segmentName, segmentOf } from '../log/segment-file.js'
import { decodeSegmentHeader, segmentHeaderBytes } from '../log/segment-format.js'
import type { SegmentHeader } from '../log/segment-format.js'

/** A segment as it was when it was opened. */
export interface StoredSegment {
  readonly file: SegmentFile
  /** All bytes from here on are zeros. They are reserved space, or belong to the last commit. */
  readonly dataEnd: number
  /** Undefined when it is damaged. */
  readonly header: SegmentHeader | undefined
}

/**
 * The files of a store, opened only for reading. No lock is taken, so the store may be in use. Nothing is
 * created, written or removed. Open files stay readable when the store removes them.
 */
export class StoredFiles {
  /**
   * A path that leads to the directory as long as this is open. If the system has paths for descriptors, this
   * holds even when the directory is moved.
   */
  readonly directory: string
  readonly disk: Disk
  readonly storeId: string
  /** Undefined when it is missing or damaged. */
  readonly manifest: Manifest | undefined
  /** In the order of their numbers. */
  readonly segments: readonly StoredSegment[]
  /** The missing and damaged parts of marker, manifest and headers. */
  readonly findings: readonly StoreFinding[]
  readonly #handle: OpenDirectory

  private constructor(
    handle: OpenDirectory,
    opened: Pick<StoredFiles, 'storeId' | 'manifest' | 'segments' | 'findings'>,
  ) {
    this.#handle = handle
    this.directory = handle.path
    this.disk = handle.disk
    this.storeId = opened.storeId
    this.manifest = opened.manifest
    this.segments = opened.segments
    this.findings = opened.findings
  }

  /**
   * Opens the files as they are at one moment, even if the store is in use. `directory` is its real path.
   *
   * @throws EngineError `STORE_FORMAT` when the directory has no store, or one of another format.
   */
  static async open(disk: Disk, directory: string): Promise<StoredFiles> {
    const handle = disk === nodeDisk ? openDirectory(disk, directory) : unguardedDirectory(disk, directory)
    try {
      return await StoredFiles.#open(handle, directory)
    } catch (error) {
      handle.close()
      throw error
    }
  }

  static async #open(handle: OpenDirectory, shownPath: string): Promise<StoredFiles> {
    const { disk, path: directory } = handle
    const { marker, findings } = await lookAtMarker(disk, directory)
    for (let look = 1; ; look++) {
      const name = await nameOfManifest(disk, directory)
      const before = await lookAtManifest(disk, directory, name)
      const names = await disk.list(join(directory, segmentsName))
      const inDirectory = names
        .map(segmentOf)
        .filter((segment) => segment !== undefined)
        .sort((a, b) => a - b)
      const wanted = before.manifest === undefined ? inDirectory : numbersOf(before.manifest)
      const { segments, missing } = await openSegments(disk, directory, wanted)
      try {
        const after = await lookAtManifest(disk, directory, await nameOfManifest(disk, directory))
        if (before.text !== after.text && look < levelLimits.manifestLooks) {
          await closeAll(filesOf(segments))
          continue
        }
        const storeId = commonest([
          marker,
          before.manifest?.storeId,
          ...segments.map(({ header }) => header?.storeId),
        ])
        const isStore = storeId !== undefined && (marker !== undefined || segments.length > 0)
        if (!isStore) throw noStore(shownPath)
        const opened = { storeId, manifest: before.manifest, segments }
        return new StoredFiles(handle, {
          ...opened,
          findings: [...findings, ...before.findings, ...missing, ...findingsOf(opened, marker)],
        })
      } catch (error) {
        await closeAll(filesOf(segments))
        throw error
      }
    }
  }

  get bytes(): number {
    let bytes = 0
    for (const { file } of this.segments) bytes += file.end
    return bytes
  }

  async close(): Promise<void> {
    try {
      await closeAll(filesOf(this.segments))
    } finally {
      this.#handle.close()
    }
  }
}

export function fileFinding(problem: StoreFinding['problem'], name: string, message: string): StoreFinding {
  return { problem, object: `file ${name}`, message }
}

export function segmentPath(segment: number): string {
  return `${segmentsName}/${segmentName(segment)}`
}

async function lookAtMarker(
  disk: Disk,
  directory: string,
): Promise<{ marker: string | undefined; findings: readonly StoreFinding[] }> {
  try {
    const marker = await readMarker(disk, directory)
    if (marker?.format === formats.orderedKeys) throw olderFormat()
    if (marker !== undefined) return { marker: marker.storeId, findings: [] }
    return { marker: undefined, findings: [fileFinding('missing', markerName, 'does not exist')] }
  } catch (error) {
    const finding = unreadable(markerName, error)
    if (finding !== undefined) return { marker: undefined, findings: [finding] }
    if (!(error instanceof EngineError) || error.reason !== 'DATA_LOSS') throw error
    return { marker: undefined, findings: [fileFinding('damaged', markerName, error.message)] }
  }
}

/** The name of the manifest, which is a different one during a part of a migration. */
async function nameOfManifest(disk: Disk, directory: string): Promise<string> {
  const names = await disk.list(join(directory, segmentsName))
  return !names.includes(manifestName) && names.includes(migratedName) ? migratedName : manifestName
}

async function lookAtManifest(
  disk: Disk,
  directory: string,
  name: string,
): Promise<{ manifest: Manifest | undefined; text: string; findings: readonly StoreFinding[] }> {
  try {
    const manifest = await readManifest(disk, directory, name)
    return { manifest, text: JSON.stringify(manifest), findings: [] }
  } catch (error) {
    const unread = unreadable(`${segmentsName}/${name}`, error)
    if (unread !== undefined) return { manifest: undefined, text: unread.message, findings: [unread] }
    if (!(error instanceof EngineError)) throw error
    const problem = error.details['missing'] === undefined ? 'damaged' : 'missing'
    const finding = fileFinding(problem, `${segmentsName}/${name}`, error.message)
    return { manifest: undefined, text: error.message, findings: [finding] }
  }
}

function numbersOf({ sealed, head }: Manifest): number[] {
  return [...sealed.map(({ segment }) => segment), head]
}

async function openSegments(
  disk: Disk,
  directory: string,
  numbers: readonly number[],
): Promise<{ segments: StoredSegment[]; missing: StoreFinding[] }> {
  const segments: StoredSegment[] = []
  const missing: StoreFinding[] = []
  try {
    for (const segment of numbers) {
      try {
        segments.push(await openSegment(disk, directory, segment))
      } catch (error) {
        const finding =
          errorCode(error) === 'ENOENT'
            ? fileFinding('missing', segmentPath(segment), 'does not exist')
            : unreadable(segmentPath(segment), error)
        if (finding === undefined) throw error
        missing.push(finding)
      }
    }
  } catch (error) {
    await closeAll(filesOf(segments))
    throw error
  }
  return { segments, missing }
}

async function openSegment(disk: Disk, directory: string, segment: number): Promise<StoredSegment> {
  const opened = await disk.open(join(directory, segmentsName, segmentName(segment)), 'read')
  try {
    const asOpened = await FileAsOpened.of(opened)
    const file = new SegmentFile(segment, asOpened, await asOpened.size())
    const header = decodeSegmentHeader(await asOpened.read(0, segmentHeaderBytes))
    return { file, dataEnd: asOpened.dataEnd, header }
  } catch (error) {
    await opened.close()
    throw error
  }
}

/**
 * The finding about a file that cannot be read because its disk fails or it is not a file. Undefined if only
 * the caller lacks access.
 */
export function unreadable(name: string, error: unknown): StoreFinding | undefined {
  const code = errorCode(error)
  if (code === undefined || !['EIO', 'EISDIR', 'ENOTDIR', 'ELOOP', 'ENXIO', 'ESPIPE'].includes(code))
    return undefined
  return fileFinding('damaged', name, `cannot be read: ${code}`)
}

function findingsOf(
  { storeId, manifest, segments }: Pick<StoredFiles, 'storeId' | 'manifest' | 'segments'>,
  marker: string | undefined,
): StoreFinding[] {
  const findings: StoreFinding[] = []
  if (marker !== undefined && marker !== storeId)
    findings.push(fileFinding('damaged', markerName, 'belongs to another store'))
  if (manifest !== undefined && manifest.storeId !== storeId)
    findings.push(fileFinding('damaged', `${segmentsName}/${manifestName}`, 'belongs to another store'))
  for (const { file, header } of segments) {
    const name = segmentPath(file.segment)
    if (header === undefined) findings.push(fileFinding('damaged', name, 'byte 0: the header is damaged'))
    else if (header.storeId !== storeId || header.segment !== file.segment)
      findings.push(fileFinding('damaged', name, 'byte 8: the header names another store or segment number'))
  }
  return findings
}

/** The id that occurs most often. If there are several, the first of them. */
function commonest(ids: readonly (string | undefined)[]): string | undefined {
  const counts = new Map<string, number>()
  for (const id of ids) if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1)
  let best: string | undefined
  let most = 0
  for (const [id, count] of counts) {
    if (count <= most) continue
    best = id
    most = count
  }
  return best
}

function filesOf(segments: readonly StoredSegment[]): SegmentFile[] {
  return segments.map(({ file }) => file)
}

function noStore(directory: string): EngineError {
  return new EngineError(
    'STORE_FORMAT',
    `there is no store in ${directory}. Pass the directory that has the file forkspace.json`,
  )
}

function olderFormat(): EngineError {
  return new EngineError(
    'STORE_FORMAT',
    'the store has format 1. Open it with an engine, which converts it to format 2, and try again',
    { format: String(formats.orderedKeys), supported: String(formats.segments) },
  )
}
