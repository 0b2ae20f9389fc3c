import { EngineError, TimeSlice } from '../../../engine/ports.js'
import { ByteCache } from '../pack/byte-cache.js'
import { FileBytes, type WindowCache } from './file-bytes.js'
import { gitLimits } from '../limits.js'
import { openLoose } from './loose-objects.js'
import type { ObjectFormat } from '../objects/object-id.js'
import type { ObjectSource } from '../objects/object-source.js'
import { FileGone, OpenFiles } from './open-files.js'
import { VerifiedSource, type OpenedObject } from '../pack/opened-object.js'
import { PackedObjects, type BaseCache } from '../pack/packed-objects.js'
import { PackIndex } from '../pack/pack-index.js'
import type { RepositoryDirectory } from './repository-directory.js'

export interface ObjectStore extends ObjectSource {
  has(oid: string): Promise<boolean>
  close(): Promise<void>
}

/**
 * Opens the object directories of a repository, which are searched in order. Objects may be loose, or in
 * packs with an index of version 2. Files are read in windows, and only a few windows are in memory. Git may
 * repack at any time, so a missing object is searched for once more in new packs.
 */
export async function openObjectStore(
  directories: readonly RepositoryDirectory[],
  format: ObjectFormat,
  signal: AbortSignal,
): Promise<ObjectStore> {
  const store = new DirectoryStore(directories, format, signal)
  try {
    await store.findPacks()
  } catch (error) {
    await store.close()
    throw error
  }
  const source = new VerifiedSource(format, (oid) => store.open(oid))
  const checked = async <T>(work: () => Promise<T>): Promise<T> => {
    signal.throwIfAborted()
    return work()
  }
  return {
    read: (oid) => checked(() => source.read(oid)),
    readBlob: (oid) => checked(() => source.readBlob(oid)),
    has: (oid) => checked(() => store.has(oid)),
    close: () => store.close(),
  }
}

interface Pack {
  /** The path of the pack without its extension. */
  readonly key: string
  readonly index: PackIndex
  readonly objects: PackedObjects
}

class DirectoryStore {
  readonly #directories: readonly RepositoryDirectory[]
  readonly #format: ObjectFormat
  readonly #slice: TimeSlice
  readonly #files = new OpenFiles(gitLimits.openFiles)
  readonly #windows: WindowCache = new ByteCache(gitLimits.windowCacheBytes)
  readonly #bases: BaseCache = new ByteCache(gitLimits.baseCacheBytes)
  /** The first pack is the one in which the last object was found. */
  #packs: Pack[] = []

  constructor(directories: readonly RepositoryDirectory[], format: ObjectFormat, signal: AbortSignal) {
    this.#directories = directories
    this.#format = format
    this.#slice = new TimeSlice(performance, signal)
  }

  async open(oid: string): Promise<OpenedObject | undefined> {
    return this.#search(
      oid,
      (pack, offset) => pack.objects.open(offset),
      (directory, path) => openLoose(directory.file(path)),
    )
  }

  async has(oid: string): Promise<boolean> {
    const found = await this.#search(
      oid,
      () => Promise.resolve(true),
      async (directory, path) => ((await directory.isFile(path)) ? true : undefined),
    )
    return found === true
  }

  close(): Promise<void> {
    return this.#files.close()
  }

  /** Opens packs that are not open yet. Returns true if there are any. */
  async findPacks(): Promise<boolean> {
    const known = new Set(this.#packs.map(({ key }) => key))
    let found = false
    for (const directory of this.#directories) {
      const names = (await directory.list('pack')).filter(({ name }) => name.endsWith('.idx'))
      if (names.length > gitLimits.packs) throw tooManyPacks()
      for (const { name } of names) {
        const path = `pack/${name.slice(0, -4)}`
        if (known.has(directory.file(path).key)) continue
        const pack = await this.#openPack(directory, path)
        if (pack !== undefined) this.#packs.push(pack)
        found ||= pack !== undefined
      }
    }
    return found
  }

  async #openPack(directory: RepositoryDirectory, path: string): Promise<Pack | undefined> {
    try {
      const index = await PackIndex.open(
        await FileBytes.open(directory.file(`${path}.idx`), this.#files, this.#windows),
        this.#format,
      )
      const bytes = await FileBytes.open(directory.file(`${path}.pack`), this.#files, this.#windows)
      const { key } = directory.file(path)
      const objects = new PackedObjects(bytes, {
        name: key,
        cache: this.#bases,
        format: this.#format,
        slice: this.#slice,
        find: (oid) => index.find(oid),
      })
      return { key, index, objects }
    } catch (error) {
      if (error instanceof FileGone) return undefined
      throw error
    }
  }

  async #search<T>(
    oid: string,
    fromPack: (pack: Pack, offset: number) => Promise<T>,
    fromFile: (directory: RepositoryDirectory, path: string) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const packed = await this.#searchPacks(oid, fromPack)
    if (packed !== undefined) return packed
    for (const directory of this.#directories) {
      const loose = await fromFile(directory, `${oid.slice(0, 2)}/${oid.slice(2)}`)
      if (loose !== undefined) return loose
    }
    return (await this.findPacks()) ? this.#searchPacks(oid, fromPack) : undefined
  }

  async #searchPacks<T>(
    oid: string,
    fromPack: (pack: Pack, offset: number) => Promise<T>,
  ): Promise<T | undefined> {
    for (const pack of this.#packs) {
      try {
        const offset = await pack.index.find(oid)
        if (offset === undefined) continue
        const found = await fromPack(pack, offset)
        if (pack !== this.#packs[0]) this.#packs = [pack, ...this.#packs.filter((other) => other !== pack)]
        return found
      } catch (error) {
        if (!(error instanceof FileGone)) throw error
        this.#packs = this.#packs.filter((other) => other !== pack)
      }
    }
    return undefined
  }
}

function tooManyPacks(): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the repository has over ${gitLimits.packs} packs`, {
    limit: String(gitLimits.packs),
  })
}
