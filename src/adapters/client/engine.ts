import type {
  DiffRequest,
  EngineApi,
  EngineScope,
  SessionCreateRequest,
  SessionInfo,
} from '../../engine/index.js'
import { Shape } from '../../engine/client-contract.js'
import { toBytes } from './bytes.js'
import { checked } from './checked.js'
import { RemoteDiff } from './diff.js'
import { clientLimits } from './limits.js'
import { RemoteSession, stateShape } from './session.js'
import { RemoteSources } from './sources.js'
import type { Transport } from './transport.js'

type Usage = EngineScope['usage']

const createShape = new Shape<Omit<SessionCreateRequest, 'gitRepository' | 'ttlSeconds'>>({
  sourceRef: true,
  files: true,
  initialTags: true,
})

const diffShape = new Shape<DiffRequest>({ from: true, to: true })

/**
 * The sessions of a tenant. Like `engine.sessions` of a local engine. Each method also throws the errors of
 * {@link connect}.
 */
export class RemoteSessions {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Creates a session from a revision of a source, from files, or empty. A server accepts neither
   * `gitRepository` nor `ttlSeconds`.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request or a path is invalid, or the paths form no tree
   * @throws {EngineError} NAME_TOO_LONG when a name has over 255 bytes or a path over 4,096
   * @throws {EngineError} SOURCE_NOT_FOUND, REVISION_NOT_FOUND when the source or revision of `sourceRef`
   * does not exist
   * @throws {EngineError} SOURCE_WITHOUT_REVISION when the source was never imported
   * @throws {EngineError} LIMIT_EXCEEDED when the files are larger than a request of the server may be
   *
   * @example
   * const session = await engine.sessions.create({ files: { '/a.txt': 'hello' } })
   */
  async create(
    request: Omit<SessionCreateRequest, 'gitRepository' | 'ttlSeconds'> = {},
  ): Promise<RemoteSession> {
    const { files, ...rest } = createShape.read(request)
    const { id } = await this.#transport.call('createSession', {
      ...rest,
      ...(files !== undefined && {
        files: Object.entries(checked(files, 'files')).map(([path, content]) => ({
          path,
          content: toBytes(content, `files[${JSON.stringify(path.slice(0, clientLimits.shownLength))}]`),
        })),
      }),
    })
    return new RemoteSession(this.#transport, id)
  }

  /**
   * Returns a handle on an existing session.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session has this id, or it was deleted
   *
   * @example
   * const again = await engine.sessions.open(session.id)
   */
  async open(sessionId: string): Promise<RemoteSession> {
    const { id } = await this.get(sessionId)
    return new RemoteSession(this.#transport, id)
  }

  /**
   * The current tags, status, times and fingerprint of a session.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session has this id, or it was deleted
   *
   * @example
   * const { status, tags } = await engine.sessions.get(session.id)
   */
  get(sessionId: string): Promise<SessionInfo> {
    return this.#transport.call('getSession', { sessionId })
  }

  /**
   * A page of the sessions of the tenant, in order of creation.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the filter or the page token is malformed
   *
   * @example
   * const { sessions, nextPageToken } = await engine.sessions.list({ filter: 'team=web', pageSize: 100 })
   */
  list(
    request: Parameters<EngineScope['sessions']['list']>[0] = {},
  ): ReturnType<EngineScope['sessions']['list']> {
    return this.#transport.call('listSessions', request)
  }

  /**
   * Hides a session immediately. Its forks are not affected.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when no session has this id, or it was deleted
   *
   * @example
   * await engine.sessions.delete(session.id)
   */
  async delete(sessionId: string): Promise<void> {
    await this.#transport.call('deleteSession', { sessionId })
  }
}

/**
 * The resource usage of a tenant. Like `engine.usage` of a local engine. Each method also throws the errors
 * of {@link connect}.
 */
export class RemoteUsage {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * The session hours, stored contents and sent bytes in a time window, including deleted sessions.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a time is malformed, or the window does not end after its
   * start
   *
   * @example
   * const windowStart = '2026-01-01T00:00:00Z'
   * const { sessionHours } = await engine.usage.get({ windowStart, windowEnd: '2026-02-01T00:00:00Z' })
   */
  get(request: Parameters<Usage['get']>[0]): ReturnType<Usage['get']> {
    return this.#transport.call('getUsage', request)
  }

  /**
   * The number and size of the contents that the tenant stores.
   *
   * @example
   * const { storedBytes, dedupRatio } = await engine.usage.metrics()
   */
  metrics(): ReturnType<Usage['metrics']> {
    return this.#transport.call('getCasMetrics', {})
  }
}

/**
 * An engine in another process, with the permissions of the client's token. {@link connect} creates it. Each
 * method also throws the errors of {@link connect}.
 */
export class RemoteEngine implements EngineApi {
  /** The sessions of the tenant. */
  readonly sessions: RemoteSessions
  /** The sources of the tenant. */
  readonly sources: RemoteSources
  /** The resource usage of the tenant. */
  readonly usage: RemoteUsage
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
    this.sessions = new RemoteSessions(transport)
    this.sources = new RemoteSources(transport)
    this.usage = new RemoteUsage(transport)
  }

  /**
   * The changes from one state to another. The server compares the states when the changes are read, and
   * errors are thrown at that time.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the request is invalid
   * @throws {EngineError} SESSION_NOT_FOUND, CHECKPOINT_NOT_FOUND when a state does not exist
   *
   * @example
   * const to = { sessionId: fork.id }
   * for await (const { change, path } of engine.diff({ from: { sessionId: session.id }, to })) console.log(change, path)
   */
  diff(request: DiffRequest): RemoteDiff {
    return new RemoteDiff(this.#transport, () => {
      const given = diffShape.read(request)
      const from = stateShape.readPart(given.from, 'from')
      const { sessionId, ...state } = stateShape.readPart(given.to, 'to')
      return { sessionId, from, to: state }
    })
  }

  /**
   * Waits for pending requests, and ends subscriptions. The engine of the server stays open.
   *
   * @example
   * await engine.close()
   */
  close(): Promise<void> {
    return this.#transport.close()
  }

  /**
   * The same as {@link close}, for `await using`.
   *
   * @example
   * await using engine = connect({ baseUrl: 'http://127.0.0.1:4000', token })
   */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
