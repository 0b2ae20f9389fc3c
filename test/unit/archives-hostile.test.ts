import { Readable } from 'node:stream'
import { constants, crc32, deflateRawSync, gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { createArchives } from '../../src/adapters/archive/index.js'
import { archiveLimits } from '../../src/adapters/archive/limits.js'
import { EngineError, openEngine } from '../../src/index.js'
import { MemorySink } from '../support/archive-tools.js'
import { lowerBound } from '../support/lower-bound.js'
import { pax, tarEntry, tarOf, zipOf, type RawTarEntry, type RawZipEntry } from '../support/raw-archives.js'
import { runs, seed, size, stepOf } from '../support/seed.js'

const archives = createArchives()

async function read(
  content: Uint8Array | AsyncIterable<Uint8Array>,
  sink = new MemorySink(),
): Promise<MemorySink> {
  await archives.read(content, sink, { signal: new AbortController().signal, onProgress: () => undefined })
  return sink
}

/** A sink that discards everything. */
class NoSink extends MemorySink {
  override directory(): void {}
  override symlink(): void {}
  override hardLink(): void {}
  override async file(_path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    if (!(content instanceof Uint8Array)) for await (const _ of content);
  }
}

async function errorOf(
  content: Uint8Array | AsyncIterable<Uint8Array>,
  sink?: MemorySink,
): Promise<EngineError> {
  const error = await read(content, sink).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(EngineError)
  return error as EngineError
}

const dir = (name: string): RawTarEntry => ({ name, type: '5' })
const file = (name: string, content = ''): RawTarEntry => ({ name, content })
const link = (name: string, linkName: string): RawTarEntry => ({ name, type: '2', linkName })
const hard = (name: string, linkName: string): RawTarEntry => ({ name, type: '1', linkName })

type Refused = [what: string, content: Uint8Array, reason: string, path?: string]

const longPath = `${'p'.repeat(250)}/`.repeat(17)

describe('rejects entries that no tree can contain', () => {
  test.each<Refused>([
    ['a path upwards', tarOf(file('../a')), 'UNSAFE_PATH', '../a'],
    ['a path upwards inside', tarOf(file('a/../../b')), 'UNSAFE_PATH', 'a/../../b'],
    ['a path upwards at the end', tarOf(dir('a/..')), 'UNSAFE_PATH', 'a/..'],
    ['an absolute path', tarOf(file('/etc/passwd')), 'UNSAFE_PATH', '/etc/passwd'],
    ['an absolute path of two slashes', tarOf(file('//a')), 'UNSAFE_PATH', '//a'],
    ['a path upwards in pax', tarOf(pax(['path', '../a']), file('a')), 'UNSAFE_PATH', '../a'],
    ['an absolute path in pax', tarOf(pax(['path', '/a']), file('a')), 'UNSAFE_PATH', '/a'],
    ['NUL in pax', tarOf(pax(['path', 'a\0b']), file('a')), 'UNSAFE_PATH', 'a\0b'],
    ['an empty name', tarOf(file('')), 'UNSAFE_PATH', ''],
    ['a file that is the root', tarOf(file('.')), 'UNSAFE_PATH', '.'],
    ['a symlink that is the root', tarOf(link('./', 'a')), 'UNSAFE_PATH', './'],
    ['a symlink with a trailing slash', tarOf(link('a/', 'b')), 'UNSAFE_PATH', 'a/'],
    ['a prefix upwards', tarOf({ name: 'a', prefix: '..' }), 'UNSAFE_PATH', '../a'],
    ['an absolute prefix', tarOf({ name: 'a', prefix: '/etc' }), 'UNSAFE_PATH', '/etc/a'],
    ['a file twice', tarOf(file('a'), file('./a')), 'UNSAFE_PATH', './a'],
    ['a file that replaces a directory', tarOf(dir('a'), file('a')), 'UNSAFE_PATH', 'a'],
    ['a file that replaces a parent directory', tarOf(file('a/b'), file('a')), 'UNSAFE_PATH', 'a'],
    ['a directory that replaces a file', tarOf(file('a'), dir('a/')), 'UNSAFE_PATH', 'a/'],
    ['a symlink that replaces a directory', tarOf(dir('a'), link('a', '/')), 'UNSAFE_PATH', 'a'],
    ['a directory that replaces a symlink', tarOf(link('a', '/'), dir('a')), 'UNSAFE_PATH', 'a'],
    ['an entry below a symlink', tarOf(link('a', '/etc'), file('a/passwd')), 'UNSAFE_PATH', 'a/passwd'],
    ['an entry far below a symlink', tarOf(link('a', '.'), file('a/b/c')), 'UNSAFE_PATH', 'a/b/c'],
    [
      'an entry below a symlink, after one in a directory whose name has the same length',
      tarOf(link('b', '/etc'), file('a/x'), file('b/passwd')),
      'UNSAFE_PATH',
      'b/passwd',
    ],
    ['an entry below a file', tarOf(file('a'), file('a/b')), 'UNSAFE_PATH', 'a/b'],
    ['a hard link below a symlink', tarOf(file('f'), link('a', '.'), hard('a/b', 'f')), 'UNSAFE_PATH', 'a/b'],
    ['a hard link to a missing entry', tarOf(hard('a', 'b')), 'INVALID_ARCHIVE', 'a'],
    ['a hard link to a later entry', tarOf(hard('a', 'b'), file('b')), 'INVALID_ARCHIVE', 'a'],
    ['a hard link to itself', tarOf(hard('a', 'a')), 'INVALID_ARCHIVE', 'a'],
    ['a hard link to a directory', tarOf(dir('b'), hard('a', 'b')), 'INVALID_ARCHIVE', 'a'],
    [
      'a hard link through a symlink',
      tarOf(file('f'), link('l', '.'), hard('a', 'l/f')),
      'INVALID_ARCHIVE',
      'a',
    ],
    ['a file .git', tarOf(file('a/.git')), 'UNSAFE_PATH', 'a/.git'],
    ['a directory .git', tarOf(dir('.git/')), 'UNSAFE_PATH', '.git/'],
    ['a file below .GIT', tarOf(file('./.GIT/config')), 'UNSAFE_PATH', './.GIT/config'],
    ['a file below git~1', tarOf(file('git~1/config')), 'UNSAFE_PATH', 'git~1/config'],
    ['.git in disguise', tarOf(file('.g\u200cit/config')), 'UNSAFE_PATH', '.g\u200cit/config'],
    ['a symlink .git', tarOf(link('.git', 'a')), 'UNSAFE_PATH', '.git'],
    ['a hard link .git', tarOf(file('a'), hard('.git', 'a')), 'UNSAFE_PATH', '.git'],
    ['a symlink .gitmodules', tarOf(link('a/.gitmodules', 'b')), 'UNSAFE_PATH', 'a/.gitmodules'],
    ['a second name .gitmodules', tarOf(link('a', 'b'), hard('gitmod~1', 'a')), 'UNSAFE_PATH', 'gitmod~1'],
    ['a hard link upwards', tarOf(hard('a', '../b')), 'UNSAFE_PATH', '../b'],
    ['an absolute hard link', tarOf(hard('a', '/etc/passwd')), 'UNSAFE_PATH', '/etc/passwd'],
    ['a hard link twice', tarOf(file('b'), hard('a', 'b'), hard('a', 'b')), 'UNSAFE_PATH', 'a'],
    ['an empty symlink', tarOf(link('a', '')), 'INVALID_ARCHIVE', 'a'],
    ['a symlink with NUL', tarOf(pax(['linkpath', 'b\0']), link('a', 'b')), 'INVALID_ARCHIVE', 'a'],
    ['a character device', tarOf({ name: 'a', type: '3' }), 'INVALID_ARCHIVE', 'a'],
    ['a block device', tarOf({ name: 'a', type: '4' }), 'INVALID_ARCHIVE', 'a'],
    ['a fifo', tarOf({ name: 'a', type: '6' }), 'INVALID_ARCHIVE', 'a'],
    ['a sparse file', tarOf({ name: 'a', type: 'S' }), 'INVALID_ARCHIVE', 'a'],
    ['a sparse file of pax', tarOf(pax(['GNU.sparse.major', '1']), file('a')), 'INVALID_ARCHIVE'],
    ['a part of a volume', tarOf({ name: 'a', type: 'M' }), 'INVALID_ARCHIVE', 'a'],
    ['an unknown type', tarOf({ name: 'a', type: 'Z' }), 'INVALID_ARCHIVE', 'a'],
    ['a type that is not printable', tarOf({ name: 'a', type: '\x7f' }), 'INVALID_ARCHIVE', 'a'],
    ['a directory with content', tarOf({ ...dir('a'), content: 'x' }), 'INVALID_ARCHIVE', 'a'],
    [
      'a hard link with content',
      tarOf(file('b'), { ...hard('a', 'b'), content: 'x' }),
      'INVALID_ARCHIVE',
      'a',
    ],
    ['a file with content named as a directory', tarOf(file('a/', 'x')), 'INVALID_ARCHIVE', 'a/'],
    ['a name with U+FFFD', tarOf(file('a\ufffd')), 'INVALID_ARCHIVE', 'a\ufffd'],
    ['a name that is not UTF-8', tarOf({ name: Buffer.from([0x61, 0xe9]) }), 'INVALID_ARCHIVE', 'a\ufffd'],
    ['half a surrogate', tarOf({ name: Buffer.from([0xed, 0xa0, 0x80]) }), 'INVALID_ARCHIVE'],
    [
      'a name in pax that is not UTF-8',
      tarOf(pax(['path', Buffer.from([0xff])]), file('a')),
      'INVALID_ARCHIVE',
    ],
    [
      'a target that is not UTF-8',
      tarOf({ ...link('a', ''), linkName: Buffer.from([0xff]) }),
      'INVALID_ARCHIVE',
      'a',
    ],
    [
      'a name of 256 bytes',
      tarOf(pax(['path', 'n'.repeat(256)]), file('a')),
      'LIMIT_EXCEEDED',
      'n'.repeat(256),
    ],
    [
      'a name of 86 wide characters',
      tarOf(pax(['path', '日'.repeat(86)]), file('a')),
      'LIMIT_EXCEEDED',
      '日'.repeat(86),
    ],
    ['a path over 4,096 bytes', tarOf(pax(['path', `${longPath}x`]), file('a')), 'LIMIT_EXCEEDED'],
    ['a path of a MiB', tarOf(pax(['path', 'a/'.repeat(2 ** 19)]), dir('a')), 'LIMIT_EXCEEDED'],
    ['257 levels', tarOf(pax(['path', `${'d/'.repeat(256)}f`]), file('a')), 'LIMIT_EXCEEDED'],
    [
      'a target over 4,096 bytes',
      tarOf(pax(['linkpath', 't'.repeat(4097)]), link('a', 'b')),
      'LIMIT_EXCEEDED',
      'a',
    ],
    ['a long name upwards', tarOf({ type: 'L', content: '../b\0' }, file('a')), 'UNSAFE_PATH', '../b'],
    [
      '257 extended attributes',
      tarOf(
        pax(...Array.from({ length: 257 }, (_, i) => [`SCHILY.xattr.user.${i}`, ''] as const)),
        file('a'),
      ),
      'LIMIT_EXCEEDED',
    ],
    [
      'an extended attribute over 64 KiB',
      tarOf(pax(['SCHILY.xattr.user.a', Buffer.alloc(65_537)]), file('a')),
      'LIMIT_EXCEEDED',
    ],
    [
      'an extended attribute of a long name',
      tarOf(pax([`SCHILY.xattr.${'n'.repeat(256)}`, '']), file('a')),
      'LIMIT_EXCEEDED',
    ],
    [
      'an extended attribute in base64 of a damaged name',
      tarOf(pax(['LIBARCHIVE.xattr.%', '']), file('a')),
      'INVALID_ARCHIVE',
    ],
    ['an extended attribute without a name', tarOf(pax(['SCHILY.xattr.', '']), file('a')), 'INVALID_ARCHIVE'],
  ])('in a tar: %s', async (_what, content, reason, path) => {
    for (const bytes of [content, gzipSync(content)]) {
      const error = await errorOf(bytes)
      expect([error.reason, path === undefined || error.details['path']]).toEqual([reason, path ?? true])
    }
  })

  const zipped = (...names: string[]): Buffer =>
    zipOf(names.map((name) => ({ name, mode: name.endsWith('/') ? 0o40755 : 0o100644 })))
  const symlink = { name: 'l', content: '/etc', mode: 0o120777 }

  test.each<Refused>([
    ['a path upwards', zipped('../a'), 'UNSAFE_PATH', '../a'],
    ['a path below .git', zipped('.git/config'), 'UNSAFE_PATH', '.git/config'],
    ['a path upwards inside', zipped('a/../../b'), 'UNSAFE_PATH', 'a/../../b'],
    ['an absolute path', zipped('/etc/passwd'), 'UNSAFE_PATH', '/etc/passwd'],
    ['a drive', zipped('C:/a'), 'UNSAFE_PATH', 'C:/a'],
    ['a backslash', zipped('a\\b'), 'UNSAFE_PATH', 'a\\b'],
    ['a backslash upwards', zipped('..\\a'), 'UNSAFE_PATH', '..\\a'],
    ['NUL', zipped('a\0b'), 'UNSAFE_PATH', 'a\0b'],
    ['an empty name', zipped(''), 'UNSAFE_PATH', ''],
    ['a file twice', zipped('a', 'a'), 'UNSAFE_PATH', 'a'],
    ['a file and a directory of one name', zipped('a', 'a/'), 'UNSAFE_PATH', 'a/'],
    ['an entry below a file', zipped('a', 'a/b'), 'UNSAFE_PATH', 'a/b'],
    ['an entry below a symlink', zipOf([symlink, { name: 'l/passwd' }]), 'UNSAFE_PATH', 'l/passwd'],
    [
      'an entry below a symlink, after one in a directory whose name has the same length',
      zipOf([symlink, { name: 'd/x' }, { name: 'l/passwd' }]),
      'UNSAFE_PATH',
      'l/passwd',
    ],
    ['an empty symlink', zipOf([{ ...symlink, content: '' }]), 'INVALID_ARCHIVE', 'l'],
    [
      'a target that is not UTF-8',
      zipOf([{ ...symlink, content: Buffer.from([0xff]) }]),
      'INVALID_ARCHIVE',
      'l',
    ],
    ['a target over 4,096 bytes', zipOf([{ ...symlink, content: 't'.repeat(4097) }]), 'LIMIT_EXCEEDED', 'l'],
    ['a device', zipOf([{ mode: 0o060644 }]), 'INVALID_ARCHIVE', 'a'],
    ['a fifo', zipOf([{ mode: 0o010644 }]), 'INVALID_ARCHIVE', 'a'],
    ['a directory without a slash', zipOf([{ mode: 0o040755 }]), 'INVALID_ARCHIVE', 'a'],
    ['a file with a slash', zipOf([{ name: 'a/', mode: 0o100644 }]), 'INVALID_ARCHIVE', 'a/'],
    [
      'a directory with content',
      zipOf([{ name: 'a/', mode: 0o40755, content: 'x' }]),
      'INVALID_ARCHIVE',
      'a/',
    ],
    ['a name that is not UTF-8', zipOf([{ name: Buffer.from([0xff]) }]), 'INVALID_ARCHIVE', '\ufffd'],
    ['a name of 256 bytes', zipped('n'.repeat(256)), 'LIMIT_EXCEEDED', 'n'.repeat(256)],
    ['257 levels', zipped(`${'d/'.repeat(256)}f`), 'LIMIT_EXCEEDED'],
    ['encryption', zipOf([{ flags: 0x801 }]), 'INVALID_ARCHIVE', 'a'],
    ['strong encryption', zipOf([{ flags: 0x841 }]), 'INVALID_ARCHIVE'],
    ['another compression', zipOf([{ method: 14, content: 'x' }]), 'INVALID_ARCHIVE', 'a'],
    ['a wrong checksum', zipOf([{ content: 'x', crc: 1 }]), 'INVALID_ARCHIVE', 'a'],
    [
      'a wrong checksum of stored content',
      zipOf([{ content: 'x', method: 0, crc: 1 }]),
      'INVALID_ARCHIVE',
      'a',
    ],
    [
      'a size that is too small',
      zipOf([{ content: 'xyz', size: 2, crc: crc32('xy') }]),
      'INVALID_ARCHIVE',
      'a',
    ],
    ['a size that is too large', zipOf([{ content: 'xyz', size: 4 }]), 'INVALID_ARCHIVE', 'a'],
    ['a size of zero for a content', zipOf([{ content: 'xyz', size: 0, crc: 0 }]), 'INVALID_ARCHIVE', 'a'],
    [
      'a compressed size that is too large',
      zipOf([{ content: 'xyz', compressedSize: 100 }]),
      'INVALID_ARCHIVE',
    ],
    [
      'a compressed size that is too small',
      zipOf([{ content: 'xyz', compressedSize: 2 }]),
      'INVALID_ARCHIVE',
      'a',
    ],
    [
      'trailing bytes after the compressed data',
      zipOf([
        { content: 'xyz', stored: Buffer.concat([deflateRawSync(Buffer.from('xyz')), Buffer.from('more')]) },
      ]),
      'INVALID_ARCHIVE',
      'a',
    ],
    [
      'damaged compression',
      zipOf([{ content: 'xyz', stored: Buffer.from([0xff, 0xff, 0xff]) }]),
      'INVALID_ARCHIVE',
      'a',
    ],
    ['another name in the local header', zipOf([{ name: 'a', localName: 'b' }]), 'INVALID_ARCHIVE', 'a'],
    ['another method in the local header', zipOf([{ localMethod: 0 }]), 'INVALID_ARCHIVE', 'a'],
    [
      'two entries with the same content',
      zipOf([
        { name: 'a', content: 'x' },
        { name: 'b', offset: 0 },
      ]),
      'INVALID_ARCHIVE',
    ],
    ['an offset outside the archive', zipOf([{ offset: 2 ** 31 }]), 'INVALID_ARCHIVE'],
    [
      'an offset without a local header',
      zipOf([{ name: 'a', content: 'xyz'.repeat(99), method: 0, offset: 7 }, { name: 'b' }]),
      'INVALID_ARCHIVE',
    ],
    ['more entries than the archive has', zipOf([{}], { count: 2 }), 'INVALID_ARCHIVE'],
    [
      'fewer entries than the archive has',
      zipOf([{ name: 'a' }, { name: 'b' }], { count: 1 }),
      'INVALID_ARCHIVE',
    ],
    [
      'data between the directory and the end record',
      zipOf([{}], { between: Buffer.alloc(10) }),
      'INVALID_ARCHIVE',
    ],
    ['a wrong offset of the directory', zipOf([{}], { directoryOffset: 5 }), 'INVALID_ARCHIVE'],
    ['trailing data after the end record', Buffer.concat([zipped('a'), Buffer.from('x')]), 'INVALID_ARCHIVE'],
    ['a truncated extra field', zipOf([{ extra: Buffer.from([1, 0, 99, 0, 1]) }]), 'INVALID_ARCHIVE'],
    [
      'zip64 without sizes',
      zipOf([{ size: 0xffffffff, extra: Buffer.from([1, 0, 0, 0]) }]),
      'INVALID_ARCHIVE',
    ],
  ])('in a zip: %s', async (_what, content, reason, path) => {
    for (const bytes of [content, Readable.from([content])]) {
      const error = await errorOf(bytes)
      expect([error.reason, path === undefined || error.details['path']]).toEqual([reason, path ?? true])
    }
  })

  test.each<Refused>([
    ['an empty input', Buffer.alloc(0), 'INVALID_ARCHIVE'],
    ['text', Buffer.from('hello'), 'INVALID_ARCHIVE'],
    ['a block of text', Buffer.alloc(5000, 'text '), 'INVALID_ARCHIVE'],
    ['another compression', Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]), 'INVALID_ARCHIVE'],
    ['text in gzip', gzipSync('hello'), 'INVALID_ARCHIVE'],
    ['a zip in gzip', gzipSync(zipOf([{}])), 'INVALID_ARCHIVE'],
    ['gzip in gzip', gzipSync(gzipSync(tarOf(file('a')))), 'INVALID_ARCHIVE'],
    ['one zero', Buffer.alloc(1), 'INVALID_ARCHIVE'],
    ['one empty block', Buffer.alloc(512), 'INVALID_ARCHIVE'],
    ['no end of archive', tarEntry(file('a')), 'INVALID_ARCHIVE'],
    ['half an end of archive', Buffer.concat([tarEntry(file('a')), Buffer.alloc(512)]), 'INVALID_ARCHIVE'],
    ['trailing data after the end', Buffer.concat([tarOf(file('a')), Buffer.from('x')]), 'INVALID_ARCHIVE'],
    [
      'trailing data after gzip',
      Buffer.concat([gzipSync(tarOf(file('a'))), Buffer.from('x')]),
      'INVALID_ARCHIVE',
    ],
    ['a wrong checksum', tarOf(file('a'), { name: 'b', checksumOff: 1 }), 'INVALID_ARCHIVE'],
    ['a size that is not a number', tarOf({ fields: [[124, 'not octal 9 ']] }), 'INVALID_ARCHIVE'],
    [
      'a size over 2^53',
      tarOf({ fields: [[124, new Uint8Array(12).fill(0x7f).fill(0x80, 0, 1)]] }),
      'INVALID_ARCHIVE',
    ],
    ['a size beyond the end', tarOf({ content: 'x', size: 2 ** 32 }), 'INVALID_ARCHIVE', 'a'],
    ['a time out of range', tarOf(pax(['mtime', '9999999999999999']), file('a')), 'INVALID_ARCHIVE', 'a'],
    ['a pax header at the end', tarOf(pax(['path', 'b'])), 'INVALID_ARCHIVE'],
    [
      'a pax header over its bound',
      tarOf({ type: 'x', content: Buffer.alloc(archiveLimits.aheadBytes + 1) }),
      'LIMIT_EXCEEDED',
    ],
    ...[
      '12 size=abc\n',
      '11 size=-1\n',
      '28 size=99999999999999999999\n',
      '12 mtime=x1\n',
      '13 mtime=1e3\n',
    ].map((text): Refused => [
      `pax that says ${JSON.stringify(text)}`,
      tarOf(pax(text), file('a')),
      'INVALID_ARCHIVE',
    ]),
  ])('rejects input that is not an archive: %s', async (_what, content, reason) => {
    const error = await errorOf(content)
    expect(error.reason).toBe(reason)
  })
})

describe('reads unusual but valid archives', () => {
  test.each<[string, Uint8Array, string[]]>([
    ['a name that starts like a zip', tarOf(file('PK\x03\x04')), ['/PK\x03\x04']],
    ['redundant path parts', tarOf(dir('./'), file('./a//b/./c')), ['/', '/a/b/c']],
    ['the same directory twice', tarOf(dir('a/'), file('a/b'), dir('a')), ['/a', '/a/b']],
    ['a directory in the old format', tarOf({ name: 'a/', type: '\0' }), ['/a']],
    ['a contiguous file', tarOf({ name: 'a', type: '7' }), ['/a']],
    ['a backslash in a tar', tarOf(file('a\\b')), ['/a\\b']],
    ['names like .git', tarOf(file('.gitignore'), file('.gitmodules')), ['/.gitignore', '/.gitmodules']],
    [
      'names of prototypes',
      tarOf(file('__proto__/constructor'), file('toString')),
      ['/__proto__/constructor', '/toString'],
    ],
    ['a byte order mark', tarOf(file('\ufeffa')), ['/\ufeffa']],
    ['trailing zeros after the end', Buffer.concat([tarOf(file('a')), Buffer.alloc(200 * 512)]), ['/a']],
    ['trailing zeros after gzip', Buffer.concat([gzipSync(tarOf(file('a'))), Buffer.alloc(100)]), ['/a']],
    [
      'gzip in two members',
      Buffer.concat([gzipSync(tarEntry(file('a'))), gzipSync(Buffer.alloc(1024))]),
      ['/a'],
    ],
    [
      'a truncated name in the header with a full one in pax',
      tarOf(pax(['path', 'ünï']), { name: Buffer.from([0x75, 0xcc]) }),
      ['/ünï'],
    ],
    [
      'a path of 4,096 bytes',
      tarOf(pax(['path', longPath.slice(0, 4095)]), file('a')),
      [`/${longPath.slice(0, 4095)}`],
    ],
    ['256 levels', tarOf(pax(['path', `${'d/'.repeat(255)}f`]), file('a')), [`/${'d/'.repeat(255)}f`]],
    ['a target outside the archive', tarOf(link('a', '../../../etc')), ['/a']],
    ['a target of 4,096 bytes', tarOf(pax(['linkpath', 't'.repeat(4096)]), link('a', 'b')), ['/a']],
    ['an empty name in pax, which is ignored', tarOf(pax(['path', '']), file('a')), ['/a']],
    ['a long name that ends at its first NUL', tarOf({ type: 'L', content: 'b\0c\0' }, file('a')), ['/b']],
    [
      'an empty block between entries',
      Buffer.concat([tarEntry(file('a')), Buffer.alloc(512), tarOf(file('b'))]),
      ['/a', '/b'],
    ],
    ['two concatenated tars', Buffer.concat([tarOf(file('a')), tarOf(file('b'))]), ['/a', '/b']],
    ['two pax headers', tarOf(pax(['path', 'b']), pax(['path', 'c']), file('a')), ['/c']],
    ['a pax header of many records', tarOf(pax('5 a=\n'.repeat(5000)), file('a')), ['/a']],
    ['a zip with a name of a letter and a colon', zipOf([{ name: 'a:b' }]), ['/a:b']],
    ['a zip with UTF-8 names without the UTF-8 flag', zipOf([{ name: 'ü', flags: 0 }]), ['/ü']],
    ['a zip made on another system', zipOf([{ name: 'a', madeOn: 0, mode: 0o120777 }]), ['/a']],
  ])('%s', async (_what, content, paths) => {
    expect((await read(content)).paths).toEqual(paths)
  })
})

describe('rejects damaged tar headers instead of misreading them', () => {
  test.each([
    'no record\n',
    '10 path=b',
    '9 path=b\nx',
    '-9 path=b\n',
    '+9 path=b\n',
    '0x9 path=b\n',
    '0 =\n',
    '8 path=b\n',
    '99 path=b\n',
    '99999999999999999999 path=b\n',
    '9 path+b\n\n',
    '9\u00a0path=b\n',
    '9 path=b\n\0x',
  ])('a pax header of %j', async (text) => {
    for (const type of ['x', 'g']) {
      const error = await errorOf(tarOf(file('before'), { ...pax(text), type }, file('a', 'content')))
      expect(error.reason).toBe('INVALID_ARCHIVE')
      expect(error.message).toContain('a record of a pax header is damaged')
    }
  })

  test.each([
    ['path', 'b'],
    ['linkpath', 'b'],
    ['size', '1'],
    ['GNU.sparse.size', '1'],
    ['GNU.sparse.name', 'b'],
  ] as const)('a global header with the record %s, which programs apply differently', async (key, value) => {
    const global = { ...pax([key, value]), type: 'g' }
    for (const between of [[], [pax(['comment', ''])]]) {
      const error = await errorOf(tarOf(file('before'), global, ...between, file('a', 'content')))
      expect([error.reason, error.details['path']]).toEqual(['INVALID_ARCHIVE', 'a'])
      expect(error.message).toContain(`a global header has the record "${key}"`)
    }
  })

  test('a list of names of old versions of GNU tar, which is no long name of the next entry', async () => {
    const error = await errorOf(tarOf({ name: 'a', type: 'N', content: 'b' }, file('c')))
    expect([error.reason, error.message]).toEqual(['INVALID_ARCHIVE', expect.stringContaining('type N')])
  })

  test('a pax header whose size is in base 256', async () => {
    const text = '10 path=b'
    const records = pax(text)
    const inBase256 = Uint8Array.from([0x80, ...Array.from({ length: 10 }, () => 0), text.length])
    const error = await errorOf(tarOf({ ...records, fields: [[124, inBase256]] }, file('a')))
    expect(error.message).toContain('a record of a pax header is damaged')
  })

  test('names the path in the header of the entry, not the misread record', async () => {
    // The size is seven bytes too large: the record ends inside the next one.
    for (const type of ['x', 'g']) {
      const records = pax('18 path=misread\n9 path=b\nx')
      const error = await errorOf(tarOf({ ...records, type }, file('real', 'content')))
      expect([error.reason, error.details['path']]).toEqual(['INVALID_ARCHIVE', 'real'])
      expect(error.message).not.toContain('misread')
    }
  })

  test.each(['0x10', '00000000008\0', '00000000018\0', '1,', '9'])('a size of %j', async (size) => {
    const error = await errorOf(
      tarOf({
        content: 'x',
        fields: [
          [124, '\0'.repeat(12)],
          [124, size],
        ],
      }),
    )
    expect(error.reason).toBe('INVALID_ARCHIVE')
  })

  test('a mode with a non-octal digit', async () => {
    expect((await errorOf(tarOf({ fields: [[100, '0000698\0']] }))).reason).toBe('INVALID_ARCHIVE')
  })

  test('in pieces of any size, also after a large content or empty blocks', async () => {
    const content = tarOf(file('large', 'x'.repeat(300_000)), pax('10 path=b'), file('a'))
    const gap = Buffer.concat([tarEntry(file('b')), Buffer.alloc(512), content])
    const small = tarOf(file('small', 'x'), pax('10 path=b'), file('a'))
    for (const size of [1, 100, 512, 100_000]) {
      for (const whole of size === 1 ? [small] : [content, gap]) {
        const pieces = async function* (): AsyncGenerator<Uint8Array> {
          for (let at = 0; at < whole.length; at += size) yield whole.subarray(at, at + size)
        }
        expect((await errorOf(pieces())).message).toContain('a record of a pax header is damaged')
      }
    }
  })
})

describe('ignores harmless oddities in a tar', () => {
  test.each(['9 path=b\n\0\0\0', '09 path=\n', '5 =b\n9 path=b\n'])('a pax header of %j', async (text) => {
    const { entries } = await read(tarOf(pax(text), file('a', 'content')))
    expect(['/a', '/b']).toContain([...entries.keys()].join())
    expect([...entries.values()]).toMatchObject([{ content: 'content' }])
  })

  test('a size after a NUL, for a file without content', async () => {
    const fields = [[124, '0000000\x0012 \0']] as const
    const { entries } = await read(tarOf({ fields }))
    expect(entries.get('/a')).toMatchObject({ content: '' })
    expect((await errorOf(tarOf({ fields, content: 'content' }))).reason).toBe('INVALID_ARCHIVE')
  })

  test('global headers, whose records apply to all entries after them that have no such record', async () => {
    const global = (...records: Parameters<typeof pax>): RawTarEntry => ({ ...pax(...records), type: 'g' })
    const { entries } = await read(
      tarOf(
        file('before'),
        global(['mtime', '10'], ['SCHILY.xattr.t', 'x'], ['comment', 'a commit']),
        file('a'),
        pax(['mtime', '20']),
        file('b'),
        global(['SCHILY.xattr.t', 'y']),
        file('c'),
        dir('d'),
      ),
    )
    expect([...entries]).toMatchObject([
      ['/before', {}],
      ['/a', { mtimeMs: 10_000, xattrs: { t: 'x' } }],
      ['/b', { mtimeMs: 20_000, xattrs: { t: 'x' } }],
      ['/c', { mtimeMs: 10_000, xattrs: { t: 'y' } }],
      ['/d', { mtimeMs: 10_000 }],
    ])
    expect(entries.get('/before')).not.toHaveProperty('xattrs')
  })

  test('an extended attribute that is not text', async () => {
    const binary = Buffer.from([0xff, 0])
    const { entries } = await read(tarOf(pax(['SCHILY.xattr.b', binary], ['SCHILY.xattr.t', 'x']), file('a')))
    expect(entries.get('/a')).toMatchObject({ xattrs: { t: 'x' } })
    expect((entries.get('/a') as { xattrs: object }).xattrs).not.toHaveProperty('b')
  })
})

describe('the numbers of a header', () => {
  /** The encoding of a field in base 256: a marker byte, followed by the digits. */
  const base256 = (length: number, first: number, last: readonly number[], between = 0): Uint8Array =>
    Uint8Array.from([first, ...Array.from({ length: length - 1 - last.length }, () => between), ...last])
  const places = [
    ['mode', 100, 8],
    ['size', 124, 12],
  ] as const

  test.each(places)('reject a %s whose first byte makes it an unsafe integer', async (_what, at, length) => {
    for (const type of ['0', '5']) {
      for (let first = 0x80; first <= 0xff; first++) {
        const between = first < 0xc0 ? 0xff : 0
        const field = base256(length, first, [1, 2], between)
        const error = await errorOf(tarOf({ name: 'a', type, linkName: 'b', fields: [[at, field]] }))
        expect(['INVALID_ARCHIVE', 'LIMIT_EXCEEDED']).toContain(error.reason)
      }
    }
  })

  test('never hang the reader in a header that extends the next one', async () => {
    const outcomes = new Set<string>()
    for (const type of ['x', 'g', 'L', 'K']) {
      for (let first = 0x80; first <= 0xff; first++) {
        const extension = { name: 'a', type, fields: [[124, base256(12, first, [1, 2])]] as const }
        for (const after of [[], [file('b', 'content')], [pax(['path', 'c']), file('b', 'content')]])
          outcomes.add(
            await read(tarOf(extension, ...after)).then(
              () => 'read',
              (error: unknown) => (error instanceof EngineError ? error.reason : 'a bug'),
            ),
          )
      }
    }
    expect([...outcomes].toSorted()).toEqual(['INVALID_ARCHIVE', 'read'])
  })

  test.each([...places, ['time', 136, 12]] as const)('reject a non-numeric %s', async (_what, at, length) => {
    for (const text of ['not octal', '8', ...(at === 136 ? [] : ['-1'])])
      expect((await errorOf(tarOf({ fields: [[at, text.padEnd(length, '\0')]] }))).reason).toBe(
        'INVALID_ARCHIVE',
      )
  })

  test.each([-1, -2, -512, -(2 ** 31), -(2 ** 53) + 1])('reject a size of %i', async (size) => {
    const bits = BigInt.asUintN(96, BigInt(size))
    const field = Buffer.from(bits.toString(16).padStart(24, '0'), 'hex')
    expect((await errorOf(tarOf({ fields: [[124, field]] }))).reason).toBe('INVALID_ARCHIVE')
  })

  test.each(['-0', '-1', '1.0', '1e3', '0x10', ' 1', '9007199254740992', '9'.repeat(40), 'NaN', '١'])(
    'reject a size of %j in pax',
    async (size) => {
      const content = tarOf(pax(['size', size]), file('a', 'x'))
      expect((await errorOf(content)).reason).toBe('INVALID_ARCHIVE')
    },
  )

  test('are read in octal and base 256, with leading spaces or NULs, and up to the end of a field', async () => {
    for (const size of [
      '00000000007\0',
      '       7 \0\0\0',
      '000000000007',
      '\0\x007\0\0',
      base256(12, 0x80, [7]),
    ]) {
      const { entries } = await read(tarOf({ content: 'content', fields: [[124, size]] }))
      expect(entries.get('/a')).toMatchObject({ content: 'content' })
    }
    for (const [seconds, time] of [
      [-256, base256(12, 0xff, [0], 0xff)],
      [2 ** 33, base256(12, 0x80, [2, 0, 0, 0, 0])],
    ] as const) {
      const { entries } = await read(tarOf({ fields: [[136, time]] }))
      expect(entries.get('/a')).toMatchObject({ mtimeMs: seconds * 1000 })
    }
  })
})

describe('rejects a truncated archive', () => {
  const tar = tarOf(
    dir('d'),
    pax(['path', 'd/long'], ['SCHILY.xattr.user.a', 'b']),
    file('x', 'some text'.repeat(100)),
    link('l', 'd'),
    hard('h', 'd/long'),
  )
  const zip = zipOf([
    { name: 'a', content: 'some text'.repeat(100) },
    { name: 'b', content: 'x', method: 0 },
  ])

  test.each([
    ['tar', tar, tar.length],
    ['tar in gzip', gzipSync(tar), gzipSync(tar).length],
    ['zip', zip, zip.length],
  ])('at every byte: %s', async (_form, whole, length) => {
    await read(whole)
    for (let end = 0; end < length; end += stepOf(7)) {
      const error = await errorOf(
        end % 2 === 0 ? whole.subarray(0, end) : Readable.from([whole.subarray(0, end)]),
      )
      expect([end, error.reason]).toEqual([end, 'INVALID_ARCHIVE'])
    }
  })
})

describe('reads or rejects a damaged archive', () => {
  const tar = tarOf(
    dir('d'),
    pax(['path', 'd/long'], ['SCHILY.xattr.user.a', 'b'], ['mtime', '1700000000.5']),
    file('x', 'some text'.repeat(100)),
    { type: 'L', name: '././@LongLink', content: `${'n'.repeat(150)}\0` },
    file('n'.repeat(100), 'y'),
    link('l', 'd'),
    hard('h', 'd/long'),
  )
  const zip = zipOf(
    [
      { name: 'a', content: 'some text'.repeat(100) },
      { name: 'd/', mode: 0o40755 },
      { name: 'd/b', content: 'x', method: 0 },
      { name: 'l', content: 'a', mode: 0o120777 },
    ],
    { comment: 'a comment' },
  )

  test.each([
    ['tar', tar],
    ['tar in gzip', gzipSync(tar)],
    ['zip', zip],
  ])(`%s, FORKSPACE_SEED=${seed}`, async (_form, whole) => {
    const random = generator(seed)
    const reasons = new Set<unknown>()
    for (let round = 0; round < runs(3000); round++) {
      const bytes = Buffer.from(whole)
      const flips = 1 + (random() % 3)
      for (let i = 0; i < flips; i++) {
        const at = random() % bytes.length
        if (random() % 2 === 0) bytes[at]! ^= 1 << (random() % 8)
        else bytes[at] = random() % 256
      }
      const start = random() % 4 === 0 ? random() % bytes.length : bytes.length
      // Occasionally repeats a part of it.
      const content =
        random() % 8 === 0 ? Buffer.concat([bytes.subarray(0, start), bytes.subarray(start >> 1)]) : bytes
      const outcome = await read(random() % 2 === 0 ? content : Readable.from([content])).then(
        ({ paths }) => (paths.every(isNormal) ? 'read' : paths.join(' ')),
        (error: unknown) => (error instanceof EngineError ? error.reason : error),
      )
      expect(known, `seed ${seed}, round ${round}`).toContain(outcome)
      reasons.add(outcome)
    }
    expect(reasons.has('INVALID_ARCHIVE')).toBe(true)
  })

  const known = ['read', 'INVALID_ARCHIVE', 'UNSAFE_PATH', 'LIMIT_EXCEEDED']
})

describe('rejects a bomb', () => {
  /** Counts the bytes that the sink received. */
  class CountingSink extends NoSink {
    bytes = 0
    override async file(_path: string, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
      if (content instanceof Uint8Array) this.bytes += content.length
      else for await (const piece of content) this.bytes += piece.length
    }
  }
  /** Byte-aligned deflate blocks can be concatenated. */
  function deflatedZeros(mebibytes: number): Buffer {
    const block = deflateRawSync(Buffer.alloc(2 ** 20), { finishFlush: constants.Z_FULL_FLUSH })
    return Buffer.concat([...Array.from({ length: mebibytes }, () => block), deflateRawSync('')])
  }
  const slack = 2 * archiveLimits.inflatedPieceBytes

  test('of zeros in gzip, long before its end', async () => {
    const zeros = Buffer.alloc(2 ** 24)
    const head = tarEntry({ name: 'a', size: 2 ** 32 })
    // Consecutive members decompress as one stream.
    const member = gzipSync(zeros)
    const bomb = Buffer.concat([
      gzipSync(head.subarray(0, 512)),
      ...Array.from({ length: 256 }, () => member),
    ])
    const sink = new CountingSink()
    const error = await errorOf(bomb, sink)
    expect(error).toMatchObject({ reason: 'LIMIT_EXCEEDED', details: { limit: String(archiveLimits.ratio) } })
    expect(sink.bytes).toBeLessThan(archiveLimits.ratioFromBytes + slack)
  })

  test('of endless empty gzip members', async () => {
    const member = gzipSync('')
    const piece = Buffer.concat(Array.from({ length: 50_000 }, () => member))
    let given = 0
    async function* members(): AsyncGenerator<Uint8Array> {
      yield gzipSync(tarEntry({ name: 'a', content: 'x' }))
      for (;;) {
        given += piece.length
        yield piece
      }
    }
    const limit = String(archiveLimits.emptyRatio)
    await expect(read(members())).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED', details: { limit } })
    expect(given).toBeLessThan(archiveLimits.emptyFromBytes + 3 * piece.length)
  })

  test('of zeros in gzip without entries', async () => {
    const member = gzipSync(Buffer.alloc(2 ** 24))
    const error = await errorOf(Buffer.concat(Array.from({ length: 64 }, () => member)))
    expect(error.reason).toBe('LIMIT_EXCEEDED')
  })

  test('of many small files in gzip', async () => {
    lowerBound(archiveLimits, 'entries', 5000)
    const names = Array.from({ length: 1000 }, (_, i) => `d${i % 10}/f${i}`)
    const total = Math.ceil(archiveLimits.entries / 1000)
    const parts = Array.from({ length: total }, (_, i) =>
      gzipSync(Buffer.concat(names.map((name) => tarEntry({ name, prefix: `p${i}` }))), { level: 1 }),
    )
    const error = await errorOf(Buffer.concat(parts), new NoSink())
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.entries) },
    })
  })

  test('of deep paths', async () => {
    lowerBound(archiveLimits, 'pathBytes', 2 ** 22)
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (let i = 0; ; i++) {
        await Promise.resolve()
        yield Buffer.concat([tarEntry(pax(['path', `${i}/${'d/'.repeat(250)}f`])), tarEntry(file('a'))])
      }
    }
    expect(await errorOf(parts(), new NoSink())).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.pathBytes) },
    })
  })

  test('of long paths', async () => {
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (let i = 0; ; i++) {
        await Promise.resolve()
        yield Buffer.concat([
          tarEntry(pax(['path', `${i}${'p'.repeat(200)}/${longPath.slice(0, 3000)}`])),
          tarEntry(file('a')),
        ])
      }
    }
    const error = await errorOf(parts(), new NoSink())
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.pathBytes) },
    })
  })

  test('of symlinks, whose targets count like paths', async () => {
    const links = tarOf(...Array.from({ length: 10 }, (_, i) => link(`l${i}`, 't'.repeat(90))))
    const bytes = 10 * ('/l0'.length + 90)
    lowerBound(archiveLimits, 'pathBytes', bytes)
    await read(links)
    lowerBound(archiveLimits, 'pathBytes', bytes - 1)
    expect(await errorOf(links)).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(bytes - 1) },
    })
  })

  test('of directories that are only implied by paths', async () => {
    const files = tarOf(...Array.from({ length: 10 }, (_, i) => file(`d${i}/f`)))
    lowerBound(archiveLimits, 'entries', 20)
    await read(files)
    lowerBound(archiveLimits, 'entries', 19)
    expect(await errorOf(files)).toMatchObject({ reason: 'LIMIT_EXCEEDED', details: { limit: '19' } })
  })

  test('of pax headers without entries', async () => {
    const piece = Buffer.concat(
      Array.from({ length: 1000 }, () => tarEntry({ ...pax(['comment', 'c']), type: 'g' })),
    )
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (;;) {
        await Promise.resolve()
        yield piece
      }
    }
    const error = await errorOf(parts())
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.aheadBytes) },
    })
  })

  test('of pax records', async () => {
    const header = tarEntry({ ...pax('5 a=\n'.repeat(4096)), type: 'g' })
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (;;) {
        await Promise.resolve()
        yield header
      }
    }
    const error = await errorOf(parts())
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.aheadBytes) },
    })
  })

  test('of long pax headers for many entries', async () => {
    const records = pax(['comment', 'c'.repeat(2 ** 20)])
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (let i = 0; ; i++) {
        await Promise.resolve()
        yield Buffer.concat([tarEntry(records), tarEntry(file(`f${i}`))])
      }
    }
    const error = await errorOf(parts(), new NoSink())
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.aheadTotalBytes) },
    })
  })

  test('of zeros in a zip, before decompressing anything', async () => {
    const stored = deflatedZeros(256)
    const sink = new CountingSink()
    const error = await errorOf(zipOf([{ stored, size: 2 ** 28, crc: 0 }]), sink)
    expect(error.reason).toBe('LIMIT_EXCEEDED')
    expect(sink.bytes).toBe(0)
  })

  test('of zeros in a zip that declares a smaller size', async () => {
    const stored = deflatedZeros(256)
    const sink = new CountingSink()
    const error = await errorOf(zipOf([{ stored, size: 2 ** 21, crc: 0 }]), sink)
    expect(error.reason).toBe('INVALID_ARCHIVE')
    expect(sink.bytes).toBeLessThanOrEqual(2 ** 21)
  })

  test('of entries in a zip that share one content', async () => {
    const stored = deflateRawSync(Buffer.alloc(2 ** 22))
    const shared: RawZipEntry = { stored, size: 2 ** 22, crc: crc32(Buffer.alloc(2 ** 22)) }
    const first = zipOf([{ ...shared, name: 'f0' }])
    const entries = Array.from({ length: 20 }, (_, i) => ({ ...shared, name: `f${i}`, offset: 0 }))
    const error = await errorOf(zipOf(entries), new CountingSink())
    expect(error.message).toContain('overlap')
    await read(first, new CountingSink())
  })

  test('of nested entries in a zip', async () => {
    // Each local header is inside the stored deflate data of the previous entry.
    const inner = zipOf([{ name: 'inner', content: 'x' }])
    const error = await errorOf(
      zipOf([
        { name: 'outer', content: inner, method: 0 },
        { name: 'inner', content: 'x', offset: 35 },
      ]),
    )
    expect(error.reason).toBe('INVALID_ARCHIVE')
    expect(error.message).toContain('overlap')
  })

  test('of more entries than a zip may have', async () => {
    const end = Buffer.alloc(56 + 20 + 22)
    const count = archiveLimits.zipEntries + 1
    end.writeUInt32LE(0x06064b50, 0)
    end.writeBigUInt64LE(44n, 4)
    end.writeBigUInt64LE(BigInt(count), 24)
    end.writeBigUInt64LE(BigInt(count), 32)
    end.writeUInt32LE(0x07064b50, 56)
    end.writeBigUInt64LE(4n, 64)
    end.writeUInt32LE(0x06054b50, 76)
    end.fill(0xff, 84, 96)
    const error = await errorOf(Buffer.concat([Buffer.from('PK\x03\x04'), end]))
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.zipEntries) },
    })
  })

  test('of extended attributes', async () => {
    lowerBound(archiveLimits, 'xattrs', 10_000)
    const header = tarEntry(
      pax(...Array.from({ length: 256 }, (_, i) => [`SCHILY.xattr.user.${i}`, ''] as const)),
    )
    async function* parts(): AsyncGenerator<Uint8Array> {
      for (let i = 0; ; i++) {
        await Promise.resolve()
        yield Buffer.concat([header, tarEntry(file(`f${i}`))])
      }
    }
    expect(await errorOf(parts(), new NoSink())).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.xattrs) },
    })
  })

  test('of global records, which multiply with the records of each entry', async () => {
    lowerBound(archiveLimits, 'paxRecords', 60_000)
    const records = Array.from({ length: 6000 }, (_, i) => [`k${i}`, ''] as const)
    const own = tarEntry(pax(['comment', '']))
    async function* parts(): AsyncGenerator<Uint8Array> {
      yield tarEntry({ ...pax(...records), type: 'g' })
      for (let i = 0; ; i++) {
        await Promise.resolve()
        yield Buffer.concat([own, tarEntry(file(`f${i}`))])
      }
    }
    expect(await errorOf(parts(), new NoSink())).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.paxRecords) },
    })
  })

  test('of the bytes of global records, which multiply with the entries', async () => {
    lowerBound(archiveLimits, 'entries', 5000)
    async function* parts(): AsyncGenerator<Uint8Array> {
      yield tarEntry({ ...pax(['SCHILY.xattr.user.a', 'v'.repeat(60_000)]), type: 'g' })
      for (let i = 0; ; i++) {
        await Promise.resolve()
        yield tarEntry(file(`f${i}`))
      }
    }
    expect(await errorOf(parts(), new NoSink())).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.aheadTotalBytes) },
    })
  })

  test('of long names in the directory of a zip', async () => {
    lowerBound(archiveLimits, 'pathBytes', 2 ** 22)
    const name = (i: number): string => `${i}/`.padEnd(60_000, 'n')
    const count = Math.ceil(archiveLimits.pathBytes / 60_000) + 1
    const zip = zipOf(Array.from({ length: count }, (_, i) => ({ name: name(i), method: 0 })))
    expect(await errorOf(zip, new NoSink())).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.pathBytes) },
    })
  })

  test('reads an archive inside an archive as a plain file', async () => {
    // The reader does not descend into nested archives.
    const inner = gzipSync(tarOf(file('a', 'x')))
    const { entries } = await read(gzipSync(tarOf({ name: 'self.tgz', content: inner })))
    expect([...entries.keys()]).toEqual(['/self.tgz'])
    expect(gunzipSync(inner).length).toBeGreaterThan(0)
  })

  test('of a streamed zip over the size limit', async () => {
    if (size < 1) lowerBound(archiveLimits, 'zipBytes', 2 ** 25)
    let given = 0
    async function* parts(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('PK\x03\x04')
      const piece = Buffer.alloc(2 ** 22)
      for (;;) {
        await Promise.resolve()
        given += piece.length
        yield piece
      }
    }
    const error = await errorOf(parts())
    expect(error).toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: String(archiveLimits.zipBytes) },
    })
    expect(given).toBeLessThanOrEqual(archiveLimits.zipBytes + 2 ** 22)
  })
})

describe('aborting', () => {
  const contents: [string, () => Buffer][] = [
    ['tar', () => tarOf(...Array.from({ length: 100 }, (_, i) => file(`f${i}`, 'x'.repeat(i * 50))))],
    ['tar in gzip', () => gzipSync(contents[0]![1]())],
    [
      'zip',
      () => zipOf(Array.from({ length: 100 }, (_, i) => ({ name: `f${i}`, content: 'x'.repeat(i * 50) }))),
    ],
    ['tar of a large file', () => tarOf(file('a', 'x'.repeat(5 * 2 ** 20)))],
    ['zip of a large file', () => zipOf([{ content: 'x'.repeat(5 * 2 ** 20) }])],
  ]

  test.each(contents)('ends the reading of a %s at any point with its reason', async (_form, make) => {
    const whole = make()
    const reason = new Error('enough')
    const length = Math.ceil(whole.length / 20)
    for (let point = 0; point < Math.ceil(whole.length / length); point++) {
      const controller = new AbortController()
      let end!: () => void
      const ended = new Promise<void>((resolve) => (end = resolve))
      async function* source(): AsyncGenerator<Uint8Array> {
        try {
          for (let at = 0; at < whole.length; at += length) {
            if (at === point * length) controller.abort(reason)
            await new Promise((resolve) => setImmediate(resolve))
            yield whole.subarray(at, at + length)
          }
        } finally {
          end()
        }
      }
      const context = { signal: controller.signal, onProgress: () => undefined }
      await expect(archives.read(source(), new MemorySink(), context)).rejects.toBe(reason)
      await ended
    }
  })

  test.each(contents)('in a progress callback ends the reading of a %s', async (_form, make) => {
    const whole = make()
    const reason = new Error('enough')
    for (const point of [1, 2]) {
      const controller = new AbortController()
      let calls = 0
      const onProgress = (): void => {
        if (++calls === point) controller.abort(reason)
      }
      const context = { signal: controller.signal, onProgress }
      await expect(archives.read(inThree(whole), new MemorySink(), context)).rejects.toBe(reason)
    }
  })

  test('does not wait for a stalled source', async () => {
    for (const start of [
      Buffer.alloc(0),
      tarEntry(file('a')),
      gzipSync(tarEntry(file('a'))),
      Buffer.from('PK\x03\x04'),
    ]) {
      const controller = new AbortController()
      const source = new Readable({ read: () => undefined })
      if (start.length > 0) source.push(start)
      const reason = new Error('enough')
      const done = archives.read(source, new MemorySink(), {
        signal: controller.signal,
        onProgress: () => undefined,
      })
      setTimeout(() => controller.abort(reason), 20)
      await expect(done).rejects.toBe(reason)
      expect(source.destroyed).toBe(true)
    }
  })

  test('before the start reads nothing from the source', async () => {
    let asked = false
    async function* source(): AsyncGenerator<Uint8Array> {
      asked = true
      await Promise.resolve()
      yield tarOf(file('a'))
    }
    const reason = new Error('enough')
    const context = { signal: AbortSignal.abort(reason), onProgress: () => undefined }
    await expect(archives.read(source(), new MemorySink(), context)).rejects.toBe(reason)
    expect(asked).toBe(false)
  })
})

test.each([
  ['nothing', undefined],
  ['text', 'text'],
  ['an array', [1, 2]],
  ['pieces of text', Readable.from(['text'])],
])('rejects content that is %s', async (_what, content) => {
  expect((await errorOf(content as never)).reason).toBe('INVALID_ARGUMENT')
})

test('yields to the event loop while it reads many entries', async () => {
  const entries = Buffer.concat(Array.from({ length: 10_000 }, (_, i) => tarEntry(file(`f${i}`))))
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  await read(Buffer.concat([entries, Buffer.alloc(1024)]), new NoSink())
  clearInterval(timer)
  expect(turns).toBeGreaterThan(2)
})

test('yields to the event loop while single bytes arrive that the sink ignores', async () => {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield tarEntry({ name: 'a', size: 2 ** 15 })
    for (let i = 0; i < 2 ** 15 + 1024; i++) yield zero
  }
  const zero = Buffer.alloc(1)
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  const sink = new MemorySink()
  sink.file = () => Promise.resolve()
  await read(bytes(), sink)
  clearInterval(timer)
  expect(turns).toBeGreaterThan(2)
})

test('a rejected archive fails its import with the code of the error and leaves no data', async () => {
  await using engine = await openEngine()
  const { sourceId } = await engine.sources.create({ displayName: 'x', uploadedSnapshot: {} })
  for (const [content, code] of [
    [tarOf(file('a'), file('../b')), 'UNSAFE_PATH'],
    [tarOf(file('a')).subarray(0, 700), 'INVALID_ARCHIVE'],
    [tarOf(file('a'), pax(['path', 'n'.repeat(256)]), file('b')), 'LIMIT_EXCEEDED'],
  ] as const) {
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
    await expect(engine.sources.waitForJob(job)).rejects.toMatchObject({ details: { errorCode: code } })
  }
  expect((await engine.sources.get(sourceId)).latestRevisionId).toBe('')
})

async function* inThree(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  const third = Math.ceil(bytes.length / 3)
  for (let at = 0; at < bytes.length; at += third) {
    await Promise.resolve()
    yield bytes.subarray(at, at + third)
  }
}

function isNormal(path: string): boolean {
  return (
    path === '/' ||
    path.split('/').every((name, i) => (i === 0 ? name === '' : !['', '.', '..'].includes(name)))
  )
}

/** Random numbers, reproducible from a seed. */
function generator(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state >>> 8
  }
}

describe('a name that git treats as .git in an imported archive', () => {
  async function imported(allowGitNames: boolean): Promise<Record<string, string>> {
    const content = tarOf(file('.git/config', 'x'), link('.gitmodules', 'y'))
    const engine = await openEngine({ allowGitNames })
    try {
      const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })
      const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { content } })
      const { revisionId } = await engine.sources.waitForJob(job)
      const session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
      const { readFile, readlink } = session.fs.promises
      return { file: await readFile('/.git/config', 'utf8'), target: await readlink('/.gitmodules') }
    } finally {
      await engine.close()
    }
  }

  test('is rejected with UNSAFE_PATH', async () => {
    await expect(imported(false)).rejects.toMatchObject({ details: { errorCode: 'UNSAFE_PATH' } })
  })

  test('is accepted with allowGitNames', async () => {
    expect(await imported(true)).toEqual({ file: 'x', target: 'y' })
  })
})
