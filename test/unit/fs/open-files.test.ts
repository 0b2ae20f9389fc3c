// oxlint-disable vitest/expect-expect -- `sameFs` does.
import { constants, type promises } from 'node:fs'
import { finished } from 'node:stream/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Sides } from '../../support/fs-sides.js'
import { isLong } from '../../support/seed.js'

const flags = [
  'r',
  'rs',
  'r+',
  'rs+',
  'w',
  'wx',
  'w+',
  'wx+',
  'a',
  'ax',
  'a+',
  'ax+',
  'as',
  'as+',
  constants.O_RDONLY,
  constants.O_WRONLY,
  constants.O_RDWR,
  constants.O_RDWR | constants.O_CREAT,
  constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
  constants.O_RDWR | constants.O_EXCL,
  constants.O_RDWR | constants.O_APPEND,
  constants.O_RDONLY | constants.O_NOFOLLOW,
  constants.O_RDONLY | constants.O_DIRECTORY,
  constants.O_WRONLY | constants.O_TRUNC,
] as const

describe.each([['memory', false], ...(isLong ? [['LevelDB', true] as [string, boolean]] : [])] as [
  string,
  boolean,
][])('on %s, like on disk:', (_name, durable) => {
  const sides = new Sides('sync', durable)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(async () => {
    await sides.begin()
    await sides.sameFs('setup', (fs, at) => {
      fs.writeFileSync(at('/file'), '0123456789')
      fs.mkdirSync(at('/dir'))
      fs.writeFileSync(at('/dir/a'), 'a')
      fs.symlinkSync('file', at('/link'))
      fs.symlinkSync('nowhere', at('/dangling'))
    })
  })
  afterEach(() => sides.end())

  for (const path of ['/file', '/none', '/dir', '/link', '/dangling', '/file/x', '/none/x', '/dir/']) {
    test.each(flags.map((flag) => [flag]))(`open ${path} with %s, by descriptor`, (flag) =>
      sides.sameFs('open', (fs, at) => {
        const fd = fs.openSync(at(path), flag)
        const results: unknown[] = []
        const attempt = (call: () => unknown): void => {
          try {
            results.push(call())
          } catch (error) {
            results.push((error as Error).message)
          }
        }
        const buffer = Buffer.alloc(4)
        attempt(() => [fs.readSync(fd, buffer, 0, 4, null), buffer.toString('latin1')])
        attempt(() => fs.writeSync(fd, 'AB'))
        attempt(() => fs.writeSync(fd, Buffer.from('XYZ'), 1, 2, 1))
        attempt(() => fs.writevSync(fd, [Buffer.from('p'), Buffer.from('q')]))
        attempt(() => [
          fs.readvSync(fd, [buffer.subarray(0, 1), buffer.subarray(2)], 3),
          buffer.toString('latin1'),
        ])
        attempt(() => fs.readFileSync(fd, 'utf8'))
        attempt(() => fs.writeFileSync(fd, 'more'))
        attempt(() => fs.ftruncateSync(fd, 12))
        attempt(() => fs.fstatSync(fd).isFile() && fs.fstatSync(fd).size)
        attempt(() => fs.fchmodSync(fd, 0o700))
        attempt(() => fs.futimesSync(fd, 5, 6))
        attempt(() => fs.fchownSync(fd, -1, -1))
        attempt(() => fs.fsyncSync(fd))
        attempt(() => fs.fdatasyncSync(fd))
        attempt(() => fs.closeSync(fd))
        return results
      }),
    )

    test.each(flags.map((flag) => [flag]))(`whole files at ${path} with %s`, async (flag) => {
      await sides.sameFs('readFile', (fs, at) =>
        fs.readFileSync(at(path), { flag: flag as string, encoding: 'utf8' }),
      )
      await sides.sameFs('writeFile', (fs, at) => fs.writeFileSync(at(path), 'new', { flag: flag as string }))
      await sides.sameFs('writeFile', (fs, at) => fs.promises.writeFile(at(path), Buffer.from('N'), { flag }))
      await sides.sameFs('appendFile', (fs, at) =>
        fs.appendFileSync(at(path), 'more', { flag: flag as string }),
      )
    })
  }

  test('closed and unknown descriptors', async () => {
    for (const call of ['close', 'fstat', 'ftruncate', 'fsync', 'fdatasync'] as const)
      await sides.sameFs(call, (fs) =>
        (fs as unknown as Record<string, (fd: number) => unknown>)[`${call}Sync`]!(9999),
      )
    await sides.sameFs('futimes', (fs) => fs.futimesSync(9999, 1, 1))
    await sides.sameFs('fchmod', (fs) => fs.fchmodSync(9999, 1))
    await sides.sameFs('read', (fs) => fs.readSync(9999, Buffer.alloc(1), 0, 1, 0))
    await sides.sameFs('write', (fs) => fs.writeSync(9999, 'x'))
    await sides.sameFs('readFile', (fs) => fs.readFileSync(9999))
    await sides.sameFs('readFile', (fs) => fs.readFileSync(9999, 'utf8'))
    await sides.sameFs('twice', (fs, at) => {
      const fd = fs.openSync(at('/file'), 'r')
      fs.closeSync(fd)
      fs.closeSync(fd)
    })
    for (const fd of [-1, 1.5, 'x', null, undefined])
      await sides.sameFs('bad', (fs) => fs.fstatSync(fd as number))
  })

  // A length that passes the end of the buffer from its offset on, but not from its start.
  test.each([
    [5, 8],
    [5, 5],
    [10, 1],
    [10, 0],
  ])('writes of a buffer of 10 bytes from %s with the length %s', async (offset, length) => {
    await sides.sameFs('write', (fs, at) => {
      const fd = fs.openSync(at('/file'), 'r+')
      try {
        return fs.writeSync(fd, Buffer.alloc(10, 'x'), offset, length, 0)
      } finally {
        fs.closeSync(fd)
      }
    })
    await sides.sameFs('content', (fs, at) => fs.readFileSync(at('/file'), 'utf8'))
  })

  describe('a FileHandle', () => {
    type Handle = promises.FileHandle
    const steps: Record<string, (handle: Handle) => unknown> = {
      'reads ranges': async (handle) => [
        await handle.read(Buffer.alloc(4), 0, 4, 2),
        await handle.read(Buffer.alloc(3)),
        await handle.read({ buffer: Buffer.alloc(3), offset: 1, length: 2 }),
        await handle.read(Buffer.alloc(3), { position: 0 }),
        (await handle.read()).bytesRead,
        await handle.readv([Buffer.alloc(2), Buffer.alloc(3)], 1),
      ],
      // Concurrent calls have no order on disk.
      'reads sequentially': async (handle) => [
        await handle.read(Buffer.alloc(6)),
        await handle.read(Buffer.alloc(2)),
        await handle.readFile('utf8'),
      ],
      writes: async (handle) => [
        await handle.write('ab'),
        await handle.write(Buffer.from('cd'), 0, 2, 8),
        await handle.write('e', 5),
        await handle.writev([Buffer.from('f'), Buffer.from('g')]),
        await handle.writeFile('tail'),
        await handle.appendFile('!'),
        await handle.truncate(20),
        (await handle.stat()).size,
        await handle.read(Buffer.alloc(20), 0, 20, 0),
      ],
      'writes content in pieces': (handle) => handle.writeFile(['one', 'two'] as never),
      'sets attributes': async (handle) => {
        await handle.chmod(0o640)
        await handle.utimes(1, 2)
        await handle.chown(-1, -1)
        return [(await handle.stat()).mode, (await handle.stat()).mtimeMs]
      },
      syncs: async (handle) => [await handle.sync(), await handle.datasync()],
      'closes only once': async (handle) => [await handle.close(), await handle.close(), handle.fd],
      'rejects calls after it is closed': async (handle) => {
        await handle.close()
        return handle.readFile()
      },
      'rejects wrong arguments': (handle) => handle.read(Buffer.alloc(2), 0, 5),
      'reads lines': async (handle) => {
        await handle.truncate()
        await handle.write('a\nb\r\nc\n\nd', 0)
        const lines: string[] = []
        for await (const line of handle.readLines({ start: 0 })) lines.push(line)
        return lines
      },
      'can be read as a stream': async (handle) => {
        const chunks: string[] = []
        for await (const chunk of handle.createReadStream({ start: 2, end: 6, encoding: 'utf8' }))
          chunks.push(chunk as string)
        return [chunks.join(''), handle.fd]
      },
      'can be written as a stream': async (handle) => {
        const stream = handle.createWriteStream({ start: 3 })
        stream.write('xx')
        stream.end('yy')
        await finished(stream)
      },
    }
    test.each(Object.entries(steps))('%s', (name, step) =>
      sides.sameFs(name, async (fs, at) => {
        const handle = await fs.promises.open(at('/file'), 'r+')
        try {
          return await step(handle)
        } finally {
          await handle.close().catch(() => undefined)
        }
      }),
    )

    test('follows a renamed file and keeps a removed one', () =>
      sides.sameFs('gone', async (fs, at) => {
        const handle = await fs.promises.open(at('/file'), 'r+')
        await fs.promises.rename(at('/file'), at('/moved'))
        await handle.write('AA', 0)
        const moved = fs.readFileSync(at('/moved'), 'utf8')
        await fs.promises.writeFile(at('/file'), 'other')
        await fs.promises.unlink(at('/moved'))
        await handle.write('BB', 4)
        const gone = (await handle.read(Buffer.alloc(10), 0, 10, 0)).buffer.toString()
        await handle.truncate(3)
        const { size, nlink } = await handle.stat()
        await handle.close()
        return [moved, gone, size, nlink, fs.readFileSync(at('/file'), 'utf8')]
      }))
  })

  describe('streams', () => {
    const reads = [
      {},
      { start: 3 },
      { end: 4 },
      { start: 2, end: 2 },
      { start: 50 },
      { highWaterMark: 3 },
      { encoding: 'hex' as const },
    ]
    test.each(reads.map((options) => [options]))('read with %o', (options) =>
      sides.sameFs('read', async (fs, at) => {
        const stream = fs.createReadStream(at('/file'), options)
        const events: unknown[] = [['pending', stream.pending]]
        for (const name of ['ready', 'end', 'close']) stream.on(name, () => events.push(name))
        stream.on('open', (fd) => events.push(['open', typeof fd]))
        stream.on('data', (chunk) => events.push(String(chunk)))
        await finished(stream)
        if (!stream.closed) await new Promise<void>((resolve) => stream.once('close', () => resolve()))
        return [events, stream.bytesRead, stream.destroyed, stream.pending]
      }),
    )

    test.each([
      [{}],
      [{ flags: 'a' }],
      [{ flags: 'r+', start: 4 }],
      [{ mode: 0o600 }],
      [{ encoding: 'hex' as const }],
    ])('write with %o', (options) =>
      sides.sameFs('write', async (fs, at) => {
        const stream = fs.createWriteStream(at('mode' in options ? '/new' : '/file'), options)
        const events: unknown[] = []
        for (const name of ['ready', 'finish', 'close']) stream.on(name, () => events.push(name))
        stream.write('abcd')
        stream.end('ef')
        await finished(stream)
        if (!stream.closed) await new Promise<void>((resolve) => stream.once('close', () => resolve()))
        return [events, stream.bytesWritten]
      }),
    )

    test('fail like on disk', async () => {
      const failed = (stream: NodeJS.EventEmitter): Promise<unknown> =>
        new Promise((_resolve, reject) => stream.once('error', reject))
      await sides.sameFs('missing', (fs, at) => failed(fs.createReadStream(at('/none'))))
      await sides.sameFs('directory', (fs, at) => failed(fs.createReadStream(at('/dir')).resume()))
      await sides.sameFs('no parent', (fs, at) => failed(fs.createWriteStream(at('/none/x'))))
      await sides.sameFs(
        'aborted',
        (fs, at) => failed(fs.createReadStream(at('/file'), { signal: AbortSignal.abort() })),
        'code only',
      )
      await sides.sameFs('range', (fs, at) => fs.createReadStream(at('/file'), { start: 5, end: 2 }))
      await sides.sameFs('path', (fs) => fs.createReadStream(5 as never))
    })
  })

  test('opendir', async () => {
    await sides.sameFs('entries', async (fs, at) => {
      const found: unknown[] = []
      for await (const entry of await fs.promises.opendir(at('/dir')))
        found.push([entry.name, entry.parentPath, entry.isFile()])
      return found
    })
    await sides.sameFs('sync', (fs, at) => {
      const dir = fs.opendirSync(at('/dir'))
      const found = [dir.path, dir.readSync()?.name, dir.readSync()]
      dir.closeSync()
      return found
    })
    await sides.sameFs('closed', (fs, at) => {
      const dir = fs.opendirSync(at('/dir'))
      dir.closeSync()
      dir.readSync()
    })
    await sides.sameFs('missing', (fs, at) => fs.opendirSync(at('/none')))
    await sides.sameFs('missing', (fs, at) => fs.promises.opendir(at('/none')))
    await sides.sameFs('a file', (fs, at) => fs.promises.opendir(at('/file')))
  })

  test('descriptors of a session start at 10,000', () => {
    expect(sides.fs.openSync('/file', 'r')).toBeGreaterThanOrEqual(10_000)
  })
})
