import { createHash } from 'node:crypto'
import { once } from 'node:events'
import * as disk from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  openEngine,
  type Engine,
  type EngineOptions,
  type Session,
  type SessionFs,
} from '../../../src/index.js'
import { fewStorages } from '../../support/storages.js'
import { checkReadable } from '../../../src/engine/fs/calls.js'
import { notedStorage } from '../../support/noted-storage.js'
import { seed } from '../../support/seed.js'
import { randomBytes } from '../../support/random-bytes.js'

const mebibyte = 2 ** 20

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe.each(fewStorages)(`large contents on %s (FORKSPACE_SEED=${seed})`, (name, make, lasting) => {
  const syncReads = name !== 'durable memory without synchronous reads'
  let directory: string
  let engine: Engine
  let session: Session
  let fs: SessionFs

  /** Reopens the session with nothing in memory. */
  async function reopen(): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(session.id)
    fs = session.fs
  }

  let storage: ReturnType<typeof make>

  beforeEach(async () => {
    directory = disk.mkdtempSync(join(tmpdir(), 'large-'))
    storage = make(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create()
    fs = session.fs
  })

  afterEach(async () => {
    await engine.close()
    disk.rmSync(directory, { recursive: true })
  })

  test('writeFileSync of 10 MiB', async () => {
    const bytes = randomBytes(10 * mebibyte, seed)
    const expected = digest(bytes)
    fs.writeFileSync('/file', bytes)
    // The content was copied, so later changes to the caller's buffer have no effect.
    bytes.fill(0)
    fs.copyFileSync('/file', '/copy')
    fs.appendFileSync('/copy', 'end')
    expect(fs.statSync('/file').size).toBe(10 * mebibyte)
    const beforeCommit = syncReads ? digest(fs.readFileSync('/file')) : expected
    expect(beforeCommit).toBe(expected)
    await session.flush()
    await reopen()
    expect(digest(await fs.promises.readFile('/file'))).toBe(expected)
    const copy = await fs.promises.readFile('/copy')
    expect(digest(copy.subarray(0, -3))).toBe(expected)
    expect(copy.toString('latin1', copy.length - 3)).toBe('end')
  })

  test('writeFileSync of 10 MiB is stored by close() without a flush', async () => {
    const bytes = randomBytes(10 * mebibyte, seed)
    fs.writeFileSync('/file', bytes)
    await reopen()
    expect(digest(await fs.promises.readFile('/file'))).toBe(digest(bytes))
  })

  test('streams of 5 MiB in both directions', async () => {
    const bytes = randomBytes(5 * mebibyte, seed)
    disk.writeFileSync(join(directory, 'from'), bytes)
    const writing = fs.createWriteStream('/file')
    await pipeline(disk.createReadStream(join(directory, 'from')), writing)
    expect(writing.bytesWritten).toBe(bytes.length)
    await reopen()
    const reading = fs.createReadStream('/file')
    await pipeline(reading, disk.createWriteStream(join(directory, 'to')))
    expect(reading.bytesRead).toBe(bytes.length)
    expect(digest(disk.readFileSync(join(directory, 'to')))).toBe(digest(bytes))
    await pipeline(fs.createReadStream('/file'), fs.createWriteStream('/copy'))
    expect(digest(await fs.promises.readFile('/copy'))).toBe(digest(bytes))
  })

  test.each([
    [0, 0],
    [mebibyte - 1, mebibyte],
    [3 * mebibyte + 17, undefined],
    [undefined, 2 * mebibyte + 5],
    [5 * mebibyte, undefined],
    [70_000, 4 * mebibyte],
  ])('a stream of a range, from %s to %s', async (start, end) => {
    const bytes = randomBytes(5 * mebibyte, seed)
    await fs.promises.writeFile('/file', bytes)
    await reopen()
    const range = { ...(start !== undefined && { start }), ...(end !== undefined && { end }) }
    const read = Buffer.concat(await fs.createReadStream('/file', range).toArray())
    expect(digest(read)).toBe(digest(bytes.subarray(start, end === undefined ? undefined : end + 1)))
    const part = randomBytes(2 * mebibyte + 4, seed).subarray(0, -1)
    await pipeline(
      Readable.from([part.subarray(0, 1_000_001), part.subarray(1_000_001)]),
      fs.createWriteStream('/file', { flags: 'r+', start: start ?? 0 }),
    )
    const expected = Buffer.alloc(Math.max(bytes.length, (start ?? 0) + part.length))
    bytes.copy(expected)
    part.copy(expected, start)
    expect(digest(await fs.promises.readFile('/file'))).toBe(digest(expected))
  })

  test('a stream that is destroyed halfway', async () => {
    const bytes = randomBytes(5 * mebibyte, seed)
    const writing = fs.createWriteStream('/file')
    for (let done = 0; done < 2 * mebibyte; done += 65_536) {
      const written = writing.write(bytes.subarray(done, done + 65_536))
      if (!written) await once(writing, 'drain')
    }
    writing.destroy()
    await once(writing, 'close')
    expect(writing.bytesWritten).toBe(2 * mebibyte)
    await reopen()
    expect(digest(await fs.promises.readFile('/file'))).toBe(digest(bytes.subarray(0, 2 * mebibyte)))

    const reading = fs.createReadStream('/file')
    const opened = once(reading, 'open') as Promise<[number]>
    const [chunk] = (await once(reading, 'data')) as [Buffer]
    const [fd] = await opened
    expect(chunk.equals(bytes.subarray(0, chunk.length))).toBe(true)
    reading.destroy(new Error('enough'))
    await expect(once(reading, 'close')).rejects.toThrow('enough')
    expect(() => fs.fstatSync(fd)).toThrow(expect.objectContaining({ code: 'EBADF' }))

    await expect(
      pipeline(
        fs.createReadStream('/file'),
        async function* (chunks: AsyncIterable<Buffer>) {
          for await (const part of chunks) {
            yield part
            throw new RangeError('half-way')
          }
        },
        fs.createWriteStream('/part'),
      ),
    ).rejects.toThrow('half-way')
    const abort = new AbortController()
    const aborted = pipeline(fs.createReadStream('/file'), fs.createWriteStream('/part'), {
      signal: abort.signal,
    })
    abort.abort()
    await expect(aborted).rejects.toMatchObject({ name: 'AbortError' })
    await session.flush()
  })
})

type Callback = (error: unknown) => void
type Files = { readonly fs: SessionFs; readonly fd: number; readonly content: Buffer }

/** Rejects with the error that the callback gets. A callback function that throws fails the test. */
async function calledBack(call: (done: Callback) => void): Promise<void> {
  let done: Callback = () => undefined
  const answer = new Promise<unknown>((resolve) => (done = resolve))
  try {
    call(done)
  } catch (cause) {
    throw new Error('the function threw instead of calling back', { cause })
  }
  const error = await answer
  if (error) throw error
}

async function withHandle({ fs }: Files, call: (file: Handle) => Promise<unknown>): Promise<void> {
  const file = await fs.promises.open('/file', 'r+')
  try {
    await call(file)
  } finally {
    await file.close()
  }
}

type Handle = Awaited<ReturnType<SessionFs['promises']['open']>>

/** Each way to write contents, with the system call that fails. */
const writes: Readonly<Record<string, readonly [syscall: string, (files: Files) => unknown]>> = {
  'promises.writeFile': ['open', ({ fs, content }) => fs.promises.writeFile('/new', content)],
  'promises.writeFile of pieces': ['write', ({ fs, content }) => fs.promises.writeFile('/pieces', [content])],
  'promises.appendFile': ['open', ({ fs, content }) => fs.promises.appendFile('/file', content)],
  writeFile: ['open', ({ fs, content }) => calledBack((done) => fs.writeFile('/new', content, done))],
  'writeFile of a number': [
    'write',
    ({ fs, fd, content }) => calledBack((done) => fs.writeFile(fd, content, done)),
  ],
  appendFile: ['open', ({ fs, content }) => calledBack((done) => fs.appendFile('/file', content, done))],
  write: ['write', ({ fs, fd, content }) => calledBack((done) => fs.write(fd, content, done))],
  'write of text': [
    'write',
    ({ fs, fd, content }) => calledBack((done) => fs.write(fd, content.toString('latin1'), done)),
  ],
  writev: ['write', ({ fs, fd, content }) => calledBack((done) => fs.writev(fd, [content], done))],
  writeFileSync: ['open', ({ fs, content }) => fs.writeFileSync('/new', content)],
  'writeFileSync over a file': [
    'open',
    ({ fs, content }) => fs.writeFileSync('/file', content, { flag: 'r+' }),
  ],
  'writeFileSync of a number': ['write', ({ fs, fd, content }) => fs.writeFileSync(fd, content)],
  appendFileSync: ['open', ({ fs, content }) => fs.appendFileSync('/file', content)],
  writeSync: ['write', ({ fs, fd, content }) => fs.writeSync(fd, content)],
  writevSync: ['write', ({ fs, fd, content }) => fs.writevSync(fd, [content])],
  'FileHandle.write': [
    'write',
    (files) => withHandle(files, (file) => file.write(files.content, 0, files.content.length, 0)),
  ],
  'FileHandle.writev': ['write', (files) => withHandle(files, (file) => file.writev([files.content]))],
  'FileHandle.writeFile': ['write', (files) => withHandle(files, (file) => file.writeFile(files.content))],
  'FileHandle.appendFile': ['write', (files) => withHandle(files, (file) => file.appendFile(files.content))],
  createWriteStream: [
    'write',
    ({ fs, content }) => pipeline(Readable.from([content]), fs.createWriteStream('/stream')),
  ],
}

/** Each way to change the size of a file, which stores no contents. */
const resizes: typeof writes = {
  'promises.truncate': ['ftruncate', ({ fs }) => fs.promises.truncate('/file', 101)],
  truncate: ['ftruncate', ({ fs }) => calledBack((done) => fs.truncate('/file', 101, done))],
  truncateSync: ['ftruncate', ({ fs }) => fs.truncateSync('/file', 101)],
  ftruncate: ['ftruncate', ({ fs, fd }) => calledBack((done) => fs.ftruncate(fd, 101, done))],
  ftruncateSync: ['ftruncate', ({ fs, fd }) => fs.ftruncateSync(fd, 101)],
  'FileHandle.truncate': ['ftruncate', (files) => withHandle(files, (file) => file.truncate(101))],
}

interface Bound {
  readonly options: EngineOptions
  readonly code: string
  readonly reason: string
  readonly calls: typeof writes
}

const bounds: Readonly<Record<string, Bound>> = {
  maxFileBytes: {
    options: { maxFileBytes: 100 },
    code: 'EFBIG',
    reason: 'FILE_TOO_LARGE',
    calls: { ...writes, ...resizes },
  },
  'the budget of a session': {
    options: { budgets: { sessionBytes: 100 } },
    code: 'EDQUOT',
    reason: 'BUDGET',
    calls: writes,
  },
  'the budget of a tenant': {
    options: { budgets: { tenantBytes: 100 } },
    code: 'EDQUOT',
    reason: 'BUDGET',
    calls: writes,
  },
}

describe.each(Object.entries(bounds))('contents above %s', (_name, { options, code, reason, calls }) => {
  // Contents from 4 MiB on are stored before their event, and those above 8 MiB are copied late.
  test.each([101, 5 * mebibyte, 9 * mebibyte])('of %s bytes fail with an error of Node', async (size) => {
    await using engine = await openEngine(options)
    const { fs } = await engine.sessions.create({ files: { '/file': 'abc' } })
    const files = { fs, fd: fs.openSync('/file', 'r+'), content: randomBytes(size, seed) }
    for (const [name, [syscall, call]] of Object.entries(calls)) {
      const error: unknown = await Promise.resolve(files)
        .then(call)
        .catch((thrown: unknown) => thrown)
      expect(error, name).toMatchObject({ code, syscall, cause: { reason } })
      expect((error as Error).cause, name).toBeInstanceOf(EngineError)
    }
    expect(fs.readFileSync('/file', 'utf8')).toBe('abc')
    expect(fs.existsSync('/new')).toBe(false)
  })
})

describe('a refused synchronous write above 4 MiB', () => {
  const content = randomBytes(5 * mebibyte, seed)
  const refused: Readonly<Record<string, readonly [code: string, (fs: SessionFs, fd: number) => unknown]>> = {
    'writeFileSync without files.write': ['EACCES', (fs) => fs.writeFileSync('/file', content)],
    'appendFileSync without files.write': ['EACCES', (fs) => fs.appendFileSync('/file', content)],
    'writeSync without files.write': ['EACCES', (fs, fd) => fs.writeSync(fd, content)],
    'writevSync without files.write': ['EACCES', (fs, fd) => fs.writevSync(fd, [content])],
  }

  /** Opens a durable engine, and notes the sizes of the blobs that are stored. */
  async function open(
    options: EngineOptions = {},
  ): Promise<{ engine: Engine; session: Session; stored: number[] }> {
    const { storage, stored } = notedStorage()
    const engine = await openEngine({ ...options, storage })
    const session = await engine.sessions.create({ files: { '/file': 'abc' } })
    stored.length = 0
    return { engine, session, stored }
  }

  test.each(Object.entries(refused))('%s stores nothing', async (_name, [code, call]) => {
    const { engine, session, stored } = await open()
    await using _ = engine
    const { fs } = session.narrow({ without: ['files.write'] })
    const fd = fs.openSync('/file', 'r')
    expect(() => call(fs, fd)).toThrow(expect.objectContaining({ code }))
    await session.flush()
    expect(stored).toEqual([])
  })

  test.each([
    ['ENOENT', '/missing/file'],
    ['EISDIR', '/directory'],
    ['ENOTDIR', '/file/below'],
  ])('with %s stores nothing', async (code, path) => {
    const { engine, session, stored } = await open()
    await using _ = engine
    const { fs } = session
    fs.mkdirSync('/directory')
    expect(() => fs.writeFileSync(path, content)).toThrow(expect.objectContaining({ code }))
    expect(() => fs.appendFileSync(path, content)).toThrow(expect.objectContaining({ code }))
    const exclusive = { flag: 'wx' }
    expect(() => fs.writeFileSync('/file', content, exclusive)).toThrow(
      expect.objectContaining({ code: 'EEXIST' }),
    )
    await session.flush()
    expect(stored).toEqual([])
  })

  test('to a number that is not open for writing stores nothing', async () => {
    const { engine, session, stored } = await open()
    await using _ = engine
    const { fs } = session
    const fd = fs.openSync('/file', 'r')
    const bad = expect.objectContaining({ code: 'EBADF' })
    expect(() => fs.writeSync(fd, content)).toThrow(bad)
    expect(() => fs.writeSync(1, content)).toThrow(bad)
    await session.flush()
    expect(stored).toEqual([])
  })

  test('above the budget of a tenant stores nothing', async () => {
    const { engine, session, stored } = await open({ budgets: { tenantBytes: 1000 } })
    await using _ = engine
    expect(() => session.fs.writeFileSync('/new', content)).toThrow(
      expect.objectContaining({ code: 'EDQUOT' }),
    )
    await session.flush()
    expect(stored).toEqual([])
    expect(session.fs.existsSync('/new')).toBe(false)
  })
})

test('one read returns up to 2 GiB minus one byte', () => {
  expect(() => checkReadable(2 ** 31 - 1)).not.toThrow()
  expect(() => checkReadable(2 ** 31)).toThrow(expect.objectContaining({ code: 'ERR_FS_FILE_TOO_LARGE' }))
})
