import {
  Shape,
  type CommitReader,
  type Committer,
  type GitRemote,
  type Importer,
} from '../../engine/ports.js'
import type { CredentialsHook } from './remote/authentication.js'
import { commitReader } from './commit-reader.js'
import { createCommitter, type Sign } from './committer.js'
import { createImporter } from './importer.js'
import { gitLimits } from './limits.js'
import { openRepository, type RepositoryOptions } from './open-repository.js'

export { checkBranchName } from './ref-names.js'
export { checkRemoteUrl } from './remote/remote-url.js'
export type { Credentials, CredentialsRequest } from './remote/authentication.js'

export interface GitAdapterOptions {
  /**
   * Allows remotes with loopback, private and link-local addresses. Default false, so that a user's URL
   * cannot reach services that only this host can reach.
   */
  readonly allowPrivateAddresses?: boolean
  /** The real path of a `repositoryPath` must be at or below one of these directories. Default none. */
  readonly hostPathRoots?: readonly string[]
  /**
   * Returns the credentials for a remote. It is called at most once per operation. If the remote has a
   * `credentialsSecretId`, the call comes at the start, and undefined throws CREDENTIALS_NOT_FOUND. Otherwise
   * the call comes when the remote asks for credentials, and undefined throws GIT_AUTH_REQUIRED. Credentials
   * are sent only to the origin of `remoteUrl`, never to another origin after a redirect. They are kept only
   * for the operation. Errors of the hook are rethrown unchanged.
   */
  readonly credentials?: CredentialsHook
  /**
   * Signs commits. It receives the text of a commit and returns an ASCII-armoured signature, which becomes
   * the header `gpgsig` (`gpgsig-sha256` in a repository with SHA-256 ids). If it throws, nothing is pushed
   * and the error is rethrown unchanged.
   */
  readonly sign?: Sign
  /** A remote that sends nothing for this many milliseconds causes GIT_TIMEOUT. Default one minute. */
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
  readonly commitReader: CommitReader
  /**
   * Checks a remote without network access. Throws INVALID_ARGUMENT, GIT_UNSUPPORTED_TRANSPORT or
   * PERMISSION_DENIED if the remote can never be used, and every error of opening a repository directory.
   */
  checkRemote(remote: GitRemote): Promise<void>
}

/**
 * Imports from and commits to git repositories, over smart HTTP or in directories of this host. Bundles can
 * only be imported. The adapter needs no working directory and no clone on disk. Object ids are SHA-1 or
 * SHA-256.
 *
 * The importer reads one revision at depth 1. If the sink can start from the tree of the revision, the import
 * only resolves the ref: two requests, or none for a commit id. Otherwise it fetches the objects that the
 * known commits lack. It stores each object on arrival, so no pack is ever in memory as a whole. The sink
 * receives only the differences from the newest known tree that it can start from; equal directories are not
 * read.
 *
 * The sink receives absolute paths (`/src/index.ts`) and exact bytes, without line-end conversion or filters.
 * The mode is 0o755 for directories and executable files, and 0o644 for other files. The mtime is the
 * committer's time. A submodule becomes an empty directory with the commit id in its attribute
 * `user.git.gitlink`. An entry is omitted if its name or symlink target is not UTF-8; later commits keep it
 * unchanged.
 *
 * Two kinds of revision have the `commitId` '': a ref to a bare tree, and the default branch of an empty
 * repository, whose tree is empty. If the parent or expected tip of a commit is '' or the id of that tree, it
 * counts as null: the commit is a root commit.
 *
 * The committer rewrites only the trees along changed paths. It stores the blobs, trees and commit before it
 * pushes. The same request gives the same commit id, unless `sign` gives another signature. Nothing is
 * retried. A push to a directory of this host compares and sets the ref under git's own lock. It runs no
 * hooks and writes no reflog.
 *
 * Errors are EngineErrors; an abort throws the signal's reason. An unknown option throws INVALID_ARGUMENT.
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
    commitReader,
    checkRemote: async (remote) => (await openRepository(remote, repositoryOptions)).close(),
  }
}
