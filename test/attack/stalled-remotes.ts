import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** Responds to a request of a git client without ever finishing. */
type StalledRemote = (request: IncomingMessage, response: ServerResponse) => void

const oid = 'a'.repeat(40)
const packet = (text: string): string => (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text
const advertisement =
  packet('# service=git-upload-pack\n') +
  '0000' +
  packet('version 2\n') +
  packet('ls-refs\n') +
  packet('fetch=shallow\n') +
  packet('object-format=sha1\n') +
  '0000'
const packHeader = Buffer.from('5041434b0000000200000002', 'hex')

/** Responds correctly up to the pack, which `pack` then sends. */
function upToPack(pack: (response: ServerResponse) => void): StalledRemote {
  return (request, response) => {
    if (request.method === 'GET') {
      response.setHeader('content-type', 'application/x-git-upload-pack-advertisement').end(advertisement)
      return
    }
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString('latin1')))
    request.on('end', () => {
      response.setHeader('content-type', 'application/x-git-upload-pack-result')
      if (body.includes('command=ls-refs')) {
        response.end(`${packet(`${oid} HEAD\n`)}${packet(`${oid} refs/heads/main\n`)}0000`)
      } else {
        response.write(packet('packfile\n'))
        pack(response)
      }
    })
  }
}

/** Writes repeatedly until the connection is closed. */
function again(response: ServerResponse, everyMs: number, write: () => void): void {
  const timer = setInterval(write, everyMs)
  response.on('close', () => clearInterval(timer))
}

const band = (number: number, text: string): string => packet(String.fromCharCode(number) + text)

export const stalledRemotes: Readonly<Record<string, StalledRemote>> = {
  'no answer': () => undefined,
  'a byte of headers at times': (request, response) => {
    const { socket } = request
    socket.write('HTTP/1.1 200 OK\r\n')
    again(response, 20, () => socket.write('x'))
  },
  'information without an answer': (_request, response) =>
    again(response, 20, () => response.writeProcessing()),
  'half a list of refs': (_request, response) => {
    response.setHeader('content-type', 'application/x-git-upload-pack-advertisement')
    response.write(advertisement.slice(0, 40))
  },
  'a byte of a list of refs at times': (_request, response) => {
    response.setHeader('content-type', 'application/x-git-upload-pack-advertisement')
    let at = 0
    again(response, 50, () => response.write(advertisement.charAt(at++) || '0'))
  },
  'a body of an error without an end': (_request, response) => {
    response.writeHead(500)
    again(response, 20, () => response.write('x'))
  },
  'redirects without an end': (request, response) => {
    setTimeout(() => response.writeHead(302, { location: `/r${request.url!}` }).end(), 100)
  },
  'no pack': upToPack(() => undefined),
  'half a pack': upToPack((response) => response.write(band(1, packHeader.toString('latin1')))),
  'a byte of a pack at times': upToPack((response) =>
    again(response, 50, () => response.write(band(1, 'P'))),
  ),
  'progress without an end': upToPack((response) =>
    again(response, 2, () => response.write(band(2, 'Counting objects\r'.repeat(100)))),
  ),
  'keepalives without an end': upToPack((response) => again(response, 2, () => response.write(band(1, '')))),
}

/** Serves each remote at its own path. */
export async function serveStalled(): Promise<AsyncDisposable & { url(name: string): string }> {
  const names = Object.keys(stalledRemotes)
  const sockets = new Set<Socket>()
  const server: Server = createServer((request, response) => {
    response.on('error', () => undefined)
    const number = /\/n(\d+)\.git/.exec(request.url!)?.[1]
    stalledRemotes[names[Number(number)]!]!(request, response)
  })
  server.on('connection', (socket) => {
    socket.on('error', () => undefined)
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: (name) => `http://127.0.0.1:${port}/n${names.indexOf(name)}.git`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
