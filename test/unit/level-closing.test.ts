/** Descriptors of a store, and errors of the calls that use them. */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Disk, DiskFile } from '../../src/adapters/level/directory/disk.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { StoredFiles } from '../../src/adapters/level/tools/stored-files.js'
import { blobOf, openSmall, sessionId } from '../support/level-world.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(temporaryDirectory(), 'level-closing-'))
})

afterEach(() => rm(directory, { recursive: true, force: true }))

/** A disk on which closing a segment fails, as on a network disk that is full. The descriptor is closed all the same. */
class UnclosableDisk {
  readonly open: string[] = []
  failing = false

  readonly disk: Disk = {
    ...nodeDisk,
    open: async (path, mode) => this.#watched(await nodeDisk.open(path, mode), path),
  }

  #watched(file: DiskFile, path: string): DiskFile {
    this.open.push(path)
    return {
      size: () => file.size(),
      read: (position, length) => file.read(position, length),
      readSync: (position, length) => file.readSync(position, length),
      write: (position, pieces) => file.write(position, pieces),
      truncate: (size) => file.truncate(size),
      sync: (where) => file.sync(where),
      close: async () => {
        await file.close()
        const at = this.open.indexOf(path)
        if (at >= 0) this.open.splice(at, 1)
        if (this.failing && path.endsWith('.seg'))
          throw Object.assign(new Error('EDQUOT: quota exceeded, close'), { code: 'EDQUOT' })
      },
    }
  }
}

async function fill(disk: Disk): Promise<void> {
  const store = await openSmall(directory, { disk })
  for (let n = 1; n <= 12; n++) await store.commit({ blobs: [blobOf(n, 8 * 1024)] })
  await store.close()
}

test('a store closes all segments, also after one whose closing fails', async () => {
  const watched = new UnclosableDisk()
  await fill(watched.disk)
  expect(watched.open).toEqual([])
  const store = await openSmall(directory, { disk: watched.disk })
  expect(watched.open.filter((path) => path.endsWith('.seg')).length).toBeGreaterThan(3)
  watched.failing = true
  await store.close()
  expect(watched.open).toEqual([])
})

test('a reader of a closed store closes all segments, also after one whose closing fails', async () => {
  const watched = new UnclosableDisk()
  await fill(watched.disk)
  const files = await StoredFiles.open(watched.disk, directory)
  expect(watched.open.length).toBeGreaterThan(3)
  watched.failing = true
  await expect(files.close()).rejects.toThrow('quota exceeded')
  expect(watched.open).toEqual([])
})

test('a reader of a closed store closes all segments if it cannot read the manifest again', async () => {
  const watched = new UnclosableDisk()
  await fill(watched.disk)
  let reads = 0
  const disk: Disk = {
    ...watched.disk,
    open: (path, mode) =>
      path.endsWith('manifest') && ++reads === 2
        ? Promise.reject(Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' }))
        : watched.disk.open(path, mode),
  }
  await expect(StoredFiles.open(disk, directory)).rejects.toThrow('too many open files')
  expect(watched.open).toEqual([])
})

test('a size that cannot be read is an error of the engine without a path', async () => {
  let failing = false
  const disk: Disk = {
    ...nodeDisk,
    list: (path) =>
      failing
        ? Promise.reject(Object.assign(new Error(`EMFILE: too many open files, ${path}`), { code: 'EMFILE' }))
        : nodeDisk.list(path),
  }
  const store = await openSmall(directory, { disk })
  failing = true
  await expect(store.size()).rejects.toMatchObject({
    reason: 'STORE_FAILED',
    message: 'the size of the store could not be read (EMFILE)',
  })
  failing = false
  expect(await store.size()).toBeGreaterThan(0)
  expect(await store.lastEvent(sessionId(1))).toBeUndefined()
  await store.close()
})

test('opening a store writes no owner through a link', async () => {
  const foreign = join(directory, 'foreign')
  const store = join(directory, 'store')
  await mkdir(store, { mode: 0o700 })
  await (await openSmall(store)).close()
  await writeFile(foreign, 'foreign')
  await symlink(foreign, join(store, 'owner.json.new'))
  const opened = await openSmall(store)
  expect(await readFile(foreign, 'utf8')).toBe('foreign')
  expect(JSON.parse(await readFile(join(store, 'owner.json'), 'utf8'))).toMatchObject({ pid: process.pid })
  await opened.close()
})
