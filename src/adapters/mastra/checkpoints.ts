import type { SessionApi, SessionListRequest, SessionPage } from '../../engine/index.js'

/** The sessions of an engine, as far as sandboxes look for clones and their checkpoints. */
export interface SandboxSessions {
  /** Lists sessions, as `engine.sessions.list` does. */
  list(request?: SessionListRequest): Promise<SessionPage>
  /** Opens a session, as `engine.sessions.open` does. */
  open(sessionId: string): Promise<SessionApi>
}

/** Where checkpoints of a name can be: the session of a sandbox, and those of its clones. */
export interface CheckpointPlaces {
  readonly session: SessionApi
  readonly sessions: SandboxSessions | undefined
}

interface NamedCheckpoint {
  readonly session: SessionApi
  readonly checkpointId: string
  readonly createdAt: string
}

/**
 * Writes the checkpoint of a name. The session's earlier one of that name is deleted afterwards, so there is always one.
 * Without a name, the checkpoint is a further one.
 */
export async function writeCheckpoint(
  session: SessionApi,
  checkpointName: string | undefined,
): Promise<void> {
  if (checkpointName === undefined) {
    await session.checkpoint()
    return
  }
  const metadata = { checkpointName }
  const { id } = await session.checkpoint({ metadata })
  for (const checkpointId of await idsOf(session, checkpointName))
    if (checkpointId !== id) await session.deleteCheckpoint({ checkpointId })
}

/** The newest checkpoint of a name. */
export async function findCheckpoint(
  { session, sessions }: CheckpointPlaces,
  checkpointName: string,
): Promise<NamedCheckpoint | undefined> {
  let newest = await newestOf(session, checkpointName)
  if (sessions === undefined) return newest
  for await (const id of sessionsWith(sessions, { checkpointName })) {
    const found = await newestOf(await sessions.open(id), checkpointName)
    if (found !== undefined && (newest === undefined || found.createdAt >= newest.createdAt)) newest = found
  }
  return newest
}

/** The session of the newest clone with an id. */
export async function findClone(
  sessions: SandboxSessions | undefined,
  sandboxId: string,
): Promise<SessionApi | undefined> {
  let newest: string | undefined
  if (sessions !== undefined) for await (const id of sessionsWith(sessions, { sandboxId })) newest = id
  return newest === undefined ? undefined : sessions?.open(newest)
}

async function* sessionsWith(
  sessions: SandboxSessions,
  metadata: Readonly<Record<string, string>>,
): AsyncGenerator<string> {
  let pageToken = ''
  do {
    const page = await sessions.list({ metadata, pageToken })
    for (const { id } of page.sessions) yield id
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}

async function newestOf(session: SessionApi, checkpointName: string): Promise<NamedCheckpoint | undefined> {
  let newest: NamedCheckpoint | undefined
  let pageToken = ''
  do {
    const page = await session.listCheckpoints({ metadata: { checkpointName }, pageToken })
    const last = page.checkpoints.at(-1)
    if (last !== undefined) newest = { session, checkpointId: last.id, createdAt: last.createdAt }
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return newest
}

async function idsOf(session: SessionApi, checkpointName: string): Promise<string[]> {
  const ids: string[] = []
  let pageToken = ''
  do {
    const page = await session.listCheckpoints({ metadata: { checkpointName }, pageToken })
    for (const { id } of page.checkpoints) ids.push(id)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return ids
}
