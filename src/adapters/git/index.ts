import { Shape, type Committer, type GitRemote, type Importer } from '../../engine/ports.js'
import type { CredentialsHook } from './remote/authentication.js'
import { createCommitter, type Sign } from './committer.js'
import { createImporter } from './importer.js'
import { gitLimits } from './limits.js'
import { openRepository, type RepositoryOptions } from './open-repository.js'

export { checkBranchName } from './ref-names.js'
export { checkRemoteUrl } from './remote/remote-url.js'
export type { Credentials, CredentialsRequest } from './remote/authentication.js'

export interface GitAdapterOptions {
  /**
   * Lets remotes have loopback, private and link-local addresses. Default false: a URL of a user must not
   * reach services that only this host can reach.
   */
  readonly allowPrivateAddresses?: boolean
  /** Directories below which `repositoryPath` may point, by real path. Default none. */
  readonly hostPathRoots?: readonly string[]
  /**
   * Asked at most once per operation: at its start for a remote with a `credentialsSecretId`, where undefined
   * is CREDENTIALS_NOT_FOUND, else when the remote wants credentials, where undefined is GIT_AUTH_REQUIRED. They
   * are sent to the origin of `remoteUrl` only, never along a redirect to another one, and kept no longer than
   * the operation lasts. What it throws is thrown on unchanged.
   */
  readonly credentials?: CredentialsHook
  /**
   * Signs commits: given the text of a commit, it gives an ASCII-armoured signature, which becomes the header
   * `gpgsig` (`gpgsig-sha256` in a repository of SHA-256 ids). What it throws is thrown on unchanged, and
   * nothing is pushed.
   */
  readonly sign?: Sign
  /** Milliseconds of silence after which GIT_TIMEOUT is thrown. Default one minute. */
  readonly idleTimeoutMs?: number
}

const optionsShape = new Shape<GitAdapterOptions>({
  allowPrivateAddresses: true,
  hostPathRoots: true,
  credentials: true,
  sign: true,
  idleTimeoutMs: true,
})

export interface GitAdapter {
  readonly importer: Importer
  readonly committer: Committer
  /** Throws when a remote can never be used: INVALID_ARGUMENT, GIT_UNSUPPORTED_TRANSPORT, PERMISSION_DENIED, and for a directory what opening it throws. Asks no network. */
  checkRemote(remote: GitRemote): Promise<void>
}

/**
 * Git over smart HTTP, from directories of this host and from bundles, without a working directory and without
 * a clone on disk, for repositories of SHA-1 and of SHA-256 ids.
 *
 * The importer reads one revision at depth 1. A revision whose tree the sink can start from costs no more than
 * asking for the ref: two requests, none for a commit id. Else it fetches what the known commits do not hold,
 * stores each object as it comes in, so that no pack is ever whole in memory, and gives the sink what differs
 * from the newest known tree, without looking into directories that are the same. The sink gets absolute paths
 * (`/src/index.ts`), exact bytes, no line-end conversion and no filters; 0o755 for directories and executable
 * files, 0o644 for other files; the committer's time as mtime; for a submodule an empty directory with the
 * commit id as attribute `user.git.gitlink`. An entry whose name or symlink target is not UTF-8 is left out, and
 * a later commit keeps it as it is. Two revisions are special and have the `commitId` '': a ref to a bare tree,
 * and an empty repository, asked for its default branch, whose tree is empty. Given as the parent or expected
 * tip of a commit, '' and a tree's id count as null: the first commit is a root commit.
 *
 * The committer writes only the trees along changed paths anew and stores blobs, trees and commit before it
 * pushes. The same request gives the same commit id, but for what `sign` adds. Nothing is retried. A push to a
 * directory of this host compares and sets the ref under git's own lock; hooks do not run and no reflog is
 * written there.
 *
 * Errors are EngineErrors; an abort throws the signal's reason. INVALID_ARGUMENT for an unknown option.
 *
 * @example
 * const { importer } = createGitAdapter({ hostPathRoots: ['/srv/git'] })
 * const remote = { remoteUrl: 'https://git.example.org/project.git' }
 * const { commitId } = await importer.import({ remote, gitRef: 'main' }, sink, context)
 */
export function createGitAdapter(options: GitAdapterOptions = {}): GitAdapter {
  const { sign, ...given } = optionsShape.read(options, 'options')
  const repositoryOptions: RepositoryOptions = {
    allowPrivateAddresses: given.allowPrivateAddresses ?? false,
    hostPathRoots: given.hostPathRoots ?? [],
    credentials: given.credentials,
    idleTimeoutMs: given.idleTimeoutMs ?? gitLimits.idleTimeoutMs,
  }
  return {
    importer: createImporter(repositoryOptions),
    committer: createCommitter({ ...repositoryOptions, sign }),
    checkRemote: async (remote) => (await openRepository(remote, repositoryOptions)).close(),
  }
}
