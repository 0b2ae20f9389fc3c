import { EngineError } from '../../base/errors.js'
import { Fault, whenLoaded } from '../../base/fault.js'
import { formatHash } from '../../base/hash.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { BlobRef } from '../../cas/blob.js'
import { forEachExtent } from '../../cas/body.js'
import type { StagedBlobs } from '../../cas/staging.js'
import { visitPaths } from '../../tree/cursor.js'
import { FileNode, type Dir } from '../../tree/node.js'
import { reading, type Core } from '../core.js'
import type { PlanState } from './plan.js'
import { treeChanges } from '../tree-changes.js'

/**
 * Finds the blobs that a request borrows. It finds only blobs of the session's files or of its base, because
 * knowing a hash does not give the right to read the content.
 *
 * It searches the request itself, then the file that is written, then the files that differ from the base,
 * and finally the whole base, which costs a pass over its files.
 */
export class BorrowedBlobs {
  /** Wanted hashes that are not found yet. */
  readonly #missing: Set<string>
  readonly #found = new Map<string, BlobRef>()
  readonly #staged: readonly StagedBlobs[]
  /** The request's own blobs, until they are searched. They are searched all together. */
  #unlooked: readonly StagedBlobs[]
  /** The file that was searched last. */
  #looked: FileNode | undefined
  /** Whether the session and its base were searched. */
  #searched = false
  #brought: ReadonlySet<BlobRef> | undefined

  constructor(wanted: readonly string[], staged: readonly StagedBlobs[]) {
    this.#missing = new Set(wanted)
    this.#staged = staged
    this.#unlooked = staged
  }

  /**
   * The blob with this hash. Throws a Fault if it must be searched for.
   *
   * @throws {EngineError} BLOB_NOT_FOUND when there is none.
   */
  get(core: Core, state: PlanState, file: FileNode, hash: string): BlobRef {
    for (const staged of this.#unlooked) this.#take(staged.blobs())
    this.#unlooked = []
    if (this.#missing.has(hash) && this.#looked !== file) {
      this.#look(core, file)
      this.#looked = file
    }
    const blob = this.#found.get(hash)
    if (blob !== undefined) return blob
    if (!this.#searched) {
      const root = state.tree.freeze()
      throw new Fault(() =>
        reading(core, [root, state.baseline], () => this.#search(core, root, state.baseline)),
      )
    }
    throw new EngineError(
      'BLOB_NOT_FOUND',
      `neither this session nor its base has content with the hash ${formatHash(hash)}; send the bytes as data instead`,
      {
        hash: formatHash(hash),
      },
    )
  }

  /**
   * Whether the event must store a blob because this request contains it, even if only for a file that is
   * skipped.
   */
  brings(blob: BlobRef): boolean {
    this.#brought ??= new Set(this.#staged.flatMap((staged) => staged.toCommit()))
    return this.#brought.has(blob)
  }

  async #search(core: Core, root: Dir, baseline: Dir): Promise<void> {
    for await (const { after } of treeChanges(core, baseline, root)) {
      if (after instanceof FileNode) await whenLoaded(() => this.#look(core, after))
      if (this.#complete) break
    }
    const slice = new TimeSlice(core.environment)
    let after: string | undefined
    for (let more = true; more && !this.#complete;) {
      await whenLoaded(() => {
        more = false
        visitPaths(baseline, { prefix: '', after }, core.loader, (path, node) => {
          if (node instanceof FileNode) this.#look(core, node)
          after = path
          more = slice.over
          return !more && !this.#complete
        })
      })
      await slice.next()
    }
    this.#searched = true
  }

  #look(core: Core, file: FileNode): void {
    forEachExtent(core.contentIds.body(file), { from: 0, to: file.size }, (_offset, _length, blob) => {
      this.#take([blob])
    })
  }

  #take(blobs: readonly BlobRef[]): void {
    for (const blob of blobs) if (this.#missing.delete(blob.hash)) this.#found.set(blob.hash, blob)
  }

  get #complete(): boolean {
    return this.#missing.size === 0
  }
}
