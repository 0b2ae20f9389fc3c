/** Lists of ids of commits. */
import { anotherEngine } from '../../base/errors.js'
import { sha256 } from '../../base/hash.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { knownCommitsKind } from '../../records/known-commits.js'
import type { Core } from '../../session/core.js'
import { headOf } from '../../session/sharing/head.js'
import { keys } from '../../storage/keys.js'
import type { GitRemote } from './git-ports.js'

/** A commit that a session pushed. */
export interface PushedCommit {
  readonly commitId: string
  /** The state that the commit has. Absent in records of earlier versions. */
  readonly state?: { readonly sessionId: string; readonly seq: number } | undefined
}

/** The key of the newest commits that sessions pushed to a remote. */
export function pushedCommitsKey(
  { tenantKey }: Pick<Core, 'tenantKey'>,
  { remoteUrl = '', repositoryPath = '' }: GitRemote,
): string {
  return keys.knownCommits(tenantKey, sha256(JSON.stringify(['pushed', remoteUrl, repositoryPath])))
}

/** The key of the pushed commits that an imported commit builds on, and itself. */
export function containedCommitsKey({ tenantKey }: Pick<Core, 'tenantKey'>, commitId: string): string {
  return keys.knownCommits(tenantKey, sha256(JSON.stringify(['contained', commitId])))
}

export async function readCommitIds(core: Core, key: string): Promise<readonly string[]> {
  const json = await core.store.get(key)
  return json === undefined ? [] : knownCommitsKind.parse(json)
}

export async function readPushedCommits(core: Core, key: string): Promise<readonly PushedCommit[]> {
  return (await readCommitIds(core, key)).map((text) => {
    const [commitId = '', sessionId, seq] = text.split(' ')
    return { commitId, ...(sessionId !== undefined && { state: { sessionId, seq: Number(seq) } }) }
  })
}

/** The record of pushed commits, the newest first. Sessions with equal files may push the same commit. */
export function pushedCommitsRecord(commits: readonly PushedCommit[]): readonly string[] {
  return [...new Set(commits.map(textOf))].slice(0, limits.pushedCommits)
}

function textOf({ commitId, state }: PushedCommit): string {
  return state === undefined ? commitId : `${commitId} ${state.sessionId} ${state.seq}`
}

/** The newest commits that sessions push to each remote. */
export class PushedCommits {
  readonly #mutex = new KeyedMutex()

  /**
   * Call this before the push. If the engine is killed after the push, imports recognize the commit all the same. `check` runs
   * in the turn of the commit.
   */
  async add(core: Core, remote: GitRemote, commit: PushedCommit, check: () => void): Promise<void> {
    await this.#change(core, remote, (commits) => [commit, ...commits], check)
  }

  /** Forgets a commit that the remote has refused. It may have taken the same one from another session. */
  async remove(core: Core, remote: GitRemote, commit: PushedCommit): Promise<void> {
    const text = textOf(commit)
    await this.#change(core, remote, (commits) => commits.filter((one) => textOf(one) !== text))
  }

  /** Repeats a change if another engine was first. */
  #change(
    core: Core,
    remote: GitRemote,
    change: (commits: readonly PushedCommit[]) => readonly PushedCommit[],
    check: () => void = () => undefined,
  ): Promise<void> {
    const key = pushedCommitsKey(core, remote)
    return this.#mutex.run(key, async () => {
      for (let run = 1; ; run++) {
        const head = await headOf(core, key)
        const put = [[key, pushedCommitsRecord(change(await readPushedCommits(core, key)))] as const]
        check()
        if (await core.store.commit(head === undefined ? { put } : { put, heads: [head.next()] })) return
        if (run === limits.sharedChangeRuns) throw anotherEngine()
      }
    })
  }
}
