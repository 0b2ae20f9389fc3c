import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { AttackOptions, AttackResult } from './attacks.js'
import { head, HttpTarget } from './http-target.js'

const fileBytes = 12 * 2 ** 20
const json = 'content-type: application/json'
const readBody = JSON.stringify({ path: '/large' })
const publishBody = JSON.stringify({ topic: 't', payload: Buffer.alloc(2 ** 20).toString('base64') })

/** Small limits, so that the server's memory use is visible and it soon releases everything. */
const limits = {
  allResponseBytes: 64 * 2 ** 20,
  concurrentRequests: 400,
  stalledResponseMs: 500,
  stalledStreamMs: 500,
  requestMs: 2000,
  lockWaitMs: 500,
}
/** The response budget, copies in progress, and the heap. */
const allowedBytes = 400 * 2 ** 20
/** A generous limit: requests wait for response space one after another. */
const patienceMs = 60_000

/** Sends requests over connections that read nothing or almost nothing. */
type Variant = (target: HttpTarget, n: number) => Promise<void>

const variants: Readonly<Record<string, Variant>> = {
  'one connection, pipelining reads': async (target, n) => {
    const socket = await target.open()
    socket.write(read(target).repeat(n))
  },
  'connections that pipeline as much as they may': async (target, n) => {
    for (let index = 0; index < n; index += 10) (await target.open()).write(read(target).repeat(10))
  },
  'many connections with a read each': async (target, n) => {
    for (let index = 0; index < n; index++) (await target.open()).write(read(target))
  },
  'many connections that read a byte a second': async (target, n) => {
    for (let index = 0; index < n; index++) trickle(target, read(target))
  },
  'reads after a wait for a lock that is not released': async (target, n) => {
    const { sessionId } = target.started
    for (let index = 0; index < n; index += 10) {
      const lock = { path: '/large', kind: 'POSIX_LOCK_KIND_EXCLUSIVE', owner: { ownerId: `o${index}` } }
      const wait = post(`/v1/sessions/${sessionId}:setPosixLockBlocking`, JSON.stringify(lock))
      ;(await target.open()).write(wait + read(target).repeat(9))
    }
  },
  'connections that pipeline long lists': async (target, n) => {
    const list = head('GET', `/v1/sessions/${target.started.sessionId}/manifest?pageSize=10000`)
    for (let index = 0; index < n; index += 10) (await target.open()).write(list.repeat(10))
  },
  'subscribers to large messages': async (target, n) => {
    const { sessionId } = target.started
    for (let index = 0; index < n; index++)
      (await target.open()).write(head('GET', `/v1/sessions/${sessionId}/bus`))
    for (let index = 0; index < 20; index++) await publish(target)
  },
  'subscribers that read a byte a second': async (target, n) => {
    for (let index = 0; index < n; index++)
      trickle(target, head('GET', `/v1/sessions/${target.started.sessionId}/bus?replayLimit=16`))
    for (let index = 0; index < 20; index++) await publish(target)
  },
}

/** Requests large responses without reading them; the memory of the server must stay bounded and be released. */
export async function slowReaders({ n, onProgress }: AttackOptions): Promise<AttackResult> {
  await using target = await HttpTarget.start({
    limits,
    server: { keepAliveMs: 500 },
    files: { '/large': fileBytes, ...manyFiles() },
  })
  const base = (await target.figures()).rssBytes
  let peak = base
  const failures: string[] = []
  for (const [name, attack] of Object.entries(variants)) {
    const before = await target.figures()
    let highest = before.rssBytes
    let ended = false
    const watching = (async () => {
      while (!ended) {
        highest = Math.max(highest, (await target.figures()).rssBytes)
        await pause(50)
      }
    })()
    await attack(target, n)
    await pause(200)
    const during = await target.status()
    const begun = performance.now()
    let { ports } = await target.figures()
    for (const end = begun + patienceMs; ports.length > 0 && performance.now() < end;) {
      await pause(200)
      ;({ ports } = await target.figures())
    }
    ended = true
    await watching
    // A server that lost slots could not answer this many requests at once.
    const again = await Promise.all(Array.from({ length: 50 }, () => target.status()))
    const lost = again.filter((status) => status !== 200).length
    onProgress(
      `${name}: ${megabytes(highest - base)} MiB more at most, status ${during} meanwhile, ${ports.length} held, ${lost} of 50 requests lost afterwards`,
    )
    if (highest - base > allowedBytes) failures.push(`${name}: memory`)
    if (ports.length > 0) failures.push(`${name}: connections`)
    if (during !== 200 && during !== 429) failures.push(`${name}: status ${during}`)
    if (lost > 0) failures.push(`${name}: requests`)
    peak = Math.max(peak, highest)
    await target.closeAll()
  }
  return {
    line: `${Object.keys(variants).length} variants of ${n} requests, ${megabytes(base)} MiB before, ${megabytes(peak)} MiB at most; failed: ${failures.join(', ') || 'none'}`,
    failed: failures.length > 0,
  }
}

function read(target: HttpTarget): string {
  return post(`/v1/sessions/${target.started.sessionId}:readFile`, readBody)
}

function post(path: string, body: string): string {
  return head('POST', path, json, `content-length: ${body.length}`) + body
}

async function publish(target: HttpTarget): Promise<void> {
  const socket = await target.open()
  const answered = new Promise((resolve) => socket.once('data', resolve).once('close', resolve))
  socket.write(post(`/v1/sessions/${target.started.sessionId}/bus:publish`, publishBody))
  await answered
  socket.destroy()
}

/** A connection that reads one byte per second. */
function trickle(target: HttpTarget, sent: string): Socket {
  const socket = connect({
    port: target.started.port,
    host: '127.0.0.1',
    onread: {
      buffer: Buffer.alloc(1),
      callback: () => false,
    },
  })
  const reading = setInterval(() => socket.resume(), 1000)
  socket.once('close', () => clearInterval(reading))
  target.keep(socket)
  socket.write(sent)
  return socket
}

function manyFiles(): Readonly<Record<string, number>> {
  const name = 'a-name-of-some-length-'.repeat(10)
  return Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`/${name}${index}`, 0]))
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20)
}
