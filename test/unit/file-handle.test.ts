import { promises as disk } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type FsPromises } from '../../src/index.js'

const content = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251))

describe.each([
  ['memory', memoryStorage()],
  ['durable memory without synchronous reads', memoryStorage({ durable: true, syncReads: false })],
])('an open file on %s', (_name, storage) => {
  let engine: Engine
  let fs: FsPromises
  let directory: string

  beforeEach(async () => {
    engine = await openEngine({ storage })
    fs = (await engine.sessions.create()).fs.promises
    directory = await mkdtemp(join(tmpdir(), 'forkspace-handle-'))
    await fs.writeFile('/file', content)
    await disk.writeFile(join(directory, 'file'), content)
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true })
  })

  test('reads the same ranges as one on a disk', async () => {
    const ours = await fs.open('/file')
    const theirs = await disk.open(join(directory, 'file'))
    const reads: ((handle: typeof ours) => Promise<{ bytesRead: number; buffer: ArrayBufferView }>)[] = [
      (handle) => handle.read(Buffer.alloc(10), 0, 10, 5),
      (handle) => handle.read(Buffer.alloc(10), 2, 3, 99_999),
      (handle) => handle.read(Buffer.alloc(10), 0, 10, 100_000),
      (handle) => handle.read(Buffer.alloc(7)),
      (handle) => handle.read(Buffer.alloc(7)),
      (handle) => handle.read(Buffer.alloc(7), { position: 50 }),
      (handle) => handle.read({ buffer: Buffer.alloc(4), offset: 1, length: 2, position: 10 }),
      (handle) => handle.read(),
    ]
    for (const read of reads) expect(await read(ours)).toEqual(await read(theirs as unknown as typeof ours))
    expect(await ours.readFile()).toEqual(await theirs.readFile())
    expect((await ours.stat()).size).toBe((await theirs.stat()).size)
    await Promise.all([ours.close(), theirs.close()])
  })

  test('sees later writes, and goes on after the file was removed or replaced', async () => {
    const handle = await fs.open('/file')
    await fs.writeFile('/file', 'short')
    expect(await handle.readFile('utf8')).toBe('short')
    await fs.rename('/file', '/moved')
    await fs.writeFile('/file', 'another file')
    expect((await handle.read(Buffer.alloc(5), 0, 5, 0)).buffer.toString()).toBe('short')
    await fs.unlink('/moved')
    expect((await handle.read(Buffer.alloc(5), 0, 5, 0)).buffer.toString()).toBe('short')
  })

  test('goes on when the way to the file is gone, and reads in the order of the calls', async () => {
    await fs.mkdir('/p')
    await fs.writeFile('/p/f', 'hello world')
    const handle = await fs.open('/p/f')
    await fs.rm('/p', { recursive: true })
    await fs.writeFile('/p', 'a file now')
    const reads = await Promise.all([handle.read(Buffer.alloc(6)), handle.read(Buffer.alloc(5))])
    expect(reads.map(({ buffer }) => buffer.toString())).toEqual(['hello ', 'world'])
    await fs.unlink('/p')
    await fs.symlink('/p', '/p')
    expect((await handle.read(Buffer.alloc(5), 0, 5, 0)).buffer.toString()).toBe('hello')
    for (const position of [1.5, Number.NaN, -5]) {
      await expect(handle.read(Buffer.alloc(1), { position })).rejects.toMatchObject({
        code: 'ERR_OUT_OF_RANGE',
      })
    }
    await expect(handle.read({ buffer: 'x' as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    })
  })

  test('refuses what cannot be read', async () => {
    await fs.mkdir('/dir')
    await expect(fs.open('/dir')).rejects.toMatchObject({ code: 'EISDIR', syscall: 'open' })
    await expect(fs.open('/none')).rejects.toMatchObject({ code: 'ENOENT', syscall: 'open' })
    await expect(fs.open('/file', 'w')).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_VALUE' })
    const handle = await fs.open('/file')
    await expect(handle.read(Buffer.alloc(5), 6)).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' })
    await expect(handle.read(Buffer.alloc(5), 0, 9)).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' })
    await handle.close()
    await expect(handle.read(Buffer.alloc(5))).rejects.toMatchObject({ code: 'EBADF', syscall: 'read' })
  })
})
