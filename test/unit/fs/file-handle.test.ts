import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import * as disk from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type Session, type Storage } from '../../../src/index.js'
import { FailingStorage } from '../../support/failing-storage.js'
import { outcome } from '../../support/fs-sides.js'
import { storages } from '../../support/storages.js'
import { isNewerCall } from '../../support/newer-node.js'

type Fs = typeof disk
type Handle = disk.promises.FileHandle

const content = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251))

const lastingStorages = storages.filter(([, , lasting]) => lasting)

describe.each(lastingStorages)('an open file on %s', (_name, make) => {
  let storage: Storage
  let engine: Engine
  let session: Session
  let fs: disk.promises.FileHandle extends never ? never : Fs['promises']
  let directory: string

  /** Reopens the engine, with nothing loaded. */
  async function reopen(): Promise<void> {
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(session.id)
    fs = session.fs.promises
  }

  beforeEach(async () => {
    directory = disk.mkdtempSync(join(tmpdir(), 'handle-'))
    storage = make(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create()
    await session.fs.promises.writeFile('/file', content)
    disk.writeFileSync(join(directory, 'file'), content)
    await reopen()
  })

  afterEach(async () => {
    await engine.close()
    disk.rmSync(directory, { recursive: true })
  })

  test('reads the same ranges as a file on disk', async () => {
    const ours = await fs.open('/file')
    const theirs = await disk.promises.open(join(directory, 'file'))
    const reads: ((handle: Handle) => Promise<unknown>)[] = [
      (handle) => handle.read(Buffer.alloc(10), 0, 10, 5),
      (handle) => handle.read(Buffer.alloc(10), 2, 3, 99_999),
      (handle) => handle.read(Buffer.alloc(10), 0, 10, 100_000),
      (handle) => handle.read(Buffer.alloc(7)),
      (handle) => handle.read(Buffer.alloc(7)),
      (handle) => handle.read(Buffer.alloc(7), { position: 50 }),
      (handle) => handle.read({ buffer: Buffer.alloc(4), offset: 1, length: 2, position: 10 }),
      (handle) => handle.read(),
      (handle) => handle.readv([Buffer.alloc(3), Buffer.alloc(4)], 70_000),
      (handle) => handle.readv([Buffer.alloc(3), Buffer.alloc(4)]),
    ]
    for (const read of reads) expect(await read(ours)).toEqual(await read(theirs))
    expect(await ours.readFile()).toEqual(await theirs.readFile())
    expect((await ours.stat()).size).toBe((await theirs.stat()).size)
    await Promise.all([ours.close(), theirs.close()])
  })

  test('reads in call order, even if data must be loaded', async () => {
    const handle = await fs.open('/file')
    const parts = await Promise.all([
      handle.read(Buffer.alloc(50_000)),
      handle.read(Buffer.alloc(7)),
      handle.read(Buffer.alloc(3), 0, 3, 10),
      handle.readv([Buffer.alloc(2), Buffer.alloc(2)]).then(({ bytesRead, buffers }) => ({
        bytesRead,
        buffer: Buffer.concat(buffers as Buffer[]),
      })),
      handle.readFile().then((buffer) => ({ bytesRead: buffer.length, buffer })),
    ])
    const expected = [
      content.subarray(0, 50_000),
      content.subarray(50_000, 50_007),
      content.subarray(10, 13),
      content.subarray(50_007, 50_011),
      content.subarray(50_011),
    ]
    expect(parts.map(({ bytesRead }) => bytesRead)).toEqual(expected.map(({ length }) => length))
    for (const [i, { buffer }] of parts.entries()) expect(buffer.equals(expected[i]!)).toBe(true)
  })

  test('writes in call order', async () => {
    const handle = await fs.open('/file', 'r+')
    await Promise.all([handle.write('aa'), handle.write('bb'), handle.write('cc', 1), handle.write('dd')])
    expect((await fs.readFile('/file')).subarray(0, 6).toString()).toBe('accbdd')
    expect((await handle.read(Buffer.alloc(1))).buffer[0]).toBe(content[6])
  })

  test('sees later writes, and stays usable after its file was removed or replaced', async () => {
    const handle = await fs.open('/file')
    await fs.writeFile('/file', 'short')
    expect(await handle.readFile('utf8')).toBe('short')
    await fs.rename('/file', '/moved')
    await fs.writeFile('/file', 'another file')
    const start = async (): Promise<string> => (await handle.read(Buffer.alloc(5), 0, 5, 0)).buffer.toString()
    expect(await start()).toBe('short')
    await fs.rename('/file', '/moved')
    expect(await start()).toBe('short')
    expect(await fs.readFile('/moved', 'utf8')).toBe('another file')
  })

  test('stays usable after its directory was removed', async () => {
    await fs.mkdir('/p')
    await fs.writeFile('/p/f', 'hello world')
    await reopen()
    const handle = await fs.open('/p/f')
    await fs.rm('/p', { recursive: true })
    await fs.writeFile('/p', 'a file now')
    const reads = await Promise.all([handle.read(Buffer.alloc(6)), handle.read(Buffer.alloc(5))])
    expect(reads.map(({ buffer }) => buffer.toString())).toEqual(['hello ', 'world'])
    await fs.unlink('/p')
    await fs.symlink('/p', '/p')
    expect((await handle.read(Buffer.alloc(5), 0, 5, 0)).buffer.toString()).toBe('hello')
  })

  test('writes to a removed file are only visible through its handle', async () => {
    const handle = await fs.open('/file', 'r+')
    const { manifestHash: before } = await session.manifest()
    await fs.unlink('/file')
    const { manifestHash: without } = await session.manifest()
    expect(without).not.toBe(before)
    await handle.write('xyz', 99_999)
    expect((await handle.stat()).size).toBe(100_002)
    await handle.truncate(100_000)
    expect((await handle.read(Buffer.alloc(3), 0, 3, 99_998)).buffer.toString('latin1')).toBe(
      `${content.toString('latin1', 99_998, 99_999)}x\0`,
    )
    await handle.chmod(0o600)
    await handle.utimes(1, 2)
    expect((await session.manifest()).manifestHash).toBe(without)
    await expect(fs.stat('/file')).rejects.toMatchObject({ code: 'ENOENT' })
    await handle.close()
  })

  test('of a removed file stays usable through other operations', async () => {
    await session.checkpoint({ checkpointLabel: 'with the file' })
    const [handle, second] = await Promise.all([fs.open('/file', 'r+'), fs.open('/file')])
    await fs.unlink('/file')
    await Promise.all([handle.write('ab'), handle.write('cd'), handle.appendFile('ef')])
    const { ino } = await handle.stat()
    expect((await second.stat()).ino).toBe(ino)
    expect((await second.readFile()).equals(content)).toBe(true)
    await fs.writeFile('/file', 'another')
    await handle.writev([Buffer.from('g'), Buffer.from('h')])
    expect(await fs.readFile('/file', 'utf8')).toBe('another')
    const fork = await session.fork()
    expect(await fork.fs.promises.readFile('/file', 'utf8')).toBe('another')
    await session.restore({ checkpointLabel: 'with the file' })
    expect((await fs.readFile('/file')).equals(content)).toBe(true)
    await second.close()
    await expect(second.stat()).rejects.toMatchObject({ code: 'EBADF' })
    await handle.truncate(8)
    const lines: string[] = []
    for await (const line of handle.readLines({ start: 0 })) lines.push(line)
    expect(lines).toEqual(['abcdefgh'])
    expect(handle.fd).toBe(-1)
  })

  test('of a removed file leaves no data after the engine closes', async () => {
    const handle = await fs.open('/file', 'r+')
    await fs.rm('/file')
    await handle.write('x'.repeat(10_000), 0)
    await reopen()
    expect(await fs.readdir('/')).toEqual([])
  })

  test('with one of two names removed writes to the other', async () => {
    await fs.link('/file', '/second')
    const handle = await fs.open('/file', 'r+')
    await fs.unlink('/file')
    await handle.write('shared', 0)
    expect((await fs.readFile('/second')).subarray(0, 6).toString()).toBe('shared')
    expect((await handle.stat()).nlink).toBe(1)
    await handle.chmod(0o700)
    expect((await fs.stat('/second')).mode & 0o777).toBe(0o700)
    await fs.rename('/second', '/third')
    await handle.truncate(3)
    expect(await fs.readFile('/third', 'utf8')).toBe('sha')
    await fs.unlink('/third')
    await handle.write('gone', 0)
    expect((await handle.stat()).size).toBe(4)
  })

  test('has its own position among hundreds of open files', async () => {
    const handles = await Promise.all(
      Array.from({ length: 500 }, async (_, i) => {
        await fs.writeFile(`/f${i}`, `${i}:`.padEnd(8, 'x'))
        return fs.open(`/f${i}`, 'r+')
      }),
    )
    expect(new Set(handles.map(({ fd }) => fd)).size).toBe(500)
    await fs.mkdir('/sub')
    await Promise.all(handles.map((_, i) => fs.rename(`/f${i}`, `/sub/${i % 2 === 0 ? i : 'same'}`)))
    await Promise.all(handles.map((handle) => handle.write('ab')))
    const rests = await Promise.all(handles.map((handle) => handle.readFile('utf8')))
    expect(rests).toEqual(handles.map((_, i) => `${i}:`.padEnd(8, 'x').slice(2)))
    expect((await fs.readdir('/sub')).length).toBe(251)
    await Promise.all(handles.map((handle) => handle.close()))
    for (const handle of handles) expect(handle.fd).toBe(-1)
  })

  test('closes after a stream on it was rejected, and closes its other streams', async () => {
    const handle = await fs.open('/file', 'r+')
    for (const options of [{ start: -1 }, { start: 2, end: 1 }, { highWaterMark: -1 }, { flush: 1 }]) {
      const make = (): unknown =>
        'end' in options
          ? handle.createReadStream(options)
          : handle.createWriteStream(options as Parameters<Handle['createWriteStream']>[0])
      expect(make).toThrow(expect.objectContaining({ code: expect.stringMatching(/^ERR_/) as string }))
    }
    const stream = handle.createReadStream({ start: 5 })
    const closed = once(stream, 'close')
    await handle.close()
    await closed
    expect(handle.fd).toBe(-1)
  })

  test('rejects files that cannot be read', async () => {
    await fs.mkdir('/dir')
    await expect(fs.open('/none')).rejects.toMatchObject({ code: 'ENOENT', syscall: 'open' })
    await expect(fs.open('/dir', 'r+')).rejects.toMatchObject({ code: 'EISDIR', syscall: 'open' })
    await expect((await fs.open('/dir')).readFile()).rejects.toMatchObject({
      code: 'EISDIR',
      syscall: 'read',
    })
    await expect((await fs.open('/file', 'a')).readFile()).rejects.toMatchObject({ code: 'EBADF' })
    const handle = await fs.open('/file')
    await expect(handle.write('x')).rejects.toMatchObject({ code: 'EBADF', syscall: 'write' })
    await handle.close()
    await expect(handle.read(Buffer.alloc(5))).rejects.toMatchObject({ code: 'EBADF', syscall: 'read' })
  })
})

describe('arguments, like on disk:', () => {
  const odd: readonly unknown[] = [1.5, Number.NaN, -5, -1, 0, 1, 3, '1', null, {}, 2n, 2 ** 31, 2 ** 53]
  /** Cases that end the Node process, make a file of 2 GiB, or depend on the number of arguments. */
  const skipped =
    /^promise read length (1\.5|NaN|1 \(string\)|2|\[object Object\])$|^sync read length (null|\[object Object\])$|^sync read offset (3|2147483648|9007199254740992)$|^\w+ truncate (2147483648|9007199254740992)$|^\w+ write(v| text| position) 2147483648$/
  let engine: Engine
  let session: Session
  let directory: string

  beforeAll(async () => {
    engine = await openEngine()
    session = await engine.sessions.create()
    directory = disk.mkdtempSync(join(tmpdir(), 'handle-'))
  })

  afterAll(async () => {
    await engine.close()
    disk.rmSync(directory, { recursive: true })
  })

  type Use = (fs: Fs, handle: Handle, odd: never) => unknown
  const buffers = (): Buffer => Buffer.from('ab')
  const calls: Record<string, Use> = {
    'promise read position': (_fs, handle, at) => handle.read(Buffer.alloc(2), 0, 2, at),
    'promise read length': (_fs, handle, length) => handle.read(Buffer.alloc(2), 0, length, 0),
    'promise read offset': (_fs, handle, offset) => handle.read(Buffer.alloc(2), offset, undefined, 0),
    'promise readv': (_fs, handle, at) => handle.readv([Buffer.alloc(2)], at),
    'promise write position': (_fs, handle, at) => handle.write(buffers(), 0, 2, at),
    'promise write length': (_fs, handle, length) => handle.write(buffers(), 0, length, 0),
    'promise write offset': (_fs, handle, offset) => handle.write(buffers(), offset, undefined, 0),
    'promise write text': (_fs, handle, at) => handle.write('ab', at),
    'promise writev': (_fs, handle, at) => handle.writev([buffers()], at),
    'promise truncate': (_fs, handle, length) => handle.truncate(length),
    'sync read position': (fs, { fd }, at) => fs.readSync(fd, Buffer.alloc(2), 0, 2, at),
    'sync read length': (fs, { fd }, length) => fs.readSync(fd, Buffer.alloc(2), 0, length, 0),
    'sync read offset': (fs, { fd }, offset) => fs.readSync(fd, Buffer.alloc(2), offset, 1, 0),
    'sync readv': (fs, { fd }, at) => fs.readvSync(fd, [Buffer.alloc(2)], at),
    'sync write position': (fs, { fd }, at) => fs.writeSync(fd, buffers(), 0, 2, at),
    'sync write length': (fs, { fd }, length) => fs.writeSync(fd, buffers(), 0, length, 0),
    'sync write offset': (fs, { fd }, offset) => fs.writeSync(fd, buffers(), offset, undefined, 0),
    'sync write text': (fs, { fd }, at) => fs.writeSync(fd, 'ab', at),
    'sync writev': (fs, { fd }, at) => fs.writevSync(fd, [buffers()], at),
    'sync truncate': (fs, { fd }, length) => fs.ftruncateSync(fd, length),
  }
  const cases = Object.entries(calls).flatMap(([name, call]) =>
    odd
      .map((value) => [
        `${name} ${String(value)}${typeof value === 'string' ? ' (string)' : ''}`,
        call,
        value,
      ])
      .filter(([title]) => !skipped.test(title as string) && !isNewerCall(title as string)),
  ) as [string, Use, never][]

  test.each(cases)('%s', async (_title, call, value) => {
    const results: unknown[] = []
    for (const [fs, path] of [
      [disk, join(directory, 'file')],
      [session.fs as unknown as Fs, '/file'],
    ] as const) {
      await fs.promises.writeFile(path, 'hello world')
      const handle = await fs.promises.open(path, 'r+')
      try {
        const result = await outcome(() => call(fs, handle, value), 'whole')
        const place = await handle.read(Buffer.alloc(1))
        results.push([
          result,
          place,
          fs.readFileSync(path, 'latin1').length > 50 || fs.readFileSync(path, 'latin1'),
        ])
      } finally {
        await handle.close()
      }
    }
    expect(results[1]).toEqual(results[0])
  })

  test.each([1.5, Number.NaN])(
    'rejects a length of %s, which ends the process in Node 20',
    async (length) => {
      session.fs.writeFileSync('/file', 'hello')
      const handle = await session.fs.promises.open('/file', 'r')
      await expect(handle.read(Buffer.alloc(2), 0, length, 0)).rejects.toMatchObject({
        code: 'ERR_OUT_OF_RANGE',
      })
    },
  )
})

test('open files show the stored content after a failed write', async () => {
  const storage = new FailingStorage(memoryStorage({ durable: true }))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  const { promises } = session.fs
  const bytes = randomBytes(2 ** 20)
  await promises.writeFile('/file', bytes)
  const handle = await promises.open('/file', 'r+')
  await handle.write('acknowledged', 0)
  storage.next = 'fail'
  await expect(handle.write('lost', 0)).rejects.toMatchObject({ code: 'EIO', syscall: 'write' })
  const read = (await handle.read(Buffer.alloc(12), 0, 12, 0)).buffer.toString()
  expect(read).toBe('acknowledged')
  expect((await handle.readFile()).subarray(12).equals(bytes.subarray(12))).toBe(true)
  await expect(handle.write('lost', 0)).rejects.toMatchObject({ code: 'EIO' })
  await handle.close()
  await expect(handle.stat()).rejects.toMatchObject({ code: 'EBADF' })
  storage.next = 'commit'
  await engine.close()
})
