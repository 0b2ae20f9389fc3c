// oxlint-disable vitest/expect-expect -- `same` does.
import * as nodeFs from 'node:fs'
import { constants } from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine } from '../../../src/index.js'
import { Sides, type At, type Form } from '../../support/fs-sides.js'
import { isNewerCall } from '../../support/newer-node.js'

function setUp(fs: typeof nodeFs, at: At): void {
  fs.mkdirSync(at('/dir/sub'), { recursive: true })
  fs.mkdirSync(at('/to'))
  for (const [index, path] of ['/file', '/dir/a', '/dir/b', '/dir/sub/c'].entries()) {
    fs.writeFileSync(at(path), path, { mode: 0o640 })
    fs.utimesSync(at(path), 1000 + index, 2000 + index)
  }
  fs.chmodSync(at('/dir/b'), 0o444)
  fs.chmodSync(at('/dir/sub'), 0o700)
  fs.symlinkSync('a', at('/dir/to-a'))
  fs.symlinkSync('../dir/sub', at('/dir/to-sub'))
  fs.symlinkSync(at('/file'), at('/dir/absolute'))
}

/** Invalid options, whose error messages must also match Node's. */
const wrongOptions: readonly unknown[] = [
  null,
  5,
  'x',
  [],
  { recursive: 1 },
  { force: null },
  { mode: 8 },
  { mode: 1.5 },
  { mode: 'x' },
  { filter: 1 },
  { filter: null },
  { dereference: true, verbatimSymlinks: true },
]

describe.each([['promise'], ['callback'], ['sync']] as [Form][])('cp like on disk, by %s:', (form) => {
  const sides = new Sides(form, false)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(async () => {
    await sides.begin()
    setUp(nodeFs, sides.onDisk)
    setUp(sides.fs, (path) => path)
  })
  afterEach(() => sides.end())

  test
    .skipIf(isNewerCall('cp'))
    .each([
      [{}],
      [{ dereference: true }],
      [{ verbatimSymlinks: true }],
      [{ force: false }],
      [{ mode: constants.COPYFILE_EXCL }],
      [{ mode: constants.COPYFILE_FICLONE }],
    ])('a tree with links, with %j', async (options) => {
    await sides.same('new', (fs, at) =>
      fs.cp(at('/dir'), at('/made/on/the/way'), { recursive: true, ...options }),
    )
    await sides.same('into', (fs, at) => fs.cp(at('/dir'), at('/to'), { recursive: true, ...options }))
    await sides.same('change', (fs, at) => fs.writeFile(at('/to/a'), 'other', { mode: 0o600 }))
    // Links with equal targets are rejected, unless they are kept or followed.
    await sides.same('again', (fs, at) => fs.cp(at('/dir/a'), at('/to/a'), { recursive: true, ...options }))
    await sides.same('link', (fs, at) => fs.cp(at('/dir/to-a'), at('/to/to-a'), options))
  })

  test('a filter selects entries, and is called for parents first', async () => {
    await sides.same('filter', async (fs, at) => {
      const asked: string[] = []
      const filter = (from: string, to: string): boolean => {
        asked.push(from, to)
        return !from.endsWith('/a') && !from.endsWith('sub')
      }
      await fs.cp(`${at('/dir')}//`, at('/to/../new'), { recursive: true, filter })
      return [asked[0], asked.sort()]
    })
    await sides.same('nothing', (fs, at) => fs.cp(at('/none'), at('/to/x'), { filter: () => false }))
    await sides.same('its error', (fs, at) =>
      fs.cp(at('/dir'), at('/to'), {
        recursive: true,
        filter: () => {
          throw new RangeError('no')
        },
      }),
    )
  })

  test('a filter that is a method uses other properties of the options', async () => {
    await sides.same('method', (fs, at) => {
      const options = {
        recursive: true,
        skipped: 'a',
        filter(this: { skipped?: string }, from: string): boolean {
          return !from.endsWith(`/${this.skipped}`)
        },
      }
      return fs.cp(at('/dir'), at('/new'), options)
    })
  })

  test('an asynchronous filter', async () => {
    await sides.same('filter', (fs, at) =>
      fs.cp(at('/dir'), at('/new'), { recursive: true, filter: async (from) => !from.endsWith('/a') }),
    )
    if (form === 'sync') return
    await sides.same('rejects', (fs, at) =>
      fs.cp(at('/dir'), at('/to'), { filter: () => Promise.reject(new RangeError('no')) }),
    )
  })

  test.skipIf(isNewerCall('cp'))('times', async () => {
    const times = (names: readonly string[]) =>
      sides.same('times', (fs, at) =>
        Promise.all(names.map(async (name) => (await fs.stat(at(name))).mtimeMs)),
      )
    await sides.same('with', (fs, at) =>
      fs.cp(at('/dir'), at('/kept'), { recursive: true, preserveTimestamps: true, dereference: true }),
    )
    await times(['/kept/a', '/kept/b', '/kept/sub/c', '/kept/to-a', '/kept/to-sub/c', '/kept/absolute'])
    await sides.same('without', (fs, at) => fs.cp(at('/file'), at('/to/file')))
    await sides.same('is new', async (fs, at) => (await fs.stat(at('/to/file'))).mtimeMs > 1_000_000_000)
  })

  test('errorOnExist has no effect with force', async () => {
    await sides.same('force', (fs, at) => fs.cp(at('/file'), at('/dir/a'), { errorOnExist: true }))
    await sides.same('no force', (fs, at) =>
      fs.cp(at('/file'), at('/dir/a'), { errorOnExist: true, force: false }),
    )
  })

  test.skipIf(isNewerCall('cp'))('symlinks that point into each other', async () => {
    await sides.sameFs('setup', (fs, at) => {
      fs.symlinkSync(at('/dir'), at('/outer'))
      fs.symlinkSync(at('/dir/sub'), at('/inner'))
      fs.symlinkSync('dir', at('/relative'))
      fs.symlinkSync('dir', at('/same'))
    })
    const links = ['/outer', '/inner', '/relative', '/same']
    for (const from of links) {
      for (const to of links) {
        await sides.same(`${from} to ${to}`, (fs, at) => fs.cp(at(from), at(to)))
        await sides.same(`${from} kept, to ${to}`, (fs, at) =>
          fs.cp(at(from), at(to), { verbatimSymlinks: true }),
        )
      }
    }
  })

  test.skipIf(isNewerCall('cp'))('into itself', async () => {
    await sides.same('setup', (fs, at) => fs.symlink('dir', at('/dirlink')))
    for (const [from, to] of [
      ['/dir', '/dir'],
      ['/dir', '/dir/'],
      ['/dir', '/dir/x'],
      ['/dir', '/dir/sub/x/y'],
      ['/dir', '/dirlink/sub/x'],
      ['/dirlink/', '/dir/x'],
      ['/dirlink', '/dir/sub/x'],
      ['/dir/sub', '/dir/sub2'],
    ] as const) {
      await sides.same(`${from} to ${to}`, (fs, at) => fs.cp(at(from), at(to), { recursive: true }))
      await sides.same(`what ${from} leads to, to ${to}`, (fs, at) =>
        fs.cp(at(from), at(to), { recursive: true, dereference: true }),
      )
    }
  })

  test.skipIf(isNewerCall('cp'))('trailing slashes and dangling symlinks', async () => {
    await sides.same('setup', (fs, at) => fs.symlink('nowhere', at('/dangling')))
    for (const [from, to] of [
      ['/dir/', '/new/'],
      ['/file', '/new2/'],
      ['/file/', '/new3'],
      ['/file', '/dir/a/'],
      ['/file', '/dangling/'],
      ['/file', '/dangling'],
      ['/file', '/dangling/x'],
      ['/dir', '/dangling/x'],
    ] as const) {
      for (const mode of [0, constants.COPYFILE_EXCL]) {
        const options = { recursive: true, dereference: true, mode }
        await sides.same(`${from} to ${to}`, (fs, at) => fs.cp(at(from), at(to), options))
        await sides.same(`copyFile ${from} to ${to}`, async (fs, at) =>
          from.startsWith('/dir') ? undefined : fs.copyFile(at(from), at(to), mode),
        )
      }
    }
  })

  test.each(wrongOptions.map((options) => [options]))('wrong options: %j', (options) =>
    sides.same('refused', (fs, at) => fs.cp(at('/file'), at('/new'), options as object)),
  )
})

describe('cp on sessions only:', () => {
  const sides = new Sides('promise', false)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(async () => {
    await sides.begin()
    setUp(sides.fs, (path) => path)
  })
  afterEach(() => sides.end())

  test('makes one event for 1,000 steps, and lets others go on after each', async () => {
    const storage = memoryStorage()
    const opened = storage.open()
    const engine = await openEngine({ storage: { open: () => opened } })
    const session = await engine.sessions.create()
    const { fs } = session
    const seq = async (): Promise<number> => {
      await session.flush()
      return (await (await opened).lastEvent(session.id))!.seq
    }
    fs.mkdirSync('/many/deep', { recursive: true })
    for (let i = 0; i < 2200; i++) fs.writeFileSync(i % 2 === 0 ? `/many/${i}` : `/many/deep/${i}`, `${i}`)
    const before = await seq()
    const turns: number[] = []
    let isCopying = true
    const turn = (): void => {
      if (!isCopying) return
      turns.push(fs.existsSync('/later') ? fs.readdirSync('/later', { recursive: true }).length : 0)
      setImmediate(turn)
    }
    setImmediate(turn)
    await fs.promises.cp('/many', '/later', { recursive: true })
    isCopying = false
    expect(await seq()).toBe(before + 3)
    expect(new Set(turns).size).toBeGreaterThanOrEqual(3)
    fs.cpSync('/many', '/now', { recursive: true })
    expect(await seq()).toBe(before + 6)
    fs.cpSync('/many/deep', '/one', { recursive: true })
    expect(await seq()).toBe(before + 8)
    for (const copy of ['/later', '/now']) {
      expect(fs.readdirSync(copy, { recursive: true })).toHaveLength(2201)
      expect(fs.readFileSync(`${copy}/deep/2199`, 'utf8')).toBe('2199')
    }
    await engine.close()
  })

  test('checks everything first and changes nothing on failure', async () => {
    const { fs } = sides
    fs.writeFileSync('/to/b', 'there')
    const options = { recursive: true, force: false, errorOnExist: true }
    await expect(fs.promises.cp('/dir', '/to', options)).rejects.toMatchObject({ code: 'ERR_FS_CP_EEXIST' })
    expect(() => fs.cpSync('/dir', '/to', options)).toThrow(
      expect.objectContaining({ code: 'ERR_FS_CP_EEXIST', path: '/to/b' }),
    )
    expect(() => fs.cpSync('/dir', '/missing/x')).toThrow(expect.objectContaining({ code: 'ERR_FS_EISDIR' }))
    expect(fs.readdirSync('/to')).toEqual(['b'])
    expect(fs.existsSync('/missing')).toBe(false)
  })

  test('fails with the error of a missing source file and copies nothing', async () => {
    const { fs } = sides
    const filter = async (from: string): Promise<boolean> => {
      if (from === '/dir/to-a') await fs.promises.unlink('/dir/a')
      return true
    }
    await expect(fs.promises.cp('/dir', '/new', { recursive: true, filter })).rejects.toMatchObject({
      code: 'ENOENT',
      syscall: 'copyfile',
      path: '/dir/a',
      dest: '/new/a',
    })
    expect(fs.existsSync('/new')).toBe(false)
  })

  test('reports the error of the source if both ends fail', async () => {
    const { fs } = sides
    await expect(fs.promises.cp('/none', '/file/x')).rejects.toMatchObject({ code: 'ENOENT', path: '/none' })
    await expect(
      new Promise((_resolve, reject) => {
        fs.cp('/none', '/file/x', reject)
      }),
    ).rejects.toMatchObject({ code: 'ENOENT', path: '/none' })
  })

  test('copyFile rejects a directory and keeps the file', async () => {
    const { fs } = sides
    await expect(fs.promises.copyFile('/dir', '/file')).rejects.toMatchObject({ code: 'EISDIR' })
    expect(fs.readFileSync('/file', 'utf8')).toBe('/file')
  })

  test('a copy is a separate file', () => {
    const { fs } = sides
    fs.cpSync('/file', '/copy')
    fs.writeFileSync('/copy', 'other')
    expect(fs.readFileSync('/file', 'utf8')).toBe('/file')
    expect(() => fs.cpSync('/', '/to/all', { recursive: true })).toThrow(
      expect.objectContaining({ code: 'ERR_FS_CP_EINVAL', path: '/to/all' }),
    )
  })
})
