import { createHash } from 'node:crypto'
import {
  cpSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { S3Client } from '@aws-sdk/client-s3'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { SaxesParser } from 'saxes'

/**
 * A fault of a request:
 * - an error code of S3: the server refuses the request.
 * - `cut`, `lost`, `half`: the connection ends before the request is carried out, after it, or in the middle of the answer.
 * - `damaged`: one byte of the body is wrong.
 * - `partial`: the answer refuses a part of the request.
 * - `hang`: there is no answer.
 */
export type S3Fault =
  | 'InternalError'
  | 'SlowDown'
  | 'AccessDenied'
  | 'PermanentRedirect'
  | 'partial'
  | 'cut'
  | 'lost'
  | 'half'
  | 'damaged'
  | 'hang'

const statuses: Readonly<Record<string, number>> = {
  InternalError: 500,
  SlowDown: 503,
  AccessDenied: 403,
  PermanentRedirect: 301,
  InvalidAccessKeyId: 403,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  BadDigest: 400,
  PreconditionFailed: 412,
  NotImplemented: 501,
}

const accessKeyId = 'test'
const checksumBytes = 32

/** An answer with an error code of S3. */
class Refusal extends Error {}

/**
 * A small server of S3 for tests, with the requests that the store uses. Buckets are directories. An object is a file that
 * appears at once and complete, with its checksum before its bytes. So acknowledged objects survive a kill of the process.
 */
export class S3Server {
  /** Each bucket is a directory in this one. */
  readonly #directory: string
  readonly #app: FastifyInstance
  readonly #faults: { readonly method: string; readonly fault: S3Fault }[] = []
  /** Objects in one page of a list. */
  pageSize = 1000
  /** The requests so far, such as `PUT app/x`. */
  readonly requests: string[] = []
  port = 0
  #files = 0

  private constructor(directory: string) {
    this.#directory = directory
    this.#app = fastify({ bodyLimit: 2 ** 28, forceCloseConnections: true })
    this.#app.removeAllContentTypeParsers()
    this.#app.addContentTypeParser('*', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
    this.#app.all('/*', (request, reply) => this.#answer(request, reply))
  }

  /** Starts a server whose buckets are the directories in `directory`. */
  static async start(directory: string, port = 0): Promise<S3Server> {
    const server = new S3Server(directory)
    await server.#app.listen({ host: '127.0.0.1', port })
    server.port = (server.#app.server.address() as AddressInfo).port
    return server
  }

  createBucket(name: string): void {
    mkdirSync(join(this.#directory, name), { recursive: true })
  }

  copyBucket(from: string, to: string): void {
    cpSync(join(this.#directory, from), join(this.#directory, to), { recursive: true })
  }

  client(settings: ConstructorParameters<typeof S3Client>[0] = {}): S3Client {
    return s3ClientOf(this.port, settings)
  }

  /** Lets the next requests with a method fail, each in one of these ways. */
  fail(method: string, ...faults: readonly S3Fault[]): void {
    for (const fault of faults) this.#faults.push({ method, fault })
  }

  /** The keys of the objects of a bucket, in their order. */
  keys(bucket: string): string[] {
    return readdirSync(join(this.#directory, bucket))
      .filter((name) => !name.startsWith('.'))
      .map(decodeURIComponent)
      .toSorted()
  }

  /** Changes the bytes of an object, or removes it if there are none. */
  change(bucket: string, key: string, change: (bytes: Buffer) => Buffer | undefined): void {
    const file = this.#file(bucket, key)
    const bytes = change(readFileSync(file).subarray(checksumBytes))
    if (bytes === undefined) rmSync(file)
    else writeFileSync(file, Buffer.concat([sha256(bytes), bytes]))
  }

  /** Lets all objects of a bucket be as old as this. */
  age(bucket: string, milliseconds: number): void {
    const time = (Date.now() - milliseconds) / 1000
    for (const key of this.keys(bucket)) utimesSync(this.#file(bucket, key), time, time)
  }

  async close(): Promise<void> {
    await this.#app.close()
  }

  #file(bucket: string, key: string): string {
    return join(this.#directory, bucket, encodeURIComponent(key))
  }

  async #answer(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const url = new URL(request.url, 'http://s3')
    const [bucket = '', ...rest] = url.pathname.slice(1).split('/').map(decodeURIComponent)
    const key = rest.join('/')
    this.requests.push(`${request.method} ${bucket}/${key}`)
    const index = this.#faults.findIndex(({ method }) => method === request.method)
    const fault = index < 0 ? undefined : this.#faults.splice(index, 1)[0]!.fault
    const cut = (): FastifyReply => {
      reply.hijack()
      request.raw.socket.destroy()
      return reply
    }
    if (fault === 'hang') return reply.hijack()
    if (fault === 'cut') return cut()
    try {
      if (fault !== undefined && fault in statuses) throw new Refusal(fault)
      if (!request.headers.authorization?.includes(`Credential=${accessKeyId}/`))
        throw new Refusal('InvalidAccessKeyId')
      if (statSync(join(this.#directory, bucket), { throwIfNoEntry: false }) === undefined)
        throw new Refusal('NoSuchBucket')
      if (fault === 'partial') {
        const errors = keysIn(String(request.body)).map((refused) => ({
          Key: refused,
          Code: 'AccessDenied',
          Message: '',
        }))
        return await reply.type('application/xml').send(element('DeleteResult', { Error: errors }))
      }
      const result = this.#perform(request, bucket, key, url.searchParams)
      if (fault === 'lost') return cut()
      for (const [name, value] of Object.entries(result.headers ?? {})) reply.header(name, value)
      if (result.xml !== undefined) return await reply.type('application/xml').send(result.xml)
      const body = Buffer.from(result.body ?? '')
      if (fault === 'damaged') body[0]! ^= 1
      if (fault !== 'half') return await reply.send(body)
      reply.hijack()
      reply.raw.writeHead(200, { 'content-length': body.byteLength })
      reply.raw.write(body.subarray(0, body.byteLength >> 1), () => request.raw.socket.destroy())
      return reply
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return await reply
        .code(statuses[error.message]!)
        .type('application/xml')
        .send(element('Error', { Code: error.message, Message: `the test answers with ${error.message}` }))
    }
  }

  #perform(
    { method, headers, body }: FastifyRequest,
    bucket: string,
    key: string,
    query: URLSearchParams,
  ): { readonly headers?: Record<string, string>; readonly body?: Buffer; readonly xml?: string } {
    if (method === 'PUT') return this.#put(bucket, key, Buffer.from((body ?? '') as Buffer), headers)
    if (method === 'GET' && key !== '') {
      const stored = this.#stored(bucket, key)
      const checksum = stored.subarray(0, checksumBytes).toString('base64')
      return { headers: { 'x-amz-checksum-sha256': checksum }, body: stored.subarray(checksumBytes) }
    }
    if (method === 'GET' && query.get('list-type') === '2') return { xml: this.#list(bucket, query) }
    if (method === 'POST' && query.has('delete')) {
      for (const gone of keysIn(String(body))) rmSync(this.#file(bucket, gone), { force: true })
      return { xml: element('DeleteResult', {}) }
    }
    throw new Refusal('NotImplemented')
  }

  #put(
    bucket: string,
    key: string,
    bytes: Buffer,
    headers: FastifyRequest['headers'],
  ): { readonly body: Buffer } {
    const given = headers['x-amz-checksum-sha256']
    if (given !== undefined && given !== sha256(bytes).toString('base64')) throw new Refusal('BadDigest')
    const temporary = join(this.#directory, bucket, `.${process.pid}-${this.#files++}`)
    writeFileSync(temporary, Buffer.concat([sha256(bytes), bytes]))
    try {
      if (headers['if-none-match'] !== '*') rmSync(this.#file(bucket, key), { force: true })
      linkSync(temporary, this.#file(bucket, key))
    } catch (cause) {
      throw new Refusal('PreconditionFailed', { cause })
    } finally {
      rmSync(temporary)
    }
    return { body: Buffer.alloc(0) }
  }

  #stored(bucket: string, key: string): Buffer {
    try {
      return readFileSync(this.#file(bucket, key))
    } catch (cause) {
      throw new Refusal('NoSuchKey', { cause })
    }
  }

  #list(bucket: string, query: URLSearchParams): string {
    const after = query.get('continuation-token') ?? ''
    const keys = this.keys(bucket).filter((key) => key > after && key.startsWith(query.get('prefix') ?? ''))
    const page = keys.slice(0, this.pageSize)
    return element('ListBucketResult', {
      IsTruncated: String(page.length < keys.length),
      ...(page.length < keys.length && { NextContinuationToken: page.at(-1)! }),
      Contents: page.map((key) => {
        const { mtime, size } = statSync(this.#file(bucket, key))
        return { Key: key, LastModified: mtime.toISOString(), Size: String(size - checksumBytes) }
      }),
    })
  }
}

/** A client of the server on a port. */
export function s3ClientOf(port: number, settings: ConstructorParameters<typeof S3Client>[0] = {}): S3Client {
  return new S3Client({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'test',
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey: 'secret' },
    ...settings,
  })
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}

type Parts = Readonly<Record<string, string | readonly Readonly<Record<string, string>>[]>>

function element(name: string, parts: Parts): string {
  const text = Object.entries(parts).map(([part, value]) =>
    typeof value === 'string'
      ? `<${part}>${value.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</${part}>`
      : value.map((item) => element(part, item)).join(''),
  )
  return `<${name}>${text.join('')}</${name}>`
}

function keysIn(xml: string): string[] {
  const keys: string[] = []
  let isKey = false
  const parser = new SaxesParser()
  parser.on('opentag', ({ name }) => (isKey = name === 'Key'))
  parser.on('closetag', () => (isKey = false))
  parser.on('text', (text) => {
    if (isKey) keys.push(text)
  })
  parser.write(xml).close()
  return keys
}
