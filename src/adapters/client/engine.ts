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

/** The sessions of a tenant. Like `engine.sessions` of a local engine. */
export class RemoteSessions {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  async create(
    request: Omit<SessionCreateRequest, 'gitRepository' | 'ttlSeconds'> = {},
  ): Promise<RemoteSession> {
    const { files, ...rest } = createShape.read(request)
    const { id } = await this.#transport.call('createSession', {
      ...rest,
      ...(files !== undefined && {
        files: Object.entries(checked(files, 'files')).map(([path, content]) => ({
          path,
          content: toBytes(content, `files[${JSON.stringify(path.slice(0, 64))}]`),
        })),
      }),
    })
    return new RemoteSession(this.#transport, id)
  }

  async open(sessionId: string): Promise<RemoteSession> {
    const { id } = await this.get(sessionId)
    return new RemoteSession(this.#transport, id)
  }

  get(sessionId: string): Promise<SessionInfo> {
    return this.#transport.call('getSession', { sessionId })
  }

  list(
    request: Parameters<EngineScope['sessions']['list']>[0] = {},
  ): ReturnType<EngineScope['sessions']['list']> {
    return this.#transport.call('listSessions', request)
  }

  async delete(sessionId: string): Promise<void> {
    await this.#transport.call('deleteSession', { sessionId })
  }
}

/** The resource usage of a tenant. Like `engine.usage` of a local engine. */
export class RemoteUsage {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  get(request: Parameters<Usage['get']>[0]): ReturnType<Usage['get']> {
    return this.#transport.call('getUsage', request)
  }

  metrics(): ReturnType<Usage['metrics']> {
    return this.#transport.call('getCasMetrics', {})
  }
}

/** An engine in another process, with the rights of the client's token. */
export class RemoteEngine implements EngineApi {
  readonly sessions: RemoteSessions
  readonly sources: RemoteSources
  readonly usage: RemoteUsage
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
    this.sessions = new RemoteSessions(transport)
    this.sources = new RemoteSources(transport)
    this.usage = new RemoteUsage(transport)
  }

  /** The changes from one state to another. The states are compared when the changes are read. */
  diff(request: DiffRequest): RemoteDiff {
    return new RemoteDiff(this.#transport, () => {
      const given = diffShape.read(request)
      const from = stateShape.readPart(given.from, 'from')
      const { sessionId, ...state } = stateShape.readPart(given.to, 'to')
      return { sessionId, from, to: state }
    })
  }

  /** Waits for pending requests, and ends subscriptions. The engine of the server stays open. */
  close(): Promise<void> {
    return this.#transport.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
