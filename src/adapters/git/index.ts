import type { Committer, GitRemote, Importer } from '../../engine/ports.js'
import { createCommitter } from './committer.js'
import { createImporter } from './importer.js'
import { gitLimits } from './limits.js'
import { openRepository, type RepositoryOptions } from './repository.js'
import type { Credentials } from './smart-connection.js'

export { checkBranchName } from './ref-names.js'
export { checkRemoteUrl } from './remote-url.js'
export type { Credentials } from './smart-connection.js'

export interface GitAdapterOptions {
  /**
   * Lets remotes have loopback, private and link-local addresses. Default false: a URL of a user must not
   * reach services that only this host can reach.
   */
  readonly allowPrivateAddresses?: boolean
  /** Directories below which `repositoryPath` may point, by real path. Default none. */
  readonly hostPathRoots?: readonly string[]
  /**
   * Asked once per operation, when the remote wants credentials; undefined leaves the request unanswered. They
   * are sent to the origin of `url` only, never along a redirect. What it throws is thrown on unchanged.
   */
  readonly credentials?: (url: string) => Promise<Credentials | undefined>
  /** Milliseconds of silence after which GIT_TIMEOUT is thrown. Default one minute. */
  readonly idleTimeoutMs?: number
}

export interface GitAdapter {
  readonly importer: Importer
  readonly committer: Committer
  /** Throws when a remote can never be used: INVALID_ARGUMENT, GIT_UNSUPPORTED_TRANSPORT, PERMISSION_DENIED, and for a directory what opening it throws. Asks no network. */
  checkRemote(remote: GitRemote): Promise<void>
}

/**
 * Git over smart HTTP and from directories of this host, without a working directory and without a clone on
 * disk.
 *
 * The importer reads one revision at depth 1. The sink gets absolute paths (`/src/index.ts`), exact bytes, no
 * line-end conversion and no filters; 0o755 for directories and executable files, 0o644 for other files; the
 * committer's time as mtime; an empty directory for a submodule. An entry whose name or symlink target is not
 * UTF-8 is left out, and a later commit keeps it as it is. Two revisions are special: a ref to a bare tree has
 * the tree's id as `revisionId`; an empty repository, asked for its default branch, gives the empty tree and
 * `revisionId` ''. Given as the parent or expected tip of a commit, both count as null: the first commit is a
 * root commit.
 *
 * The committer writes only the trees along changed paths anew and stores commit and trees before it pushes.
 * The same request gives the same commit id. Nothing is retried. A push to a directory of this host compares
 * and sets the ref under git's own lock; hooks do not run and no reflog is written there.
 *
 * Errors are EngineErrors; an abort throws the signal's reason.
 *
 * @example
 * const { importer } = createGitAdapter({ hostPathRoots: ['/srv/git'] })
 * const remote = { remoteUrl: 'https://git.example.org/project.git' }
 * const { revisionId } = await importer.import({ remote, gitRef: 'main' }, sink, context)
 */
export function createGitAdapter(options: GitAdapterOptions = {}): GitAdapter {
  const repositoryOptions: RepositoryOptions = {
    allowPrivateAddresses: options.allowPrivateAddresses ?? false,
    hostPathRoots: options.hostPathRoots ?? [],
    credentials: options.credentials,
    idleTimeoutMs: options.idleTimeoutMs ?? gitLimits.idleTimeoutMs,
  }
  return {
    importer: createImporter(repositoryOptions),
    committer: createCommitter(repositoryOptions),
    checkRemote: async (remote) => (await openRepository(remote, repositoryOptions)).close(),
  }
}
