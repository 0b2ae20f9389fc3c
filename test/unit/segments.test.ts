// oxlint-disable vitest/expect-expect -- `refuse` and `check` do.
import { deepStrictEqual, ok } from 'node:assert'
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { notedStorage } from '../support/noted-storage.js'
import { EngineError, limits, openEngine, SegmentConflictPolicy } from '../../src/index.js'
import type {
  Engine,
  ErrorReason,
  SegmentChunk,
  SegmentWriteRequest,
  Session,
  SessionFiles,
  Storage,
} from '../../src/index.js'
import type { Store, StoredEvent } from '../../src/engine/ports.js'
import { randomWords } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { isForMany, storages } from '../support/storages.js'
import { isLong, seed } from '../support/seed.js'
import { randomBytes } from '../support/random-bytes.js'

const mebibyte = 2 ** 20
const skip = { conflictPolicy: SegmentConflictPolicy.SKIP_ON_CONFLICT }

describe.each(storages)('segments on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let store: Store
  let engine: Engine
  let session: Session
  let files: SessionFiles

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'segments-'))
    const inner = makeStorage(directory)
    storage = { open: async () => (store = await inner.open()) }
    engine = await openEngine({ storage })
    use(await engine.sessions.create())
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  function use(chosen: Session): void {
    session = chosen
    files = chosen.files
  }

  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    use(await engine.sessions.open(id))
  }

  async function patch(path: string, ...segments: SegmentChunk[]): Promise<void> {
    await files.patchSegments({ mutations: [{ path, segments }] })
  }

  async function read(path: string): Promise<Buffer> {
    return Buffer.from(await files.read({ path }))
  }

  /** Requires that the file has these bytes, their hash and matching extents, before and after a reload. */
  async function check(path: string, expected: Uint8Array): Promise<void> {
    await checkNow(path, expected)
    const extents = await files.getCasExtents({ path })
    await reload()
    await checkNow(path, expected)
    deepStrictEqual(await files.getCasExtents({ path }), extents)
  }

  async function checkNow(path: string, expected: Uint8Array): Promise<void> {
    expect((await read(path)).equals(expected), `the bytes of ${path}`).toBe(true)
    expect(await files.contentHash(path)).toBe(hashOf(expected))
    const { nodes } = await session.manifest({ pathPrefix: path, includeCasExtents: true })
    const node = nodes.find((candidate) => candidate.path === path)
    const { extents } = await files.getCasExtents({ path })
    expect(node).toMatchObject({ sizeBytes: expected.length, contentHash: hashOf(expected) })
    // There may be thousands of them, and an `expect` for each takes longer than everything else.
    deepStrictEqual(node!.casExtents, extents)
    let end = 0
    for (const { offset, length } of extents) {
      ok(offset >= end && length > 0, `the extent at ${offset} of ${path} is out of order or empty`)
      ok(isZero(expected.subarray(end, offset)), 'what is in no extent is a hole')
      end = offset + length
    }
    expect(end).toBeLessThanOrEqual(expected.length)
    expect(isZero(expected.subarray(end))).toBe(true)
  }

  async function lastEvent(): Promise<StoredEvent | undefined> {
    return store.lastEvent(session.id)
  }

  async function refuse(operation: () => Promise<unknown>, reason: ErrorReason): Promise<EngineError> {
    const before = [await session.manifest(), (await lastEvent())?.seq]
    const error = await operation().then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(EngineError)
    expect([(error as EngineError).reason, (error as EngineError).message]).toEqual([
      reason,
      (error as EngineError).message,
    ])
    expect([await session.manifest(), (await lastEvent())?.seq]).toEqual(before)
    return error as EngineError
  }

  async function refusePatch(mutation: unknown, reason: ErrorReason): Promise<EngineError> {
    const mutations = [{ path: '/first', segments: [data(0, 'never')] }, mutation as SegmentWriteRequest]
    await refuse(() => files.batch(mutations.map((segmentWrite) => ({ segmentWrite }))), reason)
    await refuse(() => files.patchSegments({ mutations, ...skip }), reason)
    return refuse(() => files.patchSegments({ mutations }), reason)
  }

  describe('chunks', () => {
    test('data creates a file and its parents, with zeros before it', async () => {
      await patch('/a/b/c', data(3, 'abc'))
      await check('/a/b/c', Buffer.from('\0\0\0abc'))
      const { nodes } = await session.manifest()
      expect(nodes.map(({ path, mode }) => [path, mode])).toEqual([
        ['/a', 0o755],
        ['/a/b', 0o755],
        ['/a/b/c', 0o644],
      ])
    })

    test('apply in any order, and later ones win', async () => {
      await files.write({ path: '/a', content: '0123456789' })
      await patch('/a', data(8, 'zz'), data(2, 'aaaa'), data(3, 'b'), hole(1, 2), data(5, 'cc'))
      await check('/a', Buffer.from('0\0\0bacc7zz'))
    })

    test('apply across several blocks of a file', async () => {
      const content = randomBytes(3 * mebibyte + 17, 1)
      await files.write({ path: '/a', content })
      const patchBytes = randomBytes(2 * mebibyte, 2)
      await patch('/a', data(mebibyte - 5, patchBytes), hole(mebibyte + 3, mebibyte), data(mebibyte, 'x'))
      content.set(patchBytes, mebibyte - 5)
      content.fill(0, mebibyte + 3, 2 * mebibyte + 3)
      content.write('x', mebibyte)
      await check('/a', content)
    })

    test('logicalSize grows and shrinks a file; truncated data does not reappear', async () => {
      await files.write({ path: '/a', content: '0123456789' })
      const resize = (logicalSize: number, ...segments: SegmentChunk[]): Promise<unknown> =>
        files.patchSegments({ mutations: [{ path: '/a', segments, logicalSize }] })
      await resize(4)
      await check('/a', Buffer.from('0123'))
      await resize(8, data(6, 'z'))
      await check('/a', Buffer.from('0123\0\0z\0'))
      await resize(2 * mebibyte)
      await resize(0)
      await check('/a', Buffer.alloc(0))
      await resize(5)
      await check('/a', Buffer.alloc(5))
    })

    test('an empty chunk is validated but changes nothing', async () => {
      await files.write({ path: '/a', content: '0123' })
      const before = await files.contentHash('/a')
      await patch('/a', data(2, ''), hole(4, 0))
      expect(await files.contentHash('/a')).toBe(before)
      await refusePatch({ path: '/a', logicalSize: 4, segments: [data(5, '')] }, 'INVALID_ARGUMENT')
      await refusePatch({ path: '/a', logicalSize: 4, segments: [hole(5, 0)] }, 'INVALID_ARGUMENT')
    })

    test('mode is kept, set and validated', async () => {
      const mode = async (): Promise<number> => (await session.manifest()).nodes[0]!.mode
      await files.patchSegments({ mutations: [{ path: '/a', segments: [], mode: 0o600 }] })
      expect(await mode()).toBe(0o600)
      await patch('/a', data(0, 'x'))
      expect(await mode()).toBe(0o600)
      await files.batch([{ segmentWrite: { path: '/a', segments: [], mode: 0 } }])
      expect(await mode()).toBe(0)
      for (const bad of [-1, 0o10000, 1.5, '1', null, Number.NaN])
        await refusePatch({ path: '/a', segments: [], mode: bad }, 'INVALID_ARGUMENT')
      await check('/a', Buffer.from('x'))
    })

    test('data is copied at the call', async () => {
      const content = Buffer.from('abc')
      const chunk = { data: { offset: 0, content } }
      const segments = [chunk]
      const mutation = { path: '/a', segments }
      const written = files.patchSegments({ mutations: [mutation] })
      content.fill(0)
      chunk.data.offset = 7
      segments.pop()
      mutation.path = '/b'
      await written
      await check('/a', Buffer.from('abc'))
    })

    test('every name of a file shows the change', async () => {
      await files.write({ path: '/a', content: 'abc' })
      await files.link({ srcPath: '/a', dstPath: '/b' })
      await files.createSymlink({ linkPath: '/c', target: 'b' })
      await patch('/c', data(1, 'X'))
      await check('/a', Buffer.from('aXc'))
      await check('/b', Buffer.from('aXc'))
    })

    test('random chunks give the same result as plain bytes', async () => {
      const next = randomWords(seed)
      const below = (limit: number): number => next() % limit
      let expected = Buffer.alloc(0)
      for (let round = 0; round < 30; round++) {
        const segments: SegmentChunk[] = []
        const size = Math.max(expected.length, below(3) === 0 ? below(3 * mebibyte) : below(3000))
        const bigger = Buffer.alloc(size)
        bigger.set(expected)
        for (let count = below(40); count > 0; count--) {
          const near = below(2) === 0 ? 0 : Math.max(0, Math.min(size, mebibyte) - 1500)
          const offset = Math.min(size, near + below(3000))
          const length = Math.min(size - offset, below(20) === 0 ? below(mebibyte) : below(200))
          if (below(3) === 0) {
            segments.push(hole(offset, length))
            bigger.fill(0, offset, offset + length)
          } else {
            const content = randomBytes(length, below(1000))
            segments.push(data(offset, content))
            bigger.set(content, offset)
          }
        }
        await files.patchSegments({ mutations: [{ path: '/a', segments, logicalSize: size }] })
        expected = bigger
        expect((await read('/a')).equals(expected), `seed ${seed}, round ${round}`).toBe(true)
      }
      await check('/a', expected)
    })
  })

  describe('many chunks', () => {
    test.runIf(isForMany(name))(
      'thousands of tiny ones in one block and across block boundaries',
      async () => {
        for (const [count, stride, length] of [
          [isLong ? 100_000 : 20_000, isLong ? 10 : 50, 1],
          [20_000, 55, 55],
        ] as const) {
          const expected = Buffer.alloc((count - 1) * stride + length)
          const segments = Array.from({ length: count }, (_, i) => {
            const content = expected.subarray(i * stride, i * stride + length).fill(i)
            return data(i * stride, content)
          })
          await patch(`/of-${length}`, ...segments)
          await check(`/of-${length}`, expected)
        }
      },
    )

    test('one too many is rejected, in one file or in several', async () => {
      if (name !== 'memory') lowerBound(limits, 'segments', 1000)
      const many = Array.from({ length: limits.segments + 1 }, (_, i) => hole(i, 0))
      await refusePatch({ path: '/a', segments: many }, 'TOO_LARGE')
      await refuse(
        () =>
          files.patchSegments({
            mutations: [
              { path: '/a', segments: many.slice(1) },
              { path: '/b', segments: many.slice(0, 1) },
            ],
          }),
        'TOO_LARGE',
      )
      const million = Array<SegmentChunk>(10 * limits.segments).fill(hole(0, 0))
      await refusePatch({ path: '/a', segments: million }, 'TOO_LARGE')
    })

    test('in sequence, in one block', async () => {
      const expected = Buffer.alloc(mebibyte + 100)
      await files.write({ path: '/a', content: expected })
      for (let i = 0; i < 700; i++) {
        const offset = (i * 7919) % expected.length
        expected[offset] = i
        await patch('/a', data(offset, Uint8Array.of(i)))
      }
      await check('/a', expected)
    })
  })

  describe('several files', () => {
    test('a repeated path sees the earlier changes', async () => {
      await files.patchSegments({
        mutations: [
          { path: '/a', segments: [data(0, 'abcdef')], expectedHash: '' },
          { path: '/a', segments: [data(1, 'X')], expectedHash: hashOf('abcdef') },
          { path: '/a', segments: [data(2, 'Y')], logicalSize: 3, expectedHash: hashOf('aXcdef') },
        ],
      })
      await check('/a', Buffer.from('aXY'))
      const stale = { path: '/a', segments: [], expectedHash: hashOf('abcdef') }
      await refuse(() => files.patchSegments({ mutations: [stale] }), 'HASH_MISMATCH')
    })

    test('guards in one request match successive states of a file with several blocks', async () => {
      const first = randomBytes(2 * mebibyte, 3)
      await files.write({ path: '/a', content: first })
      const states = [first]
      const mutations = Array.from({ length: 5 }, (_, i): SegmentWriteRequest => {
        const state = Buffer.from(states[i]!)
        states.push(state)
        // 600 chunks cause their block to be rewritten.
        const segments = Array.from({ length: i === 1 ? 600 : 1 }, (_unused, n) => {
          state[i + 2 * n] = i
          return data(i + 2 * n, Uint8Array.of(i))
        })
        return { path: '/a', segments, expectedHash: hashOf(states[i]!) }
      })
      await files.patchSegments({ mutations })
      await check('/a', states.at(-1)!)
    })

    test.runIf(isForMany(name))('guards on many files whose hashes are not computed yet', async () => {
      const paths = Array.from({ length: isLong ? 2500 : 600 }, (_, i) => `/d/${i}`)
      const mutate = (part: SegmentChunk, expectedHash?: (path: string) => string): Promise<unknown> =>
        files.patchSegments({
          mutations: paths.map((path) => ({
            path,
            segments: [part],
            ...(expectedHash && { expectedHash: expectedHash(path) }),
          })),
        })
      await mutate(data(0, 'ab'))
      await mutate(data(1, 'cd'))
      await expect(mutate(data(0, 'x'), () => hashOf('abd'))).rejects.toMatchObject({
        reason: 'HASH_MISMATCH',
      })
      await mutate(data(0, 'x'), () => hashOf('acd'))
      await check(paths.at(-1)!, Buffer.from('xcd'))
    })

    test('a guard on a file that is only a hole', async () => {
      await files.patchSegments({
        mutations: [
          { path: '/a', segments: [], logicalSize: 10 },
          { path: '/a', segments: [data(0, 'x')], expectedHash: hashOf(Buffer.alloc(10)) },
        ],
      })
      await check('/a', Buffer.concat([Buffer.from('x'), Buffer.alloc(9)]))
    })

    test('applies all or nothing, also for readers', async () => {
      await files.write({ path: '/a', content: 'old' })
      const bad = { path: '/a/b', segments: [data(0, 'x')] }
      await refusePatch(bad, 'NOT_A_DIRECTORY')
      await files.createDirectory({ path: '/d' })
      await refusePatch({ path: '/d', segments: [data(0, 'x')] }, 'IS_A_DIRECTORY')
      await check('/a', Buffer.from('old'))
    })

    test('a mismatch aborts the request or skips its file', async () => {
      await files.write({ path: '/a', content: 'a' })
      await files.write({ path: '/b', content: 'b' })
      const mutations = [
        { path: '/a', segments: [data(0, 'A')], expectedHash: hashOf('a') },
        { path: '/b', segments: [data(0, 'B')], expectedHash: hashOf('other') },
        { path: '/new', segments: [data(0, 'N')], expectedHash: '' },
        { path: '/a', segments: [data(1, 'A')], expectedHash: hashOf('a') },
        { path: '/missing', segments: [data(0, 'M')], expectedHash: hashOf('') },
      ]
      const error = await refuse(() => files.patchSegments({ mutations }), 'HASH_MISMATCH')
      expect(error.details).toEqual({ path: '/b', expectedHash: hashOf('other'), actualHash: hashOf('b') })
      await refuse(() => files.batch(mutations.map((segmentWrite) => ({ segmentWrite }))), 'HASH_MISMATCH')
      expect(await files.patchSegments({ mutations, ...skip })).toEqual({
        skippedPaths: ['/b', '/a', '/missing'],
      })
      const body = (await lastEvent())!.body as readonly [number, string, object]
      expect(body.slice(1, 3)).toEqual([
        'v1.FileSystemService.PatchSegments',
        { paths: ['/a', '/new'], skippedPaths: ['/b', '/a', '/missing'] },
      ])
      await check('/a', Buffer.from('A'))
      await check('/b', Buffer.from('b'))
      await check('/new', Buffer.from('N'))
    })

    test('changes nothing if all files are skipped', async () => {
      await files.write({ path: '/a', content: 'a' })
      const before = await lastEvent()
      const mutations = [{ path: '/a', segments: [data(0, 'A')], expectedHash: '' }]
      expect(await files.patchSegments({ mutations, ...skip })).toEqual({ skippedPaths: ['/a'] })
      expect(await files.patchSegments({ mutations: [] })).toEqual({ skippedPaths: [] })
      expect((await lastEvent())!.seq).toBe(before!.seq)
    })

    test('the hash is that of the bytes after each kind of change', async () => {
      const content = randomBytes(mebibyte + 1, 5)
      await files.write({ path: '/a', content })
      const fork = await session.fork()
      await patch('/a', data(mebibyte, 'x'))
      expect(await files.contentHash('/a')).toBe(
        hashOf(Buffer.concat([content.subarray(0, mebibyte), Buffer.from('x')])),
      )
      expect(await fork.files.contentHash('/a')).toBe(hashOf(content))
      await patch('/a', data(mebibyte, content.subarray(mebibyte)))
      await check('/a', content)
      await files.patchSegments({ mutations: [{ path: '/a', segments: [], logicalSize: mebibyte }] })
      await check('/a', content.subarray(0, mebibyte))
    })
  })

  describe('borrowed', () => {
    const content = 'what is to be borrowed'

    async function borrows(path: string, hash = hashOf(content)): Promise<void> {
      await patch(path, borrowed(2, 4, hash, 5))
      await check(path, Buffer.from('\0\0is t'))
    }

    const notFound = (): Promise<EngineError> =>
      refusePatch({ path: '/to', segments: [borrowed(0, 1, hashOf(content))] }, 'BLOB_NOT_FOUND')

    test('from the same file, another file, or a file in a moved directory', async () => {
      await files.write({ path: '/d/e/from', content })
      await patch('/d/e/from', borrowed(content.length, 4, hashOf(content), 5))
      await check('/d/e/from', Buffer.from(`${content}is t`))
      await files.rename({ sourcePath: '/d', destinationPath: '/moved' })
      await borrows('/to')
    })

    test('from the same request, in either order', async () => {
      await files.patchSegments({
        mutations: [
          { path: '/before', segments: [borrowed(0, 4, hashOf(content))] },
          { path: '/from', segments: [data(0, content)] },
          { path: '/after', segments: [borrowed(0, 4, hashOf(content))] },
        ],
      })
      await check('/before', Buffer.from('what'))
      await check('/after', Buffer.from('what'))
      await files.batch([
        { write: { path: '/w', content: 'whole' } },
        { delete: { path: '/w' } },
        { segmentWrite: { path: '/s', segments: [borrowed(0, 5, hashOf('whole'))] } },
      ])
      await check('/s', Buffer.from('whole'))
    })

    test('from a skipped file of the request', async () => {
      await files.patchSegments({
        ...skip,
        mutations: [
          { path: '/out', segments: [data(0, content)], expectedHash: hashOf('other') },
          { path: '/in', segments: [borrowed(0, 4, hashOf(content))] },
        ],
      })
      await check('/in', Buffer.from('what'))
    })

    test('from chunks of the request whose block is rewritten', async () => {
      const packed = Buffer.from(Array.from({ length: 600 }, (_, i) => i % 256))
      await files.patchSegments({
        mutations: [
          { path: '/a', segments: [...packed].map((byte, i) => data(2 * i, Uint8Array.of(byte))) },
          { path: '/b', segments: [borrowed(0, 600, hashOf(packed))] },
        ],
      })
      await check('/b', packed)
    })

    test('of more than fits in one commit, in the same request', async () => {
      const part = randomBytes(mebibyte, 9)
      await files.patchSegments({
        mutations: [
          { path: '/b', segments: [borrowed(7, mebibyte, hashOf(part))] },
          { path: '/a', segments: [data(0, part), data(mebibyte, randomBytes(5 * mebibyte, 10))] },
        ],
      })
      await check('/b', Buffer.concat([Buffer.alloc(7), part]))
    })

    test('from the base if no file of the session contains it anymore', async () => {
      use(await engine.sessions.create({ files: { '/d/base': content, '/other': 'x' } }))
      await files.delete({ path: '/d/base' })
      await reload()
      await borrows('/to')
    })

    test('from one of many files of the base', async () => {
      const many = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`/d${i % 7}/f${i}`, `c${i}`]))
      use(await engine.sessions.create({ files: many }))
      await reload()
      await patch('/to', borrowed(0, 5, hashOf('c2999')), borrowed(5, 2, hashOf('c7')))
      await check('/to', Buffer.from('c2999c7'))
    })

    test('not from overwritten or deleted content, from other sessions or from nowhere', async () => {
      await notFound()
      await files.write({ path: '/a', content })
      await files.write({ path: '/a', content: 'other' })
      await notFound()
      const other = await engine.sessions.create({ files: { '/a': content } })
      await notFound()
      const fork = await session.fork()
      await fork.files.write({ path: '/a', content })
      await notFound()
      await fork.delete()
      await other.delete()
      await notFound()
      await reload()
      await notFound()
    })

    test('from the common base of forks, but not from later content of the other side', async () => {
      await files.write({ path: '/a', content })
      const parent = session
      use(await session.fork())
      await parent.files.write({ path: '/later', content: 'later' })
      await refusePatch({ path: '/to', segments: [borrowed(0, 1, hashOf('later'))] }, 'BLOB_NOT_FOUND')
      await borrows('/to')
    })

    test('ranges from getCasExtents make a copy without using space', async () => {
      const original = randomBytes(2 * mebibyte + 5, 6)
      await files.write({ path: '/a', content: original })
      await patch('/a', data(100, 'patched'), hole(mebibyte + 1, 1000))
      const expected = await read('/a')
      const { extents } = await files.getCasExtents({ path: '/a' })
      await files.patchSegments({
        mutations: [{ path: '/b', segments: extents.map((extent) => ({ borrowed: extent })) }],
      })
      expect(await files.getCasExtents({ path: '/b' })).toEqual({ extents })
      await check('/b', expected)
    })

    test.runIf(isLong && isForMany(name))('8,000 ranges of a file of 20,000 extents', async () => {
      const segments = Array.from({ length: 20_000 }, (_, i) =>
        data(Math.floor(i / 500) * mebibyte + (i % 500) * 2000, `content ${i}`),
      )
      await patch('/a', ...segments)
      const { extents } = await files.getCasExtents({ path: '/a' })
      expect(extents.length).toBe(segments.length)
      const last = extents.slice(-8000)
      await patch(
        '/a',
        ...last.map((extent, i) => ({ borrowed: { ...extent, offset: i * 5000, length: 1 } })),
      )
      expect(Buffer.from(await files.read({ path: '/a', offset: 5000, length: 3 })).toString()).toBe('c\0\0')
    })

    test('a range beyond the end of the blob is rejected', async () => {
      await files.write({ path: '/a', content })
      for (const [length, casOffset] of [
        [content.length + 1, 0],
        [1, content.length],
        [2 ** 40, 0],
        [1, Number.MAX_SAFE_INTEGER],
      ] as const) {
        const segments = [borrowed(0, length, hashOf(content), casOffset)]
        await refusePatch({ path: '/to', segments }, length > 2 ** 36 ? 'FILE_TOO_LARGE' : 'INVALID_ARGUMENT')
      }
    })
  })

  describe('rejects', () => {
    const nan = [Number.NaN, -1, 1.5, '1', 1n, null, undefined, 2 ** 53, Number.POSITIVE_INFINITY, {}, []]

    test('invalid numbers', async () => {
      await files.write({ path: '/a', content: 'a' })
      const hash = hashOf('a')
      for (const bad of nan) {
        for (const chunk of [
          { data: { offset: bad, content: 'x' } },
          { hole: { offset: bad, length: 0 } },
          { hole: { offset: 0, length: bad } },
          { borrowed: { offset: bad, length: 0, hash } },
          { borrowed: { offset: 0, length: bad, hash } },
          ...(bad === undefined || bad === null
            ? []
            : [{ borrowed: { offset: 0, length: 0, hash, casOffset: bad } }]),
        ])
          await expectInvalid({ path: '/a', segments: [chunk] })
        if (bad !== undefined) await expectInvalid({ path: '/a', segments: [], logicalSize: bad })
      }
      await check('/a', Buffer.from('a'))
    })

    /** Without comparing the manifest before and after. */
    async function expectInvalid(mutation: unknown): Promise<void> {
      const seq = (await lastEvent())?.seq
      await expect(
        files.patchSegments({ mutations: [mutation as SegmentWriteRequest] }),
      ).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
      await expect(files.batch([{ segmentWrite: mutation as SegmentWriteRequest }])).rejects.toMatchObject({
        reason: 'INVALID_ARGUMENT',
      })
      expect((await lastEvent())?.seq).toBe(seq)
    }

    test('malformed chunks', async () => {
      const own = JSON.parse('{"__proto__": {"offset": 0, "length": 1}}') as unknown
      const inherited = JSON.parse('{"x": 1}') as object
      for (const chunk of [
        {},
        { other: 1 },
        { data: { offset: 0, content: 'x' }, hole: { offset: 0, length: 1 } },
        { data: { offset: 0, content: 'x' }, other: 1 },
        own,
        inherited,
        null,
        undefined,
        1,
        'data',
        [],
        [{ data: { offset: 0, content: 'x' } }],
        { data: null },
        { data: 'x' },
        { data: {} },
        { data: { offset: 0 } },
        { data: { content: 'x' } },
        { data: { offset: 0, content: 1 } },
        { data: { offset: 0, content: null } },
        { data: { offset: 0, content: [1] } },
        { hole: { offset: 0 } },
        { hole: {} },
        { borrowed: { offset: 0, length: 0 } },
        { borrowed: { offset: 0, length: 0, hash: '' } },
        { borrowed: { offset: 0, length: 0, hash: 'x' } },
        { borrowed: { offset: 0, length: 0, hash: hashOf('').toUpperCase() } },
        { borrowed: { offset: 0, length: 0, hash: hashOf('').slice(7) } },
      ])
        await expectInvalid({ path: '/a', segments: [chunk] })
      expect((await session.manifest()).nodes).toEqual([])
    })

    test('malformed mutations and requests', async () => {
      for (const mutation of [null, undefined, 1, [], {}, { path: '/a' }, { segments: [] }])
        await expectInvalid(mutation)
      for (const segments of [null, 'x', {}, 1, new Set()]) await expectInvalid({ path: '/a', segments })
      for (const path of [undefined, null, 1, '', 'a', '/a/../b', '/a\0'])
        await expectInvalid({ path, segments: [] })
      for (const expectedHash of [null, 1, 'x', 'sha256:', hashOf('').slice(0, -1)])
        await expectInvalid({ path: '/a', segments: [], expectedHash })
      for (const request of [
        null,
        undefined,
        [],
        {},
        { mutations: null },
        { mutations: {} },
        { mutations: Array(2) },
      ])
        await refuse(() => files.patchSegments(request as never), 'INVALID_ARGUMENT')
      for (const conflictPolicy of ['', 'SKIP', 1, null, '__proto__', 'SEGMENT_CONFLICT_POLICY_OTHER'])
        await refuse(
          () => files.patchSegments({ mutations: [], conflictPolicy: conflictPolicy as never }),
          'INVALID_ARGUMENT',
        )
      await refuse(
        () =>
          files.patchSegments({
            mutations: Array.from({ length: 10_001 }, () => ({ path: '/a', segments: [] })),
          }),
        'TOO_LARGE',
      )
      await refuse(
        () => files.batch([{ segmentWrite: { path: '/a', segments: [] }, delete: { path: '/a' } }]),
        'INVALID_ARGUMENT',
      )
      expect((await session.manifest()).nodes).toEqual([])
    })

    test('ranges beyond the limits', async () => {
      const max = Number.MAX_SAFE_INTEGER
      const range = (segments: SegmentChunk[], logicalSize?: number): SegmentWriteRequest => ({
        path: '/a',
        segments,
        ...(logicalSize !== undefined && { logicalSize }),
      })
      await refusePatch(range([hole(max, 1)]), 'INVALID_ARGUMENT')
      await refusePatch(range([data(max, 'xx')]), 'INVALID_ARGUMENT')
      await refusePatch(range([data(max - 1, 'x')]), 'FILE_TOO_LARGE')
      await refusePatch(range([hole(0, max)], max), 'FILE_TOO_LARGE')
      await refusePatch(range([data(64 * 2 ** 30, 'x')]), 'FILE_TOO_LARGE')
      await refusePatch(range([], 64 * 2 ** 30 + 1), 'FILE_TOO_LARGE')
      await refusePatch(range([hole(0, 1)]), 'INVALID_ARGUMENT')
      await refusePatch(range([data(0, 'xx')], 1), 'INVALID_ARGUMENT')
      await refusePatch(range([hole(1, 1)], 1), 'INVALID_ARGUMENT')
    })
  })

  test('a byte far inside a hole takes no memory of that size', async () => {
    await engine.close()
    engine = await openEngine({ storage, maxFileBytes: 2 ** 41 })
    use(await engine.sessions.create())
    await patch('/warm', data(5000, 'x'))
    await files.read({ path: '/warm' })
    const before = process.memoryUsage()
    await patch('/far', data(2 ** 40, 'x'))
    expect(await files.getCasExtents({ path: '/far' })).toEqual({
      extents: [{ offset: 2 ** 40, length: 1, hash: hashOf('x'), casOffset: 0 }],
    })
    const end = await files.read({ path: '/far', offset: 2 ** 40 - 3, length: 100 })
    expect(Buffer.from(end).toString()).toBe('\0\0\0x')
    await files.patchSegments({
      mutations: [{ path: '/far', segments: [hole(0, 2 ** 41)], logicalSize: 2 ** 41 }],
    })
    expect(await files.getCasExtents({ path: '/far' })).toEqual({ extents: [] })
    expect((await session.fs.promises.stat('/far')).size).toBe(2 ** 41)
    const after = process.memoryUsage()
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(mebibyte)
    // No buffer can hold the file, and the error says so.
    await expect(files.read({ path: '/far' })).rejects.toMatchObject({ reason: 'TOO_LARGE' })
    await files.delete({ path: '/far' })
    await check('/warm', Buffer.concat([Buffer.alloc(5000), Buffer.from('x')]))
  })
})

function data(
  offset: number,
  content: string | Uint8Array,
): { data: { offset: number; content: string | Uint8Array } } {
  return { data: { offset, content } }
}

function hole(offset: number, length: number): SegmentChunk {
  return { hole: { offset, length } }
}

function borrowed(offset: number, length: number, hash: string, casOffset = 0): SegmentChunk {
  return { borrowed: { offset, length, hash, casOffset } }
}

function isZero(content: Uint8Array): boolean {
  return Buffer.from(content).equals(Buffer.alloc(content.length))
}

function hashOf(content: string | Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`
}

test('chunks above maxFileBytes are refused before they are stored', async () => {
  const { storage, stored } = notedStorage()
  await using small = await openEngine({ storage, maxFileBytes: 100 })
  const { files: inSmall } = await small.sessions.create()
  const content = Buffer.alloc(5 * 2 ** 20, 'x')
  const segments = [{ data: { offset: 0, content } }]
  await expect(inSmall.patchSegments({ mutations: [{ path: '/a', segments }] })).rejects.toMatchObject({
    reason: 'FILE_TOO_LARGE',
  })
  expect(stored).toEqual([])
})

test('limits the extents of a file and of a page of a manifest', async () => {
  lowerBound(limits, 'casExtents', 20_000)
  const engine = await openEngine()
  const session = await engine.sessions.create()
  const count = limits.casExtents / 10
  const write = async (path: string, from: number): Promise<void> => {
    const segments = Array.from({ length: count }, (_, i) => ({
      data: { offset: (from + i) * 2080, content: 'abc' },
    }))
    await session.files.patchSegments({ mutations: [{ path, segments }] })
  }
  await write('/a0', 0)
  for (let i = 1; i <= 10; i++) await session.files.copy({ sourcePath: '/a0', destinationPath: `/a${i}` })
  const first = await session.manifest({ includeCasExtents: true })
  expect(first.nodes.map(({ casExtents }) => casExtents.length)).toEqual(
    Array.from({ length: 10 }, () => count),
  )
  const { nodes } = await session.manifest({ includeCasExtents: true, pageToken: first.nextPageToken })
  expect(nodes).toHaveLength(1)

  for (let i = 1; i <= 10; i++) await write('/a0', i * count)
  for (const list of [
    () => session.files.getCasExtents({ path: '/a0' }),
    () => session.manifest({ includeCasExtents: true, pathPrefix: '/a0' }),
  ])
    await expect(list()).rejects.toMatchObject({
      reason: 'TOO_LARGE',
      details: { path: '/a0', limit: '20000' },
    })
  await engine.close()
})
