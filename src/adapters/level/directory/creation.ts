/** Removes what the opening of a store created, if the opening fails. */
import { readdir, realpath, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Disk } from './disk.js'
import { indexFileName } from '../index/index-file.js'
import { indexName, removeFile, segmentsName } from './manifest.js'
import { claimName, markerName } from './marker.js'
import { nodeDisk } from './node-disk.js'
import { destroyLevel } from './store-lock.js'

export class Creation {
  /** The created directories, the innermost first. They are removed if they are empty. */
  readonly #directories: readonly string[]

  private constructor(directories: readonly string[]) {
    this.#directories = directories
  }

  /**
   * `first` is the outermost directory that was created, or undefined if all existed. Both paths are on the
   * host's disk.
   */
  static async begin(path: string, first: string | undefined | void): Promise<Creation> {
    if (first === undefined) return new Creation([])
    const top = await realpath(first)
    const directories = [path]
    for (let last = path; last !== top && dirname(last) !== last;) directories.push((last = dirname(last)))
    return new Creation(directories)
  }

  /**
   * Removes a new store without commits. Call this while holding its lock. The marker first becomes the
   * claim, so that a crash leaves an unfinished store.
   */
  async discardStore(disk: Disk, path: string): Promise<void> {
    if (this.#directories.length === 0) return
    try {
      await disk.rename(join(path, markerName), join(path, claimName)).catch(() => undefined)
      const segments = join(path, segmentsName)
      for (const name of await disk.list(segments)) await removeFile(disk, join(segments, name))
      await rmdir(segments)
      await removeFile(disk, join(path, indexName, indexFileName))
    } catch {
      // The rest is an unfinished store, which the next opening finishes.
    }
  }

  /**
   * Removes the directories. Call this without the lock, but while this process admits no other opener. Files
   * of another process stay.
   */
  async discardRest(path: string): Promise<void> {
    if (this.#directories.length === 0) return
    try {
      const names = await readdir(path)
      if (names.some((name) => name !== claimName && name !== indexName)) return
      // This fails if another opener has the lock.
      if (names.includes(indexName)) {
        await destroyLevel(join(path, indexName))
        await rmdir(join(path, indexName)).catch(ignoreMissing)
      }
      await removeFile(nodeDisk, join(path, claimName))
      for (const directory of this.#directories) await rmdir(directory)
    } catch {
      // Another opener uses the directory, or the disk fails.
    }
  }
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'ENOENT') throw error
}
