import { limits } from '../../base/limits.js'
import type { EncodedNode } from '../../tree/encoded.js'
import type { Dir } from '../../tree/node.js'
import type { Core } from '../../session/core.js'
import { lineageOf } from '../../session/history/lineage.js'
import type { LineageStep } from '../../session/history/lineage-step.js'
import { findSession } from '../../session/history/replay.js'
import type { Baseline } from '../../records/baseline.js'
import { SessionSpans } from './session-spans.js'

/** A state of a session, by the number of its event. */
export interface SessionState {
  readonly sessionId: string
  readonly seq: number
}

/** The base of a state. The revision of an aborted rebase is not known. */
export type StateBase = Pick<Baseline, 'fingerprint' | 'revision'>

/** A state in the fork graph: one of a session, or the tree that sessions start from. */
export type GraphState =
  | SessionState
  /** The fingerprint of the tree. Two equal trees are one state. */
  | { readonly baseline: string }

/** A tree from which the ancestry knows a state. */
export interface KnownTree {
  readonly tree: Dir | undefined
  readonly root: EncodedNode | undefined
}

/** A session in the fork graph. */
interface Member {
  readonly base: readonly [sessionId: string, seq: number] | undefined
  readonly baseline: Baseline
  /** The tree that it started from, before all rebases; absent for a fork. */
  readonly start: EncodedNode | undefined
  readonly steps: readonly LineageStep[]
}

/** The ancestors of a state, itself included. */
export class Ancestors {
  /** In the order in which they were found: those of the nearest session first. */
  readonly spans = new Map<string, SessionSpans>()
  readonly baselines = new Set<string>()
  /** The baselines that rebases replaced, each with the newer ones. */
  readonly replaced = new Map<string, Set<string>>()

  has(state: GraphState): boolean {
    if ('baseline' in state) return this.baselines.has(state.baseline)
    return this.spans.get(state.sessionId)?.has(state.seq) === true
  }

  /** The states of a session, to which more can be added. */
  spansOf(sessionId: string): SessionSpans {
    let spans = this.spans.get(sessionId)
    if (spans === undefined) this.spans.set(sessionId, (spans = new SessionSpans()))
    return spans
  }

  /** Adds the ancestors of another state. */
  addAll(other: Ancestors): void {
    for (const [sessionId, spans] of other.spans) this.spansOf(sessionId).addAll(spans)
    for (const baseline of other.baselines) this.baselines.add(baseline)
    for (const [older, newer] of other.replaced) for (const one of newer) this.addRebase(older, one)
  }

  addRebase(older: string, newer: string): void {
    if (older !== newer) this.replaced.set(older, (this.replaced.get(older) ?? new Set()).add(newer))
  }

  /** A baseline and those that rebases replaced by it. */
  through(baseline: string): Ancestors {
    const found = new Ancestors()
    found.baselines.add(baseline)
    for (const newer of found.baselines)
      for (const [older, ones] of this.replaced) if (ones.has(newer)) found.baselines.add(older)
    return found
  }

  /** The baseline that no rebase has replaced; `own` if there are several. */
  newestBaseline(own: string): string {
    const newest = [...this.baselines].filter((one) => !this.replaced.has(one))
    return newest.includes(own) ? own : (newest[0] ?? own)
  }

  /** The newest baselines that both have. */
  newestBaselines(other: Ancestors): readonly string[] {
    const common = [...this.baselines].filter((one) => other.baselines.has(one))
    return common.filter((one) => !common.some((newer) => this.replaced.get(one)?.has(newer)))
  }
}

/**
 * Finds common ancestors of states. A state has these parents: the state before it in its session, the restored
 * state after a restore, the state that its session was forked from, and the merged state after a merge. It
 * reads one record for each session, and one for each of its restores and merges, but no events.
 */
export class Ancestry {
  readonly #core: Core
  readonly #members = new Map<string, Member | undefined>()
  readonly #trees = new Map<string, KnownTree[]>()

  constructor(core: Core) {
    this.#core = core
  }

  /** Places where the tree of a state may be found, besides the history of its session. */
  treesOf(state: GraphState): readonly KnownTree[] {
    return this.#trees.get(keyOf(state)) ?? []
  }

  /** The events that restored a state, of a session whose record was read. */
  restoresOf({ sessionId, seq }: SessionState): readonly number[] {
    const steps = this.#members.get(sessionId)?.steps ?? []
    return steps.filter(({ restored }) => restored === seq).map((step) => step.seq)
  }

  async ancestorsOf(state: GraphState): Promise<Ancestors> {
    const ancestors = new Ancestors()
    const waiting: GraphState[] = [state]
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (ancestors.has(next)) continue
      if ('baseline' in next) ancestors.baselines.add(next.baseline)
      else waiting.push(...(await this.#visit(ancestors, next.sessionId, next.seq)))
    }
    return ancestors
  }

  /** Adds the ancestors of a state in its own session. Returns their parents elsewhere. */
  async #visit(ancestors: Ancestors, sessionId: string, seq: number): Promise<readonly GraphState[]> {
    const member = await this.#member(sessionId)
    const spans = ancestors.spansOf(sessionId)
    if (member === undefined) {
      // The session was deleted and collected. All its states up to this one count as ancestors, and the tree
      // that its forks started from.
      spans.add(0, seq)
      const start = this.#starts.get(sessionId)
      return start === undefined ? [] : [{ baseline: start }]
    }
    const parents: GraphState[] = []
    let to = seq
    for (const { seq: at, restored, merged, rebased } of member.steps.toReversed()) {
      if (at > to) continue
      if (merged !== undefined) parents.push({ sessionId: merged[0], seq: merged[1] })
      // The new base comes after the old one.
      if (rebased !== undefined) for (const baseline of rebased.toReversed()) parents.push({ baseline })
      if (rebased !== undefined) ancestors.addRebase(...rebased)
      if (restored === undefined) continue
      if (!spans.add(at, to)) return parents
      to = restored
    }
    if (!spans.add(0, to)) return parents
    // The ancestors of a fork are those of the state that it started from.
    if (member.base !== undefined) parents.unshift({ sessionId: member.base[0], seq: member.base[1] })
    else parents.push({ baseline: startOf(member) })
    return parents
  }

  /**
   * The base of a state: the one of its newest rebase, or else the one that its session started from. Merges do not count.
   * Undefined if a collection has deleted what shows it.
   */
  async baseOf({ sessionId, seq }: SessionState): Promise<StateBase | undefined> {
    const member = await this.#member(sessionId)
    if (member === undefined) return undefined
    let to = seq
    for (const step of member.steps.toReversed()) {
      if (step.seq > to) continue
      if (step.restored !== undefined) to = step.restored
      else if (step.before !== undefined) return baseAfter(member, step)
    }
    const { base } = member
    return base === undefined ? firstBase(member) : this.baseOf({ sessionId: base[0], seq: base[1] })
  }

  /**
   * Whether a state with a base is on the base of its session, or a merge has brought that one. Otherwise, the session was
   * restored to a state before a rebase. Their trees do not decide this, because two revisions can have equal trees.
   */
  async isOnBase(ancestors: Ancestors, ofState: StateBase | undefined, base: Baseline): Promise<boolean> {
    if (ofState === undefined) return ancestors.has({ baseline: base.fingerprint })
    if (isSameBase(ofState, base)) return true
    if (ancestors.newestBaseline(ofState.fingerprint) !== base.fingerprint) return false
    for (const sessionId of ancestors.spans.keys()) {
      const member = await this.#member(sessionId)
      if (member === undefined) continue
      const isHere = ({ seq, before }: LineageStep): boolean =>
        before !== undefined && ancestors.has({ sessionId, seq })
      const bases = member.steps.filter(isHere).map((step) => baseAfter(member, step))
      if (member.base === undefined) bases.push(firstBase(member))
      if (bases.some((one) => isSameBase(one, base))) return true
    }
    return false
  }

  /**
   * The newest common ancestors: those that are no ancestors of another one. Usually one; several after merges
   * in both directions.
   */
  async commonAncestors(a: Ancestors, b: Ancestors): Promise<readonly GraphState[]> {
    const candidates: GraphState[] = []
    for (const [sessionId, spans] of a.spans) {
      const other = b.spans.get(sessionId)
      if (other !== undefined) for (const seq of spans.common(other)) candidates.push({ sessionId, seq })
    }
    for (const baseline of a.baselines) if (b.baselines.has(baseline)) candidates.push({ baseline })
    return this.newestOf(candidates)
  }

  /** Those of the states that are no ancestors of another one. */
  async newestOf(candidates: readonly GraphState[]): Promise<readonly GraphState[]> {
    let newest: GraphState[] = []
    for (const candidate of candidates) {
      if (newest.some((one) => keyOf(one) === keyOf(candidate))) continue
      const known = await Promise.all(newest.map((one) => this.#ancestorsOnce(one)))
      if (known.some((ancestors) => ancestors.has(candidate))) continue
      const own = await this.#ancestorsOnce(candidate)
      newest = [...newest.filter((one) => !own.has(one)), candidate]
    }
    return newest
  }

  readonly #memo = new Map<string, Ancestors>()

  async #ancestorsOnce(state: GraphState): Promise<Ancestors> {
    const known = this.#memo.get(keyOf(state))
    if (known !== undefined) return known
    const ancestors = await this.ancestorsOf(state)
    this.#memo.set(keyOf(state), ancestors)
    return ancestors
  }

  async #member(sessionId: string): Promise<Member | undefined> {
    if (this.#members.has(sessionId)) return this.#members.get(sessionId)
    const member = this.#members.size < limits.mergeSessions ? await this.#read(sessionId) : undefined
    this.#members.set(sessionId, member)
    if (member !== undefined) this.#noteTrees(sessionId, member)
    return member
  }

  async #read(sessionId: string): Promise<Member | undefined> {
    const live = this.#core.table.live.get(sessionId)
    const mine = live?.tenantKey === this.#core.tenantKey ? live : undefined
    const record = mine?.record ?? (await findSession(this.#core, sessionId))
    if (record === undefined) return undefined
    const steps = await lineageOf(this.#core, sessionId)
    for (let origin = mine?.origin; origin !== undefined; origin = origin.before) {
      const [ofId, seq] = origin.base
      // The rest is known from another fork.
      if (this.treesOf({ sessionId: ofId, seq }).some(({ tree }) => tree === origin?.root)) break
      this.#note({ sessionId: ofId, seq }, { tree: origin.root, root: undefined })
    }
    const { base, baseline, start } = record
    return { base, baseline, start, steps }
  }

  #noteTrees(sessionId: string, member: Member): void {
    const { base, baseline, start, steps } = member
    this.#note({ baseline: baseline.fingerprint }, { tree: undefined, root: baseline.root })
    this.#note({ baseline: startOf(member) }, { tree: undefined, root: start })
    for (const { seq, restored, merged, rebased, tree, root } of steps) {
      const known = { tree, root }
      if (restored !== undefined) this.#note({ sessionId, seq: restored }, known)
      if (seq === 0) this.#note({ sessionId, seq }, known)
      if (merged !== undefined) this.#note({ sessionId: merged[0], seq: merged[1] }, known)
      else if (rebased !== undefined) this.#note({ baseline: rebased[1] }, known)
      else if (seq === 0 && base !== undefined) this.#note({ sessionId: base[0], seq: base[1] }, known)
    }
    // A fork in its first state is equal to the state that it started from.
    if (base !== undefined) this.#starts.set(base[0], startOf(member))
    if (base !== undefined) this.#forks.set(keyOf({ sessionId: base[0], seq: base[1] }), sessionId)
  }

  readonly #forks = new Map<string, string>()
  /** The fingerprints of the trees that parents started from. A fork has that of its parent. */
  readonly #starts = new Map<string, string>()

  /** A fork that started from the state, if the ancestry found one. */
  forkOf(state: GraphState): string | undefined {
    return this.#forks.get(keyOf(state))
  }

  #note(state: GraphState, tree: KnownTree): void {
    if (tree.tree === undefined && tree.root === undefined) return
    const key = keyOf(state)
    const trees = this.#trees.get(key)
    if (trees === undefined) this.#trees.set(key, [tree])
    else trees.push(tree)
  }
}

/** The fingerprint of the tree that a session started from, before all rebases. */
function startOf({ baseline, steps }: Member): string {
  return steps.find((step) => step.rebased !== undefined)?.rebased?.[0] ?? baseline.fingerprint
}

/** The base that a session, which is no fork, had before its rebases. */
function firstBase({ baseline, steps }: Member): StateBase {
  return steps.find(({ before }) => before !== undefined)?.before ?? baseline
}

/** The base that a session had after one of its rebases. */
function baseAfter({ baseline, steps }: Member, { seq, rebased }: LineageStep): StateBase {
  const after = steps.find((step) => step.seq > seq && step.before !== undefined)?.before ?? baseline
  const fingerprint = rebased?.[1] ?? after.fingerprint
  return after.fingerprint === fingerprint ? after : { fingerprint }
}

function isSameBase(a: StateBase, b: StateBase): boolean {
  if (a.fingerprint !== b.fingerprint) return false
  return a.revision === undefined || a.revision.revisionId === b.revision?.revisionId
}

export function keyOf(state: GraphState): string {
  return 'baseline' in state ? state.baseline : `${state.sessionId} ${state.seq}`
}
