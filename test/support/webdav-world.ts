import { serve, type HttpServer } from '../../src/adapters/http/index.js'
import { webdavHandler, type WebdavHandlerOptions } from '../../src/adapters/webdav/index.js'
import {
  openEngine,
  type Engine,
  type EngineOptions,
  type Session,
  type SessionCreateRequest,
} from '../../src/index.js'

export const webdavToken = 'webdav-secret'

export interface Answer {
  readonly status: number
  readonly body: string
  readonly headers: Headers
}

export interface Asked {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

/** A session that a handler serves, and the errors that the handler logged. */
export class WebdavWorld {
  readonly engine: Engine
  readonly session: Session
  readonly logged: unknown[] = []
  readonly #options: Omit<WebdavHandlerOptions, 'token'>
  #handler: ReturnType<typeof webdavHandler> | undefined

  private constructor(engine: Engine, session: Session, options: Omit<WebdavHandlerOptions, 'token'>) {
    this.engine = engine
    this.session = session
    this.#options = options
  }

  static async open(
    files: NonNullable<SessionCreateRequest['files']>,
    options: Omit<WebdavHandlerOptions, 'token'> = {},
    engineOptions: EngineOptions = {},
  ): Promise<WebdavWorld> {
    const engine = await openEngine(engineOptions)
    return new WebdavWorld(engine, await engine.sessions.create({ files }), options)
  }

  get handler(): ReturnType<typeof webdavHandler> {
    this.#handler ??= webdavHandler(this.session, {
      token: webdavToken,
      log: ({ error }) => this.logged.push(error),
      ...this.#options,
    })
    return this.#handler
  }

  /** Sends a request without a socket. */
  async ask(method: string, path: string, { headers = {}, body }: Asked = {}): Promise<Answer> {
    const request = new Request(`http://localhost${path}`, {
      method,
      headers: { authorization: `Bearer ${webdavToken}`, ...headers },
      ...(body !== undefined && { body: body as string }),
    })
    const response = await this.handler.fetch(request)
    return { status: response.status, body: await response.text(), headers: response.headers }
  }

  listen(): Promise<HttpServer> {
    return serve(this.handler)
  }

  /** The kinds of the events of the session since its creation. */
  async events(): Promise<string[]> {
    const { events } = await this.session.events.list({ pageSize: 1000 })
    return events.slice(1).map(({ eventType }) => eventType.split('.').at(-1) ?? '')
  }

  close(): Promise<void> {
    return this.engine.close()
  }
}
