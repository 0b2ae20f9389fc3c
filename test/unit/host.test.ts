import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  linkSync,
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
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHost } from '../../src/adapters/host/index.js'
import { hostLimits } from '../../src/adapters/host/limits.js'
import type {
  EntryAttributes,
  Host,
  HostIndex,
  HostTree,
  ScanResult,
  TreeSink,
} from '../../src/engine/ports.js'
import { EngineError } from '../../src/index.js'
import { hostFiles } from '../support/host-files.js'
import { lowerBound } from '../support/lower-bound.js'
import { stepOf } from '../support/seed.js'

let scratch: string
let root: string
let host: Host

beforeEach(() => {
  scratch = realpathSync(mkdtempSync(join(tmpdir(), 'host-')))
  root = join(scratch, 'root')
  mkdirSync(root)
  host = createHost({ roots: [root] })
})

afterEach(() => rmSync(scratch, { recursive: true, force: true }))

async function failureOf(failing: Promise<unknown>): Promise<EngineError> {
  const error = await failing.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(EngineError)
  return error as EngineError
}

async function reasonOf(failing: Promise<unknown>): Promise<string> {
  return (await failureOf(failing)).reason
}

const put = (path: string, content: string | Buffer = path): void => {
  mkdirSync(join(root, path, '..'), { recursive: true })
  writeFileSync(join(root, path), content)
}

const makeFifo = (path: string): void => {
  execFileSync('sh', ['-c', 'mkfifo "$0"', join(root, path)])
}

describe('host paths', () => {
  test('resolve to real paths in the roots', async () => {
    mkdirSync(join(root, 'a/b'), { recursive: true })
    symlinkSync('a', join(root, 'link'))
    expect(await host.check(root)).toBe(root)
    expect(await host.check(`${root}/`)).toBe(root)
    expect(await host.check(join(root, 'a/b'))).toBe(join(root, 'a/b'))
    expect(await host.check(join(root, 'link/b'))).toBe(join(root, 'a/b'))
    expect(await host.check(`${root}/a/../a/./b`)).toBe(join(root, 'a/b'))
  })

  test('accept a root reached through a symlink', async () => {
    symlinkSync(root, join(scratch, 'alias'))
    mkdirSync(join(root, 'a'))
    const aliased = createHost({ roots: [join(scratch, 'alias')] })
    expect(await aliased.check(join(scratch, 'alias/a'))).toBe(join(root, 'a'))
    expect(await aliased.check(join(root, 'a'))).toBe(join(root, 'a'))
  })

  test('accept / as a root', async () => {
    mkdirSync(join(root, 'a'))
    expect(await createHost({ roots: ['/'] }).check(join(root, 'a'))).toBe(join(root, 'a'))
    expect(await createHost({ roots: ['/'] }).check('/')).toBe('/')
  })

  test('outside the roots are not allowed, whether they exist or not', async () => {
    mkdirSync(join(scratch, 'root2'))
    symlinkSync(scratch, join(root, 'out'))
    symlinkSync(join(scratch, 'nothing'), join(root, 'dangling'))
    const places = [
      '..',
      '../root2',
      '../nothing',
      '../nothing/deep',
      'out',
      'out/nothing',
      'dangling',
      'dangling/x',
    ]
    for (const place of [...places.map((path) => join(root, path)), '/', '/nothing', '/etc']) {
      const error = await failureOf(host.check(place))
      expect(error.reason).toBe('HOST_PATH_NOT_ALLOWED')
      expect(await reasonOf(host.open(place, { create: true }))).toBe('HOST_PATH_NOT_ALLOWED')
    }
    expect(await reasonOf(createHost({ roots: [] }).check(root))).toBe('HOST_PATH_NOT_ALLOWED')
    expect(await reasonOf(createHost({ roots: [join(root, 'none')] }).check(root))).toBe(
      'HOST_PATH_NOT_ALLOWED',
    )
    expect(readdirSync(scratch).sort()).toEqual(['root', 'root2'])
  })

  test('fail with HOST_PATH_NOT_FOUND if missing or not a directory', async () => {
    put('file')
    for (const place of ['none', 'none/deep', 'file', 'file/x'])
      expect(await reasonOf(host.check(join(root, place)))).toBe('HOST_PATH_NOT_FOUND')
  })

  test('reject invalid values', async () => {
    for (const place of ['', 'root', './x', `${root}/\0`, 1 as unknown as string])
      expect(await reasonOf(host.check(place))).toBe('INVALID_ARGUMENT')
    expect(() => createHost({ roots: ['relative'] })).toThrow(EngineError)
  })

  test('do not reveal other paths in errors', async () => {
    symlinkSync(join(scratch, 'hidden-place'), join(root, 'dangling'))
    const error = await failureOf(host.check(join(root, 'dangling')))
    expect(JSON.stringify([error.message, error.details, error.cause])).not.toContain('hidden-place')
  })
})

/** A sink that keeps the tree as text, and the calls that it received. */
class Sink implements TreeSink {
  readonly tree = new Map<string, string>()
  calls: string[] = []

  directory(path: string, { mode }: EntryAttributes): void {
    this.calls.push(`directory ${path}`)
    this.tree.set(path, `directory ${mode.toString(8)}`)
  }

  async file(
    path: string,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    { mode }: EntryAttributes,
  ): Promise<void> {
    this.calls.push(`file ${path}`)
    const pieces: Uint8Array[] = []
    if (content instanceof Uint8Array) pieces.push(content)
    else for await (const piece of content) pieces.push(piece)
    this.tree.set(path, `file ${mode.toString(8)} ${Buffer.concat(pieces).toString('latin1')}`)
  }

  symlink(path: string, target: string): void {
    this.calls.push(`symlink ${path}`)
    this.tree.set(path, `-> ${target}`)
  }

  hardLink(): void {
    throw new Error('not expected')
  }

  remove(path: string): void {
    this.calls.push(`remove ${path}`)
    for (const known of this.tree.keys())
      if (known === path || known.startsWith(`${path}/`)) this.tree.delete(known)
  }
}

class Index implements HostIndex {
  readonly texts = new Map<string, string>()
  get(path: string): Promise<string | undefined> {
    return Promise.resolve(this.texts.get(path))
  }
  set(path: string, text: string): void {
    this.texts.set(path, text)
  }
  delete(path: string): void {
    this.texts.delete(path)
  }
}

describe('scans', () => {
  let sink: Sink
  let index: Index
  const progress: { bytesTransferred: number; filesProcessed: number }[] = []

  beforeEach(() => {
    sink = new Sink()
    index = new Index()
    progress.length = 0
  })

  async function scan(signal = new AbortController().signal, into: TreeSink = sink): Promise<ScanResult> {
    sink.calls = []
    return host.scan({ path: root }, into, { signal, index, onProgress: (now) => progress.push(now) })
  }

  /** Waits, so that the next scan starts well after the last change. */
  const settle = (): Promise<void> => sleep(50)

  function expectSame(): void {
    const tree = new Map(sink.tree)
    tree.delete('/')
    expect(Object.fromEntries([...tree].sort(([a], [b]) => (a < b ? -1 : 1)))).toEqual(hostFiles(root))
  }

  test('report DATA_LOSS for a malformed directory index', async () => {
    mkdirSync(join(root, 'many'))
    for (let i = 0; i <= hostLimits.namesPerText; i++) writeFileSync(join(root, 'many', `f${i}`), '')
    await scan()
    const texts = new Map(index.texts)
    const further = [...texts.keys()].find((key) => key.endsWith('//1'))!
    const first = [
      'no json',
      'null',
      '[]',
      '{"texts":1}',
      '{"texts":"1","seen":[]}',
      '{"texts":1,"seen":[["a","x",""]]}',
    ]
    const wrong = [
      ...first.map((text) => [further.slice(0, -3), text] as const),
      ...['{', '{}', '[["a","f"]]', '[["a","f",1]]'].map((text) => [further, text] as const),
    ]
    for (const [key, text] of wrong.filter((_, index) => index % stepOf(3) === 0)) {
      index.texts.clear()
      for (const [one, before] of texts) index.texts.set(one, before)
      index.set(key, text)
      await expect(scan(), text).rejects.toMatchObject({
        reason: 'DATA_LOSS',
        details: { path: further.slice(0, -3) },
      })
    }
  })

  test('report everything the first time and only changes later', async () => {
    for (const path of ['a', 'b', 'd/x', 'd/e/y', 'größe', '__proto__']) put(path)
    mkdirSync(join(root, 'empty'))
    symlinkSync('../nowhere', join(root, 'd/link'))
    linkSync(join(root, 'a'), join(root, 'd/hard'))
    chmodSync(join(root, 'b'), 0o4711)
    await settle()
    expect(await scan()).toEqual({ skipped: 0, unstable: 0 })
    expectSame()
    expect(progress.at(-1)).toEqual({ bytesTransferred: 27, filesProcessed: 8 })
    await scan()
    expect(sink.calls).toEqual([])

    put('a', 'other')
    put('n/new')
    rmSync(join(root, 'd/e'), { recursive: true })
    rmSync(join(root, 'b'))
    mkdirSync(join(root, 'b'))
    put('b/in')
    rmSync(join(root, 'd/link'))
    symlinkSync('elsewhere', join(root, 'd/link'))
    chmodSync(join(root, 'd/x'), 0o600)
    await settle()
    await scan()
    expectSame()
    expect(sink.calls.filter((call) => !call.startsWith('directory')).sort()).toEqual([
      'file /a',
      'file /b/in',
      'file /d/hard',
      'file /d/x',
      'file /n/new',
      'remove /b',
      'remove /d/e',
      'symlink /d/link',
    ])
    await scan()
    expect(sink.calls).toEqual([])
    expect([...index.texts.keys()].sort()).toEqual(['/', '/b', '/d', '/empty', '/n'])
  })

  test('reread recently changed files, because their next change might not be visible', async () => {
    put('a', 'one')
    put('later', 'one')
    const time = Date.now() / 1000 + 3600
    utimesSync(join(root, 'later'), time, time)
    await scan()
    const { atimeMs, mtimeMs } = statSync(join(root, 'a'))
    writeFileSync(join(root, 'a'), 'two')
    utimesSync(join(root, 'a'), atimeMs / 1000, mtimeMs / 1000)
    await settle()
    await scan()
    expectSame()
    expect(sink.calls).toContain('file /later')
    await scan()
    expect(sink.calls).toEqual(['file /later'])
  })

  test('detect a change that keeps size and time', async () => {
    put('a', 'one')
    await settle()
    await scan()
    const { atimeMs, mtimeMs } = statSync(join(root, 'a'))
    writeFileSync(join(root, 'a'), 'two')
    utimesSync(join(root, 'a'), atimeMs / 1000, mtimeMs / 1000)
    await scan()
    expect(sink.tree.get('/a')).toBe('file 644 two')
    put('b', 'new')
    utimesSync(join(root, 'b'), atimeMs / 1000, mtimeMs / 1000)
    renameSync(join(root, 'b'), join(root, 'a'))
    await scan()
    expectSame()
  })

  test('skip entries other than files, directories and symlinks without blocking', async () => {
    put('a')
    makeFifo('fifo')
    const server = createServer().listen(join(root, 'socket'))
    await new Promise((resolve) => server.once('listening', resolve))
    writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x66, 0xff])]), '')
    symlinkSync(Buffer.from([0x66, 0xff]), join(root, 'link'))
    try {
      expect(await scan()).toEqual({ skipped: 4, unstable: 0 })
      expect([...sink.tree.keys()].sort()).toEqual(['/', '/a'])
      rmSync(join(root, 'a'))
      makeFifo('a')
      await scan()
      expect([...sink.tree.keys()]).toEqual(['/'])
    } finally {
      server.close()
    }
  })

  test('read large files in pieces', async () => {
    const content = Buffer.alloc(5 * hostLimits.pieceBytes + 3, 'abc')
    put('large', content)
    const pieces: number[] = []
    await scan(undefined, {
      directory: () => undefined,
      symlink: () => undefined,
      hardLink: () => undefined,
      remove: () => undefined,
      file: async (_path, given) => {
        for await (const piece of given as AsyncIterable<Uint8Array>) pieces.push(piece.length)
      },
    })
    expect(pieces).toEqual([...Array<number>(5).fill(hostLimits.pieceBytes), 3])
  })

  test('reread a file that changes meanwhile, but only a few times', async () => {
    put('log', Buffer.alloc(2 * hostLimits.pieceBytes))
    let reads = 0
    const growing: TreeSink = {
      directory: () => undefined,
      symlink: () => undefined,
      hardLink: () => undefined,
      remove: () => undefined,
      file: async (_path, given) => {
        reads++
        appendFileSync(join(root, 'log'), 'more')
        for await (const _piece of given as AsyncIterable<Uint8Array>);
      },
    }
    expect(await scan(undefined, growing)).toEqual({ skipped: 0, unstable: 1 })
    expect(reads).toBe(hostLimits.reads)
    await settle()
    await scan()
    expectSame()
    expect(sink.calls).toContain('file /log')
  })

  test('handle many names in one directory', async () => {
    lowerBound(hostLimits, 'namesPerText', 500)
    for (let i = 0; i < hostLimits.namesPerText * 2 + 10; i++) put(`many/${i}`, '')
    await settle()
    await scan()
    expectSame()
    expect(index.texts.size).toBe(4)
    for (let i = 0; i < hostLimits.namesPerText; i++) rmSync(join(root, `many/${i}`))
    await scan()
    expectSame()
    expect(index.texts.size).toBe(2 + 1)
    rmSync(join(root, 'many'), { recursive: true })
    await scan()
    expectSame()
    expect(index.texts.size).toBe(1)
  })

  test('handle deep trees up to the limit with few descriptors', async () => {
    const deep = Array<string>(hostLimits.depth - 1)
      .fill('d')
      .join('/')
    put(`${deep}/file`)
    await scan()
    expect(sink.tree.has(`/${deep}/file`)).toBe(true)
    put(`${deep}/d/file`)
    const error = await failureOf(scan())
    expect(error.reason).toBe('LIMIT_EXCEEDED')
    expect(error.details['limit']).toBe('256')
  })

  test('handle paths up to the limit', async () => {
    const tree = await host.open(root, { create: false })
    const name = 'n'.repeat(200)
    let deep = ''
    for (let i = 0; i < 20; i++) await tree.makeDirectory((deep += `/${name}`))
    const write = (last: string): Promise<unknown> =>
      tree.writeSymlink(`${deep}/${last}`, 'target', { mtimeMs: 0 })
    try {
      await write('f'.repeat(hostLimits.pathBytes - deep.length - 1))
      await scan()
      expect(sink.calls).toContain(`symlink ${deep}/${'f'.repeat(75)}`)
      await write('f'.repeat(hostLimits.pathBytes - deep.length))
      expect(await reasonOf(scan())).toBe('LIMIT_EXCEEDED')
    } finally {
      await tree.close()
      // The path is longer than the system allows without an open directory.
      execFileSync('rm', ['-rf', root])
    }
  })

  test('stop immediately on an abort', async () => {
    for (let i = 0; i < 200; i++) put(`d${i}/f`)
    const reason = new Error('stop')
    await expect(scan(AbortSignal.abort(reason))).rejects.toBe(reason)
    expect(sink.calls).toEqual([])
    const stop = new AbortController()
    const stopping = Object.assign(new Sink(), { file: () => stop.abort(reason) })
    await expect(scan(stop.signal, stopping)).rejects.toBe(reason)
    expect(stopping.calls.length).toBeLessThan(20)
  })

  test('rethrow errors of the sink and release all resources', async () => {
    for (let i = 0; i < 100; i++) put(`d/${i}`)
    const before = readdirSync('/proc/self/fd').length
    const reason = new Error('full')
    const failing = Object.assign(new Sink(), { file: () => Promise.reject(reason) })
    for (let i = 0; i < 20; i++) await expect(scan(undefined, failing)).rejects.toBe(reason)
    expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + 10)
  })

  test.runIf(process.getuid?.() !== 0)('fail on unreadable entries', async () => {
    put('d/shut')
    chmodSync(join(root, 'd/shut'), 0)
    const error = await failureOf(scan())
    expect([error.reason, error.details['errno'], error.details['path']]).toEqual([
      'HOST_FAILED',
      'EACCES',
      '/d/shut',
    ])
  })
})

describe('trees', () => {
  let tree: HostTree
  const attributes = { mode: 0o640, mtimeMs: 1_600_000_000_123 }

  beforeEach(async () => {
    tree = await host.open(join(root, 'a/b'), { create: true })
  })

  afterEach(() => tree.close())

  async function* content(...pieces: string[]): AsyncGenerator<Uint8Array> {
    for (const piece of pieces) yield Buffer.from(piece)
  }

  const text = async (path: string): Promise<string | undefined> =>
    (
      await tree.read(path, async (given) => {
        const pieces: Uint8Array[] = []
        for await (const piece of given) pieces.push(piece)
        return Buffer.concat(pieces).toString()
      })
    )?.value

  test('keep the opened directory even if it is moved', async () => {
    expect(tree.directory).toBe(join(root, 'a/b'))
    await tree.makeDirectory('/d')
    await tree.writeFile('/d/f', content('one'), attributes)
    renameSync(join(root, 'a'), join(root, 'moved'))
    mkdirSync(join(scratch, 'outside/b/d'), { recursive: true })
    symlinkSync(join(scratch, 'outside'), join(root, 'a'))
    await tree.writeFile('/d/f', content('two'), attributes)
    expect(readFileSync(join(root, 'moved/b/d/f'), 'utf8')).toBe('two')
    expect(readdirSync(join(scratch, 'outside/b/d'))).toEqual([])
  })

  test('write, read and list', async () => {
    const stat = await tree.writeFile('/f', content('one', 'two'), {
      mode: 0o7640,
      mtimeMs: attributes.mtimeMs,
    })
    expect(stat).toMatchObject({
      kind: 'file',
      size: 6,
      mode: 0o640,
      mtimeMs: attributes.mtimeMs,
      fresh: false,
    })
    expect((await tree.stat('/f'))!.stamp).toBe(stat.stamp)
    expect(await text('/f')).toBe('onetwo')
    await tree.writeSymlink('/l', '../..', { mtimeMs: attributes.mtimeMs })
    expect(await tree.readLink('/l')).toBe('../..')
    expect((await tree.stat('/l'))!.mtimeMs).toBe(attributes.mtimeMs)
    expect(await text('/l')).toBeUndefined()
    expect(await tree.list('/l')).toBeUndefined()
    expect(await tree.stat('/l/a')).toBeUndefined()
    const linked = await tree.link('/f', '/g', stat.ino)
    expect(linked).toMatchObject({ ino: stat.ino, nlink: 2 })
    expect(await tree.link('/f', '/g', stat.ino)).toMatchObject({ nlink: 2 })
    expect(await tree.link('/l', '/h', stat.ino)).toBeUndefined()
    const listed = await tree.list('/')
    expect(listed!.entries.map(({ name, kind }) => [name, kind])).toEqual([
      ['f', 'file'],
      ['g', 'file'],
      ['l', 'symlink'],
    ])
    await tree.writeFile('/f', content('new'), attributes)
    expect(await text('/g')).toBe('onetwo')
    expect(readdirSync(join(root, 'a/b')).sort()).toEqual(['f', 'g', 'l'])
  })

  test('never write through symlinks', async () => {
    mkdirSync(join(scratch, 'outside'))
    writeFileSync(join(scratch, 'outside/f'), 'outside')
    const before = hostFiles(join(scratch, 'outside'))
    symlinkSync(join(scratch, 'outside'), join(root, 'a/b/d'))
    symlinkSync(join(scratch, 'outside/f'), join(root, 'a/b/f'))
    expect(await reasonOf(tree.writeFile('/d/f', content('x'), attributes))).toBe('HOST_PATH_NOT_ALLOWED')
    expect(await reasonOf(tree.makeDirectory('/d/e'))).toBe('HOST_PATH_NOT_ALLOWED')
    expect(await reasonOf(tree.makeDirectory('/d'))).toBe('HOST_FAILED')
    expect(await tree.setAttributes('/d', { mode: 0o700 })).toBeUndefined()
    expect(await tree.setAttributes('/f', { mode: 0o600, mtimeMs: 1 })).toBeUndefined()
    await tree.remove('/d/f')
    await tree.removeTemporary('/d')
    await tree.writeFile('/f', content('x'), attributes)
    expect(statSync(join(root, 'a/b/f')).isFile()).toBe(true)
    await tree.remove('/d')
    expect(hostFiles(join(scratch, 'outside'))).toEqual(before)
  })

  test('remove', async () => {
    await tree.makeDirectory('/d')
    await tree.makeDirectory('/d')
    await tree.writeFile('/d/f', content(), attributes)
    expect(await tree.removeDirectory('/d')).toBe(false)
    await tree.remove('/d/f')
    await tree.remove('/d/f')
    await tree.remove('/none/f')
    expect(await tree.removeDirectory('/d')).toBe(true)
    expect(await tree.removeDirectory('/d')).toBe(true)
    await tree.makeDirectory('/d')
    await tree.writeFile('/d/f', content('again'), attributes)
    expect(await text('/d/f')).toBe('again')
  })

  test('leave nothing of a failed write', async () => {
    await tree.writeFile('/f', content('one'), attributes)
    const broken = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half')
      throw new Error('broken')
    }
    await expect(tree.writeFile('/f', broken(), attributes)).rejects.toThrow('broken')
    expect(await text('/f')).toBe('one')
    expect(readdirSync(join(root, 'a/b'))).toEqual(['f'])
    await tree.makeDirectory('/d')
    const error = await failureOf(tree.writeFile('/d', content('x'), attributes))
    expect([error.reason, error.details['errno']]).toEqual(['HOST_FAILED', 'EISDIR'])
    expect(JSON.stringify([error.message, error.details, error.cause])).not.toContain(root)
    expect(readdirSync(join(root, 'a/b'))).toEqual(['d', 'f'])
  })

  test('remove temporary files of an interrupted write', async () => {
    writeFileSync(join(root, 'a/b/.forkspace-0123456789abcdef.tmp'), '')
    writeFileSync(join(root, 'a/b/.forkspace-mine.tmp'), '')
    expect((await tree.list('/'))!.entries.map(({ name }) => name)).toEqual(['.forkspace-mine.tmp'])
    await tree.removeTemporary('/')
    expect(readdirSync(join(root, 'a/b'))).toEqual(['.forkspace-mine.tmp'])
  })

  test('work on platforms without access through descriptors', async () => {
    const platform = Object.getOwnPropertyDescriptor(process, 'platform')!
    Object.defineProperty(process, 'platform', { ...platform, value: 'darwin' })
    try {
      await tree.close()
      tree = await host.open(join(root, 'a/b'), { create: false })
      await tree.makeDirectory('/d')
      const { ino } = await tree.writeFile('/d/f', content('one'), attributes)
      await tree.writeSymlink('/d/l', 'f', attributes)
      await tree.link('/d/f', '/g', ino)
      expect(await text('/g')).toBe('one')
      expect((await tree.list('/d'))!.entries.map(({ name }) => name)).toEqual(['f', 'l'])
      mkdirSync(join(scratch, 'outside/d'), { recursive: true })
      renameSync(join(root, 'a'), join(root, 'moved'))
      symlinkSync(join(root, 'moved'), join(root, 'a'))
      for (const step of [() => text('/d/f'), () => tree.list('/'), () => tree.stat('/d/f')])
        expect((await failureOf(step())).details['errno']).toBe('ESTALE')
    } finally {
      Object.defineProperty(process, 'platform', platform)
    }
  })

  test('handle many concurrent calls with few descriptors', async () => {
    const before = readdirSync('/proc/self/fd').length
    for (let i = 0; i < 300; i++) await tree.makeDirectory(`/d${i}`)
    await Promise.all(
      Array.from({ length: 300 }, (_, i) => tree.writeFile(`/d${i}/f`, content(`${i}`), attributes)),
    )
    expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + hostLimits.openDirectories + 10)
    const texts = await Promise.all(Array.from({ length: 300 }, (_, i) => text(`/d${i}/f`)))
    expect(texts).toEqual(Array.from({ length: 300 }, (_, i) => `${i}`))
    await tree.close()
    expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + 5)
    tree = await host.open(root, { create: false })
  })
})
