import { present } from '../base/present.js'
import { invalid } from '../base/errors.js'
import { parseFlag } from '../base/input.js'
import { Shape } from '../base/shape.js'
import { encodePageToken, parsePageSize, parsePageToken, type PageRequest } from '../base/paging.js'
import { TimeSlice } from '../base/cooperative.js'
import { kindOf, type Dir, type NodeKind } from '../tree/node.js'
import { TreeDiff, type TreeChange } from '../tree/diff.js'
import { checkpointFields, findCheckpoint, type CheckpointReference } from './checkpoints.js'
import type { Core } from './core.js'
import { touch } from './table/activity.js'
import type { LiveSession } from './table/live.js'
import { openUsed, usedNow } from './table/expiry.js'
import { rootAt } from './history/replay.js'

/** Refers to one state: a session's newest, one of its checkpoints, or its base. */
export interface StateReference extends CheckpointReference {
  /** The id of the session. */
  readonly sessionId: string
  /** true: the base that the session and all its relatives by fork started from. false by default. */
  readonly base?: boolean
}

/** Whether a request refers to an earlier state of a session, not its newest or its base. */
export function refersToCheckpoint({ checkpointId, checkpointLabel }: CheckpointReference): boolean {
  return checkpointId !== undefined || checkpointLabel !== undefined
}

export const stateFields = { ...checkpointFields, base: true } as const

export const stateShape = new Shape<StateReference>({ sessionId: true, ...stateFields })

/**
 * A state that is protected from collections until its pin is disposed of, or until JavaScript frees the
 * root.
 */
interface FoundState {
  readonly root: Dir
  readonly pin: Disposable
}

async function findState(core: Core, reference: StateReference): Promise<FoundState> {
  // If the session is in memory, nothing is awaited, so the state is that at the time of the call.
  const live = usedNow(core, reference.sessionId) ?? (await openUsed(core, reference.sessionId))
  touch(core, live)
  const root = await stateOf(core, live, reference)
  return { root, pin: core.pins.pin({ roots: [root], owner: root }) }
}

/** A state of a session; without a reference, that of the call. */
export async function stateOf(
  core: Core,
  live: LiveSession,
  reference: Omit<StateReference, 'sessionId'>,
): Promise<Dir> {
  if (parseFlag('base', reference.base, false)) {
    if (refersToCheckpoint(reference))
      throw invalid('base', 'cannot be combined with a checkpoint: pass one of them')
    return live.baseline
  }
  if (!refersToCheckpoint(reference)) return live.tree.freeze()
  const checkpoint = await findCheckpoint(core, live, reference)
  return rootAt(core, live, checkpoint.seq)
}

/** The changes between two states, as they are now. An error in a reference appears when the diff is read. */
export function diffOf(core: Core, from: () => StateReference, to: () => StateReference): Diff {
  const before = (async () => findState(core, from()))()
  const after = (async () => findState(core, to()))()
  return new Diff(core, Promise.all([before, after]))
}

/** One path on which two states differ. */
export interface Change {
  /** Absolute path, such as `/src/a.ts`. */
  readonly path: string
  /**
   * `added`: only the second state has the path. `removed`: only the first one. `modified`: its content,
   * target or mode differs.
   */
  readonly change: 'added' | 'removed' | 'modified'
  /** `'file'`, `'directory'` or `'symlink'`, in the second state if it has the path. */
  readonly kind: NodeKind
}

/**
 * The changes from one state to another, in manifest order.
 *
 * They are computed while they are read, and equal subtrees cost nothing. The states are those at the time of
 * the call, without later writes.
 *
 * A diff can be read several times. `engine.collect()` therefore keeps the contents of both states until the
 * diff is disposed of, or until JavaScript's garbage collection frees it. `using diff = session.diff()`
 * disposes of it at the end of the block.
 */
export class Diff implements AsyncIterable<Change>, Disposable {
  readonly #core: Core
  readonly #states: Promise<readonly [before: FoundState, after: FoundState]>
  #isDisposed = false

  /** @internal */
  constructor(core: Core, states: Promise<readonly [before: FoundState, after: FoundState]>) {
    this.#core = core
    this.#states = states
    // The reader of the diff gets the error; a diff that is not read causes no unhandled rejection.
    states.catch(() => undefined)
  }

  /**
   * The changes one by one, in the order of the manifest. Each iteration computes them again.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a reference has the wrong form, or after the diff was
   * disposed of.
   * @throws {EngineError} SESSION_NOT_FOUND when a session does not exist.
   * @throws {EngineError} CHECKPOINT_NOT_FOUND when a session has no such checkpoint.
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  async *[Symbol.asyncIterator](): AsyncIterator<Change> {
    if (this.#isDisposed) throw invalid('diff', 'was disposed: create another diff')
    const [before, after] = await this.#states
    for await (const change of treeChanges(this.#core, before.root, after.root)) yield describeChange(change)
  }

  /**
   * All paths that differ, by the kind of change. The errors are those of the iteration.
   *
   * @example
   * const { added, removed, modified } = await session.diff().paths()
   */
  async paths(): Promise<{
    /** Paths that only the second state has. */
    added: string[]
    /** Paths that only the first state has. */
    removed: string[]
    /** Paths that both states have, with another content, target or mode. */
    modified: string[]
  }> {
    const paths = { added: [] as string[], removed: [] as string[], modified: [] as string[] }
    for await (const { path, change } of this) paths[change].push(path)
    return paths
  }

  /**
   * Releases both states, so that `engine.collect()` can free their contents. A running iteration continues
   * to its end. A later one rejects with INVALID_ARGUMENT. Further calls do nothing.
   *
   * @example
   * using diff = session.diff()
   * for await (const { path } of diff) console.log(path)
   */
  [Symbol.dispose](): void {
    this.#isDisposed = true
    void this.#states.then(
      (states) => {
        for (const { pin } of states) pin[Symbol.dispose]()
      },
      () => undefined,
    )
  }
}

export interface ChangePage {
  readonly changes: Change[]
  readonly nextPageToken: string
}

/**
 * A page of a diff, which this disposes of. Each page is computed from the states at the time of its request,
 * and its position counts from their first change.
 */
export async function listChanges(diff: Diff, name: string, request: PageRequest): Promise<ChangePage> {
  try {
    const pageSize = parsePageSize(request.pageSize)
    const start = Number(parsePageToken(name, request.pageToken) ?? 0)
    const changes: Change[] = []
    let index = 0
    for await (const change of diff) {
      if (index++ < start) continue
      if (changes.length === pageSize)
        return { changes, nextPageToken: encodePageToken(name, String(start + pageSize)) }
      changes.push(change)
    }
    return { changes, nextPageToken: '' }
  } finally {
    diff[Symbol.dispose]()
  }
}

export async function* treeChanges(core: Core, before: Dir, after: Dir): AsyncGenerator<TreeChange> {
  const slice = new TimeSlice(core.environment)
  using _ = core.pins.pin({ roots: [before, after] })
  for (const step of new TreeDiff(core.contentIds, core.loader).compare(before, after)) {
    if (step instanceof Promise) await step
    else if (step !== undefined) yield step
    if (slice.over) await slice.next()
  }
}

export function describeChange({ path, before, after }: TreeChange): Change {
  const change = before === undefined ? 'added' : after === undefined ? 'removed' : 'modified'
  return { path, change, kind: kindOf(present(after ?? before, 'the changed node')) }
}
