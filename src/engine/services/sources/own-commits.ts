import { limits } from '../../base/limits.js'
import { ContentWriter } from '../../cas/content-writer.js'
import type { BranchTip } from '../../records/branch-tip.js'
import type { Baseline } from '../../records/baseline.js'
import type { BranchTips } from '../../session/branch-tips.js'
import type { Core } from '../../session/core.js'
import type { BaseAtState } from '../../session/table/live.js'
import type { Dir } from '../../tree/node.js'
import { baseOf } from './commit-changes.js'
import { containedCommitsKey, readCommitIds } from './commit-ids.js'
import { GitObjectStore, type MemoryGitObjects } from './git-objects.js'
import type { CommitDescription, CommitReader } from './git-ports.js'
import { GitTreeBuilder } from './git-trees.js'

/** The files of commits of a session, as far as a rebase compares with them. */
export interface OwnTrees {
  /** Those of the newest commit that the new revision is known to build on. */
  readonly contained: Dir | undefined
  /** Otherwise, those of the last commit on each branch. */
  readonly last: readonly Dir[]
}

const none: OwnTrees = { contained: undefined, last: [] }

/** Finds the commits of a session that a rebase compares with. */
export class OwnCommits {
  readonly #reader: () => Promise<CommitReader>
  readonly #gitObjects: MemoryGitObjects | undefined

  constructor(reader: () => Promise<CommitReader>, gitObjects: MemoryGitObjects | undefined) {
    this.#reader = reader
    this.#gitObjects = gitObjects
  }

  /** The trees for a rebase onto a revision. They are not pinned. */
  async trees(core: Core, base: BaseAtState, tips: BranchTips, onto: Baseline): Promise<OwnTrees> {
    const from = base.record.baseline.revision?.git
    const to = onto.revision?.git
    if (from === undefined || to === undefined) return none
    const contained = new Set([
      to.commitId,
      ...(await readCommitIds(core, containedCommitsKey(core, to.commitId))),
    ])
    const last: CommitDescription[] = []
    for (const { commitId } of [...tips.values()].sort(newestFirst)) {
      let depth = 0
      for await (const commit of this.#chain(core, commitId, from.commitId)) {
        if (contained.has(commit.commitId))
          return { contained: await this.#tree(core, base, from.treeId, commit), last: [] }
        if (depth++ === 0) last.push(commit)
      }
    }
    const trees: Dir[] = []
    for (const commit of last) trees.push(await this.#tree(core, base, from.treeId, commit))
    return { contained: undefined, last: trees }
  }

  /** A commit and those before it, down to the imported one, which is left out. */
  async *#chain(core: Core, tip: string, base: string): AsyncGenerator<CommitDescription, void> {
    const reader = await this.#reader()
    const objects = this.#objects(core)
    let id: string | undefined = tip
    for (let count = 0; count < limits.ownCommits && id !== undefined && id !== base; count++) {
      const commit: CommitDescription | undefined = await reader.describe(id, objects)
      if (commit === undefined) return
      yield commit
      id = commit.parentIds[0]
    }
  }

  /** Only the differences from the imported commit are read. */
  async #tree(core: Core, base: BaseAtState, baseTreeId: string, commit: CommitDescription): Promise<Dir> {
    const objects = this.#objects(core)
    const trees = new GitTreeBuilder(core, objects, new ContentWriter(core), baseOf(core, base))
    const { treeId, timestampSeconds } = commit
    const reader = await this.#reader()
    await reader.readTree({ treeId, baseTreeId, sink: trees, objects, mtimeMs: timestampSeconds * 1000 })
    return trees.build()
  }

  #objects(core: Core): GitObjectStore {
    return new GitObjectStore(core, new ContentWriter(core), this.#gitObjects)
  }
}

function newestFirst(a: BranchTip, b: BranchTip): number {
  return (b.seq ?? 0) - (a.seq ?? 0)
}
