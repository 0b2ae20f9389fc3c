import { EngineError } from '../../base/errors.js'
import { itemAt } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import type { Core } from '../../session/core.js'
import { stateAt } from '../../session/history/replay.js'
import type { LiveSession } from '../../session/table/live.js'
import type { Dir } from '../../tree/node.js'
import { PinnedRoots } from '../../tree/pins.js'
import { Ancestors, Ancestry, keyOf, type GraphState } from './ancestry.js'
import type { MergeTrees } from './changed-paths.js'
import type { FileMerger } from './merge-files.js'
import { PathRules } from './merge-policies.js'
import { resultOf } from './merge-redo.js'
import { mergeTrees } from './merge-trees.js'

/**
 * The base of a merge of a state into a session; undefined if the session already has that state. Only the record of a
 * deleted session may name the base, so a collection waits until it is found.
 *
 * @throws {EngineError} like {@link MergeBase.find}
 */
export async function mergeBaseOf(
  core: Core,
  target: GraphState,
  source: GraphState,
  merger: FileMerger,
): Promise<Dir | undefined> {
  const search = async (): Promise<Dir | undefined> => {
    const ancestry = new Ancestry(core)
    const ours = await ancestry.ancestorsOf(target)
    if (ours.has(source)) return undefined
    using pinned = new PinnedRoots(core.pins)
    return await new MergeBase(core, { ancestry, merger, pinned }).find(
      ours,
      await ancestry.ancestorsOf(source),
    )
  }
  for (let attempt = 1; ; attempt++) {
    try {
      return await core.pins.whileReading(search())
    } catch (error) {
      // A collection removes a deleted fork after the states that only the fork needs. Until then, they seem to be in common.
      // On a shared store, an engine that was killed may never end its collection.
      const settled = core.sharing === undefined ? core.pins.settled : undefined
      if (!isBaseGone(error) || settled === undefined || attempt === limits.mergeAttempts) throw error
      await settled
    }
  }
}

function isBaseGone(error: unknown): boolean {
  return error instanceof EngineError && error.reason === 'MERGE_BASE_GONE'
}

/** Merges two bases of a merge into one. Their conflicts become markers. */
export async function virtualBase(core: Core, trees: MergeTrees, merger: FileMerger): Promise<Dir> {
  using _ = core.pins.pin({ roots: [trees.base, trees.ours, trees.theirs] })
  const rules = {
    policies: new PathRules<never>([]),
    mergers: new PathRules<never>([]),
    names: { base: 'base', ours: 'ours', theirs: 'theirs' },
    isVirtual: true,
  }
  const result = await mergeTrees(core, trees, rules, merger)
  return resultOf(core, trees.ours, result)
}

/** Finds the base of a merge: the newest common ancestor, or several of them merged. */
class MergeBase {
  readonly #core: Core
  readonly #ancestry: Ancestry
  readonly #merger: FileMerger
  readonly #pinned: PinnedRoots

  constructor(
    core: Core,
    parts: { readonly ancestry: Ancestry; readonly merger: FileMerger; readonly pinned: PinnedRoots },
  ) {
    this.#core = core
    this.#ancestry = parts.ancestry
    this.#merger = parts.merger
    this.#pinned = parts.pinned
  }

  /**
   * The tree to compare both sides with. Several newest common ancestors are merged first, as git does; their
   * conflicts become markers in that tree.
   *
   * @throws {EngineError} NO_COMMON_ANCESTOR when the histories have no state in common.
   * @throws {EngineError} MERGE_BASE_GONE when the tree of the state no longer exists.
   */
  async find(ours: Ancestors, theirs: Ancestors): Promise<Dir> {
    const base = await this.#find(ours, theirs, 0)
    if (base === undefined) throw noCommonAncestor()
    return base
  }

  async #find(ours: Ancestors, theirs: Ancestors, depth: number): Promise<Dir | undefined> {
    const states = await this.#ancestry.commonAncestors(ours, theirs)
    if (states.length === 0) return undefined
    let root = this.#pinned.add(await this.#treeOf(itemAt(states, 0)))
    if (depth >= limits.mergeBaseDepth) return root
    const merged = new Ancestors()
    merged.addAll(await this.#ancestry.ancestorsOf(itemAt(states, 0)))
    for (const state of states.slice(1, limits.mergeBases)) {
      const ancestors = await this.#ancestry.ancestorsOf(state)
      const base = await this.#find(merged, ancestors, depth + 1)
      // The states that connect them were deleted.
      if (base === undefined) continue
      const theirs = this.#pinned.add(await this.#treeOf(state))
      root = this.#pinned.add(await virtualBase(this.#core, { base, ours: root, theirs }, this.#merger))
      merged.addAll(ancestors)
    }
    return root
  }

  async #treeOf(state: GraphState): Promise<Dir> {
    const live = 'sessionId' in state ? this.#core.table.live.get(state.sessionId) : undefined
    if (live !== undefined && 'seq' in state) {
      // On a shared store, only stored states are final.
      const last = live.shared?.stored.seq ?? live.seq
      if (last === state.seq && live.tail === undefined) return live.shared?.stored.root ?? live.tree.freeze()
      const known = state.seq > last ? undefined : this.#inMemory(live, state.seq)
      if (known !== undefined) return known
    }
    for (const { tree, root } of this.#ancestry.treesOf(state)) {
      if (tree !== undefined) return tree
      const loaded = root && this.#kept(() => this.#core.roots.load(root))
      if (loaded !== undefined) return loaded
    }
    if ('baseline' in state) throw baseGone(state)
    // The state after a restore equals the restored one, and so does that of a fork before its first change.
    const forkId = this.#ancestry.forkOf(state)
    const equal: (readonly [sessionId: string, seq: number])[] = [[state.sessionId, state.seq]]
    for (const seq of this.#ancestry.restoresOf(state)) equal.push([state.sessionId, seq])
    if (forkId !== undefined) equal.push([forkId, 0])
    for (const [sessionId, seq] of equal) {
      const root = await this.#replayed(sessionId, seq)
      if (root !== undefined) return root
    }
    throw baseGone(state)
  }

  /** A state of a checkpoint, or, if memory is the only copy, one of its newest changes. */
  #inMemory(live: LiveSession, seq: number): Dir | undefined {
    const pinned = live.pins?.get(seq)
    if (pinned !== undefined) return pinned
    try {
      return this.#core.journal.remembered(this.#core, live, seq)
    } catch (error) {
      if (error instanceof EngineError && error.reason === 'STATE_NOT_KEPT') return undefined
      throw error
    }
  }

  /** A state from the store, if its events and snapshots are still there. */
  async #replayed(sessionId: string, seq: number): Promise<Dir | undefined> {
    return this.#core.journal.kept(async () => {
      try {
        return (await stateAt(this.#core, sessionId, seq)).root
      } catch (error) {
        if (error instanceof EngineError && error.reason === 'DATA_LOSS') return undefined
        throw error
      }
    })
  }

  #kept(load: () => Dir): Dir | undefined {
    try {
      return load()
    } catch (error) {
      if (error instanceof EngineError && error.reason === 'DATA_LOSS') return undefined
      throw error
    }
  }
}

function noCommonAncestor(): EngineError {
  return new EngineError(
    'NO_COMMON_ANCESTOR',
    'the two sides have no common ancestor: neither is a fork of the other, and they did not start from the same files; merge sessions that were forked from one session, or created from one revision',
  )
}

function baseGone(state: GraphState): EngineError {
  const [sessionId = '', seq = ''] = 'baseline' in state ? [] : keyOf(state).split(' ')
  return new EngineError(
    'MERGE_BASE_GONE',
    `the common ancestor of the two sides, ${'baseline' in state ? 'the base of a session' : `state ${seq} of session ${sessionId}`}, no longer exists; restore to an older checkpoint that both have, or copy the files. Checkpoints keep states that a later merge may need`,
    { sessionId },
  )
}
