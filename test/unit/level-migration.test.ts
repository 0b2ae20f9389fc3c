/** Stores of earlier formats, written by earlier versions. */
import { cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { openEngine, type Session } from '../../src/index.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { formatOneFixture as fixture, newEntries, oldEntries } from '../support/format-1.js'
import { reasonOf } from '../support/level-world.js'
import { stepOf } from '../support/seed.js'

const secrets = { masterKey: new Uint8Array(32).fill(7) }

interface Expected {
  readonly session: string
  readonly fork: string
  readonly sessionNodes: unknown[]
  readonly forkNodes: unknown[]
}

let directory: string
let data: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-migration-'))
  data = join(directory, 'data')
  await cp(join(fixture, 'store'), data, { recursive: true })
})

afterEach(() => rm(directory, { recursive: true, force: true }))

describe('a store of format 1', () => {
  test('opens with all its data and can be written', async () => {
    const expected = JSON.parse(await readFile(join(fixture, 'expected.json'), 'utf8')) as Expected
    const before = JSON.parse(await readFile(join(data, 'forkspace.json'), 'utf8')) as { storeId: string }
    for (let times = 0; times < 2; times++) {
      const engine = await openEngine({ storage: levelStorage(data), secrets })
      const session = await engine.sessions.open(expected.session)
      const fork = await engine.sessions.open(expected.fork)
      expect(await nodes(session)).toEqual(expected.sessionNodes)
      expect(await nodes(fork)).toEqual(expected.forkNodes)
      expect(String(await session.fs.promises.readFile('/link'))).toBe('# Changed')
      expect(String(await fork.fs.promises.readFile('/src/é 😀.txt'))).toBe('names')
      expect(Buffer.from((await session.cache.get({ key: 'build' })).value).toString()).toBe('small')
      expect((await session.cache.get({ key: 'bundle' })).value.length).toBe(9000)
      expect((await session.secrets.get({ secretName: 'TOKEN' })).secretValue.reveal()).toBe('hidden')
      await session.restore({ checkpointLabel: 'before' })
      expect(String(await session.fs.promises.readFile('/readme.md'))).toBe('# Hello')
      await session.fs.promises.writeFile('/readme.md', '# Changed')
      await engine.close()
    }
    const after = JSON.parse(await readFile(join(data, 'forkspace.json'), 'utf8')) as unknown
    expect(after).toEqual({ format: 2, storeId: before.storeId })
    expect((await readdir(data)).sort()).toEqual(['forkspace.json', 'index', 'segments'])
  })

  test('keeps every record, event and blob unchanged', async () => {
    const wanted = await oldEntries(data)
    const store = await openLevelStore(data, { durability: 'relaxed' })
    expect(await newEntries(store, wanted)).toEqual(wanted)
    await store.close()
  })

  test('opens although another opener converts it and removes its files meanwhile', async () => {
    const wanted = await oldEntries(data)
    let others = 0
    const disk = {
      ...nodeDisk,
      async list(path: string) {
        const names = await nodeDisk.list(path)
        // The marker was read already, and the old files are read next.
        if (path.endsWith('segments') && others++ === 0) {
          await (await openLevelStore(data, { durability: 'full' })).close()
          await rm(join(data, 'index', 'CURRENT'))
        }
        return names
      },
    }
    const store = await openLevelStore(data, { durability: 'full', disk })
    expect(others).toBeGreaterThan(0)
    expect(await newEntries(store, wanted)).toEqual(wanted)
    await store.close()
  })

  test('stays complete wherever the process ends', { timeout: 120_000 }, async () => {
    const wanted = await oldEntries(data)
    const image = join(directory, 'image')
    await cp(data, image, { recursive: true })
    for (let failAt = 1, ended = false; !ended; failAt += stepOf(4)) {
      await rm(data, { recursive: true })
      await cp(image, data, { recursive: true })
      const disk = Object.assign(new FaultyDisk(), { failAt, forEver: true })
      const cut = await openLevelStore(data, { durability: 'full', disk }).catch(reasonOf)
      if (typeof cut !== 'string') await cut.close()
      ended = disk.operations < failAt
      const { format } = JSON.parse(await readFile(join(data, 'forkspace.json'), 'utf8')) as {
        format: number
      }
      expect(format === 1 ? await oldEntries(data) : wanted).toEqual(wanted)
      const store = await openLevelStore(data, { durability: 'full' })
      expect(await newEntries(store, wanted)).toEqual(wanted)
      await store.close()
    }
  })

  test('with a missing file is rejected and not changed', async () => {
    for (const name of await readdir(join(data, 'index'))) {
      await rm(join(data, 'index', name))
      expect(await levelStorage(data).open().catch(reasonOf)).toBe('DATA_LOSS')
      expect(await readdir(data)).not.toContain('segments')
      await cp(join(fixture, 'store'), data, { recursive: true })
    }
  })

  test('is rejected with file and offset if a sector of any file is zeroed', async () => {
    for (const name of (await readdir(join(data, 'index'))).filter((name) => !name.startsWith('LO'))) {
      const path = join(data, 'index', name)
      const whole = await readFile(path)
      for (let at = 0; at < whole.length; at += 13 * 512) {
        const damaged = Buffer.from(whole)
        damaged.subarray(at, at + 512).fill(0)
        await writeFile(path, damaged)
        const error: unknown = await levelStorage(data).open().catch(same)
        expect(error).toMatchObject({ reason: 'DATA_LOSS', details: { file: `index/${name}` } })
        const { offset } = (error as { details: { offset: string } }).details
        expect(Number(offset)).toBeLessThan(at + 512)
        expect(String(error)).toContain('Restore a backup')
        expect(await readFile(path)).toEqual(damaged)
      }
      await writeFile(path, whole)
    }
    expect(await readdir(data)).not.toContain('segments')
    await (await levelStorage(data).open()).close()
  })

  test('is rejected if the first record of its manifest is truncated', async () => {
    const path = join(data, 'index', 'MANIFEST-000004')
    await writeFile(path, (await readFile(path)).subarray(0, 20))
    const details = { file: 'index/MANIFEST-000004', offset: '0' }
    await expect(levelStorage(data).open()).rejects.toMatchObject({ reason: 'DATA_LOSS', details })
  })

  test('opens if its log ends with a truncated write', async () => {
    const log = join(data, 'index', '000006.log')
    const whole = await readFile(log)
    const wanted = Object.keys(await oldEntriesOf(data)).length
    for (const cut of [1, 6, 7, 8, 300]) {
      await rm(data, { recursive: true })
      await cp(join(fixture, 'store'), data, { recursive: true })
      await writeFile(log, whole.subarray(0, -cut))
      const store = await openLevelStore(data, { durability: 'relaxed' })
      const kept = Object.keys(await newEntries(store, {})).length
      expect(kept).toBeGreaterThan(0)
      expect(kept).toBeLessThan(wanted)
      await store.close()
    }
  })

  test('is not assumed for a store of format 2 with a damaged marker', async () => {
    await (await levelStorage(data).open()).close()
    const marker = join(data, 'forkspace.json')
    const text = await readFile(marker, 'utf8')
    await writeFile(marker, text.replace('"format":2', '"format":1'))
    expect(await levelStorage(data).open().catch(reasonOf)).toBe('DATA_LOSS')
    await writeFile(marker, text)
    await (await levelStorage(data).open()).close()
  })
})

/** Reads a copy, because opening a database changes its files. */
async function oldEntriesOf(store: string): Promise<Record<string, string>> {
  const copy = `${store}-copy`
  await cp(store, copy, { recursive: true })
  return oldEntries(copy)
}

function same(value: unknown): unknown {
  return value
}

async function nodes(session: Session): Promise<unknown[]> {
  const found = await session.manifest({ pageSize: 1000 })
  return found.nodes.map(({ path, fileType, mode, sizeBytes, contentHash }) => [
    path,
    fileType,
    mode,
    sizeBytes,
    contentHash,
  ])
}
