/** The names that the examples of the client may use without declaring them: handles of a served world. */
import { connect, type RemoteEngine, type RemoteSession } from 'forkspace/client'
import { createHttpHandler, serve, staticTokens } from 'forkspace/http'
import type { World as LocalWorld } from './docs-world.js'
import { makeWorld as makeLocalWorld } from './examples-world.js'

export interface World extends Omit<LocalWorld, 'engine' | 'session' | 'fork'> {
  readonly engine: RemoteEngine
  readonly session: RemoteSession
  readonly fork: RemoteSession
  readonly serverUrl: string
}

export async function makeWorld(directory: string): Promise<World> {
  const local = await makeLocalWorld(directory)
  const authenticate = staticTokens({ [local.token]: { tenant: 'local', principal: 'local' } })
  const server = await serve(createHttpHandler(local.engine, { authenticate }))
  const engine = connect({ baseUrl: server.url, token: local.token })
  return {
    ...local,
    engine,
    session: await engine.sessions.open(local.session.id),
    fork: await engine.sessions.open(local.fork.id),
    serverUrl: server.url,
    [Symbol.asyncDispose]: async () => {
      await engine.close()
      await server.close({ timeoutMs: 0 })
      await local.engine.close()
    },
  }
}
