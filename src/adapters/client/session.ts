import type {
  Checkpoint,
  CheckpointCreateRequest,
  CheckpointReference,
  ForkRequest,
  PruneRequest,
  Session,
  SessionApi,
  SessionCommitRequest,
  SessionInfo,
  StateReference,
} from '../../engine/index.js'
import { invalid, Shape, type OperationResponse } from '../../engine/client-contract.js'
import { RemoteBus } from './bus.js'
import { RemoteCache } from './cache.js'
import { RemoteDiff } from './diff.js'
import { RemoteFiles } from './files.js'
import { createRemoteFs, type RemoteFs } from './fs/index.js'
import { RemoteFileLocks, RemotePosixLocks } from './locks.js'
import { RemoteAnnotations, RemoteApprovals } from './review.js'
import { callsOf, remoteService } from './remote-service.js'
import { SessionCalls } from './session-calls.js'
import type { Transport } from './transport.js'
import { RemoteEvents, RemoteHealth, RemoteSecrets } from './visibility.js'

const forkShape = new Shape<ForkRequest>({ checkpointLabel: true, newTags: true })
const checkpointShape = new Shape<CheckpointCreateRequest>({ checkpointLabel: true })
const pruneShape = new Shape<PruneRequest>({ keepLast: true })
const commitShape = new Shape<SessionCommitRequest>({
  message: true,
  author: true,
  gitBranch: true,
  allowEmpty: true,
  signal: true,
})
export const stateShape = new Shape<StateReference>({
  sessionId: true,
  checkpointId: true,
  checkpointLabel: true,
  base: true,
})

/** The state that `session.diff` compares with, as for a local engine. */
export type RemoteDiffTarget = RemoteSession | StateReference | CheckpointReference | 'base'

/** A handle for one session on a server. Like the session of a local engine, with the differences below. */
export class RemoteSession extends remoteService('session', 'commit') implements SessionApi {
  readonly id: string
  #files: RemoteFiles | undefined
  #fs: RemoteFs | undefined

  constructor(transport: Transport, id: string) {
    super(new SessionCalls(transport, id))
    this.id = id
  }

  get files(): RemoteFiles {
    return (this.#files ??= new RemoteFiles(callsOf(this)))
  }

  /** The files with the API of `node:fs/promises`, without synchronous calls, open files, streams and watchers. */
  get fs(): RemoteFs {
    return (this.#fs ??= createRemoteFs(this.files))
  }

  get events(): RemoteEvents {
    return new RemoteEvents(callsOf(this))
  }

  get annotations(): RemoteAnnotations {
    return new RemoteAnnotations(callsOf(this))
  }

  get approvals(): RemoteApprovals {
    return new RemoteApprovals(callsOf(this))
  }

  get cache(): RemoteCache {
    return new RemoteCache(callsOf(this))
  }

  get bus(): RemoteBus {
    return new RemoteBus(callsOf(this))
  }

  get posixLocks(): RemotePosixLocks {
    return new RemotePosixLocks(callsOf(this))
  }

  get fileLocks(): RemoteFileLocks {
    return new RemoteFileLocks(callsOf(this))
  }

  get health(): RemoteHealth {
    return new RemoteHealth(callsOf(this))
  }

  get secrets(): RemoteSecrets {
    return new RemoteSecrets(callsOf(this))
  }

  /** Resolves when all pending requests of this client have ended. */
  flush(): Promise<void> {
    return callsOf(this).transport.settled()
  }

  get(): Promise<SessionInfo> {
    return callsOf(this).call('getSession', {})
  }

  delete(): Promise<void> {
    return callsOf(this).run('deleteSession', {})
  }

  async fork(request: Parameters<Session['fork']>[0] = {}): Promise<RemoteSession> {
    const { transport } = callsOf(this)
    const { checkpointLabel, ...rest } = forkShape.read(request)
    const from = checkpointLabel === undefined ? {} : { sourceCheckpointLabel: checkpointLabel }
    const { id } = await transport.call('forkSession', { ...rest, ...from, sourceSessionId: this.id })
    return new RemoteSession(transport, id)
  }

  async checkpoint(request: CheckpointCreateRequest = {}): Promise<Checkpoint> {
    const { checkpointLabel: label } = checkpointShape.read(request)
    return ofLibrary(await callsOf(this).call('createCheckpoint', label === undefined ? {} : { label }))
  }

  async listCheckpoints(
    request: Parameters<Session['listCheckpoints']>[0] = {},
  ): ReturnType<Session['listCheckpoints']> {
    const { checkpoints, nextPageToken } = await callsOf(this).call('listCheckpoints', request)
    return { checkpoints: checkpoints.map(ofLibrary), nextPageToken }
  }

  async pruneCheckpoints(
    request: Parameters<Session['pruneCheckpoints']>[0],
  ): ReturnType<Session['pruneCheckpoints']> {
    const { keepLast } = pruneShape.read(request)
    if (!Number.isSafeInteger(keepLast) || keepLast < 0)
      throw invalid('keepLast', 'must be a whole number from 0 on')
    const ids: string[] = []
    for (let pageToken = ''; ;) {
      const page = await this.listCheckpoints({ pageToken })
      ids.push(...page.checkpoints.map(({ id }) => id))
      if (page.nextPageToken === '') break
      pageToken = page.nextPageToken
    }
    const old = ids.slice(0, Math.max(0, ids.length - keepLast))
    for (const checkpointId of old) await this.deleteCheckpoint({ checkpointId })
    return { deletedCount: old.length }
  }

  /** The states are compared when the changes are read. */
  diff(against: RemoteDiffTarget = 'base'): RemoteDiff {
    return new RemoteDiff(callsOf(this).transport, () => ({
      sessionId: this.id,
      from: this.#reference(against),
    }))
  }

  /** The signal ends the request, but the server may still make the commit. */
  async commit(request: SessionCommitRequest): Promise<{ commitId: string }> {
    const { signal, ...rest } = commitShape.read(request)
    return callsOf(this).call('commit', rest, { signal })
  }

  #reference(target: RemoteDiffTarget): StateReference {
    if (target === 'base') return { sessionId: this.id, base: true }
    if (target instanceof RemoteSession) return { sessionId: target.id }
    const reference = stateShape.readPart(target as StateReference, 'against')
    if (Object.keys(reference).length === 0)
      throw invalid(
        'against',
        "must be a session, 'base', or an object with sessionId, checkpointId, checkpointLabel or base",
      )
    reference.sessionId ??= this.id
    return reference
  }
}

/** Renames a field: the operation calls it `label`. */
function ofLibrary({ label, ...checkpoint }: OperationResponse<'createCheckpoint'>): Checkpoint {
  return { ...checkpoint, checkpointLabel: label }
}
