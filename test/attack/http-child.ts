/** The target server of the HTTP attacks, in its own process; reports the resources that it holds. */
import { subscribe } from 'node:diagnostics_channel'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEngine, type EngineOptions } from '../../src/index.js'
import { createHttpHandler, serve, staticTokens } from '../../src/adapters/http/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { fillEngine } from './full-session.js'
import { otherToken, token, type Figures, type Started, type TargetOptions } from './http-target.js'

/** The remote ports of open connections. */
const open = new Set<number>()
subscribe('net.server.socket', (message) => {
  const { socket } = message as { readonly socket: Socket }
  const port = socket.remotePort!
  open.add(port)
  socket.once('close', () => open.delete(port))
})

async function start({
  limits = {},
  server = {},
  files = {},
  fullShare = 0,
}: TargetOptions): Promise<Started> {
  const engine = await openEngine(fullShare > 0 ? fullOptions() : {})
  const caller = { tenant: 'local', principal: 'local' }
  const other = { tenant: 'other', principal: 'other' }
  const session = await engine.as(caller).sessions.create()
  const writes = Object.entries(files).map(([path, size]) => ({
    write: { path, content: new Uint8Array(size).fill(0x78) },
  }))
  await session.files.batch(writes)
  const full = fullShare > 0 ? await fillEngine(engine.as(caller), session, fullShare) : undefined
  const { id: otherSessionId } = await engine.as(other).sessions.create({ files: { '/a': 'a' } })
  const authenticate = staticTokens({ [token]: caller, [otherToken]: other })
  const handler = createHttpHandler(engine, { authenticate, limits })
  const { port } = await serve(handler, server)
  return { port, sessionId: session.id, otherSessionId, full }
}

function fullOptions(): EngineOptions {
  return {
    storage: levelStorage(join(directory(), 'data'), { durability: 'relaxed' }),
    secrets: { masterKey: new Uint8Array(32) },
  }
}

/** A directory that exists as long as this process. */
function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'full-session-'))
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  return path
}

function figures(): Figures {
  globalThis.gc?.()
  const { rss, heapUsed, external } = process.memoryUsage()
  return {
    ports: [...open],
    descriptors: process.platform === 'linux' ? readdirSync('/proc/self/fd').length : open.size,
    rssBytes: rss,
    liveBytes: heapUsed + external,
  }
}

process.on('message', (message: TargetOptions | 'figures' | 'ports') => {
  if (message === 'figures') process.send!(figures())
  else if (message === 'ports') process.send!([...open])
  else
    start(message).then(
      (started) => process.send!(started),
      (error: unknown) => process.send!({ error: String(error) }),
    )
})
process.on('disconnect', () => process.exit())
