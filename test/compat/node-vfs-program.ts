// Runs on a Node that has node:vfs, which also strips these types. Arguments: the URLs of the compiled engine
// and adapters. Prints a line of JSON: for every check its name and, when it failed, the error.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import chokidar from 'chokidar'
import webpack from 'webpack'
import type * as level from '../../src/adapters/level/index.ts'
import type * as adapter from '../../src/adapters/node-vfs/index.ts'
import type * as forkspace from '../../src/index.ts'

interface Mount {
  mount(): string
  unmount(): void
  readonly provider: unknown
}

const [engineUrl = '', adapterUrl = '', levelUrl = ''] = process.argv.slice(2)
const { openEngine } = (await import(engineUrl)) as typeof forkspace
const { sessionProvider } = (await import(adapterUrl)) as typeof adapter
const { levelStorage } = (await import(levelUrl)) as typeof level
const vfs = process.getBuiltinModule('node:vfs') as unknown as { create(provider: object): Mount }

const files = {
  '/a.txt': 'hello',
  '/package.json': '{"type":"commonjs"}',
  '/lib/add.js': 'module.exports = (a, b) => a + b',
  '/lib/use.js': "module.exports = require('./add.js')(1, 2) + require('dep').value",
  '/lib/add.mjs':
    "import add from './add.js'\nimport { value } from 'dep'\nexport const sum = add(2, 3) + value",
  '/node_modules/dep/package.json': '{"name":"dep","main":"main.js"}',
  '/node_modules/dep/main.js': 'exports.value = 10',
}

const engine = await openEngine()

/** The context of a check: a mounted session. */
class Mounted {
  readonly session: forkspace.Session
  readonly vfs: Mount
  readonly root: string

  constructor(session: forkspace.Session) {
    this.session = session
    this.vfs = vfs.create(sessionProvider(session))
    this.root = this.vfs.mount()
  }

  path(name: string): string {
    return join(this.root, name)
  }

  async inside(path: string): Promise<string> {
    return Buffer.from(await this.session.files.read({ path })).toString('utf8')
  }
}

const checks: Record<string, (one: Mounted) => void | Promise<void>> = {
  'the provider works with node:vfs': ({ vfs, session }) => {
    assert.equal((vfs.provider as { supportsWatch: boolean }).supportsWatch, true)
    assert.throws(() => sessionProvider(undefined as never), { reason: 'INVALID_ARGUMENT' })
    assert.notEqual(sessionProvider(session), sessionProvider(session))
  },

  'sync calls read and write': async (one) => {
    assert.equal(fs.readFileSync(one.path('a.txt'), 'utf8'), 'hello')
    assert.deepEqual(fs.readFileSync(one.path('a.txt')), Buffer.from('hello'))
    fs.writeFileSync(one.path('b.txt'), 'b')
    fs.appendFileSync(one.path('b.txt'), 'c')
    assert.equal(await one.inside('/b.txt'), 'bc')
    assert.equal(fs.mkdirSync(one.path('x/y/z'), { recursive: true }), one.path('x'))
    fs.renameSync(one.path('b.txt'), one.path('x/y/b.txt'))
    fs.copyFileSync(one.path('x/y/b.txt'), one.path('x/y/c.txt'))
    fs.truncateSync(one.path('x/y/c.txt'), 1)
    assert.equal(await one.inside('/x/y/c.txt'), 'b')
    fs.rmSync(one.path('x'), { recursive: true })
    assert.equal(fs.existsSync(one.path('x')), false)
    assert.match(fs.mkdtempSync(one.path('tmp-')), /\/tmp-.{6}$/)
  },

  'promises read and write': async (one) => {
    const { promises } = fs
    await promises.writeFile(one.path('p.txt'), 'one')
    await promises.appendFile(one.path('p.txt'), ' two')
    assert.equal(await promises.readFile(one.path('p.txt'), 'utf8'), 'one two')
    assert.equal(await one.inside('/p.txt'), 'one two')
    await promises.mkdir(one.path('d/e'), { recursive: true })
    await promises.copyFile(one.path('p.txt'), one.path('d/e/q.txt'))
    await promises.rename(one.path('p.txt'), one.path('d/p.txt'))
    await promises.unlink(one.path('d/p.txt'))
    assert.equal(await one.inside('/d/e/q.txt'), 'one two')
    await promises.rm(one.path('d'), { recursive: true })
    await assert.rejects(promises.access(one.path('d')), { code: 'ENOENT' })
  },

  'callbacks read and write': async (one) => {
    await promisify(fs.writeFile)(one.path('c.txt'), 'callback')
    assert.equal(await promisify(fs.readFile)(one.path('c.txt'), 'utf8'), 'callback')
    assert.equal((await promisify(fs.stat)(one.path('c.txt'))).size, 8)
    await promisify(fs.unlink)(one.path('c.txt'))
    await assert.rejects(promisify(fs.stat)(one.path('c.txt')), { code: 'ENOENT' })
  },

  'Utf8Stream writes to a session by its option fs, and to no file of the host': async (one) => {
    interface Utf8Stream extends NodeJS.EventEmitter {
      write(text: string): boolean
      end(): void
    }
    const { Utf8Stream } = fs as unknown as { Utf8Stream: new (options: object) => Utf8Stream }
    for (const sync of [true, false]) {
      const dest = `/utf8-stream-${sync}/log`
      const stream = new Utf8Stream({ fs: one.session.fs, dest, mkdir: true, sync })
      await once(stream, 'ready')
      stream.write('one\n')
      stream.write('two é\n')
      stream.end()
      await once(stream, 'close')
      assert.equal(await one.inside(dest), 'one\ntwo é\n')
      assert.equal(fs.existsSync(dest), false)
    }
  },

  'descriptors read, write and keep positions': async (one) => {
    const fd = fs.openSync(one.path('fd.txt'), 'w+')
    assert.equal(fs.writeSync(fd, Buffer.from('0123456789')), 10)
    assert.equal(fs.writeSync(fd, Buffer.from('ab'), 0, 2, 4), 2)
    const bytes = Buffer.alloc(6)
    assert.equal(fs.readSync(fd, bytes, 0, 6, 2), 6)
    assert.equal(bytes.toString(), '23ab67')
    fs.ftruncateSync(fd, 5)
    assert.equal(fs.fstatSync(fd).size, 5)
    fs.fsyncSync(fd)
    fs.closeSync(fd)
    assert.equal(await one.inside('/fd.txt'), '0123a')
    assert.throws(() => fs.readSync(fd, bytes), { code: 'EBADF' })

    const handle = await fs.promises.open(one.path('fd.txt'), 'a+')
    await handle.write('++')
    await handle.appendFile('--')
    await handle.sync()
    const { bytesRead } = await handle.read(bytes, 0, 6, 3)
    assert.equal(bytes.toString('utf8', 0, bytesRead), '3a++--')
    assert.equal((await handle.read({ buffer: bytes, length: 2, position: 0 })).bytesRead, 2)
    assert.equal((await handle.readv([bytes], 1)).bytesRead, 6)
    assert.equal(bytes.toString(), '123a++')
    assert.equal(await handle.readFile('utf8'), '0123a++--')
    await handle.truncate(1)
    await handle.chmod(0o600)
    assert.equal((await handle.stat()).size, 1)
    await handle.close()
    assert.equal(fs.statSync(one.path('fd.txt')).mode & 0o777, 0o600)
  },

  'streams read and write': async (one) => {
    const text200 = '0123456789'.repeat(20_000)
    await pipeline([text200.slice(0, 100), text200.slice(100)], fs.createWriteStream(one.path('s.txt')))
    assert.equal(await one.inside('/s.txt'), text200)
    assert.equal(await text(fs.createReadStream(one.path('s.txt'))), text200)
    assert.equal(await text(fs.createReadStream(one.path('s.txt'), { start: 3, end: 5 })), '345')
    const patch = fs.createWriteStream(one.path('s.txt'), { flags: 'r+', start: 2 })
    patch.write('ab')
    patch.end('c')
    await once(patch, 'close')
    assert.equal(await text(fs.createReadStream(one.path('s.txt'), { end: 6 })), '01abc56')
    await assert.rejects(text(fs.createReadStream(one.path('none'))), { code: 'ENOENT' })
  },

  'directories are listed': async (one) => {
    const top = ['a.txt', 'lib', 'node_modules', 'package.json']
    assert.deepEqual(fs.readdirSync(one.root).sort(), top)
    assert.deepEqual((await fs.promises.readdir(one.root)).sort(), top)
    const typed = fs.readdirSync(one.root, { withFileTypes: true })
    assert.deepEqual(
      typed
        .filter((entry) => entry.isDirectory())
        .map((entry) => join(entry.parentPath, entry.name))
        .sort(),
      [one.path('lib'), one.path('node_modules')],
    )
    const deep = fs.readdirSync(one.root, { withFileTypes: true, recursive: true })
    assert.deepEqual(
      deep
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .sort(),
      Object.keys(files)
        .map((name) => one.path(name))
        .sort(),
    )
    const names = fs.readdirSync(one.root, { recursive: true, encoding: 'utf8' })
    assert.ok(names.includes('node_modules/dep/main.js'))
    const seen: string[] = []
    for await (const entry of await fs.promises.opendir(one.path('lib'))) seen.push(entry.name)
    assert.deepEqual(seen.sort(), ['add.js', 'add.mjs', 'use.js'])
  },

  'links and attributes': async (one) => {
    fs.symlinkSync('../a.txt', one.path('lib/link'))
    assert.equal(fs.readlinkSync(one.path('lib/link')), '../a.txt')
    assert.equal(fs.realpathSync(one.path('lib/link')), one.path('a.txt'))
    assert.equal(await fs.promises.realpath(one.path('lib/link')), one.path('a.txt'))
    assert.ok(fs.lstatSync(one.path('lib/link')).isSymbolicLink())
    assert.ok(fs.statSync(one.path('lib/link')).isFile())
    fs.linkSync(one.path('a.txt'), one.path('hard.txt'))
    fs.writeFileSync(one.path('hard.txt'), 'both')
    assert.equal(fs.readFileSync(one.path('a.txt'), 'utf8'), 'both')
    assert.equal(fs.statSync(one.path('a.txt')).ino, fs.statSync(one.path('hard.txt')).ino)
    fs.chmodSync(one.path('a.txt'), 0o755)
    await fs.promises.chmod(one.path('lib'), 0o700)
    assert.equal(fs.statSync(one.path('a.txt')).mode & 0o777, 0o755)
    fs.utimesSync(one.path('a.txt'), 1_000, 2_000)
    assert.equal(fs.statSync(one.path('a.txt')).mtimeMs, 2_000_000)
    assert.equal(typeof fs.statSync(one.path('a.txt'), { bigint: true }).size, 'bigint')
  },

  'errors are those of node:fs': async (one) => {
    const missing = one.path('none/file')
    const enoent = { code: 'ENOENT', errno: -2 }
    assert.throws(() => fs.readFileSync(missing), { ...enoent, syscall: 'open' })
    assert.throws(() => fs.writeFileSync(missing, ''), enoent)
    assert.throws(() => fs.rmdirSync(one.path('lib')), { code: 'ENOTEMPTY', errno: -39 })
    assert.throws(() => fs.mkdirSync(one.path('lib')), { code: 'EEXIST', errno: -17 })
    assert.throws(() => fs.readdirSync(one.path('a.txt')), { code: 'ENOTDIR' })
    assert.throws(() => fs.renameSync(one.path('a.txt'), join(process.cwd(), 'a.txt')), { code: 'EXDEV' })
    assert.equal(fs.statSync(missing, { throwIfNoEntry: false }), undefined)
    await assert.rejects(fs.promises.readFile(missing), enoent)
    await assert.rejects(fs.promises.open(missing), enoent)
  },

  'modules of the session are required and imported': async (one) => {
    const load = createRequire(one.path('lib/x.js'))
    assert.equal(load('./use.js'), 13)
    assert.equal(load.resolve('dep'), one.path('node_modules/dep/main.js'))
    const url = pathToFileURL(one.path('lib/add.mjs')).href
    assert.equal(((await import(url)) as { sum: number }).sum, 15)
  },

  'a session mounted twice is one session, a fork is another': async (one) => {
    const again = new Mounted(one.session)
    const fork = new Mounted(await one.session.fork())
    fs.writeFileSync(one.path('a.txt'), 'changed')
    fs.writeFileSync(fork.path('a.txt'), 'in the fork')
    assert.equal(fs.readFileSync(again.path('a.txt'), 'utf8'), 'changed')
    assert.equal(await one.inside('/a.txt'), 'changed')
    assert.equal(await fork.inside('/a.txt'), 'in the fork')
    again.vfs.unmount()
    assert.equal(fs.existsSync(again.path('a.txt')), false)
    assert.equal(fs.readFileSync(one.path('a.txt'), 'utf8'), 'changed')
    fork.vfs.unmount()
  },

  'an unloaded session on disk can be mounted': async () => {
    const directory = fs.mkdtempSync(join(tmpdir(), 'mounted-'))
    const options = { storage: levelStorage(directory, { durability: 'relaxed' }) }
    try {
      const first = await openEngine(options)
      const { id } = await first.sessions.create({ files })
      await first.close()
      const second = await openEngine(options)
      const cold = new Mounted(await second.sessions.open(id))
      assert.equal(createRequire(cold.path('x.js'))('./lib/use.js'), 13)
      fs.writeFileSync(cold.path('kept.txt'), 'kept')
      cold.vfs.unmount()
      await second.close()
      const third = await openEngine(options)
      const again = new Mounted(await third.sessions.open(id))
      assert.equal(fs.readFileSync(again.path('kept.txt'), 'utf8'), 'kept')
      again.vfs.unmount()
      await third.close()
    } finally {
      fs.rmSync(directory, { recursive: true })
    }
  },

  'watchers see writes of the session': async (one) => {
    const watcher = fs.watch(one.path('lib'))
    const changed = once(watcher, 'change')
    await one.session.files.write({ path: '/lib/seen.js', content: '' })
    assert.deepEqual(await changed, ['rename', 'seen.js'])
    watcher.close()
  },

  'watchFile reports changes': async (one) => {
    const sizes = await new Promise((resolve) => {
      fs.watchFile(one.path('a.txt'), { interval: 10 }, (now, before) => resolve([before.size, now.size]))
      fs.writeFileSync(one.path('a.txt'), 'longer than hello')
    })
    assert.deepEqual(sizes, [5, 17])
    fs.unwatchFile(one.path('a.txt'))
  },

  'chokidar watches a mount, by polling and without': async (one) => {
    for (const usePolling of [true, false]) {
      const name = `chokidar-${usePolling}.txt`
      const watcher = chokidar.watch(one.root, { usePolling, interval: 10, ignoreInitial: true })
      const failed = once(watcher, 'error').then(([error]) => Promise.reject(error as Error))
      failed.catch(() => undefined)
      const next = (event: string): Promise<unknown> =>
        Promise.race([failed, new Promise((resolve) => watcher.once(event as 'add', resolve))])
      await next('ready')
      const added = next('add')
      fs.writeFileSync(one.path(name), 'new')
      assert.equal(await added, one.path(name))
      const changed = next('change')
      await one.session.files.write({ path: `/${name}`, content: 'changed by the session' })
      assert.equal(await changed, one.path(name))
      const removed = next('unlink')
      fs.unlinkSync(one.path(name))
      assert.equal(await removed, one.path(name))
      await watcher.close()
    }
  },

  'webpack watches a project of a mount': async (one) => {
    fs.writeFileSync(one.path('main.js'), "module.exports = require('./lib/add.js')(1, 2)")
    const output = one.path('dist')
    const compiler = webpack({
      context: one.root,
      entry: one.path('main.js'),
      mode: 'none',
      target: 'node',
      output: { path: output, filename: 'out.js', library: { type: 'commonjs2' } },
    })
    const builds: ((failed: Error | null) => void)[] = []
    const built = (): Promise<void> =>
      new Promise((resolve, reject) => {
        builds.push((failed) => (failed === null ? resolve() : reject(failed)))
      })
    const first = built()
    const watching = compiler.watch({ aggregateTimeout: 5 }, (error, stats) => {
      const failed = error ?? (stats?.hasErrors() === true ? new Error(stats.toString()) : null)
      builds.shift()?.(failed)
    })!
    await first
    const second = built()
    await one.session.files.write({ path: '/lib/add.js', content: 'module.exports = (a, b) => a * b * 100' })
    await second
    assert.match(await one.inside('/dist/out.js'), /a \* b \* 100/)
    await new Promise((resolve) => watching.close(resolve))
    await new Promise((resolve) => compiler.close(resolve))
  },

  'iterated watchers see writes': async (one) => {
    const stop = new AbortController()
    const changes = fs.promises.watch(one.path('lib'), { signal: stop.signal })[Symbol.asyncIterator]()
    const next = changes.next()
    fs.writeFileSync(one.path('lib/other.js'), '')
    assert.equal((await next).value?.filename, 'other.js')
    stop.abort()
  },
}

// Reports the results when nothing is left to wait for, even if some checks have not ended.
const results = new Map<string, string | null>()
process.once('exit', () => process.stdout.write(`${JSON.stringify([...results])}\n`))
for (const [name, check] of Object.entries(checks)) {
  results.set(name, 'did not end')
  const mounted = new Mounted(await engine.sessions.create({ files }))
  try {
    await check(mounted)
    results.set(name, null)
  } catch (error) {
    results.set(name, error instanceof Error ? String(error.stack) : String(error))
  }
  mounted.vfs.unmount()
}
await engine.close()
