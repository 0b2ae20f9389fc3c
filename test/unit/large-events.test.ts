import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { parseEventHead, parseEventText } from '../../src/engine/storage/event-text.js'
import type { Store } from '../../src/engine/ports.js'
import { Tree } from '../../src/engine/tree/tree.js'
import { wrapped } from '../../src/engine/storage/wrapped-store.js'
import { limits, memoryStorage, openEngine, type Session, type Storage } from '../../src/index.js'
import { isLong } from '../support/seed.js'
import { turnsOf } from '../support/turns.js'

let directory: string
beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), 'large-events-'))))
afterAll(() => rm(directory, { recursive: true, force: true }))

/** A storage that reports the numbers of the events in each page that it reads. */
function watched(storage: Storage): { readonly storage: Storage; readonly pages: number[][] } {
  const pages: number[][] = []
  const open = async (...parameters: Parameters<Storage['open']>): Promise<Store> => {
    const store = await storage.open(...parameters)
    return wrapped(store, {
      async *events(...range) {
        for await (const page of store.events(...range)) {
          pages.push(page.map(({ seq }) => seq))
          yield page
        }
      },
    })
  }
  return { storage: { ...storage, open }, pages }
}

/** Writes many files as one event. */
async function writeMany(session: Session, directoryName: string, count: number): Promise<void> {
  await session.files.batch(
    Array.from({ length: count }, (_, i) => ({ write: { path: `/${directoryName}/${i}`, content: '' } })),
  )
}

test.runIf(isLong)(
  'an undo reads no more events than it undoes, and a longer walk reads bounded windows',
  async () => {
    const { storage, pages } = watched(memoryStorage({ durable: true }))
    const engine = await openEngine({ storage })
    const session = await engine.sessions.create()
    const count = 40
    for (let i = 0; i < count; i++) await writeMany(session, `${i}`, 1000)
    pages.length = 0
    expect(await session.undo({ dryRun: true })).toMatchObject({ count: 1 })
    const newest = Math.max(...pages.flat())
    expect(pages[0]).toEqual([newest])
    pages.length = 0
    expect(await session.undo({ dryRun: true, count })).toMatchObject({ count })
    // Each event has a little over 1,000 effects.
    const most = Math.ceil(limits.effectsPerRead / 1000)
    const windows = pages.slice(0, pages.findIndex((page) => page.includes(newest - count + 1)) + 1)
    expect(windows.length).toBeGreaterThan(2)
    for (const window of windows) expect(window.length).toBeLessThanOrEqual(most)
    await engine.close()
  },
)

test('a state after a large event is computed in many turns', async () => {
  const engine = await openEngine({ storage: memoryStorage({ durable: true }) })
  const session = await engine.sessions.create()
  await writeMany(session, 'a', 10_000)
  const { lastEventId } = await session.events.verify()
  await session.files.write({ path: '/b', content: '' })
  const turns = await turnsOf(async () => {
    const state = await session.at({ eventId: lastEventId })
    expect(await state.fs.promises.readdir('/a')).toHaveLength(10_000)
  })
  expect(turns).toBeGreaterThanOrEqual(10_000 / limits.effectsPerTurn)
  await engine.close()
})

test.each([false, true])(
  'the effects of a large merge are applied in many turns, durable: %s',
  async (durable) => {
    const storage = memoryStorage({ durable })
    let engine = await openEngine({ storage })
    let session = await engine.sessions.create({ files: { '/old': '' } })
    const fork = await session.fork()
    await writeMany(fork, 'a', 10_000)
    await fork.files.rename({ sourcePath: '/old', destinationPath: '/new' })
    const changes = session.watch({ debounceMs: 1 })
    const put = vi.spyOn(Tree.prototype, 'put')
    onTestFinished(() => put.mockRestore())
    let most = 0
    let isOver = false
    const turn = (): void => {
      most = Math.max(most, put.mock.calls.length)
      put.mockClear()
      if (!isOver) setImmediate(turn)
    }
    turn()
    expect(await session.merge(fork)).toMatchObject({ changeCount: 10_003, conflicts: [] })
    isOver = true
    // Two parts may come in one turn of the test.
    expect(most).toBeLessThanOrEqual(2 * limits.effectsPerTurn)
    expect((await changes.next()).done).toBe(false)
    await changes.return?.()
    const { manifestHash } = await fork.manifest()
    expect((await session.manifest()).manifestHash).toBe(manifestHash)
    await session.files.write({ path: '/after', content: '' })
    await session.undo()
    const { headHash } = await session.events.verify()
    await engine.close()
    if (!durable) return
    engine = await openEngine({ storage })
    session = await engine.sessions.open(session.id)
    expect((await session.manifest()).manifestHash).toBe(manifestHash)
    expect((await session.events.verify()).headHash).toBe(headHash)
    await engine.close()
  },
)

test('an open file follows its moves and removals in a large merge', async () => {
  await using engine = await openEngine({ storage: memoryStorage({ durable: true }) })
  const session = await engine.sessions.create({ files: { '/moved': 'moved', '/gone': 'gone' } })
  const fork = await session.fork()
  await writeMany(fork, 'a', 2 * limits.effectsPerTurn)
  await fork.files.rename({ sourcePath: '/moved', destinationPath: '/new' })
  await fork.files.delete({ path: '/gone' })
  // The merge moves a file that this side has changed.
  await session.files.write({ path: '/moved', content: 'here' })
  await using moved = await session.fs.promises.open('/moved', 'r+')
  await using gone = await session.fs.promises.open('/gone', 'r')
  await session.merge(fork)
  await moved.writeFile('changed')
  expect(await session.fs.promises.readFile('/new', 'utf8')).toBe('changed')
  expect(await gone.readFile('utf8')).toBe('gone')
})

test('the links of a large event and of many events are verified in many turns', async () => {
  const engine = await openEngine({ storage: memoryStorage({ durable: true }) })
  const session = await engine.sessions.create()
  await writeMany(session, 'a', 10_000)
  expect(await turnsOf(() => session.events.verify())).toBeGreaterThanOrEqual(10_000 / limits.effectsPerTurn)
  for (let i = 0; i < limits.eventsPerRead * 3; i++)
    await session.files.setAttributes({ path: '/a', mode: i % 2 === 0 ? 0o700 : 0o755 })
  expect(await turnsOf(() => session.events.list({ pageSize: limits.pageSizeMax }))).toBeGreaterThanOrEqual(3)
  await engine.close()
})

test('a collection replaces the effects of a large event in many turns', async () => {
  let turns = 0
  let readAt = 0
  let replacedAt = 0
  const inner = memoryStorage({ durable: true })
  const storage: Storage = {
    open: async () => {
      const store = await inner.open()
      return wrapped(store, {
        async *events(...range) {
          for await (const page of store.events(...range)) {
            readAt = turns
            yield page
          }
        },
        commit: (commit) => {
          if (commit.replaceEvents !== undefined) replacedAt = turns
          return store.commit(commit)
        },
      })
    },
  }
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  await writeMany(session, 'a', 10_000)
  const { headHash } = await session.events.verify()
  let isOver = false
  const turn = (): void => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  turn()
  const { prunedEvents } = await engine.collect()
  isOver = true
  expect(prunedEvents).toBe(1)
  expect(replacedAt - readAt).toBeGreaterThanOrEqual(10_000 / limits.effectsPerTurn)
  expect((await session.events.verify()).headHash).toBe(headHash)
  await engine.close()
})

test.runIf(isLong)('a page of stored events has a bounded size', async () => {
  const { storage, pages } = watched(levelStorage(join(directory, 'pages')))
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  for (let i = 0; i < 40; i++) await writeMany(session, `${i}`, 2000)
  pages.length = 0
  const { eventCount } = await session.events.verify()
  expect(pages.flat()).toEqual(Array.from({ length: eventCount }, (_, i) => i + 1))
  // An event has more than 2,000 effects of at least 25 bytes.
  for (const page of pages) expect(page.length).toBeLessThanOrEqual(1 + limits.scannedBytes / (2000 * 25))
  await engine.close()
})

test('the text of a large event is parsed in many turns, to the same value', async () => {
  const names = ['a', '],[', ']],[', '"],["', '\\],["', ',[["', ']]', 'é\u2028', '']
  const effects = Array.from({ length: 15_000 }, (_, i) => [
    'w',
    `/${i}${names[i % names.length]}`,
    420,
    i,
    i % 3 === 0 ? 0 : [`${i}`.padStart(64, '0'), 5],
  ])
  effects.splice(7500, 0, [
    'p',
    '/p',
    9,
    [
      [0, 1, ['h', 1], 0],
      [1, 1, ['],[', 1], 0],
    ] as never,
  ])
  for (const details of [{}, { paths: ['],["', ',[["'], message: '[["],["' }, { a: [[['x']], [['"]']]] }]) {
    const event = [1, 'v1.FileSystemService.ApplyBatch', details, 'me', 'link', effects]
    const text = JSON.stringify(event)
    let parsed: unknown
    const turns = await turnsOf(async () => (parsed = await parseEventText(text)))
    expect(JSON.stringify(parsed)).toBe(text)
    expect(turns).toBeGreaterThanOrEqual(Math.floor(text.length / (2 * limits.parsedPerTurn)))
    expect(parseEventHead(text)).toEqual(event.slice(0, -1))
    const small = [...event.slice(0, -1), effects.slice(0, 3)]
    expect(parseEventHead(JSON.stringify(small))).toEqual(small)
    expect(() => parseEventHead(`${text.slice(0, -1)}x`)).toThrow(SyntaxError)
    for (const damaged of [
      text.slice(0, -1),
      `${text}]`,
      text.replace('"w"', '"w'),
      `${text.slice(0, -2)},]]`,
    ])
      await expect(parseEventText(damaged)).rejects.toThrow(SyntaxError)
  }
})

test('another text than that of an event is parsed as a whole', async () => {
  const long = 'x'.repeat(limits.parsedPerTurn)
  for (const value of [
    long,
    [long],
    [[['a', long]], 1],
    { a: [1, [['b', long]]] },
    [1, [['],['], [long]], [['c']]],
  ])
    expect(await parseEventText(JSON.stringify(value))).toEqual(value)
  expect(parseEventHead(JSON.stringify([long]))).toEqual([long])
})
