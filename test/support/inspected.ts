import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import type { Engine } from 'forkspace'
import { staticTokens } from 'forkspace/http'
import { inspector, type InspectedServer, type InspectorOptions } from 'forkspace/inspector'

export interface Inspected {
  /** The URL with the token. */
  readonly url: string
  readonly token: string
  /** The paths and queries of all requests. */
  readonly requested: readonly string[]
  close(): Promise<void>
}

/** Serves the built inspector of an engine or a server on a port of its own. */
export async function inspected(
  engine: Engine | InspectedServer,
  options: Partial<InspectorOptions> = {},
): Promise<Inspected> {
  const token = randomBytes(16).toString('hex')
  const handle = inspector(engine, {
    authenticate: staticTokens({ [token]: { tenant: 'local', principal: 'viewer' } }),
    ...options,
  })
  const listener = getRequestListener((request) => handle(request))
  const requested: string[] = []
  const server = createServer((incoming, outgoing) => {
    requested.push(incoming.url ?? '')
    listener(incoming, outgoing).catch(() => outgoing.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/#token=${token}`,
    token,
    requested,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
