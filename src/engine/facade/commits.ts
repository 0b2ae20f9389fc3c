import { parseAtCall } from '../base/shape.js'
import {
  parseCommitBundle,
  parseCommitFile,
  parseCommitList,
  parseCommitReference,
  type CommitBundleRequest,
  type CommitFileRequest,
  type CommitListRequest,
  type CommitPage,
  type CommitReference,
  type KeptCommits,
  type SessionCommit,
} from '../services/sources/kept-commits.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * The git commits that `session.commit` has made. The engine keeps their objects, also those of commits that were
 * never pushed.
 */
export class SessionCommits {
  readonly #access: SessionAccess
  readonly #service: KeptCommits

  /** @internal */
  constructor(access: SessionAccess, service: KeptCommits) {
    this.#access = access
    this.#service = service
  }

  /**
   * A page of the commits, by branch, and newest first within a branch. The imported commit is not one of them.
   * A page ends early after about 8 MiB, so only an empty `nextPageToken` marks the end.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the page token is of another listing.
   *
   * @example
   * await session.commit({ message: 'Add a' })
   * const { commits } = await session.commits.list()
   * for (const { commitId, message } of commits) console.log(commitId, message)
   */
  async list(request: CommitListRequest = {}): Promise<CommitPage> {
    const copy = parseCommitList(request)
    return this.#access.look('listCommits', (live) => this.#service.list(this.#access.core, live, copy))
  }

  /**
   * One commit.
   *
   * @throws {EngineError} COMMIT_NOT_FOUND when the session has made no commit with this id.
   *
   * @example
   * const { commitId } = await session.commit({ message: 'Add a' })
   * const { author, committedAt } = await session.commits.get({ commitId })
   */
  async get(request: CommitReference): Promise<SessionCommit> {
    const commitId = parseCommitReference(request)
    return this.#access.look('getCommit', (live) => this.#service.get(this.#access.core, live, commitId))
  }

  /**
   * Reads a file as it is in a commit.
   *
   * @throws {EngineError} COMMIT_NOT_FOUND when the session has made no commit with this id.
   * @throws {EngineError} PATH_NOT_FOUND when the commit has no file at the path.
   *
   * @example
   * const { commitId } = await session.commit({ message: 'Add a' })
   * const { content } = await session.commits.readFile({ commitId, path: '/src/a.ts' })
   */
  async readFile(request: CommitFileRequest): Promise<{
    /** The bytes of the file, as a copy. */
    content: Uint8Array
  }> {
    const file = parseCommitFile(request)
    return this.#access.look('readCommitFile', (live) =>
      this.#service.readFile(this.#access.core, live, file),
    )
  }

  /**
   * The commits of a branch as a git bundle, for `git fetch` or `git clone`. It has the objects that the imported
   * commit lacks, so the repository that reads it needs that commit. Commits of a session that does not come from git
   * need nothing. An invalid request fails at the first read.
   *
   * @throws {EngineError} COMMIT_NOT_FOUND when the session has no commit on the branch.
   * @throws {EngineError} GIT_TOO_LARGE when the objects are over 2 GiB compressed.
   *
   * @example
   * import { createWriteStream } from 'node:fs'
   * import { pipeline } from 'node:stream/promises'
   *
   * await session.commit({ message: 'Add a' })
   * await pipeline(session.commits.exportBundle({ as: 'add-a' }), createWriteStream('add-a.bundle'))
   */
  exportBundle(request: CommitBundleRequest = {}): AsyncIterable<Uint8Array> {
    const parsed = parseAtCall(() => parseCommitBundle(request))
    const access = this.#access
    const service = this.#service
    return (async function* () {
      const bundle = parsed()
      yield* await access.look('exportCommits', (live) =>
        Promise.resolve(service.bundle(access.core, live, bundle)),
      )
    })()
  }
}
