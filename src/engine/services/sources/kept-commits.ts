import { checkSignal } from '../../base/abort.js'
import { formatTime } from '../../base/environment.js'
import { EngineError, invalid } from '../../base/errors.js'
import { given, parseText, shown } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import {
  encodePageToken,
  pageNames,
  parsePageSize,
  parsePageToken,
  type PageRequest,
} from '../../base/paging.js'
import { parsePath, type PathNames } from '../../base/path.js'
import { isBranchName } from '../../base/ref-names.js'
import { Shape } from '../../base/shape.js'
import { ContentWriter } from '../../cas/content-writer.js'
import { branchTipKind } from '../../records/branch-tip.js'
import type { Core } from '../../session/core.js'
import type { BaseAtState, LiveSession } from '../../session/table/live.js'
import { keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import { GitObjectStore, type MemoryGitObjects } from './git-objects.js'
import type { RepositoryFile } from './host-ports.js'
import type { CommitDescription, CommitIdentity, CommitReader } from './git-ports.js'

/** A git commit that a session made. */
export interface SessionCommit {
  /** The id of the commit, in hex. */
  readonly commitId: string
  /** The id of the commit before it: an earlier one of the session, or the imported one. '' for a first commit. */
  readonly parentId: string
  /** The branch of the session that has it; '' for commits without a branch. */
  readonly branchName: string
  /** The author, who is also the committer. */
  readonly author: CommitIdentity
  /** The time of the commit: RFC 3339, UTC. */
  readonly committedAt: string
  /** The message, as git stores it. */
  readonly message: string
}

/** The request of `session.commits.list`. */
export interface CommitListRequest extends PageRequest {
  /** Only commits of this branch; '' for those without a branch. Absent: all commits. */
  readonly branchName?: string
}

/** A page of commits. */
export interface CommitPage {
  /** By branch, and newest first within a branch. */
  readonly commits: SessionCommit[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** A commit of a session. */
export interface CommitReference {
  /** The id of the commit, in hex. */
  readonly commitId: string
}

/** A file of a commit. */
export interface CommitFileRequest extends CommitReference {
  /** Absolute path in the commit, such as `/src/a.ts`. */
  readonly path: string
}

/** The request of `session.commits.exportBundle`. */
export interface CommitBundleRequest {
  /** The branch to export; '' or absent: the commits without a branch. */
  readonly branchName?: string
  /** The name of the branch in the bundle. Absent: `branchName`, or `session` if that is ''. */
  readonly as?: string
  /** Ends the export with the signal's reason. */
  readonly signal?: AbortSignal
}

const listShape = new Shape<CommitListRequest>({ branchName: true, ...pageNames })
const referenceShape = new Shape<CommitReference>({ commitId: true })
const fileShape = new Shape<CommitFileRequest>({ commitId: true, path: true })
const bundleShape = new Shape<CommitBundleRequest>({ branchName: true, as: true, signal: true })

export function parseCommitList(request: CommitListRequest): CommitListRequest {
  const copy = listShape.read(request)
  if (copy.branchName !== undefined) parseText('branchName', copy.branchName, limits.labelBytes)
  return copy
}

export function parseCommitReference(request: CommitReference): string {
  return parseCommitId(referenceShape.read(request).commitId)
}

export function parseCommitFile(request: CommitFileRequest): {
  commitId: string
  path: string
  names: PathNames
} {
  const { commitId, path } = fileShape.read(request)
  return { commitId: parseCommitId(commitId), path, names: parsePath(path) }
}

interface ParsedBundle {
  readonly branchName: string
  readonly ref: string
  readonly signal: AbortSignal | undefined
}

export function parseCommitBundle(request: CommitBundleRequest): ParsedBundle {
  const { branchName = '', as, signal } = bundleShape.read(request)
  checkSignal(signal)
  parseText('branchName', branchName, limits.labelBytes)
  const name = as ?? (branchName === '' ? 'session' : branchName)
  parseText('as', name, limits.labelBytes)
  if (!isBranchName(name)) throw invalid('as', `is not a valid git branch name: ${given(name)}`)
  return { branchName, ref: `refs/heads/${name}`, signal }
}

function parseCommitId(id: unknown): string {
  if (typeof id !== 'string' || !/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(id))
    throw invalid(
      'commitId',
      `must be the id of a commit: 40 or 64 hex digits in lower case; it is ${given(id)}`,
    )
  return id
}

/** Reads the commits that sessions have made. Their objects stay in the engine, also after a push. */
export class KeptCommits {
  readonly #reader: () => Promise<CommitReader>
  readonly #gitObjects: MemoryGitObjects | undefined

  constructor(reader: () => Promise<CommitReader>, gitObjects: MemoryGitObjects | undefined) {
    this.#reader = reader
    this.#gitObjects = gitObjects
  }

  async list(core: Core, live: LiveSession, request: CommitListRequest): Promise<CommitPage> {
    const { branchName } = request
    const pageSize = parsePageSize(request.pageSize)
    const listing = `commits ${JSON.stringify([live.id, branchName])}`
    const start = Number(parsePageToken(listing, request.pageToken) ?? 0)
    const commits: SessionCommit[] = []
    let index = 0
    let bytes = 0
    for await (const commit of this.#all(core, live, branchName)) {
      if (index++ < start) continue
      if (commits.length === pageSize || bytes >= limits.pageBytes)
        return { commits, nextPageToken: encodePageToken(listing, String(start + commits.length)) }
      const described = describe(commit)
      commits.push(described)
      bytes += described.message.length
    }
    return { commits, nextPageToken: '' }
  }

  async get(core: Core, live: LiveSession, commitId: string): Promise<SessionCommit> {
    return describe(await this.#find(core, live, commitId))
  }

  async readFile(
    core: Core,
    live: LiveSession,
    { commitId, path, names }: ReturnType<typeof parseCommitFile>,
  ): Promise<{ content: Uint8Array }> {
    const { treeId } = await this.#find(core, live, commitId)
    const reader = await this.#reader()
    const file = await reader.findFile(treeId, names, this.#objects(core))
    if (file === undefined)
      throw new EngineError('PATH_NOT_FOUND', `the commit ${commitId} has no file ${given(path)}`, {
        path: shown(path),
      })
    return { content: Uint8Array.from(file.body) }
  }

  async *bundle(core: Core, live: LiveSession, request: ParsedBundle): AsyncGenerator<Uint8Array, void> {
    const { branchName, ref, signal } = request
    const [newest] = await this.#tips(core, live, branchName)
    if (newest === undefined)
      throw new EngineError(
        'COMMIT_NOT_FOUND',
        branchName === ''
          ? 'the session has no commit without a branch: call session.commit({ message }), or pass a branchName'
          : `the session has no commit on the branch ${given(branchName)}: session.commits.list() lists its commits`,
        { branchName: shown(branchName) },
      )
    yield* (await this.#reader()).bundle({
      commitId: newest.commitId,
      ref,
      base: baseCommit(live) ?? null,
      objects: this.#objects(core),
      ...(signal !== undefined && { signal }),
    })
  }

  /**
   * The imported commit that the session builds on, and the files of a repository with it.
   *
   * @throws {EngineError} COMMIT_NOT_FOUND when there is none
   */
  repository(
    core: Core,
    of: BaseAtState,
  ): { readonly commitId: string; files(exclude: readonly string[]): Promise<readonly RepositoryFile[]> } {
    const commitId = baseCommit(of)
    if (commitId === undefined)
      throw new EngineError(
        'COMMIT_NOT_FOUND',
        'the session builds on no git commit, so its checkout can have no .git: create it from a git source, or leave out the option git',
      )
    const files = async (exclude: readonly string[]): Promise<readonly RepositoryFile[]> =>
      (await this.#reader()).workTree({ commitId, exclude, objects: this.#objects(core) })
    return { commitId, files }
  }

  async #find(core: Core, live: LiveSession, commitId: string): Promise<BranchCommit> {
    for await (const commit of this.#all(core, live)) if (commit.commitId === commitId) return commit
    throw new EngineError(
      'COMMIT_NOT_FOUND',
      `the session has made no commit with the id ${commitId}; session.commits.list() lists its commits`,
      { commitId },
    )
  }

  async *#all(core: Core, live: LiveSession, branchName?: string): AsyncGenerator<BranchCommit, void> {
    for (const tip of await this.#tips(core, live, branchName))
      for await (const commit of this.#chain(core, live, tip.commitId))
        yield { ...commit, branchName: tip.branchName }
  }

  /** The newest commit of each branch, or of one. */
  async #tips(
    core: Core,
    live: LiveSession,
    only?: string,
  ): Promise<{ readonly branchName: string; readonly commitId: string }[]> {
    const tips: { branchName: string; commitId: string }[] = []
    const prefix = keys.branchTips(live.id)
    for await (const page of scanAll(core, prefix))
      for (const [key, json] of page) {
        const branchName = key.slice(prefix.length)
        const { commitId } = branchTipKind.parse(json)
        if (commitId !== '' && (only === undefined || only === branchName))
          tips.push({ branchName, commitId })
      }
    return tips
  }

  /** A commit and those before it, down to the imported one, which is left out. */
  async *#chain(core: Core, live: LiveSession, tip: string): AsyncGenerator<CommitDescription, void> {
    const reader = await this.#reader()
    const objects = this.#objects(core)
    const base = baseCommit(live)
    for (let id: string | undefined = tip; id !== undefined && id !== base;) {
      const commit: CommitDescription | undefined = await reader.describe(id, objects)
      if (commit === undefined) return
      yield commit
      id = commit.parentIds[0]
    }
  }

  #objects(core: Core): GitObjectStore {
    return new GitObjectStore(core, new ContentWriter(core), this.#gitObjects)
  }
}

type BranchCommit = CommitDescription & { readonly branchName: string }

/** The imported commit that the session builds on. */
function baseCommit({ record }: Pick<BaseAtState, 'record'>): string | undefined {
  const id = record.baseline.revision?.git?.commitId
  return id === '' ? undefined : id
}

function describe({
  commitId,
  parentIds,
  branchName,
  author,
  timestampSeconds,
  message,
}: BranchCommit): SessionCommit {
  const committedAt = formatTime(timestampSeconds * 1000)
  return { commitId, parentId: parentIds[0] ?? '', branchName, author: { ...author }, committedAt, message }
}
