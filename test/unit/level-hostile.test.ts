/** Foreign or damaged store files, repeated failures, and concurrent openers of a directory. */
import { execFileSync } from 'node:child_process'
import {
  cp,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DiskFile } from '../../src/adapters/level/directory/disk.js'
import { salvageFrames } from '../../src/adapters/level/tools/frame-salvage.js'
import { backupStore, checkStore, repairStore } from '../../src/adapters/level/index.js'
import { openIndexFile } from '../../src/adapters/level/index/index-file.js'
import type { IndexDatabase, OpenIndex } from '../../src/adapters/level/index/index-database.js'
import { memoryIndex } from '../../src/adapters/level/index/memory-index.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { SegmentFile } from '../../src/adapters/level/log/segment-file.js'
import { segmentHeaderBytes } from '../../src/adapters/level/log/segment-format.js'
import type { Store } from '../../src/engine/ports.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import {
  blobOf,
  openSmall,
  readContents,
  reasonOf,
  sessionId,
  type StoredContents,
} from '../support/level-world.js'
import { formatOneFixture } from '../support/format-1.js'
import { isLong } from '../support/seed.js'
import { contentsOf, fillStore } from '../support/store-files.js'

const session = sessionId(1)
let directory: string
let data: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-hostile-'))
  data = join(directory, 'data')
})

afterEach(() => rm(directory, { recursive: true, force: true }))

function commit(store: Store, n: number): Promise<boolean> {
  return store.commit({
    events: [{ sessionId: session, seq: n, body: [n] }],
    put: [[`~k${n % 50}`, `${n} ${'x'.repeat(200)}`]],
  })
}

async function write(store: Store, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) await commit(store, n)
}

function contents(store: Store): Promise<StoredContents> {
  return readContents(store, [session], [])
}

function segments(): Promise<string[]> {
  return readdir(join(data, 'segments'))
}

describe('a new segment that could not be started', () => {
  /** The number of the change that makes the manifest of the new segment durable. */
  async function lastStep(disk: FaultyDisk): Promise<number> {
    const store = await openSmall(join(directory, 'trial'), { durability: 'full', disk })
    await write(store, 1, 120)
    await store.close()
    const created = disk.log.findIndex((what) => /create .*00000002\.seg$/.test(what))
    const renamed = disk.log.findIndex((what, at) => at > created && /rename .*manifest$/.test(what))
    expect(disk.log[renamed + 1]).toContain('syncDirectory')
    return renamed + 2
  }

  test('is never missing, wherever the process ends during a recovery', async () => {
    const failAt = await lastStep(new FaultyDisk())
    for (let further = 1; further <= 12; further++) {
      await rm(data, { recursive: true, force: true })
      const disk = new FaultyDisk()
      disk.failAt = failAt
      const store = await openSmall(data, { durability: 'full', disk })
      let acknowledged = 0
      try {
        for (let n = 1; n <= 120; n++) {
          await commit(store, n)
          acknowledged = n
        }
      } catch (error) {
        reasonOf(error)
      }
      expect(acknowledged).toBeGreaterThan(20)
      // The process ends: none of its later changes take effect.
      disk.failAt = disk.operations + further
      disk.forEver = true
      await store.recover().catch(reasonOf)
      const dead = join(directory, 'dead')
      await cp(data, dead, { recursive: true })
      const again = await openSmall(dead)
      expect((await again.lastEvent(session))?.seq ?? 0, `${further}`).toBeGreaterThanOrEqual(acknowledged)
      await again.close()
      await rm(dead, { recursive: true })
      await store.close().catch(reasonOf)
    }
  })
})

test('ignores bytes after the end of a sealed segment, which a recovery cut off', async () => {
  const store = await openSmall(data, { durability: 'full' })
  await write(store, 1, 200)
  const before = await contents(store)
  await store.close()
  const sealed = join(data, 'segments', '00000001.seg')
  const size = (await stat(sealed)).size
  await writeFile(sealed, Buffer.alloc(700, 'x'), { flag: 'a' })
  expect((await checkStore(data, { readData: true })).findings).toEqual([])
  await backupStore(data, join(directory, 'copy'))
  expect((await stat(join(directory, 'copy', 'segments', '00000001.seg'))).size).toBe(size)
  for (const place of [data, join(directory, 'copy')]) {
    const opened = await openSmall(place, { durability: 'full' })
    expect(await contents(opened)).toEqual(before)
    await opened.close()
    await rm(join(place, 'index'), { recursive: true })
  }
  const rebuilt = await openSmall(data, { durability: 'full' })
  expect(await contents(rebuilt)).toEqual(before)
  await rebuilt.close()
  await truncate(sealed, size - 1)
  expect(await openSmall(data, { durability: 'full' }).catch(reasonOf)).toBe('DATA_LOSS')
})

test('a disk that fails repeatedly leaves no more files than one that fails once', async () => {
  const disk = new FaultyDisk()
  let store = await openSmall(data, { durability: 'full', disk })
  await write(store, 1, 30)
  await store.reclaim()
  const before = await contents(store)
  for (let failures = 0; failures < 40; failures++) {
    disk.failAt = disk.operations + 1
    await expect(commit(store, 31)).rejects.toMatchObject({ details: { outcome: 'unknown' } })
    await store.recover()
  }
  expect((await segments()).filter((name) => name.endsWith('.seg')).length).toBeLessThan(4)
  expect(await contents(store)).toEqual(before)
  await commit(store, 31)
  await store.close()
  let resets = 0
  const openIndex: OpenIndex = (disk, path, options) => {
    if (options.reset) resets++
    return openIndexFile(disk, path, options)
  }
  store = await openSmall(data, { openIndex })
  expect((await store.lastEvent(session))!.seq).toBe(31)
  expect(resets).toBe(0)
  await store.close()
})

describe('an index with a damaged page', () => {
  /** A database that survives reopening, with pages that can be damaged. */
  function keptIndex(): { open: OpenIndex; damage(): void; resets: number } {
    let db: IndexDatabase = memoryIndex()
    let damaged = false
    const kept = {
      resets: 0,
      damage: () => {
        damaged = true
      },
      open: ((_disk, _path, { reset }) => {
        if (reset) {
          db = memoryIndex()
          damaged = false
          kept.resets++
        }
        const current = db
        return Promise.resolve({
          ...current,
          getSync: (key) => {
            const value = current.getSync(key)
            return damaged && key.startsWith('p') && value ? value.subarray(1) : value
          },
        } satisfies IndexDatabase)
      }) as OpenIndex,
    }
    return kept
  }

  const filled = async (): Promise<{ index: ReturnType<typeof keptIndex>; before: StoredContents }> => {
    const index = keptIndex()
    const store = await openSmall(data, { openIndex: index.open })
    await write(store, 1, 200)
    await store.reclaim()
    const before = await contents(store)
    await store.close()
    index.damage()
    return { index, before }
  }

  test('is rebuilt for the read that detects it, and for the next opener', async () => {
    const { index, before } = await filled()
    let store = await openSmall(data, { openIndex: index.open })
    expect(() => store.getSync('~k1')).toThrow(expect.objectContaining({ reason: 'WOULD_BLOCK' }))
    expect(await store.get('~k1')).toMatch(/^151 x/)
    expect(store.getSync('~k1')).toMatch(/^151 x/)
    expect(index.resets).toBe(1)
    expect(await contents(store)).toEqual(before)
    await store.close()
    store = await openSmall(data, { openIndex: index.open })
    expect(await contents(store)).toEqual(before)
    expect(index.resets).toBe(1)
    await store.close()
  })

  test('rejects no commit and keeps their order and bytes', async () => {
    const { index } = await filled()
    const store = await openSmall(data, { openIndex: index.open })
    const blob = blobOf(1, 500)
    const bytes = Uint8Array.from(blob.bytes)
    // The damaged page is the one that says whether the event exists.
    const commits = [
      store.commit({
        events: [{ sessionId: sessionId('new'), seq: 1, body: ['first'] }],
        put: [['order', '1']],
      }),
      store.commit({ put: [['order', '2']], blobs: [{ hash: blob.hash, bytes }] }),
      store.commit({ events: [{ sessionId: sessionId('new'), seq: 2, body: ['second'] }] }),
    ]
    bytes.fill(0)
    expect(await Promise.all(commits)).toEqual([true, true, true])
    expect(index.resets).toBe(1)
    expect(await store.get('order')).toBe('2')
    expect(Buffer.from((await store.blob(blob.hash, { offset: 0, length: 500 }))!)).toEqual(
      Buffer.from(blob.bytes),
    )
    expect((await store.lastEvent(sessionId('new')))?.body).toEqual(['second'])
    await store.close()
  })

  test('is rebuilt when a flush or a reclaim detects it, and neither fails', async () => {
    for (const meet of ['reclaim', 'flush'] as const) {
      const { index } = await filled()
      const store = await openSmall(data, { openIndex: index.open })
      if (meet === 'reclaim') {
        await write(store, 201, 202)
        await store.reclaim()
      } else await write(store, 201, 600)
      expect(index.resets).toBe(1)
      expect(await store.get('~k1')).toMatch(meet === 'reclaim' ? /^201 x/ : /^551 x/)
      await store.close()
      await rm(data, { recursive: true })
    }
  })

  test('keeps the other data readable if it cannot be rebuilt, and is rebuilt once the disk works', async () => {
    const { index, before } = await filled()
    let isFull = true
    const store = await openSmall(data, {
      openIndex: (disk, path, options) => {
        if (isFull && options.reset) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
        return index.open(disk, path, options)
      },
    })
    await expect(store.get('~k1')).rejects.toMatchObject({ reason: 'DATA_LOSS' })
    await expect(store.commit({ put: [['~k1', 'x']] })).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await expect(store.recover()).rejects.toMatchObject({ reason: 'STORE_FULL' })
    isFull = false
    await store.recover()
    expect(await contents(store)).toEqual(before)
    await store.close()
  })

  test('is rebuilt before the store closes', async () => {
    const { index, before } = await filled()
    let store = await openSmall(data, { openIndex: index.open })
    expect(() => store.getSync('~k1')).toThrow('the index is damaged')
    const added = store.commit({ put: [['late', 'yes']] })
    await store.close()
    expect(await added).toBe(true)
    store = await openSmall(data, { openIndex: index.open })
    expect(await store.get('late')).toBe('yes')
    await store.commit({ del: ['late'] })
    expect(await contents(store)).toEqual(before)
    await store.close()
  })
})

test('a check finds nothing when a reclaim removes the segment that it reads', async () => {
  let removed: (() => Promise<void>) | undefined
  const hooked = (file: DiskFile, path: string): DiskFile => ({
    size: () => file.size(),
    read: async (position, length) => {
      // While the store is open, only the header is read at this position.
      if (removed !== undefined && position === 0 && path.endsWith('00000001.seg')) {
        const remove = removed
        removed = undefined
        await remove()
      }
      return file.read(position, length)
    },
    readSync: (position, length) => file.readSync(position, length),
    write: (position, pieces) => file.write(position, pieces),
    truncate: (size) => file.truncate(size),
    sync: (where) => file.sync(where),
    close: () => file.close(),
  })
  const disk = {
    ...nodeDisk,
    open: async (path: string, mode: 'read' | 'create' | 'write') =>
      hooked(await nodeDisk.open(path, mode), path),
  }
  let store = await openSmall(data, { disk })
  for (let n = 1; n <= 400; n++) await store.commit({ put: [['k', 'x'.repeat(200)]] })
  await store.close()
  store = await openSmall(data, { disk })
  removed = () => store.reclaim()
  const findings: unknown[] = []
  for await (const finding of store.check({ signal: undefined })) findings.push(finding)
  expect(removed).toBe(undefined)
  expect(findings).toEqual([])
  await store.close()
})

describe('copies', () => {
  test('to one target at the same time make one complete store', async () => {
    await fillStore(data)
    const target = join(directory, 'target')
    const acts = [backupStore, repairStore, backupStore, repairStore]
    const settled = await Promise.allSettled(acts.map((act) => act(data, target)))
    const outcomes = settled.map((result) =>
      result.status === 'fulfilled' ? 'whole' : reasonOf(result.reason),
    )
    expect(outcomes.sort()).toEqual([...Array<string>(3).fill('ALREADY_EXISTS'), 'whole'])
    expect(await checkStore(target, { readData: true })).toMatchObject({ found: 0 })
  })
})

describe('a damaged region', () => {
  test('of any size is read in pieces', async () => {
    const size = 96 * 2 ** 20
    let most = 0
    const zeros: Pick<DiskFile, 'read'> = {
      read: (_position, length) => {
        most = Math.max(most, length)
        return Promise.resolve(Buffer.alloc(length))
      },
    }
    const file = new SegmentFile(1, zeros as DiskFile, size)
    const damages: number[] = []
    const range = { from: segmentHeaderBytes, to: size, dataEnd: size, before: undefined }
    for await (const found of salvageFrames(file, range, 1))
      damages.push(...found.damages.map(({ offset }) => offset))
    expect(damages).toEqual([segmentHeaderBytes])
    expect(most).toBeLessThan(2 ** 21)
  })
})

describe('another entry in place of a file', () => {
  const names = ['forkspace.json', 'segments/manifest', 'segments/00000001.seg']
  const others: Record<string, (path: string) => Promise<unknown>> = {
    'a directory': (path) => mkdir(path),
    'a link to itself': (path) => symlink(path, path),
    'a pipe': (path) => Promise.resolve(execFileSync('mkfifo', [path])),
    ...(isLong && {
      'a far too large file': async (path: string) => {
        await writeFile(path, '')
        await truncate(path, 5 * 2 ** 30)
      },
    }),
  }

  test.each(Object.entries(others))(
    '%s is rejected on opening and reported by a check',
    { timeout: 120_000 },
    async (_, make) => {
      await fillStore(data)
      for (const name of names) {
        const copy = join(directory, 'copy')
        await cp(data, copy, { recursive: true })
        const path = join(copy, name)
        await rename(path, `${path}.away`)
        await make(path)
        const opened = await openSmall(copy).then((store) => store.close(), reasonOf)
        expect(['DATA_LOSS', 'STORE_FAILED'], name).toContain(opened)
        const { findings } = await checkStore(copy)
        expect(findings.some(({ object }) => object === `file ${name}`)).toBe(true)
        await expect(backupStore(copy, join(directory, 'target'))).rejects.toMatchObject({
          reason: 'DATA_LOSS',
        })
        await rm(copy, { recursive: true })
        await rm(join(directory, 'target'), { recursive: true, force: true })
      }
    },
  )
})

describe('another entry in the directory of the index', () => {
  const makes: Record<string, (path: string, other: string) => Promise<unknown>> = {
    'a pipe': (path) => Promise.resolve(execFileSync('mkfifo', [path])),
    'a link to a file': (path, other) => symlink(other, path),
    'a link to nothing': (path, other) => symlink(`${other}-none`, path),
  }

  test.each(Object.entries(makes))('%s is replaced, and its target is not changed', async (_, make) => {
    await fillStore(data)
    const wanted = await contentsOf(data)
    const names = await readdir(join(data, 'index'))
    expect(names).toEqual(expect.arrayContaining(['CURRENT', 'LOCK', 'LOG', 'pages']))
    const other = join(directory, 'other')
    await writeFile(other, 'other')
    for (const name of names) {
      const copy = join(directory, 'copy')
      await cp(data, copy, { recursive: true })
      const path = join(copy, 'index', name)
      await rm(path)
      await make(path, other)
      expect(await contentsOf(copy), name).toEqual(wanted)
      for (const entry of await readdir(join(copy, 'index'), { withFileTypes: true }))
        expect(entry.isFile(), `${name}: ${entry.name}`).toBe(true)
      await rm(copy, { recursive: true })
    }
    expect(await readFile(other, 'utf8')).toBe('other')
    expect(await readdir(directory)).not.toContain('other-none')
  })

  test.each(Object.entries(makes))('of the first format, %s is rejected', async (_, make) => {
    const old = join(directory, 'old')
    const other = join(directory, 'other')
    await writeFile(other, '')
    await cp(join(formatOneFixture, 'store'), old, { recursive: true })
    const names = await readdir(join(old, 'index'))
    for (const name of names.filter((each) => /^(CURRENT|MANIFEST-.*|.*\.(log|ldb))$/.test(each))) {
      const copy = join(directory, 'copy')
      await cp(old, copy, { recursive: true })
      const path = join(copy, 'index', name)
      await rm(path)
      await make(path, other)
      expect(await openSmall(copy).then((store) => store.close(), reasonOf), name).toBe('DATA_LOSS')
      await rm(copy, { recursive: true })
    }
  })
})

test.runIf(process.platform === 'linux')('a directory that cannot be created is refused', async () => {
  expect(await openSmall('/proc/none/deep/store').catch(reasonOf)).toBe('STORE_FAILED')
})
