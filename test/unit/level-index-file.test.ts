import { cpSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type { IndexDamage, IndexOperation } from '../../src/adapters/level/index/index-database.js'
import { findIndexDamage, openIndexFile } from '../../src/adapters/level/index/index-file.js'
import { encodePage } from '../../src/adapters/level/index/index-page.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { randomWords } from '../../src/testing.js'
import { damages, sectorBytes } from '../attack/damages.js'
import { seed } from '../support/seed.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

const headerBytes = 16
const headBytes = 16

test('reports a flip of any bit in an index', async () => {
  const { file, size } = await makeIndex()
  const unreported: string[] = []
  for (let at = 0; at < size; at++) {
    const [before] = await file.read(at, 1)
    for (let bit = 0; bit < 8; bit++) {
      await file.write(at, [Uint8Array.of(before! ^ (1 << bit))])
      if ((await damageIn(file)).length === 0) unreported.push(`byte ${at}, bit ${bit}`)
    }
    await file.write(at, [Uint8Array.of(before!)])
  }
  expect(unreported).toEqual([])
  expect(await damageIn(file)).toEqual([])
})

test(`reports a sector of an index that is zeroed, random or copied from another (FORKSPACE_SEED=${seed})`, async () => {
  const { file, size } = await makeIndex()
  const random = randomWords(seed)
  const whole = Buffer.from(await file.read(0, size))
  const unreported: string[] = []
  for (let at = 0; at < size; at += sectorBytes) {
    for (const [damage, change] of Object.entries(damages)) {
      if (damage === 'cut off') continue
      for (let i = 0; i < 50; i++) {
        const bytes = change(Buffer.from(whole), at, random)
        await replace(file, bytes)
        // Trailing bytes shorter than a head may be the start of a new batch.
        const isHarmless = bytes.subarray(0, size).equals(whole) && bytes.length - size < headBytes
        if (!isHarmless && (await damageIn(file)).length === 0) unreported.push(`sector at ${at} ${damage}`)
      }
    }
  }
  expect(unreported).toEqual([])
})

test('reports no damage in an index that is truncated anywhere, as after a kill', async () => {
  const { file, size } = await makeIndex()
  for (let end = size - 1; end >= 0; end--) {
    await file.truncate(end)
    expect(await damageIn(file), `${end} of ${size} bytes`).toEqual([])
  }
})

test('reports a damaged length of the last batch that would end after the file', async () => {
  const { file, size, lastBatch } = await makeIndex()
  for (const [name, at] of [
    ['table', 4],
    ['values', 8],
  ] as const) {
    const before = await file.read(lastBatch + at, 4)
    for (const length of [size, 2 ** 16, 2 ** 24, 2 ** 32 - 1]) {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32LE(length)
      await file.write(lastBatch + at, [bytes])
      expect(await damageIn(file), `${length} bytes of ${name}`).toEqual([lastBatch])
    }
    await file.write(lastBatch + at, [before])
  }
})

test.each<readonly [string, readonly number[]]>([
  ['an unknown kind', [7, 1, 0x61, 0, 0, 0, 0]],
  ['a key without bytes', [1, 0, 0, 0, 0, 0]],
  ['a key that is not printable', [1, 1, 0x07, 0, 0, 0, 0]],
  ['a deletion with a value', [0, 1, 0x61, 1, 0, 0, 0]],
  ['more values than the head states', [1, 1, 0x61, 101, 0, 0, 0]],
])('reports a head that a kill cannot produce, followed by an operation with %s', async (_name, bytes) => {
  const { file, size } = await makeIndex()
  const head = Buffer.alloc(headBytes)
  head.writeUInt32LE(1000, 4)
  head.writeUInt32LE(100, 8)
  await file.write(size, [head, Buffer.from([1, 1, 0x61, 100, 0, 0, 0])])
  expect(await damageIn(file)).toEqual([])
  await file.write(size, [head, Buffer.from(bytes)])
  expect(await damageIn(file)).toEqual([size])
})

test('reports a zeroed last batch, and zeros after the last batch', async () => {
  const { file, size, lastBatch } = await makeIndex()
  await file.write(size, [Buffer.alloc(2 * headBytes)])
  expect(await damageIn(file)).toEqual([size])
  await file.truncate(size)
  await file.write(lastBatch, [Buffer.alloc(size - lastBatch)])
  expect(await damageIn(file)).toEqual([lastBatch])
})

test('reads zeros after the last batch in windows, and cuts them off when it opens', async () => {
  const { file, path, size } = await makeIndex()
  await file.truncate(size + 2 ** 22)
  let reads = 0
  const disk: Disk = { ...nodeDisk, open: async (name, mode) => counted(await nodeDisk.open(name, mode)) }
  const counted = (inner: DiskFile): DiskFile => ({
    size: () => inner.size(),
    read: (position, length) => (reads++, inner.read(position, length)),
    readSync: (position, length) => (reads++, inner.readSync(position, length)),
    write: (position, pieces) => inner.write(position, pieces),
    truncate: (bytes) => inner.truncate(bytes),
    sync: () => inner.sync(),
    close: () => inner.close(),
  })
  expect(await damageIn(counted(file))).toEqual([size])
  const index = await openIndexFile(disk, dirname(path), { reset: false })
  expect(String(index.getSync('root'))).toBe('3'.repeat(60))
  await index.close()
  expect(await file.size()).toBe(size)
  expect(reads).toBeLessThan(100)
})

test('finds a batch after zeros of any number of heads', async () => {
  const { file, path, size, lastBatch } = await makeIndex()
  const whole = Buffer.from(await file.read(0, size))
  for (const heads of [1, 2, 65_535, 65_536, 65_537]) {
    const at = size + heads * headBytes
    // A copy of the last batch, with the checksum of its new offset.
    const batch = Buffer.from(whole.subarray(lastBatch))
    batch.writeUInt32LE(headChecksumAt(whole, batch, at), 0)
    await replace(file, Buffer.concat([whole, Buffer.alloc(heads * headBytes), batch]))
    const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
    expect(String(index.getSync('root'))).toBe('3'.repeat(60))
    await index.close()
    expect(await file.size(), `${heads} heads`).toBe(at + batch.length)
  }
})

test.each<readonly [string, readonly number[], number]>([
  ['ends in an operation', [1], 0],
  ['has a key that ends after it', [1, 200, 0x61, 0x62], 0],
  ['has a value that ends after the values', [1, 1, 0x61, 9, 0, 0, 0], 8],
  ['has a value of 4 GiB', [1, 1, 0x61, 255, 255, 255, 255], 8],
])('drops a batch whose table %s, although its checksum is right', async (_name, table, valueBytes) => {
  const { file, path, size } = await makeIndex()
  const batch = Buffer.concat([Buffer.alloc(headBytes), Buffer.from(table), Buffer.alloc(valueBytes)])
  batch.writeUInt32LE(table.length, 4)
  batch.writeUInt32LE(valueBytes, 8)
  batch.writeUInt32LE(crc32(Buffer.alloc(valueBytes)), 12)
  batch.writeUInt32LE(headChecksumAt(Buffer.from(await file.read(0, headerBytes)), batch, size), 0)
  await file.write(size, [batch])
  expect(await damageIn(file)).toEqual([size])
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  expect(String(index.getSync('root'))).toBe('3'.repeat(60))
  await index.close()
  expect(await file.size()).toBe(size)
})

test('reports no damage in a rewritten index', async () => {
  const { path, size } = await makeIndex()
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  await index.compact()
  await index.close()
  const file = await nodeDisk.open(path, 'read')
  onTestFinished(() => file.close())
  expect(await file.size()).toBeLessThan(size)
  expect(await damageIn(file)).toEqual([])
})

test('closing rewrites a file of many batches, and keeps the old file if that fails', async () => {
  const { path } = await makeIndex()
  const fill = async (disk: Disk): Promise<void> => {
    const index = await openIndexFile(disk, dirname(path), { reset: false })
    for (let n = 0; n < 70; n++) await index.batch(operationsOf(n % 10), { sync: false })
    await index.close({ compact: true })
  }
  const failing: Disk = {
    ...nodeDisk,
    rename: () => Promise.reject(new Error('the disk is broken')),
  }
  const valueOf = async (): Promise<string> => {
    const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
    const value = String(index.getSync('root'))
    await index.close()
    return value
  }
  await fill(failing)
  const grown = await sizeOf(path)
  expect(await readdir(dirname(path))).toEqual(['pages'])
  await fill(nodeDisk)
  expect(await sizeOf(path)).toBeLessThan(grown / 10)
  expect(await valueOf()).toBe('9'.repeat(60))
  const file = await nodeDisk.open(path, 'read')
  onTestFinished(() => file.close())
  expect(await damageIn(file)).toEqual([])
})

test('rewrites the file once most of it is unneeded, and syncs the new file before it gets the name', async () => {
  const { path } = await makeIndex()
  let unsynced = false
  const renamed: boolean[] = []
  const disk: Disk = {
    ...watchedDisk((isUnsynced) => (unsynced = isUnsynced)),
    rename(from, to) {
      renamed.push(unsynced)
      return nodeDisk.rename(from, to)
    },
  }
  const index = await openIndexFile(disk, dirname(path), { reset: false })
  const value = Buffer.alloc(2 ** 20, 'v')
  for (let n = 0; n < 20; n++) await index.batch([{ type: 'put', key: 'root', value }], { sync: false })
  expect(renamed.length).toBeGreaterThan(1)
  expect(renamed).not.toContain(true)
  expect(await sizeOf(path)).toBeLessThan(levelLimits.unneededBytes + 3 * value.length)
  await index.close()
})

test('keeps a last batch of more values than are read at once when it opens', async () => {
  const { path } = await makeIndex()
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  const value = Buffer.alloc(levelLimits.rewrittenBytes + 1, 'v')
  await index.batch([{ type: 'put', key: 'root', value }], { sync: false })
  await index.close()
  const again = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  onTestFinished(() => again.close())
  expect(again.getSync('root')?.length).toBe(value.length)
})

test('drops a last batch with damaged values when it opens', async () => {
  const { file, path, size, lastBatch } = await makeIndex()
  await file.write(size - 1, [Buffer.from('x')])
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  expect(String(index.getSync('root'))).toBe('2'.repeat(60))
  await index.close()
  expect(await file.size()).toBe(lastBatch)
  expect(await damageIn(file)).toEqual([])
})

test('drops a copy of a batch at another offset when it opens', async () => {
  const { file, path, size, lastBatch } = await makeIndex()
  const whole = Buffer.from(await file.read(0, size))
  await file.write(size, [whole.subarray(headerBytes, lastBatch)])
  expect(await damageIn(file)).toEqual([size])
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  expect(String(index.getSync('root'))).toBe('3'.repeat(60))
  await index.close()
  expect(await file.size()).toBe(size)
})

test('an open index reports that its file has another end than it wrote', async () => {
  const { path, size } = await makeIndex()
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  onTestFinished(() => index.close())
  const whole = readFileSync(path)
  const found = (): Promise<IndexDamage[]> => allOf(index.damages())
  expect(await found()).toEqual([])
  for (let end = size - 1; end >= 0; end--) {
    truncateSync(path, end)
    const message = `the file ends here instead of at byte ${size}`
    expect(await found()).toEqual([{ offset: end, message }])
  }
  // Trailing zeros can be a head in progress, but not inside a written batch.
  writeFileSync(path, Buffer.concat([whole.subarray(0, size - 8), Buffer.alloc(8)]))
  expect(await found()).toHaveLength(1)
  writeFileSync(path, Buffer.concat([whole, Buffer.from('x'.repeat(40))]))
  expect(await found()).toEqual([])
})

test('an open index reports a last batch that looks truncated by a kill', async () => {
  const { file, path, size, lastBatch } = await makeIndex()
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  onTestFinished(() => index.close())
  // A head with a longer table, followed by deletions up to the end of the file.
  const tail = Buffer.alloc(size - lastBatch)
  tail.writeUInt32LE(2 ** 30, 4)
  for (let at = headBytes; at < tail.length; at += 10) {
    tail.writeUInt8(4, Math.min(at + 1, tail.length - 1))
    tail.write('xxxx', at + 2, 'latin1')
  }
  await file.write(lastBatch, [tail])
  expect(await damageIn(file)).toEqual([])
  expect(await allOf(index.damages())).toEqual([{ offset: lastBatch, message: 'a batch is damaged' }])
})

test('an open index reports that its file was removed or replaced', async () => {
  const { path } = await makeIndex()
  const index = await openIndexFile(nodeDisk, dirname(path), { reset: false })
  onTestFinished(() => index.close())
  const other = await makeIndex()
  cpSync(other.path, `${path}.other`)
  renameSync(`${path}.other`, path)
  expect(await allOf(index.damages())).toEqual([{ offset: 0, message: 'the header is damaged' }])
  rmSync(path)
  expect(await allOf(index.damages())).toEqual([{ offset: 0, message: 'the file does not exist' }])
})

test('closing syncs written data to the disk', async () => {
  const { path } = await makeIndex()
  let unsynced = false
  const disk = watchedDisk((isUnsynced) => (unsynced = isUnsynced))
  const index = await openIndexFile(disk, dirname(path), { reset: false })
  await index.batch(operationsOf(4), { sync: true })
  expect(unsynced).toBe(false)
  await index.batch(operationsOf(5), { sync: false })
  expect(unsynced).toBe(true)
  await index.close()
  expect(unsynced).toBe(false)
})

/** A disk that reports writes and syncs of its files. */
function watchedDisk(report: (isUnsynced: boolean) => void): Disk {
  return {
    ...nodeDisk,
    async open(name, mode) {
      const file = await nodeDisk.open(name, mode)
      const watched: DiskFile = {
        size: () => file.size(),
        read: (position, length) => file.read(position, length),
        readSync: (position, length) => file.readSync(position, length),
        truncate: (size) => file.truncate(size),
        close: () => file.close(),
        write(position, pieces) {
          report(true)
          return file.write(position, pieces)
        },
        sync() {
          report(false)
          return file.sync()
        },
      }
      return watched
    },
  }
}

async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

async function damageIn(file: DiskFile): Promise<number[]> {
  return (await allOf(findIndexDamage(file))).map(({ offset }) => offset)
}

/** An index of three batches, each of which deletes and stores pages. */
async function makeIndex(): Promise<{ file: DiskFile; path: string; size: number; lastBatch: number }> {
  const directory = await mkdtemp(join(temporaryDirectory(), 'level-index-file-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const index = await openIndexFile(nodeDisk, directory, { reset: false })
  const path = join(directory, 'pages')
  let lastBatch = headerBytes
  for (let n = 1; n <= 3; n++) {
    lastBatch = await sizeOf(path)
    await index.batch(operationsOf(n), { sync: false })
  }
  await index.close()
  const file = await nodeDisk.open(path, 'write')
  onTestFinished(() => file.close())
  return { file, path, size: await file.size(), lastBatch }
}

function operationsOf(n: number): IndexOperation[] {
  const page = (id: number): IndexOperation => {
    const keys = [`r${id}`, `r${id}/${'x'.repeat(id)}`]
    const places = keys.map(() => ({ segment: 1, offset: id, length: 13, deleted: false }))
    return {
      type: 'put',
      key: `p${String(id).padStart(10, '0')}`,
      value: encodePage(id, { keys, places }, 0, 2),
    }
  }
  return [
    { type: 'del', key: 'tail' },
    { type: 'del', key: `p${String(n - 1).padStart(10, '0')}` },
    page(n),
    page(n + 10),
    { type: 'put', key: 'root', value: Buffer.from(`${n}`.repeat(60)) },
  ]
}

/** The checksum of the head of a batch at an offset of an index that starts with `header`. */
function headChecksumAt(header: Buffer, batch: Buffer, offset: number): number {
  const place = Buffer.alloc(8)
  place.writeDoubleLE(offset)
  const tableEnd = headBytes + batch.readUInt32LE(4)
  const seedOfBatch = crc32(place, crc32(header.subarray(0, headerBytes)))
  return crc32(batch.subarray(headBytes, tableEnd), crc32(batch.subarray(4, headBytes), seedOfBatch))
}

async function sizeOf(path: string): Promise<number> {
  const file = await nodeDisk.open(path, 'read')
  try {
    return await file.size()
  } finally {
    await file.close()
  }
}

async function replace(file: DiskFile, bytes: Buffer): Promise<void> {
  await file.truncate(0)
  await file.write(0, [bytes])
}
