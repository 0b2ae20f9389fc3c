import { EngineError } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { servedBranch } from '../../base/ref-names.js'
import { ContentWriter } from '../../cas/content-writer.js'
import type { BranchTip, BranchTips } from '../../records/branch-tip.js'
import type { CheckpointRecord } from '../../records/checkpoint.js'
import { eventTypes } from '../../records/event.js'
import { servedCommitKind, type ServedCommit } from '../../records/served-commit.js'
import { branchTipsOf, setTip } from '../../session/branch-tips.js'
import { allCheckpoints } from '../../session/checkpoints.js'
import type { Core } from '../../session/core.js'
import { restoredEffects } from '../../session/edits/restored.js'
import { namedRoot, openSession } from '../../session/history/replay.js'
import { commitRecords, record } from '../../session/mutation-queue.js'
import { finalState } from '../../session/sharing/when-stored.js'
import { checkNoConflicts, settled } from '../../session/status.js'
import { onCurrent } from '../../session/table/current.js'
import type { BaseAtState, LiveSession } from '../../session/table/live.js'
import { keys } from '../../storage/keys.js'
import { lossCheck } from '../../storage/loss-check.js'
import type { Dir } from '../../tree/node.js'
import { emptyRoot } from '../../tree/tree.js'
import { baseOf, changesOf } from './commit-changes.js'
import { withinDeadline } from './deadline.js'
import { GitObjectStore, type MemoryGitObjects } from './git-objects.js'
import type { CommitDescription, CommitReader, CommitRequest, Committer } from './git-ports.js'
import { GitTreeBuilder } from './git-trees.js'
import { keepingAttributes } from './pushed-effects.js'
import type {
  CheckpointCommit,
  RepositoryHead,
  RepositoryObjects,
  RepositoryPush,
} from './repository-ports.js'

/** The author of commits that no principal has made. */
const author = { name: 'forkspace', email: 'forkspace@localhost' }

/** A state, and the commit that has it. */
interface Served extends Omit<ServedCommit, 'root'> {
  readonly tree: Dir
}

/** The state of a session between two of its changes. */
interface State extends BaseAtState {
  readonly live: LiveSession
  readonly seq: number
  readonly root: Dir
  /** See {@link lossCheck}. */
  readonly checkLosses: () => void
}

/** The state that a client saw, and its commit. */
interface Seen {
  readonly state: State
  readonly served: Served | undefined
}

/** The commit and the tree that the commits of checkpoints build on. */
interface CheckpointStart extends Pick<Served, 'base' | 'tree'> {
  readonly baseTree: string | null
}

/** A push whose objects are stored. */
interface ReadPush extends Seen {
  readonly after: Dir
  readonly commitId: string
}

/**
 * Serves the states of sessions as git commits.
 *
 * The newest state is a commit that builds on the last one that was served, so a later fetch is a fast-forward. If the
 * files have not changed since, it is that commit itself. Commits of the session are part of this history.
 */
export class Repositories {
  readonly #committer: () => Promise<Committer>
  readonly #reader: () => Promise<CommitReader>
  readonly #gitObjects: MemoryGitObjects | undefined
  readonly #deadlineMs: number
  /**
   * The last served commit of each session in memory, by {@link LiveSession.epoch}: another engine may have served one
   * since. Without a durable store, only this holds its tree.
   */
  readonly #served = new WeakMap<object, Served>()
  /** One served commit of a session at a time, because each is the parent of the next. */
  readonly #mutex = new KeyedMutex()

  constructor(ports: {
    deadlineMs: number
    committer: () => Promise<Committer>
    reader: () => Promise<CommitReader>
    gitObjects: MemoryGitObjects | undefined
  }) {
    this.#deadlineMs = ports.deadlineMs
    this.#committer = ports.committer
    this.#reader = ports.reader
    this.#gitObjects = ports.gitObjects
  }

  objects(core: Core): RepositoryObjects {
    return this.#writableObjects(core).objects
  }

  /** The commit of the newest state. It is created if the files have changed since the last one. */
  head(core: Core, { id }: LiveSession, signal?: AbortSignal): Promise<RepositoryHead> {
    return this.#inTurn(id, signal, async (within) => {
      const { served, pin } = await this.#seen(core, id, within)
      pin[Symbol.dispose]()
      return headOf(served)
    })
  }

  /** The commit that was served last, or else that of the newest state. */
  async served(core: Core, live: LiveSession, signal?: AbortSignal): Promise<RepositoryHead> {
    const last = await this.#last(core, live)
    return last === undefined ? this.head(core, live, signal) : headOf(last)
  }

  /** The commits of the newest checkpoints, in order of creation. Each builds on the imported commit alone. */
  checkpoints(core: Core, { id }: LiveSession, signal?: AbortSignal): Promise<CheckpointCommit[]> {
    return this.#inTurn(id, signal, async (within) => {
      const { state, served, pin } = await this.#seen(core, id, within)
      using _ = pin
      const { live, checkLosses } = state
      const all = await whenLoaded(() => allCheckpoints(core, live))
      const start = await this.#startOf(core, live, served)
      const commits: CheckpointCommit[] = []
      for (const checkpoint of all.slice(-limits.servedCheckpoints)) {
        const { id: checkpointId, label } = checkpoint
        try {
          const commitId = await this.#checkpoint(core, live, checkpoint, {
            ...start,
            signal: within,
            checkLosses,
          })
          commits.push({ checkpointId, label, commitId })
        } catch (error) {
          // It has a name that git does not allow. The others are listed nevertheless.
          if (!(error instanceof EngineError) || error.reason !== 'GIT_UNSAFE_PATH') throw error
        }
      }
      return commits
    })
  }

  /**
   * Applies a push as one event.
   *
   * @throws {EngineError} BRANCH_MOVED when the client has not seen the newest state.
   */
  push(core: Core, { id }: LiveSession, push: RepositoryPush): Promise<void> {
    return this.#within('push', push.signal, async (signal) => {
      using writes = core.pins.pin({ writesSince: 'now' })
      void writes
      const { state, served, pin } = await this.#mutex.run(id, () => this.#seen(core, id, signal), signal)
      using _ = pin
      checkNoConflicts(state.record)
      const head = headOf(served)
      if (head.commitId !== push.expected) throw moved(push.expected, head.commitId)
      const { objects, writer } = this.#writableObjects(core)
      const trees = new GitTreeBuilder(core, objects, writer, state.root)
      // Fetches do not wait for it, because the client may take its time.
      await push.read({ head, objects, sink: trees, signal })
      await objects.flush()
      const after = await trees.build()
      using held = core.pins.pin({ roots: [after] })
      void held
      signal.throwIfAborted()
      await this.#mutex.run(id, () => this.#apply(core, { state, served, after, commitId: push.commitId }))
    })
  }

  /** The newest state with its commit, pinned. */
  async #seen(core: Core, id: string, signal: AbortSignal): Promise<Seen & { readonly pin: Disposable }> {
    for (let run = 1; ; run++) {
      const state = await this.#newest(core, id)
      const pin = core.pins.pin({ roots: [state.root, state.baseline] })
      try {
        return { state, served: await this.#serve(core, state, signal), pin }
      } catch (error) {
        pin[Symbol.dispose]()
        if (!(error instanceof ServedElsewhere) || run === limits.sharedChangeRuns) throw error
      }
    }
  }

  async #apply(core: Core, { state, served, after, commitId }: ReadPush): Promise<void> {
    const newest = await this.#last(core, (await this.#newest(core, state.live.id)).live)
    if (newest?.commitId !== served?.commitId) throw moved(served?.commitId ?? null, newest?.commitId ?? null)
    const redo = await keepingAttributes(
      core,
      state.root,
      await restoredEffects(core, { before: state.root, after, paths: undefined }),
    )
    const paths = [...new Set(redo.map(([, path]) => String(path)))]
    // It differs from the new state in attributes that git does not have.
    const root = await core.roots.save(after)
    const base = served?.base ?? ''
    await onCurrent(core, state.live.id, (live) => {
      if (!isStill(live, state)) throw moved(served?.commitId ?? null, null)
      state.checkLosses()
      checkNoConflicts(live.record)
      const seq = live.seq + 1
      const kept: ServedCommit = { commitId, seq, base, root }
      const tip: BranchTip = { commitId, seq }
      const committed = record(core, live, {
        type: eventTypes.commit,
        details: {
          commitId,
          branchName: servedBranch,
          operationCount: paths.length,
          paths: paths.slice(0, limits.pathsInDetails),
        },
        redo,
        put: [
          [keys.servedCommit(live.id), kept],
          [keys.branchTip(live.id, ''), tip],
        ],
        session: settled(live),
      })
      setTip(live, '', tip)
      this.#served.set(live.epoch, { commitId, seq, base, tree: after })
      return committed
    })
  }

  /** Runs work on the served commits of a session, one at a time, because each is the parent of the next. */
  #inTurn<T>(
    id: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#within('commit', signal, (within) => this.#mutex.run(id, () => work(within), within))
  }

  #within<T>(
    what: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return withinDeadline({ deadlineMs: this.#deadlineMs, what }, [signal], work)
  }

  /** The session with its newest state, which is stored. */
  async #newest(core: Core, sessionId: string): Promise<State> {
    const checkLosses = lossCheck(core.store)
    const live = core.table.atHand(core.tenantKey, sessionId) ?? (await openSession(core, sessionId))
    if (live.tail !== undefined) await live.tail
    const newest = live.shared === undefined ? newestOf(live) : await finalState(core.pins, live, live.shared)
    using _ = core.pins.pin({ roots: [newest.root, newest.baseline] })
    await live.acknowledged
    return { live, ...newest, checkLosses }
  }

  /** The commit of a state, which is stored. Undefined if there are no files and no commits. */
  async #serve(core: Core, state: State, signal: AbortSignal): Promise<Served | undefined> {
    const { live, seq, root } = state
    const { epoch } = live
    const last = await this.#last(core, live)
    if (last?.seq === seq) return last
    const own = newestTip(await branchTipsOf(core, live), { since: last?.seq, upTo: seq })
    const imported = state.record.baseline.revision?.git
    const base = last?.base ?? imported?.commitId ?? ''
    const before = last?.commitId ?? (base === '' ? undefined : base)
    const parents = await this.#parents(core, { before, own, base })
    if (parents.length === 0 && !(await hasFiles(core, root))) return undefined
    using _ = core.pins.pin({ writesSince: 'now', roots: [root] })
    const commitId = await this.#commit(core, {
      parents,
      baseTree: last === undefined ? (imported?.treeId ?? null) : await this.#treeOf(core, last.commitId),
      changes: changesOf(core, last?.tree ?? baseOf(core, state), root),
      message: `Changes up to event ${seq}`,
      atMs: live.lastEventAt,
      signal,
    })
    if (commitId === last?.commitId) {
      // The record refers to the tree of that state, so collections keep it.
      const same = { ...last, seq }
      this.#served.set(epoch, same)
      return same
    }
    const served = { commitId, seq, base, tree: root }
    const kept: ServedCommit = { commitId, seq, base, root: await core.roots.save(root) }
    await onCurrent(core, live.id, (current) => {
      // Within this engine, one commit is made at a time, so an eviction changes nothing.
      if (current.shared !== undefined && current.epoch !== epoch) throw new ServedElsewhere(live.id)
      state.checkLosses()
      this.#served.set(current.epoch, served)
      return commitRecords(core, current, { put: [[keys.servedCommit(live.id), kept]] })
    })
    return served
  }

  /** The commit that was served last. */
  async #last(core: Core, live: LiveSession): Promise<Served | undefined> {
    const { epoch } = live
    const known = this.#served.get(epoch)
    if (known !== undefined) return known
    const json = await core.store.get(keys.servedCommit(live.id))
    if (json === undefined) return undefined
    const { root, ...kept } = servedCommitKind.parse(json)
    if (root === undefined) return undefined
    const served = { ...kept, tree: core.roots.load(root) }
    this.#served.set(epoch, served)
    return served
  }

  /**
   * The parents of the next served commit: the last one, and the session's own newest commit, unless one of them builds
   * on the other.
   */
  async #parents(
    core: Core,
    {
      before,
      own,
      base,
    }: { readonly before: string | undefined; readonly own: string | undefined; readonly base: string },
  ): Promise<readonly string[]> {
    if (own === undefined || own === before) return before === undefined ? [] : [before]
    if (before === undefined) return [own]
    const served = await this.#ancestors(core, before, base)
    if (served?.has(own) === true) return [before]
    const owned = await this.#ancestors(core, own, base)
    // A rebase may have moved the session to another imported commit, whose parents the engine does not have.
    if (served === undefined || owned === undefined) return [before]
    if (owned.has(before)) return [own]
    return [...owned].some((id) => served.has(id)) ? [before, own] : [before]
  }

  /** A commit with its ancestors, without those of `base`. Undefined if the engine does not have all of them. */
  async #ancestors(core: Core, commitId: string, base: string): Promise<ReadonlySet<string> | undefined> {
    const found = new Set([commitId])
    for (const id of found) {
      if (id === base) continue
      const commit = await this.#find(core, id)
      if (commit === undefined) return undefined
      for (const parent of commit.parentIds) found.add(parent)
    }
    return found
  }

  async #find(core: Core, commitId: string): Promise<CommitDescription | undefined> {
    return (await this.#reader()).describe(commitId, this.#writableObjects(core).objects)
  }

  async #treeOf(core: Core, commitId: string): Promise<string> {
    const commit = await this.#find(core, commitId)
    if (commit !== undefined) return commit.treeId
    throw new EngineError('GIT_CORRUPT', `the commit ${commitId}, which the session serves, is missing`)
  }

  /** The state that those of checkpoints are compared with. Only an imported one has entries that a session lacks. */
  async #startOf(core: Core, live: LiveSession, served: Served | undefined): Promise<CheckpointStart> {
    const base = served?.base ?? ''
    const imported = live.record.baseline.revision?.git
    if (served === undefined || imported !== undefined)
      return { base, tree: baseOf(core, live), baseTree: imported?.treeId ?? null }
    return { base, tree: served.tree, baseTree: await this.#treeOf(core, served.commitId) }
  }

  async #checkpoint(
    core: Core,
    live: LiveSession,
    { id, seq, label, createdAt }: CheckpointRecord,
    {
      base,
      tree,
      baseTree,
      signal,
      checkLosses,
    }: CheckpointStart & Pick<State, 'checkLosses'> & { readonly signal: AbortSignal },
  ): Promise<string> {
    const key = keys.servedCommit(live.id, id)
    const json = await core.store.get(key)
    if (json !== undefined) return servedCommitKind.parse(json).commitId
    const root = await namedRoot(core, live, seq)
    using _ = core.pins.pin({ writesSince: 'now', roots: [root] })
    const commitId = await this.#commit(core, {
      parents: base === '' ? [] : [base],
      baseTree,
      changes: changesOf(core, tree, root),
      message: `Checkpoint ${label === '' ? id : label}`,
      atMs: createdAt,
      signal,
    })
    const kept: ServedCommit = { commitId, seq, base }
    await onCurrent(core, live.id, (current) => {
      checkLosses()
      return commitRecords(core, current, { put: [[key, kept]] })
    })
    return commitId
  }

  /** Creates a commit, or returns the only parent if that has the same files. */
  async #commit(
    core: Core,
    {
      parents,
      atMs,
      ...request
    }: Pick<CommitRequest, 'baseTree' | 'changes' | 'message' | 'signal'> & {
      readonly parents: readonly string[]
      readonly atMs: number
    },
  ): Promise<string> {
    const [parent, otherParent] = parents
    const committer = await this.#committer()
    const { commitId } = await committer.commit({
      ...request,
      parent: parent ?? null,
      ...(otherParent !== undefined && { otherParent }),
      ...(parent !== undefined && otherParent === undefined && { existing: parent }),
      author,
      timestampSeconds: Math.floor(atMs / 1000),
      objects: this.#writableObjects(core).objects,
      unsigned: true,
    })
    return commitId
  }

  #writableObjects(core: Core): { readonly objects: GitObjectStore; readonly writer: ContentWriter } {
    const writer = new ContentWriter(core)
    return { objects: new GitObjectStore(core, writer, this.#gitObjects), writer }
  }
}

/** Another engine may have served a commit between the last one and the next one. */
class ServedElsewhere extends EngineError {
  constructor(sessionId: string) {
    super('SESSION_MOVED', 'other engines changed the session meanwhile; fetch again', {
      sessionId,
      outcome: 'not-applied',
    })
  }
}

function newestOf({ seq, record, baseline, tree }: LiveSession): Omit<State, 'live' | 'checkLosses'> {
  return { seq, record, baseline, root: tree.freeze() }
}

function headOf(served: Served | undefined): RepositoryHead {
  const base = served === undefined || served.base === '' ? null : served.base
  return { commitId: served?.commitId ?? null, base }
}

/** The session's newest own commit between two events. */
function newestTip(
  tips: BranchTips,
  { since, upTo = Number.POSITIVE_INFINITY }: { readonly since: number | undefined; readonly upTo?: number },
): string | undefined {
  let newest: BranchTip | undefined
  for (const tip of tips.values()) {
    const { commitId, seq = 0 } = tip
    if (commitId === '' || seq > upTo || (since !== undefined && seq <= since)) continue
    if (newest === undefined || seq > (newest.seq ?? 0)) newest = tip
  }
  return newest?.commitId
}

/** Whether the session still has the same files and commits. Other events may have followed. */
function isStill(live: LiveSession, { seq, root }: State): boolean {
  if (live.seq === seq) return true
  const { branchTips } = live
  return (
    live.tree.freeze() === root &&
    branchTips !== undefined &&
    newestTip(branchTips, { since: seq }) === undefined
  )
}

async function hasFiles(core: Core, root: Dir): Promise<boolean> {
  const empty = emptyRoot({ ino: 0, mode: 0o755, mtime: 0, ctime: 0, birthtime: 0 })
  for await (const _ of changesOf(core, empty, root)) return true
  return false
}

function moved(expected: string | null, actual: string | null): EngineError {
  return new EngineError(
    'BRANCH_MOVED',
    'the session has changed since the last fetch; fetch first, then merge or rebase, and push again',
    { branch: servedBranch, expectedOid: expected ?? '', actualOid: actual ?? '' },
  )
}
