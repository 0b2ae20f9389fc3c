/** Recovers the intact parts of a damaged segment. */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { DiskFile } from '../../src/adapters/level/directory/disk.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { FrameBuilder } from '../../src/adapters/level/log/frame.js'
import { SegmentFile } from '../../src/adapters/level/log/segment-file.js'
import { entryKind, frameHeaderBytes } from '../../src/adapters/level/log/segment-format.js'
import { salvageFrames } from '../../src/adapters/level/tools/frame-salvage.js'
import { blobOf } from '../support/level-world.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

const seed = 5
const from = 64
const windowBytes = 2 ** 20
const before = { commit: 0, chain: 0 }

/** The bytes of consecutive frames, one for each text or content. */
function framesOf(...values: readonly (string | Uint8Array)[]): Buffer[] {
  let chain = 0
  return values.map((value, i) => {
    const frame = new FrameBuilder()
    if (typeof value === 'string') frame.text(entryKind.put, `k${i + 1}`, value)
    else frame.blob(blobOf(1, 1).hash, value)
    const sealed = frame.seal({ commit: i + 1, syncedTo: 0, chain }, seed)
    chain = sealed.checksum
    return Buffer.from(sealed.bytes)
  })
}

async function fileOf(frames: readonly Uint8Array[]): Promise<{ file: DiskFile; size: number }> {
  const directory = await mkdtemp(join(temporaryDirectory(), 'frame-salvage-'))
  const file = await nodeDisk.open(join(directory, 'segment'), 'create')
  onTestFinished(async () => {
    await file.close()
    await rm(directory, { recursive: true })
  })
  await file.write(0, [Buffer.alloc(from), ...frames])
  return { file, size: await file.size() }
}

/** The keys and damages that a salvage reports. */
async function salvage(file: DiskFile, to: number): Promise<{ keys: string[]; damages: string[] }> {
  const keys: string[] = []
  const damages: string[] = []
  const range = { from, to, dataEnd: to, before }
  for await (const found of salvageFrames(new SegmentFile(1, file, to), range, seed)) {
    keys.push(...found.entries.map(({ key }) => key))
    damages.push(...found.damages.map(({ offset, message }) => `${offset}: ${message}`))
  }
  return { keys, damages }
}

test('finds the frame after a damaged one wherever two windows split its header', async () => {
  for (const shift of [-frameHeaderBytes - 1, -frameHeaderBytes, 1 - frameHeaderBytes, -20, -1, 0, 1]) {
    // The search starts one byte after the start of the damaged frame.
    const bytes = windowBytes + 1 + shift
    const overhead = framesOf('')[0]!.length
    const frames = framesOf('x'.repeat(bytes - overhead), 'second')
    expect(frames[0]!.length).toBe(bytes)
    frames[0]![8]! ^= 1
    frames[0]![frameHeaderBytes + 20]! ^= 1
    const { file, size } = await fileOf(frames)
    expect([shift, (await salvage(file, size)).keys]).toEqual([shift, ['rk2']])
  }
})

test('ignores a copy of an earlier frame inside a content', async () => {
  const [first, second] = framesOf('old', 'new')
  const copy = Buffer.concat([Buffer.alloc(100), first!, second!])
  const frames = framesOf('old', 'new', copy, 'last')
  // Without its header, the content of the third frame is searched.
  frames[2]![8]! ^= 1
  frames[2]![frameHeaderBytes]! ^= 64
  const { file, size } = await fileOf(frames)
  const { keys, damages } = await salvage(file, size)
  expect(keys).toEqual(['rk1', 'rk2', 'rk4'])
  expect(damages).toHaveLength(1)
})

test('ignores a frame with an earlier or repeated number', async () => {
  const [first, second] = framesOf('old', 'new')
  const third = framesOf('old', 'new', 'last')[2]!
  for (const [commit, frames] of [
    [1, [first!, second!, first!]],
    [1, [first!, second!, first!, third]],
    [2, [first!, second!, second!, third]],
  ] as const) {
    const { file, size } = await fileOf(frames)
    const again = `${from + first!.length + second!.length}: ${frames[2].length} bytes are damaged: they have a second copy of commit ${commit}`
    const keys = ['rk1', 'rk2', 'rk3'].slice(0, frames.length === 3 ? 2 : 3)
    expect(await salvage(file, size)).toEqual({ keys, damages: [again] })
  }
})

test('reports missing commits between two intact frames once, and not again after a damage', async () => {
  const frames = framesOf('1', '2', '3', '4', '5')
  frames[3]![8]! ^= 1
  const { file, size } = await fileOf([frames[0]!, ...frames.slice(2)])
  const { keys, damages } = await salvage(file, size)
  const third = from + frames[0]!.length
  expect(keys).toEqual(['rk1', 'rk3', 'rk4', 'rk5'])
  expect(damages[0]).toBe(`${third}: commits before 3 are missing`)
  expect(damages).toHaveLength(2)
})

test('skips an unreadable sector and finds the frames on both sides', async () => {
  const frames = framesOf('1', 'x'.repeat(20_000), '3')
  const { file, size } = await fileOf(frames)
  const bad = { from: 8192, to: 12_288 }
  const failing: DiskFile = {
    size: () => file.size(),
    readSync: (position, length) => file.readSync(position, length),
    write: (position, pieces) => file.write(position, pieces),
    truncate: (length) => file.truncate(length),
    sync: (where) => file.sync(where),
    close: () => file.close(),
    read(position, length) {
      if (position < bad.to && position + length > bad.from)
        return Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' }))
      return file.read(position, length)
    },
  }
  const { keys, damages } = await salvage(failing, size)
  expect(keys).toEqual(['rk1', 'rk3'])
  expect(damages).toEqual([`${from + frames[0]!.length + frameHeaderBytes}: record k2 is damaged`])
})
