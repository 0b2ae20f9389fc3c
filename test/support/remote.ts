import { connect, type ClientOptions, type RemoteEngine } from '../../src/adapters/client/index.js'
import {
  createHttpHandler,
  serve,
  staticTokens,
  type HttpHandlerOptions,
  type HttpServer,
} from '../../src/adapters/http/index.js'
import { openEngine, type Engine } from '../../src/index.js'

export interface Remote {
  readonly engine: Engine
  readonly server: HttpServer
  /** Authenticated as the principal `ann` of `acme` with `ann-token`; `bob-token` belongs to the tenant `other`. */
  readonly client: RemoteEngine
  connect(options?: Partial<ClientOptions>): RemoteEngine
  close(): Promise<void>
}

/** An engine, a server for it, and a client of that server. */
export async function openRemote(
  engineOptions: Parameters<typeof openEngine>[0] = {},
  handlerOptions: Partial<HttpHandlerOptions> = {},
): Promise<Remote> {
  const engine = await openEngine({ git: { allowPrivateAddresses: true }, ...engineOptions })
  const handler = createHttpHandler(engine, {
    authenticate: staticTokens({
      'ann-token': { tenant: 'acme', principal: 'ann' },
      'bob-token': { tenant: 'other', principal: 'bob' },
    }),
    ...handlerOptions,
  })
  const server = await serve(handler)
  const connectTo = (options: Partial<ClientOptions> = {}): RemoteEngine =>
    connect({ baseUrl: server.url, token: 'ann-token', ...options })
  const client = connectTo()
  return {
    engine,
    server,
    client,
    connect: connectTo,
    close: async () => {
      await client.close()
      await server.close()
      await engine.close()
    },
  }
}
