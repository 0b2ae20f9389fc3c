/** The replay of segments, and the replacement of files, over a disk in memory. */
import { Buffer } from 'node:buffer'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'
import { readManifest, replaceFile, writeManifest } from '../../src/adapters/level/directory/manifest.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { laterFrameNeeds } from '../../src/adapters/level/log/frame-scanner.js'
import { FrameBuilder } from '../../src/adapters/level/log/frame.js'
import { firstPlace, replay, writeAgain, type Replayed } from '../../src/adapters/level/log/recovery.js'
import { SegmentFile, segmentName } from '../../src/adapters/level/log/segment-file.js'
import {
  encodeSegmentHeader,
  entryKind,
  frameHeaderBytes,
  segmentHeaderBytes,
} from '../../src/adapters/level/log/segment-format.js'
import { createSegment, type Segments } from '../../src/adapters/level/log/segments.js'
import { lowerBound } from '../support/lower-bound.js'

const seed = 5

/** A file in memory, which notes its changes in `steps`. */
class MemoryFile implements DiskFile {
  bytes: Buffer
  readonly steps: string[]
  readonly #name: string

  constructor(bytes: Buffer, steps: string[] = [], name = '') {
    this.bytes = Buffer.from(bytes)
    this.steps = steps
    this.#name = name
  }

  size = async (): Promise<number> => this.bytes.length
  readSync = (at: number, length: number): Buffer => Buffer.from(this.bytes.subarray(at, at + length))
  read = async (at: number, length: number): Promise<Buffer> => this.readSync(at, length)
  async write(at: number, pieces: readonly Uint8Array[]): Promise<void> {
    const added = Buffer.concat(pieces)
    const rest = this.bytes.subarray(at + added.length)
    this.bytes = Buffer.concat([this.bytes.subarray(0, at), added, rest])
    this.#note(`write ${at} ${added.length}`)
  }
  async truncate(size: number): Promise<void> {
    this.bytes = this.bytes.subarray(0, size)
    this.#note(`truncate ${size}`)
  }
  sync = async (): Promise<void> => this.#note('sync')
  close = async (): Promise<void> => this.#note('close')

  #note(step: string): void {
    this.steps.push(this.#name === '' ? step : `${step} of ${this.#name}`)
  }
}

interface Frames {
  readonly bytes: Buffer[]
  /** The checksum of each frame. */
  readonly chains: number[]
}

/** Frames of commits from 1 on, each with the commit that it notes as synced. */
function framesOf(syncedTos: readonly number[]): Frames {
  const chains: number[] = []
  const bytes = syncedTos.map((syncedTo, at) => {
    const frame = new FrameBuilder()
    frame.text(entryKind.put, `k${at + 1}`, 'value')
    const sealed = frame.seal({ commit: at + 1, syncedTo, chain: chains.at(-1) ?? 0 }, seed)
    chains.push(sealed.checksum)
    return Buffer.from(sealed.bytes)
  })
  return { bytes, chains }
}

const frames = framesOf([0, 0, 1, 2])
const header = Buffer.alloc(segmentHeaderBytes)
/** The offset at which a frame begins, in a segment that begins with the frame `first`. */
const offsetOf = (at: number, first = 0): number =>
  segmentHeaderBytes + frames.bytes.slice(first, at).reduce((sum, { length }) => sum + length, 0)

/** Segments of which the first have these numbers of frames, and the last has the rest, perhaps changed. */
function segmentsOf(
  { sealed = [], syncedTo = 0 }: { readonly sealed?: readonly number[]; readonly syncedTo?: number },
  change: (files: readonly MemoryFile[]) => void = () => undefined,
): { readonly segments: Segments; readonly files: readonly MemoryFile[] } {
  const firsts = sealed.reduce<number[]>((all, count) => [...all, all.at(-1)! + count], [0])
  const files = firsts.map((first, at) => {
    const last = firsts[at + 1] ?? frames.bytes.length
    return new MemoryFile(Buffer.concat([header, ...frames.bytes.slice(first, last)]))
  })
  change(files)
  const open = files.map((file, at) => new SegmentFile(at + 1, file, file.bytes.length))
  const chainBefore = (first: number): number => frames.chains[first - 1] ?? 0
  const segments = {
    seed,
    numbers: open.map(({ segment }) => segment),
    header: (segment: number) => {
      const first = firsts[segment - 1]!
      return { firstCommit: first + 1, chain: chainBefore(first) }
    },
    file: (segment: number) => open[segment - 1]!,
    manifest: {
      storeId: 'id',
      syncedTo,
      head: open.length,
      sealed: sealed.map((_, at) => ({
        segment: at + 1,
        bytes: files[at]!.bytes.length,
        commit: firsts[at + 1]!,
        chain: chainBefore(firsts[at + 1]!),
      })),
    },
  }
  return { segments: segments as unknown as Segments, files }
}

async function replayed(segments: Segments): Promise<Replayed & { readonly applied: string[] }> {
  const applied: string[] = []
  const result = await replay(segments, firstPlace(segments), (segment, frame) => {
    applied.push(`${segment} ${frame.header.commit} ${frame.offset} ${frame.entries[0]!.key}`)
  })
  return { ...result, applied }
}

const damage =
  (frame: number, at = frameHeaderBytes + 2) =>
  (files: readonly MemoryFile[]): void => {
    files[0]!.bytes[offsetOf(frame) + at]! ^= 1
  }

describe('a replay', () => {
  test('passes every frame, and finds the newest one that is known to be synced', async () => {
    const { segments, files } = segmentsOf({})
    expect(await replayed(segments)).toEqual({
      applied: [0, 1, 2, 3].map((at) => `1 ${at + 1} ${offsetOf(at)} rk${at + 1}`),
      place: { segment: 1, offset: offsetOf(4), commit: 4, chain: frames.chains[3] },
      syncedTo: 2,
      syncedEnd: offsetOf(2),
    })
    expect(files[0]!.steps).toEqual([])
    expect(await replayed(segmentsOf({ syncedTo: 3 }).segments)).toMatchObject({
      syncedTo: 3,
      syncedEnd: offsetOf(3),
    })
    expect(await replayed(segmentsOf({ syncedTo: 4 }).segments)).toMatchObject({
      syncedTo: 4,
      syncedEnd: offsetOf(4),
    })
  })

  test('continues over sealed segments, from any place', async () => {
    const { segments } = segmentsOf({ sealed: [1, 2], syncedTo: 3 })
    expect((await replayed(segments)).applied.map((one) => one.slice(0, 3))).toEqual([
      '1 1',
      '2 2',
      '2 3',
      '3 4',
    ])
    for (const commit of [1, 2, 3, 4]) {
      const segment = [1, 2, 2, 3][commit - 1]!
      const offset = offsetOf(commit, [0, 1, 1, 3][commit - 1])
      const place = { segment, offset, commit, chain: frames.chains[commit - 1]! }
      const applied: number[] = []
      await replay(segments, place, (_, frame) => void applied.push(frame.header.commit))
      expect(applied).toEqual([1, 2, 3, 4].slice(commit))
    }
  })

  test.each([
    // Nothing shows that the damaged commit was on the disk.
    [3, 0, 'cut'],
    [3, 3, 'cut'],
    [2, 0, 'cut'],
    [2, 2, 'cut'],
    // The manifest, or a later frame, shows that it was.
    [3, 4, 'lost'],
    [2, 3, 'lost'],
    [1, 0, 'lost'],
    [0, 0, 'lost'],
  ] as const)('after damage of frame %d with %d commits on the disk: %s', async (frame, syncedTo, result) => {
    for (const at of [frameHeaderBytes + 2, 4]) {
      const { segments, files } = segmentsOf({ syncedTo }, damage(frame, at))
      const outcome = await replayed(segments).catch((error: unknown) => error)
      const isCut = result === 'cut'
      const known = Math.max(syncedTo, [0, 0, 0, 1][frame]!)
      expect(outcome).toMatchObject(
        isCut
          ? {
              place: { offset: offsetOf(frame), commit: frame, chain: frames.chains[frame - 1] },
              syncedTo: known,
              syncedEnd: offsetOf(known),
            }
          : { reason: 'DATA_LOSS', details: { commit: `${frame + 1}` } },
      )
      expect(files[0]!.steps).toEqual(isCut ? [`truncate ${offsetOf(frame)}`, 'sync'] : [])
      expect(segments.file(1).end).toBe(offsetOf(isCut ? frame : 4))
    }
  })

  test.each([
    { commit: 3, chain: 1 },
    { commit: 4, chain: frames.chains[1]! },
  ])('ends before an intact frame that does not follow: %j', async (other) => {
    const frame = new FrameBuilder()
    frame.text(entryKind.put, 'k', 'of another write')
    const sealed = Buffer.from(frame.seal({ ...other, syncedTo: 0 }, seed).bytes)
    const { segments, files } = segmentsOf({}, ([file]) => {
      file!.bytes = Buffer.concat([file!.bytes.subarray(0, offsetOf(2)), sealed])
    })
    expect((await replayed(segments)).place).toMatchObject({ commit: 2, chain: frames.chains[1] })
    expect(files[0]!.steps).toEqual([`truncate ${offsetOf(2)}`, 'sync'])
  })

  test('fails if the head ends before a commit that was on the disk', async () => {
    const shorter = ([file]: readonly MemoryFile[]): void => {
      file!.bytes = file!.bytes.subarray(0, offsetOf(3))
    }
    await expect(replayed(segmentsOf({ syncedTo: 4 }, shorter).segments)).rejects.toMatchObject({
      reason: 'DATA_LOSS',
    })
    expect(await replayed(segmentsOf({ syncedTo: 3 }, shorter).segments)).toMatchObject({
      place: { commit: 3 },
    })
  })

  test('fails if a sealed segment is damaged, too long or not the one of the manifest', async () => {
    const changes: readonly ((files: readonly MemoryFile[]) => void)[] = [
      damage(0),
      damage(1),
      ([file]) => (file!.bytes = Buffer.concat([file!.bytes, Buffer.from([0])])),
      ([file]) => (file!.bytes = file!.bytes.subarray(0, offsetOf(1))),
    ]
    for (const change of changes)
      await expect(replayed(segmentsOf({ sealed: [2] }, change).segments)).rejects.toMatchObject({
        reason: 'DATA_LOSS',
      })
    for (const wrong of [{ commit: 3 }, { chain: 1 }]) {
      const { segments } = segmentsOf({ sealed: [2] })
      Object.assign(segments.manifest.sealed[0]!, wrong)
      await expect(replayed(segments)).rejects.toMatchObject({ reason: 'DATA_LOSS' })
    }
  })
})

test('a later frame is found wherever windows split it', async () => {
  lowerBound(levelLimits, 'scannedBytes', 100)
  const [last] = frames.bytes.slice(-1)
  for (let before = 0; before < 230; before++) {
    const bytes = Buffer.concat([Buffer.alloc(before, 7), last!, Buffer.alloc(before % 3)])
    const file = new SegmentFile(1, new MemoryFile(bytes), bytes.length)
    const needs = (commit: number, to = bytes.length): Promise<boolean> =>
      laterFrameNeeds(file, { from: 0, to }, commit, seed)
    expect(await Promise.all([needs(1), needs(2), needs(3)]), `${before}`).toEqual([true, true, false])
    expect(await needs(1, before + frameHeaderBytes - 1)).toBe(false)
  }
})

test.each([1, frameHeaderBytes - 4, frameHeaderBytes])(
  'a later frame is found %d bytes after other bytes that look like its start',
  async (between) => {
    const [last] = frames.bytes.slice(-1)
    const bytes = Buffer.concat([Buffer.from('FKF2FKF2'), Buffer.alloc(between), last!])
    const file = new SegmentFile(1, new MemoryFile(bytes), bytes.length)
    expect(await laterFrameNeeds(file, { from: 0, to: bytes.length }, 2, seed)).toBe(true)
  },
)

test('unsynced bytes are written again in parts, and synced once', async () => {
  lowerBound(levelLimits, 'copiedBytes', 10)
  const bytes = Buffer.from(Array.from({ length: 64 }, (_, at) => at))
  const file = new MemoryFile(bytes)
  await writeAgain(new SegmentFile(1, file, 64), 20, 45)
  expect(file.steps).toEqual(['write 20 10', 'write 30 10', 'write 40 5', 'sync'])
  expect(file.bytes).toEqual(bytes)
})

/** A disk in memory that notes its changes in `steps`. */
function memoryDisk(files: Map<string, Buffer>, steps: string[]): Disk {
  const missing = (code: string): Error => Object.assign(new Error(code), { code })
  const disk: Partial<Disk> = {
    open: async (path, mode) => {
      const bytes = files.get(path)
      if (mode === 'create' && bytes !== undefined) throw missing('EEXIST')
      if (mode !== 'create' && bytes === undefined) throw missing('ENOENT')
      const file = new MemoryFile(bytes ?? Buffer.alloc(0), steps, path)
      const close = file.close
      file.close = async () => {
        files.set(path, file.bytes)
        if (mode !== 'read') await close()
      }
      return file
    },
    rename: async (from, to) => {
      files.set(to, files.get(from)!)
      files.delete(from)
      steps.push(`rename ${from} ${to}`)
    },
    syncDirectory: async (directory) => void steps.push(`sync of ${directory}`),
  }
  return disk as Disk
}

describe('a file that is replaced', () => {
  test.each([undefined, '', 'a longer rest of an interrupted replacement'])(
    'is synced before its rename, and its directory afterwards; there is %j',
    async (rest) => {
      const files = new Map([['/d/f', Buffer.from('old')]])
      if (rest !== undefined) files.set('/d/f.new', Buffer.from(rest))
      const steps: string[] = []
      await replaceFile(memoryDisk(files, steps), '/d', 'f', 'new text')
      expect(Object.fromEntries([...files].map(([path, bytes]) => [path, bytes.toString()]))).toEqual({
        '/d/f': 'new text',
      })
      expect(steps).toEqual([
        'write 0 8 of /d/f.new',
        'truncate 8 of /d/f.new',
        'sync of /d/f.new',
        'close of /d/f.new',
        'rename /d/f.new /d/f',
        'sync of /d',
      ])
    },
  )

  test('is a new segment without the frames of an attempt that failed before, synced with its directory', async () => {
    const header = { storeId: 'id', segment: 2, firstCommit: 5, chain: 7 }
    const path = join('/d', 'segments', segmentName(2))
    const files = new Map([[path, Buffer.alloc(segmentHeaderBytes + 100, 7)]])
    const steps: string[] = []
    await createSegment(memoryDisk(files, steps), '/d', header)
    expect(files.get(path)).toEqual(encodeSegmentHeader(header))
    expect(steps).toEqual([
      `write 0 ${segmentHeaderBytes} of ${path}`,
      `truncate ${segmentHeaderBytes} of ${path}`,
      `sync of ${path}`,
      `close of ${path}`,
      `sync of ${join('/d', 'segments')}`,
    ])
  })

  test('stays the old one, and the new one is closed, if a write fails', async () => {
    const files = new Map([['/d/f', Buffer.from('old')]])
    const steps: string[] = []
    const disk = memoryDisk(files, steps)
    const failing: Disk = {
      ...disk,
      open: async (path, mode) => {
        const file = await disk.open(path, mode)
        return Object.assign(file, { sync: () => Promise.reject(new Error('full')) })
      },
    }
    await expect(replaceFile(failing, '/d', 'f', 'new')).rejects.toThrow('full')
    expect(steps.at(-1)).toBe('close of /d/f.new')
    expect(files.get('/d/f')?.toString()).toBe('old')
  })

  test('is a manifest that is read again, and damage of any byte is found', async () => {
    const files = new Map<string, Buffer>()
    const disk = memoryDisk(files, [])
    const sealed = [{ segment: 1, bytes: 2, commit: 3, chain: 4 }]
    const manifest = { storeId: 'id', sealed, head: 2, syncedTo: 3 }
    await writeManifest(disk, '/d', manifest)
    expect(await readManifest(disk, '/d')).toEqual(manifest)
    const [[path, bytes]] = [...files] as [[string, Buffer]]
    for (let at = 0; at < bytes.length; at++) {
      const damaged = Buffer.from(bytes)
      damaged[at]! ^= 1
      for (const wrong of [
        damaged,
        bytes.subarray(0, at),
        Buffer.concat([bytes, bytes.subarray(0, at + 1)]),
      ]) {
        files.set(path, wrong)
        await expect(readManifest(disk, '/d'), `${at}`).rejects.toMatchObject({ reason: 'DATA_LOSS' })
      }
    }
  })
})
