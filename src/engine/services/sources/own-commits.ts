import { limits } from '../../base/limits.js'
import { ContentWriter } from '../../cas/content-writer.js'
import type { BranchTip } from '../../records/branch-tip.js'
import type { Baseline } from '../../records/baseline.js'
import type { BranchTips } from '../../records/branch-tip.js'
import type { Core } from '../../session/core.js'
import type { BaseAtState } from '../../session/table/live.js'
import type { Dir } from '../../tree/node.js'
import { baseOf } from './commit-changes.js'
import { containedCommitsKey, readPushedCommits, type PushedCommit } from './commit-ids.js'
import { GitObjectStore, type MemoryGitObjects } from './git-objects.js'
import type { CommitDescription, CommitReader } from './git-ports.js'
import { GitTreeBuilder } from './git-trees.js'

/** A commit of a session, or of one that it has the state of. */
export interface OwnCommit extends Pick<PushedCommit, 'state'> {
  /** Whether the next commit on one of the branches of the session builds on it. */
  readonly isOnBranch: boolean
  /** Its files. They are not pinned. */
  readonly tree: () => Promise<Dir>
}

/** The commits that a rebase compares with. */
export interface FoundCommits {
  /** Whether the session has the files of the new revision itself. */
  readonly hasRevision: boolean
  /** Those that the new revision is known to build on. */
  readonly contained: readonly OwnCommit[]
  /** The last commits on the branches of the session, the newest first. */
  readonly last: readonly OwnCommit[]
}

export interface CommitSearch {
  readonly tips: BranchTips
  readonly onto: Baseline
  /** Whether the session has the files of its base. Otherwise, it was restored to a state before a rebase. */
  readonly hasBase: boolean
  /** Whether a state is one that the session comes from, also by a merge. */
  readonly isAncestor: (state: NonNullable<PushedCommit['state']>) => boolean
}

const none: FoundCommits = { hasRevision: false, contained: [], last: [] }

/** Finds the commits of a session that a rebase compares with. */
export class OwnCommits {
  readonly #reader: () => Promise<CommitReader>
  readonly #gitObjects: MemoryGitObjects | undefined

  constructor(reader: () => Promise<CommitReader>, gitObjects: MemoryGitObjects | undefined) {
    this.#reader = reader
    this.#gitObjects = gitObjects
  }

  /** The commits for a rebase onto a revision. */
  async find(
    core: Core,
    base: BaseAtState,
    { tips, onto, hasBase, isAncestor }: CommitSearch,
  ): Promise<FoundCommits> {
    const from = base.record.baseline.revision?.git
    const to = onto.revision?.git
    if (to === undefined) return none
    const pushed = new Map<string, PushedCommit['state']>([[to.commitId, undefined]])
    for (const { commitId, state } of await readPushedCommits(core, containedCommitsKey(core, to.commitId))) {
      const known = pushed.get(commitId)
      if (known === undefined || !isAncestor(known)) pushed.set(commitId, state ?? known)
    }
    const ownCommit = (commit: CommitDescription, isOnBranch: boolean): OwnCommit => ({
      state: pushed.get(commit.commitId),
      isOnBranch,
      tree: () => this.#tree(core, base, commit),
    })
    const contained = new Map<string, OwnCommit>()
    const last: OwnCommit[] = []
    for (const { commitId } of [...tips.values()].sort(newestFirst)) {
      let depth = 0
      for await (const commit of this.#chain(core, commitId, from?.commitId)) {
        if (depth++ === 0) last.push(ownCommit(commit, true))
        if (!pushed.has(commit.commitId)) continue
        const state = pushed.get(commit.commitId)
        // A commit on the newer base has the changes of that base, which the session does not have.
        if (!hasBase && (state === undefined || !isAncestor(state))) continue
        contained.set(commit.commitId, ownCommit(commit, true))
        break
      }
    }
    const reader = await this.#reader()
    // The base itself is newer than these.
    const inBase =
      hasBase && from !== undefined
        ? await readPushedCommits(core, containedCommitsKey(core, from.commitId))
        : []
    for (const { commitId } of inBase) pushed.delete(commitId)
    for (const [commitId, state] of pushed) {
      if (state === undefined || contained.has(commitId) || !isAncestor(state)) continue
      const commit = await reader.describe(commitId, this.#objects(core))
      if (commit !== undefined) contained.set(commitId, ownCommit(commit, false))
    }
    return { hasRevision: contained.has(to.commitId), contained: [...contained.values()], last }
  }

  /** A commit and those before it, down to the imported one, which is left out. An empty repository has none. */
  async *#chain(core: Core, tip: string, base: string | undefined): AsyncGenerator<CommitDescription, void> {
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
  async #tree(core: Core, base: BaseAtState, commit: CommitDescription): Promise<Dir> {
    const objects = this.#objects(core)
    const trees = new GitTreeBuilder(core, objects, new ContentWriter(core), baseOf(core, base))
    const { treeId, timestampSeconds } = commit
    const reader = await this.#reader()
    const baseTreeId = base.record.baseline.revision?.git?.treeId
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
