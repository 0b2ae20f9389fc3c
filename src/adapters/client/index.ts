import { RemoteEngine } from './engine.js'
import { parseOptions, type ClientOptions } from './options.js'
import { Transport } from './transport.js'

/**
 * Connects to the engine of a server. The result has the API of a local engine, except for calls that need
 * the same process. Errors are `EngineError`s with the same reasons and details. A read without a response is
 * retried twice; a change is never retried.
 *
 * Every call can fail with `REMOTE_FAILED` if the server does not respond, `UNAUTHENTICATED` if it does not
 * know the token, `PERMISSION_DENIED` if it does not allow the call, and `DEADLINE_EXCEEDED` after
 * `timeoutMs`.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is invalid
 *
 * @example
 * const engine = connect({ baseUrl: 'http://127.0.0.1:4000', token })
 * const session = await engine.sessions.create({ files: { '/a.txt': 'hello' } })
 */
export function connect(options: ClientOptions): RemoteEngine {
  return new RemoteEngine(new Transport(parseOptions(options)))
}

export type { ClientOptions } from './options.js'
export { RemoteEngine, type RemoteSessions, type RemoteUsage } from './engine.js'
export {
  RemoteSession,
  type RemoteDiffTarget,
  type RemoteMergeOptions,
  type RemoteRebaseOptions,
} from './session.js'
export type { RemoteView, RemoteViewFiles } from './view.js'
export type { RemoteAnnotations, RemoteApprovals, RemoteCommits, RemoteConflicts } from './review.js'
export type { RemoteBus } from './bus.js'
export type { RemoteCache } from './cache.js'
export type { RemoteDiff } from './diff.js'
export type { RemoteEvent, RemoteEventPage, RemoteEvents, RemoteHealth, RemoteSecrets } from './visibility.js'
export type { RemoteFileLocks, RemotePosixLocks } from './locks.js'
export type { RemoteFiles } from './files.js'
export type { RemoteFs, RemoteFsPromises } from './fs/index.js'
export type { RemoteSources } from './sources.js'
export type { RemoteText } from './text.js'
export { EngineError, Secret, type ErrorReason } from '../../engine/client-contract.js'
