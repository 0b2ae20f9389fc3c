import { EngineError, limits, type GitObject, type GitObjects } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { emptyTreeId, formatOf } from './object-id.js'
import type { ObjectSource } from './object-source.js'

/** A source that may add objects to the engine before they are read. */
export interface RevisionSource extends ObjectSource {
  /** Whether the source has already added the blob to the engine. */
  hasGiven?(blobId: string): boolean
  /** Whether the source has added the blob in pieces, because it is large. */
  isLarge?(blobId: string): boolean
  /**
   * A function that reads commits before the revision, of this time and later ones. It returns undefined for a commit
   * that the repository did not give. Absent if the history cannot be read without the files.
   */
  history?(sinceSeconds: number): Promise<(oid: string) => Promise<GitObject | undefined>>
}

/** The objects of a revision, from the engine or, if the engine lacks them, from the repository. */
export class RevisionObjects {
  readonly #objects: GitObjects
  readonly #source: RevisionSource

  constructor(objects: GitObjects, source: RevisionSource) {
    this.#objects = objects
    this.#source = source
  }

  /**
   * Reads an object and adds it to the engine if it is missing there. Throws GIT_NOT_A_TREE for a large blob.
   */
  async read(oid: string): Promise<GitObject> {
    if (this.#source.isLarge?.(oid) === true) {
      throw new EngineError('GIT_NOT_A_TREE', `the object ${oid} is a file`, { objectId: oid })
    }
    const known = await this.#objects.get(oid, gitLimits.deltaBytes)
    if (known !== undefined) return known
    const isEmptyTree = oid === emptyTreeId(formatOf(oid))
    const object: GitObject = isEmptyTree
      ? { oid, type: 'tree', body: new Uint8Array() }
      : await this.#source.read(oid)
    await this.#objects.add(object)
    return object
  }

  async readTree(oid: string): Promise<Uint8Array> {
    return bodyOf(await this.read(oid), 'tree')
  }

  /** Returns the target of a symlink, or undefined for a blob that is known to be too long for a path. */
  async readTarget(oid: string): Promise<Uint8Array | undefined> {
    if (this.#source.isLarge?.(oid) === true) return undefined
    const known = await this.#objects.get(oid, limits.pathBytes)
    if (known !== undefined) return bodyOf(known, 'blob')
    if (await this.#objects.has(oid)) return undefined
    if ((await this.#source.readBlob(oid)) !== undefined) return undefined
    return bodyOf(await this.read(oid), 'blob')
  }

  /** Makes sure that the engine has the blob. Synchronous if the source has already added it. */
  ensureBlob(oid: string): void | Promise<void> {
    return this.#source.hasGiven?.(oid) === true ? undefined : this.#ensureBlob(oid)
  }

  async #ensureBlob(oid: string): Promise<void> {
    if (await this.#objects.has(oid)) return
    const pieces = await this.#source.readBlob(oid)
    if (pieces !== undefined) await this.#objects.addBlob(pieces, () => oid)
    else if (this.#source.hasGiven?.(oid) !== true) bodyOf(await this.read(oid), 'blob')
  }
}

function bodyOf(object: GitObject, type: GitObject['type']): Uint8Array {
  if (object.type !== type) throw new EngineError('GIT_CORRUPT', `the object ${object.oid} is not a ${type}`)
  return object.body
}
