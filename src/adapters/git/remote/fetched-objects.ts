import { EngineError, type GitObject } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from '../objects/object-id.js'
import { isMissingBase } from '../pack/pack-errors.js'
import { readPack } from '../pack/pack-reader.js'
import type { RevisionRequest } from '../repository.js'
import type { RevisionSource } from '../objects/revision-objects.js'

export interface FetchOptions {
  readonly request: RevisionRequest
  readonly format: ObjectFormat
  /** Fetches the wanted revision as a pack, without the objects of these commits. */
  readonly pack: (haves: readonly string[]) => AsyncIterable<Uint8Array>
  /** Fetches the commits before the wanted one since a time as a pack, if the remote can send them without their files. */
  readonly history: (sinceSeconds: number) => AsyncIterable<Uint8Array> | undefined
}

/**
 * The objects of a revision of a remote. They are added to the engine's objects while the pack arrives, and
 * are read from the engine. An object may still be missing, because the engine or the remote lacks objects
 * that it claims to have. Then a second pack is fetched, once, which contains the whole revision.
 */
export class FetchedObjects implements RevisionSource {
  readonly #options: FetchOptions
  readonly #blobs = new Set<string>()
  readonly #largeBlobs = new Set<string>()
  #isWhole = false

  private constructor(options: FetchOptions) {
    this.#options = options
  }

  static async fetch(options: FetchOptions): Promise<FetchedObjects> {
    const fetched = new FetchedObjects(options)
    const { want, haves } = options.request
    await fetched.#fetch(haves).catch(async (error: unknown) => {
      if (!isMissingBase(error) || haves.length === 0) throw error
      await fetched.#fetch([])
    })
    // If `want` is a large blob, the importer rejects it later.
    if (!fetched.isLarge(want)) await fetched.read(want)
    return fetched
  }

  hasGiven(blobId: string): boolean {
    return this.#blobs.has(blobId)
  }

  isLarge(blobId: string): boolean {
    return this.#largeBlobs.has(blobId)
  }

  async read(oid: string): Promise<GitObject> {
    const { objects } = this.#options.request
    let object = await objects.get(oid)
    if (object === undefined && !this.#isWhole) {
      await this.#fetch([])
      object = await objects.get(oid)
    }
    if (object !== undefined) return object
    throw new EngineError('GIT_CORRUPT', `the remote did not send the object ${oid}`)
  }

  /**
   * Fetches the whole revision for a missing blob. Returns no pieces, because the engine then has the blob,
   * if it exists.
   */
  async readBlob(): Promise<undefined> {
    if (!this.#isWhole) await this.#fetch([])
  }

  /** The commits are not added to the engine, which has no files of them. */
  async history(sinceSeconds: number): Promise<(oid: string) => Promise<GitObject | undefined>> {
    const { request, format, history } = this.#options
    const commits = new Map<string, GitObject>()
    const pack = history(sinceSeconds)
    const enough = new Error('the import has read enough commits')
    let bytes = 0
    const onObject = (object: GitObject): void => {
      bytes += object.body.length
      if (object.type !== 'commit' || bytes > gitLimits.historyBytes) throw enough
      commits.set(object.oid, object)
      if (commits.size >= gitLimits.historyCommits) throw enough
    }
    try {
      if (pack !== undefined)
        await readPack(pack, {
          format,
          signal: request.signal,
          getBase: () => Promise.resolve(undefined),
          onObject,
          // No commit is that large.
          onBlob: () => Promise.reject(enough),
        })
    } catch (error) {
      // The remote may refuse such a request, and the revision is complete without it.
      const isRefused = error instanceof EngineError && error.reason === 'GIT_REMOTE_ERROR'
      if (error !== enough && !isRefused) throw error
    }
    return (oid) => Promise.resolve(commits.get(oid))
  }

  async #fetch(haves: readonly string[]): Promise<void> {
    const { request, format, pack } = this.#options
    const { objects, signal } = request
    this.#isWhole = haves.length === 0
    await readPack(pack(haves), {
      format,
      signal,
      getBase: (oid) => objects.get(oid, gitLimits.deltaBytes),
      onObject: (object) => {
        if (object.type === 'blob') this.#blobs.add(object.oid)
        return objects.add(object)
      },
      onBlob: async (chunks, oid) => {
        await objects.addBlob(chunks, oid)
        this.#blobs.add(oid())
        this.#largeBlobs.add(oid())
      },
    })
  }
}
