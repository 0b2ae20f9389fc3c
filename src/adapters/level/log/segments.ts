import { join } from 'node:path'
import { EngineError, present } from '../../../engine/ports.js'
import type { Disk } from '../directory/disk.js'
import { damagedSegment, lostFile, missingFiles, restoreOrRepair } from '../errors.js'
import {
  openOrCreate,
  readManifest,
  removeFile,
  segmentsName,
  sizeOf,
  writeManifest,
} from '../directory/manifest.js'
import type { Manifest, SealedSegment } from '../directory/manifest.js'
import type { IndexPlace } from '../index/index-root.js'
import { levelLimits } from '../limits.js'
import { decodeSegmentHeader, encodeSegmentHeader, frameSeed, segmentHeaderBytes } from './segment-format.js'
import type { SegmentHeader } from './segment-format.js'
import { closeAll, SegmentFile, segmentName, segmentOf } from './segment-file.js'

/** The manifest of a new store. */
export function firstManifest(storeId: string): Manifest {
  return { storeId, sealed: [], head: 1, syncedTo: 0 }
}

/** Creates a segment with only a header, durably. */
export async function createSegment(disk: Disk, directory: string, header: SegmentHeader): Promise<void> {
  // A failed attempt may have left this file. It is overwritten and never removed, because the manifest may
  // list it.
  const file = await openOrCreate(disk, join(directory, segmentsName, segmentName(header.segment)))
  try {
    await file.write(0, [encodeSegmentHeader(header)])
    await file.truncate(segmentHeaderBytes)
    await file.sync()
  } finally {
    await file.close()
  }
  await disk.syncDirectory(join(directory, segmentsName))
}

export interface SegmentsOptions {
  /** The name of the manifest, if it is not the usual one. */
  readonly manifestName?: string
  /**
   * Called before each change of the directory.
   *
   * @throws EngineError `STORE_MOVED` when another store may be there by now.
   */
  readonly checkPlace?: () => void
}

/** The files of a store's segments, and their manifest. */
export class Segments {
  readonly disk: Disk
  readonly directory: string
  manifest: Manifest
  /** The value that the checksums of frames start from. */
  readonly seed: number
  readonly #files = new Map<number, SegmentFile>()
  readonly #headers = new Map<number, SegmentHeader>()
  /** The name of the manifest, if it is not the usual one. */
  readonly #name: string | undefined
  readonly #checkPlace: () => void
  #saving: Promise<void> = Promise.resolve()

  private constructor(disk: Disk, directory: string, manifest: Manifest, options: SegmentsOptions) {
    this.disk = disk
    this.directory = directory
    this.#name = options.manifestName
    this.#checkPlace = options.checkPlace ?? (() => {})
    this.manifest = manifest
    this.seed = frameSeed(manifest.storeId)
  }

  /**
   * Opens every segment in the manifest, and removes segments that are not in it.
   *
   * @throws EngineError `DATA_LOSS` when a segment is missing, damaged, too short, or of another store.
   */
  static async open(
    disk: Disk,
    directory: string,
    storeId: string,
    options: SegmentsOptions = {},
  ): Promise<Segments> {
    const manifest = await readManifest(disk, directory, options.manifestName)
    // Another process may have renamed the manifest and ended before it synced the directory.
    await disk.syncDirectory(join(directory, segmentsName))
    if (manifest.storeId !== storeId) {
      const message =
        `segments/manifest belongs to store ${manifest.storeId}, but forkspace.json to store ${storeId}. ` +
        restoreOrRepair
      throw new EngineError('DATA_LOSS', message, { file: 'segments/manifest' })
    }
    const segments = new Segments(disk, directory, manifest, options)
    await segments.#check()
    try {
      for (const { segment, bytes } of manifest.sealed) await segments.#open(segment, 'read', bytes)
      await segments.#open(manifest.head, 'write', undefined)
      segments.#checkOrder()
    } catch (error) {
      await segments.close()
      throw error
    }
    return segments
  }

  get head(): SegmentFile {
    return present(this.#files.get(this.manifest.head), 'the newest segment')
  }

  get bytes(): number {
    let bytes = 0
    for (const { end } of this.#files.values()) bytes += end
    return bytes
  }

  /** The numbers of all segments, in ascending order. */
  get numbers(): readonly number[] {
    return [...this.manifest.sealed.map(({ segment }) => segment), this.manifest.head]
  }

  has(segment: number): boolean {
    return this.#files.has(segment)
  }

  header(segment: number): SegmentHeader {
    return present(this.#headers.get(segment), 'the header of a segment')
  }

  /** @throws EngineError `DATA_LOSS` when no segment has this number. */
  file(segment: number): SegmentFile {
    const file = this.#files.get(segment)
    if (file === undefined) throw missingFiles([`${segmentsName}/${segmentName(segment)}`])
    return file
  }

  /** Whether the name of a segment still refers to the file that is open. */
  isInPlace(file: SegmentFile): boolean {
    return file.file.isAt?.(this.#path(file.segment)) !== false
  }

  /**
   * Requires that the head is still in place. Otherwise the next opener would not find the commits that are appended to it.
   *
   * @throws EngineError `STORE_MOVED`
   */
  checkHead(): void {
    const file = this.#files.get(this.manifest.head)
    if (file !== undefined && !this.isInPlace(file)) throw lostFile(`${segmentsName}/${file.name}`)
  }

  /**
   * Continues in a new segment. `last` is the last commit of the head, which the caller has synced. A head
   * without commits is removed, so that repeated disk failures do not leave more files than one failure.
   */
  async rotate(last: Pick<IndexPlace, 'commit' | 'chain'>): Promise<void> {
    const { storeId, head } = this.manifest
    const { end } = this.head
    const header = { storeId, segment: head + 1, firstCommit: last.commit + 1, chain: last.chain }
    const isEmpty = end === segmentHeaderBytes
    const sealed = isEmpty ? [] : [{ segment: head, bytes: end, commit: last.commit, chain: last.chain }]
    await this.#close(head + 1)
    this.#checkPlace()
    await createSegment(this.disk, this.directory, header)
    await this.#open(head + 1, 'write', undefined)
    await this.#change((manifest) => ({
      storeId,
      sealed: [...manifest.sealed, ...sealed],
      head: head + 1,
      syncedTo: last.commit,
    }))
    // If this fails, the next opening removes the file.
    if (isEmpty) await this.#discard(head).catch(() => {})
  }

  /** Records in the manifest that the commit is on the disk. If it is missing later, this is noticed. */
  async noteSynced(syncedTo: number): Promise<void> {
    if (syncedTo <= this.manifest.syncedTo) return
    await this.#change((manifest) => ({ ...manifest, syncedTo: Math.max(syncedTo, manifest.syncedTo) }))
  }

  /** Removes a sealed segment that has no needed entries. */
  async remove(segment: number): Promise<void> {
    await this.#change((manifest) => ({
      ...manifest,
      sealed: manifest.sealed.filter((other) => other.segment !== segment),
    }))
    await this.#discard(segment)
  }

  close(): Promise<void> {
    return closeAll(this.#files.values())
  }

  /** Changes the manifest. Changes run one after the other. */
  async #change(change: (manifest: Manifest) => Manifest): Promise<void> {
    const saved = this.#saving.then(async () => {
      const manifest = change(this.manifest)
      this.#checkPlace()
      await writeManifest(this.disk, this.directory, manifest, this.#name)
      this.manifest = manifest
    })
    this.#saving = saved.catch(() => {})
    await saved
  }

  async #close(segment: number): Promise<void> {
    const file = this.#files.get(segment)
    this.#files.delete(segment)
    this.#headers.delete(segment)
    await file?.close()
  }

  async #discard(segment: number): Promise<void> {
    await this.#close(segment)
    this.#checkPlace()
    await removeFile(this.disk, this.#path(segment))
  }

  #path(segment: number): string {
    return join(this.directory, segmentsName, segmentName(segment))
  }

  /** Requires that every segment exists, and removes all other segments, which an interrupted step left. */
  async #check(): Promise<void> {
    const names = await this.disk.list(join(this.directory, segmentsName))
    const wanted = new Set(this.numbers)
    const missing = [...wanted].filter((segment) => !names.includes(segmentName(segment)))
    if (missing.length > 0) {
      throw missingFiles(
        missing.slice(0, levelLimits.namedFiles).map((segment) => `${segmentsName}/${segmentName(segment)}`),
      )
    }
    for (const name of names) {
      const segment = segmentOf(name)
      if (segment === undefined || wanted.has(segment)) continue
      await this.#checkEmpty(segment)
      await removeFile(this.disk, this.#path(segment))
    }
  }

  /**
   * Requires that a segment after the head has no frames. It has some only if the manifest was replaced by an
   * older one.
   */
  async #checkEmpty(segment: number): Promise<void> {
    if (segment < this.manifest.head) return
    if ((await sizeOf(this.disk, this.#path(segment))) > segmentHeaderBytes)
      throw damagedSegment(segmentName(segment), 0)
  }

  /**
   * Opens a segment. `bytes` is the size of a sealed one.
   *
   * @throws EngineError `DATA_LOSS` when the header is damaged or that of another segment, or a sealed
   *   segment is too short.
   */
  async #open(segment: number, mode: 'read' | 'write', bytes: number | undefined): Promise<void> {
    const name = segmentName(segment)
    const file = await this.disk.open(this.#path(segment), mode)
    const opened = new SegmentFile(segment, file, 0)
    this.#files.set(segment, opened)
    const end = await file.size()
    opened.end = end
    const header = decodeSegmentHeader(await file.read(0, segmentHeaderBytes))
    if (header === undefined) throw damagedSegment(name, 0)
    if (header.storeId !== this.manifest.storeId || header.segment !== segment) throw damagedSegment(name, 8)
    if (bytes !== undefined) {
      if (end < bytes) throw damagedSegment(name, end)
      // Further bytes were cut off before the segment was sealed, but the cut did not reach the disk.
      opened.end = bytes
    }
    this.#headers.set(segment, header)
  }

  /** Requires that each segment continues where the one before it ended, if that one still exists. */
  #checkOrder(): void {
    let before: SealedSegment | undefined
    for (const segment of this.numbers) {
      const header = this.header(segment)
      if (before !== undefined && before.segment === segment - 1) {
        const follows = header.firstCommit === before.commit + 1 && header.chain === before.chain
        if (!follows) throw damagedSegment(segmentName(segment), 28)
      }
      before = this.manifest.sealed.find((sealed) => sealed.segment === segment)
    }
  }
}
