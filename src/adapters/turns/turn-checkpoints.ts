import type { SessionApi } from '../../engine/index.js'
import { EngineError, given, invalid } from '../../engine/ports.js'
import { limits } from './limits.js'

/**
 * The checkpoints of a session before its user messages. Their metadata has the id of the message, so a later process
 * finds them. Those of the newest messages are kept, also of earlier processes.
 */
export class TurnCheckpoints {
  readonly #session: SessionApi
  /** The checkpoints of each message, the oldest message first. Read when the first one is taken. */
  #kept: Promise<Map<string, string[]>> | undefined

  /** @throws {EngineError} INVALID_ARGUMENT when the session is none */
  constructor(session: SessionApi) {
    if (typeof session?.checkpoint !== 'function')
      throw invalid('session', `must be a session of forkspace; it is ${given(session)}`)
    this.#session = session
  }

  /** Takes a checkpoint of the present state, and deletes those of the oldest messages. */
  async take(userMessageId: string): Promise<string> {
    const kept = await this.#read()
    const { id } = await this.#session.checkpoint({ metadata: metadataOf(userMessageId) })
    const earlier = kept.get(userMessageId) ?? []
    kept.delete(userMessageId)
    kept.set(userMessageId, [...earlier, id])
    for (const [oldest, checkpointIds] of kept) {
      if (kept.size <= limits.messages) break
      kept.delete(oldest)
      for (const checkpointId of checkpointIds) await this.#delete(checkpointId)
    }
    return id
  }

  #read(): Promise<Map<string, string[]>> {
    const read = (this.#kept ??= checkpointsByMessage(this.#session))
    // A failure is not remembered.
    read.catch(() => {
      if (this.#kept === read) this.#kept = undefined
    })
    return read
  }

  async #delete(checkpointId: string): Promise<void> {
    try {
      await this.#session.deleteCheckpoint({ checkpointId })
    } catch (error) {
      if (!(error instanceof EngineError) || error.reason !== 'CHECKPOINT_NOT_FOUND') throw error
    }
  }
}

/** The newest checkpoint of a user message, also of an earlier process; undefined if there is none. */
export async function checkpointOf(session: SessionApi, userMessageId: string): Promise<string | undefined> {
  let newest: string | undefined
  for await (const { id } of checkpointsWith(session, metadataOf(userMessageId))) newest = id
  return newest
}

async function checkpointsByMessage(session: SessionApi): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>()
  for await (const { id, metadata } of checkpointsWith(session, {})) {
    const { userMessageId } = metadata
    if (typeof userMessageId !== 'string') continue
    const earlier = found.get(userMessageId) ?? []
    found.delete(userMessageId)
    found.set(userMessageId, [...earlier, id])
  }
  return found
}

async function* checkpointsWith(session: SessionApi, metadata: Readonly<Record<string, string>>) {
  let pageToken = ''
  do {
    const page = await session.listCheckpoints({ metadata, pageSize: limits.checkpointsPerPage, pageToken })
    yield* page.checkpoints
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}

function metadataOf(userMessageId: string) {
  return { userMessageId }
}

/** @throws {EngineError} INVALID_ARGUMENT when a value cannot be the id of a user message */
export function checkMessageId(field: string, id: unknown): asserts id is string {
  if (typeof id !== 'string' || id === '' || id.length > limits.messageIdLength)
    throw invalid(field, `must be the id of a user message; it is ${given(id)}`)
}
