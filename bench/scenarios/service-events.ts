import { join } from 'node:path'
import { memoryStorage, openEngine, type Session, type Storage } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { expect, race, type Contestant } from '../support/measure.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row } from '../support/scenario.js'

/** Appends of the smallest event, and pages of a long log in memory and on disk. */
export async function* events(context: Context): AsyncGenerator<Row> {
  yield* append(context)
  const storages: Record<string, Storage> = {
    memory: memoryStorage(),
    'disk (relaxed)': levelStorage(join(context.directory, 'events'), { durability: 'relaxed' }),
  }
  for (const [name, storage] of Object.entries(storages)) yield* pages(context, name, storage)
}

async function* append(context: Context): AsyncGenerator<Row> {
  const count = context.count(20_000)
  await using engine = await openEngine()
  let session: Session
  let list: object[] = []
  const timings = await race(
    {
      ours: {
        count,
        prepare: async () => {
          session = await engine.sessions.create({ files: { '/a': '' } })
        },
        run: async () => {
          for (let i = 0; i < count; i++) await session.files.setMode({ path: '/a', mode: i % 0o1000 })
        },
      },
      array: {
        count,
        prepare: async () => {
          list = []
        },
        run: async () => {
          for (let i = 0; i < count; i++) {
            list.push({ at: Date.now(), mode: i % 0o1000 })
            await Promise.resolve()
          }
          expect(list.length === count, 'events are missing')
        },
      },
    },
    { rounds: context.rounds },
  )
  yield timingRow({
    what: 'event: append',
    ours: timings.ours,
    peer: { name: 'Array.push, awaited', timing: timings.array },
    clock: 'cpu',
  })
}

async function* pages(context: Context, name: string, storage: Storage): AsyncGenerator<Row> {
  const count = context.count(1_000_000)
  await using engine = await openEngine({ storage })
  const session = await engine.sessions.create({ files: { '/a': '' } })
  const pending = 1000
  for (let done = 0; done < count; done += pending) {
    const calls = Array.from({ length: pending }, (_, i) =>
      session.files.setMode({ path: '/a', mode: (done + i) % 0o1000 }),
    )
    await Promise.all(calls)
  }
  const middle = await session.events.list({ pageSize: 10_000 })
  const { timestamp } = middle.events.at(-1)!
  const page = (request: object): Contestant => ({
    count: 1,
    run: async () => {
      const { events: found } = await session.events.list({ pageSize: 1000, ...request })
      expect(found.length > 0, 'the page is empty')
    },
  })
  const timings = await race(
    {
      first: page({}),
      next: page({ pageToken: middle.nextPageToken }),
      since: page({ startTime: timestamp }),
    },
    { rounds: context.rounds },
  )
  const log = `a log of ${count.toLocaleString('en')} events, ${name}`
  yield timingRow({ what: `first page of 1,000 in ${log}`, ours: timings.first, target: { atMost: 20 } })
  yield timingRow({ what: `page by token in ${log}`, ours: timings.next })
  yield timingRow({ what: `page by time in ${log}`, ours: timings.since })
}
