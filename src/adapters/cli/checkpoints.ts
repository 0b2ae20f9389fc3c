import type { Checkpoint, SessionApi } from '../../engine/index.js'
import { Failure } from './failure.js'
import { completeId } from './ids.js'
import { printableName } from './printable.js'

/**
 * Returns the id of the checkpoint with this label, or otherwise of the checkpoint whose id begins with the
 * text.
 */
export async function findCheckpoint(session: SessionApi, which: string): Promise<string> {
  const ids: string[] = []
  for (const { id, checkpointLabel } of await checkpointsOf(session)) {
    if (checkpointLabel !== '' && checkpointLabel === which) return id
    ids.push(id)
  }
  if (!ids.some((id) => id.startsWith(which)))
    throw new Failure(
      `the session has no checkpoint with the label or id ${printableName(which)}; "forkspace session show" lists them`,
    )
  return completeId('checkpoint', which, () => Promise.resolve({ ids, nextPageToken: '' }))
}

/** All checkpoints, oldest first. */
export async function checkpointsOf(session: SessionApi): Promise<readonly Checkpoint[]> {
  const found: Checkpoint[] = []
  for (let pageToken = ''; ;) {
    const page = await session.listCheckpoints({ pageToken })
    found.push(...page.checkpoints)
    pageToken = page.nextPageToken
    if (pageToken === '') return found
  }
}
