import { execFile } from 'node:child_process'
import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ClassicLevel } from 'classic-level'
import { openEngine } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { expect, race, Timing, type Contestant } from '../support/measure.js'
import { filesOf, projectPaths, projectRoot } from '../support/project-files.js'
import { RawLevel } from '../support/raw-level.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'
import { TreeOperations } from '../support/trees.js'

const durability = 'relaxed'
const eventsToReplay = 1000
/** Milliseconds. */
const targets = { checkpoint: 0.005, restore: 0.005, open: 0.5, replay: 41 }

/** Large trees on disk: acknowledged operations, and the cost of opening a store. */
export const treesOnDisk: Scenario = {
  name: 'trees-on-disk',
  title: 'Large trees on disk (relaxed)',
  async *run(context) {
    for (const size of context.files) yield* atSize(context, size)
  },
}

async function* atSize(context: Context, size: number): AsyncGenerator<Row> {
  const directory = join(context.directory, `files-${size}`)
  const paths = projectPaths(size)
  const named = (what: string): string => `${what}, ${size} files`
  let sessionId: string
  {
    await using engine = await openEngine({ storage: levelStorage(directory, { durability }) })
    const session = await engine.sessions.create({ files: filesOf(paths) })
    sessionId = session.id
  }
  // Runs first, while the store has only one session.
  yield* coldOpen(context, { directory, sessionId, size })

  await using engine = await openEngine({ storage: levelStorage(directory, { durability }) })
  const tree = await TreeOperations.of(await engine.sessions.open(sessionId), paths)
  const raw = await RawLevel.open(join(context.directory, `raw-${size}`), durability)
  try {
    const count = context.count(300)
    const { 'raw put': put, ...timings } = await race(
      {
        'raw put': raw.contestant(count),
        fork: tree.fork(count),
        checkpoint: await tree.checkpoint(count),
        restore: await tree.restore(count),
      },
      { rounds: context.rounds, warmUps: 2 },
    )
    const peer = { name: 'raw put', timing: put }
    for (const name of ['fork', 'checkpoint', 'restore'] as const) {
      const target = name === 'fork' ? undefined : { atMost: targets[name] }
      yield timingRow({ what: named(name), ours: timings[name], peer, target })
    }
  } finally {
    await raw.close()
  }
}

interface StoredTree {
  readonly directory: string
  readonly sessionId: string
  readonly size: number
}

async function* coldOpen(context: Context, stored: StoredTree): AsyncGenerator<Row> {
  const { directory, size } = stored
  const killed = `${directory}-killed`
  await cp(directory, killed, { recursive: true })
  await leaveEvents(killed, stored.sessionId)
  const bareCopy = `${directory}-bare`
  await cp(directory, bareCopy, { recursive: true })

  const clean = coldReader({ ...stored, directory }, projectPaths(size)[size >> 1]!)
  const replayed = coldReader(
    { ...stored, directory: `${killed}-copy` },
    `${projectRoot}/late/file-${eventsToReplay - 1}`,
  )
  const { bare, whole, wholeReplayed } = await race(
    {
      bare: bareOpen(join(bareCopy, 'index')),
      whole: clean.contestant,
      wholeReplayed: {
        ...replayed.contestant,
        // Closing writes a snapshot, so each round needs a new copy with events to replay.
        prepare: async () => {
          await rm(`${killed}-copy`, { recursive: true, force: true })
          await cp(killed, `${killed}-copy`, { recursive: true })
        },
      },
    },
    { rounds: context.rounds },
  )
  const peer = { name: 'raw open', timing: bare }
  const rounds = context.rounds
  const named = (what: string): string => `${what}, ${size} files`
  yield timingRow({ what: named('cold open to first read'), ours: whole, peer })
  yield timingRow({
    what: named('of that: open session, read file'),
    ours: clean.afterOpen(rounds),
    target: { atMost: targets.open },
    clock: 'none',
  })
  yield timingRow({ what: named(`cold open, ${eventsToReplay} events`), ours: wholeReplayed, peer })
  yield timingRow({
    what: named('of that: open session, read file'),
    ours: replayed.afterOpen(rounds),
    target: { atMost: targets.replay },
    clock: 'none',
  })
}

/** Opens a store and one of its sessions, and reads one file. */
function coldReader(
  { directory, sessionId }: StoredTree,
  path: string,
): { contestant: Contestant; afterOpen(rounds: number): Timing } {
  const walls: number[] = []
  let close: () => Promise<void>
  return {
    contestant: {
      count: 1,
      run: async () => {
        const engine = await openEngine({ storage: levelStorage(directory, { durability }) })
        const opened = performance.now()
        const session = await engine.sessions.open(sessionId)
        const content = await session.fs.promises.readFile(path, 'utf8')
        walls.push(performance.now() - opened)
        expect(content.length > 0, 'the file is empty')
        close = () => engine.close()
      },
      cleanUp: () => close(),
    },
    afterOpen: (rounds) => {
      const timing = new Timing()
      timing.wall.push(...walls.slice(-rounds))
      return timing
    },
  }
}

/** A lower bound: opens only the LevelDB database that is the lock of the store. */
function bareOpen(directory: string): Contestant {
  let db: ClassicLevel
  return {
    count: 1,
    run: async () => {
      db = new ClassicLevel(directory)
      await db.open()
    },
    cleanUp: () => db.close(),
  }
}

/** Writes in a process that is then killed. This leaves events that no snapshot covers. */
async function leaveEvents(directory: string, sessionId: string): Promise<void> {
  const script = join(import.meta.dirname, '../support/write-and-die.js')
  const args = [script, directory, sessionId, String(eventsToReplay)]
  try {
    await promisify(execFile)(process.execPath, args)
  } catch (error) {
    if ((error as { signal?: string }).signal === 'SIGKILL') return
    throw error
  }
  throw new Error('the writer was not killed')
}
