import type { ForkRequest, Session } from '../../engine/index.js'

/** The metadata of the checkpoint of the state that was committed last. */
export const ofCommit = { sandboxCommit: true }

/** The checkpoint of the last commit of a session. */
export async function lastCommit(session: Session): Promise<string | undefined> {
  const { checkpoints } = await session.listCheckpoints({ metadata: ofCommit })
  return checkpoints.at(-1)?.id
}

/**
 * Forks a session together with its last commit, as a copy of a working directory has its `.git`: the fork begins at
 * the commit, and gets the changes since then as one event.
 */
export async function forkWithCommit(session: Session, request: ForkRequest): Promise<Session> {
  const checkpointId = await lastCommit(session)
  if (checkpointId === undefined) return session.fork(request)
  const fork = await session.fork({ ...request, from: { checkpointId } })
  try {
    await fork.checkpoint({ metadata: ofCommit })
    await fork.merge({ sessionId: session.id })
    return fork
  } catch (error) {
    await fork.delete()
    throw error
  }
}
