import { join } from 'node:path'
import { openEngine, type Checkpoint, type Engine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { race, type Contestant } from '../support/measure.js'
import { contents } from '../support/project-files.js'
import { RawLevel, type Durability } from '../support/raw-level.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const writers = 64

/** The cost of one acknowledged operation on disk, compared with one raw put. */
export const durable: Scenario = {
  name: 'durable',
  title: 'Acknowledged operations on disk, compared with raw puts of 200 B by classic-level',
  async *run(context) {
    for (const durability of ['relaxed', 'full'] as const) yield* atDurability(context, durability)
  },
}

async function* atDurability(context: Context, durability: Durability): AsyncGenerator<Row> {
  const storage = levelStorage(join(context.directory, durability), { durability })
  await using engine = await openEngine({ storage })
  const raw = await RawLevel.open(join(context.directory, `raw-${durability}`), durability)
  try {
    // A flush to disk takes long, so fewer operations are enough.
    const count = context.count(durability === 'full' ? 60 : 400)
    const timings = await race(
      { raw: raw.contestant(count), ...(await operations(engine, count)) },
      { rounds: context.rounds, warmUps: 2 },
    )
    const peer = { name: 'raw put', timing: timings.raw }
    for (const name of ['write', 'mkdir', 'checkpoint', 'restore', 'fork'] as const) {
      const target = name === 'write' && durability === 'relaxed' ? { speedAtLeast: 1 } : undefined
      yield timingRow({ what: `${name}, ${durability}`, ours: timings[name], peer, target })
    }
    const together = context.count(durability === 'full' ? 6400 : 25_600)
    const concurrent = await race(await concurrentWriters(engine, raw, together), { rounds: context.rounds })
    yield timingRow({
      what: `writes by ${writers} writers, ${durability}`,
      ours: concurrent.ours,
      peer: { name: 'raw puts', timing: concurrent.raw },
      perSecond: true,
    })
  } finally {
    await raw.close()
  }
}

type Operation = 'write' | 'mkdir' | 'checkpoint' | 'restore' | 'fork'

async function operations(engine: Engine, count: number): Promise<Record<Operation, Contestant>> {
  const session = await engine.sessions.create()
  const { promises } = session.fs
  const bodies = contents(1024, 200)
  let number = 0
  const repeat = (operation: (number: number) => Promise<unknown>): Contestant => ({
    count,
    run: async () => {
      for (let i = 0; i < count; i++) await operation(number++)
    },
  })
  await promises.mkdir('/written')
  await promises.mkdir('/made')
  const versions = await twoVersions(engine)
  const parent = await engine.sessions.create({ files: { '/a.txt': 'a' } })
  return {
    write: repeat((number) =>
      promises.writeFile(`/written/file-${number}`, marked(bodies[number % 1024]!, number)),
    ),
    mkdir: repeat((number) => promises.mkdir(`/made/directory-${number}`)),
    checkpoint: repeat(() => session.checkpoint()),
    restore: repeat((number) => versions.restore(number)),
    fork: repeat(() => parent.fork()),
  }
}

/** A session that alternates between two checkpoints. */
async function twoVersions(engine: Engine): Promise<{ restore(number: number): Promise<unknown> }> {
  const session = await engine.sessions.create()
  const checkpoints: Checkpoint[] = []
  for (const content of ['one', 'two']) {
    await session.files.write({ path: '/a.txt', content })
    checkpoints.push(await session.checkpoint())
  }
  return { restore: (number) => session.restore({ checkpointId: checkpoints[number % 2]!.id }) }
}

async function concurrentWriters(
  engine: Engine,
  raw: RawLevel,
  count: number,
): Promise<Record<'ours' | 'raw', Contestant>> {
  const sessions: Session[] = []
  for (let writer = 0; writer < writers; writer++) sessions.push(await engine.sessions.create())
  const bodies = contents(1024, 200)
  const share = Math.ceil(count / writers)
  let round = 0
  const all = (write: (writer: number, number: number) => Promise<void>): Contestant => ({
    count: share * writers,
    run: async () => {
      const first = share * round++
      const work = async (writer: number): Promise<void> => {
        for (let i = 0; i < share; i++) await write(writer, first + i)
      }
      await Promise.all(sessions.map((_, writer) => work(writer)))
    },
  })
  return {
    ours: all((writer, number) => {
      const content = marked(bodies[number % 1024]!, number * writers + writer)
      return sessions[writer]!.fs.promises.writeFile(`/file-${number}`, content)
    }),
    raw: all(() => raw.put()),
  }
}

/** Overwrites the first bytes with a number, so that every content is new. */
function marked(content: Buffer, number: number): Buffer {
  content.writeUInt32LE(number)
  return content
}
