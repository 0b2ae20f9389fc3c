/** Stores of earlier formats, as earlier versions wrote them. */
import { cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import { openEngine, type Session, type Store } from '../../src/index.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { reasonOf } from '../support/level-world.js'

const fixture = join(import.meta.dirname, '../fixtures/format/v1')
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
  test('is opened, has everything, and goes on', async () => {
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

  test('has every record, event and blob as it was', async () => {
    const wanted = await oldEntries()
    const store = await openLevelStore(data, { durability: 'relaxed' })
    expect(await newEntries(store, wanted)).toEqual(wanted)
    await store.close()
  })

  test('is whole at any point at which the process ends', { timeout: 120_000 }, async () => {
    const wanted = await oldEntries()
    const image = join(directory, 'image')
    await cp(data, image, { recursive: true })
    for (let failAt = 1, ended = false; !ended; failAt++) {
      await rm(data, { recursive: true })
      await cp(image, data, { recursive: true })
      const disk = Object.assign(new FaultyDisk(), { failAt, forEver: true })
      const cut = await openLevelStore(data, { durability: 'full', disk }).catch(reasonOf)
      if (typeof cut !== 'string') await cut.close()
      ended = disk.operations < failAt
      const { format } = JSON.parse(await readFile(join(data, 'forkspace.json'), 'utf8')) as {
        format: number
      }
      expect(format === 1 ? await oldEntries() : wanted).toEqual(wanted)
      const store = await openLevelStore(data, { durability: 'full' })
      expect(await newEntries(store, wanted)).toEqual(wanted)
      await store.close()
    }
  })

  test('of which a file is missing is refused and not changed', async () => {
    for (const name of await readdir(join(data, 'index'))) {
      await rm(join(data, 'index', name))
      expect(await levelStorage(data).open().catch(reasonOf)).toBe('DATA_LOSS')
      expect(await readdir(data)).not.toContain('segments')
      await cp(join(fixture, 'store'), data, { recursive: true })
    }
  })

  test('is not what a damaged marker makes of a store of format 2', async () => {
    await (await levelStorage(data).open()).close()
    const marker = join(data, 'forkspace.json')
    const text = await readFile(marker, 'utf8')
    await writeFile(marker, text.replace('"format":2', '"format":1'))
    expect(await levelStorage(data).open().catch(reasonOf)).toBe('DATA_LOSS')
    await writeFile(marker, text)
    await (await levelStorage(data).open()).close()
  })
})

/** What stands in the database of format 1, by its keys. */
async function oldEntries(): Promise<Record<string, string>> {
  const db = new ClassicLevel<string, Uint8Array>(join(data, 'index'), {
    valueEncoding: 'view',
    createIfMissing: false,
  })
  const entries: Record<string, string> = {}
  for await (const [key, value] of db.iterator()) entries[key] = Buffer.from(value).toString('base64')
  await db.close()
  return entries
}

/** The same from a store, asked for these keys and for all records and blobs. */
async function newEntries(store: Store, wanted: Record<string, string>): Promise<Record<string, string>> {
  const entries: Record<string, string> = {}
  for (const [key, value] of await store.scan({ gte: '', lt: '\u{10ffff}', limit: Infinity })) {
    entries[key] = Buffer.from(value).toString('base64')
  }
  for (const { hash } of await store.listBlobs!('', Infinity)) {
    const bytes = await store.blob(hash, { offset: 0, length: Infinity })
    entries[`b${hash}`] = Buffer.from(bytes!).toString('base64')
  }
  const sessions = new Set(Object.keys(wanted).flatMap((key) => (key[0] === 'e' ? [key.slice(1, -8)] : [])))
  for (const sessionId of sessions) {
    for await (const page of store.events(sessionId, { from: 1, to: Infinity })) {
      for (const { seq, body } of page) {
        const key = `e${sessionId}${seq.toString(36).padStart(8, '0')}`
        entries[key] = Buffer.from(JSON.stringify(body)).toString('base64')
      }
    }
  }
  return entries
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
