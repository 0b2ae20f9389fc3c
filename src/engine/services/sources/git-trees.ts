import { saveBaseline } from '../../session/baselines.js'
import type { Core } from '../../session/core.js'
import type { Baseline, TreeCounts } from '../../records/baseline.js'
import { TreeBuilder } from '../../session/tree-builder.js'
import { countTree } from '../../session/usage/tree-counts.js'
import { keys } from '../../storage/keys.js'
import type { StoreCommit } from '../../storage/store.js'
import type { Dir } from '../../tree/node.js'
import type { ContentWriter } from '../../cas/content-writer.js'
import type { GitObjectStore } from './git-objects.js'
import type { EntryAttributes } from './source-ports.js'
import type { GitTreeSink } from './git-ports.js'
import type { CountedBaseline } from '../../records/revision.js'
import { gitTreeKind } from '../../records/git-tree.js'

/** Builds the tree of a commit, from nothing or from an earlier imported tree. */
export class GitTreeBuilder implements GitTreeSink {
  readonly #core: Core
  readonly #objects: GitObjectStore
  readonly #writer: ContentWriter
  #builder: TreeBuilder
  #started: { readonly treeId: string; readonly baseline: Baseline; readonly root: Dir } | undefined

  /** `start`: the tree to start from; empty by default. */
  constructor(core: Core, objects: GitObjectStore, writer: ContentWriter, start?: Dir) {
    this.#core = core
    this.#objects = objects
    this.#writer = writer
    this.#builder = new TreeBuilder(core, start, writer)
  }

  get given(): TreeCounts {
    return this.#builder.given
  }

  async startFrom(treeId: string): Promise<boolean> {
    const json = await this.#core.store.get(keys.gitTree(this.#core.tenantKey, treeId))
    if (json === undefined) return false
    const baseline = gitTreeKind.parse(json)
    const root = this.#core.roots.load(baseline.root)
    this.#started = { treeId, baseline, root }
    this.#builder = new TreeBuilder(this.#core, root, this.#writer)
    return true
  }

  directory(path: string, attributes: EntryAttributes): void | Promise<void> {
    return this.#builder.directory(path, attributes)
  }

  file(path: string, blobId: string, attributes: EntryAttributes): void | Promise<void> {
    const blobs = this.#objects.contentOf(blobId)
    return 'then' in blobs
      ? blobs.then((found) => this.#builder.fileOf(path, found, attributes))
      : this.#builder.fileOf(path, blobs, attributes)
  }

  symlink(path: string, target: string, attributes: { readonly mtimeMs: number }): void | Promise<void> {
    return this.#builder.symlink(path, target, attributes)
  }

  remove(path: string): void | Promise<void> {
    return this.#builder.remove(path)
  }

  /** The finished tree, whose contents are stored. */
  build(): Promise<Dir> {
    return this.#builder.finish()
  }

  /** Stores the tree. Also returns the record that lets later imports start from this tree. */
  async finish(
    treeId: string,
  ): Promise<{ baseline: CountedBaseline; root: Dir; put: NonNullable<StoreCommit['put']> }> {
    const started = this.#started
    const isUntouched = started?.treeId === treeId && this.#builder.untouched
    if (isUntouched && started.baseline.counts !== undefined)
      return {
        baseline: { ...started.baseline, counts: started.baseline.counts },
        root: started.root,
        put: [],
      }
    const [saved, root] = isUntouched
      ? [started.baseline, started.root]
      : await saveBaseline(this.#core, await this.#builder.finish())
    const before = started && { root: started.root, counts: started.baseline.counts }
    const baseline = { ...saved, counts: await countTree(this.#core, root, before) }
    // The record needs this tree. A revision with the same id may already exist, and retain only its own tree.
    this.#core.roots.retain(root)
    return { baseline, root, put: [[keys.gitTree(this.#core.tenantKey, treeId), baseline]] }
  }
}
