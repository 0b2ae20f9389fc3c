import {
  cp,
  mkdtemp,
  open as openFile,
  readFile,
  readdir,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { backupStore, checkStore } from '../../src/adapters/level/index.js'
import type { StoreCheck } from '../../src/adapters/level/index.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { encodeCommit } from '../../src/adapters/level/log/commit-frame.js'
import { CommitLog } from '../../src/adapters/level/log/commit-log.js'
import { readFrame } from '../../src/adapters/level/log/frame.js'
import {
  blobBytesOf,
  decodeSegmentHeader,
  encodeSegmentHeader,
  entryHeadBytes,
  frameHeaderBytes,
  readFrameHeader,
  segmentHeaderBytes,
} from '../../src/adapters/level/log/segment-format.js'
import { SegmentFile } from '../../src/adapters/level/log/segment-file.js'
import { Segments } from '../../src/adapters/level/log/segments.js'
import { firstPlace, replay } from '../../src/adapters/level/log/recovery.js'
import { FileAsOpened } from '../../src/adapters/level/tools/file-as-opened.js'
import { readManifest } from '../../src/adapters/level/directory/manifest.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type { StoreCommit } from '../../src/engine/ports.js'
import { randomWords } from '../../src/testing.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { seed, stepOf } from '../support/seed.js'
import { PlainStore, blobOf, openSmall, readContents, reasonOf, sessionId } from '../support/level-world.js'

const sessions = [sessionId(1), sessionId(2)]

/** The bytes up to the last one that is not zero. The frames of these tests end with such a byte. */
function withoutSpace(bytes: Buffer): Buffer {
  let end = bytes.length
  while (end > 0 && bytes[end - 1] === 0) end--
  return bytes.subarray(0, end)
}

let directory: string
let data: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-segments-'))
  data = join(directory, 'data')
})

afterEach(() => rm(directory, { recursive: true, force: true }))

describe('a frame', () => {
  const commit: StoreCommit = {
    events: [{ sessionId: sessions[0]!, seq: 1, body: ['one', { é: '\u{1f600}' }] }],
    put: [
      ['key', 'value'],
      ['schlüssel', { object: true }],
      ['empty', ''],
    ],
    del: ['gone'],
    blobs: [blobOf(1, 100), blobOf(2, 0), blobOf(3, 150_000)],
    deleteBlobs: [blobOf(4, 10).hash],
    replaceEvents: [{ sessionId: sessions[0]!, seq: 1, body: [] }],
    deleteEvents: [sessions[1]!],
  }
  const place = { commit: 7, syncedTo: 2 ** 40, chain: 0xdeadbeef }

  function read(bytes: Buffer, frameSeed = 5): ReturnType<typeof readFrame> {
    const header = readFrameHeader(bytes, 0, frameSeed)
    if (header === undefined || frameHeaderBytes + header.bodyBytes !== bytes.length) return undefined
    return readFrame(bytes, 0, header)
  }

  test('decodes to its original entries', () => {
    const frame = encodeCommit(commit)
    const { bytes, checksum } = frame.seal(place, 5)
    expect(read(bytes)).toEqual(frame.entries)
    expect(readFrameHeader(bytes, 0, 5)).toMatchObject({ ...place, entries: 11, checksum })
    expect(frame.entries.map(({ key }) => key[0]).join('')).toBe('errrrbbbbee')
    const sizes = frame.entries.filter(({ kind }) => kind === 5).map(({ length }) => blobBytesOf(length))
    expect(sizes).toEqual([100, 0, 150_000])
    expect(read(bytes, 6)).toBeUndefined()
  })

  test('with a changed byte or a missing end is rejected', () => {
    const random = randomWords(seed)
    const { bytes } = encodeCommit({ ...commit, blobs: [blobOf(1, 100), blobOf(3, 66_000)] }).seal(place, 5)
    const positions = Array.from({ length: bytes.length }, (_, i) => i)
    // All bytes outside the large blob, and some of those in it.
    const tried = positions.filter((at) => at < 1000 || at > 67_000 || random() % 50 === 0)
    for (const at of tried) {
      const before = bytes[at]!
      bytes[at] = before ^ (1 << (random() % 8))
      if (read(bytes) !== undefined) throw new Error(`seed ${seed}: a change of byte ${at} was not noticed`)
      bytes[at] = before
    }
    for (const length of tried) {
      expect(read(Buffer.from(bytes.subarray(0, length)))).toBeUndefined()
    }
    expect(read(bytes)).toBeDefined()
  })

  test('with intact entries in another order, or twice, is rejected', () => {
    const frame = encodeCommit({
      put: [
        ['a', '1'],
        ['b', '2'],
      ],
    })
    const { bytes } = frame.seal(place, 5)
    const [first, second] = frame.entries.map(({ at, length }) =>
      Buffer.from(bytes.subarray(at, at + length)),
    )
    const at = frame.entries[0]!.at
    expect(read(bytes)).toEqual(frame.entries)
    for (const parts of [
      [second!, first!],
      [first!, first!],
    ]) {
      Buffer.concat(parts).copy(bytes, at)
      expect(read(bytes)).toBeUndefined()
    }
  })

  test('supports blobs of every size around the piece size', () => {
    for (const size of [0, 1, 65_535, 65_536, 65_537, 131_072, 131_073, 2 ** 20]) {
      const frame = encodeCommit({ blobs: [blobOf(1, size)] })
      expect(blobBytesOf(frame.entries[0]!.length)).toBe(size)
      expect(read(frame.seal(place, 5).bytes)).toEqual(frame.entries)
    }
  })
})

test('a segment header with any changed byte is rejected', () => {
  const header = {
    storeId: '01234567-89ab-cdef-0123-456789abcdef',
    segment: 12,
    firstCommit: 2 ** 41,
    chain: 0xffffffff,
  }
  const bytes = encodeSegmentHeader(header)
  expect(decodeSegmentHeader(bytes)).toEqual(header)
  for (let at = 0; at < bytes.length; at++) {
    bytes[at]! ^= 0x10
    expect(decodeSegmentHeader(bytes)).toBeUndefined()
    bytes[at]! ^= 0x10
  }
})

test('reading after the end of a segment fails with DATA_LOSS and its offset', async () => {
  const path = join(directory, 'segment')
  await writeFile(path, 'abcdef')
  const file = new SegmentFile(7, await nodeDisk.open(path, 'read'), 6)
  expect(String(file.readSync(2, 4))).toBe('cdef')
  const damage = { reason: 'DATA_LOSS', details: { file: 'segments/00000007.seg', offset: '3' } }
  await expect(file.read(3, 4)).rejects.toMatchObject(damage)
  expect(() => file.readSync(3, 4)).toThrow(expect.objectContaining(damage))
  await file.close()
})

describe('the end of the newest segment', () => {
  /** The state of a store whose process was killed after some acknowledged commits, and its newest segment. */
  async function killed(
    durability: 'full' | 'relaxed',
    count: number,
  ): Promise<{ image: string; head: string }> {
    const store = await openSmall(data, { durability, segmentBytes: 2 ** 20, flushEntries: 10_000 })
    for (let n = 1; n <= count; n++) await store.commit(commitOf(n))
    const image = join(directory, 'image')
    await cp(data, image, { recursive: true })
    await store.close()
    return { image, head: join(data, 'segments/00000001.seg') }
  }

  const commitOf = (n: number): StoreCommit => ({
    events: [{ sessionId: sessions[0]!, seq: n, body: [n] }],
    put: [['head', String(n)]],
  })

  async function use(image: string): Promise<void> {
    await rm(data, { recursive: true, force: true })
    await cp(image, data, { recursive: true })
  }

  async function lastCommit(): Promise<number> {
    const store = await openSmall(data)
    const last = (await store.lastEvent(sessions[0]!))?.seq ?? 0
    expect(await store.get('head')).toBe(last === 0 ? undefined : String(last))
    await store.commit(commitOf(last + 1))
    await store.close()
    const again = await openSmall(data)
    expect(await again.get('head')).toBe(String(last + 1))
    await again.close()
    return last
  }

  test('torn at any byte keeps the commits before it', { timeout: 60_000 }, async () => {
    const { image, head } = await killed('full', 3)
    const frames = withoutSpace(await readFile(join(image, 'segments/00000001.seg')))
    const whole = frames.length
    for (let size = whole; size > whole - 110; size -= size > whole - 20 ? stepOf(3) : 9) {
      for (const space of [0, 5000]) {
        await use(image)
        await writeFile(head, Buffer.concat([frames.subarray(0, size), Buffer.alloc(space)]))
        expect([whole - size, await lastCommit()]).toEqual([whole - size, size === whole ? 3 : 2])
      }
    }
  })

  test('may contain anything after the last commit', async () => {
    const { image, head } = await killed('full', 5)
    const frames = await readFile(join(image, 'segments/00000001.seg'))
    for (const garbage of [Buffer.alloc(5000), Buffer.from('FKF2'.repeat(100)), frames.subarray(64, 300)]) {
      await use(image)
      await writeFile(head, Buffer.concat([frames, garbage]))
      expect(await lastCommit()).toBe(5)
    }
  })

  test('is not cut if a later frame shows that it was synced', async () => {
    const { image, head } = await killed('full', 5)
    const frames = await readFile(join(image, 'segments/00000001.seg'))
    const damaged = frames.lastIndexOf('FKF2', frames.lastIndexOf('FKF2') - 1) + 60
    await use(image)
    const file = await openFile(head, 'r+')
    await file.write(Buffer.from([frames[damaged]! ^ 1]), 0, 1, damaged)
    await file.close()
    for (let times = 0; times < 2; times++) {
      expect(await openSmall(data).catch(detailsOf)).toMatchObject({
        reason: 'DATA_LOSS',
        details: { file: 'segments/00000001.seg', offset: String(damaged - 60), commit: '4' },
      })
    }
  })

  test('is not cut if that later frame starts at any position across two windows', async () => {
    const windowBytes = 2 ** 20
    // The first frame is damaged; the search continues from its start in windows of this size.
    const second = segmentHeaderBytes + windowBytes
    for (const at of [-frameHeaderBytes, 1 - frameHeaderBytes, -20, -1, 0, 1]) {
      const store = await openSmall(data, {
        durability: 'full',
        segmentBytes: 2 ** 22,
        flushEntries: 10_000,
        flushBytes: 2 ** 24,
      })
      const entryBytes = entryHeadBytes + 'head'.length
      await store.commit({
        put: [['head', 'x'.repeat(second + at - segmentHeaderBytes - frameHeaderBytes - entryBytes)]],
      })
      await store.commit({ put: [['k', 'v']] })
      const image = join(directory, 'image')
      await cp(data, image, { recursive: true })
      await store.close()
      await use(image)
      const head = join(data, 'segments/00000001.seg')
      const frames = await readFile(head)
      expect(frames.indexOf('FKF2', second - 50)).toBe(second + at)
      frames[segmentHeaderBytes + frameHeaderBytes + 100]! ^= 1
      await writeFile(head, frames)
      expect([at, await openSmall(data).catch(reasonOf)]).toEqual([at, 'DATA_LOSS'])
      await rm(data, { recursive: true })
      await rm(image, { recursive: true })
    }
  })

  test('is synced before the store opens, also after a cut', async () => {
    const { image, head } = await killed('relaxed', 5)
    for (const garbage of [false, true]) {
      await use(image)
      if (garbage) await writeFile(head, 'garbage', { flag: 'a' })
      const disk = new FaultyDisk()
      const store = await openSmall(data, { durability: 'full', disk })
      const changes = disk.log.filter((what) => what.endsWith(head)).map((what) => what.split(' ')[0])
      const truncated = garbage ? ['truncate', 'sync'] : []
      expect(changes).toEqual([...truncated, 'write', 'sync'])
      await store.close()
    }
  })

  test('is synced after a recovery has cut it and written again', async () => {
    const disk = new FaultyDisk()
    const store = await openSmall(data, { durability: 'relaxed', disk, segmentBytes: 2 ** 20 })
    const head = join(data, 'segments/00000001.seg')
    await store.commit(commitOf(1))
    disk.failAt = disk.operations + 1
    await expect(store.commit(commitOf(2))).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    const before = disk.log.length
    await store.recover()
    const changes = disk.log.slice(before).filter((what) => what.endsWith(head))
    expect(changes.map((what) => what.split(' ')[0])).toEqual(['truncate', 'write', 'sync', 'truncate'])
    await store.close()
  })

  test('fails a recovery with DATA_LOSS if an acknowledged commit was changed', async () => {
    const disk = new FaultyDisk()
    const store = await openSmall(data, { durability: 'relaxed', disk, segmentBytes: 2 ** 20 })
    const head = join(data, 'segments/00000001.seg')
    await store.commit(commitOf(1))
    const { size } = await stat(head)
    await store.commit(commitOf(2))
    disk.failAt = disk.operations + 1
    await expect(store.commit(commitOf(3))).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    const bytes = await readFile(head)
    const damaged = Buffer.from(bytes)
    damaged[size + frameHeaderBytes + entryHeadBytes]! ^= 1
    await writeFile(head, damaged)
    expect(await store.recover().catch(detailsOf)).toEqual({
      reason: 'DATA_LOSS',
      details: { file: 'segments/00000001.seg', offset: String(size) },
    })
    await expect(store.commit(commitOf(3))).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await writeFile(head, bytes.subarray(0, (await stat(head)).size))
    await store.recover()
    expect(await store.commit(commitOf(3))).toBe(true)
    await store.close()
    expect(await lastCommit()).toBe(3)
  })

  test('is not cut if the store was closed after it', async () => {
    const { head } = await killed('relaxed', 5)
    await truncate(head, (await stat(head)).size - 1)
    expect(await openSmall(data).catch(reasonOf)).toBe('DATA_LOSS')
    // The manifest also records the close.
    await rm(join(data, 'index'), { recursive: true })
    expect(await openSmall(data).catch(reasonOf)).toBe('DATA_LOSS')
  })
})

describe('space after the newest commit', () => {
  const head = (): string => join(data, 'segments/00000001.seg')
  const put = (n: number): StoreCommit => ({ put: [[`k${n}`, `value ${n}`]] })
  const valuesIn = async (path: string, count: number): Promise<(string | undefined)[]> => {
    const store = await openSmall(path)
    try {
      return Array.from({ length: count }, (_, n) => store.getSync(`k${n}`))
    } finally {
      await store.close()
    }
  }
  const expected = (count: number): string[] => Array.from({ length: count }, (_, n) => `value ${n}`)
  /** A copy of the files while the store is open. */
  async function image(store: Awaited<ReturnType<typeof openSmall>>): Promise<string> {
    const path = join(directory, `image-${Math.random()}`)
    await cp(data, path, { recursive: true })
    await store.close()
    return path
  }

  test('is reserved only with full durability, grows with the commits, and is cut off on closing', async () => {
    const { reservedBytes, reservedBytesMin } = levelLimits
    const bounds = { relaxed: [0, 0, 0], full: [reservedBytesMin, reservedBytes / 2, reservedBytes] } as const
    for (const durability of ['relaxed', 'full'] as const) {
      data = join(directory, durability)
      const store = await openSmall(data, { durability, segmentBytes: 2 ** 23 })
      const spaces: number[] = []
      for (let n = 0; n < 200; n++) {
        await store.commit({ put: [[`k${n}`, 'x'.repeat(10_000)]] })
        if (n % stepOf(5) !== 0) continue
        const bytes = await readFile(head())
        spaces.push(bytes.length - withoutSpace(bytes).length)
      }
      const [first, least, most] = bounds[durability]
      expect(spaces[0]).toBe(first)
      expect(Math.max(...spaces)).toBeGreaterThanOrEqual(least)
      expect(Math.max(...spaces)).toBeLessThanOrEqual(most)
      await store.close()
      const bytes = await readFile(head())
      expect(withoutSpace(bytes).length).toBe(bytes.length)
    }
  })

  test('is not reserved by commits that fill it at once, nor past the end of a segment', async () => {
    const store = await openSmall(data, { durability: 'full', segmentBytes: 2 ** 20, flushBytes: 2 ** 24 })
    await store.commit({ put: [['large', 'x'.repeat(levelLimits.reservingBytes)]] })
    const { size } = await stat(head())
    expect(withoutSpace(await readFile(head())).length).toBe(size)
    for (let n = 0; n < 110; n++) {
      await store.commit({ put: [[`k${n}`, 'x'.repeat(10_000)]] })
      expect((await stat(head())).size).toBeLessThanOrEqual(2 ** 20)
    }
    expect(await readdir(join(data, 'segments'))).toContain('00000002.seg')
    // The first segment is sealed. It ends with its last commit.
    const sealed = await readFile(head())
    expect(withoutSpace(sealed).length).toBe(sealed.length)
    await store.close()
  })

  test('with any changed bytes is cut off, and commits before it are kept', async () => {
    const store = await openSmall(data, { durability: 'full', segmentBytes: 2 ** 20, flushEntries: 10_000 })
    for (let n = 0; n < 5; n++) await store.commit(put(n))
    const path = await image(store)
    const segment = join(path, 'segments/00000001.seg')
    const whole = await readFile(segment)
    const end = withoutSpace(whole).length
    for (const at of [end, end + 1, 4096, whole.length - 1]) {
      const damaged = Buffer.from(whole)
      damaged[at] = 0x46
      await writeFile(segment, damaged)
      const copy = join(directory, `copy-${at}`)
      await cp(path, copy, { recursive: true })
      expect(await valuesIn(copy, 5)).toEqual(expected(5))
      expect((await stat(join(copy, 'segments/00000001.seg'))).size).toBe(end)
    }
    const damaged = Buffer.from(whole)
    damaged[end - 100]! ^= 1
    await writeFile(segment, damaged)
    await expect(openSmall(path)).rejects.toMatchObject({ reason: 'DATA_LOSS' })
  })

  test('that the disk does not have is no failure', async () => {
    const disk = new FaultyDisk()
    const store = await openSmall(data, { durability: 'full', disk, segmentBytes: 2 ** 20 })
    disk.code = 'ENOSPC'
    // The first change writes the commit, the second one the space.
    disk.failAt = disk.operations + 2
    await store.commit(put(0))
    expect(disk.log.slice(disk.failAt - 2).map((what) => what.split(' ')[0])).toEqual([
      'write',
      'write',
      'truncate',
      'sync',
    ])
    const bytes = await readFile(head())
    expect(withoutSpace(bytes).length).toBe(bytes.length)
    const before = disk.operations
    await store.commit(put(1))
    expect(disk.operations - before).toBe(2)
    const path = await image(store)
    expect(await valuesIn(path, 2)).toEqual(expected(2))
  })

  test('that cannot be written for another reason fails the commit, and the store recovers', async () => {
    const disk = new FaultyDisk()
    const store = await openSmall(data, { durability: 'full', disk, segmentBytes: 2 ** 20 })
    disk.failAt = disk.operations + 2
    await expect(store.commit(put(0))).rejects.toMatchObject({ details: { outcome: 'unknown' } })
    await store.recover()
    for (let n = 0; n < 3; n++) await store.commit(put(n))
    await store.close()
    expect(await valuesIn(data, 3)).toEqual(expected(3))
  })

  test('is no finding and no note of a check, and part of no backup', async () => {
    const store = await openSmall(data, { durability: 'full', segmentBytes: 2 ** 20, flushEntries: 10_000 })
    for (let n = 0; n < 5; n++) await store.commit(put(n))
    const path = await image(store)
    const segment = join(path, 'segments/00000001.seg')
    const whole = await readFile(segment)
    const end = withoutSpace(whole).length
    const progress: { readBytes: number; totalBytes: number }[] = []
    const report = await checkStore(path, { onProgress: (step) => progress.push(step) })
    expect(fileNotes(report)).toEqual([])
    expect(progress.at(-1)).toMatchObject({ readBytes: whole.length, totalBytes: whole.length })
    const copied: { copiedBytes: number; totalBytes: number }[] = []
    await backupStore(path, join(directory, 'backup'), { onProgress: (step) => copied.push(step) })
    expect(copied.at(-1)).toEqual({ copiedBytes: end, totalBytes: end })
    expect(await readFile(join(directory, 'backup/segments/00000001.seg'))).toEqual(whole.subarray(0, end))
    // A commit that is being written is a note, wherever its writing stopped.
    const last = whole.lastIndexOf('FKF2')
    for (const at of [last + 1, last + 50, end - 1]) {
      const torn = Buffer.from(whole)
      torn.fill(0, at)
      await writeFile(segment, torn)
      expect(fileNotes(await checkStore(path))).toEqual([
        `segments/00000001.seg: byte ${last}: the file ends with an incomplete commit, which was never acknowledged`,
      ])
      await backupStore(path, join(directory, `backup-${at}`))
      expect(await valuesIn(join(directory, `backup-${at}`), 5)).toEqual([...expected(4), undefined])
    }
    // The manifest shows that the commit was there.
    await writeFile(segment, whole)
    const synced = await openSmall(path)
    await synced.close()
    await writeFile(segment, Buffer.concat([whole.subarray(0, last), Buffer.alloc(5000)]))
    expect((await checkStore(path)).findings).toContainEqual(
      expect.objectContaining({ object: 'file segments/00000001.seg' }),
    )
  })

  /** What a check says about segments. */
  const fileNotes = ({ findings, notes }: StoreCheck): string[] =>
    [...findings.map(({ object, message }) => `${object}: ${message}`), ...notes].filter((text) =>
      text.includes('.seg'),
    )
})

test('a reader of files finds no damage where a store writes into its space meanwhile', async () => {
  const path = join(directory, 'segment')
  await writeFile(path, Buffer.concat([Buffer.from('commit 1'), Buffer.alloc(5000)]))
  const file = await nodeDisk.open(path, 'write')
  const opened = await FileAsOpened.of(file)
  expect([await opened.size(), opened.dataEnd]).toEqual([5008, 8])
  for (const change of [() => file.write(8, [Buffer.from('commit 2')]), () => file.truncate(16)]) {
    await change()
    expect(Buffer.from(await opened.read(0, 9000))).toEqual(
      Buffer.concat([Buffer.from('commit 1'), Buffer.alloc(5000)]),
    )
    expect(Buffer.from(await opened.read(2, 4))).toEqual(Buffer.from('mmit'))
    expect(Buffer.from(await opened.read(10, 4))).toEqual(Buffer.alloc(4))
  }
  await file.truncate(4)
  expect(Buffer.from(await opened.read(0, 9000))).toEqual(Buffer.from('comm'))
  await file.close()
})

test('a sync blocks the event loop only if one writer waits and the disk is fast', async () => {
  const put = (n: number): StoreCommit => ({ put: [[`k${n}`, 'x']] })
  const disk = new FaultyDisk()
  const store = await openSmall(data, { durability: 'full', disk, segmentBytes: 2 ** 20 })
  const clock = vi.spyOn(performance, 'now')
  const syncs = async (commit: () => Promise<unknown>): Promise<string[]> => {
    const before = disk.segmentSyncs.length
    await commit()
    return disk.segmentSyncs.slice(before)
  }
  try {
    clock.mockReturnValue(1000)
    await store.commit(put(0))
    expect(await syncs(() => store.commit(put(1)))).toEqual(['here'])
    expect(await syncs(() => Promise.all([store.commit(put(2)), store.commit(put(3))]))).toEqual([
      'elsewhere',
    ])
    // The commit before was not alone.
    expect(await syncs(() => store.commit(put(4)))).toEqual(['elsewhere'])
    expect(await syncs(() => store.commit(put(5)))).toEqual(['here'])
    const large = { put: [['large', 'x'.repeat(levelLimits.blockingSyncBytes)]] } as const
    expect(await syncs(() => store.commit(large))).toEqual(['elsewhere'])
    let now = 2000
    clock.mockImplementation(() => (now += levelLimits.blockingSyncMs + 1))
    expect(await syncs(() => store.commit(put(6)))).toEqual(['here'])
    expect(await syncs(() => store.commit(put(7)))).toEqual(['elsewhere'])
  } finally {
    clock.mockRestore()
    await store.close()
  }
})

describe('the index', () => {
  test('is found again, however few entries it has', async () => {
    for (const count of [1, 30, 100]) {
      data = join(directory, String(count))
      let store = await openSmall(data)
      for (let n = 1; n <= count; n++) await store.commit({ put: [[`k${n}`, 'x']] })
      await store.close()
      // Segments that the index does not need are not read, so damage to them goes unnoticed until a check.
      const segment = join(data, 'segments/00000001.seg')
      const bytes = await readFile(segment)
      bytes[bytes.indexOf('k1x', 0, 'latin1')]! ^= 1
      await writeFile(segment, bytes)
      store = await openSmall(data)
      expect(await store.get('k1').catch(reasonOf)).toBe('DATA_LOSS')
      await store.close()
    }
  })
})

test('writes an index only after its commits are synced', async () => {
  const disk = new FaultyDisk()
  const store = await openSmall(data, { disk, segmentBytes: 2 ** 20 })
  const opened = disk.log.length
  for (let n = 0; n < 100; n++) await store.commit({ put: [[`k${n}`, 'x']] })
  await store.close()
  const log = disk.log.slice(opened)
  const written = log.findIndex((what) => what.startsWith(`write ${join(data, 'index')}`))
  const synced = log.indexOf(`sync ${join(data, 'segments/00000001.seg')}`)
  expect([written > 0, synced > 0, synced < written]).toEqual([true, true, true])
})

describe('an index of another history', () => {
  const open = (path: string): ReturnType<typeof openSmall> => openSmall(path)
  const putAll = async (path: string, ...keys: readonly string[]): Promise<void> => {
    const store = await open(path)
    // Each commit gets its own segment.
    for (const key of keys) await store.commit({ put: [[key, key.repeat(20_000)]] })
    await store.close()
  }
  const useIndexOf = async (other: string): Promise<void> => {
    await rm(join(data, 'index'), { recursive: true })
    await cp(join(other, 'index'), join(data, 'index'), { recursive: true })
  }
  const valuesIn = async (path: string, ...keys: readonly string[]): Promise<(string | undefined)[]> => {
    const store = await open(path)
    try {
      return keys.map((key) => store.getSync(key)?.slice(0, 1))
    } finally {
      await store.close()
    }
  }

  test('is not used: the index of another store whose segments end at the same offsets', async () => {
    const other = join(directory, 'other')
    await putAll(data, 'a', 'b')
    await putAll(other, 'c', 'd')
    await useIndexOf(other)
    expect(await valuesIn(data, 'a', 'b', 'c', 'd')).toEqual(['a', 'b', undefined, undefined])
  })

  test('is not used: the index of a copy with another commit where this store has lost a segment', async () => {
    const other = join(directory, 'other')
    await (await open(data)).close()
    await cp(data, other, { recursive: true })
    await putAll(other, 'c')
    const store = await open(data)
    for (const put of ['b', 'b', 'd', 'e'] as const) await store.commit({ put: [[put, put.repeat(20_000)]] })
    await store.reclaim()
    await store.close()
    expect(await readdir(join(data, 'segments'))).not.toContain('00000001.seg')
    await useIndexOf(other)
    expect(await valuesIn(data, 'b', 'c', 'd', 'e')).toEqual(['b', undefined, 'd', 'e'])
  })
})

describe('a segment of another history', () => {
  const putAll = async (path: string, ...keys: readonly string[]): Promise<void> => {
    const store = await openSmall(path)
    for (const key of keys) await store.commit({ put: [['key', key.repeat(20_000)]] })
    await store.close()
  }

  test('fails with DATA_LOSS and is kept: the newest segment of another store', async () => {
    const other = join(directory, 'other')
    await putAll(data, 'a')
    await putAll(other, 'b')
    const [path, foreign] = [data, other].map((at) => join(at, 'segments/00000001.seg')) as [string, string]
    await cp(foreign, path)
    expect(await openSmall(data).catch(detailsOf)).toMatchObject({ details: { offset: '8' } })
    expect(await readFile(path)).toEqual(await readFile(foreign))
  })

  test('fails with DATA_LOSS: a segment of a copy with other commits before it', async () => {
    const other = join(directory, 'other')
    await (await openSmall(data)).close()
    await cp(data, other, { recursive: true })
    await putAll(data, 'a', 'b', 'c')
    await putAll(other, 'x', 'y', 'z')
    const name = 'segments/00000002.seg'
    await cp(join(other, name), join(data, name))
    expect(await openSmall(data).catch(detailsOf)).toMatchObject({
      reason: 'DATA_LOSS',
      details: { file: name },
    })
  })

  test('fails with DATA_LOSS: a segment of a copy with other commits of the same length', async () => {
    const other = join(directory, 'other')
    await (await openSmall(data)).close()
    await cp(data, other, { recursive: true })
    await putAll(data, 'a', 'b')
    await putAll(other, 'x', 'y')
    const name = 'segments/00000001.seg'
    await cp(join(other, name), join(data, name))
    await rm(join(data, 'index'), { recursive: true })
    expect(await openSmall(data).catch(detailsOf)).toMatchObject({
      reason: 'DATA_LOSS',
      details: { file: name },
    })
  })
})

test('a range of a large blob is read and verified at any offset', async () => {
  const store = await openSmall(data)
  const { hash, bytes } = blobOf(1, 400_000)
  await store.commit({ blobs: [{ hash, bytes }] })
  for (const offset of [0, 70_000, 200_000, 399_990, 65_530]) {
    const part = await store.blob(hash, { offset, length: 10 })
    expect(Buffer.from(part!)).toEqual(Buffer.from(bytes.subarray(offset, offset + 10)))
  }
  await store.close()
})

test('a commit that is longer than a window of the scan is found when the index must be rebuilt', async () => {
  const store = await openSmall(data)
  const value = 'x'.repeat(2 * levelLimits.scannedBytes)
  await store.commit({ put: [['a', value]] })
  await store.commit({ put: [['b', 'small']] })
  await store.close()
  await rm(join(data, 'index'), { recursive: true })
  const again = await openSmall(data)
  expect(await again.get('a')).toBe(value)
  expect(await again.get('b')).toBe('small')
  await again.close()
})

test('acknowledged commits are written again and synced after their sync failed', async () => {
  const disk = new FaultyDisk()
  const store = await openSmall(data, { durability: 'relaxed', disk })
  await store.commit({ put: [['a', 'value']] })
  // A commit that does not fit begins a new segment, and before it the first one is synced.
  disk.failAt = disk.operations + 1
  expect(await store.commit({ put: [['b', 'b'.repeat(20_000)]] }).catch(reasonOf)).toBe('STORE_FAILED')
  expect(disk.log.at(-1)).toBe(`sync ${data}/segments/00000001.seg`)
  const before = disk.log.length
  await store.recover()
  const log = disk.log.slice(before)
  const written = log.indexOf(`write ${data}/segments/00000001.seg`)
  const synced = log.indexOf(`sync ${data}/segments/00000001.seg`, written)
  expect([written >= 0, synced > written]).toEqual([true, true])
  expect(await store.get('a')).toBe('value')
  await store.close()
})

test('a commit that is appended during a sync is synced by the next one', async () => {
  await (await openSmall(data)).close()
  const { storeId } = await readManifest(nodeDisk, data)
  const segments = await Segments.open(nodeDisk, data, storeId)
  const replayed = await replay(segments, firstPlace(segments), () => undefined)
  const log = new CommitLog(segments, replayed, {
    sync: false,
    checkPlace: () => undefined,
    segmentBytes: 2 ** 20,
  })
  const append = (key: string): Promise<unknown> => log.append([encodeCommit({ put: [[key, 'value']] })])
  await append('a')
  const synced = vi.spyOn(segments.head.file, 'sync').mockImplementationOnce(async () => {
    await append('b')
  })
  await log.sync(log.place)
  await log.sync(log.place)
  expect(synced).toHaveBeenCalledTimes(2)
  await segments.close()
})

test('repeated failures leave no more segments than one failure', async () => {
  const disk = new FaultyDisk()
  const store = await openSmall(data, { disk })
  await store.commit({ put: [['a', 'value']] })
  for (let failure = 0; failure < 3; failure++) {
    disk.failAt = disk.operations + 1
    expect(await store.commit({ put: [['b', 'value']] }).catch(reasonOf)).toBe('STORE_FAILED')
    await store.recover()
    const names = await readdir(join(data, 'segments'))
    expect(names.filter((name) => name.endsWith('.seg'))).toHaveLength(2)
  }
  await store.close()
})

test('a damaged commit before the newest segment is DATA_LOSS when the index must be rebuilt', async () => {
  const store = await openSmall(data)
  for (const key of ['a', 'b', 'c']) await store.commit({ put: [[key, key.repeat(20_000)]] })
  await store.close()
  await rm(join(data, 'index'), { recursive: true })
  for (const at of [segmentHeaderBytes + 8, segmentHeaderBytes + 1000]) {
    const path = join(data, 'segments/00000002.seg')
    const bytes = await readFile(path)
    bytes[at]! ^= 1
    await writeFile(path, bytes)
    expect(await openSmall(data).catch(detailsOf)).toMatchObject({
      reason: 'DATA_LOSS',
      details: { file: 'segments/00000002.seg', offset: String(segmentHeaderBytes) },
    })
    bytes[at]! ^= 1
    await writeFile(path, bytes)
  }
})

test('bytes after the end of a sealed segment, whose cut did not reach the disk, are ignored', async () => {
  const store = await openSmall(data)
  for (const key of ['a', 'b', 'c']) await store.commit({ put: [[key, key.repeat(20_000)]] })
  await store.close()
  const path = join(data, 'segments/00000001.seg')
  const before = await readFile(path)
  for (const more of [Buffer.alloc(9), before.subarray(segmentHeaderBytes)]) {
    await writeFile(path, Buffer.concat([before, more]))
    await rm(join(data, 'index'), { recursive: true })
    const opened = await openSmall(data)
    for (const key of ['a', 'b', 'c']) expect(await opened.get(key)).toBe(key.repeat(20_000))
    await opened.close()
  }
})

describe('the manifest', () => {
  test('fails with DATA_LOSS if any of its numbers was changed, or its end is missing', async () => {
    const store = await openSmall(data)
    for (const key of ['a', 'b']) await store.commit({ put: [[key, key.repeat(20_000)]] })
    await store.close()
    const path = join(data, 'segments/manifest')
    const text = await readFile(path, 'utf8')
    const digits = Array.from(text.matchAll(/\d/g), ({ index }) => index)
    const changed = digits.map(
      (at) => `${text.slice(0, at)}${(Number(text[at]) + 1) % 10}${text.slice(at + 1)}`,
    )
    const lines = text.split('\n')
    for (const damaged of [...changed, `${lines[0]}\n`, lines[0]!, '', text.slice(0, -1), `${text}\n`]) {
      await writeFile(path, damaged)
      expect(await openSmall(data).catch(reasonOf)).toBe('DATA_LOSS')
    }
    await writeFile(path, text)
    await (await openSmall(data)).close()
  })

  test('fails with DATA_LOSS if it is outdated, and later segments are kept', async () => {
    const store = await openSmall(data)
    await store.commit({ put: [['a', 'a'.repeat(20_000)]] })
    const old = await readFile(join(data, 'segments/manifest'))
    for (const key of ['b', 'c']) await store.commit({ put: [[key, key.repeat(20_000)]] })
    await store.close()
    const names = await readdir(join(data, 'segments'))
    const manifest = await readFile(join(data, 'segments/manifest'))
    await writeFile(join(data, 'segments/manifest'), old)
    expect(await openSmall(data).catch(reasonOf)).toBe('DATA_LOSS')
    expect(await readdir(join(data, 'segments'))).toEqual(names)
    await writeFile(join(data, 'segments/manifest'), manifest)
    await (await openSmall(data)).close()
  })

  test('names a segment only after the previous one is completely synced', async () => {
    const disk = new FaultyDisk()
    const large = { flushEntries: 10_000, flushBytes: 2 ** 24 }
    const store = await openSmall(data, { durability: 'relaxed', disk, ...large })
    const before = disk.log.length
    for (const key of ['a', 'b']) await store.commit({ put: [[key, key.repeat(20_000)]] })
    const log = disk.log.slice(before).map((what) => what.replace(data, ''))
    const first = 'segments/00000001.seg'
    const written = log.findLastIndex((what) => what === `write /${first}`)
    const synced = log.indexOf(`sync /${first}`, written)
    const named = log.indexOf('rename /segments/manifest')
    expect([written >= 0, synced > written, named > synced]).toEqual([true, true, true])
    await store.close()
  })

  test('has one segment after a first commit larger than a segment', async () => {
    const store = await openSmall(data)
    await store.commit({ put: [['a', 'a'.repeat(40_000)]] })
    expect((await readdir(join(data, 'segments'))).toSorted()).toEqual(['00000001.seg', 'manifest'])
    await store.close()
  })

  test('has all of several changes that are made at once', async () => {
    const store = await openSmall(data)
    for (const key of ['a', 'b', 'c']) await store.commit({ put: [[key, key.repeat(20_000)]] })
    await store.close()
    const { storeId } = await readManifest(nodeDisk, data)
    const segments = await Segments.open(nodeDisk, data, storeId)
    expect(segments.numbers).toEqual([1, 2, 3])
    await Promise.all([segments.remove(1), segments.remove(2)])
    await segments.close()
    expect(await readManifest(nodeDisk, data)).toMatchObject({ sealed: [], head: 3 })
  })

  test('is intact after a longer one was left unfinished', async () => {
    const store = await openSmall(data)
    await store.commit({ put: [['k', 'v']] })
    await writeFile(join(data, 'segments/manifest.new'), 'x'.repeat(5000))
    // Closing writes it once: a second write would repair the damage of the first.
    await store.close()
    const again = await openSmall(data)
    expect(await again.get('k')).toBe('v')
    await again.close()
  })
})

test('syncs every file before its rename, and the rename before anything depends on it', async () => {
  const disk = new FaultyDisk()
  let store = await openSmall(data, { disk })
  for (let n = 0; n < 100; n++)
    await store.commit({ put: [[`k${n % 30}`, String(n)]], blobs: [blobOf(n, 500)] })
  for (let n = 0; n < 100; n++) await store.commit({ deleteBlobs: [blobOf(n, 500).hash] })
  await store.reclaim()
  await store.close()
  const before = disk.log.length
  store = await openSmall(data, { disk })
  // A process that died may have renamed files without syncing the directory.
  const directories = [data, join(data, 'segments')].map((path) => `syncDirectory ${path}`)
  expect(disk.log.slice(before)).toEqual(expect.arrayContaining(directories))
  await store.close()
  const log = disk.log.map((what) => what.split(' ') as [step: string, path: string])
  const named: string[] = []
  const wrong: string[] = []
  for (const [at, [step, path]] of log.entries()) {
    // A segment gets its name at creation; it is in use once the manifest names it.
    const isSegment = step === 'create' && path.endsWith('.seg')
    if (step !== 'rename' && !isSegment) continue
    named.push(path)
    const next = log.findIndex((other, index) => index > at && other[0] === 'rename')
    const steps = isSegment ? log.slice(at, next) : log.slice(0, at)
    const last = steps.findLast((other) => other[1] === (isSegment ? path : `${path}.new`))
    if (last?.[0] !== 'sync') wrong.push(`${path} is not synced`)
    const behind = isSegment ? steps : log.slice(at + 1, at + 2)
    const isSynced = behind.some((other) => other[0] === 'syncDirectory' && other[1] === dirname(path))
    if (!isSynced) wrong.push(`the directory of ${path} is not synced`)
  }
  expect(wrong).toEqual([])
  const parts = ['/forkspace.json', '/segments/manifest', '/index/pages', '/segments/00000002.seg']
  expect(named).toEqual(expect.arrayContaining(parts.map((part) => `${data}${part}`)))
})

describe('reclaiming', () => {
  test('frees space, keeps all data, and removes nothing that a rebuilt index would bring back', async () => {
    const plain = new PlainStore()
    let store = await openSmall(data)
    const commit = async (one: StoreCommit): Promise<void> => {
      plain.apply(one)
      expect(await store.commit(one)).toBe(true)
    }
    for (let n = 0; n < 200; n++) {
      await commit({
        events: [{ sessionId: sessions[n % 2]!, seq: Math.floor(n / 2) + 1, body: [n] }],
        put: [[`k${n}`, 'x'.repeat(200)]],
        blobs: [blobOf(n, 500)],
      })
    }
    const before = await store.size()
    for (let n = 0; n < 200; n++) {
      if (n % 10 !== 0) await commit({ del: [`k${n}`], deleteBlobs: [blobOf(n, 500).hash] })
    }
    await commit({ deleteEvents: [sessions[1]!] })
    const segmentsBefore = (await readdir(join(data, 'segments'))).length
    // Reads and writes continue meanwhile.
    const [, found] = await Promise.all([
      store.reclaim(),
      readContents(store, sessions, [...plain.blobs.keys()]),
      commit({ put: [['during', 'reclaiming']] }),
    ])
    expect(found.blobs).toEqual(plain.contents(sessions).blobs)
    expect((await readdir(join(data, 'segments'))).length).toBeLessThan(segmentsBefore / 2)
    expect(await store.size()).toBeLessThan(before)
    const all = [
      ...new Set([...plain.blobs.keys(), ...Array.from({ length: 200 }, (_, n) => blobOf(n, 500).hash)]),
    ]
    expect(await readContents(store, sessions, all)).toEqual(plain.contents(sessions))
    for (let times = 0; times < 3; times++) {
      await store.close()
      await rm(join(data, 'index'), { recursive: true })
      store = await openSmall(data)
      expect(await readContents(store, sessions, all)).toEqual(plain.contents(sessions))
      await store.reclaim()
    }
    await store.close()
  })

  test('stops on an abort or when the store closes, and can run again later', async () => {
    const store = await openSmall(data)
    for (let n = 0; n < 300; n++) await store.commit({ put: [[`k${n % 10}`, 'x'.repeat(300)]] })
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    expect(await store.reclaim({ signal }).catch((error: unknown) => error)).toBe(reason)
    const reclaiming = store.reclaim().catch(reasonOf)
    await store.close()
    expect([undefined, 'STORE_CLOSED']).toContain(await reclaiming)
    expect(await store.reclaim().catch(reasonOf)).toBe('STORE_CLOSED')
    const again = await openSmall(data)
    await again.reclaim()
    expect((await again.scan({ gte: 'k', lt: 'l', limit: 99 })).length).toBe(10)
    await again.close()
  })
})

function detailsOf(error: unknown): unknown {
  const { reason, details } = error as { reason: string; details: unknown }
  return { reason, details }
}
