import { spawn, spawnSync } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { gitEnvironment } from './git-repository.js'

export interface GitServerOptions {
  /** `user:password` that every request must send. */
  readonly auth?: string
  /**
   * The newest protocol version that the server supports; 2 by default. Version 1 differs from 0 only in announcing
   * itself.
   */
  readonly protocol?: 0 | 1 | 2
  /** Delays a request until the promise resolves. */
  hold?(request: IncomingMessage): Promise<void> | undefined
  /** Answers in place of git, or leaves the request unanswered; returns true if it handled the request. */
  intercept?(request: IncomingMessage, response: ServerResponse): boolean
  /** Destroys the connection after this many bytes of the response; 0 lets git finish and drops its response. */
  cutAfter?(request: IncomingMessage): number | undefined
  /** Compresses git's responses. */
  readonly gzip?: boolean
  /** Changes a response of git. */
  rewrite?(request: IncomingMessage, body: Buffer): Buffer
  /** The repositories do not change: with `rewrite`, git runs once for equal requests. */
  readonly isConstant?: boolean
}

export interface GitServer {
  readonly url: string
  readonly requests: readonly LoggedRequest[]
  close(): Promise<void>
}

export interface LoggedRequest {
  readonly method: string
  readonly url: string
  readonly authorization: string | undefined
  /** The bytes of the response body sent so far. */
  answerBytes: number
}

/** Serves the repositories in a directory over smart HTTP on loopback, through native git's HTTP backend. */
export async function serveGit(root: string, options: GitServerOptions = {}): Promise<GitServer> {
  const requests: LoggedRequest[] = []
  const answers = new Map<string, RecordedResponse>()
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request
    const logged: LoggedRequest = { method, url, authorization: headers.authorization, answerBytes: 0 }
    requests.push(logged)
    if (options.intercept?.(request, response) === true) return
    if (options.auth !== undefined && headers.authorization !== basic(options.auth)) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('denied')
      return
    }
    const run = (): void => {
      const onBytes = (count: number): void => void (logged.answerBytes += count)
      if (options.isConstant !== true) {
        runBackend(root, options, request, request, response, onBytes)
        return
      }
      buffer(request).then(
        (input) => {
          const key = `${method} ${url} ${String(headers['git-protocol'])}\n${input.toString('latin1')}`
          const known = answers.get(key)
          if (known === undefined) {
            const keep = (answer: RecordedResponse): void => void answers.set(key, answer)
            runBackend(root, options, request, Readable.from([input]), response, onBytes, keep)
          } else {
            onBytes(known.body.length)
            response.writeHead(known.status, known.fields).end(options.rewrite?.(request, known.body))
          }
        },
        () => response.destroy(),
      )
    }
    const held = options.hold?.(request)
    if (held === undefined) run()
    else held.then(() => (response.destroyed ? undefined : run())).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

export function basic(userAndPassword: string): string {
  return `Basic ${Buffer.from(userAndPassword).toString('base64')}`
}

interface RecordedResponse extends Head {
  readonly body: Buffer
}

/** The backend program itself; running it through `git` would start one more process. */
const backendFile = join(
  spawnSync('git', ['--exec-path']).stdout?.toString().trim() ?? '',
  'git-http-backend',
)

function runBackend(
  root: string,
  options: GitServerOptions,
  request: IncomingMessage,
  input: Readable,
  response: ServerResponse,
  onBytes: (count: number) => void,
  onResponse?: (answer: RecordedResponse) => void,
): void {
  const url = new URL(request.url ?? '/', 'http://localhost')
  const { headers } = request
  const backend = spawn(backendFile, {
    env: {
      ...gitEnvironment,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      REQUEST_METHOD: request.method,
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      CONTENT_TYPE: headers['content-type'] ?? '',
      CONTENT_LENGTH: headers['content-length'] ?? '',
      GIT_PROTOCOL: protocolOf(options.protocol ?? 2, String(headers['git-protocol'] ?? '')),
      REMOTE_USER: 'tester',
      REMOTE_ADDR: '127.0.0.1',
    },
  })
  backend.stdin.on('error', () => {})
  response.on('close', () => backend.kill())
  input.pipe(backend.stdin)

  const rewrite =
    options.gzip === true
      ? (_: IncomingMessage, body: Buffer) => gzipSync(body)
      : options.rewrite?.bind(options)
  const cutAt = options.cutAfter?.(request)
  let head: Buffer | undefined = Buffer.alloc(0)
  let answered: Head | undefined
  let sent = 0
  const kept: Buffer[] = []
  const send = (body: Buffer): void => {
    onBytes(body.length)
    if (rewrite !== undefined) {
      kept.push(body)
      return
    }
    sent += body.length
    if (cutAt === undefined || sent < cutAt) {
      if (!response.write(body)) {
        backend.stdout.pause()
        response.once('drain', () => backend.stdout.resume())
      }
    } else if (cutAt > 0) {
      response.write(body.subarray(0, body.length - (sent - cutAt)), () => response.destroy())
    }
  }
  backend.stdout.on('data', (chunk: Buffer) => {
    if (head === undefined) return send(chunk)
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    answered = parseHead(head.toString('latin1', 0, end))
    const { status, fields } = answered
    if (options.gzip === true) fields['content-encoding'] = 'gzip'
    if (cutAt !== 0) response.writeHead(status, fields)
    const rest = head.subarray(end + 4)
    head = undefined
    send(rest)
  })
  backend.stdout.on('end', () => {
    const body = Buffer.concat(kept)
    if (answered !== undefined) onResponse?.({ ...answered, body })
    if (cutAt !== undefined) response.destroy()
    else response.end(rewrite?.(request, body))
  })
}

function protocolOf(newest: 0 | 1 | 2, asked: string): string {
  if (newest === 2) return asked
  return newest === 1 && asked !== '' ? 'version=1' : ''
}

interface Head {
  readonly status: number
  readonly fields: Record<string, string>
}

function parseHead(text: string): Head {
  const fields: Record<string, string> = {}
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':')
    fields[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const status = Number.parseInt(fields['status'] ?? '200', 10)
  delete fields['status']
  return { status, fields }
}
