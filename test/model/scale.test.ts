import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { env, stdout } from 'node:process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { limits, memoryStorage, openEngine, type Session } from '../../src/index.js'
import { size } from '../support/seed.js'
import { ObservedStorage } from './observed-storage.js'

/** Scales the amount of work. The assertions are about counts, so they hold at any size. */
const scale = Number(env['FORKSPACE_SCALE'] ?? size)
const pairs = Math.ceil(10_000 * scale)
const forks = Math.ceil(10_000 * scale)
const memoryForks = Number(env['FORKSPACE_MEMORY_FORKS'] ?? Math.ceil(10_000 * scale))
const files = Math.ceil(100_000 * scale)

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'scale-'))
})

afterEach(() => rm(directory, { recursive: true }))

describe(`${pairs} pairs of checkpoint and restore`, () => {
  test.each([
    [
      'on level, closed',
      () => new ObservedStorage(levelStorage(directory, { durability: 'relaxed' })),
      'close',
    ],
    [
      'on level, not closed',
      () => new ObservedStorage(levelStorage(directory, { durability: 'relaxed' })),
      'crash',
    ],
    [
      'in durable memory, not closed, without any snapshot',
      () => new ObservedStorage(memoryStorage({ durable: true }), { dropSnapshots: true }),
      'crash',
    ],
  ] as const)('are each read only once, %s', { timeout: 120_000 }, async (_, make, end) => {
    const storage = make()
    let engine = await openEngine({ storage })
    let session = await engine.sessions.create({ files: { '/a': 'start' } })
    for (let i = 0; i < pairs; i++) {
      await Promise.all([
        session.files.write({ path: '/a', content: `${i}` }),
        i % 10 === 0 && session.files.write({ path: `/${i}`, content: '' }),
      ])
      await session.checkpoint({ checkpointLabel: `${i}` })
      // Always restores an older state than the last one; every thousandth time the first.
      await session.restore({ checkpointLabel: i % 1000 === 999 ? '0' : `${Math.max(0, i - 3)}` })
    }
    const expected = await tree(session)
    const written = storage.eventsWritten
    await (end === 'close' ? engine.close() : storage.crash())

    storage.reset()
    engine = await openEngine({ storage })
    session = await timed(`open after ${written} events, ${end}`, () => engine.sessions.open(session.id))
    report(`events read ${storage.eventsRead} of ${written}`)
    const bound = end === 'close' ? 0 : written
    expect(storage.eventsRead).toBeLessThanOrEqual(bound)
    expect(await tree(session)).toBe(expected)

    const snapshots = storage.recordsRead.get('r') !== undefined
    for (let i = 0; i < pairs; i += Math.ceil(pairs / 7)) {
      storage.reset()
      await session.restore({ checkpointLabel: `${i}` })
      expect(Buffer.from(await session.files.read({ path: '/a' })).toString()).toBe(`${i}`)
      expect(storage.eventsRead).toBeLessThanOrEqual(
        snapshots ? written / 2 + 4 * limits.eventsPerSnapshot : written,
      )
    }
    await engine.close()
  })
})

describe('a chain of forks', () => {
  test.each([
    [
      'on level, closed',
      forks,
      () => new ObservedStorage(levelStorage(directory, { durability: 'relaxed' })),
      'close',
    ],
    [
      'on level, not closed',
      forks,
      () => new ObservedStorage(levelStorage(directory, { durability: 'relaxed' })),
      'crash',
    ],
    // A scan of memory visits every record, so the cost grows quadratically.
    [
      'in durable memory, not closed',
      memoryForks,
      () => new ObservedStorage(memoryStorage({ durable: true })),
      'crash',
    ],
  ] as const)('opens without recursion, %s, %i forks', { timeout: 120_000 }, async (_, count, make, end) => {
    const storage = make()
    let engine = await openEngine({ storage })
    let session = await engine.sessions.create({ files: { '/a': 'start' } })
    const written: string[] = ['/a']
    for (let i = 0; i < count; i++) {
      session = await session.fork()
      if (i % 100 > 0) continue
      await session.files.write({ path: `/${i}`, content: `${i}` })
      written.push(`/${i}`)
    }
    const expected = await tree(session)
    const events = storage.eventsWritten
    await timed(`${end} of ${count} forks`, () => (end === 'close' ? engine.close() : storage.crash()))

    storage.reset()
    engine = await openEngine({ storage })
    session = await timed(`open a chain of ${count} forks, ${end}`, () => engine.sessions.open(session.id))
    report(
      `events read ${storage.eventsRead} of ${events}, records ${JSON.stringify([...storage.recordsRead])}`,
    )
    expect(storage.eventsRead).toBeLessThanOrEqual(events)
    expect([...storage.recordsRead.values()].reduce((sum, read) => sum + read, 0)).toBeLessThanOrEqual(
      3 * count + 20,
    )
    expect(await tree(session)).toBe(expected)
    expect(
      (await session.manifest({ pageSize: limits.pageSizeMax })).nodes.map(({ path }) => path).toSorted(),
    ).toEqual(written.toSorted())
    await engine.close()
  })
})

test(`one write in a fork of ${files} files touches few nodes`, { timeout: 120_000 }, async () => {
  const storage = new ObservedStorage(memoryStorage({ durable: true }))
  let engine = await openEngine({ storage })
  let session = await engine.sessions.create()
  // Half of them in one directory, the others in directories of 500.
  for (let done = 0; done < files; done += limits.batchOperations) {
    const count = Math.min(limits.batchOperations, files - done)
    await session.files.batch(
      Array.from({ length: count }, (_, i) => ({
        write: { path: pathOf(done + i), content: `${done + i}` },
      })),
    )
  }
  await session.manifest({ pageSize: 1 })
  await timed(`close after ${files} files`, () => engine.close())

  engine = await openEngine({ storage })
  session = await engine.sessions.open(session.id)
  storage.reset()
  const fork = await session.fork()
  expect(storage.nodesRead).toBe(0)
  const [deep, flat] = [pathOf(files - 1), pathOf(files - 2)]
  const modified = [deep, flat]
  for (const [path, bound] of [
    [deep, 6],
    [flat, 3],
    ['/new/file', 0],
  ] as const) {
    storage.reset()
    await fork.files.write({ path, content: 'changed' })
    const written = storage.nodesRead
    const paths = await fork.diff(session).paths()
    report(`${path}: ${written} nodes for the write, ${storage.nodesRead} with the diff`)
    expect(storage.nodesRead).toBeLessThanOrEqual(bound)
    expect(storage.eventsRead).toBe(0)
    expect(paths.removed).toEqual([])
    expect(paths.modified).toEqual(modified.filter((one) => path !== deep || one === deep))
    expect(paths.added).toEqual(path === '/new/file' ? ['/new', path] : [])
  }
  storage.reset()
  await fork.manifest({ pageSize: 1 })
  report(`${storage.nodesRead} nodes for the hash of the whole`)
  expect(storage.nodesRead).toBeLessThanOrEqual(10)
  const before = storage.recordsWritten
  await engine.close()
  report(`${storage.recordsWritten - before} records written by the close`)
  expect(storage.recordsWritten - before).toBeLessThanOrEqual(12)
})

function pathOf(index: number): string {
  return index % 2 === 0 ? `/flat/${index}` : `/deep/${Math.floor(index / 1000)}/${index}`
}

async function tree(session: Session): Promise<string> {
  return (await session.manifest({ pageSize: 1 })).manifestHash
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const start = performance.now()
  const result = await work()
  report(`${what}: ${Math.round(performance.now() - start)} ms`)
  return result
}

function report(line: string): void {
  stdout.write(`  ${line}\n`)
}
