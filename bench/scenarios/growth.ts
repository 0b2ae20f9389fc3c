import { openEngine, type Engine, type Session } from 'forkspace'
import { expect, race, type Contestant } from '../support/measure.js'
import { filesOf, projectPaths, shuffled } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Context, Growing, Row, Scenario } from '../support/scenario.js'
import { TreeOperations } from '../support/trees.js'

/** The cost of operations against the number of files, forks and events. `--chart` draws it. */
export const growth: Scenario = {
  name: 'growth',
  title: 'Cost against size, in memory',
  async *run(context) {
    for (const size of context.files) yield* rows(context, 'files', size, byFiles)
    for (const size of sizes(context, [1, 100, 10_000])) {
      yield* rows(context, 'forks', size, byForks)
      yield* rows(context, 'forks', size, oneMoreFork)
    }
    for (const size of sizes(context, [1, 1000, 1_000_000])) yield* rows(context, 'events', size, byEvents)
  },
}

/** The sizes, at most 200 in a smoke run. */
function sizes({ smoke }: Context, full: readonly number[]): readonly number[] {
  return smoke ? full.map((size) => Math.min(size, 200)) : full
}

type Contestants = Readonly<Record<string, Contestant>>

async function* rows(
  context: Context,
  axis: Growing['axis'],
  size: number,
  contestants: (engine: Engine, size: number, context: Context) => Promise<Contestants>,
): AsyncGenerator<Row> {
  await using engine = await openEngine()
  const all = await contestants(engine, size, context)
  const timings = await race(all, { rounds: context.rounds, warmUps: 2 })
  for (const [operation, ours] of Object.entries(timings)) {
    const what = `${operation}, ${size.toLocaleString('en')} ${axis}`
    yield { ...timingRow({ what, ours }), growing: { operation, axis, size } }
  }
}

async function byFiles(engine: Engine, size: number, context: Context): Promise<Contestants> {
  const paths = projectPaths(size)
  const session = await engine.sessions.create({ files: filesOf(paths) })
  const tree = await TreeOperations.of(session, paths)
  return {
    fork: tree.fork(context.count(1000)),
    'write of one file': tree.firstWrite(context.count(500)),
    'read of one file': reads(await session.fork(), paths, context.count(2000)),
    checkpoint: await tree.checkpoint(context.count(1000)),
    restore: await tree.restore(context.count(1000)),
    'rename of the root': await tree.renameAll(context.count(200)),
    'diff of 10 changes': tree.diff(context.count(50), 10),
    'hash after one write': tree.manifestHash(context.count(200)),
  }
}

function reads(session: Session, paths: readonly string[], count: number): Contestant {
  const chosen = shuffled(paths).slice(0, count)
  return {
    count: chosen.length,
    run: async () => {
      let bytes = 0
      for (const path of chosen) bytes += (await session.fs.promises.readFile(path)).length
      expect(bytes > 20 * chosen.length, 'the files are too short')
    },
  }
}

/** How many of the forks have a rank. */
function ranked(forks: number, rank: number): number {
  return Math.ceil((forks - rank) / 100)
}

/** Forks of one parent, with a changed file each. Their tag `rank` is from 0 to 99. */
async function forked(engine: Engine, size: number): Promise<{ parent: Session; forks: readonly Session[] }> {
  const parent = await engine.sessions.create({ files: filesOf(projectPaths(1000)) })
  const forks: Session[] = []
  for (let index = 0; index < size; index++) {
    const fork = await parent.fork({ newTags: { rank: String(index % 100) } })
    await fork.fs.promises.writeFile('/own.txt', `fork ${index}\n`)
    forks.push(fork)
  }
  return { parent, forks }
}

async function byForks(engine: Engine, size: number, context: Context): Promise<Contestants> {
  const { forks } = await forked(engine, size)
  const chosen = Array.from({ length: context.count(1000) }, (_, index) => forks[(index * 7919) % size]!)
  const pages = context.count(50)
  return {
    'write in a fork': {
      count: chosen.length,
      run: async () => {
        for (const [index, fork] of chosen.entries())
          await fork.fs.promises.writeFile('/own.txt', `again ${index}\n`)
      },
    },
    'opening by id': {
      count: chosen.length,
      run: async () => {
        for (const { id } of chosen) await engine.sessions.open(id)
      },
    },
    'page of 100 sessions': {
      count: pages,
      run: async () => {
        for (let i = 0; i < pages; i++) {
          const { sessions } = await engine.sessions.list({ pageSize: 100 })
          expect(sessions.length >= Math.min(100, size), 'sessions are missing')
        }
      },
    },
    'page of 10 sessions with a tag': {
      count: pages,
      run: async () => {
        for (let i = 0; i < pages; i++) {
          const { sessions } = await engine.sessions.list({ filter: `rank=${i % 100}`, pageSize: 10 })
          expect(sessions.length === Math.min(10, ranked(size, i % 100)), 'the filter is wrong')
        }
      },
    },
    'all sessions with a tag': {
      count: 1,
      run: async () => {
        const { sessions } = await engine.sessions.list({ filter: 'rank=0', pageSize: 10_000 })
        expect(sessions.length === ranked(size, 0), 'the filter is wrong')
      },
    },
  }
}

/** Apart from the lists, which pass over the deleted forks until a collection. */
async function oneMoreFork(engine: Engine, size: number, context: Context): Promise<Contestants> {
  const { parent } = await forked(engine, size)
  return { 'one more fork': (await TreeOperations.of(parent, ['/none'])).fork(context.count(1000)) }
}

/** One session of 1,000 files, in which one file was written again and again. */
async function byEvents(engine: Engine, size: number, context: Context): Promise<Contestants> {
  const paths = projectPaths(1000)
  const session = await engine.sessions.create({ files: filesOf(paths) })
  const { promises } = session.fs
  let written = 0
  const write = (): Promise<void> => promises.writeFile('/log.txt', `line ${written++}\n`)
  await write()
  await session.checkpoint({ checkpointLabel: 'first' })
  while (written < size) await write()
  return {
    'write of one file': {
      count: context.count(1000),
      run: async () => {
        for (let i = 0; i < context.count(1000); i++) await write()
      },
    },
    'undo of the last write': {
      count: context.count(200),
      prepare: async () => {
        for (let i = 0; i < context.count(200); i++) await write()
      },
      run: async () => {
        for (let i = 0; i < context.count(200); i++) await session.undo()
      },
    },
    'page of 100 events': {
      count: context.count(50),
      run: async () => {
        for (let i = 0; i < context.count(50); i++) await session.events.list({ pageSize: 100 })
      },
    },
    'read of the first state': {
      count: context.count(200),
      run: async () => {
        for (let i = 0; i < context.count(200); i++) {
          const first = await session.at({ checkpointLabel: 'first' })
          const text = await first.fs.promises.readFile('/log.txt', 'utf8')
          expect(text === 'line 0\n', 'the first state is wrong')
        }
      },
    },
    fork: (await TreeOperations.of(session, paths)).fork(context.count(1000)),
    'counts of operations': {
      count: context.count(20),
      prepare: write,
      run: async () => {
        for (let i = 0; i < context.count(20); i++) await session.analytics()
      },
    },
  }
}
