import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import {
  readSizes,
  token,
  type RecordedAnswer,
  type ServerKind,
  type ServerStep,
  type Started,
} from '../support/http-steps.js'
import { race, type Contestant } from '../support/measure.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const connections = 8
/** At most 1.6 times the CPU time of a bare server, and 1.2 times for large bodies. */
const smallTarget = { speedAtLeast: 1 / 1.6 }
const largeTarget = { speedAtLeast: 1 / 1.2 }

interface Case {
  readonly what: string
  readonly method: 'GET' | 'POST'
  /** The path after the session. */
  readonly path: string
  readonly body?: object
  readonly target: { readonly speedAtLeast: number }
  readonly count: number
  /** Whether a client subscribes to the messages of the session. */
  readonly subscribed?: true
}

const smallText = Buffer.from('export const value = 42\n').toString('base64')
const largeText = Buffer.alloc(64 * 1024, 'x').toString('base64')
const batchOf = (paths: readonly string[], content: string): object => ({
  operations: paths.map((path) => ({ write: { path, content } })),
})
const payload = Buffer.alloc(200, 'p').toString('base64')

const cases: readonly Case[] = [
  {
    what: 'manifest, a page of 50',
    method: 'GET',
    path: '/manifest?pageSize=50',
    target: smallTarget,
    count: 800,
  },
  {
    what: 'batch of 3 small files',
    method: 'POST',
    path: '/batch',
    body: batchOf(['/a', '/b', '/c'], smallText),
    target: smallTarget,
    count: 800,
  },
  {
    what: 'batch of one file of 64 KiB',
    method: 'POST',
    path: '/batch',
    body: batchOf(['/big'], largeText),
    target: largeTarget,
    count: 800,
  },
  ...Object.entries(readSizes).map(([path, size]): Case => ({
    what: `readFile, ${size / 1024} KiB`,
    method: 'POST',
    path: ':readFile',
    body: { path },
    target: size < 64 * 1024 ? smallTarget : largeTarget,
    count: 800,
  })),
  {
    what: 'bus: publish of a message to one subscriber',
    method: 'POST',
    path: '/bus:publish',
    body: { topic: 'build', payload },
    target: smallTarget,
    count: 800,
    subscribed: true,
  },
]

/** Each server runs in its own process and stores data in memory. The client is this process, so its CPU time is excluded. */
export const http: Scenario = {
  name: 'http',
  title: 'HTTP on loopback, compared with servers that only send recorded responses',
  clock: 'cpu',
  async *run(context) {
    for (const each of cases) yield* compare(context, each)
  },
}

async function* compare(context: Context, each: Case): AsyncGenerator<Row> {
  const count = context.count(each.count)
  const ours = await Server.start('forkspace', {}, '')
  const path = `/v1/sessions/${ours.started.sessionId}${each.path}`
  const body = each.body && JSON.stringify(each.body)
  const answer = await ours.ask(each.method, path, body)
  const line = `${JSON.stringify({ result: { ...each.body, messageId: 'x'.repeat(45), sessionId: 'x'.repeat(36), senderId: 'local', publishedAt: new Date(0).toISOString() } })}\n`
  const answers = { [`${each.method} ${path.replace(/\?.*/, '')}`]: answer }
  const servers: Partial<Record<ServerKind, Server>> = { forkspace: ours }
  servers['node:http'] = await Server.start('node:http', answers, line)
  // Hono treats a colon in a route as the start of a parameter.
  if (!each.path.includes(':')) servers.Hono = await Server.start('Hono', answers, line)
  try {
    const contestants: Record<string, Contestant> = {}
    for (const [kind, server] of Object.entries(servers)) {
      if (each.subscribed) await server.subscribe(path.replace(':publish', ''))
      contestants[kind] = {
        count,
        run: () => server.load(each.method, path, body, count, answer.body.length),
      }
    }
    const timings = await race(contestants, { rounds: context.rounds, warmUps: 2 })
    for (const peer of Object.keys(contestants).slice(1)) {
      yield timingRow({
        what: each.what,
        ours: timings['forkspace']!,
        peer: { name: peer, timing: timings[peer]! },
        clock: 'cpu',
        target: peer === 'node:http' ? each.target : undefined,
      })
    }
    yield timingRow({
      what: `${each.what}: requests`,
      ours: timings['forkspace']!,
      peer: { name: 'node:http', timing: timings['node:http']! },
      perSecond: true,
    })
  } finally {
    for (const server of Object.values(servers)) server.stop()
  }
}

class Server {
  readonly started: Started
  readonly #process: ChildProcess
  readonly #agent = new Agent({ keepAlive: true, maxSockets: connections })
  /** Bytes of messages that the subscriber received. */
  #received = 0

  private constructor(child: ChildProcess, started: Started) {
    this.#process = child
    this.started = started
  }

  static async start(
    kind: ServerKind,
    answers: Readonly<Record<string, RecordedAnswer>>,
    line: string,
  ): Promise<Server> {
    const child = fork(new URL('../support/http-worker.js', import.meta.url))
    const started = await asked<Started>(child, { step: 'start', kind, answers, line })
    return new Server(child, started)
  }

  /** Sends `count` requests, several at a time. Returns the CPU time of the server in milliseconds. */
  async load(
    method: string,
    path: string,
    body: string | undefined,
    count: number,
    expectedBytes: number,
  ): Promise<number> {
    const before = await this.#cpuMs()
    let left = count
    const send = async (): Promise<void> => {
      while (left-- > 0) {
        const answer = await this.ask(method, path, body)
        if (answer.status !== 200 || Math.abs(answer.body.length - expectedBytes) > 64)
          throw new Error(`${path} answered ${answer.status} with ${answer.body.length} bytes`)
      }
    }
    await Promise.all(Array.from({ length: connections }, send))
    return (await this.#cpuMs()) - before
  }

  async ask(method: string, path: string, body?: string): Promise<RecordedAnswer> {
    const response = await this.#send(method, path, body)
    let text = ''
    response.setEncoding('utf8')
    for await (const piece of response) text += piece as string
    const { 'content-type': type = '', 'cache-control': cache = '' } = response.headers
    const headers = { 'content-type': type, 'cache-control': cache, 'content-length': String(text.length) }
    return { status: response.statusCode!, headers, body: text }
  }

  async subscribe(path: string): Promise<void> {
    const response = await this.#send('GET', path)
    if (response.statusCode !== 200) throw new Error(`${path} answered ${response.statusCode}`)
    response.on('data', (piece: Buffer) => (this.#received += piece.length))
  }

  stop(): void {
    this.#agent.destroy()
    this.#process.disconnect()
  }

  async #cpuMs(): Promise<number> {
    return (await asked<{ cpuMs: number }>(this.#process, { step: 'cpu' })).cpuMs
  }

  #send(method: string, path: string, body?: string): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers: Record<string, string | number> = { authorization: `Bearer ${token}` }
      if (body !== undefined) {
        headers['content-type'] = 'application/json'
        headers['content-length'] = Buffer.byteLength(body)
      }
      const agent = path.endsWith('/bus') ? new Agent() : this.#agent
      request(`${this.started.url}${path}`, { method, headers, agent }, resolve).on('error', reject).end(body)
    })
  }
}

async function asked<T>(child: ChildProcess, step: ServerStep): Promise<T> {
  child.send(step)
  const [answer] = (await once(child, 'message')) as [T & { error?: string }]
  if (answer.error !== undefined) throw new Error(answer.error)
  return answer
}
