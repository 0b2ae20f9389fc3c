// oxlint-disable vitest/expect-expect -- `refuse` does.
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { EngineError, memoryStorage, openEngine } from '../../src/index.js'
import type {
  BatchOperation,
  Engine,
  ErrorReason,
  ManifestNode,
  Session,
  SessionFiles,
  Storage,
} from '../../src/index.js'
import { isLong } from '../support/seed.js'
import { storages } from '../support/storages.js'
import { randomBytes } from '../support/random-bytes.js'

const mebibyte = 2 ** 20

describe.each(storages)('files on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session
  let files: SessionFiles

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'files-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    await use(await engine.sessions.create())
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function use(chosen: Session): Promise<void> {
    session = chosen
    files = chosen.files
  }

  /** Unloads everything on durable storage, so that it is loaded again on demand. */
  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    await use(await engine.sessions.open(id))
  }

  async function text(path: string): Promise<string> {
    return Buffer.from(await files.read({ path })).toString()
  }

  async function nodes(): Promise<ManifestNode[]> {
    return (await session.manifest({ pageSize: 10_000 })).nodes
  }

  async function paths(): Promise<string[]> {
    return (await nodes()).map(({ path }) => path)
  }

  async function node(path: string): Promise<ManifestNode | undefined> {
    return (await nodes()).find((candidate) => candidate.path === path)
  }

  async function links(): Promise<[path: string, target: string][]> {
    return (await files.listSymlinks()).symlinks.map(({ path, target }) => [path, target])
  }

  /** Requires that an operation fails with this reason and leaves the session unchanged. */
  async function refuse(operation: () => Promise<unknown>, reason: ErrorReason): Promise<EngineError> {
    const before = await session.manifest()
    const error = await failure(operation)
    expect([error.reason, error.message]).toEqual([reason, error.message])
    expect(await session.manifest()).toEqual(before)
    return error
  }

  describe('write', () => {
    test('creates the file and its missing parents', async () => {
      await files.write({ path: '/a/b/c.txt', content: 'hello' })
      expect(await nodes()).toEqual([
        directoryNode('/a'),
        directoryNode('/a/b'),
        fileNode('/a/b/c.txt', 'hello', 0o644),
      ])
      await reload()
      expect(await text('/a/b/c.txt')).toBe('hello')
    })

    test('replaces the content and keeps the mode unless one is given', async () => {
      await files.write({ path: '/a', content: 'one', mode: 0o600 })
      await files.write({ path: '/a', content: 'two!' })
      expect(await node('/a')).toEqual(fileNode('/a', 'two!', 0o600))
      await reload()
      await files.write({ path: '/a', content: '', mode: 0o7777 })
      expect(await node('/a')).toEqual(fileNode('/a', '', 0o7777))
      await files.write({ path: '/a', content: '', mode: 0 })
      expect((await node('/a'))?.mode).toBe(0)
    })

    test('encodes text as UTF-8 and takes exactly the bytes of a view', async () => {
      const bytes = Uint8Array.from({ length: 300 }, (_, i) => i % 256)
      const contents: [unknown, Uint8Array][] = [
        ['äß🎉\0', Buffer.from('äß🎉\0')],
        [bytes, bytes],
        [bytes.subarray(10, 20), bytes.slice(10, 20)],
        [Buffer.from('buffer'), Buffer.from('buffer')],
        [new DataView(bytes.buffer, 5, 6), bytes.slice(5, 11)],
        [new Uint16Array([258]), new Uint8Array(new Uint16Array([258]).buffer)],
        [new Uint8Array(), new Uint8Array()],
      ]
      for (const [content, expected] of contents) {
        await files.write({ path: '/f', content: content as Uint8Array })
        expect(Buffer.from(await files.read({ path: '/f' }))).toEqual(Buffer.from(expected))
        expect(await files.contentHash('/f')).toBe(hashOf(expected))
      }
    })

    test('to a directory, the root or a path below a file is rejected', async () => {
      await files.createDirectory({ path: '/dir' })
      await files.write({ path: '/file', content: '' })
      for (const operation of ['write', 'append'] as const) {
        await refuse(() => files[operation]({ path: '/dir', content: '' }), 'IS_A_DIRECTORY')
        await refuse(() => files[operation]({ path: '/', content: '' }), 'IS_A_DIRECTORY')
        const error = await refuse(
          () => files[operation]({ path: '/file/x/y', content: '' }),
          'NOT_A_DIRECTORY',
        )
        expect(error.details).toEqual({ path: '/file' })
      }
    })
  })

  describe('append', () => {
    test('creates the file, then adds to its end', async () => {
      await files.append({ path: '/log/a', content: 'one', mode: 0o600 })
      await files.append({ path: '/log/a', content: new Uint8Array() })
      await files.append({ path: '/log/a', content: ' two' })
      expect(await node('/log/a')).toEqual(fileNode('/log/a', 'one two', 0o600))
      await reload()
      await files.append({ path: '/log/a', content: ' three', mode: 0o640 })
      expect(await node('/log/a')).toEqual(fileNode('/log/a', 'one two three', 0o640))
    })

    test('to an empty file equals a write', async () => {
      await files.write({ path: '/a', content: '' })
      await files.append({ path: '/a', content: 'text' })
      const { manifestHash } = await session.manifest()
      await files.write({ path: '/a', content: 'text' })
      expect((await session.manifest()).manifestHash).toBe(manifestHash)
    })

    test.runIf(isLong && lasting)('of 10 bytes, thousands of times, equals one write', async () => {
      const parts = Array.from(
        { length: isLong ? 20_000 : 5000 },
        (_, i) => `${String(i).padStart(9, '.')}\n`,
      )
      for (const content of parts) await files.append({ path: '/log', content })
      const whole = parts.join('')
      expect(await text('/log')).toBe(whole)
      expect(await files.contentHash('/log')).toBe(hashOf(whole))
      await reload()
      expect((await text('/log')) === whole).toBe(true)
      expect(await files.contentHash('/log')).toBe(hashOf(whole))
      const { manifestHash } = await session.manifest()
      await files.write({ path: '/log', content: whole })
      expect((await session.manifest()).manifestHash).toBe(manifestHash)
    })

    test('of 3,000 concurrent calls equals one write', async () => {
      const parts = Array.from({ length: 3000 }, (_, i) => `${String(i).padStart(9, '.')}\n`)
      await Promise.all(parts.map((content) => files.append({ path: '/log', content })))
      expect((await text('/log')) === parts.join('')).toBe(true)
      await reload()
      expect(await files.contentHash('/log')).toBe(hashOf(parts.join('')))
    })
  })

  describe('read', () => {
    test('returns ranges, truncated at the end of the file', async () => {
      await files.write({ path: '/a', content: '0123456789' })
      const ranges: [offset: number | undefined, length: number | undefined, expected: string][] = [
        [undefined, undefined, '0123456789'],
        [3, undefined, '3456789'],
        [undefined, 3, '012'],
        [3, 4, '3456'],
        [8, 5, '89'],
        [10, 1, ''],
        [11, 1, ''],
        [2 ** 53 - 1, 2 ** 53 - 1, ''],
        [0, 0, ''],
        [9, 2 ** 53 - 1, '9'],
      ]
      for (const [offset, length, expected] of ranges) {
        const range = { ...(offset !== undefined && { offset }), ...(length !== undefined && { length }) }
        expect(Buffer.from(await files.read({ path: '/a', ...range })).toString()).toBe(expected)
        await reload()
      }
    })

    test('of anything but a file is rejected', async () => {
      await files.createDirectory({ path: '/dir' })
      await files.createSymlink({ linkPath: '/link', target: 'dir' })
      await files.write({ path: '/file', content: '' })
      for (const look of [
        (path: string) => files.read({ path }),
        (path: string) => files.contentHash(path),
      ]) {
        expect((await refuse(() => look('/none'), 'PATH_NOT_FOUND')).details).toEqual({ path: '/none' })
        await refuse(() => look('/none/deeper'), 'PATH_NOT_FOUND')
        await refuse(() => look('/dir'), 'IS_A_DIRECTORY')
        await refuse(() => look('/'), 'IS_A_DIRECTORY')
        await refuse(() => look('/link'), 'IS_A_DIRECTORY')
        await refuse(() => look('/file/below'), 'NOT_A_DIRECTORY')
      }
    })

    test('returns a copy: changing it does not change the file', async () => {
      const content = randomBytes(3 * mebibyte + 5, 1)
      await files.write({ path: '/small', content: 'text' })
      await files.write({ path: '/large', content })
      await files.append({ path: '/small', content: ' more' })
      for (const path of ['/small', '/large']) {
        const expected = Buffer.from(await files.read({ path }))
        const kept = Buffer.from(expected)
        for (const range of [{}, { offset: 0, length: 3 }, { offset: 1, length: 2 }]) {
          const bytes = await files.read({ path, ...range })
          bytes.fill(0)
          new Uint8Array(bytes.buffer).fill(0)
        }
        const viaFs = await session.fs.promises.readFile(path)
        viaFs.fill(0)
        expect(Buffer.compare(Buffer.from(await files.read({ path })), kept)).toBe(0)
        expect(await files.contentHash(path)).toBe(hashOf(kept))
      }
    })
  })

  describe("the caller's buffer", () => {
    test('may be changed as soon as the call has returned', async () => {
      const change = async (start: (content: Uint8Array) => Promise<unknown>): Promise<string> => {
        const content = Buffer.from('original')
        const done = start(content)
        content.fill('x')
        await done
        return text('/a')
      }
      expect(await change((content) => files.write({ path: '/a', content }))).toBe('original')
      await files.write({ path: '/a', content: '' })
      expect(await change((content) => files.append({ path: '/a', content }))).toBe('original')
      expect(await change((content) => session.fs.promises.writeFile('/a', content))).toBe('original')
      expect(await change((content) => files.batch([{ write: { path: '/a', content } }]))).toBe('original')
    })

    test('may be changed after the write, at any size', async () => {
      for (const size of [10, mebibyte, 5 * mebibyte]) {
        const content = randomBytes(size, size)
        const expected = hashOf(content)
        await files.write({ path: '/a', content })
        await files.batch([{ write: { path: '/b', content } }])
        content.fill(0)
        for (const path of ['/a', '/b']) {
          expect(await files.contentHash(path)).toBe(expected)
          expect(hashOf(await files.read({ path }))).toBe(expected)
        }
      }
    })
  })

  describe('expectedHash', () => {
    const other = hashOf('other')

    test('accepts a change if it matches', async () => {
      await files.write({ path: '/a', content: 'one', expectedHash: '' })
      await files.write({ path: '/a', content: 'two', expectedHash: hashOf('one') })
      await reload()
      await files.append({ path: '/a', content: '+', expectedHash: hashOf('two') })
      await files.append({ path: '/a', content: '+', expectedHash: hashOf('two+') })
      await files.append({ path: '/b', content: 'b', expectedHash: '' })
      expect(await text('/a')).toBe('two++')
      await files.delete({ path: '/b', expectedHash: '' })
      await files.delete({ path: '/a', expectedHash: hashOf('two++') })
      expect(await paths()).toEqual([])
    })

    test('rejects a change with HASH_MISMATCH and the current hash', async () => {
      await files.write({ path: '/a', content: 'one' })
      const changes: ((expectedHash: string) => Promise<void>)[] = [
        (expectedHash) => files.write({ path: '/a', content: 'x', expectedHash }),
        (expectedHash) => files.append({ path: '/a', content: 'x', expectedHash }),
        (expectedHash) => files.batch([{ write: { path: '/a', content: 'x', expectedHash } }]),
      ]
      for (const change of changes) {
        for (const expectedHash of ['', other]) {
          const error = await refuse(() => change(expectedHash), 'HASH_MISMATCH')
          expect(error.code).toBe('ABORTED')
          expect(error.details).toEqual({ path: '/a', expectedHash, actualHash: hashOf('one') })
        }
      }
      const stale = await refuse(() => files.delete({ path: '/a', expectedHash: other }), 'HASH_MISMATCH')
      expect(stale.details).toEqual({ path: '/a', expectedHash: other, actualHash: hashOf('one') })
    })

    test('rejects a write to a missing file', async () => {
      const error = await refuse(
        () => files.write({ path: '/x/none', content: '', expectedHash: other }),
        'HASH_MISMATCH',
      )
      expect(error.details).toEqual({ path: '/x/none', expectedHash: other, actualHash: '' })
      await refuse(() => files.append({ path: '/none', content: '', expectedHash: other }), 'HASH_MISMATCH')
      await refuse(() => files.delete({ path: '/none', expectedHash: other }), 'PATH_NOT_FOUND')
    })

    test('never matches a symlink that is deleted', async () => {
      await files.write({ path: '/a', content: 'one' })
      await files.createSymlink({ linkPath: '/link', target: 'a' })
      await refuse(() => files.delete({ path: '/link', expectedHash: hashOf('one') }), 'HASH_MISMATCH')
      await files.write({ path: '/link', content: 'two', expectedHash: hashOf('one') })
      expect(await text('/a')).toBe('two')
      await files.delete({ path: '/link', expectedHash: '' })
      expect(await paths()).toEqual(['/a'])
    })

    test('of an empty file is a hash, not the empty string', async () => {
      await files.write({ path: '/a', content: '' })
      await refuse(() => files.write({ path: '/a', content: 'x', expectedHash: '' }), 'HASH_MISMATCH')
      await files.write({ path: '/a', content: 'x', expectedHash: hashOf('') })
      expect(await text('/a')).toBe('x')
    })

    test('in a wrong format is an invalid argument, whether the file exists or not', async () => {
      await files.write({ path: '/a', content: 'one' })
      const hex = hashOf('one').slice('sha256:'.length)
      const malformed = [hex, `sha256:${hex.slice(1)}`, `sha256:${hex}0`, `sha256:${hex.toUpperCase()}`]
      for (const bad of [
        ...malformed,
        `sha1:${hex}`,
        ` sha256:${hex}`,
        `sha256:${hex}\n`,
        'x',
        5,
        null,
        {},
      ]) {
        const expectedHash = bad as string
        for (const path of ['/a', '/none']) {
          const guarded: (() => Promise<void>)[] = [
            () => files.write({ path, content: 'x', expectedHash }),
            () => files.append({ path, content: 'x', expectedHash }),
            () => files.batch([{ write: { path, content: 'x', expectedHash } }]),
          ]
          for (const operation of guarded) {
            expect((await refuse(operation, 'INVALID_ARGUMENT')).details).toEqual({ field: 'expectedHash' })
          }
        }
        await refuse(() => files.delete({ path: '/a', expectedHash }), 'INVALID_ARGUMENT')
      }
    })

    test('guards large contents and contents of many pieces', async () => {
      const content = randomBytes(5 * mebibyte, 2)
      await files.write({ path: '/a', content })
      await files.append({ path: '/a', content: 'tail' })
      const expectedHash = hashOf(Buffer.concat([content, Buffer.from('tail')]))
      await reload()
      await refuse(
        () => files.append({ path: '/a', content: 'x', expectedHash: hashOf(content) }),
        'HASH_MISMATCH',
      )
      await files.append({ path: '/a', content: 'x', expectedHash })
      expect((await node('/a'))?.sizeBytes).toBe(5 * mebibyte + 5)
    })
  })

  describe('large files', () => {
    test('of 5 MiB can be read in any range across blocks', async () => {
      const content = randomBytes(5 * mebibyte + 123, 3)
      await files.write({ path: '/a', content })
      const ranges: [offset: number, length: number][] = [
        [0, content.length],
        [mebibyte - 1, 2],
        [mebibyte, 1],
        [mebibyte - 10, 2 * mebibyte + 20],
        [5 * mebibyte, 1000],
        [123, 4 * mebibyte],
      ]
      for (let round = 0; round < 2; round++) {
        for (const [offset, length] of ranges) {
          const bytes = await files.read({ path: '/a', offset, length })
          expect(Buffer.compare(bytes, content.subarray(offset, offset + length))).toBe(0)
        }
        expect(await files.contentHash('/a')).toBe(hashOf(content))
        await reload()
      }
    })

    test('grow by appends of every size, across blocks', async () => {
      const parts = [10, mebibyte, 2 * mebibyte - 11, 1, 5 * mebibyte + 7, 3].map(randomBytes)
      for (const content of parts) {
        await files.append({ path: '/a', content })
        await reload()
      }
      const whole = Buffer.concat(parts)
      expect(Buffer.compare(await files.read({ path: '/a' }), whole)).toBe(0)
      expect(await files.contentHash('/a')).toBe(hashOf(whole))
      const extents = (await session.manifest({ includeCasExtents: true })).nodes[0]!.casExtents
      expect(extents.reduce((sum, { length }) => sum + length, 0)).toBe(whole.length)
    })

    test('keep their bytes at block boundaries', async () => {
      for (const size of [mebibyte - 1, mebibyte, mebibyte + 1, 4 * mebibyte, 4 * mebibyte + 1]) {
        const content = randomBytes(size, size)
        await files.write({ path: `/${size}`, content })
        await files.write({ path: '/same', content: 'before' })
        await files.write({ path: '/same', content })
        expect(await files.contentHash(`/${size}`)).toBe(hashOf(content))
        expect(hashOf(await files.read({ path: '/same' }))).toBe(hashOf(content))
      }
      await reload()
      for (const { path, contentHash } of await nodes()) {
        expect([path, hashOf(await files.read({ path }))]).toEqual([path, contentHash])
      }
    })

    test('take effect in call order among small writes', async () => {
      const content = randomBytes(5 * mebibyte, 4)
      const calls = [
        files.write({ path: '/a', content: 'first' }),
        files.write({ path: '/a', content }),
        files.append({ path: '/a', content: 'tail' }),
        files.rename({ sourcePath: '/a', destinationPath: '/b' }),
        files.write({ path: '/a', content: 'last' }),
      ]
      await Promise.all(calls)
      expect(await text('/a')).toBe('last')
      expect(await files.contentHash('/b')).toBe(hashOf(Buffer.concat([content, Buffer.from('tail')])))
    })

    test('are written atomically in a batch', async () => {
      const content = randomBytes(5 * mebibyte, 5)
      await files.batch([{ write: { path: '/a', content } }, { write: { path: '/b', content: 'b' } }])
      await reload()
      expect(await files.contentHash('/a')).toBe(hashOf(content))
      await refuse(
        () => files.batch([{ write: { path: '/c', content } }, { delete: { path: '/none' } }]),
        'PATH_NOT_FOUND',
      )
    })

    test("over the engine's limit are rejected", async () => {
      const small = await openEngine({ maxFileBytes: 10, storage: memoryStorage() })
      await use(await small.sessions.create({ files: { '/a': '0123456' } }))
      const tooLarge: (() => Promise<void>)[] = [
        () => files.write({ path: '/b', content: '01234567890' }),
        () => files.append({ path: '/a', content: '7890' }),
        () => files.batch([{ write: { path: '/b', content: '01234567890' } }]),
      ]
      for (const operation of tooLarge) {
        expect((await refuse(operation, 'FILE_TOO_LARGE')).details).toEqual({ limit: '10' })
      }
      await files.append({ path: '/a', content: '789' })
      expect(await text('/a')).toBe('0123456789')
      await small.close()
    })
  })

  describe('delete', () => {
    test("removes a file or a symlink, but not the symlink's target", async () => {
      await files.write({ path: '/a', content: 'a' })
      await files.createSymlink({ linkPath: '/link', target: '/a' })
      await reload()
      await files.delete({ path: '/link' })
      expect(await links()).toEqual([])
      expect(await paths()).toEqual(['/a'])
      await files.delete({ path: '/a' })
      expect(await paths()).toEqual([])
      await refuse(() => files.delete({ path: '/a' }), 'PATH_NOT_FOUND')
    })

    test('of a directory is rejected', async () => {
      await files.createDirectory({ path: '/dir' })
      await refuse(() => files.delete({ path: '/dir' }), 'IS_A_DIRECTORY')
      await refuse(() => files.delete({ path: '/' }), 'IS_A_DIRECTORY')
    })

    test('followed by a write creates a file with the default mode', async () => {
      await files.write({ path: '/a', content: 'a', mode: 0o700 })
      await files.delete({ path: '/a' })
      await files.write({ path: '/a', content: 'a' })
      expect((await node('/a'))?.mode).toBe(0o644)
    })
  })

  describe('directories', () => {
    test('are created with the given mode, one level at a time', async () => {
      await files.createDirectory({ path: '/a' })
      await files.createDirectory({ path: '/a/b', mode: 0o700 })
      expect(await nodes()).toEqual([directoryNode('/a'), directoryNode('/a/b', 0o700)])
      await refuse(() => files.createDirectory({ path: '/x/y' }), 'PATH_NOT_FOUND')
    })

    test('cannot be created at an existing path', async () => {
      await files.write({ path: '/d/f', content: '' })
      await files.createSymlink({ linkPath: '/dangling', target: 'none' })
      for (const path of ['/', '/d', '/d/f', '/dangling']) {
        expect((await refuse(() => files.createDirectory({ path }), 'ALREADY_EXISTS')).details).toEqual({
          path,
        })
      }
      await refuse(() => files.createDirectory({ path: '/d/f/x' }), 'NOT_A_DIRECTORY')
    })

    test('are removed if they are empty', async () => {
      await files.write({ path: '/d/f', content: '' })
      await files.createDirectory({ path: '/d/e' })
      await reload()
      await refuse(() => files.removeDirectory({ path: '/d' }), 'DIRECTORY_NOT_EMPTY')
      await files.removeDirectory({ path: '/d/e' })
      await files.delete({ path: '/d/f' })
      await files.removeDirectory({ path: '/d' })
      expect(await paths()).toEqual([])
      await refuse(() => files.removeDirectory({ path: '/d' }), 'PATH_NOT_FOUND')
    })

    test('removeDirectory accepts only directories other than the root', async () => {
      await files.write({ path: '/f', content: '' })
      await files.createDirectory({ path: '/d' })
      await files.createSymlink({ linkPath: '/link', target: 'd' })
      await refuse(() => files.removeDirectory({ path: '/f' }), 'NOT_A_DIRECTORY')
      await refuse(() => files.removeDirectory({ path: '/link' }), 'NOT_A_DIRECTORY')
      await refuse(() => files.removeDirectory({ path: '/f/x' }), 'NOT_A_DIRECTORY')
      await refuse(() => files.removeDirectory({ path: '/' }), 'INVALID_ARGUMENT')
    })
  })

  describe('setMode', () => {
    test('sets the mode of files, directories and the root, also through symlinks', async () => {
      await files.write({ path: '/d/f', content: 'x' })
      await files.createSymlink({ linkPath: '/link', target: 'd/f' })
      await reload()
      await files.setMode({ path: '/link', mode: 0o755 })
      await files.setMode({ path: '/d', mode: 0o1777 })
      expect(await nodes()).toEqual([directoryNode('/d', 0o1777), fileNode('/d/f', 'x', 0o755)])
      const before = await session.manifest()
      await files.setMode({ path: '/', mode: 0o700 })
      expect((await session.manifest()).manifestHash).not.toBe(before.manifestHash)
      await files.setMode({ path: '/', mode: 0o755 })
      await files.setMode({ path: '/d/f', mode: 0o755 })
      expect(await session.manifest()).toEqual(before)
    })

    test('rejects a missing path', async () => {
      await files.createSymlink({ linkPath: '/link', target: 'none' })
      await refuse(() => files.setMode({ path: '/none', mode: 0 }), 'PATH_NOT_FOUND')
      await refuse(() => files.setMode({ path: '/link', mode: 0 }), 'PATH_NOT_FOUND')
    })
  })

  describe('rename', () => {
    beforeEach(async () => {
      await files.write({ path: '/f', content: 'f' })
      await files.write({ path: '/g', content: 'g' })
      await files.createDirectory({ path: '/d' })
      await files.createDirectory({ path: '/e' })
      await files.write({ path: '/full/child', content: 'child' })
      await files.createSymlink({ linkPath: '/link', target: 'f' })
      await files.createSymlink({ linkPath: '/dirlink', target: 'full' })
      await reload()
    })

    test.each([
      ['a file to a new name', '/f', '/new', '/new', 'f'],
      ['a file over a file', '/f', '/g', '/g', 'f'],
      ['a file into a directory', '/f', '/d/f', '/d/f', 'f'],
      ['a file over a symlink', '/g', '/link', '/link', 'g'],
      ['a directory to a new name', '/full', '/new', '/new/child', 'child'],
      ['a directory over an empty directory', '/full', '/d', '/d/child', 'child'],
      ['a directory into another', '/full', '/d/full', '/d/full/child', 'child'],
      ['a child over its sibling directory', '/full/child', '/d/x', '/d/x', 'child'],
      ['through a symlink among the directories', '/dirlink/child', '/e/child', '/e/child', 'child'],
      ['to below a symlink', '/f', '/dirlink/f', '/full/f', 'f'],
    ])('moves %s', async (_case, sourcePath, destinationPath, foundAt, content) => {
      await files.rename({ sourcePath, destinationPath })
      expect(await text(foundAt)).toBe(content)
      await refuse(() => files.setMode({ path: sourcePath, mode: 0 }), 'PATH_NOT_FOUND')
      await reload()
      expect(await text(foundAt)).toBe(content)
    })

    test('moves a symlink, not its target', async () => {
      await files.rename({ sourcePath: '/link', destinationPath: '/d/moved' })
      await files.rename({ sourcePath: '/dirlink', destinationPath: '/g' })
      expect(await links()).toEqual([
        ['/d/moved', 'f'],
        ['/g', 'full'],
      ])
      expect(await text('/f')).toBe('f')
      expect(await text('/g/child')).toBe('child')
      await refuse(() => files.read({ path: '/d/moved' }), 'PATH_NOT_FOUND')
    })

    test.each([
      ['a missing source', '/none', '/x', 'PATH_NOT_FOUND'],
      ['a missing source below a missing directory', '/none/x', '/x', 'PATH_NOT_FOUND'],
      ['a missing source onto itself', '/none', '/none', 'PATH_NOT_FOUND'],
      ['a missing parent of the destination', '/f', '/none/x', 'PATH_NOT_FOUND'],
      ['a file over a directory', '/f', '/d', 'IS_A_DIRECTORY'],
      ['a file over a directory that is not empty', '/f', '/full', 'IS_A_DIRECTORY'],
      ['a symlink over a directory', '/link', '/d', 'IS_A_DIRECTORY'],
      ['a directory over a file', '/d', '/f', 'NOT_A_DIRECTORY'],
      ['a directory over a symlink to a directory', '/d', '/dirlink', 'NOT_A_DIRECTORY'],
      ['a directory over one that is not empty', '/d', '/full', 'DIRECTORY_NOT_EMPTY'],
      ['a directory into itself', '/full', '/full/x', 'INVALID_ARGUMENT'],
      ['a directory into itself by a symlink', '/full', '/dirlink/x', 'INVALID_ARGUMENT'],
      ['the root', '/', '/x', 'INVALID_ARGUMENT'],
      ['a directory over the root', '/d', '/', 'DIRECTORY_NOT_EMPTY'],
      ['below a file', '/g', '/f/x', 'NOT_A_DIRECTORY'],
      ['from below a file', '/f/x', '/y', 'NOT_A_DIRECTORY'],
    ] as const)('refuses %s', async (_case, sourcePath, destinationPath, reason) => {
      await refuse(() => files.rename({ sourcePath, destinationPath }), reason)
    })

    test('onto the same path changes nothing, however it is spelled', async () => {
      const before = await session.manifest()
      await files.rename({ sourcePath: '/f', destinationPath: '/f' })
      await files.rename({ sourcePath: '/full', destinationPath: '/full' })
      await files.rename({ sourcePath: '/full/child', destinationPath: '/dirlink/child' })
      await files.rename({ sourcePath: '/link', destinationPath: '/link' })
      expect(await session.manifest()).toEqual(before)
    })

    test('with exclusive, replaces nothing', async () => {
      const before = await session.manifest()
      for (const [sourcePath, destinationPath] of [
        ['/f', '/g'],
        ['/f', '/link'],
        ['/f', '/f'],
        ['/full', '/d'],
      ] as const)
        await refuse(() => files.rename({ sourcePath, destinationPath, exclusive: true }), 'ALREADY_EXISTS')
      expect(await session.manifest()).toEqual(before)
      await files.rename({ sourcePath: '/f', destinationPath: '/new', exclusive: true })
      expect(await text('/new')).toBe('f')
    })

    test('with createParents, creates the parents of the destination in the same event', async () => {
      const { events } = await session.events.list()
      await files.rename({ sourcePath: '/full', destinationPath: '/p/q/moved', createParents: true })
      expect(await text('/p/q/moved/child')).toBe('child')
      expect((await session.events.list()).events.length).toBe(events.length + 1)
      await refuse(
        () => files.rename({ sourcePath: '/p', destinationPath: '/p/new/x', createParents: true }),
        'INVALID_ARGUMENT',
      )
      await refuse(
        () => files.rename({ sourcePath: '/g', destinationPath: '/f/new/x', createParents: true }),
        'NOT_A_DIRECTORY',
      )
      await refuse(
        () => files.rename({ sourcePath: '/none', destinationPath: '/r/x', createParents: true }),
        'PATH_NOT_FOUND',
      )
      await reload()
      expect(await text('/p/q/moved/child')).toBe('child')
      expect(session.fs.existsSync('/r')).toBe(false)
      await session.undo()
      expect(await text('/full/child')).toBe('child')
      expect(session.fs.existsSync('/p')).toBe(false)
    })

    test('refuses options that are not booleans', async () => {
      const request = { sourcePath: '/f', destinationPath: '/new' }
      for (const option of [{ exclusive: 'yes' }, { createParents: 1 }])
        await refuse(
          () => files.rename({ ...request, ...option } as unknown as typeof request),
          'INVALID_ARGUMENT',
        )
    })

    test('keeps the mode and content of everything that moves', async () => {
      await files.setMode({ path: '/full', mode: 0o700 })
      await files.setMode({ path: '/full/child', mode: 0o600 })
      await files.rename({ sourcePath: '/full', destinationPath: '/d' })
      expect(await node('/d')).toEqual(directoryNode('/d', 0o700))
      expect(await node('/d/child')).toEqual(fileNode('/d/child', 'child', 0o600))
    })
  })

  describe('symlinks', () => {
    test('are listed in order, in pages, by literal prefix', async () => {
      const targets: [string, string][] = [
        ['/a', 'x'],
        ['/src/b', '../x'],
        ['/src/c', '/nowhere'],
        ['/srcfoo', ' '],
        ['/z', 'ü/🎉'],
      ]
      await files.createDirectory({ path: '/src' })
      for (const [linkPath, target] of targets.toReversed()) await files.createSymlink({ linkPath, target })
      await files.write({ path: '/src/file', content: '' })
      await reload()
      expect(await links()).toEqual(targets)
      const inPages: string[] = []
      for (let pageToken = ''; ;) {
        const page = await files.listSymlinks({ pageSize: 2, pageToken })
        inPages.push(...page.symlinks.map(({ path }) => path))
        if (page.nextPageToken === '') break
        expect(page.symlinks.length).toBe(2)
        pageToken = page.nextPageToken
      }
      expect(inPages).toEqual(targets.map(([path]) => path))
      const under = async (pathPrefix: string): Promise<string[]> =>
        (await files.listSymlinks({ pathPrefix })).symlinks.map(({ path }) => path)
      expect(await under('/src')).toEqual(['/src/b', '/src/c', '/srcfoo'])
      expect(await under('/src/')).toEqual(['/src/b', '/src/c'])
      expect(await under('/src/b')).toEqual(['/src/b'])
      expect(await under('/none/')).toEqual([])
    })

    test('are not in the manifest but affect its hash', async () => {
      const before = await session.manifest()
      await files.createSymlink({ linkPath: '/link', target: 'a' })
      const first = await session.manifest()
      expect(first.nodes).toEqual([])
      await files.delete({ path: '/link' })
      expect(await session.manifest()).toEqual(before)
      await files.createSymlink({ linkPath: '/link', target: 'b' })
      expect((await session.manifest()).manifestHash).not.toBe(first.manifestHash)
      expect(first.manifestHash).not.toBe(before.manifestHash)
    })

    test('return their target unchanged', async () => {
      const targets = ['a', '/a/../b', './/x/', '..', '.', '\n', '__proto__', 'x'.repeat(4095)]
      for (const [index, target] of targets.entries()) {
        await files.createSymlink({ linkPath: `/${index}`, target })
      }
      await reload()
      for (const [index, target] of targets.entries()) {
        expect(await files.readSymlink(`/${index}`)).toEqual({ target })
      }
    })

    test('are only created at a free path in an existing directory', async () => {
      await files.write({ path: '/f', content: '' })
      await files.createSymlink({ linkPath: '/dangling', target: 'none' })
      await refuse(() => files.createSymlink({ linkPath: '/f', target: 'x' }), 'ALREADY_EXISTS')
      await refuse(() => files.createSymlink({ linkPath: '/', target: 'x' }), 'ALREADY_EXISTS')
      await refuse(() => files.createSymlink({ linkPath: '/dangling', target: 'x' }), 'ALREADY_EXISTS')
      await refuse(() => files.createSymlink({ linkPath: '/none/x', target: 'x' }), 'PATH_NOT_FOUND')
      await refuse(() => files.createSymlink({ linkPath: '/f/x', target: 'x' }), 'NOT_A_DIRECTORY')
    })

    test('require a target that is valid text', async () => {
      for (const target of ['', 'a\0b', '\ud800', 5, null, undefined]) {
        const request = { linkPath: '/link', target: target as string }
        const error = await refuse(() => files.createSymlink(request), 'INVALID_ARGUMENT')
        expect(error.details).toEqual({ field: 'target' })
      }
      for (const target of ['x'.repeat(4096), 'ü'.repeat(2048)]) {
        const error = await refuse(() => files.createSymlink({ linkPath: '/link', target }), 'NAME_TOO_LONG')
        expect(error.details).toEqual({ field: 'target' })
      }
      await files.createSymlink({ linkPath: '/long', target: 'x'.repeat(4095) })
    })

    test('readSymlink rejects anything but a symlink', async () => {
      await files.write({ path: '/f', content: '' })
      await refuse(() => files.readSymlink('/f'), 'NOT_A_SYMLINK')
      await refuse(() => files.readSymlink('/'), 'NOT_A_SYMLINK')
      await refuse(() => files.readSymlink('/none'), 'PATH_NOT_FOUND')
    })

    test('resolve from their own directory: relative, absolute, upwards, through other symlinks', async () => {
      await files.write({ path: '/a/b/file', content: 'found' })
      const targets = {
        '/a/relative': 'b/file',
        '/a/b/up': '../b/file',
        '/a/absolute': '/a/b/file',
        '/a/b/beyond': '../../../../../a/b/file',
        '/a/dots': './b/.//file',
        '/dir': 'a/b',
        '/a/through': '../dir/file',
        '/root': '/',
        '/parent': 'dir/..',
      }
      for (const [linkPath, target] of Object.entries(targets))
        await files.createSymlink({ linkPath, target })
      await reload()
      for (const path of ['/a/relative', '/a/b/up', '/a/absolute', '/a/b/beyond', '/a/dots', '/a/through']) {
        expect([path, await text(path)]).toEqual([path, 'found'])
      }
      // The `..` of a target refers to the directory that the symlink leads to.
      for (const path of ['/dir/file', '/root/a/b/file', '/root/root/dir/up', '/parent/b/file']) {
        expect([path, await text(path)]).toEqual([path, 'found'])
      }
    })

    test('that dangle fail for a read and create a file for a write', async () => {
      await files.createDirectory({ path: '/d' })
      await files.createSymlink({ linkPath: '/link', target: 'd/new' })
      await files.createSymlink({ linkPath: '/deep', target: '/x/y' })
      await refuse(() => files.read({ path: '/link' }), 'PATH_NOT_FOUND')
      await refuse(() => files.read({ path: '/link/below' }), 'PATH_NOT_FOUND')
      await files.write({ path: '/link', content: 'one' })
      await files.append({ path: '/link', content: ' two' })
      await files.write({ path: '/deep', content: 'deep' })
      expect(await text('/d/new')).toBe('one two')
      expect(await text('/x/y')).toBe('deep')
      expect(await links()).toEqual([
        ['/deep', '/x/y'],
        ['/link', 'd/new'],
      ])
    })

    test('through a file are rejected', async () => {
      await files.write({ path: '/f', content: '' })
      await files.createSymlink({ linkPath: '/link', target: 'f' })
      await files.createSymlink({ linkPath: '/up', target: 'f/..' })
      await files.createSymlink({ linkPath: '/slash', target: 'f/' })
      await refuse(() => files.read({ path: '/link/x' }), 'NOT_A_DIRECTORY')
      await refuse(() => files.write({ path: '/link/x', content: '' }), 'NOT_A_DIRECTORY')
      await refuse(() => files.read({ path: '/up' }), 'NOT_A_DIRECTORY')
      await refuse(() => files.read({ path: '/slash' }), 'NOT_A_DIRECTORY')
    })

    test('are followed for 40 hops, and fail as a loop after 41', async () => {
      await files.write({ path: '/0', content: 'end' })
      await files.createDirectory({ path: '/d0' })
      await files.write({ path: '/d0/file', content: 'in' })
      for (let i = 1; i <= 41; i++) {
        await files.createSymlink({ linkPath: `/${i}`, target: String(i - 1) })
        await files.createSymlink({ linkPath: `/d${i}`, target: `/d${i - 1}` })
      }
      await reload()
      expect(await text('/40')).toBe('end')
      expect(await text('/d40/file')).toBe('in')
      const error = await refuse(() => files.read({ path: '/41' }), 'SYMLINK_LOOP')
      expect(error.details).toEqual({ path: '/41' })
      await refuse(() => files.write({ path: '/41', content: '' }), 'SYMLINK_LOOP')
      await refuse(() => files.read({ path: '/d41/file' }), 'SYMLINK_LOOP')
      await refuse(() => files.delete({ path: '/d41/file' }), 'SYMLINK_LOOP')
      await files.delete({ path: '/41' })
    })

    test('in a cycle fail as a loop', async () => {
      await files.createSymlink({ linkPath: '/self', target: 'self' })
      await files.createSymlink({ linkPath: '/a', target: '/b' })
      await files.createSymlink({ linkPath: '/b', target: 'a' })
      await files.createSymlink({ linkPath: '/grow', target: 'grow/x' })
      for (const path of ['/self', '/a', '/b', '/grow', '/a/x']) {
        await refuse(() => files.read({ path }), 'SYMLINK_LOOP')
        await refuse(() => files.write({ path, content: '' }), 'SYMLINK_LOOP')
      }
      expect(await files.readSymlink('/self')).toEqual({ target: 'self' })
    })

    test('to an invalid path are rejected', async () => {
      await files.createSymlink({ linkPath: '/name', target: 'x'.repeat(256) })
      await files.createSymlink({ linkPath: '/deep', target: 'x/'.repeat(256) + 'x' })
      await refuse(() => files.write({ path: '/name', content: '' }), 'NAME_TOO_LONG')
      await refuse(() => files.write({ path: '/deep', content: '' }), 'NAME_TOO_LONG')
    })
  })

  describe('batch', () => {
    test('runs its operations in order, each seeing the earlier ones', async () => {
      await files.write({ path: '/old', content: 'old' })
      await reload()
      await files.batch([
        { write: { path: '/d/a', content: 'one', expectedHash: '' } },
        { write: { path: '/d/a', content: 'two', expectedHash: hashOf('one') } },
        { delete: { path: '/old', expectedHash: hashOf('old') } },
        { write: { path: '/old/below', content: 'x', mode: 0o600 } },
        { write: { path: '/gone', content: '' } },
        { delete: { path: '/gone', expectedHash: hashOf('') } },
      ])
      const expected = [
        directoryNode('/d'),
        fileNode('/d/a', 'two'),
        directoryNode('/old'),
        fileNode('/old/below', 'x', 0o600),
      ]
      expect(await nodes()).toEqual(expected)
      await reload()
      expect(await nodes()).toEqual(expected)
    })

    test('with any error changes nothing', async () => {
      await files.write({ path: '/a', content: 'a' })
      await files.createDirectory({ path: '/dir' })
      const first: BatchOperation[] = [
        { write: { path: '/a', content: 'changed' } },
        { write: { path: '/new/file', content: 'new' } },
        { delete: { path: '/a' } },
      ]
      const failing: [BatchOperation, ErrorReason][] = [
        [{ delete: { path: '/a' } }, 'PATH_NOT_FOUND'],
        [{ write: { path: '/dir', content: '' } }, 'IS_A_DIRECTORY'],
        [{ write: { path: '/new/file/x', content: '' } }, 'NOT_A_DIRECTORY'],
        [{ write: { path: '/new/file', content: '', expectedHash: '' } }, 'HASH_MISMATCH'],
        [{ write: { path: 'relative', content: '' } }, 'INVALID_ARGUMENT'],
        [{ write: { path: '/x', content: 5 as unknown as string } }, 'INVALID_ARGUMENT'],
        [{ write: { path: '/x', content: '', mode: -1 } }, 'INVALID_ARGUMENT'],
        [{ rename: {} } as unknown as BatchOperation, 'INVALID_ARGUMENT'],
      ]
      for (const [operation, reason] of failing) {
        await refuse(() => files.batch([...first, operation, ...first]), reason)
        expect(await paths()).toEqual(['/a', '/dir'])
        expect(await text('/a')).toBe('a')
      }
      await reload()
      expect(await text('/a')).toBe('a')
    })

    test('with the same guarded path twice fails with HASH_MISMATCH', async () => {
      await files.write({ path: '/a', content: 'a' })
      const write = { write: { path: '/a', content: 'b', expectedHash: hashOf('a') } }
      await refuse(() => files.batch([write, write]), 'HASH_MISMATCH')
    })

    test('without operations succeeds', async () => {
      const before = await session.manifest()
      await files.batch([])
      expect(await session.manifest()).toEqual(before)
    })

    test('accepts at most 10,000 operations', async () => {
      const operations = Array.from({ length: 10_000 }, (_, i) => ({
        write: { path: `/${i % 100}`, content: `${i}` },
      }))
      await files.batch(operations)
      expect(await text('/99')).toBe('9999')
      const error = await refuse(() => files.batch([...operations, operations[0]!]), 'TOO_LARGE')
      expect(error.details['field']).toBe('operations')
    })

    test('rejects anything but a list of single operations', async () => {
      const write = { path: '/a', content: '' }
      for (const operations of [undefined, null, {}, 'x', 5]) {
        await refuse(() => files.batch(operations as never), 'INVALID_ARGUMENT')
      }
      const bad = [null, 5, 'x', [], {}, { write, delete: { path: '/a' } }, { unknown: write }]
      for (const operation of [
        ...bad,
        { write: undefined },
        { write: null },
        { delete: null },
        { write: 5 },
      ]) {
        await refuse(() => files.batch([operation as unknown as BatchOperation]), 'INVALID_ARGUMENT')
      }
    })

    test('takes effect in call order, awaited or not', async () => {
      await Promise.all([
        files.batch([{ write: { path: '/a', content: 'first' } }]),
        files.write({ path: '/a', content: 'second' }),
      ])
      expect(await text('/a')).toBe('second')
    })
  })

  describe('names', () => {
    test('may equal names of JavaScript properties', async () => {
      const names = [
        '__proto__',
        'constructor',
        'hasOwnProperty',
        'toString',
        '0',
        ' ',
        '\n',
        '\\',
        '...',
        '-',
      ]
      for (const name of names) {
        await files.write({ path: `/${name}`, content: name })
        await files.write({ path: `/in/${name}/${name}`, content: name })
      }
      await reload()
      for (const name of names) {
        expect(await text(`/${name}`)).toBe(name)
        expect(await text(`/in/${name}/${name}`)).toBe(name)
      }
      await refuse(() => files.read({ path: '/valueOf' }), 'PATH_NOT_FOUND')
      await refuse(() => files.read({ path: '/in/valueOf' }), 'PATH_NOT_FOUND')
      for (const name of names) await files.delete({ path: `/${name}` })
      expect((await paths()).length).toBe(1 + 2 * names.length)
    })

    test('are ordered by their UTF-8 bytes in the manifest, children after their directory', async () => {
      const names = [
        'a',
        'a-',
        'a.b',
        'ab',
        'é',
        '\u{ffff}',
        '\u{10000}',
        '🎉',
        '\u{e000}',
        '\u{d7ff}',
        'Z',
        '~',
        '!',
      ]
      for (const name of names) {
        await files.write({ path: `/${name}/z`, content: '' })
        await files.write({ path: `/${name}/🎉`, content: '' })
      }
      const expected = names
        .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
        .flatMap((name) => [`/${name}`, `/${name}/z`, `/${name}/🎉`])
      expect(await paths()).toEqual(expected)
      await reload()
      expect(await paths()).toEqual(expected)
      for (let pageToken = '', index = 0; ; index++) {
        const page = await session.manifest({ pageSize: 1, pageToken })
        expect(page.nodes.map(({ path }) => path)).toEqual([expected[index]])
        if (page.nextPageToken === '') break
        pageToken = page.nextPageToken
      }
      for (const name of names) await files.delete({ path: `/${name}/🎉` })
      expect((await paths()).length).toBe(2 * names.length)
    })

    test('are distinct in each Unicode normal form', async () => {
      await files.write({ path: '/\u{e9}', content: 'one' })
      await files.write({ path: '/e\u{301}', content: 'two' })
      expect(await text('/\u{e9}')).toBe('one')
      expect(await text('/e\u{301}')).toBe('two')
    })

    test('stay in order through thousands of additions and removals', async () => {
      const all = Array.from({ length: 3000 }, (_, i) => `/d/${(i * 7919) % 3000}`)
      await files.batch(all.map((path) => ({ write: { path, content: path } })))
      await reload()
      const removed = all.filter((_, i) => i % 3 === 0)
      await files.batch(removed.map((path) => ({ delete: { path } })))
      await files.write({ path: removed[5]!, content: 'again' })
      const left = [...all.filter((_, i) => i % 3 !== 0), removed[5]!]
      const expected = ['/d', ...left.toSorted()]
      expect(await paths()).toEqual(expected)
      await reload()
      expect(await paths()).toEqual(expected)
      expect(await text(left[0]!)).toBe(left[0])
    })
  })

  test('an append without createParents creates no directory', async () => {
    const append = files.append({ path: '/no/file', content: 'x', createParents: false })
    await expect(append).rejects.toMatchObject({ reason: 'PATH_NOT_FOUND' })
    expect(await paths()).not.toContain('/no')
  })

  test('an exclusive write reports an existing file before a guard', async () => {
    await files.write({ path: '/a', content: 'one' })
    const expectedHash = `sha256:${'0'.repeat(64)}`
    const write = files.write({ path: '/a', content: 'two', exclusive: true, expectedHash })
    await expect(write).rejects.toMatchObject({ reason: 'ALREADY_EXISTS' })
  })

  describe('a copy', () => {
    test('over a file takes the mode of its source', async () => {
      await files.write({ path: '/from', content: 'new', mode: 0o755 })
      await files.write({ path: '/to', content: 'old', mode: 0o600 })
      await files.copy({ sourcePath: '/from', destinationPath: '/to' })
      expect((await files.stat({ path: '/to' })).mode).toBe(0o755)
      expect(await text('/to')).toBe('new')
    })

    test('through a symlink with .. after a missing directory fails', async () => {
      await files.write({ path: '/from', content: 'new' })
      await files.createSymlink({ linkPath: '/link', target: 'missing/../to' })
      const refused = { reason: 'PATH_NOT_FOUND' }
      await expect(files.copy({ sourcePath: '/from', destinationPath: '/link' })).rejects.toMatchObject(
        refused,
      )
      await expect(files.write({ path: '/link', content: '' })).rejects.toMatchObject(refused)
      await expect(files.read({ path: '/link' })).rejects.toMatchObject(refused)
    })

    test('with exclusive does not go through a dangling symlink', async () => {
      await files.write({ path: '/from', content: 'new' })
      await files.createSymlink({ linkPath: '/link', target: 'missing' })
      const copy = files.copy({ sourcePath: '/from', destinationPath: '/link', exclusive: true })
      await expect(copy).rejects.toMatchObject({ reason: 'ALREADY_EXISTS' })
      expect(await paths()).not.toContain('/missing')
    })
  })

  describe('limits of paths', () => {
    const name255 = 'x'.repeat(255)
    const path4096 = `/${name255}`.repeat(16)

    test('accept the longest name, path and depth', async () => {
      const deepest = '/a'.repeat(256)
      for (const path of [`/y${name255.slice(1)}`, `/${'é'.repeat(127)}x`, path4096, deepest]) {
        await files.write({ path, content: 'x' })
        expect(await text(path)).toBe('x')
      }
      await reload()
      expect((await paths()).filter((path) => path.startsWith('/a')).length).toBe(256)
      expect(await text(deepest)).toBe('x')
      expect(await text(path4096)).toBe('x')
      await files.rename({ sourcePath: '/a', destinationPath: '/b' })
      expect(await text('/b'.concat('/a'.repeat(255)))).toBe('x')
    })

    test('count only the remaining entries of a moved directory', async () => {
      await files.write({ path: '/moved/file', content: '' })
      await files.delete({ path: '/moved/file' })
      const parent = '/b'.repeat(255)
      await files.createDirectory({ path: parent, recursive: true })
      await files.rename({ sourcePath: '/moved', destinationPath: `${parent}/moved` })
      expect((await files.stat({ path: `${parent}/moved` })).kind).toBe('directory')
    })

    test('also apply to entries that a move would push over them', async () => {
      await files.write({ path: '/a'.repeat(200), content: '' })
      await files.write({ path: `/to${'/b'.repeat(100)}`, content: '' })
      const destinationPath = `/to${'/b'.repeat(99)}/a`
      const before = await session.manifest({ pageSize: 10_000 })
      const error = await files
        .rename({ sourcePath: '/a', destinationPath })
        .catch((thrown: unknown) => thrown)
      // oxlint-disable vitest/no-conditional-expect -- Both outcomes are correct, as long as the tree stays intact.
      if (error instanceof EngineError) {
        expect(error.reason).toBe('NAME_TOO_LONG')
        expect(await session.manifest({ pageSize: 10_000 })).toEqual(before)
      }
      // In both cases, every listed entry can be reached and listed.
      for (const { path, fileType } of await nodes()) {
        if (fileType === 'VFS_FILE_TYPE_FILE') {
          await files.read({ path }).catch((error: EngineError) => expect(error.reason).toBe('NAME_TOO_LONG'))
        }
        const { nextPageToken } = await session.manifest({ pageSize: 1, pathPrefix: path })
        if (nextPageToken !== '')
          await session.manifest({ pageSize: 1, pathPrefix: path, pageToken: nextPageToken })
      }
      // oxlint-enable vitest/no-conditional-expect
      await reload()
      expect(await session.manifest()).toBeDefined()
    })
  })

  describe('rejects invalid arguments', () => {
    const bad: [label: string, path: unknown, reason: ErrorReason][] = [
      ['empty', '', 'INVALID_ARGUMENT'],
      ['relative', 'a/b', 'INVALID_ARGUMENT'],
      ['a dot', '/a/./b', 'INVALID_ARGUMENT'],
      ['two dots', '/a/../b', 'INVALID_ARGUMENT'],
      ['two dots at the end', '/..', 'INVALID_ARGUMENT'],
      ['an empty part', '/a//b', 'INVALID_ARGUMENT'],
      ['a slash at the end', '/a/', 'INVALID_ARGUMENT'],
      ['two slashes', '//', 'INVALID_ARGUMENT'],
      ['NUL', '/a\0b', 'INVALID_ARGUMENT'],
      ['a lone high surrogate', '/a\ud800', 'INVALID_ARGUMENT'],
      ['a lone low surrogate', '/\udc00a', 'INVALID_ARGUMENT'],
      ['undefined', undefined, 'INVALID_ARGUMENT'],
      ['null', null, 'INVALID_ARGUMENT'],
      ['a number', 5, 'INVALID_ARGUMENT'],
      ['a list', ['/a'], 'INVALID_ARGUMENT'],
      ['a String object', new String('/a'), 'INVALID_ARGUMENT'],
      ['a name of 256 bytes', `/${'x'.repeat(256)}`, 'NAME_TOO_LONG'],
      ['a name of 256 bytes of UTF-8', `/${'é'.repeat(128)}`, 'NAME_TOO_LONG'],
      [
        'a path of 4,097 bytes',
        `${`/${'x'.repeat(255)}`.repeat(15)}/${'x'.repeat(127)}/${'x'.repeat(128)}`,
        'NAME_TOO_LONG',
      ],
      ['a path of 257 levels', '/a'.repeat(257), 'NAME_TOO_LONG'],
    ]

    test.each(bad)('as a path: %s', async (_label, given, reason) => {
      await files.write({ path: '/ok', content: 'ok' })
      const path = given as string
      const takers: [field: string, call: () => Promise<unknown>][] = [
        ['path', () => files.write({ path, content: '' })],
        ['path', () => files.append({ path, content: '' })],
        ['path', () => files.read({ path })],
        ['path', () => files.contentHash(path)],
        ['path', () => files.delete({ path })],
        ['path', () => files.createDirectory({ path })],
        ['path', () => files.removeDirectory({ path })],
        ['sourcePath', () => files.rename({ sourcePath: path, destinationPath: '/new' })],
        ['destinationPath', () => files.rename({ sourcePath: '/ok', destinationPath: path })],
        ['path', () => files.setMode({ path, mode: 0 })],
        ['linkPath', () => files.createSymlink({ linkPath: path, target: 'x' })],
        ['path', () => files.readSymlink(path)],
        ['path', () => files.batch([{ write: { path, content: '' } }])],
        ['path', () => files.batch([{ delete: { path } }])],
      ]
      // A key of an object is always a string, so other values cannot be requested.
      if (typeof given === 'string')
        takers.push([
          `files[${JSON.stringify(given.slice(0, 64))}]`,
          () => engine.sessions.create({ files: { [path]: '' } }),
        ])
      for (const [field, call] of takers) {
        expect((await refuse(call, reason)).details).toEqual({ field })
      }
    })

    test('as offset and length', async () => {
      await files.write({ path: '/ok', content: 'ok' })
      for (const value of [-1, Number.NaN, Infinity, 1.5, 2 ** 53, '1', null, {}, 1n]) {
        if (value === null) continue
        const offset = value as number
        expect((await refuse(() => files.read({ path: '/ok', offset }), 'INVALID_ARGUMENT')).details).toEqual(
          {
            field: 'offset',
          },
        )
        expect(
          (await refuse(() => files.read({ path: '/ok', length: offset }), 'INVALID_ARGUMENT')).details,
        ).toEqual({ field: 'length' })
      }
    })

    test('as a mode', async () => {
      await files.write({ path: '/ok', content: 'ok' })
      for (const bad of [-1, 0o10000, 0o100644, 1.5, Number.NaN, Infinity, '644', {}]) {
        const mode = bad as number
        const takers: (() => Promise<unknown>)[] = [
          () => files.write({ path: '/new', content: '', mode }),
          () => files.write({ path: '/ok', content: '', mode }),
          () => files.append({ path: '/new', content: '', mode }),
          () => files.append({ path: '/ok', content: '', mode }),
          () => files.createDirectory({ path: '/dir', mode }),
          () => files.setMode({ path: '/ok', mode }),
          () => files.batch([{ write: { path: '/new', content: '', mode } }]),
        ]
        for (const call of takers) {
          expect((await refuse(call, 'INVALID_ARGUMENT')).details).toEqual({ field: 'mode' })
        }
      }
    })

    test('as a content', async () => {
      await files.write({ path: '/ok', content: 'ok' })
      for (const bad of [
        undefined,
        null,
        5,
        true,
        {},
        [],
        [1, 2],
        new ArrayBuffer(3),
        Symbol('x'),
        () => 'x',
      ]) {
        const content = bad as string
        const takers: [field: string, call: () => Promise<unknown>][] = [
          ['content', () => files.write({ path: '/ok', content })],
          ['content', () => files.append({ path: '/ok', content })],
          ['operations[0].write.content', () => files.batch([{ write: { path: '/ok', content } }])],
        ]
        for (const [field, call] of takers) {
          expect((await refuse(call, 'INVALID_ARGUMENT')).details).toEqual({ field })
        }
        const create = (): Promise<unknown> => engine.sessions.create({ files: { '/a': content } })
        expect((await refuse(create, 'INVALID_ARGUMENT')).details).toEqual({ field: 'files["/a"]' })
      }
    })

    test('as a request', async () => {
      for (const request of [undefined, null, 5]) {
        const none = request as never
        const takers: (() => Promise<unknown>)[] = [
          () => files.write(none),
          () => files.append(none),
          () => files.read(none),
          () => files.delete(none),
          () => files.createDirectory(none),
          () => files.removeDirectory(none),
          () => files.rename(none),
          () => files.setMode(none),
          () => files.createSymlink(none),
        ]
        for (const call of takers) await refuse(call, 'INVALID_ARGUMENT')
      }
    })
  })

  test('changes resolve to undefined', async () => {
    const results = [
      await files.write({ path: '/a', content: '' }),
      await files.append({ path: '/a', content: 'x' }),
      await files.batch([{ write: { path: '/b', content: '' } }]),
      await files.setMode({ path: '/a', mode: 0 }),
      await files.createSymlink({ linkPath: '/l', target: 'a' }),
      await files.rename({ sourcePath: '/a', destinationPath: '/c' }),
      await files.delete({ path: '/c' }),
      await files.createDirectory({ path: '/d' }),
      await files.removeDirectory({ path: '/d' }),
    ]
    expect(results).toEqual(results.map(() => undefined))
  })

  test('a failed operation does not affect later ones', async () => {
    const outcomes = await Promise.allSettled([
      files.write({ path: '/a', content: 'a' }),
      files.write({ path: '/a/b', content: '' }),
      files.delete({ path: '/none' }),
      files.append({ path: '/a', content: 'b' }),
      files.batch([{ delete: { path: '/a' } }, { delete: { path: '/a' } }]),
      files.append({ path: '/a', content: 'c' }),
    ])
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([
      true,
      false,
      false,
      true,
      false,
      true,
    ])
    expect(await text('/a')).toBe('abc')
    await reload()
    expect(await text('/a')).toBe('abc')
  })
})

async function failure(operation: () => Promise<unknown>): Promise<EngineError> {
  let promise: Promise<unknown>
  try {
    promise = operation()
  } catch (error) {
    throw new Error('thrown at once instead of by the promise', { cause: error })
  }
  const thrown = await promise.then(
    () => {
      throw new Error('nothing was refused')
    },
    (error: unknown) => error,
  )
  if (!(thrown instanceof EngineError)) throw thrown
  return thrown
}

function hashOf(content: string | Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`
}

function fileNode(path: string, content: string, mode = 0o644): ManifestNode {
  const sizeBytes = Buffer.byteLength(content)
  return {
    path,
    fileType: 'VFS_FILE_TYPE_FILE',
    sizeBytes,
    contentHash: hashOf(content),
    mode,
    casExtents: [],
  }
}

function directoryNode(path: string, mode = 0o755): ManifestNode {
  return { path, fileType: 'VFS_FILE_TYPE_DIRECTORY', sizeBytes: 0, contentHash: '', mode, casExtents: [] }
}
