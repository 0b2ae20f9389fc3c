/** Two engines that share a store on PostgreSQL make random changes to one session, against one model. */
import { describe, expect, test } from 'vitest'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { EngineError, limits, openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { runs, seed } from '../support/seed.js'

const paths = ['/a', '/b', '/c']
const rounds = 12
const callsPerRound = 12

type Files = Map<string, string>

/** A change of a session, and its effect on the model. */
interface Call {
  run(session: Session): Promise<unknown>
  /** Throws if the change is not possible. */
  apply(files: Files): void
}

describe.skipIf(!hasPostgres)('two engines', () => {
  test.each(['at once', 'in turns'])(
    `apply each acknowledged change once, in one order, batches planned %s (FORKSPACE_SEED=${seed})`,
    async (planned) => {
      if (planned === 'in turns') lowerBound(limits, 'stepsPerTurn', 1)
      const random = randomWords(seed)
      const { connectionString } = await sharedPostgres()
      for (let run = 0; run < runs(10); run++) {
        const schema = freshSchema()
        const open = (): Promise<Engine> =>
          openEngine({
            storage: postgresStorage({ connectionString, schema, shared: true, freshnessMillis: 5 }),
          })
        const engines = [await open(), await open()]
        const { id } = await engines[0]!.sessions.create({
          files: Object.fromEntries(paths.map((path) => [path, ''])),
        })
        const applied = await changeBoth(engines, id, random)
        expect(applied.size).toBeGreaterThan(0)
        await agree(applied, engines, id)
        for (const engine of engines) await engine.close()
      }
    },
  )
})

/** Makes random calls in both engines. Returns those that were acknowledged, by their principals. */
async function changeBoth(
  engines: readonly Engine[],
  sessionId: string,
  random: () => number,
): Promise<Map<string, Call>> {
  const applied = new Map<string, Call>()
  for (let round = 0; round < rounds; round++) {
    const pending: Promise<void>[] = []
    for (let i = 0; i < callsPerRound; i++) {
      const principal = `call-${round}-${i}`
      const call = randomCall(principal, random)
      const engine = engines[random() % engines.length]!
      const made = engine
        .as({ principal })
        .sessions.open(sessionId)
        .then((session) => call.run(session))
      pending.push(
        made.then(
          () => void applied.set(principal, call),
          (error: unknown) => {
            expect(error).toBeInstanceOf(EngineError)
            expect((error as EngineError).reason).toMatch(/^(PATH_NOT_FOUND|ALREADY_EXISTS|LOCK_HELD)$/)
          },
        ),
      )
      if (random() % 3 === 0) await pending.at(-1)
    }
    await Promise.all(pending)
  }
  return applied
}

function randomCall(content: string, random: () => number): Call {
  const [path, other] = [paths[random() % paths.length]!, paths[random() % paths.length]!]
  switch (random() % 5) {
    case 0:
      return {
        run: ({ files }) => files.write({ path, content }),
        apply: (files) => void files.set(path, content),
      }
    case 1:
      return {
        run: ({ files }) => files.delete({ path }),
        apply: (files) => {
          if (!files.delete(path)) throw new Error(`${path} does not exist`)
        },
      }
    case 2:
      return {
        run: (session) => session.checkpoint({ checkpointLabel: content }),
        apply: () => undefined,
      }
    case 3:
      return {
        run: ({ files }) =>
          files.batch([
            { write: { path: `${path}-${content}`, content } },
            { write: { path: other, content: `${content} batch` } },
          ]),
        apply: (files) => {
          files.set(`${path}-${content}`, content)
          files.set(other, `${content} batch`)
        },
      }
    default:
      return {
        run: ({ files }) => files.append({ path, content }),
        apply: (files) => void files.set(path, (files.get(path) ?? '') + content),
      }
  }
}

/** Requires that the events are those of the acknowledged calls, and that both engines have the files of the model. */
async function agree(
  applied: ReadonlyMap<string, Call>,
  engines: readonly Engine[],
  id: string,
): Promise<void> {
  const model: Files = new Map(paths.map((path) => [path, '']))
  const checks = await Promise.all(
    engines.map(async (engine) => {
      const session = await engine.sessions.open(id)
      const { events } = await session.events.list({ pageSize: 10_000 })
      await expect.poll(async () => (await session.events.verify({})).eventCount).toBe(events.length)
      return { session, events, headHash: (await session.events.verify({})).headHash }
    }),
  )
  const [first, second] = checks
  expect(first?.headHash).toBe(second?.headHash)
  const principals = (first?.events ?? []).slice(1).map(({ principal }) => principal)
  expect(principals.toSorted()).toEqual([...applied.keys()].toSorted())
  // The events have the order in which the changes took effect.
  for (const principal of principals) applied.get(principal)?.apply(model)
  for (const { session } of checks) {
    await expect.poll(() => filesOf(session)).toEqual(Object.fromEntries([...model].toSorted(byName)))
    const { checkpoints } = await session.listCheckpoints({ pageSize: 10_000 })
    expect(checkpoints.map(({ checkpointLabel }) => checkpointLabel)).toEqual(
      principals.filter(
        (_, index) => first?.events[index + 1]?.eventType.endsWith('CreateCheckpoint') === true,
      ),
    )
  }
}

async function filesOf({ fs }: Session): Promise<Record<string, string>> {
  const names = await fs.promises.readdir('/')
  const files: [string, string][] = await Promise.all(
    names.map(async (name) => [`/${name}`, await fs.promises.readFile(`/${name}`, 'utf8')]),
  )
  return Object.fromEntries(files.toSorted(byName))
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1
}
