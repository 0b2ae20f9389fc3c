import { join } from 'node:path'
import { EngineError, Shape, present } from '../../../engine/ports.js'
import { levelLimits } from '../limits.js'
import { asEngineError } from './check-store.js'
import { damagedSegment } from '../errors.js'
import { FrameScanner, laterFrameNeeds } from '../log/frame-scanner.js'
import { checkOptions, existingDirectory, parseDirectory } from '../host.js'
import { writeManifestIn } from '../directory/manifest.js'
import type { Manifest, SealedSegment } from '../directory/manifest.js'
import { nodeDisk } from '../directory/node-disk.js'
import { segmentName } from '../log/segment-file.js'
import type { SegmentFile } from '../log/segment-file.js'
import {
  encodeSegmentHeader,
  frameHeaderBytes,
  frameSeed,
  readFrameHeader,
  segmentHeaderBytes,
} from '../log/segment-format.js'
import { StoredFiles } from './stored-files.js'
import type { StoredSegment } from './stored-files.js'
import { TargetDirectory } from './target-directory.js'

/** Options of {@link backupStore}. */
export interface StoreBackupOptions {
  /** Ends the backup with the signal's reason, and removes the written files. */
  readonly signal?: AbortSignal
  /** Called with the progress after each written piece. */
  readonly onProgress?: (progress: StoreBackupProgress) => void
}

const optionsShape = new Shape<StoreBackupOptions>({ signal: true, onProgress: true })

/** The progress of a backup. */
export interface StoreBackupProgress {
  /** Bytes copied so far. */
  readonly copiedBytes: number
  /** Bytes to copy in total. */
  readonly totalBytes: number
}

/** The result of a backup. */
export interface StoreBackup {
  /** The absolute path of the backup. */
  readonly directory: string
  /** Bytes of the copied segment files. */
  readonly bytes: number
  /** The number of the newest commit in the backup. */
  readonly commit: number
}

/**
 * Copies the store in a directory to another directory, which must be missing or empty. Meanwhile the store
 * may be in use, by this process or by another one.
 *
 * The copy is itself a store: to restore it, open it. It contains every commit that was acknowledged before
 * this call. It may contain later commits, up to some moment. The backup takes no lock and delays no user of
 * the store.
 *
 * Every copied byte is verified. The index is not copied, because the first opening rebuilds it. Other files
 * in the directory, such as a key of secrets, are not copied either.
 *
 * The marker, which makes the copy a store, is written last, when everything else is on the disk. So an
 * interrupted backup is never mistaken for a store.
 *
 * Other users of the system cannot read the copy.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an argument has the wrong form, or the target is the store's
 *   directory or below it, whatever path leads there
 * @throws {EngineError} STORE_FORMAT when the directory has no store, or one of another format
 * @throws {EngineError} ALREADY_EXISTS when the target is not empty
 * @throws {EngineError} DATA_LOSS when files of the store are damaged or missing: {@link checkStore} lists
 *   them, and {@link repairStore} saves the rest
 * @throws {EngineError} STORE_MOVED when the target is moved, removed or replaced meanwhile
 * @throws {EngineError} STORE_FULL, PERMISSION_DENIED, STORE_FAILED when a directory cannot be read or
 *   written
 *
 * @example
 * import { backupStore } from 'forkspace/level'
 *
 * await backupStore('./data', `/backups/${new Date().toISOString()}`)
 */
export async function backupStore(
  directory: string,
  target: string,
  options: StoreBackupOptions = {},
): Promise<StoreBackup> {
  const { signal, onProgress } = optionsShape.read(options, 'options')
  checkOptions(signal, onProgress)
  const from = parseDirectory('directory', directory)
  const to = parseDirectory('target', target)
  signal?.throwIfAborted()
  try {
    const source = await existingDirectory(from)
    const files = await StoredFiles.open(nodeDisk, source)
    try {
      requireWhole(files)
      const copy = await TargetDirectory.claim('target', to, source)
      try {
        const { bytes, commit } = await copyStore(files, copy, { signal, onProgress })
        return { directory: to, bytes, commit }
      } catch (error) {
        await copy.discard()
        throw error
      } finally {
        copy.close()
      }
    } finally {
      await files.close()
    }
  } catch (error) {
    throw asEngineError(error, signal)
  }
}

function requireWhole({ findings }: StoredFiles): void {
  const [finding] = findings
  if (finding === undefined) return
  throw new EngineError('DATA_LOSS', `${finding.object}: ${finding.message}`, {
    file: finding.object.replace(/^file /, ''),
  })
}

interface CopyOptions {
  readonly signal: AbortSignal | undefined
  readonly onProgress: ((progress: StoreBackupProgress) => void) | undefined
}

async function copyStore(
  files: StoredFiles,
  target: TargetDirectory,
  { signal, onProgress }: CopyOptions,
): Promise<Omit<StoreBackup, 'directory'>> {
  const { segments, storeId } = files
  const manifest = present(files.manifest, 'the manifest of the store')
  let totalBytes = files.bytes
  let copiedBytes = 0
  const step = (bytes: number): void => {
    signal?.throwIfAborted()
    copiedBytes += bytes
    onProgress?.({ copiedBytes, totalBytes })
  }
  const skip = (bytes: number): void => {
    totalBytes -= bytes
  }
  let commit = 0
  for (const segment of segments) {
    const sealed = manifest.sealed.find((one) => one.segment === segment.file.segment)
    commit = await copySegment(segment, { target, sealed, manifest }, { step, skip })
  }
  await target.writing(async () => {
    await target.disk.syncDirectory(target.segmentsPath)
    await writeManifestIn(target.disk, target.segmentsPath, { ...manifest, syncedTo: commit })
    await target.disk.syncDirectory(target.path)
  })
  await target.finish(storeId)
  return { bytes: copiedBytes, commit }
}

interface Progress {
  /** Called when bytes were copied. */
  readonly step: (bytes: number) => void
  /** Called with bytes that are not copied, because they follow the last commit of a segment. */
  readonly skip: (bytes: number) => void
}

/** Copies all intact frames and returns the number of the last one. */
async function copySegment(
  { file, dataEnd, header }: StoredSegment,
  to: {
    readonly target: TargetDirectory
    readonly sealed: SealedSegment | undefined
    readonly manifest: Manifest
  },
  { step, skip }: Progress,
): Promise<number> {
  const { target, sealed, manifest } = to
  const last = Math.min(file.end, sealed?.bytes ?? file.end)
  if (sealed !== undefined && last < sealed.bytes) throw damagedSegment(file.name, last)
  const path = join(target.segmentsPath, segmentName(file.segment))
  const copy = await target.writing(() => target.disk.open(path, 'create'))
  try {
    const segmentHeader = present(header, 'the header of a segment')
    const { firstCommit, chain } = segmentHeader
    const range = { from: segmentHeaderBytes, to: last }
    const before = { commit: firstCommit - 1, chain }
    const seed = frameSeed(manifest.storeId)
    const scanner = new FrameScanner(file, range, before, seed)
    let pieces: Uint8Array[] = [encodeSegmentHeader(segmentHeader)]
    let bytes = segmentHeaderBytes
    let end = 0
    const write = async (): Promise<void> => {
      await target.writing(() => copy.write(end, pieces))
      step(bytes)
      end += bytes
      pieces = []
      bytes = 0
    }
    for (let frame = await scanner.next(); frame !== undefined; frame = await scanner.next()) {
      pieces.push(frame.bytes)
      bytes += frame.length
      if (bytes >= levelLimits.backupBytes) await write()
    }
    // The newest segment may end with an incomplete commit, but no frame may follow it.
    const isCut = await isCutFrame(file, { at: scanner.at, dataEnd }, seed)
    const rest = { from: isCut ? scanner.at + 1 : scanner.at, to: last }
    const isWhole =
      sealed === undefined
        ? scanner.commit >= manifest.syncedTo && !(await laterFrameNeeds(file, rest, 0, seed))
        : scanner.at === last && scanner.commit === sealed.commit && scanner.chain === sealed.chain
    if (!isWhole) throw damagedSegment(file.name, scanner.at)
    skip(file.end - scanner.at)
    await write()
    await target.writing(() => copy.sync())
    return scanner.commit
  } finally {
    await copy.close()
  }
}

/** Whether a frame begins at `at`, with zeros in place of its end. */
async function isCutFrame(
  file: SegmentFile,
  { at, dataEnd }: { readonly at: number; readonly dataEnd: number },
  seed: number,
): Promise<boolean> {
  if (at + frameHeaderBytes > file.end) return false
  const header = readFrameHeader(await file.read(at, frameHeaderBytes), 0, seed)
  return header !== undefined && at + frameHeaderBytes + header.bodyBytes > dataEnd
}
