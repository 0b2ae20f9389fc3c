import { execFileSync, spawnSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TimeSlice } from '../../src/engine/base/cooperative.js'
import { itemAt } from '../../src/engine/base/present.js'
import { Exclusions, parseIgnore } from '../../src/engine/services/checkouts/checkout-exclusions.js'
import type { HostTree } from '../../src/engine/ports.js'
import { EngineError, openEngine, type CheckoutOptions, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { hostFiles, sessionFiles } from '../support/host-files.js'
import { runs, seed } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'

describe.each(fewStorages)('parts of a checkout that are left out on %s', (_name, makeStorage) => {
  let scratch: string
  let root: string
  let target: string
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    scratch = realpathSync(mkdtempSync(join(tmpdir(), 'exclusions-')))
    root = join(scratch, 'root')
    target = join(root, 'work')
    mkdirSync(root)
    engine = await openEngine({ storage: makeStorage(scratch), hostPaths: { roots: [root] } })
    session = await engine.sessions.create({ files: { '/a': 'one', '/d/x': 'x' } })
  })

  afterEach(async () => {
    await engine.close()
    rmSync(scratch, { recursive: true, force: true })
  })

  const put = (path: string, content = ''): void => {
    mkdirSync(dirname(join(target, path)), { recursive: true })
    writeFileSync(join(target, path), content)
  }
  const text = (path: string): string => readFileSync(join(target, path), 'utf8')
  const write = (path: string, content: string): Promise<void> => session.files.write({ path, content })

  async function failure(failing: Promise<unknown>): Promise<[reason: string, at: string | undefined]> {
    const error = await failing.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(EngineError)
    const { reason, details } = error as EngineError
    return [reason, details['path'] ?? details['field']]
  }

  describe('ignored files', () => {
    test('are synced without the option', async () => {
      await write('/.gitignore', 'dist/\n')
      const checkout = await session.checkout(target)
      put('dist/out.js')
      expect(await checkout.sync()).toEqual({ added: ['/dist', '/dist/out.js'], modified: [], removed: [] })
    })

    test('are neither brought back nor deleted', async () => {
      await write('/.gitignore', 'dist/\n*.log\n')
      const checkout = await session.checkout(target, { gitignore: true })
      put('dist/deep/out.js', 'built')
      put('d/e/x.log', 'log')
      put('d/new', 'new')
      expect(await checkout.sync()).toEqual({ added: ['/d/new'], modified: [], removed: [] })
      await session.fs.promises.rm('/d', { recursive: true })
      // The directory of the ignored file stays, and does not come back.
      expect(await checkout.update()).toEqual({ written: 0, removed: 2 })
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      expect([text('dist/deep/out.js'), text('d/e/x.log')]).toEqual(['built', 'log'])
      await checkout.update({ force: true })
      expect([text('dist/deep/out.js'), text('d/e/x.log')]).toEqual(['built', 'log'])
    })

    test('of the session are not ignored, as in git', async () => {
      await write('/dist/kept', 'one')
      await write('/.gitignore', 'dist/\n')
      const checkout = await session.checkout(target, { gitignore: true })
      put('dist/kept', 'edited')
      put('dist/other', 'other')
      expect(await checkout.sync()).toEqual({ added: [], modified: ['/dist/kept'], removed: [] })
      rmSync(join(target, 'dist/kept'))
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: ['/dist/kept'] })
    })

    test('that the caller lists take precedence over the files', async () => {
      await write('/.gitignore', '*.log\n')
      const checkout = await session.checkout(target, { gitignore: true, ignore: ['/tmp', '!keep.log'] })
      put('tmp/x')
      put('keep.log')
      put('d/other.log')
      put('d/tmp')
      expect((await checkout.sync()).added).toEqual(['/d/tmp', '/keep.log'])
    })

    test('do not prevent a first checkout', async () => {
      put('node_modules/x', 'x')
      expect(await failure(session.checkout(target))).toEqual(['CHECKOUT_MODIFIED', '/node_modules'])
      await session.checkout(target, { ignore: ['node_modules'] })
      expect(text('node_modules/x')).toBe('x')
      expect(text('a')).toBe('one')
    })

    test.each([false, true])('are not overwritten by an update, with force: %s', async (force) => {
      const checkout = await session.checkout(target, { ignore: ['out', 'data/'] })
      put('out', 'by hand')
      put('data/x', 'by hand')
      await write('/out', 'session')
      expect(await failure(checkout.update({ force }))).toEqual(['CHECKOUT_MODIFIED', '/out'])
      await session.files.delete({ path: '/out' })
      await write('/data', 'a file now')
      expect(await failure(checkout.update({ force }))).toEqual(['CHECKOUT_MODIFIED', '/data'])
      expect([text('out'), text('data/x')]).toEqual(['by hand', 'by hand'])
    })

    test('in the place of a removed file are left out by their kind', async () => {
      const checkout = await session.checkout(target, { ignore: ['a/'] })
      rmSync(join(target, 'a'))
      put('a/in')
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: ['/a'] })
    })

    test('an empty directory is brought back, and one with only ignored files is not', async () => {
      const checkout = await session.checkout(target, { ignore: ['*.o'] })
      mkdirSync(join(target, 'empty'))
      put('obj/deep/x.o')
      put('both/x.o')
      put('both/deep/x.c')
      expect((await checkout.sync()).added).toEqual(['/both', '/both/deep', '/both/deep/x.c', '/empty'])
    })

    test.runIf(process.platform === 'linux')(
      'do not hide a name that is not UTF-8 in the same directory',
      async () => {
        const checkout = await session.checkout(target, { ignore: ['*.log'] })
        put('d/own/a.log')
        const name = Buffer.concat([Buffer.from(join(target, 'd/own/')), Buffer.from([0xff])])
        writeFileSync(name, 'own')
        await session.files.removeDirectory({ path: '/d', recursive: true })
        expect(await failure(checkout.update())).toEqual(['CHECKOUT_MODIFIED', '/d/own'])
        rmSync(name)
        await checkout.update()
        expect(existsSync(join(target, 'd/x'))).toBe(false)
        expect(existsSync(join(target, 'd/own/a.log'))).toBe(true)
      },
    )

    test('are chosen without following a symlink or waiting for a FIFO', async () => {
      writeFileSync(join(scratch, 'rules'), '*\n')
      const checkout = await session.checkout(target, { gitignore: true })
      symlinkSync(join(scratch, 'rules'), join(target, '.gitignore'))
      execFileSync('mkfifo', [join(target, 'd/.gitignore'), join(target, 'd/pipe')])
      put('new')
      expect((await checkout.sync()).added).toEqual(['/.gitignore', '/new'])
    })

    test('rules over their limit fail with LIMIT_EXCEEDED', async () => {
      const checkout = await session.checkout(target, { gitignore: true })
      put('.gitignore', '#'.repeat(256 * 1024 + 1))
      put('new')
      expect(await failure(checkout.sync())).toEqual(['LIMIT_EXCEEDED', '/.gitignore'])
    })

    test(`are those of git (FORKSPACE_SEED=${seed})`, async () => {
      const random = randomWords(seed)
      const one = (list: string): string => itemAt(list.split('|'), random() % list.split('|').length)
      const names = 'a|b|ab|x.o|.h|é'
      for (let round = 0; round < runs(200); round++) {
        rmSync(target, { recursive: true, force: true })
        const one_ = await engine.sessions.create({ files: { '/a/b': '', '/ab/a/x.o': '' } })
        const path = (): string => Array.from({ length: 1 + (random() % 3) }, () => one(names)).join('/')
        const checkout = await one_.checkout(target, { gitignore: true })
        const git = (...args: string[]): string =>
          spawnSync('git', args, {
            cwd: target,
            env: { PATH: process.env['PATH'], HOME: scratch, GIT_DIR: join(scratch, 'git') },
          }).stdout.toString()
        rmSync(join(scratch, 'git'), { recursive: true, force: true })
        git('init', '-q')
        git('--work-tree=.', 'add', '-f', '.')
        for (let step = 0; step < 12; step++) {
          const rule = `${one('!||')}${one('|/|**/')}${one(`${names}|*|*.o|a/b|?`)}${one('|/|/**')}\n`
          const [file, content] =
            random() % 3 === 0 ? [join(dirname(path()), '.gitignore'), rule] : [path(), '']
          try {
            put(file, content + (existsSync(join(target, file)) ? text(file) : ''))
          } catch {
            // A file is in the place of a directory.
          }
        }
        const untracked = git('--work-tree=.', 'ls-files', '-z', '--others', '--exclude-standard')
        const { added } = await checkout.sync({ dryRun: true })
        const files = added.filter((name) => !statSync(join(target, name)).isDirectory())
        expect(files).toEqual(
          untracked
            .split('\0')
            .filter(Boolean)
            .map((name) => `/${name}`)
            .sort(),
        )
      }
    })
  })

  describe('a shared directory', () => {
    let modules: string

    beforeEach(() => {
      modules = join(root, 'modules')
      mkdirSync(join(modules, 'pkg'), { recursive: true })
      writeFileSync(join(modules, 'pkg/index.js'), 'shared')
      symlinkSync('pkg/index.js', join(modules, 'bin'))
    })

    const shared = (copy: boolean): CheckoutOptions => ({
      sharedDirectories: [{ path: '/node_modules', from: modules, copy }],
    })

    test('is a symlink that is never synced, and never followed by a deletion', async () => {
      const checkout = await session.checkout(target, shared(false))
      expect(readlinkSync(join(target, 'node_modules'))).toBe(modules)
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      put('node_modules/pkg/more', 'x')
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      await session.fs.promises.rm('/d', { recursive: true })
      await checkout.update({ force: true })
      expect(readFileSync(join(modules, 'pkg/index.js'), 'utf8')).toBe('shared')
      // A package manager may replace the link by a directory.
      rmSync(join(target, 'node_modules'))
      put('node_modules/own', 'x')
      await checkout.update({ force: true })
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      expect(text('node_modules/own')).toBe('x')
    })

    test('is a copy with its own files', async () => {
      const checkout = await session.checkout(target, shared(true))
      expect(lstatSync(join(target, 'node_modules')).isDirectory()).toBe(true)
      expect(hostFiles(join(target, 'node_modules/pkg'))).toEqual(hostFiles(join(modules, 'pkg')))
      expect(readlinkSync(join(target, 'node_modules/bin'))).toBe('pkg/index.js')
      put('node_modules/pkg/index.js', 'changed')
      expect(await checkout.update()).toEqual({ written: 0, removed: 0 })
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      expect(text('node_modules/pkg/index.js')).toBe('changed')
      expect(readFileSync(join(modules, 'pkg/index.js'), 'utf8')).toBe('shared')
    })

    test.each([false, true])('can be deep, and keeps its parents (copy: %s)', async (copy) => {
      const sharedDirectories = [{ path: '/packages/one/node_modules', from: modules, copy }]
      await write('/packages/one/a', 'a')
      const checkout = await session.checkout(target, { sharedDirectories })
      await session.fs.promises.rm('/packages', { recursive: true })
      await checkout.update()
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      expect(text('packages/one/node_modules/pkg/index.js')).toBe('shared')
      expect(Object.keys(await sessionFiles(session))).not.toContain('/packages')
    })

    test('is refused where the session has something itself', async () => {
      await write('/node_modules/x', 'x')
      expect(await failure(session.checkout(target, shared(false)))).toEqual([
        'ALREADY_EXISTS',
        '/node_modules',
      ])
      expect(readdirSync(target)).toEqual([])
    })

    test('is refused outside the roots, and around or inside the checkout', async () => {
      const check = (from: string): ReturnType<typeof failure> =>
        failure(session.checkout(target, { sharedDirectories: [{ path: '/m', from }] }))
      symlinkSync(scratch, join(root, 'link'))
      for (const from of [scratch, join(root, '..'), join(root, 'link'), '/etc'])
        expect((await check(from))[0]).toBe('HOST_PATH_NOT_ALLOWED')
      expect((await check(join(root, 'missing')))[0]).toBe('HOST_PATH_NOT_FOUND')
      mkdirSync(join(target, 'in'), { recursive: true })
      for (const from of [root, target, join(target, 'in')])
        expect(await check(from)).toEqual(['INVALID_ARGUMENT', 'sharedDirectories[0].from'])
    })

    test.each(['/', '/..', '/../x', '/a/../b', 'a', '/.git', '/d/.GIT/x', '', '/a//b'])(
      'is refused at %j',
      async (path) => {
        const sharedDirectories = [{ path, from: modules }]
        expect(await failure(session.checkout(target, { sharedDirectories }))).toEqual([
          'INVALID_ARGUMENT',
          'sharedDirectories[0].path',
        ])
      },
    )

    test('is refused twice and inside another one', async () => {
      const at = (path: string): { path: string; from: string } => ({ path, from: modules })
      for (const sharedDirectories of [
        [at('/m'), at('/m')],
        [at('/m/n'), at('/m-n'), at('/m')],
      ])
        expect((await failure(session.checkout(target, { sharedDirectories })))[0]).toBe('INVALID_ARGUMENT')
    })
  })

  describe('a dry run of sync', () => {
    test('reports what the sync does, and changes nothing', async () => {
      const checkout = await session.checkout(target)
      put('a', 'edited by hand')
      put('n/m', 'new')
      rmSync(join(target, 'd/x'))
      const before = await sessionFiles(session)
      const { events } = await session.events.list()
      const preview = await checkout.sync({ dryRun: true })
      expect(preview).toEqual({ added: ['/n', '/n/m'], modified: ['/a'], removed: ['/d/x'] })
      expect(await sessionFiles(session)).toEqual(before)
      expect((await session.events.list()).events).toEqual(events)
      expect(await checkout.sync({ dryRun: true })).toEqual(preview)
      expect(await checkout.sync()).toEqual(preview)
      expect(await checkout.sync({ dryRun: true })).toEqual({ added: [], modified: [], removed: [] })
    })

    test('fails where the sync fails', async () => {
      const checkout = await session.checkout(target)
      put('a', 'edited by hand')
      await write('/a', 'session')
      expect(await failure(checkout.sync({ dryRun: true }))).toEqual(['CHECKOUT_MODIFIED', '/a'])
    })
  })
})

test('a comparison with many patterns leaves turns to the event loop, and ends with the signal', async () => {
  const abort = new AbortController()
  const reason = new Error('enough')
  let now = 0
  const { patterns } = parseIgnore(
    'ignore',
    Array.from({ length: 1000 }, () => '*a?b'),
  )
  const exclusions = new Exclusions(
    {} as HostTree,
    { ignore: patterns, gitignore: false, apart: [] },
    new TimeSlice({ now: () => now++ }, abort.signal),
  )
  expect(await exclusions.leavesOut('/abc', false)).toBe(false)
  const decided = exclusions.leavesOut('/abc', false)
  setImmediate(() => abort.abort(reason))
  await expect(decided).rejects.toBe(reason)
})
