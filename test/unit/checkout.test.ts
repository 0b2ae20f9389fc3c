import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHost } from '../../src/adapters/host/index.js'
import { systemEnvironment } from '../../src/adapters/system/index.js'
import { createEngine } from '../../src/engine/create-engine.js'
import {
  EngineError,
  memoryStorage,
  openEngine,
  type Authorize,
  type Checkout,
  type Engine,
  type Session,
  type Storage,
} from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { seed } from '../support/seed.js'
import { hostFiles, sessionFiles } from '../support/host-files.js'
import { fewStorages } from '../support/storages.js'

/** The time of the last change in milliseconds, with whole microseconds. Versions of Node round `mtimeMs` differently. */
function timeOf(path: string): number {
  return Number(lstatSync(path, { bigint: true }).mtimeNs / 1000n) / 1000
}

test('a sync whose changes the session has does not fail as not applied', async () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'checkout-')))
  let losses = 0
  const engine = await openEngine({
    storage: {
      open: async () => {
        const store = await memoryStorage({ durable: true }).open()
        const commit = store.commit.bind(store)
        return Object.assign(store, {
          losses: () => losses,
          commit: (each: Parameters<typeof commit>[0]) => {
            // The server crashes after the event is stored.
            if (JSON.stringify(each.events ?? []).includes('ApplyBatch')) losses++
            return commit(each)
          },
        })
      },
    },
    hostPaths: { roots: [root] },
  })
  try {
    const session = await engine.sessions.create({ files: { '/a': 'one' } })
    const checkout = await session.checkout(join(root, 'work'))
    writeFileSync(join(root, 'work', 'b'), 'new')
    await expect(checkout.sync()).rejects.toMatchObject({
      reason: 'STORE_FAILED',
      details: { outcome: 'unknown' },
    })
    expect(Buffer.from(await session.files.read({ path: '/b' })).toString()).toBe('new')
    const count = async (): Promise<number> => (await session.events.list()).events.length
    const before = await count()
    expect(await checkout.sync()).toMatchObject({ added: ['/b'] })
    expect(await count()).toBe(before)
  } finally {
    await engine.close()
    rmSync(root, { recursive: true, force: true })
  }
})

describe.each(fewStorages)('checkouts on %s', (_name, makeStorage, lasting) => {
  let scratch: string
  let root: string
  let target: string
  let storage: Storage
  let engine: Engine
  let session: Session
  let refuse: readonly string[]

  beforeEach(async () => {
    scratch = realpathSync(mkdtempSync(join(tmpdir(), 'checkout-')))
    root = join(scratch, 'root')
    target = join(root, 'work')
    mkdirSync(root)
    storage = makeStorage(scratch)
    refuse = []
    await open()
    session = await engine.sessions.create({ files: { '/a': 'one', '/d/x': 'x', '/d/e/y': 'y' } })
  })

  afterEach(async () => {
    await engine.close()
    rmSync(scratch, { recursive: true, force: true })
  })

  async function open(allowGitNames = false): Promise<void> {
    const authorize: Authorize = (_principal, action) => !refuse.includes(action)
    engine = await openEngine({ storage, hostPaths: { roots: [root] }, allowGitNames, authorize })
  }

  async function reload(allowGitNames = false): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    await open(allowGitNames)
    session = await engine.sessions.open(id)
  }

  const write = (path: string, content: string, of = session): Promise<void> =>
    of.files.write({ path, content })
  const onDisk = (path: string): string => join(target, path)
  const diskText = (path: string): string => readFileSync(onDisk(path), 'utf8')
  const eventCount = async (): Promise<number> => (await session.events.list()).events.length

  /** Changes a file in place, with a distinct time even where clocks are coarse. */
  function edit(path: string, content: string): void {
    writeFileSync(onDisk(path), content)
    later(path)
  }

  function later(path: string): void {
    const time = Date.now() / 1000 + 10
    utimesSync(onDisk(path), time, time)
  }

  async function expectSame(of = session): Promise<void> {
    expect(hostFiles(target)).toEqual(await sessionFiles(of))
  }

  async function modifiedPath(failing: Promise<unknown>): Promise<string | undefined> {
    const error = await failing.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(EngineError)
    expect((error as EngineError).reason).toBe('CHECKOUT_MODIFIED')
    return (error as EngineError).details['path']
  }

  async function reasonOf(failing: Promise<unknown>): Promise<string> {
    const error = await failing.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(EngineError)
    return (error as EngineError).reason
  }

  describe('writing', () => {
    test('creates files, directories, modes, symlinks, hard links and times', async () => {
      await session.files.setMode({ path: '/d/x', mode: 0o4755 })
      await session.files.createDirectory({ path: '/empty', mode: 0o700 })
      await write('/shut/in', 'in')
      await session.files.setMode({ path: '/shut', mode: 0o555 })
      await session.files.createSymlink({ linkPath: '/d/link', target: '../../outside' })
      await session.files.link({ srcPath: '/a', dstPath: '/d/e/a2' })
      await session.fs.promises.utimes('/d/x', 1000, 1_500_000_000.25)
      await session.fs.promises.utimes('/d', 1000, 1_400_000_000)
      await session.fs.promises.lutimes('/d/link', 1000, 1_300_000_000)
      await write('/__proto__', 'p')
      await write('/größe \n"', 'ü')
      const progress: number[] = []
      const checkout = await session.checkout(target, {
        onProgress: ({ filesProcessed }) => progress.push(filesProcessed),
      })
      expect(checkout.directory).toBe(target)
      expect(checkout.initial).toEqual({ written: 12, removed: 0 })
      expect(progress.at(-1)).toBeGreaterThan(4)
      await expectSame()
      expect(statSync(onDisk('d/x')).mode & 0o7777).toBe(0o755)
      expect(timeOf(onDisk('d/x'))).toBe(1_500_000_000_250)
      expect(timeOf(onDisk('d'))).toBe(1_400_000_000_000)
      expect(timeOf(onDisk('d/link'))).toBe(1_300_000_000_000)
      expect(statSync(onDisk('a')).ino).toBe(statSync(onDisk('d/e/a2')).ino)
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      await write('/shut/in', 'more')
      expect(await checkout.update()).toEqual({ written: 1, removed: 0 })
      await expectSame()
      await session.files.setMode({ path: '/shut', mode: 0o755 })
      expect(await checkout.update()).toEqual({ written: 1, removed: 0 })
    })

    test('creates a large file and a sparse file', async () => {
      const bytes = Buffer.alloc(3 * 2 ** 20 + 17, 'abcdefg')
      await session.files.write({ path: '/large', content: bytes })
      await session.fs.promises.truncate('/a', 2 ** 20 + 5)
      const checkout = await session.checkout(target)
      expect(readFileSync(onDisk('large')).equals(bytes)).toBe(true)
      expect(statSync(onDisk('a')).size).toBe(2 ** 20 + 5)
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      bytes[2 ** 20] = 0
      writeFileSync(onDisk('large'), bytes)
      later('large')
      expect(await checkout.sync()).toEqual({ added: [], modified: ['/large'], removed: [] })
      expect(Buffer.from(await session.files.read({ path: '/large' })).equals(bytes)).toBe(true)
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
    })

    test('changes only differing files the second time', async () => {
      await session.checkout(target)
      const inode = statSync(onDisk('d/x')).ino
      await write('/a', 'two')
      await session.files.delete({ path: '/d/e/y' })
      await session.files.removeDirectory({ path: '/d/e' })
      await write('/n/deep/er', 'new')
      await session.files.setMode({ path: '/d', mode: 0o750 })
      await reload()
      const again = await session.checkout(target)
      expect(again.initial).toEqual({ written: 5, removed: 2 })
      expect(statSync(onDisk('d/x')).ino).toBe(inode)
      await expectSame()
      expect(await again.update()).toEqual({ written: 0, removed: 0 })
    })

    test('replaces entries of another kind', async () => {
      await session.checkout(target)
      await session.fs.promises.rm('/d', { recursive: true })
      await write('/d', 'a file now')
      await session.files.delete({ path: '/a' })
      await write('/a/in', 'a directory now')
      const checkout = await session.checkout(target)
      await expectSame()
      await session.files.delete({ path: '/d' })
      await session.files.createSymlink({ linkPath: '/d', target: '/a' })
      await session.fs.promises.rm('/a', { recursive: true })
      await session.files.createSymlink({ linkPath: '/a', target: 'd' })
      await checkout.update()
      await expectSame()
      await session.files.delete({ path: '/d' })
      await write('/d/x', 'back')
      await checkout.update()
      expect(hostFiles(target)).toEqual(await sessionFiles(session))
    })

    test('replaces the checkout of another session', async () => {
      const first = await session.checkout(target)
      const fork = await session.fork()
      await write('/a', 'of the fork', fork)
      const inode = statSync(onDisk('d/x')).ino
      const second = await fork.checkout(target)
      expect(second.initial).toEqual({ written: 1, removed: 0 })
      expect(statSync(onDisk('d/x')).ino).toBe(inode)
      await expectSame(fork)
      expect(await modifiedPath(first.sync())).toBe('/')
      expect(await first.update()).toEqual({ written: 1, removed: 0 })
      await expectSame()
    })

    test('adds and removes hard links', async () => {
      const checkout = await session.checkout(target)
      const ino = (path: string): number => statSync(onDisk(path)).ino
      await session.files.link({ srcPath: '/a', dstPath: '/b' })
      await session.files.link({ srcPath: '/a', dstPath: '/d/c' })
      expect((await checkout.update()).written).toBe(2)
      expect(new Set(['a', 'b', 'd/c'].map(ino)).size).toBe(1)
      await write('/d/c', 'all three')
      expect((await checkout.update()).written).toBe(3)
      expect(new Set(['a', 'b', 'd/c'].map(ino)).size).toBe(1)
      await session.files.unlink({ path: '/a' })
      await checkout.update()
      await expectSame()
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
    })

    test('replaces a hard-linked file instead of changing it', async () => {
      const checkout = await session.checkout(target)
      const outside = join(scratch, 'outside')
      const seen = (): unknown => {
        const { mode, mtimeMs, ino } = statSync(outside)
        return { mode, mtimeMs, ino, content: readFileSync(outside, 'utf8') }
      }
      writeFileSync(outside, 'one')
      chmodSync(outside, 0o644)
      utimesSync(outside, 1, 1)
      const before = seen()
      for (const change of [
        () => session.fs.promises.chmod('/a', 0o755),
        () => session.fs.promises.utimes('/a', 5, 5),
        () => write('/a', 'two'),
      ]) {
        rmSync(onDisk('a'))
        linkSync(outside, onDisk('a'))
        await change()
        await checkout.update({ force: true })
        expect(seen()).toEqual(before)
        await expectSame()
      }
      expect([statSync(outside).nlink, statSync(onDisk('a')).nlink]).toEqual([1, 1])
    })

    test('adds no name to a file that has names elsewhere', async () => {
      await session.files.link({ srcPath: '/a', dstPath: '/d/c' })
      const checkout = await session.checkout(target)
      const outside = join(scratch, 'outside')
      writeFileSync(outside, 'one')
      chmodSync(outside, 0o644)
      for (const path of ['a', 'd/c']) {
        rmSync(onDisk(path))
        linkSync(outside, onDisk(path))
      }
      await session.files.link({ srcPath: '/a', dstPath: '/e' })
      await checkout.update({ force: true })
      expect(statSync(onDisk('e')).ino).not.toBe(statSync(outside).ino)
      expect(statSync(outside).nlink).toBeLessThanOrEqual(3)
      expect(diskText('e')).toBe('one')
    })

    test('keeps one file while its names change', async () => {
      const checkout = await session.checkout(target)
      const names = ['/a', '/b', '/d/c', '/z']
      const inos = (): number =>
        new Set(
          readdirSync(target)
            .filter((name) => name !== 'd')
            .map((name) => statSync(onDisk(name)).ino),
        ).size
      for (const [from, to] of [
        [0, 3],
        [3, 1],
        [1, 2],
        [2, 0],
      ] as const) {
        await session.files.link({ srcPath: names[from]!, dstPath: names[to]! }).catch(() => undefined)
        await checkout.update()
        await session.files.unlink({ path: names[from]! })
        await checkout.update()
        expect(inos()).toBeLessThanOrEqual(1)
        await expectSame()
      }
    })

    test('leaves a directory alone that was changed on disk', async () => {
      const checkout = await session.checkout(target)
      await write('/a', 'two')
      await write('/d/x', 'changed')
      await write('/new', 'new')
      edit('d/x', 'by hand')
      const before = hostFiles(target)
      expect(await modifiedPath(checkout.update())).toBe('/d/x')
      expect(await modifiedPath(session.checkout(target))).toBe('/d/x')
      expect(hostFiles(target)).toEqual(before)
      expect(await checkout.update({ force: true })).toEqual({ written: 3, removed: 0 })
      await expectSame()
    })

    test.each<[string, () => Promise<unknown>, () => void, string]>([
      ['written and removed by hand', () => write('/a', 'two'), () => rmSync(onDisk('a')), '/a'],
      ['removed and changed by hand', () => session.files.delete({ path: '/a' }), () => edit('a', '2'), '/a'],
      ['new and made by hand', () => write('/n', 'session'), () => edit('n', 'hand'), '/n'],
      [
        'removed but has a new file in it',
        () => session.fs.promises.rm('/d', { recursive: true }),
        () => writeFileSync(onDisk('d/e/more'), ''),
        '/d/e/more',
      ],
      [
        'in a directory that was replaced with a symlink',
        () => write('/d/x', 'two'),
        () => {
          renameSync(onDisk('d'), join(root, 'moved'))
          symlinkSync(join(root, 'moved'), onDisk('d'))
        },
        '/d/x',
      ],
      ['of another mode', () => write('/a', 'two'), () => chmodSync(onDisk('a'), 0o600), '/a'],
      [
        'a directory of another mode',
        () => session.files.setMode({ path: '/d', mode: 0o700 }),
        () => chmodSync(onDisk('d'), 0o770),
        '/d',
      ],
    ])('refuses a path that is %s', async (_case, change, byHand, path) => {
      const checkout = await session.checkout(target)
      await change()
      byHand()
      const before = hostFiles(target)
      expect(await modifiedPath(checkout.update())).toBe(path)
      expect(hostFiles(target)).toEqual(before)
      await checkout.update({ force: true })
      for (const [name, what] of Object.entries(await sessionFiles(session)))
        expect([name, hostFiles(target)[name]]).toEqual([name, what])
    })

    test('accepts equal changes on both sides', async () => {
      const checkout = await session.checkout(target)
      await write('/a', 'same')
      await session.files.delete({ path: '/d/x' })
      await write('/n/o', 'o')
      edit('a', 'same')
      rmSync(onDisk('d/x'))
      mkdirSync(onDisk('n'))
      writeFileSync(onDisk('n/o'), 'o')
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      await expectSame()
    })

    test('overwrites a file that was only touched', async () => {
      const checkout = await session.checkout(target)
      later('a')
      await write('/a', 'two')
      expect(await checkout.update()).toEqual({ written: 1, removed: 0 })
      expect(diskText('a')).toBe('two')
    })

    test('detects a change that keeps size and time', async () => {
      const checkout = await session.checkout(target)
      const { atimeMs, mtimeMs } = statSync(onDisk('a'))
      writeFileSync(onDisk('a'), 'two')
      utimesSync(onDisk('a'), atimeMs / 1000, mtimeMs / 1000)
      expect(await checkout.sync()).toEqual({ added: [], modified: ['/a'], removed: [] })
    })

    test('refuses a directory that is not empty, and with force replaces only the entries in the way', async () => {
      mkdirSync(onDisk('a/in'), { recursive: true })
      writeFileSync(onDisk('a/in/way'), '')
      writeFileSync(onDisk('mine'), 'mine')
      mkdirSync(onDisk('d'))
      writeFileSync(onDisk('d/x'), 'x')
      chmodSync(onDisk('d/x'), 0o644)
      const inode = statSync(onDisk('d/x')).ino
      expect(await modifiedPath(session.checkout(target))).toBe('/a')
      await session.checkout(target, { force: true })
      expect(statSync(onDisk('d/x')).ino).toBe(inode)
      expect(hostFiles(target)).toEqual({ ...(await sessionFiles(session)), '/mine': 'file 644 mine' })
      const checkout = await session.checkout(target)
      expect(await checkout.sync()).toEqual({ added: ['/mine'], modified: [], removed: [] })
    })

    test('recreates a directory that was emptied or removed', async () => {
      const checkout = await session.checkout(target)
      rmSync(target, { recursive: true })
      expect((await checkout.update()).written).toBe(5)
      await expectSame()
      for (const name of readdirSync(target)) rmSync(onDisk(name), { recursive: true })
      await reload()
      await session.checkout(target)
      await expectSame()
    })

    test('completes an interrupted write with the next one', async () => {
      for (let i = 0; i < 40; i++) await write(`/many/${i}`, 'x'.repeat(i))
      for (const stopAt of [8, 20]) {
        const stop = new AbortController()
        const stopped = session.checkout(target, {
          signal: stop.signal,
          onProgress: ({ filesProcessed }) => {
            if (filesProcessed >= stopAt) stop.abort(new Error('stop'))
          },
        })
        await expect(stopped).rejects.toThrow('stop')
        writeFileSync(onDisk('many/.forkspace-0123456789abcdef.tmp'), 'half')
        await reload()
        for (let i = 0; i < 40; i += 3) await write(`/many/${i}`, `again ${stopAt}`)
        await session.files.delete({ path: `/many/${stopAt}` })
      }
      const checkout = await session.checkout(target)
      await expectSame()
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
    })

    test('refuses to sync after an interrupted write', async () => {
      const checkout = await session.checkout(target)
      await write('/a', 'two')
      const stop = new AbortController()
      const onProgress = (): void => stop.abort(new Error('stop'))
      await write('/z', 'z')
      await expect(checkout.update({ signal: stop.signal, onProgress })).rejects.toThrow('stop')
      expect(await modifiedPath(checkout.sync())).toBe('/')
      await checkout.update()
      await expectSame()
    })

    test('changes nothing with an aborted signal', async () => {
      const reason = new Error('no')
      await expect(session.checkout(target, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
      expect(existsSync(target)).toBe(false)
    })

    test('rejects paths outside the roots', async () => {
      for (const place of [join(scratch, 'other'), scratch, join(root, '..', 'other'), '/'])
        expect(await reasonOf(session.checkout(place))).toBe('HOST_PATH_NOT_ALLOWED')
      symlinkSync(scratch, join(root, 'out'))
      expect(await reasonOf(session.checkout(join(root, 'out', 'other')))).toBe('HOST_PATH_NOT_ALLOWED')
      expect(await reasonOf(session.checkout('work'))).toBe('INVALID_ARGUMENT')
      expect(existsSync(join(scratch, 'other'))).toBe(false)
    })

    test.each([
      '/.git/config',
      '/d/.GIT/config',
      '/d/git~1',
      '/.g\u200cit/config',
      '/.git ',
      '/\ufeff.git/x',
    ])('refuses %j with UNSAFE_PATH and writes nothing', async (path) => {
      await session.fs.promises.mkdir(join(path, '..'), { recursive: true })
      await write(path, 'x')
      for (const force of [false, true]) {
        expect(await reasonOf(session.checkout(target, { force }))).toBe('UNSAFE_PATH')
        expect(existsSync(target) ? readdirSync(target) : []).toEqual([])
      }
    })

    test('refuses a symlink .gitmodules with UNSAFE_PATH but writes a file of that name', async () => {
      await session.files.createSymlink({ linkPath: '/d/.gitmodules', target: 'x' })
      expect(await reasonOf(session.checkout(target))).toBe('UNSAFE_PATH')
      await session.fs.promises.unlink('/d/.gitmodules')
      await write('/d/.gitmodules', 'x')
      await session.checkout(target)
      await expectSame()
    })

    test('refuses a new unsafe path in an update and writes nothing else', async () => {
      const checkout = await session.checkout(target)
      const before = hostFiles(target)
      await write('/a', 'changed')
      await write('/z', 'new')
      await write('/d/.git/config', 'x')
      expect(await reasonOf(checkout.update())).toBe('UNSAFE_PATH')
      expect(await reasonOf(checkout.update({ force: true }))).toBe('UNSAFE_PATH')
      expect(hostFiles(target)).toEqual(before)
      await session.fs.promises.rm('/d/.git', { recursive: true })
      await checkout.update()
      await expectSame()
    })

    test.each(['/..\\x', '/C:x', '/d/con', '/d/NUL.txt', '/end.'])(
      'refuses %j with UNSAFE_PATH on Windows and writes nothing',
      async (path) => {
        await session.fs.promises.mkdir('/d', { recursive: true })
        const checkout = await session.checkout(target)
        const before = hostFiles(target)
        await write(path, 'x')
        const { platform } = process
        Object.defineProperty(process, 'platform', { value: 'win32' })
        try {
          expect(await reasonOf(checkout.update())).toBe('UNSAFE_PATH')
          expect(await reasonOf(checkout.update({ force: true }))).toBe('UNSAFE_PATH')
          expect(hostFiles(target)).toEqual(before)
        } finally {
          Object.defineProperty(process, 'platform', { value: platform })
        }
        await checkout.update()
        await expectSame()
      },
    )

    test('writes and syncs every name with allowGitNames', async () => {
      await engine.close()
      await open(true)
      session = await engine.sessions.create({ files: { '/.git/config': 'x', '/a': 'one' } })
      const checkout = await session.checkout(target)
      await expectSame()
      edit('.git/config', 'y')
      expect((await checkout.sync()).modified).toEqual(['/.git/config'])
      await expectSame()
      if (!lasting) return
      // Unsafe names stay unchanged after the engine is opened without the option.
      await reload()
      const again = await session.checkout(target)
      await again.update()
      // This would write all names.
      expect(await reasonOf(again.update({ force: true }))).toBe('UNSAFE_PATH')
      await write('/.git/hooks', 'z')
      expect(await reasonOf(again.update())).toBe('UNSAFE_PATH')
      edit('.git/config', 'z')
      expect(await reasonOf(again.sync())).toBe('UNSAFE_PATH')
      expect(diskText('.git/config')).toBe('z')
    })

    test('does not follow a symlink in the way', async () => {
      const outside = join(scratch, 'outside')
      mkdirSync(outside)
      writeFileSync(join(outside, 'x'), 'outside')
      mkdirSync(target)
      symlinkSync(outside, onDisk('d'))
      symlinkSync(join(outside, 'x'), onDisk('a'))
      await session.checkout(target, { force: true })
      await expectSame()
      expect(hostFiles(outside)).toEqual({ '/x': expect.stringContaining('outside') as string })
    })

    test('needs permission to read for update and to change for sync', async () => {
      const checkout = await session.checkout(target)
      refuse = ['applyBatch']
      await checkout.update()
      expect(await reasonOf(checkout.sync())).toBe('PERMISSION_DENIED')
      refuse = ['getManifest']
      expect(await reasonOf(checkout.update())).toBe('PERMISSION_DENIED')
      expect(await reasonOf(session.checkout(target))).toBe('PERMISSION_DENIED')
      await checkout.sync()
    })

    test('stops writing when the engine is closed', async () => {
      for (let i = 0; i < 50; i++) await write(`/many/${i}`, 'x')
      const running = session.checkout(target)
      const failing = reasonOf(running)
      await engine.close()
      expect(await failing).toBe('STORE_CLOSED')
      await open()
      if (lasting) await (await engine.sessions.open(session.id)).checkout(target)
    })
  })

  describe('sync', () => {
    let checkout: Checkout

    beforeEach(async () => {
      await session.files.createSymlink({ linkPath: '/l', target: 'a' })
      checkout = await session.checkout(target)
    })

    test('applies all changes as one event', async () => {
      const before = await eventCount()
      edit('a', 'by hand')
      mkdirSync(onDisk('n/m'), { recursive: true })
      writeFileSync(onDisk('n/m/o'), Buffer.from([0, 255, 1]))
      rmSync(onDisk('d/e'), { recursive: true })
      chmodSync(onDisk('d/x'), 0o755)
      chmodSync(onDisk('d'), 0o700)
      rmSync(onDisk('l'))
      symlinkSync('d', onDisk('l'))
      symlinkSync('/nowhere', onDisk('l2'))
      const result = await checkout.sync()
      expect(result).toEqual({
        added: ['/l2', '/n', '/n/m', '/n/m/o'],
        modified: ['/a', '/d', '/d/x', '/l'],
        removed: ['/d/e', '/d/e/y'],
      })
      expect(await eventCount()).toBe(before + 1)
      const { events } = await session.events.list()
      expect(events.at(-1)).toMatchObject({
        eventType: 'v1.FileSystemService.ApplyBatch',
        details: { operationCount: 9 },
      })
      await expectSame()
      expect((await session.fs.promises.stat('/a')).mtimeMs).toBe(timeOf(onDisk('a')))
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      expect(await eventCount()).toBe(before + 1)
      await reload()
      await expectSame()
      expect((await session.checkout(target)).initial).toEqual({ written: 0, removed: 0 })
    })

    test('applies changes of kind', async () => {
      rmSync(onDisk('d'), { recursive: true })
      writeFileSync(onDisk('d'), 'a file')
      rmSync(onDisk('a'))
      mkdirSync(onDisk('a'))
      writeFileSync(onDisk('a/in'), 'in')
      expect(await checkout.sync()).toEqual({
        added: ['/a', '/a/in', '/d'],
        modified: [],
        removed: ['/a', '/d', '/d/e', '/d/e/y', '/d/x'],
      })
      await expectSame()
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
    })

    test.each(['.git/config', 'd/.GIT', 'git~1'])(
      'refuses %j with UNSAFE_PATH and changes nothing in the session',
      async (path) => {
        const checkout = await session.checkout(target)
        const before = await sessionFiles(session)
        mkdirSync(join(onDisk(path), '..'), { recursive: true })
        edit(path, 'x')
        edit('a', 'changed')
        expect(await reasonOf(checkout.sync())).toBe('UNSAFE_PATH')
        expect(await sessionFiles(session)).toEqual(before)
        rmSync(onDisk(path.split('/')[0] === 'd' ? path : path.split('/')[0]!), { recursive: true })
        await checkout.sync()
        await expectSame()
      },
    )

    test('refuses a symlink .gitmodules with UNSAFE_PATH', async () => {
      const checkout = await session.checkout(target)
      symlinkSync('a', onDisk('.gitmodules'))
      expect(await reasonOf(checkout.sync())).toBe('UNSAFE_PATH')
    })

    test('adds no event without changes', async () => {
      const before = await eventCount()
      later('a')
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      expect(await eventCount()).toBe(before)
    })

    test('keeps other changes of the session for the next update', async () => {
      await write('/d/x', 'session')
      await write('/d/new', 'session')
      edit('a', 'hand')
      writeFileSync(onDisk('d/e/z'), 'hand')
      expect(await checkout.sync()).toEqual({ added: ['/d/e/z'], modified: ['/a'], removed: [] })
      expect(Buffer.from(await session.files.read({ path: '/d/x' })).toString()).toBe('session')
      expect(diskText('d/x')).toBe('x')
      expect(await checkout.update()).toEqual({ written: 2, removed: 0 })
      await expectSame()
    })

    test.each<[string, () => Promise<unknown>, () => void, string]>([
      ['a file that both changed', () => write('/a', 'session'), () => edit('a', 'hand'), '/a'],
      [
        'a file that the session changed and the disk removed',
        () => write('/a', 's'),
        () => rmSync(onDisk('a')),
        '/a',
      ],
      [
        'a file that the session removed and the disk changed',
        () => session.files.delete({ path: '/a' }),
        () => edit('a', 'hand'),
        '/a',
      ],
      ['a file that both sides created', () => write('/n', 'session'), () => edit('n', 'hand'), '/n'],
      [
        'a directory with session changes in it',
        () => write('/d/e/new', 'session'),
        () => rmSync(onDisk('d'), { recursive: true }),
        '/d',
      ],
      [
        'a directory that the session removed',
        () => session.fs.promises.rm('/d', { recursive: true }),
        () => writeFileSync(onDisk('d/hand'), ''),
        '/d/hand',
      ],
      [
        'a directory that the session replaced with a symlink',
        async () => {
          await session.files.rename({ sourcePath: '/d', destinationPath: '/moved' })
          await session.files.createSymlink({ linkPath: '/d', target: '/moved' })
        },
        () => writeFileSync(onDisk('d/hand'), ''),
        '/d/hand',
      ],
      [
        'a mode',
        () => session.files.setMode({ path: '/a', mode: 0o600 }),
        () => chmodSync(onDisk('a'), 0o666),
        '/a',
      ],
    ])('refuses %s', async (_case, change, byHand, path) => {
      await change()
      byHand()
      writeFileSync(onDisk('0'), 'another')
      const [files, events] = [await sessionFiles(session), await eventCount()]
      expect(await modifiedPath(checkout.sync())).toBe(path)
      expect(await sessionFiles(session)).toEqual(files)
      expect(await eventCount()).toBe(events)
    })

    test('accepts equal changes on both sides without an event', async () => {
      await write('/a', 'same')
      await write('/n/o', 'o')
      await session.fs.promises.rm('/d/e', { recursive: true })
      edit('a', 'same')
      mkdirSync(onDisk('n'))
      writeFileSync(onDisk('n/o'), 'o')
      rmSync(onDisk('d/e'), { recursive: true })
      const before = await eventCount()
      await checkout.sync()
      expect(await eventCount()).toBe(before)
      await expectSame()
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
    })

    test('applies hard links', async () => {
      linkSync(onDisk('a'), onDisk('b'))
      linkSync(onDisk('a'), onDisk('d/c'))
      await checkout.sync()
      expect((await session.fs.promises.stat('/a')).nlink).toBe(3)
      edit('b', 'through one name')
      expect(await checkout.sync()).toEqual({ added: [], modified: ['/a', '/b', '/d/c'], removed: [] })
      await expectSame()
      expect((await session.fs.promises.stat('/a')).nlink).toBe(3)
      writeFileSync(onDisk('tmp'), 'a file of its own')
      renameSync(onDisk('tmp'), onDisk('a'))
      expect(await checkout.sync()).toEqual({ added: [], modified: ['/a'], removed: [] })
      await expectSame()
      expect((await session.fs.promises.stat('/b')).nlink).toBe(2)
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      await write('/d/c', 'from the session')
      await checkout.update()
      await expectSame()
    })

    test('keeps extended attributes', async () => {
      await session.files.setXattr({ path: '/a', name: 'user.x', value: new Uint8Array([1]) })
      await session.files.setXattr({ path: '/d', name: 'user.y', value: new Uint8Array([2]) })
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      await checkout.update({ force: true })
      edit('a', 'by hand')
      chmodSync(onDisk('d'), 0o711)
      await checkout.sync()
      expect(await session.files.listXattrs({ path: '/a' })).toEqual({ names: ['user.x'] })
      expect(await session.files.listXattrs({ path: '/d' })).toEqual({ names: ['user.y'] })
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
    })

    test('works while the session is written', async () => {
      for (let round = 0; round < 5; round++) {
        edit('a', `hand ${round}`)
        const writing = Array.from({ length: 20 }, (_, i) => write(`/s${i}`, `${round}`))
        await checkout.sync()
        await Promise.all(writing)
      }
      expect(Buffer.from(await session.files.read({ path: '/a' })).toString()).toBe('hand 4')
      await checkout.update()
      await expectSame()
    })

    test('fails with HOST_PATH_NOT_FOUND if the directory is missing', async () => {
      rmSync(target, { recursive: true })
      expect(await reasonOf(checkout.sync())).toBe('HOST_PATH_NOT_FOUND')
    })

    test('fails with SESSION_NOT_FOUND for a deleted session', async () => {
      await session.delete()
      expect(await reasonOf(checkout.sync())).toBe('SESSION_NOT_FOUND')
      expect(await reasonOf(checkout.update())).toBe('SESSION_NOT_FOUND')
    })
  })

  test.each(['removed', 'replaced by another file'])(
    'a sync reads the other names of a hard link that is %s while it runs',
    async (change) => {
      const host = createHost({ roots: [root] })
      let onList = (): void => undefined
      const opened = await createEngine({
        storage: memoryStorage(),
        environment: systemEnvironment,
        host: () =>
          Promise.resolve({
            ...host,
            open: async (...args) => {
              const tree = await host.open(...args)
              const list = tree.list.bind(tree)
              return Object.assign(tree, {
                list: async (path: string) => {
                  const listed = await list(path)
                  onList()
                  return listed
                },
              })
            },
          }),
      })
      try {
        const linked = await opened.sessions.create({ files: { '/a': 'old', '/d/x': 'x' } })
        const checkout = await linked.checkout(target)
        edit('a', 'new')
        linkSync(onDisk('a'), onDisk('b'))
        linkSync(onDisk('a'), onDisk('d/c'))
        writeFileSync(onDisk('n'), 'other')
        linkSync(onDisk('n'), onDisk('o'))
        onList = () => {
          onList = () => undefined
          for (const name of ['a', 'n']) {
            rmSync(onDisk(name), { force: true })
            if (change !== 'removed') writeFileSync(onDisk(name), 'another file')
          }
        }
        await checkout.sync()
        expect(hostFiles(target)).toEqual(await sessionFiles(linked))
      } finally {
        await opened.close()
      }
    },
  )

  test(`makes both sides equal after any changes (FORKSPACE_SEED=${seed})`, async () => {
    const random = randomWords(seed)
    const names = ['a', 'b', 'c', 'd']
    const anyPath = (): string =>
      `/${Array.from({ length: 1 + (random() % 3) }, () => names[random() % names.length]!).join('/')}`
    const { promises } = session.fs
    const quiet = (change: () => unknown): unknown => {
      try {
        return change()
      } catch {
        return undefined
      }
    }
    for (const path of ['/a', '/d']) await promises.rm(path, { recursive: true })
    const checkout = await session.checkout(target)
    for (let round = 0; round < 60; round++) {
      for (let step = random() % 6; step > 0; step--) {
        const [path, other] = [anyPath(), anyPath()]
        const content = `${random() % 3}`
        const bySession = [
          () => promises.writeFile(path, content),
          () => promises.mkdir(path),
          () => promises.rm(path, { recursive: true }),
          () => promises.symlink(content, path),
          () => promises.link(path, other),
          () => promises.rename(path, other),
          () => promises.chmod(path, random() % 2 === 0 ? 0o755 : 0o700),
        ]
        await bySession[random() % bySession.length]!().catch(() => undefined)
      }
      await checkout.update()
      await expectSame()
      for (let step = random() % 6; step > 0; step--) {
        const [path, other] = [anyPath(), anyPath()]
        const content = `${random() % 3}`
        const byHand = [
          () => writeFileSync(onDisk(path), content),
          () => mkdirSync(onDisk(path)),
          () => rmSync(onDisk(path), { recursive: true }),
          () => symlinkSync(content, onDisk(path)),
          () => linkSync(onDisk(path), onDisk(other)),
          () => renameSync(onDisk(path), onDisk(other)),
          () =>
            lstatSync(onDisk(path)).isSymbolicLink() ||
            chmodSync(onDisk(path), random() % 2 === 0 ? 0o755 : 0o700),
        ]
        quiet(byHand[random() % byHand.length]!)
      }
      if (round % 20 === 19) {
        await reload()
        await (await session.checkout(target, { force: true })).sync()
        await expectSame()
        return
      }
      await checkout.sync()
      await expectSame()
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
    }
  })
})
