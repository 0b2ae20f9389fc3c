/** Runs one server of the HTTP benchmark and reports its CPU time. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { openEngine } from 'forkspace'
import { createHttpHandler, serve, staticTokens } from 'forkspace/http'
import { Hono } from 'hono'
import { filesPerSession, readSizes, token, type ServerStep, type Started } from './http-steps.js'

type Start = Extract<ServerStep, { step: 'start' }>

async function startForkspace(): Promise<Started> {
  const engine = await openEngine()
  const session = await engine.sessions.create()
  for (let i = 0; i < filesPerSession; i++) {
    const path = `/src/package-${i % 20}/file-${i}.ts`
    await session.files.write({ path, content: `export const value = ${i}\n`, createParents: true })
  }
  for (const [path, size] of Object.entries(readSizes))
    await session.files.write({ path, content: 'x'.repeat(size) })
  const authenticate = staticTokens({ [token]: { tenant: 'local', principal: 'local' } })
  const { url } = await serve(createHttpHandler(engine, { authenticate }))
  return { url, sessionId: session.id }
}

type Listener = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void> | void

async function listen(listener: Listener): Promise<Started> {
  const server = createServer((incoming, outgoing) => void listener(incoming, outgoing))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sessionId: '' }
}

/** Reads the request and sends the recorded response, the minimum for any server on node:http. */
function startBare({ answers, line }: Start): Promise<Started> {
  const subscribers = new Set<ServerResponse>()
  return listen((incoming, outgoing) => {
    const path = incoming.url!.replace(/\?.*/, '')
    if (incoming.method === 'GET' && path.endsWith('/bus')) {
      outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
      subscribers.add(outgoing)
      return
    }
    const pieces: Buffer[] = []
    incoming.on('data', (piece: Buffer) => pieces.push(piece))
    incoming.on('end', () => {
      if (path.endsWith('/bus:publish')) for (const subscriber of subscribers) subscriber.write(line)
      const { status, headers, body } = answers[`${incoming.method} ${path}`]!
      outgoing.writeHead(status, headers).end(body)
    })
  })
}

/** The same with Hono on its server for Node, without streams. */
function startHono({ answers }: Start): Promise<Started> {
  const app = new Hono()
  for (const [place, { status, headers, body }] of Object.entries(answers)) {
    const [method, path] = place.split(' ') as [string, string]
    app.on(method, path, async (context) => {
      if (method !== 'GET') await context.req.arrayBuffer()
      return new Response(body, { status, headers })
    })
  }
  return listen(getRequestListener(app.fetch))
}

const starts = { forkspace: startForkspace, 'node:http': startBare, Hono: startHono }

process.on('message', (step: ServerStep) => {
  if (step.step === 'cpu') {
    const { user, system } = process.cpuUsage()
    process.send!({ cpuMs: (user + system) / 1000 })
    return
  }
  starts[step.kind](step).then(
    (started) => process.send!(started),
    (error: unknown) => process.send!({ error: String(error) }),
  )
})
process.on('disconnect', () => process.exit())
