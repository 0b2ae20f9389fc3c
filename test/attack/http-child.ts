/** The target server of the HTTP attacks, in its own process; reports the resources that it holds. */
import { subscribe } from 'node:diagnostics_channel'
import { readdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import { openEngine } from '../../src/index.js'
import { createHttpHandler, serve, staticTokens } from '../../src/adapters/http/index.js'
import { token, type Figures, type Started, type TargetOptions } from './http-target.js'

/** The remote ports of open connections. */
const open = new Set<number>()
subscribe('net.server.socket', (message) => {
  const { socket } = message as { readonly socket: Socket }
  const port = socket.remotePort!
  open.add(port)
  socket.once('close', () => open.delete(port))
})

async function start({ limits = {}, server = {}, files = {} }: TargetOptions): Promise<Started> {
  const engine = await openEngine()
  const caller = { tenant: 'local', principal: 'local' }
  const session = await engine.as(caller).sessions.create()
  const writes = Object.entries(files).map(([path, size]) => ({
    write: { path, content: new Uint8Array(size).fill(0x78) },
  }))
  await session.files.batch(writes)
  const handler = createHttpHandler(engine, { authenticate: staticTokens({ [token]: caller }), limits })
  const { port } = await serve(handler, server)
  return { port, sessionId: session.id }
}

function figures(): Figures {
  globalThis.gc?.()
  return {
    ports: [...open],
    descriptors: process.platform === 'linux' ? readdirSync('/proc/self/fd').length : open.size,
    rssBytes: process.memoryUsage.rss(),
  }
}

process.on('message', (message: TargetOptions | 'figures') => {
  if (message === 'figures') process.send!(figures())
  else
    start(message).then(
      (started) => process.send!(started),
      (error: unknown) => process.send!({ error: String(error) }),
    )
})
process.on('disconnect', () => process.exit())
