import { TimeSlice, type GitObject, type ImportContext } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { describeCommit, parseCommit } from './objects/raw-commit.js'
import type { RevisionSource } from './objects/revision-objects.js'

/**
 * The pushed commits that a commit builds on, and itself if it is one. An import has only the newest commit, so the commits
 * before it are read, as far as the repository gives them. A pushed commit may be left out, but none is listed wrongly.
 */
export async function containedCommits(
  commitId: string,
  source: Pick<RevisionSource, 'history'>,
  { objects, pushedCommits, signal }: ImportContext,
): Promise<readonly string[]> {
  const wanted = new Set<string>()
  let since = Number.POSITIVE_INFINITY
  for (const oid of (await pushedCommits?.()) ?? []) {
    const commit = await objects.get(oid, gitLimits.structureBytes)
    if (commit?.type !== 'commit') continue
    wanted.add(oid)
    since = Math.min(since, parseCommit(commit).committerSeconds - gitLimits.clockSkewSeconds)
  }
  if (wanted.size === 0 || commitId === '') return []
  const isBefore = (commit: GitObject): boolean => parseCommit(commit).committerSeconds < since
  let read: ((oid: string) => Promise<GitObject | undefined>) | undefined
  const found = new Set([commitId])
  const slice = new TimeSlice(performance, signal)
  for (const oid of found) {
    if (slice.over) await slice.next()
    const known = await objects.get(oid, gitLimits.structureBytes)
    const commit = known ?? (await read?.(oid))
    if (commit?.type !== 'commit' || (oid !== commitId && isBefore(commit))) continue
    for (const parent of describeCommit(commit).parentIds) found.add(parent)
    if (found.size >= gitLimits.historyCommits) break
    if (oid === commitId && !isBefore(commit)) read = await source.history?.(Math.max(0, since))
  }
  return [...wanted].filter((oid) => found.has(oid))
}
