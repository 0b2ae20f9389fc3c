/** Uploads with bytes that misreport themselves or change while they are read. */
import { Buffer } from 'node:buffer'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openEngine, type Engine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { GitRepository } from '../support/git-repository.js'

class LyingLength extends Uint8Array {
  override get byteLength(): number {
    return 2 ** 40
  }
}

class ThrowingLength extends Uint8Array {
  override get length(): number {
    throw new Error('no length')
  }
}

const lies: readonly (readonly [name: string, make: () => unknown, says: string])[] = [
  ['a string', () => 'a string', 'must'],
  ['a number', () => 7, 'must'],
  ['null', () => null, 'must'],
  ['an array of numbers', () => [1, 2, 3], 'must'],
  ['a DataView', () => new DataView(new ArrayBuffer(4)), 'must'],
  ['an object with the prototype of bytes', () => Object.create(Uint8Array.prototype) as unknown, 'must'],
  ['a byteLength that lies', () => new LyingLength(8), 'another length than its 8 bytes'],
  ['a length that throws', () => new ThrowingLength(8), 'no length'],
  ['a detached ArrayBuffer', detached, 'detached'],
  ['an ArrayBuffer that was shrunk', tooSmall, 'smaller'],
]

function detached(): Uint8Array {
  const bytes = new Uint8Array(8)
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
  return bytes
}

function tooSmall(): Uint8Array {
  const Resizable = ArrayBuffer as unknown as new (
    length: number,
    options: object,
  ) => ArrayBuffer & { resize: (length: number) => void }
  const buffer = new Resizable(16, { maxByteLength: 32 })
  const bytes = new Uint8Array(buffer, 8, 8)
  buffer.resize(4)
  return bytes
}

let engine: Engine
let directory: string
let tar: Uint8Array
let gitBundle: Uint8Array
let sessionBundle: Uint8Array
beforeAll(async () => {
  engine = await openEngine()
  directory = mkdtempSync(join(tmpdir(), 'lying-pieces-'))
  const repository = GitRepository.create(join(directory, 'repository'))
  repository.commitFiles([['100644', 'a.txt', 'from git']], 'refs/heads/main')
  const bundle = join(directory, 'bundle')
  repository.git(['bundle', 'create', '-q', bundle, '--all'])
  gitBundle = new Uint8Array(readFileSync(bundle))
  const session = await engine.sessions.create({ files: { '/a.txt': 'one', '/b.txt': 'x'.repeat(5000) } })
  tar = await bytesOf(session.exportTar())
  sessionBundle = await bytesOf(session.exportBundle())
})
afterAll(async () => {
  await engine.close()
  rmSync(directory, { recursive: true })
})

async function bytesOf(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  for await (const piece of pieces) all.push(piece.slice())
  return new Uint8Array(Buffer.concat(all))
}

type Content = Uint8Array | AsyncIterable<Uint8Array>

/** Reads `/a.txt` from the upload of a content. */
const uploads: readonly (readonly [
  name: string,
  whole: () => Uint8Array,
  text: string,
  upload: (content: Content, afterwards?: () => void) => Promise<string>,
])[] = [
  [
    'an archive',
    () => tar,
    'one',
    (content, afterwards) => imported({ uploadedSnapshot: { content } }, afterwards),
  ],
  [
    'a git bundle',
    () => gitBundle,
    'from git',
    (content, afterwards) => imported({ uploadedGitBundle: { content } }, afterwards),
  ],
  [
    'the bundle of a session',
    () => sessionBundle,
    'one',
    async (content, afterwards) => {
      const importing = engine.sessions.importBundle(content)
      afterwards?.()
      const session = await importing
      return Buffer.from(await session.files.read({ path: '/a.txt' })).toString()
    },
  ],
]

/** `afterwards` is called after the import was requested. */
async function imported(
  request: { uploadedSnapshot?: { content: Content }; uploadedGitBundle?: { content: Content } },
  afterwards?: () => void,
): Promise<string> {
  const [kind] = Object.keys(request)
  const { sourceId } = await engine.sources.create({ displayName: 'a', [kind!]: {} })
  const started = engine.sources.startImport(sourceId, request)
  afterwards?.()
  const job = await started
  const { revisionId } = await engine.sources.waitForJob(job).catch((error: Error) => {
    throw error.cause as Error
  })
  const session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
  return Buffer.from(await session.files.read({ path: '/a.txt' })).toString()
}

describe.each(uploads)('%s', (_name, whole, text, upload) => {
  test.each(lies)('is rejected as %s, and with a piece that is one', async (_what, make, says) => {
    const refused = { reason: 'INVALID_ARGUMENT', message: expect.stringContaining(says) as string }
    await expect(upload(make() as Uint8Array)).rejects.toMatchObject(refused)
    const content = (async function* () {
      yield whole().slice(0, 20)
      yield make() as Uint8Array
    })()
    await expect(upload(content)).rejects.toMatchObject(refused)
  })

  test.each<[string, () => unknown]>([
    ['not a promise', () => 1],
    ['a promise of a number', () => Promise.resolve(1)],
    ['a promise of null', () => Promise.resolve(null)],
  ])('is rejected as an iterable whose next() returns %s', async (_what, next) => {
    const content = { [Symbol.asyncIterator]: () => ({ next }) } as unknown as AsyncIterable<Uint8Array>
    await expect(upload(content)).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
  })

  test('is copied at the call, so later changes of its memory have no effect', async () => {
    const bytes = whole().slice()
    expect(await upload(bytes, () => bytes.fill(0))).toBe(text)
  })

  test('may reuse the memory of a piece for the next one', async () => {
    const random = randomWords(5)
    const buffer = new Uint8Array(600)
    const content = (async function* () {
      for (let at = 0; at < whole().length;) {
        const piece = whole().subarray(at, at + 1 + (random() % 600))
        buffer.fill(0xff)
        buffer.set(piece)
        at += piece.length
        const given = buffer.subarray(0, piece.length)
        yield given
      }
      buffer.fill(0xff)
    })()
    expect(await upload(content)).toBe(text)
  })

  test('may change its pieces after they were taken', async () => {
    const content = (async function* () {
      for (let at = 0; at < whole().length; at += 500) {
        const piece = whole().slice(at, at + 500)
        queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => setImmediate(() => piece.fill(0xff)))))
        yield piece
      }
    })()
    expect(await upload(content)).toBe(text)
  })

  test('may be in shared memory', async () => {
    const shared = new Uint8Array(new SharedArrayBuffer(whole().length))
    shared.set(whole())
    expect(await upload(shared)).toBe(text)
    const content = (async function* () {
      yield shared
    })()
    expect(await upload(content)).toBe(text)
  })
})

test.each(lies.filter(([name]) => !['a string', 'a DataView'].includes(name)))(
  'rejects %s as file content',
  async (_what, make, says) => {
    const session = await engine.sessions.create()
    const content = make() as Uint8Array
    const refused = { reason: 'INVALID_ARGUMENT', message: expect.stringContaining(says) as string }
    await expect(session.files.write({ path: '/a', content })).rejects.toMatchObject(refused)
    await expect(engine.sessions.create({ files: { '/a': content } })).rejects.toMatchObject(refused)
  },
)
