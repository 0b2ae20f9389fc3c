import { openFor, type EngineScope } from './engine.js'
import type { SessionRepository } from './repository.js'
import { repositoryOf } from './session.js'

/**
 * Opens a session as a git repository.
 *
 * @throws {EngineError} SESSION_NOT_FOUND when there is no such session.
 */
export async function openRepository(
  { sessions }: EngineScope,
  sessionId: string,
): Promise<SessionRepository> {
  return repositoryOf(await openFor(sessions, 'fetchRepository', sessionId))
}
