import { checkSignal } from '../../base/abort.js'
import { engineClosed, EngineError, invalid } from '../../base/errors.js'
import { parseFlag, parseText } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { isBranchName } from '../../base/ref-names.js'
import { ContentWriter } from '../../cas/content-writer.js'
import { pinState, inBackground, reading, type Core, type PinnedState } from '../../session/core.js'
import { setTip } from '../../session/branch-tips.js'
import { catchUp } from '../../session/sharing/shared-changes.js'
import { currentOf, onCurrent } from '../../session/table/current.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../../session/table/live.js'
import type { SessionRecord } from '../../records/session.js'
import { checkNoConflicts, conflicting, settled } from '../../session/status.js'
import { commitSession, record } from '../../session/mutation-queue.js'
import { keys } from '../../storage/keys.js'
import { lossCheck } from '../../storage/loss-check.js'
import type { Dir } from '../../tree/node.js'
import { baseOf, changesOf } from './commit-changes.js'
import { PushedCommits, type PushedCommit } from './commit-ids.js'
import { withinDeadline } from './deadline.js'
import { GitObjectStore, type MemoryGitObjects } from './git-objects.js'
import type { CommitIdentity, Committer, GitRemote } from './git-ports.js'
import { type BranchTip, branchTipKind } from '../../records/branch-tip.js'

/** The request of `session.commit`. */
export interface SessionCommitRequest {
  /** The commit message, at most 65,536 bytes; not empty. */
  readonly message: string
  /**
   * The author and committer. Absent: the acting principal, with the email `<principal>@localhost`.
   */
  readonly author?: CommitIdentity
  /** The branch to push to. Absent: the commit stays in the engine. */
  readonly gitBranch?: {
    /** The name without `refs/heads/`, such as `main`, at most 1,024 bytes. A missing branch is created. */
    readonly branchName: string
  }
  /**
   * If true, creates a commit even if the session's last commit on this branch has the same files. If false,
   * the default, the call then returns that commit.
   */
  readonly allowEmpty?: boolean
  /** Ends the call with the signal's reason. */
  readonly signal?: AbortSignal
}

const commitShape = new Shape<SessionCommitRequest>({
  message: true,
  author: true,
  gitBranch: true,
  allowEmpty: true,
  signal: true,
})

const branchShape = new Shape<NonNullable<SessionCommitRequest['gitBranch']>>({ branchName: true })

const identityShape = new Shape<CommitIdentity>({ name: true, email: true })

interface ParsedCommit {
  readonly message: string
  readonly branchName: string
  readonly author: CommitIdentity
  readonly allowEmpty: boolean
  readonly signal: AbortSignal | undefined
}

/** A commit that is being made. */
interface RunningCommit extends ParsedCommit {
  readonly signal: AbortSignal
  /** See {@link lossCheck}. */
  readonly checkLosses: () => void
}

/**
 * Parses a request. `principal` is the author if the request has none.
 *
 * @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when the request is invalid
 */
export function parseCommit(principal: string, request: SessionCommitRequest): ParsedCommit {
  const given = commitShape.read(request)
  const { signal } = given
  checkSignal(signal)
  const gitBranch =
    given.gitBranch === undefined ? undefined : branchShape.readPart(given.gitBranch, 'gitBranch')
  const message = parseText('message', given.message, limits.messageBytes)
  if (message.trim() === '') throw invalid('message', 'must not be empty')
  if (message.includes('\0')) throw invalid('message', 'must not contain NUL, where git would end it')
  const branchName =
    gitBranch === undefined ? '' : parseText('gitBranch.branchName', gitBranch.branchName, limits.labelBytes)
  if (gitBranch !== undefined && branchName === '') throw invalid('gitBranch.branchName', 'must not be empty')
  if (branchName !== '' && !isBranchName(branchName))
    throw invalid('gitBranch.branchName', `is not a valid git branch name: ${JSON.stringify(branchName)}`)
  // Git would take the name, and make a second branch `refs/heads/refs/heads/main`.
  if (branchName.startsWith('refs/heads/'))
    throw invalid(
      'gitBranch.branchName',
      `is the name of a branch without refs/heads/: pass ${JSON.stringify(branchName.slice('refs/heads/'.length))}`,
    )
  const author = parseAuthor(principal, given.author)
  const allowEmpty = parseFlag('allowEmpty', given.allowEmpty, false)
  return { message, branchName, author, allowEmpty, signal }
}

/** Another engine made a commit on the same one. */
class TipMoved extends EngineError {
  constructor(branchName: string) {
    super('BRANCH_MOVED', 'other engines kept making commits of the session; commit again', { branchName })
  }
}

/** Writes the states of sessions as git commits. */
export class Commits {
  readonly #committer: () => Promise<Committer>
  readonly #remoteOf: (core: Core, sourceId: string) => Promise<GitRemote | undefined>
  readonly #gitObjects: MemoryGitObjects | undefined
  /** One commit of a session at a time, because each is the parent of the next. */
  readonly #mutex = new KeyedMutex()
  readonly #pushed = new PushedCommits()
  readonly #deadlineMs: number
  readonly #closing = new AbortController()
  readonly #running = new Set<Promise<unknown>>()

  constructor(ports: {
    deadlineMs: number
    committer: () => Promise<Committer>
    remoteOf: (core: Core, sourceId: string) => Promise<GitRemote | undefined>
    gitObjects: MemoryGitObjects | undefined
  }) {
    this.#deadlineMs = ports.deadlineMs
    this.#committer = ports.committer
    this.#remoteOf = ports.remoteOf
    this.#gitObjects = ports.gitObjects
  }

  commit(core: Core, live: LiveSession, request: ParsedCommit): Promise<{ commitId: string }> {
    const committed = this.#commitInTurn(core, live, request)
    this.#running.add(committed)
    const ended = (): void => void this.#running.delete(committed)
    inBackground(core, committed.then(ended, ended))
    return committed
  }

  #commitInTurn(core: Core, live: LiveSession, request: ParsedCommit): Promise<{ commitId: string }> {
    const bounds = { deadlineMs: this.#deadlineMs, what: 'commit' }
    return withinDeadline(bounds, [request.signal, this.#closing.signal], async (signal) => {
      const begin = (current: LiveSession): (() => Promise<{ commitId: string }>) & Disposable => {
        const checkLosses = lossCheck(core.store)
        const pinned = pinState(core, current)
        const writes = core.pins.pin({ writesSince: 'now' })
        const commit = (): Promise<{ commitId: string }> =>
          this.#commit(core, current, pinned.state, { ...request, signal, checkLosses })
        return Object.assign(commit, {
          [Symbol.dispose]: () => {
            pinned[Symbol.dispose]()
            writes[Symbol.dispose]()
          },
        })
      }
      // The commit has the state after all calls that were made before it.
      using first = begin(live)
      const commit = async (): Promise<{ commitId: string }> => {
        for (let run = 1; ; run++) {
          using again = run === 1 ? undefined : begin(await currentOf(core, live.id))
          try {
            return await (again ?? first)()
          } catch (error) {
            // The next run builds on the commit of the other engine, and has its state.
            if (!(error instanceof TipMoved) || run === limits.sharedChangeRuns) throw error
          }
        }
      }
      // An earlier commit may wait for its remote for a long time.
      return await this.#mutex.run(live.id, commit, signal)
    })
  }

  /**
   * Waits for commits, so that each successful push is recorded. After `commitGraceMs`, it aborts commits that still wait
   * for a remote, or for a hook of the embedder.
   */
  async close(): Promise<void> {
    if (this.#running.size === 0) return
    const grace = setTimeout(() => this.#closing.abort(engineClosed()), limits.commitGraceMs)
    await Promise.allSettled(this.#running)
    clearTimeout(grace)
  }

  async #commit(
    core: Core,
    live: LiveSession,
    pinned: PinnedState['state'],
    request: RunningCommit,
  ): Promise<{ commitId: string }> {
    const state = await pinned
    const base = baseOf(core, state)
    return reading(core, [state.root, base], () => this.#commitTree(core, live, { ...state, base }, request))
  }

  async #commitTree(
    core: Core,
    live: LiveSession,
    { base, ...state }: Awaited<PinnedState['state']> & { readonly base: Dir },
    request: RunningCommit,
  ): Promise<{ commitId: string }> {
    const { record: session, root, seq } = state
    checkNoConflicts(session)
    const { message, branchName, author, allowEmpty, signal, checkLosses } = request
    const { revision } = session.baseline
    const remote =
      revision === undefined || branchName === '' ? undefined : await this.#remoteOf(core, revision.sourceId)
    const tipKey = keys.branchTip(live.id, branchName)
    const tip = await core.store.get(tipKey)
    const last = tip === undefined ? undefined : branchTipKind.parse(tip).commitId
    if (last !== tipKnown(live, state, branchName, last)) {
      // The commit would revert the changes of the other one.
      await catchUp(core, live)
      throw new TipMoved(branchName)
    }
    const parent = last ?? revision?.git?.commitId ?? null
    const committer = await this.#committer()
    let sent: PushedCommit | undefined
    const onCreated = async (commitId: string): Promise<void> => {
      if (remote === undefined) return
      const commit = { commitId, state: { sessionId: live.id, seq } }
      await this.#pushed.add(core, remote, commit, checkLosses)
      sent = commit
    }
    try {
      const { commitId } = await committer.commit({
        ...(remote && { push: { remote, branchName, expectedTip: parent, onCreated } }),
        parent,
        ...(last !== undefined && !allowEmpty && { existing: last }),
        baseTree: revision?.git?.treeId ?? null,
        changes: changesOf(core, base, root),
        message,
        author,
        timestampSeconds: Math.floor(core.environment.wallClockMs() / 1000),
        objects: new GitObjectStore(core, new ContentWriter(core), this.#gitObjects),
        signal,
      })
      if (commitId === last) {
        await onCurrent(core, live.id, (current) => {
          checkLosses()
          return storeStatus(core, current, settled(current))
        })
        return { commitId }
      }
      // The remote has accepted no other commit on the same one.
      const expected = remote === undefined ? { tip: last } : undefined
      const details = { commitId, branchName }
      try {
        await settle(core, session, { type: eventTypes.commit, details }, { expected, checkLosses })
      } catch (error) {
        throw remote === undefined ? error : unrecorded(details, error)
      }
      return { commitId }
    } catch (error) {
      if (remote !== undefined && sent !== undefined && isRefusal(error))
        await this.#pushed.remove(core, remote, sent).catch(() => undefined)
      if (error instanceof EngineError && error.reason === 'BRANCH_MOVED' && !(error instanceof TipMoved)) {
        // If the session was deleted meanwhile, it has no status. The error is the moved branch in any case.
        await onCurrent(core, live.id, (current) => storeStatus(core, current, conflicting(current))).catch(
          () => undefined,
        )
      }
      throw error
    }
  }
}

/**
 * The tip that a commit of a state builds on, as this engine knows it. On a shared store, a tip that another engine stored
 * after the state may have changes which the state lacks.
 */
function tipKnown(
  { branchTips, epoch, discarded }: LiveSession,
  state: Awaited<PinnedState['state']>,
  branchName: string,
  stored: string | undefined,
): string | undefined {
  if (state.tips === undefined) return stored
  // Earlier commits of this engine changed it too.
  const tips = epoch === state.epoch && discarded === undefined ? branchTips : state.tips
  return tips?.get(branchName)?.commitId
}

/** Stores a change of the session's status that has no event. */
function storeStatus(core: Core, live: LiveSession, session: SessionRecord | undefined): Promise<void> {
  return session === undefined ? live.acknowledged : commitSession(core, live, session)
}

/** Whether the remote has not taken the commit. */
function isRefusal(error: unknown): boolean {
  return (
    error instanceof EngineError && (error.reason === 'BRANCH_MOVED' || error.reason === 'GIT_PUSH_REJECTED')
  )
}

/** The error of a commit that the remote has, if the session did not record it. */
function unrecorded(
  { commitId, branchName }: { readonly commitId: string; readonly branchName: string },
  cause: unknown,
): unknown {
  if (!(cause instanceof EngineError) || cause.details['outcome'] !== 'not-applied') return cause
  return new EngineError(
    cause.reason,
    `the branch ${branchName} of the remote has the commit ${commitId}, but the session could not record it (see cause); refresh the source with gitRef: ${branchName}, rebase the session, and commit again`,
    { branchName, commitId, outcome: 'unknown' },
    { cause },
  )
}

/** Records a commit of a state in which the session had a record. */
function settle(
  core: Core,
  before: SessionRecord,
  event: {
    readonly type: typeof eventTypes.commit
    readonly details: { readonly commitId: string; readonly branchName: string }
  },
  {
    expected,
    checkLosses,
  }: {
    readonly expected: { readonly tip: string | undefined } | undefined
    readonly checkLosses: () => void
  },
): Promise<void> {
  const { commitId, branchName } = event.details
  return onCurrent(core, before.id, (live) => {
    checkLosses()
    // After a rebase, the first commit of each branch builds on the new base.
    if (revisionOf(live.record) !== revisionOf(before))
      return record(core, live, { ...event, redo: [], session: settled(live) })
    if (live.shared !== undefined && expected !== undefined) {
      if (live.branchTips?.get(branchName)?.commitId !== expected.tip) throw new TipMoved(branchName)
    }
    const tip: BranchTip = { commitId, seq: live.seq + 1 }
    setTip(live, branchName, tip)
    const put = [[keys.branchTip(live.id, branchName), tip] as const]
    return record(core, live, { ...event, redo: [], put, session: settled(live) })
  })
}

/** The revision of a source that a session builds on. */
function revisionOf({ baseline }: SessionRecord): string | undefined {
  return baseline.revision?.revisionId
}

function parseAuthor(principal: string, author: CommitIdentity | undefined): CommitIdentity {
  if (author === undefined) return { name: principal, email: `${principal}@localhost` }
  const given = identityShape.readPart(author, 'author')
  const name = parseText('author.name', given.name, limits.labelBytes)
  const email = parseText('author.email', given.email, limits.labelBytes)
  if (name.trim() === '' && email.trim() === '') throw invalid('author', 'must have a name or an email')
  return { name, email }
}
