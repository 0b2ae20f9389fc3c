// oxlint-disable vitest/expect-expect -- `same` does.
import * as nodeFs from 'node:fs'
import { constants } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type EngineError, type Session } from '../../../src/index.js'
import { Sides, type At, type Form, type Promises } from '../../support/fs-sides.js'
import { isNewerCall } from '../../support/newer-node.js'
import { isLong } from '../../support/seed.js'

/** Intentional differences, which the README of src/engine/fs also lists. */
const differences: readonly (readonly [reason: string, cases: RegExp, forms?: readonly Form[]])[] = [
  ['Node removes the file', /^copyFile \/(dir|dirlink|other) to \/(file|dir\/a|link|dangling)$/],
  ['Node makes /none, then refuses', /^cp \/(dir|other) to \/none\/x$/],
  ['Node has copied /dir/sub when it finds /other/a', /^cp where nothing is \/dir to \/other$/],
  [
    'in Node either end may fail first',
    /^((recursive|verbatim) )?cp( without force| where nothing is)? \/(none|none\/x|dir\/sub\/new) to \/file\/x$/,
    ['promise', 'callback'],
  ],
  [
    'in Node either end may fail first',
    /^cp of what it leads to \/(none|none\/x|dir\/sub\/new|dangling|loop) to \/file\/x$/,
    ['promise', 'callback'],
  ],
  [
    'in Node either end may fail first',
    /^cp of what it leads to \/(none|none\/x|file\/x|dir\/sub\/new|dangling) to \/loop$/,
    ['promise', 'callback'],
  ],
]

function differs(name: string, form: Form): boolean {
  return (
    isNewerCall(name) ||
    differences.some(([, cases, forms]) => cases.test(name) && (forms?.includes(form) ?? true))
  )
}

function setUp(fs: typeof nodeFs, at: At): void {
  fs.writeFileSync(at('/file'), 'content', { mode: 0o640 })
  fs.mkdirSync(at('/dir/sub'), { recursive: true })
  fs.writeFileSync(at('/dir/sub/deep'), 'deep')
  fs.writeFileSync(at('/dir/a'), 'a')
  fs.mkdirSync(at('/other'))
  fs.writeFileSync(at('/other/a'), 'b')
  fs.symlinkSync('file', at('/link'))
  fs.symlinkSync('nowhere', at('/dangling'))
  fs.symlinkSync('dir', at('/dirlink'))
  fs.symlinkSync('loop', at('/loop'))
}

const forms: readonly Form[] = ['promise', 'callback', 'sync']

describe.each(forms)('like on disk, by %s:', (form) => {
  const sides = new Sides(form, false)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(() => sides.beginWith(setUp))
  afterEach(() => sides.end())

  const ends = [
    '/file',
    '/dir',
    '/dir/a',
    '/link',
    '/dirlink',
    '/dangling',
    '/loop',
    '/none',
    '/none/x',
    '/file/x',
    '/other',
    '/dir/sub/new',
  ]
  const pairs: Record<string, (fs: Promises, from: string, to: string) => Promise<unknown>> = {
    copyFile: (fs, from, to) => fs.copyFile(from, to),
    'exclusive copyFile': (fs, from, to) => fs.copyFile(from, to, constants.COPYFILE_EXCL),
    link: (fs, from, to) => fs.link(from, to),
    cp: (fs, from, to) => fs.cp(from, to),
    'recursive cp': (fs, from, to) => fs.cp(from, to, { recursive: true }),
    'verbatim cp': (fs, from, to) => fs.cp(from, to, { recursive: true, verbatimSymlinks: true }),
    'cp of what it leads to': (fs, from, to) => fs.cp(from, to, { recursive: true, dereference: true }),
    'cp without force': (fs, from, to) => fs.cp(from, to, { recursive: true, force: false }),
    'cp where nothing is': (fs, from, to) =>
      fs.cp(from, to, { recursive: true, force: false, errorOnExist: true }),
  }
  /** Every pair in every form in `npm run test:long`, every pair in one form in `npm test`. */
  const isChosen = (number: number): boolean =>
    (number + forms.indexOf(form)) % (isLong ? 1 : forms.length) === 0
  for (const [name, call] of Object.entries(pairs)) {
    for (const [row, from] of ends.entries()) {
      const chosen = ends.filter(
        (to, column) => isChosen(row + column) && !differs(`${name} ${from} to ${to}`, form),
      )
      test.each(chosen.map((to) => [to]))(`${name} ${from} to %s`, (to) =>
        sides.same(name, (fs, at) => call(fs, at(from), at(to))),
      )
    }
  }

  for (const path of ends) {
    test(`times, owners and sizes of ${path}`, async () => {
      for (const [atime, mtime] of [
        [1, 2],
        [new Date(1000), new Date(2500)],
        ['3', '4.5'],
        // Unlike a negative number, a negative text does not mean the present.
        ['-3', '-4'],
        ['x', 1],
        [{}, 1],
      ]) {
        await sides.same('utimes', (fs, at) => fs.utimes(at(path), atime as number, mtime as number))
        await sides.same(
          'mtime',
          async (fs, at) => (await fs.stat(at(path))).isFile() && (await fs.stat(at(path))).mtimeMs,
        )
        await sides.same('lutimes', (fs, at) => fs.lutimes(at(path), atime as number, mtime as number))
      }
      await sides.same('chown', (fs, at) => fs.chown(at(path), 0, 0))
      await sides.same('lchown', (fs, at) => fs.lchown(at(path), 0, 0))
      await sides.same('chown', (fs, at) => fs.chown(at(path), 'x' as never, 0))
      for (const length of [0, 3, 20, -1, undefined])
        await sides.same('truncate', (fs, at) => fs.truncate(at(path), length))
      for (const mode of [constants.X_OK, null, 8, -1, 1.5, 'x'])
        await sides.same('access', (fs, at) => fs.access(at(path), mode as number))
      await sides.same('bigint', async (fs, at) => typeof (await fs.stat(at(path), { bigint: true })).mtimeNs)
    })
  }

  test.each([
    [0, 0],
    [1, 1],
    [512, 1],
    [513, 2],
  ])('a file of %i bytes has %i blocks', async (size, blocks) => {
    await sides.fs.promises.writeFile('/blocks', Buffer.alloc(size))
    expect((await sides.fs.promises.stat('/blocks')).blocks).toBe(blocks)
    expect((await sides.fs.promises.stat('/blocks', { bigint: true })).blocks).toBe(BigInt(blocks))
  })

  test('times as bigint are those of the numbers, each under its own name', async () => {
    const { fs } = sides
    await fs.promises.writeFile('/times', '')
    await setTimeout(5)
    await fs.promises.utimes('/times', 1, 2.5)
    const numbers = await fs.promises.stat('/times')
    const big = await fs.promises.stat('/times', { bigint: true })
    expect(new Set([numbers.mtimeMs, numbers.ctimeMs, numbers.birthtimeMs]).size).toBe(3)
    for (const name of ['atime', 'mtime', 'ctime', 'birthtime'] as const) {
      expect([name, Number(big[`${name}Ms`])]).toEqual([name, Math.floor(numbers[`${name}Ms`])])
      expect([name, big[`${name}Ns`] / 1000n]).toEqual([
        name,
        BigInt(Math.round(numbers[`${name}Ms`] * 1000)),
      ])
      expect(big[name]).toEqual(numbers[name])
    }
  })

  test('mkdtemp', async () => {
    await sides.same('length', async (fs, at) => {
      const made = await fs.mkdtemp(at('/tmp-'))
      const { mode } = await fs.stat(made)
      await fs.rmdir(made)
      return [made.replace(/.{6}$/, ''), mode]
    })
    // The other forms of Node include the attempted name in the error.
    if (form === 'sync') await sides.same('missing', (fs, at) => fs.mkdtemp(at('/none/x')))
  })
})

describe('on sessions only:', () => {
  const sides = new Sides('promise', false)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(() => sides.begin())
  afterEach(() => sides.end())

  test('a missing callback throws at once, and errors of a callback are not rejections', () => {
    expect(() => (sides.fs.stat as unknown as (path: string) => void)('/')).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
    )
  })

  test('synchronous calls do not report EAGAIN if a retry cannot help', async () => {
    const engine = await openEngine()
    const [deleted, left] = [await engine.sessions.create(), await engine.sessions.create()]
    const failures = ({ fs }: Session): unknown[] =>
      [() => fs.readdirSync('/'), () => fs.writeFileSync('/x', 'x')].map((call) => {
        try {
          return call()
        } catch (error) {
          const { code, cause } = error as NodeJS.ErrnoException
          return [code, (cause as EngineError).reason]
        }
      })
    await engine.sessions.delete(deleted.id)
    const both = (reason: string): unknown[] => [1, 2].map(() => ['EIO', reason])
    expect(failures(deleted)).toEqual(both('SESSION_NOT_FOUND'))
    await engine.close()
    expect(failures(left)).toEqual(both('STORE_CLOSED'))
  })

  test('rejects paths that are not UTF-8, which would name other files', () => {
    expect(() => sides.fs.writeFileSync(Buffer.from([0x2f, 0xff]), 'x')).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_VALUE' }),
    )
    expect(() => sides.fs.writeFileSync('/\ud800', 'x')).toThrow(expect.objectContaining({ code: 'EINVAL' }))
    expect(sides.fs.existsSync(Buffer.from([0x2f, 0xff]))).toBe(false)
  })

  test('has own enumerable properties that work unbound', async () => {
    const { writeFileSync, readFile, promises } = Object.assign({}, sides.fs)
    writeFileSync('/x', 'x')
    expect(await promises.readFile('/x', 'utf8')).toBe('x')
    expect(await new Promise((resolve) => readFile('/x', 'utf8', (_error, text) => resolve(text)))).toBe('x')
    expect(Object.getOwnPropertyDescriptor(sides.fs, 'promises')?.enumerable).toBe(true)
  })

  test('glob', async () => {
    const { fs } = sides
    for (const path of ['/src/a.ts', '/src/sub/b.ts', '/src/c.js']) {
      fs.mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true })
      fs.writeFileSync(path, '')
    }
    expect(fs.globSync('src/**/*.ts')).toEqual(['src/a.ts', 'src/sub/b.ts'])
    expect(fs.globSync('**/*.ts', { cwd: '/src', exclude: ['sub'] })).toEqual(['a.ts'])
    expect(fs.globSync('/src/*', { withFileTypes: true }).map(({ name }) => name)).toEqual([
      'a.ts',
      'c.js',
      'sub',
    ])
    const found: string[] = []
    for await (const path of fs.promises.glob(['src/*.js', '../src/*.ts'], { cwd: '/src/..' }))
      found.push(path)
    expect(found).toEqual(['src/c.js', '../src/a.ts'])
  })
})

/** The times that a rename changed, read at `look` afterwards. */
async function movedTimes(fs: typeof nodeFs, from: string, to: string, look = to): Promise<object> {
  const before = fs.lstatSync(from)
  await setTimeout(20)
  fs.renameSync(from, to)
  const after = fs.lstatSync(look)
  return {
    mtime: after.mtimeMs > before.mtimeMs,
    ctime: after.ctimeMs > before.ctimeMs,
    birthtime: after.birthtimeMs > before.birthtimeMs,
    ino: after.ino === before.ino,
  }
}

describe('a rename', () => {
  const sides = new Sides('sync', true)
  beforeAll(() => sides.open())
  afterAll(() => sides.close())
  beforeEach(() => sides.begin())
  afterEach(() => sides.end())

  test.each([
    ['file', '/file', '/new'],
    ['file over another', '/file', '/dir/a'],
    ['directory', '/dir', '/new'],
    ['directory over an empty one', '/dir', '/bare'],
    ['name of a file that has several', '/hard', '/new'],
  ])('changes the ctime of a %s and nothing else', async (_name, from, to) => {
    const times = await Promise.all(
      [nodeFs, sides.fs as unknown as typeof nodeFs].map((fs) => {
        const at: At = fs === nodeFs ? sides.onDisk : (path) => path
        setUp(fs, at)
        fs.mkdirSync(at('/bare'))
        fs.linkSync(at('/file'), at('/hard'))
        return movedTimes(fs, at(from), at(to))
      }),
    )
    expect(times[1]).toEqual(times[0])
    expect(times[1]).toEqual({ mtime: false, ctime: true, birthtime: false, ino: true })
  })

  test('of one name of a file changes the ctime of its other names', async () => {
    const fs = sides.fs as unknown as typeof nodeFs
    setUp(fs, (path) => path)
    fs.linkSync('/file', '/hard')
    const times = await movedTimes(fs, '/hard', '/new', '/file')
    expect(times).toEqual({ mtime: false, ctime: true, birthtime: false, ino: true })
    // The state replayed after a restart is the same.
    const { id } = sides.session
    const before = fs.lstatSync('/file')
    await sides.session.flush()
    await sides.reopen()
    const again = await sides.engine.sessions.open(id)
    expect((await again.fs.promises.lstat('/new')).ctimeMs).toBe(before.ctimeMs)
  })
})
