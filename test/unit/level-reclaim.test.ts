/** Segments that are rewritten because little of their data is needed. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { DiskFile } from '../../src/adapters/level/directory/disk.js'
import { levelLimits } from '../../src/adapters/level/limits.js'
import { entryKind } from '../../src/adapters/level/log/segment-format.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { lowerBound } from '../support/lower-bound.js'
import { openSmall, reasonOf } from '../support/level-world.js'
import { entriesOf, flip } from '../support/store-files.js'

let directory: string
let data: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-reclaim-'))
  data = join(directory, 'data')
})

afterEach(() => rm(directory, { recursive: true, force: true }))

const kilobytes = (count: number): string => 'x'.repeat(count * 1024)
const gone = Array.from({ length: 800 }, (_, i) => `gone-${1000 + i}`)
const segments = async (): Promise<string[]> =>
  (await readdir(join(data, 'segments'))).filter((name) => name.endsWith('.seg')).toSorted()

/** A disk whose writes to segments can be held. */
class HoldingDisk extends FaultyDisk {
  held: Promise<void> | undefined
  /** The number of reads of the first segment. */
  reads = 0

  override async open(path: string, mode: 'read' | 'create' | 'write'): Promise<DiskFile> {
    const file = await super.open(path, mode)
    if (!path.endsWith('.seg')) return file
    return {
      size: () => file.size(),
      read: async (position, length) => {
        const bytes = await file.read(position, length)
        if (path.endsWith('00000001.seg')) this.reads++
        return bytes
      },
      readSync: (position, length) => file.readSync(position, length),
      write: async (position, pieces) => {
        await this.held
        return file.write(position, pieces)
      },
      truncate: (size) => file.truncate(size),
      sync: (where) => file.sync(where),
      close: () => file.close(),
    }
  }
}

test('the newest of several values in one moved segment stays, however many moves it takes', async () => {
  lowerBound(levelLimits, 'reclaimedEntries', 1)
  const store = await openSmall(data)
  for (const value of ['old', 'older', 'new']) await store.commit({ put: [['k', value]] })
  await store.commit({ put: [['junk', kilobytes(20)]] })
  await store.commit({ put: [['junk', kilobytes(30)]] })
  await store.reclaim()
  expect(await segments()).not.toContain('00000001.seg')
  expect(await store.get('k')).toBe('new')
  await store.close()
  await rm(join(data, 'index'), { recursive: true })
  const again = await openSmall(data)
  expect(await again.get('k')).toBe('new')
  await again.close()
})

test('a value written while its segment is moved is not replaced by the old one', async () => {
  const disk = new HoldingDisk()
  const store = await openSmall(data, { disk })
  await store.commit({
    put: [
      ['k', 'old'],
      ['junk', kilobytes(20)],
    ],
  })
  await store.commit({ put: [['junk', kilobytes(30)]] })
  let release = (): void => undefined
  disk.held = new Promise((resolve) => {
    release = resolve
  })
  // The commit is queued before the moved entries, but not yet written when they are chosen.
  const committed = store.commit({ put: [['k', 'new']] })
  disk.reads = 0
  const reclaiming = store.reclaim()
  while (disk.reads < 1) await nextTurn()
  for (let turns = 0; turns < 50; turns++) await nextTurn()
  release()
  await Promise.all([committed, reclaiming])
  expect(await segments()).not.toContain('00000001.seg')
  expect(await store.get('k')).toBe('new')
  await store.close()
  const again = await openSmall(data)
  expect(await again.get('k')).toBe('new')
  await again.close()
})

test('a damaged segment fails with DATA_LOSS and is kept', async () => {
  const store = await openSmall(data)
  await store.commit({
    put: [
      ['junk', kilobytes(20)],
      ['damaged', 'value'],
    ],
  })
  await store.commit({ put: [['whole', 'value']] })
  await store.commit({ put: [['junk', kilobytes(30)]] })
  const [first] = await segments()
  const { path, offset, length } = (await entriesOf(data)).find(({ key }) => key === 'rdamaged')!
  await flip(path, offset + length - 1)
  expect(await store.reclaim().catch(reasonOf)).toBe('DATA_LOSS')
  expect(await segments()).toContain(first)
  expect(await store.get('whole')).toBe('value')
  expect(await store.get('damaged').catch(reasonOf)).toBe('DATA_LOSS')
  await store.close()
})

test('keeps a segment of deletions while an older one may contain the deleted entries', async () => {
  const store = await openSmall(data)
  await store.commit({ put: [['kept', kilobytes(40)], ...gone.map((key) => [key, 'value'] as const)] })
  await store.commit({ del: gone })
  await store.commit({ put: [['last', kilobytes(20)]] })
  const before = await segments()
  expect(before).toHaveLength(3)
  await store.reclaim()
  expect(await segments()).toEqual(before)
  await store.close()
})

test('drops a moved deletion once no segment older than its origin is left', async () => {
  const store = await openSmall(data, { segmentBytes: 64 * 1024 })
  await store.commit({ put: [['a', kilobytes(80)], ...gone.map((key) => [key, 'value'] as const)] })
  await store.commit({ del: gone, put: [['b', kilobytes(60)]] })
  await store.commit({ put: [['kept', kilobytes(70)]] })
  await store.commit({ put: [['b', kilobytes(2)]] })
  const deletions = async (): Promise<number[]> =>
    (await entriesOf(data)).flatMap(({ kind, path }) =>
      kind === entryKind.delete ? [Number.parseInt(path.slice(-12), 10)] : [],
    )
  await store.reclaim()
  // The deletions were in the second segment, and the first still contains the deleted entries.
  expect([...new Set(await deletions())]).toEqual([4])
  await store.commit({ put: [['c', kilobytes(36)]] })
  await store.commit({
    put: [
      ['a', 'small'],
      ['c', 'small'],
    ],
  })
  await store.commit({ put: [['last', kilobytes(70)]] })
  await store.reclaim()
  expect(await segments()).toEqual(['00000003.seg', '00000005.seg', '00000006.seg'])
  expect(await deletions()).toEqual([])
  await store.close()
  await rm(join(data, 'index'), { recursive: true })
  const again = await openSmall(data)
  const keys = (await again.scan({ gte: 'a', lt: 'z', limit: 1000 })).map(([key]) => key)
  expect(keys).toEqual(['a', 'b', 'c', 'kept', 'last'])
  await again.close()
})
