import { invalid } from '../base/errors.js'
import { checkRequest } from '../base/input.js'
import type { PageRequest } from '../base/paging.js'
import { FsPromises } from '../fs/promises.js'
import { SessionAccess } from '../session/access.js'
import {
  createCheckpoint,
  listCheckpoints,
  restoreCheckpoint,
  type Checkpoint,
  type CheckpointPage,
  type CheckpointReference,
} from '../session/checkpoints.js'
import type { Core } from '../session/core.js'
import type { LiveSession } from '../session/live.js'
import { readManifest, type ManifestPage, type ManifestRequest } from '../session/manifest.js'
import {
  deleteSession,
  describeSession,
  forkSession,
  type ForkRequest,
  type SessionInfo,
} from '../session/sessions.js'
import { diffOf, type Diff, type StateReference } from '../session/states.js'
import type { Commits, SessionCommitRequest } from '../services/commits.js'
import { SessionFiles } from './files.js'

/** What `session.diff` compares with: another session's handle, any state by name, or this session's base. */
export type DiffTarget = Session | StateReference | CheckpointReference | 'base'

/**
 * A handle on one session. Handles are cheap and stateless: several of one session are the same session.
 * Every method throws SESSION_NOT_FOUND once the session was deleted.
 */
export class Session {
  readonly id: string
  readonly #access: SessionAccess
  readonly #commits: Commits
  #files: SessionFiles | undefined
  #fs: { readonly promises: FsPromises } | undefined

  constructor(core: Core, live: LiveSession, commits: Commits) {
    this.id = live.id
    this.#access = new SessionAccess(core, live)
    this.#commits = commits
  }

  /** Files by the operations of the interface. */
  get files(): SessionFiles {
    return (this.#files ??= new SessionFiles(this.#access))
  }

  /** Files in the shape of node:fs. */
  get fs(): { readonly promises: FsPromises } {
    return (this.#fs ??= { promises: new FsPromises(this.#access) })
  }

  /** Tags, status, times and fingerprint as of now. */
  get(): Promise<SessionInfo> {
    return this.#access.run((live) => Promise.resolve(describeSession(live, live.lastActivityAt)))
  }

  /** Hides the session at once; forks of it stay whole. */
  delete(): Promise<void> {
    return deleteSession(this.#access.core, this.id)
  }

  /**
   * A new session on the current state, or on a checkpoint; microseconds whatever the size of the tree.
   * CHECKPOINT_NOT_FOUND.
   *
   * @example
   * const attempt = await session.fork({ newTags: { attempt: '1' } })
   */
  async fork(request?: ForkRequest): Promise<Session> {
    const { core } = this.#access
    const live = await this.#access.run((parent) => forkSession(core, parent, request))
    return new Session(core, live, this.#commits)
  }

  /** Names the current state. ALREADY_EXISTS when the session has a checkpoint of this label. */
  async checkpoint(request: { readonly label?: string } = {}): Promise<Checkpoint> {
    checkRequest(request)
    const { label } = request
    return this.#access.run((live) => createCheckpoint(this.#access.core, live, label))
  }

  /** A page of the checkpoints, oldest first. */
  listCheckpoints(request?: PageRequest): Promise<CheckpointPage> {
    return this.#access.run((live) => listCheckpoints(this.#access.core, live, request))
  }

  /** The files become again what they were at the checkpoint. CHECKPOINT_NOT_FOUND. */
  async restore(request: CheckpointReference): Promise<SessionInfo> {
    checkRequest(request)
    const reference = { ...request }
    await this.#access.run((live) => restoreCheckpoint(this.#access.core, live, reference))
    return this.get()
  }

  /** A page of the tree; its `manifestHash` names the state of the whole tree. */
  manifest(request?: ManifestRequest): Promise<ManifestPage> {
    const live = this.#access.reading()
    const read = ({ tree }: LiveSession): Promise<ManifestPage> =>
      readManifest(this.#access.core, tree.freeze(), request)
    return live instanceof Promise ? live.then(read) : read(live)
  }

  /**
   * What changed from another state to this session's current one; without an argument, since its base.
   *
   * @example
   * for await (const { change, path } of fork.diff(session)) console.log(change, path)
   */
  diff(against: DiffTarget = 'base'): Diff {
    const { core } = this.#access
    return diffOf(
      core,
      () => this.#reference(against),
      () => ({ sessionId: this.id }),
    )
  }

  /**
   * Writes the current state as a commit on top of what was imported, and pushes it fast-forward when a
   * branch is given. BRANCH_MOVED, with the remote unchanged, when somebody else was there first.
   */
  async commit(request: SessionCommitRequest): Promise<{ commitId: string }> {
    return this.#access.run((live) => this.#commits.commit(live, request))
  }

  #reference(target: DiffTarget): StateReference {
    if (target === 'base') return { sessionId: this.id, base: true }
    if (target instanceof Session) return { sessionId: target.id }
    checkRequest(target, 'against')
    const reference = { sessionId: this.id, ...target }
    if (reference.sessionId === this.id && Object.keys(target).length === 0) {
      throw invalid('against', 'must name a session, a checkpoint, or the base')
    }
    return reference
  }
}
