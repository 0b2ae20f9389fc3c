/** Lists of ids of commits. */
import { sha256 } from '../../base/hash.js'
import { knownCommitsKind } from '../../records/known-commits.js'
import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import type { GitRemote } from './git-ports.js'

/** The key of the newest commits that sessions pushed to a remote. */
export function pushedCommitsKey(core: Core, { remoteUrl = '', repositoryPath = '' }: GitRemote): string {
  return keys.knownCommits(core.tenantKey, sha256(JSON.stringify(['pushed', remoteUrl, repositoryPath])))
}

/** The key of the pushed commits that an imported commit builds on. */
export function containedCommitsKey(core: Core, commitId: string): string {
  return keys.knownCommits(core.tenantKey, sha256(JSON.stringify(['contained', commitId])))
}

export async function readCommitIds(core: Core, key: string): Promise<readonly string[]> {
  const json = await core.store.get(key)
  return json === undefined ? [] : knownCommitsKind.parse(json)
}
