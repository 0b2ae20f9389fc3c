import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { AttackOptions, AttackResult } from './attacks.js'
import { head, HttpTarget } from './http-target.js'

/** A client that never closes its side of a connection that the server has finished with. */
type Variant = (socket: Socket) => void

const sessions = '/v1/sessions'
const json = 'content-type: application/json'

const variants: Readonly<Record<string, Variant>> = {
  'nothing sent': () => undefined,
  'half a head': (socket) => socket.write('GET / HTTP/1.1\r\nx-slow: 1'),
  'half a body': (socket) => socket.write(`${head('POST', sessions, json, 'content-length: 100')}{"a"`),
  'half a chunk': (socket) =>
    socket.write(`${head('POST', sessions, json, 'transfer-encoding: chunked')}ffff\r\n{`),
  'no HTTP': (socket) => socket.write('nonsense\r\n\r\n'),
  'no HTTP, and more of it': (socket) => {
    const timer = setInterval(() => socket.write('nonsense\r\n\r\n'), 50)
    socket.once('close', () => clearInterval(timer))
  },
  'long headers': (socket) => socket.write(`GET / HTTP/1.1\r\nx: ${'x'.repeat(70_000)}`),
  'two lengths': (socket) =>
    socket.write(head('POST', sessions, json, 'content-length: 1', 'content-length: 2')),
  'a wrong chunk': (socket) =>
    socket.write(`${head('POST', sessions, json, 'transfer-encoding: chunked')}zz\r\n{}`),
  'a body that is too large': (socket) =>
    socket.write(head('POST', sessions, json, `content-length: ${2 ** 40}`)),
  'a body without a token': (socket) =>
    socket.write(`POST ${sessions} HTTP/1.1\r\nhost: localhost\r\n${json}\r\ncontent-length: 99\r\n\r\n{`),
  'a body of another type': (socket) =>
    socket.write(head('POST', sessions, 'content-type: text/plain', 'content-length: 99')),
  'a body that waits to be wanted': (socket) =>
    socket.write(head('POST', sessions, json, 'content-length: 99', 'expect: 100-continue')),
  'nonsense after a request': (socket) => socket.write(`${head('GET', sessions)}nonsense\r\n\r\n`),
  'an answered request': (socket) => socket.write(head('GET', sessions)),
  'an answered request, closing': (socket) => socket.write(head('GET', sessions, 'connection: close')),
  'an answered request, half closed': (socket) => socket.end(head('GET', sessions)),
  'blank lines after an answered request': (socket) => {
    socket.write(head('GET', sessions))
    const timer = setInterval(() => socket.write('\r\n'), 50)
    socket.once('close', () => clearInterval(timer))
  },
  'half a request, half closed': (socket) => socket.end('GET / HT'),
  'HTTP/1.0': (socket) => socket.write('GET / HTTP/1.0\r\n\r\n'),
  'another protocol': (socket) => socket.write(head('GET', sessions, 'connection: upgrade', 'upgrade: h2c')),
  'a tunnel': (socket) => socket.write('CONNECT example.org:80 HTTP/1.1\r\nhost: localhost\r\n\r\n'),
}

const server = { headersTimeoutMs: 1000, requestTimeoutMs: 1500, keepAliveMs: 500 }
/** A generous limit: the server examines its connections once per second. */
const patienceMs = 15_000

/** Holds finished connections open; the server must close them itself. */
export async function heldSockets({ n, onProgress }: AttackOptions): Promise<AttackResult> {
  await using target = await HttpTarget.start({ server })
  const before = (await target.figures()).descriptors
  const names = new Map<number, string>()
  let peak = 0
  const count = Math.max(n, Object.keys(variants).length)
  for (let index = 0; index < count; index++) {
    const [name, attack] = Object.entries(variants)[index % Object.keys(variants).length]!
    const socket = await target.open()
    names.set(socket.localPort!, name)
    attack(socket)
    if (index % 100 === 99) peak = Math.max(peak, (await target.figures()).descriptors)
  }
  let { descriptors, ports } = await target.figures()
  peak = Math.max(peak, descriptors)
  for (const end = performance.now() + patienceMs; ports.length > 0 && performance.now() < end;) {
    await pause(200)
    ;({ descriptors, ports } = await target.figures())
  }
  for (const port of ports) onProgress(`held: ${names.get(port) ?? 'unknown'}`)
  const status = await target.status()
  return {
    line: `${count} sockets, ${peak} descriptors at most, ${descriptors} afterwards (${before} before), ${ports.length} held, then status ${status}`,
    failed: ports.length > 0 || descriptors > before || status !== 200,
  }
}
