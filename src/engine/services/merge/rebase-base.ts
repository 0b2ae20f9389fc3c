import type { BranchTips } from '../../records/branch-tip.js'
import type { Core } from '../../session/core.js'
import type { BaseAtState, LiveSession } from '../../session/table/live.js'
import type { Dir } from '../../tree/node.js'
import { PinnedRoots } from '../../tree/pins.js'
import type { Baseline } from '../../records/baseline.js'
import { Ancestors, keyOf, type Ancestry, type SessionState } from './ancestry.js'
import { virtualBase } from './merge-base.js'
import type { FileMerger } from './merge-files.js'
import { pushedBase } from './pushed-base.js'

/** A revision that a session is moved onto. */
export interface NewBase {
  readonly baseline: Baseline
  readonly root: Dir
}

/** A commit that a session has the files of. */
export interface OwnCommit {
  /** The state that it has, if it is known. */
  readonly state?: SessionState | undefined
  readonly isOnBranch: boolean
  readonly tree: () => Promise<Dir>
}

/** Finds the commits that a rebase onto a revision compares with. */
export type FindOwnCommits = (
  core: Core,
  base: BaseAtState,
  search: {
    readonly tips: BranchTips
    readonly onto: Baseline
    /** Whether the session has the files of its base. */
    readonly hasBase: boolean
    readonly isAncestor: (state: SessionState) => boolean
  },
) => Promise<{
  /** Whether the session has the files of the revision itself. */
  readonly hasRevision: boolean
  /** Those that the revision is known to build on. */
  readonly contained: readonly OwnCommit[]
  /** The last commits on the branches of the session. */
  readonly last: readonly OwnCommit[]
}>

interface RebaseSearch {
  readonly live: LiveSession
  readonly tips: BranchTips
  readonly onto: NewBase
  /** The ancestors of the session. */
  readonly ours: Ancestors
  /** Whether the session has the files of its base. */
  readonly isOnBase: boolean
  /** The fingerprint of the newest base among these ancestors. */
  readonly newest: string
  readonly merger: FileMerger
}

/**
 * The tree to compare both sides of a rebase with: the newest commit that both have, or else the newest base among the
 * ancestors of the session. Several newest ones are merged, also if it is not known which of them is newer.
 */
export async function rebaseBaseOf(
  core: Core,
  ancestry: Ancestry,
  search: RebaseSearch,
  findOwnCommits: FindOwnCommits,
): Promise<Dir> {
  using pinned = new PinnedRoots(core.pins)
  return await new RebaseBase(core, ancestry, search, pinned).find(findOwnCommits)
}

/** A commit or an imported base that both sides have. */
interface CommonBase {
  readonly ancestors: Ancestors
  readonly tree: () => Promise<Dir>
}

class RebaseBase {
  readonly #core: Core
  readonly #ancestry: Ancestry
  readonly #search: RebaseSearch
  readonly #pinned: PinnedRoots
  /** The fingerprint of the base of the session. */
  readonly #own: string

  constructor(core: Core, ancestry: Ancestry, search: RebaseSearch, pinned: PinnedRoots) {
    this.#core = core
    this.#ancestry = ancestry
    this.#search = search
    this.#pinned = pinned
    this.#own = search.live.record.baseline.fingerprint
  }

  async find(findOwnCommits: FindOwnCommits): Promise<Dir> {
    const { live, tips, onto, ours, isOnBase } = this.#search
    const { record } = live
    const baseline = this.#pinned.add(live.baseline)
    const { hasRevision, contained, last } = await findOwnCommits(
      this.#core,
      { record, baseline },
      {
        tips,
        onto: onto.baseline,
        hasBase: isOnBase,
        isAncestor: (state) => ours.has(state),
      },
    )
    if (hasRevision) return onto.root
    const [first, ...others] = await this.#newestBases(contained)
    if (first !== undefined) return this.#merged(first, others, contained)
    const roots: Dir[] = []
    for (const commit of last) roots.push(await this.#treeOf(commit))
    return pushedBase(this.#core, baseline, onto.root, roots)
  }

  /** The newest commits and bases that both sides have. None if only the base of the session itself is known. */
  async #newestBases(contained: readonly OwnCommit[]): Promise<readonly CommonBase[]> {
    const { ours, isOnBase, newest } = this.#search
    const bases: CommonBase[] = []
    let isOnNewest = false
    const states = await this.#ancestry.newestOf(contained.flatMap(({ state }) => state ?? []))
    for (const { state, isOnBranch, tree } of contained) {
      if (state === undefined || !states.some((one) => keyOf(one) === keyOf(state))) continue
      const ancestors = await this.#ancestry.ancestorsOf(state)
      const { baselines } = ancestors
      // Nothing is known about the ancestors of a commit whose session a collection has deleted.
      isOnNewest ||= baselines.size === 0 || baselines.has(newest) || (isOnBranch && newest === this.#own)
      bases.push({ ancestors, tree })
    }
    // The session was rebased after its commits, a merge has brought a newer base than theirs, or a restore undid a rebase.
    if (!isOnNewest && (newest !== this.#own || bases.length > 0 || !isOnBase)) {
      const tree = (): Promise<Dir> => Promise.resolve(this.#baseline(newest))
      bases.unshift({ ancestors: ours.through(newest), tree })
    }
    if (bases.length > 0) return bases
    // An earlier version listed commits without their states.
    const unnumbered = contained.find(({ state }) => state === undefined)
    return unnumbered === undefined ? [] : [{ ancestors: new Ancestors(), tree: unnumbered.tree }]
  }

  /** One tree of several bases. */
  async #merged(
    first: CommonBase,
    others: readonly CommonBase[],
    contained: readonly OwnCommit[],
  ): Promise<Dir> {
    let root = await this.#treeOf(first)
    const ancestors = new Ancestors()
    ancestors.addAll(first.ancestors)
    for (const other of others) {
      const theirs = await this.#treeOf(other)
      const base = await this.#baseOfBases(ancestors, other.ancestors, contained)
      const bases = { base, ours: root, theirs }
      root = this.#pinned.add(await virtualBase(this.#core, bases, this.#search.merger))
      ancestors.addAll(other.ancestors)
    }
    return root
  }

  /** The tree to compare two bases with: the newest commit that both have, or else the newest imported base. */
  async #baseOfBases(a: Ancestors, b: Ancestors, contained: readonly OwnCommit[]): Promise<Dir> {
    const [baseline] = b.newestBaselines(a)
    const shared = contained.filter(({ state }) => state !== undefined && a.has(state) && b.has(state))
    const [newest] = await this.#ancestry.newestOf(shared.flatMap(({ state }) => state ?? []))
    const commit = newest && shared.find(({ state }) => state && keyOf(state) === keyOf(newest))
    if (newest === undefined || commit === undefined) return this.#baseline(baseline)
    const isNewer = baseline === undefined || (await this.#ancestry.ancestorsOf(newest)).has({ baseline })
    return isNewer ? this.#treeOf(commit) : this.#baseline(baseline)
  }

  async #treeOf({ tree }: Pick<CommonBase, 'tree'>): Promise<Dir> {
    return this.#pinned.add(await tree())
  }

  /** The tree of an imported base; that of the session's own base if it is not known. */
  #baseline(fingerprint = this.#own): Dir {
    const { baseline } = this.#search.live
    if (fingerprint === this.#own) return baseline
    for (const { tree, root } of this.#ancestry.treesOf({ baseline: fingerprint })) {
      if (tree !== undefined) return tree
      if (root !== undefined) return this.#core.roots.load(root)
    }
    return baseline
  }
}
