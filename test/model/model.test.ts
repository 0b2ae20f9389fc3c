import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { limits, memoryStorage, openEngine, Session, type Storage } from '../../src/index.js'
import { operations } from './operations.js'
import { lowerBound } from '../support/lower-bound.js'
import { freshPostgres, hasPostgres } from '../support/postgres.js'
import { seed, size } from '../support/seed.js'
import { World } from './world.js'

interface Kind {
  readonly durable: boolean
  readonly runs: number
  /** Creates a separate storage for each run. */
  readonly make: () => Promise<{ storage: Storage; remove: () => Promise<void> }>
}

const inMemory = (options: Parameters<typeof memoryStorage>[0]) => () =>
  Promise.resolve({ storage: memoryStorage(options), remove: () => Promise.resolve() })

const kinds: Record<string, Kind> = {
  memory: { durable: false, runs: 25, make: inMemory({}) },
  'durable memory': { durable: true, runs: 25, make: inMemory({ durable: true }) },
  'memory without synchronous reads': {
    durable: true,
    runs: 25,
    make: inMemory({ durable: true, syncReads: false }),
  },
  level: {
    durable: true,
    runs: 12,
    make: async () => {
      const directory = await mkdtemp(join(tmpdir(), 'model-'))
      const storage = levelStorage(directory, { durability: 'relaxed' })
      return { storage, remove: () => rm(directory, { recursive: true }) }
    },
  },
  ...(hasPostgres && {
    postgres: {
      durable: true,
      runs: 8,
      make: async () => ({ ...(await freshPostgres()), remove: () => Promise.resolve() }),
    },
    'postgres, shared': {
      durable: true,
      runs: 4,
      make: async () => ({ ...(await freshPostgres({ shared: true })), remove: () => Promise.resolve() }),
    },
  }),
}

const calls: Record<string, (session: Session) => Promise<unknown>> = {
  batch: (session: Session) => session.files.batch([{ write: { path: '/a', content: 'batch' } }]),
  checkpoint: (session: Session) => session.checkpoint({ checkpointLabel: 'new' }),
  restore: (session: Session) => session.restore({ checkpointLabel: 'old' }),
  fork: (session: Session) => session.fork(),
}

describe.each(Object.entries(kinds))('%s', (_, { durable, runs, make }) => {
  test.each(['at once', 'in turns'])(
    `random operations agree with the model, batches planned %s (FORKSPACE_SEED=${seed})`,
    { timeout: 60_000 + size * 60_000 },
    async (planned) => {
      expect.hasAssertions()
      if (planned === 'in turns') lowerBound(limits, 'stepsPerTurn', 1)
      const property = fc.asyncProperty(operations({ reopening: durable }), async (list) => {
        const { storage, remove } = await make()
        const world = await World.open(storage, { durable })
        try {
          for (const operation of list) await world.run(operation)
          await world.finish()
        } finally {
          await world.close()
          await remove()
        }
      })
      await fc.assert(property, {
        seed,
        numRuns: Math.ceil((runs * size) / 2),
        interruptAfterTimeLimit: 25_000 + size * 30_000,
        markInterruptAsFailure: true,
      })
    },
  )

  test.each(Object.entries(calls))('a %s takes effect in call order', async (name, call) => {
    const { storage, remove } = await make()
    const engine = await openEngine({ storage })
    const session = await engine.sessions.create({ files: { '/a': 'old' } })
    await session.checkpoint({ checkpointLabel: 'old' })
    await session.files.write({ path: '/a', content: 'before' })
    const first = call(session)
    await Promise.all([first, session.files.write({ path: '/a', content: 'after' })])
    expect(await textOf(session)).toBe('after')
    const forked = await first
    const seen =
      forked instanceof Session
        ? forked
        : await session.fork(name === 'checkpoint' ? { checkpointLabel: 'new' } : {})
    expect(await textOf(seen)).toBe(name === 'batch' || name === 'restore' ? 'after' : 'before')
    await engine.close()
    await remove()
  })

  test('later calls do not find a session that is being deleted', async () => {
    const { storage, remove } = await make()
    const engine = await openEngine({ storage })
    const session = await engine.sessions.create({ files: { '/a': 'old' } })
    const deleted = session.delete()
    // A call at any moment of the deletion must not restore the session.
    const later: Promise<unknown>[] = []
    for (let i = 0; i < 30; i++) {
      later.push(session.files.write({ path: '/a', content: 'new' }).catch((error: unknown) => error))
      await Promise.resolve()
    }
    await Promise.all([deleted, ...later])
    await expect(session.get()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    await expect(engine.sessions.open(session.id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
    await engine.close()
    await remove()
  })
})

test.each([
  [
    'a mode that is set already',
    (session: Session) => session.files.setMode({ path: '/a', mode: 0o600 }),
    (session: Session) => session.files.setMode({ path: '/a', mode: 0o600 }),
  ],
  [
    'a rename onto itself',
    (session: Session) => session.files.write({ path: '/b', content: '' }),
    (session: Session) => session.files.rename({ sourcePath: '/b', destinationPath: '/b' }),
  ],
  [
    'a directory that exists already',
    (session: Session) => session.files.createDirectory({ path: '/d' }),
    (session: Session) => session.fs.promises.mkdir('/d', { recursive: true }),
  ],
] as const)('%s is acknowledged only after the change that caused it', async (_, change, repeat) => {
  let openGate = (): void => undefined
  const gate = new Promise<void>((resolve) => {
    openGate = resolve
  })
  let closed = false
  const memory = memoryStorage({ durable: true })
  const storage: Storage = {
    open: async () => {
      const store = await memory.open()
      const commit = store.commit.bind(store)
      store.commit = async (request) => {
        if (closed) await gate
        return commit(request)
      }
      return store
    },
  }
  const engine = await openEngine({ storage })
  const session = await engine.sessions.create({ files: { '/a': 'x' } })
  closed = true
  const settled: string[] = []
  const first = change(session).then(() => settled.push('change'))
  const second = repeat(session).then(() => settled.push('repeat'))
  await new Promise((resolve) => setImmediate(resolve))
  expect(settled).toEqual([])
  openGate()
  await Promise.all([first, second])
  await engine.close()
})

async function textOf(session: Session): Promise<string> {
  return Buffer.from(await session.files.read({ path: '/a' })).toString()
}
