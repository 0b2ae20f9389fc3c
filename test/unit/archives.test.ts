import {
  chmodSync,
  linkSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGunzip, createGzip, gzipSync } from 'node:zlib'
import { packTar, unpackTar } from 'modern-tar'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createArchives } from '../../src/adapters/archive/index.js'
import type { TreeEntry } from '../../src/engine/ports.js'
import { openEngine, type Engine, type EngineError, type Session } from '../../src/index.js'
import {
  bytesOf,
  entriesOnDisk,
  hasGnuTar,
  hasPython,
  hasZip,
  inSeconds,
  MemorySink,
  python,
  run,
  shown,
} from '../support/archive-tools.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { isLong } from '../support/seed.js'
import { fewStorages } from '../support/storages.js'

let root: string
let made = 0
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'forkspace-archives-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

function newDirectory(): string {
  const directory = join(root, `d${++made}`)
  mkdirSync(directory)
  return directory
}

const archives = createArchives()

async function read(content: Uint8Array | AsyncIterable<Uint8Array>): Promise<MemorySink> {
  const sink = new MemorySink()
  const context = { signal: new AbortController().signal, onProgress: () => undefined }
  await archives.read(content, sink, context)
  return sink
}

/** Pieces of various sizes that match no structure of an archive. */
async function* inPieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  let size = 1
  for (let at = 0; at < bytes.length; at += size) {
    size = (size * 7 + 3) % 1511
    // Overwrites the previous piece, as a source may do.
    const piece = Uint8Array.from(bytes.subarray(at, at + size))
    yield piece
    piece.fill(0xee)
  }
}

const at = new Date('2024-05-06T07:08:09Z')
const longName = 'n'.repeat(200)
const deepPath = `deep/${'directory-of-some-length/'.repeat(12)}end`

/** A directory with everything that archives have to represent. */
function makeTree(): string {
  const directory = newDirectory()
  const write = (path: string, content: string | Uint8Array, mode = 0o644): void => {
    mkdirSync(join(directory, path, '..'), { recursive: true })
    writeFileSync(join(directory, path), content)
    chmodSync(join(directory, path), mode)
    utimesSync(join(directory, path), at, at)
  }
  write('a.txt', 'hello\n')
  write('empty', '')
  write('bin/run.sh', '#!/bin/sh\n', 0o755)
  write('secret', 'x', 0o600)
  write('large', Buffer.alloc(3 * 2 ** 20 + 77, 'abcdefg'))
  write('block', Buffer.alloc(512, 'b'))
  write('__proto__', 'data')
  write('back\\slash', 'one name')
  write('ünï/日本語/🦊.txt', 'names')
  write(longName, 'long')
  write(deepPath, 'deep')
  mkdirSync(join(directory, 'none'), { mode: 0o700 })
  linkSync(join(directory, 'a.txt'), join(directory, 'z-again.txt'))
  symlinkSync('../a.txt', join(directory, 'bin/link'))
  symlinkSync('/etc/passwd', join(directory, 'out'))
  symlinkSync('t'.repeat(300), join(directory, 'far'))
  for (const path of ['bin/link', 'out', 'far']) lutimesSync(join(directory, path), at, at)
  for (const path of ['none', 'bin', 'ünï', '.']) utimesSync(join(directory, path), at, at)
  return directory
}

describe.skipIf(!hasGnuTar)('a tar from GNU tar', () => {
  let tree: string
  beforeAll(() => {
    tree = makeTree()
  })

  test.each([
    ['gnu', ['--format=gnu']],
    ['posix', ['--format=posix']],
    ['posix with times of files alone', ['--format=posix', '--pax-option=delete=atime,delete=ctime']],
    ['gnu in gzip', ['--format=gnu', '-z']],
    ['posix in gzip', ['--format=posix', '-z']],
  ])('is read: %s', async (_case, options) => {
    const archive = run('tar', ['-cf', '-', ...options, '.'], tree)
    const expected = inSeconds(entriesOnDisk(tree))
    for (const content of [archive, inPieces(archive), Readable.from([archive])]) {
      const sink = await read(content)
      expect(inSeconds(sink.entries)).toEqual(expected)
      expect(sink.links.map((pair) => pair.toSorted())).toEqual([['/a.txt', '/z-again.txt']])
    }
  })

  test.each(['ustar', 'v7', 'oldgnu'])('is read with the features of %s', async (format) => {
    const names = ['bin', 'empty', 'block', 'secret', '__proto__', 'large']
    const { entries } = await read(run('tar', ['-cf', '-', `--format=${format}`, ...names], tree))
    const expected = [...entriesOnDisk(tree)].filter(([path]) => names.includes(path.split('/')[1]!))
    expect(inSeconds(entries)).toEqual(inSeconds(new Map(expected)))
  })

  test('keeps times to the nanosecond if the format has them', async () => {
    const directory = newDirectory()
    writeFileSync(join(directory, 'a'), '')
    utimesSync(join(directory, 'a'), 1_700_000_000.25, 1_700_000_000.25)
    const { entries } = await read(run('tar', ['-cf', '-', '--format=posix', 'a'], directory))
    expect(entries.get('/a')!.mtimeMs).toBe(1_700_000_000_250)
    utimesSync(join(directory, 'a'), new Date(-86_400_000), new Date(-86_400_000))
    for (const format of ['gnu', 'posix']) {
      const early = await read(run('tar', ['-cf', '-', `--format=${format}`, 'a'], directory))
      expect(early.entries.get('/a')!.mtimeMs).toBe(-86_400_000)
    }
  })

  test('with a hard link to a symlink becomes two symlinks', async () => {
    const directory = newDirectory()
    symlinkSync('target', join(directory, 'a'))
    linkSync(join(directory, 'a'), join(directory, 'b'))
    const { entries } = await read(run('tar', ['-cf', '-', 'a', 'b'], directory))
    expect([...entries.values()].map((entry) => entry.kind === 'symlink' && entry.target)).toEqual([
      'target',
      'target',
    ])
  })

  test('without entries becomes an empty tree', async () => {
    const nothing = run('tar', ['-cf', '-', '-T', '/dev/null'], root)
    expect((await read(nothing)).entries.size).toBe(0)
    expect((await read(gzipSync(nothing))).entries.size).toBe(0)
  })

  test('may contain a directory twice', async () => {
    const archive = run('tar', ['-cf', '-', '--no-recursion', 'none', 'bin', 'none'], tree)
    expect((await read(archive)).paths).toEqual(['/bin', '/none'])
  })
})

describe.skipIf(!hasGit)('an archive from git', () => {
  test.each(['tar', 'tar.gz', 'zip'])('is read: %s', async (format) => {
    const repository = GitRepository.create(join(newDirectory(), 'r'), { bare: false })
    const tree = repository.path
    writeFileSync(join(tree, 'a.txt'), 'hello')
    mkdirSync(join(tree, 'dir'))
    writeFileSync(join(tree, 'dir/ü.sh'), 'run', { mode: 0o755 })
    symlinkSync('dir/ü.sh', join(tree, 'link'))
    repository.git(['add', '-A'])
    repository.git(['commit', '-qm', 'one'])
    const { entries } = await read(repository.gitBytes(['archive', `--format=${format}`, 'HEAD']))
    expect([...entries.keys()].sort()).toEqual(['/a.txt', '/dir', '/dir/ü.sh', '/link'])
    expect(entries.get('/link')).toMatchObject({ target: 'dir/ü.sh' })
    expect(entries.get('/a.txt')).toMatchObject({ content: 'hello', mtimeMs: 1_700_000_000_000 })
    expect((entries.get('/dir/ü.sh') as { mode: number }).mode & 0o111).toBe(0o111)
  })
})

test('reads a package from npm', async () => {
  const directory = newDirectory()
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ name: 'a', version: '1.0.0' }))
  writeFileSync(join(directory, 'index.js'), 'export {}')
  run('npm', ['pack', '--offline', '--cache', join(root, 'npm-cache'), '--pack-destination', root], directory)
  const { paths } = await read(readFileSync(join(root, 'a-1.0.0.tgz')))
  expect(paths).toEqual(['/package/index.js', '/package/package.json'])
})

describe.skipIf(!hasPython)('an archive from Python', () => {
  test.each(['PAX_FORMAT', 'GNU_FORMAT'])('is read: tar of %s', async (format) => {
    const tree = makeTree()
    const code = `t = tarfile.open(fileobj=out, mode='w|', format=tarfile.${format})\nt.add('.')\nt.close()`
    const sink = await read(python(code, tree))
    expect(inSeconds(sink.entries)).toEqual(inSeconds(entriesOnDisk(tree)))
    expect(sink.links).toHaveLength(1)
  })

  test('keeps extended attributes, including bytes in base64', async () => {
    const code = `
t = tarfile.open(fileobj=out, mode='w|', format=tarfile.PAX_FORMAT)
i = tarfile.TarInfo('a'); i.pax_headers = {'SCHILY.xattr.user.one': 'v', 'SCHILY.xattr.user.a%3Db%253D': 'equals', 'comment': 'no'}
t.addfile(i)
i = tarfile.TarInfo('d'); i.type = tarfile.DIRTYPE; i.mode = 0o750; i.pax_headers = {'SCHILY.xattr.user.bytes': 'VALU', 'LIBARCHIVE.xattr.user.%3Dbytes': '/woA/g'}
t.addfile(i)
t.close()`
    const archive = python(code, root)
    archive.set([0xff, 0x0a, 0x00, 0xfe], archive.indexOf('VALU'))
    const { entries } = await read(archive)
    expect(entries.get('/a')).toMatchObject({ xattrs: { 'user.one': 'v', 'user.a=b%3D': 'equals' } })
    expect(entries.get('/d')).toMatchObject({
      kind: 'directory',
      mode: 0o750,
      xattrs: { 'user.=bytes': '\xff\n\0\xfe' },
    })
  })

  test('is read: zip, stored, deflated, streamed, zip64, with symlinks, modes and any names', async () => {
    const code = `
class Pipe(io.RawIOBase):
    def writable(self): return True
    def write(self, b): out.write(b); return len(b)
def add(z, name, data, mode, method, **more):
    i = zipfile.ZipInfo(name, (2024, 5, 6, 7, 8, 10)); i.external_attr = mode << 16; i.compress_type = method; i.create_system = 3
    with z.open(i, 'w', **more) as f: f.write(data)
z = zipfile.ZipFile(Pipe(), 'w')
add(z, 'stored', b'stored' * 10, 0o100600, zipfile.ZIP_STORED)
add(z, 'deflated', b'deflated' * 1000, 0o100755, zipfile.ZIP_DEFLATED)
add(z, 'large', b'0123456789' * 400000, 0o100644, zipfile.ZIP_DEFLATED)
add(z, 'large-stored', b'0123456789' * 400000, 0, zipfile.ZIP_STORED)
add(z, 'wide', b'64', 0o100644, zipfile.ZIP_DEFLATED, force_zip64=True)
add(z, 'empty', b'', 0o100644, zipfile.ZIP_DEFLATED)
add(z, 'dir/', b'', 0o40711, zipfile.ZIP_STORED)
add(z, 'dir/\\u00fc\\u65e5', b'name', 0o100644, zipfile.ZIP_STORED)
add(z, 'dir/link', '../\\u00fc'.encode(), 0o120777, zipfile.ZIP_STORED)
add(z, 'far/below/file', b'parents', 0o100644, zipfile.ZIP_STORED)
z.comment = b'a comment'
z.close()`
    const archive = python(code, root)
    for (const content of [archive, inPieces(archive)]) {
      const { entries, paths } = await read(content)
      expect(paths).toEqual(
        [
          '/deflated',
          '/dir',
          '/dir/link',
          '/dir/ü日',
          '/empty',
          '/far/below/file',
          '/large',
          '/large-stored',
          '/stored',
          '/wide',
        ].sort(),
      )
      const mtimeMs = Date.UTC(2024, 4, 6, 7, 8, 10)
      expect(entries.get('/stored')).toEqual({
        kind: 'file',
        content: 'stored'.repeat(10),
        mode: 0o600,
        mtimeMs,
      })
      expect(entries.get('/deflated')).toMatchObject({
        content: shown(Buffer.from('deflated'.repeat(1000))),
        mode: 0o755,
      })
      expect(entries.get('/large')).toMatchObject({
        content: shown(Buffer.from('0123456789'.repeat(400_000))),
      })
      expect(entries.get('/large-stored')).toMatchObject({
        content: shown(Buffer.from('0123456789'.repeat(400_000))),
        mode: 0o600,
      })
      expect(entries.get('/wide')).toMatchObject({ content: '64' })
      expect(entries.get('/empty')).toMatchObject({ content: '' })
      expect(entries.get('/dir')).toEqual({ kind: 'directory', mode: 0o711, mtimeMs })
      expect(entries.get('/dir/link')).toEqual({ kind: 'symlink', target: '../ü', mtimeMs })
    }
  })

  test.runIf(isLong)('is read: zip with more than 65,535 entries', async () => {
    const code = `
z = zipfile.ZipFile(io.BytesIO(), 'w')
for i in range(66000): z.writestr(zipfile.ZipInfo('d%d/f%d' % (i % 100, i)), b'')
b = z.fp; z.close(); out.write(b.getvalue())`
    const { entries } = await read(python(code, root))
    expect(entries.size).toBe(66_000)
  })

  test('is read: zip with names in code page 437', async () => {
    const code = `
b = io.BytesIO(); z = zipfile.ZipFile(b, 'w'); z.writestr('XX.txt', b'old'); z.close()
out.write(b.getvalue().replace(b'XX', b'\\x81\\xe1'))`
    expect((await read(python(code, root))).paths).toEqual(['/üß.txt'])
  })

  test('is read: zip without entries', async () => {
    expect((await read(python(`zipfile.ZipFile(out, 'w').close()`, root))).paths).toEqual([])
  })
})

test.skipIf(!hasZip)('reads a zip from Info-ZIP', async () => {
  const tree = makeTree()
  rmSync(join(tree, 'back\\slash'))
  run('zip', ['-q', '-r', '-y', join(root, 'info.zip'), '.'], tree)
  const { entries } = await read(readFileSync(join(root, 'info.zip')))
  const expected = entriesOnDisk(tree)
  expected.delete('/')
  expect(inSeconds(entries)).toEqual(inSeconds(expected))
})

test('reads an archive from another writer', async () => {
  const header = { mtime: at, uid: 1000, uname: 'me' }
  const archive = await packTar([
    { header: { ...header, name: 'dir/', type: 'directory', size: 0 } },
    { header: { ...header, name: `dir/${longName}`, size: 3 }, body: 'abc' },
    { header: { ...header, name: 'link', type: 'symlink', linkname: 'dir', size: 0 } },
  ])
  expect((await read(archive)).paths).toEqual(['/dir', `/dir/${longName}`, '/link'])
})

describe('reading an archive', () => {
  test('reports progress up to the whole archive', async () => {
    const steps: { bytesTransferred: number; filesProcessed: number }[] = []
    const archive = await bytesOf(archives.writeTar(listOf(manyEntries(50))))
    await archives.read(inPieces(archive), new MemorySink(), {
      signal: new AbortController().signal,
      onProgress: (progress) => steps.push(progress),
    })
    expect(steps.at(-1)).toEqual({ bytesTransferred: archive.length, filesProcessed: 50 })
    for (const [i, { bytesTransferred, filesProcessed }] of steps.entries()) {
      const before = steps[i - 1] ?? { bytesTransferred: 0, filesProcessed: 0 }
      expect(bytesTransferred).toBeGreaterThanOrEqual(before.bytesTransferred)
      expect(filesProcessed).toBeGreaterThanOrEqual(before.filesProcessed)
    }
  })

  test('applies backpressure from a slow sink to the source', async () => {
    const piece = Buffer.alloc(2 ** 20)
    const size = (isLong ? 64 : 24) * 2 ** 20
    let given = 0
    let taken = 0
    let furthest = 0
    async function* source(): AsyncGenerator<Uint8Array> {
      for await (const bytes of archives.writeTar(listOf([largeEntry(size, piece)]))) {
        given += bytes.length
        furthest = Math.max(furthest, given - taken)
        yield bytes
      }
    }
    const sink = new MemorySink()
    sink.file = async (_path, content) => {
      for await (const bytes of content as AsyncIterable<Uint8Array>) {
        await new Promise((resolve) => setImmediate(resolve))
        taken += bytes.length
      }
    }
    for (const pack of [(pieces: AsyncIterable<Uint8Array>) => pieces, inGzip]) {
      given = taken = furthest = 0
      await archives.read(pack(source()), sink, context())
      expect(taken).toBe(size)
      expect(furthest).toBeLessThan(8 * 2 ** 20)
    }
  })

  test('lets a sink skip a content or a part of it', async () => {
    const archive = await bytesOf(
      archives.writeTar(listOf([largeEntry(5 * 2 ** 20, Buffer.alloc(2 ** 20, 1)), ...manyEntries(3)])),
    )
    for (const take of [0, 1, 2]) {
      const sink = new MemorySink()
      const takeFile = sink.file.bind(sink)
      sink.file = async (path, content, attributes) => {
        if (content instanceof Uint8Array) return takeFile(path, content, attributes)
        let left = take
        if (left > 0) for await (const _ of content) if (--left === 0) break
      }
      await archives.read(archive, sink, context())
      expect(sink.paths).toEqual(['/f0', '/f1', '/f2'])
    }
  })

  test('rethrows the error of the sink and ends the source', async () => {
    const archive = await bytesOf(archives.writeTar(listOf(manyEntries(3))))
    const source = Readable.from([archive])
    const sink = new MemorySink()
    const failure = new Error('full')
    sink.file = () => Promise.reject(failure)
    await expect(archives.read(source, sink, context())).rejects.toBe(failure)
    expect(source.destroyed).toBe(true)
  })

  test('rethrows the error of the sink without waiting for a stalled source', async () => {
    const archive = await bytesOf(archives.writeTar(listOf(manyEntries(3))))
    for (const bytes of [archive.subarray(0, -1024), flushed(archive)]) {
      const source = new Readable({ read: () => undefined })
      source.push(bytes)
      const sink = new MemorySink()
      const failure = new Error('full')
      sink.file = () => Promise.reject(failure)
      await expect(archives.read(source, sink, context())).rejects.toBe(failure)
      expect(source.destroyed).toBe(true)
    }
  })

  test('rethrows the error of the source at any byte, also in gzip', async () => {
    const archive = await bytesOf(archives.writeTar(listOf(manyEntries(2))))
    const failure = new Error('gone')
    async function* failing(bytes: Uint8Array, end: number): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, end)
      await Promise.resolve()
      throw failure
    }
    for (const bytes of [archive, gzipSync(archive)]) {
      for (const end of [0, 1, 100, bytes.length >> 1, bytes.length - 1, bytes.length])
        await expect(archives.read(failing(bytes, end), new MemorySink(), context())).rejects.toBe(failure)
    }
  })
})

test.runIf(isLong)('writes and reads a file of more than 8 GiB', { timeout: 300_000 }, async () => {
  const size = 8 * 2 ** 30 + 5
  let taken = 0
  const sink = new MemorySink()
  sink.file = async (path, content) => {
    if (path !== '/large') return
    for await (const bytes of content as AsyncIterable<Uint8Array>) taken += bytes.length
  }
  await archives.read(
    archives.writeTar(listOf([largeEntry(size, Buffer.alloc(2 ** 20)), ...manyEntries(1)])),
    sink,
    context(),
  )
  expect(taken).toBe(size)
})

describe.each(fewStorages)('a tar of a session on %s', (_name, make) => {
  let engine: Engine
  let session: Session
  beforeAll(async () => {
    engine = await openEngine({ storage: make(newDirectory()) })
    session = await engine.sessions.create({ files: { '/base.txt': 'base' } })
    const { fs } = session
    await fs.promises.mkdir('/dir/ünï/empty', { recursive: true, mode: 0o750 })
    await fs.promises.writeFile('/dir/run.sh', 'run', { mode: 0o755 })
    await fs.promises.writeFile('/dir/large', Buffer.alloc(3 * 2 ** 20 + 9, 'large'))
    await fs.promises.writeFile('/dir/empty', '')
    await fs.promises.truncate('/dir/empty', 2 * 2 ** 20 + 1)
    await fs.promises.writeFile(`/${longName}`, 'long')
    await fs.promises.mkdir(`/${deepPath}`, { recursive: true })
    await fs.promises.symlink('../base.txt', '/dir/link')
    await fs.promises.symlink('ü'.repeat(200), '/far')
    await fs.promises.link('/base.txt', '/dir/again')
    await fs.promises.link('/dir/again', '/third')
    await fs.promises.utimes('/dir', new Date(-1_000_500), new Date(-1_000_500))
    await fs.promises.utimes(`/${longName}`, 2 ** 32, 2 ** 32)
    await fs.promises.writeFile('/closed', 'closed', { mode: 0 })
    await fs.promises.chmod('/closed', 0)
    await fs.promises.symlink('ü', '/near')
    await fs.promises.writeFile('/__proto__', 'data')
    await session.files.setXattr({
      path: '/base.txt',
      name: 'user.a=b%',
      value: Buffer.from([255, 0, 10, 61]),
    })
    await session.files.setXattr({ path: '/base.txt', name: 'user.\ufffd', value: '\ufffd text' })
    await session.files.setXattr({ path: '/dir', name: 'user.empty', value: '' })
    await session.files.setXattr({ path: '/dir', name: 'user.long', value: Buffer.alloc(64 * 1024, 1) })
  })
  afterAll(() => engine.close())

  test('contains everything, and its import has the same hash', async () => {
    const archive = await bytesOf(session.exportTar())
    const { manifestHash } = await session.manifest()
    for (const content of [archive, gzipSync(archive)]) {
      const sourceId = await uploaded(content)
      const copy = await engine.sessions.create({ sourceRef: { sourceId } })
      expect((await copy.manifest()).manifestHash).toBe(manifestHash)
      const again = await bytesOf(engine.sources.exportTar({ sourceId }))
      expect(again.equals(archive)).toBe(true)
      expect((await copy.fs.promises.stat('/third')).nlink).toBe(3)
      expect((await copy.fs.promises.stat('/dir')).mtimeMs).toBe(-1_001_000)
    }
  })

  test.skipIf(!hasGnuTar)('is unpacked by GNU tar', async () => {
    const directory = newDirectory()
    run('tar', ['-xpf', '-'], directory, await bytesOf(session.exportTar()))
    const unpacked = entriesOnDisk(directory)
    const { entries } = await read(await bytesOf(session.exportTar()))
    const expected = [...entries].map(([path, entry]) => {
      const { xattrs: _, ...rest } = entry as typeof entry & { xattrs?: unknown }
      return [path, rest] as const
    })
    expect(Object.fromEntries(unpacked)).toEqual(Object.fromEntries(expected))
  })

  test.skipIf(!hasPython)('is listed by Python, with extended attributes', async () => {
    const code = `
t = tarfile.open(fileobj=sys.stdin.buffer, mode='r|')
out.write(json.dumps([[m.name, m.type.decode(), m.uid, m.uname, m.mtime, m.pax_headers.get('LIBARCHIVE.xattr.user.a%3Db%25', ''), m.pax_headers.get('SCHILY.xattr.user.a%3Db%25', '')] for m in t]).encode())`
    const listed = JSON.parse(String(python(code, root, await bytesOf(session.exportTar())))) as unknown[][]
    const names = listed.map(([name]) => name)
    expect(names[0]).toBe('.')
    expect(names).toContain(longName)
    expect(names).toContain(deepPath)
    expect(listed.every(([, , uid, uname]) => uid === 0 && uname === '')).toBe(true)
    expect(listed.find(([name]) => name === 'base.txt')).toMatchObject([
      'base.txt',
      '0',
      0,
      '',
      expect.anything(),
      '/wAKPQ==',
      '',
    ])
    expect(listed.find(([name]) => name === 'dir')![4]).toBe(-1001)
  })

  test('is read by another library', async () => {
    const found = await unpackTar(await bytesOf(session.exportTar()), { strict: true })
    const large = found.find(({ header }) => header.name === 'dir/large')!
    expect(Buffer.from(large.data!).equals(Buffer.alloc(3 * 2 ** 20 + 9, 'large'))).toBe(true)
    expect(found.find(({ header }) => header.name === 'third')!.header).toMatchObject({
      type: 'link',
      linkname: 'base.txt',
    })
  })

  test('shows the state of the call, of a checkpoint, of the base, or of a directory', async () => {
    await session.checkpoint({ checkpointLabel: 'before' })
    const archive = await bytesOf(session.exportTar())
    const fork = await session.fork()
    const now = fork.exportTar()
    await fork.fs.promises.writeFile('/later', 'later')
    expect((await bytesOf(now)).equals(archive)).toBe(true)
    expect((await bytesOf(now)).equals(archive)).toBe(true)
    expect((await bytesOf(session.exportTar({ checkpointLabel: 'before' }))).equals(archive)).toBe(true)
    expect((await read(fork.exportTar({ base: true }))).paths).toEqual(['/', '/base.txt'])
    expect((await read(fork.exportTar())).paths).toContain('/later')
    const inside = await read(fork.exportTar({ path: '/dir' }))
    expect(inside.paths).toEqual(
      ['/', '/again', '/empty', '/large', '/link', '/run.sh', '/ünï', '/ünï/empty'].sort(),
    )
    expect(inside.entries.get('/again')).toMatchObject({ content: 'base' })
    expect(inside.links).toEqual([])
  })

  test('fails at the first read', async () => {
    const reasonOf = async (stream: AsyncIterable<Uint8Array>): Promise<string> => {
      const error: unknown = await bytesOf(stream).catch((thrown: unknown) => thrown)
      return (error as EngineError).reason
    }
    expect(await reasonOf(session.exportTar({ checkpointLabel: 'no' }))).toBe('CHECKPOINT_NOT_FOUND')
    expect(await reasonOf(session.exportTar({ path: '/no' }))).toBe('PATH_NOT_FOUND')
    expect(await reasonOf(session.exportTar({ path: '/base.txt' }))).toBe('NOT_A_DIRECTORY')
    expect(await reasonOf(session.exportTar({ path: 'relative' }))).toBe('INVALID_ARGUMENT')
    expect(await reasonOf(session.exportTar(null as never))).toBe('INVALID_ARGUMENT')
    expect(await reasonOf(session.exportTar({ base: true, checkpointLabel: 'x' }))).toBe('INVALID_ARGUMENT')
    expect(await reasonOf(engine.sources.exportTar({ sourceId: 'no' }))).toBe('SOURCE_NOT_FOUND')
    expect(await reasonOf(engine.sources.exportTar(undefined as never))).toBe('INVALID_ARGUMENT')
    const { sourceId } = await engine.sources.create({ displayName: 'x', uploadedSnapshot: {} })
    expect(await reasonOf(engine.sources.exportTar({ sourceId }))).toBe('SOURCE_WITHOUT_REVISION')
    expect(await reasonOf(session.narrow({ without: ['files.read'] }).exportTar())).toBe('PERMISSION_DENIED')
    // This stream is never read.
    session.exportTar({ checkpointLabel: 'no' })
  })

  test('can be piped through streams', async () => {
    const pieces: Buffer[] = []
    await pipeline(session.exportTar(), createGzip(), createGunzip(), async (source) => {
      for await (const piece of source as AsyncIterable<Buffer>) pieces.push(piece)
    })
    const archive = await bytesOf(session.exportTar())
    expect(Buffer.concat(pieces).equals(archive)).toBe(true)
    expect((await bytesOf(Readable.from(session.exportTar()))).equals(archive)).toBe(true)
    for await (const _ of session.exportTar()) break
  })

  async function uploaded(content: Uint8Array): Promise<string> {
    const { sourceId } = await engine.sources.create({ displayName: 'copy', uploadedSnapshot: {} })
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
    await engine.sources.waitForJob(job)
    return sourceId
  }
})

test('writes a tar of a tree as it is read', async () => {
  let reads = 0
  async function* entries(): AsyncGenerator<TreeEntry> {
    for (let i = 0; ; i++) {
      await Promise.resolve()
      reads++
      yield largeEntry(2 ** 20, Buffer.alloc(2 ** 20), `/f${i}`)
    }
  }
  for await (const _ of archives.writeTar(entries())) if (reads > 2) break
  expect(reads).toBe(3)
})

test('refuses to write content that differs from its declared size', async () => {
  const entry = { ...(largeEntry(10, Buffer.alloc(10)) as TreeEntry & { kind: 'file' }), size: 11 }
  await expect(bytesOf(archives.writeTar(listOf([entry])))).rejects.toMatchObject({ reason: 'INTERNAL' })
})

function context(): { signal: AbortSignal; onProgress: () => void } {
  return { signal: new AbortController().signal, onProgress: () => undefined }
}

/** Bytes in an unfinished gzip stream. */
function flushed(bytes: Uint8Array): Buffer {
  return gzipSync(bytes, { level: 0, finishFlush: constants.Z_SYNC_FLUSH })
}

function inGzip(pieces: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  // Without compression, so that buffered data is counted in bytes.
  return Readable.from(pieces).pipe(createGzip({ level: 0 }))
}

async function* listOf(entries: readonly TreeEntry[]): AsyncGenerator<TreeEntry> {
  yield* entries
}

function manyEntries(count: number): TreeEntry[] {
  return Array.from({ length: count }, (_, i) => largeEntry(i * 100, Buffer.alloc(100, i), `/f${i}`))
}

function largeEntry(size: number, piece: Buffer, path = '/large'): TreeEntry {
  return {
    kind: 'file',
    path,
    size,
    attributes: { mode: 0o644, mtimeMs: 0 },
    async *read() {
      for (let left = size; left > 0; left -= piece.length) yield piece.subarray(0, left)
    },
  }
}
