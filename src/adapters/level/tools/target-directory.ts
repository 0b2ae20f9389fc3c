import { mkdir, realpath, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { EngineError } from '../../../engine/ports.js'
import { errorCode, systemError } from '../errors.js'
import { requireOutside } from '../host.js'
import type { Disk } from '../directory/disk.js'
import { indexName, segmentsName } from '../directory/manifest.js'
import { claimName, markerName, writeMarker } from '../directory/marker.js'
import { nodeDisk } from '../directory/node-disk.js'
import { openDirectory } from '../directory/open-directory.js'
import type { OpenDirectory } from '../directory/open-directory.js'
import { ownerName } from '../directory/owner.js'
import { Segments } from '../log/segments.js'

/** Everything that a backup or a repair writes. */
const writtenNames = [markerName, claimName, segmentsName, indexName, ownerName]

/**
 * The empty directory that a backup or a repair makes into a store. For example, an operator moves it during a backup,
 * and puts another store at its path. Then the backup fails, and the other store stays as it is, because the directory is
 * used only through its descriptor.
 *
 * The marker, which makes a directory a store, is written last. So an unfinished copy is never mistaken for a store.
 */
export class TargetDirectory {
  /** The real path. Another directory can be there later. */
  readonly realPath: string
  /** The path that the caller gave. */
  readonly #given: string
  /** The outermost directory that was created, if any. */
  readonly #created: string | undefined
  readonly #handle: OpenDirectory
  /** The directory of segments, once it was created. Another one can be in its place later. */
  #segments: OpenDirectory | undefined

  private constructor(given: string, realPath: string, created: string | undefined) {
    this.realPath = realPath
    this.#given = given
    this.#created = created
    this.#handle = openDirectory(nodeDisk, realPath)
  }

  /**
   * Claims the directory, and creates it if it does not exist. `field` is the name of the argument that has its path,
   * and `source` is the real path of the store that is copied.
   *
   * @throws EngineError `ALREADY_EXISTS` unless it is empty, `INVALID_ARGUMENT` if it is in the store.
   */
  static async claim(field: string, given: string, source: string): Promise<TargetDirectory> {
    let created: string | undefined
    let target: TargetDirectory | undefined
    try {
      await requireOutside(field, given, source)
      created = (await nodeDisk.makeDirectory(given)) ?? undefined
      target = new TargetDirectory(given, await realpath(given), created)
      if ((await nodeDisk.list(target.path)).length > 0) throw isTaken(given)
      // If two backups have the same target, the second one fails here, and the files of the first one stay.
      const segments = join(target.path, segmentsName)
      await mkdir(segments, { mode: 0o700 })
      target.#segments = openDirectory(nodeDisk, segments)
      return target
    } catch (error) {
      target?.close()
      await removeEmpty(given, created)
      if (error instanceof EngineError) throw error
      if (errorCode(error) === 'EEXIST') throw isTaken(given)
      throw systemError(error, `the directory ${given} could not be created`)
    }
  }

  /** A path of the directory that stays valid when it is moved, if the system has such paths. */
  get path(): string {
    return this.#handle.path
  }

  /** A path of the directory of segments that stays valid when that is moved, if the system has such paths. */
  get segmentsPath(): string {
    return this.#segments?.path ?? join(this.path, segmentsName)
  }

  get disk(): Disk {
    return this.#handle.disk
  }

  /** Runs a step that writes to the directory. Its error is about the new store. */
  async writing<Result>(step: () => Promise<Result>): Promise<Result> {
    try {
      return await step()
    } catch (error) {
      throw this.#failure(error)
    }
  }

  /** The failure of a commit to the new store as an error about that store. Other errors stay as they are. */
  commitFailure(error: unknown): unknown {
    const isOfCommit = error instanceof EngineError && error.details['outcome'] !== undefined
    return isOfCommit ? this.#failure(error.cause) : error
  }

  /** Makes the directory a store. Everything else is on the disk already. */
  async finish(storeId: string): Promise<void> {
    await this.writing(async () => {
      // This finds out whether all segments still exist.
      await (await Segments.open(this.disk, this.path, storeId)).close()
      if (!this.#isInPlace()) throw isMoved(this.#given)
      await writeMarker(this.disk, this.path, storeId)
    })
    if (!this.#isInPlace()) throw isMoved(this.#given)
  }

  /** Removes the written files, and the directories that were created. */
  async discard(): Promise<void> {
    for (const name of writtenNames) {
      // Without a descriptor, another directory can be at the path by now.
      if (this.path === this.realPath && !this.#handle.isAtPath()) return
      if (name === segmentsName && this.#segments?.isAtPath() !== true) continue
      await rm(join(this.path, name), { recursive: true, force: true }).catch(() => undefined)
    }
    await removeEmpty(this.#given, this.#created)
  }

  close(): void {
    this.#segments?.close()
    this.#handle.close()
  }

  #isInPlace(): boolean {
    return this.#handle.isAtPath() && this.#segments?.isAtPath() !== false
  }

  #failure(error: unknown): EngineError {
    const isOwn = error instanceof EngineError
    const cause = isOwn ? (error.cause ?? error) : error
    const isGone = errorCode(cause) === 'ENOENT' || (isOwn && error.reason === 'DATA_LOSS')
    if (isGone || !this.#isInPlace()) return isMoved(this.#given, error)
    if (cause instanceof EngineError) return cause
    return systemError(cause, `the new store in ${this.#given} could not be written`)
  }
}

/** Removes a directory and its parents up to `first`, if they are empty. */
async function removeEmpty(directory: string, first: string | undefined): Promise<void> {
  if (first === undefined) return
  try {
    for (let path = directory; ; path = dirname(path)) {
      await rmdir(path)
      if (path === first || path === dirname(path)) return
    }
  } catch {
    // The directory contains other files by now.
  }
}

function isTaken(target: string): EngineError {
  return new EngineError(
    'ALREADY_EXISTS',
    `${target} is not an empty directory. Choose one that is missing or empty`,
  )
}

function isMoved(target: string, cause?: unknown): EngineError {
  return new EngineError(
    'STORE_MOVED',
    `the directory ${target}, or a file in it, was moved, removed or replaced while a new store was written to it. ` +
      'Choose an empty directory, and leave it as it is until the call returns',
    {},
    { cause },
  )
}
