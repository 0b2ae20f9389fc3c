/** Large contents through a client. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RemoteEngine } from '../../src/adapters/client/index.js'
import { openRemote, type Remote } from '../support/remote.js'
import { isLong } from '../support/seed.js'

const MiB = 2 ** 20

let remote: Remote
let session: Awaited<ReturnType<RemoteEngine['sessions']['create']>>

beforeAll(async () => {
  remote = await openRemote()
  session = await remote.client.sessions.create()
})

afterAll(() => remote.close())

async function* piecesOf(bytes: Uint8Array, size = 300_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size)
}

async function read(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

const forms: [string, number, (bytes: Uint8Array) => Uint8Array | AsyncIterable<Uint8Array>][] = [
  ['a stream', 18, piecesOf],
  ['bytes', 17, (bytes) => bytes],
]
test.each(isLong ? forms : forms.slice(0, 1))(
  'writes and reads a content larger than any JSON from %s',
  async (_what, size, contentOf) => {
    const bytes = randomBytes(size * MiB + 1)
    await session.files.write({ path: '/large', content: contentOf(bytes), mode: 0o600 })
    expect(await session.files.stat({ path: '/large' })).toMatchObject({
      sizeBytes: bytes.length,
      mode: 0o600,
    })
    expect(Buffer.compare(await session.files.read({ path: '/large' }), bytes)).toBe(0)
    const stream = await session.files.readStream({ path: '/large', offset: 5, length: 10 * MiB })
    expect(stream).toMatchObject({ sizeBytes: bytes.length, length: 10 * MiB })
    expect(Buffer.compare(await read(stream), bytes.subarray(5, 5 + 10 * MiB))).toBe(0)
  },
)

test('leaving a stream ends its request', async () => {
  await session.files.patchSegments({ mutations: [{ path: '/hole', segments: [], logicalSize: 100 * MiB }] })
  for await (const piece of await session.files.readStream({ path: '/hole' })) {
    expect(piece.byteLength).toBeGreaterThan(0)
    break
  }
  expect((await session.files.stat({ path: '/hole' })).sizeBytes).toBe(100 * MiB)
})

test('errors equal those of the engine', async () => {
  const content = piecesOf(Buffer.from('a'))
  await expect(session.files.readStream({ path: '/none' })).rejects.toMatchObject({
    reason: 'PATH_NOT_FOUND',
  })
  await session.files.write({ path: '/file', content: 'a' })
  await expect(session.files.write({ path: '/file', content, exclusive: true })).rejects.toMatchObject({
    reason: 'ALREADY_EXISTS',
  })
  await expect(
    session.files.write({ path: '/f', content: piecesOf(Buffer.from('a')), pathh: '/x' } as never),
  ).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('a')
    throw new Error('the disk is gone')
  }
  await expect(session.files.write({ path: '/failed', content: failing() })).rejects.toBeInstanceOf(Error)
  await expect(session.files.stat({ path: '/failed' })).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
})

test('uploads an archive from a stream', async () => {
  const here = await remote.engine.as({ tenant: 'acme', principal: 'ann' }).sessions.create({
    files: { '/a.txt': 'packed', '/big': randomBytes(20 * MiB) },
  })
  const { sourceId } = await remote.client.sources.create({ displayName: 'a', uploadedSnapshot: {} })
  const job = await remote.client.sources.startImport(sourceId, {
    uploadedSnapshot: { content: here.exportTar() },
  })
  await remote.client.sources.waitForJob(job)
  const made = await remote.client.sessions.create({ sourceRef: { sourceId } })
  expect(await made.fs.promises.readFile('/a.txt', 'utf8')).toBe('packed')
  expect((await made.files.stat({ path: '/big' })).sizeBytes).toBe(20 * MiB)
})
