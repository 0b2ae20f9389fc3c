import { invalid, type GitRemote, type ReadContext, present } from '../../engine/ports.js'
import type { CredentialsHook } from './remote/authentication.js'
import { openBundle } from './pack/bundle.js'
import { HttpRepository } from './remote/http-repository.js'
import { openLocalRepository } from './local/local-repository.js'
import { checkRemoteUrl } from './remote/remote-url.js'
import type { Repository } from './repository.js'

export interface RepositoryOptions {
  readonly allowPrivateAddresses: boolean
  readonly idleTimeoutMs: number
  readonly credentials: CredentialsHook | undefined
  readonly hostPathRoots: readonly string[]
  /** Measures the transfer of the job that reads the repository. */
  readonly transfer?: ReadContext['transfer']
  /** Called with the number of bytes of each piece of a bundle. */
  readonly onBundleBytes?: (count: number) => void
}

/** Opens the repository of a remote, without network access. */
export async function openRepository(remote: GitRemote, options: RepositoryOptions): Promise<Repository> {
  const { remoteUrl, repositoryPath, bundle } = remote
  const given = [remoteUrl, repositoryPath, bundle].filter((place) => place !== undefined)
  if (given.length !== 1) {
    throw invalid('remoteUrl', 'give exactly one of remoteUrl, repositoryPath and bundle')
  }
  if (repositoryPath !== undefined) return openLocalRepository(repositoryPath, options.hostPathRoots)
  if (bundle !== undefined) return openBundle(bundle, options.onBundleBytes)
  const url = checkRemoteUrl(present(remoteUrl, 'the place of a repository'))
  return new HttpRepository({ ...options, url, credentialsSecretId: remote.credentialsSecretId ?? '' })
}
