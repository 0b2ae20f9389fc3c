/** Collections of a schema that other engines use meanwhile. */
import { afterEach, describe, expect, test } from 'vitest'
import { postgresStorage, type PostgresStorageOptions } from '../../src/adapters/postgres/index.js'
import { openEngine, type Engine, type EngineOptions, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { isLong, runs, seed } from '../support/seed.js'
import { SteppedStorage } from '../support/stepped-storage.js'

describe.skipIf(!hasPostgres)('a collection beside other engines', () => {
  const open: Engine[] = []
  afterEach(async () => {
    for (const engine of open.splice(0)) await engine.close()
  })

  async function storageOn(
    schema: string,
    options: Partial<PostgresStorageOptions> = {},
  ): Promise<SteppedStorage> {
    const { connectionString } = await sharedPostgres()
    return new SteppedStorage(
      postgresStorage({ connectionString, schema, shared: true, freshnessMillis: 1, ...options }),
    )
  }

  async function engineOn(storage: SteppedStorage, options: EngineOptions = {}): Promise<Engine> {
    const engine = await openEngine({ ...options, storage })
    open.push(engine)
    return engine
  }

  const write = (session: Session, path: string, content: string): Promise<void> =>
    session.fs.promises.writeFile(path, content)
  const read = (session: Session, path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

  test('deletes garbage of both engines, and nothing that either of them uses', async () => {
    const schema = freshSchema()
    const [a, b] = [await engineOn(await storageOn(schema)), await engineOn(await storageOn(schema))]
    const kept = await a.sessions.create({ files: { '/kept': 'kept', '/deep/er/file': 'deep' } })
    const gone = await b.sessions.create({ files: { '/gone': 'gone' } })
    const ofB = await b.sessions.open(kept.id)
    await write(ofB, '/b', 'from b')
    await gone.delete()
    expect(await a.collect()).toMatchObject({ deletedSessions: 1, deletedBlobs: 1 })
    expect(await read(ofB, '/deep/er/file')).toBe('deep')
    await write(ofB, '/b', 'again')
    expect(await read(kept, '/b')).toBe('again')
    expect(await b.check({ readData: true })).toMatchObject({ found: 0 })
    const server = await sharedPostgres()
    expect(await server.sql(`SELECT owner, stage FROM ${schema}.collections`)).toEqual([
      { owner: null, stage: 'none' },
    ])
  })

  test('of two engines at the same moment runs in one of them only', async () => {
    const schema = freshSchema()
    const steps = await storageOn(schema)
    const [a, b] = [await engineOn(steps), await engineOn(await storageOn(schema))]
    const held = steps.hold('listBlobs', () => true)
    const collected = a.collect()
    await held.reached
    await expect(b.collect()).rejects.toMatchObject({ reason: 'STORE_LOCKED' })
    held.release()
    await collected
    await expect(b.collect()).resolves.toMatchObject({ deletedSessions: 0 })
  })

  /** The files of the sessions, as they must be. */
  class Model {
    readonly sessions = new Map<string, Map<string, string>>()
    readonly checkpoints = new Map<string, Map<string, Map<string, string>>>()
  }

  test.each(Array.from({ length: runs(40) }, (_, n) => n))(
    'keeps what the random work of several engines uses: %i',
    { timeout: 600_000 },
    async (n) => {
      const random = randomWords(seed * 1000 + n)
      const pick = <T>(items: readonly T[], word = random()): T => items[word % items.length] as T
      const collectors = randomWords(seed + n)
      const schema = freshSchema()
      const engines: Engine[] = []
      for (let i = 0; i < 2 + (n % 2); i++)
        engines.push(await engineOn(await storageOn(schema), { memoryBudgetBytes: 2 ** 20 }))
      const model = new Model()
      let isOver = false
      let collections = 0
      const collecting = (async () => {
        while (!isOver) {
          await pick(engines, collectors()).collect()
          collections++
        }
      })()
      collecting.catch(() => undefined)
      const addSession = (session: Session, files: Map<string, string>): void => {
        model.sessions.set(session.id, new Map(files))
        model.checkpoints.set(session.id, new Map())
      }
      const names = ['/a', '/b', '/c/d', '/c/e/f', '/g/h', '/i']
      const steps = isLong ? 400 : 100
      for (let step = 0; step < steps || collections < 2; step++) {
        const engine = pick(engines)
        const ids = [...model.sessions.keys()]
        const kind = random() % 16
        if (ids.length === 0 || (kind === 0 && ids.length < 12)) {
          const files = new Map(names.slice(random() % 5).map((name) => [name, `new ${step} ${name}`]))
          addSession(await engine.sessions.create({ files: Object.fromEntries(files) }), files)
          continue
        }
        const id = pick(ids)
        const session = await engine.sessions.open(id)
        const files = model.sessions.get(id) as Map<string, string>
        const checkpoints = model.checkpoints.get(id) as Map<string, Map<string, string>>
        if (kind <= 2 && ids.length < 12) addSession(await session.fork(), files)
        else if (kind === 3 && ids.length > 3) {
          await session.delete()
          model.sessions.delete(id)
        } else if (kind === 4) {
          await session.checkpoint({ checkpointLabel: `c${step}` })
          checkpoints.set(`c${step}`, new Map(files))
        } else if (kind === 5 && checkpoints.size > 0) {
          const label = pick([...checkpoints.keys()])
          await session.restore({ checkpointLabel: label })
          model.sessions.set(id, new Map(checkpoints.get(label)))
        } else if (kind === 6 && checkpoints.size > 0) {
          const label = pick([...checkpoints.keys()])
          addSession(
            await session.fork({ checkpointLabel: label }),
            checkpoints.get(label) as Map<string, string>,
          )
        } else if (kind === 7 && checkpoints.size > 0) {
          const label = pick([...checkpoints.keys()])
          await session.deleteCheckpoint({ checkpointLabel: label })
          checkpoints.delete(label)
        } else if (kind === 8) {
          const before = new Map(files)
          await write(session, '/a', `undone ${step}`)
          await (await pick(engines).sessions.open(id)).undo({})
          model.sessions.set(id, before)
        } else if (kind === 9) {
          const name = pick(names)
          await session.fs.promises.rm(name, { force: true })
          files.delete(name)
        } else {
          const name = pick(names)
          // Contents that were garbage for a while are written again.
          const content = `${random() % 7}`.repeat(1 + (random() % 9))
          await session.files.write({ path: name, content, createParents: true })
          files.set(name, content)
        }
      }
      isOver = true
      await collecting
      expect(collections).toBeGreaterThan(1)
      for (const engine of engines) {
        for (const [id, files] of model.sessions) {
          const session = await engine.sessions.open(id)
          for (const name of names)
            expect([id, name, await read(session, name).catch(() => undefined)]).toEqual([
              id,
              name,
              files.get(name),
            ])
        }
      }
      expect(await engines[0]?.check({ readData: true })).toMatchObject({ found: 0, findings: [] })
      // Only what the engines have in memory may remain.
      await engines[0]?.collect()
      for (const engine of open.splice(0)) await engine.close()
      const alone = await openEngine({ storage: await storageOn(schema, { shared: false }) })
      open.push(alone)
      expect(await alone.collect()).toMatchObject({ deletedSessions: 0 })
      for (const [id, files] of model.sessions)
        for (const [name, content] of files)
          expect(await read(await alone.sessions.open(id), name)).toBe(content)
    },
  )
})
