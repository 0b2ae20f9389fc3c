import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openEngine, type Checkpoint, type Engine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import type { Store } from '../peers/contender.js'
import { findContender } from '../peers/find-contender.js'
import { NotInstalled } from '../peers/packages.js'
import { race, type Contestant } from '../support/measure.js'
import { contents } from '../support/project-files.js'
import { RawLevel, type Durability } from '../support/raw-level.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'
import { saves } from './saves.js'

const writers = 64
/** Contenders that also wait for the disk at each write: the limit, and a database. */
const otherLogs = ['limit: pwrite and fdatasync', 'better-sqlite3 WAL, FULL']

/** The cost of one acknowledged operation on disk, compared with one raw put. */
export const durable: Scenario = {
  name: 'durable',
  title:
    'Acknowledged operations on disk, compared with raw puts of 200 B by classic-level, and with other logs',
  async *run(context) {
    for (const durability of ['relaxed', 'full'] as const) yield* atDurability(context, durability)
    yield* saves(context)
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
    const concurrent = await race(await concurrentWriters(engine, () => raw.put(), together), {
      rounds: context.rounds,
    })
    yield timingRow({
      what: `writes by ${writers} writers, ${durability}`,
      ours: concurrent.ours,
      peer: { name: 'raw puts', timing: concurrent.raw },
      perSecond: true,
    })
  } finally {
    await raw.close()
  }
  if (durability === 'full') for (const name of otherLogs) yield* besideLog(context, engine, name)
}

/** Single writes, and those of many writers, compared with the same writes to another log on the same disk. */
async function* besideLog(context: Context, engine: Engine, name: string): AsyncGenerator<Row> {
  const directory = join(context.directory, name.replaceAll(/\W+/g, '-'))
  await mkdir(directory)
  let log: Store
  try {
    log = await (await findContender(name)).open(directory)
  } catch (error) {
    if (!(error instanceof NotInstalled)) throw error
    return
  }
  try {
    const peer = name.replace('limit: ', '')
    const workspace = await log.create()
    const session = await engine.sessions.create()
    const bodies = contents(64, 1024)
    let number = 0
    const next = (): readonly [string, Buffer] => [`/file-${++number}`, marked(bodies[number % 64]!, number)]
    const ours = async (): Promise<unknown> => session.fs.promises.writeFile(...next())
    const theirs = async (): Promise<unknown> => workspace.write!(...next())
    const single = await race(
      { ours: inTurn(context.count(200), ours), theirs: inTurn(context.count(200), theirs) },
      { rounds: context.rounds, warmUps: 2 },
    )
    yield timingRow({ what: 'write, full', ours: single.ours, peer: { name: peer, timing: single.theirs } })
    const many = await concurrentWriters(engine, theirs, context.count(6400), context.count(640))
    const together = await race(many, { rounds: context.rounds })
    yield timingRow({
      what: `writes by ${writers} writers, full`,
      ours: together.ours,
      peer: { name: peer, timing: together.raw },
      perSecond: true,
    })
  } finally {
    await log.close()
  }
}

function inTurn(count: number, operation: () => Promise<unknown>): Contestant {
  return {
    count,
    run: async () => {
      for (let i = 0; i < count; i++) await operation()
    },
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
  put: () => Promise<unknown>,
  count: number,
  puts = count,
): Promise<Record<'ours' | 'raw', Contestant>> {
  const sessions: Session[] = []
  for (let writer = 0; writer < writers; writer++) sessions.push(await engine.sessions.create())
  const bodies = contents(1024, 200)
  let first = 0
  const all = (
    count: number,
    write: (writer: number, number: number) => Promise<unknown>,
    share = Math.ceil(count / writers),
  ): Contestant => ({
    count: share * writers,
    run: async () => {
      const work = async (writer: number): Promise<void> => {
        for (let i = 0; i < share; i++) await write(writer, first + i)
      }
      await Promise.all(sessions.map((_, writer) => work(writer)))
      first += share
    },
  })
  return {
    ours: all(count, (writer, number) => {
      const content = marked(bodies[number % 1024]!, number * writers + writer)
      return sessions[writer]!.fs.promises.writeFile(`/file-${number}`, content)
    }),
    raw: all(puts, put),
  }
}

/** Overwrites the first bytes with a number, so that every content is new. */
function marked(content: Buffer, number: number): Buffer {
  content.writeUInt32LE(number)
  return content
}
