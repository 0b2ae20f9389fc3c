/** The small parts from which the readers and writers of archives are made, each at its limits. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { ByteReader } from '../../src/adapters/archive/byte-reader.js'
import { EntryGate } from '../../src/adapters/archive/entry-gate.js'
import { parseEntryName, parseTarget } from '../../src/adapters/archive/entry-name.js'
import { createArchives } from '../../src/adapters/archive/index.js'
import { checkGrowth } from '../../src/adapters/archive/inflate.js'
import { archiveLimits } from '../../src/adapters/archive/limits.js'
import { checkHeaders } from '../../src/adapters/archive/tar-headers.js'
import { readXattrs, xattrRecords } from '../../src/adapters/archive/tar-xattrs.js'
import { collectZip, ZipContent } from '../../src/adapters/archive/zip-content.js'
import { limits } from '../../src/engine/base/limits.js'
import { MemorySink } from '../support/archive-tools.js'
import { lowerBound } from '../support/lower-bound.js'
import { pax, tarEntry, tarOf, zipOf, type RawTarEntry, type RawZipEntry } from '../support/raw-archives.js'

const archives = createArchives()

async function read(content: Uint8Array | AsyncIterable<Uint8Array>): Promise<MemorySink> {
  const sink = new MemorySink()
  await archives.read(content, sink, { signal: new AbortController().signal, onProgress: () => undefined })
  return sink
}

async function* inPiecesOf(size: number, bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) {
    // The reader takes the entries of a piece before the next one arrives.
    await nextTurn()
    yield bytes.subarray(at, at + size)
  }
}

/** Pieces that arrive as fast as they are taken. */
async function* pieces(size: number, bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const attributes = { mode: 0o644, mtimeMs: 0 }

describe('the name of an entry', () => {
  test.each([
    ['a', '/a', false],
    ['a/', '/a', true],
    ['a/.', '/a', true],
    ['./a', '/a', false],
    ['.', '/', true],
    ['a/./b', '/a/b', false],
    ['..a', '/..a', false],
    ['a..', '/a..', false],
    ['...', '/...', false],
  ])('%j is the path %s; must it be a directory: %s', (name, path, isDirectory) => {
    expect(parseEntryName(name)).toEqual({ path, isDirectory })
  })

  test.each(['..', 'a/..', '../a', 'a/../b', '', '/', '/a', 'a\0'])('%j is unsafe', (name) => {
    expect(() => parseEntryName(name)).toThrow(expect.objectContaining({ reason: 'UNSAFE_PATH' }))
  })

  test.each([
    ['a part', 'n'.repeat(limits.nameBytes), 'n'.repeat(limits.nameBytes + 1)],
    ['a part of wide characters', 'é'.repeat(127) + 'n', 'é'.repeat(128)],
    ['the parts', 'd/'.repeat(limits.pathDepth), 'd/'.repeat(limits.pathDepth + 1)],
    [
      'the path',
      `${'p'.repeat(254)}/`.repeat(16) + 'p'.repeat(limits.pathBytes - 16 * 255 - 1),
      `${'p'.repeat(254)}/`.repeat(16) + 'p'.repeat(limits.pathBytes - 16 * 255),
    ],
  ])('may have the limit of %s, and no more', (_what, most, more) => {
    parseEntryName(most)
    expect(() => parseEntryName(more)).toThrow(expect.objectContaining({ reason: 'LIMIT_EXCEEDED' }))
  })
})

test('the target of a symlink has a length of 1 to 4,096 bytes', () => {
  const most = 'é'.repeat(limits.pathBytes / 2)
  expect(parseTarget(Buffer.from(most), 'a')).toBe(most)
  expect(() => parseTarget(Buffer.from(`${most}a`), 'a')).toThrow('too long')
  expect(() => parseTarget(Buffer.alloc(0), 'a')).toThrow('empty')
})

describe('the gate of entries', () => {
  const gateOf = (
    options = { allowGitNames: false },
  ): { gate: EntryGate; sink: MemorySink; given: number[] } => {
    const sink = new MemorySink()
    const given: number[] = []
    return { gate: new EntryGate(sink, options, (files) => given.push(files)), sink, given }
  }

  test('reports the files that the sink has taken: files, symlinks and hard links', async () => {
    const { gate, given } = gateOf()
    await gate.directory('d', attributes)
    expect(given).toEqual([])
    await gate.file('d/a', Buffer.from('x'), attributes)
    await gate.symlink('s', 'd', { mtimeMs: 0 })
    await gate.hardLink('h', 'd/a')
    await gate.hardLink('i', 's')
    expect(given).toEqual([1, 2, 3, 4])
  })

  test('copies a symlink with its time for a hard link to it', async () => {
    const { gate, sink } = gateOf()
    await gate.symlink('s', 'd', { mtimeMs: 7 })
    await gate.hardLink('h', 's')
    expect(sink.entries.get('/h')).toEqual({ kind: 'symlink', target: 'd', mtimeMs: 7 })
    expect(sink.links).toEqual([])
  })

  test('knows the parents of an entry as directories, at every level', async () => {
    const { gate } = gateOf()
    await gate.file('a/b/c/d', Buffer.alloc(0), attributes)
    for (const name of ['a', 'a/b', 'a/b/c']) {
      expect(() => gate.file(name, Buffer.alloc(0), attributes)).toThrow('this path twice')
      await gate.directory(name, attributes)
    }
    expect(() => gate.directory('a/b/c/d', attributes)).toThrow('this path twice')
    expect(() => gate.file('a/b/c/d/e', Buffer.alloc(0), attributes)).toThrow('not a directory')
  })

  test('passes the root on, which may come at any time and more than once', async () => {
    const { gate, sink } = gateOf()
    await gate.directory('./', { mode: 0o700, mtimeMs: 1 })
    await gate.directory('.', { mode: 0o750, mtimeMs: 2 })
    expect(sink.entries.get('/')).toMatchObject({ mode: 0o750, mtimeMs: 2 })
  })

  test('accepts names of git only with the option, and the same path never twice', async () => {
    const { gate } = gateOf({ allowGitNames: true })
    await gate.file('.git/config', Buffer.alloc(0), attributes)
    await gate.symlink('.gitmodules', 'a', { mtimeMs: 0 })
    expect(() => gate.file('.git/config', Buffer.alloc(0), attributes)).toThrow('this path twice')
    const closed = gateOf().gate
    await closed.file('.gitmodules', Buffer.alloc(0), attributes)
    expect(() => closed.symlink('a/.gitmodules', 'a', { mtimeMs: 0 })).toThrow('".gitmodules"')
    expect(() => closed.directory('a/.git', attributes)).toThrow('".git"')
  })

  test('accepts as many entries, path bytes and extended attributes as its limits say', async () => {
    lowerBound(archiveLimits, 'entries', 3)
    lowerBound(archiveLimits, 'pathBytes', 7)
    lowerBound(archiveLimits, 'xattrs', 2)
    const counting = gateOf().gate
    for (let index = 0; index < 3; index++) counting.count()
    expect(() => counting.count()).toThrow('too many entries')
    const long = gateOf().gate
    // The paths are /é and /s, and the target has 2 bytes.
    await long.file('é', Buffer.alloc(0), attributes)
    await long.symlink('s', 'é', { mtimeMs: 0 })
    expect(() => long.file('a', Buffer.alloc(0), attributes)).toThrow('too many bytes')
    const marked = gateOf().gate
    const one = { ...attributes, xattrs: new Map([['user.a', Buffer.alloc(0)]]) }
    await marked.file('a', Buffer.alloc(0), one)
    await marked.directory('b', one)
    expect(() => marked.file('c', Buffer.alloc(0), one)).toThrow('too many extended attributes')
  })
})

describe('the growth of compressed data', () => {
  const { ratio, ratioFromBytes, contentBytes } = archiveLimits

  test('has a limit that begins after a fixed size', () => {
    checkGrowth(ratioFromBytes, 1)
    expect(() => checkGrowth(ratioFromBytes + 1, 1)).toThrow('times larger')
    const from = ratioFromBytes
    checkGrowth(from * (ratio - 100), from)
    checkGrowth(ratioFromBytes + ratio, Math.ceil((ratioFromBytes + ratio) / ratio))
    expect(() => checkGrowth(ratioFromBytes + ratio + 1, ratioFromBytes / ratio)).toThrow('times larger')
  })

  test('has a fixed limit', () => {
    checkGrowth(contentBytes, contentBytes)
    expect(() => checkGrowth(contentBytes + 1, contentBytes)).toThrow('too large')
  })
})

describe('a reader of pieces', () => {
  const readerOf = (...pieces: string[]): ByteReader => {
    const shared = Buffer.alloc(100)
    // Each piece is valid only until the next one is requested.
    return new ByteReader(async () => {
      const piece = pieces.shift()
      if (piece === undefined) return undefined
      shared.fill('?')
      shared.write(piece)
      return shared.subarray(0, piece.length)
    })
  }

  test('peeks across pieces without consuming them', async () => {
    const reader = readerOf('ab', 'c', '', 'def')
    expect(String(await reader.peek(1))).toBe('a')
    expect(String(await reader.peek(4))).toBe('abcd')
    expect(String(await reader.some(2))).toBe('ab')
    expect(String(await reader.some(9))).toBe('cdef')
    expect(await reader.some(9)).toBeUndefined()
    expect(await reader.peek(1)).toHaveLength(0)
  })

  test('peeks at fewer bytes only at the end, and skips empty pieces', async () => {
    const reader = readerOf('', 'ab', '')
    expect(String(await reader.peek(3))).toBe('ab')
    expect(String(await reader.some(1))).toBe('a')
    expect(String(await reader.some(1))).toBe('b')
    expect(await reader.some(1)).toBeUndefined()
    expect(String(await readerOf('', '', 'x').some(5))).toBe('x')
  })
})

describe('the bytes of a zip', () => {
  const { blockBytes } = archiveLimits
  const bytes = Buffer.alloc(2 * blockBytes + 5)
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(at, Math.min(at, bytes.length - 4))

  const inPieces = (size: number): ByteReader => {
    let at = 0
    return new ByteReader(async () => {
      if (at >= bytes.length) return undefined
      at += size
      return bytes.subarray(at - size, at)
    })
  }

  test.each([blockBytes, blockBytes - 1, 3 * blockBytes, 1000])(
    'are the same in pieces of %i',
    async (size) => {
      const pieces = async function* (): AsyncGenerator<Uint8Array> {}
      const content = await collectZip(pieces(), inPieces(size))
      const whole = await collectZip(bytes, inPieces(size))
      for (const zip of [content, whole]) {
        expect(zip.length).toBe(bytes.length)
        for (const [start, end] of [
          [0, bytes.length],
          [blockBytes - 1, blockBytes + 1],
          [blockBytes, 2 * blockBytes],
          [2 * blockBytes + 4, bytes.length],
          [7, 7],
        ] as const)
          expect(zip.copy(start, end).equals(bytes.subarray(start, end))).toBe(true)
      }
    },
  )

  test('are read up to their end', () => {
    const zip = new ZipContent([Buffer.from('abc')], 3)
    const target = Buffer.alloc(6, '-')
    const done = vi.fn<(error: Error | null, bytesRead?: number) => void>()
    zip.read(target, 1, 9, 1, done)
    expect(done).toHaveBeenCalledWith(null, 2)
    expect(String(target)).toBe('-bc---')
  })
})

describe('the kinds and modes of a zip', () => {
  test.each<[RawZipEntry, object]>([
    [
      { name: 'a', mode: 0 },
      { kind: 'file', mode: 0o644 },
    ],
    [
      { name: 'a', mode: 0o100000 },
      { kind: 'file', mode: 0 },
    ],
    [
      { name: 'a', mode: 0o4755 },
      { kind: 'file', mode: 0o4755 },
    ],
    [
      { name: 'a', mode: 0o100755, madeOn: 0 },
      { kind: 'file', mode: 0o644 },
    ],
    [
      { name: 'a', mode: 0o100755, madeOn: 19 },
      { kind: 'file', mode: 0o755 },
    ],
    [
      { name: 'a/', mode: 0 },
      { kind: 'directory', mode: 0o755 },
    ],
    [
      { name: 'a/', mode: 0o40000 },
      { kind: 'directory', mode: 0 },
    ],
    [
      { name: 'a/', mode: 0o100644, madeOn: 10 },
      { kind: 'directory', mode: 0o755 },
    ],
    [
      { name: 'a', mode: 0o120777, content: 'b' },
      { kind: 'symlink', target: 'b' },
    ],
  ])('%j is %j', async (entry, seen) => {
    expect((await read(zipOf([entry]))).entries.get('/a')).toMatchObject(seen)
  })

  test.each([0, 8])('a large content must have its checksum, by the method %i', async (method) => {
    const content = Buffer.alloc(archiveLimits.pieceBytes + 1, 'x')
    const large = { name: 'a', content, method }
    const { entries } = await read(zipOf([large, { name: 'b' }]))
    expect([...entries.keys()]).toEqual(['/a', '/b'])
    await expect(read(zipOf([{ ...large, crc: 1 }, { name: 'b' }]))).rejects.toThrow('stated checksum')
  })

  test.each(['c:', 'C:/a', 'z:/'])('a name with a drive is absolute: %j', async (name) => {
    await expect(read(zipOf([{ name }]))).rejects.toMatchObject({ reason: 'UNSAFE_PATH' })
  })

  test.each([0x1, 0x20, 0x40, 0x2000])('an entry with the flag %i cannot be read', async (flag) => {
    await expect(read(zipOf([{ flags: 0x800 | flag }]))).rejects.toMatchObject({ reason: 'INVALID_ARCHIVE' })
  })
})

describe('the headers of a tar', () => {
  const headersOf = (...entries: RawTarEntry[]): Buffer => Buffer.concat(entries.map(tarEntry))
  const global = (...records: (readonly [string, string])[]): RawTarEntry => ({
    ...pax(...records),
    type: 'g',
  })

  test('add global records, of which the last with a key counts', () => {
    const globals = new Map([['before', '1']])
    const headers = headersOf(global(['a', 'x=y'], ['b', '']), global(['a', 'z']), pax(['c', '']), {
      name: 'f',
    })
    checkHeaders(headers, 'f', globals)
    expect([...globals]).toEqual([
      ['before', '1'],
      ['a', 'z'],
      ['b', ''],
    ])
  })

  test('may end in records that are padded with zeros', () => {
    const records = pax(['a', 'b'])
    const padded = { ...records, content: Buffer.concat([records.content as Buffer, Buffer.alloc(3)]) }
    const globals = new Map<string, string>()
    checkHeaders(headersOf({ ...padded, type: 'g' }, { name: 'f' }), 'f', globals)
    expect([...globals]).toEqual([['a', 'b']])
  })

  test('are read in blocks: a long name of exactly one block does not hide the header after it', () => {
    const name = { name: 'n', type: 'L', content: Buffer.alloc(512, 'n') }
    checkHeaders(headersOf(name, { name: 'f' }), 'f', new Map())
    const damaged = headersOf(name, { name: 'f', fields: [[100, '0000698\0']] })
    expect(() => checkHeaders(damaged, 'f', new Map())).toThrow('size or mode')
  })

  test('have at most as many bytes before an entry as the limit says', async () => {
    lowerBound(archiveLimits, 'aheadBytes', 2048)
    // A pax header, its records, and the header of the file.
    const before = (bytes: number): Buffer =>
      tarOf({ ...pax(), content: Buffer.from(`${bytes} a=${'x'.repeat(bytes - 8)}\n`) }, { name: 'f' })
    expect((await read(inPiecesOf(512, before(1024)))).entries.has('/f')).toBe(true)
    await expect(read(inPiecesOf(512, before(1025)))).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED' })
  })

  test.each([100, 512, 1500, 8192, 16_384, 50_000])(
    'have the same limit in pieces of %i bytes, whatever follows them',
    async (size) => {
      const content = Buffer.alloc(100_000, 'c')
      lowerBound(archiveLimits, 'aheadBytes', 200 * 512)
      const before = (blocks: number): Buffer => {
        const bytes = blocks * 512 - 1024
        const records = Buffer.from(`${bytes} a=${'x'.repeat(bytes - String(bytes).length - 4)}\n`)
        return tarOf({ ...pax(), content: records }, { name: 'f', content })
      }
      expect((await read(pieces(size, before(200)))).entries.has('/f')).toBe(true)
      await expect(read(pieces(size, before(201)))).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED' })
    },
  )

  test('have a limit on pax records, which includes the last one', async () => {
    lowerBound(archiveLimits, 'paxRecords', 4)
    const three = tarOf(global(['a', '']), pax(['b', '']), { name: 'f' }, { name: 'g' })
    expect((await read(three)).entries.size).toBe(2)
    const four = tarOf(global(['a', '']), pax(['b', '']), { name: 'f' }, { name: 'g' }, { name: 'h' })
    await expect(read(four)).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED' })
  })

  test.each([
    ['1', 1000],
    ['1.5', 1500],
    ['-1.25', -1250],
    ['8640000000000', 8.64e15],
    ['-8640000000000', -8.64e15],
  ])('have the time %s in pax', async (text, mtimeMs) => {
    const { entries } = await read(tarOf(pax(['mtime', text]), { name: 'f' }))
    expect(entries.get('/f')).toMatchObject({ mtimeMs })
  })

  test.each(['0000000\0', '0000644\0', '0004755\0', '0107777\0'])(
    'have the mode %j without type bits',
    async (mode) => {
      const { entries } = await read(tarOf({ name: 'f', fields: [[100, mode]] }))
      expect(entries.get('/f')).toMatchObject({ mode: Number.parseInt(mode, 8) & 0o7777 })
    },
  )

  test.each(['8640000000000.001', '-8640000000001', '1e3', '', '.5', '--1'])(
    'do not have the time %j in pax',
    async (text) => {
      await expect(read(tarOf(pax(['mtime', text]), { name: 'f' }))).rejects.toMatchObject({
        reason: 'INVALID_ARCHIVE',
      })
    },
  )
})

describe('the extended attributes of a tar', () => {
  test.each(['user.a', 'user.=%', '%3D', 'user.%25=', 'ü'])('keep the name %j and any value', (name) => {
    for (const value of [
      Buffer.from('text ü'),
      Buffer.alloc(0),
      Buffer.from([0xff, 0]),
      Buffer.from('\ufffd'),
    ]) {
      const records = xattrRecords(new Map([[name, value]]))
      expect(Object.keys(records).every((key) => !key.includes('='))).toBe(true)
      expect(readXattrs(records)).toEqual(new Map([[name, Uint8Array.from(value)]]))
    }
  })

  test('are written in the order of their names', () => {
    const values = ['b', 'a', 'c'].map((name) => [name, Buffer.from('x')] as const)
    expect(Object.keys(xattrRecords(new Map(values))).map((key) => key.at(-1))).toEqual(['a', 'b', 'c'])
  })

  test('are limited in their names, values and number', () => {
    const most = 'n'.repeat(limits.xattrNameBytes)
    const value = 'v'.repeat(limits.xattrValueBytes)
    expect(readXattrs({ [`SCHILY.xattr.${most}`]: value })?.size).toBe(1)
    expect(() => readXattrs({ [`SCHILY.xattr.${most}n`]: '' })).toThrow('too long')
    expect(() => readXattrs({ [`SCHILY.xattr.a`]: `${value}v` })).toThrow('too long')
    const many = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`SCHILY.xattr.${index}`, '']))
    expect(readXattrs(many(limits.xattrsPerNode))?.size).toBe(limits.xattrsPerNode)
    expect(() => readXattrs(many(limits.xattrsPerNode + 1))).toThrow('too many')
    expect(readXattrs({ comment: 'a' })).toBeUndefined()
  })
})

describe('the end of a tar', () => {
  const whole = tarOf({ name: 'a', content: 'x'.repeat(512) })

  test.each([1, 511, 512, 513, 1024])('is found in pieces of %i bytes', async (size) => {
    const readPieces = (bytes: Uint8Array): Promise<MemorySink> => read(inPiecesOf(size, bytes))
    expect((await readPieces(whole)).entries.size).toBe(1)
    await expect(readPieces(whole.subarray(0, -1))).rejects.toMatchObject({ reason: 'INVALID_ARCHIVE' })
    const marked = Buffer.from(whole)
    marked[whole.length - 1024] = 1
    await expect(readPieces(marked)).rejects.toMatchObject({ reason: 'INVALID_ARCHIVE' })
  })
})

describe('a written tar', () => {
  test('has modes without type bits, links with the right type, and times that a plain header cannot have', async () => {
    const entries = async function* (): AsyncGenerator<never> {
      const file = {
        kind: 'file',
        size: 1,
        read: async function* () {
          yield Buffer.from('x')
        },
      }
      yield { kind: 'directory', path: '/', attributes: { mode: 0, mtimeMs: 999 } } as never
      yield { ...file, path: '/a', attributes: { mode: 0, mtimeMs: -1 } } as never
      yield { ...file, path: '/b', linkTo: '/a', attributes: { mode: 0o7777, mtimeMs: 0 } } as never
      yield {
        kind: 'symlink',
        path: '/s',
        target: 'é',
        attributes: { mode: 0o777, mtimeMs: 2 ** 31 * 1000 },
      } as never
    }
    const pieces: Uint8Array[] = []
    for await (const piece of archives.writeTar(entries())) pieces.push(piece)
    const { entries: seen, links } = await read(Buffer.concat(pieces))
    expect(seen.get('/')).toEqual({ kind: 'directory', mode: 0, mtimeMs: 0 })
    expect(seen.get('/a')).toEqual({ kind: 'file', mode: 0, mtimeMs: -1000, content: 'x' })
    expect(links).toEqual([['/a', '/b']])
    expect(seen.get('/s')).toEqual({ kind: 'symlink', target: 'é', mtimeMs: 2 ** 31 * 1000 })
  })
})
