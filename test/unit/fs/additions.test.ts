// oxlint-disable vitest/expect-expect -- `sameFs` does.
import { once } from 'node:events'
import type * as nodeFs from 'node:fs'
import { text } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, test } from 'vitest'
import { limits } from '../../../src/engine/base/limits.js'
import { memoryStorage, openEngine, type Engine, type Session, type SessionFs } from '../../../src/index.js'
import { FailingStorage } from '../../support/failing-storage.js'
import { Sides } from '../../support/fs-sides.js'
import { lowerBound } from '../../support/lower-bound.js'
import { isNewerCall } from '../../support/newer-node.js'

test('the type is assignable to the type of node:fs', () => {
  expectTypeOf<SessionFs>().toExtend<typeof nodeFs>()
  expectTypeOf<SessionFs['promises']>().toExtend<typeof nodeFs.promises>()
})

describe.each([
  ['memory', false],
  ['LevelDB', true],
])('on %s, like on disk:', (_name, durable) => {
  const sides = new Sides('sync', durable)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(async () => {
    await sides.begin()
    await sides.sameFs('setup', (fs, at) => {
      fs.writeFileSync(at('/file'), '0123456789')
      fs.mkdirSync(at('/dir'))
      fs.symlinkSync('file', at('/link'))
    })
  })
  afterEach(() => sides.end())

  test('stream constructors work without new and on derived objects', () =>
    sides.sameFs('streams', async (fs, at) => {
      const { ReadStream, WriteStream } = fs as unknown as Record<string, (...given: unknown[]) => unknown>
      const plain = ReadStream!(at('/file')) as nodeFs.ReadStream
      function Derived(this: unknown, ...given: unknown[]): void {
        ReadStream!.apply(this, given)
      }
      Derived.prototype = Object.create(fs.ReadStream.prototype)
      const derived = new (Derived as unknown as new (...given: unknown[]) => nodeFs.ReadStream)(
        at('/file'),
        {
          start: 3,
        },
      )
      const target = WriteStream!(at('/new')) as nodeFs.WriteStream
      target.end('written')
      await once(target, 'close')
      return [
        await text(plain),
        await text(derived),
        [plain, derived].map((stream) => stream instanceof fs.ReadStream),
        target instanceof fs.WriteStream,
        derived instanceof fs.WriteStream,
      ]
    }))

  test('streams call the functions of the option `fs`', () =>
    sides.sameFs('option fs', async (fs, at) => {
      const calls: string[] = []
      const own = Object.fromEntries(
        (['open', 'read', 'write', 'writev', 'close', 'fsync'] as const).map((name) => [
          name,
          (...given: unknown[]) => {
            calls.push(name)
            ;(fs[name] as (...given: unknown[]) => void)(...given)
          },
        ]),
      )
      const target = fs.createWriteStream(at('/new'), { fs: own as never, flush: true })
      target.cork()
      target.write('a')
      target.write('b')
      target.end()
      await once(target, 'close')
      const source = fs.createReadStream(at('/new'), { fs: own as never })
      return [await text(source), calls]
    }))

  test.each<Record<string, unknown>>([{ open: 1 }, { open: Date }, { open: Date, read: Date }])(
    'rejects the option `fs` without its functions, %#',
    (own) =>
      sides.sameFs('option fs', (fs, at) => {
        fs.createReadStream(at('/file'), { fs: own as never })
      }),
  )

  test('a method open of a derived stream opens the file', () =>
    sides.sameFs('open', async (fs, at) => {
      const stream = fs.createReadStream(at('/file')) as nodeFs.ReadStream & { open: () => void; fd: number }
      fs.writeFileSync(at('/other'), 'of the other file')
      stream.open = () => {
        fs.open(at('/other'), 'r', (_error, fd) => {
          stream.fd = fd
          stream.emit('open', fd)
        })
      }
      return text(stream)
    }))

  test('a stream destroyed during a read closes its file afterwards', () =>
    sides.sameFs('destroy', async (fs, at) => {
      const order: string[] = []
      const own = {
        open: fs.open,
        read: (...given: unknown[]) => {
          const done = given.at(-1) as (...results: unknown[]) => void
          ;(fs.read as (...given: unknown[]) => void)(...given.slice(0, -1), (...results: unknown[]) => {
            order.push('read')
            done(...results)
          })
          stream.destroy()
        },
        close: (fd: number, done: () => void) => {
          order.push('close')
          fs.close(fd, done)
        },
      }
      const stream = fs.createReadStream(at('/file'), { fs: own })
      stream.resume()
      await once(stream, 'close')
      return order
    }))

  test('retries partial writes and EAGAIN of the option `fs`', () =>
    sides.sameFs('partial', async (fs, at) => {
      let calls = 0
      const own = {
        open: fs.open,
        close: fs.close,
        write: (fd: number, bytes: Buffer, offset: number, length: number, position: null, done: never) => {
          const again = Object.assign(new Error('again'), { code: 'EAGAIN' })
          if (++calls === 2) (done as (error: Error, count: number, rest: Buffer) => void)(again, 0, bytes)
          else fs.write(fd, bytes, offset, Math.min(length, 3), position, done)
        },
      }
      const stream = fs.createWriteStream(at('/new'), { fs: own, start: 2 })
      stream.end('abcdefgh')
      await once(stream, 'close')
      return [calls, stream.bytesWritten, fs.readFileSync(at('/new'), 'utf8')]
    }))

  test.each([
    { end: 0 },
    { end: 4 },
    { end: 99 },
    { start: 9, end: 9 },
    { start: 2, end: 5, highWaterMark: 3 },
    { start: 2, highWaterMark: 3 },
    { highWaterMark: 3, end: 7 },
  ])('streams read the bytes of %j', (range) =>
    sides.sameFs('range', (fs, at) => text(fs.createReadStream(at('/file'), range))),
  )

  test('streams without autoClose close on request', () =>
    sides.sameFs('autoClose', async (fs, at) => {
      const stream = fs.createWriteStream(at('/new'), { autoClose: false })
      stream.write('text')
      await new Promise((resolve) => stream.close(resolve))
      return (stream as unknown as { fd: number | null }).fd
    }))

  test('closing a FileHandle closes its streams', () =>
    sides.sameFs('handle', async (fs, at) => {
      const handle = await fs.promises.open(at('/file'), 'r+')
      const [source, target] = [handle.createReadStream(), handle.createWriteStream()]
      const closed = Promise.all([once(source, 'close'), once(target, 'close')])
      await handle.close()
      await closed
      return [source.destroyed, target.destroyed]
    }))

  test('openAsBlob returns content and type', () =>
    sides.sameFs('blob', async (fs, at) => {
      const blob = await fs.openAsBlob(at('/link'), { type: 'text/plain' })
      return [blob.type, blob.size, await blob.text(), await blob.slice(2, 4).text()]
    }))

  test.skipIf(isNewerCall('statfs checks the path'))('statfs checks the path', () =>
    sides.sameFs('statfs', async (fs, at) => {
      const keys = Object.keys(fs.statfsSync(at('/file')))
      const big = await fs.promises.statfs(at('/dir'), { bigint: true })
      const missing = await fs.promises
        .statfs(at('/none'))
        .catch((error: NodeJS.ErrnoException) => error.code)
      return [keys, typeof big.bsize, missing]
    }),
  )

  test('opendir returns instances of Dir', () =>
    sides.sameFs('Dir', (fs, at) => {
      const dir = fs.opendirSync(at('/dir'))
      const found = [dir instanceof fs.Dir, fs.Dir.name]
      dir.closeSync()
      return found
    }))

  test('watchFile reports missing, created, changed and deleted files', () =>
    sides.sameFs('watchFile', async (fs, at) => {
      const reported: string[] = []
      const stats = (one: nodeFs.Stats): string => (one.ino === 0 ? 'none' : `${one.size} bytes`)
      const step = async (change: () => void): Promise<void> => {
        const count = reported.length
        change()
        while (reported.length === count) await setImmediate()
      }
      const listener = (now: nodeFs.Stats, before: nodeFs.Stats): void => {
        reported.push(`${stats(before)} to ${stats(now)}`)
      }
      await step(() => fs.watchFile(at('/new'), { interval: 1 }, listener))
      await step(() => fs.writeFileSync(at('/new'), 'abc'))
      await step(() => fs.renameSync(at('/file'), at('/new')))
      await step(() => fs.unlinkSync(at('/new')))
      fs.unwatchFile(at('/new'), listener)
      return reported
    }))
})

describe('a session', () => {
  let engine: Engine
  let session: Session
  let fs: SessionFs

  beforeAll(async () => {
    engine = await openEngine()
  })
  afterAll(() => engine.close())
  beforeEach(async () => {
    session = await engine.sessions.create({ files: { '/file': 'content', '/dir/a': 'a' } })
    fs = session.fs
  })

  test('changes the mode of a file with lchmod, but not of a symlink', async () => {
    fs.symlinkSync('file', '/link')
    fs.lchmodSync('/file', 0o600)
    await fs.promises.lchmod('/link', 0o640)
    expect(fs.statSync('/file').mode & 0o777).toBe(0o600)
    expect(() => fs.lchmodSync('/none', 0o600)).toThrow('ENOENT')
    expect(() => fs.lchmodSync('/file', 'x')).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_VALUE' }),
    )
  })

  test('makes disposable temporary directories', async () => {
    const now = fs.mkdtempDisposableSync('/dir/now-')
    fs.writeFileSync(`${now.path}/inside`, '')
    expect(now.path).toMatch(/^\/dir\/now-\w{6}$/)
    now.remove()
    now.remove()
    expect(fs.existsSync(now.path)).toBe(false)

    const later = await fs.promises.mkdtempDisposable('/dir/later-')
    await fs.promises.writeFile(`${later.path}/inside`, '')
    await later[Symbol.asyncDispose]()
    await later.remove()
    expect(fs.readdirSync('/dir')).toEqual(['a'])
    expect(() => fs.mkdtempDisposableSync('/none/x')).toThrow('ENOENT')
  })

  test('keeps the content of a Blob when its file changes', async () => {
    const [later, now] = [await fs.openAsBlob('/file'), fs.openAsBlobSync('/file')]
    fs.writeFileSync('/file', 'other')
    expect(await later.text()).toBe('content')
    expect(await now.text()).toBe('content')
    await expect(fs.openAsBlob('/dir')).rejects.toMatchObject({ code: 'EISDIR' })
    await expect(fs.openAsBlob('/file', { type: 5 as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    })
  })

  test('stops watching a file with its last listener, and with the session', async () => {
    const reported: string[] = []
    const [one, two] = [() => reported.push('one'), () => reported.push('two')]
    const watcher = fs.watchFile('/file', { bigint: true }, one)
    expect(fs.watchFile('/file', two)).toBe(watcher)
    fs.writeFileSync('/file', 'other')
    await once(watcher, 'change')
    await setImmediate()
    expect(reported.sort()).toEqual(['one', 'two'])
    fs.unwatchFile('/file', one)
    fs.writeFileSync('/file', 'again')
    await once(watcher, 'change')
    expect(reported).toEqual(['one', 'two', 'two'])
    const stopped = once(watcher, 'stop')
    fs.unwatchFile('/file')
    await stopped
    fs.writeFileSync('/file', 'unseen')
    await setImmediate()
    expect(reported).toHaveLength(3)

    const last = fs.watchFile('/file', one)
    expect(last).not.toBe(watcher)
    const ended = once(last, 'stop')
    await engine.sessions.delete(session.id)
    await ended
  })

  test('keeps watching a file after a failed write', async () => {
    const storage = new FailingStorage(memoryStorage({ durable: true }), { recovers: true })
    const failing = await openEngine({ storage })
    const view = (await failing.sessions.create({ files: { '/file': 'old' } })).fs
    const sizes: number[] = []
    view.watchFile('/file', (now) => sizes.push(now.size))
    await view.promises.writeFile('/file', 'seven b')
    while (sizes.at(-1) !== 7) await setImmediate()
    storage.next = 'fail'
    await expect(view.promises.writeFile('/file', 'not stored')).rejects.toHaveProperty('code')
    storage.next = 'commit'
    await view.promises.readFile('/file')
    await setImmediate()
    await view.promises.writeFile('/file', 'stored')
    while (sizes.at(-1) !== 6) await setImmediate()
    view.unwatchFile('/file')
    await failing.close()
  })

  test('reports no change of a watched file that only left or entered memory', async () => {
    lowerBound(limits, 'eventsPerSnapshot', 1)
    lowerBound(limits, 'eventsPerSnapshotMax', 1)
    const storage = memoryStorage({ durable: true })
    const durable = await openEngine({ storage, memoryBudgetBytes: 2 ** 20 })
    const watched = await durable.sessions.create()
    const segments = Array.from({ length: 4000 }, (_, i) => ({ data: { offset: i * 100_000, content: 'x' } }))
    await watched.files.patchSegments({ mutations: [{ path: '/file', segments }] })
    const view = watched.fs
    let changes = 0
    view.watchFile('/file', () => changes++)
    for (let i = 0; i < 20; i++) {
      await view.promises.writeFile('/other', `${i}`)
      await watched.files.read({ path: '/file', length: 1 })
      await setImmediate()
    }
    expect(changes).toBe(0)
    await view.promises.appendFile('/file', 'y')
    while (changes === 0) await setImmediate()
    view.unwatchFile('/file')
    await durable.close()
  })

  test('reports only the last of several quick changes to a watched file', async () => {
    const sizes: number[] = []
    fs.watchFile('/file', (now) => sizes.push(now.size))
    await setImmediate()
    for (const content of ['one', 'three', 'fifteen letters']) fs.writeFileSync('/file', content)
    while (sizes.at(-1) !== 15) await setImmediate()
    fs.unwatchFile('/file')
    expect(fs.statSync('/file').size).toBe(15)
  })

  test('has every export of node:fs on this Node version', async () => {
    const node = await import('node:fs')
    // Node has lchmod only on macOS. docs/node-fs.md says why Utf8Stream is absent.
    const names = Object.keys(node.default).filter((name) => name !== 'lchmod' && name !== 'Utf8Stream')
    expect(names.filter((name) => (fs as unknown as Record<string, unknown>)[name] === undefined)).toEqual([])
    const promises = Object.keys(node.default.promises)
    expect(promises.filter((name) => !(name in fs.promises))).toEqual([])
  })

  test('rejects reads of a closed Dir', async () => {
    const dir = fs.opendirSync('/dir')
    dir.closeSync()
    await expect(dir.read()).rejects.toMatchObject({ code: 'ERR_DIR_CLOSED' })
  })

  test('refuses a wrong callback of a Dir before anything else', async () => {
    const wrong = { code: 'ERR_INVALID_ARG_TYPE' }
    const rejections: unknown[] = []
    const note = (error: unknown): number => rejections.push(error)
    process.on('unhandledRejection', note)
    const dir = await fs.promises.opendir('/dir')
    expect(() => dir.read('x' as never)).toThrow(expect.objectContaining(wrong))
    expect((await dir.read())?.name).toBe('a')
    dir.closeSync()
    expect(() => dir.close('x' as never)).toThrow(expect.objectContaining(wrong))
    await setImmediate()
    await setImmediate()
    process.off('unhandledRejection', note)
    expect(rejections).toEqual([])
  })

  test('has constants that cannot be replaced', () => {
    expect(() => Object.assign(fs, { constants: {} })).toThrow(TypeError)
  })
})
