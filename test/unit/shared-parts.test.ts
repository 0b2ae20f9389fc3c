import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Readable } from 'node:stream'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHash } from 'node:crypto'
import {
  limits,
  memoryStorage,
  openEngine,
  type Engine,
  type Session,
  type Storage,
} from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { randomBytes } from '../support/random-bytes.js'
import { runs, seed } from '../support/seed.js'
import { storages } from '../support/storages.js'

const kibibyte = 1024
const mebibyte = 1024 * kibibyte

describe.each(storages)('a file that is written again, on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'shared-parts-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create()
  })

  afterEach(async () => {
    await engine.close()
    rmSync(directory, { recursive: true, force: true })
  })

  const read = (): Promise<Buffer> => session.fs.promises.readFile('/a')
  const write = (content: Uint8Array): Promise<void> => session.files.write({ path: '/a', content })
  const storedBytes = async (): Promise<number> => (await engine.usage.metrics()).logicalBytes

  /** A store without synchronous reads would have to wait for the old content. Memory that is not durable copies faster. */
  const shares = name !== 'durable memory without synchronous reads' && name !== 'memory'

  test.runIf(shares)('stores little for each of 60 changed characters', async () => {
    let content = randomBytes(mebibyte, 'note')
    await write(content)
    const before = await storedBytes()
    for (let i = 0; i < 60; i++) {
      const at = (i * 7919 * 13) % content.length
      const text = i % 3 === 0 ? 'ab' : i % 3 === 1 ? '' : 'x'
      content = Buffer.concat([content.subarray(0, at), Buffer.from(text), content.subarray(at + 1)])
      await write(content)
    }
    expect((await storedBytes()) - before).toBeLessThan(2 * mebibyte)
    expect((await read()).equals(content)).toBe(true)
    const { nodes } = await session.manifest({ includeCasExtents: true })
    const { casExtents } = nodes.find(({ path }) => path === '/a')!
    expect(casExtents.length).toBeLessThanOrEqual(limits.sharedFileExtents + 3)
  })

  test('has the content, the hash and the times of a new file', async () => {
    const old = randomBytes(200 * kibibyte, 'old')
    const next = Buffer.concat([old.subarray(0, 90_000), Buffer.from('changed'), old.subarray(90_000)])
    await write(old)
    await session.files.setMode({ path: '/a', mode: 0o600 })
    await session.checkpoint({ checkpointLabel: 'old' })
    await session.files.write({ path: '/a', content: next, mode: 0o640 })
    await session.files.write({ path: '/new', content: next })
    const [a, b] = [await session.files.stat({ path: '/a' }), await session.files.stat({ path: '/new' })]
    expect([a.contentHash, a.sizeBytes, a.mode]).toEqual([b.contentHash, b.sizeBytes, 0o640])
    expect((await session.events.list({ pageSize: 100 })).events.at(-2)?.eventType).toBe(
      'v1.FileSystemService.WriteFile',
    )
    await session.undo({ count: 2 })
    expect((await read()).equals(old)).toBe(true)
    await session.redo({ count: 2 })
    expect((await read()).equals(next)).toBe(true)
    await session.restore({ checkpointLabel: 'old' })
    expect((await read()).equals(old)).toBe(true)
  })

  test('can be written twice by one batch, with conditions', async () => {
    const contents = [randomBytes(200 * kibibyte, 'first')]
    for (let i = 0; i < 6; i++) {
      const next = Buffer.from(contents.at(-1)!)
      next.writeUInt8(next.readUInt8(i * 30_000) ^ 1, i * 30_000)
      contents.push(next)
    }
    await write(contents[0]!)
    await session.files.batch(
      contents.slice(1).map((content, i) => ({
        write: { path: '/a', content, expectedHash: contentHash(contents[i]!) },
      })),
    )
    expect((await read()).equals(contents.at(-1)!)).toBe(true)

    const [next, segment] = [Buffer.from(contents.at(-1)!), Buffer.from('segment')]
    next.write('whole', 50_000)
    const patched = Buffer.from(next)
    segment.copy(patched, 1000)
    await session.files.batch([
      { write: { path: '/a', content: next } },
      { segmentWrite: { path: '/a', segments: [{ data: { offset: 1000, content: segment } }] } },
      { write: { path: '/a', content: next, expectedHash: contentHash(patched) } },
    ])
    expect((await read()).equals(next)).toBe(true)
  })

  test('can be written as a stream, and in an engine that reads its many parts again', async () => {
    const content = randomBytes(300 * kibibyte, 'parts')
    await write(content)
    for (let i = 0; i < 33; i++) {
      content.writeUInt8(content.readUInt8(i * 9000) ^ 1, i * 9000)
      await write(content)
    }
    if (lasting) {
      await engine.close()
      engine = await openEngine({ storage })
      session = await engine.sessions.open(session.id)
    }
    content.writeUInt8(content.readUInt8(5) ^ 1, 5)
    await write(content)
    expect((await read()).equals(content)).toBe(true)
    content.writeUInt8(content.readUInt8(6) ^ 1, 6)
    await session.files.write({ path: '/a', content: Readable.from([content]) })
    expect((await read()).equals(content)).toBe(true)
  })

  test('keeps no more than twice its size alive', async () => {
    let content = randomBytes(256 * kibibyte, 'start')
    await write(content)
    const counts: number[] = []
    for (let i = 0; i < 12; i++) {
      // Almost half of the file changes each time, and 2 KiB of each earlier part stay.
      content = Buffer.from(content)
      content.set(randomBytes(126 * kibibyte, `part ${i}`), i * 2 * kibibyte)
      await write(content)
      const { nodes } = await session.manifest({ includeCasExtents: true })
      const { casExtents } = nodes.find(({ path }) => path === '/a')!
      counts.push(new Set(casExtents.map(({ hash }) => hash)).size)
    }
    expect(Math.max(...counts)).toBe(shares ? 3 : 1)
    expect((await read()).equals(content)).toBe(true)
  })

  test('has zeros where a hole of the old content moved to', async () => {
    const [first, last] = [randomBytes(100_000, 'first'), randomBytes(50_000, 'last')]
    await write(first)
    const handle = await session.fs.promises.open('/a', 'r+')
    await handle.write(last, 0, last.length, 150_000)
    await handle.close()
    const content = await read()
    for (const text of ['more', '']) {
      const next = Buffer.concat([content.subarray(0, 10), Buffer.from(text), content.subarray(12)])
      await write(next)
      expect((await read()).equals(next)).toBe(true)
    }
  })

  test(`has the bytes of every random change (FORKSPACE_SEED=${seed})`, async () => {
    const next = randomWords(seed)
    const below = (count: number): number => next() % count
    const sizes = [limits.sharedFileBytes, 100_000, mebibyte - 1, mebibyte, mebibyte + 1, 2.5 * mebibyte]
    for (let run = 0; run < runs(300); run++) {
      let content = randomBytes(sizes[run % sizes.length]!, `run ${run}`)
      await write(content)
      for (let step = 0; step < 6; step++) {
        content = changed(content, below)
        // A hole, which a patch of the file leaves.
        if (below(6) === 0) {
          await session.fs.promises.truncate('/a', content.length >> 1)
          await session.fs.promises.truncate('/a', content.length)
        }
        if (below(2) === 0) session.fs.writeFileSync('/a', content)
        else await write(content)
        expect((await read()).equals(content), `run ${run}, step ${step}`).toBe(true)
      }
    }
    await engine.collect()
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })

  test.runIf(shares && lasting)('stores little in each of 12 engines', async () => {
    const content = randomBytes(mebibyte, 'note')
    await write(content)
    const before = await storedBytes()
    for (let i = 0; i < 12; i++) {
      await engine.close()
      engine = await openEngine({ storage })
      session = await engine.sessions.open(session.id)
      content.writeUInt8(content.readUInt8(i * 70_000) ^ 1, i * 70_000)
      await write(content)
    }
    expect((await storedBytes()) - before).toBe(12)
    expect((await read()).equals(content)).toBe(true)
  })

  /** Replaces, inserts or removes a random range, or repeats a part of the content. */
  function changed(content: Buffer, below: (count: number) => number): Buffer {
    const at = below(content.length + 1)
    const length = below([2, 100, 70_000][below(3)]!)
    const inserted = randomBytes(below(2) === 0 ? length : below(1000), `${at} ${length}`)
    if (below(8) === 0) return Buffer.concat([content, content.subarray(0, length)])
    if (below(8) === 0) return Buffer.alloc(content.length, below(3))
    return Buffer.concat([
      content.subarray(0, at),
      inserted,
      content.subarray(at + (below(3) === 0 ? 0 : length)),
    ])
  }
})

describe('a file whose old content', () => {
  test('is lost can be written', async () => {
    const memory = memoryStorage({ durable: true })
    const lost = new Set<string>()
    const storage: Storage = {
      open: async () => {
        const store = await memory.open()
        const [read, readSync] = [store.blob.bind(store), store.blobSync!.bind(store)]
        return Object.assign(store, {
          blob: async (...[hash, range]: Parameters<typeof read>) =>
            lost.has(hash) ? undefined : read(hash, range),
          blobSync: (...[hash, range]: Parameters<typeof read>) =>
            lost.has(hash) ? undefined : readSync(hash, range),
        })
      },
    }
    await using engine = await openEngine({ storage })
    const { files } = await engine.sessions.create()
    const content = randomBytes(mebibyte, 'lost')
    await files.write({ path: '/a', content })
    lost.add(contentHash(content).slice('sha256:'.length))
    await expect(files.read({ path: '/a' })).rejects.toMatchObject({ reason: 'DATA_LOSS' })
    content.writeUInt8(content.readUInt8(0) ^ 1, 0)
    await files.write({ path: '/a', content })
    expect(content.equals(await files.read({ path: '/a' }))).toBe(true)
  })

  test('is stored remotely is not compared, even while it is in memory', async () => {
    await using engine = await openEngine({ storage: memoryStorage({ durable: true, syncReads: false }) })
    const { files } = await engine.sessions.create()
    const content = randomBytes(limits.sharedFileBytes, 'remote')
    const saves: Promise<void>[] = []
    for (let i = 0; i < 5; i++) {
      content.writeUInt8(content.readUInt8(i) ^ 1, i)
      saves.push(files.write({ path: '/a', content }))
    }
    await Promise.all(saves)
    expect((await engine.usage.metrics()).logicalBytes).toBe(5 * content.length)
  })

  test('was written by the same batch is compared once, even if each write has a condition', async () => {
    let compared = 0
    const authorize = (_caller: unknown, action: string): boolean => {
      if (action === 'readFile') compared++
      return true
    }
    await using engine = await openEngine({ storage: memoryStorage({ durable: true }), authorize })
    const { files } = await engine.sessions.create()
    let content = randomBytes(limits.sharedFileBytes, 'note')
    await files.write({ path: '/a', content })
    const operations = []
    for (let i = 0; i < 20; i++) {
      const expectedHash = contentHash(content)
      content = Buffer.from(content)
      content.writeUInt8(content.readUInt8(i * 1000) ^ 1, i * 1000)
      operations.push({ write: { path: '/a', content, expectedHash } })
    }
    await files.batch(operations)
    expect(compared).toBe(20)
    expect(content.equals(await files.read({ path: '/a' }))).toBe(true)
  })

  test('the caller may not read is not compared, so a budget shows no part of a guess', async () => {
    const secret = randomBytes(100 * kibibyte, 'secret')
    const denied = { authorize: (_caller: unknown, action: string) => action !== 'readFile' }
    for (const options of [{}, denied]) {
      await using engine = await openEngine({
        storage: memoryStorage({ durable: true }),
        budgets: { sessionBytes: 150 * kibibyte },
        ...options,
      })
      const session = await engine.sessions.create()
      await session.files.write({ path: '/a', content: secret })
      const guess = Buffer.from(secret)
      guess.writeUInt8(guess.readUInt8(5) ^ 1, 5)
      const write = { path: '/a', content: guess }
      const writer = 'authorize' in options ? session : session.narrow({ without: ['files.read'] })
      await expect(writer.files.write(write)).rejects.toMatchObject({ reason: 'BUDGET' })
      await expect(writer.files.batch([{ write }])).rejects.toMatchObject({ reason: 'BUDGET' })
      await expect(writer.fs.promises.writeFile('/a', guess)).rejects.toMatchObject({ code: 'EDQUOT' })
      if (writer !== session) await session.files.write(write)
    }
  })
})

function contentHash(content: Uint8Array): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`
}
