/** Writes files from streams and reads files as streams. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type ContentStream, type Engine, type Session } from '../../src/index.js'

let root: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'content-streams-'))
})

afterAll(() => rm(root, { recursive: true, force: true }))

async function* piecesOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size)
}

async function read(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

const MiB = 2 ** 20

describe.each(['memory', 'level'])('on %s:', (kind) => {
  let engine: Engine
  let session: Session
  let place: string

  const open = (): Promise<Engine> =>
    openEngine({
      ...(kind === 'level' && { storage: levelStorage(place, { durability: 'relaxed' }) }),
      memoryBudgetBytes: 2 * MiB,
      maxFileBytes: 64 * MiB,
    })

  beforeEach(async () => {
    place = await mkdtemp(join(root, 'data-'))
    engine = await open()
    session = await engine.sessions.create()
  })

  afterEach(() => engine.close())

  test.each([
    ['nothing', 0, 1],
    ['less than a block', 1000, 7],
    ['one block', MiB, 64 * 1024],
    ['many blocks', 9 * MiB + 5, 100_003],
  ])('writes a stream of %s to a file', async (_what, size, pieceSize) => {
    const bytes = randomBytes(size)
    await session.files.write({ path: '/dir/file', content: piecesOf(bytes, pieceSize), mode: 0o600 })
    expect(Buffer.compare(await session.files.read({ path: '/dir/file' }), bytes)).toBe(0)
    expect(await session.files.stat({ path: '/dir/file' })).toMatchObject({ sizeBytes: size, mode: 0o600 })
    const hash = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    expect(await session.files.contentHash('/dir/file')).toBe(hash)
    const stream = await session.files.readStream({ path: '/dir/file' })
    expect(stream).toMatchObject({ sizeBytes: size, length: size })
    expect(Buffer.compare(await read(stream), bytes)).toBe(0)
    if (kind === 'memory') return
    await engine.close()
    engine = await open()
    session = await engine.sessions.open(session.id)
    expect(await session.files.contentHash('/dir/file')).toBe(hash)
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })

  test('reads Node streams and web streams', async () => {
    await session.files.write({ path: '/node', content: Readable.from([Buffer.from('a'), Buffer.from('b')]) })
    await session.files.write({ path: '/web', content: new Blob(['web']).stream() })
    expect(await session.fs.promises.readFile('/node', 'utf8')).toBe('ab')
    expect(await session.fs.promises.readFile('/web', 'utf8')).toBe('web')
  })

  test('changes the file after the whole stream has arrived, and not if the stream fails', async () => {
    await session.files.write({ path: '/file', content: 'before' })
    const text = (): Promise<string> => session.fs.promises.readFile('/file', 'utf8')
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(3 * MiB, 'x')
      expect(await text()).toBe('before')
      throw new Error('the line was cut')
    }
    const events = (): Promise<number> => session.events.list().then((page) => page.events.length)
    const before = await events()
    await expect(session.files.write({ path: '/file', content: failing() })).rejects.toThrow(
      'the line was cut',
    )
    expect(await text()).toBe('before')
    expect(await events()).toBe(before)
  })

  test.each([
    ['a directory', { path: '/dir' }, 'IS_A_DIRECTORY'],
    ['a guard that does not match', { path: '/file', expectedHash: '' }, 'HASH_MISMATCH'],
    ['an existing file', { path: '/file', exclusive: true }, 'ALREADY_EXISTS'],
    ['a missing parent', { path: '/no/file', createParents: false }, 'PATH_NOT_FOUND'],
    ['a bad path', { path: 'file' }, 'INVALID_ARGUMENT'],
  ])('a write to %s fails before it reads the stream', async (_what, request, reason) => {
    await session.files.write({ path: '/file', content: 'a' })
    await session.files.createDirectory({ path: '/dir' })
    let wasRead = false
    async function* content(): AsyncGenerator<Uint8Array> {
      wasRead = true
      yield Buffer.from('b')
    }
    await expect(session.files.write({ ...request, content: content() })).rejects.toMatchObject({ reason })
    expect(wasRead).toBe(false)
  })

  test('rejects a write whose guard no longer matches when the stream ends', async () => {
    async function* content(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('mine')
      await session.files.write({ path: '/file', content: 'theirs' })
    }
    await expect(
      session.files.write({ path: '/file', expectedHash: '', content: content() }),
    ).rejects.toMatchObject({ reason: 'HASH_MISMATCH' })
    expect(await session.fs.promises.readFile('/file', 'utf8')).toBe('theirs')
  })

  test('a write sees the effects of earlier calls', async () => {
    const made = session.files.createDirectory({ path: '/new' })
    const content = piecesOf(Buffer.from('a'), 1)
    await session.files.write({ path: '/new/file', createParents: false, content })
    await made
    expect(await session.fs.promises.readFile('/new/file', 'utf8')).toBe('a')
  })

  test.each([
    ['a text', ['text']],
    ['a number', [1]],
    ['nothing', [undefined]],
  ])('rejects a piece that is %s', async (_what, pieces) => {
    const content = Readable.from(pieces as unknown[], { objectMode: true }) as AsyncIterable<Uint8Array>
    const failed = session.files.write({
      path: '/file',
      content: pieces[0] === undefined ? nothingIn() : content,
    })
    await expect(failed).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT', details: { field: 'content' } })
    await expect(session.files.stat({ path: '/file' })).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
  })

  async function* nothingIn(): AsyncGenerator<Uint8Array> {
    yield undefined as unknown as Uint8Array
  }

  test('stops reading a stream that exceeds the file size limit', async () => {
    let given = 0
    let left = false
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          given += MiB
          yield new Uint8Array(MiB)
        }
      } finally {
        left = true
      }
    }
    await expect(session.files.write({ path: '/file', content: endless() })).rejects.toMatchObject({
      reason: 'FILE_TOO_LARGE',
    })
    expect(given).toBe(65 * MiB)
    expect(left).toBe(true)
  })

  test('a handle without write permission stores nothing', async () => {
    const narrow = session.narrow({ without: ['files.write'] })
    let wasRead = false
    async function* content(): AsyncGenerator<Uint8Array> {
      wasRead = true
      yield Buffer.from('b')
    }
    await expect(narrow.files.write({ path: '/f', content: content() })).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
    })
    expect(wasRead).toBe(false)
    const blind = session.narrow({ without: ['files.read'] })
    await expect(blind.files.readStream({ path: '/f' })).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
    })
    await session.files.write({ path: '/f', content: 'secret' })
    const guarded = blind.files.write({ path: '/f', content: content(), expectedHash: '' })
    await expect(guarded).rejects.toSatisfy((error: { details: object }) => !('actualHash' in error.details))
  })

  test.each([
    [{}, 0, 10],
    [{ offset: 3 }, 3, 10],
    [{ offset: 3, length: 2 }, 3, 5],
    [{ length: 100 }, 0, 10],
    [{ offset: 10 }, 10, 10],
    [{ offset: 100, length: 5 }, 10, 10],
    [{ length: 0 }, 0, 0],
  ])('reads a range: %o', async (part, start, end) => {
    await session.files.write({ path: '/file', content: '0123456789' })
    const stream = await session.files.readStream({ path: '/file', ...part })
    expect(stream).toMatchObject({ sizeBytes: 10, length: end - start })
    expect((await read(stream)).toString()).toBe('0123456789'.slice(start, end))
  })

  test('a read stream keeps its content while the file is changed, deleted and collected', async () => {
    const bytes = randomBytes(5 * MiB)
    await session.files.write({ path: '/file', content: bytes })
    const stream: ContentStream = await session.files.readStream({ path: '/file' })
    const pieces: Uint8Array[] = []
    for await (const piece of stream) {
      pieces.push(piece)
      if (pieces.length > 1) continue
      await session.files.write({ path: '/file', content: 'after' })
      await session.files.delete({ path: '/file' })
      await engine.collect()
    }
    expect(Buffer.compare(Buffer.concat(pieces), bytes)).toBe(0)
  })

  test('collections keep the pieces of a stream in progress', async () => {
    const bytes = randomBytes(12 * MiB)
    async function* content(): AsyncGenerator<Uint8Array> {
      for (let at = 0; at < bytes.length; at += 3 * MiB) {
        yield bytes.subarray(at, at + 3 * MiB)
        await engine.collect()
      }
    }
    await session.files.write({ path: '/file', content: content() })
    await engine.collect()
    expect(Buffer.compare(await session.files.read({ path: '/file' }), bytes)).toBe(0)
  })

  test('a write fails if its session is deleted meanwhile', async () => {
    async function* content(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('a')
      await engine.sessions.delete(session.id)
    }
    await expect(session.files.write({ path: '/file', content: content() })).rejects.toMatchObject({
      reason: 'SESSION_NOT_FOUND',
    })
  })

  test.each([
    ['its session is deleted', () => session.delete(), 'SESSION_NOT_FOUND'],
    ['the engine is closed', () => engine.close(), 'STORE_CLOSED'],
  ])('a write that waits for its content ends when %s', async (_when, end, reason) => {
    const content = new Readable({ read: () => undefined })
    content.push(Buffer.from('a'))
    const failed = session.files.write({ path: '/file', content }).catch((error: unknown) => error)
    await new Promise((resolve) => setTimeout(resolve, 20))
    await end()
    expect(await failed).toMatchObject({ reason })
    expect(content.destroyed).toBe(true)
  })

  test('a write with a wrong piece does not wait for the end of its content', async () => {
    const never = new Promise<never>(() => undefined)
    const content = {
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ value: 'text' as unknown as Uint8Array, done: false as const }),
        return: () => never,
      }),
    }
    await expect(session.files.write({ path: '/file', content })).rejects.toMatchObject({
      reason: 'INVALID_ARGUMENT',
    })
  })
})
