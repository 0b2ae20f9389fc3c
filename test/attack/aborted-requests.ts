import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { AttackOptions, AttackResult } from './attacks.js'
import { head, HttpTarget } from './http-target.js'

const fileBytes = 2 * 2 ** 20
const json = 'content-type: application/json'
/** The share of `concurrentRequests` of the only tenant. */
const slots = 20

/** Room for one large request and one large response, so that anything not released shows at once. */
const limits = {
  concurrentRequests: 22,
  allBodyBytes: 2 ** 20,
  allResponseBytes: 4 * 2 ** 20,
  requestMs: 3000,
  stalledResponseMs: 1000,
  stalledStreamMs: 1000,
}
const server = { headersTimeoutMs: 2000, requestTimeoutMs: 3000, keepAliveMs: 1000 }
const atOnce = 40

/** Aborts requests of all kinds at random points; the server must release everything that they held. */
export async function abortedRequests({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const dice = new Dice(seed)
  await using target = await HttpTarget.start({ limits, server, files: { '/large': fileBytes } })
  await probe(target)
  const before = await target.figures()
  for (let done = 0; done < n; done += atOnce) {
    await Promise.all(Array.from({ length: Math.min(atOnce, n - done) }, () => abort(target, dice)))
    if (done % 1000 === 0) onProgress(`${done} of ${n}`)
  }
  // Work continues after its client has left.
  await pause(500)
  const failures = await probe(target)
  await target.closeAll()
  const after = await target.figures()
  if (after.descriptors > before.descriptors) failures.push(`${after.descriptors} descriptors`)
  const grown = Math.round((after.rssBytes - before.rssBytes) / 2 ** 20)
  if (grown > 150) failures.push(`${grown} MiB`)
  return {
    line: `${n} requests left, ${before.descriptors} descriptors before and ${after.descriptors} afterwards, ${grown} MiB more; failed: ${failures.join(', ') || 'none'}`,
    failed: failures.length > 0,
  }
}

async function abort(target: HttpTarget, dice: Dice): Promise<void> {
  const socket = await target.open()
  const bytes = Buffer.from(request(target, dice))
  if (dice.below(2) === 0) socket.resume()
  const cut = dice.below(3) === 0 ? dice.below(bytes.length) : bytes.length
  socket.write(bytes.subarray(0, cut))
  await pause(dice.below(30))
  if (dice.below(3) === 0) socket.write(bytes.subarray(cut))
  await pause(dice.below(30))
  leave(socket, dice)
}

function leave(socket: Socket, dice: Dice): void {
  const way = dice.below(4)
  if (way === 0) socket.resetAndDestroy()
  else if (way === 1) socket.end(() => setTimeout(() => socket.destroy(), 20))
  else socket.destroy()
}

function request(target: HttpTarget, dice: Dice): string {
  const at = `/v1/sessions/${target.started.sessionId}`
  const owner = { ownerId: `o${dice.below(1e9)}` }
  const lock = { path: '/large', kind: 'POSIX_LOCK_KIND_SHARED', owner }
  const write = { path: '/large2', content: 'QUJD'.repeat(dice.below(100_000)) }
  const requests = [
    () => head('GET', at),
    () => head('HEAD', `${at}/manifest`),
    () => head('GET', `${at}/bus?replayLimit=5`),
    () => head('GET', `${at}/manifest?pageSize=10000`),
    () => post(`${at}:readFile`, { path: '/large' }),
    () => post(`${at}:readFile`, { path: '/large' }).repeat(1 + dice.below(50)),
    () => post(`${at}:readFile`, { path: '/none' }),
    () => post(`${at}/batch`, { operations: [{ write }] }),
    () => post(`${at}/batch`, { operations: [{ wrong: write }] }),
    () => post(`${at}:setPosixLockBlocking`, lock) + post(`${at}:readFile`, { path: '/large' }),
    () => post(`${at}/bus:publish`, { topic: 't', payload: 'QUJD'.repeat(dice.below(10_000)) }),
    () => head('POST', `${at}/batch`, json, 'content-length: 900000', 'expect: 100-continue'),
    () => head('POST', `${at}/batch`, json, 'transfer-encoding: chunked') + '3\r\n{"o\r\nffff\r\n',
    () => head('POST', '/nothing', json, 'content-length: 900000') + '{',
  ]
  return requests[dice.below(requests.length)]!()
}

function post(path: string, body: object): string {
  const text = JSON.stringify(body)
  return head('POST', path, json, `content-length: ${text.length}`) + text
}

/** Slots, request space and response space that were not released. */
async function probe(target: HttpTarget): Promise<string[]> {
  const failures: string[] = []
  const at = `/v1/sessions/${target.started.sessionId}`
  const sockets = await Promise.all(Array.from({ length: slots }, () => target.open()))
  const statuses = await Promise.all(sockets.map((socket) => answered(socket, head('GET', `${at}/bus`))))
  const free = statuses.filter((status) => status === 200).length
  if (free < slots) failures.push(`${slots - free} slots`)
  for (const socket of sockets) socket.destroy()
  await pause(200)
  const write = { path: '/large2', content: 'QUJD'.repeat(200_000) }
  const body = await answered(await target.open(), post(`${at}/batch`, { operations: [{ write }] }))
  if (body !== 200) failures.push(`bodies: ${body}`)
  const response = await answered(await target.open(), post(`${at}:readFile`, { path: '/large' }))
  if (response !== 200) failures.push(`responses: ${response}`)
  return failures
}

/** The status of the response; 0 if there is none. */
function answered(socket: Socket, sent: string): Promise<number> {
  return new Promise((resolve) => {
    socket.on('data', (piece: Buffer) => resolve(Number(piece.toString('latin1', 9, 12))))
    socket.once('close', () => resolve(0))
    socket.write(sent)
  })
}

class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0
    return Math.floor((this.#state / 2 ** 32) * limit)
  }
}
